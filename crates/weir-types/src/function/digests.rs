//! Digests, and what PostgreSQL's extensions pgcrypto and uuid-ossp make of them.

use std::sync::Arc;

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::arguments::{bytea, text};
use super::{Arg, CallTypes, Function};
use crate::error::{SqlError, SqlState};
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("sha224", &[Bytea], Bytea, |a, _| sha(Algorithm::Sha224, a)),
    Function::new("sha256", &[Bytea], Bytea, |a, _| sha(Algorithm::Sha256, a)),
    Function::new("sha384", &[Bytea], Bytea, |a, _| sha(Algorithm::Sha384, a)),
    Function::new("sha512", &[Bytea], Bytea, |a, _| sha(Algorithm::Sha512, a)),
    Function::new("digest", &[Text, Text], Bytea, digest),
    Function::new("digest", &[Bytea, Text], Bytea, digest),
    Function::new("hmac", &[Text, Text, Text], Bytea, hmac),
    Function::new("hmac", &[Bytea, Bytea, Text], Bytea, hmac),
    Function::new("uuid_generate_v3", &[Uuid, Text], Uuid, |a, _| named_uuid(Algorithm::Md5, 3, a)),
    Function::new("uuid_generate_v5", &[Uuid, Text], Uuid, |a, _| named_uuid(Algorithm::Sha1, 5, a)),
    Function::new("uuid_nil", &[], Uuid, |_, _| Ok(Value::Uuid(Arc::new([0; 16])))),
    Function::new("uuid_ns_dns", &[], Uuid, |_, _| Ok(name_space(0x10))),
    Function::new("uuid_ns_url", &[], Uuid, |_, _| Ok(name_space(0x11))),
    Function::new("uuid_ns_oid", &[], Uuid, |_, _| Ok(name_space(0x12))),
    Function::new("uuid_ns_x500", &[], Uuid, |_, _| Ok(name_space(0x14))),
];

#[derive(Clone, Copy)]
enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    /// By the names that pgcrypto knows without OpenSSL's own.
    fn named(name: &str) -> Result<Algorithm, SqlError> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "md5" => Algorithm::Md5,
            "sha1" => Algorithm::Sha1,
            "sha224" => Algorithm::Sha224,
            "sha256" => Algorithm::Sha256,
            "sha384" => Algorithm::Sha384,
            "sha512" => Algorithm::Sha512,
            _ => {
                let message = format!("Cannot use \"{name}\": No such hash algorithm");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        })
    }

    fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Algorithm::Md5 => Md5::digest(bytes).to_vec(),
            Algorithm::Sha1 => <Sha1 as sha1::Digest>::digest(bytes).to_vec(),
            Algorithm::Sha224 => Sha224::digest(bytes).to_vec(),
            Algorithm::Sha256 => Sha256::digest(bytes).to_vec(),
            Algorithm::Sha384 => Sha384::digest(bytes).to_vec(),
            Algorithm::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// The bytes that it takes at once.
    fn block(self) -> usize {
        match self {
            Algorithm::Sha384 | Algorithm::Sha512 => 128,
            _ => 64,
        }
    }
}

fn bytes_of(value: &Value) -> Result<&[u8], SqlError> {
    match value {
        Value::Text(text) => Ok(text.as_bytes()),
        other => bytea(other),
    }
}

fn sha(algorithm: Algorithm, args: &[Value]) -> Evaluated {
    Ok(Value::bytea(algorithm.of(bytea(&args[0])?)))
}

fn digest(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    Ok(Value::bytea(Algorithm::named(text(&args[1])?)?.of(bytes_of(&args[0])?)))
}

/// RFC 2104.
fn hmac(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (data, key) = (bytes_of(&args[0])?, bytes_of(&args[1])?);
    let algorithm = Algorithm::named(text(&args[2])?)?;
    let mut key = if key.len() > algorithm.block() { algorithm.of(key) } else { key.to_vec() };
    key.resize(algorithm.block(), 0);
    let padded = |pad: u8| key.iter().map(move |byte| byte ^ pad);
    let inner: Vec<u8> = padded(0x36).chain(data.iter().copied()).collect();
    let outer: Vec<u8> = padded(0x5c).chain(algorithm.of(&inner)).collect();
    Ok(Value::bytea(algorithm.of(&outer)))
}

/// RFC 4122, appendix C: they differ in one byte.
fn name_space(which: u8) -> Value {
    Value::Uuid(Arc::new([
        0x6b, 0xa7, 0xb8, which, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0, 0xc0, 0x4f, 0xd4, 0x30, 0xc8,
    ]))
}

/// RFC 4122, section 4.3.
fn named_uuid(algorithm: Algorithm, version: u8, args: &[Value]) -> Evaluated {
    let Value::Uuid(space) = &args[0] else {
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "a namespace is a uuid"));
    };
    let named: Vec<u8> = space.iter().copied().chain(text(&args[1])?.bytes()).collect();
    let digest = algorithm.of(&named);
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&digest[..16]);
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(Value::Uuid(Arc::new(uuid)))
}
