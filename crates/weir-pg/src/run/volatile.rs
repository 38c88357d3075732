//! A query of views whose rows are computed when they are read, as pg_stat_activity.

use std::sync::Arc;

use weir_client::{Placed, Prepared, SchemaVersion};
use weir_sql::catalog::Sequence;
use weir_sql::system::{Row, class_number, volatile_row};
use weir_types::value::Array;
use weir_types::{SqlType, Value};

use crate::by_itself::ByItself;
use crate::session::{Session, sql_error};
use crate::statement::Failure;
use crate::watch::Waits;

const SEQUENCES: &str = "weir_sequence_values";
const PLACEMENT: &str = "weir_placement";

/// The query with the rows that these tables have now.
pub(crate) async fn fill(
    session: &mut Session,
    prepared: &Prepared,
    tables: &[&'static str],
) -> Result<Prepared, Failure> {
    let waits = session.client.begin_waits().await.map_err(sql_error)?;
    let wait = |row: Row| match row[..] {
        [Value::Int(tag), Value::Int(holder), Value::Int(since)] => Some((tag, (Some(holder), since))),
        [Value::Int(tag), Value::Null, Value::Int(since)] => Some((tag, (None, since))),
        _ => None,
    };
    let waits: Waits = waits.rows.into_iter().filter_map(wait).collect();
    let sequences = match tables.contains(&SEQUENCES) {
        true => sequence_rows(session).await?,
        false => Vec::new(),
    };
    let placement = match tables.contains(&PLACEMENT) {
        true => placement_rows(&session.schema_version()?),
        false => Vec::new(),
    };
    let front = &session.front;
    let rows = |table: &&'static str| {
        let rows = match *table {
            SEQUENCES => sequences.clone(),
            PLACEMENT => placement.clone(),
            "pg_stat_activity" => front.activity_rows(&waits),
            "pg_stat_statements" => front.statement_rows(),
            "pg_stat_database" => vec![front.database_row(&session.backend)],
            _ => front.lock_rows(&waits),
        };
        (*table, rows)
    };
    Ok(prepared.with_rows(tables.iter().map(rows).collect()))
}

/// Where the rows of each table live, and why; no columns place a table of which every shard has a copy.
fn placement_rows(schema_version: &SchemaVersion) -> Vec<Row> {
    let row = |placed: Placed<'_>| {
        let names = placed.columns.map(|columns| columns.into_iter().map(|name| Value::Text(name.into())));
        let array = |names| Value::Array(Arc::new(Array { element: SqlType::Text, values: names }));
        volatile_row(
            PLACEMENT,
            &[
                ("relid", Value::Int(class_number(placed.table))),
                ("columns", names.map_or(Value::Null, |names| array(names.collect()))),
                ("placed", Value::Text(placed.lives.into())),
            ],
        )
    };
    schema_version.placed().map(row).collect()
}

/// Where each sequence stands: of several shards, at the largest value that one of them has given (the smallest, where it goes
/// down).
async fn sequence_rows(session: &mut Session) -> Result<Vec<Row>, Failure> {
    let schema_version = session.schema_version()?;
    let sequences = schema_version.sequences();
    let mut last: Vec<Option<i64>> = vec![None; sequences.len()];
    let mut set_to = last.clone();
    let own = ByItself::begin(&session.client);
    for shard in 0..schema_version.shards() {
        let told = session.wait_for(|client| client.begin_sequences(own.name(), shard)).await?;
        for one in told.values.chunks(3) {
            let [Value::Int(sequence), Value::Int(value), Value::Int(given)] = *one else { continue };
            let Some(known) = usize::try_from(sequence).ok().filter(|at| *at < last.len()) else {
                continue;
            };
            if given == 0 {
                set_to[known] = Some(value);
                continue;
            }
            let goes_down = sequences[known].increment < 0;
            let farther = |so_far: i64| if goes_down { so_far.min(value) } else { so_far.max(value) };
            last[known] = Some(last[known].map_or(value, farther));
        }
    }
    // It has done nothing.
    drop(own);
    let row = |((sequence, last), set_to): ((&Sequence, &Option<i64>), &Option<i64>)| {
        volatile_row(
            SEQUENCES,
            &[
                ("seqrelid", Value::Int(class_number(&sequence.name))),
                ("last_value", Value::Int(last.or(*set_to).unwrap_or(sequence.start))),
                ("is_called", Value::Bool(last.is_some())),
            ],
        )
    };
    Ok(sequences.iter().zip(&last).zip(&set_to).map(row).collect())
}
