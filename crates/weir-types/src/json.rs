//! `jsonb`: reading, printing and ordering, as PostgreSQL does.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::arrays::COMPARED_PER_CHECK;
use crate::error::{SqlError, SqlState};
use crate::interrupt::{check, check_work};
use crate::value::Json;

/// Deeper nesting is refused, so that neither reading nor printing exhausts the stack.
const DEPTH_MAX: usize = 512;

/// PostgreSQL orders keys by length, then bytes.
pub fn compare_keys(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.as_bytes().cmp(right.as_bytes()))
}

/// An object of these members: of equal keys the last wins.
pub fn object(mut members: Vec<(String, Json)>) -> Json {
    members.sort_by(|left, right| compare_keys(&left.0, &right.0));
    let mut unique: Vec<(String, Json)> = Vec::with_capacity(members.len());
    for member in members {
        match unique.last_mut() {
            Some(last) if last.0 == member.0 => *last = member,
            _ => unique.push(member),
        }
    }
    Json::Object(unique)
}

impl Json {
    /// The member of an object by its key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        let at = members.binary_search_by(|member| compare_keys(&member.0, key)).ok()?;
        members.get(at).map(|member| &member.1)
    }

    /// The same value with numbers without trailing zeros: equal values have equal texts.
    pub fn with_plain_numbers(&self) -> Json {
        match self {
            Json::Number(number) => Json::Number(number.trim_scale()),
            Json::Array(elements) => Json::Array(elements.iter().map(Json::with_plain_numbers).collect()),
            Json::Object(members) => {
                let plain = |(key, value): &(String, Json)| (key.clone(), value.with_plain_numbers());
                Json::Object(members.iter().map(plain).collect())
            }
            other => other.clone(),
        }
    }

    /// An element of an array; negative indexes count from the end.
    pub fn at(&self, index: i64) -> Option<&Json> {
        let Json::Array(elements) = self else { return None };
        elements.get(position(index, elements.len())?)
    }

    /// Result of `->>`: strings without quotes, JSON null as SQL's NULL (`None`).
    pub fn to_bare_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// `@>`.
    ///
    /// # Errors
    /// The statement is to end.
    pub fn contains(&self, other: &Json) -> Result<bool, SqlError> {
        match (self, other) {
            (Json::Array(elements), scalar) if !matches!(scalar, Json::Array(_) | Json::Object(_)) => {
                Ok(elements.contains(scalar))
            }
            _ => contains_nested(self, other),
        }
    }

    /// `?`: a key of an object, a string in an array, or the string itself.
    pub fn has_key(&self, key: &str) -> bool {
        match self {
            Json::Object(_) => self.get(key).is_some(),
            Json::Array(elements) => {
                elements.iter().any(|element| matches!(element, Json::String(text) if text == key))
            }
            Json::String(text) => text == key,
            _ => false,
        }
    }
}

fn contains_nested(left: &Json, right: &Json) -> Result<bool, SqlError> {
    match (left, right) {
        (Json::Object(_), Json::Object(members)) => {
            for (key, value) in members {
                match left.get(key) {
                    Some(found) if contains_nested(found, value)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Json::Array(left), Json::Array(right)) => {
            for value in right {
                if !any_contains(left, value)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Object(_) | Json::Array(_), _) | (_, Json::Object(_) | Json::Array(_)) => Ok(false),
        (left, right) => Ok(left == right),
    }
}

fn any_contains(elements: &[Json], value: &Json) -> Result<bool, SqlError> {
    check_work(elements.len() / COMPARED_PER_CHECK)?;
    for found in elements {
        if contains_nested(found, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The place that a possibly negative index names.
pub fn position(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

fn rank(json: &Json) -> u8 {
    match json {
        Json::Null => 0,
        Json::String(_) => 1,
        Json::Number(_) => 2,
        Json::Bool(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    }
}

/// PostgreSQL's order: object > array > boolean > number > string > null; shorter containers first, but
/// an empty top-level array is less than everything.
pub fn compare(left: &Json, right: &Json) -> Ordering {
    let empty = |json: &Json| matches!(json, Json::Array(elements) if elements.is_empty());
    match (empty(left), empty(right)) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Less,
        (false, true) => return Ordering::Greater,
        (false, false) => {}
    }
    compare_nested(left, right)
}

fn compare_nested(left: &Json, right: &Json) -> Ordering {
    match (left, right) {
        (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
        (Json::Number(left), Json::Number(right)) => left.cmp(right),
        (Json::String(left), Json::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Json::Array(left), Json::Array(right)) => left.len().cmp(&right.len()).then_with(|| {
            let mut orders = left.iter().zip(right).map(|(left, right)| compare_nested(left, right));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }),
        (Json::Object(left), Json::Object(right)) => left.len().cmp(&right.len()).then_with(|| {
            let mut orders = left.iter().zip(right).map(|(left, right)| {
                left.0.as_bytes().cmp(right.0.as_bytes()).then_with(|| compare_nested(&left.1, &right.1))
            });
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }),
        _ => rank(left).cmp(&rank(right)),
    }
}

pub fn hash<H: Hasher>(json: &Json, state: &mut H) {
    state.write_u8(rank(json));
    match json {
        Json::Null => {}
        Json::Bool(bool) => bool.hash(state),
        Json::Number(number) => number.hash(state),
        Json::String(text) => text.hash(state),
        Json::Array(elements) => elements.iter().for_each(|element| hash(element, state)),
        Json::Object(members) => members.iter().for_each(|(key, value)| {
            key.hash(state);
            hash(value, state);
        }),
    }
}

fn print_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn print(json: &Json, out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(text) => print_string(text, out),
        Json::Array(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print(element, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print_string(key, out);
                out.push_str(": ");
                print(value, out);
            }
            out.push('}');
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        print(self, &mut out);
        f.write_str(&out)
    }
}

/// Indented by four spaces, as `jsonb_pretty` does.
pub fn pretty(json: &Json) -> String {
    fn write(json: &Json, depth: usize, out: &mut String) {
        let (open, close, len) = match json {
            Json::Array(elements) => ('[', ']', elements.len()),
            Json::Object(members) => ('{', '}', members.len()),
            _ => return print(json, out),
        };
        out.push(open);
        for i in 0..len {
            out.push_str(if i > 0 { ",\n" } else { "\n" });
            out.push_str(&"    ".repeat(depth + 1));
            match json {
                Json::Array(elements) => write(&elements[i], depth + 1, out),
                Json::Object(members) => {
                    print_string(&members[i].0, out);
                    out.push_str(": ");
                    write(&members[i].1, depth + 1, out);
                }
                _ => {}
            }
        }
        out.push('\n');
        out.push_str(&"    ".repeat(depth));
        out.push(close);
    }
    let mut out = String::new();
    write(json, 0, &mut out);
    out
}

/// Reads JSON text (22P02 with PostgreSQL's detail).
pub fn parse(text: &str) -> Result<Json, SqlError> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.unexpected("end of input"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn error(&self, detail: String) -> SqlError {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .with_detail(detail)
    }

    /// The token at this place is not what was expected.
    fn unexpected(&self, expected: &str) -> SqlError {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return self.error("The input string ended unexpectedly.".to_owned());
        }
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '.'));
        let end = match word.unwrap_or(rest.len()) {
            0 => rest.chars().next().map_or(0, char::len_utf8),
            end => end,
        };
        let token = &rest[..end];
        let is_word = token.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if is_word && !["true", "false", "null"].contains(&token) || expected == "token" {
            return self.error(format!("Token \"{token}\" is invalid."));
        }
        self.error(format!("Expected {expected}, but found \"{token}\"."))
    }

    fn value(&mut self, depth: usize) -> Result<Json, SqlError> {
        if depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_hint(format!("JSON may be nested {DEPTH_MAX} levels deep.")));
        }
        check()?;
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, value) in
                    [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)]
                {
                    let Some(after) = self.text[self.at..].strip_prefix(word) else { continue };
                    if !after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.unexpected("JSON value"))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, SqlError> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected(if members.is_empty() { "string or \"}\"" } else { "string" }));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            members.push((key, self.value(depth + 1)?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(object(members));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, SqlError> {
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(elements));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn number(&mut self) -> Result<Json, SqlError> {
        let start = self.at;
        let mut end = start;
        let bytes = self.text.as_bytes();
        while bytes
            .get(end)
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-' | b'_'))
        {
            end += 1;
        }
        let token = &self.text[start..end];
        if !is_json_number(token) {
            return Err(self.unexpected("token"));
        }
        self.at = end;
        Ok(Json::Number(token.parse()?))
    }

    fn string(&mut self) -> Result<String, SqlError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(c) = rest.chars().next() else {
                return Err(self.error(format!("Token \"{}\" is invalid.", rest)));
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(out),
                '\\' => self.escape(&mut out)?,
                c if c < ' ' => {
                    return Err(
                        self.error(format!("Character with value 0x{:02x} must be escaped.", u32::from(c)))
                    );
                }
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), SqlError> {
        let Some(c) = self.text[self.at..].chars().next() else {
            return Err(self.error("The input string ended unexpectedly.".to_owned()));
        };
        self.at += c.len_utf8();
        out.push(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(out),
            c => return Err(self.error(format!("Escape sequence \"\\{c}\" is invalid."))),
        });
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, SqlError> {
        let digits = self.text.get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or_else(|| self.error("\"\\u\" must be followed by four hexadecimal digits.".to_owned()))
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<(), SqlError> {
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) {
            if !self.text[self.at..].starts_with("\\u") {
                return Err(self.error("Unicode low surrogate must follow a high surrogate.".to_owned()));
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.error("Unicode low surrogate must follow a high surrogate.".to_owned()));
            }
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        match char::from_u32(code) {
            Some('\0') => Err(SqlError::new(SqlState(*b"22P05"), "unsupported Unicode escape sequence")
                .with_detail("\\u0000 cannot be converted to text.")),
            Some(c) => {
                out.push(c);
                Ok(())
            }
            None => Err(self.error("Unicode low surrogate must follow a high surrogate.".to_owned())),
        }
    }
}

/// JSON's grammar of numbers, stricter than numeric's.
fn is_json_number(token: &str) -> bool {
    let rest = token.strip_prefix('-').unwrap_or(token);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (mantissa, None),
    };
    digits(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}
