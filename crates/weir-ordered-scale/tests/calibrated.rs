//! Costs that were measured: what they predict was measured too, and wrong ones are found.

use weir_baselines::eris::workload::Kind;
use weir_ordered_scale::calibration::{Calibration, MEASURED};
use weir_ordered_scale::costs::Role;
use weir_ordered_scale::run::PROTOCOLS;

/// A prediction may be wrong by so much. Times were measured beside other programs.
const ERROR_MAX: f64 = 0.35;

fn worst(calibration: &Calibration) -> f64 {
    let predictions = calibration.predictions().unwrap();
    assert!(predictions.len() > PROTOCOLS.len(), "{predictions:?}");
    predictions.iter().map(|each| each.error().abs()).fold(0.0, f64::max)
}

#[test]
fn costs_predict_runs_that_they_are_not_taken_from() {
    let calibration = Calibration::read(MEASURED).unwrap();
    assert!(worst(&calibration) < ERROR_MAX, "{:?}", calibration.predictions());
}

#[test]
fn a_planted_wrong_cost_is_found() {
    for protocol in ["nt-ur", "ordered", "granola", "tapir", "lock-store"] {
        let planted: String = MEASURED.lines().map(|line| doubled(line, protocol)).collect();
        let calibration = Calibration::read(&planted).unwrap();
        assert!(worst(&calibration) > ERROR_MAX, "{protocol}");
    }
}

/// The line, with twice the time of a learner if it is a run of that protocol that costs are taken from.
fn doubled(line: &str, protocol: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
    if value["protocol"] == protocol && value["distributed"] == 0.2 {
        value["learner_us"] = (2.0 * value["learner_us"].as_f64().unwrap()).into();
    }
    format!("{value}\n")
}

#[test]
fn costs_are_times_divided_by_messages() {
    let run = |learner_us: f64| {
        format!(
            "{{\"entry_ns\":5}}\n{{\"protocol\":\"nt-ur\",\"workload\":\"srw\",\"shards\":3,\"replicas\":1,\"clients\":64,\
             \"distributed\":0,\"zipf\":0,\"loss\":0,\"learner_us\":{learner_us},\"follower_us\":0,\"sequencer_us\":0}}\n"
        )
    };
    let costs = Calibration::read(&run(3.0)).unwrap().costs("nt-ur", Kind::Srw).unwrap();
    let cost = costs.of(Role::Learner);
    // One message is received and one sent, but for those under way when the count begins and ends.
    assert!((cost.receive_ns - 1_500.0).abs() < 30.0 && cost.receive_ns == cost.send_ns, "{cost:?}");
    assert_eq!(costs.entry_ns, 5.0);
    assert!(Calibration::read("{\"entry_ns\":5}").is_err());
    assert!(Calibration::read("{}").is_err());
    assert!(Calibration::read(&run(3.0)).unwrap().costs("tapir", Kind::Srw).is_err());
}
