//! Views and materialized views.

use pg_query::protobuf::{CreateTableAsStmt, Node, ObjectType, RangeVar, ViewCheckOption, ViewStmt, node};
use weir_types::SqlState;

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
        let query = self.view_query(piece, create.query.as_deref(), &create.aliases, place)?;
        let view = View {
            name: relation_name(range),
            query,
            materialized: false,
            comment: None,
            target: None,
            span,
        };
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
                self.catalog.views[index] = view;
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
        let query = self.view_query(piece, create.query.as_deref(), aliases, place)?;
        self.catalog.views.push(View {
            name: relation_name(range),
            query,
            materialized: true,
            comment: None,
            target: None,
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

    fn view_query(
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
