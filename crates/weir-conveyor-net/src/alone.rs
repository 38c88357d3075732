//! Transactions of sessions without an agent, over a connection of their own: what they cost a server is measured so.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use postgres_protocol::message::frontend;
use tokio::runtime::{Builder, Runtime};
use weir_conveyor::routing::MapVersion;
use weir_conveyor::schema::Sql;
use weir_conveyor::work::License;

use crate::connections::Connections;
use crate::operation::{SqlDone, SqlError};
use crate::raw::{execute, messages_of};
use crate::session_worker;
use crate::sessions::{Command, Ending, Replies, Request, SessionPort, SessionReply, SessionStart, Until};

/// A session.
pub struct Alone {
    runtime: Runtime,
    connections: Arc<Connections>,
    /// Names of prepared statements, by text.
    names: BTreeMap<String, String>,
}

/// A transaction that has not run.
fn not_run(why: &str) -> SqlError {
    SqlError { sqlstate: String::new(), message: why.to_owned() }
}

impl Alone {
    /// # Errors
    /// The system has no more files.
    pub fn new(config: &str) -> io::Result<Alone> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Alone {
            runtime,
            connections: Connections::new(config.to_owned(), false, 1),
            names: BTreeMap::new(),
        })
    }

    /// Runs a statement as a transaction: a global one under a license, else one of the map of slots, or one that checks nothing.
    ///
    /// # Errors
    /// The statement's own, or the transaction has not run.
    pub fn run(
        &mut self,
        sql: &Sql,
        license: Option<License>,
        map: Option<MapVersion>,
    ) -> Result<(), SqlError> {
        let request = self.request(sql, license.is_some()).map_err(|error| not_run(&error.to_string()))?;
        let heard = Arc::new(Mutex::new(None));
        let hears = heard.clone();
        let take = move |reply| {
            *hears.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
            true
        };
        let start = SessionStart { map, ..SessionStart::default() };
        let mut port = SessionPort::new(start, Replies::Relayed(Box::new(take)));
        port.control.say(Command::Run(Arc::new(request)));
        let done = self.runtime.block_on(session_worker::run(&self.connections, &mut port, license));
        let reply = heard.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (done, reply) {
            (SqlDone::Executed(_), Some(SessionReply::Answered(answered))) => {
                match messages_of(Bytes::from(answered.messages)).find(|message| message.kind() == b'E') {
                    None => Ok(()),
                    Some(error) => {
                        let field = |letter| error.field(letter).unwrap_or_default().to_owned();
                        Err(SqlError { sqlstate: field(b'C'), message: field(b'M') })
                    }
                }
            }
            (_, Some(SessionReply::Over(Ending::Failed(error)))) => Err(error),
            (done, reply) => Err(not_run(&format!("it has not run: {done:?}, {reply:?}"))),
        }
    }

    fn request(&mut self, sql: &Sql, then_commit: bool) -> io::Result<Request> {
        let next = format!("weir_alone_{}", self.names.len());
        let name = self.names.entry(sql.text.clone()).or_insert(next).clone();
        let (mut parse, mut messages) = (BytesMut::new(), BytesMut::new());
        frontend::parse(&name, &sql.text, [], &mut parse)?;
        execute(&name, &sql.parameters, &[], &mut messages)?;
        frontend::sync(&mut messages);
        Ok(Request {
            messages: messages.to_vec(),
            prepared: vec![(name, parse.to_vec())],
            until: Until::Ready,
            then_commit,
            may_commit: true,
            sets: false,
            copies: false,
        })
    }
}
