//! The call of PostgreSQL's grammar, which is C: a text goes in, an encoded parse tree comes out and is decoded.
//!
//! Two differences to `pg_query::parse`: the position of a syntax error is kept; and the depth of the tree is bounded by the stack, where
//! the library decodes a hundred levels at most, which are forty-six terms of a sum. Later walks and drops of the tree use a small part
//! of the decoder's stack per level, so they need no check of their own.

use std::ffi::{CStr, CString, c_char, c_int};

use bytes::Buf;
use pg_query::ParserOptions;
use pg_query::protobuf::{ParseResult, RawStmt};
use prost::Message;

/// Why a text is no parse tree.
pub(super) enum Failure {
    /// The grammar stopped at that byte, where it is known.
    Syntax {
        message: String,
        at: Option<usize>,
    },
    TooDeep,
}

/// Enough for some thousand levels.
const DECODING_STACK_BYTES: usize = 64 << 20;

/// Errors of the parser for texts that nest too deeply.
const TOO_DEEP: [&str; 2] =
    ["stack depth limit exceeded", "parse tree is nested too deeply to serialize to protobuf"];

#[repr(C)]
struct CError {
    message: *mut c_char,
    function: *mut c_char,
    file: *mut c_char,
    line: c_int,
    cursor: c_int,
    context: *mut c_char,
}

#[repr(C)]
struct CParseResult {
    tree_bytes: usize,
    tree: *mut c_char,
    stderr_buffer: *mut c_char,
    error: *mut CError,
}

// The crate's bindings are private, so the two functions are declared here once more, as `pg_query.h` of the pinned version 18.1 has them.
#[allow(unsafe_code)]
unsafe extern "C" {
    fn pg_query_parse_protobuf_opts(input: *const c_char, options: c_int) -> CParseResult;
    fn pg_query_free_protobuf_parse_result(result: CParseResult);
}

/// The statements of a text.
pub(super) fn parse(text: &str, options: ParserOptions) -> Result<Vec<RawStmt>, Failure> {
    let input =
        CString::new(text).map_err(|error| Failure::Syntax { message: error.to_string(), at: None })?;
    let result = Parsed::of(&input, options);
    match result.error() {
        Some((message, _)) if TOO_DEEP.contains(&message.as_str()) => Err(Failure::TooDeep),
        // The cursor counts characters from 1; 0 is unknown.
        Some((message, cursor)) => {
            let characters = usize::try_from(cursor).ok().and_then(|cursor| cursor.checked_sub(1));
            let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
            Err(Failure::Syntax { message, at: characters.map(byte) })
        }
        None => decode(result.tree()),
    }
}

/// Decoding takes up to 30 kB for a level, so a tree that is deep gets a stack of its own.
fn decode(tree: &[u8]) -> Result<Vec<RawStmt>, Failure> {
    let left = stacker::remaining_stack().unwrap_or(usize::MAX);
    match decode_until(tree, left / 2) {
        Err(Failure::TooDeep) => {
            stacker::grow(DECODING_STACK_BYTES, || decode_until(tree, DECODING_STACK_BYTES / 8))
        }
        decoded => decoded,
    }
}

/// Gives up where no more of the stack is left than this.
fn decode_until(tree: &[u8], stack_bytes_min: usize) -> Result<Vec<RawStmt>, Failure> {
    let mut bytes = Shallow { bytes: tree, stack_bytes_min, is_too_deep: false };
    match ParseResult::decode(&mut bytes) {
        Ok(parsed) => Ok(parsed.stmts),
        Err(_) if bytes.is_too_deep => Err(Failure::TooDeep),
        Err(error) => Err(Failure::Syntax { message: error.to_string(), at: None }),
    }
}

/// The grammar's answer, which is freed once.
struct Parsed(CParseResult);

#[allow(unsafe_code)]
impl Parsed {
    fn of(input: &CStr, options: ParserOptions) -> Parsed {
        // SAFETY: `input` is NUL-terminated and outlives the call, which retains no pointer to it.
        Parsed(unsafe { pg_query_parse_protobuf_opts(input.as_ptr(), options.bits()) })
    }

    fn error(&self) -> Option<(String, c_int)> {
        // SAFETY: the pointer is null or to an error of the library, whose message is null or a NUL-terminated string; both live until
        // the result is freed.
        unsafe {
            let error = self.0.error.as_ref()?;
            let message = match error.message.is_null() {
                true => String::new(),
                false => CStr::from_ptr(error.message).to_string_lossy().into_owned(),
            };
            Some((message, error.cursor))
        }
    }

    fn tree(&self) -> &[u8] {
        match self.0.tree.is_null() {
            true => &[],
            // SAFETY: the library has written that many bytes there, which live until the result is freed.
            false => unsafe { std::slice::from_raw_parts(self.0.tree.cast(), self.0.tree_bytes) },
        }
    }
}

#[allow(unsafe_code)]
impl Drop for Parsed {
    fn drop(&mut self) {
        let none = CParseResult {
            tree_bytes: 0,
            tree: std::ptr::null_mut(),
            stderr_buffer: std::ptr::null_mut(),
            error: std::ptr::null_mut(),
        };
        // SAFETY: the result came from the library, and no reference to it is left.
        unsafe { pg_query_free_protobuf_parse_result(std::mem::replace(&mut self.0, none)) }
    }
}

/// A byte source that ends when its reader has used too much of the stack, so that reading fails.
struct Shallow<'b> {
    bytes: &'b [u8],
    stack_bytes_min: usize,
    is_too_deep: bool,
}

impl Buf for Shallow<'_> {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes
    }

    fn advance(&mut self, count: usize) {
        if stacker::remaining_stack().is_some_and(|left| left < self.stack_bytes_min) {
            self.is_too_deep = true;
            self.bytes = &[];
        } else {
            self.bytes = self.bytes.get(count..).unwrap_or_default();
        }
    }
}
