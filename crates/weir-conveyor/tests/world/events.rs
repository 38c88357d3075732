//! Events of a world, and their effects.

use weir_conveyor::coordinator::{Coordinator, CoordinatorState, Record};
use weir_conveyor::epochs::{ServerId, StartNumber};
use weir_conveyor::message::{Instruction, Outcome, Report};
use weir_conveyor::work::WorkId;
use weir_core::lsn::{HeldMessages, Lsn};

use crate::world::sessions::SessionId;
use crate::world::{FAULTS_MS, Party, SimAgent, SimDone, SimMessage, TICK_MS, World};

/// An event.
pub enum Event {
    Deliver {
        from: ServerId,
        to: ServerId,
        message: Box<SimMessage>,
    },
    Report {
        from: ServerId,
        report: Report,
    },
    Instruct {
        to: ServerId,
        instruction: Instruction,
    },
    Timer(Party),
    /// A session does something.
    Step(SessionId),
    /// A piece of work has ended; `database`: its server, and the start of the database in which it began.
    Done {
        agent: ServerId,
        start: StartNumber,
        id: WorkId,
        done: SimDone,
        database: (ServerId, u64),
    },
    /// The disk of the coordinator has written up to that position of that start.
    Durable {
        start: u64,
        up_to: Lsn,
    },
    /// A client sends its next operation.
    Request(usize),
    Crash(Victim),
    StartAgent(ServerId),
    StartDatabase(ServerId),
    StartCoordinator,
    /// The map of slots changes.
    ChangeMap,
    /// Servers that were added are told so, and say when they have joined.
    Join,
    Partition,
    Heal,
    /// All faults end.
    FaultsEnd,
}

/// What crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Agent,
    Database,
    Holder,
    Coordinator,
}

impl World {
    pub(super) fn begin(&mut self) {
        self.start_coordinator();
        for server in self.servers.clone() {
            self.start_agent(server);
            self.schedule_timer(Party::Agent(server));
        }
        self.schedule_timer(Party::Coordinator);
        (0..self.clients.len()).for_each(|client| self.schedule_request(client));
        for victim in [Victim::Agent, Victim::Database, Victim::Holder, Victim::Coordinator] {
            self.schedule_crash(victim);
        }
        self.schedule_partition();
        self.schedule_map_change();
        self.schedule(FAULTS_MS, Event::FaultsEnd);
    }

    fn schedule_timer(&mut self, party: Party) {
        let after_ms = self.chance.between(1, TICK_MS);
        self.schedule(after_ms, Event::Timer(party));
    }

    fn schedule_request(&mut self, client: usize) {
        let after_ms = self.chance.below(2 * FAULTS_MS / u64::from(self.profile.operations.max(1)));
        self.schedule(after_ms, Event::Request(client));
    }

    fn schedule_crash(&mut self, victim: Victim) {
        let every_ms = match victim {
            Victim::Agent => self.profile.agent_crash_ms,
            Victim::Database => self.profile.database_crash_ms,
            Victim::Holder => self.profile.holder_crash_ms,
            Victim::Coordinator => self.profile.coordinator_crash_ms,
        };
        if every_ms > 0 {
            let after_ms = self.chance.between(1, 2 * every_ms);
            self.schedule(after_ms, Event::Crash(victim));
        }
    }

    fn schedule_partition(&mut self) {
        if self.profile.partition_ms > 0 {
            let after_ms = self.chance.between(1, 2 * self.profile.partition_ms);
            self.schedule(after_ms, Event::Partition);
        }
    }

    pub(super) fn happen(&mut self, event: Event) {
        let now_ms = self.now_ms;
        match event {
            Event::Deliver { from, to, message } => {
                self.step_agent(to, |agent, out| agent.step(now_ms, from, *message, out));
            }
            Event::Report { from, report } => {
                self.counts.promises += u64::from(matches!(report, Report::Unpassed { .. }));
                self.step_coordinator(|machine, out| machine.step(now_ms, from, report, out));
            }
            Event::Instruct { to, instruction } => {
                self.step_agent(to, |agent, out| agent.on_instruction(now_ms, instruction, out));
            }
            Event::Timer(party) => self.on_timer(party),
            Event::Step(session) => self.step_session(session),
            Event::Done { agent, start, id, done, database } => {
                self.on_done((agent, start), id, done, database);
            }
            Event::Durable { start, up_to } => self.on_durable(start, up_to),
            Event::Request(client) => self.on_request(client),
            Event::Crash(victim) if self.is_faulty => {
                self.crash(victim);
                self.schedule_crash(victim);
            }
            Event::Partition if self.is_faulty => {
                self.partition();
                self.schedule_partition();
            }
            Event::Crash(_) | Event::Partition => {}
            Event::ChangeMap => self.change_map(),
            Event::Join => self.join(),
            Event::StartAgent(server) => self.start_agent(server),
            Event::StartDatabase(server) => self.start_database(server),
            Event::StartCoordinator => self.start_coordinator(),
            Event::Heal => self.island.clear(),
            Event::FaultsEnd => self.end_faults(),
        }
    }

    fn on_timer(&mut self, party: Party) {
        let now_ms = self.now_ms;
        match party {
            Party::Agent(server) => self.step_agent(server, |agent, out| agent.on_timer(now_ms, out)),
            Party::Coordinator => self.step_coordinator(|machine, out| machine.on_timer(now_ms, out)),
        }
        self.schedule_timer(party);
    }

    fn on_done(
        &mut self,
        (server, start): (ServerId, StartNumber),
        id: WorkId,
        done: SimDone,
        (database, database_start): (ServerId, u64),
    ) {
        // What a database has done in its last moments, nobody hears.
        let is_lost = self.databases[&database].start != database_start;
        let done = if is_lost { SimDone::Lost } else { done };
        if self.starts[&server] != start {
            return;
        }
        match done {
            SimDone::SerializationFailure => self.counts.serialization_failures += 1,
            SimDone::NotLicensed => self.counts.unlicensed += 1,
            SimDone::Truncated => self.counts.truncations += 1,
            _ => {}
        }
        let now_ms = self.now_ms;
        self.step_agent(server, |agent, out| agent.on_done(now_ms, id, done, out));
    }

    fn on_durable(&mut self, start: u64, up_to: Lsn) {
        let host = &mut self.coordinator;
        // A disk writes in order.
        if host.start != start || host.machine.is_none() || up_to <= host.held.durable() {
            return;
        }
        let durable = host.base.saturating_add_unsigned(up_to.0 as usize).max(0) as usize;
        host.durable = host.durable.max(durable);
        if self.chance.per_mille(300) {
            // The file of a checkpoint takes the place of the earlier records at once.
            let state = CoordinatorState::of(&host.records[..host.durable]);
            host.records.splice(..host.durable, [Record::Checkpoint(state)]);
            host.base -= host.durable as isize - 1;
            host.durable = 1;
            self.counts.checkpoints += 1;
        }
        let leaving = host.held.on_durable(up_to).collect();
        self.send_instructions(leaving);
    }

    /// A client sends its next operation to any agent that lives.
    fn on_request(&mut self, index: usize) {
        let client = self.clients[index].clone();
        let server = self.chance.pick(&self.servers.clone());
        let has_work = client.left > 0 || client.operation.is_some();
        if let Some(map) = self.map_of_agent(server)
            && client.at.is_none()
            && has_work
        {
            let operation = client.operation.map(|operation| operation.placed(&map));
            let operation = operation.unwrap_or_else(|| {
                self.clients[index].left -= 1;
                self.next_number += 1;
                self.profile.shape.operation(self.next_number - 1, &map, &mut self.chance)
            });
            let number = operation.number;
            self.clients[index].operation = Some(operation.clone());
            let id = self.request(server, operation);
            self.clients[index].at = id.map(|id| (server, id, number));
        }
        if self.clients[index].left > 0 || self.clients[index].operation.is_some() {
            self.schedule_request(index);
        }
    }

    fn start_agent(&mut self, server: ServerId) {
        if self.agents.get(&server).is_some_and(Option::is_some) {
            return;
        }
        let start = self.starts.entry(server).or_default();
        *start += 1;
        let (settings, bugs) = (self.profile.settings, self.profile.bugs);
        let agent = SimAgent::new(server, *start, self.servers.clone(), settings, bugs);
        self.agents.insert(server, Some(agent));
    }

    fn start_database(&mut self, server: ServerId) {
        if let Some(database) = self.databases.get_mut(&server) {
            database.is_up = true;
        }
    }

    fn start_coordinator(&mut self) {
        let host = &mut self.coordinator;
        if host.machine.is_some() {
            return;
        }
        host.records.truncate(host.durable);
        host.start += 1;
        host.base = host.durable as isize;
        host.held = HeldMessages::default();
        let (settings, bugs) = (self.profile.settings, self.profile.coordinator_bugs);
        let machine = Coordinator::new(
            self.now_ms,
            (self.servers.clone(), self.profile.shape.map().absent),
            settings,
            bugs,
            &host.records,
        );
        host.machine = Some(machine);
        self.step_coordinator(|_, _| {});
    }

    fn crash(&mut self, victim: Victim) {
        let server = self.chance.pick(&self.servers.clone());
        match victim {
            Victim::Agent => self.crash_agent(server),
            Victim::Database => self.crash_database(server),
            Victim::Coordinator => {
                self.coordinator.machine = None;
                self.schedule_restart(Event::StartCoordinator);
            }
            Victim::Holder => {
                let agents = self.agents.values().flatten();
                let holder = agents.into_iter().find(|agent| agent.visit().is_some()).map(SimAgent::server);
                let Some(holder) = holder else { return };
                let kind = self.chance.below(3);
                if kind != 0 {
                    self.crash_database(holder);
                }
                if kind != 1 {
                    self.crash_agent(holder);
                }
            }
        }
    }

    fn schedule_restart(&mut self, event: Event) {
        let after_ms = self.chance.between(1, self.profile.down_ms.max(1));
        self.schedule(after_ms, event);
    }

    /// The clients of the agent are told that its fate is unknown. Its sessions go on for a while.
    fn crash_agent(&mut self, server: ServerId) {
        if self.agents.insert(server, None).flatten().is_none() {
            return;
        }
        self.counts.agent_crashes += 1;
        let start = self.starts[&server];
        let of_agent =
            |session: &&mut crate::world::Session| (session.agent, session.start) == (server, start);
        self.sessions.values_mut().filter(of_agent).for_each(|session| session.is_orphan = true);
        for client in &mut self.clients {
            if let Some((_, _, number)) = client.at.take_if(|(at, _, _)| *at == server) {
                client.operation = None;
                self.history.answered.push((number, Outcome::Unknown));
                self.counts.unknown += 1;
            }
        }
        self.schedule_restart(Event::StartAgent(server));
    }

    fn crash_database(&mut self, server: ServerId) {
        let Some(database) = self.databases.get_mut(&server) else { return };
        if database.is_up {
            database.crash();
            self.counts.database_crashes += 1;
            self.schedule_restart(Event::StartDatabase(server));
        }
    }

    fn partition(&mut self) {
        let parties = self.servers.iter().map(|server| Party::Agent(*server)).chain([Party::Coordinator]);
        let parties: Vec<_> = parties.collect();
        self.island = parties.into_iter().filter(|_| self.chance.per_mille(350)).collect();
        let after_ms = self.chance.between(10, 200);
        self.schedule(after_ms, Event::Heal);
    }

    fn end_faults(&mut self) {
        self.is_faulty = false;
        self.island.clear();
        for server in self.servers.clone() {
            self.start_database(server);
            self.start_agent(server);
        }
        self.start_coordinator();
    }
}
