//! Targets of a measurement: servers that are started for it, servers that run, files of SQLite.

use std::path::{Path, PathBuf};

use weir_harness::folder::Folder;
use weir_harness::{mariadb, postgres};

use crate::connection::{Address, Connection, Dialect, connect};
use crate::servers::{DEADLOCK_TIMEOUT, MARIADB_DATABASE};
use crate::weir_process::{Served, WeirProcess};
use crate::workload::{Definition, Workload, Wrong};

/// The places that there are, for messages.
pub const PLACES: &str = "the targets are: weir:, postgres, mariadb, sqlite:, baseline:PROGRAM (an earlier Weir), which are started for the \
     measurement; sqlite:FILE; and servers that run: weir://USER@HOST:PORT/DATABASE, postgres://…, mysql://…; \
     weir:cluster.toml, a cluster that runs, is one of ycsb alone";

/// A target of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A server of this program.
    Weir,
    Postgres,
    MariaDb,
    /// A file of SQLite in a folder of its own.
    Sqlite,
    /// A server of an earlier Weir.
    Baseline(PathBuf),
    SqliteFile(PathBuf),
    /// A server that runs: its URL.
    Running(String),
}

impl Place {
    /// Parses a target of the command line.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Place, Wrong> {
        let wrong =
            |what: &str, hint: &str| Err(Wrong::new(format!("`{}` {what}", without_password(text)), hint));
        if let Some((scheme, rest)) = text.split_once("://") {
            let is_known = ["weir", "postgres", "postgresql", "mysql", "mariadb"].contains(&scheme);
            return match (is_known, rest.is_empty()) {
                (true, false) => Ok(Place::Running(text.to_owned())),
                (true, true) => wrong("names no server", "postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
                (false, _) => wrong("is no target", PLACES),
            };
        }
        match text.split_once(':').unwrap_or((text, "")) {
            ("weir", "") => Ok(Place::Weir),
            ("postgres" | "postgresql", "") => Ok(Place::Postgres),
            ("mariadb" | "mysql", "") => Ok(Place::MariaDb),
            ("sqlite", "") => Ok(Place::Sqlite),
            ("sqlite", path) => Ok(Place::SqliteFile(path.into())),
            ("baseline", "") => wrong("names no program", "baseline:PROGRAM, as in baseline:./weir-1.0"),
            ("baseline", program) if Path::new(program).is_file() => Ok(Place::Baseline(program.into())),
            ("baseline", _) => wrong("is not there, or is no file", "baseline:PROGRAM names an earlier Weir"),
            _ => wrong("is no target", PLACES),
        }
    }

    /// Name in runs and ratios; passwords are left out.
    pub fn label(&self) -> String {
        match self {
            Place::Weir => "weir".to_owned(),
            Place::Postgres => "postgres".to_owned(),
            Place::MariaDb => "mariadb".to_owned(),
            Place::Sqlite => "sqlite".to_owned(),
            Place::Baseline(program) => format!("baseline:{}", program.display()),
            Place::SqliteFile(path) => format!("sqlite:{}", path.display()),
            Place::Running(url) => without_password(url),
        }
    }

    /// It plans procedures, and its plan says at which level a call runs.
    pub fn is_weir(&self) -> bool {
        match self {
            Place::Weir | Place::Baseline(_) => true,
            Place::Running(url) => url.starts_with("weir://"),
            _ => false,
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Place::MariaDb => Dialect::MySql,
            Place::Sqlite | Place::SqliteFile(_) => Dialect::Sqlite,
            Place::Running(url) => running(url).dialect(),
            Place::Weir | Place::Baseline(_) | Place::Postgres => Dialect::Postgres,
        }
    }
}

fn running(url: &str) -> Address {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match scheme {
        "mysql" | "mariadb" => Address::MySqlUrl(format!("mysql://{rest}")),
        _ => Address::Postgres(format!("postgres://{rest}")),
    }
}

/// The address without the password behind its user and without those among its parameters. What is no address stays as it is.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may have any character: where there is an `@` before the path, the user is before the first `:`.
    let before_path = rest.find('/').map_or(rest, |path| &rest[..path]);
    let user = match before_path.rfind('@') {
        Some(at) => Some((&rest[..at], &rest[at + 1..])),
        // A slash in a password, or an `@` in a parameter.
        None => rest.split_once('@').filter(|(user, _)| user.contains(':') && !user.contains('?')),
    };
    let (user, place) = match user {
        // An `@` in a parameter, and no path: all of it may be a password.
        Some((user, _)) if user.contains("password=") => {
            (String::new(), user.split('?').next().unwrap_or_default())
        }
        Some((user, place)) => (format!("{}@", user.split(':').next().unwrap_or(user)), place),
        None => (String::new(), rest),
    };
    let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
    let is_shown = |one: &&str| !one.split('=').next().unwrap_or(one).contains("password");
    let shown = parameters.split('&').filter(is_shown).collect::<Vec<&str>>().join("&");
    let mark = if shown.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{place}{mark}{shown}")
}

/// Settings with which servers are started.
#[derive(Clone, Debug)]
pub struct Starting {
    /// The program `weir`.
    pub weir: PathBuf,
    pub shards: u16,
    /// COMMIT waits for the disk.
    pub is_durable: bool,
}

/// A process or a folder that ends with its place.
#[derive(Debug)]
enum Process {
    Weir(#[expect(dead_code, reason = "dropping it ends the server")] WeirProcess),
    Postgres(#[expect(dead_code, reason = "dropping it ends the server")] postgres::Server),
    MariaDb(#[expect(dead_code, reason = "dropping it ends the server")] mariadb::Server),
    Sqlite(#[expect(dead_code, reason = "dropping it removes the folder")] Folder),
    /// Nothing: what was made there is dropped.
    Elsewhere,
}

/// A place with the tables of a workload.
#[derive(Debug)]
pub struct Ready {
    place: Place,
    definition: Definition,
    pub address: Address,
    process: Process,
    /// The rows that are there.
    filled: Option<Vec<String>>,
    /// Tables and routines were made here, and not by starting a server.
    was_made: bool,
}

/// Places that are ready, each for one definition.
#[derive(Debug)]
pub struct Places {
    starting: Starting,
    ready: Vec<Ready>,
}

impl Places {
    pub fn new(starting: Starting) -> Places {
        Places { starting, ready: Vec::new() }
    }

    /// The address of the workload's tables, with their rows; servers are started and tables filled when they are first asked for.
    ///
    /// # Errors
    /// A server cannot be started or the tables cannot be made; in words.
    pub fn ready(&mut self, place: &Place, workload: &dyn Workload) -> Result<Address, String> {
        let definition = workload.definition();
        let is_started = !matches!(place, Place::Running(_) | Place::SqliteFile(_));
        if is_started && workload.wants_a_fresh_server() {
            self.ready.retain(|one| one.place != *place);
        }
        let known = self.ready.iter().position(|one| one.place == *place && one.definition == definition);
        let number = match known {
            Some(number) => number,
            None => {
                self.drop_others(place);
                self.ready.push(Ready::new(place, definition, &self.starting)?);
                self.ready.len() - 1
            }
        };
        let ready = &mut self.ready[number];
        // The setup of a trace is for servers that are started.
        let rows = if is_started || !workload.wants_a_fresh_server() { workload.rows() } else { Vec::new() };
        ready.fill(&rows).map_err(|why| format!("{}: {why}", place.label()))?;
        Ok(ready.address.clone())
    }

    /// A server that runs elsewhere has the tables of one definition at a time.
    fn drop_others(&mut self, place: &Place) {
        if matches!(place, Place::Running(_) | Place::SqliteFile(_)) {
            self.ready.retain(|one| one.place != *place);
        }
    }
}

impl Ready {
    fn new(place: &Place, definition: Definition, starting: &Starting) -> Result<Ready, String> {
        let (address, process) = start(place, &definition, starting)?;
        let mut ready =
            Ready { place: place.clone(), definition, address, process, filled: None, was_made: false };
        if !matches!(ready.process, Process::Weir(_)) {
            ready.make()?;
        }
        Ok(ready)
    }

    /// Makes tables, indexes and procedures. A table that is there already is somebody else's, and stays.
    fn make(&mut self) -> Result<(), String> {
        let mut connection = self.connect()?;
        for (name, text) in &self.definition.tables {
            connection.execute(text).map_err(|why| {
                format!(
                    "{}: CREATE TABLE {name}: {why}; the database of a measurement has no table of that name: name an empty one, or drop it",
                    self.place.label()
                )
            })?;
            self.was_made = true;
        }
        self.definition.indexes.iter().try_for_each(|text| connection.execute(text))?;
        if self.address.dialect() == Dialect::Postgres {
            connection.execute(&self.definition.procedures)?;
        }
        Ok(())
    }

    fn connect(&self) -> Result<Box<dyn Connection>, String> {
        connect(&self.address, None, &[]).map_err(|why| format!("{}: {why}", self.place.label()))
    }

    fn fill(&mut self, rows: &[String]) -> Result<(), String> {
        if self.filled.as_deref() == Some(rows) {
            return Ok(());
        }
        let mut connection = self.connect()?;
        for (name, _) in &self.definition.tables {
            connection.execute(&format!("DELETE FROM {name}"))?;
        }
        rows.iter().try_for_each(|text| connection.execute(text))?;
        // Without statistics PostgreSQL might look at all rows, and a serializable transaction would have read all of them.
        match (&self.place, self.address.dialect()) {
            (Place::Postgres, _) => connection.execute("VACUUM ANALYZE")?,
            (Place::Running(_), Dialect::Postgres) if !self.place.is_weir() => {
                for (name, _) in &self.definition.tables {
                    connection.execute(&format!("VACUUM ANALYZE {name}"))?;
                }
            }
            _ => {}
        }
        self.filled = Some(rows.to_vec());
        Ok(())
    }

    fn drop_what_was_made(&self) -> Result<(), String> {
        let mut connection = self.connect()?;
        if self.address.dialect() == Dialect::Postgres {
            for routine in &self.definition.routines {
                connection.execute(&format!("DROP {routine}"))?;
            }
        }
        self.definition
            .tables
            .iter()
            .try_for_each(|(name, _)| connection.execute(&format!("DROP TABLE {name}")))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if matches!(self.process, Process::Elsewhere) && self.was_made {
            // A server that has gone keeps them; the next measurement says that they are there.
            let _ = self.drop_what_was_made();
        }
    }
}

fn start(place: &Place, definition: &Definition, starting: &Starting) -> Result<(Address, Process), String> {
    match place {
        Place::Weir => start_weir(&starting.weir, definition, starting),
        Place::Baseline(program) => start_weir(program, definition, starting),
        Place::Postgres => {
            let mut settings = vec![DEADLOCK_TIMEOUT];
            if starting.is_durable {
                settings.extend(["fsync=on", "shared_buffers=1GB", "max_wal_size=4GB"]);
            }
            let server = postgres::Server::start_with(&settings).map_err(|error| error.to_string())?;
            Ok((Address::Postgres(server.connection_string()), Process::Postgres(server)))
        }
        Place::MariaDb => {
            let settings: &[&str] = if starting.is_durable { &[mariadb::DURABLE] } else { &[] };
            let server = mariadb::Server::start_with(settings).map_err(|error| error.to_string())?;
            let bare = Address::MySqlSocket { socket: server.socket(), database: String::new() };
            connect(&bare, None, &[])?.execute(&format!("CREATE DATABASE {MARIADB_DATABASE}"))?;
            let database = MARIADB_DATABASE.to_owned();
            let address = Address::MySqlSocket { socket: server.socket(), database };
            Ok((address, Process::MariaDb(server)))
        }
        Place::Sqlite => {
            let folder = Folder::new("sqlite").map_err(|error| error.to_string())?;
            let path = folder.path().join("measured.db");
            Ok((Address::Sqlite { path, is_durable: starting.is_durable }, Process::Sqlite(folder)))
        }
        Place::SqliteFile(path) => {
            let address = Address::Sqlite { path: path.clone(), is_durable: starting.is_durable };
            Ok((address, Process::Elsewhere))
        }
        Place::Running(url) => Ok((running(url), Process::Elsewhere)),
    }
}

fn start_weir(
    program: &Path,
    definition: &Definition,
    starting: &Starting,
) -> Result<(Address, Process), String> {
    let texts = definition.tables.iter().map(|(_, text)| text).chain(&definition.indexes);
    let schema: String = texts.map(|text| format!("{text};\n")).collect();
    let served = Served {
        schema: &schema,
        procedures: &definition.procedures,
        shards: starting.shards,
        is_durable: starting.is_durable,
    };
    let server = WeirProcess::start(program, served)?;
    Ok((Address::Postgres(server.config()), Process::Weir(server)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_wrong_ones_are_told() {
        for (text, label, dialect) in [
            ("weir:", "weir", Dialect::Postgres),
            ("postgres", "postgres", Dialect::Postgres),
            ("mysql:", "mariadb", Dialect::MySql),
            ("sqlite:", "sqlite", Dialect::Sqlite),
            ("sqlite:/tmp/a.db", "sqlite:/tmp/a.db", Dialect::Sqlite),
            ("mysql://me:secret@host:3306/shop", "mysql://me@host:3306/shop", Dialect::MySql),
            ("weir://me@host:5433/weir", "weir://me@host:5433/weir", Dialect::Postgres),
            ("postgres://host/shop", "postgres://host/shop", Dialect::Postgres),
            ("postgres://host/shop?password=s@e:cret", "postgres://host/shop", Dialect::Postgres),
            ("postgres://me:se?cr@t@host/shop", "postgres://me@host/shop", Dialect::Postgres),
            ("postgres://me:se/cret@host/shop", "postgres://me@host/shop", Dialect::Postgres),
            ("postgres://me@host", "postgres://me@host", Dialect::Postgres),
            ("postgres://host?password=se@cret", "postgres://host", Dialect::Postgres),
            (
                "postgres://me:s@host/shop?sslpassword=s&connect_timeout=3&password=s",
                "postgres://me@host/shop?connect_timeout=3",
                Dialect::Postgres,
            ),
        ] {
            let place = Place::parse(text).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert_eq!((place.label().as_str(), place.dialect()), (label, dialect), "{text}");
            assert_eq!(place.is_weir(), text.starts_with("weir"), "{text}");
        }
        for (text, what) in [
            ("oracle", "`oracle` is no target"),
            ("oracle://me:secret@host/db", "`oracle://me@host/db` is no target"),
            ("mysql://", "names no server"),
            ("baseline:", "names no program"),
            ("baseline:/no/such/weir", "is not there"),
            ("weir:cluster.toml", "is no target"),
        ] {
            let wrong = Place::parse(text).expect_err(text);
            assert!(wrong.what.contains(what) && !wrong.hint.is_empty(), "{wrong}");
        }
    }
}
