//! Compiled generators: trees of typed nodes over numbered slots, and how they are evaluated.
//!
//! Numbers, booleans, decimals and times evaluate to one `i64`, whose meaning is given by the static [`Kind`]; so the hot path builds
//! only the final values, and looks up no names. Evaluation cannot fail: an error (an empty range, an overflow) is recorded in the
//! [`Context`], and the caller that has requested the row or call reports it.

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};
use weir_types::numeric::Numeric;
use weir_types::value::Array;
use weir_types::{SqlType, Value};

use super::text;

/// The static type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Bool,
    /// With its number of decimals: the `i64` is the mantissa.
    Decimal(u8),
    /// Microseconds since 2000-01-01.
    Time,
    Text,
    Array(Box<Kind>),
    /// The kind of `null` alone.
    Null,
}

/// A non-null integer, boolean, decimal or time.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    Constant(i64),
    Slot(usize),
    Binary(ScalarOp, Box<Scalar>, Box<Scalar>),
    Not(Box<Scalar>),
    And(Box<Scalar>, Box<Scalar>),
    Or(Box<Scalar>, Box<Scalar>),
    If(Box<Scalar>, Box<Scalar>, Box<Scalar>),
    /// Both ends included.
    Uniform(Box<Scalar>, Box<Scalar>),
    /// The same with constant bounds: the lower one, and the number of values.
    UniformConstant(i64, u64),
    /// Any value between the first two but the third, unless it is the only one.
    UniformExcept(Box<Scalar>, Box<Scalar>, Box<Scalar>),
    /// TPC-C clause 2.1.6; `constant` is an index into [`Context::nurand`].
    Nurand {
        a: i64,
        constant: usize,
        low: Box<Scalar>,
        high: Box<Scalar>,
    },
    Zipf(Box<Zipf>),
    /// True so often out of that many times.
    Chance {
        numerator: Box<Scalar>,
        denominator: u64,
    },
    Pick(Vec<(u64, Scalar)>),
    /// A pseudo-random permutation of 1..=n: where it puts the index; another one for each key.
    Permutation {
        index: Box<Scalar>,
        n: Box<Scalar>,
        key: Box<Scalar>,
    },
    IsNull(Box<Produced>),
    /// A value that cannot be NULL.
    Unwrap(Box<Produced>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarOp {
    Add,
    Subtract,
    Multiply,
    /// Towards zero, as SQL divides.
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Least,
    Greatest,
}

/// Anything that may be null or is not a scalar.
#[derive(Clone, Debug)]
pub(crate) enum Produced {
    Constant(Value),
    Slot(usize),
    Scalar(Kind, Box<Scalar>),
    If(Box<Scalar>, Box<Produced>, Box<Produced>),
    Pick(Vec<(u64, Produced)>),
    Coalesce(Box<Produced>, Box<Produced>),
    /// Characters of an alphabet of 64 (or 10, for digits), with a minimal and a maximal number.
    Random {
        alphabet: text::Alphabet,
        low: Box<Scalar>,
        high: Box<Scalar>,
    },
    Concat(Vec<Produced>),
    TpccLastName(Box<Scalar>),
    TpccOriginal(Box<Scalar>, Box<Scalar>),
    Array {
        element: Kind,
        length: Box<Scalar>,
        /// Where the element's number, from 1, stands while `each` is evaluated.
        index: usize,
        each: Box<Produced>,
    },
}

/// Zipf's distribution over `low..low+n` by the method of Gray et al. (1994), which YCSB uses too.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    low: i64,
    n: f64,
    theta: f64,
    zeta_n: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// `theta` in 0..1, `n` at least 1. Takes time in proportion to `n`.
    pub fn new(theta: f64, low: i64, n: u64) -> Zipf {
        let zeta = |n: u64| (1..=n).map(|i| 1.0 / (i as f64).powf(theta)).sum::<f64>();
        let zeta_n = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / zeta_n);
        Zipf { low, n: n as f64, theta, zeta_n, alpha: 1.0 / (1.0 - theta), eta }
    }

    fn draw(&self, context: &mut Context) -> i64 {
        self.low + self.rank(&mut context.rng) as i64
    }

    /// From 0, the most frequent, on.
    pub fn rank(&self, chance: &mut Xoshiro256PlusPlus) -> u64 {
        let u = (chance.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta_n;
        let rank = if uz < 1.0 {
            0.0
        } else if uz < 1.0 + 0.5f64.powf(self.theta) {
            1.0
        } else {
            self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha)
        };
        rank.clamp(0.0, self.n - 1.0) as u64
    }
}

/// State of an evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    rng: Xoshiro256PlusPlus,
    /// Distinguishes the permutations of different seeds.
    seed: u64,
    pub scalars: Vec<i64>,
    pub values: Vec<Value>,
    /// The run's constant C for each A of the workload (clause 2.1.6.1).
    pub nurand: Vec<i64>,
    /// The first thing that went wrong since it was last taken.
    pub error: Option<String>,
}

impl Context {
    pub fn new(seed: u64, slots: Slots, nurand: Vec<i64>) -> Context {
        Context {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            seed,
            scalars: vec![0; slots.scalars],
            values: vec![Value::Null; slots.values],
            nurand,
            error: None,
        }
    }

    /// Restarts the stream of random numbers, so that a row does not depend on those before it.
    pub fn reseed(&mut self, stream: u64) {
        self.rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.seed, stream));
    }

    /// A number below `n`, which is not 0. The bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.rng.next_u64()) * u128::from(n)) >> 64) as u64
    }

    pub fn random_bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    pub fn uniform(&mut self, low: i64, high: i64) -> i64 {
        if low > high {
            self.fail(|| format!("the range {low}..{high} is empty"));
            return low;
        }
        let count = (high as u64).wrapping_sub(low as u64).wrapping_add(1);
        let offset = if count == 0 { self.random_bits() } else { self.below(count) };
        low.wrapping_add(offset as i64)
    }

    #[cold]
    pub fn fail(&mut self, message: impl FnOnce() -> String) {
        if self.error.is_none() {
            self.error = Some(message());
        }
    }

    /// Picks an index by cumulative weights.
    fn pick<T>(&mut self, choices: &[(u64, T)]) -> usize {
        let total = choices.last().map_or(1, |(cumulative, _)| *cumulative);
        let drawn = self.below(total.max(1));
        choices.iter().position(|(cumulative, _)| drawn < *cumulative).unwrap_or(0)
    }
}

/// Number of slots of each sort that a program needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots {
    pub scalars: usize,
    pub values: usize,
}

/// Two numbers to one that looks unlike both.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    SplitMix64::seed_from_u64(a.wrapping_add(b.wrapping_mul(0x9E37_79B9_7F4A_7C15))).next_u64()
}

impl Scalar {
    pub fn evaluate(&self, context: &mut Context) -> i64 {
        match self {
            Scalar::Constant(value) => *value,
            Scalar::Slot(slot) => context.scalars[*slot],
            Scalar::Binary(op, left, right) => {
                let left = left.evaluate(context);
                let right = right.evaluate(context);
                compute(*op, left, right, context)
            }
            Scalar::Not(operand) => i64::from(operand.evaluate(context) == 0),
            Scalar::And(left, right) => {
                i64::from(left.evaluate(context) != 0 && right.evaluate(context) != 0)
            }
            Scalar::Or(left, right) => i64::from(left.evaluate(context) != 0 || right.evaluate(context) != 0),
            Scalar::If(condition, then, otherwise) => {
                let branch = if condition.evaluate(context) != 0 { then } else { otherwise };
                branch.evaluate(context)
            }
            Scalar::Uniform(low, high) => {
                let low = low.evaluate(context);
                let high = high.evaluate(context);
                context.uniform(low, high)
            }
            Scalar::UniformConstant(low, count) => low + context.below(*count) as i64,
            Scalar::UniformExcept(low, high, except) => {
                let low = low.evaluate(context);
                let high = high.evaluate(context);
                let except = except.evaluate(context);
                if !(low..=high).contains(&except) || low == high {
                    return context.uniform(low, high);
                }
                let drawn = context.uniform(low, high - 1);
                drawn + i64::from(drawn >= except)
            }
            Scalar::Nurand { a, constant, low, high } => {
                let low = low.evaluate(context);
                let high = high.evaluate(context);
                let drawn = context.uniform(0, *a) | context.uniform(low, high);
                (drawn + context.nurand[*constant]) % (high - low + 1).max(1) + low
            }
            Scalar::Zipf(zipf) => zipf.draw(context),
            Scalar::Chance { numerator, denominator } => {
                let numerator = numerator.evaluate(context);
                i64::from(numerator > 0 && context.below(*denominator) < numerator as u64)
            }
            Scalar::Pick(choices) => {
                let chosen = context.pick(choices);
                choices[chosen].1.evaluate(context)
            }
            Scalar::Permutation { index, n, key } => {
                let index = index.evaluate(context);
                let n = n.evaluate(context);
                let key = key.evaluate(context);
                permute(index, n, key, context)
            }
            Scalar::IsNull(operand) => i64::from(operand.evaluate(context).is_null()),
            Scalar::Unwrap(operand) => match operand.evaluate(context) {
                Value::Int(value) | Value::Timestamp(value) => value,
                Value::Numeric(Numeric::Small { mantissa, .. }) => mantissa,
                Value::Bool(value) => i64::from(value),
                _ => 0,
            },
        }
    }
}

fn compute(op: ScalarOp, left: i64, right: i64, context: &mut Context) -> i64 {
    let result = match op {
        ScalarOp::Add => left.checked_add(right),
        ScalarOp::Subtract => left.checked_sub(right),
        ScalarOp::Multiply => left.checked_mul(right),
        ScalarOp::Divide => left.checked_div(right),
        ScalarOp::Modulo => left.checked_rem(right),
        ScalarOp::Equal => Some(i64::from(left == right)),
        ScalarOp::NotEqual => Some(i64::from(left != right)),
        ScalarOp::Less => Some(i64::from(left < right)),
        ScalarOp::LessOrEqual => Some(i64::from(left <= right)),
        ScalarOp::Greater => Some(i64::from(left > right)),
        ScalarOp::GreaterOrEqual => Some(i64::from(left >= right)),
        ScalarOp::Least => Some(left.min(right)),
        ScalarOp::Greatest => Some(left.max(right)),
    };
    result.unwrap_or_else(|| {
        context.fail(|| match (op, right) {
            (ScalarOp::Divide | ScalarOp::Modulo, 0) => "division by zero".to_string(),
            _ => "a number is out of range".to_string(),
        });
        0
    })
}

fn permute(index: i64, n: i64, key: i64, context: &mut Context) -> i64 {
    if !(1..=n).contains(&index) {
        context.fail(|| format!("permutation has no element {index}: it has {n}"));
        return index;
    }
    permuted(index as u64 - 1, n as u64, mix(context.seed, key as u64)) as i64 + 1
}

/// Where a permutation of `0..n` puts a position below `n`; another one for each key.
///
/// A Feistel network over the smallest even number of bits that holds `n`, walked until it lands below `n`.
pub(crate) fn permuted(mut position: u64, n: u64, key: u64) -> u64 {
    let half_bits = (64 - (n - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half_bits) - 1;
    loop {
        let (mut left, mut right) = (position >> half_bits, position & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(key.wrapping_add(round), right) & mask));
        }
        position = left << half_bits | right;
        if position < n {
            return position;
        }
    }
}

impl Produced {
    /// The value in its natural type: integers `Int`, decimals `Numeric`, times `Timestamp`.
    pub fn evaluate(&self, context: &mut Context) -> Value {
        match self {
            Produced::Constant(value) => value.clone(),
            Produced::Slot(slot) => context.values[*slot].clone(),
            Produced::Scalar(kind, scalar) => natural(kind, scalar.evaluate(context)),
            Produced::If(condition, then, otherwise) => {
                let branch = if condition.evaluate(context) != 0 { then } else { otherwise };
                branch.evaluate(context)
            }
            Produced::Pick(choices) => {
                let chosen = context.pick(choices);
                choices[chosen].1.evaluate(context)
            }
            Produced::Coalesce(first, second) => match first.evaluate(context) {
                Value::Null => second.evaluate(context),
                value => value,
            },
            Produced::Random { alphabet, low, high } => {
                let low = low.evaluate(context);
                let high = high.evaluate(context);
                text::random(*alphabet, low, high, context)
            }
            Produced::Concat(parts) => concat(parts, context),
            Produced::TpccLastName(number) => {
                let number = number.evaluate(context);
                text::tpcc_last_name(number, context)
            }
            Produced::TpccOriginal(low, high) => {
                let low = low.evaluate(context);
                let high = high.evaluate(context);
                text::tpcc_original(low, high, context)
            }
            Produced::Array { element, length, index, each } => {
                let length = length.evaluate(context).max(0);
                let mut values = Vec::with_capacity(length as usize);
                for position in 1..=length {
                    context.scalars[*index] = position;
                    values.push(each.evaluate(context));
                }
                Value::Array(Array { element: natural_type(element), values }.into())
            }
        }
    }
}

fn concat(parts: &[Produced], context: &mut Context) -> Value {
    let mut whole = String::new();
    for part in parts {
        match part.evaluate(context) {
            Value::Text(text) => whole.push_str(&text),
            Value::Int(number) => whole.push_str(&number.to_string()),
            Value::Bool(value) => whole.push_str(if value { "true" } else { "false" }),
            // Other kinds are refused when the expression is compiled; null adds nothing.
            _ => {}
        }
    }
    Value::text(whole)
}

pub(crate) fn natural(kind: &Kind, scalar: i64) -> Value {
    match kind {
        Kind::Bool => Value::Bool(scalar != 0),
        Kind::Decimal(scale) => Value::Numeric(Numeric::Small { scale: *scale, mantissa: scalar }),
        Kind::Time => Value::Timestamp(scalar),
        _ => Value::Int(scalar),
    }
}

fn natural_type(kind: &Kind) -> SqlType {
    match kind {
        Kind::Int => SqlType::Int8,
        Kind::Bool => SqlType::Bool,
        Kind::Decimal(_) => SqlType::Numeric(None),
        Kind::Time => SqlType::Timestamp,
        Kind::Text | Kind::Null => SqlType::Text,
        Kind::Array(element) => SqlType::Array(Box::new(natural_type(element))),
    }
}
