//! What a query of a serializable transaction is about to read: its shards take the interval locks for it before its rows are asked for
//! (docs/internals/serializable.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_sql::Text;
use weir_types::datetime::TransactionTime;
use weir_types::memory::WorkingMemory;

use super::{Call, Callee, PartsRead, ReadQuery, TableRead};

/// The reads of a query, as in its [`ReadQuery`]s. The values of its parameters are the arguments of the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueryReads {
    /// The query of whose parts `parts` are.
    text: Option<Arc<Text>>,
    shards: Vec<ShardReads>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ShardReads {
    shard: ShardId,
    tables: Vec<TableRead>,
    parts: Vec<u16>,
}

impl QueryReads {
    /// The call that takes the locks for these queries, at `now` unless they have a time of their own.
    pub(crate) fn call_of(
        queries: &BTreeMap<ShardId, Arc<ReadQuery>>,
        schema_version: u64,
        now: TransactionTime,
    ) -> Call {
        let of_shard = |(shard, query): (&ShardId, &Arc<ReadQuery>)| ShardReads {
            shard: *shard,
            tables: query.tables.clone(),
            parts: query.parts.as_ref().map_or_else(Vec::new, |read| read.parts.clone()),
        };
        let read = queries.values().find_map(|query| query.parts.as_deref());
        let reads = QueryReads {
            text: read.map(|read| read.text.clone()),
            shards: queries.iter().map(of_shard).collect(),
        };
        Call {
            callee: Callee::Reads(Arc::new(reads)),
            args: read.map_or_else(Vec::new, |read| read.values.clone()),
            transaction_time: read.map_or(now, |read| read.transaction_time),
            schema_version,
            memory: read.map_or_else(WorkingMemory::default, |read| read.memory),
        }
    }

    /// The query of that shard, within the call that has these reads; none: it reads nothing there.
    pub(crate) fn query_of(&self, shard: ShardId, call: &Call) -> Option<ReadQuery> {
        let of_shard = self.shards.iter().find(|of| of.shard == shard)?;
        let parts = self.text.clone().map(|text| {
            Box::new(PartsRead {
                text,
                values: call.args.clone(),
                parts: of_shard.parts.clone(),
                transaction_time: call.transaction_time,
                memory: call.memory,
                stream: None,
            })
        });
        Some(ReadQuery { tables: of_shard.tables.clone(), parts, schema_version: call.schema_version })
    }

    /// All shards that it reads, in ascending order.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.shards.iter().map(|of| of.shard)
    }
}
