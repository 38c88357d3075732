//! Termination: what participants do when a coordinator is silent (ramp.txt §4.6; design.md §5; soundness S3, S9).
//!
//! Nobody waits: a participant asks the others now and then, and what they say is acted upon when it comes. All of them
//! prepared, or one committed, means committed, with the stamp that the coordinator would have bound; one that has
//! not prepared promises, in its log first, that it never will. Nothing else decides: that a participant
//! holds a newer version says nothing of this one.

use smallvec::SmallVec;

use super::message::{Fate, Reply, Request, Stamp};
use super::partition::Partition;
use super::place::ByShard;
use crate::machine::{CoordinatorId, Effects, RESEND_MS};
use crate::ramp::{ShardId, TxnId};

/// How long a shard bears a coordinator's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Then it asks the other participants of what that coordinator has left.
    pub terminate_ms: u64,
    /// Then, if nothing is left, it forgets the coordinator and takes no more writes from it.
    pub retire_ms: u64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { terminate_ms: 1_000, retire_ms: 60_000 }
    }
}

/// What is known of the other participants of a transaction.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    told: ByShard<Fate>,
    /// The shard's age when it asked last.
    asked_ms: Option<u64>,
}

impl Inquiry {
    fn of(&self, shard: ShardId) -> Option<Fate> {
        self.told.iter().find(|(one, _)| *one == shard).map(|(_, fate)| *fate)
    }

    fn note(&mut self, shard: ShardId, fate: Fate) {
        match self.told.iter_mut().find(|(one, _)| *one == shard) {
            // A word that was held up must not undo a newer one.
            Some((_, Fate::Committed { .. })) => {}
            Some((_, known)) => *known = fate,
            None => self.told.push((shard, fate)),
        }
    }
}

impl Partition {
    /// What is left of silent coordinators.
    pub(super) fn terminate(&mut self, out: &mut Effects<Request, Reply>) {
        self.abort_what_is_over();
        let silent: Vec<CoordinatorId> = self.readers.silent_for(self.patience.terminate_ms).collect();
        if !silent.is_empty() {
            let mut left: Vec<TxnId> =
                self.unsettled().filter(|txn| silent.contains(&txn.coordinator)).collect();
            left.sort_unstable();
            left.into_iter().for_each(|txn| self.inquire(txn, out));
            self.retire();
        }
        let mut inquiries = std::mem::take(&mut self.inquiries);
        inquiries.retain(|txn, _| self.is_unsettled(*txn));
        self.inquiries = inquiries;
        let readers = &self.readers;
        self.promises.retain(|txn| !readers.is_below(txn.coordinator, txn.sequence));
        self.outcomes.retain(|txn, _| !readers.is_below(txn.coordinator, txn.sequence));
    }

    /// A coordinator says of a transaction that it is over everywhere, and it has not committed here: it has
    /// aborted, and the word of that was lost.
    fn abort_what_is_over(&mut self) {
        let readers = &self.readers;
        let over = self.prepared.keys().filter(|txn| readers.is_below(txn.coordinator, txn.sequence));
        let mut over: Vec<TxnId> = over.copied().collect();
        over.sort_unstable();
        over.into_iter().for_each(|txn| {
            self.abort(txn);
        });
    }

    fn unsettled(&self) -> impl Iterator<Item = TxnId> {
        let committed = self.committed.iter().filter(|(_, one)| !one.settled).map(|(txn, _)| *txn);
        committed.chain(self.prepared.keys().copied())
    }

    fn is_unsettled(&self, txn: TxnId) -> bool {
        self.prepared.contains_key(&txn) || self.committed.get(&txn).is_some_and(|one| !one.settled)
    }

    /// The other participants of what is prepared or committed here.
    fn others(&self, txn: TxnId) -> SmallVec<[ShardId; 4]> {
        let prepared = self.prepared.get(&txn).map(|prepared| &prepared.participants);
        let committed = || self.committed.get(&txn).and_then(|committed| committed.participants.as_ref());
        let all = prepared.or_else(committed).into_iter().flat_map(|all| all.iter());
        all.copied().filter(|shard| *shard != self.id).collect()
    }

    fn inquire(&mut self, txn: TxnId, out: &mut Effects<Request, Reply>) {
        self.decide(txn);
        if !self.is_unsettled(txn) {
            return;
        }
        let (others, age_ms) = (self.others(txn), self.readers.age_ms());
        let fate = self.fate(txn).expect("it is prepared or committed here");
        let inquiry = self.inquiries.entry(txn).or_default();
        if inquiry.asked_ms.is_some_and(|asked_ms| age_ms - asked_ms < RESEND_MS) {
            return;
        }
        inquiry.asked_ms = Some(age_ms);
        let is_prepared = matches!(fate, Fate::Prepared { .. });
        for other in others {
            let is_enough = match inquiry.of(other) {
                Some(Fate::Committed { .. }) => true,
                Some(Fate::Prepared { .. }) => is_prepared,
                Some(Fate::Refused) | None => false,
            };
            if !is_enough {
                out.peers.push((other, Request::Ask { txn, fate }));
            }
        }
    }

    /// Commits what all participants have prepared, and settles what all have committed.
    fn decide(&mut self, txn: TxnId) {
        let others = self.others(txn);
        let told = |shard| self.inquiries.get(&txn).and_then(|inquiry| inquiry.of(shard));
        if let Some(prepared) = self.prepared.get(&txn) {
            let mut clock = prepared.clock;
            for other in others {
                let Some(Fate::Prepared { clock: of_other }) = told(other) else { return };
                if !self.bugs.own_stamp_at_termination {
                    clock = clock.max(of_other);
                }
            }
            self.commit_at(txn, clock);
        } else if others.iter().all(|other| matches!(told(*other), Some(Fate::Committed { .. }))) {
            self.settle(txn);
        }
    }

    fn commit_at(&mut self, txn: TxnId, clock: u64) {
        if self.commit(Stamp { clock, txn }) {
            self.counts.terminated.0 += 1;
            // The others are told at once.
            if let Some(inquiry) = self.inquiries.get_mut(&txn) {
                inquiry.asked_ms = None;
            }
        }
    }

    /// All participants have committed it, which its coordinator may not know.
    fn settle(&mut self, txn: TxnId) {
        let Some(committed) = self.committed.get_mut(&txn).filter(|one| !one.settled) else { return };
        committed.settled = true;
        self.outcomes.insert(txn, committed.stamp.clock);
        self.draining.push_back((self.readers.epoch(), txn));
    }

    pub(super) fn on_peer(&mut self, peer: ShardId, request: Request, out: &mut Effects<Request, Reply>) {
        match request {
            Request::Ask { txn, fate } => {
                let own = self.answer_peer(txn, fate);
                out.peers.push((peer, Request::Tell { txn, fate: own }));
                self.hear(peer, txn, fate);
            }
            Request::Tell { txn, fate } => self.hear(peer, txn, fate),
            // Shards say nothing else to each other.
            _ => {}
        }
    }

    fn answer_peer(&mut self, txn: TxnId, asked: Fate) -> Fate {
        match asked {
            // Then all had prepared, so this shard has committed it or does so now.
            Fate::Committed { clock } => {
                self.commit_at(txn, clock);
                asked
            }
            Fate::Prepared { clock } if self.fate(txn).is_none() && self.bugs.newer_means_committed => {
                if self.position > 0 && self.clock.last() > clock {
                    Fate::Committed { clock }
                } else {
                    Fate::Refused
                }
            }
            Fate::Prepared { .. } | Fate::Refused => self.fate(txn).unwrap_or_else(|| {
                self.promise(txn);
                Fate::Refused
            }),
        }
    }

    /// Another participant has said what it knows.
    fn hear(&mut self, peer: ShardId, txn: TxnId, fate: Fate) {
        match fate {
            Fate::Committed { clock } => self.commit_at(txn, clock),
            Fate::Refused => self.counts.terminated.1 += u64::from(self.abort(txn)),
            Fate::Prepared { .. } => {}
        }
        if let Some(inquiry) = self.inquiries.get_mut(&txn) {
            inquiry.note(peer, fate);
            if self.is_unsettled(txn) {
                self.decide(txn);
            }
        }
    }

    /// Forgets coordinators that have been silent for very long and have left nothing.
    fn retire(&mut self) {
        let silent: Vec<CoordinatorId> = self.readers.silent_for(self.patience.retire_ms).collect();
        for coordinator in silent {
            let of_it = |txn: &TxnId| txn.coordinator == coordinator;
            if !self.prepared.keys().any(of_it) && !self.committed.keys().any(of_it) {
                self.forget_coordinator(coordinator);
                if let Some(log) = &mut self.log {
                    log.push(super::Record::Retired { coordinator });
                }
            }
        }
    }

    pub(super) fn forget_coordinator(&mut self, coordinator: CoordinatorId) {
        self.readers.forget(coordinator);
        self.promises.retain(|txn| txn.coordinator != coordinator);
        self.outcomes.retain(|txn, _| txn.coordinator != coordinator);
        self.retired.insert(coordinator);
    }

    /// What is prepared, committed and not drained, or remembered of that coordinator's transactions.
    pub fn left_of(&self, coordinator: CoordinatorId) -> Left {
        let of_it = |txn: &&TxnId| txn.coordinator == coordinator;
        Left {
            prepared: self.prepared.keys().filter(of_it).count(),
            committed: self.committed.keys().filter(of_it).count(),
            promises_and_outcomes: self.promises.iter().chain(self.outcomes.keys()).filter(of_it).count(),
        }
    }
}

/// How much a shard still holds of one coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    pub prepared: usize,
    pub committed: usize,
    pub promises_and_outcomes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::{Key, Metadata, Record, Sketch, Write};
    use crate::machine::{Durable, Sender, Shard};

    const TXN: TxnId = TxnId { coordinator: 7, sequence: 1 };

    /// Two shards with logs, and what they have written.
    struct Pair {
        shards: [Partition; 2],
        logs: [Vec<Record>; 2],
        now_ms: u64,
    }

    impl Pair {
        fn new() -> Pair {
            let start = |shard| Partition::recover(shard, Default::default(), Patience::default(), []);
            Pair { shards: [start(0), start(1)], logs: [Vec::new(), Vec::new()], now_ms: 1_000 }
        }

        /// Sends one request of the coordinator, and gives the replies.
        fn ask(&mut self, shard: usize, request: Request) -> Vec<Reply> {
            let mut out = Effects::default();
            self.shards[shard].on_progress(self.now_ms, TXN.coordinator, Default::default());
            self.shards[shard].step(self.now_ms, Sender::Coordinator(TXN.coordinator), request, &mut out);
            out.replies.into_iter().map(|(_, reply)| reply).collect()
        }

        fn prepare(&mut self, shard: usize) -> Vec<Reply> {
            let writes = vec![(Key::from("x"), Write::Add(1))].into();
            let (participants, metadata, written) = ([0, 1].into(), Metadata::Stamp, Sketch::NONE);
            let begun_ms = 1_000;
            self.ask(
                shard,
                Request::Prepare {
                    txn: TXN,
                    writes,
                    participants,
                    metadata,
                    written,
                    begun_ms,
                    guards: Vec::new(),
                },
            )
        }

        /// The coordinator is silent for so long; what the shards say to each other arrives.
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
            for (to, request) in out.peers {
                let (to, mut answers) = (usize::from(to), Effects::default());
                self.shards[to].step(self.now_ms, Sender::Shard(from as ShardId), request, &mut answers);
                self.deliver(to, answers);
            }
        }

        /// Both crash, with their logs on disk, and start again.
        fn restart(&mut self) {
            for (at, log) in self.logs.iter_mut().enumerate() {
                log.extend(self.shards[at].take_records());
                let patience = Patience::default();
                self.shards[at] =
                    Partition::recover(at as ShardId, Default::default(), patience, log.clone());
            }
        }

        /// The same from a snapshot alone.
        fn restart_from_snapshots(&mut self) {
            self.logs = [0, 1].map(|at| vec![self.shards[at].snapshot()]);
            self.shards.iter_mut().for_each(|shard| drop(shard.take_records()));
            self.restart();
        }

        fn fates(&self) -> [Option<Fate>; 2] {
            [0, 1].map(|shard: usize| self.shards[shard].fate(TXN))
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
            pair.let_pass(Patience::default().terminate_ms + 500);
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
            pair.let_pass(Patience::default().terminate_ms + 500);
            assert_eq!(pair.fates(), [Some(Fate::Refused); 2]);
            restart(&mut pair);
            for shard in [1, 0] {
                let replies = pair.prepare(shard);
                assert!(matches!(&replies[..], [Reply::Refused { .. }]), "{replies:?}");
            }
            assert!(pair.shards.iter().all(Partition::is_idle));
        }
    }

    /// A coordinator that is silent for very long is forgotten, and told so if it comes back.
    #[test]
    fn the_silent_are_retired() {
        let mut pair = Pair::new();
        pair.prepare(0);
        // The second shard has only heard of it by the question of the first.
        pair.let_pass(Patience::default().terminate_ms + Patience::default().retire_ms + 500);
        assert!(pair.shards.iter().all(|shard| shard.left_of(TXN.coordinator) == Left::default()));
        for _ in 0..2 {
            assert!(matches!(&pair.prepare(1)[..], [Reply::Retired { shard: 1 }]));
            pair.restart();
        }
    }

    /// S9: a clock that is far ahead is refused, and what was refused stays so.
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
}
