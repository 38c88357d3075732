//! One run: some clients, each with one transaction at a time, for as long as is measured.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_cat::contention::of_history;
use weir_cat::history::Transaction;
use weir_cat::workload::{Client, Shape};

use crate::servers::Servers;
use crate::session::{self, End};
use crate::target::Target;

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub warm_up: Duration,
    pub measured: Duration,
}

/// Workload of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub clients: usize,
    pub shape: Shape,
    pub seed: u64,
}

/// Figures of a run. An attempt that is aborted is tried again at once, with the same keys, until it commits; each is counted.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub attempts: u64,
    pub aborts: u64,
    /// By SQLSTATE.
    pub aborts_by_state: BTreeMap<String, u64>,
    /// Commits a second.
    pub throughput: f64,
    /// By the attempts that ran, of which each access counts (cat-theorem.txt §3).
    pub contention_level: f64,
    /// From the first attempt to the commit, in milliseconds.
    pub latency_p50_ms: f64,
    pub latency_p99_ms: f64,
}

impl Outcome {
    /// Share of the attempts that were aborted; 0 without attempts.
    pub fn abort_rate(&self) -> f64 {
        self.aborts as f64 / self.attempts.max(1) as f64
    }
}

/// The attempts and the commits of one client.
struct Done {
    history: Vec<Transaction>,
    /// When a transaction committed, how long it took since its first attempt.
    commits: Vec<(u64, u64)>,
    states: Vec<(u64, String)>,
    /// Committed writes of each key.
    writes: Vec<u64>,
}

/// Runs clients against a target whose rows are made anew, and checks afterwards that each row has all writes that were acknowledged.
///
/// # Errors
/// A server's or the shape's, or writes were lost.
pub fn run(servers: &mut Servers, target: Target, load: Load, times: Times) -> Result<Outcome, String> {
    Ok(outcome(clients(servers, target, load, times)?, times))
}

/// As [`run`]: all attempts of the clients, with their times.
///
/// # Errors
/// As [`run`].
pub fn recorded(
    servers: &mut Servers,
    target: Target,
    load: Load,
    times: Times,
) -> Result<Vec<Transaction>, String> {
    Ok(clients(servers, target, load, times)?.into_iter().flat_map(|done| done.history).collect())
}

fn clients(servers: &mut Servers, target: Target, load: Load, times: Times) -> Result<Vec<Done>, String> {
    let address = servers.address(target)?;
    servers.fill(target)?;
    let (barrier, is_over) = (Barrier::new(load.clients), AtomicBool::new(false));
    let begun = OnceLock::new();
    let client = |number: usize| -> Result<Done, String> {
        let ready = Client::new(load.shape, load.seed, number as u64)
            .and_then(|plans| Ok((plans, session::connect(target, &address, load.shape.length)?)));
        // Whoever cannot go on comes to the barrier all the same: others wait there.
        barrier.wait();
        let (plans, mut session) = ready.inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        // Time begins when all are connected, however long that takes.
        let begin = *begun.get_or_init(Instant::now);
        let end = times.warm_up + times.measured;
        drive(plans, &mut *session, load.shape.keys, begin, end, &is_over)
            .inspect_err(|_| is_over.store(true, Ordering::Relaxed))
    };
    let ends: Vec<Result<Done, String>> = std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..load.clients).map(|number| scope.spawn(move || client(number))).collect();
        let panicked = || Err("a client has panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    let done: Vec<Done> =
        ends.into_iter().collect::<Result<_, _>>().map_err(|why| format!("{target}: {why}"))?;
    check(servers, target, &done)?;
    Ok(done)
}

fn drive(
    mut plans: Client,
    session: &mut dyn session::Session,
    keys: usize,
    begin: Instant,
    end: Duration,
    is_over: &AtomicBool,
) -> Result<Done, String> {
    let mut done =
        Done { history: Vec::new(), commits: Vec::new(), states: Vec::new(), writes: vec![0; keys] };
    let now = || begin.elapsed().as_nanos() as u64;
    while begin.elapsed() < end && !is_over.load(Ordering::Relaxed) {
        let planned = plans.plan();
        let first_ns = now();
        while !is_over.load(Ordering::Relaxed) {
            let begin_ns = now();
            let ended = session.attempt(&planned)?;
            let end_ns = now();
            let aborted = ended != End::Committed;
            done.history.push(Transaction { begin_ns, end_ns, accesses: planned.keys.clone(), aborted });
            match ended {
                End::Aborted(state) => done.states.push((end_ns, state)),
                End::Committed => {
                    done.commits.push((end_ns, end_ns - first_ns));
                    if planned.is_writer {
                        planned.keys.iter().for_each(|key| done.writes[*key as usize] += 1);
                    }
                    break;
                }
            }
            if begin.elapsed() >= end {
                break;
            }
        }
    }
    Ok(done)
}

/// No acknowledged write is lost, and none is there that was not acknowledged.
fn check(servers: &mut Servers, target: Target, done: &[Done]) -> Result<(), String> {
    let change = target.change();
    for (key, value) in servers.values(target)?.into_iter().enumerate() {
        let writes: u64 = done.iter().map(|done| done.writes[key]).sum();
        let expected = change.after(writes);
        if value != expected {
            return Err(format!(
                "{target}: key {key} is {value} after {writes} acknowledged writes, which make {expected}: writes were lost or invented"
            ));
        }
    }
    Ok(())
}

/// Counts the attempts and the commits that ended after the warm-up.
fn outcome(done: Vec<Done>, times: Times) -> Outcome {
    let from = times.warm_up.as_nanos() as u64;
    let to = from + times.measured.as_nanos() as u64;
    let is_measured = |end_ns: u64| (from..to).contains(&end_ns);
    let mut latencies = Histogram::<u64>::new(3).expect("three digits are possible");
    let (mut history, mut states, mut commits) = (Vec::new(), BTreeMap::new(), 0u64);
    for done in done {
        history.extend(done.history.into_iter().filter(|attempt| is_measured(attempt.end_ns)));
        for (_, took_ns) in done.commits.iter().filter(|(end_ns, _)| is_measured(*end_ns)) {
            latencies.record(took_ns / 1_000).expect("it grows with its values");
            commits += 1;
        }
        for (_, state) in done.states.into_iter().filter(|(end_ns, _)| is_measured(*end_ns)) {
            *states.entry(state).or_default() += 1;
        }
    }
    let ms = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Outcome {
        attempts: history.len() as u64,
        aborts: history.iter().filter(|attempt| attempt.aborted).count() as u64,
        aborts_by_state: states,
        throughput: commits as f64 / times.measured.as_secs_f64(),
        contention_level: of_history(&history).level(),
        latency_p50_ms: ms(0.5),
        latency_p99_ms: ms(0.99),
    }
}

#[cfg(test)]
mod tests {
    use weir_cat::workload::Planned;

    use super::*;

    /// Aborts the first attempts, then commits.
    struct Stubborn(u64);

    impl session::Session for Stubborn {
        fn attempt(&mut self, _: &Planned) -> Result<End, String> {
            self.0 = self.0.saturating_sub(1);
            Ok(if self.0 > 0 { End::Aborted("40001".to_owned()) } else { End::Committed })
        }
    }

    #[test]
    fn attempts_are_repeated_until_they_commit() {
        let plans = Client::new(Shape { keys: 10, length: 2, ..Shape::PAPER }, 1, 0).expect("it is possible");
        let (begin, is_over) = (Instant::now(), AtomicBool::new(false));
        let end = Duration::from_millis(5);
        let done = drive(plans, &mut Stubborn(4), 10, begin, end, &is_over).expect("nothing fails");
        assert_eq!(done.states.len(), 3);
        assert_eq!(done.history.iter().filter(|attempt| attempt.aborted).count(), 3);
        assert_eq!(done.history[0].accesses, done.history[3].accesses);
        assert_eq!(done.writes.iter().sum::<u64>(), 2 * done.commits.len() as u64);
    }

    #[test]
    fn latencies_of_seconds_are_kept() {
        let ended = Duration::from_secs(5).as_nanos() as u64;
        let commits = vec![(ended, Duration::from_secs(4).as_nanos() as u64)];
        let done = Done { history: vec![], commits, states: vec![], writes: vec![] };
        let times = Times { warm_up: Duration::ZERO, measured: Duration::from_secs(6) };
        let p50_ms = outcome(vec![done], times).latency_p50_ms;
        assert!((p50_ms / 4_000.0 - 1.0).abs() < 0.001, "{p50_ms}");
    }

    #[test]
    fn only_what_was_measured_counts() {
        let attempt =
            |end_ns, aborted| Transaction { begin_ns: end_ns - 5, end_ns, accesses: vec![1], aborted };
        let done = Done {
            history: vec![attempt(50, true), attempt(150, true), attempt(160, false), attempt(250, false)],
            commits: vec![(160, 60), (250, 5)],
            states: vec![(50, "40001".into()), (150, "40001".into())],
            writes: vec![],
        };
        let times = Times { warm_up: Duration::from_nanos(100), measured: Duration::from_nanos(100) };
        let outcome = outcome(vec![done], times);
        assert_eq!((outcome.attempts, outcome.aborts), (2, 1));
        assert_eq!(outcome.aborts_by_state["40001"], 1);
        // Sixty nanoseconds are below a microsecond.
        assert_eq!(outcome.latency_p50_ms, 0.0);
        assert!((outcome.throughput - 1e7).abs() < 1.0 && (outcome.abort_rate() - 0.5).abs() < 1e-9);
    }
}
