//! FROM: tables, views, CTEs, subqueries, table functions and joins.

use pg_query::protobuf::{Alias, JoinExpr, JoinType, Node, RangeSubselect, RangeVar, node};
use weir_types::operator::BinaryOp;
use weir_types::{CatalogType, SqlState, SqlType};

use super::Binder;
use super::expr::strings;
use super::query::rename;
use super::row::all_of;
use super::scope::{Aggregates, CteKind, Scope, ScopeColumn, ScopeRelation, nearest};
use crate::bound::{Expr, ExprKind, FromItem, JoinKind, Query, RelationId};
use crate::catalog::Table;
use crate::ddl::{partition_alone, relation_name};
use crate::notes::{self, Notes};
use crate::source::{Diagnostic, Span};
use crate::system::class_number;
use crate::walk;

/// A bound item and what it brings in sight.
pub(super) type Bound = (FromItem, Vec<ScopeRelation>);

impl<'a> Binder<'a> {
    /// Fills the current scope.
    pub(super) fn bind_from(&mut self, list: &'a [Node]) -> Result<Vec<FromItem>, Diagnostic> {
        self.set_aggregates(Aggregates::Forbidden("FROM"));
        let mut items = Vec::new();
        for node in list {
            let (item, relations) = self.bind_from_item(node)?;
            self.bring_in_sight(relations)?;
            items.push(item);
        }
        Ok(items)
    }

    fn bring_in_sight(&mut self, relations: Vec<ScopeRelation>) -> Result<(), Diagnostic> {
        if let Some(scope) = self.scopes.last() {
            self.check_alias(&scope.relations, &relations)?;
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.relations.extend(relations);
        }
        Ok(())
    }

    fn bind_from_item(&mut self, node: &'a Node) -> Result<Bound, Diagnostic> {
        match &node.node {
            Some(node::Node::RangeVar(range)) => self.bind_range(range),
            Some(node::Node::RangeSubselect(range)) => self.bind_derived_table(range),
            Some(node::Node::RangeFunction(range)) => self.bind_table_function(range),
            Some(node::Node::JoinExpr(join)) => self.deeper(|binder| binder.bind_join(join)),
            Some(other) => Err(Diagnostic::unsupported(
                self.piece.span(),
                format!("{} in FROM", crate::ddl::expression_name(other)),
                "use tables, subqueries, unnest and generate_series",
            )),
            None => Err(self.error(SqlState::SYNTAX_ERROR, self.piece.span(), "FROM of nothing")),
        }
    }

    /// A relation of the current query level.
    pub(super) fn own_relation(&mut self) -> RelationId {
        let relation = self.new_relation();
        if let Some(scope) = self.scopes.last_mut() {
            scope.own.push(relation);
        }
        relation
    }

    pub(super) fn check_schema(&self, range: &RangeVar) -> Result<(), Diagnostic> {
        match (range.catalogname.as_str(), range.schemaname.as_str()) {
            ("", schema) if schema != "pg_catalog" && schema != "information_schema" => Ok(()),
            ("", _) if self.context.system.is_some() => Ok(()),
            (_, "pg_catalog" | "information_schema") => Err(Diagnostic::unsupported(
                self.piece.token(range.location),
                format!("the system catalog {}.{}", range.schemaname, range.relname),
                "the analysis prints the schema: weir analyze",
            )),
            _ => Err(Diagnostic::unsupported(
                self.piece.token(range.location),
                "the name of a database",
                "qualify the table by its schema at most",
            )),
        }
    }

    fn bind_range(&mut self, range: &'a RangeVar) -> Result<Bound, Diagnostic> {
        let span = self.piece.token(range.location);
        self.check_schema(range)?;
        let (name, alias) = (&relation_name(range), range.alias.as_ref());
        if range.schemaname.is_empty()
            && let Some(bound) = self.bind_cte_reference(range, span)?
        {
            return Ok(bound);
        }
        let shown = alias.map_or(range.relname.as_str(), |alias| alias.aliasname.as_str());
        if let Some(table) = self.table_in_sight(name, span)? {
            let relation = self.own_relation();
            let mut seen = ScopeRelation::of_table(table, shown, relation, span);
            let array = SqlType::array_of(SqlType::Int8);
            self.reads_arrays |=
                seen.class.is_none() && table.columns.iter().any(|column| column.ty == array);
            rename_seen(&mut seen, alias, span)?;
            let item = FromItem::Table { relation, table: table.id, alias: shown.to_owned(), span };
            return Ok((item, vec![seen]));
        }
        if let Some(view) = self.context.catalog.views.iter().find(|view| view.name == *name) {
            let query = self.copy_query(&view.query);
            return self.derived(query, false, shown, alias, span);
        }
        if let Some(query) = self.bind_system_view(name)? {
            let (item, mut seen) = self.derived(query, false, shown, alias, span)?;
            // Views here that are tables in PostgreSQL.
            if let ("pg_database" | "pg_authid", [seen]) = (range.relname.as_str(), &mut seen[..]) {
                seen.class = Some(class_number(&format!("pg_catalog.{}", range.relname)));
            }
            return Ok((item, seen));
        }
        if let Some(query) = self.bind_sequence_state(name, span)? {
            return self.derived(query, false, shown, alias, span);
        }
        Err(self.unknown_relation(name, span))
    }

    /// The table of that name. In what is only analysed, a partition is all of its table.
    pub(super) fn table_in_sight(&self, name: &str, span: Span) -> Result<Option<&'a Table>, Diagnostic> {
        let catalog = self.context.catalog;
        let Some(whole) = catalog.table_of_partition(name) else {
            let of_system = || match self.context.system {
                Some(_) if !name.contains('.') => catalog.table_by_name(&format!("pg_catalog.{name}")),
                _ => None,
            };
            return Ok(catalog.table_by_name(name).or_else(of_system));
        };
        let refusal = partition_alone(name, span);
        notes::note(self.context.notes, refusal, Notes::only_analysed)?;
        Ok(Some(whole))
    }

    pub(super) fn unknown_relation(&self, name: &str, span: Span) -> Diagnostic {
        let catalog = self.context.catalog;
        let known = catalog.tables.iter().map(|table| table.name.as_str());
        let known = known.filter(|name| !name.starts_with("pg_catalog."));
        let known = known.chain(catalog.views.iter().map(|view| view.name.as_str()));
        let mut error =
            self.error(SqlState::UNDEFINED_TABLE, span, format!("relation \"{name}\" does not exist"));
        error.hint = nearest(name, known);
        error
    }

    /// A copy with relations of its own.
    fn copy_query(&mut self, query: &Query) -> Query {
        let mut copy = query.clone();
        let base = self.next_relation;
        let mut next = base;
        walk::renumber(&mut copy, &mut |relation| {
            let moved = RelationId(base + relation.0);
            next = next.max(moved.0 + 1);
            moved
        });
        self.next_relation = next;
        copy
    }

    fn bind_cte_reference(&mut self, range: &'a RangeVar, span: Span) -> Result<Option<Bound>, Diagnostic> {
        let mut level = 0;
        for depth in (0..self.ctes.len()).rev() {
            let frame = &self.ctes[depth];
            let found = frame.names.iter().position(|cte| cte.name == range.relname);
            let Some(position) = found else {
                level += usize::from(frame.is_query);
                continue;
            };
            let alias = range.alias.as_ref();
            let shown = alias.map_or(range.relname.as_str(), |alias| alias.aliasname.as_str());
            let kind = frame.names[position].kind.clone();
            self.ctes[depth].names[position].references += 1;
            return match kind {
                CteKind::Bound { index, columns } => {
                    let relation = self.own_relation();
                    let mut seen = ScopeRelation::of_columns(columns, shown, relation, span);
                    rename_seen(&mut seen, alias, span)?;
                    Ok(Some((FromItem::Cte { relation, level, index }, vec![seen])))
                }
                CteKind::Inline(cte) => {
                    // It sees only what was in sight where it was written.
                    let scopes = std::mem::take(&mut self.scopes);
                    let mut inner = self.ctes.split_off(depth);
                    let mut frame = inner[0].clone();
                    frame.names.truncate(position);
                    self.ctes.push(frame);
                    let query = self.bind_cte(cte);
                    self.ctes.truncate(depth);
                    self.ctes.append(&mut inner);
                    self.scopes = scopes;
                    self.derived(query?, false, shown, alias, span).map(Some)
                }
            };
        }
        Ok(None)
    }

    pub(super) fn derived(
        &mut self,
        query: Query,
        lateral: bool,
        shown: &str,
        alias: Option<&'a Alias>,
        span: Span,
    ) -> Result<Bound, Diagnostic> {
        let relation = self.own_relation();
        let mut seen = ScopeRelation::of_columns(query.columns.clone(), shown, relation, span);
        rename_seen(&mut seen, alias, span)?;
        Ok((FromItem::Subquery { relation, query: Box::new(query), lateral }, vec![seen]))
    }

    fn bind_derived_table(&mut self, range: &'a RangeSubselect) -> Result<Bound, Diagnostic> {
        let select = match range.subquery.as_deref().and_then(|node| node.node.as_ref()) {
            Some(node::Node::SelectStmt(select)) => select,
            _ => {
                let span = self.piece.span();
                return Err(self.error(SqlState::SYNTAX_ERROR, span, "a subquery is missing in FROM"));
            }
        };
        // PostgreSQL 15 wants an alias here; later versions do not.
        let alias = range.alias.as_ref();
        let shown = alias.map_or("unnamed_subquery", |alias| alias.aliasname.as_str());
        let plain = select.sort_clause.is_empty()
            && select.limit_count.is_none()
            && select.limit_offset.is_none()
            && select.with_clause.is_none();
        self.hide_neighbours(!range.lateral);
        let bound = if !select.values_lists.is_empty() && plain {
            self.bind_values(&select.values_lists, true).map(|(rows, columns)| (None, rows, columns))
        } else {
            self.bind_query(select).map(|query| (Some(query), Vec::new(), Vec::new()))
        };
        self.hide_neighbours(false);
        match bound? {
            (Some(query), ..) => {
                let span = query.span;
                self.derived(query, range.lateral, shown, alias, span)
            }
            (None, rows, mut columns) => {
                let span = rows.first().and_then(|row| row.first()).map(|value| value.span);
                let span = span.unwrap_or_else(|| self.piece.span());
                let relation = self.own_relation();
                let names = alias.map_or_else(Vec::new, |alias| strings(&alias.colnames));
                rename(&mut columns, &names, shown, span)?;
                let seen = ScopeRelation::of_columns(columns.clone(), shown, relation, span);
                Ok((FromItem::Values { relation, rows, columns }, vec![seen]))
            }
        }
    }

    fn hide_neighbours(&mut self, hidden: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.hidden = hidden;
        }
    }

    fn bind_join(&mut self, join: &'a JoinExpr) -> Result<Bound, Diagnostic> {
        let (left_node, right_node) = (self.required(&join.larg)?, self.required(&join.rarg)?);
        let kind = match JoinType::try_from(join.jointype) {
            Ok(JoinType::JoinLeft) => JoinKind::Left,
            Ok(JoinType::JoinRight) => JoinKind::Right,
            Ok(JoinType::JoinFull) => JoinKind::Full,
            _ if join.quals.is_none() && join.using_clause.is_empty() && !join.is_natural => JoinKind::Cross,
            _ => JoinKind::Inner,
        };
        let (left, left_seen) = self.bind_from_item(left_node)?;
        // A lateral right side sees the left one, unless the join would have to invent it.
        let sees_left = matches!(kind, JoinKind::Inner | JoinKind::Cross | JoinKind::Left);
        let outside = self.scopes.last().map_or(0, |scope| scope.relations.len());
        if let (true, Some(scope)) = (sees_left, self.scopes.last_mut()) {
            scope.relations.extend(left_seen.iter().cloned());
        }
        let right = self.bind_from_item(right_node);
        if let Some(scope) = self.scopes.last_mut() {
            scope.relations.truncate(outside);
        }
        let (right, right_seen) = right?;
        self.check_alias(&left_seen, &right_seen)?;
        let using = self.using_columns(join, &left_seen, &right_seen);
        let (on, seen) = match using {
            Some(names) => self.join_using(join, kind, &names, left_seen, right_seen)?,
            None => {
                let mut seen = left_seen;
                seen.extend(right_seen);
                let on = match &join.quals {
                    Some(node) => Some(self.bind_on(node, &seen)?),
                    None => None,
                };
                (on, seen)
            }
        };
        let seen = match &join.alias {
            Some(alias) => vec![join_alias(seen, alias, self.piece.span())?],
            None => seen,
        };
        let (left, right) = (Box::new(left), Box::new(right));
        Ok((FromItem::Join { kind, left, right, on }, seen))
    }

    /// ON sees the two sides and outer queries, but no other FROM item.
    fn bind_on(&mut self, node: &'a Node, seen: &[ScopeRelation]) -> Result<Expr, Diagnostic> {
        let own = self.scopes.last().map(|scope| scope.own.clone()).unwrap_or_default();
        let joined = Scope {
            relations: seen.to_vec(),
            hidden: false,
            aggregates: Aggregates::Forbidden("JOIN conditions"),
            own,
            windows_forbidden: Some("in JOIN conditions"),
            sets: None,
        };
        let outer = self.scopes.last_mut().map(|scope| std::mem::replace(scope, joined));
        let on = self.bind_filter(node, "JOIN/ON");
        if let (Some(scope), Some(outer)) = (self.scopes.last_mut(), outer) {
            *scope = outer;
        }
        on
    }

    /// Names of USING, or of the columns that both sides of a NATURAL join have.
    fn using_columns(
        &self,
        join: &'a JoinExpr,
        left: &[ScopeRelation],
        right: &[ScopeRelation],
    ) -> Option<Vec<String>> {
        if join.is_natural {
            let names = visible(left).map(|column| column.name.clone());
            let shared = names.filter(|name| visible(right).any(|column| column.name == *name));
            return Some(shared.collect());
        }
        match strings(&join.using_clause).as_slice() {
            [] => None,
            names => Some(names.iter().map(|name| (*name).to_owned()).collect()),
        }
    }

    /// The condition, and the merged columns before all others.
    fn join_using(
        &mut self,
        join: &'a JoinExpr,
        kind: JoinKind,
        names: &[String],
        left: Vec<ScopeRelation>,
        right: Vec<ScopeRelation>,
    ) -> Result<(Option<Expr>, Vec<ScopeRelation>), Diagnostic> {
        let span = left.first().map_or(self.piece.span(), |relation| relation.span);
        if join.join_using_alias.is_some() {
            return Err(Diagnostic::unsupported(span, "an alias of USING", "give the tables aliases"));
        }
        let (mut tests, mut merged) = (Vec::new(), Vec::new());
        for name in names {
            let a = self.using_column(&left, name, "left", span)?;
            let b = self.using_column(&right, name, "right", span)?;
            tests.push(self.binary(BinaryOp::Equal, a.clone(), b.clone(), span)?);
            let expr = match kind {
                JoinKind::Right => b,
                JoinKind::Full => {
                    let (args, ty) = self.unify(vec![a, b], "JOIN/USING")?;
                    Expr { kind: ExprKind::Coalesce(args), ty, span }
                }
                _ => a,
            };
            let catalog =
                (catalog_of(&left, name)).filter(|of_left| catalog_of(&right, name) == Some(*of_left));
            merged.push(ScopeColumn { name: name.clone(), expr, catalog });
        }
        let rest = visible(&left).chain(visible(&right)).filter(|column| !names.contains(&column.name));
        merged.extend(rest.cloned());
        let columns = ScopeRelation {
            name: None,
            columns: merged,
            unqualified: true,
            span,
            relation: None,
            is_scalar: false,
            class: None,
            table: None,
        };
        let hide = |relation: ScopeRelation| ScopeRelation { unqualified: false, ..relation };
        let mut seen: Vec<ScopeRelation> = left.into_iter().chain(right).map(hide).collect();
        seen.push(columns);
        let on = (!tests.is_empty()).then(|| all_of(tests, span));
        Ok((on, seen))
    }

    fn using_column(
        &self,
        side: &[ScopeRelation],
        name: &str,
        which: &str,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let mut found = visible(side).filter(|column| column.name == name);
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(column.expr.clone()),
            (Some(_), Some(_)) => Err(self.error(
                SqlState::AMBIGUOUS_COLUMN,
                span,
                format!("common column name \"{name}\" appears more than once in {which} table"),
            )),
            (None, _) => Err(self.error(
                SqlState::UNDEFINED_COLUMN,
                span,
                format!("column \"{name}\" specified in USING clause does not exist in {which} table"),
            )),
        }
    }
}

/// The columns that may be named without qualification.
/// The catalog type of a column that USING names.
fn catalog_of(side: &[ScopeRelation], name: &str) -> Option<CatalogType> {
    visible(side).find(|column| column.name == name)?.catalog
}

fn visible(relations: &[ScopeRelation]) -> impl Iterator<Item = &ScopeColumn> {
    relations.iter().filter(|relation| relation.unqualified).flat_map(|relation| &relation.columns)
}

fn rename_seen(seen: &mut ScopeRelation, alias: Option<&Alias>, span: Span) -> Result<(), Diagnostic> {
    let Some(alias) = alias else { return Ok(()) };
    let names = strings(&alias.colnames);
    if names.len() > seen.columns.len() {
        return Err(Diagnostic::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            span,
            format!(
                "table \"{}\" has {} columns available but {} columns specified",
                alias.aliasname,
                seen.columns.len(),
                names.len()
            ),
        ));
    }
    for (column, name) in seen.columns.iter_mut().zip(names) {
        column.name = name.to_owned();
    }
    Ok(())
}

/// `(a JOIN b …) AS j`: hides both sides.
fn join_alias(seen: Vec<ScopeRelation>, alias: &Alias, span: Span) -> Result<ScopeRelation, Diagnostic> {
    let columns: Vec<ScopeColumn> = visible(&seen).cloned().collect();
    let mut joined = ScopeRelation {
        name: Some(alias.aliasname.clone()),
        columns,
        unqualified: true,
        span,
        relation: None,
        is_scalar: false,
        class: None,
        table: None,
    };
    rename_seen(&mut joined, Some(alias), span)?;
    Ok(joined)
}
