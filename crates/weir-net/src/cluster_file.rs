//! The cluster file: which node holds which shard, and what its parties trust.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use serde::Deserialize;
use toml::Spanned;
use weir_core::ids::ShardId;
use weir_kv::{Variant, fingerprint};

use crate::body::VERSIONS;
use crate::handshake::Terms;
use crate::tls::{self, Tls};

/// Shards that a cluster may have.
const SHARDS_MAX: usize = 1024;

/// Members that a replica group may have.
const MEMBERS_MAX: usize = 7;

/// Error in a cluster file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub file: PathBuf,
    /// Byte range in the file; none if it concerns the whole file.
    pub at: Option<Range<usize>>,
    /// Line and column of the beginning of the range, from 1.
    pub place: Option<(usize, usize)>,
    pub message: String,
    /// Suggested correction.
    pub remedy: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": error: {}\nhint: {}", self.message, self.remedy)
    }
}

impl std::error::Error for Complaint {}

/// A cluster, as all its parties must see it.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    pub nodes: BTreeMap<String, Node>,
    pub shards: ShardId,
    pub variant: Variant,
    /// Application of the cluster, if it does not store items.
    pub application: Option<Application>,
    secret: Vec<u8>,
    tls: Option<tls::Files>,
}

/// An SQL application, with what its tables begin with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Directory of the application; none: there are no tables until a client creates them.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Settings of its workload.toml.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Scale of the initial rows.
    #[serde(default = "one")]
    pub seed: u64,
}

fn one() -> u64 {
    1
}

impl Application {
    /// As `--set` takes them.
    pub fn settings(&self) -> Vec<(String, String)> {
        let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.set.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `host:port`.
    pub address: String,
    pub shards: Vec<ShardId>,
}

impl Node {
    pub fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or(&self.address, |(host, _)| host.trim_matches(['[', ']']))
    }

    /// # Errors
    /// The name is not known, or the port is none.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        let mut all =
            self.address.to_socket_addrs().map_err(|error| format!("`{}`: {error}", self.address))?;
        all.next().ok_or_else(|| format!("`{}` has no address", self.address))
    }

    /// The address, if no name has to be looked up for it.
    pub(crate) fn literal(&self) -> Option<SocketAddr> {
        self.address.parse().ok()
    }

    /// As `resolve`, on a thread of its own: to look a name up may take as long as it likes.
    pub(crate) fn resolve_apart(&self) -> Result<Receiver<Result<SocketAddr, String>>, String> {
        let (says, hears) = channel();
        let node = self.clone();
        let thread = std::thread::Builder::new().name("resolve".into());
        // A receiver that does not want to know any more has gone.
        let started = thread.spawn(move || drop(says.send(node.resolve())));
        started.map(|_| hears).map_err(|error| error.to_string())
    }

    /// Only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    protocol: Option<Spanned<String>>,
    #[serde(default)]
    secret_file: Option<Spanned<PathBuf>>,
    #[serde(default)]
    tls: Option<tls::Files>,
    #[serde(default)]
    application: Option<Application>,
    nodes: BTreeMap<Spanned<String>, NodeText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeText {
    address: Spanned<String>,
    shards: Spanned<Vec<ShardId>>,
}

const EXAMPLE: &str = "for example:\n    [nodes.a]\n    address = \"127.0.0.1:7401\"\n    shards = [0, 1]";

impl ClusterFile {
    /// One node alone, which others reach at that address only on this machine.
    pub fn alone(name: &str, address: SocketAddr, shards: ShardId, application: Application) -> ClusterFile {
        let node = Node { address: address.to_string(), shards: (0..shards).collect() };
        ClusterFile {
            nodes: BTreeMap::from([(name.to_owned(), node)]),
            shards,
            variant: Variant::Fast,
            application: Some(application),
            secret: Vec::new(),
            tls: None,
        }
    }

    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(file: &Path) -> Result<ClusterFile, Complaint> {
        let text = std::fs::read_to_string(file).map_err(|error| Complaint {
            file: file.into(),
            at: None,
            place: None,
            message: format!("the cluster file cannot be read: {error}"),
            remedy: EXAMPLE.into(),
        })?;
        ClusterFile::parse(file, &text)
    }

    /// Paths in it are relative to the file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(file: &Path, text: &str) -> Result<ClusterFile, Complaint> {
        let reader = Reader { file, text };
        let parsed: Text = toml::from_str(text)
            .map_err(|error| reader.wrong(error.span(), error.message().trim_end().to_string(), EXAMPLE))?;
        let variant = match &parsed.protocol {
            None => Variant::Fast,
            Some(name) => Variant::by_name(name.get_ref()).ok_or_else(|| {
                let message = format!("there is no protocol `{}` for a cluster", name.get_ref());
                reader.wrong(Some(name.span()), message, "one of ramp-fast, ramp-small, ramp-hybrid")
            })?,
        };
        let secret = parsed.secret_file.as_ref().map(|path| reader.secret(path)).transpose()?;
        let tls = parsed.tls.map(|files| tls::Files {
            authority: reader.beside(&files.authority),
            certificate: reader.beside(&files.certificate),
            key: reader.beside(&files.key),
        });
        let shards = reader.shards(&parsed.nodes)?;
        let nodes = parsed.nodes.into_iter().map(|(name, node)| {
            let node = Node { address: node.address.into_inner(), shards: node.shards.into_inner() };
            (name.into_inner(), node)
        });
        let application = parsed.application.map(|application| {
            let path = application.path.as_ref().map(|path| reader.beside(path));
            Application { path, ..application }
        });
        Ok(ClusterFile {
            nodes: nodes.collect(),
            shards,
            variant,
            application,
            secret: secret.unwrap_or_default(),
            tls,
        })
    }

    /// The nodes that hold the shard, with their names: one, or the members of its replica group in the order of their places
    /// (docs/internals/replica-groups.md).
    pub fn members(&self, shard: ShardId) -> impl Iterator<Item = (&str, &Node)> {
        let holds = move |(_, node): &(&String, &Node)| node.shards.contains(&shard);
        self.nodes.iter().filter(holds).map(|(name, node)| (name.as_str(), node))
    }

    /// The nodes that hold the shard.
    pub fn holders(&self, shard: ShardId) -> Vec<Node> {
        self.members(shard).map(|(_, node)| node.clone()).collect()
    }

    /// Returns whether the shard is a replica group.
    pub fn is_group(&self, shard: ShardId) -> bool {
        self.members(shard).nth(1).is_some()
    }

    /// Handshake terms of a cluster that stores items.
    pub fn terms(&self) -> Terms {
        self.terms_of("items", fingerprint())
    }

    /// `placement`: a fingerprint of all that decides where things are, and what is done to them.
    pub fn terms_of(&self, protocol: &str, placement: u64) -> Terms {
        let secret = self.secret.clone();
        Terms { versions: VERSIONS, protocol: protocol.into(), shards: self.shards, placement, secret }
    }

    pub fn has_secret(&self) -> bool {
        !self.secret.is_empty()
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// # Errors
    /// A file that is missing or does not hold what it should.
    pub fn load_tls(&self) -> Result<Option<Tls>, String> {
        self.tls.as_ref().map(Tls::load).transpose()
    }
}

/// A file under way.
struct Reader<'t> {
    file: &'t Path,
    text: &'t str,
}

impl Reader<'_> {
    fn wrong(&self, at: Option<Range<usize>>, message: String, remedy: &str) -> Complaint {
        let place = at.as_ref().map(|at| place_of(self.text, at.start));
        Complaint { file: self.file.into(), place, at, message, remedy: remedy.into() }
    }

    fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    fn secret(&self, path: &Spanned<PathBuf>) -> Result<Vec<u8>, Complaint> {
        let unfit = |why: String| {
            let message = format!("{}: {why}", path.get_ref().display());
            let remedy = "a file with the secret that all parties share, 16 bytes or more";
            self.wrong(Some(path.span()), message, remedy)
        };
        let bytes = std::fs::read(self.beside(path.get_ref())).map_err(|error| unfit(error.to_string()))?;
        let secret = bytes.trim_ascii().to_vec();
        if secret.len() < 16 { Err(unfit(format!("a secret of {} bytes", secret.len()))) } else { Ok(secret) }
    }

    /// Number of shards: each of them is on one node or a group's, and none is left out.
    fn shards(&self, nodes: &BTreeMap<Spanned<String>, NodeText>) -> Result<ShardId, Complaint> {
        let mut placed: BTreeMap<ShardId, Vec<&str>> = BTreeMap::new();
        let all: BTreeSet<ShardId> = nodes.values().flat_map(|node| node.shards.get_ref()).copied().collect();
        let count = all.len();
        if count == 0 || count > SHARDS_MAX {
            let message = format!("the cluster has {count} shards");
            return Err(self.wrong(None, message, &format!("1 to {SHARDS_MAX}; {EXAMPLE}")));
        }
        for (name, node) in nodes {
            let one = Node { address: node.address.get_ref().clone(), shards: Vec::new() };
            let port = one.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if one.host().is_empty() || port.is_none() {
                let message = format!("`{}` is no address", one.address);
                let remedy = "host:port, such as 127.0.0.1:7401";
                return Err(self.wrong(Some(node.address.span()), message, remedy));
            }
            for shard in node.shards.get_ref() {
                let span = Some(node.shards.span());
                if usize::from(*shard) >= count {
                    let message = format!("shard {shard}, and the cluster has {count}");
                    return Err(self.wrong(span, message, "shards count from 0 and none is left out"));
                }
                let members = placed.entry(*shard).or_default();
                if members.contains(&name.get_ref().as_str()) {
                    let message = format!("shard {shard} is twice on `{}`", name.get_ref());
                    return Err(self.wrong(span, message, "a node has one copy of a shard"));
                }
                members.push(name.get_ref());
            }
        }
        for (shard, members) in placed {
            let is_fit = members.len() % 2 == 1 && members.len() <= MEMBERS_MAX;
            if let Some(last) = members.last().filter(|_| !is_fit) {
                let names: Vec<String> = members.iter().map(|name| format!("`{name}`")).collect();
                let message = format!("shard {shard} is on {} nodes, {}", members.len(), names.join(" and "));
                let remedy = "a shard is on one node, or on 3, 5 or 7 as a replica group: a majority of them decides, and of an even \
                              number no more may fail than of one less";
                let place = nodes.iter().find(|(name, _)| name.get_ref() == last);
                return Err(self.wrong(place.map(|(_, node)| node.shards.span()), message, remedy));
            }
        }
        Ok(count as ShardId)
    }
}

fn place_of(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_read_as_it_stands() {
        let text = "[nodes.a]\naddress = \"127.0.0.1:7401\"\nshards = [0, 2]\n[nodes.b]\naddress = \"[::1]:7402\"\nshards = [1]\n";
        let cluster = ClusterFile::parse(Path::new("c.toml"), text).unwrap();
        assert_eq!((cluster.shards, cluster.variant), (3, Variant::Fast));
        assert_eq!(cluster.holders(1)[0].host(), "::1");
        assert!(cluster.holders(1)[0].is_loopback() && cluster.holders(2)[0].is_loopback());
        assert!(!cluster.is_group(1));
        assert!(!Node { address: "10.0.0.1:1".into(), shards: vec![] }.is_loopback());
    }

    #[test]
    fn a_shard_on_several_nodes_is_a_group() {
        let node = |name: &str, shards: &str| {
            format!("[nodes.{name}]\naddress = \"localhost:1\"\nshards = {shards}\n")
        };
        let text = node("c", "[0]") + &node("a", "[0, 1]") + &node("b", "[2, 0]");
        let cluster = ClusterFile::parse(Path::new("c.toml"), &text).unwrap();
        assert_eq!(cluster.shards, 3);
        assert_eq!(cluster.members(0).map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(cluster.is_group(0) && !cluster.is_group(1));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let node = |name: &str, shards: &str| {
            format!("[nodes.{name}]\naddress = \"localhost:1\"\nshards = {shards}\n")
        };
        let cases = [
            ("".to_string(), "nodes", ""),
            ("[nodes]".into(), "0 shards", ""),
            (node("a", "[0, 2]"), "shard 2", "[0, 2]"),
            (node("a", "[0]") + &node("b", "[0]"), "on 2 nodes, `a` and `b`", "[0]"),
            (node("a", "[0, 0]"), "twice on `a`", "[0, 0]"),
            ((0..9).map(|n| node(&format!("n{n}"), "[0]")).collect(), "on 9 nodes", "[0]"),
            (node("a", "[0]").replace("localhost:1", "localhost"), "no address", "\"localhost\""),
            (node("a", "[0]").replace("shards", "shard"), "unknown field", "shard"),
            (format!("protocol = \"2pl\"\n{}", node("a", "[0]")), "no protocol `2pl`", "\"2pl\""),
            (
                format!("secret_file = \"/nowhere/at/all\"\n{}", node("a", "[0]")),
                "/nowhere",
                "\"/nowhere/at/all\"",
            ),
            (node("a", "[-1]"), "", "-1"),
        ];
        for (text, message, place) in cases {
            let complaint = ClusterFile::parse(Path::new("c.toml"), &text).unwrap_err();
            assert!(complaint.message.contains(message), "{complaint:?}");
            assert!(place.is_empty() || complaint.to_string().starts_with("c.toml:"), "{complaint}");
            let shown = complaint.at.clone().map_or("", |at| &text[at]);
            assert!(place.is_empty() || shown == place, "{complaint:?} shows {shown:?}");
        }
    }
}
