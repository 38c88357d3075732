//! Arithmetic on big integers, NaN and the infinities: what the fast paths fall back to.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::{
    BigNumeric, LeadingGroup, Numeric, Rounding, divide_rounded, division_by_zero, division_scale,
    power_of_ten,
};
use crate::error::SqlError;

/// Where a number lies in the order of all numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    NegativeInfinity,
    Finite,
    PositiveInfinity,
    NaN,
}

pub(super) fn big_leading_group(mantissa: &BigInt, scale: i64) -> LeadingGroup {
    if mantissa.is_zero() {
        return LeadingGroup { weight: 0, digit: 0 };
    }
    let printed = mantissa.magnitude().to_string();
    let exponent = printed.len() as i64 - 1 - scale;
    let wanted = exponent.rem_euclid(4) as usize + 1;
    let mut digit = 0;
    for i in 0..wanted {
        digit = digit * 10 + printed.as_bytes().get(i).map_or(0, |b| i64::from(b - b'0'));
    }
    LeadingGroup { weight: exponent.div_euclid(4), digit }
}

fn aligned(left: (BigInt, i64), right: (BigInt, i64)) -> (BigInt, BigInt, i64) {
    let scale = left.1.max(right.1);
    let raise = |(mantissa, old): (BigInt, i64)| mantissa * power_of_ten((scale - old) as u32);
    (raise(left), raise(right), scale)
}

impl Numeric {
    fn class(&self) -> Class {
        match self {
            Numeric::Small { .. } => Class::Finite,
            Numeric::Big(big) => match &**big {
                BigNumeric::NaN => Class::NaN,
                BigNumeric::PositiveInfinity => Class::PositiveInfinity,
                BigNumeric::NegativeInfinity => Class::NegativeInfinity,
                BigNumeric::Finite { .. } => Class::Finite,
            },
        }
    }

    #[cold]
    pub(super) fn cmp_slow(&self, other: &Numeric) -> Ordering {
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                let (left, right, _) = aligned(left, right);
                left.cmp(&right)
            }
            _ => self.class().cmp(&other.class()),
        }
    }

    #[cold]
    pub(super) fn add_slow(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                let (left, right, scale) = aligned(left, right);
                Numeric::from_big(left + right, scale)
            }
            (None, None) if self.class() != other.class() => Ok(Numeric::nan()),
            (None, _) => Ok(self.clone()),
            (_, None) => Ok(other.clone()),
        }
    }

    #[cold]
    pub(super) fn mul_slow(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self.finite(), other.finite()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                Numeric::from_big(left * right, left_scale + right_scale)
            }
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::nan()),
            _ => match self.signum() * other.signum() {
                0 => Ok(Numeric::nan()),
                sign => Ok(Numeric::infinity(sign < 0)),
            },
        }
    }

    #[cold]
    pub(super) fn div_slow(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::nan());
        }
        match (self.finite(), other.finite()) {
            (Some((left, left_scale)), Some((right, right_scale))) => {
                if right.is_zero() {
                    return Err(division_by_zero());
                }
                let scale = division_scale(
                    big_leading_group(&left, left_scale),
                    left_scale,
                    big_leading_group(&right, right_scale),
                    right_scale,
                );
                Ok(Numeric::quotient(&left, left_scale, &right, right_scale, scale)?)
            }
            (None, Some((right, _))) => {
                if right.is_zero() {
                    return Err(division_by_zero());
                }
                Ok(Numeric::infinity(self.signum() * other.signum() < 0))
            }
            (Some(_), None) => Ok(Numeric::ZERO),
            (None, None) => Ok(Numeric::nan()),
        }
    }

    pub(super) fn quotient(
        left: &BigInt,
        left_scale: i64,
        right: &BigInt,
        right_scale: i64,
        scale: i64,
    ) -> Result<Numeric, SqlError> {
        let exponent = scale + right_scale - left_scale;
        let mantissa = if exponent >= 0 {
            divide_rounded(&(left * power_of_ten(exponent as u32)), right)
        } else {
            divide_rounded(left, &(right * power_of_ten(-exponent as u32)))
        };
        Numeric::from_big(mantissa, scale)
    }

    #[cold]
    pub(super) fn rem_slow(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::nan());
        }
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                if right.0.is_zero() {
                    return Err(division_by_zero());
                }
                let (left, right, scale) = aligned(left, right);
                Numeric::from_big(left % right, scale)
            }
            (None, Some((right, _))) if right.is_zero() => Err(division_by_zero()),
            (None, _) => Ok(Numeric::nan()),
            (Some(_), None) => Ok(self.clone()),
        }
    }

    pub(super) fn rescale_slow(&self, digits: i64, rounding: Rounding) -> Numeric {
        let Some((mantissa, scale)) = self.finite() else {
            return self.clone();
        };
        let rescaled = if digits >= scale {
            mantissa * power_of_ten((digits - scale) as u32)
        } else {
            let divisor = power_of_ten((scale - digits) as u32);
            let quotient = match rounding {
                Rounding::HalfAwayFromZero => divide_rounded(&mantissa, &divisor),
                Rounding::TowardsZero => mantissa / divisor,
                Rounding::Down => mantissa.div_floor(&divisor),
                Rounding::Up => -((-mantissa).div_floor(&divisor)),
            };
            if digits < 0 { quotient * power_of_ten(-digits as u32) } else { quotient }
        };
        Numeric::from_big(rescaled, digits.max(0)).unwrap_or_else(|_| self.clone())
    }

    pub(super) fn trim_scale_slow(&self) -> Numeric {
        let Some((mut mantissa, mut scale)) = self.finite() else {
            return self.clone();
        };
        let ten = BigInt::from(10);
        while scale > 0 {
            let (quotient, remainder) = mantissa.div_rem(&ten);
            if !remainder.is_zero() {
                break;
            }
            mantissa = quotient;
            scale -= 1;
        }
        Numeric::from_big(mantissa, scale).unwrap_or_else(|_| self.clone())
    }

    /// The smallest scale that shows all non-zero digits.
    pub fn min_scale(&self) -> u16 {
        self.trim_scale().scale()
    }

    /// Integer quotient, truncated (SQL's `div`).
    pub fn div_truncated(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                if right.0.is_zero() {
                    return Err(division_by_zero());
                }
                let (left, right, _) = aligned(left, right);
                Numeric::from_big(left / right, 0)
            }
            _ => self.div_slow(other),
        }
    }

    /// Greatest common divisor, never negative, at the larger scale.
    pub fn gcd(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                let (left, right, scale) = aligned(left, right);
                Numeric::from_big(left.gcd(&right), scale)
            }
            _ => Ok(Numeric::nan()),
        }
    }

    pub fn lcm(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                let (left, right, scale) = aligned(left, right);
                if left.is_zero() || right.is_zero() {
                    return Numeric::from_big(BigInt::zero(), scale);
                }
                Numeric::from_big((&left / left.gcd(&right) * right).abs(), scale)
            }
            _ => Ok(Numeric::nan()),
        }
    }

    /// The integer value, if it is one and small enough for an exponent.
    pub(super) fn as_i32(&self) -> Option<i32> {
        if !self.is_integral() {
            return None;
        }
        self.round(0).finite().and_then(|(mantissa, _)| mantissa.to_i32())
    }
}
