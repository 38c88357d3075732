//! Execution of a log: the application, and the client table, which makes every transaction execute at most once.

use std::collections::BTreeMap;

use weir_core::ids::{CoordinatorId, TxnId};

use crate::application::Application;
use crate::faults::Faults;
use crate::message::Registration;
use crate::packet::{Index, Transaction};
use crate::replica::checkpoint::{Answers, Checkpoint};
use crate::replica::log::Entry;

/// The state after the execution of a prefix of the log.
#[derive(Clone, Debug)]
pub struct Execution<A: Application> {
    application: A,
    clients: BTreeMap<CoordinatorId, Answers<A::Answer>>,
    executed: Index,
    /// The client table has no client with a lower registration. It may be behind what packets have said.
    client_floor: Registration,
    /// For each entry that has changed the client table, ascending: what the client's answers were before.
    undo: Vec<Undo<A::Answer>>,
}

/// An entry, its client, and what the client table had for that.
type Undo<R> = (Index, CoordinatorId, Option<Answers<R>>);

impl<A: Application> Execution<A> {
    pub fn new(application: A) -> Self {
        Execution { application, clients: BTreeMap::new(), executed: 0, client_floor: 0, undo: Vec::new() }
    }

    pub fn application(&self) -> &A {
        &self.application
    }

    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// Index of the last entry that is executed.
    pub fn executed(&self) -> Index {
        self.executed
    }

    /// Answer that the client table has for a transaction.
    pub fn answer(&self, txn: TxnId) -> Option<&A::Answer> {
        self.clients.get(&txn.coordinator)?.answers.get(&txn.sequence)
    }

    /// Executes the next entry. A transaction that has been executed before has no effect.
    pub fn execute(&mut self, entry: &Entry<A::Operation>, faults: impl Faults) {
        self.executed += 1;
        let Some(packet) = entry.packet() else { return };
        self.forget_clients(packet.client_floor);
        let transaction = &*packet.transaction;
        if self.is_new(transaction.id) || faults.executes_twice() {
            let answer = self.application.execute(self.executed, &transaction.operation);
            self.note_answer(transaction, answer);
            if faults.forgets_clients() {
                self.clients.retain(|client, _| *client == transaction.id.coordinator);
            }
        }
    }

    /// Undoes the execution of all entries behind that index.
    pub fn roll_back(&mut self, to: Index) {
        if to >= self.executed {
            return;
        }
        self.application.roll_back(to);
        (self.executed, self.client_floor) = (to, 0);
        while let Some((_, client, before)) = self.undo.pop_if(|(index, ..)| *index > to) {
            match before {
                Some(before) => self.clients.insert(client, before),
                None => self.clients.remove(&client),
            };
        }
    }

    /// Entries up to that index will never be rolled back.
    pub fn forget(&mut self, up_to: Index) {
        let up_to = up_to.min(self.executed);
        self.application.forget(up_to);
        self.undo.drain(..self.undo.partition_point(|(index, ..)| *index <= up_to));
    }

    /// The state after that entry, which is executed and not before what was forgotten.
    pub fn checkpoint(&self, at: Index) -> Checkpoint<A::Answer, A::Snapshot> {
        assert!(at <= self.executed, "a checkpoint is of something executed");
        let mut clients = self.clients.clone();
        for (_, client, before) in self.undo.iter().rev().take_while(|(index, ..)| *index > at) {
            match before {
                Some(before) => clients.insert(*client, before.clone()),
                None => clients.remove(client),
            };
        }
        Checkpoint { index: at, application: self.application.snapshot(at), clients }
    }

    /// Takes that state. Nothing before it will be rolled back.
    pub fn restore(&mut self, checkpoint: &Checkpoint<A::Answer, A::Snapshot>) {
        self.application.restore(checkpoint.index, &checkpoint.application);
        self.clients = checkpoint.clients.clone();
        (self.executed, self.client_floor) = (checkpoint.index, 0);
        self.undo.clear();
    }

    /// Clients in the client table.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Forgets clients that are gone.
    fn forget_clients(&mut self, floor: Registration) {
        if floor <= self.client_floor {
            return;
        }
        self.client_floor = floor;
        for (client, before) in self.clients.extract_if(.., |_, client| client.registration < floor) {
            self.undo.push((self.executed, client, Some(before)));
        }
    }

    fn is_new(&self, txn: TxnId) -> bool {
        self.clients
            .get(&txn.coordinator)
            .is_none_or(|client| txn.sequence >= client.floor && !client.answers.contains_key(&txn.sequence))
    }

    fn note_answer(&mut self, transaction: &Transaction<A::Operation>, answer: A::Answer) {
        let TxnId { coordinator, sequence } = transaction.id;
        self.undo.push((self.executed, coordinator, self.clients.get(&coordinator).cloned()));
        let client = self.clients.entry(coordinator).or_default();
        client.registration = transaction.registration;
        client.floor = client.floor.max(transaction.floor);
        client.answers = client.answers.split_off(&client.floor);
        client.answers.insert(sequence, answer);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::faults::NoFaults;
    use crate::packet::{Packet, Stamp};

    /// Adds numbers, and remembers the sums.
    #[derive(Debug, Default)]
    struct Sums(Vec<(Index, u64)>);

    impl Application for Sums {
        type Operation = u64;
        type Answer = u64;
        type Snapshot = Vec<(Index, u64)>;

        fn execute(&mut self, index: Index, operation: &u64) -> u64 {
            let sum = self.0.last().map_or(0, |(_, sum)| *sum) + operation;
            self.0.push((index, sum));
            sum
        }

        fn roll_back(&mut self, to: Index) {
            self.0.retain(|(index, _)| *index <= to);
        }

        fn forget(&mut self, _up_to: Index) {}

        fn snapshot(&self, at: Index) -> Self::Snapshot {
            self.0.iter().filter(|(index, _)| *index <= at).copied().collect()
        }

        fn restore(&mut self, _at: Index, snapshot: &Self::Snapshot) {
            self.0.clone_from(snapshot);
        }
    }

    const fn txn(sequence: u64) -> TxnId {
        TxnId { coordinator: 1, sequence }
    }

    fn entry(sequence: u64, floor: u64, operation: u64) -> Entry<u64> {
        let stamp = Stamp { epoch: 1, sequences: [(0, 1)].into() };
        let id = txn(sequence);
        let transaction = Transaction { id, floor, registration: 1, destinations: [0].into(), operation };
        Entry::Packet(Packet { stamp, client_floor: 0, transaction: Arc::new(transaction) })
    }

    /// An entry of another client, which says that the first one is gone.
    fn last_entry() -> Entry<u64> {
        let stamp = Stamp { epoch: 1, sequences: [(0, 9)].into() };
        let id = TxnId { coordinator: 2, sequence: 1 };
        let transaction =
            Transaction { id, floor: 1, registration: 5, destinations: [0].into(), operation: 1 };
        Entry::Packet(Packet { stamp, client_floor: 5, transaction: Arc::new(transaction) })
    }

    fn executed(entries: &[Entry<u64>]) -> Execution<Sums> {
        let mut execution = Execution::new(Sums::default());
        entries.iter().for_each(|entry| execution.execute(entry, NoFaults));
        execution
    }

    #[test]
    fn a_repeated_transaction_keeps_its_first_answer() {
        let execution = executed(&[entry(1, 1, 5), Entry::NoOp, entry(2, 1, 7), entry(1, 1, 5)]);
        assert_eq!(execution.application().0, [(1, 5), (3, 12)]);
        assert_eq!((execution.answer(txn(1)), execution.answer(txn(2))), (Some(&5), Some(&12)));
        assert_eq!(execution.executed(), 4);
    }

    #[test]
    fn a_transaction_below_the_floor_is_old_although_its_answer_is_forgotten() {
        let execution = executed(&[entry(1, 1, 5), entry(2, 2, 7), entry(1, 1, 5)]);
        assert_eq!(execution.answer(txn(1)), None);
        assert_eq!(execution.application().0, [(1, 5), (2, 12)]);
    }

    #[test]
    fn roll_back_restores_the_client_table() {
        let mut execution = executed(&[entry(1, 1, 5), entry(2, 2, 7), entry(3, 3, 9)]);
        execution.roll_back(1);
        assert_eq!((execution.answer(txn(1)), execution.answer(txn(2))), (Some(&5), None));
        execution.execute(&entry(2, 1, 7), NoFaults);
        assert_eq!((execution.answer(txn(1)), execution.answer(txn(2))), (Some(&5), Some(&12)));
        execution.roll_back(0);
        assert_eq!((execution.answer(txn(1)), execution.executed()), (None, 0));
    }

    #[test]
    fn a_checkpoint_is_of_its_index_and_has_the_client_table() {
        let mut execution = executed(&[entry(1, 1, 5), entry(2, 2, 7), entry(3, 3, 9)]);
        let checkpoint = execution.checkpoint(1);
        execution.restore(&checkpoint);
        assert_eq!((execution.executed(), execution.application().0.as_slice()), (1, &[(1, 5)][..]));
        assert_eq!((execution.answer(txn(1)), execution.answer(txn(2))), (Some(&5), None));
        execution.execute(&entry(1, 1, 5), NoFaults);
        assert_eq!((execution.executed(), execution.application().0.len()), (2, 1));
    }

    #[test]
    fn clients_that_are_gone_are_forgotten_where_the_log_says_so() {
        let mut execution = executed(&[entry(1, 1, 5), entry(2, 1, 7), last_entry()]);
        assert_eq!((execution.clients(), execution.answer(txn(2))), (1, None));
        assert_eq!(execution.checkpoint(2).clients[&1].answers.len(), 2);
        execution.roll_back(2);
        assert_eq!((execution.clients(), execution.answer(txn(2))), (1, Some(&12)));
        execution.execute(&last_entry(), NoFaults);
        assert_eq!((execution.clients(), execution.answer(txn(2))), (1, None));
    }
}
