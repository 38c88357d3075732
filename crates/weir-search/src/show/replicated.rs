//! Active-active replication: two calls on two nodes, and what both nodes have when the rows have travelled.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use weir_analysis::active_active::Conflict;
use weir_analysis::execution::{Execution, Shows};
use weir_analysis::witness::Side;
use weir_analysis::{Executed, InvariantId};
use weir_sql::catalog::TableId;

use super::pairs::{Pair, Pairs, Setting, refusal};
use super::record::{Found, Told, execution};
use super::{Best, NOTHING, USED_UP, both_orders, failed, grouped, keep, same_rows, smaller};
use crate::lab::{Lab, Validity};
use crate::last_update::{Replicated, alone, equal, local, replicate, unnamed};
use crate::replica::{Branch, InOrder, Invocation, NamedRows, Replica, RowName, Who};
use crate::state::{Row, State, View};

/// What would show a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Aim {
    /// A row of the table that both change is as no order leaves it.
    Overwritten(TableId),
    /// A row that one changes and the other deletes.
    Deleted(TableId),
    /// Both insert a row of one primary key.
    SameKey(TableId),
    /// Both insert or make a row of one unique key.
    Stops(TableId, String),
    Violates(InvariantId),
}

impl Aim {
    /// One server would have refused one of the two: there is nothing cleaner to look for.
    fn wants_failure(&self) -> bool {
        matches!(self, Aim::Stops(..) | Aim::Deleted(_))
    }
}

/// Where a conflict shows, as far as it has to be run again.
struct Case {
    initial: State,
    left: Invocation,
    right: Invocation,
    later: Side,
    validity: Validity,
    counted_alike: bool,
}

pub fn show(pairs: &mut Pairs<'_>, list: &[Conflict], executed: &mut [Executed]) {
    let lab = pairs.lab;
    let mut open: Vec<(usize, Aim)> = Vec::new();
    for (at, conflict) in list.iter().enumerate() {
        executed[at] = match (refusal(lab, &[conflict.transaction, conflict.with]), aim(lab, conflict)) {
            (Some(why), _) => Executed::NotShown(why),
            (None, None) => Executed::NotShown("the engine does not check this invariant".to_owned()),
            (None, Some(aim)) => {
                open.push((at, aim));
                Executed::NotShown(NOTHING.to_owned())
            }
        };
    }
    let findings: Vec<usize> = open.iter().map(|(at, _)| *at).collect();
    let key = |at: usize| {
        let conflict = &list[at];
        (conflict.transaction, conflict.with, conflict.kind == "sequence-collision")
    };
    let groups = grouped(&findings, key);
    let mut groups_left = groups.len() as u64;
    for ((left, right, counted_alike), group) in groups {
        let aims: Vec<(usize, Aim)> = open.iter().filter(|(at, _)| group.contains(at)).cloned().collect();
        if pairs.steps_left == 0 {
            aims.iter().for_each(|(at, _)| executed[*at] = Executed::NotShown(USED_UP.to_owned()));
            continue;
        }
        for (at, execution) in search(pairs, (left, right, counted_alike), aims, groups_left) {
            executed[at] = Executed::Shown(Box::new(execution));
        }
        groups_left -= 1;
    }
}

fn aim(lab: &Lab<'_>, conflict: &Conflict) -> Option<Aim> {
    let invariant = || {
        let name = conflict.invariant.as_deref()?;
        let list = &lab.analysis.invariants;
        let at = list.iter().position(|one| one.name == name)?;
        let id = InvariantId(at as u32);
        lab.can_check(id).then_some(Aim::Violates(id))
    };
    let table = conflict.table;
    match conflict.kind {
        "row-overwritten" => table.map(Aim::Overwritten),
        "update-meets-delete" => table.map(Aim::Deleted),
        "same-key-inserted" => table.map(Aim::SameKey),
        "unique-collision" => Some(Aim::Stops(table?, conflict.invariant.clone()?)),
        "sequence-collision" => {
            let (table, key) = (table?, conflict.invariant.as_deref()?);
            let primary = lab.application.catalog.table(table).primary_key.as_ref();
            match primary.is_some_and(|primary| primary.name == key) {
                true => Some(Aim::SameKey(table)),
                false => Some(Aim::Stops(table, key.to_owned())),
            }
        }
        _ => invariant(),
    }
}

/// What one pair of transactions shows, minimised.
fn search(
    pairs: &mut Pairs<'_>,
    (left, right, counted_alike): (usize, usize, bool),
    mut open: Vec<(usize, Aim)>,
    share: u64,
) -> Found<Execution> {
    let lab = pairs.lab;
    let mut found = Found::new();
    let mut tables = BTreeSet::new();
    let mut constants = BTreeSet::new();
    for (_, aim) in &open {
        if let Aim::Violates(invariant) = aim {
            tables.extend(lab.mention(*invariant).tables.iter().copied());
            constants.extend(lab.mention(*invariant).constants.iter().cloned());
        }
    }
    for validity in [Validity::Everything, Validity::Constraints] {
        // Of one invariant, what it asks for must hold before, whatever else does.
        let validity = match (validity, open.first()) {
            (Validity::Constraints, Some((_, Aim::Violates(invariant)))) => Validity::Only(*invariant),
            (validity, _) => validity,
        };
        let setting = Setting {
            left,
            right,
            tables: tables.clone(),
            constants: constants.clone(),
            validity,
            counted_alike,
            reader: false,
            meeting: false,
        };
        let mut best: Vec<Option<Best<Case>>> = open.iter().map(|_| None).collect();
        let mut looking = vec![true; open.len()];
        pairs.each(&setting, share, &mut |replica, pair| {
            let mut orders = None;
            for later in [Side::Right, Side::Left] {
                let replicated = replicate(lab, pair.initial, pair.left, pair.right, later);
                let mut look = Look::at(lab, replica, pair, &replicated, &mut orders);
                for (at, (_, aim)) in open.iter().enumerate() {
                    if !looking[at] {
                        continue;
                    }
                    let case = look.shows(aim).map(|_| {
                        let case = Case {
                            initial: pair.initial.clone(),
                            left: pair.left.calls[0].clone(),
                            right: pair.right.calls[0].clone(),
                            later,
                            validity,
                            counted_alike,
                        };
                        let fails = look.orders.iter().flatten().any(failed);
                        (case, (!fails || aim.wants_failure()) && look.is_visible(aim))
                    });
                    looking[at] = keep(&mut best[at], case);
                }
            }
            let steps = if orders.is_some() { 4 } else { 2 };
            let done = !looking.contains(&true);
            (steps, if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        let mut still_open = Vec::new();
        for ((at, aim), best) in std::mem::take(&mut open).into_iter().zip(best) {
            match best.and_then(|best| minimised(lab, &aim, best.case)) {
                Some(execution) => drop(found.insert(at, execution)),
                None => still_open.push((at, aim)),
            }
        }
        open = still_open;
        if open.is_empty() || pairs.steps_left == 0 {
            break;
        }
    }
    found
}

/// Rows that a branch has written, and what has become of them.
type Local = BTreeMap<(TableId, RowName), Option<Row>>;

/// One pair under the eye; both orders are run at most once.
struct Look<'a, 'l> {
    lab: &'l Lab<'l>,
    replica: &'a mut Replica<'l>,
    pair: &'a Pair<'a>,
    replicated: &'a Replicated,
    orders: &'a mut Option<[InOrder; 2]>,
    left: Local,
    right: Local,
}

impl<'a, 'l> Look<'a, 'l> {
    fn at(
        lab: &'l Lab<'l>,
        replica: &'a mut Replica<'l>,
        pair: &'a Pair<'a>,
        replicated: &'a Replicated,
        orders: &'a mut Option<[InOrder; 2]>,
    ) -> Look<'a, 'l> {
        let (left, right) = (local(lab, pair.initial, pair.left), local(lab, pair.initial, pair.right));
        Look { lab, replica, pair, replicated, orders, left, right }
    }

    /// Why the pair shows it, if it does.
    fn shows(&mut self, aim: &Aim) -> Option<Shows> {
        match aim {
            Aim::Overwritten(table) => self.changed(*table, [true, true]).then_some(Shows::NoOrder),
            Aim::Deleted(table) => self.changed(*table, [true, false]).then_some(Shows::NoOrder),
            Aim::SameKey(table) => self.same_key(*table).then_some(Shows::NoOrder),
            Aim::Stops(table, key) => {
                let stops = self.replicated.stops.as_ref()? == &(*table, key.clone());
                stops.then(|| Shows::Stops { key: key.clone() })
            }
            Aim::Violates(invariant) => self.violates(*invariant),
        }
    }

    /// In either order a call fails, or what it leads to differs.
    fn no_order(&mut self, differs: impl Fn(&NamedRows) -> bool) -> bool {
        let (left, right) = (&self.pair.left.calls[0], &self.pair.right.calls[0]);
        let replica = &mut *self.replica;
        let orders = self.orders.get_or_insert_with(|| both_orders(replica, left, right));
        orders.iter().all(|order| failed(order) || differs(&order.rows))
    }

    /// A row of the table that both have written is as no order leaves it; `there` says on which sides it still is.
    fn changed(&mut self, table: TableId, there: [bool; 2]) -> bool {
        let right = &self.right;
        let both = self.left.iter().filter(|((of, _), _)| *of == table).filter(|(name, row)| {
            right.get(name).is_some_and(|other| [row.is_some(), other.is_some()] == there)
        });
        let names: Vec<(TableId, RowName)> = both.map(|(name, _)| *name).collect();
        let replicated = self.replicated;
        names.iter().any(|name| self.no_order(|rows| rows.get(name) != replicated.rows.get(name)))
    }

    /// Both sides have made a row of the table another one than it was.
    fn is_visible(&self, aim: &Aim) -> bool {
        let Aim::Overwritten(table) = aim else { return true };
        let rows = self.pair.initial.table(*table);
        self.left.iter().filter(|((of, _), _)| of == table).any(|(name, row)| {
            let RowName::Initial(at) = name.1 else { return false };
            let changed = |row: &Option<Row>| row.as_ref() != rows.get(at as usize);
            changed(row) && self.right.get(name).is_some_and(changed)
        })
    }

    fn same_key(&mut self, table: TableId) -> bool {
        let Some(key) = &self.lab.application.catalog.table(table).primary_key else { return false };
        let new = |rows: &'_ Local| -> Vec<Row> {
            let new = rows.iter().filter(|((of, name), _)| *of == table && matches!(name, RowName::New(..)));
            new.filter_map(|(_, row)| row.clone()).collect()
        };
        let (ours, theirs) = (new(&self.left), new(&self.right));
        if !ours.iter().any(|row| theirs.iter().any(|other| equal(&key.columns, row, other))) {
            return false;
        }
        let of_table = |rows: &NamedRows| -> Vec<Row> {
            rows.iter().filter(|((of, _), _)| *of == table).map(|(_, row)| row.clone()).collect()
        };
        let both = of_table(&self.replicated.rows);
        self.no_order(|rows| !same_rows(of_table(rows).iter(), both.iter()))
    }

    fn violates(&mut self, invariant: InvariantId) -> Option<Shows> {
        if self.replicated.stops.is_some() {
            return None;
        }
        let (lab, schema) = (self.lab, &self.lab.program.schema);
        let violation = |rows: &NamedRows| lab.violation(invariant, &View { schema, state: &unnamed(rows) });
        let row = violation(&self.replicated.rows)?;
        // On one server it would not have come to that.
        self.no_order(|rows| violation(rows).is_none()).then(|| Shows::Violates {
            invariant: lab.analysis.invariants[invariant.0 as usize].name.clone(),
            row: crate::cells(lab, invariant, &row),
        })
    }
}

/// A case that has been run: both branches, both orders, why it counts, and what was replicated.
type Run = (Branch, Branch, [InOrder; 2], Shows, Replicated);

/// Runs a case again from this state, if it still shows what it is to show.
fn rerun<'l>(lab: &'l Lab<'l>, case: &Case, initial: &State, aim: &Aim) -> Option<Run> {
    if !lab.violated(case.validity, initial).is_empty() {
        return None;
    }
    let mut replica = Replica::new(lab, initial).ok()?;
    replica.counted_alike = case.counted_alike;
    let left = replica.branch(std::slice::from_ref(&case.left), Who::Left, case.validity, &mut |_| {})?;
    let right = replica.branch(std::slice::from_ref(&case.right), Who::Right, case.validity, &mut |_| {})?;
    let replicated = replicate(lab, initial, &left, &right, case.later);
    let pair = Pair { initial, left: &left, right: &right, meets: false };
    let mut orders = None;
    let shows = Look::at(lab, &mut replica, &pair, &replicated, &mut orders).shows(aim)?;
    let orders = orders.unwrap_or_else(|| both_orders(&mut replica, &case.left, &case.right));
    Some((left, right, orders, shows, replicated))
}

fn minimised<'l>(lab: &'l Lab<'l>, aim: &Aim, case: Case) -> Option<Execution> {
    let first = rerun(lab, &case, &case.initial, aim)?;
    let (initial, (left, right, orders, shows, replicated)) =
        smaller(case.initial.clone(), first, &mut |state| rerun(lab, &case, state, aim));
    let (tables, columns) = match aim {
        Aim::Overwritten(table) | Aim::Deleted(table) | Aim::SameKey(table) | Aim::Stops(table, _) => {
            (BTreeSet::from([*table]), BTreeSet::new())
        }
        Aim::Violates(invariant) => {
            let shown = crate::shown(lab, *invariant);
            (lab.mention(*invariant).tables.clone(), shown.into_iter().collect())
        }
    };
    let stops = replicated.stops.is_some();
    let told = Told {
        initial: &initial,
        left: &case.left,
        right: &case.right,
        later: case.later,
        alone: [&alone(lab, &initial, &left), &alone(lab, &initial, &right)],
        orders: &orders,
        together: (
            format!("both nodes, the {} commit is the later", case.later.name()),
            (!stops).then(|| unnamed(&replicated.rows)),
        ),
        shows,
        tables,
        columns,
    };
    Some(execution(lab, told))
}
