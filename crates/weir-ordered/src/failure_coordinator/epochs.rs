//! Epochs: a sequencer is suspected, the states of majorities become the start of a new epoch, and another sequencer is chosen
//! (eris.txt §6.5).

use std::collections::BTreeMap;

use weir_core::ids::ShardId;

use crate::cluster::ReplicaId;
use crate::failure_coordinator::truncation::Synchronized;
use crate::failure_coordinator::{FailureCoordinator, Record, ReplicaState, Start};
use crate::faults::CoordinatorFaults;
use crate::message::{Effects, Message, Party, Registration, SequencerId};
use crate::packet::{Cut, Epoch, Packet, Sequence, Slot};
use crate::replica::log::{Entry, Log};

impl<O: Clone, F: CoordinatorFaults> FailureCoordinator<O, F> {
    pub(super) fn on_sequencer_alive<R: Clone, S: Clone>(
        &mut self,
        now_ms: u64,
        from: SequencerId,
        (epoch, counters, client_floor): (Epoch, Cut, Registration),
        out: &mut Effects<O, R, S>,
    ) {
        self.heard_ms.insert(from, now_ms);
        let is_behind = epoch < self.durable.epoch || client_floor < self.durable.client_floor;
        if self.durable.sequencer == Some(from) && is_behind {
            self.tell_sequencer(Party::Sequencer(from), out);
        }
        if self.durable.sequencer == Some(from) && self.decides(epoch) {
            self.on_counters(counters);
        }
    }

    pub(super) fn tell_sequencer<R: Clone, S: Clone>(&self, to: Party, out: &mut Effects<O, R, S>) {
        if let Some(sequencer) = self.durable.sequencer {
            let message = Message::NewSequencer {
                epoch: self.durable.epoch,
                sequencer,
                client_floor: self.durable.client_floor,
            };
            out.send_after(to, message, self.noted);
        }
    }

    /// Begins the next epoch if the sequencer is silent and there is another one. The first epoch begins with the first sequencer.
    pub(super) fn suspect_sequencer(&mut self, now_ms: u64) {
        let silent_ms = self.cluster.timeouts.sequencer_ms;
        self.heard_ms.retain(|_, heard_ms| now_ms < *heard_ms + silent_ms);
        let is_first = self.durable.epoch == 0;
        let is_suspected = self.durable.sequencer.is_some_and(|sequencer| {
            !self.heard_ms.contains_key(&sequencer) && now_ms >= self.chosen_ms + silent_ms
        });
        if !self.is_changing_epoch() && !self.heard_ms.is_empty() && (is_first || is_suspected) {
            self.begin_epoch(Record::EpochBegun(self.durable.epoch + 1));
        }
    }

    /// Begins an epoch by that record. Nothing more is decided in earlier ones.
    pub(super) fn begin_epoch(&mut self, record: Record<O>) {
        self.note(record);
        self.asking.clear();
        self.states.clear();
        // Replicas are asked for their states at the next call of the timer.
        self.repeated_ms = 0;
    }

    /// Gives the epoch a sequencer, once the epoch has started at a majority of each shard.
    pub(super) fn choose_sequencer<R: Clone, S: Clone>(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        let is_chosen = self.durable.epoch == 0 || self.durable.sequencer.is_some();
        if self.is_changing_epoch() || is_chosen || !self.has_started() {
            return;
        }
        let latest = self.heard_ms.iter().max_by_key(|(_, heard_ms)| **heard_ms);
        if let Some((&sequencer, _)) = latest {
            self.note(Record::SequencerChosen(self.durable.epoch, sequencer));
            self.chosen_ms = now_ms;
            self.tell_sequencer(Party::Sequencer(sequencer), out);
        }
    }

    fn has_started(&self) -> bool {
        let started = |shard| self.started.iter().filter(|replica| replica.shard == shard).count();
        (0..self.cluster.shards).all(|shard| started(shard) >= self.cluster.majority())
    }

    /// Asks for missing states, or repeats the start until each shard has a majority that has it.
    pub(super) fn repeat_epoch<R: Clone, S: Clone>(&self, out: &mut Effects<O, R, S>) {
        if self.is_changing_epoch() {
            let missing = self.cluster.all_replicas().filter(|replica| !self.states.contains_key(replica));
            let epoch = self.durable.epoch_begun;
            out.send_to_all(missing, &Message::EpochStateRequest { epoch }, self.noted);
        } else if !self.has_started() {
            let missing = self.cluster.all_replicas().filter(|replica| !self.started.contains(replica));
            missing.for_each(|replica| self.send_start(replica, out));
        }
    }

    pub(super) fn send_start<R: Clone, S: Clone>(&self, to: ReplicaId, out: &mut Effects<O, R, S>) {
        if let Some(Start { view, log }) = self.durable.starts.get(&to.shard) {
            let message = Message::StartEpoch { epoch: self.durable.epoch, view: *view, log: log.clone() };
            out.send_after(Party::Replica(to), message, self.noted);
        }
    }

    /// Decides the start of the epoch once a majority of each shard has promised to do nothing in earlier ones.
    pub(super) fn on_epoch_state<R: Clone, S: Clone>(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        state: ReplicaState<O>,
        out: &mut Effects<O, R, S>,
    ) {
        if !self.is_changing_epoch() || !self.counts_state(from) {
            return;
        }
        self.states.insert(from, state);
        let states = |shard| self.states.keys().filter(|replica| replica.shard == shard).count();
        if (0..self.cluster.shards).all(|shard| states(shard) >= self.cluster.majority()) {
            let starts = self.starts();
            self.note(Record::EpochDecided(self.durable.epoch_begun, starts));
            self.states.clear();
            self.synchronized = Synchronized::default();
            self.next_cut = None;
            self.started.clear();
            self.repeated_ms = now_ms;
            self.cluster.all_replicas().for_each(|replica| self.send_start(replica, out));
        }
    }

    /// States of the latest epoch that was decided. Where a majority of a shard has older ones, nothing was committed there in that epoch.
    fn latest_states(&self) -> impl Iterator<Item = (ReplicaId, &ReplicaState<O>)> {
        let is_latest = |state: &ReplicaState<O>| state.started == self.durable.epoch;
        self.states.iter().map(|(id, state)| (*id, state)).filter(move |(_, state)| is_latest(state))
    }

    /// Start of the next epoch by shard: what is left of the start of this one, or the stable cut, then every packet that any replica of any
    /// shard has for its slots.
    fn starts(&self) -> BTreeMap<ShardId, Start<O>> {
        let packets = self.packets();
        (0..self.cluster.shards).map(|shard| (shard, self.start(shard, &packets))).collect()
    }

    /// Packets that any replica has, by each of their slots, without those that are dropped.
    fn packets(&self) -> BTreeMap<Slot, &Packet<O>> {
        let packets = self
            .latest_states()
            .flat_map(|(_, state)| state.log.behind(0).filter_map(|(_, entry)| entry.packet()));
        let is_dropped =
            |packet: &Packet<O>| packet.stamp.slots().any(|slot| self.durable.dropped.contains(&slot));
        let packets = packets.filter(|packet| !is_dropped(packet));
        packets.flat_map(|packet| packet.stamp.slots().map(move |slot| (slot, packet))).collect()
    }

    fn start(&self, shard: ShardId, packets: &BTreeMap<Slot, &Packet<O>>) -> Start<O> {
        let epoch = self.durable.epoch;
        let before = self.durable.starts.get(&shard);
        let mut log = before.map_or_else(Log::default, |start| start.log.clone());
        let mut view = before.map_or(0, |start| start.view);
        let slot = |sequence: Sequence| Slot { epoch, shard, sequence };
        let known = packets.range(slot(0)..=slot(Sequence::MAX)).next_back();
        let mut last = known.map_or(0, |(slot, _)| slot.sequence);
        for (_, state) in self.latest_states().filter(|(replica, _)| replica.shard == shard) {
            view = view.max(state.view);
            last = last.max(state.log.next_sequence() - 1);
        }
        for sequence in log.next_sequence()..=last {
            let is_told = !self.faults.starts_shards_apart() || self.has_logged(shard, sequence);
            let packet = packets.get(&slot(sequence)).filter(|_| is_told);
            log.push(packet.map_or(Entry::NoOp, |packet| Entry::Packet((*packet).clone())));
        }
        log.begin_epoch();
        Start { view, log }
    }

    /// Returns whether a replica of the shard has a packet at that place.
    fn has_logged(&self, shard: ShardId, sequence: Sequence) -> bool {
        let mut states = self.latest_states().filter(|(replica, _)| replica.shard == shard);
        let has = |log: &Log<O>| log.get(log.index_of(sequence)).and_then(Entry::packet).is_some();
        states.any(|(_, state)| has(&state.log))
    }
}
