//! Declarations of relations, and their mapping to items.
//!
//! Every key begins with a name and a slash: for rows the relation's name; for entries the relation's and the index's or view's,
//! separated by a dot. Parts within a key end with the bytes 0 1, and a 0 within them is encoded as 0 255, so that they sort by their
//! bytes.

use std::collections::BTreeSet;
use std::fmt;

use weir_core::ids::TxnId;

use super::row::txn_bytes;
use crate::{Bytes, Key, KeyRange};

/// Index keys of a row, computed from the row's key and value.
pub type IndexKeys = fn(&Key, &Bytes) -> Vec<Bytes>;

/// Groups and the amounts that a row adds to them.
pub type Contributions = fn(&Key, &Bytes) -> Vec<(Bytes, i64)>;

/// Key of the parent's row; none for a row without a parent.
pub type ParentOf = fn(&Key, &Bytes) -> Option<Key>;

/// Projection of a row in a view; none for a row that is not in the view.
pub type Projection = fn(&Key, &Bytes) -> Option<Bytes>;

#[derive(Clone, Debug)]
pub struct Index {
    pub name: &'static str,
    pub keys: IndexKeys,
}

/// A foreign key with cascading deletes.
#[derive(Clone, Debug)]
pub struct Reference {
    pub parent: ParentOf,
}

#[derive(Clone, Debug)]
pub enum ViewKind {
    /// A sum for each group; a count adds ones.
    Sum(Contributions),
    Select(Projection),
}

#[derive(Clone, Debug)]
pub struct View {
    pub name: &'static str,
    pub kind: ViewKind,
}

#[derive(Clone, Debug)]
pub struct Relation {
    pub name: &'static str,
    pub indexes: Vec<Index>,
    pub reference: Option<Reference>,
    pub views: Vec<View>,
}

#[derive(Clone, Debug)]
pub struct Schema {
    relations: Vec<Relation>,
}

/// Error in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// A name that is empty, or has a dot or a slash in it.
    Name(&'static str),
    /// Duplicate name of relations, or of indexes and views of one relation.
    Twice(String),
    /// A relation with a parent must not have views: they would contain rows that are hidden with their parent.
    ViewsOfChildren(&'static str),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::Name(name) => {
                write!(f, "`{name}` is no name: it must not be empty, nor have a dot or a slash in it")
            }
            SchemaError::Twice(name) => write!(f, "there are two of the name `{name}`"),
            SchemaError::ViewsOfChildren(relation) => {
                write!(
                    f,
                    "`{relation}` refers to a parent, so it has no views: rows without a parent would be in them"
                )
            }
        }
    }
}

impl std::error::Error for SchemaError {}

/// Index that every relation with a parent has: children by the keys of their parents.
const CHILDREN: &str = "parent";

impl Schema {
    /// # Errors
    /// A declaration is not supported.
    pub fn new(relations: Vec<Relation>) -> Result<Schema, SchemaError> {
        let mut names = BTreeSet::new();
        for relation in &relations {
            let children = relation.reference.iter().map(|_| CHILDREN);
            let indexes = relation.indexes.iter().map(|index| index.name);
            let parts = children.chain(indexes).chain(relation.views.iter().map(|view| view.name));
            let parts = parts.map(|part| (part, format!("{}.{part}", relation.name)));
            for (part, name) in [(relation.name, relation.name.to_owned())].into_iter().chain(parts) {
                if part.is_empty() || part.contains(['.', '/']) {
                    return Err(SchemaError::Name(part));
                }
                if !names.insert(name.clone()) {
                    return Err(SchemaError::Twice(name));
                }
            }
            if relation.reference.is_some() && !relation.views.is_empty() {
                return Err(SchemaError::ViewsOfChildren(relation.name));
            }
        }
        Ok(Schema { relations })
    }

    pub fn relation(&self, name: &str) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.name == name)
    }

    /// The relation of a row.
    pub(super) fn relation_of(&self, key: &Key) -> Option<&Relation> {
        let end = key.iter().position(|byte| *byte == b'/')?;
        self.relations.iter().find(|relation| relation.name.as_bytes() == &key[..end])
    }

    /// Relations with a parent.
    pub(super) fn children(&self) -> impl Iterator<Item = &Relation> {
        self.relations.iter().filter(|relation| relation.reference.is_some())
    }
}

impl Relation {
    /// A relation without indexes, parent and views.
    pub fn plain(name: &'static str) -> Relation {
        Relation { name, indexes: Vec::new(), reference: None, views: Vec::new() }
    }

    /// Key of the row with that id.
    pub fn key(&self, id: &[u8]) -> Key {
        let mut key = format!("{}/", self.name).into_bytes();
        key.extend_from_slice(id);
        Key::new(&key)
    }

    /// Range of all its rows.
    pub fn rows(&self) -> KeyRange {
        range_of(format!("{}/", self.name).into_bytes())
    }

    pub(super) fn parent_of(&self, key: &Key, value: &Bytes) -> Option<Key> {
        self.reference.as_ref().and_then(|reference| (reference.parent)(key, value))
    }

    /// Keys of a row in that index; none if there is no such index.
    pub(super) fn index_keys(&self, index: &str, key: &Key, value: &Bytes) -> Option<Vec<Bytes>> {
        if index == CHILDREN && self.reference.is_some() {
            return Some(self.parent_of(key, value).into_iter().collect());
        }
        let index = self.indexes.iter().find(|one| one.name == index)?;
        Some((index.keys)(key, value))
    }

    pub(super) fn has_index(&self, index: &str) -> bool {
        (index == CHILDREN && self.reference.is_some()) || self.indexes.iter().any(|one| one.name == index)
    }

    /// Index entries of a row that this transaction has written.
    pub(super) fn entries(&self, key: &Key, value: &Bytes, txn: TxnId) -> Vec<Key> {
        let of_parent = self.parent_of(key, value).map(|parent| (CHILDREN, parent));
        let of_indexes = self
            .indexes
            .iter()
            .flat_map(|index| (index.keys)(key, value).into_iter().map(|of| (index.name, of)));
        let all: BTreeSet<(&str, Bytes)> = of_parent.into_iter().chain(of_indexes).collect();
        let entry = |(index, of): (&str, Bytes)| {
            let mut entry = self.before(index, &of);
            push_part(&mut entry, key);
            entry.extend(txn_bytes(txn));
            Key::new(&entry)
        };
        all.into_iter().map(entry).collect()
    }

    /// Range of the entries of one index key.
    pub(super) fn entries_of(&self, index: &str, of: &[u8]) -> KeyRange {
        range_of(self.before(index, of))
    }

    /// Range of the entries of a row's children.
    pub(super) fn children_of(&self, parent: &Key) -> KeyRange {
        self.entries_of(CHILDREN, parent)
    }

    /// Row of an entry in that range.
    pub(super) fn row_of(&self, index: &str, of: &[u8], entry: &Key) -> Option<Key> {
        let part = entry.strip_prefix(&self.before(index, of)[..])?;
        let end = part.windows(2).position(|two| two == [0, 1])?;
        let mut row = Vec::with_capacity(end);
        let mut bytes = part[..end].iter();
        while let Some(byte) = bytes.next() {
            row.push(*byte);
            if *byte == 0 {
                bytes.next();
            }
        }
        Some(Key::new(&row))
    }

    pub(super) fn child_of(&self, parent: &Key, entry: &Key) -> Option<Key> {
        self.row_of(CHILDREN, parent, entry)
    }

    /// Item that contains a group's sum.
    pub(super) fn group(&self, view: &str, group: &[u8]) -> Key {
        Key::new(&self.before(view, group))
    }

    /// Item that contains a view's projection of a row.
    pub(super) fn selected(&self, view: &str, row: &Key) -> Key {
        Key::new(&[format!("{}.{view}/", self.name).as_bytes(), row].concat())
    }

    /// Range of all projections of a view.
    pub(super) fn all_selected(&self, view: &str) -> KeyRange {
        range_of(format!("{}.{view}/", self.name).into_bytes())
    }

    fn before(&self, index: &str, of: &[u8]) -> Vec<u8> {
        let mut bytes = format!("{}.{index}/", self.name).into_bytes();
        push_part(&mut bytes, of);
        bytes
    }
}

fn push_part(key: &mut Vec<u8>, part: &[u8]) {
    for byte in part {
        key.push(*byte);
        if *byte == 0 {
            key.push(255);
        }
    }
    key.extend([0, 1]);
}

/// All keys with that prefix, whose last byte is not 255.
fn range_of(from: Vec<u8>) -> KeyRange {
    let mut to = from.clone();
    if let Some(last) = to.last_mut() {
        *last += 1;
    }
    KeyRange { from: Key::new(&from), to: Key::new(&to) }
}
