//! The questions that are put to a solver: linear arithmetic over integers and reals, without quantifiers.
//!
//! Plain data. Constructors fold what is certain, so that equal questions are equal and the certain ones are not asked.

/// Index into [`Question::variables`].
pub type Variable = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    Integer,
    Real,
    Truth,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// `mantissa · 10^-scale`.
    Number {
        mantissa: i64,
        scale: u8,
    },
    /// A variable of sort integer or real.
    Variable(Variable),
    Sum(Vec<Quantity>),
    Product(i64, Box<Quantity>),
    /// The first if the formula holds, else the second.
    Choice(Box<Formula>, Box<Quantity>, Box<Quantity>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Formula {
    Constant(bool),
    /// A variable of sort Boolean.
    Variable(Variable),
    Less(Quantity, Quantity),
    LessOrEqual(Quantity, Quantity),
    Equal(Quantity, Quantity),
    Not(Box<Formula>),
    All(Vec<Formula>),
    Any(Vec<Formula>),
}

/// Can all of these hold at once?
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    pub variables: Vec<Sort>,
    pub holds: Vec<Formula>,
}

impl Question {
    pub fn variable(&mut self, sort: Sort) -> Variable {
        self.variables.push(sort);
        self.variables.len() - 1
    }
}

impl Quantity {
    pub fn integer(mantissa: i64) -> Quantity {
        Quantity::Number { mantissa, scale: 0 }
    }

    pub fn times(self, factor: i64) -> Quantity {
        if factor == 1 { self } else { Quantity::Product(factor, Box::new(self)) }
    }
}

impl Formula {
    pub fn negated(formula: Formula) -> Formula {
        match formula {
            Formula::Constant(truth) => Formula::Constant(!truth),
            Formula::Not(inner) => *inner,
            other => Formula::Not(Box::new(other)),
        }
    }

    pub fn all(list: impl IntoIterator<Item = Formula>) -> Formula {
        let mut rest = Vec::new();
        for formula in list {
            match formula {
                Formula::Constant(true) => {}
                Formula::Constant(false) => return Formula::Constant(false),
                other => rest.push(other),
            }
        }
        match rest.len() {
            0 => Formula::Constant(true),
            1 => rest.remove(0),
            _ => Formula::All(rest),
        }
    }

    pub fn any(list: impl IntoIterator<Item = Formula>) -> Formula {
        Formula::negated(Formula::all(list.into_iter().map(Formula::negated)))
    }
}

/// A number as SQL has it: `numeric` knows NaN, which equals itself and is greater than every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub nan: Formula,
    pub number: Quantity,
}

impl Value {
    pub fn of(number: Quantity) -> Value {
        Value { nan: Formula::Constant(false), number }
    }

    pub fn plus(self, other: Value) -> Value {
        Value {
            nan: Formula::any([self.nan, other.nan]),
            number: Quantity::Sum(vec![self.number, other.number]),
        }
    }

    pub fn times(self, factor: i64) -> Value {
        Value { nan: self.nan, number: self.number.times(factor) }
    }

    pub fn less(&self, other: &Value) -> Formula {
        let (a, b) = (self.nan.clone(), other.nan.clone());
        let numbers = Formula::Less(self.number.clone(), other.number.clone());
        Formula::all([Formula::negated(a), Formula::any([b, numbers])])
    }

    pub fn less_or_equal(&self, other: &Value) -> Formula {
        let (a, b) = (self.nan.clone(), other.nan.clone());
        let numbers = Formula::LessOrEqual(self.number.clone(), other.number.clone());
        Formula::any([b, Formula::all([Formula::negated(a), numbers])])
    }

    pub fn equal(&self, other: &Value) -> Formula {
        let (a, b) = (self.nan.clone(), other.nan.clone());
        let numbers = Formula::Equal(self.number.clone(), other.number.clone());
        let neither = Formula::all([Formula::negated(a.clone()), Formula::negated(b.clone()), numbers]);
        Formula::any([Formula::all([a, b]), neither])
    }

    /// The first if the formula holds, else the second.
    pub fn choice(condition: &Formula, first: Value, second: Value) -> Value {
        match condition {
            Formula::Constant(true) => return first,
            Formula::Constant(false) => return second,
            _ => {}
        }
        let no = Formula::negated(condition.clone());
        Value {
            nan: Formula::any([Formula::all([condition.clone(), first.nan]), Formula::all([no, second.nan])]),
            number: Quantity::Choice(
                Box::new(condition.clone()),
                Box::new(first.number),
                Box::new(second.number),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_is_folded() {
        let [yes, no] = [Formula::Constant(true), Formula::Constant(false)];
        let x = Formula::Variable(0);
        assert_eq!(Formula::all([yes.clone(), x.clone()]), x);
        assert_eq!(Formula::all([no.clone(), x.clone()]), no);
        assert_eq!(Formula::any([yes.clone(), x.clone()]), yes);
        assert_eq!(Formula::any([no.clone(), x.clone()]), x);
        assert_eq!(Formula::negated(Formula::negated(x.clone())), x);
        let whole = Value::of(Quantity::integer(1));
        assert!(matches!(whole.less(&whole), Formula::Less(..)), "without NaN only the numbers count");
    }
}
