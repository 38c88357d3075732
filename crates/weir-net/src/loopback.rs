//! Clusters on one machine, for tests and benchmarks.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports that were free a moment ago, below those that the system gives to connections: the port of a node that has ended must still
/// be free when it starts again. They are fewer if so many are not free.
pub fn free_ports(count: usize) -> Vec<u16> {
    /// Ports that a process looks at.
    const SPAN: u16 = 2_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() * 61 % 10_000) as u16;
    let candidates = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % SPAN);
    candidates
        .take(usize::from(SPAN))
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .take(count)
        .collect()
}

/// Cluster file text for that many nodes, `n0` and so on, with that many shards each.
pub fn nodes(nodes: usize, shards: usize) -> String {
    let mut text = String::new();
    for (node, port) in free_ports(nodes).into_iter().enumerate() {
        let own: Vec<usize> = (node * shards..(node + 1) * shards).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "[nodes.n{node}]\naddress = \"127.0.0.1:{port}\"\nshards = {own:?}\n");
    }
    text
}
