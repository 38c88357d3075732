//! How hard a world is: drawn from its seed, so that seeds differ in kind.

use weir_conveyor::faults::{AgentBugs, CoordinatorBugs, PlanBugs};
use weir_conveyor::settings::Settings;

use crate::chance::Chance;
use crate::world::application::Shape;

/// Events of a world, and how often each happens. Shares are per mille.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub shape: Shape,
    pub settings: Settings,
    pub clients: u32,
    /// Operations of each client.
    pub operations: u32,
    /// A message is lost, comes twice, or comes late.
    pub lost: u32,
    pub doubled: u32,
    pub late: u32,
    /// Longest time of a step of a session, and of a slow one.
    pub step_ms: u64,
    pub slow: u32,
    pub slow_ms: u64,
    /// Milliseconds between two events of a kind, on average; 0: none.
    pub agent_crash_ms: u64,
    pub database_crash_ms: u64,
    /// The agent that has the token, its database, or both.
    pub holder_crash_ms: u64,
    pub coordinator_crash_ms: u64,
    pub partition_ms: u64,
    /// Slots move, a server joins or leaves.
    pub map_ms: u64,
    /// Longest time until what has crashed starts again.
    pub down_ms: u64,
    /// Longest time that the disk of the coordinator takes.
    pub disk_ms: u64,
    pub bugs: AgentBugs,
    pub plan_bugs: PlanBugs,
    pub coordinator_bugs: CoordinatorBugs,
}

impl Profile {
    /// No faults at all.
    pub fn calm() -> Profile {
        Profile {
            shape: Shape {
                servers: 3,
                spares: 0,
                stocks: 3,
                keys: 6,
                lines: 2,
                global: 400,
                commutative: 50,
            },
            settings: Settings {
                batch_max: 8,
                global_max: 4,
                local_max: 4,
                attempts_max: 4,
                carried_max: 8,
                idle_ms: 10,
                operation_ms: 150,
                resend_ms: 20,
                alive_ms: 10,
                silence_ms: 60,
                token_ms: 200,
                wait_ms: 60_000,
                lag_max: 8,
            },
            clients: 8,
            operations: 30,
            lost: 0,
            doubled: 0,
            late: 0,
            step_ms: 2,
            slow: 0,
            slow_ms: 0,
            agent_crash_ms: 0,
            database_crash_ms: 0,
            holder_crash_ms: 0,
            coordinator_crash_ms: 0,
            partition_ms: 0,
            map_ms: 0,
            down_ms: 1,
            disk_ms: 2,
            bugs: AgentBugs::default(),
            plan_bugs: PlanBugs::default(),
            coordinator_bugs: CoordinatorBugs::default(),
        }
    }

    /// Some faults, each with some chance.
    pub fn of_seed(seed: u64) -> Profile {
        let mut chance = Chance::from_seed(seed ^ 0x5eed);
        let mut maybe = |most: u64| if chance.per_mille(600) { chance.below(most + 1) } else { 0 };
        let [lost, doubled, late, slow] = [60, 100, 100, 30].map(|most| maybe(most) as u32);
        let mut every = |least: u64| Some(maybe(4 * least)).filter(|ms| *ms > 0).map_or(0, |ms| ms + least);
        let [agent_crash_ms, database_crash_ms, holder_crash_ms] = [150, 200, 200].map(&mut every);
        let [coordinator_crash_ms, partition_ms, map_ms] = [300, 250, 100].map(&mut every);
        let spares = if map_ms > 0 { chance.pick(&[0, 0, 1, 2]) } else { 0 };
        let calm = Profile::calm();
        Profile {
            shape: Shape {
                servers: chance.pick(&[1, 2, 3, 3, 4, 5]) + spares,
                spares,
                stocks: chance.pick(&[1, 2, 3, 5]),
                keys: chance.pick(&[3, 6, 10]),
                lines: chance.pick(&[1, 2, 3]),
                global: chance.pick(&[100, 300, 500, 800]),
                commutative: chance.pick(&[0, 50, 200]),
            },
            settings: Settings {
                batch_max: chance.pick(&[1, 3, 8, 100]),
                global_max: chance.pick(&[1, 2, 4, 16]),
                local_max: chance.pick(&[1, 4, 16]),
                attempts_max: chance.pick(&[1, 4, 10]),
                carried_max: chance.pick(&[0, 1, 8, 100]),
                idle_ms: chance.pick(&[1, 10, 30]),
                lag_max: chance.pick(&[16, 100]),
                wait_ms: if seed.is_multiple_of(3) { 300 } else { 60_000 },
                ..calm.settings
            },
            clients: chance.between(2, 12) as u32,
            operations: chance.between(10, 40) as u32,
            lost,
            doubled,
            late,
            step_ms: chance.pick(&[1, 2, 5]),
            slow,
            slow_ms: chance.pick(&[50, 300]),
            agent_crash_ms,
            database_crash_ms,
            holder_crash_ms,
            coordinator_crash_ms,
            partition_ms,
            map_ms,
            down_ms: chance.pick(&[20, 100, 400]),
            disk_ms: chance.pick(&[1, 3, 30]),
            ..calm
        }
    }
}
