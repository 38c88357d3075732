//! Starts what `weir conveyor` runs: an agent with its front, or the front of a pure pass-through.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use postgres::NoTls;
use postgres::error::SqlState;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::routing::Routing;
use weir_conveyor::settings::Settings;
use weir_conveyor_net::check::{Finding, check};
use weir_conveyor_net::config::{Config, Server, first_line};
use weir_conveyor_net::connection::{install, next_start};
use weir_conveyor_net::map_change::{map_of, set_first_map};
use weir_conveyor_net::pass_through::PassThrough;
use weir_conveyor_net::process::{AgentProcess, ProcessSettings};
use weir_conveyor_net::raw::RawConnection;
use weir_conveyor_net::sockets::Identity;
use weir_conveyor_net::workers::Databases;
use weir_pg::Door;
use weir_server::serve::Durability;

use crate::application::{Application, templates_of};
use crate::door::Front;
use crate::executor::SharedExecutor;
use crate::rows::Keys;
use crate::shared::{FrontSettings, Mode};

/// Connections of clients, unless the configuration says otherwise.
const CONNECTIONS_MAX: usize = 10_000;

/// Size of the coordinator's log before a snapshot takes its place. An epoch takes some hundred bytes.
const LOG_BYTES: u64 = 1 << 20;

/// Names of the functions and relations that are not the server's own.
const OWN_NAMES: &str = "\
SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'weir_conveyor') UNION
SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'weir_conveyor', 'pg_toast')";

/// A running process. Dropping it ends its sessions, then its agent.
pub struct Running {
    pub front: Front,
    agent: Option<Arc<AgentProcess>>,
    config: Config,
}

/// The application of a configuration.
///
/// # Errors
/// In words, with place and remedy.
pub fn application_of(config: &Config, file: &Path) -> Result<Arc<dyn Application>, String> {
    let servers = config.members();
    // A relative path is from the configuration's folder.
    let folder = file.parent().unwrap_or(Path::new(".")).join(&config.application);
    templates_of(&folder, &servers)
}

/// Looks at every server. Each complaint says where, what, and what to do.
pub fn complaints(config: &Config, application: &dyn Application) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, server) in config.server.iter().enumerate() {
        let checked = check(&server.database, |table| application.is_written(table)).and_then(|findings| {
            Ok((findings, wrong_sequences(application, number as ServerId, &server.database)?))
        });
        match checked {
            Ok((findings, sequences)) => {
                complaints.extend(findings.iter().map(|finding| complaint(server, finding)));
                complaints.extend(sequence_complaint(server, &sequences));
            }
            Err(error) => complaints.push(format!(
                "server `{}`: cannot be looked at: {}\nhint: start it, or correct its `database`",
                server.name,
                said(&error)
            )),
        }
    }
    complaints
}

/// Statements for the sequences of a server, by the map of slots that its database has, if it has one.
fn wrong_sequences(
    application: &dyn Application,
    server: ServerId,
    database: &str,
) -> Result<Vec<String>, postgres::Error> {
    match map_of(database) {
        Ok(Some(map)) => application.routed(map).sequences(server, database),
        Ok(None) => application.sequences(server, database),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
            application.sequences(server, database)
        }
        Err(error) => Err(error),
    }
}

/// Ids that a server generates must route back to it: two servers would give the same ones.
fn sequence_complaint(server: &Server, statements: &[String]) -> Option<String> {
    (!statements.is_empty()).then(|| {
        let name = &server.name;
        let statements = statements.join("; ");
        format!("server `{name}`: ids of its sequences do not route back to it\nhint: while nobody works, run there: {statements}")
    })
}

fn said(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

fn complaint(server: &Server, finding: &Finding) -> String {
    let (what, remedy) = match finding {
        Finding::OldServer { version } => {
            (format!("its version {version} is older than 14"), "run PostgreSQL 14 or later".to_owned())
        }
        Finding::MayNotApply => (
            "its role may not set session_replication_role, by which state updates are applied".to_owned(),
            "connect as a superuser, or GRANT SET ON PARAMETER session_replication_role TO the role"
                .to_owned(),
        ),
        Finding::NotSerializable { why } => (
            format!("transactions cannot be SERIALIZABLE: {why}"),
            "connect to a primary, not to a standby".to_owned(),
        ),
        Finding::MayNotInstall { why } => (
            format!("the role cannot make the schema weir_conveyor: {why}"),
            "GRANT CREATE ON DATABASE to the role, and make it the owner of the tables".to_owned(),
        ),
        Finding::NoPrimaryKey { table } => (
            format!("table {table} has no primary key, and global operations write it"),
            format!("ALTER TABLE {table} ADD PRIMARY KEY (…)"),
        ),
        Finding::UniqueKey { table, index } => (
            format!(
                "table {table} has the unique key {index} beside its primary key, and global operations write it"
            ),
            "make it the primary key or drop it, if commutative or local operations write its columns"
                .to_owned(),
        ),
        Finding::RowSecurity { table } => (
            format!("table {table} has row security: rows that a role does not see are not captured"),
            format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"),
        ),
    };
    format!("server `{}`: {what}\nhint: {remedy}", server.name)
}

impl Running {
    /// Starts the agent of a server and its front; or a pass-through that observes.
    ///
    /// # Errors
    /// In words: what is wrong, and what would be right.
    pub fn start(config: Config, file: &Path, name: &str, mode: Mode) -> Result<Running, String> {
        let number = config.number(name)?;
        let server = &config.server[usize::from(number)];
        let application = application_of(&config, file)?;
        let door = door(&config, server)?;
        let unreachable =
            |why: String| format!("server `{name}`: {why}\nhint: start it, or correct its `database`");
        let parameters =
            RawConnection::parameters_of(&server.database).map_err(|error| unreachable(error.to_string()))?;
        let of_server = |error: postgres::Error| unreachable(said(&error));
        if mode != Mode::Observes {
            let wrong = wrong_sequences(&*application, number, &server.database).map_err(of_server)?;
            if let Some(complaint) = sequence_complaint(server, &wrong) {
                return Err(complaint);
            }
        }
        let own_names = own_names(&server.database).map_err(of_server)?;
        let keys = primary_keys(&server.database).map_err(of_server)?;
        let settings = config.settings.settings();
        let (executor, agent, start): (SharedExecutor, _, _) = match mode {
            Mode::Observes => {
                let pool = PassThrough::start(server.database.clone(), settings.local_max);
                (Arc::new(pool), None, 0)
            }
            Mode::Placed => {
                let (agent, start) = start_agent(&config, number, settings).map_err(|why| match why {
                    Wrong::Server(error) => of_server(error),
                    Wrong::Other(why) => why,
                })?;
                (agent.clone(), Some(agent), start)
            }
        };
        let password = config.clients.password_file.as_deref().map(first_line).transpose()?;
        let front = Front::start(
            door,
            FrontSettings {
                server: number,
                start,
                servers: config.server.clone(),
                mode,
                application,
                executor,
                parameters,
                own_names,
                keys,
                database: database_of(&config),
                password,
            },
        );
        let front = front.map_err(|not_started| format!("{}\nhint: {}", not_started.0, not_started.1))?;
        Ok(Running { front, agent, config })
    }

    /// Why the process cannot go on, if it cannot.
    pub fn failure(&self) -> Option<String> {
        self.agent.as_ref().and_then(|agent| agent.failure())
    }

    /// Takes the bounds of another configuration. Returns what it says differently that a running process does not take.
    pub fn reload(&mut self, config: Config) -> Vec<&'static str> {
        let (old, new) = (self.config.settings.settings(), config.settings.settings());
        let Config { application, directory, secret_file, clients, server, .. } = &self.config;
        let mut kept = Vec::new();
        for (name, differs) in [
            ("application", *application != config.application),
            ("directory", *directory != config.directory),
            ("secret_file", *secret_file != config.secret_file),
            ("[clients]", *clients != config.clients),
            ("[[server]]", *server != config.server),
            ("settings.global_max", old.global_max != new.global_max),
            ("settings.local_max", old.local_max != new.local_max),
        ] {
            if differs {
                kept.push(name);
            }
        }
        let taken = Settings { global_max: old.global_max, local_max: old.local_max, ..new };
        if let Some(agent) = &self.agent {
            agent.set_settings(taken);
        }
        self.config.settings = config.settings;
        (self.config.settings.global_max, self.config.settings.local_max) =
            (Some(old.global_max), Some(old.local_max));
        kept
    }
}

fn door(config: &Config, server: &Server) -> Result<Door, String> {
    let clients = &config.clients;
    let password = clients.password_file.as_deref().map(first_line).transpose()?;
    let certificate = clients.tls_certificate.clone().zip(clients.tls_key.clone());
    let settings = weir_pg::Settings {
        database: database_of(config),
        password,
        certificate,
        connections_max: clients.connections_max.unwrap_or(CONNECTIONS_MAX),
        insecure: clients.insecure,
        ..weir_pg::Settings::new(server.listen)
    };
    Door::new(settings).map_err(|closed| {
        format!("server `{}`: {}\nhint: name `password_file`, `tls_certificate` and `tls_key` in [clients], or say `insecure = true` there", server.name, closed.0)
    })
}

fn database_of(config: &Config) -> String {
    let of_server = || {
        let parsed = postgres::Config::from_str(&config.server[0].database).ok()?;
        parsed.get_dbname().map(str::to_owned)
    };
    config.clients.database.clone().or_else(of_server).unwrap_or_else(|| "postgres".to_owned())
}

fn own_names(database: &str) -> Result<Vec<String>, postgres::Error> {
    let mut client = postgres::Client::connect(database, NoTls)?;
    let mut names: Vec<String> = client.query(OWN_NAMES, &[])?.iter().map(|row| row.get(0)).collect();
    names.sort_unstable();
    Ok(names)
}

/// Columns of the primary keys, in their order. Tables of one name in two schemas count as one.
const PRIMARY_KEYS: &str = "SELECT c.relname::text, array_agg(a.attname::text ORDER BY array_position(i.indkey::smallint[], a.attnum)) \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
     WHERE i.indisprimary AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' GROUP BY c.oid, c.relname";

fn primary_keys(database: &str) -> Result<Keys, postgres::Error> {
    let mut client = postgres::Client::connect(database, NoTls)?;
    let rows = client.query(PRIMARY_KEYS, &[])?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

enum Wrong {
    Server(postgres::Error),
    Other(String),
}

fn start_agent(
    config: &Config,
    number: ServerId,
    settings: Settings,
) -> Result<(Arc<AgentProcess>, u64), Wrong> {
    let server = &config.server[usize::from(number)];
    let tables = install(&server.database).map_err(Wrong::Server)?;
    let first_map = Routing::first(&config.members());
    set_first_map(&server.database, &first_map).map_err(Wrong::Server)?;
    let start = next_start(&server.database).map_err(Wrong::Server)?;
    let numbered = || (0..).zip(&config.server);
    let addresses = numbered().map(|(number, server)| (number, server.agent)).collect();
    let configs = numbered().map(|(number, server)| (number, server.database.clone())).collect();
    let terms = config.terms().map_err(Wrong::Other)?;
    let process = AgentProcess::start(ProcessSettings {
        identity: Identity { server: number, terms, addresses },
        start,
        databases: Databases { configs, tables: Arc::new(tables) },
        settings,
        directory: config.directory.join(&server.name),
        durability: Durability::Sync,
        snapshot_after: LOG_BYTES,
        first_map,
    });
    Ok((Arc::new(process.map_err(Wrong::Other)?), start))
}
