//! Square root, `exp`, `ln`, `log` and `power`: fixed-point series on big integers, rounded to the scale
//! that PostgreSQL chooses.

use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::slow::big_leading_group;
use super::{
    MAX_DISPLAY_SCALE, MAX_INTEGER_DIGITS, MIN_SIGNIFICANT_DIGITS, Numeric, divide_rounded, division_by_zero,
    overflow, power_of_ten,
};
use crate::error::{SqlError, SqlState};
use crate::interrupt::check_work;

/// Natural logarithm to decimal digits.
const LOG10_E: f64 = std::f64::consts::LOG10_E;

fn out_of_domain(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message)
}

/// A fixed-point number with `digits` decimals, rounded to `scale` decimals.
fn rounded(fixed: &BigInt, digits: i64, scale: i64) -> Result<Numeric, SqlError> {
    if scale >= digits {
        return Numeric::from_big(fixed * power_of_ten((scale - digits) as u32), scale);
    }
    Numeric::from_big(divide_rounded(fixed, &power_of_ten((digits - scale) as u32)), scale)
}

/// `mantissa × 10^-scale` as fixed point with `digits` decimals.
fn fixed((mantissa, scale): (&BigInt, i64), digits: i64) -> BigInt {
    if digits >= scale {
        mantissa * power_of_ten((digits - scale) as u32)
    } else {
        divide_rounded(mantissa, &power_of_ten((scale - digits) as u32))
    }
}

/// ln of a positive number, as fixed point with `digits` decimals.
fn ln_fixed(mantissa: &BigInt, scale: i64, digits: i64) -> Result<BigInt, SqlError> {
    let exponent = mantissa.magnitude().to_string().len() as i64 - scale;
    let working = digits + 25;
    // Normalised to [0.1, 1), so that the precision does not depend on the magnitude.
    let normal = fixed((mantissa, scale + exponent), working);
    let mut result = ln_near_one(normal, working)?;
    if exponent != 0 {
        let tenth = power_of_ten((working - 1) as u32);
        result -= ln_near_one(tenth, working)? * exponent;
    }
    Ok(divide_rounded(&result, &power_of_ten(25)))
}

/// Checks before one round of a series: a multiplication and a division of numbers of so many digits.
fn check_round(digits: i64) -> Result<(), SqlError> {
    let words = digits as usize / 19;
    check_work(words * words / 256)
}

fn ln_near_one(mut x: BigInt, digits: i64) -> Result<BigInt, SqlError> {
    let one = power_of_ten(digits as u32);
    let mut doublings = 0u32;
    let bound = &one / 50;
    while (&x - &one).abs() > bound {
        check_round(digits)?;
        x = (&x * &one).sqrt();
        doublings += 1;
    }
    // ln x = 2 atanh((x - 1) / (x + 1))
    let z = (&x - &one) * &one / (&x + &one);
    let square = &z * &z / &one;
    let (mut term, mut sum, mut n) = (z.clone(), z, 1u32);
    while !term.is_zero() {
        check_round(digits)?;
        term = term * &square / &one;
        n += 2;
        sum += &term / n;
    }
    Ok((sum * 2) << doublings)
}

/// `e^x` for a fixed-point `x` with `digits` decimals, as fixed point with the same decimals.
fn exp_fixed(x: &BigInt, digits: i64, integer_digits: i64) -> Result<BigInt, SqlError> {
    let working = digits + integer_digits.max(0) + 30;
    let one = power_of_ten(working as u32);
    let mut halvings = 0u32;
    let mut reduced = x * power_of_ten((working - digits) as u32);
    while reduced.abs() > (&one >> 5) {
        reduced /= 2;
        halvings += 1;
    }
    let (mut term, mut sum, mut n) = (one.clone(), one.clone(), 1u32);
    while !term.is_zero() {
        check_round(working)?;
        term = term * &reduced / &one / n;
        sum += &term;
        n += 1;
    }
    for _ in 0..halvings {
        check_round(working)?;
        sum = &sum * &sum / &one;
    }
    Ok(divide_rounded(&sum, &power_of_ten((working - digits) as u32)))
}

/// PostgreSQL's estimate_ln_dweight: the decimal weight of ln(x).
fn ln_weight(mantissa: &BigInt, scale: i64) -> i64 {
    let tenths = |n: i64| BigInt::from(n) * power_of_ten(scale as u32);
    let ten_times = mantissa * 10;
    if ten_times >= tenths(9) && ten_times <= tenths(11) {
        let difference = mantissa - tenths(1);
        if difference.is_zero() {
            return 0;
        }
        let group = big_leading_group(&difference, scale);
        return group.weight * 4 + (group.digit as f64).log10() as i64;
    }
    if mantissa.is_zero() {
        return 0;
    }
    let printed = mantissa.magnitude().to_string();
    let leading: f64 = printed[..printed.len().min(17)].parse().unwrap_or(1.0);
    let exponent = printed.len().saturating_sub(17) as i64 - scale;
    let ln = leading.ln() + exponent as f64 * std::f64::consts::LN_10;
    ln.abs().log10() as i64
}

fn result_scale(wanted: i64, at_least: i64) -> i64 {
    wanted.max(at_least).clamp(0, MAX_DISPLAY_SCALE)
}

impl Numeric {
    /// 2201F for negative numbers.
    pub fn sqrt(&self) -> Result<Numeric, SqlError> {
        self.root(None)
    }

    /// With so many digits behind the point.
    ///
    /// # Errors
    /// As [`Numeric::sqrt`].
    pub fn sqrt_to_scale(&self, scale: u16) -> Result<Numeric, SqlError> {
        self.root(Some(i64::from(scale)))
    }

    fn root(&self, to_scale: Option<i64>) -> Result<Numeric, SqlError> {
        let Some((mantissa, scale)) = self.finite() else {
            if self.signum() < 0 {
                return Err(negative_root());
            }
            return Ok(self.clone());
        };
        if mantissa.is_negative() {
            return Err(negative_root());
        }
        let weight = big_leading_group(&mantissa, scale).weight;
        let root_weight = weight * 2 + 1;
        let wanted = to_scale.unwrap_or(result_scale(MIN_SIGNIFICANT_DIGITS - root_weight, scale));
        // One digit more than wanted decides the rounding: the root is irrational or exact.
        let digits = wanted + 1;
        let root = fixed((&mantissa, scale), digits * 2).sqrt();
        rounded(&root, digits, wanted)
    }

    pub fn exp(&self) -> Result<Numeric, SqlError> {
        let Some((mantissa, scale)) = self.finite() else {
            return Ok(if self.signum() < 0 { Numeric::ZERO } else { self.clone() });
        };
        let weight = (self.to_f64() * LOG10_E).clamp(-2000.0 - 32767.0, 32767.0 * 8.0);
        if weight > MAX_INTEGER_DIGITS as f64 {
            return Err(overflow());
        }
        let wanted = result_scale(MIN_SIGNIFICANT_DIGITS - weight as i64, scale);
        if weight < -(wanted as f64) - 1.0 {
            return Numeric::from_big(BigInt::zero(), wanted);
        }
        let digits = wanted + 10;
        let x = fixed((&mantissa, scale), digits.max(scale));
        rounded(&exp_fixed(&x, digits.max(scale), weight as i64)?, digits.max(scale), wanted)
    }

    /// 2201E for zero and negative numbers.
    pub fn ln(&self) -> Result<Numeric, SqlError> {
        let Some((mantissa, scale)) = self.logarithm_argument()? else {
            return Ok(self.clone());
        };
        let wanted = result_scale(MIN_SIGNIFICANT_DIGITS - ln_weight(&mantissa, scale), scale);
        rounded(&ln_fixed(&mantissa, scale, wanted + 5)?, wanted + 5, wanted)
    }

    /// Logarithm of `self` to the given base.
    pub fn log(&self, base: &Numeric) -> Result<Numeric, SqlError> {
        let base_is_nan = base.is_nan();
        let (argument, base) = (self.logarithm_argument()?, base.logarithm_argument()?);
        let ((x, x_scale), (b, b_scale)) = match (argument, base) {
            (Some(argument), Some(base)) => (argument, base),
            // To an infinite base the logarithm of a finite number is 0, and that of infinity is undefined.
            (Some(_), None) if !base_is_nan => return Ok(Numeric::from(0_i64)),
            (None, Some(_)) if !self.is_nan() => return Ok(self.clone()),
            _ => return Ok(Numeric::nan()),
        };
        let weight = ln_weight(&x, x_scale) - ln_weight(&b, b_scale);
        let wanted = result_scale(MIN_SIGNIFICANT_DIGITS - weight, x_scale.max(b_scale));
        let digits = wanted + 40;
        let denominator = ln_fixed(&b, b_scale, digits)?;
        if denominator.is_zero() {
            return Err(division_by_zero());
        }
        let quotient = ln_fixed(&x, x_scale, digits)? * power_of_ten(digits as u32) / denominator;
        rounded(&quotient, digits, wanted)
    }

    fn logarithm_argument(&self) -> Result<Option<(BigInt, i64)>, SqlError> {
        match self.signum() {
            0 => {
                Err(out_of_domain(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of zero"))
            }
            -1 => Err(out_of_domain(
                SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
                "cannot take logarithm of a negative number",
            )),
            _ => Ok(self.finite()),
        }
    }

    /// 2201F where the result is not a real number.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric, SqlError> {
        let (Some((base, base_scale)), Some((power, power_scale))) = (self.finite(), exponent.finite())
        else {
            return self.power_of_special(exponent);
        };
        if base.is_zero() && power.is_negative() {
            return Err(out_of_domain(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        if base.is_negative() && !exponent.is_integral() {
            return Err(out_of_domain(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        if let Some(n) = exponent.as_i32() {
            let wanted = result_scale(MIN_SIGNIFICANT_DIGITS, base_scale);
            return integer_power(&base, base_scale, n, wanted);
        }
        if base.is_zero() {
            return Numeric::from_big(BigInt::zero(), MIN_SIGNIFICANT_DIGITS);
        }
        let odd = !exponent.rem(&Numeric::from_i64(2))?.is_zero();
        let ln = ln_approximate(&base, base_scale)? * exponent.to_f64();
        if ln.abs() > 2000.0 * 3.01 && ln < 0.0 {
            return Numeric::from_big(BigInt::zero(), MAX_DISPLAY_SCALE);
        }
        let weight = ln * LOG10_E;
        if weight > MAX_INTEGER_DIGITS as f64 {
            return Err(overflow());
        }
        let wanted = result_scale(MIN_SIGNIFICANT_DIGITS - weight as i64, base_scale.max(power_scale));
        let digits = wanted + weight.max(0.0) as i64 + power.magnitude().to_string().len() as i64 + 15;
        let ln = ln_fixed(&base.abs(), base_scale, digits)?;
        let x = divide_rounded(&(ln * &power), &power_of_ten(power_scale as u32));
        let result = exp_fixed(&x, digits, weight as i64)?;
        let result = if base.is_negative() && odd { -result } else { result };
        rounded(&result, digits, wanted)
    }

    fn power_of_special(&self, exponent: &Numeric) -> Result<Numeric, SqlError> {
        if exponent.is_zero() || *self == Numeric::ONE {
            return Ok(Numeric::ONE);
        }
        if self.is_nan() || exponent.is_nan() {
            return Ok(Numeric::nan());
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(out_of_domain(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        if self.signum() < 0 && exponent.is_finite() && !exponent.is_integral() {
            return Err(out_of_domain(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        if exponent.is_finite() {
            if exponent.signum() < 0 {
                return Ok(Numeric::ZERO);
            }
            let odd = !exponent.rem(&Numeric::from_i64(2))?.is_zero();
            return Ok(Numeric::infinity(self.signum() < 0 && odd));
        }
        let grows = self.abs() > Numeric::ONE;
        if self.abs() == Numeric::ONE {
            return Ok(Numeric::ONE);
        }
        Ok(if grows == (exponent.signum() > 0) { Numeric::infinity(false) } else { Numeric::ZERO })
    }
}

fn negative_root() -> SqlError {
    out_of_domain(
        SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
        "cannot take square root of a negative number",
    )
}

fn ln_approximate(mantissa: &BigInt, scale: i64) -> Result<f64, SqlError> {
    let fixed = ln_fixed(&mantissa.abs(), scale, 20)?;
    Ok(fixed.to_f64().unwrap_or(0.0) / 1e20)
}

fn integer_power(base: &BigInt, base_scale: i64, n: i32, wanted: i64) -> Result<Numeric, SqlError> {
    if n == 0 {
        return rounded(&BigInt::one(), 0, wanted);
    }
    if base.is_zero() {
        return Numeric::from_big(BigInt::zero(), wanted);
    }
    let weight = ln_approximate(base, base_scale)? * f64::from(n) * LOG10_E;
    if weight > MAX_INTEGER_DIGITS as f64 {
        return Err(overflow());
    }
    if weight < -(wanted as f64) - 2.0 {
        return Numeric::from_big(BigInt::zero(), wanted);
    }
    // Enough digits that what the multiplications cut off does not reach the result's last one.
    let precision = (wanted + weight as i64).max(0) + 40;
    let (power, scale) = approximate_power(base, base_scale, n.unsigned_abs(), precision);
    if n < 0 {
        return Numeric::quotient(&BigInt::one(), 0, &power, scale, wanted);
    }
    if scale >= 0 {
        rounded(&power, scale, wanted)
    } else {
        rounded(&(power * power_of_ten(-scale as u32)), 0, wanted)
    }
}

/// Repeated squaring to so many significant digits; exact if they suffice. The scale may be negative.
fn approximate_power(base: &BigInt, base_scale: i64, n: u32, precision: i64) -> (BigInt, i64) {
    let cut = |mantissa: BigInt, scale: i64| {
        let digits = (mantissa.bits() as f64 * std::f64::consts::LOG10_2) as i64;
        let excess = digits - precision;
        if excess <= 0 {
            return (mantissa, scale);
        }
        (divide_rounded(&mantissa, &power_of_ten(excess as u32)), scale - excess)
    };
    let (mut result, mut result_scale) = (BigInt::one(), 0);
    let (mut square, mut square_scale) = (base.clone(), base_scale);
    let mut rest = n;
    loop {
        if rest & 1 == 1 {
            (result, result_scale) = cut(result * &square, result_scale + square_scale);
        }
        rest >>= 1;
        if rest == 0 {
            return (result, result_scale);
        }
        (square, square_scale) = cut(&square * &square, square_scale * 2);
    }
}
