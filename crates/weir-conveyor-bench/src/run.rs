//! The load generator: clients that call, wait for the answer, pause, and call again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_bench::CallGenerator;
use weir_conveyor_scale::load::Outcome;

use crate::application::Bench;
use crate::target::{Deployment, End, Session, class_of};

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub clients: u64,
    pub warm_up: Duration,
    pub measured: Duration,
    /// Calls of each client, at most.
    pub calls: u64,
    /// Pause between an answer and the next call.
    pub think: Duration,
    pub seed: u64,
}

/// Figures of a run.
#[derive(Debug)]
pub struct Figures {
    pub outcome: Outcome,
    /// Errors of the application, by SQLSTATE.
    pub refused: BTreeMap<String, u64>,
    pub starved: u64,
    pub unknown: u64,
    /// Calls of each procedure that were answered.
    pub calls: BTreeMap<String, u64>,
}

/// Runs clients for a time.
///
/// # Errors
/// A server's, or the workload's.
pub fn run(bench: &Bench, deployment: &Deployment, settings: Settings) -> Result<Figures, String> {
    let figures = Mutex::new(Figures {
        outcome: Outcome::new(settings.measured.as_secs_f64()),
        refused: BTreeMap::new(),
        starved: 0,
        unknown: 0,
        calls: BTreeMap::new(),
    });
    let (is_over, begin) = (AtomicBool::new(false), Instant::now());
    let measured = begin + settings.warm_up..begin + settings.warm_up + settings.measured;
    let client = |client: u64| -> Result<(), String> {
        let mut session = deployment.session(client)?;
        let mut generator = CallGenerator::new(&bench.workload, settings.seed, client);
        for _ in 0..settings.calls {
            if is_over.load(Ordering::Relaxed) || Instant::now() >= measured.end {
                break;
            }
            let sent = Instant::now();
            let counts = one(bench, &mut session, &mut generator)?;
            if measured.contains(&Instant::now()) {
                note(&figures, counts, sent.elapsed());
            }
            std::thread::sleep(settings.think);
        }
        Ok(())
    };
    let ends: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let spawn = |number| {
            let (client, is_over) = (&client, &is_over);
            scope.spawn(move || client(number).inspect_err(|_| is_over.store(true, Ordering::Relaxed)))
        };
        let threads: Vec<_> = (0..settings.clients).map(spawn).collect();
        let panicked = || Err("a client has panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    ends.into_iter().collect::<Result<(), String>>()?;
    Ok(figures.into_inner().unwrap_or_else(PoisonError::into_inner))
}

type Counts = (String, weir_conveyor_scale::load::RunClass, End);

fn one(bench: &Bench, session: &mut Session, generator: &mut CallGenerator) -> Result<Counts, String> {
    let call = generator.next_call().map_err(|error| error.to_string())?;
    let (placement, end) = session.call(bench, &call)?;
    Ok((bench.application.procedures[call.procedure].name.clone(), class_of(placement), end))
}

fn note(figures: &Mutex<Figures>, (name, class, end): Counts, latency: Duration) {
    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    match end {
        End::Starved => figures.starved += 1,
        End::Unknown => figures.unknown += 1,
        End::Answered(_) | End::Refused(_) => {
            figures.outcome.record(class, latency.as_nanos() as u64);
            *figures.calls.entry(name).or_default() += 1;
        }
    }
    if let End::Refused(state) = end {
        *figures.refused.entry(state).or_default() += 1;
    }
}
