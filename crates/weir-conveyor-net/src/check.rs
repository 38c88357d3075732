//! Checks of a database for `weir conveyor --check-config`: an agent can work beside it if none fails.

use std::collections::BTreeSet;

use postgres::{Client, Error, NoTls};

use crate::connection::install_in;

/// Something that keeps an agent from working, or that can go wrong later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Triggers that are replaced, and `xid8`, need PostgreSQL 14.
    OldServer { version: i32 },
    /// The role may not set session_replication_role, so state updates cannot be applied.
    MayNotApply,
    /// The server runs no SERIALIZABLE transaction that writes: it is a standby.
    NotSerializable { why: String },
    /// The schema `weir_conveyor` and its triggers cannot be made.
    MayNotInstall { why: String },
    /// A table that global operations write has no primary key: its rows cannot be found elsewhere.
    NoPrimaryKey { table: String },
    /// A unique key beside the primary key. If commutative or local operations write its columns, copies at other servers keep old values, with
    /// which rows of global operations can collide.
    UniqueKey { table: String, index: String },
    /// Rows that a role does not see are not captured.
    RowSecurity { table: String },
}

const UNIQUE_KEYS: &str = "\
SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'weir_conveyor')";

const TABLES: &str = "\
SELECT c.oid::regclass::text, EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), c.relrowsecurity
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'weir_conveyor')";

/// Findings about a database. `is_written`: whether global operations write a table, by its name as `regclass` prints it.
///
/// # Errors
/// The server's.
pub fn check(config: &str, is_written: impl Fn(&str) -> bool) -> Result<BTreeSet<Finding>, Error> {
    let mut client = Client::connect(config, NoTls)?;
    let mut findings = BTreeSet::new();
    let version: i32 = client.query_one("SELECT current_setting('server_version_num')::int", &[])?.get(0);
    if version < 140_000 {
        findings.insert(Finding::OldServer { version });
    }
    if client.batch_execute("SET session_replication_role = replica").is_err() {
        findings.insert(Finding::MayNotApply);
    }
    let reset = client.batch_execute("RESET session_replication_role");
    let said =
        |error: &Error| error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().into());
    let begun = reset.and_then(|()| {
        client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE; SELECT txid_current(); ROLLBACK")
    });
    if let Err(error) = begun {
        findings.insert(Finding::NotSerializable { why: said(&error) });
        client = Client::connect(config, NoTls)?;
    }
    let mut installing = client.transaction()?;
    if let Err(error) = install_in(&mut installing) {
        findings.insert(Finding::MayNotInstall { why: said(&error) });
    }
    installing.rollback()?;
    for row in client.query(TABLES, &[])? {
        let (table, has_key, is_secured): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
        if is_written(&table) && !has_key {
            findings.insert(Finding::NoPrimaryKey { table: table.clone() });
        }
        if is_written(&table) && is_secured {
            findings.insert(Finding::RowSecurity { table });
        }
    }
    for row in client.query(UNIQUE_KEYS, &[])? {
        let (table, index): (String, String) = (row.get(0), row.get(1));
        if is_written(&table) {
            findings.insert(Finding::UniqueKey { table, index });
        }
    }
    Ok(findings)
}
