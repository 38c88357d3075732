//! Rows, indexes, foreign keys and views, step by step: what a reader is shown, and what is refused.

use std::sync::Arc;

use weir_core::ids::{Sender, TxnId};
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};

use super::row::{OWN, Row};
use super::*;
use crate::coordinator::{Coordinator, Options};
use crate::faults::NoFaults;
use crate::{Bytes, Key, KeyRange, Partition, Variant};

/// `town:amount`.
fn town(_: &Key, value: &Bytes) -> Vec<Bytes> {
    value.split(|byte| *byte == b':').take(1).map(Bytes::new).collect()
}

fn amount(key: &Key, value: &Bytes) -> Vec<(Bytes, i64)> {
    let amount = value.split(|byte| *byte == b':').nth(1);
    let amount = amount.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or_default();
    town(key, value).into_iter().map(|town| (town, amount)).collect()
}

fn large(key: &Key, value: &Bytes) -> Option<Bytes> {
    amount(key, value).into_iter().find(|(_, amount)| *amount >= 10).map(|(town, _)| town)
}

/// The value is the key of the parent.
fn parent(_: &Key, value: &Bytes) -> Option<Key> {
    (!value.is_empty()).then(|| value.clone())
}

fn schema() -> Schema {
    let account = Relation {
        indexes: vec![Index { name: "town", keys: town }],
        views: vec![
            View { name: "by_town", kind: ViewKind::Sum(amount) },
            View { name: "large", kind: ViewKind::Select(large) },
        ],
        ..Relation::plain("account")
    };
    let note = Relation { indexes: vec![Index { name: "town", keys: town }], ..Relation::plain("note") };
    let node = Relation { reference: Some(Reference { parent }), ..Relation::plain("node") };
    Schema::new(vec![account, note, node]).expect("it is well declared")
}

/// Some clients over three shards; every message arrives at once.
struct Bank {
    shards: Vec<Partition>,
    clients: Vec<Relations>,
}

impl Bank {
    fn new(clients: u64) -> Bank {
        let options = Options {
            variant: Variant::Fast,
            shards: 3,
            links_keep_order: true,
            one_phase: false,
            bugs: NoFaults,
        };
        let schema = Arc::new(schema());
        let client = |id| Relations::new(Coordinator::new(id, 1, options), schema.clone(), NoFaults);
        Bank {
            shards: (0..3).map(|shard| Partition::new(shard, NoFaults)).collect(),
            clients: (0..clients).map(client).collect(),
        }
    }

    fn order(&mut self, client: usize, order: Order) -> Told {
        let mut out = Orders::default();
        self.clients[client].begin(1_000, 1, order, &mut out);
        while !out.sends.is_empty() {
            for (shard, request) in std::mem::take(&mut out.sends) {
                self.deliver(client, shard, Some(request), &mut out);
            }
        }
        let [(1, told)] = &out.done[..] else { panic!("one answer: {:?}", out.done) };
        told.clone()
    }

    fn deliver(
        &mut self,
        client: usize,
        shard: u16,
        request: Option<crate::Request>,
        out: &mut Orders<crate::Request, Told>,
    ) {
        let (at, of) = (&mut self.shards[usize::from(shard)], &mut self.clients[client]);
        at.on_progress(1_000, of.id(), of.progress(shard));
        let mut effects = Effects::default();
        request
            .into_iter()
            .for_each(|request| at.step(1_000, Sender::Coordinator(of.id()), request, &mut effects));
        of.on_epoch(shard, at.epoch());
        effects.replies.into_iter().for_each(|reply| of.on_reply(1_000, reply.message, out));
    }

    /// Words of progress go to and fro until all is drained.
    fn let_drain(&mut self) {
        for _ in 0..6 {
            for client in 0..self.clients.len() {
                (0..3).for_each(|shard| self.deliver(client, shard, None, &mut Orders::default()));
            }
        }
    }

    fn put(&mut self, client: usize, key: &str, value: &str) -> Told {
        self.order(client, Order::Put { key: key.into(), value: value.into() })
    }

    fn delete(&mut self, client: usize, key: &str) -> Told {
        self.order(client, Order::Delete { key: key.into() })
    }

    fn commit(&mut self, client: usize) {
        let told = self.order(client, Order::Commit);
        assert!(matches!(told, Told::Committed(_)), "{told:?}");
        self.let_drain();
    }

    fn rows(&mut self, client: usize, order: Order) -> String {
        match self.order(client, order) {
            Told::Rows(rows) => {
                let rows: Vec<String> =
                    rows.iter().map(|(key, value)| format!("{key:?}={value:?}")).collect();
                rows.join(" ")
            }
            told => format!("{told:?}"),
        }
    }

    fn look_up(&mut self, client: usize, of: &str) -> String {
        self.rows(client, Order::LookUp { relation: "account", index: "town", of: of.into() })
    }

    fn scan(&mut self, client: usize, relation: &'static str) -> String {
        self.rows(client, Order::Scan { relation })
    }

    fn sum(&mut self, client: usize, group: &str) -> Told {
        self.order(client, Order::Sum { relation: "account", view: "by_town", group: group.into() })
    }

    fn large(&mut self, client: usize) -> String {
        self.rows(client, Order::Selected { relation: "account", view: "large" })
    }
}

#[test]
fn indexes_and_views_are_as_the_rows_say() {
    let mut bank = Bank::new(1);
    for (key, value) in [("account/1", "ulm:3"), ("account/2", "ulm:20"), ("account/3", "bonn:11")] {
        assert_eq!(bank.put(0, key, value), Told::Changed);
    }
    // A transaction sees its own.
    for _ in 0..2 {
        assert_eq!(bank.look_up(0, "ulm"), "account/1=ulm:3 account/2=ulm:20");
        assert_eq!(bank.sum(0, "ulm"), Told::Sum(23));
        assert_eq!(bank.large(0), "account/2=ulm account/3=bonn");
        bank.commit(0);
    }
    bank.put(0, "account/2", "bonn:5");
    bank.delete(0, "account/1");
    for _ in 0..2 {
        assert_eq!(bank.look_up(0, "ulm"), "");
        assert_eq!(bank.look_up(0, "bonn"), "account/2=bonn:5 account/3=bonn:11");
        assert_eq!((bank.sum(0, "ulm"), bank.sum(0, "bonn")), (Told::Sum(0), Told::Sum(16)));
        assert_eq!(bank.large(0), "account/3=bonn");
        bank.commit(0);
    }
}

/// Two writers of one row who have not seen each other: the entry of the one that is buried counts for nothing, and goes.
#[test]
fn stale_entries_are_not_shown_and_go() {
    let mut bank = Bank::new(3);
    for (client, value) in [(0, "ulm:1"), (1, "bonn:2")] {
        assert_eq!(bank.put(client, "note/1", value), Told::Changed);
    }
    bank.commit(0);
    bank.commit(1);
    let items = |bank: &Bank| bank.shards.iter().map(|shard| shard.sizes().items).sum::<usize>();
    assert_eq!(items(&bank), 3, "a row and two entries");
    for (town, expected) in [("ulm", ""), ("bonn", "note/1=bonn:2")] {
        let found = bank.rows(2, Order::LookUp { relation: "note", index: "town", of: town.into() });
        assert_eq!(found, expected);
    }
    bank.commit(2);
    bank.let_drain();
    assert_eq!(items(&bank), 2, "the row and its entry");
}

/// S17: two writers of one row, who have both seen the same.
#[test]
fn a_row_with_views_is_computed_from_the_one_before() {
    let mut bank = Bank::new(3);
    bank.put(0, "account/1", "ulm:3");
    bank.commit(0);
    for (client, value) in [(0, "ulm:5"), (1, "bonn:7")] {
        assert_eq!(bank.put(client, "account/1", value), Told::Changed);
    }
    bank.commit(0);
    assert_eq!(bank.order(1, Order::Commit), Told::Conflict);
    assert_eq!((bank.sum(2, "ulm"), bank.sum(2, "bonn")), (Told::Sum(5), Told::Sum(0)));
    // While a reader uses a state without the last version, there is no next version.
    bank.commit(2);
    assert_eq!(bank.scan(2, "account"), "account/1=ulm:5");
    bank.put(1, "account/1", "ulm:6");
    bank.commit(1);
    bank.put(1, "account/1", "ulm:7");
    assert_eq!(bank.order(1, Order::Commit), Told::Conflict);
    assert_eq!(bank.sum(2, "ulm"), Told::Sum(5));
    bank.commit(2);
    bank.put(1, "account/1", "ulm:7");
    bank.commit(1);
    assert_eq!(bank.sum(2, "ulm"), Told::Sum(7));
}

#[test]
fn no_child_is_seen_without_its_parent() {
    let mut bank = Bank::new(2);
    assert_eq!(bank.put(0, "node/b", "node/a"), Told::NoParent);
    for (key, value) in [("node/a", ""), ("node/b", "node/a"), ("node/c", "node/b")] {
        assert_eq!(bank.put(0, key, value), Told::Changed);
    }
    assert_eq!(bank.scan(0, "node"), "node/a= node/b=node/a node/c=node/b");
    bank.commit(0);
    let children = Order::LookUp { relation: "node", index: "parent", of: "node/b".into() };
    assert_eq!(bank.rows(0, children.clone()), "node/c=node/b");
    // What is rolled back has not been.
    bank.put(0, "node/f", "node/b");
    assert_eq!(bank.rows(0, children.clone()), "node/c=node/b node/f=node/b");
    bank.clients[0].roll_back(1);
    assert_eq!(bank.rows(0, children), "node/c=node/b");
    // Children come while their parent goes.
    assert_eq!(bank.put(1, "node/d", "node/c"), Told::Changed);
    bank.delete(0, "node/a");
    assert_eq!(bank.scan(0, "node"), "");
    bank.commit(0);
    bank.commit(1);
    assert_eq!(bank.scan(0, "node"), "");
    assert_eq!(bank.put(0, "node/e", "node/d"), Told::NoParent);
    // Another parent of that name has no children yet.
    for key in ["node/a", "node/c"] {
        assert_eq!(bank.put(0, key, ""), Told::Changed);
    }
    bank.commit(0);
    assert_eq!(bank.scan(1, "node"), "node/a= node/c=");
    // An update is no birth.
    bank.put(0, "node/d", "node/c");
    bank.commit(0);
    bank.put(0, "node/c", "node/a");
    bank.commit(0);
    bank.commit(1);
    assert_eq!(bank.scan(1, "node"), "node/a= node/c=node/a node/d=node/c");
}

#[test]
fn what_is_not_declared_is_refused() {
    let mut bank = Bank::new(1);
    let unknown = [
        Order::Delete { key: "nobody/1".into() },
        Order::Put { key: "nobody/1".into(), value: "x".into() },
        Order::Delete { key: "account".into() },
        Order::Scan { relation: "nobody" },
        Order::LookUp { relation: "account", index: "by_town", of: "ulm".into() },
        Order::Sum { relation: "account", view: "large", group: "ulm".into() },
        Order::Selected { relation: "account", view: "by_town" },
    ];
    for order in unknown {
        assert_eq!(bank.order(0, order), Told::Unknown);
    }
    assert_eq!(bank.delete(0, "account/1"), Told::Absent);
    let check = |relations: Vec<Relation>, expected: &str| {
        let error = Schema::new(relations).expect_err("it is declared wrongly");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(vec![Relation::plain("a.b")], "`a.b` is no name");
    check(vec![Relation::plain("a"), Relation::plain("a")], "two of the name `a`");
    let views = vec![View { name: "v", kind: ViewKind::Sum(amount) }];
    check(
        vec![Relation { reference: Some(Reference { parent }), views, ..Relation::plain("a") }],
        "no views",
    );
}

#[test]
fn keys_and_rows_come_back() {
    let relation = Relation::plain("r");
    let txn = TxnId { coordinator: 7, sequence: 9 };
    for of in ["", "a", "a\0b", "\0\x01"] {
        for id in ["", "x", "\0\x01x", "\0"] {
            let row = relation.key(id.as_bytes());
            let relation = Relation {
                indexes: vec![Index { name: "i", keys: |_, value| vec![value.clone()] }],
                ..relation.clone()
            };
            let entries = relation.entries(&row, &of.into(), txn);
            let KeyRange { from, to } = relation.entries_of("i", of.as_bytes());
            assert!(from <= entries[0] && entries[0] < to);
            assert_eq!(relation.row_of("i", of.as_bytes(), &entries[0]), Some(row));
            assert!(!relation.entries_of("i", format!("{of}z").as_bytes()).contains(&entries[0]));
        }
    }
    let row = Row { born: OWN, parent: txn, value: "v".into() };
    assert_eq!(Row::decode(&row.encode(txn)), Some(Row { born: txn, ..row }));
    assert_eq!(Row::decode(b"short"), None);
}
