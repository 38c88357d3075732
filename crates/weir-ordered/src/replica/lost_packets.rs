//! Packets that are missing: peers are asked first, then the failure coordinator decides (eris.txt §6.3).

use crate::application::Application;
use crate::cluster::ReplicaId;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Index, Packet, Sequence, Slot};
use crate::replica::drops::Fate;
use crate::replica::log::Entry;
use crate::replica::records::{Record, Shared};
use crate::replica::{EffectsOf, Replica, Status};
use weir_core::lsn::Lsn;

/// How many packets are asked for at a time. A shard that lags must decide them faster than new ones come.
const WANTED_MAX: usize = 64;

/// The state of the search for what comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The slot that came next when the search began. A new search begins once another slot comes next.
    sequence: Sequence,
    since_ms: u64,
    peers_asked_ms: Option<u64>,
    coordinator_asked_ms: Option<u64>,
}

/// Returns whether it is time to ask: for the first time at `first_ms`, then at intervals.
fn is_due(asked_ms: &mut Option<u64>, now_ms: u64, first_ms: u64, interval_ms: u64) -> bool {
    let is_due = now_ms >= asked_ms.map_or(first_ms, |asked_ms| asked_ms + interval_ms);
    if is_due {
        *asked_ms = Some(now_ms);
    }
    is_due
}

impl<A: Application, F: Faults> Replica<A, F> {
    /// A packet has come before others. Peers are asked at once for those between it and what had come before: one path from the sequencer
    /// to a replica seldom changes the order of packets.
    pub(super) fn ask_for_gap(&mut self, out: &mut EffectsOf<A>) {
        let (epoch, next) = (self.durable.epoch, self.log().next_sequence());
        let last = self.aside.range((epoch, next)..(epoch + 1, 0)).next_back();
        let Some((&(_, sequence), _)) = last else { return };
        let first = if self.heard.0 == epoch { next.max(self.heard.1 + 1) } else { next };
        if sequence < first || self.status() != Status::Normal {
            return;
        }
        self.heard = (epoch, sequence);
        for sequence in (first..sequence).take(WANTED_MAX) {
            let slot = Slot { sequence, ..self.next_slot() };
            if !self.aside.contains_key(&(epoch, sequence)) && !self.drops().permanent.contains(&slot) {
                out.send_to_all(self.peers(), &Message::SlotRequest { slot }, Lsn::START);
            }
        }
    }

    /// Asks for what is missing still.
    pub(super) fn look_for_missing(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let (missing, undecided) = (self.missing(), self.undecided());
        if missing.is_empty() && undecided.is_empty() {
            self.wanted = None;
            return;
        }
        let sequence = self.log().next_sequence();
        let begun = Wanted { sequence, since_ms: now_ms, peers_asked_ms: None, coordinator_asked_ms: None };
        let mut wanted = self.wanted.filter(|wanted| wanted.sequence == sequence).unwrap_or(begun);
        let timeouts = self.cluster.timeouts;
        let first_ms = wanted.since_ms + timeouts.gap_ms;
        if is_due(&mut wanted.peers_asked_ms, now_ms, first_ms, timeouts.gap_ms) {
            for &slot in &missing {
                out.send_to_all(self.peers(), &Message::SlotRequest { slot }, Lsn::START);
            }
        }
        let first_ms = wanted.since_ms + timeouts.find_ms;
        if is_due(&mut wanted.coordinator_asked_ms, now_ms, first_ms, timeouts.resend_ms) {
            for &slot in missing.iter().chain(&undecided) {
                out.send(Party::FailureCoordinator, Message::FindTxn { slot });
            }
        }
        self.wanted = Some(wanted);
    }

    /// Slots before the last that the replica has heard of, whose packets it lacks.
    fn missing(&self) -> Vec<Slot> {
        let next = self.next_slot();
        let epoch = next.epoch;
        let last_aside = self.aside.range(..(epoch + 1, 0)).next_back();
        let last_aside = last_aside.map_or(0, |((of, sequence), _)| if *of == epoch { *sequence } else { 0 });
        let longest_end = self.longest_end.max(self.log().end());
        let last = last_aside.max(self.log().sequence_of(longest_end));
        let slots = (next.sequence..=last).map(|sequence| Slot { sequence, ..next });
        let is_missing = |slot: &Slot| {
            !self.aside.contains_key(&(epoch, slot.sequence)) && !self.drops().permanent.contains(slot)
        };
        slots.filter(is_missing).take(WANTED_MAX).collect()
    }

    /// Slots whose decisions the packet that comes next waits for.
    fn undecided(&self) -> Vec<Slot> {
        let next = self.next_slot();
        let Some(packet) = self.aside.get(&(next.epoch, next.sequence)) else { return Vec::new() };
        packet.stamp.slots().filter(|slot| self.drops().is_undecided(*slot)).collect()
    }

    pub(super) fn on_slot_request(&mut self, from: ReplicaId, slot: Slot, out: &mut EffectsOf<A>) {
        self.epoch_seen = self.epoch_seen.max(slot.epoch);
        if let Some(packet) = self.packet_with(slot) {
            out.send(Party::Replica(from), Message::SlotFound(packet));
        } else if self.drops().permanent.contains(&slot) {
            out.send(Party::Replica(from), Message::SlotDropped { slot });
        } else if self.is_forgotten(slot) {
            let message = Message::Truncated { epoch: slot.epoch, index: self.log().base() };
            out.send(Party::Replica(from), message);
        }
    }

    /// Returns whether the entry of that slot was in the log, and is forgotten.
    fn is_forgotten(&self, slot: Slot) -> bool {
        let is_own = slot.shard == self.id.shard && slot.epoch == self.durable.epoch;
        is_own && self.log().index_of(slot.sequence) <= self.log().base()
    }

    /// A peer has forgotten an entry that this replica asks for.
    pub(super) fn on_truncated(&mut self, index: Index) {
        if index > self.log().end() {
            self.want_state(index);
        }
    }

    /// Returns whether the replica has asked the failure coordinator for what comes next.
    pub(super) fn waits_for_coordinator(&self) -> bool {
        self.wanted.is_some_and(|wanted| wanted.coordinator_asked_ms.is_some())
    }

    /// The packet with a slot of the current epoch, logged or not.
    fn packet_with(&self, slot: Slot) -> Option<Packet<A::Operation>> {
        let log = self.log();
        let is_own = slot.shard == self.id.shard && slot.epoch == self.durable.epoch;
        let index = if is_own { Some(log.index_of(slot.sequence)) } else { log.find(slot) };
        let logged = index.and_then(|index| log.get(index)).and_then(Entry::packet);
        logged.or_else(|| self.aside.values().find(|packet| packet.stamp.has(slot))).cloned()
    }

    /// Hands over the packet, or promises to log none with that slot until the failure coordinator has decided. Only the promise of a
    /// replica whose view has started counts: its log has what was committed in earlier views.
    pub(super) fn on_txn_request(&mut self, slot: Slot, out: &mut EffectsOf<A>) {
        if !self.is_current(slot.epoch) || self.is_forgotten(slot) {
            return;
        }
        if let Some(packet) = self.packet_with(slot) {
            out.send(Party::FailureCoordinator, Message::HasTxn(packet));
        } else if self.status() == Status::Normal {
            if !self.drops().temporary.contains(&slot) {
                self.note(Record::Promised(slot));
            }
            let promise = Message::TempDropped { slot, view: self.durable.view };
            out.send_after(Party::FailureCoordinator, promise, self.noted);
        }
    }

    /// The packet is logged in its turn. A decision that is known changes nothing: acting on it again would ask for the others again, and
    /// each answer would do so, too.
    pub(super) fn on_found(&mut self, now_ms: u64, packet: Packet<A::Operation>, out: &mut EffectsOf<A>) {
        if !self.is_current(packet.stamp.epoch) {
            return;
        }
        let is_new = !self.knows_found(&packet) && !self.faults.forgets_undrops();
        if is_new {
            self.note(Record::Found(packet.stamp.slots().collect()));
        }
        self.on_packet(packet, out);
        if is_new {
            self.on_decided(now_ms, out);
        }
    }

    fn knows_found(&self, packet: &Packet<A::Operation>) -> bool {
        packet.stamp.slots().all(|slot| self.drops().found.contains(&slot))
    }

    /// A NO-OP is logged in the packet's turn, and takes the place of the packet if that is logged.
    pub(super) fn on_dropped(&mut self, now_ms: u64, slot: Slot, out: &mut EffectsOf<A>) {
        if self.is_current(slot.epoch) && !self.drops().permanent.contains(&slot) {
            self.note(Record::Dropped(slot));
            self.execute();
            self.on_decided(now_ms, out);
        }
    }

    /// Goes on with what has waited for a decision.
    fn on_decided(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        match self.status() {
            Status::Normal => self.advance(out),
            Status::ViewChange => self.try_start_view(now_ms, out),
            Status::EpochChange | Status::Joining => {}
        }
    }

    /// Packets of a log, in the current epoch, that wait for the failure coordinator. Those that are synchronized do not.
    pub(super) fn undecided_packets(&self, shared: &Shared<A::Operation>) -> Vec<Packet<A::Operation>> {
        let packets = shared.log.packets_behind(self.synchronized, self.durable.epoch);
        packets.filter(|packet| shared.drops.fate(&packet.stamp) == Fate::Undecided).cloned().collect()
    }
}
