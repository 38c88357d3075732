//! Outgoing messages of a shard: those that depend on log records wait until the records are durable (soundness S16).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tracing::{info, warn};
use weir_core::history::Seen;
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::lsn::{HeldMessages, Lsn};
use weir_core::machine::{Effects, Exposed};
use weir_core::nearby::is_patient;

use super::log::{LogError, LogFigures};
use super::shard_log::{PartsTo, ShardLog};
use super::writer::{WriterHere, Written};

/// Approximate size of a part of a snapshot, in bytes.
const PART_BYTES: usize = 256 << 10;

/// A turn gives so much of its time to a snapshot.
const SNAPSHOT_SLICE: Duration = Duration::from_millis(2);

/// Messages that may leave.
pub(super) struct Leaving<S: Exposed> {
    pub replies: Vec<(CoordinatorId, S::Reply)>,
    pub peers: Vec<(ShardId, S::Request)>,
    /// Description after a schema change.
    pub description: Option<Arc<S::Description>>,
}

impl<S: Exposed> Default for Leaving<S> {
    fn default() -> Self {
        Leaving { replies: Vec::new(), peers: Vec::new(), description: None }
    }
}

impl<S: Exposed> Extend<Message<S>> for Leaving<S> {
    fn extend<M: IntoIterator<Item = Message<S>>>(&mut self, messages: M) {
        for message in messages {
            match message {
                Message::Reply(to, reply) => self.replies.push((to, reply)),
                Message::Peer(to, request) => self.peers.push((to, request)),
                Message::Description(description) => self.description = Some(description),
            }
        }
    }
}

/// A message that may have to wait for the log.
enum Message<S: Exposed> {
    Reply(CoordinatorId, S::Reply),
    Peer(ShardId, S::Request),
    /// For all clients.
    Description(Arc<S::Description>),
}

pub(super) struct Outbox<S: Exposed> {
    /// None: the shard has no log, and notes no records.
    writer: Option<ShardLog<S::Record>>,
    effects: Effects<S::Request, S::Reply>,
    /// Records of this turn.
    records: Vec<S::Record>,
    held: HeldMessages<Message<S>>,
    pub leaving: Leaving<S>,
    /// Number of snapshots begun; and the one that has not been passed to the log completely.
    snapshots: u64,
    snapshot: Option<Snapshot<S::Record>>,
    /// The log accepts no further part for now.
    snapshot_waits: bool,
    is_full: bool,
    /// The shard is the only one: nobody else's disk works while a thread writes to this one's.
    is_alone: bool,
    /// The thread that has this turn is to write the records.
    writes_here: bool,
    /// Known histories of other shards; change counter and time of the last notes passed to the log.
    seen: Arc<Seen>,
    given: (u64, Instant),
}

/// Time limit within which known histories are logged, if no records are.
const NOTED_AFTER: Duration = Duration::from_secs(1);

/// One that is being taken.
struct Snapshot<R> {
    parts: PartsTo<R>,
    next: Next<R>,
}

/// Next part of a snapshot for the log.
enum Next<R> {
    First,
    Another,
    /// This part, which was not accepted yet; and whether others follow.
    Waiting(Option<R>, bool),
    End,
}

/// Outcome of passing a part.
enum Put {
    Taken,
    /// Not now.
    Waits,
    /// It was the last one, or the snapshot is void.
    Over,
}

impl<R: Serialize> Snapshot<R> {
    fn go_on<S: Exposed<Record = R>>(&mut self, shard: &mut S) -> Put {
        let (part, has_more) = match std::mem::replace(&mut self.next, Next::End) {
            Next::Waiting(part, has_more) => (part, has_more),
            Next::End => (None, false),
            next => match shard.snapshot_part(matches!(next, Next::First), PART_BYTES) {
                Some((part, has_more)) => (Some(part), has_more),
                None => return Put::Over,
            },
        };
        let is_end = part.is_none();
        if let Err(part) = self.parts.put(part) {
            self.next = Next::Waiting(part, has_more);
            return Put::Waits;
        }
        self.next = if has_more { Next::Another } else { Next::End };
        if is_end { Put::Over } else { Put::Taken }
    }
}

impl<S> Outbox<S>
where
    S: Exposed,
    S::Record: Serialize + Send + 'static,
{
    pub(super) fn new(writer: Option<ShardLog<S::Record>>, is_alone: bool, seen: Arc<Seen>) -> Outbox<S> {
        Outbox {
            writer,
            effects: Effects::default(),
            records: Vec::new(),
            held: HeldMessages::default(),
            leaving: Leaving::default(),
            snapshots: 0,
            snapshot: None,
            snapshot_waits: false,
            is_full: false,
            is_alone,
            writes_here: false,
            seen,
            given: (0, Instant::now()),
        }
    }

    pub(super) fn step(&mut self, shard: &mut S, now_ms: u64, from: Sender, request: S::Request) {
        shard.step(now_ms, from, request, &mut self.effects);
        self.sort(shard);
    }

    pub(super) fn on_work_done(&mut self, shard: &mut S, now_ms: u64) {
        shard.on_work_done(now_ms, &mut self.effects);
        self.sort(shard);
    }

    pub(super) fn on_timer(&mut self, shard: &mut S, now_ms: u64) {
        shard.on_timer(now_ms, &mut self.effects);
        self.sort(shard);
        if let Some(writer) = self.writer.as_ref().filter(|_| self.is_full) {
            writer.look_for_room();
        }
        let (changes, since) = self.given;
        if let Some(writer) = &self.writer
            && changes != self.seen.changes()
            && since.elapsed() >= NOTED_AFTER
        {
            self.given = (self.seen.changes(), Instant::now());
            writer.note_down();
        }
    }

    /// Takes what the step has noted and sent. A message is held until the log is durable up to the position that it carries.
    fn sort(&mut self, shard: &mut S) {
        let records = shard.take_records();
        self.held.note(records.len());
        self.records.extend(records);
        let Outbox { effects: Effects { replies, peers }, held, leaving, .. } = self;
        let replies = replies.drain(..).map(|one| (one.after, Message::Reply(one.to, one.message)));
        let peers = peers.drain(..).map(|one| (one.after, Message::Peer(one.to, one.message)));
        let description = shard.take_description().map(|one| (held.noted(), Message::Description(one)));
        for (after, message) in replies.chain(peers).chain(description) {
            leaving.extend(held.hold(after, message));
        }
    }

    pub(super) fn log_figures(&self) -> Option<Arc<LogFigures>> {
        self.writer.as_ref().map(ShardLog::figures)
    }

    /// What is durable may be told: the shard is no member of a group, or its lease has not passed.
    pub(super) fn may_tell(&self) -> bool {
        self.writer.as_ref().is_none_or(ShardLog::may_tell)
    }

    /// A message that depends on the log up to there may leave.
    pub(super) fn is_durable_up_to(&self, after: Lsn) -> bool {
        self.held.may_leave(after)
    }

    /// All that the shard has wanted written down is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.held.is_durable()
    }

    /// Passes the records of this turn to the log, and reads its durable position.
    ///
    /// # Errors
    /// The log cannot be written any more: the shard must not answer from what it cannot write down.
    pub(super) fn write_down(&mut self, shard: &mut S) -> Result<(), LogError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        if !self.records.is_empty() {
            let records = std::mem::take(&mut self.records);
            let is_wanted = self.is_alone && is_patient() && records.iter().all(S::is_small);
            match writer.quick().filter(|_| is_wanted) {
                Some(writer) => {
                    writer.leave(records);
                    self.writes_here = true;
                }
                None => writer.append(records),
            }
        }
        let Written { durable, is_outgrown, snapshots, is_full } = writer.written()?;
        if durable > self.held.durable() {
            shard.on_durable(durable);
            self.leaving.extend(self.held.on_durable(durable));
        }
        if is_outgrown && self.snapshots == snapshots && shard.may_snapshot() {
            self.snapshots += 1;
            let parts = writer.begin_snapshot();
            let mut snapshot = Snapshot { parts, next: Next::First };
            // It is of this moment.
            self.snapshot = match snapshot.go_on(shard) {
                Put::Over => None,
                Put::Taken | Put::Waits => Some(snapshot),
            };
        }
        if is_full != self.is_full {
            self.is_full = is_full;
            shard.set_disk_full(is_full);
            match is_full {
                true => warn!(
                    shard = shard.id(),
                    "no room for the log: writes are refused (53100) until there is, reads go on"
                ),
                false => info!(shard = shard.id(), "there is room for the log again: writes are taken"),
            }
        }
        // The writer may have accepted a part.
        self.snapshot_waits = false;
        Ok(())
    }

    /// Returns whether the thread that has this turn is to write the records at its end ([`Outbox::writer_here`]).
    pub(super) fn take_writes_here(&mut self) -> bool {
        std::mem::take(&mut self.writes_here)
    }

    pub(super) fn writer_here(&self) -> Option<WriterHere<S::Record>> {
        self.writer.as_ref().and_then(ShardLog::here)
    }

    /// Continues a snapshot by one part, to leave time for requests.
    pub(super) fn go_on_with_snapshot(&mut self, shard: &mut S) {
        let Some(snapshot) = &mut self.snapshot else { return };
        let since = Instant::now();
        while since.elapsed() < SNAPSHOT_SLICE {
            match snapshot.go_on(shard) {
                Put::Taken => {}
                Put::Waits => {
                    self.snapshot_waits = true;
                    return;
                }
                Put::Over => {
                    shard.end_snapshot();
                    self.snapshot = None;
                    return;
                }
            }
        }
    }

    /// There is more of a snapshot to be taken.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.snapshot.is_some() && !self.snapshot_waits
    }

    /// Writes what has been noted, and ends.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(&mut self) -> Result<(), LogError> {
        self.snapshot = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        if !self.records.is_empty() {
            writer.append(std::mem::take(&mut self.records));
        }
        writer.finish()
    }
}
