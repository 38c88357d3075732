//! Connections over MySQL's protocol: MariaDB and MySQL.

use mysql::prelude::Queryable as _;
use mysql::{Conn, Opts, OptsBuilder, Params, Row, Statement};

use super::{Address, Connection, Dialect, Refused, Value};
use crate::target::Level;

/// Errors after which the transaction is to be tried again: a row that has changed since the snapshot, a wait that was too long, a deadlock.
const ABORTS: [u16; 3] = [1020, 1205, 1213];

/// Errors of rules: CHECK of MariaDB and of MySQL, keys, foreign keys, SIGNAL.
const RULES: [u16; 6] = [4025, 3819, 1062, 1451, 1452, 1644];

fn refused(error: &mysql::Error) -> Refused {
    match error {
        mysql::Error::MySqlError(error) if ABORTS.contains(&error.code) => {
            Refused::Aborted(format!("{}/{}", error.state, error.code))
        }
        mysql::Error::MySqlError(error) if RULES.contains(&error.code) => Refused::ByRule(error.to_string()),
        error => Refused::Failed(said(error)),
    }
}

/// The error in words, without the names that the client has for kinds of errors.
fn said(error: &mysql::Error) -> String {
    match error {
        mysql::Error::IoError(error) => error.to_string(),
        mysql::Error::DriverError(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// The client closes the statements that were prepared first if there are more than `statements`.
fn open(address: &Address, statements: usize) -> Result<Conn, String> {
    let (options, database) = match address {
        Address::MySqlSocket { socket, database } => {
            let options = OptsBuilder::new().socket(socket.to_str()).user(Some("root"));
            (options, database.as_str())
        }
        Address::MySqlUrl(url) => {
            let options = Opts::from_url(url).map_err(|error| format!("the address: {error}"))?;
            (OptsBuilder::from_opts(options), "")
        }
        Address::Postgres(_) | Address::Sqlite { .. } => {
            return Err("this does not speak MySQL's protocol".to_owned());
        }
    };
    let mut connection = Conn::new(options.stmt_cache_size(statements + 1)).map_err(|error| said(&error))?;
    if !database.is_empty() {
        connection.query_drop(format!("USE {database}")).map_err(|error| said(&error))?;
    }
    Ok(connection)
}

/// START TRANSACTION, the statements, COMMIT.
pub struct Session {
    connection: Conn,
    /// With the parameter of each placeholder.
    statements: Vec<(Statement, Vec<usize>)>,
    is_open: bool,
}

impl Session {
    pub fn new(address: &Address, level: Option<Level>, statements: &[String]) -> Result<Session, String> {
        let mut connection = open(address, statements.len())?;
        if let Some(level) = level {
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", level.sql());
            connection.query_drop(set).map_err(|error| said(&error))?;
        }
        let mut prepared = Vec::new();
        for text in statements {
            let (text, order) = Dialect::MySql.statement(text);
            prepared.push((connection.prep(text).map_err(|error| said(&error))?, order));
        }
        Ok(Session { connection, statements: prepared, is_open: false })
    }
}

fn value(value: &Value) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Integer(number) => mysql::Value::Int(*number),
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
    }
}

/// A column that is a whole number.
fn whole(row: &Row, column: usize) -> Option<i64> {
    match row.as_ref(column)? {
        mysql::Value::Int(number) => Some(*number),
        mysql::Value::UInt(number) => i64::try_from(*number).ok(),
        mysql::Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

impl Connection for Session {
    fn begin(&mut self, _: bool) -> Result<(), Refused> {
        self.connection.query_drop("START TRANSACTION").map_err(|error| refused(&error))?;
        self.is_open = true;
        Ok(())
    }

    fn query(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Option<i64>>>, Refused> {
        let (statement, order) = &self.statements[statement];
        let values: Vec<mysql::Value> = order.iter().map(|number| value(&values[*number])).collect();
        let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
        let rows: Vec<Row> = self.connection.exec(statement, values).map_err(|error| refused(&error))?;
        Ok(rows.iter().map(|row| (0..row.len()).map(|column| whole(row, column)).collect()).collect())
    }

    fn commit(&mut self) -> Result<(), Refused> {
        self.connection.query_drop("COMMIT").map_err(|error| refused(&error))?;
        self.is_open = false;
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.is_open) {
            true => self.connection.query_drop("ROLLBACK").map_err(|error| said(&error)),
            false => Ok(()),
        }
    }

    fn execute(&mut self, text: &str) -> Result<(), String> {
        self.connection.query_drop(text).map_err(|error| said(&error))
    }

    fn rows(&mut self, text: &str) -> Result<Vec<Vec<i64>>, String> {
        let rows: Vec<Row> = self.connection.query(text).map_err(|error| said(&error))?;
        let values =
            |row: &Row| (0..row.len()).map(|column| whole(row, column)).collect::<Option<Vec<i64>>>();
        rows.iter().map(|row| values(row).ok_or_else(|| format!("{text}: not whole numbers"))).collect()
    }
}
