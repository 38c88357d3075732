//! Snapshots at a shard (docs/internals/snapshots.md): a state that many reads see, regardless of later commits.
//!
//! A *cut* is a snapshot whose position the shard has reported. The shard holds back its messages until it learns what to keep, or until
//! the cut ends. So no party acts on a change outside the cut before all other shards have reported their positions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, Position, ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::Outgoing;
use weir_core::participant::Transactions as _;
use weir_types::{SqlError, SqlState};

use super::reads::Fetched;
use super::workers::Answer;
use crate::faults::Faults;
use crate::message::{ReadQuery, Reply, Request, Sibling, forgotten_snapshot, schema_has_changed};
use crate::shard::node::{Effects, Node};
use crate::storage::Write;

/// Limits of the history kept for one snapshot: number of changes, and their bytes.
pub(crate) const CHANGES_MAX: u64 = 1 << 20;
const BYTES_MAX: usize = 256 << 20;

/// A snapshot without a keep-alive for this long is forgotten.
const SILENCE_MS_MAX: u64 = 60_000;

/// Longest time for which messages are held back; short enough that transactions of dead coordinators are still resolved within two
/// time-outs of a second.
const HOLD_MS_MAX: u64 = 500;

/// A waiting cut that is not requested again for this long is dropped.
const WAIT_MS_MAX: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    cut: Option<Cut>,
    /// Cuts that wait for the current one, each with the shard's age when it was requested last.
    waiting: VecDeque<(u64, Request)>,
    held: Held,
    snapshots: BTreeMap<TxnId, Snapshot>,
}

#[derive(Debug)]
struct Cut {
    read: TxnId,
    /// Position of the shard; no message has been sent since.
    position: Position,
    /// Age of the shard when the cut began.
    began_ms: u64,
}

/// Messages held back since the cut.
#[derive(Debug, Default)]
struct Held {
    replies: Vec<Outgoing<CoordinatorId, Reply>>,
    peers: Vec<Outgoing<ShardId, Request>>,
}

#[derive(Debug)]
enum Snapshot {
    Kept(Kept),
    /// Error for its reads.
    Gone(SqlError),
}

#[derive(Debug)]
struct Kept {
    position: Position,
    /// Transactions in the snapshot that became visible on this shard after `position`.
    missing: Arc<[Missing]>,
    /// Oldest history to keep: `position`, or an earlier prepare of a missing transaction.
    needs: Position,
    /// Age of the shard at the last message about the snapshot.
    heard_ms: u64,
    /// Bytes of the changes from `needs` up to the position in the second field.
    bytes: (usize, Position),
}

/// A transaction to be added to the state at an older position.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) writes: Arc<[Write]>,
    pub(crate) timestamp: Timestamp,
    pub(crate) prepared_at: Position,
}

impl Snapshots {
    /// Oldest position that a snapshot needs.
    pub(crate) fn oldest(&self) -> Option<Position> {
        let needs = |snapshot: &Snapshot| match snapshot {
            Snapshot::Kept(kept) => Some(kept.needs),
            Snapshot::Gone(_) => None,
        };
        self.snapshots.values().filter_map(needs).min()
    }

    /// Position of a snapshot, and whether transactions are missing there.
    pub(crate) fn kept_at(&self, snapshot: TxnId) -> Option<(Position, bool)> {
        match self.snapshots.get(&snapshot)? {
            Snapshot::Kept(kept) => Some((kept.position, !kept.missing.is_empty())),
            Snapshot::Gone(_) => None,
        }
    }

    /// Position of the newest snapshot that is kept.
    fn newest(&self) -> Option<Position> {
        let position = |snapshot: &Snapshot| match snapshot {
            Snapshot::Kept(kept) => Some(kept.position),
            Snapshot::Gone(_) => None,
        };
        self.snapshots.values().filter_map(position).max()
    }

    /// Drops all snapshots: no read goes back to a state before a schema change.
    pub(crate) fn on_definition(&mut self) {
        for snapshot in self.snapshots.values_mut() {
            *snapshot = Snapshot::Gone(schema_changed());
        }
    }
}

impl<F: Faults> Node<F> {
    /// Reports the shard's position, and holds back later messages.
    pub(crate) fn on_cut(&mut self, read: TxnId, session: u64, schema_version: u64, out: &mut Effects) {
        let holds_another = self.snapshots.cut.as_ref().is_some_and(|cut| cut.read != read);
        let age_ms = self.participant.readers.age_ms();
        if holds_another {
            let waiting = &mut self.snapshots.waiting;
            return match waiting.iter_mut().find(|(_, one)| one.txn() == read) {
                Some((came_ms, _)) => *came_ms = age_ms,
                None => waiting.push_back((age_ms, Request::OpenSnapshot { read, session, schema_version })),
            };
        }
        if !self.knows_reader(read, session, out) {
            return self.end_cut(read, out);
        }
        if let Err(error) = self.check_schema_version(schema_version) {
            self.refuse_read(read, error, out);
            return self.end_cut(read, out);
        }
        let position = self.cut_position();
        let undecided = self.participant.oldest_prepare().unwrap_or(position);
        self.readers.entry(read).or_insert(position.min(undecided));
        if !self.bugs.holds_nothing_back() && self.snapshots.cut.is_none() {
            self.snapshots.cut = Some(Cut { read, position, began_ms: age_ms });
        }
        let siblings = if self.bugs.no_siblings() { Vec::new() } else { self.siblings() };
        self.reply(read, self.told(read, 1, position, siblings), out);
    }

    /// Position of a cut: that of the shard, so that all that was acknowledged before is in the snapshot.
    fn cut_position(&self) -> Position {
        let stale = if self.bugs.cut_is_stale() { self.snapshots.newest() } else { None };
        stale.unwrap_or_else(|| self.storage.position())
    }

    fn told(&self, read: TxnId, round: u32, position: Position, siblings: Vec<Sibling>) -> Reply {
        let (shard, rows, examined) = (self.shard, Vec::new(), 0);
        Reply::ReadRows { read, shard, round, position, rows, examined, siblings }
    }

    /// Keeps the state at `position` plus the named transactions readable; those not committed here yet are committed first.
    pub(crate) fn on_keep(
        &mut self,
        (read, session): (TxnId, u64),
        position: Position,
        including: Vec<Sibling>,
        out: &mut Effects,
    ) {
        match self.snapshots.snapshots.get(&read) {
            Some(Snapshot::Kept(_)) => {
                return self.reply(read, self.told(read, 2, position, Vec::new()), out);
            }
            Some(Snapshot::Gone(why)) => {
                let why = why.clone();
                return self.refuse_read(read, why, out);
            }
            None => {}
        }
        let cut = self.snapshots.cut.as_ref().filter(|cut| cut.read == read);
        let has_held_back = cut.is_some_and(|cut| cut.position <= position) || self.bugs.holds_nothing_back();
        self.end_cut(read, out);
        if !self.knows_reader(read, session, out) {
            return;
        }
        let reachable = self.storage.history_begins()..=self.storage.position();
        if !has_held_back || !self.readers.contains_key(&read) || !reachable.contains(&position) {
            // A late repetition may have registered a reader.
            self.readers.remove(&read);
            return self.read_again(read, out);
        }
        let missing = self.commit_missing(position, including);
        if self.readers.remove(&read).is_none() {
            // One of the named transactions has changed the schema.
            return self.refuse_read(read, schema_has_changed(), out);
        }
        let Some(missing) = missing else { return self.read_again(read, out) };
        let prepared = missing.iter().map(|one| one.prepared_at);
        let needs = prepared.fold(position, Position::min);
        let heard_ms = self.participant.readers.age_ms();
        let kept = Kept { position, missing: missing.into(), needs, heard_ms, bytes: (0, needs) };
        self.snapshots.snapshots.insert(read, Snapshot::Kept(kept));
        // The reply depends on all records written so far, so the snapshot is durable before it is read.
        self.reply(read, self.told(read, 2, position, Vec::new()), out);
    }

    /// Commits the named transactions that are not committed here yet. Returns those missing from the state at `position`, in order. None
    /// if the writes of one are gone: they were dropped when a silent reader was expired and a late repetition of its first round has
    /// registered it again, or the schema has changed.
    pub(crate) fn commit_missing(
        &mut self,
        position: Position,
        including: Vec<Sibling>,
    ) -> Option<Vec<Missing>> {
        let (mut missing, mut are_known) = (Vec::new(), true);
        for sibling in including {
            match self.has_voted_for(sibling.txn) {
                true => self.commit_voted(sibling.txn, sibling.timestamp),
                false => drop(self.commit(sibling.txn, sibling.timestamp)),
            }
            match self.participant.committed().get(&sibling.txn) {
                Some(unsettled) if unsettled.position > position => match unsettled.writes.clone() {
                    Some(writes) => {
                        let (timestamp, prepared_at) = (unsettled.timestamp, unsettled.prepared_at);
                        missing.push(Missing { writes, timestamp, prepared_at });
                    }
                    None => are_known = false,
                },
                // Contained in the state already, or settled before this read began.
                _ => {}
            }
        }
        missing.sort_by_key(|one| one.timestamp);
        are_known.then_some(missing)
    }

    pub(crate) fn on_read_kept(
        &mut self,
        read: TxnId,
        snapshot: TxnId,
        query: &Arc<ReadQuery>,
        out: &mut Effects,
    ) {
        let heard_ms = self.participant.readers.age_ms();
        let (position, missing) = match self.snapshots.snapshots.get_mut(&snapshot) {
            Some(Snapshot::Kept(kept)) => {
                kept.heard_ms = heard_ms;
                (kept.position, kept.missing.clone())
            }
            Some(Snapshot::Gone(why)) => {
                let why = why.clone();
                return self.refuse_read(read, why, out);
            }
            None => return self.refuse_read(read, forgotten_snapshot(), out),
        };
        if self.is_late_read((read, 1), query, out) {
            return;
        }
        let fetched = match self.bugs.snapshot_advances() {
            true => self.fetch_within(None, query, false),
            false => self.fetch_at(position, &missing, None, query),
        };
        let (rows, examined) = match fetched {
            Ok(Fetched::Rows(found)) => found,
            Ok(Fetched::Long(changed)) => {
                // The snapshot was durable when it was kept.
                let answer = Answer {
                    read,
                    round: 1,
                    position,
                    siblings: Vec::new(),
                    after: Lsn::START,
                    is_streamed: false,
                };
                return self.read_beside(answer, changed, None, query, out);
            }
            Err(error) => return self.refuse_read(read, error, out),
        };
        // The snapshot was durable when it was kept.
        let (shard, siblings) = (self.shard, Vec::new());
        let reply = Reply::ReadRows { read, shard, round: 1, position, rows, examined, siblings };
        self.reply_from_rows(read, reply, out);
    }

    pub(crate) fn on_still_read(&mut self, snapshot: TxnId) {
        let heard_ms = self.participant.readers.age_ms();
        if let Some(Snapshot::Kept(kept)) = self.snapshots.snapshots.get_mut(&snapshot) {
            kept.heard_ms = heard_ms;
        }
    }

    pub(crate) fn on_end_snapshot(&mut self, snapshot: TxnId, out: &mut Effects) {
        self.snapshots.snapshots.remove(&snapshot);
        self.snapshots.waiting.retain(|(_, one)| one.txn() != snapshot);
        self.readers.remove(&snapshot);
        self.end_cut(snapshot, out);
    }

    /// Ends a cut: sends the messages held back for it, and begins the next waiting cut.
    fn end_cut(&mut self, read: TxnId, out: &mut Effects) {
        if self.snapshots.cut.take_if(|cut| cut.read == read).is_none() {
            return;
        }
        let Held { replies, peers } = std::mem::take(&mut self.snapshots.held);
        out.replies.extend(replies);
        out.peers.extend(peers);
        while let Some((_, next)) = self.snapshots.waiting.pop_front() {
            if let Request::OpenSnapshot { read, session, schema_version } = next {
                self.on_cut(read, session, schema_version, out);
            }
            if self.snapshots.cut.is_some() {
                return;
            }
        }
    }

    /// A snapshot of all shards is being taken: replies are held back.
    pub(crate) fn is_cutting(&self) -> bool {
        self.snapshots.cut.is_some()
    }

    /// Moves the messages that this step has added to the held ones, except the reply to the cut's own coordinator.
    pub(crate) fn hold_back(&mut self, (replies, peers): (usize, usize), out: &mut Effects) {
        let Snapshots { cut: Some(cut), held, .. } = &mut self.snapshots else { return };
        held.replies.extend(out.replies.extract_if(replies.., |one| one.message.txn() != cut.read));
        held.peers.extend(out.peers.drain(peers..));
    }

    /// Drops snapshots that exceed the limits.
    pub(crate) fn bound_snapshots(&mut self, out: &mut Effects) {
        let age_ms = self.participant.readers.age_ms();
        let late = self.snapshots.cut.as_ref().filter(|cut| age_ms - cut.began_ms >= HOLD_MS_MAX);
        if let Some(read) = late.map(|cut| cut.read) {
            self.snapshots.waiting.retain(|(came_ms, _)| age_ms - came_ms < WAIT_MS_MAX);
            self.readers.remove(&read);
            self.end_cut(read, out);
        }
        if self.snapshots.snapshots.is_empty() {
            return;
        }
        let end = self.storage.position();
        self.snapshots.snapshots.retain(|_, snapshot| {
            let Snapshot::Kept(kept) = snapshot else { return true };
            let (bytes, measured) = &mut kept.bytes;
            *bytes += self.storage.history_bytes(*measured);
            *measured = end;
            let is_old = end - kept.needs > CHANGES_MAX || *bytes > BYTES_MAX;
            let is_read = age_ms - kept.heard_ms < SILENCE_MS_MAX;
            if is_old {
                *snapshot = Snapshot::Gone(too_old());
            }
            is_read
        });
    }
}

pub(crate) fn too_old() -> SqlError {
    let message = "snapshot too old: too much has been written since it was taken";
    SqlError::new(SqlState::SNAPSHOT_TOO_OLD, message).with_hint("Try it again, when less is written.")
}

fn schema_changed() -> SqlError {
    let message = "the schema has changed since the transaction's snapshot was taken";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try it again.")
}
