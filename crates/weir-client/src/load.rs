//! Many rows into one table: an INSERT of one row, run for as many as a message carries on the shard where they live (docs/server.md,
//! "Many rows at once").

use std::sync::Arc;

use weir_net::clock::transaction_time;
use weir_sql::Text;
use weir_sql::catalog::Catalog;
use weir_txn::exec::program::{CompiledText, Program};
use weir_txn::ramp::{Call, Callee, ShardId};
use weir_types::function::double_quoted;
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

/// Rows go in, and come out in batches, each for one shard.
#[derive(Debug)]
pub struct Load {
    pub table: LoadedTable,
    program: Arc<Program>,
    text: Arc<Text>,
    compiled: Arc<CompiledText>,
    /// A batch is done without those before it.
    is_plain: bool,
    /// By shard.
    shards: Vec<Gathered>,
}

#[derive(Debug, Default)]
struct Gathered {
    args: Vec<Value>,
    bytes: usize,
    /// The places of the first and the last, and of all.
    places: Option<(u64, u64)>,
    all: Vec<u64>,
    /// So many have gone before.
    gone: usize,
}

/// Rows of one shard, and the places of the first and the last of them in whatever they come from.
#[derive(Debug)]
pub struct Batch {
    text: Arc<Text>,
    args: Vec<Value>,
    edition: u64,
    pub places: (u64, u64),
    /// The places of all its rows.
    pub all: Vec<u64>,
}

/// A batch is not smaller, unless its rows are large.
const ROWS_MIN: usize = 2_048;

/// A message carries 16 MiB; what a batch has as values takes less as a message.
const BYTES_MAX: usize = 6 << 20;

/// Of batches that are done without those before them: memory that is used again and again is fast.
const ROWS_PLAIN: usize = 4_096;
const BYTES_PLAIN: usize = 512 << 10;

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
        let shards = (0..program.shards).map(|_| Gathered::default()).collect();
        let is_plain = compiled.procedure.loads(&program).is_some();
        Ok(Load { table, program, text, compiled, is_plain, shards })
    }

    /// The types of a row's values.
    pub fn types(&self) -> &[SqlType] {
        &self.text.types
    }

    /// Takes the values of a row; gives a batch when there is enough for one. Where an open transaction does all that it has done again
    /// for each batch, they grow with what has gone before.
    pub fn push(&mut self, row: &mut Vec<Value>, place: u64) -> Option<Batch> {
        let shards = match self.program.shards {
            1 => Vec::new(),
            shards => self.compiled.procedure.participants.of(row, shards),
        };
        let shard = match &shards[..] {
            [] => 0,
            [shard] => *shard,
            // What it refers to lives elsewhere: it is a statement of its own.
            _ => {
                return Some(Batch {
                    text: self.text.clone(),
                    args: std::mem::take(row),
                    edition: self.program.edition,
                    places: (place, place),
                    all: vec![place],
                });
            }
        };
        let gathered = &mut self.shards[usize::from(shard)];
        gathered.bytes += row.iter().map(size_of).sum::<usize>();
        gathered.places = Some((gathered.places.map_or(place, |(first, _)| first), place));
        gathered.args.append(row);
        gathered.all.push(place);
        let width = self.text.types.len().max(1);
        let (enough, bytes_max) = match self.is_plain {
            true => (ROWS_PLAIN, BYTES_PLAIN),
            false => (ROWS_MIN.max(gathered.gone / 2), BYTES_MAX),
        };
        let is_full = gathered.args.len() / width >= enough || gathered.bytes >= bytes_max;
        if is_full { self.take(shard) } else { None }
    }

    fn take(&mut self, shard: ShardId) -> Option<Batch> {
        let gathered = &mut self.shards[usize::from(shard)];
        let places = gathered.places.take()?;
        // The next one has about as many.
        let next = Vec::with_capacity(gathered.args.len());
        let args = std::mem::replace(&mut gathered.args, next);
        gathered.gone += args.len() / self.text.types.len().max(1);
        gathered.bytes = 0;
        let all = std::mem::take(&mut gathered.all);
        Some(Batch { text: self.text.clone(), args, edition: self.program.edition, places, all })
    }

    /// What is left, when all rows have come.
    pub fn rest(&mut self) -> Option<Batch> {
        (0..self.program.shards).find_map(|shard| self.take(shard))
    }
}

impl Batch {
    pub(crate) fn into_wish(self) -> Wish {
        let callee = Callee::Text(self.text);
        let (args, edition) = (self.args, self.edition);
        Wish::Call(Call { callee, args, transaction_time: transaction_time(now_ms()), edition }, [].into())
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
