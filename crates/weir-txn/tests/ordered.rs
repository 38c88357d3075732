//! Ordered calls (docs/internals/ordered-calls.md): which procedures run so, and what a call costs.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::{Sender, ShardId};
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::Application;
use weir_txn::exec::program::Program;
use weir_txn::faults::NoFaults;
use weir_txn::message::{Output, Request};
use weir_txn::ramp::client::Order;
use weir_txn::ramp::{Begin, Coordinator, Event, Protocol};
use weir_txn::shard::Node;
use weir_types::{SqlError, Value};

use crate::calls::{application, call, program};

const COORDINATOR: u64 = 7;
const TICK_MS: u64 = 50;

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance numeric NOT NULL, owner integer);
CREATE TABLE entry (account integer NOT NULL, amount numeric NOT NULL);
COMMENT ON TABLE entry IS 'weir: partition by (account)';
CREATE PROCEDURE transfer(a integer, b integer, n numeric) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - n WHERE id = a;
    UPDATE account SET balance = balance + n WHERE id = b;
    INSERT INTO entry VALUES (b, n);
END $$;
CREATE FUNCTION total(a integer, b integer) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE one numeric; two numeric;
BEGIN
    SELECT balance INTO one FROM account WHERE id = a;
    SELECT balance INTO two FROM account WHERE id = b;
    RETURN one + two;
END $$;
CREATE PROCEDURE open(a integer, n numeric) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO account VALUES (a, n, NULL); END $$;
CREATE PROCEDURE own(a integer, b integer, who integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET owner = who WHERE id = a;
    UPDATE account SET owner = who WHERE id = b;
END $$;
";

const DECLARED: &str = "
ALTER PROCEDURE transfer SET default_transaction_isolation = 'serializable';
ALTER FUNCTION total SET default_transaction_isolation = 'serializable';
";

fn accounts() -> Application {
    application(&format!("{ACCOUNTS}{DECLARED}"))
}

/// Shards and a coordinator whose messages arrive at once, each in a round of its own.
struct Stage {
    program: std::sync::Arc<Program>,
    shards: Vec<Node>,
    coordinator: Coordinator,
    now_ms: u64,
    orders: Orders<Request, Event>,
    /// Messages between shards.
    between: Vec<(ShardId, ShardId, Request)>,
    answers: BTreeMap<u64, Result<Output, SqlError>>,
    /// Messages from the coordinator, from one shard to another, and to the coordinator.
    counted: [usize; 3],
}

impl Stage {
    fn new(shards: ShardId) -> Stage {
        let program = program(&accounts(), shards);
        assert!(program.is_ordered);
        let start = |id| Node::recover(id, program.clone(), NoFaults, Timeouts::default(), []);
        let mut stage = Stage {
            shards: (0..shards).map(start).collect(),
            coordinator: Coordinator::resending(COORDINATOR, program.clone(), Protocol::RampFast),
            program,
            now_ms: 1_000_000_000,
            orders: Orders::default(),
            between: Vec::new(),
            answers: BTreeMap::new(),
            counted: [0; 3],
        };
        // Until the first epoch has begun.
        (0..10).for_each(|_| stage.tick());
        stage.counted = [0; 3];
        stage
    }

    fn tick(&mut self) {
        self.now_ms += TICK_MS;
        for shard in 0..self.shards.len() {
            let mut effects = Effects::default();
            self.shards[shard].on_timer(self.now_ms, &mut effects);
            self.take(shard as ShardId, effects);
        }
        self.carry();
    }

    fn take(&mut self, shard: ShardId, effects: Effects<Request, weir_txn::message::Reply>) {
        self.between.extend(effects.peers.into_iter().map(|one| (shard, one.to, one.message)));
        for reply in effects.replies {
            self.counted[2] += 1;
            self.coordinator.on_reply(self.now_ms, reply.message, &mut self.orders);
        }
    }

    fn step(&mut self, from: Sender, shard: ShardId, request: Request) {
        let mut effects = Effects::default();
        self.shards[usize::from(shard)].step(self.now_ms, from, request, &mut effects);
        self.take(shard, effects);
    }

    fn carry(&mut self) {
        loop {
            if !self.between.is_empty() {
                let (from, to, request) = self.between.remove(0);
                self.counted[1] += 1;
                self.step(Sender::Shard(from), to, request);
            } else if !self.orders.sends.is_empty() {
                let (to, request) = self.orders.sends.remove(0);
                self.counted[0] += 1;
                let progress = self.coordinator.progress(to);
                self.shards[usize::from(to)].on_progress(self.now_ms, COORDINATOR, progress);
                self.step(Sender::Coordinator(COORDINATOR), to, request);
            } else {
                break;
            }
        }
        for (tag, event) in std::mem::take(&mut self.orders.done) {
            if let Event::Answered(result) = event {
                self.answers.insert(tag, result);
            }
        }
    }

    fn begin(&mut self, tag: u64, begin: Begin) {
        self.coordinator.begin(self.now_ms, tag, begin, &mut self.orders);
        self.carry();
    }

    /// Accounts on two shards, the second of which is not the home of the sequencer.
    fn two(&self) -> [i64; 2] {
        let of = |account: i64| self.program.participants(&call(2, &[account, 0])).unwrap()[0];
        let on = |shard| (1..).find(|account| of(*account) == shard).unwrap();
        [on(0), on(1)]
    }
}

fn numeric(value: i64) -> Value {
    Value::Numeric(value.to_string().parse().unwrap())
}

fn transfer(a: i64, b: i64, n: i64) -> Begin {
    let mut call = call(0, &[a, b]);
    call.args.push(numeric(n));
    Begin::Call(call)
}

fn open(a: i64, n: i64) -> Begin {
    let mut call = call(2, &[a]);
    call.args.push(numeric(n));
    Begin::Call(call)
}

/// One message to the sequencer, one to the other participant, and an answer of each; nothing follows.
#[test]
fn a_call_over_two_shards_takes_one_round_trip() {
    let mut stage = Stage::new(2);
    let [a, b] = stage.two();
    stage.begin(1, open(a, 10));
    stage.begin(2, open(b, 10));
    stage.counted = [0; 3];
    stage.begin(3, transfer(a, b, 3));
    assert!(stage.answers[&3].is_ok(), "{:?}", stage.answers);
    assert_eq!(stage.counted, [1, 1, 2]);
    stage.counted = [0; 3];
    stage.begin(4, Begin::Call(call(1, &[a, b])));
    assert_eq!(stage.counted, [1, 1, 2]);
    assert_eq!(stage.answers[&4].as_ref().unwrap().values, [numeric(20)]);
}

/// A call waits for a transaction that has entered before it, and runs when that has ended.
#[test]
fn a_call_waits_for_who_has_entered() {
    let mut stage = Stage::new(2);
    let [a, b] = stage.two();
    stage.begin(1, open(a, 10));
    stage.begin(2, open(b, 10));
    stage.begin(3, Begin::Within(9, Order::Serializable(true)));
    stage.begin(4, Begin::Within(9, Order::Call(call(3, &[a, a, 5]))));
    assert!(stage.answers[&4].is_ok(), "{:?}", stage.answers[&4]);
    stage.begin(5, transfer(a, b, 3));
    assert!(!stage.answers.contains_key(&5));
    stage.begin(6, Begin::Within(9, Order::Commit));
    assert!(stage.answers[&6].is_ok(), "{:?}", stage.answers[&6]);
    assert!(stage.answers[&5].is_ok(), "{:?}", stage.answers[&5]);
}

/// A restart of all shards from their logs loses no call and repeats none.
#[test]
fn a_restart_goes_on_where_the_log_ends() {
    let mut stage = Stage::new(2);
    let [a, b] = stage.two();
    stage.begin(1, open(a, 10));
    stage.begin(2, open(b, 10));
    stage.begin(3, transfer(a, b, 3));
    use weir_core::machine::Durable as _;
    let program = stage.program.clone();
    let logs: Vec<_> = stage.shards.iter_mut().map(|shard| shard.take_records()).collect();
    stage.shards = logs
        .into_iter()
        .enumerate()
        .map(|(id, log)| Node::recover(id as ShardId, program.clone(), NoFaults, Timeouts::default(), log))
        .collect();
    (0..20).for_each(|_| stage.tick());
    stage.begin(4, transfer(a, b, 2));
    (0..10).for_each(|_| stage.tick());
    assert!(stage.answers[&4].is_ok(), "{:?}", stage.answers);
    stage.begin(5, Begin::Call(call(1, &[b, b])));
    assert_eq!(stage.answers[&5].as_ref().unwrap().values, [numeric(30)]);
}

/// Why calls over several shards are no independent transactions.
fn why_not(body: &str) -> String {
    let sql = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer, v varchar(3), s text NOT NULL, u integer UNIQUE);
         CREATE PROCEDURE p(a integer, b integer, k integer, w text) LANGUAGE plpgsql AS $$
         DECLARE x integer; BEGIN {body} END $$;
         ALTER PROCEDURE p SET default_transaction_isolation = 'serializable';"
    );
    let program = program(&application(&sql), 3);
    program.procedures[0].independent.clone().err().unwrap_or_default()
}

/// S2: an error that one shard alone would see keeps a procedure under locks.
#[test]
fn what_may_fail_at_one_shard_alone_is_no_independent_transaction() {
    let both =
        |update: &str| format!("UPDATE t SET {update} WHERE id = a; UPDATE t SET {update} WHERE id = b;");
    assert_eq!(why_not(&both("n = k")), "");
    assert_eq!(why_not(&both("s = w, n = k")), "");
    for refused in ["n = n + k", "n = n / k", "u = k", "id = k", "v = w", "n = w::integer"] {
        assert_ne!(why_not(&both(refused)), "", "{refused}");
    }
    for refused in [
        "INSERT INTO t (id, s) VALUES (a, w); INSERT INTO t (id, s) VALUES (b, w);",
        "DELETE FROM t WHERE id = a; DELETE FROM t WHERE id = b;",
        "SELECT n INTO x FROM t WHERE id = a; UPDATE t SET n = x WHERE id = b;",
        "SELECT n INTO STRICT x FROM t WHERE id = a; UPDATE t SET n = k WHERE id = b;",
        "UPDATE t SET n = k WHERE id = a; UPDATE t SET n = k WHERE id = b AND 1 / n = 1;",
        "UPDATE t SET n = k WHERE id = a; UPDATE t SET n = k WHERE id = b; IF k = 1 THEN RAISE EXCEPTION 'no'; END IF;",
        "UPDATE t SET n = k;",
    ] {
        assert_ne!(why_not(refused), "", "{refused}");
    }
}

/// An argument that is NULL may be refused by NOT NULL, at one shard alone: the call runs under locks.
#[test]
fn a_call_with_null_is_not_ordered() {
    let program = program(&accounts(), 3);
    let mut given = call(0, &[1, 2]);
    given.args.push(numeric(1));
    assert!(program.orders(&given));
    given.args[2] = Value::Null;
    assert!(!program.orders(&given));
}

/// S13: whoever writes what an ordered procedure reads or writes is of its family, in every choice of declared procedures.
#[test]
fn one_column_one_family() {
    const NAMES: [&str; 4] = ["PROCEDURE transfer", "FUNCTION total", "PROCEDURE open", "PROCEDURE own"];
    let mut ordered = 0;
    for choice in 0..1u32 << NAMES.len() {
        let declared = NAMES.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
        let declared = declared
            .map(|(_, name)| format!("ALTER {name} SET default_transaction_isolation = 'serializable';"));
        let application = application(&format!("{ACCOUNTS}{}", declared.collect::<String>()));
        let analysis = weir_analysis::analyze(&application);
        let program = Program::compile(&application, &analysis.plan, 3).unwrap();
        let mut touched = BTreeSet::new();
        let mut written = BTreeSet::new();
        for (procedure, effects) in program.procedures.iter().zip(&analysis.effects) {
            let mut writes = BTreeSet::new();
            for write in &effects.writes {
                writes.extend(write.updates().iter().map(|(column, _)| (write.table, Some(*column))));
                if write.is_insert() || write.is_delete() {
                    writes.insert((write.table, None));
                }
            }
            match procedure.in_order {
                true => {
                    touched.extend(writes);
                    for read in &effects.reads {
                        touched.insert((read.table, None));
                        touched.extend(read.columns.iter().map(|column| (read.table, Some(*column))));
                    }
                }
                false => written.extend(writes),
            }
        }
        assert!(touched.is_disjoint(&written), "choice {choice}: {touched:?} and {written:?}");
        ordered += usize::from(program.is_ordered);
    }
    assert!(ordered > 4, "{ordered} choices have ordered calls");
}
