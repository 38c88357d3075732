//! Columns: their types, NOT NULL, DEFAULT, serial and identity.

use pg_query::protobuf::{ColumnDef, ConstrType, Constraint, Node, node};
use weir_types::{CastContext, SqlState, SqlType};

use super::Schema;
use super::constraint::{TableConstraint, object_name};
use super::names::beside;
use super::sequence::SequenceOptions;
use super::storage::check_compression;
use super::table::kind;
use crate::binder::{Binder, expr_strings};
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Column, Table};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::{type_name, walk};

impl Schema {
    /// Adds the column; its key, CHECK and FOREIGN KEY constraints are left to the caller.
    pub(super) fn add_column<'d>(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        definition: &'d ColumnDef,
        constraints: &mut Vec<TableConstraint<'d>>,
    ) -> Result<(), Diagnostic> {
        let span = piece.token(definition.location);
        let name = definition.colname.as_str();
        if table.column_by_name(name).is_some() {
            return Err(Diagnostic::new(
                SqlState::DUPLICATE_COLUMN,
                span,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        let Some(type_name) = &definition.type_name else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "a column needs a type"));
        };
        if let Some(collate) = &definition.coll_clause {
            let result = by_bytes(&collate.collname, piece.token(collate.location));
            self.tolerate(result)?;
        }
        let serial = serial_type(expr_strings(&type_name.names).last().copied().unwrap_or(""))
            .filter(|_| type_name.array_bounds.is_empty());
        let (ty, domain) = match &serial {
            Some(ty) => (ty.clone(), None),
            None => {
                let (ty, domain) = type_name::resolve_column(&self.context(), piece, type_name)?;
                (ty, domain.cloned())
            }
        };
        if matches!(ty, SqlType::Record | SqlType::Void) {
            return Err(Diagnostic::new(
                SqlState::INVALID_TABLE_DEFINITION,
                piece.token(type_name.location),
                format!("column \"{name}\" has pseudo-type {ty}"),
            ));
        }
        if self.notes.is_none() {
            check_compression(&definition.compression, &ty, span)?;
        }
        let end = span_of_column(piece, definition, span);
        table.columns.push(Column::plain(name.to_owned(), ty, end));
        let index = table.columns.len() - 1;
        table.columns[index].time_modifier = type_name::time_modifier(piece, type_name)?;
        if let Some(domain) = &domain {
            Schema::adopt_domain(table, index, domain, piece.token(type_name.location));
        }
        if serial.is_some() {
            table.columns[index].forbid_null(piece.token(type_name.location));
            self.own_sequence(table, index, SequenceOptions::default(), span)?;
        }
        for node in &definition.constraints {
            let Some(node::Node::Constraint(constraint)) = &node.node else { continue };
            let before = constraints.last_mut().filter(|before| before.column == Some(index));
            if before.is_some_and(|before| before.takes(constraint)) {
                continue;
            }
            let result = self.column_constraint(piece, table, index, constraint);
            if self.tolerate_of(table.id, &constraint.conname, result)? == Some(false) {
                constraints.push(TableConstraint::of(constraint, Some(index)));
            }
        }
        // A domain's default gives way to the column's own.
        let column = &mut table.columns[index];
        if column.default.is_none() && column.generated.is_none() {
            column.default = domain.and_then(|domain| domain.default);
        }
        Ok(())
    }

    /// Those that belong to the column itself; `false` for a constraint of the table.
    fn column_constraint(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        index: usize,
        constraint: &Constraint,
    ) -> Result<bool, Diagnostic> {
        let span = piece.token(constraint.location);
        match kind(constraint) {
            ConstrType::ConstrNull if table.columns[index].not_null => {
                return Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    span,
                    format!(
                        "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{}\"",
                        table.columns[index].name, table.name
                    ),
                ));
            }
            ConstrType::ConstrNull => {}
            ConstrType::ConstrNotnull => {
                table.columns[index].not_null = true;
                table.columns[index].not_null_span = Some(span);
            }
            ConstrType::ConstrDefault => {
                if table.columns[index].default.is_some() {
                    return Err(Diagnostic::new(
                        SqlState::SYNTAX_ERROR,
                        span,
                        format!(
                            "multiple default values specified for column \"{}\" of table \"{}\"",
                            table.columns[index].name, table.name
                        ),
                    ));
                }
                table.columns[index].default =
                    self.column_default(piece, &table.columns[index], &constraint.raw_expr)?;
            }
            ConstrType::ConstrIdentity => self.add_identity(piece, table, index, constraint)?,
            ConstrType::ConstrGenerated => {
                let Some(node) = &constraint.raw_expr else { return Ok(true) };
                let ty = table.columns[index].ty.clone();
                let whole = piece.bracketed(constraint.location);
                let invalid = |message: String| {
                    Err(Diagnostic::new(SqlState::INVALID_OBJECT_DEFINITION, span, message))
                };
                if table.columns[index].default.is_some() {
                    let name = &table.columns[index].name;
                    return Err(Diagnostic::new(
                        SqlState::SYNTAX_ERROR,
                        span,
                        format!(
                            "both default and generation expression specified for column \"{name}\" of table \"{}\"",
                            table.name
                        ),
                    ));
                }
                let modifier = table.columns[index].time_modifier;
                let generated = self.over_row(piece, table, whole, ty.clone(), |binder| {
                    let value = binder.bind_expr(node)?;
                    let value = binder.coerce(value, &ty, CastContext::Assignment)?;
                    binder.fitted(value, modifier)
                })?;
                if walk::changing(&generated).is_some() {
                    return invalid("generation expression is not immutable".to_owned());
                }
                if let Some(span) = walk::first_subquery(&generated) {
                    let message = "cannot use subquery in column generation expression";
                    return Err(Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, span, message));
                }
                let mut other = None;
                walk::columns(&generated, &mut |_, column| {
                    if column == index || table.columns[column].generated.is_some() {
                        other.get_or_insert(column);
                    }
                });
                if let Some(other) = other {
                    let name = &table.columns[other].name;
                    return invalid(format!(
                        "cannot use generated column \"{name}\" in column generation expression"
                    ));
                }
                table.columns[index].generated = Some(generated);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn column_default(
        &self,
        piece: Piece<'_>,
        column: &Column,
        value: &Option<Box<Node>>,
    ) -> Result<Option<Expr>, Diagnostic> {
        let Some(value) = value else { return Ok(None) };
        let context = self.context();
        let mut binder = Binder::new(&context, piece);
        let bound = binder.bind_default(value, &column.name, &column.ty);
        match (bound.and_then(|bound| binder.fitted(bound, column.time_modifier)), &self.notes) {
            (Err(error), Some(notes)) if notes.is_gap(&error) => {
                let span = error.span;
                notes.replace(error);
                Ok(Some(Expr { kind: ExprKind::Opaque(Vec::new()), ty: column.ty.clone(), span }))
            }
            (bound, _) => bound.map(Some),
        }
    }

    pub(super) fn add_identity(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        index: usize,
        constraint: &Constraint,
    ) -> Result<(), Diagnostic> {
        let span = piece.token(constraint.location);
        let column = &mut table.columns[index];
        if !column.ty.is_integer() {
            return Err(Diagnostic::new(
                SqlState::INVALID_PARAMETER_VALUE,
                span,
                "identity column type must be smallint, integer, or bigint",
            ));
        }
        if column.default.is_some() {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                span,
                format!("both default and identity specified for column \"{}\"", column.name),
            ));
        }
        column.forbid_null(span);
        column.generated_always = constraint.generated_when == "a";
        column.is_identity = true;
        let options = SequenceOptions::read(piece, &constraint.options, span)?;
        self.own_sequence(table, index, options, span)
    }

    /// A sequence that belongs to the column and is its default.
    pub(super) fn own_sequence(
        &mut self,
        table: &mut Table,
        index: usize,
        options: SequenceOptions,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let column = &table.columns[index];
        let name = match &options.name {
            Some(name) => name.clone(),
            None => {
                let own = self.free_name(&object_name(&table.name, &column.name, "seq"), table);
                beside(&table.name, &own)
            }
        };
        let ty = column.ty.clone();
        let id = self.add_sequence(name, &ty, &options, Some((table.id, index)), span)?;
        let value = Expr { kind: ExprKind::NextValue(id), ty: SqlType::Int8, span };
        table.columns[index].default = Some(match ty {
            SqlType::Int8 => value,
            ty => Expr { kind: ExprKind::Cast { operand: Box::new(value), explicit: false }, ty, span },
        });
        Ok(())
    }
}

fn serial_type(name: &str) -> Option<SqlType> {
    Some(match name {
        "smallserial" | "serial2" => SqlType::Int2,
        "serial" | "serial4" => SqlType::Int4,
        "bigserial" | "serial8" => SqlType::Int8,
        _ => return None,
    })
}

/// Refuses a collation that has another order than that of bytes.
pub(super) fn by_bytes(collation: &[Node], place: Span) -> Result<(), Diagnostic> {
    match expr_strings(collation).last() {
        None | Some(&("C" | "POSIX" | "default")) => Ok(()),
        _ => Err(Diagnostic::unsupported(
            place,
            "this collation",
            "text compares by its bytes: use COLLATE \"C\" or none",
        )),
    }
}

/// From the name to the end of the type.
fn span_of_column(piece: Piece<'_>, definition: &ColumnDef, name: Span) -> Span {
    let ty = definition.type_name.as_ref().map_or(name, |ty| piece.token(ty.location));
    Span { end: ty.end.max(name.end), ..name }
}
