//! Tests of termination over items: all participants prepared means committed, with the stamp that the coordinator would have bound (S3, S9).

use smallvec::SmallVec;
use weir_core::ids::{Sender, ShardId, TxnId};
use weir_core::machine::{Durable, Effects, Outgoing, Shard};
use weir_core::participant::Left;

use crate::faults::NoFaults;
use crate::message::Siblings;
use crate::{Fate, Key, Metadata, Partition, Record, Reply, Request, Sketch, Timeouts, Write};

const TXN: TxnId = TxnId { coordinator: 7, sequence: 1 };

/// Two shards with logs, and their records.
struct Pair {
    shards: [Partition; 2],
    logs: [Vec<Record>; 2],
    now_ms: u64,
}

impl Pair {
    fn new() -> Pair {
        let start = |shard| Partition::recover(shard, NoFaults, Timeouts::default(), []);
        Pair { shards: [start(0), start(1)], logs: [Vec::new(), Vec::new()], now_ms: 1_000 }
    }

    /// Sends a request of the coordinator; returns the replies.
    fn ask(&mut self, shard: usize, request: Request) -> Vec<Reply> {
        let mut out = Effects::default();
        self.shards[shard].on_progress(self.now_ms, TXN.coordinator, Default::default());
        self.shards[shard].step(self.now_ms, Sender::Coordinator(TXN.coordinator), request, &mut out);
        out.replies.into_iter().map(|reply| reply.message).collect()
    }

    fn prepare(&mut self, shard: usize) -> Vec<Reply> {
        self.prepare_of(TXN, shard)
    }

    fn prepare_of(&mut self, txn: TxnId, shard: usize) -> Vec<Reply> {
        let writes = vec![(Key::from("x"), Write::Add(1))].into();
        let participants = SmallVec::from_slice(&[0, 1]);
        let siblings = Siblings { metadata: Metadata::Stamp, written: Sketch::NONE, participants }.into();
        let (begun_ms, guards) = (1_000, [].into());
        self.ask(shard, Request::Prepare { txn, writes, siblings, begun_ms, guards })
    }

    /// Lets that time pass without the coordinator; messages between the shards arrive.
    fn let_pass(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now_ms += 100;
            for shard in 0..2 {
                let mut out = Effects::default();
                self.shards[shard].on_timer(self.now_ms, &mut out);
                self.deliver(shard, out);
            }
        }
    }

    fn deliver(&mut self, from: usize, out: Effects<Request, Reply>) {
        for Outgoing { to, message: request, .. } in out.peers {
            let (to, mut answers) = (usize::from(to), Effects::default());
            self.shards[to].step(self.now_ms, Sender::Shard(from as ShardId), request, &mut answers);
            self.deliver(to, answers);
        }
    }

    /// Restarts both shards from their logs.
    fn restart(&mut self) {
        for (at, log) in self.logs.iter_mut().enumerate() {
            log.extend(self.shards[at].take_records());
            let timeouts = Timeouts::default();
            self.shards[at] = Partition::recover(at as ShardId, NoFaults, timeouts, log.clone());
        }
    }

    /// Restarts both shards from a snapshot alone.
    fn restart_from_snapshots(&mut self) {
        self.logs = [0, 1].map(|at| vec![self.shards[at].snapshot()]);
        self.shards.iter_mut().for_each(|shard| drop(shard.take_records()));
        self.restart();
    }

    fn fates(&self) -> [Option<Fate>; 2] {
        self.fates_of(TXN)
    }

    fn fates_of(&self, txn: TxnId) -> [Option<Fate>; 2] {
        [0, 1].map(|shard: usize| self.shards[shard].fate(txn))
    }
}

fn clock_of(replies: &[Reply]) -> u64 {
    let [Reply::Prepared { clock, .. }] = replies else { panic!("not prepared: {replies:?}") };
    *clock
}

/// S3: all prepared means committed, at the stamp that the coordinator would have bound, restarts or not; and a
/// coordinator that comes back late binds the same.
#[test]
fn all_prepared_means_committed() {
    let restarts: [fn(&mut Pair); 3] = [|_| (), Pair::restart, Pair::restart_from_snapshots];
    for restart in restarts {
        let mut pair = Pair::new();
        pair.now_ms = 5_000;
        let first = clock_of(&pair.prepare(0));
        pair.now_ms = 9_000;
        let clock = clock_of(&pair.prepare(1)).max(first);
        restart(&mut pair);
        assert_eq!(clock_of(&pair.prepare(0)), first, "as before");
        pair.let_pass(Timeouts::default().terminate_ms + 500);
        assert_eq!(pair.fates(), [Some(Fate::Committed { clock }); 2]);
        restart(&mut pair);
        assert_eq!([0, 1].map(|shard| clock_of(&pair.prepare(shard))), [clock; 2]);
        assert!(matches!(&pair.ask(0, Request::Abort { txn: TXN })[..], []));
        assert_eq!(pair.fates()[0], Some(Fate::Committed { clock }), "it is too late to abort");
    }
}

/// S3: one that has not prepared promises that it never will, and keeps to it after a restart.
#[test]
fn a_promise_holds() {
    let restarts: [fn(&mut Pair); 3] = [|_| (), Pair::restart, Pair::restart_from_snapshots];
    for restart in restarts {
        let mut pair = Pair::new();
        pair.prepare(0);
        pair.let_pass(Timeouts::default().terminate_ms + 500);
        assert_eq!(pair.fates(), [Some(Fate::Refused); 2]);
        restart(&mut pair);
        for shard in [1, 0] {
            let replies = pair.prepare(shard);
            assert!(matches!(&replies[..], [Reply::Refused { .. }]), "{replies:?}");
        }
        assert!(pair.shards.iter().all(Partition::is_idle));
    }
}

/// A coordinator that has come back and falls silent again has left new transactions.
#[test]
fn a_second_silence_is_seen() {
    let mut pair = Pair::new();
    for sequence in 1..4 {
        let txn = TxnId { sequence, ..TXN };
        let clocks = [0, 1].map(|shard| clock_of(&pair.prepare_of(txn, shard)));
        let clock = clocks[0].max(clocks[1]);
        pair.let_pass(Timeouts::default().terminate_ms + 500);
        assert_eq!(pair.fates_of(txn), [Some(Fate::Committed { clock }); 2], "silence {sequence}");
    }
}

/// A coordinator that is silent for very long is forgotten, and is told so if it returns.
#[test]
fn the_silent_are_retired() {
    let mut pair = Pair::new();
    pair.prepare(0);
    // The second shard has learned of it only from the first one's question.
    pair.let_pass(Timeouts::default().terminate_ms + Timeouts::default().retire_ms + 500);
    assert!(pair.shards.iter().all(|shard| shard.left_of(TXN.coordinator) == Left::default()));
    for _ in 0..2 {
        assert!(matches!(&pair.prepare(1)[..], [Reply::Retired { shard: 1 }]));
        pair.restart();
    }
}

/// S9: a clock that is far ahead is rejected, and a rejected transaction stays so.
#[test]
fn a_clock_that_is_far_ahead_is_refused() {
    let mut pair = Pair::new();
    for now_ms in [10_000_000, 1_000] {
        pair.now_ms = now_ms;
        assert!(matches!(&pair.prepare(0)[..], [Reply::Refused { .. }]), "at {now_ms}");
    }
    assert_eq!(pair.shards[0].last_clock(), 0, "nothing of it is left in the clock");
    clock_of(&pair.prepare(1));
}
