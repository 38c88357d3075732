//! The client's side of the locking protocols.

use std::sync::Arc;

use weir_core::flights::Flights;
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{self, Orders, Sent};
use weir_core::round::{Round, Waiting};
use weir_kv::{
    Done, ItemRead, Key, KeyRange, ReadSet, Slots, Stamp, Transaction, Write, shard_of, slots_by_shard,
};

use super::{Item, Progress, ReadLocks, Reply, Request};

#[derive(Debug)]
pub struct Coordinator {
    id: CoordinatorId,
    shards: ShardId,
    read_locks: ReadLocks,
    flights: Flights<Flight>,
}

#[derive(Debug)]
struct Flight {
    tag: u64,
    reads: Vec<Key>,
    ranges: Arc<[KeyRange]>,
    writes: Vec<(Key, Write)>,
    read: ReadSet,
    rounds: (u32, u32),
    stage: Stage,
    sent: Sent,
}

#[derive(Debug)]
enum Stage {
    /// Without locks that last.
    Reading(Round<Part>),
    Locking(Locking),
    Releasing {
        stamp: Stamp,
        waiting: Waiting,
    },
}

/// Part of a read on one shard.
#[derive(Debug)]
struct Part {
    keys: Arc<[Key]>,
    slots: Slots,
}

#[derive(Debug)]
struct Locking {
    runs: Vec<(ShardId, Arc<[Item]>)>,
    /// The run that is asked for.
    run: usize,
    /// The last run may be applied and released at once.
    finishes: bool,
    clock: u64,
    /// Results of locked reads, in key order.
    got: Vec<(Key, ItemRead)>,
}

type Out = Orders<Request, Done>;

impl Coordinator {
    pub fn new(id: CoordinatorId, shards: ShardId, read_locks: ReadLocks) -> Coordinator {
        assert!(shards > 0, "a cluster has shards");
        Coordinator { id, shards, read_locks, flights: Flights::from(0) }
    }

    fn on_granted(&mut self, now_ms: u64, txn: TxnId, granted: (u32, u64, Vec<ItemRead>), out: &mut Out) {
        let (run, clock, items) = granted;
        let Some(flight) = self.flights.get_mut(txn.sequence) else { return };
        let Stage::Locking(locking) = &mut flight.stage else { return };
        if locking.run != run as usize {
            return;
        }
        locking.clock = locking.clock.max(clock);
        let read = locking.runs[locking.run].1.iter().filter(|item| item.read).map(|item| item.key.clone());
        locking.got.extend(read.zip(items));
        locking.run += 1;
        flight.sent = Sent::at(now_ms);
        if locking.run == locking.runs.len() {
            flight.on_all_locked(txn, out);
        }
        flight.send(txn, self.read_locks, &mut out.sends);
        if flight.is_over() {
            self.flights.end(txn.sequence);
        }
    }

    fn on_got(&mut self, now_ms: u64, txn: TxnId, reply: Got, out: &mut Out) {
        let Some(flight) = self.flights.get_mut(txn.sequence) else { return };
        let Stage::Reading(round) = &mut flight.stage else { return };
        let Some(part) = round.answer(reply.shard) else { return };
        for (slot, item) in part.slots.iter().zip(reply.items) {
            flight.read.items[*slot as usize] = item;
        }
        flight.read.add_ranges(reply.ranges);
        if !round.is_over() {
            return;
        }
        flight.sent = Sent::at(now_ms);
        flight.on_all_read(txn, self.shards, self.read_locks, out);
        if flight.is_over() {
            self.flights.end(txn.sequence);
        }
    }

    fn on_released(&mut self, txn: TxnId, shard: ShardId) {
        let Some(flight) = self.flights.get_mut(txn.sequence) else { return };
        let Stage::Releasing { waiting, .. } = &mut flight.stage else { return };
        waiting.answer(shard);
        if flight.is_over() {
            self.flights.end(txn.sequence);
        }
    }
}

struct Got {
    shard: ShardId,
    items: Vec<ItemRead>,
    ranges: Vec<Vec<(Key, ItemRead)>>,
}

impl Flight {
    /// Reads without lasting locks, by shard; under long locks only the ranges are looked up.
    fn parts(&self, shards: ShardId, read_locks: ReadLocks) -> Round<Part> {
        let reads = if read_locks == ReadLocks::Long { &[] } else { &*self.reads };
        let part = |(shard, slots): (_, Slots)| {
            let keys = slots.iter().map(|slot| reads[*slot as usize].clone()).collect();
            (shard, Part { keys, slots })
        };
        slots_by_shard(reads, !self.ranges.is_empty(), shards).into_iter().map(part).collect()
    }

    fn on_all_read(&mut self, txn: TxnId, shards: ShardId, read_locks: ReadLocks, out: &mut Out) {
        self.read.sort_ranges();
        let mut items: Vec<Item> = Vec::new();
        if read_locks == ReadLocks::Long {
            let reading = |key| Item { key, read: true, write: None };
            items.extend(self.reads.iter().cloned().map(reading));
            items.extend(self.read.ranges.drain(..).flatten().map(|(key, _)| reading(key)));
        }
        let writing = |(key, write)| Item { key, read: false, write: Some(write) };
        items.extend(std::mem::take(&mut self.writes).into_iter().map(writing));
        self.stage = Stage::Locking(Locking::of(items, shards));
        if matches!(&self.stage, Stage::Locking(locking) if locking.runs.is_empty()) {
            self.on_all_locked(txn, out);
        }
        self.send(txn, read_locks, &mut out.sends);
    }

    /// The transaction has happened, whatever comes.
    fn on_all_locked(&mut self, txn: TxnId, out: &mut Out) {
        let Stage::Locking(locking) = &mut self.stage else { unreachable!("only who locks has locked") };
        let stamp = Stamp { clock: locking.clock, txn };
        let writes = locking.runs.iter().any(|(_, run)| run.iter().any(|item| item.write.is_some()));
        let mut read = std::mem::take(&mut self.read);
        if !locking.got.is_empty() {
            for (key, slot) in self.reads.iter().zip(&mut read.items) {
                *slot = locking.item(key);
            }
            read.ranges = self.ranges.iter().map(|range| locking.range(range)).collect();
        } else {
            read.ranges.resize(self.ranges.len(), Vec::new());
        }
        let kept = locking.runs.len().saturating_sub(usize::from(locking.finishes));
        let mut waiting = Waiting::default();
        locking.runs[..kept].iter().for_each(|(shard, _)| waiting.ask(*shard));
        let rounds = locking.runs.len() as u32 + u32::from(!waiting.is_over());
        *(if writes { &mut self.rounds.1 } else { &mut self.rounds.0 }) += rounds;
        let done = Done::Committed { read, stamp: writes.then_some(stamp), rounds: self.rounds };
        out.done.push((self.tag, done));
        self.stage = Stage::Releasing { stamp, waiting };
    }

    fn is_over(&self) -> bool {
        matches!(&self.stage, Stage::Releasing { waiting, .. } if waiting.is_over())
    }

    /// Sends (again) what is not answered.
    fn send(&self, txn: TxnId, read_locks: ReadLocks, out: &mut Vec<(ShardId, Request)>) {
        match &self.stage {
            Stage::Reading(round) => {
                for (shard, part) in round.unanswered() {
                    let (keys, ranges) = (part.keys.clone(), self.ranges.clone());
                    let short_locks = read_locks == ReadLocks::Short;
                    out.push((shard, Request::Get { txn, keys, ranges, short_locks }));
                }
            }
            Stage::Locking(locking) => {
                let (shard, items) = &locking.runs[locking.run];
                let finish = locking.finishes && locking.run + 1 == locking.runs.len();
                let (run, items, clock) = (locking.run as u32, items.clone(), locking.clock);
                out.push((*shard, Request::Lock { txn, run, items, finish, clock }));
            }
            Stage::Releasing { stamp, waiting } => {
                out.extend(waiting.iter().map(|shard| (shard, Request::Release { stamp: *stamp })));
            }
        }
    }
}

impl Locking {
    /// Orders the items by key, joins what is said of the same one, and cuts them where the shard changes.
    fn of(mut items: Vec<Item>, shards: ShardId) -> Locking {
        // Stable, so that of several writes of one item the last counts.
        items.sort_by(|one, other| one.key.cmp(&other.key));
        items.dedup_by(|later, earlier| {
            let same = later.key == earlier.key;
            if same {
                earlier.read |= later.read;
                earlier.write = later.write.take().or(earlier.write.take());
            }
            same
        });
        let reads = items.iter().any(|item| item.read);
        let finishes = !(reads && items.iter().any(|item| item.write.is_some()));
        let mut runs: Vec<(ShardId, Vec<Item>)> = Vec::new();
        for item in items {
            let shard = shard_of(&item.key, shards);
            match runs.last_mut().filter(|(last, _)| *last == shard) {
                Some((_, run)) => run.push(item),
                None => runs.push((shard, vec![item])),
            }
        }
        let runs = runs.into_iter().map(|(shard, run)| (shard, run.into())).collect();
        Locking { runs, run: 0, finishes, clock: 0, got: Vec::new() }
    }

    fn item(&self, key: &Key) -> ItemRead {
        let at = self.got.binary_search_by(|(one, _)| one.cmp(key)).expect("all that is read is locked");
        self.got[at].1.clone()
    }

    fn range(&self, range: &KeyRange) -> Vec<(Key, ItemRead)> {
        let from = self.got.partition_point(|(key, _)| *key < range.from);
        let entries = self.got[from..].iter().take_while(|(key, _)| range.contains(key));
        entries.filter(|(_, read)| read.value.is_some()).cloned().collect()
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
        let txn = TxnId { coordinator: self.id, sequence: self.flights.next() };
        let Transaction { reads, ranges, writes } = transaction;
        let read = ReadSet::absent(reads.len(), ranges.len());
        let mut flight = Flight {
            tag,
            reads,
            ranges: ranges.into(),
            writes,
            read,
            rounds: (0, 0),
            stage: Stage::Reading(Round::from_iter([])),
            sent: Sent::at(now_ms),
        };
        let parts = flight.parts(self.shards, self.read_locks);
        if parts.is_over() {
            flight.on_all_read(txn, self.shards, self.read_locks, out);
        } else {
            flight.rounds.0 = 1;
            flight.stage = Stage::Reading(parts);
            flight.send(txn, self.read_locks, &mut out.sends);
        }
        if !flight.is_over() {
            self.flights.begin(flight);
        }
    }

    fn on_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Out) {
        match reply {
            Reply::Granted { txn, run, clock, items } => {
                self.on_granted(now_ms, txn, (run, clock, items), out);
            }
            Reply::Released { txn, shard } => self.on_released(txn, shard),
            Reply::Got { txn, shard, items, ranges } => {
                self.on_got(now_ms, txn, Got { shard, items, ranges }, out);
            }
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out) {
        let (coordinator, read_locks) = (self.id, self.read_locks);
        for (sequence, flight) in self.flights.iter_mut() {
            if flight.sent.repeats(now_ms) {
                flight.send(TxnId { coordinator, sequence }, read_locks, &mut out.sends);
            }
        }
    }

    fn progress(&mut self, _shard: ShardId) -> Progress {
        Progress { below: self.flights.base() }
    }

    fn on_epoch(&mut self, _shard: ShardId, _epoch: u64) {}

    fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }
}
