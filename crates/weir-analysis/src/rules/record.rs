//! Conditions on one record: NOT NULL, CHECK, and assertions that speak of one row.

use std::collections::BTreeSet;

use weir_sql::bound::Expr;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, conjuncts};

use super::bound::{self, Bound};
use super::list::{self, List};
use super::{Outcome, combine, describe, margin};
use crate::effects::{ColumnOperation, Operation, ReadId, Term, TermId, Write};
use crate::verdict::{Alone, Rule};
use crate::world::World;

pub fn not_null(world: &World<'_>, table: TableId, column: ColumnIndex, procedure: usize) -> Option<Outcome> {
    let computed = world.effects[procedure].writes.iter().find(|write| match write.update_of(column) {
        Some(ColumnOperation::Apply(term)) if write.table == table => {
            let Operation::Update { row, .. } = write.operation else { return false };
            Computed { world, procedure, table, row }.unless_null(term).is_none()
        }
        _ => false,
    });
    if let Some(write) = computed {
        let because = "It is computed of the row as it is merged; on a row that the other branch has changed it may \
                       be NULL.";
        return Some(Outcome::undecided(describe(world, write), because));
    }
    of_value(world, table, column, procedure, |term| never_null(world, procedure, term))
}

/// The labels of an enumeration: no other value can be written at all.
pub fn enumeration(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    procedure: usize,
) -> Option<Outcome> {
    of_value(world, table, column, procedure, |_| false)
}

/// A condition on one value of one column, proved where the term says so.
fn of_value(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    procedure: usize,
    proved: impl Fn(TermId) -> bool,
) -> Option<Outcome> {
    let mut outcomes = Vec::new();
    for write in world.effects[procedure].writes.iter().filter(|write| write.table == table) {
        let written = match &write.operation {
            Operation::Insert { values, .. } => Some(values[column]),
            _ => write.update_of(column).map(ColumnOperation::term),
        };
        if let Some(term) = written {
            let because = "A condition on one record that holds in both branches holds in their union.";
            let alone = if proved(term) { Alone::Proved } else { Alone::Checked };
            outcomes.push(Outcome::yes(Rule::PerRecord, describe(world, write), because).alone(alone));
        }
    }
    combine(outcomes)
}

/// By its form, or because it is a NOT NULL column of a row that was read.
pub fn never_null(world: &World<'_>, procedure: usize, term: TermId) -> bool {
    let effects = &world.effects[procedure];
    match effects.terms.get(term) {
        Term::Integer(_) | Term::Literal(..) | Term::Generated(_) | Term::Time | Term::Index(_) => true,
        Term::Sum { base, .. } => never_null(world, procedure, *base),
        Term::Field { row, column } => world.table(effects.read(*row).table).columns[*column].not_null,
        _ => false,
    }
}

/// A value that is computed of the row, and computed again of the merged row.
struct Computed<'w, 'a> {
    world: &'w World<'a>,
    procedure: usize,
    table: TableId,
    row: ReadId,
}

/// Functions and operators that are NULL only of a NULL.
const STRICT: &[&str] = &[
    "+",
    "-",
    "*",
    "Divide",
    "Modulo",
    "Concat",
    "abs",
    "ceil",
    "floor",
    "round",
    "left",
    "right",
    "lower",
    "upper",
    "length",
    "cast to Text",
    "not",
];

impl Computed<'_, '_> {
    /// The captured values that it takes to be not NULL; `None` if it may be NULL of a merged row though it was not of
    /// the branch's. Arithmetic that fails is an error there, and in a merge changes nothing (soundness S8).
    fn unless_null(&self, term: TermId) -> Option<BTreeSet<TermId>> {
        let terms = &self.world.effects[self.procedure].terms;
        if terms.leaves(term).into_iter().all(|leaf| self.column(leaf).is_none()) {
            return Some(BTreeSet::from([term]));
        }
        match terms.get(term) {
            Term::Sum { base, .. } => self.unless_null(*base),
            Term::Call { name, arguments } if STRICT.contains(&name.as_str()) => {
                let parts: Option<Vec<_>> = arguments.iter().map(|part| self.unless_null(*part)).collect();
                Some(parts?.into_iter().flatten().collect())
            }
            Term::Call { name, arguments } if name == "case" => self.case(arguments),
            Term::Call { name, arguments } if name == "coalesce" => {
                let certain = |term: &TermId| {
                    never_null(self.world, self.procedure, *term)
                        || self.column(*term).is_some() && self.unless_null(*term).is_some()
                };
                arguments.iter().any(certain).then(BTreeSet::new)
            }
            _ => {
                let column = self.column(term)?;
                self.world.table(self.table).columns[column].not_null.then(BTreeSet::new)
            }
        }
    }

    /// The arm that the branch took is taken in the merge too, or all of them take the same values to be there.
    fn case(&self, arguments: &[TermId]) -> Option<BTreeSet<TermId>> {
        let (last, whens) = arguments.split_last()?;
        let arms = whens.iter().skip(1).step_by(2).chain([last]);
        let needs: Option<Vec<BTreeSet<TermId>>> = arms.map(|arm| self.unless_null(*arm)).collect();
        let needs = needs?;
        let conditions = || whens.iter().step_by(2);
        let leaves =
            conditions().flat_map(|condition| self.world.effects[self.procedure].terms.leaves(*condition));
        let is_settled =
            |leaf| self.column(leaf).is_none_or(|column| self.world.is_immutable(self.table, column));
        let same_arm = leaves.into_iter().all(is_settled);
        let alike = needs.windows(2).all(|pair| pair[0] == pair[1]);
        (same_arm || alike).then(|| needs.into_iter().flatten().collect())
    }

    /// The row's own column; any other value has been captured.
    fn column(&self, term: TermId) -> Option<ColumnIndex> {
        match self.world.effects[self.procedure].terms.get(term) {
            Term::Field { row, column } if *row == self.row => Some(*column),
            _ => None,
        }
    }
}

pub fn check(world: &World<'_>, table: TableId, check: usize, procedure: usize) -> Option<Outcome> {
    let expr = &world.table(table).checks[check].expr;
    let outcomes = conjuncts(expr).into_iter().filter_map(|part| {
        let outcome = condition(world, table, part, false, procedure)?;
        // Whether two branches fit or not, each row that is written is checked.
        let alone = if outcome.alone == Alone::No { Alone::Checked } else { outcome.alone };
        Some(outcome.alone(alone))
    });
    combine(outcomes.collect())
}

/// A condition on one row of the table; a violation if `negated`.
pub fn condition(
    world: &World<'_>,
    table: TableId,
    expr: &Expr,
    negated: bool,
    procedure: usize,
) -> Option<Outcome> {
    let mut columns = BTreeSet::new();
    walk::columns(expr, &mut |_, column| {
        columns.insert(column);
    });
    let mutable = mutable(world, table, &columns);
    let form = Form {
        bound: bound::of(expr, negated, &mutable),
        margin: margin::of(expr, negated),
        list: list::of(expr, negated, &mutable),
    };
    of_columns(world, table, &columns, &form, procedure)
}

/// What is known of a condition besides the columns that it reads.
#[derive(Default)]
pub struct Form {
    /// How it bounds the only column of the row that changes.
    pub bound: Option<Bound>,
    /// The columns that it compares, with their weights.
    pub margin: Option<Vec<(i64, ColumnIndex)>>,
    pub list: Option<List>,
}

pub fn mutable(world: &World<'_>, table: TableId, columns: &BTreeSet<ColumnIndex>) -> Vec<ColumnIndex> {
    columns.iter().copied().filter(|&column| !world.is_immutable(table, column)).collect()
}

/// A condition that reads these columns of one row of the table, and otherwise what never changes.
pub fn of_columns(
    world: &World<'_>,
    table: TableId,
    columns: &BTreeSet<ColumnIndex>,
    form: &Form,
    procedure: usize,
) -> Option<Outcome> {
    let mut outcomes = Vec::new();
    for write in world.effects[procedure].writes.iter().filter(|write| write.table == table) {
        if write.is_insert() {
            let because = "A new record is checked where it comes to be; union does not change it.";
            outcomes.push(Outcome::yes(Rule::PerRecord, describe(world, write), because));
        }
        let updated: Vec<(ColumnIndex, ColumnOperation)> =
            write.updates().iter().copied().filter(|(column, _)| columns.contains(column)).collect();
        if !updated.is_empty() {
            outcomes.push(update(world, table, form, columns, procedure, write, &updated));
        }
    }
    combine(outcomes)
}

fn update(
    world: &World<'_>,
    table: TableId,
    form: &Form,
    columns: &BTreeSet<ColumnIndex>,
    procedure: usize,
    write: &Write,
    updated: &[(ColumnIndex, ColumnOperation)],
) -> Outcome {
    let mutable = mutable(world, table, columns);
    if let (&[column], Some(list)) = (mutable.as_slice(), form.list)
        && let Some(outcome) = list::judge(world, table, column, list, procedure, write)
    {
        return outcome;
    }
    if let (&[column], Some(bound)) = (mutable.as_slice(), form.bound) {
        return bound::judge(world, table, column, bound, procedure, write);
    }
    if let Some(weights) = &form.margin
        && let Some(outcome) = margin::judge(world, table, weights, procedure, write)
    {
        return outcome;
    }
    let operation = describe(world, write);
    if updated.iter().any(|(_, operation)| depends(*operation)) {
        let because = "No rule says whether changes that keep the condition one by one keep it together.";
        return Outcome::undecided(operation, because);
    }
    // Only assignments: the last writer's record stands if whoever writes one column writes them all.
    for (other, candidate) in world.writes_of(table) {
        let count = mutable.iter().filter(|&&column| candidate.update_of(column).is_some()).count();
        if count > 0 && count < mutable.len() {
            let because = format!(
                "{} writes only some of the columns that the condition compares; merged they stand beside \
                 the other branch's.",
                world.name(other)
            );
            return Outcome::no(Rule::RecordSkew, other, operation, because);
        }
        if mutable.iter().any(|&column| candidate.update_of(column).is_some_and(depends)) {
            return Outcome::undecided(
                operation,
                "Another transaction changes the same column in a way that depends on its value.",
            );
        }
    }
    let because =
        "It writes the record's part in the condition as a whole; the last writer's stands, checked.";
    Outcome::yes(Rule::PerRecord, operation, because)
}

/// What it leads to depends on what was there: on another branch's value nobody has checked it.
fn depends(operation: ColumnOperation) -> bool {
    !matches!(operation, ColumnOperation::Assign(_))
}
