//! Messages of the server that the front itself makes, and a reader of those that it passes on.

use bytes::{BufMut, BytesMut};

/// An error that the front reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontError {
    pub sqlstate: String,
    pub message: String,
    pub hint: Option<String>,
}

impl FrontError {
    pub fn new(sqlstate: &str, message: impl Into<String>) -> FrontError {
        FrontError { sqlstate: sqlstate.to_owned(), message: message.into(), hint: None }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> FrontError {
        FrontError { hint: Some(hint.into()), ..self }
    }
}

fn message(kind: u8, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let at = out.len();
    out.put_u32(0);
    write(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

pub fn text(out: &mut BytesMut, text: &str) {
    // A zero would end it early.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.put_u8(0);
}

pub fn error(out: &mut BytesMut, severity: &str, error: &FrontError) {
    message(b'E', out, |out| {
        let hint = error.hint.as_deref();
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(error.sqlstate.as_str())),
            (b'M', Some(error.message.as_str())),
            (b'H', hint),
        ];
        for (letter, value) in fields {
            if let Some(value) = value {
                out.put_u8(letter);
                text(out, value);
            }
        }
        out.put_u8(0);
    });
}

pub fn complete(out: &mut BytesMut, tag: &str) {
    message(b'C', out, |out| text(out, tag));
}

pub fn ready(out: &mut BytesMut, status: u8) {
    message(b'Z', out, |out| out.put_u8(status));
}

/// The client is to send rows.
pub fn copy_in(out: &mut BytesMut, columns: usize, is_binary: bool) {
    message(b'G', out, |out| {
        out.put_u8(u8::from(is_binary));
        out.put_u16(columns as u16);
        (0..columns).for_each(|_| out.put_u16(u16::from(is_binary)));
    });
}

/// A message without a body.
pub fn bare(out: &mut BytesMut, kind: u8) {
    message(kind, out, |_| ());
}

/// The description of a statement without parameters.
pub fn no_parameters(out: &mut BytesMut) {
    message(b't', out, |out| out.put_u16(0));
}

/// Rows of text.
pub fn table(out: &mut BytesMut, columns: &[&str], rows: &[Vec<String>]) {
    const TEXT: u32 = 25;
    message(b'T', out, |out| {
        out.put_u16(columns.len() as u16);
        for column in columns {
            text(out, column);
            out.put_u32(0);
            out.put_u16(0);
            out.put_u32(TEXT);
            out.put_i16(-1);
            out.put_i32(-1);
            out.put_u16(0);
        }
    });
    for row in rows {
        message(b'D', out, |out| {
            out.put_u16(row.len() as u16);
            for value in row {
                out.put_u32(value.len() as u32);
                out.extend_from_slice(value.as_bytes());
            }
        });
    }
}

/// A message of a client.
pub fn of_client(kind: u8, write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    message(kind, &mut out, write);
    out.to_vec()
}

/// The first message of these bytes with its header, and its kind.
pub fn first(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let header = bytes.first_chunk::<5>()?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    bytes.get(..length + 1).map(|message| (header[0], message))
}
