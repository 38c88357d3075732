//! Every line of `testdata/types/*.txt` against what PostgreSQL 15 answered: `expression => type: text` or
//! `expression => ERROR state: message`. `testdata/types/regenerate.py` asks a server anew.
//!
//! An expression is an operand, `operand op operand`, or `function(operand, …)`; an operand is a string
//! literal or NULL with casts behind it.

use weir_types::operator::{BinaryOp, resolve_binary, specialise};
use weir_types::text::{parse_text, to_text};
use weir_types::value::Value;
use weir_types::{CastContext, SqlError, SqlType, cast, function};

const OPERATORS: [BinaryOp; 26] = {
    use BinaryOp::*;
    [
        JsonGetText,
        JsonGet,
        NotEqual,
        LessOrEqual,
        GreaterOrEqual,
        ShiftLeft,
        ShiftRight,
        Concat,
        Contains,
        ContainedBy,
        Overlaps,
        RegexMatchInsensitive,
        RegexMatch,
        Add,
        Subtract,
        Multiply,
        Divide,
        Modulo,
        Power,
        Equal,
        Less,
        Greater,
        BitAnd,
        BitOr,
        BitXor,
        JsonExists,
    ]
};

fn type_named(name: &str) -> SqlType {
    if let Some(element) = name.strip_suffix("[]") {
        return SqlType::array_of(type_named(element));
    }
    let (base, modifier) = match name.split_once('(') {
        Some((base, rest)) => (base, rest.trim_end_matches(')')),
        None => (name, ""),
    };
    match base {
        "bool" => SqlType::Bool,
        "int2" => SqlType::Int2,
        "int4" => SqlType::Int4,
        "int8" => SqlType::Int8,
        "numeric" => SqlType::Numeric(
            modifier
                .split_once(',')
                .map(|(precision, scale)| (precision.trim().parse().unwrap(), scale.trim().parse().unwrap())),
        ),
        "float4" => SqlType::Float4,
        "float8" => SqlType::Float8,
        "text" => SqlType::Text,
        "varchar" => SqlType::Varchar(modifier.parse().ok()),
        "char" => SqlType::Char(modifier.parse().unwrap_or(1)),
        "date" => SqlType::Date,
        "timestamp" => SqlType::Timestamp,
        "timestamptz" => SqlType::Timestamptz,
        "interval" => SqlType::Interval,
        "uuid" => SqlType::Uuid,
        "bytea" => SqlType::Bytea,
        "jsonb" => SqlType::Jsonb,
        other => panic!("the test does not know the type {other}"),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn literal(&mut self) -> Option<String> {
        assert!(self.rest.starts_with('\''), "a literal is expected at {}", self.rest);
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c != '\'' {
                text.push(c);
            } else if chars.peek().is_some_and(|next| next.1 == '\'') {
                chars.next();
                text.push('\'');
            } else {
                self.rest = &self.rest[1 + at + 1..];
                return Some(text);
            }
        }
        None
    }

    fn type_name(&mut self) -> SqlType {
        let mut end = 0;
        let mut parens = 0;
        for (at, c) in self.rest.char_indices() {
            match c {
                '(' => parens += 1,
                ')' if parens > 0 => parens -= 1,
                ',' | '-' if parens > 0 => {}
                c if c.is_alphanumeric() || c == '[' || c == ']' => {}
                _ => break,
            }
            end = at + c.len_utf8();
        }
        let name = &self.rest[..end];
        self.rest = &self.rest[end..];
        type_named(name)
    }

    /// A literal with its casts.
    fn operand(&mut self) -> Result<(Value, SqlType), SqlError> {
        self.skip();
        let mut value = match self.eat("NULL") {
            true => Value::Null,
            false => Value::text(self.literal().expect("the literal ends")),
        };
        let mut ty = SqlType::Unknown;
        while self.eat("::") {
            let to = self.type_name();
            if !cast::can_cast(&ty, &to, CastContext::Explicit) {
                return Err(cast::cannot_cast(&ty, &to));
            }
            value = cast::cast(&value, &ty, &to, CastContext::Explicit)?;
            ty = to;
        }
        Ok((value, ty))
    }
}

/// The explicit cast that a binder puts where the types differ.
fn coerce(value: &Value, from: &SqlType, to: &SqlType) -> Result<Value, SqlError> {
    if from == to { Ok(value.clone()) } else { cast::cast(value, from, to, CastContext::Explicit) }
}

fn evaluate(expression: &str) -> Result<(Value, SqlType), SqlError> {
    let mut reader = Reader { rest: expression };
    if !expression.starts_with('\'') && !expression.starts_with("NULL") {
        let (name, rest) = expression.split_once('(').expect("a call has parentheses");
        reader.rest = rest;
        let (mut values, mut types) = (Vec::new(), Vec::new());
        while !reader.eat(")") {
            let (value, ty) = reader.operand()?;
            values.push(value);
            types.push(ty);
            reader.eat(",");
        }
        let resolved = function::resolve(name, &types)?;
        for (i, wanted) in resolved.args.iter().enumerate() {
            values[i] = coerce(&values[i], &types[i], wanted)?;
        }
        let types = function::CallTypes { args: &resolved.args, result: &resolved.result };
        return Ok((resolved.function.call(&values, &types)?, resolved.result.clone()));
    }
    let (left, left_type) = reader.operand()?;
    reader.skip();
    if reader.rest.is_empty() {
        return Ok((left, left_type));
    }
    let op = OPERATORS.into_iter().find(|op| reader.eat(op.symbol())).expect("an operator");
    let (right, right_type) = reader.operand()?;
    let signature = resolve_binary(op, &left_type, &right_type)?;
    let left = coerce(&left, &left_type, &signature.left)?;
    let right = coerce(&right, &right_type, &signature.right)?;
    let value = specialise(op, &signature.left, &signature.right)(&left, &right)?;
    Ok((value, signature.result))
}

fn answer(expression: &str) -> String {
    match evaluate(expression) {
        Ok((Value::Null, ty)) => format!("{}: NULL", ty.name()),
        Ok((value, ty)) => format!("{}: {}", ty.name(), to_text(&value, &ty).escape_debug_newlines()),
        Err(error) => format!("ERROR {}: {}", error.state(), error.message().escape_debug_newlines()),
    }
}

trait EscapeNewlines {
    fn escape_debug_newlines(&self) -> String;
}

impl EscapeNewlines for str {
    /// So that an answer stays on its line.
    fn escape_debug_newlines(&self) -> String {
        self.replace('\n', "\\n")
    }
}

#[test]
fn every_case_answers_as_postgresql_does() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/types");
    let (mut cases, mut failures) = (0, Vec::new());
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let content = std::fs::read_to_string(path).unwrap();
        for line in content.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (expression, expected) = line.split_once(" => ").expect("a case has an answer");
            let found = answer(expression);
            cases += 1;
            if found != expected {
                failures.push(format!("{expression}\n  PostgreSQL: {expected}\n  Weir:       {found}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {cases} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert!(cases > 300, "only {cases} cases were found");
}

#[test]
fn values_survive_printing_and_reading() {
    for (text, ty) in [
        ("123.4500", SqlType::Numeric(None)),
        ("-Infinity", SqlType::Float8),
        ("0.1", SqlType::Float4),
        ("2024-02-29", SqlType::Date),
        ("0044-03-15 BC", SqlType::Date),
        ("2024-02-29 23:59:59.000001+00", SqlType::Timestamptz),
        ("-1 years -2 mons +3 days -04:05:06.7", SqlType::Interval),
        ("{\"a\": [1, 2.50, null], \"bb\": \"x\\ny\"}", SqlType::Jsonb),
        ("{1,NULL,3}", SqlType::array_of(SqlType::Int4)),
        ("{\"a b\",\"\",\"NULL\",\"q\\\"\"}", SqlType::array_of(SqlType::Text)),
        ("\\x00ff", SqlType::Bytea),
        ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", SqlType::Uuid),
    ] {
        let value = parse_text(text, &ty).unwrap();
        assert_eq!(to_text(&value, &ty), text);
    }
}
