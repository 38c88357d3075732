//! Targets of INSERT, UPDATE and DELETE: tables, and automatically updatable views.
//!
//! As in PostgreSQL, a view is updatable if each of its rows is one row of one table. Then its columns stand for the table's columns, and
//! its condition is added to the statement's.

use pg_query::protobuf::RangeVar;
use weir_types::SqlState;

use super::Binder;
use super::scope::{Scope, ScopeColumn};
use crate::bound::{Distinct, Expr, ExprKind, FromItem, QueryBody, RelationId};
use crate::catalog::{Catalog, ColumnIndex, Table, View, ViewTarget};
use crate::ddl::relation_name;
use crate::source::{Diagnostic, Span};
use crate::walk;

pub(super) struct Target<'a> {
    pub table: &'a Table,
    /// Name of the target in the statement.
    pub alias: String,
    pub span: Span,
    view: Option<&'a ViewTarget>,
}

impl Target<'_> {
    /// In sight as this relation; a view shows its own columns, in its own order.
    pub fn scope(&self, relation: RelationId) -> Scope {
        let mut scope = Scope::of_table(self.table, &self.alias, relation, self.span);
        if let (Some(view), Some(seen)) = (self.view, scope.relations.first_mut()) {
            let named = |column: &ColumnIndex| {
                let is_it = |one: &&ScopeColumn| matches!(one.expr.kind, ExprKind::Column { column: of, .. } if of == *column);
                seen.columns.iter().find(is_it).cloned()
            };
            seen.columns = view.columns.iter().filter_map(named).collect();
        }
        scope
    }

    /// The columns of an INSERT that names none.
    pub fn columns(&self) -> Vec<ColumnIndex> {
        match self.view {
            Some(view) => view.columns.clone(),
            None => (0..self.table.columns.len()).filter(|&at| !self.table.columns[at].is_hidden).collect(),
        }
    }

    /// The statement's condition, and the view's.
    pub fn filter(&self, filter: Option<Expr>, relation: RelationId) -> Option<Expr> {
        let Some(of_view) = self.view.and_then(|view| view.filter.as_ref()) else { return filter };
        let mut of_view = of_view.clone();
        walk::each_expr_mut(&mut of_view, &mut |part: &mut Expr| {
            if let ExprKind::Column { relation: of, .. } = &mut part.kind {
                *of = relation;
            }
        });
        let Some(filter) = filter else { return Some(of_view) };
        let (ty, span) = (filter.ty.clone(), filter.span);
        let mut all = Vec::new();
        for part in [filter, of_view] {
            match part.kind {
                ExprKind::And(parts) => all.extend(parts),
                kind => all.push(Expr { kind, ..part }),
            }
        }
        Some(Expr { kind: ExprKind::And(all), ty, span })
    }
}

impl<'a> Binder<'a> {
    pub(super) fn bind_target(&self, range: &'a Option<RangeVar>) -> Result<Target<'a>, Diagnostic> {
        let Some(range) = range else {
            return Err(self.error(SqlState::SYNTAX_ERROR, self.piece.span(), "a table is missing here"));
        };
        let span = self.piece.token(range.location);
        self.check_schema(range)?;
        let alias = range.alias.as_ref().map_or(&range.relname, |alias| &alias.aliasname).clone();
        let name = relation_name(range);
        if let Some(table) = self.table_in_sight(&name, span)? {
            return Ok(Target { table, alias, span, view: None });
        }
        let Some(view) = self.context.catalog.views.iter().find(|view| view.name == name) else {
            return Err(self.unknown_relation(&name, span));
        };
        match &view.target {
            Some(target) => Ok(Target { table: &target.table, alias, span, view: Some(target) }),
            None => Err(Diagnostic::unsupported(
                span,
                format!("a change of the view {}", view.name),
                "change the table below it; a view of plain columns of one table can be written to",
            )),
        }
    }
}

/// Before the name of a column that a view does not show.
pub(super) const HIDDEN: char = '\0';

/// The table and columns that a write to the view goes to, if it can be written.
pub(crate) fn view_target(catalog: &Catalog, view: &View) -> Option<ViewTarget> {
    let query = &view.query;
    let QueryBody::Select(select) = &query.body else { return None };
    let [FromItem::Table { relation, table, .. }] = select.from.as_slice() else { return None };
    let simple = query.ctes.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && matches!(select.distinct, Distinct::All)
        && select.group_by.is_empty()
        && select.having.is_none()
        && !select.aggregates;
    if !simple || select.filter.as_ref().is_some_and(|filter| walk::first_subquery(filter).is_some()) {
        return None;
    }
    let base = catalog.table(*table);
    let mut target = Table { name: view.name.clone(), ..base.clone() };
    // No name of a statement is like these, so that what the view hides stays hidden.
    for column in &mut target.columns {
        column.name.insert(0, HIDDEN);
    }
    let mut columns = Vec::new();
    for (output, shown) in select.outputs.iter().zip(&query.columns) {
        match output.kind {
            ExprKind::Column { relation: of, column } if of == *relation && !columns.contains(&column) => {
                target.columns[column].name.clone_from(&shown.name);
                columns.push(column);
            }
            _ => return None,
        }
    }
    Some(ViewTarget { table: target, columns, filter: select.filter.clone() })
}
