//! Targets of a load: one server, the belt, or the read-only baseline, each over real servers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use weir_bench::Call;
use weir_bench::postgres::Server;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::matching::Templates;
use weir_conveyor::message::{OperationId, Outcome, Placement};
use weir_conveyor::routing::Routing;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::Work;
use weir_conveyor_net::connection::{Connection, Tables, install, next_start};
use weir_conveyor_net::node::{Cluster, Databases, OneWay, Requests};
use weir_conveyor_net::operation::Answer;
use weir_conveyor_scale::load::RunClass;
use weir_conveyor_scale::sites::{Network, Reading, SITES};

use crate::application::Bench;
use crate::two_phase::{self, TwoPhase};
use crate::{calls, servers, spread};

/// Attempts of an operation that meets serialization failures, on one server.
const ATTEMPTS_MAX: u32 = 20;
const SERVERS_MAX: u16 = 16;

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One server, without an agent.
    Postgres,
    Conveyor(u16),
    /// Operations that only read run at any server, all others at the first one, whose visits feed the others.
    ReadOnly(u16),
    /// Rows are partitioned over servers without agents; what crosses is committed in two phases.
    TwoPhase(u16),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Postgres => f.write_str("postgres"),
            Target::Conveyor(servers) => write!(f, "conveyor:{servers}"),
            Target::ReadOnly(servers) => write!(f, "readonly:{servers}"),
            Target::TwoPhase(servers) => write!(f, "2pc:{servers}"),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let wrong = || {
            format!(
                "{text}: a target is postgres, conveyor:N, readonly:N or 2pc:N, with 1 to {SERVERS_MAX} servers"
            )
        };
        if text == "postgres" {
            return Ok(Target::Postgres);
        }
        let (name, servers) = text.split_once(':').ok_or_else(wrong)?;
        let servers =
            servers.parse().ok().filter(|servers| (1..=SERVERS_MAX).contains(servers)).ok_or_else(wrong)?;
        match name {
            "conveyor" => Ok(Target::Conveyor(servers)),
            "readonly" => Ok(Target::ReadOnly(servers)),
            "2pc" => Ok(Target::TwoPhase(servers)),
            _ => Err(wrong()),
        }
    }
}

impl Target {
    pub fn servers(self) -> u16 {
        match self {
            Target::Postgres => 1,
            Target::Conveyor(servers) | Target::ReadOnly(servers) | Target::TwoPhase(servers) => servers,
        }
    }
}

/// Agents have few connections each: all servers share the cores of one machine.
fn settings() -> Settings {
    Settings { global_max: 8, local_max: 8, idle_ms: 5, ..Settings::default() }
}

/// Over sites a rotation takes longer, and so does everything that waits for one.
fn settings_over_sites() -> Settings {
    Settings { resend_ms: 1_500, silence_ms: 6_000, token_ms: 12_000, operation_ms: 20_000, ..settings() }
}

/// The delays of Table 2 between sites. A server's number is that of its site.
pub fn one_way(reading: Reading) -> OneWay {
    fn delay(reading: Reading, from: ServerId, to: ServerId) -> Duration {
        Duration::from_nanos(Network::Wan(reading).one_way_ns(usize::from(from), usize::from(to)))
    }
    match reading {
        Reading::RoundTrip => |from, to| delay(Reading::RoundTrip, from, to),
        Reading::OneWay => |from, to| delay(Reading::OneWay, from, to),
    }
}

/// Servers that run, with agents where the target has them.
pub struct Deployment {
    target: Target,
    /// The time of a message between sites. None: it takes none.
    one_way: Option<OneWay>,
    // Before the servers, so that it ends first.
    cluster: Option<Cluster>,
    templates: Arc<Templates>,
    configs: Vec<String>,
    servers: Vec<Server>,
}

impl Deployment {
    /// # Errors
    /// PostgreSQL's.
    pub fn start(bench: &Bench, target: Target) -> Result<Deployment, String> {
        Deployment::start_with(bench, target, settings())
    }

    /// The same with servers and clients at sites: messages between agents, and between a client and an agent, take their time.
    ///
    /// # Errors
    /// PostgreSQL's, or there are not so many sites, or the target has no agents whose messages could wait.
    pub fn start_over_sites(bench: &Bench, target: Target, reading: Reading) -> Result<Deployment, String> {
        if let Target::TwoPhase(_) = target {
            return Err("the exchanges of two-phase commit are not delayed: leave --wan away".to_owned());
        }
        if usize::from(target.servers()) > SITES {
            return Err(format!("{target}: there are {SITES} sites"));
        }
        Deployment::start_at(bench, target, (settings_over_sites(), Some(one_way(reading))))
    }

    /// The same with other settings of the agents.
    ///
    /// # Errors
    /// PostgreSQL's.
    pub fn start_with(bench: &Bench, target: Target, settings: Settings) -> Result<Deployment, String> {
        Deployment::start_at(bench, target, (settings, None))
    }

    fn start_at(
        bench: &Bench,
        target: Target,
        (settings, one_way): (Settings, Option<OneWay>),
    ) -> Result<Deployment, String> {
        let ids: Vec<ServerId> = (0..target.servers()).collect();
        let routing = Routing::even(&ids);
        let settings_of = match target {
            Target::TwoPhase(_) => &two_phase::SETTINGS[..],
            _ => &[],
        };
        let servers: Vec<Server> =
            ids.iter().map(|_| servers::start(bench, settings_of)).collect::<Result<_, _>>()?;
        let configs: Vec<String> = servers.iter().map(Server::connection_string).collect();
        let templates = Arc::new(bench.plan.templates(routing.clone()));
        let mut cluster = None;
        if let Target::TwoPhase(_) = target {
            for config in &configs {
                servers::connect(config)?.batch_execute(two_phase::PARTS).map_err(servers::said)?;
            }
        }
        if let Target::Conveyor(_) | Target::ReadOnly(_) = target {
            let mut tables = Tables::new();
            for (server, config) in ids.iter().zip(&configs) {
                servers::number(bench, config, &routing, *server)?;
                tables = install(config).map_err(servers::said)?;
            }
            let databases = Databases {
                configs: ids.iter().copied().zip(configs.clone()).collect(),
                tables: Arc::new(tables),
            };
            let started = cluster.insert(match one_way {
                Some(one_way) => Cluster::with_delays(databases, settings, one_way),
                None => Cluster::new(databases, settings),
            });
            for (server, config) in ids.iter().zip(&configs) {
                started.start_agent(*server, next_start(config).map_err(servers::said)?);
            }
        }
        Ok(Deployment { target, one_way, cluster, templates, configs, servers })
    }

    pub fn configs(&self) -> &[String] {
        &self.configs
    }

    /// The agents, if the target has them.
    pub fn cluster(&mut self) -> Option<&mut Cluster> {
        self.cluster.as_mut()
    }

    /// A server ends at once, as a crash of its process does, and starts again.
    ///
    /// # Errors
    /// PostgreSQL's.
    pub fn crash(&mut self, server: ServerId) -> Result<(), String> {
        self.servers[usize::from(server)].crash().map_err(|error| error.to_string())
    }

    /// Process ids of the servers.
    pub fn process_ids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::process_id).collect()
    }

    /// A client's session.
    ///
    /// # Errors
    /// The server's.
    pub fn session(&self, client: u64) -> Result<Session, String> {
        // Over sites, clients of one server are at all of them, too.
        let sites = match (self.target, self.one_way) {
            (Target::Postgres, Some(_)) => SITES as u64,
            (target, _) => u64::from(target.servers()),
        };
        let here = (client % sites) as ServerId;
        let way = match &self.cluster {
            None if self.target != Target::Postgres => {
                Way::Phases(Box::new(TwoPhase::open(client, &self.configs)?))
            }
            None => {
                let tables = Arc::new(BTreeMap::new());
                Way::Direct(Box::new(Connection::open(&self.configs[0], tables).map_err(servers::said)?))
            }
            Some(cluster) => Way::Agents(cluster.requests()),
        };
        Ok(Session {
            target: self.target,
            one_way: self.one_way,
            templates: self.templates.clone(),
            here,
            way,
        })
    }
}

enum Way {
    Direct(Box<Connection>),
    Agents(Requests),
    Phases(Box<TwoPhase>),
}

/// A session of a client.
pub struct Session {
    target: Target,
    one_way: Option<OneWay>,
    templates: Arc<Templates>,
    here: ServerId,
    way: Way,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With what its function gives.
    Answered(Option<String>),
    /// The application's own error, by SQLSTATE.
    Refused(String),
    /// Serialization failures only.
    Starved,
    Unknown,
}

impl Session {
    /// Where a call runs.
    ///
    /// # Errors
    /// The plan has no such transaction, or a value cannot be placed.
    pub fn placement(
        &self,
        bench: &Bench,
        call: &Call,
        arguments: &[Option<String>],
    ) -> Result<Placement, String> {
        let name = &bench.application.procedures[call.procedure].name;
        let texts: Vec<Option<&str>> = arguments.iter().map(Option::as_deref).collect();
        let placed = || {
            let values = bench.plan.call(name, &texts)?;
            self.templates.call(name, &values, self.here)
        };
        let placement =
            placed().ok_or_else(|| format!("nobody knows where {name} with {arguments:?} runs"))?;
        let reads_only = bench.plan.operation(name).is_some_and(|operation| operation.is_read_only);
        Ok(match self.target {
            Target::ReadOnly(_) if reads_only => Placement::Commutative,
            Target::ReadOnly(_) => Placement::Global(0),
            Target::Postgres | Target::Conveyor(_) | Target::TwoPhase(_) => placement,
        })
    }

    /// Runs a call.
    ///
    /// # Errors
    /// As [`Session::placement`].
    pub fn call(&mut self, bench: &Bench, call: &Call) -> Result<(Placement, End), String> {
        let arguments = calls::arguments(&bench.application, call);
        let placement = self.placement(bench, call, &arguments)?;
        let operation = calls::operation(bench, call, &arguments);
        // Clients are at sites as the servers are; the one server of `postgres` is at the first.
        let to = match self.target {
            Target::Postgres => 0,
            _ => placement.server().unwrap_or(self.here),
        };
        let way = |from: ServerId, to: ServerId| {
            let _ = self.one_way.map(|one_way| std::thread::sleep(one_way(from, to)));
        };
        way(self.here, to);
        let end = match &mut self.way {
            Way::Direct(connection) => direct(connection, operation),
            Way::Phases(phases) => {
                let name = &bench.application.procedures[call.procedure].name;
                let spread = spread::of(&bench.name, name).ok_or_else(|| {
                    format!("nobody has said how {name} spreads over servers: spread.rs has to say it")
                })?;
                let home = usize::from(placement.server().unwrap_or(self.here));
                phases.call(home, &calls::text(bench, call, &arguments), spread)
            }
            Way::Agents(requests) => {
                // Clients know where their operations belong (§4, "Redirections").
                match requests.request(to, placement, operation).recv() {
                    Ok(Outcome::Answered(answer)) => of_answer(answer),
                    Ok(Outcome::Starved | Outcome::TooLong | Outcome::NotBegun(_) | Outcome::WrongMap) => {
                        End::Starved
                    }
                    Ok(Outcome::Unknown) | Err(_) => End::Unknown,
                }
            }
        };
        way(to, self.here);
        Ok((placement, end))
    }
}

/// The class as reports have it.
pub fn class_of(placement: Placement) -> RunClass {
    match placement {
        Placement::Commutative => RunClass::Commutative,
        Placement::Local(_) => RunClass::Local,
        Placement::Global(_) => RunClass::Global,
    }
}

fn of_answer(answer: Answer) -> End {
    match answer {
        Ok(results) => End::Answered(
            results.into_iter().next_back().and_then(|rows| rows.into_iter().flatten().flatten().next()),
        ),
        Err(error) => End::Refused(error.sqlstate),
    }
}

fn direct(connection: &mut Connection, operation: weir_conveyor_net::operation::Operation) -> End {
    use weir_conveyor::work::Done;
    let id = OperationId { agent: 0, start: 1, number: 1 };
    let operation = weir_conveyor_net::operation::Job::Statements(operation);
    let work = Work::Execute { id, operation, license: None, map: 0 };
    for _ in 0..ATTEMPTS_MAX {
        match connection.run(&work) {
            Done::Executed(answer) => return of_answer(answer),
            Done::SerializationFailure => {}
            _ => return End::Unknown,
        }
    }
    End::Starved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_printed() {
        for target in [Target::Postgres, Target::Conveyor(3), Target::ReadOnly(16), Target::TwoPhase(4)] {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        for wrong in ["mysql", "conveyor", "conveyor:0", "readonly:17", "2pc:x"] {
            assert!(wrong.parse::<Target>().unwrap_err().contains("a target is"), "{wrong}");
        }
    }
}
