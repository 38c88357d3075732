//! Executions for findings: effects of an anomaly, or of active-active replication, on values.
//!
//! A finding of the analysis says what *may* happen; here its two calls are run with the real executor from a small
//! valid state, each alone, then merged (by operations as Weir does, or by whole rows as replication of PostgreSQL
//! does), and compared with both orders of the two. What no order leads to is shown, minimised. Nothing found within the
//! bounds proves nothing, and is said so.

mod cases;
mod pairs;
mod readers;
mod record;
mod replicated;
mod together;

use std::collections::BTreeMap;

use weir_analysis::active_active::Conflict;
use weir_analysis::{Analysis, AnomalyKind, Executed};
use weir_sql::Application;

use crate::contradiction;
use crate::lab::{Lab, NotRunnable};
use crate::state::{Row, State};

pub use pairs::ShowLimits;
pub(crate) use record::call;

const NOTHING: &str = "no execution within the bounds of the search shows it";
const USED_UP: &str = "the search has used up its steps";

/// Number of findings, and of those shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShowSummary {
    pub asked: usize,
    pub shown: usize,
    pub steps: u64,
}

/// Runs the examples of the anomalies: under the plan's guards, because they are about what the plan allows. Every merge
/// that is made for it is put to every invariant.
pub fn anomalies(application: &Application, analysis: &mut Analysis, limits: ShowLimits) -> ShowSummary {
    let mut executed: Vec<Executed> = vec![Executed::NotTried; analysis.anomalies.len()];
    let mut contradicted = Vec::new();
    let mut steps_left = limits.steps;
    if !executed.is_empty() {
        match Lab::guarded(application, analysis) {
            Err(NotRunnable(why)) => executed.fill(Executed::NotShown(why)),
            Ok(lab) => {
                let mut pairs = pairs::Pairs::new(&lab, limits, limits.steps);
                let wants_reader = |kind| matches!(kind, AnomalyKind::FracturedRead | AnomalyKind::LongFork);
                let (readers, writers): (Vec<usize>, Vec<usize>) =
                    (0..executed.len()).partition(|&at| wants_reader(analysis.anomalies[at].kind));
                contradicted = together::show(&mut pairs, &writers, readers.len(), &mut executed);
                readers::show(&mut pairs, &readers, &mut executed);
                steps_left = pairs.steps_left;
            }
        }
    }
    let summary = summary(&executed, limits.steps - steps_left);
    for (anomaly, executed) in analysis.anomalies.iter_mut().zip(executed) {
        anomaly.executed = executed;
    }
    contradiction::take_back(application, analysis, contradicted);
    summary
}

/// Runs the two executions of each conflict of active-active replication, on nodes without any guard.
pub fn conflicts(
    application: &Application,
    analysis: &Analysis,
    list: &mut [Conflict],
    limits: ShowLimits,
) -> ShowSummary {
    let mut executed: Vec<Executed> = vec![Executed::NotTried; list.len()];
    let mut steps_left = limits.steps;
    if !list.is_empty() {
        match Lab::new(application, analysis) {
            Err(NotRunnable(why)) => executed.fill(Executed::NotShown(why)),
            Ok(lab) => {
                let mut pairs = pairs::Pairs::new(&lab, limits, limits.steps);
                replicated::show(&mut pairs, list, &mut executed);
                steps_left = pairs.steps_left;
            }
        }
    }
    let summary = summary(&executed, limits.steps - steps_left);
    for (conflict, executed) in list.iter_mut().zip(executed) {
        conflict.executed = executed;
    }
    summary
}

fn summary(executed: &[Executed], steps: u64) -> ShowSummary {
    let shown = executed.iter().filter(|executed| executed.execution().is_some()).count();
    ShowSummary { asked: executed.len(), shown, steps }
}

/// Findings that the same pair of calls may show are looked for together.
fn grouped<K: Ord>(findings: &[usize], key: impl Fn(usize) -> K) -> BTreeMap<K, Vec<usize>> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    findings.iter().for_each(|&at| groups.entry(key(at)).or_default().push(at));
    groups
}

/// Compares rows, ignoring their order.
fn same_rows<'r>(rows: impl Iterator<Item = &'r Row>, others: impl Iterator<Item = &'r Row>) -> bool {
    let mut others: Vec<&Row> = others.collect();
    for row in rows {
        match others.iter().position(|other| *other == row) {
            Some(at) => drop(others.swap_remove(at)),
            None => return false,
        }
    }
    others.is_empty()
}

/// A smaller state from which the same still holds: rows are left away one by one, then two at once.
fn smaller<T>(initial: State, shown: T, again: &mut dyn FnMut(&State) -> Option<T>) -> (State, T) {
    let (mut initial, mut shown) = (initial, shown);
    loop {
        let fewer = crate::minimise::fewer_rows(&initial).find_map(|state| Some((again(&state)?, state)));
        match fewer {
            Some((found, state)) => (initial, shown) = (state, found),
            None => return (initial, shown),
        }
    }
}
