//! REPEATABLE READ, READ ONLY: a transaction that reads one state of all shards and of the schema, that of its first query
//! (docs/internals/snapshots.md). One that writes is serializable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use weir_client::{Client, Prepared, SchemaVersion};
use weir_types::{SqlError, SqlState, Value};

use super::definitions::PATIENCE;
use super::isolation::before_any_query;
use crate::session::{Session, not_yet};
use crate::statement::Failure;

/// A snapshot of the cluster, which ends with the last transaction that reads it.
pub(crate) struct Snapshot {
    client: Arc<Client>,
    name: u64,
    schema_version: SchemaVersion,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.client.end_snapshot(self.name);
    }
}

/// Snapshots exported by transactions of a front end, by the names given to clients.
#[derive(Default)]
pub(crate) struct Exported(Mutex<BTreeMap<String, Weak<Snapshot>>>);

impl Exported {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Snapshot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, snapshot: &Arc<Snapshot>) -> String {
        let (high, low) = (snapshot.name >> 32, snapshot.name as u32);
        let name = format!("{high:08X}-{low:08X}-1");
        let mut exported = self.lock();
        exported.retain(|_, one| one.strong_count() > 0);
        exported.insert(name.clone(), Arc::downgrade(snapshot));
        name
    }

    fn get(&self, name: &str) -> Option<Arc<Snapshot>> {
        self.lock().get(name)?.upgrade()
    }
}

/// Snapshot that the statement must run at, if the transaction reads one state; taken now if this is its first query.
pub(crate) async fn snapshot_for(
    session: &mut Session,
    prepared: &Prepared,
) -> Result<Option<Arc<Snapshot>>, Failure> {
    let reads_snapshot = session.settings.is_repeatable_read() && !session.transaction.is_serializable();
    if !reads_snapshot || session.transaction.open_name().is_none() {
        return Ok(None);
    }
    if !prepared.reads_only() {
        let what = "calls of procedures in a transaction of isolation level repeatable read";
        return Err(not_yet(what).with_hint("read committed").into());
    }
    Box::pin(snapshot(session)).await.map(Some)
}

async fn snapshot(session: &mut Session) -> Result<Arc<Snapshot>, Failure> {
    if let Some(held) = &session.transaction.snapshot {
        return Ok(held.clone());
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let (client, name) = (session.client.clone(), session.client.new_transaction());
        let taken = Arc::new(Snapshot { client, name, schema_version: session.schema_version()? });
        match session.wait_for(|client| client.begin_snapshot(name, &taken.schema_version)).await {
            Ok(_) => return Ok(session.transaction.snapshot.insert(taken).clone()),
            Err(failure) if Instant::now() < until => session.meet(failure).await?,
            Err(failure) => return Err(failure),
        }
    }
}

/// pg_export_snapshot().
pub(crate) async fn export_snapshot(session: &mut Session) -> Result<Value, Failure> {
    if !session.settings.is_repeatable_read() || session.transaction.open_name().is_none() {
        let what = "pg_export_snapshot() but in a transaction of isolation level repeatable read";
        return Err(not_yet(what).into());
    }
    let snapshot = snapshot(session).await?;
    Ok(Value::text(session.front.exported.put(&snapshot)))
}

/// SET TRANSACTION SNAPSHOT.
pub(crate) fn import_snapshot(session: &mut Session, name: &str) -> Result<(), SqlError> {
    if !session.settings.is_repeatable_read() || session.transaction.open_name().is_none() {
        let message =
            "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if session.transaction.has_run() {
        return Err(before_any_query("SET TRANSACTION SNAPSHOT", "called"));
    }
    let Some(snapshot) = session.front.exported.get(name) else {
        let message = format!("invalid snapshot identifier: \"{name}\"");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint("Snapshots are those of transactions that are open at the same front end."));
    };
    session.transaction.snapshot = Some(snapshot);
    Ok(())
}

impl Snapshot {
    pub(crate) fn name(&self) -> u64 {
        self.name
    }

    pub(crate) fn schema_version(&self) -> &SchemaVersion {
        &self.schema_version
    }
}
