//! A shard's log in virtual time: what is written, what is durable, and what may not leave before that.

use std::collections::VecDeque;

/// `R`: records, `M`: messages that wait for them.
#[derive(Debug)]
pub struct Disk<R, M> {
    /// Also what a snapshot has made needless: the checks read everything.
    written: Vec<R>,
    /// So many of them are durable.
    synced: usize,
    /// Where the newest durable snapshot is, or the beginning.
    from: usize,
    /// Where a snapshot is that may not be durable.
    snapshot: Option<usize>,
    /// By the count of records of the shard's life that must be durable first.
    held: VecDeque<(u64, M)>,
    /// Until where a sync that is under way will reach.
    pub syncing: Option<(usize, u64)>,
    /// How many records the shard has noted since it has started, and how many of them are durable.
    noted: u64,
    durable: u64,
    /// How often the shard has crashed; a sync that began before does not count.
    pub crashes: u64,
}

impl<R, M> Default for Disk<R, M> {
    fn default() -> Self {
        let (written, held) = (Vec::new(), VecDeque::new());
        let (noted, durable) = (0, 0);
        Disk { written, synced: 0, from: 0, snapshot: None, held, syncing: None, noted, durable, crashes: 0 }
    }
}

impl<R: Clone, M> Disk<R, M> {
    pub fn append(&mut self, records: Vec<R>) {
        self.noted += records.len() as u64;
        self.written.extend(records);
    }

    pub fn append_snapshot(&mut self, snapshot: R) {
        self.snapshot = Some(self.written.len());
        self.written.push(snapshot);
    }

    pub fn is_synced(&self) -> bool {
        self.synced == self.written.len()
    }

    /// So many records of the shard's life, or all that there are by now.
    pub fn known(&self, count: u64) -> u64 {
        count.min(self.noted)
    }

    /// The message leaves when so many records of the shard's life are durable; it is given back if they are.
    pub fn hold(&mut self, after: u64, message: M) -> Option<M> {
        if after <= self.durable {
            return Some(message);
        }
        self.held.push_back((after, message));
        None
    }

    /// So many records of the shard's life are durable.
    pub fn durable_count(&self) -> u64 {
        self.durable
    }

    /// Begins to make durable what is written by now.
    pub fn begin_sync(&mut self) {
        self.syncing = Some((self.written.len(), self.noted));
    }

    /// The sync has ended; gives what may leave.
    pub fn end_sync(&mut self) -> Vec<M> {
        (self.synced, self.durable) = self.syncing.take().unwrap_or((self.synced, self.durable));
        if let Some(at) = self.snapshot.filter(|at| *at < self.synced) {
            self.from = at;
        }
        let durable = self.durable;
        let is_ready = |(after, _): &(u64, M)| *after <= durable;
        let (ready, held): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.held).into_iter().partition(is_ready);
        self.held = held;
        ready.into_iter().map(|(_, message)| message).collect()
    }

    /// How many records a restart would read.
    pub fn length(&self) -> usize {
        self.written.len() - self.snapshot.unwrap_or(self.from)
    }

    pub fn unsynced(&self) -> usize {
        self.written.len() - self.synced
    }

    /// Whatever has not left is lost, and of what was not durable all but so many records.
    pub fn crash(&mut self, survive: usize) {
        self.written.truncate(self.synced + survive);
        self.synced = self.written.len();
        self.from = self.snapshot.take().filter(|at| *at < self.synced).unwrap_or(self.from);
        self.held.clear();
        self.syncing = None;
        (self.noted, self.durable) = (0, 0);
        self.crashes += 1;
    }

    /// What a restart reads.
    pub fn log(&self) -> Vec<R> {
        self.written[self.from..self.synced].to_vec()
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
        assert_eq!(disk.hold(2, "of 2"), None);
        disk.begin_sync();
        disk.append(vec![3]);
        assert_eq!(disk.hold(3, "of 3"), None);
        assert_eq!(disk.hold(0, "of none"), Some("of none"));
        assert_eq!(disk.hold(1, "of 1"), None);
        assert_eq!(disk.end_sync(), ["of 2", "of 1"]);
        assert_eq!((disk.unsynced(), disk.is_synced()), (1, false));
        disk.append_snapshot(40);
        disk.append(vec![5]);
        disk.crash(2);
        assert_eq!((disk.log(), disk.durable()), (vec![40], &[1, 2, 3, 40][..]));
        disk.append_snapshot(60);
        disk.crash(0);
        assert_eq!((disk.log(), disk.length()), (vec![40], 1));
    }
}
