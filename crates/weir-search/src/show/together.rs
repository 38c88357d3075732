//! Lost updates and write skew: two calls that begin from one state, and Weir's merge of both.

use std::collections::BTreeSet;

use weir_analysis::execution::{Execution, Shows};
use weir_analysis::witness::Side;
use weir_analysis::{Anomaly, AnomalyKind, Executed};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_txn::storage::Operation;
use weir_txn::storage::operation::ColumnChange;

use super::cases::{Case, Judge, Judged, Sight, search};
use super::pairs::{Pair, Pairs, Setting, refusal};
use super::record::{Told, execution};
use super::{NOTHING, USED_UP, grouped, same_rows, smaller};
use crate::contradiction::{self, Contradiction};
use crate::lab::{Lab, Validity};
use crate::last_update::alone;
use crate::merge::merge;
use crate::replica::{Branch, NamedRows, RowName};
use crate::state::{Row, State};

/// The guard is there for another reason, and orders these two as well.
const KEPT: &str =
    "the calls that would show it meet at a guard of the plan, where the second waits for the first";

/// `later_groups` of other anomalies are still to come.
/// Gives the merges that contradict a verdict.
pub fn show(
    pairs: &mut Pairs<'_>,
    findings: &[usize],
    later_groups: usize,
    executed: &mut [Executed],
) -> Vec<Contradiction> {
    let mut contradicted = Vec::new();
    let lab = pairs.lab;
    let anomaly = |at: usize| &lab.analysis.anomalies[at];
    let groups = grouped(findings, |at| (anomaly(at).transaction, anomaly(at).with));
    let mut groups_left = (groups.len() + later_groups) as u64;
    for ((left, right), group) in groups {
        let why = match refusal(lab, &[left, right]) {
            None if pairs.steps_left == 0 => Some(USED_UP.to_owned()),
            why => why,
        };
        let nothing = why.clone().unwrap_or_else(|| NOTHING.to_owned());
        group.iter().for_each(|&at| executed[at] = Executed::NotShown(nothing.clone()));
        if why.is_none() {
            let mut judge = Merging { lab, left, right, kept: BTreeSet::new(), contradicted: Vec::new() };
            let (found, open) = search(pairs, group, groups_left, &mut judge);
            for (at, execution) in found {
                executed[at] = Executed::Shown(Box::new(execution));
            }
            for at in open.into_iter().filter(|at| judge.kept.contains(at)) {
                executed[at] = Executed::NotShown(KEPT.to_owned());
            }
            contradicted.append(&mut judge.contradicted);
        }
        groups_left -= 1;
    }
    contradicted
}

/// Two transactions, merged.
struct Merging<'l> {
    lab: &'l Lab<'l>,
    left: usize,
    right: usize,
    /// Findings that calls would show which meet at a guard.
    kept: BTreeSet<usize>,
    contradicted: Vec<Contradiction>,
}

impl<'l> Judge<'l> for Merging<'l> {
    type Together = State;

    fn setting(&self, validity: Validity, _: &[usize]) -> Setting {
        Setting {
            left: self.left,
            right: self.right,
            tables: BTreeSet::new(),
            constants: BTreeSet::new(),
            validity,
            counted_alike: false,
            reader: false,
            meeting: true,
        }
    }

    fn together(&self, pair: &Pair<'_>, later: Side) -> Option<State> {
        merge(self.lab, pair.initial, pair.left, pair.right, later)
    }

    fn judge(&mut self, finding: usize, setting: &Setting, sight: &mut Sight<'_, 'l, State>) -> Judged {
        let meets = sight.pair.meets;
        if !meets && setting.validity == Validity::Everything {
            let (initial, branches) = (sight.pair.initial, [sight.pair.left, sight.pair.right]);
            contradiction::ask(self.lab, initial, branches, sight.together, &mut self.contradicted);
        }
        if meets && self.kept.contains(&finding) {
            return Judged::Passed;
        }
        let shows = shows(self.lab, &self.lab.analysis.anomalies[finding], setting.validity, sight);
        match (shows, meets) {
            (true, true) => {
                self.kept.insert(finding);
                Judged::Passed
            }
            (true, false) => Judged::Shows { clean: !sight.fails() },
            (false, _) => Judged::DoesNotShow,
        }
    }

    fn minimised(&self, finding: usize, case: Case) -> Option<Execution> {
        minimised(self.lab, &self.lab.analysis.anomalies[finding], case)
    }
}

type Place = (TableId, RowName, ColumnIndex);

/// The columns of rows that a branch sets to values of its own.
fn assigned(branch: &Branch) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for operation in branch.operations.iter().flatten() {
        let columns = match &operation.operation {
            Operation::Update(columns) => columns.to_vec(),
            Operation::Statement(statement) => statement.columns().unwrap_or_default(),
            _ => continue,
        };
        let assigned = columns.iter().filter(|column| matches!(column.change, ColumnChange::Assign(_)));
        places.extend(assigned.map(|column| (operation.table, operation.row, column.column)));
    }
    places
}

/// Does the merge of the two show the anomaly, while everything that is declared holds?
fn shows(lab: &Lab<'_>, anomaly: &Anomaly, validity: Validity, sight: &mut Sight<'_, '_, State>) -> bool {
    let (left, right) = (assigned(sight.pair.left), assigned(sight.pair.right));
    let mut both = left.intersection(&right);
    let tables = match anomaly.kind {
        AnomalyKind::LostUpdate => {
            let Some(&(table, column)) = anomaly.items.first() else { return false };
            let here = |place: &Place| place.0 == table && column.is_none_or(|column| place.2 == column);
            if !both.any(here) {
                return false;
            }
            BTreeSet::from([table])
        }
        _ if both.next().is_some() => return false,
        _ => written(sight.pair.left, sight.pair.right),
    };
    let merged = sight.together;
    sight.no_order(|rows| !tables.iter().all(|&table| same(merged, rows, table)))
        && lab.violated(validity, merged).is_empty()
}

fn written(left: &Branch, right: &Branch) -> BTreeSet<TableId> {
    left.tables().union(&right.tables()).copied().collect()
}

fn same(merged: &State, rows: &NamedRows, table: TableId) -> bool {
    let named: Vec<&Row> = rows.iter().filter(|((of, _), _)| *of == table).map(|(_, row)| row).collect();
    same_rows(merged.table(table).iter(), named.into_iter())
}

fn minimised<'l>(lab: &'l Lab<'l>, anomaly: &Anomaly, case: Case) -> Option<Execution> {
    let mut again = |state: &State| {
        case.again(lab, state, |replica, pair| {
            if pair.meets {
                return None;
            }
            let merged = merge(lab, state, pair.left, pair.right, case.later)?;
            let mut orders = None;
            let mut sight = Sight { replica, pair, together: &merged, orders: &mut orders };
            let shows = shows(lab, anomaly, case.validity, &mut sight);
            orders.filter(|_| shows).map(|orders| (orders, merged))
        })
    };
    let first = again(&case.initial)?;
    let (initial, (left, right, (orders, merged))) = smaller(case.initial.clone(), first, &mut again);
    let told = Told {
        initial: &initial,
        left: &case.left,
        right: &case.right,
        later: case.later,
        alone: [&alone(lab, &initial, &left), &alone(lab, &initial, &right)],
        orders: &orders,
        together: ("both at once, merged".to_owned(), Some(merged)),
        shows: Shows::NoOrder,
        tables: written(&left, &right),
        columns: BTreeSet::new(),
    };
    Some(execution(lab, told))
}
