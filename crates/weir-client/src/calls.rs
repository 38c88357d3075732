//! Calls of the SQL application that a cluster carries, as an application's threads wish for them.
//!
//! Arguments are validated here, before anything is sent: a shard closes the connection of a sender of arguments that its program cannot
//! run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use weir_core::ids::{CoordinatorId, ShardId};
use weir_core::machine::{Coordinator as _, Orders};
use weir_core::nearby::Nearby;
use weir_kv::GivenUp;
use weir_net::clock::time_of_day;
use weir_sql::Application;
use weir_sql::bound::{OutputColumn, Procedure};
use weir_sql::system::System;
use weir_txn::exec::gather::{Gather, Virtual};
use weir_txn::exec::program::{CompiledProcedure, Input, Program};
use weir_txn::message::{Call, Callee, Output, Request, SequenceValue, forgotten};
pub(crate) use weir_txn::ramp::client::Order;
use weir_txn::ramp::{Begin, Coordinator, Event, OfSnapshot, Protocol};
use weir_txn::shard::Node;
use weir_types::cast::{CastContext, can_cast, cast};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::interrupt::Interrupts;
use weir_types::memory::WorkingMemory;
use weir_types::{Notice, SqlError, SqlState, SqlType, Value};

use crate::Error;
use crate::carrier::{new_id, now_ms};
use crate::explain::Told;
use crate::pending::Outcome;
use crate::prepared::{Prepared, What, columns_of};
use crate::requests::Dialect;

/// Result of a call.
#[derive(Clone, Debug, Default)]
pub struct CallResult {
    /// Names of `values`, OUT and INOUT parameters in order or the function itself; or of the columns of `rows`.
    pub names: Arc<[String]>,
    /// OUT and INOUT parameters, or a function's value.
    pub values: Vec<Value>,
    /// Rows of a set-returning function.
    pub rows: Vec<Vec<Value>>,
    /// Values handed out by sequences, the latest last.
    pub given: Vec<SequenceValue>,
    /// Notices raised by the call (RAISE NOTICE and the like). Those of a failed call are part of the error.
    pub notices: Vec<Notice>,
}

impl CallResult {
    fn of_rows(names: Arc<[String]>, rows: Vec<Vec<Value>>) -> CallResult {
        CallResult { names, values: Vec::new(), rows, given: Vec::new(), notices: Vec::new() }
    }

    /// The OUT or INOUT parameter of that name, or the value of the function.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(self.names.iter().position(|one| one == name)?)
    }
}

/// The procedures of an application, and how to call them.
pub(crate) struct Callable {
    pub(crate) application: Arc<Application>,
    pub(crate) program: Arc<Program>,
    /// By procedure.
    names: Vec<Arc<[String]>>,
    /// Virtual tables of the system catalog, built at the first use.
    system: OnceLock<(System, Arc<Virtual>)>,
    seeds: Seeds,
}

/// Random seeds for the evaluation of arguments: a new one for every call.
#[derive(Default)]
struct Seeds {
    first: OnceLock<u64>,
    given: AtomicU64,
}

impl Seeds {
    fn next(&self) -> u64 {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        // A system without chance has the time.
        let first = self.first.get_or_init(|| new_id().unwrap_or_else(|_| now_ms()));
        first ^ given.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// Largest number of names listed in the error for an unknown name.
const NAMES_TOLD: usize = 12;

impl Callable {
    /// Of a program that says what it was compiled from.
    pub(crate) fn new(program: impl Into<Arc<Program>>) -> Callable {
        let program = program.into();
        let (application, _) = program.described().expect("it was compiled from a description");
        let application = application.clone();
        let has_value = |column: &OutputColumn| column.ty != SqlType::Void;
        let names = |procedure: &Procedure| {
            columns_of(procedure).into_iter().filter(has_value).map(|column| column.name).collect()
        };
        let names = application.procedures.iter().map(names).collect();
        Callable { application, program, names, system: OnceLock::new(), seeds: Seeds::default() }
    }

    /// The system catalog of this schema.
    pub(crate) fn system(&self) -> &(System, Arc<Virtual>) {
        self.system.get_or_init(|| {
            // One for all sessions.
            let _utc = SessionZone::UTC.enter();
            let mut system = System::of(&self.application);
            let rows =
                Arc::new(Virtual::new(&system.catalog, system.first, std::mem::take(&mut system.rows)));
            (system, rows)
        })
    }

    /// A call that every shard takes.
    ///
    /// # Errors
    /// There is no such procedure, or it is not called like that.
    pub(crate) fn prepare(&self, name: &str, arguments: Vec<Value>) -> Result<Wish, SqlError> {
        let all = &self.program.procedures;
        let Some(procedure) = self.program.procedure_by_name(name) else {
            let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).take(NAMES_TOLD).collect();
            let more = if all.len() > NAMES_TOLD { ", …" } else { "" };
            let message = format!("there is no procedure or function `{name}`");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .with_hint(format!("the application has {}{more}", names.join(", "))));
        };
        let inputs = &all[procedure].inputs;
        if arguments.len() != inputs.len() {
            let message =
                format!("{name} takes {} arguments, and {} are given", inputs.len(), arguments.len());
            return Err(
                SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(signature(&all[procedure]))
            );
        }
        let mut args = Vec::with_capacity(arguments.len());
        for (at, (value, input)) in arguments.iter().zip(inputs).enumerate() {
            args.push(argument(value, &input.ty).map_err(|error| placed(error, name, at, input))?);
        }
        let call = self.call_of(Callee::Procedure(procedure), args, begins_now());
        Ok(Wish::Call(call, self.names[procedure].clone()))
    }

    /// Evaluates a query without tables to one row.
    pub(crate) fn work_out(
        &self,
        gather: &Gather,
        values: &[Value],
        transaction_time: TransactionTime,
    ) -> Result<Vec<Value>, SqlError> {
        let at = (&*self.program, transaction_time, self.seeds.next());
        let rows = gather.rows(values, &BTreeMap::new(), Vec::new(), at)?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Evaluates a query without tables on the client's side.
    pub(crate) fn rows_of(&self, prepared: &Prepared, values: &[Value]) -> Result<CallResult, SqlError> {
        let Wish::Read(gather, values, names) = self.wish(prepared, values, begins_now())? else {
            unreachable!("a query is read")
        };
        let at = (&*self.program, begins_now(), self.seeds.next());
        Ok(CallResult::of_rows(names, gather.rows(&values, &BTreeMap::new(), Vec::new(), at)?))
    }

    /// The result of a look-up, if the shard gives it at once ([`Node::look_up`]).
    pub(crate) fn look_up(
        &self,
        prepared: &Prepared,
        values: &[Value],
        (begun, shard): (i64, &dyn Nearby<Node>),
    ) -> Option<CallResult> {
        let now = TransactionTime::new(begun, SessionZone::current());
        let Wish::Read(gather, values, names) = self.wish(prepared, values, now).ok()? else { return None };
        let mut found = None;
        let has_seen = shard.look(&mut |node| {
            let (rows, after) = node.look_up(gather.schema_version, |program, rows| {
                gather.look_up(&values, now, (program, rows))
            })?;
            found = Some(rows);
            Some(after)
        });
        found.filter(|_| has_seen).map(|rows| CallResult::of_rows(names, rows))
    }

    pub(crate) fn call_of(
        &self,
        callee: Callee,
        args: Vec<Value>,
        transaction_time: TransactionTime,
    ) -> Call {
        let schema_version = self.program.schema_version;
        Call { callee, args, transaction_time, schema_version, memory: WorkingMemory::current() }
    }

    /// Operation of a prepared text with these parameter values. `now`: time when its transaction began.
    ///
    /// # Errors
    /// Their number or types do not fit; an argument of the call cannot be computed.
    pub(crate) fn wish(
        &self,
        prepared: &Prepared,
        values: &[Value],
        now: TransactionTime,
    ) -> Result<Wish, SqlError> {
        let _zone = now.zone.enter();
        if let Some(error) = &prepared.fails {
            return Err(SqlError::clone(error));
        }
        let types = &prepared.parameters[..];
        if values.len() != types.len() {
            let message = format!("{} values for {} parameters", values.len(), types.len());
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let mut values: Vec<Value> =
            values.iter().zip(types).map(|(value, ty)| argument(value, ty)).collect::<Result<_, _>>()?;
        match &prepared.what {
            What::Query { gather, constants } => {
                values.extend(constants.iter().cloned());
                Ok(Wish::Read(gather.at(now, WorkingMemory::current()), values, prepared.names.clone()))
            }
            What::Call { procedure, arguments, .. } => {
                let args = self.work_out(arguments, &values, now)?;
                let call = self.call_of(Callee::Procedure(*procedure), args, now);
                Ok(Wish::Call(call, self.names[*procedure].clone()))
            }
            What::SubStatements(_) => {
                let message = "a statement that is run as several is not supported here";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("ask for its pieces; or send statements one by one, in a transaction"))
            }
            What::Many(many) => {
                let mut batches = many.batches(self, &values)?;
                match (batches.pop(), batches.is_empty()) {
                    (Some(batch), true) => Ok(batch.into_wish()),
                    _ => {
                        let message = "an INSERT of rows of several shards runs in batches";
                        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                            .with_hint("ask for its batches, and run them in a transaction"))
                    }
                }
            }
            What::Write { text, constants, .. } => {
                values.extend(constants.iter().cloned());
                let call = self.call_of(Callee::Text(text.clone()), values, now);
                Ok(Wish::Call(call, prepared.names.clone()))
            }
        }
    }
}

/// A transaction of this thread's session that begins now.
pub(crate) fn begins_now() -> TransactionTime {
    TransactionTime::new(time_of_day(), SessionZone::current())
}

fn signature(procedure: &CompiledProcedure) -> String {
    let inputs: Vec<String> =
        procedure.inputs.iter().map(|input| format!("{} {}", input.name, input.ty)).collect();
    format!("call it as {}({})", procedure.name, inputs.join(", "))
}

fn placed(error: SqlError, name: &str, at: usize, input: &Input) -> SqlError {
    let message = format!("argument {} of {name}, {} {}: {}", at + 1, input.name, input.ty, error.message());
    let hint = error.fields().hint.clone();
    SqlError::new(error.state(), message)
        .with_hint(hint.unwrap_or_else(|| format!("give {} or its text as PostgreSQL writes it", input.ty)))
}

/// The value as one of the parameter's type. Texts are literals; numbers are taken where nothing of them is lost.
pub(crate) fn argument(value: &Value, ty: &SqlType) -> Result<Value, SqlError> {
    let unfit =
        |what: &str| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, format!("{what} is no {}", ty.name())));
    // Without its length, as PostgreSQL has it for parameters.
    let ty = &ty.base();
    let from = match value {
        Value::Null => return Ok(Value::Null),
        Value::Bool(_) => SqlType::Bool,
        Value::Int(_) => SqlType::Int8,
        Value::Float4(_) => SqlType::Float4,
        Value::Float8(_) => SqlType::Float8,
        Value::Numeric(_) => SqlType::Numeric(None),
        Value::Text(text) if text.contains('\0') => return unfit("a text with a zero byte in it"),
        Value::Text(_) => SqlType::Unknown,
        Value::Date(_) => SqlType::Date,
        // Both types have the same values.
        Value::Timestamp(_) if *ty == SqlType::Timestamptz => SqlType::Timestamptz,
        Value::Timestamp(_) => SqlType::Timestamp,
        Value::Interval(_) => SqlType::Interval,
        Value::Uuid(_) => SqlType::Uuid,
        Value::Bytea(_) => SqlType::Bytea,
        Value::Jsonb(_) => SqlType::Jsonb,
        Value::Array(array) => {
            let SqlType::Array(element) = ty else { return unfit("an array") };
            let values: Result<_, SqlError> =
                array.values.iter().map(|value| argument(value, element)).collect();
            return Ok(Value::array((**element).clone(), values?));
        }
        Value::Record(_) | Value::Deferred => return unfit("a row"),
    };
    let is_literal = from == SqlType::Unknown;
    let fits = match ty {
        SqlType::Opaque(_) => return unfit("a value of any kind"),
        _ if is_literal => true,
        ty if ty.is_integer() => from.is_integer(),
        ty if ty.is_number() => from.is_number(),
        ty if ty.is_string() => false,
        ty => can_cast(&from, ty, CastContext::Implicit),
    };
    if !fits {
        return unfit(&format!("a value of type {}", from.name()));
    }
    match (value, ty) {
        (Value::Text(text), SqlType::Array(_)) => {
            cast(&Value::Text(text.clone()), &SqlType::Text, ty, CastContext::Explicit)
        }
        _ => cast(value, &from, ty, CastContext::Assignment),
    }
}

pub(crate) enum Wish {
    /// With the names of what it gives.
    Call(Call, Arc<[String]>),
    /// With the names of its columns.
    Read(Arc<Gather>, Vec<Value>, Arc<[String]>),
    /// The same; all shards say whether they have the schema version that it is bound to.
    Check(Arc<Gather>, Vec<Value>, Arc<[String]>),
    /// An order for the open transaction of that name, with the column names of its result.
    Within(u64, Order, Arc<[String]>),
    /// An order for the snapshot of that name, with the column names of its result.
    Snapshot(u64, OfSnapshot, Arc<[String]>),
    /// Binds later operations to this schema version.
    Adopt(Arc<Callable>),
    /// Runs the operation and records its costs.
    Traced(Box<Wish>),
    /// Lists which transaction waits for which.
    Waits,
}

impl Wish {
    /// Turns the operation into a statement of an open transaction.
    pub(crate) fn within(self, transaction: u64) -> Wish {
        match self {
            Wish::Call(call, names) => Wish::Within(transaction, Order::Call(call), names),
            Wish::Read(gather, values, names) => {
                Wish::Within(transaction, Order::Read(gather, values), names)
            }
            other @ (Wish::Check(..)
            | Wish::Within(..)
            | Wish::Snapshot(..)
            | Wish::Adopt(_)
            | Wish::Traced(_)
            | Wish::Waits) => other,
        }
    }
}

enum InFlight {
    Call(Arc<[String]>),
    Read(Arc<[String]>),
    /// A snapshot is being taken, or ended.
    Snapshot,
}

pub(crate) struct Calls {
    coordinator: Coordinator,
    interrupts: Arc<Interrupts>,
    callable: Arc<Callable>,
    in_flight: BTreeMap<u64, InFlight>,
    /// The highest name of an open transaction.
    named_max: Option<u64>,
    /// Open transactions of names up to this one were of a coordinator that is no more: their next statement must not begin them anew.
    lost_max: Option<u64>,
    told: Told,
}

impl Calls {
    pub(crate) fn new(
        id: CoordinatorId,
        callable: Arc<Callable>,
        told: Told,
        interrupts: Arc<Interrupts>,
    ) -> Calls {
        let coordinator = Coordinator::resending(id, callable.program.clone(), Protocol::RampFast)
            .interrupted_by(interrupts.clone());
        Calls {
            coordinator,
            interrupts,
            callable,
            in_flight: BTreeMap::new(),
            named_max: None,
            lost_max: None,
            told,
        }
    }
}

impl Dialect for Calls {
    type Shard = Node;
    type Coordinator = Coordinator;
    type Wish = Wish;
    type Outcome = CallResult;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    fn begin_anew(&mut self, id: CoordinatorId) {
        let lost_max = self.named_max.max(self.lost_max);
        let interrupts = self.interrupts.clone();
        *self = Calls { lost_max, ..Calls::new(id, self.callable.clone(), self.told.clone(), interrupts) };
    }

    fn grant(
        &mut self,
        tag: u64,
        wish: Wish,
        orders: &mut Orders<Request, Event>,
    ) -> Option<Result<CallResult, Error>> {
        if let Wish::Within(name, order, names) = &wish {
            if Some(*name) <= self.lost_max {
                return Some(match order {
                    Order::RollBack => Ok(CallResult::of_rows(names.clone(), Vec::new())),
                    _ => Err(Error::Sql(forgotten())),
                });
            }
            self.named_max = self.named_max.max(Some(*name));
        }
        let (begin, in_flight) = match wish {
            Wish::Adopt(callable) => {
                self.callable = callable.clone();
                (Begin::Adopt(callable.program.clone()), InFlight::Call([].into()))
            }
            Wish::Call(call, names) => (Begin::Call(call), InFlight::Call(names)),
            Wish::Read(gather, values, names) => (Begin::Read(gather, values), InFlight::Read(names)),
            Wish::Check(gather, values, names) => (Begin::Check(gather, values), InFlight::Read(names)),
            Wish::Within(name, order @ Order::Read(..), names) => {
                (Begin::Within(name, order), InFlight::Read(names))
            }
            Wish::Within(name, order, names) => (Begin::Within(name, order), InFlight::Call(names)),
            Wish::Snapshot(name, what @ OfSnapshot::Read(..), names) => {
                (Begin::Snapshot(name, what), InFlight::Read(names))
            }
            Wish::Snapshot(name, what, _) => (Begin::Snapshot(name, what), InFlight::Snapshot),
            Wish::Waits => {
                let waits = self.coordinator.waits().into_iter();
                let row = |(waits, holder, since): (u64, Option<u64>, u64)| {
                    let holder = holder.map_or(Value::Null, |name| Value::Int(name as i64));
                    vec![Value::Int(waits as i64), holder, Value::Int(since as i64)]
                };
                let rows = waits.map(row).collect();
                return Some(Ok(CallResult::of_rows([].into(), rows)));
            }
            Wish::Traced(wish) => {
                self.coordinator.trace(tag);
                return self.grant(tag, *wish, orders);
            }
        };
        self.in_flight.insert(tag, in_flight);
        self.coordinator.begin(now_ms(), tag, begin, orders);
        None
    }

    fn outcome(&mut self, tag: u64, done: Event) -> Outcome<CallResult> {
        let in_flight = self.in_flight.remove(&tag);
        if let Some(trace) = self.coordinator.take_trace(tag) {
            self.told.lock().unwrap_or_else(PoisonError::into_inner).push((tag, trace));
        }
        Outcome::Known(match (done, in_flight) {
            (Event::Answered(Err(error)) | Event::ReadDone { result: Err(error), .. }, _) => {
                Err(Error::Sql(error))
            }
            (Event::Answered(Ok(Output { values, rows, given, notices })), Some(InFlight::Call(names))) => {
                Ok(CallResult { names, values, rows, given, notices })
            }
            (Event::Answered(Ok(_)), Some(InFlight::Snapshot)) => {
                Ok(CallResult::of_rows([].into(), Vec::new()))
            }
            (Event::ReadDone { result: Ok(read), .. }, Some(InFlight::Read(names))) => {
                let compute = move || Ok(CallResult::of_rows(names, read.rows().map_err(Error::Sql)?));
                return Outcome::Computed(Box::new(compute));
            }
            // The operation was abandoned.
            _ => Err(Error::Closed("it was given up".into())),
        })
    }

    fn give_up(&mut self, tag: u64, orders: &mut Orders<Request, Event>) -> GivenUp {
        self.coordinator.take_trace(tag);
        match self.in_flight.remove(&tag) {
            Some(InFlight::Read(_) | InFlight::Snapshot) => GivenUp::NothingHappened,
            Some(InFlight::Call(_)) if self.coordinator.give_up(now_ms(), tag, orders) => {
                GivenUp::NothingHappened
            }
            Some(InFlight::Call(_)) | None => GivenUp::Unknown,
        }
    }

    fn awaited(&mut self, tag: u64) -> Option<Vec<ShardId>> {
        self.coordinator.awaited(tag)
    }

    fn cancel(&mut self, tag: u64, error: SqlError, orders: &mut Orders<Request, Event>) -> bool {
        self.coordinator.cancel(now_ms(), tag, error, orders);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A coordinator that begins anew has nothing of what was open: to go on would commit a part of it.
    #[test]
    fn what_was_open_at_a_coordinator_that_is_no_more_is_over() {
        let mut sources = weir_sql::Sources::default();
        sources.add("schema.sql", "CREATE TABLE t (a integer PRIMARY KEY);");
        let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let plan = weir_analysis::analyze(&application).plan;
        let described = weir_txn::exec::definition::Description::new(&application, 1, &plan);
        let program = described.compile(1).unwrap();
        let mut calls = Calls::new(7, Arc::new(Callable::new(program)), Told::default(), Arc::default());
        let order = |calls: &mut Calls, name: u64, order: Order| {
            let answered = calls.grant(100, Wish::Within(name, order, [].into()), &mut Orders::default());
            answered.map(|result| result.map(drop).map_err(|error| error.to_string()))
        };
        assert_eq!(order(&mut calls, 5, Order::Savepoint), None, "it is asked of the coordinator");
        calls.begin_anew(8);
        assert!(order(&mut calls, 5, Order::Commit).is_some_and(|result| result.is_err()));
        assert_eq!(order(&mut calls, 5, Order::RollBack), Some(Ok(())));
        assert_eq!(order(&mut calls, 6, Order::Savepoint), None, "a new one");
    }

    fn check(value: Value, ty: SqlType, expect: &str) {
        let found = match argument(&value, &ty) {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{} {}", error.state(), error.message()),
        };
        assert!(found.starts_with(expect), "{found}, not {expect}");
    }

    #[test]
    fn arguments_are_of_their_parameters_types_or_refused() {
        check(Value::Int(7), SqlType::Int4, "Int(7)");
        check(Value::Int(1 << 40), SqlType::Int4, "22003");
        check(Value::Null, SqlType::Int4, "Null");
        check(Value::text("7"), SqlType::Int8, "Int(7)");
        check(Value::text("seven"), SqlType::Int8, "22P02");
        check(Value::text("a\0b"), SqlType::Text, "42804");
        check(Value::text("abc"), SqlType::Varchar(Some(2)), "Text(\"abc\")");
        check(Value::Int(7), SqlType::Text, "42804 a value of type bigint is no text");
        check(Value::Float8(7.5), SqlType::Int4, "42804");
        check(Value::Int(7), SqlType::Numeric(Some((12, 2))), "Numeric");
        check(Value::Float8(7.5), SqlType::Numeric(Some((12, 2))), "Numeric");
        check(Value::Bool(true), SqlType::Int4, "42804");
        check(Value::text("2026-11-22"), SqlType::Date, "Date(9822)");
        check(Value::text("soon"), SqlType::Timestamptz, "22007");
        check(Value::Deferred, SqlType::Int4, "42804");
        check(Value::record(Vec::new()), SqlType::Int4, "42804");
        let ints = SqlType::array_of(SqlType::Int4);
        check(Value::array(SqlType::Text, vec![Value::text("1"), Value::Null]), ints.clone(), "Array");
        check(Value::array(SqlType::Int4, vec![Value::Deferred]), ints.clone(), "42804");
        check(Value::text("{1,2}"), ints.clone(), "Array");
        check(Value::text("{1,x}"), ints, "22P02");
        check(Value::Int(1), SqlType::array_of(SqlType::Int4), "42804");
    }
}
