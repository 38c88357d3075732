//! On random applications: a statement is judged among the ad-hoc statements near it as among all of them.

use weir_analysis::open_world::OpenWorld;
use weir_sql::Application;

use crate::crosscheck::load_to_analyze;
use crate::{random, topics, wide};

/// Applications of each generator.
const SEEDS: u64 = 25;

fn check(text: &str, app: Application) -> usize {
    OpenWorld::compare(app).unwrap_or_else(|difference| panic!("{text}: {difference}"))
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
