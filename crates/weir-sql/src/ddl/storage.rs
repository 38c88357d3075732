//! ALTER of how and where PostgreSQL keeps what is in a relation, and ALTER of relations that are no tables. Weir keeps rows in its own way,
//! so that none of it has an effect (docs/reference/statements.md, "Definitions without an effect"); what it names has to be there.

use pg_query::protobuf::{AlterTableStmt, AlterTableType, Node, ObjectType, node};
use weir_types::{SqlState, SqlType};

use super::alter::Command;
use super::parameters::{self, Of};
use super::{Schema, index_names, names, relation_name};
use crate::catalog::Table;
use crate::source::{Diagnostic, Span};

fn error(state: SqlState, place: Span, message: String) -> Diagnostic {
    Diagnostic::new(state, place, message)
}

fn options(command: Command<'_>) -> &[Node] {
    match command.definition() {
        Some(node::Node::List(list)) => &list.items,
        _ => &[],
    }
}

/// Long values of the type may be kept elsewhere, and compressed.
fn is_toastable(ty: &SqlType) -> bool {
    matches!(
        ty,
        SqlType::Numeric(_)
            | SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Bytea
            | SqlType::Jsonb
            | SqlType::Array(_)
            | SqlType::Opaque(_)
    )
}

/// A tablespace that there is (42704).
pub(super) fn check_tablespace(name: &str, place: Span) -> Result<(), Diagnostic> {
    match name {
        "" | "pg_default" => Ok(()),
        "pg_global" => Err(error(
            SqlState::INVALID_PARAMETER_VALUE,
            place,
            "only shared relations can be placed in pg_global tablespace".to_owned(),
        )),
        name => {
            Err(error(SqlState::UNDEFINED_OBJECT, place, format!("tablespace \"{name}\" does not exist")))
        }
    }
}

/// `USING heap` (42704).
pub(super) fn check_access_method(name: &str, place: Span) -> Result<(), Diagnostic> {
    match name {
        "" | "heap" => Ok(()),
        name => {
            let message = format!("access method \"{name}\" does not exist");
            Err(error(SqlState::UNDEFINED_OBJECT, place, message))
        }
    }
}

/// `COMPRESSION` of a column: the methods that PostgreSQL knows, for types that it compresses.
pub(super) fn check_compression(method: &str, ty: &SqlType, place: Span) -> Result<(), Diagnostic> {
    if matches!(method, "" | "default") {
        return Ok(());
    }
    if !is_toastable(ty) {
        let message = format!("column data type {ty} does not support compression");
        return Err(error(SqlState::FEATURE_NOT_SUPPORTED, place, message));
    }
    match method {
        "pglz" | "lz4" => Ok(()),
        other => {
            let message = format!("invalid compression method \"{other}\"");
            Err(error(SqlState::INVALID_PARAMETER_VALUE, place, message))
        }
    }
}

impl Schema {
    /// Whether the command concerns storage alone, and what is wrong with it.
    pub(super) fn is_of_storage(&self, table: &Table, command: Command<'_>) -> Result<bool, Diagnostic> {
        let place = command.place;
        let name = command.command.name.as_str();
        match command.kind() {
            AlterTableType::AtChangeOwner | AlterTableType::AtDropCluster => {}
            AlterTableType::AtDropOids | AlterTableType::AtSetLogged => {}
            AlterTableType::AtSetStatistics => drop(command.column(table)?),
            AlterTableType::AtSetStorage => storage_of(table, command)?,
            AlterTableType::AtSetCompression => {
                let column = command.column(table)?;
                check_compression(&word(command), &table.columns[column].ty, place)?;
            }
            AlterTableType::AtSetOptions | AlterTableType::AtResetOptions => {
                command.column(table)?;
                let sets = command.kind() == AlterTableType::AtSetOptions;
                parameters::check(options(command), Of::Column, sets, place)?;
            }
            AlterTableType::AtSetRelOptions => parameters::check(options(command), Of::Table, true, place)?,
            AlterTableType::AtResetRelOptions => {
                parameters::check(options(command), Of::Table, false, place)?
            }
            AlterTableType::AtClusterOn => has_index_of(table, name, place)?,
            AlterTableType::AtReplicaIdentity => replica_identity(table, command)?,
            AlterTableType::AtValidateConstraint => may_be_validated(table, name, place)?,
            AlterTableType::AtSetTableSpace => check_tablespace(name, place)?,
            AlterTableType::AtSetAccessMethod => check_access_method(name, place)?,
            AlterTableType::AtDropOf => {
                let message = format!("\"{}\" is not a typed table", names::own_name(&table.name));
                return Err(error(SqlState::WRONG_OBJECT_TYPE, place, message));
            }
            AlterTableType::AtDropInherit => {
                let Some(node::Node::RangeVar(parent)) = command.definition() else { return Ok(false) };
                let parent = &self.catalog.tables[self.table_index(command.piece, parent)?].name;
                let message = format!("relation \"{parent}\" is not a parent of relation \"{}\"", table.name);
                return Err(error(SqlState::UNDEFINED_TABLE, place, message));
            }
            // A server that runs has neither triggers nor rules.
            AlterTableType::AtEnableTrigAll
            | AlterTableType::AtEnableTrigUser
            | AlterTableType::AtDisableTrigUser => {}
            AlterTableType::AtEnableTrig
            | AlterTableType::AtEnableAlwaysTrig
            | AlterTableType::AtEnableReplicaTrig
            | AlterTableType::AtDisableTrig => return Err(no_part("trigger", name, table, place)),
            AlterTableType::AtEnableRule
            | AlterTableType::AtEnableAlwaysRule
            | AlterTableType::AtEnableReplicaRule
            | AlterTableType::AtDisableRule => return Err(no_part("rule", name, table, place)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `OWNER TO` of a relation.
    pub(super) fn own_relation(
        &self,
        alter: &AlterTableStmt,
        name: &str,
        place: Span,
    ) -> Result<(), Diagnostic> {
        let known = self.notes.is_some() || self.relation_exists(name);
        self.passes_missing(alter, known, name, place).map(|_| ())
    }

    /// Whether there is nothing to alter, since IF EXISTS is written.
    fn passes_missing(
        &self,
        alter: &AlterTableStmt,
        is_there: bool,
        name: &str,
        place: Span,
    ) -> Result<bool, Diagnostic> {
        match (is_there, alter.missing_ok) {
            (true, _) => Ok(false),
            (false, true) => {
                self.pass_missing(place, &format!("relation \"{}\"", names::own_name(name)));
                Ok(true)
            }
            (false, false) => Err(self.no_relation(name, place)),
        }
    }

    /// ALTER VIEW, MATERIALIZED VIEW, INDEX and SEQUENCE, and ALTER TABLE of one of these.
    pub(super) fn alter_beside_tables(
        &self,
        alter: &AlterTableStmt,
        commands: &[Command<'_>],
        (head, place): (Span, Span),
    ) -> Result<(), Diagnostic> {
        let name = alter.relation.as_ref().map(relation_name).unwrap_or_default();
        let refused = |command: &str| {
            let what = format!("{command} of something else than a table");
            Diagnostic::unsupported(head, what, "write it as it should be in its CREATE statement")
        };
        if self.notes.is_some() {
            return self.ignored(refused("this ALTER"), false);
        }
        if self.passes_missing(alter, self.relation_exists(&name), &name, place)? {
            return Ok(());
        }
        let view = self.catalog.views.iter().find(|view| view.name == name);
        let is_index = self.catalog.tables.iter().any(|table| super::has_index(table, &name));
        let is_sequence = self.catalog.sequences.iter().any(|sequence| sequence.name == name);
        let (is, word) = match alter.objtype() {
            ObjectType::ObjectIndex => (is_index, "an index"),
            ObjectType::ObjectView => (view.is_some_and(|view| !view.materialized), "a view"),
            ObjectType::ObjectMatview => (view.is_some_and(|view| view.materialized), "a materialized view"),
            ObjectType::ObjectSequence => (is_sequence, "a sequence"),
            _ => (true, ""),
        };
        if !is {
            let message = format!("\"{}\" is not {word}", names::own_name(&name));
            return Err(error(SqlState::WRONG_OBJECT_TYPE, place, message));
        }
        let of = match () {
            () if is_index => Of::Index,
            () if view.is_some_and(|view| !view.materialized) => Of::View,
            () => Of::Table,
        };
        for command in commands {
            match command.kind() {
                AlterTableType::AtSetRelOptions => parameters::check(options(*command), of, true, place)?,
                AlterTableType::AtResetRelOptions => parameters::check(options(*command), of, false, place)?,
                AlterTableType::AtSetTableSpace if of != Of::View => {
                    check_tablespace(&command.command.name, place)?;
                }
                AlterTableType::AtSetAccessMethod if view.is_some() && of == Of::Table => {
                    check_access_method(&command.command.name, place)?;
                }
                AlterTableType::AtChangeOwner => {}
                AlterTableType::AtSetLogged | AlterTableType::AtSetUnLogged if is_sequence => {}
                AlterTableType::AtDropCluster if view.is_some() && of == Of::Table => {}
                AlterTableType::AtSetStatistics if view.is_some() && of == Of::Table => {
                    let column = &command.command.name;
                    if view.is_some_and(|view| view.query.columns.iter().all(|one| one.name != *column)) {
                        let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
                        return Err(error(SqlState::UNDEFINED_COLUMN, place, message));
                    }
                }
                other => return Err(refused(&format!("ALTER … {}", super::alter::words(other)))),
            }
        }
        Ok(())
    }
}

fn word(command: Command<'_>) -> String {
    match command.definition() {
        Some(node::Node::String(word)) => word.sval.to_ascii_lowercase(),
        _ => String::new(),
    }
}

fn storage_of(table: &Table, command: Command<'_>) -> Result<(), Diagnostic> {
    let ty = &table.columns[command.column(table)?].ty;
    match word(command).as_str() {
        "plain" => Ok(()),
        "external" | "extended" | "main" if is_toastable(ty) => Ok(()),
        "external" | "extended" | "main" => {
            let message = format!("column data type {ty} can only have storage PLAIN");
            Err(error(SqlState::FEATURE_NOT_SUPPORTED, command.place, message))
        }
        other => {
            let message = format!("invalid storage type \"{other}\"");
            Err(error(SqlState::INVALID_PARAMETER_VALUE, command.place, message))
        }
    }
}

fn has_index_of(table: &Table, name: &str, place: Span) -> Result<(), Diagnostic> {
    match index_names(table).any(|index| index == name) {
        true => Ok(()),
        false => {
            let message =
                format!("index \"{name}\" for table \"{}\" does not exist", names::own_name(&table.name));
            Err(error(SqlState::UNDEFINED_OBJECT, place, message))
        }
    }
}

/// An index by which replicas find a row is unique, over columns that are NOT NULL, and over all rows.
fn replica_identity(table: &Table, command: Command<'_>) -> Result<(), Diagnostic> {
    let Some(node::Node::ReplicaIdentityStmt(identity)) = command.definition() else { return Ok(()) };
    if identity.identity_type != "i" {
        return Ok(());
    }
    has_index_of(table, &identity.name, command.place)?;
    let columns = |index: &crate::catalog::Index| match index.unique && index.written_predicate().is_none() {
        true => index.plain_columns().filter(|_| index.written.is_none()),
        false => None,
    };
    let mut keys = table.primary_key.iter().chain(&table.unique_keys);
    let found = match keys.find(|key| key.name == identity.name) {
        Some(key) => Some(key.columns.clone()),
        None => table.indexes.iter().find(|index| index.name == identity.name).and_then(columns),
    };
    match found.is_some_and(|columns| columns.iter().all(|column| table.columns[*column].not_null)) {
        true => Ok(()),
        false => {
            let what = "is not a unique index over columns that are NOT NULL";
            let message =
                format!("index \"{}\" {what}: it cannot be used as replica identity", identity.name);
            Err(error(SqlState::WRONG_OBJECT_TYPE, command.place, message))
        }
    }
}

fn may_be_validated(table: &Table, name: &str, place: Span) -> Result<(), Diagnostic> {
    let checks = table.checks.iter().map(|check| &check.name);
    if checks.chain(table.foreign_keys.iter().map(|key| &key.name)).any(|one| one == name) {
        return Ok(());
    }
    let of = format!("constraint \"{name}\" of relation \"{}\"", names::own_name(&table.name));
    Err(match table.constraint_names().any(|one| one == name) {
        true => {
            let message = format!("{of} is not a foreign key or check constraint");
            error(SqlState::WRONG_OBJECT_TYPE, place, message)
        }
        false => error(SqlState::UNDEFINED_OBJECT, place, format!("{of} does not exist")),
    })
}

fn no_part(kind: &str, name: &str, table: &Table, place: Span) -> Diagnostic {
    let message = format!("{kind} \"{name}\" for table \"{}\" does not exist", names::own_name(&table.name));
    error(SqlState::UNDEFINED_OBJECT, place, message)
}
