//! Moments beside their naive twin: a storage that nobody writes.

use std::sync::Mutex;

use super::*;
use crate::storage::Workspace;
use crate::storage::chance::Chance;
use crate::storage::write_set::tests::{TABLES, Write, at, check_rows_alike, schema_of_all, twins};
use weir_types::memory::WorkingMemory;

/// Others write at the pauses of the worker.
struct Others {
    lock: Arc<RwLock<Storage>>,
    chance: Mutex<Chance>,
    /// Writes of the worker's transaction: others write none of its rows, and take none of its keys.
    own: WriteSet,
}

impl Others {
    fn may(&self, storage: &Storage, write: &Write) -> bool {
        let leaves_keys = match write {
            Write::Insert(..) => false,
            Write::Update(table, _, changes) => changes[0].0 == if *table == TABLES[0] { 2 } else { 1 },
            Write::Delete(..) => true,
        };
        let row = write.row(storage);
        let is_own = row.is_some_and(|row| self.own.has(write.table(), row));
        !is_own && (leaves_keys || !self.own.writes_to(write.table()))
    }
}

impl Pace for Others {
    fn wants_pause(&self) -> bool {
        self.chance.lock().unwrap().below(3) == 0
    }

    fn pause(&self) {
        let (mut storage, mut chance) = (self.lock.write(), self.chance.lock().unwrap());
        let begin = storage.position();
        for clock in 0..chance.below(4) as u64 {
            let write = Write::by_chance(&mut chance);
            if self.may(&storage, &write) {
                write.run(&mut Workspace::in_place(&mut storage), at(300 + clock));
            }
        }
        if chance.below(4) == 0 {
            storage.rollback(begin);
        }
    }
}

#[test]
fn a_moment_stays_as_it_was() {
    let seeds = std::env::var("WEIR_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    for seed in 0..seeds {
        let mut chance = Chance(seed);
        let (mut base, mut twin) = twins(&mut chance);
        let mut own = WriteSet::default();
        for _ in 0..chance.below(2) * chance.below(40) {
            let write = Write::by_chance(&mut chance);
            write.run(&mut Workspace::beside(&mut base, &mut own), at(100));
            write.run(&mut Workspace::in_place(&mut twin), at(100));
        }
        let progress = Arc::new(Progress::new(base.position()));
        let storage = Arc::new(RwLock::new(base));
        let others = Others { lock: storage.clone(), chance: Mutex::new(Chance(seed + 1)), own: own.share() };
        others.pause();
        let changed = Changed::default();
        let parts = MomentParts {
            storage,
            schema: schema_of_all(),
            progress: progress.clone(),
            changed,
            own,
            memory: WorkingMemory::default(),
            advances: false,
        };
        let moment = Moment::new(parts, Arc::new(others));
        for _ in 0..4 {
            check_rows_alike(seed, &moment, &twin, &mut chance);
        }
    }
}

struct Unpaced;

impl Pace for Unpaced {
    fn wants_pause(&self) -> bool {
        false
    }

    fn pause(&self) {}
}

/// A worker whose tables are gone reads nothing, and fails.
#[test]
fn a_moment_ends() {
    let base = Storage::new(schema_of_all());
    let progress = Arc::new(Progress::new(base.position()));
    let storage = Arc::new(RwLock::new(base));
    let parts = MomentParts {
        storage,
        schema: schema_of_all(),
        progress: progress.clone(),
        changed: Changed::default(),
        own: WriteSet::default(),
        memory: WorkingMemory::default(),
        advances: false,
    };
    let moment = Moment::new(parts, Arc::new(Unpaced));
    assert!(moment.check_void().is_ok());
    progress.end(SqlError::new(weir_types::SqlState::SCHEMA_HAS_CHANGED, "changed"));
    assert!(moment.check_void().is_err());
    let visited = moment.scan(TABLES[0], &mut |_| unreachable!("nothing is read"));
    assert!(visited.is_err());
    assert_eq!(moment.value(TABLES[0], RowRef { shard: 0, row: 7 }, 0), Value::Null);
}
