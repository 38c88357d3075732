//! Checks of shards of SQL calls on requests of other processes, and replacements for answers that exceed a message.

use std::sync::Arc;

use weir_core::ids::{Sender, ShardId, TxnId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Coordinator as _, Durable as _, Effects, Exposed, Orders, Pace, Shard};
use weir_core::termination::{Fate, Timeouts};
use weir_sql::Catalog;
use weir_sql::bound::Statement;
use weir_sql::catalog::TableId;
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{
    Age, Answers, Begun, Call, Callee, Decision, Derived, GlobalKey, Output, ParentChange, Reply, Request,
    WhyParent, Work,
};
use weir_txn::ramp::{Begin, Coordinator, Event, FetchedRead, Protocol, own_statement};
use weir_txn::shard::Node;
use weir_txn::storage::KeyChange;
use weir_types::interrupt::{Budget, Interrupts};
use weir_types::{Notice, Severity, SqlError, SqlState, Value};

use crate::calls::{self, call};

const SHARDS: ShardId = 3;
const COORDINATOR: u64 = 7;
const NOW_MS: u64 = 1_000_000_000;
const MINUTE_MS: u64 = 60_000;

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE card (id integer PRIMARY KEY, account integer REFERENCES account);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a, 0); END $$;
CREATE PROCEDURE transfer(a integer, b integer, amount integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - amount WHERE id = a;
    UPDATE account SET balance = balance + amount WHERE id = b;
END $$;
CREATE PROCEDURE open_both(a integer, b integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account VALUES (a, 0);
    INSERT INTO account VALUES (b, 0);
END $$;
";

/// Shards, a coordinator, and what goes between them, which a test may change.
struct Stage {
    program: Arc<Program>,
    catalog: Catalog,
    shards: Vec<Node<PlantedBugs>>,
    coordinator: Coordinator,
    /// By shard: what its clock shows.
    now_ms: [u64; SHARDS as usize],
    tag: u64,
}

impl Stage {
    fn new(bugs: PlantedBugs) -> Stage {
        let application = calls::application(ACCOUNTS);
        let program = calls::program(&application, SHARDS);
        let start = |id| Node::recover(id, program.clone(), bugs, Timeouts::default(), []);
        let shards = (0..SHARDS).map(start).collect();
        let coordinator = Coordinator::resending(COORDINATOR, program.clone(), Protocol::RampFast);
        let now_ms = [NOW_MS; SHARDS as usize];
        let mut stage = Stage { program, catalog: application.catalog, shards, coordinator, now_ms, tag: 0 };
        for account in 0..20 {
            assert!(stage.call(0, &[account]).is_ok());
        }
        stage
    }

    /// Two accounts on different shards, and who decides a transfer between them.
    fn apart(&self) -> ([i64; 2], [ShardId; 2]) {
        let of = |b| self.program.participants(&call(1, &[0, b, 5])).unwrap();
        let b = (1..20).find(|b| of(*b).len() == 2).expect("accounts are on several shards");
        ([0, b], of(b)[..].try_into().unwrap())
    }

    fn begin(&mut self, begin: Begin, orders: &mut Orders<Request, Event>) {
        self.tag += 1;
        self.coordinator.begin(NOW_MS, self.tag, begin, orders);
    }

    /// Carries messages until nothing is under way or `stop` says so of a request; replies pass through `changed`.
    fn carry(
        &mut self,
        orders: &mut Orders<Request, Event>,
        stop: impl Fn(&Request) -> bool,
        changed: impl Fn(Reply) -> Reply,
    ) -> Option<(ShardId, Request)> {
        while !orders.sends.is_empty() {
            for (to, request) in std::mem::take(&mut orders.sends) {
                if stop(&request) {
                    return Some((to, request));
                }
                let from = Sender::Coordinator(COORDINATOR);
                let (progress, shard) = (self.coordinator.progress(to), &mut self.shards[usize::from(to)]);
                assert_eq!(shard.refuses(&progress), None);
                assert_eq!(shard.refuses_request(from, &request, SHARDS), None, "{request:?}");
                let (now_ms, mut effects) = (self.now_ms[usize::from(to)], Effects::default());
                shard.on_progress(now_ms, COORDINATOR, progress);
                shard.step(now_ms, from, request, &mut effects);
                for Outgoing { message: reply, .. } in effects.replies {
                    self.coordinator.on_reply(NOW_MS, changed(reply), orders);
                }
            }
        }
        None
    }

    fn call_with(
        &mut self,
        begin: Begin,
        changed: impl Fn(Reply) -> Reply,
    ) -> Result<Option<Vec<Value>>, String> {
        let mut orders = Orders::default();
        self.begin(begin, &mut orders);
        self.carry(&mut orders, |_| false, changed);
        let (_, event) = orders.done.pop().expect("it is answered");
        let told = match event {
            Event::Answered(result) => result.map(|_| None),
            Event::ReadDone { result, .. } => {
                result.and_then(FetchedRead::rows).map(|rows| rows.into_iter().next())
            }
        };
        told.map_err(|error| format!("{error:?} {:?}", error.fields().hint))
    }

    fn call(&mut self, procedure: usize, args: &[i64]) -> Result<Option<Vec<Value>>, String> {
        self.call_with(Begin::Call(call(procedure, args)), |reply| reply)
    }

    fn balance_of(&mut self, account: i64) -> Value {
        let read = self.read(&format!("SELECT balance FROM account WHERE id = {account}"));
        self.call_with(read, |reply| reply).unwrap().expect("it is there").remove(0)
    }

    fn read(&self, query: &str) -> Begin {
        let (statement, _) = weir_sql::bind_statement(&self.catalog, query, None).unwrap();
        let Statement::Query(query) = statement else { panic!("it is a query") };
        Begin::Read(Arc::new(Gather::compile(&query, 0, &self.program).unwrap()), Vec::new())
    }
}

/// Shards hear nothing from a coordinator that computes, and its other clients wait: whoever waits for the result computes it. A
/// computation would end with the interruption.
#[test]
fn a_coordinator_does_not_compute_what_a_query_gives() {
    let mut stage = Stage::new(PlantedBugs::default());
    let interrupts = Arc::new(Interrupts::default());
    let other = Coordinator::resending(COORDINATOR + 1, stage.program.clone(), Protocol::RampFast);
    stage.coordinator = std::mem::replace(&mut stage.coordinator, other).interrupted_by(interrupts.clone());
    let read = stage.read("SELECT count(*) FROM account a, account b WHERE a.balance + b.balance < a.id");
    let mut orders = Orders::default();
    stage.begin(read, &mut orders);
    interrupts.interrupt(own_statement(stage.tag), SqlError::new(SqlState::QUERY_CANCELED, "it computes"));
    stage.carry(&mut orders, |_| false, |reply| reply);
    let Some((_, Event::ReadDone { result: Ok(fetched), .. })) = orders.done.pop() else {
        panic!("the coordinator has computed")
    };
    assert_eq!(fetched.rows().unwrap_err().message(), "it computes");
}

/// The deciding shard receives exactly one answer of each other participant.
#[test]
fn a_decision_has_one_answer_of_each_other_participant() {
    let mut stage = Stage::new(PlantedBugs::default());
    let ([a, b], [other, last]) = stage.apart();
    let mut orders = Orders::default();
    stage.begin(Begin::Call(call(1, &[a, b, 5])), &mut orders);
    let decides = |request: &Request| matches!(request, Request::Decide { .. });
    let Some((to, Request::Decide { txn, begun, decision })) =
        stage.carry(&mut orders, decides, |reply| reply)
    else {
        panic!("nobody decides")
    };
    assert_eq!(to, last);
    let third = (0..SHARDS).find(|shard| ![other, last].contains(shard)).unwrap();
    let none = Answers::default;
    type Change = fn(&mut Decision, [ShardId; 3], Answers);
    let changes: [(Option<&str>, Change); 6] = [
        (None, |_, _, _| ()),
        (Some("answers"), |decision, _, _| decision.answers.clear()),
        (Some("answers"), |decision, [.., third], none| decision.answers.push((third, none))),
        (Some("answers"), |decision, [other, ..], none| decision.answers.push((other, none))),
        (Some("answers"), |decision, [_, last, _], none| decision.answers[0] = (last, none)),
        (Some("participants"), |decision, [other, last, _], _| decision.participants = [last, other].into()),
    ];
    for (refused, change) in changes {
        let mut decision = decision.clone();
        change(&mut decision, [other, last, third], none());
        let request = Request::Decide { txn, begun, decision };
        let why = stage.shards[usize::from(last)].refuses_request(
            Sender::Coordinator(COORDINATOR),
            &request,
            SHARDS,
        );
        assert_eq!(why.is_some(), refused.is_some(), "{why:?}: {request:?}");
        assert!(why.unwrap_or_default().contains(refused.unwrap_or_default()), "{why:?}");
    }
    let participants = [other, last].into();
    let prepare = Request::Prepare { txn, begun, call: decision.call.clone(), participants };
    for (shard, is_refused) in [(other, false), (last, true), (third, true)] {
        let why = stage.shards[usize::from(shard)].refuses_request(
            Sender::Coordinator(COORDINATOR),
            &prepare,
            SHARDS,
        );
        assert_eq!(why.is_some(), is_refused, "shard {shard}: {why:?}");
    }
}

const TXN: TxnId = TxnId { coordinator: COORDINATOR, sequence: 1_000 };
const BEGUN: Begun = Begun { age: Age { sequence: 1_000, coordinator: COORDINATOR }, at_ms: NOW_MS };

fn derived(table: u32, index: usize, values: &[Value], home: ShardId) -> Derived {
    Derived::Add { key: GlobalKey { table: TableId(table), index }, values: values.to_vec(), home }
}

fn carrying(derived: &[Derived]) -> Call {
    Call { callee: Callee::Derived(derived.into()), ..call(0, &[]) }
}

/// Work on the derived writes as the second step of a transaction.
fn carry(derived: &[Derived], participants: &[ShardId]) -> Request {
    let (call, participants) = (Arc::new(carrying(derived)), participants.into());
    let work = Work { number: 2, opened: None, call, participants, answers: Vec::new() };
    Request::Work { txn: TXN, begun: BEGUN, work: Box::new(work) }
}

#[test]
fn questions_of_foreign_keys_that_cannot_be_are_refused() {
    let stage = Stage::new(PlantedBugs::default());
    let why = |one: Derived| {
        let request = carry(&[one], &[1]);
        stage.shards[1].refuses_request(Sender::Coordinator(COORDINATOR), &request, SHARDS)
    };
    let (account, card, four) = (TableId(0), TableId(1), Value::Int(4));
    let parent = |at, child, rule, key: &[Value]| {
        let (key, why) = (key.to_vec(), WhyParent::IsReferred);
        Derived::Parent { at, child, rule, key, why }
    };
    let children = |at, parent, reference, old: &[Value], change| {
        let old = old.to_vec();
        Derived::Children { at, parent, reference, old, change }
    };
    let gets = |value: Value| ParentChange::Gets(vec![value]);
    let four = &[four][..];
    for right in [
        parent(1, card, 0, four),
        children(1, account, 0, four, ParentChange::Goes),
        children(1, account, 0, four, gets(Value::Int(5))),
    ] {
        assert_eq!(why(right), None);
    }
    for wrong in [
        parent(0, card, 0, four),
        parent(1, account, 0, four),
        parent(1, card, 1, four),
        parent(1, TableId(9), 0, four),
        parent(1, card, 0, &[]),
        parent(1, card, 0, &[Value::text("d")]),
        children(2, account, 0, four, ParentChange::Goes),
        children(1, card, 0, four, ParentChange::Goes),
        children(1, account, 1, four, ParentChange::Goes),
        children(1, account, 0, &[], ParentChange::HasGone),
        children(1, account, 0, four, gets(Value::text("d"))),
    ] {
        assert_eq!(why(wrong.clone()), Some("derived writes that cannot be"), "{wrong:?}");
    }
}

/// A shard owns the integers of its remainder.
#[test]
fn derived_writes_that_cannot_be_are_refused() {
    let stage = Stage::new(PlantedBugs::default());
    let why = |request: &Request| {
        stage.shards[1].refuses_request(Sender::Coordinator(COORDINATOR), request, SHARDS)
    };
    let four = [Value::Int(4)];
    let right = [derived(0, 0, &four, 0), derived(0, 0, &[Value::Int(7)], 2)];
    assert_eq!(why(&carry(&right, &[1])), None);
    for participants in [&[0][..], &[0, 1], &[1, 2], &[]] {
        assert_eq!(why(&carry(&right, participants)), Some("derived writes of other participants"));
    }
    let wrong = [
        derived(9, 0, &four, 0),
        derived(0, 9, &four, 0),
        derived(0, 0, &[], 0),
        derived(0, 0, &[Value::Int(4), Value::Int(4)], 0),
        derived(0, 0, &[Value::Int(4 + 3 * (1 << 40))], 0),
        derived(0, 0, &[Value::text("d")], 0),
        derived(0, 0, &[Value::Int(5)], 0),
        derived(0, 0, &four, 1),
        derived(0, 0, &four, SHARDS),
    ];
    for one in wrong {
        let request = carry(&[right[0].clone(), one], &[1]);
        assert_eq!(why(&request), Some("derived writes that cannot be"), "{request:?}");
    }
    assert_eq!(why(&carry(&[], &[1])), Some("derived writes that cannot be"));
    let alone =
        Request::Execute { txn: TXN, begun: BEGUN, call: Box::new(carrying(&right)), incarnation: None };
    assert_eq!(why(&alone), Some("derived writes by themselves"));
    let participants = [1, 2].into();
    let part = Request::Prepare { txn: TXN, begun: BEGUN, call: Arc::new(carrying(&right)), participants };
    assert_eq!(why(&part), Some("derived writes by themselves"));
    let bound = |participants: &[ShardId], request: Request| {
        let Request::Work { txn, begun, work } = request else { unreachable!() };
        why(&Request::WorkAndBind { txn, begun, work, participants: participants.into() })
    };
    assert_eq!(bound(&[1, 0], carry(&right, &[1])), None);
    for participants in [&[0, 1][..], &[0, 2], &[1, SHARDS], &[1], &[]] {
        assert_eq!(bound(participants, carry(&right, &[1])), Some("participants that cannot be"));
    }
    assert_eq!(bound(&[1, 0], carry(&right, &[1, 0])), Some("derived writes of other participants"));
    assert_eq!(bound(&[1, 0], carry(&[], &[1])), Some("derived writes that cannot be"));
    let statement = Work {
        number: 1,
        opened: None,
        call: Arc::new(call(0, &[4])),
        participants: [1].into(),
        answers: Vec::new(),
    };
    let statement = Request::Work { txn: TXN, begun: BEGUN, work: Box::new(statement) };
    assert_eq!(bound(&[1, 0], statement), Some("the end of a transaction beside a statement"));
}

#[test]
fn messages_of_an_index_that_cannot_be_built_are_refused() {
    let stage = Stage::new(PlantedBugs::default());
    let why = |derived: &[Derived]| {
        let request = carry(derived, &[1]);
        stage.shards[1].refuses_request(Sender::Coordinator(COORDINATOR), &request, SHARDS)
    };
    let key = GlobalKey { table: TableId(0), index: 1 };
    let staged = |at: ShardId, home: ShardId| Derived::Stage {
        at,
        key,
        home,
        changes: vec![KeyChange { values: vec![Value::Int(4)], is_there: true }],
    };
    let right = [Derived::Build { at: 1, key }, staged(1, 0), staged(1, 2), Derived::Settle { at: 1, key }];
    assert_eq!(why(&right), None);
    let wrong = [
        Derived::Build { at: 0, key },
        Derived::Settle { at: 2, key },
        staged(0, 2),
        staged(1, 1),
        staged(1, SHARDS),
        derived(0, 0, &[Value::Int(4)], 0),
    ];
    for one in wrong {
        assert_eq!(why(&[right[0].clone(), one.clone()]), Some("an index that cannot be built"), "{one:?}");
    }
    let request = carry(&right, &[1]);
    assert!(matches!(<Node>::refused_by(&request, 9, 1), Some(Reply::Refused { shard: 1, .. })));
    assert!(<Node>::refused_by(&request, 10, 1).is_none());
}

/// A statement whose derived writes cannot be told fails, and one whose writes cannot be carried.
#[test]
fn derived_writes_fail_the_statement_where_they_cannot_be_said() {
    let notices =
        vec![Notice { severity: Severity::Notice, said: SqlError::new(SqlState::SUCCESSFUL_COMPLETION, "") }];
    let result = Ok((Answers::default(), Output::default()));
    let worked = || Reply::Worked { txn: TXN, shard: 0, number: 1, incarnation: 1, result: result.clone() };
    let list = vec![derived(0, 0, &[Value::Int(4)], 0)];
    let derives = || Reply::Derived { derived: list.clone(), reply: Box::new(worked()) };
    let raised = || Reply::Raised { notices: notices.clone(), reply: Box::new(derives()) };
    let state_of = |reply: &Reply| match reply {
        Reply::Worked { shard: 0, number: 1, result, .. } => {
            result.as_ref().err().map(|error| error.state().to_string())
        }
        other => panic!("{other:?}"),
    };
    for (version, is_raised) in [(5, true), (3, true), (2, false)] {
        match <Node>::of_version(raised(), version) {
            Reply::Raised { reply, notices } if is_raised && notices.len() == 1 => {
                assert_eq!(state_of(&reply).as_deref(), Some("0A000"));
            }
            reply => assert!(!is_raised && state_of(&reply).as_deref() == Some("0A000"), "{reply:?}"),
        }
    }
    assert!(matches!(<Node>::of_version(derives(), 6), Reply::Derived { .. }));
    assert_eq!(state_of(&<Node>::of_version(worked(), 1)), None);
    // First it goes without the notices.
    let smaller = <Node>::instead_of(&raised()).unwrap();
    assert!(matches!(smaller, Reply::Derived { .. }));
    for reply in [smaller, worked()] {
        let told = <Node>::instead_of(&reply).unwrap();
        assert_eq!(state_of(&told).as_deref(), Some("54000"));
    }
    let request = carry(&list, &[1]);
    let refused = <Node>::refused_by(&request, 5, 1);
    assert!(
        matches!(refused, Some(Reply::Refused { shard: 1, error, .. }) if error.state().to_string() == "0A000")
    );
    assert!(<Node>::refused_by(&request, 6, 1).is_none());
    // Its transaction begins again without it.
    let Request::Work { txn, begun, work } = request else { unreachable!() };
    let request = Request::WorkAndBind { txn, begun, work, participants: Arc::new([1, 0]) };
    assert!(matches!(<Node>::refused_by(&request, 8, 1), Some(Reply::Busy { shard: 1, .. })));
    assert!(<Node>::refused_by(&request, 9, 1).is_none());
}

/// A shard that has no part in a transaction is not believed about it.
#[test]
fn a_stranger_does_not_end_a_transaction() {
    for fate in [Fate::Refused, Fate::Committed { clock: 9 }] {
        let mut stage = Stage::new(PlantedBugs::default());
        let ([a, b], [other, last]) = stage.apart();
        let third = (0..SHARDS).find(|shard| ![other, last].contains(shard)).unwrap();
        let mut orders = Orders::default();
        stage.begin(Begin::Call(call(1, &[a, b, 5])), &mut orders);
        let decides = |request: &Request| matches!(request, Request::Decide { .. });
        let Some((_, request)) = stage.carry(&mut orders, decides, |reply| reply) else {
            panic!("nobody decides")
        };
        let (txn, shard) = (request.txn(), &mut stage.shards[usize::from(other)]);
        for word in [Request::Tell { txn, fate }, Request::Ask { txn, fate }] {
            for (peer, is_open) in [(third, true), (last, false)] {
                if is_open || matches!(word, Request::Ask { .. }) {
                    shard.step(NOW_MS, Sender::Shard(peer), word.clone(), &mut Effects::default());
                    assert_eq!(shard.undecided().any(|of| of == COORDINATOR), is_open, "{word:?} of {peer}");
                }
            }
        }
    }
}

/// The pace of a worker that never pauses.
struct Unpaced;

impl Pace for Unpaced {
    fn wants_pause(&self) -> bool {
        false
    }

    fn pause(&self) {}
}

/// The part of the deciding shard runs on a worker. Meanwhile the other participant asks, and is promised that the transaction does not
/// commit.
#[test]
fn a_long_decision_keeps_a_promise_that_was_given_meanwhile() {
    for bug in [false, true] {
        let mut stage = Stage::new(PlantedBugs { commits_refused: bug, ..PlantedBugs::default() });
        let ([a, b], [other, last]) = stage.apart();
        let mut orders = Orders::default();
        stage.begin(Begin::Call(call(1, &[a, b, 5])), &mut orders);
        let decides = |request: &Request| matches!(request, Request::Decide { .. });
        let (_, decision) = stage.carry(&mut orders, decides, |reply| reply).expect("it is decided");
        let (txn, mut effects) = (decision.txn(), Effects::default());
        let shard = &mut stage.shards[usize::from(last)];
        shard.set_step_budget(Budget(0));
        shard.begin_turn();
        shard.step(NOW_MS, Sender::Coordinator(COORDINATOR), decision, &mut effects);
        let works = shard.take_work();
        assert!(works.len() == 1 && effects.replies.is_empty());
        let ask = Request::Ask { txn, fate: Fate::Prepared { clock: 1 } };
        shard.step(NOW_MS, Sender::Shard(other), ask, &mut effects);
        shard.end_turn();
        works.into_iter().for_each(|work| work(Arc::new(Unpaced)));
        shard.begin_turn();
        shard.on_work_done(NOW_MS, &mut effects);
        shard.set_step_budget(Budget(u32::MAX));
        let promised: Vec<Request> = effects.peers.drain(..).map(|peer| peer.message).collect();
        assert!(matches!(promised[..], [Request::Tell { fate: Fate::Refused, .. }]), "{promised:?}");
        for word in promised {
            let from = Sender::Shard(last);
            stage.shards[usize::from(other)].step(NOW_MS, from, word, &mut Effects::default());
        }
        assert!(stage.shards.iter().all(Node::is_idle), "nobody holds anything of it");
        let has_changed = [a, b].map(|account| stage.balance_of(account) != Value::Int(0));
        assert_eq!(has_changed, [bug, false], "half of a transfer");
        let committed = effects.replies.iter().any(|one| matches!(one.message, Reply::Decided { .. }));
        assert_eq!(committed, bug, "{:?}", effects.replies);
    }
}

type IsIt = fn(&Reply) -> bool;

fn instead(reply: Reply, is_it: IsIt) -> Reply {
    if !is_it(&reply) {
        return reply;
    }
    <Node>::instead_of(&reply).expect("there is something to say instead")
}

/// Replacements for large answers, by message: whether the call has taken effect, and the error for the client.
#[test]
fn an_answer_that_is_too_large_is_an_error_that_says_what_has_happened() {
    let large: [(IsIt, bool); 3] = [
        (|reply| matches!(reply, Reply::Prepared { .. }), false),
        (|reply| matches!(reply, Reply::Decided { .. }), true),
        (|reply| matches!(reply, Reply::ReadRows { .. }), true),
    ];
    for (is_it, happens) in large {
        let mut stage = Stage::new(PlantedBugs::default());
        let ([a, b], [other, _]) = stage.apart();
        let told = stage.call_with(Begin::Call(call(1, &[a, b, 5])), |reply| instead(reply, is_it));
        let is_read = told.is_ok();
        let told = match is_read {
            true => {
                let read = stage.read("SELECT sum(balance) FROM account");
                stage.call_with(read, |reply| instead(reply, is_it)).unwrap_err()
            }
            false => told.unwrap_err(),
        };
        assert!(told.contains("54000") && told.contains("more than a message carries"), "{told}");
        assert_eq!(told.contains("is done"), happens && !is_read, "{told}");
        // The next word of its coordinator says that it is over.
        let progress = stage.coordinator.progress(other);
        stage.shards[usize::from(other)].on_progress(NOW_MS, COORDINATOR, progress);
        stage.shards[usize::from(other)].on_timer(NOW_MS, &mut Effects::default());
        assert!(stage.coordinator.is_idle() && stage.shards.iter().all(Node::is_idle));
        let expected = if happens { [-5, 5] } else { [0, 0] };
        assert_eq!([a, b].map(|account| stage.balance_of(account)), expected.map(Value::Int), "{told}");
    }
}

/// Answers of several shards that are each small enough may be too much for the message to who decides.
#[test]
fn answers_that_are_too_large_together_end_the_call() {
    let mut stage = Stage::new(PlantedBugs::default());
    let ([a, b], [other, _]) = stage.apart();
    let told = stage.call_with(Begin::Call(call(1, &[a, b, 5])), |mut reply| {
        if let Reply::Prepared { answers, .. } = &mut reply {
            answers.values.push(Value::text("x".repeat(9 << 20)));
        }
        reply
    });
    let told = told.unwrap_err();
    assert!(told.contains("54000") && told.contains("Nothing has happened"), "{told}");
    let progress = stage.coordinator.progress(other);
    stage.shards[usize::from(other)].on_progress(NOW_MS, COORDINATOR, progress);
    stage.shards[usize::from(other)].on_timer(NOW_MS, &mut Effects::default());
    assert!(stage.coordinator.is_idle() && stage.shards.iter().all(Node::is_idle));
    assert_eq!([a, b].map(|account| stage.balance_of(account)), [Value::Int(0), Value::Int(0)]);
}

/// The only participant has run the call, whatever is said of its answer.
#[test]
fn a_call_on_one_shard_whose_answer_is_too_large_is_done() {
    let mut stage = Stage::new(PlantedBugs::default());
    let is_it: IsIt = |reply| matches!(reply, Reply::Executed { .. });
    let told = stage.call_with(Begin::Call(call(0, &[77])), |reply| instead(reply, is_it)).unwrap_err();
    assert!(told.contains("54000") && told.contains("is done"), "{told}");
    assert_eq!(stage.balance_of(77), Value::Int(0));
}

/// S9: whoever's clock is far ahead, its calls are refused, and no other clock goes with it.
#[test]
fn a_clock_that_is_far_ahead_loses_its_calls() {
    let far_ms = NOW_MS + 3 * MINUTE_MS;
    for bug in [false, true] {
        for which in 0..3 {
            let mut stage = Stage::new(PlantedBugs { accepts_any_clock: bug, ..PlantedBugs::default() });
            let ([a, b], [other, last]) = stage.apart();
            match which {
                0 => stage.now_ms[usize::from(other)] = far_ms,
                1 => stage.now_ms[usize::from(last)] = far_ms,
                // It is the coordinator's that is far ahead.
                _ => stage.now_ms = [NOW_MS - 3 * MINUTE_MS; SHARDS as usize],
            }
            let told = stage.call(1, &[a, b, 5]);
            assert_eq!(told.is_ok(), bug, "{told:?}");
            let right_ms = stage.now_ms.into_iter().min().unwrap() + MINUTE_MS;
            let carried = stage.shards.iter().any(|shard| {
                stage.now_ms[usize::from(shard.shard)] != far_ms
                    && weir_core::clock::ms_of(shard.last_clock()) > right_ms.max(NOW_MS)
            });
            assert_eq!(carried, bug && which < 2, "the clock of {which} is wrong");
            if !bug {
                assert!(told.unwrap_err().contains("55000"));
                // Reads go on.
                assert_eq!(stage.balance_of(a), Value::Int(0));
            }
        }
    }
}

/// S9: the clock of a shard is set ahead while a request waits there for a key. Its clock was right when the request came.
#[test]
fn a_request_that_has_waited_carries_no_clock_along() {
    for bug in [false, true] {
        let mut stage = Stage::new(PlantedBugs { ticks_unbounded: bug, ..PlantedBugs::default() });
        let of = |b| stage.program.participants(&call(2, &[30, b])).unwrap();
        let b = (31..50).find(|b| of(*b).len() == 2).expect("accounts are on several shards");
        let first = of(b)[0];
        // The older transaction waits for the younger one, which has prepared first.
        let (mut older, mut younger) = (Orders::default(), Orders::default());
        stage.begin(Begin::Call(call(2, &[30, b])), &mut older);
        stage.begin(Begin::Call(call(2, &[30, b])), &mut younger);
        let decides = |request: &Request| matches!(request, Request::Decide { .. });
        let (_, decision) = stage.carry(&mut younger, decides, |reply| reply).expect("it is decided");
        assert!(stage.carry(&mut older, |_| false, |reply| reply).is_none() && older.done.is_empty());
        let far_ms = NOW_MS + 3 * MINUTE_MS;
        let shard = &mut stage.shards[usize::from(first)];
        let request = Request::Abort { txn: decision.txn() };
        let mut effects = Effects::default();
        shard.step(far_ms, Sender::Coordinator(COORDINATOR), request, &mut effects);
        let mut replies = effects.replies.iter();
        assert!(replies.any(|reply| matches!(reply.message, Reply::Prepared { .. })), "the key is free");
        let given_ms = weir_core::clock::ms_of(shard.last_clock());
        assert_eq!(given_ms, if bug { far_ms } else { NOW_MS + MINUTE_MS });
    }
}

/// The log was written at a clock that was a year ahead, which has been set right: the history is accepted, and goes on above itself.
#[test]
fn a_clock_that_was_ahead_once_stops_nobody() {
    let history = weir_core::clock::clock_at(NOW_MS + 365 * 24 * 60 * MINUTE_MS);
    let mut stage = Stage::new(PlantedBugs::default());
    let ([a, b], [other, last]) = stage.apart();
    stage.shards[usize::from(other)].restore_clock(history);
    // A shard that has none of that history takes it for a wrong clock, and says what to do.
    let told = stage.call(1, &[a, b, 5]).unwrap_err();
    assert!(told.contains("55000"), "{told}");
    stage.shards[usize::from(last)].restore_clock(history);
    for amount in [5, 7] {
        assert!(stage.call(1, &[a, b, amount]).is_ok());
    }
    assert!([other, last].iter().all(|shard| stage.shards[usize::from(*shard)].last_clock() > history));
    // A clock that is wrong now is refused as ever.
    stage.now_ms[usize::from(last)] = NOW_MS + 3 * MINUTE_MS;
    assert!(stage.call(1, &[a, b, 5]).unwrap_err().contains("55000"));
}

/// The clock in a late decision is checked too.
#[test]
fn a_decision_above_a_clock_that_is_far_ahead_is_refused() {
    let mut stage = Stage::new(PlantedBugs::default());
    let ([a, b], [_, last]) = stage.apart();
    let far = weir_core::clock::clock_at(NOW_MS + 2 * MINUTE_MS);
    let told = stage.call_with(Begin::Call(call(1, &[a, b, 5])), |mut reply| {
        if let Reply::Prepared { timestamp, .. } = &mut reply {
            timestamp.clock = far;
        }
        reply
    });
    assert!(told.unwrap_err().contains("55000"));
    assert!(stage.shards[usize::from(last)].last_clock() < far);
}
