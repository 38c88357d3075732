//! Aggregate functions: accumulation and final values.
//!
//! Semantics of PostgreSQL: `sum` of integers widens, `avg` of integers is numeric, all but `count` are NULL over no rows.

mod statistics;

use weir_sql::bound::{Aggregate, AggregateFunction, SortOrder};
use weir_types::compare::compare;
use weir_types::datetime::print::timestamp_in_json;
use weir_types::interrupt::{check, room_for_more};
use weir_types::numeric::Numeric;
use weir_types::text::to_text;
use weir_types::value::{Interval, Json};
use weir_types::{SqlError, SqlState, SqlType, Value};

use statistics::{Moments, Pairs};

use super::compiler::Compiler;
use super::context::Cx;
use super::expr::CompiledExpr;
use super::expr::compile::compile_list;
use super::query::hash::ValueSet;
use super::query::partitions::Room;
use super::query::sort::Sorter;
use super::slots::Slot;
use crate::storage::temporary::TemporaryFiles;

#[derive(Debug)]
pub struct CompiledAggregate {
    pub function: AggregateFunction,
    pub args: Vec<CompiledExpr>,
    argument: SqlType,
    second: SqlType,
    result: SqlType,
    distinct: bool,
    filter: Option<CompiledExpr>,
    /// Sort keys of ORDER BY.
    keys: Vec<CompiledExpr>,
    /// Order of the rows that are accumulated at the end: of their sort keys, and with DISTINCT of the arguments behind these. None: they are
    /// accumulated as they come.
    order: Vec<(usize, SortOrder)>,
    /// Slot of the result.
    pub output: Slot,
}

/// State of one aggregate for one group.
pub struct Accumulator<'a> {
    pending: Option<Box<Pending<'a>>>,
    state: State,
}

/// Sort keys and arguments that are accumulated in order at the end.
struct Pending<'a> {
    rows: Sorter<'a>,
    /// DISTINCT: arguments that have come before, so that repetitions are dropped at once. None: there is no room for them any more, and
    /// repetitions are found when they are sorted.
    seen: Option<(ValueSet, Room<'a>)>,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    /// Sum of integers in 128 bits, which suffice for at least 2^64 values.
    Int {
        sum: i128,
        count: i64,
    },
    Numeric {
        sum: Option<Numeric>,
        count: i64,
    },
    Float(FloatSum),
    Interval {
        months: i64,
        days: i64,
        microseconds: i128,
        count: i64,
    },
    /// min, max, bool_and and bool_or: the best value so far.
    Best(Value),
    List(Vec<Value>),
    Text(Option<String>),
    Members(Vec<(String, Json)>),
    Bits(Option<i64>),
    Moments(Moments),
    Pairs(Pairs),
    /// Values in sort order.
    Percentile {
        fraction: Value,
        values: Vec<Value>,
    },
}

/// Sum of floats, with PostgreSQL's overflow errors.
#[derive(Clone, Debug, Default)]
struct FloatSum {
    sum: f64,
    count: i64,
    /// Sum of squared differences from the mean. PostgreSQL computes it for `avg` too, which therefore fails if it overflows.
    squares: f64,
}

impl FloatSum {
    /// `sum(real)` rounds to real at every step.
    fn add_real(&mut self, value: f32) -> Result<(), SqlError> {
        let sum = self.sum as f32 + value;
        self.count += 1;
        let overflows = sum.is_infinite() && self.sum.is_finite() && value.is_finite();
        self.sum = f64::from(sum);
        if overflows { Err(float_overflow()) } else { Ok(()) }
    }

    fn add_double(&mut self, value: f64, average: bool) -> Result<(), SqlError> {
        let before = self.count as f64;
        let sum = self.sum + value;
        let overflows = sum.is_infinite() && self.sum.is_finite() && value.is_finite();
        self.count += 1;
        if average && before > 0.0 {
            let difference = value * (before + 1.0) - sum;
            self.squares += difference * difference / ((before + 1.0) * before);
            if self.squares.is_infinite() && self.sum.is_finite() && value.is_finite() {
                return Err(float_overflow());
            }
        }
        if self.squares.is_infinite() || !value.is_finite() {
            self.squares = f64::NAN;
        }
        self.sum = sum;
        if overflows { Err(float_overflow()) } else { Ok(()) }
    }
}

fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

impl CompiledAggregate {
    pub fn compile(
        aggregate: &Aggregate,
        result: &SqlType,
        compiler: &mut Compiler<'_>,
    ) -> Result<CompiledAggregate, SqlError> {
        let (mut keys, mut order) = (Vec::with_capacity(aggregate.order_by.len()), Vec::new());
        for (at, (expr, of)) in aggregate.order_by.iter().enumerate() {
            keys.push(CompiledExpr::compile(expr, compiler)?);
            order.push((at, *of));
        }
        if aggregate.distinct {
            // DISTINCT sorts its arguments, which is visible in array_agg and string_agg.
            order.extend((0..aggregate.args.len()).map(|at| (keys.len() + at, SortOrder::ASCENDING)));
        }
        let filter = aggregate.filter.as_ref().map(|filter| CompiledExpr::compile(filter, compiler));
        Ok(CompiledAggregate {
            function: aggregate.function,
            args: compile_list(&aggregate.args, compiler)?,
            argument: aggregate.args.first().map_or(SqlType::Unknown, |arg| arg.ty.clone()),
            second: aggregate.args.get(1).map_or(SqlType::Unknown, |arg| arg.ty.clone()),
            result: result.clone(),
            distinct: aggregate.distinct,
            filter: filter.transpose()?,
            keys,
            order,
            output: compiler.slots.fresh(),
        })
    }

    /// Returns which end of an ordered index answers a plain `min(x)` or `max(x)`.
    pub fn is_plain_extremum(&self) -> Option<bool> {
        match self.function {
            AggregateFunction::Minimum if self.filter.is_none() => Some(false),
            AggregateFunction::Maximum if self.filter.is_none() => Some(true),
            _ => None,
        }
    }

    /// Returns whether it sorts what it accumulates.
    pub fn sorts(&self) -> bool {
        !self.order.is_empty()
    }

    pub fn start<'a>(&'a self, files: Option<&'a dyn TemporaryFiles>) -> Accumulator<'a> {
        let state = match self.function {
            AggregateFunction::Count => State::Count(0),
            AggregateFunction::Sum | AggregateFunction::Average => match self.argument {
                SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => State::Int { sum: 0, count: 0 },
                SqlType::Float4 | SqlType::Float8 => State::Float(FloatSum::default()),
                SqlType::Interval => State::Interval { months: 0, days: 0, microseconds: 0, count: 0 },
                _ => State::Numeric { sum: None, count: 0 },
            },
            AggregateFunction::Minimum
            | AggregateFunction::Maximum
            | AggregateFunction::BoolAnd
            | AggregateFunction::BoolOr => State::Best(Value::Null),
            AggregateFunction::ArrayAgg | AggregateFunction::JsonbAgg => State::List(Vec::new()),
            AggregateFunction::StringAgg => State::Text(None),
            AggregateFunction::JsonbObjectAgg => State::Members(Vec::new()),
            AggregateFunction::BitAnd | AggregateFunction::BitOr | AggregateFunction::BitXor => {
                State::Bits(None)
            }
            AggregateFunction::VariancePopulation
            | AggregateFunction::VarianceSample
            | AggregateFunction::DeviationPopulation
            | AggregateFunction::DeviationSample => match self.argument {
                SqlType::Float4 | SqlType::Float8 => State::Float(FloatSum::default()),
                _ => State::Moments(Moments::default()),
            },
            AggregateFunction::Regression(_) => State::Pairs(Pairs::default()),
            AggregateFunction::Mode => State::List(Vec::new()),
            AggregateFunction::PercentileContinuous | AggregateFunction::PercentileDiscrete => {
                State::Percentile { fraction: Value::Null, values: Vec::new() }
            }
        };
        let pending = self.sorts().then(|| {
            let rows = Sorter::new(&self.order, None, files);
            let seen = self.distinct.then(|| (ValueSet::default(), Room::new(files)));
            Box::new(Pending { rows, seen })
        });
        Accumulator { pending, state }
    }

    /// Accumulates the row in the frame.
    pub fn add(&self, accumulator: &mut Accumulator<'_>, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        if let Some(filter) = &self.filter
            && !filter.truth(cx)?.is_true()
        {
            return Ok(());
        }
        let Accumulator { pending, state } = accumulator;
        let Some(pending) = pending else {
            return match (&mut *state, &self.args[..]) {
                (State::Count(count), []) => {
                    *count += 1;
                    Ok(())
                }
                (state, [arg]) => {
                    let value = arg.eval(cx)?;
                    self.feed(state, value, None)
                }
                (state, args) => {
                    let mut values = eval_all(args, cx)?.into_iter();
                    let first = values.next().unwrap_or_default();
                    self.feed(state, first, values.next())
                }
            };
        };
        let args = eval_all(&self.args, cx)?;
        pending.seen.take_if(|(_, room)| !room.has_any());
        if let Some((seen, room)) = &mut pending.seen {
            if !seen.insert(&args) {
                return Ok(());
            }
            room.take(|| Value::row_bytes(&args));
        }
        let mut row = eval_all(&self.keys, cx)?;
        row.extend(args);
        pending.rows.push(row)
    }

    /// Accumulates computed arguments, for an aggregate without DISTINCT, FILTER and ORDER BY.
    pub fn add_values(&self, accumulator: &mut Accumulator<'_>, args: Vec<Value>) -> Result<(), SqlError> {
        let mut args = args.into_iter();
        match (args.next(), &mut accumulator.state) {
            (None, State::Count(count)) => {
                *count += 1;
                Ok(())
            }
            (first, state) => self.feed(state, first.unwrap_or_default(), args.next()),
        }
    }

    fn feed(&self, state: &mut State, value: Value, second: Option<Value>) -> Result<(), SqlError> {
        if value.is_deferred() {
            return Err(deferred());
        }
        if let State::Members(members) = state {
            let null = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null");
            let key = match &value {
                Value::Null => None,
                Value::Timestamp(at) => Some(timestamp_in_json(*at, self.argument == SqlType::Timestamptz)),
                value => Some(to_text(value, &self.argument)),
            };
            members.push((key.ok_or_else(null)?, to_json(&second.unwrap_or_default(), &self.second)?));
            return Ok(());
        }
        let takes_null = matches!(
            self.function,
            AggregateFunction::ArrayAgg
                | AggregateFunction::JsonbAgg
                | AggregateFunction::PercentileContinuous
                | AggregateFunction::PercentileDiscrete
        );
        if value.is_null() && !takes_null {
            return Ok(());
        }
        match state {
            State::Count(count) => *count += 1,
            State::Int { sum, count } => {
                if let Value::Int(value) = value {
                    *sum += i128::from(value);
                    *count += 1;
                }
            }
            State::Numeric { sum, count } => {
                if let Value::Numeric(value) = value {
                    *sum = Some(match sum.take() {
                        None => value,
                        Some(sum) => sum.add(&value)?,
                    });
                    *count += 1;
                }
            }
            State::Float(float) => match value {
                Value::Float4(value) if self.function == AggregateFunction::Sum => float.add_real(value)?,
                Value::Float4(value) => float.add_double(f64::from(value), true)?,
                Value::Float8(value) => float.add_double(value, self.function != AggregateFunction::Sum)?,
                _ => {}
            },
            State::Interval { months, days, microseconds, count } => {
                if let Value::Interval(value) = value {
                    *months += i64::from(value.months);
                    *days += i64::from(value.days);
                    *microseconds += i128::from(value.microseconds);
                    *count += 1;
                }
            }
            State::Best(best) => self.improve(best, value),
            State::List(list) => list.push(value),
            State::Text(text) => self.append(text, &value, second.as_ref())?,
            State::Members(_) => {}
            State::Bits(bits) => {
                if let Value::Int(value) = value {
                    *bits = Some(match (self.function, *bits) {
                        (_, None) => value,
                        (AggregateFunction::BitAnd, Some(bits)) => bits & value,
                        (AggregateFunction::BitOr, Some(bits)) => bits | value,
                        (_, Some(bits)) => bits ^ value,
                    });
                }
            }
            State::Moments(moments) => moments.add(&value)?,
            State::Pairs(pairs) => {
                if let (Value::Float8(y), Some(Value::Float8(x))) = (value, second) {
                    pairs.add(y, x);
                }
            }
            State::Percentile { fraction, values } => {
                *fraction = value;
                values.extend(second.filter(|value| !value.is_null()));
            }
        }
        Ok(())
    }

    fn improve(&self, best: &mut Value, value: Value) {
        let better = match (self.function, &*best) {
            (_, Value::Null) => true,
            // FALSE sorts before TRUE.
            (AggregateFunction::Minimum | AggregateFunction::BoolAnd, best) => compare(&value, best).is_lt(),
            (_, best) => compare(&value, best).is_gt(),
        };
        if better {
            *best = value;
        }
    }

    fn append(
        &self,
        text: &mut Option<String>,
        value: &Value,
        separator: Option<&Value>,
    ) -> Result<(), SqlError> {
        let Value::Text(value) = value else { return Ok(()) };
        match text {
            None => *text = Some(value.to_string()),
            Some(text) => {
                let separator = match separator {
                    Some(Value::Text(separator)) => separator.as_str(),
                    _ => "",
                };
                let added = separator.len() + value.len();
                room_for_more(text.len() + added, added)?;
                text.push_str(separator);
                text.push_str(value);
            }
        }
        Ok(())
    }

    /// Final value over everything that was accumulated.
    pub fn finish(&self, accumulator: Accumulator<'_>) -> Result<Value, SqlError> {
        let Accumulator { pending, mut state } = accumulator;
        if let Some(pending) = pending {
            let Pending { rows, seen } = *pending;
            drop(seen);
            let (mut sorted, mut last) = (rows.finish()?, None);
            while let Some(mut row) = sorted.next_row()? {
                check()?;
                let args = row.split_off(self.keys.len());
                if self.distinct {
                    if last.as_ref() == Some(&args) {
                        continue;
                    }
                    last = Some(args.clone());
                }
                let mut args = args.into_iter();
                let first = args.next().unwrap_or_default();
                self.feed(&mut state, first, args.next())?;
            }
        }
        self.result_of(state)
    }

    /// Value over what has been accumulated so far, for an aggregate without DISTINCT and ORDER BY.
    pub fn value_so_far(&self, accumulator: &Accumulator<'_>) -> Result<Value, SqlError> {
        self.result_of(accumulator.state.clone())
    }

    fn is_variance(&self) -> bool {
        use AggregateFunction::*;
        matches!(self.function, VariancePopulation | VarianceSample | DeviationPopulation | DeviationSample)
    }

    fn result_of(&self, state: State) -> Result<Value, SqlError> {
        let average = self.function == AggregateFunction::Average;
        Ok(match state {
            State::Count(count) => Value::Int(count),
            State::Members(members) if members.is_empty() => Value::Null,
            State::Members(members) => Value::jsonb(weir_types::json::object(members)),
            State::Bits(bits) => bits.map_or(Value::Null, Value::Int),
            State::Moments(moments) => moments.result(self.function)?,
            State::Pairs(pairs) => match self.function {
                AggregateFunction::Regression(of) => pairs.result(of),
                _ => Value::Null,
            },
            State::Percentile { fraction, values } => {
                let continuous = self.function == AggregateFunction::PercentileContinuous;
                statistics::percentile(&fraction, &values, continuous, &self.result)?
            }
            State::List(list) if self.function == AggregateFunction::Mode => statistics::mode(&list),
            State::Int { count: 0, .. }
            | State::Float(FloatSum { count: 0, .. })
            | State::Interval { count: 0, .. }
            | State::Numeric { sum: None, .. } => Value::Null,
            State::Int { sum, count } if average => {
                Value::Numeric(Numeric::from_i128(sum, 0).div(&Numeric::from_i64(count))?)
            }
            State::Int { sum, .. } if matches!(self.result, SqlType::Numeric(_)) => {
                Value::Numeric(Numeric::from_i128(sum, 0))
            }
            State::Int { sum, .. } => {
                Value::Int(i64::try_from(sum).map_err(|_| {
                    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")
                })?)
            }
            State::Numeric { sum: Some(sum), count } if average => {
                Value::Numeric(sum.div(&Numeric::from_i64(count))?)
            }
            State::Numeric { sum: Some(sum), .. } => Value::Numeric(sum),
            State::Float(float) if self.is_variance() => statistics::of_floats(&float, self.function),
            State::Float(float) if average => Value::Float8(float.sum / float.count as f64),
            State::Float(float) if self.result == SqlType::Float4 => Value::Float4(float.sum as f32),
            State::Float(float) => Value::Float8(float.sum),
            State::Interval { months, days, microseconds, count } => {
                let sum = interval(months, days, microseconds)?;
                Value::interval(if average { sum.divide(count as f64)? } else { sum })
            }
            State::Best(value) => value,
            State::List(list) if list.is_empty() => Value::Null,
            State::List(list) if self.function == AggregateFunction::JsonbAgg => {
                let mut items: Vec<Json> = Vec::with_capacity(list.len());
                for value in &list {
                    items.push(to_json(value, &self.argument)?);
                }
                Value::jsonb(Json::Array(items))
            }
            State::List(list) => Value::array(self.argument.base(), list),
            State::Text(text) => text.map_or(Value::Null, Value::text),
        })
    }
}

fn eval_all(exprs: &[CompiledExpr], cx: &mut Cx<'_>) -> Result<Vec<Value>, SqlError> {
    exprs.iter().map(|expr| expr.eval(cx)).collect()
}

fn interval(months: i64, days: i64, microseconds: i128) -> Result<Interval, SqlError> {
    let overflow = |_| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range");
    Ok(Interval {
        months: i32::try_from(months).map_err(overflow)?,
        days: i32::try_from(days).map_err(overflow)?,
        microseconds: i64::try_from(microseconds).map_err(overflow)?,
    })
}

/// One element of `jsonb_agg`.
fn to_json(value: &Value, ty: &SqlType) -> Result<Json, SqlError> {
    if value.is_null() {
        return Ok(Json::Null);
    }
    let types = weir_types::function::CallTypes { args: std::slice::from_ref(ty), result: &SqlType::Jsonb };
    let function = weir_types::function::overloads("to_jsonb").first();
    match function.map(|function| (function.eval)(std::slice::from_ref(value), &types)) {
        Some(Ok(Value::Jsonb(json))) => Ok((*json).clone()),
        Some(Err(error)) => Err(error),
        _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "function to_jsonb does not exist")),
    }
}

fn deferred() -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "an aggregate over a value that another shard computes in the same statement",
    )
}

impl Accumulator<'_> {
    /// Returns whether `min` or `max` has met a non-null value.
    pub fn has_value(&self) -> bool {
        matches!(&self.state, State::Best(value) if !value.is_null())
    }
}
