//! The shards that a read asks. A look-up by a global key asks the key's owner, and then the shard that this one names
//! (docs/internals/global-keys.md, 3.15); where the answer may be out of date, all shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::clock::transaction_time;
use weir_core::ids::ShardId;
use weir_core::machine::Orders;
use weir_types::{SqlError, Value};

use super::{Coordinator, Event};
use crate::exec::gather::by_key::{ByKey, Known, take_known};
use crate::exec::gather::{Fetched, Gather};
use crate::exec::program::Program;
use crate::message::{ReadQuery, Request};
use crate::ramp::reader::Within;

/// The shards that a read asks.
#[derive(Clone, Debug)]
pub(super) enum Asks {
    /// Those that may have its rows.
    Rows,
    /// Also those without rows for the query, to check their schema version.
    All,
    /// The owner of the key that it looks up.
    Owner(Box<ByKey>),
    /// The shard that the owner of its key has named.
    Home(ShardId, Arc<ReadQuery>),
}

impl Coordinator {
    /// Begins a read; if it is a look-up by a global key, at the key's owner.
    pub(super) fn begin_look_up(
        &mut self,
        now_ms: u64,
        tag: u64,
        read: (Arc<Gather>, Vec<Value>, Option<Within>),
        out: &mut Orders<Request, Event>,
    ) {
        let by_key = match read.0.schema_version == self.program.schema_version {
            true => read.0.by_key(&read.1, &self.program),
            false => None,
        };
        let asks = by_key.map_or(Asks::Rows, |by_key| Asks::Owner(Box::new(by_key)));
        self.begin_read_of(now_ms, tag, read, asks, out);
    }

    pub(super) fn queries_of(
        &self,
        now_ms: u64,
        (gather, values): (&Gather, &[Value]),
        program: &Program,
        asks: &Asks,
    ) -> Result<BTreeMap<ShardId, Arc<ReadQuery>>, SqlError> {
        let queries = || gather.queries(values, (program, transaction_time(now_ms)));
        match asks {
            Asks::Rows => queries(),
            Asks::All => Ok(of_all(queries()?, gather.schema_version, program.shards)),
            Asks::Owner(by_key) => Ok([(by_key.owner, by_key.at_owner.clone())].into()),
            Asks::Home(home, query) => Ok([(*home, query.clone())].into()),
        }
    }
}

/// The next step of a look-up; none: `found`, with its `queries`, is the answer. The row is found by its key at one shard, so it is the row of
/// one state. That there is none, only the owner of a key says that nobody holds; or all shards, read at one state.
pub(super) fn next_of_look_up(
    asks: &Asks,
    queries: &mut BTreeMap<ShardId, Arc<ReadQuery>>,
    found: &mut Fetched,
) -> Option<Asks> {
    match asks {
        Asks::Rows | Asks::All => None,
        Asks::Owner(by_key) => match take_known(found) {
            Known::All => {
                queries.insert(by_key.owner, by_key.at_home.clone());
                None
            }
            Known::Home(home) => Some(Asks::Home(home, by_key.at_home.clone())),
            Known::IsHeld => Some(Asks::Rows),
        },
        Asks::Home(..) => {
            let has_row = found.iter().flat_map(|(_, tables)| tables).any(|rows| !rows.is_empty());
            (!has_row).then_some(Asks::Rows)
        }
    }
}

/// Adds an empty query for each shard that is not asked for rows, so that all shards report a different schema version. At least the
/// shard that decided an acknowledged definition knows it.
fn of_all(
    mut queries: BTreeMap<ShardId, Arc<ReadQuery>>,
    schema_version: u64,
    shards: u16,
) -> BTreeMap<ShardId, Arc<ReadQuery>> {
    let nothing = Arc::new(ReadQuery { tables: Vec::new(), parts: None, schema_version });
    for shard in 0..shards {
        queries.entry(shard).or_insert_with(|| nothing.clone());
    }
    queries
}
