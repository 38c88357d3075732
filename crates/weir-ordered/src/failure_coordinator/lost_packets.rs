//! Lost packets: found with any replica that has them, or dropped with the promises of all shards (eris.txt §6.3).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::ShardId;
use weir_core::lsn::Lsn;

use crate::cluster::ReplicaId;
use crate::failure_coordinator::{FailureCoordinator, Record};
use crate::faults::CoordinatorFaults;
use crate::message::{Effects, Message, Party};
use crate::packet::{Packet, Slot, View};

/// Replicas that have promised to log no packet with a slot, by shard and by the view of the promise.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises(BTreeMap<(ShardId, View), BTreeSet<u16>>);

impl<O: Clone, F: CoordinatorFaults> FailureCoordinator<O, F> {
    /// Tells the decision, or asks all replicas of all shards: nobody knows who else was to have the packet.
    pub(super) fn on_find_txn<R: Clone, S: Clone>(
        &mut self,
        from: ReplicaId,
        slot: Slot,
        out: &mut Effects<O, R, S>,
    ) {
        if self.durable.stable.covers(slot) {
            self.tell_stable(from, out);
        } else if let Some(packet) = self.durable.found.get(&slot) {
            out.send_after(Party::Replica(from), Message::TxnFound(packet.clone()), self.decided());
        } else if self.durable.dropped.contains(&slot) {
            out.send_after(Party::Replica(from), Message::TxnDropped { slot }, self.decided());
        } else if let Entry::Vacant(vacant) = self.asking.entry(slot) {
            vacant.insert(Promises::default());
            out.send_to_all(self.cluster.all_replicas(), &Message::TxnRequest { slot }, Lsn::START);
        }
    }

    pub(super) fn repeat_requests<R: Clone, S: Clone>(&self, out: &mut Effects<O, R, S>) {
        for &slot in self.asking.keys() {
            out.send_to_all(self.cluster.all_replicas(), &Message::TxnRequest { slot }, Lsn::START);
        }
    }

    /// Some replica has the packet. If any of its slots is dropped, no participant may log it, so all its slots are dropped.
    pub(super) fn on_has_txn<R: Clone, S: Clone>(
        &mut self,
        from: ReplicaId,
        packet: Packet<O>,
        out: &mut Effects<O, R, S>,
    ) {
        if packet.stamp.slots().any(|slot| self.durable.stable.covers(slot)) {
            self.tell_stable(from, out);
            return;
        }
        if packet.stamp.slots().any(|slot| self.durable.dropped.contains(&slot)) {
            for slot in packet.stamp.slots() {
                self.drop_slot(slot, out);
                out.send_after(Party::Replica(from), Message::TxnDropped { slot }, self.decided());
            }
            return;
        }
        if packet.stamp.slots().any(|slot| !self.durable.found.contains_key(&slot)) {
            self.note(Record::Found(packet.clone()));
        }
        for slot in packet.stamp.slots() {
            self.asking.remove(&slot);
            let group = self.cluster.group(slot.shard);
            out.send_to_all(group, &Message::TxnFound(packet.clone()), self.decided());
        }
    }

    /// A replica has promised. With a view-consistent quorum of promises of every shard, no shard has committed the packet, and none will.
    pub(super) fn on_temp_dropped<R: Clone, S: Clone>(
        &mut self,
        from: ReplicaId,
        slot: Slot,
        view: View,
        out: &mut Effects<O, R, S>,
    ) {
        let Some(promises) = self.asking.get_mut(&slot) else { return };
        promises.0.entry((from.shard, view)).or_default().insert(from.number);
        let (cluster, faults) = (self.cluster, self.faults);
        let is_quorum = |view: View, numbers: &BTreeSet<u16>| {
            let is_majority = numbers.len() >= cluster.majority();
            cluster.is_quorum(view, numbers.iter().copied()) || faults.drops_without_learner() && is_majority
        };
        let has_promised = |shard: ShardId| {
            let mut views = promises.0.range((shard, 0)..=(shard, View::MAX));
            views.any(|(&(_, view), numbers)| is_quorum(view, numbers))
        };
        let mut asked = (0..cluster.shards).filter(|shard| *shard == slot.shard || !faults.asks_one_shard());
        if asked.all(has_promised) {
            self.drop_slot(slot, out);
        }
    }

    /// Drops a slot for good, unless that is done.
    fn drop_slot<R: Clone, S: Clone>(&mut self, slot: Slot, out: &mut Effects<O, R, S>) {
        self.asking.remove(&slot);
        if !self.durable.dropped.contains(&slot) {
            self.note(Record::Dropped(slot));
            out.send_to_all(self.cluster.all_replicas(), &Message::TxnDropped { slot }, self.decided());
        }
    }
}
