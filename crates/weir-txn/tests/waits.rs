//! Calls and statements by themselves that wait for a row which an open transaction holds, in virtual time: as long as it takes, and
//! without effect once nobody waits for them any more (docs/internals/row-locks.md).

use weir_core::ids::{Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_core::termination::Timeouts;
use weir_txn::faults::NoFaults;
use weir_txn::message::Request;
use weir_txn::ramp::client::Order;
use weir_txn::ramp::{Begin, Coordinator, Event, Protocol};
use weir_txn::shard::Node;
use weir_types::{SqlError, SqlState};

use crate::calls::{self, call};

const COORDINATOR: u64 = 7;
const BEGIN_MS: u64 = 1_000_000_000;
/// As long as a call rests at most before it comes back.
const TICK_MS: u64 = 64;
/// Number of ticks between two that shards receive.
const SHARD_TICKS: u64 = 16;
const MINUTE_MS: u64 = 60_000;
/// The tag of the call that waits.
const WAITER: u64 = 1_000;
const HOLDER: u64 = 1;

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a, 0); END $$;
CREATE PROCEDURE touch(a integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE account SET balance = balance + 1 WHERE id = a; END $$;
CREATE PROCEDURE pair(a integer, b integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance + 1 WHERE id = a;
    UPDATE account SET balance = balance + 1 WHERE id = b;
END $$;
";

/// Shards and a coordinator whose messages arrive at once.
struct Stage {
    shards: Vec<Node>,
    coordinator: Coordinator,
    now_ms: u64,
    /// Two accounts, on different shards where there are several; who decides has the second.
    accounts: [i64; 2],
    orders: Orders<Request, Event>,
    /// Results by tag.
    answers: Vec<(u64, Result<(), SqlError>)>,
}

impl Stage {
    fn new(shards: ShardId) -> Stage {
        let program = calls::program(&calls::application(ACCOUNTS), shards);
        let start = |id| Node::recover(id, program.clone(), NoFaults, Timeouts::default(), []);
        let of = |account: i64| program.participants(&call(1, &[account])).unwrap();
        let decides =
            |accounts: [i64; 2]| *program.participants(&call(2, &accounts)).unwrap().last().unwrap();
        let other = (2..).find(|other| shards == 1 || of(*other) != of(1)).unwrap();
        let accounts = [[1, other], [other, 1]].into_iter().find(|both| of(both[1]) == [decides([1, other])]);
        let mut stage = Stage {
            shards: (0..shards).map(start).collect(),
            coordinator: Coordinator::resending(COORDINATOR, program.clone(), Protocol::RampFast),
            now_ms: BEGIN_MS,
            accounts: accounts.unwrap(),
            orders: Orders::default(),
            answers: Vec::new(),
        };
        for account in stage.accounts {
            stage.begin(0, Begin::Call(call(0, &[account])));
        }
        stage.answers.clear();
        stage
    }

    fn begin(&mut self, tag: u64, begin: Begin) {
        self.coordinator.begin(self.now_ms, tag, begin, &mut self.orders);
        self.carry(|_| false);
    }

    /// Carries messages until there are none, or one of them is to wait.
    fn carry(&mut self, stop: impl Fn(&Request) -> bool) {
        while let Some(at) = (!self.orders.sends.is_empty()).then_some(0) {
            if stop(&self.orders.sends[at].1) {
                return;
            }
            let (to, request) = self.orders.sends.remove(at);
            let mut effects = Effects::default();
            let (progress, shard) = (self.coordinator.progress(to), &mut self.shards[usize::from(to)]);
            shard.on_progress(self.now_ms, COORDINATOR, progress);
            shard.step(self.now_ms, Sender::Coordinator(COORDINATOR), request, &mut effects);
            self.hear(effects);
        }
        for (tag, event) in self.orders.done.drain(..) {
            let Event::Answered(result) = event else { panic!("nothing is read") };
            self.answers.push((tag, result.map(drop)));
        }
    }

    fn hear(&mut self, effects: Effects<Request, weir_txn::message::Reply>) {
        for Outgoing { message: reply, .. } in effects.replies {
            self.coordinator.on_reply(self.now_ms, reply, &mut self.orders);
        }
    }

    /// Lets so much time pass.
    fn pass(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        while self.now_ms < until_ms {
            self.now_ms += TICK_MS;
            self.coordinator.on_timer(self.now_ms, &mut self.orders);
            self.carry(|_| false);
            let is_told = ((self.now_ms - BEGIN_MS) / TICK_MS).is_multiple_of(SHARD_TICKS);
            for shard in (0..self.shards.len()).filter(|_| is_told) {
                let progress = self.coordinator.progress(shard as ShardId);
                let mut effects = Effects::default();
                self.shards[shard].on_progress(self.now_ms, COORDINATOR, progress);
                self.shards[shard].on_timer(self.now_ms, &mut effects);
                self.hear(effects);
            }
            self.carry(|_| false);
        }
    }

    /// An open transaction holds the account from here on.
    fn hold(&mut self, account: i64) {
        self.begin(HOLDER, Begin::Within(HOLDER, Order::Call(call(1, &[account]))));
        assert!(matches!(self.answers.pop(), Some((HOLDER, Ok(())))));
    }

    fn let_go(&mut self) {
        self.begin(HOLDER, Begin::Within(HOLDER, Order::Commit));
        assert!(self.answers.iter().any(|(tag, result)| *tag == HOLDER && result.is_ok()));
        self.pass(MINUTE_MS);
        self.pass(SHARD_TICKS * TICK_MS);
    }

    fn answer(&mut self) -> Option<Result<(), SqlError>> {
        let at = self.answers.iter().position(|(tag, _)| *tag == WAITER)?;
        Some(self.answers.swap_remove(at).1)
    }

    /// Checks that nothing is in flight or prepared, and that the waiting transaction has committed exactly if `happens`.
    fn check_what_is_left(&mut self, account: i64, happens: bool) {
        assert!(self.coordinator.is_idle() && self.shards.iter().all(Node::is_idle));
        let commits: u64 =
            self.shards.iter().map(|shard| weir_core::machine::Exposed::figures(shard).done.commits).sum();
        // Two accounts that were opened, and the holder.
        let own = if happens { if self.shards.len() > 1 { 2 } else { 1 } } else { 0 };
        assert_eq!(commits, 3 + own, "of account {account}");
    }
}

fn canceled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

/// On one shard and on three, for a row of who decides and of who does not.
fn each(mut check: impl FnMut(Stage, i64)) {
    for shards in [1, 3] {
        for which in [0, 1] {
            let mut stage = Stage::new(shards);
            let account = stage.accounts[which];
            stage.hold(account);
            let both = stage.accounts;
            stage.begin(WAITER, Begin::Call(call(2, &both)));
            assert!(stage.answer().is_none(), "it waits");
            check(stage, account);
        }
    }
}

#[test]
fn who_waits_for_a_row_waits_for_as_long_as_it_takes() {
    each(|mut stage, account| {
        // It comes back more often than who comes back at once may.
        stage.pass(12 * MINUTE_MS);
        assert!(stage.answer().is_none(), "it waits");
        stage.let_go();
        assert_eq!(stage.answer(), Some(Ok(())));
        stage.check_what_is_left(account, true);
    });
}

#[test]
fn who_is_cancelled_stops_waiting_and_has_done_nothing() {
    each(|mut stage, account| {
        stage.pass(MINUTE_MS);
        stage.coordinator.cancel(stage.now_ms, WAITER, canceled(), &mut stage.orders);
        stage.pass(10 * TICK_MS);
        assert!(matches!(stage.answer(), Some(Err(error)) if error.state() == SqlState::QUERY_CANCELED));
        stage.let_go();
        stage.check_what_is_left(account, false);
    });
}

#[test]
fn what_nobody_waits_for_any_more_never_happens() {
    each(|mut stage, account| {
        stage.pass(MINUTE_MS);
        stage.coordinator.give_up(stage.now_ms, WAITER, &mut stage.orders);
        stage.pass(10 * TICK_MS);
        stage.let_go();
        stage.check_what_is_left(account, false);
    });
}

/// The wish comes when all others have prepared, and who decides cannot have the row yet.
#[test]
fn a_cancel_is_not_forgotten_while_somebody_decides() {
    let mut stage = Stage::new(3);
    let (both, account) = (stage.accounts, stage.accounts[1]);
    stage.hold(account);
    stage.coordinator.begin(stage.now_ms, WAITER, Begin::Call(call(2, &both)), &mut stage.orders);
    stage.carry(|request| matches!(request, Request::Decide { .. }));
    stage.coordinator.cancel(stage.now_ms, WAITER, canceled(), &mut stage.orders);
    stage.pass(10 * TICK_MS);
    assert!(matches!(stage.answer(), Some(Err(error)) if error.state() == SqlState::QUERY_CANCELED));
    stage.let_go();
    stage.check_what_is_left(account, false);
}
