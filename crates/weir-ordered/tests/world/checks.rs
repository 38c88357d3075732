//! The invariants of docs/internals/ordered.md, on logs, executions and answers.

use std::collections::BTreeMap;

use weir_core::ids::{ShardId, TxnId};
use weir_ordered::client::Completed;
use weir_ordered::cluster::ReplicaId;
use weir_ordered::packet::{Epoch, Index, Stamp};
use weir_ordered::replica::log::{Entry, Log};
use weir_ordered::replica::{Replica, Status};

use crate::world::registers::{Change, Registers, Values};
use crate::world::strict::{Told, Violation, check_serializable, replay, violation};
use crate::world::{SimReplica, World};

/// Actions of clients and replicas that have been seen.
#[derive(Default)]
pub struct History {
    told: Told,
    /// Packet of each entry that a replica has had in an epoch.
    logged: BTreeMap<(ShardId, Epoch, Index), Stamp>,
    /// Entry that some replica has executed as synchronized.
    synchronized: BTreeMap<(ShardId, Index), Entry<Change>>,
    /// How much of each replica's log is in `logged`, and how much of its execution in `synchronized`.
    seen: BTreeMap<ReplicaId, (Epoch, Index, Index)>,
}

impl History {
    pub fn begin(&mut self, now_ms: u64, txn: TxnId) {
        self.told.begun.insert(txn, now_ms);
    }

    pub fn complete(&mut self, now_ms: u64, completed: &Completed<Values>) {
        if completed.is_aborted {
            self.told.aborted.insert(completed.txn);
        } else {
            self.told.completed.insert(completed.txn, (now_ms, completed.answers.clone()));
        }
    }

    /// Two logs of an epoch have the same packet at an index, or one of them has a NO-OP.
    fn check_logged(&mut self, replica: &SimReplica, from: Index) -> Result<(), Violation> {
        let (shard, epoch) = (replica.id().shard, replica.epoch());
        for (index, entry) in replica.log().behind(from) {
            let Some(stamp) = entry.stamp() else { continue };
            let before = self.logged.entry((shard, epoch, index)).or_insert_with(|| stamp.clone());
            if before != stamp {
                let id = replica.id();
                return violation("1", format!("{id:?} has {stamp:?} at {index}, another had {before:?}"));
            }
        }
        Ok(())
    }

    /// Every replica has executed the same as synchronized.
    fn check_executed(&mut self, replica: &SimReplica, from: Index, to: Index) -> Result<(), Violation> {
        let shard = replica.id().shard;
        for (index, entry) in replica.log().behind(from).take_while(|(index, _)| *index <= to) {
            let before = self.synchronized.entry((shard, index)).or_insert_with(|| entry.clone());
            if before.stamp() != entry.stamp() {
                let (id, stamp, before) = (replica.id(), entry.stamp(), before.stamp());
                return violation("6", format!("{id:?} executes {stamp:?} at {index}, another {before:?}"));
            }
        }
        Ok(())
    }

    /// Only what was executed as synchronized is forgotten.
    fn check_forgotten(&self, replica: &SimReplica) -> Result<(), Violation> {
        let (id, base) = (replica.id(), replica.log().base());
        if base > 0 && !self.synchronized.contains_key(&(id.shard, base)) {
            return violation("6", format!("{id:?} has forgotten entry {base}, which was not synchronized"));
        }
        Ok(())
    }

    /// The log of a shard from its first entry: what a replica has forgotten is what was synchronized.
    fn whole(&self, shard: ShardId, log: &Log<Change>) -> Log<Change> {
        let forgotten = self.synchronized.range((shard, 0)..=(shard, log.base()));
        let mut whole = Log::default();
        forgotten.for_each(|(_, entry)| whole.push(entry.clone()));
        whole.continued_by(log)
    }
}

impl World {
    pub(super) fn check_step(&mut self, id: ReplicaId) -> Result<(), Violation> {
        let Some(replica) = self.replicas.get(&id).and_then(|host| host.machine.as_ref()) else {
            return Ok(());
        };
        if replica.application().is_damaged {
            return violation("6", format!("{id:?} rolls back what a majority was to have"));
        }
        if self.empty.contains(&id) && self.durable_replica(id).epoch() > 0 {
            self.empty.remove(&id);
        }
        if replica.aside() as u64 > self.cluster.aside_max {
            return violation("liveness", format!("{id:?} keeps {} packets aside", replica.aside()));
        }
        self.history.check_forgotten(replica)?;
        if replica.status() != Status::Normal {
            self.history.seen.remove(&id);
            return Ok(());
        }
        let (epoch, logged, executed) = self.history.seen.get(&id).copied().unwrap_or_default();
        let (logged, executed) = if epoch == replica.epoch() { (logged, executed) } else { (0, 0) };
        let end = replica.log().end();
        let executed_end = replica.executed().min(replica.synchronized());
        if end > logged {
            self.history.check_logged(replica, logged)?;
        }
        if executed_end > executed {
            self.history.check_executed(replica, executed, executed_end)?;
        }
        self.history.seen.insert(id, (replica.epoch(), end, executed_end));
        Ok(())
    }

    /// A majority of each participant has the transaction, or has had it, whatever crashes now.
    pub(super) fn check_completed(&self, txn: TxnId) -> Result<(), Violation> {
        let Some((_, answers)) = self.history.told.completed.get(&txn) else { return Ok(()) };
        for &shard in answers.keys() {
            let having = self
                .cluster
                .group(shard)
                .filter(|id| self.empty.contains(id) || has(&self.durable_log(*id), txn));
            let having = having.count();
            if having < self.cluster.majority() {
                return violation("2", format!("{having} replicas of shard {shard} have {txn:?}"));
            }
        }
        Ok(())
    }

    /// The replica as it would be if it crashed now and lost all that is not durable.
    fn durable_replica(&self, id: ReplicaId) -> SimReplica {
        let records = self.replicas[&id].durable();
        Replica::new(0, id, self.cluster, self.profile.bugs, Registers::new(id.shard), (1, records))
    }

    fn durable_log(&self, id: ReplicaId) -> Log<Change> {
        self.history.whole(id.shard, self.durable_replica(id).log())
    }

    /// The invariants of a world at rest.
    pub(super) fn check_end(&self) -> Result<(), Violation> {
        let mut logs = BTreeMap::new();
        for shard in 0..self.cluster.shards {
            logs.insert(shard, self.check_shard(shard)?);
        }
        check_serializable(&logs, &self.history.told)
    }

    /// State of each replica of a shard at the end.
    fn group_text(&self, shard: ShardId) -> String {
        let replicas = self.cluster.group(shard).filter_map(|id| self.replicas[&id].machine.as_ref());
        let text = |replica: &SimReplica| {
            let place = (replica.epoch(), replica.view(), replica.status());
            let ends = (replica.log().end(), replica.synchronized(), replica.executed());
            format!("\n{:?}: {place:?}, end, synchronized, executed: {ends:?}", replica.id())
        };
        replicas.map(text).collect()
    }

    /// All replicas of a shard have the same log, and the state that follows from it.
    fn check_shard(&self, shard: ShardId) -> Result<Log<Change>, Violation> {
        let group = self.cluster.group(shard).filter_map(|id| self.replicas[&id].machine.as_ref());
        let group: Vec<_> = group.collect();
        let Some(learner) = group.iter().max_by_key(|each| (each.epoch(), each.view(), each.is_learner()))
        else {
            return violation("liveness", format!("shard {shard} is down"));
        };
        let log = &self.history.whole(shard, learner.log());
        let (state, _) = replay(shard, log)?;
        for replica in &group {
            let id = replica.id();
            let same = replica.log().common_prefix(log);
            if replica.status() != Status::Normal || same != log.end() || replica.log().end() != log.end() {
                let text = format!("{id:?} has {same} entries in common with {:?}", learner.id());
                return violation("liveness", text + &self.group_text(shard));
            }
            if replica.executed() != log.end() {
                return violation("liveness", format!("{id:?} lags{}", self.group_text(shard)));
            }
            if replica.locked() != (0, 0) {
                let text = format!("{id:?} has locks and waiting transactions: {:?}", replica.locked());
                return violation("liveness", text);
            }
            if replica.application().values != state {
                return violation("5", format!("{id:?} has executed something else than its log"));
            }
        }
        Ok(log.clone())
    }
}

fn has(log: &Log<Change>, txn: TxnId) -> bool {
    log.behind(0).any(|(_, entry)| entry.packet().is_some_and(|packet| packet.transaction.id == txn))
}
