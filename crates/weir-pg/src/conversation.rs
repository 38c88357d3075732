//! A connection from its first byte to its last: one message of the client after the other, until it goes or is ended.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::SinkExt;
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage as Message};
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::{process_error, process_message};
use tokio::net::TcpStream;
use weir_types::{SqlError, SqlState};

use crate::answer::fatal;
use crate::ending::terminated;
use crate::frontend::Expected;
use crate::handlers::Connection;
use crate::isolation::Isolated;
use crate::opening::{Opened, Socket, Unreadable, open};
use crate::session::Session;
use crate::watchdog::peer;
use crate::zone::in_zone;

/// Time limit of the startup phase of a connection.
const STARTUP_MAX: Duration = Duration::from_secs(60);

/// Time limit for a terminated session to end its statement and to deliver its last messages.
pub(crate) const END_MAX: Duration = Duration::from_secs(10);

/// Carries the connection until it is over.
///
/// # Errors
/// The socket's.
pub(crate) async fn converse(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    connection: Connection,
) -> io::Result<()> {
    let session = connection.talk.session.clone();
    if let Some(peer) = peer(&tcp) {
        // A connection begins once.
        let _ = session.peer.set(peer);
    }
    let mut startup_max = pin!(tokio::time::sleep(STARTUP_MAX));
    let opened = tokio::select! {
        () = &mut startup_max => return Ok(()),
        opened = open(tcp, tls) => opened?,
    };
    let Some(Opened { mut socket, mut incoming, first }) = opened else { return Ok(()) };
    let mut ended = pin!(session.ending.wished());
    let (mut first, mut expected) = (Some(first), Expected::Startup);
    loop {
        let (message, is_extended) = match first.take() {
            Some(first) => (first, false),
            None => {
                expected = what_comes_next(&socket, expected);
                let frame = tokio::select! {
                    biased;
                    () = &mut ended => return say_terminated(&mut socket, &session).await,
                    frame = incoming.next(socket.get_mut(), expected) => frame,
                    () = &mut startup_max, if is_starting(&socket) => {
                        return say_last(&mut socket, too_late()).await;
                    }
                };
                let frame = match frame {
                    Ok(Some(frame)) if frame.kind != b'X' => frame,
                    Ok(_) => return Ok(()),
                    Err(Unreadable::Socket(error)) => return Err(error),
                    Err(Unreadable::OutOfStep(error)) => {
                        session.log_error(&error);
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
        let waits_for_sync = match socket.state() {
            PgWireConnectionState::CopyInProgress(is_extended) => is_extended,
            _ => is_extended,
        };
        let (is_cancel, was_starting) =
            (matches!(message, Ok(Message::CancelRequest(_))), is_starting(&socket));
        let (done, is_ended) = {
            let mut work = Isolated(pin!(in_zone(
                &session.zone,
                answer(&mut socket, &connection, message, is_extended)
            )));
            tokio::select! {
                biased;
                done = &mut work => (Some(done), false),
                () = &mut ended => (tokio::time::timeout(END_MAX, work).await.ok(), true),
            }
        };
        // The connection is closed without a message if the client does not read, or the statement cannot be ended.
        let Some(done) = done else { return Ok(()) };
        let done = match done {
            Ok(done) => done,
            Err(panicked) => return say_last(&mut socket, panicked.error()).await,
        };
        if is_ended || session.ending.is_wished() {
            return say_terminated(&mut socket, &session).await;
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

async fn answer(
    socket: &mut Socket,
    Connection { door, talk }: &Connection,
    message: Result<Message, SqlError>,
    is_extended: bool,
) -> PgWireResult<()> {
    match message {
        Ok(message) => {
            process_message(
                message,
                socket,
                door.clone(),
                talk.clone(),
                talk.clone(),
                talk.clone(),
                door.clone(),
            )
            .await
        }
        Err(error) if is_starting(socket) => Err(PgWireError::UserError(Box::new(fatal(&error)))),
        Err(error) => talk.refuse(socket, error, is_extended).await,
    }
}

fn too_late() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling authentication due to timeout")
}

/// The session has been ended by somebody else.
async fn say_terminated(socket: &mut Socket, session: &Session) -> io::Result<()> {
    match session.ending.client_is_gone() {
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
        socket.send(PgWireBackendMessage::ErrorResponse(info.into())).await?;
        socket.close().await
    };
    tokio::time::timeout(END_MAX, told).await.unwrap_or(Ok(()))
}
