//! "Every row has its counterpart": no row of a table without a matching row in one of some others.
//!
//! Only two things can break it: a row that comes without a counterpart, and a counterpart that goes while its
//! row stays. In a merge they meet if one branch does the first and the other the second. A row and a
//! counterpart whose keys determine each other, and that always come and go together, have one history however
//! branches merge. A third is a row that needs a counterpart in the merge only, because each branch has changed a part
//! of what says so, or added to it: who changes the row that way has no verdict of these.

use std::collections::BTreeSet;

use weir_sql::bound::{BinaryOp, Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::{Outcome, assertion};
use crate::assertion::{Clause, Fact, Group, Shape};
use crate::effects::{Conflict, Operation, Write};
use crate::verdict::{Alone, Rule};
use crate::world::World;

pub struct Counterparts {
    table: TableId,
    /// Columns of the row that say whether it needs a counterpart, and which.
    selecting: BTreeSet<ColumnIndex>,
    links: Vec<Link>,
}

/// One table in which a counterpart may be.
struct Link {
    table: TableId,
    /// Column of the row, and the column of the counterpart that equals it.
    pairs: Vec<(ColumnIndex, ColumnIndex)>,
    /// The pairs are all that the counterpart must satisfy.
    exact: bool,
    /// Columns of the counterpart that its condition mentions.
    selecting: BTreeSet<ColumnIndex>,
}

/// Effect of a write on the claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    Nothing,
    /// A row is added with a new counterpart, or a counterpart is removed with its row.
    Together,
    /// A row is added, and its counterpart too if missing; other rows may share the counterpart.
    Shared,
    /// A row comes, and nothing is known of its counterpart.
    Comes,
    /// A counterpart goes, and nothing is known of its rows.
    Goes,
}

impl Counterparts {
    /// The clause in this form, if it has it.
    pub fn of(shape: &Shape<'_>, clause: &Clause<'_>, facts: &[Fact<'_>]) -> Option<Counterparts> {
        let &[relation] = clause.scope.as_slice() else { return None };
        let table = shape.table(relation)?;
        let mut selecting = BTreeSet::new();
        let mut links = Vec::new();
        for condition in &clause.conditions {
            select(condition, relation, &mut selecting);
        }
        for fact in facts {
            let Fact::Exists { group, negated: true } = fact else { return None };
            let &[(counterpart, in_table)] = group.tables.as_slice() else { return None };
            group.filters.iter().for_each(|filter| select(filter, relation, &mut selecting));
            links.push(Link::of(group, relation, counterpart, in_table));
        }
        Some(Counterparts { table, selecting, links })
    }

    /// The procedure whose write, beside one of these, makes a row that needs a counterpart, or another one, in the merge and in neither branch.
    fn composer(&self, world: &World<'_>, touching: &[&Write]) -> Option<usize> {
        let columns: Vec<ColumnIndex> = self.selecting.iter().copied().collect();
        let changes = |write: &&Write| {
            write.table == self.table && columns.iter().any(|&column| write.update_of(column).is_some())
        };
        let composes = !world.flaws.nothing_composed && touching.iter().any(changes);
        composes.then(|| world.composer(self.table, &columns, &|_, _| true))?
    }

    fn moved(&self, world: &World<'_>, procedure: usize, write: &Write) -> Move {
        let updates = |table, columns: &BTreeSet<ColumnIndex>| {
            write.table == table && columns.iter().any(|&column| write.update_of(column).is_some())
        };
        for link in &self.links {
            let goes = write.is_delete() && write.table == link.table;
            if updates(link.table, &link.selecting)
                || goes && !self.row_goes_too(world, link, procedure, write)
            {
                return Move::Goes;
            }
            if goes {
                return Move::Together;
            }
        }
        if updates(self.table, &self.selecting) {
            return Move::Comes;
        }
        if write.is_insert() && write.table == self.table {
            let moves =
                self.links.iter().map(|link| self.counterpart_comes_too(world, link, procedure, write));
            return moves.min_by_key(|one| *one as u8).unwrap_or(Move::Comes);
        }
        Move::Nothing
    }

    fn counterpart_comes_too(&self, world: &World<'_>, link: &Link, procedure: usize, write: &Write) -> Move {
        let Operation::Insert { values: row, .. } = &write.operation else { return Move::Comes };
        let arrivals = world.effects[procedure].writes.iter().filter_map(|other| {
            let Operation::Insert { values, on_conflict } = &other.operation else { return None };
            let matches = link.exact
                && other.table == link.table
                && write.context.starts_with(&other.context)
                && link.pairs.iter().all(|&(own, theirs)| row[own] == values[theirs]);
            if !matches {
                return None;
            }
            match on_conflict {
                None => Some(Move::Together),
                Some(conflict) if !link.is_certain_after(conflict) => None,
                Some(_) if self.is_one_to_one(world, link) => Some(Move::Together),
                Some(_) => Some(Move::Shared),
            }
        });
        arrivals.min_by_key(|one| *one as u8).unwrap_or(Move::Comes)
    }

    /// Returns whether the same transaction deletes every row that has this counterpart.
    fn row_goes_too(&self, world: &World<'_>, link: &Link, procedure: usize, write: &Write) -> bool {
        let effects = &world.effects[procedure];
        let Operation::Delete { row: counterpart } = &write.operation else { return false };
        let gone = &effects.read(*counterpart).key;
        effects.writes.iter().any(|other| {
            let Operation::Delete { row } = &other.operation else { return false };
            let read = effects.read(*row);
            other.table == self.table
                && write.context.starts_with(&other.context)
                && read.by_key_alone
                && read.key.iter().all(|(column, term)| {
                    link.pairs.iter().any(|(own, theirs)| own == column && gone.contains(&(*theirs, *term)))
                })
        })
    }

    /// The row's key is the counterpart's: neither is shared.
    fn is_one_to_one(&self, world: &World<'_>, link: &Link) -> bool {
        let covers = |table: TableId, of: &dyn Fn(&(ColumnIndex, ColumnIndex)) -> ColumnIndex| {
            let key = world.table(table).primary_key.as_ref();
            key.is_some_and(|key| {
                key.columns.iter().all(|column| link.pairs.iter().any(|p| of(p) == *column))
            })
        };
        covers(self.table, &|pair| pair.0) && covers(link.table, &|pair| pair.1)
    }
}

impl Link {
    fn of(group: &Group<'_>, row: RelationId, counterpart: RelationId, table: TableId) -> Link {
        let mut link = Link { table, pairs: Vec::new(), exact: true, selecting: BTreeSet::new() };
        for filter in &group.filters {
            select(filter, counterpart, &mut link.selecting);
            match pair(filter, row, counterpart) {
                Some(pair) => link.pairs.push(pair),
                None => link.exact = false,
            }
        }
        link
    }

    /// After the upsert there is a counterpart, whichever way it went.
    fn is_certain_after(&self, conflict: &Conflict) -> bool {
        let paired = |column: &ColumnIndex| self.pairs.iter().any(|(_, theirs)| theirs == column);
        conflict.columns.as_ref().is_some_and(|columns| columns.iter().all(paired))
    }
}

/// Adds the relation's columns in the expression.
fn select(expr: &Expr, relation: RelationId, columns: &mut BTreeSet<ColumnIndex>) {
    walk::columns(expr, &mut |of, column| {
        if of == relation {
            columns.insert(column);
        }
    });
}

/// `row.a = counterpart.b`.
fn pair(filter: &Expr, row: RelationId, counterpart: RelationId) -> Option<(ColumnIndex, ColumnIndex)> {
    let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &filter.kind else { return None };
    let column = |expr: &Expr, of: RelationId| match uncast(expr).kind {
        ExprKind::Column { relation, column } if relation == of => Some(column),
        _ => None,
    };
    match (column(left, row), column(right, counterpart)) {
        (Some(own), Some(theirs)) => Some((own, theirs)),
        _ => Some((column(right, row)?, column(left, counterpart)?)),
    }
}

pub fn judge(
    world: &World<'_>,
    shape: &Shape<'_>,
    counterparts: &Counterparts,
    procedure: usize,
) -> Option<Outcome> {
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| assertion::touches(shape, write)).collect();
    let operation = assertion::operations(world, &touching);
    let first = |wanted: &[Move]| {
        let mut writes = world.writes_to(shape.tables.values().copied());
        writes
            .find(|(other, write)| wanted.contains(&counterparts.moved(world, *other, write)))
            .map(|(other, _)| other)
    };
    let own: Vec<Move> = touching.iter().map(|write| counterparts.moved(world, procedure, write)).collect();
    let does = |wanted: &[Move]| own.iter().any(|one| wanted.contains(one));
    let takes_any = world.writes_to(shape.tables.values().copied()).find(|(other, write)| {
        write.is_delete() && counterparts.moved(world, *other, write) == Move::Together
    });
    let taker = first(&[Move::Goes]).or(takes_any.map(|(other, _)| other));
    let bringer = first(&[Move::Comes, Move::Shared]);
    let composer = counterparts.composer(world, &touching);
    let takes = does(&[Move::Goes]) || takes_any.is_some() && does_delete(&touching, &own);
    let outcome = match (taker, bringer) {
        (Some(taker), _) if does(&[Move::Comes, Move::Shared]) => {
            let because = format!(
                "{} may take the counterpart away in the other branch; the merge has a row without one.",
                world.name(taker)
            );
            Outcome::no(Rule::CounterpartTaken, taker, operation, because)
        }
        (_, Some(bringer)) if takes => {
            let because = format!(
                "{} may bring a row for the counterpart that goes here; the merge has a row without one.",
                world.name(bringer)
            );
            Outcome::no(Rule::CounterpartTaken, bringer, operation, because)
        }
        _ if does(&[Move::Goes]) => {
            let because =
                "Of several counterparts of a row each branch may take another one; the merge has none.";
            Outcome::no(Rule::CounterpartTaken, procedure, operation, because)
        }
        _ if composer.is_some() => {
            let with = composer.unwrap_or(procedure);
            let because = format!(
                "{} changes a part of what says which rows need a counterpart, or computes it from what is there: in \
                 the merge a row may need one that needs none in either branch.",
                world.name(with)
            );
            Outcome::no(Rule::CounterpartTaken, with, operation, because)
        }
        (None, _) => {
            let because =
                "Nobody takes a counterpart away, so a row that has one in its branch has it in the merge.";
            Outcome::yes(Rule::Counterpart, operation, because)
        }
        _ => {
            let because =
                "A row and its counterpart come together and go together, in either branch and in the merge.";
            Outcome::yes(Rule::Counterpart, operation, because)
        }
    };
    let proved = !does(&[Move::Comes, Move::Goes]) && !world.effects[procedure].irregular;
    Some(outcome.alone(if proved { Alone::Proved } else { Alone::No }))
}

/// It takes counterparts away, though with their rows.
fn does_delete(touching: &[&Write], own: &[Move]) -> bool {
    touching.iter().zip(own).any(|(write, one)| write.is_delete() && *one == Move::Together)
}
