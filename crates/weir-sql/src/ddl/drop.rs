//! DROP, and what ALTER TABLE drops: migrations are folded into the schema that they end in.

use std::collections::BTreeSet;

use pg_query::protobuf::{DropBehavior, DropStmt, Node, ObjectType, node};
use weir_types::{SqlState, SqlType};

use super::types::{object_path, path};
use super::{PendingRoutine, Schema, index_names};
use crate::binder::expr_strings;
use crate::catalog::{Column, ColumnIndex, Table, TableId};
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn drop_objects(&mut self, drop: &DropStmt, span: Span) -> Result<(), Diagnostic> {
        let kind = ObjectType::try_from(drop.remove_type).unwrap_or(ObjectType::Undefined);
        for object in &drop.objects {
            let found = match &object.node {
                Some(node::Node::List(list)) => self.drop_named(kind, &list.items, span)?,
                Some(node::Node::ObjectWithArgs(routine)) => {
                    self.drop_routine(&object_path(&routine.objname), routine.objfuncargs.len())
                }
                Some(node::Node::TypeName(name)) => self.drop_type(drop, &object_path(&name.names), span)?,
                Some(node::Node::String(name)) if kind == ObjectType::ObjectExtension => {
                    self.catalog.extensions.remove(&name.sval)
                }
                Some(node::Node::String(name)) => self.schemas.remove(&name.sval),
                _ => false,
            };
            if !found && drop.missing_ok {
                self.pass_dropped(kind, object, span);
            }
            if !found && !drop.missing_ok {
                let what = match &object.node {
                    Some(node::Node::List(list)) => object_path(&list.items),
                    Some(node::Node::ObjectWithArgs(routine)) => object_path(&routine.objname),
                    Some(node::Node::TypeName(name)) => object_path(&name.names),
                    Some(node::Node::String(name)) => name.sval.clone(),
                    _ => "what is dropped".to_owned(),
                };
                let (word, state) = named(kind);
                let message = format!("{word} \"{what}\" does not exist");
                return Err(Diagnostic::new(state, span, message));
            }
        }
        Ok(())
    }

    /// There is something of that name, and it is something else (42809).
    fn refuse_other_kind(&self, kind: ObjectType, name: &str, span: Span) -> Result<(), Diagnostic> {
        let catalog = &self.catalog;
        let is_view = |materialized: bool| {
            catalog.views.iter().any(|view| view.name == name && view.materialized == materialized)
        };
        let is_index = || catalog.tables.iter().any(|table| index_names(table).any(|index| index == name));
        let is_table = catalog.tables.iter().any(|table| table.name == name);
        let (found, article) = match () {
            () if is_table || catalog.partitions.contains_key(name) => (ObjectType::ObjectTable, "a"),
            () if is_view(false) => (ObjectType::ObjectView, "a"),
            () if is_view(true) => (ObjectType::ObjectMatview, "a"),
            () if catalog.sequences.iter().any(|one| one.name == name) => (ObjectType::ObjectSequence, "a"),
            () if is_index() => (ObjectType::ObjectIndex, "an"),
            () => return Ok(()),
        };
        let is_relation = matches!(
            kind,
            ObjectType::ObjectTable
                | ObjectType::ObjectView
                | ObjectType::ObjectMatview
                | ObjectType::ObjectSequence
                | ObjectType::ObjectIndex
        );
        if found == kind || !is_relation || self.notes.is_some() {
            return Ok(());
        }
        let ((wanted, _), (there, _)) = (named(kind), named(found));
        let wanted_article = if kind == ObjectType::ObjectIndex { "an" } else { "a" };
        let own = name.rsplit('.').next().unwrap_or(name);
        let message = format!("\"{own}\" is not {wanted_article} {wanted}");
        let hint = format!("Use DROP {} to remove {article} {there}.", there.to_uppercase());
        Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, span, message).with_hint(hint))
    }

    fn pass_dropped(&self, kind: ObjectType, object: &Node, span: Span) {
        let (word, _) = named(kind);
        let unqualified = |names: &[Node]| {
            let names = expr_strings(names);
            let schema = names.len().checked_sub(2).map(|at| names[at]).unwrap_or("public");
            match schema == "public" || self.schemas.contains(schema) {
                true => format!("{word} \"{}\"", names.last().copied().unwrap_or_default()),
                false => format!("schema \"{schema}\""),
            }
        };
        let what = match &object.node {
            Some(node::Node::List(list)) => unqualified(&list.items),
            Some(node::Node::TypeName(name)) => unqualified(&name.names),
            Some(node::Node::String(name)) => format!("{word} \"{}\"", name.sval),
            Some(node::Node::ObjectWithArgs(routine)) => {
                let ty = |node: &Node| match &node.node {
                    Some(node::Node::TypeName(name)) => expr_strings(&name.names).join("."),
                    _ => String::new(),
                };
                let types: Vec<String> = routine.objargs.iter().map(ty).collect();
                let name = expr_strings(&routine.objname).join(".");
                format!("{word} {name}({})", types.join(","))
            }
            _ => return,
        };
        self.pass_missing(span, &what);
    }

    /// `false` where there is nothing of that name.
    fn drop_named(&mut self, kind: ObjectType, names: &[Node], span: Span) -> Result<bool, Diagnostic> {
        let name = object_path(names);
        self.refuse_other_kind(kind, &name, span)?;
        match kind {
            ObjectType::ObjectTable => {
                if self.catalog.partitions.remove(&name).is_some() {
                    return Ok(true);
                }
                let Some(at) = self.catalog.tables.iter().position(|table| table.name == name) else {
                    return Ok(false);
                };
                self.catalog.partitions.retain(|_, table| *table != name);
                self.remove_table(at);
                Ok(true)
            }
            ObjectType::ObjectView | ObjectType::ObjectMatview => {
                let before = self.catalog.views.len();
                self.catalog.views.retain(|view| view.name != name);
                let unbound = self.unbound_views.remove(&name).is_some();
                Ok(unbound || self.catalog.views.len() < before)
            }
            ObjectType::ObjectSequence => {
                let found = self.catalog.sequences.iter().find(|sequence| sequence.name == name);
                let gone: BTreeSet<_> = found.iter().map(|sequence| sequence.id).collect();
                self.remove_sequences_by_id(&gone);
                Ok(!gone.is_empty())
            }
            ObjectType::ObjectIndex => {
                let found = self.catalog.tables.iter_mut().any(|table| {
                    let before = table.indexes.len();
                    table.indexes.retain(|index| index.name != name);
                    table.indexes.len() < before
                });
                if found {
                    self.remove_unused();
                    self.drop_keys_without_parent();
                }
                Ok(found)
            }
            ObjectType::ObjectTrigger => {
                let names = expr_strings(names);
                let Some((trigger, table)) = names.split_last() else { return Ok(false) };
                let table = self.catalog.table_by_name(&path(table)).map(|table| table.id);
                let before = self.triggers.len();
                self.triggers.retain(|other| other.create.trigname != *trigger || Some(other.table) != table);
                Ok(self.triggers.len() < before)
            }
            ObjectType::ObjectRule | ObjectType::ObjectPolicy | ObjectType::ObjectAggregate => {
                self.ignored(
                    Diagnostic::unsupported(span, "this DROP", "leave the thing out of the files"),
                    false,
                )?;
                Ok(true)
            }
            _ => Ok(self.notes.is_some()),
        }
    }

    fn drop_type(&mut self, drop: &DropStmt, name: &str, span: Span) -> Result<bool, Diagnostic> {
        let cascades = drop.behavior() == DropBehavior::DropCascade;
        while let Some((table, column)) = self.column_of_type(name).filter(|_| self.notes.is_none()) {
            if !cascades {
                let table = self.catalog.table(table);
                let column = &table.columns[column].name;
                let message = format!(
                    "cannot drop type {name} because other objects depend on it: column {column} of table {}",
                    table.name
                );
                return Err(Diagnostic::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, span, message)
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            self.remove_column(table, column);
        }
        Ok(self.catalog.types.remove(name).is_some())
    }

    /// A column of that domain or enumeration.
    pub(super) fn column_of_type(&self, name: &str) -> Option<(TableId, ColumnIndex)> {
        let is_of = |column: &Column| {
            let ty = match &column.ty {
                SqlType::Array(element) => element,
                ty => ty,
            };
            self.domain_of(column).is_some_and(|domain| domain.is_or_extends(name))
                || matches!(ty, SqlType::Enum(of) if of.name == name)
        };
        let column = |table: &Table| Some((table.id, table.columns.iter().position(is_of)?));
        self.catalog.tables.iter().find_map(column)
    }

    fn drop_routine(&mut self, name: &str, arguments: usize) -> bool {
        let named = |routine: &PendingRoutine| object_path(&routine.create.funcname) == name;
        let count = self.routines.iter().filter(|routine| named(routine)).count();
        let before = self.routines.len();
        self.routines
            .retain(|routine| !named(routine) || count > 1 && routine.create.parameters.len() != arguments);
        self.routines.len() < before
    }

    /// `ALTER TABLE … DROP CONSTRAINT`; `false` where there is none of that name.
    pub(super) fn drop_constraint(table: &mut Table, name: &str) -> bool {
        if table.primary_key.as_ref().is_some_and(|key| key.name == name) {
            table.primary_key = None;
            return true;
        }
        let count = |table: &Table| table.constraint_names().count();
        let before = count(table);
        table.unique_keys.retain(|key| key.name != name);
        table.checks.retain(|check| check.name != name);
        table.foreign_keys.retain(|key| key.name != name);
        table.exclusions.retain(|exclusion| exclusion.name != name);
        count(table) < before
    }
}

/// As PostgreSQL calls them, and what it says where there is none.
fn named(kind: ObjectType) -> (&'static str, SqlState) {
    match kind {
        ObjectType::ObjectTable => ("table", SqlState::UNDEFINED_TABLE),
        ObjectType::ObjectView => ("view", SqlState::UNDEFINED_TABLE),
        ObjectType::ObjectMatview => ("materialized view", SqlState::UNDEFINED_TABLE),
        ObjectType::ObjectSequence => ("sequence", SqlState::UNDEFINED_TABLE),
        ObjectType::ObjectIndex => ("index", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectExtension => ("extension", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectSchema => ("schema", SqlState::INVALID_SCHEMA_NAME),
        ObjectType::ObjectFunction => ("function", SqlState::UNDEFINED_FUNCTION),
        ObjectType::ObjectProcedure => ("procedure", SqlState::UNDEFINED_FUNCTION),
        ObjectType::ObjectType | ObjectType::ObjectDomain => ("type", SqlState::UNDEFINED_OBJECT),
        _ => ("object", SqlState::UNDEFINED_OBJECT),
    }
}
