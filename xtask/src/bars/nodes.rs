//! Nodes of a cluster as processes, for as long as a measurement takes.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::weir::Weir;

pub struct Nodes {
    pub file: PathBuf,
    processes: Vec<Child>,
}

impl Nodes {
    /// One shard each, on loopback, without logs.
    pub fn start(weir: &Weir, nodes: usize) -> Result<Nodes, String> {
        let failed = |error: std::io::Error| format!("cannot start nodes: {error}");
        let listeners: Vec<TcpListener> =
            (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>().map_err(failed)?;
        let addresses: Vec<_> =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>().map_err(failed)?;
        drop(listeners);
        let of_node =
            |(node, address)| format!("[nodes.n{node}]\naddress = \"{address}\"\nshards = [{node}]\n");
        let text: String = addresses.iter().enumerate().map(of_node).collect();
        let file = std::env::temp_dir().join(format!("weir-bars-{}.toml", std::process::id()));
        std::fs::write(&file, text).map_err(failed)?;
        let mut started = Nodes { file, processes: Vec::new() };
        for node in 0..nodes {
            let process = Command::new(&weir.binary)
                .args(["serve", "--node", &format!("n{node}"), "--cluster"])
                .arg(&started.file)
                .stderr(Stdio::null())
                .spawn()
                .map_err(failed)?;
            started.processes.push(process);
        }
        let patience = Instant::now();
        for address in addresses {
            while TcpStream::connect(address).is_err() {
                if patience.elapsed() > Duration::from_secs(20) {
                    return Err(format!("no node listens on {address}"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(started)
    }

    pub fn target(&self) -> String {
        format!("weir:{}", self.file.display())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself; then the bench has said so.
            let _ = process.kill().and_then(|()| process.wait());
        }
        let _ = std::fs::remove_file(&self.file);
    }
}
