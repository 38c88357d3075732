//! Waiting for another process, by asking it until it is so. Tests wait in no other way (`cargo xtask verify`).

use std::fmt::Display;
use std::time::{Duration, Instant};

use postgres::Client as Driver;

/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(5);

/// A machine under load may be slow; what never comes fails the test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until there is an answer.
pub fn eventually<T>(what: impl Display, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Asks until it is so.
pub fn until(what: impl Display, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}

/// Until the server says that so many sessions wait for locks.
pub fn until_locked(watch: &mut Driver, sessions: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let mut count = || watch.query_one(waiting, &[]).unwrap().get::<_, i64>(0);
    until(format!("{sessions} sessions wait for locks"), || count() == sessions);
}
