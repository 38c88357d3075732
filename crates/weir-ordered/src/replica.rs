//! A replica of a shard: keeps the log, and executes it if it is the designated learner of its view (eris.txt §6).

pub mod checkpoint;
mod drops;
mod epoch_change;
mod execution;
mod general;
mod join;
mod lock_index;
pub mod locks;
pub mod log;
mod lost_packets;
mod normal;
pub mod records;
mod state_transfer;
mod synchronization;
mod truncation;
mod view_change;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::TxnId;
use weir_core::lsn::Lsn;

use crate::application::Application;
use crate::cluster::{Cluster, ReplicaId};
use crate::faults::{Faults, NoFaults};
use crate::message::{Effects, Message, Party, SequencerId};
use crate::packet::{Epoch, Index, Packet, Sequence, View};
use checkpoint::Checkpoint;
use execution::Execution;
use general::AbortAt;
use log::Log;
use lost_packets::Wanted;
use records::{Durable, Record, Shared};
use state_transfer::{PendingStart, WantedState};

pub use drops::{Drops, Fate};

/// Messages that a replica sends.
pub type EffectsOf<A> =
    Effects<<A as Application>::Operation, <A as Application>::Answer, <A as Application>::Snapshot>;
/// Messages that a replica takes.
pub type MessageOf<A> =
    Message<<A as Application>::Operation, <A as Application>::Answer, <A as Application>::Snapshot>;

/// Records of a replica.
pub type RecordOf<A> =
    Record<<A as Application>::Operation, <A as Application>::Answer, <A as Application>::Snapshot>;
/// The durable state of a replica.
pub type DurableOf<A> =
    Durable<<A as Application>::Operation, <A as Application>::Answer, <A as Application>::Snapshot>;
/// Checkpoint of a shard.
pub type CheckpointOf<A> =
    Checkpoint<<A as Application>::Operation, <A as Application>::Answer, <A as Application>::Snapshot>;

/// Phase of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has begun with an empty disk, and makes no promise: earlier ones may be lost.
    Joining,
    /// It logs packets.
    Normal,
    /// It has promised to log nothing in older views, and waits for the start of its view.
    ViewChange,
    /// It has promised to do nothing in older epochs, and waits for the start of a new one.
    EpochChange,
}

/// A replica.
#[derive(Clone, Debug)]
pub struct Replica<A: Application, F: Faults = NoFaults> {
    id: ReplicaId,
    cluster: Cluster,
    faults: F,
    /// Number of the disk.
    disk: u64,
    durable: DurableOf<A>,
    /// Records that the driver has not taken yet.
    records: Vec<RecordOf<A>>,
    /// Position after the last record.
    noted: Lsn,
    execution: Execution<A>,
    /// Packets of the current epoch, or of the latest that the replica has heard of, which are not in the log: something before them is missing, or they wait for the
    /// failure coordinator.
    aside: BTreeMap<(Epoch, Sequence), Packet<A::Operation>>,
    /// The slots that are missing, if any are.
    wanted: Option<Wanted>,
    /// Peers have been asked for what is missing up to this packet, by its epoch.
    heard: (Epoch, Sequence),
    /// Up to this index no replica of any shard needs an entry of the log: it can have a checkpoint.
    stable: Index,
    /// Latest epoch that the replica has heard of.
    epoch_seen: Epoch,
    epoch_asked_ms: Option<u64>,
    /// States of peers for the view that the replica changes to.
    view_changes: BTreeMap<u16, Shared<A::Operation>>,
    /// When the replica last heard from its learner; in a view change, when that began.
    heard_ms: u64,
    view_change_sent_ms: Option<u64>,
    /// Views that this replica has begun to change to since it last synchronized something.
    views_begun: u32,
    /// When the learner last synchronized.
    synchronized_ms: Option<u64>,
    /// Up to which index each follower's log is that of this learner, as far as it has acknowledged.
    acknowledged: BTreeMap<u16, Index>,
    /// Up to this index the log is that of the learner of the current view.
    aligned: Index,
    /// End of the longest log in the view, as far as the replica has heard: of logs, and of packets that were stamped.
    longest_end: Index,
    /// A majority has the log up to this index, and this replica has what they have. It is not before the durable one.
    synchronized: Index,
    join_asked_ms: Option<u64>,
    /// When the replica last told the failure coordinator what is synchronized.
    reported_ms: Option<u64>,
    /// The state that the replica lacks, if it lacks one.
    wanted_state: Option<WantedState>,
    /// The start of the epoch for which that state is.
    pending_start: Option<PendingStart<A::Operation>>,
    /// The sequencer of the current epoch, as far as the replica has heard of it.
    sequencer: Option<SequencerId>,
    /// When each general transaction is aborted next, apart for those that hold locks and those that wait.
    abort_at_ms: BTreeMap<(TxnId, bool), AbortAt>,
    /// Up to this index the learner has asked its followers in this view what they have.
    prepared: Index,
    /// What the learner has asked, in this view, about entries that this follower lacked then: up to where.
    asked_for: Option<(View, Index)>,
}

impl<A: Application, F: Faults> Replica<A, F> {
    /// A replica with the records that were durable when it stopped; none for a new one, and for one that has lost them. `application`: its
    /// state before the first entry. `start`: not 0, and later than those of earlier starts of this replica.
    pub fn new(
        now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        faults: F,
        application: A,
        (start, records): (u64, &[RecordOf<A>]),
    ) -> Self {
        let mut durable = Durable::default();
        let is_kept =
            |record: &&RecordOf<A>| !faults.forgets_promises() || !matches!(record, Record::Promised(_));
        records.iter().filter(is_kept).for_each(|record| durable.apply(record));
        let start = if faults.votes_at_once() { 1 } else { start };
        let mut replica = Replica {
            id,
            disk: if durable.disk > 0 { durable.disk } else { start },
            cluster,
            faults,
            aligned: durable.view_start.max(durable.synchronized),
            synchronized: durable.synchronized,
            durable,
            records: Vec::new(),
            noted: Lsn::START,
            execution: Execution::new(application),
            aside: BTreeMap::new(),
            wanted: None,
            heard: (0, 0),
            stable: 0,
            epoch_seen: 0,
            epoch_asked_ms: None,
            view_changes: BTreeMap::new(),
            heard_ms: now_ms,
            view_change_sent_ms: None,
            views_begun: 0,
            synchronized_ms: None,
            acknowledged: BTreeMap::new(),
            longest_end: 0,
            join_asked_ms: None,
            reported_ms: None,
            wanted_state: None,
            pending_start: None,
            sequencer: None,
            abort_at_ms: BTreeMap::new(),
            prepared: 0,
            asked_for: None,
        };
        if let Some(checkpoint) = &replica.durable.checkpoint {
            replica.execution.restore(checkpoint);
        }
        replica.execute();
        replica
    }

    pub fn id(&self) -> ReplicaId {
        self.id
    }

    pub fn epoch(&self) -> Epoch {
        self.durable.epoch
    }

    pub fn view(&self) -> View {
        self.durable.view
    }

    pub fn log(&self) -> &Log<A::Operation> {
        &self.durable.shared.log
    }

    pub fn drops(&self) -> &Drops {
        &self.durable.shared.drops
    }

    /// Up to this index a majority of the shard is known to have the same log.
    pub fn synchronized(&self) -> Index {
        self.synchronized
    }

    /// Clients in the client table.
    pub fn clients(&self) -> usize {
        self.execution.clients()
    }

    /// General transactions that hold locks, and transactions that wait for them.
    pub fn locked(&self) -> (usize, usize) {
        let locks = self.execution.locks();
        (locks.held().count(), locks.waiting())
    }

    /// Packets that are kept aside.
    pub fn aside(&self) -> usize {
        self.aside.len()
    }

    pub fn executed(&self) -> Index {
        self.execution.executed()
    }

    pub fn application(&self) -> &A {
        self.execution.application()
    }

    /// For bookkeeping of the application that executes nothing.
    pub fn application_mut(&mut self) -> &mut A {
        self.execution.application_mut()
    }

    pub fn status(&self) -> Status {
        let Durable { epoch, epoch_promised, is_view_started, is_joined, .. } = self.durable;
        if !is_joined {
            Status::Joining
        } else if epoch_promised > epoch && !self.faults.ignores_epoch_promise() {
            Status::EpochChange
        } else if is_view_started {
            Status::Normal
        } else {
            Status::ViewChange
        }
    }

    pub fn is_learner(&self) -> bool {
        self.cluster.learner(self.id.shard, self.durable.view) == self.id
    }

    /// Takes the records of the steps since the last call, in order.
    pub fn take_records(&mut self) -> Vec<RecordOf<A>> {
        std::mem::take(&mut self.records)
    }

    /// The whole durable state as a record, before which a driver needs no others. It copies the state of the application if the log has
    /// forgotten entries since the last checkpoint.
    pub fn snapshot(&self) -> RecordOf<A> {
        let mut durable = self.durable.clone();
        if durable.log_begins_behind_checkpoint() {
            durable.checkpoint = Some(Arc::new(self.new_checkpoint()));
            durable.synchronized = self.synchronized;
        }
        Record::State(Box::new(durable))
    }

    /// Notes that record.
    pub fn note_snapshot(&mut self) {
        let snapshot = self.snapshot();
        self.note(snapshot);
    }

    /// Takes one message and runs it to completion.
    pub fn step(&mut self, now_ms: u64, from: Party, message: MessageOf<A>, out: &mut EffectsOf<A>) {
        match (from, message) {
            (Party::Sequencer(_), Message::Packet(packet)) => self.on_packet(packet, out),
            (Party::Sequencer(sequencer), Message::SequencerAlive { epoch, counters, .. }) => {
                self.note_sequencer(epoch, sequencer);
                self.on_counters(epoch, &counters);
            }
            (Party::Client(client), Message::Reconnaissance { number, operation }) => {
                self.on_reconnaissance(client, (number, &operation), out);
            }
            (Party::FailureCoordinator, message) => self.on_decision(now_ms, message, out),
            (Party::Replica(from), message) if from.shard == self.id.shard => {
                self.on_peer(now_ms, from, message, out);
            }
            _ => {}
        }
    }

    /// Called every few milliseconds.
    pub fn on_timer(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        match self.status() {
            Status::Normal => {
                self.look_for_missing(now_ms, out);
                self.synchronize(now_ms, out);
                self.suspect_learner(now_ms, out);
                self.report_synchronized(now_ms, out);
                self.abort_abandoned(now_ms, out);
            }
            Status::ViewChange => self.repeat_view_change(now_ms, out),
            Status::EpochChange => {}
            Status::Joining => self.ask_to_join(now_ms, out),
        }
        self.ask_for_epoch(now_ms, out);
        self.ask_for_state(now_ms, out);
    }

    fn on_peer(&mut self, now_ms: u64, from: ReplicaId, message: MessageOf<A>, out: &mut EffectsOf<A>) {
        match message {
            Message::SlotRequest { slot } => self.on_slot_request(from, slot, out),
            Message::SlotFound(packet) => self.on_packet(packet, out),
            Message::SlotDropped { slot } => self.on_dropped(now_ms, slot, out),
            Message::ViewChange { epoch, view, state } if self.is_current(epoch) => {
                self.on_view_change(now_ms, from, view, *state, out);
            }
            Message::StartView { epoch, view, state } if self.is_current(epoch) => {
                self.on_start_view(now_ms, view, *state, out);
            }
            Message::SyncPrepare { epoch, view, index, no_ops, complete_from } if self.is_current(epoch) => {
                self.on_sync_prepare(now_ms, from, (view, index), (&no_ops, complete_from), out);
            }
            Message::SyncAck { epoch, view, index, end } if self.is_current(epoch) => {
                self.on_sync_ack(from, view, (index, end), out);
            }
            Message::SyncCommit { epoch, view, index } if self.is_current(epoch) => {
                self.on_sync_commit(view, index);
            }
            Message::Truncated { epoch, index } if self.is_current(epoch) => self.on_truncated(index),
            Message::StateRequest { index } => self.on_state_request(from, index, out),
            Message::State { epoch, checkpoint, log } => {
                self.on_state(now_ms, epoch, (checkpoint, log), out);
            }
            _ => {}
        }
    }

    fn on_decision(&mut self, now_ms: u64, message: MessageOf<A>, out: &mut EffectsOf<A>) {
        match message {
            Message::TxnRequest { slot } => self.on_txn_request(slot, out),
            Message::TxnFound(packet) => self.on_found(now_ms, packet, out),
            Message::TxnDropped { slot } => self.on_dropped(now_ms, slot, out),
            Message::EpochStateRequest { epoch } => self.on_epoch_state_request(epoch, out),
            Message::Behind { disk, index } => self.on_behind(disk, index),
            Message::Joined { disk, epoch } => self.on_joined(disk, epoch),
            Message::Stable { epoch, cut } => self.on_stable(epoch, &cut),
            Message::StartEpoch { epoch, view, log } => self.on_start_epoch(now_ms, (epoch, view), log, out),
            _ => {}
        }
    }

    /// Returns whether the replica takes messages of that epoch.
    fn is_current(&mut self, epoch: Epoch) -> bool {
        self.epoch_seen = self.epoch_seen.max(epoch);
        let takes_part = matches!(self.status(), Status::Normal | Status::ViewChange);
        epoch == self.durable.epoch && takes_part
    }

    fn peers(&self) -> impl Iterator<Item = ReplicaId> + use<A, F> {
        let own = self.id;
        self.cluster.group(own.shard).filter(move |peer| *peer != own)
    }

    /// Changes the durable state. If that changes entries that are executed, their execution is undone.
    fn note(&mut self, record: RecordOf<A>) {
        let unchanged = self.durable.unchanged_by(&record);
        if !self.faults.keeps_executed() {
            self.execution.roll_back(unchanged);
        }
        self.durable.apply(&record);
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }

    /// Executes what may be executed: the whole log at the learner, what is synchronized at others.
    fn execute(&mut self) {
        let log = &self.durable.shared.log;
        let is_learner = self.is_learner() && self.status() == Status::Normal;
        let up_to = if is_learner { log.end() } else { self.synchronized };
        while let Some(entry) = log.get(self.execution.executed() + 1)
            && self.execution.executed() < up_to
        {
            self.execution.execute(entry, self.faults);
        }
    }
}
