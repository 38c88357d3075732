//! Messages between the processes of agents: packets in frames of weir-net, in postcard.
//!
//! Packets may be lost, late or repeated, and come in any order: the machines expect that. A frame has a bound, and so has a packet.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use weir_conveyor::message::{AgentMessage, Instruction, Report};
use weir_net::body;
use weir_net::frame::{self, Fault, Kind};

use crate::agent_loop::SqlMessage;

/// This build speaks these versions. From one to the next, variants are added at the end of an enum and fields at the end of a body.
pub const VERSIONS: RangeInclusive<u16> = 3..=3;

/// The protocol in a handshake of weir-net. Who connects as a shard is an agent, who connects as a coordinator relays a session.
pub const PROTOCOL: &str = "conveyor";

/// A message between two processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Packet {
    /// From agent to agent.
    Agent(Box<SqlMessage>),
    /// From an agent to a node of the coordinator.
    Report(Report),
    /// From the node of the coordinator that leads to an agent.
    Instruction(Instruction),
    /// Between nodes of the coordinator.
    Raft(Box<weir_raft::message::Message>),
}

/// Adds the packet as a frame. A token that does not fit carries fewer visits: its receiver reads the others from their outboxes.
///
/// # Errors
/// The packet does not fit into a frame.
pub fn push(out: &mut Vec<u8>, packet: &Packet) -> Result<(), Fault> {
    let pushed = frame::push(out, Kind::Peer, |out| body::write(packet, out));
    let (Err(Fault::Length(_)), Packet::Agent(message)) = (&pushed, packet) else { return pushed };
    let AgentMessage::Token(token) = &**message else { return pushed };
    let mut token = token.clone();
    token.carried.clear();
    let bare = Packet::Agent(Box::new(AgentMessage::Token(token)));
    frame::push(out, Kind::Peer, |out| body::write(&bare, out))
}

/// Reads the body of a frame.
///
/// # Errors
/// It is no packet.
pub fn read(mut bytes: &[u8]) -> Result<Packet, Fault> {
    let packet = body::read(Kind::Peer, &mut bytes)?;
    body::is_over(Kind::Peer, bytes)?;
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_conveyor::schema::{OutboxRow, RowChange};
    use weir_conveyor::token::{Token, Visit};

    use super::*;
    use crate::operation::StateUpdate;

    fn token(bytes: usize) -> Packet {
        let row = OutboxRow {
            change: RowChange::Delete,
            key: vec![Some("k".repeat(bytes))],
            columns: Vec::new(),
            values: Vec::new(),
        };
        let mut token = Token::new(3, 8);
        let updates = vec![StateUpdate { rows: vec![("t".into(), row)] }];
        token.carried.push(Arc::new(Visit { number: 7, updates }));
        Packet::Agent(Box::new(AgentMessage::Token(token)))
    }

    fn sent(packet: &Packet) -> Packet {
        let mut bytes = Vec::new();
        push(&mut bytes, packet).unwrap();
        let ((kind, body), taken) = frame::first(&bytes).unwrap().unwrap();
        assert_eq!((kind, taken), (Kind::Peer, bytes.len()));
        read(body).unwrap()
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        for packet in [token(10), Packet::Report(Report::Unpassed { epoch: 2, visit: 9 })] {
            assert_eq!(sent(&packet), packet);
        }
    }

    #[test]
    fn a_token_that_does_not_fit_into_a_frame_carries_no_visits() {
        let Packet::Agent(message) = sent(&token(frame::FRAME_BYTES_MAX)) else { panic!("another packet") };
        let AgentMessage::Token(token) = *message else { panic!("another message") };
        assert_eq!((token.epoch, token.visit, token.carried.len()), (3, 8, 0));
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        assert!(matches!(read(&[99]), Err(Fault::Body(Kind::Peer, _))));
        let mut bytes = Vec::new();
        body::write(&Packet::Report(Report::Unpassed { epoch: 2, visit: 9 }), &mut bytes);
        bytes.push(0);
        assert!(matches!(read(&bytes), Err(Fault::Body(Kind::Peer, _))), "a byte too many");
    }
}
