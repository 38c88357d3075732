//! A shard that writes, restarts, is copied and restored, and a peer that has seen marks of it: data is rejected exactly if it lacks
//! something that the peer has seen. Weaker rules are caught.

use super::*;

const SHARD: ShardId = 1;
const OTHER: ShardId = 0;

/// Rule that decides whether data is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Ours,
    /// Wrong: compares the log positions alone.
    PositionsOnly,
    /// Wrong: assumes that a known run is contained completely.
    RunsOnly,
    /// Wrong: remembers nothing.
    Trusting,
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % n
    }
}

/// A disk, and the oracle's knowledge about it.
#[derive(Clone, Debug, Default)]
struct Disk {
    notes: Vec<Note>,
    end: u64,
    /// Numbers of the writes on it, for the oracle.
    written: Vec<u64>,
}

struct Running {
    disk: Disk,
    seen: Seen,
    notes: Written,
}

fn past(disk: &Disk) -> Past {
    let mut past = Past::default();
    disk.notes.iter().cloned().for_each(|note| past.take(note));
    past.history.end_at(disk.end);
    past
}

fn accepts(rule: Rule, disk: &Disk, heard: &[Mark]) -> bool {
    let history = past(disk).history;
    match rule {
        Rule::Ours => heard.iter().all(|mark| history.contains(*mark)),
        Rule::PositionsOnly => heard.iter().all(|mark| mark.position <= disk.end),
        Rule::RunsOnly => heard.iter().all(|mark| history.runs.iter().any(|one| one.run == mark.run)),
        Rule::Trusting => true,
    }
}

fn start(disk: Disk, run: u64) -> Running {
    let seen = Seen::default();
    seen.start(SHARD, past(&disk), run);
    seen.check_each_other().unwrap();
    let notes = Written::beginning(disk.end);
    Running { disk, seen, notes }
}

impl Running {
    fn write(&mut self, bytes: u64, what: u64) {
        let notes = self.seen.notes(SHARD, &mut self.notes);
        self.notes.has_begun = true;
        self.disk.notes.extend(notes);
        self.disk.end += bytes;
        self.disk.written.push(what);
        self.seen.tell(SHARD, self.disk.end);
    }
}

/// Returns the number of rejected copies, or an error for data that was wrongly served or wrongly rejected.
fn history_of(seed: u64, rule: Rule) -> Result<usize, String> {
    let mut chance = Chance(seed);
    let mut below = |n: u64| chance.below(n);
    let (mut run, mut what, mut refused) = (1, 0, 0);
    let mut running = start(Disk::default(), run);
    let mut copies: Vec<Disk> = vec![Disk::default()];
    let other = Seen::default();
    other.start(OTHER, Past::default(), 1_000);
    // Newest write that the peer has seen.
    let mut heard: Vec<u64> = Vec::new();
    for _ in 0..60 {
        match below(8) {
            0..=2 => {
                what += 1;
                running.write(1 + below(3), what);
            }
            3 | 4 => {
                other.hear(SHARD, &running.seen.marks(SHARD));
                if running.seen.told(SHARD).is_some() {
                    heard.clone_from(&running.disk.written);
                }
            }
            5 => copies.push(running.disk.clone()),
            choice => {
                let newest = running.disk.clone();
                let disk = match choice {
                    6 => newest.clone(),
                    _ => copies[below(copies.len() as u64) as usize].clone(),
                };
                let is_whole = disk.written.starts_with(&heard);
                let is_accepted = accepts(rule, &disk, &other.marks(SHARD));
                if is_accepted != is_whole {
                    return Err(format!("accepted: {is_accepted}, whole: {is_whole}"));
                }
                refused += usize::from(!is_accepted);
                run += 1;
                let told = other.marks(SHARD);
                running = start(if is_accepted { disk } else { newest }, run);
                running.seen.check(SHARD, &told).map_err(|outdated| outdated.to_string())?;
                other.confirm(SHARD, run, &told);
            }
        }
    }
    assert!(other.marks(SHARD).len() <= 2, "what one run contains is forgotten: {:?}", other.marks(SHARD));
    Ok(refused)
}

#[test]
fn data_is_refused_if_something_is_missing_that_was_heard_of() {
    let refused: usize = (0..2_000).map(|seed| history_of(seed, Rule::Ours).unwrap()).sum();
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn rules_that_look_at_less_are_caught() {
    for rule in [Rule::PositionsOnly, Rule::RunsOnly, Rule::Trusting] {
        assert!((0..2_000).any(|seed| history_of(seed, rule).is_err()), "{rule:?}");
    }
}

#[test]
fn a_segment_that_goes_on_has_all_that_those_before_it_had() {
    let mut running = start(Disk::default(), 7);
    running.write(5, 1);
    let mut running = start(running.disk, 8);
    running.seen.hear(OTHER, &[Mark { run: 3, position: 9 }]);
    running.write(5, 2);
    let (before, end) = (past(&running.disk), running.disk.end);
    let mut after = Past::default();
    let notes = running.seen.all_notes(SHARD, &mut running.notes);
    notes.into_iter().for_each(|note| after.take(note));
    after.history.end_at(end);
    assert_eq!(after, before);
    assert_eq!(running.seen.notes(SHARD, &mut running.notes), [], "it is there once");
}

#[test]
fn what_is_given_up_stays_so() {
    let disk = Disk { end: 4, ..Disk::default() };
    let lost = [Mark { run: 5, position: 100 }];
    let mut running = start(disk, 9);
    let why = running.seen.check(SHARD, &lost).unwrap_err().to_string();
    assert!(why.contains("shard 1 is older") && why.contains("--accept-older-data"), "{why}");
    running.seen.give_up();
    running.seen.check(SHARD, &lost).unwrap();
    running.write(1, 1);
    let again = start(running.disk, 10);
    again.seen.check(SHARD, &lost).unwrap();
    assert!(again.seen.check(SHARD, &[Mark { run: 6, position: 1 }]).is_err());
}

#[test]
fn shards_of_one_process_compare_each_other() {
    let seen = Seen::default();
    let mark = Mark { run: 5, position: 100 };
    seen.start(SHARD, Past::default(), 9);
    seen.start(OTHER, Past { seen: [(SHARD, vec![mark])].into(), ..Past::default() }, 9);
    assert_eq!(seen.check_each_other().unwrap_err().seen, mark);
}
