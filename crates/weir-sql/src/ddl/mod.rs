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
mod anonymous;
mod column;
mod comment;
mod constraint;
mod domain;
mod drop;
mod edit;
mod exclusion;
mod foreign_key;
mod index;
mod like;
mod names;
mod owner;
mod parameters;
mod partition;
mod rename;
mod retype;
mod routine;
mod schema;
mod sequence;
mod settings;
mod storage;
mod table;
mod trigger;
mod types;
mod view;

pub(crate) use names::{expression_name, qualified, relation_name, statement_name};
pub(crate) use partition::partition_alone;
pub(crate) use settings::constant;
pub(crate) use types::{altered_type, creates_type, fold_labels, named_relations};

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use pg_query::protobuf::{
    CreateExtensionStmt, CreateFunctionStmt, CreateTrigStmt, ObjectType, RangeVar, TransactionStmt,
    TransactionStmtKind, node,
};
use weir_types::SqlState;

use crate::binder::Context;
use crate::catalog::{Catalog, EXTENSIONS, Table, TableId, UserType};
use crate::notes::{self, Notes};
use crate::parse::{ParsedStatement, Piece};
use crate::source::{Diagnostic, Severity, Span};

/// An assertion whose expression is still text.
#[derive(Clone, Debug)]
pub(crate) struct PendingAssertion {
    pub name: String,
    /// Position of the name.
    pub name_span: Span,
    /// Position of the expression inside of CHECK (…).
    pub span: Span,
    /// The expression, its escapes undone.
    pub text: String,
    /// Byte `i` of `text` stands at `places[i]` of the file; empty where text and file agree.
    pub places: Vec<u32>,
    /// The table whose comment says it, by the place of its declaration.
    pub comment_on: Option<Span>,
}

/// The schema as far as it has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub catalog: Catalog,
    pub assertions: Vec<PendingAssertion>,
    /// CREATE PROCEDURE and FUNCTION: bound when all tables are known.
    pub routines: Vec<PendingRoutine>,
    /// CREATE TRIGGER: bound with its function.
    pub triggers: Vec<PendingTrigger>,
    /// The schema is loaded by a running server: unique indexes over expressions are implemented by hidden columns, and skipped
    /// statements are reported to the client.
    pub is_running: bool,
    /// Notes of a tolerant reading; none for a strict one.
    pub notes: Option<Notes>,
    /// Notices of IF EXISTS and IF NOT EXISTS, worded as in PostgreSQL.
    pub passed_over: RefCell<Vec<Diagnostic>>,
    /// Texts of the files.
    pub texts: Vec<std::sync::Arc<str>>,
    /// Conditions and keys over rows as they are written, by the place of what has them: what is bound over a column is bound anew
    /// when that has another type.
    written: retype::WrittenParts,
    /// Views that are not in the catalog, because they were not understood: their statements.
    pub unbound_views: BTreeMap<String, Span>,
    /// Views with triggers, which say what writing to them means, and the triggers' functions.
    pub view_triggers: Vec<(String, String)>,
    /// Parts of table definitions that a tolerant reading has left out.
    pub unread: RefCell<Vec<Unread>>,
    /// Schemas besides `public`.
    pub schemas: BTreeSet<String>,
    /// Partitioned tables with a default partition.
    default_partitions: BTreeSet<String>,
}

/// A part of the schema that is left out: it may demand anything of its tables' rows, or do anything with them.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    /// Empty if it has none.
    pub name: String,
    /// Beside those that its text names.
    pub table: Option<TableId>,
    pub span: Span,
}

/// The name of a statement that may hold rows back or change them, so that it counts where it is left out.
pub(crate) fn binds_rows(statement: &node::Node) -> Option<String> {
    let name = match statement {
        node::Node::AlterTableStmt(_) => "",
        node::Node::CreateTrigStmt(create) => &create.trigname,
        node::Node::IndexStmt(create) => &create.idxname,
        node::Node::RuleStmt(create) => &create.rulename,
        _ => return None,
    };
    Some(name.to_owned())
}

#[derive(Clone, Debug)]
pub(crate) struct PendingTrigger {
    pub create: CreateTrigStmt,
    pub table: TableId,
    pub file: u32,
    pub span: Span,
}

#[derive(Clone, Debug)]
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
            node::Node::ViewStmt(view) => {
                let result = self.create_view(piece, &view, span);
                self.note_unbound_view(view.view.as_ref(), result, span)
            }
            node::Node::CreateTableAsStmt(create) => {
                let result = self.create_materialized(piece, &create, span);
                let name = create.into.as_deref().and_then(|into| into.rel.as_ref());
                self.note_unbound_view(name, result, span)
            }
            node::Node::AlterTableStmt(alter) => self.alter_table(piece, &alter, head),
            node::Node::AlterFunctionStmt(alter) => self.alter_routine(piece, &alter, head),
            node::Node::CommentStmt(comment) => self.comment(piece, &comment, span),
            node::Node::CreateFunctionStmt(create) => self.add_routine(*create, piece, span),
            node::Node::VariableSetStmt(set) => self.ignorable(settings::accept_set(piece, &set, head)),
            node::Node::SelectStmt(select) => self.ignorable(settings::accept_select(piece, &select, head)),
            node::Node::TransactionStmt(transaction) => {
                self.ignorable(accept_transaction(&transaction, head))
            }
            node::Node::CreateSchemaStmt(create) => self.create_schema(piece, create, head),
            node::Node::CreateExtensionStmt(create) => self.create_extension(&create, head),
            node::Node::DropStmt(drop) => self.drop_objects(piece, &drop, head),
            node::Node::AlterOwnerStmt(alter) => self.alter_owner(piece, &alter, head),
            node::Node::CreateEnumStmt(create) => self.create_enum(&create, head),
            node::Node::AlterEnumStmt(alter) => self.alter_enum(&alter, head),
            node::Node::CreateDomainStmt(create) => self.create_domain(piece, &create, head),
            node::Node::AlterDomainStmt(alter) => self.alter_domain(piece, &alter, head),
            node::Node::RenameStmt(rename) => self.rename(piece, &rename, head),
            node::Node::CreateTrigStmt(create) => self.create_trigger(piece, *create, head),
            node::Node::AlterObjectSchemaStmt(alter) => self.set_schema(piece, &alter, head),
            statement @ node::Node::DoStmt(_) => self.anonymous_block(piece, &statement, span, head),
            other => self.pass_over(&other, head),
        }
    }

    pub fn context(&self) -> Context<'_> {
        Context { fixes_times: true, ..Context::new(&self.catalog).noting(self.notes.as_ref()) }
    }

    /// PostgreSQL's NOTICE of what a statement leaves as it is.
    pub(crate) fn pass(&self, state: SqlState, place: Span, what: &str) {
        self.say(state, place, format!("{what}, skipping"));
    }

    /// A NOTICE.
    pub(super) fn say(&self, state: SqlState, place: Span, message: String) {
        if self.is_running {
            let note = Diagnostic::new(state, place, message);
            self.passed_over.borrow_mut().push(Diagnostic { severity: Severity::Info, ..note });
        }
    }

    /// Notes a missing object, like `pass_over`.
    pub(super) fn pass_missing(&self, place: Span, what: &str) {
        self.pass(SqlState::SUCCESSFUL_COMPLETION, place, &format!("{what} does not exist"));
    }

    pub(super) fn tolerate<T>(&self, result: Result<T, Diagnostic>) -> Result<Option<T>, Diagnostic> {
        notes::tolerate(self.notes.as_ref(), result)
    }

    /// Tolerates an error in a part of a table's definition. `name` of the constraint, if it has one.
    pub(super) fn tolerate_of<T>(
        &self,
        table: TableId,
        name: &str,
        result: Result<T, Diagnostic>,
    ) -> Result<Option<T>, Diagnostic> {
        let span = result.as_ref().err().map(|error| error.span);
        let kept = self.tolerate(result)?;
        if let Some(span) = span {
            let name = name.to_owned();
            self.unread.borrow_mut().push(Unread { name, table: Some(table), span });
        }
        Ok(kept)
    }

    /// Understood by the analysis, but nothing that could run.
    pub(super) fn only_analysed(&self, refusal: Diagnostic) -> Result<(), Diagnostic> {
        notes::note(self.notes.as_ref(), refusal, Notes::only_analysed)
    }

    /// Without a meaning for the analysis, but refused where it would have to be obeyed.
    fn ignored(&self, refusal: Diagnostic, defines: bool) -> Result<(), Diagnostic> {
        notes::note(self.notes.as_ref(), refusal, |notes, refusal| notes.ignore(refusal, defines))
    }

    fn note_unbound_view(
        &mut self,
        name: Option<&RangeVar>,
        result: Result<(), Diagnostic>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        if let (Err(_), Some(name)) = (&result, name) {
            self.unbound_views.insert(relation_name(name), span);
        }
        result
    }

    fn ignorable(&self, result: Result<(), Diagnostic>) -> Result<(), Diagnostic> {
        result.or_else(|refusal| self.ignored(refusal, false))
    }

    /// Handles other statements: privileges and the like do not concern the analysis, anything else is left out.
    fn pass_over(&mut self, statement: &node::Node, head: Span) -> Result<(), Diagnostic> {
        let refusal = names::refusal(statement, head);
        match statement {
            _ if names::is_administration(statement) => self.ignored(refusal, false),
            node::Node::CompositeTypeStmt(create) if self.notes.is_some() => {
                let names = create.typevar.as_ref().map(relation_name).unwrap_or_default();
                self.catalog.types.insert(names, UserType::Opaque);
                self.only_analysed(refusal)
            }
            node::Node::CreateRangeStmt(create) if self.notes.is_some() => {
                self.add_opaque_type(&create.type_name, head)?;
                self.only_analysed(refusal)
            }
            node::Node::DefineStmt(create) if self.notes.is_some() => {
                self.ignored(refusal, true)?;
                match ObjectType::try_from(create.kind) {
                    Ok(ObjectType::ObjectType) => {
                        self.catalog.types.insert(types::object_path(&create.defnames), UserType::Opaque);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(refusal),
        }
    }

    /// Records an extension; its contents are built in.
    fn create_extension(&mut self, create: &CreateExtensionStmt, span: Span) -> Result<(), Diagnostic> {
        let name = create.extname.as_str();
        if !EXTENSIONS.iter().any(|one| one.name == name) {
            let built_in: Vec<&str> = EXTENSIONS.iter().map(|one| one.name).collect();
            let refusal = Diagnostic::unsupported(
                span,
                format!("the extension {name}"),
                format!(
                    "gen_random_uuid() is there without an extension, and so is what these bring: {}",
                    built_in.join(", ")
                ),
            );
            return self.ignored(refusal, true);
        }
        let message = format!("extension \"{name}\" already exists");
        match name == "plpgsql" || !self.catalog.extensions.insert(name.to_owned()) {
            true if create.if_not_exists => self.pass(SqlState::DUPLICATE_OBJECT, span, &message),
            // pg_dump of other servers creates it, too.
            true if self.is_running && name != "plpgsql" => {
                return Err(Diagnostic::new(SqlState::DUPLICATE_OBJECT, span, message));
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn table_index(&self, piece: Piece<'_>, range: &RangeVar) -> Result<usize, Diagnostic> {
        let span = piece.token(range.location);
        let name = relation_name(range);
        if self.catalog.partitions.contains_key(&name) {
            return Err(partition::partition_alone(&name, span));
        }
        let tables = &self.catalog.tables;
        tables.iter().position(|table| table.name == name).ok_or_else(|| self.no_relation(&name, span))
    }

    /// Tables, views, sequences and indexes share one space of names.
    fn relation_exists(&self, name: &str) -> bool {
        let catalog = &self.catalog;
        catalog.tables.iter().any(|table| table.name == name || has_index(table, name))
            || catalog.views.iter().any(|view| view.name == name)
            || catalog.sequences.iter().any(|sequence| sequence.name == name)
            || catalog.partitions.contains_key(name)
    }

    /// `Ok(true)` where it exists and IF NOT EXISTS makes that no error.
    fn check_new_relation(
        &self,
        piece: Piece<'_>,
        range: &RangeVar,
        if_not_exists: bool,
    ) -> Result<bool, Diagnostic> {
        let span = piece.token(range.location);
        let name = relation_name(range);
        self.schema_is_there(&range.schemaname, span)?;
        if range.relpersistence == "t" {
            return Err(Diagnostic::unsupported(
                span,
                "a temporary relation",
                "use a CTE, or a table with a key for the session",
            ));
        }
        if range.relpersistence == "u" {
            let name = &range.relname;
            self.say(
                SqlState::SUCCESSFUL_COMPLETION,
                span,
                format!("the table \"{name}\" is logged, as all are"),
            );
        }
        match self.relation_exists(&name) {
            false => Ok(false),
            true if if_not_exists => {
                let what = format!("relation \"{}\" already exists", range.relname);
                self.pass(SqlState::DUPLICATE_TABLE, span, &what);
                Ok(true)
            }
            true => Err(relation_taken(&name, span)),
        }
    }
}

fn relation_taken(name: &str, place: Span) -> Diagnostic {
    Diagnostic::new(SqlState::DUPLICATE_TABLE, place, format!("relation \"{name}\" already exists"))
}

fn accept_transaction(transaction: &TransactionStmt, head: Span) -> Result<(), Diagnostic> {
    match TransactionStmtKind::try_from(transaction.kind) {
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
    }
}

/// The table's index or key of that name, which the table's schema is part of.
fn has_index(table: &Table, name: &str) -> bool {
    let own = names::own_name(name);
    // Nearly every table has none of that name, so its schema is looked at last.
    index_names(table).any(|index| index == own) && names::split(&table.name).0 == names::split(name).0
}

/// The names of the indexes of a table, those of its keys included: without the schema, which is the table's.
fn index_names(table: &Table) -> impl Iterator<Item = &str> {
    let keys = table.primary_key.iter().chain(&table.unique_keys).map(|key| key.name.as_str());
    keys.chain(table.indexes.iter().map(|index| index.name.as_str()))
}

impl Schema {
    pub(crate) fn next_table_id(&self) -> TableId {
        TableId(self.catalog.tables.len() as u32)
    }
}
