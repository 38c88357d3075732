//! INSERT, with ON CONFLICT and RETURNING.

use pg_query::protobuf::{
    InferClause, InsertStmt, Node, OnConflictAction, OnConflictClause, OverridingKind, ReturningClause,
    SelectStmt, node,
};
use weir_types::{CastContext, SqlState, SqlType};

use super::Binder;
use super::coerce::null;
use super::modify::{asks_table, check_returning};
use super::query::output_span;
use super::scope::{Scope, ScopeRelation};
use super::target::Target;
use crate::bound::{
    Distinct, Expr, ExprKind, FromItem, Insert, InsertSource, OnConflict, OutputColumn, Query, QueryBody,
    RelationId, Select,
};
use crate::catalog::{ColumnIndex, Table, TableId};
use crate::source::{Diagnostic, Span};

/// A subquery sees what was there before its statement; behind the first row the statement has changed some of that.
fn check_update_of_many(table: TableId, on_conflict: Option<&OnConflict>) -> Result<(), Diagnostic> {
    let Some((assignments, filter)) = on_conflict.and_then(|conflict| conflict.update.as_ref()) else {
        return Ok(());
    };
    match asks_table(table, assignments.iter().map(|(_, expr)| expr).chain(filter)) {
        Some(span) => Err(Diagnostic::unsupported(
            span,
            "a subquery in ON CONFLICT DO UPDATE over the table that several rows are inserted into",
            "insert the rows one by one",
        )),
        None => Ok(()),
    }
}

impl<'a> Binder<'a> {
    pub(super) fn bind_insert(&mut self, insert: &'a InsertStmt) -> Result<Insert, Diagnostic> {
        let target = self.bind_target(&insert.relation)?;
        let (table, alias, span) = (target.table, target.alias.clone(), target.span);
        let (relation, excluded) = (self.new_relation(), self.new_relation());
        self.bind_inline_with(&insert.with_clause)?;
        let system = OverridingKind::try_from(insert.r#override) == Ok(OverridingKind::OverridingSystemValue);
        if OverridingKind::try_from(insert.r#override) == Ok(OverridingKind::OverridingUserValue) {
            return Err(Diagnostic::unsupported(
                span,
                "OVERRIDING USER VALUE",
                "leave the identity column away",
            ));
        }
        let (mut columns, spans) = self.target_columns(&target, &insert.cols)?;
        let named = !insert.cols.is_empty();
        let source = match insert.select_stmt.as_deref().and_then(|node| node.node.as_ref()) {
            None => {
                columns.clear();
                InsertSource::Values(vec![Vec::new()])
            }
            Some(node::Node::SelectStmt(select)) => {
                let values = !select.values_lists.is_empty()
                    && select.sort_clause.is_empty()
                    && select.limit_count.is_none()
                    && select.limit_offset.is_none()
                    && select.with_clause.is_none();
                let width = source_width(select);
                if let (Some(width), false) = (width, named) {
                    columns.truncate(width);
                }
                match values {
                    true => self.bind_insert_values(table, select, &columns, &spans, system)?,
                    false => {
                        let query = self.bind_query_with(select, false)?;
                        if !named {
                            columns.truncate(query.columns.len());
                        }
                        self.check_width(query.columns.len(), &columns, query.span, &spans)?;
                        self.refuse_generated(table, &columns, system, span)?;
                        InsertSource::Query(Box::new(self.assign_outputs(query, table, &columns)?))
                    }
                }
            }
            Some(_) => return Err(self.error(SqlState::SYNTAX_ERROR, span, "INSERT of what?")),
        };
        let missing = (0..table.columns.len()).filter(|column| !columns.contains(column));
        let defaults = missing.map(|column| (column, default_of(table, column, span))).collect();
        let on_conflict = match &insert.on_conflict_clause {
            Some(clause) => self.bind_conflict(clause, table, &alias, (relation, excluded), span)?,
            None => None,
        };
        self.scopes.push(target.scope(relation));
        let updates = on_conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
        self.upserted = updates.then_some(relation);
        let returning = self.bind_returning(&insert.returning_clause)?;
        self.upserted = None;
        check_returning(table.id, &returning)?;
        if !matches!(&source, InsertSource::Values(rows) if rows.len() < 2) {
            check_update_of_many(table.id, on_conflict.as_ref())?;
        }
        self.scopes.pop();
        self.ctes.pop();
        let id = table.id;
        let mut insert = Insert {
            table: id,
            relation,
            excluded,
            columns,
            source,
            defaults,
            on_conflict,
            returning,
            continues: false,
            span,
        };
        self.insert_generated(table, &mut insert)?;
        Ok(insert)
    }

    /// The named columns, or all.
    fn target_columns(
        &self,
        target: &Target<'_>,
        list: &'a [Node],
    ) -> Result<(Vec<ColumnIndex>, Vec<Span>), Diagnostic> {
        let (mut columns, mut spans) = (Vec::new(), Vec::new());
        for node in list {
            let Some(node::Node::ResTarget(named)) = &node.node else { continue };
            let (column, span) = self.target_column(target.table, named)?;
            if columns.contains(&column) {
                return Err(self.error(
                    SqlState::DUPLICATE_COLUMN,
                    span,
                    format!("column \"{}\" specified more than once", named.name),
                ));
            }
            columns.push(column);
            spans.push(span);
        }
        if list.is_empty() {
            columns = target.columns();
        }
        Ok((columns, spans))
    }

    pub(super) fn column_of(&self, table: &Table, name: &str, span: Span) -> Result<ColumnIndex, Diagnostic> {
        table.column_named(name, span).map_err(|error| {
            let shown = table.columns.iter().map(|column| column.name.as_str());
            let shown = shown.filter(|name| !name.starts_with(super::target::HIDDEN));
            Diagnostic { hint: super::scope::nearest(name, shown), ..error }
        })
    }

    fn check_width(
        &self,
        width: usize,
        columns: &[ColumnIndex],
        place: Span,
        spans: &[Span],
    ) -> Result<(), Diagnostic> {
        if width > columns.len() {
            return Err(self.error(
                SqlState::SYNTAX_ERROR,
                place,
                "INSERT has more expressions than target columns",
            ));
        }
        if width < columns.len() {
            let place = spans.get(width).copied().unwrap_or(place);
            return Err(self.error(
                SqlState::SYNTAX_ERROR,
                place,
                "INSERT has more target columns than expressions",
            ));
        }
        Ok(())
    }

    fn bind_insert_values(
        &mut self,
        table: &'a Table,
        select: &'a SelectStmt,
        columns: &[ColumnIndex],
        spans: &[Span],
        system: bool,
    ) -> Result<InsertSource, Diagnostic> {
        let mut rows = Vec::new();
        let mut width = None;
        for list in &select.values_lists {
            let Some(node::Node::List(list)) = &list.node else { continue };
            let mut row = Vec::new();
            for (i, node) in list.items.iter().enumerate() {
                let Some(&column) = columns.get(i) else {
                    let span = self.bind_expr(node)?.span;
                    return Err(self.error(
                        SqlState::SYNTAX_ERROR,
                        span,
                        "INSERT has more expressions than target columns",
                    ));
                };
                row.push(self.bind_column_value(table, column, node, system)?);
            }
            let place = row.last().map_or(self.piece.span(), |value: &Expr| value.span);
            if width.replace(row.len()).is_some_and(|width| width != row.len()) {
                return Err(self.error(
                    SqlState::SYNTAX_ERROR,
                    place,
                    "VALUES lists must all be the same length",
                ));
            }
            self.check_width(row.len(), columns, place, spans)?;
            rows.push(row);
        }
        Ok(InsertSource::Values(rows))
    }

    /// A value for a column; DEFAULT is its default.
    pub(super) fn bind_column_value(
        &mut self,
        table: &'a Table,
        column: ColumnIndex,
        node: &'a Node,
        system: bool,
    ) -> Result<Expr, Diagnostic> {
        if let Some(node::Node::SetToDefault(default)) = &node.node {
            return Ok(default_of(table, column, self.piece.token(default.location)));
        }
        let definition = &table.columns[column];
        let value = self.bind_expr_toward(node, &definition.ty)?;
        let span = value.span;
        self.refuse_generated(table, &[column], system, span)?;
        self.coerce_into(value, definition)
    }

    fn refuse_generated(
        &self,
        table: &Table,
        columns: &[ColumnIndex],
        system: bool,
        span: Span,
    ) -> Result<(), Diagnostic> {
        if let Some(&column) = columns.iter().find(|&&column| table.columns[column].generated.is_some()) {
            return Err(super::generated::refused(table, column, span));
        }
        let generated = columns.iter().find(|&&column| table.columns[column].generated_always);
        match generated {
            Some(&column) if !system => Err(self
                .error(
                    SqlState::GENERATED_ALWAYS,
                    span,
                    format!(
                        "cannot insert a non-DEFAULT value into column \"{}\"",
                        table.columns[column].name
                    ),
                )
                .with_hint("use OVERRIDING SYSTEM VALUE to override, or leave the column away")),
            _ => Ok(()),
        }
    }

    /// A query whose outputs fit the columns. Where a cast could change what the query itself does with
    /// its outputs (sorting, DISTINCT, UNION), it happens around the query.
    fn assign_outputs(
        &mut self,
        mut query: Query,
        table: &'a Table,
        columns: &[ColumnIndex],
    ) -> Result<Query, Diagnostic> {
        let plain = match &query.body {
            QueryBody::Select(select) => {
                matches!(select.distinct, Distinct::All) && query.order_by.is_empty()
            }
            _ => false,
        };
        if let (true, QueryBody::Select(select)) = (plain, &mut query.body) {
            for (output, &column) in select.outputs.iter_mut().zip(columns) {
                let definition = &table.columns[column];
                let value = std::mem::replace(output, null(SqlType::Unknown, output.span));
                *output = self.coerce_into(value, definition)?;
            }
            for (output, &column) in query.columns.iter_mut().zip(columns) {
                output.ty = table.columns[column].ty.clone();
            }
            return Ok(query);
        }
        // Literals become what the column is, at once.
        let types: Vec<SqlType> = query
            .columns
            .iter()
            .zip(columns)
            .map(|(output, &column)| match output.ty {
                SqlType::Unknown => table.columns[column].ty.base(),
                ref known => known.clone(),
            })
            .collect();
        self.coerce_outputs(&mut query, &types)?;
        let relation = self.new_relation();
        let mut outputs = Vec::new();
        for (i, &column) in columns.iter().enumerate() {
            let (ty, span) = (query.columns[i].ty.clone(), output_span(&query, i));
            let value = Expr { kind: ExprKind::Column { relation, column: i }, ty, span };
            let definition = &table.columns[column];
            outputs.push(self.coerce_into(value, definition)?);
        }
        Ok(around(query, relation, outputs))
    }

    fn bind_conflict(
        &mut self,
        clause: &'a OnConflictClause,
        table: &'a Table,
        alias: &str,
        (relation, excluded): (RelationId, RelationId),
        span: Span,
    ) -> Result<Option<OnConflict>, Diagnostic> {
        let place = self.piece.token(clause.location);
        let action = OnConflictAction::try_from(clause.action).unwrap_or(OnConflictAction::OnconflictNone);
        if action == OnConflictAction::OnconflictNone {
            return Ok(None);
        }
        let columns = match &clause.infer {
            Some(infer) => Some(self.bind_arbiter(infer, table, place)?),
            None => None,
        };
        if action == OnConflictAction::OnconflictNothing {
            return Ok(Some(OnConflict { columns, update: None }));
        }
        if columns.is_none() {
            return Err(self
                .error(
                    SqlState::SYNTAX_ERROR,
                    place,
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .with_hint("for example, ON CONFLICT (column_name)"));
        }
        let mut scope = Scope::of_table(table, alias, relation, span);
        scope.own.push(excluded);
        scope.relations.push(ScopeRelation::of_table(table, "excluded", excluded, span));
        self.scopes.push(scope);
        let assignments = self.bind_assignments(table, relation, &clause.target_list)?;
        let filter = match &clause.where_clause {
            Some(node) => Some(self.bind_condition(node, "WHERE")?),
            None => None,
        };
        self.scopes.pop();
        Ok(Some(OnConflict { columns, update: Some((assignments, filter)) }))
    }

    /// The columns of the key that arbitrates.
    fn bind_arbiter(
        &mut self,
        infer: &'a InferClause,
        table: &'a Table,
        place: Span,
    ) -> Result<Vec<ColumnIndex>, Diagnostic> {
        if !infer.conname.is_empty() {
            let keys = table.primary_key.iter().chain(&table.unique_keys);
            let named = keys.into_iter().find(|key| key.name == infer.conname);
            return named.map(|key| key.columns.clone()).ok_or_else(|| {
                self.error(
                    SqlState::UNDEFINED_OBJECT,
                    place,
                    format!("constraint \"{}\" for table \"{}\" does not exist", infer.conname, table.name),
                )
            });
        }
        let is_expression = |node: &Node| matches!(&node.node, Some(node::Node::IndexElem(element)) if element.expr.is_some());
        if infer.where_clause.is_some() || infer.index_elems.iter().any(is_expression) {
            return self.bind_computed_arbiter(infer, table, place);
        }
        let mut columns: Vec<ColumnIndex> = Vec::new();
        for node in &infer.index_elems {
            let Some(node::Node::IndexElem(element)) = &node.node else { continue };
            let column = self.column_of(table, &element.name, place)?;
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let same = |key: &[ColumnIndex]| {
            key.len() == columns.len() && key.iter().all(|column| columns.contains(column))
        };
        let keys = table.primary_key.iter().chain(&table.unique_keys).map(|key| key.columns.clone());
        let indexes = table.indexes.iter().filter(|index| index.unique && index.predicate.is_none());
        let indexes = indexes.filter_map(|index| {
            let plain = index.keys.iter().map(|key| match key.expr.kind {
                ExprKind::Column { column, .. } => Some(column),
                _ => None,
            });
            plain.collect::<Option<Vec<_>>>()
        });
        keys.chain(indexes).find(|key| same(key)).ok_or_else(|| self.no_arbiter(table, place))
    }

    /// Over the current scope.
    pub(super) fn bind_returning(
        &mut self,
        clause: &'a Option<ReturningClause>,
    ) -> Result<Vec<(OutputColumn, Expr)>, Diagnostic> {
        let Some(clause) = clause else { return Ok(Vec::new()) };
        if let Some(Node { node: Some(node::Node::ReturningOption(option)) }) = clause.options.first() {
            return Err(Diagnostic::unsupported(
                self.piece.token(option.location),
                "RETURNING WITH",
                "RETURNING gives the new row of INSERT and UPDATE, the old one of DELETE",
            ));
        }
        self.set_aggregates(super::scope::Aggregates::Forbidden("RETURNING"));
        let targets = self.bind_targets(&clause.exprs, true)?;
        let column = |target: super::output::Target| {
            (OutputColumn::new(target.name, target.expr.ty.clone()), target.expr)
        };
        Ok(targets.into_iter().map(column).collect())
    }

    /// `SELECT outputs FROM (query)`.
    pub(super) fn cast_around(
        &mut self,
        query: Query,
        relation: RelationId,
        output: usize,
        ty: &SqlType,
    ) -> Result<Query, Diagnostic> {
        let span = output_span(&query, output);
        let from = query.columns[output].ty.clone();
        let value = Expr { kind: ExprKind::Column { relation, column: output }, ty: from, span };
        let value = self.coerce(value, ty, CastContext::Assignment)?;
        Ok(around(query, relation, vec![value]))
    }
}

pub(super) fn around(query: Query, relation: RelationId, outputs: Vec<Expr>) -> Query {
    let span = query.span;
    let names = query.columns.iter().map(|column| column.name.clone());
    let columns =
        names.zip(&outputs).map(|(name, output)| OutputColumn::new(name, output.ty.clone())).collect();
    let from = vec![FromItem::Subquery { relation, query: Box::new(query), lateral: false }];
    Query::of_select(Select::plain(outputs, from, None), columns, span)
}

/// NULL where the column has no default.
pub(crate) fn default_of(table: &Table, column: ColumnIndex, span: Span) -> Expr {
    let column = &table.columns[column];
    match (&column.default, &column.generated) {
        (Some(default), _) => default.clone(),
        (None, Some(_)) => Expr { kind: ExprKind::Opaque(Vec::new()), ty: column.ty.clone(), span },
        (None, None) => null(column.ty.clone(), span),
    }
}

/// Number of columns of VALUES; unknown for other queries.
fn source_width(select: &SelectStmt) -> Option<usize> {
    match select.values_lists.first()?.node.as_ref()? {
        node::Node::List(list) => Some(list.items.len()),
        _ => None,
    }
}
