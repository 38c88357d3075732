//! A group in virtual time, from one seed: members with disks and clocks, a network that loses, repeats, delays and partitions, and clients
//! whose answers are checked.

mod host;

use std::collections::{BTreeMap, BTreeSet};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_core::raft_message::RaftKind;
use weir_raft::message::Message;
use weir_raft::{Event, MemberFaults, Place};

pub use host::Host;

/// Interval of a member's timer.
const TIMER_MS: u64 = 5;
/// Time with faults, and without.
const CHAOS_MS: u64 = 40_000;
const CALM_MS: u64 = 20_000;

/// What has gone wrong: something that must never be, or something that was not there in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    Unsafe(String),
    Late(String),
}

/// Draws of one seed.
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A question of a client: a write of a value, or a read.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Write(u64),
    /// How much had been told when it was asked; and whether it has met what is not committed.
    Read {
        told_before: usize,
        meets_all: bool,
    },
}

/// What has been told, and committed.
#[derive(Default)]
pub struct Checks {
    /// Values whose writes were acknowledged, in that order.
    pub told: Vec<u64>,
    /// How many of the committed values have those told so far, up to each.
    needed: Vec<usize>,
    /// The one sequence of committed values, as far as any leader has known it; and where each stands.
    committed: Vec<u64>,
    positions: BTreeMap<u64, usize>,
    pub reads: usize,
    /// Who was elected in each term.
    elected: BTreeMap<u64, Place>,
}

impl Checks {
    pub fn on_elected(&mut self, term: u64, place: Place) -> Result<(), Wrong> {
        match *self.elected.entry(term).or_insert(place) == place {
            true => Ok(()),
            false => Err(Wrong::Unsafe(format!("two leaders in term {term}"))),
        }
    }

    /// A leader knows these values to be committed, behind so many that it has named before.
    pub fn on_committed(&mut self, before: usize, values: &[u64]) -> Result<(), Wrong> {
        for (position, value) in (before..).zip(values) {
            match self.committed.get(position) {
                Some(known) if known != value => {
                    return Err(Wrong::Unsafe(format!("{known} and {value} have the same place")));
                }
                Some(_) => {}
                None => {
                    self.positions.insert(*value, self.committed.len());
                    self.committed.push(*value);
                }
            }
        }
        Ok(())
    }

    pub fn on_told(&mut self, value: u64) -> Result<(), Wrong> {
        let Some(position) = self.positions.get(&value) else {
            return Err(Wrong::Unsafe(format!("{value} is told and not committed")));
        };
        let needed = self.needed.last().copied().unwrap_or(0).max(position + 1);
        self.told.push(value);
        self.needed.push(needed);
        Ok(())
    }

    /// A read has found the first so many of the committed values.
    pub fn on_read(&mut self, told_before: usize, values: usize) -> Result<(), Wrong> {
        self.reads += 1;
        let needed = told_before.checked_sub(1).map_or(0, |last| self.needed[last]);
        match values >= needed {
            true => Ok(()),
            false => {
                Err(Wrong::Unsafe(format!("a read finds {values} values, and {needed} had been told before")))
            }
        }
    }
}

fn is_vote(message: &Message) -> bool {
    match message {
        Message::Raft { message, .. } => message.kind == RaftKind::RequestVoteResponse && !message.reject,
        Message::Greeting(_) => false,
    }
}

/// What the seed makes of the world.
#[derive(Clone, Copy, Debug)]
struct Weather {
    members: u8,
    loss_in: u64,
    repeat_in: u64,
    delay_ms_max: u64,
    sync_ms_max: u64,
    crash_in: u64,
    partition_in: u64,
    empty_in: u64,
    disturbs_votes: bool,
    /// Once in so many milliseconds a promise is disturbed.
    promise_in: u64,
}

/// A member has promised its leader that it does not vote, and is killed; a rival that lacks nothing asks it when it starts again, while
/// the leader, cut off, may still serve.
#[derive(Clone, Copy, Debug)]
struct Scene {
    rival: Place,
    /// Nothing is written from the beginning to the turn, so that the rival lacks nothing.
    begins_ms: u64,
    turns_ms: u64,
}

impl Weather {
    fn draw(chance: &mut Chance) -> Weather {
        let of = |chance: &mut Chance, all: &[u64]| all[chance.below(all.len() as u64) as usize];
        Weather {
            members: of(chance, &[3, 3, 5]) as u8,
            loss_in: of(chance, &[7, 50, 100_000]),
            repeat_in: of(chance, &[5, 30, 100_000]),
            delay_ms_max: of(chance, &[3, 30, 150]),
            sync_ms_max: of(chance, &[1, 10, 60]),
            crash_in: of(chance, &[300, 1_500, 100_000]),
            partition_in: of(chance, &[300, 800, 100_000]),
            empty_in: of(chance, &[500, 1_500, 100_000]),
            disturbs_votes: chance.once_in(3),
            promise_in: of(chance, &[4_000, 100_000]),
        }
    }
}

pub struct World<F: MemberFaults> {
    faults: F,
    chance: Chance,
    weather: Weather,
    now_ms: u64,
    hosts: Vec<Host<F>>,
    /// By time of arrival and number.
    network: BTreeMap<(u64, u64), (Place, Place, Message)>,
    sent: u64,
    /// Members that are cut off from those who are not, and until when.
    cut_off: (BTreeSet<Place>, u64),
    scene: Option<Scene>,
    /// When a candidate is to be cut off.
    cut_at: Option<(u64, Place)>,
    next_value: u64,
    next_disk: u64,
    pub checks: Checks,
    pub leads: usize,
    pub emptied: usize,
    is_calm: bool,
}

impl<F: MemberFaults> World<F> {
    pub fn new(seed: u64, faults: F) -> World<F> {
        let mut chance = Chance::new(seed);
        let weather = Weather::draw(&mut chance);
        let members = weather.members;
        let hosts = (0..members).map(|place| Host::new(place, members, faults, &mut chance)).collect();
        World {
            faults,
            chance,
            weather,
            now_ms: 0,
            hosts,
            network: BTreeMap::new(),
            sent: 0,
            cut_off: Default::default(),
            scene: None,
            cut_at: None,
            next_value: 1,
            next_disk: 1,
            checks: Checks::default(),
            leads: 0,
            emptied: 0,
            is_calm: false,
        }
    }

    /// Runs through chaos and calm.
    pub fn run(&mut self) -> Result<(), Wrong> {
        while self.now_ms < CHAOS_MS {
            self.turn()?;
        }
        self.is_calm = true;
        self.scene = None;
        self.cut_off.0.clear();
        let asked = self.checks.told.len();
        while self.now_ms < CHAOS_MS + CALM_MS {
            self.turn()?;
        }
        let is_whole = self.hosts.iter().all(|host| host.is_voter(&self.hosts));
        match () {
            () if self.checks.told.len() == asked => {
                Err(self.describe("nothing is told although all is well"))
            }
            () if !is_whole => Err(self.describe("a member with a new disk has not become one")),
            () => Ok(()),
        }
    }

    /// A hash of what has happened, which is the same for the same seed.
    pub fn print(&self) -> (usize, usize, u64, usize) {
        (self.checks.told.len(), self.checks.reads, self.sent, self.leads)
    }

    fn turn(&mut self) -> Result<(), Wrong> {
        self.now_ms += 1;
        if !self.is_calm {
            self.disturb();
        }
        while let Some(entry) = self.network.first_entry().filter(|entry| entry.key().0 <= self.now_ms) {
            let (from, to, message) = entry.remove();
            if !self.is_cut(from, to) {
                self.with(to, |host, now_ms| host.step(now_ms, from, message))?;
            }
        }
        for place in 0..self.weather.members {
            self.with(place, |host, now_ms| {
                host.write(now_ms);
                if now_ms.is_multiple_of(TIMER_MS) {
                    host.on_timer(now_ms);
                }
            })?;
        }
        if self.chance.once_in(5) {
            self.ask()?;
        }
        if self.chance.once_in(200) {
            self.give_checkpoint()?;
        }
        Ok(())
    }

    fn is_cut(&self, from: Place, to: Place) -> bool {
        self.cut_off.0.contains(&from) != self.cut_off.0.contains(&to)
    }

    /// Something is done at a member, if it is up, and what follows from it.
    fn with(&mut self, place: Place, act: impl FnOnce(&mut Host<F>, u64)) -> Result<(), Wrong> {
        let host = &mut self.hosts[usize::from(place)];
        let now_ms = self.now_ms;
        if !host.is_up() {
            if !host.may_start(now_ms, self.is_calm) {
                return Ok(());
            }
            self.next_disk += 1;
            host.start(now_ms, self.next_disk);
        }
        act(host, now_ms);
        for event in host.settle(now_ms, self.weather.sync_ms_max, &mut self.chance, &mut self.checks)? {
            self.leads += usize::from(matches!(event, Event::Leads { .. }));
        }
        let sent = host.take_sent();
        let votes_for = sent.iter().find(|(_, message)| is_vote(message)).map(|(to, _)| *to);
        for (to, message) in sent {
            self.send(place, to, message);
        }
        self.disturb_vote(place, votes_for);
        Ok(())
    }

    /// Who has voted dies, and the candidate is cut off as soon as it may have the vote.
    fn disturb_vote(&mut self, place: Place, votes_for: Option<Place>) {
        let Some(candidate) = votes_for.filter(|_| !self.is_calm && self.weather.disturbs_votes) else {
            return;
        };
        if self.chance.once_in(2) {
            self.hosts[usize::from(place)].crash(self.now_ms, 300, &mut self.chance);
            self.cut_at = Some((self.now_ms + self.weather.delay_ms_max + 1, candidate));
        }
    }

    fn send(&mut self, from: Place, to: Place, message: Message) {
        let Weather { loss_in, repeat_in, delay_ms_max, .. } = self.weather;
        if !self.is_calm && self.chance.once_in(loss_in) {
            return;
        }
        let copies = 1 + u64::from(self.chance.once_in(repeat_in));
        for _ in 0..copies {
            let late_ms = if !self.is_calm && self.chance.once_in(100) { 2_000 } else { delay_ms_max };
            let at_ms = self.now_ms + 1 + self.chance.below(late_ms);
            self.sent += 1;
            self.network.insert((at_ms, self.sent), (from, to, message.clone()));
        }
    }

    fn disturb_promise(&mut self) {
        let members = self.weather.members;
        let Some(Scene { rival, begins_ms, turns_ms }) = self.scene else {
            if self.chance.once_in(self.weather.promise_in) {
                let rival = self.chance.below(u64::from(members)) as Place;
                let begins_ms = self.now_ms + 300;
                self.scene =
                    Some(Scene { rival, begins_ms, turns_ms: begins_ms + 1_000 + self.chance.below(1_500) });
            }
            return;
        };
        if self.now_ms == begins_ms {
            self.cut_off = ([rival].into(), turns_ms);
        }
        if self.now_ms < turns_ms {
            return;
        }
        self.scene = None;
        let leader = self.hosts.iter().position(Host::leads).filter(|leader| *leader != usize::from(rival));
        let Some(leader) = leader else { return };
        self.cut_off = ([leader as Place].into(), self.now_ms + 2_000);
        for place in (0..usize::from(members)).filter(|place| ![leader, usize::from(rival)].contains(place)) {
            self.hosts[place].crash(self.now_ms, 50, &mut self.chance);
        }
    }

    fn disturb(&mut self) {
        self.disturb_promise();
        let Weather { members, crash_in, partition_in, empty_in, .. } = self.weather;
        if let Some((_, candidate)) = self.cut_at.take_if(|(at_ms, _)| *at_ms <= self.now_ms) {
            self.cut_off = ([candidate].into(), self.now_ms + 4_000);
        }
        let place = self.chance.below(u64::from(members)) as usize;
        if self.chance.once_in(crash_in) {
            let down_ms = if self.chance.once_in(2) { 200 } else { 4_000 };
            self.hosts[place].crash(self.now_ms, down_ms, &mut self.chance);
        }
        if self.chance.once_in(empty_in) && self.may_lose(place) {
            self.hosts[place].lose_disk(self.now_ms, &mut self.chance);
            self.emptied += 1;
        }
        if self.now_ms >= self.cut_off.1 {
            self.cut_off.0.clear();
            if self.chance.once_in(partition_in) {
                self.cut_off.0 = (0..members).filter(|_| self.chance.once_in(2)).collect();
                self.cut_off.1 = self.now_ms + 500 + self.chance.below(4_000);
                if self.chance.once_in(2) {
                    self.hosts[place].crash(self.now_ms, 200, &mut self.chance);
                }
            }
        }
    }

    /// Whether the group survives the loss of that disk: all others know that the disks of all others vote, and that those before do not.
    fn may_lose(&self, place: usize) -> bool {
        let have_founded = self.hosts.iter().all(Host::has_founded);
        let others: Vec<&Host<F>> = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place)
            .map(|(_, host)| host)
            .collect();
        have_founded && others.iter().all(|host| host.knows_voters(&others))
    }

    /// A client asks a member that takes itself for the leader.
    fn ask(&mut self) -> Result<(), Wrong> {
        let place = self.chance.below(u64::from(self.weather.members)) as Place;
        let operation = match self.scene.is_none() && self.chance.once_in(2) {
            true => {
                self.next_value += 1;
                Operation::Write(self.next_value)
            }
            false => {
                let told_before = self.checks.told.len();
                Operation::Read { told_before, meets_all: self.chance.once_in(2) }
            }
        };
        self.with(place, |host, now_ms| host.ask(now_ms, operation))
    }

    /// A follower has fetched another member's checkpoint.
    fn give_checkpoint(&mut self) -> Result<(), Wrong> {
        let members = u64::from(self.weather.members);
        let (from, to) = (self.chance.below(members) as usize, self.chance.below(members) as Place);
        let Some((head, data)) = self.hosts[from].checkpoint().filter(|_| from != usize::from(to)) else {
            return Ok(());
        };
        self.with(to, |host, _| host.take_checkpoint(head, data))
    }

    fn describe(&self, wrong: &str) -> Wrong {
        let members: Vec<String> = self.hosts.iter().map(Host::describe).collect();
        Wrong::Late(format!("{wrong}: {:?} {:?}\n{}", self.weather, self.faults, members.join("\n")))
    }
}
