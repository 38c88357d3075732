//! Execution of a log: the application, and the client table, which makes every transaction execute at most once.

use std::collections::BTreeMap;

use weir_core::ids::{CoordinatorId, TxnId};

use crate::application::Application;
use crate::packet::{Index, Transaction};
use crate::replica::checkpoint::{Answers, Checkpoint};
use crate::replica::log::Entry;

/// The state after the execution of a prefix of the log.
#[derive(Debug)]
pub struct Execution<A: Application> {
    application: A,
    clients: BTreeMap<CoordinatorId, Answers<A::Answer>>,
    executed: Index,
    /// For each entry that has changed the client table, ascending: what the client's answers were before.
    undo: Vec<Undo<A::Answer>>,
}

/// An entry, its client, and what the client table had for that.
type Undo<R> = (Index, CoordinatorId, Option<Answers<R>>);

impl<A: Application> Execution<A> {
    pub fn new(application: A) -> Self {
        Execution { application, clients: BTreeMap::new(), executed: 0, undo: Vec::new() }
    }

    pub fn application(&self) -> &A {
        &self.application
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
    pub fn execute(&mut self, entry: &Entry<A::Operation>, repeats: bool) {
        self.executed += 1;
        let Some(packet) = entry.packet() else { return };
        let transaction = &*packet.transaction;
        if self.is_new(transaction.id) || repeats {
            let answer = self.application.execute(self.executed, &transaction.operation);
            self.note_answer(transaction, answer);
        }
    }

    /// Undoes the execution of all entries behind that index.
    pub fn roll_back(&mut self, to: Index) {
        if to >= self.executed {
            return;
        }
        self.application.roll_back(to);
        self.executed = to;
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
        self.executed = checkpoint.index;
        self.undo.clear();
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
        client.floor = client.floor.max(transaction.floor);
        client.answers = client.answers.split_off(&client.floor);
        client.answers.insert(sequence, answer);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
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
        let transaction = Transaction { id: txn(sequence), floor, destinations: [0].into(), operation };
        Entry::Packet(Packet { stamp, transaction: Arc::new(transaction) })
    }

    fn executed(entries: &[Entry<u64>]) -> Execution<Sums> {
        let mut execution = Execution::new(Sums::default());
        entries.iter().for_each(|entry| execution.execute(entry, false));
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
        execution.execute(&entry(2, 1, 7), false);
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
        execution.execute(&entry(1, 1, 5), false);
        assert_eq!((execution.executed(), execution.application().0.len()), (2, 1));
    }
}
