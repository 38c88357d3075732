//! The coordinator of epochs: finds that the token is lost, or that the ring should be another one, and begins a new epoch (soundness S19).
//!
//! A new epoch begins once its first visit is known, and all visits before that have ended and have contents that no longer change. There are
//! two ways to know that:
//! * the holder has ended its visit, and promises to keep the token (`Unpassed`);
//! * the databases that may have had the token are fenced, one after the other from the last visit that is known, until one has not ended its
//!   visit: the fence has closed that one, and nobody can have had a later one.
//!
//! Its records are those of one process, or are replicated by Raft: then the machine runs on the node that leads, as the failure coordinator of
//! weir-ordered does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::lsn::Lsn;

use crate::epochs::{Epoch, EpochStart, Epochs, ServerId, VisitNumber};
use crate::faults::{CoordinatorFaults, NoFaults};
use crate::message::{Instruction, Instructions, Report};
use crate::settings::Settings;
use crate::work::EpochRow;

/// One change of the durable state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    EpochBegun(EpochStart),
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
    epochs: Epochs,
    records: Vec<Record>,
    noted: Lsn,
    /// A visit that has ended, as have all before it.
    ended: VisitNumber,
    heard: BTreeMap<ServerId, Heard>,
    /// When this process began.
    begun_ms: u64,
    fencing: Option<Fencing>,
    /// The first visit of the next epoch, once it is known.
    first: Option<VisitNumber>,
    /// When `ended` last grew, or the last epoch began.
    progress_ms: u64,
}

impl<F: CoordinatorFaults> Coordinator<F> {
    /// A coordinator with the records that were durable when it stopped. A new one begins the first epoch, of all servers.
    pub fn new(
        now_ms: u64,
        servers: Vec<ServerId>,
        settings: Settings,
        faults: F,
        records: &[Record],
    ) -> Self {
        let mut coordinator = Coordinator {
            servers,
            settings,
            faults,
            epochs: Epochs::default(),
            records: Vec::new(),
            noted: Lsn::START,
            ended: 0,
            heard: BTreeMap::new(),
            begun_ms: now_ms,
            fencing: None,
            first: None,
            progress_ms: now_ms,
        };
        for Record::EpochBegun(start) in records {
            coordinator.epochs.push(start.clone());
        }
        match coordinator.epochs.last() {
            Some(start) => coordinator.ended = start.first - 1,
            None => {
                let ring = coordinator.servers.clone();
                coordinator.note(EpochStart { epoch: 1, first: 1, ring });
            }
        }
        coordinator
    }

    /// Other bounds hold from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Takes the records of the steps since the last call, in order.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Takes a report of an agent.
    pub fn step(&mut self, now_ms: u64, from: ServerId, report: Report, out: &mut Instructions) {
        match report {
            Report::Alive { epoch, ended, reached, is_ready } => {
                self.heard.insert(from, Heard { at_ms: now_ms, reached, is_ready });
                // An epoch that is not durable yet was told to nobody.
                if epoch <= self.epochs.epoch() {
                    self.learn_ended(now_ms, ended);
                }
                self.tell(now_ms, from, out);
            }
            Report::Unpassed { epoch, visit } if epoch == self.epochs.epoch() => {
                self.learn_ended(now_ms, visit - 1);
                self.first = Some(visit);
                self.begin_epoch(now_ms, out);
            }
            Report::Fenced { server, epoch, visit, row } if epoch == self.epochs.epoch() + 1 => {
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

    /// Servers that can be in a ring now: heard, with a database that answers, and in the ring already or with few visits to apply.
    fn able(&self, now_ms: u64) -> Vec<ServerId> {
        let servers = self.servers.iter().copied();
        servers.filter(|server| self.is_alive(now_ms, *server) && self.is_able(*server)).collect()
    }

    /// An agent that this process has not heard yet is given the time to report.
    fn is_alive(&self, now_ms: u64, server: ServerId) -> bool {
        let heard_ms = self.heard.get(&server).map_or(self.begun_ms, |heard| heard.at_ms);
        now_ms < heard_ms + self.settings.silence_ms
    }

    fn is_able(&self, server: ServerId) -> bool {
        let is_member = self.epochs.ring().contains(&server);
        let is_near = |heard: &Heard| is_member || heard.reached + self.settings.lag_max >= self.ended;
        self.heard.get(&server).is_some_and(|heard| heard.is_ready && is_near(heard))
    }

    /// The ring should be another one: the holder is to keep the token.
    fn holds(&self, now_ms: u64) -> bool {
        let (ring, able) = (self.epochs.ring(), self.able(now_ms));
        let is_ready = |server: &ServerId| self.heard.get(server).is_some_and(|heard| heard.is_ready);
        // Agents that start with this process have the time to find their databases.
        let knows_all = now_ms >= self.begun_ms + self.settings.silence_ms;
        let misses = knows_all && ring.iter().any(|each| !self.is_alive(now_ms, *each) || !is_ready(each));
        !able.is_empty() && (misses || able.iter().any(|server| !ring.contains(server)))
    }

    fn tell(&self, now_ms: u64, to: ServerId, out: &mut Instructions) {
        let (epochs, holds) = (self.epochs.clone(), self.holds(now_ms));
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
            self.epochs.holder(fencing.visit).expect("the last epoch has all visits behind its first");
        // The agent beside the database comes first. If it is dead or hears nothing, any agent does.
        let agent = match fencing.asked == 0 && alive.contains(&server) {
            true => server,
            false => alive[fencing.asked % alive.len()],
        };
        fencing.asked_ms = Some(now_ms);
        fencing.asked += 1;
        let (epoch, visit) = (self.epochs.epoch() + 1, fencing.visit);
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
        let epoch = self.epochs.epoch() + 1;
        let is_asked = self.fencing.is_some_and(|fencing| fencing.visit == visit);
        if !is_asked || self.epochs.holder(visit) != Some(server) || row.epoch != epoch {
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
        let epoch: Epoch = self.epochs.epoch() + 1;
        self.note(EpochStart { epoch, first, ring });
        (self.first, self.fencing, self.progress_ms) = (None, None, now_ms);
        for server in self.servers.clone() {
            self.tell(now_ms, server, out);
        }
    }

    fn note(&mut self, start: EpochStart) {
        self.epochs.push(start.clone());
        self.records.push(Record::EpochBegun(start));
        self.noted = self.noted.plus(1);
    }
}
