//! One shard of the items: takes requests, runs each to completion, hands out replies.
//!
//! Never waits: a reader that names a transaction which is only prepared here commits it (faster commit
//! detection, ramp.txt §4.7), because whoever names it has seen it committed elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thin_vec::ThinVec;

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
use crate::clock::{CLOCK_AHEAD_MS_MAX, HybridClock, ms_of};
use crate::machine::{CoordinatorId, Effects, Sender, Shard};
use crate::ramp::{ShardId, TxnId};
use crate::readers::Readers;
use crate::termination::{Inquiries, Terminates as _, Timeouts};

/// A slow reader holds up collection for no longer than this, then begins anew.
pub const READER_DELAY_MS_MAX: u64 = 5_000;

/// Deliberate bugs: the checks must catch every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedBugs {
    /// Metadata goes as soon as all participants have committed, whoever is still reading (S10).
    pub metadata_goes_at_once: bool,
    /// Old versions go as soon as they are overwritten.
    pub versions_go_at_once: bool,
    /// Overwrites become the bases of their items although somebody reads.
    pub folds_while_read: bool,
    /// Of a fresh base readers are told nothing.
    pub fresh_is_silent: bool,
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
    /// A clock that is far ahead is taken over (S9).
    pub accepts_any_clock: bool,
    /// An abort promise is not written down before it is answered (S3).
    pub promise_is_not_recorded: bool,
    /// Whoever holds something newer says that a transaction which it does not know has committed.
    pub newer_means_committed: bool,
    /// A shard that has finished what a coordinator left does not look when one falls silent again.
    pub looks_for_the_silent_once: bool,
    /// Termination stamps a transaction with the shard's own prepare clock (S9).
    pub own_stamp_at_termination: bool,
    /// A shard that starts again has no abort promises.
    pub recovery_forgets_promises: bool,
    /// Guards are not looked at: writers of one row add to its sums what they have computed from one old row (S17).
    pub stale_delta: bool,
    /// Collection waits for a slow reader as long as it likes, even if it is dead.
    pub waits_for_readers: bool,
    /// A shard that starts again has nothing prepared.
    pub recovery_forgets_prepared: bool,
}

#[derive(Debug)]
pub struct Partition {
    pub(super) id: ShardId,
    pub(super) table: Table<Chain>,
    pub(super) clock: HybridClock,
    /// The clock that the present batch's coordinator knows is too far ahead.
    pub(super) clock_is_wrong: bool,
    pub(super) position: Position,
    pub(super) prepared: FxHashMap<TxnId, Prepared>,
    /// The clocks of the prepared transactions: the first is the floor.
    pub(super) undecided: Undecided,
    /// Of the prepared transactions: the items whose guards they hold.
    pub(super) guarded: BTreeSet<Key>,
    /// Committed transactions that are not drained.
    pub(super) committed: FxHashMap<TxnId, Committed>,
    /// Settled transactions, with the epoch in which they were.
    pub(super) draining: VecDeque<(u64, TxnId)>,
    /// Deleted items, to be forgotten once no older write can come.
    pub(super) tombstones: VecDeque<(Stamp, Key)>,
    pub(super) readers: Readers,
    /// What the other participants have said of transactions whose coordinators are silent.
    pub(super) inquiries: Inquiries,
    /// Transactions that will never prepare here.
    pub(super) promises: BTreeSet<TxnId>,
    /// The clocks of transactions that the shards have settled among themselves, until their coordinators know.
    pub(super) outcomes: BTreeMap<TxnId, u64>,
    /// Coordinators that were silent for too long.
    pub(super) retired: BTreeSet<CoordinatorId>,
    pub(super) timeouts: Timeouts,
    /// What the driver has not written down yet; none: there is no log.
    pub(super) log: Option<Vec<Record>>,
    /// How often the shard has started.
    pub(super) incarnation: u64,
    pub(super) bugs: PlantedBugs,
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
    /// Transactions committed, and aborted, because the other participants were asked.
    pub terminated: (u64, u64),
    /// Writes refused because what they were computed from has changed, or is not everywhere yet.
    pub guards_failed: u64,
    /// Transactions whose writes needed no versions, because nobody read.
    pub folded_at_once: u64,
    /// Writes refused because some clock was too far ahead.
    pub clocks_refused: u64,
}

/// What a shard keeps of a transaction until it is decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// What the coordinator is answered.
    pub clock: u64,
    pub writes: Writes,
    pub siblings: Arc<Siblings>,
    /// Items here that nobody else may prepare to write under a guard.
    pub guarded: ThinVec<Key>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Committed {
    pub(super) stamp: Stamp,
    pub(super) writes: Writes,
    /// None: only this shard.
    pub(super) siblings: Option<Arc<Siblings>>,
    /// All participants have committed it.
    pub(super) settled: bool,
    /// What it wrote is in the bases of its items: nothing of it has to be folded.
    #[serde(skip)]
    pub(super) folded: bool,
}

/// The clock of a write or a prepare, which may have been prepared or committed before.
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
            if let Some(committed) = committed.get_mut(&txn).filter(|committed| !committed.settled) {
                committed.settled = true;
                draining.push_back((epoch, txn));
            }
        };
        progress.settled.into_iter().for_each(&mut settle);
        // A word of settled transactions may have been lost; this one is repeated.
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
            Sender::Shard(peer) => return self.on_peer(peer, &request, &mut out.peers),
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
                out.replies.push((coordinator, reply));
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
                out.replies.push((coordinator, reply));
            }
            Request::Commit { stamp } => {
                self.commit(stamp);
                out.replies.push((coordinator, Reply::Committed { txn: stamp.txn, shard: self.id }));
            }
            Request::Abort { txn } => {
                if !self.abort(txn) && self.fate(txn).is_none() {
                    // Its prepare may arrive later than this.
                    self.promise(txn);
                }
            }
            // Only shards ask each other; from a coordinator it means nothing.
            Request::Ask { .. } | Request::Tell { .. } => {}
            Request::Get { read, session, .. }
            | Request::GetAt { read, session, .. }
            | Request::Open { read, session, .. }
                if !self.readers.begin_read(coordinator, session) =>
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
            Request::Open { read, naming, .. } => {
                naming.into_iter().for_each(|stamp| {
                    self.commit(stamp);
                });
                out.replies.push((coordinator, self.on_open(read)));
            }
            Request::GetAt { read, wanted, position, naming, .. } => {
                let reply = self.on_get_at(read, &wanted, position, &naming);
                out.replies.push((coordinator, reply));
            }
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Request, Reply>) {
        self.readers.on_timer(now_ms);
        self.finish_the_silent(&mut out.peers);
        if !self.draining.is_empty() {
            self.let_drain(now_ms);
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
            clock_is_wrong: false,
            position: 0,
            prepared: FxHashMap::default(),
            undecided: Undecided::default(),
            guarded: BTreeSet::new(),
            committed: FxHashMap::default(),
            draining: VecDeque::new(),
            tombstones: VecDeque::new(),
            readers: Readers::default(),
            inquiries: Inquiries::default(),
            promises: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            retired: BTreeSet::new(),
            timeouts: Timeouts::default(),
            log: None,
            incarnation: 0,
            bugs,
            counts: Counts::default(),
        }
    }

    /// How much is remembered beside the items: prepared, committed but not drained, and deleted.
    pub fn remembered(&self) -> (usize, usize, usize) {
        (self.prepared.len(), self.committed.len(), self.tombstones.len())
    }

    /// The highest clock that it has given or seen.
    pub fn last_clock(&self) -> u64 {
        self.clock.last()
    }

    /// Answers a repetition as the first time; refuses what must not take effect any more, and what some clock is
    /// too wrong for.
    fn admit(&mut self, now_ms: u64, txn: TxnId, begun_ms: u64, guards: &[Guard]) -> Result<Admitted, Reply> {
        let shard = self.id;
        let known = |clock| Ok(Admitted { clock, is_new: false });
        if let Some(prepared) = self.prepared.get(&txn) {
            return known(prepared.clock);
        }
        if self.repeats(txn) {
            // To a coordinator that does not know yet that it has committed, its stamp is as good as the clock of a
            // prepare: it is the highest of them.
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

    /// The clock that a write would get now, the shard's time and the coordinator's are not too far apart.
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

    /// Commits what is prepared here; says whether something was.
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

    /// Forgets what is prepared here, for good; says whether something was.
    pub(super) fn abort(&mut self, txn: TxnId) -> bool {
        let was = self.release(txn).is_some();
        if was && let Some(log) = &mut self.log {
            log.push(Record::Aborted { txn });
        }
        was
    }

    /// A transaction that has not prepared here never will.
    pub(super) fn promise(&mut self, txn: TxnId) {
        self.promises.insert(txn);
        self.readers.know(txn.coordinator);
        if !self.bugs.promise_is_not_recorded
            && let Some(log) = &mut self.log
        {
            log.push(Record::Aborted { txn });
        }
    }

    /// What is known here of a transaction; none: nothing has been heard of it.
    pub(super) fn fate(&self, txn: TxnId) -> Option<Fate> {
        if let Some(prepared) = self.prepared.get(&txn) {
            return Some(Fate::Prepared { clock: prepared.clock });
        }
        let committed = self.committed.get(&txn).map(|committed| committed.stamp.clock);
        if let Some(clock) = committed.or_else(|| self.outcomes.get(&txn).copied()) {
            return Some(Fate::Committed { clock });
        }
        // Of what has committed everywhere nobody asks who could still act on the answer.
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
        while let Some(&(epoch, txn)) = self.draining.front()
            && epoch < drained
        {
            self.draining.pop_front();
            done.extend(self.committed.remove(&txn).filter(|done| !done.folded));
        }
        done.into_iter().for_each(|done| self.collect(done));
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

    /// No write with a lower clock can come any more: each undecided transaction gets at least the clock
    /// that it was answered, each later one a higher.
    fn floor(&self) -> u64 {
        if self.bugs.floor_ignores_prepared {
            return self.clock.last();
        }
        self.undecided.first().unwrap_or(self.clock.last() + 1)
    }

    /// Round one of RAMP-Small.
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

    /// Looks whether a base is still fresh, so that the next read does not have to.
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

/// The transactions whose metadata an answer has already: of an answer with many items hot ones would have it many times.
/// None where there are so few items that nothing comes twice.
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

/// What the reader has to know of what it sees, if it reads that elsewhere. What the answer has told already is named by its
/// stamp alone.
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
        // Of a fresh base it is not said with the base what else was written.
        let Some(siblings) = siblings.filter(|siblings| siblings.written.meets(elsewhere)) else { continue };
        counts.metadata_bytes += siblings.metadata.bytes() as u64;
        note.unsettled.push(Unsettled { stamp, metadata: siblings.metadata.clone() });
        told.note(stamp.txn);
    }
    note
}
