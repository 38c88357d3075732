//! A claim goes from its holder to the request that has waited for it, not to one that has come later (docs/internals/row-locks.md, "Who
//! gets a claim"), step by step.
//!
//! The state machines of the product exchange messages without loss. Of several workers the one that has begun last runs first, which is
//! the worst that threads may do to one who has waited.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::world::{self, World};

use weir_core::ids::Sender;
use weir_core::machine::{Coordinator as _, Effects, Orders, Pace, Shard as _, Work};
use weir_core::termination::Timeouts;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Reply, Request};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::{Coordinator, Event, Order, Protocol};
use weir_txn::shard::Node;
use weir_types::SqlError;
use weir_types::interrupt::Budget;

const SCHEMA: &str = "
CREATE TABLE parent (id integer PRIMARY KEY);
COMMENT ON TABLE parent IS 'weir: partition by (id)';
CREATE TABLE child (id integer PRIMARY KEY, parent integer NOT NULL REFERENCES parent);
COMMENT ON TABLE child IS 'weir: partition by (id)';
CREATE TABLE counter (id integer PRIMARY KEY, n integer NOT NULL);
COMMENT ON TABLE counter IS 'weir: partition by (id)';
CREATE PROCEDURE leave(p integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM parent WHERE id = p; END $$;
CREATE PROCEDURE adopt(c integer, p integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO child VALUES (c, p); END $$;
";
const WORKLOAD: &str = "
[mix]
leave = 1
[parameters.leave]
p = \"uniform(1, 9)\"
";

const HOLDS_PARENT: &str = "SELECT id FROM parent WHERE id = $1 FOR UPDATE";
const CHILD: &str = "INSERT INTO child SELECT $1, id FROM parent WHERE id = $2";
const CHILDREN_GO: &str = "DELETE FROM child WHERE parent = $1";
const PARENT_GOES: &str = "DELETE FROM parent WHERE id = $1";
const ADDS: &str = "UPDATE counter SET n = n + 1 WHERE id = $1";
const ADDS_TO_BOTH: &str = "UPDATE counter SET n = n + 1 WHERE id <= $1";
const HOLDS_COUNTER: &str = "SELECT n FROM counter WHERE id = $1 FOR UPDATE";

/// Within a step, and on a worker.
const SHORT: Budget = Budget(u32::MAX);
const LONG: Budget = Budget(0);

const FIRST_COORDINATOR: u64 = 7;
/// Longer than a transaction waits for one of another coordinator that may wait for it.
const DEADLOCK_MS: u64 = 1_100;
/// Number of times that others come before the request that waits; a request that stops within steps waits for eight of them.
const ROUNDS: u64 = 20;

/// A client by its number. Those with odd numbers have another coordinator than those with even ones.
type Client = u64;

fn coordinator_of(client: Client) -> usize {
    (client % 2) as usize
}

struct Unpaced;

impl Pace for Unpaced {
    fn wants_pause(&self) -> bool {
        false
    }

    fn pause(&self) {}
}

struct Cluster {
    node: Node<PlantedBugs>,
    coordinators: [Coordinator; 2],
    now_ms: u64,
    requests: VecDeque<(usize, Request)>,
    /// Workers that have not run, in the order of their beginnings.
    works: Vec<Work>,
    answers: BTreeMap<Client, Result<(), SqlError>>,
}

impl Cluster {
    /// Short statements fill the tables.
    fn new(bugs: PlantedBugs) -> Cluster {
        let program = Arc::new(World::of(SCHEMA, WORKLOAD).program(1));
        let coordinator = |id| Coordinator::resending(id, program.clone(), Protocol::RampFast);
        let mut cluster = Cluster {
            node: Node::recover(0, program.clone(), bugs, Timeouts::default(), []),
            coordinators: [FIRST_COORDINATOR, FIRST_COORDINATOR + 1].map(coordinator),
            now_ms: 1_000_000_000,
            requests: VecDeque::new(),
            works: Vec::new(),
            answers: BTreeMap::new(),
        };
        cluster.node.set_step_budget(SHORT);
        for sql in [
            "INSERT INTO parent VALUES ($1)",
            "INSERT INTO child VALUES ($1, 1)",
            "INSERT INTO counter VALUES ($1, 0)",
        ] {
            // Transactions of this coordinator are younger than those of the other one from then on.
            [1, 2].into_iter().for_each(|id| cluster.call(1, sql, id));
        }
        let filled = cluster.answers.remove(&1);
        assert!(matches!(filled, Some(Ok(()))), "{filled:?}");
        cluster
    }

    fn turn(&mut self, take: impl FnOnce(&mut Node<PlantedBugs>, u64, &mut Effects<Request, Reply>)) {
        let mut effects = Effects::default();
        self.node.begin_turn();
        take(&mut self.node, self.now_ms, &mut effects);
        self.works.extend(self.node.take_work());
        self.node.end_turn();
        for reply in effects.replies {
            let of = (reply.message.txn().coordinator - FIRST_COORDINATOR) as usize;
            let mut orders = Orders::default();
            self.coordinators[of].on_reply(self.now_ms, reply.message, &mut orders);
            self.take(of, orders);
        }
    }

    fn take(&mut self, of: usize, orders: Orders<Request, Event>) {
        self.requests.extend(orders.sends.into_iter().map(|(_, request)| (of, request)));
        for (client, event) in orders.done {
            let Event::Answered(result) = event else { panic!("nothing is read") };
            self.answers.insert(client, result.map(drop));
        }
    }

    /// Messages arrive until there are none. No worker runs.
    fn deliver(&mut self) {
        while let Some((of, request)) = self.requests.pop_front() {
            let id = FIRST_COORDINATOR + of as u64;
            let progress = self.coordinators[of].progress(0);
            self.turn(|node, now_ms, effects| {
                node.on_progress(now_ms, id, progress);
                node.step(now_ms, Sender::Coordinator(id), request, effects);
            });
        }
    }

    /// Workers run until there are none, those that have begun last first.
    fn settle(&mut self) {
        while let Some(work) = self.works.pop() {
            work(Arc::new(Unpaced));
            self.turn(|node, now_ms, effects| node.on_work_done(now_ms, effects));
            self.deliver();
        }
    }

    fn begin(&mut self, client: Client, begin: Begin) {
        let (of, mut orders) = (coordinator_of(client), Orders::default());
        self.answers.remove(&client);
        self.coordinators[of].begin(self.now_ms, client, begin, &mut orders);
        self.take(of, orders);
        self.deliver();
    }

    /// A statement by itself.
    fn call(&mut self, client: Client, sql: &'static str, arg: i64) {
        self.begin(client, Begin::Call(world::statement(sql, &[arg])));
    }

    /// A statement of the client's transaction.
    fn say(&mut self, client: Client, sql: &'static str, args: &[i64]) {
        self.begin(client, Begin::Within(client, Order::Call(world::statement(sql, args))));
    }

    fn end(&mut self, client: Client, order: Order) {
        self.begin(client, Begin::Within(client, order));
    }

    fn has_done(&self, client: Client) -> bool {
        matches!(self.answers.get(&client), Some(Ok(())))
    }

    /// Lets the coordinators look for those who have waited too long.
    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        for of in 0..self.coordinators.len() {
            let mut orders = Orders::default();
            self.coordinators[of].on_timer(self.now_ms, &mut orders);
            self.take(of, orders);
        }
        self.deliver();
    }

    fn is_idle(&self) -> bool {
        self.node.is_idle() && self.coordinators.iter().all(Coordinator::is_idle)
    }
}

/// The client that waits.
const WAITER: Client = 2;

/// Inserts that begin again as soon as they have failed.
struct Inserters {
    clients: Vec<Client>,
    /// The last child.
    last: i64,
}

impl Inserters {
    /// Those that have been told something roll back and insert again.
    fn go_on(&mut self, cluster: &mut Cluster) {
        for client in self.clients.clone() {
            if cluster.answers.contains_key(&client) {
                cluster.end(client, Order::RollBack);
                self.insert(cluster, client);
            }
        }
    }

    fn insert(&mut self, cluster: &mut Cluster, client: Client) {
        self.last += 1;
        cluster.say(client, CHILD, &[self.last, 1]);
    }
}

/// How a family ended: its children were deleted while others came; everybody has been answered, and nothing is left.
#[derive(Debug, PartialEq)]
struct Ended {
    children_went: bool,
    all_are_answered: bool,
}

/// A transaction holds a parent and deletes its children. Each INSERT of a child claims the table of children, and waits for the parent; the
/// DELETE waits for that table. The INSERTs are ended, since nobody sees the whole circle, and begin again.
fn family(bugs: PlantedBugs, inserters: u64) -> Ended {
    let mut cluster = Cluster::new(bugs);
    cluster.node.set_step_budget(LONG);
    cluster.say(WAITER, HOLDS_PARENT, &[1]);
    cluster.settle();
    assert!(cluster.has_done(WAITER));
    let clients = (0..inserters).map(|one| 2 * one + 101).collect();
    let mut inserters = Inserters { clients, last: 1_000 };
    let first = inserters.clients[0];
    inserters.insert(&mut cluster, first);
    cluster.settle();
    cluster.say(WAITER, CHILDREN_GO, &[1]);
    cluster.settle();
    for at in 1..inserters.clients.len() {
        let client = inserters.clients[at];
        inserters.insert(&mut cluster, client);
    }
    cluster.settle();
    assert!(!cluster.has_done(WAITER), "an INSERT holds the table");
    for _ in 0..ROUNDS {
        cluster.pass(DEADLOCK_MS);
        inserters.go_on(&mut cluster);
        cluster.settle();
        if cluster.has_done(WAITER) {
            break;
        }
    }
    let children_went = cluster.has_done(WAITER);
    if children_went {
        cluster.say(WAITER, PARENT_GOES, &[1]);
        cluster.settle();
        assert!(cluster.has_done(WAITER), "it has the parent");
        cluster.end(WAITER, Order::Commit);
        cluster.settle();
    }
    // Those that have been answered end, and others go on.
    let mut waiting = inserters.clients;
    while let Some(at) = waiting.iter().position(|client| cluster.answers.contains_key(client)) {
        cluster.end(waiting.remove(at), Order::RollBack);
        cluster.settle();
    }
    Ended { children_went, all_are_answered: waiting.is_empty() && cluster.is_idle() }
}

#[test]
fn a_delete_gets_the_table_for_which_it_has_waited() {
    for inserters in 1..5 {
        let ended = family(PlantedBugs::default(), inserters);
        assert_eq!(ended, Ended { children_went: true, all_are_answered: true }, "{inserters}");
    }
}

#[test]
fn a_delete_that_is_overtaken_is_caught() {
    let bugs = PlantedBugs { hands_nothing_over: true, ..PlantedBugs::default() };
    assert!(!family(bugs, 2).children_went);
}

#[test]
fn a_table_that_stays_handed_over_is_caught() {
    let bugs = PlantedBugs { keeps_handed_over: true, ..PlantedBugs::default() };
    let ended = family(bugs, 2);
    assert!(ended.children_went && !ended.all_are_answered, "{ended:?}");
}

/// Others hold one of two counters each, the next one before the one before it ends. So one of them is always held.
fn adds_to_both(bugs: PlantedBugs) -> bool {
    let mut cluster = Cluster::new(bugs);
    let holder = |round: u64| 2 * round + 101;
    cluster.say(holder(0), ADDS, &[1]);
    cluster.say(WAITER, ADDS_TO_BOTH, &[2]);
    for round in 1..ROUNDS {
        assert!(!cluster.has_done(WAITER), "a counter is held");
        cluster.say(holder(round), ADDS, &[1 + (round % 2) as i64]);
        cluster.end(holder(round - 1), Order::Commit);
        if cluster.has_done(WAITER) {
            cluster.end(WAITER, Order::Commit);
            assert!(cluster.has_done(holder(round)), "it has waited for both");
            cluster.end(holder(round), Order::Commit);
            assert!(cluster.is_idle());
            return true;
        }
    }
    false
}

#[test]
fn a_statement_that_has_stopped_often_keeps_what_it_has_waited_for() {
    assert!(adds_to_both(PlantedBugs::default()));
}

#[test]
fn a_statement_that_keeps_nothing_is_caught() {
    assert!(!adds_to_both(PlantedBugs { hands_nothing_over: true, ..PlantedBugs::default() }));
}

/// Transactions of short statements hold the counter, one after the other, beside a request that runs on a worker. Returns the round in which
/// it is answered.
fn waits_for_short_ones(bugs: PlantedBugs, begin: Begin) -> Option<u64> {
    let mut cluster = Cluster::new(bugs);
    let holder = |round: u64| 2 * round + 101;
    cluster.say(holder(0), ADDS, &[1]);
    cluster.node.set_step_budget(LONG);
    cluster.begin(WAITER, begin);
    cluster.settle();
    for round in 1..ROUNDS {
        assert!(!cluster.has_done(WAITER), "the counter is held");
        cluster.end(holder(round - 1), Order::Commit);
        cluster.node.set_step_budget(SHORT);
        cluster.say(holder(round), ADDS, &[1]);
        cluster.node.set_step_budget(LONG);
        cluster.settle();
        if cluster.has_done(WAITER) {
            return Some(round);
        }
    }
    None
}

#[test]
fn a_worker_begins_with_the_row_for_which_it_has_waited() {
    let statement = |sql| world::statement(sql, &[1]);
    let locks = || Begin::Within(WAITER, Order::Call(statement(HOLDS_COUNTER)));
    let call = || Begin::Call(statement(ADDS));
    for begin in [&locks as &dyn Fn() -> Begin, &call] {
        assert_eq!(waits_for_short_ones(PlantedBugs::default(), begin()), Some(1));
        let bugs = PlantedBugs { hands_nothing_over: true, ..PlantedBugs::default() };
        assert_eq!(waits_for_short_ones(bugs, begin()), None, "others come before it");
    }
}
