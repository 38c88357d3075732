//! Handles each message of a client, and sends the answers in order. Which message may come when is judged in
//! `conversation`.

use std::sync::Arc;

use futures::SinkExt;
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage as Answer;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::ParameterStatus;
use weir_client::Client;
use weir_sql::bound::OutputColumn;
use weir_sql::session::{Command, Said};
use weir_sql::shape::Shape;
use weir_types::binary::type_number;
use weir_types::datetime::style::IntervalStyle;
use weir_types::{SqlError, SqlState, Value};

use crate::answer;
use crate::authentication::{AtTheDoor, Authenticator};
use crate::opening::Socket;
use crate::portals::{Formats, Portal, PortalState, no_portal};
use crate::receiver::Receiver;
use crate::session::Session;
use crate::settings::Changed;
use crate::statement::{Done, Failure, Statement};
use crate::transaction::Status;

pub struct Connection {
    pub(crate) door: AtTheDoor,
    pub(crate) talk: Talk,
}

impl Connection {
    pub fn new(client: Arc<Client>, authentication: Arc<Authenticator>, is_full: bool) -> Connection {
        let session = Session::new(client, authentication.front.clone());
        Connection {
            door: AtTheDoor::new(authentication, is_full),
            talk: Talk { session, held_back: None, has_failed: false },
        }
    }
}

pub(crate) struct Talk {
    pub(crate) session: Session,
    /// None once the message behind it has come.
    held_back: Option<HeldBack>,
    /// Something has, since the last Sync.
    has_failed: bool,
}

/// An Execute that waits for the next message. The messages up to a Sync are one transaction; if it is the only statement, it runs by
/// itself, in one message to its shard. The difference is not observable: answers are sent at a Flush or a Sync.
struct HeldBack {
    execute: Execute,
    /// Close messages received since.
    closes: Vec<Close>,
}

pub(crate) async fn say(client: &mut Socket, answer: Answer) -> PgWireResult<()> {
    client.feed(answer).await.map_err(Into::into)
}

/// Settings that have changed: it comes before a statement's rows, and behind what ends a transaction.
async fn say_changed(client: &mut Socket, changed: &Changed) -> PgWireResult<()> {
    for (name, value) in changed {
        let status = ParameterStatus::new((*name).to_owned(), value.clone());
        say(client, Answer::ParameterStatus(status)).await?;
    }
    Ok(())
}

async fn say_rows(
    client: &mut Socket,
    rows: &[Vec<Value>],
    columns: &[OutputColumn],
    (formats, style): (&Formats, IntervalStyle),
) -> PgWireResult<()> {
    for row in rows {
        let row = answer::data_row(row, columns, formats, style)
            .map_err(|error| answer::wire_error(error.into()))?;
        say(client, Answer::DataRow(row)).await?;
    }
    Ok(())
}

impl Talk {
    pub(crate) fn status(&self) -> TransactionStatus {
        match self.session.transaction.status() {
            Status::Idle => TransactionStatus::Idle,
            Status::InTransaction => TransactionStatus::Transaction,
            Status::Failed => TransactionStatus::Error,
        }
    }

    async fn say_failure(&mut self, client: &mut Socket, error: PgWireError) -> PgWireResult<()> {
        // An error of the socket cannot be reported; a terminated session reports only its termination.
        if matches!(error, PgWireError::IoError(_)) || self.session.backend.ending.is_wished() {
            return Err(error);
        }
        let info: pgwire::error::ErrorInfo = error.into();
        say(client, Answer::ErrorResponse(info.into())).await
    }

    /// The client may say the next.
    async fn say_ready(&mut self, client: &mut Socket) -> PgWireResult<()> {
        client.set_transaction_status(self.status());
        client.set_state(PgWireConnectionState::ReadyForQuery);
        say(client, Answer::ReadyForQuery(ReadyForQuery::new(self.status()))).await?;
        client.flush().await.map_err(Into::into)
    }

    /// Logs an error that is sent to the client.
    pub(crate) fn log_error(&self, error: &SqlError) {
        self.session.front.log_error(&self.session.backend, error);
    }

    pub(crate) fn failed(&mut self, failure: impl Into<Failure>) -> PgWireError {
        let failure = failure.into();
        self.log_error(&failure.error);
        self.session.transaction.fail();
        self.session.names.fail(self.session.transaction.depth());
        self.has_failed = true;
        answer::wire_error(failure)
    }

    /// Clears the failed state after its error has been sent. Returns whether it was set.
    pub(crate) fn forget_failure(&mut self) -> bool {
        std::mem::take(&mut self.has_failed)
    }

    /// Sends the pending notices, before the answer that follows.
    async fn say_beside(&mut self, client: &mut Socket) -> PgWireResult<()> {
        for notice in &self.session.notices.take() {
            say(client, Answer::NoticeResponse(answer::notice(notice))).await?;
        }
        Ok(())
    }

    /// Runs the statements of a text up to the first that fails. Says whether a COPY waits for the client.
    async fn run_text(&mut self, client: &mut Socket, text: &str) -> PgWireResult<bool> {
        let mut shape = Shape::of(text);
        if let Some((statement, values)) = self.session.known(text, shape.as_ref()) {
            return self.run_one(client, &statement, &values).await;
        }
        let text = &*weir_sql::dollar_quoted(text);
        let said = self.session.read(text).map_err(|failure| self.failed(failure))?;
        if said.is_empty() {
            say(client, Answer::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
            return Ok(false);
        }
        let waits = |one: &Said| matches!(&one.what, Command::Copy(copy) if copy.is_from);
        if said[..said.len() - 1].iter().any(waits) {
            let message = "not supported yet: statements behind COPY FROM STDIN in one text";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(self.failed(error.with_hint("send them when the COPY is over")));
        }
        let ends = |one: &Said| matches!(one.what, Command::Begin(..) | Command::Commit | Command::RollBack);
        // Statements of one text are one transaction, unless they say themselves where it begins and ends.
        if said.len() > 1 && !said.iter().any(ends) {
            self.session.begin_together();
        }
        for one in &said {
            let statement = self.session.prepare(text, one, &[]).map_err(|failure| self.failed(failure))?;
            if self.run_one(client, &statement, &[]).await? {
                return Ok(true);
            }
            if said.len() == 1 {
                self.session.remember(text, shape.take(), &statement);
            }
        }
        Ok(false)
    }

    /// Runs one statement of a text. Says whether it is a COPY that waits for the client.
    async fn run_one(
        &mut self,
        client: &mut Socket,
        statement: &Statement,
        values: &[Value],
    ) -> PgWireResult<bool> {
        let mut receiver = Receiver::client(client, self.session.formats_of(statement), true);
        let done = self.session.run(statement, values, &mut receiver).await;
        self.say_beside(client).await?;
        let done = done.map_err(|failure| self.failed(failure))?;
        say_changed(client, &done.changed).await?;
        if done.copy.is_some() {
            return self.say_copy(client, &done).await;
        }
        if done.sent.is_some() {
            say(client, Answer::CommandComplete(answer::complete(&done.tag, done.sent))).await?;
            return Ok(false);
        }
        let formats = self.session.formats_of(statement);
        if done.gives_rows() {
            let description = answer::row_description(&done.columns, &formats);
            say(client, Answer::RowDescription(description)).await?;
            let style = self.session.settings.in_effect().interval_style;
            say_rows(client, &done.rows, &done.columns, (&formats, style)).await?;
        }
        let count = done.count.or(done.gives_rows().then_some(done.rows.len() as u64));
        say(client, Answer::CommandComplete(answer::complete(&done.tag, count))).await?;
        Ok(false)
    }

    /// A text has been run, or could not be.
    async fn end_query(&mut self, client: &mut Socket, ran: PgWireResult<()>) -> PgWireResult<()> {
        let (changed, ended) = self.session.end_together(ran.is_err()).await;
        self.session.names.remove_portal("");
        self.forget_failure();
        if let Err(error) = ran.and(ended.map_err(answer::wire_error)) {
            self.say_failure(client, error).await?;
        }
        say_changed(client, &changed).await?;
        self.say_ready(client).await
    }

    /// Answers a message whose body is not what its type says.
    pub(crate) async fn refuse(
        &mut self,
        client: &mut Socket,
        error: SqlError,
        is_extended: bool,
    ) -> PgWireResult<()> {
        if let PgWireConnectionState::CopyInProgress(_) = client.state() {
            return Err(self.give_up_copy(client, error).await);
        }
        let ran = match self.go_on(client).await {
            Ok(()) => Err(self.failed(error)),
            Err(error) => Err(error),
        };
        if is_extended { ran } else { self.end_query(client, ran).await }
    }

    /// Something follows the Execute that was held back: it is one of a transaction.
    async fn go_on(&mut self, client: &mut Socket) -> PgWireResult<()> {
        self.abandon_copy().await;
        let Some(held_back) = self.held_back.take() else { return Ok(()) };
        self.session.begin_together();
        // Boxed, for it is large and seldom there: whatever message comes asks for it.
        Box::pin(self.run_held_back(client, held_back)).await
    }

    async fn run_held_back(&mut self, client: &mut Socket, held_back: HeldBack) -> PgWireResult<()> {
        self.execute(client, &held_back.execute).await?;
        for close in &held_back.closes {
            self.close(client, close).await?;
        }
        Ok(())
    }

    async fn execute(&mut self, client: &mut Socket, execute: &Execute) -> PgWireResult<()> {
        let name = execute.name.as_deref().unwrap_or_default();
        let rows_max = usize::try_from(execute.max_rows).unwrap_or(0);
        let portal = self.session.names.known_portal(name);
        let mut receiver = match portal {
            Some(portal) if rows_max == 0 => Receiver::client(client, portal.formats.clone(), false),
            Some(portal) if self.session.may_be_suspended(&portal.statement) => Receiver::suspended(),
            _ => Receiver::Result,
        };
        let started = self.session.start(name, &mut receiver).await;
        self.say_beside(client).await?;
        let started = started.map_err(|failure| self.failed(failure))?;
        if let Some(done) = &started {
            say_changed(client, &done.changed).await?;
            if done.copy.is_some() {
                if self.say_copy(client, done).await? {
                    client.set_state(PgWireConnectionState::CopyInProgress(true));
                }
                return Ok(());
            }
            if done.sent.is_some() {
                return say(client, Answer::CommandComplete(answer::complete(&done.tag, done.sent))).await;
            }
        }
        // The state is taken out while the rows are sent; no other message uses the portal meanwhile.
        let taken = |portal: &mut Portal| {
            let state = std::mem::replace(&mut portal.state, PortalState::Over);
            (state, portal.formats.clone(), portal.statement.clone())
        };
        let portal = self.session.names.portal(name).map(taken);
        let (formats, mut cursor, text) = match (portal, started) {
            (Ok((state, formats, statement)), started) => match (state, started) {
                (PortalState::Open(cursor), _) => (formats, cursor, statement.text.clone()),
                (_, Some(done)) => {
                    return self.say_complete(client, &done, statement.is_empty()).await;
                }
                (_, None) => {
                    let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                    let message = format!("portal \"{name}\" cannot be run");
                    return Err(self.failed(SqlError::new(state, message)));
                }
            },
            (Err(_), Some(done)) => return self.say_complete(client, &done, false).await,
            (Err(error), None) => return Err(self.failed(error)),
        };
        let (columns, tag) = (cursor.columns.clone(), cursor.tag.clone());
        let style = self.session.settings.in_effect().interval_style;
        let (count, more) = match cursor.is_running() {
            false => {
                let (rows, more) = cursor.next(rows_max);
                say_rows(client, rows, &columns, (&formats, style)).await?;
                (rows.len(), more)
            }
            true => {
                let mut receiver = Receiver::client(client, formats.clone(), false);
                let given = self.session.run_again(&text, &mut cursor, rows_max, &mut receiver).await;
                self.say_beside(client).await?;
                let given = given.map_err(|failure| self.failed(failure))?;
                say_rows(client, &given.rows, &columns, (&formats, style)).await?;
                (given.count, !given.is_over)
            }
        };
        self.session.names.put_cursor(name, cursor);
        match more {
            true => say(client, Answer::PortalSuspended(PortalSuspended::new())).await,
            false => say(client, Answer::CommandComplete(answer::complete(&tag, Some(count as u64)))).await,
        }
    }

    async fn say_complete(&mut self, client: &mut Socket, done: &Done, is_empty: bool) -> PgWireResult<()> {
        match is_empty {
            true => say(client, Answer::EmptyQueryResponse(EmptyQueryResponse::new())).await,
            false => say(client, Answer::CommandComplete(answer::complete(&done.tag, done.count))).await,
        }
    }

    async fn close(&mut self, client: &mut Socket, close: &Close) -> PgWireResult<()> {
        let name = close.name.as_deref().unwrap_or_default();
        match close.target_type {
            TARGET_TYPE_BYTE_STATEMENT => self.session.names.remove_statement(name),
            _ => self.session.names.remove_portal(name),
        };
        say(client, Answer::CloseComplete(CloseComplete::new())).await
    }

    fn parse(&mut self, message: &Parse) -> Result<(), Failure> {
        let query = weir_sql::dollar_quoted(&message.query);
        let said = self.session.read(&query)?;
        let mut statement = match &said[..] {
            [] => Statement::empty(),
            [one] => {
                self.session.refuse_after_failure(Some(&one.what))?;
                let types = answer::parameter_types(&message.type_oids);
                self.session.prepare(&query, one, &types)?
            }
            _ => {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
            }
        };
        statement.keep_columns();
        let name = message.name.as_deref().unwrap_or_default();
        Ok(self.session.names.put_statement(name, Arc::new(statement))?)
    }

    fn bind(&mut self, message: &Bind) -> Result<(), Failure> {
        let name = message.statement_name.as_deref().unwrap_or_default();
        let statement = self.session.names.statement(name)?;
        let given = Formats(message.parameter_format_codes.clone());
        let values = values(&message.parameters, &given, &statement, name)?;
        let formats = Formats(message.result_column_format_codes.clone());
        let portal = message.portal_name.as_deref().unwrap_or_default();
        self.session.bind_portal(portal, (statement, values, formats))
    }

    async fn say_columns(
        &mut self,
        client: &mut Socket,
        columns: &[OutputColumn],
        (formats, is_query): (&Formats, bool),
    ) -> PgWireResult<()> {
        match columns {
            // A query may have no columns.
            [] if !is_query => say(client, Answer::NoData(NoData::new())).await,
            _ => say(client, Answer::RowDescription(answer::row_description(columns, formats))).await,
        }
    }
}

fn values(
    given: &[Option<bytes::Bytes>],
    formats: &Formats,
    statement: &Statement,
    name: &str,
) -> Result<Vec<Value>, SqlError> {
    let types = &statement.parameters;
    if given.len() != types.len() {
        let message = format!(
            "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
            given.len(),
            types.len()
        );
        return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let named = formats.0.len();
    if named > 1 && named != given.len() {
        let message = format!("bind message has {named} parameter formats but {} parameters", given.len());
        return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let of = |(at, (bytes, ty))| {
        let bytes: &Option<bytes::Bytes> = bytes;
        answer::parameter(bytes.as_deref(), formats.is_binary(at), (ty, statement.told_at(at)))
    };
    given.iter().zip(types.iter()).enumerate().map(of).collect()
}

impl Talk {
    pub(crate) async fn on_query(&mut self, client: &mut Socket, query: Query) -> PgWireResult<()> {
        // A client that has not said Sync has made one transaction of all that it has said.
        let ran = match self.go_on(client).await {
            Ok(()) => self.run_text(client, &query.query).await,
            Err(error) => Err(error),
        };
        if let Ok(true) = ran {
            client.set_state(PgWireConnectionState::CopyInProgress(false));
            return Ok(());
        }
        self.end_query(client, ran.map(drop)).await
    }

    pub(crate) async fn on_parse(&mut self, client: &mut Socket, message: Parse) -> PgWireResult<()> {
        self.go_on(client).await?;
        self.parse(&message).map_err(|failure| self.failed(failure))?;
        say(client, Answer::ParseComplete(ParseComplete::new())).await
    }

    pub(crate) async fn on_bind(&mut self, client: &mut Socket, message: Bind) -> PgWireResult<()> {
        self.go_on(client).await?;
        self.bind(&message).map_err(|failure| self.failed(failure))?;
        say(client, Answer::BindComplete(BindComplete::new())).await
    }

    pub(crate) async fn on_execute(&mut self, client: &mut Socket, message: Execute) -> PgWireResult<()> {
        self.go_on(client).await?;
        if self.session.may_be_alone(message.name.as_deref().unwrap_or_default()) {
            let held_back = HeldBack { execute: message, closes: Vec::new() };
            self.held_back = Some(held_back);
            return Ok(());
        }
        self.execute(client, &message).await
    }

    pub(crate) async fn on_describe(&mut self, client: &mut Socket, message: Describe) -> PgWireResult<()> {
        self.go_on(client).await?;
        let name = message.name.as_deref().unwrap_or_default();
        if message.target_type == TARGET_TYPE_BYTE_STATEMENT {
            let statement = self.session.names.statement(name);
            let statement = statement.map_err(|error| self.failed(error))?;
            let number = |(at, ty)| statement.told_at(at).map_or_else(|| type_number(ty), |told| told.0);
            let types = statement.parameters.iter().enumerate().map(number).collect();
            say(client, Answer::ParameterDescription(ParameterDescription::new(types))).await?;
            let columns = self.session.columns_of(&statement);
            return self.say_columns(client, &columns, (&Formats::default(), statement.is_query())).await;
        }
        if message.target_type != TARGET_TYPE_BYTE_PORTAL {
            let message = format!("invalid DESCRIBE message subtype {}", message.target_type);
            return Err(self.failed(SqlError::new(SqlState::PROTOCOL_VIOLATION, message)));
        }
        let (columns, formats, is_query) = match self.session.names.known_portal(name) {
            Some(portal) => {
                let columns = match &portal.state {
                    PortalState::Open(cursor) => cursor.columns.clone(),
                    _ => self.session.columns_of(&portal.statement),
                };
                (columns, portal.formats.clone(), portal.statement.is_query())
            }
            None => return Err(self.failed(no_portal(name, "portal"))),
        };
        self.say_columns(client, &columns, (&formats, is_query)).await
    }

    pub(crate) async fn on_flush(&mut self, client: &mut Socket) -> PgWireResult<()> {
        self.go_on(client).await?;
        client.flush().await.map_err(Into::into)
    }

    pub(crate) async fn on_sync(&mut self, client: &mut Socket) -> PgWireResult<()> {
        self.abandon_copy().await;
        let has_failed = self.forget_failure();
        let ran = match self.held_back.take() {
            Some(held_back) => Box::pin(self.run_held_back(client, held_back)).await,
            None => Ok(()),
        };
        let (changed, ended) = self.session.end_together(has_failed || ran.is_err()).await;
        if let Err(error) = ran.and(ended.map_err(answer::wire_error)) {
            self.say_failure(client, error).await?;
        }
        say_changed(client, &changed).await?;
        self.say_ready(client).await
    }

    pub(crate) async fn on_close(&mut self, client: &mut Socket, message: Close) -> PgWireResult<()> {
        if !matches!(message.target_type, TARGET_TYPE_BYTE_STATEMENT | TARGET_TYPE_BYTE_PORTAL) {
            self.go_on(client).await?;
            let message = format!("invalid CLOSE message subtype {}", message.target_type);
            return Err(self.failed(SqlError::new(SqlState::PROTOCOL_VIOLATION, message)));
        }
        // Closing something is no statement: what was held back may be the only one yet.
        if let Some(held_back) = &mut self.held_back {
            held_back.closes.push(message);
            return Ok(());
        }
        self.close(client, &message).await
    }
}
