//! Schema statements: each changes the catalog, or is refused by name.
//!
//! Deliberately without effect, because Weir has nothing that they could change:
//! * `SET` and `set_config` of the session settings that pg_dump prints ([`settings`] has the list and
//!   the values that are taken);
//! * `OWNER TO`, since there are no roles yet; GRANT, REVOKE, policies and roles are refused, for whoever
//!   wrote them relies on them;
//! * `BEGIN`, `COMMIT`, `CREATE SCHEMA public`, `CREATE EXTENSION plpgsql`, and `DROP … IF EXISTS` of what
//!   does not exist;
//! * `IF NOT EXISTS` of what exists, comments that do not begin with `weir:`, the INCLUDE columns,
//!   storage parameters and `CONCURRENTLY` of an index, and the storage parameters of a table.

mod alter;
mod column;
mod comment;
mod constraint;
mod foreign_key;
mod index;
mod names;
mod sequence;
mod settings;
mod table;
mod view;

pub(crate) use names::{expression_name, statement_name};
pub(crate) use settings::serializable;

use pg_query::protobuf::{
    CreateExtensionStmt, CreateFunctionStmt, CreateSchemaStmt, DropStmt, ObjectType, RangeVar,
    TransactionStmtKind, node,
};
use weir_types::SqlState;

use crate::binder::expr_strings;
use crate::catalog::{Catalog, Table, TableId};
use crate::parse::{ParsedStatement, Piece};
use crate::source::{Diagnostic, Span};

/// An assertion whose expression is still text.
#[derive(Debug)]
pub(crate) struct PendingAssertion {
    pub name: String,
    /// Of the name.
    pub name_span: Span,
    /// Of the expression inside of CHECK (…).
    pub span: Span,
    /// The expression, its escapes undone.
    pub text: String,
    /// Byte `i` of `text` stands at `places[i]` of the file; empty where text and file agree.
    pub places: Vec<u32>,
}

/// The schema as far as it has been read.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub catalog: Catalog,
    pub assertions: Vec<PendingAssertion>,
    /// CREATE PROCEDURE and FUNCTION: bound when all tables are known.
    pub routines: Vec<PendingRoutine>,
}

#[derive(Debug)]
pub(crate) struct PendingRoutine {
    pub create: CreateFunctionStmt,
    pub file: u32,
    pub span: Span,
    /// `ALTER PROCEDURE … SET default_transaction_isolation`.
    pub serializable: bool,
}

impl Schema {
    /// Applies one statement of a schema file.
    pub fn apply(&mut self, piece: Piece<'_>, statement: ParsedStatement) -> Result<(), Diagnostic> {
        let span = statement.span;
        let head = Span { end: piece.token((span.start - piece.offset) as i32).end, ..span };
        match statement.node {
            node::Node::CreateStmt(create) => self.create_table(piece, &create, span),
            node::Node::IndexStmt(index) => self.create_index(piece, &index, span),
            node::Node::CreateSeqStmt(create) => self.create_sequence(piece, &create, span),
            node::Node::AlterSeqStmt(alter) => self.alter_sequence(piece, &alter, span),
            node::Node::ViewStmt(view) => self.create_view(piece, &view, span),
            node::Node::CreateTableAsStmt(create) => self.create_materialized(piece, &create, span),
            node::Node::AlterTableStmt(alter) => self.alter_table(piece, &alter, head),
            node::Node::AlterFunctionStmt(alter) => self.alter_routine(piece, &alter, head),
            node::Node::CommentStmt(comment) => self.comment(piece, &comment, span),
            node::Node::CreateFunctionStmt(create) => self.add_routine(*create, piece.file, span),
            node::Node::VariableSetStmt(set) => settings::accept_set(piece, &set, head),
            node::Node::SelectStmt(select) => settings::accept_select(piece, &select, head),
            node::Node::TransactionStmt(transaction) => match TransactionStmtKind::try_from(transaction.kind)
            {
                Ok(
                    TransactionStmtKind::TransStmtBegin
                    | TransactionStmtKind::TransStmtStart
                    | TransactionStmtKind::TransStmtCommit,
                ) => Ok(()),
                _ => Err(Diagnostic::unsupported(
                    head,
                    "this transaction statement in a schema file",
                    "only BEGIN and COMMIT are",
                )),
            },
            node::Node::CreateSchemaStmt(create) => accept_schema(&create, head),
            node::Node::CreateExtensionStmt(create) => accept_extension(&create, head),
            node::Node::DropStmt(drop) => self.accept_drop(&drop, head),
            node::Node::AlterOwnerStmt(_) => Ok(()),
            other => Err(names::refusal(&other, head)),
        }
    }

    fn add_routine(&mut self, create: CreateFunctionStmt, file: u32, span: Span) -> Result<(), Diagnostic> {
        let replaced = self.routines.iter().position(|other| same_routine(&other.create, &create));
        let routine = PendingRoutine { create, file, span, serializable: false };
        match replaced {
            None => self.routines.push(routine),
            Some(index) if routine.create.replace => self.routines[index] = routine,
            Some(_) => {
                let name = expr_strings(&routine.create.funcname).join(".");
                return Err(Diagnostic::new(
                    SqlState::DUPLICATE_FUNCTION,
                    span,
                    format!("function \"{name}\" already exists with same argument types"),
                )
                .with_hint("CREATE OR REPLACE replaces it"));
            }
        }
        Ok(())
    }

    pub(crate) fn table_index(&self, piece: Piece<'_>, range: &RangeVar) -> Result<usize, Diagnostic> {
        let span = piece.token(range.location);
        check_schema(piece, range)?;
        let tables = &self.catalog.tables;
        tables.iter().position(|table| table.name == range.relname).ok_or_else(|| {
            Diagnostic::new(
                SqlState::UNDEFINED_TABLE,
                span,
                format!("relation \"{}\" does not exist", range.relname),
            )
        })
    }

    /// Tables, views, sequences and indexes share one space of names.
    fn relation_exists(&self, name: &str) -> bool {
        let catalog = &self.catalog;
        catalog.tables.iter().any(|table| table.name == name || index_names(table).any(|index| index == name))
            || catalog.views.iter().any(|view| view.name == name)
            || catalog.sequences.iter().any(|sequence| sequence.name == name)
    }

    /// `Ok(true)` where it exists and IF NOT EXISTS makes that no error.
    fn check_new_relation(
        &self,
        piece: Piece<'_>,
        range: &RangeVar,
        if_not_exists: bool,
    ) -> Result<bool, Diagnostic> {
        check_schema(piece, range)?;
        let span = piece.token(range.location);
        if range.relpersistence == "t" {
            return Err(Diagnostic::unsupported(
                span,
                "a temporary relation",
                "use a CTE, or a table with a key for the session",
            ));
        }
        if range.relpersistence == "u" {
            return Err(Diagnostic::unsupported(span, "an UNLOGGED relation", "leave UNLOGGED away"));
        }
        match self.relation_exists(&range.relname) {
            false => Ok(false),
            true if if_not_exists => Ok(true),
            true => Err(Diagnostic::new(
                SqlState::DUPLICATE_TABLE,
                span,
                format!("relation \"{}\" already exists", range.relname),
            )),
        }
    }

    fn accept_drop(&self, drop: &DropStmt, span: Span) -> Result<(), Diagnostic> {
        let names: Vec<String> = drop
            .objects
            .iter()
            .filter_map(|object| match &object.node {
                Some(node::Node::List(list)) => {
                    expr_strings(&list.items).last().map(|name| (*name).to_owned())
                }
                Some(node::Node::ObjectWithArgs(routine)) => {
                    expr_strings(&routine.objname).last().map(|name| (*name).to_owned())
                }
                _ => None,
            })
            .collect();
        let routine = |name: &String| {
            self.routines
                .iter()
                .any(|routine| expr_strings(&routine.create.funcname).last() == Some(&name.as_str()))
        };
        let known = |name: &String| match ObjectType::try_from(drop.remove_type) {
            Ok(ObjectType::ObjectProcedure | ObjectType::ObjectFunction | ObjectType::ObjectRoutine) => {
                routine(name)
            }
            _ => self.relation_exists(name),
        };
        match drop.missing_ok && !names.is_empty() && !names.iter().any(known) {
            true => Ok(()),
            false => Err(Diagnostic::unsupported(
                span,
                "DROP of something that exists",
                "leave the thing out of the files; DROP … IF EXISTS before its creation is accepted",
            )),
        }
    }
}

fn same_routine(left: &CreateFunctionStmt, right: &CreateFunctionStmt) -> bool {
    let types = |create: &CreateFunctionStmt| -> Vec<String> {
        create
            .parameters
            .iter()
            .filter_map(|node| match &node.node {
                Some(node::Node::FunctionParameter(parameter)) => {
                    let ty = parameter.arg_type.as_ref()?;
                    Some(format!("{}[{}]", expr_strings(&ty.names).join("."), ty.array_bounds.len()))
                }
                _ => None,
            })
            .collect()
    };
    expr_strings(&left.funcname).last() == expr_strings(&right.funcname).last() && types(left) == types(right)
}

/// The names of the indexes of a table, those of its keys included.
fn index_names(table: &Table) -> impl Iterator<Item = &str> {
    let keys = table.primary_key.iter().chain(&table.unique_keys).map(|key| key.name.as_str());
    keys.chain(table.indexes.iter().map(|index| index.name.as_str()))
}

pub(crate) fn check_schema(piece: Piece<'_>, range: &RangeVar) -> Result<(), Diagnostic> {
    match range.schemaname.as_str() {
        "" | "public" => Ok(()),
        schema => Err(Diagnostic::unsupported(
            piece.token(range.location),
            format!("the schema {schema}"),
            "Weir has one schema: leave the qualification away or use public",
        )),
    }
}

fn accept_schema(create: &CreateSchemaStmt, span: Span) -> Result<(), Diagnostic> {
    match create.schemaname.as_str() {
        "public" if create.schema_elts.is_empty() => Ok(()),
        name => Err(Diagnostic::unsupported(
            span,
            format!("CREATE SCHEMA {name}"),
            "Weir has one schema, public: put everything there",
        )),
    }
}

fn accept_extension(create: &CreateExtensionStmt, span: Span) -> Result<(), Diagnostic> {
    match create.extname.as_str() {
        "plpgsql" => Ok(()),
        name => Err(Diagnostic::unsupported(
            span,
            format!("the extension {name}"),
            "PL/pgSQL and gen_random_uuid() are there without an extension",
        )),
    }
}

impl Schema {
    pub(crate) fn next_table_id(&self) -> TableId {
        TableId(self.catalog.tables.len() as u32)
    }
}
