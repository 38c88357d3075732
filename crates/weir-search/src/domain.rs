//! Small domains: which values a column or a parameter is tried with, and the calls that they make.
//!
//! Everything is listed in a fixed order, the likeliest first, and nothing by chance.

use std::collections::BTreeSet;

use weir_analysis::effects::{ColumnOperation, Condition, Operation, Term, TermId, Terms};
use weir_sql::bound::{ExprKind, ParameterMode, VariableId};
use weir_sql::catalog::{ColumnIndex, Table, TableId};
use weir_sql::walk::{each_step, uncast};
use weir_types::numeric::Numeric;
use weir_types::text::parse_text;
use weir_types::value::Array;
use weir_types::{SqlType, Value};

use crate::lab::Lab;
use crate::literals::{Constant, each_expr_of_step};
use crate::replica::Invocation;
use crate::state::State;

/// Existing values of a column that a parameter is tried with.
const EXISTING_MAX: usize = 3;

/// Constants of one procedure or invariant that are tried.
const CONSTANTS_MAX: usize = 8;

/// The values of a type: constants and their neighbours, and a few of its own.
pub fn values_of(ty: &SqlType, constants: &BTreeSet<Constant>) -> Vec<Value> {
    let mut texts: Vec<String> = Vec::new();
    match ty {
        ty if ty.is_number() => {
            texts.extend(["1", "2", "0"].map(str::to_owned));
            texts.extend(near(constants));
            texts.push("-1".to_owned());
        }
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => {
            texts.extend(words(constants));
            texts.extend(["a", "b"].map(str::to_owned));
        }
        SqlType::Enum(of) => texts.extend(of.labels.iter().take(EXISTING_MAX).cloned()),
        ty => texts.extend((0..2).filter_map(|number| numbered(ty, number))),
    }
    if let SqlType::Array(element) = ty {
        let first = values_of(element, constants).into_iter().next();
        return first
            .map(|value| vec![array(element, vec![value]), array(element, Vec::new())])
            .unwrap_or_default();
    }
    parsed(ty, texts)
}

/// Values of the first `texts` that are valid for the type, each once.
fn parsed(ty: &SqlType, texts: Vec<String>) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in texts.iter().filter_map(|text| parse_text(text, ty).ok()) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn words(constants: &BTreeSet<Constant>) -> impl Iterator<Item = String> + '_ {
    constants.iter().filter(|constant| !constant.number).take(CONSTANTS_MAX).map(|word| word.text.clone())
}

/// Every number of the constants, one less and one more.
fn near(constants: &BTreeSet<Constant>) -> Vec<String> {
    let one = Numeric::from_i64(1);
    let numbers = constants.iter().filter(|constant| constant.number).take(CONSTANTS_MAX);
    numbers
        .filter_map(|constant| constant.text.parse::<Numeric>().ok())
        .flat_map(|number| [Some(number.clone()), number.sub(&one).ok(), number.add(&one).ok()])
        .flatten()
        .map(|number| number.to_string())
        .collect()
}

/// The `number`-th value of a type without small numbers, to distinguish rows by their key.
pub fn numbered(ty: &SqlType, number: usize) -> Option<String> {
    Some(match ty {
        ty if ty.is_number() => (number + 1).to_string(),
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => {
            char::from(b'a' + (number % 26) as u8).to_string()
        }
        SqlType::Bool => ["true", "false"].get(number)?.to_string(),
        SqlType::Date => format!("2026-01-{:02}", 1 + number % 28),
        SqlType::Timestamp | SqlType::Timestamptz => format!("2026-01-{:02} 00:00:00", 1 + number % 28),
        SqlType::Interval => format!("{} days", number + 1),
        SqlType::Uuid => format!("00000000-0000-4000-8000-{:012}", number + 1),
        SqlType::Bytea => format!("\\x{:02x}", (number + 1) % 256),
        SqlType::Jsonb => ["{}", "1"].get(number)?.to_string(),
        SqlType::Enum(of) => of.labels.get(number)?.clone(),
        _ => return None,
    })
}

fn array(element: &SqlType, values: Vec<Value>) -> Value {
    Value::Array(std::sync::Arc::new(Array { element: element.clone(), values }))
}

/// Columns that a parameter's value is related to.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// Columns by which rows are found.
    compared: BTreeSet<(TableId, ColumnIndex)>,
    /// Columns that it is written to.
    written: BTreeSet<(TableId, ColumnIndex)>,
    /// The body tests it for NULL, so NULL is significant.
    may_be_null: bool,
    /// Every call writes it to a column that is never NULL.
    never_null: bool,
}

/// Up to that number of calls of a procedure in a state, with or without NULL arguments: first the call in which every argument is the
/// first of its domain.
pub fn calls(
    lab: &Lab<'_>,
    procedure: usize,
    state: &State,
    constants: &BTreeSet<Constant>,
    (calls_max, nulls): (usize, bool),
) -> Vec<Invocation> {
    let inputs: Vec<_> = lab.application.procedures[procedure]
        .parameters
        .iter()
        .filter(|parameter| parameter.mode != ParameterMode::Out)
        .collect();
    let lengths: Vec<usize> = vec![1, 2, 0];
    let with_arrays = inputs.iter().any(|input| matches!(input.ty, SqlType::Array(_)));
    let mut domains: Vec<Vec<Value>> = Vec::new();
    let all_uses = lab.uses[procedure]
        .get_or_init(|| inputs.iter().map(|input| uses(lab, procedure, input.variable)).collect());
    for (input, uses) in inputs.iter().zip(all_uses) {
        let ty = match &input.ty {
            SqlType::Array(element) => element,
            ty => ty,
        };
        let mut values = domain(lab, state, uses, ty, constants);
        // Last, because it seldom leads anywhere: a NULL finds no row.
        let asked = uses.may_be_null && !matches!(input.ty, SqlType::Array(_));
        if asked || nulls && !uses.never_null {
            values.push(Value::Null);
        }
        domains.push(values);
    }
    // The arrays' length comes first: it changes more than any one element does.
    let mut sizes = vec![if with_arrays { lengths.len() } else { 1 }];
    sizes.extend(domains.iter().map(Vec::len));
    if sizes.contains(&0) {
        return Vec::new();
    }
    let first = vec![0; sizes.len()];
    let mut chosen = vec![first.clone()];
    // Every amount zero is one call too, not as many deviations as there are amounts.
    let zeros = domains.iter().map(|values| values.iter().position(is_zero).unwrap_or(0));
    let nothing: Vec<usize> = std::iter::once(0).chain(zeros).collect();
    if nothing != first {
        chosen.push(nothing);
    }
    for deviations in 1..=sizes.len() {
        deviate(&sizes, 0, deviations, &mut vec![0; sizes.len()], &mut chosen, calls_max);
    }
    let argument = |at: usize, choice: &[usize]| match &inputs[at].ty {
        SqlType::Array(element) => {
            let length = lengths[choice[0]];
            let of = |n: usize| domains[at][(choice[at + 1] + n) % domains[at].len()].clone();
            array(element, (0..length).map(of).collect())
        }
        _ => domains[at][choice[at + 1]].clone(),
    };
    let calls = chosen.iter().map(|choice| Invocation {
        procedure,
        arguments: (0..inputs.len()).map(|at| argument(at, choice)).collect(),
    });
    calls.collect()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Int(number) => *number == 0,
        Value::Numeric(number) => number.is_zero(),
        _ => false,
    }
}

/// All choices in which exactly that number of positions from `at` on is not the first of its domain.
fn deviate(
    sizes: &[usize],
    at: usize,
    deviations: usize,
    choice: &mut Vec<usize>,
    chosen: &mut Vec<Vec<usize>>,
    chosen_max: usize,
) {
    if chosen.len() >= chosen_max {
        return;
    }
    if deviations == 0 {
        chosen.push(choice.clone());
        return;
    }
    for place in at..sizes.len() {
        for value in 1..sizes[place] {
            choice[place] = value;
            deviate(sizes, place + 1, deviations - 1, choice, chosen, chosen_max);
        }
        choice[place] = 0;
    }
}

fn uses(lab: &Lab<'_>, procedure: usize, variable: VariableId) -> Uses {
    let effects = lab.effects(procedure);
    let terms = &effects.terms;
    let has = |term: TermId| comes_from(terms, term, variable, 8);
    let mut uses = Uses::default();
    let never_null = |&(table, column): &(TableId, ColumnIndex)| {
        lab.application.catalog.table(table).columns[column].not_null
    };
    for read in &effects.reads {
        for (column, term) in &read.key {
            if has(*term) {
                uses.compared.insert((read.table, *column));
            }
        }
        for condition in &read.conditions {
            compared(lab, procedure, condition, &has, &mut uses);
        }
    }
    for write in &effects.writes {
        if let Operation::Insert { values, .. } = &write.operation {
            let written = values.iter().enumerate().filter(|(_, term)| has(**term));
            let written: Vec<_> = written.map(|(column, _)| (write.table, column)).collect();
            uses.never_null |= write.context.is_empty() && written.iter().any(never_null);
            uses.written.extend(written);
        }
        for (column, operation) in write.updates() {
            if let ColumnOperation::Assign(term) = operation
                && has(*term)
            {
                uses.never_null |= write.context.is_empty() && never_null(&(write.table, *column));
                uses.written.insert((write.table, *column));
            }
        }
    }
    each_step(&lab.application.procedures[procedure].body, &mut |step| {
        each_expr_of_step(step, &mut |expr| {
            if let ExprKind::IsNull { operand, .. } = &expr.kind {
                uses.may_be_null |= matches!(uncast(operand).kind, ExprKind::Variable(of) if of == variable);
            }
        });
    });
    uses
}

fn compared(
    lab: &Lab<'_>,
    procedure: usize,
    condition: &Condition,
    has: &dyn Fn(TermId) -> bool,
    uses: &mut Uses,
) {
    let effects = lab.effects(procedure);
    match condition {
        Condition::Compare { left, right, .. } => {
            for (field, other) in [(left, right), (right, left)] {
                if let Term::Field { row, column } = effects.terms.get(*field)
                    && has(*other)
                {
                    uses.compared.insert((effects.read(*row).table, *column));
                }
            }
        }
        Condition::All(list) | Condition::Any(list) => {
            list.iter().for_each(|part| compared(lab, procedure, part, has, uses));
        }
        _ => {}
    }
}

/// Returns whether the term is the parameter, an element of it, or either with a constant added.
fn comes_from(terms: &Terms, term: TermId, variable: VariableId, depth: u32) -> bool {
    let deeper = |term: TermId| depth > 0 && comes_from(terms, term, variable, depth - 1);
    match terms.get(term) {
        Term::Parameter(parameter) => *parameter == variable,
        Term::Element { array, .. } => deeper(*array),
        Term::Sum { base, .. } => deeper(*base),
        Term::Choice(options) => options.iter().any(|&option| deeper(option)),
        _ => false,
    }
}

fn domain(
    lab: &Lab<'_>,
    state: &State,
    uses: &Uses,
    ty: &SqlType,
    constants: &BTreeSet<Constant>,
) -> Vec<Value> {
    let catalog = &lab.application.catalog;
    let mut values: Vec<Value> = Vec::new();
    let add = |found: Vec<Value>, values: &mut Vec<Value>| {
        for value in found {
            if !values.contains(&value) && fits(&value, ty) {
                values.push(value);
            }
        }
    };
    let keyed = |(table, column): &&(TableId, ColumnIndex)| is_key(catalog.table(*table), *column);
    for (table, column) in &uses.written {
        if let Some((parent, of)) = parent_column(catalog.table(*table), *column) {
            add(existing(state, parent, of), &mut values);
        }
    }
    if values.is_empty()
        && let Some((table, column)) = uses.written.iter().find(keyed)
    {
        add(fresh(state, *table, *column, ty), &mut values);
    }
    for (table, column) in &uses.compared {
        add(existing(state, *table, *column), &mut values);
    }
    if values.is_empty() || (uses.written.iter().any(|used| !keyed(&used)) && uses.compared.is_empty()) {
        add(values_of(ty, constants), &mut values);
    }
    // Last, what CHECKs name where it is written: a status, a bound.
    for &(table, column) in uses.written.iter().filter(|used| !keyed(used)) {
        let named: BTreeSet<Constant> =
            lab.readers(table, column).flat_map(|mention| mention.constants.iter().cloned()).collect();
        if !named.is_empty() && parent_column(catalog.table(table), column).is_none() {
            add(values_of(ty, &named), &mut values);
        }
    }
    values
}

/// Values that the column has, those of other columns of that table's rows left out.
fn existing(state: &State, table: TableId, column: ColumnIndex) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for row in state.table(table) {
        if !row[column].is_null() && !values.contains(&row[column]) && values.len() < EXISTING_MAX {
            values.push(row[column].clone());
        }
    }
    values
}

/// Two values that no row has.
fn fresh(state: &State, table: TableId, column: ColumnIndex, ty: &SqlType) -> Vec<Value> {
    let numbers = (0..state.table(table).len() + 2).filter_map(|number| numbered(ty, number));
    let there = |value: &Value| state.table(table).iter().any(|row| row[column] == *value);
    let mut values = parsed(ty, numbers.collect());
    values.retain(|value| !there(value));
    values.truncate(2);
    values
}

/// A value of a column where a parameter of this type is compared with it.
fn fits(value: &Value, ty: &SqlType) -> bool {
    match value {
        Value::Int(_) => ty.is_integer(),
        Value::Numeric(_) => matches!(ty, SqlType::Numeric(_)),
        Value::Float4(_) => matches!(ty, SqlType::Float4),
        Value::Float8(_) => matches!(ty, SqlType::Float8),
        Value::Text(_) => matches!(ty, SqlType::Enum(_)) || ty.is_string(),
        Value::Timestamp(_) => matches!(ty, SqlType::Timestamp | SqlType::Timestamptz),
        Value::Date(_) => matches!(ty, SqlType::Date),
        Value::Bool(_) => matches!(ty, SqlType::Bool),
        Value::Uuid(_) => matches!(ty, SqlType::Uuid),
        _ => true,
    }
}

/// Is the column part of a key of its table?
pub fn is_key(table: &Table, column: ColumnIndex) -> bool {
    let indexed = table.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.keys);
    let mut indexed = indexed.map(|key| match key.expr.kind {
        weir_sql::bound::ExprKind::Column { column: of, .. } => of == column,
        _ => false,
    });
    table.primary_key.iter().chain(&table.unique_keys).any(|key| key.columns.contains(&column))
        || indexed.any(|is| is)
}

/// The column of another table that this one refers to.
pub fn parent_column(table: &Table, column: ColumnIndex) -> Option<(TableId, ColumnIndex)> {
    table.foreign_keys.iter().find_map(|key| {
        let at = key.columns.iter().position(|&own| own == column)?;
        Some((key.parent, key.parent_columns[at]))
    })
}
