//! The state of a shard after the execution of a prefix of its log that is the same for good.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_core::ids::CoordinatorId;

use crate::message::Registration;
use crate::packet::{Index, Outcome};
use crate::replica::locks::Locks;

/// The state after the entry with that index: of the application, of the client table and of the lock table, all of which are executed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint<O, R, S> {
    pub index: Index,
    pub application: S,
    pub clients: BTreeMap<CoordinatorId, Answers<R>>,
    /// No client in the table has a lower registration.
    pub client_floor: Registration,
    pub locks: Locks<O>,
}

/// How far a transaction is that has had its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress<R> {
    /// It waits for locks.
    Waiting,
    /// It was executed as a part of the entry with that index, which is its own or a later one.
    Done { at: Index, outcome: Outcome<R> },
}

/// Answers that a client may ask for again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answers<R> {
    pub registration: Registration,
    /// The client has all answers with lower sequences.
    pub floor: u64,
    /// Ascending by sequence; none below the floor. New ones mostly come last, and old ones are forgotten first.
    pub answers: VecDeque<(u64, Progress<R>)>,
}

impl<R> Answers<R> {
    /// Where a transaction is, or would be. Mostly that is the end.
    fn place(&self, sequence: u64) -> Result<usize, usize> {
        match self.answers.back() {
            Some((last, _)) if *last > sequence => {
                self.answers.binary_search_by_key(&sequence, |(sequence, _)| *sequence)
            }
            Some((last, _)) if *last == sequence => Ok(self.answers.len() - 1),
            _ => Err(self.answers.len()),
        }
    }

    pub fn get(&self, sequence: u64) -> Option<&Progress<R>> {
        self.place(sequence).ok().map(|place| &self.answers[place].1)
    }

    /// Returns what was there before.
    pub fn insert(&mut self, sequence: u64, progress: Progress<R>) -> Option<Progress<R>> {
        match self.place(sequence) {
            Ok(place) => Some(std::mem::replace(&mut self.answers[place].1, progress)),
            Err(place) => {
                self.answers.insert(place, (sequence, progress));
                None
            }
        }
    }

    pub fn remove(&mut self, sequence: u64) {
        if let Ok(place) = self.place(sequence) {
            self.answers.remove(place);
        }
    }

    /// Takes the first one, if that is below the floor.
    pub fn take_below_floor(&mut self) -> Option<(u64, Progress<R>)> {
        let is_below = self.answers.front().is_some_and(|(sequence, _)| *sequence < self.floor);
        if is_below { self.answers.pop_front() } else { None }
    }
}

impl<R> Default for Answers<R> {
    fn default() -> Self {
        Answers { registration: 0, floor: 0, answers: VecDeque::new() }
    }
}
