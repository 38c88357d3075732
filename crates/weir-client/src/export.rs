//! All that a shard has, fetched whole: for checks of a cluster at rest.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use serde::de::DeserializeOwned;
use weir_net::frame::{self, expect};
use weir_net::handshake::Terms;
use weir_net::{ClusterFile, Fault, Kind, Link};
use weir_txn::machine::Sender;
use weir_txn::ramp::ShardId;

use crate::carrier::new_id;

/// The record that a shard of that kind starts from, as it stands.
///
/// # Errors
/// The shard cannot be reached within the patience, or what it sends cannot be read.
pub fn export<R: DeserializeOwned>(
    cluster: &ClusterFile,
    terms: &Terms,
    shard: ShardId,
    patience: Duration,
) -> io::Result<R> {
    let tls = cluster.load_tls().map_err(io::Error::other)?;
    let until = Instant::now() + patience;
    let mut poll = Poll::new()?;
    let ends = (Sender::Coordinator(new_id()?), shard);
    let node = cluster.holder(shard).clone();
    let mut link = Link::new(node, ends, terms.clone(), tls, Token(0), Instant::now());
    let (mut events, mut bytes, mut asked) = (Events::with_capacity(8), Vec::new(), false);
    loop {
        let now = Instant::now();
        if now > until || link.fault().is_some_and(Fault::is_refusal) {
            let why = link.fault().map_or("no answer in time".to_owned(), Fault::to_string);
            return Err(io::Error::other(format!("shard {shard} at {}: {why}", link.node().address)));
        }
        link.on_time(now, poll.registry());
        poll.poll(&mut events, Some(Duration::from_millis(20)))?;
        events.iter().for_each(|event| link.on_event(event));
        loop {
            link.advance(now, poll.registry());
            let Some(open) = link.open() else {
                // Whatever had come of it begins again with the connection.
                (asked, bytes) = (false, Vec::new());
                break;
            };
            if !asked {
                frame::push(open.outgoing(), Kind::Export, |_| ()).map_err(io::Error::other)?;
                asked = true;
            }
            let mut take = || -> Result<bool, Fault> {
                open.flush()?;
                while let Some((kind, body)) = open.next_frame()? {
                    // What the shard has to say to a coordinator that asks nothing is of no interest.
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
            };
            match take() {
                Ok(true) => return postcard::from_bytes(&bytes).map_err(io::Error::other),
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
