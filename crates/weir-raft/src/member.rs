//! A member of a replica group: Raft by the crate `raft`, under an id that its disk has a part in, with a lease while it leads.
//!
//! It agrees with the other members on the entries of a log, whose data it does not read. Who runs a machine over the log is the driver:
//! at the leader, from [`Event::Leads`] to [`Event::Ended`].

use std::collections::{BTreeMap, VecDeque};

use raft::prelude as pb;
use raft::{ProgressState, RawNode, StateRole};
use serde::{Deserialize, Serialize};
use weir_core::faults::NoFaults;
use weir_core::lsn::Lsn;
use weir_core::raft_message::{
    RaftChange, RaftConfiguration, RaftEntry, RaftKind, RaftMessage, RaftSnapshot,
};

use crate::config::config_of;
use crate::conversion::{
    changes_into_raft, configuration_from_raft, entry_from_raft, from_raft, into_raft, snapshot_from_raft,
};
use crate::faults::MemberFaults;
use crate::founding::Founding;
use crate::lease::{Heard, Lease};
use crate::message::{Effects, Greeting, Message};
use crate::store::{HardState, Record, State, Store};
use crate::{Place, id_of, place_of};

/// Interval of Raft's clock.
pub const TICK_MS: u64 = 20;
/// Ticks that are made up for at once after a member has stood still: fewer than an election takes.
const TICKS_MAX: u64 = 5;
const HEARTBEAT_TICKS: usize = 5;
/// No member votes within so many ticks after it has heard from a leader.
const ELECTION_TICKS: usize = 50;
/// Each member waits for a leader so much longer than the member before it that the first candidate has its votes by then; the first one
/// longer than members that have just started grant no votes.
const STAGGER_TICKS: usize = 10;
/// A lease is so much shorter than the election time-out as the clocks of two members may differ in that time, and more.
const LEASE_MS: u64 = (ELECTION_TICKS as u64 - 2) * TICK_MS * 9 / 10;
/// A member that has started grants no vote for so long: it may have promised that.
const SILENCE_MS: u64 = ELECTION_TICKS as u64 * TICK_MS * 11 / 10;
/// Interval at which members with empty disks greet others.
const GREETING_MS: u64 = 200;
/// The place of a member, and how much it keeps.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Below `members`.
    pub place: Place,
    pub members: u8,
    /// Id of the disk, if it is empty: a number that no other disk has.
    pub new_disk: u64,
    /// Entries that the checkpoint has are kept in memory up to this, for others.
    pub memory_bytes_max: usize,
}

/// One change of the durable state of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRecord {
    /// Id of the disk; the first record on it.
    Disk(u64),
    /// Disks of the members that have founded the group, by place.
    Founders(Vec<u64>),
    Log(Record),
}

/// What the driver of a member has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This member leads: the machine starts with all entries up to that index, which are committed and durable here.
    Leads { term: u64, index: u64 },
    /// The leader's entries are committed up to that index.
    Committed(u64),
    /// This member leads no longer: the machine ends, and what it has noted since [`Event::Committed`] is void.
    Ended,
    /// Another member needs a checkpoint that is newer than the last one.
    WantsCheckpoint,
}

/// The place in the log of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointHead {
    pub index: u64,
    pub term: u64,
    pub configuration: RaftConfiguration,
}

/// What has become of a checkpoint's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Committed,
    Waits,
    /// Another entry has its place, or a newer checkpoint is there.
    Void,
}

/// A member of a group.
pub struct Member<F: MemberFaults = NoFaults> {
    settings: Settings,
    faults: F,
    disk: u64,
    /// None: it knows of no group.
    founders: Option<Vec<u64>>,
    founding: Founding,
    raft: Option<RawNode<Store>>,
    /// As of `applied`.
    configuration: RaftConfiguration,
    applied_index: u64,
    records: Vec<MemberRecord>,
    /// Never before `durable`.
    noted: Lsn,
    durable: Lsn,
    /// Numbers of Raft's batches, and up to which position each is noted. They ascend, and none is durable.
    unpersisted: VecDeque<(Lsn, u64)>,
    events: Vec<Event>,
    /// Raft's clock.
    ticked_ms: u64,
    /// It grants no votes before.
    silent_until_ms: u64,
    heard: Option<Heard>,
    leading: Option<Leading>,
    /// Disks that others have named, by place, while this member leads.
    greeted: BTreeMap<Place, u64>,
    greeted_ms: u64,
    /// Commit index when the configuration was last looked at.
    seen_commit: u64,
}

/// The state of a leader.
struct Leading {
    lease: Lease,
    /// The machine runs.
    has_started: bool,
    /// Up to where the driver knows that entries are committed.
    told_index: u64,
}

impl<F: MemberFaults> Member<F> {
    /// A member with the records that were durable when it stopped; none: its disk is empty.
    pub fn new(now_ms: u64, settings: Settings, faults: F, records: &[MemberRecord]) -> Member<F> {
        let Settings { place, members, .. } = settings;
        assert!(place < members, "a member is one of all members");
        let disk = records.iter().find_map(|record| match record {
            MemberRecord::Disk(disk) => Some(*disk),
            _ => None,
        });
        let founders = records.iter().find_map(|record| match record {
            MemberRecord::Founders(founders) => Some(founders.clone()),
            _ => None,
        });
        let new_disk = if faults.keeps_identity() { 0 } else { settings.new_disk };
        let own = disk.unwrap_or(new_disk);
        let mut member = Member {
            settings,
            faults,
            disk: own,
            founders: None,
            founding: Founding::new(place, members, own),
            raft: None,
            configuration: RaftConfiguration::default(),
            applied_index: 0,
            records: Vec::new(),
            noted: Lsn::START,
            durable: Lsn::START,
            unpersisted: VecDeque::new(),
            events: Vec::new(),
            ticked_ms: now_ms,
            silent_until_ms: now_ms + if faults.votes_after_start() { 0 } else { SILENCE_MS },
            heard: None,
            leading: None,
            greeted: BTreeMap::new(),
            greeted_ms: 0,
            seen_commit: 0,
        };
        if disk.is_none() {
            member.note(MemberRecord::Disk(own));
        }
        match founders {
            Some(founders) => member.start(founders, records),
            None => {
                if let Some(founders) = member.founding.founders() {
                    member.found(founders);
                }
            }
        }
        member
    }

    /// The group is known: the member has founded it, or joins it.
    fn found(&mut self, founders: Vec<u64>) {
        self.note(MemberRecord::Founders(founders.clone()));
        self.start(founders, &[]);
    }

    fn start(&mut self, founders: Vec<u64>, records: &[MemberRecord]) {
        let is_founder = founders[usize::from(self.settings.place)] == self.disk;
        let configuration = match is_founder {
            true => {
                RaftConfiguration::of_voters((0..).zip(&founders).map(|(place, disk)| id_of(place, *disk)))
            }
            false => RaftConfiguration::default(),
        };
        let mut store = match is_founder {
            true => Store::new(configuration, Vec::new(), &[]),
            false => Store::with(empty()),
        };
        for record in records {
            if let MemberRecord::Log(record) = record {
                store.apply(record);
            }
        }
        self.founders = Some(founders);
        self.weaken(&mut store);
        let (last, snapshot) = (store.last(), store.state.snapshot.index);
        let commit = &mut store.state.hard_state.commit;
        // The disk may have lost entries that it had not synced, and that others have. The hard state beside a checkpoint may be older.
        *commit = snapshot.max(last.min(*commit));
        self.configuration = store.state.snapshot.configuration.clone();
        self.applied_index = store.state.snapshot.index;
        let own = self.id();
        let config = config(&self.settings, own, self.applied_index);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut raft = RawNode::new(&config, store, &logger).expect("the configuration is right");
        if self.configuration.voters == [own] && self.configuration.voters_outgoing.is_empty() {
            raft.campaign().expect("the only member has its own vote");
        }
        self.raft = Some(raft);
    }

    /// Planted bugs at a start.
    fn weaken(&self, store: &mut Store) {
        if self.faults.forgets_vote() {
            store.state.hard_state.vote = 0;
        }
        if self.faults.truncates_committed() {
            let kept = store.state.entries.len().saturating_sub(3);
            store.state.entries.truncate(kept);
        }
    }

    pub fn id(&self) -> u64 {
        id_of(self.settings.place, self.disk)
    }

    /// Takes the records of the steps since the last call, in order.
    pub fn take_records(&mut self) -> Vec<MemberRecord> {
        std::mem::take(&mut self.records)
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Position after the last record.
    pub fn noted(&self) -> Lsn {
        self.noted
    }

    /// Term in which this member has been elected and leads, whether its machine has started or not.
    pub fn elected_in(&self) -> Option<u64> {
        let raft = self.raft.as_ref()?;
        (raft.raft.state == StateRole::Leader).then_some(raft.raft.term)
    }

    /// Returns whether the member knows of its group.
    pub fn is_founded(&self) -> bool {
        self.founders.is_some()
    }

    /// Place of the leader, if it is known.
    pub fn leader(&self) -> Option<Place> {
        self.raft.as_ref().and_then(|raft| place_of(raft.raft.leader_id))
    }

    pub fn term(&self) -> u64 {
        self.raft.as_ref().map_or(0, |raft| raft.raft.term)
    }

    /// Up to where the log is known to be committed.
    pub fn commit_index(&self) -> u64 {
        self.applied_index
    }

    /// Index of the last entry.
    pub fn last_index(&self) -> u64 {
        self.raft.as_ref().map_or(0, |raft| raft.raft.raft_log.last_index())
    }

    /// The configuration that is applied.
    pub fn configuration(&self) -> &RaftConfiguration {
        &self.configuration
    }

    /// What a disk needs beside the log and its checkpoint: the identity of the member, and its promise.
    pub fn identity(&self) -> Vec<MemberRecord> {
        let founders = self.founders.clone().map(MemberRecord::Founders);
        let hard_state = self.raft.as_ref().map(|raft| raft.store().state.hard_state);
        let promise = hard_state.map(|state| MemberRecord::Log(Record::HardState(state)));
        [MemberRecord::Disk(self.disk)].into_iter().chain(founders).chain(promise).collect()
    }

    /// The entries behind that index. None: it is before the checkpoint's, and memory has forgotten some of them.
    pub fn entries_behind(&self, index: u64) -> Option<Vec<RaftEntry>> {
        self.raft.as_ref().and_then(|raft| raft.store().entries_behind(index))
    }

    /// Index of the newest checkpoint.
    pub fn checkpoint_index(&self) -> u64 {
        self.raft.as_ref().map_or(0, |raft| raft.store().state.snapshot.index)
    }

    /// Data of the newest checkpoint. Empty: there is none.
    pub fn checkpoint_data(&self) -> &[u8] {
        self.raft.as_ref().map_or(&[], |raft| &raft.store().state.snapshot.data)
    }

    /// The whole durable state. A driver may have these records in the place of all that it was given before.
    pub fn whole(&self) -> Vec<MemberRecord> {
        let founders = self.founders.clone().map(MemberRecord::Founders);
        let state = self.raft.as_ref().map(|raft| {
            let store = raft.store();
            let state = store.with_snapshot(store.state.snapshot.clone());
            MemberRecord::Log(Record::State(Box::new(state)))
        });
        [MemberRecord::Disk(self.disk)].into_iter().chain(founders).chain(state).collect()
    }

    /// Until when the machine may answer, if this member leads and the machine has started.
    pub fn lease_until_ms(&self, now_ms: u64) -> Option<u64> {
        let leading = self.leading.as_ref().filter(|leading| leading.has_started)?;
        if self.faults.serves_after_lease() {
            return Some(u64::MAX);
        }
        let prs = self.raft.as_ref()?.raft.prs();
        let is_quorum = |ids: &mut dyn Iterator<Item = u64>| prs.has_quorum(&ids.collect());
        let heard_ms = leading.lease.heard_by_quorum(now_ms, self.id(), is_quorum)?;
        Some(heard_ms + LEASE_MS)
    }

    /// Appends an entry, if this member leads in that term. Returns its index.
    pub fn propose(&mut self, now_ms: u64, term: u64, data: Vec<u8>, out: &mut Effects) -> Option<u64> {
        let raft = self.raft.as_mut()?;
        if raft.raft.state != StateRole::Leader || raft.raft.term != term {
            return None;
        }
        raft.propose(Vec::new(), data).ok()?;
        let index = raft.raft.raft_log.last_index();
        self.process_ready(now_ms, out);
        Some(index)
    }

    /// Takes one message and runs it to completion.
    pub fn step(&mut self, now_ms: u64, from: Place, message: Message, out: &mut Effects) {
        if from >= self.settings.members || from == self.settings.place {
            return;
        }
        match message {
            Message::Greeting(greeting) => self.on_greeting(from, &greeting, out),
            Message::Raft { message, sent_ms, heard_ms } => {
                self.on_raft(now_ms, from, *message, (sent_ms, heard_ms));
            }
        }
        self.process_ready(now_ms, out);
    }

    /// Called every few milliseconds.
    pub fn on_timer(&mut self, now_ms: u64, out: &mut Effects) {
        let due = now_ms.saturating_sub(self.ticked_ms) / TICK_MS;
        self.ticked_ms += due * TICK_MS;
        for _ in 0..due.min(TICKS_MAX) {
            // The crate rules out a candidate whose snapshot is not durable.
            let has_durable_state = self.has_durable_state();
            if let Some(raft) = self.raft.as_mut().filter(|_| has_durable_state) {
                raft.tick();
            }
            self.process_ready(now_ms, out);
        }
        if now_ms.saturating_sub(self.greeted_ms) >= GREETING_MS {
            self.greeted_ms = now_ms;
            self.greet(out);
            self.replace_disks();
            self.process_ready(now_ms, out);
        }
    }

    /// The records up to that position are durable on this member.
    pub fn on_durable(&mut self, now_ms: u64, up_to: Lsn, out: &mut Effects) {
        self.durable = up_to.max(self.durable);
        self.process_ready(now_ms, out);
    }

    /// Where a checkpoint of the machine's present state, with all that it has noted, stands. None: there can be none now.
    pub fn begin_checkpoint(&self) -> Option<CheckpointHead> {
        let raft = self.raft.as_ref()?;
        let is_joint = !self.configuration.voters_outgoing.is_empty();
        if self.leading.is_none() || raft.raft.has_pending_conf() || is_joint {
            return None;
        }
        let index = raft.raft.raft_log.last_index();
        let term = raft.raft.raft_log.term(index).ok()?;
        Some(CheckpointHead { index, term, configuration: self.configuration.clone() })
    }

    /// Where a checkpoint of everything that is committed here stands, whether this member leads or not. It is for a driver whose state the
    /// committed entries lead to. None: there is nothing new, or there can be none now.
    pub fn committed_head(&self) -> Option<CheckpointHead> {
        let raft = self.raft.as_ref()?;
        let is_joint = !self.configuration.voters_outgoing.is_empty();
        if is_joint || self.applied_index <= raft.store().state.snapshot.index {
            return None;
        }
        let term = raft.raft.raft_log.term(self.applied_index).ok()?;
        Some(CheckpointHead { index: self.applied_index, term, configuration: self.configuration.clone() })
    }

    /// Whether the checkpoint's entry is committed.
    pub fn standing(&self, head: &CheckpointHead) -> Standing {
        let Some(raft) = &self.raft else { return Standing::Void };
        let CheckpointHead { index, term, .. } = head;
        let store = raft.store();
        // What is not in memory any more is committed, and a leader's entries are those of its term.
        let is_of_term = raft.raft.raft_log.term(*index).is_ok_and(|found| found == *term || found == 0);
        let is_there = is_of_term && *index <= raft.raft.raft_log.last_index();
        match () {
            () if store.state.snapshot.index >= *index || !is_there => Standing::Void,
            () if self.applied_index >= *index => Standing::Committed,
            () => Standing::Waits,
        }
    }

    /// The driver has a checkpoint durably that stands ([`Standing::Committed`]): what is before it is no longer needed on the disk.
    pub fn on_checkpoint(&mut self, head: CheckpointHead, data: Vec<u8>) {
        let CheckpointHead { index, term, configuration } = head;
        assert!(index <= self.applied_index, "a checkpoint is of what is committed");
        self.note_log(Record::Snapshot(RaftSnapshot { term, index, configuration, data }));
    }

    fn on_greeting(&mut self, from: Place, greeting: &Greeting, out: &mut Effects) {
        if self.leading.is_some() {
            self.greeted.insert(from, greeting.disk);
        }
        if self.founders.is_none()
            && let Some(founders) = self.founding.on_greeting(from, greeting)
        {
            self.found(founders);
        }
        if greeting.asks {
            let answer = Greeting { disk: self.disk, founders: self.founders.clone(), asks: false };
            // What it says of itself has to be so after a crash.
            out.send_after(from, Message::Greeting(answer), self.noted);
        }
    }

    /// A member without a vote says so.
    fn greet(&self, out: &mut Effects) {
        if self.founders.is_none() {
            return self.founding.greet_after(self.noted, out);
        }
        // A learner greets, too: the next leader has not heard of it.
        if self.configuration.voters.contains(&self.id()) {
            return;
        }
        let greeting = Greeting { disk: self.disk, founders: self.founders.clone(), asks: true };
        let others = (0..self.settings.members).filter(|place| *place != self.settings.place);
        others.for_each(|to| out.send_after(to, Message::Greeting(greeting.clone()), self.noted));
    }

    /// A leader takes members with new disks into the configuration: as learners first, then in the place of the lost ones.
    fn replace_disks(&mut self) {
        let Some(raft) = self.raft.as_mut().filter(|_| self.leading.is_some()) else { return };
        let seen_commit = std::mem::replace(&mut self.seen_commit, raft.raft.raft_log.committed);
        let conf = &self.configuration;
        if raft.raft.has_pending_conf() || !conf.voters_outgoing.is_empty() {
            return;
        }
        self.greeted.retain(|place, disk| !conf.voters.contains(&id_of(*place, *disk)));
        for (place, disk) in &self.greeted {
            let id = id_of(*place, *disk);
            let changes = if !conf.learners.contains(&id) {
                vec![RaftChange::AddLearner(id)]
            } else {
                let progress = raft.raft.prs().get(id);
                let follows = |one: &raft::Progress| {
                    one.state == ProgressState::Replicate && one.matched >= seen_commit
                };
                if !progress.is_some_and(follows) {
                    continue;
                }
                let lost = conf.ids().filter(|other| *other != id && place_of(*other) == Some(*place));
                [RaftChange::AddVoter(id)].into_iter().chain(lost.map(RaftChange::Remove)).collect()
            };
            // An error means that there is no change.
            let _ = raft.propose_conf_change(Vec::new(), changes_into_raft(&changes));
            return;
        }
    }

    fn on_raft(&mut self, now_ms: u64, from: Place, message: RaftMessage, times: (u64, Option<u64>)) {
        let own = self.id();
        let Some(raft) = &mut self.raft else { return };
        let is_of_members = place_of(message.from) == Some(from) && message.to == own;
        let is_whole = message.snapshot.is_some() == (message.kind == RaftKind::Snapshot);
        let asks_vote = matches!(message.kind, RaftKind::RequestVote | RaftKind::RequestPreVote);
        if !is_of_members || !is_whole || asks_vote && now_ms < self.silent_until_ms {
            return;
        }
        let RaftMessage { kind, from: id, term, .. } = message;
        // An error means that the message has no effect.
        let _ = raft.step(into_raft(message));
        let (sent_ms, heard_ms) = times;
        let is_current = raft.raft.term == term;
        let is_leaders = matches!(kind, RaftKind::Append | RaftKind::Heartbeat | RaftKind::Snapshot);
        if is_leaders && is_current && raft.raft.leader_id == id {
            Heard::hear(&mut self.heard, Heard { term, leader: id, sent_ms });
        }
        if let Some(leading) = &mut self.leading
            && let Some(heard_ms) = heard_ms
            && is_current
            && leading.lease.term == term
        {
            leading.lease.on_heard(id, heard_ms);
        }
    }

    /// Notes, sends and applies what Raft has ready.
    fn process_ready(&mut self, now_ms: u64, out: &mut Effects) {
        self.report_persisted();
        while let Some(raft) = self.raft.as_mut().filter(|raft| raft.has_ready()) {
            let mut ready = raft.ready();
            let mut has_snapshot = self.send(now_ms, ready.take_messages(), Lsn::START, out);
            if !ready.snapshot().is_empty() {
                self.install(snapshot_from_raft(ready.snapshot()));
            }
            if !ready.entries().is_empty() {
                self.note_log(Record::Entries(ready.entries().iter().map(entry_from_raft).collect()));
            }
            if let Some(&pb::HardState { term, vote, commit, .. }) = ready.hs() {
                self.note_log(Record::HardState(HardState { term, vote, commit }));
            }
            let after = if self.faults.acknowledges_before_disk() { Lsn::START } else { self.noted };
            has_snapshot.extend(self.send(now_ms, ready.take_persisted_messages(), after, out));
            self.unpersisted.push_back((self.noted, ready.number()));
            let committed = ready.take_committed_entries();
            let raft = self.raft.as_mut().expect("it is there");
            raft.advance_append_async(ready);
            for to in has_snapshot {
                // If the snapshot is lost, the next answer of the follower says so.
                raft.report_snapshot(to, raft::SnapshotStatus::Finish);
            }
            self.report_persisted();
            committed.iter().for_each(|entry| self.apply(&entry_from_raft(entry)));
            self.report_applied();
        }
        self.follow_role();
        self.forget();
    }

    fn note(&mut self, record: MemberRecord) {
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }

    fn note_log(&mut self, record: Record) {
        self.raft.as_mut().expect("a log has a member").mut_store().apply(&record);
        self.note(MemberRecord::Log(record));
    }

    /// Tells Raft which of its batches are durable.
    fn report_persisted(&mut self) {
        while let Some((position, number)) = self.unpersisted.front().copied()
            && position <= self.durable
            && let Some(raft) = &mut self.raft
        {
            self.unpersisted.pop_front();
            raft.on_persist_ready(number);
            if self.faults.counts_itself_twice() {
                count_twice(raft);
            }
        }
        self.report_applied();
    }

    /// Returns whether the state that is applied is durable: it is not while a snapshot that has come is written.
    fn has_durable_state(&self) -> bool {
        self.raft.as_ref().is_some_and(|raft| self.applied_index <= raft.raft.raft_log.persisted)
    }

    /// Tells Raft what is applied, which has to be durable.
    fn report_applied(&mut self) {
        let is_durable = self.has_durable_state();
        let Some(raft) = self.raft.as_mut().filter(|_| is_durable) else { return };
        if self.applied_index > raft.raft.raft_log.applied {
            raft.advance_apply_to(self.applied_index);
        }
    }

    /// Sends messages of Raft. Returns the ids of members that are sent a snapshot.
    fn send(&self, now_ms: u64, messages: Vec<pb::Message>, after: Lsn, out: &mut Effects) -> Vec<u64> {
        let mut have_snapshots = Vec::new();
        let term = self.term();
        let heard = self.heard.filter(|heard| heard.term == term);
        for message in messages.into_iter().filter_map(from_raft) {
            let Some(to) = place_of(message.to) else { continue };
            if message.kind == RaftKind::Snapshot {
                have_snapshots.push(message.to);
            }
            let heard_ms = heard.filter(|heard| heard.leader == message.to).map(|heard| heard.sent_ms);
            let message = Message::Raft { message: Box::new(message), sent_ms: now_ms, heard_ms };
            out.send_after(to, message, after);
        }
        have_snapshots
    }

    /// Takes the leader's checkpoint in the place of the own log.
    fn install(&mut self, snapshot: RaftSnapshot) {
        self.applied_index = snapshot.index;
        self.configuration = snapshot.configuration.clone();
        self.note_log(Record::Snapshot(snapshot));
    }

    /// Applies a committed entry.
    fn apply(&mut self, entry: &RaftEntry) {
        assert!(entry.index == self.applied_index + 1, "entries are applied in order");
        self.applied_index = entry.index;
        if let (Some(changes), Some(raft)) = (&entry.changes, &mut self.raft) {
            let state = raft.apply_conf_change(&changes_into_raft(changes));
            let state = state.expect("a leader proposes only changes that can be made");
            self.configuration = configuration_from_raft(&state);
        }
    }

    /// Begins and ends the lead, and says how far the log is committed.
    fn follow_role(&mut self) {
        let Some(raft) = &self.raft else { return };
        let core = &raft.raft;
        let leads = core.state == StateRole::Leader;
        if let Some(old) = self.leading.take_if(|leading| !leads || leading.lease.term != core.term)
            && old.has_started
        {
            self.events.push(Event::Ended);
        }
        if !leads {
            return;
        }
        let term = core.term;
        let leading = self.leading.get_or_insert_with(|| {
            self.greeted.clear();
            Leading { lease: Lease::new(term), has_started: false, told_index: 0 }
        });
        if !leading.has_started {
            let applied = self.applied_index;
            let is_of_term = core.raft_log.term(applied).is_ok_and(|of| of == term);
            let index =
                if self.faults.starts_before_first_entry() { core.raft_log.last_index() } else { applied };
            let is_ready = self.faults.starts_before_first_entry() || is_of_term;
            if !is_ready || core.raft_log.persisted < index {
                return;
            }
            (leading.has_started, leading.told_index) = (true, index);
            self.events.push(Event::Leads { term, index });
        }
        if self.applied_index > leading.told_index {
            leading.told_index = self.applied_index;
            self.events.push(Event::Committed(self.applied_index));
        }
        if raft.store().take_outdated() {
            self.events.push(Event::WantsCheckpoint);
        }
    }

    /// Bounds the memory of entries that a checkpoint has. All behind it stay: a leader that has not started can take no checkpoint, and
    /// may need a majority to have them.
    fn forget(&mut self) {
        let bytes_max = self.settings.memory_bytes_max;
        let Some(raft) = &mut self.raft else { return };
        let log = &raft.raft.raft_log;
        let up_to = log.applied.min(log.persisted).min(raft.store().state.snapshot.index);
        raft.mut_store().forget(up_to, bytes_max);
    }
}

/// The planted bug that counts the own disk for another member's.
fn count_twice(raft: &mut RawNode<Store>) {
    let core = &raft.raft;
    let own = core.id;
    let other = core.prs().iter().map(|(id, _)| *id).filter(|id| *id != own).min();
    if core.state != StateRole::Leader || other.is_none() {
        return;
    }
    let message = pb::Message {
        msg_type: pb::MessageType::MsgAppendResponse,
        from: other.unwrap_or_default(),
        to: own,
        term: core.term,
        index: core.raft_log.persisted,
        ..pb::Message::default()
    };
    let _ = raft.step(message);
}

/// The log of a member that joins: nothing, and nobody votes.
fn empty() -> State {
    let configuration = RaftConfiguration::default();
    let snapshot = RaftSnapshot { term: 0, index: 0, configuration, data: Vec::new() };
    State { hard_state: HardState { term: 0, vote: 0, commit: 0 }, snapshot, entries: Vec::new() }
}

fn config(settings: &Settings, id: u64, applied: u64) -> raft::Config {
    let election_tick = ELECTION_TICKS + (usize::from(settings.place) + 1) * STAGGER_TICKS;
    config_of(id, (election_tick, HEARTBEAT_TICKS), applied)
}
