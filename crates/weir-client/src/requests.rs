//! The transactions of an application: they come from its threads and go back there, each with a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weir_net::ClusterFile;
use weir_txn::items::{
    Coordinator, Done, GivenUp, Isolation, Key, KeyRange, Options, Partition, Request, Transaction, Write,
};
use weir_txn::machine::{Clients, Coordinator as _, Orders};

use crate::carrier::{Trouble, new_id, now_ms};
use crate::pending::{Pending, Promise};
use crate::{Committed, Error, Settings};

/// What an application wants.
pub(crate) enum Wish {
    Transaction(Transaction),
    /// A transaction of several statements begins; the others are of one that has.
    Open(Isolation),
    Read(Vec<Key>, Vec<KeyRange>),
    Write(Key, Write),
    Commit,
    RollBack,
}

/// Between the application's threads and the loop's.
pub(crate) struct Shared {
    next_tag: AtomicU64,
    queue: Mutex<Queue>,
    room: Condvar,
    under_way_max: usize,
    pub(crate) is_closed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    submitted: Vec<(u64, Wish, Promise)>,
    /// Submitted and not answered.
    under_way: usize,
    /// The loop has ended.
    has_ended: bool,
}

impl Shared {
    pub(crate) fn new(under_way_max: usize) -> Shared {
        Shared {
            next_tag: AtomicU64::new(0),
            queue: Mutex::default(),
            room: Condvar::new(),
            under_way_max: under_way_max.max(1),
            is_closed: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name that no other transaction of the client has.
    pub(crate) fn new_tag(&self) -> u64 {
        self.next_tag.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn submit(&self, tag: u64, wish: Wish) -> Pending {
        let mut queue = self.lock();
        while queue.under_way >= self.under_way_max && !queue.has_ended {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.has_ended {
            return Pending::broken();
        }
        let (pending, promise) = Pending::new();
        queue.submitted.push((tag, wish, promise));
        queue.under_way += 1;
        pending
    }

    fn on_answered(&self, count: usize) {
        if count > 0 {
            self.lock().under_way -= count;
            self.room.notify_all();
        }
    }
}

/// Tells everyone that the loop has ended, however it has.
pub(crate) struct Last(pub(crate) Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.has_ended = true;
        queue.submitted.clear();
        self.0.room.notify_all();
    }
}

/// The loop's side.
pub(crate) struct Requests {
    coordinator: Coordinator,
    options: Options,
    settings: Settings,
    shared: Arc<Shared>,
    trouble: Trouble,
    waiting: BTreeMap<u64, (Promise, Instant)>,
    deadlines: BTreeSet<(Instant, u64)>,
}

type Out = Orders<Request, Done>;

impl Requests {
    pub(crate) fn new(
        cluster: &ClusterFile,
        settings: Settings,
        shared: Arc<Shared>,
    ) -> io::Result<Requests> {
        let options = Options {
            variant: cluster.variant,
            shards: cluster.shards,
            // A shard may crash and start again.
            links_keep_order: false,
            one_phase: settings.one_phase,
            bugs: Default::default(),
        };
        Ok(Requests {
            coordinator: Coordinator::new(new_id()?, 0, options),
            options,
            settings,
            shared,
            trouble: Trouble::default(),
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
        })
    }

    pub(crate) fn set_trouble(&mut self, trouble: Trouble) {
        self.trouble = trouble;
    }

    fn take_submitted(&mut self, orders: &mut Out) {
        let submitted = std::mem::take(&mut self.shared.lock().submitted);
        if submitted.is_empty() {
            return;
        }
        let until = Instant::now() + self.settings.deadline;
        for (tag, wish, promise) in submitted {
            self.waiting.insert(tag, (promise, until));
            self.deadlines.insert((until, tag));
            if let Some(outcome) = self.grant(tag, wish, orders) {
                self.answer(tag, outcome);
            }
        }
    }

    /// What needs no answer of a shard is answered at once.
    fn grant(&mut self, tag: u64, wish: Wish, orders: &mut Out) -> Option<Result<Committed, Error>> {
        let coordinator = &mut self.coordinator;
        match wish {
            Wish::Transaction(transaction) => coordinator.begin(now_ms(), tag, transaction, orders),
            Wish::Read(keys, ranges) => coordinator.read(now_ms(), tag, keys, ranges, orders),
            Wish::Commit => coordinator.commit(now_ms(), tag, orders),
            Wish::Open(isolation) => {
                coordinator.open(tag, isolation);
                return Some(Ok(Committed::default()));
            }
            Wish::Write(key, write) => {
                let written =
                    coordinator.write(tag, key, write).map_err(|error| Error::Unfit(error.to_string()));
                return Some(written.map(|()| Committed::default()));
            }
            Wish::RollBack => {
                coordinator.roll_back(tag);
                return Some(Ok(Committed::default()));
            }
        }
        None
    }

    fn answer(&mut self, tag: u64, outcome: Result<Committed, Error>) {
        // Of one that was given up nobody waits to hear.
        let Some((promise, until)) = self.waiting.remove(&tag) else { return };
        self.deadlines.remove(&(until, tag));
        self.shared.on_answered(1);
        promise.keep(outcome);
    }

    fn on_deadlines(&mut self, orders: &mut Out) {
        let now = Instant::now();
        while let Some((until, tag)) = self.deadlines.first().copied()
            && until <= now
        {
            let why =
                self.trouble.in_words().unwrap_or_else(|| "the shards have not answered in time".into());
            let error = match self.coordinator.give_up(tag, orders) {
                GivenUp::NothingHappened => Error::Deadline(why),
                GivenUp::Unknown => Error::Unknown(why),
            };
            self.answer(tag, Err(error));
        }
    }

    /// Gives all that is under way up.
    fn end_all(&mut self, orders: &mut Out, error: impl Fn(GivenUp) -> Error) {
        let tags: Vec<u64> = self.waiting.keys().copied().collect();
        for tag in tags {
            let given_up = self.coordinator.give_up(tag, orders);
            self.answer(tag, Err(error(given_up)));
        }
    }

    /// Shards have forgotten the coordinator: a new one takes its place.
    fn begin_anew(&mut self, orders: &mut Out) {
        let why =
            || "the shards have not heard of this client for a minute, and have forgotten it".to_string();
        // What it could still give up it does not give up: nobody listens to it.
        self.end_all(&mut Out::default(), |_| Error::Unknown(why()));
        if let Ok(id) = new_id() {
            self.coordinator = Coordinator::new(id, 0, self.options);
            orders.sends.clear();
        }
    }
}

impl Clients<Partition> for Requests {
    type Coordinator = Coordinator;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    fn begin(&mut self, orders: &mut Out) {
        self.take_submitted(orders);
    }

    fn go_on(&mut self, orders: &mut Out) {
        for (tag, done) in std::mem::take(&mut orders.done) {
            let outcome = match done {
                Done::Committed { read, stamp, rounds } => Ok(Committed { read, stamp, rounds }),
                Done::Read { read, rounds } => Ok(Committed { read, stamp: None, rounds: (rounds, 0) }),
                Done::Aborted | Done::Conflict => Err(Error::Aborted),
                Done::Restart => Err(Error::Restart),
                Done::TooLarge => Err(Error::Unfit(
                    "a read of more than 16 MiB from one shard: read in parts, or fewer items at once".into(),
                )),
            };
            self.answer(tag, outcome);
        }
        if self.coordinator.is_retired() {
            self.begin_anew(orders);
        }
        self.take_submitted(orders);
        self.on_deadlines(orders);
        if self.trouble.is_refusal() {
            let why = self.trouble.in_words().unwrap_or_default();
            self.end_all(orders, |given_up| match given_up {
                GivenUp::NothingHappened => Error::Refused(why.clone()),
                GivenUp::Unknown => Error::Unknown(why.clone()),
            });
        }
        if self.shared.is_closed.load(Ordering::Acquire) {
            self.end_all(orders, |_| Error::Closed("it was dropped".into()));
        }
    }

    fn have_ended(&mut self) -> bool {
        self.shared.is_closed.load(Ordering::Acquire)
    }
}
