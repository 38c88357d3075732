//! The load generator: some clients, each with one transaction at a time, for as long as is measured.
//!
//! In the closed loop a client begins its next transaction when the last one has ended. In the open loop transactions are due at moments that do
//! not depend on how the database does: a latency is from when a transaction was due, so waiting behind a slow one counts (no coordinated
//! omission).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_cat::contention::{Contention, each_access};
use weir_cat::history::Transaction;

use crate::connection::{Address, Refused, connect};
use crate::target::Level;
use crate::trace::{Line, Recorder};
use crate::workload::{Acknowledged, Planned, Plans, State, Way, Workload};

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub warm_up: Duration,
    pub measured: Duration,
}

/// The moments at which transactions begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loop {
    /// As soon as the client's last one has ended.
    Closed,
    /// A number a second of all clients together, at even distances.
    Open(f64),
    /// At the recorded times, so many times as fast.
    Recorded(f64),
}

/// Load of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub clients: usize,
    pub seed: u64,
    pub times: Times,
    pub pace: Loop,
    /// Keep what the committed transactions have run, as lines of a trace.
    pub is_recorded: bool,
}

/// The clients' use of a database.
#[derive(Clone, Debug)]
pub struct Use {
    pub address: Address,
    pub way: Way,
    pub level: Option<Level>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    /// Of nanoseconds.
    fn of(histogram: &Histogram<u64>) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        match histogram.is_empty() {
            true => Latency::default(),
            false => Latency { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: us(histogram.max()) },
        }
    }
}

/// Figures of one kind of transaction, or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    pub attempts: u64,
    pub committed: u64,
    pub aborted: u64,
    /// Refused by a rule of the data or of the application; not repeated.
    pub refused: u64,
    /// Commits a second.
    pub throughput: f64,
    /// Aborted attempts of all attempts.
    pub aborted_share: f64,
    /// By the attempts that ran, of which each access counts (cat-theorem.txt §3).
    pub contention_level: f64,
    /// To the commit: in the closed loop from the first attempt, in the open loop from when the transaction was due.
    pub latency_us: Latency,
    /// To the commit, from the first attempt: without what a transaction has waited for its client.
    pub service_us: Latency,
}

/// Figures of a run. An attempt that is aborted is tried again at once, with the same values, until it commits; each is counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    #[serde(flatten)]
    pub all: Figures,
    pub transactions: BTreeMap<&'static str, Figures>,
    /// By SQLSTATE.
    pub aborts_by_state: BTreeMap<String, u64>,
    /// In the open loop: transactions that were due and had not ended. Their waiting so far is among the latencies.
    pub unfinished: u64,
}

/// A transaction that has ended, well or refused.
#[derive(Clone, Copy, Debug)]
struct Ended {
    kind: usize,
    due_ns: u64,
    first_ns: u64,
    end_ns: u64,
    is_refused: bool,
}

/// The attempts and the ends of one client.
#[derive(Default)]
struct Done {
    /// With the kind.
    history: Vec<(usize, Transaction)>,
    ended: Vec<Ended>,
    states: Vec<(u64, String)>,
    acknowledged: Acknowledged,
    /// When transactions were due that have not ended.
    unfinished: Vec<(usize, u64)>,
    /// The client had no more transactions.
    ran_out: bool,
    lines: Vec<Line>,
}

/// All attempts of a run, with their times, and its figures.
#[derive(Debug)]
pub struct Recorded {
    pub outcome: Outcome,
    pub history: Vec<Transaction>,
    /// The data does not have what was acknowledged: the figures are worth nothing.
    pub violation: Option<String>,
    /// The trace, if it was to be kept.
    pub lines: Vec<Line>,
}

/// Runs clients, and checks afterwards that the data has what was acknowledged, and nothing else.
///
/// # Errors
/// A database's, in words.
pub fn run(workload: &dyn Workload, using: &Use, load: Load) -> Result<Recorded, String> {
    let before = state(workload, using)?;
    let mut done = clients(workload, using, load)?;
    let mut acknowledged = Acknowledged::default();
    for one in &done {
        acknowledged.sum += one.acknowledged.sum;
        for (object, writes) in &one.acknowledged.writes {
            *acknowledged.writes.entry(*object).or_default() += writes;
        }
    }
    let violation = workload.check(&before, &state(workload, using)?, &acknowledged).err();
    let history =
        done.iter().flat_map(|done| done.history.iter().map(|(_, attempt)| attempt.clone())).collect();
    let lines = done.iter_mut().flat_map(|done| std::mem::take(&mut done.lines)).collect();
    let times = until_the_end(load.times, &done);
    Ok(Recorded { outcome: outcome(workload.kinds(), done, times), history, violation, lines })
}

/// A run whose clients have run out of transactions was as long as they took.
fn until_the_end(times: Times, done: &[Done]) -> Times {
    if !done.iter().all(|one| one.ran_out) {
        return times;
    }
    let last_ns = done.iter().flat_map(|one| &one.ended).map(|ended| ended.end_ns).max();
    // The last one counts, too.
    let last = Duration::from_nanos(last_ns.map_or(0, |last_ns| last_ns + 1));
    Times { measured: last.saturating_sub(times.warm_up).min(times.measured), ..times }
}

fn state(workload: &dyn Workload, using: &Use) -> Result<State, String> {
    let mut connection = connect(&using.address, None, &[])?;
    workload.state().iter().map(|query| connection.rows(query)).collect()
}

fn clients(workload: &dyn Workload, using: &Use, load: Load) -> Result<Vec<Done>, String> {
    let (barrier, is_over) = (Barrier::new(load.clients), AtomicBool::new(false));
    let begun = OnceLock::new();
    let statements = workload.statements(using.way);
    let client = |number: usize| -> Result<Done, String> {
        let ready = connect(&using.address, using.level, &statements);
        // A client that cannot go on comes to the barrier all the same: the others wait there.
        barrier.wait();
        let mut connection = ready.inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        let mut plans = workload.plans(load.seed, number as u64);
        // Time begins when all are connected, however long that takes.
        let begin = *begun.get_or_init(Instant::now);
        let mut lines = Vec::new();
        let mut attempt = |planned: &Planned, begin_ns: u64| {
            if !load.is_recorded {
                let attempted = workload.attempt(using.way, &mut *connection, planned);
                return attempted.map_err(|refused| (refused, connection.rollback()));
            }
            let mut recorder = Recorder::new(&mut *connection);
            let attempted = workload.attempt(using.way, &mut recorder, planned);
            if attempted.is_ok() {
                let (kind, objects) = (workload.kinds()[planned.kind], planned.accesses.clone());
                lines.push(recorder.line(number as u64, begin_ns, kind, objects, &statements));
            }
            attempted.map_err(|refused| (refused, connection.rollback()))
        };
        let done = drive(&mut *plans, &mut attempt, &Clock { begin, load, number, is_over: &is_over })
            .inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        Ok(Done { lines, ..done })
    };
    let ends: Vec<Result<Done, String>> = std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..load.clients).map(|number| scope.spawn(move || client(number))).collect();
        let panicked = || Err("a client has panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    ends.into_iter().collect()
}

/// Time of a run, and when a client's transactions are due.
struct Clock<'a> {
    begin: Instant,
    load: Load,
    number: usize,
    is_over: &'a AtomicBool,
}

impl Clock<'_> {
    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn end_ns(&self) -> u64 {
        (self.load.times.warm_up + self.load.times.measured).as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.now_ns() >= self.end_ns()
    }

    /// When the client's transaction of that number is due; None in the closed loop.
    fn due_ns(&self, number: u64, planned: &Planned) -> Option<u64> {
        match self.load.pace {
            Loop::Closed => None,
            Loop::Open(rate) => {
                let place = number * self.load.clients as u64 + self.number as u64;
                Some((place as f64 * 1e9 / rate) as u64)
            }
            Loop::Recorded(speed) => {
                planned.recorded_ns.map(|recorded_ns| (recorded_ns as f64 / speed) as u64)
            }
        }
    }

    /// Waits until then, in the open loop.
    fn wait_until(&self, due_ns: u64) {
        let now_ns = self.now_ns();
        if due_ns > now_ns {
            std::thread::sleep(Duration::from_nanos(due_ns - now_ns));
        }
    }
}

/// An attempt of a transaction that was first attempted then: what it returned, or why it was not committed and how the rollback went.
type Attempt<'a> = dyn FnMut(&Planned, u64) -> Result<i64, (Refused, Result<(), String>)> + 'a;

fn drive(plans: &mut dyn Plans, attempt: &mut Attempt<'_>, clock: &Clock<'_>) -> Result<Done, String> {
    let mut done = Done::default();
    for number in 0.. {
        let Some(planned) = plans.plan() else {
            done.ran_out = true;
            break;
        };
        let due_ns = clock.due_ns(number, &planned);
        if clock.is_over() || due_ns.is_some_and(|due_ns| due_ns >= clock.end_ns()) {
            done.leave((number, planned), plans, clock);
            break;
        }
        if let Some(due_ns) = due_ns {
            clock.wait_until(due_ns);
        }
        let first_ns = clock.now_ns();
        let due_ns = due_ns.unwrap_or(first_ns);
        let mut has_ended = false;
        while !has_ended && !clock.is_over.load(Ordering::Relaxed) {
            has_ended = done.attempt(&planned, attempt, clock, (due_ns, first_ns))?;
            if clock.now_ns() >= clock.end_ns() {
                break;
            }
        }
        if !has_ended {
            done.unfinished.push((planned.kind, due_ns));
        }
    }
    Ok(done)
}

impl Done {
    /// Attempts once; whether the transaction has ended with that.
    fn attempt(
        &mut self,
        planned: &Planned,
        attempt: &mut Attempt<'_>,
        clock: &Clock<'_>,
        (due_ns, first_ns): (u64, u64),
    ) -> Result<bool, String> {
        let begin_ns = clock.now_ns();
        let outcome = attempt(planned, first_ns);
        let end_ns = clock.now_ns();
        let accesses = planned.accesses.clone();
        let aborted = matches!(outcome, Err((Refused::Aborted(_), _)));
        self.history.push((planned.kind, Transaction { begin_ns, end_ns, accesses, aborted }));
        let is_refused = match outcome {
            Ok(returned) => {
                self.acknowledged.sum += returned;
                for object in &planned.written {
                    *self.acknowledged.writes.entry(*object).or_default() += 1;
                }
                false
            }
            Err((Refused::Failed(why), _) | (_, Err(why))) => return Err(why),
            Err((Refused::ByRule(_), Ok(()))) => true,
            Err((Refused::Aborted(state), Ok(()))) => {
                self.states.push((end_ns, state));
                return Ok(false);
            }
        };
        self.ended.push(Ended { kind: planned.kind, due_ns, first_ns, end_ns, is_refused });
        Ok(true)
    }

    /// Transactions that were due in the open loop and have not begun, from that one on.
    fn leave(&mut self, first: (u64, Planned), plans: &mut dyn Plans, clock: &Clock<'_>) {
        let mut next = Some(first);
        while let Some((number, planned)) = next {
            match clock.due_ns(number, &planned) {
                Some(due_ns) if due_ns < clock.end_ns() => self.unfinished.push((planned.kind, due_ns)),
                _ => break,
            }
            next = plans.plan().map(|planned| (number + 1, planned));
        }
    }
}

/// Latencies of a kind: from when it was due, and from the first attempt, in nanoseconds.
#[derive(Clone)]
struct Latencies {
    due: Histogram<u64>,
    served: Histogram<u64>,
}

impl Latencies {
    fn new() -> Latencies {
        let histogram = || Histogram::<u64>::new(3).expect("three digits are possible");
        Latencies { due: histogram(), served: histogram() }
    }

    fn add(&mut self, ended: &Ended) {
        let grows = "it grows with its values";
        self.due.record(ended.end_ns.saturating_sub(ended.due_ns)).expect(grows);
        self.served.record(ended.end_ns.saturating_sub(ended.first_ns)).expect(grows);
    }
}

/// Counts the attempts and the transactions that ended after the warm-up. A transaction counts for its own kind, and for all.
fn outcome(kinds: &[&'static str], done: Vec<Done>, times: Times) -> Outcome {
    let from = times.warm_up.as_nanos() as u64;
    let to = from + times.measured.as_nanos() as u64;
    let is_measured = |end_ns: u64| (from..to).contains(&end_ns);
    // The last is of all kinds.
    let all = kinds.len();
    let mut figures = vec![Figures::default(); all + 1];
    let mut latencies = vec![Latencies::new(); all + 1];
    let (mut history, mut of_kind, mut states, mut unfinished) = (Vec::new(), Vec::new(), BTreeMap::new(), 0);
    for done in done {
        for (kind, attempt) in done.history.into_iter().filter(|(_, attempt)| is_measured(attempt.end_ns)) {
            for place in [kind, all] {
                figures[place].attempts += 1;
                figures[place].aborted += u64::from(attempt.aborted);
            }
            of_kind.push(kind);
            history.push(attempt);
        }
        for ended in done.ended.iter().filter(|ended| is_measured(ended.end_ns)) {
            for place in [ended.kind, all] {
                figures[place].committed += u64::from(!ended.is_refused);
                figures[place].refused += u64::from(ended.is_refused);
                if !ended.is_refused {
                    latencies[place].add(ended);
                }
            }
        }
        for (_, state) in done.states.into_iter().filter(|(end_ns, _)| is_measured(*end_ns)) {
            *states.entry(state).or_default() += 1;
        }
        for (kind, due_ns) in done.unfinished {
            unfinished += 1;
            // They have waited at least so long.
            for place in [kind, all] {
                latencies[place].due.record(to.saturating_sub(due_ns)).expect("it grows with its values");
            }
        }
    }
    for (place, contention) in contention(&history, &of_kind, all).into_iter().enumerate() {
        figures[place].contention_level = contention.level();
    }
    for (figures, latencies) in figures.iter_mut().zip(&latencies) {
        figures.throughput = figures.committed as f64 / times.measured.as_secs_f64();
        figures.aborted_share = figures.aborted as f64 / figures.attempts.max(1) as f64;
        figures.latency_us = Latency::of(&latencies.due);
        figures.service_us = Latency::of(&latencies.served);
    }
    let all = figures.pop().unwrap_or_default();
    let transactions = kinds.iter().copied().zip(figures).filter(|(_, figures)| figures.attempts > 0);
    Outcome { all, transactions: transactions.collect(), aborts_by_state: states, unfinished }
}

/// Contention of each kind, and of all behind them.
fn contention(history: &[Transaction], of_kind: &[usize], all: usize) -> Vec<Contention> {
    let mut found = vec![Contention::default(); all + 1];
    each_access(history, |number, _, is_common| {
        for place in [of_kind[number], all] {
            found[place] += Contention { accesses: 1, common: u64::from(is_common) };
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Value;

    /// Plans the same transaction again and again.
    struct Same;

    impl Plans for Same {
        fn plan(&mut self) -> Option<Planned> {
            let (values, accesses, written) = (vec![Value::Integer(1)], vec![1], vec![1]);
            Some(Planned { kind: 0, values, accesses, written, is_writer: true, recorded_ns: None })
        }
    }

    /// Its end is that of `is_over`.
    const LOAD: Load = Load {
        clients: 1,
        seed: 1,
        times: Times { warm_up: Duration::ZERO, measured: Duration::from_secs(3_600) },
        pace: Loop::Closed,
        is_recorded: false,
    };

    fn clock(load: Load, is_over: &AtomicBool) -> Clock<'_> {
        Clock { begin: Instant::now(), load, number: 0, is_over }
    }

    #[test]
    fn attempts_are_repeated_until_they_commit() {
        let is_over = AtomicBool::new(false);
        let mut attempts = 0;
        let mut stubborn = |_: &Planned, _: u64| {
            attempts += 1;
            is_over.store(attempts == 9, Ordering::Relaxed);
            if attempts < 4 { Err((Refused::Aborted("40001".to_owned()), Ok(()))) } else { Ok(2) }
        };
        let done = drive(&mut Same, &mut stubborn, &clock(LOAD, &is_over)).expect("nothing fails");
        assert_eq!(done.states.len(), 3);
        assert_eq!(done.history.iter().filter(|(_, attempt)| attempt.aborted).count(), 3);
        assert_eq!((done.ended.len(), done.acknowledged.writes[&1], done.acknowledged.sum), (6, 6, 12));
    }

    #[test]
    fn what_a_rule_refuses_is_not_repeated_and_what_fails_ends_the_run() {
        let is_over = AtomicBool::new(false);
        let mut refused = |_: &Planned, _: u64| {
            is_over.store(true, Ordering::Relaxed);
            Err((Refused::ByRule("23514".to_owned()), Ok(())))
        };
        let done = drive(&mut Same, &mut refused, &clock(LOAD, &is_over)).expect("nothing fails");
        assert!(done.ended[0].is_refused && done.acknowledged.writes.is_empty());
        assert_eq!((done.ended.len(), done.history.len()), (1, 1));
        is_over.store(false, Ordering::Relaxed);
        let mut fails = |_: &Planned, _: u64| Err((Refused::Failed("gone".to_owned()), Ok(())));
        assert_eq!(drive(&mut Same, &mut fails, &clock(LOAD, &is_over)).err(), Some("gone".to_owned()));
    }

    #[test]
    fn in_the_open_loop_nothing_that_was_due_is_omitted() {
        let is_over = AtomicBool::new(false);
        let pace = Loop::Open(2_000.0);
        let load = Load { times: Times { measured: Duration::from_millis(50), ..LOAD.times }, pace, ..LOAD };
        // It ends when the run does: all others wait behind it.
        let clock = clock(load, &is_over);
        let mut slow = |_: &Planned, _: u64| {
            while clock.now_ns() < clock.end_ns() {}
            Ok(0)
        };
        let done = drive(&mut Same, &mut slow, &clock).expect("nothing fails");
        assert_eq!(done.ended.len() + done.unfinished.len(), 100);
        let outcome = outcome(&["same"], vec![done], load.times);
        assert!(outcome.unfinished >= 99);
        let latency = outcome.all.latency_us;
        // Due at even distances over 50 ms, they have waited half of it on average.
        assert!((24_000.0..27_000.0).contains(&latency.p50), "{latency:?}");
    }

    #[test]
    fn only_what_was_measured_counts() {
        let attempt =
            |end_ns, aborted| (0, Transaction { begin_ns: end_ns - 5, end_ns, accesses: vec![1], aborted });
        let ended =
            |first_ns, end_ns| Ended { kind: 0, due_ns: first_ns, first_ns, end_ns, is_refused: false };
        let done = Done {
            history: vec![attempt(50, true), attempt(150, true), attempt(160, false), attempt(250, false)],
            ended: vec![ended(100, 160), ended(245, 250)],
            states: vec![(50, "40001".into()), (150, "40001".into())],
            ..Done::default()
        };
        let times = Times { warm_up: Duration::from_nanos(100), measured: Duration::from_nanos(100) };
        let outcome = outcome(&["write", "read"], vec![done], times);
        assert_eq!((outcome.all.attempts, outcome.all.aborted, outcome.all.committed), (2, 1, 1));
        assert_eq!(outcome.aborts_by_state["40001"], 1);
        assert_eq!(outcome.all.latency_us.p50, 0.06);
        assert!((outcome.all.throughput - 1e7).abs() < 1.0 && (outcome.all.aborted_share - 0.5).abs() < 1e-9);
        assert_eq!(outcome.transactions.keys().copied().collect::<Vec<_>>(), ["write"]);
    }

    #[test]
    fn latencies_of_seconds_are_kept() {
        let (first_ns, end_ns) = (1_000_000_000, 5_000_000_000);
        let ended = vec![Ended { kind: 0, due_ns: first_ns, first_ns, end_ns, is_refused: false }];
        let times = Times { warm_up: Duration::ZERO, measured: Duration::from_secs(6) };
        let p50 = outcome(&["write"], vec![Done { ended, ..Done::default() }], times).all.latency_us.p50;
        assert!((p50 / 4e6 - 1.0).abs() < 0.001, "{p50}");
    }
}
