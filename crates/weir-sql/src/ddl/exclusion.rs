//! EXCLUDE: kept for the analysis; to run, it is refused by name.

use pg_query::protobuf::node;

use super::Schema;
use super::constraint::{TableConstraint, constraint_span, free_constraint_name, key_column};
use crate::binder::{Binder, expr_strings};
use crate::catalog::{Exclusion, Table};
use crate::parse::Piece;
use crate::source::Diagnostic;

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
                None => {
                    let column = key_column(table, &element.name, span)?;
                    table.read(column, span)
                }
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
                free_constraint_name(table, &columns.join("_"), "excl")
            }
            name => name.to_owned(),
        };
        table.exclusions.push(Exclusion { name, elements, predicate, span });
        Ok(())
    }
}
