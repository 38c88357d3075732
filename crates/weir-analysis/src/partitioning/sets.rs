//! Read and write sets (operation-partitioning.txt §3.1, "Extracting read/write sets").
//!
//! One entry for each access of each statement, regardless of the path that leads there. Beyond the paper,
//! columns in conditions are read, INSERT and DELETE write every column and the row's existence, and what
//! a constraint looks at or changes counts too. Never missing an access is what the classes rest on.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Span;
use weir_sql::catalog::{
    Catalog, ColumnIndex, ForeignKey, ForeignKeyAction, SequenceId, Table, TableId, UniqueKey,
};

use super::atoms::{self, Atom, Pending};
use super::conflict::is_statement;
use crate::dependents::Dependents;
use crate::effects::{
    ColumnOperation, Context, Key, Moment, Operation, ProcedureEffects, ReadId, Term, TermId, Write,
};

/// A column, or (`None`) whether the row is there.
pub type Touched = BTreeSet<Option<ColumnIndex>>;

/// ⟨accessed attributes, condition⟩ of §3.1.
#[derive(Clone, Debug)]
pub struct Entry {
    pub table: TableId,
    pub touched: Touched,
    pub kind: Kind,
    pub cause: Cause,
    /// The row that the statement found, with its key and conditions.
    pub row: Option<ReadId>,
    /// Columns of the row and what they are known to be equal to.
    pub values: Key,
    pub context: Context,
    pub moment: Moment,
    pub span: Span,
    /// The condition: one of these holds. No alternative at all is *never*.
    pub alternatives: Vec<Vec<Atom>>,
    /// Further consequences, if a nullable value is not NULL.
    pub pending: Vec<Pending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Insert,
    Update,
    Delete,
}

/// Why the entry is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Statement,
    /// A unique key of that name looks for another row.
    Unique(String),
    /// A foreign key of that name looks for the parent, or for children or changes them.
    ForeignKey(String),
    /// Something that the analysis does not follow: it may do anything.
    NotFollowed,
}

/// Which accesses count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Columns that are returned are read, columns that are given are written, and nothing else. Misses
    /// conflicts; kept so that a test can show one.
    Paper,
    Complete,
}

/// The sets of all transactions.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// By procedure.
    pub entries: Vec<Vec<Entry>>,
    /// Columns that are updated after the insert.
    updated: BTreeSet<(TableId, ColumnIndex)>,
    /// Tables from which rows are deleted.
    deleted: BTreeSet<TableId>,
    /// Columns whose values always come from the one generator.
    fresh: BTreeSet<(TableId, ColumnIndex)>,
}

impl Cause {
    /// `null` for what a statement says itself.
    pub fn name(&self) -> Option<&str> {
        match self {
            Cause::Statement => None,
            Cause::Unique(name) | Cause::ForeignKey(name) => Some(name),
            Cause::NotFollowed => Some("not followed"),
        }
    }
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Delete => "delete",
        }
    }

    pub fn is_write(self) -> bool {
        self != Kind::Read
    }
}

impl Sets {
    pub fn new(catalog: &Catalog, effects: &[ProcedureEffects], definition: Definition) -> Sets {
        let fresh = always_generated(effects);
        let dependents = Dependents::new(catalog);
        let of = |own| joined(entries_of(catalog, &dependents, own, &fresh, definition));
        let entries = effects.iter().map(of).collect();
        let mut sets = Sets { entries, fresh, ..Sets::default() };
        for entry in sets.entries.iter().flatten() {
            match entry.kind {
                Kind::Update => {
                    let columns = entry.touched.iter().flatten();
                    sets.updated.extend(columns.map(|&column| (entry.table, column)));
                }
                Kind::Delete => {
                    sets.deleted.insert(entry.table);
                }
                Kind::Read | Kind::Insert => {}
            }
        }
        sets
    }

    /// The column is never updated: a condition on it holds for the row at all times.
    pub fn is_fixed(&self, table: TableId, column: ColumnIndex) -> bool {
        !self.updated.contains(&(table, column))
    }

    /// A new value of the column is that of no other row, gone or there.
    pub fn is_fresh(&self, table: TableId, column: ColumnIndex) -> bool {
        self.fresh.contains(&(table, column))
    }

    /// No rows of the table are deleted: an immutable key always names the same row.
    pub fn is_lasting(&self, table: TableId) -> bool {
        !self.deleted.contains(&table)
    }
}

/// Number of accesses of one kind to one table that are distinguished. Beyond it only the touched items are recorded, without the
/// conditions: multiplying paths produce accesses that differ in their conditions alone.
const ALIKE_MAX: usize = 8;

/// The entries, with those of too many paths as one: it touches what any of them does, and any row.
fn joined(entries: Vec<Entry>) -> Vec<Entry> {
    let alike = |entry: &Entry| (entry.table, entry.kind, is_statement(entry));
    let mut count: BTreeMap<_, usize> = BTreeMap::new();
    entries.iter().for_each(|entry| *count.entry(alike(entry)).or_default() += 1);
    if count.values().all(|&count| count <= ALIKE_MAX) {
        return entries;
    }
    let mut first: BTreeMap<_, usize> = BTreeMap::new();
    let mut joined: Vec<Entry> = Vec::new();
    for entry in entries {
        if count[&alike(&entry)] <= ALIKE_MAX {
            joined.push(entry);
            continue;
        }
        match first.entry(alike(&entry)) {
            MapEntry::Occupied(at) => joined[*at.get()].touched.extend(entry.touched),
            MapEntry::Vacant(at) => {
                at.insert(joined.len());
                let anything = vec![Vec::new()];
                let (row, values, context) = (None, Key::new(), Context::new());
                joined.push(Entry {
                    row,
                    values,
                    context,
                    alternatives: anything,
                    pending: Vec::new(),
                    ..entry
                });
            }
        }
    }
    joined
}

/// See [`Sets::is_fresh`].
fn always_generated(effects: &[ProcedureEffects]) -> BTreeSet<(TableId, ColumnIndex)> {
    let mut sources: BTreeMap<(TableId, ColumnIndex), BTreeSet<Option<Option<SequenceId>>>> = BTreeMap::new();
    for own in effects {
        let generator = |term: TermId| match own.terms.get(term) {
            Term::Generated(site) => own.generated.get(site).copied(),
            _ => None,
        };
        for write in &own.writes {
            if let Operation::Insert { values, .. } = &write.operation {
                for (column, &term) in values.iter().enumerate() {
                    sources.entry((write.table, column)).or_default().insert(generator(term));
                }
            }
            for (column, _) in write.updates() {
                sources.entry((write.table, *column)).or_default().insert(None);
            }
        }
    }
    let one = |generators: &BTreeSet<_>| generators.len() == 1 && !generators.contains(&None);
    sources.into_iter().filter(|(_, generators)| one(generators)).map(|(place, _)| place).collect()
}

fn entries_of(
    catalog: &Catalog,
    dependents: &Dependents,
    effects: &ProcedureEffects,
    fresh: &BTreeSet<(TableId, ColumnIndex)>,
    definition: Definition,
) -> Vec<Entry> {
    let mut builder = Builder { catalog, dependents, effects, fresh, entries: Vec::new() };
    // The actions of foreign keys on children are worked out below, for every write (`children`).
    for (index, read) in effects.reads.iter().enumerate().filter(|(_, read)| read.action.is_none()) {
        let columns = match definition {
            Definition::Paper => read.returned.iter().map(|&column| Some(column)).collect(),
            Definition::Complete => with_existence(read.columns.iter().copied()),
        };
        let row = Some(ReadId(index as u32));
        builder.add(
            read.table,
            columns,
            Kind::Read,
            Cause::Statement,
            row,
            Key::new(),
            At { context: &read.context, moment: read.moment, span: read.span },
        );
    }
    for write in effects.writes.iter().filter(|write| write.action.is_none()) {
        builder.write(write, definition);
    }
    if let (Some((_, span)), Definition::Complete) =
        (effects.unknown.iter().chain(&effects.unseen).next(), definition)
    {
        builder.anything(*span);
    }
    builder.entries
}

fn with_existence(columns: impl IntoIterator<Item = ColumnIndex>) -> Touched {
    columns.into_iter().map(Some).chain([None]).collect()
}

fn all_columns(table: &Table) -> Touched {
    with_existence(0..table.columns.len())
}

/// Where and when a statement stands.
#[derive(Clone, Copy)]
struct At<'a> {
    context: &'a Context,
    moment: Moment,
    span: Span,
}

impl At<'_> {
    fn of(write: &Write) -> At<'_> {
        At { context: &write.context, moment: write.moment, span: write.span }
    }
}

struct Builder<'a> {
    catalog: &'a Catalog,
    dependents: &'a Dependents,
    effects: &'a ProcedureEffects,
    /// See [`Sets::is_fresh`].
    fresh: &'a BTreeSet<(TableId, ColumnIndex)>,
    entries: Vec<Entry>,
}

impl Builder<'_> {
    #[allow(clippy::too_many_arguments)]
    fn add(
        &mut self,
        table: TableId,
        touched: Touched,
        kind: Kind,
        cause: Cause,
        row: Option<ReadId>,
        values: Key,
        at: At<'_>,
    ) {
        if touched.is_empty() {
            return;
        }
        let compared = kind == Kind::Read;
        let (alternatives, pending) = atoms::of(self.effects, row, &values, compared);
        let At { context, moment, span } = at;
        let context = context.clone();
        self.entries.push(Entry {
            table,
            touched,
            kind,
            cause,
            row,
            values,
            context,
            moment,
            span,
            alternatives,
            pending,
        });
    }

    fn write(&mut self, write: &Write, definition: Definition) {
        let table = self.catalog.table(write.table);
        let complete = definition == Definition::Complete;
        let given = |touched: &mut Touched, values: &[TermId]| {
            touched.retain(|column| {
                column.is_some_and(|column| !matches!(self.effects.terms.get(values[column]), Term::Null))
            });
        };
        let mut add = |kind, touched, row, values| {
            self.add(write.table, touched, kind, Cause::Statement, row, values, At::of(write));
        };
        match &write.operation {
            Operation::Insert { values, on_conflict } => {
                let mut touched = all_columns(table);
                if !complete {
                    given(&mut touched, values);
                }
                add(Kind::Insert, touched, None, values.iter().copied().enumerate().collect());
                if let Some(conflict) = on_conflict
                    && !conflict.update.is_empty()
                {
                    let touched = conflict.update.iter().map(|(column, _)| Some(*column)).collect();
                    let key = conflict.columns.iter().flatten().map(|&column| (column, values[column]));
                    add(Kind::Update, touched, None, key.collect());
                }
            }
            Operation::Update { row, columns } => {
                let touched = columns.iter().map(|(column, _)| Some(*column)).collect();
                add(Kind::Update, touched, Some(*row), Key::new());
            }
            Operation::Delete { row } if complete => {
                add(Kind::Delete, all_columns(table), Some(*row), Key::new());
            }
            Operation::Delete { .. } => {}
        }
        if complete {
            self.constraints(table, write);
        }
    }

    /// Reads and writes by the constraints of the written table, and by those that reference it.
    fn constraints(&mut self, table: &Table, write: &Write) {
        let new = self.new_values(write);
        let changed = |columns: &[ColumnIndex]| {
            write.is_insert() || columns.iter().any(|&column| write.update_of(column).is_some())
        };
        let known = |columns: &[ColumnIndex], to: &[ColumnIndex]| -> Key {
            let value = |column: &ColumnIndex| new.iter().find(|(known, _)| known == column).map(|(_, v)| *v);
            columns.iter().zip(to).filter_map(|(column, to)| Some((*to, value(column)?))).collect()
        };
        let never_fresh = |key: &&UniqueKey| {
            changed(&key.columns)
                && !key.columns.iter().any(|&column| self.fresh.contains(&(table.id, column)))
        };
        let keys: Vec<&UniqueKey> =
            table.primary_key.iter().chain(&table.unique_keys).filter(never_fresh).collect();
        let mut look = |of, columns: &[ColumnIndex], cause, values| {
            let touched = with_existence(columns.iter().copied());
            self.add(of, touched, Kind::Read, cause, None, values, At::of(write));
        };
        for key in keys {
            let cause = Cause::Unique(key.name.clone());
            look(table.id, &key.columns, cause, known(&key.columns, &key.columns));
        }
        for index in table.indexes.iter().filter(|index| index.unique) {
            let mut columns = Vec::new();
            let exprs = index.keys.iter().map(|key| &key.expr).chain(&index.predicate);
            exprs.for_each(|expr| weir_sql::walk::columns(expr, &mut |_, column| columns.push(column)));
            if changed(&columns) {
                let plain: Vec<ColumnIndex> = index.keys.iter().filter_map(|key| plain(&key.expr)).collect();
                look(table.id, &columns, Cause::Unique(index.name.clone()), known(&plain, &plain));
            }
        }
        for exclusion in &table.exclusions {
            let exprs = exclusion.elements.iter().map(|(expr, _)| expr).chain(&exclusion.predicate);
            let mut columns = Vec::new();
            exprs.for_each(|expr| weir_sql::walk::columns(expr, &mut |_, column| columns.push(column)));
            if changed(&columns) {
                let equal = exclusion.elements.iter().filter(|(_, operator)| operator == "=");
                let plain: Vec<ColumnIndex> = equal.filter_map(|(expr, _)| plain(expr)).collect();
                look(table.id, &columns, Cause::Unique(exclusion.name.clone()), known(&plain, &plain));
            }
        }
        for key in table.foreign_keys.iter().filter(|key| changed(&key.columns)) {
            let cause = Cause::ForeignKey(key.name.clone());
            look(key.parent, &key.parent_columns, cause, known(&key.columns, &key.parent_columns));
        }
        if let Operation::Update { row, .. } | Operation::Delete { row } = write.operation {
            let old = self.effects.read(row).key.clone();
            let updated = |column: &ColumnIndex| write.update_of(*column).is_some();
            self.children(table.id, &old, &updated, write.is_delete(), write, &mut BTreeSet::new());
        }
    }

    /// The row's values after the write, where it says them.
    fn new_values(&self, write: &Write) -> Key {
        match &write.operation {
            Operation::Insert { values, .. } => values.iter().copied().enumerate().collect(),
            Operation::Delete { .. } => Key::new(),
            Operation::Update { row, columns } => {
                let kept = self.effects.read(*row).key.iter().copied();
                let kept = kept.filter(|(column, _)| write.update_of(*column).is_none());
                let assigned = columns.iter().filter_map(|&(column, operation)| match operation {
                    ColumnOperation::Assign(term) => Some((column, term)),
                    _ => None,
                });
                kept.chain(assigned).collect()
            }
        }
    }

    /// Rows that refer to a row that goes, or whose key changes. `old` is what is known of that row.
    fn children(
        &mut self,
        parent: TableId,
        old: &Key,
        updated: &dyn Fn(&ColumnIndex) -> bool,
        deleted: bool,
        write: &Write,
        seen: &mut BTreeSet<(TableId, usize)>,
    ) {
        for (child, index, key) in self.dependents.children(self.catalog, parent) {
            let touches = deleted || key.parent_columns.iter().any(updated);
            if !touches || !seen.insert((child.id, index)) {
                continue;
            }
            let value = |column: &ColumnIndex| old.iter().find(|(c, _)| c == column).map(|(_, term)| *term);
            let pairs = key.columns.iter().zip(&key.parent_columns);
            let known: Key = pairs.filter_map(|(own, of)| Some((*own, value(of)?))).collect();
            self.child(child, key, known, deleted, write, seen);
        }
    }

    fn child(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        known: Key,
        deleted: bool,
        write: &Write,
        seen: &mut BTreeSet<(TableId, usize)>,
    ) {
        let action = if deleted { key.on_delete } else { key.on_update };
        let existing = with_existence(key.columns.iter().copied());
        let changed: Touched = key.columns.iter().map(|&column| Some(column)).collect();
        let mut add = |touched, kind| {
            let cause = Cause::ForeignKey(key.name.clone());
            self.add(child.id, touched, kind, cause, None, known.clone(), At::of(write));
        };
        add(existing, Kind::Read);
        match action {
            ForeignKeyAction::NoAction | ForeignKeyAction::Restrict => return,
            ForeignKeyAction::Cascade if deleted => add(all_columns(child), Kind::Delete),
            ForeignKeyAction::Cascade | ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault => {
                add(changed, Kind::Update)
            }
        }
        let gone = deleted && action == ForeignKeyAction::Cascade;
        let columns = key.columns.clone();
        self.children(child.id, &known, &|column| columns.contains(column), gone, write, seen);
    }

    /// Reads and writes of everything.
    fn anything(&mut self, span: Span) {
        for table in &self.catalog.tables {
            for kind in [Kind::Read, Kind::Update, Kind::Delete] {
                let (none, nowhere) = (Key::new(), Context::new());
                let at = At { context: &nowhere, moment: Moment::default(), span };
                self.add(table.id, all_columns(table), kind, Cause::NotFollowed, None, none, at);
            }
        }
    }
}

fn plain(expr: &weir_sql::bound::Expr) -> Option<ColumnIndex> {
    match expr.kind {
        weir_sql::bound::ExprKind::Column { column, .. } => Some(column),
        _ => None,
    }
}
