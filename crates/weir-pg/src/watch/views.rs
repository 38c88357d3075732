//! Rows of pg_stat_activity and similar views, computed when they are read; and signals between sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_sql::session::{Signal, SignalKind};
use weir_sql::system::{Row, volatile_row};
use weir_types::{SqlState, Value};

use super::FrontEnd;
use crate::backend::Backend;

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
pub(crate) type Waits = BTreeMap<i64, (Option<i64>, i64)>;

impl FrontEnd {
    pub(crate) fn activity_rows(&self, waits: &Waits) -> Vec<Row> {
        let read = Moment::now();
        let row = |(pid, session): (i32, Arc<Backend>)| {
            let facts = session.facts.get()?;
            let origin = session.origin.get()?;
            let now = session.activity.now();
            let is_waiting = session.statement_tag().is_some_and(|tag| waits.contains_key(&tag));
            let if_waiting = |word: &str| if is_waiting { Value::text(word) } else { Value::Null };
            let application = now.application.as_deref().unwrap_or_default();
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
        self.sessions.all().into_iter().filter_map(row).collect()
    }

    pub(crate) fn statement_rows(&self) -> Vec<Row> {
        let all = self.statements.all();
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

    pub(crate) fn database_row(&self, backend: &Backend) -> Row {
        let count = |count: u64| Value::Int(count as i64);
        let rows = |name: &str| count(self.kinds.rows(name));
        let database = backend.facts.get().map_or("", |facts| facts.database.as_str());
        volatile_row(
            "pg_stat_database",
            &[
                ("datname", Value::text(database)),
                ("numbackends", Value::Int(self.sessions.all().len() as i64)),
                ("xact_commit", count(self.transactions.commits.get())),
                ("xact_rollback", count(self.transactions.rollbacks.get())),
                ("tup_returned", rows("select")),
                ("tup_fetched", rows("select")),
                ("tup_inserted", rows("insert")),
                ("tup_updated", rows("update")),
                ("tup_deleted", rows("delete")),
                ("deadlocks", count(self.kinds.errors(SqlState::DEADLOCK_DETECTED))),
                ("stats_reset", instant_of_system(self.since)),
            ],
        )
    }

    /// Rows of pg_locks for holders that are waited for, and for waiters.
    pub(crate) fn lock_rows(&self, waits: &Waits) -> Vec<Row> {
        let sessions = self.sessions.all();
        let by = |key: fn(&Backend) -> Option<i64>| -> BTreeMap<i64, i32> {
            sessions.iter().filter_map(|(pid, session)| Some((key(session)?, *pid))).collect()
        };
        let (by_name, by_tag) = (by(Backend::open_transaction), by(Backend::statement_tag));
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
        let session = i32::try_from(number).ok().and_then(|number| self.sessions.get(number));
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
