//! The coordinator's side of a read over several shards (ramp.txt, Algorithm 1, GET_ALL; S5).
//!
//! Round one asks every shard; each answers with its rows, its position, and the transactions that its
//! state contains and that may not be everywhere yet. If some shard's state lacks one of those, round two
//! asks it for exactly its first state plus the missing ones. Readers never wait for writers.
//!
//! Shards that run for long say so when they begin, so it may be known what is missing while they still run. Then round two asks each
//! shard once that has answered round one, while others still run.

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
    /// Shards that have not answered what they were asked last.
    pending: BTreeMap<ShardId, Asked>,
    /// Shards that round two asks once they have answered round one. None: it is not known yet which.
    again: Option<BTreeMap<ShardId, Vec<Sibling>>>,
    /// All runs that are part of the result have begun, or have ended. All rows are in queues, or will be.
    is_settled: bool,
    /// Number of message rounds so far.
    pub rounds: u32,
    /// Number of rows examined by the shards so far.
    pub examined: usize,
}

/// Last request to a shard.
#[derive(Debug, Default)]
struct Asked {
    round: u32,
    /// In round two: siblings that it must add.
    including: Vec<Sibling>,
}

impl Asked {
    fn first() -> Asked {
        Asked { round: 1, including: Vec::new() }
    }
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
        let pending = queries.keys().take(1).map(|shard| (*shard, Asked::first())).collect();
        let (purpose, within, again, is_settled) = (Purpose::Snapshot, None, None, false);
        let begun = Read {
            read,
            purpose,
            within,
            queries,
            answers,
            pending,
            again,
            is_settled,
            rounds: 1,
            examined: 0,
        };
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
        let pending = queries.keys().map(|shard| (*shard, Asked::first())).collect();
        let mut begun = Read {
            read,
            purpose,
            within,
            queries,
            answers: BTreeMap::new(),
            pending,
            again: None,
            is_settled: false,
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

    /// Returns whether no shard is asked for a state any more: all runs that are part of the result have begun.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Sends all unanswered requests (again).
    pub fn send(&self, out: &mut Vec<ReadAction>) {
        for (&shard, asked) in &self.pending {
            self.send_to(shard, asked, out);
        }
    }

    fn send_to(&self, shard: ShardId, Asked { round, including }: &Asked, out: &mut Vec<ReadAction>) {
        let read = self.read;
        let within = self.within.as_ref().and_then(|(txn, open)| {
            open.iter().find(|(of, _)| *of == shard).map(|(_, opened)| (*txn, *opened))
        });
        let (query, session) = self.queries[&shard].clone();
        let at = || (self.answers[&shard].position, including.clone());
        let request = match (self.purpose, round) {
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

    /// Returns whether the reply says something new.
    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<ReadAction>) -> bool {
        match reply {
            Reply::ReadRows { shard, round, position, rows, examined, siblings, .. } => {
                // Repeated answers are equivalent, but only the first one has been used.
                if !self.awaits(shard, round) || self.is_streamed_in(shard, round) {
                    return false;
                }
                match self.answers.get_mut(&shard) {
                    // Round two: the siblings of round one are no longer needed.
                    Some(answer) => (answer.rows, answer.streamed_in) = (rows, 0),
                    None => {
                        drop(self.answers.insert(shard, Answer { position, rows, siblings, streamed_in: 0 }))
                    }
                }
                self.note_ended(shard, examined);
                self.on_begun(out);
                self.go_on(shard, out);
            }
            Reply::ReadStreams { shard, round, position, siblings, ended, .. } => {
                if !self.awaits(shard, round) || ended.is_none() && self.is_streamed_in(shard, round) {
                    return false;
                }
                self.note_streams(shard, Answer { position, rows: Vec::new(), siblings, streamed_in: round });
                if let Some(examined) = ended {
                    self.note_ended(shard, examined);
                }
                self.on_begun(out);
                if ended.is_some() {
                    self.go_on(shard, out);
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
        true
    }

    /// Returns whether the shard has said that it runs that round.
    fn is_streamed_in(&self, shard: ShardId, round: u32) -> bool {
        self.answers.get(&shard).is_some_and(|answer| answer.streamed_in == round)
    }

    /// Returns whether the shard has not answered that round, in which it was asked last.
    fn awaits(&self, shard: ShardId, round: u32) -> bool {
        self.pending.get(&shard).is_some_and(|asked| asked.round == round)
    }

    /// The shard runs a round, and puts its rows into its queue.
    fn note_streams(&mut self, shard: ShardId, answer: Answer) {
        let round = answer.streamed_in;
        let known = self.answers.entry(shard).or_insert(answer);
        if known.streamed_in != round {
            // Round two: its rows replace those of round one.
            (known.rows, known.streamed_in) = (Vec::new(), round);
        }
    }

    /// A shard has begun a round, or answered it.
    fn on_begun(&mut self, out: &mut Vec<ReadAction>) {
        if self.is_settled || self.answers.values().all(|answer| answer.streamed_in == 0) {
            return;
        }
        if self.purpose == Purpose::Rows && self.again.is_none() {
            if self.answers.len() < self.queries.len() {
                return;
            }
            self.begin_round_two(out);
        }
        let last: Vec<ShardId> = self.queries.keys().copied().filter(|shard| self.has_last(*shard)).collect();
        for shard in &last {
            let Some((queue, answer)) =
                self.queries.get(shard).and_then(|(query, _)| query.queue()).zip(self.answers.get_mut(shard))
            else {
                continue;
            };
            match answer.streamed_in {
                // All rows come through the queues if some do.
                0 => queue.give(answer.rows.iter_mut().flat_map(std::mem::take).collect()),
                _ => queue.open(),
            }
        }
        self.is_settled = last.len() == self.queries.len();
        if self.is_settled {
            last.iter().find_map(|shard| self.queue(*shard)).into_iter().for_each(RowQueue::settle);
        }
    }

    /// All shards have begun or answered round one, so it is known what is missing. Those that have answered are asked again at once, the
    /// others once they have.
    fn begin_round_two(&mut self, out: &mut Vec<ReadAction>) {
        let missing = self.missing();
        missing.keys().filter_map(|shard| self.queue(*shard)).for_each(RowQueue::drop_rows);
        let answered: Vec<ShardId> =
            missing.keys().filter(|shard| !self.pending.contains_key(shard)).copied().collect();
        self.again = Some(missing);
        for shard in answered {
            self.ask_again(shard, out);
        }
    }

    /// Returns whether the last run of the shard has begun, or has ended: no other one replaces its rows.
    fn has_last(&self, shard: ShardId) -> bool {
        let is_asked_again = self.again.as_ref().is_some_and(|again| again.contains_key(&shard));
        let Some(answer) = self.answers.get(&shard).filter(|_| !is_asked_again) else { return false };
        self.pending.get(&shard).is_none_or(|asked| answer.streamed_in == asked.round)
    }

    /// Returns whether round two asks the shard, which has answered round one.
    fn ask_again(&mut self, shard: ShardId, out: &mut Vec<ReadAction>) -> bool {
        let Some(including) = self.again.as_mut().and_then(|again| again.remove(&shard)) else {
            return false;
        };
        self.rounds = 2;
        let asked = Asked { round: 2, including };
        self.send_to(shard, &asked, out);
        self.pending.insert(shard, asked);
        true
    }

    /// The shard has answered what it was asked.
    fn note_ended(&mut self, shard: ShardId, examined: usize) {
        self.pending.remove(&shard);
        self.examined += examined;
        if self.answers.get(&shard).is_some_and(|answer| answer.streamed_in > 0) {
            self.queue(shard).into_iter().for_each(RowQueue::end);
        }
    }

    /// The shard has answered: it is asked again, or the round may be over.
    fn go_on(&mut self, shard: ShardId, out: &mut Vec<ReadAction>) {
        if !self.ask_again(shard, out) && self.pending.is_empty() {
            self.on_round(out);
        }
    }

    /// Returns why its rows cannot come through the query's stream.
    fn assign_queues(&self) -> Option<SqlError> {
        let queues = || self.queries.values().filter_map(|(query, _)| query.queue());
        let count = queues().count();
        queues().find_map(|queue| queue.assign(self.read, count).err())
    }

    fn queue(&self, shard: ShardId) -> Option<&RowQueue> {
        self.queries.get(&shard)?.0.queue()
    }

    fn on_round(&mut self, out: &mut Vec<ReadAction>) {
        let is_first = self.rounds == 1 && self.again.is_none();
        let mut missing = if is_first { self.missing() } else { BTreeMap::new() };
        if self.purpose == Purpose::Snapshot && is_first {
            let others = self.queries.keys().filter(|shard| !self.answers.contains_key(shard));
            self.pending = others.map(|shard| (*shard, Asked::first())).collect();
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
        let asked = |(shard, including)| (shard, Asked { round: 2, including });
        self.pending = missing.into_iter().map(asked).collect();
        self.again = Some(BTreeMap::new());
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

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use weir_core::ids::Timestamp;
    use weir_sql::Text;
    use weir_types::datetime::TransactionTime;

    use super::*;
    use crate::message::PartsRead;
    use crate::stream::{Row, RowStream};

    const READ: TxnId = TxnId { coordinator: 1, sequence: 7 };

    /// A read of three shards whose rows come through a stream, and what it does.
    struct Conversation {
        stream: Arc<RowStream>,
        read: Read,
        out: Vec<ReadAction>,
    }

    impl Conversation {
        fn begin() -> Conversation {
            let stream = Arc::new(RowStream::default());
            let query = |shard| {
                let queue = Some(RowQueue::new(stream.clone(), shard));
                let text = Arc::new(Text { sql: String::new(), types: Vec::new() });
                let (transaction_time, memory) = (TransactionTime::default(), Default::default());
                let parts = PartsRead {
                    text,
                    values: Vec::new(),
                    parts: vec![0],
                    transaction_time,
                    memory,
                    stream: queue,
                };
                Arc::new(ReadQuery { tables: Vec::new(), parts: Some(Box::new(parts)), schema_version: 1 })
            };
            let mut out = Vec::new();
            let queries = (0..3).map(|shard| (shard, query(shard))).collect();
            let read = Read::begin(READ, None, queries, |_| 0, &mut out);
            let mut one = Conversation { stream, read, out };
            assert_eq!(one.asked(), [(0, 1), (1, 1), (2, 1)]);
            one
        }

        /// Shards that have been asked since the last look, each with the round.
        fn asked(&mut self) -> Vec<(ShardId, u32)> {
            let round = |action: ReadAction| match action {
                ReadAction::Send(shard, Request::Read { .. }) => Some((shard, 1)),
                ReadAction::Send(shard, Request::ReadAt { .. }) => Some((shard, 2)),
                _ => None,
            };
            self.out.drain(..).filter_map(round).collect()
        }

        fn queue(&self, shard: ShardId) -> RowQueue {
            RowQueue::new(self.stream.clone(), shard)
        }

        fn streams(&mut self, shard: ShardId, round: u32, siblings: Vec<Sibling>, ended: bool) {
            if !ended {
                self.queue(shard).begin((READ, round));
            }
            let ended = ended.then_some(1);
            let begun = Reply::ReadStreams { read: READ, shard, round, position: 3, siblings, ended };
            self.read.on_reply(begun, &mut self.out);
        }

        fn answers(&mut self, shard: ShardId, round: u32, siblings: Vec<Sibling>) {
            let rows = vec![vec![row(shard)]];
            let answer =
                Reply::ReadRows { read: READ, shard, round, position: 3, rows, examined: 1, siblings };
            self.read.on_reply(answer, &mut self.out);
        }

        fn is_settled(&self) -> bool {
            let mut context = Context::from_waker(Waker::noop());
            pin!(self.stream.settled()).poll(&mut context).is_ready()
        }

        fn taken(&self) -> usize {
            std::iter::from_fn(|| self.stream.take()).map(|rows| rows.len()).sum()
        }
    }

    fn row(shard: ShardId) -> Row {
        vec![Value::Int(i64::from(shard))]
    }

    fn of(participants: &[ShardId]) -> Sibling {
        let txn = TxnId { coordinator: 2, sequence: 1 };
        Sibling { txn, timestamp: Timestamp::default(), participants: participants.into() }
    }

    /// The rows of the first two shards are not taken: the third, whose state lacks a transaction, is asked again nevertheless.
    #[test]
    fn round_two_does_not_wait_for_those_who_still_run() {
        let mut one = Conversation::begin();
        one.streams(0, 1, vec![of(&[0, 2])], false);
        one.streams(2, 1, Vec::new(), false);
        assert!(!one.is_settled());
        one.streams(1, 1, Vec::new(), false);
        assert_eq!((one.asked(), one.is_settled()), (vec![], false), "the third shard has to end its run");
        assert!(one.queue(2).is_dropping((READ, 1)) && !one.queue(0).is_dropping((READ, 1)));
        one.streams(2, 1, Vec::new(), true);
        assert_eq!((one.asked(), one.is_settled()), (vec![(2, 2)], false));
        one.streams(2, 2, Vec::new(), false);
        assert!(one.is_settled() && one.read.is_settled());
        for shard in [0, 2, 1] {
            assert!(one.out.is_empty(), "it is not over");
            let round = if shard == 2 { 2 } else { 1 };
            one.streams(shard, round, Vec::new(), true);
        }
        assert!(matches!(one.out.pop(), Some(ReadAction::Done(_))));
    }

    /// A shard that has answered at once: its rows come through its queue, as the others' do.
    #[test]
    fn rows_of_answers_are_given_to_the_stream() {
        let mut one = Conversation::begin();
        one.streams(0, 1, vec![of(&[0, 2])], false);
        one.answers(2, 1, Vec::new());
        one.answers(1, 1, Vec::new());
        assert_eq!(one.asked(), [(2, 2)], "it has ended round one");
        assert_eq!((one.taken(), one.is_settled()), (1, false));
        one.answers(2, 2, Vec::new());
        assert_eq!((one.taken(), one.is_settled()), (1, true));
        one.streams(0, 1, Vec::new(), true);
        let done = one.out.pop();
        let Some(ReadAction::Done(answers)) = done else { panic!("{done:?}") };
        assert!(answers.iter().flat_map(|(_, parts)| parts).all(Vec::is_empty), "they are in the stream");
    }

    #[test]
    fn answers_alone_go_into_the_result() {
        let mut one = Conversation::begin();
        (0..3).for_each(|shard| one.answers(shard, 1, Vec::new()));
        assert!(matches!(one.out.pop(), Some(ReadAction::Done(answers)) if answers.len() == 3));
        assert!(one.taken() == 0 && !one.is_settled());
    }
}
