//! No concurrency control (NWNR of ramp.txt §5.1): reads and writes in one round, to all shards in parallel.
//!
//! The denominator of every ratio, so it does nothing that is not needed to read and write: one message a
//! shard, one version an item, no memory of transactions. The write with the highest stamp wins, by the clock
//! of the coordinator that sent it. It guarantees nothing: reads are fractured, a write may be buried by an
//! older one whose coordinator's clock is ahead, and a merge that is sent again takes effect again.

use std::collections::VecDeque;

use smallvec::SmallVec;
use weir_core::clock::HybridClock;
use weir_core::flights::Flights;
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{self, Effects, Orders, Sent, Shard};
use weir_kv::table::Table;
use weir_kv::write::Content;
use weir_kv::{
    ByShard, Done, ItemRead, Key, KeyRange, ReadSet, Slots, Stamp, Transaction, Write, part_at, shard_of,
    slots_by_shard,
};

use crate::row::Row;
use crate::{Comparator, Counts};

/// A deleted item is forgotten so long after: the paper's window of collection (ramp.txt §5.1).
const TOMBSTONE_MS: u64 = 5_000;

/// All that a transaction wants of one shard: first the reads, then the writes.
#[derive(Clone, Debug)]
pub struct Request {
    pub stamp: Stamp,
    pub keys: Vec<Key>,
    pub ranges: Vec<KeyRange>,
    pub writes: Vec<(Key, Write)>,
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub sequence: u64,
    pub shard: ShardId,
    pub items: Vec<ItemRead>,
    pub ranges: Vec<Vec<(Key, ItemRead)>>,
}

#[derive(Debug)]
pub struct Partition {
    id: ShardId,
    table: Table<Row>,
    tombstones: VecDeque<(u64, Stamp, Key)>,
}

impl Partition {
    pub fn new(id: ShardId) -> Partition {
        Partition { id, table: Table::default(), tombstones: VecDeque::new() }
    }

    fn read(&self, key: &Key) -> ItemRead {
        self.table.get(key).map_or(ItemRead::ABSENT, Row::read)
    }

    fn range(&self, range: &KeyRange) -> Vec<(Key, ItemRead)> {
        let items = self.table.range(range).map(|(key, item)| (key.clone(), item.read()));
        items.filter(|(_, read)| read.value.is_some()).collect()
    }

    fn write(&mut self, now_ms: u64, stamp: Stamp, key: &Key, write: Write) {
        let item = self.table.at(key);
        let newer = stamp > item.stamp;
        if !newer && write.overwrites() {
            return;
        }
        item.stamp = item.stamp.max(stamp);
        match write {
            Write::Put(value) => item.content = Content::Value(value),
            merged_or_deleted => item.content.apply(&merged_or_deleted),
        }
        if item.content == Content::Absent {
            self.tombstones.push_back((now_ms, stamp, key.clone()));
        }
    }

    fn forget_tombstones(&mut self, now_ms: u64) {
        while let Some((deleted_ms, stamp, key)) = self.tombstones.front()
            && now_ms.saturating_sub(*deleted_ms) > TOMBSTONE_MS
        {
            if self.table.get(key).is_some_and(|item| item.stamp == *stamp) {
                self.table.remove(key);
            }
            self.tombstones.pop_front();
        }
    }
}

impl Shard for Partition {
    type Request = Request;
    type Reply = Reply;
    type Progress = ();

    fn id(&self) -> ShardId {
        self.id
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn on_progress(&mut self, _now_ms: u64, _coordinator: CoordinatorId, _progress: ()) {}

    fn step(&mut self, now_ms: u64, _from: Sender, request: Request, out: &mut Effects<Request, Reply>) {
        let Request { stamp, keys, ranges, writes } = request;
        let items = keys.iter().map(|key| self.read(key)).collect();
        let ranges = ranges.iter().map(|range| self.range(range)).collect();
        for (key, write) in writes {
            self.write(now_ms, stamp, &key, write);
        }
        self.forget_tombstones(now_ms);
        let TxnId { coordinator, sequence } = stamp.txn;
        out.reply(coordinator, Reply { sequence, shard: self.id, items, ranges }, Lsn::START);
    }

    fn is_idle(&self) -> bool {
        true
    }
}

impl Comparator for Partition {
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

#[derive(Debug)]
pub struct Coordinator {
    id: CoordinatorId,
    shards: ShardId,
    clock: HybridClock,
    flights: Flights<Flight>,
}

#[derive(Debug)]
struct Flight {
    tag: u64,
    transaction: Transaction,
    stamp: Stamp,
    /// Its reads, by shard; with ranges all shards.
    slots: ByShard<Slots>,
    unanswered: SmallVec<[ShardId; 8]>,
    read: ReadSet,
    sent: Sent,
}

type Out = Orders<Request, Done>;

impl Coordinator {
    pub fn new(id: CoordinatorId, shards: ShardId) -> Coordinator {
        assert!(shards > 0, "a cluster has shards");
        Coordinator { id, shards, clock: HybridClock::new(0), flights: Flights::from(0) }
    }
}

impl Flight {
    /// One request for each shard.
    fn requests(&self, shards: ShardId) -> ByShard<Request> {
        let Transaction { reads, ranges, writes } = &self.transaction;
        let request = |keys| Request { stamp: self.stamp, keys, ranges: ranges.clone(), writes: Vec::new() };
        let asked = |(shard, slots): &(ShardId, Slots)| {
            (*shard, request(slots.iter().map(|slot| reads[*slot as usize].clone()).collect()))
        };
        let mut requests: ByShard<Request> = self.slots.iter().map(asked).collect();
        for (key, write) in writes {
            let of_shard = part_at(&mut requests, shard_of(key, shards), || request(Vec::new()));
            of_shard.writes.push((key.clone(), write.clone()));
        }
        requests
    }

    fn take(&mut self, reply: Reply) {
        let slots = self.slots.iter().filter(|(shard, _)| *shard == reply.shard).flat_map(|(_, slots)| slots);
        for (slot, item) in slots.zip(reply.items) {
            self.read.items[*slot as usize] = item;
        }
        self.read.add_ranges(reply.ranges);
    }

    fn done(mut self) -> (u64, Done) {
        self.read.sort_ranges();
        let writes = !self.transaction.writes.is_empty();
        let reads = !self.transaction.reads.is_empty() || !self.transaction.ranges.is_empty();
        // Where there is both, the writes travel with the reads.
        let rounds = (u32::from(reads), u32::from(writes && !reads));
        (self.tag, Done::Committed { read: self.read, stamp: writes.then_some(self.stamp), rounds })
    }
}

impl machine::Coordinator for Coordinator {
    type Request = Request;
    type Reply = Reply;
    type Progress = ();
    type Transaction = Transaction;
    type Done = Done;

    fn id(&self) -> CoordinatorId {
        self.id
    }

    fn begin(&mut self, now_ms: u64, tag: u64, transaction: Transaction, out: &mut Out) {
        let txn = TxnId { coordinator: self.id, sequence: self.flights.next() };
        let stamp = Stamp { clock: self.clock.tick(now_ms).clock, txn };
        let slots = slots_by_shard(&transaction.reads, !transaction.ranges.is_empty(), self.shards);
        let read = ReadSet::absent(transaction.reads.len(), transaction.ranges.len());
        let unanswered = SmallVec::new();
        let mut flight = Flight { tag, transaction, stamp, slots, unanswered, read, sent: Sent::at(now_ms) };
        let requests = flight.requests(self.shards);
        flight.unanswered.extend(requests.iter().map(|(shard, _)| *shard));
        out.sends.extend(requests);
        if flight.unanswered.is_empty() {
            out.done.push(flight.done());
        } else {
            self.flights.begin(flight);
        }
    }

    fn on_reply(&mut self, _now_ms: u64, reply: Reply, out: &mut Out) {
        let sequence = reply.sequence;
        let Some(flight) = self.flights.get_mut(sequence) else { return };
        let Some(at) = flight.unanswered.iter().position(|shard| *shard == reply.shard) else { return };
        flight.unanswered.swap_remove(at);
        flight.take(reply);
        if flight.unanswered.is_empty() {
            let flight = self.flights.end(sequence).expect("it is under way");
            out.done.push(flight.done());
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out) {
        for (_, flight) in self.flights.iter_mut() {
            if !flight.sent.repeats(now_ms) {
                continue;
            }
            let requests = flight.requests(self.shards).into_iter();
            out.sends.extend(requests.filter(|(shard, _)| flight.unanswered.contains(shard)));
        }
    }

    fn progress(&mut self, _shard: ShardId) {}

    fn on_epoch(&mut self, _shard: ShardId, _epoch: u64) {}

    fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }
}
