//! The columns that PostgreSQL gives every table beside its own: `ctid`, `xmax`, `tableoid`; and those that nothing here is.

use weir_types::operator::BinaryOp;
use weir_types::{CastContext, SqlType, Value};

use super::Binder;
use super::scope::ScopeRelation;
use crate::bound::{Expr, ExprKind, VolatileFunction};
use crate::catalog::{Table, TableId};
use crate::source::{Diagnostic, Span};
use crate::system::class_number;

/// By their names.
pub(super) const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmax", "tableoid", "xmin", "cmin", "cmax"];

fn literal(value: Value, ty: SqlType, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(value), ty, span }
}

impl Binder<'_> {
    /// None: it is no such name, or no table is in sight that it could be of.
    pub(super) fn system_column(&mut self, parts: &[&str], span: Span) -> Result<Option<Expr>, Diagnostic> {
        let (relation, name) = match parts {
            [name] => {
                let scopes = self.scopes.iter().rev().filter(|scope| !scope.hidden);
                (scopes.flat_map(|scope| &scope.relations).find(|one| one.table.is_some()), *name)
            }
            [relation, name] => (self.relation_in_sight(relation), *name),
            _ => return Ok(None),
        };
        let Some((relation, table)) = relation.and_then(|relation| Some((relation.clone(), relation.table?)))
        else {
            return Ok(None);
        };
        // One that is being created has none.
        let Some(table) = self.context.catalog.tables.get(table.0 as usize) else { return Ok(None) };
        match name {
            "xmax" => Ok(Some(self.deleting_transaction(&relation, table, span))),
            "tableoid" => {
                let number = literal(Value::Int(class_number(&table.name)), SqlType::Int8, span);
                Ok(Some(of_a_row(&relation, table, number)))
            }
            "ctid" => self.row_name(&relation, table, span).map(Some),
            "xmin" | "cmin" | "cmax" => Err(Diagnostic::unsupported(
                span,
                format!("the system column {name}"),
                "rows have no transaction's number: let a column of your own count their versions",
            )),
            _ => Ok(None),
        }
    }

    /// Of a row that is there it is 0, but of one that ON CONFLICT has just updated: `RETURNING (xmax = 0) AS inserted`.
    fn deleting_transaction(&self, relation: &ScopeRelation, table: &Table, span: Span) -> Expr {
        match relation.relation.is_some() && relation.relation == self.upserted {
            true => {
                let kind = ExprKind::Volatile(VolatileFunction::ConflictUpdated);
                Expr { kind, ty: SqlType::Int8, span }
            }
            false => of_a_row(relation, table, literal(Value::Int(0), SqlType::Int8, span)),
        }
    }

    /// A text that names the row as long as it has its key: the key's values in parentheses.
    fn row_name(&mut self, relation: &ScopeRelation, table: &Table, span: Span) -> Result<Expr, Diagnostic> {
        let Some(key) = &table.primary_key else {
            return Err(Diagnostic::unsupported(
                span,
                format!("ctid of {}, which has no primary key,", table.name),
                "give the table a primary key: a row is named by that",
            ));
        };
        let text = |text: &str| literal(Value::text(text), SqlType::Text, span);
        let mut shown = text("(");
        for (at, column) in key.columns.iter().enumerate() {
            let Some(value) = column_of(relation, *column) else {
                let what = format!("ctid of {}, which does not show its key,", table.name);
                return Err(Diagnostic::unsupported(span, what, "read the table below the view"));
            };
            let value = self.coerce(Expr { span, ..value }, &SqlType::Text, CastContext::Explicit)?;
            let value = match table.columns[*column].ty.is_number() {
                true => value,
                // A comma within is none between two values.
                false => self.function_of("quote_ident", vec![value], span)?,
            };
            if at > 0 {
                shown = self.binary(BinaryOp::Concat, shown, text(","), span)?;
            }
            shown = self.binary(BinaryOp::Concat, shown, value, span)?;
        }
        self.binary(BinaryOp::Concat, shown, text(")"), span)
    }
}

fn column_of(relation: &ScopeRelation, at: usize) -> Option<Expr> {
    let is_it = |expr: &&Expr| matches!(expr.kind, ExprKind::Column { column, .. } if column == at);
    relation.columns.iter().map(|column| &column.expr).find(is_it).cloned()
}

/// NULL where an outer join has no row of the table.
fn of_a_row(relation: &ScopeRelation, table: &Table, value: Expr) -> Expr {
    let never_null = (0..table.columns.len()).filter(|at| table.columns[*at].not_null);
    let Some(column) = never_null.filter_map(|at| column_of(relation, at)).next() else { return value };
    let span = value.span;
    let is_there = ExprKind::IsNull { operand: Box::new(Expr { span, ..column }), negated: true };
    let is_there = Expr { kind: is_there, ty: SqlType::Bool, span };
    let ty = value.ty.clone();
    Expr { kind: ExprKind::Case { whens: vec![(is_there, value)], otherwise: None }, ty, span }
}

/// Whether an application's table is meant, and not one of the system catalog.
pub(super) fn of_users(table: &Table) -> Option<TableId> {
    (!table.name.starts_with("pg_catalog.")).then_some(table.id)
}
