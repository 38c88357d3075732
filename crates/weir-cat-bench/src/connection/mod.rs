//! A client's connection to a database: the statements of a workload, prepared once, within transactions, over PostgreSQL's protocol,
//! MySQL's, or in an SQLite file.

mod dialect;
mod mysql;
mod postgres;
mod sqlite;

use std::fmt;
use std::path::PathBuf;

pub use dialect::Dialect;

use crate::target::Level;

/// The address of a database.
#[derive(Clone, Debug)]
pub enum Address {
    /// `key=value` pairs, or a URL.
    Postgres(String),
    /// A socket, as `root` without a password.
    MySqlSocket { socket: PathBuf, database: String },
    /// `mysql://user:password@host:port/database`.
    MySqlUrl(String),
    Sqlite {
        path: PathBuf,
        /// COMMIT waits for the disk.
        is_durable: bool,
    },
}

impl Address {
    pub fn dialect(&self) -> Dialect {
        match self {
            Address::Postgres(_) => Dialect::Postgres,
            Address::MySqlSocket { .. } | Address::MySqlUrl(_) => Dialect::MySql,
            Address::Sqlite { .. } => Dialect::Sqlite,
        }
    }
}

/// An argument of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Integer(i64),
    /// Anything else as the database writes it.
    Text(String),
}

impl Value {
    /// The number; 0 for anything else.
    pub fn number(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Null | Value::Text(_) => 0,
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// Why a statement or a COMMIT was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The system has undone the transaction because of others, and would have it tried again: the SQLSTATE or the code.
    Aborted(String),
    /// A constraint or the application itself forbids it: no repetition would help.
    ByRule(String),
    /// Anything else, in words: the measurement is void.
    Failed(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Aborted(why) | Refused::ByRule(why) | Refused::Failed(why) => out.write_str(why),
        }
    }
}

/// One connection. Statements are those of the workload, by their place in its list.
pub trait Connection {
    /// # Errors
    /// The database's.
    fn begin(&mut self, is_writer: bool) -> Result<(), Refused>;

    /// Runs a statement; returns its rows, whose columns are empty where they are no whole numbers.
    ///
    /// # Errors
    /// The database's.
    fn query(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Option<i64>>>, Refused>;

    /// Runs a statement; returns the first column of its first row, if that is a whole number.
    ///
    /// # Errors
    /// The database's.
    fn run(&mut self, statement: usize, values: &[Value]) -> Result<Option<i64>, Refused> {
        let rows = self.query(statement, values)?;
        Ok(rows.first().and_then(|row| row.first().copied().flatten()))
    }

    /// # Errors
    /// The database's.
    fn commit(&mut self) -> Result<(), Refused>;

    /// # Errors
    /// The database's, in words.
    fn rollback(&mut self) -> Result<(), String>;

    /// Runs some text without parameters, outside of transactions.
    ///
    /// # Errors
    /// The database's, in words.
    fn execute(&mut self, text: &str) -> Result<(), String>;

    /// Rows of whole numbers.
    ///
    /// # Errors
    /// The database's, in words; or a value is not a whole number.
    fn rows(&mut self, text: &str) -> Result<Vec<Vec<i64>>, String>;
}

/// Connects a client and prepares its statements; without a level transactions have the database's own.
///
/// # Errors
/// The database's, in words.
pub fn connect(
    address: &Address,
    level: Option<Level>,
    statements: &[String],
) -> Result<Box<dyn Connection>, String> {
    match address {
        Address::Postgres(config) => {
            postgres::Session::new(config, level, statements).map(|session| Box::new(session) as _)
        }
        Address::MySqlSocket { .. } | Address::MySqlUrl(_) => {
            mysql::Session::new(address, level, statements).map(|session| Box::new(session) as _)
        }
        Address::Sqlite { path, is_durable } => {
            sqlite::Session::new(path, *is_durable, statements).map(|session| Box::new(session) as _)
        }
    }
}
