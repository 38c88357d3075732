//! The coordinator of epochs: finds that the token is lost, or that the ring should be another one, and begins a new epoch (soundness S19).
//!
//! A new epoch begins once its first visit is known, and all visits before that have ended and have contents that no longer change. There are
//! two ways to know that:
//! * the holder has ended its visit, and promises to keep the token (`Unpassed`);
//! * the databases that may have had the token are fenced, one after the other from the last visit that is known, until one has not ended its
//!   visit: the fence has closed that one, and nobody can have had a later one.
//!
//! Its records are those of one process, or are replicated by Raft: then the machine runs on the node that leads, as the failure coordinator of
//! weir-ordered does. Epochs are forgotten once no database needs them, and a checkpoint of what is left takes the place of earlier records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::lsn::Lsn;

use crate::epochs::{Epoch, EpochStart, Epochs, ServerId, VisitNumber};
use crate::faults::{CoordinatorFaults, NoFaults};
use crate::message::{Instruction, Instructions, Report};
use crate::routing::{MapVersion, ServerSet};
use crate::settings::Settings;
use crate::work::{DatabaseState, EpochRow};

/// One change of the durable state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    EpochBegun(EpochStart),
    /// Every database has all visits of the epochs before that one.
    EpochsForgotten {
        before: Epoch,
    },
    /// The whole state. Earlier records mean nothing any more.
    Checkpoint(CoordinatorState),
}

/// The durable state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorState {
    pub epochs: Epochs,
}

impl CoordinatorState {
    /// The state after these records.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> CoordinatorState {
        let mut state = CoordinatorState::default();
        records.into_iter().for_each(|record| state.apply(record));
        state
    }

    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::EpochBegun(start) => self.epochs.push(start.clone()),
            Record::EpochsForgotten { before } => self.epochs.forget_before(*before),
            Record::Checkpoint(state) => self.clone_from(state),
        }
    }
}

/// The last report of an agent.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at_ms: u64,
    reached: VisitNumber,
    is_ready: bool,
}

/// The search for the last holder of an epoch.
#[derive(Clone, Copy, Debug)]
struct Fencing {
    /// All visits before this one have ended.
    visit: VisitNumber,
    asked_ms: Option<u64>,
    /// How often it was asked: each time another agent, unless the one beside the database lives.
    asked: usize,
}

/// The coordinator.
#[derive(Clone, Debug)]
pub struct Coordinator<F: CoordinatorFaults = NoFaults> {
    servers: Vec<ServerId>,
    settings: Settings,
    faults: F,
    state: CoordinatorState,
    records: Vec<Record>,
    noted: Lsn,
    /// A visit that has ended, as have all before it.
    ended: VisitNumber,
    heard: BTreeMap<ServerId, Heard>,
    /// Positions of databases, as this process was told. They are durable, and only grow.
    applied: BTreeMap<ServerId, VisitNumber>,
    /// The newest map of slots of which this process was told, and the servers that are no members by it.
    absent: (MapVersion, ServerSet),
    /// When this process began.
    begun_ms: u64,
    fencing: Option<Fencing>,
    /// The first visit of the next epoch, once it is known.
    first: Option<VisitNumber>,
    /// When `ended` last grew, or the last epoch began.
    progress_ms: u64,
}

impl<F: CoordinatorFaults> Coordinator<F> {
    /// A coordinator with the records that were durable when it stopped. A new one begins the first epoch, of all servers that are members at first.
    ///
    /// `servers`: all of them, and those that are no members at first.
    pub fn new(
        now_ms: u64,
        (servers, absent): (Vec<ServerId>, ServerSet),
        settings: Settings,
        faults: F,
        records: &[Record],
    ) -> Self {
        let mut coordinator = Coordinator {
            servers,
            settings,
            faults,
            state: CoordinatorState::of(records),
            records: Vec::new(),
            noted: Lsn::START,
            ended: 0,
            heard: BTreeMap::new(),
            applied: BTreeMap::new(),
            absent: (0, absent),
            begun_ms: now_ms,
            fencing: None,
            first: None,
            progress_ms: now_ms,
        };
        match coordinator.epochs().last().map(|start| start.first) {
            Some(first) => coordinator.ended = first - 1,
            None => {
                let ring = coordinator.servers.iter().copied();
                let ring = ring.filter(|server| coordinator.is_member(*server)).collect();
                coordinator.note(Record::EpochBegun(EpochStart { epoch: 1, first: 1, ring }));
            }
        }
        coordinator
    }

    /// Other bounds hold from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub fn epochs(&self) -> &Epochs {
        &self.state.epochs
    }

    /// The state with all records, durable or not.
    pub fn state(&self) -> &CoordinatorState {
        &self.state
    }

    /// Takes the records of the steps since the last call, in order.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Takes a report of an agent.
    pub fn step(&mut self, now_ms: u64, from: ServerId, report: Report, out: &mut Instructions) {
        match report {
            Report::Alive { epoch, ended, reached, database } => {
                let is_ready = database.is_some_and(|database| !database.absent.contains(from));
                self.heard.insert(from, Heard { at_ms: now_ms, reached, is_ready });
                // An epoch that is not durable yet was told to nobody.
                if epoch <= self.epochs().epoch() {
                    self.learn_ended(now_ms, ended);
                }
                if let Some(database) = database {
                    self.learn_database(from, database);
                }
                self.tell(now_ms, from, out);
            }
            Report::Unpassed { epoch, visit } if epoch == self.state.epochs.epoch() => {
                self.learn_ended(now_ms, visit - 1);
                self.first = Some(visit);
                self.begin_epoch(now_ms, out);
            }
            Report::Fenced { server, epoch, visit, row } if epoch == self.state.epochs.epoch() + 1 => {
                self.on_fenced(now_ms, server, visit, row, out);
            }
            Report::Unpassed { .. } | Report::Fenced { .. } => {}
        }
    }

    /// Called every few milliseconds.
    pub fn on_timer(&mut self, now_ms: u64, out: &mut Instructions) {
        if self.first.is_some() {
            self.begin_epoch(now_ms, out);
            return;
        }
        let is_lost = now_ms >= self.progress_ms + self.settings.token_ms;
        if is_lost && self.fencing.is_none() {
            self.fencing = Some(Fencing { visit: self.ended + 1, asked_ms: None, asked: 0 });
            if self.faults.begins_without_fence() {
                self.first = Some(self.ended + 1);
                return;
            }
        }
        self.fence(now_ms, out);
    }

    fn learn_ended(&mut self, now_ms: u64, ended: VisitNumber) {
        if ended > self.ended {
            self.ended = ended;
            self.progress_ms = now_ms;
        }
    }

    /// Forgets the epochs all of whose visits every database has. A report says the map with the position: whoever has applied the visit that
    /// makes a server a member counts that server.
    fn learn_database(&mut self, from: ServerId, database: DatabaseState) {
        let known = self.applied.entry(from).or_default();
        *known = database.applied.max(*known);
        if database.map >= self.absent.0 {
            self.absent = (database.map, database.absent);
        }
        let Some(applied) = self.applied_by_all() else { return };
        let before = self.epochs().needed_behind(applied);
        if before > self.epochs().oldest() {
            self.note(Record::EpochsForgotten { before });
        }
    }

    /// A visit up to which the database of every member, of the ring or not, has all visits. None: not all have said it to this process. A restart of an agent
    /// begins at the position of its database, so what it has reached beyond that is not enough.
    fn applied_by_all(&self) -> Option<VisitNumber> {
        let is_needed =
            |server: &ServerId| !self.faults.forgets_absent() || self.epochs().ring().contains(server);
        let needs = |server: &ServerId| self.is_member(*server) && is_needed(server);
        let applied = |server: &ServerId| match self.faults.forgets_reached() {
            true => self.heard.get(server).map(|heard| heard.reached),
            false => self.applied.get(server).copied(),
        };
        let all: Option<Vec<_>> = self.servers.iter().filter(|each| needs(each)).map(applied).collect();
        all?.into_iter().min()
    }

    fn is_member(&self, server: ServerId) -> bool {
        !self.absent.1.contains(server)
    }

    /// Servers that can be in a ring now: members, heard, with a database that answers, and in the ring already or with few visits to apply.
    fn able(&self, now_ms: u64) -> Vec<ServerId> {
        let servers = self.servers.iter().copied();
        servers
            .filter(|each| self.is_member(*each) && self.is_alive(now_ms, *each) && self.is_able(*each))
            .collect()
    }

    /// An agent that this process has not heard yet is given the time to report.
    fn is_alive(&self, now_ms: u64, server: ServerId) -> bool {
        let heard_ms = self.heard.get(&server).map_or(self.begun_ms, |heard| heard.at_ms);
        now_ms < heard_ms + self.settings.silence_ms
    }

    fn is_able(&self, server: ServerId) -> bool {
        let is_member = self.state.epochs.ring().contains(&server);
        let is_near = |heard: &Heard| is_member || heard.reached + self.settings.lag_max >= self.ended;
        self.heard.get(&server).is_some_and(|heard| heard.is_ready && is_near(heard))
    }

    /// The ring should be another one: the holder is to keep the token.
    fn holds(&self, now_ms: u64) -> bool {
        let (ring, able) = (self.state.epochs.ring(), self.able(now_ms));
        let is_ready = |server: &ServerId| self.heard.get(server).is_some_and(|heard| heard.is_ready);
        // Agents that start with this process have the time to find their databases.
        let knows_all = now_ms >= self.begun_ms + self.settings.silence_ms;
        let misses = knows_all && ring.iter().any(|each| !self.is_alive(now_ms, *each) || !is_ready(each));
        let has_left = ring.iter().any(|each| !self.is_member(*each));
        !able.is_empty() && (misses || has_left || able.iter().any(|server| !ring.contains(server)))
    }

    fn tell(&self, now_ms: u64, to: ServerId, out: &mut Instructions) {
        let (epochs, holds) = (self.state.epochs.clone(), self.holds(now_ms));
        let told = Instruction::Told { epochs, ended: self.ended, holds };
        let after = if self.faults.tells_before_record() { Lsn::START } else { self.noted };
        out.send_after(to, told, after);
    }

    /// Has the database of the next visit that may be the last one fenced.
    fn fence(&mut self, now_ms: u64, out: &mut Instructions) {
        let alive: Vec<_> =
            self.servers.iter().copied().filter(|each| self.is_alive(now_ms, *each)).collect();
        let ended = self.ended;
        let Some(fencing) = &mut self.fencing else { return };
        if ended >= fencing.visit {
            *fencing = Fencing { visit: ended + 1, asked_ms: None, asked: 0 };
        }
        if alive.is_empty()
            || fencing.asked_ms.is_some_and(|asked_ms| now_ms < asked_ms + self.settings.resend_ms)
        {
            return;
        }
        let server =
            self.state.epochs.holder(fencing.visit).expect("the last epoch has all visits behind its first");
        // The agent beside the database comes first. If it is dead or hears nothing, any agent does.
        let agent = match fencing.asked == 0 && alive.contains(&server) {
            true => server,
            false => alive[fencing.asked % alive.len()],
        };
        fencing.asked_ms = Some(now_ms);
        fencing.asked += 1;
        let (epoch, visit) = (self.state.epochs.epoch() + 1, fencing.visit);
        // The fence depends on no record: whoever closes a visit in that epoch, it is the same visit.
        out.send_after(agent, Instruction::Fence { server, epoch, visit }, Lsn::START);
    }

    fn on_fenced(
        &mut self,
        now_ms: u64,
        server: ServerId,
        visit: VisitNumber,
        row: EpochRow,
        out: &mut Instructions,
    ) {
        let epoch = self.state.epochs.epoch() + 1;
        let is_asked = self.fencing.is_some_and(|fencing| fencing.visit == visit);
        if !is_asked || self.state.epochs.holder(visit) != Some(server) || row.epoch != epoch {
            return;
        }
        if row.is_closed_in(epoch, visit) || self.faults.fences_once() {
            self.learn_ended(now_ms, visit);
            self.first = Some(visit + 1);
            self.begin_epoch(now_ms, out);
        } else {
            assert!(row.closed >= visit, "a fence closes a visit that has not ended");
            self.learn_ended(now_ms, visit);
            self.fence(now_ms, out);
        }
    }

    /// Begins the epoch whose first visit is known, as soon as there is a server for its ring.
    fn begin_epoch(&mut self, now_ms: u64, out: &mut Instructions) {
        let Some(first) = self.first else { return };
        let mut ring = self.able(now_ms);
        if ring.is_empty() {
            return;
        }
        // Epochs begin with different servers: nobody's operations come first each time.
        let turn = (first % ring.len() as u64) as usize;
        ring.rotate_left(turn);
        let epoch: Epoch = self.epochs().epoch() + 1;
        self.note(Record::EpochBegun(EpochStart { epoch, first, ring }));
        (self.first, self.fencing, self.progress_ms) = (None, None, now_ms);
        for server in self.servers.clone() {
            self.tell(now_ms, server, out);
        }
    }

    fn note(&mut self, record: Record) {
        self.state.apply(&record);
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }
}
