//! Conditions that a row must satisfy to matter to a statement, over terms.
//!
//! Kept beside a read's key because Operation Partitioning asks whether two statements can mean one row: ranges,
//! lists, alternatives and joined rows say no where keys do not (operation-partitioning.txt §3.1). What has
//! another form is [`Condition::Unknown`]: it may be true.

use weir_sql::bound::{BinaryOp, Expr, ExprKind};
use weir_types::Value;
use weir_types::operator::Comparison;

use super::interpret::Interpreter;
use super::{ProcedureEffects, ReadId, Sign, Term, TermId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// True only of values that are not NULL.
    Compare {
        op: Comparison,
        left: TermId,
        right: TermId,
    },
    Null {
        operand: TermId,
        negated: bool,
    },
    All(Vec<Condition>),
    Any(Vec<Condition>),
    /// The row that was read is there, with its key and its conditions.
    Row(ReadId),
    Unknown,
}

impl Condition {
    /// When it is false (not NULL).
    pub(super) fn negated(self) -> Condition {
        let all = |list: Vec<Condition>| list.into_iter().map(Condition::negated).collect();
        match self {
            Condition::Compare { op, left, right } => Condition::Compare { op: op.negated(), left, right },
            Condition::Null { operand, negated } => Condition::Null { operand, negated: !negated },
            Condition::All(list) => Condition::Any(all(list)),
            Condition::Any(list) => Condition::All(all(list)),
            Condition::Row(_) | Condition::Unknown => Condition::Unknown,
        }
    }
}

impl ProcedureEffects {
    /// It demands that a value differs from itself, as `NEW.total > OLD.total` does where an UPDATE leaves the column alone.
    pub(super) fn is_never_true(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Compare {
                op: Comparison::NotEqual | Comparison::Less | Comparison::Greater,
                left,
                right,
            } => self.is_itself(*left, *right),
            Condition::All(list) => list.iter().any(|part| self.is_never_true(part)),
            Condition::Any(list) => list.iter().all(|part| self.is_never_true(part)),
            _ => false,
        }
    }

    /// One value, looked at twice. OLD is NULL in effects where it is not known, so NULL is left out.
    fn is_itself(&self, left: TermId, right: TermId) -> bool {
        left == right && matches!(self.terms.get(left), Term::Field { .. } | Term::Parameter(_))
    }
}

impl Interpreter<'_> {
    /// Interprets a condition once, its subqueries included.
    pub(super) fn condition(&mut self, expr: &Expr) -> Condition {
        match &expr.kind {
            ExprKind::And(list) => Condition::All(list.iter().map(|item| self.condition(item)).collect()),
            ExprKind::Or(list) => Condition::Any(list.iter().map(|item| self.condition(item)).collect()),
            ExprKind::Not(inner) => self.condition(inner).negated(),
            ExprKind::Literal(Value::Bool(true)) => Condition::All(Vec::new()),
            ExprKind::Literal(Value::Bool(false) | Value::Null) => Condition::Any(Vec::new()),
            ExprKind::Column { .. } | ExprKind::Variable(_) => {
                let left = self.expr(expr);
                let right = self.terms().intern(Term::Literal(format!("{:?}", Value::Bool(true)), Sign::ANY));
                Condition::Compare { op: Comparison::Equal, left, right }
            }
            ExprKind::IsNull { operand, negated } => {
                Condition::Null { operand: self.expr(operand), negated: *negated }
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.expr(left), self.expr(right));
                match Comparison::of(*op) {
                    Some(op) => Condition::Compare { op, left, right },
                    None => Condition::Unknown,
                }
            }
            ExprKind::InList { operand, list, negated } => {
                let any = self.equals_one_of(operand, list);
                if *negated { any.negated() } else { any }
            }
            ExprKind::ArrayCompare { op: BinaryOp::Equal, left, array, all: false } => match &array.kind {
                ExprKind::Array(list) => self.equals_one_of(left, list),
                _ => self.unknown(expr),
            },
            ExprKind::IsDistinct { left, right, negated: false } => {
                let (left, right) = (self.expr(left), self.expr(right));
                match self.effects.is_itself(left, right) {
                    true => Condition::Any(Vec::new()),
                    false => Condition::Unknown,
                }
            }
            ExprKind::Exists { query, negated: false } => {
                self.query(query);
                Condition::All(self.result_rows.iter().copied().map(Condition::Row).collect())
            }
            _ => self.unknown(expr),
        }
    }

    fn equals_one_of(&mut self, operand: &Expr, list: &[Expr]) -> Condition {
        let left = self.expr(operand);
        let equal = |right| Condition::Compare { op: Comparison::Equal, left, right };
        Condition::Any(list.iter().map(|item| equal(self.expr(item))).collect())
    }

    fn unknown(&mut self, expr: &Expr) -> Condition {
        self.expr(expr);
        Condition::Unknown
    }
}
