//! Statements about whole tables: CREATE TABLE AS and SELECT INTO, materialized views, COPY, LOCK TABLE.

use pg_query::protobuf::{
    CopyStmt, CreateTableAsStmt, LockStmt, Node, ObjectType, RangeVar, SelectStmt, node,
};
use weir_types::function::double_quoted;

use super::{Command, InnerStatement, constant, nothing_within};
use crate::ddl::relation_name;
use crate::source::{Diagnostic, Span};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateAs {
    /// As a catalog has it, and as a text does.
    pub table: String,
    pub written: String,
    /// Other names than those of the query, of the first columns.
    pub columns: Vec<String>,
    pub if_not_exists: bool,
    pub with_data: bool,
    pub query: InnerStatement,
}

/// LOCK TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// As a catalog has them.
    pub tables: Vec<String>,
    pub mode: LockMode,
    pub nowait: bool,
}

/// Operations that a lock mode allows to other transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// ACCESS SHARE: everything but schema changes.
    AccessShare,
    /// ROW SHARE, ROW EXCLUSIVE and SHARE UPDATE EXCLUSIVE: reads and writes.
    Rows,
    /// SHARE, SHARE ROW EXCLUSIVE and EXCLUSIVE: reads.
    Exclusive,
    /// ACCESS EXCLUSIVE, which is meant where nothing is said: nothing.
    AccessExclusive,
}

/// COPY between a client and a table, or from a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub what: Copied,
    pub is_from: bool,
    /// By their names, as they were given.
    pub options: Vec<(String, CopyOption)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Copied {
    /// By the catalog's name, with the schema's before it unless that is `public`. None as columns: all of them.
    Table {
        name: String,
        columns: Vec<String>,
    },
    Query(InnerStatement),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CopyOption {
    /// It is named, and nothing more.
    Bare,
    Text(String),
    Names(Vec<String>),
    /// `*`.
    All,
}

/// `LockStmt.mode` of PostgreSQL.
const ACCESS_SHARE: i32 = 1;
const SHARE: i32 = 5;
const ACCESS_EXCLUSIVE: i32 = 8;

/// CREATE TABLE … AS and CREATE MATERIALIZED VIEW … WITH DATA.
///
/// # Errors
/// It is neither, or the table is temporary: the statement.
pub(super) fn create_as(mut create: CreateTableAsStmt) -> Result<Command, Box<CreateTableAsStmt>> {
    let Some((into, relation)) = create.into.as_deref().and_then(|into| Some((into, into.rel.as_ref()?)))
    else {
        return Err(Box::new(create));
    };
    let (table, written, with_data) = (relation_name(relation), written(relation), !into.skip_data);
    let is_of_session = create.is_select_into || relation.relpersistence == "t";
    match create.objtype() {
        ObjectType::ObjectMatview if with_data => Ok(Command::CreateMaterialized(table, written)),
        ObjectType::ObjectTable if !is_of_session => {
            let columns = into.col_names.iter().filter_map(constant).collect();
            let if_not_exists = create.if_not_exists;
            let query = create.query.take_if(|query| matches!(query.node, Some(node::Node::SelectStmt(_))));
            match InnerStatement::within(query) {
                Some(query) => Ok(Command::CreateAs(CreateAs {
                    table,
                    written,
                    columns,
                    if_not_exists,
                    with_data,
                    query,
                })),
                None => Err(Box::new(create)),
            }
        }
        _ => Err(Box::new(create)),
    }
}

/// SELECT … INTO is CREATE TABLE AS. None: the table is temporary.
pub(super) fn select_into(select: &SelectStmt) -> Option<CreateAs> {
    let relation = select.into_clause.as_deref()?.rel.as_ref();
    let relation = relation.filter(|relation| relation.relpersistence == "p")?;
    Some(CreateAs {
        table: relation_name(relation),
        written: written(relation),
        columns: Vec::new(),
        if_not_exists: false,
        with_data: true,
        query: InnerStatement::query(SelectStmt { into_clause: None, ..select.clone() }),
    })
}

/// The name, quoted.
fn written(relation: &RangeVar) -> String {
    match relation.schemaname.as_str() {
        "" => double_quoted(&relation.relname),
        schema => format!("{}.{}", double_quoted(schema), double_quoted(&relation.relname)),
    }
}

pub(super) fn copy(stmt: CopyStmt, span: Span) -> Result<Command, Diagnostic> {
    let not_here = |what: &str, instead: &str| Err(Diagnostic::unsupported(span, what, instead));
    if stmt.is_program || !stmt.filename.is_empty() {
        return not_here(
            "COPY to or from a file of the server",
            "use \\copy of psql, or COPY … STDIN or STDOUT",
        );
    }
    if stmt.where_clause.is_some() {
        return not_here("COPY … WHERE", "leave the rows out before they are sent");
    }
    let what = match &stmt.relation {
        Some(relation) => Copied::Table {
            name: relation_name(relation),
            columns: stmt.attlist.iter().filter_map(constant).collect(),
        },
        None => Copied::Query(InnerStatement::within(stmt.query).ok_or_else(|| nothing_within(span))?),
    };
    let option = |node: &Node| {
        let Some(node::Node::DefElem(option)) = &node.node else { return None };
        let value = match option.arg.as_deref().map(|arg| (arg, arg.node.as_ref())) {
            None => CopyOption::Bare,
            Some((_, Some(node::Node::AStar(_)))) => CopyOption::All,
            Some((_, Some(node::Node::List(list)))) => {
                CopyOption::Names(list.items.iter().filter_map(constant).collect())
            }
            Some((arg, _)) => constant(arg).map_or(CopyOption::Bare, CopyOption::Text),
        };
        Some((option.defname.clone(), value))
    };
    let options = stmt.options.iter().filter_map(option).collect();
    Ok(Command::Copy(Copy { what, is_from: stmt.is_from, options }))
}

pub(super) fn lock(stmt: &LockStmt) -> Lock {
    let name = |node: &Node| match &node.node {
        Some(node::Node::RangeVar(range)) => Some(relation_name(range)),
        _ => None,
    };
    let mode = match stmt.mode {
        ACCESS_SHARE => LockMode::AccessShare,
        SHARE..ACCESS_EXCLUSIVE => LockMode::Exclusive,
        ACCESS_EXCLUSIVE => LockMode::AccessExclusive,
        _ => LockMode::Rows,
    };
    Lock { tables: stmt.relations.iter().filter_map(name).collect(), mode, nowait: stmt.nowait }
}
