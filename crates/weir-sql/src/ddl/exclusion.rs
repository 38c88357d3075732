//! EXCLUDE: kept for the analysis; to run, it is refused by name.

use pg_query::protobuf::node;
use weir_types::SqlState;

use super::Schema;
use super::constraint::{TableConstraint, constraint_names, constraint_span, free, object_name};
use crate::binder::{Binder, expr_strings};
use crate::bound::{Expr, ExprKind, RelationId};
use crate::catalog::{Exclusion, Table};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn add_exclusion(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        TableConstraint { constraint, .. }: TableConstraint<'_>,
    ) -> Result<(), Diagnostic> {
        let span = constraint_span(piece, constraint);
        self.only_analysed(Diagnostic::unsupported(
            span,
            "EXCLUDE",
            "use UNIQUE, or CREATE ASSERTION … CHECK (NOT EXISTS (…))",
        ))?;
        let mut elements = Vec::new();
        let mut columns = Vec::new();
        for pair in &constraint.exclusions {
            let Some(node::Node::List(pair)) = &pair.node else { continue };
            let [element, operator] = pair.items.as_slice() else { continue };
            let (Some(node::Node::IndexElem(element)), Some(node::Node::List(operator))) =
                (&element.node, &operator.node)
            else {
                continue;
            };
            let expr = match &element.expr {
                Some(node) => {
                    let context = self.context();
                    let mut binder = Binder::new(&context, piece);
                    binder.enter_table(table);
                    binder.bind_expr(node)?
                }
                None => column(table, &element.name, span)?,
            };
            columns.push(element.name.clone());
            let operator = expr_strings(&operator.items).last().copied().unwrap_or("").to_owned();
            elements.push((expr, operator));
        }
        let predicate = match &constraint.where_clause {
            Some(node) => Some(self.bind_over_table(piece, table, node, "WHERE", span)?),
            None => None,
        };
        let name = match constraint.conname.as_str() {
            "" => {
                columns.retain(|name| !name.is_empty());
                let wanted = object_name(&table.name, &columns.join("_"), "excl");
                free(&wanted, |name| constraint_names(table).any(|taken| taken == name))
            }
            name => name.to_owned(),
        };
        table.exclusions.push(Exclusion { name, elements, predicate, span });
        Ok(())
    }
}

fn column(table: &Table, name: &str, span: Span) -> Result<Expr, Diagnostic> {
    let column = table.column_by_name(name).ok_or_else(|| {
        let message = format!("column \"{name}\" named in key does not exist");
        Diagnostic::new(SqlState::UNDEFINED_COLUMN, span, message)
    })?;
    let kind = ExprKind::Column { relation: RelationId(0), column };
    Ok(Expr { kind, ty: table.columns[column].ty.clone(), span })
}
