//! The log of a shard: packets and NO-OPs in the order of their sequences, over all epochs.

use crate::packet::{Epoch, Index, Packet, Sequence, Slot, Stamp};

/// Entry of a log at a slot.
#[derive(Clone, Debug)]
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

/// Entries of a shard. Those of the current epoch follow `epoch_start`: the entry of sequence n has the index `epoch_start` + n.
#[derive(Clone, Debug)]
pub struct Log<O> {
    entries: Vec<Entry<O>>,
    /// End of the log when the current epoch began.
    epoch_start: Index,
}

impl<O> Default for Log<O> {
    fn default() -> Self {
        Log { entries: Vec::new(), epoch_start: 0 }
    }
}

impl<O: Clone> Log<O> {
    /// Index of the last entry.
    pub fn end(&self) -> Index {
        self.entries.len() as Index
    }

    pub fn get(&self, index: Index) -> Option<&Entry<O>> {
        self.entries.get((index as usize).checked_sub(1)?)
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
        self.entries.push(entry);
    }

    /// From here on entries are those of the next epoch.
    pub fn begin_epoch(&mut self) {
        self.epoch_start = self.end();
    }

    /// Entries of the current epoch, with their indices.
    pub fn epoch_entries(&self) -> impl Iterator<Item = (Index, &Entry<O>)> {
        self.behind(self.epoch_start)
    }

    /// Entries behind that index, with theirs.
    pub fn behind(&self, index: Index) -> impl Iterator<Item = (Index, &Entry<O>)> {
        (index + 1..).zip(&self.entries[index as usize..])
    }

    /// Index of the entry of the current epoch whose packet has that slot, which may be one of another shard.
    pub fn find(&self, slot: Slot) -> Option<Index> {
        let has_slot = |entry: &Entry<O>| entry.stamp().is_some_and(|stamp| stamp.has(slot));
        self.epoch_entries().find(|(_, entry)| has_slot(entry)).map(|(index, _)| index)
    }

    /// Puts a NO-OP in the place of the entry whose packet has that slot.
    pub fn drop_slot(&mut self, slot: Slot) {
        if let Some(index) = self.find(slot) {
            self.entries[index as usize - 1] = Entry::NoOp;
        }
    }

    /// Index up to which both logs have the same entries.
    pub fn common_prefix(&self, other: &Log<O>) -> Index {
        let pairs = self.entries.iter().zip(&other.entries);
        pairs.take_while(|(a, b)| a.stamp() == b.stamp()).count() as Index
    }

    /// Packets of the current epoch behind that index. The epoch is named because older packets have older stamps.
    pub fn packets_behind(&self, index: Index, epoch: Epoch) -> impl Iterator<Item = &Packet<O>> {
        let behind = self.entries.iter().skip(index as usize).filter_map(Entry::packet);
        behind.filter(move |packet| packet.stamp.epoch == epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_core::ids::{ShardId, TxnId};

    use super::*;
    use crate::packet::Transaction;

    fn entry(epoch: Epoch, sequences: &[(ShardId, Sequence)]) -> Entry<()> {
        let id = TxnId { coordinator: 1, sequence: 1 };
        let transaction = Transaction { id, floor: 1, destinations: [0].into(), operation: () };
        let stamp = Stamp { epoch, sequences: sequences.into() };
        Entry::Packet(Packet { stamp, transaction: Arc::new(transaction) })
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
}
