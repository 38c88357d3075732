//! A connection to a PostgreSQL server over which the messages of a session go as they are.
//!
//! Startup and authentication are by the crate `postgres-protocol`; then messages are only cut apart by their lengths.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use postgres::config::Host;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{self, ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Handle, Id};

const CLOSED: &str = "the server has closed the connection";

/// What is longer is written while answers are read: a server that waits until its answers are taken reads nothing.
const WRITTEN_MAX: usize = 64 << 10;
/// Least room for a read.
const READ_BYTES: usize = 8 << 10;
/// Largest message that a server may send.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Prepared statements that a connection keeps. Then all are forgotten.
const PREPARED_MAX: usize = 1_000;

/// Settings that every connection begins with, and comes back to by RESET ALL.
const DEFAULTS: [(&str, &str); 2] = [("client_encoding", "UTF8"), ("application_name", "weir conveyor")];
/// The same for connections of an agent.
const AGENT_DEFAULTS: [(&str, &str); 3] = [
    ("default_transaction_isolation", "serializable"),
    ("synchronous_commit", "on"),
    // An agent that is cut off keeps nothing locked for ever. Longer than any transaction idles at an agent that lives.
    ("idle_in_transaction_session_timeout", "120000"),
];

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// Names the statement that a connection runs, for whoever cancels it.
#[derive(Clone, Debug)]
pub struct CancelKey {
    address: Address,
    process: i32,
    secret: i32,
}

impl CancelKey {
    /// Cancels the statement that runs, if one does. It waits for the server.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn cancel(&self) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        frontend::cancel_request(self.process, self.secret, &mut bytes);
        match &self.address {
            Address::Tcp(host, port) => {
                say_and_wait(std::net::TcpStream::connect((host.as_str(), *port))?, &bytes)
            }
            Address::Unix(path) => say_and_wait(std::os::unix::net::UnixStream::connect(path)?, &bytes),
        }
    }
}

/// The server closes the connection once it has done what it is told.
fn say_and_wait(mut stream: impl Read + Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.read(&mut [0]).map(|_| ())
}

/// The system looks whether the other side of an idle connection is still there.
///
/// # Errors
/// The system's.
pub(crate) fn keep_alive(stream: &std::net::TcpStream) -> io::Result<()> {
    keep_alive_of(&SockRef::from(stream))
}

fn keep_alive_of(socket: &SockRef<'_>) -> io::Result<()> {
    let often = TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&often)
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    async fn connect(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                keep_alive_of(&SockRef::from(&stream))?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// The runtime of this thread looks after it from now on.
    fn moved(self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Stream::Unix(stream) => Stream::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes).await,
            Stream::Unix(stream) => stream.write_all(bytes).await,
        }
    }

    /// Writes what it can, and reads what there is, as soon as it can do either. Returns the number of bytes written.
    async fn write_or_read(&mut self, bytes: &[u8], into: &mut BytesMut) -> io::Result<usize> {
        let either = Interest::READABLE | Interest::WRITABLE;
        let ready = match self {
            Stream::Tcp(stream) => stream.ready(either).await?,
            Stream::Unix(stream) => stream.ready(either).await?,
        };
        if ready.is_readable() {
            into.reserve(READ_BYTES);
            let read = match self {
                Stream::Tcp(stream) => stream.try_read_buf(into),
                Stream::Unix(stream) => stream.try_read_buf(into),
            };
            if later(read)? == Some(0) {
                return Err(other(CLOSED));
            }
        }
        if !ready.is_writable() {
            return Ok(0);
        }
        let written = match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        };
        Ok(later(written)?.unwrap_or(0))
    }

    async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read_buf(into).await,
            Stream::Unix(stream) => stream.read_buf(into).await,
        }
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            Stream::Tcp(stream) => SockRef::from(stream),
            Stream::Unix(stream) => SockRef::from(stream),
        }
    }
}

/// A message of the server, with its header.
#[derive(Clone, Debug)]
pub struct Message(Bytes);

impl Message {
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub fn body(&self) -> &[u8] {
        &self.0[5..]
    }

    /// A field of an error or a notice, by its letter.
    pub fn field(&self, letter: u8) -> Option<&str> {
        let mut rest = self.body();
        while let Some((found, after)) = rest.split_first().filter(|(found, _)| **found != 0) {
            let end = after.iter().position(|byte| *byte == 0)?;
            if *found == letter {
                return std::str::from_utf8(&after[..end]).ok();
            }
            rest = &after[end + 1..];
        }
        None
    }
}

/// A Sync message.
pub(crate) const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

/// Adds the messages that execute a prepared statement with these values, as texts; results are in the formats.
pub(crate) fn execute(
    name: &str,
    values: &[Option<String>],
    formats: &[i16],
    messages: &mut BytesMut,
) -> io::Result<()> {
    let write = |value: &Option<String>, out: &mut BytesMut| {
        let Some(value) = value else { return Ok(IsNull::Yes) };
        out.extend_from_slice(value.as_bytes());
        Ok(IsNull::No)
    };
    let bound = frontend::bind("", name, [], values, write, formats.iter().copied(), messages);
    bound.map_err(|_| other("a statement that is too long"))?;
    frontend::execute("", 0, messages)
}

/// The length of a message without its first byte.
fn length_of(header: &[u8; 5]) -> usize {
    u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize
}

/// Cuts whole messages apart.
pub(crate) fn messages_of(mut bytes: Bytes) -> impl Iterator<Item = Message> {
    std::iter::from_fn(move || {
        let length = length_of(bytes.first_chunk()?);
        (bytes.len() > length).then(|| Message(bytes.split_to(length + 1)))
    })
}

/// The end of statements whose results do not matter.
pub struct Ran {
    pub error: Option<Message>,
    /// Of the transaction, as ReadyForQuery has it.
    pub status: u8,
}

/// A connection. It belongs to the runtime on which it was opened, or to which it was moved.
pub struct RawConnection {
    stream: Stream,
    runtime: Id,
    received: BytesMut,
    key: CancelKey,
    /// Settings of the server, as it has told them.
    parameters: BTreeMap<String, String>,
    /// Names of statements that are prepared.
    pub prepared: std::collections::BTreeSet<String>,
    /// SET statements in effect.
    pub settings: Arc<Vec<String>>,
}

/// None: it cannot be done now.
fn later(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

fn other(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

impl RawConnection {
    /// Connects, authenticates, and waits until the server is ready. `config`: as libpq reads it. `keeps_isolation`: the isolation level is that
    /// of the client or of the server; else it is SERIALIZABLE.
    ///
    /// # Errors
    /// The server cannot be reached, or does not let the role in.
    pub async fn open(config: &str, keeps_isolation: bool) -> io::Result<RawConnection> {
        let opened = tokio::time::timeout(CONNECT_MAX, RawConnection::opened(config, keeps_isolation)).await;
        opened.map_err(|_| other("the server does not answer"))?
    }

    /// Settings of the server, as it tells them to a connection. It waits for the server.
    ///
    /// # Errors
    /// As [`RawConnection::open`].
    pub fn parameters_of(config: &str) -> io::Result<BTreeMap<String, String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(RawConnection::open(config, true)).map(|connection| connection.parameters)
    }

    async fn opened(config: &str, keeps_isolation: bool) -> io::Result<RawConnection> {
        let config = postgres::Config::from_str(config).map_err(|error| other(error.to_string()))?;
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let address = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => Address::Tcp(host.clone(), port),
            Some(Host::Unix(folder)) => Address::Unix(folder.join(format!(".s.PGSQL.{port}"))),
            None => return Err(other("the connection string names no host")),
        };
        let user = config.get_user().ok_or_else(|| other("the connection string names no user"))?;
        let database = config.get_dbname().unwrap_or(user);
        let stream = Stream::connect(&address).await?;
        let mut connection = RawConnection {
            stream,
            runtime: Handle::current().id(),
            received: BytesMut::new(),
            key: CancelKey { address, process: 0, secret: 0 },
            parameters: BTreeMap::new(),
            prepared: std::collections::BTreeSet::new(),
            settings: Arc::default(),
        };
        let mut bytes = BytesMut::new();
        let of_agent = AGENT_DEFAULTS.into_iter().filter(|_| !keeps_isolation);
        let parameters = [("user", user), ("database", database)].into_iter().chain(DEFAULTS).chain(of_agent);
        frontend::startup_message(parameters, &mut bytes)?;
        connection.write(&bytes).await?;
        connection.authenticate(user, config.get_password()).await?;
        connection.wait_until_ready().await?;
        Ok(connection)
    }

    /// Returns whether the runtime of this thread looks after it.
    pub fn is_here(&self) -> bool {
        Handle::current().id() == self.runtime
    }

    /// The runtime of this thread looks after it from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn moved(self) -> io::Result<RawConnection> {
        if self.is_here() {
            return Ok(self);
        }
        Ok(RawConnection { stream: self.stream.moved()?, runtime: Handle::current().id(), ..self })
    }

    async fn authenticate(&mut self, user: &str, password: Option<&[u8]>) -> io::Result<()> {
        let mut scram: Option<ScramSha256> = None;
        let secret = || password.ok_or_else(|| other("the server wants a password, and there is none"));
        loop {
            let message = self.message().await?;
            let body = message.body();
            if message.kind() == b'E' {
                return Err(other(message.field(b'M').unwrap_or("the server refuses the connection")));
            }
            let code = body.first_chunk::<4>().map(|code| i32::from_be_bytes(*code));
            let mut bytes = BytesMut::new();
            match (message.kind(), code) {
                (b'R', Some(0)) => return Ok(()),
                (b'R', Some(3)) => frontend::password_message(secret()?, &mut bytes)?,
                (b'R', Some(5)) => {
                    let salt = body.get(4..8).and_then(|salt| salt.try_into().ok());
                    let salt = salt.ok_or_else(|| other("a request for a password without salt"))?;
                    let hashed = md5_hash(user.as_bytes(), secret()?, salt);
                    frontend::password_message(hashed.as_bytes(), &mut bytes)?;
                }
                (b'R', Some(10)) => {
                    let first = ScramSha256::new(secret()?, ChannelBinding::unsupported());
                    frontend::sasl_initial_response(sasl::SCRAM_SHA_256, first.message(), &mut bytes)?;
                    scram = Some(first);
                }
                (b'R', Some(11)) => {
                    let scram = scram.as_mut().ok_or_else(|| other("SASL goes on that has not begun"))?;
                    scram.update(&body[4..])?;
                    frontend::sasl_response(scram.message(), &mut bytes)?;
                }
                (b'R', Some(12)) => {
                    let scram = scram.as_mut().ok_or_else(|| other("SASL ends that has not begun"))?;
                    scram.finish(&body[4..])?;
                }
                (kind, code) => {
                    return Err(other(format!("authentication {kind} {code:?}, which is not supported")));
                }
            }
            self.write(&bytes).await?;
        }
    }

    async fn wait_until_ready(&mut self) -> io::Result<()> {
        loop {
            let message = self.message().await?;
            match message.kind() {
                b'K' => {
                    let number = |at: usize| message.body().get(at..at + 4)?.try_into().ok();
                    let numbers = number(0).zip(number(4));
                    let (process, secret) = numbers.ok_or_else(|| other("a key of another length"))?;
                    self.key.process = i32::from_be_bytes(process);
                    self.key.secret = i32::from_be_bytes(secret);
                }
                b'Z' => return Ok(()),
                b'E' => {
                    return Err(other(message.field(b'M').unwrap_or("the server refuses the connection")));
                }
                _ => {}
            }
        }
    }

    pub fn cancel_key(&self) -> CancelKey {
        self.key.clone()
    }

    /// Returns whether an idle connection can be used, as far as can be seen without asking. A server that says something unasked ends it, or has
    /// other settings from now on.
    pub fn is_open(&self) -> bool {
        let found = self.stream.socket().peek(&mut [MaybeUninit::uninit()]);
        found.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// # Errors
    /// The connection is lost.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() <= WRITTEN_MAX {
            return self.stream.write_all(bytes).await;
        }
        let mut written = 0;
        while written < bytes.len() {
            written += self.stream.write_or_read(&bytes[written..], &mut self.received).await?;
        }
        Ok(())
    }

    /// The next message. It waits for it.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn message(&mut self) -> io::Result<Message> {
        loop {
            if let Some(header) = self.received.first_chunk::<5>() {
                let length = length_of(header);
                if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
                    return Err(other("a message of the server with an impossible length"));
                }
                if self.received.len() > length {
                    let message = Message(self.received.split_to(length + 1).freeze());
                    self.note(&message);
                    return Ok(message);
                }
            }
            self.received.reserve(READ_BYTES);
            if self.stream.read(&mut self.received).await? == 0 {
                return Err(other(CLOSED));
            }
        }
    }

    fn note(&mut self, message: &Message) {
        if message.kind() != b'S' {
            return;
        }
        let mut parts = message.body().split(|byte| *byte == 0);
        let text = |part: Option<&[u8]>| part.map(|part| String::from_utf8_lossy(part).into_owned());
        if let (Some(name), Some(value)) = (text(parts.next()), text(parts.next())) {
            self.parameters.insert(name, value);
        }
    }

    /// Runs statements whose results do not matter.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn run(&mut self, text: &str) -> io::Result<Ran> {
        let mut bytes = BytesMut::new();
        frontend::query(text, &mut bytes)?;
        self.write(&bytes).await?;
        self.ran().await
    }

    /// The end of statements that were sent.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn ran(&mut self) -> io::Result<Ran> {
        let mut error = None;
        loop {
            let message = self.message().await?;
            match message.kind() {
                b'Z' => {
                    let status = message.body().first().copied().unwrap_or(b'I');
                    return Ok(Ran { error, status });
                }
                b'E' => error = error.or(Some(message)),
                _ => {}
            }
        }
    }

    /// Makes the session's settings those of the connection.
    ///
    /// # Errors
    /// The connection is lost. The inner one: a setting that the server refuses.
    pub async fn adopt(&mut self, settings: &Arc<Vec<String>>) -> io::Result<Result<(), Message>> {
        if self.settings == *settings {
            return Ok(Ok(()));
        }
        let mut text = "RESET ALL".to_owned();
        for setting in settings.iter() {
            text.push_str("; ");
            text.push_str(setting);
        }
        self.forget_settings();
        if let Some(error) = self.run(&text).await?.error {
            return Ok(Err(error));
        }
        self.settings = settings.clone();
        Ok(Ok(()))
    }

    /// Settings of the connection are not known any more.
    pub fn forget_settings(&mut self) {
        self.settings = Arc::new(vec!["unknown".to_owned()]);
    }

    /// Forgets prepared statements, if there are too many.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn bound_prepared(&mut self) -> io::Result<()> {
        if self.prepared.len() > PREPARED_MAX {
            self.run("DEALLOCATE ALL").await?;
            self.prepared.clear();
        }
        Ok(())
    }
}
