//! An index that is built while others write, beside the one that the schema has.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::TxnId;
use weir_sql::Sources;
use weir_sql::catalog::TableId;
use weir_types::Value;

use super::*;
use crate::entries::entries_id;
use crate::storage::chance::Chance;
use crate::storage::write_set::tests::at;
use crate::storage::{AddedIndex, Remade, Schema};

const TABLE: TableId = TableId(0);
const TXN: TxnId = TxnId { coordinator: 1, sequence: 1 };
const LIMITS: BatchLimits = BatchLimits { rows: 3, bytes: 40 };

/// The schema without and with the index that is built: the last one.
fn schemas(index: &str) -> [Arc<Schema>; 2] {
    let of = |more: &str| {
        let mut sources = Sources::default();
        let table = "CREATE TABLE t (id integer PRIMARY KEY, name text, n integer NOT NULL); CREATE INDEX t_n ON t (n);";
        sources.add("schema.sql", format!("{table}{more}"));
        let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        Arc::new(Schema::new(&application.catalog))
    };
    [of(""), of(index)]
}

impl Chance {
    fn member(&mut self, id: i64) -> Vec<Value> {
        let name = self.below(9);
        let name = if name == 0 { Value::Null } else { Value::text(format!("name {name}")) };
        vec![Value::Int(id), name, Value::Int(self.below(30))]
    }

    /// Writes a few rows; undoes it now and then.
    fn write(&mut self, storage: &mut Storage, clock: u64) {
        let position = storage.position();
        for _ in 0..1 + self.below(4) {
            let id = self.below(25);
            let mut row = None;
            for slot in 0..storage.slots(TABLE) {
                if let Some(packed) = storage.packed(TABLE, slot)
                    && storage.read_packed(TABLE, packed, 0) == Value::Int(id)
                {
                    row = Some(slot);
                }
            }
            match (row, self.below(3)) {
                (None, _) => {
                    let values = self.member(id);
                    storage.insert(TABLE, &values, at(clock)).expect("there is no row with this id");
                }
                (Some(row), 0) => storage.delete(TABLE, row, at(clock)),
                (Some(row), _) => {
                    let values = self.member(id);
                    let all: Vec<_> = values.into_iter().enumerate().skip(1).collect();
                    let changes = &all[..1 + self.below(2) as usize];
                    storage.update(TABLE, row, changes, at(clock), None).expect("the id stays");
                }
            }
        }
        match self.below(4) {
            0 => storage.rollback(position),
            1 => {
                let undone = storage.rewind(position);
                storage.replay(undone);
            }
            _ => {}
        }
    }
}

fn keys_of(storage: &Storage, index: &IndexSchema) -> BTreeMap<Vec<Value>, i32> {
    let mut keys = BTreeMap::new();
    for packed in (0..storage.slots(TABLE)).filter_map(|row| storage.packed(TABLE, row)) {
        let values = index.values(&|column| storage.read_packed(TABLE, packed, column));
        if index.nulls_not_distinct || !values.iter().any(Value::is_null) {
            *keys.entry(values).or_default() += 1;
        }
    }
    keys
}

#[test]
fn it_has_the_rows_of_the_table_whoever_writes_them() {
    let all = [
        "CREATE INDEX built ON t (name)",
        "CREATE INDEX built ON t (n DESC, name)",
        "CREATE UNIQUE INDEX built ON t (n)",
        "CREATE UNIQUE INDEX built ON t (name, n)",
        "CREATE UNIQUE INDEX built ON t (name, n) NULLS NOT DISTINCT",
    ];
    let (mut unique, mut refused) = (0, 0);
    for (text, seed) in all.iter().flat_map(|text| (0..200).map(move |seed| (text, seed))) {
        let [before, after] = schemas(text);
        let (mut chance, mut storage) = (Chance(seed), Storage::new(before));
        (0..12).for_each(|clock| chance.write(&mut storage, 1 + clock));
        let (schema, index) = (after.tables[0].clone(), 2);
        storage.begin_building(TABLE, Building::new(TXN, schema.clone(), index, true));
        let (mut next, mut clock, mut told) = (Some(0), 20, Vec::new());
        while let Some(from) = next {
            let batch = storage.build(TABLE, TXN, from, LIMITS).unwrap().expect("it is being built");
            next = batch.next;
            told.extend(batch.keys);
            storage.keep_built(TABLE, TXN, next);
            (0..chance.below(3)).for_each(|more| chance.write(&mut storage, clock + more as u64));
            told.extend(storage.take_key_changes(TABLE, TXN));
            clock += 3;
        }
        // Whoever is told all changes knows the keys.
        let mut known: BTreeMap<Vec<Value>, i32> = BTreeMap::new();
        for KeyChange { values, is_there } in told {
            let count = known.entry(values).or_default();
            *count += if is_there { 1 } else { -1 };
            assert!(*count >= 0, "{text}, seed {seed}");
        }
        known.retain(|_, count| *count > 0);
        let keys = keys_of(&storage, &schema.indexes[index]);
        assert_eq!(known, keys, "{text}, seed {seed}");
        let has_twice = schema.indexes[index].unique && keys.values().any(|count| *count > 1);
        assert_eq!(storage.built_duplicate(TABLE, TXN).is_some(), has_twice, "{text}, seed {seed}");
        // That of a staged index is told by others.
        let built = storage.take_building(TABLE, TXN).map(|built| Building { changed: None, ..built });
        let mut remade = Remade::new(after);
        let added = AddedIndex { was: TABLE, table: TABLE, index, entries: None };
        let pushed = remade.push_indexed(&storage, added, built);
        assert_eq!(pushed.is_err(), has_twice, "{text}, seed {seed}: {pushed:?}");
        if let Err(error) = &pushed {
            assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
        }
        (unique, refused) = (unique + i32::from(!has_twice), refused + i32::from(has_twice));
        if pushed.is_err() {
            continue;
        }
        // It comes, goes, and comes again; the table has it from then on.
        for _ in 0..3 {
            storage.exchange(&mut remade);
            storage.check_indexes().unwrap_or_else(|wrong| panic!("{text}, seed {seed}: {wrong}"));
        }
        let position = storage.position();
        storage.forget(position);
        for clock in 0..6 {
            let row = chance.member(100 + clock);
            let _ = storage.insert(TABLE, &row, at(200));
        }
        storage.check_indexes().unwrap_or_else(|wrong| panic!("{text}, seed {seed}: {wrong}"));
    }
    assert!(unique > 100 && refused > 100, "{unique} were unique, {refused} not");
}

/// Homes tell an owner of keys in any order of homes: what is left is what they have.
#[test]
fn staged_entries_are_what_homes_have() {
    let [_, after] = schemas("CREATE UNIQUE INDEX built ON t (n)");
    let mut schema = Schema::clone(&after);
    schema.set_global_keys(TABLE, &[2]);
    let entries = schema.tables[0].entries[0].schema.clone();
    let mut settled = 0;
    for seed in 0..300 {
        let mut chance = Chance(seed);
        let mut storage = Storage::new(Arc::new(schema.clone()));
        let mut staged = StagedEntries::new(entries.clone());
        let mut have: Vec<(i64, ShardId)> = Vec::new();
        for _ in 0..40 {
            let (key, home) = (chance.below(8), 1 + chance.below(3) as ShardId);
            let at = have.iter().position(|one| *one == (key, home));
            // Keys are there twice for a while, even at one home.
            let is_there = at.is_none() || chance.below(3) == 0;
            let change = KeyChange { values: vec![Value::Int(key)], is_there };
            staged.change(&change, home, 1).unwrap();
            match at.filter(|_| !is_there) {
                Some(at) => drop(have.swap_remove(at)),
                None => have.push((key, home)),
            }
        }
        let gone = KeyChange { values: vec![Value::Int(99)], is_there: false };
        assert_eq!(staged.change(&gone, 1, 1).unwrap_err().state(), SqlState::INTERNAL_ERROR);
        if chance.below(3) > 0 {
            // Each key is left at one home.
            let mut keys = BTreeSet::new();
            for (key, home) in std::mem::take(&mut have) {
                match keys.insert(key) {
                    true => have.push((key, home)),
                    false => {
                        let change = KeyChange { values: vec![Value::Int(key)], is_there: false };
                        staged.change(&change, home, 1).unwrap();
                    }
                }
            }
        }
        let keys: BTreeSet<i64> = have.iter().map(|(key, _)| *key).collect();
        let is_own = chance.below(4) == 0 && keys.contains(&3);
        if is_own {
            storage.insert(TABLE, &[Value::Int(1), Value::Null, Value::Int(3)], at(1)).unwrap();
        }
        let id = entries_id(TABLE, 0);
        let duplicate = storage.settle(id, staged).unwrap();
        let is_twice =
            |key: &&i64| have.iter().filter(|(of, _)| of == *key).count() > 1 || is_own && **key == 3;
        let expected = keys.iter().find(is_twice).map(|key| vec![Value::Int(*key)]);
        assert_eq!(duplicate.map(|one| one.values), expected, "seed {seed}: {have:?}");
        if expected.is_some() {
            continue;
        }
        settled += 1;
        storage.check_indexes().unwrap();
        let mut found: Vec<(i64, ShardId)> = Vec::new();
        for packed in (0..storage.slots(id)).filter_map(|row| storage.packed(id, row)) {
            let read = |column| match storage.read_packed(id, packed, column) {
                Value::Int(value) => value,
                other => panic!("{other:?}"),
            };
            found.push((read(0), read(1) as ShardId));
        }
        found.sort_unstable();
        have.sort_unstable();
        assert_eq!(found, have, "seed {seed}");
    }
    assert!(settled > 100, "{settled}");
}
