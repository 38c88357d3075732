//! The SQL types that Weir stores and computes with.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A column's, variable's or expression's type, with its modifier where it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SqlType {
    Bool,
    Int2,
    Int4,
    Int8,
    /// `numeric` or `numeric(precision, scale)`.
    Numeric(Option<(u16, i16)>),
    Float4,
    Float8,
    Text,
    /// `varchar` or `varchar(n)`, `n` in characters.
    Varchar(Option<u32>),
    /// `char(n)`: values are held without their padding, which the type adds on output. `Char(0)` is
    /// `bpchar` without a length, which a literal that is compared with a `char(n)` takes.
    Char(u32),
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Bytea,
    Jsonb,
    Array(Box<SqlType>),
    /// `CREATE TYPE … AS ENUM`; a value is the text of its label.
    Enum(Arc<EnumType>),
    /// Known by its name only, so that nothing computes with it: for schemas that are analysed, not run.
    Opaque(Arc<str>),
    /// A row value; its fields are known only to the binder.
    Record,
    /// Result of a procedure without OUT parameters.
    Void,
    /// A string literal, NULL or parameter whose type nothing has fixed yet.
    Unknown,
}

/// The labels of an enumeration, in the order in which they compare.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnumType {
    pub name: String,
    pub labels: Vec<String>,
}

impl SqlType {
    /// The type without its modifier: what `a + b` or a function result has.
    pub fn base(&self) -> SqlType {
        match self {
            SqlType::Numeric(_) => SqlType::Numeric(None),
            SqlType::Varchar(_) => SqlType::Varchar(None),
            SqlType::Array(element) => SqlType::Array(Box::new(element.base())),
            other => other.clone(),
        }
    }

    pub fn array_of(element: SqlType) -> SqlType {
        SqlType::Array(Box::new(element))
    }

    /// The type's name in PostgreSQL's messages about operators and functions: without its modifier.
    pub fn name(&self) -> String {
        match self {
            SqlType::Char(_) => SqlType::Char(0).to_string(),
            SqlType::Array(element) => format!("{}[]", element.name()),
            other => other.base().to_string(),
        }
    }

    /// date, timestamp and timestamptz.
    pub fn is_instant(&self) -> bool {
        matches!(self, SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz)
    }

    pub fn is_integer(&self) -> bool {
        matches!(self, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
    }

    pub fn is_number(&self) -> bool {
        self.is_integer() || matches!(self, SqlType::Numeric(_) | SqlType::Float4 | SqlType::Float8)
    }

    /// text, varchar, char, and a string literal of unknown type.
    pub fn is_string(&self) -> bool {
        matches!(self, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Unknown)
    }
}

/// As PostgreSQL's `format_type` prints it.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlType::Bool => f.write_str("boolean"),
            SqlType::Int2 => f.write_str("smallint"),
            SqlType::Int4 => f.write_str("integer"),
            SqlType::Int8 => f.write_str("bigint"),
            SqlType::Numeric(None) => f.write_str("numeric"),
            SqlType::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            SqlType::Float4 => f.write_str("real"),
            SqlType::Float8 => f.write_str("double precision"),
            SqlType::Text => f.write_str("text"),
            SqlType::Varchar(None) => f.write_str("character varying"),
            SqlType::Varchar(Some(n)) => write!(f, "character varying({n})"),
            SqlType::Char(0) => f.write_str("character"),
            SqlType::Char(n) => write!(f, "character({n})"),
            SqlType::Date => f.write_str("date"),
            SqlType::Timestamp => f.write_str("timestamp without time zone"),
            SqlType::Timestamptz => f.write_str("timestamp with time zone"),
            SqlType::Interval => f.write_str("interval"),
            SqlType::Uuid => f.write_str("uuid"),
            SqlType::Bytea => f.write_str("bytea"),
            SqlType::Jsonb => f.write_str("jsonb"),
            SqlType::Array(element) => write!(f, "{element}[]"),
            SqlType::Enum(of) => f.write_str(&of.name),
            SqlType::Opaque(name) => f.write_str(name),
            SqlType::Record => f.write_str("record"),
            SqlType::Void => f.write_str("void"),
            SqlType::Unknown => f.write_str("unknown"),
        }
    }
}
