//! Service times of a real server: the processor time of all its processes for each operation and for each step of the protocols.
//!
//! One client calls, so that nothing waits. Processor time is that of the scheduler (`/proc/PID/schedstat`), summed over the server and its
//! children, so that the writers in the background count, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_bench::postgres::Server;
use weir_bench::{Call, CallGenerator, Spread};
use weir_conveyor::matching::Class;
use weir_conveyor::message::OperationId;
use weir_conveyor::schema::Sql;
use weir_conveyor::token::Visit;
use weir_conveyor::work::{Done, License, Work};
use weir_conveyor_net::alone::Alone;
use weir_conveyor_net::connection::{Connection, install};
use weir_conveyor_net::operation::{Job, Operation, SqlWork, StateUpdate};
use weir_conveyor_scale::costs::{self, Home, Steps};

use crate::application::Bench;
use crate::servers::{connect, said};
use crate::{calls, servers, spread};

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Calls of each operation, at most; fewer of slow ones.
    pub calls: usize,
    pub steps: usize,
}

impl Effort {
    pub const FULL: Effort = Effort { calls: 600, steps: 400 };
    pub const QUICK: Effort = Effort { calls: 30, steps: 60 };
}

/// An operation is called until it has taken so long.
const SECONDS_MAX: f64 = 6.0;
/// Calls that are not counted.
const WARM_UP: usize = 10;
/// The median of so many parts of a measurement counts: others use the machine, too.
const CHUNKS: usize = 15;
/// Steps are measured so often, each time with new servers.
const ROUNDS: usize = 5;
/// Calls that are drawn to find some of each operation.
const DRAWN_MAX: usize = 200_000;

fn median(values: Vec<f64>) -> f64 {
    Spread::of(values).map_or(0.0, |spread| spread.median)
}

/// Nanoseconds of processor time of a server and its children.
fn processor_ns(server: u32) -> Result<u64, String> {
    let read = |path: String| std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"));
    let children = read(format!("/proc/{server}/task/{server}/children"))?;
    let all = children.split_whitespace().map(str::to_owned).chain([server.to_string()]);
    let mut sum = 0;
    for id in all {
        // A child may have ended meanwhile.
        sum += processor_of(&id).unwrap_or(0);
    }
    Ok(sum)
}

/// Nanoseconds of processor time of a process' first thread; of this one, if it is `self`.
fn processor_of(process: &str) -> Result<u64, String> {
    let path = match process {
        "self" => "/proc/thread-self/schedstat".to_owned(),
        process => format!("/proc/{process}/schedstat"),
    };
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0))
}

/// A server that is measured.
struct Measured {
    server: Server,
    connection: Connection,
}

/// Repeated work, in microseconds: medians of the means of its parts.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    processor_us: f64,
    elapsed_us: f64,
    /// How often it ran, warm-up included.
    turns: usize,
}

/// Until a process that has answered waits for the next request.
const SETTLED: Duration = Duration::from_micros(100);

fn settings(fsync: &'static str) -> [&'static str; 3] {
    [fsync, "autovacuum=off", "max_prepared_transactions=10"]
}

impl Measured {
    fn start(bench: &Bench, fsync: &'static str) -> Result<Measured, String> {
        let server = servers::start(bench, &settings(fsync))?;
        let connection = Connection::open(&server.connection_string(), Arc::default()).map_err(said)?;
        Ok(Measured { server, connection })
    }

    /// Runs something so many times, and measures it. It stops early where it takes long.
    fn mean(&self, times: usize, mut run: impl FnMut(usize) -> Result<(), String>) -> Result<Mean, String> {
        let warm_up = WARM_UP.min(times / 2);
        for turn in 0..warm_up {
            run(turn)?;
        }
        let (begin, mut done) = (Instant::now(), 0);
        let (mut processor, mut elapsed) = (Vec::new(), Vec::new());
        while done < times && (done == 0 || begin.elapsed().as_secs_f64() < SECONDS_MAX) {
            let chunk = times.div_ceil(CHUNKS).min(times - done);
            let (before, chunk_begin) = (processor_ns(self.server.process_id())?, Instant::now());
            for turn in done..done + chunk {
                run(warm_up + turn)?;
            }
            elapsed.push(chunk_begin.elapsed().as_nanos() as f64 / 1e3 / chunk as f64);
            let used = processor_ns(self.server.process_id())?.saturating_sub(before);
            processor.push(used as f64 / 1e3 / chunk as f64);
            done += chunk;
        }
        Ok(Mean { processor_us: median(processor), elapsed_us: median(elapsed), turns: warm_up + done })
    }

    /// Runs works, one after the other.
    fn works(&mut self, works: &[SqlWork]) -> Result<Mean, String> {
        let mut connection =
            Connection::open(&self.server.connection_string(), Arc::default()).map_err(said)?;
        std::mem::swap(&mut connection, &mut self.connection);
        let mean = self.mean(works.len() * 10 / 11, |turn| {
            let work = &works[turn % works.len()];
            match connection.run(work) {
                Done::Lost => Err(connection.last_error().unwrap_or("the connection is lost").to_owned()),
                // What fails costs something else.
                Done::Executed(Err(error)) => Err(error.message),
                Done::WrongMap | Done::NotLicensed | Done::SerializationFailure | Done::Cancelled => {
                    Err("an operation has not run".to_owned())
                }
                _ => Ok(()),
            }
        });
        self.connection = connection;
        mean
    }
}

/// Costs of all operations of an application, and notes.
///
/// # Errors
/// PostgreSQL's, or an operation whose spread nobody has said.
pub fn operations(
    bench: &Bench,
    mixes: &[Vec<u64>],
    effort: Effort,
) -> Result<Vec<costs::Operation>, String> {
    let calls = drawn(bench, effort.calls + WARM_UP)?;
    let plain = Measured::start(bench, "fsync=off")?;
    let mut session = session_of(&plain)?;
    let mut alone = Vec::new();
    for calls in &calls {
        let operations: Vec<_> = calls.iter().map(|call| operation(bench, call)).collect();
        let name = &bench.plan.operations[alone.len()].name;
        alone.push(mean_of(&plain, &mut session, (name, &operations), None)?);
    }
    drop((session, plain));
    let mut captured = Measured::start(bench, "fsync=off")?;
    let tables = install(&captured.server.connection_string()).map_err(said)?;
    captured.connection =
        Connection::open(&captured.server.connection_string(), Arc::new(tables)).map_err(said)?;
    let mut session = session_of(&captured)?;
    let mut operations = Vec::new();
    for (procedure, operation) in bench.plan.operations.iter().enumerate() {
        let mut global_us = 0.0;
        let mut rows = 0.0;
        if matches!(operation.class, Class::Global | Class::LocalGlobal) {
            let before = outbox_rows(&captured)?;
            let works: Vec<_> = calls[procedure].iter().map(|call| self::operation(bench, call)).collect();
            let mean = mean_of(&captured, &mut session, (&operation.name, &works), Some(LICENSE))?;
            global_us = mean.processor_us;
            rows = (outbox_rows(&captured)? - before) as f64 / mean.turns as f64;
        }
        let spread = spread::of(&bench.name, &operation.name)
            .ok_or_else(|| format!("{}: nobody has said how it spreads (spread.rs)", operation.name))?;
        operations.push(costs::Operation {
            application: bench.name.clone(),
            operation: operation.name.clone(),
            class: class(operation.class),
            home: if operation.home.is_none() { Home::Any } else { spread.whose },
            reads_only: operation.is_read_only,
            weights: mixes.iter().map(|mix| mix[procedure]).collect(),
            cpu_us: rounded(alone[procedure].processor_us),
            global_us: rounded(global_us),
            wait_us: 0.0,
            rows: rounded(rows),
            others: spread.others,
            writes_at: spread.writes_at,
            all: spread.all,
            repeats: spread.repeats,
        });
    }
    Ok(operations)
}

fn session_of(measured: &Measured) -> Result<Alone, String> {
    Alone::new(&measured.server.connection_string()).map_err(|error| error.to_string())
}

/// Runs the statements of an operation as an agent does: the transaction of each goes to the server at once. Returns whether the application or a
/// constraint has refused it.
fn is_refused(session: &mut Alone, operation: &Operation, license: Option<License>) -> Result<bool, String> {
    for sql in &operation.statements {
        match session.run(sql, license, license.map(|_| 0)) {
            Ok(()) => {}
            Err(error) if is_by_rule(&error.sqlstate) => return Ok(true),
            Err(error) => return Err(format!("{}: {} {}", sql.text, error.sqlstate, error.message)),
        }
    }
    Ok(false)
}

/// Classes that PostgreSQL does not use are the application's own, 23 is that of constraints.
fn is_by_rule(sqlstate: &str) -> bool {
    let is_own = sqlstate.starts_with(|first: char| ('I'..='Z').contains(&first));
    sqlstate == "P0001" || sqlstate.starts_with("23") || is_own && !["P0", "XX"].contains(&&sqlstate[..2])
}

/// Measures operations over a session: those that are not refused, since a refused one costs something else.
fn mean_of(
    measured: &Measured,
    session: &mut Alone,
    (name, operations): (&str, &[Operation]),
    license: Option<License>,
) -> Result<Mean, String> {
    let (mut costs, mut accepted) = (Vec::new(), 0);
    let server = measured.server.process_id();
    let warm_up = WARM_UP.min(operations.len() / 3);
    let begin = Instant::now();
    for (turn, operation) in operations.iter().enumerate() {
        if turn > warm_up && begin.elapsed().as_secs_f64() > SECONDS_MAX {
            break;
        }
        let before = processor_ns(server)?;
        let is_refused = is_refused(session, operation, license)?;
        // The time of a process is known once it waits again.
        std::thread::sleep(SETTLED);
        accepted += usize::from(!is_refused);
        if !is_refused && turn >= warm_up {
            costs.push(processor_ns(server)?.saturating_sub(before) as f64 / 1e3);
        }
    }
    if costs.is_empty() {
        return Err(format!("{name}: all calls are refused"));
    }
    let parts = costs.chunks(costs.len().div_ceil(CHUNKS));
    let means = parts.map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    Ok(Mean { processor_us: median(means), elapsed_us: 0.0, turns: accepted })
}

const LICENSE: License = License { epoch: 0, visit: 1 };

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn class(class: Class) -> costs::Class {
    match class {
        Class::Commutative => costs::Class::Commutative,
        Class::Local => costs::Class::Local,
        Class::Global => costs::Class::Global,
        Class::LocalGlobal => costs::Class::LocalGlobal,
    }
}

fn outbox_rows(measured: &Measured) -> Result<i64, String> {
    let mut client = connect(&measured.server.connection_string())?;
    Ok(client.query_one("SELECT count(*) FROM weir_conveyor.outbox", &[]).map_err(said)?.get(0))
}

/// Calls of each procedure, as clients draw them.
fn drawn(bench: &Bench, each: usize) -> Result<Vec<Vec<Call>>, String> {
    let mut generator = CallGenerator::new(&bench.workload, 1, 0);
    let mut calls: Vec<Vec<Call>> = vec![Vec::new(); bench.plan.operations.len()];
    for _ in 0..DRAWN_MAX {
        if calls.iter().all(|calls| calls.len() >= each) {
            break;
        }
        let call = generator.next_call().map_err(|error| error.to_string())?;
        let calls = &mut calls[call.procedure];
        if calls.len() < each {
            calls.push(call);
        }
    }
    match calls.iter().position(Vec::is_empty) {
        Some(missing) => Err(format!("the mix never calls {}", bench.plan.operations[missing].name)),
        None => Ok(calls),
    }
}

fn operation(bench: &Bench, call: &Call) -> Operation {
    let arguments = calls::arguments(&bench.application, call);
    let mut operation = calls::operation(bench, call, &arguments);
    // The pause of the micro-benchmark is not the server's work.
    operation.statements.retain(|sql| !sql.text.starts_with("SELECT pg_sleep"));
    operation
}

/// Global operations.
fn executes(bench: &Bench, calls: &[Call], license: License) -> Vec<SqlWork> {
    let id = OperationId { agent: 0, start: 1, number: 1 };
    let work = |call: &Call| {
        let operation = Job::Statements(operation(bench, call));
        Work::Execute { id, operation, license: Some(license), map: 0 }
    };
    calls.iter().map(work).collect()
}

/// Costs of the steps of the protocols, on the tables of an application: medians of several rounds.
///
/// # Errors
/// PostgreSQL's.
pub fn steps(bench: &Bench, effort: Effort) -> Result<Steps, String> {
    let rounds: Vec<Steps> = (0..ROUNDS).map(|_| steps_once(bench, effort)).collect::<Result<_, _>>()?;
    let median = |of: fn(&Steps) -> f64| rounded(median(rounds.iter().map(of).collect()));
    Ok(Steps {
        read_participant_us: median(|steps| steps.read_participant_us),
        write_participant_us: median(|steps| steps.write_participant_us),
        exchange_us: median(|steps| steps.exchange_us),
        prepare_us: median(|steps| steps.prepare_us),
        commit_prepared_us: median(|steps| steps.commit_prepared_us),
        end_us: median(|steps| steps.end_us),
        read_us: median(|steps| steps.read_us),
        read_row_us: median(|steps| steps.read_row_us),
        apply_us: median(|steps| steps.apply_us),
        apply_row_us: median(|steps| steps.apply_row_us),
        truncate_us: median(|steps| steps.truncate_us),
        check_us: median(|steps| steps.check_us),
        flush_us: median(|steps| steps.flush_us),
    })
}

fn steps_once(bench: &Bench, effort: Effort) -> Result<Steps, String> {
    let (participants, plain_commit_us) = participants(bench, effort)?;
    let flush_us = (commit_us(bench, effort)? - plain_commit_us).max(0.0);
    let mut measured = Measured::start(bench, "fsync=off")?;
    let config = measured.server.connection_string();
    let tables = Arc::new(install(&config).map_err(said)?);
    measured.connection = Connection::open(&config, tables).map_err(said)?;
    let times = effort.steps as u64;
    // Visits of one and of many updates are applied, and read.
    let (one, many) = (updates(bench, &mut measured, 1, 2)?, updates(bench, &mut measured, 2, 16)?);
    let rows = |updates: &[StateUpdate]| updates.iter().map(|update| update.rows.len()).sum::<usize>() as f64;
    let (one_rows, many_rows) = (rows(&one), rows(&many));
    let read = |visit| -> Vec<SqlWork> { (0..times).map(|_| Work::Read { server: 0, visit }).collect() };
    let (read_one, read_many) = (measured.works(&read(1))?, measured.works(&read(2))?);
    let apply = |updates: &[StateUpdate], from: u64| -> Vec<SqlWork> {
        let visit = |number| Arc::new(Visit { number, updates: updates.to_vec() });
        (from..from + times).map(|after| Work::Apply { after, visit: visit(after + 1) }).collect()
    };
    let apply_one = measured.works(&apply(&one, 0))?;
    let applied = position(&measured)?;
    let apply_many = measured.works(&apply(&many, applied))?;
    let applied = position(&measured)?;
    let ends: Vec<SqlWork> = (applied..applied + times)
        .map(|after| Work::End { license: License { epoch: 0, visit: after + 1 }, after })
        .collect();
    let end = measured.works(&ends)?;
    // The same transaction, with the check of the map and without it.
    let mut session = session_of(&measured)?;
    let [nothing] = statement("SELECT 1");
    let mut check = |map| {
        measured.mean(effort.steps, |_| session.run(&nothing, None, map).map_err(|error| error.message))
    };
    let (checked, unchecked) = (check(Some(0))?, check(None)?);
    let truncates: Vec<SqlWork> = (0..times).map(|up_to| Work::Truncate { up_to }).collect();
    let truncate = measured.works(&truncates)?;
    let per_row =
        |one: Mean, many: Mean| ((many.processor_us - one.processor_us) / (many_rows - one_rows)).max(0.0);
    let (read_row_us, apply_row_us) = (per_row(read_one, read_many), per_row(apply_one, apply_many));
    Ok(Steps {
        end_us: rounded(end.processor_us),
        read_us: rounded((read_one.processor_us - one_rows * read_row_us).max(0.0)),
        read_row_us: rounded(read_row_us),
        apply_us: rounded((apply_one.processor_us - one_rows * apply_row_us).max(0.0)),
        apply_row_us: rounded(apply_row_us),
        truncate_us: rounded(truncate.processor_us),
        check_us: rounded((checked.processor_us - unchecked.processor_us).max(0.0)),
        flush_us: rounded(flush_us),
        ..participants
    })
}

fn position(measured: &Measured) -> Result<u64, String> {
    let mut client = connect(&measured.server.connection_string())?;
    let position: i64 =
        client.query_one("SELECT applied FROM weir_conveyor.position", &[]).map_err(said)?.get(0);
    Ok(position as u64)
}

/// State updates of global operations, as many as asked for, which ran in that visit.
fn updates(
    bench: &Bench,
    measured: &mut Measured,
    visit: u64,
    count: usize,
) -> Result<Vec<StateUpdate>, String> {
    let is_global = |call: &Call| bench.plan.operations[call.procedure].class == Class::Global;
    let mut generator = CallGenerator::new(&bench.workload, 2, visit);
    let mut found = Vec::new();
    for _ in 0..DRAWN_MAX {
        if found.len() >= count {
            break;
        }
        let call = generator.next_call().map_err(|error| error.to_string())?;
        if is_global(&call) {
            let license = License { epoch: 0, visit };
            executes(bench, &[call], license).iter().for_each(|work| drop(measured.connection.run(work)));
            let Done::Contents(contents) = measured.connection.run(&Work::Read { server: 0, visit }) else {
                return Err("an outbox cannot be read".into());
            };
            found = contents.updates.clone();
        }
    }
    match found.len() >= count {
        true => Ok(found),
        false => Err(format!("only {} global operations have changed something", found.len())),
    }
}

fn statement(text: &str) -> [Sql; 1] {
    [Sql { text: text.to_owned(), parameters: Vec::new() }]
}

const PROBE: &str = "CREATE TABLE probe (id int PRIMARY KEY, n int NOT NULL); INSERT INTO probe SELECT n, 0 FROM generate_series(0, 9) n;";
const READ: &str = "SELECT n FROM probe WHERE id = 1";
const WRITE: &str = "UPDATE probe SET n = n + 1 WHERE id = 1";

/// Costs of another participant of a distributed transaction, and the time of a commit without the disk.
fn participants(bench: &Bench, effort: Effort) -> Result<(Steps, f64), String> {
    let measured = Measured::start(bench, "fsync=off")?;
    let mut client = connect(&measured.server.connection_string())?;
    client.batch_execute(PROBE).map_err(said)?;
    let mut session = session_of(&measured)?;
    let mut mean = |text: &str| {
        let [sql] = statement(text);
        measured.mean(effort.steps, |_| session.run(&sql, None, None).map_err(|error| error.message))
    };
    let (read, write) = (mean(READ)?, mean(WRITE)?);
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let begin_and_write = &*format!("{begin}; {WRITE}");
    let mut simple = |texts: &[&str]| {
        measured.mean(effort.steps, |_| {
            texts.iter().try_for_each(|text| client.batch_execute(text)).map_err(said)
        })
    };
    let committed = simple(&[&*format!("{begin_and_write}; COMMIT")])?;
    let prepared = simple(&[begin_and_write, "PREPARE TRANSACTION 'probe'", "COMMIT PREPARED 'probe'"])?;
    // Of the two phases together what COMMIT in the first exchange does not cost; half for each.
    let phases_us = rounded((prepared.processor_us - committed.processor_us).max(0.0) / 2.0);
    // A client that sends and waits: what the coordinator of a distributed transaction is to the other servers.
    let [read_one] = statement(READ);
    let before = processor_of("self")?;
    let exchanges =
        measured.mean(effort.steps, |_| session.run(&read_one, None, None).map_err(|error| error.message))?;
    let exchange_us = processor_of("self")?.saturating_sub(before) as f64 / 1e3 / exchanges.turns as f64;
    let steps = Steps {
        exchange_us: rounded(exchange_us),
        read_participant_us: rounded(read.processor_us),
        write_participant_us: rounded(write.processor_us),
        prepare_us: phases_us,
        commit_prepared_us: phases_us,
        ..Steps::default()
    };
    Ok((steps, write.elapsed_us))
}

/// Time of a transaction that writes, with a disk.
fn commit_us(bench: &Bench, effort: Effort) -> Result<f64, String> {
    let measured = Measured::start(bench, "fsync=on")?;
    let mut client = connect(&measured.server.connection_string())?;
    client.batch_execute(PROBE).map_err(said)?;
    let mut session = session_of(&measured)?;
    let [sql] = statement(WRITE);
    let run = |_| session.run(&sql, None, None).map_err(|error| error.message);
    Ok(measured.mean(effort.steps, run)?.elapsed_us)
}
