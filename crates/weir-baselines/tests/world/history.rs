//! Answers to clients and executions of shards, and the checks of both (docs/internals/ordered-baselines.md, invariants).

use std::collections::{BTreeMap, BTreeSet};

use weir_baselines::eris::machine::Completed;
use weir_baselines::eris::operation::{Access, Answer, Key, Operation, Placement, Value};
use weir_core::ids::{ShardId, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId};

use super::strict::{Told, Violation, check_edges, violation};

type Executed = Vec<(TxnId, Operation)>;
type Edges = BTreeMap<TxnId, Vec<TxnId>>;

#[derive(Default)]
pub struct History {
    told: Told,
    answers: BTreeMap<TxnId, BTreeMap<ShardId, Answer>>,
    observed: BTreeMap<ShardId, Executed>,
}

impl History {
    pub fn begin(&mut self, now_ms: u64, txn: TxnId) {
        self.told.begun.insert(txn, now_ms);
    }

    pub fn complete(&mut self, now_ms: u64, completed: Completed) {
        if let Some(begun_ms) = self.told.begun.remove(&completed.begun) {
            self.told.begun.insert(completed.txn, begun_ms);
        }
        self.told.completed.insert(completed.txn, (now_ms, BTreeMap::new()));
        self.answers.insert(completed.txn, completed.answers);
    }

    /// A shard executes that now.
    pub fn observe(&mut self, shard: ShardId, txn: TxnId, operation: Operation) {
        self.observed.entry(shard).or_default().push((txn, operation));
    }

    pub fn observed(&self, shard: ShardId) -> &[(TxnId, Operation)] {
        self.observed.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Returns whether both have the same transactions. Their order may differ where no key says it.
    pub fn is_same(&self, a: &Executed, b: &Executed) -> bool {
        let ids = |history: &Executed| history.iter().map(|(txn, _)| *txn).collect::<BTreeSet<_>>();
        a.len() == b.len() && ids(a) == ids(b)
    }

    /// All invariants, of a cluster at rest. `is_strict`: the order is also that of real time.
    pub fn check(
        &self,
        histories: &BTreeMap<ShardId, Executed>,
        values: &BTreeMap<ReplicaId, BTreeMap<Key, Value>>,
        cluster: Cluster,
        is_strict: bool,
    ) -> Result<(), Violation> {
        let placement = Placement { shards: cluster.shards };
        let operations = self.check_whole(histories, placement)?;
        let edges = edges(histories, placement);
        let without_time = Told::default();
        check_edges(edges.clone(), if is_strict { &self.told } else { &without_time })?;
        let mut model = BTreeMap::new();
        for txn in in_order(&operations, &edges) {
            self.check_answers(txn, &operations[&txn], &mut model, placement)?;
        }
        for (id, values) in values {
            let is_own =
                |(key, value): &(&Key, &Value)| placement.shard_of(**key) == id.shard && **value != 0;
            let expected: BTreeMap<_, _> =
                model.iter().filter(is_own).map(|(key, value)| (*key, *value)).collect();
            if *values != expected {
                return violation("5", format!("{id:?} has {values:?}, replayed {expected:?}"));
            }
        }
        Ok(())
    }

    /// Each transaction is executed once, at all its participants, and so is whatever a client was told of.
    fn check_whole(
        &self,
        histories: &BTreeMap<ShardId, Executed>,
        placement: Placement,
    ) -> Result<BTreeMap<TxnId, Operation>, Violation> {
        let mut operations = BTreeMap::new();
        let mut at: BTreeMap<TxnId, BTreeSet<ShardId>> = BTreeMap::new();
        for (shard, history) in histories {
            for (txn, operation) in history {
                operations.insert(*txn, operation.clone());
                if !at.entry(*txn).or_default().insert(*shard) {
                    return violation("3", format!("shard {shard} executes {txn:?} twice"));
                }
            }
        }
        for (txn, operation) in &operations {
            let participants: BTreeSet<_> = operation.participants(placement).into_iter().collect();
            if at[txn] != participants {
                return violation("3", format!("{txn:?} is at {:?}, not at {participants:?}", at[txn]));
            }
        }
        match self.answers.keys().find(|txn| !operations.contains_key(txn)) {
            Some(txn) => violation("2", format!("{txn:?} was answered, and nobody has it")),
            None => Ok(operations),
        }
    }

    /// Executes a transaction as one, and compares its answers with those told.
    fn check_answers(
        &self,
        txn: TxnId,
        operation: &Operation,
        model: &mut BTreeMap<Key, Value>,
        placement: Placement,
    ) -> Result<(), Violation> {
        let before = model.clone();
        for shard in operation.participants(placement) {
            let part = operation.part(shard, placement, |key| before.get(&key).copied().unwrap_or(0));
            model.extend(part.writes);
            let told = self.answers.get(&txn).map(|answers| answers.get(&shard));
            if told.is_some_and(|told| told != Some(&part.answer)) {
                return violation(
                    "5",
                    format!("{txn:?} at {shard}: told {told:?}, replayed {:?}", part.answer),
                );
            }
        }
        Ok(())
    }
}

/// For each transaction those that come after it, because they access one of its keys later and one of both writes it.
fn edges(histories: &BTreeMap<ShardId, Executed>, placement: Placement) -> Edges {
    let mut edges = Edges::new();
    for (shard, history) in histories {
        let mut last: BTreeMap<Key, (Option<TxnId>, Vec<TxnId>)> = BTreeMap::new();
        for (txn, operation) in history {
            edges.entry(*txn).or_default();
            for (key, access) in operation.accesses_at(*shard, placement) {
                let (writer, readers) = last.entry(key).or_default();
                let before = match access {
                    Access::Write if !readers.is_empty() => std::mem::take(readers),
                    _ => writer.iter().copied().collect(),
                };
                before.into_iter().for_each(|before| edges.entry(before).or_default().push(*txn));
                match access {
                    Access::Write => *writer = Some(*txn),
                    Access::Read => readers.push(*txn),
                }
            }
        }
    }
    edges
}

/// Transactions such that those before are before. There is no circle.
fn in_order(operations: &BTreeMap<TxnId, Operation>, edges: &Edges) -> Vec<TxnId> {
    let mut before: BTreeMap<TxnId, usize> = operations.keys().map(|txn| (*txn, 0)).collect();
    edges.values().flatten().for_each(|txn| *before.entry(*txn).or_default() += 1);
    let mut free: Vec<_> = before.iter().filter(|(_, count)| **count == 0).map(|(txn, _)| *txn).collect();
    let mut order = Vec::new();
    while let Some(txn) = free.pop() {
        order.push(txn);
        for next in edges.get(&txn).into_iter().flatten() {
            let count = before.entry(*next).or_default();
            *count -= 1;
            if *count == 0 {
                free.push(*next);
            }
        }
    }
    order
}
