//! Before a node serves, it asks the other nodes which state of its shards they have seen (docs/internals/old-data.md).
//!
//! The handshake carries the answer. Nodes that are down cannot be asked; they report it when they connect.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tracing::warn;
use weir_core::history::Seen;
use weir_core::ids::Sender;
use weir_net::handshake::Terms;
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Fault, Link};

/// A node that cannot be reached within this is not waited for.
const UNREACHED_MAX: Duration = Duration::from_secs(1);
/// Nor is one that is reached and does not answer within this.
const UNANSWERED_MAX: Duration = Duration::from_secs(6);
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Asking {
    links: Vec<Asked>,
}

/// One of the own shards asks one of another node.
struct Asked {
    node: String,
    link: Link,
    is_over: bool,
}

impl Asking {
    pub(super) fn new(
        cluster: &ClusterFile,
        own: &str,
        (terms, seen): (&Terms, &Arc<Seen>),
        tls: Option<&Tls>,
    ) -> Asking {
        let now = Instant::now();
        let shards = cluster.nodes.get(own).map_or(&[][..], |node| &node.shards);
        let mut links = Vec::new();
        for (name, node) in cluster.nodes.iter().filter(|(name, _)| *name != own) {
            let Some(to) = node.shards.first() else { continue };
            // The data of a group is the majority's, whatever this node has of it.
            for shard in shards.iter().filter(|shard| !cluster.is_group(**shard)) {
                let (ends, token) = ((Sender::Shard(*shard), *to), Token(links.len()));
                let terms = (terms.clone(), seen.clone());
                let link = Link::new(vec![node.clone()], ends, terms, tls.cloned(), token, now);
                links.push(Asked { node: name.clone(), link, is_over: false });
            }
        }
        Asking { links }
    }

    /// Returns whether the data is the newest that any node has seen; if not, the reason.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn ask(mut self) -> io::Result<Result<(), String>> {
        if self.links.is_empty() {
            return Ok(Ok(()));
        }
        let mut poll = Poll::new()?;
        let (mut events, begun) = (Events::with_capacity(64), Instant::now());
        loop {
            let now = Instant::now();
            for asked in self.links.iter_mut().filter(|asked| !asked.is_over) {
                asked.link.on_time(now, poll.registry());
                asked.link.advance(now, poll.registry());
                match asked.judge(begun.elapsed()) {
                    Ok(is_over) => asked.is_over = is_over,
                    Err(why) => return Ok(Err(format!("{why} (node `{}` has seen it)", asked.node))),
                }
            }
            if self.links.iter().all(|asked| asked.is_over) {
                return Ok(Ok(()));
            }
            match poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if let Some(asked) = self.links.get_mut(event.token().0).filter(|asked| !asked.is_over) {
                    asked.link.on_event(event);
                }
            }
        }
    }
}

impl Asked {
    /// Whether it need not be waited for any more.
    fn judge(&mut self, waited: Duration) -> Result<bool, String> {
        if self.link.open().is_some() {
            return Ok(true);
        }
        let fault = match self.link.fault() {
            Some(Fault::Outdated(why)) => return Err(why.clone()),
            Some(fault) if fault.is_refusal() || waited >= UNREACHED_MAX => fault.to_string(),
            None if waited >= UNANSWERED_MAX => "no answer".to_owned(),
            _ => return Ok(false),
        };
        let address = &self.link.node().address;
        warn!(
            node = self.node,
            address,
            reason = fault,
            "whether it has seen newer data of this node cannot be asked"
        );
        Ok(true)
    }
}
