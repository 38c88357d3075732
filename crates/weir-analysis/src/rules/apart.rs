//! Rows that are counted and rows that they are counted for, separated by a merge: a row enters a clause in one branch, and its items
//! change in the other.
//!
//! A clause says something of every row of its FROM list that meets its conditions (an owner), with the rows that
//! belong to it (his items). Every other rule argues about an owner that both branches see. One that is new in a
//! branch, by an insert or because an update makes it meet the conditions, is not there for the other branch, which
//! may then change his items, or bring new ones, and have nothing to balance: neither branch has done wrong, and the
//! merge has an owner whose items do not fit. Only two things rule it out for an insert: items that refer to their
//! owner by a foreign key (what the other branch changes has an owner there, and two branches cannot both insert
//! him), and items that come in the very transaction that inserts their owner.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{BinaryOp, Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::{Outcome, assertion};
use crate::assertion::{Clause, Group, Place, Shape};
use crate::effects::{Operation, Write};
use crate::verdict::{Alone, Rule};
use crate::world::{World, has_one_row_at_most};

/// Foreign keys that are followed from an item to its owner.
const STEPS_MAX: usize = 6;

/// A relation of a clause, and its table.
pub type Relation = (RelationId, TableId);

/// The rows that a clause speaks of, and what says which.
pub struct Spoken<'a> {
    pub relations: Vec<Relation>,
    /// The clause's own conditions, and those that link groups to its rows.
    conditions: Vec<&'a Expr>,
}

/// A write that makes a row one that the clause speaks of.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub procedure: usize,
    pub relation: Relation,
    pub write: &'a Write,
    /// An update of what selects it; else an insert.
    pub by_update: bool,
}

/// A write that changes what is counted for the rows of a clause.
#[derive(Clone, Copy)]
pub struct Mover<'a> {
    pub procedure: usize,
    pub relation: Relation,
    pub write: &'a Write,
}

impl<'a> Arrival<'a> {
    pub(super) fn as_mover(&self) -> Mover<'a> {
        Mover { procedure: self.procedure, relation: self.relation, write: self.write }
    }
}

impl<'a> Spoken<'a> {
    pub fn of(shape: &Shape<'_>, clause: &Clause<'a>, groups: &[&Group<'a>]) -> Spoken<'a> {
        let inner: BTreeSet<RelationId> =
            groups.iter().flat_map(|group| &group.tables).map(|(relation, _)| *relation).collect();
        let mut conditions = clause.conditions.clone();
        conditions.extend(groups.iter().flat_map(|group| group.filters.iter().chain(&group.keys)));
        let mut relations: BTreeSet<RelationId> = clause.scope.iter().copied().collect();
        for condition in &conditions {
            walk::columns(condition, &mut |relation, _| {
                relations.insert(relation);
            });
        }
        let outer = relations.into_iter().filter(|relation| !inner.contains(relation));
        let relations = outer.filter_map(|relation| Some((relation, shape.table(relation)?))).collect();
        Spoken { relations, conditions }
    }

    /// The rows of a group by themselves: which of them are joined.
    pub fn within(group: &Group<'a>) -> Spoken<'a> {
        Spoken { relations: group.tables.clone(), conditions: group.filters.clone() }
    }

    /// Rows that become ones that the clause speaks of, by any procedure.
    pub fn arrivals(&self, world: &World<'a>) -> Vec<Arrival<'a>> {
        let mut arrivals = Vec::new();
        for &relation in &self.relations {
            let selecting = self.selecting(relation.0);
            for (procedure, write) in world.writes_of(relation.1) {
                let arrival = |by_update| Arrival { procedure, relation, write, by_update };
                if write.is_insert() {
                    arrivals.push(arrival(false));
                }
                let upserts = matches!(write.operation, Operation::Insert { on_conflict: Some(_), .. });
                let changes = |&column: &ColumnIndex| {
                    write.update_of(column).is_some() || upserts && world.is_replaced(relation.1, column)
                };
                if selecting.iter().any(changes) {
                    arrivals.push(arrival(true));
                }
            }
        }
        arrivals
    }

    /// Columns of the relation in the conditions.
    pub fn selecting(&self, relation: RelationId) -> BTreeSet<ColumnIndex> {
        let mut columns = BTreeSet::new();
        for condition in &self.conditions {
            walk::columns(condition, &mut |of, column| {
                if of == relation {
                    columns.insert(column);
                }
            });
        }
        columns
    }

    /// May one branch have the arrival and another the change, neither seeing the other's?
    pub fn may_part(&self, world: &World<'_>, arrival: &Arrival<'_>, mover: &Mover<'_>) -> bool {
        if arrival.relation.0 == mover.relation.0 {
            // A new row is not changed by others; an existing one may be changed in both branches.
            return arrival.by_update;
        }
        arrival.by_update
            || !self.refers(world, mover.relation, arrival.relation)
                && !self.brings(world, mover, arrival.relation)
                // Or the other half is as new as the arrival, so the other branch does not see it.
                && !self.brings(world, &arrival.as_mover(), mover.relation)
    }

    /// Two rows of which each comes in another branch meet in the merge only. The other one's procedure.
    pub fn parted_arrivals(
        &self,
        world: &World<'_>,
        arrivals: &[Arrival<'_>],
        procedure: usize,
    ) -> Option<usize> {
        let own = arrivals.iter().filter(|arrival| arrival.procedure == procedure);
        own.flat_map(|own| arrivals.iter().map(move |other| (own, other)))
            .find(|(own, other)| self.may_meet(world, own, other))
            .map(|(_, other)| other.procedure)
    }

    fn may_meet(&self, world: &World<'_>, a: &Arrival<'_>, b: &Arrival<'_>) -> bool {
        if a.relation.0 == b.relation.0 {
            // Each sets, or computes, another column of one row, and only both together make the clause cover the row.
            let selecting: Vec<ColumnIndex> = self.selecting(a.relation.0).into_iter().collect();
            return a.by_update
                && b.by_update
                && world.composer(a.relation.1, &selecting, &|_, _| true).is_some();
        }
        // A row that refers to the other one cannot come without it.
        let bound = |from: &Arrival<'_>, to: &Arrival<'_>| {
            !to.by_update
                && (self.refers(world, from.relation, to.relation)
                    || self.brings(world, &from.as_mover(), to.relation))
        };
        !bound(a, b) && !bound(b, a)
    }

    /// Every row of `inner` that the conditions pair with a row of `outer` refers to that very row, by one foreign key
    /// or over several.
    pub fn refers(&self, world: &World<'_>, inner: Relation, outer: Relation) -> bool {
        let mut known: BTreeMap<ColumnIndex, BTreeSet<ColumnIndex>> = BTreeMap::new();
        for (own, theirs) in self.paired(inner.0, outer.0) {
            known.entry(own).or_default().insert(theirs);
        }
        follows(world, inner.1, &known, outer.1, STEPS_MAX)
    }

    /// The row is new, and so is, in the same transaction, a row of every owner that it is counted for.
    pub fn comes_whole(&self, world: &World<'_>, mover: &Mover<'_>) -> bool {
        if world.flaws.whole_by_tables {
            let comes = |table| {
                world.effects[mover.procedure]
                    .writes
                    .iter()
                    .any(|write| write.table == table && write.is_insert())
            };
            return self.relations.iter().all(|owner| comes(owner.1));
        }
        self.relations.iter().any(|owner| self.brings(world, mover, *owner))
    }

    /// The mover's row is new, and so, in the same transaction, is the row that it is counted for.
    pub(super) fn brings(&self, world: &World<'_>, mover: &Mover<'_>, outer: Relation) -> bool {
        let Operation::Insert { values: row, .. } = &mover.write.operation else { return false };
        let pairs = self.paired(mover.relation.0, outer.0);
        world.effects[mover.procedure].writes.iter().any(|other| {
            let Operation::Insert { values, on_conflict: None } = &other.operation else { return false };
            let same: BTreeSet<ColumnIndex> = pairs
                .iter()
                .filter(|(own, theirs)| other.table == outer.1 && row[*own] == values[*theirs])
                .map(|(_, theirs)| *theirs)
                .collect();
            other.table == outer.1
                && mover.write.context.starts_with(&other.context)
                && has_one_row_at_most(world.table(outer.1), &same)
        })
    }

    /// Columns of the two relations that the conditions hold to be equal, perhaps over columns of others.
    fn paired(&self, inner: RelationId, outer: RelationId) -> BTreeSet<(ColumnIndex, ColumnIndex)> {
        let equal: Vec<(Place, Place)> = self.conditions.iter().filter_map(|expr| equality(expr)).collect();
        let mut pairs = BTreeSet::new();
        for column in self.selecting(outer) {
            let mut class = BTreeSet::from([(outer, column)]);
            loop {
                let before = class.len();
                for &(a, b) in &equal {
                    if class.contains(&a) || class.contains(&b) {
                        class.extend([a, b]);
                    }
                }
                if class.len() == before {
                    break;
                }
            }
            let own = class.into_iter().filter(|(relation, _)| *relation == inner);
            pairs.extend(own.map(|(_, own)| (own, column)));
        }
        pairs
    }
}

fn equality(expr: &Expr) -> Option<(Place, Place)> {
    let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &expr.kind else { return None };
    let place = |expr: &Expr| match uncast(expr).kind {
        ExprKind::Column { relation, column } => Some((relation, column)),
        _ => None,
    };
    Some((place(left)?, place(right)?))
}

/// From a row of which some columns are known to equal columns of the owner, along foreign keys to the owner himself.
fn follows(
    world: &World<'_>,
    table: TableId,
    known: &BTreeMap<ColumnIndex, BTreeSet<ColumnIndex>>,
    owner: TableId,
    steps: usize,
) -> bool {
    let declared = world.table(table);
    steps > 0
        && declared.foreign_keys.iter().any(|key| {
            // A key with a NULL in it refers to nothing.
            let certain =
                |column: &ColumnIndex| known.contains_key(column) || declared.columns[*column].not_null;
            if !key.columns.iter().all(certain) {
                return false;
            }
            let pairs = key.columns.iter().zip(&key.parent_columns);
            let parent: BTreeMap<ColumnIndex, BTreeSet<ColumnIndex>> =
                pairs.filter_map(|(own, theirs)| Some((*theirs, known.get(own)?.clone()))).collect();
            let itself: BTreeSet<ColumnIndex> = parent
                .iter()
                .filter(|(column, equal)| equal.contains(column))
                .map(|(column, _)| *column)
                .collect();
            key.parent == owner && has_one_row_at_most(world.table(owner), &itself)
                || follows(world, key.parent, &parent, owner, steps - 1)
        })
}

/// The verdict on a transaction that has one half of a pair which may come apart; `None` where none can. `moves` says
/// which writes of a group's tables matter.
pub fn judge<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    clause: &Clause<'a>,
    groups: &[&Group<'a>],
    procedure: usize,
    moves: &dyn Fn(usize, &Write) -> bool,
) -> Option<Outcome> {
    let spoken = Spoken::of(shape, clause, groups);
    let arrivals = spoken.arrivals(world);
    if arrivals.is_empty() {
        return None;
    }
    let mut movers: Vec<Mover<'a>> = Vec::new();
    let counted = groups.iter().flat_map(|group| &group.tables).copied();
    let relations: BTreeSet<Relation> = counted.chain(spoken.relations.iter().copied()).collect();
    for relation in relations {
        let of_table = world.writes_of(relation.1).filter(|(procedure, write)| moves(*procedure, write));
        movers.extend(of_table.map(|(procedure, write)| Mover { procedure, relation, write }));
    }
    let operation = || {
        let own = world.effects[procedure].writes.iter();
        let touching: Vec<&Write> = own.filter(|write| assertion::touches(shape, write)).collect();
        assertion::operations(world, &touching)
    };
    // One table of a join that is bound to the owner binds what is counted.
    let parts = |arrival: &Arrival<'_>, mover: &Mover<'_>| {
        let bound = groups.iter().any(|group| {
            group.tables.contains(&mover.relation)
                && group.tables.iter().any(|&table| spoken.refers(world, table, arrival.relation))
        });
        (arrival.by_update || !bound) && spoken.may_part(world, arrival, mover)
    };
    let pairs = || arrivals.iter().flat_map(|arrival| movers.iter().map(move |mover| (arrival, mover)));
    if let Some((arrival, mover)) =
        pairs().find(|(arrival, mover)| arrival.procedure == procedure && parts(arrival, mover))
    {
        let owner = &world.table(arrival.relation.1).name;
        let because = format!(
            "A row of {owner} comes here while {} changes what is counted for it in the other branch, which does not \
             see it.{}",
            world.name(mover.procedure),
            remedy(world, arrival, mover)
        );
        return Some(Outcome::no(Rule::SumJoinApart, mover.procedure, operation(), because).alone(Alone::No));
    }
    if let Some((arrival, mover)) =
        pairs().find(|(arrival, mover)| mover.procedure == procedure && parts(arrival, mover))
    {
        let owner = &world.table(arrival.relation.1).name;
        let because = format!(
            "{} may bring the row of {owner} for which this counts in the other branch; neither sees the other's \
             half.{}",
            world.name(arrival.procedure),
            remedy(world, arrival, mover)
        );
        return Some(
            Outcome::no(Rule::SumJoinApart, arrival.procedure, operation(), because).alone(Alone::Proved),
        );
    }
    let with = spoken.parted_arrivals(world, &arrivals, procedure)?;
    let because = format!(
        "{} may bring in the other branch what this one's row is compared with; only the merge has both.",
        world.name(with)
    );
    Some(Outcome::no(Rule::SumJoinApart, with, operation(), because).alone(Alone::No))
}

fn remedy(world: &World<'_>, arrival: &Arrival<'_>, mover: &Mover<'_>) -> String {
    let (inner, outer) = (&world.table(mover.relation.1).name, &world.table(arrival.relation.1).name);
    match arrival.by_update || mover.relation.1 == arrival.relation.1 {
        true => String::new(),
        false => format!(" A foreign key of {inner} to {outer} would rule it out."),
    }
}
