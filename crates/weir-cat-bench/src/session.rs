//! One client's connection: it attempts a transaction, and says how that ended.

use std::path::Path;

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder};
use postgres::types::ToSql;
use postgres::{Client, NoTls, Statement};
use weir_cat::workload::Planned;

use crate::schema::{Change, placeholders, reader, writer};
use crate::servers::Address;
use crate::target::{Level, Target};

/// End of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Committed,
    /// The system has undone it and would have it tried again: the SQLSTATE.
    Aborted(String),
}

pub trait Session {
    /// # Errors
    /// Anything but a commit or an abort, in words: the measurement is void.
    fn attempt(&mut self, planned: &Planned) -> Result<End, String>;
}

/// Connects a client of a target.
///
/// # Errors
/// The server's.
pub fn connect(target: Target, address: &Address, length: usize) -> Result<Box<dyn Session>, String> {
    match (target, address) {
        (Target::MariaDbInteractive(level), Address::MariaDb(socket)) => {
            let mut connection = mariadb_client(socket)?;
            let level = format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", level.sql());
            for text in ["USE cat", &level] {
                connection.query_drop(text).map_err(|error| error.to_string())?;
            }
            Ok(Box::new(MariaDb { connection }))
        }
        (_, Address::Postgres(config)) => {
            let client = client(config)?;
            match target {
                Target::WeirInteractive(level) | Target::PostgresInteractive(level) => {
                    Interactive::new(client, level).map(|session| Box::new(session) as _)
                }
                Target::PostgresCall(level) => Call::new(client, Some(level), target.change(), length)
                    .map(|session| Box::new(session) as _),
                Target::WeirOrdered | Target::WeirConfluent => {
                    Call::new(client, None, target.change(), length).map(|session| Box::new(session) as _)
                }
                Target::MariaDbInteractive(_) => {
                    Err(format!("{target} does not speak PostgreSQL's protocol"))
                }
            }
        }
        (_, Address::MariaDb(_)) => Err(format!("{target} does not speak MySQL's protocol")),
    }
}

/// Connects to the private MariaDB server, as `root` without a password.
///
/// # Errors
/// The server's.
pub fn mariadb_client(socket: &Path) -> Result<Conn, String> {
    let options = OptsBuilder::new().socket(socket.to_str()).user(Some("root"));
    Conn::new(options).map_err(|error| error.to_string())
}

/// # Errors
/// The server's.
pub fn client(config: &str) -> Result<Client, String> {
    Client::connect(config, NoTls).map_err(|error| said(&error))
}

pub(crate) fn said(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{}: {}", db.code().code(), db.message()),
        None => error.to_string(),
    }
}

/// An abort is the class of transaction rollback, or a lock that was not available.
fn ended(error: &postgres::Error) -> Result<End, String> {
    let state = error.code().map(|state| state.code().to_owned());
    match state.filter(|state| state.starts_with("40") || state == "55P03") {
        Some(state) => Ok(End::Aborted(state)),
        None => Err(said(error)),
    }
}

/// BEGIN, a statement for each operation, COMMIT.
struct Interactive {
    client: Client,
    begin: String,
    write: Statement,
    read: Statement,
}

impl Interactive {
    fn new(mut client: Client, level: Level) -> Result<Interactive, String> {
        let write = format!("UPDATE kv SET v = {} WHERE k = $1", Change::Increment.sql());
        let write = client.prepare(&write).map_err(|error| said(&error))?;
        let read = client.prepare("SELECT v FROM kv WHERE k = $1").map_err(|error| said(&error))?;
        let begin = format!("BEGIN ISOLATION LEVEL {}", level.sql());
        Ok(Interactive { client, begin, write, read })
    }

    fn run(&mut self, planned: &Planned) -> Result<(), postgres::Error> {
        self.client.batch_execute(&self.begin)?;
        for key in &planned.keys {
            let key = *key as i32;
            if planned.is_writer {
                self.client.execute(&self.write, &[&key])?;
            } else {
                self.client.query(&self.read, &[&key])?;
            }
        }
        self.client.batch_execute("COMMIT")
    }
}

impl Session for Interactive {
    fn attempt(&mut self, planned: &Planned) -> Result<End, String> {
        let Err(error) = self.run(planned) else { return Ok(End::Committed) };
        let end = ended(&error)?;
        self.client.batch_execute("ROLLBACK").map_err(|error| said(&error))?;
        Ok(end)
    }
}

/// One call of a procedure or a function.
struct Call {
    client: Client,
    write: Statement,
    read: Statement,
}

impl Call {
    fn new(mut client: Client, level: Option<Level>, change: Change, length: usize) -> Result<Call, String> {
        if let Some(level) = level {
            let level = level.sql().to_ascii_lowercase();
            let set = format!("SET default_transaction_isolation = '{level}'");
            client.batch_execute(&set).map_err(|error| said(&error))?;
        }
        let arguments = placeholders(length);
        let mut prepare = |text: String| client.prepare(&text).map_err(|error| said(&error));
        let write = prepare(format!("CALL {}({arguments})", writer(change, length)))?;
        let read = prepare(format!("SELECT {}({arguments})", reader(length)))?;
        Ok(Call { client, write, read })
    }
}

impl Session for Call {
    fn attempt(&mut self, planned: &Planned) -> Result<End, String> {
        let keys: Vec<i32> = planned.keys.iter().map(|key| *key as i32).collect();
        let arguments: Vec<&(dyn ToSql + Sync)> = keys.iter().map(|key| key as _).collect();
        let done = match planned.is_writer {
            true => self.client.execute(&self.write, &arguments).map(|_| ()),
            false => self.client.query(&self.read, &arguments).map(|_| ()),
        };
        done.map(|()| End::Committed).or_else(|error| ended(&error))
    }
}

/// Errors after which the transaction is to be tried again: a row that has changed since the snapshot, a wait that was too long, a deadlock.
const MARIADB_ABORTS: [u16; 3] = [1020, 1205, 1213];

struct MariaDb {
    connection: Conn,
}

impl MariaDb {
    fn run(&mut self, planned: &Planned) -> Result<(), mysql::Error> {
        self.connection.query_drop("START TRANSACTION")?;
        for key in &planned.keys {
            let text = match planned.is_writer {
                true => format!("UPDATE kv SET v = {} WHERE k = {key}", Change::Increment.sql()),
                false => format!("SELECT v FROM kv WHERE k = {key}"),
            };
            self.connection.query_drop(text)?;
        }
        self.connection.query_drop("COMMIT")
    }
}

impl Session for MariaDb {
    fn attempt(&mut self, planned: &Planned) -> Result<End, String> {
        match self.run(planned) {
            Ok(()) => Ok(End::Committed),
            Err(mysql::Error::MySqlError(error)) if MARIADB_ABORTS.contains(&error.code) => {
                self.connection.query_drop("ROLLBACK").map_err(|error| error.to_string())?;
                Ok(End::Aborted(format!("{}/{}", error.state, error.code)))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
