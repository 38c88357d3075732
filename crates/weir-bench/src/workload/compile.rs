//! Expressions to typed code: names become slots, constants are folded, kinds are checked.

use arcstr::ArcStr;
use weir_sql::{Diagnostic, Span};
use weir_types::{SqlState, Value};

use super::code::{Context, Kind, Produced, Scalar, ScalarOp, Slots};
use super::syntax::{Expr, Node, Op};

/// Whether a value is known before a row or call is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purity {
    Constant,
    /// Depends on the row only: it reads slots and draws no random number.
    Row,
    Random,
}

#[derive(Clone, Debug)]
pub(crate) enum Code {
    Scalar(Scalar),
    Produced(Produced),
}

#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub code: Code,
    pub kind: Kind,
    pub purity: Purity,
}

/// Where an evaluated name stands.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Scalar(usize),
    Value(usize),
}

/// `slot = code`.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub slot: Slot,
    pub code: Code,
}

impl Assignment {
    pub fn run(&self, context: &mut Context) {
        match (&self.slot, &self.code) {
            (Slot::Scalar(slot), Code::Scalar(scalar)) => {
                context.scalars[*slot] = scalar.evaluate(context);
            }
            (Slot::Value(slot), Code::Produced(produced)) => {
                context.values[*slot] = produced.evaluate(context);
            }
            _ => unreachable!("a slot is chosen by its code"),
        }
    }
}

/// The names that an expression may use, the innermost last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    names: Vec<(String, Typed)>,
}

/// Hands out slots and the numbers of the NURand constants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiler {
    pub slots: Slots,
    /// The A of each constant, in the order of [`Context::nurand`].
    pub nurand: Vec<i64>,
}

impl Scope {
    pub fn define(&mut self, name: impl Into<String>, value: Typed) {
        self.names.push((name.into(), value));
    }

    pub fn get(&self, name: &str) -> Option<&Typed> {
        self.names.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn list(&self) -> String {
        let mut names: Vec<&str> = self.names.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

pub(crate) fn error(state: SqlState, span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(state, span, message)
}

pub(crate) fn mismatch(span: Span, wanted: &str, found: &Kind) -> Diagnostic {
    error(SqlState::DATATYPE_MISMATCH, span, format!("expected {wanted}, found {}", describe(found)))
}

pub(crate) fn describe(kind: &Kind) -> String {
    match kind {
        Kind::Int => "an integer".to_string(),
        Kind::Bool => "a boolean".to_string(),
        Kind::Decimal(scale) => format!("a number with {scale} decimals"),
        Kind::Time => "a time".to_string(),
        Kind::Text => "a text".to_string(),
        Kind::Array(element) => format!("an array with elements of {}", describe(element)),
        Kind::Null => "null".to_string(),
    }
}

impl Typed {
    pub fn scalar(kind: Kind, code: Scalar, purity: Purity) -> Typed {
        Typed { code: Code::Scalar(code), kind, purity }
    }

    pub fn produced(kind: Kind, code: Produced, purity: Purity) -> Typed {
        Typed { code: Code::Produced(code), kind, purity }
    }

    pub fn constant(value: i64) -> Typed {
        Typed::scalar(Kind::Int, Scalar::Constant(value), Purity::Constant)
    }

    /// Meaning of a name whose value is in a slot.
    pub fn in_slot(slot: &Slot, kind: Kind) -> Typed {
        match slot {
            Slot::Scalar(slot) => Typed::scalar(kind, Scalar::Slot(*slot), Purity::Row),
            Slot::Value(slot) => Typed::produced(kind, Produced::Slot(*slot), Purity::Row),
        }
    }

    pub fn into_produced(self) -> Produced {
        match self.code {
            Code::Scalar(scalar) => Produced::Scalar(self.kind, Box::new(scalar)),
            Code::Produced(produced) => produced,
        }
    }

    /// The constant that this is, if it is one.
    pub fn as_constant(&self) -> Option<i64> {
        match self.code {
            Code::Scalar(Scalar::Constant(value)) => Some(value),
            _ => None,
        }
    }
}

/// A scalar that is not null, of any kind that `accept` takes.
pub(crate) fn want(
    typed: Typed,
    span: Span,
    wanted: &str,
    accept: fn(&Kind) -> bool,
) -> Result<Scalar, Diagnostic> {
    match typed.code {
        Code::Scalar(scalar) if accept(&typed.kind) => Ok(scalar),
        Code::Produced(_) if accept(&typed.kind) => {
            let message = format!("expected {wanted}, found a value that may be null");
            Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, span, message)
                .with_hint("coalesce(x, y) is y where x is null"))
        }
        _ => Err(mismatch(span, wanted, &typed.kind)),
    }
}

pub(crate) fn want_int(typed: Typed, span: Span) -> Result<Scalar, Diagnostic> {
    want(typed, span, "an integer", |kind| *kind == Kind::Int)
}

pub(crate) fn want_bool(typed: Typed, span: Span) -> Result<Scalar, Diagnostic> {
    want(typed, span, "a boolean", |kind| *kind == Kind::Bool)
}

impl Compiler {
    pub fn scalar_slot(&mut self) -> usize {
        self.slots.scalars += 1;
        self.slots.scalars - 1
    }

    /// A slot for what `typed` computes, and the assignment that fills it.
    pub fn assign(&mut self, typed: Typed) -> (Assignment, Typed) {
        let slot = match typed.code {
            Code::Scalar(_) => Slot::Scalar(self.scalar_slot()),
            Code::Produced(_) => {
                self.slots.values += 1;
                Slot::Value(self.slots.values - 1)
            }
        };
        let name = Typed::in_slot(&slot, typed.kind);
        (Assignment { slot, code: typed.code }, name)
    }

    pub fn compile(&mut self, expr: &Expr, scope: &Scope) -> Result<Typed, Diagnostic> {
        let typed = match &expr.node {
            Node::Int(value) => Typed::constant(*value),
            Node::Decimal { mantissa, scale } => {
                Typed::scalar(Kind::Decimal(*scale), Scalar::Constant(*mantissa), Purity::Constant)
            }
            Node::Bool(value) => {
                Typed::scalar(Kind::Bool, Scalar::Constant(i64::from(*value)), Purity::Constant)
            }
            Node::Text(text) => {
                let value = Value::Text(ArcStr::from(text.as_str()));
                Typed::produced(Kind::Text, Produced::Constant(value), Purity::Constant)
            }
            Node::Null => Typed::produced(Kind::Null, Produced::Constant(Value::Null), Purity::Constant),
            Node::Name(name) => scope.get(name).cloned().ok_or_else(|| {
                error(SqlState::UNDEFINED_OBJECT, expr.span, format!("there is no name {name} here"))
                    .with_hint(format!("the names that may be used here are {}", scope.list()))
            })?,
            Node::Call { function, args } => self.call(function, args, scope, expr.span)?,
            Node::Negate(operand) => {
                let operand_typed = self.compile(operand, scope)?;
                let (kind, purity) = (operand_typed.kind.clone(), operand_typed.purity);
                let zero = Typed::scalar(kind, Scalar::Constant(0), purity);
                self.arithmetic(ScalarOp::Subtract, (zero, operand.span), (operand_typed, operand.span))?
            }
            Node::Not(operand) => {
                let typed = self.compile(operand, scope)?;
                let purity = typed.purity;
                let operand = Box::new(want_bool(typed, operand.span)?);
                Typed::scalar(Kind::Bool, Scalar::Not(operand), purity)
            }
            Node::Binary { op, left, right } => {
                let left = (self.compile(left, scope)?, left.span);
                let right = (self.compile(right, scope)?, right.span);
                self.binary(*op, left, right)?
            }
        };
        fold(typed, expr.span)
    }

    fn binary(&mut self, op: Op, left: (Typed, Span), right: (Typed, Span)) -> Result<Typed, Diagnostic> {
        let scalar_op = match op {
            Op::And | Op::Or => {
                let purity = left.0.purity.max(right.0.purity);
                let left = Box::new(want_bool(left.0, left.1)?);
                let right = Box::new(want_bool(right.0, right.1)?);
                let code = if op == Op::And { Scalar::And(left, right) } else { Scalar::Or(left, right) };
                return Ok(Typed::scalar(Kind::Bool, code, purity));
            }
            Op::Add => ScalarOp::Add,
            Op::Subtract => ScalarOp::Subtract,
            Op::Multiply => ScalarOp::Multiply,
            Op::Divide => ScalarOp::Divide,
            Op::Modulo => ScalarOp::Modulo,
            Op::Equal => ScalarOp::Equal,
            Op::NotEqual => ScalarOp::NotEqual,
            Op::Less => ScalarOp::Less,
            Op::LessOrEqual => ScalarOp::LessOrEqual,
            Op::Greater => ScalarOp::Greater,
            Op::GreaterOrEqual => ScalarOp::GreaterOrEqual,
        };
        self.arithmetic(scalar_op, left, right)
    }

    /// Arithmetic and comparisons. Decimals are brought to the larger number of decimals first; a time
    /// and an integer (microseconds) may be added and subtracted.
    pub fn arithmetic(
        &mut self,
        op: ScalarOp,
        (left, left_span): (Typed, Span),
        (right, right_span): (Typed, Span),
    ) -> Result<Typed, Diagnostic> {
        use ScalarOp::*;
        let purity = left.purity.max(right.purity);
        let compares = matches!(op, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual);
        let (kind, left, right) = match (&left.kind, &right.kind, op) {
            (Kind::Bool, Kind::Bool, Equal | NotEqual) => {
                (Kind::Bool, want_bool(left, left_span)?, want_bool(right, right_span)?)
            }
            (Kind::Time, Kind::Time, _) if compares || matches!(op, Least | Greatest | Subtract) => {
                let time = |typed, span| want(typed, span, "a time", |kind| *kind == Kind::Time);
                let kind = if op == Subtract { Kind::Int } else { Kind::Time };
                (kind, time(left, left_span)?, time(right, right_span)?)
            }
            (Kind::Time, Kind::Int, Add | Subtract) => {
                let time = want(left, left_span, "a time", |kind| *kind == Kind::Time)?;
                (Kind::Time, time, want_int(right, right_span)?)
            }
            (Kind::Decimal(a), _, Multiply) if matches!(right.kind, Kind::Decimal(_) | Kind::Int) => {
                let kind = Kind::Decimal(a + decimals(&right.kind));
                (kind, want_number(left, left_span)?, want_number(right, right_span)?)
            }
            (Kind::Int, Kind::Decimal(b), Multiply) => {
                (Kind::Decimal(*b), want_number(left, left_span)?, want_number(right, right_span)?)
            }
            (Kind::Decimal(_), _, Divide | Modulo) | (_, Kind::Decimal(_), Divide | Modulo) => {
                return Err(mismatch(left_span, "integers (only they can be divided)", &Kind::Decimal(2)));
            }
            _ => {
                let scale = decimals(&left.kind).max(decimals(&right.kind));
                let kind = if scale == 0 { Kind::Int } else { Kind::Decimal(scale) };
                (kind, self.scaled(left, left_span, scale)?, self.scaled(right, right_span, scale)?)
            }
        };
        let kind = if compares { Kind::Bool } else { kind };
        if matches!(kind, Kind::Decimal(scale) if scale > 18) {
            return Err(mismatch(left_span, "at most 18 decimals", &kind));
        }
        Ok(Typed::scalar(kind, Scalar::Binary(op, Box::new(left), Box::new(right)), purity))
    }

    /// A number as the mantissa of a decimal with that scale, which must not be less than its own.
    pub fn scaled(&mut self, typed: Typed, span: Span, scale: u8) -> Result<Scalar, Diagnostic> {
        let factor = 10i64.pow(u32::from(scale.saturating_sub(decimals(&typed.kind)).min(18)));
        let scalar = want_number(typed, span)?;
        Ok(match (factor, scalar) {
            (1, scalar) => scalar,
            (_, scalar) => {
                Scalar::Binary(ScalarOp::Multiply, Box::new(scalar), Box::new(Scalar::Constant(factor)))
            }
        })
    }
}

pub(crate) fn decimals(kind: &Kind) -> u8 {
    if let Kind::Decimal(scale) = kind { *scale } else { 0 }
}

fn want_number(typed: Typed, span: Span) -> Result<Scalar, Diagnostic> {
    want(typed, span, "a number", |kind| matches!(kind, Kind::Int | Kind::Decimal(_)))
}

/// Evaluates what needs no row and draws nothing, once.
fn fold(typed: Typed, span: Span) -> Result<Typed, Diagnostic> {
    if typed.purity != Purity::Constant {
        return Ok(typed);
    }
    let mut context = Context::new(0, Slots::default(), Vec::new());
    let code = match &typed.code {
        Code::Scalar(Scalar::Constant(_)) | Code::Produced(Produced::Constant(_)) => return Ok(typed),
        Code::Scalar(scalar) => Code::Scalar(Scalar::Constant(scalar.evaluate(&mut context))),
        Code::Produced(produced) => Code::Produced(Produced::Constant(produced.evaluate(&mut context))),
    };
    match context.error {
        Some(message) => Err(error(SqlState::INVALID_PARAMETER_VALUE, span, message)),
        None => Ok(Typed { code, ..typed }),
    }
}
