//! Lost updates and write skew: two calls that begin from one state, and Weir's merge of both.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_analysis::execution::{Execution, Shows};
use weir_analysis::witness::Side;
use weir_analysis::{Anomaly, AnomalyKind, Executed};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_txn::storage::Operation;
use weir_txn::storage::operation::ColumnChange;

use super::pairs::{Pair, Pairs, Setting, refusal};
use super::record::{Found, Told, execution};
use super::{Best, NOTHING, USED_UP, both_orders, failed, grouped, keep, same_rows, smaller};
use crate::guards;
use crate::lab::{Lab, Validity};
use crate::last_update::alone;
use crate::merge::merge;
use crate::replica::{Branch, InOrder, Invocation, NamedRows, Replica, RowName, Who};
use crate::state::{Row, State};

/// The guard is there for another reason, and orders these two as well.
const KEPT: &str =
    "the calls that would show it meet at a guard of the plan, where the second waits for the first";

struct Case {
    initial: State,
    left: Invocation,
    right: Invocation,
    later: Side,
    validity: Validity,
}

/// `later_groups` of other anomalies are still to come.
pub fn show(pairs: &mut Pairs<'_>, findings: &[usize], later_groups: usize, executed: &mut [Executed]) {
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
            let found = search(pairs, (left, right), group, groups_left);
            found.into_iter().for_each(|(at, result)| executed[at] = result);
        }
        groups_left -= 1;
    }
}

fn search(
    pairs: &mut Pairs<'_>,
    (left, right): (usize, usize),
    mut open: Vec<usize>,
    share: u64,
) -> Found<Executed> {
    let lab = pairs.lab;
    let mut found = Found::new();
    let mut kept = BTreeSet::new();
    for validity in [Validity::Everything, Validity::Constraints] {
        let setting = Setting {
            left,
            right,
            tables: BTreeSet::new(),
            constants: BTreeSet::new(),
            validity,
            counted_alike: false,
            reader: false,
            meeting: true,
        };
        let mut best: Vec<Option<Best<Case>>> = open.iter().map(|_| None).collect();
        let mut looking = vec![true; open.len()];
        pairs.each(&setting, share, &mut |replica, pair| {
            let mut orders = None;
            for later in [Side::Right, Side::Left] {
                let Some(merged) = merge(lab, pair.initial, pair.left, pair.right, later) else { continue };
                for (at, finding) in open.iter().enumerate() {
                    if !looking[at] || pair.meets && kept.contains(finding) {
                        continue;
                    }
                    let anomaly = &lab.analysis.anomalies[*finding];
                    let shows = shows(lab, anomaly, replica, pair, &merged, validity, &mut orders);
                    if shows && pair.meets {
                        kept.insert(*finding);
                        continue;
                    }
                    let case = shows.then(|| {
                        let case = Case {
                            initial: pair.initial.clone(),
                            left: pair.left.calls[0].clone(),
                            right: pair.right.calls[0].clone(),
                            later,
                            validity,
                        };
                        (case, !orders.iter().flatten().any(failed))
                    });
                    looking[at] = keep(&mut best[at], case);
                }
            }
            let steps = if orders.is_some() { 4 } else { 2 };
            let done = !looking.contains(&true);
            (steps, if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        let mut still_open = Vec::new();
        for (at, best) in std::mem::take(&mut open).into_iter().zip(best) {
            match best.and_then(|best| minimised(lab, at, best.case)) {
                Some(execution) => drop(found.insert(at, Executed::Shown(Box::new(execution)))),
                None => still_open.push(at),
            }
        }
        open = still_open;
        if open.is_empty() || pairs.steps_left == 0 {
            break;
        }
    }
    for at in open.into_iter().filter(|at| kept.contains(at)) {
        found.insert(at, Executed::NotShown(KEPT.to_owned()));
    }
    found
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
fn shows(
    lab: &Lab<'_>,
    anomaly: &Anomaly,
    replica: &mut Replica<'_>,
    pair: &Pair<'_>,
    merged: &State,
    validity: Validity,
    orders: &mut Option<[InOrder; 2]>,
) -> bool {
    let (left, right) = (assigned(pair.left), assigned(pair.right));
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
        _ => written(pair),
    };
    let (left, right) = (&pair.left.calls[0], &pair.right.calls[0]);
    let orders = orders.get_or_insert_with(|| both_orders(replica, left, right));
    orders.iter().all(|order| failed(order) || !tables.iter().all(|&table| same(merged, &order.rows, table)))
        && lab.violated(validity, merged).is_empty()
}

fn written(pair: &Pair<'_>) -> BTreeSet<TableId> {
    pair.left.tables().union(&pair.right.tables()).copied().collect()
}

fn same(merged: &State, rows: &NamedRows, table: TableId) -> bool {
    let named: Vec<&Row> = rows.iter().filter(|((of, _), _)| *of == table).map(|(_, row)| row).collect();
    same_rows(merged.table(table).iter(), named.into_iter())
}

/// A case that has been run: both branches, both orders, and the merge.
type Run = (Branch, Branch, [InOrder; 2], State);

fn rerun(lab: &Lab<'_>, anomaly: &Anomaly, case: &Case, initial: &State) -> Option<Run> {
    if !lab.violated(case.validity, initial).is_empty() {
        return None;
    }
    let mut replica = Replica::new(lab, initial).ok()?;
    let left = replica.branch(std::slice::from_ref(&case.left), Who::Left, case.validity, &mut |_| {})?;
    let right = replica.branch(std::slice::from_ref(&case.right), Who::Right, case.validity, &mut |_| {})?;
    if guards::meet(&left, &right) {
        return None;
    }
    let merged = merge(lab, initial, &left, &right, case.later)?;
    let pair = Pair { initial, left: &left, right: &right, meets: false };
    let mut orders = None;
    let holds = shows(lab, anomaly, &mut replica, &pair, &merged, case.validity, &mut orders);
    let orders = orders.filter(|_| holds)?;
    Some((left, right, orders, merged))
}

fn minimised(lab: &Lab<'_>, at: usize, case: Case) -> Option<Execution> {
    let anomaly = &lab.analysis.anomalies[at];
    let first = rerun(lab, anomaly, &case, &case.initial)?;
    let (initial, (left, right, orders, merged)) =
        smaller(case.initial.clone(), first, &mut |state| rerun(lab, anomaly, &case, state));
    let pair = Pair { initial: &initial, left: &left, right: &right, meets: false };
    let told = Told {
        initial: &initial,
        left: &case.left,
        right: &case.right,
        later: case.later,
        alone: [&alone(lab, &initial, &left), &alone(lab, &initial, &right)],
        orders: &orders,
        together: ("both at once, merged".to_owned(), Some(merged)),
        shows: Shows::NoOrder,
        tables: written(&pair),
        columns: BTreeSet::new(),
    };
    Some(execution(lab, told))
}
