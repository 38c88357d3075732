//! Long calls and statements: those that write, or are no plain reads, and have exceeded the budget of a step
//! (docs/internals/steps.md, "Calls and statements that write").
//!
//! Such a call runs on a worker with a write set, at a moment of its shard, and claims what it uses as it goes. When it has run, its shard
//! does in one step what follows the run of any call: commits it, prepares it, or keeps it as a statement of its transaction.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use smallvec::smallvec;
use weir_core::ids::{Position, ShardId, Timestamp, TxnId};
use weir_core::machine::Pace;
use weir_core::participant::Transactions as _;
use weir_sql::catalog::TableId;
use weir_types::interrupt::{Budget, Interrupts, StatementId, pause_with};

use super::hand_over::Again;
use super::large_commits::{EndedRun, Kind, LargeCommit};
use super::node::{Effects, Node};
use super::open::{OpenState, role_at};
use super::ordered::IN_ORDER;
use super::workers::{Done, Finished, Running, no_thread};
use crate::claims::{Claim, Reserved};
use crate::exec::call::{self, Fragment, OpenStatement, Ran, Role, Scratch, Stop};
use crate::exec::chosen::Chosen;
use crate::exec::program::Program;
use crate::exec::sequences::CallEnvironment;
use crate::exec::worker::{ClaimsOf, Start, Worker};
use crate::faults::Faults;
use crate::message::{Call, Callee, Request};
use crate::storage::moment::{Changed, Moment, MomentParts, Progress};
use crate::storage::{Mark, Workspace, Write, WriteSet};

/// A call with more arguments is one INSERT of many rows. It runs within a step: the size of a message bounds it.
const ARGUMENTS_MAX: usize = 4_096;
/// Number of times that a call begins again because others have changed what it uses; then it runs within a step, to its end.
const ATTEMPTS_MAX: usize = 8;

/// Outcome of the earlier attempts of a call that begins again.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    count: usize,
    /// Tables that others changed while it ran: they are claimed before it begins again.
    tables: Vec<TableId>,
}

/// A call that a worker has run.
#[derive(Debug)]
pub(super) struct EndedCall {
    request: Request,
    result: Result<Ran, Stop>,
    /// None: lost, for its thread has panicked.
    own: Option<WriteSet>,
    claims: Vec<Claim>,
    /// The claim for which it had waited, if it has not needed it.
    unused: Option<Claim>,
    chosen: Option<Chosen>,
    /// The last claim that others' were in conflict with: if it has stopped at holders, at those of this one.
    met: Option<Claim>,
    /// Its result is void, because others have changed the table.
    stale: Option<TableId>,
    /// No row has been changed by others from its moment up to this position; none: some row has.
    unchanged_until: Option<Position>,
    in_order: bool,
    /// Mark of its transaction's write set before the statement.
    mark: Mark,
    /// Number of times that it has stopped at this shard before.
    stops: u32,
}

impl EndedCall {
    pub(super) fn txn(&self) -> TxnId {
        self.request.txn()
    }
}

/// A call on its way to a worker. Whatever becomes of it, the shard hears of its end.
struct LongCall<F> {
    start: Option<(MomentParts, Start)>,
    program: Arc<Program>,
    shard: ShardId,
    timestamp: Timestamp,
    state: Option<OpenState>,
    chosen: Option<Chosen>,
    /// Other transactions that were prepared at its moment, with their writes.
    prepared: Vec<(TxnId, Arc<[Write]>)>,
    interrupts: Arc<Interrupts>,
    statement: StatementId,
    /// A table of which it must not hold anything.
    reserved: Option<Reserved>,
    /// Taken at its end.
    ended: Option<EndedCall>,
    done: Done,
    bugs: F,
}

/// The call that a request carries, and its role on this shard.
fn call_of(request: &Request, shard: ShardId) -> (&Call, Role<'_>) {
    match request {
        Request::Execute { call, .. } => (call, Role::Whole),
        Request::Prepare { call, participants, .. } => (call, role_of_prepare(participants)),
        Request::Decide { decision, .. } => (&decision.call, Role::Last(&decision.answers)),
        Request::Apply { call, .. } => (call, Role::Part),
        Request::Work { work, .. } => (&work.call, role_at(work, shard)),
        _ => unreachable!("only calls and statements are long"),
    }
}

pub(super) fn role_of_prepare(participants: &[ShardId]) -> Role<'static> {
    if participants.len() > 1 { Role::Part } else { Role::Unguarded }
}

impl<F: Faults> LongCall<F> {
    fn run(mut self, pace: Arc<dyn Pace>) {
        let (parts, start) = self.start.take().expect("a call runs once");
        let progress = parts.progress.clone();
        let moment = Rc::new(Moment::new(parts, pace));
        let worker = Worker::new(moment.clone(), start);
        let mut scratch = Scratch::default();
        let result = {
            let _pausing = pause_with(Rc::new(move || {
                moment.pause();
                moment.check_void()
            }));
            let _watch = self.interrupts.watch(self.statement);
            self.run_at(&worker, &mut scratch)
        };
        let ended = self.ended.as_mut().expect("it ends once");
        ended.result = progress.void().map_or(result, |why| Err(Stop::Error(why.clone())));
        ended.own = Some(worker.moment().take_own());
        (ended.claims, ended.unused) = (worker.take_claims(), worker.take_unused());
        ended.stale = worker.stale();
        ended.met = worker.take_met();
        ended.unchanged_until = worker.moment().unchanged_until();
        ended.chosen = scratch.chosen.take();
    }

    fn run_at(&self, worker: &Worker, scratch: &mut Scratch) -> Result<Ran, Stop> {
        let request = &self.ended.as_ref().expect("it has not ended").request;
        let (call, role) = call_of(request, self.shard);
        let program = &self.program;
        let _zone = call.transaction_time.zone.enter();
        let procedure = program.callee(&call.callee)?;
        let state = self.state.as_ref();
        let said: Vec<_> = state.into_iter().flat_map(|state| &state.said).collect();
        let open = state.map(|state| OpenStatement {
            said: &said,
            later: &state.later,
            upserted: &state.upserted,
            keys_claimed: state.keys_claimed,
            // It has locked all tables before.
            reads: None,
        });
        let looks = matches!(call.callee, Callee::Constraints(_));
        let later = open.map_or(&[][..], |open| open.later);
        let claims = ClaimsOf::Worker(worker);
        let fragment = Fragment {
            program,
            procedure: &procedure,
            storage: Workspace::at(worker.moment()),
            environment: CallEnvironment::of_worker(worker, program, self.shard, call.transaction_time)
                .of_transaction(program, (claims, request.txn()), self.chosen.as_ref()),
            claims,
            loading: Vec::new(),
            here: self.shard,
            txn: request.txn(),
            role,
            timestamp: self.timestamp,
            keep_writes: !matches!(request, Request::Execute { .. } | Request::Apply { .. }),
            open,
            has_locks: true,
            reserved: self.reserved,
            looks: looks.then_some(if self.bugs.forgets_deferred() { &[][..] } else { later }),
            derived: call.callee.derived().map(|derived| &derived[..]),
            attempt: call.callee.attempt(),
            prepared: &|visit| self.prepared.iter().for_each(|(txn, writes)| visit(*txn, writes)),
            bugs: self.bugs,
        };
        call::run(fragment, call, scratch).map(Ran::packed)
    }
}

impl<F> Drop for LongCall<F> {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(Finished::Call(Box::new(ended)));
        }
    }
}

impl<F: Faults> Node<F> {
    /// Budget of a call within a step; none: it runs to its end.
    pub(super) fn budget_of(&self, txn: TxnId, call: &Call) -> Option<Budget> {
        if self.statement == IN_ORDER {
            return None;
        }
        let budget = self.workers.budget()?;
        let is_load = call.args.len() > ARGUMENTS_MAX || self.claims.loading.contains(&txn);
        // Only this transaction knows its schema version.
        let defines = self.barrier.is_some_and(|barrier| barrier.txn == txn);
        let has_tried =
            self.workers.attempts.get(&txn).is_some_and(|attempts| attempts.count >= ATTEMPTS_MAX);
        (!is_load && !defines && !has_tried).then_some(budget)
    }

    /// Hands a call to a worker. Its run within the step has left nothing.
    pub(crate) fn run_beside(&mut self, request: Request, out: &mut Effects) {
        let txn = request.txn();
        let (call, _) = call_of(&request, self.shard);
        let (read_only, in_order) = match self.program.callee(&call.callee) {
            Ok(callee) => (callee.read_only, callee.in_order),
            Err(error) => return self.stopped(Stop::Error(error), request, out),
        };
        let tables = match in_order {
            true => (0..self.program.schema.tables.len()).map(|table| TableId(table as u32)).collect(),
            false => self.workers.attempts.get(&txn).map_or(Vec::new(), |attempts| attempts.tables.clone()),
        };
        let memory = call.memory;
        let handed = self.take_wanted(txn);
        let stops = self.take_again(txn).map_or(0, |again| again.stops);
        let taken = match self.claim_tables(txn, &tables) {
            Ok(taken) => taken,
            Err(holder) => {
                self.give_up_claims(txn, handed);
                self.again = Some(Again { txn, stops, wanted: None, was_beside: true });
                return self.wait_for(smallvec![holder], request, out);
            }
        };
        let (own, state) = self.state_for_worker(&request);
        let progress = Arc::new(Progress::new(self.storage.position()));
        let mark = own.mark();
        let parts = MomentParts {
            storage: self.storage.lock(),
            schema: self.program.schema.clone(),
            progress: progress.clone(),
            changed: Changed::default(),
            own,
            memory,
            advances: self.bugs.moment_advances(),
        };
        let start = Start {
            claims: self.claims.lock(),
            sequences: self.sequences.lock(),
            txn,
            tables: self.claims.tables_of(txn).collect(),
            taken,
            handed,
            trusts_moment: self.bugs.trusts_moment(),
        };
        let chosen = self.chosen.get(&txn).cloned();
        let others = self.participant.prepared().iter().filter(|(other, _)| **other != txn);
        let prepared = others.map(|(other, prepared)| (*other, prepared.writes.clone())).collect();
        let ended = EndedCall {
            request,
            result: Err(Stop::Error(no_thread())),
            own: None,
            claims: Vec::new(),
            unused: None,
            chosen: None,
            met: None,
            stale: None,
            unchanged_until: None,
            in_order,
            mark,
            stops,
        };
        let long = LongCall {
            start: Some((parts, start)),
            program: self.program.clone(),
            shard: self.shard,
            timestamp: Timestamp { clock: self.clock.last(), node: self.shard },
            state,
            chosen,
            prepared,
            interrupts: self.interrupts.clone(),
            statement: self.statement,
            reserved: self.starvation.met,
            ended: Some(ended),
            done: self.workers.done(),
            bugs: self.bugs,
        };
        self.workers.begin(txn, Running::call(progress, !read_only), Box::new(move |pace| long.run(pace)));
    }

    /// Claims tables for a run that begins, all of them or none; a statement of an open transaction keeps those before the first that it
    /// does not get.
    ///
    /// # Errors
    /// Who holds it up.
    fn claim_tables(&mut self, txn: TxnId, tables: &[TableId]) -> Result<Vec<Claim>, TxnId> {
        let holder = |&table: &TableId| self.claims.against(&Claim::Table(table), txn).first().copied();
        let held = tables.iter().enumerate().find_map(|(at, table)| Some((at, holder(table)?)));
        let keeps = self.open.contains_key(&txn);
        let count = held.map_or(tables.len(), |(at, _)| if keeps { at } else { 0 });
        let mut taken: Vec<Claim> = tables[..count].iter().copied().map(Claim::Table).collect();
        taken.retain(|claim| self.claims.take(claim, txn));
        let Some((at, holder)) = held else { return Ok(taken) };
        (self.scratch.met, self.scratch.stopped_at) = (Some(Claim::Table(tables[at])), Some(tables[at]));
        self.give_up_claims(txn, taken);
        Err(holder)
    }

    /// A run that has taken these claims has to wait: a statement of an open transaction keeps them, a call holds nothing.
    fn give_up_claims(&mut self, txn: TxnId, claims: impl IntoIterator<Item = Claim>) {
        match self.open.get_mut(&txn) {
            Some(open) => open.keep_while_waiting(claims),
            None => claims.into_iter().for_each(|claim| self.claims.release(&claim, txn)),
        }
    }

    /// Continues with a call that a worker has run, as with one that a step has run.
    pub(super) fn end_call(&mut self, now_ms: u64, running: &Running, ended: EndedCall, out: &mut Effects) {
        self.end_run(now_ms, running, ended, out);
        self.again = None;
    }

    fn end_run(&mut self, now_ms: u64, running: &Running, mut ended: EndedCall, out: &mut Effects) {
        self.statement = ended.request.statement();
        let now_ms = self.time_of(now_ms, &ended.request);
        let txn = ended.request.txn();
        if ended.own.is_none() {
            self.forget_lost(txn, &ended.request);
        }
        self.again = Some(Again { txn, stops: ended.stops, wanted: None, was_beside: true });
        let result = self.outcome(&mut ended);
        let EndedCall { request, own, mut claims, unused, chosen, mark, .. } = ended;
        let is_unheard = running.is_unheard();
        match unused {
            Some(unused) if result.is_ok() && !is_unheard => self.release_claims(txn, vec![unused]),
            unused => claims.extend(unused),
        }
        self.keep_chosen(
            txn,
            chosen,
            matches!(result, Err(Stop::Held(_) | Stop::Pinned { .. } | Stop::Long)),
        );
        if let Request::Work { .. } = request {
            return self.end_statement(now_ms, is_unheard, request, (result, own, claims, mark), out);
        }
        // Another participant may have been promised meanwhile that the transaction will not be.
        let is_refused = !self.bugs.commits_refused() && self.is_repeated(&request, out);
        let is_unheard = is_unheard || is_refused;
        let own = own.unwrap_or_default();
        match result {
            Ok(ran) if !is_unheard => {
                self.commit_run(now_ms, request, (ran, own, claims), running.is_read_only(), out);
            }
            result => {
                self.storage.discard_write_set(own);
                self.release_claims(txn, claims);
                match result {
                    Err(stop) if !is_unheard => self.stopped_beside(now_ms, stop, request, out),
                    _ => drop(self.workers.attempts.remove(&txn)),
                }
            }
        }
    }

    /// A call has ended without its write set and its claims: its thread has panicked, or could not be started.
    #[cold]
    fn forget_lost(&mut self, txn: TxnId, request: &Request) {
        if let Request::Work { .. } = request {
            self.drop_open(txn);
        }
        self.claims.release_all_of(txn);
    }

    /// Result of the run; [`Stop::Long`]: it is to begin again, for others have changed what it uses, or have released what it needs.
    fn outcome(&mut self, ended: &mut EndedCall) -> Result<Ran, Stop> {
        (self.scratch.met, self.scratch.stopped_at) = (None, None);
        let result = match std::mem::replace(&mut ended.result, Err(Stop::Long)) {
            Err(stop @ (Stop::Held(_) | Stop::Pinned { .. })) => {
                let holders = match (&stop, ended.met.take()) {
                    (Stop::Held(holders), _)
                        if holders.iter().any(|holder| self.starvation.is_for(*holder)) =>
                    {
                        holders.clone()
                    }
                    (Stop::Held(_), Some(claim)) => {
                        let holders = self.claims.against(&claim, ended.request.txn());
                        self.scratch.stopped_at = claim.table();
                        self.scratch.met = Some(claim);
                        holders
                    }
                    _ => {
                        let mut holders = self.holders(stop);
                        holders.retain(|holder| self.participant.prepared().contains_key(holder));
                        holders
                    }
                };
                match (holders.is_empty(), &mut self.again) {
                    (false, _) => Err(Stop::Held(holders)),
                    (true, None) => Err(Stop::Long),
                    (true, Some(again)) => {
                        again.wanted = self.scratch.met.take();
                        Err(Stop::Long)
                    }
                }
            }
            result => result,
        };
        let has_changed = ended.in_order && ended.unchanged_until != Some(self.storage.position());
        if ended.stale.is_none() && !(has_changed && result.is_ok()) {
            return result;
        }
        let attempts = self.workers.attempts.entry(ended.request.txn()).or_default();
        attempts.count += 1;
        attempts.tables.extend(ended.stale);
        Err(Stop::Long)
    }

    /// Continues with a call that has stopped, and that holds nothing here.
    pub(super) fn stopped_beside(&mut self, now_ms: u64, stop: Stop, request: Request, out: &mut Effects) {
        match stop {
            Stop::Long => self.on_admitted(now_ms, request, out),
            stop => {
                self.workers.attempts.remove(&request.txn());
                self.stopped(stop, request, out);
            }
        }
    }

    /// Does what follows the run of a call.
    fn commit_run(
        &mut self,
        now_ms: u64,
        request: Request,
        (mut ran, own, claims): (Ran, WriteSet, Vec<Claim>),
        read_only: bool,
        out: &mut Effects,
    ) {
        let txn = request.txn();
        self.workers.attempts.remove(&txn);
        if let Request::Prepare { begun, participants, .. } = request {
            let timestamp = self.clock.tick(now_ms);
            match ran.answers.error.is_some() {
                true => self.release_claims(txn, claims),
                false => ran.claims = claims,
            }
            return self.prepared(txn, begun.age, participants, (ran, own), timestamp, out);
        }
        let timestamp = self.clock.tick(if read_only { 0 } else { now_ms });
        if matches!(request, Request::Execute { .. }) && read_only {
            self.storage.discard_write_set(own);
            self.release_claims(txn, claims);
            return self.has_read(txn, ran, self.noted(), out);
        }
        let run = EndedRun { request, ran, own, claims };
        match self.is_large(&run.own) && run.ran.answers.error.is_none() {
            true => self.begin_large(txn, timestamp, Kind::Run(Box::new(run))),
            false => self.end_committed_run(run, timestamp, None, out),
        }
    }

    /// Commits a call that a worker has run. `large`: its write set is in the tables.
    pub(super) fn end_committed_run(
        &mut self,
        EndedRun { request, ran, own, claims }: EndedRun,
        timestamp: Timestamp,
        large: Option<LargeCommit>,
        out: &mut Effects,
    ) {
        let txn = request.txn();
        let mut at = (timestamp, self.storage.position());
        match ran.answers.error.is_some() {
            true => self.storage.discard_write_set(own),
            false => at.1 = self.apply_committed(own, large, &[], timestamp),
        }
        self.release_claims(txn, claims);
        match request {
            Request::Execute { .. } => self.executed(txn, ran, at, out),
            Request::Decide { decision, .. } => self.decided(txn, ran, decision.participants, at, out),
            Request::Apply { .. } => self.applied(txn, ran, at, out),
            _ => unreachable!("only calls are long"),
        }
    }

    /// Returns the request unless it is of a transaction whose call runs on a worker: a request that ends it ends the call, and waits until
    /// the call has ended; others are repetitions.
    #[cold]
    pub(super) fn waits_for_own_worker(&mut self, request: Request) -> Option<Request> {
        let txn = request.txn();
        if !self.workers.calls(txn) || request.reads() {
            return Some(request);
        }
        if let Request::Abort { .. }
        | Request::RollBackTo { .. }
        | Request::Bind { .. }
        | Request::Finish { .. }
        | Request::Commit { .. } = request
        {
            if !self.workers.commits(txn) {
                self.workers.abandon(txn);
            }
            self.waiting.entry(txn).or_default().push(request.into());
        }
        None
    }
}
