//! Two calls that are starved at once at one shard, step by step (docs/internals/escrow.md, "Nobody starves"): the older one takes the
//! reservation over, and whoever waits for the younger one goes on.
//!
//! The state machines of the product exchange messages without loss, and the test says which of them arrive. In the random worlds somebody
//! else nearly always wakes those who wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::world::{self, World};

use weir_core::ids::{Sender, ShardId, TxnId};
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_core::termination::Timeouts;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Call, Callee, Reply, Request};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::{Coordinator, Event, Protocol};
use weir_txn::shard::Node;

const SHARDS: ShardId = 4;
const COORDINATOR: u64 = 7;
const NOW_MS: u64 = 1_000_000_000;

/// Number of calls that hold a row at which a sweep stops: one more than it may before a table is reserved for it.
const HOLDERS: i64 = 9;

/// Calls claim rows, for RETURNING tells of a counter with a bound, and the shard of the first statement decides. Shard 0 has all rows of
/// `hot` and `warm`. Sweeps write rows of two more shards, so they withdraw from older calls; a touch, of one more shard, waits for anybody.
const SCHEMA: &str = "
CREATE TABLE hot (id integer PRIMARY KEY, n integer NOT NULL, CHECK (n >= 0));
COMMENT ON TABLE hot IS 'weir: partition by (id)';
CREATE TABLE warm (id integer PRIMARY KEY, n integer NOT NULL, CHECK (n >= 0));
COMMENT ON TABLE warm IS 'weir: partition by (id)';
CREATE TABLE far (id integer PRIMARY KEY, n integer NOT NULL, CHECK (n >= 0));
COMMENT ON TABLE far IS 'weir: partition by (id)';
CREATE PROCEDURE touch_hot(h integer, f integer) LANGUAGE plpgsql AS $$ DECLARE seen integer; away integer; BEGIN
    UPDATE far SET n = n - 1 WHERE id = f RETURNING n INTO away;
    UPDATE hot SET n = n - 1 WHERE id = h RETURNING n INTO seen;
END $$;
CREATE PROCEDURE touch_warm(h integer, f integer) LANGUAGE plpgsql AS $$ DECLARE seen integer; away integer; BEGIN
    UPDATE far SET n = n - 1 WHERE id = f RETURNING n INTO away;
    UPDATE warm SET n = n - 1 WHERE id = h RETURNING n INTO seen;
END $$;
CREATE PROCEDURE sweep_warm(f integer, g integer) LANGUAGE plpgsql AS $$ DECLARE seen integer; away integer; BEGIN
    UPDATE far SET n = n - 1 WHERE id = f RETURNING n INTO away;
    UPDATE far SET n = n - 1 WHERE id = g;
WARM
END $$;
CREATE PROCEDURE sweep_both(f integer, g integer) LANGUAGE plpgsql AS $$ DECLARE seen integer; away integer; BEGIN
    UPDATE far SET n = n - 1 WHERE id = f RETURNING n INTO away;
    UPDATE far SET n = n - 1 WHERE id = g;
HOT
    UPDATE warm SET n = n - 1 WHERE id = 80 RETURNING n INTO seen;
END $$;
";

const TOUCH_HOT: usize = 0;
const TOUCH_WARM: usize = 1;
const SWEEP_WARM: usize = 2;
const SWEEP_BOTH: usize = 3;

const WORKLOAD: &str = "
[mix]
touch_hot = 1
[parameters.touch_hot]
h = \"uniform(1, 9)\"
f = \"uniform(1, 9)\"
";

/// Updates of the rows that holders have, one by one.
fn updates(table: &str) -> String {
    let update =
        |h: i64| format!("    UPDATE {table} SET n = n - 1 WHERE id = {} RETURNING n INTO seen;\n", 4 * h);
    (1..=HOLDERS).map(update).collect()
}

/// A call by its number.
type Number = u64;

struct Cluster {
    nodes: Vec<Node<PlantedBugs>>,
    coordinator: Coordinator,
    begun: Number,
    calls: BTreeMap<TxnId, Number>,
    /// Messages that have not arrived yet.
    requests: Vec<(Number, ShardId, Request)>,
    replies: Vec<Reply>,
    ended: Vec<Number>,
}

impl Cluster {
    fn new(bugs: PlantedBugs) -> Cluster {
        let schema = SCHEMA.replace("WARM", &updates("warm")).replace("HOT", &updates("hot"));
        let program = Arc::new(World::of(&schema, WORKLOAD).program(SHARDS));
        let node = |shard| Node::recover(shard, program.clone(), bugs, Timeouts::default(), []);
        let nodes = (0..SHARDS).map(node).collect();
        let coordinator = Coordinator::resending(COORDINATOR, program.clone(), Protocol::RampFast);
        let (calls, requests, replies, ended) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Cluster { nodes, coordinator, begun: 0, calls, requests, replies, ended };
        for (table, id) in ["hot", "warm", "far"].iter().flat_map(|table| (1..=80).map(move |id| (table, id)))
        {
            cluster.begin(world::statement(&format!("INSERT INTO {table} VALUES ($1, 1000)"), &[id]));
            cluster.deliver_all();
        }
        cluster
    }

    fn begin(&mut self, call: Call) -> Number {
        self.begun += 1;
        let mut orders = Orders::default();
        self.coordinator.begin(NOW_MS, self.begun, Begin::Call(call), &mut orders);
        self.take(self.begun, orders);
        self.begun
    }

    fn call(&mut self, procedure: usize, args: [i64; 2]) -> Number {
        self.begin(world::call(Callee::Procedure(procedure), &args))
    }

    /// Begins a call of which shard 0 has heard, and nobody else.
    fn prepare(&mut self, procedure: usize, args: [i64; 2]) -> Number {
        let number = self.call(procedure, args);
        self.arrive(number);
        number
    }

    fn take(&mut self, number: Number, orders: Orders<Request, Event>) {
        for (shard, request) in orders.sends {
            self.calls.insert(request.txn(), number);
            self.requests.push((number, shard, request));
        }
        for (number, event) in orders.done {
            assert!(matches!(event, Event::Answered(Ok(_))), "call {number}: {event:?}");
            self.ended.push(number);
        }
    }

    fn step(&mut self, (_, shard, request): (Number, ShardId, Request)) {
        let (node, mut effects) = (&mut self.nodes[usize::from(shard)], Effects::default());
        node.on_progress(NOW_MS, COORDINATOR, self.coordinator.progress(shard));
        node.step(NOW_MS, Sender::Coordinator(COORDINATOR), request, &mut effects);
        self.replies.extend(effects.replies.into_iter().map(|reply| reply.message));
    }

    fn reply(&mut self, reply: Reply) {
        let (number, mut orders) = (self.calls[&reply.txn()], Orders::default());
        self.coordinator.on_reply(NOW_MS, reply, &mut orders);
        self.take(number, orders);
    }

    /// The request of the call to shard 0 arrives there.
    fn arrive(&mut self, number: Number) {
        let is_it = |(of, shard, _): &(Number, ShardId, Request)| (*of, *shard) == (number, 0);
        let at = self.requests.iter().position(is_it).expect("it asks shard 0");
        let request = self.requests.remove(at);
        self.step(request);
    }

    /// Returns whether shard 0 has prepared the call, and nobody has heard of it yet.
    fn is_prepared(&self, number: Number) -> bool {
        let is_it =
            |reply: &Reply| matches!(reply, Reply::Prepared { .. }) && self.calls[&reply.txn()] == number;
        self.replies.iter().any(is_it)
    }

    /// All messages of the call arrive, and those that follow from them.
    fn finish(&mut self, number: Number) {
        loop {
            let reply = self.replies.iter().position(|reply| self.calls[&reply.txn()] == number);
            let request = self.requests.iter().position(|(of, ..)| *of == number);
            match (reply, request) {
                (Some(at), _) => {
                    let reply = self.replies.remove(at);
                    self.reply(reply);
                }
                (None, Some(at)) => {
                    let request = self.requests.remove(at);
                    self.step(request);
                }
                (None, None) => return,
            }
        }
    }

    fn deliver_all(&mut self) {
        while let Some(number) = self
            .requests
            .first()
            .map(|(number, ..)| *number)
            .or_else(|| Some(self.calls[&self.replies.first()?.txn()]))
        {
            self.finish(number);
        }
    }
}

/// Returns whether a younger call waits for one that has stopped often, although nobody holds the row that it needs.
fn gives_way(bugs: PlantedBugs) -> bool {
    let mut cluster = Cluster::new(bugs);
    let sweep = cluster.call(SWEEP_BOTH, [5, 6]);
    let holders: Vec<Number> =
        (1..=HOLDERS).map(|h| cluster.prepare(TOUCH_HOT, [4 * h, 4 * h + 3])).collect();
    let (_, but_the_last) = holders.split_last().expect("there are some");
    cluster.arrive(sweep);
    but_the_last.iter().for_each(|holder| cluster.finish(*holder));
    assert!(!cluster.is_prepared(sweep), "it waits");
    let younger = cluster.prepare(TOUCH_HOT, [80, 79]);
    !cluster.is_prepared(younger)
}

#[test]
fn younger_calls_give_way_to_one_that_has_stopped_often() {
    assert!(gives_way(PlantedBugs::default()));
}

#[test]
fn younger_calls_that_pass_are_caught() {
    assert!(!gives_way(PlantedBugs { starves: true, ..PlantedBugs::default() }));
}

/// Returns whether the call that waited for the younger starved one has ended.
fn waiter_goes_on(bugs: PlantedBugs) -> bool {
    let mut cluster = Cluster::new(bugs);
    let older = cluster.call(SWEEP_WARM, [1, 2]);
    let younger = cluster.call(SWEEP_BOTH, [5, 6]);
    let mut holders = |procedure| -> Vec<Number> {
        (1..=HOLDERS).map(|h| cluster.prepare(procedure, [4 * h, 4 * h + 3])).collect()
    };
    let (hot, warm) = (holders(TOUCH_HOT), holders(TOUCH_WARM));
    let (last_of_hot, hot) = hot.split_last().expect("there are some");
    let (last_of_warm, warm) = warm.split_last().expect("there are some");
    cluster.arrive(younger);
    hot.iter().for_each(|holder| cluster.finish(*holder));
    // The younger one is starved: `hot` is reserved for it, also of rows that nobody holds.
    let waiter = cluster.prepare(TOUCH_HOT, [80, 79]);
    assert!(!cluster.is_prepared(younger), "it waits");
    assert!(!cluster.is_prepared(waiter), "it waits");
    cluster.arrive(older);
    warm.iter().for_each(|holder| cluster.finish(*holder));
    // The older one takes the reservation over, of `warm`. So the younger one withdraws when it runs again.
    assert!(!cluster.is_prepared(older), "it waits");
    cluster.finish(*last_of_hot);
    assert!(!cluster.is_prepared(younger), "it gives way");
    cluster.finish(*last_of_warm);
    cluster.deliver_all();
    assert!(cluster.ended.contains(&older));
    cluster.ended.contains(&waiter)
}

#[test]
fn who_waits_for_a_starved_call_goes_on_when_an_older_one_takes_over() {
    assert!(waiter_goes_on(PlantedBugs::default()));
}

#[test]
fn waiters_that_are_left_behind_are_caught() {
    assert!(!waiter_goes_on(PlantedBugs { leaves_waiters: true, ..PlantedBugs::default() }));
}
