//! REPEATABLE READ, READ ONLY: a transaction that reads one state of all shards and of the schema, that of its first query
//! (docs/internals/snapshots.md). One that writes is refused at that level.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use weir_client::{Client, Prepared, SchemaVersion};
use weir_sql::session::{Characteristics, Isolation};
use weir_types::{SqlError, SqlState, Value};

use crate::definitions::PATIENCE;
use crate::session::{Session, not_yet};
use crate::statement::Failure;

/// Snapshot that the open transaction reads from.
pub(crate) struct RepeatableCatalog {
    /// Set at its first query.
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// Name of the transaction that has run a statement last.
    ran: AtomicU64,
}

impl Default for RepeatableCatalog {
    fn default() -> RepeatableCatalog {
        RepeatableCatalog { snapshot: Mutex::default(), ran: AtomicU64::new(u64::MAX) }
    }
}

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

impl RepeatableCatalog {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transaction is over.
    pub(crate) fn let_go(&self) {
        let held = self.lock().take();
        drop(held);
    }

    /// The schema that the transaction reads.
    pub(crate) fn schema_version(&self) -> Option<SchemaVersion> {
        self.lock().as_ref().map(|snapshot| snapshot.schema_version.clone())
    }

    /// The open transaction of that name is about to run something.
    pub(crate) fn note_run(&self, name: u64) {
        self.ran.store(name, Ordering::Relaxed);
    }
}

fn before_any_query(what: &str) -> SqlError {
    SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, format!("{what} must be called before any query"))
}

impl Session {
    pub(crate) fn is_still(&self) -> bool {
        self.values().is_isolation(Isolation::RepeatableRead)
    }

    fn has_run(&self) -> bool {
        let name = self.open_name();
        name.is_some_and(|name| self.catalog_snapshot.ran.load(Ordering::Relaxed) == name)
            || self.catalog_snapshot.lock().is_some()
    }

    /// A transaction may be like that: `begins`, or the open one from here on.
    ///
    /// # Errors
    /// There is no such level, or not for one that writes.
    pub(crate) fn check_level(&self, wished: Characteristics, begins: bool) -> Result<(), SqlError> {
        let values = self.values();
        let prefix = if begins { "default_" } else { "" };
        let now = values.get(&format!("{prefix}transaction_isolation")).unwrap_or_default();
        let level = wished.isolation.or_else(|| Isolation::by_name(&now)).unwrap_or(Isolation::ReadCommitted);
        let is_read_only =
            wished.read_only.unwrap_or_else(|| values.is_on(&format!("{prefix}transaction_read_only")));
        match level {
            Isolation::ReadCommitted | Isolation::ReadUncommitted => Ok(()),
            Isolation::RepeatableRead if is_read_only => Ok(()),
            Isolation::RepeatableRead => {
                let what = "isolation level repeatable read of a transaction that writes";
                Err(not_yet(what).with_hint("it may be read committed, or READ ONLY"))
            }
            Isolation::Serializable => {
                let error = not_yet(&format!("isolation level {}", level.name()));
                Err(error.with_hint("it may be read committed, or REPEATABLE READ, READ ONLY"))
            }
        }
    }

    /// From here on, until the end of the transaction.
    pub(crate) fn be_still(&self, level: Isolation) -> Result<(), SqlError> {
        let is_still = level == Isolation::RepeatableRead;
        if is_still != self.is_still() && self.has_run() {
            return Err(before_any_query("SET TRANSACTION ISOLATION LEVEL"));
        }
        self.change(true, &|values| {
            values.set_isolation(level);
            Ok(())
        })
        .map(drop)
    }

    /// Snapshot that the statement must run at, if the transaction reads one state; taken now if this is its first query.
    pub(crate) async fn snapshot_for(&self, prepared: &Prepared) -> Result<Option<Arc<Snapshot>>, Failure> {
        if !self.is_still() || self.open_name().is_none() {
            return Ok(None);
        }
        if !prepared.reads_only() {
            let what = "calls of procedures in a transaction of isolation level repeatable read";
            return Err(not_yet(what).with_hint("read committed").into());
        }
        self.snapshot().await.map(Some)
    }

    async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        if let Some(held) = &*self.catalog_snapshot.lock() {
            return Ok(held.clone());
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let (client, name) = (self.client.clone(), self.client.new_transaction());
            let taken = Arc::new(Snapshot { client, name, schema_version: self.schema_version()? });
            match self.wait_for(|client| client.begin_snapshot(name, &taken.schema_version)).await {
                Ok(_) => return Ok(self.catalog_snapshot.lock().insert(taken).clone()),
                Err(failure) if Instant::now() < until => self.meet(failure).await?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// pg_export_snapshot().
    pub(crate) async fn export_snapshot(&self) -> Result<Value, Failure> {
        if !self.is_still() || self.open_name().is_none() {
            let what = "pg_export_snapshot() but in a transaction of isolation level repeatable read";
            return Err(not_yet(what).into());
        }
        let snapshot = self.snapshot().await?;
        Ok(Value::text(self.front.exported.put(&snapshot)))
    }

    /// SET TRANSACTION SNAPSHOT.
    pub(crate) fn import_snapshot(&self, name: &str) -> Result<(), SqlError> {
        if !self.is_still() || self.open_name().is_none() {
            let message =
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if self.has_run() {
            return Err(before_any_query("SET TRANSACTION SNAPSHOT"));
        }
        let Some(snapshot) = self.front.exported.get(name) else {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("Snapshots are those of transactions that are open at the same front end."));
        };
        *self.catalog_snapshot.lock() = Some(snapshot);
        Ok(())
    }
}

impl Snapshot {
    pub(crate) fn name(&self) -> u64 {
        self.name
    }
}
