//! Messages that a transport carries, of any protocol: the comparators of ordered transactions have messages of their own.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::Cluster;
use crate::message::Message;

/// A message that a transport carries.
pub trait Carried: Serialize + DeserializeOwned + Sized + Send + 'static {
    /// # Errors
    /// The message makes no sense in this cluster.
    fn check(&self, _cluster: &Cluster) -> Result<(), &'static str> {
        Ok(())
    }
    /// Returns whether both have the same bytes. It may say no although they have.
    fn is_alike(&self, _other: &Self) -> bool {
        false
    }
    /// Its kind, for the counts of a transport.
    fn kind(&self) -> MessageKind {
        MessageKind::Other
    }
}

/// Kinds of messages that a transport counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    Submit,
    Packet,
    Reply,
    Other,
}

impl<O, R, S> Carried for Message<O, R, S>
where
    Message<O, R, S>: Serialize + DeserializeOwned + Send + 'static,
    O: Clone,
{
    fn check(&self, cluster: &Cluster) -> Result<(), &'static str> {
        cluster.check_message(self)
    }

    /// The same packet of a sequencer, for different replicas.
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Message::Packet(a), Message::Packet(b)) => {
                Arc::ptr_eq(&a.transaction, &b.transaction)
                    && a.stamp == b.stamp
                    && a.client_floor == b.client_floor
            }
            _ => false,
        }
    }

    fn kind(&self) -> MessageKind {
        match self {
            Message::Submit(_) => MessageKind::Submit,
            Message::Packet(_) => MessageKind::Packet,
            Message::Reply(_) => MessageKind::Reply,
            _ => MessageKind::Other,
        }
    }
}
