//! EXPLAIN: what a statement or call costs, why, and, with ANALYZE, what it has taken.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_client::{Access, Explained, Prepared, Trace};
use weir_sql::explain::Explain;
use weir_types::{SqlError, SqlState, Value};

use crate::session::Session;
use crate::statement::{Failure, Kind, Statement};

/// Measurements of EXPLAIN ANALYZE.
struct Measured {
    trace: Trace,
    took: Duration,
    rows: u64,
}

/// Output lines.
pub(crate) async fn explain(
    session: &mut Session,
    explain: Explain,
    of: &Statement,
    values: &[Value],
) -> Result<Vec<String>, Failure> {
    let executed;
    let (prepared, values) = match &of.kind {
        Kind::Run(prepared, _) => (prepared, Cow::Borrowed(values)),
        Kind::Declare { query, .. } => (query, Cow::Borrowed(values)),
        Kind::Execute(name, arguments) => {
            let (statement, values) = session.executed(name, arguments.as_ref()).await?;
            executed = statement;
            match &executed.kind {
                Kind::Run(prepared, _) => (prepared, Cow::Owned(values)),
                _ => return Err(nothing_to_explain().into()),
            }
        }
        _ => return Err(nothing_to_explain().into()),
    };
    let bound = session.bound(prepared)?;
    let values = session.with_current_values(prepared, &values)?;
    // It takes as long as an analysis of the application.
    let explained = tokio::task::block_in_place(|| bound.explain(&values))?;
    let open = session.transaction.open_name();
    let explained = if open.is_some() { explained.within_transaction() } else { explained };
    let measured = match explain.analyze {
        true => Some(measure(session, &bound, &values, open).await?),
        false => None,
    };
    let told = Told { explain, explained: &explained, open: open.is_some(), measured: measured.as_ref() };
    Ok(match explain.json {
        true => told.json(),
        false => told.lines(),
    })
}

async fn measure(
    session: &mut Session,
    prepared: &Prepared,
    values: &[Value],
    open: Option<u64>,
) -> Result<Measured, Failure> {
    if prepared.writes() {
        let what = prepared.verb().map_or("CALL".to_owned(), |_| prepared.name().to_uppercase());
        session.settings.refuse_write(&what)?;
    }
    let begun = Instant::now();
    let mut tag = 0;
    let ended = session
        .wait_for(|client| {
            let pending = client.begin_traced(open, prepared, values);
            tag = pending.tag();
            pending
        })
        .await;
    let took = begun.elapsed();
    let trace = session.client.take_trace(tag).unwrap_or_default();
    let ended = ended?;
    session.sequence_values.note(prepared, &ended);
    let rows = prepared.count(&ended);
    Ok(Measured { trace, took, rows })
}

fn nothing_to_explain() -> SqlError {
    let message = "EXPLAIN of a statement that reads and writes nothing";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("SELECT, INSERT, UPDATE, DELETE and CALL can be explained")
}

struct Told<'e> {
    explain: Explain,
    explained: &'e Explained,
    open: bool,
    measured: Option<&'e Measured>,
}

impl Told<'_> {
    /// A call has nothing else to tell.
    fn tells_coordination(&self) -> bool {
        self.explain.coordination || self.explained.what.starts_with("call of ")
    }

    fn tells_time(&self) -> bool {
        self.explain.timing != Some(false) && self.explain.summary != Some(false)
    }

    fn lines(&self) -> Vec<String> {
        let Explained { what, mechanism, shards, of, decides, round_trips, messages, .. } = self.explained;
        let mut lines = vec![capitalised(what)];
        let mut line = |indent: usize, text: String| lines.push(format!("{:indent$}{text}", ""));
        if self.tells_coordination() {
            match self.open && *mechanism != "read" {
                true => line(
                    2,
                    format!(
                        "Mechanism: open transaction, which holds what it writes until its end (by itself: {mechanism})"
                    ),
                ),
                false => line(2, format!("Mechanism: {mechanism}")),
            }
        }
        let decides = decides.map_or(String::new(), |shard| format!("; shard {shard} decides"));
        line(2, format!("Shards: {} of {of}{decides}", list(shards)));
        if self.tells_coordination() {
            line(2, format!("Round Trips: {round_trips}"));
            line(2, format!("Messages: {messages}"));
        }
        for query in &self.explained.before {
            line(
                2,
                "First: a query of what it asks for, and of the keys of the rows that it writes".to_owned(),
            );
            line(4, format!("Shards: {} of {}", list(&query.shards), query.of));
            if self.tells_coordination() {
                line(4, format!("Round Trips: {}", query.round_trips));
                line(4, format!("Messages: {}", query.messages));
            }
            query.accesses.iter().for_each(|access| line(4, accessed(access, &query.shards)));
        }
        self.explained.accesses.iter().for_each(|access| line(2, accessed(access, shards)));
        if self.tells_coordination() {
            for (table, lives) in &self.explained.lives {
                line(2, format!("Rows of {table}: {lives}"));
            }
            let mut told = BTreeSet::new();
            // Several statements may take the same.
            for guard in
                self.explained.guards.iter().filter(|one| told.insert((one.kind, &one.on, one.shared)))
            {
                let shared = if guard.shared { ", shared" } else { "" };
                line(2, format!("Guard: {} on {}{shared}", guard.kind, guard.on));
                if !guard.keeps.is_empty() {
                    line(4, format!("Keeps: {}", guard.keeps.join(", ")));
                }
                line(4, format!("Why: {}", guard.why));
            }
            line(2, format!("Why: {}", self.explained.why));
            for reason in &self.explained.reasons {
                let beside =
                    reason.beside.as_ref().map_or(String::new(), |beside| format!(" beside {beside}"));
                line(2, format!("Not Without Coordination: {}{beside}", reason.name));
                line(4, format!("It {}. {}", reason.operation, reason.because));
                line(
                    4,
                    format!(
                        "See: weir explain {}; two executions that show it: weir analyze DIRECTORY",
                        reason.finding
                    ),
                );
            }
        }
        if let Some(Measured { trace, took, rows }) = self.measured {
            let shards: Vec<u16> = trace.shards.iter().copied().collect();
            line(
                2,
                format!(
                    "Measured: round trips={} messages={} shards={} retries={} waits={} repeats={} rows={rows}",
                    trace.round_trips,
                    trace.messages,
                    list(&shards).replace(", ", ","),
                    trace.retries,
                    trace.waits,
                    trace.repeats
                ),
            );
            if self.tells_time() {
                line(0, format!("Execution Time: {:.3} ms", took.as_secs_f64() * 1e3));
            }
        }
        lines
    }

    fn json(&self) -> Vec<String> {
        let explained = self.explained;
        let mut plan = outline(explained);
        if !explained.before.is_empty() {
            plan["first"] = explained.before.iter().map(outline).collect();
        }
        if self.tells_coordination() {
            for (at, query) in explained.before.iter().enumerate() {
                plan["first"][at]["round_trips"] = json!(query.round_trips);
                plan["first"][at]["messages"] = json!(query.messages);
            }
            let guards = explained.guards.iter().map(|guard| {
                let (keeps, why) = (&guard.keeps, &guard.why);
                json!({"kind": guard.kind, "on": guard.on, "shared": guard.shared, "keeps": keeps, "why": why})
            });
            let reasons = explained.reasons.iter().map(|reason| {
                json!({"invariant": reason.name, "beside": reason.beside, "operation": reason.operation,
                    "because": reason.because, "finding": reason.finding})
            });
            plan["mechanism"] = json!(explained.mechanism);
            plan["in_transaction"] = json!(self.open);
            plan["decides"] = json!(explained.decides);
            plan["round_trips"] = json!(explained.round_trips);
            plan["messages"] = json!(explained.messages);
            plan["guards"] = guards.collect();
            let lives = explained.lives.iter().map(|(table, lives)| json!({"table": table, "rows": lives}));
            plan["placement"] = lives.collect();
            plan["why"] = json!(explained.why);
            plan["not_without_coordination"] = reasons.collect();
        }
        if let Some(Measured { trace, took, rows }) = self.measured {
            plan["measured"] = json!({"round_trips": trace.round_trips, "messages": trace.messages,
                "shards": trace.shards, "retries": trace.retries, "waits": trace.waits, "rows": rows});
            if self.tells_time() {
                plan["measured"]["execution_time_ms"] = json!(took.as_secs_f64() * 1e3);
            }
        }
        let document = serde_json::to_string_pretty(&json!([plan])).unwrap_or_default();
        vec![document]
    }
}

/// Kind of the statement, and the shards of its accesses.
fn outline(explained: &Explained) -> Json {
    let access = |access: &Access| {
        let shards = access.shards.as_ref().unwrap_or(&explained.shards);
        json!({"table": access.table, "index": access.index, "columns": access.columns, "shards": shards})
    };
    json!({
        "statement": explained.what,
        "shards": explained.shards,
        "of": explained.of,
        "accesses": explained.accesses.iter().map(access).collect::<Vec<Json>>(),
    })
}

/// `shards`: of the statement.
fn accessed(access: &Access, shards: &[u16]) -> String {
    let on = access.shards.as_ref().filter(|on| *on != shards);
    let on = on.map_or(String::new(), |on| format!(", on shards {}", list(on)));
    format!("->  {}{on}", access.in_words())
}

fn list(shards: &[u16]) -> String {
    match shards {
        [] => "none".to_owned(),
        _ => shards.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
