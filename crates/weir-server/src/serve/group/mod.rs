//! A member of a replica group on this node: its thread, its disk, its connections, and the shard's machine while it leads
//! (docs/internals/replica-groups.md).
//!
//! Which member leads and what is committed is decided by `weir-raft`.

mod disk;
mod fetch;
mod links;
pub(super) mod log;
mod member_loop;
mod wire;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use mio::Waker;
use serde::de::DeserializeOwned;
use weir_core::ids::ShardId;
use weir_net::Connection;
use weir_types::interrupt::Interrupts;

use super::ServeError;
use super::log::{LogError, LogFigures, Parts};
use super::shard_loop::{Arrival, Inbox};
pub(super) use disk::DiskRecord;
use disk::MachineRecords;
use log::{GroupLog, Reign};
pub(super) use member_loop::{MemberLoop, MemberSettings, StartMachine};

/// Milliseconds since the process has asked for the first time, by a clock that does not go back.
pub(super) fn monotonic_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // A lease that has not been given ends at 0.
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// Queue from other threads of the node to the member's thread.
pub(crate) struct MemberInbox {
    arrivals: Mutex<Vec<MemberArrival>>,
    waker: Waker,
}

pub(crate) enum MemberArrival {
    /// A connection of another member that has completed the handshake.
    Visitor {
        connection: Box<Connection>,
        address: SocketAddr,
    },
    /// The machine of that term has noted so many records.
    Propose {
        term: u64,
        count: u64,
        data: Vec<u8>,
    },
    /// The machine of that term takes a checkpoint of what it has noted so far.
    Checkpoint {
        term: u64,
        parts: Parts<DiskRecord>,
        taken: Receiver<Option<DiskRecord>>,
    },
    /// All of it has been handed on, or it is void.
    CheckpointTaken {
        term: u64,
        is_whole: bool,
    },
    /// The thread of the machine of that term has ended.
    Ended {
        term: u64,
        how: Result<(), ServeError>,
    },
    Stop,
}

impl MemberInbox {
    pub(super) fn send(&self, arrival: MemberArrival) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        self.wake();
    }

    fn wake(&self) {
        // A poll that cannot be woken comes back at the next tick.
        let _ = self.waker.wake();
    }

    fn take(&self) -> Vec<MemberArrival> {
        std::mem::take(&mut self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A group's member, as the rest of the node sees it.
pub(super) struct GroupPlace {
    pub member: Arc<MemberInbox>,
    pub figures: Arc<LogFigures>,
    here: Mutex<Here>,
}

/// What is at this member now.
#[derive(Default)]
struct Here {
    /// The shard's machine, while this member leads.
    machine: Option<Machine>,
    state: GroupState,
}

struct Machine {
    term: u64,
    inbox: Arc<Inbox>,
    interrupts: Option<Arc<Interrupts>>,
}

/// What is known of the group at this member.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupState {
    /// Address of the node that leads.
    pub leader: Option<String>,
    pub leads: bool,
    pub term: u64,
    pub committed: u64,
    pub last: u64,
    /// Members that vote, and those with a new disk that do not replace the lost one yet.
    pub voters: usize,
    pub learners: usize,
}

impl GroupPlace {
    fn new(member: Arc<MemberInbox>, figures: Arc<LogFigures>) -> GroupPlace {
        GroupPlace { member, figures, here: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard's machine, while this member leads.
    pub(super) fn inbox(&self) -> Option<Arc<Inbox>> {
        self.lock().machine.as_ref().map(|machine| machine.inbox.clone())
    }

    pub(super) fn interrupts(&self) -> Option<Arc<Interrupts>> {
        self.lock().machine.as_ref().and_then(|machine| machine.interrupts.clone())
    }

    pub(super) fn state(&self) -> GroupState {
        self.lock().state.clone()
    }

    fn set_state(&self, state: GroupState) {
        self.lock().state = state;
    }

    /// The machine of that term is told to end, if it runs.
    fn end(&self, term: u64, arrival: Arrival) {
        let here = self.lock();
        if let Some(machine) = here.machine.as_ref().filter(|machine| machine.term == term) {
            machine.inbox.send(arrival);
        }
    }
}

/// The lead of a term: what the thread of the machine needs to begin.
pub(super) struct Lead {
    term: u64,
    /// Index of the last entry that the machine starts with.
    index: u64,
    reign: Arc<Reign>,
    place: Arc<GroupPlace>,
}

impl Lead {
    pub(super) fn term(&self) -> u64 {
        self.term
    }

    /// # Errors
    /// Those of the log.
    pub(super) fn records<R: DeserializeOwned>(
        &self,
        directory: &Path,
        shard: ShardId,
    ) -> Result<MachineRecords<R>, LogError> {
        MachineRecords::begin(directory, shard, (self.index, self.term))
    }

    pub(super) fn log<R: serde::Serialize>(&self) -> GroupLog<R> {
        let GroupPlace { member, figures, .. } = &*self.place;
        GroupLog::new(self.term, self.reign.clone(), member.clone(), figures.clone())
    }

    /// The machine is there for everybody. Returns whether it may go on: the member still leads.
    pub(super) fn open(&self, inbox: Arc<Inbox>, interrupts: Option<Arc<Interrupts>>) -> bool {
        let mut here = self.place.lock();
        here.machine = Some(Machine { term: self.term, inbox, interrupts });
        !self.reign.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        self.reign.is_over()
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut here = self.place.lock();
        here.machine.take_if(|machine| machine.term == self.term);
    }
}
