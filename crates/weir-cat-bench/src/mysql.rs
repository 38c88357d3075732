//! As much of MySQL's protocol as the workload needs: a connection over a local socket, statements as text, rows as text.
//!
//! MariaDB's private server has a user without a password, so there is no authentication, and no encryption.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Capabilities of the client: long flags, 4.1 protocol, transactions, secure connection, plugin authentication.
const CAPABILITIES: u32 = 0x0000_0004 | 0x0000_0200 | 0x0000_2000 | 0x0000_8000 | 0x0008_0000;
const PACKET_MAX: u32 = 16 * 1024 * 1024;
const UTF8: u8 = 45;

/// An error of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    pub code: u16,
    pub state: String,
    pub message: String,
}

impl ServerError {
    /// The transaction is to be tried again: a deadlock, a wait that was too long, a row that has changed since the snapshot.
    pub fn is_abort(&self) -> bool {
        matches!(self.code, 1213 | 1205 | 1020)
    }
}

#[derive(Debug)]
pub enum Error {
    Server(ServerError),
    /// The connection, or an answer that is none.
    Connection(io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Server(error) => write!(out, "{} ({}): {}", error.code, error.state, error.message),
            Error::Connection(error) => write!(out, "{error}"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Connection(error)
    }
}

/// A connection.
#[derive(Debug)]
pub struct Connection<S = UnixStream> {
    stream: S,
    sequence: u8,
}

fn wrong(what: &str) -> Error {
    Error::Connection(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()))
}

impl Connection<UnixStream> {
    /// Connects as `root` without a password.
    ///
    /// # Errors
    /// The socket's, or the server's refusal.
    pub fn connect(socket: &Path) -> Result<Connection, Error> {
        Connection::over(UnixStream::connect(socket)?)
    }
}

impl<S: Read + Write> Connection<S> {
    fn over(stream: S) -> Result<Connection<S>, Error> {
        let mut connection = Connection { stream, sequence: 0 };
        let greeting = connection.packet()?;
        match greeting.first() {
            Some(10) => {}
            Some(0xff) => return Err(server_error(&greeting)),
            _ => return Err(wrong("the server does not speak version 10 of MySQL's protocol")),
        }
        let mut answer = Vec::new();
        answer.extend_from_slice(&CAPABILITIES.to_le_bytes());
        answer.extend_from_slice(&PACKET_MAX.to_le_bytes());
        answer.push(UTF8);
        answer.extend_from_slice(&[0; 23]);
        // The user, and a password of no bytes.
        answer.extend_from_slice(b"root\0\0mysql_native_password\0");
        connection.send(&answer)?;
        let mut said = connection.packet()?;
        if said.first() == Some(&0xfe) {
            // It would have another plugin: without a password the answer is empty for all of them.
            connection.send(&[])?;
            said = connection.packet()?;
        }
        match said.first() {
            Some(0) => Ok(connection),
            Some(0xff) => Err(server_error(&said)),
            _ => Err(wrong("the server asks for more than a user without a password has")),
        }
    }

    /// Runs a statement and returns its rows; NULL is None.
    ///
    /// # Errors
    /// The server's, or the connection's, which is over then.
    pub fn query(&mut self, text: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        self.sequence = 0;
        let mut command = vec![3];
        command.extend_from_slice(text.as_bytes());
        self.send(&command)?;
        let first = self.packet()?;
        match first.first() {
            Some(0) => return Ok(Vec::new()),
            Some(0xff) => return Err(server_error(&first)),
            _ => {}
        }
        let columns = length(&mut &first[..]).ok_or_else(|| wrong("a result without a number of columns"))?;
        for _ in 0..columns {
            self.packet()?;
        }
        self.packet()?;
        let mut rows = Vec::new();
        loop {
            let packet = self.packet()?;
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => return Ok(rows),
                Some(0xff) => return Err(server_error(&packet)),
                _ => rows.push(row(&packet, columns).ok_or_else(|| wrong("a row that ends too early"))?),
            }
        }
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let size = u32::try_from(payload.len()).ok().filter(|size| *size < PACKET_MAX - 1);
        let size = size.ok_or_else(|| wrong("a statement of 16 MB or more"))?;
        let mut packet = size.to_le_bytes()[..3].to_vec();
        packet.push(self.sequence);
        packet.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
        Ok(self.stream.write_all(&packet)?)
    }

    fn packet(&mut self) -> Result<Vec<u8>, Error> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let size = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        self.sequence = header[3].wrapping_add(1);
        let mut payload = vec![0; size as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }
}

/// A length of one to nine bytes. None: NULL, or the bytes end.
fn length(from: &mut &[u8]) -> Option<usize> {
    let (first, rest) = from.split_first()?;
    let width = match first {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        0xfb | 0xff => {
            *from = rest;
            return None;
        }
        small => {
            *from = rest;
            return Some(usize::from(*small));
        }
    };
    let (bytes, rest) = rest.split_at_checked(width)?;
    *from = rest;
    let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).ok()
}

fn row(packet: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
    let mut rest = packet;
    let value = |rest: &mut &[u8]| -> Option<Option<String>> {
        if rest.first()? == &0xfb {
            *rest = &rest[1..];
            return Some(None);
        }
        let size = length(rest)?;
        let (text, after) = rest.split_at_checked(size)?;
        *rest = after;
        Some(Some(String::from_utf8_lossy(text).into_owned()))
    };
    (0..columns).map(|_| value(&mut rest)).collect()
}

fn server_error(packet: &[u8]) -> Error {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = packet.get(3..).unwrap_or_default();
    let (state, message) = match rest.split_first() {
        Some((b'#', rest)) => rest.split_at(rest.len().min(5)),
        _ => (&b"HY000"[..], rest),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Error::Server(ServerError { code, state: text(state), message: text(message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server says; what is written is lost.
    struct Said(io::Cursor<Vec<u8>>);

    impl Read for Said {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(packets: &[&[u8]]) -> Said {
        let framed = packets.iter().flat_map(|packet| {
            let size = (packet.len() as u32).to_le_bytes();
            [&size[..3], &[0], packet].concat()
        });
        Said(io::Cursor::new(framed.collect()))
    }

    #[test]
    fn rows_are_read() {
        let greeting: &[u8] = &[10, b'5', 0];
        let packets = [greeting, &[0], &[2], b"k", b"v", &[0xfe, 0, 0], &[1, b'7', 0xfb], &[0xfe, 0, 0]];
        let mut connection = Connection::over(said(&packets)).expect("it answers");
        assert_eq!(connection.query("SELECT").expect("there are rows"), [[Some("7".to_owned()), None]]);
        // Then the server is gone.
        assert!(matches!(connection.query("SELECT"), Err(Error::Connection(_))));
    }

    #[test]
    fn errors_have_a_code_and_a_state() {
        let deadlock = [&[0xff, 0xbd, 0x04][..], b"#40001Deadlock found"].concat();
        let mut connection = Connection::over(said(&[&[10], &[0], &deadlock])).expect("it answers");
        let Err(Error::Server(error)) = connection.query("UPDATE") else { panic!("it is an error") };
        assert_eq!((error.code, error.state.as_str(), error.is_abort()), (1213, "40001", true));
        assert_eq!(error.message, "Deadlock found");
    }

    #[test]
    fn damaged_answers_are_errors() {
        for packets in [&[&[9u8][..]][..], &[&[10], &[7]], &[&[]], &[&[10], &[0xff]]] {
            assert!(Connection::over(said(packets)).is_err(), "{packets:?}");
        }
        for damaged in [&[0xfb_u8][..], &[0xfc, 1], &[]] {
            let mut connection = Connection::over(said(&[&[10], &[0], damaged])).expect("it answers");
            assert!(connection.query("SELECT").is_err(), "{damaged:?}");
        }
        assert_eq!(row(&[3, b'a'], 1), None);
        assert_eq!(length(&mut &[0xfd, 1, 0, 1][..]), Some(65_537));
    }
}
