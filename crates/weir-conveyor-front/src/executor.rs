//! Runs the transactions of sessions: an agent does, or, for a pure pass-through, the pool of connections to one server alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;
use weir_conveyor::routing::Routing;
use weir_conveyor_net::agent_loop::{AgentView, Reply};
use weir_conveyor_net::operation::MapJob;
use weir_conveyor_net::pass_through::PassThrough;
use weir_conveyor_net::process::{AgentProcess, CoordinatorView, OpenTransaction};
use weir_conveyor_net::sessions::{Replies, SessionStart};

/// Runs transactions.
pub trait Executor: Send + Sync {
    fn open(&self, placement: Placement, start: SessionStart, replies: Replies) -> OpenTransaction;

    /// None: there is no agent.
    fn view(&self) -> Option<AgentView>;

    /// None: this process has no node of the coordinator.
    fn coordinator(&self) -> Option<CoordinatorView>;

    /// The map of slots. None: there is no agent.
    fn routing(&self) -> Option<Arc<Routing>>;

    /// Has a server change the map. Returns whether there is an agent that asks it.
    fn change_map(&self, by: ServerId, job: MapJob, reply: Reply) -> bool;
}

impl Executor for AgentProcess {
    fn open(&self, placement: Placement, start: SessionStart, replies: Replies) -> OpenTransaction {
        AgentProcess::open(self, placement, start, replies)
    }

    fn view(&self) -> Option<AgentView> {
        Some(AgentProcess::view(self))
    }

    fn coordinator(&self) -> Option<CoordinatorView> {
        AgentProcess::coordinator(self)
    }

    fn routing(&self) -> Option<Arc<Routing>> {
        Some(AgentProcess::routing(self))
    }

    fn change_map(&self, by: ServerId, job: MapJob, reply: Reply) -> bool {
        AgentProcess::change_map(self, by, job, reply);
        true
    }
}

impl Executor for PassThrough {
    fn open(&self, _: Placement, start: SessionStart, replies: Replies) -> OpenTransaction {
        PassThrough::open(self, start, replies)
    }

    fn view(&self) -> Option<AgentView> {
        None
    }

    fn coordinator(&self) -> Option<CoordinatorView> {
        None
    }

    fn routing(&self) -> Option<Arc<Routing>> {
        None
    }

    fn change_map(&self, _: ServerId, _: MapJob, _: Reply) -> bool {
        false
    }
}

/// Names of prepared statements at servers: no two texts of a deployment have one.
#[derive(Debug)]
pub struct Names {
    prefix: String,
    next: AtomicU64,
}

impl Names {
    /// `start`: of the agent, so that names of an earlier start mean nothing.
    pub fn new(server: ServerId, start: u64) -> Names {
        Names { prefix: format!("weir_{server}_{start}_"), next: AtomicU64::new(0) }
    }

    pub fn next(&self) -> String {
        format!("{}{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// An executor, shared.
pub type SharedExecutor = Arc<dyn Executor>;
