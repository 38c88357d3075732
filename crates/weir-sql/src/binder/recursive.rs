//! WITH RECURSIVE: a UNION whose right side names the CTE itself, once, in its FROM (SQL:1999 7.12).

use pg_query::protobuf::{CommonTableExpr, node};
use weir_types::{SqlState, SqlType};

use super::Binder;
use super::query::rename;
use super::scope::{CteKind, CteName};
use crate::bound::{FromItem, JoinKind, Query, QueryBody, SetOperator};
use crate::source::{Diagnostic, Span};
use crate::walk::{self, Part};

/// A CTE that may name itself.
pub(super) struct Recursive {
    name: String,
    /// Of the WITH, among the frames.
    frame: usize,
    /// Among the CTEs of that WITH.
    index: usize,
    columns: Vec<String>,
    span: Span,
}

impl<'a> Binder<'a> {
    /// The query, and whether it is recursive.
    pub(super) fn bind_recursive_cte(
        &mut self,
        cte: &'a CommonTableExpr,
        index: usize,
    ) -> Result<(Query, bool), Diagnostic> {
        let is_union = match cte.ctequery.as_deref().and_then(|query| query.node.as_ref()) {
            Some(node::Node::SelectStmt(select)) => select.larg.is_some(),
            _ => false,
        };
        if !is_union {
            return Ok((self.bind_cte(cte)?, false));
        }
        let frame = self.ctes.len() - 1;
        let columns = super::expr::strings(&cte.aliascolnames).into_iter().map(str::to_owned).collect();
        let span = self.piece.token(cte.location);
        self.recursive = Some(Recursive { name: cte.ctename.clone(), frame, index, columns, span });
        let query = self.bind_cte(cte)?;
        // Behind it comes the name by which others refer to it.
        let own = self.ctes[frame].names.pop();
        let recursive = own.is_some_and(|own| own.references > 0);
        let span = self.piece.token(cte.location);
        if recursive && (!query.order_by.is_empty() || query.limit.is_some() || query.offset.is_some()) {
            let message = "ORDER BY, LIMIT or OFFSET in a recursive query is not implemented";
            return Err(self.error(SqlState::FEATURE_NOT_SUPPORTED, span, message));
        }
        Ok((query, recursive))
    }

    /// The left side says what columns the CTE has.
    pub(super) fn begin_recursion(
        &mut self,
        recursive: &Recursive,
        left: &mut Query,
    ) -> Result<(), Diagnostic> {
        let text = |ty: &SqlType| if *ty == SqlType::Unknown { SqlType::Text } else { ty.clone() };
        let types: Vec<SqlType> = left.columns.iter().map(|column| text(&column.ty)).collect();
        self.coerce_outputs(left, &types)?;
        let mut columns = left.columns.clone();
        let names: Vec<&str> = recursive.columns.iter().map(String::as_str).collect();
        rename(&mut columns, &names, &recursive.name, recursive.span)?;
        let kind = CteKind::Bound { index: recursive.index, columns };
        let name = CteName { name: recursive.name.clone(), kind, references: 0 };
        self.ctes[recursive.frame].names.push(name);
        Ok(())
    }

    pub(super) fn check_recursion(
        &self,
        recursive: &Recursive,
        (op, word): (SetOperator, &str),
        left: &Query,
        right: &Query,
    ) -> Result<(), Diagnostic> {
        let Recursive { name, frame, span, .. } = recursive;
        let references = self.ctes[*frame].names.last().map_or(0, |own| own.references);
        if references == 0 {
            return Ok(());
        }
        let wrong = |message: String| Err(self.error(SqlState::INVALID_RECURSION, *span, message));
        if op != SetOperator::Union {
            return wrong(format!("recursive query \"{name}\" does not have the form of a UNION: {word}"));
        }
        if references > 1 {
            return wrong(format!("recursive reference to query \"{name}\" must not appear more than once"));
        }
        for (number, (one, other)) in left.columns.iter().zip(&right.columns).enumerate() {
            if other.ty != SqlType::Unknown && one.ty.base() != other.ty.base() {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                    number + 1,
                    one.ty,
                    other.ty
                );
                return Err(self.error(SqlState::DATATYPE_MISMATCH, *span, message));
            }
        }
        let QueryBody::Select(select) = &right.body else {
            let what = "a recursive term that is no plain SELECT";
            return Err(Diagnostic::unsupported(*span, what, "write one SELECT behind the UNION"));
        };
        if select.aggregates {
            return wrong(
                "aggregate functions are not allowed in a recursive query's recursive term".to_owned(),
            );
        }
        // One level for the union, one for its right side.
        let is_own = |item: &FromItem| matches!(item, FromItem::Cte { level: 2, index, .. } if *index == recursive.index);
        if select.from.iter().any(|item| stands_alone(item, &is_own)) && right.ctes.is_empty() {
            return Ok(());
        }
        let mut outer = false;
        for item in &select.from {
            walk::each_part(Part::From(item), &mut |part| {
                outer |= matches!(part, Part::From(FromItem::Join { kind, .. })
                    if !matches!(kind, JoinKind::Inner | JoinKind::Cross));
            });
        }
        if outer {
            return wrong(format!(
                "recursive reference to query \"{name}\" must not appear within an outer join"
            ));
        }
        let what = format!("the recursive reference to {name} within a subquery");
        Err(Diagnostic::unsupported(*span, what, "name it in the FROM of the recursive term itself"))
    }
}

/// It is that item, or joins it so that each of its rows stays.
fn stands_alone(item: &FromItem, is_it: &dyn Fn(&FromItem) -> bool) -> bool {
    match item {
        FromItem::Join { kind, left, right, .. } => match kind {
            JoinKind::Inner | JoinKind::Cross => stands_alone(left, is_it) || stands_alone(right, is_it),
            JoinKind::Left => stands_alone(left, is_it),
            JoinKind::Right => stands_alone(right, is_it),
            JoinKind::Full => false,
        },
        item => is_it(item),
    }
}
