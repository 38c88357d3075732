//! ALTER … RENAME. What is bound refers to tables and columns by number, so only names change.

use std::sync::Arc;

use pg_query::protobuf::{AlterObjectSchemaStmt, ObjectType, RangeVar, RenameStmt};
use weir_types::{EnumType, SqlState};

use super::names::{own_name, split};
use super::types::renamed_type;
use super::{Schema, index_names, qualified, relation_name, relation_taken};
use crate::catalog::UserType;
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn rename(
        &mut self,
        piece: Piece<'_>,
        rename: &RenameStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let kind = ObjectType::try_from(rename.rename_type).unwrap_or(ObjectType::Undefined);
        let new = rename.newname.clone();
        let found = match (kind, &rename.relation) {
            (ObjectType::ObjectColumn, Some(range)) => self.rename_column(piece, range, rename)?,
            (ObjectType::ObjectTabconstraint, Some(range)) => {
                let at = self.table_index(piece, range)?;
                let table = &self.catalog.tables[at];
                let names = || table.constraint_names();
                if self.notes.is_none()
                    && names().any(|one| one == rename.subname)
                    && names().any(|one| one == new)
                {
                    let message =
                        format!("constraint \"{new}\" for relation \"{}\" already exists", table.name);
                    return Err(Diagnostic::new(SqlState::DUPLICATE_OBJECT, span, message));
                }
                self.rename_constraint(at, &rename.subname, &new)
            }
            (
                ObjectType::ObjectTable
                | ObjectType::ObjectView
                | ObjectType::ObjectMatview
                | ObjectType::ObjectSequence
                | ObjectType::ObjectIndex,
                Some(range),
            ) => {
                let (old, new) = (relation_name(range), qualified(&range.schemaname, &new));
                self.is_of_kind(kind, &old, span)?;
                self.refuse_taken(&old, &new, span)?;
                self.rename_to(&old, &new)
            }
            (ObjectType::ObjectTrigger, Some(range)) => {
                let at = self.table_index(piece, range)?;
                let table = self.catalog.tables[at].id;
                let found = self
                    .triggers
                    .iter_mut()
                    .find(|trigger| trigger.table == table && trigger.create.trigname == rename.subname);
                found.map(|trigger| trigger.create.trigname = new).is_some()
            }
            (ObjectType::ObjectType | ObjectType::ObjectDomain, _) => self.rename_type(rename, span)?,
            (ObjectType::ObjectDomconstraint, _) => return self.rename_domain_constraint(rename, span),
            (ObjectType::ObjectSchema, _) => {
                return self.rename_schema(&rename.subname, &rename.newname, span);
            }
            (ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine, _)
                if self.notes.is_none() =>
            {
                let object = rename.object.as_deref().and_then(|object| object.node.as_ref());
                let Some(pg_query::protobuf::node::Node::ObjectWithArgs(named)) = object else {
                    return Ok(());
                };
                return self.rename_routine(piece, kind, named, (&rename.newname, span));
            }
            _ => {
                let object = rename.object.as_deref();
                if self.notes.is_none() {
                    self.is_there(piece, kind, object, span)?;
                }
                return Err(Diagnostic::unsupported(
                    span,
                    "this ALTER … RENAME",
                    "create it with its new name",
                ));
            }
        };
        if let Some(range) = rename.relation.as_ref().filter(|_| !found && rename.missing_ok) {
            self.pass_missing(span, &format!("relation \"{}\"", range.relname));
        }
        if found || rename.missing_ok {
            return Ok(());
        }
        let (state, what) = match (kind, &rename.relation) {
            (ObjectType::ObjectColumn, _) => {
                (SqlState::UNDEFINED_COLUMN, format!("column \"{}\"", rename.subname))
            }
            (ObjectType::ObjectTabconstraint, Some(range)) => {
                let what = format!("constraint \"{}\" for table \"{}\"", rename.subname, range.relname);
                (SqlState::UNDEFINED_OBJECT, what)
            }
            (ObjectType::ObjectTrigger, _) => {
                (SqlState::UNDEFINED_OBJECT, format!("trigger \"{}\"", rename.subname))
            }
            (_, Some(range)) => return Err(self.no_relation(&relation_name(range), span)),
            (_, None) => {
                let old = renamed_type(rename).map(|(old, _)| old).unwrap_or_default();
                (SqlState::UNDEFINED_OBJECT, format!("type \"{old}\""))
            }
        };
        Err(Diagnostic::new(state, span, format!("{what} does not exist")))
    }

    /// `ALTER TABLE … SET SCHEMA`, and of other relations.
    pub(super) fn set_schema(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterObjectSchemaStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let schema = &alter.newschema;
        let Some(range) = &alter.relation else {
            if self.notes.is_none() {
                self.is_there(piece, alter.object_type(), alter.object.as_deref(), head)?;
                self.new_schema(schema, head)?;
            }
            let refusal = Diagnostic::unsupported(head, "this SET SCHEMA", "create it where it is to be");
            return Err(refusal);
        };
        let (old, new) = (relation_name(range), qualified(schema, &range.relname));
        if self.notes.is_none() && !self.relation_exists(&old) {
            return match alter.missing_ok {
                true => {
                    self.pass_missing(head, &format!("relation \"{}\"", range.relname));
                    Ok(())
                }
                false => Err(self.no_relation(&old, head)),
            };
        }
        self.is_of_kind(alter.object_type(), &old, head)?;
        self.new_schema(schema, head)?;
        if old == new {
            return Ok(());
        }
        self.refuse_taken(&old, &new, head)?;
        let owner = |sequence: &&crate::catalog::Sequence| sequence.name == old && sequence.owner.is_some();
        if self.notes.is_none() && self.catalog.sequences.iter().any(|one| owner(&one)) {
            let message = "cannot move an owned sequence into another schema";
            return Err(Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, head, message)
                .with_hint("move its table: the sequence goes with it"));
        }
        if let Some(table) = self.catalog.table_by_name(&old).filter(|_| self.notes.is_none()) {
            let id = table.id;
            let taken = |name: &&str| self.relation_exists(&qualified(schema, name));
            if let Some(name) = index_names(table).find(taken) {
                return Err(relation_taken(name, head));
            }
            let mut owned = Vec::new();
            for sequence in &self.catalog.sequences {
                if sequence.owner.is_some_and(|(of, _)| of == id) {
                    owned.push((sequence.name.clone(), qualified(schema, own_name(&sequence.name))));
                }
            }
            for (old, new) in owned {
                self.refuse_taken(&old, &new, head)?;
                self.rename_to(&old, &new);
            }
        }
        self.rename_to(&old, &new);
        Ok(())
    }

    /// ALTER VIEW, MATERIALIZED VIEW and SEQUENCE are of such a relation only (42809).
    fn is_of_kind(&self, kind: ObjectType, name: &str, place: Span) -> Result<(), Diagnostic> {
        let is_view = |materialized: bool| {
            let mut views = self.catalog.views.iter();
            views.any(|view| view.name == name && view.materialized == materialized)
        };
        let (is, word) = match kind {
            ObjectType::ObjectView => (is_view(false), "a view"),
            ObjectType::ObjectMatview => (is_view(true), "a materialized view"),
            ObjectType::ObjectSequence => {
                (self.catalog.sequences.iter().any(|one| one.name == name), "a sequence")
            }
            _ => return Ok(()),
        };
        match is || self.notes.is_some() || !self.relation_exists(name) {
            true => Ok(()),
            false => {
                let message = format!("\"{}\" is not {word}", own_name(name));
                Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, place, message))
            }
        }
    }

    /// 3F000 where there is none.
    fn new_schema(&self, schema: &str, head: Span) -> Result<(), Diagnostic> {
        match self.notes.is_some() || self.has_schema(schema) {
            true => Ok(()),
            false => Err(super::schema::no_schema(schema, head)),
        }
    }

    fn rename_column(
        &mut self,
        piece: Piece<'_>,
        range: &RangeVar,
        rename: &RenameStmt,
    ) -> Result<bool, Diagnostic> {
        let name = relation_name(range);
        if let Some(view) = self.catalog.views.iter_mut().find(|view| view.name == name) {
            let column = view.query.columns.iter_mut().find(|column| column.name == rename.subname);
            return Ok(column.map(|column| column.name.clone_from(&rename.newname)).is_some());
        }
        let at = self.table_index(piece, range)?;
        let table = &mut self.catalog.tables[at];
        let Some(column) = table.column_by_name(&rename.subname) else { return Ok(false) };
        if table.column_by_name(&rename.newname).is_some() {
            let message =
                format!("column \"{}\" of relation \"{}\" already exists", rename.newname, table.name);
            return Err(Diagnostic::new(SqlState::DUPLICATE_COLUMN, piece.token(range.location), message));
        }
        table.columns[column].name.clone_from(&rename.newname);
        Ok(true)
    }

    fn rename_constraint(&mut self, at: usize, old: &str, new: &str) -> bool {
        let table = &mut self.catalog.tables[at];
        let keys = table.primary_key.iter_mut().chain(&mut table.unique_keys).map(|key| &mut key.name);
        let names = keys
            .chain(table.checks.iter_mut().map(|check| &mut check.name))
            .chain(table.foreign_keys.iter_mut().map(|key| &mut key.name))
            .chain(table.exclusions.iter_mut().map(|exclusion| &mut exclusion.name));
        let mut found = false;
        for name in names.filter(|name| *name == old) {
            new.clone_into(name);
            found = true;
        }
        found
    }

    /// Tables, views, sequences and indexes share one space of names.
    fn refuse_taken(&self, old: &str, new: &str, place: Span) -> Result<(), Diagnostic> {
        match self.notes.is_none() && self.relation_exists(old) && self.relation_exists(new) {
            true => Err(relation_taken(new, place)),
            false => Ok(()),
        }
    }

    fn rename_to(&mut self, old: &str, new: &str) -> bool {
        let catalog = &mut self.catalog;
        for root in catalog.partitions.values_mut().filter(|root| **root == old) {
            new.clone_into(root);
        }
        if self.default_partitions.remove(old) {
            self.default_partitions.insert(new.to_owned());
        }
        if let Some(root) = catalog.partitions.remove(old) {
            catalog.partitions.insert(new.to_owned(), root);
            return true;
        }
        let mut found = false;
        // An index has its table's schema, and is renamed within it.
        let (schema, old_own, new_own) = (split(old).0, own_name(old), own_name(new));
        for table in catalog.tables.iter_mut().filter(|table| split(&table.name).0 == schema) {
            let keys = table.primary_key.iter_mut().chain(&mut table.unique_keys).map(|key| &mut key.name);
            let indexes = table.indexes.iter_mut().map(|index| &mut index.name);
            for name in keys.chain(indexes).filter(|name| *name == old_own) {
                new_own.clone_into(name);
                found = true;
            }
        }
        let names = catalog
            .tables
            .iter_mut()
            .map(|table| &mut table.name)
            .chain(catalog.views.iter_mut().map(|view| &mut view.name))
            .chain(catalog.sequences.iter_mut().map(|sequence| &mut sequence.name));
        for name in names.filter(|name| **name == old) {
            new.clone_into(name);
            found = true;
        }
        found
    }

    fn rename_type(&mut self, rename: &RenameStmt, span: Span) -> Result<bool, Diagnostic> {
        let Some((old, new)) = renamed_type(rename) else { return Ok(false) };
        if self.catalog.types.contains_key(&new) && self.notes.is_none() {
            let message = format!("type \"{new}\" already exists");
            return Err(Diagnostic::new(SqlState::DUPLICATE_OBJECT, span, message));
        }
        if !self.catalog.types.contains_key(&old) {
            return Ok(false);
        }
        if self.notes.is_none() {
            self.user_type_named(rename.rename_type(), &old, span)?;
        }
        let is_enum = matches!(self.catalog.types.get(&old), Some(UserType::Enum(_)));
        if is_enum && self.notes.is_none() && self.column_of_type(&old).is_some() {
            return Err(Diagnostic::unsupported(
                span,
                "another name of an enumeration that columns have",
                "CREATE TYPE of the new name, and give the columns that one (ALTER COLUMN … TYPE … USING)",
            ));
        }
        Ok(self.rename_type_to(&old, &new))
    }

    /// `false` where there is none.
    pub(super) fn rename_type_to(&mut self, old: &str, new: &str) -> bool {
        let Some(mut ty) = self.catalog.types.remove(old) else { return false };
        match &mut ty {
            UserType::Domain(domain) => {
                new.clone_into(&mut domain.name);
                for (name, _) in domain.checks.iter_mut().filter_map(|check| check.domain.as_mut()) {
                    if name == old {
                        new.clone_into(name);
                    }
                }
                self.rename_domain(old, new);
            }
            UserType::Enum(of) => {
                *of = Arc::new(EnumType { name: new.to_owned(), labels: of.labels.clone() });
            }
            UserType::Opaque => {}
        }
        self.catalog.types.insert(new.to_owned(), ty);
        true
    }

    /// `ALTER DOMAIN … RENAME CONSTRAINT`.
    fn rename_domain_constraint(&mut self, rename: &RenameStmt, span: Span) -> Result<(), Diagnostic> {
        let Some((name, _)) = renamed_type(rename) else { return Ok(()) };
        if self.notes.is_none() {
            self.user_type_named(ObjectType::ObjectDomain, &name, span)?;
        }
        let Some(UserType::Domain(domain)) = self.catalog.types.get(&name) else { return Ok(()) };
        let names = || domain.checks.iter().map(|check| check.name.as_str());
        if names().any(|one| one == rename.subname) && names().any(|one| one == rename.newname) {
            let message = format!("constraint \"{}\" for domain \"{name}\" already exists", rename.newname);
            return Err(Diagnostic::new(SqlState::DUPLICATE_OBJECT, span, message));
        }
        let Some(of) =
            domain.checks.iter().find(|check| check.name == rename.subname).map(|check| check.span)
        else {
            return Err(super::domain::no_constraint(domain, &rename.subname, span));
        };
        self.change_domains(&name, |domain| {
            for check in domain.checks.iter_mut().filter(|check| check.span == of) {
                rename.newname.clone_into(&mut check.name);
            }
        });
        Ok(())
    }

    /// Where it is named: at columns, and at domains over it.
    fn rename_domain(&mut self, old: &str, new: &str) {
        for column in self.catalog.tables.iter_mut().flat_map(|table| &mut table.columns) {
            if column.domain.as_deref() == Some(old) {
                column.domain = Some(new.to_owned());
            }
        }
        let below = self.catalog.types.values_mut().flat_map(|ty| match ty {
            UserType::Domain(domain) => domain.below.iter_mut(),
            _ => [].iter_mut(),
        });
        for name in below.filter(|name| *name == old) {
            new.clone_into(name);
        }
        let tables = self.catalog.tables.iter_mut().flat_map(|table| &mut table.checks);
        for (name, _) in tables.filter_map(|check| check.domain.as_mut()).filter(|(name, _)| name == old) {
            new.clone_into(name);
        }
    }
}
