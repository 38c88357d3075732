//! Closed-loop clients on machines that are never busy: each begins its next transaction when the last one is answered.

use rustc_hash::FxHashMap;
use weir_baselines::eris::machine::{Client, Completed, Effects};
use weir_baselines::eris::operation::Operation;
use weir_baselines::eris::workload::Generator;
use weir_core::ids::TxnId;

/// The clients of one machine. They share the protocol's client, and so its id.
pub struct FrontEnd<C> {
    client: C,
    generator: Generator,
    /// Transactions under way once the load has begun.
    clients: usize,
    is_loaded: bool,
    /// Begin of each transaction under way, in nanoseconds.
    begun_ns: FxHashMap<TxnId, u64>,
}

/// A transaction that is answered.
pub struct Answered {
    pub completed: Completed<Operation>,
    pub latency_ns: u64,
}

const NS_PER_MS: u64 = 1_000_000;

impl<C: Client<Operation = Operation>> FrontEnd<C> {
    pub fn new(client: C, generator: Generator, clients: usize) -> FrontEnd<C> {
        FrontEnd { client, generator, clients, is_loaded: false, begun_ns: FxHashMap::default() }
    }

    pub fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    /// Lets all its clients begin.
    pub fn load(&mut self, now_ns: u64, out: &mut Effects<C::Message>) {
        self.is_loaded = true;
        self.begin(now_ns, out);
    }

    /// Begins transactions until each client has one.
    fn begin(&mut self, now_ns: u64, out: &mut Effects<C::Message>) {
        while self.is_loaded && self.client.is_ready() && self.begun_ns.len() < self.clients {
            let txn = self.client.begin(now_ns / NS_PER_MS, self.generator.draw(), out);
            self.begun_ns.insert(txn, now_ns);
        }
    }

    pub fn step(
        &mut self,
        now_ns: u64,
        (from, message): (weir_ordered::message::Party, C::Message),
        out: &mut Effects<C::Message>,
    ) -> Option<Answered> {
        let completed = self.client.step(now_ns / NS_PER_MS, from, message, out)?;
        let begun_ns = self.begun_ns.remove(&completed.begun)?;
        self.begin(now_ns, out);
        Some(Answered { completed, latency_ns: now_ns - begun_ns })
    }

    pub fn on_timer(&mut self, now_ns: u64, out: &mut Effects<C::Message>) {
        self.client.on_timer(now_ns / NS_PER_MS, out);
        self.begin(now_ns, out);
    }
}
