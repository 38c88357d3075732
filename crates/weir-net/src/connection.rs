//! One connection: a socket that is never waited for, TLS over it where the cluster has it, and the bytes that are on
//! their way in and out.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::frame::{self, Fault, Frame, Kind};

/// So much is read in one turn, that nobody is kept waiting by one who sends a lot.
const READ_BYTES_MAX: usize = 1 << 20;
const READ_BYTES_AT_ONCE: usize = 64 << 10;
/// With so much unsent, nothing more is read: who does not take its answers gets no more of them.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Buffers that grew beyond this for one large frame are let go.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Events are edges: what they said stands until the socket says that there is no more.
pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<rustls::Connection>>,
    incoming: Vec<u8>,
    /// Of `incoming`.
    taken: usize,
    outgoing: Vec<u8>,
    /// Of `outgoing`.
    sent: usize,
    readable: bool,
    writable: bool,
    /// The other side will send no more than what has come.
    closing: bool,
    /// All of that has been read.
    ended: bool,
}

impl Connection {
    /// Over a socket that is connected, or about to be.
    pub fn new(stream: TcpStream, tls: Option<rustls::Connection>) -> Connection {
        // Batches are whole when they are written; to wait for more would only delay them. Where it cannot be
        // set, they are late and nothing else.
        let _ = stream.set_nodelay(true);
        Connection {
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
        self.readable && !self.ended && self.unsent() < UNSENT_BYTES_MAX
    }

    fn unsent(&self) -> usize {
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
    /// What has come can never become a frame, or the other side has closed the connection and there is none.
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
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(&self.outgoing[self.sent..])?;
            self.sent = self.outgoing.len();
        }
        while self.writable && !self.is_sent() {
            let sent = match &mut self.tls {
                None => self.stream.write(&self.outgoing[self.sent..]).map(|sent| self.sent += sent),
                Some(tls) => tls.write_tls(&mut self.stream).map(drop),
            };
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                // Of a connection that is still being made.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.sent == self.outgoing.len() {
            self.sent = 0;
            self.outgoing.clear();
            self.outgoing.shrink_to(KEPT_BYTES_MAX);
        }
        Ok(())
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

fn fill_from(stream: &mut impl Read, into: &mut Vec<u8>) -> io::Result<usize> {
    let had = into.len();
    into.resize(had + READ_BYTES_AT_ONCE, 0);
    let came = stream.read(&mut into[had..]);
    into.truncate(had + came.as_ref().map_or(0, |came| *came));
    came
}

/// What a read over TLS gives: 0 only at the end of the connection.
fn fill_over(tls: &mut rustls::Connection, stream: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    let read = tls.read_tls(stream)?;
    let state = tls.process_new_packets().map_err(|error| {
        // What there is to say about it is an alert to the other side.
        let _ = tls.write_tls(stream);
        io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
    })?;
    let plain = state.plaintext_bytes_to_read();
    let had = into.len();
    into.resize(had + plain, 0);
    tls.reader().read_exact(&mut into[had..])?;
    Ok(if plain == 0 { read } else { plain })
}
