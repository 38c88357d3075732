//! A coordinator: many transactions and reads at once, each a small machine, over ordered links to the
//! shards.
//!
//! Keeps what the shards need to know of it: below which sequence everything is settled, and up to which
//! drain epoch its reads have ended (S10).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_types::{SqlError, Value};

use super::coordinator::{Action, Transaction, gave_up};
use super::message::{Age, Call, Output, Reply, Request, ShardId, TxnId};
use super::reader::{Read, ReadAction};
use crate::exec::gather::{Fetched, Gather};
use crate::exec::program::Program;

/// After so many withdrawals at guards a transaction gives up (40001).
const RETRIES_MAX: u32 = 10_000;

/// How transactions over several shards are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Guarded RAMP-Fast.
    RampFast,
    /// No prepare and no atomic visibility (the paper's NWNR), on the same code.
    None,
}

impl Protocol {
    pub fn by_name(name: &str) -> Option<Protocol> {
        match name {
            "ramp-fast" => Some(Protocol::RampFast),
            "none" => Some(Protocol::None),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Protocol::RampFast => "ramp-fast",
            Protocol::None => "none",
        }
    }
}

/// What the driver of a coordinator is told.
#[derive(Debug)]
pub enum Event {
    Send(ShardId, Request),
    /// The call that was begun under this tag has its answer.
    Answered {
        tag: u64,
        result: Result<Output, SqlError>,
    },
    /// The read that was begun under this tag: the first row of its query, and how many rows were
    /// fetched and looked at for it.
    ReadDone {
        tag: u64,
        result: Result<Option<Vec<Value>>, SqlError>,
        rounds: u32,
        rows: usize,
        examined: usize,
    },
}

/// One coordinator. Sequences ascend; those below `base` are over.
pub struct Coordinator {
    pub id: u16,
    program: Arc<Program>,
    protocol: Protocol,
    base: u64,
    flights: VecDeque<Option<Flight>>,
    /// By shard: the newest drain epoch that it sent, with the reads that were active when it came.
    epochs: BTreeMap<ShardId, VecDeque<(u64, u64)>>,
    drained: BTreeMap<ShardId, u64>,
    actions: Vec<Action>,
    read_actions: Vec<ReadAction>,
}

enum Flight {
    Transaction { tag: u64, machine: Transaction, age: Age, call: Option<Call>, retries: u32 },
    Read { tag: u64, machine: Read, gather: Arc<Gather>, values: Vec<Value> },
    Over,
}

impl Coordinator {
    pub fn new(id: u16, program: Arc<Program>, protocol: Protocol) -> Coordinator {
        Coordinator {
            id,
            program,
            protocol,
            base: 0,
            flights: VecDeque::new(),
            epochs: BTreeMap::new(),
            drained: BTreeMap::new(),
            actions: Vec::new(),
            read_actions: Vec::new(),
        }
    }

    /// Everything below is over everywhere.
    pub fn settled_below(&self) -> u64 {
        self.base
    }

    /// The shard's newest epoch such that all reads that were active when it came have ended.
    pub fn drained(&self, shard: ShardId) -> u64 {
        self.drained.get(&shard).copied().unwrap_or(0)
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }

    /// Each batch of replies carries its shard's drain epoch.
    pub fn on_epoch(&mut self, shard: ShardId, epoch: u64) {
        let next = self.next_sequence();
        let seen = self.epochs.entry(shard).or_default();
        if seen.back().is_none_or(|(last, _)| *last < epoch) {
            // Reads that begin from now on have a sequence from here on.
            seen.push_back((epoch, next));
        }
        self.drain();
    }

    fn drain(&mut self) {
        let oldest_read = self.flights.iter().position(|flight| matches!(flight, Some(Flight::Read { .. })));
        let oldest_read = oldest_read.map_or(u64::MAX, |at| self.base + at as u64);
        for (shard, seen) in &mut self.epochs {
            while let Some(&(epoch, begun_before)) = seen.front() {
                if oldest_read < begun_before {
                    break;
                }
                self.drained.insert(*shard, epoch);
                seen.pop_front();
                if seen.is_empty() {
                    // Remember the last, so that it is not taken for a new one.
                    seen.push_back((epoch, 0));
                    break;
                }
            }
        }
    }

    fn next_sequence(&self) -> u64 {
        self.base + self.flights.len() as u64
    }

    /// Begins a call; its answer comes under `tag`.
    pub fn begin(&mut self, tag: u64, call: Call, out: &mut Vec<Event>) {
        let age = Age { sequence: self.next_sequence(), coordinator: self.id };
        self.begin_aged(tag, call, age, 0, out);
    }

    fn begin_aged(&mut self, tag: u64, call: Call, age: Age, retries: u32, out: &mut Vec<Event>) {
        let participants = match self.program.participants(&call) {
            Ok(participants) => participants,
            Err(error) => return out.push(Event::Answered { tag, result: Err(error) }),
        };
        let sequence = self.next_sequence();
        let txn = TxnId { coordinator: self.id, sequence };
        // Only guards make a call come back.
        let kept = Some(call.clone())
            .filter(|_| participants.len() > 1 || self.program.procedures[call.procedure].guarded);
        let atomic = self.protocol == Protocol::RampFast;
        let machine = Transaction::begin(txn, age, call, participants, atomic, &mut self.actions);
        self.flights.push_back(Some(Flight::Transaction { tag, machine, age, call: kept, retries }));
        self.perform(sequence, out);
    }

    /// Begins a read of the query for these values; its answer comes under `tag`.
    pub fn begin_read(&mut self, tag: u64, gather: Arc<Gather>, values: Vec<Value>, out: &mut Vec<Event>) {
        let sequence = self.next_sequence();
        let queries = gather.queries(&values, &self.program);
        let machine = Read::begin(TxnId { coordinator: self.id, sequence }, queries, &mut self.read_actions);
        self.flights.push_back(Some(Flight::Read { tag, machine, gather, values }));
        self.perform_read(sequence, out);
    }

    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<Event>) {
        let sequence = reply.txn().sequence;
        let Some(at) = sequence.checked_sub(self.base) else { return };
        match self.flights.get_mut(at as usize) {
            Some(Some(Flight::Transaction { machine, .. })) => {
                machine.on_reply(reply, &mut self.actions);
                self.perform(sequence, out);
            }
            Some(Some(Flight::Read { machine, .. })) => {
                machine.on_reply(reply, &mut self.read_actions);
                self.perform_read(sequence, out);
            }
            // A second ReadAgain of a read that has begun anew.
            _ => {}
        }
    }

    fn perform(&mut self, sequence: u64, out: &mut Vec<Event>) {
        let mut again = None;
        for action in std::mem::take(&mut self.actions) {
            let at = (sequence - self.base) as usize;
            let Some(Some(Flight::Transaction { tag, age, call, retries, .. })) = self.flights.get_mut(at)
            else {
                unreachable!("the transaction is under way")
            };
            match action {
                Action::Send(shard, request) => out.push(Event::Send(shard, request)),
                Action::Answer(result) => out.push(Event::Answered { tag: *tag, result }),
                Action::Retry if *retries == RETRIES_MAX => {
                    out.push(Event::Answered { tag: *tag, result: Err(gave_up()) })
                }
                Action::Retry => {
                    let call = call.take().expect("a call that may meet a guard is kept");
                    again = Some((*tag, call, *age, *retries + 1));
                }
                Action::Settled => self.settle(sequence),
            }
        }
        if let Some((tag, call, age, retries)) = again {
            self.begin_aged(tag, call, age, retries, out);
        }
    }

    fn perform_read(&mut self, sequence: u64, out: &mut Vec<Event>) {
        for action in std::mem::take(&mut self.read_actions) {
            match action {
                ReadAction::Send(shard, request) => out.push(Event::Send(shard, request)),
                ReadAction::Done(fetched) => self.finish_read(sequence, fetched, out),
                ReadAction::Again => {
                    let at = (sequence - self.base) as usize;
                    let flight = self.flights[at].replace(Flight::Over);
                    let Some(Flight::Read { tag, gather, values, .. }) = flight else {
                        unreachable!("the read is under way")
                    };
                    self.settle(sequence);
                    self.begin_read(tag, gather, values, out);
                    return;
                }
            }
        }
    }

    fn finish_read(&mut self, sequence: u64, fetched: Fetched, out: &mut Vec<Event>) {
        let at = (sequence - self.base) as usize;
        let Some(Flight::Read { tag, machine, gather, values }) = self.flights[at].replace(Flight::Over)
        else {
            unreachable!("the read is under way")
        };
        let queries = gather.queries(&values, &self.program);
        let rows = fetched.iter().flat_map(|(_, tables)| tables).map(Vec::len).sum();
        let result = gather.first_row(&values, &queries, fetched, &self.program);
        let (rounds, examined) = (machine.rounds, machine.examined);
        out.push(Event::ReadDone { tag, result, rounds, rows, examined });
        self.settle(sequence);
        self.drain();
    }

    fn settle(&mut self, sequence: u64) {
        let at = (sequence - self.base) as usize;
        self.flights[at] = None;
        while let Some(None) = self.flights.front() {
            self.flights.pop_front();
            self.base += 1;
        }
    }
}
