//! Runs one call of a procedure on one shard, alone or as a part of a multi-shard transaction.
//!
//! Every participant runs the *same* procedure. A statement belongs to one shard (its [`CompiledRoute`]). Other shards skip it, and the
//! variables that it assigns become [`Value::Deferred`], "another shard knows". The deciding participant comes last and takes these
//! values from the others' answers. So no procedure is rewritten into fragments, and a part that would need another shard's data to
//! continue is detected and refused by name.

mod answers;
mod combine;
mod loops;
mod values;

use std::collections::BTreeSet;

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_sql::bound::LoopLabel;
use weir_sql::catalog::TableId;
use weir_types::datetime::TransactionTime;
use weir_types::interrupt::check;
use weir_types::{Notice, Notices, SqlError, SqlState, Value};

pub(super) use self::answers::rows_for;
pub(crate) use self::combine::combined;
use self::loops::after_body;
pub(super) use self::loops::range_bounds;
pub(super) use self::values::{assert_failure, assign_element, assigned, raised};
use super::chosen::Chosen;
use super::context::{Cx, Frame};
use super::deferred::Later;
use super::expr::{CompiledExpr, Truth};
use super::foreseen::is_of_one_message;
use super::program::{
    CompiledProcedure, CompiledRoute, CompiledStep, CompiledStepKind, Destination, Effects, Program, Target,
};
use super::reads::{Reads, RecordedRows};
use super::returned::Returned;
use super::sequences::CallEnvironment;
use super::worker::ClaimsOf;
use crate::claims::{Claim, Holders, Interval, Reserved};
use crate::faults::Faults;
use crate::message::{Answers, Attempt, Call, Changed, Derived, GlobalKey, Output, SequenceValue, Setting};
use crate::storage::{Workspace, Write, WriteSet};

/// Role of this shard in the transaction.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// The only participant.
    Whole,
    /// A participant that is not the last: it runs its [`super::slice`] of the procedure.
    Part,
    /// A participant of an independent transaction: all of them run the whole procedure, each its own statements, and commit at once.
    InOrder,
    /// The same, of which one shard alone may refuse its part: it prepares, and waits for the votes of the others.
    Vote,
    /// Prepares although it is the only participant (the planted bug "no guards").
    Unguarded,
    /// The last participant; carries the answers of the others, which have all prepared.
    Last(&'a [(ShardId, Answers)]),
}

impl<'a> Role<'a> {
    /// Sequence values of the other participants, each the last value of its answers.
    fn values_of_others(self) -> impl Iterator<Item = Vec<SequenceValue>> + use<'a> {
        let answers = if let Role::Last(answers) = self { answers } else { &[] };
        answers.iter().filter_map(|(_, answers)| SequenceValue::of_record(answers.values.last()?))
    }

    /// Returns whether the run will wait for its COMMIT.
    pub(super) fn is_prepared(self) -> bool {
        matches!(self, Role::Part | Role::Vote | Role::Unguarded)
    }

    /// Returns whether what its statements give is for others.
    fn answers(self) -> bool {
        self.is_prepared() || matches!(self, Role::InOrder)
    }
}

/// Input of one run: one shard's share of one transaction.
pub struct Fragment<'a, F> {
    pub program: &'a Program,
    /// The called procedure.
    pub procedure: &'a CompiledProcedure,
    pub storage: Workspace<'a>,
    pub environment: CallEnvironment<'a>,
    /// Those of a worker say that others' requests are handled while it runs.
    pub claims: ClaimsOf<'a>,
    pub here: ShardId,
    pub txn: TxnId,
    pub role: Role<'a>,
    pub timestamp: Timestamp,
    /// Record the writes, for COMMIT or for readers.
    pub keep_writes: bool,
    /// Other open transactions with unclaimed inserted keys, with their write sets.
    pub loading: Vec<(TxnId, &'a WriteSet)>,
    /// Set for a statement of an interactive transaction: its locks are held until the end.
    pub open: Option<OpenStatement<'a>>,
    /// Open transactions hold rows here, so every writer must check claims (S14).
    pub has_locks: bool,
    /// A table of which the run must not hold anything.
    pub reserved: Option<Reserved>,
    /// Runs deferred checks instead of a procedure.
    pub looks: Option<&'a [Later]>,
    /// Carries out writes that other shards have derived, instead of a procedure.
    pub derived: Option<&'a [Derived]>,
    /// Of a statement that has begun again.
    pub attempt: Option<Attempt>,
    /// Visits the other prepared transactions, and what they write.
    pub prepared: &'a VisitPrepared<'a>,
    pub bugs: F,
}

/// Visits prepared transactions in ascending order.
pub type VisitPrepared<'a> = dyn Fn(&mut dyn FnMut(TxnId, &[Write])) + 'a;

/// A statement of an interactive transaction.
#[derive(Clone, Copy, Debug)]
pub struct OpenStatement<'a> {
    /// SET CONSTRAINTS of the transaction so far.
    pub said: &'a [&'a Setting],
    /// Deferred checks to run, if that is the statement's purpose.
    pub later: &'a [Later],
    /// For a batch of a statement: rows that the earlier batches have inserted or updated by ON CONFLICT DO UPDATE.
    pub upserted: &'a [(weir_sql::catalog::TableId, u32)],
    /// Number of unique keys that the transaction has claimed before.
    pub keys_claimed: usize,
    /// Of a serializable transaction: where the run records what it reads.
    pub reads: Option<&'a Reads>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Ran {
    pub output: Output,
    pub answers: Answers,
    pub writes: Vec<Write>,
    pub claims: Vec<Claim>,
    /// A prepared run has locked rows: until it ends, every other writer claims the rows that it writes.
    pub locks_rows: bool,
    /// Deferred checks of an open transaction, to run before COMMIT.
    pub later: Vec<Later>,
    /// Rows that an open transaction has inserted or updated by ON CONFLICT DO UPDATE, if more batches of the statement may follow.
    pub upserted: Vec<(weir_sql::catalog::TableId, u32)>,
    /// Values handed out by sequences; of the last participant including those of other shards.
    pub given: Vec<SequenceValue>,
    /// Writes derived for other shards, in execution order. Only of an open transaction, whose coordinator carries them.
    pub derived: Vec<Derived>,
    /// Rows for which assertions are to be checked before the transaction commits.
    pub changed: Changed,
}

impl Ran {
    /// A prepared run reserves space for a typical transaction: a dozen statements with three values each.
    fn new(role: Role<'_>) -> Ran {
        let mut ran = Ran::default();
        if role.is_prepared() {
            ran.answers.values.reserve(36);
            ran.writes.reserve(12);
        }
        ran
    }

    /// Form for a message.
    pub fn packed(mut self) -> Ran {
        if let (Some(given), None) = (SequenceValue::record(&self.given), &self.answers.error) {
            // A part has no output, and the other roles send no answers.
            self.answers.values.push(given.clone());
            self.output.values.push(given);
        }
        self
    }
}

/// Reason why a run stopped. The caller undoes its writes.
#[derive(Debug)]
pub enum Stop {
    Error(SqlError),
    /// Other transactions hold claims on the same value or row.
    Held(Holders),
    /// Another transaction has prepared a write of this row without holding a claim on it.
    Pinned {
        table: weir_sql::catalog::TableId,
        row: u32,
    },
    /// It needs more than one step of its shard, and is to be run by a worker.
    Long,
    /// The statement has changed nothing, and is to be run so: the row that it names is elsewhere.
    Elsewhere {
        table: weir_sql::catalog::TableId,
        attempt: Attempt,
    },
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

/// Buffers reused by later calls.
#[derive(Debug, Default)]
pub struct Scratch {
    frames: Vec<Frame>,
    returned: Returned,
    pub(super) new_row: Vec<Value>,
    pub(super) rule_frame: Frame,
    /// Rows chosen by the statement at which the last run stopped.
    pub(crate) chosen: Option<Chosen>,
    /// Claim for which the last run stopped; none: it stopped for something else, or not at all.
    pub(crate) met: Option<Claim>,
    /// Table at which it stopped.
    pub(crate) stopped_at: Option<TableId>,
}

/// Runs the call. On `Err` the caller rolls the storage back.
pub fn run<F: Faults>(fragment: Fragment<'_, F>, call: &Call, scratch: &mut Scratch) -> Result<Ran, Stop> {
    let procedure = fragment.procedure;
    let mut run = Run {
        transaction_time: call.transaction_time,
        frame: scratch.frames.pop().unwrap_or_default(),
        rule_frame: &mut scratch.rule_frame,
        new_row: std::mem::take(&mut scratch.new_row),
        row_count: Value::Int(0),
        returned: std::mem::take(&mut scratch.returned),
        taken: Vec::new(),
        inserted: Vec::new(),
        upserted: fragment.open.map_or_else(BTreeSet::new, |open| upserted_before(&open)),
        is_one_insert: false,
        parent_seen: None,
        foreseen: Vec::new(),
        later: Vec::new(),
        unmet: Vec::new(),
        elsewhere: Vec::new(),
        moved: Vec::new(),
        named_keys: Vec::new(),
        is_copying: false,
        cascaded: Vec::new(),
        acting: Vec::new(),
        chosen: None,
        met: None,
        stopped_at: None,
        notices: None,
        ran: Ran::new(fragment.role),
        procedure,
        depth: 0,
        keys_claimed: fragment.open.map_or(0, |open| open.keys_claimed),
        others_hold_keys: None,
        fragment,
    };
    let result = match (run.fragment.looks, procedure.inputs.len()) {
        (Some(all), _) => run.look_for_all(all),
        _ if run.fragment.derived.is_some() => run.carry_out(),
        (None, width) if width > 0 && call.args.len() > width => run.rows(procedure, call.args.chunks(width)),
        _ => match run.looks_for_its_row(&call.args) {
            Ok(None) => {
                let added = run.add_named_entries(&call.args);
                added.and_then(|()| run.procedure(procedure, &call.args))
            }
            Ok(Some((table, attempt))) => run.goes_elsewhere(table, attempt),
            Err(stop) => Err(stop),
        },
    };
    let result = result.and_then(|values| run.end(values));
    let result = run.ask_before_error(result);
    let result = run.keep_error(result).map(|values| {
        run.ran.output.values = values;
        match run.fragment.open {
            Some(_) => run.leave_open(),
            None => run.final_inserts(),
        }
        run.ran.given = run.given();
        std::mem::take(&mut run.ran)
    });
    let result = match run.notices.take() {
        Some(notices) => said_beside(result, notices.told()),
        None => result,
    };
    let (frame, returned, new_row) =
        (std::mem::take(&mut run.frame), std::mem::take(&mut run.returned), std::mem::take(&mut run.new_row));
    let (chosen, met, stopped_at) = (run.chosen.take(), run.met.take(), run.stopped_at);
    drop(run);
    scratch.chosen = chosen;
    (scratch.met, scratch.stopped_at) = (met, stopped_at);
    scratch.frames.push(frame);
    scratch.returned = returned;
    scratch.new_row = new_row;
    result
}

/// Rows that the batches of the statement before this one have inserted or updated by ON CONFLICT DO UPDATE.
#[cold]
fn upserted_before(open: &OpenStatement<'_>) -> BTreeSet<(weir_sql::catalog::TableId, u32)> {
    open.upserted.iter().copied().collect()
}

/// Adds the notices to the result, except of a run that has to wait: it raises them when it is run again.
#[cold]
fn said_beside(mut result: Result<Ran, Stop>, notices: Vec<Notice>) -> Result<Ran, Stop> {
    match &mut result {
        Ok(ran) => ran.output.notices = notices,
        Err(Stop::Error(error)) => *error.notices_mut() = notices,
        Err(Stop::Held(_) | Stop::Pinned { .. } | Stop::Long | Stop::Elsewhere { .. }) => {}
    }
    result
}

pub(super) struct Run<'a, F> {
    pub(super) fragment: Fragment<'a, F>,
    pub(super) procedure: &'a CompiledProcedure,
    pub(super) frame: Frame,
    /// Frame for CHECKs, which see only the new row.
    pub(super) rule_frame: &'a mut Frame,
    /// The row that is being inserted.
    pub(super) new_row: Vec<Value>,
    pub(super) transaction_time: TransactionTime,
    row_count: Value,
    /// Rows of RETURNING, or of a query in a FOR loop.
    pub(super) returned: Returned,
    /// Number of answers of each shard that have been consumed.
    taken: Vec<(ShardId, usize)>,
    /// Rows inserted or updated by the current INSERT … ON CONFLICT DO UPDATE; none may be affected twice.
    pub(super) upserted: BTreeSet<(weir_sql::catalog::TableId, u32)>,
    /// The run is one INSERT, executed row by row.
    pub(super) is_one_insert: bool,
    /// Rows inserted in place: table, row, and position in the writes.
    pub(super) inserted: Vec<(weir_sql::catalog::TableId, u32, usize)>,
    /// Parent found last by a foreign key: table, index, key.
    pub(super) parent_seen:
        Option<(weir_sql::catalog::TableId, crate::storage::IndexId, crate::storage::KeyBytes)>,
    /// Keys that the next rounds of a loop will look up.
    pub(super) foreseen: Vec<(weir_sql::catalog::TableId, crate::storage::IndexId, crate::storage::KeyBytes)>,
    /// Deferred checks to run at the end of the transaction.
    pub(super) later: Vec<Later>,
    /// Failed checks that must hold at the end of the statement.
    pub(super) unmet: Vec<Later>,
    /// Written rows whose parents are at other shards.
    pub(super) elsewhere: Vec<Later>,
    /// Rows that live on other shards since the statement has changed them.
    pub(super) moved: Vec<(TableId, u32)>,
    /// Keys of the row that the call inserts, whose entries their owners add at the same time.
    pub(super) named_keys: Vec<(GlobalKey, Vec<Value>)>,
    /// It writes this shard's copy of a row that another shard has written first.
    pub(super) is_copying: bool,
    /// Rows that are to be deleted because their parents have gone.
    pub(super) cascaded: Vec<(TableId, u32)>,
    /// Rows that an action changes, innermost last: one that refers to itself is changed once.
    pub(super) acting: Vec<(TableId, u32)>,
    /// Rows chosen by a statement that has to wait.
    pub(super) chosen: Option<Chosen>,
    /// The claim for which it has to wait.
    pub(super) met: Option<Claim>,
    /// Table at which it stopped.
    pub(super) stopped_at: Option<TableId>,
    /// Notices raised so far; allocated at the first one.
    notices: Option<Box<Notices>>,
    pub(super) ran: Ran,
    pub(super) depth: u32,
    /// Number of unique keys that it has claimed.
    pub(super) keys_claimed: usize,
    /// Whether another transaction holds any key, once that has been asked.
    pub(super) others_hold_keys: Option<bool>,
}

/// The end of a list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Exit(LoopLabel),
    Continue(LoopLabel),
    Return,
}

/// Shards that execute a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Any shard, from its own copy.
    Anywhere,
    Here,
    Elsewhere(ShardId),
    /// This shard and all others.
    Everywhere,
}

/// Depth of nested calls.
pub(super) const CALL_DEPTH_MAX: u32 = 64;

impl<'a, F: Faults> Run<'a, F> {
    /// Ends a statement of an open transaction. Later statements may change the rows that it has inserted.
    #[cold]
    fn leave_open(&mut self) {
        self.ran.later = std::mem::take(&mut self.later);
        if !self.upserted.is_empty() && self.is_batch() {
            let before = self.fragment.open.map_or_else(BTreeSet::new, |open| upserted_before(&open));
            self.ran.upserted = self.upserted.difference(&before).copied().collect();
            self.upserted.clear();
        }
    }

    pub(super) fn with_cx<T>(&mut self, run: impl FnOnce(&mut Cx<'_>) -> T) -> T {
        let rows = self.fragment.storage.rows();
        let recorded = self.reads().map(|reads| RecordedRows { rows, reads });
        run(&mut Cx {
            frame: &mut self.frame,
            rows: recorded.as_ref().map_or(rows, |recorded| recorded),
            transaction_time: self.transaction_time,
            environment: &mut self.fragment.environment,
        })
    }

    /// Where a statement of a serializable transaction records what it reads.
    #[inline]
    fn reads(&self) -> Option<&'a Reads> {
        self.fragment.open.and_then(|open| open.reads)
    }

    /// Records what is read of a table other than by a query.
    pub(super) fn note_read(&self, table: TableId, interval: impl FnOnce() -> Interval) {
        if let Some(reads) = self.reads() {
            reads.add(table, interval());
        }
    }

    /// Returns whether the run is of a serializable transaction.
    pub(super) fn is_serializable(&self) -> bool {
        self.reads().is_some()
    }

    pub(super) fn eval(&mut self, expr: &CompiledExpr) -> Result<Value, SqlError> {
        match expr.peek(&self.frame) {
            Some(value) => Ok(value.clone()),
            None => self.with_cx(|cx| expr.eval(cx)),
        }
    }

    fn given(&mut self) -> Vec<SequenceValue> {
        let own = self.fragment.environment.take_sequence_values();
        match self.fragment.role {
            Role::Last(_) => SequenceValue::joined(self.fragment.role.values_of_others().chain([own])),
            _ => own,
        }
    }

    /// Ends the run: runs the deferred checks, unless the transaction stays open.
    fn end(&mut self, values: Vec<Value>) -> Result<Vec<Value>, Stop> {
        self.look_at_unmet()?;
        self.ask_elsewhere()?;
        self.note_children_elsewhere();
        self.move_rows()?;
        if self.fragment.open.is_none() && !self.later.is_empty() {
            let all = std::mem::take(&mut self.later);
            self.look(&all)?;
        }
        let is_carried = self.fragment.open.is_some() || self.fragment.bugs.ends_without_carrying();
        match self.ran.derived.first() {
            Some(one) if self.fragment.attempt.is_some_and(Attempt::is_with_keys) => {
                Err(Stop::Elsewhere { table: one.constraint().0, attempt: Attempt::AtHome })
            }
            _ if self.ran.derived.is_empty() || is_carried => Ok(values),
            _ => Err(internal("writes at other shards that nobody carries to them".to_owned())),
        }
    }

    fn carry_out(&mut self) -> Result<Vec<Value>, Stop> {
        self.do_derived(self.fragment.derived.unwrap_or_default())?;
        Ok(Vec::new())
    }

    /// Runs the checks of SET CONSTRAINTS. The last participant also raises errors of the others.
    fn look_for_all(&mut self, all: &[Later]) -> Result<Vec<Value>, Stop> {
        self.look(all)?;
        match self.fragment.role {
            Role::Last(answers) => {
                let error = answers.iter().find_map(|(_, answers)| answers.error.clone());
                error.map_or(Ok(Vec::new()), |error| Err(Stop::Error(error)))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Turns the error of a part into an answer, after those of the earlier statements.
    fn keep_error(&mut self, result: Result<Vec<Value>, Stop>) -> Result<Vec<Value>, Stop> {
        match (result, self.fragment.role) {
            (Err(Stop::Error(error)), Role::Part | Role::InOrder | Role::Vote) => {
                self.ran.answers.error = Some(error);
                Ok(Vec::new())
            }
            (result, _) => result,
        }
    }

    fn truth(&mut self, expr: &CompiledExpr) -> Result<Truth, SqlError> {
        // A loop evaluates its condition again and again, so cached subqueries are stale.
        self.frame.begin_statement();
        self.with_cx(|cx| expr.truth(cx))
    }

    /// Runs one INSERT for many rows; returns the number of rows written.
    fn rows<'r>(
        &mut self,
        procedure: &'a CompiledProcedure,
        rows: impl Iterator<Item = &'r [Value]>,
    ) -> Result<Vec<Value>, Stop> {
        let mut count = 0;
        self.is_one_insert = true;
        for args in rows {
            if let [Value::Int(written), ..] = self.procedure(procedure, args)?[..] {
                count += written;
            }
        }
        Ok(vec![Value::Int(count)])
    }

    fn procedure(&mut self, procedure: &'a CompiledProcedure, args: &[Value]) -> Result<Vec<Value>, Stop> {
        self.frame.grow(procedure.slots, procedure.cells);
        self.procedure = procedure;
        if matches!(self.fragment.role, Role::Part) {
            let part = &procedure.part;
            part.reads.iter().for_each(|&slot| self.frame.set(slot, Value::Null));
            for (input, value) in
                part.inputs.iter().filter_map(|&at| procedure.inputs.get(at).zip(args.get(at)))
            {
                self.frame.set(input.slot, value.unshared());
            }
            self.frame.set(procedure.found, Value::Bool(false));
            // The last participant answers the client.
            self.steps(&part.body)?;
            return Ok(Vec::new());
        }
        let variables = procedure.variables.len();
        self.frame.values[..variables].iter_mut().for_each(|value| value.put(Value::Null));
        for (input, value) in procedure.inputs.iter().zip(args) {
            self.frame.set(input.slot, value.clone());
        }
        self.frame.set(procedure.found, Value::Bool(false));
        let flow = self.steps(&procedure.body)?;
        if let Role::Last(answers) = self.fragment.role
            && self.depth == 0
            && let Some(error) = answers.iter().find_map(|(_, answers)| answers.error.clone())
        {
            return Err(Stop::Error(error));
        }
        if procedure.returns_value {
            if flow != Flow::Return {
                return Err(no_return().into());
            }
            return Ok(std::mem::take(&mut self.ran.output.values));
        }
        Ok(procedure.outputs.iter().map(|(_, _, slot)| self.frame.get(*slot).clone()).collect())
    }

    fn steps(&mut self, steps: &'a [CompiledStep]) -> Result<Flow, Stop> {
        for step in steps {
            check()?;
            let flow = self.step(step)?;
            self.claim_wanted()?;
            // An ad-hoc statement may consist of several steps.
            if !self.procedure.by_itself {
                self.look_at_unmet()?;
            }
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &'a CompiledStep) -> Result<Flow, Stop> {
        self.frame.begin_statement();
        self.fragment.environment.begin(step.span);
        match &step.kind {
            CompiledStepKind::Assign { target, value } => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            CompiledStepKind::AssignElement { slot, element, index, value } => {
                let index = self.eval(index)?;
                let value = self.eval(value)?;
                assign_element(&mut self.frame.values[*slot as usize], element, index, value)?;
            }
            CompiledStepKind::Query { query, to, route, merged } => {
                let place = self.place_of_found(route)?;
                self.statement(place, route, to, |run| {
                    let (wanted, keep) = match to {
                        Destination::Variables(into) => (1 + usize::from(into.strict), true),
                        Destination::Caller { .. } => (usize::MAX, true),
                        Destination::Nowhere => (usize::MAX, false),
                    };
                    run.select(query, wanted, keep)
                })?;
                self.claim_chosen(query)?;
                if let Some(merged) = merged.as_ref().filter(|_| !matches!(self.fragment.role, Role::Part)) {
                    let rows = std::mem::take(&mut self.ran.output.rows);
                    self.ran.output.rows = self.with_cx(|cx| merged.of(vec![rows], cx))?;
                    self.row_count = Value::Int(self.ran.output.rows.len() as i64);
                }
            }
            CompiledStepKind::Insert { insert, to, route } => {
                let place = match self.is_at_conflict() {
                    true => Place::Here,
                    false => self.place(route)?,
                };
                if matches!(place, Place::Elsewhere(_)) || !insert.spread.is_empty() {
                    self.check_parents_for_others(insert)?;
                }
                self.statement(place, route, to, |run| run.insert(insert))?;
            }
            CompiledStepKind::Update { update, to, route } => {
                let place = self.place_of_found(route)?;
                self.statement(place, route, to, |run| run.update(update))?;
            }
            CompiledStepKind::Delete { delete, to, route } => {
                let place = self.place_of_found(route)?;
                self.statement(place, route, to, |run| run.delete(delete))?;
            }
            CompiledStepKind::If { branches, otherwise, effects } => {
                for (condition, body) in branches {
                    match self.truth(condition)? {
                        Truth::True => return self.steps(body),
                        Truth::False | Truth::Unknown => {}
                        Truth::Deferred => {
                            let bodies = branches.iter().map(|(_, body)| body).chain([otherwise]);
                            self.pass_over_branches(effects, bodies)?;
                            return Ok(Flow::Next);
                        }
                    }
                }
                return self.steps(otherwise);
            }
            CompiledStepKind::While { condition, label, body, effects } => loop {
                check()?;
                match self.truth(condition)? {
                    Truth::True => {}
                    Truth::False | Truth::Unknown => break,
                    Truth::Deferred => {
                        self.pass_over(effects)?;
                        break;
                    }
                }
                match after_body(self.steps(body)?, *label) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(flow) => return Ok(flow),
                }
            },
            CompiledStepKind::Loop { label, body } => loop {
                check()?;
                match after_body(self.steps(body)?, *label) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(flow) => return Ok(flow),
                }
            },
            CompiledStepKind::Block { label, body } => match self.steps(body)? {
                Flow::Exit(left) if left == *label => {}
                flow => return Ok(flow),
            },
            CompiledStepKind::ForRange { .. }
            | CompiledStepKind::ForQuery { .. }
            | CompiledStepKind::ForEach { .. } => return self.for_loop(step),
            CompiledStepKind::Exit { label, when } => {
                if self.holds(when.as_ref())? {
                    return Ok(Flow::Exit(*label));
                }
            }
            CompiledStepKind::Continue { label, when } => {
                if self.holds(when.as_ref())? {
                    return Ok(Flow::Continue(*label));
                }
            }
            CompiledStepKind::Raise(raise) => self.raise(raise)?,
            CompiledStepKind::Return { value } => {
                if let Some(value) = value {
                    let value = self.eval(value)?;
                    self.ran.output.values = vec![value];
                }
                return Ok(Flow::Return);
            }
            CompiledStepKind::ReturnNext { values } => {
                let row: Result<Vec<Value>, SqlError> = values.iter().map(|value| self.eval(value)).collect();
                self.ran.output.rows.push(row?);
            }
            CompiledStepKind::ReturnQuery { query, route } => match self.place_of_found(route)? {
                Place::Elsewhere(_) => return Err(needs_general("RETURN QUERY of another shard's rows")),
                _ => {
                    self.returned.clear();
                    self.select(query, usize::MAX, true)?;
                    let rows = self.returned.take_rows();
                    self.ran.output.rows.extend(rows);
                }
            },
            CompiledStepKind::GetRowCount { target } => {
                let count = self.row_count.clone();
                self.assign(target, count)?;
            }
            CompiledStepKind::Call { procedure, args, targets } => self.call(*procedure, args, targets)?,
            CompiledStepKind::Assert { condition, message } => self.assert(condition, message.as_ref())?,
            CompiledStepKind::Null => {}
        }
        Ok(Flow::Next)
    }

    fn set_found(&mut self, found: bool) {
        self.frame.set(self.procedure.found, Value::Bool(found));
    }

    fn holds(&mut self, condition: Option<&CompiledExpr>) -> Result<bool, Stop> {
        let Some(condition) = condition else { return Ok(true) };
        match self.truth(condition)? {
            Truth::Deferred => Err(needs_general("leaving a loop on another shard's data")),
            truth => Ok(truth.is_true()),
        }
    }

    /// Skips steps when this shard does not know whether they run. Allowed if they touch no rows and continue after themselves. The
    /// variables that they assign become unknown too. A RAISE among them is executed by the shard that knows.
    fn pass_over(&mut self, effects: &Effects) -> Result<(), Stop> {
        if effects.touches_rows {
            return Err(needs_general("a step that depends on another shard's data"));
        }
        self.pass_over_branches(effects, std::iter::empty())
    }

    /// The same of the branches of an IF, whose statements may be those of other shards.
    fn pass_over_branches<'s>(
        &mut self,
        effects: &Effects,
        mut branches: impl Iterator<Item = &'s Vec<CompiledStep>>,
    ) -> Result<(), Stop> {
        // Before the keys of the statements are computed: those that a branch assigns are unknown.
        for &slot in &effects.assigned {
            self.frame.set(slot, Value::Deferred);
        }
        let passes = !effects.touches_rows || branches.all(|steps| self.are_elsewhere(steps));
        match passes && !effects.leaves {
            true => Ok(()),
            false => Err(needs_general("a step that depends on another shard's data")),
        }
    }

    /// Returns whether each statement of the steps has a known partition key, and lives on another shard.
    fn are_elsewhere(&mut self, steps: &[CompiledStep]) -> bool {
        steps.iter().all(|step| match &step.kind {
            CompiledStepKind::Query { route, merged: None, .. }
            | CompiledStepKind::Update { route, .. }
            | CompiledStepKind::Delete { route, .. } => self.lives_elsewhere(route),
            CompiledStepKind::Insert { insert, route, .. } => {
                insert.spread.is_empty() && insert.distant_parents.is_empty() && self.lives_elsewhere(route)
            }
            CompiledStepKind::If { branches, otherwise, .. } => {
                branches.iter().all(|(_, body)| self.are_elsewhere(body)) && self.are_elsewhere(otherwise)
            }
            CompiledStepKind::Block { body, .. } => self.are_elsewhere(body),
            CompiledStepKind::Assign { .. }
            | CompiledStepKind::AssignElement { .. }
            | CompiledStepKind::GetRowCount { .. }
            | CompiledStepKind::Raise(_)
            | CompiledStepKind::Null => true,
            _ => false,
        })
    }

    fn lives_elsewhere(&mut self, route: &CompiledRoute) -> bool {
        match route {
            CompiledRoute::By { keys, .. } => matches!(self.place_of(keys), Ok(Place::Elsewhere(_))),
            CompiledRoute::Anywhere | CompiledRoute::Own { .. } | CompiledRoute::Everywhere => false,
        }
    }

    fn call(&mut self, procedure: usize, args: &[CompiledExpr], targets: &[Target]) -> Result<(), Stop> {
        if self.depth == CALL_DEPTH_MAX {
            return Err(nested_too_deep().into());
        }
        let args: Result<Vec<Value>, SqlError> = args.iter().map(|arg| self.eval(arg)).collect();
        let caller = self.procedure;
        let frame = std::mem::take(&mut self.frame);
        self.depth += 1;
        let result = self.procedure(&self.fragment.program.procedures[procedure], &args?);
        self.depth -= 1;
        self.frame = frame;
        self.procedure = caller;
        for (target, value) in targets.iter().zip(result?) {
            self.assign(target, value)?;
        }
        Ok(())
    }
}

/// End of the messages of [`needs_general`].
pub(super) const OVER_SEVERAL_SHARDS: &str = " is not supported over several shards";

/// Returns whether a call failed because it cannot be one message, so that it may succeed as an interactive call.
pub(crate) fn needs_interactive_call(error: &SqlError) -> bool {
    error.state() == SqlState::FEATURE_NOT_SUPPORTED && error.message().ends_with(OVER_SEVERAL_SHARDS)
        || is_of_one_message(error)
}

/// Answer of a participant that has voted for a call which another one has refused.
pub(crate) fn refused_elsewhere() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "another shard has refused its part of the call")
}

pub(crate) fn is_refused_elsewhere(error: &SqlError) -> bool {
    *error == refused_elsewhere()
}

/// Answer of a participant whose part meets a lock of a transaction that may wait for this call at another shard. Under locks it waits.
pub(crate) fn meets_lock() -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("waiting for a lock in the order of the sequencer{OVER_SEVERAL_SHARDS}"),
    )
}

/// Error of a step that merging and RAMP cannot run over several shards.
#[cold]
fn needs_general(what: &str) -> Stop {
    Stop::Error(
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what}{OVER_SEVERAL_SHARDS}"))
            .with_hint("Place the rows that the procedure needs together, or pass the value as a parameter."),
    )
}

#[cold]
pub(super) fn no_return() -> SqlError {
    let state = SqlState::FUNCTION_EXECUTED_NO_RETURN_STATEMENT;
    SqlError::new(state, "control reached end of function without RETURN")
}

#[cold]
pub(super) fn nested_too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint(format!("Calls nest at most {CALL_DEPTH_MAX} deep."))
}

/// An internal error of Weir, reported instead of crashing the shard.
#[cold]
pub(super) fn internal(message: String) -> Stop {
    Stop::Error(SqlError::new(SqlState(*b"XX000"), message))
}

/// Union of the effects: slots that the steps may assign, and their other effects.
pub(super) fn join_effects(parts: impl IntoIterator<Item = Effects>) -> Effects {
    let mut all = Effects::default();
    for part in parts {
        all.assigned.extend(part.assigned);
        all.touches_rows |= part.touches_rows;
        all.leaves |= part.leaves;
    }
    all.assigned.sort_unstable();
    all.assigned.dedup();
    all
}
