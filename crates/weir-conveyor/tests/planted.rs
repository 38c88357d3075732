//! Bugs that the checks must catch: each in a world that is hard where the bug is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_conveyor::faults::{AgentBugs, CoordinatorBugs, PlanBugs};

use crate::world::World;
use crate::world::application::Shape;
use crate::world::profile::Profile;

/// Seeds that a bug may need until it is caught.
const SEEDS: u64 = 1_000;

/// What a wrong history shows: a cycle, answers or states of no serial execution.
const HISTORY: [&str; 3] = ["serializable", "answers", "state"];

/// Many operations at once on few rows; nothing fails.
fn busy() -> Profile {
    Profile {
        shape: Shape { servers: 3, spares: 0, stocks: 2, keys: 3, lines: 2, global: 400, commutative: 0 },
        clients: 16,
        operations: 60,
        step_ms: 4,
        ..Profile::calm()
    }
}

/// Messages are lost, agents and databases crash, sessions are slow.
fn hard() -> Profile {
    Profile {
        lost: 30,
        doubled: 50,
        late: 60,
        slow: 20,
        slow_ms: 300,
        agent_crash_ms: 200,
        database_crash_ms: 250,
        holder_crash_ms: 200,
        coordinator_crash_ms: 400,
        partition_ms: 300,
        down_ms: 100,
        ..busy()
    }
}

/// Nothing crashes, and the token is thought lost all the time.
fn suspicious() -> Profile {
    let calm = busy();
    let settings = weir_conveyor::settings::Settings { token_ms: 30, ..calm.settings };
    Profile { slow: 60, slow_ms: 200, settings, ..calm }
}

/// The coordinator hears of visits late, so that the token is several visits further than it knows.
fn uninformed() -> Profile {
    let suspicious = suspicious();
    let settings =
        weir_conveyor::settings::Settings { alive_ms: 150, silence_ms: 600, ..suspicious.settings };
    Profile { settings, ..suspicious }
}

/// The coordinator crashes all the time, with a slow disk.
fn forgetful() -> Profile {
    Profile { coordinator_crash_ms: 60, disk_ms: 60, down_ms: 20, ..suspicious() }
}

/// Servers are away for long, and there are few visits with state updates.
fn absent() -> Profile {
    Profile {
        clients: 4,
        operations: 30,
        down_ms: 600,
        agent_crash_ms: 120,
        database_crash_ms: 400,
        ..hard()
    }
}

/// Slots move all the time, and servers join and leave.
fn moving() -> Profile {
    let busy = busy();
    Profile {
        shape: Shape { servers: 5, spares: 2, keys: 6, ..busy.shape },
        map_ms: 60,
        late: 60,
        slow: 40,
        slow_ms: 100,
        ..busy
    }
}

/// The same while agents and databases crash.
fn moving_hard() -> Profile {
    let (moving, hard) = (moving(), hard());
    Profile { shape: moving.shape, map_ms: 60, ..hard }
}

/// The worlds in which bugs are caught hold all invariants without bugs.
#[test]
fn without_a_bug_nothing_is_caught() {
    for profile in
        [busy(), hard(), suspicious(), uninformed(), forgetful(), absent(), moving(), moving_hard()]
    {
        crate::seeds::run(0..4, |_| profile);
    }
}

/// Runs seeds until one breaks an invariant, which must be one of these.
fn caught(invariants: &[&str], profile: Profile) {
    for seed in 0..SEEDS {
        let Ok(ran) = catch_unwind(AssertUnwindSafe(|| World::new(seed, profile).run())) else {
            // A machine has met what its own assertions rule out.
            println!("seed {seed}: an assertion of a machine");
            return;
        };
        if let Err(violation) = ran {
            println!("seed {seed}: {}: {}", violation.invariant, violation.text);
            assert!(invariants.contains(&violation.invariant), "{violation:?}");
            return;
        }
    }
    panic!("not caught in {SEEDS} seeds");
}

macro_rules! bugs {
    ($field:ident: $bugs:ident; $($name:ident: $invariants:expr, $profile:expr;)*) => {
        $(#[test] fn $name() {
            let $field = $bugs { $name: true, ..Default::default() };
            caught(&$invariants, Profile { $field, ..$profile });
        })*
    };
}

bugs! {
    bugs: AgentBugs;
    passes_early: HISTORY, busy();
    executes_before_applying: HISTORY, busy();
    passes_unpassed: HISTORY, hard();
    forgets_forwarded: ["once", "liveness"], hard();
    ignores_starts: ["once"], hard();
    executes_anywhere: HISTORY, busy();
    executes_without_token: HISTORY, busy();
}

bugs! {
    plan_bugs: PlanBugs;
    captures_before_commit: HISTORY, busy();
    // An operation that is aborted between its two transactions was told that it has changed nothing.
    captures_after_commit: ["serializable", "answers", "state", "once"], hard();
    applies_one_by_one: HISTORY, busy();
    applies_read_committed: HISTORY, busy();
    moves_position_apart: ["applied"], hard();
    reads_epoch_without_lock: HISTORY, suspicious();
    serves_after_move: HISTORY, moving();
    serves_before_applied: HISTORY, moving();
    checks_map_apart: HISTORY, moving();
    copies_any_base: ["serializable", "answers", "state", "liveness"], moving_hard();
    sends_statements: HISTORY, busy();
    reads_as_it_closes: HISTORY, suspicious();
}

bugs! {
    coordinator_bugs: CoordinatorBugs;
    begins_without_fence: HISTORY, suspicious();
    fences_once: HISTORY, uninformed();
    tells_before_record: HISTORY, forgetful();
    // An agent that needs an epoch that was forgotten never catches up.
    forgets_absent: ["liveness"], absent();
    forgets_reached: ["liveness"], absent();
}
