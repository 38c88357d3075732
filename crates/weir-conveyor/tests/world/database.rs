//! A model of a PostgreSQL server: snapshots, row locks, first updater wins, and serializable snapshot isolation.
//!
//! A serializable transaction fails at COMMIT only where it completes a dangerous structure of three committed transactions whose last one has
//! committed first (Ports and Grittner, "Serializable Snapshot Isolation in PostgreSQL", §3.2 and §4.1). PostgreSQL fails more. So what
//! this model lets pass is serializable on one server, and it hides no bug behind failures that PostgreSQL need not give.

use std::collections::{BTreeMap, BTreeSet};

use weir_conveyor::epochs::VisitNumber;
use weir_conveyor::plan::Isolation;
use weir_conveyor::routing::Routing;
use weir_conveyor::work::{DatabaseState, EpochRow};

use crate::world::application::{Cell, Row, Update};

/// A row of the application, or of the protocol's own schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    Row(Row),
    Epoch,
    Position,
    Map,
    Outbox(VisitNumber, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Cell(Cell),
    Epoch(EpochRow),
    Position(VisitNumber),
    Map(Routing),
    Update(Update),
}

/// Everything that a server that joins takes from another one, as of one moment.
#[derive(Clone, Debug)]
pub struct Base {
    pub rows: BTreeMap<Row, Cell>,
    pub position: VisitNumber,
    pub map: Routing,
}

/// Position of a commit in the order of commits; a snapshot sees all commits up to one.
pub type Sequence = u64;
pub type TxnId = u64;

/// What keeps a statement from being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Another transaction holds a lock.
    Waits,
    /// 40001 or 40P01: the transaction has to end.
    Fails,
}

#[derive(Clone, Debug)]
struct Txn {
    isolation: Isolation,
    snapshot: Sequence,
    reads: BTreeSet<Item>,
    writes: BTreeMap<Item, Option<Value>>,
    shared: BTreeSet<Item>,
    waits_for: BTreeSet<TxnId>,
}

/// A serializable transaction that has committed.
#[derive(Clone, Debug)]
struct Committed {
    snapshot: Sequence,
    commit: Sequence,
    reads: BTreeSet<Item>,
    writes: BTreeSet<Item>,
}

impl Committed {
    /// Returns whether `self` has read what `other` has written behind its snapshot, both being concurrent.
    fn precedes(&self, other: &Committed) -> bool {
        let concurrent = self.snapshot < other.commit && other.snapshot < self.commit;
        concurrent && !self.reads.is_disjoint(&other.writes)
    }

    /// Returns whether `self` → pivot → `last` is no dangerous structure, although both are rw-dependencies, because of who commits when.
    fn is_harmless(&self, pivot: &Committed, last: &Committed) -> bool {
        let last_is_first = last.commit <= self.commit && last.commit < pivot.commit;
        let is_late = self.writes.is_empty() && last.commit > self.snapshot;
        !last_is_first || is_late
    }
}

/// A server.
#[derive(Debug, Default)]
pub struct Database {
    versions: BTreeMap<Item, Vec<(Sequence, Option<Value>)>>,
    sequence: Sequence,
    active: BTreeMap<TxnId, Txn>,
    committed: Vec<Committed>,
    next_txn: TxnId,
    /// The sequence from which outbox rows are numbered.
    order: u64,
    /// How often it was started. What began in another start is lost.
    pub start: u64,
    pub is_up: bool,
}

impl Database {
    pub fn new(rows: BTreeMap<Row, Cell>, map: Routing) -> Database {
        let rows = rows.into_iter().map(|(row, cell)| (Item::Row(row), Value::Cell(cell)));
        let own = [
            (Item::Epoch, Value::Epoch(EpochRow::default())),
            (Item::Position, Value::Position(0)),
            (Item::Map, Value::Map(map)),
        ];
        let versions = rows.chain(own).map(|(item, value)| (item, vec![(0, Some(value))])).collect();
        Database { versions, next_txn: 1, start: 1, is_up: true, ..Database::default() }
    }

    /// All transactions that are active are gone. What has committed stays.
    pub fn crash(&mut self) {
        self.active.clear();
        self.is_up = false;
        self.start += 1;
    }

    pub fn begin(&mut self, isolation: Isolation) -> TxnId {
        let id = self.next_txn;
        self.next_txn += 1;
        let txn = Txn {
            isolation,
            snapshot: self.sequence,
            reads: BTreeSet::new(),
            writes: BTreeMap::new(),
            shared: BTreeSet::new(),
            waits_for: BTreeSet::new(),
        };
        self.active.insert(id, txn);
        id
    }

    pub fn abort(&mut self, id: TxnId) {
        self.active.remove(&id);
    }

    pub fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn at(&self, item: Item, snapshot: Sequence) -> Option<&Value> {
        let versions = self.versions.get(&item)?;
        versions.iter().rev().find(|(sequence, _)| *sequence <= snapshot)?.1.as_ref()
    }

    fn snapshot(&self, id: TxnId) -> Sequence {
        let txn = &self.active[&id];
        match txn.isolation {
            Isolation::Serializable => txn.snapshot,
            Isolation::ReadCommitted => self.sequence,
        }
    }

    pub fn read(&mut self, id: TxnId, item: Item) -> Option<Value> {
        let snapshot = self.snapshot(id);
        let own = self.active.get_mut(&id).expect("the transaction is active");
        if let Some(written) = own.writes.get(&item) {
            return written.clone();
        }
        own.reads.insert(item);
        self.at(item, snapshot).cloned()
    }

    pub fn cell(&mut self, id: TxnId, row: Row) -> Option<Cell> {
        match self.read(id, Item::Row(row)) {
            Some(Value::Cell(cell)) => Some(cell),
            Some(other) => panic!("a row of the application is {other:?}"),
            None => None,
        }
    }

    /// The outbox of a visit. It is read without predicate locks: no answer depends on it.
    pub fn outbox(&self, id: TxnId, visit: VisitNumber) -> Vec<Update> {
        let snapshot = self.snapshot(id);
        let items = self.versions.range(Item::Outbox(visit, 0)..=Item::Outbox(visit, u64::MAX));
        let update = |item: &Item| match self.at(*item, snapshot) {
            Some(Value::Update(update)) => Some(update.clone()),
            _ => None,
        };
        items.filter_map(|(item, _)| update(item)).collect()
    }

    pub fn outboxes_up_to(&self, visit: VisitNumber) -> Vec<Item> {
        self.versions
            .range(Item::Outbox(0, 0)..=Item::Outbox(visit, u64::MAX))
            .map(|(item, _)| *item)
            .collect()
    }

    /// The state of the protocol as of the last commit.
    pub fn state(&self) -> DatabaseState {
        let (row, position) = (self.at(Item::Epoch, self.sequence), self.at(Item::Position, self.sequence));
        let map = self.map();
        match (row, position) {
            (Some(Value::Epoch(row)), Some(Value::Position(applied))) => {
                DatabaseState { row: *row, applied: *applied, map: map.version, absent: map.absent }
            }
            other => panic!("the own schema is {other:?}"),
        }
    }

    /// The map as of the last commit.
    pub fn map(&self) -> &Routing {
        match self.at(Item::Map, self.sequence) {
            Some(Value::Map(map)) => map,
            other => panic!("the map is {other:?}"),
        }
    }

    /// All rows as of the last commit.
    pub fn rows(&self) -> BTreeMap<Row, Cell> {
        let row = |item: &Item| match (item, self.at(*item, self.sequence)) {
            (Item::Row(row), Some(Value::Cell(cell))) => Some((*row, *cell)),
            _ => None,
        };
        self.versions.keys().filter_map(row).collect()
    }

    pub fn base(&self) -> Base {
        Base { rows: self.rows(), position: self.state().applied, map: self.map().clone() }
    }

    /// A row of the application as of the last commit.
    pub fn last(&self, row: Row) -> Option<Cell> {
        match self.at(Item::Row(row), self.sequence) {
            Some(Value::Cell(cell)) => Some(*cell),
            _ => None,
        }
    }

    /// Locks a row exclusively, and writes it.
    pub fn write(&mut self, id: TxnId, item: Item, value: Option<Value>) -> Result<(), Blocked> {
        let conflicts = |txn: &Txn| txn.writes.contains_key(&item) || txn.shared.contains(&item);
        self.lock(id, item, conflicts)?;
        self.active.get_mut(&id).expect("the transaction is active").writes.insert(item, value);
        Ok(())
    }

    /// SELECT … FOR SHARE.
    pub fn share(&mut self, id: TxnId, item: Item) -> Result<(), Blocked> {
        self.lock(id, item, |txn: &Txn| txn.writes.contains_key(&item))?;
        self.active.get_mut(&id).expect("the transaction is active").shared.insert(item);
        Ok(())
    }

    fn lock(&mut self, id: TxnId, item: Item, conflicts: impl Fn(&Txn) -> bool) -> Result<(), Blocked> {
        let others = self.active.iter().filter(|(other, txn)| **other != id && conflicts(txn));
        let holders: BTreeSet<TxnId> = others.map(|(other, _)| *other).collect();
        let is_free = holders.is_empty();
        self.active.get_mut(&id).expect("the transaction is active").waits_for = holders;
        if !is_free {
            return Err(if self.is_deadlocked(id) { Blocked::Fails } else { Blocked::Waits });
        }
        let newest = self.versions.get(&item).and_then(|versions| versions.last());
        let is_newer = newest.is_some_and(|(sequence, _)| *sequence > self.active[&id].snapshot);
        match self.active[&id].isolation {
            Isolation::Serializable if is_newer => Err(Blocked::Fails),
            _ => Ok(()),
        }
    }

    fn is_deadlocked(&self, id: TxnId) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![id];
        while let Some(each) = next.pop() {
            let Some(txn) = self.active.get(&each) else { continue };
            for other in &txn.waits_for {
                if *other == id {
                    return true;
                }
                if seen.insert(*other) {
                    next.push(*other);
                }
            }
        }
        false
    }

    /// Commits, or aborts with a serialization failure.
    pub fn commit(&mut self, id: TxnId) -> Result<Sequence, Blocked> {
        let txn = self.active.remove(&id).expect("the transaction is active");
        let commit = self.sequence + 1;
        if txn.isolation == Isolation::Serializable {
            let writes = txn.writes.keys().copied().collect();
            let new = Committed { snapshot: txn.snapshot, commit, reads: txn.reads, writes };
            if self.is_dangerous(&new) {
                return Err(Blocked::Fails);
            }
            self.committed.push(new);
        }
        self.sequence = commit;
        for (item, value) in txn.writes {
            self.versions.entry(item).or_default().push((commit, value));
        }
        self.forget();
        Ok(commit)
    }

    /// Returns whether a transaction that is to commit completes a dangerous structure. As the one that commits first it cannot.
    fn is_dangerous(&self, new: &Committed) -> bool {
        let after = || self.committed.iter().filter(|other| new.precedes(other));
        let before = || self.committed.iter().filter(|other| other.precedes(new));
        let as_pivot = after().any(|last| before().any(|first| !first.is_harmless(new, last)));
        let follows = |pivot: &Committed| {
            let lasts = self.committed.iter().filter(|last| pivot.precedes(last));
            lasts.into_iter().any(|last| !new.is_harmless(pivot, last))
        };
        as_pivot || after().any(follows)
    }

    /// Forgets what no structure of a transaction that is active, or is to come, can have.
    fn forget(&mut self) {
        let active = self.active.values().map(|txn| txn.snapshot).min().unwrap_or(self.sequence);
        let pivots = self.committed.iter().filter(|txn| txn.commit > active).map(|txn| txn.snapshot);
        let horizon = pivots.chain([active]).min().unwrap_or(active);
        self.committed.retain(|txn| txn.commit > horizon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Isolation::{ReadCommitted, Serializable};

    const X: Item = Item::Row(Row::Stock(0));
    const Y: Item = Item::Row(Row::Stock(1));

    fn value(number: u64) -> Option<Value> {
        Some(Value::Cell(Cell { value: Some(number), writer: number }))
    }

    fn database() -> Database {
        let cell = Cell { value: Some(0), writer: 0 };
        let rows = BTreeMap::from([(Row::Stock(0), cell), (Row::Stock(1), cell)]);
        Database::new(rows, Routing::even(&[0]))
    }

    #[test]
    fn write_skew_fails() {
        let mut database = database();
        let [one, two] = [(); 2].map(|()| database.begin(Serializable));
        for (txn, written) in [(one, X), (two, Y)] {
            database.read(txn, X);
            database.read(txn, Y);
            assert_eq!(database.write(txn, written, value(1)), Ok(()));
        }
        assert!(database.commit(one).is_ok());
        assert_eq!(database.commit(two), Err(Blocked::Fails));
    }

    /// Fekete, O'Neil, O'Neil: a read-only transaction that sees the second and not the first.
    #[test]
    fn the_anomaly_of_a_reader_fails_only_with_the_reader() {
        for has_reader in [false, true] {
            let mut database = database();
            let withdrawal = database.begin(Serializable);
            database.read(withdrawal, X);
            database.read(withdrawal, Y);
            let deposit = database.begin(Serializable);
            database.read(deposit, Y);
            database.write(deposit, Y, value(20)).unwrap();
            database.commit(deposit).unwrap();
            if has_reader {
                let reader = database.begin(Serializable);
                assert_eq!((database.read(reader, X), database.read(reader, Y)), (value(0), value(20)));
                database.commit(reader).unwrap();
            }
            database.write(withdrawal, X, value(11)).unwrap();
            assert_eq!(database.commit(withdrawal).is_err(), has_reader);
        }
    }

    #[test]
    fn the_first_updater_wins() {
        let mut database = database();
        let [one, two] = [(); 2].map(|()| database.begin(Serializable));
        database.write(one, X, value(1)).unwrap();
        assert_eq!(database.write(two, X, value(2)), Err(Blocked::Waits));
        database.commit(one).unwrap();
        assert_eq!(database.write(two, X, value(2)), Err(Blocked::Fails));
        database.abort(two);
        let three = database.begin(ReadCommitted);
        assert_eq!(database.write(three, X, value(3)), Ok(()));
    }

    #[test]
    fn an_update_waits_for_shared_locks_and_keeps_its_snapshot() {
        let mut database = database();
        let holder = database.begin(Serializable);
        database.share(holder, Item::Epoch).unwrap();
        let raise = database.begin(Serializable);
        let raised = Some(Value::Epoch(EpochRow { epoch: 1, closed: 0, closed_in: 0 }));
        assert_eq!(database.write(raise, Item::Epoch, raised.clone()), Err(Blocked::Waits));
        let update = Value::Update(Update::Columns(Vec::new()));
        database.write(holder, Item::Outbox(1, 1), Some(update)).unwrap();
        database.commit(holder).unwrap();
        assert_eq!(database.write(raise, Item::Epoch, raised), Ok(()));
        // What the holder has committed is not in the snapshot of the raise.
        assert!(database.outbox(raise, 1).is_empty());
        database.commit(raise).unwrap();
        let late = database.begin(Serializable);
        assert_eq!(database.outbox(late, 1).len(), 1);
    }

    #[test]
    fn a_deadlock_fails() {
        let mut database = database();
        let [one, two] = [(); 2].map(|()| database.begin(Serializable));
        database.write(one, X, value(1)).unwrap();
        database.write(two, Y, value(1)).unwrap();
        assert_eq!(database.write(one, Y, value(1)), Err(Blocked::Waits));
        assert_eq!(database.write(two, X, value(1)), Err(Blocked::Fails));
    }
}
