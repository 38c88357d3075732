//! A cluster of processes on this machine, for as long as a measurement takes: nodes of one shard each, on loopback,
//! without logs.
//!
//! Starts `weir serve` and ends what it started. Measures nothing itself.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use weir_client::ClusterFile;
use weir_core::ids::ShardId;
use weir_harness::folder::Folder;
use weir_harness::process::Process;
use weir_kv::Variant;
use weir_net::loopback;

use crate::ycsb::Protocol;

/// For a node to listen, from when it is started.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Processes {
    pub cluster: ClusterFile,
    // Nodes end before the folder with their cluster file goes.
    _nodes: Vec<Process>,
    _folder: Folder,
}

/// # Errors
/// Nodes do not speak it, and what they speak.
pub fn on_nodes(protocol: Protocol) -> Result<Variant, (String, String)> {
    match protocol {
        Protocol::Ramp(variant) => Ok(variant),
        other => Err((
            format!("`{}` does not run on nodes", other.name()),
            "comparators run on threads only; nodes serve ramp-fast, ramp-small and ramp-hybrid".to_owned(),
        )),
    }
}

impl Processes {
    /// `weir`: the program of that name.
    ///
    /// # Errors
    /// The protocol is a comparator, there is no port, or a node does not come up: what is wrong, what would be right.
    pub fn start(weir: &Path, shards: ShardId, protocol: Protocol) -> Result<Processes, (String, String)> {
        let variant = on_nodes(protocol)?;
        let failed = |why: String| {
            let hint = "nodes of one shard each are started from this very program, on ports of loopback that are free";
            (format!("cannot start {shards} nodes: {why}"), hint.to_owned())
        };
        let folder = Folder::new("nodes").map_err(|error| failed(error.to_string()))?;
        let text = cluster_text(variant, shards);
        let file = folder.write("cluster.toml", &text).map_err(|error| failed(error.to_string()))?;
        let cluster = ClusterFile::parse(&file, &text).map_err(|complaint| failed(complaint.to_string()))?;
        let start = |node: ShardId| {
            let mut command = Command::new(weir);
            command.args(["serve", "--node", &format!("n{node}"), "--cluster"]).arg(&file);
            Process::start(&mut command, PATIENCE, |line| line.contains("listening on "))
        };
        // All at once: nodes may wait for each other.
        let started: Vec<Result<Process, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..shards).map(|node| scope.spawn(move || start(node))).collect();
            threads.into_iter().map(|thread| thread.join().expect("starting a node does not panic")).collect()
        });
        let nodes = started.into_iter().collect::<Result<_, _>>().map_err(failed)?;
        Ok(Processes { cluster, _nodes: nodes, _folder: folder })
    }
}

/// The text of a cluster file: nodes of one shard each.
fn cluster_text(variant: Variant, shards: ShardId) -> String {
    format!("protocol = \"{variant}\"\n{}", loopback::nodes(shards.into(), 1))
}
