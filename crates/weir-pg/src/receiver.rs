//! Where the rows of a statement go (PostgreSQL's DestReceiver): into its result, or to the client while the statement runs.

use std::pin::pin;
use std::sync::Arc;

use futures::SinkExt;
use pgwire::messages::PgWireBackendMessage as Answer;
use pgwire::messages::copy::{CopyData, CopyOutResponse};
use weir_client::{CallResult, Client, Error, Pending, Receiving, Row, RowStream};
use weir_sql::bound::OutputColumn;
use weir_types::datetime::style::IntervalStyle;
use weir_types::{SqlError, SqlState, Value};

use crate::answer;
use crate::copy::CopyOut;
use crate::opening::Socket;
use crate::portals::Formats;
use crate::running::{Opened, RunningQuery};

/// Invariant: the client gets all rows of a statement in this way, or none.
pub enum Receiver<'a> {
    /// They are in the statement's result.
    Result,
    /// Those of a long query go to the client as they come; those of a short one are in the statement's result.
    Client(ToClient<'a>),
    /// A long query keeps running, for a cursor or portal that asks for its rows later; the rows of a short one are in the statement's
    /// result.
    Suspended(Option<RunningQuery>),
}

/// Rows that a running query is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// Number of rows that are passed over before.
    pub skip: usize,
    pub most: usize,
}

/// Outcome of asking a running query for rows.
#[derive(Debug, Default)]
pub struct Given {
    /// Rows that were asked for, and are not sent.
    pub rows: Vec<Row>,
    /// Number of rows that were asked for.
    pub count: usize,
    /// Number of rows that were passed over before.
    pub skipped: usize,
    /// There are no more.
    pub is_over: bool,
}

/// The client of a query.
pub struct ToClient<'a> {
    socket: &'a mut Socket,
    formats: Formats,
    form: Form,
    /// Number of rows sent; none: nothing has been sent.
    sent: Option<u64>,
    /// Messages of rows that are not sent yet.
    chunk: Vec<u8>,
}

/// Bytes of messages that are sent at once.
const CHUNK_BYTES: usize = 32 << 10;

/// Bytes of a running query's rows from which on they are sent while the others are waited for.
const COLLECTED_BYTES: usize = 256 << 10;

/// How rows are sent.
enum Form {
    /// As DataRow. `describes`: behind a RowDescription.
    Rows { describes: bool },
    /// As the data of a COPY.
    Copy(Box<CopyOut>),
}

impl<'a> Receiver<'a> {
    /// `describes`: the columns come before the rows.
    pub fn client(socket: &'a mut Socket, formats: Formats, describes: bool) -> Receiver<'a> {
        Receiver::Client(ToClient {
            socket,
            formats,
            form: Form::Rows { describes },
            sent: None,
            chunk: Vec::new(),
        })
    }

    /// Of a cursor or portal that asks for rows later.
    pub fn suspended() -> Receiver<'a> {
        Receiver::Suspended(None)
    }

    /// Returns whether it takes rows while a query runs.
    pub fn takes_rows(&self) -> bool {
        !matches!(self, Receiver::Result)
    }

    /// Returns whether rows go to the client while a query runs.
    pub fn sends_rows(&self) -> bool {
        matches!(self, Receiver::Client(_))
    }

    /// Takes the query that still runs. None: its rows are in the statement's result.
    pub fn take_running(&mut self) -> Option<RunningQuery> {
        match self {
            Receiver::Suspended(running) => running.take(),
            Receiver::Result | Receiver::Client(_) => None,
        }
    }

    /// Rows are the data of that COPY from now on. Gives it back if rows are not sent.
    pub fn begin_copy(&mut self, out: CopyOut) -> Option<CopyOut> {
        let Receiver::Client(client) = self else { return Some(out) };
        client.form = Form::Copy(Box::new(out));
        None
    }

    /// Takes back the COPY, which has made the messages of all rows sent.
    pub fn end_copy(&mut self) -> Option<CopyOut> {
        let Receiver::Client(client) = self else { return None };
        match std::mem::replace(&mut client.form, Form::Rows { describes: false }) {
            Form::Copy(out) => Some(*out),
            Form::Rows { .. } => None,
        }
    }

    /// Number of rows that the client has got; none: it has got nothing, and the rows are in the statement's result.
    pub fn sent(&self) -> Option<u64> {
        match self {
            Receiver::Result | Receiver::Suspended(_) => None,
            Receiver::Client(client) => client.sent,
        }
    }

    /// Waits for the result of a query, and takes the rows of its stream meanwhile; or until the query can be suspended: its result has no
    /// rows then.
    ///
    /// # Errors
    /// The query's; or the client cannot be reached, or a value cannot be sent: then the query is ended.
    pub(crate) async fn forward(
        &mut self,
        (asked, stream): (&Arc<Client>, &Arc<RowStream>),
        of: (&[OutputColumn], IntervalStyle),
        pending: Pending<CallResult>,
    ) -> Result<CallResult, Error> {
        let client = match self {
            Receiver::Result => return pending.await,
            Receiver::Client(client) => client,
            Receiver::Suspended(running) => {
                return Ok(match RunningQuery::open(asked, stream, pending).await? {
                    Opened::Ended(result) => result,
                    Opened::Running(query) => {
                        *running = Some(query);
                        CallResult::default()
                    }
                });
            }
        };
        let receiving = Receiving(stream.clone());
        let mut pending = pin!(pending);
        let result = loop {
            let rows = tokio::select! {
                biased;
                rows = stream.next() => rows,
                result = &mut pending => break result?,
            };
            if let Err(error) = client.send(&rows, of).await {
                drop(receiving);
                // Its statement ends with an error of its own.
                let _ = pending.await;
                return Err(Error::Sql(error));
            }
            stream.give_back(rows);
        };
        while let Some(rows) = stream.take() {
            client.send(&rows, of).await.map_err(Error::Sql)?;
            stream.give_back(rows);
        }
        Ok(result)
    }
}

impl Receiver<'_> {
    /// Takes rows of a running query. What would take much memory goes to the client, if there is one; the other rows are in the outcome.
    /// `gives`: otherwise the rows are only counted.
    ///
    /// # Errors
    /// The query's; or the client cannot be reached, or a value cannot be sent. The query is not to be asked again.
    pub(crate) async fn take_from(
        &mut self,
        query: &mut RunningQuery,
        (forward, gives): (Forward, bool),
        of: (&[OutputColumn], IntervalStyle),
    ) -> Result<Given, Error> {
        let (mut given, mut bytes) = (Given::default(), 0);
        while given.skipped < forward.skip || given.count < forward.most {
            let skips = given.skipped < forward.skip;
            let most = if skips { forward.skip - given.skipped } else { forward.most - given.count };
            let Some(rows) = query.next(most).await? else {
                given.is_over = true;
                break;
            };
            if skips {
                given.skipped += rows.len();
                continue;
            }
            given.count += rows.len();
            if !gives {
                continue;
            }
            bytes += rows.iter().map(|row| Value::row_bytes(row)).sum::<usize>();
            given.rows.extend(rows);
            if bytes >= COLLECTED_BYTES {
                bytes = 0;
                self.send_collected(&mut given.rows, of).await?;
            }
        }
        if self.sent().is_some() {
            self.send_collected(&mut given.rows, of).await?;
        }
        Ok(given)
    }

    async fn send_collected(
        &mut self,
        rows: &mut Vec<Row>,
        of: (&[OutputColumn], IntervalStyle),
    ) -> Result<(), Error> {
        let Receiver::Client(client) = self else { return Ok(()) };
        client.send(&std::mem::take(rows), of).await.map_err(Error::Sql)
    }
}

fn lost(error: std::io::Error) -> SqlError {
    SqlError::new(SqlState::CONNECTION_FAILURE, format!("the client could not be reached: {error}"))
}

impl ToClient<'_> {
    async fn say(&mut self, answer: Answer) -> Result<(), SqlError> {
        self.socket.feed(answer).await.map_err(lost)
    }

    async fn send(
        &mut self,
        rows: &[Row],
        (columns, style): (&[OutputColumn], IntervalStyle),
    ) -> Result<(), SqlError> {
        if self.sent.is_none() {
            self.begin(columns).await?;
        }
        for row in rows {
            if let Err(error) = self.push(row, columns, style) {
                // The rows before it have been given.
                self.send_chunk().await?;
                return Err(error);
            }
            if self.chunk.len() >= CHUNK_BYTES {
                self.send_chunk().await?;
            }
        }
        self.send_chunk().await?;
        self.sent = self.sent.map(|sent| sent + rows.len() as u64);
        Ok(())
    }

    /// Appends a row's message to the chunk: its type, its length, and its content. An error leaves nothing of it.
    fn push(
        &mut self,
        row: &[Value],
        columns: &[OutputColumn],
        style: IntervalStyle,
    ) -> Result<(), SqlError> {
        let (start, chunk) = (self.chunk.len(), &mut self.chunk);
        let kind = if let Form::Rows { .. } = self.form { b'D' } else { b'd' };
        chunk.extend_from_slice(&[kind, 0, 0, 0, 0]);
        let pushed = match &mut self.form {
            Form::Rows { .. } => {
                chunk.extend_from_slice(&(row.len() as i16).to_be_bytes());
                answer::push_fields(row, columns, (&self.formats, style), chunk)
            }
            Form::Copy(out) => out.push_row(row, columns, style, chunk),
        };
        if pushed.is_err() {
            chunk.truncate(start);
            return pushed;
        }
        let length = (chunk.len() - start - 1) as i32;
        chunk[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Sends the messages of the chunk, behind all that was said before.
    async fn send_chunk(&mut self) -> Result<(), SqlError> {
        self.socket.write_buffer_mut().extend_from_slice(&self.chunk);
        self.chunk.clear();
        self.socket.flush().await.map_err(lost)
    }

    /// Sends what precedes the first row.
    async fn begin(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        self.sent = Some(0);
        let answer = match &mut self.form {
            Form::Rows { describes: false } => return Ok(()),
            Form::Rows { describes: true } => {
                Answer::RowDescription(answer::row_description(columns, &self.formats))
            }
            Form::Copy(out) => {
                let (head, is_binary) = (out.head(columns), out.is_binary());
                self.say(Answer::CopyOutResponse(copy_out_response(columns.len(), is_binary))).await?;
                match head {
                    Some(head) => Answer::CopyData(CopyData::new(head.into())),
                    None => return Ok(()),
                }
            }
        };
        self.say(answer).await
    }
}

/// The message before the data of a COPY TO.
pub(crate) fn copy_out_response(columns: usize, is_binary: bool) -> CopyOutResponse {
    let formats = vec![i16::from(is_binary); columns];
    CopyOutResponse::new(i8::from(is_binary), columns as i16, formats)
}
