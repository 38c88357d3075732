//! A client's messages from their bytes: which type of message may come when, how long it may be, and what its body must hold.
//!
//! Pure: it reads no socket and knows no session. Whatever the bytes are, it gives a message or says in PostgreSQL's words why they
//! are none. It never panics, and never reads beyond the message whose length was told.

use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::copy::{CopyData, CopyDone, CopyFail};
use pgwire::messages::extendedquery::{Bind, Close, Describe, Execute, Flush, Parse, Sync};
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::{
    PasswordMessageFamily, SASLInitialResponse, SASLResponse, SecretKey, Startup,
};
use pgwire::messages::terminate::Terminate;
use weir_types::{SqlError, SqlState};

/// PostgreSQL's limits, each with the four bytes of the length itself.
const STARTUP_BYTES_MAX: usize = 10_000;
const SMALL_BYTES_MAX: usize = 10_000;
const PASSWORD_BYTES_MAX: usize = 65_535;
const LARGE_BYTES_MAX: usize = 0x3fff_fffe;

/// Codes in place of the version in a startup packet.
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;

const MAJOR_VERSION: u16 = 3;

/// Which messages may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Packets without a type byte.
    Startup,
    /// The first message of an authentication, which names its mechanism.
    SaslInitialResponse,
    SaslResponse,
    /// Any message of a session.
    Command,
    /// The data of a COPY.
    CopyIn,
}

/// One message, whose end is known and whose body is not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Zero for a startup packet.
    pub kind: u8,
    pub body: Bytes,
}

/// First message of a connection.
#[derive(Debug)]
pub enum Opening {
    SslRequest,
    GssEncRequest,
    Cancel(CancelRequest),
    Startup(Startup),
}

fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// Most bytes of a message of this type.
fn bytes_max(kind: u8, expected: Expected) -> Result<usize, SqlError> {
    match (expected, kind) {
        (Expected::Startup, _) => Ok(STARTUP_BYTES_MAX),
        (Expected::SaslInitialResponse | Expected::SaslResponse, b'p') => Ok(PASSWORD_BYTES_MAX),
        (Expected::SaslInitialResponse | Expected::SaslResponse, _) => {
            Err(violation(format!("expected SASL response, got message type {kind}")))
        }
        (Expected::CopyIn | Expected::Command, b'd') => Ok(LARGE_BYTES_MAX),
        (Expected::CopyIn | Expected::Command, b'c' | b'f' | b'H' | b'S' | b'X') => Ok(SMALL_BYTES_MAX),
        (Expected::CopyIn, _) => {
            Err(violation(format!("unexpected message type 0x{kind:02X} during COPY from stdin")))
        }
        (Expected::Command, b'Q' | b'F' | b'P' | b'B') => Ok(LARGE_BYTES_MAX),
        (Expected::Command, b'C' | b'D' | b'E') => Ok(SMALL_BYTES_MAX),
        (Expected::Command, _) => Err(violation(format!("invalid frontend message type {kind}"))),
    }
}

impl Frame {
    /// Takes the first complete message off the bytes.
    ///
    /// # Errors
    /// Its type or its length cannot be: where the next message begins is not known.
    pub fn cut(bytes: &mut BytesMut, expected: Expected) -> Result<Option<Frame>, SqlError> {
        let is_startup = expected == Expected::Startup;
        let type_bytes = usize::from(!is_startup);
        let Some(kind) = (if is_startup { Some(0) } else { bytes.first().copied() }) else { return Ok(None) };
        let length_max = bytes_max(kind, expected)?;
        let Some(length) = bytes.get(type_bytes..type_bytes + 4) else { return Ok(None) };
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let length_min = if is_startup { 8 } else { 4 };
        if !(length_min..=length_max).contains(&length) {
            return Err(violation(match is_startup {
                true => "invalid length of startup packet",
                false => "invalid message length",
            }));
        }
        if bytes.len() < type_bytes + length {
            return Ok(None);
        }
        let body = bytes.split_to(type_bytes + length).freeze().slice(type_bytes + 4..);
        Ok(Some(Frame { kind, body }))
    }

    /// Whether an error of this message makes the server pass over everything up to Sync.
    pub fn is_extended_query(&self) -> bool {
        matches!(self.kind, b'P' | b'B' | b'C' | b'D' | b'E' | b'H')
    }

    /// Reads the startup packet.
    ///
    /// # Errors
    /// It is none, or of a version that is not spoken.
    pub fn opening(self) -> Result<Opening, SqlError> {
        let mut body = Body(self.body);
        let code = body.int4()? as u32;
        match code {
            CANCEL_REQUEST => Ok(Opening::Cancel(body.cancel_request()?)),
            SSL_REQUEST => Ok(Opening::SslRequest),
            GSSENC_REQUEST => Ok(Opening::GssEncRequest),
            version => Ok(Opening::Startup(body.startup(version)?)),
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    /// The body is not what the type says. The next message can be read.
    pub fn message(self, expected: Expected) -> Result<Message, SqlError> {
        let mut body = Body(self.body);
        match self.kind {
            b'p' => Ok(Message::PasswordMessageFamily(body.password(expected)?)),
            b'Q' => {
                let text = body.string()?;
                body.end()?;
                Ok(Message::Query(Query::new(text)))
            }
            b'P' => Ok(Message::Parse(body.parse()?)),
            b'B' => Ok(Message::Bind(body.bind()?)),
            b'C' => {
                let (target, name) = body.target()?;
                Ok(Message::Close(Close::new(target, name)))
            }
            b'D' => {
                let (target, name) = body.target()?;
                Ok(Message::Describe(Describe::new(target, name)))
            }
            b'E' => {
                let (name, rows_max) = (body.name()?, body.int4()?);
                body.end()?;
                Ok(Message::Execute(Execute::new(name, rows_max)))
            }
            b'H' => {
                body.end_unless(expected)?;
                Ok(Message::Flush(Flush::new()))
            }
            b'S' => {
                body.end_unless(expected)?;
                Ok(Message::Sync(Sync::new()))
            }
            b'X' => Ok(Message::Terminate(Terminate::new())),
            b'd' => Ok(Message::CopyData(CopyData::new(body.0))),
            b'c' => Ok(Message::CopyDone(CopyDone::new())),
            b'f' => Ok(Message::CopyFail(CopyFail::new(body.string()?))),
            b'F' => {
                let message = "not supported: function calls by the fast path";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("call the function in a SELECT"))
            }
            kind => Err(violation(format!("invalid frontend message type {kind}"))),
        }
    }
}

/// Remaining bytes of a message.
struct Body(Bytes);

impl Body {
    fn bytes(&mut self, count: usize) -> Result<Bytes, SqlError> {
        match count <= self.0.len() {
            true => Ok(self.0.split_to(count)),
            false => Err(violation("insufficient data left in message")),
        }
    }

    fn byte(&mut self) -> Result<u8, SqlError> {
        self.0.try_get_u8().map_err(|_| violation("no data left in message"))
    }

    fn int2(&mut self) -> Result<u16, SqlError> {
        Ok(self.bytes(2)?.get_u16())
    }

    fn int4(&mut self) -> Result<i32, SqlError> {
        Ok(self.bytes(4)?.get_i32())
    }

    fn string(&mut self) -> Result<String, SqlError> {
        let end = memchr::memchr(0, &self.0).ok_or_else(|| violation("invalid string in message"))?;
        let string = self.0.split_to(end);
        self.0.advance(1);
        match std::str::from_utf8(&string) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(not_utf8(&string[error.valid_up_to()..])),
        }
    }

    /// Name of a statement or a portal; empty for the unnamed one.
    fn name(&mut self) -> Result<Option<String>, SqlError> {
        self.string().map(|name| Some(name).filter(|name| !name.is_empty()))
    }

    fn end(&self) -> Result<(), SqlError> {
        if self.0.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }

    /// In a COPY, Flush and Sync are passed over with whatever is in them.
    fn end_unless(&self, expected: Expected) -> Result<(), SqlError> {
        if expected == Expected::CopyIn { Ok(()) } else { self.end() }
    }

    /// As many as a count in front of them says.
    fn counted<T>(&mut self, of: impl Fn(&mut Body) -> Result<T, SqlError>) -> Result<Vec<T>, SqlError> {
        let count = self.int2()?;
        (0..count).map(|_| of(self)).collect()
    }

    fn parse(&mut self) -> Result<Parse, SqlError> {
        let (name, text) = (self.name()?, self.string()?);
        let types = self.counted(|body| body.int4().map(|number| number as u32))?;
        self.end()?;
        Ok(Parse::new(name, text, types))
    }

    fn bind(&mut self) -> Result<Bind, SqlError> {
        let (portal, statement) = (self.name()?, self.name()?);
        let format = |body: &mut Body| body.int2().map(|format| format as i16);
        let formats = self.counted(format)?;
        let parameters = self.counted(|body| match body.int4()? {
            -1 => Ok(None),
            // A negative length is longer than any message.
            length => body.bytes(usize::try_from(length).unwrap_or(usize::MAX)).map(Some),
        })?;
        let result_formats = self.counted(format)?;
        self.end()?;
        Ok(Bind::new(portal, statement, formats, parameters, result_formats))
    }

    /// Target of Close and Describe.
    fn target(&mut self) -> Result<(u8, Option<String>), SqlError> {
        let (kind, name) = (self.byte()?, self.name()?);
        self.end()?;
        Ok((kind, name))
    }

    fn password(&mut self, expected: Expected) -> Result<PasswordMessageFamily, SqlError> {
        if expected != Expected::SaslInitialResponse {
            let response = SASLResponse::new(self.0.split_off(0));
            return Ok(PasswordMessageFamily::SASLResponse(response));
        }
        let mechanism = self.string()?;
        let data = match self.int4()? {
            -1 => None,
            length => Some(self.bytes(usize::try_from(length).unwrap_or(usize::MAX))?),
        };
        self.end()?;
        Ok(PasswordMessageFamily::SASLInitialResponse(SASLInitialResponse::new(mechanism, data)))
    }

    fn cancel_request(&mut self) -> Result<CancelRequest, SqlError> {
        let process = self.int4()?;
        match self.0.len() {
            4..=256 => Ok(CancelRequest::new(process, SecretKey::Bytes(self.0.split_off(0)))),
            _ => Err(violation("invalid length of cancel request packet")),
        }
    }

    fn startup(&mut self, version: u32) -> Result<Startup, SqlError> {
        let (major, minor) = ((version >> 16) as u16, version as u16);
        if major != MAJOR_VERSION {
            let message =
                format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let mut startup = Startup::new();
        (startup.protocol_number_major, startup.protocol_number_minor) = (major, minor);
        let layout = || violation("invalid startup packet layout: expected terminator as last byte");
        while self.0.first().ok_or_else(layout)? != &0 {
            let (name, value) = (self.parameter(layout)?, self.parameter(layout)?);
            startup.parameters.insert(name, value);
        }
        self.0.advance(1);
        if self.0.is_empty() { Ok(startup) } else { Err(layout()) }
    }

    /// A name or a value of a startup packet.
    fn parameter(&mut self, layout: impl Fn() -> SqlError) -> Result<String, SqlError> {
        if memchr::memchr(0, &self.0).is_none() {
            return Err(layout());
        }
        self.string()
    }
}

/// `wrong` begins with a character that is none.
fn not_utf8(wrong: &[u8]) -> SqlError {
    let length = match wrong.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = wrong.iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

#[cfg(test)]
mod tests;
