//! One shard of the items as a state machine: takes requests, runs each to completion, hands out replies.
//!
//! It never waits: if a reader names a transaction that is only prepared here, the shard commits it (faster commit detection, ramp.txt
//! §4.7), because the reader has seen it committed elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thin_vec::ThinVec;
use weir_core::clock::{CLOCK_AHEAD_MS_MAX, HybridClock, ms_of};
use weir_core::draining::{self, Draining};
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Effects, Shard};
use weir_core::readers::Readers;
use weir_core::termination::{Inquiries, Says as _, Terminates as _, Timeouts, Words};

use super::bytes::Key;
use super::chain::{Chain, Seen, Sight, Version};
use super::log::Record;
use super::message::{
    Answer, Fate, Guard, ItemRead, KeyRange, Note, Position, Progress, Reply, Request, Siblings, Stamp,
    Unsettled, Wanted, Writes,
};
use super::metadata::{Metadata, Sketch};
use super::table::Table;
use super::undecided::Undecided;
use super::write::Write;

/// Longest delay of garbage collection by a slow reader; after it the reader must begin anew.
pub const READER_DELAY_MS_MAX: u64 = 5_000;

/// Planted bugs: the checks must catch every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedBugs {
    /// Metadata is dropped as soon as all participants have committed, despite active readers (S10).
    pub metadata_goes_at_once: bool,
    /// Old versions are dropped as soon as they are overwritten.
    pub versions_go_at_once: bool,
    /// Overwrites become bases of their items despite active readers.
    pub folds_while_read: bool,
    /// Readers of a fresh base get no metadata.
    pub fresh_is_silent: bool,
    /// A named transaction that is only prepared here is not found.
    pub prepared_is_hidden: bool,
    /// A repeated request takes effect again.
    pub takes_effect_twice: bool,
    /// Range answers omit deletions.
    pub tombstones_are_silent: bool,
    /// Round two reads the newest state instead of the one of round one (S5).
    pub round_two_reads_newest: bool,
    /// The clock advances neither at commits nor from coordinators, so later writes may be buried (S9).
    pub clock_ignores_commits: bool,
    /// Merges are folded although an older one may still arrive (S6).
    pub floor_ignores_prepared: bool,
    /// A request whose clock is far ahead moves the shard's clock (S9).
    pub accepts_any_clock: bool,
    /// An abort promise is answered before it is logged (S3).
    pub promise_is_not_recorded: bool,
    /// A shard with a newer version answers that a transaction unknown to it has committed.
    pub newer_means_committed: bool,
    /// A shard that has terminated transactions of a coordinator does not look again when that one falls silent again.
    pub looks_for_the_silent_once: bool,
    /// Termination stamps a transaction with the shard's own prepare clock (S9).
    pub own_stamp_at_termination: bool,
    /// A restarted shard has forgotten its abort promises.
    pub recovery_forgets_promises: bool,
    /// Guards are not checked: writers of one row add deltas to its sums that were computed from an outdated row (S17).
    pub stale_delta: bool,
    /// Garbage collection waits for a slow reader without limit, even if it is dead.
    pub waits_for_readers: bool,
    /// A restarted shard has forgotten its prepared transactions.
    pub recovery_forgets_prepared: bool,
}

#[derive(Debug)]
pub struct Partition {
    pub(super) id: ShardId,
    pub(super) table: Table<Chain>,
    pub(super) clock: HybridClock,
    /// The clock reported by the current batch's coordinator is too far ahead.
    pub(super) clock_is_wrong: bool,
    pub(super) position: Position,
    pub(super) prepared: FxHashMap<TxnId, Prepared>,
    /// Clocks of the prepared transactions; the lowest is the floor.
    pub(super) undecided: Undecided,
    /// Items of the guards held by prepared transactions.
    pub(super) guarded: BTreeSet<Key>,
    /// Committed transactions that are not drained.
    pub(super) committed: FxHashMap<TxnId, Committed>,
    /// Settled transactions.
    pub(super) draining: Draining,
    /// Deleted items, removed once no older write can arrive.
    pub(super) tombstones: VecDeque<(Stamp, Key)>,
    pub(super) readers: Readers,
    /// Answers of other participants about transactions of silent coordinators.
    pub(super) inquiries: Inquiries,
    /// Transactions that will never prepare here.
    pub(super) promises: BTreeSet<TxnId>,
    /// Clocks of transactions that shards have terminated, until their coordinators know.
    pub(super) outcomes: BTreeMap<TxnId, u64>,
    /// Coordinators that were silent for too long.
    pub(super) retired: BTreeSet<CoordinatorId>,
    pub(super) timeouts: Timeouts,
    /// Records that the driver has not taken yet; none: there is no log.
    pub(super) log: Option<Vec<Record>>,
    /// Position after the last record that the driver has taken.
    pub(super) taken: Lsn,
    /// Number of starts of the shard.
    pub(super) incarnation: u64,
    pub(super) bugs: PlantedBugs,
    pub counts: Counts,
}

/// Counters for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Metadata bytes sent to readers.
    pub metadata_bytes: u64,
    /// Transactions committed because a reader named them.
    pub committed_by_readers: u64,
    /// Readers that were dropped for being slow.
    pub readers_expired: u64,
    /// Number of transactions committed, and aborted, by asking the other participants.
    pub terminated: (u64, u64),
    /// Writes rejected because a row that they depend on has changed, or is not visible everywhere yet.
    pub guards_failed: u64,
    /// Transactions whose writes needed no versions, because there were no readers.
    pub folded_at_once: u64,
    /// Writes rejected because a clock was too far ahead.
    pub clocks_refused: u64,
}

/// State of a transaction that is not decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// Clock sent to the coordinator.
    pub clock: u64,
    pub writes: Writes,
    pub siblings: Arc<Siblings>,
    /// Items on this shard that no other transaction may prepare a guarded write of.
    pub guarded: ThinVec<Key>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Committed {
    pub(super) stamp: Stamp,
    pub(super) writes: Writes,
    /// None: it wrote on this shard only.
    pub(super) siblings: Option<Arc<Siblings>>,
    /// All participants have committed it.
    pub(super) settled: bool,
    /// Its writes are all in the bases of their items: nothing has to be folded.
    #[serde(skip)]
    pub(super) folded: bool,
}

impl draining::Committed for Committed {
    fn settled(&mut self) -> &mut bool {
        &mut self.settled
    }
}

/// Clock for a write or a prepare, which may have been prepared or committed before.
struct Admitted {
    clock: u64,
    is_new: bool,
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

    fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        let epoch = self.readers.epoch();
        let (committed, draining) = (&mut self.committed, &mut self.draining);
        let mut settle = |sequence| {
            let txn = TxnId { coordinator, sequence };
            draining.settle(epoch, txn, committed.get_mut(&txn));
        };
        progress.settled.into_iter().for_each(&mut settle);
        // A report of settled transactions may have been lost; this watermark is sent with every batch.
        self.readers.on_progress(coordinator, progress.below, progress.drained, settle);
        self.clock_is_wrong =
            ms_of(progress.clock) > now_ms + CLOCK_AHEAD_MS_MAX && !self.bugs.accepts_any_clock;
        if !self.bugs.clock_ignores_commits && !self.clock_is_wrong {
            self.clock.observe_clock(progress.clock);
        }
        if !self.draining.is_empty() {
            self.let_drain(now_ms);
        }
    }

    fn step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects<Request, Reply>) {
        let coordinator = match from {
            Sender::Coordinator(coordinator) => coordinator,
            Sender::Shard(peer) => {
                let words = self.on_peer(peer, &request);
                return self.send_words(words, out);
            }
        };
        match request {
            Request::Write { txn, writes, begun_ms, guards } => {
                let reply = match self.admit(now_ms, txn, begun_ms, &guards) {
                    Ok(Admitted { clock, is_new }) => {
                        let stamp = Stamp { clock, txn };
                        if is_new {
                            self.on_write(stamp, writes);
                        }
                        Reply::Written { stamp }
                    }
                    Err(refusal) => refusal,
                };
                self.reply(coordinator, reply, out);
            }
            Request::Prepare { txn, writes, siblings, begun_ms, guards } => {
                let reply = match self.admit(now_ms, txn, begun_ms, &guards) {
                    Ok(Admitted { clock, is_new }) => {
                        if is_new {
                            let guarded = guards.into_iter().map(|guard| guard.key).collect();
                            self.on_prepare(txn, Prepared { clock, writes, siblings, guarded });
                        }
                        Reply::Prepared { txn, shard: self.id, clock }
                    }
                    Err(refusal) => refusal,
                };
                self.reply(coordinator, reply, out);
            }
            Request::Commit { stamp } => {
                self.commit(stamp);
                self.reply(coordinator, Reply::Committed { txn: stamp.txn, shard: self.id }, out);
            }
            Request::Abort { txn } => {
                if !self.abort(txn) && self.fate(txn).is_none() {
                    // The prepare of this transaction may arrive later than its abort.
                    self.promise(txn);
                }
            }
            // Only shards send these to each other; a coordinator's are ignored.
            Request::Ask { .. } | Request::Tell { .. } => {}
            Request::Get { read, session, .. }
            | Request::GetAt { read, session, .. }
            | Request::Open { read, session, .. }
                if !self.readers.begin_read(coordinator, session) =>
            {
                let session = self.readers.register(coordinator);
                self.reply(coordinator, Reply::Again { read, shard: self.id, session }, out);
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
                self.reply(coordinator, reply, out);
            }
            Request::Open { read, naming, .. } => {
                naming.into_iter().for_each(|stamp| {
                    self.commit(stamp);
                });
                let reply = self.on_open(read);
                self.reply(coordinator, reply, out);
            }
            Request::GetAt { read, wanted, position, naming, .. } => {
                let reply = self.on_get_at(read, &wanted, position, &naming);
                self.reply(coordinator, reply, out);
            }
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Request, Reply>) {
        self.readers.on_timer(now_ms);
        let words = self.finish_the_silent();
        self.send_words(words, out);
        if !self.draining.is_empty() {
            self.let_drain(now_ms);
        }
    }

    fn is_idle(&self) -> bool {
        self.prepared.is_empty()
    }
}

impl Partition {
    /// Sends a reply. It depends on every record noted so far.
    fn reply(&self, to: CoordinatorId, reply: Reply, out: &mut Effects<Request, Reply>) {
        out.reply(to, reply, self.noted());
    }

    fn send_words(&self, words: Words, out: &mut Effects<Request, Reply>) {
        let after = self.noted();
        words.into_iter().for_each(|(shard, word)| out.ask(shard, Request::saying(word), after));
    }

    pub fn new(id: ShardId, bugs: PlantedBugs) -> Partition {
        Partition {
            id,
            table: Table::default(),
            clock: HybridClock::new(id),
            clock_is_wrong: false,
            position: 0,
            prepared: FxHashMap::default(),
            undecided: Undecided::default(),
            guarded: BTreeSet::new(),
            committed: FxHashMap::default(),
            draining: Draining::default(),
            tombstones: VecDeque::new(),
            readers: Readers::default(),
            inquiries: Inquiries::default(),
            promises: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            retired: BTreeSet::new(),
            timeouts: Timeouts::default(),
            log: None,
            taken: Lsn::START,
            incarnation: 0,
            bugs,
            counts: Counts::default(),
        }
    }

    /// Number of prepared transactions, of committed but undrained ones, and of deleted items.
    pub fn remembered(&self) -> (usize, usize, usize) {
        (self.prepared.len(), self.committed.len(), self.tombstones.len())
    }

    /// Highest clock that this shard has issued or seen.
    pub fn last_clock(&self) -> u64 {
        self.clock.last()
    }

    /// Admits a write or prepare. A repetition is answered as the first time; requests that must not take effect any more, or whose clock
    /// is wrong, are rejected.
    fn admit(&mut self, now_ms: u64, txn: TxnId, begun_ms: u64, guards: &[Guard]) -> Result<Admitted, Reply> {
        let shard = self.id;
        let known = |clock| Ok(Admitted { clock, is_new: false });
        if let Some(prepared) = self.prepared.get(&txn) {
            return known(prepared.clock);
        }
        if self.repeats(txn) {
            // A coordinator that does not know yet that the transaction has committed treats the stamp's clock like that of a prepare: it
            // is the highest of them.
            return match self.fate(txn) {
                Some(Fate::Committed { clock }) => known(clock),
                _ => Err(Reply::Refused { txn, shard }),
            };
        }
        if self.retired.contains(&txn.coordinator) {
            return Err(Reply::Retired { shard });
        }
        if self.promises.contains(&txn) {
            return Err(Reply::Refused { txn, shard });
        }
        if !self.are_clocks_near(now_ms, begun_ms) {
            self.counts.clocks_refused += 1;
            self.promise(txn);
            return Err(Reply::Refused { txn, shard });
        }
        if !guards.iter().all(|guard| self.holds(guard)) {
            self.counts.guards_failed += 1;
            self.promise(txn);
            return Err(Reply::Changed { txn, shard });
        }
        Ok(Admitted { clock: self.clock.tick(now_ms).clock, is_new: true })
    }

    /// Returns whether the shard's clock, the physical clock and the coordinator's are near each other.
    fn are_clocks_near(&self, now_ms: u64, begun_ms: u64) -> bool {
        let near = self.clock.is_near(now_ms, begun_ms) && !self.clock_is_wrong;
        near || self.bugs.accepts_any_clock
    }

    pub(super) fn on_write(&mut self, stamp: Stamp, writes: Writes) {
        if let Some(log) = &mut self.log {
            log.push(Record::Written { stamp, writes: writes.clone() });
        }
        self.readers.set_over(stamp.txn.coordinator, stamp.txn.sequence);
        self.show(stamp, writes, None);
    }

    pub(super) fn on_prepare(&mut self, txn: TxnId, prepared: Prepared) {
        if let Some(log) = &mut self.log {
            log.push(Record::Prepared { txn, prepared: prepared.clone() });
        }
        self.undecided.insert(prepared.clock, txn);
        self.guarded.extend(prepared.guarded.iter().cloned());
        self.prepared.insert(txn, prepared);
    }

    fn repeats(&self, txn: TxnId) -> bool {
        !self.bugs.takes_effect_twice && self.readers.is_over(txn.coordinator, txn.sequence)
    }

    fn release(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&txn)?;
        self.undecided.remove(prepared.clock);
        for key in &prepared.guarded {
            self.guarded.remove(key);
        }
        self.readers.set_over(txn.coordinator, txn.sequence);
        Some(prepared)
    }

    /// Commits a prepared transaction. Returns whether there was one.
    pub(super) fn commit(&mut self, stamp: Stamp) -> bool {
        let Some(prepared) = self.release(stamp.txn) else { return false };
        if let Some(log) = &mut self.log {
            log.push(Record::Committed { stamp });
        }
        if !self.bugs.clock_ignores_commits {
            self.clock.observe_clock(stamp.clock);
        }
        self.show(stamp, prepared.writes, Some(prepared.siblings));
        true
    }

    /// Discards a prepared transaction for good. Returns whether there was one.
    pub(super) fn abort(&mut self, txn: TxnId) -> bool {
        let was = self.release(txn).is_some();
        if was && let Some(log) = &mut self.log {
            log.push(Record::Aborted { txn });
        }
        was
    }

    /// Promises that an unprepared transaction will never prepare here.
    pub(super) fn promise(&mut self, txn: TxnId) {
        self.promises.insert(txn);
        self.readers.know(txn.coordinator);
        if !self.bugs.promise_is_not_recorded
            && let Some(log) = &mut self.log
        {
            log.push(Record::Aborted { txn });
        }
    }

    /// Fate of a transaction on this shard; none: unknown.
    pub(super) fn fate(&self, txn: TxnId) -> Option<Fate> {
        if let Some(prepared) = self.prepared.get(&txn) {
            return Some(Fate::Prepared { clock: prepared.clock });
        }
        let committed = self.committed.get(&txn).map(|committed| committed.stamp.clock);
        if let Some(clock) = committed.or_else(|| self.outcomes.get(&txn).copied()) {
            return Some(Fate::Committed { clock });
        }
        // If the transaction has committed everywhere, no asking shard can still act on this answer.
        let refused = self.promises.contains(&txn)
            || self.retired.contains(&txn.coordinator)
            || self.readers.is_over(txn.coordinator, txn.sequence);
        refused.then_some(Fate::Refused)
    }

    pub(super) fn show(&mut self, stamp: Stamp, writes: Writes, siblings: Option<Arc<Siblings>>) {
        self.position += 1;
        let at_once = self.readers.nobody_reads() || self.bugs.folds_while_read;
        let mut folded = at_once;
        for (key, write) in writes.iter() {
            let chain = self.table.at(key);
            if let (true, Write::Put(value)) = (at_once, write)
                && chain.commit_to_base(stamp, value, siblings.is_some() && !self.bugs.fresh_is_silent)
            {
                continue;
            }
            folded = false;
            let written = siblings.as_ref().map_or(Sketch::NONE, |siblings| siblings.written);
            chain.commit(Version { stamp, write: write.clone(), committed_at: self.position, written });
            if self.bugs.versions_go_at_once {
                chain.collect(stamp, u64::MAX, |_| true);
            }
        }
        self.counts.folded_at_once += u64::from(folded);
        self.committed.insert(stamp.txn, Committed { stamp, writes, siblings, settled: false, folded });
    }

    fn let_drain(&mut self, now_ms: u64) {
        if !self.bugs.waits_for_readers {
            self.counts.readers_expired += self.readers.expire(now_ms, READER_DELAY_MS_MAX) as u64;
        }
        self.drain();
        if !self.draining.is_empty() {
            self.readers.advance(now_ms);
        }
    }

    fn drain(&mut self) {
        let drained = if self.bugs.metadata_goes_at_once { u64::MAX } else { self.readers.drained() };
        let mut done = Vec::new();
        while let Some(txn) = self.draining.next_drained(drained) {
            done.extend(self.committed.remove(&txn).filter(|done| !done.folded));
        }
        done.into_iter().for_each(|done| self.collect(done));
        let floor = self.floor();
        while let Some((stamp, _)) = self.tombstones.front()
            && stamp.clock < floor
        {
            let (stamp, key) = self.tombstones.pop_front().expect("there is a first");
            // Unless the item has been written since.
            if self.table.get(&key).is_some_and(|chain| chain.is_tombstone() == Some(stamp)) {
                self.table.remove(&key);
            }
        }
    }

    /// Garbage collection for a transaction that every reader sees: drops its metadata, and the versions that it overwrote.
    fn collect(&mut self, done: Committed) {
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

    /// No write with a lower clock can arrive: each undecided transaction gets at least its prepare clock, each later one a higher clock.
    fn floor(&self) -> u64 {
        if self.bugs.floor_ignores_prepared {
            return self.clock.last();
        }
        self.undecided.first().unwrap_or(self.clock.last() + 1)
    }

    /// Answers round one of RAMP-Small.
    fn tell(&self, read: u64, wanted: &Wanted) -> Reply {
        let mut stamps: Vec<Stamp> = Vec::new();
        let keys = wanted.keys.iter().filter_map(|key| self.table.get(key));
        let ranges = wanted.ranges.iter().flat_map(|range| self.table.range(range).map(|(_, chain)| chain));
        for chain in keys.chain(ranges) {
            let seen = chain.read(Sight::NEWEST);
            let over_several = seen.contained.iter().filter(|version| version.written != Sketch::NONE);
            for stamp in over_several.map(|version| version.stamp).chain(seen.fresh) {
                if self.committed.contains_key(&stamp.txn) {
                    stamps.push(stamp);
                }
            }
        }
        stamps.sort_unstable();
        stamps.dedup();
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
        let mut naming: SmallVec<[TxnId; 8]> = naming.iter().map(|stamp| stamp.txn).collect();
        naming.sort_unstable();
        let at_cut = Sight { position, naming: &naming };
        let sight = if self.bugs.round_two_reads_newest { Sight::NEWEST } else { at_cut };
        // There is no third round, so round two needs no siblings.
        let (items, notes) = self.answer_keys(&wanted.keys, sight, Sketch::NONE);
        let ranges = self.answer_ranges(&wanted.ranges, sight);
        Reply::Got { read, shard: self.id, round: 2, position, items, notes, ranges }
    }

    fn answer_keys(
        &mut self,
        keys: &[Key],
        sight: Sight<'_>,
        elsewhere: Sketch,
    ) -> (ThinVec<ItemRead>, ThinVec<(u32, Note)>) {
        let (mut items, mut notes) = (ThinVec::with_capacity(keys.len()), ThinVec::new());
        let mut fresh: SmallVec<[usize; 4]> = SmallVec::new();
        let mut told = Told::for_many(keys.len());
        for key in keys {
            let Some(chain) = self.table.get(key) else {
                items.push(ItemRead::ABSENT);
                continue;
            };
            let seen = chain.read(sight);
            if seen.contained.is_empty() && seen.fresh.is_none() {
                items.push(seen.item);
                continue;
            }
            let note = note(&self.committed, &seen, elsewhere, &mut told, &mut self.counts);
            if !note.is_empty() {
                notes.push((items.len() as u32, note));
            } else if seen.fresh.is_some() {
                fresh.push(items.len());
            }
            items.push(seen.item);
        }
        fresh.into_iter().for_each(|at| self.age(&keys[at]));
        (items, notes)
    }

    /// Clears the fresh flag if the transaction is drained, so that later reads need not test it.
    fn age(&mut self, key: &Key) {
        if let Some(chain) = self.table.get_mut(key)
            && chain.fresh().is_some_and(|stamp| !self.committed.contains_key(&stamp.txn))
        {
            chain.age();
        }
    }

    fn answer_ranges(&mut self, ranges: &[KeyRange], sight: Sight<'_>) -> ThinVec<Vec<(Key, Answer)>> {
        let mut answers = ThinVec::with_capacity(ranges.len());
        let mut told = Told::for_many(usize::MAX);
        for range in ranges {
            let mut entries = Vec::new();
            for (key, chain) in self.table.range(range) {
                let seen = chain.read(sight);
                let note = note(&self.committed, &seen, Sketch::ALL, &mut told, &mut self.counts);
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

/// Transactions whose metadata the answer contains already, since hot items would repeat it. None for answers with so few items that
/// nothing repeats.
struct Told(Option<FxHashSet<TxnId>>);

impl Told {
    fn for_many(items: usize) -> Told {
        Told((items > 2).then(FxHashSet::default))
    }

    fn has(&self, txn: TxnId) -> bool {
        self.0.as_ref().is_some_and(|told| told.contains(&txn))
    }

    fn note(&mut self, txn: TxnId) {
        if let Some(told) = &mut self.0 {
            told.insert(txn);
        }
    }
}

/// Metadata of a seen value, limited to transactions that may concern items read elsewhere. A transaction whose metadata the answer
/// contains already is named by its stamp alone.
fn note(
    committed: &FxHashMap<TxnId, Committed>,
    seen: &Seen<'_>,
    elsewhere: Sketch,
    told: &mut Told,
    counts: &mut Counts,
) -> Note {
    let mut note = Note { merged: seen.merged, unsettled: SmallVec::new() };
    let met = seen.contained.iter().filter(|version| version.written.meets(elsewhere));
    for stamp in seen.fresh.into_iter().chain(met.map(|version| version.stamp)) {
        if told.has(stamp.txn) {
            note.unsettled.push(Unsettled { stamp, metadata: Metadata::Stamp });
            continue;
        }
        let siblings = committed.get(&stamp.txn).and_then(|committed| committed.siblings.as_ref());
        // The other items of a fresh base's transaction are not stored with the base.
        let Some(siblings) = siblings.filter(|siblings| siblings.written.meets(elsewhere)) else { continue };
        counts.metadata_bytes += siblings.metadata.bytes() as u64;
        note.unsettled.push(Unsettled { stamp, metadata: siblings.metadata.clone() });
        told.note(stamp.txn);
    }
    note
}
