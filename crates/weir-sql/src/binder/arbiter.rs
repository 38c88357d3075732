//! ON CONFLICT (…) WHERE …: the unique index over what is computed of a row, or over some rows, that arbitrates.

use pg_query::protobuf::{InferClause, node};
use weir_types::SqlState;

use super::Binder;
use super::scope::Scope;
use crate::bound::{Expr, ExprKind, RelationId};
use crate::catalog::{ColumnIndex, Index, Table};
use crate::source::{Diagnostic, Span};
use crate::walk;

impl<'a> Binder<'a> {
    /// The columns by which the index is held.
    pub(super) fn bind_computed_arbiter(
        &mut self,
        infer: &'a InferClause,
        table: &'a Table,
        place: Span,
    ) -> Result<Vec<ColumnIndex>, Diagnostic> {
        // Columns of an index are of this relation.
        self.scopes.push(Scope::of_table(table, &table.name, RelationId(0), place));
        let wanted = self.bind_wanted(infer, table, place);
        self.scopes.pop();
        let (keys, condition) = wanted?;
        let plain: Option<Vec<ColumnIndex>> = keys.iter().map(plain).collect();
        let same = |key: &[ColumnIndex], plain: &[ColumnIndex]| {
            key.iter().all(|column| plain.contains(column)) && plain.iter().all(|column| key.contains(column))
        };
        if let Some(plain) = &plain {
            let whole = table.primary_key.iter().chain(&table.unique_keys).map(|key| &key.columns);
            if let Some(key) = whole.into_iter().find(|key| same(key, plain)) {
                return Ok(key.clone());
            }
        }
        let given: Vec<String> = condition.iter().flat_map(walk::conjuncts).map(told).collect();
        let keys: Vec<String> = keys.iter().map(told).collect();
        let fits = |index: &&Index| {
            let own: Vec<String> = index.written_keys().iter().map(|key| told(&key.expr)).collect();
            let needed = index.written_predicate().into_iter().flat_map(walk::conjuncts).map(told);
            index.unique
                && own.iter().all(|key| keys.contains(key))
                && keys.iter().all(|key| own.contains(key))
                && needed.into_iter().all(|part| given.contains(&part))
        };
        let found = table.indexes.iter().find(fits);
        match found.map(Index::plain_columns) {
            Some(Some(columns)) if found.is_some_and(|index| index.predicate.is_none()) => Ok(columns),
            // Nothing holds it here: it is only read.
            Some(_) => Err(Diagnostic::unsupported(
                place,
                "a unique index over what is computed as arbiter",
                "name the columns of a UNIQUE constraint",
            )),
            None => Err(self.no_arbiter(table, place)),
        }
    }

    fn bind_wanted(
        &mut self,
        infer: &'a InferClause,
        table: &'a Table,
        place: Span,
    ) -> Result<(Vec<Expr>, Option<Expr>), Diagnostic> {
        let mut keys = Vec::new();
        for node in &infer.index_elems {
            let Some(node::Node::IndexElem(element)) = &node.node else { continue };
            keys.push(match &element.expr {
                Some(node) => self.bind_expr(node)?,
                None => table.read(self.column_of(table, &element.name, place)?, place),
            });
        }
        let condition = match &infer.where_clause {
            Some(node) => Some(self.bind_condition(node, "WHERE")?),
            None => None,
        };
        Ok((keys, condition))
    }

    pub(super) fn no_arbiter(&self, table: &Table, place: Span) -> Diagnostic {
        self.error(
            SqlState::INVALID_COLUMN_REFERENCE,
            place,
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        )
        .with_hint(format!("table \"{}\" needs UNIQUE over exactly these columns", table.name))
    }
}

fn plain(expr: &Expr) -> Option<ColumnIndex> {
    match expr.kind {
        ExprKind::Column { column, .. } => Some(column),
        _ => None,
    }
}

/// Printed form of an expression, independent of its position.
fn told(expr: &Expr) -> String {
    let mut expr = expr.clone();
    walk::each_expr_mut(&mut expr, &mut |part: &mut Expr| part.span = Span::default());
    format!("{expr:?}")
}
