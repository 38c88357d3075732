//! One connection: a socket that is never waited for, TLS over it where the cluster has it, and the bytes that are on
//! their way in and out.

use std::io::{self, Read, Write};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use crate::frame::{self, FAREWELL_FROM, Fault, Frame, Kind};

/// Limit of the bytes read in one turn, so that a busy peer does not delay others.
const READ_BYTES_MAX: usize = 1 << 20;
const READ_BYTES_AT_ONCE: usize = 64 << 10;
/// With so much unsent, who answers reads nothing more: who does not take its answers gets no more of them.
pub const UNSENT_BYTES_MAX: usize = 4 << 20;
/// With so much unsent, who asks adds nothing more: the other side is gone or stands still, and what is asked is asked again.
const UNSENT_BYTES_CLOGGED: usize = 64 << 20;
/// Limit of the bytes passed to TLS at once.
const TLS_BYTES_AT_ONCE: usize = 64 << 10;
/// Idle time after which keep-alive probes are sent, and their interval.
const SILENCE: Duration = Duration::from_secs(10);
/// Time without a TCP acknowledgement after which the peer's machine is considered dead.
#[cfg(target_os = "linux")]
const UNCONFIRMED_MAX: Duration = Duration::from_secs(20);
/// Buffers that grew beyond this for a large frame are freed.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Events are edges: what they said stands until the socket says that there is no more.
pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<rustls::Connection>>,
    incoming: Vec<u8>,
    /// Consumed bytes of `incoming`.
    taken: usize,
    outgoing: Vec<u8>,
    /// Sent bytes of `outgoing`.
    sent: usize,
    readable: bool,
    writable: bool,
    /// The other side will send no more than what has come.
    closing: bool,
    /// All of that has been read.
    ended: bool,
    /// This side answers. Only one side may stop reading while it cannot send, or both may wait for each other for ever.
    answers: bool,
    /// That both sides have agreed on; before, that of what all versions understand.
    version: u16,
}

impl Connection {
    /// Takes over a connected socket.
    pub fn accepted(stream: TcpStream, tls: Option<rustls::Connection>) -> Connection {
        Connection::new(stream, tls, true)
    }

    /// Over a socket that is about to be connected.
    pub fn dialled(stream: TcpStream, tls: Option<rustls::Connection>) -> Connection {
        Connection::new(stream, tls, false)
    }

    fn new(stream: TcpStream, tls: Option<rustls::Connection>, answers: bool) -> Connection {
        // Batches are whole when they are written; to wait for more would only delay them. Where it cannot be
        // set, they are late and nothing else.
        let _ = stream.set_nodelay(true);
        watch_for_death(&stream);
        Connection {
            answers,
            version: 0,
            stream,
            tls: tls.map(Box::new),
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
            readable: true,
            writable: true,
            closing: false,
            ended: false,
        }
    }

    /// # Errors
    /// The system's.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        (self.readable, self.writable) = (true, true);
        registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// # Errors
    /// The system's.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut self.stream)
    }

    /// Why it could not be connected, if that is known by now.
    ///
    /// # Errors
    /// It cannot be connected.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn on_event(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_error();
        self.closing |= event.is_read_closed();
    }

    /// There may be more to read, and it may be read now.
    pub fn is_readable(&self) -> bool {
        self.readable && !self.ended && !(self.answers && self.unsent() >= UNSENT_BYTES_MAX)
    }

    /// Returns whether so much waits to be sent that nothing should be added.
    pub fn is_clogged(&self) -> bool {
        self.unsent() >= UNSENT_BYTES_CLOGGED
    }

    /// Bytes that have come and are no whole frame yet, or have not been looked at.
    pub fn untaken(&self) -> usize {
        self.incoming.len() - self.taken
    }

    pub fn unsent(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Everything has been handed to the system.
    pub fn is_sent(&self) -> bool {
        self.unsent() == 0 && self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Reads what has come, up to a turn's share.
    ///
    /// # Errors
    /// The connection broke. That the other side has closed it shows in `next_frame`, once all frames are taken.
    pub fn fill(&mut self) -> Result<(), Fault> {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        if self.incoming.is_empty() && self.incoming.capacity() > KEPT_BYTES_MAX {
            self.incoming = Vec::new();
        }
        let upto = self.incoming.len() + READ_BYTES_MAX;
        while self.is_readable() && self.incoming.len() < upto {
            let came = match &mut self.tls {
                None => fill_from(&mut self.stream, &mut self.incoming),
                Some(tls) => fill_over(tls, &mut self.stream, &mut self.incoming),
            };
            match came {
                Ok(0) => self.ended = true,
                // A socket that had less than it was asked for has no more, and will say when it has.
                Ok(came) if self.tls.is_none() && !self.closing && came < READ_BYTES_AT_ONCE => {
                    self.readable = false;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next frame that has come whole.
    ///
    /// # Errors
    /// The received bytes are not a frame, or the peer has closed the connection.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Fault> {
        match frame::first(&self.incoming[self.taken..])? {
            Some((frame, length)) => {
                self.taken += length;
                Ok(Some(frame))
            }
            None if self.ended => Err(Fault::Io("the other side has closed the connection".into())),
            None => Ok(None),
        }
    }

    /// Where frames to be sent are put.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// The connection broke.
    pub fn flush(&mut self) -> Result<(), Fault> {
        while self.writable && !self.is_sent() {
            let sent = match &mut self.tls {
                None => self.stream.write(&self.outgoing[self.sent..]).map(|sent| self.sent += sent),
                Some(tls) if tls.wants_write() => tls.write_tls(&mut self.stream).map(drop),
                // TLS keeps all bytes that it takes until the socket takes them, so it gets no more than is sent at once.
                Some(tls) if !tls.is_handshaking() => {
                    let upto = self.outgoing.len().min(self.sent + TLS_BYTES_AT_ONCE);
                    tls.writer().write(&self.outgoing[self.sent..upto]).map(|sent| self.sent += sent)
                }
                // The other side's turn. The reader of the end of the handshake sends the data that waits for it.
                Some(_) => break,
            };
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                // The connection is still being established.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.sent == self.outgoing.len() {
            self.sent = 0;
            self.outgoing.clear();
            self.outgoing.shrink_to(KEPT_BYTES_MAX);
        } else if self.sent > KEPT_BYTES_MAX.max(self.unsent()) {
            // Where something is always unsent, what has been sent must go all the same.
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    pub fn version(&self) -> u16 {
        self.version
    }

    /// Sets the protocol version of messages sent from now on.
    pub fn set_version(&mut self, version: u16) {
        self.version = version;
    }

    /// Tells the other side that this one ends and may come back, if it knows the word and the socket takes it.
    pub fn say_farewell(&mut self, why: &str) {
        if self.version >= FAREWELL_FROM {
            let said = frame::push(&mut self.outgoing, Kind::Farewell, |out| out.extend(why.as_bytes()));
            // It is closed either way.
            let _ = said.and_then(|()| self.flush());
        }
    }

    /// Tells the other side why this is the end, if the socket takes it.
    pub fn say_goodbye(&mut self, why: &Fault) {
        if why.is_ours() {
            let said =
                frame::push(&mut self.outgoing, Kind::Goodbye, |out| out.extend(why.to_string().as_bytes()));
            let _ = said.and_then(|()| self.flush());
        }
    }
}

/// Where the system does not offer it, the end of a machine shows later.
fn watch_for_death(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE));
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(UNCONFIRMED_MAX));
}

fn fill_from(stream: &mut impl Read, into: &mut Vec<u8>) -> io::Result<usize> {
    let had = into.len();
    into.resize(had + READ_BYTES_AT_ONCE, 0);
    let came = stream.read(&mut into[had..]);
    into.truncate(had + came.as_ref().map_or(0, |came| *came));
    came
}

/// Reads through TLS; returns 0 only at the end of the connection.
fn fill_over(tls: &mut rustls::Connection, stream: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    let read = tls.read_tls(stream)?;
    let state = tls.process_new_packets().map_err(|error| {
        // Sends the resulting TLS alert to the peer.
        let _ = tls.write_tls(stream);
        io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
    })?;
    let plain = state.plaintext_bytes_to_read();
    let had = into.len();
    into.resize(had + plain, 0);
    tls.reader().read_exact(&mut into[had..])?;
    Ok(if plain == 0 { read } else { plain })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        [&one, &other].iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
        (TcpStream::from_std(one), TcpStream::from_std(other))
    }

    /// Both ends of a handshake that is still to come.
    fn tls() -> (rustls::Connection, rustls::Connection) {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let certificate = own.cert.der().clone();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider.clone());
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let server = rustls::ServerConfig::builder_with_provider(provider);
        let server = server.with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let dials = rustls::ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
        (dials.into(), rustls::ServerConnection::new(Arc::new(server)).unwrap().into())
    }

    /// As if the poll had said so.
    fn turn(connection: &mut Connection) {
        (connection.readable, connection.writable) = (true, true);
        connection.fill().unwrap();
        connection.flush().unwrap();
    }

    #[test]
    fn who_does_not_take_its_answers_is_not_read_any_more_and_gets_all_in_the_end() {
        for over_tls in [false, true] {
            let (one, other) = pair();
            let (dials, accepts) = over_tls.then(tls).unzip();
            let mut dialled = Connection::dialled(one, dials);
            let mut accepted = Connection::accepted(other, accepts);
            frame::push(dialled.outgoing(), Kind::Requests, |out| out.extend(b"asks")).unwrap();
            while accepted.untaken() == 0 {
                turn(&mut dialled);
                turn(&mut accepted);
            }
            assert_eq!(accepted.next_frame(), Ok(Some((Kind::Requests, &b"asks"[..]))));
            for _ in 0..4 {
                frame::push(accepted.outgoing(), Kind::Replies, |out| out.resize(out.len() + (8 << 20), 7))
                    .unwrap();
                // Nor does who asks stop reading, however much it has to send.
                frame::push(dialled.outgoing(), Kind::Requests, |out| out.resize(out.len() + (8 << 20), 7))
                    .unwrap();
            }
            turn(&mut accepted);
            assert!(accepted.unsent() > UNSENT_BYTES_MAX, "{} bytes, TLS {over_tls}", accepted.unsent());
            let mut frames = 0;
            for _ in 0..100_000 {
                turn(&mut accepted);
                while accepted.next_frame().unwrap().is_some() {}
                turn(&mut dialled);
                while dialled.next_frame().unwrap().is_some() {
                    frames += 1;
                }
                if dialled.is_sent() && accepted.is_sent() && frames == 4 {
                    break;
                }
            }
            assert_eq!((frames, dialled.unsent(), accepted.unsent()), (4, 0, 0), "TLS {over_tls}");
        }
    }

    #[test]
    fn who_speaks_an_older_version_is_not_told_what_it_does_not_know() {
        for (version, said) in [(0, false), (1, false), (2, true)] {
            let (one, _other) = pair();
            let mut ends = Connection::accepted(one, None);
            ends.set_version(version);
            ends.writable = false;
            ends.say_farewell("for a while");
            let frame = frame::first(&ends.outgoing).unwrap().map(|(frame, _)| frame);
            assert_eq!(frame, said.then_some((Kind::Farewell, &b"for a while"[..])), "version {version}");
        }
        let fault = frame::expect(Kind::Replies, Kind::Farewell, b"for a while").unwrap_err();
        assert!(!fault.is_refusal() && !fault.is_ours(), "{fault}");
    }

    #[test]
    fn a_machine_that_is_gone_is_noticed() {
        let (one, _other) = pair();
        let connection = Connection::accepted(one, None);
        assert!(SockRef::from(&connection.stream).keepalive().unwrap());
    }
}
