//! Transactions statement by statement: a workload's statements by their names, their rows, and the numbers of new rows.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::connection::{Connection, Refused, Value};

/// A statement of a workload.
pub trait Named: Copy {
    /// Its place in the workload's list.
    fn place(self) -> usize;

    fn text(self) -> &'static str;
}

/// Defines the statements of a workload: their names, and the list of their texts.
macro_rules! statements {
    ($($name:ident = $text:expr;)*) => {
        /// A statement by its place in [`STATEMENTS`].
        #[derive(Clone, Copy)]
        pub enum Statement { $($name),* }
        pub const STATEMENTS: &[&str] = &[$($text),*];

        impl $crate::workload::statements::Named for Statement {
            fn place(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                STATEMENTS[self as usize]
            }
        }
    };
}
pub(super) use statements;

/// Values of a statement: numbers and texts.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::connection::Value::from($value)),*] };
}
pub(super) use values;

/// Columns of a row.
pub type Columns = Vec<Option<i64>>;

/// A transaction of a workload that runs.
pub struct Running<'c, S> {
    connection: &'c mut dyn Connection,
    statements: PhantomData<S>,
}

impl<'c, S: Named> Running<'c, S> {
    pub fn new(connection: &'c mut dyn Connection) -> Running<'c, S> {
        Running { connection, statements: PhantomData }
    }

    /// Rows of a statement whose values are not all numbers.
    pub fn rows_of(&mut self, statement: S, values: &[Value]) -> Result<Vec<Columns>, Refused> {
        self.connection.query(statement.place(), values)
    }

    pub fn rows(&mut self, statement: S, values: &[i64]) -> Result<Vec<Columns>, Refused> {
        let values: Vec<Value> = values.iter().copied().map(Value::Integer).collect();
        self.rows_of(statement, &values)
    }

    /// The first columns of the one row.
    pub fn row<const N: usize>(&mut self, statement: S, values: &[i64]) -> Result<[i64; N], Refused> {
        let rows = self.rows(statement, values)?;
        numbers(&rows).ok_or_else(|| missing(statement, values))
    }

    /// As [`Running::row`], by a text.
    pub fn row_by_text<const N: usize>(&mut self, statement: S, text: String) -> Result<[i64; N], Refused> {
        let values = [Value::Text(text)];
        let rows = self.rows_of(statement, &values)?;
        numbers(&rows).ok_or_else(|| missing(statement, &values))
    }

    /// The first column of the first row, if there is one.
    pub fn number(&mut self, statement: S, values: &[i64]) -> Result<Option<i64>, Refused> {
        let rows = self.rows(statement, values)?;
        Ok(rows.first().and_then(|row| row.first().copied().flatten()))
    }

    /// Runs a statement whose last value is a text.
    pub fn change(&mut self, statement: S, numbers: &[i64], text: &str) -> Result<(), Refused> {
        let mut values: Vec<Value> = numbers.iter().copied().map(Value::Integer).collect();
        values.push(Value::Text(text.to_owned()));
        self.rows_of(statement, &values).map(drop)
    }
}

/// The columns of the first row, which are all numbers.
fn numbers<const N: usize>(rows: &[Columns]) -> Option<[i64; N]> {
    let row: Option<Vec<i64>> = rows.first().and_then(|row| row.iter().copied().collect());
    row.and_then(|row| row.try_into().ok())
}

/// A row is not there that must be.
pub fn missing(statement: impl Named, values: &(impl fmt::Debug + ?Sized)) -> Refused {
    Refused::Failed(format!("no row: {} {values:?}", statement.text()))
}

/// A transaction was planned without its values.
pub fn without_values() -> Refused {
    Refused::Failed("a transaction without its values".to_owned())
}

/// Seconds of the Unix era.
pub fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// The next number of a new row; those of the populations are below.
static NEXT: AtomicI64 = AtomicI64::new(1_000_000_001);

/// A number that no other row has. As that of a sequence it stays away if the transaction is undone. All runs of this program draw from the
/// same ones, because tables that were filled once serve several runs.
pub fn new_number() -> i64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
