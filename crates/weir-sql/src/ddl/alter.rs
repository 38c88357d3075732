//! ALTER TABLE as pg_dump writes it, and ALTER PROCEDURE … SET.

use pg_query::protobuf::{
    AlterDomainStmt, AlterFunctionStmt, AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType,
    Constraint, ObjectType, node,
};
use weir_types::SqlState;

use super::constraint::{TableConstraint, as_constraint};
use super::partition::partition_alone;
use super::table::kind;
use super::types::object_path;
use super::{Schema, relation_name};
use crate::binder::expr_strings;
use crate::bound::{Expr, ExprKind};
use crate::catalog::{ColumnIndex, Table, TableId, UserType};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::type_name;

/// One command of an ALTER TABLE; `place` is where the table is named.
#[derive(Clone, Copy)]
struct Command<'a> {
    piece: Piece<'a>,
    command: &'a AlterTableCmd,
    place: Span,
}

impl<'a> Command<'a> {
    fn kind(self) -> AlterTableType {
        AlterTableType::try_from(self.command.subtype).unwrap_or(AlterTableType::Undefined)
    }

    fn definition(self) -> Option<&'a node::Node> {
        self.command.def.as_deref().and_then(|node| node.node.as_ref())
    }

    fn constraint(self) -> Option<&'a Constraint> {
        self.command.def.as_deref().and_then(as_constraint)
    }

    /// The column that it names.
    fn column(self, table: &Table) -> Result<ColumnIndex, Diagnostic> {
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
        let id = self.catalog.tables[at].id;
        for command in commands {
            let result = self.alter_one(id, command);
            self.tolerate(result)?;
        }
        Ok(())
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
    fn alter_one(&mut self, id: TableId, command: Command<'_>) -> Result<(), Diagnostic> {
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
                table.columns[column].default = self.column_default(piece, &table.columns[column], value)?;
                Ok(())
            }
            AlterTableType::AtSetNotNull => {
                let column = command.column(table)?;
                table.columns[column].forbid_null(place);
                Ok(())
            }
            AlterTableType::AtDropNotNull => {
                let column = command.column(table)?;
                table.columns[column].not_null = false;
                table.columns[column].not_null_span = None;
                Ok(())
            }
            AlterTableType::AtAlterColumnType => self.alter_type(table, command),
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
            AlterTableType::AtEnableRowSecurity
            | AlterTableType::AtDisableRowSecurity
            | AlterTableType::AtForceRowSecurity
            | AlterTableType::AtNoForceRowSecurity
            | AlterTableType::AtSetAccessMethod
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

    /// `ALTER COLUMN … TYPE`: what is bound over the column keeps its meaning, as PostgreSQL binds it again.
    fn alter_type(&mut self, table: &mut Table, command: Command<'_>) -> Result<(), Diagnostic> {
        let Command { piece, .. } = command;
        let index = command.column(table)?;
        let Some(node::Node::ColumnDef(definition)) = command.definition() else { return Ok(()) };
        let Some(name) = &definition.type_name else { return Ok(()) };
        let (ty, domain) = type_name::resolve_column(&self.context(), piece, name)?;
        let domain = domain.cloned();
        let reads = |generated: &Expr| {
            let mut reads = false;
            crate::walk::columns(generated, &mut |_, column| reads |= column == index);
            reads
        };
        if let Some(held) =
            table.columns.iter().find(|one| one.is_hidden && one.generated.as_ref().is_some_and(reads))
        {
            let what = "another type of a column that a unique index computes with";
            return Err(Diagnostic::unsupported(held.span, what, "drop the index, and create it again"));
        }
        table.checks.retain(|check| !matches!(check.domain, Some((_, column)) if column == index));
        table.columns[index].ty = ty.clone();
        if let Some(domain) = &domain {
            Schema::adopt_domain(table, index, domain, piece.token(name.location));
        }
        let context = self.context();
        let over = |expr: &mut Expr| {
            crate::walk::each_expr_mut(expr, &mut |part: &mut Expr| {
                if matches!(part.kind, ExprKind::Column { column, .. } if column == index) {
                    part.ty = ty.clone();
                }
            });
        };
        table.checks.iter_mut().for_each(|check| over(&mut check.expr));
        for at in &mut table.indexes {
            at.keys.iter_mut().for_each(|key| over(&mut key.expr));
            at.predicate.iter_mut().for_each(over);
        }
        let default = table.columns[index].default.take();
        table.columns[index].default = match default {
            Some(value) => Some(crate::binder::assign(&context, value, &ty)?),
            None => None,
        };
        Ok(())
    }

    /// `ALTER DOMAIN`: pg_dump writes CHECKs that are not valid yet so.
    pub(super) fn alter_domain(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterDomainStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let name = object_path(&alter.type_name);
        let Some(UserType::Domain(domain)) = self.catalog.types.get(&name) else {
            let message = format!("domain \"{name}\" does not exist");
            return Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, head, message));
        };
        let used = |table: &Table| {
            table.checks.iter().any(|check| check.domain.as_ref().is_some_and(|(of, _)| *of == name))
        };
        let mut domain = domain.clone();
        match (alter.def.as_deref(), alter.subtype.as_str()) {
            (Some(definition), "C") if !self.catalog.tables.iter().any(used) => {
                self.domain_constraint(piece, &name, &mut domain, definition)?;
                self.catalog.types.insert(name, UserType::Domain(domain));
                Ok(())
            }
            _ => Err(Diagnostic::unsupported(
                head,
                "this ALTER DOMAIN",
                "write the domain as it should be in CREATE DOMAIN",
            )),
        }
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
