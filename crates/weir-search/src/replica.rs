//! One copy of a state, and calls that run on it alone.
//!
//! The executor writes real storage and says what it wrote as operations; those are kept with the identity of
//! each row, so that they can be folded into another copy ([`crate::merge`]). No guard, no coordinator, no other
//! replica: that is what "without coordination" means (coordination-avoidance.txt §4.1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::ids::{Position, Timestamp, TxnId};
use weir_sql::bound::VolatileFunction;
use weir_sql::catalog::TableId;
use weir_txn::claims::Claims;
use weir_txn::exec::call::{self, Fragment, Ran, Role, Scratch, Stop};
use weir_txn::exec::context::Environment;
use weir_txn::exec::program::Program;
use weir_txn::exec::sequences::Sequences;
use weir_txn::exec::worker::ClaimsOf;
use weir_txn::faults::NoFaults;
use weir_txn::message::{Call, Callee, Output};
use weir_txn::storage::{Operation, Rows, Schema, Storage, Workspace, Write};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, Value};

use crate::guards::Taken;
use crate::lab::{Lab, Validity};
use crate::state::{Row, State};

/// Value of `now()`, in microseconds since 2000-01-01: the first of January 2026.
const NOW: TransactionTime = TransactionTime { at: 820_454_400_000_000, zone: SessionZone::UTC };

/// Origin of a call; each draws from its own share of every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Before the branches.
    Before,
    Left,
    Right,
}

impl Who {
    /// First sequence number of the share; shares are too far apart to overlap.
    fn share(self) -> u16 {
        match self {
            Who::Before => 0,
            Who::Left => 100,
            Who::Right => 200,
        }
    }
}

/// Which row of a table, wherever it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowName {
    /// By its place in the initial state.
    Initial(u32),
    /// The n-th that a branch inserted.
    New(Who, u32),
}

/// Rows by name.
pub type NamedRows = BTreeMap<(TableId, RowName), Row>;

/// State after a serial execution of calls on one copy, and their answers.
#[derive(Clone, Debug, Default)]
pub struct InOrder {
    pub rows: NamedRows,
    /// Answer of each call, or the error because of which it had no effect.
    pub answers: Vec<Result<Output, String>>,
}

#[derive(Clone, Debug)]
pub struct RowOperation {
    pub table: TableId,
    pub row: RowName,
    pub operation: Operation,
}

/// A procedure call with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    pub procedure: usize,
    /// IN and INOUT parameters in order.
    pub arguments: Vec<Value>,
}

/// Calls that have run one after the other, each to a state in which everything holds.
#[derive(Clone, Debug)]
pub struct Branch {
    pub calls: Vec<Invocation>,
    /// By call.
    pub operations: Vec<Vec<RowOperation>>,
    /// By call: none of its inserts was ON CONFLICT, though its procedure has such.
    pub plain: Vec<bool>,
    /// Where the plan's guards are in force.
    pub taken: Vec<Taken>,
}

impl Branch {
    pub fn is_idle(&self) -> bool {
        self.operations.iter().all(Vec::is_empty)
    }

    pub fn tables(&self) -> BTreeSet<TableId> {
        self.operations.iter().flatten().map(|operation| operation.table).collect()
    }
}

pub struct Replica<'l> {
    lab: &'l Lab<'l>,
    storage: Storage,
    names: BTreeMap<(TableId, u32), RowName>,
    initial: State,
    begin: Position,
    scratch: Scratch,
    /// Both branches count their sequences by themselves, from one number.
    pub counted_alike: bool,
}

impl<'l> Replica<'l> {
    /// The error is a state that storage refuses: two rows of one key.
    pub fn new(lab: &'l Lab<'l>, initial: &State) -> Result<Replica<'l>, SqlError> {
        let storage = lab.storage.take().unwrap_or_else(|| Storage::new(lab.program.schema.clone()));
        let names = BTreeMap::new();
        let scratch = Scratch::default();
        let initial_rows = initial.clone();
        let mut replica =
            Replica { lab, storage, names, initial: initial_rows, begin: 0, scratch, counted_alike: false };
        let timestamp = Timestamp { clock: 1, node: 0 };
        for table in initial.filled() {
            for (at, row) in initial.table(table).iter().enumerate() {
                let slot = replica.storage.insert(table, row, timestamp)?;
                replica.names.insert((table, slot), RowName::Initial(at as u32));
            }
        }
        replica.begin = replica.storage.position();
        Ok(replica)
    }

    /// Runs the calls and takes them back. `None`: one of them failed, or something did not hold after it.
    /// `after` is shown the state that they lead to.
    pub fn branch(
        &mut self,
        calls: &[Invocation],
        who: Who,
        validity: Validity,
        after: &mut dyn FnMut(&Storage),
    ) -> Option<Branch> {
        let mut names = self.names.clone();
        let mut branch =
            Branch { calls: calls.to_vec(), operations: Vec::new(), plain: Vec::new(), taken: Vec::new() };
        let mut sequences = Sequences::default();
        let alike = self.counted_alike && who == Who::Right;
        let counts_as = if alike { Who::Left } else { who };
        if alike {
            // Numbers may be the same, but what is random is not.
            let mut environment = sequences.environment(&self.lab.program, counts_as.share(), NOW);
            environment.volatile(VolatileFunction::Random).ok()?;
        }
        let mut inserted = 0;
        let mut holds = true;
        for (at, call) in calls.iter().enumerate() {
            let timestamp = Timestamp { clock: 2 + at as u64, node: 0 };
            branch.plain.push(self.is_plain(call, counts_as, timestamp));
            let program = &self.lab.program;
            let Ok(ran) = self.run(program, call, counts_as, timestamp, &mut sequences) else {
                holds = false;
                break;
            };
            let name = |table, row| names.get(&(table, row)).copied();
            let schema = &self.lab.program.schema;
            let taken = |claim| self.lab.guards.taken(call.procedure, claim, schema, &name);
            branch.taken.extend(ran.claims.iter().filter_map(taken));
            let writes = ran.writes;
            if !self.lab.guards.is_empty() {
                branch.taken.extend(self.taken_by_updates(call.procedure, &writes));
            }
            let operations = self.named(writes, who, &mut names, &mut inserted);
            let written = operations.iter().map(|operation| operation.table).collect();
            branch.operations.push(operations);
            if !self.lab.holds_after(validity, &self.storage, &written) {
                holds = false;
                break;
            }
        }
        if holds {
            after(&self.storage);
        }
        self.storage.rollback(self.begin);
        holds.then_some(branch)
    }

    /// Runs calls one after the other and undoes them. Each side draws from its own share of the sequences, as in a branch; a failing
    /// call has no effect. Assertions are not checked.
    pub fn in_order(&mut self, calls: &[(Who, &Invocation)]) -> InOrder {
        let mut names = self.names.clone();
        let mut sides: BTreeMap<Who, (Sequences, u32)> = BTreeMap::new();
        let mut result = InOrder::default();
        for (at, (who, call)) in calls.iter().enumerate() {
            let (sequences, inserted) = sides.entry(*who).or_default();
            let before = self.storage.position();
            let timestamp = Timestamp { clock: 2 + at as u64, node: 0 };
            match self.run(&self.lab.program, call, *who, timestamp, sequences) {
                Ok(ran) => {
                    self.named(ran.writes, *who, &mut names, inserted);
                    result.answers.push(Ok(ran.output));
                }
                Err(message) => {
                    self.storage.rollback(before);
                    result.answers.push(Err(message));
                }
            }
        }
        result.rows = self.rows_by_name(&names);
        self.storage.rollback(self.begin);
        result
    }

    /// It runs where an upsert is an error; taken back again.
    fn is_plain(&mut self, call: &Invocation, who: Who, timestamp: Timestamp) -> bool {
        let Some(program) = &self.lab.without_upserts else { return false };
        let before = self.storage.position();
        let ran = self.run(program, call, who, timestamp, &mut Sequences::default());
        self.storage.rollback(before);
        ran.is_ok()
    }

    fn rows_by_name(&self, names: &BTreeMap<(TableId, u32), RowName>) -> NamedRows {
        let row = |(&(table, row), &name): (&(TableId, u32), &RowName)| {
            let columns = self.storage.schema().table(table).types.len();
            let at = weir_txn::storage::RowRef { shard: 0, row };
            ((table, name), (0..columns).map(|column| self.storage.value(table, at, column)).collect())
        };
        names.iter().map(row).collect()
    }

    fn run(
        &mut self,
        program: &'l Program,
        invocation: &Invocation,
        who: Who,
        timestamp: Timestamp,
        sequences: &mut Sequences,
    ) -> Result<Ran, String> {
        let nobody = Claims::default();
        let fragment = Fragment {
            program,
            procedure: &program.procedures[invocation.procedure],
            storage: Workspace::in_place(&mut self.storage),
            environment: sequences.environment(program, who.share(), NOW),
            claims: ClaimsOf::Step(&nobody),
            here: who.share(),
            txn: TxnId { coordinator: 0, sequence: timestamp.clock },
            // Only a part that waits for its COMMIT says what it has claimed.
            role: if self.lab.guards.is_empty() { Role::Whole } else { Role::Unguarded },
            timestamp,
            keep_writes: true,
            open: None,
            loading: Vec::new(),
            has_locks: false,
            reserved: None,
            looks: None,
            derived: None,
            attempt: None,
            prepared: &|_| {},
            bugs: NoFaults,
        };
        let call = Call {
            callee: Callee::Procedure(invocation.procedure),
            args: invocation.arguments.clone(),
            transaction_time: NOW,
            schema_version: 0,
            memory: WorkingMemory::default(),
        };
        call::run(fragment, &call, &mut self.scratch).map_err(|stop| match stop {
            Stop::Error(error) => error.message().to_owned(),
            Stop::Held(_) | Stop::Pinned { .. } | Stop::Long | Stop::Elsewhere { .. } => {
                "it waits for another transaction".to_owned()
            }
        })
    }

    fn taken_by_updates(&self, procedure: usize, writes: &[Write]) -> Vec<Taken> {
        let schema = &self.lab.program.schema;
        let updated = writes.iter().filter_map(|write| match write.operation {
            Operation::Update(_) | Operation::Statement(_) => Some((write.table, write.row?)),
            _ => None,
        });
        let there = updated.filter(|(table, row)| self.storage.packed(*table, *row).is_some());
        let taken = there.flat_map(|(table, row)| {
            let before = self.before(table, row);
            let value =
                |column| self.storage.value(table, weir_txn::storage::RowRef { shard: 0, row }, column);
            self.lab.guards.taken_by_update(procedure, table, schema, before, &value)
        });
        taken.collect()
    }

    /// The row of the initial state that lies there.
    fn before(&self, table: TableId, slot: u32) -> Option<&[Value]> {
        match self.names.get(&(table, slot)) {
            Some(RowName::Initial(at)) => self.initial.table(table).get(*at as usize).map(|row| &row[..]),
            _ => None,
        }
    }

    /// The writes of one call with the names of their rows.
    fn named(
        &self,
        writes: Vec<Write>,
        who: Who,
        names: &mut BTreeMap<(TableId, u32), RowName>,
        inserted: &mut u32,
    ) -> Vec<RowOperation> {
        // A write of a row that was there before the call has its slot; an insert is told by its bytes, because
        // what the call did to its own rows is part of the insert.
        let mut named: Vec<Option<RowOperation>> = Vec::with_capacity(writes.len());
        let mut gone = Vec::new();
        for Write { table, row, operation } in &writes {
            let name = row.and_then(|row| names.get(&(*table, row)).copied());
            if let (Some(row), Operation::Delete) = (row, operation) {
                gone.push((*table, *row));
            }
            named.push(name.map(|row| RowOperation { table: *table, row, operation: operation.clone() }));
        }
        gone.into_iter().for_each(|slot| {
            names.remove(&slot);
        });
        for (Write { table, operation, .. }, named) in writes.into_iter().zip(&mut named) {
            let Operation::Insert(packed) = &operation else { continue };
            let slot = slots(&self.storage, table).into_iter().find(|&slot| {
                !names.contains_key(&(table, slot)) && self.storage.packed(table, slot) == Some(&packed[..])
            });
            if let Some(slot) = slot {
                let row = RowName::New(who, *inserted);
                *inserted += 1;
                names.insert((table, slot), row);
                *named = Some(RowOperation { table, row, operation });
            }
        }
        named.into_iter().flatten().collect()
    }
}

impl Drop for Replica<'_> {
    /// The next one begins with the same storage, empty.
    fn drop(&mut self) {
        self.storage.rollback(0);
        let nothing = Storage::new(Arc::new(Schema { tables: Vec::new() }));
        self.lab.storage.replace(Some(std::mem::replace(&mut self.storage, nothing)));
    }
}

fn slots(storage: &Storage, table: TableId) -> Vec<u32> {
    let mut slots = Vec::new();
    let visited = storage.scan(table, &mut |row| {
        slots.push(row.row);
        Ok(std::ops::ControlFlow::Continue(()))
    });
    visited.map(drop).expect("listing rows cannot fail");
    slots
}

/// All rows of a storage, as a state.
pub fn state_of(storage: &Storage) -> State {
    let mut state = State::empty();
    for table in &storage.schema().tables {
        if storage.row_count(table.id) == 0 {
            continue;
        }
        let rows = slots(storage, table.id).into_iter().map(|row| -> Row {
            let at = weir_txn::storage::RowRef { shard: 0, row };
            (0..table.types.len()).map(|column| storage.value(table.id, at, column)).collect()
        });
        *state.table_mut(table.id) = rows.collect();
    }
    state
}
