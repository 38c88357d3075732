//! One shard: its items at several times, what is prepared, what it decides, and the reads that wait for
//! commit checks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_core::clock::{HybridClock, clock_at};
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Effects, Shard};
use weir_core::participant::OutcomeTable;
use weir_core::readers::Readers;
use weir_kv::table::Table;
use weir_kv::{ItemRead, Key, KeyRange, Stamp, Write};

use super::chain::Chain;
use super::{Progress, Reader, Reply, Request};
use crate::faults::{Faults, NoFaults};
use crate::{Comparator, Counts};

/// Longest time for which old versions are kept, even for active readers: the window of ramp.txt §5.1.
pub const COLLECTION_MS_MAX: u64 = 5_000;

#[derive(Debug)]
struct Prepared {
    writes: Arc<[(Key, Write)]>,
    decider: ShardId,
    /// It will commit above this clock, if it is not committed already.
    above: u64,
}

/// Votes for what is not decided. They may come before the decider's own prepare.
#[derive(Debug, Default)]
struct Tally {
    votes: Vec<ShardId>,
    clock: u64,
    /// Known once it has prepared here.
    participants: Option<Arc<[ShardId]>>,
}

/// A read that waits for commit checks.
#[derive(Debug)]
struct Waiting {
    at: u64,
    keys: Arc<[Key]>,
    ranges: Arc<[KeyRange]>,
    unanswered: Vec<(ShardId, TxnId)>,
}

#[derive(Debug)]
struct Horizon {
    reads_from: u64,
    heard_ms: u64,
}

type Out = Effects<Request, Reply>;

#[derive(Debug)]
pub struct Partition<F = NoFaults> {
    id: ShardId,
    table: Table<Chain>,
    clock: HybridClock,
    prepared: FxHashMap<TxnId, Prepared>,
    tallies: FxHashMap<TxnId, Tally>,
    /// Decided transactions, until all participants know.
    decided: OutcomeTable<()>,
    waiting: FxHashMap<Reader, Waiting>,
    horizons: BTreeMap<CoordinatorId, Horizon>,
    /// Lowest clock of reads, except those that will be told to begin again.
    floor: u64,
    /// Deletions, removed when every read sees them.
    tombstones: VecDeque<(Stamp, Key)>,
    /// Highest clock of what has been forgotten.
    forgotten: u64,
    over: Readers,
    bugs: F,
    counts: Counts,
}

impl<F: Faults> Partition<F> {
    pub fn new(id: ShardId, bugs: F) -> Partition<F> {
        Partition {
            id,
            table: Table::default(),
            clock: HybridClock::new(id),
            prepared: FxHashMap::default(),
            tallies: FxHashMap::default(),
            decided: OutcomeTable::default(),
            waiting: FxHashMap::default(),
            horizons: BTreeMap::new(),
            floor: 0,
            tombstones: VecDeque::new(),
            forgotten: 0,
            over: Readers::default(),
            bugs,
            counts: Counts::default(),
        }
    }

    fn on_prepare(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        prepare: Prepared,
        participants: Arc<[ShardId]>,
        out: &mut Out,
    ) {
        if self.over.is_over(txn.coordinator, txn.sequence) {
            self.answer_again(txn, prepare.decider, out);
            return;
        }
        let decider = prepare.decider;
        let clock = match self.prepared.get(&txn) {
            Some(known) => known.above,
            None => self.prepare(now_ms, txn, prepare),
        };
        if decider == self.id {
            self.tallies.entry(txn).or_default().participants = Some(participants);
            self.on_vote(now_ms, txn, self.id, clock, out);
        } else {
            out.ask(decider, Request::Vote { txn, clock }, Lsn::START);
        }
    }

    /// Commit time of a transaction that this shard has decided.
    fn decided_at(&self, txn: TxnId) -> Option<u64> {
        self.decided.get(txn)?.clock
    }

    fn answer_again(&mut self, txn: TxnId, decider: ShardId, out: &mut Out) {
        let reply = if decider != self.id {
            Reply::Committed { txn, shard: self.id }
        } else if let Some(clock) = self.decided_at(txn) {
            Reply::Decided { stamp: Stamp { clock, txn } }
        } else {
            // Its coordinator has said itself that all is over.
            return;
        };
        out.reply(txn.coordinator, reply, Lsn::START);
    }

    fn prepare(&mut self, now_ms: u64, txn: TxnId, mut prepare: Prepared) -> u64 {
        let clock = self.clock.tick(now_ms).clock;
        prepare.above = clock;
        for (key, _) in prepare.writes.iter() {
            self.table.at(key).pending.push(txn);
        }
        self.prepared.insert(txn, prepare);
        clock
    }

    fn on_vote(&mut self, now_ms: u64, txn: TxnId, voter: ShardId, clock: u64, out: &mut Out) {
        if let Some(clock) = self.decided_at(txn) {
            let stamp = Stamp { clock, txn };
            out.ask(voter, Request::Commit { stamp }, Lsn::START);
            return;
        }
        if self.over.is_over(txn.coordinator, txn.sequence) {
            return;
        }
        let tally = self.tallies.entry(txn).or_default();
        if !tally.votes.contains(&voter) {
            tally.votes.push(voter);
        }
        tally.clock = tally.clock.max(clock);
        let Some(participants) = &tally.participants else { return };
        if tally.votes.len() == participants.len() {
            let (clock, participants) = (tally.clock, participants.clone());
            self.decide(now_ms, txn, clock, &participants, out);
        }
    }

    /// All have prepared: it commits above all their clocks, and above every timestamp that a reader has
    /// asked about.
    fn decide(&mut self, now_ms: u64, txn: TxnId, voted: u64, participants: &[ShardId], out: &mut Out) {
        self.tallies.remove(&txn);
        self.clock.observe_clock(voted);
        let stamp = Stamp { clock: self.clock.tick(now_ms).clock, txn };
        self.decided.commit(txn, stamp.clock, ());
        self.commit(stamp);
        let others = participants.iter().filter(|shard| **shard != self.id);
        others.for_each(|shard| out.ask(*shard, Request::Commit { stamp }, Lsn::START));
        out.reply(txn.coordinator, Reply::Decided { stamp }, Lsn::START);
    }

    /// Shows what is prepared here; a second time nothing happens.
    fn commit(&mut self, stamp: Stamp) {
        let txn = stamp.txn;
        self.clock.observe_clock(stamp.clock);
        let Some(prepared) = self.prepared.remove(&txn) else { return };
        assert!(stamp.clock > prepared.above, "{stamp:?} commits where readers have not seen it");
        self.over.set_over(txn.coordinator, txn.sequence);
        for (key, write) in prepared.writes.iter() {
            let chain = self.table.at(key);
            chain.pending.retain(|one| *one != txn);
            chain.commit(stamp, write.clone());
            if *write == Write::Delete {
                self.tombstones.push_back((stamp, key.clone()));
            }
            self.fold(key);
        }
    }

    fn fold(&mut self, key: &Key) {
        let Some(chain) = self.table.get_mut(key) else { return };
        let undecided = chain.pending.iter().filter_map(|txn| self.prepared.get(txn));
        let floor = undecided.map(|prepared| prepared.above).fold(self.floor, u64::min);
        chain.fold(floor);
    }

    fn on_get(&mut self, reader: Reader, at: u64, keys: Arc<[Key]>, ranges: Arc<[KeyRange]>, out: &mut Out) {
        // Transactions that prepare from now on commit above.
        self.clock.observe_clock(at);
        if let Some(waiting) = self.waiting.get(&reader) {
            check(reader, waiting, out);
            return;
        }
        let mut unanswered = Vec::new();
        for key in keys.iter() {
            self.undecided(self.table.get(key), at, &mut unanswered);
        }
        for range in ranges.iter() {
            self.table.range(range).for_each(|(_, chain)| self.undecided(Some(chain), at, &mut unanswered));
        }
        unanswered.sort_unstable();
        unanswered.dedup();
        self.counts.checked_reads += u64::from(!unanswered.is_empty());
        self.counts.commit_checks += unanswered.len() as u64;
        // Transactions that it decides itself are not decided, and will be decided above the clock.
        unanswered.retain(|(decider, _)| *decider != self.id);
        let waiting = Waiting { at, keys, ranges, unanswered };
        if waiting.unanswered.is_empty() || self.bugs.check_is_skipped() {
            out.reply(reader.coordinator, self.read(reader, &waiting, false), Lsn::START);
        } else {
            self.counts.check_messages += check(reader, &waiting, out);
            self.waiting.insert(reader, waiting);
        }
    }

    /// Prepared transactions on the item that may have committed at or below that clock, by decider.
    fn undecided(&self, chain: Option<&Chain>, at: u64, found: &mut Vec<(ShardId, TxnId)>) {
        for txn in chain.into_iter().flat_map(|chain| &chain.pending) {
            let prepared = &self.prepared[txn];
            if prepared.above < at {
                found.push((prepared.decider, *txn));
            }
        }
    }

    fn read(&self, reader: Reader, waiting: &Waiting, checked: bool) -> Reply {
        let Waiting { at, keys, ranges, .. } = waiting;
        let read = |chain: Option<&Chain>| match chain {
            Some(chain) => chain.read(*at),
            None => Some(ItemRead::ABSENT),
        };
        let in_range = |range| -> Option<Vec<(Key, ItemRead)>> {
            let entries = self.table.range(range).map(|(key, chain)| Some((key.clone(), chain.read(*at)?)));
            entries.filter(|entry| entry.as_ref().is_none_or(|(_, read)| read.value.is_some())).collect()
        };
        let items: Option<Vec<ItemRead>> = keys.iter().map(|key| read(self.table.get(key))).collect();
        let ranges: Option<Vec<_>> = ranges.iter().map(in_range).collect();
        let read = reader.read;
        match (items, ranges) {
            (Some(items), Some(ranges)) if *at >= self.forgotten => {
                Reply::Got { read, shard: self.id, checked, items, ranges }
            }
            _ => Reply::TooOld { read, clock: self.clock.last() },
        }
    }

    fn on_check(&mut self, from: ShardId, reader: Reader, at: u64, txns: Vec<TxnId>, out: &mut Out) {
        // Also if the decision is forgotten: then the asking shard has committed it meanwhile.
        self.clock.observe_clock(at);
        let txns = txns.into_iter().map(|txn| (txn, self.decided_at(txn))).collect();
        out.ask(from, Request::Checked { reader, txns, clock: self.clock.last() }, Lsn::START);
    }

    fn on_checked(&mut self, reader: Reader, txns: Vec<(TxnId, Option<u64>)>, clock: u64, out: &mut Out) {
        for (txn, decided) in &txns {
            match decided {
                Some(clock) => self.commit(Stamp { clock: *clock, txn: *txn }),
                None => {
                    if let Some(prepared) = self.prepared.get_mut(txn) {
                        prepared.above = prepared.above.max(clock);
                    }
                }
            }
        }
        let Some(waiting) = self.waiting.get_mut(&reader) else { return };
        waiting.unanswered.retain(|(_, txn)| !txns.iter().any(|(one, _)| one == txn));
        if waiting.unanswered.is_empty() {
            let waiting = self.waiting.remove(&reader).expect("it waits");
            out.reply(reader.coordinator, self.read(reader, &waiting, true), Lsn::START);
        }
    }

    fn forget_tombstones(&mut self) {
        while let Some((stamp, _)) = self.tombstones.front()
            && stamp.clock <= self.floor
        {
            let (stamp, key) = self.tombstones.pop_front().expect("there is a first");
            self.fold(&key);
            if self.table.get(&key).is_some_and(|chain| chain.is_tombstone() == Some(stamp)) {
                self.table.remove(&key);
                self.forgotten = self.forgotten.max(stamp.clock);
            }
        }
    }
}

/// Asks the deciders, each once; says how many.
fn check(reader: Reader, waiting: &Waiting, out: &mut Out) -> u64 {
    let by_decider = waiting.unanswered.chunk_by(|one, other| one.0 == other.0);
    let messages = by_decider.map(|asked| {
        let txns = asked.iter().map(|(_, txn)| *txn).collect();
        out.ask(asked[0].0, Request::Check { reader, at: waiting.at, txns }, Lsn::START);
    });
    messages.count() as u64
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

    fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        let Progress { below, reads_from } = progress;
        self.over.on_progress(coordinator, below, 0, |_| ());
        self.decided.forget(TxnId { coordinator, sequence: 0 }..TxnId { coordinator, sequence: below });
        let horizon = self.horizons.entry(coordinator).or_insert(Horizon { reads_from, heard_ms: now_ms });
        horizon.reads_from = horizon.reads_from.max(reads_from);
        horizon.heard_ms = now_ms;
        self.horizons.retain(|_, horizon| now_ms.saturating_sub(horizon.heard_ms) <= COLLECTION_MS_MAX);
        let slowest = self.horizons.values().map(|horizon| horizon.reads_from).min().unwrap_or(0);
        let bound = clock_at(now_ms.saturating_sub(COLLECTION_MS_MAX));
        // Nothing may commit at or below the floor, and what prepares next commits above the clock.
        self.floor = self.floor.max(slowest.max(bound).min(self.clock.last()));
        self.forget_tombstones();
    }

    fn step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Out) {
        match (from, request) {
            (_, Request::Prepare { txn, writes, decider, participants }) => {
                self.on_prepare(now_ms, txn, Prepared { writes, decider, above: 0 }, participants, out);
            }
            (Sender::Coordinator(coordinator), Request::Get { read, at, keys, ranges }) => {
                self.on_get(Reader { coordinator, read }, at, keys, ranges, out);
            }
            (Sender::Shard(voter), Request::Vote { txn, clock }) => {
                self.on_vote(now_ms, txn, voter, clock, out);
            }
            (_, Request::Commit { stamp }) => {
                self.commit(stamp);
                let reply = Reply::Committed { txn: stamp.txn, shard: self.id };
                out.reply(stamp.txn.coordinator, reply, Lsn::START);
            }
            (Sender::Shard(asker), Request::Check { reader, at, txns }) => {
                self.on_check(asker, reader, at, txns, out);
            }
            (_, Request::Checked { reader, txns, clock }) => self.on_checked(reader, txns, clock, out),
            (from, request) => unreachable!("{from:?} does not send {request:?}"),
        }
    }

    fn is_idle(&self) -> bool {
        self.prepared.is_empty() && self.tallies.is_empty() && self.waiting.is_empty()
    }
}

impl<F: Faults> Comparator for Partition<F> {
    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn step(shard: &mut Partition, now_ms: u64, request: Request) -> Vec<Reply> {
        let mut out = Effects::default();
        shard.step(now_ms, Sender::Coordinator(1), request, &mut out);
        out.replies.into_iter().map(|reply| reply.message).collect()
    }

    fn write(shard: &mut Partition, now_ms: u64, sequence: u64, write: Write) {
        let writes = Arc::new([(Key::from("x"), write)]);
        let txn = TxnId { coordinator: 1, sequence };
        let request = Request::Prepare { txn, writes, decider: 0, participants: Arc::new([0]) };
        assert!(matches!(step(shard, now_ms, request)[..], [Reply::Decided { .. }]));
    }

    fn versions(shard: &Partition) -> usize {
        shard.table.get(&"x".into()).expect("it is there").versions()
    }

    fn read(shard: &mut Partition, now_ms: u64, at: u64) -> Reply {
        let request = Request::Get { read: 1, at, keys: Arc::new(["x".into()]), ranges: Arc::new([]) };
        step(shard, now_ms, request).pop().expect("nothing is prepared")
    }

    /// Versions go when no reader can want them, and after the bound even if one may; it is told to begin
    /// again.
    #[test]
    fn old_versions_are_kept_for_readers_but_not_for_ever() {
        let mut shard = Partition::new(0, NoFaults);
        let at = clock_at(NOW_MS);
        let mut sequence = 0;
        let mut rewrite = |shard: &mut Partition, now_ms: u64| {
            sequence += 1;
            write(shard, now_ms, sequence, Write::Put("new".into()));
        };
        rewrite(&mut shard, NOW_MS - 1);
        shard.on_progress(NOW_MS, 1, Progress { below: 0, reads_from: at });
        for later_ms in 1..100 {
            rewrite(&mut shard, NOW_MS + later_ms);
        }
        assert!(matches!(read(&mut shard, NOW_MS + 100, at), Reply::Got { .. }));
        assert_eq!(versions(&shard), 99);
        let late_ms = NOW_MS + 100 + COLLECTION_MS_MAX;
        shard.on_progress(late_ms, 1, Progress { below: 0, reads_from: at });
        rewrite(&mut shard, late_ms);
        assert!(matches!(read(&mut shard, late_ms, at), Reply::TooOld { .. }));
        shard.on_progress(late_ms + 2, 1, Progress { below: 0, reads_from: clock_at(late_ms + 1) });
        rewrite(&mut shard, late_ms + 2);
        assert_eq!(versions(&shard), 1);
    }

    #[test]
    fn deleted_items_are_forgotten() {
        let mut shard = Partition::new(0, NoFaults);
        write(&mut shard, NOW_MS, 1, Write::Put("value".into()));
        write(&mut shard, NOW_MS, 2, Write::Delete);
        read(&mut shard, NOW_MS + 1, (NOW_MS + 1) << 16);
        shard.on_progress(NOW_MS + 1, 1, Progress { below: 3, reads_from: (NOW_MS + 1) << 16 });
        assert!(shard.table.get(&"x".into()).is_none());
        assert!(matches!(read(&mut shard, NOW_MS + 1, NOW_MS << 16), Reply::TooOld { .. }));
    }
}
