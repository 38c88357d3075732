//! The configuration file of `weir conveyor`: servers, their agents, and bounds. TOML; a key that nobody knows is an error.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::routing::ServerSet;
use weir_conveyor::settings::Settings;
use weir_net::handshake::Terms;

use crate::wire;

/// A deployment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder of the application, as for `weir analyze`: what it does is analysed.
    pub application: PathBuf,
    /// Each agent with a node of the coordinator keeps its log in a folder of its name in here.
    pub directory: PathBuf,
    /// File whose first line is the secret of the deployment: agents prove to each other that they know it. Without it, agents have to be on
    /// one machine.
    pub secret_file: Option<PathBuf>,
    #[serde(default)]
    pub clients: Clients,
    /// In the order of the first ring. A server's number is its place here.
    pub server: Vec<Server>,
    #[serde(default)]
    pub settings: Bounds,
}

/// How clients come in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// The name of the database, as clients have it. By default that of the first server's connection string.
    pub database: Option<String>,
    /// File whose first line is the password of all clients. Without it no password is asked for.
    pub password_file: Option<PathBuf>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Connections at once.
    pub connections_max: Option<usize>,
    /// Allows listening beyond loopback without TLS or without a password.
    #[serde(default)]
    pub insecure: bool,
}

/// A server and its agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub name: String,
    /// Where its agent listens for other agents.
    pub agent: SocketAddr,
    /// Where its agent listens for clients.
    pub listen: SocketAddr,
    /// A connection string, as libpq reads it. Agents of other servers use it, too.
    pub database: String,
    /// It is no member until ADD SERVER says so.
    #[serde(default)]
    pub spare: bool,
}

/// Settings that differ from the defaults of [`Settings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub batch_max: Option<usize>,
    pub global_max: Option<usize>,
    pub local_max: Option<usize>,
    pub attempts_max: Option<u32>,
    pub carried_max: Option<usize>,
    pub idle_ms: Option<u64>,
    pub operation_ms: Option<u64>,
    pub resend_ms: Option<u64>,
    pub alive_ms: Option<u64>,
    pub silence_ms: Option<u64>,
    pub token_ms: Option<u64>,
    pub wait_ms: Option<u64>,
    pub lag_max: Option<u64>,
}

impl Bounds {
    pub fn settings(&self) -> Settings {
        let default = Settings::default();
        Settings {
            batch_max: self.batch_max.unwrap_or(default.batch_max),
            global_max: self.global_max.unwrap_or(default.global_max),
            local_max: self.local_max.unwrap_or(default.local_max),
            attempts_max: self.attempts_max.unwrap_or(default.attempts_max),
            carried_max: self.carried_max.unwrap_or(default.carried_max),
            idle_ms: self.idle_ms.unwrap_or(default.idle_ms),
            operation_ms: self.operation_ms.unwrap_or(default.operation_ms),
            resend_ms: self.resend_ms.unwrap_or(default.resend_ms),
            alive_ms: self.alive_ms.unwrap_or(default.alive_ms),
            silence_ms: self.silence_ms.unwrap_or(default.silence_ms),
            token_ms: self.token_ms.unwrap_or(default.token_ms),
            wait_ms: self.wait_ms.unwrap_or(default.wait_ms),
            lag_max: self.lag_max.unwrap_or(default.lag_max),
        }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// In words: what is wrong, where, and what would be right.
    pub fn read(path: &Path) -> Result<Config, String> {
        let unreadable = |error: std::io::Error| {
            format!(
                "{}: {error}\nhint: --config names the file of the deployment; docs/how-to/conveyor.md has one to begin with",
                path.display()
            )
        };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Config::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    /// The number of the server of that name.
    ///
    /// # Errors
    /// There is none; with the names that there are.
    pub fn number(&self, name: &str) -> Result<ServerId, String> {
        let place = self.server.iter().position(|server| server.name == name);
        place.map(|place| place as ServerId).ok_or_else(|| {
            let names: Vec<_> = self.server.iter().map(|server| server.name.as_str()).collect();
            format!("there is no server `{name}`: it may be {}", names.join(", "))
        })
    }

    /// The servers that are members from the start.
    pub fn members(&self) -> Vec<ServerId> {
        let numbered = (0..).zip(&self.server);
        numbered.filter(|(_, server)| !server.spare).map(|(number, _)| number).collect()
    }

    /// On which all agents of the deployment have to agree.
    ///
    /// # Errors
    /// The secret cannot be read.
    pub fn terms(&self) -> Result<Terms, String> {
        let secret =
            self.secret_file.as_deref().map(first_line).transpose()?.unwrap_or_default().into_bytes();
        let (versions, protocol) = (wire::VERSIONS, wire::PROTOCOL.to_owned());
        let shards = self.server.len() as ServerId;
        Ok(Terms { versions, protocol, shards, placement: self.fingerprint(), secret })
    }

    /// FNV-1a of the servers' names and addresses, in order, and of which are members from the start: the first map of slots follows from that.
    fn fingerprint(&self) -> u64 {
        let spare = |server: &Server| if server.spare { " spare" } else { "" };
        let texts =
            self.server.iter().map(|server| format!("{} {}{}\n", server.name, server.agent, spare(server)));
        texts
            .flat_map(String::into_bytes)
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn check(&self) -> Result<(), String> {
        if self.server.is_empty() {
            return Err("no [[server]]: a deployment has at least one".into());
        }
        if self.members().is_empty() {
            return Err("every [[server]] is `spare`: a deployment begins with at least one member".into());
        }
        if self.server.len() > usize::from(ServerSet::LIMIT) {
            return Err(format!("{} servers: there may be {}", self.server.len(), ServerSet::LIMIT));
        }
        let names: BTreeSet<_> = self.server.iter().map(|server| &server.name).collect();
        if names.len() < self.server.len() {
            return Err("two servers have the same name".into());
        }
        let databases: BTreeSet<_> = self.server.iter().map(|server| &server.database).collect();
        if databases.len() < self.server.len() {
            return Err("two servers have the same database: each has one of its own".into());
        }
        let addresses = self.server.iter().flat_map(|server| [server.agent, server.listen]);
        let distinct: BTreeSet<SocketAddr> = addresses.collect();
        if distinct.len() < 2 * self.server.len() {
            return Err("two agents, or an agent and its clients, have the same address".into());
        }
        let is_far = self.server.iter().find(|server| !server.agent.ip().is_loopback());
        if let (Some(server), None) = (is_far, &self.secret_file) {
            return Err(format!(
                "{}: the agent of `{}` can be reached from other machines, and there is no `secret_file`: name one, the same for all agents",
                server.agent, server.name
            ));
        }
        if self.clients.tls_certificate.is_some() != self.clients.tls_key.is_some() {
            return Err("clients.tls_certificate and clients.tls_key go together".into());
        }
        let settings = self.settings.settings();
        let zero = [
            ("batch_max", settings.batch_max == 0),
            ("global_max", settings.global_max == 0),
            ("local_max", settings.local_max == 0),
            ("attempts_max", settings.attempts_max == 0),
            ("alive_ms", settings.alive_ms == 0),
        ];
        if let Some((name, _)) = zero.iter().find(|(_, is_zero)| *is_zero) {
            return Err(format!("settings.{name} is 0: it is at least 1"));
        }
        if settings.token_ms <= settings.idle_ms + settings.alive_ms {
            return Err(format!(
                "settings.token_ms ({}) has to exceed idle_ms ({}) and alive_ms ({}) together: an idle token would be thought lost",
                settings.token_ms, settings.idle_ms, settings.alive_ms
            ));
        }
        if settings.silence_ms <= 2 * settings.alive_ms {
            return Err(format!(
                "settings.silence_ms ({}) has to exceed twice alive_ms ({}): agents that live would be thought dead",
                settings.silence_ms, settings.alive_ms
            ));
        }
        Ok(())
    }
}

/// The first line of a file.
///
/// # Errors
/// It cannot be read, or is empty.
pub fn first_line(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(format!("{}: its first line is empty", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_comes_with_a_remedy() {
        let error = Config::read(Path::new("nowhere/conveyor.toml")).unwrap_err();
        assert!(
            error.starts_with("nowhere/conveyor.toml: ") && error.contains("\nhint: --config"),
            "{error}"
        );
    }

    const SERVERS: &str = r#"
application = "shop"
directory = "/var/lib/conveyor"
[[server]]
name = "a"
agent = "127.0.0.1:7101"
listen = "127.0.0.1:5501"
database = "host=/run/a dbname=shop"
[[server]]
name = "b"
agent = "127.0.0.1:7102"
listen = "127.0.0.1:5502"
database = "host=/run/b dbname=shop"
"#;

    #[test]
    fn agents_that_differ_about_the_servers_do_not_agree() {
        let terms = |text: &str| Config::parse(text).unwrap().terms().unwrap();
        assert_eq!(terms(SERVERS), terms(&format!("{SERVERS}[settings]\nbatch_max = 7\n")));
        assert_ne!(terms(SERVERS), terms(&SERVERS.replace("7102", "7103")));
        assert_ne!(terms(SERVERS), terms(&format!("{SERVERS}spare = true\n")));
        let config = Config::parse(SERVERS).unwrap();
        assert_eq!(config.number("b"), Ok(1));
        assert!(config.number("c").unwrap_err().contains("it may be a, b"));
    }

    #[test]
    fn a_file_is_read_with_defaults() {
        let config = Config::parse(&format!("{SERVERS}[settings]\nbatch_max = 7\n")).unwrap();
        assert_eq!(config.server.len(), 2);
        assert_eq!(config.settings.settings(), Settings { batch_max: 7, ..Settings::default() });
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("application = \"shop\"\ndirectory = \"d\"\nserver = []\n".to_owned(), "no [[server]]"),
            (SERVERS.replace("database =", "spare = true\ndatabase ="), "every [[server]] is `spare`"),
            (SERVERS.replace("127.0.0.1:7101", "10.0.0.1:7101"), "no `secret_file`"),
            (SERVERS.replace("\"b\"", "\"a\""), "the same name"),
            (SERVERS.replace("/run/b", "/run/a"), "the same database"),
            (SERVERS.replace("7102", "7101"), "the same address"),
            (format!("{SERVERS}[settings]\nbatch = 7\n"), "unknown field `batch`"),
            (format!("{SERVERS}[settings]\nlocal_max = 0\n"), "local_max is 0"),
            (format!("{SERVERS}[settings]\ntoken_ms = 100\n"), "idle token"),
            (format!("{SERVERS}[settings]\nsilence_ms = 100\n"), "thought dead"),
        ];
        for (text, expected) in cases {
            let error = Config::parse(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
