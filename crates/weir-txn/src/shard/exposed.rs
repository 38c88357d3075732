//! Checks of requests from other processes to a shard of SQL calls (see [`weir_core::exposed`]).
//!
//! A call must be one of the program's, with values of its parameters' types. Its participants must be those that the program computes,
//! in that order: the last one decides, and receives one answer of each of the others. The contents of these answers are trusted.

use std::sync::Arc;

use weir_core::clock::{CLOCK_AHEAD_MS_MAX, ms_of};
use weir_core::exposed::{refuses_clock, refuses_from, refuses_sequence};
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::machine::{Exposed, Figures, Shard as _, TableFigures};
use weir_core::termination::Says as _;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::exec::definition::Description;
use crate::exec::program::Program;
use crate::faults::Faults;
use crate::message::{
    Answers, Attachment, Attempt, Call, Callee, Decision, Derived, OrderedMessage, ParentChange, PartsRead,
    Progress, QueryReads, ReadQuery, Reply, Request, Sibling, Work, too_large, too_much_derived,
};
use crate::shard::building::Build;
use crate::shard::node::Node;
use crate::shard::open::Open;
use crate::storage::{Rows as _, TableSchema};

const WITH_KEYS_WITHIN: &str = "an INSERT by itself, with its keys, within a transaction";

/// First protocol version that knows [`Reply::Raised`].
const RAISED_FROM: u16 = 3;
/// First protocol version that knows [`Reply::WaitsBesides`].
const WAITS_BESIDES_FROM: u16 = 4;
/// First protocol version that knows [`Callee::Derived`] and [`Reply::Derived`].
pub(super) const DERIVED_FROM: u16 = 6;
/// First protocol version that knows [`Attempt`].
pub(super) const ATTEMPTS_FROM: u16 = 8;
/// First protocol version that knows [`Callee::Build`].
pub(super) const BUILDS_FROM: u16 = 10;

impl<F: Faults> Exposed for Node<F> {
    type Description = Description;
    type Attachment = Attachment;

    fn attachment(request: &Request) -> Attachment {
        Attachment::of(request)
    }

    fn attach(request: &mut Request, attachment: Attachment) -> Option<&'static str> {
        attachment.attach_to(request)
    }

    fn refuses(&self, progress: &Progress) -> Option<&'static str> {
        refuses_sequence(progress.settled_below)
    }

    fn refuses_request(&self, from: Sender, request: &Request, shards: ShardId) -> Option<&'static str> {
        if let Request::Ordered(message) = request {
            return self.refuses_ordered(from, message, shards);
        }
        let is_word = request.word().is_some();
        if let Some(why) = refuses_from(from, is_word, Some(request.txn()), &self.participant.readers) {
            return Some(why);
        }
        match request {
            Request::Execute { txn, call, .. } => match call.callee {
                Callee::SetSequence { shard, .. } => {
                    let is_here = shard == self.id() && call.args.is_empty();
                    (!is_here).then_some("a sequence of another shard")
                }
                Callee::Attempt(ref callee, Attempt::ByKey(_)) => {
                    self.refuses_attempt(*txn, callee, (call, &[self.id()]))
                }
                _ => self.refuses_call(*txn, call, &[self.id()]),
            },
            Request::Prepare { participants, .. } if participants.last() == Some(&self.id()) => {
                Some("a prepare of the participant that decides")
            }
            Request::Prepare { txn, call, participants, .. } => self.refuses_call(*txn, call, participants),
            Request::Decide { txn, decision, .. } => self.refuses_decision(*txn, decision),
            Request::Apply { .. } => Some("the comparator `none`, which is for benches within a process"),
            Request::Work { txn, work, .. } => match &work.call.callee {
                Callee::Definition(_) | Callee::Build(_) => {
                    self.refuses_definition(&work.call, &work.participants)
                }
                Callee::AdvisoryLock { key, .. } => {
                    let is_home = *work.participants == [self.id()] && key.home(shards) == self.id();
                    (!is_home).then_some("an advisory lock that another shard knows of")
                }
                Callee::Sequences => {
                    (*work.participants != [self.id()]).then_some("the sequences of another shard")
                }
                Callee::Constraints(_) => {
                    let are_some = work.participants.contains(&self.id())
                        && work.participants.iter().all(|shard| *shard < shards);
                    (!are_some || !work.call.args.is_empty()).then_some("constraints of other shards")
                }
                Callee::SetSequence { .. } => Some("setval is no statement of a transaction"),
                Callee::Derived(derived) => self.refuses_derived_work(*txn, (work, derived), shards),
                Callee::Procedure(_) | Callee::Text(_) => {
                    self.refuses_call(*txn, &work.call, &work.participants)
                }
                Callee::Serializable(callee) => match **callee {
                    Callee::Procedure(_) | Callee::Text(_) => {
                        let refused = self.refuses_code(*txn, &work.call, &work.participants);
                        refused.or_else(|| self.takes_no_part(&work.participants))
                    }
                    Callee::Attempt(_, Attempt::WithKeys) => Some(WITH_KEYS_WITHIN),
                    Callee::Attempt(ref callee, _) => {
                        self.refuses_attempt(*txn, callee, (&work.call, &work.participants))
                    }
                    _ => Some("a serializable statement that is none"),
                },
                Callee::Attempt(_, Attempt::WithKeys) => Some(WITH_KEYS_WITHIN),
                Callee::Attempt(callee, _) => {
                    self.refuses_attempt(*txn, callee, (&work.call, &work.participants))
                }
                Callee::Reads(reads) => self.refuses_reads(*txn, reads, work),
                Callee::Barrier | Callee::Enter => {
                    let is_for_all = (0..shards).eq(work.participants.iter().copied());
                    (!is_for_all).then_some("a barrier that is not for all shards")
                }
            },
            Request::RollBackTo { number, after, .. } => {
                (after >= number).then_some("a roll-back to what is to come")
            }
            Request::Bind { participants, .. } => self.refuses_bind(participants, shards),
            Request::WorkAndBind { txn, work, participants, .. } => match work.call.callee.derived() {
                Some(derived) => self
                    .refuses_bind(participants, shards)
                    .or_else(|| self.refuses_derived_work(*txn, (work, derived), shards)),
                None => Some("the end of a transaction beside a statement"),
            },
            Request::Finish { participants, above, .. } => refuses_clock(above.clock).or_else(|| {
                let is_one = participants.iter().all(|shard| *shard < shards)
                    && participants.last().is_none_or(|last| *last == self.id());
                (!is_one).then_some("participants that cannot be")
            }),
            Request::Commit { timestamp, .. } => refuses_clock(timestamp.clock),
            Request::Read { query, within, .. } => self.refuses_query(*within, query),
            Request::ReadAt { query, including, within, .. } => {
                refuses_siblings(including, shards).or_else(|| self.refuses_query(*within, query))
            }
            Request::KeepSnapshot { including, .. } => refuses_siblings(including, shards),
            Request::ReadSnapshot { read, snapshot, query } => match snapshot.coordinator == read.coordinator
            {
                true => self.refuses_query(None, query),
                false => Some("a read of another coordinator's snapshot"),
            },
            Request::Abort { .. }
            | Request::EndRead { .. }
            | Request::Ask { .. }
            | Request::Tell { .. }
            | Request::OpenSnapshot { .. }
            | Request::SnapshotIsRead { .. }
            | Request::EndSnapshot { .. }
            | Request::Ordered(_) => None,
        }
    }

    fn figures(&self) -> Figures {
        let table = |(id, table): (usize, &Arc<TableSchema>)| TableFigures {
            name: table.name.clone(),
            rows: self.storage.row_count(TableId(id as u32)),
            bytes: self.storage.about_bytes(TableId(id as u32)),
        };
        Figures {
            tables: self.storage.schema().tables.iter().enumerate().map(table).collect(),
            open: self.open.len(),
            prepared: self.participant.prepared().len(),
            waiting: self.waiting.values().map(Vec::len).sum(),
            disk_is_full: self.storage.room.disk_is_full,
            clock_ms: ms_of(self.clock.last()),
            done: self.has_done,
            order: self.ordering.as_ref().map(|ordering| ordering.figures()),
        }
    }

    fn instead_of(reply: &Reply) -> Option<Reply> {
        match reply {
            // A client that takes this for an error of the call finds in its text that the call has run.
            Reply::Executed { txn, result: Ok(_) } | Reply::Unchanged { txn, .. } => {
                Some(Reply::Executed { txn: *txn, result: Err(too_large(true)) })
            }
            Reply::Prepared { txn, shard, .. } => {
                Some(Reply::Refused { txn: *txn, shard: *shard, error: too_large(false) })
            }
            Reply::Worked { result: Ok(_), .. } => Some(failed(reply.clone(), too_large(false))),
            Reply::InOrder { txn, shard, .. } => {
                let answers = Answers { error: Some(too_large(true)), ..Answers::default() };
                Some(Reply::InOrder { txn: *txn, shard: *shard, answers })
            }
            Reply::DecidedInOrder { txn, shard, result: Ok(_) } => {
                Some(Reply::DecidedInOrder { txn: *txn, shard: *shard, result: Err(too_large(true)) })
            }
            Reply::Derived { reply, .. } => Some(failed((**reply).clone(), too_much_derived())),
            Reply::Changed { reply, .. } => Some(failed((**reply).clone(), too_large(false))),
            Reply::Decided { txn, timestamp, .. } => {
                Some(Reply::TooLarge { txn: *txn, shard: timestamp.node, committed: Some(*timestamp) })
            }
            Reply::ReadRows { read, shard, .. } => {
                Some(Reply::TooLarge { txn: *read, shard: *shard, committed: None })
            }
            // An answer without its notices is better than none.
            Reply::Raised { reply, .. } => Some((**reply).clone()),
            _ => None,
        }
    }

    fn of_version(reply: Reply, version: u16) -> Reply {
        match reply {
            Reply::Raised { reply, .. } if version < RAISED_FROM => Self::of_version(*reply, version),
            Reply::Raised { notices, reply } if version < ATTEMPTS_FROM => {
                Reply::Raised { notices, reply: Box::new(Self::of_version(*reply, version)) }
            }
            // Nobody would carry the writes: the statement fails, and its transaction undoes it.
            Reply::Derived { reply, .. } if version < DERIVED_FROM => {
                failed(*reply, keys_of_older_build("for a client", version))
            }
            Reply::Derived { derived, reply }
                if version < ATTEMPTS_FROM && derived.iter().any(Derived::is_as_new_as_attempts) =>
            {
                failed(*reply, keys_of_older_build("for a client", version))
            }
            // A coordinator that learns of one holder only detects some deadlocks later.
            Reply::WaitsBesides { txn, shard, holders } if version < WAITS_BESIDES_FROM => {
                let holder = *holders.last().expect("there are others");
                Reply::Waits { txn, shard, holder }
            }
            reply => reply,
        }
    }

    fn definitions_in(description: &Description) -> usize {
        description.definitions().count()
    }

    fn take_description(&mut self) -> Option<Arc<Description>> {
        // Called after every step, so it must cost nothing while the schema is unchanged.
        std::mem::take(&mut self.has_new_description).then(|| self.changed_description()).flatten()
    }

    /// An ordered call on which its participants vote needs no coordinator to be decided: it waits for its turn at all of them.
    fn undecided(&self) -> impl Iterator<Item = CoordinatorId> {
        let prepared = self.participant.prepared().keys().filter(|txn| !self.has_voted_for(**txn));
        prepared.map(|txn| txn.coordinator)
    }
}

impl<F: Faults> Node<F> {
    /// Rejects a call whose clock is too far ahead (S9), where clocks belong to different processes. Read-only procedures carry no clock.
    pub(crate) fn refuses_clock(&self, now_ms: u64, request: &Request) -> Option<Reply> {
        let begun_ms =
            request.begun_ms().filter(|_| self.participant.remembers && !self.bugs.accepts_any_clock())?;
        let above = match request {
            Request::Execute { call, .. }
                if self.program.callee(&call.callee).is_ok_and(|callee| callee.read_only) =>
            {
                return None;
            }
            Request::Decide { decision, .. } => decision.above.clock,
            Request::Finish { above, .. } => above.clock,
            _ => 0,
        };
        if self.clock.is_near(now_ms, begun_ms) && self.clock.may_follow(now_ms, above) {
            return None;
        }
        let (txn, shard) = (request.txn(), self.shard);
        let message =
            format!("a clock that shard {shard} was told of, or its own, is far ahead of the others");
        let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(
            "Nothing has happened. Set the clocks of nodes and clients: they may differ by a minute. If they are right now, and the clock \
             of another node was ahead before, start this node with --clock-reached (docs/internals/clocks.md).",
        );
        Some(match request {
            Request::Execute { .. } => Reply::Executed { txn, result: Err(error) },
            _ => Reply::Refused { txn, shard, error },
        })
    }

    /// Physical time that a request's timestamp is issued at. A request that has waited runs long after its clock was compared: if the
    /// clock of this shard has been set ahead meanwhile, the timestamp stays within the bound of the coordinator's clock (S9).
    pub(crate) fn time_of(&self, now_ms: u64, request: &Request) -> u64 {
        let is_bound =
            self.participant.remembers && !self.bugs.ticks_unbounded() && !self.bugs.accepts_any_clock();
        match request.begun_ms().filter(|_| is_bound) {
            Some(begun_ms) => now_ms.min(begun_ms.saturating_add(CLOCK_AHEAD_MS_MAX)),
            None => now_ms,
        }
    }

    /// A message of ordered calls: its sender speaks for a party of its own, and what a coordinator submits is a call of the program.
    fn refuses_ordered(
        &self,
        from: Sender,
        message: &OrderedMessage,
        shards: ShardId,
    ) -> Option<&'static str> {
        if let Some(why) = message.refused(from, shards) {
            return Some(why);
        }
        let (Sender::Coordinator(coordinator), txn) = (from, message.txn()) else { return None };
        let of_call = || {
            let (call, participants) = message.call()?;
            let is_of_now = call.schema_version == self.program.schema_version;
            let is_other = || is_of_now && !self.program.orders(call);
            self.refuses_submitted(txn, call, participants)
                .or_else(|| is_other().then_some("a call that is no independent transaction"))
        };
        refuses_from(Sender::Coordinator(coordinator), false, Some(txn), &self.participant.readers)
            .or_else(of_call)
    }

    fn refuses_bind(&self, participants: &[ShardId], shards: ShardId) -> Option<&'static str> {
        let is_one = participants.iter().all(|shard| *shard < shards) && participants.contains(&self.id());
        (!is_one || participants.last() == Some(&self.id())).then_some("participants that cannot be")
    }

    fn refuses_derived_work(
        &self,
        txn: TxnId,
        (work, derived): (&Work, &[Derived]),
        shards: ShardId,
    ) -> Option<&'static str> {
        match *work.participants == [self.id()] && work.call.args.is_empty() {
            true if work.call.callee.is_of_build() => self.refuses_build(txn, derived, shards),
            true => self.refuses_derived(txn, work.call.schema_version, derived, shards),
            false => Some("derived writes of other participants"),
        }
    }

    fn refuses_decision(&self, txn: TxnId, decision: &Decision) -> Option<&'static str> {
        let Decision { call, participants, answers, above } = decision;
        if let Some(why) = refuses_clock(above.clock).or_else(|| self.refuses_call(txn, call, participants)) {
            return Some(why);
        }
        // A call without participants has been rejected before.
        let (last, others) = participants.split_last()?;
        if *last != self.id() {
            return Some("a decision that is another participant's");
        }
        let of = |shard: &ShardId| answers.iter().filter(|(one, _)| one == shard).count();
        let is_theirs = answers.len() == others.len() && others.iter().all(|shard| of(shard) == 1);
        (!is_theirs).then_some("answers that are not one of each other participant")
    }

    fn refuses_query(&self, within: Option<(TxnId, u64)>, query: &ReadQuery) -> Option<&'static str> {
        let program = self.program_of(query.schema_version, within.map(|(txn, _)| txn))?;
        if let Some(read) = &query.parts {
            return refuses_parts(program, read);
        }
        let columns_of = |at: usize| program.schema.table(query.tables[at].table).column_names.len();
        let is_one = |at: usize| {
            let read = &query.tables[at];
            program.schema.has(read.table)
                && read.equals.iter().all(|(column, _)| *column < columns_of(at))
                && read.joined.iter().all(|(earlier, pairs)| {
                    let are_columns =
                        |&(own, other): &(usize, usize)| own < columns_of(at) && other < columns_of(*earlier);
                    *earlier < at && pairs.iter().all(are_columns)
                })
        };
        (!(0..query.tables.len()).all(is_one)).then_some("a read of what there is not")
    }

    /// Program of that schema version. A request bound to another version is not run: it is answered with that error when its turn comes.
    fn program_of(&self, schema_version: u64, txn: Option<TxnId>) -> Option<&Arc<Program>> {
        let own = || {
            self.open.get(&txn?)?.schema_versions().find(|program| program.schema_version == schema_version)
        };
        (self.program.schema_version == schema_version).then_some(&self.program).or_else(own)
    }

    fn refuses_definition(&self, call: &Call, participants: &[ShardId]) -> Option<&'static str> {
        let is_one = call.args.is_empty() && (0..self.program.shards).eq(participants.iter().copied());
        (!is_one).then_some("a definition that is not for all shards")
    }

    /// A row elsewhere must be able to have these values, and what is asked must be for this shard. That a row has them is trusted, as the
    /// answers of other participants are.
    fn refuses_derived(
        &self,
        txn: TxnId,
        schema_version: u64,
        derived: &[Derived],
        shards: ShardId,
    ) -> Option<&'static str> {
        let program = self.program_of(schema_version, Some(txn))?;
        let is_one = |one: &Derived| fits(program, one, self.id(), shards) == Some(true);
        (derived.is_empty() || !derived.iter().all(is_one)).then_some("derived writes that cannot be")
    }

    /// The key that is built is in the schema of the definition alone, which this shard has compiled when it began to build. Of what has been
    /// forgotten or is void nothing is done.
    fn refuses_build(&self, txn: TxnId, derived: &[Derived], shards: ShardId) -> Option<&'static str> {
        let build = self.open.get(&txn).and_then(Open::build);
        let is_one = |one: &Derived| match one {
            Derived::Build { at, .. } | Derived::Settle { at, .. } => *at == self.id(),
            Derived::Stage { at, key, home, changes } => {
                let is_of_key = |build: &Build| {
                    build.is_of(*key) && changes.iter().all(|change| build.takes(&change.values))
                };
                let is_here = *at == self.id() && *home != *at && *home < shards;
                is_here && build.is_none_or(is_of_key)
            }
            Derived::Duplicate { at, key, duplicate } => {
                *at == self.id()
                    && build.is_none_or(|build| build.is_of(*key) && build.takes(&duplicate.values))
            }
            _ => false,
        };
        (derived.is_empty() || !derived.iter().all(is_one)).then_some("an index that cannot be built")
    }

    fn refuses_reads(&self, txn: TxnId, reads: &QueryReads, work: &Work) -> Option<&'static str> {
        if !reads.shards().eq(work.participants.iter().copied()) {
            return Some("reads of other participants");
        }
        let Some(query) = reads.query_of(self.id(), &work.call) else { return Some("reads of other shards") };
        self.refuses_query(Some((txn, 0)), &query)
    }

    fn refuses_call(&self, txn: TxnId, call: &Call, participants: &[ShardId]) -> Option<&'static str> {
        self.refuses_submitted(txn, call, participants).or_else(|| self.takes_no_part(participants))
    }

    /// The same at the sequencer, whose shard need not take part.
    fn refuses_submitted(&self, txn: TxnId, call: &Call, participants: &[ShardId]) -> Option<&'static str> {
        if call.callee.setting().is_some() {
            return Some("SET CONSTRAINTS by itself");
        }
        if call.callee.derived().is_some() {
            return Some("derived writes by themselves");
        }
        if call.callee.is_serializable() {
            return Some("a serializable statement by itself");
        }
        if call.callee.attempt().is_some_and(|attempt| !attempt.is_with_keys()) {
            return Some("a statement that begins again by itself");
        }
        self.refuses_code(txn, call, participants)
    }

    /// A statement that begins again: at the shard of a row that it conflicts with, or where it began.
    fn refuses_attempt(
        &self,
        txn: TxnId,
        callee: &Callee,
        (call, participants): (&Call, &[ShardId]),
    ) -> Option<&'static str> {
        if !matches!(callee, Callee::Text(_)) {
            return Some("an attempt of no statement");
        }
        self.refuses_code(txn, call, participants).or_else(|| self.takes_no_part(participants))
    }

    /// The same of a statement of an open transaction, wherever it is.
    fn refuses_code(&self, txn: TxnId, call: &Call, participants: &[ShardId]) -> Option<&'static str> {
        let program = self.program_of(call.schema_version, Some(txn))?;
        let Ok(procedure) = program.callee(&call.callee) else {
            return Some("a call of what cannot be run");
        };
        if procedure.admission.locking().is_some() && !call.callee.is_serializable() {
            return Some("a call without the locks that it needs");
        }
        let fit = |(value, input): (&Value, &crate::exec::program::Input)| is_of(value, &input.ty);
        // With many rows each row's home is checked when it is inserted.
        let is_fit = match procedure.inputs.len() {
            0 => call.args.is_empty(),
            width if call.args.len() == width => true,
            width => procedure.takes_rows() && !call.args.is_empty() && call.args.len().is_multiple_of(width),
        };
        if !is_fit || !call.args.iter().zip(procedure.inputs.iter().cycle()).all(fit) {
            return Some("arguments that are not the procedure's");
        }
        if let Some(Attempt::AtConflict(shard)) = call.callee.attempt() {
            let is_here = shard == self.id() && *participants == [shard];
            return (!is_here).then_some("an attempt at another shard");
        }
        if let Some(Attempt::ByKey(shard)) = call.callee.attempt() {
            let is_here = shard == self.id() && *participants == [shard] && procedure.named_row.is_some();
            return (!is_here).then_some("an attempt at another shard");
        }
        let expected = match call.callee.is_with_keys() {
            true if procedure.inserted_keys.is_none() => {
                return Some("keys that do not follow from arguments");
            }
            true => program.participants_by_itself(call),
            false => program.participants(call),
        };
        let Ok(expected) = expected else {
            return Some("a call that cannot run on several shards");
        };
        (expected != participants).then_some("participants that are not the call's")
    }

    fn takes_no_part(&self, participants: &[ShardId]) -> Option<&'static str> {
        (!participants.contains(&self.id())).then_some("a call of other shards")
    }
}

/// Returns whether the write may be for the shard `here`; none: there is no such key.
fn fits(program: &Program, one: &Derived, here: ShardId, shards: ShardId) -> Option<bool> {
    let (table, at) = one.constraint();
    let schema = program.schema.tables.get(table.0 as usize)?;
    let are_of = |values: &[Value], types: &[&SqlType]| {
        values.len() == types.len() && values.iter().zip(types).all(|(value, ty)| is_of(value, ty))
    };
    let types_of = |columns: &[ColumnIndex]| columns.iter().map(|&column| &schema.types[column]).collect();
    let rules = program.rules.get(table.0 as usize)?;
    let fits = match one {
        Derived::Remove { values, home, .. }
        | Derived::Add { values, home, .. }
        | Derived::Propose { values, home, .. }
        | Derived::Fill { values, home, .. } => {
            let index = schema.indexes.get(at).filter(|index| index.unique)?;
            let types: Vec<&SqlType> = index.columns.iter().map(|column| &column.ty).collect();
            are_of(values, &types) && *home < shards && *home != here
        }
        Derived::Children { old, change, .. } => {
            let types: Vec<&SqlType> = types_of(&rules.referenced_by.get(at)?.parent_columns);
            let new = if let ParentChange::Gets(new) = change { new } else { old };
            are_of(old, &types) && are_of(new, &types)
        }
        Derived::BeginAgain { .. } => false,
        Derived::Copy { from, old, new, .. } => {
            let types: Vec<&SqlType> = schema.types.iter().collect();
            let are_rows = old.iter().chain(new).all(|values| are_of(values, &types));
            *from < shards && are_rows && program.partition(table).is_none()
        }
        Derived::Row { values, .. } => are_of(values, &schema.types.iter().collect::<Vec<_>>()),
        Derived::Entries { key, .. } => schema.entries.iter().any(|entries| entries.index == key.index),
        Derived::Build { .. }
        | Derived::Stage { .. }
        | Derived::Settle { .. }
        | Derived::Duplicate { .. } => false,
        Derived::Parent { key, .. } => {
            let types: Vec<&SqlType> = types_of(&rules.foreign_keys.get(at)?.key_columns);
            are_of(key, &types)
        }
    };
    Some(fits && one.targets(shards).contains(&here))
}

/// The reply to a statement that fails with this error although its shard has done its share.
fn failed(reply: Reply, error: SqlError) -> Reply {
    match reply {
        Reply::Worked { txn, shard, number, incarnation, .. } => {
            Reply::Worked { txn, shard, number, incarnation, result: Err(error) }
        }
        Reply::Derived { reply, .. } => failed(*reply, error),
        reply => reply,
    }
}

/// Error of a statement that changes keys of other shards. `whose`: the build of that version.
pub(super) fn keys_of_older_build(whose: &str, version: u16) -> SqlError {
    let message = format!(
        "a unique key of rows of several shards {whose} of an older build, which speaks version {version} of the protocol"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Nothing has happened. Start it with the build of the others.")
}

fn refuses_parts(program: &Program, read: &PartsRead) -> Option<&'static str> {
    let Ok(gather) = program.query(&read.text) else { return Some("a query that cannot be run") };
    let types = &read.text.types;
    let fit = read.values.len() == types.len()
        && read.values.iter().zip(types).all(|(value, ty)| is_of(value, ty))
        && read.parts.iter().all(|part| gather.has_part(*part));
    (!fit).then_some("parts of a query that it does not have")
}

fn refuses_siblings(including: &[Sibling], shards: ShardId) -> Option<&'static str> {
    let beyond = |one: &Sibling| {
        refuses_clock(one.timestamp.clock).is_some() || one.participants.iter().any(|shard| *shard >= shards)
    };
    including.iter().any(beyond).then_some("siblings that cannot be")
}

/// Checks that a value has the type that the executor was compiled for.
pub(super) fn is_of(value: &Value, ty: &SqlType) -> bool {
    match (ty, value) {
        (_, Value::Null) => true,
        (SqlType::Bool, Value::Bool(_))
        | (SqlType::Int8, Value::Int(_))
        | (SqlType::Float4, Value::Float4(_))
        | (SqlType::Float8, Value::Float8(_))
        | (SqlType::Numeric(_), Value::Numeric(_))
        | (SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Enum(_), Value::Text(_))
        | (SqlType::Date, Value::Date(_))
        | (SqlType::Timestamp | SqlType::Timestamptz, Value::Timestamp(_))
        | (SqlType::Interval, Value::Interval(_))
        | (SqlType::Uuid, Value::Uuid(_))
        | (SqlType::Bytea, Value::Bytea(_))
        | (SqlType::Jsonb, Value::Jsonb(_)) => true,
        (SqlType::Int2, Value::Int(number)) => i16::try_from(*number).is_ok(),
        (SqlType::Int4, Value::Int(number)) => i32::try_from(*number).is_ok(),
        (SqlType::Array(element), Value::Array(array)) => array.values.iter().all(|one| is_of(one, element)),
        _ => false,
    }
}
