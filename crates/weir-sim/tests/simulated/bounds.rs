//! State of shards and coordinators while a cluster runs at full speed: bounds in numbers, over virtual time. `weir sim items --hours 1`
//! is the long form.

use weir_kv::Variant;
use weir_kv::faults::PlantedBugs;
use weir_sim::items::bounds::{Pace, Sample, first_excess, run_for};

fn quick(bugs: PlantedBugs) -> Pace<PlantedBugs> {
    let pace = Pace::new(Variant::Fast, 40);
    Pace { coordinators: 2, sessions: 4, items: 1_000, mishap_every_s: 2, bugs, ..pace }
}

#[test]
fn what_is_kept_is_bounded() {
    let pace = quick(PlantedBugs::default());
    let samples = run_for(&pace);
    if let Some(excess) = first_excess(&pace, &samples) {
        panic!("too much is kept: {excess:?}");
    }
    let last = samples.last().expect("there are samples");
    println!("{last:?}");
    assert!(last.transactions > 2_000 && samples.iter().any(|sample| sample.kept.promises_and_outcomes > 0));
    let most = |of: fn(&Sample) -> usize| samples.iter().map(of).max().unwrap_or_default();
    println!(
        "most: {} versions, {} transactions' metadata, {} tombstones, {} under way, {} promises and outcomes, {} words",
        most(|sample| sample.kept.versions),
        most(|sample| sample.kept.committed),
        most(|sample| sample.kept.tombstones),
        most(|sample| sample.in_flight),
        most(|sample| sample.kept.promises_and_outcomes),
        most(|sample| sample.kept.window_words),
    );
}

/// The test would see it.
#[test]
fn waits_for_readers() {
    let pace = quick(PlantedBugs { waits_for_readers: true, ..PlantedBugs::default() });
    assert!(first_excess(&pace, &run_for(&pace)).is_some());
}
