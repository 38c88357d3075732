//! Committed values with their versions, prepared transactions by key, and the check of TAPIR (§5.2.1 of the paper, TAPIR-OCC-CHECK).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use weir_core::ids::ShardId;

use super::super::application::OneShot;
use super::super::faults::Faults;
use super::super::operation::{Access, Key, Placement, Value};
use super::{AttemptId, Request, Timestamp, Verdict};

/// The last committed version of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Version {
    value: Value,
    at: Timestamp,
    /// Highest timestamp of a committed transaction that has read the key.
    read_at: Timestamp,
}

/// An attempt's read or write of one key.
#[derive(Clone, Copy, Debug)]
struct Use {
    at: Timestamp,
    /// The version that it has read.
    read: Option<Timestamp>,
    writes: bool,
}

/// Values of a shard's keys.
#[derive(Clone, Debug)]
pub struct Store<F> {
    shard: ShardId,
    placement: Placement,
    faults: F,
    versions: FxHashMap<Key, Version>,
    /// Attempts that are prepared here, by the keys that they use.
    prepared: BTreeMap<Key, BTreeMap<AttemptId, Use>>,
}

/// Returns whether one of both has read a version that the other one, whose timestamp is lower, should have replaced before.
fn conflicts(a: Use, b: Use) -> bool {
    let misses = |reader: Use, writer: Use| {
        writer.writes && reader.read.is_some_and(|read| read < writer.at && writer.at < reader.at)
    };
    misses(a, b) || misses(b, a)
}

/// The request's read or write of each key of the shard.
fn uses<O: OneShot>(
    request: &Request<O>,
    shard: ShardId,
    placement: Placement,
) -> impl Iterator<Item = (Key, Use)> + '_ {
    request.operation.accesses_at(shard, placement).map(|(key, access)| {
        let read = request.reads.iter().find(|(of, ..)| *of == key).map(|(.., version)| *version);
        (key, Use { at: request.at, read, writes: access == Access::Write })
    })
}

impl<F: Faults> Store<F> {
    pub fn new(shard: ShardId, placement: Placement, faults: F) -> Store<F> {
        Store { shard, placement, faults, versions: FxHashMap::default(), prepared: BTreeMap::new() }
    }

    pub fn read(&self, key: Key) -> (Key, Value, Timestamp) {
        let version = self.versions.get(&key).copied().unwrap_or_default();
        (key, version.value, version.at)
    }

    /// Ascending by key.
    pub fn values(&self) -> Vec<(Key, Value)> {
        let mut values: Vec<_> = self.versions.iter().map(|(key, version)| (*key, version.value)).collect();
        values.sort_unstable();
        values
    }

    /// Returns whether no attempt is prepared.
    pub fn is_free(&self) -> bool {
        self.prepared.is_empty()
    }

    /// The order of timestamps must be one in which everything that is prepared or committed here has read what it should.
    pub fn check<O: OneShot>(&self, request: &Request<O>) -> Verdict {
        let mut retry_above = None;
        for (key, own) in uses(request, self.shard, self.placement) {
            let version = self.versions.get(&key).copied().unwrap_or_default();
            let is_stale = own.read.is_some_and(|read| read < version.at);
            if is_stale && !self.faults.skips_read_validation() {
                return Verdict::REFUSED;
            }
            let read_at = if self.faults.forgets_committed_reads() { version.at } else { version.read_at };
            let bound = version.at.max(read_at);
            if own.writes && own.at < bound {
                retry_above = retry_above.max(Some(bound));
            }
            if self.faults.ignores_prepared() {
                continue;
            }
            for (id, other) in self.prepared.get(&key).into_iter().flatten() {
                if *id == request.id || !conflicts(own, *other) {
                    continue;
                }
                if own.read.is_some_and(|read| other.writes && read < other.at) {
                    // Above its timestamp, too, the attempt would have read something else.
                    return Verdict::REFUSED;
                }
                retry_above = retry_above.max(Some(other.at));
            }
        }
        if retry_above.is_some() { Verdict::Refused { retry_above } } else { Verdict::Prepared }
    }

    pub fn prepare<O: OneShot>(&mut self, request: &Request<O>) {
        for (key, own) in uses(request, self.shard, self.placement) {
            self.prepared.entry(key).or_default().insert(request.id, own);
        }
    }

    pub fn release<O: OneShot>(&mut self, request: &Request<O>) {
        for (key, _) in uses(request, self.shard, self.placement) {
            if let Some(attempts) = self.prepared.get_mut(&key) {
                attempts.remove(&request.id);
                if attempts.is_empty() {
                    self.prepared.remove(&key);
                }
            }
        }
    }

    /// Writes what the transaction writes, unless a later one has written already.
    pub fn commit<O: OneShot>(&mut self, request: &Request<O>) {
        let read = |key| request.reads.iter().find(|(of, ..)| *of == key).map_or(0, |(_, value, _)| *value);
        let part = request.operation.part_from(self.shard, self.placement, &read);
        for (key, own) in uses(request, self.shard, self.placement) {
            let version = self.versions.entry(key).or_default();
            if own.read.is_some() {
                version.read_at = version.read_at.max(own.at);
            }
            if part.is_none() && own.writes {
                version.at = version.at.max(own.at);
            }
        }
        for (key, value) in part.into_iter().flat_map(|part| part.writes) {
            let version = self.versions.entry(key).or_default();
            if version.at < request.at {
                (version.value, version.at) = (value, request.at);
            }
        }
    }

    /// Attempts that are prepared here and cannot be so at a majority, since the request is.
    pub fn conflicting<O: OneShot>(&self, request: &Request<O>) -> BTreeSet<AttemptId> {
        let mut found = BTreeSet::new();
        for (key, own) in uses(request, self.shard, self.placement) {
            let others = self.prepared.get(&key).into_iter().flatten();
            found.extend(others.filter(|(_, other)| conflicts(own, **other)).map(|(id, _)| *id));
        }
        found
    }
}

#[cfg(test)]
mod unit_tests {
    use std::sync::Arc;

    use weir_core::ids::TxnId;

    use super::super::super::faults::NoFaults;
    use super::super::super::operation::{Action, Operation};
    use super::*;

    fn at(clock: u64) -> Timestamp {
        Timestamp { clock, client: 1 }
    }

    fn request(sequence: u64, clock: u64, action: Action, read: Option<u64>) -> Arc<Request> {
        let id = AttemptId { txn: TxnId { coordinator: 1, sequence }, attempt: 0 };
        let reads = read.map(|version| (0, 0, at(version))).into_iter().collect();
        Arc::new(Request { id, floor: 0, at: at(clock), operation: Operation::new([action]), reads })
    }

    fn store() -> Store<NoFaults> {
        let mut store = Store::new(0, Placement { shards: 1 }, NoFaults);
        store.commit(&request(1, 10, Action::Write(0, 7), None));
        store
    }

    fn refused(above: Option<u64>) -> Verdict {
        Verdict::Refused { retry_above: above.map(at) }
    }

    /// §5.2.1: a transaction that has read an old version aborts; one that would write below a version or a read retries above it.
    #[test]
    fn committed_versions_and_reads_are_checked() {
        let mut store = store();
        assert_eq!(store.read(0), (0, 7, at(10)));
        assert_eq!(store.check(&request(2, 20, Action::Read(0), Some(5))), refused(None));
        assert_eq!(store.check(&request(2, 20, Action::Read(0), Some(10))), Verdict::Prepared);
        assert_eq!(store.check(&request(2, 8, Action::Write(0, 1), None)), refused(Some(10)));
        store.commit(&request(2, 20, Action::Read(0), Some(10)));
        assert_eq!(store.check(&request(3, 15, Action::Write(0, 1), None)), refused(Some(20)));
        assert_eq!(store.check(&request(3, 25, Action::Write(0, 1), None)), Verdict::Prepared);
    }

    #[test]
    fn prepared_reads_and_writes_are_checked_in_the_order_of_timestamps() {
        let mut store = store();
        store.prepare(&request(2, 20, Action::Modify(0, 1), Some(10)));
        assert_eq!(store.check(&request(3, 30, Action::Read(0), Some(10))), refused(None));
        assert_eq!(store.check(&request(3, 15, Action::Read(0), Some(10))), Verdict::Prepared);
        assert_eq!(store.check(&request(3, 15, Action::Write(0, 1), None)), refused(Some(20)));
        assert_eq!(store.check(&request(3, 30, Action::Write(0, 1), None)), Verdict::Prepared);
        store.release(&request(2, 20, Action::Modify(0, 1), Some(10)));
        assert!(store.is_free());
    }

    /// Versions go by timestamps, in whatever order commits arrive.
    #[test]
    fn a_commit_below_the_last_version_writes_nothing() {
        let mut store = store();
        store.commit(&request(3, 30, Action::Write(0, 9), None));
        store.commit(&request(2, 20, Action::Write(0, 8), None));
        assert_eq!(store.read(0), (0, 9, at(30)));
    }
}
