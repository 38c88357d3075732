//! The coordinator's side of a read over several shards (ramp.txt, Algorithm 1, GET_ALL; S5).
//!
//! Round one asks every shard; each answers with its rows, its position, and the transactions that its
//! state contains and that may not be everywhere yet. If some shard's state lacks one of those, round two
//! asks it for exactly its first state plus the missing ones. Readers never wait for writers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use weir_core::ids::{Position, ShardId, TxnId};
use weir_types::{SqlError, Value};

use crate::message::{ReadQuery, Reply, Request, Sibling, too_large};
use crate::stream::RowQueue;

/// An open transaction, and the shards on which it has worked.
pub type Within = (TxnId, Vec<(ShardId, u64)>);

/// Result that a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Rows.
    Rows,
    /// A snapshot of all shards, under its own name (docs/internals/snapshots.md).
    Snapshot,
    /// Rows at that snapshot, in one round.
    RowsOf(TxnId),
}

#[derive(Debug)]
pub struct Read {
    read: TxnId,
    purpose: Purpose,
    /// Open transaction that the read is a statement of, and the shards on which that has worked.
    within: Option<Within>,
    /// Query of each shard, with the reader's session there.
    queries: BTreeMap<ShardId, (Arc<ReadQuery>, u64)>,
    answers: BTreeMap<ShardId, Answer>,
    /// Shards that have not answered the current round; in round two with the siblings that they must add.
    pending: BTreeMap<ShardId, Vec<Sibling>>,
    /// Number of message rounds so far.
    pub rounds: u32,
    /// Number of rows examined by the shards so far.
    pub examined: usize,
}

#[derive(Debug)]
struct Answer {
    position: Position,
    rows: Vec<Vec<Vec<Value>>>,
    siblings: Vec<Sibling>,
    /// Round whose rows come through a queue; 0: none.
    streamed_in: u32,
}

#[derive(Debug)]
pub enum ReadAction {
    Send(ShardId, Request),
    /// Rows by shard, in the form of [`super::message::Reply::ReadRows`].
    Done(Vec<(ShardId, Vec<Vec<Vec<Value>>>)>),
    /// The rows of a shard exceed a message, or the schema has changed.
    Failed(SqlError),
    /// A shard no longer has the history at the position: the read must begin again under a new id.
    Again,
}

impl ReadAction {
    pub(super) fn into_send(self) -> Option<(ShardId, Request)> {
        match self {
            ReadAction::Send(shard, request) => Some((shard, request)),
            ReadAction::Done(_) | ReadAction::Failed(_) | ReadAction::Again => None,
        }
    }
}

impl Read {
    /// Begins a snapshot of that schema version on all shards.
    pub fn begin_snapshot(
        read: TxnId,
        schema_version: u64,
        sessions: &[u64],
        out: &mut Vec<ReadAction>,
    ) -> Read {
        let nothing = Arc::new(ReadQuery { tables: Vec::new(), parts: None, schema_version });
        let queries = (0..).zip(sessions).map(|(shard, session)| (shard, (nothing.clone(), *session)));
        let (queries, answers): (BTreeMap<_, _>, _) = (queries.collect(), BTreeMap::new());
        // Asks the first shard alone at first: if several snapshots begin at once, one of them proceeds.
        let pending = queries.keys().take(1).map(|shard| (*shard, Vec::new())).collect();
        let purpose = Purpose::Snapshot;
        let begun = Read { read, purpose, within: None, queries, answers, pending, rounds: 1, examined: 0 };
        begun.send(out);
        begun
    }

    /// Begins a read of that snapshot.
    pub fn begin_at_snapshot(
        read: TxnId,
        snapshot: TxnId,
        queries: BTreeMap<ShardId, Arc<ReadQuery>>,
        out: &mut Vec<ReadAction>,
    ) -> Read {
        Read::begin_for(Purpose::RowsOf(snapshot), read, None, queries, |_| 0, out)
    }

    /// `session`: under which the reader is registered at each shard.
    pub fn begin(
        read: TxnId,
        within: Option<Within>,
        queries: BTreeMap<ShardId, Arc<ReadQuery>>,
        session: impl Fn(ShardId) -> u64,
        out: &mut Vec<ReadAction>,
    ) -> Read {
        Read::begin_for(Purpose::Rows, read, within, queries, session, out)
    }

    fn begin_for(
        purpose: Purpose,
        read: TxnId,
        within: Option<Within>,
        queries: BTreeMap<ShardId, Arc<ReadQuery>>,
        session: impl Fn(ShardId) -> u64,
        out: &mut Vec<ReadAction>,
    ) -> Read {
        let queries: BTreeMap<ShardId, (Arc<ReadQuery>, u64)> =
            queries.into_iter().map(|(shard, query)| (shard, (query, session(shard)))).collect();
        let pending = queries.keys().map(|shard| (*shard, Vec::new())).collect();
        let mut begun = Read {
            read,
            purpose,
            within,
            queries,
            answers: BTreeMap::new(),
            pending,
            rounds: 1,
            examined: 0,
        };
        if let Some(error) = begun.assign_queues() {
            out.push(ReadAction::Failed(error));
            return begun;
        }
        begun.send(out);
        if begun.pending.is_empty() {
            // The query reads no table.
            begun.on_round(out);
        }
        begun
    }

    /// Query that each shard was asked.
    pub fn queries(&self) -> BTreeMap<ShardId, Arc<ReadQuery>> {
        self.queries.iter().map(|(shard, (query, _))| (*shard, query.clone())).collect()
    }

    /// Sends all unanswered requests (again).
    pub fn send(&self, out: &mut Vec<ReadAction>) {
        let read = self.read;
        for (&shard, including) in &self.pending {
            let within = self.within.as_ref().and_then(|(txn, open)| {
                open.iter().find(|(of, _)| *of == shard).map(|(_, opened)| (*txn, *opened))
            });
            let (query, session) = self.queries[&shard].clone();
            let at = || (self.answers[&shard].position, including.clone());
            let request = match (self.purpose, self.rounds) {
                (Purpose::Rows, 1) => Request::Read { read, session, query, within },
                (Purpose::Rows, _) => {
                    let (position, including) = at();
                    Request::ReadAt { read, session, query, position, including, within }
                }
                (Purpose::Snapshot, 1) => {
                    Request::OpenSnapshot { read, session, schema_version: query.schema_version }
                }
                (Purpose::Snapshot, _) => {
                    let (position, including) = at();
                    Request::KeepSnapshot { read, session, position, including }
                }
                (Purpose::RowsOf(snapshot), _) => Request::ReadSnapshot { read, snapshot, query },
            };
            out.push(ReadAction::Send(shard, request));
        }
    }

    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<ReadAction>) {
        match reply {
            Reply::ReadRows { shard, round, position, rows, examined, siblings, .. } => {
                // Repeated answers are equivalent, but only the first one has been used.
                let is_streamed = |answer: &Answer| answer.streamed_in == round;
                if round != self.rounds
                    || !self.pending.contains_key(&shard)
                    || self.answers.get(&shard).is_some_and(is_streamed)
                {
                    return;
                }
                match self.answers.get_mut(&shard) {
                    // Round two: the siblings of round one are no longer needed.
                    Some(answer) => answer.rows = rows,
                    None => {
                        drop(self.answers.insert(shard, Answer { position, rows, siblings, streamed_in: 0 }))
                    }
                }
                self.open_queues();
                self.on_ended(shard, examined, out);
            }
            Reply::ReadStreams { shard, round, position, siblings, ended, .. } => {
                if round == self.rounds && self.pending.contains_key(&shard) {
                    self.on_streams(
                        shard,
                        Answer { position, rows: Vec::new(), siblings, streamed_in: round },
                    );
                    if let Some(examined) = ended {
                        self.on_ended(shard, examined, out);
                    }
                }
            }
            Reply::ReadAgain { .. } => {
                self.end(out);
                out.push(ReadAction::Again);
            }
            Reply::TooLarge { .. } => {
                self.end(out);
                out.push(ReadAction::Failed(too_large(false)));
            }
            Reply::Refused { error, .. } => {
                self.end(out);
                out.push(ReadAction::Failed(error));
            }
            other => unreachable!("a read got {other:?}"),
        }
    }

    /// The shard runs this round, and puts its rows into its queue.
    fn on_streams(&mut self, shard: ShardId, answer: Answer) {
        let round = answer.streamed_in;
        let known = self.answers.entry(shard).or_insert(answer);
        if known.streamed_in != round {
            // Round two: its rows replace those of round one.
            (known.rows, known.streamed_in) = (Vec::new(), round);
        }
        if self.purpose == Purpose::Rows && round == 1 {
            self.open_queues();
        } else if let Some(queue) = self.queue(shard) {
            // Round two is the last one, and a snapshot has no other.
            queue.open();
        }
    }

    /// The shard has answered this round.
    fn on_ended(&mut self, shard: ShardId, examined: usize, out: &mut Vec<ReadAction>) {
        self.pending.remove(&shard);
        self.examined += examined;
        if self.pending.is_empty() {
            self.on_round(out);
        }
    }

    /// Returns why its rows cannot come through the query's stream.
    fn assign_queues(&self) -> Option<SqlError> {
        let mut queues = self.queries.values().filter_map(|(query, _)| query.queue());
        queues.find_map(|queue| queue.assign(self.read).err())
    }

    fn queue(&self, shard: ShardId) -> Option<&RowQueue> {
        self.queries.get(&shard)?.0.queue()
    }

    /// Once all shards have begun or answered round one, it is known which of them round two asks. The rows of the others may be taken.
    fn open_queues(&self) {
        let has_all = self.answers.len() == self.queries.len();
        if self.rounds != 1 || !has_all || !self.answers.values().any(|answer| answer.streamed_in == 1) {
            return;
        }
        let missing = self.missing();
        for (shard, _) in self.answers.iter().filter(|(_, answer)| answer.streamed_in == 1) {
            match self.queue(*shard) {
                Some(queue) if missing.contains_key(shard) => queue.drop_rows(),
                Some(queue) => queue.open(),
                None => {}
            }
        }
    }

    fn on_round(&mut self, out: &mut Vec<ReadAction>) {
        let mut missing = if self.rounds == 1 { self.missing() } else { BTreeMap::new() };
        if self.purpose == Purpose::Snapshot && self.rounds == 1 {
            let others = self.queries.keys().filter(|shard| !self.answers.contains_key(shard));
            self.pending = others.map(|shard| (*shard, Vec::new())).collect();
            if !self.pending.is_empty() {
                return self.send(out);
            }
            // Shards that lack nothing must still be told to keep the cut: they hold back their messages until then.
            for shard in self.queries.keys() {
                missing.entry(*shard).or_default();
            }
        }
        if missing.is_empty() {
            if self.purpose != Purpose::Snapshot {
                self.end(out);
            }
            let answers = std::mem::take(&mut self.answers);
            out.push(ReadAction::Done(
                answers.into_iter().map(|(shard, answer)| (shard, answer.rows)).collect(),
            ));
            return;
        }
        self.rounds = 2;
        self.pending = missing;
        self.send(out);
    }

    /// Siblings by shard: transactions contained in another shard's state and, as far as known, not in its own.
    fn missing(&self) -> BTreeMap<ShardId, Vec<Sibling>> {
        // After a restart there may be thousands of siblings whose coordinators have not returned, so each is looked up in a hash set.
        let mut known: BTreeMap<ShardId, FxHashSet<TxnId>> = self
            .answers
            .iter()
            .map(|(shard, own)| (*shard, own.siblings.iter().map(|one| one.txn).collect()))
            .collect();
        let mut missing: BTreeMap<ShardId, Vec<Sibling>> = BTreeMap::new();
        for sibling in self.answers.values().flat_map(|answer| &answer.siblings) {
            for shard in sibling.participants.iter() {
                if known.get_mut(shard).is_some_and(|known| known.insert(sibling.txn)) {
                    missing.entry(*shard).or_default().push(sibling.clone());
                }
            }
        }
        missing
    }

    /// Ends the read: its shards need not keep history for it.
    pub fn end(&self, out: &mut Vec<ReadAction>) {
        let read = self.read;
        let over = match self.purpose {
            Purpose::Rows => Request::EndRead { read },
            Purpose::Snapshot => Request::EndSnapshot { snapshot: read },
            Purpose::RowsOf(_) => return,
        };
        out.extend(self.queries.keys().map(|shard| ReadAction::Send(*shard, over.clone())));
    }
}
