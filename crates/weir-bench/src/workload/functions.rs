//! The functions of the expression language: generators, and a few that only compute.
//!
//! TPC-C's quirks are functions like any other here (`nurand`, `tpcc_last_name`, `tpcc_original`);
//! nothing else in the product knows TPC-C.

use weir_sql::{Diagnostic, Span};
use weir_types::datetime::is_infinite_timestamp;
use weir_types::text::parse_text;
use weir_types::{SqlState, SqlType, Value};

use super::code::{Kind, Produced, Scalar, ScalarOp, Zipf};
use super::compile::{
    Code, Compiler, Purity, Scope, Typed, decimals, error, mismatch, want, want_bool, want_int,
};
use super::syntax::{Expr, Node};
use super::text::Alphabet;

/// Name, how it is called, and what it gives: the messages' and the documentation's table.
pub(crate) const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("uniform", "uniform(low, high)", "any integer, decimal or time between the two, both included"),
    ("uniform_except", "uniform_except(low, high, x)", "the same but x, unless x is the only one"),
    ("nurand", "nurand(A, low, high)", "TPC-C's non-uniform random integer (clause 2.1.6)"),
    ("zipf", "zipf(theta, low, high)", "Zipf's distribution, low the most frequent, 0 < theta < 1"),
    ("chance", "chance(p) or chance(p, x, y)", "true, or x, with probability p; else false, or y"),
    ("pick", "pick(x, y, …)", "any of them, equally often"),
    ("weighted", "weighted(3, x, 1, y, …)", "any of them, each as often as its weight says"),
    ("permutation", "permutation(i, n, key)", "where a random permutation of 1..n, one per key, puts i"),
    ("text", "text(length) or text(low, high)", "random letters and digits"),
    ("letters", "letters(length) or letters(low, high)", "random lower-case letters"),
    ("digits", "digits(length) or digits(low, high)", "random digits, as a text"),
    ("concat", "concat(x, y, …)", "texts and integers as one text"),
    ("array", "array(length, x)", "an array; x is generated anew for each element, number index"),
    ("if", "if(condition, x, y)", "x where the condition is true, else y"),
    ("coalesce", "coalesce(x, y)", "x, or y where x is null"),
    ("is_null", "is_null(x)", "whether x is null"),
    ("min", "min(x, y)", "the smaller one"),
    ("max", "max(x, y)", "the larger one"),
    ("time", "time('2026-01-31 12:00:00')", "a time; adding an integer adds microseconds"),
    ("seconds", "seconds(n)", "n seconds in microseconds"),
    ("tpcc_last_name", "tpcc_last_name(n)", "the last name of number 0..999 (clause 4.3.2.3)"),
    ("tpcc_original", "tpcc_original(low, high)", "text(low, high), in one of ten with 'ORIGINAL' inside"),
];

/// Zipf's constants take time in proportion to the number of values.
const ZIPF_VALUES_MAX: i64 = 100_000_000;

type Spanned = (Typed, Span);

fn usage(function: &str, span: Span) -> Diagnostic {
    let known = FUNCTIONS.iter().find(|(name, ..)| *name == function);
    match known {
        Some((name, usage, _)) => {
            error(SqlState::UNDEFINED_FUNCTION, span, format!("{name} takes other arguments"))
                .with_hint(format!("it is called as {usage}"))
        }
        None => {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            error(SqlState::UNDEFINED_FUNCTION, span, format!("there is no generator {function}"))
                .with_hint(format!("the generators are {}", names.join(", ")))
        }
    }
}

impl Compiler {
    pub(crate) fn call(
        &mut self,
        function: &str,
        args: &[Expr],
        scope: &Scope,
        span: Span,
    ) -> Result<Typed, Diagnostic> {
        match (function, args) {
            ("array", [length, each]) => return self.array(length, each, scope),
            ("time", [Expr { node: Node::Text(text), span }]) => return time(text, *span),
            _ => {}
        }
        let mut compiled = Vec::with_capacity(args.len());
        for arg in args {
            compiled.push((self.compile(arg, scope)?, arg.span));
        }
        let purity = compiled.iter().map(|(typed, _)| typed.purity).max().unwrap_or(Purity::Constant);
        let mut args = compiled.into_iter();
        let next = |args: &mut dyn Iterator<Item = Spanned>| args.next().ok_or_else(|| usage(function, span));
        let int = |args: &mut dyn Iterator<Item = Spanned>| {
            let (typed, span) = next(args)?;
            want_int(typed, span).map(Box::new)
        };
        let random = |kind, code| Typed::scalar(kind, code, Purity::Random);
        let result = match (function, args.len()) {
            ("uniform", 2) => self.uniform(next(&mut args)?, next(&mut args)?)?,
            ("uniform_except", 3) => {
                let (low, high, except) = (int(&mut args)?, int(&mut args)?, int(&mut args)?);
                random(Kind::Int, Scalar::UniformExcept(low, high, except))
            }
            ("nurand", 3) => self.nurand(next(&mut args)?, int(&mut args)?, int(&mut args)?)?,
            ("zipf", 3) => zipf(next(&mut args)?, next(&mut args)?, next(&mut args)?)?,
            ("chance", 1) => chance(next(&mut args)?)?,
            ("chance", 3) => {
                let condition = chance(next(&mut args)?)?;
                self.choose((condition, span), next(&mut args)?, next(&mut args)?)?
            }
            ("if", 3) => self.choose(next(&mut args)?, next(&mut args)?, next(&mut args)?)?,
            ("pick", 1..) => self.pick(args.by_ref().map(|arg| (1, arg)).collect())?,
            ("weighted", 2..) => {
                let mut choices = Vec::new();
                while let Some((weight, span)) = args.next() {
                    let weight = weight.as_constant().filter(|weight| *weight > 0).ok_or_else(|| {
                        error(SqlState::INVALID_PARAMETER_VALUE, span, "a weight is a number above 0")
                    })?;
                    choices.push((weight as u64, next(&mut args)?));
                }
                self.pick(choices)?
            }
            ("permutation", 3) => {
                let (index, n, key) = (int(&mut args)?, int(&mut args)?, int(&mut args)?);
                // It differs from seed to seed, so it must not be folded.
                let purity = purity.max(Purity::Row);
                Typed::scalar(Kind::Int, Scalar::Permutation { index, n, key }, purity)
            }
            ("text" | "letters" | "digits", 1 | 2) => {
                let alphabet = match function {
                    "text" => Alphabet::Alphanumeric,
                    "letters" => Alphabet::Lowercase,
                    _ => Alphabet::Digits,
                };
                let low = int(&mut args)?;
                let high = if args.len() == 0 { low.clone() } else { int(&mut args)? };
                Typed::produced(Kind::Text, Produced::Random { alphabet, low, high }, Purity::Random)
            }
            ("concat", 1..) => {
                let parts: Result<Vec<Produced>, Diagnostic> = args.by_ref().map(concat_part).collect();
                Typed::produced(Kind::Text, Produced::Concat(parts?), purity)
            }
            ("coalesce", 2) => self.coalesce(next(&mut args)?, next(&mut args)?)?,
            ("is_null", 1) => {
                let operand = Box::new(next(&mut args)?.0.into_produced());
                Typed::scalar(Kind::Bool, Scalar::IsNull(operand), purity)
            }
            ("min", 2) => self.arithmetic(ScalarOp::Least, next(&mut args)?, next(&mut args)?)?,
            ("max", 2) => self.arithmetic(ScalarOp::Greatest, next(&mut args)?, next(&mut args)?)?,
            ("seconds", 1) => {
                let factor = Box::new(Scalar::Constant(1_000_000));
                Typed::scalar(Kind::Int, Scalar::Binary(ScalarOp::Multiply, int(&mut args)?, factor), purity)
            }
            ("tpcc_last_name", 1) => {
                Typed::produced(Kind::Text, Produced::TpccLastName(int(&mut args)?), purity)
            }
            ("tpcc_original", 2) => {
                let code = Produced::TpccOriginal(int(&mut args)?, int(&mut args)?);
                Typed::produced(Kind::Text, code, Purity::Random)
            }
            _ => return Err(usage(function, span)),
        };
        match args.next() {
            Some((_, span)) => Err(usage(function, span)),
            None => Ok(result),
        }
    }

    fn array(&mut self, length: &Expr, each: &Expr, scope: &Scope) -> Result<Typed, Diagnostic> {
        let length_typed = self.compile(length, scope)?;
        let length_purity = length_typed.purity;
        let length = Box::new(want_int(length_typed, length.span)?);
        let index = self.scalar_slot();
        let mut inner = scope.clone();
        inner.define("index", Typed::scalar(Kind::Int, Scalar::Slot(index), Purity::Row));
        let each_typed = self.compile(each, &inner)?;
        if matches!(each_typed.kind, Kind::Array(_)) {
            return Err(mismatch(each.span, "an element that is no array", &each_typed.kind));
        }
        let purity = length_purity.max(each_typed.purity).max(Purity::Row);
        let element = each_typed.kind.clone();
        let kind = Kind::Array(Box::new(element.clone()));
        let each = Box::new(each_typed.into_produced());
        Ok(Typed::produced(kind, Produced::Array { element, length, index, each }, purity))
    }

    fn uniform(&mut self, (low, low_span): Spanned, (high, high_span): Spanned) -> Result<Typed, Diagnostic> {
        let (kind, low, high) = if low.kind == Kind::Time && high.kind == Kind::Time {
            let time = |typed, span| want(typed, span, "a time", |kind| *kind == Kind::Time);
            (Kind::Time, time(low, low_span)?, time(high, high_span)?)
        } else {
            let scale = decimals(&low.kind).max(decimals(&high.kind));
            let kind = if scale == 0 { Kind::Int } else { Kind::Decimal(scale) };
            (kind, self.scaled(low, low_span, scale)?, self.scaled(high, high_span, scale)?)
        };
        let ends = (constant_value(&low), constant_value(&high));
        let code = match ends {
            (Some(low), Some(high)) if low > high => {
                return Err(error(
                    SqlState::INVALID_PARAMETER_VALUE,
                    Span { end: high_span.end, ..low_span },
                    "the range is empty: its low end is above its high end",
                ));
            }
            (Some(low), Some(high)) if high.checked_sub(low).is_some_and(|width| width < i64::MAX) => {
                Scalar::UniformConstant(low, (high - low) as u64 + 1)
            }
            _ => Scalar::Uniform(Box::new(low), Box::new(high)),
        };
        Ok(Typed::scalar(kind, code, Purity::Random))
    }

    fn nurand(
        &mut self,
        (a, span): Spanned,
        low: Box<Scalar>,
        high: Box<Scalar>,
    ) -> Result<Typed, Diagnostic> {
        let a = a.as_constant().filter(|a| *a > 0 && a.checked_add(1).is_some()).ok_or_else(|| {
            error(SqlState::INVALID_PARAMETER_VALUE, span, "nurand's A is a constant above 0")
                .with_hint("TPC-C has 255 for last names, 1023 for customers, 8191 for items")
        })?;
        let constant = self.nurand.iter().position(|known| *known == a).unwrap_or_else(|| {
            self.nurand.push(a);
            self.nurand.len() - 1
        });
        let code = Scalar::Nurand { a, constant, low, high };
        Ok(Typed::scalar(Kind::Int, code, Purity::Random))
    }

    fn choose(
        &mut self,
        (condition, condition_span): Spanned,
        then: Spanned,
        otherwise: Spanned,
    ) -> Result<Typed, Diagnostic> {
        let purity = condition.purity.max(then.0.purity).max(otherwise.0.purity);
        let condition = Box::new(want_bool(condition, condition_span)?);
        let (kind, mut branches) = self.unify(vec![then, otherwise])?;
        let (Some(otherwise), Some(then)) = (branches.pop(), branches.pop()) else {
            unreachable!("two go in, two come out")
        };
        Ok(match (then.code, otherwise.code) {
            (Code::Scalar(then), Code::Scalar(otherwise)) => {
                Typed::scalar(kind, Scalar::If(condition, Box::new(then), Box::new(otherwise)), purity)
            }
            (then, otherwise) => {
                let produced = |code| Box::new(Typed { code, kind: kind.clone(), purity }.into_produced());
                let code = Produced::If(condition, produced(then), produced(otherwise));
                Typed::produced(kind.clone(), code, purity)
            }
        })
    }

    fn pick(&mut self, choices: Vec<(u64, Spanned)>) -> Result<Typed, Diagnostic> {
        let (weights, values): (Vec<u64>, Vec<Spanned>) = choices.into_iter().unzip();
        let (kind, values) = self.unify(values)?;
        let mut total = 0u64;
        let cumulative = weights.into_iter().map(|weight| {
            total = total.saturating_add(weight);
            total
        });
        if values.iter().all(|value| matches!(value.code, Code::Scalar(_))) {
            let choices = cumulative.zip(values).filter_map(|(weight, value)| match value.code {
                Code::Scalar(scalar) => Some((weight, scalar)),
                Code::Produced(_) => None,
            });
            return Ok(Typed::scalar(kind, Scalar::Pick(choices.collect()), Purity::Random));
        }
        let choices = cumulative.zip(values).map(|(weight, value)| (weight, value.into_produced()));
        Ok(Typed::produced(kind, Produced::Pick(choices.collect()), Purity::Random))
    }

    fn coalesce(&mut self, first: Spanned, second: Spanned) -> Result<Typed, Diagnostic> {
        let purity = first.0.purity.max(second.0.purity);
        let (kind, mut values) = self.unify(vec![first, second])?;
        let (Some(second), Some(first)) = (values.pop(), values.pop()) else {
            unreachable!("two go in, two come out")
        };
        if matches!(first.code, Code::Scalar(_)) {
            return Ok(first);
        }
        let never_null = matches!(second.code, Code::Scalar(_));
        let code = Produced::Coalesce(Box::new(first.into_produced()), Box::new(second.into_produced()));
        Ok(if never_null {
            Typed::scalar(kind, Scalar::Unwrap(Box::new(code)), purity)
        } else {
            Typed::produced(kind, code, purity)
        })
    }

    /// Values that may stand for each other: the same kind, but for null and the number of decimals.
    fn unify(&mut self, values: Vec<Spanned>) -> Result<(Kind, Vec<Typed>), Diagnostic> {
        let is_number = |kind: &Kind| matches!(kind, Kind::Int | Kind::Decimal(_));
        let mut kind = Kind::Null;
        for (value, span) in &values {
            kind = match (&kind, &value.kind) {
                (Kind::Null, other) => other.clone(),
                (known, Kind::Null) => known.clone(),
                (known, other) if known == other => kind,
                (known, other) if is_number(known) && is_number(other) => {
                    Kind::Decimal(decimals(known).max(decimals(other)))
                }
                (known, other) => return Err(mismatch(*span, &describe_wanted(known), other)),
            };
        }
        let mut unified = Vec::with_capacity(values.len());
        for (value, span) in values {
            let rescale = is_number(&value.kind) && value.kind != kind;
            unified.push(if rescale {
                let purity = value.purity;
                Typed::scalar(kind.clone(), self.scaled(value, span, decimals(&kind))?, purity)
            } else {
                value
            });
        }
        Ok((kind, unified))
    }
}

fn describe_wanted(kind: &Kind) -> String {
    format!("{} as before it", super::compile::describe(kind))
}

fn constant_value(scalar: &Scalar) -> Option<i64> {
    match scalar {
        Scalar::Constant(value) => Some(*value),
        Scalar::Binary(ScalarOp::Multiply, left, right) => {
            constant_value(left)?.checked_mul(constant_value(right)?)
        }
        _ => None,
    }
}

fn concat_part((part, span): Spanned) -> Result<Produced, Diagnostic> {
    match part.kind {
        Kind::Text | Kind::Int | Kind::Bool | Kind::Null => Ok(part.into_produced()),
        other => Err(mismatch(span, "a text or an integer", &other)),
    }
}

/// A probability between 0 and 1, settable, so possibly only an integer.
fn chance((p, span): Spanned) -> Result<Typed, Diagnostic> {
    let scale = decimals(&p.kind);
    let denominator = 10u64.pow(u32::from(scale));
    if let Some(value) = p.as_constant()
        && !(0..=denominator as i64).contains(&value)
    {
        let message = "a probability is between 0 and 1";
        return Err(error(SqlState::INVALID_PARAMETER_VALUE, span, message));
    }
    let number = |kind: &Kind| matches!(kind, Kind::Int | Kind::Decimal(_));
    let numerator = Box::new(want(p, span, "a probability", number)?);
    Ok(Typed::scalar(Kind::Bool, Scalar::Chance { numerator, denominator }, Purity::Random))
}

fn zipf(theta: Spanned, low: Spanned, high: Spanned) -> Result<Typed, Diagnostic> {
    let invalid = |span, message: &str| error(SqlState::INVALID_PARAMETER_VALUE, span, message);
    let value = theta.0.as_constant().unwrap_or(0) as f64 / 10f64.powi(i32::from(decimals(&theta.0.kind)));
    if !(value > 0.0 && value < 1.0) {
        return Err(invalid(theta.1, "zipf's theta is a constant above 0 and below 1, as 0.99"));
    }
    let end = |(typed, span): Spanned| match (typed.as_constant(), &typed.kind) {
        (Some(value), Kind::Int) => Ok(value),
        _ => Err(invalid(span, "zipf's ends are constant integers")),
    };
    let high_span = high.1;
    let (low, high) = (end(low)?, end(high)?);
    match high.checked_sub(low) {
        Some(width @ 0..ZIPF_VALUES_MAX) => {
            let zipf = Zipf::new(value, low, width as u64 + 1);
            Ok(Typed::scalar(Kind::Int, Scalar::Zipf(Box::new(zipf)), Purity::Random))
        }
        _ => Err(invalid(high_span, "zipf is over one to 100 million values")),
    }
}

/// A constant in any form that PostgreSQL reads.
fn time(text: &str, span: Span) -> Result<Typed, Diagnostic> {
    match parse_text(text, &SqlType::Timestamp) {
        Ok(Value::Timestamp(time)) if !is_infinite_timestamp(time) => {
            Ok(Typed::scalar(Kind::Time, Scalar::Constant(time), Purity::Constant))
        }
        _ => Err(error(SqlState::INVALID_DATETIME_FORMAT, span, format!("'{text}' is not a time"))
            .with_hint("as in time('2026-01-31 12:00:00')")),
    }
}
