//! What the protocols promise of scale, and what failures leave of it.

use weir_baselines::eris::workload::{Kind, Workload};
use weir_ordered_scale::costs::SequencerKind;
use weir_ordered_scale::run::{PROTOCOLS, run};
use weir_ordered_scale::simulation::{Settings, Window};

use crate::settings;

/// MRMW with 20% distributed, and a sequencer in the network.
fn scaled(shards: u16) -> Settings {
    let settings = settings(shards, 64 * usize::from(shards));
    let workload = Workload { kind: Kind::Mrmw, distributed: 0.2, ..settings.workload };
    Settings { workload, costs: SequencerKind::Switch.applied(settings.costs), ..settings }
}

#[test]
fn ordered_transactions_scale_with_the_shards_and_a_global_order_does_not() {
    let throughput = |protocol, shards| run(protocol, &scaled(shards)).throughput();
    let ordered = throughput("ordered", 8) / throughput("ordered", 2);
    assert!((3.5..4.5).contains(&ordered), "{ordered}");
    let global = throughput("ordered-global", 8) / throughput("ordered-global", 2);
    assert!(global < 1.5, "{global}");
}

#[test]
fn everybody_makes_progress_with_every_workload() {
    for protocol in PROTOCOLS {
        for kind in Kind::ALL {
            let workload = Workload { kind, zipf: 0.9, ..scaled(3).workload };
            let outcome = run(protocol, &Settings { workload, ..scaled(3) });
            assert!(outcome.answered > 1_000, "{protocol} {kind:?}: {}", outcome.answered);
        }
    }
}

#[test]
fn lost_messages_cost_throughput() {
    for protocol in ["ordered", "granola", "tapir", "lock-store"] {
        let with_loss = |loss| {
            let mut settings = settings(2, 200);
            settings.network.loss = loss;
            run(protocol, &settings)
        };
        let (whole, lossy) = (with_loss(0.0), with_loss(0.01));
        assert!(lossy.messages_lost > 0 && whole.messages_lost == 0);
        assert!(lossy.throughput() < whole.throughput(), "{protocol}");
        assert!(lossy.answered > 100, "{protocol}: {}", lossy.answered);
    }
}

#[test]
fn another_sequencer_takes_the_place_of_one_that_ends() {
    let most_ns = 1_200_000_000;
    let window = Window { least_ns: most_ns, most_ns, answered: 0 };
    let settings = Settings { window, sequencer_ends_ns: Some(50_000_000), ..settings(2, 2) };
    let answered_in = run("ordered", &settings).answered_in;
    let during = |from: usize, to: usize| answered_in[from..to].iter().sum::<u64>();
    let before = during(20, 50);
    // It is suspected after 150 ms. Clients repeat after 50, 100, 200 and 400 ms.
    assert_eq!(during(60, 180), 0);
    assert!(during(1_150, 1_180) * 10 > before * 9, "{before}, then {}", during(1_150, 1_180));
}
