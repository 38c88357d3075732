//! One shard of the items: takes requests, runs each to completion, hands out replies.
//!
//! Never waits: a reader that names a transaction which is only prepared here commits it (faster commit
//! detection, ramp.txt §4.7), because whoever names it has seen it committed elsewhere.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bytes::Key;
use super::chain::{Chain, Seen, Sight, Version};
use super::message::{
    Answer, ItemRead, KeyRange, Note, Position, Progress, Reply, Request, Stamp, Unsettled, Wanted, Writes,
};
use super::metadata::{Metadata, Sketch};
use super::table::Table;
use crate::clock::HybridClock;
use crate::machine::{Effects, Sender, Shard};
use crate::ramp::{ShardId, TxnId};
use crate::readers::Readers;

/// A slow reader holds up collection for no longer than this, then begins anew.
pub const READER_DELAY_MS_MAX: u64 = 5_000;

/// Deliberate bugs: the checks must catch every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedBugs {
    /// Metadata goes as soon as all participants have committed, whoever is still reading (S10).
    pub metadata_goes_at_once: bool,
    /// Old versions go as soon as they are overwritten.
    pub versions_go_at_once: bool,
    /// A named transaction that is only prepared here is not found.
    pub prepared_is_hidden: bool,
    /// A repeated request takes effect again.
    pub takes_effect_twice: bool,
    /// A range answer says nothing of deletions.
    pub tombstones_are_silent: bool,
    /// Round two reads the newest state instead of the one of round one (S5).
    pub round_two_reads_newest: bool,
    /// Neither commits nor what coordinators know advance the clock, so later writes may be buried (S9).
    pub clock_ignores_commits: bool,
    /// Merged writes are folded although an older one may still come (S6).
    pub floor_ignores_prepared: bool,
}

#[derive(Debug)]
pub struct Partition {
    id: ShardId,
    pub(super) table: Table<Chain>,
    clock: HybridClock,
    position: Position,
    prepared: FxHashMap<TxnId, Prepared>,
    /// The clocks of the prepared transactions: the first is the floor.
    undecided: BTreeSet<(u64, TxnId)>,
    /// Committed transactions that are not drained.
    committed: FxHashMap<TxnId, Committed>,
    /// Settled transactions, with the epoch in which they were.
    draining: VecDeque<(u64, TxnId)>,
    /// Deleted items, to be forgotten once no older write can come.
    tombstones: VecDeque<(Stamp, Key)>,
    readers: Readers,
    bugs: PlantedBugs,
    pub counts: Counts,
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Metadata bytes handed to readers.
    pub metadata_bytes: u64,
    /// Transactions committed because a reader named them.
    pub committed_by_readers: u64,
    /// Readers that were let go for being slow.
    pub readers_expired: u64,
}

#[derive(Debug)]
struct Prepared {
    clock: u64,
    writes: Writes,
    metadata: Metadata,
    written: Sketch,
    participants: Arc<[ShardId]>,
}

#[derive(Debug)]
struct Committed {
    stamp: Stamp,
    writes: Writes,
    metadata: Metadata,
    /// All participants have committed it.
    settled: bool,
}

impl Shard for Partition {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;

    fn id(&self) -> ShardId {
        self.id
    }

    fn epoch(&self) -> u64 {
        self.readers.epoch()
    }

    fn on_progress(&mut self, now_ms: u64, coordinator: u16, progress: Progress) {
        let epoch = self.readers.epoch();
        let (committed, draining) = (&mut self.committed, &mut self.draining);
        let mut settle = |sequence| {
            let txn = TxnId { coordinator, sequence };
            if let Some(committed) = committed.get_mut(&txn).filter(|committed| !committed.settled) {
                committed.settled = true;
                draining.push_back((epoch, txn));
            }
        };
        progress.settled.into_iter().for_each(&mut settle);
        // A word of settled transactions may have been lost; this one is repeated.
        self.readers.on_progress(coordinator, progress.below, progress.drained, settle);
        if !self.bugs.clock_ignores_commits {
            self.clock.observe_clock(progress.clock);
        }
        if !self.draining.is_empty() {
            self.counts.readers_expired += self.readers.expire(now_ms, READER_DELAY_MS_MAX) as u64;
            self.drain();
            if !self.draining.is_empty() {
                self.readers.advance(now_ms);
            }
        }
    }

    fn step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects<Request, Reply>) {
        let Sender::Coordinator(coordinator) = from else {
            unreachable!("shards do not talk to each other yet")
        };
        match request {
            Request::Write { txn, writes } => {
                let stamp = self.on_write(now_ms, txn, writes);
                out.replies.push((coordinator, Reply::Written { stamp }));
            }
            Request::Prepare { txn, writes, participants, metadata, written } => {
                let prepared = Prepared { clock: 0, writes, metadata, written, participants };
                let clock = self.on_prepare(now_ms, txn, prepared);
                let reply = Reply::Prepared { txn, shard: self.id, clock };
                out.replies.push((coordinator, reply));
            }
            Request::Commit { stamp } => {
                self.commit(stamp);
                out.replies.push((coordinator, Reply::Committed { txn: stamp.txn, shard: self.id }));
            }
            Request::Abort { txn } => {
                self.release(txn);
                // Its prepare may arrive later than this.
                self.readers.set_over(txn.coordinator, txn.sequence);
            }
            Request::Get { read, session, .. } | Request::GetAt { read, session, .. }
                if !self.readers.is_registered(coordinator, session) =>
            {
                let session = self.readers.register(coordinator);
                out.replies.push((coordinator, Reply::Again { read, shard: self.id, session }));
            }
            Request::Get { read, wanted, elsewhere, stamps_only, naming, .. } => {
                for stamp in naming {
                    self.commit(stamp);
                }
                let reply = if stamps_only {
                    self.tell(read, &wanted)
                } else {
                    self.on_get(read, &wanted, elsewhere)
                };
                out.replies.push((coordinator, reply));
            }
            Request::GetAt { read, wanted, position, naming, .. } => {
                let reply = self.on_get_at(read, &wanted, position, &naming);
                out.replies.push((coordinator, reply));
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.prepared.is_empty()
    }
}

impl Partition {
    pub fn new(id: ShardId, bugs: PlantedBugs) -> Partition {
        Partition {
            id,
            table: Table::default(),
            clock: HybridClock::new(id),
            position: 0,
            prepared: FxHashMap::default(),
            undecided: BTreeSet::new(),
            committed: FxHashMap::default(),
            draining: VecDeque::new(),
            tombstones: VecDeque::new(),
            readers: Readers::default(),
            bugs,
            counts: Counts::default(),
        }
    }

    /// How much is remembered beside the items: prepared, committed but not drained, and deleted.
    pub fn remembered(&self) -> (usize, usize, usize) {
        (self.prepared.len(), self.committed.len(), self.tombstones.len())
    }

    fn on_write(&mut self, now_ms: u64, txn: TxnId, writes: Writes) -> Stamp {
        if self.repeats(txn) {
            // It is kept until the coordinator has heard of it; after that the stamp matters to nobody.
            let stamp = self.committed.get(&txn).map(|committed| committed.stamp);
            return stamp.unwrap_or(Stamp { clock: self.clock.last(), txn });
        }
        let stamp = Stamp { clock: self.clock.tick(now_ms).clock, txn };
        self.show(stamp, writes, Metadata::Stamp, Sketch::NONE);
        stamp
    }

    fn on_prepare(&mut self, now_ms: u64, txn: TxnId, prepared: Prepared) -> u64 {
        if let Some(prepared) = self.prepared.get(&txn) {
            return prepared.clock;
        }
        if self.repeats(txn) {
            return self.clock.last();
        }
        let clock = self.clock.tick(now_ms).clock;
        self.undecided.insert((clock, txn));
        self.prepared.insert(txn, Prepared { clock, ..prepared });
        clock
    }

    fn repeats(&self, txn: TxnId) -> bool {
        !self.bugs.takes_effect_twice && self.readers.is_over(txn.coordinator, txn.sequence)
    }

    fn release(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&txn)?;
        self.undecided.remove(&(prepared.clock, txn));
        self.readers.set_over(txn.coordinator, txn.sequence);
        Some(prepared)
    }

    /// Commits what is prepared here; says whether something was.
    fn commit(&mut self, stamp: Stamp) -> bool {
        let Some(prepared) = self.release(stamp.txn) else { return false };
        if !self.bugs.clock_ignores_commits {
            self.clock.observe_clock(stamp.clock);
        }
        let Prepared { writes, metadata, written, participants, .. } = prepared;
        self.show(stamp, writes, metadata, if participants.len() == 1 { Sketch::NONE } else { written });
        true
    }

    fn show(&mut self, stamp: Stamp, writes: Writes, metadata: Metadata, written: Sketch) {
        self.position += 1;
        for (key, write) in writes.iter() {
            let chain = self.table.at(key);
            chain.commit(Version { stamp, write: write.clone(), committed_at: self.position, written });
            if self.bugs.versions_go_at_once {
                chain.collect(stamp, u64::MAX, |_| true);
            }
        }
        self.readers.set_over(stamp.txn.coordinator, stamp.txn.sequence);
        self.committed.insert(stamp.txn, Committed { stamp, writes, metadata, settled: false });
    }

    fn drain(&mut self) {
        let drained = if self.bugs.metadata_goes_at_once { u64::MAX } else { self.readers.drained() };
        while let Some(&(epoch, txn)) = self.draining.front()
            && epoch < drained
        {
            self.draining.pop_front();
            self.collect(txn);
        }
        let floor = self.floor();
        while let Some((stamp, _)) = self.tombstones.front()
            && stamp.clock < floor
        {
            let (stamp, key) = self.tombstones.pop_front().expect("there is a first");
            // Unless it has been written since.
            if self.table.get(&key).is_some_and(|chain| chain.is_tombstone() == Some(stamp)) {
                self.table.remove(&key);
            }
        }
    }

    /// Every reader sees the transaction: its metadata goes, and what it overwrote.
    fn collect(&mut self, txn: TxnId) {
        let Some(done) = self.committed.remove(&txn) else { return };
        let floor = self.floor();
        for (key, _) in done.writes.iter() {
            let committed = &self.committed;
            let Some(chain) = self.table.get_mut(key) else { continue };
            chain.collect(done.stamp, floor, |stamp| !committed.contains_key(&stamp.txn));
            if let Some(stamp) = chain.is_tombstone() {
                self.tombstones.push_back((stamp, key.clone()));
            }
        }
    }

    /// No write with a lower clock can come any more: each undecided transaction gets at least the clock
    /// that it was answered, each later one a higher.
    fn floor(&self) -> u64 {
        if self.bugs.floor_ignores_prepared {
            return self.clock.last();
        }
        self.undecided.first().map_or(self.clock.last() + 1, |(clock, _)| *clock)
    }

    /// Round one of RAMP-Small.
    fn tell(&self, read: u64, wanted: &Wanted) -> Reply {
        let mut stamps: Vec<Stamp> = Vec::new();
        let keys = wanted.keys.iter().filter_map(|key| self.table.get(key));
        let ranges = wanted.ranges.iter().flat_map(|range| self.table.range(range).map(|(_, chain)| chain));
        for chain in keys.chain(ranges) {
            for version in chain.contained(Sight::NEWEST) {
                let stamp = version.stamp;
                if version.written != Sketch::NONE
                    && self.committed.contains_key(&stamp.txn)
                    && !stamps.contains(&stamp)
                {
                    stamps.push(stamp);
                }
            }
        }
        Reply::Told { read, shard: self.id, position: self.position, stamps }
    }

    fn on_get(&mut self, read: u64, wanted: &Wanted, elsewhere: Sketch) -> Reply {
        let (items, notes) = self.answer_keys(&wanted.keys, Sight::NEWEST, elsewhere);
        let ranges = self.answer_ranges(&wanted.ranges, Sight::NEWEST);
        Reply::Got { read, shard: self.id, round: 1, position: self.position, items, notes, ranges }
    }

    fn on_get_at(&mut self, read: u64, wanted: &Wanted, position: Position, naming: &[Stamp]) -> Reply {
        if !self.bugs.prepared_is_hidden {
            for stamp in naming {
                self.counts.committed_by_readers += u64::from(self.commit(*stamp));
            }
        }
        let sight = if self.bugs.round_two_reads_newest { Sight::NEWEST } else { Sight { position, naming } };
        // There is no third round that siblings would have to be known for.
        let (items, notes) = self.answer_keys(&wanted.keys, sight, Sketch::NONE);
        let ranges = self.answer_ranges(&wanted.ranges, sight);
        Reply::Got { read, shard: self.id, round: 2, position, items, notes, ranges }
    }

    fn answer_keys(
        &mut self,
        keys: &[Key],
        sight: Sight<'_>,
        elsewhere: Sketch,
    ) -> (Vec<ItemRead>, Vec<(u32, Note)>) {
        let (mut items, mut notes) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in keys {
            let Some(chain) = self.table.get(key) else {
                items.push(ItemRead::ABSENT);
                continue;
            };
            let seen = chain.read(sight);
            if !seen.contained.is_empty() {
                let note = note(&self.committed, &seen, elsewhere, &mut self.counts);
                if !note.is_empty() {
                    notes.push((items.len() as u32, note));
                }
            }
            items.push(seen.item);
        }
        (items, notes)
    }

    fn answer_ranges(&mut self, ranges: &[KeyRange], sight: Sight<'_>) -> Vec<Vec<(Key, Answer)>> {
        let mut answers = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut entries = Vec::new();
            for (key, chain) in self.table.range(range) {
                let seen = chain.read(sight);
                let note = note(&self.committed, &seen, Sketch::ALL, &mut self.counts);
                let told = !note.unsettled.is_empty() && !self.bugs.tombstones_are_silent;
                if seen.item.value.is_some() || told {
                    entries.push((key.clone(), Answer { item: seen.item, note }));
                }
            }
            answers.push(entries);
        }
        answers
    }
}

/// What the reader has to know of what it sees, if it reads that elsewhere.
fn note(
    committed: &FxHashMap<TxnId, Committed>,
    seen: &Seen<'_>,
    elsewhere: Sketch,
    counts: &mut Counts,
) -> Note {
    let mut note = Note { merged: seen.merged, unsettled: SmallVec::new() };
    for version in seen.contained.iter().filter(|version| version.written.meets(elsewhere)) {
        if let Some(committed) = committed.get(&version.stamp.txn) {
            counts.metadata_bytes += committed.metadata.bytes() as u64;
            let metadata = committed.metadata.clone();
            note.unsettled.push(Unsettled { stamp: version.stamp, metadata });
        }
    }
    note
}
