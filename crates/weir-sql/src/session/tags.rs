//! Command tags of definitions.

use pg_query::protobuf::{ObjectType, node};

/// The tag of a statement that changes the catalog.
pub(super) fn definition(statement: &node::Node) -> Option<&'static str> {
    use node::Node as N;
    Some(match statement {
        N::CreateStmt(_) => "CREATE TABLE",
        N::CreateTableAsStmt(create) => match create.objtype() {
            ObjectType::ObjectMatview => "CREATE MATERIALIZED VIEW",
            _ => "SELECT",
        },
        N::CreateSchemaStmt(_) => "CREATE SCHEMA",
        N::CreateSeqStmt(_) => "CREATE SEQUENCE",
        N::CreateDomainStmt(_) => "CREATE DOMAIN",
        N::CreateEnumStmt(_) => "CREATE TYPE",
        N::CreateFunctionStmt(create) if create.is_procedure => "CREATE PROCEDURE",
        N::CreateFunctionStmt(_) => "CREATE FUNCTION",
        N::CreateTrigStmt(_) => "CREATE TRIGGER",
        N::CreateExtensionStmt(_) => "CREATE EXTENSION",
        N::AlterTableStmt(alter) => alter_tag(alter.objtype()),
        N::AlterSeqStmt(_) => "ALTER SEQUENCE",
        N::AlterDomainStmt(_) => "ALTER DOMAIN",
        N::AlterEnumStmt(_) => "ALTER TYPE",
        N::AlterFunctionStmt(alter) => alter_tag(alter.objtype()),
        N::AlterOwnerStmt(alter) => alter_tag(alter.object_type()),
        N::AlterObjectSchemaStmt(alter) => alter_tag(alter.object_type()),
        N::IndexStmt(_) => "CREATE INDEX",
        N::ViewStmt(_) => "CREATE VIEW",
        N::RenameStmt(rename) => alter_tag(match rename.rename_type() {
            ObjectType::ObjectColumn | ObjectType::ObjectTabconstraint => rename.relation_type(),
            ObjectType::ObjectDomconstraint => ObjectType::ObjectDomain,
            other => other,
        }),
        N::DropStmt(drop) => drop_tag(drop.remove_type()),
        N::TruncateStmt(_) => "TRUNCATE TABLE",
        N::CommentStmt(_) => "COMMENT",
        N::GrantStmt(grant) if grant.is_grant => "GRANT",
        N::GrantStmt(_) => "REVOKE",
        _ => return None,
    })
}

fn alter_tag(object: ObjectType) -> &'static str {
    match object {
        ObjectType::ObjectView => "ALTER VIEW",
        ObjectType::ObjectMatview => "ALTER MATERIALIZED VIEW",
        ObjectType::ObjectIndex => "ALTER INDEX",
        ObjectType::ObjectSequence => "ALTER SEQUENCE",
        ObjectType::ObjectType => "ALTER TYPE",
        ObjectType::ObjectDomain => "ALTER DOMAIN",
        ObjectType::ObjectFunction => "ALTER FUNCTION",
        ObjectType::ObjectProcedure => "ALTER PROCEDURE",
        ObjectType::ObjectRoutine => "ALTER ROUTINE",
        ObjectType::ObjectSchema => "ALTER SCHEMA",
        ObjectType::ObjectTrigger => "ALTER TRIGGER",
        _ => "ALTER TABLE",
    }
}

fn drop_tag(object: ObjectType) -> &'static str {
    match object {
        ObjectType::ObjectView => "DROP VIEW",
        ObjectType::ObjectMatview => "DROP MATERIALIZED VIEW",
        ObjectType::ObjectIndex => "DROP INDEX",
        ObjectType::ObjectSequence => "DROP SEQUENCE",
        ObjectType::ObjectType => "DROP TYPE",
        ObjectType::ObjectDomain => "DROP DOMAIN",
        ObjectType::ObjectFunction => "DROP FUNCTION",
        ObjectType::ObjectProcedure => "DROP PROCEDURE",
        ObjectType::ObjectRoutine => "DROP ROUTINE",
        ObjectType::ObjectSchema => "DROP SCHEMA",
        ObjectType::ObjectTrigger => "DROP TRIGGER",
        ObjectType::ObjectExtension => "DROP EXTENSION",
        ObjectType::ObjectRule => "DROP RULE",
        ObjectType::ObjectPolicy => "DROP POLICY",
        ObjectType::ObjectAggregate => "DROP AGGREGATE",
        ObjectType::ObjectOperator => "DROP OPERATOR",
        ObjectType::ObjectCollation => "DROP COLLATION",
        ObjectType::ObjectStatisticExt => "DROP STATISTICS",
        ObjectType::ObjectPublication => "DROP PUBLICATION",
        ObjectType::ObjectForeignServer => "DROP SERVER",
        ObjectType::ObjectEventTrigger => "DROP EVENT TRIGGER",
        ObjectType::ObjectForeignTable => "DROP FOREIGN TABLE",
        ObjectType::ObjectCast => "DROP CAST",
        _ => "DROP TABLE",
    }
}
