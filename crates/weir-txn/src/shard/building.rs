//! Indexes that are built while others write (docs/internals/global-keys.md, 3.17), by a transaction whose definition follows. All of it is
//! volatile, and goes with the transaction: a shard that starts again has forgotten both.
//!
//! Invariant: between steps the index has the rows of the slots before `next`, whoever has written them; and what the owners of a global key
//! have staged of this shard, together with `untold`, is what its rows say.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;
use weir_core::ids::{ShardId, TxnId};
use weir_types::{SqlError, SqlState, Value};

use super::open::{Open, StepResult};
use crate::entries::entries_id;
use crate::exec::definition::{Built, added_index, duplicated};
use crate::exec::program::Program;
use crate::faults::Faults;
use crate::message::{Begun, Callee, Definition, Derived, GlobalKey, Work, schema_has_changed};
use crate::placement::shard_of;
use crate::shard::exposed::is_of;
use crate::shard::node::{Effects, Node};
use crate::storage::{
    AddedIndex, BatchLimits, Building, DuplicateKey, IndexColumn, KeyChange, StagedEntries,
};

/// The share of a build that one step does.
const LIMITS: BatchLimits = BatchLimits { rows: 4_096, bytes: 256 << 10 };
/// The same in small worlds, which are to have many steps.
const SMALL_LIMITS: BatchLimits = BatchLimits { rows: 2, bytes: 64 };

/// An index that an open transaction builds at this shard.
#[derive(Debug)]
pub(crate) struct Build {
    /// Schema versions before and after its definition.
    upon: u64,
    becomes: u64,
    /// Program after the definition.
    program: Arc<Program>,
    index: AddedIndex,
    /// First slot whose row is not in the index; none: all rows are.
    next: Option<u32>,
    /// Changes of keys, in their order, that their owners have not been told.
    untold: VecDeque<KeyChange>,
    /// Entries of which this shard is the owner; none: the index is no global key, or they are in place.
    staged: Option<StagedEntries>,
    /// A key that two rows of this shard have, when the definition is made.
    duplicate: Option<DuplicateKey>,
    /// The index is a global key whose entries are not in place.
    is_unsettled: bool,
    /// Another transaction has changed the schema, or truncated tables: nothing of this may be used.
    is_void: bool,
}

impl Build {
    fn key(&self) -> GlobalKey {
        GlobalKey { table: self.index.table, index: self.index.index }
    }

    /// Returns whether a row may have these values as its key, and an entry somewhere else.
    pub(super) fn takes(&self, values: &[Value]) -> bool {
        let index = &self.program.schema.table(self.index.table).indexes[self.index.index];
        let is_one = |(value, column): (&Value, &IndexColumn)| {
            is_of(value, &column.ty) && (index.nulls_not_distinct || !value.is_null())
        };
        values.len() == index.columns.len() && values.iter().zip(&index.columns).all(is_one)
    }

    /// Returns whether its transaction may not commit: nobody has put the entries of its definition in place.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    fn report(&self, duplicate: DuplicateKey) -> Derived {
        // One shard compares those of all.
        Derived::Duplicate { at: 0, key: self.key(), duplicate }
    }

    /// Returns whether the key is the one that is built.
    pub(crate) fn is_of(&self, key: GlobalKey) -> bool {
        self.key() == key
    }

    /// Takes the next changes of keys, by owner; `here` is told nothing, for it has the rows.
    fn take_untold(&mut self, here: ShardId, bytes_max: usize) -> Vec<Derived> {
        let mut pages: BTreeMap<ShardId, Vec<KeyChange>> = BTreeMap::new();
        let mut bytes = 0;
        while bytes < bytes_max
            && let Some(change) = self.untold.pop_front()
        {
            let owner = shard_of(&change.values, self.program.shards);
            if owner != here {
                bytes += change.bytes();
                pages.entry(owner).or_default().push(change);
            }
        }
        let key = self.key();
        let page = |(at, changes)| Derived::Stage { at, key, home: here, changes };
        pages.into_iter().map(page).collect()
    }
}

impl<F: Faults> Node<F> {
    /// Begins to build the index that the definition adds, with the first rows. Nothing is built if it adds none by itself.
    pub(super) fn on_build(
        &mut self,
        now_ms: u64,
        (txn, begun): (TxnId, Begun),
        work: &Work,
        out: &mut Effects,
    ) {
        let _watch = self.interrupts.watch(self.statement);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, self.shard, begun.age));
        let result = match &work.call.callee {
            Callee::Build(definition) => self.begin_build(txn, &mut open, definition),
            Callee::Derived(derived) => self.go_on_building(now_ms, txn, &mut open, derived),
            _ => Err(internal("it is of no index that is being built")),
        };
        let result = result.map(|derived| StepResult { derived, ..StepResult::default() });
        self.worked(txn, open, (work.number, result), out);
    }

    fn begin_build(
        &mut self,
        txn: TxnId,
        open: &mut Open,
        definition: &Definition,
    ) -> Result<Vec<Derived>, SqlError> {
        if open.build.is_some() || open.defines() {
            return Err(internal("a transaction builds one index, before its definition"));
        }
        let Some(program) = definition.compile(&self.program)? else { return Ok(Vec::new()) };
        let Some(index) = added_index(&self.program, &program)? else { return Ok(Vec::new()) };
        let schema = program.schema.tables[index.table.0 as usize].clone();
        let entries = index.entries.map(|at| schema.entries[at].schema.clone());
        let building = Building::new(txn, schema, index.index, entries.is_some());
        self.storage.begin_building(index.was, building);
        open.build = Some(Box::new(Build {
            upon: definition.upon,
            becomes: definition.becomes,
            program: Arc::new(program),
            index,
            next: Some(0),
            untold: VecDeque::new(),
            is_unsettled: entries.is_some(),
            staged: entries.map(StagedEntries::new),
            duplicate: None,
            is_void: false,
        }));
        self.build_more(txn, open)
    }

    fn go_on_building(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        open: &mut Open,
        all: &[Derived],
    ) -> Result<Vec<Derived>, SqlError> {
        let clock = self.clock.tick(now_ms).clock;
        let mut derived = Vec::new();
        for one in all {
            let build = open.build.as_mut().filter(|build| !build.is_void).ok_or_else(schema_has_changed)?;
            match one {
                Derived::Build { .. } => derived.extend(self.build_more(txn, open)?),
                Derived::Stage { home, changes, .. } => {
                    let staged = build.staged.as_mut().ok_or_else(|| internal("nothing is staged"))?;
                    changes.iter().try_for_each(|change| staged.change(change, *home, clock))?;
                }
                Derived::Settle { .. } => derived.extend(self.settle(open)?),
                // The lowest comes first.
                Derived::Duplicate { duplicate, .. } => {
                    let table = build.program.schema.table(build.index.table);
                    return Err(duplicated(duplicate.violation(table, build.index.index), table));
                }
                _ => return Err(internal("an index is built beside other writes")),
            }
        }
        Ok(derived)
    }

    /// Takes the next rows into the index, and tells the owners of its keys. Asks itself for more, if there is more.
    fn build_more(&mut self, txn: TxnId, open: &mut Open) -> Result<Vec<Derived>, SqlError> {
        let (at, defines) = (self.shard, open.defines());
        let limits = if self.bugs.small_batches() { SMALL_LIMITS } else { LIMITS };
        let build = open.build.as_mut().filter(|build| !build.is_void).ok_or_else(schema_has_changed)?;
        let was = build.index.was;
        if !defines {
            if let Some(from) = build.next {
                let batch = self.storage.build(was, txn, from, limits)?.ok_or_else(schema_has_changed)?;
                build.next = batch.next;
                build.untold.extend(batch.keys);
                if !self.bugs.builds_unkept() {
                    self.storage.keep_built(was, txn, batch.next);
                }
            }
            if !self.bugs.stages_no_changes() {
                build.untold.extend(self.storage.take_key_changes(was, txn));
            }
        }
        let mut derived = build.take_untold(at, limits.bytes);
        // Rows of a commit in progress are in the index. That two have one key is told when it is known that they are there.
        let may_not_count = !defines && !self.large.is_empty();
        if build.next.is_some() || !build.untold.is_empty() || may_not_count {
            derived.push(Derived::Build { at, key: build.key() });
        } else if !defines && build.staged.is_none() {
            derived.extend(self.storage.built_duplicate(was, txn).map(|duplicate| build.report(duplicate)));
        }
        Ok(derived)
    }

    /// The index that the transaction has built for this definition. Everybody else is kept out from here on.
    pub(super) fn take_built(
        &mut self,
        txn: TxnId,
        open: &mut Open,
        definition: &Definition,
    ) -> Result<Option<Built>, SqlError> {
        let Some(build) = &mut open.build else { return Ok(None) };
        let is_of = (build.upon, build.becomes) == (definition.upon, definition.becomes)
            && build.upon == self.program.schema_version;
        if build.is_void || !is_of || build.next.is_some() {
            return Err(schema_has_changed());
        }
        if !open.own.is_empty() {
            return Err(internal("a transaction builds an index before it writes"));
        }
        if !self.bugs.stages_no_changes() {
            build.untold.extend(self.storage.take_key_changes(build.index.was, txn));
        }
        build.duplicate = self.storage.built_duplicate(build.index.was, txn);
        let index = self.storage.take_building(build.index.was, txn).ok_or_else(schema_has_changed)?;
        Ok(Some(Built { program: build.program.clone(), index }))
    }

    /// The changes that are left to be staged when the definition is made, and then to be put in place.
    pub(super) fn rest_of_build(&mut self, txn: TxnId, open: &mut Open) -> Result<Vec<Derived>, SqlError> {
        let Some(build) = open.build.as_ref().filter(|build| build.staged.is_some()) else {
            return Ok(Vec::new());
        };
        let settle = Derived::Settle { at: self.shard, key: build.key() };
        let mut derived = self.build_more(txn, open)?;
        derived.push(settle);
        Ok(derived)
    }

    /// Puts the entries of the key in place that the transaction's definition has made, or reports a key that two rows have.
    fn settle(&mut self, open: &mut Open) -> Result<Option<Derived>, SqlError> {
        let is_defined = open.defines();
        let taken = open.build.as_mut().filter(|_| is_defined).and_then(|build| {
            Some((build.staged.take()?, entries_id(build.index.table, build.index.entries?)))
        });
        let Some((staged, entries)) = taken else {
            return Err(internal("nothing is staged of a definition"));
        };
        self.put_versions(open);
        let settled = self.storage.settle(entries, staged);
        self.take_versions(open);
        let settled = settled?;
        let Some(build) = &mut open.build else { return Ok(None) };
        let duplicate = settled.into_iter().chain(build.duplicate.take()).min();
        build.is_unsettled = duplicate.is_some();
        Ok(duplicate.map(|duplicate| build.report(duplicate)))
    }

    /// Ends what the transaction builds, if it has not become part of a definition.
    pub(super) fn end_build(&mut self, txn: TxnId, open: &mut Open) {
        if let Some(build) = open.build.take() {
            self.storage.take_building(build.index.was, txn);
        }
    }

    /// A definition has committed: whatever others build is void.
    pub(super) fn end_builds(&mut self) {
        let mut builds: SmallVec<[&mut Build; 2]> =
            self.open.values_mut().filter_map(|open| open.build.as_deref_mut()).collect();
        if builds.is_empty() {
            return;
        }
        builds.iter_mut().for_each(|build| build.is_void = true);
        self.storage.end_building();
    }
}

fn internal(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, what)
}
