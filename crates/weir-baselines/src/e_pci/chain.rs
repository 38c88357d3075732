//! The versions of one item, by commit time: [`chain::Chain`] with commit clocks for positions.

use weir_core::ids::TxnId;
use weir_kv::chain::{self, Sight, Version};
use weir_kv::{ItemRead, Sketch, Stamp, Write};

#[derive(Debug, Default)]
pub struct Chain {
    committed: chain::Chain,
    /// Prepared and not known to be committed.
    pub pending: Vec<TxnId>,
}

impl Chain {
    pub fn commit(&mut self, stamp: Stamp, write: Write) {
        let written = Sketch::NONE;
        self.committed.commit(Version { stamp, write, committed_at: stamp.clock, written });
    }

    /// Value for a read at that clock; none if it is not kept any more.
    pub fn read(&self, at: u64) -> Option<ItemRead> {
        if self.committed.base_stamp().clock > at {
            return None;
        }
        let seen = self.committed.read(Sight { position: at, naming: &[] });
        Some(seen.item)
    }

    /// Folds the versions that every read sees. `floor`: no read is below, and nothing commits at or below
    /// it.
    pub fn fold(&mut self, floor: u64) {
        self.committed.fold_while(|stamp| stamp.clock <= floor);
    }

    /// The item is deleted for every read, and nothing is prepared: the stamp of the deletion.
    pub fn is_tombstone(&self) -> Option<Stamp> {
        self.committed.is_tombstone().filter(|_| self.pending.is_empty())
    }

    #[cfg(test)]
    pub fn versions(&self) -> usize {
        self.committed.versions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(clock: u64) -> Stamp {
        Stamp { clock, txn: TxnId { coordinator: 1, sequence: clock } }
    }

    fn put(value: &str) -> Write {
        Write::Put(value.into())
    }

    #[test]
    fn a_read_sees_what_had_been_committed_at_its_clock() {
        let mut chain = Chain::default();
        for (clock, write) in
            [(30, Write::Delete), (10, put("a")), (40, Write::Max("d".into())), (20, put("c"))]
        {
            chain.commit(stamp(clock), write);
        }
        let check = |chain: &Chain, at: u64, expected: Option<(Option<&str>, u64)>| {
            let read = chain.read(at).map(|read| (read.value, read.stamp.clock));
            assert_eq!(read, expected.map(|(value, clock)| (value.map(Into::into), clock)), "at {at}");
        };
        let all =
            [(5, None, 0), (10, Some("a"), 10), (29, Some("c"), 20), (30, None, 30), (99, Some("d"), 40)];
        for (at, value, clock) in all {
            check(&chain, at, Some((value, clock)));
        }
        chain.fold(25);
        for (at, value, clock) in &all[2..] {
            check(&chain, *at, Some((*value, *clock)));
        }
        check(&chain, 19, None);
        // Buried under what every read sees.
        chain.commit(stamp(15), put("late"));
        assert_eq!(chain.versions(), 2);
        chain.fold(99);
        check(&chain, 99, Some((Some("d"), 40)));
        assert_eq!(chain.is_tombstone(), None);
    }
}
