//! State of a leader beside its log: messages that wait for entries, and when it last asked others about transactions. Each view begins with
//! an empty one.

use std::collections::BTreeMap;

use weir_core::ids::TxnId;
use weir_ordered::message::Party;
use weir_ordered::packet::{Index, View};

use super::super::faults::Faults;
use super::super::machine::Effects;
use super::Vr;

/// The leader's part of a server.
#[derive(Clone, Debug)]
pub struct Leader<M> {
    /// The view that the server leads, if it does.
    view: Option<View>,
    /// Messages that are sent once the entry is committed.
    held: BTreeMap<Index, Vec<(Party, M)>>,
    /// When each transaction came here, or others were last asked about it.
    asked_ms: BTreeMap<TxnId, u64>,
}

impl<M> Default for Leader<M> {
    fn default() -> Self {
        Leader { view: None, held: BTreeMap::new(), asked_ms: BTreeMap::new() }
    }
}

impl<M> Leader<M> {
    /// The view that the server leads, as of the last call of [`Leader::changes`].
    pub fn view(&self) -> Option<View> {
        self.view
    }

    /// Returns whether the server has begun or ended to lead a view since the last call. Then it has forgotten what it knew as a leader.
    pub fn changes<E: Clone, F: Faults>(&mut self, vr: &Vr<E, F>) -> bool {
        let view = vr.is_leader().then(|| vr.view());
        let has_changed = view != self.view;
        if has_changed {
            *self = Leader { view, ..Leader::default() };
        }
        has_changed
    }

    /// Sends what depends on the entry with that index once it is committed.
    pub fn tell<E: Clone, F: Faults>(
        &mut self,
        vr: &Vr<E, F>,
        index: Index,
        to: Party,
        message: M,
        out: &mut Effects<M>,
    ) {
        if index <= vr.commit() {
            out.send_after(to, message, vr.lsn_of(index));
        } else {
            self.held.entry(index).or_default().push((to, message));
        }
    }

    /// Sends what has waited for entries that are committed now.
    pub fn release<E: Clone, F: Faults>(&mut self, vr: &Vr<E, F>, out: &mut Effects<M>) {
        let still_held = self.held.split_off(&(vr.commit() + 1));
        for (index, messages) in std::mem::replace(&mut self.held, still_held) {
            for (to, message) in messages {
                out.send_after(to, message, vr.lsn_of(index));
            }
        }
    }

    /// Others were asked about the transaction then.
    pub fn note_asked(&mut self, txn: TxnId, asked_ms: u64) {
        self.asked_ms.insert(txn, asked_ms);
    }

    /// Returns whether others are to be asked about the transaction, since that was not done for so long. Then it counts as done now.
    pub fn is_due(&mut self, txn: TxnId, now_ms: u64, interval_ms: u64) -> bool {
        let asked_ms = self.asked_ms.entry(txn).or_insert(now_ms);
        let is_due = now_ms >= *asked_ms + interval_ms;
        if is_due {
            *asked_ms = now_ms;
        }
        is_due
    }

    /// Nothing will be asked about the transaction any more.
    pub fn forget(&mut self, txn: TxnId) {
        self.asked_ms.remove(&txn);
    }
}
