//! Types that meet: casts made explicit, literals read as what they must be, common types found.
//!
//! A cast that changes nothing but a modifier or the name of a string type (varchar to text) is left
//! away where it is implicit: the values are the same.

use weir_types::datetime::SessionZone;
use weir_types::datetime::modifier::{PRECISION_MAX, fit_interval, fit_timestamp, with_unit};
use weir_types::{CastContext, SqlError, SqlState, SqlType, Value, cast, text};

use super::Binder;
use crate::bound::{Expr, ExprKind};
use crate::catalog::Column;
use crate::local_times;
use crate::source::{Diagnostic, Span};
use crate::type_name::unmodified;

/// An error of `weir-types`, at a place.
pub(super) fn located(error: SqlError, span: Span) -> Diagnostic {
    let fields = error.fields();
    let hint = fields.hint.clone().or_else(|| fields.detail.clone());
    Diagnostic { hint, ..Diagnostic::new(fields.state, span, fields.message.clone()) }
}

pub(super) fn null(ty: SqlType, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(Value::Null), ty, span }
}

/// A literal that is to be an interval, with the unit that its fields say.
pub(super) fn in_units(expr: Expr, ty: &SqlType, modifier: Option<i32>) -> Expr {
    match (&expr.kind, modifier) {
        (ExprKind::Literal(Value::Text(text)), Some(modifier))
            if expr.ty == SqlType::Unknown && *ty == SqlType::Interval =>
        {
            let text = with_unit(text, modifier).into_owned();
            Expr { kind: ExprKind::Literal(Value::text(text)), ..expr }
        }
        _ => expr,
    }
}

/// A literal whose value depends on the zone of the session that runs it.
fn local_literal(literal: &str, ty: SqlType, span: Span) -> Expr {
    let kind = ExprKind::Literal(Value::text(literal));
    let operand = Box::new(Expr { kind, ty: SqlType::Unknown, span });
    Expr { kind: ExprKind::Cast { operand, explicit: true }, ty, span }
}

fn has_modifier(ty: &SqlType) -> bool {
    match ty {
        SqlType::Numeric(Some(_)) | SqlType::Varchar(Some(_)) => true,
        SqlType::Char(length) => *length > 0,
        SqlType::Array(element) => has_modifier(element),
        _ => false,
    }
}

/// Of the same kind, modifiers aside.
pub(super) fn same_base(left: &SqlType, right: &SqlType) -> bool {
    match (left, right) {
        (SqlType::Char(_), SqlType::Char(_)) => true,
        (SqlType::Array(left), SqlType::Array(right)) => same_base(left, right),
        _ => left.base() == right.base(),
    }
}

/// The values of both are the same, so that a cast between them computes nothing.
fn same_values(left: &SqlType, right: &SqlType) -> bool {
    let plain_text = |ty: &SqlType| matches!(ty, SqlType::Text | SqlType::Varchar(_));
    same_base(left, right) || plain_text(left) && plain_text(right)
}

impl<'a> Binder<'a> {
    pub(crate) fn coerce(
        &mut self,
        expr: Expr,
        target: &SqlType,
        context: CastContext,
    ) -> Result<Expr, Diagnostic> {
        if expr.ty == *target || *target == SqlType::Unknown {
            return Ok(expr);
        }
        if expr.ty == SqlType::Unknown {
            return self.coerce_unknown(expr, target, context);
        }
        if matches!(context, CastContext::Implicit) && same_values(&expr.ty, target) {
            return Ok(expr);
        }
        if same_base(&expr.ty, target) && !has_modifier(target) {
            return Ok(Expr { ty: target.clone(), ..expr });
        }
        if let (ExprKind::Array(_), SqlType::Array(element)) = (&expr.kind, target) {
            let (element, span) = (element.as_ref().clone(), expr.span);
            let ExprKind::Array(elements) = expr.kind else { return Ok(expr) };
            let elements = elements
                .into_iter()
                .map(|value| self.coerce(value, &element, context))
                .collect::<Result<_, _>>()?;
            return Ok(Expr { kind: ExprKind::Array(elements), ty: target.clone(), span });
        }
        if cast::can_cast(&expr.ty, target, context) {
            return Ok(self.cast(expr, target, context));
        }
        let message = match context {
            CastContext::Explicit => format!("cannot cast type {} to {target}", expr.ty),
            _ => format!("a value of type {target} is wanted here, not of type {}", expr.ty),
        };
        let state = match context {
            CastContext::Explicit => SqlState::CANNOT_COERCE,
            _ => SqlState::DATATYPE_MISMATCH,
        };
        Err(self.error(state, expr.span, message))
    }

    fn cast(&self, expr: Expr, target: &SqlType, context: CastContext) -> Expr {
        let explicit = matches!(context, CastContext::Explicit);
        let span = expr.span;
        if let ExprKind::Literal(Value::Null) = expr.kind {
            return null(target.clone(), span);
        }
        // A literal's cast is done here, unless it fails: then it fails when it runs, if it ever does. What depends on the session's
        // zone is done when it runs.
        if let ExprKind::Literal(value) = &expr.kind
            && let (Ok(value), false) = SessionZone::is_asked(|| cast::cast(value, &expr.ty, target, context))
        {
            return Expr { kind: ExprKind::Literal(value), ty: target.clone(), span };
        }
        Expr { kind: ExprKind::Cast { operand: Box::new(expr), explicit }, ty: target.clone(), span }
    }

    /// A literal is read as a `target`; a parameter becomes one.
    fn coerce_unknown(
        &mut self,
        expr: Expr,
        target: &SqlType,
        context: CastContext,
    ) -> Result<Expr, Diagnostic> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Literal(Value::Null) => Ok(null(target.clone(), span)),
            ExprKind::Literal(Value::Text(literal)) => {
                let literal = literal.clone();
                self.read_literal(&literal, target, context, span)
            }
            ExprKind::Variable(id) if self.context.infer_parameters => {
                let index = id.0 as usize;
                let Some(known) = self.parameters.get_mut(index) else { return Ok(expr) };
                if *known == SqlType::Unknown {
                    *known = target.base();
                }
                let typed = Expr { ty: known.clone(), ..expr };
                self.coerce(typed, target, context)
            }
            _ => self.coerce(Expr { ty: SqlType::Text, ..expr }, target, context),
        }
    }

    fn read_literal(
        &mut self,
        literal: &str,
        target: &SqlType,
        context: CastContext,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let value = match target {
            SqlType::Text | SqlType::Varchar(_) => Value::text(literal),
            SqlType::Char(_) => Value::text(literal.trim_end_matches(' ')),
            SqlType::Record | SqlType::Void => {
                return Err(self.error(
                    SqlState::DATATYPE_MISMATCH,
                    span,
                    format!("a literal cannot be of type {target}"),
                ));
            }
            other => {
                let (read, is_local) = SessionZone::is_asked(|| text::parse_text(literal, &other.base()));
                let value = read.map_err(|error| located(error, span))?;
                match (is_local, self.context.fixes_times) {
                    (true, false) => return Ok(local_literal(literal, other.base(), span)),
                    (true, true) => local_times::note(span, literal, &other.base()),
                    (false, _) => {}
                }
                value
            }
        };
        let fits = match (target, context) {
            (SqlType::Varchar(Some(n)), _) => literal.chars().count() <= *n as usize,
            (SqlType::Char(n), _) if *n > 0 => literal.trim_end_matches(' ').chars().count() <= *n as usize,
            _ => !has_modifier(target),
        };
        if fits {
            return Ok(Expr { kind: ExprKind::Literal(value), ty: target.clone(), span });
        }
        let ty = match target {
            SqlType::Char(_) => SqlType::Text,
            other => other.base(),
        };
        let read = Expr { kind: ExprKind::Literal(value), ty, span };
        match context {
            CastContext::Implicit => Ok(Expr { ty: target.clone(), ..read }),
            _ => Ok(self.cast(read, target, context)),
        }
    }

    pub(super) fn coerce_boolean(&mut self, expr: Expr, clause: &str) -> Result<Expr, Diagnostic> {
        match expr.ty {
            SqlType::Bool => Ok(expr),
            SqlType::Unknown | SqlType::Opaque(_) => self.coerce(expr, &SqlType::Bool, CastContext::Implicit),
            ref other => Err(self.error(
                SqlState::DATATYPE_MISMATCH,
                expr.span,
                format!("argument of {clause} must be type boolean, not type {other}"),
            )),
        }
    }

    /// Into a column.
    pub(super) fn coerce_column(
        &mut self,
        expr: Expr,
        column: &str,
        ty: &SqlType,
    ) -> Result<Expr, Diagnostic> {
        let (from, span) = (expr.ty.clone(), expr.span);
        if from != SqlType::Unknown
            && !same_values(&from, ty)
            && !cast::can_cast(&from, ty, CastContext::Assignment)
        {
            return Err(self
                .error(
                    SqlState::DATATYPE_MISMATCH,
                    span,
                    format!("column \"{column}\" is of type {ty} but expression is of type {from}"),
                )
                .with_hint("you will need to rewrite or cast the expression"));
        }
        self.coerce(expr, ty, CastContext::Assignment)
    }

    /// Into a column, as its modifier has it.
    pub(super) fn coerce_into(&mut self, expr: Expr, column: &Column) -> Result<Expr, Diagnostic> {
        let expr = in_units(expr, &column.ty, column.time_modifier);
        let value = self.coerce_column(expr, &column.name, &column.ty)?;
        self.fitted(value, column.time_modifier)
    }

    /// A timestamp or an interval with the digits and fields of the modifier.
    pub(crate) fn fitted(&mut self, expr: Expr, modifier: Option<i32>) -> Result<Expr, Diagnostic> {
        let name = match (&expr.ty, modifier) {
            (_, None | Some(PRECISION_MAX)) => return Ok(expr),
            (SqlType::Timestamp, _) => "timestamp",
            (SqlType::Timestamptz, _) => "timestamptz",
            (SqlType::Interval, _) => "interval",
            _ => return Ok(expr),
        };
        let modifier = modifier.unwrap_or(PRECISION_MAX);
        let fit = |value: &Value| match value {
            Value::Timestamp(timestamp) => fit_timestamp(*timestamp, modifier).map(Value::Timestamp),
            Value::Interval(interval) => fit_interval(interval, modifier).map(Value::interval),
            other => Ok(other.clone()),
        };
        let span = expr.span;
        if let ExprKind::Literal(value) = &expr.kind {
            let value = fit(value).map_err(|error| located(error, span))?;
            return Ok(Expr { kind: ExprKind::Literal(value), ..expr });
        }
        let modifier = ExprKind::Literal(Value::Int(modifier.into()));
        self.function_of(name, vec![expr, Expr { kind: modifier, ty: SqlType::Int4, span }], span)
    }

    /// Into a variable: what no assignment cast does goes through the value's text, as PL/pgSQL has it.
    pub(super) fn coerce_assign(&mut self, expr: Expr, ty: &SqlType) -> Result<Expr, Diagnostic> {
        let explicit_only = expr.ty != SqlType::Unknown
            && !same_values(&expr.ty, ty)
            && !cast::can_cast(&expr.ty, ty, CastContext::Assignment)
            && cast::can_cast(&expr.ty, ty, CastContext::Explicit);
        let context = if explicit_only { CastContext::Explicit } else { CastContext::Assignment };
        self.coerce(expr, ty, context)
    }

    /// The one type that all have (PostgreSQL, "UNION, CASE, and related constructs"); `what` for messages.
    pub(super) fn common_type(&self, exprs: &[&Expr], what: &str) -> Result<SqlType, Diagnostic> {
        let mut common: Option<SqlType> = None;
        for expr in exprs.iter().filter(|expr| expr.ty != SqlType::Unknown) {
            common = Some(match common {
                None => expr.ty.clone(),
                Some(so_far) => self.wider(so_far, &expr.ty).ok_or_else(|| {
                    let first = exprs.iter().find(|expr| expr.ty != SqlType::Unknown);
                    let first = first.map_or(SqlType::Unknown, |expr| expr.ty.base());
                    self.error(
                        SqlState::DATATYPE_MISMATCH,
                        expr.span,
                        format!("{what} types {first} and {} cannot be matched", expr.ty.base()),
                    )
                })?,
            });
        }
        // A literal has no modifier, so that the common type has none either.
        let common = common.unwrap_or(SqlType::Text);
        let literal = exprs.iter().any(|expr| expr.ty == SqlType::Unknown);
        Ok(if literal { unmodified(common) } else { common })
    }

    /// `None` where neither becomes the other implicitly.
    fn wider(&self, left: SqlType, right: &SqlType) -> Option<SqlType> {
        match (&left, right) {
            (left_type, right) if left_type == right => return Some(left),
            (SqlType::Char(_), SqlType::Char(_)) => return Some(SqlType::Char(0)),
            (SqlType::Opaque(_), right) => return Some(right.clone()),
            (_, SqlType::Opaque(_)) => return Some(left),
            (left, right) if same_base(left, right) => return Some(left.base()),
            _ => {}
        }
        if category(&left) != category(right) {
            return None;
        }
        let to_right = cast::can_cast(&left, right, CastContext::Implicit);
        let to_left = cast::can_cast(right, &left, CastContext::Implicit);
        match (to_right, to_left) {
            (true, false) => Some(right.base()),
            (true, true) if preferred(right) && !preferred(&left) => Some(right.base()),
            (_, true) => Some(left.base()),
            (false, false) => None,
        }
    }

    /// All of them, cast to their common type.
    pub(super) fn unify(&mut self, exprs: Vec<Expr>, what: &str) -> Result<(Vec<Expr>, SqlType), Diagnostic> {
        let ty = self.common_type(&exprs.iter().collect::<Vec<_>>(), what)?;
        let exprs = exprs
            .into_iter()
            .map(|expr| self.coerce(expr, &ty, CastContext::Implicit))
            .collect::<Result<_, _>>()?;
        Ok((exprs, ty))
    }
}

fn category(ty: &SqlType) -> u8 {
    match ty {
        SqlType::Bool => b'B',
        ty if ty.is_number() => b'N',
        ty if ty.is_string() => b'S',
        SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => b'D',
        SqlType::Interval => b'T',
        SqlType::Array(_) => b'A',
        SqlType::Record => b'P',
        SqlType::Uuid => b'u',
        SqlType::Bytea => b'b',
        SqlType::Jsonb => b'j',
        _ => b'X',
    }
}

fn preferred(ty: &SqlType) -> bool {
    matches!(ty, SqlType::Bool | SqlType::Float8 | SqlType::Text | SqlType::Timestamptz | SqlType::Interval)
}
