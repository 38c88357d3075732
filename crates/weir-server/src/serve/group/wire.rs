//! What members say on their connections: a stream of messages, each with its length, in frames.

use serde::{Deserialize, Serialize};
use weir_net::{Fault, Kind, frame};
use weir_raft::message::Message;
use weir_raft::{CheckpointHead, Place};

/// Largest part of the stream in a frame.
const FRAME_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// A message of a member to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Wire {
    /// The first message on a connection: who speaks.
    Introduce(Place),
    Member(Message),
    /// The leader has that checkpoint, of so many bytes.
    Has(CheckpointHead, u64),
    /// The sender wants a part of the receiver's checkpoint of that index, from that offset on.
    Fetch {
        index: u64,
        offset: u64,
    },
    /// A part of it, of a file of that length. A file of no length: there is no such checkpoint any more.
    Part {
        index: u64,
        offset: u64,
        length: u64,
        bytes: Vec<u8>,
    },
}

/// Adds the message to what is sent.
pub(super) fn push(out: &mut Vec<u8>, message: &Wire) -> Result<(), Fault> {
    let mut bytes = vec![0; LENGTH_BYTES];
    bytes = postcard::to_extend(message, bytes).expect("memory takes all");
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).map_err(|_| Fault::Length(bytes.len()))?;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes.chunks(FRAME_BYTES).try_for_each(|chunk| frame::push(out, Kind::Peer, |out| out.extend(chunk)))
}

/// Takes the first message off the stream, if it is whole.
pub(super) fn take(stream: &mut Vec<u8>) -> Result<Option<Wire>, Fault> {
    let Some((length, rest)) = stream.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let message = postcard::from_bytes(body).map_err(|error| Fault::Body(Kind::Peer, error.to_string()))?;
    stream.drain(..LENGTH_BYTES + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_from_a_stream_that_is_cut_anywhere() {
        let part = |bytes| Wire::Part { index: 3, offset: 0, length: bytes, bytes: vec![7; bytes as usize] };
        let messages = [Wire::Introduce(2), part(3 << 20), Wire::Fetch { index: 3, offset: 9 }];
        let mut out = Vec::new();
        messages.iter().for_each(|message| push(&mut out, message).unwrap());
        let (mut rest, mut stream, mut back) = (&out[..], Vec::new(), Vec::new());
        while let Some(((kind, body), taken)) = frame::first(rest).unwrap() {
            assert_eq!(kind, Kind::Peer);
            stream.extend(body);
            while let Some(message) = take(&mut stream).unwrap() {
                back.push(message);
            }
            rest = &rest[taken..];
        }
        assert_eq!((back, stream.len()), (messages.to_vec(), 0));
        assert!(take(&mut vec![1, 0, 0, 0, 99]).is_err(), "no message");
    }
}
