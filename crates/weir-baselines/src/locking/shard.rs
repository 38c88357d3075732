//! One shard under locks: its items, who holds them, who waits.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_core::clock::HybridClock;
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Effects, Shard};
use weir_core::participant::OutcomeTable;
use weir_core::readers::Readers;
use weir_kv::table::Table;
use weir_kv::write::Content;
use weir_kv::{ItemRead, Key, KeyRange, Stamp};

use super::{Item, Progress, Reply, Request};
use crate::faults::{Faults, NoFaults};
use crate::lock_manager::{LockManager, Mode};
use crate::row::Row;
use crate::{Comparator, Counts};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Long(TxnId),
    /// The read of one item, by its place in the request.
    Short(TxnId, u32),
}

/// Some items of a transaction, of which the first `granted` are locked.
#[derive(Debug)]
struct Run {
    number: u32,
    items: Arc<[Item]>,
    granted: usize,
    finish: bool,
    clock: u64,
}

impl Run {
    fn is_granted(&self) -> bool {
        self.granted == self.items.len()
    }
}

/// A read with short locks that waits for some.
#[derive(Debug)]
struct Gathering {
    /// Keys that were requested individually, then those of each range.
    keys: Vec<Key>,
    singles: usize,
    /// Where the keys of each range end.
    ends: Vec<usize>,
    items: Vec<Option<ItemRead>>,
    waiting: usize,
}

type Out = Effects<Request, Reply>;

#[derive(Debug)]
pub struct Partition<F = NoFaults> {
    id: ShardId,
    table: Table<Row>,
    locks: LockManager<Owner, F>,
    clock: HybridClock,
    /// Runs are locked one after the other, so only the last may wait.
    holding: FxHashMap<TxnId, SmallVec<[Run; 1]>>,
    gathering: FxHashMap<TxnId, Gathering>,
    /// Writes that were done and released at once: a repetition gets the same answer.
    finished: OutcomeTable<()>,
    /// Finished transactions, so that none takes effect twice.
    over: Readers,
    /// Owners that have got a lock and have not continued yet.
    woken: Vec<Owner>,
    counts: Counts,
}

impl<F: Faults> Partition<F> {
    pub fn new(id: ShardId, bugs: F) -> Partition<F> {
        Partition {
            id,
            table: Table::default(),
            locks: LockManager::new(bugs),
            clock: HybridClock::new(id),
            holding: FxHashMap::default(),
            gathering: FxHashMap::default(),
            finished: OutcomeTable::default(),
            over: Readers::default(),
            woken: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn read(&self, key: &Key) -> ItemRead {
        self.table.get(key).map_or(ItemRead::ABSENT, Row::read)
    }

    fn on_lock(&mut self, now_ms: u64, txn: TxnId, run: Run, out: &mut Out) {
        let finished = self.finished.get(txn).and_then(|outcome| outcome.clock);
        if let Some(clock) = finished.filter(|_| run.finish) {
            let run = run.number;
            out.reply(txn.coordinator, Reply::Granted { txn, run, clock, items: Vec::new() }, Lsn::START);
            return;
        }
        if self.over.is_over(txn.coordinator, txn.sequence) {
            return;
        }
        let known = self.holding.get(&txn).and_then(|runs| runs.iter().find(|one| one.number == run.number));
        if let Some(known) = known {
            // Transactions that still wait will be answered.
            if known.is_granted() {
                let granted = self.granted(txn, known);
                out.reply(txn.coordinator, granted, Lsn::START);
            }
            return;
        }
        self.holding.entry(txn).or_default().push(run);
        self.go_on(now_ms, txn, out);
    }

    fn granted(&self, txn: TxnId, run: &Run) -> Reply {
        let items = run.items.iter().filter(|item| item.read).map(|item| self.read(&item.key)).collect();
        Reply::Granted { txn, run: run.number, clock: self.clock.last(), items }
    }

    /// Locks what is left of the last run, as far as it can be had.
    fn go_on(&mut self, now_ms: u64, txn: TxnId, out: &mut Out) {
        let Some(run) = self.holding.get_mut(&txn).and_then(|runs| runs.last_mut()) else { return };
        while let Some(item) = run.items.get(run.granted) {
            let mode = if item.write.is_some() { Mode::Exclusive } else { Mode::Shared };
            if !self.locks.acquire(&item.key, Owner::Long(txn), mode) {
                self.counts.lock_waits += 1;
                return;
            }
            run.granted += 1;
        }
        self.on_all_granted(now_ms, txn, out);
    }

    /// The last run of the transaction is locked.
    fn on_all_granted(&mut self, now_ms: u64, txn: TxnId, out: &mut Out) {
        let runs = self.holding.get_mut(&txn).expect("it has just got a lock");
        let run = runs.last().expect("it has just got a lock");
        let writes = run.items.iter().any(|item| item.write.is_some());
        if writes {
            self.clock.observe_clock(run.clock);
            self.clock.tick(now_ms);
        }
        if !run.finish {
            let run = self.holding.get(&txn).and_then(|runs| runs.last()).expect("as above");
            out.reply(txn.coordinator, self.granted(txn, run), Lsn::START);
            return;
        }
        let run = runs.pop().expect("as above");
        if runs.is_empty() {
            self.holding.remove(&txn);
        }
        out.reply(txn.coordinator, self.granted(txn, &run), Lsn::START);
        let stamp = Stamp { clock: self.clock.last(), txn };
        if writes {
            self.finished.commit(txn, stamp.clock, ());
        }
        self.apply(stamp, &run);
        self.unlock(txn, &run);
    }

    fn on_release(&mut self, stamp: Stamp, out: &mut Out) {
        let txn = stamp.txn;
        self.clock.observe_clock(stamp.clock);
        for run in self.holding.remove(&txn).unwrap_or_default() {
            // A read that came twice may wait again for what it had already read.
            if run.is_granted() {
                self.apply(stamp, &run);
            }
            self.unlock(txn, &run);
        }
        self.over.set_over(txn.coordinator, txn.sequence);
        out.reply(txn.coordinator, Reply::Released { txn, shard: self.id }, Lsn::START);
    }

    fn apply(&mut self, stamp: Stamp, run: &Run) {
        for item in run.items.iter() {
            let Some(write) = &item.write else { continue };
            let row = self.table.at(&item.key);
            assert!(row.stamp < stamp, "{stamp:?} is no later than what it overwrites");
            row.content.apply(write);
            row.stamp = stamp;
            // A later write gets a higher stamp from the clock, so this one need not be remembered.
            if row.content == Content::Absent {
                self.table.remove(&item.key);
            }
        }
    }

    fn unlock(&mut self, txn: TxnId, run: &Run) {
        // With the one that it waits for.
        for item in run.items.iter().take(run.granted + 1) {
            self.locks.release(&item.key, Owner::Long(txn), &mut self.woken);
        }
    }

    /// Continues the owners that have got a lock, until no further one gets one.
    fn wake(&mut self, now_ms: u64, out: &mut Out) {
        let mut next = 0;
        while let Some(owner) = self.woken.get(next).copied() {
            next += 1;
            match owner {
                Owner::Long(txn) => {
                    let run = self.holding.get_mut(&txn).and_then(|runs| runs.last_mut());
                    run.expect("only who waits is woken").granted += 1;
                    self.go_on(now_ms, txn, out);
                }
                Owner::Short(txn, slot) => self.on_short_granted(txn, slot, out),
            }
        }
        self.woken.clear();
    }

    fn on_get(&mut self, txn: TxnId, keys: &[Key], ranges: &[KeyRange], short_locks: bool, out: &mut Out) {
        if self.gathering.contains_key(&txn) {
            return;
        }
        let singles = keys.len();
        let mut keys = keys.to_vec();
        let mut ends = Vec::with_capacity(ranges.len());
        for range in ranges {
            keys.extend(self.table.range(range).map(|(key, _)| key.clone()));
            ends.push(keys.len());
        }
        let items = Vec::with_capacity(keys.len());
        let mut gathering = Gathering { keys, singles, ends, items, waiting: 0 };
        for (slot, key) in gathering.keys.iter().enumerate() {
            // Granted and released in one step, so the lock manager need not record it.
            if !short_locks || self.locks.admits_shared(key) {
                gathering.items.push(Some(self.read(key)));
            } else {
                let granted = self.locks.acquire(key, Owner::Short(txn, slot as u32), Mode::Shared);
                assert!(!granted, "a lock that admits nobody was granted");
                self.counts.lock_waits += 1;
                gathering.items.push(None);
                gathering.waiting += 1;
            }
        }
        if gathering.waiting == 0 {
            out.reply(txn.coordinator, gathering.reply(txn, self.id), Lsn::START);
        } else {
            self.gathering.insert(txn, gathering);
        }
    }

    fn on_short_granted(&mut self, txn: TxnId, slot: u32, out: &mut Out) {
        let gathering = self.gathering.get(&txn).expect("it waits for this lock");
        let key = gathering.keys[slot as usize].clone();
        let read = self.read(&key);
        self.locks.release(&key, Owner::Short(txn, slot), &mut self.woken);
        let gathering = self.gathering.get_mut(&txn).expect("as above");
        gathering.items[slot as usize] = Some(read);
        gathering.waiting -= 1;
        if gathering.waiting == 0 {
            let gathering = self.gathering.remove(&txn).expect("as above");
            out.reply(txn.coordinator, gathering.reply(txn, self.id), Lsn::START);
        }
    }
}

impl Gathering {
    fn reply(self, txn: TxnId, shard: ShardId) -> Reply {
        let mut items: Vec<ItemRead> = self.items.into_iter().flatten().collect();
        let in_ranges = items.split_off(self.singles);
        let mut entries = self.keys.into_iter().skip(self.singles).zip(in_ranges);
        let mut from = self.singles;
        let mut ranges = Vec::with_capacity(self.ends.len());
        for end in self.ends {
            let entries = entries.by_ref().take(end - from);
            ranges.push(entries.filter(|(_, read)| read.value.is_some()).collect());
            from = end;
        }
        Reply::Got { txn, shard, items, ranges }
    }
}

impl<F: Faults> Shard for Partition<F> {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;

    fn id(&self) -> ShardId {
        self.id
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn on_progress(&mut self, _now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        self.over.on_progress(coordinator, progress.below, 0, |_| ());
        let below = TxnId { coordinator, sequence: progress.below };
        self.finished.forget(TxnId { coordinator, sequence: 0 }..below);
    }

    fn step(&mut self, now_ms: u64, _from: Sender, request: Request, out: &mut Out) {
        match request {
            Request::Lock { txn, run, items, finish, clock } => {
                self.on_lock(now_ms, txn, Run { number: run, items, granted: 0, finish, clock }, out);
            }
            Request::Release { stamp } => self.on_release(stamp, out),
            Request::Get { txn, keys, ranges, short_locks } => {
                self.on_get(txn, &keys, &ranges, short_locks, out);
            }
        }
        self.wake(now_ms, out);
    }

    fn is_idle(&self) -> bool {
        self.holding.is_empty() && self.gathering.is_empty() && self.locks.is_empty()
    }
}

impl<F: Faults> Comparator for Partition<F> {
    fn counts(&self) -> Counts {
        self.counts
    }
}
