//! Identity of a shard's data: which history it belongs to, and which positions of it others have seen; so that restored old data is
//! detected (docs/internals/old-data.md).
//!
//! A *run* is one start of a shard, named by a random number. A *mark* is a run and a position in the shard's log. A mark is reported
//! only when it is durable, so a shard whose history does not contain a reported mark has lost data.
//!
//! No clock, randomness or IO: runs are arguments.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ids::ShardId;

/// Largest number of runs in a history; of earlier runs only the end position is known.
const RUNS_MAX: usize = 1_024;

/// Largest number of unordered runs remembered of another shard; further ones are dropped.
const UNORDERED_MAX: usize = 16;

/// A position consists of a segment number and, in this many low bits, an offset in the segment.
pub const OFFSET_BITS: u32 = 40;

/// A point in the history of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    pub run: u64,
    /// Position in the shard's log; it ascends through all runs of one history.
    pub position: u64,
}

/// A log entry about histories, written between the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// The run began at that position of the log.
    Began(Mark),
    /// The operator has accepted the loss of that run's data.
    GivenUp(u64),
    /// Everything remembered of another shard.
    Seen(ShardId, Vec<Mark>),
}

/// Runs of a shard, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Each with the position at which it began.
    runs: Vec<Mark>,
    given_up: Vec<u64>,
    /// End position of the last run.
    end: u64,
}

impl History {
    pub fn begin(&mut self, run: u64, position: u64) {
        self.runs.push(Mark { run, position });
        if self.runs.len() > RUNS_MAX {
            self.runs.remove(0);
        }
        self.end_at(position);
    }

    pub fn end_at(&mut self, position: u64) {
        self.end = self.end.max(position);
    }

    pub fn give_up(&mut self, run: u64) {
        if !self.given_up.contains(&run) {
            self.given_up.push(run);
        }
    }

    /// Returns whether the state at that mark is part of this history.
    pub fn contains(&self, mark: Mark) -> bool {
        if self.given_up.contains(&mark.run) {
            return true;
        }
        match self.runs.iter().position(|one| one.run == mark.run) {
            Some(at) => mark.position <= self.runs.get(at + 1).map_or(self.end, |next| next.position),
            None => self.runs.len() == RUNS_MAX && mark.position <= self.runs[0].position,
        }
    }

    /// Current end of the history.
    pub fn last(&self) -> Option<Mark> {
        self.runs.last().map(|last| Mark { run: last.run, position: self.end })
    }

    fn notes(&self) -> impl Iterator<Item = Note> {
        let given_up = self.given_up.iter().copied().map(Note::GivenUp);
        self.runs.iter().copied().map(Note::Began).chain(given_up)
    }
}

/// Histories read from a log: that of its own shard, and the marks seen of other shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    pub history: History,
    pub seen: BTreeMap<ShardId, Vec<Mark>>,
}

impl Past {
    pub fn take(&mut self, note: Note) {
        match note {
            // The first notes of a segment repeat those of earlier segments.
            Note::Began(mark) if self.history.runs.iter().any(|one| one.run == mark.run) => {}
            Note::Began(mark) => self.history.begin(mark.run, mark.position),
            Note::GivenUp(run) => self.history.give_up(run),
            Note::Seen(shard, marks) => drop(self.seen.insert(shard, marks)),
        }
    }
}

/// A remembered mark of another shard.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    mark: Mark,
    /// Run of that shard which has confirmed that its history contains the mark.
    contained_in: Option<u64>,
}

/// A shard of this process.
#[derive(Debug, Default)]
struct Own {
    history: History,
    run: u64,
    /// Position up to which marks may be reported; none: nothing of this run is durable.
    told: Option<u64>,
}

#[derive(Debug, Default)]
struct Table {
    own: BTreeMap<ShardId, Own>,
    others: BTreeMap<ShardId, Vec<Remembered>>,
    /// The operator has accepted the loss of data that others have seen of the own shards.
    gives_up: bool,
    /// The own shards have been checked against each other's remembered marks.
    is_checked: bool,
}

/// Histories known to a process: those of its own shards, and marks of others. Shared by its logs and connections.
#[derive(Debug, Default)]
pub struct Seen {
    table: Mutex<Table>,
    /// Number of changes to what is reported or logged.
    changes: AtomicU64,
}

/// Reason why data is older than another party has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    pub shard: ShardId,
    pub seen: Mark,
    pub has: Option<Mark>,
    /// The run is part of the history, but ended before the seen position.
    is_known: bool,
}

impl std::fmt::Display for Outdated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outdated { shard, seen: Mark { run, position }, has, is_known } = self;
        write!(
            f,
            "the data of shard {shard} is older than what has been seen of it: its run {run:016x} was seen up to byte {} of segment {}, and ",
            position & ((1 << OFFSET_BITS) - 1),
            position >> OFFSET_BITS
        )?;
        match (is_known, has) {
            (true, _) => write!(f, "here that run ends before"),
            (false, Some(Mark { run, .. })) => {
                write!(f, "there is no such run here (the last one is {run:016x})")
            }
            (false, None) => write!(f, "here there is no run of it"),
        }?;
        write!(
            f,
            ". Start its node from its newest data, or all nodes from data of one moment; to give up what is missing, start that node once \
             with --accept-older-data"
        )
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Change counter: a reader that has seen this value has nothing new to report or log.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Registers a starting shard of this process. Without a log its history is empty, and it is not reported.
    pub fn start(&self, shard: ShardId, past: Past, run: u64) {
        let mut table = self.lock();
        table.own.insert(shard, Own { history: past.history, run, told: None });
        for (other, marks) in past.seen {
            table.hear(other, &marks);
        }
    }

    /// Accepts the loss of data that others have seen of the own shards.
    pub fn give_up(&self) {
        self.lock().gives_up = true;
    }

    /// Checks the own shards against what they have logged of each other.
    ///
    /// # Errors
    /// One of them has older data than another has seen.
    pub fn check_each_other(&self) -> Result<(), Outdated> {
        let (own, others) = {
            let table = self.lock();
            let own: Vec<ShardId> = table.own.keys().copied().collect();
            (own, table.others.iter().map(|(shard, all)| (*shard, marks(all))).collect::<BTreeMap<_, _>>())
        };
        let seen = own.iter().filter_map(|shard| others.get_key_value(shard));
        for (shard, marks) in seen {
            self.check(*shard, marks)?;
        }
        let mut table = self.lock();
        table.others.retain(|shard, _| !own.contains(shard));
        table.is_checked = true;
        Ok(())
    }

    /// Checks a shard of this process against the marks that others have seen of it.
    ///
    /// # Errors
    /// Its history does not contain them.
    pub fn check(&self, shard: ShardId, seen: &[Mark]) -> Result<(), Outdated> {
        let mut table = self.lock();
        let gives_up = table.gives_up;
        let Some(own) = table.own.get_mut(&shard) else { return Ok(()) };
        for mark in seen {
            if own.contains(*mark) {
                continue;
            }
            if !gives_up {
                let is_known = own.history.runs.iter().any(|one| one.run == mark.run);
                return Err(Outdated { shard, seen: *mark, has: own.history.last(), is_known });
            }
            own.history.give_up(mark.run);
            self.changed();
        }
        Ok(())
    }

    /// Returns whether [`Seen::check`] would pass. It changes nothing, so a party that has not proved itself may ask.
    pub fn may_contain(&self, shard: ShardId, seen: &[Mark]) -> bool {
        let table = self.lock();
        let contains = |own: &Own| seen.iter().all(|mark| own.contains(*mark));
        table.gives_up || table.own.get(&shard).is_none_or(contains)
    }

    /// Run of a shard of this process; none for other shards.
    pub fn run(&self, shard: ShardId) -> Option<u64> {
        self.lock().own.get(&shard).map(|own| own.run)
    }

    /// Mark last reported of a shard of this process.
    pub fn told(&self, shard: ShardId) -> Option<Mark> {
        self.lock().own.get(&shard).and_then(Own::mark)
    }

    /// Records that the shard's log, including the beginning of its run, is durable up to `position`.
    pub fn tell(&self, shard: ShardId, position: u64) {
        let mut table = self.lock();
        let Some(own) = table.own.get_mut(&shard) else { return };
        if own.told < Some(position) {
            own.told = Some(position);
            self.changed();
        }
    }

    /// Marks known of a shard.
    pub fn marks(&self, shard: ShardId) -> Vec<Mark> {
        self.lock().marks(shard)
    }

    /// Records marks that another party has seen of a shard.
    pub fn hear(&self, shard: ShardId, seen: &[Mark]) {
        if self.lock().hear(shard, seen) {
            self.changed();
        }
    }

    /// Records that a run of another shard has confirmed that its history contains these marks.
    pub fn confirm(&self, shard: ShardId, run: u64, seen: &[Mark]) {
        let mut table = self.lock();
        for one in table.others.get_mut(&shard).into_iter().flatten() {
            if seen.iter().any(|mark| mark.run == one.mark.run && mark.position >= one.mark.position) {
                one.contained_in = Some(run);
            }
        }
    }

    /// Marks of all shards except `but` that have not been reported yet; records them as reported.
    pub fn news(&self, but: Option<ShardId>, told: &mut Told) -> Vec<(ShardId, Vec<Mark>)> {
        let changes = self.changes();
        if told.changes == changes {
            return Vec::new();
        }
        told.changes = changes;
        let table = self.lock();
        let shards = table.own.keys().chain(table.others.keys()).filter(|shard| Some(**shard) != but);
        let mut news = Vec::new();
        for shard in shards {
            let marks = table.marks(*shard);
            if !marks.is_empty() && told.marks.get(shard) != Some(&marks) {
                told.marks.insert(*shard, marks.clone());
                news.push((*shard, marks));
            }
        }
        news
    }

    /// First notes of a new log of the shard that continues another one.
    pub fn all_notes(&self, shard: ShardId, written: &mut Written) -> Vec<Note> {
        Seen::forget(written);
        let past: Vec<Note> =
            self.lock().own.get(&shard).map_or_else(Vec::new, |own| own.history.notes().collect());
        written.given_up = past.iter().filter(|note| matches!(note, Note::GivenUp(_))).count();
        let began = written.has_begun.then(|| self.run(shard)).flatten();
        let began = began.map(|run| Note::Began(Mark { run, position: written.begins }));
        past.into_iter().chain(began).chain(self.seen_notes(shard, written)).collect()
    }

    /// Forgets that notes were written, because the write has failed.
    pub fn forget(written: &mut Written) {
        let Written { begins, has_begun, .. } = *written;
        *written = Written { begins, has_begun, ..Written::default() };
    }

    fn seen_notes(&self, shard: ShardId, written: &mut Written) -> Vec<Note> {
        self.news(Some(shard), &mut written.told)
            .into_iter()
            .map(|(shard, marks)| Note::Seen(shard, marks))
            .collect()
    }

    /// Notes that are missing in the shard's log; records them as written.
    pub fn notes(&self, shard: ShardId, written: &mut Written) -> Vec<Note> {
        let mut notes = Vec::new();
        if written.changes_of_own != self.changes() || !written.has_begun {
            written.changes_of_own = self.changes();
            let table = self.lock();
            let Some(own) = table.own.get(&shard) else { return Vec::new() };
            if !written.has_begun {
                notes.push(Note::Began(Mark { run: own.run, position: written.begins }));
            }
            let given_up = &own.history.given_up;
            notes.extend(given_up.iter().skip(written.given_up).copied().map(Note::GivenUp));
            written.given_up = given_up.len();
        }
        notes.extend(self.seen_notes(shard, written));
        notes
    }
}

impl Told {
    /// State for the connection of that number: reports over another connection may have been lost.
    pub fn over(&mut self, connection: u64) -> &mut Told {
        if self.connection != connection {
            *self = Told { connection, ..Told::default() };
        }
        self
    }
}

/// Marks that have been reported to a peer.
#[derive(Clone, Debug, Default)]
pub struct Told {
    connection: u64,
    changes: u64,
    marks: BTreeMap<ShardId, Vec<Mark>>,
}

/// Notes that a log contains.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Position at which the run begins, and whether the log contains it.
    begins: u64,
    pub has_begun: bool,
    given_up: usize,
    changes_of_own: u64,
    told: Told,
}

impl Written {
    /// For a run that begins at that position.
    pub fn beginning(begins: u64) -> Written {
        Written { begins, ..Written::default() }
    }
}

fn marks(all: &[Remembered]) -> Vec<Mark> {
    all.iter().map(|one| one.mark).collect()
}

impl Own {
    fn contains(&self, mark: Mark) -> bool {
        match self.told.filter(|_| mark.run == self.run) {
            Some(told) => mark.position <= told,
            None => self.history.contains(mark),
        }
    }

    fn mark(&self) -> Option<Mark> {
        self.told.map(|position| Mark { run: self.run, position })
    }
}

impl Table {
    fn marks(&self, shard: ShardId) -> Vec<Mark> {
        match self.own.get(&shard) {
            Some(own) => own.mark().into_iter().collect(),
            None => self.others.get(&shard).map_or_else(Vec::new, |all| marks(all)),
        }
    }

    /// Returns whether the marks are new.
    fn hear(&mut self, shard: ShardId, seen: &[Mark]) -> bool {
        if self.is_checked && self.own.contains_key(&shard) {
            return false;
        }
        let all = self.others.entry(shard).or_default();
        let mut is_new = false;
        for mark in seen {
            let remembered = Remembered { mark: *mark, contained_in: None };
            match all.iter().position(|one| one.mark.run == mark.run) {
                Some(at) if all[at].mark.position >= mark.position => continue,
                Some(at) => all[at] = remembered,
                None if all.len() == UNORDERED_MAX => continue,
                None => all.push(remembered),
            }
            is_new = true;
            // The new mark of the run supersedes the marks contained in the run's history.
            all.retain(|one| one.contained_in != Some(mark.run) || one.mark.run == mark.run);
        }
        is_new
    }
}

#[cfg(test)]
mod tests;
