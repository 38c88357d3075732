//! The counted half of docs/price-list.md: round trips and messages of statements on a table with global unique keys, on four shards. The
//! state machines of the product exchange messages without loss, and one statement runs at a time.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_core::ids::Sender;
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_core::termination::Timeouts;
use weir_txn::exec::program::Program;
use weir_txn::faults::NoFaults;
use weir_txn::message::{Reply, Request};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::{Coordinator, Event, Protocol};
use weir_txn::shard::Node;
use weir_types::Value;

use crate::world::{self, World};

const SHARDS: u16 = 4;
const COORDINATOR: u64 = 7;
const NOW_MS: u64 = 1_000_000_000;

/// Statements that an average is taken of.
const STATEMENTS: u64 = 400;

/// Numbers of unique keys.
const KEYS: [usize; 3] = [0, 1, 3];

/// Is there, so that the table has a procedure that writes it, and the workload a call.
const WORKLOAD: &str = "[mix]\nput = 1\n[parameters.put]\ni = \"uniform(1, 9)\"\n";

/// A statement of the price list; `$1` counts the statements, `$2` to `$4` are values that no row has.
struct Line {
    name: &'static str,
    sql: &'static str,
    values: usize,
    /// It names a unique key.
    by_key: bool,
}

/// In this order: rows come first, and go last. Statements by key come before keys change.
const LINES: [Line; 7] = [
    Line {
        name: "INSERT of one row",
        sql: "INSERT INTO priced VALUES ($1, $2, $3, $4, 0)",
        values: 4,
        by_key: false,
    },
    Line {
        name: "SELECT by the primary key",
        sql: "SELECT * FROM priced WHERE id = $1",
        values: 1,
        by_key: false,
    },
    Line {
        name: "SELECT by a unique column",
        sql: "SELECT * FROM priced WHERE a = $1",
        values: 1,
        by_key: true,
    },
    Line {
        name: "UPDATE of another column",
        sql: "UPDATE priced SET n = n + 1 WHERE id = $1",
        values: 1,
        by_key: false,
    },
    Line {
        name: "UPDATE by a unique column",
        sql: "UPDATE priced SET n = n + 1 WHERE a = $1",
        values: 1,
        by_key: true,
    },
    Line {
        name: "UPDATE of a unique column",
        sql: "UPDATE priced SET a = $2 WHERE id = $1",
        values: 2,
        by_key: false,
    },
    Line {
        name: "DELETE by the primary key",
        sql: "DELETE FROM priced WHERE id = $1",
        values: 1,
        by_key: false,
    },
];

const EVERYTHING: Line = Line { name: "", sql: "SELECT * FROM priced", values: 0, by_key: false };

fn world(keys: usize) -> World {
    let unique: String =
        ["a", "b", "c"].iter().take(keys).map(|column| format!(", UNIQUE ({column})")).collect();
    World::of(
        &format!(
            "CREATE TABLE priced (id integer PRIMARY KEY, a integer, b integer, c integer, n integer{unique});
             COMMENT ON TABLE priced IS 'weir: partition by (id)';
             CREATE PROCEDURE put(i integer) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO priced VALUES (i, i, i, i, 0); END $$;"
        ),
        WORKLOAD,
    )
}

/// A value of the column in the row of that number: its shard is any of them, and no two are equal.
fn value(number: u64, column: u64) -> i64 {
    let mixed = (16 * number + column + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 34) as i64
}

/// Round trips before the answer, and requests before and behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    round_trips: u64,
    requests: u64,
}

struct Cluster {
    world: World,
    program: Arc<Program>,
    nodes: Vec<Node>,
    coordinator: Coordinator,
    tag: u64,
}

impl Cluster {
    fn new(keys: usize) -> Cluster {
        let world = world(keys);
        let program = Arc::new(world.program(SHARDS));
        let node = |shard| Node::recover(shard, program.clone(), NoFaults, Timeouts::default(), []);
        let nodes = (0..SHARDS).map(node).collect();
        let coordinator = Coordinator::resending(COORDINATOR, program.clone(), Protocol::RampFast);
        Cluster { world, program, nodes, coordinator, tag: 0 }
    }

    /// The statement with these values.
    fn begin(&self, line: &Line, values: &[i64]) -> Begin {
        if line.sql.starts_with("SELECT") {
            let gather = world::query(&self.world.application, &self.program, line.sql);
            return Begin::Read(gather, values.iter().map(|&value| Value::Int(value)).collect());
        }
        Begin::Call(world::statement(line.sql, values))
    }

    /// The statement finds, or writes, so many rows, and runs to its end: the requests that are under way arrive together, and so do their replies.
    fn run(&mut self, begin: Begin, rows: usize) -> Price {
        self.tag += 1;
        let (mut orders, mut price, mut is_answered) = (Orders::default(), Price::default(), false);
        self.coordinator.begin(NOW_MS, self.tag, begin, &mut orders);
        while !orders.sends.is_empty() {
            let sends = std::mem::take(&mut orders.sends);
            price.requests += sends.len() as u64;
            price.round_trips += u64::from(!is_answered);
            let replies: Vec<Reply> =
                sends.into_iter().flat_map(|(shard, request)| self.step(shard, request)).collect();
            for reply in replies {
                self.coordinator.on_reply(NOW_MS, reply, &mut orders);
            }
            for (tag, event) in std::mem::take(&mut orders.done) {
                assert_eq!(tag, self.tag);
                check(event, rows);
                is_answered = true;
            }
        }
        assert!(is_answered && self.coordinator.is_idle());
        price
    }

    fn step(&mut self, shard: u16, request: Request) -> Vec<Reply> {
        let (node, mut effects) = (&mut self.nodes[usize::from(shard)], Effects::default());
        node.on_progress(NOW_MS, COORDINATOR, self.coordinator.progress(shard));
        node.step(NOW_MS, Sender::Coordinator(COORDINATOR), request, &mut effects);
        effects.replies.into_iter().map(|reply| reply.message).collect()
    }

    /// The sum over all statements of that line.
    fn price(&mut self, line: &Line) -> Price {
        let mut sum = Price::default();
        for number in 0..STATEMENTS {
            let columns = 1..=line.values as u64 - 1;
            let values: Vec<i64> = match (line.by_key, line.values) {
                (true, _) => vec![value(number, 1)],
                (false, 2) => vec![number as i64, value(number, 9)],
                (false, _) => {
                    [number as i64].into_iter().chain(columns.map(|column| value(number, column))).collect()
                }
            };
            let Price { round_trips, requests } = self.run(self.begin(line, &values), 1);
            sum.round_trips += round_trips;
            sum.requests += requests;
        }
        sum
    }
}

fn check(event: Event, rows: usize) {
    match event {
        Event::Answered(Ok(output)) => assert_eq!(output.values, [Value::Int(rows as i64)]),
        Event::ReadDone { result: Ok(_), fetched, .. } => assert_eq!(fetched, rows),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_counted_prices_are_those_of_the_document() {
    let mut columns: Vec<Vec<Option<Price>>> = Vec::new();
    for keys in KEYS {
        let mut cluster = Cluster::new(keys);
        // The first read of all shards is told the coordinator's sessions.
        cluster.run(cluster.begin(&EVERYTHING, &[]), 0);
        columns
            .push(LINES.iter().map(|line| (keys > 0 || !line.by_key).then(|| cluster.price(line))).collect());
    }
    let mut table = String::from(
        "| statement | no unique key: round trips | requests | 1 key: round trips | requests | 3 keys: round trips | requests |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (at, line) in LINES.iter().enumerate() {
        let _ = write!(table, "| {} |", line.name);
        for column in &columns {
            let average = |count: u64| format!("{:.2}", count as f64 / STATEMENTS as f64);
            let _ = match column[at] {
                Some(price) => {
                    write!(table, " {} | {} |", average(price.round_trips), average(price.requests))
                }
                None => write!(table, " – | – |"),
            };
        }
        table.push('\n');
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let (golden, document) = (format!("{root}/testdata/price-list.md"), format!("{root}/docs/price-list.md"));
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    let text = std::fs::read_to_string(&document).unwrap_or_default();
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(&golden, &table).expect("the table is written");
        if !expected.is_empty() {
            std::fs::write(&document, text.replace(&expected, &table)).expect("the document is written");
        }
        return;
    }
    assert_eq!(table, expected);
    assert!(text.contains(&table), "docs/price-list.md has another table");
}
