//! A process with a disk: what it has noted, what is durable of that, and the messages that wait for it. The world of comparators uses it, too.

use weir_core::lsn::{HeldMessages, Lsn, Outgoing};
use weir_ordered::message::Party;

use crate::chance::Chance;

/// A machine, its disk, and its messages that wait for the disk.
pub struct Host<M, R, G> {
    /// None: it is down.
    pub machine: Option<M>,
    /// How often it has started. Events of an earlier start mean nothing.
    pub start: u64,
    disk: Vec<R>,
    /// How many records were on the disk at the start, and how many it has forgotten since then.
    base: usize,
    forgotten: usize,
    /// Whether a restart needs no record before that one. None: it needs all.
    is_complete: Option<fn(&R) -> bool>,
    held: HeldMessages<(Party, G)>,
}

impl<M, R, G> Host<M, R, G> {
    pub fn new(machine: M, is_complete: Option<fn(&R) -> bool>) -> Self {
        let machine = Some(machine);
        Host {
            machine,
            start: 1,
            disk: Vec::new(),
            base: 0,
            forgotten: 0,
            is_complete,
            held: HeldMessages::default(),
        }
    }

    /// Records that would be there if it crashed now and lost all that is not durable.
    pub fn durable(&self) -> &[R] {
        &self.disk[..self.length(self.held.durable())]
    }

    pub fn is_durable(&self) -> bool {
        self.held.is_durable()
    }

    /// Records behind the last one that a restart needs no record before.
    pub fn since_complete(&self) -> usize {
        let is_complete = |record: &R| self.is_complete.is_some_and(|is_complete| is_complete(record));
        self.disk.iter().rev().take_while(|record| !is_complete(record)).count()
    }

    /// Length of the disk at that position.
    fn length(&self, position: Lsn) -> usize {
        self.base + position.0 as usize - self.forgotten
    }

    /// Forgets what a restart does not need.
    fn compact(&mut self) {
        let Some(is_complete) = self.is_complete else { return };
        let last = self.durable().iter().rposition(is_complete).unwrap_or(0);
        self.disk.drain(..last);
        self.forgotten += last;
    }

    /// Takes what a step has left: returns the messages that may leave, and the position that a write of the disk would reach, if one is
    /// needed.
    pub fn take(
        &mut self,
        records: Vec<R>,
        messages: Vec<Outgoing<Party, G>>,
    ) -> (Vec<(Party, G)>, Option<Lsn>) {
        let writes = !records.is_empty();
        self.held.note(records.len());
        self.disk.extend(records);
        let held = &mut self.held;
        let leaving = messages.into_iter().filter_map(|each| held.hold(each.after, (each.to, each.message)));
        let leaving = leaving.collect();
        (leaving, writes.then(|| self.held.noted()))
    }

    /// The disk has written everything up to that position.
    pub fn on_durable(&mut self, start: u64, up_to: Lsn) -> Vec<(Party, G)> {
        if start != self.start || self.machine.is_none() || up_to <= self.held.durable() {
            return Vec::new();
        }
        let leaving = self.held.on_durable(up_to).collect();
        self.compact();
        leaving
    }

    /// Position up to which the records of this start are durable.
    pub fn durable_position(&self) -> Lsn {
        self.held.durable()
    }

    /// Loses its memory, and some of what was not durable.
    pub fn crash(&mut self, chance: &mut Chance) {
        if self.machine.take().is_some() {
            let kept = chance.between(self.held.durable().0, self.held.noted().0);
            self.disk.truncate(self.length(Lsn(kept)));
            (self.base, self.forgotten) = (self.disk.len(), 0);
            self.held = HeldMessages::default();
        }
    }

    /// Its disk is lost, too.
    pub fn wipe(&mut self) {
        assert!(self.machine.is_none(), "the disk of a process that is up");
        self.disk.clear();
        self.base = 0;
    }

    /// Starts again, if it is down, with what is on its disk.
    pub fn restart(&mut self, machine: impl FnOnce(u64, &[R]) -> M) {
        if self.machine.is_none() {
            self.start += 1;
            self.machine = Some(machine(self.start, &self.disk));
        }
    }
}
