//! What a step of a server costs: processor time for the message that it receives, and for each message that it sends.

use weir_baselines::eris::{granola, lock_store, nt_ur, tapir};
use weir_ordered::message::Message;

/// Parties that costs are measured of. Every other party costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A designated learner, or the leader of a replica group.
    Learner,
    Follower,
    Sequencer,
    FailureCoordinator,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Learner, Role::Follower, Role::Sequencer, Role::FailureCoordinator];
}

/// Processor time of messages at a party, in nanoseconds. It includes what the machine does with them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub receive_ns: f64,
    pub send_ns: f64,
}

impl Cost {
    /// The same for a message that is received and for one that is sent.
    pub fn of_message(ns: f64) -> Cost {
        Cost { receive_ns: ns, send_ns: ns }
    }
}

/// Costs of a protocol with a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    pub learner: Cost,
    pub follower: Cost,
    pub sequencer: Cost,
    pub failure_coordinator: Cost,
    /// For each entry of a log that a message carries, in addition.
    pub entry_ns: f64,
}

impl Costs {
    /// All messages at all parties cost the same.
    pub fn of_message(ns: f64) -> Costs {
        let cost = Cost::of_message(ns);
        Costs { learner: cost, follower: cost, sequencer: cost, failure_coordinator: cost, entry_ns: 0.0 }
    }

    pub fn of(&self, role: Role) -> Cost {
        match role {
            Role::Learner => self.learner,
            Role::Follower => self.follower,
            Role::Sequencer => self.sequencer,
            Role::FailureCoordinator => self.failure_coordinator,
        }
    }

    /// Service time of a step that has received and sent so many messages, which carry so many entries of logs.
    pub fn step_ns(&self, role: Role, step: Step) -> u64 {
        let cost = self.of(role);
        let ns = step.received as f64 * cost.receive_ns
            + step.sent as f64 * cost.send_ns
            + step.entries as f64 * self.entry_ns;
        ns.round() as u64
    }
}

/// Counts of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub received: u64,
    pub sent: u64,
    /// Entries of logs in the messages that are received and sent.
    pub entries: u64,
}

/// Who gives packets their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencerKind {
    /// A switch at the rate of the network, as eris.txt §5.4 intends: it costs nothing.
    Switch,
    /// The network processor of eris.txt §5.4: 6.19 million packets a second, however many copies leave.
    Middlebox,
    /// A process on one core, at its measured cost.
    Software,
}

/// Packets that the network processor of eris.txt §5.4 takes in a second.
const MIDDLEBOX_PACKETS: f64 = 6.19e6;

impl SequencerKind {
    /// Whether every packet comes by it anyway. A process is on a machine of its own.
    pub fn is_on_path(self) -> bool {
        self != SequencerKind::Software
    }

    /// The costs with this sequencer in the place of the measured one.
    pub fn applied(self, costs: Costs) -> Costs {
        let sequencer = match self {
            SequencerKind::Switch => Cost::default(),
            SequencerKind::Middlebox => Cost { receive_ns: 1e9 / MIDDLEBOX_PACKETS, send_ns: 0.0 },
            SequencerKind::Software => costs.sequencer,
        };
        Costs { sequencer, ..costs }
    }
}

/// A message whose cost grows with the logs that it carries.
pub trait CarriesLog {
    /// Entries of logs in the message.
    fn entries(&self) -> u64 {
        0
    }
}

impl CarriesLog for nt_ur::Message {}
impl CarriesLog for lock_store::Message {}
impl CarriesLog for granola::Message {}
impl CarriesLog for tapir::Message {}

impl<O: Clone, R, S> CarriesLog for Message<O, R, S> {
    fn entries(&self) -> u64 {
        let log = match self {
            Message::EpochState { log, .. }
            | Message::StartEpoch { log, .. }
            | Message::State { log, .. } => log,
            Message::ViewChange { state, .. } | Message::StartView { state, .. } => &state.log,
            _ => return 0,
        };
        log.end() - log.base()
    }
}
