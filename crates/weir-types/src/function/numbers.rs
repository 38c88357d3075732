//! Mathematical functions.

use num_integer::Integer;

use super::arguments::{double, int, numeric, real};
use super::{Arg, CallTypes, Function};
use crate::cast::{fit_integer, float_overflow, float_underflow, out_of_range};
use crate::error::{SqlError, SqlState};
use crate::interrupt::check;
use crate::numeric::{Numeric as Decimal, division_by_zero};
use crate::operator::{BinaryOp, power_floats, specialise};
use crate::sql_type::SqlType;
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("abs", &[Int2], Int2, abs_int),
    Function::new("abs", &[Int4], Int4, abs_int),
    Function::new("abs", &[Int8], Int8, abs_int),
    Function::new("abs", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.abs()))),
    Function::new("abs", &[Float4], Float4, |a, _| Ok(Value::Float4(real(&a[0])?.abs()))),
    Function::new("abs", &[Float8], Float8, |a, _| of_double(a, f64::abs)),
    Function::new("ceil", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.ceil()))),
    Function::new("ceil", &[Float8], Float8, |a, _| of_double(a, f64::ceil)),
    Function::new("ceiling", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.ceil()))),
    Function::new("ceiling", &[Float8], Float8, |a, _| of_double(a, f64::ceil)),
    Function::new("floor", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.floor()))),
    Function::new("floor", &[Float8], Float8, |a, _| of_double(a, f64::floor)),
    Function::new("round", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.round(0)))),
    Function::new("round", &[Float8], Float8, |a, _| of_double(a, f64::round_ties_even)),
    Function::new("round", &[Numeric, Int4], Numeric, |a, _| {
        Ok(Value::Numeric(numeric(&a[0])?.round(int(&a[1])? as i32)))
    }),
    Function::new("trunc", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.trunc(0)))),
    Function::new("trunc", &[Float8], Float8, |a, _| of_double(a, f64::trunc)),
    Function::new("trunc", &[Numeric, Int4], Numeric, |a, _| {
        Ok(Value::Numeric(numeric(&a[0])?.trunc(int(&a[1])? as i32)))
    }),
    Function::new("sign", &[Numeric], Numeric, sign_numeric),
    Function::new("sign", &[Float8], Float8, |a, _| {
        of_double(a, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() })
    }),
    Function::new("mod", &[Int2, Int2], Int2, modulo),
    Function::new("mod", &[Int4, Int4], Int4, modulo),
    Function::new("mod", &[Int8, Int8], Int8, modulo),
    Function::new("mod", &[Numeric, Numeric], Numeric, modulo),
    Function::new("div", &[Numeric, Numeric], Numeric, |a, _| {
        numeric(&a[0])?.div_truncated(numeric(&a[1])?).map(Value::Numeric)
    }),
    Function::new("gcd", &[Int4, Int4], Int4, gcd_int),
    Function::new("gcd", &[Int8, Int8], Int8, gcd_int),
    Function::new("gcd", &[Numeric, Numeric], Numeric, |a, _| {
        numeric(&a[0])?.gcd(numeric(&a[1])?).map(Value::Numeric)
    }),
    Function::new("lcm", &[Int4, Int4], Int4, lcm_int),
    Function::new("lcm", &[Int8, Int8], Int8, lcm_int),
    Function::new("lcm", &[Numeric, Numeric], Numeric, |a, _| {
        numeric(&a[0])?.lcm(numeric(&a[1])?).map(Value::Numeric)
    }),
    Function::new("power", &[Numeric, Numeric], Numeric, power_numeric),
    Function::new("power", &[Float8, Float8], Float8, power_double),
    Function::new("pow", &[Numeric, Numeric], Numeric, power_numeric),
    Function::new("pow", &[Float8, Float8], Float8, power_double),
    Function::new("sqrt", &[Numeric], Numeric, |a, _| numeric(&a[0])?.sqrt().map(Value::Numeric)),
    Function::new("sqrt", &[Float8], Float8, sqrt_double),
    Function::new("cbrt", &[Float8], Float8, |a, _| of_double(a, f64::cbrt)),
    Function::new("exp", &[Numeric], Numeric, |a, _| numeric(&a[0])?.exp().map(Value::Numeric)),
    Function::new("exp", &[Float8], Float8, exp_double),
    Function::new("ln", &[Numeric], Numeric, |a, _| numeric(&a[0])?.ln().map(Value::Numeric)),
    Function::new("ln", &[Float8], Float8, |a, _| logarithm(double(&a[0])?, f64::ln)),
    Function::new("log", &[Numeric], Numeric, log10_numeric),
    Function::new("log", &[Float8], Float8, |a, _| logarithm(double(&a[0])?, f64::log10)),
    Function::new("log10", &[Numeric], Numeric, log10_numeric),
    Function::new("log10", &[Float8], Float8, |a, _| logarithm(double(&a[0])?, f64::log10)),
    Function::new("log", &[Numeric, Numeric], Numeric, |a, _| {
        numeric(&a[1])?.log(numeric(&a[0])?).map(Value::Numeric)
    }),
    Function::new("pi", &[], Float8, |_, _| Ok(Value::Float8(std::f64::consts::PI))),
    Function::new("degrees", &[Float8], Float8, |a, _| of_double(a, |x| x / 0.017_453_292_519_943_295)),
    Function::new("radians", &[Float8], Float8, |a, _| of_double(a, |x| x * 0.017_453_292_519_943_295)),
    Function::new("sin", &[Float8], Float8, |a, _| of_double(a, f64::sin)),
    Function::new("cos", &[Float8], Float8, |a, _| of_double(a, f64::cos)),
    Function::new("tan", &[Float8], Float8, |a, _| of_double(a, f64::tan)),
    Function::new("cot", &[Float8], Float8, |a, _| of_double(a, |x| 1.0 / x.tan())),
    Function::new("asin", &[Float8], Float8, |a, _| in_unit(a, f64::asin)),
    Function::new("acos", &[Float8], Float8, |a, _| in_unit(a, f64::acos)),
    Function::new("atan", &[Float8], Float8, |a, _| of_double(a, f64::atan)),
    Function::new("atan2", &[Float8, Float8], Float8, |a, _| {
        Ok(Value::Float8(double(&a[0])?.atan2(double(&a[1])?)))
    }),
    Function::new("sinh", &[Float8], Float8, |a, _| of_double(a, f64::sinh)),
    Function::new("cosh", &[Float8], Float8, |a, _| of_double(a, f64::cosh)),
    Function::new("tanh", &[Float8], Float8, |a, _| of_double(a, f64::tanh)),
    Function::new("factorial", &[Int8], Numeric, factorial),
    Function::new("scale", &[Numeric], Int4, |a, _| {
        let numeric = numeric(&a[0])?;
        Ok(if numeric.is_finite() { Value::Int(i64::from(numeric.scale())) } else { Value::Null })
    }),
    Function::new("min_scale", &[Numeric], Int4, |a, _| {
        let numeric = numeric(&a[0])?;
        Ok(if numeric.is_finite() { Value::Int(i64::from(numeric.min_scale())) } else { Value::Null })
    }),
    Function::new("trim_scale", &[Numeric], Numeric, |a, _| Ok(Value::Numeric(numeric(&a[0])?.trim_scale()))),
    Function::new("width_bucket", &[Numeric, Numeric, Numeric, Int4], Int4, width_bucket),
];

fn of_double(args: &[Value], apply: impl Fn(f64) -> f64) -> Evaluated {
    Ok(Value::Float8(apply(double(&args[0])?)))
}

fn in_unit(args: &[Value], apply: impl Fn(f64) -> f64) -> Evaluated {
    let x = double(&args[0])?;
    if x.abs() > 1.0 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"));
    }
    Ok(Value::Float8(apply(x)))
}

fn abs_int(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    let out = || out_of_range(&types.result.to_string());
    fit_integer(int(&args[0])?.checked_abs().ok_or_else(out)?, types.result)
}

fn sign_numeric(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let x = numeric(&args[0])?;
    Ok(Value::Numeric(if x.is_nan() { Decimal::nan() } else { Decimal::from_i64(i64::from(x.signum())) }))
}

fn modulo(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    specialise(BinaryOp::Modulo, types.result, types.result)(&args[0], &args[1])
}

fn gcd_int(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    let (a, b) = (int(&args[0])?, int(&args[1])?);
    let gcd = i128::from(a).gcd(&i128::from(b));
    let out = |_| out_of_range(&types.result.to_string());
    fit_integer(i64::try_from(gcd).map_err(out)?, types.result)
}

fn lcm_int(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    let (a, b) = (int(&args[0])?, int(&args[1])?);
    let lcm = i128::from(a).lcm(&i128::from(b));
    let out = |_| out_of_range(&types.result.to_string());
    fit_integer(i64::try_from(lcm).map_err(out)?, types.result)
}

fn power_numeric(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    numeric(&args[0])?.power(numeric(&args[1])?).map(Value::Numeric)
}

fn power_double(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    power_floats(double(&args[0])?, double(&args[1])?).map(Value::Float8)
}

fn sqrt_double(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let x = double(&args[0])?;
    if x < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        ));
    }
    Ok(Value::Float8(x.sqrt()))
}

fn exp_double(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let x = double(&args[0])?;
    let result = x.exp();
    if result.is_infinite() && x.is_finite() {
        return Err(float_overflow());
    }
    if result == 0.0 && x.is_finite() {
        return Err(float_underflow());
    }
    Ok(Value::Float8(result))
}

fn logarithm(x: f64, apply: fn(f64) -> f64) -> Evaluated {
    let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message));
    if x == 0.0 {
        return refuse("cannot take logarithm of zero");
    }
    if x < 0.0 {
        return refuse("cannot take logarithm of a negative number");
    }
    Ok(Value::Float8(apply(x)))
}

fn log10_numeric(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    numeric(&args[0])?.log(&Decimal::from_i64(10)).map(Value::Numeric)
}

fn factorial(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let n = int(&args[0])?;
    if n < 0 {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "factorial of a negative number is undefined",
        ));
    }
    if n > 32177 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format"));
    }
    let mut product = Decimal::ONE;
    for factor in 2..=n {
        check()?;
        product = product.mul(&Decimal::from_i64(factor))?;
    }
    Ok(Value::Numeric(product))
}

fn width_bucket(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (x, low, high) = (numeric(&args[0])?, numeric(&args[1])?, numeric(&args[2])?);
    let count = int(&args[3])?;
    let refuse = |message: &str| Err(SqlError::new(SqlState(*b"2201G"), message));
    if count <= 0 {
        return refuse("count must be greater than zero");
    }
    if low == high {
        return refuse("lower bound cannot equal upper bound");
    }
    let ascending = low < high;
    let (below, above) = if ascending { (x < low, x >= high) } else { (x > low, x <= high) };
    if below {
        return Ok(Value::Int(0));
    }
    if above {
        return fit_integer(count + 1, &SqlType::Int4);
    }
    let position = x.sub(low)?.mul(&Decimal::from_i64(count))?;
    let width = high.sub(low)?;
    if width.is_zero() {
        return Err(division_by_zero());
    }
    let bucket = position.div_truncated(&width)?.to_i64().unwrap_or(0) + 1;
    Ok(Value::Int(bucket))
}
