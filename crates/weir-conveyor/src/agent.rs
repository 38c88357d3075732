//! The agent of a server (operation-partitioning.txt, Algorithm 2): runs operations in their class's way, and takes part in the round of the
//! token.
//!
//! Commutative and local operations run at once; global ones wait for the token, and run in parallel in one batch for each visit. Everything
//! that has to survive a crash is in the database. The token is soft: it is a licence, and what it carries is in outboxes, too.

mod catch_up;
mod forwarding;
mod operations;
mod visit;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::epochs::{Epoch, Epochs, ServerId, StartNumber, VisitNumber};
use crate::faults::{AgentFaults, NoFaults};
use crate::message::{AgentMessage, Effects, Instruction, OperationId, Report, Request};
use crate::routing::MapVersion;
use crate::settings::Settings;
use crate::token::Visit;
use crate::work::{DatabaseState, Done, EpochRow, License, Work, WorkId};
use forwarding::Forwarding;
use operations::Running;
use visit::{Passing, Visiting};

/// Purpose of a piece of work in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Load,
    Adopt,
    Apply,
    Execute(OperationId),
    End(License),
    Read(ServerId, VisitNumber),
    Fence(ServerId, Epoch, VisitNumber),
    Truncate,
    Copy,
}

/// An agent.
#[derive(Debug)]
pub struct Agent<O, R, U, F: AgentFaults = NoFaults> {
    server: ServerId,
    start: StartNumber,
    /// All servers, of the ring or not.
    servers: Vec<ServerId>,
    settings: Settings,
    faults: F,
    epochs: Epochs,
    /// None: the database does not answer, as far as the agent knows.
    database: Option<DatabaseState>,
    /// The token, while it is here.
    visiting: Option<Visiting<O, U>>,
    /// The token that has left and has not been acknowledged. Never of an epoch before the last one.
    passing: Option<Passing<U>>,
    /// The visit before which this agent keeps the last token of the last epoch for ever.
    promised: Option<VisitNumber>,
    /// The coordinator wants to begin another epoch.
    holds: bool,
    /// An operation waits in the queue of a server, and the token idles.
    is_wanted: bool,
    /// Operations that were placed under an older map than this one do not wait.
    swept: MapVersion,
    /// A new epoch has begun: the map may have changed in a visit that was ended by a fence.
    is_stale: bool,
    /// Whether the last token seen had found nothing to do.
    was_idle: bool,
    /// When the ring was told last that an operation waits here.
    wanted_ms: u64,
    /// Contents of visits of other servers behind the applied position.
    received: BTreeMap<VisitNumber, Arc<Visit<U>>>,
    /// A visit that has ended, as have all before it. Never behind a visit that is not closed.
    ended: VisitNumber,
    /// Outboxes of own visits up to this one are deleted.
    truncated: VisitNumber,
    works: BTreeMap<WorkId, Pending>,
    next_work: WorkId,
    /// Global operations of this server, in the order in which they came.
    queue: VecDeque<Request<O>>,
    /// Other operations that wait for a connection.
    waiting: VecDeque<Request<O>>,
    running: BTreeMap<OperationId, Running<O>>,
    /// When an operation came that has not ended.
    since_ms: BTreeMap<OperationId, u64>,
    forwarding: Forwarding<O, R>,
    next_operation: u64,
    /// Failed work is tried again from then on.
    retry_ms: u64,
    alive_ms: u64,
}

impl<O: Clone, R: Clone, U: Clone, F: AgentFaults> Agent<O, R, U, F> {
    /// `start`: no other start of this agent has that number. The agent first loads the state of its database.
    pub fn new(
        server: ServerId,
        start: StartNumber,
        servers: Vec<ServerId>,
        settings: Settings,
        faults: F,
    ) -> Self {
        Agent {
            server,
            start,
            servers,
            settings,
            faults,
            epochs: Epochs::default(),
            database: None,
            visiting: None,
            passing: None,
            promised: None,
            holds: false,
            is_wanted: false,
            swept: 0,
            is_stale: false,
            was_idle: false,
            wanted_ms: 0,
            received: BTreeMap::new(),
            ended: 0,
            truncated: 0,
            works: BTreeMap::new(),
            next_work: 1,
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            since_ms: BTreeMap::new(),
            forwarding: Forwarding::default(),
            next_operation: 1,
            retry_ms: 0,
            alive_ms: 0,
        }
    }

    pub fn server(&self) -> ServerId {
        self.server
    }

    /// Other bounds hold from now on. Operations that run keep their connections.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The latest epoch that this agent knows.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The visit that is here.
    pub fn visit(&self) -> Option<VisitNumber> {
        self.visiting.as_ref().map(|visiting| visiting.token.visit)
    }

    /// The durable state of the database, as last read.
    pub fn database(&self) -> Option<DatabaseState> {
        self.database
    }

    /// Global operations that wait, others that wait, operations that run, operations that other agents run.
    pub fn load(&self) -> [usize; 4] {
        [self.queue.len(), self.waiting.len(), self.running.len(), self.forwarding.len()]
    }

    /// Takes a message of another agent.
    pub fn step(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: AgentMessage<O, R, U>,
        out: &mut Effects<O, R, U>,
    ) {
        match message {
            AgentMessage::Token(token) => self.on_token(from, token, out),
            AgentMessage::Ended(visit) => self.on_ended(visit),
            AgentMessage::TokenReceived { epoch, visit } => self.on_token_received(epoch, visit),
            AgentMessage::Wanted { epoch } => self.is_wanted |= epoch == self.epochs.epoch(),
            AgentMessage::Forward { to_start, request, answered_below } => {
                self.on_forward(now_ms, from, (to_start, request, answered_below), out);
            }
            AgentMessage::WrongStart { id, tried, start } => {
                self.on_wrong_start(now_ms, from, (id, tried, start), out);
            }
            AgentMessage::Answer { id, outcome } => self.on_answer(id, outcome, out),
        }
        self.advance(now_ms, out);
    }

    /// Takes a message of the coordinator.
    pub fn on_instruction(&mut self, now_ms: u64, instruction: Instruction, out: &mut Effects<O, R, U>) {
        match instruction {
            Instruction::Told { epochs, ended, holds } => {
                if self.epochs.learn(&epochs) {
                    self.begin_epoch();
                }
                if epochs.epoch() == self.epochs.epoch() {
                    self.holds = holds;
                }
                self.learn_ended(ended);
            }
            Instruction::Fence { server, epoch, visit } => {
                let pending = Pending::Fence(server, epoch, visit);
                if !self.is_pending(pending) {
                    self.work(pending, Work::Fence { server, epoch, visit }, out);
                }
            }
        }
        self.advance(now_ms, out);
    }

    /// Called every few milliseconds.
    pub fn on_timer(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        self.resend_token(now_ms, out);
        self.resend_forwards(now_ms, out);
        self.abort_late(now_ms, out);
        self.give_up_waiting(now_ms, out);
        if now_ms >= self.wanted_ms + self.settings.resend_ms {
            self.want_token(now_ms, out);
        }
        self.advance(now_ms, out);
        if now_ms >= self.alive_ms {
            self.alive_ms = now_ms + self.settings.alive_ms;
            self.report(out);
        }
    }

    /// Takes the end of a piece of work.
    pub fn on_done(&mut self, now_ms: u64, id: WorkId, done: Done<R, U>, out: &mut Effects<O, R, U>) {
        let Some(pending) = self.works.remove(&id) else { return };
        if matches!(done, Done::Lost) {
            self.retry_ms = now_ms + self.settings.resend_ms;
        }
        match (pending, done) {
            (Pending::Execute(id), done) => self.on_executed(id, done, out),
            (Pending::Read(server, visit), done) => self.on_read((server, visit), done, out),
            (Pending::Fence(server, epoch, visit), Done::Row(row)) => {
                self.learn_row(server, row);
                out.reports.push(Report::Fenced { server, epoch, visit, row });
            }
            (Pending::Fence(..) | Pending::Truncate, _) | (Pending::Copy, Done::Lost) => {}
            (_, Done::Lost) => self.database = None,
            (_, Done::State(state)) => self.learn_state(state),
            (Pending::Adopt, Done::Row(row)) => self.learn_row(self.server, row),
            // What has failed is tried again.
            _ => {}
        }
        self.advance(now_ms, out);
    }

    /// Does what can be done.
    fn advance(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        if self.database.is_none() {
            if now_ms >= self.retry_ms && !self.is_pending(Pending::Load) {
                self.work(Pending::Load, Work::Load, out);
            }
            return;
        }
        if self.is_stale && !self.is_pending(Pending::Load) {
            self.is_stale = false;
            self.work(Pending::Load, Work::Load, out);
        }
        self.refuse_outdated(out);
        self.create_token();
        self.catch_up(now_ms, out);
        self.advance_visit(now_ms, out);
        self.resend_token(now_ms, out);
        self.run_waiting(now_ms, out);
    }

    fn report(&self, out: &mut Effects<O, R, U>) {
        let epoch = self.epochs.epoch();
        out.reports.push(Report::Alive {
            epoch,
            ended: self.ended,
            reached: self.reached(),
            database: self.database,
        });
        if let Some(visit) = self.promised {
            out.reports.push(Report::Unpassed { epoch, visit });
        }
    }

    /// Ends the visit and the work of earlier epochs. Operations that run may commit until a fence says otherwise.
    fn begin_epoch(&mut self) {
        (self.holds, self.promised, self.passing) = (false, None, None);
        if let Some(start) = self.epochs.last() {
            let first = start.first;
            self.learn_ended(first - 1);
        }
        self.is_stale = true;
        self.drop_token();
    }

    /// Results of transactions may come in another order than these have committed: the row and the position only grow.
    fn learn_state(&mut self, state: DatabaseState) {
        self.database.get_or_insert(state);
        self.learn_row(self.server, state.row);
        self.learn_applied(state.applied);
        let Some(database) = &mut self.database else { return };
        if state.map > database.map {
            (database.map, database.absent) = (state.map, state.absent);
        }
    }

    /// Returns whether this server is no member: it was not added yet, or has left.
    pub fn is_absent(&self) -> bool {
        self.database.is_some_and(|database| database.absent.contains(self.server))
    }

    /// This server was added: it takes everything from that one, unless it has done so. Whoever says it repeats it.
    pub fn on_added(&mut self, now_ms: u64, from: ServerId, out: &mut Effects<O, R, U>) {
        if self.is_absent() && from != self.server && !self.is_pending(Pending::Copy) {
            self.work(Pending::Copy, Work::Copy { from }, out);
        }
        self.advance(now_ms, out);
    }

    fn learn_row(&mut self, server: ServerId, row: EpochRow) {
        let Some(database) = &mut self.database else { return };
        if server == self.server && (row.epoch, row.closed) >= (database.row.epoch, database.row.closed) {
            database.row = row;
        }
    }

    fn is_pending(&self, pending: Pending) -> bool {
        self.works.values().any(|each| *each == pending)
    }

    fn work(&mut self, pending: Pending, work: Work<O, U>, out: &mut Effects<O, R, U>) -> WorkId {
        let id = self.next_work;
        self.next_work += 1;
        self.works.insert(id, pending);
        out.works.push((id, work));
        id
    }
}
