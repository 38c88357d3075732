//! Evaluation of compiled expressions.

use smallvec::SmallVec;
use weir_types::compare::compare;
use weir_types::operator::BinaryOp;
use weir_types::{SqlError, Value};

use super::{ArrayCompare, Binary, BinaryTest, Compare, CompiledExpr, Field, Like, Slice, Truth, scalar};
use crate::exec::access::unpack_row;
use crate::exec::context::{Cx, Frame};

/// An operand that is not at hand, computed; what is at hand is borrowed where it lies ([`Operand::get`]).
/// In two steps, because a later operand may still have to be computed, which needs the frame.
struct Operand(Option<Value>);

impl Operand {
    #[inline(always)]
    fn of(expr: &CompiledExpr, cx: &mut Cx<'_>) -> Result<Operand, SqlError> {
        match expr.is_at_hand() {
            true => Ok(Operand(None)),
            false => Ok(Operand(Some(expr.eval(cx)?))),
        }
    }

    #[inline(always)]
    fn get<'a>(&'a self, expr: &'a CompiledExpr, frame: &'a Frame) -> &'a Value {
        match &self.0 {
            Some(value) => value,
            None => expr.peek(frame).unwrap_or(&Value::Null),
        }
    }
}

/// The absent result of a strict operation: `Some` if an operand is NULL or deferred.
#[inline]
fn absent(left: &Value, right: &Value) -> Option<Truth> {
    match (left, right) {
        (Value::Deferred, _) | (_, Value::Deferred) => Some(Truth::Deferred),
        (Value::Null, _) | (_, Value::Null) => Some(Truth::Unknown),
        _ => None,
    }
}

/// Only single tables are read in place, so that the row is always there.
#[inline]
fn read_field(field: &Field, cx: &Cx<'_>) -> Value {
    match unpack_row(cx.frame.get(field.row)) {
        Some(row) => cx.rows.value(field.table, row, field.column),
        None => Value::Null,
    }
}

/// `a[i]`; NULL outside of the bounds.
#[inline]
fn element<'a>(array: &'a Value, index: &'a Value) -> &'a Value {
    match (array, index) {
        (Value::Deferred, _) | (_, Value::Deferred) => &Value::Deferred,
        (Value::Array(array), Value::Int(index)) => {
            let position = usize::try_from(*index).ok().and_then(|index| index.checked_sub(1));
            position.and_then(|position| array.values.get(position)).unwrap_or(&Value::Null)
        }
        _ => &Value::Null,
    }
}

impl CompiledExpr {
    #[inline(always)]
    fn is_at_hand(&self) -> bool {
        matches!(self, CompiledExpr::Slot(_) | CompiledExpr::Constant(_) | CompiledExpr::Element { .. })
    }

    /// Copy of the expression, if its value need not be computed.
    pub(crate) fn copy_at_hand(&self) -> Option<CompiledExpr> {
        match self {
            CompiledExpr::Slot(slot) => Some(CompiledExpr::Slot(*slot)),
            CompiledExpr::Constant(value) => Some(CompiledExpr::Constant(value.clone())),
            &CompiledExpr::Element { array, index } => Some(CompiledExpr::Element { array, index }),
            _ => None,
        }
    }

    /// The value where it lies, if it need not be computed.
    #[inline(always)]
    pub fn peek<'a>(&'a self, frame: &'a Frame) -> Option<&'a Value> {
        match self {
            CompiledExpr::Slot(slot) => Some(frame.get(*slot)),
            CompiledExpr::Constant(value) => Some(value),
            CompiledExpr::Element { array, index } => Some(element(frame.get(*array), frame.get(*index))),
            _ => None,
        }
    }

    /// The value; the user's error if there is none. What is frequent stands here, so that it needs little
    /// stack and few registers; the rest is in [`CompiledExpr::eval_rarer`].
    pub fn eval(&self, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
        match self {
            CompiledExpr::Constant(value) => Ok(value.clone()),
            CompiledExpr::Slot(slot) => Ok(cx.frame.get(*slot).clone()),
            CompiledExpr::Element { array, index } => {
                Ok(element(cx.frame.get(*array), cx.frame.get(*index)).clone())
            }
            CompiledExpr::Field(field) => Ok(read_field(field, cx)),
            CompiledExpr::Binary(binary) => eval_binary(binary, cx),
            CompiledExpr::Cast(cast) => {
                let value = Operand::of(&cast.operand, cx)?;
                match value.get(&cast.operand, cx.frame) {
                    absent @ (Value::Null | Value::Deferred) => Ok(absent.clone()),
                    value => scalar::cast(value, cast),
                }
            }
            CompiledExpr::Case { whens, otherwise } => {
                for (condition, value) in whens {
                    match condition.truth(cx)? {
                        Truth::True => return value.eval(cx),
                        Truth::Deferred => return Ok(Value::Deferred),
                        Truth::False | Truth::Unknown => {}
                    }
                }
                match otherwise {
                    Some(otherwise) => otherwise.eval(cx),
                    None => Ok(Value::Null),
                }
            }
            CompiledExpr::Switch(switch) => {
                let taken = match cx.frame.get(switch.operand) {
                    Value::Int(operand) => switch.arms.iter().find(|(value, _)| value == operand),
                    Value::Deferred => return Ok(Value::Deferred),
                    _ => None,
                };
                match taken.map(|(_, value)| value).or(switch.otherwise.as_ref()) {
                    Some(value) => value.eval(cx),
                    None => Ok(Value::Null),
                }
            }
            rarer => rarer.eval_rarer(cx),
        }
    }

    fn eval_rarer(&self, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
        match self {
            CompiledExpr::Negate(operand, ty) => scalar::negate(operand.eval(cx)?, ty),
            CompiledExpr::Call(call) => {
                let mut args: SmallVec<[Value; 4]> = SmallVec::with_capacity(call.args.len());
                for arg in &call.args {
                    args.push(arg.eval(cx)?);
                }
                let types = weir_types::function::CallTypes { args: &call.arg_types, result: &call.result };
                call.function.call(&args, &types)
            }
            CompiledExpr::Coalesce(list) => {
                for expr in list {
                    let value = expr.eval(cx)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            CompiledExpr::NullIf(operands) => {
                let left = operands.0.eval(cx)?;
                let right = operands.1.eval(cx)?;
                match absent(&left, &right) {
                    Some(Truth::Deferred) => Ok(Value::Deferred),
                    Some(_) => Ok(left),
                    None if compare(&left, &right).is_eq() => Ok(Value::Null),
                    None => Ok(left),
                }
            }
            CompiledExpr::Extremum { list, greatest } => extremum(list, *greatest, cx),
            CompiledExpr::Array { element, values } => {
                let mut elements = Vec::with_capacity(values.len());
                for value in values {
                    elements.push(value.eval(cx)?);
                }
                scalar::array(element, elements)
            }
            CompiledExpr::Subscript(operands) => {
                let array = Operand::of(&operands.0, cx)?;
                let index = Operand::of(&operands.1, cx)?;
                Ok(element(array.get(&operands.0, cx.frame), index.get(&operands.1, cx.frame)).clone())
            }
            CompiledExpr::Slice(slice) => eval_slice(slice, cx),
            CompiledExpr::Row(fields) => {
                let fields: Result<Vec<Value>, SqlError> =
                    fields.iter().map(|field| field.eval(cx)).collect();
                Ok(Value::record(fields?))
            }
            CompiledExpr::Padded(operand, width) => Ok(scalar::pad(operand.eval(cx)?, *width)),
            CompiledExpr::Scalar(subquery) => subquery.eval(cx),
            CompiledExpr::ArraySubquery(subquery) => subquery.eval(cx),
            CompiledExpr::NextValue(sequence) => cx.environment.next_value(*sequence),
            CompiledExpr::CurrentValue(sequence) => cx.environment.current_value(*sequence),
            CompiledExpr::TransactionTime => Ok(Value::Timestamp(cx.transaction_time.at)),
            CompiledExpr::TransactionLocalTime => {
                cx.transaction_time.zone.local_of(cx.transaction_time.at).map(Value::Timestamp)
            }
            CompiledExpr::TransactionDate => Ok(scalar::date_of(cx.transaction_time)),
            CompiledExpr::Volatile(function) => cx.environment.volatile(*function),
            CompiledExpr::Constant(_)
            | CompiledExpr::Slot(_)
            | CompiledExpr::Element { .. }
            | CompiledExpr::Field(_)
            | CompiledExpr::Binary(_)
            | CompiledExpr::Cast(_)
            | CompiledExpr::Case { .. }
            | CompiledExpr::Switch(_) => self.eval(cx),
            CompiledExpr::Compare(_)
            | CompiledExpr::And(_)
            | CompiledExpr::Or(_)
            | CompiledExpr::Not(_)
            | CompiledExpr::IsNull { .. }
            | CompiledExpr::IsBool { .. }
            | CompiledExpr::IsDistinct { .. }
            | CompiledExpr::Like(_)
            | CompiledExpr::LikeKnown { .. }
            | CompiledExpr::InList { .. }
            | CompiledExpr::ArrayCompare(_)
            | CompiledExpr::Exists(_)
            | CompiledExpr::Quantified(_) => Ok(self.truth(cx)?.into_value()),
        }
    }

    /// The value of a boolean expression, without a [`Value`] in between.
    pub fn truth(&self, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
        match self {
            CompiledExpr::Compare(compare) => eval_compare(compare, cx),
            CompiledExpr::Slot(slot) => Ok(Truth::of(cx.frame.get(*slot))),
            CompiledExpr::And(list) => {
                let mut truth = Truth::True;
                for expr in list {
                    truth = truth.and(expr.truth(cx)?);
                    if truth == Truth::False {
                        break;
                    }
                }
                Ok(truth)
            }
            CompiledExpr::LikeKnown { operand: expr, pattern, negated } => {
                let text = Operand::of(expr, cx)?;
                Ok(match text.get(expr, cx.frame) {
                    Value::Text(text) => Truth::from(pattern.matches(text)? != *negated),
                    absent => Truth::of(absent),
                })
            }
            rarer => rarer.truth_rarer(cx),
        }
    }

    fn truth_rarer(&self, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
        match self {
            CompiledExpr::Or(list) => {
                let mut truth = Truth::False;
                for expr in list {
                    truth = truth.or(expr.truth(cx)?);
                    if truth == Truth::True {
                        break;
                    }
                }
                Ok(truth)
            }
            CompiledExpr::Not(operand) => Ok(operand.truth(cx)?.not()),
            CompiledExpr::IsNull { operand: expr, negated } => {
                let value = Operand::of(expr, cx)?;
                Ok(match value.get(expr, cx.frame) {
                    Value::Deferred => Truth::Deferred,
                    Value::Record(fields) => scalar::record_is_null(fields, *negated),
                    value => Truth::from(value.is_null() != *negated),
                })
            }
            CompiledExpr::IsBool { operand, value, negated } => Ok(match operand.truth(cx)? {
                Truth::Deferred => Truth::Deferred,
                truth => Truth::from((truth == Truth::from(*value)) != *negated),
            }),
            CompiledExpr::IsDistinct { operands, negated } => {
                let (left_expr, right_expr) = &**operands;
                let left = Operand::of(left_expr, cx)?;
                let right = Operand::of(right_expr, cx)?;
                let left = left.get(left_expr, cx.frame);
                let right = right.get(right_expr, cx.frame);
                if left.is_deferred() || right.is_deferred() {
                    return Ok(Truth::Deferred);
                }
                Ok(Truth::from(compare(left, right).is_ne() != *negated))
            }
            CompiledExpr::Like(like) => eval_like(like, cx),
            CompiledExpr::InList { operand, list, negated } => {
                Ok(eval_in_list(operand, list, cx)?.not_if(*negated))
            }
            CompiledExpr::ArrayCompare(compare) => eval_array_compare(compare, cx),
            CompiledExpr::Exists(subquery) => subquery.eval(cx),
            CompiledExpr::Quantified(subquery) => subquery.eval(cx),
            CompiledExpr::Constant(value) => Ok(Truth::of(value)),
            CompiledExpr::Compare(_) | CompiledExpr::And(_) | CompiledExpr::LikeKnown { .. } => {
                self.truth(cx)
            }
            other => Ok(Truth::of(&other.eval(cx)?)),
        }
    }
}

#[inline]
fn eval_binary(binary: &Binary, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
    if let (Some(left), Some(right)) = (binary.left.peek(cx.frame), binary.right.peek(cx.frame)) {
        return apply_binary(binary, left, right);
    }
    let left = Operand::of(&binary.left, cx)?;
    let right = Operand::of(&binary.right, cx)?;
    apply_binary(binary, left.get(&binary.left, cx.frame), right.get(&binary.right, cx.frame))
}

#[inline(always)]
fn apply_binary(binary: &Binary, left: &Value, right: &Value) -> Result<Value, SqlError> {
    if let (Value::Int(left), Value::Int(right), Some(limit)) = (left, right, binary.integer_limit) {
        let result = match binary.name {
            BinaryOp::Add => left.checked_add(*right),
            BinaryOp::Subtract => left.checked_sub(*right),
            _ => left.checked_mul(*right),
        };
        if let Some(result) = result.filter(|result| (-limit - 1..=limit).contains(result)) {
            return Ok(Value::Int(result));
        }
    }
    match absent(left, right) {
        None => (binary.apply)(left, right),
        Some(absent) => Ok(absent.into_value()),
    }
}

#[inline]
fn eval_compare(node: &Compare, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
    if let (Some(left), Some(right)) = (node.left.peek(cx.frame), node.right.peek(cx.frame)) {
        return Ok(test(node, left, right));
    }
    let left = Operand::of(&node.left, cx)?;
    let right = Operand::of(&node.right, cx)?;
    Ok(test(node, left.get(&node.left, cx.frame), right.get(&node.right, cx.frame)))
}

#[inline(always)]
fn test(node: &Compare, left: &Value, right: &Value) -> Truth {
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        return Truth::from(node.test.accepts(left.cmp(right)));
    }
    match absent(left, right) {
        None => Truth::from(node.test.accepts(compare(left, right))),
        Some(absent) => absent,
    }
}

fn extremum(list: &[CompiledExpr], greatest: bool, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
    let mut best = Value::Null;
    for expr in list {
        let value = expr.eval(cx)?;
        if value.is_deferred() {
            return Ok(value);
        }
        if value.is_null() {
            continue;
        }
        if best.is_null() || (compare(&value, &best).is_gt() == greatest && compare(&value, &best).is_ne()) {
            best = value;
        }
    }
    Ok(best)
}

fn eval_like(like: &Like, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
    let text = Operand::of(&like.operand, cx)?;
    let pattern = Operand::of(&like.pattern, cx)?;
    let escape = like.escape.as_ref().map(|escape| escape.eval(cx)).transpose()?;
    let text = text.get(&like.operand, cx.frame);
    let pattern = pattern.get(&like.pattern, cx.frame);
    if let Some(absent) = absent(text, pattern) {
        return Ok(absent);
    }
    if let Some(absent) = escape.as_ref().and_then(|escape| absent(escape, pattern)) {
        return Ok(absent);
    }
    scalar::like(text, pattern, escape.as_ref(), like.insensitive).map(|truth| truth.not_if(like.negated))
}

fn eval_in_list(operand: &CompiledExpr, list: &[CompiledExpr], cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
    let value = Operand::of(operand, cx)?;
    let mut truth = Truth::False;
    for expr in list {
        let element = Operand::of(expr, cx)?;
        let element = element.get(expr, cx.frame);
        let value = value.get(operand, cx.frame);
        truth = truth.or(match absent(value, element) {
            None => Truth::from(compare(value, element).is_eq()),
            Some(absent) => absent,
        });
        if truth.is_true() {
            break;
        }
    }
    Ok(truth)
}

fn eval_array_compare(node: &ArrayCompare, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
    let left = node.left.eval(cx)?;
    let array = node.array.eval(cx)?;
    match &array {
        Value::Deferred => Ok(Truth::Deferred),
        Value::Array(array) => quantified(node.test, &left, array.values.iter(), node.all),
        _ => Ok(Truth::Unknown),
    }
}

/// `left op ANY/ALL (values)`.
pub fn quantified<'a>(
    test: BinaryTest,
    left: &Value,
    values: impl Iterator<Item = &'a Value>,
    all: bool,
) -> Result<Truth, SqlError> {
    let mut truth = Truth::from(all);
    for value in values {
        let holds = match absent(left, value) {
            None => test.holds(left, value)?,
            Some(absent) => absent,
        };
        truth = if all { truth.and(holds) } else { truth.or(holds) };
        if truth == Truth::from(!all) {
            break;
        }
    }
    Ok(truth)
}

fn eval_slice(slice: &Slice, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
    let array = slice.array.eval(cx)?;
    let lower = slice.lower.as_ref().map(|lower| lower.eval(cx)).transpose()?;
    let upper = slice.upper.as_ref().map(|upper| upper.eval(cx)).transpose()?;
    Ok(scalar::slice(&array, lower.as_ref(), upper.as_ref()))
}
