//! Recorded loads: one line of JSON for each transaction, with its client, when it began, its statements and their values.
//!
//! ```json
//! {"setup": "CREATE TABLE kv (k integer PRIMARY KEY, v bigint NOT NULL)"}
//! {"client": 0, "start_us": 120, "statement": "SELECT v FROM kv WHERE k = $1", "values": [5]}
//! {"client": 1, "start_us": 130.5, "call": "increment_1", "values": [7], "objects": [7]}
//! {"client": 0, "start_us": 900, "name": "move", "transaction": [{"statement": "…", "values": [1, "a", null]}, {"statement": "…"}]}
//! ```
//!
//! Lines with `setup` come first and are run before the load, where servers are started for it. `objects` are what the transaction accesses, as
//! numbers: with them a replay has a Contention Level.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::connection::{Connection, Refused, Value};
use crate::workload::{Acknowledged, Definition, Planned, Plans, State, Way, Workload, Wrong};

/// A line of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_us: Option<f64>,
    /// The kind that it counts as; by default the procedure, or the statement's first word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Json>,
    /// BEGIN, these statements, COMMIT.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transaction: Vec<Step>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<u64>,
}

/// A statement of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub statement: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Json>,
}

/// A recorded transaction.
#[derive(Clone, Debug)]
struct Recorded {
    kind: usize,
    begin_ns: u64,
    /// Statement and values, in order.
    steps: Vec<(usize, Vec<Value>)>,
    is_transaction: bool,
    objects: Vec<u64>,
}

/// A recorded load as a workload. What it leaves in the tables is not checked: a trace does not say what that should be.
#[derive(Debug)]
pub struct Trace {
    setup: Vec<String>,
    kinds: Vec<&'static str>,
    statements: Vec<String>,
    /// By client, each in the order of its times.
    clients: Vec<Vec<Recorded>>,
    /// Clients of the replay.
    threads: usize,
}

const RIGHT: &str = "a line is {\"client\": 0, \"start_us\": 120, \"statement\": \"…\", \"values\": […]}, or has \"call\" or \"transaction\" instead of \
                     \"statement\", or is {\"setup\": \"…\"}";

impl Trace {
    /// Reads a trace. `file` is its name, for messages.
    ///
    /// # Errors
    /// A line is wrong: which, and what would be right.
    pub fn parse(file: &str, text: &str, threads: Option<usize>) -> Result<Trace, Wrong> {
        let mut reading = Reading::default();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let wrong = |why: String| Wrong::new(format!("{file}:{number}: {why}"), RIGHT);
            let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            reading.line(line).map_err(wrong)?;
        }
        let mut clients: Vec<Vec<Recorded>> = reading.clients.into_values().collect();
        if clients.is_empty() {
            return Err(Wrong::new(format!("{file}: there is no transaction in it"), RIGHT));
        }
        clients.iter_mut().for_each(|own| own.sort_by_key(|one| one.begin_ns));
        let threads = threads.unwrap_or(clients.len()).min(clients.len());
        // Names are kept for the life of the program: it has few traces.
        let kinds = reading.kinds.into_iter().map(|name| &*name.leak()).collect();
        Ok(Trace { setup: reading.setup, kinds, statements: reading.statements, clients, threads })
    }

    /// Connections of the replay: those of the recording, or as many as were asked for.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

#[derive(Default)]
struct Reading {
    setup: Vec<String>,
    kinds: Vec<String>,
    statements: Vec<String>,
    clients: BTreeMap<u64, Vec<Recorded>>,
}

/// Place of a text in the list, to which it is added if it is not there.
fn place(list: &mut Vec<String>, text: String) -> usize {
    list.iter().position(|one| *one == text).unwrap_or_else(|| {
        list.push(text);
        list.len() - 1
    })
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::Text(number.to_string()),
        },
        other => Value::Text(other.to_string()),
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => json!(number),
        Value::Text(text) => json!(text),
    }
}

impl Reading {
    fn line(&mut self, line: Line) -> Result<(), String> {
        let Line { setup, client, start_us, name, call, statement, values, transaction, objects } = line;
        if let Some(text) = setup {
            self.setup.push(text);
            return Ok(());
        }
        let client = client.ok_or("`client` is missing")?;
        let start_us = start_us.filter(|start_us| *start_us >= 0.0);
        let start_us = start_us.ok_or("`start_us` is missing, or below 0")?;
        let is_transaction = !transaction.is_empty();
        let (steps, own_name) = match (call, statement, is_transaction) {
            (Some(call), None, false) => {
                let placeholders = crate::schema::placeholders(values.len());
                (vec![Step { statement: format!("CALL {call}({placeholders})"), values }], call)
            }
            (None, Some(statement), false) => {
                let first = statement.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
                (vec![Step { statement, values }], first)
            }
            (None, None, true) if values.is_empty() => (transaction, "transaction".to_owned()),
            _ => return Err("it has not exactly one of `call`, `statement` and `transaction`".to_owned()),
        };
        let kind = place(&mut self.kinds, name.unwrap_or(own_name));
        let steps = steps
            .into_iter()
            .map(|step| {
                (place(&mut self.statements, step.statement), step.values.iter().map(value).collect())
            })
            .collect();
        let begin_ns = (start_us * 1e3) as u64;
        self.clients.entry(client).or_default().push(Recorded {
            kind,
            begin_ns,
            steps,
            is_transaction,
            objects,
        });
        Ok(())
    }
}

/// Transactions of one connection of the replay; its values are the places of the recorded one.
struct TracePlans {
    transactions: std::vec::IntoIter<Planned>,
}

impl Plans for TracePlans {
    fn plan(&mut self) -> Option<Planned> {
        self.transactions.next()
    }
}

impl Workload for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        let count: usize = self.clients.iter().map(Vec::len).sum();
        vec![("recorded_clients", json!(self.clients.len())), ("recorded_transactions", json!(count))]
    }

    fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    fn procedure(&self, kind: &str) -> Option<String> {
        let called = self.statements.iter().any(|text| text.starts_with(&format!("CALL {kind}(")));
        called.then(|| kind.to_owned())
    }

    fn definition(&self) -> Definition {
        Definition::default()
    }

    fn rows(&self) -> Vec<String> {
        self.setup.clone()
    }

    fn statements(&self, _: Way) -> Vec<String> {
        self.statements.clone()
    }

    fn plans(&self, _: u64, number: u64) -> Box<dyn Plans> {
        let own =
            self.clients.iter().enumerate().filter(|(client, _)| (*client % self.threads) as u64 == number);
        let planned = |(client, place, one): (usize, usize, &Recorded)| Planned {
            kind: one.kind,
            values: vec![Value::Integer(client as i64), Value::Integer(place as i64)],
            accesses: one.objects.clone(),
            written: Vec::new(),
            is_writer: one.is_transaction,
            recorded_ns: Some(one.begin_ns),
        };
        let all = own
            .flat_map(|(client, own)| own.iter().enumerate().map(move |(place, one)| (client, place, one)));
        let mut transactions: Vec<Planned> = all.map(planned).collect();
        transactions.sort_by_key(|planned| planned.recorded_ns);
        Box::new(TracePlans { transactions: transactions.into_iter() })
    }

    fn attempt(&self, _: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        let [Value::Integer(client), Value::Integer(place)] = planned.values[..] else {
            return Err(Refused::Failed("no transaction of a trace".to_owned()));
        };
        let one = &self.clients[client as usize][place as usize];
        if one.is_transaction {
            connection.begin(true)?;
        }
        for (statement, values) in &one.steps {
            connection.run(*statement, values)?;
        }
        if one.is_transaction {
            connection.commit()?;
        }
        Ok(0)
    }

    fn state(&self) -> Vec<String> {
        Vec::new()
    }

    fn check(&self, _: &State, _: &State, _: &Acknowledged) -> Result<(), String> {
        Ok(())
    }

    fn wants_a_fresh_server(&self) -> bool {
        true
    }

    fn spread(&self) -> Option<Box<dyn Workload>> {
        None
    }
}

/// A connection that keeps what is run over it.
pub struct Recorder<'c> {
    inner: &'c mut dyn Connection,
    steps: Vec<(usize, Vec<Value>)>,
    is_transaction: bool,
}

impl<'c> Recorder<'c> {
    pub fn new(inner: &'c mut dyn Connection) -> Recorder<'c> {
        Recorder { inner, steps: Vec::new(), is_transaction: false }
    }

    /// The line of a transaction that has run over it.
    pub fn line(
        self,
        client: u64,
        begin_ns: u64,
        name: &str,
        objects: Vec<u64>,
        statements: &[String],
    ) -> Line {
        let mut steps: Vec<Step> = self
            .steps
            .into_iter()
            .map(|(statement, values)| Step {
                statement: statements[statement].clone(),
                values: values.iter().map(json_of).collect(),
            })
            .collect();
        let mut line = Line {
            client: Some(client),
            start_us: Some(begin_ns as f64 / 1e3),
            name: Some(name.to_owned()),
            objects,
            ..Line::default()
        };
        match steps.pop() {
            Some(step) if !self.is_transaction && steps.is_empty() => {
                line.statement = Some(step.statement);
                line.values = step.values;
            }
            last => {
                steps.extend(last);
                line.transaction = steps;
            }
        }
        line
    }
}

impl Connection for Recorder<'_> {
    fn begin(&mut self, is_writer: bool) -> Result<(), Refused> {
        self.is_transaction = true;
        self.inner.begin(is_writer)
    }

    fn query(&mut self, statement: usize, values: &[Value]) -> Result<Vec<Vec<Option<i64>>>, Refused> {
        self.steps.push((statement, values.to_vec()));
        self.inner.query(statement, values)
    }

    fn commit(&mut self) -> Result<(), Refused> {
        self.inner.commit()
    }

    fn rollback(&mut self) -> Result<(), String> {
        self.inner.rollback()
    }

    fn execute(&mut self, text: &str) -> Result<(), String> {
        self.inner.execute(text)
    }

    fn rows(&mut self, text: &str) -> Result<Vec<Vec<i64>>, String> {
        self.inner.rows(text)
    }
}

/// The first lines of a trace of a workload: its tables with their indexes, its procedures if they are called, its rows.
pub fn setup(workload: &dyn Workload, way: Way) -> Vec<Line> {
    let definition = workload.definition();
    let tables = definition.tables.into_iter().map(|(_, text)| text).chain(definition.indexes);
    let procedures = (way == Way::Calls).then_some(definition.procedures);
    let texts = tables.chain(procedures).chain(workload.rows());
    texts.map(|text| Line { setup: Some(text), ..Line::default() }).collect()
}

/// Lines as the text of a file.
pub fn text(lines: &[Line]) -> String {
    let line = |line: &Line| serde_json::to_string(line).expect("texts and numbers can be written") + "\n";
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"setup": "CREATE TABLE kv (k integer)"}
{"client": 4, "start_us": 900, "name": "move", "transaction": [{"statement": "UPDATE a", "values": [1, "a", null]}, {"statement": "UPDATE b"}]}
{"client": 4, "start_us": 120, "statement": "SELECT v FROM kv WHERE k = $1", "values": [5]}

{"client": 9, "start_us": 130.5, "call": "increment_1", "values": [7], "objects": [7]}
"#;

    fn parsed(text: &str, threads: Option<usize>) -> Trace {
        Trace::parse("load.jsonl", text, threads).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn each_client_has_its_transactions_in_the_order_of_their_times() {
        let trace = parsed(TEXT, None);
        assert_eq!((trace.threads(), trace.rows()), (2, vec!["CREATE TABLE kv (k integer)".to_owned()]));
        assert_eq!(trace.kinds(), ["move", "select", "increment_1"]);
        assert_eq!(trace.statements[3], "CALL increment_1($1)");
        let times = |trace: &Trace, number| {
            let mut plans = trace.plans(1, number);
            std::iter::from_fn(|| plans.plan()).filter_map(|planned| planned.recorded_ns).collect::<Vec<_>>()
        };
        assert_eq!((times(&trace, 0), times(&trace, 1)), (vec![120_000, 900_000], vec![130_500]));
        let one = parsed(TEXT, Some(1));
        assert_eq!(times(&one, 0), [120_000, 130_500, 900_000]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, what) in [
            ("{", "load.jsonl:1: EOF"),
            (r#"{"client": 1, "start_us": 1}"#, "not exactly one of"),
            (r#"{"client": 1, "start_us": 1, "call": "a", "statement": "b"}"#, "not exactly one of"),
            (r#"{"start_us": 1, "call": "a"}"#, "`client` is missing"),
            (r#"{"client": 1, "start_us": -1, "call": "a"}"#, "`start_us` is missing, or below 0"),
            (r#"{"client": 1, "start_us": 1, "cal": "a"}"#, "unknown field `cal`"),
            (r#"{"setup": "SELECT 1"}"#, "no transaction in it"),
        ] {
            let Err(wrong) = Trace::parse("load.jsonl", line, None) else { panic!("{what}") };
            assert!(wrong.what.contains(what) && wrong.hint.contains("start_us"), "{wrong}");
        }
    }

    /// Takes everything.
    struct Willing;

    impl Connection for Willing {
        fn begin(&mut self, _: bool) -> Result<(), Refused> {
            Ok(())
        }
        fn query(&mut self, _: usize, _: &[Value]) -> Result<Vec<Vec<Option<i64>>>, Refused> {
            Ok(vec![vec![Some(7)]])
        }
        fn commit(&mut self) -> Result<(), Refused> {
            Ok(())
        }
        fn rollback(&mut self) -> Result<(), String> {
            Ok(())
        }
        fn execute(&mut self, _: &str) -> Result<(), String> {
            Ok(())
        }
        fn rows(&mut self, _: &str) -> Result<Vec<Vec<i64>>, String> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let trace = parsed(TEXT, None);
        let statements = trace.statements(Way::Statements);
        let mut lines = vec![Line { setup: trace.setup.first().cloned(), ..Line::default() }];
        for number in 0..2 {
            let mut plans = trace.plans(1, number);
            while let Some(planned) = plans.plan() {
                let mut willing = Willing;
                let mut recorder = Recorder::new(&mut willing);
                assert_eq!(trace.attempt(Way::Statements, &mut recorder, &planned), Ok(0));
                let begin_ns = planned.recorded_ns.unwrap_or_default();
                let kind = trace.kinds()[planned.kind];
                lines.push(recorder.line(number, begin_ns, kind, planned.accesses, &statements));
            }
        }
        let again = parsed(&text(&lines), None);
        let steps = |trace: &Trace| {
            let all = trace.clients.iter().flatten();
            let texts = all.map(|one| {
                let steps = one
                    .steps
                    .iter()
                    .map(|(number, values)| (trace.statements[*number].clone(), values.clone()));
                (one.begin_ns, one.is_transaction, one.objects.clone(), steps.collect::<Vec<_>>())
            });
            texts.collect::<Vec<_>>()
        };
        assert_eq!((steps(&again), again.setup.clone()), (steps(&trace), trace.setup.clone()));
    }
}
