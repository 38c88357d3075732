//! The client's side of E-PCI: picks deciders and read timestamps.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_core::clock::HybridClock;
use weir_core::flights::Flights;
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{self, Orders, Sent};
use weir_core::round::Round;
use weir_kv::{
    Done, ItemRead, Key, KeyRange, ReadSet, Slots, Stamp, Transaction, Write, slots_by_shard, writes_by_shard,
};

use super::{Progress, Reply, Request};

#[derive(Debug)]
pub struct Coordinator {
    id: CoordinatorId,
    shards: ShardId,
    clock: HybridClock,
    random: Xoshiro256PlusPlus,
    writes: Flights<Put>,
    reads: Flights<Get>,
}

#[derive(Debug)]
struct Put {
    tag: u64,
    /// Writes of each participant.
    round: Round<Arc<[(Key, Write)]>>,
    participants: Arc<[ShardId]>,
    decider: ShardId,
    /// Result of the preceding read, until its client is answered.
    read: ReadSet,
    read_rounds: u32,
    sent: Sent,
}

#[derive(Debug)]
struct Get {
    tag: u64,
    at: u64,
    reads: Vec<Key>,
    ranges: Arc<[KeyRange]>,
    round: Round<GetPart>,
    read: ReadSet,
    writes: Vec<(Key, Write)>,
    rounds: u32,
    checked: bool,
    sent: Sent,
}

#[derive(Debug)]
struct GetPart {
    keys: Arc<[Key]>,
    slots: Slots,
}

type Out = Orders<Request, Done>;

impl Coordinator {
    pub fn new(id: CoordinatorId, shards: ShardId, seed: u64) -> Coordinator {
        assert!(shards > 0, "a cluster has shards");
        Coordinator {
            id,
            shards,
            clock: HybridClock::new(0),
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ (id << 48)),
            writes: Flights::from(0),
            reads: Flights::from(0),
        }
    }

    fn begin_write(
        &mut self,
        now_ms: u64,
        tag: u64,
        writes: Vec<(Key, Write)>,
        earlier: (ReadSet, u32),
        out: &mut Out,
    ) {
        let by_shard = writes_by_shard(writes, self.shards);
        let participants: Arc<[ShardId]> = by_shard.iter().map(|(shard, _)| *shard).collect();
        let decider = participants[self.random.next_u64() as usize % participants.len()];
        let round = by_shard.into_iter().map(|(shard, writes)| (shard, writes.into())).collect();
        let (read, read_rounds) = earlier;
        let put = Put { tag, round, participants, decider, read, read_rounds, sent: Sent::at(now_ms) };
        put.send(TxnId { coordinator: self.id, sequence: self.writes.next() }, &mut out.sends);
        self.writes.begin(put);
    }

    fn on_decided(&mut self, stamp: Stamp, out: &mut Out) {
        self.clock.observe_clock(stamp.clock);
        let Some(put) = self.writes.get_mut(stamp.txn.sequence) else { return };
        let decider = put.decider;
        if put.round.answer(decider).is_none() {
            return;
        }
        let rounds = (put.read_rounds, if put.round.participants() == 1 { 1 } else { 2 });
        let read = std::mem::take(&mut put.read);
        out.done.push((put.tag, Done::Committed { read, stamp: Some(stamp), rounds }));
        self.end_if_over(stamp.txn.sequence);
    }

    fn on_committed(&mut self, txn: TxnId, shard: ShardId) {
        let Some(put) = self.writes.get_mut(txn.sequence) else { return };
        put.round.answer(shard);
        self.end_if_over(txn.sequence);
    }

    fn end_if_over(&mut self, sequence: u64) {
        if self.writes.get_mut(sequence).is_some_and(|put| put.round.is_over()) {
            self.writes.end(sequence);
        }
    }

    /// `rounds`: of attempts that came too late.
    fn begin_read(&mut self, now_ms: u64, tag: u64, transaction: Transaction, rounds: u32, out: &mut Out) {
        let Transaction { reads, ranges, writes } = transaction;
        let read = ReadSet::absent(reads.len(), ranges.len());
        let by_shard = slots_by_shard(&reads, !ranges.is_empty(), self.shards);
        let part = |(shard, slots): (_, Slots)| {
            let keys = slots.iter().map(|slot| reads[*slot as usize].clone()).collect();
            (shard, GetPart { keys, slots })
        };
        let get = Get {
            tag,
            // Above every commit that this coordinator has heard of.
            at: self.clock.tick(now_ms).clock,
            round: by_shard.into_iter().map(part).collect(),
            reads,
            ranges: ranges.into(),
            read,
            writes,
            rounds: rounds + 1,
            checked: false,
            sent: Sent::at(now_ms),
        };
        get.send(self.reads.next(), &mut out.sends);
        self.reads.begin(get);
    }

    fn on_got(&mut self, now_ms: u64, read: u64, got: Got, out: &mut Out) {
        let Some(get) = self.reads.get_mut(read) else { return };
        let Some(part) = get.round.answer(got.shard) else { return };
        get.checked |= got.checked;
        for (slot, item) in part.slots.iter().zip(got.items) {
            get.read.items[*slot as usize] = item;
        }
        get.read.add_ranges(got.ranges);
        if !get.round.is_over() {
            return;
        }
        let mut get = self.reads.end(read).expect("it is under way");
        get.read.sort_ranges();
        let rounds = get.rounds + u32::from(get.checked);
        if get.writes.is_empty() {
            out.done.push((get.tag, Done::Committed { read: get.read, stamp: None, rounds: (rounds, 0) }));
        } else {
            self.begin_write(now_ms, get.tag, get.writes, (get.read, rounds), out);
        }
    }

    fn on_too_old(&mut self, now_ms: u64, read: u64, clock: u64, out: &mut Out) {
        self.clock.observe_clock(clock);
        let Some(get) = self.reads.end(read) else { return };
        let transaction = Transaction { reads: get.reads, ranges: get.ranges.to_vec(), writes: get.writes };
        self.begin_read(now_ms, get.tag, transaction, get.rounds + u32::from(get.checked), out);
    }
}

struct Got {
    shard: ShardId,
    checked: bool,
    items: Vec<ItemRead>,
    ranges: Vec<Vec<(Key, ItemRead)>>,
}

impl Put {
    /// Sends all unanswered requests (again). Prepared participants vote again, and the decider announces its decision again.
    fn send(&self, txn: TxnId, out: &mut Vec<(ShardId, Request)>) {
        for (shard, writes) in self.round.unanswered() {
            let (writes, participants) = (writes.clone(), self.participants.clone());
            out.push((shard, Request::Prepare { txn, writes, decider: self.decider, participants }));
        }
    }
}

impl Get {
    fn send(&self, read: u64, out: &mut Vec<(ShardId, Request)>) {
        for (shard, part) in self.round.unanswered() {
            let (at, keys, ranges) = (self.at, part.keys.clone(), self.ranges.clone());
            out.push((shard, Request::Get { read, at, keys, ranges }));
        }
    }
}

impl machine::Coordinator for Coordinator {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;
    type Transaction = Transaction;
    type Done = Done;

    fn id(&self) -> CoordinatorId {
        self.id
    }

    fn begin(&mut self, now_ms: u64, tag: u64, transaction: Transaction, out: &mut Out) {
        if !transaction.reads.is_empty() || !transaction.ranges.is_empty() {
            self.begin_read(now_ms, tag, transaction, 0, out);
        } else if !transaction.writes.is_empty() {
            self.begin_write(now_ms, tag, transaction.writes, (ReadSet::default(), 0), out);
        } else {
            out.done.push((tag, Done::Committed { read: ReadSet::default(), stamp: None, rounds: (0, 0) }));
        }
    }

    fn on_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Out) {
        match reply {
            Reply::Decided { stamp } => self.on_decided(stamp, out),
            Reply::Committed { txn, shard } => self.on_committed(txn, shard),
            Reply::Got { read, shard, checked, items, ranges } => {
                self.on_got(now_ms, read, Got { shard, checked, items, ranges }, out);
            }
            Reply::TooOld { read, clock } => self.on_too_old(now_ms, read, clock, out),
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out) {
        let coordinator = self.id;
        for (sequence, put) in self.writes.iter_mut() {
            if put.sent.repeats(now_ms) {
                put.send(TxnId { coordinator, sequence }, &mut out.sends);
            }
        }
        for (read, get) in self.reads.iter_mut() {
            if get.sent.repeats(now_ms) {
                get.send(read, &mut out.sends);
            }
        }
    }

    fn progress(&mut self, _shard: ShardId) -> Progress {
        let oldest = self.reads.iter_mut().next().map(|(_, get)| get.at);
        let reads_from = oldest.unwrap_or(self.clock.last());
        Progress { below: self.writes.base(), reads_from }
    }

    fn on_epoch(&mut self, _shard: ShardId, _epoch: u64) {}

    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty()
    }
}
