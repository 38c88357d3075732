//! A consistent state of all shards that an interactive transaction reads: later writers are excluded.
//!
//! This module only determines the state; reading items of it is round two of a read (`reader.rs`). The argument is in docs/internals/items.md;
//! positions and names are those of S5.

use std::collections::BTreeMap;

use weir_core::ids::ShardId;

use super::faults::Faults;
use super::message::{Participants, Position, Reply, Request, Shards, Stamp};
use super::partition::{Committed, Partition};

/// For each shard: the state at a position plus the named transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    shards: Vec<ShardCut>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardCut {
    /// Session under which the reader was registered at the shard's answer.
    pub session: u64,
    pub position: Position,
    pub naming: Vec<Stamp>,
}

impl Cut {
    pub fn of(&self, shard: ShardId) -> &ShardCut {
        &self.shards[usize::from(shard)]
    }

    /// Planted bug: transactions of one shard are not added to the others.
    pub fn forget_names(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.naming.clear());
    }
}

/// A cut that is being taken: every shard is asked once.
#[derive(Debug)]
pub struct Opening {
    /// Own transactions that the cut must contain, by shard.
    own: BTreeMap<ShardId, Vec<Stamp>>,
    asked: Vec<bool>,
    cut: Cut,
    named: BTreeMap<Stamp, Shards>,
    /// Some shard did not know the reader.
    again: bool,
}

/// State of an opening after an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened {
    Wait,
    Done(Cut),
    /// All have answered, and some did not know the reader.
    Again,
}

impl Opening {
    pub fn new(sessions: &[u64], own: BTreeMap<ShardId, Vec<Stamp>>) -> Opening {
        let shard = |session: &u64| ShardCut { session: *session, ..ShardCut::default() };
        Opening {
            own,
            asked: vec![true; sessions.len()],
            cut: Cut { shards: sessions.iter().map(shard).collect() },
            named: BTreeMap::new(),
            again: false,
        }
    }

    /// Sends all unanswered requests (again).
    pub fn send_pending(&self, read: u64, out: &mut Vec<(ShardId, Request)>) {
        for (shard, ShardCut { session, .. }) in (0..).zip(&self.cut.shards) {
            if self.asked[usize::from(shard)] {
                let naming = self.own.get(&shard).into_iter().flatten().copied().collect();
                out.push((shard, Request::Open { read, session: *session, naming }));
            }
        }
    }

    /// Records a shard's answer; repetitions are ignored.
    pub fn on_opened(&mut self, shard: ShardId, position: Position, undrained: Vec<Participants>) -> Opened {
        if self.answer(shard) {
            self.cut.shards[usize::from(shard)].position = position;
            self.named.extend(undrained.into_iter().map(|one| (one.stamp, one.shards)));
        }
        self.outcome()
    }

    pub fn on_again(&mut self, shard: ShardId) -> Opened {
        self.again |= self.answer(shard);
        self.outcome()
    }

    fn answer(&mut self, shard: ShardId) -> bool {
        self.asked.get_mut(usize::from(shard)).is_some_and(std::mem::take)
    }

    fn outcome(&mut self) -> Opened {
        if self.asked.contains(&true) {
            return Opened::Wait;
        }
        if self.again {
            return Opened::Again;
        }
        for (stamp, shards) in std::mem::take(&mut self.named) {
            for shard in shards.iter() {
                self.cut.shards[usize::from(*shard)].naming.push(stamp);
            }
        }
        Opened::Done(std::mem::take(&mut self.cut))
    }
}

impl<F: Faults> Partition<F> {
    /// All transactions that may be missing on other shards, including those that no item shows any more: they may be merged elsewhere.
    pub(super) fn on_open(&self, read: u64) -> Reply {
        let over_several = |one: &Committed| {
            let shards = one.siblings.as_ref()?.participants.clone();
            Some(Participants { stamp: one.stamp, shards })
        };
        let mut undrained: Vec<Participants> =
            self.participant.committed().values().filter_map(over_several).collect();
        undrained.sort_unstable_by_key(|one| one.stamp);
        Reply::Opened { read, shard: self.id, position: self.position, undrained }
    }
}
