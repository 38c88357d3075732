//! Connections to an SQLite file: the floor of what a database costs that is part of the client.
//!
//! Its transactions are serializable. One that writes takes the file's write lock at its BEGIN and waits for it, so none aborts.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection as File, ErrorCode, ToSql};

use super::{Connection, Dialect, Refused, Value};

/// Looks at the lock again after so long: SQLite's own pauses grow to a tenth of a second.
const PAUSE: Duration = Duration::from_micros(50);
/// About a minute.
const PAUSES_MAX: i32 = 1_200_000;

fn refused(error: &rusqlite::Error) -> Refused {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Refused::Aborted("SQLITE_BUSY".to_owned())
        }
        Some(ErrorCode::ConstraintViolation) => Refused::ByRule(error.to_string()),
        _ => Refused::Failed(error.to_string()),
    }
}

/// Waits a moment; returns whether to look at the lock once more.
fn wait(pauses: i32) -> bool {
    std::thread::sleep(PAUSE);
    pauses < PAUSES_MAX
}

pub struct Session {
    file: File,
    /// With the parameter of each placeholder.
    statements: Vec<(String, Vec<usize>)>,
}

impl Session {
    pub fn new(path: &Path, is_durable: bool, statements: &[String]) -> Result<Session, String> {
        let said = |error: rusqlite::Error| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(said)?;
        // Readers read beside the writer.
        let synchronous = if is_durable { "FULL" } else { "OFF" };
        file.busy_handler(Some(wait)).map_err(said)?;
        file.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}"))
            .map_err(said)?;
        file.set_prepared_statement_cache_capacity(statements.len() + 1);
        let statements: Vec<_> = statements.iter().map(|text| Dialect::Sqlite.statement(text)).collect();
        for (text, _) in &statements {
            file.prepare_cached(text).map_err(said)?;
        }
        Ok(Session { file, statements })
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl Connection for Session {
    fn begin(&mut self, is_writer: bool) -> Result<(), Refused> {
        let begin = if is_writer { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.file.execute_batch(begin).map_err(|error| refused(&error))
    }

    fn query(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Option<i64>>>, Refused> {
        let (text, order) = &self.statements[statement];
        let run = || -> rusqlite::Result<Vec<Vec<Option<i64>>>> {
            let mut statement = self.file.prepare_cached(text)?;
            let columns = statement.column_count();
            let given = rusqlite::params_from_iter(order.iter().map(|number| &values[*number]));
            let (mut rows, mut all) = (statement.query(given)?, Vec::new());
            // A statement is carried out as its rows are fetched.
            while let Some(row) = rows.next()? {
                let whole = |column| row.get_ref(column).map(|value| value.as_i64().ok());
                all.push((0..columns).map(whole).collect::<rusqlite::Result<_>>()?);
            }
            Ok(all)
        };
        run().map_err(|error| refused(&error))
    }

    fn commit(&mut self) -> Result<(), Refused> {
        self.file.execute_batch("COMMIT").map_err(|error| refused(&error))
    }

    fn rollback(&mut self) -> Result<(), String> {
        // Some errors have ended the transaction already.
        match self.file.is_autocommit() {
            true => Ok(()),
            false => self.file.execute_batch("ROLLBACK").map_err(|error| error.to_string()),
        }
    }

    fn execute(&mut self, text: &str) -> Result<(), String> {
        self.file.execute_batch(text).map_err(|error| error.to_string())
    }

    fn rows(&mut self, text: &str) -> Result<Vec<Vec<i64>>, String> {
        let read = || -> rusqlite::Result<Vec<Vec<i64>>> {
            let mut statement = self.file.prepare(text)?;
            let columns = statement.column_count();
            let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?;
            rows.collect()
        };
        read().map_err(|error| format!("{text}: {error}"))
    }
}
