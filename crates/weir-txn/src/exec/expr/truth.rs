//! Three-valued logic, and a fourth value for fragments that do not know yet.

use weir_types::Value;

/// Value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    False,
    /// NULL.
    Unknown,
    /// Known by another shard.
    Deferred,
}

impl Truth {
    #[inline]
    pub fn of(value: &Value) -> Truth {
        match value {
            Value::Bool(true) => Truth::True,
            Value::Bool(false) => Truth::False,
            Value::Deferred => Truth::Deferred,
            _ => Truth::Unknown,
        }
    }

    #[inline]
    pub fn is_true(self) -> bool {
        self == Truth::True
    }

    /// FALSE dominates, then Deferred, then NULL.
    #[inline]
    pub fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::False, _) | (_, Truth::False) => Truth::False,
            (Truth::Deferred, _) | (_, Truth::Deferred) => Truth::Deferred,
            (Truth::Unknown, _) | (_, Truth::Unknown) => Truth::Unknown,
            _ => Truth::True,
        }
    }

    /// TRUE dominates, then Deferred, then NULL.
    #[inline]
    pub fn or(self, other: Truth) -> Truth {
        self.not().and(other.not()).not()
    }

    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Truth {
        match self {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            same => same,
        }
    }

    #[inline]
    pub fn not_if(self, negated: bool) -> Truth {
        if negated { self.not() } else { self }
    }

    #[inline]
    pub fn into_value(self) -> Value {
        match self {
            Truth::True => Value::Bool(true),
            Truth::False => Value::Bool(false),
            Truth::Unknown => Value::Null,
            Truth::Deferred => Value::Deferred,
        }
    }
}

impl From<bool> for Truth {
    #[inline]
    fn from(value: bool) -> Truth {
        if value { Truth::True } else { Truth::False }
    }
}
