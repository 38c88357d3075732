//! CREATE TABLE.

use pg_query::protobuf::{ConstrType, Constraint, CreateStmt, OnCommitAction, TableLikeClause, node};
use weir_types::SqlState;

use super::constraint::TableConstraint;
use super::{Schema, relation_name};
use crate::catalog::{Check, Column, Table};
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
            // What a tolerant reading knows of INHERITS: the columns and checks of the parent.
            if let Some(node::Node::RangeVar(parent)) = &parent.node {
                let options = INCLUDING_CONSTRAINTS | INCLUDING_DEFAULTS;
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

    /// `LIKE other`: the columns' names, types and NOT NULL; with INCLUDING, defaults and checks too.
    fn columns_like(
        &self,
        piece: Piece<'_>,
        table: &mut Table,
        like: &TableLikeClause,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &like.relation else { return Ok(()) };
        let span = piece.token(range.location);
        let constraints = like.options & INCLUDING_CONSTRAINTS != 0;
        let defaults = like.options & INCLUDING_DEFAULTS != 0;
        if like.options & INCLUDING_MORE != 0 && self.notes.is_none() {
            return Err(Diagnostic::unsupported(
                span,
                "LIKE … INCLUDING indexes, identity or generated columns",
                "INCLUDING DEFAULTS and INCLUDING CONSTRAINTS are; write the keys",
            ));
        }
        let other = &self.catalog.tables[self.table_index(piece, range)?];
        let offset = table.columns.len();
        for column in other.columns.iter().filter(|column| !column.is_hidden) {
            let mut copy = Column {
                span,
                generated_always: false,
                is_identity: false,
                generated: None,
                retyped: None,
                ..column.clone()
            };
            copy.default = copy.default.filter(|_| defaults);
            copy.not_null_span = copy.not_null_span.map(|_| span);
            table.columns.push(copy);
        }
        if constraints && offset == 0 {
            table.checks.extend(other.checks.iter().map(|check| Check { span, ..check.clone() }));
        }
        Ok(())
    }
}

/// Bits of PostgreSQL's `TableLikeOption`.
const INCLUDING_CONSTRAINTS: u32 = 1 << 2;
const INCLUDING_DEFAULTS: u32 = 1 << 3;
/// Generated columns, identity and indexes.
const INCLUDING_MORE: u32 = 1 << 4 | 1 << 5 | 1 << 6;

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
    if !create.tablespacename.is_empty() {
        return refused("TABLESPACE", "leave it away");
    }
    match OnCommitAction::try_from(create.oncommit) {
        Ok(OnCommitAction::OncommitNoop) | Ok(OnCommitAction::Undefined) => Ok(()),
        _ => refused("ON COMMIT", "leave it away"),
    }
}
