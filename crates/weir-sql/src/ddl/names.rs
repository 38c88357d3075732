//! Names of statements and expressions, for refusals.

use pg_query::protobuf::{RangeVar, node};

use crate::source::{Diagnostic, Span};

/// A relation's name in the catalog: `public` is left away, any other schema is part of the name.
pub(crate) fn relation_name(range: &RangeVar) -> String {
    qualified(&range.schemaname, &range.relname)
}

pub(crate) fn qualified(schema: &str, name: &str) -> String {
    match schema {
        "" | "public" => name.to_owned(),
        schema => format!("{schema}.{name}"),
    }
}

/// The schema of a name of the catalog, empty for `public`, and the name within it.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or(("", name))
}

/// A name of the catalog without its schema.
pub(super) fn own_name(name: &str) -> &str {
    split(name).1
}

/// `name` in the schema of the relation `of`.
pub(super) fn beside(of: &str, name: &str) -> String {
    qualified(split(of).0, name)
}

/// The variant's name in the parse tree, which is PostgreSQL's name of the node.
fn variant(node: &node::Node) -> String {
    let debug = format!("{node:?}");
    debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// `CreateTrigStmt` as people write it, CREATE TRIGGER.
pub(crate) fn statement_name(node: &node::Node) -> String {
    let name = match node {
        node::Node::SelectStmt(_) => "SELECT",
        node::Node::InsertStmt(_) => "INSERT",
        node::Node::UpdateStmt(_) => "UPDATE",
        node::Node::DeleteStmt(_) => "DELETE",
        node::Node::MergeStmt(_) => "MERGE",
        node::Node::CallStmt(_) => "CALL",
        node::Node::DoStmt(_) => "DO",
        node::Node::CopyStmt(_) => "COPY",
        node::Node::CreateStmt(_) => "CREATE TABLE",
        node::Node::CreateTableAsStmt(_) => "CREATE TABLE AS",
        node::Node::IndexStmt(_) => "CREATE INDEX",
        node::Node::ViewStmt(_) => "CREATE VIEW",
        node::Node::CreateFunctionStmt(_) => "CREATE FUNCTION",
        node::Node::CreateSeqStmt(_) => "CREATE SEQUENCE",
        node::Node::AlterTableStmt(_) => "ALTER TABLE",
        node::Node::CreateTrigStmt(_) => "CREATE TRIGGER",
        node::Node::CreateDomainStmt(_) => "CREATE DOMAIN",
        node::Node::CreateEnumStmt(_) => "CREATE TYPE … AS ENUM",
        node::Node::CompositeTypeStmt(_) => "CREATE TYPE",
        node::Node::CreateRangeStmt(_) => "CREATE TYPE … AS RANGE",
        node::Node::DefineStmt(_) => "CREATE AGGREGATE, OPERATOR or TYPE",
        node::Node::RuleStmt(_) => "CREATE RULE",
        node::Node::CreatePolicyStmt(_) => "CREATE POLICY",
        node::Node::CreateRoleStmt(_) => "CREATE ROLE",
        node::Node::GrantStmt(_) => "GRANT or REVOKE",
        node::Node::GrantRoleStmt(_) => "GRANT or REVOKE of a role",
        node::Node::AlterDefaultPrivilegesStmt(_) => "ALTER DEFAULT PRIVILEGES",
        node::Node::RenameStmt(_) => "ALTER … RENAME",
        node::Node::AlterObjectSchemaStmt(_) => "ALTER … SET SCHEMA",
        node::Node::AlterOwnerStmt(_) => "this ALTER … OWNER TO",
        node::Node::TruncateStmt(_) => "TRUNCATE",
        node::Node::VacuumStmt(_) => "VACUUM or ANALYZE",
        node::Node::ExplainStmt(_) => "EXPLAIN",
        node::Node::LockStmt(_) => "LOCK TABLE",
        node::Node::RefreshMatViewStmt(_) => "REFRESH MATERIALIZED VIEW",
        node::Node::PrepareStmt(_) => "PREPARE",
        node::Node::ExecuteStmt(_) => "EXECUTE",
        node::Node::DeclareCursorStmt(_) => "DECLARE CURSOR",
        node::Node::TransactionStmt(_) => "a transaction statement",
        node::Node::VariableSetStmt(_) => "SET",
        node::Node::DropStmt(_) => "DROP",
        node::Node::CommentStmt(_) => "COMMENT",
        node::Node::CreateStatsStmt(_) => "CREATE STATISTICS",
        node::Node::CreatePublicationStmt(_) => "CREATE PUBLICATION",
        node::Node::CreateSubscriptionStmt(_) => "CREATE SUBSCRIPTION",
        node::Node::CreateEventTrigStmt(_) => "CREATE EVENT TRIGGER",
        node::Node::AlterDomainStmt(_) => "ALTER DOMAIN",
        node::Node::AlterEnumStmt(_) => "ALTER TYPE",
        node::Node::AlterRoleStmt(_) => "ALTER ROLE",
        node::Node::CreateForeignTableStmt(_) => "CREATE FOREIGN TABLE",
        node::Node::CreateCastStmt(_) => "CREATE CAST",
        node::Node::ListenStmt(_) => "LISTEN",
        node::Node::NotifyStmt(_) => "NOTIFY",
        _ => return variant(node),
    };
    name.to_owned()
}

/// Returns whether a statement concerns privileges or storage, on which no transaction's effects depend.
pub(super) fn is_administration(node: &node::Node) -> bool {
    use node::Node::*;
    matches!(
        node,
        GrantStmt(_)
            | GrantRoleStmt(_)
            | CreateRoleStmt(_)
            | AlterRoleStmt(_)
            | AlterRoleSetStmt(_)
            | DropRoleStmt(_)
            | CreatePolicyStmt(_)
            | AlterPolicyStmt(_)
            | AlterDefaultPrivilegesStmt(_)
            | AlterExtensionStmt(_)
            | AlterExtensionContentsStmt(_)
            | AlterObjectDependsStmt(_)
            | CreatePublicationStmt(_)
            | AlterPublicationStmt(_)
            | CreateSubscriptionStmt(_)
            | AlterSubscriptionStmt(_)
            | CreateStatsStmt(_)
            | AlterStatsStmt(_)
            | CreateEventTrigStmt(_)
            | AlterEventTrigStmt(_)
            | CreateFdwStmt(_)
            | CreateForeignServerStmt(_)
            | CreateUserMappingStmt(_)
            | CreateTableSpaceStmt(_)
            | CreatedbStmt(_)
            | AlterDatabaseStmt(_)
            | AlterDatabaseSetStmt(_)
            | AlterSystemStmt(_)
            | SecLabelStmt(_)
            | VacuumStmt(_)
            | ReindexStmt(_)
            | ClusterStmt(_)
            | CheckPointStmt(_)
            | RefreshMatViewStmt(_)
            | LockStmt(_)
            | NotifyStmt(_)
            | ListenStmt(_)
            | CreateCastStmt(_)
            | CreateConversionStmt(_)
            | CreateOpClassStmt(_)
            | CreateOpFamilyStmt(_)
            | AlterOpFamilyStmt(_)
            | CreatePlangStmt(_)
            | CreateAmStmt(_)
            | CreateTransformStmt(_)
            | DeallocateStmt(_)
            | DiscardStmt(_)
            | InsertStmt(_)
            | CopyStmt(_)
            | UpdateStmt(_)
            | DeleteStmt(_)
            | TruncateStmt(_)
            | CallStmt(_)
            | VariableShowStmt(_)
    )
}

/// An expression or FROM item that Weir does not have.
pub(crate) fn expression_name(node: &node::Node) -> String {
    let name = match node {
        node::Node::XmlExpr(_) | node::Node::XmlSerialize(_) => "an XML expression",
        node::Node::GroupingFunc(_) => "GROUPING",
        node::Node::MultiAssignRef(_) => "a multiple assignment here",
        node::Node::NamedArgExpr(_) => "a named argument",
        node::Node::RangeTableSample(_) => "TABLESAMPLE",
        node::Node::RangeTableFunc(_) => "XMLTABLE",
        node::Node::JsonTable(_) => "JSON_TABLE",
        node::Node::CurrentOfExpr(_) => "WHERE CURRENT OF",
        node::Node::JsonFuncExpr(_)
        | node::Node::JsonObjectConstructor(_)
        | node::Node::JsonArrayConstructor(_)
        | node::Node::JsonIsPredicate(_) => "an SQL/JSON expression",
        node::Node::MergeSupportFunc(_) => "merge_action",
        node::Node::List(_) => "a list as a value",
        _ => return variant(node),
    };
    name.to_owned()
}

/// Refused in a schema file, and what to do instead.
pub(super) fn refusal(node: &node::Node, span: Span) -> Diagnostic {
    let instead = match node {
        node::Node::InsertStmt(_) | node::Node::CopyStmt(_) => {
            "schema files hold no rows: describe the load in workload.toml (pg_dump --schema-only)"
        }
        node::Node::UpdateStmt(_) | node::Node::DeleteStmt(_) | node::Node::CallStmt(_) => {
            "schema files hold no rows: send it to the running server"
        }
        node::Node::DoStmt(_) => "write a CREATE PROCEDURE",
        node::Node::RuleStmt(_) => "do it in the procedures that write the table",
        node::Node::CompositeTypeStmt(_) => "use columns, or jsonb",
        node::Node::GrantStmt(_)
        | node::Node::GrantRoleStmt(_)
        | node::Node::CreateRoleStmt(_)
        | node::Node::CreatePolicyStmt(_)
        | node::Node::AlterDefaultPrivilegesStmt(_) => {
            "there are no roles yet: leave it away (pg_dump --no-privileges)"
        }
        node::Node::RefreshMatViewStmt(_) => "materialized views are always up to date",
        _ => "tables, indexes, sequences, views, procedures, functions and assertions are",
    };
    Diagnostic::unsupported(span, statement_name(node), instead)
}
