//! Bulk answers of a node: all rows of a shard, for checks of a cluster at rest; or the description of the cluster's application.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use serde::de::DeserializeOwned;
use weir_core::ids::{Sender, ShardId};
use weir_net::frame::{self, expect};
use weir_net::handshake::Terms;
use weir_net::{ClusterFile, Fault, Kind, Link};

use crate::carrier::new_id;

/// The record that a shard of that kind starts from, as it stands.
///
/// # Errors
/// The shard cannot be reached within the patience, or what it sends cannot be read.
pub fn export<R: DeserializeOwned>(
    cluster: &ClusterFile,
    terms: &Terms,
    shard: ShardId,
    timeouts: Duration,
) -> io::Result<R> {
    let bytes = fetch(cluster, terms, shard, What::Shard, timeouts).map_err(|why| match why {
        NotFetched::Refused(why) | NotFetched::Failed(why) => io::Error::other(why),
    })?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// All that the shard has. It is asked for.
    Shard,
    /// The description; the handshake's terms request it.
    Description,
}

pub(crate) enum NotFetched {
    /// Trying again will not help.
    Refused(String),
    Failed(String),
}

/// # Errors
/// It cannot be had within the patience.
pub(crate) fn fetch(
    cluster: &ClusterFile,
    terms: &Terms,
    shard: ShardId,
    what: What,
    timeouts: Duration,
) -> Result<Vec<u8>, NotFetched> {
    let failed = |error: io::Error| NotFetched::Failed(error.to_string());
    let tls = cluster.load_tls().map_err(NotFetched::Refused)?;
    let until = Instant::now() + timeouts;
    let mut poll = Poll::new().map_err(failed)?;
    let ends = (Sender::Coordinator(new_id().map_err(failed)?), shard);
    let nodes = cluster.holders(shard);
    let terms = (terms.clone(), Arc::default());
    let mut link = Link::new(nodes, ends, terms, tls, Token(0), Instant::now());
    let (mut events, mut bytes, mut asked) = (Events::with_capacity(8), Vec::new(), false);
    loop {
        let now = Instant::now();
        let is_refused = link.fault().is_some_and(Fault::is_refusal);
        if now > until || is_refused {
            let why = link.fault().map_or("no answer in time".to_owned(), Fault::to_string);
            let why = format!("shard {shard} at {}: {why}", link.node().address);
            return Err(if is_refused { NotFetched::Refused(why) } else { NotFetched::Failed(why) });
        }
        link.on_time(now, poll.registry());
        match poll.poll(&mut events, Some(Duration::from_millis(20))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(failed(error)),
            _ => events.iter().for_each(|event| link.on_event(event)),
        }
        loop {
            link.advance(now, poll.registry());
            let Some(open) = link.open() else {
                // A new connection starts the transfer again.
                (asked, bytes) = (false, Vec::new());
                break;
            };
            if !asked && what == What::Shard {
                let said = frame::push(open.outgoing(), Kind::Export, |_| ());
                said.map_err(|fault| NotFetched::Failed(fault.to_string()))?;
            }
            asked = true;
            match take_parts(open, &mut bytes) {
                Ok(true) => return Ok(bytes),
                Ok(false) if open.is_readable() => {}
                Ok(false) => break,
                Err(fault) => {
                    link.fail(fault, now, poll.registry());
                    break;
                }
            }
        }
    }
}

/// Says whether it was all.
fn take_parts(open: &mut weir_net::Connection, bytes: &mut Vec<u8>) -> Result<bool, Fault> {
    open.flush()?;
    while let Some((kind, body)) = open.next_frame()? {
        // Messages of the shard to a coordinator that asks nothing are of no interest.
        if kind == Kind::Replies {
            continue;
        }
        expect(Kind::Exported, kind, body)?;
        if body.is_empty() {
            return Ok(true);
        }
        bytes.extend(body);
    }
    Ok(false)
}
