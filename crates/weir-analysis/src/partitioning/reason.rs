//! In words: the conflict that makes an operation global.

use std::collections::BTreeSet;

use weir_sql::Application;
use weir_sql::catalog::Table;

use super::atoms::{Atom, Operand};
use super::sets::{Cause, Entry, Kind, Touched};
use super::{Because, Partitioning};
use crate::effects::{ProcedureEffects, Term, TermId};

/// More columns than this are counted, not named.
const COLUMNS_MAX: usize = 4;

/// "another order_books may write item (i_stock) that it writes".
pub fn reason(app: &Application, partitioning: &Partitioning, because: Because) -> String {
    let (own, other) = sides(partitioning, because);
    let entry = |(procedure, index): (usize, usize)| &partitioning.sets.entries[procedure][index];
    let who = crate::world::other(app, own.0, other.0);
    let table = app.catalog.table(entry(own).table);
    let touched = &partitioning.conflicts[because.conflict].clauses[because.clause].touched;
    format!(
        "{who} may {} {}{} that it {}",
        verb(entry(other)),
        table.name,
        column_list(table, touched),
        verb_of_own(entry(own)),
    )
}

/// Which rows each of the two means: "one means rows with i_id = book_id, the other any row".
pub fn reason_rows(
    app: &Application,
    effects: &[ProcedureEffects],
    partitioning: &Partitioning,
    because: Because,
) -> String {
    let (own, other) = sides(partitioning, because);
    let rows = |(procedure, index): (usize, usize)| {
        let entry = &partitioning.sets.entries[procedure][index];
        where_clause(app, &effects[procedure], app.catalog.table(entry.table), entry, procedure)
    };
    format!("one means {}, the other {}", rows(own), rows(other))
}

/// Procedure and entry of the transaction explained, and of the other.
fn sides(partitioning: &Partitioning, because: Because) -> ((usize, usize), (usize, usize)) {
    let conflict = &partitioning.conflicts[because.conflict];
    let clause = &conflict.clauses[because.clause];
    match because.left {
        true => ((conflict.left, clause.left), (conflict.right, clause.right)),
        false => ((conflict.right, clause.right), (conflict.left, clause.left)),
    }
}

fn verb(entry: &Entry) -> String {
    let verb = match entry.kind {
        Kind::Read => "read",
        Kind::Insert => "insert",
        Kind::Update => "write",
        Kind::Delete => "delete",
    };
    match &entry.cause {
        Cause::Statement => verb.to_string(),
        Cause::Unique(key) => format!("{verb} (for {key})"),
        Cause::ForeignKey(key) => format!("{verb} (for {key})"),
        Cause::NotFollowed => format!("{verb} (it is not followed)"),
    }
}

fn verb_of_own(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::Read => "reads",
        Kind::Insert => "inserts",
        Kind::Update => "writes",
        Kind::Delete => "deletes",
    }
}

/// ` (a, b)`; nothing where only existence is at stake or nearly everything is.
pub fn column_list(table: &Table, touched: &Touched) -> String {
    let names: Vec<&str> =
        touched.iter().flatten().map(|&column| table.columns[column].name.as_str()).collect();
    match names.len() {
        0 => String::new(),
        n if n == table.columns.len() => String::new(),
        n if n > COLUMNS_MAX => {
            format!(" ({} and {} more)", names[..COLUMNS_MAX].join(", "), n - COLUMNS_MAX)
        }
        _ => format!(" ({})", names.join(", ")),
    }
}

/// Which rows an entry means: the equations on its own columns.
pub fn where_clause(
    app: &Application,
    effects: &ProcedureEffects,
    table: &Table,
    entry: &Entry,
    procedure: usize,
) -> String {
    let [atoms] = entry.alternatives.as_slice() else {
        return "rows by alternatives".to_string();
    };
    let keys: Vec<usize> =
        table.primary_key.iter().chain(&table.unique_keys).flat_map(|key| key.columns.clone()).collect();
    let named = |column: &usize| entry.kind != Kind::Insert || keys.contains(column);
    let words = |atom: &Atom| {
        let (Atom::Equal(left, right) | Atom::Same(left, right)) = atom else { return None };
        let (column, value) = match (left, right) {
            (Operand::Own(column), other) | (other, Operand::Own(column)) => (column, other),
            _ => return None,
        };
        let value = operand(app, effects, procedure, *value)?;
        named(column).then(|| format!("{} = {value}", table.columns[*column].name))
    };
    let words: BTreeSet<String> = atoms.iter().filter_map(words).collect();
    let words: Vec<String> = words.into_iter().collect();
    match words.len() {
        0 => "any row".to_string(),
        _ => format!("rows with {}", words.join(" and ")),
    }
}

fn operand(
    app: &Application,
    effects: &ProcedureEffects,
    procedure: usize,
    operand: Operand,
) -> Option<String> {
    match operand {
        Operand::Term(id) => Some(term(app, effects, procedure, id)),
        Operand::Field(row, column) => {
            let table = app.catalog.table(effects.read(row).table);
            Some(format!("some {}.{}", table.name, table.columns[column].name))
        }
        Operand::Own(_) => None,
    }
}

fn term(app: &Application, effects: &ProcedureEffects, procedure: usize, id: TermId) -> String {
    match effects.terms.get(id) {
        Term::Null => "NULL".to_string(),
        Term::Integer(n) => n.to_string(),
        Term::Parameter(variable) => app.procedures[procedure].variables[variable.0 as usize].name.clone(),
        Term::Generated(_) => "a generated id".to_string(),
        Term::Element { array, .. } => match effects.terms.get(*array) {
            Term::Parameter(variable) => {
                format!("an element of {}", app.procedures[procedure].variables[variable.0 as usize].name)
            }
            _ => "an element".to_string(),
        },
        Term::Field { row, column } => {
            let table = app.catalog.table(effects.read(*row).table);
            format!("some {}.{}", table.name, table.columns[*column].name)
        }
        Term::Literal(..) => "a constant".to_string(),
        _ => "a computed value".to_string(),
    }
}
