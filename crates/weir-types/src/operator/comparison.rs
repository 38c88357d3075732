//! The six operators that compare, and what becomes of them when operands change sides or a NOT goes in.

use std::cmp::Ordering;

use super::BinaryOp;

/// A [`BinaryOp`] that compares: true or false of values that are not NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub fn of(op: BinaryOp) -> Option<Comparison> {
        Some(match op {
            BinaryOp::Equal => Comparison::Equal,
            BinaryOp::NotEqual => Comparison::NotEqual,
            BinaryOp::Less => Comparison::Less,
            BinaryOp::LessOrEqual => Comparison::LessOrEqual,
            BinaryOp::Greater => Comparison::Greater,
            BinaryOp::GreaterOrEqual => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// `=` and `<>`, which need no order.
    pub fn is_of_equality(self) -> bool {
        matches!(self, Comparison::Equal | Comparison::NotEqual)
    }

    /// Does it hold of two values that compare so?
    #[inline]
    pub fn accepts(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The comparison that holds of `(b, a)` where this one holds of `(a, b)`: `a < b` is `b > a`.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// The comparison that holds where this one does not: `NOT a < b` is `a >= b`.
    pub fn negated(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::NotEqual,
            Comparison::NotEqual => Comparison::Equal,
            Comparison::Less => Comparison::GreaterOrEqual,
            Comparison::LessOrEqual => Comparison::Greater,
            Comparison::Greater => Comparison::LessOrEqual,
            Comparison::GreaterOrEqual => Comparison::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrored_and_negated_say_what_they_promise() {
        use Comparison::*;
        for comparison in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
            for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                let holds = comparison.accepts(order);
                assert_eq!(comparison.mirrored().accepts(order.reverse()), holds, "{comparison:?} {order:?}");
                assert_eq!(comparison.negated().accepts(order), !holds, "{comparison:?} {order:?}");
            }
        }
    }
}
