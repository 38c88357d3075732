//! The beginning of a connection: requests for encryption, then the startup packet or a request to cancel. Messages are read here, too.

use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use pgwire::api::{ClientInfo, DefaultClient, PgWireConnectionState};
use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::{MaybeTls, PgWireMessageServerCodec};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::Framed;
use weir_types::{SqlError, SqlState};

use crate::frontend::{Expected, Frame, Opening};

/// Sends answers; messages are read separately, by [`Incoming`].
pub type Socket = Framed<MaybeTls, PgWireMessageServerCodec<String>>;

const READ_BYTES: usize = 8 << 10;

/// Received bytes that have not been parsed.
#[derive(Default)]
pub struct Incoming(BytesMut);

/// Why no message could be taken.
pub enum Unreadable {
    Socket(io::Error),
    /// Where the next message begins is not known.
    OutOfStep(SqlError),
}

impl Incoming {
    /// The next message; none, if the client has gone. A call that is given up loses nothing.
    ///
    /// # Errors
    /// The socket's, or the bytes are no message.
    pub async fn next(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        expected: Expected,
    ) -> Result<Option<Frame>, Unreadable> {
        loop {
            if let Some(frame) = Frame::cut(&mut self.0, expected).map_err(Unreadable::OutOfStep)? {
                return Ok(Some(frame));
            }
            if self.0.is_empty() && self.0.capacity() > READ_BYTES {
                // A session that waits keeps no memory of a large message.
                self.0 = BytesMut::new();
            }
            self.0.reserve(READ_BYTES);
            if from.read_buf(&mut self.0).await.map_err(Unreadable::Socket)? == 0 {
                return Ok(None);
            }
        }
    }
}

impl Incoming {
    /// The next message of an extended query, if it has come with the one before it. None: whatever comes next is for [`Incoming::next`].
    pub fn following(&mut self) -> Option<Frame> {
        match self.0.first() {
            Some(b'P' | b'B' | b'C' | b'D' | b'E' | b'H' | b'S') => {
                Frame::cut(&mut self.0, Expected::Command).ok()?
            }
            _ => None,
        }
    }
}

/// A connection that has said what it wants.
pub struct Opened {
    pub socket: Socket,
    pub incoming: Incoming,
    /// A startup packet or a request to cancel; or why it is neither.
    pub first: Result<Message, SqlError>,
}

fn socket(stream: MaybeTls, address: SocketAddr) -> Socket {
    let is_secure = matches!(stream, MaybeTls::Tls(_));
    let client = DefaultClient::new(address, is_secure);
    let mut socket = Framed::new(stream, PgWireMessageServerCodec::new(client));
    socket.set_state(PgWireConnectionState::AwaitingStartup);
    socket
}

/// None: it has gone before it has said anything.
///
/// # Errors
/// The socket's.
pub async fn open(tcp: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Option<Opened>> {
    let address = tcp.peer_addr()?;
    tcp.set_nodelay(true)?;
    let mut stream = MaybeTls::Plain(tcp);
    let mut incoming = Incoming::default();
    let (mut asked_tls, mut asked_gss) = (false, false);
    let first = loop {
        let frame = match incoming.next(&mut stream, Expected::Startup).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(Unreadable::Socket(error)) => return Err(error),
            Err(Unreadable::OutOfStep(error)) => break Err(error),
        };
        match frame.opening() {
            Ok(Opening::SslRequest) if !asked_tls => {
                asked_tls = true;
                match (stream, &tls) {
                    (MaybeTls::Plain(mut tcp), Some(tls)) => {
                        if !incoming.0.is_empty() {
                            // An attacker in between may have injected them to be taken for encrypted data.
                            stream = MaybeTls::Plain(tcp);
                            break Err(unencrypted());
                        }
                        tcp.write_all(b"S").await?;
                        stream = MaybeTls::Tls(Box::new(tls.accept(tcp).await?));
                    }
                    (other, _) => {
                        stream = other;
                        stream.write_all(b"N").await?;
                    }
                }
            }
            Ok(Opening::GssEncRequest) if !asked_gss => {
                asked_gss = true;
                stream.write_all(b"N").await?;
            }
            Ok(Opening::SslRequest) => break Err(unsupported("1234.5679")),
            Ok(Opening::GssEncRequest) => break Err(unsupported("1234.5680")),
            Ok(Opening::Cancel(request)) => break Ok(Message::CancelRequest(request)),
            Ok(Opening::Startup(startup)) => break Ok(Message::Startup(startup)),
            Err(error) => break Err(error),
        }
    };
    Ok(Some(Opened { socket: socket(stream, address), incoming, first }))
}

fn unencrypted() -> SqlError {
    let message = "received unencrypted data after SSL request";
    let detail =
        "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message).with_detail(detail)
}

fn unsupported(version: &str) -> SqlError {
    let message = format!("unsupported frontend protocol {version}: server supports 3.0 to 3.2");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
