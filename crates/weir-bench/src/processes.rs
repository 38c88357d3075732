//! A cluster of processes on this machine, for as long as a measurement takes: nodes of one shard each, on loopback,
//! without logs.
//!
//! Starts `weir serve` and ends what it started. Measures nothing itself.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_client::ClusterFile;
use weir_core::ids::ShardId;
use weir_kv::Variant;

use crate::ycsb::Protocol;

/// For a node to listen, from when it is started.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Processes {
    pub cluster: ClusterFile,
    file: PathBuf,
    nodes: Vec<Child>,
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
        let addresses = free_ports(shards).map_err(|error| failed(error.to_string()))?;
        let file = new_file();
        let text = cluster_text(variant, &addresses);
        std::fs::write(&file, &text).map_err(|error| failed(format!("{}: {error}", file.display())))?;
        let cluster = ClusterFile::parse(&file, &text).map_err(|complaint| failed(complaint.to_string()));
        // From here on dropping it cleans up.
        let mut started = match cluster {
            Ok(cluster) => Processes { cluster, file, nodes: Vec::new() },
            Err(error) => {
                let _ = std::fs::remove_file(&file);
                return Err(error);
            }
        };
        for node in 0..shards {
            let process = Command::new(weir)
                .args(["serve", "--node", &format!("n{node}"), "--cluster"])
                .arg(&started.file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| failed(format!("{}: {error}", weir.display())))?;
            started.nodes.push(process);
        }
        let begun = Instant::now();
        for address in addresses {
            while TcpStream::connect(address).is_err() {
                if begun.elapsed() > PATIENCE {
                    return Err(failed(format!("no node listens on {address}")));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(started)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // It may have ended by itself; then the clients have said so.
            let _ = node.kill().and_then(|()| node.wait());
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

fn free_ports(count: ShardId) -> std::io::Result<Vec<SocketAddr>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(TcpListener::local_addr).collect()
}

fn new_file() -> PathBuf {
    static NUMBERED: AtomicU32 = AtomicU32::new(0);
    let number = NUMBERED.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("weir-bench-{}-{number}.toml", std::process::id()))
}

fn cluster_text(variant: Variant, addresses: &[SocketAddr]) -> String {
    let of_node = |(node, address)| format!("[nodes.n{node}]\naddress = \"{address}\"\nshards = [{node}]\n");
    let nodes: String = addresses.iter().enumerate().map(of_node).collect();
    format!("protocol = \"{variant}\"\n{nodes}")
}
