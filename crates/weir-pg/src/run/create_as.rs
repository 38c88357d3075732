//! CREATE TABLE AS: a definition and an INSERT in one.

use std::sync::Arc;

use weir_client::Prepared;
use weir_sql::session::CreateAs;
use weir_types::function::double_quoted;
use weir_types::{Severity, SqlError, SqlState, SqlType, Value};

use crate::session::Session;
use crate::statement::{Done, Failure};

/// # Errors
/// The errors of PostgreSQL.
pub(crate) async fn create_as(
    session: &mut Session,
    create: &CreateAs,
    query: &Prepared,
) -> Result<Done, Failure> {
    session.settings.refuse_write("CREATE TABLE AS")?;
    if create.if_not_exists && session.current_schema_version().await?.has_relation(&create.table) {
        let name = create.table.rsplit('.').next().unwrap_or_default();
        let message = format!("relation \"{name}\" already exists, skipping");
        session.mention(Severity::Notice, SqlError::new(SqlState::DUPLICATE_TABLE, message));
        return Ok(Done::tag("CREATE TABLE AS"));
    }
    if create.columns.len() > query.columns().len() {
        let message = "too many column names were specified";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
    }
    let names = create.columns.iter().map(Some).chain(std::iter::repeat(None));
    let columns = query.columns().iter().zip(names).map(|(column, name)| {
        let name = double_quoted(name.unwrap_or(&column.name));
        let ty = if column.ty == SqlType::Unknown { &SqlType::Text } else { &column.ty };
        format!("{name} {ty}")
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let definition = format!("CREATE TABLE {} ({columns})", create.written);
    let transaction = session.begin_together();
    session.define(&definition.into(), "CREATE TABLE AS", Some(transaction)).await?;
    if !create.with_data {
        return Ok(Done::tag("CREATE TABLE AS"));
    }
    let insert = format!("INSERT INTO {} {}", create.written, query.text());
    let prepared = session.bind_text(&insert, &[]).map_err(|wrong| Failure::from(wrong.error))?;
    let done = session.run_prepared(&prepared, "SELECT", &[]).await?;
    Ok(Done { count: done.count, ..Done::tag("SELECT") })
}

/// It has its rows at once, and always: they are counted for its client, as PostgreSQL counts what it has stored.
///
/// # Errors
/// The errors of PostgreSQL.
pub(crate) async fn create_materialized(
    session: &mut Session,
    text: &Arc<str>,
    name: &str,
    quoted: &str,
) -> Result<Done, Failure> {
    const TAG: &str = "CREATE MATERIALIZED VIEW";
    session.settings.refuse_write(TAG)?;
    let transaction = session.begin_together();
    let was_there = session.current_schema_version().await?.has_relation(name);
    let done = session.define(text, TAG, Some(transaction)).await?;
    if was_there {
        // IF NOT EXISTS.
        return Ok(done);
    }
    let count = session.bind_text(&format!("SELECT count(*) FROM {quoted}"), &[]);
    let count = count.map_err(|wrong| Failure::from(wrong.error))?;
    let count = match session.run_prepared(&count, "", &[]).await?.rows.first().and_then(|row| row.first()) {
        Some(Value::Int(count)) => Some(*count as u64),
        _ => None,
    };
    Ok(Done { count, ..Done::tag("SELECT") })
}
