//! ALTER TABLE as pg_dump writes it, and ALTER PROCEDURE … SET.

use pg_query::protobuf::{
    AlterFunctionStmt, AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Node, ObjectType, node,
};
use weir_types::SqlState;

use super::Schema;
use super::constraint::{TableConstraint, as_constraint};
use super::table::kind;
use crate::binder::expr_strings;
use crate::catalog::{ColumnIndex, Table};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn alter_table(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterTableStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &alter.relation else { return Ok(()) };
        let place = piece.token(range.location);
        let commands: Vec<&AlterTableCmd> = alter
            .cmds
            .iter()
            .filter_map(|node| match &node.node {
                Some(node::Node::AlterTableCmd(command)) => Some(command.as_ref()),
                _ => None,
            })
            .collect();
        // There are no roles that could own anything.
        let owner = |command: &&AlterTableCmd| subtype(command) == AlterTableType::AtChangeOwner;
        if commands.iter().all(owner) {
            return Ok(());
        }
        if ObjectType::try_from(alter.objtype) != Ok(ObjectType::ObjectTable) || self.is_view(range) {
            return Err(Diagnostic::unsupported(
                head,
                "this ALTER of something else than a table",
                "write it as it should be in its CREATE statement",
            ));
        }
        let at = match self.table_index(piece, range) {
            Err(_) if alter.missing_ok => return Ok(()),
            other => other?,
        };
        for command in commands {
            let mut table = self.catalog.tables[at].clone();
            self.alter_command(piece, &mut table, command, place)?;
            self.catalog.tables[at] = table;
        }
        Ok(())
    }

    fn alter_command(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        command: &AlterTableCmd,
        place: Span,
    ) -> Result<(), Diagnostic> {
        let definition = command.def.as_deref();
        match subtype(command) {
            AlterTableType::AtAddConstraint => match definition.and_then(as_constraint) {
                Some(constraint) => {
                    self.add_constraint(piece, table, TableConstraint { constraint, column: None })
                }
                None => Ok(()),
            },
            AlterTableType::AtColumnDefault => {
                let column = column(table, &command.name, place)?;
                let value = command.def.clone();
                table.columns[column].default = self.column_default(piece, &table.columns[column], &value)?;
                Ok(())
            }
            AlterTableType::AtSetNotNull => {
                let column = column(table, &command.name, place)?;
                table.columns[column].not_null = true;
                table.columns[column].not_null_span.get_or_insert(place);
                Ok(())
            }
            AlterTableType::AtAddIdentity => {
                let column = column(table, &command.name, place)?;
                match definition.and_then(as_constraint) {
                    Some(constraint) if kind(constraint) == ConstrType::ConstrIdentity => {
                        self.add_identity(piece, table, column, constraint)
                    }
                    _ => Ok(()),
                }
            }
            AlterTableType::AtAddColumn => self.alter_add_column(piece, table, definition),
            // No roles, and statistics and storage are PostgreSQL's own affair.
            AlterTableType::AtChangeOwner
            | AlterTableType::AtSetStatistics
            | AlterTableType::AtSetStorage
            | AlterTableType::AtClusterOn => Ok(()),
            other => Err(Diagnostic::unsupported(
                place,
                format!("this ALTER TABLE ({})", other.as_str_name()),
                "write the table as it should be in CREATE TABLE; ADD CONSTRAINT, ADD COLUMN, SET DEFAULT and \
                 SET NOT NULL are",
            )),
        }
    }

    fn alter_add_column(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        definition: Option<&Node>,
    ) -> Result<(), Diagnostic> {
        let Some(Node { node: Some(node::Node::ColumnDef(column)) }) = definition else { return Ok(()) };
        let mut constraints = Vec::new();
        self.add_column(piece, table, column, &mut constraints)?;
        for constraint in constraints {
            self.add_constraint(piece, table, constraint)?;
        }
        Ok(())
    }

    /// `ALTER PROCEDURE p SET default_transaction_isolation = 'serializable'`.
    pub(super) fn alter_routine(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterFunctionStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let Some(function) = &alter.func else { return Ok(()) };
        let names = expr_strings(&function.objname);
        let name = names.last().copied().unwrap_or("");
        let mut matching: Vec<usize> = (0..self.routines.len())
            .filter(|&i| expr_strings(&self.routines[i].create.funcname).last() == Some(&name))
            .collect();
        if matching.len() > 1 && !function.args_unspecified {
            matching.retain(|&i| self.routines[i].create.parameters.len() == function.objfuncargs.len());
        }
        let [index] = matching.as_slice() else {
            let problem = if matching.is_empty() { "does not exist" } else { "is not unique" };
            return Err(Diagnostic::new(
                SqlState::UNDEFINED_FUNCTION,
                head,
                format!("procedure \"{name}\" {problem}"),
            ));
        };
        for action in &alter.actions {
            let Some(node::Node::DefElem(action)) = &action.node else { continue };
            let span = if action.location >= 0 { piece.token(action.location) } else { head };
            match (action.defname.as_str(), action.arg.as_deref().and_then(|arg| arg.node.as_ref())) {
                ("set", Some(node::Node::VariableSetStmt(set))) => {
                    self.routines[*index].serializable = super::serializable(set, span)?;
                }
                (other, _) => {
                    return Err(Diagnostic::unsupported(
                        span,
                        format!("ALTER PROCEDURE … {other}"),
                        "SET default_transaction_isolation is",
                    ));
                }
            }
        }
        Ok(())
    }
}

fn subtype(command: &AlterTableCmd) -> AlterTableType {
    AlterTableType::try_from(command.subtype).unwrap_or(AlterTableType::Undefined)
}

fn column(table: &Table, name: &str, place: Span) -> Result<ColumnIndex, Diagnostic> {
    table.column_by_name(name).ok_or_else(|| {
        Diagnostic::new(
            SqlState::UNDEFINED_COLUMN,
            place,
            format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
        )
    })
}
