//! Queue of operations from an application's threads to the loop, and their results, each with a deadline.
//!
//! Independent of items and calls: a [`Dialect`] defines the operations and the coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::ids::{CoordinatorId, ShardId};
use weir_core::machine::{ClientOrders, Clients, Coordinator as _, CoordinatorOf, Exposed, Shard};
use weir_core::nearby::{Nearby, Neighbours};
use weir_kv::GivenUp;
use weir_net::ClusterFile;
use weir_net::handshake::Terms;
use weir_types::{SqlError, SqlState};

use crate::carrier::{Carrier, Mailbox, Trouble, new_id};
use crate::pending::{Outcome, Pending, Promise};
use crate::{Error, Settings};

/// Operations of one kind of clients, and their coordinator.
pub(crate) trait Dialect: Sized + Send + 'static {
    type Shard: Exposed;
    type Coordinator: CoordinatorOf<Self::Shard>;
    type Wish: Send + 'static;
    type Outcome: Send + 'static;

    fn coordinator(&mut self) -> &mut Self::Coordinator;
    /// Another coordinator, of that name, takes its place.
    fn begin_anew(&mut self, id: CoordinatorId);
    /// Begins an operation, or answers at once if it needs no shard.
    fn grant(
        &mut self,
        tag: u64,
        wish: Self::Wish,
        orders: &mut ClientOrders<Self::Shard, Requests<Self>>,
    ) -> Option<Result<Self::Outcome, Error>>;
    fn outcome(&mut self, tag: u64, done: DoneOf<Self>) -> Outcome<Self::Outcome>;
    /// Abandons an operation, and cancels it as far as possible.
    fn give_up(&mut self, tag: u64, orders: &mut ClientOrders<Self::Shard, Requests<Self>>) -> GivenUp;
    /// Shards that it waits for; none: unknown.
    fn awaited(&mut self, _tag: u64) -> Option<Vec<ShardId>> {
        None
    }
    /// Cancels an operation at its client's request: if it has no effect, its result is this error. Returns false if operations of this
    /// kind never wait, so that there is nothing to cancel.
    fn cancel(
        &mut self,
        _tag: u64,
        _error: SqlError,
        _orders: &mut ClientOrders<Self::Shard, Requests<Self>>,
    ) -> bool {
        false
    }
}

type DoneOf<D> = <<D as Dialect>::Coordinator as weir_core::machine::Coordinator>::Done;
type Out<D> = ClientOrders<<D as Dialect>::Shard, Requests<D>>;

/// Between the application's threads and the loop's.
pub(crate) struct Shared<D: Dialect> {
    next_tag: AtomicU64,
    queue: Mutex<Queue<D>>,
    room: Condvar,
    under_way_max: usize,
    is_closed: AtomicBool,
    /// See [`Settings::waits_for_busy`].
    waits_for_busy: AtomicBool,
}

struct Queue<D: Dialect> {
    submitted: Vec<(u64, D::Wish, Promise<D::Outcome>)>,
    cancelled: Vec<(u64, SqlError)>,
    /// Submitted and not answered.
    in_flight: usize,
    /// The loop has ended.
    has_ended: bool,
}

impl<D: Dialect> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, Queue<D>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, tag: u64, wish: D::Wish) -> Pending<D::Outcome> {
        let mut queue = self.lock();
        while queue.in_flight >= self.under_way_max && !queue.has_ended {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.has_ended {
            return Pending::broken();
        }
        let (pending, promise) = Pending::new(tag);
        queue.submitted.push((tag, wish, promise));
        queue.in_flight += 1;
        pending
    }

    /// Something has been submitted, or is to be cancelled.
    fn has_more(&self) -> bool {
        let queue = self.lock();
        !queue.submitted.is_empty() || !queue.cancelled.is_empty()
    }

    fn on_answered(&self) {
        let mut queue = self.lock();
        let was_full = queue.in_flight >= self.under_way_max;
        queue.in_flight -= 1;
        drop(queue);
        if was_full {
            self.room.notify_all();
        }
    }
}

/// Tells everyone that the loop has ended, however it has.
struct Last<D: Dialect>(Arc<Shared<D>>);

impl<D: Dialect> Drop for Last<D> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.has_ended = true;
        queue.submitted.clear();
        self.0.room.notify_all();
    }
}

/// The application's side: a loop on a thread of its own. Dropping it ends what is under way.
pub(crate) struct Session<D: Dialect> {
    shared: Arc<Shared<D>>,
    mailbox: Arc<Mailbox<D::Shard, Requests<D>>>,
    /// Some shards are in this process: a submitting thread runs them itself.
    has_neighbours: bool,
    /// The only shard of the cluster, if it is in this process.
    only_shard: Option<Arc<dyn Nearby<D::Shard>>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Dialect> Session<D>
where
    <D::Shard as Shard>::Request: Serialize,
    <D::Shard as Shard>::Reply: DeserializeOwned,
    <D::Shard as Shard>::Progress: Serialize,
{
    /// # Errors
    /// A certificate that cannot be used, or the system's.
    pub(crate) fn begin(
        cluster: &ClusterFile,
        terms: Terms,
        dialect: D,
        settings: &Settings,
        neighbours: Neighbours<D::Shard>,
    ) -> Result<Session<D>, Error> {
        let closed = |error: io::Error| Error::Closed(error.to_string());
        let shared = Arc::new(Shared {
            next_tag: AtomicU64::new(0),
            queue: Mutex::new(Queue {
                submitted: Vec::new(),
                cancelled: Vec::new(),
                in_flight: 0,
                has_ended: false,
            }),
            room: Condvar::new(),
            under_way_max: settings.under_way_max.max(1),
            is_closed: AtomicBool::new(false),
            waits_for_busy: AtomicBool::new(settings.waits_for_busy),
        });
        let (trouble, has_neighbours) = (Trouble::default(), !neighbours.is_empty());
        let only_shard = match &neighbours[..] {
            [(_, shard)] if cluster.shards == 1 => Some(shard.clone()),
            _ => None,
        };
        let requests = Requests {
            dialect,
            settings: settings.clone(),
            shared: shared.clone(),
            trouble: trouble.clone(),
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            cancelled: BTreeMap::new(),
        };
        let terms = Terms { versions: settings.versions.clone(), ..terms };
        let has_more = {
            let shared = shared.clone();
            Box::new(move || shared.has_more())
        };
        let carrier = Carrier::beside((cluster.clone(), terms), requests, neighbours, trouble, has_more)
            .map_err(closed)?;
        let mailbox = carrier.mailbox();
        let run = {
            let shared = shared.clone();
            move || {
                // Wakes all waiters, however the thread ends.
                let _last = Last(shared);
                carrier.run();
            }
        };
        let thread = std::thread::Builder::new().name("weir-client".into()).spawn(run).map_err(closed)?;
        Ok(Session { shared, mailbox, has_neighbours, only_shard, thread: Some(thread) })
    }

    /// A name that no other transaction of the session has.
    pub(crate) fn new_tag(&self) -> u64 {
        self.shared.next_tag.fetch_add(1, Ordering::Relaxed)
    }

    /// The only shard of the cluster, if it is in this process.
    pub(crate) fn only_shard(&self) -> Option<&dyn Nearby<D::Shard>> {
        self.only_shard.as_deref()
    }

    pub(crate) fn submit(&self, tag: u64, wish: D::Wish) -> Pending<D::Outcome> {
        let pending = self.shared.submit(tag, wish);
        self.go_on();
        pending
    }

    /// Submits an operation that takes long; another thread runs it.
    pub(crate) fn submit_aside(&self, tag: u64, wish: D::Wish) -> Pending<D::Outcome> {
        let pending = self.shared.submit(tag, wish);
        self.mailbox.wake();
        pending
    }

    pub(crate) fn cancel(&self, tag: u64, error: SqlError) {
        self.shared.lock().cancelled.push((tag, error));
        // A cancelling thread must not take over the work of waiting ones.
        self.mailbox.wake();
    }

    /// From here on the deadline is for shards that cannot be reached.
    pub(crate) fn wait_for_busy(&self) {
        self.shared.waits_for_busy.store(true, Ordering::Release);
    }

    fn go_on(&self) {
        match self.has_neighbours {
            true => self.mailbox.take_turns(),
            false => self.mailbox.wake(),
        }
    }
}

impl<D: Dialect> Drop for Session<D> {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        self.mailbox.wake();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn late() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "the shards have not answered in time")
}

/// The loop's side.
pub(crate) struct Requests<D: Dialect> {
    dialect: D,
    settings: Settings,
    shared: Arc<Shared<D>>,
    trouble: Trouble,
    waiting: BTreeMap<u64, Awaited<D::Outcome>>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Operations that their client has cancelled and that are not answered, with the error that it wished for.
    cancelled: BTreeMap<u64, SqlError>,
}

/// A wish that is not answered.
struct Awaited<T> {
    promise: Promise<T>,
    until: Instant,
    /// Its time is over and it has been cancelled: whether it has happened a shard is about to say.
    is_late: bool,
}

impl<D: Dialect> Requests<D> {
    fn take_submitted(&mut self, orders: &mut Out<D>) {
        let (submitted, cancelled) = {
            let mut queue = self.shared.lock();
            (std::mem::take(&mut queue.submitted), std::mem::take(&mut queue.cancelled))
        };
        self.begin_submitted(submitted, orders);
        for (tag, error) in cancelled.into_iter().filter(|(tag, _)| self.waiting.contains_key(tag)) {
            self.dialect.cancel(tag, error.clone(), orders);
            self.cancelled.insert(tag, error);
        }
    }

    /// Answers cancelled operations that wait for shards which cannot be reached: nobody else says whether they have happened.
    fn give_up_cancelled(&mut self, orders: &mut Out<D>) {
        if self.cancelled.is_empty() {
            return;
        }
        let is_answered = |tag: u64| orders.done.iter().any(|(of, _)| *of == tag);
        let tags: Vec<u64> = self.cancelled.keys().copied().filter(|tag| !is_answered(*tag)).collect();
        for tag in tags {
            let Some(trouble) = self.trouble.in_words_of(self.dialect.awaited(tag).as_deref()) else {
                continue;
            };
            let Some(error) = self.cancelled.remove(&tag) else { continue };
            let error = match self.dialect.give_up(tag, orders) {
                GivenUp::NothingHappened => Error::Sql(error),
                GivenUp::Unknown => Error::Unknown(format!("{}; {trouble}", error.message())),
            };
            self.answer(tag, Outcome::Known(Err(error)));
        }
    }

    fn begin_submitted(&mut self, submitted: Vec<(u64, D::Wish, Promise<D::Outcome>)>, orders: &mut Out<D>) {
        if submitted.is_empty() {
            return;
        }
        let until = Instant::now() + self.settings.deadline;
        for (tag, wish, promise) in submitted {
            self.waiting.insert(tag, Awaited { promise, until, is_late: false });
            self.deadlines.insert((until, tag));
            if let Some(outcome) = self.dialect.grant(tag, wish, orders) {
                self.answer(tag, Outcome::Known(outcome));
            }
        }
    }

    fn answer(&mut self, tag: u64, outcome: Outcome<D::Outcome>) {
        // The result of an abandoned operation is dropped.
        let Some(Awaited { promise, until, is_late }) = self.waiting.remove(&tag) else { return };
        self.deadlines.remove(&(until, tag));
        self.cancelled.remove(&tag);
        self.shared.on_answered();
        promise.keep(match outcome {
            Outcome::Known(Err(Error::Sql(error)))
                if is_late && error.state() == SqlState::QUERY_CANCELED =>
            {
                Outcome::Known(Err(Error::Deadline(late().message().to_owned())))
            }
            outcome => outcome,
        });
    }

    fn on_deadlines(&mut self, orders: &mut Out<D>) {
        let now = Instant::now();
        while let Some((until, tag)) = self.deadlines.first().copied()
            && until <= now
        {
            let trouble = self.trouble.in_words_of(self.dialect.awaited(tag).as_deref());
            if trouble.is_none() && self.shared.waits_for_busy.load(Ordering::Acquire) {
                self.wait_on(tag, now + self.settings.deadline);
                continue;
            }
            if trouble.is_none() && self.cancel_late(tag, orders) {
                self.wait_on(tag, now + self.settings.deadline);
                continue;
            }
            let why = trouble.unwrap_or_else(|| late().message().to_owned());
            let error = match self.dialect.give_up(tag, orders) {
                GivenUp::NothingHappened => Error::Deadline(why),
                GivenUp::Unknown => Error::Unknown(why),
            };
            self.answer(tag, Outcome::Known(Err(error)));
        }
    }

    /// Cancels an operation that waits or computes beyond its deadline, so that it certainly has no effect. Returns whether an answer
    /// follows.
    fn cancel_late(&mut self, tag: u64, orders: &mut Out<D>) -> bool {
        let Some(awaited) = self.waiting.get_mut(&tag) else { return false };
        !std::mem::replace(&mut awaited.is_late, true) && self.dialect.cancel(tag, late(), orders)
    }

    fn wait_on(&mut self, tag: u64, until: Instant) {
        if let Some(awaited) = self.waiting.get_mut(&tag) {
            self.deadlines.remove(&(awaited.until, tag));
            self.deadlines.insert((until, tag));
            awaited.until = until;
        }
    }

    /// Gives all that is under way up.
    fn end_all(&mut self, orders: &mut Out<D>, error: impl Fn(GivenUp) -> Error) {
        let tags: Vec<u64> = self.waiting.keys().copied().collect();
        for tag in tags {
            let given_up = self.dialect.give_up(tag, orders);
            self.answer(tag, Outcome::Known(Err(error(given_up))));
        }
    }

    /// Shards have forgotten the coordinator: a new one takes its place.
    fn begin_anew(&mut self, orders: &mut Out<D>) {
        let why =
            || "the shards have not heard of this client for a minute, and have forgotten it".to_string();
        // Operations in flight are not cancelled: the coordinator is gone.
        self.end_all(&mut Out::<D>::default(), |_| Error::Unknown(why()));
        if let Ok(id) = new_id() {
            self.dialect.begin_anew(id);
            orders.sends.clear();
        }
    }
}

impl<D: Dialect> Clients<D::Shard> for Requests<D> {
    type Coordinator = D::Coordinator;

    fn coordinator(&mut self) -> &mut D::Coordinator {
        self.dialect.coordinator()
    }

    fn begin(&mut self, orders: &mut Out<D>) {
        self.take_submitted(orders);
    }

    fn go_on(&mut self, orders: &mut Out<D>) {
        for (tag, done) in std::mem::take(&mut orders.done) {
            let outcome = self.dialect.outcome(tag, done);
            self.answer(tag, outcome);
        }
        if self.dialect.coordinator().is_retired() {
            self.begin_anew(orders);
        }
        self.take_submitted(orders);
        self.give_up_cancelled(orders);
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
