//! What members say to each other.

use serde::{Deserialize, Serialize};
use weir_core::lsn::{Lsn, Outgoing};
use weir_core::raft_message::RaftMessage;

use crate::Place;

/// A message between members of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Greeting(Greeting),
    Raft {
        message: Box<RaftMessage>,
        /// When the message was made, by the sender's clock.
        sent_ms: u64,
        /// Largest `sent_ms` of a message of the receiver as leader of the sender's term, since which the sender votes for nobody else.
        heard_ms: Option<u64>,
    },
}

/// Said by a member that has founded or joined no group yet, and answered by others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Id of the sender's disk.
    pub disk: u64,
    /// Disks of the members that have founded the group, by place. None: the sender knows of no group.
    pub founders: Option<Vec<u64>>,
    /// The sender wants to know what the receiver knows.
    pub asks: bool,
}

/// Messages of a step.
#[derive(Debug, Default)]
pub struct Effects {
    pub messages: Vec<Outgoing<Place, Message>>,
}

impl Effects {
    /// Sends the message once the records up to there are durable on the sender's disk.
    pub fn send_after(&mut self, to: Place, message: Message, after: Lsn) {
        self.messages.push(Outgoing { to, message, after });
    }
}
