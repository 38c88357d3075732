//! ALTER TABLE as pg_dump writes it, and ALTER PROCEDURE … SET.

use pg_query::protobuf::{
    AlterFunctionStmt, AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, ObjectType,
    node,
};
use weir_types::SqlState;

use super::constraint::{TableConstraint, as_constraint};
use super::partition::partition_alone;
use super::table::kind;
use super::{Schema, relation_name};
use crate::binder::expr_strings;
use crate::catalog::{ColumnIndex, Table};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

/// One command of an ALTER TABLE; `place` is where the table is named.
#[derive(Clone, Copy)]
pub(super) struct Command<'a> {
    pub(super) piece: Piece<'a>,
    command: &'a AlterTableCmd,
    pub(super) place: Span,
}

impl<'a> Command<'a> {
    fn kind(self) -> AlterTableType {
        AlterTableType::try_from(self.command.subtype).unwrap_or(AlterTableType::Undefined)
    }

    pub(super) fn definition(self) -> Option<&'a node::Node> {
        self.command.def.as_deref().and_then(|node| node.node.as_ref())
    }

    fn constraint(self) -> Option<&'a Constraint> {
        self.command.def.as_deref().and_then(as_constraint)
    }

    /// The column that it names.
    pub(super) fn column(self, table: &Table) -> Result<ColumnIndex, Diagnostic> {
        table.column_named(&self.command.name, self.place)
    }
}

impl Schema {
    pub(super) fn alter_table(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterTableStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &alter.relation else { return Ok(()) };
        let place = piece.token(range.location);
        let commands: Vec<Command<'_>> = alter
            .cmds
            .iter()
            .filter_map(|node| match &node.node {
                Some(node::Node::AlterTableCmd(command)) => Some(Command { piece, command, place }),
                _ => None,
            })
            .collect();
        // There are no roles that could own anything.
        if commands.iter().all(|command| command.kind() == AlterTableType::AtChangeOwner) {
            return Ok(());
        }
        let name = relation_name(range);
        let of_table = ObjectType::try_from(alter.objtype) == Ok(ObjectType::ObjectTable);
        if !of_table || self.is_view(range) || self.relation_is_index(&name) {
            let refusal = Diagnostic::unsupported(
                head,
                "this ALTER of something else than a table",
                "write it as it should be in its CREATE statement",
            );
            return self.ignored(refusal, false);
        }
        if self.catalog.partitions.contains_key(&name) && self.notes.is_some() {
            return self.alter_partition(&name, &commands);
        }
        let at = match self.table_index(piece, range) {
            Err(_) if alter.missing_ok => {
                self.pass_missing(place, &format!("relation \"{}\"", range.relname));
                return Ok(());
            }
            other => other?,
        };
        let original = self.catalog.tables[at].clone();
        let retyped: Vec<&str> = commands
            .iter()
            .filter(|command| command.kind() == AlterTableType::AtAlterColumnType)
            .map(|command| command.command.name.as_str())
            .collect();
        if let Some(twice) = (1..retyped.len()).find(|at| retyped[..*at].contains(&retyped[*at])) {
            let message = format!("cannot alter type of column \"{}\" twice", retyped[twice]);
            return Err(Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, place, message));
        }
        for command in commands {
            let result = self.alter_one(&original, command);
            self.tolerate_of(original.id, "", result)?;
        }
        match !retyped.is_empty() && self.notes.is_none() {
            true => self.foreign_keys_still_fit(original.id, place),
            false => Ok(()),
        }
    }

    /// What is said of one partition is said of its own rows only.
    fn alter_partition(&mut self, name: &str, commands: &[Command<'_>]) -> Result<(), Diagnostic> {
        for command in commands {
            if let (AlterTableType::AtAttachPartition, Some(node::Node::PartitionCmd(attach))) =
                (command.kind(), command.definition())
            {
                let Some(root) = self.catalog.table_of_partition(name).cloned() else { continue };
                self.attach_partition(command.piece, &root, attach)?;
            } else {
                self.ignored(partition_alone(name, command.place), false)?;
            }
        }
        Ok(())
    }

    /// Commands that change more than the table itself, and the others.
    /// `original`: the table before the first of them.
    fn alter_one(&mut self, original: &Table, command: Command<'_>) -> Result<(), Diagnostic> {
        let id = original.id;
        let Some(at) = self.catalog.tables.iter().position(|table| table.id == id) else { return Ok(()) };
        let mut table = self.catalog.tables[at].clone();
        match command.kind() {
            AlterTableType::AtAttachPartition => match command.definition() {
                Some(node::Node::PartitionCmd(attach)) => {
                    self.attach_partition(command.piece, &table, attach)
                }
                _ => Ok(()),
            },
            AlterTableType::AtDropColumn => match command.column(&table) {
                Err(_) if command.command.missing_ok => {
                    let column = &command.command.name;
                    let what = format!("column \"{column}\" of relation \"{}\"", table.name);
                    self.pass_missing(command.place, &what);
                    Ok(())
                }
                Err(error) => Err(error),
                Ok(column) => {
                    self.remove_column(id, column);
                    Ok(())
                }
            },
            AlterTableType::AtDropIdentity => {
                let column = command.column(&table)?;
                self.remove_sequences(|owner| owner == Some((id, column)));
                self.catalog.tables[at].columns[column].generated_always = false;
                Ok(())
            }
            AlterTableType::AtAlterColumnType => {
                self.alter_type(original, &mut table, command)?;
                self.catalog.tables[at] = table;
                Ok(())
            }
            kind => {
                self.alter_command(&mut table, command)?;
                self.catalog.tables[at] = table;
                if kind == AlterTableType::AtDropConstraint {
                    self.drop_keys_without_parent();
                }
                Ok(())
            }
        }
    }

    /// Foreign keys go with the key that they refer to.
    pub(super) fn drop_keys_without_parent(&mut self) {
        let tables = self.catalog.tables.clone();
        let has_parent = |key: &crate::catalog::ForeignKey| {
            tables.iter().any(|table| table.id == key.parent && table.has_key(&key.parent_columns))
        };
        for table in &mut self.catalog.tables {
            table.foreign_keys.retain(has_parent);
        }
    }

    fn relation_is_index(&self, name: &str) -> bool {
        self.catalog.tables.iter().any(|table| super::index_names(table).any(|index| index == name))
    }

    fn alter_command(&mut self, table: &mut Table, command: Command<'_>) -> Result<(), Diagnostic> {
        let Command { piece, place, .. } = command;
        match command.kind() {
            AlterTableType::AtAddConstraint => match command.constraint() {
                Some(constraint) => self.add_constraint(piece, table, TableConstraint::of(constraint, None)),
                None => Ok(()),
            },
            AlterTableType::AtColumnDefault => {
                let column = command.column(table)?;
                let value = &command.command.def;
                let own = self.column_default(piece, &table.columns[column], value)?;
                table.columns[column].default =
                    own.or_else(|| self.default_of_domain(&table.columns[column]));
                Ok(())
            }
            AlterTableType::AtSetNotNull => {
                let column = command.column(table)?;
                table.columns[column].forbid_null(place);
                Ok(())
            }
            AlterTableType::AtDropNotNull => {
                let column = command.column(table)?;
                self.allow_null(table, column, place)
            }
            AlterTableType::AtDropConstraint => {
                let AlterTableCmd { name, missing_ok, .. } = command.command;
                match Schema::drop_constraint(table, name) {
                    true => Ok(()),
                    false if *missing_ok => {
                        let what = format!("constraint \"{name}\" of relation \"{}\"", table.name);
                        self.pass_missing(place, &what);
                        Ok(())
                    }
                    false => Err(Diagnostic::new(
                        SqlState::UNDEFINED_OBJECT,
                        place,
                        format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name),
                    )),
                }
            }
            AlterTableType::AtDropExpression => {
                let column = command.column(table)?;
                table.columns[column].generated = None;
                Ok(())
            }
            AlterTableType::AtAddIdentity => {
                let column = command.column(table)?;
                match command.constraint() {
                    Some(constraint) if kind(constraint) == ConstrType::ConstrIdentity => {
                        self.add_identity(piece, table, column, constraint)
                    }
                    _ => Ok(()),
                }
            }
            AlterTableType::AtAddColumn => self.alter_add_column(table, command),
            // No roles, and statistics and storage are PostgreSQL's own affair.
            AlterTableType::AtChangeOwner
            | AlterTableType::AtSetStatistics
            | AlterTableType::AtSetStorage
            | AlterTableType::AtSetRelOptions
            | AlterTableType::AtResetRelOptions
            | AlterTableType::AtSetOptions
            | AlterTableType::AtReplicaIdentity
            | AlterTableType::AtValidateConstraint
            | AlterTableType::AtClusterOn => Ok(()),
            // Nobody but superusers is let in, whom it passes by.
            AlterTableType::AtEnableRowSecurity => {
                table.row_security.0 = true;
                Ok(())
            }
            AlterTableType::AtDisableRowSecurity => {
                table.row_security.0 = false;
                Ok(())
            }
            AlterTableType::AtForceRowSecurity => {
                table.row_security.1 = true;
                Ok(())
            }
            AlterTableType::AtNoForceRowSecurity => {
                table.row_security.1 = false;
                Ok(())
            }
            AlterTableType::AtSetAccessMethod
            | AlterTableType::AtSetTableSpace
            | AlterTableType::AtSetLogged
            | AlterTableType::AtSetUnLogged
            | AlterTableType::AtSetCompression => {
                self.ignored(Diagnostic::unsupported(place, "this ALTER TABLE", "leave it away"), false)
            }
            other => Err(Diagnostic::unsupported(
                place,
                format!("this ALTER TABLE ({})", other.as_str_name()),
                "write the table as it should be in CREATE TABLE; ADD CONSTRAINT, ADD COLUMN, SET DEFAULT and \
                 SET NOT NULL are",
            )),
        }
    }

    /// `DROP NOT NULL`: what needs the values keeps them.
    fn allow_null(&self, table: &mut Table, column: ColumnIndex, place: Span) -> Result<(), Diagnostic> {
        let invalid = |state, what: String| Err(Diagnostic::new(state, place, what));
        let of = &table.columns[column];
        if table.primary_key.as_ref().is_some_and(|key| key.columns.contains(&column)) {
            let what = format!("column \"{}\" is in a primary key", of.name);
            return invalid(SqlState::INVALID_TABLE_DEFINITION, what);
        }
        if of.is_identity {
            let what = format!("column \"{}\" of relation \"{}\" is an identity column", of.name, table.name);
            return invalid(SqlState::SYNTAX_ERROR, what);
        }
        if self.domain_of(of).is_some_and(|domain| domain.not_null.is_some()) {
            // It is the domain that forbids NULL.
            return Ok(());
        }
        table.columns[column].not_null = false;
        table.columns[column].not_null_span = None;
        Ok(())
    }

    fn alter_add_column(&mut self, table: &mut Table, command: Command<'_>) -> Result<(), Diagnostic> {
        let Command { piece, .. } = command;
        let Some(node::Node::ColumnDef(column)) = command.definition() else { return Ok(()) };
        if command.command.missing_ok && table.column_by_name(&column.colname).is_some() {
            let what = format!("column \"{}\" of relation \"{}\" already exists", column.colname, table.name);
            self.pass(SqlState::DUPLICATE_COLUMN, command.place, &what);
            return Ok(());
        }
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
