//! A node of the failure coordinator: Raft by the crate `raft`, and the machine of weir-ordered while the node leads.
//!
//! A record of the machine counts as durable once its entry is committed. A node that begins to lead starts the machine with the committed
//! records once the first entry of its term is committed.

use std::collections::VecDeque;

use raft::{RawNode, StateRole};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::lsn::{HeldMessages, Lsn};
use weir_ordered::cluster::Cluster;
use weir_ordered::failure_coordinator::{self, Durable, FailureCoordinator};
use weir_ordered::faults::{CoordinatorFaults, NoFaults};
use weir_ordered::message::{Effects, Message, Party};
use weir_ordered::raft_message::{RaftConfiguration, RaftEntry, RaftKind, RaftMessage, RaftSnapshot};
use weir_raft::conversion::{entry_from_raft, from_raft, into_raft, snapshot_from_raft};
use weir_raft::{HardState, Record, State, Store, config_of};

/// Interval of Raft's clock.
const TICK_MS: u64 = 10;
/// Ticks that are made up for at once after a node has stood still: fewer than an election takes.
const TICKS_MAX: u64 = 4;
const HEARTBEAT_TICKS: usize = 2;
/// Each node waits for a leader so much longer than the node before it that the first candidate has its votes by then.
const STAGGER_TICKS: usize = 7;
/// The place of a node, and how much it keeps.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From 0, below `nodes`.
    pub number: u8,
    pub nodes: u8,
    /// A snapshot takes the place of applied entries once the log is longer; at least 1.
    pub entries_max: usize,
}

impl Settings {
    /// Settings of a product.
    pub fn new(number: u8, nodes: u8) -> Settings {
        Settings { number, nodes, entries_max: 512 }
    }
}

/// A node of the failure coordinator.
pub struct CoordinatorNode<O, R, S, F: CoordinatorFaults = NoFaults> {
    settings: Settings,
    cluster: Cluster,
    faults: F,
    raft: RawNode<Store>,
    /// State of the failure coordinator after the entry with `applied_index`, which is committed.
    applied: Durable<O>,
    applied_index: u64,
    applied_term: u64,
    /// The failure coordinator, while this node leads.
    leading: Option<Leading<O, R, S, F>>,
    records: Vec<Record>,
    /// Never before `durable`.
    noted: Lsn,
    durable: Lsn,
    /// Numbers of Raft's batches, and up to which position each is noted. They ascend, and none is durable.
    unpersisted: VecDeque<(Lsn, u64)>,
    /// Raft's clock.
    ticked_ms: u64,
}

/// The failure coordinator on the node that leads.
struct Leading<O, R, S, F: CoordinatorFaults> {
    term: u64,
    machine: FailureCoordinator<O, F>,
    /// Its messages. A record counts as durable here once its entry is committed.
    held: HeldMessages<(Party, Message<O, R, S>)>,
}

impl<O, R, S, F> CoordinatorNode<O, R, S, F>
where
    O: Clone + Serialize + DeserializeOwned,
    R: Clone,
    S: Clone,
    F: CoordinatorFaults,
{
    /// A node with the records that were durable when it stopped; none for a new one. A node that has lost its records must not start: it
    /// has forgotten its votes.
    pub fn new(now_ms: u64, settings: Settings, cluster: Cluster, faults: F, records: &[Record]) -> Self {
        let Settings { number, nodes, entries_max } = settings;
        assert!(number < nodes, "a node is one of all nodes");
        assert!(entries_max > 0, "a log has entries");
        let store = Store::new(configuration(nodes), encoded(&Durable::<O>::default()), records);
        let RaftSnapshot { index, term, ref data, .. } = store.state.snapshot;
        let applied = decoded(data).expect("a snapshot is what a node has written");
        let config = config(number, &cluster, index);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut raft = RawNode::new(&config, store, &logger).expect("the configuration is right");
        if nodes == 1 {
            raft.campaign().expect("the only node has its own vote");
        }
        CoordinatorNode {
            settings,
            cluster,
            faults,
            raft,
            applied,
            applied_index: index,
            applied_term: term,
            leading: None,
            records: Vec::new(),
            noted: Lsn::START,
            durable: Lsn::START,
            unpersisted: VecDeque::new(),
            ticked_ms: now_ms,
        }
    }

    /// The failure coordinator, while this node leads.
    pub fn leading(&self) -> Option<&FailureCoordinator<O, F>> {
        self.leading.as_ref().map(|leading| &leading.machine)
    }

    /// State of the failure coordinator, as far as this node knows that it is committed.
    pub fn applied(&self) -> &Durable<O> {
        &self.applied
    }

    /// Takes the records of the steps since the last call, in order.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// The whole durable state as a record, before which a driver needs no others.
    pub fn snapshot(&self) -> Record {
        Record::State(Box::new(self.raft.store().state.clone()))
    }

    /// Takes one message and runs it to completion. Only the node that leads takes messages of other parties than nodes.
    pub fn step(&mut self, now_ms: u64, from: Party, message: Message<O, R, S>, out: &mut Effects<O, R, S>) {
        match (from, message) {
            (Party::CoordinatorNode(number), Message::Raft(message)) => self.on_raft(number, *message),
            (from, message) => {
                self.step_machine(|machine, out| machine.step(now_ms, from, message, out), out);
            }
        }
        self.process_ready(now_ms, out);
    }

    /// Called every few milliseconds.
    pub fn on_timer(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        let due = now_ms.saturating_sub(self.ticked_ms) / TICK_MS;
        self.ticked_ms += due * TICK_MS;
        for _ in 0..due.min(TICKS_MAX) {
            // The crate rules out a candidate whose snapshot is not durable.
            if self.has_durable_state() {
                self.raft.tick();
            }
            self.process_ready(now_ms, out);
        }
        self.step_machine(|machine, out| machine.on_timer(now_ms, out), out);
        self.process_ready(now_ms, out);
    }

    /// The records up to that position are durable on this node.
    pub fn on_durable(&mut self, now_ms: u64, up_to: Lsn, out: &mut Effects<O, R, S>) {
        self.durable = up_to.max(self.durable);
        self.process_ready(now_ms, out);
    }

    fn on_raft(&mut self, number: u8, message: RaftMessage) {
        let Settings { number: own, nodes, .. } = self.settings;
        let is_of_nodes = number < nodes && message.from == id_of(number) && message.to == id_of(own);
        if is_of_nodes && self.is_readable(&message) {
            // An error means that the message has no effect.
            let _ = self.raft.step(into_raft(message));
        }
    }

    /// Returns whether the data of a message are those of a node.
    fn is_readable(&self, message: &RaftMessage) -> bool {
        let snapshot = message.snapshot.as_ref();
        let is_readable =
            |entry: &RaftEntry| entry.changes.is_none() && records_of::<O>(&entry.data).is_some();
        message.entries.iter().all(is_readable)
            && snapshot.is_some() == (message.kind == RaftKind::Snapshot)
            && snapshot.is_none_or(|snapshot| {
                snapshot.configuration == configuration(self.settings.nodes)
                    && decoded::<Durable<O>>(&snapshot.data).is_some()
            })
    }

    /// Runs a step of the failure coordinator, if it runs here. Its records are proposed, and its messages wait for them.
    fn step_machine(
        &mut self,
        step: impl FnOnce(&mut FailureCoordinator<O, F>, &mut Effects<O, R, S>),
        out: &mut Effects<O, R, S>,
    ) {
        let Some(leading) = &mut self.leading else { return };
        let mut effects = Effects::default();
        step(&mut leading.machine, &mut effects);
        let records = leading.machine.take_records();
        if !records.is_empty() {
            leading.held.note(records.len());
            let is_proposed = self.raft.propose(Vec::new(), encoded(&records)).is_ok();
            assert!(is_proposed || self.faults.answers_after_lead(), "a node that leads takes proposals");
        }
        for each in effects.messages {
            if let Some((to, message)) = leading.held.hold(each.after, (each.to, each.message)) {
                out.send(to, message);
            }
        }
    }

    /// Notes, sends and applies what Raft has ready.
    fn process_ready(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        self.report_persisted();
        while self.raft.has_ready() {
            let mut ready = self.raft.ready();
            let mut has_snapshot = self.send(ready.take_messages(), Lsn::START, out);
            if !ready.snapshot().is_empty() {
                self.install(snapshot_from_raft(ready.snapshot()));
            }
            if !ready.entries().is_empty() {
                self.note(Record::Entries(ready.entries().iter().map(entry_from_raft).collect()));
            }
            if let Some(&raft::prelude::HardState { term, vote, commit, .. }) = ready.hs() {
                self.note(Record::HardState(HardState { term, vote, commit }));
            }
            has_snapshot.extend(self.send(ready.take_persisted_messages(), self.noted, out));
            self.unpersisted.push_back((self.noted, ready.number()));
            let committed = ready.take_committed_entries();
            self.raft.advance_append_async(ready);
            for to in has_snapshot {
                // If the snapshot is lost, the next answer of the follower says so.
                self.raft.report_snapshot(to, raft::SnapshotStatus::Finish);
            }
            self.report_persisted();
            committed.iter().for_each(|entry| self.apply(now_ms, entry_from_raft(entry), out));
            self.report_applied();
            self.compact();
        }
        self.end_lead(now_ms);
    }

    /// Drops the failure coordinator, and the messages that it holds, once the node leads no longer.
    fn end_lead(&mut self, now_ms: u64) {
        let term = self.raft.raft.term;
        let leads = self.raft.raft.state == StateRole::Leader;
        if !self.faults.answers_after_lead() {
            self.leading.take_if(|leading| !leads || leading.term != term);
        }
        if leads && self.leading.is_none() && self.faults.starts_before_first_entry() {
            self.start(now_ms);
        }
    }

    fn note(&mut self, record: Record) {
        self.raft.mut_store().apply(&record);
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }

    /// Tells Raft which of its batches are durable.
    fn report_persisted(&mut self) {
        while let Some((position, number)) = self.unpersisted.front().copied()
            && position <= self.durable
        {
            self.unpersisted.pop_front();
            self.raft.on_persist_ready(number);
        }
        self.report_applied();
    }

    /// Returns whether the state that is applied is durable: it is not while a snapshot that has come is written.
    fn has_durable_state(&self) -> bool {
        self.applied_index <= self.raft.raft.raft_log.persisted
    }

    /// Tells Raft what is applied, which has to be durable.
    fn report_applied(&mut self) {
        if self.has_durable_state() && self.applied_index > self.raft.raft.raft_log.applied {
            self.raft.advance_apply_to(self.applied_index);
        }
    }

    /// Sends messages of Raft. Returns the nodes that are sent a snapshot.
    fn send(
        &mut self,
        messages: Vec<raft::prelude::Message>,
        after: Lsn,
        out: &mut Effects<O, R, S>,
    ) -> Vec<u64> {
        let mut have_snapshots = Vec::new();
        for message in messages.into_iter().filter_map(from_raft) {
            if message.kind == RaftKind::Snapshot {
                have_snapshots.push(message.to);
            }
            let to = Party::CoordinatorNode((message.to - id_of(0)) as u8);
            out.send_after(to, Message::Raft(Box::new(message)), after);
        }
        have_snapshots
    }

    /// Takes the state of the node that leads in the place of its own.
    fn install(&mut self, snapshot: RaftSnapshot) {
        self.applied = decoded(&snapshot.data).expect("the snapshot of a message is readable");
        (self.applied_index, self.applied_term) = (snapshot.index, snapshot.term);
        let state = self.raft.store().with_snapshot(snapshot);
        self.note(Record::State(Box::new(state)));
    }

    /// Applies a committed entry.
    fn apply(&mut self, now_ms: u64, entry: RaftEntry, out: &mut Effects<O, R, S>) {
        assert!(entry.index == self.applied_index + 1, "entries are applied in order");
        (self.applied_index, self.applied_term) = (entry.index, entry.term);
        let records = records_of::<O>(&entry.data).expect("the entry of a message is readable");
        records.iter().for_each(|record| self.applied.apply(record));
        let leads = self.raft.raft.state == StateRole::Leader && entry.term == self.raft.raft.term;
        if leads && entry.data.is_empty() && !self.faults.starts_before_first_entry() {
            self.start(now_ms);
        } else if leads || self.faults.answers_after_lead() {
            self.on_committed(records.len(), out);
        }
    }

    /// Starts the failure coordinator, as one that starts again with the committed records.
    fn start(&mut self, now_ms: u64) {
        let machine = FailureCoordinator::with(now_ms, self.cluster, self.faults, self.applied.clone());
        let term = self.raft.raft.term;
        self.leading = Some(Leading { term, machine, held: HeldMessages::default() });
    }

    /// So many more records of the failure coordinator here are committed: the messages that wait for them leave.
    fn on_committed(&mut self, records: usize, out: &mut Effects<O, R, S>) {
        let Some(leading) = &mut self.leading else { return };
        let committed = leading.held.durable().plus(records);
        let is_own = leading.term == self.raft.raft.term && committed <= leading.held.noted();
        assert!(is_own || self.faults.answers_after_lead(), "a lead commits what it has proposed");
        leading.held.on_durable(committed).for_each(|(to, message)| out.send(to, message));
    }

    /// Puts a snapshot in the place of the applied entries, once the log is long.
    fn compact(&mut self) {
        let State { snapshot, entries, .. } = &self.raft.store().state;
        let applied = self.applied_index - snapshot.index;
        // Half of the log at once: entries that are not committed may be many.
        if entries.len() > self.settings.entries_max && applied as usize > self.settings.entries_max / 2 {
            let data = encoded(&self.applied);
            let (term, index) = (self.applied_term, self.applied_index);
            let configuration = configuration(self.settings.nodes);
            let snapshot = RaftSnapshot { term, index, configuration, data };
            let state = self.raft.store().with_snapshot(snapshot);
            self.note(Record::State(Box::new(state)));
        }
    }
}

/// Id of a node in the crate `raft`, which has no node 0.
fn id_of(number: u8) -> u64 {
    u64::from(number) + 1
}

/// All nodes vote, for ever.
fn configuration(nodes: u8) -> RaftConfiguration {
    RaftConfiguration::of_voters((0..nodes).map(id_of))
}

fn config(number: u8, cluster: &Cluster, applied: u64) -> raft::Config {
    let least = (cluster.timeouts.leader_ms / TICK_MS) as usize;
    let election_tick = least.max(2 * HEARTBEAT_TICKS + 1) + usize::from(number) * STAGGER_TICKS;
    config_of(id_of(number), (election_tick, HEARTBEAT_TICKS), applied)
}

/// The records of the failure coordinator in an entry. None: the data are not those of an entry.
fn records_of<O: DeserializeOwned>(data: &[u8]) -> Option<Vec<failure_coordinator::Record<O>>> {
    if data.is_empty() { Some(Vec::new()) } else { decoded(data) }
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("a state can be written")
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}
