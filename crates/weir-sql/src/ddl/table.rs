//! CREATE TABLE.

use pg_query::protobuf::{ConstrType, Constraint, CreateStmt, OnCommitAction, TableLikeClause, node};
use weir_types::SqlState;

use super::constraint::TableConstraint;
use super::parameters::{self, Of};
use super::storage::{check_access_method, check_tablespace};
use super::{Schema, like, relation_name};
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
        if create.partbound.is_some() {
            return self.create_partition(piece, create);
        }
        let name_span = piece.token(range.location);
        let result = refuse_clauses(create, name_span);
        self.tolerate(result)?;
        if self.notes.is_none() {
            parameters::check(&create.options, Of::Table, true, name_span)?;
            check_tablespace(&create.tablespacename, name_span)?;
            check_access_method(&create.access_method, name_span)?;
        }
        let sequences = self.catalog.sequences.len();
        let mut table = Table::named(self.next_table_id(), relation_name(range), span);
        self.partition_clause(piece, create, &mut table);
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
        for parent in &create.inh_relations {
            // A tolerant reading of INHERITS takes the columns and checks of the parent.
            if let Some(node::Node::RangeVar(parent)) = &parent.node {
                let options = like::INCLUDING_CONSTRAINTS | like::INCLUDING_DEFAULTS;
                let like = TableLikeClause { relation: Some(parent.clone()), options, relation_oid: 0 };
                self.columns_like(piece, table, &like)?;
            }
        }
        let mut constraints: Vec<TableConstraint<'_>> = Vec::new();
        for element in &create.table_elts {
            match &element.node {
                Some(node::Node::ColumnDef(column)) => {
                    let result = self.add_column(piece, table, column, &mut constraints);
                    self.tolerate(result)?;
                }
                Some(node::Node::Constraint(constraint)) => {
                    constraints.push(TableConstraint::of(constraint, None));
                }
                Some(node::Node::TableLikeClause(like)) => self.columns_like(piece, table, like)?,
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
            let name = constraint.constraint.conname.clone();
            let result = self.add_constraint(piece, table, constraint);
            self.tolerate_of(table.id, &name, result)?;
        }
        Ok(())
    }

    /// A row of nothing has no place.
    pub(crate) fn refuse_bare_tables(&self) -> Result<(), Diagnostic> {
        match self.catalog.tables.iter().find(|table| self.is_running && table.columns.is_empty()) {
            Some(bare) => {
                let what = format!("the table {} without columns", bare.name);
                Err(Diagnostic::unsupported(bare.span, what, "give it its first column in CREATE TABLE"))
            }
            None => Ok(()),
        }
    }
}

pub(super) fn kind(constraint: &Constraint) -> ConstrType {
    ConstrType::try_from(constraint.contype).unwrap_or(ConstrType::Undefined)
}

fn refuse_clauses(create: &CreateStmt, span: Span) -> Result<(), Diagnostic> {
    let refused = |what: &str, instead: &str| Err(Diagnostic::unsupported(span, what, instead));
    if !create.inh_relations.is_empty() {
        return refused("INHERITS", "write the columns, or use a foreign key");
    }
    if create.of_typename.is_some() {
        return refused("CREATE TABLE … OF", "write the columns");
    }
    match OnCommitAction::try_from(create.oncommit) {
        Ok(OnCommitAction::OncommitNoop) | Ok(OnCommitAction::Undefined) => Ok(()),
        _ => refused("ON COMMIT", "leave it away"),
    }
}
