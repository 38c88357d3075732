//! Workload of clients of rows, and comparison of their results.
//!
//! Accounts have an index and views, so writers guard them; notes have only an index, so concurrent writers overwrite each other; nodes
//! are children of nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_core::ids::TxnId;
use weir_kv::relations::{Index, Order, Reference, Relation, Schema, Told, View, ViewKind};
use weir_kv::{Bytes, Key, Stamp};

use super::Counts;
use crate::chance::Chance;
use crate::cluster::Clients;
use crate::history::Violation;

const TOWNS: [&str; 3] = ["bonn", "kiel", "ulm"];

pub fn schema() -> Schema {
    let account = Relation {
        indexes: vec![Index { name: "town", keys: towns }],
        views: vec![
            View { name: "money", kind: ViewKind::Sum(amounts) },
            View { name: "count", kind: ViewKind::Sum(ones) },
            View { name: "rich", kind: ViewKind::Select(rich) },
        ],
        ..Relation::plain("account")
    };
    let note = Relation { indexes: vec![Index { name: "town", keys: towns }], ..Relation::plain("note") };
    let node = Relation { reference: Some(Reference { parent }), ..Relation::plain("node") };
    Schema::new(vec![account, note, node]).expect("it is well declared")
}

/// A value is towns, an amount and a mark, with colons between: `bonn,ulm:17:00042`.
fn parts(value: &Bytes) -> (Vec<Bytes>, i64) {
    let text = String::from_utf8_lossy(value).into_owned();
    let mut parts = text.split(':');
    let towns = parts.next().unwrap_or_default().split(',').map(Bytes::from).collect();
    (towns, parts.next().and_then(|amount| amount.parse().ok()).unwrap_or_default())
}

fn towns(_: &Key, value: &Bytes) -> Vec<Bytes> {
    parts(value).0
}

fn amounts(_: &Key, value: &Bytes) -> Vec<(Bytes, i64)> {
    let (towns, amount) = parts(value);
    towns.into_iter().map(|town| (town, amount)).collect()
}

fn ones(_: &Key, value: &Bytes) -> Vec<(Bytes, i64)> {
    parts(value).0.into_iter().map(|town| (town, 1)).collect()
}

fn rich(_: &Key, value: &Bytes) -> Option<Bytes> {
    let (_, amount) = parts(value);
    (amount >= 50).then(|| Bytes::from(format!("{amount}").as_str()))
}

/// A node's value begins with the key of its parent; of a root with a colon.
fn parent(_: &Key, value: &Bytes) -> Option<Key> {
    let end = value.iter().position(|byte| *byte == b':')?;
    (end > 0).then(|| Key::new(&value[..end]))
}

/// Record of a transaction's writes, for the final check.
struct Written {
    rows: BTreeMap<Key, Option<Bytes>>,
    /// None: it had no effect, or its client got no answer.
    stamp: Option<Stamp>,
    lost: Option<TxnId>,
}

#[derive(Default)]
struct Session {
    orders: VecDeque<Order>,
    /// Orders of this transaction and their answers; the last order may be unanswered.
    asked: Vec<(Order, Option<Told>)>,
    begun: usize,
}

/// The closed loops of a run.
pub struct Sessions {
    pub counts: Counts,
    pub wrong: Option<Violation>,
    sessions: Vec<Session>,
    written: Vec<Written>,
    /// Rows as the last look at everything has them, by session.
    last: Vec<BTreeMap<Key, Bytes>>,
    begun_max: usize,
    rows: u64,
    write_per_mille: u32,
    delete_per_mille: u32,
    marks: u64,
    stopped: bool,
}

impl Sessions {
    pub fn new(sessions: usize, chance: &mut Chance) -> Sessions {
        Sessions {
            counts: Counts::default(),
            wrong: None,
            sessions: (0..sessions).map(|_| Session::default()).collect(),
            written: Vec::new(),
            last: Vec::new(),
            begun_max: chance.pick(&[10, 30, 60]),
            rows: chance.between(2, 8),
            write_per_mille: chance.pick(&[300, 600, 800]),
            delete_per_mille: chance.pick(&[50, 200, 400]),
            marks: 0,
            stopped: false,
        }
    }

    pub fn have_had_enough(&self) -> bool {
        self.sessions.iter().all(|session| session.begun >= self.begun_max)
    }

    pub fn are_done(&self) -> bool {
        self.sessions.iter().all(|session| session.orders.is_empty() && session.asked.is_empty())
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// The first two sessions, each at another coordinator, read and compare everything.
    pub fn look_at_all(&mut self) {
        for session in self.sessions.iter_mut().take(2) {
            let scans = ["account", "note", "node"].map(|relation| Order::Scan { relation });
            let selected = Order::Selected { relation: "account", view: "rich" };
            session.orders.extend(scans.into_iter().chain([selected]));
            for town in TOWNS {
                session.orders.extend(["account", "note"].map(|relation| look_up(relation, town)));
                session.orders.extend(["money", "count"].map(|view| sum(view, town)));
            }
            session.orders.push_back(Order::Commit);
        }
    }

    fn some_key(&self, relation: &str, chance: &mut Chance) -> Key {
        Key::from(format!("{relation}/{}", chance.below(self.rows)).as_str())
    }

    fn some_write(&mut self, relation: &'static str, chance: &mut Chance) -> Order {
        let key = self.some_key(relation, chance);
        if chance.per_mille(self.delete_per_mille) {
            return Order::Delete { key };
        }
        self.marks += 1;
        let mark = format!("{:05}", self.marks);
        let value = if relation == "node" {
            // The parent has a lower number, so there are no cycles.
            let parent = self.some_key("node", chance);
            let parent =
                if parent < key { String::from_utf8_lossy(&parent).into_owned() } else { String::new() };
            format!("{parent}:{mark}")
        } else {
            let count = chance.between(0, 2) as usize;
            let first = chance.below(3) as usize;
            let towns: BTreeSet<&str> = (0..count).map(|at| TOWNS[(first + at) % 3]).collect();
            let towns: Vec<&str> = towns.into_iter().collect();
            format!("{}:{}:{mark}", towns.join(","), chance.below(100))
        };
        Order::Put { key, value: Bytes::from(value.as_str()) }
    }

    fn draw(&mut self, chance: &mut Chance) -> VecDeque<Order> {
        let relation = chance.pick(&["account", "note", "node"]);
        let mut orders = VecDeque::new();
        if chance.per_mille(self.write_per_mille) {
            for _ in 0..chance.between(1, 3) {
                orders.push_back(self.some_write(relation, chance));
            }
        }
        if orders.is_empty() || chance.per_mille(300) {
            let town = chance.pick(&TOWNS);
            let mut reads = vec![Order::Scan { relation }];
            match relation {
                "account" => reads.push(match chance.below(4) {
                    0 => look_up(relation, town),
                    1 => Order::Selected { relation, view: "rich" },
                    2 => sum("money", town),
                    _ => sum("count", town),
                }),
                "note" => reads.push(look_up(relation, town)),
                _ if chance.per_mille(500) => {
                    let of = self.some_key("node", chance);
                    reads.push(Order::LookUp { relation: "node", index: "parent", of });
                }
                _ => reads
                    .insert(0, Order::Rows { keys: (0..3).map(|_| self.some_key("node", chance)).collect() }),
            }
            if chance.per_mille(500) {
                reads.reverse();
            }
            orders.extend(reads);
        }
        orders.push_back(Order::Commit);
        orders
    }

    /// Compares the answers about rows since the transaction's last write with each other.
    fn compare(&mut self, session: usize) {
        let asked = std::mem::take(&mut self.sessions[session].asked);
        let is_write = |(order, _): &(Order, _)| matches!(order, Order::Put { .. } | Order::Delete { .. });
        let reads = asked.iter().rposition(is_write).map_or(0, |at| at + 1);
        for (order, told) in &asked[reads..] {
            let (Order::Scan { relation }, Some(Told::Rows(rows))) = (order, told) else { continue };
            let rows: BTreeMap<Key, Bytes> = rows.iter().cloned().collect();
            if let Some((key, _)) = orphan(&rows) {
                self.wrong(
                    format!("{key:?} is shown, and its parent is not: {rows:?}"),
                    "no child without its parent",
                );
            }
            self.counts.children += rows.iter().filter(|(key, value)| parent(key, value).is_some()).count();
            for (other, told) in &asked[reads..] {
                let Some(told @ (Told::Rows(_) | Told::Sum(_))) = told else { continue };
                let Some((claim, expected)) = expected(other, relation, &rows) else { continue };
                self.counts.compared += 1;
                if *told != expected {
                    self.wrong(format!("{other:?} was told {told:?}; the rows are {rows:?}"), claim);
                }
            }
        }
        if self.stopped && reads == 0 {
            let rows = asked.into_iter().filter_map(|(order, told)| match (order, told) {
                (Order::Scan { .. }, Some(Told::Rows(rows))) => Some(rows),
                _ => None,
            });
            self.last.push(rows.flatten().collect());
        }
    }

    fn wrong(&mut self, seen: String, claim: &'static str) {
        self.wrong.get_or_insert(Violation { claim, seen });
    }

    /// Accounts and notes are as those have written them who came last; both sessions have seen the same.
    pub fn check_last(&mut self, stamps: &BTreeMap<TxnId, Stamp>) -> Result<(), Violation> {
        let claim = "the last writer of a row wins";
        let [.., one, other] = &self.last[..] else {
            return Err(Violation { claim, seen: "nobody has looked".into() });
        };
        let mut newest: BTreeMap<&Key, (Stamp, &Option<Bytes>)> = BTreeMap::new();
        for written in &self.written {
            let learned = || stamps.get(&written.lost?).copied();
            let Some(stamp) = written.stamp.or_else(learned) else { continue };
            for (key, value) in written.rows.iter().filter(|(key, _)| !key.starts_with(b"node/")) {
                if newest.get(key).is_none_or(|(last, _)| *last < stamp) {
                    newest.insert(key, (stamp, value));
                }
            }
        }
        let expected: BTreeMap<&Key, &Bytes> =
            newest.into_iter().filter_map(|(key, (_, value))| Some((key, value.as_ref()?))).collect();
        let found: BTreeMap<&Key, &Bytes> =
            one.iter().filter(|(key, _)| !key.starts_with(b"node/")).collect();
        if found != expected || one != other {
            let seen = format!("found {found:?}, written {expected:?}; another session found {other:?}");
            return Err(Violation { claim, seen });
        }
        Ok(())
    }
}

fn look_up(relation: &'static str, town: &str) -> Order {
    Order::LookUp { relation, index: "town", of: town.into() }
}

fn sum(view: &'static str, town: &str) -> Order {
    Order::Sum { relation: "account", view, group: town.into() }
}

fn orphan(rows: &BTreeMap<Key, Bytes>) -> Option<(&Key, &Bytes)> {
    let is_there = |key: Key| !key.starts_with(b"node/") || rows.contains_key(&key);
    rows.iter().find(|(key, value)| key.starts_with(b"node/") && !parent(key, value).is_none_or(is_there))
}

/// Expected answer to an order, given all rows of that relation.
fn expected(order: &Order, scanned: &str, rows: &BTreeMap<Key, Bytes>) -> Option<(&'static str, Told)> {
    let all = |keep: &dyn Fn(&Key, &Bytes) -> Option<Bytes>| {
        let kept = rows.iter().filter_map(|(key, value)| Some((key.clone(), keep(key, value)?)));
        Told::Rows(kept.collect())
    };
    match order {
        Order::LookUp { relation, of, .. } if *relation == scanned && scanned == "node" => {
            let is_child = |key: &Key, value: &Bytes| (parent(key, value)? == *of).then(|| value.clone());
            Some(("a look-up gives what a scan would", all(&is_child)))
        }
        Order::LookUp { relation, of, .. } if *relation == scanned => {
            let has = |key: &Key, value: &Bytes| towns(key, value).contains(of).then(|| value.clone());
            Some(("a look-up gives what a scan would", all(&has)))
        }
        Order::Selected { relation, .. } if *relation == scanned => {
            Some(("a view has what its rows say", all(&rich)))
        }
        Order::Sum { relation, view, group } if *relation == scanned => {
            let contributions = if *view == "money" { amounts } else { ones };
            let all = rows.iter().flat_map(|(key, value)| contributions(key, value));
            let of_group = all.filter(|(one, _)| one == group).map(|(_, amount)| amount);
            Some(("a view has what its rows say", Told::Sum(of_group.sum())))
        }
        Order::Rows { keys } if scanned == "node" => {
            let shown = |key: &Key| Some((key.clone(), rows.get(key)?.clone()));
            Some(("no child without its parent", Told::Rows(keys.iter().filter_map(shown).collect())))
        }
        _ => None,
    }
}

impl Clients<Order, Told> for Sessions {
    fn next(&mut self, session: usize, _now_us: u64, chance: &mut Chance) -> Option<Order> {
        let of = &self.sessions[session];
        if of.orders.is_empty() {
            if self.stopped || of.begun >= self.begun_max {
                return None;
            }
            let orders = self.draw(chance);
            self.sessions[session].begun += 1;
            self.sessions[session].orders = orders;
        }
        let of = &mut self.sessions[session];
        let order = of.orders.pop_front()?;
        of.asked.push((order.clone(), None));
        Some(order)
    }

    fn done(&mut self, session: usize, _now_us: u64, told: Told) {
        let of = &mut self.sessions[session];
        of.asked.last_mut().expect("it was asked").1 = Some(told.clone());
        match told {
            Told::Committed(stamp) => {
                self.counts.committed += 1;
                let rows = written(&of.asked);
                self.written.push(Written { rows, stamp, lost: None });
                self.compare(session);
            }
            Told::Conflict | Told::Aborted | Told::Restart => {
                self.counts.conflicts += usize::from(told == Told::Conflict);
                self.counts.restarted += usize::from(told == Told::Restart);
                self.compare(session);
                let again = self.stopped.then(|| std::mem::take(&mut self.sessions[session].orders));
                // A final reader of everything retries until it is answered.
                if again.is_some_and(|rest| !rest.is_empty()) {
                    self.look_at_all();
                }
                self.sessions[session].orders.clear();
            }
            Told::NoParent => self.counts.without_parent += 1,
            Told::Changed | Told::Absent | Told::Rows(_) | Told::Sum(_) => {}
            Told::Unknown => self.wrong("an order was not known".into(), "orders are known"),
        }
    }

    fn lost(&mut self, session: usize, txn: Option<TxnId>) {
        let of = &self.sessions[session];
        let rows = written(&of.asked);
        self.written.push(Written { rows, stamp: None, lost: txn });
        self.moved(session);
    }

    /// The session's transaction is between two orders; it will not be answered any more.
    fn moved(&mut self, session: usize) {
        self.compare(session);
        self.sessions[session].orders.clear();
    }
}

/// Rows after the changes of a transaction.
fn written(asked: &[(Order, Option<Told>)]) -> BTreeMap<Key, Option<Bytes>> {
    let mut rows = BTreeMap::new();
    for (order, told) in asked.iter().filter(|(_, told)| *told == Some(Told::Changed)) {
        match order {
            Order::Put { key, value } => rows.insert(key.clone(), Some(value.clone())),
            Order::Delete { key } => rows.insert(key.clone(), None),
            _ => unreachable!("nothing else changes rows: {told:?}"),
        };
    }
    rows
}
