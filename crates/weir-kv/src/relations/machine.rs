//! The client's side of relations: carries out orders over a coordinator of items.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{self, Orders};

use super::schema::Schema;
use super::work::{Order, Step, Told, Work};
use crate::coordinator::{Coordinator, Done, GivenUp, Out};
use crate::faults::{NoFaults, RelationFaults};
use crate::{Isolation, Progress, Reply, Request};

/// Tag of the deletions of stale entries.
const CLEANING: u64 = u64::MAX;

/// Largest number of concurrent deletions of stale entries; remaining entries are found again by the next look-up.
const CLEANS_MAX: usize = 8;

/// A coordinator of transactions over rows. A transaction begins with the first order under a tag and ends with the answer that says so;
/// tags are below `u64::MAX`.
pub struct Relations<F = NoFaults> {
    items: Coordinator,
    schema: Arc<Schema>,
    works: BTreeMap<u64, Work<F>>,
    /// Number of deletions of stale entries in flight.
    cleans: usize,
    bugs: F,
}

impl<F: RelationFaults> Relations<F> {
    pub fn new(items: Coordinator, schema: Arc<Schema>, bugs: F) -> Relations<F> {
        Relations { items, schema, works: BTreeMap::new(), cleans: 0, bugs }
    }

    /// Unanswered transaction of the write that was begun under the tag.
    pub fn txn_of(&mut self, tag: u64) -> Option<TxnId> {
        self.items.txn_of(tag)
    }

    /// Abandons the operation under the tag; see [`Coordinator::give_up`].
    pub fn give_up(&mut self, tag: u64) -> GivenUp {
        self.works.remove(&tag);
        self.items.give_up(tag)
    }

    /// Ends a transaction, if it is open, without effect. There is no answer.
    pub fn roll_back(&mut self, tag: u64) {
        self.works.remove(&tag);
        self.items.roll_back(tag);
    }

    fn commit(&mut self, now_ms: u64, tag: u64, out: &mut Orders<Request, Told>) {
        let Some(work) = self.works.remove(&tag) else {
            return out.done.push((tag, Told::Restart));
        };
        let writes = work.writes(&self.schema, self.items.next_txn());
        self.with_items(now_ms, out, |items, orders| items.commit_with(now_ms, tag, writes, orders));
        for writes in work.stale() {
            if self.cleans < CLEANS_MAX {
                self.cleans += 1;
                self.with_items(now_ms, out, |items, orders| {
                    items.write_all(now_ms, CLEANING, writes, orders);
                });
            }
        }
    }

    fn go_on(&mut self, now_ms: u64, tag: u64, step: Step, out: &mut Orders<Request, Told>) {
        match step {
            Step::Tell(told) => out.done.push((tag, told)),
            Step::Read(keys, ranges) => {
                self.with_items(now_ms, out, |items, orders| items.read(now_ms, tag, keys, ranges, orders));
            }
        }
    }

    /// Calls the coordinator of items and translates its answers for clients.
    fn with_items(
        &mut self,
        now_ms: u64,
        out: &mut Orders<Request, Told>,
        act: impl FnOnce(&mut Coordinator, &mut Out),
    ) {
        let mut orders = Out::default();
        act(&mut self.items, &mut orders);
        out.sends.append(&mut orders.sends);
        for (tag, done) in orders.done {
            if tag == CLEANING {
                self.cleans -= 1;
                continue;
            }
            match done {
                Done::Read { read, .. } => {
                    let Some(work) = self.works.get_mut(&tag) else { continue };
                    let step = work.on_read(&self.schema, read);
                    self.go_on(now_ms, tag, step, out);
                }
                ended => {
                    self.works.remove(&tag);
                    let told = match ended {
                        Done::Committed { stamp, .. } => Told::Committed(stamp),
                        Done::Conflict => Told::Conflict,
                        Done::Aborted => Told::Aborted,
                        Done::Restart | Done::Read { .. } | Done::TooLarge => Told::Restart,
                    };
                    out.done.push((tag, told));
                }
            }
        }
    }
}

impl<F: RelationFaults> machine::Coordinator for Relations<F> {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;
    type Transaction = Order;
    type Done = Told;

    fn id(&self) -> CoordinatorId {
        self.items.id()
    }

    fn begin(&mut self, now_ms: u64, tag: u64, order: Order, out: &mut Orders<Request, Told>) {
        assert!(tag != CLEANING, "that tag is taken");
        if !self.works.contains_key(&tag) {
            self.works.insert(tag, Work::new(self.bugs));
            self.items.open(tag, Isolation::ReadAtomic);
        }
        if let Order::Commit = order {
            return self.commit(now_ms, tag, out);
        }
        let work = self.works.get_mut(&tag).expect("it is open");
        let step = work.begin(&self.schema, order);
        self.go_on(now_ms, tag, step, out);
    }

    fn on_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Orders<Request, Told>) {
        self.with_items(now_ms, out, |items, orders| items.on_reply(now_ms, reply, orders));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Orders<Request, Told>) {
        self.with_items(now_ms, out, |items, orders| items.on_timer(now_ms, orders));
    }

    fn progress(&mut self, shard: ShardId) -> Progress {
        self.items.progress(shard)
    }

    fn on_epoch(&mut self, shard: ShardId, epoch: u64) {
        self.items.on_epoch(shard, epoch);
    }

    fn is_idle(&self) -> bool {
        self.items.is_idle()
    }

    fn is_retired(&self) -> bool {
        self.items.is_retired()
    }
}
