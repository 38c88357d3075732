//! One shard of the items as a state machine: takes requests, runs each to completion, hands out replies.
//!
//! It never waits: if a reader names a transaction that is only prepared here, the shard commits it (faster commit detection, ramp.txt
//! §4.7), because the reader has seen it committed elsewhere.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thin_vec::ThinVec;
use weir_core::clock::{CLOCK_AHEAD_MS_MAX, HybridClock, ms_of};
use weir_core::draining;
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::machine::{Effects, Shard};
use weir_core::participant::{self, Applied, READER_DELAY_MS_MAX, Transactions as _};
use weir_core::termination::{Says as _, Terminates as _, Timeouts, Words};

use super::bytes::Key;
use super::chain::{Chain, Seen, Sight, Version};
use super::faults::{Faults, NoFaults};
use super::log::LoggedCommit;
use super::message::{
    Answer, Fate, Guard, ItemRead, KeyRange, Note, Position, Progress, Reply, Request, Siblings, Stamp,
    Unsettled, Wanted, Writes,
};
use super::metadata::{Metadata, Sketch};
use super::payload::Items;
use super::table::Table;
use super::write::Write;

type Participant = participant::Participant<Items>;

#[derive(Debug)]
pub struct Partition<F = NoFaults> {
    pub(super) id: ShardId,
    pub(super) table: Table<Chain>,
    pub(super) clock: HybridClock,
    /// The clock reported by the current batch's coordinator is too far ahead.
    pub(super) clock_is_wrong: bool,
    pub(super) position: Position,
    /// The state of its transactions.
    pub(super) participant: Participant,
    /// Items of the guards held by prepared transactions.
    pub(super) guarded: BTreeSet<Key>,
    /// Deleted items, removed once no older write can arrive.
    pub(super) tombstones: VecDeque<(Stamp, Key)>,
    pub(super) bugs: F,
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

impl participant::Prepared for Prepared {
    fn since(&self) -> u64 {
        self.clock
    }

    fn clock(&self) -> u64 {
        self.clock
    }

    fn participants(&self) -> &[ShardId] {
        &self.siblings.participants
    }
}

/// A transaction that may not have reached its other participants, or that readers may ask for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Committed {
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

impl participant::Committed for Committed {
    fn clock(&self) -> u64 {
        self.stamp.clock
    }

    fn participants(&self) -> &[ShardId] {
        self.siblings.as_ref().map_or(&[], |siblings| &siblings.participants)
    }

    fn is_settled(&self) -> bool {
        self.settled
    }
}

/// Clock for a write or a prepare, which may have been prepared or committed before.
struct Admitted {
    clock: u64,
    is_new: bool,
}

impl<F: Faults> Shard for Partition<F> {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;

    fn id(&self) -> ShardId {
        self.id
    }

    fn epoch(&self) -> u64 {
        self.participant.readers.epoch()
    }

    fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        match (self as &mut dyn Any).downcast_mut::<Partition>() {
            Some(product) => progress_at_product(product, now_ms, coordinator, progress),
            None => self.take_progress(now_ms, coordinator, progress),
        }
    }

    fn step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects<Request, Reply>) {
        match (self as &mut dyn Any).downcast_mut::<Partition>() {
            Some(product) => step_of_product(product, now_ms, from, request, out),
            None => self.take_step(now_ms, from, request, out),
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Request, Reply>) {
        self.participant.readers.on_timer(now_ms);
        let words = self.finish_the_silent();
        self.send_words(words, out);
        if self.participant.is_draining() {
            self.let_drain(now_ms);
        }
    }

    fn is_idle(&self) -> bool {
        self.participant.prepared().is_empty()
    }
}

/// Not generic, so that the shard of products is compiled in this crate, as one unit: code of a generic function is made in each crate that
/// calls it, where the small functions of items are not inlined.
fn step_of_product(
    shard: &mut Partition,
    now_ms: u64,
    from: Sender,
    request: Request,
    out: &mut Effects<Request, Reply>,
) {
    shard.take_step(now_ms, from, request, out);
}

fn progress_at_product(shard: &mut Partition, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
    shard.take_progress(now_ms, coordinator, progress);
}

impl<F: Faults> Partition<F> {
    fn take_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        self.participant.on_progress(coordinator, progress.settled, progress.below, progress.drained);
        self.clock_is_wrong =
            ms_of(progress.clock) > now_ms + CLOCK_AHEAD_MS_MAX && !self.bugs.accepts_any_clock();
        if !self.bugs.clock_ignores_commits() && !self.clock_is_wrong {
            self.clock.observe_clock(progress.clock);
        }
        if self.participant.is_draining() {
            self.let_drain(now_ms);
        }
    }

    fn take_step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects<Request, Reply>) {
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
                self.commit(stamp.txn, stamp);
                self.reply(coordinator, Reply::Committed { txn: stamp.txn, shard: self.id }, out);
            }
            Request::Abort { txn } => {
                if !self.abort(txn) && self.participant.fate(txn).is_none() {
                    // The prepare of this transaction may arrive later than its abort.
                    self.promise(txn);
                }
            }
            // Only shards send these to each other; a coordinator's are ignored.
            Request::Ask { .. } | Request::Tell { .. } => {}
            Request::Get { read, session, .. }
            | Request::GetAt { read, session, .. }
            | Request::Open { read, session, .. }
                if !self.participant.readers.begin_read(coordinator, session) =>
            {
                let session = self.participant.readers.register(coordinator);
                self.reply(coordinator, Reply::Again { read, shard: self.id, session }, out);
            }
            Request::Get { read, wanted, elsewhere, stamps_only, naming, .. } => {
                for stamp in naming {
                    self.commit(stamp.txn, stamp);
                }
                let reply = if stamps_only {
                    self.tell(read, &wanted)
                } else {
                    self.on_get(read, &wanted, elsewhere)
                };
                self.reply(coordinator, reply, out);
            }
            Request::Open { read, naming, .. } => {
                for stamp in naming {
                    self.commit(stamp.txn, stamp);
                }
                let reply = self.on_open(read);
                self.reply(coordinator, reply, out);
            }
            Request::GetAt { read, wanted, position, naming, .. } => {
                let reply = self.on_get_at(read, &wanted, position, &naming);
                self.reply(coordinator, reply, out);
            }
        }
    }

    /// Sends a reply. It depends on every record noted so far.
    fn reply(&self, to: CoordinatorId, reply: Reply, out: &mut Effects<Request, Reply>) {
        out.reply(to, reply, self.noted());
    }

    fn send_words(&self, words: Words, out: &mut Effects<Request, Reply>) {
        let after = self.noted();
        words.into_iter().for_each(|(shard, word)| out.ask(shard, Request::saying(word), after));
    }

    pub fn new(id: ShardId, bugs: F) -> Partition<F> {
        Partition {
            id,
            table: Table::default(),
            clock: HybridClock::new(id),
            clock_is_wrong: false,
            position: 0,
            participant: Participant::remembering(Timeouts::default()),
            guarded: BTreeSet::new(),
            tombstones: VecDeque::new(),
            bugs,
            counts: Counts::default(),
        }
    }

    /// Number of prepared transactions, of committed but undrained ones, and of deleted items.
    pub fn remembered(&self) -> (usize, usize, usize) {
        (self.participant.prepared().len(), self.participant.committed().len(), self.tombstones.len())
    }

    /// Number of transactions committed, and aborted, by asking the other participants.
    pub fn terminated(&self) -> (u64, u64) {
        self.participant.terminated()
    }

    /// Fate of a transaction on this shard; none: unknown.
    pub fn fate(&self, txn: TxnId) -> Option<Fate> {
        self.participant.fate(txn)
    }

    /// State left of that coordinator's transactions.
    pub fn left_of(&self, coordinator: CoordinatorId) -> participant::Left {
        self.participant.left_of(coordinator)
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
        if let Some(prepared) = self.participant.prepared().get(&txn) {
            return known(prepared.clock);
        }
        if self.repeats(txn) {
            // A coordinator that does not know yet that the transaction has committed treats the stamp's clock like that of a prepare: it
            // is the highest of them.
            return match self.participant.fate(txn) {
                Some(Fate::Committed { clock }) => known(clock),
                _ => Err(Reply::Refused { txn, shard }),
            };
        }
        if self.participant.outcomes.is_retired(txn.coordinator) {
            return Err(Reply::Retired { shard });
        }
        if self.participant.outcomes.get(txn).is_some_and(|outcome| outcome.clock.is_none()) {
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
        near || self.bugs.accepts_any_clock()
    }

    /// Commits a transaction of this shard alone.
    pub(super) fn on_write(&mut self, stamp: Stamp, writes: Writes) {
        let record = self.participant.log.is_on();
        let record = record.then(|| LoggedCommit::Written { stamp, writes: writes.clone() });
        let committed = Some(self.show(stamp, writes, None));
        self.participant.note_commit((stamp.txn, stamp.clock), (), Applied { committed, record });
    }

    fn on_prepare(&mut self, txn: TxnId, prepared: Prepared) {
        if self.participant.log.is_on() {
            let prepared = prepared.clone();
            self.participant.log.push(participant::Record::Prepared { txn, prepared });
        }
        self.hold(txn, prepared);
    }

    fn repeats(&self, txn: TxnId) -> bool {
        !self.bugs.takes_effect_twice() && self.participant.readers.is_over(txn.coordinator, txn.sequence)
    }

    /// Makes writes visible.
    pub(super) fn show(
        &mut self,
        stamp: Stamp,
        writes: Writes,
        siblings: Option<Arc<Siblings>>,
    ) -> Committed {
        self.position += 1;
        let at_once = self.participant.readers.nobody_reads() || self.bugs.folds_while_read();
        let mut folded = at_once;
        for (key, write) in writes.iter() {
            let chain = self.table.at(key);
            if let (true, Write::Put(value)) = (at_once, write)
                && chain.commit_to_base(stamp, value, siblings.is_some() && !self.bugs.fresh_is_silent())
            {
                continue;
            }
            folded = false;
            let written = siblings.as_ref().map_or(Sketch::NONE, |siblings| siblings.written);
            chain.commit(Version { stamp, write: write.clone(), committed_at: self.position, written });
            if self.bugs.versions_go_at_once() {
                chain.collect(stamp, u64::MAX, |_| true);
            }
        }
        self.counts.folded_at_once += u64::from(folded);
        Committed { stamp, writes, siblings, settled: false, folded }
    }

    fn let_drain(&mut self, now_ms: u64) {
        if !self.bugs.waits_for_readers() {
            let expired = self.participant.readers.expire(now_ms, READER_DELAY_MS_MAX);
            self.counts.readers_expired += expired as u64;
        }
        self.drain();
        self.participant.advance(now_ms);
    }

    fn drain(&mut self) {
        let drained =
            if self.bugs.metadata_goes_at_once() { u64::MAX } else { self.participant.readers.drained() };
        let mut done = Vec::new();
        while let Some(committed) = self.participant.next_drained(drained) {
            done.extend(Some(committed).filter(|done| !done.folded));
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
            let committed = self.participant.committed();
            let Some(chain) = self.table.get_mut(key) else { continue };
            chain.collect(done.stamp, floor, |stamp| !committed.contains_key(&stamp.txn));
            if let Some(stamp) = chain.is_tombstone() {
                self.tombstones.push_back((stamp, key.clone()));
            }
        }
    }

    /// No write with a lower clock can arrive: each undecided transaction gets at least its prepare clock, each later one a higher clock.
    fn floor(&self) -> u64 {
        if self.bugs.floor_ignores_prepared() {
            return self.clock.last();
        }
        self.participant.oldest_prepare().unwrap_or(self.clock.last() + 1)
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
                if self.participant.committed().contains_key(&stamp.txn) {
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
        if !self.bugs.prepared_is_hidden() {
            for stamp in naming {
                self.counts.committed_by_readers += u64::from(self.commit(stamp.txn, *stamp));
            }
        }
        let mut naming: SmallVec<[TxnId; 8]> = naming.iter().map(|stamp| stamp.txn).collect();
        naming.sort_unstable();
        let at_cut = Sight { position, naming: &naming };
        let sight = if self.bugs.round_two_reads_newest() { Sight::NEWEST } else { at_cut };
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
            let note = note(self.participant.committed(), &seen, elsewhere, &mut told, &mut self.counts);
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
            && chain.fresh().is_some_and(|stamp| !self.participant.committed().contains_key(&stamp.txn))
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
                let note =
                    note(self.participant.committed(), &seen, Sketch::ALL, &mut told, &mut self.counts);
                let told = !note.unsettled.is_empty() && !self.bugs.tombstones_are_silent();
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
