//! Ordered calls (docs/internals/ordered-calls.md): which procedures run so, and what a call costs.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::{Sender, ShardId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::Application;
use weir_txn::exec::independent::Agreement;
use weir_txn::exec::program::Program;
use weir_txn::faults::{Faults, NoFaults, PlantedBugs};
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
CREATE TABLE purse (id integer PRIMARY KEY, coins integer NOT NULL CHECK (coins >= 0));
CREATE PROCEDURE pay(a integer, b integer, n integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE purse SET coins = coins - n WHERE id = a;
    UPDATE purse SET coins = coins + n WHERE id = b;
END $$;
CREATE PROCEDURE fill(a integer, n integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO purse VALUES (a, n); END $$;
CREATE PROCEDURE sweep(a integer, b integer, n integer, OUT moved integer) LANGUAGE plpgsql AS $$
BEGIN
    SELECT coins - n INTO STRICT moved FROM purse WHERE id = a;
    UPDATE purse SET coins = n WHERE id = a;
    UPDATE purse SET coins = coins + moved WHERE id = b;
END $$;
";

const DECLARED: &str = "
ALTER PROCEDURE transfer SET default_transaction_isolation = 'serializable';
ALTER FUNCTION total SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE pay SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE sweep SET default_transaction_isolation = 'serializable';
";

fn accounts() -> Application {
    application(&format!("{ACCOUNTS}{DECLARED}"))
}

/// Shards and a coordinator whose messages arrive at once, each in a round of its own.
struct Stage<F: Faults = NoFaults> {
    program: std::sync::Arc<Program>,
    shards: Vec<Node<F>>,
    bugs: F,
    coordinator: Coordinator,
    now_ms: u64,
    orders: Orders<Request, Event>,
    /// Messages between shards.
    between: Vec<(ShardId, ShardId, Request)>,
    answers: BTreeMap<u64, Result<Output, SqlError>>,
    /// Messages from the coordinator, from one shard to another, and to the coordinator.
    counted: [usize; 3],
    /// Votes that are lost.
    votes_to_lose: usize,
    /// Messages of sequencers to other shards that wait for no record, of those that there were.
    stamps: [usize; 2],
    /// Votes that wait for no record, of those that there were.
    votes: [usize; 2],
}

impl Stage {
    fn new(shards: ShardId) -> Stage {
        Stage::with_bugs(shards, NoFaults)
    }
}

impl<F: Faults> Stage<F> {
    fn with_bugs(shards: ShardId, bugs: F) -> Stage<F> {
        let program = program(&accounts(), shards);
        assert!(program.is_ordered);
        let start = |id| Node::recover(id, program.clone(), bugs, Timeouts::default(), []);
        let mut stage = Stage {
            shards: (0..shards).map(start).collect(),
            bugs,
            coordinator: Coordinator::resending(COORDINATOR, program.clone(), Protocol::RampFast),
            program,
            now_ms: 1_000_000_000,
            orders: Orders::default(),
            between: Vec::new(),
            answers: BTreeMap::new(),
            counted: [0; 3],
            votes_to_lose: 0,
            stamps: [0; 2],
            votes: [0; 2],
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
        for one in &effects.peers {
            let is_stamp = format!("{:?}", one.message).contains("from: Sequencer");
            self.stamps[0] += usize::from(is_stamp && one.after == Lsn::START);
            self.stamps[1] += usize::from(is_stamp);
            let is_vote = is_vote(&one.message);
            self.votes[0] += usize::from(is_vote && one.after == Lsn::START);
            self.votes[1] += usize::from(is_vote);
        }
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
                if self.votes_to_lose > 0 && is_vote(&request) {
                    self.votes_to_lose -= 1;
                    continue;
                }
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

    /// Starts all shards again from their logs.
    fn restart(&mut self) {
        use weir_core::machine::Durable as _;
        let (program, bugs) = (self.program.clone(), self.bugs);
        let logs: Vec<_> = self.shards.iter_mut().map(|shard| shard.take_records()).collect();
        let start = |(id, log)| Node::recover(id as ShardId, program.clone(), bugs, Timeouts::default(), log);
        self.shards = logs.into_iter().enumerate().map(start).collect();
    }

    /// Pays between purses on two shards, which have that much.
    fn with_purses(coins: i64, bugs: F) -> (Stage<F>, [i64; 2]) {
        let mut stage = Stage::with_bugs(2, bugs);
        let [a, b] = stage.two();
        stage.begin(1, Begin::Call(call(5, &[a, coins])));
        stage.begin(2, Begin::Call(call(5, &[b, coins])));
        stage.counted = [0; 3];
        (stage, [a, b])
    }

    fn pays(&mut self, tag: u64, a: i64, b: i64, n: i64) {
        self.begin(tag, Begin::Call(call(4, &[a, b, n])));
    }

    /// Moves all coins but `n` from one purse to the other one, whose shard has to hear how many there were.
    fn sweeps(&mut self, tag: u64, a: i64, b: i64, n: i64) {
        self.begin(tag, Begin::Call(call(6, &[a, b, n])));
    }

    fn state_of(&self, tag: u64) -> Option<String> {
        let answer = self.answers.get(&tag)?;
        Some(answer.as_ref().err().map_or("00000".to_owned(), |error| error.state().to_string()))
    }

    /// Accounts on two shards, the second of which is not the home of the sequencer.
    fn two(&self) -> [i64; 2] {
        let of = |account: i64| self.program.participants(&call(2, &[account, 0])).unwrap()[0];
        let on = |shard| (1..).find(|account| of(*account) == shard).unwrap();
        [on(0), on(1)]
    }
}

/// Moves coins between two purses.
type Moves = fn(&mut Stage, u64, i64, i64, i64);
const PAYS: Moves = Stage::pays;
const SWEEPS: Moves = Stage::sweeps;

fn is_vote(request: &Request) -> bool {
    let text = format!("{request:?}");
    text.contains("(Vote { txn") || text.contains("(VoteWithAnswers { txn")
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

/// A sequencer stamps nothing in an epoch whose beginning is not durable: a crash would let another epoch of the same number begin.
#[test]
fn stamps_wait_for_the_record_of_their_epoch() {
    let mut stage = Stage::new(2);
    let [a, b] = stage.two();
    stage.begin(1, open(a, 10));
    stage.begin(2, open(b, 10));
    stage.begin(3, transfer(a, b, 3));
    assert!(stage.stamps[1] > 2 && stage.stamps[0] == 0, "{:?}", stage.stamps);
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
    stage.restart();
    (0..20).for_each(|_| stage.tick());
    stage.begin(4, transfer(a, b, 2));
    (0..10).for_each(|_| stage.tick());
    assert!(stage.answers[&4].is_ok(), "{:?}", stage.answers);
    stage.begin(5, Begin::Call(call(1, &[b, b])));
    assert_eq!(stage.answers[&5].as_ref().unwrap().values, [numeric(30)]);
}

/// Each participant tells the other its vote, and answers.
#[test]
fn votes_are_a_message_to_each_other_participant() {
    let (mut stage, [a, b]) = Stage::with_purses(5, NoFaults);
    stage.pays(3, a, b, 3);
    assert_eq!((stage.state_of(3).as_deref(), stage.counted), (Some("00000"), [1, 3, 2]));
}

/// A vote is told when its record is durable: what a crash takes back may be voted otherwise. With the planted bug it is told at once.
#[test]
fn votes_wait_for_their_record() {
    fn told_early<F: Faults>(bugs: F) -> usize {
        let (mut stage, [a, b]) = Stage::with_purses(5, bugs);
        stage.pays(3, a, b, 3);
        stage.sweeps(4, a, b, 1);
        assert_eq!(stage.votes[1], 4);
        stage.votes[0]
    }
    assert_eq!(told_early(NoFaults), 0);
    assert_eq!(told_early(PlantedBugs { votes_before_record: true, ..PlantedBugs::default() }), 4);
}

/// The vote of the first one has what the last one needs, and the vote of that one is the decision.
#[test]
fn a_participant_that_needs_answers_decides() {
    let (mut stage, [a, b]) = Stage::with_purses(5, NoFaults);
    let program = stage.program.clone();
    assert_eq!(program.procedures[6].independent, Ok(Agreement::Last));
    stage.sweeps(3, a, b, 2);
    assert_eq!(stage.counted, [1, 3, 2]);
    assert_eq!(stage.answers[&3].as_ref().unwrap().values, [Value::Int(3)]);
    stage.sweeps(4, b, a, 0);
    assert_eq!(stage.answers[&4].as_ref().unwrap().values, [Value::Int(8)]);
}

/// Either one may refuse: the one that decides, which then hears or knows why, and the one that it hears from.
#[test]
fn a_call_that_a_deciding_participant_refuses_changes_nothing() {
    let (mut stage, [a, b]) = Stage::with_purses(5, NoFaults);
    stage.sweeps(3, a, b, -1);
    stage.sweeps(4, a, b, 11);
    stage.sweeps(5, 1_000_000, b, 0);
    stage.sweeps(6, a, b, 10);
    let states = [3, 4, 5, 6].map(|tag| stage.state_of(tag));
    let states = states.each_ref().map(|state| state.as_deref());
    assert_eq!(states, [Some("23514"), Some("23514"), Some("P0002"), Some("00000")]);
    stage.pays(7, a, b, 11);
    stage.pays(8, a, b, 10);
    assert_eq!((stage.state_of(7).as_deref(), stage.state_of(8).as_deref()), (Some("23514"), Some("00000")));
}

/// One shard refuses its part, so the other one does nothing, whichever it is.
#[test]
fn a_call_that_one_shard_refuses_changes_nothing() {
    let (mut stage, [a, b]) = Stage::with_purses(5, NoFaults);
    stage.pays(3, a, b, 6);
    stage.pays(4, b, a, 6);
    stage.pays(5, a, b, 5);
    stage.pays(6, b, a, 11);
    stage.pays(7, b, a, 10);
    let states = [3, 4, 5, 6, 7].map(|tag| stage.state_of(tag));
    let states = states.each_ref().map(|state| state.as_deref());
    assert_eq!(states, [Some("23514"), Some("23514"), Some("00000"), Some("23514"), Some("00000")]);
}

#[test]
fn lost_votes_are_asked_for_and_nothing_passes_an_undecided_call() {
    for loses in [1, 2] {
        for [first, second] in [[PAYS, PAYS], [SWEEPS, SWEEPS], [SWEEPS, PAYS]] {
            let (mut stage, [a, b]) = Stage::with_purses(5, NoFaults);
            stage.votes_to_lose = loses;
            first(&mut stage, 3, a, b, 5);
            second(&mut stage, 4, b, a, 5);
            assert_eq!((stage.state_of(3), stage.state_of(4)), (None, None));
            (0..5).for_each(|_| stage.tick());
            for tag in [3, 4] {
                assert_eq!(stage.state_of(tag).as_deref(), Some("00000"), "{tag}");
            }
        }
    }
}

/// The shards start again between their votes and the decision, once as they are and once from snapshots.
#[test]
fn a_vote_outlives_its_shard() {
    use weir_core::machine::Durable as _;
    let votes = [(PAYS, 1), (PAYS, 2), (SWEEPS, 1)];
    let cases = votes.into_iter().flat_map(|of| [(of, false), (of, true)]);
    for ((call, loses), from_snapshots) in cases {
        let (mut stage, [a, b]) = Stage::with_purses(5, NoFaults);
        stage.votes_to_lose = loses;
        call(&mut stage, 3, a, b, 5);
        if from_snapshots {
            let program = stage.program.clone();
            let start = |(id, shard): (usize, &mut Node)| {
                let log = [shard.snapshot()];
                Node::recover(id as ShardId, program.clone(), NoFaults, Timeouts::default(), log)
            };
            stage.shards = stage.shards.iter_mut().enumerate().map(start).collect();
        } else {
            stage.restart();
        }
        (0..20).for_each(|_| stage.tick());
        assert_eq!(stage.state_of(3).as_deref(), Some("00000"), "{from_snapshots}");
        stage.pays(4, b, a, 5);
        (0..10).for_each(|_| stage.tick());
        assert_eq!(stage.state_of(4).as_deref(), Some("00000"), "{from_snapshots}");
    }
}

/// How calls over several shards are independent transactions: `may not fail`, `votes`, `last decides`, or why they are none.
fn how(body: &str) -> String {
    let sql = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer, v varchar(3), s text NOT NULL, u integer UNIQUE);
         CREATE TABLE r (id integer PRIMARY KEY, s text NOT NULL);
         CREATE TABLE c (id integer PRIMARY KEY, n integer);
         COMMENT ON TABLE c IS 'weir: replicated';
         CREATE PROCEDURE p(a integer, b integer, k integer, w text) LANGUAGE plpgsql AS $$
         DECLARE x integer; BEGIN {body} END $$;
         ALTER PROCEDURE p SET default_transaction_isolation = 'serializable';"
    );
    let program = program(&application(&sql), 3);
    match &program.procedures[0].independent {
        Ok(Agreement::None) => "may not fail".to_owned(),
        Ok(Agreement::Votes) => "votes".to_owned(),
        Ok(Agreement::Last) => "last decides".to_owned(),
        Err(why) => why.clone(),
    }
}

/// S2: an error that one shard alone would see is voted on.
#[test]
fn participants_vote_where_one_alone_may_fail() {
    let both =
        |update: &str| format!("UPDATE t SET {update} WHERE id = a; UPDATE t SET {update} WHERE id = b;");
    for update in ["n = k", "s = w, n = k"] {
        assert_eq!(how(&both(update)), "may not fail", "{update}");
    }
    for update in ["n = n + k", "n = n / k", "v = w", "n = w::integer"] {
        assert_eq!(how(&both(update)), "votes", "{update}");
    }
    for body in [
        "INSERT INTO r VALUES (a, w); INSERT INTO r VALUES (b, w);",
        "DELETE FROM r WHERE id = a; DELETE FROM r WHERE id = b;",
        "SELECT n INTO STRICT x FROM t WHERE id = a; UPDATE t SET n = k WHERE id = b;",
        "UPDATE t SET n = k WHERE id = a; UPDATE t SET n = k WHERE id = b AND 1 / n = 1;",
        "UPDATE t SET n = k WHERE id = a; UPDATE t SET n = k WHERE id = b; IF k = 1 THEN RAISE EXCEPTION 'no'; END IF;",
        "SELECT n INTO x FROM c WHERE id = k; UPDATE t SET n = n + x WHERE id = a; UPDATE t SET n = n - x WHERE id = b;",
        "FOR i IN 1..k LOOP UPDATE t SET n = n + i WHERE id = a; UPDATE t SET n = n + 1 WHERE id = b; END LOOP;",
    ] {
        assert_eq!(how(body), "votes", "{body}");
    }
}

/// The shard of the statement that needs another one's result decides, if no two need each other's.
#[test]
fn the_last_participant_decides_if_it_needs_what_others_find() {
    for body in [
        "SELECT n INTO x FROM t WHERE id = a; UPDATE t SET n = x WHERE id = b;",
        "UPDATE t SET n = n + 1 WHERE id = a RETURNING n INTO x; INSERT INTO r VALUES (b, x::text);",
        "SELECT n INTO x FROM t WHERE id = a; UPDATE t SET n = x + k WHERE id = b; IF x > 5 THEN RAISE EXCEPTION 'no'; END IF;",
    ] {
        assert_eq!(how(body), "last decides", "{body}");
    }
    let both = "SELECT n INTO x FROM t WHERE id = a; UPDATE t SET n = x WHERE id = b RETURNING n INTO x; UPDATE t SET n = x WHERE id = a;";
    assert!(how(both).contains("need each other's data"), "{}", how(both));
}

/// What a participant cannot find out by itself, and what it would derive for others, runs under locks.
#[test]
fn a_part_that_needs_another_shard_is_no_independent_transaction() {
    let both =
        |update: &str| format!("UPDATE t SET {update} WHERE id = a; UPDATE t SET {update} WHERE id = b;");
    let mut all: Vec<String> =
        ["u = k", "id = k", "n = (10 * random())::integer"].into_iter().map(both).collect();
    all.extend(
        [
            "INSERT INTO t (id, s) VALUES (a, w); INSERT INTO t (id, s) VALUES (b, w);",
            "SELECT n INTO x FROM t WHERE id = a FOR UPDATE; UPDATE t SET n = k / 2 WHERE id = b;",
            "UPDATE t SET n = k / 2 WHERE id = a; UPDATE t SET n = k WHERE id = b; RAISE NOTICE 'done';",
            "UPDATE t SET n = k / 2;",
            "UPDATE c SET n = k WHERE id = 1; UPDATE t SET n = k / 2 WHERE id = a;",
        ]
        .map(str::to_owned),
    );
    for body in all {
        assert!(!["votes", "may not fail"].contains(&how(&body).as_str()), "{body}");
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
