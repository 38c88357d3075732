//! The part of an agent in changes of the map of slots: it reads the map, takes everything of another server if its own was added, and says when
//! that has joined. A thread of its own asks databases, so that the loop of the agent waits for none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;
use weir_conveyor::routing::{MapChange, Routing};

use crate::agent_loop::{AgentEvent, AgentSender, Window};
use crate::map_change::map_of;
use crate::operation::{Job, MapJob};
use crate::workers::Databases;

/// Interval at which the view of the agent is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Interval at which a server that is no member asks the others whether it was added, and one that was added says that it has joined.
const ASK: Duration = Duration::from_millis(500);

/// The map as an agent knows it.
#[derive(Clone)]
pub struct Membership(Arc<State>);

struct State {
    routing: RwLock<Arc<Routing>>,
    ends: AtomicBool,
}

impl Membership {
    /// `first`: until the database has said which map it has.
    pub fn new(first: Routing) -> Membership {
        Membership(Arc::new(State { routing: RwLock::new(Arc::new(first)), ends: AtomicBool::new(false) }))
    }

    pub fn routing(&self) -> Arc<Routing> {
        self.0.routing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The thread of [`Membership::watch`] ends.
    pub fn stop(&self) {
        self.0.ends.store(true, Ordering::SeqCst);
    }

    /// Follows the map until it is told to stop.
    pub(crate) fn watch(
        &self,
        server: ServerId,
        databases: &Databases,
        window: &Window,
        agent: &AgentSender,
    ) {
        let mut asked = Instant::now();
        while !self.0.ends.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
            let view = window.look();
            if view.map > self.routing().version {
                self.read(&databases.config(server));
            }
            if asked.elapsed() < ASK {
                continue;
            }
            asked = Instant::now();
            if view.is_absent {
                if let Some(from) = self.added_at(server, databases) {
                    let _ = agent.send(AgentEvent::Added(from));
                }
            } else if self.routing().joining.contains(server) && view.ring.contains(&server) {
                let change = MapChange::Joined;
                let job = Job::Map(MapJob { change, tables: Vec::new(), sequences: Vec::new() });
                let reply = Box::new(|outcome| tracing::info!(?outcome, "the server joins"));
                let _ = agent.send(AgentEvent::Request(Placement::Global(server), job, reply));
            }
        }
    }

    fn read(&self, config: &str) {
        match map_of(config) {
            Ok(Some(routing)) => {
                tracing::info!(version = routing.version, "the map of slots has changed");
                *self.0.routing.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routing);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("the map of slots cannot be read: {error}"),
        }
    }

    /// A server that has everything, and by whose map this one is a member.
    fn added_at(&self, server: ServerId, databases: &Databases) -> Option<ServerId> {
        let others = databases.configs.iter().filter(|(other, _)| **other != server);
        others.into_iter().find_map(|(other, config)| {
            let map = map_of(config).ok()??;
            let is_newer = map.version > self.routing().version;
            (is_newer && map.has_joined(*other) && !map.absent.contains(server)).then_some(*other)
        })
    }
}
