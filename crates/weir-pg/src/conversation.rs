//! A connection from its first byte to its last: one message of the client after the other, until it goes or is ended.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use pgwire::api::{ClientInfo, PgWireConnectionState, PgWireServerHandlers};
use pgwire::error::ErrorInfo;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::{negotiate_tls, process_error, process_message};
use tokio::net::TcpStream;

use crate::ending::farewell;
use crate::handlers::Connection;

/// Whoever connects says who they are within this.
const STARTUP_MAX: Duration = Duration::from_secs(60);

/// So long a session that is ended may take to end what it does, and its client to take what it is told.
pub(crate) const END_MAX: Duration = Duration::from_secs(10);

/// Carries the connection until it is over.
///
/// # Errors
/// The socket's.
pub(crate) async fn converse(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    connection: Connection,
) -> io::Result<()> {
    let mut startup_max = pin!(tokio::time::sleep(STARTUP_MAX));
    let negotiated = tokio::select! {
        () = &mut startup_max => return Ok(()),
        negotiated = negotiate_tls(socket, tls) => negotiated?,
    };
    // Without a certificate nobody speaks TLS.
    let Some(mut socket) = negotiated else { return Ok(()) };
    let session = connection.session();
    let mut ended = pin!(session.ending.wished());
    let mut is_ended = false;
    while !is_ended {
        let is_starting = matches!(
            socket.state(),
            PgWireConnectionState::AwaitingStartup | PgWireConnectionState::AuthenticationInProgress
        );
        let message = tokio::select! {
            biased;
            () = &mut ended => break,
            message = socket.next() => message,
            () = &mut startup_max, if is_starting => return Ok(()),
        };
        let message = match message {
            Some(Ok(message)) if !matches!(message, PgWireFrontendMessage::Terminate(_)) => message,
            _ => return Ok(()),
        };
        let waits_for_sync = match socket.state() {
            PgWireConnectionState::CopyInProgress(is_extended) => is_extended,
            _ => message.is_extended_query(),
        };
        let is_cancel = matches!(message, PgWireFrontendMessage::CancelRequest(_));
        let done = {
            let mut work = pin!(process_message(
                message,
                &mut socket,
                connection.startup_handler(),
                connection.simple_query_handler(),
                connection.extended_query_handler(),
                connection.copy_handler(),
                connection.cancel_handler(),
            ));
            tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = &mut ended => {
                    is_ended = true;
                    tokio::time::timeout(END_MAX, work).await.ok()
                }
            }
        };
        // Of who does not take what it is told, or waits for what cannot be ended, the connection ends without a word.
        let Some(done) = done else { return Ok(()) };
        if let Err(error) = done
            && !session.ending.is_wished()
        {
            let is_fatal = error.is_fatal();
            process_error(&mut socket, error, waits_for_sync).await?;
            if is_fatal {
                return Ok(());
            }
        }
        if is_cancel {
            return Ok(());
        }
    }
    let told = async {
        let info: ErrorInfo = farewell().into();
        socket.send(PgWireBackendMessage::ErrorResponse(info.into())).await?;
        socket.close().await
    };
    tokio::time::timeout(END_MAX, told).await.unwrap_or(Ok(()))
}
