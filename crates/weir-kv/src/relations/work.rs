//! State of one transaction over rows: what it has read of its cut, its changes, and the order in progress.
//!
//! Requests items and receives them; independent of shards and messages.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::TxnId;

use super::row::{NOBODY, OWN, Row};
use super::schema::{Relation, Schema, ViewKind};
use crate::faults::RelationFaults;
use crate::{Bytes, Guard, ItemRead, Key, KeyRange, ReadSet, Stamp, Write};

/// Order of a client. One order at a time; a transaction ends with a commit, or with an answer that says so.
#[derive(Clone, Debug)]
pub enum Order {
    /// Inserts or updates a row.
    Put {
        key: Key,
        value: Bytes,
    },
    /// Deletes a row, and its visible children.
    Delete {
        key: Key,
    },
    Rows {
        keys: Vec<Key>,
    },
    Scan {
        relation: &'static str,
    },
    /// Looks up rows by an index; the index `parent` contains the children of a row, by its key.
    LookUp {
        relation: &'static str,
        index: &'static str,
        of: Bytes,
    },
    Sum {
        relation: &'static str,
        view: &'static str,
        group: Bytes,
    },
    Selected {
        relation: &'static str,
        view: &'static str,
    },
    Commit,
}

/// Answer to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Will be written at the commit.
    Changed,
    /// Not done: the row to delete does not exist. The transaction continues.
    Absent,
    /// Not done: the parent is not visible. The transaction continues.
    NoParent,
    /// Not done: no relation, index or view has that name. The transaction continues.
    Unknown,
    /// Rows in key order.
    Rows(Vec<(Key, Bytes)>),
    Sum(i64),
    /// The transaction has ended.
    Committed(Option<Stamp>),
    /// The transaction has ended without effect: a row with views was changed by another transaction, or its last write is not visible
    /// everywhere yet.
    Conflict,
    /// The transaction has ended without effect, by termination.
    Aborted,
    /// The transaction has ended without effect: its cut is not kept any more.
    Restart,
}

#[derive(Debug)]
struct Seen {
    row: Option<Row>,
    stamp: Stamp,
}

#[derive(Debug, Default)]
pub(super) struct Work<F> {
    /// Rows of the cut.
    seen: BTreeMap<Key, Seen>,
    /// Changes of rows; none: deleted.
    changes: BTreeMap<Key, Option<Row>>,
    /// By row: stale entries.
    stale: BTreeMap<Key, Vec<Key>>,
    doing: Option<Doing>,
    bugs: F,
}

#[derive(Debug)]
struct Doing {
    order: Order,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Reading a range, or an item that is not a row.
    Reading,
    /// Reading the wanted rows and their ancestors; with the entries that led to them, and their stamps.
    Resolving { wanted: Vec<Key>, entries: Vec<(Key, Key, Stamp)>, asked: Vec<Key> },
    /// Reading children for a cascading delete; `queue`: rows to delete after this one.
    Children { of: Key, queue: Vec<Key>, asked: Vec<Key>, entries: Option<Vec<(Key, Key, Stamp)>> },
}

/// Writes, and the guards that they depend on.
pub(super) type Guarded = (Vec<(Key, Write)>, Vec<Guard>);

/// Next step of the transaction.
#[derive(Debug)]
pub(super) enum Step {
    Read(Vec<Key>, Vec<KeyRange>),
    Tell(Told),
}

impl<F: RelationFaults> Work<F> {
    pub fn new(bugs: F) -> Work<F> {
        Work { bugs, ..Work::default() }
    }

    /// Begins an order other than the commit.
    pub fn begin(&mut self, schema: &Schema, order: Order) -> Step {
        let relation = match &order {
            Order::Put { key, .. } | Order::Delete { key } => schema.relation_of(key),
            Order::Scan { relation }
            | Order::LookUp { relation, .. }
            | Order::Sum { relation, .. }
            | Order::Selected { relation, .. } => schema.relation(relation),
            Order::Rows { keys } => return self.resolve(schema, order.clone(), keys.clone(), Vec::new()),
            Order::Commit => None,
        };
        let Some(relation) = relation else { return Step::Tell(Told::Unknown) };
        let (keys, ranges) = match &order {
            Order::Put { key, value } => {
                let wanted = [key.clone()].into_iter().chain(relation.parent_of(key, value)).collect();
                return self.resolve(schema, order, wanted, Vec::new());
            }
            Order::Delete { key } => {
                let wanted = vec![key.clone()];
                return self.resolve(schema, order, wanted, Vec::new());
            }
            Order::Scan { .. } => (Vec::new(), vec![relation.rows()]),
            Order::LookUp { index, of, .. } => {
                if !relation.has_index(index) {
                    return Step::Tell(Told::Unknown);
                }
                (Vec::new(), vec![relation.entries_of(index, of)])
            }
            Order::Sum { view, group, .. } => {
                let is_it = |kind: &ViewKind| matches!(kind, ViewKind::Sum(_));
                if !relation.views.iter().any(|one| one.name == *view && is_it(&one.kind)) {
                    return Step::Tell(Told::Unknown);
                }
                (vec![relation.group(view, group)], Vec::new())
            }
            Order::Selected { view, .. } => {
                let is_it = |kind: &ViewKind| matches!(kind, ViewKind::Select(_));
                if !relation.views.iter().any(|one| one.name == *view && is_it(&one.kind)) {
                    return Step::Tell(Told::Unknown);
                }
                (Vec::new(), vec![relation.all_selected(view)])
            }
            Order::Rows { .. } | Order::Commit => return Step::Tell(Told::Unknown),
        };
        self.doing = Some(Doing { order, phase: Phase::Reading });
        Step::Read(keys, ranges)
    }

    /// Continues with the requested items.
    pub fn on_read(&mut self, schema: &Schema, read: ReadSet) -> Step {
        let Doing { order, phase } = self.doing.take().expect("something was asked for");
        match phase {
            Phase::Reading => self.on_first(schema, order, read),
            Phase::Resolving { wanted, entries, asked } => {
                self.see(asked, read.items);
                self.resolve(schema, order, wanted, entries)
            }
            Phase::Children { of, queue, asked, entries } => {
                self.see(asked, read.items);
                let entries = entries.unwrap_or_else(|| {
                    let children = schema.children().zip(read.ranges);
                    let of = &of;
                    let entries = children.flat_map(|(relation, found)| {
                        found.into_iter().filter_map(move |(entry, item)| {
                            Some((relation.child_of(of, &entry)?, entry, item.stamp))
                        })
                    });
                    entries.collect()
                });
                self.delete_children(schema, order, queue, of, entries)
            }
        }
    }

    fn see(&mut self, keys: Vec<Key>, items: Vec<ItemRead>) {
        for (key, ItemRead { value, stamp }) in keys.into_iter().zip(items) {
            let row = value.and_then(|value| Row::decode(&value));
            self.seen.insert(key, Seen { row, stamp });
        }
    }

    fn on_first(&mut self, schema: &Schema, order: Order, read: ReadSet) -> Step {
        let found = read.ranges.into_iter().flatten();
        match &order {
            Order::Scan { .. } => {
                let (keys, items): (Vec<Key>, Vec<ItemRead>) = found.unzip();
                self.see(keys.clone(), items);
                self.resolve(schema, order, keys, Vec::new())
            }
            Order::LookUp { relation, index, of } => {
                let Some(relation) = schema.relation(relation) else { return Step::Tell(Told::Unknown) };
                let row = |entry: &Key| relation.row_of(index, of, entry);
                let entries: Vec<(Key, Key, Stamp)> =
                    found.filter_map(|(entry, item)| Some((row(&entry)?, entry, item.stamp))).collect();
                let wanted = entries.iter().map(|(row, ..)| row.clone()).collect();
                self.resolve(schema, order, wanted, entries)
            }
            Order::Sum { relation, view, group } => {
                let Some(relation) = schema.relation(relation) else { return Step::Tell(Told::Unknown) };
                let value = read.items.into_iter().next().and_then(|item| item.value);
                let number =
                    value.and_then(|value| <[u8; 8]>::try_from(&*value).ok()).map(i64::from_be_bytes);
                let own = self.sums(relation).remove(&(*view, group.clone())).unwrap_or_default();
                Step::Tell(Told::Sum(number.unwrap_or_default().wrapping_add(own)))
            }
            Order::Selected { relation, view } => {
                let Some(relation) = schema.relation(relation) else { return Step::Tell(Told::Unknown) };
                Step::Tell(Told::Rows(self.selected(relation, view, found)))
            }
            Order::Put { .. } | Order::Delete { .. } | Order::Rows { .. } | Order::Commit => {
                unreachable!("these begin with rows")
            }
        }
    }

    /// Contents of a view, including this transaction's changes.
    fn selected(
        &self,
        relation: &Relation,
        view: &str,
        found: impl Iterator<Item = (Key, ItemRead)>,
    ) -> Vec<(Key, Bytes)> {
        let before = relation.all_selected(view).from.len();
        let row = |key: &Key| Key::new(&key[before.min(key.len())..]);
        let found = found.filter_map(|(key, item)| Some((row(&key), item.value?)));
        let mut rows: BTreeMap<Key, Bytes> =
            found.filter(|(key, _)| !self.changes.contains_key(key)).collect();
        let kind = relation.views.iter().find(|one| one.name == view).map(|one| &one.kind);
        if let Some(ViewKind::Select(projection)) = kind {
            let own = self.changes.iter().filter(|(key, _)| relation.rows().contains(key));
            rows.extend(
                own.filter_map(|(key, row)| Some((key.clone(), projection(key, &row.as_ref()?.value)?))),
            );
        }
        rows.into_iter().collect()
    }

    /// Row as this transaction sees it, regardless of its parents.
    fn current(&self, key: &Key) -> Option<&Row> {
        match self.changes.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.seen.get(key)?.row.as_ref(),
        }
    }

    fn parent_of(&self, schema: &Schema, key: &Key) -> Option<Key> {
        schema.relation_of(key)?.parent_of(key, &self.current(key)?.value)
    }

    /// Returns the row if it and all its ancestors exist; a row that is its own ancestor needs no other.
    fn visible(&self, schema: &Schema, key: &Key) -> Option<&Row> {
        let row = self.current(key)?;
        let (mut at, mut below, mut passed) = (key.clone(), row, BTreeSet::new());
        while let Some(parent) = self.parent_of(schema, &at).filter(|_| !self.bugs.shows_orphans()) {
            if !passed.insert(at) {
                break;
            }
            let above = self.current(&parent)?;
            if above.born != below.parent {
                return None;
            }
            (at, below) = (parent, above);
        }
        Some(row)
    }

    /// Rows among the wanted ones and their ancestors that have not been read.
    fn missing(&self, schema: &Schema, wanted: &[Key]) -> Vec<Key> {
        let (mut missing, mut passed) = (BTreeSet::new(), BTreeSet::new());
        for key in wanted {
            let mut at = Some(key.clone());
            while let Some(key) = at.filter(|key| passed.insert(key.clone())) {
                if !self.seen.contains_key(&key) {
                    missing.insert(key.clone());
                }
                at = self.parent_of(schema, &key);
            }
        }
        missing.into_iter().collect()
    }

    fn resolve(
        &mut self,
        schema: &Schema,
        order: Order,
        wanted: Vec<Key>,
        entries: Vec<(Key, Key, Stamp)>,
    ) -> Step {
        let asked = self.missing(schema, &wanted);
        if !asked.is_empty() {
            let phase = Phase::Resolving { wanted, entries, asked: asked.clone() };
            self.doing = Some(Doing { order, phase });
            return Step::Read(asked, Vec::new());
        }
        match &order {
            Order::Put { key, value } => Step::Tell(self.put(schema, key, value)),
            Order::Delete { key } if self.current(key).is_none() => Step::Tell(Told::Absent),
            Order::Delete { key } => {
                let queue = vec![key.clone()];
                self.delete_next(schema, order, queue)
            }
            Order::LookUp { relation, index, of } => {
                let found = self.counting(schema, &entries);
                let own = schema.relation(relation).map(|relation| self.own_in(relation, index, of));
                let all: BTreeSet<Key> = found.into_iter().chain(own.into_iter().flatten()).collect();
                Step::Tell(self.show(schema, all.into_iter()))
            }
            Order::Scan { relation } => {
                let rows = schema.relation(relation).map(Relation::rows);
                let own =
                    self.changes.keys().filter(|key| rows.as_ref().is_some_and(|rows| rows.contains(key)));
                let all: BTreeSet<Key> = own.cloned().chain(wanted).collect();
                Step::Tell(self.show(schema, all.into_iter()))
            }
            _ => Step::Tell(self.show(schema, wanted.into_iter())),
        }
    }

    fn show(&self, schema: &Schema, keys: impl Iterator<Item = Key>) -> Told {
        let shown = |key: Key| Some((self.visible(schema, &key)?.value.clone(), key));
        Told::Rows(keys.filter_map(shown).map(|(value, key)| (key, value)).collect())
    }

    /// Rows of the valid entries, without rows that this transaction has changed.
    fn counting(&mut self, schema: &Schema, entries: &[(Key, Key, Stamp)]) -> Vec<Key> {
        let mut rows = Vec::new();
        for (row, entry, stamp) in entries {
            let counts = self.seen.get(row).is_some_and(|seen| seen.stamp == *stamp && seen.row.is_some());
            if !counts {
                self.stale.entry(row.clone()).or_default().push(entry.clone());
            }
            if (counts || self.bugs.shows_stale_entries()) && !self.changes.contains_key(row) {
                rows.push(row.clone());
            }
        }
        rows.retain(|row| self.visible(schema, row).is_some());
        rows
    }

    /// Changed rows of this transaction that the index has under that key.
    fn own_in(&self, relation: &Relation, index: &str, of: &Bytes) -> Vec<Key> {
        let rows = relation.rows();
        let has = |(key, row): &(&Key, &Option<Row>)| {
            let keys = row.as_ref().and_then(|row| relation.index_keys(index, key, &row.value));
            rows.contains(key) && keys.is_some_and(|keys| keys.contains(of))
        };
        self.changes.iter().filter(has).map(|(key, _)| key.clone()).collect()
    }

    fn put(&mut self, schema: &Schema, key: &Key, value: &Bytes) -> Told {
        let Some(relation) = schema.relation_of(key) else { return Told::Unknown };
        let parent = match relation.parent_of(key, value) {
            None => NOBODY,
            Some(parent) => match self.visible(schema, &parent) {
                None => return Told::NoParent,
                Some(parent) => parent.born,
            },
        };
        // An orphan counts as deleted with its parent, so a new row is inserted.
        let born = self.visible(schema, key).map_or(OWN, |row| row.born);
        self.changes.insert(key.clone(), Some(Row { born, parent, value: value.clone() }));
        Told::Changed
    }

    fn delete_next(&mut self, schema: &Schema, order: Order, mut queue: Vec<Key>) -> Step {
        while let Some(key) = queue.pop() {
            if self.current(&key).is_none() {
                continue;
            }
            self.changes.insert(key.clone(), None);
            let ranges: Vec<KeyRange> =
                schema.children().map(|relation| relation.children_of(&key)).collect();
            if !ranges.is_empty() {
                let phase = Phase::Children { of: key, queue, asked: Vec::new(), entries: None };
                self.doing = Some(Doing { order, phase });
                return Step::Read(Vec::new(), ranges);
            }
        }
        Step::Tell(Told::Changed)
    }

    fn delete_children(
        &mut self,
        schema: &Schema,
        order: Order,
        mut queue: Vec<Key>,
        of: Key,
        entries: Vec<(Key, Key, Stamp)>,
    ) -> Step {
        let unseen = |(row, ..): &(Key, Key, Stamp)| !self.seen.contains_key(row);
        let asked: Vec<Key> =
            entries.iter().filter(|entry| unseen(entry)).map(|(row, ..)| row.clone()).collect();
        if !asked.is_empty() {
            let phase = Phase::Children { of, queue, asked: asked.clone(), entries: Some(entries) };
            self.doing = Some(Doing { order, phase });
            return Step::Read(asked, Vec::new());
        }
        for (row, _, stamp) in entries {
            if self.seen.get(&row).is_some_and(|seen| seen.stamp == stamp) && !self.changes.contains_key(&row)
            {
                queue.push(row);
            }
        }
        // Also the rows that the transaction has written itself.
        let own = self.changes.iter().filter(|(_, row)| row.is_some()).map(|(key, _)| key);
        let own: Vec<Key> =
            own.filter(|key| self.parent_of(schema, key).as_ref() == Some(&of)).cloned().collect();
        queue.extend(own);
        self.delete_next(schema, order, queue)
    }

    /// Amounts that this transaction adds to the sums of a relation, by view and group.
    fn sums(&self, relation: &Relation) -> BTreeMap<(&'static str, Bytes), i64> {
        let mut sums: BTreeMap<(&'static str, Bytes), i64> = BTreeMap::new();
        for view in &relation.views {
            let ViewKind::Sum(contributions) = view.kind else { continue };
            let mut add = |key: &Key, row: Option<&Row>, sign: i64| {
                for (group, amount) in row.map(|row| contributions(key, &row.value)).unwrap_or_default() {
                    let sum = sums.entry((view.name, group)).or_default();
                    *sum = sum.wrapping_add(amount.wrapping_mul(sign));
                }
            };
            for (key, row) in self.changes.iter().filter(|(key, _)| relation.rows().contains(key)) {
                add(key, self.seen.get(key).and_then(|seen| seen.row.as_ref()), -1);
                add(key, row.as_ref(), 1);
            }
        }
        sums
    }

    /// All item writes of the transaction's row changes, and their guards.
    pub fn writes(&self, schema: &Schema, txn: TxnId) -> Guarded {
        let (mut writes, mut guards) = (BTreeMap::new(), Vec::new());
        let mut summed: BTreeSet<&str> = BTreeSet::new();
        for (key, row) in &self.changes {
            let (Some(relation), Some(seen)) = (schema.relation_of(key), self.seen.get(key)) else {
                continue;
            };
            if let Some(old) = &seen.row {
                let old = relation.entries(key, &old.value, seen.stamp.txn);
                writes.extend(old.into_iter().map(|entry| (entry, Write::Delete)));
            }
            if let Some(row) = row {
                let new = relation.entries(key, &row.value, txn);
                writes.extend(new.into_iter().map(|entry| (entry, Write::Put(Bytes::default()))));
            }
            let value = row.as_ref().map(|row| row.encode(txn));
            writes.insert(key.clone(), value.map_or(Write::Delete, Write::Put));
            if !relation.views.is_empty() {
                guards.push(Guard { key: key.clone(), seen: seen.stamp, absent: seen.row.is_none() });
            }
            for view in &relation.views {
                let ViewKind::Select(projection) = view.kind else { continue };
                let selected = row.as_ref().and_then(|row| projection(key, &row.value));
                let write = selected.map_or(Write::Delete, Write::Put);
                writes.insert(relation.selected(view.name, key), write);
            }
            if summed.insert(relation.name) {
                let sums = self.sums(relation).into_iter().filter(|(_, sum)| *sum != 0);
                let add = |((view, group), sum): ((&'static str, Bytes), i64)| {
                    (relation.group(view, &group), Write::Add(sum))
                };
                writes.extend(sums.map(add));
            }
        }
        (writes.into_iter().collect(), guards)
    }

    /// Deletions of stale entries, row by row. They are guarded until the replacement of the row is visible everywhere: a cut may contain
    /// the deletion without the write that made the entry stale.
    pub fn stale(&self) -> Vec<Guarded> {
        let of_row = |(row, entries): (&Key, &Vec<Key>)| {
            let seen = self.seen.get(row)?;
            let entries: BTreeSet<&Key> = entries.iter().collect();
            let writes = entries.into_iter().map(|entry| (entry.clone(), Write::Delete)).collect();
            let guard = Guard { key: row.clone(), seen: seen.stamp, absent: seen.row.is_none() };
            Some((writes, vec![guard]))
        };
        self.stale.iter().filter_map(of_row).collect()
    }
}
