//! Consequences of a write of a table: the table's triggers, and the foreign keys that reference it.
//!
//! Computed once for a catalog, so that a write need not search all tables.

use weir_sql::catalog::{Catalog, ForeignKey, Table, TableId};

#[derive(Debug)]
pub struct Dependents {
    /// By table: indexes into the catalog's triggers, in the order in which they run.
    triggers: Vec<Vec<usize>>,
    /// By parent: each child with the index of the key, in the catalog's order.
    children: Vec<Vec<(TableId, usize)>>,
}

impl Dependents {
    pub fn new(catalog: &Catalog) -> Dependents {
        let mut triggers = vec![Vec::new(); catalog.tables.len()];
        for (index, trigger) in catalog.triggers.iter().enumerate() {
            triggers[trigger.table.0 as usize].push(index);
        }
        triggers.iter_mut().for_each(|list| list.sort_by_key(|&index| &catalog.triggers[index].name));
        let mut children = vec![Vec::new(); catalog.tables.len()];
        for child in &catalog.tables {
            for (index, key) in child.foreign_keys.iter().enumerate() {
                children[key.parent.0 as usize].push((child.id, index));
            }
        }
        Dependents { triggers, children }
    }

    /// Indexes into the catalog's triggers, in the order of their names.
    pub fn triggers(&self, table: TableId) -> &[usize] {
        &self.triggers[table.0 as usize]
    }

    /// The children of the table, each with the index of the key and the key.
    pub fn children<'c>(
        &self,
        catalog: &'c Catalog,
        parent: TableId,
    ) -> impl Iterator<Item = (&'c Table, usize, &'c ForeignKey)> {
        self.children[parent.0 as usize].iter().map(|&(child, index)| {
            let child = catalog.table(child);
            (child, index, &child.foreign_keys[index])
        })
    }
}
