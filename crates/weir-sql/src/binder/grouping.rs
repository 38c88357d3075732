//! Column references allowed outside of the aggregates of an aggregating SELECT (SQL-92 7.9; PostgreSQL adds columns that depend on a
//! primary key in GROUP BY).

use std::collections::BTreeMap;

use weir_types::SqlState;

use super::Binder;
use crate::bound::{Expr, ExprKind, FromItem, RelationId, Select};
use crate::catalog::{ColumnIndex, TableId};
use crate::print;
use crate::source::Diagnostic;
use crate::walk;

impl<'a> Binder<'a> {
    /// `by_sets`: what depends on a key need not be known, for a set may be without it.
    pub(super) fn check_grouping(&self, select: &Select, by_sets: bool) -> Result<(), Diagnostic> {
        let mut tables = BTreeMap::new();
        select.from.iter().for_each(|item| tables_of(item, &mut tables));
        let grouped: Vec<(RelationId, ColumnIndex)> = select
            .group_by
            .iter()
            .filter_map(|expr| match expr.kind {
                ExprKind::Column { relation, column } => Some((relation, column)),
                _ => None,
            })
            .collect();
        // Relations whose primary key is grouped: all of their columns are known.
        let determined: Vec<RelationId> = tables
            .iter()
            .filter(|_| !by_sets)
            .filter(|(relation, table)| {
                let key = self.context.catalog.table(**table).primary_key.as_ref();
                key.is_some_and(|key| {
                    key.columns.iter().all(|column| grouped.contains(&(**relation, *column)))
                })
            })
            .map(|(relation, _)| *relation)
            .collect();
        let own = self.scopes.last().map(|scope| scope.own.clone()).unwrap_or_default();
        let free: Vec<RelationId> =
            own.into_iter().filter(|relation| !determined.contains(relation)).collect();
        for expr in select.outputs.iter().chain(&select.having) {
            self.check_grouped(expr, &select.group_by, &free)?;
        }
        Ok(())
    }

    fn check_grouped(&self, expr: &Expr, group_by: &[Expr], free: &[RelationId]) -> Result<(), Diagnostic> {
        if matches!(expr.kind, ExprKind::Aggregate(_)) || group_by.iter().any(|key| print::same(key, expr)) {
            return Ok(());
        }
        if let ExprKind::Column { relation, column } = expr.kind {
            return match free.contains(&relation) {
                true => Err(self.ungrouped(expr, relation, column)),
                false => Ok(()),
            };
        }
        for part in walk::parts(expr) {
            self.check_grouped(part, group_by, free)?;
        }
        let mut result = Ok(());
        if let Some(query) = walk::subquery(expr) {
            walk::each_expr_of_query(query, &mut |inner| {
                let ExprKind::Column { relation, column } = inner.kind else { return };
                let grouped = group_by.iter().any(|key| print::same(key, inner));
                if result.is_ok() && free.contains(&relation) && !grouped {
                    result = Err(self.ungrouped(inner, relation, column));
                }
            });
        }
        result
    }

    fn ungrouped(&self, expr: &Expr, relation: RelationId, column: ColumnIndex) -> Diagnostic {
        let relations = self.scopes.iter().flat_map(|scope| &scope.relations);
        let found = relations.into_iter().find(|candidate| candidate.relation == Some(relation));
        let name = found.and_then(|found| {
            let column = found.columns.get(column)?;
            Some(format!("{}.{}", found.name.as_deref()?, column.name))
        });
        self.error(
            SqlState::GROUPING_ERROR,
            expr.span,
            format!(
                "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                name.unwrap_or_default()
            ),
        )
    }
}

fn tables_of(item: &FromItem, tables: &mut BTreeMap<RelationId, TableId>) {
    match item {
        FromItem::Table { relation, table, .. } => {
            tables.insert(*relation, *table);
        }
        FromItem::Join { left, right, .. } => {
            tables_of(left, tables);
            tables_of(right, tables);
        }
        _ => {}
    }
}
