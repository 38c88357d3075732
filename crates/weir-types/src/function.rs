//! The scalar functions, by PostgreSQL's names, and which overload a call means.
//!
//! NULL: a strict function is not called with NULL or Deferred arguments; [`Function::call`] sees to it.
//! A function learns its arguments' static types from [`CallTypes`], which the few that print values of any
//! type (`format`, `to_jsonb`, `concat`) need.

mod arguments;
mod array_functions;
mod bytes;
mod digests;
mod identifiers;
mod json_functions;
mod numbers;
mod regexps;
mod resolve;
mod strings;
mod templates;
mod times;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::arrays::COMPARED_PER_CHECK;
use crate::error::SqlError;
use crate::interrupt::{BYTES_PER_CHECK, check_work};
use crate::sql_type::SqlType;
use crate::value::{Json, Value};

pub use resolve::{Resolved, resolve};
pub use strings::{double_quoted, quote_identifier, quote_literal};

/// The static types of one call: the arguments' after the casts that resolution asked for.
#[derive(Clone, Copy, Debug)]
pub struct CallTypes<'a> {
    pub args: &'a [SqlType],
    pub result: &'a SqlType,
}

/// A declared argument or result type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    Bool,
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
    Text,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Bytea,
    Jsonb,
    TextArray,
    Int4Array,
    /// Any type at all; an unknown literal becomes text.
    Any,
    /// The element type of the call's [`Arg::AnyArray`]s.
    AnyElement,
    AnyArray,
}

pub type Evaluate = fn(&[Value], &CallTypes<'_>) -> Result<Value, SqlError>;

/// One overload of a scalar function.
pub struct Function {
    pub name: &'static str,
    pub args: &'static [Arg],
    /// The last of `args` stands for any number of arguments, none included.
    pub variadic: bool,
    /// Number of trailing arguments that may be omitted; `eval` then gets fewer values.
    pub optional: usize,
    pub result: Arg,
    /// NULL in, NULL out, without a call.
    pub strict: bool,
    pub eval: Evaluate,
}

impl Function {
    const fn new(name: &'static str, args: &'static [Arg], result: Arg, eval: Evaluate) -> Function {
        Function { name, args, variadic: false, optional: 0, result, strict: true, eval }
    }

    const fn variadic(mut self) -> Function {
        self.variadic = true;
        self
    }

    const fn optional(mut self, count: usize) -> Function {
        self.optional = count;
        self
    }

    const fn accepts_null(mut self) -> Function {
        self.strict = false;
        self
    }

    /// Evaluates with the rules for NULL and Deferred: a Deferred argument makes the result Deferred,
    /// and so does NULL make it NULL if the function is strict.
    pub fn call(&self, args: &[Value], types: &CallTypes<'_>) -> Result<Value, SqlError> {
        if self.strict && args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        if args.iter().any(Value::is_deferred) {
            return Ok(Value::Deferred);
        }
        check_work(args.iter().map(work_on).sum())?;
        (self.eval)(args, types)
    }
}

/// A function goes through its arguments at least once: how many checks that takes.
fn work_on(arg: &Value) -> usize {
    match arg {
        Value::Text(text) => text.len() / BYTES_PER_CHECK,
        Value::Bytea(bytes) => bytes.len() / BYTES_PER_CHECK,
        Value::Array(array) => array.values.len() / COMPARED_PER_CHECK,
        Value::Jsonb(json) => match &**json {
            Json::Array(elements) => elements.len() / COMPARED_PER_CHECK,
            Json::Object(members) => members.len() / COMPARED_PER_CHECK,
            _ => 0,
        },
        _ => 0,
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

static LIBRARY: [&[Function]; 10] = [
    numbers::FUNCTIONS,
    strings::FUNCTIONS,
    identifiers::FUNCTIONS,
    regexps::FUNCTIONS,
    bytes::FUNCTIONS,
    digests::FUNCTIONS,
    templates::FUNCTIONS,
    times::FUNCTIONS,
    array_functions::FUNCTIONS,
    json_functions::FUNCTIONS,
];

/// Every overload of every function.
pub fn all() -> impl Iterator<Item = &'static Function> {
    LIBRARY.iter().copied().flatten()
}

/// The overloads of a name; none if there is no such function.
pub fn overloads(name: &str) -> &'static [&'static Function] {
    static BY_NAME: OnceLock<BTreeMap<&'static str, Vec<&'static Function>>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let mut by_name: BTreeMap<&'static str, Vec<&'static Function>> = BTreeMap::new();
        for function in all() {
            by_name.entry(function.name).or_default().push(function);
        }
        by_name
    });
    by_name.get(name).map_or(&[], Vec::as_slice)
}

/// The matches of `regexp_matches`, an array of text for each.
///
/// # Errors
/// If the pattern or a flag is none.
pub fn regexp_matches(args: &[Value]) -> Result<Vec<Value>, SqlError> {
    regexps::regexp_matches(args)
}

/// Whether a function of that name exists, whatever its arguments.
pub fn exists(name: &str) -> bool {
    !overloads(name).is_empty()
}
