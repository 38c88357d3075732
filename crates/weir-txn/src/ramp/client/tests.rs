//! Calls that run as transactions of one statement, with shards whose messages go through the hands of the test.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use weir_core::ids::Sender;
use weir_core::machine::{Coordinator as _, Effects, Outgoing, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_types::SqlState;
use weir_types::memory::WorkingMemory;

use super::*;
use crate::faults::NoFaults;
use crate::message::{Callee, Derived, GlobalKey, forgotten};
use crate::ramp::interactive::lock_timeout;
use crate::shard::Node;
use crate::storage::Rows as _;

const SHARDS: ShardId = 3;
const BEGIN_MS: u64 = 1_000_000_000;
const TICK_MS: u64 = 200;

/// An account is on the shard of its remainder.
const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a, 0); END $$;
CREATE FUNCTION transfer(a integer, b integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - 1 WHERE id = a;
    UPDATE account SET balance = balance + 1 WHERE id = b;
    RETURN a;
END $$;
";
const OPEN: usize = 0;
const TRANSFER: usize = 1;

fn program(carries: bool) -> Arc<Program> {
    let mut sources = weir_sql::Sources::default();
    sources.add("accounts.sql", ACCOUNTS);
    let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let plan = weir_analysis::analyze(&application).plan;
    let mut program = Program::compile(&application, &plan, SHARDS).unwrap();
    let procedures = Arc::get_mut(&mut program.procedures).expect("nobody else has them");
    procedures[TRANSFER].carries = carries;
    Arc::new(program)
}

fn call(procedure: usize, args: &[i64]) -> Call {
    Call {
        callee: Callee::Procedure(procedure),
        args: args.iter().map(|arg| Value::Int(*arg)).collect(),
        transaction_time: 0.into(),
        schema_version: 0,
        memory: WorkingMemory::default(),
    }
}

fn transfer(a: i64, b: i64) -> Begin {
    Begin::Call(call(TRANSFER, &[a, b]))
}

/// A message on its way.
enum Message {
    Request { coordinator: usize, to: ShardId, request: Request },
    Reply { coordinator: usize, reply: Reply },
}

struct Stage {
    shards: Vec<Node>,
    coordinators: Vec<Coordinator>,
    program: Arc<Program>,
    now_ms: u64,
    messages: VecDeque<Message>,
    answers: Vec<(u64, Result<Output, SqlError>)>,
    /// Requests that have been sent, in words.
    sent: Vec<String>,
}

impl Stage {
    fn new(resends: bool, coordinators: CoordinatorId) -> Stage {
        let program = program(true);
        let shard = |id| match resends {
            true => Node::recover(id, program.clone(), NoFaults, Timeouts::default(), []),
            false => Node::new(id, program.clone(), NoFaults),
        };
        let coordinator = |id| match resends {
            true => Coordinator::resending(id, program.clone(), Protocol::RampFast),
            false => Coordinator::new(id, program.clone(), Protocol::RampFast),
        };
        let mut stage = Stage {
            shards: (0..SHARDS).map(shard).collect(),
            coordinators: (0..coordinators).map(coordinator).collect(),
            program: program.clone(),
            now_ms: BEGIN_MS,
            messages: VecDeque::new(),
            answers: Vec::new(),
            sent: Vec::new(),
        };
        for account in 0..6 {
            stage.begin(0, 0, Begin::Call(call(OPEN, &[account])));
            stage.carry();
        }
        stage.answers.clear();
        stage.sent.clear();
        stage
    }

    fn begin(&mut self, coordinator: usize, tag: u64, begin: Begin) {
        let mut orders = Orders::default();
        self.coordinators[coordinator].begin(self.now_ms, tag, begin, &mut orders);
        self.post(coordinator, orders);
    }

    fn post(&mut self, coordinator: usize, orders: Orders<Request, Event>) {
        for (to, request) in orders.sends {
            let words = format!("{request:?}");
            let name = words.split([' ', '{']).next().unwrap_or_default();
            self.sent.push(format!("{name} {to}"));
            self.messages.push_back(Message::Request { coordinator, to, request });
        }
        for (tag, event) in orders.done {
            let Event::Answered(result) = event else { panic!("nothing is read") };
            self.answers.push((tag, result));
        }
    }

    /// Delivers the first message.
    fn deliver(&mut self) {
        match self.messages.pop_front() {
            Some(Message::Request { coordinator, to, request }) => {
                let from = self.coordinators[coordinator].id();
                let (progress, mut effects) =
                    (self.coordinators[coordinator].progress(to), Effects::default());
                let shard = &mut self.shards[usize::from(to)];
                shard.on_progress(self.now_ms, from, progress);
                shard.step(self.now_ms, Sender::Coordinator(from), request, &mut effects);
                for Outgoing { to, message: reply, .. } in effects.replies {
                    self.messages.push_back(Message::Reply { coordinator: to as usize, reply });
                }
            }
            Some(Message::Reply { coordinator, reply }) => self.hear(coordinator, reply),
            None => {}
        }
    }

    fn hear(&mut self, coordinator: usize, reply: Reply) {
        let mut orders = Orders::default();
        self.coordinators[coordinator].on_reply(self.now_ms, reply, &mut orders);
        self.post(coordinator, orders);
    }

    /// Delivers messages until there are none.
    fn carry(&mut self) {
        for _ in 0..10_000 {
            self.deliver();
        }
        assert!(self.messages.is_empty(), "it comes to no end");
    }

    fn cancel(&mut self, tag: u64) {
        let mut orders = Orders::default();
        self.coordinators[0].cancel(self.now_ms, tag, lock_timeout(), &mut orders);
        self.post(0, orders);
    }

    fn pass(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        while self.now_ms < until_ms {
            self.now_ms += TICK_MS;
            for coordinator in 0..self.coordinators.len() {
                let mut orders = Orders::default();
                self.coordinators[coordinator].on_timer(self.now_ms, &mut orders);
                self.post(coordinator, orders);
            }
            self.carry();
        }
    }

    /// Results by tag, as its value or its SQLSTATE.
    fn answers(&mut self) -> Vec<(u64, String)> {
        let mut answers = std::mem::take(&mut self.answers);
        answers.sort_by_key(|(tag, _)| *tag);
        let told = |result: Result<Output, SqlError>| match result {
            Ok(output) => format!("{:?}", output.values),
            Err(error) => error.state().to_string(),
        };
        answers.into_iter().map(|(tag, result)| (tag, told(result))).collect()
    }

    fn balance(&self, account: i64) -> Value {
        let (table, mut balance) = (TableId(0), None);
        let storage = &self.shards[account as usize % usize::from(SHARDS)].storage;
        let read = storage.scan(table, &mut |row| {
            if storage.value(table, row, 0) == Value::Int(account) {
                balance = Some(storage.value(table, row, 1));
            }
            Ok(ControlFlow::Continue(()))
        });
        assert!(read.expect("the table can be read").is_continue());
        balance.expect("it has been opened")
    }

    fn check_that_all_is_over(&self) {
        assert!(self.coordinators.iter().all(Coordinator::is_idle), "a transaction is under way");
        assert!(self.shards.iter().all(Node::is_idle), "a shard holds something");
    }
}

const BOTH: [bool; 2] = [false, true];

fn ok(tag: u64, value: i64) -> (u64, String) {
    (tag, format!("[Int({value})]"))
}

#[test]
fn a_call_that_carries_is_a_transaction_of_one_statement() {
    for resends in BOTH {
        let mut stage = Stage::new(resends, 1);
        stage.begin(0, 7, transfer(0, 4));
        stage.carry();
        assert_eq!(stage.answers(), [ok(7, 0)]);
        assert_eq!(stage.sent, ["Work 1", "Work 0", "Bind 0", "Finish 1", "Commit 0"]);
        stage.sent.clear();
        assert_eq!([0, 4].map(|account| stage.balance(account)), [-1, 1].map(Value::Int));
        stage.begin(0, 8, transfer(2, 5));
        stage.carry();
        assert_eq!(stage.answers(), [ok(8, 2)]);
        assert_eq!(stage.sent, ["Work 2", "Finish 2"]);
        stage.check_that_all_is_over();
    }
}

/// Where nothing is carried, everything is as it was.
#[test]
fn other_calls_are_prepared() {
    let mut stage = Stage::new(false, 1);
    stage.coordinators[0] = Coordinator::new(9, program(false), Protocol::RampFast);
    stage.begin(0, 7, transfer(0, 4));
    assert_eq!(stage.sent, ["Prepare 1"]);
}

/// Each has worked on the row that the other one needs next. Where no timer runs the younger one withdraws; elsewhere the circle is seen.
#[test]
fn calls_that_wait_for_each_other_both_commit() {
    for (resends, coordinators) in [(false, 1), (false, 2), (true, 1)] {
        let mut stage = Stage::new(resends, coordinators);
        let second = coordinators as usize - 1;
        stage.begin(0, 7, transfer(0, 1));
        stage.begin(second, 8, transfer(1, 0));
        stage.carry();
        assert_eq!(stage.answers(), [ok(7, 0), ok(8, 1)], "resends {resends}, {coordinators}");
        assert!(stage.sent.iter().any(|sent| sent.starts_with("Abort")), "one has begun again");
        assert_eq!([0, 1].map(|account| stage.balance(account)), [0, 0].map(Value::Int));
        stage.pass(10 * TICK_MS);
        stage.check_that_all_is_over();
    }
}

/// Two coordinators of a network see no circle, but that one waits too long for an older transaction.
#[test]
fn calls_of_two_coordinators_that_wait_for_each_other_both_commit() {
    let mut stage = Stage::new(true, 2);
    stage.begin(0, 7, transfer(0, 1));
    stage.begin(1, 8, transfer(1, 0));
    stage.carry();
    assert_eq!(stage.answers(), []);
    stage.pass(3_000);
    assert_eq!(stage.answers(), [ok(7, 0), ok(8, 1)]);
    stage.check_that_all_is_over();
}

#[test]
fn who_waits_is_listed_and_can_be_cancelled_or_given_up() {
    for gives_up in BOTH {
        let mut stage = Stage::new(true, 1);
        stage.begin(0, 1, Begin::Within(1, Order::Call(call(TRANSFER, &[0, 3]))));
        stage.carry();
        assert_eq!(stage.answers(), [ok(1, 0)]);
        stage.begin(0, 7, transfer(0, 1));
        stage.carry();
        let waits = stage.coordinators[0].waits();
        assert!(matches!(waits[..], [(7, Some(1), _)]), "{waits:?}");
        assert_eq!(stage.coordinators[0].awaited(7), Some(vec![0]));
        assert!(stage.coordinators[0].txn_of(7).is_some());
        match gives_up {
            true => {
                let mut orders = Orders::default();
                assert!(stage.coordinators[0].give_up(stage.now_ms, 7, &mut orders));
                stage.post(0, orders);
                stage.carry();
                assert_eq!(stage.answers(), []);
            }
            false => {
                stage.cancel(7);
                stage.carry();
                assert_eq!(stage.answers(), [(7, "55P03".to_owned())]);
            }
        }
        assert_eq!((stage.coordinators[0].txn_of(7), stage.coordinators[0].awaited(7)), (None, None));
        stage.begin(0, 1, Begin::Within(1, Order::Commit));
        stage.pass(10 * TICK_MS);
        stage.check_that_all_is_over();
        assert_eq!(stage.balance(1), Value::Int(0));
    }
}

#[test]
fn a_shard_that_starts_again_before_the_commit_costs_an_attempt() {
    let mut stage = Stage::new(true, 1);
    stage.begin(0, 7, transfer(0, 1));
    while !stage.sent.iter().any(|sent| sent.starts_with("Bind")) {
        stage.deliver();
    }
    // Shard 1 decides.
    stage.shards[1] = Node::recover(1, stage.program.clone(), NoFaults, Timeouts::default(), []);
    stage.carry();
    assert_eq!(stage.answers(), [ok(7, 0)]);
    assert!(stage.sent.contains(&"Abort 0".to_owned()));
    stage.check_that_all_is_over();
    assert_eq!(stage.balance(0), Value::Int(-1), "once");
}

/// Ages of the calls under way.
fn ages(coordinator: &mut Coordinator) -> Vec<Age> {
    let age = |(_, flight): (u64, &mut Flight)| match flight {
        Flight::Alone { age, machine, .. } if machine.is_unanswered() => Some(*age),
        _ => None,
    };
    coordinator.flights.iter_mut().filter_map(age).collect()
}

/// A coordinator whose shards are all scripted.
fn scripted() -> (Coordinator, Orders<Request, Event>) {
    let mut coordinator = Coordinator::resending(7, program(true), Protocol::RampFast);
    let mut orders = Orders::default();
    coordinator.begin(BEGIN_MS, 7, transfer(0, 3), &mut orders);
    (coordinator, orders)
}

#[test]
fn an_attempt_keeps_its_age_and_the_last_one_says_why() {
    let (mut coordinator, mut orders) = scripted();
    let first = ages(&mut coordinator);
    for attempt in 0..=16 {
        assert_eq!((ages(&mut coordinator), orders.done.len()), (first.clone(), 0), "attempt {attempt}");
        let txn = coordinator.txn_of(7).unwrap();
        let reply = Reply::Refused { txn, shard: 0, error: forgotten() };
        coordinator.on_reply(BEGIN_MS, reply, &mut orders);
        let aborted = Reply::Aborted { txn, shard: 0 };
        coordinator.on_reply(BEGIN_MS, aborted, &mut orders);
        // Later attempts come after a pause.
        coordinator.on_timer(BEGIN_MS + PAUSE_MS[1], &mut orders);
    }
    let [(7, Event::Answered(Err(error)))] = &orders.done[..] else { panic!("{:?}", orders.done) };
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    assert!(coordinator.is_idle());
}

#[test]
fn derived_writes_are_carried_before_the_commit() {
    let (mut coordinator, mut orders) = scripted();
    let txn = coordinator.txn_of(7).unwrap();
    let worked = |shard, number, derived: Vec<Derived>| {
        let output = Output { values: vec![Value::Int(5)], ..Output::default() };
        let result = Ok((crate::message::Answers::default(), output));
        Reply::Worked { txn, shard, number, incarnation: 1, result }.with_derived(derived).spoken()
    };
    let key = GlobalKey { table: TableId(0), index: 0 };
    let derived = vec![Derived::Add { key, values: vec![Value::Int(4)], home: 0 }];
    coordinator.on_reply(BEGIN_MS + 1, worked(0, 1, derived.clone()), &mut orders);
    let [_, (1, Request::WorkAndBind { begun, work, participants, .. })] = &orders.sends[..] else {
        panic!("{:?}", orders.sends)
    };
    assert_eq!(work.call.callee, Callee::Derived(derived.into()));
    assert_eq!((work.number, &work.participants[..], begun.at_ms), (2, &[1][..], BEGIN_MS + 1));
    assert_eq!(participants[..], [1, 0]);
    let prepared =
        Reply::Prepared { txn, shard: 1, answers: Default::default(), timestamp: Default::default() };
    coordinator.on_reply(BEGIN_MS, prepared, &mut orders);
    assert!(matches!(&orders.sends[2..], [(0, Request::Finish { .. })]), "{:?}", orders.sends);
    let decided = Reply::Decided { txn, output: Output::default(), timestamp: Default::default() };
    coordinator.on_reply(BEGIN_MS, decided, &mut orders);
    let [(7, Event::Answered(Ok(output)))] = &orders.done[..] else { panic!("{:?}", orders.done) };
    assert_eq!(output.values, [Value::Int(5)]);
}

#[test]
fn a_cancel_names_the_step_of_the_round() {
    let (mut coordinator, mut orders) = scripted();
    let txn = coordinator.txn_of(7).unwrap();
    let key = GlobalKey { table: TableId(0), index: 0 };
    let derived = vec![Derived::Add { key, values: vec![Value::Int(4)], home: 0 }];
    let result = Ok(Default::default());
    let reply = Reply::Worked { txn, shard: 0, number: 1, incarnation: 1, result }.with_derived(derived);
    coordinator.on_reply(BEGIN_MS, reply, &mut orders);
    coordinator.cancel(BEGIN_MS, 7, lock_timeout(), &mut orders);
    assert!(matches!(orders.interrupts[..], [((7, sequence, 2), _)] if sequence == txn.sequence));
    assert!(matches!(&orders.done[..], [(7, Event::Answered(Err(_)))]));
    coordinator.cancel(BEGIN_MS, 7, lock_timeout(), &mut orders);
    assert_eq!((orders.interrupts.len(), orders.done.len()), (1, 1), "it is over");
}
