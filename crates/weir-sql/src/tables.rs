//! The tables of a catalog, by their numbers. A copy of a catalog shares the list until one of the two changes it, and then the tables
//! that are not changed, so that the next version of a schema costs what it changes.

use std::ops::{Index, IndexMut};
use std::slice;
use std::sync::Arc;

use crate::catalog::Table;

#[derive(Clone, Default)]
pub struct Tables(Arc<Vec<Arc<Table>>>);

pub type Iter<'t> = std::iter::Map<slice::Iter<'t, Arc<Table>>, fn(&'t Arc<Table>) -> &'t Table>;
pub type IterMut<'t> =
    std::iter::Map<slice::IterMut<'t, Arc<Table>>, fn(&'t mut Arc<Table>) -> &'t mut Table>;

impl Tables {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, at: usize) -> Option<&Table> {
        self.0.get(at).map(|table| &**table)
    }

    pub fn first(&self) -> Option<&Table> {
        self.get(0)
    }

    pub fn iter(&self) -> Iter<'_> {
        let table: fn(&Arc<Table>) -> &Table = |table| table;
        self.0.iter().map(table)
    }

    /// Every table that is looked at becomes the catalog's own.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        let own: fn(&mut Arc<Table>) -> &mut Table = Arc::make_mut;
        Arc::make_mut(&mut self.0).iter_mut().map(own)
    }

    pub fn push(&mut self, table: Table) {
        Arc::make_mut(&mut self.0).push(Arc::new(table));
    }

    pub fn remove(&mut self, at: usize) -> Table {
        Arc::unwrap_or_clone(Arc::make_mut(&mut self.0).remove(at))
    }

    /// Both catalogs have the very table: nobody has changed it since the one was copied from the other.
    pub fn shares(&self, at: usize, other: &Tables, at_other: usize) -> bool {
        match (self.0.get(at), other.0.get(at_other)) {
            (Some(one), Some(another)) => Arc::ptr_eq(one, another),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl Index<usize> for Tables {
    type Output = Table;

    fn index(&self, at: usize) -> &Table {
        &self.0[at]
    }
}

impl IndexMut<usize> for Tables {
    fn index_mut(&mut self, at: usize) -> &mut Table {
        Arc::make_mut(&mut Arc::make_mut(&mut self.0)[at])
    }
}

impl<'t> IntoIterator for &'t Tables {
    type Item = &'t Table;
    type IntoIter = Iter<'t>;

    fn into_iter(self) -> Iter<'t> {
        self.iter()
    }
}

impl<'t> IntoIterator for &'t mut Tables {
    type Item = &'t mut Table;
    type IntoIter = IterMut<'t>;

    fn into_iter(self) -> IterMut<'t> {
        self.iter_mut()
    }
}

impl IntoIterator for Tables {
    type Item = Table;
    type IntoIter = std::vec::IntoIter<Table>;

    fn into_iter(self) -> Self::IntoIter {
        let tables = Arc::unwrap_or_clone(self.0).into_iter();
        tables.map(Arc::unwrap_or_clone).collect::<Vec<Table>>().into_iter()
    }
}

impl FromIterator<Table> for Tables {
    fn from_iter<I: IntoIterator<Item = Table>>(tables: I) -> Tables {
        Tables(Arc::new(tables.into_iter().map(Arc::new).collect()))
    }
}

impl From<Vec<Table>> for Tables {
    fn from(tables: Vec<Table>) -> Tables {
        tables.into_iter().collect()
    }
}
