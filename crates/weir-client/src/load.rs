//! Many rows into one table: an INSERT of one row, run for as many as a message carries on the shard where they live (docs/internals/server.md,
//! "Many rows at once").

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_net::clock::transaction_time;
use weir_sql::Text;
use weir_sql::catalog::Catalog;
use weir_txn::exec::program::{CompiledText, Program};
use weir_txn::message::{Call, Callee};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::function::double_quoted;
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::calls::{Callable, Wish};
use crate::carrier::now_ms;
use crate::prepared::{What, prepare};

/// A table and those of its columns that are meant.
#[derive(Clone, Debug)]
pub struct LoadedTable {
    pub name: String,
    pub columns: Vec<(String, SqlType)>,
    /// A column whose values are always generated is among them.
    overrides: bool,
}

impl LoadedTable {
    /// # Errors
    /// There is no such table or column; it is named twice, or computed from others.
    pub(crate) fn of(catalog: &Catalog, name: &str, columns: &[String]) -> Result<LoadedTable, SqlError> {
        let table = catalog.table_by_name(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
        })?;
        let all = || table.columns.iter().filter(|column| column.generated.is_none());
        let mut meant = Vec::new();
        for wanted in columns {
            let column = table.columns.iter().find(|column| column.name == *wanted).ok_or_else(|| {
                let message = format!("column \"{wanted}\" of relation \"{name}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?;
            if column.generated.is_some() {
                let message = format!("column \"{wanted}\" is a generated column");
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    .with_detail("Generated columns cannot be used in COPY."));
            }
            if meant.iter().any(|one: &&weir_sql::catalog::Column| one.name == *wanted) {
                let message = format!("column \"{wanted}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            meant.push(column);
        }
        if columns.is_empty() {
            meant = all().collect();
        }
        let overrides = meant.iter().any(|column| column.generated_always);
        let columns = meant.iter().map(|column| (column.name.clone(), column.ty.clone())).collect();
        Ok(LoadedTable { name: name.to_owned(), columns, overrides })
    }

    fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| double_quoted(name)).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.names(), quoted_table(&self.name))
    }

    fn insert(&self) -> String {
        let values: Vec<String> = (1..=self.columns.len()).map(|at| format!("${at}")).collect();
        let overriding = if self.overrides { " OVERRIDING SYSTEM VALUE" } else { "" };
        let (name, names) = (quoted_table(&self.name), self.names());
        format!("INSERT INTO {name} ({names}){overriding} VALUES ({})", values.join(", "))
    }
}

/// With its schema, if that is not `public`.
fn quoted_table(name: &str) -> String {
    name.splitn(2, '.').map(double_quoted).collect::<Vec<_>>().join(".")
}

/// Rows go in, and come out in batches, each of rows in which the same shards take part.
#[derive(Debug)]
pub struct Load {
    pub table: LoadedTable,
    program: Arc<Program>,
    text: Arc<Text>,
    compiled: Arc<CompiledText>,
    /// The statement has to know which batches are its own ([`crate::Client::begin_statement_of_batches`]).
    has_statement_checks: bool,
    /// By the shards that take part in a row, who decides last: where it lives, and where its parents do.
    gathered: BTreeMap<Vec<ShardId>, Gathered>,
    /// Total bytes gathered.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Gathered {
    args: Vec<Value>,
    bytes: usize,
    /// The places of the first and the last, and of all.
    places: Option<(u64, u64)>,
    all: Vec<u64>,
}

/// Rows in which the same shards take part, and the places of the first and the last of them in whatever they come from.
#[derive(Debug)]
pub struct Batch {
    text: Arc<Text>,
    args: Vec<Value>,
    schema_version: u64,
    pub places: (u64, u64),
    /// The places of all its rows.
    pub all: Vec<u64>,
}

/// Bytes of all rows that are gathered. A message carries 16 MiB; what a batch has as values takes less as a message.
const BYTES_MAX: usize = 6 << 20;

/// Limits of one batch, in rows and in bytes of values: reused memory is fast.
const BATCH_ROWS_MAX: usize = 4_096;
const BATCH_BYTES_MAX: usize = 512 << 10;

impl Load {
    pub(crate) fn new(of: &Arc<Callable>, table: LoadedTable) -> Result<Load, SqlError> {
        let program = of.program.clone();
        let prepared = prepare(of, &table.insert(), &[]).map_err(|wrong| wrong.error)?;
        let What::Write { text, .. } = prepared.what else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "an INSERT that does not write"));
        };
        Load::of_text(program, table, text)
    }

    /// `text` inserts one row.
    pub(crate) fn of_text(
        program: Arc<Program>,
        table: LoadedTable,
        text: Arc<Text>,
    ) -> Result<Load, SqlError> {
        let compiled = program.text(&text).map_err(|wrong| wrong.error)?;
        let has_statement_checks = compiled.procedure.has_statement_checks(&program);
        let gathered = BTreeMap::new();
        Ok(Load { table, program, text, compiled, has_statement_checks, gathered, bytes: 0 })
    }

    /// Returns whether checks over all rows follow the last batch.
    pub fn has_statement_checks(&self) -> bool {
        self.has_statement_checks
    }

    /// The types of a row's values.
    pub fn types(&self) -> &[SqlType] {
        &self.text.types
    }

    /// Takes the values of a row; gives a batch when there is enough for one.
    pub fn push(&mut self, row: &mut Vec<Value>, place: u64) -> Option<Batch> {
        let shards = match self.program.shards {
            1 => vec![0],
            shards => self.compiled.procedure.participants.of(row, shards),
        };
        let bytes = row.iter().map(size_of).sum::<usize>();
        self.bytes += bytes;
        let gathered = match self.gathered.get_mut(&shards) {
            Some(gathered) => gathered,
            None => self.gathered.entry(shards.clone()).or_default(),
        };
        gathered.bytes += bytes;
        gathered.places = Some((gathered.places.map_or(place, |(first, _)| first), place));
        gathered.args.append(row);
        gathered.all.push(place);
        let width = self.text.types.len().max(1);
        if gathered.args.len() / width >= BATCH_ROWS_MAX || gathered.bytes >= BATCH_BYTES_MAX {
            return self.take(&shards);
        }
        // With many shards there are many kinds of rows: together they take no more than one batch may.
        if self.bytes < BYTES_MAX {
            return None;
        }
        let fullest = self.gathered.iter().max_by_key(|(_, one)| one.bytes)?.0.clone();
        self.take(&fullest)
    }

    fn take(&mut self, shards: &[ShardId]) -> Option<Batch> {
        let gathered = self.gathered.get_mut(shards)?;
        let places = gathered.places.take()?;
        // The next one has about as many.
        let next = Vec::with_capacity(gathered.args.len());
        let args = std::mem::replace(&mut gathered.args, next);
        self.bytes -= std::mem::take(&mut gathered.bytes);
        let all = std::mem::take(&mut gathered.all);
        Some(Batch {
            text: self.text.clone(),
            args,
            schema_version: self.program.schema_version,
            places,
            all,
        })
    }

    /// Remaining rows, when all rows have been added.
    pub fn rest(&mut self) -> Option<Batch> {
        let next = self.gathered.iter().find(|(_, one)| one.places.is_some())?.0.clone();
        self.take(&next)
    }
}

impl Batch {
    pub(crate) fn into_wish(self) -> Wish {
        let callee = Callee::Text(self.text);
        let (args, schema_version) = (self.args, self.schema_version);
        let transaction_time = TransactionTime { zone: SessionZone::current(), ..transaction_time(now_ms()) };
        let memory = WorkingMemory::current();
        Wish::Call(Call { callee, args, transaction_time, schema_version, memory }, [].into())
    }
}

/// About what a value takes in a message.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Text(text) => 4 + text.len(),
        Value::Bytea(bytes) => 4 + bytes.len(),
        Value::Array(array) => 8 + array.values.iter().map(size_of).sum::<usize>(),
        Value::Numeric(_) | Value::Jsonb(_) => 64,
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use weir_core::ids::Sender;
    use weir_core::machine::Outgoing;
    use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
    use weir_core::termination::Timeouts;
    use weir_sql::Sources;
    use weir_txn::exec::definition::Description;
    use weir_txn::faults::NoFaults;
    use weir_txn::message::Request;
    use weir_txn::ramp::client::Order;
    use weir_txn::ramp::{Begin, Coordinator, Event, Protocol};
    use weir_txn::shard::Node;

    use super::*;

    const NOW_MS: u64 = 1_000_000_000;
    const TABLES: &str = "
        CREATE TABLE parent (id integer PRIMARY KEY);
        CREATE TABLE child (id integer PRIMARY KEY, parent integer NOT NULL REFERENCES parent);";
    /// Children beside their parents, which is the default: on several shards their keys have entries elsewhere.
    const BESIDE_PARENTS: &str = "";
    /// Children by their own keys: on several shards their parents are elsewhere.
    const BY_ID: &str = "COMMENT ON TABLE child IS 'weir: partition by (id)';";

    struct Stage {
        catalog: Catalog,
        program: Arc<Program>,
        shards: Vec<Node>,
        coordinator: Coordinator,
        messages: usize,
    }

    impl Stage {
        fn new(shards: ShardId, placement: &str) -> Stage {
            let mut sources = Sources::default();
            sources.add("tables.sql", format!("{TABLES}{placement}"));
            let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
            let described = Description::of_schema(&application, 1);
            let program = Arc::new(described.compile(shards).unwrap());
            let start = |id| Node::recover(id, program.clone(), NoFaults, Timeouts::default(), []);
            Stage {
                catalog: application.catalog,
                shards: (0..shards).map(start).collect(),
                coordinator: Coordinator::resending(7, program.clone(), Protocol::RampFast),
                program,
                messages: 0,
            }
        }

        fn within(&mut self, name: u64, order: Order) -> Result<(), SqlError> {
            let mut orders: Orders<Request, Event> = Orders::default();
            self.coordinator.begin(NOW_MS, name, Begin::Within(name, order), &mut orders);
            while !orders.sends.is_empty() {
                for (to, request) in std::mem::take(&mut orders.sends) {
                    self.messages += 1;
                    let (progress, mut effects) = (self.coordinator.progress(to), Effects::default());
                    let shard = &mut self.shards[usize::from(to)];
                    shard.on_progress(NOW_MS, 7, progress);
                    shard.step(NOW_MS, Sender::Coordinator(7), request, &mut effects);
                    for Outgoing { message: reply, .. } in effects.replies {
                        self.coordinator.on_reply(NOW_MS, reply, &mut orders);
                    }
                }
            }
            let Some((_, Event::Answered(result))) = orders.done.pop() else { panic!("it is answered") };
            result.map(drop)
        }

        /// A COPY of these rows in a transaction of its own: its batches, messages, and changes of tables. None is changed before COMMIT.
        fn copy(&mut self, name: u64, table: &str, rows: impl Iterator<Item = Vec<Value>>) -> [usize; 3] {
            let table = LoadedTable::of(&self.catalog, table, &[]).unwrap();
            let types = table.columns.iter().map(|(_, ty)| ty.clone()).collect();
            let text = Arc::new(Text { sql: table.insert(), types });
            let mut load = Load::of_text(self.program.clone(), table, text).unwrap();
            let (mut batches, messages, changes) = (0, self.messages, self.changes());
            let mut run = |stage: &mut Stage, batch: Batch| {
                let Wish::Call(call, _) = batch.into_wish() else { panic!("a batch is a call") };
                stage.within(name, Order::Call(call)).unwrap();
                batches += 1;
            };
            for (place, mut row) in rows.enumerate() {
                if let Some(batch) = load.push(&mut row, place as u64) {
                    run(self, batch);
                }
            }
            while let Some(batch) = load.rest() {
                run(self, batch);
            }
            assert_eq!(self.changes(), changes, "nobody else's rows are touched");
            self.within(name, Order::Commit).unwrap();
            [batches, self.messages - messages, self.changes() - changes]
        }

        fn changes(&self) -> usize {
            self.shards.iter().map(|shard| shard.storage.position() as usize).sum()
        }
    }

    /// A change for each row and one for each entry of a key that lives elsewhere, which no row has two of.
    fn changes_of(rows: usize, placement: &str) -> std::ops::RangeInclusive<usize> {
        if placement == BY_ID { rows..=rows } else { rows..=2 * rows }
    }

    /// Rows whose parents or keys live elsewhere go in batches, too, and no batch does again what those before it have done.
    #[test]
    fn a_copy_with_a_foreign_key_takes_as_many_steps_as_it_has_rows() {
        for (shards, placement) in [(1, BY_ID), (3, BY_ID), (3, BESIDE_PARENTS)] {
            for rows in [4_000, 8_000, 16_000, 32_000_i64] {
                let mut stage = Stage::new(shards, placement);
                stage.copy(1, "parent", (0..1_000).map(|id| vec![Value::Int(id)]));
                let child = |id: i64| vec![Value::Int(id), Value::Int(id * 7 % 1_000)];
                let [batches, messages, changes] = stage.copy(2, "child", (0..rows).map(child));
                println!(
                    "{shards} shards, {rows} rows: {batches} batches, {messages} messages, {changes} changes"
                );
                let kinds = usize::from(shards) * usize::from(shards);
                assert!(batches <= rows as usize / BATCH_ROWS_MAX + kinds, "{batches} batches");
                assert!(messages <= 3 * batches + 4 * usize::from(shards), "{messages} messages");
                assert!(changes_of(rows as usize, placement).contains(&changes), "{changes} changes");
                let children: usize =
                    stage.shards.iter().filter_map(|shard| shard.storage.row_counts().nth(1)).sum();
                assert_eq!(children, rows as usize);
            }
        }
    }

    /// Row-by-row inserts in a transaction are not redone for each further row.
    #[test]
    fn rows_that_are_inserted_one_by_one_are_not_done_again_for_each() {
        for (shards, placement) in [(1, BY_ID), (3, BY_ID), (3, BESIDE_PARENTS)] {
            let mut stage = Stage::new(shards, placement);
            stage.copy(1, "parent", (0..1_000).map(|id| vec![Value::Int(id)]));
            let table = LoadedTable::of(&stage.catalog, "child", &[]).unwrap();
            let types = table.columns.iter().map(|(_, ty)| ty.clone()).collect();
            let text = Arc::new(Text { sql: table.insert(), types });
            let before = stage.changes();
            for id in 0..2_000 {
                let args = vec![Value::Int(id), Value::Int(id % 1_000)];
                let callee = Callee::Text(text.clone());
                let schema_version = stage.program.schema_version;
                let (transaction_time, memory) = (0.into(), WorkingMemory::default());
                let call = Call { callee, args, transaction_time, schema_version, memory };
                stage.within(2, Order::Call(call)).unwrap();
            }
            assert_eq!(stage.changes(), before);
            stage.within(2, Order::Commit).unwrap();
            let changes = stage.changes() - before;
            assert!(changes_of(2_000, placement).contains(&changes), "{changes} changes");
        }
    }
}
