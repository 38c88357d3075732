//! An INSERT of many rows, or of a query over several shards, as a session runs it.

use std::borrow::Cow;
use std::time::Duration;

use weir_client::{Batch, CallResult, Prepared};
use weir_types::Value;

use crate::by_itself::ByItself;
use crate::session::{Session, sql_error};
use crate::statement::Failure;

/// In the open transaction, or in one of its own unless there is one batch alone.
///
/// # Errors
/// The errors of PostgreSQL.
pub(crate) async fn run_batches<'p>(
    session: &mut Session,
    prepared: &'p Prepared,
    values: &[Value],
    lock_timeout: Option<Duration>,
) -> Result<(CallResult, Cow<'p, Prepared>), Failure> {
    let bound = session.bound(prepared)?;
    let mut batches = match bound.source() {
        Some(query) => {
            let values = &values[..values.len().min(query.parameters().len())];
            let done = Box::pin(session.run_prepared(query, "", values)).await?;
            bound.batches_of(done.rows)?
        }
        None => bound.batches(values).unwrap_or_else(|| Ok(Vec::new()))?,
    };
    if let Some(name) = session.transaction.open_name() {
        session.limit_waits(name, lock_timeout).await?;
        return Ok((run_batches_within(session, name, &bound, batches).await?, bound));
    }
    if let ([_], None) = (&batches[..], lock_timeout)
        && let Some(mut batch) = batches.pop()
    {
        let places = std::mem::take(&mut batch.all);
        let result = session.wait_for(|client| client.begin_batch_alone(batch)).await?;
        return Ok((bound.of_batches(vec![(result, places)]), bound));
    }
    if batches.is_empty() {
        return Ok((bound.of_batches(Vec::new()), bound));
    }
    let own = ByItself::begin(&session.client);
    session.limit_waits(own.name(), lock_timeout).await?;
    let result = run_batches_within(session, own.name(), &bound, batches).await;
    let ended = own.end(result.is_ok()).await.map_err(sql_error);
    let result = result?;
    ended?;
    Ok((result, bound))
}

async fn run_batches_within(
    session: &mut Session,
    name: u64,
    prepared: &Prepared,
    batches: Vec<Batch>,
) -> Result<CallResult, Failure> {
    let mut done = Vec::with_capacity(batches.len());
    let is_statement = batches.len() > 1 && prepared.has_statement_checks();
    if is_statement {
        session.wait_for(|client| client.begin_statement_of_batches(name, true)).await?;
    }
    for mut batch in batches {
        let places = std::mem::take(&mut batch.all);
        done.push((session.wait_for(|client| client.begin_batch(name, batch)).await?, places));
    }
    if is_statement {
        session.wait_for(|client| client.begin_statement_of_batches(name, false)).await?;
    }
    Ok(prepared.of_batches(done))
}
