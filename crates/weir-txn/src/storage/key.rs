//! Memcomparable keys: comparing the bytes compares the values.
//!
//! A key is the concatenation of its columns' encodings, so a prefix of the columns is a prefix of the
//! bytes. Text is compared by code point (PostgreSQL's "C" collation).

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_types::value::Json;
use weir_types::{SqlType, Value};

const INLINE: usize = 32;

/// A key under construction or in flight; most keys need no heap.
#[derive(Clone, Default)]
pub struct KeyBytes {
    length: usize,
    /// Zero from the length on.
    inline: [u8; INLINE],
    /// The whole key, once it is longer than `inline`.
    heap: Vec<u8>,
}

impl KeyBytes {
    #[inline]
    pub fn new() -> KeyBytes {
        KeyBytes { length: 0, inline: [0; INLINE], heap: Vec::new() }
    }

    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.push_array([byte]);
    }

    /// Bytes whose number is known when this is compiled: a plain store.
    #[inline]
    pub fn push_array<const N: usize>(&mut self, bytes: [u8; N]) {
        let end = self.length + N;
        if end <= INLINE {
            self.inline[self.length..end].copy_from_slice(&bytes);
            self.length = end;
        } else {
            self.spill(&bytes);
        }
    }

    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if end <= INLINE {
            self.inline[self.length..end].copy_from_slice(bytes);
            self.length = end;
        } else {
            self.spill(bytes);
        }
    }

    fn spill(&mut self, bytes: &[u8]) {
        if self.heap.is_empty() {
            self.heap.extend_from_slice(&self.inline[..self.length]);
        }
        self.heap.extend_from_slice(bytes);
        self.length = self.heap.len();
    }

    /// The first bytes up to the end, then zeros.
    pub fn truncate(&mut self, length: usize) {
        if length >= self.length {
            return;
        }
        if self.heap.is_empty() {
            self.inline[length..].fill(0);
        } else if length > INLINE {
            self.heap.truncate(length);
        } else {
            self.inline = [0; INLINE];
            self.inline[..length].copy_from_slice(&self.heap[..length]);
            self.heap = Vec::new();
        }
        self.length = length;
    }

    pub fn pop(&mut self) {
        self.truncate(self.length.saturating_sub(1));
    }

    /// The first `N` bytes, filled up with zeros.
    #[inline]
    pub fn first<const N: usize>(&self) -> [u8; N] {
        const { assert!(N <= INLINE) };
        let mut bytes = [0; N];
        match self.heap.is_empty() {
            true => bytes.copy_from_slice(&self.inline[..N]),
            false => bytes.copy_from_slice(&self.heap[..N]),
        }
        bytes
    }
}

impl Deref for KeyBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.heap.is_empty() { &self.inline[..self.length] } else { &self.heap }
    }
}

impl DerefMut for KeyBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.heap.is_empty() { &mut self.inline[..self.length] } else { &mut self.heap }
    }
}

impl Serialize for KeyBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for KeyBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<KeyBytes, D::Error> {
        Vec::<u8>::deserialize(from).map(|bytes| KeyBytes::from(&bytes[..]))
    }
}

impl PartialEq for KeyBytes {
    fn eq(&self, other: &KeyBytes) -> bool {
        **self == **other
    }
}

impl Eq for KeyBytes {}

impl PartialOrd for KeyBytes {
    fn partial_cmp(&self, other: &KeyBytes) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBytes {
    fn cmp(&self, other: &KeyBytes) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for KeyBytes {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl std::fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl From<&[u8]> for KeyBytes {
    fn from(bytes: &[u8]) -> KeyBytes {
        let mut key = KeyBytes::new();
        key.extend_from_slice(bytes);
        key
    }
}

/// An end of a range: just before, or just after, every key that starts with `bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Boundary {
    pub bytes: KeyBytes,
    pub after: bool,
}

/// Empty bytes, `after: false` below and `after: true` above, is everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    pub lower: Boundary,
    pub upper: Boundary,
}

impl KeyRange {
    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: KeyBytes) -> KeyRange {
        KeyRange {
            lower: Boundary { bytes: prefix.clone(), after: false },
            upper: Boundary { bytes: prefix, after: true },
        }
    }

    /// The key lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        let (lower, upper) = (&self.lower.bytes[..], &self.upper.bytes[..]);
        let is_above = match self.lower.after {
            true => key > lower && !key.starts_with(lower),
            false => key >= lower,
        };
        let is_below = key < upper || self.upper.after && key.starts_with(upper);
        is_above && is_below
    }
}

/// Appends one column of a key. A value is already of the column's type.
#[inline]
pub fn push_key(key: &mut KeyBytes, value: &Value, column: &super::schema::IndexColumn) {
    // Nearly all key columns are such integers.
    if let (Value::Int(value), SqlType::Int4, false, false) =
        (value, &column.ty, column.nullable, column.descending)
    {
        return key.push_array(((*value as i32 as u32) ^ (1 << 31)).to_be_bytes());
    }
    push_column(key, value, column);
}

fn push_column(key: &mut KeyBytes, value: &Value, column: &super::schema::IndexColumn) {
    let start = key.len();
    if column.nullable {
        // Ascending order puts NULL last unless it is asked for first; inversion below turns this round.
        let null_is_low = column.nulls_first != column.descending;
        match (value.is_null(), null_is_low) {
            (false, _) => key.push(1),
            (true, true) => key.push(0),
            (true, false) => key.push(2),
        }
    }
    push_value(key, value, &column.ty);
    if column.descending {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Bytes of a non-null value; NULL writes nothing (its marker says it all).
fn push_value(key: &mut KeyBytes, value: &Value, ty: &SqlType) {
    match value {
        Value::Null | Value::Deferred => {}
        Value::Bool(value) => key.push(u8::from(*value)),
        Value::Int(value) => match ty {
            SqlType::Int2 => key.push_array(((*value as i16 as u16) ^ (1 << 15)).to_be_bytes()),
            SqlType::Int4 => key.push_array(((*value as i32 as u32) ^ (1 << 31)).to_be_bytes()),
            _ => key.push_array(((*value as u64) ^ (1 << 63)).to_be_bytes()),
        },
        Value::Date(value) => key.push_array(((*value as u32) ^ (1 << 31)).to_be_bytes()),
        Value::Timestamp(value) => key.push_array(((*value as u64) ^ (1 << 63)).to_be_bytes()),
        Value::Float4(value) => push_float(key, f64::from(*value)),
        Value::Float8(value) => push_float(key, *value),
        Value::Numeric(value) => push_numeric(key, value),
        Value::Text(value) => push_escaped(key, value.as_bytes()),
        Value::Bytea(value) => push_escaped(key, value),
        Value::Uuid(value) => key.extend_from_slice(&value[..]),
        Value::Interval(value) => {
            key.push_array(((value.span_microseconds() as u128) ^ (1 << 127)).to_be_bytes());
        }
        Value::Jsonb(json) => match &**json {
            // It is less than everything, though other arrays are more than most.
            Json::Array(elements) if elements.is_empty() => key.push(0),
            json => push_json(key, json),
        },
        Value::Array(array) => push_list(key, &array.values, &array.element),
        Value::Record(fields) => push_list(key, fields, &SqlType::Unknown),
    }
}

/// Element by element; of two lists that begin alike the shorter one is less. NULL is more than all values.
fn push_list(key: &mut KeyBytes, values: &[Value], element: &SqlType) {
    for value in values {
        key.push(if value.is_null() { 2 } else { 1 });
        push_value(key, value, element);
    }
    key.push(0);
}

/// As `weir_types::json::compare` orders them. A container says first how many it has, so no key is the beginning of another.
fn push_json(key: &mut KeyBytes, json: &Json) {
    match json {
        Json::Null => key.push(1),
        Json::String(text) => {
            key.push(2);
            push_escaped(key, text.as_bytes());
        }
        Json::Number(number) => {
            key.push(3);
            push_numeric(key, number);
        }
        Json::Bool(value) => key.push_array([4, u8::from(*value)]),
        Json::Array(elements) => {
            key.push(5);
            key.push_array((elements.len() as u64).to_be_bytes());
            elements.iter().for_each(|element| push_json(key, element));
        }
        Json::Object(members) => {
            key.push(6);
            key.push_array((members.len() as u64).to_be_bytes());
            for (name, value) in members {
                push_escaped(key, name.as_bytes());
                push_json(key, value);
            }
        }
    }
}

/// NaN sorts above everything, −0 equals 0.
fn push_float(key: &mut KeyBytes, value: f64) {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) };
    key.push_array(ordered.to_be_bytes());
}

/// Zero bytes are escaped and the end is marked, so that "a" sorts before "ab" whatever follows.
fn push_escaped(key: &mut KeyBytes, bytes: &[u8]) {
    for &byte in bytes {
        key.push(byte);
        if byte == 0 {
            key.push(0xFF);
        }
    }
    key.push_array([0, 0]);
}

/// Sign, decimal exponent, significant digits: 1.0 and 1.00 have the same key.
fn push_numeric(key: &mut KeyBytes, value: &weir_types::numeric::Numeric) {
    let text = value.to_string();
    let (class, digits) = match text.as_str() {
        "NaN" => (5, ""),
        "Infinity" => (4, ""),
        "-Infinity" => (0, ""),
        _ => match text.strip_prefix('-') {
            Some(digits) => (1, digits),
            None => (3, text.as_str()),
        },
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let mut significant = String::with_capacity(digits.len());
    significant.push_str(whole);
    significant.push_str(fraction);
    let leading_zeros = significant.len() - significant.trim_start_matches('0').len();
    let exponent = whole.len() as i32 - leading_zeros as i32;
    let significant = significant.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() && (class == 1 || class == 3) {
        key.push(2);
        return;
    }
    key.push(class);
    if class != 1 && class != 3 {
        return;
    }
    let start = key.len();
    key.push_array(((exponent as u32) ^ (1 << 31)).to_be_bytes());
    key.extend_from_slice(significant.as_bytes());
    key.push(0);
    if class == 1 {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Bytes that every key of the column takes; `None` if it varies.
pub fn fixed_width(column: &super::schema::IndexColumn) -> Option<usize> {
    let width = match column.ty {
        SqlType::Bool => 1,
        SqlType::Int2 => 2,
        SqlType::Int4 | SqlType::Date => 4,
        SqlType::Int8 | SqlType::Timestamp | SqlType::Timestamptz | SqlType::Float4 | SqlType::Float8 => 8,
        SqlType::Uuid | SqlType::Interval => 16,
        _ => return None,
    };
    // A NULL is shorter than a value, so only columns without NULLs have one width.
    (!column.nullable).then_some(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::schema::IndexColumn;
    use weir_sql::bound::{Expr, ExprKind, RelationId};
    use weir_types::text::parse_text;

    fn column(ty: &SqlType, nullable: bool, descending: bool, nulls_first: bool) -> IndexColumn {
        IndexColumn {
            column: Some(0),
            expr: Expr {
                kind: ExprKind::Column { relation: RelationId(0), column: 0 },
                ty: ty.clone(),
                span: Default::default(),
            },
            ty: ty.clone(),
            nullable,
            descending,
            nulls_first,
        }
    }

    fn key(column: &IndexColumn, value: &Value) -> KeyBytes {
        let mut key = KeyBytes::new();
        push_key(&mut key, value, column);
        key
    }

    /// The texts are in ascending order; their keys must be too, and reversed when descending.
    fn check(ty: SqlType, ascending: &[&str]) {
        let values: Vec<Value> = ascending.iter().map(|text| parse_text(text, &ty).expect(text)).collect();
        for (nullable, nulls_first) in [(false, false), (true, false), (true, true)] {
            let up = column(&ty, nullable, false, nulls_first);
            let down = column(&ty, nullable, true, nulls_first);
            for pair in values.windows(2) {
                assert!(key(&up, &pair[0]) < key(&up, &pair[1]), "{ty} {pair:?}");
                assert!(key(&down, &pair[0]) > key(&down, &pair[1]), "{ty} {pair:?} descending");
            }
            if nullable {
                for value in &values {
                    assert_eq!(key(&up, &Value::Null) < key(&up, value), nulls_first, "{ty} {value:?}");
                    assert_eq!(key(&down, &Value::Null) < key(&down, value), nulls_first, "{ty} {value:?}");
                }
            }
        }
    }

    #[test]
    fn keys_sort_as_their_values_do() {
        check(SqlType::Bool, &["f", "t"]);
        check(SqlType::Int2, &["-32768", "-1", "0", "1", "32767"]);
        check(SqlType::Int4, &["-2147483648", "-1", "0", "1", "2147483647"]);
        check(SqlType::Int8, &["-9223372036854775808", "-1", "0", "9223372036854775807"]);
        check(SqlType::Float8, &["-Infinity", "-1.5", "-1e-300", "0", "1e-300", "1.5", "Infinity", "NaN"]);
        check(
            SqlType::Numeric(None),
            &[
                "-Infinity",
                "-1000",
                "-12.5",
                "-12",
                "-0.5",
                "-0.05",
                "0",
                "0.05",
                "0.5",
                "12",
                "12.5",
                "120",
                "1000",
                "Infinity",
                "NaN",
            ],
        );
        check(SqlType::Text, &["", "a", "a b", "ab", "b", "é"]);
        check(SqlType::Date, &["1900-01-01", "2000-01-01", "2026-11-21"]);
        check(
            SqlType::Timestamp,
            &["1999-12-31 23:59:59.999999", "2000-01-01 00:00:00", "2038-01-20 00:00:00"],
        );
        check(SqlType::Interval, &["-1 day", "0", "23 hours", "1 day", "1 mon"]);
        let json = ["[]", "null", "\"\"", "\"a\"", "\"b\"", "-1.5", "0", "2", "10", "false", "true"];
        let nested = [
            "[null]",
            "[[]]",
            "[1, 2]",
            "[1, 3]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"b": 1}"#,
            r#"{"a": 1, "b": []}"#,
        ];
        check(SqlType::Jsonb, &[&json[..], &nested[..]].concat());
        let list = |element| SqlType::Array(Box::new(element));
        check(list(SqlType::Int4), &["{}", "{-1}", "{1}", "{1,-5}", "{1,2}", "{1,NULL}", "{2}", "{NULL}"]);
        check(list(SqlType::Text), &["{}", "{a}", "{a,b}", "{ab}", "{b}"]);
    }

    #[test]
    fn equal_values_share_a_key() {
        let list = |element| SqlType::Array(Box::new(element));
        for (ty, equal) in [
            (SqlType::Interval, &["1 day", "24:00:00", "1 mon -29 days"][..]),
            (SqlType::Jsonb, &[r#"{"a": 1.0, "b": [2.50]}"#, r#"{"b":[2.5],"a":1}"#]),
            (SqlType::Float8, &["0", "-0"]),
            (list(SqlType::Numeric(None)), &["{1.0,NULL}", "{1,NULL}"]),
            (list(SqlType::Interval), &["{1 day}", "{24:00:00}"]),
        ] {
            let column = column(&ty, true, false, false);
            let keys = equal.iter().map(|text| key(&column, &parse_text(text, &ty).expect(text)));
            let keys: Vec<KeyBytes> = keys.collect();
            assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{ty} {keys:?}");
        }
    }

    #[test]
    fn equal_numerics_of_different_scale_share_a_key() {
        let column = column(&SqlType::Numeric(None), false, false, false);
        let parse = |text| parse_text(text, &SqlType::Numeric(None)).expect(text);
        assert_eq!(key(&column, &parse("1.0")), key(&column, &parse("1.000")));
        assert_eq!(key(&column, &parse("0")), key(&column, &parse("0.00")));
    }
}
