//! On random applications: a statement is judged among the ad-hoc statements near it as among all of them.

use std::sync::Arc;

use weir_analysis::analyze;
use weir_analysis::open_world::OpenWorld;
use weir_sql::Application;
use weir_sql::bound::Procedure;

use crate::crosscheck::load_to_analyze;
use crate::{random, topics, wide};

/// Applications of each generator.
const SEEDS: u64 = 25;

fn check(text: &str, app: Application) -> usize {
    let placement = analyze(&app).plan.placement;
    let ad_hoc = app.catalog.tables.iter().flat_map(weir_sql::synthesised_of);
    let own = app.procedures.iter().filter(|procedure| !procedure.synthesised).cloned();
    let statements: Vec<Procedure> = ad_hoc.chain(own).collect();
    let world = OpenWorld::new(&Arc::new(app), &placement);
    for statement in &statements {
        let near = world.admit(statement.clone());
        let full = world.admit_in_full(statement.clone());
        assert_eq!(format!("{near:?}"), format!("{full:?}"), "{}\n{text}", statement.name);
    }
    statements.len()
}

#[test]
fn of_random_applications() {
    let mut judged = 0;
    for seed in 0..SEEDS {
        for text in [random::application(seed), topics::application(seed), wide::application(seed)] {
            let app = load_to_analyze(&text);
            let mut bare = app.clone();
            bare.procedures.clear();
            judged += check(&text, app) + check(&text, bare);
        }
    }
    assert!(judged > 500, "{judged}");
}
