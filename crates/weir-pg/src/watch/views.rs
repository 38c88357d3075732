//! Rows of pg_stat_activity and similar views, computed when they are read; and signals between sessions.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_client::Prepared;
use weir_sql::catalog::Sequence;
use weir_sql::session::{Signal, SignalKind};
use weir_sql::system::{Row, class_number, volatile_row};
use weir_types::{SqlState, Value};

use crate::session::{Session, Transaction, sql_error};
use crate::statement::Failure;

const SEQUENCES: &str = "weir_sequence_values";

/// From the Unix epoch to PostgreSQL's.
const EPOCH_US: i64 = 946_684_800_000_000;

fn instant_of_system(at: SystemTime) -> Value {
    let us = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    Value::Timestamp(us - EPOCH_US)
}

/// One moment on both clocks. Instants are converted by the same one, so that they keep their order.
#[derive(Clone, Copy)]
struct Moment(SystemTime, Instant);

impl Moment {
    fn now() -> Moment {
        Moment(SystemTime::now(), Instant::now())
    }

    /// The instant on the wall clock.
    fn time(self, at: Option<Instant>) -> Value {
        let Moment(wall, instant) = self;
        let at = at.and_then(|at| wall.checked_sub(instant.saturating_duration_since(at)));
        at.map_or(Value::Null, instant_of_system)
    }
}

/// By the tag of a statement that waits: for which open transaction, if that is one of this front end, and since when.
type Waits = BTreeMap<i64, (Option<i64>, i64)>;

impl Session {
    /// The query with the rows that these tables have now.
    pub(crate) async fn fill(
        &self,
        prepared: &Prepared,
        tables: &[&'static str],
    ) -> Result<Prepared, Failure> {
        let waits = self.client.begin_waits().await.map_err(sql_error)?;
        let wait = |row: Row| match row[..] {
            [Value::Int(tag), Value::Int(holder), Value::Int(since)] => Some((tag, (Some(holder), since))),
            [Value::Int(tag), Value::Null, Value::Int(since)] => Some((tag, (None, since))),
            _ => None,
        };
        let waits: Waits = waits.rows.into_iter().filter_map(wait).collect();
        let sequences = match tables.contains(&SEQUENCES) {
            true => self.sequence_rows().await?,
            false => Vec::new(),
        };
        let rows = |table: &&'static str| {
            let rows = match *table {
                SEQUENCES => sequences.clone(),
                "pg_stat_activity" => self.activity_rows(&waits),
                "pg_stat_statements" => self.statement_rows(),
                "pg_stat_database" => vec![self.database_row()],
                _ => self.lock_rows(&waits),
            };
            (*table, rows)
        };
        Ok(prepared.with_rows(tables.iter().map(rows).collect()))
    }

    /// Where each sequence stands: of several shards, at the largest value that one of them has given (the smallest, where it goes
    /// down).
    async fn sequence_rows(&self) -> Result<Vec<Row>, Failure> {
        let schema_version = self.schema_version()?;
        let sequences = schema_version.sequences();
        let mut last: Vec<Option<i64>> = vec![None; sequences.len()];
        let mut set_to = last.clone();
        let own = self.by_itself();
        for shard in 0..schema_version.shards() {
            let told = self.wait_for(|client| client.begin_sequences(own.name(), shard)).await?;
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

    fn open_transaction(&self) -> Option<i64> {
        match *self.transaction() {
            Transaction::Open { name, .. } => Some(name as i64),
            Transaction::None | Transaction::Failed { .. } => None,
        }
    }

    /// Name of its statement among the waits.
    fn statement_tag(&self) -> Option<i64> {
        self.in_flight.tag().map(|tag| tag as i64)
    }

    fn activity_rows(&self, waits: &Waits) -> Vec<Row> {
        let read = Moment::now();
        let row = |(pid, session): (i32, std::sync::Arc<Session>)| {
            let facts = session.facts.get()?;
            let origin = session.origin.get()?;
            let now = session.activity.now();
            let is_waiting = session.statement_tag().is_some_and(|tag| waits.contains_key(&tag));
            let if_waiting = |word: &str| if is_waiting { Value::text(word) } else { Value::Null };
            let application = session.values().get("application_name").unwrap_or_default();
            Some(volatile_row(
                "pg_stat_activity",
                &[
                    ("datname", Value::text(&facts.database)),
                    ("pid", Value::Int(pid.into())),
                    ("usename", Value::text(&facts.user)),
                    ("application_name", Value::text(application)),
                    ("client_addr", Value::text(origin.address.ip().to_string())),
                    ("client_port", Value::Int(origin.address.port().into())),
                    ("backend_start", instant_of_system(origin.since)),
                    ("xact_start", read.time(now.transaction_since)),
                    ("query_start", read.time(now.statement_since)),
                    ("state_change", read.time(now.phase_since)),
                    ("wait_event_type", if_waiting("Lock")),
                    ("wait_event", if_waiting("transactionid")),
                    ("state", Value::text(now.phase.name())),
                    ("query", Value::text(now.statement.as_deref().unwrap_or_default())),
                ],
            ))
        };
        self.front.sessions.all().into_iter().filter_map(row).collect()
    }

    fn statement_rows(&self) -> Vec<Row> {
        let all = self.front.statements.all();
        let called = all.iter().filter(|one| one.count.get() > 0);
        called
            .map(|one| {
                let [total, min, max] = one.times_ms();
                let count = one.count.get();
                volatile_row(
                    "pg_stat_statements",
                    &[
                        ("queryid", Value::Int(one.number as i64)),
                        ("query", Value::text(&one.text)),
                        ("calls", Value::Int(count as i64)),
                        ("total_exec_time", Value::Float8(total)),
                        ("min_exec_time", Value::Float8(min)),
                        ("max_exec_time", Value::Float8(max)),
                        ("mean_exec_time", Value::Float8(total / count as f64)),
                        ("rows", Value::Int(one.rows.get() as i64)),
                    ],
                )
            })
            .collect()
    }

    fn database_row(&self) -> Row {
        let front = &self.front;
        let count = |count: u64| Value::Int(count as i64);
        let rows = |name: &str| count(front.kinds.rows(name));
        let database = self.facts.get().map_or("", |facts| facts.database.as_str());
        volatile_row(
            "pg_stat_database",
            &[
                ("datname", Value::text(database)),
                ("numbackends", Value::Int(front.sessions.all().len() as i64)),
                ("xact_commit", count(front.transactions.commits.get())),
                ("xact_rollback", count(front.transactions.rollbacks.get())),
                ("tup_returned", rows("select")),
                ("tup_fetched", rows("select")),
                ("tup_inserted", rows("insert")),
                ("tup_updated", rows("update")),
                ("tup_deleted", rows("delete")),
                ("deadlocks", count(front.kinds.errors(SqlState::DEADLOCK_DETECTED))),
                ("stats_reset", instant_of_system(front.since)),
            ],
        )
    }

    /// Rows of pg_locks for holders that are waited for, and for waiters.
    fn lock_rows(&self, waits: &Waits) -> Vec<Row> {
        let sessions = self.front.sessions.all();
        let by = |key: fn(&Session) -> Option<i64>| -> BTreeMap<i64, i32> {
            sessions.iter().filter_map(|(pid, session)| Some((key(session)?, *pid))).collect()
        };
        let (by_name, by_tag) = (by(Session::open_transaction), by(Session::statement_tag));
        let pid = |of: &BTreeMap<i64, i32>, key: i64| {
            of.get(&key).map_or(Value::Null, |pid| Value::Int((*pid).into()))
        };
        let holders: std::collections::BTreeSet<i64> =
            waits.values().filter_map(|(holder, _)| *holder).collect();
        let held = holders.into_iter().map(|holder| {
            let of = [("transactionid", Value::Int(holder)), ("pid", pid(&by_name, holder))];
            let how = [("mode", Value::text("ExclusiveLock")), ("granted", Value::Bool(true))];
            volatile_row("pg_locks", &[of, how].concat())
        });
        let waiting = waits.iter().map(|(tag, (holder, since_ms))| {
            let holder = holder.map_or(Value::Null, Value::Int);
            let since = Value::Timestamp(since_ms * 1_000 - EPOCH_US);
            let of = [("transactionid", holder), ("pid", pid(&by_tag, *tag)), ("waitstart", since)];
            let how = [("mode", Value::text("ShareLock")), ("granted", Value::Bool(false))];
            volatile_row("pg_locks", &[&of[..], &how].concat())
        });
        held.chain(waiting).collect()
    }

    /// Tells the processes whose numbers stand in the rows, and puts there whether there is such a one.
    pub(crate) fn signal(&self, signals: &[Signal], rows: &mut [Row]) {
        for row in rows {
            for signal in signals {
                self.signal_one(signal, row);
            }
        }
    }

    fn signal_one(&self, signal: &Signal, row: &mut Row) {
        let Some(value) = row.get_mut(signal.column) else { return };
        let Value::Int(number) = *value else { return };
        let session = i32::try_from(number).ok().and_then(|number| self.front.sessions.get(number));
        *value = Value::Bool(session.is_some());
        match (signal.kind, session) {
            (SignalKind::Cancel, Some(session)) => session.cancel(),
            (SignalKind::Terminate, Some(session)) => session.terminate(),
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_of_one_view_keep_their_distance() {
        let (read, since) = (Moment::now(), Instant::now().checked_sub(Duration::from_secs(60)));
        let later = |us: u64| since.map(|since| since + Duration::from_micros(us));
        let us = |at| match read.time(at) {
            Value::Timestamp(us) => us,
            other => panic!("{other:?}"),
        };
        for distance in 0..1_000 {
            assert_eq!(us(later(distance)) - us(later(0)), distance as i64);
        }
    }
}
