//! `numeric`: exact decimals with PostgreSQL's scale and rounding rules.
//!
//! Small numbers never allocate: [`Numeric::Small`] arithmetic is checked `i64`/`i128` arithmetic and
//! falls back to big integers only on overflow. Functions that need series (`exp`, `ln`, …) are in
//! `numeric/series.rs`; reading and printing is in `numeric/text.rs`.

mod series;
mod slow;
mod text;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};
use serde::{Deserialize, Serialize};

use crate::error::{SqlError, SqlState};

/// Most numbers fit in 64 bits of mantissa; the rest go to the heap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Numeric {
    /// `mantissa × 10^-scale`; `scale` is the display scale (trailing zeros count).
    Small { scale: u8, mantissa: i64 },
    /// Everything else: more digits, larger scales, NaN and the infinities.
    Big(Box<BigNumeric>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BigNumeric {
    NaN,
    PositiveInfinity,
    NegativeInfinity,
    Finite { scale: u16, mantissa: BigInt },
}

/// Largest display scale of a computed result (PostgreSQL's NUMERIC_MAX_DISPLAY_SCALE).
const MAX_DISPLAY_SCALE: i64 = 1000;
/// Largest scale of any number (NUMERIC_DSCALE_MAX).
const MAX_SCALE: i64 = 16383;
/// Significant digits that division and friends give at least (NUMERIC_MIN_SIG_DIGITS).
const MIN_SIGNIFICANT_DIGITS: i64 = 16;
/// Digits before the decimal point at most.
const MAX_INTEGER_DIGITS: i64 = 131072;

const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

fn power_of_ten(exponent: u32) -> BigInt {
    match POWERS.get(exponent as usize) {
        Some(power) => BigInt::from(*power),
        None => BigInt::from(10).pow(exponent),
    }
}

/// Divides and rounds half away from zero.
fn divide_rounded(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let (quotient, remainder) = numerator.div_rem(denominator);
    if remainder.magnitude() * 2u32 >= *denominator.magnitude() {
        if numerator.is_negative() == denominator.is_negative() { quotient + 1 } else { quotient - 1 }
    } else {
        quotient
    }
}

fn divide_rounded_i128(numerator: i128, denominator: i128) -> i128 {
    let (quotient, remainder) = (numerator / denominator, numerator % denominator);
    if remainder.unsigned_abs() >= denominator.unsigned_abs() - remainder.unsigned_abs() {
        if (numerator < 0) == (denominator < 0) { quotient + 1 } else { quotient - 1 }
    } else {
        quotient
    }
}

#[cold]
fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

#[cold]
pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// The rounding that drops a fractional part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    HalfAwayFromZero,
    TowardsZero,
    Down,
    Up,
}

impl Numeric {
    pub const ZERO: Numeric = Numeric::Small { scale: 0, mantissa: 0 };
    pub const ONE: Numeric = Numeric::Small { scale: 0, mantissa: 1 };

    pub fn nan() -> Numeric {
        Numeric::Big(Box::new(BigNumeric::NaN))
    }

    pub fn infinity(negative: bool) -> Numeric {
        Numeric::Big(Box::new(if negative {
            BigNumeric::NegativeInfinity
        } else {
            BigNumeric::PositiveInfinity
        }))
    }

    #[inline]
    pub fn from_i64(value: i64) -> Numeric {
        Numeric::Small { scale: 0, mantissa: value }
    }

    pub fn from_i128(mantissa: i128, scale: u8) -> Numeric {
        match i64::try_from(mantissa) {
            Ok(mantissa) => Numeric::Small { scale, mantissa },
            Err(_) => Numeric::Big(Box::new(BigNumeric::Finite {
                scale: u16::from(scale),
                mantissa: BigInt::from(mantissa),
            })),
        }
    }

    /// `mantissa × 10^-scale`, in its smallest representation; too many digits are an error (22003).
    fn from_big(mantissa: BigInt, scale: i64) -> Result<Numeric, SqlError> {
        if (0..=255).contains(&scale)
            && let Some(mantissa) = mantissa.to_i64()
        {
            return Ok(Numeric::Small { scale: scale as u8, mantissa });
        }
        if scale > MAX_SCALE {
            let rounded = divide_rounded(&mantissa, &power_of_ten((scale - MAX_SCALE) as u32));
            return Numeric::from_big(rounded, MAX_SCALE);
        }
        debug_assert!(scale >= 0);
        // 10^131072 has 435,412 bits; the scale's digits come on top.
        let bits_max = (MAX_INTEGER_DIGITS + scale) as u64 * 3322 / 1000 + 8;
        if mantissa.bits() > bits_max {
            return Err(overflow());
        }
        Ok(Numeric::Big(Box::new(BigNumeric::Finite { scale: scale as u16, mantissa })))
    }

    /// Digits after the decimal point that are displayed; 0 for NaN and the infinities.
    pub fn scale(&self) -> u16 {
        match self {
            Numeric::Small { scale, .. } => u16::from(*scale),
            Numeric::Big(big) => match &**big {
                BigNumeric::Finite { scale, .. } => *scale,
                _ => 0,
            },
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self, Numeric::Big(big) if **big == BigNumeric::NaN)
    }

    pub fn is_finite(&self) -> bool {
        self.finite().is_some()
    }

    pub fn is_zero(&self) -> bool {
        match self {
            Numeric::Small { mantissa, .. } => *mantissa == 0,
            Numeric::Big(big) => {
                matches!(&**big, BigNumeric::Finite { mantissa, .. } if mantissa.is_zero())
            }
        }
    }

    /// -1, 0 or 1; NaN counts as positive.
    pub fn signum(&self) -> i32 {
        match self {
            Numeric::Small { mantissa, .. } => mantissa.signum() as i32,
            Numeric::Big(big) => match &**big {
                BigNumeric::NaN | BigNumeric::PositiveInfinity => 1,
                BigNumeric::NegativeInfinity => -1,
                BigNumeric::Finite { mantissa, .. } => {
                    i32::from(mantissa.is_positive()) - i32::from(mantissa.is_negative())
                }
            },
        }
    }

    /// Whether nothing but zeros stands after the decimal point.
    pub fn is_integral(&self) -> bool {
        match self.finite() {
            Some((mantissa, scale)) => (mantissa % power_of_ten(scale as u32)).is_zero(),
            None => false,
        }
    }

    /// Mantissa and scale, unless NaN or infinite.
    fn finite(&self) -> Option<(BigInt, i64)> {
        match self {
            Numeric::Small { scale, mantissa } => Some((BigInt::from(*mantissa), i64::from(*scale))),
            Numeric::Big(big) => match &**big {
                BigNumeric::Finite { scale, mantissa } => Some((mantissa.clone(), i64::from(*scale))),
                _ => None,
            },
        }
    }

    #[inline]
    pub fn add(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if let Some((left, right, scale)) = SmallPair::of(self, other).and_then(SmallPair::aligned)
            && let Some(mantissa) = left.checked_add(right)
        {
            return Ok(Numeric::Small { scale, mantissa });
        }
        self.add_slow(other)
    }

    #[inline]
    pub fn sub(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if let Some((left, right, scale)) = SmallPair::of(self, other).and_then(SmallPair::aligned)
            && let Some(mantissa) = left.checked_sub(right)
        {
            return Ok(Numeric::Small { scale, mantissa });
        }
        self.add_slow(&other.neg())
    }

    #[inline]
    pub fn mul(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if let Some(SmallPair { left, left_scale, right, right_scale }) = SmallPair::of(self, other)
            && let (Some(scale), Some(mantissa)) =
                (left_scale.checked_add(right_scale), left.checked_mul(right))
        {
            return Ok(Numeric::Small { scale, mantissa });
        }
        self.mul_slow(other)
    }

    /// To at least 16 significant digits and at least the operands' scales (22012 on zero).
    pub fn div(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if let Some(SmallPair { left, left_scale, right, right_scale }) = SmallPair::of(self, other) {
            if right == 0 {
                return Err(division_by_zero());
            }
            let scale = division_scale(
                leading_group(left, left_scale),
                i64::from(left_scale),
                leading_group(right, right_scale),
                i64::from(right_scale),
            );
            // The result's scale is at least the dividend's, so the exponent is not negative.
            let exponent = scale + i64::from(right_scale) - i64::from(left_scale);
            if let (Ok(scale), Some(power)) = (u8::try_from(scale), POWERS.get(exponent as usize))
                && let Some(numerator) = i128::from(left).checked_mul(*power)
            {
                return Ok(Numeric::from_i128(divide_rounded_i128(numerator, i128::from(right)), scale));
            }
        }
        self.div_slow(other)
    }

    /// The remainder of truncating division; it has the dividend's sign (22012 on zero).
    pub fn rem(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if let Some(pair) = SmallPair::of(self, other) {
            if pair.right == 0 {
                return Err(division_by_zero());
            }
            if let Some((left, right, scale)) = pair.aligned() {
                return Ok(Numeric::Small { scale, mantissa: left.wrapping_rem(right) });
            }
        }
        self.rem_slow(other)
    }

    pub fn neg(&self) -> Numeric {
        match self {
            Numeric::Small { scale, mantissa } => Numeric::from_i128(-i128::from(*mantissa), *scale),
            Numeric::Big(big) => Numeric::Big(Box::new(match &**big {
                BigNumeric::NaN => BigNumeric::NaN,
                BigNumeric::PositiveInfinity => BigNumeric::NegativeInfinity,
                BigNumeric::NegativeInfinity => BigNumeric::PositiveInfinity,
                BigNumeric::Finite { scale, mantissa } => {
                    BigNumeric::Finite { scale: *scale, mantissa: -mantissa }
                }
            })),
        }
    }

    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// To `digits` after the decimal point (before it, if negative), half away from zero.
    pub fn round(&self, digits: i32) -> Numeric {
        self.rescale(digits, Rounding::HalfAwayFromZero)
    }

    pub fn trunc(&self, digits: i32) -> Numeric {
        self.rescale(digits, Rounding::TowardsZero)
    }

    pub fn floor(&self) -> Numeric {
        self.rescale(0, Rounding::Down)
    }

    pub fn ceil(&self) -> Numeric {
        self.rescale(0, Rounding::Up)
    }

    fn rescale(&self, digits: i32, rounding: Rounding) -> Numeric {
        let digits = i64::from(digits).clamp(-MAX_SCALE * 10, MAX_SCALE);
        if let Numeric::Small { scale, mantissa } = self {
            let old = i64::from(*scale);
            if digits == old {
                return self.clone();
            }
            if digits > old && digits <= 255 {
                let factor = usize::try_from(digits - old).ok().and_then(|power| POWERS.get(power));
                if let Some(mantissa) = factor.and_then(|power| i128::from(*mantissa).checked_mul(*power)) {
                    return Numeric::from_i128(mantissa, digits as u8);
                }
            }
            if (0..old).contains(&digits)
                && let Some(divisor) = POWERS.get((old - digits) as usize)
            {
                let mantissa = divide_by(i128::from(*mantissa), *divisor, rounding);
                return Numeric::from_i128(mantissa, digits as u8);
            }
        }
        self.rescale_slow(digits, rounding)
    }

    /// Rounds to a column's `numeric(precision, scale)`; too many digits are 22003.
    pub fn apply_modifier(&self, precision: u16, scale: i16) -> Result<Numeric, SqlError> {
        let field_overflow = |detail: String| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
        };
        if !self.is_finite() {
            return if self.is_nan() {
                Ok(self.clone())
            } else {
                Err(field_overflow(format!(
                    "A field with precision {precision}, scale {scale} cannot hold an infinite value."
                )))
            };
        }
        let rounded = self.round(i32::from(scale));
        let integer_digits = i64::from(precision) - i64::from(scale);
        let fits = match &rounded {
            Numeric::Small { scale, mantissa } => {
                // |mantissa| < 10^(integer digits + displayed scale); a negative exponent holds only 0.
                match usize::try_from(integer_digits + i64::from(*scale)) {
                    Ok(power) => POWERS.get(power).is_none_or(|limit| i128::from(*mantissa).abs() < *limit),
                    Err(_) => *mantissa == 0,
                }
            }
            Numeric::Big(big) => match &**big {
                BigNumeric::Finite { scale, mantissa } => {
                    let power = integer_digits + i64::from(*scale);
                    u32::try_from(power)
                        .is_ok_and(|power| mantissa.magnitude() < power_of_ten(power).magnitude())
                }
                _ => true,
            },
        };
        if fits {
            return Ok(rounded);
        }
        let limit = if integer_digits == 0 { "1".to_owned() } else { format!("10^{integer_digits}") };
        Err(field_overflow(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
        )))
    }

    /// Rounded to the nearest integer; `None` when it does not fit, or is NaN or infinite.
    pub fn to_i64(&self) -> Option<i64> {
        match self.round(0) {
            Numeric::Small { scale: 0, mantissa } => Some(mantissa),
            other => other.finite().and_then(|(mantissa, _)| mantissa.to_i64()),
        }
    }

    /// The nearest double; too large a number becomes infinite.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::Small { scale, mantissa } if *scale <= 22 && mantissa.unsigned_abs() < 1 << 53 => {
                // Both are exact doubles, so their quotient is correctly rounded.
                *mantissa as f64 / POWERS[usize::from(*scale)] as f64
            }
            Numeric::Big(big) => match &**big {
                BigNumeric::NaN => f64::NAN,
                BigNumeric::PositiveInfinity => f64::INFINITY,
                BigNumeric::NegativeInfinity => f64::NEG_INFINITY,
                BigNumeric::Finite { .. } => self.to_string().parse().unwrap_or(f64::NAN),
            },
            Numeric::Small { .. } => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// As PostgreSQL casts doubles: through their 15 significant decimal digits.
    pub fn from_f64(value: f64) -> Numeric {
        Numeric::from_float(value, 14)
    }

    /// As PostgreSQL casts reals: through their 6 significant decimal digits.
    pub fn from_f32(value: f32) -> Numeric {
        Numeric::from_float(f64::from(value), 5)
    }

    fn from_float(value: f64, digits_after_first: usize) -> Numeric {
        if value.is_nan() {
            return Numeric::nan();
        }
        if value.is_infinite() {
            return Numeric::infinity(value < 0.0);
        }
        let printed = format!("{value:.digits_after_first$e}");
        let (digits, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits}e{exponent}").parse().unwrap_or_else(|_| Numeric::nan())
    }

    /// Without zeros at the end of the fraction.
    pub fn trim_scale(&self) -> Numeric {
        match self {
            Numeric::Small { scale, mantissa } => {
                let (mut scale, mut mantissa) = (*scale, *mantissa);
                while scale > 0 && mantissa % 10 == 0 {
                    mantissa /= 10;
                    scale -= 1;
                }
                Numeric::Small { scale, mantissa }
            }
            Numeric::Big(_) => self.trim_scale_slow(),
        }
    }
}

/// Both operands of an operation that needs no heap for them.
#[derive(Clone, Copy)]
struct SmallPair {
    left: i64,
    left_scale: u8,
    right: i64,
    right_scale: u8,
}

impl SmallPair {
    #[inline]
    fn of(left: &Numeric, right: &Numeric) -> Option<SmallPair> {
        match (left, right) {
            (
                &Numeric::Small { scale: left_scale, mantissa: left },
                &Numeric::Small { scale: right_scale, mantissa: right },
            ) => Some(SmallPair { left, left_scale, right, right_scale }),
            _ => None,
        }
    }

    /// Both mantissas at the larger scale, if they fit.
    #[inline]
    fn aligned(self) -> Option<(i64, i64, u8)> {
        let SmallPair { left, left_scale, right, right_scale } = self;
        if left_scale == right_scale {
            return Some((left, right, left_scale));
        }
        let raise = |mantissa: i64, by: u8| {
            if by > 18 {
                return if mantissa == 0 { Some(0) } else { None };
            }
            mantissa.checked_mul(POWERS[usize::from(by)] as i64)
        };
        if left_scale < right_scale {
            Some((raise(left, right_scale - left_scale)?, right, right_scale))
        } else {
            Some((left, raise(right, left_scale - right_scale)?, left_scale))
        }
    }
}

fn divide_by(mantissa: i128, divisor: i128, rounding: Rounding) -> i128 {
    match rounding {
        Rounding::HalfAwayFromZero => divide_rounded_i128(mantissa, divisor),
        Rounding::TowardsZero => mantissa / divisor,
        Rounding::Down => mantissa.div_euclid(divisor),
        Rounding::Up => -(-mantissa).div_euclid(divisor),
    }
}

/// Weight and value of a number's first base-10,000 digit, which is what PostgreSQL's scale rules look at.
#[derive(Clone, Copy)]
struct LeadingGroup {
    weight: i64,
    digit: i64,
}

fn leading_group(mantissa: i64, scale: u8) -> LeadingGroup {
    if mantissa == 0 {
        return LeadingGroup { weight: 0, digit: 0 };
    }
    let magnitude = mantissa.unsigned_abs();
    let digits = i64::from(magnitude.ilog10()) + 1;
    let exponent = digits - 1 - i64::from(scale);
    let weight = exponent.div_euclid(4);
    let wanted = exponent.rem_euclid(4) + 1;
    let digit = if digits >= wanted {
        magnitude / 10u64.pow((digits - wanted) as u32)
    } else {
        magnitude * 10u64.pow((wanted - digits) as u32)
    };
    LeadingGroup { weight, digit: digit as i64 }
}

/// PostgreSQL's select_div_scale.
fn division_scale(left: LeadingGroup, left_scale: i64, right: LeadingGroup, right_scale: i64) -> i64 {
    let mut weight = left.weight - right.weight;
    if left.digit <= right.digit {
        weight -= 1;
    }
    (MIN_SIGNIFICANT_DIGITS - weight * 4).max(left_scale).max(right_scale).clamp(0, MAX_DISPLAY_SCALE)
}

impl PartialEq for Numeric {
    #[inline]
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    #[inline]
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By value, whatever the scales; -infinity < numbers < infinity < NaN.
impl Ord for Numeric {
    #[inline]
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (
            Numeric::Small { scale: left_scale, mantissa: left },
            Numeric::Small { scale: right_scale, mantissa: right },
        ) = (self, other)
        {
            if left_scale == right_scale {
                return left.cmp(right);
            }
            let raise = |mantissa: i64, by: u8| i128::from(mantissa) * POWERS[usize::from(by)];
            // An i64 times 10^19 still fits in an i128.
            if left_scale.abs_diff(*right_scale) <= 19 {
                return if left_scale < right_scale {
                    raise(*left, right_scale - left_scale).cmp(&i128::from(*right))
                } else {
                    i128::from(*left).cmp(&raise(*right, left_scale - right_scale))
                };
            }
        }
        self.cmp_slow(other)
    }
}

/// Equal numbers hash equally; integers hash as [`crate::compare::hash`] hashes `Value::Int`.
impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.trim_scale() {
            Numeric::Small { scale: 0, mantissa } => state.write_i64(mantissa),
            Numeric::Small { scale, mantissa } => {
                state.write_u8(scale);
                state.write_i64(mantissa);
            }
            Numeric::Big(big) => match *big {
                BigNumeric::NaN => state.write_u8(253),
                BigNumeric::PositiveInfinity => state.write_u8(254),
                BigNumeric::NegativeInfinity => state.write_u8(255),
                BigNumeric::Finite { scale, mantissa } => {
                    state.write_u16(scale);
                    mantissa.hash(state);
                }
            },
        }
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric::from_i64(value)
    }
}
