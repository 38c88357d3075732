//! Functions on bytea, and encodings.

use md5::{Digest, Md5};

use super::arguments::{bytea, int, text};
use super::strings::substring_range;
use super::{Arg, CallTypes, Function};
use crate::error::{SqlError, SqlState};
use crate::text::{decode_hex, parse_bytea};
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Longest line of base64 output.
const LINE_MAX: usize = 76;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("length", &[Bytea], Int4, |a, _| Ok(Value::Int(bytea(&a[0])?.len() as i64))),
    Function::new("octet_length", &[Bytea], Int4, |a, _| Ok(Value::Int(bytea(&a[0])?.len() as i64))),
    Function::new("substring", &[Bytea, Int4, Int4], Bytea, substring).optional(1),
    Function::new("substr", &[Bytea, Int4, Int4], Bytea, substring).optional(1),
    Function::new("md5", &[Text], Text, |a, _| Ok(Value::text(hex(&Md5::digest(text(&a[0])?))))),
    Function::new("md5", &[Bytea], Text, |a, _| Ok(Value::text(hex(&Md5::digest(bytea(&a[0])?))))),
    Function::new("encode", &[Bytea, Text], Text, encode),
    Function::new("decode", &[Text, Text], Bytea, decode),
    Function::new("get_byte", &[Bytea, Int4], Int4, get_byte),
    Function::new("convert_to", &[Text, Text], Bytea, |a, _| {
        only_utf8(text(&a[1])?, "destination")?;
        Ok(Value::bytea(text(&a[0])?.as_bytes().to_vec()))
    }),
    Function::new("convert_from", &[Bytea, Text], Text, |a, _| {
        only_utf8(text(&a[1])?, "source")?;
        match std::str::from_utf8(bytea(&a[0])?) {
            Ok(text) => Ok(Value::text(text)),
            Err(error) => {
                let bytes = &bytea(&a[0])?[error.valid_up_to()..];
                Err(SqlError::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    format!("invalid byte sequence for encoding \"UTF8\": 0x{:02x}", bytes[0]),
                ))
            }
        }
    }),
];

fn only_utf8(name: &str, which: &str) -> Result<(), SqlError> {
    if ["utf8", "utf-8", "unicode"].contains(&name.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid {which} encoding name \"{name}\"")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn substring(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let bytes = bytea(&args[0])?;
    let count = args.get(2).map(int).transpose()?;
    Ok(Value::bytea(bytes[substring_range(int(&args[1])?, count, bytes.len())?].to_vec()))
}

fn get_byte(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (bytes, at) = (bytea(&args[0])?, int(&args[1])?);
    match usize::try_from(at).ok().and_then(|at| bytes.get(at)) {
        Some(byte) => Ok(Value::Int(i64::from(*byte))),
        None => Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            format!("index {at} out of valid range, 0..{}", bytes.len() as i64 - 1),
        )),
    }
}

fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{name}\""))
}

fn encode(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (bytes, encoding) = (bytea(&args[0])?, text(&args[1])?);
    Ok(Value::text(match encoding.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes),
        "base64" => encode_base64(bytes),
        "escape" => {
            let mut out = String::new();
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 0x80.. => out.push_str(&format!("\\{byte:03o}")),
                    byte => out.push(char::from(*byte)),
                }
            }
            out
        }
        _ => return Err(unrecognized(encoding)),
    }))
}

fn decode(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (text, encoding) = (text(&args[0])?, text(&args[1])?);
    Ok(Value::bytea(match encoding.to_ascii_lowercase().as_str() {
        "hex" => decode_hex(text)?,
        "base64" => decode_base64(text)?,
        "escape" => parse_bytea(text)?,
        _ => return Err(unrecognized(encoding)),
    }))
}

fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut line = 0;
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at <= group.len() {
                out.push(char::from(BASE64[(bits >> (18 - 6 * at)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
        line += 4;
        if line >= LINE_MAX {
            out.push('\n');
            line = 0;
        }
    }
    out
}

fn decode_base64(text: &str) -> Result<Vec<u8>, SqlError> {
    let (mut out, mut bits, mut count, mut padding) = (Vec::new(), 0u32, 0, 0);
    for c in text.chars().filter(|c| !c.is_ascii_whitespace()) {
        if c == '=' {
            padding += 1;
            continue;
        }
        let digit = BASE64.iter().position(|known| char::from(*known) == c);
        let Some(digit) = digit.filter(|_| padding == 0) else {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid symbol \"{c}\" found while decoding base64 sequence"),
            ));
        };
        bits = bits << 6 | digit as u32;
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    if (count + padding) % 4 != 0 || count == 1 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    match count {
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
    Ok(out)
}
