//! Nodes that are threads of this process, over loopback.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tempfile::TempDir;
use weir_client::ClusterFile;
use weir_net::loopback;
use weir_server::serve::{self, Durability, ServeError, Server, Stop};

/// A cluster whose nodes are threads of this process.
pub struct Cluster {
    pub place: TempDir,
    pub file: ClusterFile,
    durable: bool,
    /// By node: what it speaks, if not all that it could.
    versions: BTreeMap<usize, RangeInclusive<u16>>,
    nodes: Vec<Option<Running>>,
}

type Running = (JoinHandle<Result<(), ServeError>>, Stop);

impl Cluster {
    /// `more`: what the cluster file says beside its nodes, each of which has two shards.
    pub fn start(nodes: usize, durable: bool, more: impl Fn(&Path) -> String) -> Cluster {
        Cluster::of_versions(nodes, durable, more, BTreeMap::new())
    }

    /// `versions`: by node, what it speaks, if not all that it could.
    pub fn of_versions(
        nodes: usize,
        durable: bool,
        more: impl Fn(&Path) -> String,
        versions: BTreeMap<usize, RangeInclusive<u16>>,
    ) -> Cluster {
        let place = tempfile::tempdir().unwrap();
        let mut text = more(place.path());
        text.push_str(&loopback::nodes(nodes, 2));
        let file = ClusterFile::parse(&place.path().join("cluster.toml"), &text).unwrap();
        let mut cluster =
            Cluster { place, file, durable, versions, nodes: (0..nodes).map(|_| None).collect() };
        (0..nodes).for_each(|node| cluster.start_node(node));
        cluster
    }

    pub fn start_node(&mut self, node: usize) {
        self.try_start_node(node, Durability::Relaxed).unwrap();
    }

    pub fn data_of(&self, node: usize) -> PathBuf {
        self.place.path().join(format!("n{node}"))
    }

    pub fn try_start_node(&mut self, node: usize, durability: Durability) -> Result<(), ServeError> {
        let data = self.data_of(node);
        let settings = serve::Settings::new(self.file.clone(), format!("n{node}"));
        let settings = serve::Settings {
            data: self.durable.then_some((data, durability)),
            versions: self.versions.get(&node).cloned().unwrap_or(settings.versions),
            ..settings
        };
        let (server, stop) = Server::start(settings)?;
        self.nodes[node] = Some((std::thread::spawn(move || server.wait()), stop));
        Ok(())
    }

    pub fn stop_node(&mut self, node: usize) {
        let (thread, stop) = self.nodes[node].take().unwrap();
        stop.stop();
        thread.join().unwrap().unwrap();
    }

    pub fn address(&self, node: usize) -> SocketAddr {
        self.file.nodes[&format!("n{node}")].resolve().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_some() && !std::thread::panicking() {
                self.stop_node(node);
            }
        }
    }
}
