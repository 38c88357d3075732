//! UPDATE and DELETE.

use pg_query::protobuf::{DeleteStmt, MultiAssignRef, Node, ResTarget, SubLink, UpdateStmt, node};
use weir_types::{CastContext, SqlState, SqlType};

use super::Binder;
use super::insert::default_of;
use super::scope::{Aggregates, Scope};
use crate::bound::{
    Delete, Distinct, Expr, ExprKind, FromItem, OutputColumn, Query, QueryBody, RelationId, Update,
};
use crate::catalog::{ColumnIndex, Table, TableId};
use crate::source::{Diagnostic, Span};
use crate::walk::{self, Part};

/// The first expression with a subquery that reads the table.
pub(super) fn asks_table<'e>(table: TableId, exprs: impl Iterator<Item = &'e Expr>) -> Option<Span> {
    let asks = |expr: &&Expr| {
        let mut found = false;
        walk::each_part(Part::Expr(expr), &mut |part| {
            found |= matches!(part, Part::From(FromItem::Table { table: of, .. }) if *of == table);
        });
        found
    };
    exprs.filter(asks).map(|expr| expr.span).next()
}

/// A subquery sees what was there before its statement. When RETURNING is worked out, the statement has changed some of that.
pub(super) fn check_returning(table: TableId, returning: &[(OutputColumn, Expr)]) -> Result<(), Diagnostic> {
    match asks_table(table, returning.iter().map(|(_, expr)| expr)) {
        Some(span) => Err(Diagnostic::unsupported(
            span,
            "a subquery in RETURNING over the table that is written",
            "ask by a statement of its own",
        )),
        None => Ok(()),
    }
}

impl<'a> Binder<'a> {
    pub(super) fn bind_update(&mut self, update: &'a UpdateStmt) -> Result<Update, Diagnostic> {
        let target = self.bind_target(&update.relation)?;
        let (table, span) = (target.table, target.span);
        let relation = self.new_relation();
        self.bind_inline_with(&update.with_clause)?;
        // FROM does not see the target, but what follows sees both.
        self.scopes.push(Scope::default());
        let from = self.bind_from(&update.from_clause)?;
        self.add_target(target.scope(relation))?;
        self.set_aggregates(Aggregates::Forbidden("UPDATE"));
        let assignments = self.bind_assignments(table, relation, &update.target_list)?;
        self.set_aggregates(Aggregates::Forbidden("WHERE"));
        let filter = match &update.where_clause {
            Some(node) => Some(self.bind_filter(node, "WHERE")?),
            None => None,
        };
        let filter = target.filter(filter, relation);
        let returning = self.bind_returning(&update.returning_clause)?;
        check_returning(table.id, &returning)?;
        self.scopes.pop();
        self.ctes.pop();
        Ok(Update { table: table.id, relation, assignments, from, filter, returning, span })
    }

    pub(super) fn bind_delete(&mut self, delete: &'a DeleteStmt) -> Result<Delete, Diagnostic> {
        let target = self.bind_target(&delete.relation)?;
        let (table, span) = (target.table, target.span);
        let relation = self.new_relation();
        self.bind_inline_with(&delete.with_clause)?;
        self.scopes.push(Scope::default());
        let using = self.bind_from(&delete.using_clause)?;
        self.add_target(target.scope(relation))?;
        self.set_aggregates(Aggregates::Forbidden("WHERE"));
        let filter = match &delete.where_clause {
            Some(node) => Some(self.bind_filter(node, "WHERE")?),
            None => None,
        };
        let filter = target.filter(filter, relation);
        let returning = self.bind_returning(&delete.returning_clause)?;
        self.scopes.pop();
        self.ctes.pop();
        Ok(Delete { table: table.id, relation, using, filter, returning, span })
    }

    /// The target stands before the FROM items, as RETURNING * shows it.
    fn add_target(&mut self, target: Scope) -> Result<(), Diagnostic> {
        let Some(scope) = self.scopes.last() else { return Ok(()) };
        self.check_alias(&target.relations, &scope.relations)?;
        if let Some(scope) = self.scopes.last_mut() {
            let from = std::mem::replace(&mut scope.relations, target.relations);
            scope.relations.extend(from);
            scope.own.extend(target.own);
        }
        Ok(())
    }

    /// The column that an INSERT or an UPDATE names as its target, and where.
    pub(super) fn target_column(
        &self,
        table: &Table,
        target: &ResTarget,
    ) -> Result<(ColumnIndex, Span), Diagnostic> {
        let span = self.piece.token(target.location);
        match target.indirection.is_empty() {
            true => Ok((self.column_of(table, &target.name, span)?, span)),
            false => Err(Diagnostic::unsupported(
                span,
                "an assignment to an element or a field",
                "assign the whole column",
            )),
        }
    }

    /// `SET a = …, (b, c) = …`.
    pub(super) fn bind_assignments(
        &mut self,
        table: &'a Table,
        relation: RelationId,
        list: &'a [Node],
    ) -> Result<Vec<(ColumnIndex, Expr)>, Diagnostic> {
        let mut assignments: Vec<(ColumnIndex, Expr)> = Vec::new();
        // The source of `(b, c) = …` is only in the first of its targets.
        let mut source: Option<&'a MultiAssignRef> = None;
        for node in list {
            let Some(node::Node::ResTarget(target)) = &node.node else { continue };
            let (column, span) = self.target_column(table, target)?;
            if assignments.iter().any(|(other, _)| *other == column) {
                return Err(self.error(
                    SqlState::SYNTAX_ERROR,
                    span,
                    format!("multiple assignments to same column \"{}\"", target.name),
                ));
            }
            let value = self.bind_assigned(table, column, target, &mut source, span)?;
            let is_generated = table.columns[column].generated.is_some();
            if (table.columns[column].generated_always || is_generated) && !is_default(target) {
                return Err(self.error(
                    SqlState::GENERATED_ALWAYS,
                    span,
                    format!("column \"{}\" can only be updated to DEFAULT", target.name),
                ));
            }
            // DEFAULT is what it is anyway.
            if !is_generated {
                assignments.push((column, value));
            }
        }
        assignments.extend(self.generated_along(table, relation, &assignments)?);
        Ok(assignments)
    }

    fn bind_assigned(
        &mut self,
        table: &'a Table,
        column: ColumnIndex,
        target: &'a ResTarget,
        source: &mut Option<&'a MultiAssignRef>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let value = self.required(&target.val)?;
        let Some(node::Node::MultiAssignRef(multi)) = &value.node else {
            return self.bind_column_value(table, column, value, true);
        };
        if multi.source.is_some() {
            *source = Some(multi);
        }
        let first = source.and_then(|multi| multi.source.as_deref());
        let index = (multi.colno.max(1) - 1) as usize;
        match first.and_then(|node| node.node.as_ref()) {
            Some(node::Node::RowExpr(row)) => {
                if row.args.len() != multi.ncolumns as usize {
                    return Err(self.error(
                        SqlState::SYNTAX_ERROR,
                        span,
                        "number of columns does not match number of values",
                    ));
                }
                match &row.args[index].node {
                    Some(node::Node::SetToDefault(default)) => {
                        Ok(default_of(table, column, self.piece.token(default.location)))
                    }
                    _ => self.bind_column_value(table, column, &row.args[index], true),
                }
            }
            Some(node::Node::SubLink(link)) => {
                self.bind_assigned_query(table, column, link, index, multi.ncolumns as usize)
            }
            _ => Err(Diagnostic::unsupported(
                span,
                "this source of a multiple-column UPDATE item",
                "use (a, b) = (x, y) or (a, b) = (SELECT x, y …)",
            )),
        }
    }

    /// `(a, b) = (SELECT x, y …)`: one scalar subquery for each column.
    fn bind_assigned_query(
        &mut self,
        table: &'a Table,
        column: ColumnIndex,
        link: &'a SubLink,
        index: usize,
        width: usize,
    ) -> Result<Expr, Diagnostic> {
        let span = self.piece.bracketed(link.location);
        let select = match link.subselect.as_deref().and_then(|node| node.node.as_ref()) {
            Some(node::Node::SelectStmt(select)) => select,
            _ => return Err(self.error(SqlState::SYNTAX_ERROR, span, "a subquery is missing here")),
        };
        let query = self.bind_query_with(select, false)?;
        if query.columns.len() != width {
            return Err(self.error(
                SqlState::SYNTAX_ERROR,
                span,
                "number of columns does not match number of values",
            ));
        }
        let definition = &table.columns[column];
        let query = self.pick_output(query, index, &definition.name, &definition.ty)?;
        let ty = query.columns[0].ty.clone();
        let value = Expr { kind: ExprKind::ScalarSubquery(Box::new(query)), ty, span };
        self.coerce_into(value, definition)
    }

    /// The query with only one of its outputs.
    fn pick_output(
        &mut self,
        mut query: Query,
        index: usize,
        name: &str,
        ty: &SqlType,
    ) -> Result<Query, Diagnostic> {
        if let QueryBody::Select(select) = &mut query.body
            && matches!(select.distinct, Distinct::All)
            && query.order_by.is_empty()
        {
            let output = select.outputs.swap_remove(index);
            let output = match output.ty {
                SqlType::Unknown => self.coerce_column(output, name, ty)?,
                _ => output,
            };
            let mut column = query.columns.swap_remove(index);
            column.ty = output.ty.clone();
            query.columns = vec![column];
            select.outputs = vec![output];
            return Ok(query);
        }
        let types: Vec<SqlType> = query
            .columns
            .iter()
            .map(|column| if column.ty == SqlType::Unknown { SqlType::Text } else { column.ty.clone() })
            .collect();
        self.coerce_outputs(&mut query, &types)?;
        let relation = self.new_relation();
        let ty = types[index].clone();
        self.cast_around(query, relation, index, &ty)
    }

    /// A default, cast to its column's type; it may refer to no column.
    pub(crate) fn bind_default(
        &mut self,
        node: &'a Node,
        column: &str,
        ty: &SqlType,
    ) -> Result<Expr, Diagnostic> {
        let expr = self.bind_expr_toward(node, ty)?;
        let mut subquery = None;
        crate::walk::each_expr(&expr, &mut |part| {
            if crate::walk::subquery(part).is_some() {
                subquery = Some(part.span);
            }
        });
        if let Some(span) = subquery {
            return Err(self.error(
                SqlState::FEATURE_NOT_SUPPORTED,
                span,
                "cannot use subquery in DEFAULT expression",
            ));
        }
        if expr.ty == SqlType::Unknown {
            return self.coerce(expr, ty, CastContext::Assignment);
        }
        let (from, span) = (expr.ty.clone(), expr.span);
        self.coerce_column(expr, column, ty).map_err(|error| Diagnostic {
            message: format!("column \"{column}\" is of type {ty} but default expression is of type {from}"),
            span,
            ..error
        })
    }
}

fn is_default(target: &ResTarget) -> bool {
    match target.val.as_deref().and_then(|node| node.node.as_ref()) {
        Some(node::Node::SetToDefault(_)) => true,
        Some(node::Node::MultiAssignRef(_)) => false,
        _ => false,
    }
}

/// Columns that are generated from what is assigned get some new value: of a statement that only is thought of.
pub(crate) fn generated_along(
    table: &Table,
    assignments: &[(ColumnIndex, Expr)],
) -> Vec<(ColumnIndex, Expr)> {
    let mut along = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let Some(generated) = &column.generated else { continue };
        let mut values = Vec::new();
        walk::columns(generated, &mut |_, source| {
            let assigned = assignments.iter().filter(|(assigned, _)| *assigned == source);
            values.extend(assigned.map(|(_, value)| value.clone()));
        });
        if column.is_hidden && !values.is_empty() {
            // Of the row's own, too, unless all of them are assigned.
            walk::columns(generated, &mut |_, source| {
                if !assignments.iter().any(|(assigned, _)| *assigned == source) {
                    values.push(table.read(source, generated.span));
                }
            });
        }
        if let Some(first) = values.first() {
            let span = first.span;
            along.push((index, Expr { kind: ExprKind::Opaque(values), ty: column.ty.clone(), span }));
        }
    }
    along
}
