//! CREATE INDEX.

use pg_query::protobuf::{IndexElem, IndexStmt, Node, SortByDir, SortByNulls, node};
use weir_types::{SqlState, SqlType, Value};

use super::column::by_bytes;
use super::constraint::{comparable, object_name, refuse_subquery};
use super::names::beside;
use super::parameters::{self, Of};
use super::partition::partition_alone;
use super::storage::check_tablespace;
use super::{Schema, relation_name, relation_taken};
use crate::binder::expr_strings;
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Column, Index, IndexKey, Table, WrittenIndex};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn create_index(
        &mut self,
        piece: Piece<'_>,
        create: &IndexStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &create.relation else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "CREATE INDEX on nothing"));
        };
        if self.catalog.partitions.contains_key(&relation_name(range)) && !create.unique {
            let refusal = partition_alone(&relation_name(range), piece.token(range.location));
            return self.ignored(refusal, false);
        }
        let place = piece.token(range.location);
        if self.is_view(range) || self.unbound_views.contains_key(&relation_name(range)) {
            let refusal = Diagnostic::unsupported(
                place,
                format!("an index on the view {}", relation_name(range)),
                "a view is always up to date: leave it away",
            );
            return self.ignored(refusal, false);
        }
        let at = self.table_index(piece, range)?;
        if !matches!(create.access_method.as_str(), "" | "btree" | "hash") {
            // It answers other questions than ours, and holds no more than the rows do.
            let what = format!("an index of kind {}", create.access_method);
            return self.ignored(Diagnostic::unsupported(place, what, "btree is"), false);
        }
        if self.notes.is_none() {
            check_tablespace(&create.table_space, place)?;
            parameters::check(&create.options, Of::Index, true, place)?;
        }
        let table = &self.catalog.tables[at];
        let names: Vec<String> = elements(create).map(element_name).collect();
        let (keys, predicate) = self.index_parts(piece, table, create, span)?;
        let name = match create.idxname.as_str() {
            "" => self.free_name(&object_name(&table.name, &names.join("_"), "idx"), table),
            name if self.relation_exists(&beside(&table.name, name)) && create.if_not_exists => {
                self.pass(SqlState::DUPLICATE_TABLE, place, &format!("relation \"{name}\" already exists"));
                return Ok(());
            }
            name if self.relation_exists(&beside(&table.name, name)) => {
                return Err(relation_taken(name, place));
            }
            name => name.to_owned(),
        };
        let mut index = Index {
            name,
            keys,
            unique: create.unique,
            nulls_not_distinct: create.nulls_not_distinct,
            predicate,
            written: None,
            comment: None,
            span,
        };
        if self.is_running && index.unique {
            hold_by_columns(piece, &mut self.catalog.tables[at], &mut index)?;
        }
        self.catalog.tables[at].indexes.push(index);
        self.write_down_index(piece, span, create);
        Ok(())
    }

    /// Its keys and its WHERE, over the table.
    pub(super) fn index_parts(
        &self,
        piece: Piece<'_>,
        table: &Table,
        create: &IndexStmt,
        span: Span,
    ) -> Result<(Vec<IndexKey>, Option<Expr>), Diagnostic> {
        let place = create.relation.as_ref().map_or(span, |range| piece.token(range.location));
        let keys = elements(create)
            .map(|element| self.index_key(piece, table, element, (place, span)))
            .collect::<Result<_, _>>()?;
        let predicate = match &create.where_clause {
            Some(node) => Some(self.bind_over_table(piece, table, node, "WHERE", span)?),
            None => None,
        };
        Ok((keys, predicate))
    }

    fn index_key(
        &self,
        piece: Piece<'_>,
        table: &Table,
        element: &IndexElem,
        (place, whole): (Span, Span),
    ) -> Result<IndexKey, Diagnostic> {
        by_bytes(&element.collation, place).or_else(|refusal| self.only_analysed(refusal))?;
        if expr_strings(&element.opclass).last().is_some_and(|class| !class.ends_with("_pattern_ops")) {
            self.ignored(Diagnostic::unsupported(place, "this operator class", "leave it away"), false)?;
        }
        let expr = match &element.expr {
            Some(node) => self.index_expression(piece, table, node, whole)?,
            None => {
                let column = table.column_by_name(&element.name).ok_or_else(|| {
                    Diagnostic::new(
                        SqlState::UNDEFINED_COLUMN,
                        place,
                        format!("column \"{}\" does not exist", element.name),
                    )
                })?;
                comparable(table, column, place)?;
                table.read(column, place)
            }
        };
        let descending = SortByDir::try_from(element.ordering) == Ok(SortByDir::SortbyDesc);
        let nulls_first = match SortByNulls::try_from(element.nulls_ordering) {
            Ok(SortByNulls::SortbyNullsFirst) => true,
            Ok(SortByNulls::SortbyNullsLast) => false,
            _ => descending,
        };
        Ok(IndexKey { expr, descending, nulls_first })
    }

    fn index_expression<'n>(
        &'n self,
        piece: Piece<'n>,
        table: &Table,
        node: &'n Node,
        whole: Span,
    ) -> Result<Expr, Diagnostic> {
        let expr = self.over_row(piece, table, whole, SqlType::Text, |binder| binder.bind_expr(node))?;
        refuse_subquery(&expr, "an index expression")?;
        match crate::walk::changing(&expr) {
            Some(span) => Err(Diagnostic::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                span,
                "functions in index expression must be marked IMMUTABLE",
            )),
            None if expr.ty == SqlType::Record => Err(Diagnostic::unsupported(
                expr.span,
                "a row as index key",
                "list the columns without inner parentheses",
            )),
            None => Ok(expr),
        }
    }
}

/// A unique index over what is computed of a row is one over hidden columns that are generated so: whatever keeps columns keeps it. Its
/// WHERE is one more column, which is NULL, and so equal to nothing, in rows that are not in the index.
fn hold_by_columns(piece: Piece<'_>, table: &mut Table, index: &mut Index) -> Result<(), Diagnostic> {
    if index.predicate.is_none() && index.plain_columns().is_some() {
        return Ok(());
    }
    let span = index.span;
    if index.nulls_not_distinct && index.predicate.is_some() {
        let what = "NULLS NOT DISTINCT of a partial unique index";
        return Err(Diagnostic::unsupported(span, what, "make NULL a value with coalesce(…)"));
    }
    let written = WrittenIndex { keys: index.keys.clone(), predicate: index.predicate.take() };
    let mut hide = |name: &str, generated: Expr| {
        let mut column = Column::plain(name.to_owned(), generated.ty.clone(), span);
        (column.generated, column.is_hidden) = (Some(generated), true);
        table.columns.push(column);
        table.read(table.columns.len() - 1, span)
    };
    for key in &mut index.keys {
        if !matches!(key.expr.kind, ExprKind::Column { .. }) {
            // As PostgreSQL names it in a DETAIL.
            let text = piece.text_of(key.expr.span);
            let is_call = matches!(key.expr.kind, ExprKind::Function { .. } | ExprKind::Coalesce(_));
            let name = if is_call { text.to_owned() } else { format!("({text})") };
            key.expr = hide(&name, key.expr.clone());
        }
    }
    if let Some(predicate) = &written.predicate {
        let literal =
            |value| Expr { kind: ExprKind::Literal(value), ty: SqlType::Bool, span: predicate.span };
        let whens = vec![(predicate.clone(), literal(Value::Bool(true)))];
        let kind = ExprKind::Case { whens, otherwise: Some(Box::new(literal(Value::Null))) };
        let name = format!("WHERE {}", piece.text_of(predicate.span));
        let expr = hide(&name, Expr { kind, ty: SqlType::Bool, span: predicate.span });
        index.keys.push(IndexKey { expr, descending: false, nulls_first: false });
    }
    index.written = Some(Box::new(written));
    Ok(())
}

pub(super) fn elements(create: &IndexStmt) -> impl Iterator<Item = &IndexElem> {
    create.index_params.iter().filter_map(|node| match &node.node {
        Some(node::Node::IndexElem(element)) => Some(&**element),
        _ => None,
    })
}

/// PostgreSQL's part of a generated index name.
pub(super) fn element_name(element: &IndexElem) -> String {
    match element.expr.as_deref().and_then(|node| node.node.as_ref()) {
        None => element.name.clone(),
        Some(node::Node::FuncCall(call)) => {
            expr_strings(&call.funcname).last().map_or_else(|| "expr".to_owned(), |name| (*name).to_owned())
        }
        Some(node::Node::CoalesceExpr(_)) => "coalesce".to_owned(),
        _ => "expr".to_owned(),
    }
}
