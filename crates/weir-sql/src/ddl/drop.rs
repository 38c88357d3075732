//! DROP, and what ALTER TABLE drops: migrations are folded into the schema that they end in.

use std::collections::BTreeSet;

use pg_query::protobuf::{DropBehavior, DropStmt, Node, ObjectType, node};
use weir_types::{SqlState, SqlType};

use super::names::split;
use super::types::{object_path, path};
use super::{PendingRoutine, Schema, has_index};
use crate::binder::expr_strings;
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Column, ColumnIndex, SequenceId, Table, TableId, UserType};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::walk;

impl Schema {
    pub(super) fn drop_objects(
        &mut self,
        piece: Piece<'_>,
        drop: &DropStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let kind = ObjectType::try_from(drop.remove_type).unwrap_or(ObjectType::Undefined);
        // One of them may go along with another.
        let views: BTreeSet<String> = self.catalog.views.iter().map(|view| view.name.clone()).collect();
        for object in &drop.objects {
            let goes_along = matches!(&object.node, Some(node::Node::List(list))
                if views.contains(&object_path(&list.items)) && !self.relation_exists(&object_path(&list.items)));
            if goes_along {
                continue;
            }
            let found = self.drop_one(piece, drop, object, span);
            let missing = match found {
                Ok(true) => continue,
                Ok(false) => None,
                // There is not even the schema, or the type of an argument.
                Err(error) if drop.missing_ok && is_missing(&error) => Some(error),
                Err(error) => return Err(error),
            };
            match (drop.missing_ok, missing) {
                (true, Some(missing)) => {
                    self.pass(SqlState::SUCCESSFUL_COMPLETION, span, &missing.message);
                }
                (true, None) => self.pass_dropped(kind, object, span),
                (false, _) => return Err(no_such(kind, object, span)),
            }
        }
        Ok(())
    }

    /// `false` where there is none of that name.
    fn drop_one(
        &mut self,
        piece: Piece<'_>,
        drop: &DropStmt,
        object: &Node,
        span: Span,
    ) -> Result<bool, Diagnostic> {
        let kind = drop.remove_type();
        let cascades = drop.behavior() == DropBehavior::DropCascade || self.notes.is_some();
        match &object.node {
            Some(node::Node::List(list)) => self.drop_named(kind, cascades, &list.items, span),
            Some(node::Node::ObjectWithArgs(routine)) if is_routine(kind) => {
                self.drop_routine(piece, kind, routine, span)
            }
            Some(node::Node::TypeName(name)) => {
                let name = object_path(&name.names);
                self.drop_type(kind, cascades, &name, span)
            }
            Some(node::Node::String(name)) if kind == ObjectType::ObjectExtension => {
                Ok(self.catalog.extensions.remove(&name.sval))
            }
            Some(node::Node::String(name)) if kind == ObjectType::ObjectSchema => {
                self.drop_schema(&name.sval, cascades, span)
            }
            _ => Ok(self.notes.is_some()),
        }
    }

    /// There is something of that name, and it is something else (42809).
    fn refuse_other_kind(&self, kind: ObjectType, name: &str, span: Span) -> Result<(), Diagnostic> {
        let catalog = &self.catalog;
        let is_view = |materialized: bool| {
            catalog.views.iter().any(|view| view.name == name && view.materialized == materialized)
        };
        let is_index = || catalog.tables.iter().any(|table| has_index(table, name));
        let is_table = catalog.tables.iter().any(|table| table.name == name);
        let (found, article) = match () {
            () if is_table || catalog.partitions.contains_key(name) => (ObjectType::ObjectTable, "a"),
            () if is_view(false) => (ObjectType::ObjectView, "a"),
            () if is_view(true) => (ObjectType::ObjectMatview, "a"),
            () if catalog.sequences.iter().any(|one| one.name == name) => (ObjectType::ObjectSequence, "a"),
            () if is_index() => (ObjectType::ObjectIndex, "an"),
            () => return Ok(()),
        };
        if found == kind || !is_relation(kind) || self.notes.is_some() {
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
            match self.has_schema(schema) {
                true => format!("{word} \"{}\"", names.last().copied().unwrap_or_default()),
                false => format!("schema \"{schema}\""),
            }
        };
        let what = match &object.node {
            Some(node::Node::List(list)) => unqualified(&list.items),
            Some(node::Node::TypeName(name)) => unqualified(&name.names),
            Some(node::Node::String(name)) => format!("{word} \"{}\"", name.sval),
            Some(node::Node::ObjectWithArgs(routine)) => {
                let name = super::routine::written(routine);
                format!("{word} {name}{}", if routine.args_unspecified { "()" } else { "" })
            }
            _ => return,
        };
        self.pass_missing(span, &what);
    }

    /// `false` where there is nothing of that name.
    fn drop_named(
        &mut self,
        kind: ObjectType,
        cascades: bool,
        names: &[Node],
        span: Span,
    ) -> Result<bool, Diagnostic> {
        let name = object_path(names);
        self.refuse_other_kind(kind, &name, span)?;
        if is_relation(kind) {
            self.schema_is_there(split(&name).0, span)?;
        }
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
                let is_bound = self.catalog.views.iter().any(|view| view.name == name);
                self.remove_view(&name);
                Ok(self.unbound_views.remove(&name).is_some() || is_bound)
            }
            ObjectType::ObjectSequence => self.drop_sequence(&name, cascades, span),
            ObjectType::ObjectIndex => self.drop_index(&name, span),
            ObjectType::ObjectTrigger => {
                let table = self.table_of_part(names, span)?;
                let trigger = expr_strings(names).last().copied().unwrap_or_default();
                let before = self.triggers.len();
                self.triggers.retain(|other| other.create.trigname != trigger || Some(other.table) != table);
                Ok(self.triggers.len() < before)
            }
            ObjectType::ObjectRule | ObjectType::ObjectPolicy if self.notes.is_none() => {
                self.table_of_part(names, span).map(|_| false)
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

    /// The table of a trigger, rule or policy; none if it is a view.
    fn table_of_part(&self, names: &[Node], span: Span) -> Result<Option<TableId>, Diagnostic> {
        let names = expr_strings(names);
        let name = path(names.split_last().map_or(&[][..], |(_, table)| table));
        let table = self.catalog.table_by_name(&name).map(|table| table.id);
        match table.is_some() || self.notes.is_some() || self.relation_exists(&name) {
            true => Ok(table),
            false => Err(self.no_relation(&name, span)),
        }
    }

    /// The view, and the views that read it.
    pub(super) fn remove_view(&mut self, name: &str) {
        let Some(at) = self.catalog.views.iter().position(|view| view.name == name) else { return };
        let gone = self.catalog.views.remove(at).span;
        while let Some(over) = self.catalog.views.iter().find(|view| view.below.contains(&gone)) {
            let over = over.name.clone();
            self.remove_view(&over);
        }
    }

    fn drop_sequence(&mut self, name: &str, cascades: bool, span: Span) -> Result<bool, Diagnostic> {
        let Some(found) = self.catalog.sequences.iter().find(|sequence| sequence.name == name) else {
            return Ok(false);
        };
        let (id, owner) = (found.id, found.owner);
        let held = |hint: &str, (table, column): (&Table, &Column)| {
            let of = format!("column {} of table {}", column.name, table.name);
            let message = match column.is_identity {
                true => format!("cannot drop sequence {name} because {of} requires it"),
                false => format!(
                    "cannot drop sequence {name} because other objects depend on it: default value for {of}"
                ),
            };
            Diagnostic::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, span, message).with_hint(hint)
        };
        if let Some((table, column)) = owner.filter(|_| self.notes.is_none()) {
            let table = self.catalog.table(table);
            let column = &table.columns[column];
            if column.is_identity {
                return Err(held("Drop the column, or its identity (DROP IDENTITY).", (table, column)));
            }
        }
        let mut defaults = self.catalog.tables.iter().flat_map(|table| {
            table.columns.iter().filter(|column| column.default.is_some()).map(move |column| (table, column))
        });
        let uses = defaults
            .find(|(_, column)| column.default.as_ref().is_some_and(|default| takes_from(default, id)));
        if let Some(uses) = uses.filter(|_| !cascades) {
            return Err(held("Use DROP ... CASCADE to drop the dependent objects too.", uses));
        }
        self.remove_sequences_by_id(&BTreeSet::from([id]));
        Ok(true)
    }

    fn drop_index(&mut self, name: &str, span: Span) -> Result<bool, Diagnostic> {
        let (schema, own) = split(name);
        let tables = self.catalog.tables.iter_mut().filter(|table| split(&table.name).0 == schema);
        for table in tables {
            let mut keys = table.primary_key.iter().chain(&table.unique_keys);
            if keys.any(|key| key.name == own) && self.notes.is_none() {
                let message = format!(
                    "cannot drop index {name} because constraint {own} on table {} requires it",
                    table.name
                );
                let hint = format!("You can drop constraint {own} on table {} instead.", table.name);
                let error = Diagnostic::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, span, message);
                return Err(error.with_hint(hint));
            }
            let before = table.indexes.len();
            table.indexes.retain(|index| index.name != own);
            if table.indexes.len() < before {
                self.remove_unused();
                self.drop_keys_without_parent();
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn drop_type(
        &mut self,
        kind: ObjectType,
        cascades: bool,
        name: &str,
        span: Span,
    ) -> Result<bool, Diagnostic> {
        if self.catalog.types.contains_key(name) {
            self.user_type_named(kind, name, span)?;
        } else {
            self.schema_is_there(split(name).0, span)?;
        }
        let held = |by: String| {
            let message = format!("cannot drop type {name} because other objects depend on it: {by}");
            Diagnostic::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, span, message)
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
        };
        while let Some((table, column)) = self.column_of_type(name).filter(|_| self.notes.is_none()) {
            if !cascades {
                let table = self.catalog.table(table);
                return Err(held(format!("column {} of table {}", table.columns[column].name, table.name)));
            }
            self.remove_column(table, column);
        }
        if self.notes.is_none() {
            let over = |ty: &UserType| matches!(ty, UserType::Domain(domain) if domain.is_or_extends(name));
            let over: Vec<String> = self
                .catalog
                .types
                .iter()
                .filter(|(other, ty)| *other != name && over(ty))
                .map(|(other, _)| other.clone())
                .collect();
            if let Some(other) = over.first().filter(|_| !cascades) {
                return Err(held(format!("type {other}")));
            }
            over.iter().for_each(|other| drop(self.catalog.types.remove(other)));
            let uses = |routine: &PendingRoutine| super::routine::mentions_type(&routine.create, name);
            if let Some(routine) = self.routines.iter().find(|one| uses(one)).filter(|_| !cascades) {
                return Err(held(format!("function {}", object_path(&routine.create.funcname))));
            }
            self.routines.retain(|routine| !uses(routine));
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

/// The expression takes the next value of the sequence, or its current one.
fn takes_from(expr: &Expr, sequence: SequenceId) -> bool {
    let mut takes = false;
    walk::each_expr(expr, &mut |part| {
        let is_of = |of: &SequenceId| *of == sequence;
        takes |= matches!(&part.kind, ExprKind::NextValue(of) | ExprKind::CurrentValue(of) if is_of(of));
    });
    takes
}

fn is_relation(kind: ObjectType) -> bool {
    matches!(
        kind,
        ObjectType::ObjectTable
            | ObjectType::ObjectView
            | ObjectType::ObjectMatview
            | ObjectType::ObjectSequence
            | ObjectType::ObjectIndex
    )
}

fn is_routine(kind: ObjectType) -> bool {
    matches!(kind, ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine)
}

/// The error says that something is not there.
fn is_missing(error: &Diagnostic) -> bool {
    matches!(
        error.state,
        SqlState::INVALID_SCHEMA_NAME
            | SqlState::UNDEFINED_OBJECT
            | SqlState::UNDEFINED_TABLE
            | SqlState::UNDEFINED_FUNCTION
    )
}

fn no_such(kind: ObjectType, object: &Node, span: Span) -> Diagnostic {
    let of =
        |names: &[Node]| expr_strings(names).split_last().map(|(_, table)| path(table)).unwrap_or_default();
    let last = |names: &[Node]| expr_strings(names).last().map(|name| (*name).to_owned()).unwrap_or_default();
    let (word, state) = named(kind);
    let what = match (&object.node, kind) {
        (
            Some(node::Node::List(list)),
            ObjectType::ObjectTrigger | ObjectType::ObjectRule | ObjectType::ObjectPolicy,
        ) => format!("{word} \"{}\" for table \"{}\"", last(&list.items), of(&list.items)),
        (Some(node::Node::List(list)), _) => format!("{word} \"{}\"", object_path(&list.items)),
        (Some(node::Node::ObjectWithArgs(routine)), _) => {
            format!("{word} {}", super::routine::written(routine))
        }
        (Some(node::Node::TypeName(name)), _) => format!("{word} \"{}\"", object_path(&name.names)),
        (Some(node::Node::String(name)), _) => format!("{word} \"{}\"", name.sval),
        _ => "what is dropped".to_owned(),
    };
    Diagnostic::new(state, span, format!("{what} does not exist"))
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
        ObjectType::ObjectRoutine => ("routine", SqlState::UNDEFINED_FUNCTION),
        ObjectType::ObjectAggregate => ("aggregate", SqlState::UNDEFINED_FUNCTION),
        ObjectType::ObjectOperator => ("operator", SqlState::UNDEFINED_FUNCTION),
        ObjectType::ObjectTrigger => ("trigger", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectRule => ("rule", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectPolicy => ("policy", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectCollation => ("collation", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectStatisticExt => ("statistics object", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectPublication => ("publication", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectForeignServer => ("server", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectEventTrigger => ("event trigger", SqlState::UNDEFINED_OBJECT),
        ObjectType::ObjectForeignTable => ("foreign table", SqlState::UNDEFINED_TABLE),
        _ => ("object", SqlState::UNDEFINED_OBJECT),
    }
}
