//! For any input the result is a value or an error, never a panic; and NULL and Deferred pass through strict operations.

use weir_types::function::{self, Arg, CallTypes};
use weir_types::operator::{BinaryOp, resolve_binary, specialise};
use weir_types::text::{parse_text, to_text};
use weir_types::value::Value;
use weir_types::{CastContext, SqlType, cast};

fn types() -> Vec<SqlType> {
    vec![
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Numeric(None),
        SqlType::Numeric(Some((5, 2))),
        SqlType::Float4,
        SqlType::Float8,
        SqlType::Text,
        SqlType::Varchar(Some(3)),
        SqlType::Char(3),
        SqlType::Date,
        SqlType::Timestamp,
        SqlType::Timestamptz,
        SqlType::Interval,
        SqlType::Uuid,
        SqlType::Bytea,
        SqlType::Jsonb,
        SqlType::array_of(SqlType::Int4),
        SqlType::array_of(SqlType::Text),
    ]
}

/// Texts at the edges of every type's domain.
const EDGES: [&str; 58] = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "7",
    "-0",
    "32767",
    "-32768",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "0.5",
    "-2.5",
    "1e-300",
    "1e308",
    "1e-30",
    "NaN",
    "Infinity",
    "-Infinity",
    "t",
    "a",
    "é",
    "%",
    "\\",
    "a\\",
    "{",
    "{}",
    "{1,NULL,3}",
    "{\"a\",\"é\"}",
    "[]",
    "[1,\"x\",null]",
    "{\"a\":{\"b\":[1]}}",
    "\"",
    "\"\\u00e9\"",
    "\\x",
    "\\x00ff",
    "\\x0",
    "2024-02-29",
    "4714-11-24 BC",
    "5874897-12-31",
    "294276-12-31 23:59:59.999999",
    "infinity",
    "-infinity",
    "2024-01-01 24:00:00+15:59",
    "1 day",
    "-178956970 years -8 mons",
    "178956970 years 7 mons",
    "2147483647 days",
    "-2147483648 days",
    "2562047788:00:54.775807",
    "P1Y2M3DT4H5M6.7S",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "YYYY-MM-DD HH24:MI:SS.US TZ",
    "FM9,999.99S",
    "(",
];

const OPERATORS: [BinaryOp; 26] = {
    use BinaryOp::*;
    [
        Add,
        Subtract,
        Multiply,
        Divide,
        Modulo,
        Power,
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        Concat,
        BitAnd,
        BitOr,
        BitXor,
        ShiftLeft,
        ShiftRight,
        JsonGet,
        JsonGetText,
        Contains,
        ContainedBy,
        JsonExists,
        Overlaps,
        RegexMatch,
        RegexMatchInsensitive,
    ]
};

fn values(ty: &SqlType) -> Vec<Value> {
    EDGES.iter().filter_map(|text| parse_text(text, ty).ok()).collect()
}

#[test]
fn texts_read_back_as_they_print() {
    for ty in types() {
        for value in values(&ty) {
            let printed = to_text(&value, &ty);
            let again = parse_text(&printed, &ty).unwrap_or_else(|error| panic!("{ty} {printed}: {error}"));
            assert_eq!(value, again, "{ty} {printed}");
        }
    }
}

#[test]
fn broken_texts_are_errors() {
    for ty in types() {
        for text in EDGES {
            for (end, _) in text.char_indices() {
                let _ = parse_text(&text[..end], &ty);
                let _ = parse_text(&format!("{}é{}", &text[..end], &text[end..]), &ty);
                let _ = parse_text(&format!("{}-{}", &text[..end], &text[end..]), &ty);
                let _ = parse_text(&format!("{}9{}", &text[..end], &text[end..]), &ty);
                let _ = parse_text(&format!("{}:{}", &text[..end], &text[end..]), &ty);
            }
        }
    }
}

#[test]
fn casts_of_edges_end() {
    for from in types() {
        for to in types() {
            for value in values(&from) {
                if cast::can_cast(&from, &to, CastContext::Explicit) {
                    let _ = cast::cast(&value, &from, &to, CastContext::Explicit);
                    let _ = cast::cast(&value, &from, &to, CastContext::Assignment);
                }
            }
        }
    }
}

#[test]
fn operators_on_edges_end() {
    for left_type in types() {
        for right_type in types() {
            for op in OPERATORS {
                let Ok(signature) = resolve_binary(op, &left_type, &right_type) else { continue };
                let apply = specialise(op, &signature.left, &signature.right);
                for left in values(&left_type) {
                    for right in values(&right_type) {
                        let explicit = CastContext::Explicit;
                        let left = cast::cast(&left, &left_type, &signature.left, explicit);
                        let right = cast::cast(&right, &right_type, &signature.right, explicit);
                        if let (Ok(left), Ok(right)) = (left, right)
                            && let Err(error) = apply(&left, &right)
                        {
                            assert_ne!(error.state().as_str(), "XX000", "{left_type} {op:?} {right_type}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn null_and_deferred_pass_through_operators() {
    for left_type in types() {
        for right_type in types() {
            for op in OPERATORS.into_iter().filter(|op| *op != BinaryOp::Concat) {
                let Ok(signature) = resolve_binary(op, &left_type, &right_type) else { continue };
                let apply = specialise(op, &signature.left, &signature.right);
                for right in values(&signature.right) {
                    assert!(apply(&Value::Null, &right).unwrap().is_null());
                    assert!(apply(&Value::Deferred, &right).unwrap().is_deferred());
                }
                for left in values(&signature.left) {
                    assert!(apply(&left, &Value::Null).unwrap().is_null());
                    assert!(apply(&left, &Value::Deferred).unwrap().is_deferred());
                }
            }
        }
    }
}

fn declared(arg: Arg) -> SqlType {
    match arg {
        Arg::Bool => SqlType::Bool,
        Arg::Int2 => SqlType::Int2,
        Arg::Int4 => SqlType::Int4,
        Arg::Int8 => SqlType::Int8,
        Arg::Numeric => SqlType::Numeric(None),
        Arg::Float4 => SqlType::Float4,
        Arg::Float8 => SqlType::Float8,
        Arg::Text | Arg::Any | Arg::AnyElement => SqlType::Text,
        Arg::Date => SqlType::Date,
        Arg::Timestamp => SqlType::Timestamp,
        Arg::Timestamptz => SqlType::Timestamptz,
        Arg::Interval => SqlType::Interval,
        Arg::Uuid => SqlType::Uuid,
        Arg::Bytea => SqlType::Bytea,
        Arg::Jsonb => SqlType::Jsonb,
        Arg::TextArray | Arg::AnyArray => SqlType::array_of(SqlType::Text),
        Arg::Int4Array => SqlType::array_of(SqlType::Int4),
    }
}

#[test]
fn functions_on_edges_end() {
    let mut random = 7u64;
    for function in function::all() {
        let types: Vec<SqlType> = function.args.iter().map(|arg| declared(*arg)).collect();
        let domains: Vec<Vec<Value>> = types.iter().map(values).collect();
        let combinations = domains.iter().map(Vec::len).product::<usize>().clamp(1, 400);
        let result = match function.result {
            Arg::Any => types[0].clone(),
            other => declared(other),
        };
        for _ in 0..combinations {
            let args: Vec<Value> = domains
                .iter()
                .map(|domain| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    domain[(random >> 33) as usize % domain.len()].clone()
                })
                .collect();
            for given in args.len() - function.optional..=args.len() {
                let call = CallTypes { args: &types[..given], result: &result };
                if let Err(error) = function.call(&args[..given], &call) {
                    assert_ne!(error.state().as_str(), "XX000", "{}: {error}", function.name);
                }
            }
        }
    }
}
