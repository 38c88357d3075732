//! Operators: arithmetic, comparisons, LIKE, IN, BETWEEN, IS DISTINCT FROM, ANY and ALL over arrays.

use pg_query::protobuf::{AExpr, AExprKind, Node, SubLink, node};
use weir_types::operator::{self, BinaryOp};
use weir_types::{CastContext, EnumType, SqlState, SqlType, Value, cast};

use super::Binder;
use super::coerce::located;
use super::expr::{boolean, opaque, strings, union};
use super::row;
use crate::bound::{Expr, ExprKind, FromItem, OutputColumn, Query, Select};
use crate::notes::{self, Notes};
use crate::source::{Diagnostic, Span};

/// Meaning of an operator's name.
enum Operator {
    Binary(BinaryOp),
    NotMatch(BinaryOp),
    Like { insensitive: bool, negated: bool },
}

fn operator(name: &str) -> Option<Operator> {
    use BinaryOp::*;
    Some(Operator::Binary(match name {
        "+" => Add,
        "-" => Subtract,
        "*" => Multiply,
        "/" => Divide,
        "%" => Modulo,
        "^" => Power,
        "=" => Equal,
        "<>" | "!=" => NotEqual,
        "<" => Less,
        "<=" => LessOrEqual,
        ">" => Greater,
        ">=" => GreaterOrEqual,
        "||" => Concat,
        "&" => BitAnd,
        "|" => BitOr,
        "#" => BitXor,
        "<<" => ShiftLeft,
        ">>" => ShiftRight,
        "->" => JsonGet,
        "->>" => JsonGetText,
        "@>" => Contains,
        "<@" => ContainedBy,
        "?" => JsonExists,
        "&&" => Overlaps,
        "~" => RegexMatch,
        "~*" => RegexMatchInsensitive,
        "!~" => return Some(Operator::NotMatch(RegexMatch)),
        "!~*" => return Some(Operator::NotMatch(RegexMatchInsensitive)),
        "~~" => return Some(Operator::Like { insensitive: false, negated: false }),
        "!~~" => return Some(Operator::Like { insensitive: false, negated: true }),
        "~~*" => return Some(Operator::Like { insensitive: true, negated: false }),
        "!~~*" => return Some(Operator::Like { insensitive: true, negated: true }),
        _ => return None,
    }))
}

/// Operators that are functions and nothing else.
fn function_of_operator(name: &str) -> Option<&'static str> {
    Some(match name {
        "#>" => "jsonb #>",
        "#>>" => "jsonb #>>",
        "#-" => "jsonb_delete_path",
        "?|" => "jsonb_exists_any",
        "?&" => "jsonb_exists_all",
        "^@" => "starts_with",
        _ => return None,
    })
}

fn list(node: &Node) -> &[Node] {
    match &node.node {
        Some(node::Node::List(list)) => &list.items,
        _ => std::slice::from_ref(node),
    }
}

impl<'a> Binder<'a> {
    pub(super) fn bind_operator(&mut self, expr: &'a AExpr) -> Result<Expr, Diagnostic> {
        let place = self.piece.token(expr.location);
        let name = strings(&expr.name).last().copied().unwrap_or("");
        let kind = AExprKind::try_from(expr.kind).unwrap_or(AExprKind::Undefined);
        match kind {
            AExprKind::AexprOp if expr.lexpr.is_none() => self.bind_unary(name, expr, place),
            AExprKind::AexprOp => {
                let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
                if let (true, Some(node::Node::SubLink(link))) = (is_row(left), &right.node) {
                    return self.compare_row_with_query(name, left, link, place);
                }
                let (left, right) = match name {
                    "||" => (self.bind_shown(left)?, self.bind_shown(right)?),
                    _ => (self.bind_expr(left)?, self.bind_expr(right)?),
                };
                self.apply(name, left, right, place)
            }
            AExprKind::AexprOpAny | AExprKind::AexprOpAll => {
                let all = kind == AExprKind::AexprOpAll;
                let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
                let left = self.bind_expr(left)?;
                let toward = SqlType::Array(Box::new(left.ty.clone()));
                let array = match left.ty {
                    SqlType::Unknown => self.bind_expr(right)?,
                    _ if is_empty_array(right) => self.bind_expr_toward(right, &toward)?,
                    _ => self.bind_expr(right)?,
                };
                self.array_compare(name, left, array, all, place)
            }
            AExprKind::AexprDistinct | AExprKind::AexprNotDistinct => {
                let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
                let (left, right) = (self.bind_expr(left)?, self.bind_expr(right)?);
                self.distinct(left, right, kind == AExprKind::AexprNotDistinct, place)
            }
            AExprKind::AexprNullif => {
                let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
                let (left, right) = (self.bind_expr(left)?, self.bind_expr(right)?);
                // The type of the first operand as the comparison sees it.
                let ty = operator::resolve_binary(BinaryOp::Equal, &left.ty, &right.ty)
                    .map_err(|error| located(error, place))?
                    .left;
                let span = self.piece.bracketed(expr.location);
                let (left, right) = self.operands(BinaryOp::Equal, left, right, place)?.0;
                Ok(Expr { kind: ExprKind::NullIf(Box::new(left), Box::new(right)), ty, span })
            }
            AExprKind::AexprIn => self.bind_in(expr, name == "<>", place),
            AExprKind::AexprLike | AExprKind::AexprIlike => {
                let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
                let left = self.bind_expr(left)?;
                let (pattern, escape) = like_parts(right);
                let pattern = self.bind_expr(pattern)?;
                let escape = escape.map(|node| self.bind_expr(node)).transpose()?;
                let insensitive = kind == AExprKind::AexprIlike;
                self.like(left, pattern, escape, (insensitive, name.starts_with('!')), place)
            }
            AExprKind::AexprSimilar => {
                // The grammar has made the pattern a call that gives a regular expression.
                let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
                let (left, right) = (self.bind_expr(left)?, self.bind_expr(right)?);
                let name = if name.starts_with('!') { "!~" } else { "~" };
                self.apply(name, left, right, place)
            }
            AExprKind::AexprBetween
            | AExprKind::AexprNotBetween
            | AExprKind::AexprBetweenSym
            | AExprKind::AexprNotBetweenSym => self.bind_between(expr, kind, place),
            AExprKind::Undefined => Err(Diagnostic::unsupported(place, name, "rewrite the expression")),
        }
    }

    fn bind_unary(&mut self, name: &str, expr: &'a AExpr, place: Span) -> Result<Expr, Diagnostic> {
        let operand = self.required(&expr.rexpr)?;
        let operand = self.bind_expr(operand)?;
        let span = union(place, operand.span);
        let missing = |ty: &SqlType| {
            Diagnostic::new(
                SqlState::UNDEFINED_FUNCTION,
                place,
                format!("operator does not exist: {name} {ty}"),
            )
        };
        match name {
            "-" | "+" => {
                let operand = match operand.ty {
                    SqlType::Unknown => self.coerce(operand, &SqlType::Float8, CastContext::Implicit)?,
                    ref ty if ty.is_number() => operand,
                    SqlType::Interval if name == "-" => operand,
                    ref ty => return Err(missing(ty)),
                };
                if name == "+" {
                    return Ok(Expr { span, ..operand });
                }
                let ty = operand.ty.base();
                Ok(Expr { kind: ExprKind::Negate(Box::new(operand)), ty, span })
            }
            // ~x is x # -1.
            "~" if operand.ty.is_integer() => {
                let ones =
                    Expr { kind: ExprKind::Literal(Value::Int(-1)), ty: operand.ty.clone(), span: place };
                self.binary(BinaryOp::BitXor, operand, ones, place)
            }
            "@" => self.function_of("abs", vec![operand], span),
            "|/" => self.function_of("sqrt", vec![operand], span),
            _ => Err(missing(&operand.ty)),
        }
    }

    /// Any infix operator, of rows too.
    pub(super) fn apply(
        &mut self,
        name: &str,
        left: Expr,
        right: Expr,
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        match operator(name) {
            Some(Operator::Binary(op)) => self.compare(op, left, right, place),
            Some(Operator::NotMatch(op)) => {
                let matched = self.binary(op, left, right, place)?;
                let span = matched.span;
                Ok(boolean(ExprKind::Not(Box::new(matched)), span))
            }
            Some(Operator::Like { insensitive, negated }) => {
                self.like(left, right, None, (insensitive, negated), place)
            }
            None if function_of_operator(name).is_some() => {
                let span = union(left.span, right.span);
                self.function_of(function_of_operator(name).unwrap_or(name), vec![left, right], span)
            }
            None => {
                let error = Diagnostic::unsupported(
                    place,
                    format!("the operator {name}"),
                    "rewrite the expression with a function or another operator",
                );
                let span = union(left.span, right.span);
                notes::note(self.context.notes, error, Notes::replace)?;
                Ok(opaque(vec![left, right], span))
            }
        }
    }

    /// Like [`Self::binary`], but rows are compared column by column.
    pub(super) fn compare(
        &mut self,
        op: BinaryOp,
        left: Expr,
        right: Expr,
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        match (left.kind, right.kind) {
            (ExprKind::Row(left), ExprKind::Row(right)) => self.compare_rows(op, left, right, place),
            (left_kind, right_kind) => {
                let left = Expr { kind: left_kind, ..left };
                let right = Expr { kind: right_kind, ..right };
                if left.ty == SqlType::Record || right.ty == SqlType::Record {
                    return Err(Diagnostic::unsupported(
                        place,
                        "the comparison of a row with something else than a row",
                        "compare column by column, or use IN with a subquery",
                    ));
                }
                self.binary(op, left, right, place)
            }
        }
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: Expr,
        right: Expr,
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        let span = union(left.span, right.span);
        if !op.is_comparison() && [&left, &right].iter().any(|side| matches!(side.ty, SqlType::Opaque(_))) {
            return Ok(opaque(vec![left, right], span));
        }
        let ((left, right), result) = self.operands(op, left, right, place)?;
        let (left, right) = match &left.ty {
            SqlType::Enum(of) if op.is_ordering() => {
                let of = of.clone();
                (self.rank(left, &of)?, self.rank(right, &of)?)
            }
            _ => (left, right),
        };
        // An array that is NULL is none that something could not be added to.
        let append = match (op, &left.ty, &right.ty) {
            (BinaryOp::Concat, SqlType::Array(_), SqlType::Array(_)) => Some("array_cat"),
            (BinaryOp::Concat, SqlType::Array(_), _) => Some("array_append"),
            (BinaryOp::Concat, _, SqlType::Array(_)) => Some("array_prepend"),
            _ => None,
        };
        if let Some(append) = append {
            return self.function_of(append, vec![left, right], span);
        }
        let kind = ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) };
        Ok(Expr { kind, ty: result, span })
    }

    /// The position of an enumeration's value among its labels, which is how such values compare.
    pub(super) fn rank(&mut self, value: Expr, of: &EnumType) -> Result<Expr, Diagnostic> {
        let span = value.span;
        let labels = of.labels.iter().map(|label| Value::text(label.as_str())).collect();
        let ty = SqlType::array_of(SqlType::Text);
        let labels = Expr { kind: ExprKind::Literal(Value::array(SqlType::Text, labels)), ty, span };
        let text = self.coerce(value, &SqlType::Text, CastContext::Assignment)?;
        self.function_of("array_position", vec![labels, text], span)
    }

    /// Both operands cast to what the operator takes, and its result's type.
    fn operands(
        &mut self,
        op: BinaryOp,
        left: Expr,
        right: Expr,
        place: Span,
    ) -> Result<((Expr, Expr), SqlType), Diagnostic> {
        let (left, right) = (self.known_parameter(left), self.known_parameter(right));
        let opaque = |ty: &SqlType| Some(ty.clone()).filter(|ty| matches!(ty, SqlType::Opaque(_)));
        let opaque = opaque(&left.ty).or_else(|| opaque(&right.ty)).filter(|_| op.is_comparison());
        if let Some(opaque) = opaque {
            let mut typed = |side: Expr| match side.ty {
                SqlType::Unknown => self.coerce(side, &opaque, CastContext::Implicit),
                _ => Ok(side),
            };
            return Ok(((typed(left)?, typed(right)?), SqlType::Bool));
        }
        let signature =
            operator::resolve_binary(op, &left.ty, &right.ty).map_err(|error| located(error, place))?;
        let left = self.coerce_resolved(left, &signature.left)?;
        let right = self.coerce_resolved(right, &signature.right)?;
        Ok(((left, right), signature.result))
    }

    /// Updates the type of a parameter that another occurrence has fixed since.
    fn known_parameter(&self, expr: Expr) -> Expr {
        match (&expr.kind, &expr.ty) {
            (ExprKind::Variable(id), SqlType::Unknown) => {
                let ty = self.parameters.get(id.0 as usize).cloned().unwrap_or(SqlType::Unknown);
                Expr { ty, ..expr }
            }
            _ => expr,
        }
    }

    /// To the type of a resolved operator or function, which knows that the cast is allowed
    /// (`text || 1` takes any type on its right).
    pub(super) fn coerce_resolved(&mut self, expr: Expr, ty: &SqlType) -> Result<Expr, Diagnostic> {
        let implicit = expr.ty == SqlType::Unknown || cast::can_cast(&expr.ty, ty, CastContext::Implicit);
        let assignment = cast::can_cast(&expr.ty, ty, CastContext::Assignment);
        let context = match (implicit, assignment) {
            (false, true) => CastContext::Assignment,
            _ => CastContext::Implicit,
        };
        self.coerce(expr, ty, context)
    }

    fn distinct(&mut self, left: Expr, right: Expr, negated: bool, place: Span) -> Result<Expr, Diagnostic> {
        let span = union(left.span, right.span);
        match (left.kind, right.kind) {
            (ExprKind::Row(left), ExprKind::Row(right)) => {
                row::same_length(&left, &right, place)?;
                let tests = left
                    .into_iter()
                    .zip(right)
                    .map(|(left, right)| self.distinct(left, right, negated, place))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(if negated { row::all_of(tests, span) } else { row::any_of(tests, span) })
            }
            (left_kind, right_kind) => {
                let left = Expr { kind: left_kind, ..left };
                let right = Expr { kind: right_kind, ..right };
                let (left, right) = self.operands(BinaryOp::Equal, left, right, place)?.0;
                let kind = ExprKind::IsDistinct { left: Box::new(left), right: Box::new(right), negated };
                Ok(boolean(kind, span))
            }
        }
    }

    fn like(
        &mut self,
        operand: Expr,
        pattern: Expr,
        escape: Option<Expr>,
        (insensitive, negated): (bool, bool),
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        let span = union(operand.span, pattern.span);
        for side in [&operand, &pattern] {
            if !side.ty.is_string() {
                return Err(self
                    .error(
                        SqlState::UNDEFINED_FUNCTION,
                        place,
                        format!("operator does not exist: {} ~~ {}", operand.ty, pattern.ty),
                    )
                    .with_hint("LIKE compares text: cast the value with ::text"));
            }
        }
        let mut text = |expr: Expr| match expr.ty {
            SqlType::Unknown => self.coerce(expr, &SqlType::Text, CastContext::Implicit).map(Box::new),
            _ => Ok(Box::new(expr)),
        };
        let (operand, pattern) = (text(operand)?, text(pattern)?);
        let escape = escape.map(text).transpose()?;
        Ok(boolean(ExprKind::Like { operand, pattern, escape, insensitive, negated }, span))
    }

    fn bind_in(&mut self, expr: &'a AExpr, negated: bool, place: Span) -> Result<Expr, Diagnostic> {
        let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
        let operand = self.bind_expr(left)?;
        let values = self.bind_list(list(right))?;
        let end = values.iter().map(|value| value.span.end).max().unwrap_or(place.end);
        let span = Span { end: self.piece.offset + self.after_parenthesis(end), ..operand.span };
        let mut all: Vec<&Expr> = vec![&operand];
        all.extend(&values);
        let row = values.iter().chain([&operand]).any(|value| value.ty == SqlType::Record);
        let common = self.common_type(&all, "IN");
        match common {
            Ok(ty) if !row => {
                let signature =
                    operator::resolve_binary(BinaryOp::Equal, &ty, &ty).map_err(|e| located(e, place))?;
                let ty = if signature.left.base() == ty.base() { ty } else { signature.left };
                let operand = Box::new(self.coerce_resolved(operand, &ty)?);
                let list = values
                    .into_iter()
                    .map(|value| self.coerce_resolved(value, &ty))
                    .collect::<Result<_, _>>()?;
                Ok(boolean(ExprKind::InList { operand, list, negated }, span))
            }
            // No common type, or rows: one comparison each.
            _ => {
                let op = if negated { BinaryOp::NotEqual } else { BinaryOp::Equal };
                let tests = values
                    .into_iter()
                    .map(|value| self.compare(op, operand.clone(), value, place))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(if negated { row::all_of(tests, span) } else { row::any_of(tests, span) })
            }
        }
    }

    /// The piece's offset of what follows `)` after a place in the file.
    fn after_parenthesis(&self, end: u32) -> u32 {
        let at = end.saturating_sub(self.piece.offset) as usize;
        match crate::lexer::Lexer::new(self.piece.text, at).next() {
            Some(token) if token.is(b')') => token.end as u32,
            _ => at as u32,
        }
    }

    fn bind_between(&mut self, expr: &'a AExpr, kind: AExprKind, place: Span) -> Result<Expr, Diagnostic> {
        let (left, right) = (self.required(&expr.lexpr)?, self.required(&expr.rexpr)?);
        let [low, high] = list(right) else {
            return Err(self.error(SqlState::SYNTAX_ERROR, place, "BETWEEN wants two bounds"));
        };
        let value = self.bind_expr(left)?;
        let (low, high) = (self.bind_expr(low)?, self.bind_expr(high)?);
        let negated = matches!(kind, AExprKind::AexprNotBetween | AExprKind::AexprNotBetweenSym);
        let span = union(value.span, high.span);
        let mut inside = |low: &Expr, high: &Expr| {
            let (first, second) = match negated {
                false => (BinaryOp::GreaterOrEqual, BinaryOp::LessOrEqual),
                true => (BinaryOp::Less, BinaryOp::Greater),
            };
            let first = self.compare(first, value.clone(), low.clone(), place)?;
            let second = self.compare(second, value.clone(), high.clone(), place)?;
            let tests = vec![first, second];
            Ok::<Expr, Diagnostic>(match negated {
                false => row::all_of(tests, span),
                true => row::any_of(tests, span),
            })
        };
        let straight = inside(&low, &high)?;
        if matches!(kind, AExprKind::AexprBetween | AExprKind::AexprNotBetween) {
            return Ok(straight);
        }
        let tests = vec![straight, inside(&high, &low)?];
        Ok(if negated { row::all_of(tests, span) } else { row::any_of(tests, span) })
    }

    fn array_compare(
        &mut self,
        name: &str,
        left: Expr,
        array: Expr,
        all: bool,
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        let span = union(left.span, array.span);
        let Some(Operator::Binary(op)) = operator(name) else {
            let Some(elements) = self.elements_known(&array)? else {
                let what = format!("{name} ANY/ALL of an array that is computed");
                return Err(Diagnostic::unsupported(
                    place,
                    what,
                    "write the comparisons out with OR and AND",
                ));
            };
            let tests = elements
                .into_iter()
                .map(|element| self.apply(name, left.clone(), element, place))
                .collect::<Result<Vec<_>, _>>()?;
            return Ok(match (tests.is_empty(), all) {
                (true, _) => boolean(ExprKind::Literal(Value::Bool(all)), span),
                (_, true) => row::all_of(tests, span),
                (_, false) => row::any_of(tests, span),
            });
        };
        let array = match array.ty {
            SqlType::Unknown => {
                let left = if left.ty == SqlType::Unknown { SqlType::Text } else { left.ty.base() };
                self.coerce(array, &SqlType::Array(Box::new(left)), CastContext::Implicit)?
            }
            _ => array,
        };
        let SqlType::Array(element) = array.ty.clone() else {
            return Err(self.error(
                SqlState::WRONG_OBJECT_TYPE,
                array.span,
                format!("op ANY/ALL (array) requires array on right side, not {}", array.ty),
            ));
        };
        let left = self.known_parameter(left);
        let signature =
            operator::resolve_binary(op, &left.ty, &element).map_err(|error| located(error, place))?;
        let left = Box::new(self.coerce_resolved(left, &signature.left)?);
        let right = SqlType::Array(Box::new(signature.right));
        let array = Box::new(self.coerce_resolved(array, &right)?);
        if signature.result != SqlType::Bool {
            return Err(self.error(
                SqlState::WRONG_OBJECT_TYPE,
                place,
                "op ANY/ALL (array) requires operator to yield boolean",
            ));
        }
        Ok(boolean(ExprKind::ArrayCompare { op, left, array, all }, span))
    }

    /// The elements of an array that is written out.
    fn elements_known(&mut self, array: &Expr) -> Result<Option<Vec<Expr>>, Diagnostic> {
        let text = SqlType::array_of(SqlType::Text);
        let array = match array.ty {
            SqlType::Unknown => self.coerce(array.clone(), &text, CastContext::Implicit)?,
            _ => array.clone(),
        };
        let span = array.span;
        Ok(match array.kind {
            ExprKind::Array(elements) => Some(elements),
            ExprKind::Literal(Value::Array(values)) => {
                let literal = |value: &Value| {
                    let (kind, ty) = (ExprKind::Literal(value.clone()), values.element.clone());
                    Expr { kind, ty, span }
                };
                Some(values.values.iter().map(literal).collect())
            }
            _ => None,
        })
    }

    /// `(a, b) = (SELECT x, y …)` is `(SELECT (a, b) = (x, y) FROM (SELECT …))`: NULL without a row, an error with several.
    fn compare_row_with_query(
        &mut self,
        name: &str,
        left: &'a Node,
        link: &'a SubLink,
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        let Some(node::Node::SelectStmt(select)) =
            link.subselect.as_deref().and_then(|node| node.node.as_ref())
        else {
            return Err(self.error(SqlState::SYNTAX_ERROR, place, "a subquery is missing here"));
        };
        let left = self.bind_expr(left)?;
        let query = self.bind_query(select)?;
        let span = union(left.span, self.piece.bracketed(link.location));
        let width = match &left.kind {
            ExprKind::Row(fields) => fields.len(),
            _ => 1,
        };
        if query.columns.len() != width {
            let few = if query.columns.len() < width { "few" } else { "many" };
            return Err(self.error(SqlState::SYNTAX_ERROR, place, format!("subquery has too {few} columns")));
        }
        let relation = self.new_relation();
        let column = |(column, output): (usize, &OutputColumn)| {
            let kind = ExprKind::Column { relation, column };
            Expr { kind, ty: output.ty.clone(), span }
        };
        let right = ExprKind::Row(query.columns.iter().enumerate().map(column).collect());
        let right = Expr { kind: right, ty: SqlType::Record, span };
        let test = self.apply(name, left, right, place)?;
        let columns = vec![OutputColumn::new(String::new(), SqlType::Bool)];
        let from = vec![FromItem::Subquery { relation, query: Box::new(query), lateral: true }];
        let compared = Query::of_select(Select::plain(vec![test], from, None), columns, span);
        Ok(boolean(ExprKind::ScalarSubquery(Box::new(compared)), span))
    }

    /// The operator of a comparison with a subquery.
    pub(super) fn comparison(&self, name: &str, place: Span) -> Result<BinaryOp, Diagnostic> {
        match operator(name) {
            Some(Operator::Binary(op)) => Ok(op),
            _ => Err(Diagnostic::unsupported(
                place,
                format!("{name} ANY/ALL of a subquery"),
                "use EXISTS with the condition inside",
            )),
        }
    }
}

fn is_row(node: &Node) -> bool {
    matches!(&node.node, Some(node::Node::RowExpr(_)))
}

fn is_empty_array(node: &Node) -> bool {
    matches!(&node.node, Some(node::Node::AArrayExpr(array)) if array.elements.is_empty())
}

/// The pattern and the ESCAPE of a LIKE's right side.
fn like_parts(node: &Node) -> (&Node, Option<&Node>) {
    if let Some(node::Node::FuncCall(call)) = &node.node {
        let escaping = strings(&call.funcname).last() == Some(&"like_escape");
        if let (true, [pattern, escape]) = (escaping, call.args.as_slice()) {
            return (pattern, Some(escape));
        }
    }
    (node, None)
}
