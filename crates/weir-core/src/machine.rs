//! The interface that all protocols share: shards and coordinators as pure state machines.
//!
//! The embedded cluster, the network and the simulator drive any implementation; a protocol depends on none of them. Time and messages
//! are arguments, outgoing messages are results.

use std::io;
use std::sync::Arc;

use weir_types::SqlError;
use weir_types::interrupt::{Budget, Interrupts, StatementId};

use crate::ids::{CoordinatorId, Sender, ShardId};
use crate::lsn::Lsn;
pub use crate::lsn::Outgoing;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Messages that a step of a shard sends.
#[derive(Debug)]
pub struct Effects<Request, Reply> {
    /// To coordinators.
    pub replies: Vec<Outgoing<CoordinatorId, Reply>>,
    /// To other shards.
    pub peers: Vec<Outgoing<ShardId, Request>>,
}

impl<Request, Reply> Effects<Request, Reply> {
    pub fn reply(&mut self, to: CoordinatorId, message: Reply, after: Lsn) {
        self.replies.push(Outgoing { to, message, after });
    }

    pub fn ask(&mut self, to: ShardId, message: Request, after: Lsn) {
        self.peers.push(Outgoing { to, message, after });
    }
}

impl<Request, Reply> Default for Effects<Request, Reply> {
    fn default() -> Self {
        Effects { replies: Vec::new(), peers: Vec::new() }
    }
}

/// Work of a long statement, which runs beside the steps of its shard, on a thread of its own (docs/internals/steps.md).
pub type Work = Box<dyn FnOnce(Arc<dyn Pace>) + Send>;

/// When a worker pauses: an argument of its work, since threads are not deterministic.
pub trait Pace: Send + Sync {
    /// Returns whether the worker must pause here. Where it need not, it lets its shard take a turn if that waits for one.
    fn wants_pause(&self) -> bool;
    /// Returns when the worker may go on. The worker holds no lock.
    fn pause(&self);
    /// Lets the worker wait for something else than its turn; others may run meanwhile. The worker holds no lock.
    fn rest(&self, wait: &mut dyn FnMut()) {
        wait();
    }
    /// Makes an empty temporary file for the worker. Where time is simulated, its content stays in memory.
    ///
    /// # Errors
    /// Those of the file system.
    fn temporary_file(&self) -> io::Result<Box<dyn TemporaryFile>> {
        Ok(Box::new(MemoryFile::default()))
    }
}

/// A file of one worker. It is gone when the value is dropped, and when its process ends.
pub trait TemporaryFile: Send + Sync {
    /// Writes bytes at the end of the file.
    ///
    /// # Errors
    /// Those of the file system: for example, the disk is full.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Reads exactly as many bytes as there is room for, from the position on.
    ///
    /// # Errors
    /// Those of the file system; the file ends before.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

#[derive(Debug, Default)]
struct MemoryFile(Vec<u8>);

impl TemporaryFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.0.get(at..at + into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The server's side of a protocol.
pub trait Shard: Send + 'static {
    type Request: Send + 'static;
    type Reply: Send + 'static;
    /// Progress of a coordinator, carried by each batch of requests.
    type Progress: Send + 'static;

    fn id(&self) -> ShardId;
    /// Interrupts for running statements; none: no step takes long.
    fn interrupts(&self) -> Option<&Arc<Interrupts>> {
        None
    }
    /// Drain epoch that each batch of replies carries.
    fn epoch(&self) -> u64;
    /// `now_ms`: milliseconds since the Unix epoch.
    fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Self::Progress);
    /// Takes one request and runs it to completion.
    fn step(
        &mut self,
        now_ms: u64,
        from: Sender,
        request: Self::Request,
        out: &mut Effects<Self::Request, Self::Reply>,
    );
    /// From here on the driver runs what [`Shard::take_work`] gives it, and a statement that exceeds the budget in a step becomes such work.
    fn set_step_budget(&mut self, _budget: Budget) {}
    /// Begins a turn: the driver calls it before any other method of a shard whose work it runs.
    fn begin_turn(&mut self) {}
    /// Ends a turn: workers may read until the next one begins.
    fn end_turn(&mut self) {}
    /// Work that the steps have left, to be run at once. Behind each the driver calls [`Shard::on_work_done`].
    fn take_work(&mut self) -> Vec<Work> {
        Vec::new()
    }
    /// Returns whether work has not ended yet: a shard that ends waits for its answers.
    fn has_work(&self) -> bool {
        false
    }
    /// Answers what workers have finished.
    fn on_work_done(&mut self, _now_ms: u64, _out: &mut Effects<Self::Request, Self::Reply>) {}
    /// Called periodically by a driver whose parties may die or be cut off.
    fn on_timer(&mut self, _now_ms: u64, _out: &mut Effects<Self::Request, Self::Reply>) {}
    /// Returns whether nothing is prepared and no request waits.
    fn is_idle(&self) -> bool;
    /// Reply on behalf of a node with that protocol version, if the request cannot be expressed in it.
    fn refused_by(_request: &Self::Request, _version: u16, _shard: ShardId) -> Option<Self::Reply> {
        None
    }
}

/// A shard with a log.
pub trait Durable: Shard {
    type Record: Clone + Send + 'static;

    /// Takes the records of the steps since the last call, in order. Each message says which of them must be durable before it leaves
    /// ([`Outgoing::after`]).
    fn take_records(&mut self) -> Vec<Self::Record>;
    /// Returns whether the record is written within microseconds.
    fn is_small(_record: &Self::Record) -> bool {
        true
    }
    /// The log is durable up to this position.
    fn on_durable(&mut self, _up_to: Lsn) {}
    /// Complete state as one record; once it is durable, earlier records are not needed.
    fn snapshot(&mut self) -> Self::Record;
    /// Next part, of about that many bytes, of the complete state as of the first part, while the shard continues. Also returns whether
    /// another part follows. None: a later change has made the snapshot void.
    fn snapshot_part(&mut self, _is_first: bool, _bytes: usize) -> Option<(Self::Record, bool)> {
        Some((self.snapshot(), false))
    }
    /// Returns whether a snapshot in parts may begin; if not, it may later.
    fn may_snapshot(&self) -> bool {
        true
    }
    /// Abandons the snapshot in parts.
    fn end_snapshot(&mut self) {}
    /// Whether the shard rejects writes when the disk is full, so that its pending records can wait.
    const REFUSES_WHEN_FULL: bool = false;
    /// The disk may have no space for further records: the shard rejects whatever it can.
    fn set_disk_full(&mut self, _is_full: bool) {}
    /// Highest clock that it has issued or seen (docs/internals/clocks.md).
    fn last_clock(&self) -> u64 {
        0
    }
    /// Accepts clocks up to this one: another shard of the node, or the operator, vouches for it.
    fn restore_clock(&mut self, _clock: u64) {}
    /// Sets the memory limit in bytes; beyond it, requests that would grow the data are rejected.
    fn set_memory_max(&mut self, _bytes: Option<usize>) {}
}

/// A shard with clients and peers in other processes, which may be faulty or hostile.
pub trait Exposed: Durable {
    /// Description of the application for clients that have only the cluster file.
    type Description: Serialize + Send + Sync + 'static;
    /// Fields of a request that its serialised form, which older protocol versions share, does not have. They follow it in a message.
    type Attachment: Default + Serialize + DeserializeOwned;

    /// Returns the fields that follow the request.
    fn attachment(_request: &Self::Request) -> Self::Attachment {
        Self::Attachment::default()
    }
    /// Inverse of [`Exposed::attachment`], before all other checks of the request. Reason to reject it, if the attachment cannot be its
    /// own.
    fn attach(_request: &mut Self::Request, _attachment: Self::Attachment) -> Option<&'static str> {
        None
    }

    /// Reason to reject a party's progress, if any: it is about another party or an unknown shard, or far outside of its sequence.
    fn refuses(&self, progress: &Self::Progress) -> Option<&'static str>;
    /// Reason to reject one request, after its batch's progress.
    fn refuses_request(&self, from: Sender, request: &Self::Request, shards: ShardId)
    -> Option<&'static str>;
    /// Replacement for a reply that exceeds a message; none: the connection to the recipient must be closed.
    fn instead_of(_reply: &Self::Reply) -> Option<Self::Reply> {
        None
    }
    /// Converts a reply for a recipient with that protocol version.
    fn of_version(reply: Self::Reply, _version: u16) -> Self::Reply {
        reply
    }
    /// Description of the application, if it has changed since the last call; later inquiries are answered with it.
    fn take_description(&mut self) -> Option<Arc<Self::Description>> {
        None
    }
    /// Number of definitions that the description contains. Of two shards, the one with more has the newer schema.
    fn definitions_in(_description: &Self::Description) -> usize {
        0
    }
    /// Coordinators of prepared, undecided transactions, once for each transaction.
    fn undecided(&self) -> impl Iterator<Item = CoordinatorId>;
    /// Figures for monitoring. Samples rows to estimate sizes.
    fn figures(&self) -> Figures {
        Figures::default()
    }
}

/// Current state of a shard, and its counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub tables: Vec<TableFigures>,
    /// Interactive transactions that have worked here.
    pub open: usize,
    /// Prepared, undecided transactions.
    pub prepared: usize,
    /// Requests that wait for another transaction's claims.
    pub waiting: usize,
    /// Writes are rejected, because the disk may have no space for further records.
    pub disk_is_full: bool,
    /// Highest clock that it has issued or seen, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    pub done: Done,
    /// None: the application has no ordered calls.
    pub order: Option<OrderFigures>,
}

/// Ordered calls at a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderFigures {
    /// Epoch of the sequencer that the shard follows.
    pub epoch: u64,
    /// Index of the last operation of the order that is executed here.
    pub executed: u64,
    /// Operations that are delivered and not executed: they wait for locks, or for votes.
    pub waiting: usize,
    /// Transactions under locks that have their places and have not ended. Ordered calls behind them wait.
    pub entered: usize,
    /// Packets that came before an earlier one.
    pub aside: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFigures {
    pub name: String,
    pub rows: usize,
    /// Approximate bytes of rows and indexes.
    pub bytes: usize,
}

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Commits of transactions that have written here.
    pub commits: u64,
    /// Requests that began to wait for another transaction's claims.
    pub waits: u64,
    /// Requests that were told to retry because of another transaction's claims.
    pub withdrawals: u64,
}

/// Effects of a step of a coordinator.
#[derive(Debug)]
pub struct Orders<Request, Done> {
    pub sends: Vec<(ShardId, Request)>,
    /// Results of operations, by tag.
    pub done: Vec<(u64, Done)>,
    /// Running statements that shards must end at once with that error, ahead of all other requests.
    pub interrupts: Vec<(StatementId, SqlError)>,
}

impl<Request, Done> Default for Orders<Request, Done> {
    fn default() -> Self {
        Orders { sends: Vec::new(), done: Vec::new(), interrupts: Vec::new() }
    }
}

/// Time without an answer after which a request is sent again; doubled at each repetition.
pub const RESEND_MS: u64 = 200;

/// Number of doublings: 1.6 s exceeds the round trip of any link.
const DOUBLED_MAX: u32 = 3;

/// Time of the last transmission of a request, and number of repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    at_ms: u64,
    again: u32,
}

impl Sent {
    /// The first transmission.
    pub fn at(now_ms: u64) -> Sent {
        Sent { at_ms: now_ms, again: 0 }
    }

    /// Returns whether the answer is late.
    pub fn is_late(&self, now_ms: u64) -> bool {
        is_late(now_ms, self.at_ms, RESEND_MS << self.again.min(DOUBLED_MAX))
    }

    /// Returns whether the answer is late; if so, records another transmission now.
    pub fn repeats(&mut self, now_ms: u64) -> bool {
        let late = self.is_late(now_ms);
        if late {
            *self = Sent { at_ms: now_ms, again: self.again + 1 };
        }
        late
    }
}

/// Returns whether a message has waited too long. After a clock has stepped back the elapsed time is unknown, so it has.
pub fn is_late(now_ms: u64, sent_ms: u64, timeout_ms: u64) -> bool {
    now_ms.checked_sub(sent_ms).is_none_or(|waited_ms| waited_ms >= timeout_ms)
}

/// The client's side of a protocol: many transactions at once.
pub trait Coordinator: Send + 'static {
    type Request: Send + 'static;
    type Reply: Send + 'static;
    type Progress: Send + 'static;
    type Transaction: Send + 'static;
    type Done: Send + 'static;

    fn id(&self) -> CoordinatorId;
    /// Begins a transaction; its result is reported under `tag`.
    fn begin(
        &mut self,
        now_ms: u64,
        tag: u64,
        transaction: Self::Transaction,
        out: &mut Orders<Self::Request, Self::Done>,
    );
    fn on_reply(&mut self, now_ms: u64, reply: Self::Reply, out: &mut Orders<Self::Request, Self::Done>);
    /// Sends unanswered requests again.
    fn on_timer(&mut self, now_ms: u64, out: &mut Orders<Self::Request, Self::Done>);
    /// Progress for the next batch to that shard.
    fn progress(&mut self, shard: ShardId) -> Self::Progress;
    fn on_epoch(&mut self, shard: ShardId, epoch: u64);
    /// Returns whether nothing is in flight.
    fn is_idle(&self) -> bool;
    /// Returns whether some shard has forgotten the coordinator. Its driver then begins a new one under a new id; the outcome of its
    /// operations in flight is unknown.
    fn is_retired(&self) -> bool {
        false
    }
}

/// A coordinator whose messages match those of the shards.
pub trait CoordinatorOf<S: Shard>:
    Coordinator<Request = S::Request, Reply = S::Reply, Progress = S::Progress>
{
}

impl<S, C> CoordinatorOf<S> for C
where
    S: Shard,
    C: Coordinator<Request = S::Request, Reply = S::Reply, Progress = S::Progress>,
{
}

/// Clients of one coordinator, which decide what is begun.
pub trait Clients<S: Shard>: Send + 'static {
    type Coordinator: CoordinatorOf<S>;

    fn coordinator(&mut self) -> &mut Self::Coordinator;
    /// Begins the first transactions.
    fn begin(&mut self, orders: &mut ClientOrders<S, Self>);
    /// Takes the results out of the orders, and begins the next transactions.
    fn go_on(&mut self, orders: &mut ClientOrders<S, Self>);
    /// Returns whether the clients have finished and nothing of theirs is in flight.
    fn have_ended(&mut self) -> bool {
        self.coordinator().is_idle()
    }
}

pub type ClientOrders<S, C> =
    Orders<<S as Shard>::Request, <<C as Clients<S>>::Coordinator as Coordinator>::Done>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Times at which an unanswered request is sent again, with a timer of 40 ms.
    fn repetitions(until_ms: u64, clock: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut sent = Sent::at(clock(0));
        (1..=until_ms / 40).map(|tick| tick * 40).filter(|now_ms| sent.repeats(clock(*now_ms))).collect()
    }

    #[test]
    fn patience_grows_to_a_bound() {
        let expected = [200, 600, 1_400, 3_000, 4_600, 6_200, 7_800, 9_400];
        assert_eq!(repetitions(10_000, |now_ms| now_ms), expected);
        // After a step back of the clock the elapsed time is unknown.
        let back = |now_ms| if now_ms < 720 { 100_000 + now_ms } else { now_ms };
        assert_eq!(repetitions(3_000, back), [200, 600, 720, 2_320]);
    }
}
