//! A sequencer as a party. It keeps nothing: each start is another sequencer.

use std::sync::Arc;

use weir_core::lsn::Outgoing;
use weir_ordered::message::Party;
use weir_ordered::sequencer::Sequencer;

use crate::driver::{Machine, PartyError, Running};
use crate::members::{Members, sequencer_id};
use crate::transport::{Loss, Received, Transport};
use crate::wire::{self, Message};

impl Machine for Sequencer {
    type Message = Message;
    type Record = ();

    /// Replies go to where the transaction has come from, unless that is a replica, which aborts it.
    fn on_received(&mut self, received: &mut Received, _: &mut Transport) {
        if let (Party::Client(_), Message::Submit(transaction), Some(address)) =
            (received.from, &mut received.message, received.address)
        {
            Arc::make_mut(transaction).operation.reply_to = Some(address);
        }
    }

    fn step(
        &mut self,
        _now_ms: u64,
        _from: Party,
        message: Message,
        out: &mut Vec<Outgoing<Party, Message>>,
    ) {
        wire::with_effects(out, |out| Sequencer::step(self, message, out));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| Sequencer::on_timer(self, now_ms, out));
    }

    fn take_records(&mut self) -> Vec<()> {
        Vec::new()
    }

    fn snapshot(&self) -> Option<()> {
        None
    }
}

/// Starts a sequencer at that place of the members.
///
/// # Errors
/// The place is none of the cluster, or the system's.
pub fn start(members: Arc<Members>, place: u8, loss: Option<Loss>) -> Result<Running<Sequencer>, PartyError> {
    members.check().map_err(PartyError::Members)?;
    let id = sequencer_id(place);
    let machine = Sequencer::new(id, members.cluster);
    let transport = Transport::bind(members, Party::Sequencer(id), loss)?;
    Running::start("sequencer", machine, transport, None)
}
