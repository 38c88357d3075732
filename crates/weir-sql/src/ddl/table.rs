//! CREATE TABLE.

use pg_query::protobuf::{ConstrType, Constraint, CreateStmt, OnCommitAction, node};
use weir_types::SqlState;

use super::Schema;
use super::constraint::TableConstraint;
use crate::catalog::Table;
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn create_table(
        &mut self,
        piece: Piece<'_>,
        create: &CreateStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &create.relation else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "CREATE TABLE without a name"));
        };
        if self.check_new_relation(piece, range, create.if_not_exists)? {
            return Ok(());
        }
        let name_span = piece.token(range.location);
        refuse_clauses(create, name_span)?;
        let sequences = self.catalog.sequences.len();
        let mut table = Table {
            id: self.next_table_id(),
            name: range.relname.clone(),
            columns: Vec::new(),
            primary_key: None,
            unique_keys: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            indexes: Vec::new(),
            partition_by: None,
            replicated: false,
            span,
        };
        let result = self.fill_table(piece, create, &mut table, name_span);
        if result.is_err() {
            self.catalog.sequences.truncate(sequences);
            return result;
        }
        self.catalog.tables.push(table);
        Ok(())
    }

    fn fill_table(
        &mut self,
        piece: Piece<'_>,
        create: &CreateStmt,
        table: &mut Table,
        name_span: Span,
    ) -> Result<(), Diagnostic> {
        let mut constraints: Vec<TableConstraint<'_>> = Vec::new();
        for element in &create.table_elts {
            match &element.node {
                Some(node::Node::ColumnDef(column)) => {
                    self.add_column(piece, table, column, &mut constraints)?;
                }
                Some(node::Node::Constraint(constraint)) => {
                    constraints.push(TableConstraint { constraint, column: None });
                }
                Some(node::Node::TableLikeClause(_)) => {
                    return Err(Diagnostic::unsupported(
                        name_span,
                        "LIKE in CREATE TABLE",
                        "write the columns",
                    ));
                }
                _ => {
                    return Err(Diagnostic::unsupported(
                        name_span,
                        "this element of CREATE TABLE",
                        "columns and constraints are",
                    ));
                }
            }
        }
        // Keys before checks and foreign keys: a table may refer to its own key.
        let rank = |constraint: &TableConstraint<'_>| match kind(constraint.constraint) {
            ConstrType::ConstrPrimary => 0,
            ConstrType::ConstrUnique => 1,
            ConstrType::ConstrForeign => 3,
            _ => 2,
        };
        constraints.sort_by_key(rank);
        for constraint in constraints {
            self.add_constraint(piece, table, constraint)?;
        }
        Ok(())
    }
}

pub(super) fn kind(constraint: &Constraint) -> ConstrType {
    ConstrType::try_from(constraint.contype).unwrap_or(ConstrType::Undefined)
}

fn refuse_clauses(create: &CreateStmt, span: Span) -> Result<(), Diagnostic> {
    let refused = |what: &str, instead: &str| Err(Diagnostic::unsupported(span, what, instead));
    if create.partspec.is_some() || create.partbound.is_some() {
        return refused(
            "PARTITION BY",
            "COMMENT ON TABLE … IS 'weir: partition by (…)' places the rows on shards",
        );
    }
    if !create.inh_relations.is_empty() {
        return refused("INHERITS", "write the columns, or use a foreign key");
    }
    if create.of_typename.is_some() {
        return refused("CREATE TABLE … OF", "write the columns");
    }
    if !create.tablespacename.is_empty() {
        return refused("TABLESPACE", "leave it away");
    }
    match OnCommitAction::try_from(create.oncommit) {
        Ok(OnCommitAction::OncommitNoop) | Ok(OnCommitAction::Undefined) => Ok(()),
        _ => refused("ON COMMIT", "leave it away"),
    }
}
