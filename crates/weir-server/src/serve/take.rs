//! Handles one frame of an authenticated peer: parses it, validates it, and passes it to the shard.
//!
//! Has no socket, so that tests can pass arbitrary frames.

use serde::de::DeserializeOwned;
use weir_core::history::{Mark, Seen};
use weir_core::ids::{Sender, ShardId};
use weir_core::machine::Exposed;
use weir_net::body::{self, ATTACHES_FROM};
use weir_net::frame::{Frame, expect};
use weir_net::handshake::COMPARES_FROM;
use weir_net::{Fault, Kind};

/// Remaining work after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Done,
    /// The peer has requested all rows of the shard.
    Export,
}

/// `step`: what it is to do with each request. `version`: that the peer speaks. `seen`: where it is put what others have seen of histories.
///
/// # Errors
/// Why the connection ends. What came before the fault has been done; a coordinator says it again, and shards know what comes
/// again.
pub(super) fn take<S>(
    shard: &mut S,
    (now_ms, shards, seen): (u64, ShardId, &Seen),
    (from, version): (Sender, u16),
    (kind, mut body): Frame<'_>,
    mut step: impl FnMut(&mut S, S::Request),
) -> Result<Taken, Fault>
where
    S: Exposed,
    S::Request: DeserializeOwned,
    S::Progress: DeserializeOwned,
{
    let believe = |refused: Option<&str>| refused.map_or(Ok(()), |why| Err(Fault::sense(why)));
    match from {
        Sender::Coordinator(_) if kind == Kind::Export => {
            return match body.len() {
                0 => Ok(Taken::Export),
                _ => Err(Fault::sense("an Export frame with a body")),
            };
        }
        Sender::Coordinator(coordinator) => {
            expect(Kind::Requests, kind, body)?;
            let progress = body::read(kind, &mut body)?;
            if version >= COMPARES_FROM {
                let news: Vec<(ShardId, Vec<Mark>)> = body::read(kind, &mut body)?;
                if news.iter().any(|(shard, _)| *shard >= shards) {
                    return Err(Fault::sense("it has seen a shard that does not exist"));
                }
                news.iter().for_each(|(shard, marks)| seen.hear(*shard, marks));
            }
            believe(shard.refuses(&progress))?;
            shard.on_progress(now_ms, coordinator, progress);
        }
        Sender::Shard(other) => {
            expect(Kind::Peer, kind, body)?;
            if version >= COMPARES_FROM {
                let told: Option<Mark> = body::read(kind, &mut body)?;
                seen.hear(other, told.as_slice());
            }
        }
    }
    let attaches = version >= ATTACHES_FROM && matches!(from, Sender::Coordinator(_));
    while !body.is_empty() {
        let mut request = body::read(kind, &mut body)?;
        if attaches {
            believe(S::attach(&mut request, body::read(kind, &mut body)?))?;
        }
        believe(shard.refuses_request(from, &request, shards))?;
        step(shard, request);
    }
    Ok(Taken::Done)
}

#[cfg(test)]
mod tests;
