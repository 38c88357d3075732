//! The replicated coordinator in a simulated world: nodes crash and lose what is not durable, messages are lost, late and repeated. No epoch is
//! told in two ways.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_conveyor::epochs::{Epoch, EpochStart, Epochs, ServerId, VisitNumber};
use weir_conveyor::faults::CoordinatorBugs;
use weir_conveyor::message::{Instruction, Report};
use weir_conveyor::routing::ServerSet;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::{DatabaseState, EpochRow};
use weir_conveyor_net::coordinator_node::{CoordinatorNode, NodeEffects, nodes_of};
use weir_core::lsn::Lsn;
use weir_raft::message::Message;
use weir_raft::{Member, MemberRecord, NoFaults, Place};

use crate::chance::Chance;

const STEP_MS: u64 = 5;
/// Committed entries behind a checkpoint before the next one: a few epochs.
const CHECKPOINT_AFTER: u64 = 3;
/// Faults end then, and the world has time to agree.
const QUIET_MS: u64 = 30_000;
const END_MS: u64 = 42_000;

type Node = CoordinatorNode<CoordinatorBugs>;

#[derive(Clone)]
enum Sent {
    Raft(Place, Place, Box<Message>),
    Report(Place, ServerId, Report),
    Instruction(ServerId, Instruction),
    Durable(Place, u64, Lsn),
    /// A snapshot takes the place of the first records of that node's disk, so many in that start.
    Snapshot(Place, u64, usize, Vec<MemberRecord>),
}

/// The disk of a node: records, and how many are durable.
#[derive(Default)]
struct Disk {
    records: Vec<MemberRecord>,
    durable: usize,
    /// Place of the first record of this start. Snapshots move it below zero.
    before: isize,
    starts: u64,
    snapshots: u64,
}

impl Disk {
    fn place_of(&self, of_start: u64) -> usize {
        self.before.saturating_add_unsigned(of_start as usize) as usize
    }
}

struct World {
    bugs: CoordinatorBugs,
    chance: Chance,
    now_ms: u64,
    nodes: Vec<Option<Node>>,
    disks: Vec<Disk>,
    down_until_ms: Vec<u64>,
    /// Until then a node hears no other node, and no other node hears it. Agents do.
    cut_until_ms: Vec<u64>,
    /// Agents: what they know, and until when they are silent.
    agents: Vec<(Epochs, u64)>,
    rows: Vec<EpochRow>,
    ended: VisitNumber,
    flying: Vec<(u64, Sent)>,
    /// Epochs as any agent was told.
    told: BTreeMap<Epoch, EpochStart>,
    /// Positions of the databases, as the agents have said.
    applied: Vec<VisitNumber>,
    wrong: Option<String>,
}

fn settings() -> Settings {
    Settings { token_ms: 800, silence_ms: 300, alive_ms: 50, ..Settings::default() }
}

impl World {
    fn new(seed: u64, servers: usize, bugs: CoordinatorBugs) -> World {
        let nodes = usize::from(nodes_of(servers));
        World {
            bugs,
            chance: Chance::from_seed(seed),
            now_ms: 0,
            nodes: (0..nodes).map(|_| None).collect(),
            disks: (0..nodes).map(|_| Disk::default()).collect(),
            down_until_ms: vec![0; nodes],
            cut_until_ms: vec![0; nodes],
            agents: vec![(Epochs::default(), 0); servers],
            rows: vec![EpochRow::default(); servers],
            ended: 0,
            flying: Vec::new(),
            told: BTreeMap::new(),
            applied: vec![0; servers],
            wrong: None,
        }
    }

    fn start(&mut self, place: usize) {
        let disk = &mut self.disks[place];
        disk.records.truncate(disk.durable);
        (disk.before, disk.starts) = (disk.durable as isize, disk.starts + 1);
        let of_member = weir_raft::Settings {
            place: place as Place,
            members: self.nodes.len() as u8,
            new_disk: place as u64 + 10,
            memory_bytes_max: 0,
        };
        let member = Member::new(self.now_ms, of_member, NoFaults, &disk.records);
        let servers = ((0..self.agents.len() as ServerId).collect(), ServerSet::default());
        self.nodes[place] = Some(Node::new(member, servers, settings(), CHECKPOINT_AFTER, self.bugs));
    }

    fn is_quiet(&self) -> bool {
        self.now_ms >= QUIET_MS
    }

    fn is_cut(&self, place: Place) -> bool {
        self.now_ms < self.cut_until_ms[usize::from(place)]
    }

    /// Nodes crash, one or all at once, or are cut off.
    fn fail(&mut self) {
        let victim = self.chance.below(self.nodes.len() as u64) as usize;
        let is_power = self.chance.per_mille(300);
        match self.chance.below(2) {
            0 => self.cut_until_ms[victim] = self.now_ms + self.chance.below(2_000),
            _ => {
                for place in (0..self.nodes.len()).filter(|place| is_power || *place == victim) {
                    self.nodes[place] = None;
                    self.down_until_ms[place] = self.now_ms + self.chance.below(1_000);
                }
            }
        }
    }

    fn fly(&mut self, sent: Sent) {
        let is_message = !matches!(sent, Sent::Durable(..) | Sent::Snapshot(..));
        if is_message && !self.is_quiet() && self.chance.per_mille(50) {
            return;
        }
        let longest = if !self.is_quiet() && self.chance.per_mille(20) { 1_500 } else { 20 };
        let at_ms = self.now_ms + self.chance.between(1, longest);
        if is_message && self.chance.per_mille(20) {
            self.flying.push((at_ms + 30, sent.clone()));
        }
        self.flying.push((at_ms, sent));
    }

    fn take(&mut self, place: usize, effects: NodeEffects) {
        if !effects.records.is_empty() {
            let disk = &mut self.disks[place];
            disk.records.extend(effects.records);
            let durable = Lsn((disk.records.len() as isize - disk.before) as u64);
            let starts = disk.starts;
            self.fly(Sent::Durable(place as Place, starts, durable));
        }
        for (to, message) in effects.raft {
            self.fly(Sent::Raft(place as Place, to, Box::new(message)));
        }
        for (to, instruction) in effects.instructions {
            self.fly(Sent::Instruction(to, instruction));
        }
    }

    fn on_node(&mut self, place: Place, step: impl FnOnce(&mut Node, u64) -> NodeEffects) {
        let now_ms = self.now_ms;
        if let Some(node) = &mut self.nodes[usize::from(place)] {
            let effects = step(node, now_ms);
            self.take(usize::from(place), effects);
        }
    }

    fn arrive(&mut self, sent: Sent) {
        match sent {
            Sent::Raft(from, to, _) if self.is_cut(from) || self.is_cut(to) => {}
            Sent::Raft(from, to, message) => {
                self.on_node(to, |node, now_ms| node.on_raft(now_ms, from, *message))
            }
            Sent::Report(to, from, report) => {
                self.on_node(to, |node, now_ms| node.on_report(now_ms, from, report));
            }
            Sent::Durable(place, starts, up_to) => {
                let disk = &mut self.disks[usize::from(place)];
                if disk.starts == starts {
                    disk.durable = disk.durable.max(disk.place_of(up_to.0));
                    self.on_node(place, |node, now_ms| node.on_durable(now_ms, up_to));
                }
            }
            Sent::Snapshot(place, starts, count, whole) => {
                let disk = &mut self.disks[usize::from(place)];
                let up_to = disk.place_of(count as u64);
                if disk.starts == starts && up_to <= disk.durable && up_to > whole.len() {
                    let shorter = up_to - whole.len();
                    disk.records.splice(..up_to, whole);
                    disk.durable -= shorter;
                    disk.before -= shorter as isize;
                    disk.snapshots += 1;
                }
            }
            Sent::Instruction(to, instruction) => self.on_agent(to, instruction),
        }
    }

    fn on_agent(&mut self, to: ServerId, instruction: Instruction) {
        let (known, silent_until_ms) = &mut self.agents[usize::from(to)];
        if self.now_ms < *silent_until_ms {
            return;
        }
        match instruction {
            Instruction::Told { epochs, holds, .. } => {
                known.learn(&epochs);
                let applied = self.applied[usize::from(to)];
                if epochs.holder(applied + 1).is_none() {
                    self.wrong = Some(format!("agent {to} has applied {applied}, and is told {epochs:?}"));
                }
                if let Some(start) = epochs.last() {
                    let first = self.told.entry(start.epoch).or_insert_with(|| start.clone());
                    if first != start {
                        self.wrong = Some(format!("an epoch is told in two ways: {first:?} and {start:?}"));
                    }
                    self.ended = self.ended.max(start.first - 1);
                }
                let (epoch, visit) = (epochs.epoch(), self.ended + 1);
                if holds && epochs.holder(visit) == Some(to) {
                    self.report(to, &Report::Unpassed { epoch, visit });
                }
            }
            Instruction::Fence { server, epoch, visit } => {
                let row = &mut self.rows[usize::from(server)];
                *row = row.fenced(epoch, visit);
                let row = *row;
                self.report(to, &Report::Fenced { server, epoch, visit, row });
            }
        }
    }

    fn report(&mut self, from: ServerId, report: &Report) {
        for node in 0..self.nodes.len() as Place {
            self.fly(Sent::Report(node, from, report.clone()));
        }
    }

    fn step(&mut self) {
        self.now_ms += STEP_MS;
        if !self.is_quiet() && self.chance.per_mille(4) {
            self.fail();
        }
        for place in 0..self.nodes.len() {
            if self.nodes[place].is_none() && self.now_ms >= self.down_until_ms[place] {
                self.start(place);
            }
            self.on_node(place as Place, CoordinatorNode::on_timer);
            if self.chance.per_mille(10) {
                self.begin_snapshot(place);
            }
        }
        let now_ms = self.now_ms;
        let (due, flying) =
            std::mem::take(&mut self.flying).into_iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.flying = flying;
        let due: Vec<(u64, Sent)> = due;
        due.into_iter().for_each(|(_, sent)| self.arrive(sent));
        for agent in 0..self.agents.len() {
            if !self.is_quiet() && self.chance.per_mille(2) {
                self.agents[agent].1 = self.now_ms + self.chance.below(1_500);
            }
            let (known, silent_until_ms) = &self.agents[agent];
            if self.now_ms >= *silent_until_ms && self.now_ms.is_multiple_of(50) {
                let (epoch, ended) = (known.epoch(), self.ended);
                self.applied[agent] = ended;
                let database = Some(DatabaseState { applied: ended, ..DatabaseState::default() });
                let alive = Report::Alive { epoch, ended, reached: ended, database };
                self.report(agent as ServerId, &alive);
            }
        }
        self.pass_token();
    }

    /// The token goes on while the server that has it is heard.
    fn pass_token(&mut self) {
        let Some(epochs) = self.agents.iter().map(|(known, _)| known).max_by_key(|known| known.epoch())
        else {
            return;
        };
        let Some(holder) = epochs.holder(self.ended + 1) else { return };
        let row = &mut self.rows[usize::from(holder)];
        let license = weir_conveyor::work::License { epoch: epochs.epoch(), visit: self.ended + 1 };
        *row = row.adopted(license.epoch);
        if self.now_ms >= self.agents[usize::from(holder)].1 && row.licenses(license) {
            *row = row.ended(license);
            self.ended += 1;
        }
    }

    /// The node's whole state is to take the place of its log so far.
    fn begin_snapshot(&mut self, place: usize) {
        let (Some(node), disk) = (&self.nodes[place], &self.disks[place]) else { return };
        let count = (disk.records.len() as isize - disk.before) as usize;
        let (starts, whole) = (disk.starts, node.whole());
        self.fly(Sent::Snapshot(place as Place, starts, count, whole));
    }

    /// Runs to the end. Gives what is wrong.
    fn run(mut self) -> Result<Ran, String> {
        while self.now_ms < END_MS {
            self.step();
            if let Some(wrong) = self.wrong {
                return Err(wrong);
            }
        }
        let known: Vec<Epoch> = self.agents.iter().map(|(known, _)| known.epoch()).collect();
        let last = self.told.keys().next_back().copied().unwrap_or(0);
        let leads = self.nodes.iter().flatten().filter(|node| node.leads()).count();
        match leads == 1 && last > 0 && known.iter().all(|epoch| *epoch == last) {
            true => Ok(Ran {
                epochs: last,
                snapshots: self.disks.iter().map(|disk| disk.snapshots).sum(),
                checkpoints: self.nodes.iter().flatten().filter(|node| node.checkpoint_index() > 1).count(),
                forgotten: self.agents.iter().map(|(known, _)| known.oldest() - 1).max().unwrap_or(0),
            }),
            false => Err(format!("{leads} nodes lead, the last epoch is {last}, agents know {known:?}")),
        }
    }
}

/// Figures of a world's run.
#[derive(Debug, Default)]
struct Ran {
    epochs: Epoch,
    snapshots: u64,
    /// Nodes that have made a checkpoint, or taken one.
    checkpoints: usize,
    forgotten: u64,
}

#[test]
fn no_epoch_is_told_in_two_ways_and_none_is_forgotten_that_is_needed() {
    let mut all = Ran::default();
    for seed in 0..30 {
        for servers in [2, 3, 5] {
            let ran = World::new(seed, servers, CoordinatorBugs::default()).run().unwrap();
            all.epochs += ran.epochs;
            all.snapshots += ran.snapshots;
            all.checkpoints += ran.checkpoints;
            all.forgotten += ran.forgotten;
        }
    }
    assert!(all.epochs > 300, "the worlds have few epochs: {all:?}");
    assert!(all.snapshots > 100 && all.checkpoints > 100 && all.forgotten > 100, "no compaction: {all:?}");
}

fn is_caught(bugs: CoordinatorBugs) -> bool {
    // A machine may meet what its own assertions rule out.
    let run = |seed| catch_unwind(AssertUnwindSafe(|| World::new(seed, 3, bugs).run()));
    (0..60).any(|seed| !matches!(run(seed), Ok(Ok(_))))
}

#[test]
fn an_epoch_that_is_told_before_it_is_committed_is_caught() {
    let bugs = CoordinatorBugs { tells_before_record: true, ..Default::default() };
    assert!(is_caught(bugs));
}

#[test]
fn an_epoch_that_is_forgotten_too_early_is_caught() {
    assert!(is_caught(CoordinatorBugs { forgets_absent: true, ..Default::default() }));
}

#[test]
fn a_checkpoint_of_what_is_not_committed_is_caught() {
    assert!(is_caught(CoordinatorBugs { checkpoints_uncommitted: true, ..Default::default() }));
}
