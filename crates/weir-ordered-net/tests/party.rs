//! A party as a process: this test binary, started again with [`VARIABLE`].
//!
//! It answers each line of its input with its state, ends with what it has noted durable when its input ends, and may be killed at any time.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_ordered::cluster::ReplicaId;
use weir_ordered_net::disk::DiskSettings;
use weir_ordered_net::driver::{Machine, PartyError, Running};
use weir_ordered_net::transport::{Counts, Loss, Transport};
use weir_ordered_net::{Members, coordinator, replica, sequencer};
use weir_server::serve::Durability;

use crate::chance::Chance;
use crate::world::application::ByteRegisters;

/// The party that the process plays, as JSON.
pub const VARIABLE: &str = "WEIR_ORDERED_PARTY";
/// Begins each line of the party's output that is meant for the test.
pub const MARK: &str = "seen>";

/// A party of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// The node of that number.
    Coordinator(u8),
    /// At that place.
    Sequencer(u8),
    Replica(ReplicaId),
}

/// The party that a process plays.
#[derive(Serialize, Deserialize)]
pub struct Order {
    pub members: Members,
    pub role: Role,
    pub directory: PathBuf,
    pub snapshot_after: u64,
    /// Datagrams that are lost on their way in, per mille.
    pub lost: u32,
    pub seed: u64,
}

/// State of a party.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub epoch: u64,
    pub view: u64,
    pub is_normal: bool,
    pub base: u64,
    pub end: u64,
    pub synchronized: u64,
    pub executed: u64,
    pub is_durable: bool,
    pub packets_sent: u64,
    pub replies_sent: u64,
    pub others_sent: u64,
    pub streamed: u64,
    pub lost: u64,
}

impl Seen {
    fn with(self, counts: Counts, is_durable: bool) -> Seen {
        Seen {
            is_durable,
            packets_sent: counts.packets_sent,
            replies_sent: counts.replies_sent,
            others_sent: counts.others_sent,
            streamed: counts.streamed,
            lost: counts.lost,
            ..self
        }
    }
}

/// The disk of a party.
pub fn disk(directory: PathBuf, snapshot_after: u64) -> DiskSettings {
    DiskSettings { directory, durability: Durability::Sync, snapshot_after }
}

/// Loses some of the datagrams.
pub fn loss(per_mille: u32, seed: u64) -> Option<Loss> {
    let mut chance = Chance::from_seed(seed);
    (per_mille > 0).then(|| Box::new(move || chance.per_mille(per_mille)) as Loss)
}

#[test]
#[ignore = "a process of the other tests"]
fn process() {
    let Ok(order) = std::env::var(VARIABLE) else { return };
    let order: Order = serde_json::from_str(&order).unwrap();
    let members = Arc::new(order.members);
    let disk = disk(order.directory, order.snapshot_after);
    let loss = loss(order.lost, order.seed);
    match order.role {
        Role::Coordinator(number) => {
            let running = coordinator::start(members, number, &disk, loss).unwrap();
            obey(running, |machine| Seen {
                epoch: machine.applied().epoch(),
                is_normal: machine.leading().is_some(),
                ..Seen::default()
            })
        }
        Role::Sequencer(place) => obey(sequencer::start(members, place, loss).unwrap(), |_| Seen::default()),
        Role::Replica(id) => {
            let application = ByteRegisters::new(id.shard);
            let running = replica::start(members, id, application, &disk, loss).unwrap();
            obey(running, |machine| Seen {
                epoch: machine.epoch(),
                view: machine.view(),
                is_normal: machine.status() == weir_ordered::replica::Status::Normal,
                base: machine.log().base(),
                end: machine.log().end(),
                synchronized: machine.synchronized(),
                executed: machine.executed(),
                ..Seen::default()
            })
        }
    }
    .unwrap();
}

/// Shows the party whenever it is asked to.
fn obey<M: Machine>(running: Running<M>, see: fn(&M) -> Seen) -> Result<(), PartyError> {
    for line in stdin().lock().lines() {
        line?;
        let look = move |machine: &M, transport: &Transport, is_durable| {
            see(machine).with(transport.counts(), is_durable)
        };
        let Some(seen) = running.look(look) else { return Err(running.wait()) };
        println!("{MARK}{}", serde_json::to_string(&seen).unwrap());
        stdout().flush()?;
    }
    running.stop().map(drop)
}
