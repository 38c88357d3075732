//! One shard as a state machine: takes requests, runs them to completion, hands out replies.
//!
//! No clock, no socket, no thread: the embedded cluster, the deterministic driver of the tests, and later
//! the server and the simulator all drive this same [`Node::step`].

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use weir_core::clock::HybridClock;
use weir_core::ids::{CoordinatorId, Position, Sender, ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{self, Done, Shard, Work};
use weir_core::participant::{Participant, Transactions as _};
use weir_core::termination::{Says as _, Terminates as _, Words};
use weir_sql::catalog::{SequenceId, TableId};
use weir_types::SqlError;
use weir_types::interrupt::{Budget, Interrupts, StatementId};

use crate::claims::{Claims, Holders};
use crate::exec::call::{self, Fragment, OpenStatement, Ran, Role, Stop};
use crate::exec::chosen::Chosen;
use crate::exec::definition::Description;
use crate::exec::program::Program;
use crate::exec::sequences::Sequences;
use crate::exec::worker::ClaimsOf;
use crate::faults::{Faults, NoFaults};
use crate::message::{
    Age, Answers, Begun, Call, Callee, Decision, Derived, Progress, Reply, Request, forgotten,
    schema_has_changed,
};
use crate::shard::definitions::Barrier;
use crate::shard::hand_over::Again;
use crate::shard::in_doubt::InDoubt;
use crate::shard::large_commits::{self, LargeCommit};
use crate::shard::long_calls::role_of_prepare;
use crate::shard::older_builds;
use crate::shard::open::Open;
use crate::shard::ordered::{Ordering, Replayed};
use crate::shard::participant::{Prepared, Sql};
use crate::shard::snapshot::Snapshots;
use crate::shard::starvation::Starvation;
use crate::shard::waiting::{Waiting, is_first_of_call};
use crate::shard::workers::Workers;
use crate::storage::shared::Shared;
use crate::storage::{LoggedRow, Storage, Workspace, Write, WriteSet};

/// Where a run puts its writes.
pub(crate) enum Target<'a> {
    /// The tables. The run commits, or is undone, before any other request is handled.
    InPlace,
    /// The write set of its transaction; with the open statement if the transaction is interactive.
    WriteSet(&'a mut WriteSet, Option<OpenStatement<'a>>),
}

/// Messages that a step sends.
pub type Effects = machine::Effects<Request, Reply>;

#[derive(Debug)]
pub struct Node<F = NoFaults> {
    pub shard: ShardId,
    pub storage: Shared<Storage>,
    pub(crate) program: Arc<Program>,
    pub(crate) clock: HybridClock,
    /// The state of its transactions. Outcomes are kept only where messages may be lost and processes may die.
    pub(crate) participant: Participant<Sql>,
    /// Claims that prepared and open transactions hold.
    pub(crate) claims: Shared<Claims>,
    /// Number of prepared transactions that hold their rows.
    pub(crate) hold_rows: usize,
    /// Active readers, each with the oldest position that it may still need: its own, or that of the oldest prepare that was undecided
    /// when it arrived.
    pub(crate) readers: BTreeMap<TxnId, Position>,
    pub(crate) snapshots: Snapshots,
    /// Long statements.
    pub(crate) workers: Workers,
    /// Transactions that ended in this step; requests that wait for them are retried by [`Node::wake`].
    pub(crate) ended: Vec<TxnId>,
    /// Commits of large write sets that are in progress, in their order.
    pub(crate) large: VecDeque<LargeCommit>,
    /// During recovery: rows whose commit may follow.
    pub(crate) unfinished: BTreeMap<TxnId, Vec<LoggedRow>>,
    /// Interactive transactions that have worked on this shard and have not ended.
    pub(crate) open: BTreeMap<TxnId, Open>,
    /// Set while a transaction changes the schema: other writers wait for it or withdraw.
    pub(crate) barrier: Option<Barrier>,
    /// Transactions whose outcome is not known since a restart.
    pub(crate) in_doubt: InDoubt,
    /// The schema has changed, and the new description has not been sent to clients yet.
    pub(crate) has_new_description: bool,
    /// The schema has changed since the snapshot in progress was begun.
    pub(crate) snapshot_is_void: bool,
    /// Requests that wait for the outcome of a transaction that holds their claim.
    pub(crate) waiting: BTreeMap<TxnId, Vec<Waiting>>,
    /// Rows that waiting statements had already chosen, by transaction.
    pub(crate) chosen: BTreeMap<TxnId, Chosen>,
    /// Further holders that a waiting statement of an open transaction needs the end of, by its transaction.
    pub(crate) waits_besides: BTreeMap<TxnId, Holders>,
    pub(super) starvation: Starvation,
    pub(super) again: Option<Again>,
    /// Ordered calls; none before the first program that has some.
    pub(super) ordering: Option<Box<Ordering>>,
    /// What has been read of ordered calls in the log.
    pub(super) replayed: Option<Box<Replayed>>,
    pub(super) scratch: call::Scratch,
    pub(crate) sequences: Shared<Sequences>,
    /// The last record that has the sequences: what they have handed out until then is durable with it.
    pub(crate) sequences_noted: Lsn,
    pub(crate) bugs: F,
    pub(crate) has_done: Done,
    pub(crate) interrupts: Arc<Interrupts>,
    /// Identity of the request that is being handled; interrupts name it.
    pub(crate) statement: StatementId,
}

/// Write sets of open transactions that insert many keys.
#[cold]
fn write_sets_of<'n>(loading: &[TxnId], open: &'n BTreeMap<TxnId, Open>) -> Vec<(TxnId, &'n WriteSet)> {
    loading.iter().filter_map(|other| Some((*other, &open.get(other)?.own))).collect()
}

impl<F: Faults> Node<F> {
    pub fn new(shard: ShardId, program: Arc<Program>, bugs: F) -> Node<F> {
        Node {
            shard,
            storage: Shared::new(Storage::new(program.schema.clone())),
            clock: HybridClock::new(shard),
            participant: Participant::default(),
            claims: Shared::default(),
            hold_rows: 0,
            readers: BTreeMap::new(),
            snapshots: Snapshots::default(),
            workers: Workers::default(),
            ended: Vec::new(),
            large: VecDeque::new(),
            unfinished: BTreeMap::new(),
            open: BTreeMap::new(),
            barrier: None,
            in_doubt: InDoubt::default(),
            has_new_description: false,
            snapshot_is_void: false,
            waiting: BTreeMap::new(),
            chosen: BTreeMap::new(),
            waits_besides: BTreeMap::new(),
            starvation: Starvation::default(),
            again: None,
            ordering: None,
            replayed: None,
            scratch: call::Scratch::default(),
            sequences: Shared::default(),
            sequences_noted: Lsn::START,
            program,
            bugs,
            has_done: Done::default(),
            interrupts: Arc::default(),
            statement: StatementId::default(),
        }
    }
}

/// Not generic, so that the executor of products is compiled in this crate, as one unit: code of a generic function is made in each crate that
/// calls it, where the storage's small functions are not inlined.
fn step_of_product(
    shard: &mut Node<NoFaults>,
    now_ms: u64,
    from: Sender,
    request: Request,
    out: &mut Effects,
) {
    shard.take_step(now_ms, from, request, out);
}

impl<F: Faults> Shard for Node<F> {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;

    fn id(&self) -> ShardId {
        self.shard
    }

    fn interrupts(&self) -> Option<&Arc<Interrupts>> {
        Some(&self.interrupts)
    }

    fn epoch(&self) -> u64 {
        self.participant.readers.epoch()
    }

    fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        let Progress { settled_below, drained } = progress;
        let passed = self.participant.on_progress(coordinator, [], settled_below, drained);
        if let Some(passed) = passed {
            self.participant.settle_all(passed.clone());
            if self.participant.remembers {
                self.end_reads(passed);
            }
        }
        self.drain(now_ms);
    }

    fn step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects) {
        match (self as &mut dyn Any).downcast_mut::<Node<NoFaults>>() {
            Some(product) => step_of_product(product, now_ms, from, request, out),
            None => self.take_step(now_ms, from, request, out),
        }
    }

    fn set_step_budget(&mut self, budget: Budget) {
        self.workers.set_budget(budget);
    }

    fn begin_turn(&mut self) {
        // In this order: a worker takes the other locks while it holds that of the storage.
        self.storage.hold_lock();
        self.claims.hold_lock();
        self.sequences.hold_lock();
    }

    fn end_turn(&mut self) {
        if self.workers.has_any() {
            self.sequences.release_lock();
            self.claims.release_lock();
            self.storage.release_lock();
        }
    }

    fn take_work(&mut self) -> Vec<Work> {
        self.workers.take()
    }

    fn has_work(&self) -> bool {
        self.workers.has_any()
    }

    fn on_work_done(&mut self, now_ms: u64, out: &mut Effects) {
        let sent = (out.replies.len(), out.peers.len());
        self.answer_finished(now_ms, out);
        self.wake(now_ms, out);
        self.forget();
        self.hold_back(sent, out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects) {
        self.storage.begin_step();
        let beside = self.write_sets_bytes();
        self.storage.look_at_memory(beside);
        self.program.count(self.storage.row_counts());
        let sent = (out.replies.len(), out.peers.len());
        if self.participant.remembers {
            self.participant.readers.on_timer(now_ms);
        }
        self.bound_snapshots(out);
        self.bound_long_reads();
        if !self.participant.remembers {
            return;
        }
        let terminate_ms = self.participant.timeouts.terminate_ms;
        let silent: Vec<CoordinatorId> = self.participant.readers.silent_for(terminate_ms).collect();
        if !silent.is_empty() {
            // If such a coordinator still lives, its reads are answered with a retry.
            self.readers.retain(|read, _| !silent.contains(&read.coordinator));
            if !self.large.is_empty() {
                self.complete_those_of(&silent, out);
                // Repeated requests that wait for these are answered, not withdrawn.
                self.wake(now_ms, out);
            }
            self.withdraw_what_waits_of(&silent, out);
            self.drop_open_of(&silent);
            self.drop_entrances_of(&silent);
            self.workers.drop_those_of(&silent);
        }
        self.expire(now_ms);
        let words = self.finish_the_silent();
        self.send_words(words, out);
        self.end_doubts(now_ms);
        self.on_ordering_timer(now_ms, out);
        self.wake(now_ms, out);
        self.forget();
        self.hold_back(sent, out);
    }

    fn refused_by(request: &Request, version: u16, shard: ShardId) -> Option<Reply> {
        older_builds::answer(request, version, shard)
    }

    fn is_idle(&self) -> bool {
        self.participant.prepared().is_empty()
            && self.waiting.is_empty()
            && self.open.is_empty()
            && !self.workers.has_any()
            && self.ordering.as_ref().is_none_or(|ordering| ordering.is_idle())
    }
}

impl<F: Faults> Node<F> {
    fn take_step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects) {
        let sent = (out.replies.len(), out.peers.len());
        self.storage.begin_step();
        match (from, request) {
            (from, Request::Ordered(message)) => self.on_ordered(now_ms, from, *message, out),
            (Sender::Shard(peer), request) => {
                if !self.large.is_empty() {
                    self.complete_for_peer(&request, out);
                }
                let words = self.on_peer(peer, &request);
                self.send_words(words, out);
            }
            (Sender::Coordinator(_), request) => self.on_request(now_ms, request, out),
        }
        self.wake(now_ms, out);
        self.forget();
        self.hold_back(sent, out);
    }

    /// Ends reads that their coordinator has reported as over: the message that ended one may have been lost.
    fn end_reads(&mut self, over: Range<TxnId>) {
        while let Some((&read, _)) = self.readers.range(over.clone()).next() {
            self.readers.remove(&read);
        }
        self.workers.end_all(over);
    }

    /// Position of the last record that a row read in this step depends on.
    pub(crate) fn read_dependency(&self) -> Lsn {
        match self.bugs.ignores_read_dependencies() {
            true => Lsn::START,
            false => self.storage.read_dependency(),
        }
    }

    /// Sends a reply that may depend on every record noted so far.
    pub(crate) fn reply(&self, txn: TxnId, reply: Reply, out: &mut Effects) {
        out.reply(txn.coordinator, reply, self.noted());
    }

    /// Sends a reply that depends on no record but those of the rows that this step has read.
    pub(crate) fn reply_from_rows(&self, txn: TxnId, reply: Reply, out: &mut Effects) {
        out.reply(txn.coordinator, reply, self.read_dependency());
    }

    fn send_words(&self, words: Words, out: &mut Effects) {
        let after = self.noted();
        words.into_iter().for_each(|(shard, word)| out.ask(shard, Request::saying(word), after));
    }

    fn on_request(&mut self, now_ms: u64, request: Request, out: &mut Effects) {
        self.statement = request.statement();
        if self.participant.remembers && (self.is_repeated(&request, out) || self.is_late(&request)) {
            return;
        }
        if let Some(refusal) = self.refuses_clock(now_ms, &request) {
            return self.answer(request.txn(), refusal, out);
        }
        self.on_admitted(now_ms, request, out);
    }

    /// Handles a request whose clock has been accepted.
    pub(super) fn on_admitted(&mut self, now_ms: u64, request: Request, out: &mut Effects) {
        if self.barrier.is_none() && self.in_doubt.is_empty() {
            self.on_passed(now_ms, request, out);
        } else if let Some(request) = self.pass_barrier(now_ms, request, out) {
            self.on_passed(now_ms, request, out);
        }
    }

    /// Handles a request that no barrier stops.
    fn on_passed(&mut self, now_ms: u64, request: Request, out: &mut Effects) {
        let now_ms = self.time_of(now_ms, &request);
        let Some(request) = self.behind_what_it_has_seen(request) else { return };
        let request = match self.workers.has_any() {
            true => match self.waits_for_own_worker(request) {
                Some(request) => request,
                None => return,
            },
            false => request,
        };
        if !self.large.is_empty() {
            self.complete_before(&request, out);
        }
        self.starvation.meet(&request);
        match request {
            Request::Execute { txn, begun, call, incarnation } => {
                self.on_execute(now_ms, txn, begun, (call, incarnation), out)
            }
            Request::Prepare { txn, begun, call, participants } => {
                self.on_prepare(now_ms, txn, begun, call, participants, out)
            }
            Request::Decide { txn, begun, decision } => self.on_decide(now_ms, txn, begun, decision, out),
            Request::Apply { txn, begun, call } => self.on_apply(now_ms, txn, begun, call, out),
            // Its participants decide by their votes.
            Request::Abort { txn } | Request::Commit { txn, .. } if self.has_voted_for(txn) => {}
            Request::Commit { txn, timestamp } => self.on_commit(txn, timestamp, out),
            Request::Abort { txn } => {
                // Its waiting request must not start the transaction again.
                self.stop_waiting(txn);
                if !self.abort(txn) {
                    // The prepare of this transaction may arrive later than its abort.
                    self.note_refusal(txn, None);
                }
                if self.participant.remembers {
                    self.reply(txn, Reply::Aborted { txn, shard: self.shard }, out);
                }
            }
            Request::Read { read, session, query, within } => {
                self.on_read((read, within), session, &query, out)
            }
            Request::ReadAt { read, session, query, position, including, within } => {
                self.on_read_at((read, within), session, &query, position, including, out)
            }
            Request::Work { txn, begun, work } => self.on_work(now_ms, txn, begun, work, out),
            Request::RollBackTo { txn, age, number, after, opened } => {
                self.on_roll_back_to(txn, age, (number, after), opened, out)
            }
            Request::Bind { txn, participants, opened, .. } => {
                self.on_bind(now_ms, txn, (participants, opened), out)
            }
            Request::WorkAndBind { txn, begun, work, participants } => {
                self.on_work_and_bind(now_ms, (txn, begun), work, participants, out)
            }
            Request::Finish { txn, participants, above, opened, .. } => {
                self.on_finish(now_ms, txn, (participants, opened), above, out)
            }
            Request::EndRead { read } => {
                self.readers.remove(&read);
                self.workers.end(read);
            }
            Request::OpenSnapshot { read, session, schema_version } => {
                self.on_cut(read, session, schema_version, out)
            }
            Request::KeepSnapshot { read, session, position, including } => {
                self.on_keep((read, session), position, including, out)
            }
            Request::ReadSnapshot { read, snapshot, query } => self.on_read_kept(read, snapshot, &query, out),
            Request::SnapshotIsRead { snapshot } => self.on_still_read(snapshot),
            Request::EndSnapshot { snapshot } => self.on_end_snapshot(snapshot, out),
            // Only shards send words to each other; a coordinator's are ignored. Those of ordered calls have been taken before.
            Request::Ask { .. } | Request::Tell { .. } | Request::Ordered(_) => {}
        }
    }

    fn on_commit(&mut self, txn: TxnId, timestamp: Timestamp, out: &mut Effects) {
        let own = self.participant.prepared().get(&txn).and_then(|prepared| {
            // Others' changes of its rows are possible where it does not hold them.
            prepared.own.as_ref().filter(|_| prepared.holds_rows && prepared.definitions.is_none())
        });
        if own.is_some_and(|own| self.is_large(own)) && !self.bugs.no_guards() {
            self.clock.observe(timestamp);
            return self.begin_large(txn, timestamp, large_commits::Kind::Prepared);
        }
        self.commit(txn, timestamp);
        self.reply(txn, Reply::Committed { txn, shard: self.shard }, out);
    }

    /// Answers a repeated request as the first time, and drops one that must not take effect any more. Returns whether it did either.
    pub(super) fn is_repeated(&mut self, request: &Request, out: &mut Effects) -> bool {
        let (txn, shard) = (request.txn(), self.shard);
        if !self.participant.remembers || self.bugs.takes_effect_twice() {
            return false;
        }
        // The transaction that took a snapshot has ended before the snapshot is read.
        if matches!(request, Request::SnapshotIsRead { .. } | Request::EndSnapshot { .. }) {
            return false;
        }
        if self.participant.readers.is_below(txn.coordinator, txn.sequence) {
            return true;
        }
        if request.reads() {
            return false;
        }
        let reply = if let Some(again) = self.answer_again(request) {
            again
        } else if self.participant.outcomes.is_retired(txn.coordinator) {
            Some(Reply::Retired { txn, shard })
        } else if matches!(request, Request::Commit { .. } | Request::Abort { .. }) {
            return false;
        } else if let Some(prepared) = self.participant.prepared().get(&txn) {
            // A late rollback to a savepoint: once the transaction is prepared nothing is undone.
            let answer = prepared.answer.as_deref().cloned();
            answer.map(|(answers, timestamp)| Reply::Prepared { txn, shard, answers, timestamp })
        } else if matches!(request, Request::RollBackTo { .. }) {
            return false;
        } else if let Some(holder) = self.waits_for(txn) {
            // A waiting statement reports its holder again, for deadlock detection and for views; other requests are answered later.
            if matches!(request, Request::Work { .. }) || is_first_of_call(request) {
                self.tell_whom_it_waits_for(txn, holder, out);
            }
            None
        } else {
            return false;
        };
        if let Some(reply) = reply {
            self.reply(txn, reply.spoken(), out);
        }
        true
    }

    /// Sends a reply to the coordinator, and remembers it for repetitions.
    pub(crate) fn answer(&mut self, txn: TxnId, reply: Reply, out: &mut Effects) {
        let after = match self.participant.remembers {
            true => self.note_refusal(txn, Some(&reply)),
            false => Lsn::START,
        };
        out.reply(txn.coordinator, reply.spoken(), after);
    }

    /// Returns whether the request is for an earlier incarnation, which may have answered it without a record. A shard without a log
    /// ignores no request: with its rows all is gone that the request could contradict.
    fn is_late(&self, request: &Request) -> bool {
        match request {
            Request::Execute { incarnation: Some(incarnation), .. } => {
                *incarnation != self.participant.incarnation
                    && self.participant.log.is_on()
                    && !self.bugs.runs_late_requests()
            }
            _ => false,
        }
    }

    fn on_execute(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        begun: Begun,
        (call, incarnation): (Box<Call>, Option<u64>),
        out: &mut Effects,
    ) {
        if let Callee::SetSequence { sequence, value, is_given, .. } = call.callee {
            return self.on_set_sequence(now_ms, txn, call.schema_version, (sequence, value, is_given), out);
        }
        let callee =
            self.check_schema_version(call.schema_version).and_then(|()| self.program.callee(&call.callee));
        let (read_only, guarded) = match callee {
            Ok(callee) => (callee.read_only, callee.guarded),
            Err(error) => return self.answer(txn, Reply::Executed { txn, result: Err(error) }, out),
        };
        if self.bugs.no_guards() && guarded {
            return self.on_prepare(now_ms, txn, begun, Arc::new(*call), Arc::new([self.shard]), out);
        }
        // A read-only call must not advance the clock.
        let timestamp = self.clock.tick(if read_only { 0 } else { now_ms });
        let begin = self.storage.position();
        match self.run(txn, &call, Role::Whole, timestamp, false, Target::InPlace) {
            Ok(ran) if read_only => {
                let after = self.read_dependency();
                self.has_read(txn, ran, after, out);
            }
            Ok(ran) if incarnation.is_some() && self.has_changed_nothing_since(begin) => {
                self.unchanged(txn, ran, out);
            }
            Ok(ran) => self.executed(txn, ran, (timestamp, begin), out),
            Err(stop) => {
                self.storage.rollback(begin);
                self.stopped(stop, Request::Execute { txn, begun, call, incarnation }, out);
            }
        }
    }

    /// Answers a read-only call. It may run again, so its outcome is not logged.
    pub(super) fn has_read(&mut self, txn: TxnId, ran: Ran, after: Lsn, out: &mut Effects) {
        let reply = Reply::Executed { txn, result: Ok(ran.output) };
        out.reply(txn.coordinator, reply.spoken(), after);
    }

    /// Commits a call whose only participant is this shard; its changes are those since `begin`.
    pub(super) fn executed(
        &mut self,
        txn: TxnId,
        ran: Ran,
        (timestamp, begin): (Timestamp, Position),
        out: &mut Effects,
    ) {
        let reply = Reply::Executed { txn, result: Ok(ran.output) };
        self.has_done.commits += 1;
        self.note_commit((txn, timestamp), (begin, Vec::new()), None, &reply);
        self.reply(txn, reply.spoken(), out);
    }

    /// Returns whether neither rows nor sequences have changed since that position.
    fn has_changed_nothing_since(&self, begin: Position) -> bool {
        self.storage.position() == begin && !self.sequences.has_changed()
    }

    /// Answers a call that has changed nothing.
    fn unchanged(&mut self, txn: TxnId, ran: Ran, out: &mut Effects) {
        self.note_unchanged(txn, Reply::Executed { txn, result: Ok(ran.output.clone()) });
        self.reply_from_rows(txn, Reply::Unchanged { txn, output: ran.output }.spoken(), out);
    }

    /// A run has stopped, and its writes are undone.
    pub(super) fn stopped(&mut self, stop: Stop, request: Request, out: &mut Effects) {
        match stop {
            Stop::Error(error) => {
                let (txn, shard) = (request.txn(), self.shard);
                let reply = match request {
                    Request::Execute { .. } => Reply::Executed { txn, result: Err(error) },
                    _ => Reply::Refused { txn, shard, error },
                };
                self.answer(txn, reply, out);
            }
            Stop::Long => self.run_beside(request, out),
            // It begins again, without the owners of its keys as participants.
            Stop::Elsewhere { .. } if !matches!(request, Request::Execute { .. }) => {
                let (txn, shard) = (request.txn(), self.shard);
                self.answer(txn, Reply::Busy { txn, shard }, out);
            }
            Stop::Elsewhere { table, attempt } => {
                let (txn, derived) = (request.txn(), vec![Derived::BeginAgain { table, attempt }]);
                let reply = Box::new(Reply::Executed { txn, result: Err(forgotten()) });
                self.answer(txn, Reply::Derived { derived, reply }, out);
            }
            stop @ (Stop::Held(_) | Stop::Pinned { .. }) => {
                let holders = self.holders(stop);
                self.wait_for(holders, request, out);
            }
        }
    }

    fn on_set_sequence(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        schema_version: u64,
        (sequence, value, is_given): (SequenceId, i64, bool),
        out: &mut Effects,
    ) {
        let is_there = || match (sequence.0 as usize) < self.program.sequences.len() {
            true => Ok(()),
            false => Err(schema_has_changed()),
        };
        if let Err(error) = self.check_schema_version(schema_version).and_then(|()| is_there()) {
            return self.answer(txn, Reply::Executed { txn, result: Err(error) }, out);
        }
        let (timestamp, begin) = (self.clock.tick(now_ms), self.storage.position());
        self.sequences.set(&self.program, self.shard, sequence, (value, is_given));
        let reply = Reply::Executed { txn, result: Ok(Default::default()) };
        self.note_commit((txn, timestamp), (begin, Vec::new()), None, &reply);
        self.reply(txn, reply, out);
    }

    fn on_prepare(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        begun: Begun,
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        out: &mut Effects,
    ) {
        let timestamp = self.clock.tick(now_ms);
        let role = role_of_prepare(&participants);
        // The writes become visible at COMMIT.
        let mut own = WriteSet::default();
        match self.run(txn, &call, role, timestamp, true, Target::WriteSet(&mut own, None)) {
            Ok(ran) => self.prepared(txn, begun.age, participants, (ran, own), timestamp, out),
            Err(stop) => {
                self.storage.discard_write_set(own);
                self.stopped(stop, Request::Prepare { txn, begun, call, participants }, out);
            }
        }
    }

    /// Prepares a part that has run, or answers that it has failed.
    pub(super) fn prepared(
        &mut self,
        txn: TxnId,
        age: Age,
        participants: Arc<[ShardId]>,
        (mut ran, own): (Ran, WriteSet),
        timestamp: Timestamp,
        out: &mut Effects,
    ) {
        let has_failed = ran.answers.error.is_some();
        let answers = std::mem::take(&mut ran.answers);
        let answer = self.participant.remembers.then(|| Box::new((answers.clone(), timestamp)));
        let reply = Reply::Prepared { txn, shard: self.shard, answers, timestamp };
        // A failed part keeps no claims: the last participant will refuse.
        if has_failed {
            self.storage.discard_write_set(own);
            return self.answer(txn, reply, out);
        }
        self.hold_run((txn, age), participants, (ran, own), answer);
        self.note_prepared(txn);
        self.reply(txn, reply, out);
    }

    /// A part that has run is prepared from now on.
    pub(super) fn hold_run(
        &mut self,
        (txn, age): (TxnId, Age),
        participants: Arc<[ShardId]>,
        (ran, own): (Ran, WriteSet),
        answer: Option<Box<(Answers, Timestamp)>>,
    ) {
        let writes: Arc<[Write]> = ran.writes.into();
        let (pins, at) = (self.pin(&writes), self.storage.position());
        let prepared = Prepared {
            age,
            writes,
            own: Some(own),
            pins,
            claims: ran.claims,
            participants,
            at,
            answer,
            holds_rows: ran.locks_rows,
            definitions: None,
        };
        self.hold(txn, prepared);
    }

    fn on_apply(&mut self, now_ms: u64, txn: TxnId, begun: Begun, call: Arc<Call>, out: &mut Effects) {
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        match self.run(txn, &call, Role::Part, timestamp, false, Target::InPlace) {
            Ok(ran) => {
                if ran.answers.error.is_some() {
                    self.storage.rollback(begin);
                }
                self.applied(txn, ran, (timestamp, begin), out);
            }
            Err(stop) => {
                self.storage.rollback(begin);
                self.stopped(stop, Request::Apply { txn, begun, call }, out);
            }
        }
    }

    /// Commits a part of the comparator `none`.
    pub(super) fn applied(
        &mut self,
        txn: TxnId,
        ran: Ran,
        (timestamp, begin): (Timestamp, Position),
        out: &mut Effects,
    ) {
        let reply = Reply::Prepared { txn, shard: self.shard, answers: ran.answers, timestamp };
        self.note_commit((txn, timestamp), (begin, Vec::new()), None, &reply);
        self.reply(txn, reply, out);
    }

    fn on_decide(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        begun: Begun,
        decision: Box<Decision>,
        out: &mut Effects,
    ) {
        self.clock.observe(decision.above);
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        // Only readers at an earlier position need its operations (S5).
        let keep = !self.readers.is_empty();
        match self.run(txn, &decision.call, Role::Last(&decision.answers), timestamp, keep, Target::InPlace) {
            Ok(ran) => {
                let participants = decision.participants;
                self.decided(txn, ran, participants, (timestamp, begin), out);
            }
            Err(stop) => {
                self.storage.rollback(begin);
                self.stopped(stop, Request::Decide { txn, begun, decision }, out);
            }
        }
    }

    /// Commits the part of the last participant, which is the decision.
    pub(super) fn decided(
        &mut self,
        txn: TxnId,
        ran: Ran,
        participants: Arc<[ShardId]>,
        (timestamp, begin): (Timestamp, Position),
        out: &mut Effects,
    ) {
        let writes = (!self.readers.is_empty()).then(|| ran.writes.into());
        let committed = self.unsettled(timestamp, participants, (begin, writes));
        let reply = Reply::Decided { txn, output: ran.output, timestamp };
        self.has_done.commits += 1;
        self.note_commit((txn, timestamp), (begin, Vec::new()), committed, &reply);
        self.reply(txn, reply.spoken(), out);
    }

    /// Rejects a request bound to another schema version: table and statement numbers differ between versions.
    pub(crate) fn check_schema_version(&self, schema_version: u64) -> Result<(), SqlError> {
        match schema_version == self.program.schema_version {
            true => Ok(()),
            false => Err(schema_has_changed()),
        }
    }

    /// Program of the schema version in place.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Number of the schema version in place.
    pub fn schema_version(&self) -> u64 {
        self.program.schema_version
    }

    /// Description of the schema in place; none if the schema cannot be changed.
    pub fn description(&self) -> Option<Arc<Description>> {
        self.program.described().map(|(_, description)| description.clone())
    }

    /// Description of the schema, if it has been changed since the program was built.
    pub(crate) fn changed_description(&self) -> Option<Arc<Description>> {
        self.description().filter(|description| description.schema_version() != 0)
    }

    /// Runs a call or a statement on `target`.
    pub(crate) fn run(
        &mut self,
        txn: TxnId,
        call: &Call,
        role: Role<'_>,
        timestamp: Timestamp,
        keep_writes: bool,
        target: Target<'_>,
    ) -> Result<call::Ran, Stop> {
        let watch = self.interrupts.watch_within(self.statement, self.budget_of(txn, call));
        let _zone = call.transaction_time.zone.enter();
        let looks = matches!(call.callee, Callee::Constraints(_));
        if !looks {
            // The view must have the schema version that the transaction is bound to.
            self.check_schema_version(call.schema_version)?;
        }
        let callee = self.program.callee(&call.callee)?;
        let (storage, open) = match target {
            Target::InPlace => (Workspace::in_place(&mut self.storage), None),
            Target::WriteSet(own, open) => (Workspace::beside(&mut self.storage, own), open),
        };
        let later = open.map_or(&[][..], |open| open.later);
        let loading = match self.claims.loading[..] {
            [] => Vec::new(),
            ref loading => write_sets_of(loading, &self.open),
        };
        let claims = ClaimsOf::Step(&self.claims);
        let fragment = Fragment {
            program: &self.program,
            procedure: &callee,
            storage,
            environment: self
                .sequences
                .environment(&self.program, self.shard, call.transaction_time)
                .of_transaction(&self.program, (claims, txn), self.chosen.get(&txn)),
            claims,
            loading,
            here: self.shard,
            txn,
            role,
            timestamp,
            keep_writes,
            open,
            has_locks: (!self.open.is_empty() || self.hold_rows > 0 || self.workers.has_calls())
                && !self.bugs.ignores_open(),
            reserved: self.starvation.met,
            looks: looks.then_some(if self.bugs.forgets_deferred() { &[][..] } else { later }),
            derived: call.callee.derived().map(|derived| &derived[..]),
            attempt: call.callee.attempt(),
            prepared: &|visit| {
                let others = self.participant.prepared().iter().filter(|(other, _)| **other != txn);
                others.for_each(|(other, prepared)| visit(*other, &prepared.writes));
            },
            bugs: self.bugs,
        };
        let ran = call::run(fragment, call, &mut self.scratch).map(Ran::packed);
        let is_long = watch.has_spent_its_budget();
        if self.scratch.chosen.is_some() || !self.chosen.is_empty() {
            let chosen = self.scratch.chosen.take();
            self.keep_chosen(txn, chosen, is_long || matches!(ran, Err(Stop::Held(_) | Stop::Pinned { .. })));
        }
        if is_long {
            // The worker runs it anew.
            (self.scratch.met, self.scratch.stopped_at) = (None, None);
            return Err(Stop::Long);
        }
        if !self.workers.attempts.is_empty() {
            self.workers.attempts.remove(&txn);
        }
        ran
    }

    /// A run that has to wait keeps the rows that it had chosen; they are forgotten with any other end.
    #[cold]
    pub(super) fn keep_chosen(&mut self, txn: TxnId, chosen: Option<Chosen>, waits: bool) {
        match (waits, chosen) {
            (true, Some(chosen)) => {
                self.chosen.entry(txn).or_insert(chosen);
            }
            (true, None) => {}
            (false, _) => drop(self.chosen.remove(&txn)),
        }
    }

    /// Bytes held by uncommitted write sets.
    fn write_sets_bytes(&self) -> usize {
        let open = self.open.values().map(|open| open.own.bytes());
        let prepared = self.participant.prepared().values().filter_map(|one| one.own.as_ref());
        open.chain(prepared.map(WriteSet::bytes)).sum()
    }

    /// Drops history that no reader, snapshot or prepared transaction may need.
    pub(crate) fn forget(&mut self) {
        let readers = self.readers.values().copied().min();
        let snapshots = self.snapshots.oldest();
        let workers = self.workers.oldest();
        let oldest =
            [readers, snapshots, workers, self.participant.oldest_prepare()].into_iter().flatten().min();
        let needed = oldest.unwrap_or(self.storage.position());
        self.storage.forget(needed);
        if let Some(leftovers) = self.storage.take_forgotten() {
            self.workers.drop_beside(leftovers);
        }
    }

    /// Highest clock that this shard has issued or seen.
    pub fn last_clock(&self) -> u64 {
        self.clock.last()
    }

    /// Makes a sequence continue after `value`: rows of the initial population use the values up to it.
    pub fn go_beyond(&mut self, sequence: SequenceId, value: i64) {
        self.sequences.go_beyond(&self.program, self.shard, sequence, value);
        self.has_loaded();
    }

    fn has_loaded(&mut self) {
        self.participant.log.replace();
    }

    /// Inserts a row of the initial population at its home, or on every shard if it is replicated, and its entries at their owners; see
    /// [`Node::load`]. `nodes`: all shards, in order.
    pub fn load_row(
        nodes: &mut [Node<F>],
        program: &Program,
        table: TableId,
        values: &[weir_types::Value],
    ) -> Result<(), SqlError> {
        let value = |column: usize| values[column].clone();
        let Some(home) = program.home(table, &value) else {
            return nodes.iter_mut().try_for_each(|node| node.load(table, values));
        };
        nodes[usize::from(home)].load(table, values)?;
        program
            .entries_of_row(table, home, &value)
            .into_iter()
            .try_for_each(|entry| nodes[usize::from(entry.owner)].load(entry.entries, &entry.values))
    }

    /// Inserts a row of the initial population on this shard; checks keys only. A shard with a log writes a snapshot as its next record.
    pub fn load(&mut self, table: TableId, values: &[weir_types::Value]) -> Result<(), SqlError> {
        let timestamp = self.clock.tick(0);
        self.storage.insert(table, values, timestamp)?;
        let position = self.storage.position();
        self.storage.forget(position);
        self.has_loaded();
        Ok(())
    }
}
