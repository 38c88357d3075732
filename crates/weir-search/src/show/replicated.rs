//! Active-active replication: two calls on two nodes, and what both nodes have when the rows have travelled.

use std::collections::{BTreeMap, BTreeSet};

use weir_analysis::active_active::Conflict;
use weir_analysis::execution::{Execution, Shows};
use weir_analysis::witness::Side;
use weir_analysis::{Executed, InvariantId};
use weir_sql::catalog::TableId;

use super::cases::{Case, Judge, Judged, Sight, search};
use super::pairs::{Pair, Pairs, Setting, refusal};
use super::record::{Told, execution};
use super::{NOTHING, USED_UP, grouped, same_rows, smaller};
use crate::lab::{Lab, Validity};
use crate::last_update::{Replicated, alone, equal, local, replicate, unnamed};
use crate::literals::Constant;
use crate::replica::{NamedRows, RowName};
use crate::state::{Row, State, View};

/// Result that would show a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Aim {
    /// A row of the table changed by both, in a state that no serial order produces.
    Overwritten(TableId),
    /// A row that one changes and the other deletes.
    Deleted(TableId),
    /// Both insert a row with the same primary key.
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

pub fn show(pairs: &mut Pairs<'_>, list: &[Conflict], executed: &mut [Executed]) {
    let lab = pairs.lab;
    let mut aims: BTreeMap<usize, Aim> = BTreeMap::new();
    for (at, conflict) in list.iter().enumerate() {
        executed[at] = match (refusal(lab, &[conflict.transaction, conflict.with]), aim(lab, conflict)) {
            (Some(why), _) => Executed::NotShown(why),
            (None, None) => Executed::NotShown("the engine does not check this invariant".to_owned()),
            (None, Some(aim)) => {
                aims.insert(at, aim);
                Executed::NotShown(NOTHING.to_owned())
            }
        };
    }
    let findings: Vec<usize> = aims.keys().copied().collect();
    let key = |at: usize| {
        let conflict = &list[at];
        (conflict.transaction, conflict.with, conflict.kind == "sequence-collision")
    };
    let groups = grouped(&findings, key);
    let mut groups_left = groups.len() as u64;
    for ((left, right, counted_alike), group) in groups {
        if pairs.steps_left == 0 {
            group.iter().for_each(|&at| executed[at] = Executed::NotShown(USED_UP.to_owned()));
            continue;
        }
        let mut judge = Replication::of(lab, (left, right, counted_alike), &group, &aims);
        let (found, _) = search(pairs, group, groups_left, &mut judge);
        for (at, execution) in found {
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

/// Two transactions on two nodes, and what would show their conflicts.
struct Replication<'a, 'l> {
    lab: &'l Lab<'l>,
    aims: &'a BTreeMap<usize, Aim>,
    left: usize,
    right: usize,
    counted_alike: bool,
    /// Tables and constants of the invariants among the aims.
    tables: BTreeSet<TableId>,
    constants: BTreeSet<Constant>,
}

impl<'a, 'l> Replication<'a, 'l> {
    fn of(
        lab: &'l Lab<'l>,
        (left, right, counted_alike): (usize, usize, bool),
        findings: &[usize],
        aims: &'a BTreeMap<usize, Aim>,
    ) -> Replication<'a, 'l> {
        let (mut tables, mut constants) = (BTreeSet::new(), BTreeSet::new());
        for aim in findings.iter().map(|at| &aims[at]) {
            if let Aim::Violates(invariant) = aim {
                tables.extend(lab.mention(*invariant).tables.iter().copied());
                constants.extend(lab.mention(*invariant).constants.iter().cloned());
            }
        }
        Replication { lab, aims, left, right, counted_alike, tables, constants }
    }
}

impl<'l> Judge<'l> for Replication<'_, 'l> {
    type Together = Nodes;

    fn setting(&self, validity: Validity, open: &[usize]) -> Setting {
        // For a single invariant, only its own requirements must hold before.
        let validity = match (validity, open.first().map(|at| &self.aims[at])) {
            (Validity::Constraints, Some(Aim::Violates(invariant))) => Validity::Only(*invariant),
            (validity, _) => validity,
        };
        Setting {
            left: self.left,
            right: self.right,
            tables: self.tables.clone(),
            constants: self.constants.clone(),
            validity,
            counted_alike: self.counted_alike,
            reader: false,
            meeting: false,
        }
    }

    fn together(&self, pair: &Pair<'_>, later: Side) -> Option<Nodes> {
        Some(Nodes::of(self.lab, pair, later))
    }

    fn judge(&mut self, finding: usize, _: &Setting, sight: &mut Sight<'_, 'l, Nodes>) -> Judged {
        let aim = &self.aims[&finding];
        match sight.shows(self.lab, aim) {
            None => Judged::DoesNotShow,
            Some(_) => {
                let clean = (!sight.fails() || aim.wants_failure()) && sight.is_visible(aim);
                Judged::Shows { clean }
            }
        }
    }

    fn minimised(&self, finding: usize, case: Case) -> Option<Execution> {
        minimised(self.lab, &self.aims[&finding], case)
    }
}

/// Rows that a branch has written, and what has become of them.
type Local = BTreeMap<(TableId, RowName), Option<Row>>;

/// Local states of the nodes, and the final state of both.
struct Nodes {
    left: Local,
    right: Local,
    replicated: Replicated,
}

impl Nodes {
    fn of(lab: &Lab<'_>, pair: &Pair<'_>, later: Side) -> Nodes {
        Nodes {
            left: local(lab, pair.initial, pair.left),
            right: local(lab, pair.initial, pair.right),
            replicated: replicate(lab, pair.initial, pair.left, pair.right, later),
        }
    }
}

impl Sight<'_, '_, Nodes> {
    /// Why the pair shows it, if it does.
    fn shows(&mut self, lab: &Lab<'_>, aim: &Aim) -> Option<Shows> {
        match aim {
            Aim::Overwritten(table) => self.changed(*table, [true, true]).then_some(Shows::NoOrder),
            Aim::Deleted(table) => self.changed(*table, [true, false]).then_some(Shows::NoOrder),
            Aim::SameKey(table) => self.same_key(lab, *table).then_some(Shows::NoOrder),
            Aim::Stops(table, key) => {
                let stops = self.together.replicated.stops.as_ref()? == &(*table, key.clone());
                stops.then(|| Shows::Stops { key: key.clone() })
            }
            Aim::Violates(invariant) => self.violates(lab, *invariant),
        }
    }

    /// A row of the table that both have written is as no order leaves it; `there` says on which sides it still is.
    fn changed(&mut self, table: TableId, there: [bool; 2]) -> bool {
        let Nodes { left, right, replicated } = self.together;
        let mut both = left.iter().filter(|((of, _), _)| *of == table).filter(|(name, row)| {
            right.get(name).is_some_and(|other| [row.is_some(), other.is_some()] == there)
        });
        both.any(|(name, _)| self.no_order(|rows| rows.get(name) != replicated.rows.get(name)))
    }

    /// Both sides have made a row of the table another one than it was.
    fn is_visible(&self, aim: &Aim) -> bool {
        let Aim::Overwritten(table) = aim else { return true };
        let rows = self.pair.initial.table(*table);
        let Nodes { left, right, .. } = self.together;
        left.iter().filter(|((of, _), _)| of == table).any(|(name, row)| {
            let RowName::Initial(at) = name.1 else { return false };
            let changed = |row: &Option<Row>| row.as_ref() != rows.get(at as usize);
            changed(row) && right.get(name).is_some_and(changed)
        })
    }

    fn same_key(&mut self, lab: &Lab<'_>, table: TableId) -> bool {
        let Some(key) = &lab.application.catalog.table(table).primary_key else { return false };
        let Nodes { left, right, replicated } = self.together;
        let new = |rows: &'_ Local| -> Vec<Row> {
            let new = rows.iter().filter(|((of, name), _)| *of == table && matches!(name, RowName::New(..)));
            new.filter_map(|(_, row)| row.clone()).collect()
        };
        let (ours, theirs) = (new(left), new(right));
        if !ours.iter().any(|row| theirs.iter().any(|other| equal(&key.columns, row, other))) {
            return false;
        }
        let of_table = |rows: &NamedRows| -> Vec<Row> {
            rows.iter().filter(|((of, _), _)| *of == table).map(|(_, row)| row.clone()).collect()
        };
        let both = of_table(&replicated.rows);
        self.no_order(|rows| !same_rows(of_table(rows).iter(), both.iter()))
    }

    fn violates(&mut self, lab: &Lab<'_>, invariant: InvariantId) -> Option<Shows> {
        let Nodes { replicated, .. } = self.together;
        if replicated.stops.is_some() {
            return None;
        }
        let schema = &lab.program.schema;
        let violation = |rows: &NamedRows| lab.violation(invariant, &View { schema, state: &unnamed(rows) });
        let row = violation(&replicated.rows)?;
        // On one server it would not have come to that.
        self.no_order(|rows| violation(rows).is_none()).then(|| Shows::Violates {
            invariant: lab.analysis.invariants[invariant.0 as usize].name.clone(),
            row: crate::cells(lab, invariant, &row),
        })
    }
}

fn minimised<'l>(lab: &'l Lab<'l>, aim: &Aim, case: Case) -> Option<Execution> {
    let mut again = |state: &State| {
        case.again(lab, state, |replica, pair| {
            let nodes = Nodes::of(lab, pair, case.later);
            let mut orders = None;
            let mut sight = Sight { replica, pair, together: &nodes, orders: &mut orders };
            let shows = sight.shows(lab, aim)?;
            sight.orders();
            Some((orders?, shows, nodes.replicated))
        })
    };
    let first = again(&case.initial)?;
    let (initial, (left, right, (orders, shows, replicated))) =
        smaller(case.initial.clone(), first, &mut again);
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
