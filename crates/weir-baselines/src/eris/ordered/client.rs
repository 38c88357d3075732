//! A client of ordered transactions: an operation is one independent transaction, or the two parts of a general one.

use std::collections::BTreeMap;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_ordered::client;
use weir_ordered::cluster::Cluster;
use weir_ordered::faults::NoFaults;
use weir_ordered::message::Party;

use super::super::application::{AnswerOf, Application, OneShot};
use super::super::machine::{self, Completed, Effects};
use super::super::operation::{Placement, Reads, Registers};
use super::work::Work;
use super::{Message, with_effects};

/// A client.
pub struct Client<A: Application = Registers> {
    client: client::Client<Work<A::Operation>, AnswerOf<A>>,
    placement: Placement,
    /// General transactions, by the sequence of the part that is under way.
    generals: BTreeMap<u64, General<A::Operation>>,
}

/// A general transaction.
struct General<O> {
    operation: O,
    /// The id under which it was begun first.
    begun: TxnId,
    /// The preliminary part, once that has all its answers.
    preliminary: Option<TxnId>,
    aborts: u32,
}

impl<A: Application> Client<A> {
    pub(super) fn new(id: CoordinatorId, cluster: Cluster) -> Self {
        let placement = Placement { shards: cluster.shards };
        Client { client: client::Client::new(id, cluster, NoFaults), placement, generals: BTreeMap::new() }
    }

    /// Begins the preliminary part; `before`: the id under which the transaction was begun first, and how often it was aborted since.
    fn begin_general(
        &mut self,
        now_ms: u64,
        operation: A::Operation,
        before: Option<(TxnId, u32)>,
        effects: &mut Effects<Message<A>>,
    ) -> TxnId {
        let participants = operation.participants(self.placement).into();
        let work = Work::Read(operation.clone());
        let txn = with_effects(effects, |out| self.client.begin_general(now_ms, participants, work, out));
        let (begun, aborts) = before.unwrap_or((txn, 0));
        self.generals.insert(txn.sequence, General { operation, begun, preliminary: None, aborts });
        txn
    }

    /// A part of a general transaction has all its answers, or is aborted. Returns the transaction if it is over.
    fn on_part(
        &mut self,
        now_ms: u64,
        general: General<A::Operation>,
        completed: client::Completed<AnswerOf<A>>,
        effects: &mut Effects<Message<A>>,
    ) -> Option<Completed<A::Operation>> {
        let client::Completed { txn, answers, is_aborted } = completed;
        let General { operation, begun, preliminary, aborts } = general;
        if is_aborted {
            self.begin_general(now_ms, operation, Some((begun, aborts + 1)), effects);
            return None;
        }
        if let Some(preliminary) = preliminary {
            return Some(Completed { txn: preliminary, begun, answers, aborts });
        }
        let work = Work::Write(operation.clone(), reads::<A::Operation>(answers));
        let last = with_effects(effects, |out| self.client.conclude(now_ms, txn, (true, work), out))?;
        self.generals.insert(last.sequence, General { operation, begun, preliminary: Some(txn), aborts });
        None
    }
}

fn reads<O: OneShot>(answers: BTreeMap<ShardId, O::Answer>) -> Reads {
    answers.into_values().flat_map(O::reads_of_answer).collect()
}

impl<A: Application> machine::Client for Client<A> {
    type Message = Message<A>;
    type Operation = A::Operation;

    fn begin(&mut self, now_ms: u64, operation: A::Operation, effects: &mut Effects<Message<A>>) -> TxnId {
        if !operation.is_independent(self.placement) {
            return self.begin_general(now_ms, operation, None, effects);
        }
        let participants = operation.participants(self.placement).into();
        let work = Work::Execute(operation);
        with_effects(effects, |out| self.client.begin(now_ms, participants, work, out))
    }

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Message<A>,
        effects: &mut Effects<Message<A>>,
    ) -> Option<Completed<A::Operation>> {
        let completed = self.client.step(from, message)?;
        if let Some(general) = self.generals.remove(&completed.txn.sequence) {
            return self.on_part(now_ms, general, completed, effects);
        }
        let client::Completed { txn, answers, .. } = completed;
        Some(Completed { txn, begun: txn, answers, aborts: 0 })
    }

    fn on_timer(&mut self, now_ms: u64, effects: &mut Effects<Message<A>>) {
        with_effects(effects, |out| self.client.on_timer(now_ms, out));
    }

    fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    fn is_idle(&self) -> bool {
        self.client.is_idle()
    }
}
