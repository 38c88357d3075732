//! A server with a disk: what it has recorded, what is durable of that, and the messages that wait for it.

use crate::chance::Chance;
use weir_baselines::eris::machine::Server;
use weir_core::lsn::{HeldMessages, Lsn, Outgoing};
use weir_ordered::message::Party;

type Leaving<S> = Vec<(Party, <S as Server>::Message)>;

pub struct Host<S: Server> {
    /// None: it is down.
    pub machine: Option<S>,
    /// How often it has started. Events of an earlier start mean nothing.
    pub start: u64,
    disk: Vec<S::Record>,
    /// How many records were on the disk at the start.
    base: usize,
    held: HeldMessages<(Party, S::Message)>,
}

impl<S: Server> Host<S> {
    pub fn new(machine: S) -> Self {
        Host { machine: Some(machine), start: 1, disk: Vec::new(), base: 0, held: HeldMessages::default() }
    }

    pub fn disk(&self) -> &[S::Record] {
        &self.disk
    }

    pub fn is_durable(&self) -> bool {
        self.held.is_durable()
    }

    /// Takes what a step has left: returns the messages that may leave, and the position that a write of the disk would reach, if one is
    /// needed.
    pub fn take(
        &mut self,
        records: Vec<S::Record>,
        messages: Vec<Outgoing<Party, S::Message>>,
    ) -> (Leaving<S>, Option<Lsn>) {
        let writes = !records.is_empty();
        self.held.note(records.len());
        self.disk.extend(records);
        let held = &mut self.held;
        let leaving = messages.into_iter().filter_map(|each| held.hold(each.after, (each.to, each.message)));
        let leaving = leaving.collect();
        (leaving, writes.then(|| self.held.noted()))
    }

    /// The disk has written everything up to that position.
    pub fn on_durable(&mut self, start: u64, up_to: Lsn) -> Leaving<S> {
        if start != self.start || self.machine.is_none() || up_to <= self.held.durable() {
            return Vec::new();
        }
        self.held.on_durable(up_to).collect()
    }

    /// Loses its memory, and some of what was not durable.
    pub fn crash(&mut self, chance: &mut Chance) {
        if self.machine.take().is_some() {
            let kept = chance.between(self.held.durable().0, self.held.noted().0);
            self.disk.truncate(self.base + kept as usize);
            self.base = self.disk.len();
            self.held = HeldMessages::default();
        }
    }

    /// Starts again, if it is down, with what is on its disk.
    pub fn restart(&mut self, machine: impl FnOnce(u64, &[S::Record]) -> S) {
        if self.machine.is_none() {
            self.start += 1;
            self.machine = Some(machine(self.start, &self.disk));
        }
    }
}
