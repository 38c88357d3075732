//! Subqueries inside of expressions.

use pg_query::protobuf::{SelectStmt, SubLink, SubLinkType, node};
use weir_types::operator;
use weir_types::{CastContext, SqlState, SqlType};

use super::Binder;
use super::coerce::located;
use super::expr::{boolean, strings, union};
use crate::bound::{Expr, ExprKind, Query, QueryBody};
use crate::source::{Diagnostic, Span};

impl<'a> Binder<'a> {
    pub(super) fn bind_sublink(&mut self, link: &'a SubLink) -> Result<Expr, Diagnostic> {
        let span = self.piece.bracketed(link.location);
        let select = match link.subselect.as_deref().and_then(|node| node.node.as_ref()) {
            Some(node::Node::SelectStmt(select)) => select,
            _ => return Err(self.error(SqlState::SYNTAX_ERROR, span, "a subquery is missing here")),
        };
        match SubLinkType::try_from(link.sub_link_type) {
            Ok(SubLinkType::ExistsSublink) => {
                let query = Box::new(self.bind_query(select)?);
                Ok(boolean(ExprKind::Exists { query, negated: false }, span))
            }
            Ok(SubLinkType::ExprSublink) => self.bind_scalar_subquery(select, span),
            Ok(SubLinkType::ArraySublink) => {
                let query = self.bind_query(select)?;
                let element = self.one_column(&query, span)?;
                if matches!(element, SqlType::Array(_)) {
                    return Err(Diagnostic::unsupported(
                        span,
                        "an array of more than one dimension",
                        "use one dimension, or jsonb",
                    ));
                }
                let kind = ExprKind::ArraySubquery(Box::new(query));
                Ok(Expr { kind, ty: SqlType::Array(Box::new(element)), span })
            }
            Ok(SubLinkType::AnySublink) => self.bind_quantified(link, select, false),
            Ok(SubLinkType::AllSublink) => self.bind_quantified(link, select, true),
            _ => Err(Diagnostic::unsupported(
                span,
                "this kind of subquery",
                "use EXISTS, IN or a subquery of one column",
            )),
        }
    }

    pub(super) fn bind_scalar_subquery(
        &mut self,
        select: &'a SelectStmt,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let query = self.bind_query(select)?;
        let ty = self.one_column(&query, span)?;
        Ok(Expr { kind: ExprKind::ScalarSubquery(Box::new(query)), ty, span })
    }

    fn one_column(&self, query: &Query, span: Span) -> Result<SqlType, Diagnostic> {
        match query.columns.as_slice() {
            [column] => Ok(column.ty.clone()),
            _ => Err(self.error(SqlState::SYNTAX_ERROR, span, "subquery must return only one column")),
        }
    }

    fn bind_quantified(
        &mut self,
        link: &'a SubLink,
        select: &'a SelectStmt,
        all: bool,
    ) -> Result<Expr, Diagnostic> {
        let place = self.piece.token(link.location);
        let test = self.required(&link.testexpr)?;
        let test = self.bind_expr(test)?;
        let start = test.span;
        let left = match test.kind {
            ExprKind::Row(fields) => fields,
            kind => vec![Expr { kind, ..test }],
        };
        let op = self.comparison(strings(&link.oper_name).last().copied().unwrap_or("="), place)?;
        let mut query = self.bind_query_with(select, false)?;
        if query.columns.len() != left.len() {
            let few = if query.columns.len() < left.len() { "few" } else { "many" };
            return Err(self.error(SqlState::SYNTAX_ERROR, place, format!("subquery has too {few} columns")));
        }
        let (mut cast_left, mut targets) = (Vec::new(), Vec::new());
        for (expr, column) in left.into_iter().zip(&query.columns) {
            let signature =
                operator::resolve_binary(op, &expr.ty, &column.ty).map_err(|error| located(error, place))?;
            if signature.result != SqlType::Bool {
                return Err(self.error(
                    SqlState::DATATYPE_MISMATCH,
                    place,
                    "the operator of ANY/ALL must yield boolean",
                ));
            }
            cast_left.push(self.coerce_resolved(expr, &signature.left)?);
            targets.push(signature.right);
        }
        self.coerce_outputs(&mut query, &targets)?;
        let span = union(start, self.piece.bracketed(link.location));
        let kind = ExprKind::QuantifiedSubquery { op, left: cast_left, query: Box::new(query), all };
        Ok(boolean(kind, span))
    }

    /// Every branch's outputs cast to `targets`, implicitly.
    pub(super) fn coerce_outputs(
        &mut self,
        query: &mut Query,
        targets: &[SqlType],
    ) -> Result<(), Diagnostic> {
        let mut cast = |expr: &mut Expr, target: &SqlType| -> Result<(), Diagnostic> {
            let taken = std::mem::replace(expr, super::coerce::null(SqlType::Unknown, expr.span));
            *expr = self.coerce(taken, target, CastContext::Implicit)?;
            Ok(())
        };
        match &mut query.body {
            QueryBody::Select(select) => {
                for (output, target) in select.outputs.iter_mut().zip(targets) {
                    cast(output, target)?;
                }
            }
            QueryBody::Values(rows) => {
                for row in rows {
                    for (value, target) in row.iter_mut().zip(targets) {
                        cast(value, target)?;
                    }
                }
            }
            QueryBody::SetOperation { left, right, .. } => {
                self.coerce_outputs(left, targets)?;
                self.coerce_outputs(right, targets)?;
            }
        }
        for (column, target) in query.columns.iter_mut().zip(targets) {
            column.ty = target.clone();
        }
        Ok(())
    }
}
