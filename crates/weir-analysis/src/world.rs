//! Facts about all procedures together: which of them insert, delete and update which data, which columns never change, which numbers
//! come from counters, and which rows a transaction claims.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_sql::catalog::{ColumnIndex, SequenceId, Table, TableId};
use weir_sql::{Application, Span};

use crate::dependents::Dependents;
use crate::effects::{
    ColumnOperation, Context, Key, Operation, ProcedureEffects, Read, ReadId, Sign, Term, TermId, Write,
};
use crate::planted::PlantedFlaws;

pub struct World<'a> {
    pub flaws: PlantedFlaws,
    pub app: &'a Application,
    pub effects: &'a [ProcedureEffects],
    /// By procedure.
    pub claims: Vec<Vec<ClaimedRow>>,
    pub dependents: Arc<Dependents>,
    /// The tables of which it has been asked who writes them: what it has answered follows from their writers.
    asked: RefCell<BTreeSet<TableId>>,
    updated: BTreeMap<(TableId, ColumnIndex), BTreeSet<usize>>,
    inserted: BTreeMap<TableId, BTreeSet<usize>>,
    deleted: BTreeMap<TableId, BTreeSet<usize>>,
    by_table: BTreeMap<TableId, Vec<(usize, &'a Write)>>,
    /// By procedure.
    own: Vec<Own>,
    /// Sequences that may repeat a number: they cycle, or are set.
    repeating: BTreeSet<SequenceId>,
    /// By column, the different ways in which inserts and updates make a generated value for it.
    ways: BTreeMap<(TableId, ColumnIndex), BTreeSet<Way>>,
    /// Columns to which two INSERT … ON CONFLICT of one row may give different values: the merge has the later one's.
    replaced: BTreeSet<(TableId, ColumnIndex)>,
}

/// The accesses of one transaction, as indexes into its effects.
#[derive(Default)]
struct Own {
    writes: BTreeMap<TableId, Vec<usize>>,
    reads: BTreeMap<TableId, Vec<ReadId>>,
    /// Updates and deletes by the row that they are of.
    by_row: BTreeMap<ReadId, usize>,
}

impl Own {
    fn of(effects: &ProcedureEffects) -> Own {
        let mut own = Own::default();
        for (index, write) in effects.writes.iter().enumerate() {
            own.writes.entry(write.table).or_default().push(index);
            if let Operation::Update { row, .. } | Operation::Delete { row } = write.operation {
                own.by_row.entry(row).or_insert(index);
            }
        }
        for (index, read) in effects.reads.iter().enumerate() {
            own.reads.entry(read.table).or_default().push(ReadId(index as u32));
        }
        own
    }
}

/// The sequence of a generated value, where it is known, and what is written around it.
type Way = (Option<SequenceId>, String);

/// A row that a transaction takes: it deletes it, or has it FOR UPDATE.
#[derive(Clone, Debug)]
pub struct ClaimedRow {
    pub table: TableId,
    /// The columns of a unique key, each with its value.
    pub key: Key,
    pub statement: Span,
    /// Deleted, so that it can be taken only once.
    pub deleted: bool,
    /// Where it is known to be there.
    pub certain: Option<Context>,
}

/// A column that hands out numbers: read and incremented in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub table: TableId,
    pub column: ColumnIndex,
    /// Key of the counter's row.
    pub key: Key,
    /// The statement that increments it.
    pub statement: Span,
    /// The update adds; a counter that is read and overwritten cannot be taken at the commit.
    pub adds: bool,
}

/// Where the values of a new row's key come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    Generated,
    Counted(Counter),
    Taken(ClaimedRow),
    Upsert,
    /// By the caller, or from data.
    Chosen,
}

impl<'a> World<'a> {
    pub fn new(app: &'a Application, effects: &'a [ProcedureEffects]) -> World<'a> {
        World::flawed(app, effects, PlantedFlaws::default())
    }

    pub fn flawed(app: &'a Application, effects: &'a [ProcedureEffects], flaws: PlantedFlaws) -> World<'a> {
        World::with_dependents(app, effects, flaws, Arc::new(Dependents::new(&app.catalog)))
    }

    /// `dependents`: of the application's catalog.
    pub fn with_dependents(
        app: &'a Application,
        effects: &'a [ProcedureEffects],
        flaws: PlantedFlaws,
        dependents: Arc<Dependents>,
    ) -> World<'a> {
        let mut world = World {
            flaws,
            app,
            effects,
            claims: Vec::new(),
            dependents,
            asked: RefCell::default(),
            own: effects.iter().map(Own::of).collect(),
            updated: BTreeMap::new(),
            inserted: BTreeMap::new(),
            deleted: BTreeMap::new(),
            by_table: BTreeMap::new(),
            repeating: BTreeSet::new(),
            ways: BTreeMap::new(),
            replaced: BTreeSet::new(),
        };
        let cycles = app.catalog.sequences.iter().filter(|sequence| sequence.cycle && !flaws.no_cycles);
        world.repeating.extend(cycles.map(|sequence| sequence.id));
        world.repeating.extend(effects.iter().flat_map(|effects| &effects.resets));
        for (procedure, effects) in effects.iter().enumerate() {
            for write in &effects.writes {
                world.by_table.entry(write.table).or_default().push((procedure, write));
                match write.operation {
                    Operation::Insert { .. } => {
                        world.inserted.entry(write.table).or_default().insert(procedure)
                    }
                    Operation::Delete { .. } => {
                        world.deleted.entry(write.table).or_default().insert(procedure)
                    }
                    Operation::Update { .. } => false,
                };
                for &(column, _) in write.updates() {
                    world.updated.entry((write.table, column)).or_default().insert(procedure);
                }
            }
        }
        world.ways = world.ways_to_generate();
        world.replaced = world.replaced_by_upserts();
        world.claims = effects.iter().map(|effects| claims_of(app, effects)).collect();
        world
    }

    /// The tables of which it has been asked who writes them, and how.
    pub fn asked(&self) -> BTreeSet<TableId> {
        self.asked.borrow().clone()
    }

    fn ask(&self, table: TableId) {
        if !self.flaws.forgets_asked {
            self.asked.borrow_mut().insert(table);
        }
    }

    pub fn table(&self, table: TableId) -> &'a Table {
        self.app.catalog.table(table)
    }

    pub fn name(&self, procedure: usize) -> &'a str {
        &self.app.procedures[procedure].name
    }

    /// The other of two transactions in words: "another f", "g".
    pub fn other(&self, procedure: usize, with: usize) -> String {
        other(self.app, procedure, with)
    }

    pub fn column_name(&self, table: TableId, column: ColumnIndex) -> String {
        let table = self.table(table);
        format!("{}.{}", table.name, table.columns[column].name)
    }

    pub fn inserters(&self, table: TableId) -> impl Iterator<Item = usize> + '_ {
        self.ask(table);
        self.inserted.get(&table).into_iter().flatten().copied()
    }

    pub fn deleters(&self, table: TableId) -> impl Iterator<Item = usize> + '_ {
        self.ask(table);
        self.deleted.get(&table).into_iter().flatten().copied()
    }

    pub fn updaters(&self, table: TableId, column: ColumnIndex) -> impl Iterator<Item = usize> + '_ {
        self.ask(table);
        self.updated.get(&(table, column)).into_iter().flatten().copied()
    }

    pub fn is_written(&self, table: TableId) -> bool {
        self.ask(table);
        self.by_table.contains_key(&table)
    }

    /// No procedure updates it after the insert.
    pub fn is_immutable(&self, table: TableId, column: ColumnIndex) -> bool {
        self.ask(table);
        !self.updated.contains_key(&(table, column))
    }

    /// Returns whether the column is immutable, and no other branch inserts the row with another value there.
    pub fn keeps_its_value(&self, table: TableId, column: ColumnIndex) -> bool {
        self.is_immutable(table, column) && !self.is_replaced(table, column)
    }

    /// Two branches that insert one row ON CONFLICT may give the column different values.
    pub fn is_replaced(&self, table: TableId, column: ColumnIndex) -> bool {
        self.ask(table);
        self.replaced.contains(&(table, column))
    }

    fn replaced_by_upserts(&self) -> BTreeSet<(TableId, ColumnIndex)> {
        let constant = |procedure: usize, term| match self.effects[procedure].terms.get(term) {
            constant @ (Term::Null | Term::Integer(_) | Term::Literal(..)) => Some(constant),
            _ => None,
        };
        let mut replaced = BTreeSet::new();
        // By column, the constant that all give it so far.
        let mut given: BTreeMap<(TableId, ColumnIndex), Option<&Term>> = BTreeMap::new();
        for (procedure, effects) in self.effects.iter().enumerate() {
            for write in &effects.writes {
                let Operation::Insert { values, on_conflict: Some(conflict) } = &write.operation else {
                    continue;
                };
                let declared = self.table(write.table);
                let primary = declared.primary_key.as_ref().map(|key| key.columns.as_slice());
                let key = conflict.columns.as_deref().or(primary).unwrap_or_default();
                for (column, value) in values.iter().enumerate().filter(|(column, _)| !key.contains(column)) {
                    let value = constant(procedure, *value);
                    let first = given.entry((write.table, column)).or_insert(value);
                    if value.is_none() || *first != value {
                        replaced.insert((write.table, column));
                    }
                }
            }
        }
        replaced
    }

    /// Procedure that, merged with another, produces a value of these columns that neither branch has seen: by a change that depends on
    /// the earlier value, or by setting only some of the columns that are set at all. Considers the writes for which `matters` holds.
    pub fn composer(
        &self,
        table: TableId,
        columns: &[ColumnIndex],
        matters: &dyn Fn(usize, &Write) -> bool,
    ) -> Option<usize> {
        let mutable: BTreeSet<ColumnIndex> =
            columns.iter().copied().filter(|column| !self.is_immutable(table, *column)).collect();
        let composes = |procedure: usize, write: &Write| {
            let changes: Vec<_> =
                mutable.iter().filter_map(|&column| Some((column, write.update_of(column)?))).collect();
            changes.iter().any(|&(column, change)| self.is_computed(procedure, write, column, change))
                || !changes.is_empty() && changes.len() < mutable.len()
        };
        let mut writes = self.writes_of(table).filter(|(procedure, write)| matters(*procedure, write));
        writes.find(|(procedure, write)| composes(*procedure, write)).map(|(other, _)| other)
    }

    /// Returns whether the new value depends on the earlier one, other than by `coalesce(…, column)`, which sets the column or leaves it.
    fn is_computed(
        &self,
        procedure: usize,
        write: &Write,
        column: ColumnIndex,
        change: ColumnOperation,
    ) -> bool {
        let (terms, row) = match &write.operation {
            Operation::Update { row, .. } => (&self.effects[procedure].terms, *row),
            _ => return !matches!(change, ColumnOperation::Assign(_)),
        };
        let of_row = |term: TermId| matches!(terms.get(term), Term::Field { row: of, .. } if *of == row);
        match change {
            ColumnOperation::Assign(_) => false,
            ColumnOperation::Apply(term) => match terms.get(term) {
                Term::Call { name, arguments } if name == "coalesce" => match arguments.split_last() {
                    Some((last, given)) => {
                        *terms.get(*last) != Term::Field { row, column }
                            || given.iter().any(|given| terms.leaves(*given).into_iter().any(of_row))
                    }
                    None => true,
                },
                _ => true,
            },
            _ => true,
        }
    }

    /// Writes of all procedures, with the procedure.
    pub fn writes(&self) -> impl Iterator<Item = (usize, &'a Write)> + '_ {
        self.app.catalog.tables.iter().for_each(|table| self.ask(table.id));
        self.all_writes()
    }

    fn all_writes(&self) -> impl Iterator<Item = (usize, &'a Write)> + '_ {
        self.effects
            .iter()
            .enumerate()
            .flat_map(|(procedure, effects)| effects.writes.iter().map(move |write| (procedure, write)))
    }

    /// Those of some tables, procedure by procedure.
    pub fn writes_to(
        &self,
        tables: impl IntoIterator<Item = TableId>,
    ) -> impl Iterator<Item = (usize, &'a Write)> + '_ {
        let tables: BTreeSet<TableId> = tables.into_iter().collect();
        tables.iter().for_each(|table| self.ask(*table));
        self.all_writes().filter(move |(_, write)| tables.contains(&write.table))
    }

    /// Those of one table.
    pub fn writes_of(&self, table: TableId) -> impl Iterator<Item = (usize, &'a Write)> + '_ {
        self.ask(table);
        self.by_table.get(&table).into_iter().flatten().copied()
    }

    /// The procedure's own writes of a table, with their index.
    pub fn own_writes(
        &self,
        procedure: usize,
        table: TableId,
    ) -> impl Iterator<Item = (usize, &'a Write)> + Clone + '_ {
        let writes = &self.effects[procedure].writes;
        let indexes = self.own[procedure].writes.get(&table).into_iter().flatten();
        indexes.map(|&index| (index, &writes[index]))
    }

    /// The rows of a table that the procedure reads.
    pub fn own_reads(&self, procedure: usize, table: TableId) -> impl Iterator<Item = ReadId> + '_ {
        self.own[procedure].reads.get(&table).into_iter().flatten().copied()
    }

    /// The procedure's first update or delete of the row that it has read.
    pub fn write_of_row(&self, procedure: usize, row: ReadId) -> Option<&'a Write> {
        let index = self.own[procedure].by_row.get(&row)?;
        Some(&self.effects[procedure].writes[*index])
    }

    /// The claim of that procedure which covers these rows: the row's key values are among the values that
    /// find them, so transactions that claim different rows reach different ones here.
    pub fn covering_claim(&self, procedure: usize, key: &Key) -> Option<&ClaimedRow> {
        self.claims[procedure]
            .iter()
            .find(|claim| claim.key.iter().all(|(_, term)| key.iter().any(|(_, other)| other == term)))
    }

    /// Counter that has handed out the number in `term`, if any.
    pub fn counter(&self, procedure: usize, term: TermId) -> Option<Counter> {
        let effects = &self.effects[procedure];
        let Term::Field { row, column } = *effects.terms.get(effects.terms.base(term)) else { return None };
        let read = effects.read(row);
        self.own_writes(procedure, read.table).find_map(|(_, write)| {
            let Operation::Update { row: updated, .. } = write.operation else { return None };
            let target = effects.read(updated);
            let same = updated == row || (target.key == read.key && !read.key.is_empty());
            if !same {
                return None;
            }
            let adds = match write.update_of(column)? {
                ColumnOperation::Add(delta) => is_positive(effects.terms.sign(delta)),
                ColumnOperation::Assign(value) => {
                    let base = effects.terms.base(value);
                    let is_next = value != base && base == effects.terms.base(term);
                    if !is_next {
                        return None;
                    }
                    false
                }
                _ => return None,
            };
            Some(Counter { table: read.table, column, key: target.key.clone(), statement: write.span, adds })
        })
    }

    /// Where the values of these columns of a new row come from.
    pub fn key_source(&self, procedure: usize, write: &Write, columns: &[ColumnIndex]) -> KeySource {
        let Operation::Insert { values, on_conflict } = &write.operation else { return KeySource::Chosen };
        let key: Key = columns.iter().map(|&column| (column, values[column])).collect();
        if key.iter().any(|(column, term)| self.is_generated(procedure, write.table, *column, *term)) {
            return KeySource::Generated;
        }
        if let Some(conflict) = on_conflict {
            let same = conflict.columns.as_ref().is_none_or(|on| {
                on.iter().collect::<BTreeSet<_>>() == columns.iter().collect::<BTreeSet<_>>()
            });
            if same {
                return KeySource::Upsert;
            }
        }
        for (_, term) in &key {
            if let Some(counter) = self.counter(procedure, *term)
                && counter.key.iter().all(|(_, part)| key.iter().any(|(_, other)| other == part))
            {
                return KeySource::Counted(counter);
            }
        }
        match self.covering_claim(procedure, &key) {
            Some(claim) if self.exists(procedure, claim, write) => KeySource::Taken(claim.clone()),
            _ => KeySource::Chosen,
        }
    }

    /// The value is made of a generated one, in the same way wherever one is made for this column: two ways, or two
    /// sequences, may lead to one value, and so may a sequence that gives a number twice.
    pub fn is_generated(&self, procedure: usize, table: TableId, column: ColumnIndex, term: TermId) -> bool {
        let Some(made) = self.generated(procedure, term) else { return false };
        self.ask(table);
        let mut ways = self.ways.get(&(table, column)).into_iter().flatten();
        ways.all(|way| way.1 == made.1 && way.0.zip(made.0).is_none_or(|(one, another)| one == another))
    }

    fn ways_to_generate(&self) -> BTreeMap<(TableId, ColumnIndex), BTreeSet<Way>> {
        let mut ways: BTreeMap<_, BTreeSet<Way>> = BTreeMap::new();
        for (table, writes) in &self.by_table {
            for (procedure, write) in writes {
                let inserted = match &write.operation {
                    Operation::Insert { values, .. } => values.as_slice(),
                    _ => &[],
                };
                let updated = write.updates().iter().map(|(column, change)| (*column, change.term()));
                for (column, term) in inserted.iter().copied().enumerate().chain(updated) {
                    if let Some(way) = self.generated(*procedure, term) {
                        ways.entry((*table, column)).or_default().insert(way);
                    }
                }
            }
        }
        ways
    }

    /// The sequence of a generated value, and what is written around it: different numbers are different texts, and
    /// stay so with the same words before and after them.
    fn generated(&self, procedure: usize, term: TermId) -> Option<Way> {
        let effects = &self.effects[procedure];
        match effects.terms.get(term) {
            Term::Generated(site) => {
                let sequence = effects.generated.get(site).copied().flatten();
                let repeats = sequence.is_some_and(|sequence| self.repeating.contains(&sequence));
                (!repeats).then(|| (sequence, String::new()))
            }
            Term::Call { name, arguments } => match (name.as_str(), arguments.as_slice()) {
                ("cast to Text", &[number]) => self.generated(procedure, number),
                ("Concat", &[left, right]) => match (effects.terms.get(left), effects.terms.get(right)) {
                    (Term::Literal(words, _), _) => {
                        let (sequence, inner) = self.generated(procedure, right)?;
                        Some((sequence, format!("{words:?} {inner}")))
                    }
                    (_, Term::Literal(words, _)) => {
                        let (sequence, inner) = self.generated(procedure, left)?;
                        Some((sequence, format!("{inner} {words:?}")))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the claimed row existed before: its key consists of values read from such a row, or the text stops without it.
    /// Otherwise it may be missing, or inserted by the transaction itself.
    fn exists(&self, procedure: usize, claim: &ClaimedRow, write: &Write) -> bool {
        let effects = &self.effects[procedure];
        let read = |term: TermId| match effects.terms.get(term) {
            Term::Field { row, .. } => effects.read(*row).table == claim.table,
            _ => false,
        };
        let certain = |other: &ClaimedRow| {
            let here = other.certain.as_ref().is_some_and(|context| write.context.starts_with(context));
            here && other.table == claim.table && other.key == claim.key
        };
        claim.key.iter().any(|(_, term)| read(*term)) || self.claims[procedure].iter().any(certain)
    }

    /// A value that is the same wherever and whenever the transaction runs beside others: parameters,
    /// constants, immutable columns, rows of its own; rows that it has claimed if `claims` is true.
    pub fn self_determined(&self, procedure: usize, term: TermId, claims: bool) -> Result<(), Unsettled> {
        let effects = &self.effects[procedure];
        for leaf in effects.terms.leaves(term) {
            match effects.terms.get(leaf) {
                Term::Field { row, column } => {
                    let read = effects.read(*row);
                    let claimed = claims && self.settled_by_claim(procedure, read, *column);
                    if !claimed && !self.keeps_its_value(read.table, *column) {
                        return Err(Unsettled { table: read.table, column: Some(*column), row: *row });
                    }
                }
                Term::Aggregate { rows, .. } => {
                    for &row in rows {
                        let read = effects.read(row);
                        let covered = claims && self.covering_claim(procedure, &read.key).is_some();
                        let fixed = !self.is_written(read.table);
                        if !fixed && !covered {
                            return Err(Unsettled { table: read.table, column: None, row });
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether this transaction's claim covers the row, and every update of that column is covered by it too.
    fn settled_by_claim(&self, procedure: usize, read: &Read, column: ColumnIndex) -> bool {
        let Some(claim) = self.covering_claim(procedure, &read.key) else { return false };
        self.updates_are_claimed(read.table, column, claim.table)
    }

    /// Every update of the column is of rows that its transaction has claimed in `claimed`.
    pub fn updates_are_claimed(&self, table: TableId, column: ColumnIndex, claimed: TableId) -> bool {
        self.updaters(table, column).all(|procedure| {
            let effects = &self.effects[procedure];
            let own = self.own_writes(procedure, table);
            let mut updates = own.filter(|(_, write)| write.update_of(column).is_some());
            updates.all(|(_, write)| {
                self.covering_claim(procedure, &effects.key_of(write))
                    .is_some_and(|claim| claim.table == claimed)
            })
        })
    }
}

/// A value that may be another one when the branch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    pub table: TableId,
    /// `None`: which rows there are.
    pub column: Option<ColumnIndex>,
    pub row: ReadId,
}

pub fn is_positive(sign: Sign) -> bool {
    !sign.negative && !sign.zero
}

fn claims_of(app: &Application, effects: &ProcedureEffects) -> Vec<ClaimedRow> {
    let mut claims = Vec::new();
    let mut add = |read: &Read, statement, deleted| {
        if let Some(key) = unique_part(app.catalog.table(read.table), &read.key) {
            let certain = read.certain.then(|| read.context.clone());
            claims.push(ClaimedRow { table: read.table, key, statement, deleted, certain });
        }
    };
    for write in effects.writes.iter().filter(|write| write.action.is_none()) {
        if let Operation::Delete { row } = write.operation {
            add(effects.read(row), write.span, true);
        }
    }
    for read in effects.reads.iter().filter(|read| read.locked) {
        add(read, read.span, false);
    }
    claims
}

/// The part of the key that names one row, if it does.
pub fn unique_part(table: &Table, key: &Key) -> Option<Key> {
    let value = |column: &ColumnIndex| key.iter().find(|(bound, _)| bound == column).copied();
    table
        .primary_key
        .iter()
        .chain(&table.unique_keys)
        .find_map(|unique| unique.columns.iter().map(value).collect::<Option<Key>>())
}

/// Columns that contain a unique key whose columns are never NULL: one row has their values.
pub fn has_one_row_at_most(table: &Table, columns: &BTreeSet<ColumnIndex>) -> bool {
    table.primary_key.iter().chain(&table.unique_keys).any(|key| {
        key.columns.iter().all(|column| columns.contains(column) && table.columns[*column].not_null)
    })
}

/// The other of two transactions in words: "another f", "g".
pub fn other(app: &Application, procedure: usize, with: usize) -> String {
    let name = &app.procedures[with].name;
    if with == procedure { format!("another {name}") } else { name.clone() }
}
