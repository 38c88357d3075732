//! FOREIGN KEY.

use pg_query::protobuf::Constraint;
use weir_types::operator::{BinaryOp, resolve_binary};
use weir_types::{SqlState, SqlType};

use super::constraint::{TableConstraint, constraint_span, foreign_key_name, key_columns};
use super::{Schema, relation_name};
use crate::catalog::{ColumnIndex, ForeignKey, ForeignKeyAction, Table};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn add_foreign_key(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        TableConstraint { constraint, column, deferral }: TableConstraint<'_>,
    ) -> Result<(), Diagnostic> {
        let span = constraint_span(piece, constraint);
        let Some(range) = &constraint.pktable else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "FOREIGN KEY to nowhere"));
        };
        let wanted = relation_name(range);
        if constraint.fk_matchtype == "f" || constraint.fk_matchtype == "p" {
            return Err(Diagnostic::unsupported(span, "MATCH FULL", "use MATCH SIMPLE and NOT NULL columns"));
        }
        if !constraint.fk_del_set_cols.is_empty() {
            return Err(Diagnostic::unsupported(
                span,
                "ON DELETE SET NULL of some columns",
                "set all columns of the key, or none",
            ));
        }
        let columns = match column {
            Some(column) => vec![column],
            None => key_columns(table, &constraint.fk_attrs, span)?,
        };
        let name = match constraint.conname.as_str() {
            "" => foreign_key_name(table, &columns),
            name => name.to_owned(),
        };
        let place = piece.token(range.location);
        let parent = match wanted == table.name {
            true => &*table,
            false => match self.catalog.table_by_name(&wanted) {
                Some(parent) => parent,
                None => {
                    let tables = self.catalog.tables.iter().map(|table| table.name.as_str());
                    let mut error = Diagnostic::new(
                        SqlState::UNDEFINED_TABLE,
                        place,
                        format!("relation \"{wanted}\" does not exist"),
                    );
                    error.hint = crate::binder::nearest(&wanted, tables)
                        .or_else(|| Some("create the referenced table first".to_owned()));
                    return Err(error);
                }
            },
        };
        let parent_columns = parent_key(parent, constraint, place)?;
        check_types(table, parent, &columns, &parent_columns, &name, span)?;
        let key = ForeignKey {
            name,
            columns,
            parent: parent.id,
            parent_columns,
            on_delete: action(&constraint.fk_del_action),
            on_update: action(&constraint.fk_upd_action),
            deferral,
            span,
        };
        table.foreign_keys.push(key);
        Ok(())
    }
}

fn action(code: &str) -> ForeignKeyAction {
    match code {
        "c" => ForeignKeyAction::Cascade,
        "n" => ForeignKeyAction::SetNull,
        "d" => ForeignKeyAction::SetDefault,
        "r" => ForeignKeyAction::Restrict,
        _ => ForeignKeyAction::NoAction,
    }
}

/// The named columns, which must be a key, or the primary key.
fn parent_key(parent: &Table, constraint: &Constraint, place: Span) -> Result<Vec<ColumnIndex>, Diagnostic> {
    if constraint.pk_attrs.is_empty() {
        return parent.primary_key.as_ref().map(|key| key.columns.clone()).ok_or_else(|| {
            Diagnostic::new(
                SqlState::UNDEFINED_OBJECT,
                place,
                format!("there is no primary key for referenced table \"{}\"", parent.name),
            )
            .with_hint("name the columns of a UNIQUE constraint, or declare PRIMARY KEY")
        });
    }
    let columns = key_columns(parent, &constraint.pk_attrs, place).map_err(|error| match error.state {
        SqlState::DUPLICATE_COLUMN => Diagnostic::new(
            SqlState::INVALID_FOREIGN_KEY,
            place,
            "foreign key referenced-columns list must not contain duplicates",
        ),
        _ => Diagnostic {
            message: error.message.replace("named in key", "referenced in foreign key constraint"),
            ..error
        },
    })?;
    let same =
        |key: &[ColumnIndex]| key.len() == columns.len() && key.iter().all(|column| columns.contains(column));
    let keys = parent.primary_key.iter().chain(&parent.unique_keys).any(|key| same(&key.columns));
    let indexed = parent.indexes.iter().filter(|index| index.unique && index.predicate.is_none());
    let indexed = indexed.into_iter().any(|index| index.plain_columns().is_some_and(|plain| same(&plain)));
    match keys || indexed {
        true => Ok(columns),
        false => Err(Diagnostic::new(
            SqlState::INVALID_FOREIGN_KEY,
            place,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.name
            ),
        )
        .with_hint("declare PRIMARY KEY or UNIQUE over exactly these columns")),
    }
}

pub(super) fn check_types(
    table: &Table,
    parent: &Table,
    columns: &[ColumnIndex],
    parent_columns: &[ColumnIndex],
    name: &str,
    span: Span,
) -> Result<(), Diagnostic> {
    if columns.len() != parent_columns.len() {
        return Err(Diagnostic::new(
            SqlState::INVALID_FOREIGN_KEY,
            span,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    for (&child, &key) in columns.iter().zip(parent_columns) {
        let (child, key) = (&table.columns[child], &parent.columns[key]);
        // A foreign key compares with the index of the referenced key: text never matches a number.
        let comparable = resolve_binary(BinaryOp::Equal, &key.ty, &child.ty)
            .is_ok_and(|signature| compatible(&signature.left, &key.ty) || key.ty.is_number());
        if !comparable {
            return Err(Diagnostic::new(
                SqlState::DATATYPE_MISMATCH,
                span,
                format!("foreign key constraint \"{name}\" cannot be implemented"),
            )
            .with_hint(format!(
                "key columns \"{}\" and \"{}\" are of incompatible types: {} and {}",
                child.name, key.name, child.ty, key.ty
            )));
        }
    }
    Ok(())
}

fn compatible(left: &SqlType, right: &SqlType) -> bool {
    left.base() == right.base() || left.is_string() && right.is_string() || {
        let time = |ty: &SqlType| matches!(ty, SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz);
        time(left) && time(right)
    }
}
