//! The lock table: which general transactions hold locks at this shard, and which transactions wait for them (eris.txt §7.1).
//!
//! It is a part of the executed state: a function of the log up to an index. It executes nothing itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::TxnId;

use crate::faults::Faults;
use crate::footprint::Footprint;
use crate::packet::{Index, Part, Transaction};
use crate::replica::lock_index::LockIndex;

/// A transaction and what it locks, or would lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim<O> {
    pub transaction: Arc<Transaction<O>>,
    pub footprint: Footprint,
}

/// The lock table of a shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Claims<O>", bound(deserialize = "O: Deserialize<'de>"))]
pub struct Locks<O> {
    /// General transactions whose preliminary part is executed here, and that are not concluded.
    held: BTreeMap<TxnId, Claim<O>>,
    /// Transactions that wait, by the index of their entries. Each conflicts with one that holds locks, or with one before it here; a
    /// conclusory part waits for its preliminary part.
    waiting: BTreeMap<Index, Claim<O>>,
    /// The footprints of `held`.
    #[serde(skip)]
    index: LockIndex,
}

/// The lock table in a message or a record.
#[derive(Deserialize)]
struct Claims<O> {
    held: BTreeMap<TxnId, Claim<O>>,
    waiting: BTreeMap<Index, Claim<O>>,
}

impl<O> From<Claims<O>> for Locks<O> {
    fn from(Claims { held, waiting }: Claims<O>) -> Locks<O> {
        let mut index = LockIndex::default();
        held.values().for_each(|claim| index.add(&claim.footprint));
        Locks { held, waiting, index }
    }
}

/// A change of the lock table, as it is undone.
#[derive(Clone, Debug)]
pub enum Undo<O> {
    Taken(TxnId),
    LetGo(Claim<O>),
    Queued(Index),
    Resumed(Index, Claim<O>),
}

impl<O> Default for Locks<O> {
    fn default() -> Self {
        Locks { held: BTreeMap::new(), waiting: BTreeMap::new(), index: LockIndex::default() }
    }
}

impl<O> Locks<O> {
    /// Returns whether nothing is held and nothing waits.
    pub fn is_free(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// The preliminary parts of general transactions that hold locks.
    pub fn held(&self) -> impl Iterator<Item = &Arc<Transaction<O>>> {
        self.held.values().map(|claim| &claim.transaction)
    }

    /// The preliminary parts that wait.
    pub fn waiting_preliminaries(&self) -> impl Iterator<Item = &Arc<Transaction<O>>> {
        let waiting = self.waiting.values().map(|claim| &claim.transaction);
        waiting.filter(|transaction| transaction.part == Part::Preliminary)
    }

    /// How many transactions wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Claims that hold locks or wait, with the index of those that wait.
    pub fn claims(&self) -> impl Iterator<Item = (Option<Index>, &Claim<O>)> {
        let held = self.held.values().map(|claim| (None, claim));
        held.chain(self.waiting.iter().map(|(index, claim)| (Some(*index), claim)))
    }

    /// Returns whether a transaction must wait behind what holds locks and what waits before that index.
    pub fn must_wait(
        &self,
        (transaction, footprint): (&Transaction<O>, &Footprint),
        before: Index,
        faults: impl Faults,
    ) -> bool {
        let mut ahead = self.waiting.range(..before).map(|(_, ahead)| ahead);
        match transaction.part {
            Part::Independent | Part::Preliminary => {
                let meets = |other: &Claim<O>| footprint.conflicts_with(&other.footprint);
                let passes = faults.passes_locks() && transaction.part == Part::Independent;
                let meets_held = || {
                    let said = self.index.conflicts_with(footprint);
                    said.unwrap_or_else(|| self.held.values().any(meets))
                };
                !passes && meets_held() || !faults.passes_waiting() && ahead.any(meets)
            }
            Part::Conclusory { .. } => {
                let general = transaction.general();
                let is_preliminary = |ahead: &Claim<O>| ahead.transaction.part == Part::Preliminary;
                ahead.any(|ahead| is_preliminary(ahead) && ahead.transaction.general() == general)
            }
            Part::ReplicaAbort => false,
        }
    }

    /// The first transaction that waits and need not any more, with its index.
    pub fn first_free(&self, faults: impl Faults) -> Option<Index> {
        self.waiting
            .iter()
            .find(|(index, claim)| !self.must_wait((&claim.transaction, &claim.footprint), **index, faults))
            .map(|(index, _)| *index)
    }

    /// Returns whether the transaction with that id has a preliminary part here that is executed and not concluded, or waits.
    pub fn has(&self, general: TxnId) -> bool {
        let is_waiting =
            |claim: &Claim<O>| claim.transaction.part == Part::Preliminary && claim.transaction.id == general;
        self.held.contains_key(&general) || self.waiting.values().any(is_waiting)
    }

    /// A preliminary part is executed.
    pub fn take(&mut self, claim: Claim<O>) -> Undo<O> {
        let id = claim.transaction.id;
        self.hold(claim);
        Undo::Taken(id)
    }

    fn hold(&mut self, claim: Claim<O>) {
        self.index.add(&claim.footprint);
        let before = self.held.insert(claim.transaction.id, claim);
        assert!(before.is_none(), "a preliminary part is executed once");
    }

    fn release(&mut self, general: TxnId) -> Option<Claim<O>> {
        let claim = self.held.remove(&general)?;
        self.index.remove(&claim.footprint);
        Some(claim)
    }

    /// A general transaction ends with that part. None: it holds no locks here, or it has other participants, and so is not the one that
    /// the part can end everywhere.
    pub fn let_go(&mut self, last: &Transaction<O>) -> Option<Undo<O>> {
        let general = last.general()?;
        let Entry::Occupied(held) = self.held.entry(general) else { return None };
        if held.get().transaction.destinations != last.destinations {
            return None;
        }
        let claim = held.remove();
        self.index.remove(&claim.footprint);
        Some(Undo::LetGo(claim))
    }

    /// A replica aborts a general transaction whose preliminary part waits. It never will be executed here. None: no such part waits, or a
    /// conclusory part waits behind it, which came first and so decides.
    pub fn withdraw(&mut self, abort: &Transaction<O>) -> Option<(Index, Claim<O>)> {
        let mut parts =
            self.waiting.iter().filter(|(_, claim)| claim.transaction.general() == abort.general());
        let (index, first) = parts.next()?;
        let is_one = first.transaction.part == Part::Preliminary
            && first.transaction.destinations == abort.destinations
            && parts.next().is_none();
        let index = *index;
        is_one.then(|| self.waiting.remove(&index)).flatten().map(|claim| (index, claim))
    }

    /// The transaction of the entry with that index waits.
    pub fn queue(&mut self, index: Index, claim: Claim<O>) -> Undo<O> {
        self.waiting.insert(index, claim);
        Undo::Queued(index)
    }

    /// The transaction of the entry with that index waits no longer.
    pub fn resume(&mut self, index: Index) -> Option<Claim<O>> {
        self.waiting.remove(&index)
    }

    pub fn undo(&mut self, undo: Undo<O>) {
        match undo {
            Undo::Taken(general) => drop(self.release(general)),
            Undo::LetGo(claim) => self.hold(claim),
            Undo::Queued(index) => drop(self.waiting.remove(&index)),
            Undo::Resumed(index, claim) => drop(self.waiting.insert(index, claim)),
        }
    }
}
