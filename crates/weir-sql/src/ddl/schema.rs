//! CREATE SCHEMA, ALTER SCHEMA and DROP SCHEMA. A schema is the first part of the names of what is in it.

use pg_query::NodeRef;
use pg_query::protobuf::{
    ConstrType, Constraint, CreateSchemaStmt, CreateStmt, RangeVar, RoleSpecType, node,
};
use weir_types::SqlState;

use super::names::{own_name, split};
use super::table::kind;
use super::types::object_path;
use super::{Schema, qualified, relation_name};
use crate::catalog::UserType;
use crate::parse::{ParsedStatement, Piece};
use crate::source::{Diagnostic, Span};

/// Schemas of PostgreSQL itself, which cannot be created.
const OF_SYSTEM: [&str; 2] = ["pg_catalog", "information_schema"];

impl Schema {
    pub(super) fn has_schema(&self, name: &str) -> bool {
        matches!(name, "" | "public") || self.schemas.contains(name)
    }

    /// Checks that the schema of a new object exists (3F000); a tolerant reading accepts any.
    pub(super) fn schema_is_there(&self, schema: &str, place: Span) -> Result<(), Diagnostic> {
        if self.notes.is_some() || self.has_schema(schema) || OF_SYSTEM.contains(&schema) {
            return Ok(());
        }
        Err(no_schema(schema, place)
            .with_hint(format!("CREATE SCHEMA {schema} before it, or leave the qualification away")))
    }

    /// There is no relation of that name: 42P01, or 3F000 where there is no such schema either.
    pub(super) fn no_relation(&self, name: &str, place: Span) -> Diagnostic {
        let schema = split(name).0;
        match self.schema_is_there(schema, place) {
            Err(missing) => missing,
            Ok(()) => {
                let message = format!("relation \"{name}\" does not exist");
                Diagnostic::new(SqlState::UNDEFINED_TABLE, place, message)
            }
        }
    }

    pub(super) fn create_schema(
        &mut self,
        piece: Piece<'_>,
        create: CreateSchemaStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let role = create.authrole.as_ref();
        let name = match (role, create.schemaname.as_str()) {
            (Some(role), "") if role.roletype() == RoleSpecType::RolespecCstring => role.rolename.clone(),
            (Some(_), "") => {
                let what = "CREATE SCHEMA that is named by who creates it";
                return Err(Diagnostic::unsupported(head, what, "write the name of the schema"));
            }
            (_, name) => name.to_owned(),
        };
        self.new_schema_name(&name, head)?;
        let exists = name == "public" || self.schemas.contains(&name);
        let message = format!("schema \"{name}\" already exists");
        match (exists, create.if_not_exists) {
            (true, true) => {
                self.pass(SqlState::DUPLICATE_SCHEMA, head, &message);
                return Ok(());
            }
            // pg_dump creates it, too.
            (true, false) if self.is_running && name != "public" => {
                return Err(Diagnostic::new(SqlState::DUPLICATE_SCHEMA, head, message));
            }
            _ => self.schemas.insert(name.clone()),
        };
        let mut elements: Vec<node::Node> =
            create.schema_elts.into_iter().filter_map(|element| element.node).collect();
        // Objects that others rest on come first, as in PostgreSQL.
        elements.sort_by_key(|element| match element {
            node::Node::CreateSeqStmt(_) => 0,
            node::Node::CreateStmt(_) => 1,
            node::Node::ViewStmt(_) => 2,
            node::Node::IndexStmt(_) => 3,
            _ => 4,
        });
        let created: Vec<String> =
            elements.iter_mut().filter_map(created_by).map(|it| it.relname.clone()).collect();
        for mut node in elements {
            put_into(&mut node, &name, &created, head)?;
            self.apply(piece, ParsedStatement { node, span: head })?;
        }
        Ok(())
    }

    fn new_schema_name(&self, name: &str, head: Span) -> Result<(), Diagnostic> {
        if !name.starts_with("pg_") || self.notes.is_some() {
            return Ok(());
        }
        let message = format!("unacceptable schema name \"{name}\"");
        let hint = "The prefix \"pg_\" is reserved for system schemas.";
        Err(Diagnostic::new(SqlState::RESERVED_NAME, head, message).with_hint(hint))
    }

    /// One of what is in the schema, in PostgreSQL's words.
    fn content_of(&self, schema: &str) -> Option<String> {
        let catalog = &self.catalog;
        let own = |kind: &str, name: &str| (split(name).0 == schema).then(|| format!("{kind} {name}"));
        let tables = catalog.tables.iter().filter_map(|table| own("table", &table.name));
        let partitions = catalog.partitions.keys().filter_map(|name| own("table", name));
        let views = catalog.views.iter().filter_map(|view| match view.materialized {
            true => own("materialized view", &view.name),
            false => own("view", &view.name),
        });
        let sequences = catalog.sequences.iter().filter_map(|sequence| own("sequence", &sequence.name));
        let types = catalog.types.keys().filter_map(|name| own("type", name));
        let routines = self.routines.iter().filter_map(|routine| {
            let kind = if routine.create.is_procedure { "procedure" } else { "function" };
            own(kind, &object_path(&routine.create.funcname))
        });
        tables.chain(partitions).chain(views).chain(sequences).chain(types).chain(routines).next()
    }

    /// `false` where there is none.
    pub(super) fn drop_schema(&mut self, name: &str, cascades: bool, head: Span) -> Result<bool, Diagnostic> {
        let held = |content: String| {
            let message = format!("cannot drop schema {name} because other objects depend on it: {content}");
            Diagnostic::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, head, message)
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
        };
        if name == "public" {
            if let Some(content) = self.content_of("").filter(|_| !cascades) {
                return Err(held(content));
            }
            let what = "DROP SCHEMA public";
            return Err(Diagnostic::unsupported(head, what, "drop what is in it: the schema itself stays"));
        }
        if !self.schemas.contains(name) {
            return Ok(self.notes.is_some() && self.schemas.remove(name));
        }
        match self.content_of(name) {
            Some(content) if !cascades && self.notes.is_none() => return Err(held(content)),
            _ => {}
        }
        let within = |other: &str| split(other).0 == name;
        self.catalog.partitions.retain(|partition, _| !within(partition));
        while let Some(at) = self.catalog.tables.iter().position(|table| within(&table.name)) {
            let table = self.catalog.tables[at].name.clone();
            self.catalog.partitions.retain(|_, root| *root != table);
            self.remove_table(at);
        }
        let views: Vec<String> =
            self.catalog.views.iter().map(|view| view.name.clone()).filter(|view| within(view)).collect();
        views.iter().for_each(|view| self.remove_view(view));
        let gone = self.catalog.sequences.iter().filter(|one| within(&one.name)).map(|one| one.id).collect();
        self.remove_sequences_by_id(&gone);
        let types: Vec<String> = self.catalog.types.keys().filter(|ty| within(ty)).cloned().collect();
        for ty in types {
            while let Some((table, column)) = self.column_of_type(&ty) {
                self.remove_column(table, column);
            }
            self.catalog.types.remove(&ty);
        }
        self.routines.retain(|routine| !within(&object_path(&routine.create.funcname)));
        self.schemas.remove(name);
        Ok(true)
    }

    /// `ALTER SCHEMA … RENAME TO …`.
    pub(super) fn rename_schema(&mut self, old: &str, new: &str, head: Span) -> Result<(), Diagnostic> {
        if !self.has_schema(old) {
            return match self.notes.is_some() {
                true => Ok(()),
                false => Err(no_schema(old, head)),
            };
        }
        if self.has_schema(new) {
            let message = format!("schema \"{new}\" already exists");
            return Err(Diagnostic::new(SqlState::DUPLICATE_SCHEMA, head, message));
        }
        self.new_schema_name(new, head)?;
        let within = |other: &str| split(other).0 == old;
        let kept = "create another schema, and move what is in this one (ALTER TABLE … SET SCHEMA)";
        if old == "public" {
            return Err(Diagnostic::unsupported(head, "another name of the schema public", kept));
        }
        if self.catalog.types.iter().any(|(name, ty)| within(name) && matches!(ty, UserType::Enum(_))) {
            let what = "another name of a schema with enumerations";
            return Err(Diagnostic::unsupported(head, what, kept));
        }
        if self.routines.iter().any(|one| within(&object_path(&one.create.funcname))) {
            let what = "another name of a schema with functions or procedures";
            return Err(Diagnostic::unsupported(head, what, kept));
        }
        self.schemas.remove(old);
        self.schemas.insert(new.to_owned());
        let moved = |name: &mut String| {
            if within(name) {
                *name = qualified(new, own_name(name));
            }
        };
        let catalog = &mut self.catalog;
        catalog.tables.iter_mut().for_each(|table| moved(&mut table.name));
        catalog.views.iter_mut().for_each(|view| moved(&mut view.name));
        catalog.sequences.iter_mut().for_each(|sequence| moved(&mut sequence.name));
        let partitions = std::mem::take(&mut catalog.partitions);
        catalog.partitions = partitions
            .into_iter()
            .map(|(mut partition, mut root)| {
                moved(&mut partition);
                moved(&mut root);
                (partition, root)
            })
            .collect();
        let domains: Vec<String> = self.catalog.types.keys().filter(|name| within(name)).cloned().collect();
        for domain in domains {
            self.rename_type_to(&domain, &qualified(new, own_name(&domain)));
        }
        Ok(())
    }
}

pub(super) fn no_schema(name: &str, place: Span) -> Diagnostic {
    Diagnostic::new(SqlState::INVALID_SCHEMA_NAME, place, format!("schema \"{name}\" does not exist"))
}

/// The relation that an element of CREATE SCHEMA creates, or stands on.
fn created_by(element: &mut node::Node) -> Option<&mut RangeVar> {
    match element {
        node::Node::CreateSeqStmt(create) => create.sequence.as_mut(),
        node::Node::CreateStmt(create) => create.relation.as_mut(),
        node::Node::ViewStmt(create) => create.view.as_mut(),
        node::Node::IndexStmt(create) => create.relation.as_mut(),
        node::Node::CreateTrigStmt(create) => create.relation.as_mut(),
        _ => None,
    }
}

/// The element in its schema. Names without a schema mean what is created along with it.
fn put_into(
    element: &mut node::Node,
    schema: &str,
    created: &[String],
    head: Span,
) -> Result<(), Diagnostic> {
    if let Some(range) = created_by(element) {
        if !matches!(range.schemaname.as_str(), "") && range.schemaname != schema {
            let message = format!(
                "CREATE specifies a schema ({}) different from the one being created ({schema})",
                range.schemaname
            );
            return Err(Diagnostic::new(SqlState::INVALID_SCHEMA_DEFINITION, head, message));
        }
        schema.clone_into(&mut range.schemaname);
    }
    if let node::Node::CreateStmt(create) = element {
        for constraint in constraints(create) {
            let parent = constraint.pktable.as_mut().filter(|_| kind_is_foreign(constraint.contype));
            if let Some(parent) = parent.filter(|parent| is_created(parent, created)) {
                schema.clone_into(&mut parent.schemaname);
            }
        }
    }
    let unqualified = element.nodes().into_iter().find_map(|(part, ..)| match part {
        NodeRef::RangeVar(range) if is_created(range, created) => Some(relation_name(range)),
        _ => None,
    });
    match unqualified {
        None => Ok(()),
        Some(name) => Err(Diagnostic::unsupported(
            head,
            format!("the name {name} without its schema within CREATE SCHEMA"),
            format!("write {schema}.{name}"),
        )),
    }
}

fn is_created(range: &RangeVar, created: &[String]) -> bool {
    range.schemaname.is_empty() && created.contains(&range.relname)
}

fn kind_is_foreign(of: i32) -> bool {
    kind(&Constraint { contype: of, ..Constraint::default() }) == ConstrType::ConstrForeign
}

fn constraints(create: &mut CreateStmt) -> Vec<&mut Constraint> {
    let mut constraints = Vec::new();
    for element in &mut create.table_elts {
        match &mut element.node {
            Some(node::Node::Constraint(constraint)) => constraints.push(&mut **constraint),
            Some(node::Node::ColumnDef(column)) => {
                for node in &mut column.constraints {
                    if let Some(node::Node::Constraint(constraint)) = &mut node.node {
                        constraints.push(&mut **constraint);
                    }
                }
            }
            _ => {}
        }
    }
    constraints
}
