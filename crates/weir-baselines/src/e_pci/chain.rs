//! The versions of one item, by commit time.

use weir_txn::items::write::Content;
use weir_txn::items::{ItemRead, Stamp, Write};
use weir_txn::ramp::TxnId;

#[derive(Debug)]
pub struct Chain {
    base: Content,
    base_stamp: Stamp,
    /// Above the base, by stamp.
    versions: Vec<(Stamp, Write)>,
    /// Prepared and not known to be committed.
    pub pending: Vec<TxnId>,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { base: Content::Absent, base_stamp: Stamp::NONE, versions: Vec::new(), pending: Vec::new() }
    }
}

impl Chain {
    pub fn commit(&mut self, stamp: Stamp, write: Write) {
        // Overwritten for every read that can still be asked for.
        if stamp <= self.base_stamp {
            return;
        }
        let at = self.versions.partition_point(|(one, _)| *one < stamp);
        self.versions.insert(at, (stamp, write));
    }

    /// What a read at that clock sees; none if it is not kept any more.
    pub fn read(&self, at: u64) -> Option<ItemRead> {
        let seen = &self.versions[..self.versions.partition_point(|(stamp, _)| stamp.clock <= at)];
        if let Some((stamp, Write::Put(value))) = seen.last() {
            return Some(ItemRead { value: Some(value.clone()), stamp: *stamp });
        }
        if self.base_stamp.clock > at {
            return None;
        }
        let Some((stamp, _)) = seen.last() else {
            return Some(ItemRead { value: self.base.value(), stamp: self.base_stamp });
        };
        let overwritten = seen.iter().rposition(|(_, write)| write.overwrites());
        let mut content = if overwritten.is_some() { Content::Absent } else { self.base.clone() };
        for (_, write) in &seen[overwritten.unwrap_or(0)..] {
            content.apply(write);
        }
        Some(ItemRead { value: content.value(), stamp: *stamp })
    }

    /// Folds the versions that every read sees. `floor`: no read is below, and nothing commits at or below
    /// it.
    pub fn fold(&mut self, floor: u64) {
        let old = self.versions.partition_point(|(stamp, _)| stamp.clock <= floor);
        for (stamp, write) in self.versions.drain(..old) {
            self.base.apply(&write);
            self.base_stamp = stamp;
        }
    }

    /// The item is deleted for every read, and nothing is prepared: the stamp of the deletion.
    pub fn is_tombstone(&self) -> Option<Stamp> {
        let empty = self.versions.is_empty() && self.pending.is_empty();
        (empty && self.base == Content::Absent).then_some(self.base_stamp)
    }

    pub fn versions(&self) -> usize {
        self.versions.len()
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
