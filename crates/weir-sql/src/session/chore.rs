//! VACUUM, ANALYZE, REINDEX and CLUSTER: a server of this kind has nothing to do for them. What they name has to be there.

use pg_query::protobuf::{ClusterStmt, Node, ReindexObjectType, ReindexStmt, VacuumStmt, node};
use weir_types::{SqlError, SqlState};

use super::constant;
use crate::catalog::{Catalog, Table};
use crate::ddl::relation_name;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chore {
    /// Command tag for the client.
    pub tag: &'static str,
    /// Relations, each with the named columns.
    relations: Vec<(String, Vec<String>)>,
    /// Index of the first relation, or of any.
    index: Option<String>,
    schema: Option<String>,
    /// Not allowed inside a transaction block.
    is_alone: bool,
}

/// Options of VACUUM and ANALYZE.
const OPTIONS: [&str; 14] = [
    "analyze",
    "buffer_usage_limit",
    "disable_page_skipping",
    "freeze",
    "full",
    "index_cleanup",
    "only_database_stats",
    "parallel",
    "process_main",
    "process_toast",
    "skip_database_stats",
    "skip_locked",
    "truncate",
    "verbose",
];

fn option_names(options: &[Node]) -> impl Iterator<Item = &str> {
    options.iter().filter_map(|node| match &node.node {
        Some(node::Node::DefElem(option)) => Some(option.defname.as_str()),
        _ => None,
    })
}

impl Chore {
    /// # Errors
    /// An option that there is not (42601).
    pub(super) fn vacuum(stmt: &VacuumStmt) -> Result<Chore, SqlError> {
        let tag = if stmt.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
        if let Some(unknown) = option_names(&stmt.options).find(|name| !OPTIONS.contains(name)) {
            let message = format!("unrecognized {tag} option \"{unknown}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let relation = |node: &Node| match &node.node {
            Some(node::Node::VacuumRelation(of)) => {
                let columns = of.va_cols.iter().filter_map(constant).collect();
                Some((of.relation.as_ref().map(relation_name)?, columns))
            }
            _ => None,
        };
        let relations = stmt.rels.iter().filter_map(relation).collect();
        Ok(Chore { tag, relations, is_alone: stmt.is_vacuumcmd, ..Chore::default() })
    }

    pub(super) fn cluster(stmt: &ClusterStmt) -> Chore {
        Chore {
            tag: "CLUSTER",
            relations: stmt.relation.iter().map(|range| (relation_name(range), Vec::new())).collect(),
            index: Some(stmt.indexname.clone()).filter(|name| !name.is_empty()),
            is_alone: stmt.relation.is_none(),
            ..Chore::default()
        }
    }

    pub(super) fn reindex(stmt: &ReindexStmt) -> Chore {
        let is_alone = option_names(&stmt.params).any(|name| name == "concurrently");
        let chore = Chore { tag: "REINDEX", is_alone, ..Chore::default() };
        let name = stmt.relation.as_ref().map(relation_name);
        match stmt.kind() {
            ReindexObjectType::ReindexObjectIndex => Chore { index: name, ..chore },
            ReindexObjectType::ReindexObjectTable => {
                Chore { relations: name.into_iter().map(|name| (name, Vec::new())).collect(), ..chore }
            }
            ReindexObjectType::ReindexObjectSchema => {
                Chore { schema: Some(stmt.name.clone()), is_alone: true, ..chore }
            }
            _ => Chore { is_alone: true, ..chore },
        }
    }

    /// # Errors
    /// A named object does not exist (42P01, 42703, 42704, 3F000) or is of another kind (42809), or a transaction is open (25001).
    pub fn check(&self, catalog: &Catalog, in_transaction: bool) -> Result<(), SqlError> {
        if self.is_alone && in_transaction {
            let message = format!("{} cannot run inside a transaction block", self.tag);
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        for (name, columns) in &self.relations {
            self.check_relation(catalog, name, columns)?;
        }
        if let Some(schema) = &self.schema
            && schema != "public"
            && !catalog.schemas.contains(schema)
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        match &self.index {
            Some(index) => self.check_index(catalog, index),
            None => Ok(()),
        }
    }

    fn check_relation(&self, catalog: &Catalog, name: &str, columns: &[String]) -> Result<(), SqlError> {
        if let Some(table) = catalog.table_by_name(name) {
            let unknown = columns.iter().find(|column| table.column_by_name(column).is_none());
            return unknown.map_or(Ok(()), |column| {
                let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            });
        }
        let is_view = catalog.views.iter().any(|view| view.name == name);
        if is_view || catalog.partitions.contains_key(name) {
            return Ok(());
        }
        Err(missing(catalog, name))
    }

    fn check_index(&self, catalog: &Catalog, index: &str) -> Result<(), SqlError> {
        if let Some((table, _)) = self.relations.first() {
            let has = catalog.table_by_name(table).is_some_and(|table| has_index(table, index));
            return match has {
                true => Ok(()),
                false => {
                    let message = format!("index \"{index}\" for table \"{table}\" does not exist");
                    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
                }
            };
        }
        let (schema, own) = index.split_once('.').unwrap_or(("", index));
        let of_schema =
            |table: &&Table| table.name.split_once('.').map_or("", |(schema, _)| schema) == schema;
        if catalog.tables.iter().filter(of_schema).any(|table| has_index(table, own)) {
            return Ok(());
        }
        match catalog.table_by_name(index) {
            Some(_) => {
                let message = format!("\"{index}\" is not an index");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => Err(missing(catalog, index)),
        }
    }
}

fn missing(catalog: &Catalog, name: &str) -> SqlError {
    match name.split_once('.') {
        Some((schema, _)) if !catalog.schemas.contains(schema) => {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"))
        }
        _ => SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")),
    }
}

fn has_index(table: &Table, name: &str) -> bool {
    let keys = table.primary_key.iter().chain(&table.unique_keys).map(|key| &key.name);
    keys.chain(table.indexes.iter().map(|index| &index.name)).any(|one| one == name)
}
