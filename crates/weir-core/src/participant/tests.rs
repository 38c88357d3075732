//! The core with the smallest payload: numbers that are added up.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;

/// Transactions that add to a sum.
#[derive(Clone, Copy, Debug, Default)]
struct Sums;

#[derive(Clone, Debug, Serialize, serde::Deserialize)]
struct Adding {
    clock: u64,
    amount: u64,
    participants: Vec<ShardId>,
}

#[derive(Debug)]
struct Added {
    clock: u64,
    participants: Vec<ShardId>,
    settled: bool,
}

impl Prepared for Adding {
    fn since(&self) -> u64 {
        self.clock
    }

    fn clock(&self) -> u64 {
        self.clock
    }

    fn participants(&self) -> &[ShardId] {
        &self.participants
    }
}

impl draining::Committed for Added {
    fn settled(&mut self) -> &mut bool {
        &mut self.settled
    }
}

impl Committed for Added {
    fn clock(&self) -> u64 {
        self.clock
    }

    fn participants(&self) -> &[ShardId] {
        &self.participants
    }

    fn is_settled(&self) -> bool {
        self.settled
    }
}

impl Payload for Sums {
    type Stamp = u64;
    type Prepared = Adding;
    type Committed = Added;
    type PreparedMap = BTreeMap<TxnId, Adding>;
    type CommittedMap = BTreeMap<TxnId, Added>;
    type Answer = ();
    type LoggedPrepared = Adding;
    type LoggedCommit = (TxnId, u64);
    type Snapshot = ();
    type SnapshotPart = ();
    type LoggedRows = ();
    type Ordered = ();

    const REMEMBERS_COMMITS: bool = true;

    fn clock_of(clock: u64) -> u64 {
        clock
    }
}

#[derive(Default)]
struct Shard {
    participant: Participant<Sums>,
    sum: u64,
    /// Amounts of prepared transactions.
    claimed: u64,
}

impl Participates for Shard {
    type Payload = Sums;
    type Unreadable = Infallible;

    fn own_id(&self) -> ShardId {
        0
    }

    fn participant(&self) -> &Participant<Sums> {
        &self.participant
    }

    fn participant_mut(&mut self) -> &mut Participant<Sums> {
        &mut self.participant
    }

    fn stamp_at(&self, _txn: TxnId, _prepared: &Adding, clock: u64) -> u64 {
        clock
    }

    fn clock_of_all_prepared(&self, prepared: &Adding, others: &[u64]) -> Option<u64> {
        Some(others.iter().copied().fold(prepared.clock, u64::max))
    }

    fn claim(&mut self, _txn: TxnId, prepared: &Adding) {
        self.claimed += prepared.amount;
    }

    fn unclaim(&mut self, _txn: TxnId, prepared: &Adding) {
        self.claimed -= prepared.amount;
    }

    fn apply(&mut self, txn: TxnId, prepared: Adding, clock: u64) -> Applied<Sums> {
        self.sum += prepared.amount;
        let committed = Added { clock, participants: prepared.participants, settled: false };
        Applied { committed: Some(committed), record: Some((txn, clock)) }
    }

    fn discard(&mut self, _txn: TxnId, _prepared: Adding) {}

    fn restore_prepared(&mut self, _txn: TxnId, logged: Adding) -> Result<Adding, Infallible> {
        Ok(logged)
    }

    fn restore_commit(&mut self, (txn, clock): (TxnId, u64)) -> Result<(), Infallible> {
        self.commit(txn, clock);
        Ok(())
    }

    fn restore_snapshot(&mut self, (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn restore_part(&mut self, (): ()) {}

    fn restore_rows(&mut self, _: TxnId, (): ()) {}

    fn restore_ordered(&mut self, (): ()) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Shard {
    fn new() -> Shard {
        Shard { participant: Participant::remembering(Timeouts::default()), ..Shard::default() }
    }

    /// Starts a shard from records.
    fn from(records: &[Record<Sums>]) -> Shard {
        let mut shard = Shard::new();
        for record in records {
            let Ok(()) = shard.replay(record.clone());
        }
        shard.participant.start();
        shard
    }

    fn prepare(&mut self, txn: TxnId, clock: u64) {
        let prepared = Adding { clock, amount: clock, participants: vec![0, 1] };
        self.participant.log.push(Record::Prepared { txn, prepared: prepared.clone() });
        self.hold(txn, prepared);
    }
}

fn txn(sequence: u64) -> TxnId {
    TxnId { coordinator: 1, sequence }
}

#[test]
fn a_transaction_goes_through_its_states() {
    let mut shard = Shard::from(&[]);
    for (sequence, clock) in [(0, 10), (1, 20), (2, 30)] {
        shard.prepare(txn(sequence), clock);
    }
    assert_eq!((shard.claimed, shard.participant.oldest_prepare()), (60, Some(10)));
    assert_eq!(shard.participant.fate(txn(1)), Some(Fate::Prepared { clock: 20 }));
    assert!(shard.commit(txn(1), 40) && !shard.commit(txn(1), 40), "it commits once");
    assert_eq!((shard.sum, shard.claimed, shard.participant.oldest_prepare()), (20, 40, Some(10)));
    assert_eq!(shard.participant.fate(txn(1)), Some(Fate::Committed { clock: 40 }));
    assert!(shard.abort(txn(0)) && !shard.abort(txn(0)));
    assert_eq!(shard.participant.fate(txn(0)), Some(Fate::Refused));
    assert_eq!(shard.participant.oldest_prepare(), Some(30));
    shard.promise(txn(7));
    assert_eq!(shard.participant.fate(txn(7)), Some(Fate::Refused));
    // The coordinator knows of the first two, and no reader is there.
    let passed = shard.participant.on_progress(1, [], 2, 0).expect("the watermark moves");
    shard.participant.settle_all(passed);
    assert_eq!(shard.participant.outcomes.iter().map(|(txn, _)| txn).collect::<Vec<_>>(), [txn(7)]);
    let drained = shard.participant.readers.drained();
    assert!(shard.participant.next_drained(drained).is_some_and(|one| one.clock == 40));
    assert_eq!(shard.participant.left_of(1), Left { prepared: 1, committed: 0, outcomes: 1 });
    // A late request finds the watermark.
    assert_eq!(shard.participant.fate(txn(1)), Some(Fate::Refused));
    shard.promise(txn(0));
    assert_eq!(shard.participant.outcomes.len(), 1, "that one is over everywhere");
}

/// After any prefix of any run, the records rebuild what they tell of.
#[test]
fn recovery_is_a_fold_of_the_records() {
    for seed in 1..40_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut shard = Shard::from(&[]);
        let mut records = shard.participant.log.take().expect("no snapshot is due");
        for clock in 1..60 {
            let one = txn(next(20));
            match next(4) {
                0 if shard.participant.fate(one).is_none() => shard.prepare(one, clock),
                1 => _ = shard.commit(one, clock),
                2 => _ = shard.abort(one),
                3 if shard.participant.fate(one).is_none() => shard.promise(one),
                _ => {}
            }
            records.extend(shard.participant.log.take().expect("no snapshot is due"));
            let again = Shard::from(&records);
            assert_eq!((again.sum, again.claimed), (shard.sum, shard.claimed), "seed {seed} at {clock}");
            assert_eq!(again.participant.oldest_prepare(), shard.participant.oldest_prepare());
            for sequence in 0..20 {
                let [was, is] = [&shard, &again].map(|one| one.participant.fate(txn(sequence)));
                assert_eq!(is, was, "seed {seed} at {clock}: {sequence}");
            }
        }
        assert_eq!(Shard::from(&records).participant.incarnation, 2);
    }
}

#[test]
fn a_retired_coordinator_stays_so() {
    let mut shard = Shard::from(&[]);
    shard.prepare(txn(0), 5);
    shard.commit(txn(0), 6);
    shard.retire(1);
    let records = shard.participant.log.take().expect("no snapshot is due");
    let again = Shard::from(&records);
    assert!(again.participant.outcomes.is_retired(1) && again.participant.outcomes.is_empty());
    assert!(again.participant.is_draining(), "its commits were settled");
}
