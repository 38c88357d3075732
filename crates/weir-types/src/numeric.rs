//! `numeric`: exact decimals with PostgreSQL's scale and rounding rules.

/// Most numbers fit in 64 bits of mantissa; the rest go to the heap.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// `mantissa × 10^-scale`; `scale` is the display scale (trailing zeros count).
    Small { scale: u8, mantissa: i64 },
    /// Everything else: more digits, larger scales, NaN and the infinities.
    Big(Box<BigNumeric>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BigNumeric {
    NaN,
    PositiveInfinity,
    NegativeInfinity,
    Finite { scale: u16, mantissa: num_bigint::BigInt },
}

impl PartialEq for Numeric {
    fn eq(&self, _other: &Numeric) -> bool {
        todo!()
    }
}
