//! `ALTER COLUMN … TYPE`: the column's values become what USING says, and everything that is bound over the column is bound anew.
//!
//! Never leaves an expression that was bound over the old type: what cannot be bound anew is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use pg_query::protobuf::{IndexStmt, Node, node};
use weir_types::datetime::modifier::PRECISION_MAX;
use weir_types::{SqlState, SqlType};

use super::Schema;
use super::alter::Command;
use super::column::by_bytes;
use super::constraint::{comparable, refuse_subquery};
use super::foreign_key::check_types;
use super::index::{element_name, elements};
use crate::binder;
use crate::bound::{Expr, ExprKind, Query};
use crate::catalog::{Check, Column, ColumnIndex, Index, Table, TableId};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::{type_name, walk};

/// Text of an expression that was bound over a row.
#[derive(Debug)]
pub(super) struct Written {
    node: WrittenNode,
    file: u32,
    offset: u32,
}

/// Texts as they are written, by place; copies share the list until one of them changes it.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenParts(Arc<BTreeMap<Span, Arc<Written>>>);

impl WrittenParts {
    fn insert(&mut self, span: Span, written: Written) {
        Arc::make_mut(&mut self.0).insert(span, Arc::new(written));
    }

    fn get(&self, span: &Span) -> Option<&Arc<Written>> {
        self.0.get(span)
    }
}

#[derive(Debug)]
enum WrittenNode {
    Condition(Box<Node>),
    Index(Box<IndexStmt>),
    /// A view's query, and the names of its columns.
    View(Box<Node>, Vec<Node>),
}

fn reads(expr: &Expr, column: ColumnIndex) -> bool {
    let mut reads = false;
    walk::columns(expr, &mut |_, other| reads |= other == column);
    reads
}

fn index_reads(index: &Index, column: ColumnIndex) -> bool {
    index.keys.iter().any(|key| reads(&key.expr, column))
        || index.predicate.as_ref().is_some_and(|predicate| reads(predicate, column))
}

fn is_plain(index: &Index) -> bool {
    index.predicate.is_none() && index.plain_columns().is_some()
}

fn held(span: Span, what: &str, name: &str) -> Diagnostic {
    let what = format!("another type of a column that {what} \"{name}\" computes with");
    Diagnostic::unsupported(span, what, "drop it, and create it again")
}

impl Schema {
    /// Keeps the condition of the constraint at `span`.
    pub(super) fn write_down(&mut self, piece: Piece<'_>, span: Span, condition: &Node) {
        let node = WrittenNode::Condition(Box::new(condition.clone()));
        self.written.insert(span, Written { node, file: piece.file, offset: piece.offset });
    }

    /// Keeps the statement of the index at `span`.
    pub(super) fn write_down_index(&mut self, piece: Piece<'_>, span: Span, create: &IndexStmt) {
        let node = WrittenNode::Index(Box::new(create.clone()));
        self.written.insert(span, Written { node, file: piece.file, offset: piece.offset });
    }

    /// Keeps the query of the view at `span`.
    pub(super) fn write_down_view(&mut self, piece: Piece<'_>, span: Span, query: &Node, names: &[Node]) {
        let node = WrittenNode::View(Box::new(query.clone()), names.to_vec());
        self.written.insert(span, Written { node, file: piece.file, offset: piece.offset });
    }

    /// Elements from which PostgreSQL derives an index name, key by key.
    pub(super) fn written_elements(&self, index: &Index) -> Vec<String> {
        match self.written.get(&index.span).map(|written| &written.node) {
            Some(WrittenNode::Index(create)) => elements(create).map(element_name).collect(),
            _ => index.keys.iter().map(|_| "expr".to_owned()).collect(),
        }
    }

    /// The query of the view at `span`, bound to what there is now; none if it was not kept.
    pub(super) fn query_anew(&self, span: Span) -> Option<Result<Query, Diagnostic>> {
        let written = self.written.get(&span)?;
        let WrittenNode::View(query, names) = &written.node else { return None };
        let text = self.text_of(written);
        Some(self.view_query(piece_of(written, &text), Some(query), names, span))
    }

    /// `original`: the table before the first command of the statement, which is what USING speaks of.
    pub(super) fn alter_type(
        &mut self,
        original: &Table,
        table: &mut Table,
        command: Command<'_>,
    ) -> Result<(), Diagnostic> {
        let Command { piece, place, .. } = command;
        let index = command.column(table)?;
        let Some(node::Node::ColumnDef(definition)) = command.definition() else { return Ok(()) };
        let Some(name) = &definition.type_name else { return Ok(()) };
        if let Some(collate) = &definition.coll_clause {
            let result = by_bytes(&collate.collname, piece.token(collate.location));
            self.tolerate(result)?;
        }
        let (ty, domain) = type_name::resolve_column(&self.context(), piece, name)?;
        let domain = domain.cloned();
        self.refuse_dependents(table, index, place)?;
        let retyped = self.retyped(original, command, (index, &ty, definition.raw_default.as_deref()))?;
        table.columns[index].retyped = retyped;
        table.checks.retain(|check| !matches!(check.domain, Some((_, column)) if column == index));
        if table.columns[index].is_identity && !ty.is_integer() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, place, message));
        }
        let own_default = self.own_default(&table.columns[index]);
        let modifier = type_name::time_modifier(piece, name)?;
        self.refuse_narrower(&table.columns[index], &ty, modifier, place)?;
        table.columns[index].ty = ty.clone();
        table.columns[index].time_modifier = modifier;
        table.columns[index].domain = None;
        if let Some(domain) = &domain {
            Schema::adopt_domain(table, index, domain, piece.token(name.location));
        }
        let cannot = |what: &str| {
            let column = &table.columns[index].name;
            let message = format!("{what} for column \"{column}\" cannot be cast automatically to type {ty}");
            Diagnostic::new(SqlState::DATATYPE_MISMATCH, place, message)
        };
        let context = self.context();
        let recast = |value: Option<Expr>, what: &str| -> Result<Option<Expr>, Diagnostic> {
            let Some(value) = value else { return Ok(None) };
            binder::assign_strictly(&context, value, &ty).map(Some).map_err(|_| cannot(what))
        };
        let default = recast(own_default, "default")?.or_else(|| domain.and_then(|domain| domain.default));
        let generated = recast(table.columns[index].generated.clone(), "generation expression")?;
        table.columns[index].default = default;
        table.columns[index].generated = generated;
        match (self.bind_anew(table, index), &self.notes) {
            // An expression that a tolerant reading cannot bind anew keeps its meaning.
            (Err(_), Some(_)) => {
                table.checks.iter_mut().for_each(|check| over(&mut check.expr, index, &ty));
                Ok(())
            }
            (bound, _) => bound,
        }
    }

    /// Values that are there keep their digits and fields.
    fn refuse_narrower(
        &self,
        column: &Column,
        ty: &SqlType,
        modifier: Option<i32>,
        place: Span,
    ) -> Result<(), Diagnostic> {
        let keeps_all = match (ty, column.time_modifier, modifier) {
            (_, _, None) => true,
            (SqlType::Timestamp | SqlType::Timestamptz, was, Some(precision)) => {
                precision >= was.unwrap_or(PRECISION_MAX)
            }
            (_, was, _) => was == modifier,
        };
        if keeps_all || !self.is_running {
            return Ok(());
        }
        Err(Diagnostic::unsupported(
            place,
            format!("fewer digits or fields of the column \"{}\", which has values,", column.name),
            "add a column of the new type, UPDATE it from the old one, and drop that",
        ))
    }

    /// Views and generated columns are not bound anew, in PostgreSQL neither.
    fn refuse_dependents(&self, table: &Table, index: ColumnIndex, place: Span) -> Result<(), Diagnostic> {
        if self.notes.is_some() {
            return Ok(());
        }
        let reading = |column: &&crate::catalog::Column| {
            column.generated.as_ref().is_some_and(|generated| reads(generated, index))
        };
        match table.columns.iter().find(reading) {
            Some(hidden) if hidden.is_hidden => {
                return Err(held(hidden.span, "the unique index", &hidden.name));
            }
            Some(generated) => {
                let message = "cannot alter type of a column used by a generated column";
                let detail = format!(
                    "column \"{}\" is used by generated column \"{}\"",
                    table.columns[index].name, generated.name
                );
                return Err(
                    Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, place, message).with_hint(detail)
                );
            }
            None => {}
        }
        match self.view_reading(table.id, index) {
            Some(view) => {
                let message = "cannot alter type of a column used by a view or rule";
                let error = Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, place, message);
                Err(error.with_hint(format!("drop the view {view} first, and create it again")))
            }
            None => Ok(()),
        }
    }

    /// The value that the rows have now; none where it is the one that they had.
    fn retyped(
        &self,
        original: &Table,
        command: Command<'_>,
        (index, ty, using): (ColumnIndex, &SqlType, Option<&Node>),
    ) -> Result<Option<Expr>, Diagnostic> {
        let Command { piece, place, .. } = command;
        let name = &original.columns[command.column(original).unwrap_or(index)].name;
        let cannot = |what: String, from: &SqlType| {
            let message = format!("{what} cannot be cast automatically to type {ty}");
            Diagnostic::new(SqlState::DATATYPE_MISMATCH, place, message).with_hint(format!(
                "You might need to specify \"USING {name}::{}\". It is of type {from}.",
                ty
            ))
        };
        let Some(using) = using else {
            let Ok(column) = command.column(original) else { return Ok(None) };
            let old = original.read(column, place);
            if old.ty == *ty {
                return Ok(None);
            }
            let from = old.ty.clone();
            let cast = binder::assign_strictly(&self.context(), old, ty);
            return match (cast, &self.notes) {
                (Err(_), Some(_)) => Ok(None),
                (cast, _) => cast.map(Some).map_err(|_| cannot(format!("column \"{name}\""), &from)),
            };
        };
        let result = self.over_row(piece, original, place, ty.clone(), |binder| binder.bind_expr(using));
        let value = match (result, &self.notes) {
            (Err(_), Some(_)) => return Ok(None),
            (result, _) => result?,
        };
        refuse_subquery(&value, "transform expression")?;
        let from = value.ty.clone();
        let value = binder::assign_strictly(&self.context(), value, ty);
        value.map(Some).map_err(|_| cannot(format!("result of USING clause for column \"{name}\""), &from))
    }

    /// Binds again the conditions and indexes that read the column.
    fn bind_anew(&self, table: &mut Table, column: ColumnIndex) -> Result<(), Diagnostic> {
        let mut checks = table.checks.clone();
        // Conditions of the column's domain are bound over the domain.
        for check in checks.iter_mut().filter(|check| check.domain.is_none() && reads(&check.expr, column)) {
            self.bind_check_anew(table, check)?;
        }
        table.checks = checks;
        let mut indexes = table.indexes.clone();
        for index in indexes.iter_mut().filter(|index| index_reads(index, column)) {
            self.bind_index_anew(table, index)?;
        }
        table.indexes = indexes;
        let keys = table.primary_key.iter().chain(&table.unique_keys);
        match keys.into_iter().find(|key| key.columns.contains(&column)) {
            Some(key) => comparable(table, column, key.span),
            None => Ok(()),
        }
    }

    fn text_of(&self, written: &Written) -> Arc<str> {
        self.texts.get(written.file as usize).cloned().unwrap_or_default()
    }

    fn bind_check_anew(&self, table: &Table, check: &mut Check) -> Result<(), Diagnostic> {
        let Some((written, WrittenNode::Condition(condition))) =
            self.written.get(&check.span).map(|written| (written, &written.node))
        else {
            return Err(held(check.span, "the constraint", &check.name));
        };
        let text = self.text_of(written);
        let piece = piece_of(written, &text);
        check.expr = self.bind_over_table(piece, table, condition, "CHECK", check.span)?;
        Ok(())
    }

    fn bind_index_anew(&self, table: &Table, index: &mut Index) -> Result<(), Diagnostic> {
        if is_plain(index) {
            for key in &mut index.keys {
                let ExprKind::Column { column, .. } = key.expr.kind else { continue };
                comparable(table, column, index.span)?;
                key.expr = table.read(column, key.expr.span);
            }
            return Ok(());
        }
        let found = self.written.get(&index.span).filter(|_| index.written.is_none());
        let Some((written, WrittenNode::Index(create))) = found.map(|written| (written, &written.node))
        else {
            return Err(held(index.span, "the index", &index.name));
        };
        let text = self.text_of(written);
        let (keys, predicate) = self.index_parts(piece_of(written, &text), table, create, index.span)?;
        (index.keys, index.predicate) = (keys, predicate);
        Ok(())
    }

    /// Both sides of each foreign key of the table, and of each that refers to it, are compared still.
    pub(super) fn foreign_keys_still_fit(&self, id: TableId, place: Span) -> Result<(), Diagnostic> {
        for child in &self.catalog.tables {
            for key in child.foreign_keys.iter().filter(|key| child.id == id || key.parent == id) {
                let parent = self.catalog.table(key.parent);
                check_types(child, parent, &key.columns, &key.parent_columns, &key.name, place)?;
            }
        }
        Ok(())
    }
}

fn piece_of<'t>(written: &Written, text: &'t str) -> Piece<'t> {
    Piece::new(written.file, written.offset, text.get(written.offset as usize..).unwrap_or_default())
}

fn over(expr: &mut Expr, index: ColumnIndex, ty: &SqlType) {
    walk::each_expr_mut(expr, &mut |part: &mut Expr| {
        if matches!(part.kind, ExprKind::Column { column, .. } if column == index) {
            part.ty = ty.clone();
        }
    });
}
