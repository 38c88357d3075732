//! Write sets beside their naive twin: the same writes in place.

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_sql::Sources;
use weir_sql::catalog::TableId;
use weir_types::Value;

use super::*;
use crate::storage::chance::Chance;
use crate::storage::key::{Boundary, KeyRange, push_key};
use crate::storage::{RowRef, Rows, Schema, Workspace};

const SCHEMA: &str = "
CREATE TABLE t (id integer PRIMARY KEY, name text UNIQUE, n bigint, CONSTRAINT pair UNIQUE (n, name));
CREATE INDEX t_n ON t (n);
CREATE INDEX t_n_down ON t (n DESC, id);
CREATE TABLE other (id integer PRIMARY KEY, n bigint);
";

pub(in crate::storage) const TABLES: [TableId; 2] = [TableId(0), TableId(1)];
const KEYS: i64 = 40;

impl Chance {
    fn values(&mut self, table: TableId) -> Vec<Value> {
        let mut all = vec![Value::Int(self.below(KEYS))];
        if table == TABLES[0] {
            let name = self.below(KEYS);
            all.push(if name % 5 == 0 { Value::Null } else { Value::text(format!("name {name}")) });
        }
        let n = self.below(6);
        all.push(if n == 0 { Value::Null } else { Value::Int(n) });
        all
    }
}

pub(in crate::storage) fn at(clock: u64) -> Timestamp {
    Timestamp { clock, ..Timestamp::default() }
}

fn schema() -> Arc<Schema> {
    let mut sources = Sources::default();
    sources.add("schema.sql", SCHEMA);
    let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    Arc::new(Schema::new(&application.catalog))
}

/// All rows of a visit, in its order. Rows are told by their values: slots differ.
fn visited(rows: &dyn Rows, table: TableId, visit: impl Fn(&mut dyn FnMut(RowRef))) -> Vec<Vec<Value>> {
    let columns = rows.schema().table(table).types.len();
    let mut all = Vec::new();
    visit(&mut |row| all.push((0..columns).map(|column| rows.value(table, row, column)).collect()));
    all
}

fn texts(rows: &[Vec<Value>]) -> Vec<String> {
    rows.iter().map(|row| format!("{row:?}")).collect()
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Whether both have the same rows and count them alike.
fn check_alike(seed: u64, one: &dyn Rows, other: &dyn Rows, chance: &mut Chance) {
    for table in TABLES {
        assert_eq!(one.row_count(table), other.row_count(table), "seed {seed}: count of {table:?}");
    }
    check_rows_alike(seed, one, other, chance);
}

/// Whether both have the same rows, by scans, in the order of each index, in ranges of them, and by whole keys.
pub(in crate::storage) fn check_rows_alike(seed: u64, one: &dyn Rows, other: &dyn Rows, chance: &mut Chance) {
    for table in TABLES {
        let scan = |rows: &dyn Rows| {
            texts(&visited(rows, table, |push| {
                let _ = rows.scan(table, &mut |row| {
                    push(row);
                    Ok(ControlFlow::Continue(()))
                });
            }))
        };
        assert_eq!(sorted(scan(one)), sorted(scan(other)), "seed {seed}: scan of {table:?}");
        for index in 0..one.schema().table(table).indexes.len() {
            let schema = &one.schema().table(table).indexes[index];
            let mut key = |after: bool| {
                let values = chance.values(table);
                let mut bytes = KeyBytes::new();
                let columns = chance.below(1 + schema.columns.len() as i64) as usize;
                for column in &schema.columns[..columns] {
                    push_key(&mut bytes, &values[column.column.expect("a plain column")], column);
                }
                Boundary { bytes, after }
            };
            let range = KeyRange { lower: key(false), upper: key(true) };
            let reverse = chance.below(2) == 0;
            let some = |rows: &dyn Rows| {
                let found = visited(rows, table, |push| {
                    let _ = rows.range(table, index, &range, reverse, &mut |row| {
                        push(row);
                        Ok(ControlFlow::Continue(()))
                    });
                });
                // Rows with the same key come in the order of their slots.
                match schema.unique {
                    true if !schema.columns.iter().any(|column| column.nullable) => texts(&found),
                    _ => sorted(texts(&found)),
                }
            };
            assert_eq!(some(one), some(other), "seed {seed}: {} {range:?} {reverse}", schema.name);
            if schema.unique {
                let values = chance.values(table);
                let mut bytes = KeyBytes::new();
                for column in &schema.columns {
                    push_key(&mut bytes, &values[column.column.expect("a plain column")], column);
                }
                let has_null =
                    schema.columns.iter().any(|column| values[column.column.expect("plain")].is_null());
                let get =
                    |rows: &dyn Rows| rows.get(table, index, &bytes).map(|row| rows.value(table, row, 0));
                if !has_null {
                    assert_eq!(
                        format!("{:?}", get(one)),
                        format!("{:?}", get(other)),
                        "seed {seed}: {}",
                        schema.name
                    );
                }
            }
        }
    }
}

/// A random write of a workspace, told by values so that another one can do the same.
#[derive(Debug)]
pub(in crate::storage) enum Write {
    Insert(TableId, Vec<Value>),
    Update(TableId, i64, Vec<(ColumnIndex, Value)>),
    Delete(TableId, i64),
}

impl Write {
    pub(in crate::storage) fn by_chance(chance: &mut Chance) -> Write {
        let table = TABLES[usize::from(chance.below(4) == 0)];
        match chance.below(5) {
            0 | 1 => Write::Insert(table, chance.values(table)),
            2 | 3 => {
                let values = chance.values(table);
                let column = chance.below(values.len() as i64) as usize;
                Write::Update(table, chance.below(KEYS), vec![(column, values[column].clone())])
            }
            _ => Write::Delete(table, chance.below(KEYS)),
        }
    }

    pub(in crate::storage) fn table(&self) -> TableId {
        match self {
            Write::Insert(table, _) | Write::Update(table, ..) | Write::Delete(table, _) => *table,
        }
    }

    /// The row of the tables that it writes.
    pub(in crate::storage) fn row(&self, storage: &Storage) -> Option<u32> {
        let (Write::Insert(table, _) | Write::Update(table, ..) | Write::Delete(table, _)) = self;
        let id = match self {
            Write::Insert(_, values) => values[0].clone(),
            Write::Update(_, id, _) | Write::Delete(_, id) => Value::Int(*id),
        };
        find(storage, *table, &id)
    }

    /// Says what became of it.
    pub(in crate::storage) fn run(&self, workspace: &mut Workspace<'_>, timestamp: Timestamp) -> String {
        match self {
            Write::Insert(table, values) => match workspace.insert(*table, values, timestamp) {
                Ok(_) => "inserted".to_owned(),
                Err(error) => error.message().to_owned(),
            },
            Write::Update(table, id, changes) => match find(workspace, *table, &Value::Int(*id)) {
                None => "nothing".to_owned(),
                Some(row) => match workspace.update(*table, row, changes, timestamp, None) {
                    Ok(()) => "updated".to_owned(),
                    Err(error) => error.message().to_owned(),
                },
            },
            Write::Delete(table, id) => match find(workspace, *table, &Value::Int(*id)) {
                None => "nothing".to_owned(),
                Some(row) => {
                    workspace.delete(*table, row, timestamp).unwrap();
                    "deleted".to_owned()
                }
            },
        }
    }
}

/// The row with that id.
fn find(rows: &dyn Rows, table: TableId, id: &Value) -> Option<u32> {
    let mut key = KeyBytes::new();
    push_key(&mut key, id, &rows.schema().table(table).indexes[0].columns[0]);
    rows.get(table, 0, &key).map(|row| row.row)
}

/// Two storages with the same rows.
pub(in crate::storage) fn twins(chance: &mut Chance) -> (Storage, Storage) {
    let (mut one, mut other) = (Storage::new(schema_of_all()), Storage::new(schema_of_all()));
    for clock in 1..chance.below(60) as u64 + 2 {
        let table = TABLES[usize::from(chance.below(3) == 0)];
        let values = chance.values(table);
        let inserted = one.insert(table, &values, at(clock)).is_ok();
        assert_eq!(other.insert(table, &values, at(clock)).is_ok(), inserted);
    }
    one.forget(one.position());
    other.forget(other.position());
    (one, other)
}

/// The merged write set equals the same writes in place, also after savepoints and after COMMIT. The tables themselves change only at
/// COMMIT, and reads at an earlier position find the old rows.
#[test]
fn a_write_set_is_what_the_same_writes_in_place_are() {
    let seeds = std::env::var("WEIR_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    for seed in 0..seeds {
        let mut chance = Chance(seed);
        let (mut base, mut twin) = twins(&mut chance);
        let untouched = TABLES.map(|table| base.fingerprint(table));
        let mut own = WriteSet::default();
        let mut marks = vec![(own.mark(), twin.position())];
        for _ in 0..chance.below(90) {
            if chance.below(8) == 0 {
                let (mark, position) = marks[chance.below(marks.len() as i64) as usize];
                own.roll_back(&mut base, mark);
                twin.rollback(position);
                marks.retain(|(other, _)| *other <= mark);
            }
            let write = Write::by_chance(&mut chance);
            let (mark, position) = (own.mark(), twin.position());
            let beside = write.run(&mut Workspace::beside(&mut base, &mut own), at(100));
            let in_place = write.run(&mut Workspace::in_place(&mut twin), at(100));
            assert_eq!(beside, in_place, "seed {seed}: {write:?}");
            marks.push((mark, position));
            if chance.below(4) == 0 {
                check_alike(seed, &MergedRows { base: &base, own: &own }, &twin, &mut chance);
                check_alike(seed, &MergedRows { base: &base, own: &own.reindexed() }, &twin, &mut chance);
            }
        }
        check_alike(seed, &MergedRows { base: &base, own: &own }, &twin, &mut chance);
        assert_eq!(
            TABLES.map(|table| base.fingerprint(table)),
            untouched,
            "seed {seed}: nobody else sees it"
        );
        if chance.below(4) == 0 {
            base.discard_write_set(own);
            assert_eq!(TABLES.map(|table| base.fingerprint(table)), untouched, "seed {seed}");
            fill_up(&mut base, seed);
            continue;
        }
        let before = base.position();
        base.apply_write_set(own, &[], at(200));
        check_alike(seed, &base, &twin, &mut chance);
        assert_eq!(TABLES.map(|table| base.fingerprint(table)), TABLES.map(|table| twin.fingerprint(table)));
        let undone = base.rewind(before);
        assert_eq!(TABLES.map(|table| base.fingerprint(table)), untouched, "seed {seed}: as it was");
        base.replay(undone);
        check_alike(seed, &base, &twin, &mut chance);
        fill_up(&mut base, seed);
    }
}

/// No slot is given out twice.
fn fill_up(base: &mut Storage, seed: u64) {
    for id in 0..200 {
        let values = [Value::Int(1_000 + id), Value::Int(id)];
        base.insert(TABLES[1], &values, at(300)).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
    }
}

pub(in crate::storage) fn schema_of_all() -> Arc<Schema> {
    thread_local!(static SCHEMA: Arc<Schema> = schema());
    SCHEMA.with(Arc::clone)
}

/// Unique keys may change places between rows, and a key may go to another row, in one transaction.
#[test]
fn keys_change_places() {
    let mut base = Storage::new(schema_of_all());
    let row = |id: i64, name: &str| [Value::Int(id), Value::text(name), Value::Int(id)];
    let rows = [(1, "a"), (2, "b"), (3, "c")];
    let slots = rows.map(|(id, name)| base.insert(TABLES[0], &row(id, name), at(1)).expect("keys differ"));
    base.forget(base.position());
    let mut own = WriteSet::default();
    let mut workspace = Workspace::beside(&mut base, &mut own);
    for (slot, name) in [(slots[0], "x"), (slots[1], "a"), (slots[0], "b")] {
        workspace.update(TABLES[0], slot, &[(1, Value::text(name))], at(2), None).expect("the key is free");
    }
    workspace.delete(TABLES[0], slots[2], at(2)).unwrap();
    workspace.insert(TABLES[0], &row(3, "c"), at(2)).expect("the key is free again");
    let before = base.position();
    base.apply_write_set(own, &[], at(3));
    let names = |base: &Storage| {
        slots.map(|row| {
            base.packed(TABLES[0], row).map(|_| base.value(TABLES[0], RowRef { shard: 0, row }, 1))
        })
    };
    assert_eq!(names(&base)[..2], [Some(Value::text("b")), Some(Value::text("a"))]);
    let undone = base.rewind(before);
    assert_eq!(names(&base), ["a", "b", "c"].map(|name| Some(Value::text(name))));
    base.replay(undone);
    assert_eq!(names(&base)[..2], [Some(Value::text("b")), Some(Value::text("a"))]);
}

/// A write set that goes into the tables slice by slice is seen by nobody before it is shown, and is then what it is when it is applied at
/// once; what is logged of it makes the same rows. Others write rows beside it, and go back.
#[test]
fn a_write_set_is_put_into_the_tables_ahead() {
    let seeds = std::env::var("WEIR_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let mut reached = [0; 4];
    for seed in 0..seeds {
        let mut chance = Chance(seed);
        let (mut base, mut twin) = twins(&mut Chance(seed));
        let (mut still, mut recovered) = twins(&mut Chance(seed));
        let mut own = WriteSet::default();
        for _ in 0..chance.below(90) {
            let write = Write::by_chance(&mut chance);
            let beside = write.run(&mut Workspace::beside(&mut base, &mut own), at(100));
            assert_eq!(beside, write.run(&mut Workspace::in_place(&mut twin), at(100)), "seed {seed}");
        }
        let (mut ahead, mut logged, mut others) = (Ahead::default(), Vec::new(), 0);
        let writes_others = chance.below(2) == 0;
        loop {
            let has_more = base.apply_ahead(&own, &mut ahead, at(200), 1 + chance.below(4) as usize);
            logged.append(&mut ahead.take_logged());
            assert_eq!(
                TABLES.map(|table| base.fingerprint(table)),
                TABLES.map(|table| still.fingerprint(table))
            );
            check_alike(seed, &base, &still, &mut chance);
            check_alike(seed, &MergedRows { base: &base, own: &own }, &twin, &mut chance);
            base.check_indexes().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            if !has_more {
                break;
            }
            if writes_others && chance.below(3) == 0 {
                others += 1;
                let values = [Value::Int(5_000 + others), Value::Int(others)];
                for all in [&mut base, &mut twin, &mut still] {
                    all.insert(TABLES[1], &values, at(150)).expect("a new key");
                }
            }
            let back = base.history_begins() + chance.below(1 + others) as u64;
            if !base.meets_hidden(back) {
                let undone = base.rewind(back);
                base.check_indexes().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
                base.replay(undone);
                reached[0] += usize::from(others > 0);
            }
        }
        if chance.below(4) == 0 {
            base.undo_ahead(ahead);
            base.discard_write_set(own);
            check_alike(seed, &base, &still, &mut chance);
            base.check_indexes().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            fill_up(&mut base, seed);
            reached[1] += 1;
            continue;
        }
        let before = base.position();
        let hidden = logged.len();
        let (shown, _) = base.show_ahead(own, ahead, &[], at(200));
        assert_eq!(shown - before, hidden as u64, "seed {seed}: all at once");
        logged.append(&mut base.logged_since(shown));
        check_alike(seed, &base, &twin, &mut chance);
        base.check_indexes().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        if others == 0 {
            recovered.replay_logged(logged, at(200), &NoFunctions);
            check_alike(seed, &recovered, &twin, &mut chance);
            reached[2] += 1;
        }
        let undone = base.rewind(before);
        check_alike(seed, &base, &still, &mut chance);
        base.replay(undone);
        check_alike(seed, &base, &twin, &mut chance);
        reached[3] += usize::from(base.position() > shown && shown > before);
        base.forget(base.position());
        assert!(base.take_forgotten().is_none(), "seed {seed}: it has been done again change by change");
        fill_up(&mut base, seed);
    }
    assert!(seeds < 100 || reached.iter().all(|count| *count > 10), "{reached:?}");
}

struct NoFunctions;

impl crate::storage::Functions for NoFunctions {
    fn function(&self, _: u32, _: &crate::storage::RowName) -> Arc<dyn crate::storage::RowFunction> {
        unreachable!("no operation is logged")
    }

    fn statement(&self, _: &crate::storage::RowName) -> Arc<dyn crate::storage::RowStatement> {
        unreachable!("no operation is logged")
    }
}
