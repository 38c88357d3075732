//! A connection that is dialled, and dialled again whenever it breaks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Registry, Token};
use weir_core::history::Seen;
use weir_core::ids::{Sender, ShardId};

use crate::cluster_file::Node;
use crate::connection::Connection;
use crate::frame::Fault;
use crate::handshake::{Dialer, Nonce, Terms};
use crate::tls::Tls;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// To be connected and to agree.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// Begins the farewell of a member of a replica group that does not lead; the address of the node follows that does.
pub const LED_FROM: &str = "the group's leader is at ";

/// From one party to one shard.
pub struct Link {
    /// The nodes that hold the shard: one, or the members of its group, one of which leads.
    nodes: Vec<Node>,
    /// Which of them is dialled.
    at: usize,
    from: Sender,
    to: ShardId,
    terms: Terms,
    seen: Arc<Seen>,
    tls: Option<Tls>,
    token: Token,
    state: State,
    pause: Duration,
    /// Why it is not open.
    fault: Option<Fault>,
    /// The state has changed since it was last reported.
    is_news: bool,
    /// Number of times that the link was open.
    openings: u64,
}

/// Interval at which it is looked whether a name has become an address.
const RESOLVING: Duration = Duration::from_millis(20);

enum State {
    /// Until then.
    Pausing(Instant),
    /// A separate thread resolves the name, which may take seconds.
    Resolving(Receiver<Result<SocketAddr, String>>),
    /// Until then, or it has failed.
    Dialling(Box<Connection>, Dialer, Instant),
    Open(Box<Connection>),
}

impl Link {
    /// # Panics
    /// There are no nodes.
    pub fn new(
        nodes: Vec<Node>,
        (from, to): (Sender, ShardId),
        (terms, seen): (Terms, Arc<Seen>),
        tls: Option<Tls>,
        token: Token,
        now: Instant,
    ) -> Link {
        assert!(!nodes.is_empty(), "every shard is on a node");
        Link {
            nodes,
            at: 0,
            from,
            to,
            terms,
            seen,
            tls,
            token,
            state: State::Pausing(now),
            pause: FIRST_PAUSE,
            fault: None,
            is_news: false,
            openings: 0,
        }
    }

    /// Number of times that it has been open: messages of before may be lost.
    pub fn openings(&self) -> u64 {
        self.openings
    }

    /// Open, and what is written may be sent.
    pub fn open(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Open(connection) => Some(connection),
            _ => None,
        }
    }

    /// Agreed protocol version, if the link is open.
    pub fn version(&self) -> Option<u16> {
        match &self.state {
            State::Open(connection) => Some(connection.version()),
            _ => None,
        }
    }

    /// Why it is not open, if it has failed since it was.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The fault, once for every new reason.
    pub fn news(&mut self) -> Option<Fault> {
        std::mem::take(&mut self.is_news).then(|| self.fault.clone()).flatten()
    }

    /// The node that is dialled.
    pub fn node(&self) -> &Node {
        &self.nodes[self.at]
    }

    pub fn on_event(&mut self, event: &Event) {
        match &mut self.state {
            State::Pausing(_) | State::Resolving(_) => {}
            State::Dialling(connection, ..) | State::Open(connection) => connection.on_event(event),
        }
    }

    /// Dials when that is due. Gives when it is to be called again, if nothing happens before.
    pub fn on_time(&mut self, now: Instant, registry: &Registry) -> Option<Instant> {
        match &self.state {
            State::Pausing(until) if *until > now => return Some(*until),
            State::Pausing(_) => match self.node().literal() {
                Some(address) => self.dial(address, now, registry),
                None => match self.node().resolve_apart() {
                    Ok(resolving) => self.state = State::Resolving(resolving),
                    Err(why) => self.fail(Fault::Io(why), now, registry),
                },
            },
            State::Resolving(resolving) => match resolving.try_recv() {
                Ok(Ok(address)) => self.dial(address, now, registry),
                Ok(Err(why)) => self.fail(Fault::Io(why), now, registry),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    self.fail(Fault::Io("its name was not looked up".into()), now, registry);
                }
            },
            State::Dialling(_, _, until) if *until <= now => {
                self.fail(Fault::Io("no answer in time".into()), now, registry);
            }
            State::Dialling(..) | State::Open(_) => {}
        }
        match &self.state {
            State::Pausing(until) | State::Dialling(_, _, until) => Some(*until),
            State::Resolving(_) => Some(now + RESOLVING),
            State::Open(_) => None,
        }
    }

    fn dial(&mut self, address: SocketAddr, now: Instant, registry: &Registry) {
        match self.connect(address, registry) {
            Ok((connection, dialer)) => {
                self.state = State::Dialling(Box::new(connection), dialer, now + HANDSHAKE_MAX);
            }
            Err(fault) => self.fail(fault, now, registry),
        }
    }

    fn connect(&self, address: SocketAddr, registry: &Registry) -> Result<(Connection, Dialer), Fault> {
        let tls = match &self.tls {
            Some(tls) => Some(tls.dial(self.node().host()).map_err(Fault::Io)?),
            None => None,
        };
        let mut connection = Connection::dialled(TcpStream::connect(address)?, tls);
        connection.register(registry, self.token)?;
        let hello = connection.outgoing();
        let dialer =
            Dialer::begin((self.terms.clone(), self.seen.clone()), self.from, self.to, nonce()?, hello);
        Ok((connection, dialer))
    }

    /// Reads what has come, and goes on with the handshake.
    pub fn advance(&mut self, now: Instant, registry: &Registry) {
        let advanced = match &mut self.state {
            State::Pausing(_) | State::Resolving(_) => return,
            State::Open(connection) => connection.fill().map(|()| false),
            State::Dialling(connection, dialer, _) => shake(connection, dialer),
        };
        match advanced {
            Ok(false) => {}
            Ok(true) => {
                let State::Dialling(connection, ..) = std::mem::replace(&mut self.state, State::Pausing(now))
                else {
                    unreachable!("only who dials comes to an agreement")
                };
                self.state = State::Open(connection);
                self.pause = FIRST_PAUSE;
                self.openings += 1;
                self.fault = None;
            }
            Err(fault) => self.fail(fault, now, registry),
        }
    }

    /// Ends the connection; it is dialled again after a pause.
    pub fn fail(&mut self, fault: Fault, now: Instant, registry: &Registry) {
        let state = std::mem::replace(&mut self.state, State::Pausing(now + self.pause));
        if let State::Dialling(mut connection, ..) | State::Open(mut connection) = state {
            connection.say_goodbye(&fault);
            // It is closed either way.
            let _ = connection.deregister(registry);
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if self.turn(&fault) {
            // It is known to be up, and the pause is for nodes that are not.
            self.state = State::Pausing(now);
            self.pause = FIRST_PAUSE;
        }
        self.is_news |= self.fault.as_ref() != Some(&fault);
        self.fault = Some(fault);
    }
}

impl Link {
    /// Turns to the node that is said to lead, or to the next one. Returns whether a leader is named.
    fn turn(&mut self, fault: &Fault) -> bool {
        let named = match fault {
            Fault::Farewell(said) => said.strip_prefix(LED_FROM),
            _ => None,
        };
        let leader = self.nodes.iter().position(|node| named == Some(node.address.as_str()));
        let is_other = leader.is_some_and(|leader| leader != self.at);
        self.at = leader.unwrap_or((self.at + 1) % self.nodes.len());
        is_other
    }
}

/// True once both sides have agreed.
fn shake(connection: &mut Connection, dialer: &Dialer) -> Result<bool, Fault> {
    if !connection.is_connected()? {
        return Ok(false);
    }
    connection.fill()?;
    let mut said = Vec::new();
    let agreed = match connection.next_frame()? {
        Some((kind, body)) => Some(dialer.on_frame(kind, body, &mut said)?),
        None => None,
    };
    if let Some(agreed) = agreed {
        connection.set_version(agreed.version);
    }
    connection.outgoing().append(&mut said);
    connection.flush()?;
    Ok(agreed.is_some())
}

/// # Errors
/// The system has no randomness to give.
pub fn nonce() -> Result<Nonce, Fault> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(|error| Fault::Io(error.to_string()))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_turns_to_the_leader_or_to_the_next_node() {
        let node = |address: &str| Node { address: address.into(), shards: vec![0] };
        let terms =
            Terms { versions: 1..=1, protocol: "items".into(), shards: 1, placement: 0, secret: Vec::new() };
        let nodes = vec![node("a:1"), node("b:1"), node("c:1")];
        let ends = (Sender::Coordinator(1), 0);
        let mut link = Link::new(nodes, ends, (terms, Arc::default()), None, Token(0), Instant::now());
        let led_from = |address: &str| Fault::Farewell(format!("{LED_FROM}{address}"));
        assert!(link.turn(&led_from("c:1")) && link.node().address == "c:1");
        assert!(!link.turn(&led_from("d:1")) && link.node().address == "a:1", "no node of this group");
        assert!(!link.turn(&Fault::Io("refused".into())) && link.node().address == "b:1");
        assert!(!link.turn(&led_from("b:1")) && link.node().address == "b:1");
    }
}
