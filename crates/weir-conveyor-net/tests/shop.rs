//! An application that writes down what it reads: the checks need nothing but its tables.
//!
//! Every version of a row has its writer, and the writer of the version before. Every operation notes which versions it has read and replaced.

use std::collections::{BTreeMap, BTreeSet};

use postgres::{Client, NoTls};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;
use weir_conveyor::schema::Sql;
use weir_conveyor_net::operation::Operation;

use crate::chance::Chance;

pub const STOCKS: u64 = 3;
pub const KEYS: u64 = 6;

pub const TABLES: &str = "
CREATE TABLE stock (id int PRIMARY KEY, value bigint NOT NULL, writer bigint NOT NULL, previous bigint NOT NULL);
INSERT INTO stock SELECT id, id + 1, 0, 0 FROM generate_series(0, 2) id;
CREATE TABLE cart (key int, line int, value bigint NOT NULL, writer bigint NOT NULL, previous bigint NOT NULL,
    PRIMARY KEY (key, line));
CREATE TABLE note (op bigint, step int, kind text NOT NULL, item text NOT NULL, seen bigint NOT NULL,
    PRIMARY KEY (op, step));
";

/// Statements with their steps, of one operation.
struct Notes {
    op: u64,
    statements: Vec<Sql>,
}

impl Notes {
    fn add(&mut self, text: &str, row: &[u64]) {
        let step = self.statements.len() as u64;
        let parameters = [self.op, step].iter().chain(row).map(|value| Some(value.to_string())).collect();
        self.statements.push(Sql { text: text.into(), parameters });
    }

    fn read_stock(&mut self, id: u64) {
        self.add(
            "INSERT INTO note SELECT $1::bigint, $2::int, 'r', 'stock ' || id, writer FROM stock WHERE id = $3::int",
            &[id],
        );
    }

    /// The new value depends on another row, too: a statement that is run again elsewhere gives another one.
    fn write_stock(&mut self, id: u64, other: u64) {
        self.add(
            "WITH o AS (SELECT value, writer FROM stock WHERE id = $4::int), \
             u AS (UPDATE stock s SET previous = s.writer, writer = $1::bigint, \
                 value = (s.value * 31 + o.value * 7 + $1::bigint) % 1000003 FROM o WHERE s.id = $3::int \
                 RETURNING s.id, s.previous), \
             r AS (INSERT INTO note SELECT $1::bigint, $2::int + 1000, 'r', 'stock ' || $4, writer FROM o) \
             INSERT INTO note SELECT $1::bigint, $2::int, 'w', 'stock ' || id, previous FROM u",
            &[id, other],
        );
    }

    fn read_cart(&mut self, key: u64, line: u64) {
        self.add(
            "INSERT INTO note SELECT $1::bigint, $2::int, 'r', 'cart ' || $3 || ' ' || $4, \
             coalesce((SELECT writer FROM cart WHERE key = $3::int AND line = $4::int), 0)",
            &[key, line],
        );
    }

    fn write_cart(&mut self, key: u64, line: u64) {
        self.add(
            "WITH u AS (INSERT INTO cart VALUES ($3::int, $4::int, $1::bigint, $1::bigint, 0) \
                 ON CONFLICT (key, line) DO UPDATE SET previous = cart.writer, writer = EXCLUDED.writer, \
                 value = (cart.value * 31 + EXCLUDED.value) % 1000003 RETURNING previous) \
             INSERT INTO note SELECT $1::bigint, $2::int, 'w', 'cart ' || $3 || ' ' || $4, previous FROM u",
            &[key, line],
        );
    }
}

/// An operation, and where it runs.
pub fn operation(op: u64, servers: u16, chance: &mut Chance) -> (Placement, Operation) {
    let key = chance.below(KEYS);
    let server = (key % u64::from(servers)) as ServerId;
    let mut notes = Notes { op, statements: Vec::new() };
    let is_global = chance.per_mille(400);
    for _ in 0..chance.between(1, 3) {
        let (stock, other, line) = (chance.below(STOCKS), chance.below(STOCKS), chance.below(2));
        match (chance.below(4), is_global) {
            (0 | 1, _) => notes.read_stock(stock),
            (2, _) => notes.read_cart(key, line),
            (_, true) => notes.write_stock(stock, other),
            (_, false) => notes.write_cart(key, line),
        }
    }
    if is_global {
        notes.write_stock(chance.below(STOCKS), chance.below(STOCKS));
    }
    let place = if is_global { Placement::Global(server) } else { Placement::Local(server) };
    (place, Operation { statements: notes.statements })
}

/// A global operation that any server may run: it touches stock only.
pub fn restock(op: u64) -> Operation {
    let mut notes = Notes { op, statements: Vec::new() };
    notes.write_stock(op % STOCKS, 0);
    Operation { statements: notes.statements }
}

/// A note: kind, item, version.
type Note = (String, String, u64);

/// Notes of every operation at a server.
fn notes(config: &str) -> BTreeMap<u64, Vec<Note>> {
    let mut client = Client::connect(config, NoTls).unwrap();
    let mut notes: BTreeMap<u64, Vec<Note>> = BTreeMap::new();
    for row in client.query("SELECT op, kind, item, seen FROM note ORDER BY op, step", &[]).unwrap() {
        let (op, seen): (i64, i64) = (row.get(0), row.get(3));
        notes.entry(op as u64).or_default().push((row.get(1), row.get(2), seen as u64));
    }
    notes
}

/// Rows of a table, as texts in order.
fn rows(config: &str, table: &str) -> Vec<String> {
    let mut client = Client::connect(config, NoTls).unwrap();
    let rows = client.query(&format!("SELECT t::text FROM {table} t ORDER BY 1"), &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Checks that the history of all servers is serializable, and that all have the same stock. Returns how many operations have committed.
///
/// # Panics
/// It is not.
pub fn check(configs: &[String], global: &BTreeSet<u64>, answered: &BTreeSet<u64>) -> usize {
    let mut all: BTreeMap<u64, Vec<Note>> = BTreeMap::new();
    let by_server: Vec<_> = configs.iter().map(|config| notes(config)).collect();
    for (op, notes) in by_server.iter().flatten() {
        let known = all.entry(*op).or_insert_with(|| notes.clone());
        assert_eq!(known, notes, "operation {op} is not the same everywhere");
    }
    for (op, _) in all.iter().filter(|(op, _)| global.contains(op)) {
        let count = by_server.iter().filter(|notes| notes.contains_key(op)).count();
        assert_eq!(count, configs.len(), "operation {op} is lost at some server");
    }
    let lost: Vec<_> = answered.iter().filter(|op| !all.contains_key(op)).collect();
    assert!(lost.is_empty(), "answered, and gone: {lost:?}");
    let states: BTreeSet<_> = configs.iter().map(|config| rows(config, "stock")).collect();
    assert_eq!(states.len(), 1, "servers differ: {states:?}");
    // For whoever reads why it failed: where operations have run, and carts are.
    for (config, notes) in configs.iter().zip(&by_server) {
        println!("operations {:?}", notes.keys());
        println!("carts {:?}\nmap {:?}", rows(config, "cart"), rows(config, "weir_conveyor.map"));
    }
    assert_acyclic(&all);
    all.len()
}

#[test]
#[should_panic = "not serializable"]
fn a_cycle_is_found() {
    let note = |kind: &str, item: &str, seen| (kind.to_owned(), item.to_owned(), seen);
    let skewed = [
        (1, vec![note("r", "stock 0", 0), note("w", "stock 1", 0)]),
        (2, vec![note("r", "stock 1", 0), note("w", "stock 0", 0)]),
    ];
    assert_acyclic(&BTreeMap::from(skewed));
}

#[test]
#[should_panic = "both replace"]
fn a_lost_update_is_found() {
    let write = |_| vec![("w".to_owned(), "stock 0".to_owned(), 0)];
    assert_acyclic(&BTreeMap::from([1, 2].map(|op| (op, write(op)))));
}

/// The multi-version serialization graph has no cycle.
fn assert_acyclic(all: &BTreeMap<u64, Vec<Note>>) {
    // By item and version: the version that comes next. An operation may write a row more than once.
    let mut next: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for (op, notes) in all {
        for (_, item, seen) in notes.iter().filter(|(kind, _, seen)| kind == "w" && seen != op) {
            let lost = next.insert((item, *seen), *op);
            assert!(lost.is_none(), "{op} and {lost:?} both replace {item} of {seen}");
        }
    }
    let mut graph: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (op, notes) in all {
        for (_, item, seen) in notes.iter().filter(|(_, _, seen)| seen != op) {
            if *seen != 0 {
                graph.entry(*seen).or_default().insert(*op);
            }
            if let Some(after) = next.get(&(item.as_str(), *seen)).filter(|after| *after != op) {
                graph.entry(*op).or_default().insert(*after);
            }
        }
    }
    let mut before: BTreeMap<u64, usize> = all.keys().map(|op| (*op, 0)).collect();
    for to in graph.values().flatten() {
        *before.get_mut(to).expect("a version is of an operation that has committed") += 1;
    }
    let mut free: Vec<u64> = before.iter().filter(|(_, count)| **count == 0).map(|(op, _)| *op).collect();
    while let Some(op) = free.pop() {
        before.remove(&op);
        for to in graph.get(&op).into_iter().flatten() {
            let count = before.get_mut(to).expect("it is not placed before");
            *count -= 1;
            if *count == 0 {
                free.push(*to);
            }
        }
    }
    let edges: Vec<_> = before.keys().map(|op| (op, graph.get(op), &all[op])).take(20).collect();
    assert!(before.is_empty(), "not serializable: {edges:?}");
}
