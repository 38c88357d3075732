//! The log of a shard: packets and NO-OPs in the order of their sequences, over all epochs.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::packet::{Epoch, Index, Packet, Sequence, Slot, Stamp};

/// Entry of a log at a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Entry<O> {
    Packet(Packet<O>),
    /// The failure coordinator has dropped the packet of the slot.
    NoOp,
}

impl<O> Entry<O> {
    pub fn packet(&self) -> Option<&Packet<O>> {
        match self {
            Entry::Packet(packet) => Some(packet),
            Entry::NoOp => None,
        }
    }

    pub fn stamp(&self) -> Option<&Stamp> {
        self.packet().map(|packet| &packet.stamp)
    }
}

/// Entries of a shard behind a base. Those of the current epoch follow `epoch_start`: the entry of sequence n has the index
/// `epoch_start` + n.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log<O> {
    /// Index of the last entry that is forgotten. It is before or behind `epoch_start`.
    base: Index,
    entries: VecDeque<Entry<O>>,
    /// End of the log when the current epoch began.
    epoch_start: Index,
}

impl<O> Default for Log<O> {
    fn default() -> Self {
        Log { base: 0, entries: VecDeque::new(), epoch_start: 0 }
    }
}

impl<O: Clone> Log<O> {
    /// Index of the last entry that is forgotten.
    pub fn base(&self) -> Index {
        self.base
    }

    /// Index of the last entry.
    pub fn end(&self) -> Index {
        self.base.saturating_add(self.entries.len() as Index)
    }

    /// End of the log when the current epoch began.
    pub fn epoch_start(&self) -> Index {
        self.epoch_start
    }

    fn position(&self, index: Index) -> usize {
        index.saturating_sub(self.base) as usize
    }

    pub fn get(&self, index: Index) -> Option<&Entry<O>> {
        self.entries.get(self.position(index).checked_sub(1)?)
    }

    pub fn index_of(&self, sequence: Sequence) -> Index {
        self.epoch_start + sequence
    }

    /// Sequence of the packet that comes next.
    pub fn next_sequence(&self) -> Sequence {
        self.end() - self.epoch_start + 1
    }

    /// Sequence of an entry of the current epoch.
    pub fn sequence_of(&self, index: Index) -> Sequence {
        index - self.epoch_start
    }

    pub fn push(&mut self, entry: Entry<O>) {
        self.entries.push_back(entry);
    }

    /// From here on entries are those of the next epoch.
    pub fn begin_epoch(&mut self) {
        self.epoch_start = self.end();
    }

    /// The log without the entries up to that index.
    pub fn suffix(&self, from: Index) -> Log<O> {
        assert!(from <= self.end(), "entries are forgotten that the log never had");
        let entries = self.entries.range(self.position(from)..).cloned().collect();
        Log { base: self.base.max(from), entries, ..*self }
    }

    /// Forgets the entries up to that index.
    pub fn forget(&mut self, to: Index) {
        assert!(to <= self.end(), "entries are forgotten that the log never had");
        self.entries.drain(..self.position(to));
        self.base = self.base.max(to);
    }

    /// This log, behind those entries of an earlier form of it that this one has forgotten.
    pub fn preceded_by(self, earlier: &Log<O>) -> Log<O> {
        let is_earlier = earlier.base < self.base && self.base <= earlier.end();
        if is_earlier { earlier.prefix(self.base).continued_by(&self) } else { self }
    }

    /// Forgets the entries up to that sequence of the current epoch, which the log need not have, and all of earlier epochs.
    pub fn truncate_start(&mut self, sequence: Sequence) {
        (self.base, self.entries) = (self.index_of(sequence), VecDeque::new());
    }

    /// The log up to that index.
    pub fn prefix(&self, end: Index) -> Log<O> {
        assert!(self.base <= end && end <= self.end(), "a prefix of a log is a part of it");
        let entries = self.entries.range(..self.position(end)).cloned().collect();
        Log { entries, ..*self }
    }

    /// The entries of the current epoch.
    pub fn epoch_part(&self) -> Log<O> {
        let entries = self.epoch_entries().map(|(_, entry)| entry.clone()).collect();
        Log { base: self.base.max(self.epoch_start), entries, epoch_start: self.epoch_start }
    }

    /// This log, then what another one has behind it. The epoch is that of the other log, which has no entries of earlier ones to add.
    pub fn continued_by(mut self, other: &Log<O>) -> Log<O> {
        assert!(other.base <= self.end(), "entries between both logs are forgotten");
        let behind = other.behind(self.end()).map(|(_, entry)| entry.clone());
        self.entries.extend(behind.collect::<Vec<_>>());
        self.epoch_start = other.epoch_start;
        self
    }

    /// Entries of the current epoch, with their indices.
    pub fn epoch_entries(&self) -> impl Iterator<Item = (Index, &Entry<O>)> {
        self.behind(self.epoch_start)
    }

    /// Entries behind that index that are not forgotten, with their indices.
    pub fn behind(&self, index: Index) -> impl Iterator<Item = (Index, &Entry<O>)> {
        let from = index.max(self.base);
        (from + 1..).zip(self.entries.range(self.position(from).min(self.entries.len())..))
    }

    /// Index of the entry of the current epoch whose packet has that slot, which may be one of another shard.
    pub fn find(&self, slot: Slot) -> Option<Index> {
        let has_slot = |entry: &Entry<O>| entry.stamp().is_some_and(|stamp| stamp.has(slot));
        self.epoch_entries().find(|(_, entry)| has_slot(entry)).map(|(index, _)| index)
    }

    /// Puts a NO-OP in the place of the entry whose packet has that slot.
    pub fn drop_slot(&mut self, slot: Slot) {
        if let Some(index) = self.find(slot) {
            let position = self.position(index);
            self.entries[position - 1] = Entry::NoOp;
        }
    }

    /// Index up to which both logs have the same entries, if they have the same where one of them has forgotten its own.
    pub fn common_prefix(&self, other: &Log<O>) -> Index {
        let from = self.base.max(other.base);
        let pairs = self.behind(from).zip(other.behind(from));
        from + pairs.take_while(|((_, a), (_, b))| a.stamp() == b.stamp()).count() as Index
    }

    /// Packets of the current epoch behind that index. The epoch is named because older packets have older stamps.
    pub fn packets_behind(&self, index: Index, epoch: Epoch) -> impl Iterator<Item = &Packet<O>> {
        let behind = self.behind(index).filter_map(|(_, entry)| entry.packet());
        behind.filter(move |packet| packet.stamp.epoch == epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_core::ids::{ShardId, TxnId};

    use super::*;
    use crate::packet::{Part, Transaction};

    fn entry(epoch: Epoch, sequences: &[(ShardId, Sequence)]) -> Entry<()> {
        let id = TxnId { coordinator: 1, sequence: 1 };
        let part = Part::Independent;
        let transaction =
            Transaction { id, floor: 1, registration: 1, destinations: [0].into(), part, operation: () };
        let stamp = Stamp { epoch, sequences: sequences.into() };
        Entry::Packet(Packet { stamp, client_floor: 0, transaction: Arc::new(transaction) })
    }

    fn log_of_two_epochs() -> Log<()> {
        let mut log = Log::default();
        log.push(entry(1, &[(0, 1), (1, 1)]));
        log.begin_epoch();
        log.push(entry(2, &[(0, 1)]));
        log.push(entry(2, &[(0, 2), (1, 1)]));
        log
    }

    #[test]
    fn sequences_begin_again_with_each_epoch() {
        let log = log_of_two_epochs();
        assert_eq!((log.end(), log.next_sequence(), log.index_of(2), log.sequence_of(3)), (3, 3, 3, 2));
        assert_eq!(log.find(Slot { epoch: 2, shard: 1, sequence: 1 }), Some(3));
        assert_eq!(log.find(Slot { epoch: 1, shard: 1, sequence: 1 }), None, "of an earlier epoch");
    }

    #[test]
    fn a_slot_of_another_shard_drops_the_packet() {
        let (mut log, before) = (log_of_two_epochs(), log_of_two_epochs());
        log.drop_slot(Slot { epoch: 2, shard: 1, sequence: 1 });
        assert!(log.get(3).is_some_and(|entry| entry.packet().is_none()));
        assert_eq!((log.common_prefix(&before), before.common_prefix(&before)), (2, 3));
        log.drop_slot(Slot { epoch: 2, shard: 1, sequence: 1 });
        assert_eq!(log.end(), 3);
    }

    #[test]
    fn a_truncated_log_keeps_its_indices() {
        let whole = log_of_two_epochs();
        let mut log = whole.clone();
        log = log.suffix(2);
        assert_eq!((log.base(), log.end(), log.next_sequence()), (2, 3, 3));
        assert!(log.get(2).is_none() && log.get(3).is_some());
        assert_eq!(log.behind(0).map(|(index, _)| index).collect::<Vec<_>>(), [3]);
        assert_eq!(log.common_prefix(&whole), 3);
        let again = whole.prefix(2).continued_by(&log);
        assert_eq!((again.base(), again.end(), again.common_prefix(&whole)), (0, 3, 3));
        assert_eq!((log.prefix(2).end(), whole.epoch_part().base()), (2, 1));
    }

    #[test]
    #[should_panic(expected = "forgotten")]
    fn logs_with_a_gap_between_them_are_not_joined() {
        let mut log = log_of_two_epochs();
        log = log.suffix(3);
        let _ = log_of_two_epochs().prefix(2).continued_by(&log);
    }
}
