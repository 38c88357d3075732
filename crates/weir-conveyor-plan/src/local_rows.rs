//! Rows that transactions write without the token: they are right at one server only, and travel with the slot of their column.
//!
//! A row belongs to a slot if each transaction that may write it is routed by the value of one of its columns. Then every reader of such writes is
//! routed by it, too, or runs under the token: otherwise the two would conflict at different servers, and one of them would be global.

use std::collections::{BTreeMap, BTreeSet};

use weir_analysis::partitioning::sets::{Entry, Kind as Access};
use weir_analysis::partitioning::{Key, Keys};
use weir_conveyor::matching::Class;
use weir_sql::catalog::{ColumnIndex, Table, TableId};

use crate::plan::{Analysed, split};
use crate::value::Kind;

/// A table that commutative or local operations write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTable {
    pub schema: String,
    pub name: String,
    pub rows: LocalRows,
}

/// The servers that have the rows of such a table as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalRows {
    /// The owner of the slot of that column.
    Slot(String),
    /// Any server inserts them, and nobody reads or changes them.
    Anywhere,
    /// The analysis does not see which: in words, why.
    Unknown(String),
}

/// The columns that may say the slot of a table's rows.
#[derive(Default)]
struct Writers {
    /// None: no writer that is routed yet.
    columns: Option<BTreeSet<ColumnIndex>>,
    /// A transaction that inserts rows wherever it runs.
    anywhere: Option<usize>,
    /// A transaction that changes rows which nothing says the slot of.
    unknown: Option<usize>,
}

/// All of them, by table.
pub(crate) fn tables(analysed: &Analysed<'_>) -> Vec<LocalTable> {
    let mut tables: BTreeMap<TableId, Writers> = BTreeMap::new();
    for (procedure, entry) in analysed.writes(false) {
        add(analysed, tables.entry(entry.table).or_default(), (procedure, entry));
    }
    let table = |(id, writers): (TableId, Writers)| {
        let table = analysed.application.catalog.table(id);
        let (schema, name) = split(&table.name);
        LocalTable { schema, name, rows: rows(analysed, table, &writers) }
    };
    tables.into_iter().map(table).collect()
}

fn add(analysed: &Analysed<'_>, writers: &mut Writers, (procedure, entry): (usize, &Entry)) {
    let columns = columns(analysed, (procedure, entry));
    if !columns.is_empty() {
        let known = writers.columns.get_or_insert_with(|| columns.clone());
        known.retain(|column| columns.contains(column));
    } else if entry.kind == Access::Insert && !is_routed(analysed, procedure) {
        writers.anywhere = Some(procedure);
    } else {
        writers.unknown = Some(procedure);
    }
}

/// Calls of the transaction run at the server of a parameter.
fn is_routed(analysed: &Analysed<'_>, procedure: usize) -> bool {
    analysed.partitioning.transactions[procedure].home.is_some() && analysed.needs_home(procedure)
}

/// Columns of the rows that have a value which routes the call.
fn columns(analysed: &Analysed<'_>, (procedure, entry): (usize, &Entry)) -> BTreeSet<ColumnIndex> {
    let routing = &analysed.partitioning.transactions[procedure];
    let keys = match (is_routed(analysed, procedure), analysed.class(procedure)) {
        (false, _) => Keys::new([]),
        // It runs without the token where all its parameters have one server.
        (true, Class::LocalGlobal) => Keys::new(routing.parameters()),
        (true, _) => routing.home_keys(),
    };
    let effects = &analysed.effects[procedure];
    let routed = analysed.partitioning.routed_columns(analysed.application, effects, procedure, entry);
    let parameters = &analysed.application.procedures[procedure].parameters;
    let columns = &analysed.application.catalog.table(entry.table).columns;
    // The database computes the slot by the column's type, and agents by the parameter's.
    let is_alike = |column: ColumnIndex, key: Key| {
        let kind = match key {
            Key::Own => Kind::Integer,
            Key::Parameter(index) => Kind::of(&parameters[index].ty),
        };
        kind != Kind::Other && kind == Kind::of(&columns[column].ty)
    };
    let routed = routed.into_iter().filter(|(column, key)| keys.contains(*key) && is_alike(*column, *key));
    routed.map(|(column, _)| column).collect()
}

fn rows(analysed: &Analysed<'_>, table: &Table, writers: &Writers) -> LocalRows {
    let name = |procedure: usize| &analysed.application.procedures[procedure].name;
    if let Some(procedure) = writers.unknown {
        let why = format!("{} writes rows of which no column has the value that routes it", name(procedure));
        return LocalRows::Unknown(why);
    }
    match (&writers.columns, writers.anywhere) {
        (None, _) => LocalRows::Anywhere,
        (Some(_), Some(procedure)) => LocalRows::Unknown(format!(
            "{} inserts rows at any server, and others write rows at the server of a slot",
            name(procedure)
        )),
        (Some(columns), None) => match best(analysed, table, columns) {
            Some(column) => LocalRows::Slot(table.columns[column].name.clone()),
            None => LocalRows::Unknown("its writers are routed by values of different columns".to_owned()),
        },
    }
}

/// The partition column of the table, or else the first of its key, or of all.
fn best(analysed: &Analysed<'_>, table: &Table, columns: &BTreeSet<ColumnIndex>) -> Option<ColumnIndex> {
    let partition = analysed.partitioning.column(table.id).into_iter();
    let key = table.primary_key.iter().flat_map(|key| key.columns.iter().copied());
    partition.chain(key).chain(columns.iter().copied()).find(|column| columns.contains(column))
}
