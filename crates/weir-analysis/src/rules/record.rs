//! Conditions on one record: NOT NULL, CHECK, and assertions that speak of one row.

use std::collections::BTreeSet;

use weir_sql::bound::Expr;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, conjuncts};

use super::bound::{self, Bound};
use super::list::{self, List};
use super::range::{self, Range};
use super::{Outcome, combine, describe, lock_guard, margin, settled};
use crate::effects::{ColumnOperation, Operation, ReadId, Term, TermId, Write};
use crate::verdict::{Alone, Rule};
use crate::world::World;

pub fn not_null(world: &World<'_>, table: TableId, column: ColumnIndex, procedure: usize) -> Option<Outcome> {
    let computed = world.own_writes(procedure, table).find(|(_, write)| match write.update_of(column) {
        Some(ColumnOperation::Apply(term)) => {
            let Operation::Update { row, .. } = write.operation else { return false };
            Computed { world, procedure, table, row }.unless_null(term).is_none()
        }
        _ => false,
    });
    if let Some((_, write)) = computed {
        let because = "It is computed of the row as it is merged; on a row that the other branch has changed it may \
                       be NULL.";
        let outcome = Outcome::undecided(describe(world, write), because).alone(Alone::Checked);
        return Some(locked(world, table, &BTreeSet::from([column]), procedure, outcome));
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
    let mut written = world.own_writes(procedure, table).filter_map(|(_, write)| {
        let term = match &write.operation {
            Operation::Insert { values, .. } => values[column],
            _ => write.update_of(column)?.term(),
        };
        Some((write, term))
    });
    let (first, term) = written.next()?;
    let is_proved = proved(term) && written.all(|(_, term)| proved(term));
    let because = "A condition on one record that holds in both branches holds in their union.";
    let alone = if is_proved { Alone::Proved } else { Alone::Checked };
    Some(Outcome::yes(Rule::PerRecord, describe(world, first), because).alone(alone))
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
    "not",
    "Power",
    "BitAnd",
    "BitOr",
    "BitXor",
    "ShiftLeft",
    "ShiftRight",
    "mod",
    "div",
    "sign",
    "trunc",
    "btrim",
    "ltrim",
    "rtrim",
    "replace",
    "initcap",
    "reverse",
    "lpad",
    "rpad",
    "repeat",
    "md5",
    "substr",
    "split_part",
    "date_trunc",
    "to_jsonb",
    "jsonb_set",
    "jsonb_insert",
    "jsonb_strip_nulls",
];

/// Lists of which the whole is NULL only if the list itself is, whatever its elements are.
const STRICT_IN_FIRST: &[&str] = &["array_remove", "array_replace"];

/// Never NULL, even of NULLs.
const NEVER_NULL: &[&str] = &["array_append", "array_prepend", "concat"];

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
            Term::Call { name, .. } if NEVER_NULL.contains(&name.as_str()) => Some(BTreeSet::new()),
            Term::Call { name, arguments } if STRICT_IN_FIRST.contains(&name.as_str()) => {
                self.unless_null(*arguments.first()?)
            }
            Term::Call { name, arguments }
                if STRICT.contains(&name.as_str()) || name.starts_with("cast to ") =>
            {
                let parts: Option<Vec<_>> = arguments.iter().map(|part| self.unless_null(*part)).collect();
                Some(parts?.into_iter().flatten().collect())
            }
            Term::Call { name, arguments } if name == "case" => self.case(arguments),
            Term::Call { name, arguments } if matches!(name.as_str(), "coalesce" | "greatest" | "least") => {
                let certain = |term: &TermId| {
                    never_null(self.world, self.procedure, *term)
                        || self.unless_null(*term).is_some_and(|needs| needs.is_empty())
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
    let outcome = combine(outcomes.collect())?;
    Some(locked(world, table, &columns_of(expr), procedure, outcome))
}

fn columns_of(expr: &Expr) -> BTreeSet<ColumnIndex> {
    let mut columns = BTreeSet::new();
    walk::columns(expr, &mut |_, column| {
        columns.insert(column);
    });
    columns
}

/// Adds the guard that keeps any condition on one row, where no cheaper one does: a statement locks the rows that it writes, so that
/// nobody changes a row between the check of its values and the commit. Rows that a foreign key's action writes are not locked.
fn locked(
    world: &World<'_>,
    table: TableId,
    columns: &BTreeSet<ColumnIndex>,
    procedure: usize,
    outcome: Outcome,
) -> Outcome {
    if outcome.confluent || !outcome.guards.is_empty() {
        return outcome;
    }
    let changes = |write: &&Write| write.updates().iter().any(|(column, _)| columns.contains(column));
    let writes: Vec<&Write> =
        world.own_writes(procedure, table).map(|(_, write)| write).filter(changes).collect();
    if writes.iter().any(|write| write.action.is_some()) {
        return outcome;
    }
    writes.into_iter().fold(outcome, |outcome, write| outcome.guarded(lock_guard(world, write)))
}

/// A condition on one row of the table; a violation if `negated`.
pub fn condition(
    world: &World<'_>,
    table: TableId,
    expr: &Expr,
    negated: bool,
    procedure: usize,
) -> Option<Outcome> {
    let columns = columns_of(expr);
    let mutable = mutable(world, table, &columns);
    let form = Form {
        bound: bound::of(expr, negated, &mutable),
        margin: margin::of(expr, negated),
        list: list::of(expr, negated, &mutable),
        valid: match mutable[..] {
            [column] => range::of(world, table, column, expr, negated),
            _ => None,
        },
        settled: Some((expr, negated)),
    };
    of_columns(world, table, &columns, &form, procedure)
}

/// Form of a condition, besides the columns that it reads.
#[derive(Default)]
pub struct Form<'e> {
    /// Its bounds of the only column of the row that changes.
    pub bound: Option<Bound>,
    /// The columns that it compares, with their weights.
    pub margin: Option<Vec<(i64, ColumnIndex)>>,
    pub list: Option<List>,
    /// The values that the only changing column may have.
    pub valid: Option<Range>,
    /// The condition itself, which is a violation if so it says.
    pub settled: Option<(&'e Expr, bool)>,
}

pub fn mutable(world: &World<'_>, table: TableId, columns: &BTreeSet<ColumnIndex>) -> Vec<ColumnIndex> {
    columns.iter().copied().filter(|&column| !world.is_immutable(table, column)).collect()
}

/// A condition that reads these columns of one row of the table, and otherwise what never changes.
pub fn of_columns(
    world: &World<'_>,
    table: TableId,
    columns: &BTreeSet<ColumnIndex>,
    form: &Form<'_>,
    procedure: usize,
) -> Option<Outcome> {
    let mut outcomes = Vec::new();
    for (_, write) in world.own_writes(procedure, table) {
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
    form: &Form<'_>,
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
        return bound::judge(world, (table, column), (bound, form.valid), procedure, write);
    }
    if let Some((condition, negated)) = form.settled
        && is_settled_by_all(world, table, &mutable, condition, negated)
    {
        let because = "What is written makes the condition true whatever else is in the row; so does all that others write.";
        return Outcome::yes(Rule::PerRecord, describe(world, write), because);
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
    // Only assignments: the last writer's record survives if every writer of one column writes them all.
    if let Some(other) = writes_only_some(world, table, &mutable, write) {
        let because = format!(
            "{} writes only some of the columns that the condition compares; merged they stand beside \
             the other branch's.",
            world.name(other)
        );
        return Outcome::no(Rule::RecordSkew, other, operation, because);
    }
    let changes = |write: &Write| mutable.iter().any(|&column| write.update_of(column).is_some_and(depends));
    if world.writes_of(table).any(|(_, candidate)| changes(candidate)) {
        return Outcome::undecided(
            operation,
            "Another transaction changes the same column in a way that depends on its value.",
        );
    }
    let because =
        "It writes the record's part in the condition as a whole; the last writer's stands, checked.";
    Outcome::yes(Rule::PerRecord, operation, because)
}

/// Finds a transaction that writes some of the columns and leaves others. One that writes a column which this write leaves comes first:
/// the halves of these two meet in one row.
fn writes_only_some(
    world: &World<'_>,
    table: TableId,
    columns: &[ColumnIndex],
    write: &Write,
) -> Option<usize> {
    let is_partial = |(_, candidate): &(usize, &Write)| {
        let count = columns.iter().filter(|&&column| candidate.update_of(column).is_some()).count();
        count > 0 && count < columns.len()
    };
    let completes = |(_, candidate): &(usize, &Write)| {
        columns
            .iter()
            .any(|&column| write.update_of(column).is_none() && candidate.update_of(column).is_some())
    };
    let partial = || world.writes_of(table).filter(is_partial);
    let other = partial().find(completes).or_else(|| partial().next());
    other.map(|(other, _)| other)
}

/// Each change of a column of the condition sets constants which make it true by themselves. All that the last one of a merge sets stands.
fn is_settled_by_all(
    world: &World<'_>,
    table: TableId,
    columns: &[ColumnIndex],
    condition: &Expr,
    negated: bool,
) -> bool {
    world.writes_of(table).all(|(other, write)| {
        let touches = columns.iter().any(|&column| write.update_of(column).is_some());
        !touches || settled::after(world, other, write, condition) == Some(!negated)
    })
}

/// Returns whether the result depends on the earlier value, which was not checked on the other branch.
fn depends(operation: ColumnOperation) -> bool {
    !matches!(operation, ColumnOperation::Assign(_))
}
