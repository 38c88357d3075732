//! Costs from what `weir-ordered-bench` has measured: processor time of a transaction at a party, divided by the messages that the party
//! receives and sends for it. The messages are counted by a simulation of the measured run.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Deserialize;
use weir_baselines::eris::workload::{Kind, Workload};
use weir_ordered::cluster::Timeouts;

use crate::costs::{Cost, Costs, Role};
use crate::link::Network;
use crate::run::run;
use crate::simulation::{Meter, Settings, TICK_NS, Window};

/// Runs that were measured for Weir; the first lines say how.
pub const MEASURED: &str = include_str!("../../../testdata/ordered-costs.jsonl");

/// Share of the distributed transactions in the runs that costs are taken from; `Srw` has none.
const DISTRIBUTED: f64 = 0.2;
/// Share of the distributed transactions in the runs that predictions are compared with.
const ALL_DISTRIBUTED: f64 = 1.0;

/// A line of `weir-ordered-bench`. Processor times are those of a transaction: of all learners together, of one follower in each shard, of
/// others.
#[derive(Clone, Debug, Deserialize)]
pub struct Measured {
    pub protocol: String,
    pub workload: String,
    pub shards: u16,
    pub replicas: u16,
    pub clients: usize,
    pub distributed: f64,
    pub zipf: f64,
    pub loss: f64,
    pub learner_us: f64,
    pub follower_us: f64,
    pub sequencer_us: f64,
}

/// A line of the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Run(Box<Measured>),
    Entry { entry_ns: f64 },
    Note { note: String },
}

/// All runs that were measured.
#[derive(Debug)]
pub struct Calibration {
    runs: Vec<Measured>,
    entry_ns: f64,
    notes: Vec<String>,
    /// Costs that were derived, and messages that were counted, by protocol and workload.
    derived: RefCell<BTreeMap<(String, &'static str), Costs>>,
    counted: RefCell<BTreeMap<(String, &'static str), [Messages; 4]>>,
}

/// Messages of a transaction at all parties of a role.
#[derive(Clone, Copy, Debug, Default)]
struct Messages {
    received: f64,
    sent: f64,
}

/// A measured time beside the predicted one.
#[derive(Clone, Debug)]
pub struct Prediction {
    pub protocol: String,
    pub role: Role,
    pub measured_us: f64,
    pub predicted_us: f64,
}

impl Prediction {
    /// Predicted time beside the measured one, less one.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

impl Calibration {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// A line is none, or there is no run.
    pub fn read(text: &str) -> Result<Calibration, String> {
        let (mut runs, mut notes, mut entry_ns) = (Vec::new(), Vec::new(), None);
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))? {
                Line::Run(measured) => runs.push(*measured),
                Line::Entry { entry_ns: measured } => entry_ns = Some(measured),
                Line::Note { note } => notes.push(note),
            }
        }
        let entry_ns = entry_ns.ok_or("no line has the cost of an entry")?;
        if runs.is_empty() {
            return Err("no line is a run".to_owned());
        }
        Ok(Calibration { runs, entry_ns, notes, derived: RefCell::default(), counted: RefCell::default() })
    }

    /// How it was measured.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The least times of the runs of a protocol with a workload: whatever else a computer does can only add to them.
    fn least(&self, protocol: &str, kind: Kind, distributed: f64) -> Option<Measured> {
        let is_alike = |run: &&Measured| {
            run.protocol == protocol
                && run.workload == kind.name()
                && (run.distributed - distributed).abs() < 1e-9
                && run.zipf == 0.0
                && run.loss == 0.0
        };
        let runs = self.runs.iter().filter(is_alike).cloned();
        runs.reduce(|least, run| Measured {
            learner_us: least.learner_us.min(run.learner_us),
            follower_us: least.follower_us.min(run.follower_us),
            sequencer_us: least.sequencer_us.min(run.sequencer_us),
            ..least
        })
    }

    fn of(&self, protocol: &str, kind: Kind) -> Result<Measured, String> {
        let distributed = if kind == Kind::Srw { 0.0 } else { DISTRIBUTED };
        let none = || format!("no run of {protocol} with {} is there", kind.name());
        self.least(protocol, kind, distributed).ok_or_else(none)
    }

    /// Messages of a transaction in a run that costs are taken from.
    fn messages(&self, measured: &Measured, kind: Kind) -> [Messages; 4] {
        let key = (measured.protocol.clone(), kind.name());
        if let Some(counted) = self.counted.borrow().get(&key) {
            return *counted;
        }
        let counted = messages(measured, kind);
        self.counted.borrow_mut().insert(key, counted);
        counted
    }

    /// The costs of a protocol with a workload.
    ///
    /// # Errors
    /// A run is missing.
    pub fn costs(&self, protocol: &str, kind: Kind) -> Result<Costs, String> {
        let key = (protocol.to_owned(), kind.name());
        if let Some(costs) = self.derived.borrow().get(&key) {
            return Ok(*costs);
        }
        let measured = self.of(protocol, kind)?;
        let counted = self.messages(&measured, kind);
        let each = |role: Role| {
            let Messages { received, sent } = counted[role as usize];
            Cost::of_message(1e3 * time_us(&measured, role) / (received + sent).max(f64::MIN_POSITIVE))
        };
        let mut costs = Costs {
            learner: each(Role::Learner),
            follower: each(Role::Follower),
            sequencer: each(Role::Sequencer),
            // It has too few messages to measure them.
            failure_coordinator: each(Role::Follower),
            entry_ns: self.entry_ns,
        };
        if protocol.starts_with("ordered") {
            self.tell_apart(&mut costs, protocol == "ordered-global", kind)?;
        }
        self.derived.borrow_mut().insert(key, costs);
        Ok(costs)
    }

    /// Ordered transactions and globally ordered ones are the same machines, with more messages of some kinds. So the difference says what
    /// one of these costs: a packet at a replica that has no part in it, and one more copy of a packet at the sequencer.
    fn tell_apart(&self, costs: &mut Costs, is_global: bool, kind: Kind) -> Result<(), String> {
        let (own, global) = (self.of("ordered", kind)?, self.of("ordered-global", kind)?);
        let (own_counts, global_counts) = (self.messages(&own, kind), self.messages(&global, kind));
        let of = |role: Role| {
            let difference_us = time_us(&global, role) - time_us(&own, role);
            (difference_us, own_counts[role as usize], global_counts[role as usize], time_us(&own, role))
        };
        let (more_us, own_messages, global_messages, own_us) = of(Role::Sequencer);
        let send_ns = 1e3 * more_us / (global_messages.sent - own_messages.sent);
        let receive_ns = (1e3 * own_us - send_ns * own_messages.sent) / own_messages.received;
        if send_ns > 0.0 && receive_ns > 0.0 {
            costs.sequencer = Cost { receive_ns, send_ns };
        }
        for (role, cost) in [(Role::Learner, &mut costs.learner), (Role::Follower, &mut costs.follower)] {
            let (more_us, own_messages, global_messages, own_us) = of(role);
            let receive_ns = 1e3 * more_us / (global_messages.received - own_messages.received);
            let send_ns = (1e3 * own_us - receive_ns * own_messages.received) / own_messages.sent;
            if is_global && send_ns > 0.0 && receive_ns > 0.0 {
                *cost = Cost { receive_ns, send_ns };
            }
        }
        Ok(())
    }

    /// Predictions of the runs in which all transactions are distributed, which costs are not taken from.
    ///
    /// # Errors
    /// A run is missing.
    pub fn predictions(&self) -> Result<Vec<Prediction>, String> {
        let mut predictions = Vec::new();
        for protocol in crate::run::PROTOCOLS {
            let Some(measured) = self.least(protocol, Kind::Mrmw, ALL_DISTRIBUTED) else { continue };
            let costs = self.costs(protocol, Kind::Mrmw)?;
            let counted = messages(&measured, Kind::Mrmw);
            for role in [Role::Learner, Role::Follower, Role::Sequencer] {
                let Messages { received, sent } = counted[role as usize];
                let cost = costs.of(role);
                let predicted_us = (received * cost.receive_ns + sent * cost.send_ns) / 1e3;
                let measured_us = time_us(&measured, role);
                if measured_us > 0.0 {
                    let protocol = protocol.to_owned();
                    predictions.push(Prediction { protocol, role, measured_us, predicted_us });
                }
            }
        }
        Ok(predictions)
    }
}

fn time_us(measured: &Measured, role: Role) -> f64 {
    match role {
        Role::Learner => measured.learner_us,
        // All of them, as they are counted.
        Role::Follower => measured.follower_us * f64::from(measured.replicas.max(1) - 1),
        Role::Sequencer => measured.sequencer_us,
        Role::FailureCoordinator => 0.0,
    }
}

/// Keys of the measured runs.
const KEYS: u64 = 100_000;
/// A cost that is the same for all messages: what is counted hardly depends on it.
const ANY_NS: f64 = 500.0;

/// Messages of a transaction in a run like the measured one, by the place in [`Role::ALL`].
fn messages(measured: &Measured, kind: Kind) -> [Messages; 4] {
    let Measured { shards, replicas, clients, distributed, .. } = *measured;
    let settings = Settings {
        workload: Workload { kind, keys: KEYS, shards, distributed, zipf: 0.0 },
        replicas,
        clients,
        seed: 1,
        timeouts: Timeouts::DEFAULT,
        tick_ns: TICK_NS,
        truncate_entries: KEYS,
        network: Network::LAN,
        costs: Costs::of_message(ANY_NS),
        window: Window { least_ns: 1_000_000, most_ns: 100_000_000, answered: 2_000 },
        sequencer_ends_ns: None,
    };
    let outcome = run(&measured.protocol, &settings);
    let answered = outcome.answered.max(1) as f64;
    outcome.meters.map(|Meter { received, sent, .. }| Messages {
        received: received as f64 / answered,
        sent: sent as f64 / answered,
    })
}
