//! Small initial databases in which everything holds.
//!
//! Rows are made table by table, parents first; what then does not hold is mended one or two columns at a time, or the
//! seed is dropped. Nothing is inserted by SQL: a seed is a state, and it is the checks that say whether it counts.

use std::collections::BTreeSet;

use weir_analysis::{InvariantId, effects::ProcedureEffects};
use weir_sql::bound::ExprKind;
use weir_sql::catalog::{Column, ColumnIndex, ForeignKey, Table, TableId};
use weir_sql::walk::uncast;
use weir_types::Value;
use weir_types::numeric::Numeric;
use weir_types::text::parse_text;

use crate::domain::{is_key, numbered, parent_column, values_of};
use crate::lab::{Lab, Validity};
use crate::literals::Constant;
use crate::state::{Row, State};

/// Largest number of changes to repair a state.
const CHANGES_MAX: usize = 24;

/// More tables than this get no rows for the sake of references that may be NULL.
const TABLES_MAX: usize = 40;

/// Values of a column that are tried together with those of another one.
const PAIRED_MAX: usize = 6;

/// Which tables get how many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Tables that nothing inserts into.
    SequenceValue(usize),
    /// Tables that neither of the two transactions inserts into.
    Others(usize),
    All(usize),
    /// That number of rows in each table, all with the first row of their parents.
    Siblings(usize),
    /// Tables that nothing inserts into, with the first row of their parents.
    GivenSiblings(usize),
}

/// Initial values of numbers that invariants constrain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Number(i64),
    /// One less than the greatest constant that an invariant compares it with.
    Below,
    /// One more than the least such constant.
    Above,
    /// The column's DEFAULT, as in a new row; the number if there is none.
    Default(i64),
}

/// The seeds, in the order in which they are tried.
pub fn plans() -> impl Iterator<Item = (Filled, Level)> {
    let filled = [
        Filled::SequenceValue(1),
        Filled::Others(1),
        Filled::All(1),
        Filled::SequenceValue(2),
        Filled::Others(2),
        Filled::All(2),
        Filled::Siblings(2),
        Filled::All(0),
    ];
    let levels = [
        Level::Number(0),
        Level::Number(1),
        Level::Below,
        Level::Above,
        Level::Number(2),
        Level::Default(1),
        Level::Default(2),
    ];
    filled.into_iter().flat_map(move |filled| levels.into_iter().map(move |level| (filled, level)))
}

/// The tables that transactions and an invariant need (its own are given), and the parents of those; parents first. Where
/// these are too many, references that may be NULL need no parent.
pub fn needed(lab: &Lab<'_>, transactions: &[usize], tables: &BTreeSet<TableId>) -> Vec<TableId> {
    let mut needed = tables.clone();
    for &transaction in transactions {
        needed.extend(tables_of(lab.effects(transaction)));
    }
    let with_parents = |all: bool| {
        let (mut ordered, mut entered) = (Vec::new(), BTreeSet::new());
        needed.iter().for_each(|&table| place(lab, table, all, &mut entered, &mut ordered));
        ordered
    };
    let all = with_parents(true);
    if all.len() <= TABLES_MAX { all } else { with_parents(false) }
}

pub fn tables_of(effects: &ProcedureEffects) -> impl Iterator<Item = TableId> + '_ {
    let read = effects.reads.iter().map(|read| read.table);
    read.chain(effects.writes.iter().map(|write| write.table))
}

/// `all`: the parents of references that may be NULL, too.
fn place(
    lab: &Lab<'_>,
    table: TableId,
    all: bool,
    entered: &mut BTreeSet<TableId>,
    ordered: &mut Vec<TableId>,
) {
    if !entered.insert(table) {
        return;
    }
    let child = lab.application.catalog.table(table);
    let is_needed =
        |key: &&ForeignKey| all || key.columns.iter().any(|&column| child.columns[column].not_null);
    for key in child.foreign_keys.iter().filter(is_needed) {
        place(lab, key.parent, all, entered, ordered);
    }
    ordered.push(table);
}

/// All that a seed follows from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// Tables that get rows, parents first: how many, and whether all are of the first row of their parents.
    tables: Vec<(TableId, usize, bool)>,
    level: Level,
    validity: Validity,
}

/// A seed in which everything that `validity` asks for holds; `None` if these rows cannot be mended.
pub fn seed(
    lab: &Lab<'_>,
    tables: &[TableId],
    transactions: &[usize],
    (filled, level): (Filled, Level),
    validity: Validity,
) -> Option<State> {
    let inserted_here: BTreeSet<TableId> = transactions
        .iter()
        .flat_map(|&transaction| &lab.effects(transaction).writes)
        .filter(|write| write.is_insert())
        .map(|write| write.table)
        .collect();
    let rows = |table: TableId| match filled {
        Filled::SequenceValue(_) if lab.is_inserted(table) => (0, false),
        Filled::Others(_) if inserted_here.contains(&table) => (0, false),
        Filled::SequenceValue(count) | Filled::Others(count) | Filled::All(count) => (count, false),
        Filled::GivenSiblings(_) if lab.is_inserted(table) => (0, false),
        Filled::Siblings(count) | Filled::GivenSiblings(count) => (count, true),
    };
    let kept = tables.iter().copied().filter(|&table| !lab.is_excluded(table));
    let filled = kept.map(|table| (table, rows(table))).filter(|(_, (count, _))| *count > 0);
    let tables = filled.map(|(table, (count, siblings))| (table, count, siblings)).collect();
    let plan = Plan { tables, level, validity: lab.plain(validity) };
    if let Some(made) = lab.seeds.borrow().get(&plan) {
        return made.clone();
    }
    let made = made(lab, &plan);
    lab.seeds.borrow_mut().insert(plan, made.clone());
    made
}

fn made(lab: &Lab<'_>, plan: &Plan) -> Option<State> {
    let mut state = State::empty();
    for &(table, count, siblings) in &plan.tables {
        for number in 0..count {
            if let Some(row) = row(lab, &state, table, number, siblings, plan.level) {
                state.table_mut(table).push(row);
            }
        }
    }
    mend(lab, &mut state, plan.validity).then_some(state)
}

fn row(
    lab: &Lab<'_>,
    state: &State,
    table: TableId,
    number: usize,
    siblings: bool,
    level: Level,
) -> Option<Row> {
    let declared = lab.application.catalog.table(table);
    let value = |column: ColumnIndex| {
        let definition = &declared.columns[column];
        if let Some((parent, of)) = parent_column(declared, column) {
            let parents = state.table(parent);
            let at = match siblings {
                true => 0,
                false => (number + ordinal(declared, column)).min(parents.len().saturating_sub(1)),
            };
            return match parents.get(at) {
                Some(parent) => Some(parent[of].clone()),
                // A table may refer to itself: its first row, to no row or to itself.
                None if !definition.not_null => Some(Value::Null),
                None if parent == table => {
                    parse_text(&numbered(&definition.ty, number)?, &definition.ty).ok()
                }
                None => None,
            };
        }
        if is_key(declared, column) {
            return parse_text(&numbered(&definition.ty, number)?, &definition.ty).ok();
        }
        first_value(lab, declared, column, level)
    };
    (0..declared.columns.len()).map(value).collect::<Option<Vec<Value>>>().map(Row::from)
}

/// Position among several references to the same table: a friend has another friend.
fn ordinal(table: &Table, column: ColumnIndex) -> usize {
    let Some(at) = table.foreign_keys.iter().position(|key| key.columns.contains(&column)) else { return 0 };
    let parent = table.foreign_keys[at].parent;
    table.foreign_keys[..at].iter().filter(|key| key.parent == parent).count()
}

/// Initial value of a non-key column.
fn first_value(lab: &Lab<'_>, table: &Table, column: ColumnIndex, level: Level) -> Option<Value> {
    let definition = &table.columns[column];
    let constants = constants(lab, table.id, column);
    if definition.ty.is_number() && is_mentioned(lab, table.id, column) {
        if let (Level::Default(_), Some(value)) = (level, default(definition)) {
            return Some(value);
        }
        let text = at_level(&constants, level);
        return parse_text(&text, &definition.ty).ok().or_else(|| parse_text("1", &definition.ty).ok());
    }
    if let Some(value) = default(definition) {
        return Some(value);
    }
    if !definition.not_null {
        return Some(Value::Null);
    }
    values_of(&definition.ty, &constants).into_iter().next()
}

fn default(column: &Column) -> Option<Value> {
    match &uncast(column.default.as_ref()?).kind {
        ExprKind::Literal(value) if !value.is_null() => {
            let ty = &uncast(column.default.as_ref()?).ty;
            parse_text(&weir_types::text::to_text(value, ty), &column.ty).ok()
        }
        _ => None,
    }
}

fn at_level(constants: &BTreeSet<Constant>, level: Level) -> String {
    let one = Numeric::from_i64(1);
    let numbers = constants.iter().filter_map(|constant| constant.text.parse::<Numeric>().ok());
    let by_size = |a: &Numeric, b: &Numeric| a.to_f64().total_cmp(&b.to_f64());
    let near = match level {
        Level::Number(number) | Level::Default(number) => return number.to_string(),
        Level::Below => numbers.max_by(by_size).and_then(|number| number.sub(&one).ok()),
        Level::Above => numbers.min_by(by_size).and_then(|number| number.add(&one).ok()),
    };
    near.map_or_else(|| "3".to_owned(), |number| number.to_string())
}

fn is_mentioned(lab: &Lab<'_>, table: TableId, column: ColumnIndex) -> bool {
    lab.readers(table, column).next().is_some()
}

fn constants(lab: &Lab<'_>, table: TableId, column: ColumnIndex) -> BTreeSet<Constant> {
    lab.readers(table, column).flat_map(|mention| mention.constants.iter().cloned()).collect()
}

/// Violations of a state that is being repaired.
struct Broken<'b, 'l> {
    lab: &'b Lab<'l>,
    validity: Validity,
    /// All required invariants.
    asked: Vec<InvariantId>,
    broken: Vec<InvariantId>,
}

impl<'b, 'l> Broken<'b, 'l> {
    fn of(lab: &'b Lab<'l>, validity: Validity, state: &State) -> Broken<'b, 'l> {
        let asked = lab.asked(validity, state);
        let broken = asked.iter().copied().filter(|&id| lab.is_violated(id, state)).collect();
        Broken { lab, validity, asked, broken }
    }

    /// Invariant to repair next.
    fn first(&self) -> Option<InvariantId> {
        self.broken.first().copied()
    }

    /// The first is mended, and less is broken than before. Some columns have changed: what does not read them is
    /// as it was.
    fn is_less_with(&self, candidate: &State, changed: &[(TableId, ColumnIndex)]) -> bool {
        let reads = |id: &&InvariantId| {
            let columns = &self.lab.mention(**id).columns;
            changed.iter().any(|column| columns.contains(column))
        };
        let before = self.broken.iter().filter(reads).count();
        let others = self.asked.iter().filter(|id| **id != self.broken[0]).filter(reads);
        !self.is_first_broken(candidate)
            && others.filter(|id| self.lab.is_violated(**id, candidate)).nth(before - 1).is_none()
    }

    fn is_less_without_row(&self, candidate: &State) -> bool {
        !self.is_first_broken(candidate)
            && self.lab.violated(self.validity, candidate).len() < self.broken.len()
    }

    fn is_first_broken(&self, candidate: &State) -> bool {
        self.lab.is_violated(self.broken[0], candidate)
    }
}

/// Changes columns until everything holds.
fn mend(lab: &Lab<'_>, state: &mut State, validity: Validity) -> bool {
    for _ in 0..CHANGES_MAX {
        let broken = Broken::of(lab, validity, state);
        let Some(first) = broken.first() else { return true };
        let fewer = mended(lab, state, first, &broken).or_else(|| without_row(lab, state, first, &broken));
        let Some(mended) = fewer else { return false };
        *state = mended;
    }
    false
}

/// The state without one row of those that the invariant is about, the last first.
fn without_row(
    lab: &Lab<'_>,
    state: &State,
    invariant: InvariantId,
    broken: &Broken<'_, '_>,
) -> Option<State> {
    let tables = lab.mention(invariant).tables.iter().rev();
    let rows = tables.flat_map(|&table| (0..state.table(table).len()).rev().map(move |row| (table, row)));
    let without = |(table, row): (TableId, usize)| {
        let mut candidate = state.clone();
        candidate.table_mut(table).remove(row);
        candidate
    };
    rows.map(without).find(|candidate| broken.is_less_without_row(candidate))
}

/// The state with one column, or two columns of one row, changed.
fn mended(lab: &Lab<'_>, state: &State, invariant: InvariantId, broken: &Broken<'_, '_>) -> Option<State> {
    let free = |(table, column): &&(TableId, ColumnIndex)| {
        let declared = lab.application.catalog.table(*table);
        !is_key(declared, *column) && parent_column(declared, *column).is_none()
    };
    let columns: Vec<(TableId, ColumnIndex)> =
        lab.mention(invariant).columns.iter().filter(free).copied().collect();
    let cells: Vec<(TableId, usize, ColumnIndex)> = columns
        .iter()
        .flat_map(|&(table, column)| (0..state.table(table).len()).map(move |row| (table, row, column)))
        .collect();
    let pools: Vec<Vec<Value>> = cells.iter().map(|cell| pool(lab, state, invariant, cell)).collect();
    for (&(table, row, column), pool) in cells.iter().zip(&pools) {
        for value in pool {
            let mut candidate = state.clone();
            candidate.set(table, row, column, value.clone());
            if broken.is_less_with(&candidate, &[(table, column)]) {
                return Some(candidate);
            }
        }
    }
    for (at, (cell, pool)) in cells.iter().zip(&pools).enumerate() {
        let later = cells.iter().zip(&pools).skip(at + 1);
        for (other, other_pool) in later.filter(|(other, _)| (other.0, other.1) == (cell.0, cell.1)) {
            let changed = [(cell.0, cell.2), (other.0, other.2)];
            for value in pool.iter().take(PAIRED_MAX) {
                for other_value in other_pool.iter().take(PAIRED_MAX) {
                    let mut candidate = state.clone();
                    candidate.set(cell.0, cell.1, cell.2, value.clone());
                    candidate.set(other.0, other.1, other.2, other_value.clone());
                    if broken.is_less_with(&candidate, &changed) {
                        return Some(candidate);
                    }
                }
            }
        }
    }
    None
}

/// Candidate values of a column: its domain, the opposite numbers, and existing sums and counts.
fn pool(
    lab: &Lab<'_>,
    state: &State,
    invariant: InvariantId,
    &(table, _, column): &(TableId, usize, ColumnIndex),
) -> Vec<Value> {
    let definition = &lab.application.catalog.table(table).columns[column];
    let mut values = values_of(&definition.ty, &constants(lab, table, column));
    if definition.ty.is_number() {
        let mut numbers: Vec<Numeric> = Vec::new();
        let known = constants(lab, table, column);
        numbers.extend(known.iter().filter_map(|constant| constant.text.parse::<Numeric>().ok()));
        for &(of, summed) in &lab.mention(invariant).columns {
            let rows = state.table(of);
            numbers.push(Numeric::from_i64(rows.len() as i64));
            let sum = rows
                .iter()
                .map(|row| number_of(&row[summed]))
                .try_fold(Numeric::from_i64(0), |sum, next| next.and_then(|next| sum.add(&next).ok()));
            numbers.extend(sum);
        }
        numbers.extend(numbers.clone().iter().map(Numeric::neg));
        for value in numbers.iter().filter_map(|number| parse_text(&number.to_string(), &definition.ty).ok())
        {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    if !definition.not_null {
        values.push(Value::Null);
    }
    values
}

fn number_of(value: &Value) -> Option<Numeric> {
    match value {
        Value::Int(number) => Some(Numeric::from_i64(*number)),
        Value::Numeric(number) => Some(number.clone()),
        _ => None,
    }
}
