//! Replicas that join: for the first time, or again with an empty disk.

use serde::{Deserialize, Serialize};

use crate::cluster::ReplicaId;
use crate::failure_coordinator::{FailureCoordinator, Record};
use crate::faults::CoordinatorFaults;
use crate::message::{Effects, Message, Party};
use crate::packet::{Epoch, Index};

/// A replica as it has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Number of the disk: a later one means that the records of the last are lost.
    pub disk: u64,
    /// The first epoch in which this disk takes part.
    pub epoch: Epoch,
}

impl<O: Clone, F: CoordinatorFaults> FailureCoordinator<O, F> {
    /// A replica that has never joined has promised nothing, and takes part at once. One that comes back with an empty disk takes part in the
    /// next epoch, which begins once it has filled its disk.
    pub(super) fn on_join_request<R: Clone, S: Clone>(
        &mut self,
        from: ReplicaId,
        (disk, synchronized): (u64, Index),
        out: &mut Effects<O, R, S>,
    ) {
        let known = self.durable.members.get(&from).copied();
        let base = self.durable.starts.get(&from.shard).map_or(0, |start| start.log.base());
        if known.is_none() {
            let epoch = self.durable.epoch;
            self.note(Record::Joined(from, Member { disk, epoch }));
        } else if known.is_some_and(|member| member.disk < disk) {
            if synchronized < base {
                out.send(Party::Replica(from), Message::Behind { disk, index: base });
                return;
            }
            let epoch = self.durable.epoch_begun + 1;
            self.begin_epoch(Record::Joined(from, Member { disk, epoch }));
        }
        if let Some(Member { epoch, .. }) =
            self.durable.members.get(&from).filter(|member| member.disk == disk)
        {
            let joined = Message::Joined { disk, epoch: *epoch };
            out.send_after(Party::Replica(from), joined, self.noted);
        }
    }

    /// Returns whether the state of a replica counts for the start of the next epoch: one that has come back since lacks what it had.
    pub(super) fn counts_state(&self, replica: ReplicaId) -> bool {
        let member = self.durable.members.get(&replica);
        self.faults.counts_empty_disks() || member.is_some_and(|member| member.epoch <= self.durable.epoch)
    }
}
