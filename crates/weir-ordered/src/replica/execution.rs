//! Execution of a log: the application, the client table, which makes every transaction execute at most once, and the lock table, for which
//! transactions wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, TxnId};

use crate::application::Application;
use crate::faults::Faults;
use crate::footprint::Footprint;
use crate::message::Registration;
use crate::packet::{Index, Outcome, Part, Transaction};
use crate::replica::checkpoint::{Answers, Checkpoint, Progress};
use crate::replica::locks::{self, Claim, Locks};
use crate::replica::log::Entry;

type UndoOf<A> = Undo<<A as Application>::Operation, <A as Application>::Answer>;

/// The state after the execution of a prefix of the log.
#[derive(Clone, Debug)]
pub struct Execution<A: Application> {
    application: A,
    clients: BTreeMap<CoordinatorId, Answers<A::Answer>>,
    locks: Locks<A::Operation>,
    executed: Index,
    /// Entries up to this index are never rolled back.
    forgotten: Index,
    /// The highest floor of registrations that a packet has had: the client table has no client below it.
    client_floor: Registration,
    /// Changes of the client table and of the lock table, ascending by the entries that have made them.
    undo: Vec<(Index, UndoOf<A>)>,
    /// Transactions that had waited, ascending by the entries with which they were executed.
    late: Vec<(Index, TxnId)>,
}

/// A change, as it is undone.
#[derive(Clone, Debug)]
enum Undo<O, R> {
    /// What the client table had for a client.
    Client(CoordinatorId, Option<Answers<R>>),
    ClientFloor(Registration),
    /// The registration and the floor that a client had there.
    ClientHead(CoordinatorId, (Registration, u64)),
    /// How far a transaction of a client was, as the client table had it.
    Progress(CoordinatorId, u64, Option<Progress<R>>),
    Locks(locks::Undo<O>),
}

impl<A: Application> Execution<A> {
    pub fn new(application: A) -> Self {
        Execution {
            application,
            clients: BTreeMap::new(),
            locks: Locks::default(),
            executed: 0,
            forgotten: 0,
            client_floor: 0,
            undo: Vec::new(),
            late: Vec::new(),
        }
    }

    pub fn application(&self) -> &A {
        &self.application
    }

    pub fn locks(&self) -> &Locks<A::Operation> {
        &self.locks
    }

    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// Index of the last entry that is executed.
    pub fn executed(&self) -> Index {
        self.executed
    }

    /// What has become of a transaction, with the index of the entry with which it was executed. None: it is not executed, or forgotten.
    pub fn outcome(&self, txn: TxnId) -> Option<(Index, &Outcome<A::Answer>)> {
        match self.clients.get(&txn.coordinator)?.get(txn.sequence)? {
            Progress::Waiting => None,
            Progress::Done { at, outcome } => Some((*at, outcome)),
        }
    }

    /// Executes the next entry. A transaction that has had its turn before has no effect.
    pub fn execute(&mut self, entry: &Entry<A::Operation>, faults: impl Faults) {
        self.executed += 1;
        let Some(packet) = entry.packet() else { return };
        self.forget_clients(packet.client_floor);
        let transaction = &packet.transaction;
        if !self.is_new(transaction) && !faults.executes_twice() {
            return;
        }
        if transaction.part == Part::Independent && self.locks.is_free() {
            self.answer(transaction);
            return self.keep_only(transaction, faults);
        }
        let footprint = self.footprint(transaction);
        if self.locks.must_wait((transaction, &footprint), Index::MAX, faults) {
            self.note_progress(transaction, Progress::Waiting);
            let undo = self.locks.queue(self.executed, Claim { transaction: transaction.clone(), footprint });
            self.undo.push((self.executed, Undo::Locks(undo)));
        } else if self.run(transaction, footprint, faults) {
            self.resume(faults);
        }
        self.keep_only(transaction, faults);
    }

    /// A planted bug: the client table keeps the last client only.
    fn keep_only(&mut self, transaction: &Transaction<A::Operation>, faults: impl Faults) {
        if faults.forgets_clients() {
            self.clients.retain(|client, _| *client == transaction.id.coordinator);
        }
    }

    /// Undoes the execution of all entries behind that index.
    pub fn roll_back(&mut self, to: Index) {
        if to >= self.executed {
            return;
        }
        assert!(
            to >= self.forgotten,
            "the log up to an index that was forgotten is that of the shard for good"
        );
        self.application.roll_back(to);
        self.executed = to;
        while let Some((_, undo)) = self.undo.pop_if(|(index, _)| *index > to) {
            undo.apply((&mut self.clients, &mut self.client_floor), &mut self.locks);
        }
        self.late.truncate(self.late.partition_point(|(index, _)| *index <= to));
    }

    /// Entries up to that index will never be rolled back.
    pub fn forget(&mut self, up_to: Index) {
        let up_to = up_to.min(self.executed);
        self.forgotten = self.forgotten.max(up_to);
        self.application.forget(up_to);
        self.undo.drain(..self.undo.partition_point(|(index, _)| *index <= up_to));
        self.late.drain(..self.late.partition_point(|(index, _)| *index <= up_to));
    }

    /// The state after that entry, which is executed and not before what was forgotten.
    pub fn checkpoint(&self, at: Index) -> Checkpoint<A::Operation, A::Answer, A::Snapshot> {
        assert!(at <= self.executed, "a checkpoint is of something executed");
        let (mut clients, mut client_floor) = (self.clients.clone(), self.client_floor);
        let mut locks = self.locks.clone();
        for (_, undo) in self.undo.iter().rev().take_while(|(index, _)| *index > at) {
            undo.clone().apply((&mut clients, &mut client_floor), &mut locks);
        }
        Checkpoint { index: at, application: self.application.snapshot(at), clients, client_floor, locks }
    }

    /// Takes that state. Nothing before it will be rolled back.
    pub fn restore(&mut self, checkpoint: &Checkpoint<A::Operation, A::Answer, A::Snapshot>) {
        self.application.restore(checkpoint.index, &checkpoint.application);
        self.clients = checkpoint.clients.clone();
        self.locks = checkpoint.locks.clone();
        (self.executed, self.client_floor) = (checkpoint.index, checkpoint.client_floor);
        self.forgotten = checkpoint.index;
        self.undo.clear();
        self.late.clear();
    }

    /// Clients in the client table.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Index of the last entry with which a transaction was executed that had waited, and whose outcome was not taken.
    pub fn last_late(&self) -> Option<Index> {
        self.late.last().map(|(index, _)| *index)
    }

    /// Takes the outcomes of transactions that had waited, as far as they follow from the log up to that index.
    pub fn take_late(&mut self, up_to: Index) -> Vec<(TxnId, Outcome<A::Answer>)> {
        let taken: Vec<_> =
            self.late.drain(..self.late.partition_point(|(index, _)| *index <= up_to)).collect();
        let outcome = |(_, txn): (Index, TxnId)| Some((txn, self.outcome(txn)?.1.clone()));
        taken.into_iter().filter_map(outcome).collect()
    }

    /// Items that the transaction locks, or waits for.
    fn footprint(&self, transaction: &Transaction<A::Operation>) -> Footprint {
        match transaction.part {
            Part::Independent | Part::Preliminary => self.application.footprint(&transaction.operation),
            Part::Conclusory { .. } | Part::ReplicaAbort => Footprint::nothing(),
        }
    }

    /// Does what the transaction does in its turn. Returns whether locks were let go.
    fn run(
        &mut self,
        transaction: &Arc<Transaction<A::Operation>>,
        footprint: Footprint,
        faults: impl Faults,
    ) -> bool {
        match transaction.part {
            Part::Independent => self.answer(transaction),
            Part::Preliminary => {
                self.answer(transaction);
                let footprint = if faults.lets_go_early() { Footprint::nothing() } else { footprint };
                let undo = self.locks.take(Claim { transaction: transaction.clone(), footprint });
                self.undo.push((self.executed, Undo::Locks(undo)));
            }
            Part::Conclusory { commits, .. } => {
                let is_held = self.let_go(transaction);
                if commits && (is_held || faults.commits_aborted()) {
                    self.answer(transaction);
                } else {
                    self.note_outcome(transaction, Outcome::Aborted);
                }
                return is_held;
            }
            Part::ReplicaAbort => return self.let_go(transaction) || self.withdraw(transaction),
        }
        false
    }

    /// Lets what waits go on, in the order of the log, as far as it can.
    fn resume(&mut self, faults: impl Faults) {
        while let Some(index) = self.locks.first_free(faults)
            && let Some(claim) = self.locks.resume(index)
        {
            let undo = locks::Undo::Resumed(index, claim.clone());
            self.undo.push((self.executed, Undo::Locks(undo)));
            self.late.push((self.executed, claim.transaction.id));
            self.run(&claim.transaction, claim.footprint, faults);
        }
    }

    /// Returns whether the general transaction that this part ends has held locks.
    fn let_go(&mut self, last: &Transaction<A::Operation>) -> bool {
        let undo = self.locks.let_go(last);
        let is_held = undo.is_some();
        self.undo.extend(undo.map(|undo| (self.executed, Undo::Locks(undo))));
        is_held
    }

    /// Returns whether the preliminary part of the general transaction that is aborted has waited.
    fn withdraw(&mut self, abort: &Transaction<A::Operation>) -> bool {
        let Some((index, claim)) = self.locks.withdraw(abort) else { return false };
        let preliminary = claim.transaction.clone();
        self.undo.push((self.executed, Undo::Locks(locks::Undo::Resumed(index, claim))));
        self.late.push((self.executed, preliminary.id));
        self.note_outcome(&preliminary, Outcome::Aborted);
        true
    }

    fn answer(&mut self, transaction: &Arc<Transaction<A::Operation>>) {
        let answer = self.application.execute(self.executed, &transaction.operation);
        self.note_outcome(transaction, Outcome::Executed(answer));
    }

    /// Forgets clients that are gone.
    fn forget_clients(&mut self, floor: Registration) {
        if floor <= self.client_floor {
            return;
        }
        let before = std::mem::replace(&mut self.client_floor, floor);
        self.undo.push((self.executed, Undo::ClientFloor(before)));
        for (client, before) in self.clients.extract_if(.., |_, client| client.registration < floor) {
            self.undo.push((self.executed, Undo::Client(client, Some(before))));
        }
    }

    /// Returns whether a transaction has not had its turn. A client that is forgotten sends nothing more, but whatever it has sent must not
    /// lock twice.
    fn is_new(&self, transaction: &Transaction<A::Operation>) -> bool {
        let TxnId { coordinator, sequence } = transaction.id;
        let is_known = || {
            let is_known = |client: &Answers<_>| sequence < client.floor || client.get(sequence).is_some();
            self.clients.get(&coordinator).is_some_and(is_known)
        };
        match transaction.part {
            Part::Independent | Part::Conclusory { .. } => !is_known(),
            Part::Preliminary => !is_known() && !self.locks.has(transaction.id),
            Part::ReplicaAbort => true,
        }
    }

    fn note_outcome(&mut self, transaction: &Transaction<A::Operation>, outcome: Outcome<A::Answer>) {
        self.note_progress(transaction, Progress::Done { at: self.executed, outcome });
    }

    /// Notes how far a transaction is. If its client was forgotten while it waited, nobody asks for it.
    fn note_progress(&mut self, transaction: &Transaction<A::Operation>, progress: Progress<A::Answer>) {
        let TxnId { coordinator, sequence } = transaction.id;
        if transaction.registration < self.client_floor || transaction.part == Part::ReplicaAbort {
            return;
        }
        let client = self.clients.entry(coordinator).or_insert_with(|| {
            self.undo.push((self.executed, Undo::Client(coordinator, None)));
            Answers::default()
        });
        let (before, floor) = ((client.registration, client.floor), client.floor.max(transaction.floor));
        if before != (transaction.registration, floor) {
            (client.registration, client.floor) = (transaction.registration, floor);
            self.undo.push((self.executed, Undo::ClientHead(coordinator, before)));
        }
        while let Some((sequence, before)) = client.take_below_floor() {
            self.undo.push((self.executed, Undo::Progress(coordinator, sequence, Some(before))));
        }
        let before = client.insert(sequence, progress);
        self.undo.push((self.executed, Undo::Progress(coordinator, sequence, before)));
    }
}

impl<O, R> Undo<O, R> {
    fn apply(
        self,
        (clients, client_floor): (&mut BTreeMap<CoordinatorId, Answers<R>>, &mut Registration),
        locks: &mut Locks<O>,
    ) {
        match self {
            Undo::ClientFloor(before) => *client_floor = before,
            Undo::ClientHead(client, before) => {
                if let Some(client) = clients.get_mut(&client) {
                    (client.registration, client.floor) = before;
                }
            }
            Undo::Progress(client, sequence, before) => {
                if let Some(client) = clients.get_mut(&client) {
                    match before {
                        Some(before) => drop(client.insert(sequence, before)),
                        None => client.remove(sequence),
                    }
                }
            }
            Undo::Client(client, Some(before)) => drop(clients.insert(client, before)),
            Undo::Client(client, None) => drop(clients.remove(&client)),
            Undo::Locks(undo) => locks.undo(undo),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::faults::NoFaults;
    use crate::footprint::Access;
    use crate::packet::{Packet, Stamp};

    /// Adds numbers to items, and remembers what each has become. An operation is an item and a number; 0 reads.
    #[derive(Debug, Default)]
    struct Sums(Vec<(Index, u64, u64)>);

    impl Sums {
        fn sum(&self, item: u64) -> u64 {
            self.0.iter().rev().find(|(_, of, _)| *of == item).map_or(0, |(.., sum)| *sum)
        }
    }

    impl Application for Sums {
        type Operation = (u64, u64);
        type Answer = u64;
        type Snapshot = Vec<(Index, u64, u64)>;

        fn execute(&mut self, index: Index, &(item, number): &(u64, u64)) -> u64 {
            let sum = self.sum(item) + number;
            self.0.push((index, item, sum));
            sum
        }

        fn footprint(&self, (item, _): &(u64, u64)) -> Footprint {
            Footprint::of([(*item..=*item, Access::Write)])
        }

        fn roll_back(&mut self, to: Index) {
            self.0.retain(|(index, ..)| *index <= to);
        }

        fn forget(&mut self, _up_to: Index) {}

        fn snapshot(&self, at: Index) -> Self::Snapshot {
            self.0.iter().filter(|(index, ..)| *index <= at).copied().collect()
        }

        fn restore(&mut self, _at: Index, snapshot: &Self::Snapshot) {
            self.0.clone_from(snapshot);
        }
    }

    const fn txn(sequence: u64) -> TxnId {
        TxnId { coordinator: 1, sequence }
    }

    fn entry_of(sequence: u64, floor: u64, part: Part, operation: (u64, u64)) -> Entry<(u64, u64)> {
        let stamp = Stamp { epoch: 1, sequences: [(0, 1)].into() };
        let id = txn(sequence);
        let transaction =
            Transaction { id, floor, registration: 1, destinations: [0].into(), part, operation };
        Entry::Packet(Packet { stamp, client_floor: 0, transaction: Arc::new(transaction) })
    }

    fn entry(sequence: u64, floor: u64, number: u64) -> Entry<(u64, u64)> {
        entry_of(sequence, floor, Part::Independent, (0, number))
    }

    /// An entry of another client, which says that the first one is gone.
    fn last_entry() -> Entry<(u64, u64)> {
        let stamp = Stamp { epoch: 1, sequences: [(0, 9)].into() };
        let id = TxnId { coordinator: 2, sequence: 1 };
        let (part, operation) = (Part::Independent, (0, 1));
        let transaction =
            Transaction { id, floor: 1, registration: 5, destinations: [0].into(), part, operation };
        Entry::Packet(Packet { stamp, client_floor: 5, transaction: Arc::new(transaction) })
    }

    fn executed(entries: &[Entry<(u64, u64)>]) -> Execution<Sums> {
        let mut execution = Execution::new(Sums::default());
        entries.iter().for_each(|entry| execution.execute(entry, NoFaults));
        execution
    }

    /// The index with which a transaction was executed, and its answer.
    fn answer(execution: &Execution<Sums>, sequence: u64) -> Option<(Index, Option<u64>)> {
        let (at, outcome) = execution.outcome(txn(sequence))?;
        Some((at, outcome.clone().into_answer()))
    }

    #[test]
    fn a_repeated_transaction_keeps_its_first_answer() {
        let execution = executed(&[entry(1, 1, 5), Entry::NoOp, entry(2, 1, 7), entry(1, 1, 5)]);
        assert_eq!(execution.application().0, [(1, 0, 5), (3, 0, 12)]);
        assert_eq!((answer(&execution, 1), answer(&execution, 2)), (Some((1, Some(5))), Some((3, Some(12)))));
        assert_eq!(execution.executed(), 4);
    }

    #[test]
    fn a_transaction_below_the_floor_is_old_although_its_answer_is_forgotten() {
        let execution = executed(&[entry(1, 1, 5), entry(2, 2, 7), entry(1, 1, 5)]);
        assert_eq!(answer(&execution, 1), None);
        assert_eq!(execution.application().0, [(1, 0, 5), (2, 0, 12)]);
    }

    #[test]
    fn roll_back_restores_the_client_table() {
        let mut execution = executed(&[entry(1, 1, 5), entry(2, 2, 7), entry(3, 3, 9)]);
        execution.roll_back(1);
        assert_eq!((answer(&execution, 1), answer(&execution, 2)), (Some((1, Some(5))), None));
        execution.execute(&entry(2, 1, 7), NoFaults);
        assert_eq!((answer(&execution, 1), answer(&execution, 2)), (Some((1, Some(5))), Some((2, Some(12)))));
        execution.roll_back(0);
        assert_eq!((answer(&execution, 1), execution.executed()), (None, 0));
    }

    #[test]
    fn a_checkpoint_is_of_its_index_and_has_the_client_table() {
        let mut execution = executed(&[entry(1, 1, 5), entry(2, 2, 7), entry(3, 3, 9)]);
        let checkpoint = execution.checkpoint(1);
        execution.restore(&checkpoint);
        assert_eq!((execution.executed(), execution.application().0.as_slice()), (1, &[(1, 0, 5)][..]));
        assert_eq!((answer(&execution, 1), answer(&execution, 2)), (Some((1, Some(5))), None));
        execution.execute(&entry(1, 1, 5), NoFaults);
        assert_eq!((execution.executed(), execution.application().0.len()), (2, 1));
    }

    #[test]
    fn clients_that_are_gone_are_forgotten_where_the_log_says_so() {
        let mut execution = executed(&[entry(1, 1, 5), entry(2, 1, 7), last_entry()]);
        assert_eq!((execution.clients(), answer(&execution, 2)), (1, None));
        let checkpoint = execution.checkpoint(2);
        assert_eq!((checkpoint.clients[&1].answers.len(), checkpoint.client_floor), (2, 0));
        execution.roll_back(2);
        assert_eq!((execution.clients(), answer(&execution, 2)), (1, Some((2, Some(12)))));
        execution.execute(&last_entry(), NoFaults);
        assert_eq!((execution.clients(), answer(&execution, 2)), (1, None));
    }

    /// A general transaction on item 0, transactions that meet it, one that meets what waits, and one that meets neither.
    fn general() -> Vec<Entry<(u64, u64)>> {
        let commits = Part::Conclusory { preliminary: 1, commits: true };
        vec![
            entry_of(1, 1, Part::Preliminary, (0, 0)),
            entry_of(2, 1, Part::Independent, (0, 5)),
            entry_of(3, 1, Part::Preliminary, (0, 0)),
            entry_of(4, 1, Part::Independent, (1, 8)),
            entry_of(5, 1, commits, (0, 100)),
        ]
    }

    #[test]
    fn what_meets_a_lock_waits_in_the_order_of_the_log() {
        let mut execution = executed(&general()[..4]);
        assert_eq!(
            [1, 2, 3, 4].map(|of| answer(&execution, of)),
            [Some((1, Some(0))), None, None, Some((4, Some(8)))]
        );
        assert_eq!((execution.locks().held().count(), execution.locks().waiting()), (1, 2));
        execution.execute(&general()[1], NoFaults);
        assert_eq!(execution.locks().waiting(), 2, "a repeated transaction waits once");
        execution.roll_back(4);
        execution.execute(&general()[4], NoFaults);
        assert_eq!(
            [5, 2, 3].map(|of| answer(&execution, of)),
            [Some((5, Some(100))), Some((5, Some(105))), Some((5, Some(105)))]
        );
        assert_eq!((execution.locks().held().count(), execution.locks().waiting()), (1, 0));
        assert_eq!(execution.take_late(4).len(), 0);
        let late: Vec<_> = execution.take_late(5).into_iter().map(|(txn, _)| txn.sequence).collect();
        assert_eq!((late, execution.last_late()), (vec![2, 3], None));
    }

    #[test]
    fn the_lock_table_rolls_back_and_is_in_a_checkpoint() {
        let mut execution = executed(&general());
        let checkpoint = execution.checkpoint(4);
        execution.roll_back(4);
        assert_eq!((execution.locks().held().count(), execution.locks().waiting()), (1, 2));
        assert_eq!((answer(&execution, 2), execution.last_late()), (None, None));
        execution.roll_back(1);
        assert_eq!((execution.locks().held().count(), execution.locks().waiting()), (1, 0));
        execution.roll_back(0);
        assert!(execution.locks().is_free());
        execution.restore(&checkpoint);
        execution.execute(&general()[4], NoFaults);
        assert_eq!(answer(&execution, 2), Some((5, Some(105))));
    }

    #[test]
    fn whoever_comes_first_decides_on_a_general_transaction() {
        let abort = entry_of(1, 1, Part::ReplicaAbort, (0, 0));
        let mut entries = general();
        entries.insert(4, abort.clone());
        let execution = executed(&entries);
        assert_eq!(
            [5, 2, 3].map(|of| answer(&execution, of)),
            [Some((6, None)), Some((5, Some(5))), Some((5, Some(5)))]
        );
        assert_eq!(execution.locks().held().count(), 1, "the third transaction holds locks");
        let mut execution = executed(&general());
        execution.execute(&abort, NoFaults);
        assert_eq!((answer(&execution, 5), execution.locks().held().count()), (Some((5, Some(100))), 1));
        execution.execute(&general()[0], NoFaults);
        assert_eq!(execution.locks().held().count(), 1, "a repeated preliminary part locks nothing");
    }

    /// Both parts of a transaction come while its preliminary part waits, then an abort, which is too late.
    #[test]
    fn a_part_waits_for_its_preliminary_part() {
        let mut entries = general()[..3].to_vec();
        entries.push(entry_of(4, 1, Part::Conclusory { preliminary: 3, commits: true }, (0, 7)));
        entries.push(entry_of(3, 1, Part::ReplicaAbort, (0, 0)));
        let mut execution = executed(&entries);
        assert_eq!((execution.locks().held().count(), execution.locks().waiting()), (1, 3));
        execution.execute(&general()[4], NoFaults);
        assert_eq!(
            [2, 3, 4].map(|of| answer(&execution, of)),
            [105, 105, 112].map(|sum| Some((6, Some(sum))))
        );
        assert!(execution.locks().is_free());
    }

    #[test]
    fn a_preliminary_part_that_waits_is_withdrawn_by_an_abort() {
        let mut entries = general()[..3].to_vec();
        entries.push(entry_of(4, 1, Part::Independent, (0, 1)));
        entries.push(entry_of(3, 1, Part::ReplicaAbort, (0, 0)));
        let mut execution = executed(&entries);
        assert_eq!((answer(&execution, 3), execution.locks().waiting()), (Some((5, None)), 2));
        execution.roll_back(4);
        assert_eq!((answer(&execution, 3), execution.locks().waiting()), (None, 3));
        execution.execute(&entries[4], NoFaults);
        execution
            .execute(&entry_of(5, 1, Part::Conclusory { preliminary: 3, commits: true }, (0, 9)), NoFaults);
        execution.execute(&entry_of(1, 1, Part::ReplicaAbort, (0, 0)), NoFaults);
        assert_eq!(
            [2, 4, 5].map(|of| answer(&execution, of)),
            [Some((7, Some(5))), Some((7, Some(6))), Some((6, None))]
        );
        assert!(execution.locks().is_free());
    }

    #[test]
    fn the_answer_of_a_forgotten_client_that_waited_goes_nowhere() {
        let mut entries = general()[..2].to_vec();
        entries.push(last_entry());
        entries.push(entry_of(1, 1, Part::ReplicaAbort, (0, 0)));
        let execution = executed(&entries);
        assert_eq!(execution.application().0, [(1, 0, 0), (4, 0, 5), (4, 0, 6)]);
        assert_eq!((execution.clients(), execution.locks().is_free()), (1, true));
    }
}
