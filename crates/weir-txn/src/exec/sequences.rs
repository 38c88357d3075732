//! Sequences of a shard, and the other external inputs of expressions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use weir_core::ids::{ShardId, TxnId};
use weir_sql::Span;
use weir_sql::bound::{Expr, ExprKind, LockStrength, LockWait, VolatileFunction};
use weir_sql::catalog::{Sequence, SequenceId, TableId};
use weir_types::datetime::TransactionTime;
use weir_types::{SqlError, SqlState, Value};

use super::chosen::Chosen;
use super::context::Environment;
use super::program::Program;
use super::worker::{ClaimsOf, Worker};
use crate::claims::Claim;
use crate::message::SequenceValue;
use crate::placement::{shard_of, shard_of_integer};
use crate::storage::{RowRef, Rows, Schema};

/// State of the shard's sequences. Of `n` shards each hands out every n-th value, so ids are unique without communication
/// (coordination-avoidance.txt §5.1, "grant some unique id"). If the value is a partition key, the shard hands out those that place rows
/// on itself ("server-specific unique ids", operation-partitioning.txt §6).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sequences {
    /// Number of values handed out of each share; under `base_of` the start value, if setval has changed it.
    given: BTreeMap<SequenceId, i64>,
    random: u64,
    /// Set if a value was handed out since the last [`Sequences::take_changed`].
    #[serde(skip)]
    has_given: bool,
}

/// Key for the start value set by setval; sequence numbers stay far below it.
fn base_of(sequence: SequenceId) -> SequenceId {
    SequenceId(sequence.0 | 1 << 31)
}

/// The values of one sequence that one shard hands out.
#[derive(Clone, Copy)]
struct Share<'a> {
    definition: &'a Sequence,
    /// First value of all shares.
    start: i64,
    /// Which of the sequence's first `shards` values is the shard's own.
    first: i128,
    shards: u16,
}

impl<'a> Share<'a> {
    fn of(definition: &'a Sequence, start: i64, here: ShardId, shards: u16) -> Share<'a> {
        let value = |at: i128| i128::from(start) + at * i128::from(definition.increment);
        let homes =
            |at: &i128| i64::try_from(value(*at)).is_ok_and(|id| shard_of_integer(id, shards) == here);
        let own = (0..i128::from(shards)).find(homes).filter(|_| has_a_share_for_each(definition, shards));
        Share { definition, start, first: own.unwrap_or(i128::from(here)), shards }
    }

    fn value(self, at: i64) -> i128 {
        let step = self.first + i128::from(at) * i128::from(self.shards);
        i128::from(self.start) + step * i128::from(self.definition.increment)
    }
}

/// Returns whether the expression generates an id that lives on the shard which evaluates it.
pub(super) fn generates_id(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::NextValue(_) | ExprKind::Volatile(VolatileFunction::GenRandomUuid))
}

/// Returns whether any `shards` consecutive values include one for each shard.
pub fn has_a_share_for_each(definition: &Sequence, shards: u16) -> bool {
    let (mut a, mut b) = (definition.increment.unsigned_abs(), u64::from(shards));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// The sequences of a shard: held by the step that runs the call, or shared with the worker that runs it.
enum SequencesOf<'a> {
    Step(&'a mut Sequences),
    Worker(&'a Worker),
}

impl SequencesOf<'_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut Sequences) -> R) -> R {
        match self {
            SequencesOf::Step(sequences) => f(sequences),
            SequencesOf::Worker(worker) => worker.with_sequences(f),
        }
    }
}

pub struct CallEnvironment<'a> {
    sequences: SequencesOf<'a>,
    definitions: &'a [Sequence],
    here: ShardId,
    shards: u16,
    /// Rows are placed by UUIDs, so UUIDs generated here must live here.
    homed_uuids: bool,
    transaction_time: TransactionTime,
    /// The row of RETURNING existed already: ON CONFLICT DO UPDATE has updated it.
    pub(super) has_updated: bool,
    /// Values handed out since the call began, the latest last.
    given: Vec<SequenceValue>,
    /// Position of the current statement.
    place: u32,
    /// Row locks; only in a transaction.
    locks: Option<Locks<'a>>,
}

/// Rows held by other transactions, and rows that queries lock.
struct Locks<'a> {
    claims: ClaimsOf<'a>,
    txn: TxnId,
    schema: &'a Schema,
    wanted: Vec<(TableId, u32, LockStrength)>,
    /// Rows chosen before the statement had to wait.
    chosen: Option<&'a Chosen>,
}

impl<'a> CallEnvironment<'a> {
    fn new(
        sequences: SequencesOf<'a>,
        program: &'a Program,
        here: ShardId,
        transaction_time: TransactionTime,
    ) -> CallEnvironment<'a> {
        CallEnvironment {
            sequences,
            definitions: &program.sequences,
            here,
            shards: program.shards,
            homed_uuids: here < program.shards && program.placed_by_uuids,
            transaction_time,
            has_updated: false,
            given: Vec::new(),
            place: 0,
            locks: None,
        }
    }

    /// Environment of a call that a worker runs.
    pub fn of_worker(
        worker: &'a Worker,
        program: &'a Program,
        here: ShardId,
        transaction_time: TransactionTime,
    ) -> CallEnvironment<'a> {
        CallEnvironment::new(SequencesOf::Worker(worker), program, here, transaction_time)
    }

    /// Allows queries of this transaction to lock rows.
    pub fn of_transaction(
        self,
        program: &'a Program,
        (claims, txn): (ClaimsOf<'a>, TxnId),
        chosen: Option<&'a Chosen>,
    ) -> CallEnvironment<'a> {
        let locks = Locks { claims, txn, schema: &program.schema, wanted: Vec::new(), chosen };
        CallEnvironment { locks: Some(locks), ..self }
    }

    /// Continues a call whose statements have taken these values.
    pub(super) fn with_given(self, given: &[SequenceValue]) -> CallEnvironment<'a> {
        CallEnvironment { given: given.to_vec(), ..self }
    }

    /// Begins a statement.
    pub(super) fn begin(&mut self, statement: Span) {
        self.place = statement.start;
    }

    pub(super) fn take_sequence_values(&mut self) -> Vec<SequenceValue> {
        std::mem::take(&mut self.given)
    }

    /// Position of the current statement in its text.
    pub(super) fn place(&self) -> u32 {
        self.place
    }

    /// Returns whether the current statement may take the row, considering the rows chosen before it waited.
    pub(super) fn is_chosen(&self, table: TableId, row: u32) -> bool {
        let chosen = self.locks.as_ref().and_then(|locks| locks.chosen);
        chosen.is_none_or(|chosen| chosen.has(self.place, table, row))
    }

    /// Returns whether queries have requested row locks since the last [`CallEnvironment::take_wanted`].
    pub(super) fn wants_rows(&self) -> bool {
        self.locks.as_ref().is_some_and(|locks| !locks.wanted.is_empty())
    }

    /// Takes the row locks requested by queries.
    pub(super) fn take_wanted(&mut self) -> Option<Vec<(TableId, u32, LockStrength)>> {
        let locks = self.locks.as_mut().filter(|locks| !locks.wanted.is_empty())?;
        Some(std::mem::take(&mut locks.wanted))
    }
}

impl Environment for CallEnvironment<'_> {
    fn next_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError> {
        let definition = &self.definitions[sequence.0 as usize];
        let bounds = i128::from(definition.minimum)..=i128::from(definition.maximum);
        let of = (self.here, self.shards);
        let next = self.sequences.with(|sequences| sequences.next(definition, sequence, of, &bounds));
        let Some(value) = next else {
            let (word, bound) = if definition.increment > 0 {
                ("maximum", definition.maximum)
            } else {
                ("minimum", definition.minimum)
            };
            return Err(SqlError::new(
                SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("nextval: reached {word} value of sequence \"{}\" ({bound})", definition.name),
            ));
        };
        match self.given.last_mut() {
            Some(last) if last.sequence == sequence => {
                *last = SequenceValue { sequence, value, place: self.place }
            }
            _ => {
                self.given.retain(|one| one.sequence != sequence);
                self.given.push(SequenceValue { sequence, value, place: self.place });
            }
        }
        Ok(Value::Int(value))
    }

    fn current_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError> {
        // currval depends only on this session's own values.
        match self.given.iter().find(|one| one.sequence == sequence) {
            Some(given) => Ok(Value::Int(given.value)),
            None => {
                let name = &self.definitions[sequence.0 as usize].name;
                let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
                Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
            }
        }
    }

    fn volatile(&mut self, function: VolatileFunction) -> Result<Value, SqlError> {
        Ok(match function {
            VolatileFunction::ClockTimestamp => Value::Timestamp(self.transaction_time.at),
            VolatileFunction::Random => {
                let random = self.sequences.with(|sequences| sequences.next_random(self.here));
                Value::Float8((random >> 11) as f64 / (1_u64 << 53) as f64)
            }
            VolatileFunction::ConflictUpdated => Value::Int(self.has_updated.into()),
            VolatileFunction::GenRandomUuid => loop {
                let uuid = self.sequences.with(|sequences| sequences.next_uuid(self.here));
                if !self.homed_uuids || shard_of(std::slice::from_ref(&uuid), self.shards) == self.here {
                    break uuid;
                }
            },
        })
    }

    fn hold(
        &mut self,
        rows: &dyn Rows,
        (table, of): (TableId, RowRef),
        (strength, wait): (LockStrength, LockWait),
    ) -> Result<bool, SqlError> {
        let is_chosen = self.is_chosen(table, of.row);
        let Some(locks) = &mut self.locks else { return Ok(true) };
        if !is_chosen {
            return Ok(false);
        }
        if wait != LockWait::Block {
            let claim = Claim::row(table, of.row, strength);
            let is_held = !locks.claims.against(&claim, locks.txn).is_empty()
                || rows.is_pinned_against(table, of, strength);
            if is_held && wait == LockWait::Skip {
                return Ok(false);
            }
            if is_held {
                let name = &locks.schema.table(table).name;
                let message = format!("could not obtain lock on row in relation \"{name}\"");
                return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
            }
        }
        locks.wanted.push((table, of.row, strength));
        Ok(true)
    }
}

impl Sequences {
    /// Without shares: for a coordinator that merges a query.
    pub fn seeded(seed: u64) -> Sequences {
        Sequences { random: seed, ..Sequences::default() }
    }

    /// The shard's share of the sequence.
    fn share<'a>(
        &self,
        definition: &'a Sequence,
        sequence: SequenceId,
        (here, shards): (ShardId, u16),
    ) -> Share<'a> {
        let start = self.given.get(&base_of(sequence)).copied().unwrap_or(definition.start);
        Share::of(definition, start, here, shards)
    }

    /// setval: the share continues from that value, or after it.
    pub fn set(
        &mut self,
        program: &Program,
        here: ShardId,
        sequence: SequenceId,
        (value, is_given): (i64, bool),
    ) {
        self.given.insert(base_of(sequence), value);
        let definition = &program.sequences[sequence.0 as usize];
        let share = self.share(definition, sequence, (here, program.shards));
        // Only one shard's share contains the value itself.
        let has_given = is_given && share.first == 0;
        self.given.insert(sequence, i64::from(has_given));
        self.has_given = true;
    }

    /// Environment of one call, or of one statement outside of calls.
    pub fn environment<'a>(
        &'a mut self,
        program: &'a Program,
        here: ShardId,
        transaction_time: TransactionTime,
    ) -> CallEnvironment<'a> {
        CallEnvironment::new(SequencesOf::Step(self), program, here, transaction_time)
    }

    /// The next value of the shard's share; none: it would be outside of the bounds.
    fn next(
        &mut self,
        definition: &Sequence,
        sequence: SequenceId,
        of: (ShardId, u16),
        bounds: &RangeInclusive<i128>,
    ) -> Option<i64> {
        let share = self.share(definition, sequence, of);
        let given = self.given.entry(sequence).or_insert(0);
        let value = share.value(*given);
        if !bounds.contains(&value) {
            return None;
        }
        *given += 1;
        self.has_given = true;
        Some(value as i64)
    }

    /// State of each sequence that has handed out a value here or was set: number, last value, and count since; with a count of zero the
    /// set value.
    pub(crate) fn standing(&self, program: &Program, here: ShardId) -> Vec<Value> {
        let mut values = Vec::new();
        for (&sequence, &given) in &self.given {
            let Some(definition) = program.sequences.get(sequence.0 as usize) else { continue };
            let last = match given > 0 {
                true => {
                    i64::try_from(self.share(definition, sequence, (here, program.shards)).value(given - 1))
                        .ok()
                }
                false => self.given.get(&base_of(sequence)).copied(),
            };
            let Some(last) = last else { continue };
            values.extend([i64::from(sequence.0), last, given].map(Value::Int));
        }
        values
    }

    /// State under a schema in which sequences have other numbers; those in `restarted` begin again.
    pub fn renumbered(&self, was: &[Option<SequenceId>], restarted: &[SequenceId]) -> Sequences {
        let stays = |(at, was): (usize, &Option<SequenceId>)| {
            let id = SequenceId(at as u32);
            let given = was.and_then(|was| self.given.get(&was)).filter(|_| !restarted.contains(&id));
            Some((id, *given?))
        };
        let base = |(at, was): (usize, &Option<SequenceId>)| {
            let id = SequenceId(at as u32);
            let base = was.and_then(|was| self.given.get(&base_of(was))).filter(|_| !restarted.contains(&id));
            Some((base_of(id), *base?))
        };
        let bases = was.iter().enumerate().filter_map(base);
        let given = was.iter().enumerate().filter_map(stays).chain(bases).collect();
        Sequences { given, random: self.random, has_given: true }
    }

    /// Returns whether a value was handed out since the last [`Sequences::take_changed`].
    pub fn has_changed(&self) -> bool {
        self.has_given
    }

    /// A copy if values were handed out since the last call: it must become durable with the rows that use the values.
    pub fn take_changed(&mut self) -> Option<Box<Sequences>> {
        std::mem::take(&mut self.has_given).then(|| Box::new(self.clone()))
    }

    /// Returns whether the other state will not hand out a value again that this one has handed out and logged.
    pub fn gave_no_more_than(&self, other: &Sequences) -> bool {
        // Shares with another start value are not comparable.
        let is_same = |id: &SequenceId| {
            base_of(*id) != *id && self.given.get(&base_of(*id)) == other.given.get(&base_of(*id))
        };
        let gave = |id: &SequenceId, given: &i64| {
            !is_same(id) || other.given.get(id).copied().unwrap_or(0) >= *given
        };
        self.has_given || self.given.iter().all(|(id, given)| gave(id, given))
    }

    /// Skips all values up to `value`, which rows already use.
    pub fn go_beyond(&mut self, program: &Program, here: ShardId, sequence: SequenceId, value: i64) {
        let definition = &program.sequences[sequence.0 as usize];
        let share = self.share(definition, sequence, (here, program.shards));
        let is_behind = |at: i64| match definition.increment > 0 {
            true => share.value(at) > i128::from(value),
            false => share.value(at) < i128::from(value),
        };
        let given = self.given.entry(sequence).or_insert(0);
        let stride = i128::from(definition.increment) * i128::from(program.shards);
        let steps = (i128::from(value) - share.value(*given)).checked_div(stride).unwrap_or(0);
        *given += i64::try_from(steps.max(0)).unwrap_or(i64::MAX / 2);
        if !is_behind(*given) {
            *given += 1;
        }
    }

    fn next_uuid(&mut self, here: ShardId) -> Value {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_random(here).to_be_bytes());
        bytes[8..].copy_from_slice(&self.next_random(here).to_be_bytes());
        bytes[6] = bytes[6] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Value::Uuid(std::sync::Arc::new(bytes))
    }

    /// SplitMix64 (Steele, Lea, Flood 2014), one stream per shard.
    fn next_random(&mut self, here: ShardId) -> u64 {
        self.has_given = true;
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random ^ (u64::from(here) << 48);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
