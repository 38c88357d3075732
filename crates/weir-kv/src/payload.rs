//! Keys and values as a payload of the transaction core (docs/internals/transaction-core.md).
//!
//! All participants prepared means committed, with the stamp that the coordinator would have bound (S3, S9).

use std::convert::Infallible;

use rustc_hash::FxHashMap;
use weir_core::ids::{ShardId, TxnId};
use weir_core::participant::{Applied, Participant, Participates, Payload};
use weir_core::termination::{Fate, says_words};

use super::faults::Faults;
use super::log::{LoggedCommit, NoPart, Snapshot};
use super::message::{Request, Stamp};
use super::partition::{Committed, Partition, Prepared};

/// Transactions over items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Items;

impl Payload for Items {
    type Stamp = Stamp;
    type Prepared = Prepared;
    type Committed = Committed;
    type PreparedMap = FxHashMap<TxnId, Prepared>;
    type CommittedMap = FxHashMap<TxnId, Committed>;
    type Answer = ();
    type LoggedPrepared = Prepared;
    type LoggedCommit = LoggedCommit;
    type Snapshot = Snapshot;
    type SnapshotPart = NoPart;
    type LoggedRows = NoPart;
    type Ordered = NoPart;

    /// An answer is a clock, and [`Committed`] has it.
    const REMEMBERS_COMMITS: bool = false;

    fn clock_of(stamp: Stamp) -> u64 {
        stamp.clock
    }
}

says_words!(Request);

impl<F: Faults> Participates for Partition<F> {
    type Payload = Items;
    type Unreadable = Infallible;

    fn own_id(&self) -> ShardId {
        self.id
    }

    fn participant(&self) -> &Participant<Items> {
        &self.participant
    }

    fn participant_mut(&mut self) -> &mut Participant<Items> {
        &mut self.participant
    }

    fn stamp_at(&self, txn: TxnId, _prepared: &Prepared, clock: u64) -> Stamp {
        Stamp { clock, txn }
    }

    fn clock_of_all_prepared(&self, prepared: &Prepared, others: &[u64]) -> Option<u64> {
        let others = if self.bugs.own_stamp_at_termination() { &[] } else { others };
        Some(others.iter().copied().fold(prepared.clock, u64::max))
    }

    fn claim(&mut self, _txn: TxnId, prepared: &Prepared) {
        self.guarded.extend(prepared.guarded.iter().cloned());
    }

    fn unclaim(&mut self, _txn: TxnId, prepared: &Prepared) {
        for key in &prepared.guarded {
            self.guarded.remove(key);
        }
    }

    fn apply(&mut self, _txn: TxnId, prepared: Prepared, stamp: Stamp) -> Applied<Items> {
        if !self.bugs.clock_ignores_commits() {
            self.clock.observe_clock(stamp.clock);
        }
        let record = self.participant.log.is_on().then_some(LoggedCommit::Prepared(stamp));
        let committed = self.show(stamp, prepared.writes, Some(prepared.siblings));
        Applied { committed: Some(committed), record }
    }

    /// Nothing of a prepared transaction is outside of its state.
    fn discard(&mut self, _txn: TxnId, _prepared: Prepared) {}

    fn restore_prepared(&mut self, _txn: TxnId, prepared: Prepared) -> Result<Prepared, Infallible> {
        self.clock.restore(prepared.clock);
        Ok(prepared)
    }

    fn restore_commit(&mut self, logged: LoggedCommit) -> Result<(), Infallible> {
        use weir_core::participant::Transactions as _;
        match logged {
            LoggedCommit::Written { stamp, writes } => {
                self.clock.restore(stamp.clock);
                self.on_write(stamp, writes);
            }
            LoggedCommit::Prepared(stamp) => {
                self.clock.restore(stamp.clock);
                self.commit(stamp.txn, stamp);
            }
        }
        Ok(())
    }

    fn restore_snapshot(&mut self, snapshot: Snapshot) -> Result<(), Infallible> {
        self.restore(snapshot);
        Ok(())
    }

    fn restore_rows(&mut self, _: TxnId, rows: NoPart) {
        match rows {}
    }

    fn restore_part(&mut self, part: NoPart) {
        match part {}
    }

    fn restore_ordered(&mut self, none: NoPart) -> Result<(), Infallible> {
        match none {}
    }

    fn fate_for(&self, txn: TxnId, asked: Fate) -> Option<Fate> {
        match asked {
            Fate::Prepared { clock } if self.fate(txn).is_none() && self.bugs.newer_means_committed() => {
                let is_newer = self.position > 0 && self.clock.last() > clock;
                Some(if is_newer { Fate::Committed { clock } } else { Fate::Refused })
            }
            _ => self.fate(txn),
        }
    }

    fn is_newly_silent(&self, heard_before_ms: Option<u64>, heard_ms: u64) -> bool {
        heard_before_ms != Some(heard_ms)
            && !(self.bugs.looks_for_the_silent_once() && self.terminated() != (0, 0))
    }

    fn records_refusals(&self) -> bool {
        !self.bugs.promise_is_not_recorded()
    }
}
