//! Connections over PostgreSQL's protocol: PostgreSQL and Weir.

use postgres::types::private::BytesMut;
use postgres::types::{Format, IsNull, ToSql, Type};
use postgres::{Client, NoTls, Row, Statement};

use super::{Connection, Refused, Value};
use crate::target::Level;

/// # Errors
/// The server's.
pub fn client(config: &str) -> Result<Client, String> {
    Client::connect(config, NoTls).map_err(|error| said(&error))
}

pub fn said(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{}: {}", db.code().code(), db.message()),
        // The client says that it could not connect, and the cause below says why.
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

/// An abort is the class of transaction rollback, or a lock that was not available. A rule is a constraint, or what a procedure raises.
fn refused(error: &postgres::Error) -> Refused {
    let state = error.code().map(|state| state.code().to_owned()).unwrap_or_default();
    match state.get(..2).unwrap_or_default() {
        "40" => Refused::Aborted(state),
        _ if state == "55P03" => Refused::Aborted(state),
        "23" | "P0" | "SB" => Refused::ByRule(said(error)),
        _ => Refused::Failed(said(error)),
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => return Ok(IsNull::Yes),
            Value::Integer(number) if *ty == Type::INT8 => out.extend_from_slice(&number.to_be_bytes()),
            Value::Integer(number) if *ty == Type::INT4 => {
                out.extend_from_slice(&i32::try_from(*number)?.to_be_bytes());
            }
            Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        match self {
            Value::Integer(_) if [Type::INT8, Type::INT4].contains(ty) => Format::Binary,
            _ => Format::Text,
        }
    }

    postgres::types::to_sql_checked!();
}

/// A column that is a whole number; none if it is NULL or of another type.
fn whole(row: &Row, column: usize) -> Option<i64> {
    match row.columns().get(column)?.type_() {
        ty if *ty == Type::INT8 => row.get(column),
        ty if *ty == Type::INT4 => row.get::<_, Option<i32>>(column).map(i64::from),
        _ => None,
    }
}

/// BEGIN at a level, the statements, COMMIT.
pub struct Session {
    client: Client,
    begin: String,
    statements: Vec<Statement>,
    is_open: bool,
}

impl Session {
    pub fn new(config: &str, level: Option<Level>, statements: &[String]) -> Result<Session, String> {
        let mut client = client(config)?;
        let begin = match level {
            None => "BEGIN".to_owned(),
            Some(level) => {
                let name = level.sql().to_ascii_lowercase();
                let set = format!("SET default_transaction_isolation = '{name}'");
                client.batch_execute(&set).map_err(|error| said(&error))?;
                format!("BEGIN ISOLATION LEVEL {}", level.sql())
            }
        };
        let prepared = statements.iter().map(|text| client.prepare(text).map_err(|error| said(&error)));
        let statements = prepared.collect::<Result<_, _>>()?;
        Ok(Session { client, begin, statements, is_open: false })
    }
}

impl Connection for Session {
    fn begin(&mut self, _: bool) -> Result<(), Refused> {
        self.client.batch_execute(&self.begin).map_err(|error| refused(&error))?;
        self.is_open = true;
        Ok(())
    }

    fn query(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Option<i64>>>, Refused> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows =
            self.client.query(&self.statements[statement], &values).map_err(|error| refused(&error))?;
        Ok(rows.iter().map(|row| (0..row.len()).map(|column| whole(row, column)).collect()).collect())
    }

    fn commit(&mut self) -> Result<(), Refused> {
        self.client.batch_execute("COMMIT").map_err(|error| refused(&error))?;
        self.is_open = false;
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.is_open) {
            true => self.client.batch_execute("ROLLBACK").map_err(|error| said(&error)),
            false => Ok(()),
        }
    }

    fn execute(&mut self, text: &str) -> Result<(), String> {
        self.client.batch_execute(text).map_err(|error| said(&error))
    }

    fn rows(&mut self, text: &str) -> Result<Vec<Vec<i64>>, String> {
        let rows = self.client.query(text, &[]).map_err(|error| said(&error))?;
        let values =
            |row: &Row| (0..row.len()).map(|column| whole(row, column)).collect::<Option<Vec<i64>>>();
        rows.iter().map(|row| values(row).ok_or_else(|| format!("{text}: not whole numbers"))).collect()
    }
}
