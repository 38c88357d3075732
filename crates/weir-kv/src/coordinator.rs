//! The client's side of RAMP over items: PUT_ALL, GET_ALL, and transactions that read and then write.
//!
//! A transaction is committed from the moment when all participants have prepared (S3). The client is answered when all have committed;
//! with one-phase writes (ramp.txt §4.7) already after all have prepared and COMMIT has been sent. On ordered links the client's next
//! read arrives after COMMIT; on others the read names the transactions that it must see.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::flights::{Drains, Flights};
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{self, Orders, Sent};
use weir_core::round::Round;

use super::bytes::Key;
use super::faults::{ClientFaults, NoFaults};
use super::interactive::{Interactive, OpeningFlight};
use super::message::{Guard, KeyRange, Progress, Reply, Request, Siblings, Stamp, Writes};
use super::metadata::{Sketch, Variant};
use super::place::{ByShard, Slots, hash_of, part_at, shard_of, shard_of_hash};
use super::reader::{Read, ReadSet, Step};
use super::write::Write;

/// Reads of items and ranges, then writes.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub reads: Vec<Key>,
    pub ranges: Vec<KeyRange>,
    /// Each item once.
    pub writes: Vec<(Key, Write)>,
}

/// Result for a client.
#[derive(Clone, Debug)]
pub enum Done {
    Committed {
        read: ReadSet,
        /// Stamp of its writes, if there were any.
        stamp: Option<Stamp>,
        /// Message rounds of the read and of the write.
        rounds: (u32, u32),
    },
    /// A shard had promised that it would never commit: nothing of it is visible.
    Aborted,
    /// A guarded row has changed since it was read, or is not visible everywhere yet. Nothing of the transaction is visible; the client
    /// may retry it.
    Conflict,
    /// The rows of one shard exceed a message. Nothing has happened; an interactive transaction has ended.
    TooLarge,
    /// Result of a statement of an interactive transaction.
    Read { read: ReadSet, rounds: u32 },
    /// The interactive transaction has ended without effect, because its cut is not kept any more; the client may retry it.
    Restart,
}

/// Outcome of a transaction that the client has abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    NothingHappened,
    /// It may or may not take effect.
    Unknown,
}

/// How a coordinator's links behave, and which bugs are planted.
#[derive(Clone, Copy, Debug)]
pub struct Options<F = NoFaults> {
    pub variant: Variant,
    pub shards: ShardId,
    /// Requests to a shard arrive completely and in the order in which they are sent. Not so if a shard may crash and restart; on ordered
    /// links no write is kept for resending.
    pub links_keep_order: bool,
    /// Answers clients once all participants have prepared: saves one round trip, at the cost stated in docs/internals/items.md.
    pub one_phase: bool,
    pub bugs: F,
}

pub struct Coordinator<F = NoFaults> {
    id: CoordinatorId,
    pub(super) options: Options<F>,
    writes: Flights<Put>,
    pub(super) reads: Flights<ReadFlight<F>>,
    /// Interactive transactions, by tag.
    pub(super) interactive: BTreeMap<u64, Interactive>,
    /// Sessions under which this reader is registered, by shard.
    pub(super) sessions: Vec<u64>,
    pub(super) drains: Drains,
    /// By shard: transactions committed by all participants that have not been reported yet.
    settled: Vec<Vec<u64>>,
    clock: u64,
    is_retired: bool,
}

struct Put {
    tag: u64,
    /// In the order of the given keys, kept for resending; empty on lossless links. Participants get copies: sharing between two threads
    /// is slower.
    writes: Vec<(Key, Write)>,
    guards: Vec<Guard>,
    /// Indexes of the writes of each participant; none for one that only checks a guard.
    round: Round<Slots>,
    /// Coordinator's clock when the transaction began.
    begun_ms: u64,
    /// Assigned when all have prepared.
    stamp: Option<Stamp>,
    prepared_clock: u64,
    /// None: a single participant, or no resending.
    siblings: Option<Arc<Siblings>>,
    read: ReadSet,
    read_rounds: u32,
    sent: Sent,
}

/// A read in flight.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind, and none is ever moved")]
pub(super) enum ReadFlight<F> {
    Get(Get<F>),
    /// An interactive transaction is taking its cut.
    Opening(Box<OpeningFlight>),
    /// An interactive transaction holds its cut.
    Held,
}

pub(super) struct Get<F> {
    pub(super) tag: u64,
    pub(super) machine: Read<F>,
    pub(super) writes: Vec<(Key, Write)>,
    pub(super) sent: Sent,
    /// Message rounds of earlier attempts.
    pub(super) earlier_rounds: u32,
    /// It is a statement of an interactive transaction.
    pub(super) of_several: bool,
}

pub(super) type Out = Orders<Request, Done>;

impl<F: ClientFaults> Coordinator<F> {
    /// `base`: the first sequence number. A coordinator that restarts under an old id must begin above all numbers used before.
    pub fn new(id: CoordinatorId, base: u64, options: Options<F>) -> Coordinator<F> {
        assert!(options.shards > 0, "a cluster has shards");
        Coordinator {
            id,
            options,
            writes: Flights::from(base),
            reads: Flights::from(base),
            interactive: BTreeMap::new(),
            sessions: vec![0; usize::from(options.shards)],
            drains: Drains::default(),
            settled: vec![Vec::new(); usize::from(options.shards)],
            clock: 0,
            is_retired: false,
        }
    }

    /// For reports: distance from the oldest operation in flight to the newest, and number of settled transactions not reported yet.
    pub fn kept(&self) -> (usize, usize) {
        (self.writes.window() + self.reads.window(), self.settled.iter().map(Vec::len).sum())
    }

    /// Id of the next transaction that writes.
    pub(super) fn next_txn(&self) -> TxnId {
        TxnId { coordinator: self.id, sequence: self.writes.next() }
    }

    /// Unanswered transaction of the write that was begun under the tag.
    pub fn txn_of(&mut self, tag: u64) -> Option<TxnId> {
        let (coordinator, one_phase) = (self.id, self.options.one_phase);
        let unanswered = |put: &Put| put.tag == tag && !(one_phase && put.stamp.is_some());
        let (sequence, _) = self.writes.iter_mut().find(|(_, put)| unanswered(put))?;
        Some(TxnId { coordinator, sequence })
    }

    /// Abandons the operation under the tag. A read has no effect; a write continues, and its outcome is unknown to the client.
    pub fn give_up(&mut self, tag: u64) -> GivenUp {
        if self.is_open(tag) {
            self.roll_back(tag);
            return GivenUp::NothingHappened;
        }
        let is_read = |flight: &ReadFlight<F>| matches!(flight, ReadFlight::Get(get) if get.tag == tag);
        let read = self.reads.iter_mut().find(|(_, flight)| is_read(flight)).map(|(read, _)| read);
        if let Some(read) = read {
            self.reads.end(read);
            self.drains.on_ended(self.reads.base());
            return GivenUp::NothingHappened;
        }
        if self.options.bugs.denies_what_goes_on() {
            return GivenUp::NothingHappened;
        }
        // Its participants may find out that all have prepared, and commit it (S3).
        GivenUp::Unknown
    }

    /// Begins a read; returns its number.
    pub(super) fn begin_get(
        &mut self,
        now_ms: u64,
        tag: u64,
        (reads, ranges, writes): (Vec<Key>, Vec<KeyRange>, Vec<(Key, Write)>),
        (earlier_rounds, of_several): (u32, bool),
        out: &mut Out,
    ) -> u64 {
        let Options { bugs, variant, shards, .. } = self.options;
        let session = |shard: ShardId| self.sessions[usize::from(shard)];
        let mut machine = Read::begin(bugs, variant, shards, reads, ranges, session);
        if !self.options.links_keep_order {
            machine.name_own(self.own_to_name());
        }
        machine.ask(self.reads.next(), &mut out.sends);
        let get = Get { tag, machine, writes, sent: Sent::at(now_ms), earlier_rounds, of_several };
        self.reads.begin(ReadFlight::Get(get))
    }

    /// The client's own writes that reads must name.
    pub(super) fn own_to_name(&mut self) -> BTreeMap<ShardId, Vec<Stamp>> {
        let in_order = self.options.links_keep_order || self.options.bugs.forgets_own_writes();
        if in_order { BTreeMap::new() } else { self.own_commits() }
    }

    /// Own transactions that the client knows of and that may not have arrived at all participants, by participant.
    fn own_commits(&mut self) -> BTreeMap<ShardId, Vec<Stamp>> {
        let mut own: BTreeMap<ShardId, Vec<Stamp>> = BTreeMap::new();
        for (_, put) in self.writes.iter_mut() {
            let Some(stamp) = put.stamp else { continue };
            for (shard, _) in put.round.unanswered() {
                own.entry(shard).or_default().push(stamp);
            }
        }
        own
    }

    pub(super) fn begin_write(
        &mut self,
        now_ms: u64,
        tag: u64,
        (writes, guards): (Vec<(Key, Write)>, Vec<Guard>),
        read: ReadSet,
        read_rounds: u32,
        out: &mut Out,
    ) {
        let mut by_shard: ByShard<Slots> = ByShard::new();
        let mut written = Sketch::NONE;
        for (slot, (key, _)) in writes.iter().enumerate() {
            let hash = hash_of(key);
            written = written.and(Sketch::of_hash(hash));
            let shard = shard_of_hash(hash, self.options.shards);
            part_at(&mut by_shard, shard, Slots::new).push(slot as u32);
        }
        // A shard that only checks a guard is a participant too.
        for guard in &guards {
            part_at(&mut by_shard, shard_of(&guard.key, self.options.shards), Slots::new);
        }
        // Readers need siblings only with several participants.
        let siblings = (by_shard.len() > 1).then(|| {
            let variant = self.options.variant;
            let written = if variant == Variant::Small { Sketch::ALL } else { written };
            let metadata = variant.metadata(writes.iter().map(|(key, _)| key));
            let participants = by_shard.iter().map(|(shard, _)| *shard).collect();
            Arc::new(Siblings { metadata, written, participants })
        });
        let sequence = self.writes.next();
        let mut put = Put {
            tag,
            writes,
            guards,
            round: by_shard.into_iter().collect(),
            begun_ms: now_ms,
            stamp: None,
            prepared_clock: 0,
            siblings,
            read,
            read_rounds,
            sent: Sent::at(now_ms),
        };
        let txn = TxnId { coordinator: self.id, sequence };
        if self.options.links_keep_order && !self.options.bugs.resends_are_new() {
            put.send_away(txn, self.options.shards, &mut out.sends);
        } else {
            put.send(txn, self.options.shards, &mut out.sends);
        }
        self.writes.begin(put);
    }

    fn on_prepared(&mut self, now_ms: u64, txn: TxnId, shard: ShardId, clock: u64, out: &mut Out) {
        let Some(put) = self.writes.get_mut(txn.sequence) else { return };
        if put.stamp.is_some() || put.round.answer(shard).is_none() {
            return;
        }
        put.prepared_clock = put.prepared_clock.max(clock);
        if !put.round.is_over() && !self.options.bugs.commits_early() {
            return;
        }
        let clock = if self.options.bugs.stamps_by_client() { txn.sequence } else { put.prepared_clock };
        let stamp = Stamp { clock, txn };
        self.clock = self.clock.max(clock);
        put.stamp = Some(stamp);
        put.round.ask_again();
        put.sent = Sent::at(now_ms);
        put.send(txn, self.options.shards, &mut out.sends);
        if self.options.one_phase {
            let read = std::mem::take(&mut put.read);
            out.done
                .push((put.tag, Done::Committed { read, stamp: Some(stamp), rounds: (put.read_rounds, 2) }));
        }
    }

    fn on_committed(&mut self, txn: TxnId, shard: ShardId, out: &mut Out) {
        let Some(put) = self.writes.get_mut(txn.sequence) else { return };
        if put.stamp.is_none() || put.round.answer(shard).is_none() || !put.round.is_over() {
            return;
        }
        for shard in put.round.shards() {
            self.settled[usize::from(shard)].push(txn.sequence);
        }
        if !self.options.one_phase {
            let (read, rounds) = (std::mem::take(&mut put.read), (put.read_rounds, 2));
            out.done.push((put.tag, Done::Committed { read, stamp: put.stamp, rounds }));
        }
        self.writes.drop(txn.sequence);
    }

    fn on_written(&mut self, stamp: Stamp, out: &mut Out) {
        let Some(put) = self.writes.end(stamp.txn.sequence) else { return };
        self.clock = self.clock.max(stamp.clock);
        for shard in put.round.shards() {
            self.settled[usize::from(shard)].push(stamp.txn.sequence);
        }
        let rounds = (put.read_rounds, 1);
        out.done.push((put.tag, Done::Committed { read: put.read, stamp: Some(stamp), rounds }));
    }

    /// Handles a participant's promise never to commit; `told` is the result for the client.
    fn on_refused(&mut self, txn: TxnId, told: Done, out: &mut Out) {
        let Some(put) = self.writes.get_mut(txn.sequence) else { return };
        assert!(put.stamp.is_none(), "all had prepared {txn:?}, and one refuses it");
        let put = self.writes.end(txn.sequence).expect("it is under way");
        put.send_aborts(txn, &mut out.sends);
        out.done.push((put.tag, told));
    }

    fn on_read_reply(&mut self, now_ms: u64, read: u64, reply: Reply, out: &mut Out) {
        if let Reply::Again { shard, session, .. } = &reply {
            self.sessions[usize::from(*shard)] = *session;
        }
        let flight = match self.reads.get_mut(read) {
            Some(ReadFlight::Get(flight)) => flight,
            Some(ReadFlight::Opening(_)) => return self.on_opening_reply(now_ms, read, reply, out),
            Some(ReadFlight::Held) | None => return,
        };
        let rounds = flight.machine.rounds;
        let step = flight.machine.on_reply(read, reply, &mut out.sends);
        if flight.machine.rounds != rounds {
            flight.sent = Sent::at(now_ms);
        }
        match step {
            Step::Wait => {}
            Step::Done(read_set) => {
                // Later writes get higher clocks than everything read.
                self.clock = self.clock.max(read_set.newest_clock());
                if flight.of_several {
                    let get = self.end_get(read);
                    return self.tell_statement(get, read_set, out);
                }
                let (tag, rounds) = (flight.tag, flight.earlier_rounds + flight.machine.rounds);
                let writes = std::mem::take(&mut flight.writes);
                self.reads.drop(read);
                self.drains.on_ended(self.reads.base());
                if writes.is_empty() {
                    let done = Done::Committed { read: read_set, stamp: None, rounds: (rounds, 0) };
                    out.done.push((tag, done));
                } else {
                    self.begin_write(now_ms, tag, (writes, Vec::new()), read_set, rounds, out);
                }
            }
            Step::Again => {
                let get = self.end_get(read);
                let transaction = self.interactive.get_mut(&get.tag).filter(|_| get.of_several);
                if transaction.as_ref().is_some_and(|one| one.has_cut()) {
                    return self.lose_cut(now_ms, get, out);
                }
                let Get { tag, machine, writes, earlier_rounds, of_several, .. } = get;
                let rounds = earlier_rounds + machine.rounds;
                let wanted = (machine.keys, machine.ranges, writes);
                let reading = self.begin_get(now_ms, tag, wanted, (rounds, of_several), out);
                if of_several {
                    self.note_reading(tag, reading);
                }
            }
        }
    }

    fn on_too_large(&mut self, read: u64, out: &mut Out) {
        let tag = match self.reads.get_mut(read) {
            Some(ReadFlight::Get(get)) => get.tag,
            Some(ReadFlight::Opening(flight)) => flight.tag,
            Some(ReadFlight::Held) | None => return,
        };
        self.give_up(tag);
        out.done.push((tag, Done::TooLarge));
    }

    fn end_get(&mut self, read: u64) -> Get<F> {
        let flight = self.reads.end(read);
        self.drains.on_ended(self.reads.base());
        let Some(ReadFlight::Get(get)) = flight else { unreachable!("the read is under way") };
        get
    }

    /// For planted bugs: writes that have waited too long for an answer, before or after all have prepared.
    fn late_writes(&mut self, now_ms: u64, are_prepared: bool) -> Vec<u64> {
        let late = |put: &Put| put.stamp.is_some() == are_prepared && put.sent.is_late(now_ms);
        self.writes.iter_mut().filter(|(_, put)| late(put)).map(|(sequence, _)| sequence).collect()
    }

    fn begin_late_writes_anew(&mut self, now_ms: u64, out: &mut Out) {
        for sequence in self.late_writes(now_ms, false) {
            let put = self.writes.end(sequence).expect("it is under way");
            self.begin_write(now_ms, put.tag, (put.writes, put.guards), put.read, put.read_rounds, out);
        }
    }

    fn abort_late_commits(&mut self, now_ms: u64, out: &mut Out) {
        for sequence in self.late_writes(now_ms, true) {
            let put = self.writes.end(sequence).expect("it is under way");
            let txn = TxnId { coordinator: self.id, sequence };
            put.send_aborts(txn, &mut out.sends);
            if !self.options.one_phase {
                out.done.push((put.tag, Done::Aborted));
            }
        }
    }
}

/// Not generic, so that the coordinator of products is compiled in this crate, as one unit, like its shard.
fn begin_at_product(
    coordinator: &mut Coordinator,
    now_ms: u64,
    tag: u64,
    transaction: Transaction,
    out: &mut Out,
) {
    coordinator.begin_one(now_ms, tag, transaction, out);
}

fn reply_to_product(coordinator: &mut Coordinator, now_ms: u64, reply: Reply, out: &mut Out) {
    coordinator.take_reply(now_ms, reply, out);
}

impl<F: ClientFaults> Coordinator<F> {
    fn begin_one(&mut self, now_ms: u64, tag: u64, transaction: Transaction, out: &mut Out) {
        if !transaction.reads.is_empty() || !transaction.ranges.is_empty() {
            let Transaction { reads, ranges, writes } = transaction;
            self.begin_get(now_ms, tag, (reads, ranges, writes), (0, false), out);
        } else if !transaction.writes.is_empty() {
            let writes = (transaction.writes, Vec::new());
            self.begin_write(now_ms, tag, writes, ReadSet::default(), 0, out);
        } else {
            out.done.push((tag, Done::Committed { read: ReadSet::default(), stamp: None, rounds: (0, 0) }));
        }
    }

    fn take_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Out) {
        match reply {
            Reply::Written { stamp } => self.on_written(stamp, out),
            Reply::Prepared { txn, shard, clock } => self.on_prepared(now_ms, txn, shard, clock, out),
            Reply::Committed { txn, shard } => self.on_committed(txn, shard, out),
            Reply::Refused { txn, .. } => self.on_refused(txn, Done::Aborted, out),
            Reply::Changed { txn, .. } => self.on_refused(txn, Done::Conflict, out),
            Reply::Retired { .. } => self.is_retired = true,
            Reply::TooLarge { read, .. } => self.on_too_large(read, out),
            Reply::Got { read, .. }
            | Reply::Told { read, .. }
            | Reply::Opened { read, .. }
            | Reply::Again { read, .. } => self.on_read_reply(now_ms, read, reply, out),
        }
    }
}

impl<F: ClientFaults> machine::Coordinator for Coordinator<F> {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;
    type Transaction = Transaction;
    type Done = Done;

    fn id(&self) -> CoordinatorId {
        self.id
    }

    fn begin(&mut self, now_ms: u64, tag: u64, transaction: Transaction, out: &mut Out) {
        match (self as &mut dyn Any).downcast_mut::<Coordinator>() {
            Some(product) => begin_at_product(product, now_ms, tag, transaction, out),
            None => self.begin_one(now_ms, tag, transaction, out),
        }
    }

    fn on_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Out) {
        match (self as &mut dyn Any).downcast_mut::<Coordinator>() {
            Some(product) => reply_to_product(product, now_ms, reply, out),
            None => self.take_reply(now_ms, reply, out),
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out) {
        let coordinator = self.id;
        if self.options.bugs.resends_are_new() {
            self.begin_late_writes_anew(now_ms, out);
        }
        if self.options.bugs.aborts_after_prepared() {
            self.abort_late_commits(now_ms, out);
        }
        let lossy = !self.options.links_keep_order;
        for (sequence, put) in self.writes.iter_mut() {
            if lossy && put.sent.repeats(now_ms) {
                put.send(TxnId { coordinator, sequence }, self.options.shards, &mut out.sends);
            }
        }
        for (read, flight) in self.reads.iter_mut() {
            match flight {
                ReadFlight::Get(get) => {
                    if get.sent.repeats(now_ms) {
                        get.machine.send_pending(read, &mut out.sends);
                    }
                }
                ReadFlight::Opening(flight) => {
                    if flight.sent.repeats(now_ms) {
                        flight.opening.send_pending(read, &mut out.sends);
                    }
                }
                ReadFlight::Held => {}
            }
        }
        self.end_long_reads(now_ms, out);
    }

    fn progress(&mut self, shard: ShardId) -> Progress {
        let settled = std::mem::take(&mut self.settled[usize::from(shard)]);
        Progress {
            below: self.writes.base(),
            settled,
            drained: self.drains.drained(shard),
            clock: self.clock,
        }
    }

    fn on_epoch(&mut self, shard: ShardId, epoch: u64) {
        self.drains.on_epoch(shard, epoch, self.reads.next(), self.reads.base());
    }

    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty()
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }
}

impl Put {
    /// Sends all unanswered requests (again).
    fn send(&self, txn: TxnId, shards: ShardId, out: &mut Vec<(ShardId, Request)>) {
        for (shard, slots) in self.round.unanswered() {
            let request = match self.stamp {
                Some(stamp) => Request::Commit { stamp },
                None => {
                    let copies = slots.iter().map(|slot| self.writes[*slot as usize].clone());
                    self.first(txn, shard, shards, copies.collect())
                }
            };
            out.push((shard, request));
        }
    }

    /// Sends the first round without keeping anything for resending.
    fn send_away(&mut self, txn: TxnId, shards: ShardId, out: &mut Vec<(ShardId, Request)>) {
        let mut writes = std::mem::take(&mut self.writes);
        let mut take =
            |slot: &u32| std::mem::replace(&mut writes[*slot as usize], (Key::default(), Write::Delete));
        for (shard, slots) in self.round.unanswered() {
            let theirs = slots.iter().map(&mut take).collect();
            out.push((shard, self.first(txn, shard, shards, theirs)));
        }
        // The reference count is shared with the participants, which may run on other threads.
        self.siblings = None;
    }

    /// First request to a participant.
    fn first(&self, txn: TxnId, shard: ShardId, shards: ShardId, writes: Writes) -> Request {
        let here = |guard: &&Guard| shard_of(&guard.key, shards) == shard;
        let guards = self.guards.iter().filter(here).cloned().collect();
        let begun_ms = self.begun_ms;
        match self.siblings.clone() {
            None => Request::Write { txn, writes, begun_ms, guards },
            Some(siblings) => Request::Prepare { txn, writes, siblings, begun_ms, guards },
        }
    }

    fn send_aborts(&self, txn: TxnId, out: &mut Vec<(ShardId, Request)>) {
        out.extend(self.round.shards().map(|shard| (shard, Request::Abort { txn })));
    }
}
