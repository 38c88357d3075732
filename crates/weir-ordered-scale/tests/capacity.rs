//! A machine is a queue with one server, and a seed decides everything.

use weir_baselines::eris::workload::{Kind, Workload};
use weir_ordered_scale::costs::{Cost, Costs, Role, SequencerKind};
use weir_ordered_scale::run::{PROTOCOLS, run};
use weir_ordered_scale::simulation::Settings;

use crate::settings;

#[test]
fn a_seed_decides_everything() {
    for protocol in PROTOCOLS {
        let workload = Workload { kind: Kind::Crmw, distributed: 0.2, zipf: 0.9, ..settings(2, 1).workload };
        let with_seed = |seed| {
            let mut settings = Settings { workload, seed, ..settings(2, 16) };
            settings.network.loss = 0.001;
            run(protocol, &settings)
        };
        assert_eq!(with_seed(1), with_seed(1), "{protocol}");
        assert_ne!(with_seed(1), with_seed(2), "{protocol}");
    }
}

#[test]
fn a_busy_server_answers_as_many_as_its_service_time_allows() {
    // A message in and one out.
    let outcome = run("nt-ur", &settings(1, 100));
    let expected = 1e9 / 2_000.0;
    assert!((outcome.throughput() / expected - 1.0).abs() < 0.01, "{}", outcome.throughput());
    assert!(outcome.busiest_replica > 0.99, "{}", outcome.busiest_replica);
    let meter = outcome.meter(Role::Learner);
    assert_eq!((meter.received, meter.sent), (meter.sent, meter.received));
}

#[test]
fn a_server_that_waits_answers_after_the_way_and_the_service() {
    let outcome = run("nt-ur", &settings(1, 1));
    let latency_us = outcome.latency.value_at_quantile(0.5) as f64 / 1e3;
    // Two ways of 10 to 11 microseconds, and the service.
    assert!((22.0..=24.1).contains(&latency_us), "{latency_us}");
    let expected = 1e6 / latency_us;
    assert!((outcome.throughput() / expected - 1.0).abs() < 0.02, "{}", outcome.throughput());
}

#[test]
fn more_clients_than_a_server_can_serve_wait_for_each_other() {
    let latency_us = |clients| run("nt-ur", &settings(1, clients)).latency.mean() / 1e3;
    // Little's law: the clients are the throughput times the latency.
    for clients in [50, 200] {
        let expected = clients as f64 * 2.0;
        assert!((latency_us(clients) / expected - 1.0).abs() < 0.02, "{clients}: {}", latency_us(clients));
    }
}

#[test]
fn a_sequencer_on_one_core_is_the_limit_of_many_shards() {
    let costs = Costs { sequencer: Cost { receive_ns: 1_000.0, send_ns: 0.0 }, ..settings(1, 1).costs };
    let of = |shards: u16, costs| {
        run("ordered", &Settings { costs, ..settings(shards, 64 * usize::from(shards)) }).throughput()
    };
    let limited = of(8, costs);
    assert!((limited / 1e6 - 1.0).abs() < 0.02, "{limited}");
    let free = of(8, SequencerKind::Switch.applied(costs));
    assert!((free / 4e6 - 1.0).abs() < 0.06, "{free}");
    let middlebox = of(16, SequencerKind::Middlebox.applied(costs));
    assert!((middlebox / 6.19e6 - 1.0).abs() < 0.05, "{middlebox}");
}
