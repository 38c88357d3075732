//! What a shard wants sent, until it may leave: what rests upon records of its log waits until they are durable (soundness S16).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tracing::info;
use weir_txn::exec::definition::Description;
use weir_txn::machine::{CoordinatorId, Effects, Exposed, Sender};
use weir_txn::ramp::ShardId;

use super::log::{LogError, LogFigures};
use super::writer::{Writer, Written};

/// What may leave.
pub(super) struct Leaving<S: Exposed> {
    pub replies: Vec<(CoordinatorId, S::Reply)>,
    pub peers: Vec<(ShardId, S::Request)>,
    /// The schema has been changed.
    pub description: Option<Arc<Description>>,
}

impl<S: Exposed> Default for Leaving<S> {
    fn default() -> Self {
        Leaving { replies: Vec::new(), peers: Vec::new(), description: None }
    }
}

impl<S: Exposed> Leaving<S> {
    fn extend(&mut self, other: Leaving<S>) {
        self.replies.extend(other.replies);
        self.peers.extend(other.peers);
        self.description = other.description.or(self.description.take());
    }
}

pub(super) struct Outbox<S: Exposed> {
    writer: Option<Writer<S::Record>>,
    effects: Effects<S::Request, S::Reply>,
    /// Of this turn.
    records: Vec<S::Record>,
    /// How many records there have been, and how many of them are durable.
    noted: u64,
    durable: u64,
    /// By the count of records that must be durable first.
    held: BTreeMap<u64, Leaving<S>>,
    pub leaving: Leaving<S>,
    /// So many snapshots have been given to the writer.
    snapshots: u64,
}

impl<S> Outbox<S>
where
    S: Exposed,
    S::Record: Serialize + Send + 'static,
{
    pub(super) fn new(writer: Option<Writer<S::Record>>) -> Outbox<S> {
        Outbox {
            writer,
            effects: Effects::default(),
            records: Vec::new(),
            noted: 0,
            durable: 0,
            held: BTreeMap::new(),
            leaving: Leaving::default(),
            snapshots: 0,
        }
    }

    pub(super) fn step(&mut self, shard: &mut S, now_ms: u64, from: Sender, request: S::Request) {
        shard.step(now_ms, from, request, &mut self.effects);
        self.sort(shard);
    }

    pub(super) fn on_timer(&mut self, shard: &mut S, now_ms: u64) {
        shard.on_timer(now_ms, &mut self.effects);
        self.sort(shard);
    }

    /// Holds back what the step has sent, for as long as it must be.
    fn sort(&mut self, shard: &mut S) {
        let rests_on = shard.rests_on();
        let records = shard.take_records();
        if self.writer.is_some() {
            self.noted += records.len() as u64;
            self.records.extend(records);
        }
        let is_durable = self.is_durable();
        let Effects { replies, peers } = &mut self.effects;
        let description = shard.take_description();
        if !replies.is_empty() {
            let after = rests_on.min(self.noted);
            let leaving = match after <= self.durable {
                true => &mut self.leaving,
                false => self.held.entry(after).or_default(),
            };
            leaving.replies.append(replies);
        }
        if !peers.is_empty() || description.is_some() {
            let leaving = match is_durable {
                true => &mut self.leaving,
                false => self.held.entry(self.noted).or_default(),
            };
            leaving.peers.append(peers);
            leaving.description = description.or(leaving.description.take());
        }
    }

    pub(super) fn log_figures(&self) -> Option<Arc<LogFigures>> {
        self.writer.as_ref().map(Writer::figures)
    }

    /// All that the shard has wanted written down is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.durable == self.noted
    }

    /// Has what was noted in this turn written, and hears how far the log has come.
    ///
    /// # Errors
    /// The log cannot be written any more: the shard must not answer from what it cannot write down.
    pub(super) fn write_down(&mut self, shard: &mut S) -> Result<(), LogError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        if !self.records.is_empty() {
            writer.append(std::mem::take(&mut self.records));
        }
        let Written { durable, is_outgrown, snapshots } = writer.written()?;
        if durable > self.durable {
            self.durable = durable;
            shard.on_durable(durable);
            let held = self.held.split_off(&(durable + 1));
            for (_, leaving) in std::mem::replace(&mut self.held, held) {
                self.leaving.extend(leaving);
            }
        }
        if is_outgrown && self.snapshots == snapshots {
            self.snapshots += 1;
            writer.begin_anew(shard.snapshot());
            info!(shard = shard.id(), "a new segment of the log");
        }
        Ok(())
    }

    /// Writes what has been noted, and ends.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(&mut self) -> Result<(), LogError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        if !self.records.is_empty() {
            writer.append(std::mem::take(&mut self.records));
        }
        writer.finish()
    }
}
