//! The client library: calls of one party, whose thread waits for quorums of replies.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Waker;
use weir_core::ids::{ShardId, TxnId};
use weir_kv::Bytes;
use weir_ordered::client;
use weir_ordered::faults::NoFaults;
use weir_ordered::message::Party;
use weir_ordered::packet::Shards;

use crate::driver::{PartyError, TICK_MS};
use crate::members::{Members, client_id};
use crate::streams::REDIAL_MS;
use crate::transport::{Counts, Loss, Received, Transport};
use crate::wire::{Effects, Operation};

/// Size of an operation, at most: it travels with others in the logs of replicas.
pub const OPERATION_BYTES_MAX: usize = 64 << 20;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The destinations are not shards of the cluster, ascending, or the operation is too large. Nothing has happened.
    Refused(String),
    /// The cluster has not heard from this client for long, and has forgotten it. The transaction is executed or not.
    Retired,
    /// The client has ended. The transaction is executed or not.
    Ended,
    /// No general transaction of this client with that id has all its answers and is not concluded. Nothing has happened.
    NotOpen(TxnId),
    /// The application does not answer reads outside of transactions.
    NoReads,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Refused(why) => write!(f, "{why}"),
            CallError::Retired => {
                write!(
                    f,
                    "the cluster has not heard from this client for long: the transaction is executed or not"
                )
            }
            CallError::Ended => write!(f, "the client has ended: the transaction is executed or not"),
            CallError::NotOpen(TxnId { sequence, .. }) => {
                write!(
                    f,
                    "general transaction {sequence} is not open: it has not all its answers, or is concluded"
                )
            }
            CallError::NoReads => write!(f, "the application does not answer reads outside of transactions"),
        }
    }
}

impl std::error::Error for CallError {}

/// A transaction that all participants have executed, and their answers.
pub type Completed = client::Completed<Bytes>;

struct Call {
    kind: Kind,
    body: Bytes,
    answer: Sender<Result<Completed, CallError>>,
    /// Hears the id before the transaction is sent.
    begun: Option<Sender<TxnId>>,
}

enum Kind {
    Independent(Shards),
    Preliminary(Shards),
    /// Of that general transaction, and whether it commits.
    Conclusory(TxnId, bool),
}

enum Request {
    Call(Call),
    /// A read of a shard outside of transactions.
    Read(ShardId, Bytes, Sender<Result<Bytes, CallError>>),
    Counts(Sender<Counts>),
}

/// A client of a cluster. Threads may share it.
pub struct Client {
    members: Arc<Members>,
    /// None: it ends.
    requests: Option<Sender<Request>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// # Errors
    /// The members are those of no cluster, or the system's.
    pub fn start(members: Arc<Members>, loss: Option<Loss>) -> Result<Client, PartyError> {
        members.check().map_err(PartyError::Members)?;
        let id = client_id()?;
        let transport = Transport::bind(members.clone(), Party::Client(id), loss)?;
        let waker = transport.waker();
        let (requests, requested) = channel();
        let machine = client::Client::new(id, members.cluster, NoFaults);
        let calls = Calls {
            machine,
            transport,
            requested,
            waiting: BTreeMap::new(),
            reading: BTreeMap::new(),
            begun: Instant::now(),
            timer_ms: 0,
            dialled_ms: None,
        };
        let run = move || {
            if let Err(error) = calls.run() {
                tracing::warn!(%error, "a client has ended");
            }
        };
        let thread = std::thread::Builder::new().name("ordered-client".to_owned()).spawn(run)?;
        Ok(Client { members, requests: Some(requests), waker, thread: Some(thread) })
    }

    /// Executes an operation at these shards, ascending, and waits for their answers.
    ///
    /// # Errors
    /// There is no answer; why.
    pub fn call(&self, destinations: &[ShardId], body: &[u8]) -> Result<Completed, CallError> {
        self.begin(destinations, body, None)?.recv().unwrap_or(Err(CallError::Ended))
    }

    /// Begins a call, whose answer comes through the channel. `begun`: hears the id of the transaction.
    ///
    /// # Errors
    /// It is refused.
    pub fn begin(
        &self,
        destinations: &[ShardId],
        body: &[u8],
        begun: Option<Sender<TxnId>>,
    ) -> Result<Receiver<Result<Completed, CallError>>, CallError> {
        self.check_destinations(destinations)?;
        self.start_call(Kind::Independent(destinations.into()), body, begun)
    }

    /// Begins a general transaction, whose preliminary part is executed at these shards, ascending, and waits for their answers. It holds
    /// locks until [`Client::conclude`], or until replicas think that this client is gone.
    ///
    /// # Errors
    /// There is no answer; why.
    pub fn begin_general(&self, destinations: &[ShardId], body: &[u8]) -> Result<Completed, CallError> {
        self.check_destinations(destinations)?;
        self.start_call(Kind::Preliminary(destinations.into()), body, None)?
            .recv()
            .unwrap_or(Err(CallError::Ended))
    }

    /// Concludes a general transaction: the operation is executed if it commits and is not aborted, which the answer says.
    ///
    /// # Errors
    /// There is no answer; why.
    pub fn conclude(&self, general: TxnId, commits: bool, body: &[u8]) -> Result<Completed, CallError> {
        self.start_call(Kind::Conclusory(general, commits), body, None)?
            .recv()
            .unwrap_or(Err(CallError::Ended))
    }

    /// Reads what a shard has executed, outside of any transaction: what a general transaction will lock may depend on it.
    ///
    /// # Errors
    /// There is no answer; why.
    pub fn reconnoitre(&self, shard: ShardId, body: &[u8]) -> Result<Bytes, CallError> {
        self.check_destinations(&[shard])?;
        check_size(body)?;
        let (answer, answers) = channel();
        self.ask(Request::Read(shard, Bytes::new(body), answer))?;
        answers.recv().unwrap_or(Err(CallError::Ended))
    }

    fn check_destinations(&self, destinations: &[ShardId]) -> Result<(), CallError> {
        let shards = self.members.cluster.shards;
        let is_ascending = destinations.is_sorted_by(|a, b| a < b) && !destinations.is_empty();
        if !is_ascending || destinations.last().is_some_and(|last| *last >= shards) {
            return Err(CallError::Refused(format!(
                "{destinations:?} are not some of {shards} shards, ascending"
            )));
        }
        Ok(())
    }

    fn start_call(
        &self,
        kind: Kind,
        body: &[u8],
        begun: Option<Sender<TxnId>>,
    ) -> Result<Receiver<Result<Completed, CallError>>, CallError> {
        check_size(body)?;
        let (answer, answers) = channel();
        self.ask(Request::Call(Call { kind, body: Bytes::new(body), answer, begun }))?;
        Ok(answers)
    }

    /// Counts of its transport.
    ///
    /// # Errors
    /// The client has ended.
    pub fn counts(&self) -> Result<Counts, CallError> {
        let (counts, counted) = channel();
        self.ask(Request::Counts(counts))?;
        counted.recv().map_err(|_| CallError::Ended)
    }

    fn ask(&self, request: Request) -> Result<(), CallError> {
        let requests = self.requests.as_ref().ok_or(CallError::Ended)?;
        requests.send(request).map_err(|_| CallError::Ended)?;
        self.waker.wake().map_err(|_| CallError::Ended)
    }
}

fn check_size(body: &[u8]) -> Result<(), CallError> {
    if body.len() > OPERATION_BYTES_MAX {
        let why = format!("an operation of {} bytes, and {OPERATION_BYTES_MAX} is the most", body.len());
        return Err(CallError::Refused(why));
    }
    Ok(())
}

impl Drop for Client {
    fn drop(&mut self) {
        self.requests = None;
        // If nothing wakes it, its timer does.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, its callers have heard that it has ended.
            let _ = thread.join();
        }
    }
}

/// The thread of a client.
struct Calls {
    machine: client::Client<Operation, Bytes>,
    transport: Transport,
    requested: Receiver<Request>,
    /// Callers, by the sequence of the transaction.
    waiting: BTreeMap<u64, Sender<Result<Completed, CallError>>>,
    /// Those who read outside of transactions, by the number of the read.
    reading: BTreeMap<u64, Sender<Result<Bytes, CallError>>>,
    begun: Instant,
    timer_ms: u64,
    dialled_ms: Option<u64>,
}

impl Calls {
    fn run(mut self) -> io::Result<()> {
        let mut received = Vec::new();
        while self.turn(&mut received)? {}
        Ok(())
    }

    /// Returns false once the client ends: nobody can call it any more, or it is retired.
    fn turn(&mut self, received: &mut Vec<Received>) -> io::Result<bool> {
        let wait_ms = self.timer_ms.saturating_sub(self.now_ms());
        self.transport.receive(Duration::from_millis(wait_ms), received)?;
        for Received { from, message, .. } in received.drain(..) {
            if let Some(completed) = self.machine.step(from, message)
                && let Some(caller) = self.waiting.remove(&completed.txn.sequence)
            {
                // A caller that is gone needs no answer.
                let _ = caller.send(Ok(completed));
            }
        }
        for (number, answer) in self.machine.take_reconnoitred() {
            if let Some(reader) = self.reading.remove(&number) {
                // A reader that is gone needs no answer.
                let _ = reader.send(answer.ok_or(CallError::NoReads));
            }
        }
        if self.machine.is_retired() {
            self.waiting.values().for_each(|caller| drop(caller.send(Err(CallError::Retired))));
            return Ok(false);
        }
        let now_ms = self.now_ms();
        let mut out = Effects::default();
        let goes_on = self.take_requests(now_ms, &mut out);
        if now_ms >= self.timer_ms {
            self.timer_ms = now_ms + TICK_MS;
            self.machine.on_timer(now_ms, &mut out);
            self.dial(now_ms);
        }
        self.transport.send(out.messages.into_iter().map(|each| (each.to, each.message)));
        self.transport.flush();
        Ok(goes_on)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Begins what has been called. Calls wait until a sequencer is known.
    fn take_requests(&mut self, now_ms: u64, out: &mut Effects) -> bool {
        while self.machine.is_ready() {
            match self.requested.try_recv() {
                Ok(Request::Call(call)) => self.begin_call(now_ms, call, out),
                Ok(Request::Read(shard, body, answer)) => {
                    let operation = Operation { reply_to: None, body };
                    let number = self.machine.reconnoitre(now_ms, shard, operation, out);
                    self.reading.insert(number, answer);
                }
                // Whoever has asked may be gone.
                Ok(Request::Counts(counts)) => drop(counts.send(self.transport.counts())),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn begin_call(&mut self, now_ms: u64, call: Call, out: &mut Effects) {
        let operation = Operation { reply_to: None, body: call.body };
        let txn = match call.kind {
            Kind::Independent(destinations) => self.machine.begin(now_ms, destinations, operation, out),
            Kind::Preliminary(destinations) => {
                self.machine.begin_general(now_ms, destinations, operation, out)
            }
            Kind::Conclusory(general, commits) => {
                match self.machine.conclude(now_ms, general, (commits, operation), out) {
                    Some(txn) => txn,
                    // A caller that is gone needs no answer.
                    None => return drop(call.answer.send(Err(CallError::NotOpen(general)))),
                }
            }
        };
        if let Some(begun) = call.begun {
            // Whoever has asked may be gone.
            let _ = begun.send(txn);
        }
        self.waiting.insert(txn.sequence, call.answer);
    }

    /// Replicas cannot dial clients, and their answers may not fit into a datagram.
    fn dial(&mut self, now_ms: u64) {
        if self.dialled_ms.is_none_or(|dialled_ms| now_ms >= dialled_ms + REDIAL_MS) {
            self.dialled_ms = Some(now_ms);
            let replicas = self.transport.members().cluster.all_replicas();
            self.transport.dial(replicas.map(Party::Replica));
        }
    }
}
