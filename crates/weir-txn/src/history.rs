//! Which history a shard's data belongs to, and what others have seen of it: so older data that is put back is told from newer
//! (docs/internals/old-data.md).
//!
//! A *run* is one start of a shard, named by a random number. A *mark* is a run and a position in the shard's log. A mark that has been
//! told was durable, so a shard whose history does not contain it has lost what came up to there.
//!
//! Has no clock, no randomness and no IO: runs are arguments.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ramp::ShardId;

/// So many runs a history names; of those before it only knows where they ended.
const RUNS_MAX: usize = 1_024;

/// So many runs are remembered of another shard that nobody has put in an order yet. What comes beyond is left out.
const UNORDERED_MAX: usize = 16;

/// A position is the number of a segment, and an offset in it of so many bits.
pub const OFFSET_BITS: u32 = 40;

/// A point in the history of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    pub run: u64,
    /// In the shard's log. It grows through all runs of one history.
    pub position: u64,
}

/// What a log says of histories, beside its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// The run began where the log was at that position.
    Began(Mark),
    /// The operator has given up what that run had and this history does not.
    GivenUp(u64),
    /// All that is remembered of another shard.
    Seen(ShardId, Vec<Mark>),
}

/// The runs of a shard, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Each with the position where it began.
    runs: Vec<Mark>,
    given_up: Vec<u64>,
    /// Of the last run.
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

    /// What has been seen at that mark is part of this history.
    pub fn contains(&self, mark: Mark) -> bool {
        if self.given_up.contains(&mark.run) {
            return true;
        }
        match self.runs.iter().position(|one| one.run == mark.run) {
            Some(at) => mark.position <= self.runs.get(at + 1).map_or(self.end, |next| next.position),
            None => self.runs.len() == RUNS_MAX && mark.position <= self.runs[0].position,
        }
    }

    /// Where it is.
    pub fn last(&self) -> Option<Mark> {
        self.runs.last().map(|last| Mark { run: last.run, position: self.end })
    }

    fn notes(&self) -> impl Iterator<Item = Note> {
        let given_up = self.given_up.iter().copied().map(Note::GivenUp);
        self.runs.iter().copied().map(Note::Began).chain(given_up)
    }
}

/// What a log has said of histories: of its shard's, and of what the shard has seen of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    pub history: History,
    pub seen: BTreeMap<ShardId, Vec<Mark>>,
}

impl Past {
    pub fn take(&mut self, note: Note) {
        match note {
            // A segment begins with all that those before it have said.
            Note::Began(mark) if self.history.runs.iter().any(|one| one.run == mark.run) => {}
            Note::Began(mark) => self.history.begin(mark.run, mark.position),
            Note::GivenUp(run) => self.history.give_up(run),
            Note::Seen(shard, marks) => drop(self.seen.insert(shard, marks)),
        }
    }
}

/// A mark of another shard.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    mark: Mark,
    /// That run of the shard has said that its history contains it.
    contained_in: Option<u64>,
}

/// A shard of this process.
#[derive(Debug, Default)]
struct Own {
    history: History,
    run: u64,
    /// Up to there is told; none: nothing of this run is durable.
    told: Option<u64>,
}

#[derive(Debug, Default)]
struct Table {
    own: BTreeMap<ShardId, Own>,
    others: BTreeMap<ShardId, Vec<Remembered>>,
    /// What others have seen and the own shards have not is given up, says the operator.
    gives_up: bool,
    /// The own shards know of themselves all that others have written down of them.
    is_checked: bool,
}

/// What a process knows of the histories of its own shards, and has seen of others. All its logs and connections share it.
#[derive(Debug, Default)]
pub struct Seen {
    table: Mutex<Table>,
    /// How often that has changed which others are told or logs write down.
    changes: AtomicU64,
}

/// Older data than somebody has seen: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    pub shard: ShardId,
    pub seen: Mark,
    pub has: Option<Mark>,
    /// The run is one of the history's, and ended before that.
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

    /// Whoever has told or written all at that number need not look again.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// A shard of this process, which starts; without a log its history is empty, and nothing is told of it.
    pub fn start(&self, shard: ShardId, past: Past, run: u64) {
        let mut table = self.lock();
        table.own.insert(shard, Own { history: past.history, run, told: None });
        for (other, marks) in past.seen {
            table.hear(other, &marks);
        }
    }

    /// What others have seen of the own shards, and these do not have, is given up from here on.
    pub fn give_up(&self) {
        self.lock().gives_up = true;
    }

    /// What the own shards have written down of each other's history is part of it.
    ///
    /// # Errors
    /// It is not: one of them has older data than another has seen.
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

    /// Whether all that others have seen of a shard of this process is part of its history.
    ///
    /// # Errors
    /// It is not.
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

    /// The run of a shard of this process; none: it is of another.
    pub fn run(&self, shard: ShardId) -> Option<u64> {
        self.lock().own.get(&shard).map(|own| own.run)
    }

    /// What the shard of this process has told last.
    pub fn told(&self, shard: ShardId) -> Option<Mark> {
        self.lock().own.get(&shard).and_then(Own::mark)
    }

    /// So much of the shard's log is durable, and the beginning of its run with it.
    pub fn tell(&self, shard: ShardId, position: u64) {
        let mut table = self.lock();
        let Some(own) = table.own.get_mut(&shard) else { return };
        if own.told < Some(position) {
            own.told = Some(position);
            self.changed();
        }
    }

    /// All that is known of a shard.
    pub fn marks(&self, shard: ShardId) -> Vec<Mark> {
        self.lock().marks(shard)
    }

    /// Somebody has seen that of another shard.
    pub fn hear(&self, shard: ShardId, seen: &[Mark]) {
        if self.lock().hear(shard, seen) {
            self.changed();
        }
    }

    /// That run of another shard has said that its history contains these.
    pub fn confirm(&self, shard: ShardId, run: u64, seen: &[Mark]) {
        let mut table = self.lock();
        for one in table.others.get_mut(&shard).into_iter().flatten() {
            if seen.iter().any(|mark| mark.run == one.mark.run && mark.position >= one.mark.position) {
                one.contained_in = Some(run);
            }
        }
    }

    /// What is known of all shards but that one and has not been told yet, and notes that it has been.
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

    /// What a log of the shard begins with, that goes on from another.
    pub fn all_notes(&self, shard: ShardId, written: &mut Written) -> Vec<Note> {
        Seen::forget(written);
        let past: Vec<Note> =
            self.lock().own.get(&shard).map_or_else(Vec::new, |own| own.history.notes().collect());
        written.given_up = past.iter().filter(|note| matches!(note, Note::GivenUp(_))).count();
        let began = written.has_begun.then(|| self.run(shard)).flatten();
        let began = began.map(|run| Note::Began(Mark { run, position: written.begins }));
        past.into_iter().chain(began).chain(self.seen_notes(shard, written)).collect()
    }

    /// Nothing of what was noted last has been written.
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

    /// What the shard's log has not written yet; and notes that it has.
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
    /// Over a connection of that number: what was told over another may be lost.
    pub fn over(&mut self, connection: u64) -> &mut Told {
        if self.connection != connection {
            *self = Told { connection, ..Told::default() };
        }
        self
    }
}

/// What has been told to somebody.
#[derive(Clone, Debug, Default)]
pub struct Told {
    connection: u64,
    changes: u64,
    marks: BTreeMap<ShardId, Vec<Mark>>,
}

/// What a log has of it.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The position where the run begins, and whether the log says so.
    begins: u64,
    pub has_begun: bool,
    given_up: usize,
    changes_of_own: u64,
    told: Told,
}

impl Written {
    /// Of a run that begins at that position.
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

    /// Says whether that is new.
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
            // What that run has is more than what it has said that it contains.
            all.retain(|one| one.contained_in != Some(mark.run) || one.mark.run == mark.run);
        }
        is_new
    }
}

#[cfg(test)]
mod tests;
