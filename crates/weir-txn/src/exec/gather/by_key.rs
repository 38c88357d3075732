//! Look-ups of one row by a global key (docs/internals/global-keys.md, 3.15): the owner of the key says at which shard the row is, so
//! that two shards are asked instead of all.

use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_types::Value;

use super::{Fetched, Gather, Program, shards_of};
use crate::claims::Claim;
use crate::entries::{EntriesId, entries_id};
use crate::exec::write::key_of;
use crate::message::{ReadQuery, TableRead};
use crate::placement::shard_of;
use crate::storage::Schema;

/// Fewer shards are all asked at the same time, with as many messages and one round trip less.
const SHARDS_MIN: ShardId = 3;

/// The requests of such a look-up.
#[derive(Clone, Debug)]
pub(crate) struct ByKey {
    pub owner: ShardId,
    /// To the owner: the row, and the entry of the key.
    pub at_owner: Arc<ReadQuery>,
    /// To the shard of the row.
    pub at_home: Arc<ReadQuery>,
}

/// Knowledge of a key's owner about the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The row is at the owner, or there is none.
    All,
    /// The row is there, unless it goes before it is read.
    Home(ShardId),
    /// A transaction holds the key. It may have committed elsewhere.
    IsHeld,
}

impl Gather {
    /// The shard that is asked first where the row is; none: all shards that may have rows are asked for them.
    pub fn asks_owner(&self, values: &[Value], program: &Program) -> Option<ShardId> {
        self.by_key(values, program).map(|by_key| by_key.owner)
    }

    /// Returns the requests of the query if it reads one table by a global key, and its values do not say where the row is.
    pub(crate) fn by_key(&self, values: &[Value], program: &Program) -> Option<ByKey> {
        let [table] = &self.tables[..] else { return None };
        if self.parts.is_some() || self.system.is_some() || program.shards < SHARDS_MIN {
            return None;
        }
        let (table, equals) = (table.table, table.equals(values));
        if shards_of(table, &equals, program).len() == 1 {
            return None;
        }
        let schema = program.schema.table(table);
        let value = |column| {
            let known = equals.iter().find(|(of, _)| *of == column).map(|(_, value)| value);
            known.filter(|value| !value.is_null()).cloned()
        };
        let (entries, key) = schema.entries.iter().enumerate().find_map(|(at, entries)| {
            let columns = &schema.indexes[entries.index].columns;
            let key = columns.iter().map(|of| value(of.column?)).collect::<Option<Vec<Value>>>()?;
            Some((entries_id(table, at), key))
        })?;
        let owner = shard_of(&key, program.shards);
        let row = TableRead { table, equals, joined: None };
        let entry = TableRead { table: entries, equals: (0..).zip(key).collect(), joined: None };
        let query = |tables: Vec<TableRead>| {
            Arc::new(ReadQuery { tables, parts: None, schema_version: self.schema_version })
        };
        Some(ByKey { owner, at_owner: query(vec![row.clone(), entry]), at_home: query(vec![row]) })
    }
}

/// Takes the entry out of what the owner has answered, so that the rest is that of the row.
pub(crate) fn take_known(answers: &mut Fetched) -> Known {
    let entry = answers.iter_mut().find_map(|(_, tables)| tables.pop()).and_then(|mut rows| rows.pop());
    match entry.as_ref().and_then(|entry| entry.last()) {
        None => Known::All,
        Some(Value::Int(home)) => ShardId::try_from(*home).map_or(Known::IsHeld, Known::Home),
        Some(_) => Known::IsHeld,
    }
}

/// The answer for an entry whose key is held: a row without a home.
fn held() -> Vec<Vec<Value>> {
    vec![vec![Value::Null]]
}

/// The answer to a read of entries as if their keys were held.
pub(crate) fn as_if_held(query: &ReadQuery) -> Vec<Vec<Vec<Value>>> {
    let answer = |asked: &TableRead| match EntriesId::of(asked.table) {
        Some(_) => held(),
        None => Vec::new(),
    };
    query.tables.iter().map(answer).collect()
}

/// Replaces the entries in an answer whose keys are held.
pub(crate) fn mark_held(
    query: &ReadQuery,
    schema: &Schema,
    is_held: &dyn Fn(&Claim) -> bool,
    answer: &mut [Vec<Vec<Value>>],
) {
    for (asked, found) in query.tables.iter().zip(answer) {
        if EntriesId::of(asked.table).is_none() {
            continue;
        }
        let value = |column| {
            let known = asked.equals.iter().find(|(of, _)| *of == column);
            known.map_or(Value::Null, |(_, value)| value.clone())
        };
        let (table, index) = schema.claimed_as(asked.table, 0);
        let key = key_of(&schema.table(asked.table).indexes[0], &value);
        if key.is_none_or(|key| is_held(&Claim::Key(table, index, key))) {
            *found = held();
        }
    }
}
