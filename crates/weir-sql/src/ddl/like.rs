//! `CREATE TABLE … (LIKE other INCLUDING …)`: the columns' names, types and NOT NULL, and what INCLUDING names.

use std::collections::BTreeMap;

use pg_query::protobuf::TableLikeClause;
use weir_types::SqlState;

use super::constraint::{column_names, object_name};
use super::sequence::SequenceOptions;
use super::{Schema, relation_name};
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Check, Column, ColumnIndex, Index, Table, UniqueKey};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::walk;

/// Bits of PostgreSQL's `TableLikeOption`. STORAGE, COMPRESSION and STATISTICS have no effect.
const INCLUDING_COMMENTS: u32 = 1;
pub(super) const INCLUDING_CONSTRAINTS: u32 = 1 << 2;
pub(super) const INCLUDING_DEFAULTS: u32 = 1 << 3;
const INCLUDING_GENERATED: u32 = 1 << 4;
const INCLUDING_IDENTITY: u32 = 1 << 5;
const INCLUDING_INDEXES: u32 = 1 << 6;

/// Where a column of the other table is in this one.
type Places = BTreeMap<ColumnIndex, ColumnIndex>;

/// The expression over the row of this table.
fn moved(mut expr: Expr, places: &Places) -> Expr {
    walk::each_expr_mut(&mut expr, &mut |part: &mut Expr| {
        if let ExprKind::Column { column, .. } = &mut part.kind {
            *column = places.get(column).copied().unwrap_or(*column);
        }
    });
    expr
}

fn moved_columns(columns: &[ColumnIndex], places: &Places) -> Vec<ColumnIndex> {
    columns.iter().filter_map(|column| places.get(column).copied()).collect()
}

impl Schema {
    pub(super) fn columns_like(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        like: &TableLikeClause,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &like.relation else { return Ok(()) };
        let span = piece.token(range.location);
        let name = relation_name(range);
        if let Some(view) = self.catalog.views.iter().find(|view| view.name == name) {
            let columns = view.query.columns.iter();
            let copies = columns.map(|column| Column::plain(column.name.clone(), column.ty.clone(), span));
            let copies: Vec<Column> = copies.collect();
            return copies.into_iter().try_for_each(|copy| add(table, copy));
        }
        let other = self.catalog.tables[self.table_index(piece, range)?].clone();
        let includes = |bit: u32| like.options & bit != 0;
        let mut places = Places::new();
        for (at, column) in other.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden) {
            let mut copy = Column {
                span,
                generated_always: false,
                is_identity: false,
                generated: None,
                retyped: None,
                ..column.clone()
            };
            let own =
                self.own_default(column).filter(|_| includes(INCLUDING_DEFAULTS) && !column.is_identity);
            copy.default = own.or_else(|| self.default_of_domain(column));
            copy.comment = copy.comment.filter(|_| includes(INCLUDING_COMMENTS));
            copy.not_null_span = copy.not_null_span.map(|_| span);
            add(table, copy)?;
            places.insert(at, table.columns.len() - 1);
            if let Some(domain) = self.domain_of(column).cloned() {
                Schema::adopt_domain(table, table.columns.len() - 1, &domain, span);
            }
        }
        for (&of, &at) in &places {
            let column = &other.columns[of];
            if let Some(generated) = column.generated.clone().filter(|_| includes(INCLUDING_GENERATED)) {
                table.columns[at].generated = Some(moved(generated, &places));
            }
            if column.is_identity && includes(INCLUDING_IDENTITY) {
                self.identity_like(table, at, (&other, of), span)?;
            }
        }
        if includes(INCLUDING_CONSTRAINTS) {
            let own = other.checks.iter().filter(|check| check.domain.is_none());
            table.checks.extend(own.map(|check| Check {
                expr: moved(check.expr.clone(), &places),
                span,
                ..check.clone()
            }));
        }
        if includes(INCLUDING_INDEXES) && self.notes.is_none() {
            self.keys_like(table, &other, &places, span)?;
            self.indexes_like(table, (&other, &places), includes(INCLUDING_COMMENTS), span)?;
        }
        Ok(())
    }

    fn identity_like(
        &mut self,
        table: &mut Table,
        at: ColumnIndex,
        (other, of): (&Table, ColumnIndex),
        span: Span,
    ) -> Result<(), Diagnostic> {
        let mut sequences = self.catalog.sequences.iter();
        let Some(sequence) = sequences.find(|one| one.owner == Some((other.id, of))) else { return Ok(()) };
        let options = SequenceOptions::like(sequence);
        table.columns[at].is_identity = true;
        table.columns[at].generated_always = other.columns[of].generated_always;
        self.own_sequence(table, at, options, span)
    }

    fn keys_like(
        &self,
        table: &mut Table,
        other: &Table,
        places: &Places,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let primary = other.primary_key.iter().map(|key| (key, true));
        for (key, is_primary) in primary.chain(other.unique_keys.iter().map(|key| (key, false))) {
            let columns = moved_columns(&key.columns, places);
            let wanted = match is_primary {
                true => object_name(&table.name, "", "pkey"),
                false => object_name(&table.name, &column_names(table, &columns), "key"),
            };
            let name = self.free_name(&wanted, table);
            let copy = UniqueKey { name, columns, nulls_not_distinct: key.nulls_not_distinct, span };
            match is_primary {
                true if table.primary_key.is_some() => {
                    let message =
                        format!("multiple primary keys for table \"{}\" are not allowed", table.name);
                    return Err(Diagnostic::new(SqlState::INVALID_TABLE_DEFINITION, span, message));
                }
                true => table.primary_key = Some(copy),
                false => table.unique_keys.push(copy),
            }
        }
        Ok(())
    }

    fn indexes_like(
        &self,
        table: &mut Table,
        (other, places): (&Table, &Places),
        comments: bool,
        span: Span,
    ) -> Result<(), Diagnostic> {
        for index in &other.indexes {
            if index.written.is_some() {
                return Err(Diagnostic::unsupported(
                    span,
                    format!(
                        "LIKE … INCLUDING INDEXES of the unique index {} over what is computed",
                        index.name
                    ),
                    "EXCLUDING INDEXES, and CREATE the indexes",
                ));
            }
            let mut copy = Index { span, ..index.clone() };
            for key in &mut copy.keys {
                key.expr = moved(key.expr.clone(), places);
            }
            copy.predicate = copy.predicate.map(|predicate| moved(predicate, places));
            copy.comment = copy.comment.filter(|_| comments);
            let parts: Vec<String> = self
                .written_elements(index)
                .into_iter()
                .zip(&copy.keys)
                .map(|(written, key)| match key.expr.kind {
                    ExprKind::Column { column, .. } => table.columns[column].name.clone(),
                    _ => written,
                })
                .collect();
            copy.name = self.free_name(&object_name(&table.name, &parts.join("_"), "idx"), table);
            table.indexes.push(copy);
        }
        Ok(())
    }
}

fn add(table: &mut Table, column: Column) -> Result<(), Diagnostic> {
    if table.column_by_name(&column.name).is_some() {
        let message = format!("column \"{}\" specified more than once", column.name);
        return Err(Diagnostic::new(SqlState::DUPLICATE_COLUMN, column.span, message));
    }
    table.columns.push(column);
    Ok(())
}
