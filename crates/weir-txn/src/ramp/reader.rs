//! The coordinator's side of a read over several shards (ramp.txt, Algorithm 1, GET_ALL; S5).
//!
//! Round one asks every shard; each answers with its rows, its position, and the transactions that its
//! state contains and that may not be everywhere yet. If some shard's state lacks one of those, round two
//! asks it for exactly its first state plus the missing ones. Readers never wait for writers.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_types::Value;

use super::message::{ReadQuery, Reply, Request, ShardId, Sibling, TxnId};
use crate::storage::Position;

#[derive(Debug)]
pub struct Read {
    read: TxnId,
    queries: BTreeMap<ShardId, Arc<ReadQuery>>,
    answers: BTreeMap<ShardId, Answer>,
    waiting: usize,
    /// Message delays so far.
    pub rounds: u32,
    /// Rows that shards looked at so far.
    pub examined: usize,
}

#[derive(Debug)]
struct Answer {
    position: Position,
    rows: Vec<Vec<Vec<Value>>>,
    siblings: Vec<Sibling>,
}

#[derive(Debug)]
pub enum ReadAction {
    Send(ShardId, Request),
    /// By shard, as [`super::message::Reply::ReadRows`] has them.
    Done(Vec<(ShardId, Vec<Vec<Vec<Value>>>)>),
    /// A shard has forgotten the position: begin again under a new id.
    Again,
}

impl Read {
    pub fn begin(read: TxnId, queries: BTreeMap<ShardId, Arc<ReadQuery>>, out: &mut Vec<ReadAction>) -> Read {
        for (&shard, query) in &queries {
            out.push(ReadAction::Send(shard, Request::Read { read, query: query.clone() }));
        }
        Read { read, waiting: queries.len(), queries, answers: BTreeMap::new(), rounds: 1, examined: 0 }
    }

    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<ReadAction>) {
        match reply {
            Reply::ReadRows { shard, position, rows, examined, siblings, .. } => {
                self.examined += examined;
                match self.answers.get_mut(&shard) {
                    // Round two: the siblings of round one have done their work.
                    Some(answer) => answer.rows = rows,
                    None => drop(self.answers.insert(shard, Answer { position, rows, siblings })),
                }
                self.waiting -= 1;
                if self.waiting == 0 {
                    self.on_round(out);
                }
            }
            Reply::ReadAgain { .. } => {
                self.end(out);
                out.push(ReadAction::Again);
            }
            other => unreachable!("a read got {other:?}"),
        }
    }

    fn on_round(&mut self, out: &mut Vec<ReadAction>) {
        let missing = if self.rounds == 1 { self.missing() } else { BTreeMap::new() };
        if missing.is_empty() {
            self.end(out);
            let answers = std::mem::take(&mut self.answers);
            out.push(ReadAction::Done(
                answers.into_iter().map(|(shard, answer)| (shard, answer.rows)).collect(),
            ));
            return;
        }
        self.rounds = 2;
        self.waiting = missing.len();
        for (shard, including) in missing {
            let (query, position) = (self.queries[&shard].clone(), self.answers[&shard].position);
            out.push(ReadAction::Send(
                shard,
                Request::ReadAt { read: self.read, query, position, including },
            ));
        }
    }

    /// By shard: what others' states contain and its own does not (as far as is known).
    fn missing(&self) -> BTreeMap<ShardId, Vec<Sibling>> {
        let mut missing: BTreeMap<ShardId, Vec<Sibling>> = BTreeMap::new();
        for answer in self.answers.values() {
            for sibling in &answer.siblings {
                for shard in sibling.participants.iter() {
                    let Some(own) = self.answers.get(shard) else { continue };
                    let list = missing.entry(*shard).or_default();
                    if !own.siblings.contains(sibling) && !list.contains(sibling) {
                        list.push(sibling.clone());
                    }
                }
            }
        }
        missing.retain(|_, siblings| !siblings.is_empty());
        missing
    }

    fn end(&self, out: &mut Vec<ReadAction>) {
        for &shard in self.queries.keys() {
            out.push(ReadAction::Send(shard, Request::EndRead { read: self.read }));
        }
    }
}
