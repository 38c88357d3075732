//! ALTER TABLE.

use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, DropBehavior, ObjectType, node,
};
use weir_types::SqlState;

use super::constraint::{TableConstraint, as_constraint};
use super::partition::partition_alone;
use super::table::kind;
use super::{Schema, relation_name};
use crate::catalog::{ColumnIndex, Deferral, Table};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::walk;

/// One command of an ALTER TABLE; `place` is where the table is named.
#[derive(Clone, Copy)]
pub(super) struct Command<'a> {
    pub(super) piece: Piece<'a>,
    pub(super) command: &'a AlterTableCmd,
    pub(super) place: Span,
}

impl<'a> Command<'a> {
    pub(super) fn kind(self) -> AlterTableType {
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
        let name = relation_name(range);
        let of = ObjectType::try_from(alter.objtype).unwrap_or(ObjectType::Undefined);
        if commands.iter().all(|command| command.kind() == AlterTableType::AtChangeOwner) {
            return self.own_relation(alter, &name, place);
        }
        if of != ObjectType::ObjectTable || self.is_view(range) || self.relation_is_index(&name) {
            return self.alter_beside_tables(alter, &commands, (head, place));
        }
        if self.catalog.partitions.contains_key(&name) && self.notes.is_some() {
            return self.alter_partition(&name, &commands);
        }
        let at = match self.table_index(piece, range) {
            Err(_) if alter.missing_ok => {
                self.pass_missing(place, &format!("relation \"{}\"", range.relname));
                return Ok(());
            }
            Err(_) if self.catalog.sequences.iter().any(|sequence| sequence.name == name) => {
                return self.alter_beside_tables(alter, &commands, (head, place));
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

    /// Applies commands to one partition; they concern its own rows only.
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
                Ok(column) => self.drop_column(&table, column, command),
            },
            AlterTableType::AtDropIdentity => {
                let column = command.column(&table)?;
                if !table.columns[column].is_identity {
                    return self.not_such_a_column(&table, column, command, "an identity column");
                }
                self.remove_sequences(|owner| owner == Some((id, column)));
                let column = &mut self.catalog.tables[at].columns[column];
                (column.generated_always, column.is_identity) = (false, false);
                Ok(())
            }
            AlterTableType::AtSetIdentity => self.set_identity(&table, command),
            AlterTableType::AtAlterConstraint => self.alter_constraint(at, command),
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

    /// The column, with what is computed from it where CASCADE is written (2BP01 where it is not).
    fn drop_column(
        &mut self,
        table: &Table,
        column: ColumnIndex,
        command: Command<'_>,
    ) -> Result<(), Diagnostic> {
        let reads = |at: usize| {
            let mut reads = false;
            let generated = table.columns[at].generated.as_ref().filter(|_| !table.columns[at].is_hidden);
            generated.iter().for_each(|expr| walk::columns(expr, &mut |_, of| reads |= of == column));
            reads
        };
        let computed: Vec<ColumnIndex> = (0..table.columns.len()).rev().filter(|at| reads(*at)).collect();
        let cascades = command.command.behavior() == DropBehavior::DropCascade || self.notes.is_some();
        if let Some(first) = computed.last().filter(|_| !cascades) {
            let name = &table.name;
            let message = format!(
                "cannot drop column {} of table {name} because other objects depend on it: column {} of table {name}",
                table.columns[column].name, table.columns[*first].name
            );
            let error = Diagnostic::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, command.place, message);
            return Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let before = computed.iter().filter(|at| **at < column).count();
        for at in computed {
            self.remove_column(table.id, at);
        }
        self.remove_column(table.id, column - before);
        Ok(())
    }

    /// Error for a column of the wrong kind: 55000, or a NOTICE with IF EXISTS.
    fn not_such_a_column(
        &self,
        table: &Table,
        column: ColumnIndex,
        command: Command<'_>,
        kind: &str,
    ) -> Result<(), Diagnostic> {
        let name = &table.columns[column].name;
        let message = format!("column \"{name}\" of relation \"{}\" is not {kind}", table.name);
        match command.command.missing_ok || self.notes.is_some() {
            true => {
                self.pass(SqlState::SUCCESSFUL_COMPLETION, command.place, &message);
                Ok(())
            }
            false => Err(Diagnostic::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, command.place, message)),
        }
    }

    /// `ALTER COLUMN … SET GENERATED …`, `SET` of an option of its sequence, and `RESTART`.
    fn set_identity(&mut self, table: &Table, command: Command<'_>) -> Result<(), Diagnostic> {
        let column = command.column(table)?;
        if !table.columns[column].is_identity {
            return self.not_such_a_column(table, column, command, "an identity column");
        }
        let Some(node::Node::List(list)) = command.definition() else { return Ok(()) };
        let is_kind = |node: &&pg_query::protobuf::Node| matches!(&node.node, Some(node::Node::DefElem(option)) if option.defname == "generated");
        if let Some(node::Node::DefElem(option)) =
            list.items.iter().find(is_kind).and_then(|it| it.node.as_ref())
        {
            // `a` or `d`, as PostgreSQL keeps them.
            let always = matches!(
                option.arg.as_deref().and_then(|arg| arg.node.as_ref()),
                Some(node::Node::Integer(letter)) if letter.ival == i32::from(b'a')
            );
            self.catalog.tables[table.id.0 as usize].columns[column].generated_always = always;
        }
        let options: Vec<_> = list.items.iter().filter(|node| !is_kind(node)).cloned().collect();
        let owned = |sequence: &&crate::catalog::Sequence| sequence.owner == Some((table.id, column));
        match self.catalog.sequences.iter().find(owned).map(|sequence| sequence.name.clone()) {
            Some(sequence) if !options.is_empty() => {
                self.change_sequence(command.piece, &sequence, &options, command.place)
            }
            _ => Ok(()),
        }
    }

    /// `ALTER CONSTRAINT … DEFERRABLE`, of a foreign key.
    fn alter_constraint(&mut self, at: usize, command: Command<'_>) -> Result<(), Diagnostic> {
        let Some(node::Node::AtalterConstraint(alter)) = command.definition() else { return Ok(()) };
        let table = &mut self.catalog.tables[at];
        if let Some(key) = table.foreign_keys.iter_mut().find(|key| key.name == alter.conname) {
            if alter.alter_enforceability {
                let what = "ALTER CONSTRAINT … ENFORCED";
                return Err(Diagnostic::unsupported(command.place, what, "a constraint holds for all rows"));
            }
            key.deferral = match (alter.deferrable, alter.initdeferred) {
                (_, true) => Deferral::Deferred,
                (true, false) => Deferral::Immediate,
                (false, false) => Deferral::Never,
            };
            return Ok(());
        }
        let of = format!("constraint \"{}\" of relation \"{}\"", alter.conname, table.name);
        let (state, what) = match table.constraint_names().any(|name| name == alter.conname) {
            true => (SqlState::WRONG_OBJECT_TYPE, "is not a foreign key constraint"),
            false => (SqlState::UNDEFINED_OBJECT, "does not exist"),
        };
        Err(Diagnostic::new(state, command.place, format!("{of} {what}")))
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
        self.catalog.tables.iter().any(|table| super::has_index(table, name))
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
                self.may_have_default(table, column, place)?;
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
                if table.columns[column].generated.is_none() {
                    return self.not_such_a_column(table, column, command, "a stored generated column");
                }
                table.columns[column].generated = None;
                Ok(())
            }
            AlterTableType::AtAddIdentity => {
                let column = command.column(table)?;
                match command.constraint() {
                    Some(constraint) if kind(constraint) == ConstrType::ConstrIdentity => {
                        self.may_be_identity(table, column, place)?;
                        self.add_identity(piece, table, column, constraint)
                    }
                    _ => Ok(()),
                }
            }
            AlterTableType::AtAddColumn => self.alter_add_column(table, command),
            // There are only superusers, who bypass row security.
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
            _ if self.notes.is_none() && self.is_of_storage(table, command)? => Ok(()),
            AlterTableType::AtChangeOwner
            | AlterTableType::AtSetStatistics
            | AlterTableType::AtSetStorage
            | AlterTableType::AtSetRelOptions
            | AlterTableType::AtResetRelOptions
            | AlterTableType::AtSetOptions
            | AlterTableType::AtReplicaIdentity
            | AlterTableType::AtValidateConstraint
            | AlterTableType::AtClusterOn => Ok(()),
            AlterTableType::AtSetAccessMethod
            | AlterTableType::AtSetTableSpace
            | AlterTableType::AtSetLogged
            | AlterTableType::AtSetUnLogged
            | AlterTableType::AtSetCompression => {
                self.ignored(Diagnostic::unsupported(place, "this ALTER TABLE", "leave it away"), false)
            }
            other => Err(Diagnostic::unsupported(
                place,
                format!("this ALTER TABLE ({})", words(other)),
                "write the table as it should be in CREATE TABLE; ADD CONSTRAINT, ADD COLUMN, SET DEFAULT and \
                 SET NOT NULL are",
            )),
        }
    }

    /// SET DEFAULT and DROP DEFAULT are for columns that do not get their values otherwise.
    fn may_have_default(&self, table: &Table, column: ColumnIndex, place: Span) -> Result<(), Diagnostic> {
        let of = &table.columns[column];
        let (kind, hint) = match () {
            () if self.notes.is_some() => return Ok(()),
            () if of.is_identity => {
                ("an identity column", "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
            }
            () if of.generated.is_some() => {
                ("a generated column", "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.")
            }
            () => return Ok(()),
        };
        let message = format!("column \"{}\" of relation \"{}\" is {kind}", of.name, table.name);
        Err(Diagnostic::new(SqlState::SYNTAX_ERROR, place, message).with_hint(hint))
    }

    /// `ADD GENERATED … AS IDENTITY` wants a column that is NOT NULL, and gets its values nowhere else.
    fn may_be_identity(&self, table: &Table, column: ColumnIndex, place: Span) -> Result<(), Diagnostic> {
        let of = &table.columns[column];
        let wrong = match () {
            () if self.notes.is_some() => return Ok(()),
            () if !of.not_null => "must be declared NOT NULL before identity can be added",
            () if of.is_identity => "is already an identity column",
            () if of.default.is_some() || of.generated.is_some() => "already has a default value",
            () => return Ok(()),
        };
        let message = format!("column \"{}\" of relation \"{}\" {wrong}", of.name, table.name);
        Err(Diagnostic::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, place, message))
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
}

/// The command in words.
pub(super) fn words(command: AlterTableType) -> String {
    let mut words = String::new();
    for letter in command.as_str_name().trim_start_matches("AT_").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_uppercase());
    }
    words
}
