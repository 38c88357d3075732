//! The sequencer: gives packets their places in the orders of all their shards at once (eris.txt §5.3).
//!
//! Its state is soft. A sequencer that starts anew has no epoch, and stamps nothing until the failure coordinator gives it one.

use std::sync::Arc;

use weir_core::lsn::Lsn;

use crate::cluster::Cluster;
use crate::message::{Effects, Message, Party, Registration, SequencerId};
use crate::packet::{Cut, Epoch, Packet, Part, Stamp, Transaction};

/// The sequencer's answer to a submitted transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamped {
    /// It goes with this stamp to all replicas of its destinations; with the floor of registrations.
    Packet(Stamp, Registration),
    /// Its client was thought gone.
    Retired,
    /// The sequencer has no epoch yet.
    Nothing,
}

/// A sequencer.
#[derive(Clone, Debug)]
pub struct Sequencer {
    id: SequencerId,
    cluster: Cluster,
    /// 0: none yet.
    epoch: Epoch,
    /// Sequence of the last packet of the epoch for each shard.
    counters: Cut,
    /// Clients with lower registrations are gone.
    client_floor: Registration,
    alive_sent_ms: u64,
}

impl Sequencer {
    /// `id`: of this start; no other start ever has it.
    pub fn new(id: SequencerId, cluster: Cluster) -> Sequencer {
        Sequencer { id, cluster, epoch: 0, counters: Cut::default(), client_floor: 0, alive_sent_ms: 0 }
    }

    pub fn step<O: Clone, R: Clone, S: Clone>(
        &mut self,
        message: Message<O, R, S>,
        out: &mut Effects<O, R, S>,
    ) {
        match message {
            Message::Submit(transaction) => self.on_submit(transaction, out),
            Message::NewSequencer { epoch, sequencer, client_floor } if sequencer == self.id => {
                self.on_new_sequencer(epoch, client_floor);
            }
            _ => {}
        }
    }

    pub fn on_timer<O: Clone, R: Clone, S: Clone>(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        if now_ms >= self.alive_sent_ms + self.cluster.timeouts.synchronize_ms {
            self.alive_sent_ms = now_ms;
            let (epoch, counters, client_floor) = (self.epoch, self.counters.clone(), self.client_floor);
            let alive = Message::SequencerAlive { epoch, counters, client_floor };
            if epoch > 0 {
                out.send_to_all(self.cluster.all_replicas(), &alive, Lsn::START);
            }
            out.send(Party::FailureCoordinator, alive);
        }
    }

    fn on_submit<O: Clone, R: Clone, S: Clone>(
        &mut self,
        transaction: Arc<Transaction<O>>,
        out: &mut Effects<O, R, S>,
    ) {
        let registration = transaction.registration;
        match self.stamp(&transaction) {
            Stamped::Packet(stamp, client_floor) => {
                let packet = Packet { stamp, client_floor, transaction: transaction.clone() };
                let message = Message::Packet(packet);
                for &shard in &transaction.destinations {
                    out.send_to_all(self.cluster.group(shard), &message, Lsn::START);
                }
            }
            Stamped::Retired => {
                let client = Party::Client(transaction.id.coordinator);
                out.send(client, Message::Retired { registration });
            }
            Stamped::Nothing => {}
        }
    }

    /// Gives a submitted transaction its places. Its operation does not matter.
    pub fn stamp<O>(&mut self, transaction: &Transaction<O>) -> Stamped {
        if self.epoch == 0 {
            return Stamped::Nothing;
        }
        if transaction.registration < self.client_floor && transaction.part != Part::ReplicaAbort {
            return Stamped::Retired;
        }
        let destinations = transaction.destinations.iter();
        let sequences = destinations.map(|&shard| (shard, self.counters.next(shard))).collect();
        Stamped::Packet(Stamp { epoch: self.epoch, sequences }, self.client_floor)
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Begins an epoch. A repetition of the message must not reset the counters.
    fn on_new_sequencer(&mut self, epoch: Epoch, client_floor: Registration) {
        self.client_floor = self.client_floor.max(client_floor);
        if epoch > self.epoch {
            self.epoch = epoch;
            self.counters = Cut::default();
        }
    }
}
