//! Data on which replicas execute committed transactions themselves, in the place of values that clients have computed.
//!
//! A client is told of the versions that its transaction depends on, and what the transaction answers there. Once it is committed, each replica
//! executes it as soon as the replica has executed what it has read. Versions make a chain for each key that transactions read and write, so
//! all replicas execute those of a key in one order, however their commits arrive.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::application::{AnswerOf, Application, OneShot};
use super::super::operation::{Access, Key};
use super::{Request, Timestamp, Versioned};

/// The data of a shard.
#[derive(Clone, Debug)]
pub struct Replayed<A: Application> {
    application: A,
    /// Of each key, the last transaction that was executed here and writes it. Never later than the last one that is committed.
    executed: FxHashMap<Key, Timestamp>,
    /// Committed transactions that have read what is not executed here.
    deferred: Vec<Arc<Request<A::Operation>>>,
}

impl<A: Application> Replayed<A> {
    pub fn new(application: A) -> Replayed<A> {
        Replayed { application, executed: FxHashMap::default(), deferred: Vec::new() }
    }

    fn version(&self, key: Key) -> Timestamp {
        self.executed.get(&key).copied().unwrap_or_default()
    }

    /// Versions of keys as the data are, and what the operation would answer.
    pub fn read(&self, keys: &[Key], operation: &A::Operation) -> (Versioned, AnswerOf<A>) {
        let versions = keys.iter().map(|key| (*key, 0, self.version(*key))).collect();
        (versions, self.application.answer(operation, &[]))
    }

    /// Executes a committed transaction, now or once what it has read is executed.
    pub fn commit(&mut self, request: &Arc<Request<A::Operation>>) {
        self.deferred.push(request.clone());
        while let Some(place) = self.deferred.iter().position(|request| self.has_read_of(request)) {
            let request = self.deferred.swap_remove(place);
            self.execute(&request);
        }
    }

    /// Returns whether what the transaction has read here is executed. What it does not write may have been written since: it was committed
    /// as one that depends on that only as far as it may.
    fn has_read_of(&self, request: &Request<A::Operation>) -> bool {
        let (shard, placement) = self.application.place();
        let own = request.operation.keys_read_at(shard, placement);
        let mut read = request.reads.iter().filter(|(key, ..)| own.contains(key));
        read.all(|(key, _, version)| self.version(*key) >= *version)
    }

    fn execute(&mut self, request: &Request<A::Operation>) {
        let (shard, placement) = self.application.place();
        self.application.execute_for_good(&request.operation, &[]);
        for (key, access) in request.operation.accesses_at(shard, placement) {
            if access == Access::Write {
                let version = self.executed.entry(key).or_default();
                assert!(*version < request.at, "a transaction has read what it replaces");
                *version = request.at;
            }
        }
    }

    /// Returns whether everything that is committed is executed.
    pub fn is_up_to_date(&self) -> bool {
        self.deferred.is_empty()
    }

    pub fn application(&self) -> &A {
        &self.application
    }
}
