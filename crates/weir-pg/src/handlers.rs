//! A connection, as `pgwire` wants its handlers.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{Sink, SinkExt};
use pgwire::api::auth::StartupHandler;
use pgwire::api::portal::{Format, Portal};
use pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use pgwire::api::results::{FieldInfo, Response};
use pgwire::api::stmt::QueryParser;
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, PgWireServerHandlers, Type};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use weir_client::Client;
use weir_sql::session::{Command, Said};
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::answer;
use crate::doors::{AtTheDoor, Doors};
use crate::session::{Done, Failure, Session, Statement};

pub struct Connection {
    door: Arc<AtTheDoor>,
    talk: Arc<Talk>,
}

impl Connection {
    pub fn new(client: Arc<Client>, doors: Arc<Doors>, is_full: bool) -> Connection {
        let session = Arc::new(Session::new(client));
        Connection {
            door: Arc::new(AtTheDoor { doors, session: session.clone(), is_full }),
            talk: Arc::new(Talk { session }),
        }
    }
}

impl PgWireServerHandlers for Connection {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        self.talk.clone()
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        self.talk.clone()
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        self.door.clone()
    }
}

struct Talk {
    session: Arc<Session>,
}

async fn warn<C>(client: &mut C, done: &Done) -> PgWireResult<()>
where
    C: Sink<PgWireBackendMessage> + Unpin,
    C::Error: Debug,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    if let Some(warning) = &done.warning {
        client.feed(PgWireBackendMessage::NoticeResponse(answer::notice(warning))).await?;
    }
    Ok(())
}

#[async_trait]
impl SimpleQueryHandler for Talk {
    async fn do_query<C>(&self, client: &mut C, query: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let session = &self.session;
        let said = session.read(query).map_err(answer::wire_error)?;
        if said.is_empty() {
            return Ok(vec![Response::EmptyQuery]);
        }
        let runs = said.iter().filter(|one| one.what == Command::Run).count();
        let ends = |one: &Said| matches!(one.what, Command::Begin(_) | Command::Commit | Command::RollBack);
        // Statements of one text are one transaction, unless they say themselves where it begins and ends.
        if runs > 1 && !said.iter().any(ends) {
            session.begin_together();
        }
        let mut failed = None;
        let mut responses = Vec::with_capacity(said.len());
        for one in &said {
            let done = async {
                let statement = session.prepare(query, one, &[])?;
                let done = session.run(&statement, &[]).await?;
                Ok((statement, done))
            };
            match done.await {
                Ok((statement, done)) => {
                    warn(client, &done).await?;
                    responses.push(answer::response(&statement, done, &Format::UnifiedText)?);
                }
                Err(failure) => {
                    session.fail();
                    failed = Some(failure);
                    break;
                }
            }
        }
        let ended = session.end_together(failed.is_some()).await;
        if let Some(failure) = failed.or(ended.err()) {
            responses.push(Response::Error(Box::new(answer::failed(&failure))));
        }
        Ok(responses)
    }
}

/// Binds texts for a session.
struct Parser {
    session: Arc<Session>,
}

impl Parser {
    fn failed(&self, failure: Failure) -> PgWireError {
        self.session.fail();
        answer::wire_error(failure)
    }
}

#[async_trait]
impl QueryParser for Parser {
    type Statement = Option<Statement>;

    async fn parse_sql<C>(
        &self,
        _client: &C,
        sql: &str,
        types: &[Option<Type>],
    ) -> PgWireResult<Option<Self::Statement>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        let said = self.session.read(sql).map_err(|failure| self.failed(failure))?;
        let one = match &said[..] {
            [] => return Ok(None),
            [one] => one,
            _ => {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(answer::wire_error(SqlError::new(SqlState::SYNTAX_ERROR, message).into()));
            }
        };
        let types: Vec<SqlType> = answer::parameter_types(types);
        self.session.prepare(sql, one, &types).map(Some).map(Some).map_err(|failure| self.failed(failure))
    }

    fn get_parameter_types(&self, statement: &Self::Statement) -> PgWireResult<Vec<Type>> {
        let types = statement.iter().flat_map(|statement| statement.parameters.iter());
        Ok(types.map(answer::wire_type).collect())
    }

    fn get_result_schema(
        &self,
        statement: &Self::Statement,
        format: Option<&Format>,
    ) -> PgWireResult<Vec<FieldInfo>> {
        let columns = statement.as_ref().map(|statement| &statement.columns[..]).unwrap_or_default();
        Ok(answer::fields(columns, format.unwrap_or(&Format::UnifiedText)))
    }
}

#[async_trait]
impl ExtendedQueryHandler for Talk {
    type Statement = Option<Statement>;
    type QueryParser = Parser;

    fn query_parser(&self) -> Arc<Parser> {
        Arc::new(Parser { session: self.session.clone() })
    }

    async fn do_query<C>(
        &self,
        client: &mut C,
        portal: &Portal<Self::Statement>,
        _max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let Some(statement) = &portal.statement.statement else { return Ok(Response::EmptyQuery) };
        let values = values(portal, statement)?;
        let done = match self.session.run(statement, &values).await {
            Ok(done) => done,
            Err(failure) => {
                self.session.fail();
                return Err(answer::wire_error(failure));
            }
        };
        warn(client, &done).await?;
        answer::response(statement, done, &portal.result_column_format)
    }
}

fn values(portal: &Portal<Option<Statement>>, statement: &Statement) -> PgWireResult<Vec<Value>> {
    let (given, types) = (&portal.parameters, &statement.parameters);
    if given.len() != types.len() {
        let message = format!(
            "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
            given.len(),
            portal.statement.id,
            types.len()
        );
        return Err(answer::wire_error(SqlError::new(SqlState::PROTOCOL_VIOLATION, message).into()));
    }
    let of = |(at, (bytes, ty)): (usize, (&Option<bytes::Bytes>, &SqlType))| {
        let format = answer::format_at(&portal.parameter_format, at);
        answer::parameter(bytes.as_deref(), format, ty).map_err(answer::wire_error)
    };
    given.iter().zip(types.iter()).enumerate().map(of).collect()
}
