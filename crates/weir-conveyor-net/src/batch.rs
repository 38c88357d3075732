//! Transactions of the protocol in one exchange with the server: their statements go together, up to one Sync, which makes them one transaction.
//! Once a statement has failed the server passes over the rest. An exchange costs a server more than most of these statements do.

use std::collections::BTreeMap;
use std::io;

use bytes::BytesMut;
use postgres::types::{FromSql, Type};
use postgres_protocol::message::frontend;
use tokio::runtime::{Builder, Runtime};
use weir_conveyor::schema::Sql;

use crate::raw::{Message, RawConnection, SYNC, execute};

/// Statements by their text that a connection keeps prepared, at most.
const PREPARED_MAX: usize = 1_000;
/// Values of results come in binary.
const BINARY: i16 = 1;

/// A row of a result: a DataRow message.
pub(crate) struct BatchRow(Message);

impl BatchRow {
    /// The value of a column, from 0.
    ///
    /// # Panics
    /// The row has no such column, or its value is of another type.
    pub fn get<T: for<'a> FromSql<'a>>(&self, column: usize, ty: &Type) -> T {
        let value = self.bytes(column).expect("results of the protocol's statements have no NULL");
        T::from_sql(ty, value).expect("the column has that type")
    }

    fn bytes(&self, column: usize) -> Option<&[u8]> {
        let mut rest = self.0.body().get(2..)?;
        for at in 0.. {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(i32::from_be_bytes(*length));
            match (at == column, length) {
                (true, length) => return after.get(..length.ok()?),
                (false, length) => rest = after.get(length.unwrap_or(0)..)?,
            }
        }
        None
    }
}

/// The rows of each statement, or the error of the first that has failed: then the transaction has changed nothing.
pub(crate) type Results = Result<Vec<Vec<BatchRow>>, Message>;

/// A connection over which batches go.
pub(crate) struct Batches {
    runtime: Runtime,
    connection: RawConnection,
    /// Names of prepared statements, by text.
    names: BTreeMap<String, String>,
}

impl Batches {
    /// Opens a connection with these settings.
    ///
    /// # Errors
    /// The server's, or the system has no more files.
    pub fn open(config: &str, settings: &str) -> io::Result<Batches> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(async {
            let mut connection = RawConnection::open(config, false).await?;
            match connection.run(settings).await?.error {
                Some(error) => Err(io::Error::other(error.field(b'M').unwrap_or_default().to_owned())),
                None => Ok(connection),
            }
        })?;
        Ok(Batches { runtime, connection, names: BTreeMap::new() })
    }

    /// Returns whether the connection can be used, as far as can be seen without asking.
    pub fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    /// Runs statements as one SERIALIZABLE transaction.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn run(&mut self, statements: &[Sql]) -> io::Result<Results> {
        let Batches { runtime, connection, names } = self;
        runtime.block_on(async {
            if names.len() + statements.len() > PREPARED_MAX {
                connection.run("DEALLOCATE ALL").await?;
                names.clear();
            }
            // A text that many statements have is prepared once.
            let (mut messages, mut new) = (BytesMut::new(), Vec::new());
            for statement in statements {
                if !names.contains_key(&statement.text) {
                    let name = format!("weir_conveyor_step_{}", names.len());
                    frontend::parse(&name, &statement.text, [], &mut messages)?;
                    names.insert(statement.text.clone(), name);
                    new.push(&statement.text);
                }
                execute(&names[&statement.text], &statement.parameters, &[BINARY], &mut messages)?;
            }
            messages.extend_from_slice(&SYNC);
            connection.write(&messages).await?;
            let mut parsed = 0;
            let results = receive(connection, &mut parsed).await;
            // What was not prepared, since a statement before it has failed, is unknown to the server.
            for text in new.into_iter().skip(parsed) {
                names.remove(text);
            }
            results
        })
    }
}

/// Hears the results up to ReadyForQuery. `parsed`: counts the statements that were prepared.
async fn receive(connection: &mut RawConnection, parsed: &mut usize) -> io::Result<Results> {
    let (mut results, mut rows, mut error) = (Vec::new(), Vec::new(), None);
    loop {
        let message = connection.message().await?;
        match message.kind() {
            b'1' => *parsed += 1,
            b'D' => rows.push(BatchRow(message)),
            b'C' | b'I' => results.push(std::mem::take(&mut rows)),
            b'E' => error = error.or(Some(message)),
            b'Z' => return Ok(error.map_or(Ok(results), Err)),
            _ => {}
        }
    }
}
