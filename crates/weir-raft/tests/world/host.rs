//! A machine of the simulated world: a member, its disk and clock, and the state that a leader has.

use std::collections::VecDeque;

use weir_core::lsn::{HeldMessages, Lsn};
use weir_raft::message::{Effects, Message};
use weir_raft::{
    CheckpointHead, Event, Member, MemberFaults, MemberRecord, Place, Record, Settings, Standing, Store,
    id_of,
};

use super::{Chance, Checks, Operation, Wrong};

/// Entries behind the last checkpoint before the next one.
const CHECKPOINT_AFTER: u64 = 25;

/// A clock that goes at its own rate.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset_ms: u64,
    /// In a thousand.
    rate: u64,
}

impl Clock {
    fn at(self, now_ms: u64) -> u64 {
        self.offset_ms + now_ms * self.rate / 1_000
    }
}

/// An answer that waits until the entries up to that index are committed, and for the lease.
struct Waiting {
    index: u64,
    operation: Operation,
    /// How many values the state had.
    values: usize,
}

/// The state over the log, at a leader.
struct Machine {
    term: u64,
    values: Vec<u64>,
    /// Index of each value's entry.
    indexes: VecDeque<(u64, usize)>,
    committed_index: u64,
    /// Values that are known to be committed.
    committed: usize,
    waiting: Vec<Waiting>,
    checkpoint: Option<(CheckpointHead, Vec<u8>)>,
}

pub struct Host<F: MemberFaults> {
    place: Place,
    members: u8,
    faults: F,
    clock: Clock,
    member: Option<Member<F>>,
    /// All that is noted; durable up to `durable` of them.
    disk: Vec<MemberRecord>,
    durable: usize,
    /// Records of the disk when the member has started.
    before: usize,
    held: HeldMessages<(Place, Message)>,
    /// When the disk has what, as records of the disk.
    writing: VecDeque<(u64, usize)>,
    starts_ms: u64,
    machine: Option<Machine>,
    out: Effects,
    sent: Vec<(Place, Message)>,
}

impl<F: MemberFaults> Host<F> {
    pub fn new(place: Place, members: u8, faults: F, chance: &mut Chance) -> Host<F> {
        let clock = Clock { offset_ms: chance.below(100_000), rate: 976 + chance.below(48) };
        Host {
            place,
            members,
            faults,
            clock,
            member: None,
            disk: Vec::new(),
            durable: 0,
            before: 0,
            held: HeldMessages::default(),
            writing: VecDeque::new(),
            starts_ms: chance.below(500),
            machine: None,
            out: Effects::default(),
            sent: Vec::new(),
        }
    }

    pub fn is_up(&self) -> bool {
        self.member.is_some()
    }

    pub fn may_start(&self, now_ms: u64, is_calm: bool) -> bool {
        is_calm || now_ms >= self.starts_ms
    }

    pub fn start(&mut self, now_ms: u64, new_disk: u64) {
        let settings =
            Settings { place: self.place, members: self.members, new_disk, memory_bytes_max: 2_000 };
        self.disk = compacted(std::mem::take(&mut self.disk));
        (self.durable, self.before) = (self.disk.len(), self.disk.len());
        self.held = HeldMessages::default();
        self.member = Some(Member::new(self.clock.at(now_ms), settings, self.faults, &self.disk));
    }

    /// It loses its memory, and of what its disk has not synced a part that is written in order.
    pub fn crash(&mut self, now_ms: u64, down_ms_max: u64, chance: &mut Chance) {
        let unsynced = (self.disk.len() - self.durable) as u64;
        self.disk.truncate(self.durable + chance.below(unsynced + 1) as usize);
        self.durable = self.disk.len();
        (self.member, self.machine) = (None, None);
        self.writing.clear();
        self.out = Effects::default();
        self.sent.clear();
        self.starts_ms = now_ms + chance.below(down_ms_max);
    }

    pub fn lose_disk(&mut self, now_ms: u64, chance: &mut Chance) {
        self.crash(now_ms, 4_000, chance);
        self.disk.clear();
        self.durable = 0;
    }

    fn disk_id(&self) -> Option<u64> {
        self.disk[..self.durable].iter().find_map(|record| match record {
            MemberRecord::Disk(disk) => Some(*disk),
            _ => None,
        })
    }

    pub fn has_founded(&self) -> bool {
        self.disk[..self.durable].iter().any(|record| matches!(record, MemberRecord::Founders(_)))
    }

    /// Whether its disk is a voter's, as each member knows the configuration that knows the most.
    pub fn is_voter(&self, all: &[Host<F>]) -> bool {
        let members = all.iter().filter_map(|host| host.member.as_ref());
        let newest = members.max_by_key(|member| member.commit_index());
        let Some(disk) = self.disk_id() else { return false };
        newest.is_some_and(|member| {
            let configuration = member.configuration();
            let id = id_of(self.place, disk);
            configuration.voters.contains(&id) && configuration.voters_outgoing.is_empty()
        })
    }

    /// Whether the member is up and knows that the disks of these others vote, in a configuration that is not joint.
    pub fn knows_voters(&self, others: &[&Host<F>]) -> bool {
        let Some(configuration) = self.member.as_ref().map(Member::configuration) else { return false };
        let votes = |host: &&Host<F>| {
            host.disk_id().is_some_and(|disk| configuration.voters.contains(&id_of(host.place, disk)))
        };
        configuration.voters_outgoing.is_empty() && others.iter().all(votes)
    }

    pub fn leads(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.elected_in().is_some())
    }

    pub fn step(&mut self, now_ms: u64, from: Place, message: Message) {
        let Host { member: Some(member), clock, out, .. } = self else { return };
        member.step(clock.at(now_ms), from, message, out);
    }

    pub fn on_timer(&mut self, now_ms: u64) {
        let Host { member: Some(member), clock, out, .. } = self else { return };
        member.on_timer(clock.at(now_ms), out);
    }

    /// The disk has what was due.
    pub fn write(&mut self, now_ms: u64) {
        while let Some((_, records)) = self.writing.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            self.durable = records;
            let up_to = Lsn((records - self.before) as u64);
            self.sent.extend(self.held.on_durable(up_to));
            let Host { member: Some(member), clock, out, .. } = self else { return };
            member.on_durable(clock.at(now_ms), up_to, out);
        }
    }

    /// A client asks; nobody answers who does not lead.
    pub fn ask(&mut self, now_ms: u64, operation: Operation) {
        let Host { member: Some(member), machine: Some(machine), clock, out, .. } = self else { return };
        if let Operation::Write(value) = operation {
            let data = value.to_le_bytes().to_vec();
            let Some(index) = member.propose(clock.at(now_ms), machine.term, data, out) else { return };
            machine.values.push(value);
            machine.indexes.push_back((index, machine.values.len()));
        }
        let meets_all = !matches!(operation, Operation::Read { meets_all: false, .. });
        let committed = machine.committed_index;
        let known = machine.indexes.iter().rev().find(|(index, _)| meets_all || *index <= committed);
        let (index, values) = known.copied().unwrap_or_default();
        machine.waiting.push(Waiting { index, operation, values });
    }

    /// Takes what the member has noted, sent and said, until it is quiet.
    pub fn settle(
        &mut self,
        now_ms: u64,
        sync_ms_max: u64,
        chance: &mut Chance,
        checks: &mut Checks,
    ) -> Result<Vec<Event>, Wrong> {
        let Some(member) = &mut self.member else { return Ok(Vec::new()) };
        if let Some(term) = member.elected_in() {
            checks.on_elected(term, self.place)?;
        }
        let events = member.take_events();
        let records = member.take_records();
        if !records.is_empty() {
            self.held.note(records.len());
            self.disk.extend(records);
            let at_ms = now_ms + chance.below(sync_ms_max + 1);
            let at_ms = self.writing.back().map_or(at_ms, |(before_ms, _)| at_ms.max(*before_ms));
            self.writing.push_back((at_ms, self.disk.len()));
        }
        for each in self.out.messages.drain(..) {
            // A shard's messages wait for its first record at least, those of members do not.
            match each.after == Lsn::START {
                true => self.sent.push((each.to, each.message)),
                false => self.sent.extend(self.held.hold(each.after, (each.to, each.message))),
            }
        }
        for event in &events {
            self.on_event(*event, checks)?;
        }
        self.answer(now_ms, checks)?;
        self.keep_checkpoint();
        Ok(events)
    }

    fn on_event(&mut self, event: Event, checks: &mut Checks) -> Result<(), Wrong> {
        match event {
            Event::Leads { term, index } => {
                let (values, indexes) = recovered(&self.disk, index);
                checks.on_committed(0, &values)?;
                self.machine = Some(Machine {
                    term,
                    committed: values.len(),
                    values,
                    indexes,
                    committed_index: index,
                    waiting: Vec::new(),
                    checkpoint: None,
                });
            }
            Event::Committed(index) => {
                let Some(machine) = &mut self.machine else { return Ok(()) };
                machine.committed_index = index;
                let known = machine.indexes.iter().rev().find(|(of, _)| *of <= index);
                let count = known.map_or(0, |(_, count)| *count);
                checks.on_committed(
                    machine.committed,
                    &machine.values[machine.committed..count.max(machine.committed)],
                )?;
                machine.committed = count.max(machine.committed);
            }
            Event::Ended => self.machine = None,
            Event::WantsCheckpoint => self.begin_checkpoint(),
        }
        Ok(())
    }

    /// Answers that may leave: their entries are committed, and the lease has not passed.
    fn answer(&mut self, now_ms: u64, checks: &mut Checks) -> Result<(), Wrong> {
        let Host { member: Some(member), machine: Some(machine), clock, .. } = self else { return Ok(()) };
        let now_ms = clock.at(now_ms);
        if member.lease_until_ms(now_ms).is_none_or(|until_ms| until_ms <= now_ms) {
            return Ok(());
        }
        let committed = machine.committed_index;
        for waiting in machine.waiting.extract_if(.., |waiting| waiting.index <= committed) {
            match waiting.operation {
                Operation::Write(value) => checks.on_told(value)?,
                Operation::Read { told_before, .. } => {
                    checks.on_read(told_before, waiting.values)?;
                }
            }
        }
        Ok(())
    }

    fn begin_checkpoint(&mut self) {
        let Host { member: Some(member), machine: Some(machine), .. } = self else { return };
        if machine.checkpoint.is_none() {
            let data = machine.values.iter().flat_map(|value| value.to_le_bytes()).collect();
            machine.checkpoint = member.begin_checkpoint().map(|head| (head, data));
        }
    }

    fn keep_checkpoint(&mut self) {
        let Host { member: Some(member), machine: Some(_), .. } = self else { return };
        if member.last_index() > member.checkpoint_index() + CHECKPOINT_AFTER {
            self.begin_checkpoint();
        }
        let Host { member: Some(member), machine: Some(machine), .. } = self else { return };
        let standing = machine.checkpoint.as_ref().map(|(head, _)| member.standing(head));
        match standing {
            Some(Standing::Committed) => {
                if let Some((head, data)) = machine.checkpoint.take() {
                    member.on_checkpoint(head, data);
                }
            }
            Some(Standing::Void) => machine.checkpoint = None,
            Some(Standing::Waits) | None => {}
        }
    }

    /// The newest checkpoint on the disk.
    pub fn checkpoint(&self) -> Option<(CheckpointHead, Vec<u8>)> {
        self.disk[..self.durable].iter().rev().find_map(|record| match record {
            MemberRecord::Log(Record::Snapshot(snapshot)) => {
                let (index, term) = (snapshot.index, snapshot.term);
                let configuration = snapshot.configuration.clone();
                Some((CheckpointHead { index, term, configuration }, snapshot.data.clone()))
            }
            _ => None,
        })
    }

    pub fn take_checkpoint(&mut self, head: CheckpointHead, data: Vec<u8>) {
        let Host { member: Some(member), .. } = self else { return };
        if member.standing(&head) == Standing::Committed {
            member.on_checkpoint(head, data);
        }
    }

    /// For a seed that has failed.
    pub fn describe(&self) -> String {
        let Some(member) = &self.member else { return "down".into() };
        let machine =
            self.machine.as_ref().map(|machine| (machine.term, machine.values.len(), machine.waiting.len()));
        format!(
            "id {:x} leader {:?} term {} committed {} last {} checkpoint {} founded {} machine {machine:?} {:?} durable {} of {}",
            member.id(),
            member.leader(),
            member.term(),
            member.commit_index(),
            member.last_index(),
            member.checkpoint_index(),
            member.is_founded(),
            member.configuration(),
            self.durable,
            self.disk.len(),
        )
    }

    pub fn take_sent(&mut self) -> Vec<(Place, Message)> {
        std::mem::take(&mut self.sent)
    }
}

/// What a leader makes of its disk: values, and where they stand.
fn recovered(disk: &[MemberRecord], index: u64) -> (Vec<u64>, VecDeque<(u64, usize)>) {
    let (mut values, mut indexes) = (Vec::new(), VecDeque::new());
    let store = store_of(disk);
    let value_of = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a value has eight bytes"));
    values.extend(store.state.snapshot.data.chunks(8).map(value_of));
    indexes.push_back((store.state.snapshot.index, values.len()));
    for entry in &store.state.entries {
        let is_behind = entry.index > store.state.snapshot.index && entry.index <= index;
        if is_behind && !entry.data.is_empty() {
            values.push(value_of(&entry.data));
            indexes.push_back((entry.index, values.len()));
        }
    }
    (values, indexes)
}

/// The log that these records lead to, without what a member forgets.
fn store_of(disk: &[MemberRecord]) -> Store {
    let mut store = Store::new(Default::default(), Vec::new(), &[]);
    for record in disk {
        match record {
            // A member that joins begins with a snapshot.
            MemberRecord::Log(Record::Entries(entries)) if entries[0].index > store.last() + 1 => {
                panic!("a gap before {:?}", entries[0]);
            }
            MemberRecord::Log(record) => store.apply(record),
            _ => {}
        }
    }
    store
}

/// The disk after what is before its newest checkpoint is removed, as far as it can be: entries before the checkpoint's index may stay
/// behind it, as they do in a segment.
fn compacted(disk: Vec<MemberRecord>) -> Vec<MemberRecord> {
    let is_snapshot = |record: &MemberRecord| matches!(record, MemberRecord::Log(Record::Snapshot(_)));
    let Some(position) = disk.iter().rposition(is_snapshot) else { return disk };
    let MemberRecord::Log(Record::Snapshot(snapshot)) = &disk[position] else { return disk };
    let before = store_of(&disk[..position]);
    let follows = before.term_at(snapshot.index) == Some(snapshot.term);
    let is_needed = |record: &MemberRecord| match record {
        MemberRecord::Log(Record::Entries(entries)) => {
            entries.last().is_some_and(|entry| entry.index > snapshot.index)
        }
        _ => false,
    };
    let from = disk[..position].iter().position(is_needed).filter(|_| follows).unwrap_or(position);
    let is_identity =
        |record: &&MemberRecord| matches!(record, MemberRecord::Disk(_) | MemberRecord::Founders(_));
    let is_hard_state = |record: &&MemberRecord| matches!(record, MemberRecord::Log(Record::HardState(_)));
    let mut kept: Vec<MemberRecord> = disk[..from].iter().filter(is_identity).cloned().collect();
    let hard_state = disk[..from].iter().rev().find(is_hard_state).cloned();
    kept.push(disk[position].clone());
    kept.extend(hard_state);
    kept.extend(disk[from..].iter().filter(|record| !is_snapshot(record)).cloned());
    kept
}
