//! Tables and indexes as storage needs them: column types, key columns, row layout.

use crate::entries::{EntriesId, entries_id};
use std::collections::BTreeSet;
use std::sync::Arc;

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{Catalog, ColumnIndex, TableId};
use weir_types::{SqlError, SqlState, SqlType, Value};

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
    /// Entries of its global keys; none on one shard.
    pub entries: Vec<EntriesSchema>,
}

/// Entries of a global key: a unique index whose columns do not say on which shard a row lives (docs/internals/global-keys.md). They are
/// rows of the key's columns and the number of the row's home, at the shard that the key's values say, the key's owner.
#[derive(Clone, Debug)]
pub struct EntriesSchema {
    pub index: IndexId,
    pub schema: Arc<TableSchema>,
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

impl IndexSchema {
    /// Values of its columns; an index on an expression has fewer columns than keys.
    pub fn values(&self, value: &dyn Fn(ColumnIndex) -> Value) -> Vec<Value> {
        self.columns.iter().filter_map(|column| column.column).map(value).collect()
    }
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

    /// Makes these unique indexes of the table its global keys.
    pub(crate) fn set_global_keys(&mut self, table: TableId, indexes: &[IndexId]) {
        let schema = &mut self.tables[table.0 as usize];
        if indexes.is_empty() && schema.entries.is_empty() {
            return;
        }
        let of = |(at, &index): (usize, &IndexId)| EntriesSchema {
            index,
            schema: Arc::new(schema.of_entries(entries_id(table, at), index)),
        };
        let entries = indexes.iter().enumerate().map(of).collect();
        Arc::make_mut(schema).entries = entries;
    }

    /// Returns whether there is that table, or are those entries.
    pub fn has(&self, id: TableId) -> bool {
        match EntriesId::of(id) {
            None => (id.0 as usize) < self.tables.len(),
            Some(EntriesId { table, at }) => {
                self.tables.get(table.0 as usize).is_some_and(|table| at < table.entries.len())
            }
        }
    }

    #[inline]
    pub fn table(&self, id: TableId) -> &TableSchema {
        match EntriesId::of(id) {
            None => &self.tables[id.0 as usize],
            Some(EntriesId { table, at }) => &self.tables[table.0 as usize].entries[at].schema,
        }
    }

    /// The entries of all global keys.
    pub fn all_entries(&self) -> impl Iterator<Item = TableId> {
        let of = |(table, schema): (u32, &Arc<TableSchema>)| {
            (0..schema.entries.len()).map(move |at| entries_id(TableId(table), at))
        };
        (0..).zip(&self.tables).flat_map(of)
    }

    /// The entries of a global key; none: the index is not one.
    pub fn entries_of(&self, table: TableId, index: IndexId) -> Option<TableId> {
        let at = self.table(table).entries.iter().position(|entries| entries.index == index)?;
        Some(entries_id(table, at))
    }

    /// The index under which a unique key is claimed: an entry's key is that of the table's own index, so that rows and entries of one key
    /// exclude each other.
    pub fn claimed_as(&self, table: TableId, index: IndexId) -> (TableId, IndexId) {
        match EntriesId::of(table) {
            None => (table, index),
            Some(EntriesId { table, at }) => (table, self.table(table).entries[at].index),
        }
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
            entries: Vec::new(),
        }
    }

    /// The unique violation (23505) of a row with these values, as in PostgreSQL.
    pub fn unique_violation(&self, index: IndexId, values: &dyn Fn(ColumnIndex) -> Value) -> SqlError {
        let index = &self.indexes[index];
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for column in index.columns.iter().take(index.told).filter_map(|column| column.column) {
            names.push(self.column_names[column].as_str());
            texts.push(match values(column) {
                Value::Null => "null".to_string(),
                value => weir_types::text::to_text(&value, &self.types[column]),
            });
        }
        SqlError::new(
            SqlState::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{}\"", index.name),
        )
        .with_detail(format!("Key ({})=({}) already exists.", names.join(", "), texts.join(", ")))
        .with_constraint(index.name.clone())
    }

    /// Returns whether a conflict at this arbiter, or at any unique key, may be with a row of another shard.
    pub fn may_arbitrate_globally(&self, arbiter: Option<IndexId>) -> bool {
        self.entries.iter().any(|key| arbiter.is_none_or(|arbiter| arbiter == key.index))
    }

    /// Schema of the entries of a global key, whose keys have the same bytes as those of the table's index.
    fn of_entries(&self, id: TableId, index: IndexId) -> TableSchema {
        let of = &self.indexes[index];
        let columns: Vec<ColumnIndex> = of.columns.iter().filter_map(|column| column.column).collect();
        let key = of.columns.iter().enumerate().map(|(at, column)| IndexColumn {
            column: Some(at),
            expr: Expr {
                kind: ExprKind::Column { relation: weir_sql::bound::RelationId(0), column: at },
                ..column.expr.clone()
            },
            ..column.clone()
        });
        let unique = IndexSchema { columns: key.collect(), looked_up: true, ..of.clone() };
        let names = columns.iter().map(|&column| self.column_names[column].clone());
        let types = columns.iter().map(|&column| self.types[column].clone());
        let not_null = columns.iter().map(|&column| self.not_null[column]);
        TableSchema {
            id,
            name: format!("{}.{}", self.name, of.name),
            column_names: names.chain(["home".to_owned()]).collect(),
            types: types.chain([SqlType::Int4]).collect(),
            not_null: not_null.chain([true]).collect(),
            hidden: vec![true; columns.len() + 1],
            in_keys: vec![true; columns.len() + 1],
            indexes: vec![unique],
            has_primary_key: false,
            entries: Vec::new(),
        }
    }
}
