//! Tables and indexes as storage needs them: column types, key columns, row layout.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{Catalog, ColumnIndex, TableId};
use weir_types::SqlType;

/// Index of an index in [`TableSchema::indexes`].
pub type IndexId = usize;

#[derive(Clone, Debug)]
pub struct Schema {
    /// Tables by [`TableId`]. The next schema version shares those that its definition leaves as they are.
    pub tables: Vec<Arc<TableSchema>>,
}

#[derive(Clone, Debug)]
pub struct TableSchema {
    pub id: TableId,
    pub name: String,
    pub column_names: Vec<String>,
    pub types: Vec<SqlType>,
    pub not_null: Vec<bool>,
    /// By column: not visible to users.
    pub hidden: Vec<bool>,
    /// By column: part of a key that a foreign key may reference, as in PostgreSQL: of a unique, non-partial index on plain columns.
    pub in_keys: Vec<bool>,
    /// The primary key first (if there is one), then UNIQUE constraints, then CREATE INDEX.
    pub indexes: Vec<IndexSchema>,
    pub has_primary_key: bool,
}

#[derive(Clone, Debug)]
pub struct IndexSchema {
    pub name: String,
    pub columns: Vec<IndexColumn>,
    /// No two rows have the same key, unless a column of the key is NULL and nulls are distinct.
    pub unique: bool,
    pub nulls_not_distinct: bool,
    /// Rows for which the predicate is not true are not in the index. Its columns are of relation 0.
    pub predicate: Option<Expr>,
    /// Number of leading columns that the message of a unique violation shows.
    pub told: usize,
    /// Some statement or foreign key looks up full keys, so a hash table pays off.
    pub looked_up: bool,
}

#[derive(Clone, Debug)]
pub struct IndexColumn {
    /// `None` for an expression index.
    pub column: Option<ColumnIndex>,
    /// The expression; its columns are of relation 0.
    pub expr: Expr,
    pub ty: SqlType,
    /// A NULL may occur, so every key carries a marker byte.
    pub nullable: bool,
    pub descending: bool,
    pub nulls_first: bool,
}

impl Schema {
    pub fn new(catalog: &Catalog) -> Schema {
        Schema { tables: catalog.tables.iter().map(TableSchema::new).map(Arc::new).collect() }
    }

    /// Schema of the catalog, whose tables are those of this schema except for the `changed` ones and new ones at the end.
    pub(crate) fn with_changed(&self, catalog: &Catalog, changed: &BTreeSet<TableId>) -> Schema {
        let mut tables = self.tables.clone();
        for &id in changed {
            let table = Arc::new(TableSchema::new(catalog.table(id)));
            match tables.get_mut(id.0 as usize) {
                Some(old) => *old = table,
                None => tables.push(table),
            }
        }
        Schema { tables }
    }

    /// Marks the indexes of the table that are looked up by full keys: these, and no others.
    pub(crate) fn look_up(&mut self, table: TableId, indexes: &BTreeSet<IndexId>) {
        let table = &mut self.tables[table.0 as usize];
        let is_marked = |(at, index): (IndexId, &IndexSchema)| index.looked_up == indexes.contains(&at);
        if table.indexes.iter().enumerate().all(is_marked) {
            return;
        }
        for (at, index) in Arc::make_mut(table).indexes.iter_mut().enumerate() {
            index.looked_up = indexes.contains(&at);
        }
    }

    pub fn table(&self, id: TableId) -> &TableSchema {
        &self.tables[id.0 as usize]
    }
}

impl TableSchema {
    fn new(table: &weir_sql::catalog::Table) -> TableSchema {
        let not_null: Vec<bool> = table.columns.iter().map(|column| column.not_null).collect();
        let column = |index: ColumnIndex| IndexColumn {
            column: Some(index),
            expr: Expr {
                kind: ExprKind::Column { relation: weir_sql::bound::RelationId(0), column: index },
                ty: table.columns[index].ty.clone(),
                span: table.columns[index].span,
            },
            ty: table.columns[index].ty.clone(),
            nullable: !not_null[index],
            descending: false,
            nulls_first: false,
        };
        let key = |key: &weir_sql::catalog::UniqueKey| IndexSchema {
            name: key.name.clone(),
            columns: key.columns.iter().map(|&index| column(index)).collect(),
            unique: true,
            nulls_not_distinct: key.nulls_not_distinct,
            predicate: None,
            told: key.columns.len(),
            looked_up: false,
        };
        let mut indexes: Vec<IndexSchema> =
            table.primary_key.iter().chain(&table.unique_keys).map(key).collect();
        for index in &table.indexes {
            let is_column =
                |key: &weir_sql::catalog::IndexKey| matches!(key.expr.kind, ExprKind::Column { .. });
            // A non-unique index on an expression would only speed up searches, and no search uses it yet.
            if !index.unique && !index.keys.iter().all(is_column) {
                continue;
            }
            indexes.push(IndexSchema {
                name: index.name.clone(),
                columns: index
                    .keys
                    .iter()
                    .map(|key| match key.expr.kind {
                        ExprKind::Column { column: index, .. } => IndexColumn {
                            descending: key.descending,
                            nulls_first: key.nulls_first,
                            ..column(index)
                        },
                        _ => IndexColumn {
                            column: None,
                            expr: key.expr.clone(),
                            ty: key.expr.ty.clone(),
                            nullable: true,
                            descending: key.descending,
                            nulls_first: key.nulls_first,
                        },
                    })
                    .collect(),
                unique: index.unique,
                nulls_not_distinct: index.nulls_not_distinct,
                // The predicate of such a partial index holds for all rows here, so it can be omitted.
                predicate: None,
                told: index.written_keys().len(),
                looked_up: false,
            });
        }
        let hidden: Vec<bool> = table.columns.iter().map(|column| column.is_hidden).collect();
        let is_visible = |of: &IndexColumn| of.column.is_some_and(|column| !hidden[column]);
        let keys = indexes.iter().filter(|index| index.unique && index.columns.iter().all(is_visible));
        let mut in_keys = vec![false; hidden.len()];
        for column in keys.flat_map(|index| &index.columns).filter_map(|of| of.column) {
            in_keys[column] = true;
        }
        TableSchema {
            id: table.id,
            name: table.name.clone(),
            column_names: table.columns.iter().map(|column| column.name.clone()).collect(),
            types: table.columns.iter().map(|column| column.ty.clone()).collect(),
            not_null,
            hidden,
            in_keys,
            indexes,
            has_primary_key: table.primary_key.is_some(),
        }
    }
}
