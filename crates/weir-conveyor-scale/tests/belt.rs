//! The belt in virtual time.

use weir_conveyor::settings::Settings;
use weir_conveyor_scale::belt;
use weir_conveyor_scale::costs::{Class, Home, Operation};
use weir_conveyor_scale::experiments::steps_for_tests;
use weir_conveyor_scale::load::{Classes, Load, RunClass};
use weir_conveyor_scale::sites::{Network, Reading};

pub fn operation(name: &str, class: Class, reads_only: bool, weight: u64) -> Operation {
    Operation {
        application: "test".into(),
        operation: name.into(),
        class,
        home: Home::Own,
        reads_only,
        weights: vec![weight],
        cpu_us: 1_000.0,
        global_us: if class == Class::Global { 1_200.0 } else { 0.0 },
        wait_us: 0.0,
        rows: if class == Class::Global { 3.0 } else { 0.0 },
        others: 2,
        writes_at: if reads_only { 0 } else { 3 },
        all: false,
        repeats: false,
    }
}

pub fn operations() -> Vec<Operation> {
    vec![
        operation("look", Class::Local, true, 70),
        operation("change", Class::Local, false, 25),
        operation("order", Class::Global, false, 5),
    ]
}

pub fn load(servers: usize, clients: usize) -> Load {
    Load {
        operations: operations(),
        steps: steps_for_tests(),
        mix: 0,
        classes: Classes::Analysed,
        servers,
        network: Network::LAN,
        client_sites: servers,
        clients,
        think_ms: 0.0,
        warm_up_ms: 1_500,
        measured_ms: 1_000,
        cores: 2,
        seed: 7,
    }
}

#[test]
fn a_run_is_decided_by_its_seed() {
    let run = |seed| {
        let outcome = belt::run(&Load { seed, ..load(3, 30) }, Settings::default());
        (outcome.answered, outcome.visits)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn one_server_serves_what_its_cores_can() {
    let outcome = belt::run(&load(1, 32), Settings::default());
    // Two cores, a millisecond each: 2,000 without the work of the token.
    assert!((1_500.0..2_000.0).contains(&outcome.throughput()), "{}", outcome.throughput());
    assert!(outcome.busiest > 0.95, "{}", outcome.busiest);
    assert_eq!(outcome.failed, 0);
}

#[test]
fn local_operations_scale() {
    let throughput = |servers| belt::run(&load(servers, 32 * servers), Settings::default()).throughput();
    let (one, four) = (throughput(1), throughput(4));
    assert!(four > 3.0 * one, "{one} {four}");
}

#[test]
fn each_class_has_its_share() {
    let outcome = belt::run(&load(2, 64), Settings::default());
    assert!((outcome.share(RunClass::Global) - 0.05).abs() < 0.02, "{}", outcome.share(RunClass::Global));
}

#[test]
fn over_sites_only_global_operations_wait_for_the_token() {
    let wan = Load {
        network: Network::Wan(Reading::RoundTrip),
        client_sites: 5,
        clients: 10,
        think_ms: 200.0,
        warm_up_ms: 8_000,
        measured_ms: 8_000,
        ..load(5, 10)
    };
    let settings = Settings {
        resend_ms: 1_500,
        silence_ms: 6_000,
        token_ms: 12_000,
        operation_ms: 20_000,
        ..Settings::default()
    };
    let outcome = belt::run(&wan, settings);
    assert!(outcome.class_mean_ms(RunClass::Local) < 30.0, "{}", outcome.class_mean_ms(RunClass::Local));
    assert!(outcome.class_mean_ms(RunClass::Global) > 100.0, "{}", outcome.class_mean_ms(RunClass::Global));
    assert_eq!(outcome.failed, 0);
}
