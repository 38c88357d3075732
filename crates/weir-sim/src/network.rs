//! Links and clocks: when a message arrives, if it does, and what time each node thinks it is.
//!
//! Knows nothing of what is sent. Which faults a run has is itself drawn from its seed, so that some runs meet
//! one kind alone and others all at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::chance::Chance;
use weir_core::ids::CoordinatorId;

/// A party that messages go to and come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Shard(u16),
    Coordinator(CoordinatorId),
}

/// Which faults a run has, and how bad they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A message takes from 1 to that many microseconds.
    pub delay_us_max: u64,
    /// Messages of a link arrive in the order in which they are sent; then none is lost and none comes twice.
    pub links_keep_order: bool,
    pub loss_per_mille: u32,
    pub duplicate_per_mille: u32,
    /// Some nodes lose their links to the others for up to so long; 0: never.
    pub partition_us_max: u64,
    /// A node and its links are slow by this factor for a while; 0: never.
    pub slow_factor: u64,
    /// Clocks differ by up to this.
    pub clock_offset_ms_max: u64,
    /// Clocks run up to this share too fast or too slow.
    pub clock_drift_ppm_max: u64,
    /// Clocks step, forward and back, by up to this; 0: never.
    pub clock_step_ms_max: u64,
    /// Time between one mishap (partition, slow node, step of a clock) and the next.
    pub mishap_every_us: u64,
    /// A shard crashes and is down for up to so long; 0: never.
    pub shard_down_us_max: u64,
    /// At every mishap a shard begins to compute for up to so long, and takes no message meanwhile; 0: never. Not drawn from the seed.
    pub busy_us_max: u64,
    /// A disk takes up to so long to make durable what it is given; 0: no time.
    pub sync_us_max: u64,
    /// Whether a part of the entries that are not durable survives a crash.
    pub tail_survives: bool,
    /// A shard takes a snapshot once its log has more records; 0: never.
    pub snapshot_every: usize,
    /// Coordinators die with all that they have under way.
    pub coordinators_die: bool,
    /// Clock at the beginning of a run, in milliseconds since the Unix epoch.
    pub epoch_ms: u64,
}

/// Clocks begin today, shortly before 32-bit seconds overflow, or later than that.
const EPOCHS_MS: [u64; 3] = [1_795_000_000_000, 2_147_483_646_000, 4_102_444_800_000];

/// However slow a node is, no message takes longer.
const SLOW_US_MAX: u64 = 1_000_000;

impl Faults {
    /// Messages overtake one another; nothing else goes wrong.
    pub fn none() -> Faults {
        let epoch_ms = EPOCHS_MS[0];
        Faults { delay_us_max: 2_000, mishap_every_us: 1_000_000, epoch_ms, ..Faults::default() }
    }

    /// Swarm: each fault is there or not.
    pub fn draw(chance: &mut Chance) -> Faults {
        let links_keep_order = chance.per_mille(250);
        let mut with =
            |share: u32, values: &[u64]| if chance.per_mille(share) { chance.pick(values) } else { 0 };
        let lossy = if links_keep_order { 0 } else { 500 };
        Faults {
            links_keep_order,
            loss_per_mille: with(lossy, &[5, 30, 100]) as u32,
            duplicate_per_mille: with(lossy, &[5, 50, 200]) as u32,
            partition_us_max: with(400, &[300_000, 1_000_000, 8_000_000]),
            slow_factor: with(300, &[5, 50, 400]),
            clock_offset_ms_max: with(600, &[1, 50, 2_000]),
            clock_drift_ppm_max: with(300, &[100, 10_000]),
            clock_step_ms_max: with(300, &[20, 1_000, 10_000, 700_000_000_000]),
            delay_us_max: 1 + with(1000, &[200, 2_000, 10_000, 50_000]),
            mishap_every_us: 1 + with(1000, &[50_000, 200_000, 1_000_000]),
            shard_down_us_max: with(400, &[10_000, 500_000, 4_000_000]),
            sync_us_max: with(600, &[1_000, 10_000, 100_000]),
            tail_survives: with(500, &[1]) == 1,
            snapshot_every: with(600, &[10, 100]) as usize,
            coordinators_die: with(400, &[1]) == 1,
            epoch_ms: with(1000, &EPOCHS_MS),
            busy_us_max: 0,
        }
    }

    /// The same delays without loss, partitions and crashes.
    fn calm(&mut self) {
        self.loss_per_mille = 0;
        self.duplicate_per_mille = 0;
        self.partition_us_max = 0;
        self.slow_factor = 0;
        self.clock_step_ms_max = 0;
        self.shard_down_us_max = 0;
        self.busy_us_max = 0;
        self.coordinators_die = false;
    }
}

/// Some nodes are cut off from the others.
#[derive(Debug)]
struct Cut {
    side: BTreeSet<Node>,
    /// Only what leaves the side is lost.
    one_way: bool,
    heals_us: u64,
}

impl Cut {
    fn blocks(&self, from: Node, to: Node) -> bool {
        let (from, to) = (self.side.contains(&from), self.side.contains(&to));
        from && !to || !self.one_way && to && !from
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    offset_ms: i64,
    drift_ppm: i64,
}

/// The links and clocks of a cluster.
#[derive(Debug)]
pub struct Network {
    pub faults: Faults,
    nodes: Vec<Node>,
    clocks: BTreeMap<Node, Clock>,
    cuts: Vec<Cut>,
    /// Until when a node is slow.
    slow: BTreeMap<Node, u64>,
    /// When the last message of a link arrives, where links keep order.
    last_arrivals: BTreeMap<(Node, Node), u64>,
}

impl Network {
    pub fn new(faults: Faults, nodes: Vec<Node>, chance: &mut Chance) -> Network {
        let mut clocks = BTreeMap::new();
        for node in &nodes {
            let offset_ms = either_way(chance, faults.clock_offset_ms_max);
            let drift_ppm = either_way(chance, faults.clock_drift_ppm_max);
            clocks.insert(*node, Clock { offset_ms, drift_ppm });
        }
        let (cuts, slow, last_arrivals) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Network { faults, nodes, clocks, cuts, slow, last_arrivals }
    }

    /// Clock of the node, in milliseconds since the Unix epoch.
    pub fn clock_ms(&self, node: Node, now_us: u64) -> u64 {
        let clock = self.clocks[&node];
        let elapsed_us = now_us as i64 + now_us as i64 / 1_000_000 * clock.drift_ppm;
        (self.faults.epoch_ms as i64 + clock.offset_ms + elapsed_us / 1_000).max(0) as u64
    }

    /// A node ends, and another begins on its machine.
    pub fn replace(&mut self, old: Node, new: Node) {
        let clock = self.clocks[&old];
        self.clocks.insert(new, clock);
        self.nodes.iter_mut().filter(|node| **node == old).for_each(|node| *node = new);
    }

    /// When a message arrives that is sent now: never, once, or twice.
    pub fn arrivals(&mut self, from: Node, to: Node, now_us: u64, chance: &mut Chance) -> Vec<u64> {
        let heals_us = self
            .cuts
            .iter()
            .filter(|cut| cut.heals_us > now_us && cut.blocks(from, to))
            .map(|cut| cut.heals_us)
            .max();
        if self.faults.links_keep_order {
            // As a stream does: what cannot be sent yet is sent when it can.
            let sent_us = heals_us.unwrap_or(now_us);
            let last = self.last_arrivals.get(&(from, to)).copied().unwrap_or(0);
            let arrival = (sent_us + self.delay_us(from, to, now_us, chance)).max(last + 1);
            self.last_arrivals.insert((from, to), arrival);
            return vec![arrival];
        }
        if heals_us.is_some() || chance.per_mille(self.faults.loss_per_mille) {
            return Vec::new();
        }
        let mut arrivals = vec![now_us + self.delay_us(from, to, now_us, chance)];
        if chance.per_mille(self.faults.duplicate_per_mille) {
            // Once in a while the second one comes much later.
            let late = if chance.per_mille(200) { 100 } else { 1 };
            arrivals.push(now_us + late * self.delay_us(from, to, now_us, chance));
        }
        arrivals
    }

    fn delay_us(&self, from: Node, to: Node, now_us: u64, chance: &mut Chance) -> u64 {
        let slow = [from, to].iter().any(|node| self.slow.get(node).is_some_and(|until| *until > now_us));
        let factor = if slow { self.faults.slow_factor.max(1) } else { 1 };
        let delay_us = chance.between(1, self.faults.delay_us_max);
        delay_us.max((factor * delay_us).min(SLOW_US_MAX))
    }

    /// Something goes wrong; says what, for the log.
    pub fn mishap(&mut self, now_us: u64, chance: &mut Chance) -> String {
        self.cuts.retain(|cut| cut.heals_us > now_us);
        let node = chance.pick(&self.nodes);
        match chance.below(3) {
            0 if self.faults.partition_us_max > 0 => {
                let mut side: BTreeSet<Node> =
                    self.nodes.iter().copied().filter(|_| chance.per_mille(400)).collect();
                side.insert(node);
                let one_way = chance.per_mille(300);
                let heals_us = now_us + chance.between(1, self.faults.partition_us_max);
                let cut = Cut { side, one_way, heals_us };
                let said = format!("{cut:?}");
                self.cuts.push(cut);
                said
            }
            1 if self.faults.slow_factor > 0 => {
                let until = now_us + chance.between(1, 1_000_000);
                self.slow.insert(node, until);
                format!("{node:?} is slow until {until}")
            }
            2 if self.faults.clock_step_ms_max > 0 => {
                let step_ms = either_way(chance, self.faults.clock_step_ms_max);
                let clock = self.clocks.get_mut(&node).expect("every node has a clock");
                // Before 1970 no clock shows anything.
                let before_1970 = self.faults.epoch_ms as i64 + clock.offset_ms + step_ms < 1_000_000_000;
                let step_ms = if before_1970 { -step_ms } else { step_ms };
                clock.offset_ms += step_ms;
                format!("the clock of {node:?} steps by {step_ms} ms")
            }
            _ => "nothing".into(),
        }
    }

    /// From now on nothing goes wrong; clocks stay as they are.
    pub fn calm(&mut self) {
        self.faults.calm();
        self.cuts.clear();
        self.slow.clear();
    }
}

fn either_way(chance: &mut Chance, most: u64) -> i64 {
    let size = chance.between(0, most) as i64;
    if chance.per_mille(500) { size } else { -size }
}
