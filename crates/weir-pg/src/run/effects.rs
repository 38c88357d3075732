//! SELECT of functions that act on the session (`weir_sql::effects`): their arguments are asked for, and each row of them is obeyed.

use std::sync::Arc;
use std::time::Duration;

use weir_client::{AdvisoryKey, Client, CurrentValue, Prepared};
use weir_sql::bound::OutputColumn;
use weir_sql::effects::{Effect, EffectCall};
use weir_types::datetime::fields::epoch_of_interval;
use weir_types::{SqlError, SqlState, Value};

use crate::session::Session;
use crate::statement::{Done, Failure};

/// `sequence "x" does not exist`, and what else is wrong with an argument.
fn wrong(state: SqlState, message: impl Into<String>) -> Failure {
    SqlError::new(state, message.into()).into()
}

pub(crate) async fn run_effects(
    session: &mut Session,
    calls: &Arc<[EffectCall]>,
    query: &Prepared,
    values: &[Value],
) -> Result<Done, Failure> {
    let asked = session.run_prepared(query, "SELECT", values).await?;
    let (mut rows, mut changed) = (Vec::with_capacity(asked.rows.len()), Vec::new());
    for row in &asked.rows {
        let mut arguments = &row[..];
        let mut given = Vec::with_capacity(calls.len());
        for call in &calls[..] {
            let (own, others) = arguments.split_at(call.arguments);
            arguments = others;
            given.push(act(session, call, own, &mut changed).await?);
        }
        rows.push(given);
    }
    Ok(Done { columns: columns(calls, query).into(), rows, changed, ..Done::tag("SELECT") })
}

async fn act(
    session: &mut Session,
    call: &EffectCall,
    arguments: &[Value],
    changed: &mut Vec<(&'static str, String)>,
) -> Result<Value, Failure> {
    match (call.effect, arguments) {
        (Effect::SetConfig, [Value::Text(name), value, is_local]) => {
            let value = if let Value::Text(value) = value { Some(&value[..]) } else { None };
            let done = session.set(name, value, *is_local == Value::Bool(true))?;
            changed.extend(done.changed);
            Ok(Value::text(session.settings.values().get(name).unwrap_or_default()))
        }
        (Effect::SetConfig, _) => Err(wrong(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name")),
        (Effect::Value, [value]) => Ok(value.clone()),
        (Effect::AdvisoryUnlockAll, _) => {
            session.advisory.give_all_back(&session.client);
            Ok(nothing())
        }
        (Effect::ExportSnapshot, _) => super::snapshots::export_snapshot(session).await,
        (Effect::LastValue, _) => Ok(Value::Int(session.current_value(&CurrentValue::Last)?)),
        // All others are of no effect where an argument is NULL.
        (_, arguments) if arguments.contains(&Value::Null) => Ok(Value::Null),
        (Effect::SetValue, [Value::Text(name), Value::Int(value), rest @ ..]) => {
            set_value(session, name, *value, rest.first() != Some(&Value::Bool(false))).await
        }
        (Effect::AdvisoryLock { waits, of_transaction }, arguments) => {
            let is_held = super::advisory::lock(session, key(arguments)?, waits, of_transaction).await?;
            Ok(if waits { nothing() } else { Value::Bool(is_held) })
        }
        (Effect::AdvisoryUnlock, arguments) => {
            Ok(Value::Bool(session.advisory.unlock(&session.client, key(arguments)?)))
        }
        (Effect::Sleep, [Value::Float8(seconds)]) => sleep(session, *seconds).await,
        (Effect::Sleep, [Value::Interval(interval)]) => sleep(session, epoch_of_interval(interval)).await,
        (Effect::CurrentValue, [Value::Text(name)]) => {
            let sequence = CurrentValue::Of(weir_sql::relation_named(name));
            Ok(Value::Int(session.current_value(&sequence)?))
        }
        (Effect::SetValue | Effect::CurrentValue | Effect::Sleep | Effect::Value, _) => {
            Err(wrong(SqlState::INTERNAL_ERROR, "arguments that it does not have"))
        }
    }
}

/// Result of a function of type void, which is not NULL.
fn nothing() -> Value {
    Value::text("")
}

/// Sleeps in the session; no shard is involved.
async fn sleep(session: &mut Session, seconds: f64) -> Result<Value, Failure> {
    let most = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    session.backend.in_flight.doze(most).await?;
    Ok(nothing())
}

/// The sequence goes on with that value, or behind it: at once, and for good. One that the open transaction may have made is changed
/// with it.
async fn set_value(
    session: &mut Session,
    sequence: &str,
    value: i64,
    is_given: bool,
) -> Result<Value, Failure> {
    session.settings.refuse_write("setval()")?;
    if let Some(own) = &session.transaction.own_schema_version {
        let definition = own.set_value(sequence, value, is_given)?;
        session.define(&definition.into(), "ALTER SEQUENCE", session.transaction.open_name()).await?;
        return Ok(Value::Int(value));
    }
    let mut shards = 0..session.client.shards();
    while let Some(shard) = shards.next() {
        let schema_version = session.current_schema_version().await?;
        let of = (shard, schema_version.settable(sequence, value)?);
        let set = |client: &Client| client.begin_set_sequence(&schema_version, of, (value, is_given));
        if let Err(failure) = session.wait_for(set).await {
            session.meet(failure).await?;
            shards = shard..session.client.shards();
        }
    }
    Ok(Value::Int(value))
}

/// Result columns of the statement.
pub(crate) fn columns(calls: &[EffectCall], query: &Prepared) -> Vec<OutputColumn> {
    let mut asked = query.columns();
    let of = |call: &EffectCall| {
        let own;
        (own, asked) = asked.split_at(call.arguments.min(asked.len()));
        match (call.effect, own) {
            (Effect::Value, [column]) => column.clone(),
            _ => OutputColumn::new(call.column.clone(), call.ty()),
        }
    };
    calls.iter().map(of).collect()
}

fn key(arguments: &[Value]) -> Result<AdvisoryKey, Failure> {
    match *arguments {
        [Value::Int(key)] => Ok(AdvisoryKey::One(key)),
        // The arguments have been cast to integer.
        [Value::Int(first), Value::Int(second)] => Ok(AdvisoryKey::Two(first as i32, second as i32)),
        _ => Err(wrong(SqlState::INTERNAL_ERROR, "arguments that no advisory lock has")),
    }
}
