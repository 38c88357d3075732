//! A connection from its first byte to its last: one message of the client after the other, until it goes or is ended.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, SinkExt};
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::response::ReadyForQuery;
use pgwire::messages::{PgWireBackendMessage as Answer, PgWireFrontendMessage as Message};
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::process_error;
use tokio::net::TcpStream;
use weir_types::{SqlError, SqlState};

use crate::answer::{fatal, wire_error};
use crate::backend::Backend;
use crate::ending::terminated;
use crate::evaluation::evaluate_with;
use crate::event_loops::Busy;
use crate::frontend::{Expected, Frame};
use crate::handlers::{Connection, Talk};
use crate::isolation::Isolated;
use crate::opening::{Incoming, Opened, Socket, Unreadable, open};
use crate::watchdog::peer;

/// Time limit of the startup phase of a connection.
const STARTUP_MAX: Duration = Duration::from_secs(60);

/// Time limit for a terminated session to end its statement and to deliver its last messages.
pub(crate) const END_MAX: Duration = Duration::from_secs(10);

/// The same for a session that sends the rows of a query: its client may not read, and then gets no last message.
const SENDING_END_MAX: Duration = Duration::from_secs(1);

/// Carries the connection until it is over.
///
/// # Errors
/// The socket's.
pub(crate) async fn converse(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    mut connection: Connection,
) -> io::Result<()> {
    let (backend, evaluation) = {
        let session = &connection.talk.session;
        (session.backend.clone(), session.settings.evaluation().clone())
    };
    if let Some(peer) = peer(&tcp) {
        // A connection begins once.
        let _ = backend.peer.set(peer);
    }
    let mut startup_max = pin!(tokio::time::sleep(STARTUP_MAX));
    let opened = tokio::select! {
        () = &mut startup_max => return Ok(()),
        opened = open(tcp, tls) => opened?,
    };
    let Some(Opened { mut socket, mut incoming, first }) = opened else { return Ok(()) };
    let mut ended = pin!(backend.ending.wished());
    let (mut first, mut expected) = (Some(first), Expected::Startup);
    let mut busy: Option<Busy> = None;
    loop {
        let (message, is_extended) = match first.take() {
            Some(first) => (first, false),
            None => {
                expected = what_comes_next(&socket, expected);
                let looks = busy.take();
                let frame = tokio::select! {
                    biased;
                    () = &mut ended => return say_terminated(&mut socket, &backend).await,
                    frame = next_frame(&mut incoming, (&mut socket, expected), looks) => frame,
                    () = &mut startup_max, if is_starting(&socket) => {
                        return say_last(&mut socket, too_late()).await;
                    }
                };
                let frame = match frame {
                    Ok(Some(frame)) if frame.kind != b'X' => frame,
                    Ok(_) => return Ok(()),
                    Err(Unreadable::Socket(error)) => return Err(error),
                    Err(Unreadable::OutOfStep(error)) => {
                        connection.talk.log_error(&error);
                        return say_last(&mut socket, error).await;
                    }
                };
                // After an error nothing is read of a message but that it is there.
                if matches!(socket.state(), PgWireConnectionState::AwaitingSync) && frame.kind != b'S' {
                    continue;
                }
                let is_extended = frame.is_extended_query();
                (frame.message(expected), is_extended)
            }
        };
        busy = Some(Busy::begin(Arc::as_ptr(&backend).addr()));
        let (is_cancel, was_starting) =
            (matches!(message, Ok(Message::CancelRequest(_))), is_starting(&socket));
        let (done, is_ended) = {
            let mut work = Isolated(pin!(evaluate_with(
                &evaluation,
                answer_all(&mut socket, &mut connection, &mut incoming, (message, is_extended))
            )));
            tokio::select! {
                biased;
                done = &mut work => (Some(done), false),
                () = &mut ended => {
                    let sends_rows = backend.in_flight.sends_rows();
                    let most = if sends_rows { SENDING_END_MAX } else { END_MAX };
                    (tokio::time::timeout(most, work).await.ok(), true)
                }
            }
        };
        // The connection is closed without a message if the client does not read, or the statement cannot be ended.
        let Some(done) = done else { return Ok(()) };
        let Answered { result: done, waits_for_sync } = match done {
            Ok(done) => done,
            Err(panicked) => return say_last(&mut socket, panicked.error()).await,
        };
        if is_ended || backend.ending.is_wished() {
            return say_terminated(&mut socket, &backend).await;
        }
        if let Err(error) = done {
            if error.is_fatal() || was_starting {
                return say_last_info(&mut socket, error.into()).await;
            }
            process_error(&mut socket, error, waits_for_sync).await?;
        }
        if is_cancel {
            return Ok(());
        }
    }
}

/// The next message. A client that has just been answered may ask again at once: then it is not waited for asleep.
async fn next_frame(
    incoming: &mut Incoming,
    (socket, expected): (&mut Socket, Expected),
    looks: Option<Busy>,
) -> Result<Option<Frame>, Unreadable> {
    if let Some(looks) = looks
        && let Some(found) = looks.look_for(|| incoming.next(socket.get_mut(), expected).now_or_never()).await
    {
        return found;
    }
    incoming.next(socket.get_mut(), expected).await
}

/// Returns whether the client is not authenticated yet.
fn is_starting(socket: &Socket) -> bool {
    let state = socket.state();
    matches!(state, PgWireConnectionState::AwaitingStartup | PgWireConnectionState::AuthenticationInProgress)
}

fn what_comes_next(socket: &Socket, before: Expected) -> Expected {
    match socket.state() {
        PgWireConnectionState::CopyInProgress(_) => Expected::CopyIn,
        _ if !is_starting(socket) => Expected::Command,
        _ if before == Expected::Startup => Expected::SaslInitialResponse,
        _ => Expected::SaslResponse,
    }
}

/// How the last message was answered that has been.
struct Answered {
    result: PgWireResult<()>,
    /// After an error, everything up to a Sync is passed over.
    waits_for_sync: bool,
}

/// Answers a message, and the following ones of the same extended query if they have come with it.
async fn answer_all(
    socket: &mut Socket,
    connection: &mut Connection,
    incoming: &mut Incoming,
    (mut message, mut is_extended): (Result<Message, SqlError>, bool),
) -> Answered {
    loop {
        let waits_for_sync = match socket.state() {
            PgWireConnectionState::CopyInProgress(is_extended) => is_extended,
            _ => is_extended,
        };
        let result = answer(socket, connection, message, is_extended).await;
        let goes_on = is_extended
            && result.is_ok()
            && what_comes_next(socket, Expected::Command) == Expected::Command
            && !matches!(socket.state(), PgWireConnectionState::AwaitingSync)
            && !connection.talk.session.backend.ending.is_wished();
        let Some(frame) = goes_on.then(|| incoming.following()).flatten() else {
            return Answered { result, waits_for_sync };
        };
        is_extended = frame.is_extended_query();
        message = frame.message(Expected::Command);
    }
}

/// The future of each message is boxed: it is large, and most connections are idle.
async fn answer(
    socket: &mut Socket,
    Connection { door, talk }: &mut Connection,
    message: Result<Message, SqlError>,
    is_extended: bool,
) -> PgWireResult<()> {
    match message {
        Ok(Message::CancelRequest(request)) => {
            door.on_cancel_request(request);
            Ok(socket.close().await?)
        }
        Ok(message) if is_starting(socket) => {
            Box::pin(door.on_startup(&mut talk.session, socket, message)).await
        }
        Ok(message) => match socket.state() {
            // After an error in the extended protocol everything up to Sync is passed over.
            PgWireConnectionState::AwaitingSync => match message {
                Message::Sync(_) => Box::pin(talk.on_sync(socket)).await,
                _ => Ok(()),
            },
            PgWireConnectionState::CopyInProgress(is_extended) => {
                answer_in_copy(socket, talk, message, is_extended).await
            }
            _ => answer_command(socket, talk, message).await,
        },
        Err(error) if is_starting(socket) => Err(PgWireError::UserError(Box::new(fatal(&error)))),
        Err(error) => Box::pin(talk.refuse(socket, error, is_extended)).await,
    }
}

async fn answer_command(socket: &mut Socket, talk: &mut Talk, message: Message) -> PgWireResult<()> {
    match message {
        Message::Query(query) => Box::pin(talk.on_query(socket, query)).await,
        Message::Parse(parse) => Box::pin(talk.on_parse(socket, parse)).await,
        Message::Bind(bind) => Box::pin(talk.on_bind(socket, bind)).await,
        Message::Execute(execute) => Box::pin(talk.on_execute(socket, execute)).await,
        Message::Describe(describe) => Box::pin(talk.on_describe(socket, describe)).await,
        Message::Flush(_) => Box::pin(talk.on_flush(socket)).await,
        Message::Sync(_) => Box::pin(talk.on_sync(socket)).await,
        Message::Close(close) => Box::pin(talk.on_close(socket, close)).await,
        _ => Ok(()),
    }
}

/// A COPY FROM STDIN is under way. One of the simple protocol ends with its last message; one of the extended protocol, with a Sync.
async fn answer_in_copy(
    socket: &mut Socket,
    talk: &mut Talk,
    message: Message,
    is_extended: bool,
) -> PgWireResult<()> {
    match message {
        Message::CopyData(data) => Box::pin(talk.on_copy_data(socket, data)).await,
        Message::CopyDone(_) => {
            let ended = Box::pin(talk.on_copy_done(socket)).await;
            if !is_extended {
                socket.set_state(PgWireConnectionState::ReadyForQuery);
                ended?;
                let ready = ReadyForQuery::new(socket.transaction_status());
                return Ok(socket.send(Answer::ReadyForQuery(ready)).await?);
            }
            ended?;
            socket.set_state(PgWireConnectionState::AwaitingSync);
            Ok(())
        }
        Message::CopyFail(fail) => {
            let error = Box::pin(talk.on_copy_fail(socket, fail)).await;
            if !is_extended {
                socket.set_state(PgWireConnectionState::ReadyForQuery);
            }
            Err(error)
        }
        // Clients send a Sync behind the Execute of the COPY, before its rows.
        Message::Flush(_) | Message::Sync(_) => Ok(()),
        _ => {
            let error = SqlError::new(SqlState::PROTOCOL_VIOLATION, "unexpected message type during COPY");
            Err(wire_error(error.into()))
        }
    }
}

fn too_late() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling authentication due to timeout")
}

/// The session has been ended by somebody else.
async fn say_terminated(socket: &mut Socket, backend: &Backend) -> io::Result<()> {
    match backend.ending.client_is_gone() {
        true => Ok(()),
        false => say_last(socket, terminated()).await,
    }
}

async fn say_last(socket: &mut Socket, error: SqlError) -> io::Result<()> {
    say_last_info(socket, fatal(&error)).await
}

/// Sends the reason why the connection ends.
async fn say_last_info(socket: &mut Socket, mut info: ErrorInfo) -> io::Result<()> {
    info.severity = "FATAL".to_owned();
    info.severity_nonlocalized = Some("FATAL".to_owned());
    let told = async {
        socket.send(Answer::ErrorResponse(info.into())).await?;
        socket.close().await
    };
    tokio::time::timeout(END_MAX, told).await.unwrap_or(Ok(()))
}
