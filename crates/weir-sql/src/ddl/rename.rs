//! ALTER … RENAME. What is bound refers to tables and columns by number, so only names change.

use std::sync::Arc;

use pg_query::protobuf::{AlterObjectSchemaStmt, ObjectType, RangeVar, RenameStmt};
use weir_types::{EnumType, SqlState};

use super::types::renamed_type;
use super::{Schema, qualified, relation_name, relation_taken};
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
            _ => {
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
            (_, Some(range)) => (SqlState::UNDEFINED_TABLE, format!("relation \"{}\"", range.relname)),
            (_, None) => {
                let old = renamed_type(rename).map(|(old, _)| old).unwrap_or_default();
                (SqlState::UNDEFINED_OBJECT, format!("type \"{old}\""))
            }
        };
        Err(Diagnostic::new(state, span, format!("{what} does not exist")))
    }

    /// `ALTER TABLE … SET SCHEMA`.
    pub(super) fn set_schema(&mut self, alter: &AlterObjectSchemaStmt, head: Span) -> Result<(), Diagnostic> {
        let Some(range) = &alter.relation else {
            let refusal = Diagnostic::unsupported(head, "this SET SCHEMA", "create it where it is to be");
            return Err(refusal);
        };
        let schema = &alter.newschema;
        if self.notes.is_none() && schema != "public" && !self.schemas.contains(schema) {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(Diagnostic::new(SqlState::INVALID_SCHEMA_NAME, head, message));
        }
        let (old, new) = (relation_name(range), qualified(schema, &range.relname));
        if old != new {
            self.refuse_taken(&old, &new, head)?;
        }
        match self.rename_to(&old, &new) {
            true => Ok(()),
            false if alter.missing_ok => {
                self.pass_missing(head, &format!("relation \"{}\"", range.relname));
                Ok(())
            }
            false => {
                let message = format!("relation \"{}\" does not exist", range.relname);
                Err(Diagnostic::new(SqlState::UNDEFINED_TABLE, head, message))
            }
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
        let keys = catalog.tables.iter_mut().flat_map(|table| {
            let keys = table.primary_key.iter_mut().chain(&mut table.unique_keys).map(|key| &mut key.name);
            let indexes = table.indexes.iter_mut().map(|index| &mut index.name);
            std::iter::once(&mut table.name).chain(keys).chain(indexes)
        });
        let names = keys
            .chain(catalog.views.iter_mut().map(|view| &mut view.name))
            .chain(catalog.sequences.iter_mut().map(|sequence| &mut sequence.name));
        let mut found = false;
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
        let Some(mut ty) = self.catalog.types.remove(&old) else { return Ok(false) };
        match &mut ty {
            UserType::Domain(domain) => {
                domain.name.clone_from(&new);
                self.rename_domain(&old, &new);
            }
            UserType::Enum(_) if self.notes.is_none() && self.column_of_type(&old).is_some() => {
                return Err(Diagnostic::unsupported(
                    span,
                    "another name of an enumeration that columns have",
                    "CREATE TYPE of the new name, and give the columns that one (ALTER COLUMN … TYPE … USING)",
                ));
            }
            UserType::Enum(of) => {
                *of = Arc::new(EnumType { name: new.clone(), labels: of.labels.clone() });
            }
            UserType::Opaque => {}
        }
        self.catalog.types.insert(new, ty);
        Ok(true)
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
