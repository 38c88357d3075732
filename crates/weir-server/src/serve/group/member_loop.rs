//! The thread of a member: it carries its messages, its disk and its clock, and has the machine run while it leads.
//!
//! Adds sockets, a disk and a clock to `weir_raft::Member`. It decides nothing that the member could decide.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use tracing::{info, warn};
use weir_core::ids::ShardId;
use weir_core::lsn::{HeldMessages, Lsn};
use weir_core::raft_message::RaftKind;
use weir_net::Link;
use weir_raft::message::{Effects, Message};
use weir_raft::{
    CheckpointHead, Event, Member, MemberRecord, NoFaults, Place, Record, Settings, Standing, TICK_MS,
};

use super::disk::{DiskRecord, Found, head_of};
use super::fetch::{self, Fetching};
use super::links::Links;
use super::log::Reign;
use super::wire::Wire;
use super::{GroupPlace, GroupState, Lead, MemberArrival, MemberInbox, monotonic_ms};
use crate::serve::ServeError;
use crate::serve::log::{Log, Parts, Reading};
use crate::serve::shard_loop::Arrival;
use crate::serve::writer::{Writer, Written};
use crate::serve::{Durability, log};

/// Memory for entries before the checkpoint, which other members may still need.
const MEMORY_BYTES_MAX: usize = 32 << 20;
/// Interval at which a leader names its checkpoint.
const ANNOUNCED_MS: u64 = 1_000;
/// A node that ends waits so long for the thread of a machine.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);

const WAKER: Token = Token(0);

/// Which member of which group.
pub(in crate::serve) struct MemberSettings {
    pub shard: ShardId,
    pub place: Place,
    /// Addresses of the members' nodes, by place.
    pub addresses: Vec<String>,
    pub directory: PathBuf,
    pub durability: Durability,
    pub snapshot_after: u64,
}

/// Begins the thread of the machine at the start of a lead; it says [`MemberArrival::Ended`] when it ends.
pub(in crate::serve) type StartMachine = Box<dyn Fn(Lead) -> io::Result<JoinHandle<()>> + Send>;

pub(in crate::serve) struct MemberLoop {
    settings: MemberSettings,
    poll: Poll,
    place: Arc<GroupPlace>,
    links: Links,
    start_machine: StartMachine,
    member: Member<NoFaults>,
    out: Effects,
    held: HeldMessages<(Place, Message)>,
    writer: Writer<DiskRecord>,
    /// Records given to the writer; and of the member's records, up to which of them are durable with how many of these.
    given: u64,
    positions: VecDeque<(u64, Lsn)>,
    leading: Option<Leading>,
    /// The machine's thread, until it has said that it ends; and a lead that waits for that.
    running: Option<(u64, JoinHandle<()>)>,
    next_lead: Option<Lead>,
    /// The newest checkpoint of the own disk, with its file and length.
    checkpoint: Option<(CheckpointHead, PathBuf, u64)>,
    /// Checkpoints of the machine that the writer has ended; and one that it is about to end.
    snapshots: u64,
    ending: Option<CheckpointHead>,
    /// One that the writer is about to have, with as many records.
    installing: Option<(u64, CheckpointHead)>,
    fetching: Option<Fetching>,
    fetched: Option<(u64, PathBuf)>,
    announced_ms: u64,
    looked_ms: u64,
    /// Its disk is new to the group, and has no vote yet.
    is_new: bool,
    stops: Option<Instant>,
}

/// The lead of this member.
struct Leading {
    term: u64,
    reign: Arc<Reign>,
    /// Entries of the machine that are not committed, and how many of its records are committed with each.
    proposed: VecDeque<(u64, u64)>,
    /// Records of the machine.
    noted: u64,
    checkpoint: Option<Checkpoint>,
    /// The writer has not ended it.
    has_begun_checkpoint: bool,
    /// Another member needs a newer one.
    wants_checkpoint: bool,
}

/// A checkpoint of the machine on its way to the disk.
struct Checkpoint {
    head: CheckpointHead,
    parts: Parts<DiskRecord>,
    /// The machine has handed on all of it.
    is_whole: bool,
    /// The last record, which ends the file, has been handed on; and the word that it was the last.
    has_head: bool,
    is_over: bool,
    /// Records that the writer needs to have before.
    after: u64,
}

impl MemberLoop {
    /// Reads the log of the member. `link`: how to reach the member at that place. Also returns whether the log has something of the
    /// machine.
    ///
    /// # Errors
    /// Those of the log and of the system.
    pub(in crate::serve) fn new(
        settings: MemberSettings,
        link: impl Fn(Place, Token) -> Link,
    ) -> Result<(MemberLoop, bool), ServeError> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let inbox = Arc::new(MemberInbox { arrivals: Mutex::default(), waker });
        let MemberSettings { shard, place, ref directory, durability, snapshot_after, .. } = settings;
        log::make_directory(directory).and_then(|()| fetch::clean(directory))?;
        let mut reading = Reading::begin(directory, shard)?;
        let found = Found::read(&mut reading);
        let (log, torn) = reading.end(durability, snapshot_after)?;
        if torn > 0 {
            warn!(shard, bytes = torn, log = %directory.display(), "cut off the end of the log, which was never durable");
        }
        let checkpoint = newest(directory, found.head)?;
        let writer = {
            let inbox = inbox.clone();
            Writer::start(format!("log-{shard}"), (log, true), move || inbox.wake())?
        };
        let mut new_disk = [0; 8];
        getrandom::fill(&mut new_disk).map_err(io::Error::other)?;
        let members = settings.addresses.len() as u8;
        let of_member = Settings {
            place,
            members,
            new_disk: u64::from_le_bytes(new_disk) & weir_raft::DISK_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
        };
        let member = Member::new(monotonic_ms(), of_member, NoFaults, &found.records);
        let token = |to: Place| Token(super::links::FIRST + usize::from(to));
        let links = (0..members).map(|to| (to != place).then(|| link(to, token(to)))).collect();
        let place_here = Arc::new(GroupPlace::new(inbox, writer.figures()));
        let made = MemberLoop {
            links: Links::new(shard, place, links),
            settings,
            poll,
            place: place_here,
            start_machine: Box::new(|_| Err(io::Error::other("no machine"))),
            member,
            out: Effects::default(),
            held: HeldMessages::default(),
            writer,
            given: 0,
            positions: VecDeque::new(),
            leading: None,
            running: None,
            next_lead: None,
            checkpoint,
            snapshots: 0,
            ending: None,
            installing: None,
            fetching: None,
            fetched: None,
            announced_ms: 0,
            looked_ms: 0,
            is_new: false,
            stops: None,
        };
        Ok((made, found.has_machine))
    }

    pub(in crate::serve) fn place(&self) -> Arc<GroupPlace> {
        self.place.clone()
    }

    pub(in crate::serve) fn set_machine(&mut self, start_machine: StartMachine) {
        self.start_machine = start_machine;
    }

    /// Runs until the node ends.
    ///
    /// # Errors
    /// The disk's, or the machine has failed.
    pub(in crate::serve) fn run(mut self) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(256);
        let mut ready: Vec<usize> = Vec::new();
        loop {
            let patience = if ready.is_empty() { Duration::from_millis(TICK_MS) } else { Duration::ZERO };
            if let Err(error) = self.poll.poll(&mut events, Some(patience))
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the system gives no events: {error}");
            }
            let (now, now_ms) = (Instant::now(), monotonic_ms());
            for event in events.iter().filter(|event| event.token() != WAKER) {
                ready.extend(self.links.on_event(event, now, self.poll.registry()));
            }
            let arrivals = self.place.member.take();
            for arrival in arrivals {
                ready.extend(self.on_arrival(arrival, now_ms)?);
            }
            let mut heard = Vec::new();
            ready.sort_unstable();
            ready.dedup();
            ready.retain(|slot| self.links.hear(*slot, self.poll.registry(), &mut heard));
            for (from, message) in heard {
                self.on_message(from, message, now_ms)?;
            }
            self.on_written(now_ms)?;
            self.member.on_timer(now_ms, &mut self.out);
            self.settle(now_ms)?;
            self.go_on_with_checkpoint()?;
            self.go_on_with_fetching(now_ms);
            self.publish(now_ms);
            self.links.flush(now, self.poll.registry());
            if let Some(since) = self.stops
                && (self.running.is_none() || since.elapsed() >= LAST_WORDS_MAX)
            {
                return self.writer.finish().map_err(ServeError::Log);
            }
        }
    }

    /// Returns the slot of a connection that has come.
    fn on_arrival(&mut self, arrival: MemberArrival, now_ms: u64) -> Result<Option<usize>, ServeError> {
        match arrival {
            MemberArrival::Visitor { connection, address } => {
                match self.links.accept(connection, address, self.poll.registry()) {
                    Ok(slot) => return Ok(Some(slot)),
                    Err(error) => warn!(%address, %error, "a member's connection cannot be watched"),
                }
            }
            MemberArrival::Propose { term, count, data } => self.propose(now_ms, term, count, data),
            MemberArrival::Checkpoint { term, parts, taken } => {
                // Entries of before have to be in the log, and in the segments before.
                self.settle(now_ms)?;
                if let Some(leading) = self.leading.as_mut().filter(|leading| leading.term == term) {
                    match self.member.begin_checkpoint() {
                        Some(head) => {
                            self.writer.begin_snapshot(taken);
                            self.write(self.member.identity());
                            let after = self.given;
                            let Some(leading) = &mut self.leading else { return Ok(None) };
                            (leading.has_begun_checkpoint, leading.wants_checkpoint) = (true, false);
                            leading.checkpoint = Some(Checkpoint {
                                head,
                                parts,
                                is_whole: false,
                                has_head: false,
                                is_over: false,
                                after,
                            });
                        }
                        None => leading.reign.lock().snapshots += 1,
                    }
                }
            }
            MemberArrival::CheckpointTaken { term, is_whole } => {
                if let Some(leading) = self.leading.as_mut().filter(|leading| leading.term == term)
                    && let Some(checkpoint) = &mut leading.checkpoint
                {
                    checkpoint.is_whole = is_whole;
                    // Without it the writer gives it up.
                    leading.checkpoint.take_if(|_| !is_whole);
                }
            }
            MemberArrival::Ended { term, how } => {
                if let Some((_, thread)) = self.running.take_if(|(of, _)| *of == term) {
                    // It has said how it ends.
                    let _ = thread.join();
                }
                how?;
                if let Some(lead) = self.next_lead.take() {
                    self.begin(lead)?;
                }
            }
            MemberArrival::Stop => {
                self.stops = self.stops.or(Some(Instant::now()));
                if let Some((term, _)) = &self.running {
                    self.place.end(*term, Arrival::Stop);
                }
            }
        }
        Ok(None)
    }

    fn propose(&mut self, now_ms: u64, term: u64, count: u64, data: Vec<u8>) {
        let Some(leading) = self.leading.as_mut().filter(|leading| leading.term == term) else { return };
        if let Some(index) = self.member.propose(now_ms, term, data, &mut self.out) {
            leading.noted += count;
            leading.proposed.push_back((index, leading.noted));
        }
    }

    fn on_message(&mut self, from: Place, message: Wire, now_ms: u64) -> Result<(), ServeError> {
        match message {
            // It is taken on its connection.
            Wire::Introduce(_) => {}
            Wire::Member(message) => match snapshot_in(&message) {
                Some(head) if head.index > self.member.commit_index() => {
                    self.fetch(head, from, Some(message), now_ms);
                }
                _ => self.member.step(now_ms, from, message, &mut self.out),
            },
            Wire::Has(head, _) => {
                let is_long = self.writer.written().map_err(ServeError::Log)?.is_outgrown;
                let is_newer = head.index > self.member.checkpoint_index() && self.leading.is_none();
                if is_long && is_newer && self.member.standing(&head) == Standing::Committed {
                    self.fetch(head, from, None, now_ms);
                }
            }
            Wire::Fetch { index, offset } => {
                let own = self.checkpoint.as_ref().filter(|(head, ..)| head.index == index);
                let part = own.and_then(|(_, path, _)| fetch::part_of(path, index, offset).ok());
                self.say(from, &part.unwrap_or_else(|| fetch::no_part(index, offset)));
            }
            Wire::Part { index, offset, length, bytes } => {
                let Some(fetching) = self.fetching.as_mut().filter(|one| one.head.index == index) else {
                    return Ok(());
                };
                match fetching.take(offset, length, &bytes, now_ms) {
                    Ok(true) => self.on_fetched(now_ms)?,
                    Ok(false) => {}
                    Err(error) => {
                        warn!(shard = self.settings.shard, %error, "a checkpoint of the group cannot be fetched");
                        self.end_fetching();
                    }
                }
            }
        }
        Ok(())
    }

    /// Fetches the checkpoint, unless that is under way.
    fn fetch(&mut self, head: CheckpointHead, from: Place, message: Option<Message>, now_ms: u64) {
        let is_wanted = |one: &Fetching| message.is_none() || one.message.is_some() && one.head == head;
        if self.fetching.as_ref().is_some_and(is_wanted) || self.installing.is_some() {
            return;
        }
        let (shard, index) = (self.settings.shard, head.index);
        self.end_fetching();
        match Fetching::begin(&self.settings.directory, (head, from), message, now_ms) {
            Ok(fetching) => {
                info!(
                    shard,
                    index,
                    from = self.settings.addresses[usize::from(from)],
                    "fetches a checkpoint"
                );
                self.fetching = Some(fetching);
            }
            Err(error) => warn!(shard, %error, "a checkpoint of the group cannot be fetched"),
        }
    }

    fn end_fetching(&mut self) {
        if let Some(fetching) = self.fetching.take() {
            // What is left is removed at the next start.
            let _ = std::fs::remove_file(fetching.path());
        }
    }

    /// The checkpoint's file is whole and durable.
    fn on_fetched(&mut self, now_ms: u64) -> Result<(), ServeError> {
        let Some(fetching) = self.fetching.take() else { return Ok(()) };
        self.fetched = Some((fetching.head.index, fetching.path()));
        let path = fetching.path();
        match fetching.message {
            Some(message) => self.member.step(now_ms, fetching.from, message, &mut self.out),
            None => {
                let has_rest = self.member.entries_behind(fetching.head.index).is_some();
                let is_newer = fetching.head.index > self.member.checkpoint_index();
                if has_rest && is_newer && self.leading.is_none() {
                    self.member.on_checkpoint(fetching.head, Vec::new());
                }
            }
        }
        self.settle(now_ms)?;
        if self.fetched.take().is_some() {
            // It was not needed any more.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    fn go_on_with_fetching(&mut self, now_ms: u64) {
        if self.fetching.as_ref().is_some_and(|fetching| fetching.is_given_up(now_ms)) {
            self.end_fetching();
        }
        let Some(fetching) = &mut self.fetching else { return };
        let from = fetching.from;
        if let Some(asks) = fetching.asks(now_ms) {
            self.say(from, &asks);
        }
    }

    fn say(&mut self, to: Place, message: &Wire) {
        self.links.send(to, message, Instant::now(), self.poll.registry());
    }

    /// Takes what the disk has written.
    fn on_written(&mut self, now_ms: u64) -> Result<(), ServeError> {
        let Written { durable, is_full, .. } = self.writer.written().map_err(ServeError::Log)?;
        let mut up_to = None;
        while let Some((_, lsn)) = self.positions.pop_front_if(|(given, _)| *given <= durable.0) {
            up_to = Some(lsn);
        }
        if let Some(up_to) = up_to {
            for (to, message) in self.held.on_durable(up_to).collect::<Vec<_>>() {
                self.say(to, &Wire::Member(message));
            }
            self.member.on_durable(now_ms, up_to, &mut self.out);
        }
        if let Some((_, head)) = self.installing.take_if(|(given, _)| *given <= durable.0) {
            self.checkpoint = newest(&self.settings.directory, Some(head))?;
        }
        if let Some(leading) = &self.leading {
            leading.reign.lock().is_full = is_full;
        }
        if is_full && now_ms >= self.looked_ms + ANNOUNCED_MS {
            self.looked_ms = now_ms;
            self.writer.look_for_room();
        }
        Ok(())
    }

    /// Does what the member wants done, until it is quiet.
    fn settle(&mut self, now_ms: u64) -> Result<(), ServeError> {
        loop {
            let (events, records) = (self.member.take_events(), self.member.take_records());
            let messages = std::mem::take(&mut self.out.messages);
            if events.is_empty() && records.is_empty() && messages.is_empty() {
                return Ok(());
            }
            self.note(records);
            for each in messages {
                let message = (each.to, each.message);
                // Messages that wait for nothing wait for no first record either.
                let leaves = if each.after == Lsn::START {
                    Some(message)
                } else {
                    self.held.hold(each.after, message)
                };
                if let Some((to, message)) = leaves {
                    self.say(to, &Wire::Member(message));
                }
            }
            for event in events {
                self.on_event(event)?;
            }
            self.on_written(now_ms)?;
        }
    }

    /// Gives the member's records to the disk.
    fn note(&mut self, records: Vec<MemberRecord>) {
        let mut batch = Vec::new();
        for record in records {
            self.held.note(1);
            match record {
                MemberRecord::Log(Record::Snapshot(snapshot)) => {
                    self.write(std::mem::take(&mut batch));
                    self.install(head_of(&snapshot));
                }
                record => batch.push(record),
            }
            if batch.is_empty() {
                self.positions.push_back((self.given, self.held.noted()));
            }
        }
        if !batch.is_empty() {
            self.write(batch);
            self.positions.push_back((self.given, self.held.noted()));
        }
    }

    fn write(&mut self, records: Vec<MemberRecord>) {
        if !records.is_empty() {
            self.given += records.len() as u64;
            self.writer.append(records.into_iter().map(DiskRecord::Member).collect());
        }
    }

    /// A checkpoint takes the place of what is before it: one that was fetched, or the machine's, whose file is there already.
    fn install(&mut self, head: CheckpointHead) {
        let Some((_, path)) = self.fetched.take_if(|(index, _)| *index == head.index) else { return };
        let behind = self.member.entries_behind(head.index).filter(|entries| !entries.is_empty());
        let rest = behind.map(|entries| MemberRecord::Log(Record::Entries(entries)));
        let records = self.member.identity().into_iter().chain(rest).map(DiskRecord::Member).collect();
        self.writer.install(path, records);
        self.given += 1;
        self.installing = Some((self.given, head));
    }

    fn on_event(&mut self, event: Event) -> Result<(), ServeError> {
        let shard = self.settings.shard;
        match event {
            Event::Leads { term, index } => {
                info!(shard, term, index, "this member leads its group");
                let reign = Arc::new(Reign::default());
                let lead = Lead { term, index, reign: reign.clone(), place: self.place.clone() };
                self.leading = Some(Leading {
                    term,
                    reign,
                    proposed: VecDeque::new(),
                    noted: 0,
                    checkpoint: None,
                    has_begun_checkpoint: false,
                    wants_checkpoint: false,
                });
                match self.running {
                    // It ends.
                    Some(_) => self.next_lead = Some(lead),
                    None => self.begin(lead)?,
                }
            }
            Event::Committed(index) => {
                let Some(leading) = &mut self.leading else { return Ok(()) };
                let mut committed = None;
                while let Some((_, records)) = leading.proposed.pop_front_if(|(of, _)| *of <= index) {
                    committed = Some(records);
                }
                if let Some(committed) = committed {
                    leading.reign.lock().committed = committed;
                    self.wake_machine();
                }
            }
            Event::Ended => {
                let leader = self
                    .leader()
                    .filter(|address| *address != self.settings.addresses[usize::from(self.settings.place)]);
                if let Some(leading) = self.leading.take() {
                    info!(shard, term = leading.term, "this member leads its group no longer");
                    leading.reign.end();
                    self.place.end(leading.term, Arrival::Deposed(leader));
                }
                self.next_lead = None;
            }
            Event::WantsCheckpoint => {
                if let Some(leading) = &mut self.leading {
                    leading.wants_checkpoint = true;
                    leading.reign.lock().is_outgrown = true;
                    self.wake_machine();
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, lead: Lead) -> Result<(), ServeError> {
        let term = lead.term();
        self.running = Some((term, (self.start_machine)(lead)?));
        Ok(())
    }

    fn wake_machine(&self) {
        if let Some(inbox) = self.place.inbox() {
            inbox.wake();
        }
    }

    fn leader(&self) -> Option<String> {
        self.member.leader().and_then(|place| self.settings.addresses.get(usize::from(place)).cloned())
    }

    /// Ends the file of a checkpoint once what it has is committed, and takes it once it is durable.
    fn go_on_with_checkpoint(&mut self) -> Result<(), ServeError> {
        let Written { durable, is_outgrown, snapshots, .. } =
            self.writer.written().map_err(ServeError::Log)?;
        if std::mem::replace(&mut self.snapshots, snapshots) != snapshots {
            self.on_checkpoint_ended()?;
        }
        let Some(leading) = &mut self.leading else { return Ok(()) };
        leading.reign.lock().is_outgrown = is_outgrown || leading.wants_checkpoint;
        let Some(checkpoint) = &mut leading.checkpoint else { return Ok(()) };
        let standing = self.member.standing(&checkpoint.head);
        if standing == Standing::Void {
            // The writer says when it has given it up.
            leading.checkpoint = None;
            return Ok(());
        }
        if !checkpoint.is_whole || standing == Standing::Waits || durable.0 < checkpoint.after {
            return Ok(());
        }
        if !checkpoint.has_head {
            let head = DiskRecord::Head(checkpoint.head.clone());
            checkpoint.has_head = checkpoint.parts.put(Some(head)).is_ok();
        }
        if checkpoint.has_head && !checkpoint.is_over {
            checkpoint.is_over = checkpoint.parts.put(None).is_ok();
            self.ending = checkpoint.is_over.then(|| checkpoint.head.clone());
        }
        Ok(())
    }

    /// The writer has ended a checkpoint of the machine, or given it up.
    fn on_checkpoint_ended(&mut self) -> Result<(), ServeError> {
        let head = self.ending.take();
        let before = self.checkpoint.as_ref().map(|(_, path, _)| path.clone());
        let now = newest(&self.settings.directory, head)?;
        if let Some((head, ..)) = now.clone().filter(|(_, path, _)| before.as_ref() != Some(path)) {
            self.checkpoint = now;
            if self.member.standing(&head) == Standing::Committed {
                self.member.on_checkpoint(head, Vec::new());
            }
        }
        // It may be one of an earlier lead.
        if let Some(leading) = self.leading.as_mut().filter(|leading| leading.has_begun_checkpoint) {
            leading.has_begun_checkpoint = false;
            leading.checkpoint = None;
            leading.reign.lock().snapshots += 1;
        }
        Ok(())
    }

    /// Tells the rest of the node, the machine and the other members how it is.
    fn publish(&mut self, now_ms: u64) {
        let until_ms = self.member.lease_until_ms(now_ms).unwrap_or(0);
        if let Some(leading) = &self.leading
            && leading.reign.extend_lease(now_ms, until_ms)
        {
            self.wake_machine();
        }
        let configuration = self.member.configuration();
        let votes = configuration.is_joined(self.member.id());
        if self.member.is_founded() && std::mem::replace(&mut self.is_new, !votes) == votes {
            match votes {
                true => info!(shard = self.settings.shard, "this member's new disk votes in its group"),
                false => info!(
                    shard = self.settings.shard,
                    "this member's disk is new to its group, and is filled"
                ),
            }
        }
        self.place.set_state(GroupState {
            leader: self.leader(),
            leads: self.leading.is_some(),
            term: self.member.term(),
            committed: self.member.commit_index(),
            last: self.member.last_index(),
            voters: configuration.voters.len(),
            learners: configuration.joining(),
        });
        if self.leading.is_some()
            && now_ms >= self.announced_ms + ANNOUNCED_MS
            && let Some((head, _, length)) = &self.checkpoint
        {
            self.announced_ms = now_ms;
            let has = Wire::Has(head.clone(), *length);
            let others = (0..self.settings.addresses.len() as Place).filter(|to| *to != self.settings.place);
            others.for_each(|to| self.links.send(to, &has, Instant::now(), self.poll.registry()));
        }
    }
}

/// The checkpoint that a message of Raft stands for.
fn snapshot_in(message: &Message) -> Option<CheckpointHead> {
    match message {
        Message::Raft { message, .. } if message.kind == RaftKind::Snapshot => {
            message.snapshot.as_ref().map(head_of)
        }
        _ => None,
    }
}

/// The newest checkpoint of the directory, which is that one.
fn newest(
    directory: &std::path::Path,
    head: Option<CheckpointHead>,
) -> Result<Option<(CheckpointHead, PathBuf, u64)>, ServeError> {
    let Some(head) = head else { return Ok(None) };
    let file = Log::newest_checkpoint(directory).map_err(ServeError::Log)?;
    Ok(file.map(|(path, length)| (head, path, length)))
}
