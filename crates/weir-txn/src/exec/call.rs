//! Runs one call of a procedure on one shard, alone or as a part of a transaction over several.
//!
//! Every participant runs the *same* procedure. A statement belongs to one shard (its [`CompiledRoute`]):
//! elsewhere it is passed over, and what it would have assigned becomes [`Value::Deferred`], "another
//! shard knows". The participant that decides comes last and takes from the others' answers what they
//! found. So one procedure text needs no rewriting into fragments, and a part that would need another
//! shard's data before it can go on is noticed (and refused by name), never guessed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_sql::bound::{LoopLabel, RaiseLevel, VolatileFunction};
use weir_sql::catalog::{Sequence, SequenceId};
use weir_types::cast::{CastContext, can_cast, cast};
use weir_types::text::{parse_text, to_text};
use weir_types::value::Array;
use weir_types::{SqlError, SqlState, Value};

use super::context::{Cx, Environment, Frame};
use super::expr::{CompiledExpr, Truth};
use super::program::{
    CompiledInto, CompiledProcedure, CompiledRaise, CompiledRoute, CompiledStep, CompiledStepKind, Effects,
    Program, Target,
};
use super::returned::Returned;
use super::routing::{shard_of, shard_of_integer};
use crate::node::PlantedBugs;
use crate::ramp::message::{Answers, Call, Output, ShardId, TxnId};
use crate::ramp::participant::{Claim, Write};
use crate::storage::{Storage, Timestamp};

/// What this shard is in the transaction.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// The only participant.
    Whole,
    /// One of several, not the last: it runs its [`super::slice`] of the procedure.
    Part,
    /// Prepared although it is the only one (the planted bug "no guards").
    Unguarded,
    /// The last: all others have prepared and said this.
    Last(&'a [(ShardId, Answers)]),
}

impl Role<'_> {
    /// It will wait for its COMMIT.
    pub(super) fn is_prepared(self) -> bool {
        matches!(self, Role::Part | Role::Unguarded)
    }
}

/// One shard's share of one transaction, about to run.
pub struct Fragment<'a> {
    pub program: &'a Program,
    pub storage: &'a mut Storage,
    pub sequences: &'a mut Sequences,
    pub claims: &'a BTreeMap<Claim, TxnId>,
    pub here: ShardId,
    pub txn: TxnId,
    pub role: Role<'a>,
    pub timestamp: Timestamp,
    /// Say what was written, for COMMIT or for readers.
    pub keep_writes: bool,
    pub bugs: PlantedBugs,
}

/// What a run gave.
#[derive(Debug, Default)]
pub struct Ran {
    pub output: Output,
    pub answers: Answers,
    pub writes: Vec<Write>,
    pub claims: Vec<Claim>,
}

/// Why a run stopped. The caller undoes what it has written.
#[derive(Debug)]
pub enum Stop {
    Error(SqlError),
    /// Another transaction holds a claim on the same value or row.
    Held {
        holder: TxnId,
    },
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

/// Frames that the next call may use again.
#[derive(Debug, Default)]
pub struct Scratch {
    frames: Vec<Frame>,
    returned: Returned,
    pub(super) new_row: Vec<Value>,
    pub(super) rule_frame: Frame,
}

/// The shard's sequences: shard `s` of `n` hands out every n-th value, so ids are unique without a word
/// to anybody (coordination-avoidance.txt §5.1, "grant some unique id").
#[derive(Debug, Default)]
pub struct Sequences {
    given: BTreeMap<SequenceId, i64>,
    random: u64,
}

pub(super) struct Environs<'a> {
    sequences: &'a mut Sequences,
    definitions: &'a [Sequence],
    here: ShardId,
    shards: u16,
    transaction_time: i64,
}

impl Environment for Environs<'_> {
    fn next_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError> {
        let definition = &self.definitions[sequence.0 as usize];
        let given = self.sequences.given.entry(sequence).or_insert(0);
        let step = i128::from(*given) * i128::from(self.shards) + i128::from(self.here);
        let value = i128::from(definition.start) + step * i128::from(definition.increment);
        let bounds = i128::from(definition.minimum)..=i128::from(definition.maximum);
        if !bounds.contains(&value) {
            let (word, bound) = if definition.increment > 0 {
                ("maximum", definition.maximum)
            } else {
                ("minimum", definition.minimum)
            };
            return Err(SqlError::new(
                SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("nextval: reached {word} value of sequence \"{}\" ({bound})", definition.name),
            ));
        }
        *given += 1;
        Ok(Value::Int(value as i64))
    }

    fn current_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError> {
        let definition = &self.definitions[sequence.0 as usize];
        match self.sequences.given.get(&sequence) {
            Some(given) if *given > 0 => {
                let step = (given - 1) * i64::from(self.shards) + i64::from(self.here);
                Ok(Value::Int(definition.start + step * definition.increment))
            }
            _ => Err(SqlError::new(
                SqlState::parse("55000").expect("five digits"),
                format!("currval of sequence \"{}\" is not yet defined in this session", definition.name),
            )),
        }
    }

    fn volatile(&mut self, function: VolatileFunction) -> Result<Value, SqlError> {
        Ok(match function {
            VolatileFunction::ClockTimestamp => Value::Timestamp(self.transaction_time),
            VolatileFunction::Random => {
                Value::Float8((self.sequences.next_random(self.here) >> 11) as f64 / (1_u64 << 53) as f64)
            }
            VolatileFunction::GenRandomUuid => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&self.sequences.next_random(self.here).to_be_bytes());
                bytes[8..].copy_from_slice(&self.sequences.next_random(self.here).to_be_bytes());
                bytes[6] = bytes[6] & 0x0F | 0x40;
                bytes[8] = bytes[8] & 0x3F | 0x80;
                Value::Uuid(std::sync::Arc::new(bytes))
            }
        })
    }
}

impl Sequences {
    /// For statements that run outside of a call.
    pub(super) fn environment<'a>(
        &'a mut self,
        program: &'a Program,
        here: ShardId,
        transaction_time: i64,
    ) -> Environs<'a> {
        Environs {
            sequences: self,
            definitions: &program.sequences,
            here,
            shards: program.shards,
            transaction_time,
        }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014), one stream per shard.
    fn next_random(&mut self, here: ShardId) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random ^ (u64::from(here) << 48);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Runs the call. On `Err` the caller rolls storage back to where it was.
pub fn run(fragment: Fragment<'_>, call: &Call, scratch: &mut Scratch) -> Result<Ran, Stop> {
    let procedure = &fragment.program.procedures[call.procedure];
    let mut run = Run {
        transaction_time: call.transaction_time,
        frame: scratch.frames.pop().unwrap_or_default(),
        rule_frame: &mut scratch.rule_frame,
        new_row: std::mem::take(&mut scratch.new_row),
        row_count: Value::Int(0),
        returned: std::mem::take(&mut scratch.returned),
        taken: Vec::new(),
        inserted: Vec::new(),
        parent_seen: None,
        ran: Ran::default(),
        procedure,
        depth: 0,
        fragment,
    };
    let result = run.procedure(procedure, &call.args);
    let result = run.keep_error(result).map(|values| {
        run.ran.output.values = values;
        run.final_inserts();
        std::mem::take(&mut run.ran)
    });
    let (frame, returned, new_row) =
        (std::mem::take(&mut run.frame), std::mem::take(&mut run.returned), std::mem::take(&mut run.new_row));
    drop(run);
    scratch.frames.push(frame);
    scratch.returned = returned;
    scratch.new_row = new_row;
    result
}

pub(super) struct Run<'a> {
    pub(super) fragment: Fragment<'a>,
    pub(super) procedure: &'a CompiledProcedure,
    pub(super) frame: Frame,
    /// For CHECKs, which see the new row and nothing else.
    pub(super) rule_frame: &'a mut Frame,
    /// The row that is being inserted.
    pub(super) new_row: Vec<Value>,
    pub(super) transaction_time: i64,
    row_count: Value,
    /// Rows of RETURNING, or of a query that is looped over.
    pub(super) returned: Returned,
    /// How many of each shard's answers have been used.
    taken: Vec<(ShardId, usize)>,
    /// Rows that this run inserted: table, row, and their place in the writes.
    pub(super) inserted: Vec<(weir_sql::catalog::TableId, u32, usize)>,
    /// The parent row that a foreign key found last: table, index, key.
    pub(super) parent_seen:
        Option<(weir_sql::catalog::TableId, crate::storage::IndexId, crate::storage::KeyBytes)>,
    pub(super) ran: Ran,
    depth: u32,
}

/// How a list of steps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Exit(LoopLabel),
    Continue(LoopLabel),
    Return,
}

/// Where a statement's work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Everybody can do it for himself.
    Anywhere,
    Here,
    Elsewhere(ShardId),
    /// Here, and on every other shard too.
    Everywhere,
}

const CALL_DEPTH_MAX: u32 = 64;

impl<'a> Run<'a> {
    pub(super) fn with_cx<T>(&mut self, run: impl FnOnce(&mut Cx<'_>) -> T) -> T {
        let mut environment = Environs {
            sequences: self.fragment.sequences,
            definitions: &self.fragment.program.sequences,
            here: self.fragment.here,
            shards: self.fragment.program.shards,
            transaction_time: self.transaction_time,
        };
        run(&mut Cx {
            frame: &mut self.frame,
            rows: &*self.fragment.storage,
            transaction_time: self.transaction_time,
            environment: &mut environment,
        })
    }

    pub(super) fn eval(&mut self, expr: &CompiledExpr) -> Result<Value, SqlError> {
        match expr {
            CompiledExpr::Slot(slot) => Ok(self.frame.get(*slot).clone()),
            CompiledExpr::Constant(value) => Ok(value.clone()),
            expr => self.with_cx(|cx| expr.eval(cx)),
        }
    }

    /// A part's error is an answer, after those of the statements before it.
    fn keep_error(&mut self, result: Result<Vec<Value>, Stop>) -> Result<Vec<Value>, Stop> {
        match (result, self.fragment.role) {
            (Err(Stop::Error(error)), Role::Part) => {
                self.ran.answers.error = Some(error);
                Ok(Vec::new())
            }
            (result, _) => result,
        }
    }

    fn truth(&mut self, expr: &CompiledExpr) -> Result<Truth, SqlError> {
        // A loop asks again and again; what a subquery cached is stale then.
        self.frame.begin_statement();
        self.with_cx(|cx| expr.truth(cx))
    }

    fn procedure(&mut self, procedure: &'a CompiledProcedure, args: &[Value]) -> Result<Vec<Value>, Stop> {
        self.frame.grow(procedure.slots, procedure.cells);
        let variables = procedure.variables.len();
        self.frame.values[..variables].fill(Value::Null);
        for (input, value) in procedure.inputs.iter().zip(args) {
            self.frame.set(input.slot, value.clone());
        }
        self.frame.set(procedure.found, Value::Bool(false));
        self.procedure = procedure;
        if matches!(self.fragment.role, Role::Part) {
            // What the client gets is the last participant's to say.
            self.steps(&procedure.part)?;
            return Ok(Vec::new());
        }
        let flow = self.steps(&procedure.body)?;
        if let Role::Last(answers) = self.fragment.role
            && self.depth == 0
            && let Some(error) = answers.iter().find_map(|(_, answers)| answers.error.clone())
        {
            return Err(Stop::Error(error));
        }
        if procedure.returns_value {
            if flow != Flow::Return {
                return Err(Stop::Error(SqlError::new(
                    SqlState::parse("2F005").expect("five characters"),
                    "control reached end of function without RETURN",
                )));
            }
            return Ok(std::mem::take(&mut self.ran.output.values));
        }
        Ok(procedure.outputs.iter().map(|(_, _, slot)| self.frame.get(*slot).clone()).collect())
    }

    fn steps(&mut self, steps: &'a [CompiledStep]) -> Result<Flow, Stop> {
        for step in steps {
            let flow = self.step(step)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &'a CompiledStep) -> Result<Flow, Stop> {
        self.frame.begin_statement();
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
            CompiledStepKind::Query { query, into, route } => {
                let place = self.place(route)?;
                self.statement(place, into.as_ref(), |run| {
                    let wanted = match into {
                        Some(into) => 1 + usize::from(into.strict),
                        None => usize::MAX,
                    };
                    run.select(query, wanted, into.is_some())
                })?;
            }
            CompiledStepKind::Insert { insert, into, route } => {
                let place = self.place(route)?;
                if let Place::Elsewhere(_) = place {
                    self.check_parents_for_others(insert)?;
                }
                self.statement(place, into.as_ref(), |run| run.insert(insert))?;
            }
            CompiledStepKind::Update { update, into, route } => {
                let place = self.place(route)?;
                self.statement(place, into.as_ref(), |run| run.update(update))?;
            }
            CompiledStepKind::Delete { delete, into, route } => {
                let place = self.place(route)?;
                self.statement(place, into.as_ref(), |run| run.delete(delete))?;
            }
            CompiledStepKind::If { branches, otherwise, effects } => {
                for (condition, body) in branches {
                    match self.truth(condition)? {
                        Truth::True => return self.steps(body),
                        Truth::False | Truth::Unknown => {}
                        Truth::Deferred => {
                            self.pass_over(effects)?;
                            return Ok(Flow::Next);
                        }
                    }
                }
                return self.steps(otherwise);
            }
            CompiledStepKind::While { condition, label, body, effects } => loop {
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
            CompiledStepKind::ReturnQuery { query, route } => match self.place(route)? {
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

    fn for_loop(&mut self, step: &'a CompiledStep) -> Result<Flow, Stop> {
        match &step.kind {
            CompiledStepKind::ForRange { slot, from, to, by, reverse, label, body, effects } => {
                let bounds = [
                    self.eval(from)?,
                    self.eval(to)?,
                    by.as_ref().map_or(Ok(Value::Int(1)), |by| self.eval(by))?,
                ];
                if bounds.iter().any(|bound| matches!(bound, Value::Deferred)) {
                    self.pass_over(effects)?;
                    return Ok(Flow::Next);
                }
                let [from, to, by] = range_bounds(bounds)?;
                let mut at = from;
                while if *reverse { at >= to } else { at <= to } {
                    self.frame.set(*slot, Value::Int(at));
                    match after_body(self.steps(body)?, *label) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(flow) => return Ok(flow),
                    }
                    // A loop variable is an integer: past its end the loop is over, as in PostgreSQL.
                    at = if *reverse { at - by } else { at + by };
                    if i32::try_from(at).is_err() {
                        break;
                    }
                }
                self.set_found(from <= to && !*reverse || *reverse && from >= to);
            }
            CompiledStepKind::ForEach { slot, array, label, body, effects } => match self.eval(array)? {
                Value::Deferred => self.pass_over(effects)?,
                Value::Array(array) => {
                    for value in &array.values {
                        self.frame.set(*slot, value.clone());
                        match after_body(self.steps(body)?, *label) {
                            Ok(true) => {}
                            Ok(false) => break,
                            Err(flow) => return Ok(flow),
                        }
                    }
                    self.set_found(!array.values.is_empty());
                }
                _ => {
                    return Err(SqlError::new(
                        SqlState::NULL_VALUE_NOT_ALLOWED,
                        "FOREACH expression must not be null",
                    )
                    .into());
                }
            },
            CompiledStepKind::ForQuery { query, targets, route, label, body, effects } => {
                let rows = match self.place(route)? {
                    Place::Elsewhere(shard) => match self.answer_of(shard)? {
                        None => return self.pass_over(effects).map(|()| Flow::Next),
                        Some(answer) => answer.chunks(targets.len().max(1)).map(<[Value]>::to_vec).collect(),
                    },
                    Place::Everywhere if self.fragment.program.shards > 1 => {
                        return Err(needs_general("a loop over rows of every shard"));
                    }
                    place => {
                        self.returned.clear();
                        self.select(query, usize::MAX, true)?;
                        let rows = self.returned.take_rows();
                        if place == Place::Here && self.fragment.role.is_prepared() {
                            self.ran.answers.statements.push(rows.iter().flatten().cloned().collect());
                        }
                        rows
                    }
                };
                let found = !rows.is_empty();
                for row in rows {
                    for (target, value) in targets.iter().zip(row) {
                        self.assign(target, value)?;
                    }
                    match after_body(self.steps(body)?, *label) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(flow) => return Ok(flow),
                    }
                }
                self.set_found(found);
            }
            _ => unreachable!("only loops come here"),
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

    /// Steps that may or may not run, and nobody here can tell: allowed if they touch no rows and go on
    /// behind themselves. What they would assign is not known either. A RAISE inside is left to the shard
    /// that knows.
    fn pass_over(&mut self, effects: &Effects) -> Result<(), Stop> {
        if effects.touches_rows || effects.leaves {
            return Err(needs_general("a step that depends on another shard's data"));
        }
        for &slot in &effects.assigned {
            self.frame.set(slot, Value::Deferred);
        }
        Ok(())
    }

    fn place(&mut self, route: &CompiledRoute) -> Result<Place, Stop> {
        let shards = self.fragment.program.shards;
        match route {
            CompiledRoute::Anywhere => Ok(Place::Anywhere),
            _ if shards == 1 => Ok(Place::Here),
            CompiledRoute::Everywhere => Ok(Place::Everywhere),
            CompiledRoute::By(keys) => {
                let shard = match keys.as_slice() {
                    [key] => match key.peek(&self.frame) {
                        Some(Value::Int(value)) => shard_of_integer(*value, shards),
                        _ => {
                            let value = self.eval(key)?;
                            if matches!(value, Value::Deferred) {
                                return Err(needs_general("a partition key that another shard knows"));
                            }
                            shard_of(&[value], shards)
                        }
                    },
                    keys => {
                        let values: Result<Vec<Value>, SqlError> =
                            keys.iter().map(|key| self.eval(key)).collect();
                        let values = values?;
                        if values.iter().any(|value| matches!(value, Value::Deferred)) {
                            return Err(needs_general("a partition key that another shard knows"));
                        }
                        shard_of(&values, shards)
                    }
                };
                Ok(if shard == self.fragment.here { Place::Here } else { Place::Elsewhere(shard) })
            }
        }
    }

    /// Runs a statement where it belongs, or takes its result from who ran it.
    fn statement(
        &mut self,
        place: Place,
        into: Option<&CompiledInto>,
        execute: impl FnOnce(&mut Self) -> Result<u64, Stop>,
    ) -> Result<(), Stop> {
        if let Place::Elsewhere(shard) = place {
            return self.take_result(shard, into);
        }
        self.returned.clear();
        let mut count = execute(self)?;
        if place == Place::Everywhere {
            if into.is_some() {
                return Err(needs_general("a result gathered from every shard"));
            }
            count += self.counts_of_others()?;
        }
        let part = self.fragment.role.is_prepared() && place != Place::Anywhere;
        let into_count = match into {
            Some(into) => self.store_first(into)?,
            None => count,
        };
        let found = into_count > 0;
        self.frame.set(self.procedure.found, Value::Bool(found));
        self.row_count = Value::Int(into_count as i64);
        if part {
            let mut answer = vec![Value::Bool(found), self.row_count.clone()];
            if let Some(into) = into {
                answer.extend(into.targets.iter().map(|target| self.frame.get(target.slot).clone()));
            }
            self.ran.answers.statements.push(answer);
        }
        Ok(())
    }

    fn take_result(&mut self, shard: ShardId, into: Option<&CompiledInto>) -> Result<(), Stop> {
        if let Role::Part = self.fragment.role {
            self.frame.set(self.procedure.found, Value::Deferred);
            self.row_count.put(Value::Deferred);
            for target in into.iter().flat_map(|into| &into.targets) {
                self.frame.set(target.slot, Value::Deferred);
            }
            return Ok(());
        }
        let answer = self.answer_of(shard)?;
        let value = |at: usize| answer.map_or(Value::Deferred, |answer| answer[at].clone());
        self.frame.set(self.procedure.found, value(0));
        self.row_count = value(1);
        for (at, target) in into.iter().flat_map(|into| &into.targets).enumerate() {
            self.frame.set(target.slot, value(2 + at));
        }
        Ok(())
    }

    /// What that shard's next statement gave; `None` while only it knows.
    fn answer_of(&mut self, shard: ShardId) -> Result<Option<&'a [Value]>, Stop> {
        let answers = match self.fragment.role {
            Role::Part => return Ok(None),
            Role::Whole | Role::Unguarded => {
                return Err(internal(format!(
                    "shard {} was sent a call that needs shard {shard}",
                    self.fragment.here
                )));
            }
            Role::Last(answers) => answers,
        };
        let from = answers.iter().find(|(from, _)| *from == shard).map(|(_, answers)| answers);
        let Some(from) = from else { return Err(internal(format!("shard {shard} is not a participant"))) };
        let taken = match self.taken.iter_mut().find(|(of, _)| *of == shard) {
            Some((_, taken)) => taken,
            None => {
                self.taken.push((shard, 0));
                &mut self.taken.last_mut().expect("just pushed").1
            }
        };
        let answer = from.statements.get(*taken);
        *taken += 1;
        match (answer, &from.error) {
            (Some(answer), _) => Ok(Some(answer)),
            (None, Some(error)) => Err(Stop::Error(error.clone())),
            (None, None) => {
                Err(internal(format!("shard {shard} answered fewer statements than this one has")))
            }
        }
    }

    fn counts_of_others(&mut self) -> Result<u64, Stop> {
        let Role::Last(answers) = self.fragment.role else { return Ok(0) };
        let mut count = 0;
        for (shard, _) in answers {
            if let Some(answer) = self.answer_of(*shard)?
                && let Some(Value::Int(rows)) = answer.get(1)
            {
                count += *rows as u64;
            }
        }
        Ok(count)
    }

    /// The first returned row into the variables; how many rows count for FOUND.
    fn store_first(&mut self, into: &CompiledInto) -> Result<u64, Stop> {
        let rows = self.returned.rows;
        let too_many = (into.strict || into.writes) && rows > 1;
        if too_many || (into.strict && rows == 0) {
            let (state, message) = match rows {
                0 => (SqlState::NO_DATA_FOUND, "query returned no rows"),
                _ => (SqlState::TOO_MANY_ROWS, "query returned more than one row"),
            };
            return Err(SqlError::new(state, message).into());
        }
        for (at, target) in into.targets.iter().enumerate() {
            let value = self.returned.values.get_mut(at).map(std::mem::take).unwrap_or_default();
            self.assign(target, value)?;
        }
        Ok(rows.min(1) as u64)
    }

    /// Runs the query into `returned`, up to `wanted` rows; how many there were.
    fn select(
        &mut self,
        query: &super::query::CompiledQuery,
        wanted: usize,
        keep: bool,
    ) -> Result<u64, Stop> {
        let mut returned = std::mem::take(&mut self.returned);
        self.frame.begin_statement();
        let result = self.with_cx(|cx| match query.as_look_up() {
            Some((access, outputs)) => access.for_each_match(cx, &mut |cx, _| {
                returned.rows += 1;
                for output in outputs {
                    returned.values.push(output.eval(cx)?);
                }
                Ok(ControlFlow::Continue(()))
            }),
            None => query.execute(cx, &mut |_, row| {
                returned.rows += 1;
                if keep {
                    returned.values.append(row);
                }
                Ok(if returned.rows >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }),
        });
        self.returned = returned;
        let _ = result?;
        Ok(self.returned.rows as u64)
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<(), SqlError> {
        let value = match (&target.from, value) {
            (_, Value::Deferred) => Value::Deferred,
            (Some(from), value) if !value.is_null() => {
                if can_cast(from, &target.ty, CastContext::Assignment) {
                    cast(&value, from, &target.ty, CastContext::Assignment)?
                } else {
                    // PL/pgSQL's way where SQL has no cast: by the value's text.
                    parse_text(&to_text(&value, from), &target.ty)?
                }
            }
            (_, value) => value,
        };
        if target.not_null && value.is_null() {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", target.name),
            ));
        }
        self.frame.set(target.slot, value);
        Ok(())
    }

    fn raise(&mut self, raise: &CompiledRaise) -> Result<(), Stop> {
        if raise.level != RaiseLevel::Exception {
            return Ok(());
        }
        let mut message = String::new();
        let mut args = raise.args.iter();
        let mut chars = raise.format.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '%' if chars.peek() == Some(&'%') => {
                    chars.next();
                    message.push('%');
                }
                '%' => match args.next() {
                    Some(arg) => message.push_str(&self.text_of(arg)?),
                    None => message.push('%'),
                },
                other => message.push(other),
            }
        }
        if let Some(given) = &raise.message {
            message = self.text_of(given)?;
        }
        let mut error = SqlError::new(raise.state, message);
        if let Some(detail) = &raise.detail {
            error = error.with_detail(self.text_of(detail)?);
        }
        if let Some(hint) = &raise.hint {
            error = error.with_hint(self.text_of(hint)?);
        }
        Err(Stop::Error(error))
    }

    /// A RAISE argument, which the binder has cast to text.
    fn text_of(&mut self, expr: &CompiledExpr) -> Result<String, SqlError> {
        Ok(match self.eval(expr)? {
            Value::Text(text) => text.to_string(),
            Value::Null => "<NULL>".to_string(),
            other => format!("{other:?}"),
        })
    }

    fn assert(&mut self, condition: &CompiledExpr, message: Option<&CompiledExpr>) -> Result<(), Stop> {
        match self.truth(condition)? {
            Truth::True | Truth::Deferred => Ok(()),
            Truth::False | Truth::Unknown => {
                let message =
                    message.map_or(Ok("assertion failed".to_string()), |message| self.text_of(message))?;
                Err(SqlError::new(SqlState::ASSERT_FAILURE, message).into())
            }
        }
    }

    fn call(&mut self, procedure: usize, args: &[CompiledExpr], targets: &[Target]) -> Result<(), Stop> {
        if self.depth == CALL_DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_hint(format!("Calls nest at most {CALL_DEPTH_MAX} deep."))
                .into());
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

/// `Ok(true)`: next round; `Ok(false)`: the loop is over; `Err`: so is more than the loop.
fn after_body(flow: Flow, label: LoopLabel) -> Result<bool, Flow> {
    match flow {
        Flow::Next => Ok(true),
        Flow::Continue(to) if to == label => Ok(true),
        Flow::Exit(left) if left == label => Ok(false),
        flow => Err(flow),
    }
}

fn range_bounds(bounds: [Value; 3]) -> Result<[i64; 3], SqlError> {
    let mut numbers = [0; 3];
    for ((number, bound), what) in
        numbers.iter_mut().zip(bounds).zip(["lower bound", "upper bound", "BY value"])
    {
        let Value::Int(value) = bound else {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("{what} of FOR loop cannot be null"),
            ));
        };
        *number = value;
    }
    if numbers[2] <= 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "BY value of FOR loop must be greater than zero",
        ));
    }
    Ok(numbers)
}

/// `a[i] := v`; an array grows by NULLs to reach its new end.
fn assign_element(
    array: &mut Value,
    element: &weir_types::SqlType,
    index: Value,
    value: Value,
) -> Result<(), SqlError> {
    const ELEMENTS_MAX: i64 = 134_217_727;
    let at = match index {
        Value::Int(at) if (1..=ELEMENTS_MAX).contains(&at) => at as usize,
        Value::Int(at) if at < 1 => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("an array subscript below 1 ({at}) is not supported"),
            )
            .with_hint("Arrays begin at 1 here."));
        }
        Value::Int(_) => {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "array size exceeds the maximum allowed (134217727)",
            ));
        }
        _ => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "array subscript in assignment must not be null",
            ));
        }
    };
    if let Value::Deferred = array {
        return Ok(());
    }
    if array.is_null() {
        *array = Value::Array(std::sync::Arc::new(Array { element: element.clone(), values: Vec::new() }));
    }
    let Value::Array(array) = array else { unreachable!("the binder checked that it is an array") };
    let array = std::sync::Arc::make_mut(array);
    match array.values.get_mut(at - 1) {
        Some(element) => element.put(value),
        None => {
            if array.values.len() < at - 1 {
                array.values.resize(at - 1, Value::Null);
            }
            array.values.push(value);
        }
    }
    Ok(())
}

/// A step that merging and RAMP cannot run over several shards.
#[cold]
fn needs_general(what: &str) -> Stop {
    Stop::Error(
        SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{what} is not supported over several shards"),
        )
        .with_hint("Place the rows that the procedure needs together, or pass the value as a parameter."),
    )
}

/// A bug of Weir's, told as such instead of a crash of the shard.
#[cold]
pub(super) fn internal(message: String) -> Stop {
    Stop::Error(SqlError::new(SqlState(*b"XX000"), message))
}

/// Slots that a list of steps may assign, and what else they may do.
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
