//! A server that joins takes everything of another one: all rows, the position and the map, as of one snapshot
//! (docs/internals/conveyor.md, "Adding a server").

use std::io;

use postgres::{Client, Error, IsolationLevel, NoTls, Transaction};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::schema;

use crate::map_change::read_map;
use crate::operation::SqlDone;

/// Tables of the application with the columns that are written, in the order in which they are copied.
const TABLES: &str = "\
SELECT format('%I.%I', n.nspname, c.relname), (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
    FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p'
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'weir_conveyor')
ORDER BY 1";

/// Copies within one transaction of the server that joins. It ends as `WrongMap` if the other server does not know yet that it is a member.
pub(crate) fn copy(client: &mut Client, source: &str, server: ServerId) -> Result<SqlDone, Error> {
    let mut source = Client::connect(source, NoTls)?;
    let read = source.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let mut from = read.start()?;
    let Some(map) = read_map(&mut from)? else { return Ok(SqlDone::WrongMap) };
    let applied: i64 = from.query_one("SELECT applied FROM weir_conveyor.position", &[])?.get(0);
    let mut to = client.build_transaction().isolation_level(IsolationLevel::Serializable).start()?;
    to.batch_execute(schema::LOCK_MAP)?;
    // It idles while the other server is read.
    to.batch_execute(
        "SET LOCAL session_replication_role = replica; SET LOCAL idle_in_transaction_session_timeout = '120s'",
    )?;
    match read_map(&mut to)? {
        // It has everything already.
        Some(own) if !own.absent.contains(server) => return state(to),
        // By an older map the server has not left yet.
        Some(own) if own.version >= map.version || map.absent.contains(server) => {
            return Ok(SqlDone::WrongMap);
        }
        None => return Ok(SqlDone::WrongMap),
        Some(_) => {}
    }
    copy_tables(&mut from, &mut to)?;
    crate::map_change::replace_map(&mut to, &map)?;
    to.execute("UPDATE weir_conveyor.position SET applied = $1", &[&applied])?;
    state(to)
}

fn state(mut to: Transaction<'_>) -> Result<SqlDone, Error> {
    let state = crate::connection::read_state(&mut to)?;
    to.commit()?;
    Ok(SqlDone::State(state))
}

fn copy_tables(from: &mut Transaction<'_>, to: &mut Transaction<'_>) -> Result<(), Error> {
    let tables: Vec<(String, Option<String>)> =
        from.query(TABLES, &[])?.iter().map(|row| (row.get(0), row.get(1))).collect();
    if tables.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    to.batch_execute(&format!("TRUNCATE {}", names.join(", ")))?;
    for (name, columns) in &tables {
        let Some(columns) = columns else { continue };
        let mut rows =
            from.copy_out(&format!("COPY (SELECT {columns} FROM {name}) TO STDOUT (FORMAT binary)"))?;
        let mut taken = to.copy_in(&format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)"))?;
        // A copy that has stopped on the way fails where it is finished.
        if let Err(error) = io::copy(&mut rows, &mut taken) {
            tracing::warn!(table = name, "rows cannot be copied: {error}");
            drop(taken);
            to.batch_execute(&format!(
                "DO $$ BEGIN RAISE 'rows of % cannot be copied', {}; END $$",
                literal(name)
            ))?;
            continue;
        }
        taken.finish()?;
    }
    Ok(())
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
