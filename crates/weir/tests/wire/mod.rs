//! PostgreSQL's protocol by hand: messages as bytes, answers as lines of text, for what no driver would say.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

trait Stream: Read + Write + Send {
    fn say_no_more(&self);
}

impl Stream for TcpStream {
    fn say_no_more(&self) {
        // It may be over already.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for UnixStream {
    fn say_no_more(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// A connection that has come in.
#[allow(dead_code, reason = "each test uses its part")]
pub struct Wire {
    stream: Box<dyn Stream>,
    /// Of BackendKeyData.
    pub key: Vec<u8>,
}

#[allow(dead_code, reason = "each test uses its part")]
impl Wire {
    pub fn tcp(address: SocketAddr, user: &str, database: &str) -> Wire {
        Wire::begin(Box::new(TcpStream::connect(address).unwrap()), user, database)
    }

    /// Of a server that listens in that folder.
    pub fn unix(folder: &Path, user: &str, database: &str) -> Wire {
        let stream = UnixStream::connect(folder.join(".s.PGSQL.5432")).unwrap();
        Wire::begin(Box::new(stream), user, database)
    }

    /// Before it has said who it is.
    pub fn outside(address: SocketAddr) -> Wire {
        Wire { stream: Box::new(TcpStream::connect(address).unwrap()), key: Vec::new() }
    }

    /// Of a PostgreSQL server, before it has said who it is.
    pub fn outside_unix(folder: &Path) -> Wire {
        let stream = UnixStream::connect(folder.join(".s.PGSQL.5432")).unwrap();
        Wire { stream: Box::new(stream), key: Vec::new() }
    }

    fn begin(stream: Box<dyn Stream>, user: &str, database: &str) -> Wire {
        let mut wire = Wire { stream, key: Vec::new() };
        wire.come_in(&[("user", user), ("database", database)]).unwrap_or_else(|said| panic!("{said}"));
        wire
    }

    /// Says these parameters. Gives the error if it is not let in.
    pub fn come_in(&mut self, parameters: &[(&str, &str)]) -> Result<(), String> {
        self.send(&[startup(parameters)]);
        loop {
            let (kind, body) = self.next().expect("it lets us in, or says why not");
            match kind {
                b'K' => self.key = body,
                b'Z' => return Ok(()),
                b'E' => return Err(said(kind, &body)),
                _ => {}
            }
        }
    }

    pub fn send(&mut self, messages: &[Vec<u8>]) {
        self.stream.write_all(&messages.concat()).unwrap();
    }

    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = i32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// Says nothing more, and takes everything up to the end.
    pub fn hear_the_end(mut self) -> Vec<String> {
        self.stream.say_no_more();
        let mut heard = Vec::new();
        while let Some((kind, body)) = self.next() {
            heard.push(said(kind, &body));
        }
        heard
    }

    /// The next answer.
    pub fn hear_one(&mut self) -> String {
        loop {
            match self.next() {
                // Settings and notices come when they come.
                Some((b'S', _)) => {}
                Some((kind, body)) => return said(kind, &body),
                None => return "the end".to_owned(),
            }
        }
    }

    /// All answers up to so many times "ready".
    pub fn hear(&mut self, readies: usize) -> Vec<String> {
        let mut heard = Vec::new();
        let mut left = readies;
        while left > 0 {
            heard.push(self.hear_one());
            left -= usize::from(heard.last().is_some_and(|one| one.starts_with("Z ") || one == "the end"));
        }
        heard
    }
}

fn strings(body: &[u8]) -> Vec<String> {
    body.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_at(N);
        self.0 = rest;
        head.try_into().unwrap()
    }

    fn int2(&mut self) -> i16 {
        i16::from_be_bytes(self.take())
    }

    fn int4(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    fn string(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        text
    }
}

/// An answer as a line: its letter, and what matters of it.
fn said(kind: u8, body: &[u8]) -> String {
    let mut reader = Reader(body);
    let letter = kind as char;
    match kind {
        b'T' => {
            let columns: Vec<String> = (0..reader.int2())
                .map(|_| {
                    let name = reader.string();
                    let (_, _) = (reader.int4(), reader.int2());
                    let (ty, size, modifier) = (reader.int4(), reader.int2(), reader.int4());
                    format!("{name}:{ty}:{size}:{modifier}:{}", reader.int2())
                })
                .collect();
            format!("T {}", columns.join(" "))
        }
        b'D' => {
            let values: Vec<String> = (0..reader.int2())
                .map(|_| match reader.int4() {
                    -1 => "NULL".to_owned(),
                    length => {
                        let (value, rest) = reader.0.split_at(length as usize);
                        reader.0 = rest;
                        value.escape_ascii().to_string()
                    }
                })
                .collect();
            format!("D {}", values.join("|"))
        }
        b't' => {
            let types: Vec<String> = (0..reader.int2()).map(|_| reader.int4().to_string()).collect();
            format!("t {}", types.join(" "))
        }
        b'E' | b'N' => {
            let fields = strings(body);
            let of = |letter: char| fields.iter().find_map(|field| field.strip_prefix(letter)).unwrap_or("");
            let place = of('P');
            let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
            let context = of('W');
            let context = if context.is_empty() { String::new() } else { format!(" ({context})") };
            format!("{letter} {} {}{place}{context}", of('C'), of('M'))
        }
        b'C' => format!("C {}", reader.string()),
        b'Z' => format!("Z {}", body[0] as char),
        b'G' | b'H' => {
            let (format, count) = (reader.take::<1>()[0], reader.int2());
            let formats: Vec<i16> = (0..count).map(|_| reader.int2()).collect();
            format!("{letter} {format} {formats:?}")
        }
        b'd' => format!("d {}", body.escape_ascii()),
        _ => letter.to_string(),
    }
}

/// The packet that a connection begins with.
#[allow(dead_code, reason = "each test uses its part")]
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    for word in parameters.iter().flat_map(|(name, value)| [*name, *value]).chain([""]) {
        body.extend(word.as_bytes());
        body.push(0);
    }
    [&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat()
}

pub fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = body.len() as i32 + 4;
    [&[kind][..], &length.to_be_bytes(), &body].concat()
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), &[0]])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn parse(name: &str, text: &str, types: &[i32]) -> Vec<u8> {
    let types: Vec<u8> =
        [(types.len() as i16).to_be_bytes().to_vec(), types.iter().flat_map(|ty| ty.to_be_bytes()).collect()]
            .concat();
    message(b'P', &[name.as_bytes(), &[0], text.as_bytes(), &[0], &types])
}

fn int2s(all: &[i16]) -> Vec<u8> {
    let count = (all.len() as i16).to_be_bytes();
    count.into_iter().chain(all.iter().flat_map(|one| one.to_be_bytes())).collect()
}

/// Values with their formats; formats of the columns.
#[allow(dead_code, reason = "each test uses its part")]
pub fn bind_as(
    portal: &str,
    statement: &str,
    given: &[i16],
    values: &[Option<&[u8]>],
    wanted: &[i16],
) -> Vec<u8> {
    let mut all = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        match value {
            None => all.extend((-1_i32).to_be_bytes()),
            Some(bytes) => {
                all.extend((bytes.len() as i32).to_be_bytes());
                all.extend(*bytes);
            }
        }
    }
    let (given, wanted) = (int2s(given), int2s(wanted));
    message(b'B', &[portal.as_bytes(), &[0], statement.as_bytes(), &[0], &given, &all, &wanted])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<Option<&[u8]>> = values.iter().map(|value| Some(value.as_bytes())).collect();
    bind_as(portal, statement, &[], &values, &[])
}

/// `what`: S for a statement, P for a portal.
#[allow(dead_code, reason = "each test uses its part")]
pub fn describe(what: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[what], name.as_bytes(), &[0]])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn close(what: u8, name: &str) -> Vec<u8> {
    message(b'C', &[&[what], name.as_bytes(), &[0]])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), &[0], &rows_max.to_be_bytes()])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn flush() -> Vec<u8> {
    message(b'H', &[])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn copy_data(bytes: &[u8]) -> Vec<u8> {
    message(b'd', &[bytes])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn copy_done() -> Vec<u8> {
    message(b'c', &[])
}

#[allow(dead_code, reason = "each test uses its part")]
pub fn copy_fail(why: &str) -> Vec<u8> {
    message(b'f', &[why.as_bytes(), &[0]])
}
