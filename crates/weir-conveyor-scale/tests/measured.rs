//! The service times that were measured, and what has to hold with them.

use weir_conveyor_scale::costs::{Class, Costs, MEASURED};
use weir_conveyor_scale::experiments::{Effort, Laboratory};
use weir_conveyor_scale::verdicts::{Verdict, verdicts};

fn judged(figure: &str) -> Vec<Verdict> {
    let costs = Costs::read(MEASURED).unwrap();
    let laboratory = Laboratory { costs: &costs, effort: Effort::QUICK, seed: 1 };
    verdicts(&laboratory.figure(figure).unwrap())
}

#[test]
fn every_operation_was_measured() {
    let costs = Costs::read(MEASURED).unwrap();
    let count = |application: &str| costs.of(application).len();
    assert_eq!((count("tpcw"), count("rubis")), (20, 26));
    for operation in &costs.operations {
        let is_global = matches!(operation.class, Class::Global | Class::LocalGlobal);
        assert!(operation.cpu_us > 0.0 && is_global == (operation.global_us > 0.0), "{operation:?}");
    }
}

#[test]
fn latency_by_the_share_of_local_operations_has_the_shape_of_figure_6() {
    let wrong: Vec<_> = judged("6").into_iter().filter(|verdict| !verdict.holds).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn latency_of_each_class_over_five_sites_is_within_its_bar() {
    let by_class: Vec<_> =
        judged("table-3").into_iter().filter(|verdict| verdict.claim.contains("mean of")).collect();
    assert_eq!(by_class.len(), 12);
    let wrong: Vec<_> = by_class.iter().filter(|verdict| !verdict.holds).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn more_local_operations_are_more_throughput_as_in_figure_5() {
    let verdicts = judged("5");
    assert!(verdicts[0].holds, "{verdicts:?}");
}

#[test]
fn a_figure_that_nobody_has_is_refused() {
    let costs = Costs::read(MEASURED).unwrap();
    let laboratory = Laboratory { costs: &costs, effort: Effort::QUICK, seed: 1 };
    assert!(laboratory.figure("7").unwrap_err().starts_with("there is no figure 7; there are 3-tpcw"));
}
