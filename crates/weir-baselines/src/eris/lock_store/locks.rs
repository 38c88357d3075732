//! Locks of a shard's leader: whole requests get all their keys at once, or wait, or are refused (wait-die).
//!
//! A request over several shards never waits for an older one, so there are no circles of waits. One of this shard alone holds nothing while
//! it waits, so it waits for anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::ids::TxnId;

use super::super::application::OneShot;
use super::super::operation::{Access, Key};
use super::{Age, Request};

/// Keys that a request accesses at this shard.
pub type Accesses = Vec<(Key, Access)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// No other request has a lock that conflicts.
    Granted,
    Waits,
    Refused,
}

#[derive(Clone, Debug)]
struct Waiter<O: OneShot> {
    request: Arc<Request<O>>,
    accesses: Accesses,
    /// Of this shard alone.
    is_single: bool,
}

/// The locks.
#[derive(Clone, Debug)]
pub struct Locks<O: OneShot> {
    holders: BTreeMap<Key, Vec<(Age, Access)>>,
    held: BTreeMap<TxnId, (Age, Accesses)>,
    waiting: BTreeMap<Age, Waiter<O>>,
    /// Transactions that wait for a key.
    waiters: BTreeMap<Key, BTreeSet<Age>>,
}

fn conflicts(a: Access, b: Access) -> bool {
    a == Access::Write || b == Access::Write
}

impl<O: OneShot> Default for Locks<O> {
    fn default() -> Self {
        Locks {
            holders: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiters: BTreeMap::new(),
        }
    }
}

impl<O: OneShot> Locks<O> {
    /// Decides on a request that neither holds nor waits.
    pub fn admit(&mut self, request: &Arc<Request<O>>, accesses: &Accesses, is_single: bool) -> Admission {
        let age = request.age();
        let mut is_free = true;
        for holder in self.conflicting_holders(accesses) {
            if holder < age && !is_single {
                return Admission::Refused;
            }
            is_free = false;
        }
        if !is_single && self.conflicting_waiters(accesses).any(|waiter| waiter < age) {
            return Admission::Refused;
        }
        if is_free {
            return Admission::Granted;
        }
        for (key, _) in accesses {
            self.waiters.entry(*key).or_default().insert(age);
        }
        let (request, accesses) = (request.clone(), accesses.clone());
        self.waiting.insert(age, Waiter { request, accesses, is_single });
        Admission::Waits
    }

    /// Ages of the holders of locks that conflict.
    fn conflicting_holders<'a>(&'a self, accesses: &'a Accesses) -> impl Iterator<Item = Age> + 'a {
        accesses.iter().flat_map(move |(key, access)| {
            let holders = self.holders.get(key).into_iter().flatten();
            holders.filter(move |(_, held)| conflicts(*held, *access)).map(|(age, _)| *age)
        })
    }

    /// Ages of waiting requests over several shards that conflict.
    fn conflicting_waiters<'a>(&'a self, accesses: &'a Accesses) -> impl Iterator<Item = Age> + 'a {
        accesses.iter().flat_map(move |(key, access)| {
            let ages = self.waiters.get(key).into_iter().flatten();
            ages.copied().filter(move |age| {
                let Some(waiter) = self.waiting.get(age).filter(|waiter| !waiter.is_single) else {
                    return false;
                };
                waiter.accesses.iter().any(|(of, wanted)| of == key && conflicts(*wanted, *access))
            })
        })
    }

    /// A request over several shards has its locks from now on. Returns the younger ones that would wait for it, which are refused.
    pub fn hold(&mut self, request: &Request<O>, accesses: Accesses) -> Vec<Arc<Request<O>>> {
        let age = request.age();
        for (key, access) in &accesses {
            self.holders.entry(*key).or_default().push((age, *access));
        }
        let younger: BTreeSet<_> =
            self.conflicting_waiters(&accesses).filter(|waiter| *waiter > age).collect();
        self.held.insert(request.txn, (age, accesses));
        younger.into_iter().filter_map(|age| self.leave(age)).collect()
    }

    /// Gives locks back. Returns the requests that may be admitted now, which wait no more, the oldest first.
    pub fn release(&mut self, txn: TxnId) -> Vec<Arc<Request<O>>> {
        let Some((age, accesses)) = self.held.remove(&txn) else { return Vec::new() };
        let mut woken = BTreeSet::new();
        for (key, _) in &accesses {
            if let Some(holders) = self.holders.get_mut(key) {
                holders.retain(|(holder, _)| *holder != age);
                if holders.is_empty() {
                    self.holders.remove(key);
                }
            }
            woken.extend(self.waiters.get(key).into_iter().flatten().copied());
        }
        woken.into_iter().filter_map(|age| self.leave(age)).collect()
    }

    /// The request waits no more.
    fn leave(&mut self, age: Age) -> Option<Arc<Request<O>>> {
        let waiter = self.waiting.remove(&age)?;
        for (key, _) in &waiter.accesses {
            if let Some(ages) = self.waiters.get_mut(key) {
                ages.remove(&age);
                if ages.is_empty() {
                    self.waiters.remove(key);
                }
            }
        }
        Some(waiter.request)
    }

    /// The attempt of a transaction that waits.
    pub fn waiting_attempt(&self, age: Age) -> Option<u32> {
        self.waiting.get(&age).map(|waiter| waiter.request.attempt)
    }

    pub fn stop_waiting(&mut self, age: Age) {
        self.leave(age);
    }

    pub fn clear(&mut self) {
        *self = Locks::default();
    }
}

#[cfg(test)]
mod unit_tests {
    use super::super::super::operation::{Action, Operation};
    use super::*;

    fn request(begun_ms: u64) -> Arc<Request> {
        let txn = TxnId { coordinator: begun_ms, sequence: 1 };
        let operation = Operation::new([Action::Read(0)]);
        Arc::new(Request { txn, attempt: 0, begun_ms, floor: 0, operation })
    }

    fn write(keys: &[Key]) -> Accesses {
        keys.iter().map(|key| (*key, Access::Write)).collect()
    }

    fn read(keys: &[Key]) -> Accesses {
        keys.iter().map(|key| (*key, Access::Read)).collect()
    }

    /// Takes the locks, if they are to be had.
    fn take(locks: &mut Locks<Operation>, begun_ms: u64, accesses: Accesses) -> Admission {
        let request = request(begun_ms);
        let admission = locks.admit(&request, &accesses, false);
        if admission == Admission::Granted {
            locks.hold(&request, accesses);
        }
        admission
    }

    fn begun(requests: &[Arc<Request>]) -> Vec<u64> {
        requests.iter().map(|request| request.begun_ms).collect()
    }

    #[test]
    fn older_ones_wait_and_younger_ones_are_refused() {
        let mut locks = Locks::default();
        assert_eq!(take(&mut locks, 5, write(&[1])), Admission::Granted);
        assert_eq!(take(&mut locks, 3, write(&[1, 2])), Admission::Waits);
        assert_eq!(take(&mut locks, 7, write(&[1])), Admission::Refused, "the holder is older");
        assert_eq!(take(&mut locks, 4, write(&[2])), Admission::Refused, "an older one waits");
        assert_eq!(take(&mut locks, 6, write(&[3])), Admission::Granted);
        assert_eq!(begun(&locks.release(request(5).txn)), [3]);
        assert_eq!(locks.held.len(), 1);
    }

    #[test]
    fn shared_locks_go_together() {
        let mut locks = Locks::default();
        assert_eq!(take(&mut locks, 5, read(&[1])), Admission::Granted);
        assert_eq!(take(&mut locks, 6, read(&[1])), Admission::Granted);
        assert_eq!(take(&mut locks, 4, write(&[1])), Admission::Waits);
        assert_eq!(locks.release(request(5).txn).len(), 1, "it is asked again");
    }

    #[test]
    fn one_that_gets_its_locks_refuses_younger_ones_that_wait() {
        let mut locks = Locks::default();
        take(&mut locks, 9, write(&[1]));
        assert_eq!(take(&mut locks, 5, write(&[1, 2])), Admission::Waits);
        let older = request(4);
        assert_eq!(locks.admit(&older, &write(&[2]), false), Admission::Granted);
        assert_eq!(begun(&locks.hold(&older, write(&[2]))), [5]);
    }

    #[test]
    fn a_request_of_one_shard_waits_for_anybody() {
        let mut locks = Locks::default();
        take(&mut locks, 1, write(&[1]));
        assert_eq!(locks.admit(&request(5), &write(&[1]), true), Admission::Waits);
        assert_eq!(locks.waiting_attempt(request(5).age()), Some(0));
        assert_eq!(take(&mut locks, 7, write(&[2])), Admission::Granted);
        assert_eq!(begun(&locks.release(request(1).txn)), [5]);
    }
}
