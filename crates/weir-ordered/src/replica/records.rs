//! The durable state of a replica, and the records that change it.
//!
//! A replica changes this state only by a record. A restart that applies the durable records, in order, restores every promise that has
//! left the replica (soundness S18).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::packet::{Cut, Epoch, Index, Slot, View};
use crate::replica::checkpoint::Checkpoint;
use crate::replica::drops::Drops;
use crate::replica::log::{Entry, Log};

/// State that the replicas of a shard tell each other when a view changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared<O> {
    pub log: Log<O>,
    pub drops: Drops,
}

/// One change of the durable state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record<O, R, S> {
    /// The next entry of the log.
    Appended(Entry<O>),
    /// A temporary drop.
    Promised(Slot),
    Found(Vec<Slot>),
    Dropped(Slot),
    /// No packet is logged in views before this one.
    ViewPromised(View),
    ViewStarted(View, Shared<O>),
    /// Nothing is done in epochs before this one.
    EpochPromised(Epoch),
    EpochStarted(Epoch, View, Log<O>),
    /// Number of this disk, before the replica has joined with it.
    Disk(u64),
    /// The replica takes part from that epoch on.
    Joined(Epoch),
    /// The log up to that index is that of the shard for good.
    Synchronized(Index),
    /// The whole state, with the checkpoint from which a restart executes the log. Earlier records mean nothing any more.
    State(Box<Durable<O, R, S>>),
}

impl<O, R, S> Record<O, R, S> {
    /// Returns whether a restart needs no record before this one. A driver may forget them once this one is durable.
    pub fn is_complete(&self) -> bool {
        matches!(self, Record::State(_))
    }
}

/// The state that records restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Durable<O, R, S> {
    /// Number of the disk. 0: it is empty.
    pub disk: u64,
    /// Whether the replica takes part: it may make promises.
    pub is_joined: bool,
    /// The state from which a restart executes the log. None: that before the first entry. In a record the log has all entries behind it; in
    /// memory they may be forgotten, since they are executed.
    pub checkpoint: Option<Arc<Checkpoint<O, R, S>>>,
    /// Up to this index the log is that of the shard for good. It is not before the index of the checkpoint.
    pub synchronized: Index,
    pub shared: Shared<O>,
    /// The view of the current epoch that the replica is in or changes to.
    pub view: View,
    /// Whether `view` has started here.
    pub is_view_started: bool,
    /// End of the log when `view` started here. Up to it, the log was that of the learner.
    pub view_start: Index,
    /// The last epoch that has started here.
    pub epoch: Epoch,
    /// The latest epoch that the replica has promised to change to; never before `epoch`.
    pub epoch_promised: Epoch,
}

impl<O, R, S> Default for Durable<O, R, S> {
    fn default() -> Self {
        Durable {
            disk: 0,
            is_joined: false,
            checkpoint: None,
            synchronized: 0,
            shared: Shared { log: Log::default(), drops: Drops::default() },
            view: 0,
            is_view_started: true,
            view_start: 0,
            epoch: 0,
            epoch_promised: 0,
        }
    }
}

impl<O: Clone> Shared<O> {
    /// Adds the state of another replica of the shard: the longer log behind what is synchronized here, and all drops.
    pub fn merge(&mut self, other: &Shared<O>, synchronized: Index, with_drops: bool) {
        if other.log.end() > self.log.end() {
            self.log = self.log.prefix(synchronized).continued_by(&other.log);
        }
        if with_drops {
            self.drops.merge(&other.drops);
        }
        for &slot in &self.drops.permanent {
            self.log.drop_slot(slot);
        }
    }
}

impl<O: Clone, R: Clone, S: Clone> Durable<O, R, S> {
    /// Index up to which the log stays as it is when the record is applied.
    pub fn unchanged_by(&self, record: &Record<O, R, S>) -> Index {
        let log = &self.shared.log;
        match record {
            Record::Dropped(slot) => log.find(*slot).map_or(log.end(), |index| index - 1),
            Record::ViewStarted(_, Shared { log: new, .. }) | Record::EpochStarted(.., new) => {
                log.common_prefix(new)
            }
            Record::State(_) => Index::MAX,
            _ => log.end(),
        }
    }

    pub fn apply(&mut self, record: &Record<O, R, S>) {
        match record {
            Record::Appended(entry) => self.shared.log.push(entry.clone()),
            Record::Promised(slot) => {
                self.shared.drops.temporary.insert(*slot);
            }
            Record::Found(slots) => self.shared.drops.found.extend(slots),
            Record::Dropped(slot) => {
                self.shared.drops.permanent.insert(*slot);
                self.shared.log.drop_slot(*slot);
            }
            Record::ViewPromised(view) => {
                assert!(*view > self.view, "views ascend");
                self.view = *view;
                self.is_view_started = false;
            }
            Record::ViewStarted(view, shared) => {
                assert!(*view >= self.view, "a view starts once it is promised");
                self.start(*view, shared.log.clone().preceded_by(&self.shared.log));
                self.shared.drops.merge(&shared.drops);
            }
            Record::EpochPromised(epoch) => {
                assert!(*epoch > self.epoch_promised, "epochs ascend");
                self.epoch_promised = *epoch;
            }
            Record::EpochStarted(epoch, view, log) => {
                let log = log.clone().preceded_by(&self.shared.log);
                self.start_epoch(*epoch, *view, log);
            }
            Record::Synchronized(index) => {
                assert!(*index <= self.shared.log.end(), "the log has what is synchronized");
                self.synchronized = self.synchronized.max(*index);
            }
            Record::Disk(disk) => self.disk = *disk,
            Record::Joined(epoch) => {
                self.is_joined = true;
                self.epoch_promised = self.epoch_promised.max(*epoch);
            }
            Record::State(state) => {
                assert!(
                    !state.log_begins_behind_checkpoint(),
                    "a restart executes the log from the checkpoint on"
                );
                *self = (**state).clone();
            }
        }
        self.check();
    }

    pub fn start_epoch(&mut self, epoch: Epoch, view: View, log: Log<O>) {
        assert!(epoch > self.epoch && epoch >= self.epoch_promised, "epochs ascend");
        self.epoch = epoch;
        self.epoch_promised = epoch;
        self.start(view, log);
        self.shared.drops = Drops::default();
    }

    fn start(&mut self, view: View, log: Log<O>) {
        self.view = view;
        self.is_view_started = true;
        self.view_start = log.end();
        self.shared.log = log;
    }

    /// Forgets entries up to that index, and drops up to the cut. Records have them until a complete one comes, so a restart may have them again.
    pub fn forget(&mut self, to: Index, cut: &Cut) {
        self.shared.log.forget(to);
        self.shared.drops.forget(cut);
    }

    /// Returns whether entries behind the checkpoint are forgotten.
    pub fn log_begins_behind_checkpoint(&self) -> bool {
        self.shared.log.base() > self.checkpoint_index()
    }

    fn checkpoint_index(&self) -> Index {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.index)
    }

    fn check(&self) {
        assert!(
            self.checkpoint_index() <= self.synchronized && self.synchronized <= self.shared.log.end(),
            "what is synchronized stays"
        );
    }
}
