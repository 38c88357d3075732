//! A server of any protocol as a party: a replica, or a service of its cluster.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use weir_baselines::eris::machine::{Effects, Server};
use weir_core::lsn::Outgoing;
use weir_ordered::message::Party;
use weir_ordered::packet::Index;
use weir_ordered_net::driver::Machine;

use crate::load::{Control, Phase};

/// A server's report once clients are silent: the length of its log if it is at rest.
pub type AtRest = (Party, Option<Index>);

/// A server. It has no disk: every record counts as durable at once.
pub struct ServerParty<S> {
    pub party: Party,
    pub server: S,
    pub control: Arc<Control>,
    pub at_rest: Sender<AtRest>,
}

/// Runs a step, whose messages are added.
pub fn with_effects<M, T>(out: &mut Vec<Outgoing<Party, M>>, step: impl FnOnce(&mut Effects<M>) -> T) -> T {
    let mut effects = Effects { messages: std::mem::take(out) };
    let result = step(&mut effects);
    *out = effects.messages;
    result
}

impl<S: Server> Machine for ServerParty<S> {
    type Message = S::Message;
    type Record = S::Record;

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: S::Message,
        out: &mut Vec<Outgoing<Party, S::Message>>,
    ) {
        with_effects(out, |out| self.server.step(now_ms, from, message, out));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, S::Message>>) {
        with_effects(out, |out| self.server.on_timer(now_ms, out));
        if self.control.phase() == Phase::Silence {
            // Whoever waits for it may have enough.
            let _ = self.at_rest.send((self.party, self.server.at_rest()));
        }
    }

    fn take_records(&mut self) -> Vec<S::Record> {
        self.server.take_records()
    }

    fn snapshot(&self) -> Option<S::Record> {
        None
    }
}
