//! Execution of a log: the application, and the client table, which makes every transaction execute at most once.

use std::collections::BTreeMap;

use weir_core::ids::{CoordinatorId, TxnId};

use crate::application::Application;
use crate::packet::{Index, Transaction};
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

/// Answers that a client may ask for again.
#[derive(Clone, Debug)]
struct Answers<R> {
    /// The client has all answers with lower sequences.
    floor: u64,
    /// By sequence; none below the floor.
    answers: BTreeMap<u64, R>,
}

impl<R> Default for Answers<R> {
    fn default() -> Self {
        Answers { floor: 0, answers: BTreeMap::new() }
    }
}

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
