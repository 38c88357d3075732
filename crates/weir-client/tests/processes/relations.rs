//! Rows with an index, a foreign key and views over loopback: readers beside writers, who never see a row without its entry or a view
//! that disagrees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::servers::Cluster;
use weir_client::schema::{Index, Reference, Relation, Schema, View, ViewKind};
use weir_client::{Bytes, Client, Error, Key, Relations, RowTransaction, SqlState};

/// `town:amount`.
fn town(_: &Key, value: &Bytes) -> Vec<Bytes> {
    value.split(|byte| *byte == b':').take(1).map(Bytes::new).collect()
}

fn amount_of(value: &Bytes) -> i64 {
    let text = value.split(|byte| *byte == b':').nth(1);
    text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or_default()
}

fn amount(key: &Key, value: &Bytes) -> Vec<(Bytes, i64)> {
    town(key, value).into_iter().map(|town| (town, amount_of(value))).collect()
}

fn one(key: &Key, value: &Bytes) -> Vec<(Bytes, i64)> {
    town(key, value).into_iter().map(|town| (town, 1)).collect()
}

/// The value is the key of the account.
fn account(_: &Key, value: &Bytes) -> Option<Key> {
    Some(value.clone())
}

fn schema() -> Schema {
    let accounts = Relation {
        indexes: vec![Index { name: "town", keys: town }],
        views: vec![
            View { name: "amount", kind: ViewKind::Sum(amount) },
            View { name: "count", kind: ViewKind::Sum(one) },
        ],
        ..Relation::plain("account")
    };
    let cards = Relation { reference: Some(Reference { parent: account }), ..Relation::plain("card") };
    Schema::new(vec![accounts, cards]).unwrap()
}

fn rows(client: &Client) -> Relations {
    client.relations(schema()).unwrap()
}

const TOWNS: [&str; 3] = ["ulm", "bonn", "jena"];

/// Checks that index and views agree with the rows, within one transaction. Returns the number of rows.
fn look(mut seen: RowTransaction<'_>) -> Result<usize, Error> {
    let all = seen.scan("account")?;
    let mut by_town: BTreeMap<&[u8], Vec<(Key, Bytes)>> = BTreeMap::new();
    for (key, value) in &all {
        let town = value.split(|byte| *byte == b':').next().unwrap_or_default();
        by_town.entry(town).or_default().push((key.clone(), value.clone()));
    }
    for town in TOWNS {
        let rows = by_town.remove(town.as_bytes()).unwrap_or_default();
        let indexed = seen.by_index("account", "town", town)?;
        assert_eq!(indexed, rows, "the index of {town}");
        assert_eq!(seen.sum("account", "count", town)?, rows.len() as i64, "{town}");
        let amount: i64 = rows.iter().map(|(_, value)| amount_of(value)).sum();
        assert_eq!(seen.sum("account", "amount", town)?, amount, "{town}");
    }
    for (_, parent) in seen.scan("card")? {
        assert!(all.iter().any(|(key, _)| *key == parent), "a card without its account {parent:?}");
    }
    Ok(all.len())
}

#[test]
fn rows_are_put_found_counted_and_deleted() {
    let cluster = Cluster::start(2, false, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    let rows = rows(&client);
    for (id, value) in [("1", "ulm:3"), ("2", "ulm:20"), ("3", "bonn:11")] {
        rows.put_row("account", id, value).unwrap();
    }
    assert_eq!(rows.by_index("account", "town", "ulm").unwrap().len(), 2);
    assert_eq!(rows.sum("account", "amount", "ulm").unwrap(), 23);
    rows.put_row("account", "2", "bonn:5").unwrap();
    assert_eq!((rows.sum("account", "count", "ulm"), rows.sum("account", "amount", "bonn")), (Ok(1), Ok(16)));
    rows.put_row("card", "a", "account/3").unwrap();
    assert_eq!(rows.by_index("card", "parent", "account/3").unwrap().len(), 1);
    assert_eq!((rows.delete_row("account", "3"), rows.delete_row("account", "9")), (Ok(true), Ok(false)));
    assert_eq!(rows.by_index("card", "parent", "account/3").unwrap(), []);
    let check = |error: Error, state: SqlState| {
        let Error::Sql(error) = error else { panic!("{error}") };
        assert_eq!(error.state(), state);
    };
    check(rows.put_row("card", "b", "account/9").unwrap_err(), SqlState::FOREIGN_KEY_VIOLATION);
    check(rows.put_row("cart", "b", "").unwrap_err(), SqlState::UNDEFINED_TABLE);
    check(rows.by_index("account", "village", "ulm").unwrap_err(), SqlState::UNDEFINED_TABLE);
    // A refused call ends nothing, a dropped one has not been.
    let mut several = rows.begin();
    assert!(several.put_row("card", "c", "account/9").is_err());
    several.put_row("account", "9", "jena:1").unwrap();
    several.put_row("card", "c", "account/9").unwrap();
    assert_eq!(several.sum("account", "count", "jena"), Ok(1));
    assert_eq!(rows.sum("account", "count", "jena"), Ok(0));
    several.commit().unwrap();
    let mut dropped = rows.begin();
    dropped.put_row("account", "8", "jena:1").unwrap();
    drop(dropped);
    assert_eq!(rows.begin().row("account", "8"), Ok(None));
    assert_eq!(look(rows.begin()).unwrap(), 3);
}

#[test]
fn readers_beside_writers_never_see_them_disagree() {
    let cluster = Cluster::start(2, true, |_| String::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writers: Vec<_> = (0..2)
            .map(|writer: usize| {
                let file = &cluster.file;
                threads.spawn(move || {
                    let client = Client::connect(file).unwrap();
                    let rows = rows(&client);
                    for round in 0..25 {
                        let id = format!("{}", (round * 7 + writer) % 5);
                        let value = format!("{}:{}", TOWNS[(round + writer) % 3], round + 1);
                        match round % 5 {
                            4 => {
                                rows.delete_row("account", &id).unwrap();
                            }
                            3 => {
                                // Its account may have gone.
                                let card = rows.put_row(
                                    "card",
                                    format!("{writer}.{round}"),
                                    format!("account/{id}"),
                                );
                                assert!(matches!(card, Ok(()) | Err(Error::Sql(_))), "{card:?}");
                            }
                            _ => rows.put_row("account", &id, value).unwrap(),
                        }
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (file, done) = (&cluster.file, &done);
                threads.spawn(move || {
                    let client = Client::connect(file).unwrap();
                    let rows = rows(&client);
                    let mut looks = 0;
                    while !done.load(Ordering::Relaxed) || looks == 0 {
                        match look(rows.begin()) {
                            Ok(_) => looks += 1,
                            Err(Error::Restart) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    looks
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        let looks: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        println!("{looks} looks");
    });
}
