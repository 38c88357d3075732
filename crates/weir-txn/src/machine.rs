//! The shape that all protocols share: shards and coordinators as pure state machines.
//!
//! The embedded cluster, the network and the simulator drive anything of this shape; a protocol knows none
//! of them. Time and messages are arguments, what is to be sent comes out.

use std::sync::Arc;

use weir_types::SqlError;
use weir_types::interrupt::{Interrupts, StatementId};

use crate::exec::definition::Description;
use crate::ramp::ShardId;

/// Names a coordinator. Every start has a new one (docs/internals/items.md, termination), so there are many in the life of a cluster.
pub type CoordinatorId = u64;

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Coordinator(CoordinatorId),
    Shard(ShardId),
}

/// What a shard wants done after a step.
#[derive(Debug)]
pub struct Effects<Request, Reply> {
    /// To coordinators.
    pub replies: Vec<(CoordinatorId, Reply)>,
    /// To other shards.
    pub peers: Vec<(ShardId, Request)>,
}

impl<Request, Reply> Default for Effects<Request, Reply> {
    fn default() -> Self {
        Effects { replies: Vec::new(), peers: Vec::new() }
    }
}

/// The server's side of a protocol.
pub trait Shard: Send + 'static {
    type Request: Send + 'static;
    type Reply: Send + 'static;
    /// What each batch of requests says of its coordinator.
    type Progress: Send + 'static;

    fn id(&self) -> ShardId;
    /// What ends statements while it is at them; none: nothing that it does takes long.
    fn interrupts(&self) -> Option<&Arc<Interrupts>> {
        None
    }
    /// The drain epoch that each batch of replies carries.
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
    /// Time has passed. A driver whose parties can die or be cut off calls it every so often.
    fn on_timer(&mut self, _now_ms: u64, _out: &mut Effects<Self::Request, Self::Reply>) {}
    /// Nothing is prepared and nobody waits.
    fn is_idle(&self) -> bool;
    /// What is answered for a node that speaks that version of the protocol, if such a request cannot be said in it.
    fn refused_by(_request: &Self::Request, _version: u16, _shard: ShardId) -> Option<Self::Reply> {
        None
    }
}

/// A shard that writes down what it must not forget.
pub trait Durable: Shard {
    type Record: Clone + Send + 'static;

    /// What the steps since the last call want written down, in that order. Whatever these steps have sent may leave
    /// only once it is durable, and so may what later steps send that have seen it (S16): see [`Durable::required_lsn`].
    fn take_records(&mut self) -> Vec<Self::Record>;
    /// What the last step has sent to coordinators may leave once so many of the records since the start are durable; if there are
    /// not so many yet, once all that are taken next are. What goes to other shards waits for all.
    fn required_lsn(&self) -> u64 {
        u64::MAX
    }
    /// So many of the records since the start are durable.
    fn on_durable(&mut self, _count: u64) {}
    /// All that it must not forget, as one record. Once that is durable, those before it are needed no more.
    fn snapshot(&mut self) -> Self::Record;
    /// The same in parts of about so many bytes, for a shard that goes on meanwhile: all that it must not forget as of the first of
    /// them. Also says whether another part follows. None: what has happened since makes it void.
    fn snapshot_part(&mut self, _is_first: bool, _bytes: usize) -> Option<(Self::Record, bool)> {
        Some((self.snapshot(), false))
    }
    /// No more parts are wanted.
    fn end_snapshot(&mut self) {}
    /// It refuses what there may be no room for: what it has done before can wait to be written down.
    const REFUSES_WHEN_FULL: bool = false;
    /// There may be no room for what it would have to write down: it refuses whatever it can refuse.
    fn set_disk_full(&mut self, _is_full: bool) {}
    /// The highest clock that it has given or seen (docs/internals/clocks.md).
    fn last_clock(&self) -> u64 {
        0
    }
    /// Another shard of the node, or its operator, knows that clocks were right that far: what follows it is accepted.
    fn restore_clock(&mut self, _clock: u64) {}
    /// What it holds may take so many bytes; beyond, it refuses whatever makes that more.
    fn set_memory_max(&mut self, _bytes: Option<usize>) {}
}

/// A shard that parties of other processes speak to. They may be wrong, or worse.
pub trait Exposed: Durable {
    /// Why the word of that party cannot be taken, if it cannot: it speaks in another's name, of a shard that there is not,
    /// or far out of its sequence.
    fn refuses(&self, progress: &Self::Progress) -> Option<&'static str>;
    /// The same of one request, after its batch's progress.
    fn refuses_request(&self, from: Sender, request: &Self::Request, shards: ShardId)
    -> Option<&'static str>;
    /// What is said instead of a reply that is too large to be sent; none: then there is no speaking with who is to get it.
    fn instead_of(_reply: &Self::Reply) -> Option<Self::Reply> {
        None
    }
    /// The reply to who understands that version of the protocol, and none that is later.
    fn of_version(reply: Self::Reply, _version: u16) -> Self::Reply {
        reply
    }
    /// What the cluster carries, if that has been changed since this was asked last: whoever asks what it is is told so from here on.
    fn take_description(&mut self) -> Option<Arc<Description>> {
        None
    }
    /// Whose transactions are prepared here and not decided, for each of them.
    fn undecided(&self) -> impl Iterator<Item = CoordinatorId>;
    /// For whoever watches it. Looks at no more rows than it takes to say about how large they are.
    fn figures(&self) -> Figures {
        Figures::default()
    }
}

/// What a shard has at the moment, and has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub tables: Vec<TableFigures>,
    /// Transactions of several statements that have worked here.
    pub open: usize,
    /// Transactions that are prepared and not decided.
    pub prepared: usize,
    /// Requests that wait for what another transaction holds.
    pub waiting: usize,
    /// Writes are refused: there may be no room for what would have to be written down.
    pub disk_is_full: bool,
    /// The highest clock that it has given or seen, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    pub done: Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFigures {
    pub name: String,
    pub rows: usize,
    /// Of rows and indexes, about.
    pub bytes: usize,
}

/// How often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// A transaction has become visible that has written here.
    pub commits: u64,
    /// A request began to wait for what another transaction held.
    pub waits: u64,
    /// A request was told to come again, because another transaction held what it wanted.
    pub withdrawals: u64,
}

/// What a coordinator wants done after a step.
#[derive(Debug)]
pub struct Orders<Request, Done> {
    pub sends: Vec<(ShardId, Request)>,
    /// Answers to what was begun, by tag.
    pub done: Vec<(u64, Done)>,
    /// Statements that shards are to end with that error if they are at them, at once and past all other requests.
    pub interrupts: Vec<(StatementId, SqlError)>,
}

impl<Request, Done> Default for Orders<Request, Done> {
    fn default() -> Self {
        Orders { sends: Vec::new(), done: Vec::new(), interrupts: Vec::new() }
    }
}

/// Without an answer for so long, a request is sent again; then twice as long, and so on.
pub const RESEND_MS: u64 = 200;

/// It is doubled so often: 1.6 s is more than any link takes for both ways.
const DOUBLED_MAX: u32 = 3;

/// When a request went out last, and how often it has been sent again.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    at_ms: u64,
    again: u32,
}

impl Sent {
    /// For the first time.
    pub fn at(now_ms: u64) -> Sent {
        Sent { at_ms: now_ms, again: 0 }
    }

    /// Its answer has not come in time.
    pub fn is_late(&self, now_ms: u64) -> bool {
        is_late(now_ms, self.at_ms, RESEND_MS << self.again.min(DOUBLED_MAX))
    }

    /// The same; and if so, it is sent again now.
    pub fn repeats(&mut self, now_ms: u64) -> bool {
        let late = self.is_late(now_ms);
        if late {
            *self = Sent { at_ms: now_ms, again: self.again + 1 };
        }
        late
    }
}

/// What was sent then has waited for too long. A clock that has stepped back says nothing of how long ago that
/// was, so then it has.
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
    /// Begins a transaction; what comes of it is told under `tag`.
    fn begin(
        &mut self,
        now_ms: u64,
        tag: u64,
        transaction: Self::Transaction,
        out: &mut Orders<Self::Request, Self::Done>,
    );
    fn on_reply(&mut self, now_ms: u64, reply: Self::Reply, out: &mut Orders<Self::Request, Self::Done>);
    /// Sends again what has waited for an answer for too long.
    fn on_timer(&mut self, now_ms: u64, out: &mut Orders<Self::Request, Self::Done>);
    /// What the next batch for that shard says.
    fn progress(&mut self, shard: ShardId) -> Self::Progress;
    fn on_epoch(&mut self, shard: ShardId, epoch: u64);
    /// Nothing is under way.
    fn is_idle(&self) -> bool;
    /// Some shard has forgotten it. Whoever drives it begins a new one, under a new id, and does not know what
    /// has become of what this one has under way.
    fn is_retired(&self) -> bool {
        false
    }
}

/// A coordinator that speaks with these shards.
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
    /// Takes what is done out of the orders and begins what follows it.
    fn go_on(&mut self, orders: &mut ClientOrders<S, Self>);
    /// They begin nothing more, and nothing of theirs is under way.
    fn have_ended(&mut self) -> bool {
        self.coordinator().is_idle()
    }
}

pub type ClientOrders<S, C> =
    Orders<<S as Shard>::Request, <<C as Clients<S>>::Coordinator as Coordinator>::Done>;

#[cfg(test)]
mod tests {
    use super::*;

    /// When something that is never answered goes out again, with a timer of 40 ms.
    fn repetitions(until_ms: u64, clock: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut sent = Sent::at(clock(0));
        (1..=until_ms / 40).map(|tick| tick * 40).filter(|now_ms| sent.repeats(clock(*now_ms))).collect()
    }

    #[test]
    fn patience_grows_to_a_bound() {
        let expected = [200, 600, 1_400, 3_000, 4_600, 6_200, 7_800, 9_400];
        assert_eq!(repetitions(10_000, |now_ms| now_ms), expected);
        // A clock that steps back says nothing of how long it has waited.
        let back = |now_ms| if now_ms < 720 { 100_000 + now_ms } else { now_ms };
        assert_eq!(repetitions(3_000, back), [200, 600, 720, 2_320]);
    }
}
