//! Locks on items, shared or exclusive, first come first served.
//!
//! Every item has one queue. A request is appended to it while others wait, even if the lock as it is held would admit it: no request is
//! overtaken, so neither writers nor readers starve. The manager never blocks and has no clock: an owner that has to wait is told so, and
//! is named among the woken later. It does not detect deadlocks: an owner of several locks takes them in key order (ramp.txt §5.1).

use std::collections::VecDeque;
use std::fmt::Debug;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use weir_kv::Key;

use crate::faults::Faults;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Beside other shared ones.
    Shared,
    /// Alone.
    Exclusive,
}

#[derive(Debug)]
struct Lock<O> {
    /// Mode of the holders; several only if shared.
    mode: Mode,
    holders: SmallVec<[O; 2]>,
    queue: VecDeque<(O, Mode)>,
}

/// The locks of one shard, by key. `O` names an owner.
#[derive(Debug)]
pub struct LockManager<O, F> {
    /// Only items that are locked.
    locks: FxHashMap<Key, Lock<O>>,
    bugs: F,
}

impl<O: Copy + Eq + Debug, F: Faults> LockManager<O, F> {
    pub fn new(bugs: F) -> LockManager<O, F> {
        LockManager { locks: FxHashMap::default(), bugs }
    }

    /// Takes the lock, or goes to the end of its queue and says false. An owner asks for an item once: what
    /// it has or waits for it must not ask for again.
    pub fn acquire(&mut self, key: &Key, owner: O, mode: Mode) -> bool {
        let Some(lock) = self.locks.get_mut(key) else {
            self.locks.insert(key.clone(), Lock { mode, holders: smallvec![owner], queue: VecDeque::new() });
            return true;
        };
        debug_assert!(!lock.knows(owner), "{owner:?} asks again for {key:?}");
        if lock.queue.is_empty() && lock.admits(mode, self.bugs.shared_beside_exclusive()) {
            lock.grant(owner, mode);
            return true;
        }
        lock.queue.push_back((owner, mode));
        false
    }

    /// Returns whether a shared lock would be granted at once. For a read so short that no other request can come before its end.
    pub fn admits_shared(&self, key: &Key) -> bool {
        let Some(lock) = self.locks.get(key) else { return true };
        lock.queue.is_empty() && lock.admits(Mode::Shared, self.bugs.shared_beside_exclusive())
    }

    /// Gives the lock back, or leaves its queue. Those who have it from now on are added to `woken`, in the
    /// order in which they came.
    pub fn release(&mut self, key: &Key, owner: O, woken: &mut Vec<O>) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        match lock.holders.iter().position(|holder| *holder == owner) {
            Some(at) => _ = lock.holders.swap_remove(at),
            None => lock.queue.retain(|(waiter, _)| *waiter != owner),
        }
        // Also when a waiter goes: those behind it may be admitted now.
        while let Some(&(next, mode)) = lock.queue.front()
            && lock.admits(mode, self.bugs.shared_beside_exclusive())
        {
            lock.queue.pop_front();
            lock.grant(next, mode);
            woken.push(next);
        }
        if lock.holders.is_empty() {
            assert!(lock.queue.is_empty(), "a free lock has been granted to the first who waits");
            self.locks.remove(key);
        }
    }

    /// Returns whether no lock is held.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }
}

impl<O: Copy + Eq> Lock<O> {
    fn admits(&self, mode: Mode, shared_beside_exclusive: bool) -> bool {
        self.holders.is_empty()
            || mode == Mode::Shared && (self.mode == Mode::Shared || shared_beside_exclusive)
    }

    fn grant(&mut self, owner: O, mode: Mode) {
        self.mode = mode;
        self.holders.push(owner);
    }

    fn knows(&self, owner: O) -> bool {
        self.holders.contains(&owner) || self.queue.iter().any(|(waiter, _)| *waiter == owner)
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Exclusive, Shared};
    use super::*;
    use crate::faults::NoFaults;

    /// `S1`, `X2`: asks; `-1`: gives back or leaves. After each the owners that have the lock since, in
    /// order.
    #[track_caller]
    fn check(script: &str, expected: &str) {
        let key = Key::from("x");
        let mut locks = LockManager::new(NoFaults);
        let mut granted = Vec::new();
        for word in script.split(' ') {
            let owner: u32 = word[1..].parse().expect("a number");
            let mut now = Vec::new();
            match &word[..1] {
                "-" => locks.release(&key, owner, &mut now),
                mode => {
                    let mode = if mode == "S" { Shared } else { Exclusive };
                    if locks.acquire(&key, owner, mode) {
                        now.push(owner);
                    }
                }
            }
            let names: Vec<String> = now.iter().map(u32::to_string).collect();
            granted.push(if names.is_empty() { ".".to_owned() } else { names.join("+") });
        }
        assert_eq!(granted.join(" "), expected, "{script}");
    }

    #[test]
    fn shared_locks_go_together_and_exclusive_ones_alone() {
        check("S1 S2 S3", "1 2 3");
        check("X1 X2 S3", "1 . .");
        check("S1 X2", "1 .");
        check("X1 X2 -1 -2", "1 . 2 .");
        check("X1 S2 S3 -1", "1 . . 2+3");
        check("S1 S2 X3 -1 -2", "1 2 . . 3");
    }

    #[test]
    fn nobody_is_overtaken() {
        check("S1 X2 S3 -1 -2", "1 . . 2 3");
        check("X1 S2 X3 S4 -1 -2 -3", "1 . . . 2 3 4");
        check("S1 X2 S3 S4 X5 -1 -2 -3 -4", "1 . . . . 2 3+4 . 5");
    }

    #[test]
    fn a_waiter_that_leaves_wakes_those_behind_it() {
        check("S1 X2 S3 S4 -2", "1 . . . 3+4");
        check("X1 X2 X3 -2 -1", "1 . . . 3");
        check("X1 S2 X3 S4 -3 -1", "1 . . . . 2+4");
    }

    #[test]
    fn what_is_given_back_twice_changes_nothing() {
        check("X1 X2 -1 -1 X3 -2", "1 . 2 . . 3");
        check("-1 X1 -2 X3", ". 1 . .");
    }

    /// Random owners on few items, compared with a plain model of arrivals, holders and waiters.
    #[test]
    fn never_two_writers_and_never_a_free_lock_with_waiters() {
        for seed in 0..200 {
            let mut random = crate::chance::Chance::from_seed(seed);
            let mut locks = LockManager::new(NoFaults);
            let keys = ["a", "b"].map(Key::from);
            let mut model: [Vec<(u32, Mode, bool)>; 2] = Default::default();
            for owner in 0..300 {
                let at = random.below(2) as usize;
                let asks = model[at].len() < 2 || random.below(2) == 0;
                let mut woken = Vec::new();
                if asks {
                    let mode = if random.below(3) == 0 { Exclusive } else { Shared };
                    let granted = locks.acquire(&keys[at], owner, mode);
                    model[at].push((owner, mode, granted));
                } else {
                    let who = random.below(model[at].len() as u64) as usize;
                    let (gone, ..) = model[at].remove(who);
                    locks.release(&keys[at], gone, &mut woken);
                }
                for entry in model[at].iter_mut().filter(|entry| woken.contains(&entry.0)) {
                    assert!(!entry.2, "woken twice");
                    entry.2 = true;
                }
                // First come first served: the holders are the longest prefix that may hold together.
                let exclusive = model[at].first().is_some_and(|entry| entry.1 == Exclusive);
                let shared = model[at].iter().take_while(|entry| entry.1 == Shared).count();
                let holders = if exclusive { 1 } else { shared };
                let held: Vec<bool> = model[at].iter().map(|entry| entry.2).collect();
                let expected: Vec<bool> = (0..model[at].len()).map(|at| at < holders).collect();
                assert_eq!(held, expected, "seed {seed}: {:?}", model[at]);
            }
            for (key, entries) in keys.iter().zip(&mut model) {
                for (owner, ..) in entries.drain(..) {
                    locks.release(key, owner, &mut Vec::new());
                }
            }
            assert!(locks.is_empty());
        }
    }
}
