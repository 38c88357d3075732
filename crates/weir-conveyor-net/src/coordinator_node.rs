//! A node of the replicated coordinator: Raft by weir-raft, and the machine of weir-conveyor while this node leads.
//!
//! A record of the machine counts as durable once its entry is committed, and nothing that depends on it is told before. A node that begins to
//! lead starts the machine with the committed records. A node that has been deposed and does not know it yet tells nothing new: its records are
//! not committed. What it may still say, a fence or that the ring should be another one, is right whoever says it
//! (docs/internals/conveyor.md, "Epochs and fences").
//!
//! Each node makes checkpoints of what is committed there, of its own accord: the state is small. Entries before one are forgotten, and who still
//! needs them gets the leader's checkpoint.

use std::collections::VecDeque;

use weir_conveyor::coordinator::{Coordinator, CoordinatorState, Record};
use weir_conveyor::epochs::{Epochs, ServerId};
use weir_conveyor::faults::{CoordinatorFaults, NoFaults};
use weir_conveyor::message::{Instruction, Instructions, Report};
use weir_conveyor::routing::ServerSet;
use weir_conveyor::settings::Settings;
use weir_core::lsn::{HeldMessages, Lsn};
use weir_raft::message::{Effects, Message};
use weir_raft::{Event, Member, MemberRecord, Place};

/// Committed entries behind a checkpoint before a node makes the next one.
pub const CHECKPOINT_AFTER: u64 = 64;

/// Records and messages of a step of a node.
#[derive(Debug)]
pub struct NodeEffects {
    /// To be appended to the node's log. Their position goes to `CoordinatorNode::on_durable` once they are durable.
    pub records: Vec<MemberRecord>,
    /// To other nodes.
    pub raft: Vec<(Place, Message)>,
    /// To agents.
    pub instructions: Vec<(ServerId, Instruction)>,
}

/// A node.
pub struct CoordinatorNode<F: CoordinatorFaults = NoFaults> {
    /// All servers, and those that are no members at first.
    servers: (Vec<ServerId>, ServerSet),
    settings: Settings,
    faults: F,
    member: Member,
    checkpoint_after: u64,
    /// Messages of Raft that wait for the log.
    held: HeldMessages<(Place, Message)>,
    leading: Option<Leading<F>>,
}

/// The machine, while this node leads.
struct Leading<F: CoordinatorFaults> {
    term: u64,
    machine: Coordinator<F>,
    /// Instructions that wait until the machine's records are committed.
    held: HeldMessages<(ServerId, Instruction)>,
    /// Entries that are not committed, and up to which position each has the machine's records.
    proposed: VecDeque<(u64, Lsn)>,
}

impl<F: CoordinatorFaults> CoordinatorNode<F> {
    /// `checkpoint_after`: committed entries behind a checkpoint before the next one.
    pub fn new(
        member: Member,
        servers: (Vec<ServerId>, ServerSet),
        settings: Settings,
        checkpoint_after: u64,
        faults: F,
    ) -> CoordinatorNode<F> {
        let held = HeldMessages::default();
        CoordinatorNode { servers, settings, faults, member, checkpoint_after, held, leading: None }
    }

    /// The whole durable state of the node: these records may take the place of all that it has handed out.
    pub fn whole(&self) -> Vec<MemberRecord> {
        self.member.whole()
    }

    /// Index of the newest checkpoint.
    pub fn checkpoint_index(&self) -> u64 {
        self.member.checkpoint_index()
    }

    /// Other bounds hold from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
        if let Some(leading) = &mut self.leading {
            leading.machine.set_settings(settings);
        }
    }

    /// Returns whether this node leads.
    pub fn leads(&self) -> bool {
        self.leading.is_some()
    }

    /// The node that leads, if it is known.
    pub fn leader(&self) -> Option<Place> {
        self.member.leader()
    }

    /// Epochs of the machine here, durable or not.
    pub fn epochs(&self) -> Option<&Epochs> {
        self.leading.as_ref().map(|leading| leading.machine.epochs())
    }

    /// Takes a report of an agent. Only the node that leads does anything with it.
    pub fn on_report(&mut self, now_ms: u64, from: ServerId, report: Report) -> NodeEffects {
        self.step(now_ms, |_, _| (), |machine, out| machine.step(now_ms, from, report, out))
    }

    /// Takes a message of another node.
    pub fn on_raft(&mut self, now_ms: u64, from: Place, message: Message) -> NodeEffects {
        self.step(now_ms, |member, out| member.step(now_ms, from, message, out), |_, _| ())
    }

    /// Called every few milliseconds.
    pub fn on_timer(&mut self, now_ms: u64) -> NodeEffects {
        self.step(
            now_ms,
            |member, out| member.on_timer(now_ms, out),
            |machine, out| machine.on_timer(now_ms, out),
        )
    }

    /// The node's records up to that position are durable.
    pub fn on_durable(&mut self, now_ms: u64, up_to: Lsn) -> NodeEffects {
        let up_to = up_to.min(self.held.noted());
        let leaving: Vec<_> = self.held.on_durable(up_to).collect();
        let mut effects = self.step(now_ms, |member, out| member.on_durable(now_ms, up_to, out), |_, _| ());
        effects.raft.splice(0..0, leaving);
        effects
    }

    /// Runs a step of Raft, what follows from it, and then one of the machine if it runs here.
    fn step(
        &mut self,
        now_ms: u64,
        of_raft: impl FnOnce(&mut Member, &mut Effects),
        of_machine: impl FnOnce(&mut Coordinator<F>, &mut Instructions),
    ) -> NodeEffects {
        let (mut raft, mut instructions) = (Effects::default(), Vec::new());
        of_raft(&mut self.member, &mut raft);
        self.follow(now_ms, &mut raft, &mut instructions);
        let mut of_step = Instructions::default();
        if let Some(leading) = &mut self.leading {
            of_machine(&mut leading.machine, &mut of_step);
        }
        self.settle(now_ms, of_step, &mut raft, &mut instructions);
        // With one node a record may be committed at once.
        self.follow(now_ms, &mut raft, &mut instructions);
        if self.member.commit_index() >= self.member.checkpoint_index() + self.checkpoint_after {
            self.make_checkpoint();
        }
        let records = self.member.take_records();
        self.held.note(records.len());
        let held = &mut self.held;
        let leaving = raft.messages.into_iter();
        let raft = leaving.filter_map(|each| held.hold(each.after, (each.to, each.message))).collect();
        NodeEffects { records, raft, instructions }
    }

    /// Begins and ends the lead, and lets go what waits for entries that are committed now.
    fn follow(&mut self, now_ms: u64, raft: &mut Effects, out: &mut Vec<(ServerId, Instruction)>) {
        for event in self.member.take_events() {
            match event {
                Event::Leads { term, index } => self.start(now_ms, (term, index), raft, out),
                Event::Committed(index) => self.on_committed(index, out),
                Event::Ended => self.leading = None,
                Event::WantsCheckpoint => self.make_checkpoint(),
            }
        }
    }

    fn start(
        &mut self,
        now_ms: u64,
        (term, index): (u64, u64),
        raft: &mut Effects,
        out: &mut Vec<(ServerId, Instruction)>,
    ) {
        let records = self.records_up_to(index);
        let machine = Coordinator::new(now_ms, self.servers.clone(), self.settings, self.faults, &records);
        self.leading =
            Some(Leading { term, machine, held: HeldMessages::default(), proposed: VecDeque::new() });
        self.settle(now_ms, Instructions::default(), raft, out);
    }

    /// The records of the machine up to a committed entry: those of the checkpoint, and of the entries behind it.
    fn records_up_to(&self, index: u64) -> Vec<Record> {
        let entries = self.member.entries_behind(self.member.checkpoint_index());
        let entries = entries.expect("entries behind the checkpoint are in memory");
        let committed = entries.iter().take_while(|entry| entry.index <= index).map(|entry| &entry.data[..]);
        let data = [self.member.checkpoint_data()].into_iter().chain(committed);
        data.filter(|data| !data.is_empty()).flat_map(decoded).collect()
    }

    fn make_checkpoint(&mut self) {
        let Some(head) = self.member.committed_head() else { return };
        let mut state = CoordinatorState::of(&self.records_up_to(head.index));
        if let Some(leading) = self.leading.as_ref().filter(|_| self.faults.checkpoints_uncommitted()) {
            state.clone_from(leading.machine.state());
        }
        self.member.on_checkpoint(head, encoded(&[Record::Checkpoint(state)]));
    }

    /// Proposes the records of a step of the machine, and holds its messages.
    fn settle(
        &mut self,
        now_ms: u64,
        of_step: Instructions,
        raft: &mut Effects,
        out: &mut Vec<(ServerId, Instruction)>,
    ) {
        let Some(leading) = &mut self.leading else { return };
        let records = leading.machine.take_records();
        if !records.is_empty() {
            leading.held.note(records.len());
            let noted = leading.held.noted();
            // None: the lead is over. What waits for the records never leaves.
            if let Some(index) = self.member.propose(now_ms, leading.term, encoded(&records), raft) {
                leading.proposed.push_back((index, noted));
            }
        }
        for each in of_step.messages {
            let message = (each.to, each.message);
            match self.faults.tells_before_record() {
                true => out.push(message),
                false => out.extend(leading.held.hold(each.after, message)),
            }
        }
    }

    fn on_committed(&mut self, index: u64, out: &mut Vec<(ServerId, Instruction)>) {
        let Some(leading) = &mut self.leading else { return };
        while let Some((_, position)) = leading.proposed.pop_front_if(|(proposed, _)| *proposed <= index) {
            out.extend(leading.held.on_durable(position));
        }
    }
}

/// The records of the machine in the committed entries of a log, for a node that starts.
fn decoded(data: &[u8]) -> Vec<Record> {
    postcard::from_bytes(data).expect("an entry is what a node has proposed")
}

fn encoded(records: &[Record]) -> Vec<u8> {
    postcard::to_allocvec(records).expect("memory takes all")
}

/// Which servers' agents have a node of the coordinator: the first five, three, or one. An even number would bear no more failures.
pub fn nodes_of(servers: usize) -> u8 {
    match servers {
        0..3 => 1,
        3..5 => 3,
        _ => 5,
    }
}
