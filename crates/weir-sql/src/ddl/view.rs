//! Views and materialized views.

use pg_query::NodeRef;
use pg_query::protobuf::{CreateTableAsStmt, Node, ObjectType, RangeVar, ViewCheckOption, ViewStmt, node};
use weir_types::SqlState;

use super::parameters::{self, Of};
use super::{Schema, relation_name};
use crate::binder::{self, expr_strings};
use crate::bound::{Query, Statement};
use crate::catalog::{Column, Table, View};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn create_view(
        &mut self,
        piece: Piece<'_>,
        create: &ViewStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &create.view else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "CREATE VIEW without a name"));
        };
        let place = piece.token(range.location);
        if !matches!(
            ViewCheckOption::try_from(create.with_check_option),
            Ok(ViewCheckOption::NoCheckOption | ViewCheckOption::Undefined)
        ) {
            return Err(Diagnostic::unsupported(
                place,
                "WITH CHECK OPTION",
                "leave it away, and test the condition in the procedures that write to the view",
            ));
        }
        let replaced = self.catalog.views.iter().position(|view| view.name == relation_name(range));
        if !(create.replace && replaced.is_some()) {
            self.check_new_relation(piece, range, false)?;
        }
        if self.notes.is_none() {
            parameters::check(&create.options, Of::View, true, place)?;
        }
        let query = self.view_query(piece, create.query.as_deref(), &create.aliases, place)?;
        let view = View {
            name: relation_name(range),
            query,
            materialized: false,
            comment: None,
            target: None,
            below: self.views_below(create.query.as_deref()),
            span,
        };
        if let Some(query) = create.query.as_deref() {
            self.write_down_view(piece, span, query, &create.aliases);
        }
        match replaced {
            Some(index) => {
                let was = &self.catalog.views[index];
                for (at, column) in was.query.columns.iter().enumerate() {
                    let message = match view.query.columns.get(at) {
                        None => "cannot drop columns from view".to_owned(),
                        Some(now) if now.name != column.name => {
                            format!(
                                "cannot change name of view column \"{}\" to \"{}\"",
                                column.name, now.name
                            )
                        }
                        Some(now) if now.ty != column.ty => format!(
                            "cannot change data type of view column \"{}\" from {} to {}",
                            column.name, column.ty, now.ty
                        ),
                        Some(_) => continue,
                    };
                    return Err(Diagnostic::new(SqlState::INVALID_TABLE_DEFINITION, place, message));
                }
                let replaced = was.span;
                self.catalog.views[index] = view;
                self.bind_views_anew(replaced, span, place)?;
            }
            None => self.catalog.views.push(view),
        }
        Ok(())
    }

    pub(super) fn create_materialized(
        &mut self,
        piece: Piece<'_>,
        create: &CreateTableAsStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let into = create.into.as_deref();
        let Some(range) = into.and_then(|into| into.rel.as_ref()) else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "a view without a name"));
        };
        let place = piece.token(range.location);
        if ObjectType::try_from(create.objtype) != Ok(ObjectType::ObjectMatview) {
            self.only_analysed(Diagnostic::unsupported(
                place,
                "CREATE TABLE AS",
                "create the table, and fill it with INSERT … SELECT in a procedure",
            ))?;
            return self.create_table_as(piece, create, range, span);
        }
        if self.check_new_relation(piece, range, create.if_not_exists)? {
            return Ok(());
        }
        let aliases = into.map_or(&[][..], |into| &into.col_names);
        if self.notes.is_none() {
            parameters::check(into.map_or(&[][..], |into| &into.options), Of::Table, true, place)?;
        }
        let query = self.view_query(piece, create.query.as_deref(), aliases, place)?;
        let below = self.views_below(create.query.as_deref());
        if let Some(query) = create.query.as_deref() {
            self.write_down_view(piece, span, query, aliases);
        }
        self.catalog.views.push(View {
            name: relation_name(range),
            query,
            materialized: true,
            comment: None,
            target: None,
            below,
            span,
        });
        Ok(())
    }

    /// A table with the columns of the query; its rows are nothing to the analysis.
    fn create_table_as(
        &mut self,
        piece: Piece<'_>,
        create: &CreateTableAsStmt,
        range: &RangeVar,
        span: Span,
    ) -> Result<(), Diagnostic> {
        if self.check_new_relation(piece, range, create.if_not_exists)? {
            return Ok(());
        }
        let place = piece.token(range.location);
        let names = create.into.as_deref().map_or(&[][..], |into| &into.col_names);
        let query = self.view_query(piece, create.query.as_deref(), names, place)?;
        let mut table = Table::named(self.next_table_id(), relation_name(range), span);
        table.columns =
            query.columns.into_iter().map(|column| Column::plain(column.name, column.ty, place)).collect();
        self.catalog.tables.push(table);
        Ok(())
    }

    /// The views that the query names, by the places of their declarations.
    fn views_below(&self, query: Option<&Node>) -> Vec<Span> {
        let Some(query) = query.and_then(|node| node.node.as_ref()) else { return Vec::new() };
        let parts = query.nodes();
        let is_named_in_with = |name: &str| {
            parts
                .iter()
                .any(|(part, ..)| matches!(part, NodeRef::CommonTableExpr(cte) if cte.ctename == name))
        };
        let view = |range: &RangeVar| match range.schemaname.is_empty() && is_named_in_with(&range.relname) {
            true => None,
            false => self.catalog.views.iter().find(|view| view.name == relation_name(range)),
        };
        let ranges = parts.iter().filter_map(|(part, ..)| match part {
            NodeRef::RangeVar(range) => view(range).map(|view| view.span),
            _ => None,
        });
        ranges.collect()
    }

    /// The views over one that was replaced read it as it is now. `place`: of the statement that replaces it.
    fn bind_views_anew(&mut self, was: Span, now: Span, place: Span) -> Result<(), Diagnostic> {
        for at in 0..self.catalog.views.len() {
            let view = &self.catalog.views[at];
            if !view.below.contains(&was) {
                continue;
            }
            let held = || {
                let what = format!("CREATE OR REPLACE of a view that {} reads", view.name);
                Diagnostic::unsupported(place, what, "drop it, and create both again")
            };
            let mut query = match self.query_anew(view.span).unwrap_or_else(|| Err(held())) {
                Err(_) if self.notes.is_some() => continue,
                query => query.map_err(|_| held())?,
            };
            if query.columns.len() != view.query.columns.len() {
                return Err(held());
            }
            for (column, was) in query.columns.iter_mut().zip(&view.query.columns) {
                column.name.clone_from(&was.name);
            }
            let own = view.span;
            let view = &mut self.catalog.views[at];
            view.query = query;
            view.below.iter_mut().filter(|below| **below == was).for_each(|below| *below = now);
            self.bind_views_anew(own, own, place)?;
        }
        Ok(())
    }

    pub(super) fn view_query(
        &self,
        piece: Piece<'_>,
        query: Option<&Node>,
        aliases: &[Node],
        place: Span,
    ) -> Result<Query, Diagnostic> {
        let select = query.and_then(|node| node.node.as_ref());
        let Some(select @ node::Node::SelectStmt(_)) = select else {
            return Err(Diagnostic::unsupported(place, "a view of this statement", "a view is a SELECT"));
        };
        let context = self.context();
        let Statement::Query(mut query) = binder::bind_statement_node(&context, piece, select)? else {
            return Err(Diagnostic::unsupported(place, "a view of this statement", "a view is a SELECT"));
        };
        let names = expr_strings(aliases);
        if names.len() > query.columns.len() {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                place,
                "CREATE VIEW specifies more column names than columns",
            ));
        }
        for (column, name) in query.columns.iter_mut().zip(names) {
            column.name = name.to_owned();
        }
        for (i, column) in query.columns.iter().enumerate() {
            if query.columns[..i].iter().any(|other| other.name == column.name) {
                return Err(Diagnostic::new(
                    SqlState::DUPLICATE_COLUMN,
                    place,
                    format!("column \"{}\" specified more than once", column.name),
                ));
            }
        }
        Ok(query)
    }

    pub(super) fn is_view(&self, range: &RangeVar) -> bool {
        self.catalog.views.iter().any(|view| view.name == relation_name(range))
    }
}
