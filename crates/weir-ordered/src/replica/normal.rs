//! The normal case: packets are logged in the order of their sequences, and answered (eris.txt §6.2).

use crate::application::Application;
use crate::faults::Faults;
use crate::message::{Message, Party, Reply};
use crate::packet::{Cut, Epoch, Index, Packet, Part, Sequence, Slot};
use crate::replica::drops::Fate;
use crate::replica::log::Entry;
use crate::replica::{EffectsOf, Replica, Status};
use weir_core::lsn::Lsn;

use super::records::Record;

impl<A: Application, F: Faults> Replica<A, F> {
    /// Takes a packet: from the sequencer, or from a peer that has it.
    pub(super) fn on_packet(&mut self, packet: Packet<A::Operation>, out: &mut EffectsOf<A>) {
        let Some(sequence) = packet.stamp.sequence_at(self.id.shard) else { return };
        self.epoch_seen = self.epoch_seen.max(packet.stamp.epoch);
        let epoch = self.durable.epoch;
        let is_of_earlier = packet.stamp.epoch < epoch;
        if is_of_earlier && !self.faults.delivers_across_epochs() {
            return;
        }
        let log = self.log();
        if packet.stamp.epoch == epoch && sequence < log.next_sequence() {
            self.reply(log.index_of(sequence), out);
        } else if self.is_next(&packet, sequence) {
            self.longest_end = self.longest_end.max(self.log().index_of(sequence));
            self.append(Entry::Packet(packet), out);
            self.advance(out);
        } else {
            let is_current = packet.stamp.epoch == epoch;
            self.keep_aside((packet.stamp.epoch.max(epoch), sequence), packet);
            self.advance(out);
            if is_current {
                self.ask_for_gap(out);
            }
        }
    }

    /// Returns whether a packet can be logged at once: it comes next, no slot of it is dropped, and nothing is kept aside.
    fn is_next(&self, packet: &Packet<A::Operation>, sequence: Sequence) -> bool {
        packet.stamp.epoch == self.durable.epoch
            && sequence == self.log().next_sequence()
            && self.status() == Status::Normal
            && self.aside.is_empty()
            && self.drops().fate(&packet.stamp) == Fate::Logged
    }

    /// Keeps a packet until its turn. If there are too many, it forgets one that is neither among the first nor new: that is asked for when it comes
    /// next. The first ones are kept since they are logged once what is missing before them is found or dropped: if all replicas kept new ones only,
    /// a shard that drops could drop all that comes meanwhile, too. New ones are kept since otherwise a shard that lags would never catch up.
    pub(super) fn keep_aside(&mut self, (epoch, sequence): (Epoch, Sequence), packet: Packet<A::Operation>) {
        let is_current = epoch == self.durable.epoch;
        let next = if is_current { self.log().next_sequence() } else { 1 };
        if is_current {
            self.longest_end = self.longest_end.max(self.log().index_of(sequence));
        } else {
            let (current, latest) = (self.durable.epoch, self.epoch_seen);
            self.aside.retain(|(epoch, _), _| *epoch == current || *epoch == latest);
        }
        self.aside.entry((epoch, sequence)).or_insert(packet);
        let most = self.cluster.aside_max;
        if self.aside.len() as u64 > most {
            let in_between = self.aside.range((epoch, next)..).nth((most / 2) as usize);
            let forgotten = in_between.or(self.aside.last_key_value()).map(|(key, _)| *key);
            forgotten.map(|key| self.aside.remove(&key));
        }
    }

    /// The sequencer has stamped so many packets: this shard may lack even the last.
    pub(super) fn on_counters(&mut self, epoch: Epoch, counters: &Cut) {
        if self.is_current(epoch) {
            let end = self.log().index_of(counters.at(self.id.shard));
            self.longest_end = self.longest_end.max(end);
        }
    }

    /// Logs and answers everything that comes next.
    pub(super) fn advance(&mut self, out: &mut EffectsOf<A>) {
        while self.status() == Status::Normal
            && let Some(entry) = self.next_entry()
        {
            self.aside.remove(&(self.durable.epoch, self.log().next_sequence()));
            self.append(entry, out);
        }
        self.acknowledge_late(out);
        self.hurry(out);
        self.synchronize_entries(out);
    }

    /// Logs the entry that comes next, and answers it.
    fn append(&mut self, entry: Entry<A::Operation>, out: &mut EffectsOf<A>) {
        entry.packet().into_iter().for_each(|packet| self.note_repeated(&packet.transaction));
        self.note(Record::Appended(entry));
        self.execute();
        self.reply(self.log().end(), out);
    }

    /// The slot that comes next.
    pub(super) fn next_slot(&self) -> Slot {
        Slot {
            epoch: self.durable.epoch,
            shard: self.id.shard,
            sequence: self.durable.shared.log.next_sequence(),
        }
    }

    /// The entry that comes next, unless it is missing or waits for the failure coordinator.
    fn next_entry(&self) -> Option<Entry<A::Operation>> {
        let slot = self.next_slot();
        let drops = self.drops();
        if drops.permanent.contains(&slot) {
            return Some(Entry::NoOp);
        }
        let packet = self.aside.get(&(slot.epoch, slot.sequence))?;
        match drops.fate(&packet.stamp) {
            Fate::Dropped => Some(Entry::NoOp),
            Fate::Undecided if !self.faults.skips_temporary_drops() => None,
            Fate::Undecided | Fate::Logged => Some(Entry::Packet(packet.clone())),
        }
    }

    /// Tells the client which index its transaction has; the learner also says the answer.
    fn reply(&self, index: Index, out: &mut EffectsOf<A>) {
        let Some(packet) = self.log().get(index).and_then(Entry::packet) else { return };
        if self.status() != Status::Normal {
            return;
        }
        if packet.transaction.part == Part::ReplicaAbort {
            return;
        }
        let txn = packet.transaction.id;
        let outcome = if self.is_learner() { self.execution.outcome(txn) } else { None };
        let (answer, late) = match outcome {
            Some((at, outcome)) if at > index => (None, Some((at, outcome.clone()))),
            outcome => (outcome.map(|(_, outcome)| outcome.clone()), None),
        };
        let reply = Reply { txn, epoch: self.durable.epoch, view: self.durable.view, index, answer };
        let after = if self.faults.answers_early() { Lsn::START } else { self.noted };
        out.send_after(Party::Client(txn.coordinator), Message::Reply(reply), after);
        if let Some((_, outcome)) = late.filter(|(at, _)| *at <= self.settled()) {
            out.send_after(Party::Client(txn.coordinator), Message::Settled { txn, outcome }, self.noted);
        }
    }
}
