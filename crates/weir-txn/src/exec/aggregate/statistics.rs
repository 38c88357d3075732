//! Variances, regressions and percentiles, computed in PostgreSQL's order of operations (`float.c`, `numeric.c`, `orderedsetaggs.c`), so
//! that all digits agree.

use weir_sql::bound::{AggregateFunction, Regression};
use weir_types::compare::compare;
use weir_types::numeric::Numeric;
use weir_types::operator::{BinaryOp, binary};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::FloatSum;

/// Sums of exact numbers and of their squares.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    count: i64,
    sum: Option<Numeric>,
    squares: Option<Numeric>,
}

impl Moments {
    pub fn add(&mut self, value: &Value) -> Result<(), SqlError> {
        let value = match value {
            Value::Int(value) => Numeric::from_i64(*value),
            Value::Numeric(value) => value.clone(),
            _ => return Ok(()),
        };
        let square = value.mul(&value)?;
        self.count += 1;
        self.sum = Some(match &self.sum {
            Some(sum) => sum.add(&value)?,
            None => value,
        });
        self.squares = Some(match &self.squares {
            Some(squares) => squares.add(&square)?,
            None => square,
        });
        Ok(())
    }

    pub fn result(self, function: AggregateFunction) -> Result<Value, SqlError> {
        let (sample, root) = kind(function);
        let (Some(sum), Some(squares)) = (self.sum, self.squares) else { return Ok(Value::Null) };
        if sample && self.count < 2 {
            return Ok(Value::Null);
        }
        if !sum.is_finite() {
            return Ok(Value::Numeric(Numeric::nan()));
        }
        let count = Numeric::from_i64(self.count);
        let numerator = count.mul(&squares)?.sub(&sum.mul(&sum)?)?;
        if numerator.signum() <= 0 {
            return Ok(Value::Numeric(Numeric::from_i64(0)));
        }
        let other = if sample { Numeric::from_i64(self.count - 1) } else { count.clone() };
        let variance = numerator.div(&count.mul(&other)?)?;
        match root {
            false => Ok(Value::Numeric(variance)),
            true => Ok(Value::Numeric(variance.sqrt_to_scale(variance.scale())?)),
        }
    }
}

/// Returns whether the function is over a sample, and whether it takes the square root.
fn kind(function: AggregateFunction) -> (bool, bool) {
    match function {
        AggregateFunction::VarianceSample => (true, false),
        AggregateFunction::VariancePopulation => (false, false),
        AggregateFunction::DeviationSample => (true, true),
        _ => (false, true),
    }
}

/// Variance of floats.
pub fn of_floats(sum: &FloatSum, function: AggregateFunction) -> Value {
    let (sample, root) = kind(function);
    let count = sum.count - i64::from(sample);
    if count < 1 {
        return Value::Null;
    }
    let variance = sum.squares / count as f64;
    Value::Float8(if root { variance.sqrt() } else { variance })
}

/// Sums over two columns, by the algorithm of Youngs and Cramer.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Pairs {
    pub fn add(&mut self, y: f64, x: f64) {
        let before = self.count;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before > 0.0 {
            let (dx, dy) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * before);
            self.xx += dx * dx * scale;
            self.yy += dy * dy * scale;
            self.xy += dx * dy * scale;
        } else {
            // NaN is preserved.
            let strange = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
            (self.xx, self.yy) = (strange(x), strange(y));
            self.xy = self.xx + self.yy;
        }
    }

    pub fn result(&self, of: Regression) -> Value {
        let Pairs { count, x, xx, y, yy, xy } = *self;
        if of == Regression::Count {
            return Value::Int(count as i64);
        }
        let fewest = if of == Regression::CovarianceSample { 2.0 } else { 1.0 };
        if count < fewest {
            return Value::Null;
        }
        Value::Float8(match of {
            Regression::AverageX => x / count,
            Regression::AverageY => y / count,
            Regression::SumOfSquaresX => xx,
            Regression::SumOfSquaresY => yy,
            Regression::SumOfProducts => xy,
            Regression::CovariancePopulation => xy / count,
            Regression::CovarianceSample => xy / (count - 1.0),
            Regression::Correlation if xx == 0.0 || yy == 0.0 => return Value::Null,
            Regression::Correlation => xy / (xx * yy).sqrt(),
            _ if xx == 0.0 => return Value::Null,
            Regression::Determination if yy == 0.0 => 1.0,
            Regression::Determination => (xy * xy) / (xx * yy),
            Regression::Slope => xy / xx,
            _ => (y - x * xy / xx) / count,
        })
    }
}

/// Most frequent of sorted values; the first one of a tie.
pub fn mode(values: &[Value]) -> Value {
    let mut best: (usize, Option<&Value>) = (0, None);
    for run in values.chunk_by(|left, right| compare(left, right).is_eq()) {
        if run.len() > best.0 {
            best = (run.len(), run.first());
        }
    }
    best.1.cloned().unwrap_or_default()
}

/// Value at a fraction of sorted values; interpolated if `continuous`.
pub fn percentile(
    fraction: &Value,
    values: &[Value],
    continuous: bool,
    ty: &SqlType,
) -> Result<Value, SqlError> {
    let (Value::Float8(fraction), false) = (fraction, values.is_empty()) else { return Ok(Value::Null) };
    if !(0.0..=1.0).contains(fraction) {
        let message = format!("percentile value {fraction} is not between 0 and 1");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let count = values.len() as f64;
    if !continuous {
        let at = (fraction * count).ceil() as usize;
        return Ok(values[at.saturating_sub(1).min(values.len() - 1)].clone());
    }
    let position = fraction * (count - 1.0);
    let (low, high) = (position.floor(), position.ceil());
    let (first, second) = (&values[low as usize], &values[high as usize]);
    if low == high {
        return Ok(first.clone());
    }
    let part = position - low;
    match (first, second) {
        (Value::Float8(first), Value::Float8(second)) => Ok(Value::Float8(first + part * (second - first))),
        _ => {
            let difference = binary(BinaryOp::Subtract, ty, ty, &SqlType::Interval, second, first)?;
            let (span, part) = (SqlType::Interval, Value::Float8(part));
            let share = binary(BinaryOp::Multiply, &span, &SqlType::Float8, &span, &difference, &part)?;
            binary(BinaryOp::Add, &span, ty, ty, &share, first)
        }
    }
}
