//! The comparators in virtual time, and the verdicts' tables.

use weir_conveyor::settings::Settings;
use weir_conveyor_scale::costs::Costs;
use weir_conveyor_scale::load::{Classes, Load};
use weir_conveyor_scale::{belt, two_phase};

use crate::belt::load;

#[test]
fn a_transaction_at_one_server_is_not_distributed() {
    let one = two_phase::run(&load(1, 32)).throughput();
    assert!((1_900.0..2_010.0).contains(&one), "{one}");
}

#[test]
fn what_crosses_costs_two_phase_commit_more_than_the_belt() {
    let of_belt = belt::run(&load(6, 768), Settings::default()).throughput();
    let of_two_phase = two_phase::run(&load(6, 768)).throughput();
    assert!(of_belt > of_two_phase, "{of_belt} {of_two_phase}");
}

#[test]
fn writes_of_the_read_only_baseline_run_at_one_server() {
    let run = |servers| {
        let load = Load { classes: Classes::ReadOnly, ..load(servers, 32 * servers) };
        belt::run(&load, Settings::default()).throughput()
    };
    let (three, nine) = (run(3), run(9));
    assert!(nine < 2.0 * three, "{three} {nine}");
}

#[test]
fn a_wrong_line_of_costs_is_named() {
    assert!(Costs::read("{\"note\":\"a\"}\n{\"steps\":7}\n").unwrap_err().starts_with("line 2: "));
    assert_eq!(
        Costs::read("{\"note\":\"a\"}\n").unwrap_err(),
        "there is no line with the steps of the protocols"
    );
}
