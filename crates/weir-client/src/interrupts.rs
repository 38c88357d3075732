//! Statements of shards of other processes are ended: over connections of their own, which the node answers while its shards compute.
//!
//! Runs on a separate thread: an unreachable node delays nothing else.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Registry, Token};
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_net::cluster_file::Node;
use weir_net::frame::expect;
use weir_net::handshake::{COMPARES_FROM, INTERRUPTS, Terms};
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Connection, Fault, Kind, Link, body};
use weir_types::SqlError;
use weir_types::interrupt::StatementId;

/// A node that has not taken it within this will not.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time-out of the last interrupts when the client ends.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(20);

pub(crate) type Wish = (StatementId, SqlError);

/// Access to the nodes, and threads that deliver interrupts.
pub(crate) struct Interrupter {
    cluster: ClusterFile,
    terms: Terms,
    tls: Option<Tls>,
    threads: Vec<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Interrupter {
    pub(crate) fn new(cluster: &ClusterFile, terms: &Terms, tls: Option<&Tls>) -> Interrupter {
        let versions = COMPARES_FROM.max(*terms.versions.start())..=*terms.versions.end();
        let terms = Terms { versions, protocol: INTERRUPTS.into(), ..terms.clone() };
        let (cluster, tls) = (cluster.clone(), tls.cloned());
        Interrupter { cluster, terms, tls, threads: Vec::new(), is_over: Arc::default() }
    }

    /// Sends the interrupts to other nodes, except to those whose version does not support them. `links`: by shard; none for shards of
    /// this process.
    pub(crate) fn send(&mut self, from: CoordinatorId, links: &[Option<Link>], wishes: Vec<Wish>) {
        if wishes.is_empty() || self.terms.versions.is_empty() {
            return;
        }
        let nodes = self.cluster.nodes.values();
        let far: Vec<(Node, ShardId)> =
            nodes.filter_map(|node| Some((node.clone(), shard_of(node, links)?))).collect();
        if far.is_empty() {
            return;
        }
        self.threads.retain(|thread| !thread.is_finished());
        let link = |(token, (node, shard)): (usize, (Node, ShardId))| {
            let terms = (self.terms.clone(), Arc::default());
            let ends = (Sender::Coordinator(from), shard);
            let link = Link::new(vec![node], ends, terms, self.tls.clone(), Token(token), Instant::now());
            Told { link, has_said: false, is_over: false }
        };
        let all: Vec<Told> = far.into_iter().enumerate().map(link).collect();
        let is_over = self.is_over.clone();
        // Where the system has no thread or no sockets left, statements go on until they end by themselves.
        let run = move || drop(tell(all, &wishes, &is_over));
        self.threads.extend(std::thread::Builder::new().name("interrupts".into()).spawn(run));
    }
}

/// Shard of a node, if the node is another one and supports interrupts. An unknown version is found out when it is dialled.
fn shard_of(node: &Node, links: &[Option<Link>]) -> Option<ShardId> {
    let far = |shard: &ShardId| Some((*shard, links.get(usize::from(*shard))?.as_ref()?.version()));
    let (shard, version) = node.shards.iter().find_map(far)?;
    version.is_none_or(|version| version >= COMPARES_FROM).then_some(shard)
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

struct Told {
    link: Link,
    has_said: bool,
    is_over: bool,
}

fn tell(mut all: Vec<Told>, wishes: &[Wish], is_over: &AtomicBool) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let (mut events, begun) = (Events::with_capacity(64), Instant::now());
    loop {
        let timeouts = if is_over.load(Ordering::Acquire) { LAST_PATIENCE } else { PATIENCE };
        let now = Instant::now();
        all.iter_mut().for_each(|told| told.go_on(wishes, now, poll.registry()));
        if all.iter().all(|told| told.is_over) || begun.elapsed() >= timeouts {
            return Ok(());
        }
        match poll.poll(&mut events, Some(TICK)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            if let Some(told) = all.get_mut(event.token().0) {
                told.link.on_event(event);
            }
        }
    }
}

impl Told {
    fn go_on(&mut self, wishes: &[Wish], now: Instant, registry: &Registry) {
        if self.is_over {
            return;
        }
        self.link.on_time(now, registry);
        self.link.advance(now, registry);
        let is_refused = self.link.fault().is_some_and(Fault::is_refusal);
        let Some(open) = self.link.open() else {
            // Wishes that were sent on a connection that broke are sent again.
            (self.has_said, self.is_over) = (false, is_refused);
            return;
        };
        match say(open, std::mem::replace(&mut self.has_said, true), wishes) {
            Ok(is_over) => self.is_over = is_over,
            Err(fault) => {
                self.has_said = false;
                self.link.fail(fault, now, registry);
            }
        }
    }
}

/// Says whether the other side has taken it.
fn say(open: &mut Connection, has_said: bool, wishes: &[Wish]) -> Result<bool, Fault> {
    if !has_said {
        let pushed = body::push_frames(open.outgoing(), Kind::Interrupt, &(), wishes, usize::MAX);
        pushed.map_err(|(_, fault)| fault)?;
    }
    open.flush()?;
    match open.next_frame()? {
        Some((kind, body)) => expect(Kind::Interrupt, kind, body).map(|()| true),
        None => Ok(false),
    }
}
