//! A shard's log in virtual time: what is written, what is durable, and what may not leave before that.

use weir_core::lsn::{HeldMessages, Lsn};

/// `R`: records, `M`: messages that wait for them.
#[derive(Debug)]
pub struct Disk<R, M> {
    /// Also what a snapshot has made needless: the checks read everything.
    written: Vec<R>,
    /// Number of durable entries of `written`.
    synced: usize,
    /// Newest durable snapshot, and the number of entries that preceded it.
    base: Vec<R>,
    from: usize,
    /// Snapshot that may not be durable, in the same form; and whether it is complete.
    snapshot: Option<(Vec<R>, usize, bool)>,
    /// Messages of the shard's life.
    held: HeldMessages<M>,
    /// Until where a sync that is under way will reach.
    pub syncing: Option<(usize, Lsn)>,
    /// Number of crashes of the shard; a sync that began before does not count.
    pub crashes: u64,
}

impl<R, M> Default for Disk<R, M> {
    fn default() -> Self {
        Disk {
            written: Vec::new(),
            synced: 0,
            base: Vec::new(),
            from: 0,
            snapshot: None,
            held: HeldMessages::default(),
            syncing: None,
            crashes: 0,
        }
    }
}

impl<R: Clone, M> Disk<R, M> {
    pub fn append(&mut self, records: Vec<R>) {
        self.held.note(records.len());
        self.written.extend(records);
    }

    /// The first part of a snapshot of what is written by now, or the next; and whether more follow.
    pub fn add_part(&mut self, part: R, has_more: bool) {
        let now = self.written.len();
        // Another one that is whole and does not count yet makes way.
        self.snapshot.take_if(|(_, _, is_whole)| *is_whole);
        let (parts, _, is_whole) = self.snapshot.get_or_insert_with(|| (Vec::new(), now, false));
        parts.push(part);
        *is_whole = !has_more;
        self.take_over_snapshot();
    }

    /// A snapshot has been begun and is not whole.
    pub fn wants_part(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|(_, _, is_whole)| !is_whole)
    }

    pub fn give_up_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// It counts once all that was written before it is durable.
    fn take_over_snapshot(&mut self) {
        if let Some((base, from, _)) =
            self.snapshot.take_if(|(_, from, is_whole)| *is_whole && *from <= self.synced)
        {
            (self.base, self.from) = (base, from);
        }
    }

    pub fn is_synced(&self) -> bool {
        self.synced == self.written.len()
    }

    /// Position after the last record of the shard's life.
    pub fn noted(&self) -> Lsn {
        self.held.noted()
    }

    /// Holds a message until the log is durable up to that position; returns it if the log is.
    pub fn hold(&mut self, after: Lsn, message: M) -> Option<M> {
        self.held.hold(after, message)
    }

    /// Position up to which the log of the shard's life is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.held.durable()
    }

    /// Begins to make durable what is written by now.
    pub fn begin_sync(&mut self) {
        self.syncing = Some((self.written.len(), self.held.noted()));
    }

    /// The sync has ended; gives what may leave.
    pub fn end_sync(&mut self) -> Vec<M> {
        let Some((synced, durable)) = self.syncing.take() else { return Vec::new() };
        self.synced = synced;
        self.take_over_snapshot();
        self.held.on_durable(durable).collect()
    }

    /// Number of records that a restart would read.
    pub fn length(&self) -> usize {
        self.written.len() - self.snapshot.as_ref().map_or(self.from, |(_, from, _)| *from)
    }

    pub fn unsynced(&self) -> usize {
        self.written.len() - self.synced
    }

    /// Crashes: held messages are lost, and of the entries that are not durable all but `survive`.
    pub fn crash(&mut self, survive: usize) {
        self.written.truncate(self.synced + survive);
        self.synced = self.written.len();
        self.take_over_snapshot();
        self.snapshot = None;
        self.held = HeldMessages::default();
        self.syncing = None;
        self.crashes += 1;
    }

    /// Log that a restart reads.
    pub fn log(&self) -> Vec<R> {
        [&self.base[..], &self.written[self.from..self.synced]].concat()
    }

    /// Everything that has ever become durable.
    pub fn durable(&self) -> &[R] {
        &self.written[..self.synced]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_and_tails_are_lost() {
        let mut disk: Disk<u32, &str> = Disk::default();
        disk.append(vec![1, 2]);
        assert_eq!(disk.hold(Lsn(2), "of 2"), None);
        disk.begin_sync();
        disk.append(vec![3]);
        assert_eq!(disk.hold(Lsn(3), "of 3"), None);
        assert_eq!(disk.hold(Lsn(0), "of none, before the start is durable"), None);
        assert_eq!(disk.hold(Lsn(1), "of 1"), None);
        let left = disk.end_sync();
        assert_eq!(left, ["of none, before the start is durable", "of 1", "of 2"]);
        assert_eq!(disk.hold(Lsn(0), "of none"), Some("of none"));
        assert_eq!((disk.unsynced(), disk.is_synced()), (1, false));
        disk.add_part(40, true);
        disk.append(vec![4]);
        disk.add_part(41, false);
        disk.append(vec![5]);
        disk.crash(2);
        assert_eq!((disk.log(), disk.durable()), (vec![40, 41, 4], &[1, 2, 3, 4][..]));
        disk.append(vec![6]);
        disk.add_part(60, false);
        disk.crash(0);
        assert_eq!((disk.log(), disk.length()), (vec![40, 41, 4], 1));
        disk.add_part(70, true);
        disk.crash(0);
        assert_eq!((disk.log(), disk.wants_part()), (vec![40, 41, 4], false));
    }
}
