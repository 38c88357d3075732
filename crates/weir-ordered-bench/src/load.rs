//! Closed-loop clients: each begins its next transaction when the last one is answered. All those of a front end share its thread and socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use weir_baselines::eris::application::OneShot;
use weir_baselines::eris::machine::{self, Completed};
use weir_baselines::eris::operation::{Key, Operation, Value};
use weir_core::ids::TxnId;
use weir_core::lsn::Outgoing;
use weir_ordered::message::Party;
use weir_ordered_net::driver::Machine;

use crate::server::with_effects;
use crate::source::{OperationOf, Source};

/// Phase of a run, the same for all parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The first values are written.
    Fill,
    /// Clients begin transactions, which are not counted.
    WarmUp,
    /// Transactions that end are counted.
    Measure,
    /// Clients begin nothing more.
    Silence,
}

/// Commands of a run to its parties.
#[derive(Debug)]
pub struct Control {
    phase: AtomicU8,
    /// The first instant of the run, from which its parties count time.
    pub begun: Instant,
    /// Transactions that each front end may begin.
    pub quota: AtomicU64,
}

impl Control {
    pub fn new(quota: u64) -> Control {
        Control {
            phase: AtomicU8::new(Phase::Fill as u8),
            begun: Instant::now(),
            quota: AtomicU64::new(quota),
        }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Fill,
            1 => Phase::WarmUp,
            2 => Phase::Measure,
            _ => Phase::Silence,
        }
    }

    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}

/// A transaction that was answered, by times since the beginning of the run.
#[derive(Clone, Debug)]
pub struct Answered<O: OneShot = Operation> {
    pub txn: TxnId,
    pub operation: O,
    pub begun_ns: u64,
    pub answered_ns: u64,
    /// Those of all participants.
    pub answers: Vec<O::Answer>,
}

impl Answered {
    /// Values after it, of all participants.
    pub fn values(&self) -> impl Iterator<Item = (Key, Value)> + '_ {
        self.answers.iter().flatten().copied()
    }
}

/// Nanoseconds of a bucket of [`Figures::answered_in`].
pub const BUCKET_NS: u64 = 10_000_000;

/// Counts of a front end.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Transactions answered while it was measured.
    pub answered: u64,
    /// Of them, those of several shards.
    pub distributed: u64,
    /// How often they were begun anew.
    pub aborts: u64,
    /// New-Orders of TPC-C that were entered.
    pub new_orders: u64,
    /// In nanoseconds.
    pub latency: Histogram<u64>,
    /// All transactions answered, by the time of their answers.
    pub answered_in: Vec<u32>,
}

impl Default for Figures {
    fn default() -> Self {
        // One nanosecond to a minute, with three digits.
        let latency =
            Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds of latencies ascend");
        Figures { answered: 0, distributed: 0, aborts: 0, new_orders: 0, latency, answered_in: Vec::new() }
    }
}

struct UnderWay<O> {
    operation: O,
    begun_ns: u64,
}

/// A front end.
pub struct FrontEnd<C, S: Source> {
    client: C,
    clients: usize,
    source: S,
    /// Transactions that write the first values.
    first: VecDeque<OperationOf<S>>,
    under_way: FxHashMap<TxnId, UnderWay<OperationOf<S>>>,
    /// Transactions of the source begun so far.
    begun: u64,
    control: Arc<Control>,
    /// Told each time that nothing is left to do in a phase.
    idle: Sender<Phase>,
    told_idle: Option<Phase>,
    keeps_answers: bool,
    pub figures: Figures,
    pub answers: Vec<Answered<OperationOf<S>>>,
}

impl<C: machine::Client<Operation = OperationOf<S>>, S: Source> FrontEnd<C, S> {
    pub fn new(
        client: C,
        clients: usize,
        (source, first): (S, VecDeque<OperationOf<S>>),
        (control, idle): (Arc<Control>, Sender<Phase>),
        keeps_answers: bool,
    ) -> FrontEnd<C, S> {
        FrontEnd {
            client,
            clients,
            source,
            first,
            under_way: FxHashMap::default(),
            begun: 0,
            control,
            idle,
            told_idle: None,
            keeps_answers,
            figures: Figures::default(),
            answers: Vec::new(),
        }
    }

    fn next(&mut self, phase: Phase) -> Option<OperationOf<S>> {
        match phase {
            Phase::Fill => self.first.pop_front(),
            Phase::WarmUp | Phase::Measure if self.begun < self.control.quota.load(Ordering::Relaxed) => {
                self.begun += 1;
                Some(self.source.draw())
            }
            _ => None,
        }
    }

    /// Begins transactions until every client has one.
    fn begin(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, C::Message>>) {
        if !self.client.is_ready() {
            return;
        }
        let phase = self.control.phase();
        while self.under_way.len() < self.clients
            && let Some(operation) = self.next(phase)
        {
            let begun_ns = self.control.now_ns();
            let txn = with_effects(out, |out| self.client.begin(now_ms, operation.clone(), out));
            self.under_way.insert(txn, UnderWay { operation, begun_ns });
        }
        let is_idle = self.under_way.is_empty() && self.client.is_idle();
        if is_idle && self.told_idle != Some(phase) {
            self.told_idle = Some(phase);
            // The run may be over.
            let _ = self.idle.send(phase);
        }
    }

    fn on_completed(&mut self, completed: Completed<OperationOf<S>>) {
        let Some(UnderWay { operation, begun_ns }) = self.under_way.remove(&completed.begun) else { return };
        let phase = self.control.phase();
        if phase == Phase::Fill {
            return;
        }
        let answered_ns = self.control.now_ns();
        let bucket = (answered_ns / BUCKET_NS) as usize;
        let figures = &mut self.figures;
        if figures.answered_in.len() <= bucket {
            figures.answered_in.resize(bucket + 1, 0);
        }
        figures.answered_in[bucket] += 1;
        if phase == Phase::Measure {
            figures.answered += 1;
            figures.distributed += u64::from(completed.answers.len() > 1);
            figures.aborts += u64::from(completed.aborts);
            figures.new_orders += u64::from(S::is_new_order(&completed.answers));
            figures.latency.saturating_record(answered_ns - begun_ns);
        }
        if self.keeps_answers {
            let answers = completed.answers.into_values().collect();
            self.answers.push(Answered { txn: completed.txn, operation, begun_ns, answered_ns, answers });
        }
    }
}

impl<C: machine::Client<Operation = OperationOf<S>>, S: Source> Machine for FrontEnd<C, S> {
    type Message = C::Message;
    type Record = ();

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: C::Message,
        out: &mut Vec<Outgoing<Party, C::Message>>,
    ) {
        if let Some(completed) = with_effects(out, |out| self.client.step(now_ms, from, message, out)) {
            self.on_completed(completed);
            self.begin(now_ms, out);
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, C::Message>>) {
        with_effects(out, |out| self.client.on_timer(now_ms, out));
        self.begin(now_ms, out);
    }

    fn take_records(&mut self) -> Vec<()> {
        Vec::new()
    }

    fn snapshot(&self) -> Option<()> {
        None
    }
}
