//! Foreign keys between rows of different shards (docs/internals/global-keys.md). A shard that writes a row asks the shard of its parent, and
//! the shard of a parent those of its children; the coordinator carries what is asked before the statement is answered.
//!
//! Invariant. Who refers to a parent holds it FOR KEY SHARE, where the parent is found, until the outcome; who takes it away holds it FOR
//! UPDATE there, and only then looks for children. So a transaction that has referred to it before is over there; elsewhere it may still be
//! prepared, and who looks for children waits for it.

use weir_core::ids::ShardId;
use weir_sql::catalog::{ForeignKeyAction, TableId};
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, Value};

use super::{Children, CompiledInsert, ForeignKeyRule, Reference};
use crate::claims::Holders;
use crate::exec::call::{Run, Stop, internal};
use crate::exec::foreseen::{acts_elsewhere, leaves_copies};
use crate::faults::Faults;
use crate::message::{Derived, ParentChange, WhyParent};
use crate::placement::shard_of;
use crate::storage::{ColumnChange, ColumnOperation, KeyBytes, Operation, Write, key::push_key};

/// A foreign key of the first table, or one that refers to it, by its number.
type Numbered = (TableId, usize);

impl CompiledInsert {
    /// Whether the shards of the parents run the statement, too, and look them up there.
    pub(super) fn looks_elsewhere(&self, rule: usize) -> bool {
        self.distant_parents.iter().any(|distant| distant.rule == rule)
    }
}

impl Reference {
    fn action(&self, change: &ParentChange) -> ForeignKeyAction {
        match change {
            ParentChange::Goes => self.on_delete,
            ParentChange::Gets(_) => self.on_update,
            ParentChange::HasGone => ForeignKeyAction::NoAction,
        }
    }

    /// A parent's key in the order of its index.
    fn in_index_order(&self, rule: &ForeignKeyRule, key: &[Value]) -> Vec<Value> {
        let of =
            |column| self.columns.iter().zip(key).find(|(own, _)| *own == column).map(|(_, value)| value);
        rule.key_columns.iter().filter_map(of).cloned().collect()
    }

    /// A key that has the order of the parent's index in that of the foreign key.
    fn in_declared_order(&self, rule: &ForeignKeyRule, key: &[Value]) -> Vec<Value> {
        let of =
            |column| rule.key_columns.iter().zip(key).find(|(own, _)| *own == column).map(|(_, value)| value);
        self.columns.iter().filter_map(of).cloned().collect()
    }
}

impl<F: Faults> Run<'_, F> {
    fn rule_of(&self, reference: &Reference) -> &ForeignKeyRule {
        &self.fragment.program.rules[reference.child.0 as usize].foreign_keys[reference.rule]
    }

    pub(super) fn ask_for_parent(&mut self, at: ShardId, of: Numbered, key: Vec<Value>, why: WhyParent) {
        let (child, rule) = of;
        self.ran.derived.push(Derived::Parent { at, child, rule, key, why });
    }

    /// Asks the shards where children of a row of this shard may live. Returns whether this is one of them, whose children are looked for
    /// at once.
    pub(super) fn ask_for_children(&mut self, of: Numbered, old: &[Value], change: &ParentChange) -> bool {
        let (parent, number) = of;
        let (program, here) = (self.fragment.program, self.fragment.here);
        let reference = &program.rules[parent.0 as usize].referenced_by[number];
        if program.shards == 1 || reference.together {
            return true;
        }
        // The owner of a global key has to let its entry go first.
        let key = reference.in_index_order(self.rule_of(reference), old);
        let is_held = !reference.by_key || shard_of(&key, program.shards) == here;
        let all = match &reference.children {
            Children::OnOne(positions) => {
                let partition: Vec<Value> = positions.iter().map(|&at| old[at].clone()).collect();
                let one = shard_of(&partition, program.shards);
                one..one + 1
            }
            Children::OnAny | Children::Copied => 0..program.shards,
        };
        let mut is_asked_here = false;
        for at in all {
            if at == here && is_held {
                is_asked_here = true;
                continue;
            }
            let (old, change) = (old.to_vec(), change.clone());
            self.ran.derived.push(Derived::Children { at, parent, reference: number, old, change });
        }
        is_asked_here
    }

    /// Checks that what happens to children of other shards can be done.
    pub(super) fn check_action(&self, reference: &Reference, change: &ParentChange) -> Result<(), SqlError> {
        if self.fragment.program.shards == 1 || reference.together {
            return Ok(());
        }
        let acts = !reference.action(change).refuses();
        match reference.children {
            Children::Copied => Err(leaves_copies(&reference.name)),
            _ if acts && (self.depth > 0 || self.procedure.meets_actions) => {
                Err(acts_elsewhere(&reference.name))
            }
            _ => Ok(()),
        }
    }

    /// Does what other shards have asked for; the list is sorted, and of one stage.
    pub(in crate::exec) fn do_derived(&mut self, derived: &[Derived]) -> Result<(), Stop> {
        let mut orphans = Vec::new();
        for one in derived {
            check()?;
            match one {
                Derived::Remove { key, values, home } => self.remove_entry(*key, values, *home)?,
                Derived::Add { key, values, home } => self.add_entry(*key, values, *home)?,
                Derived::Propose { key, values, home } => self.propose_entry(*key, values, *home)?,
                Derived::Copy { table, old, new, .. } => {
                    self.write_copy(*table, (old.as_deref(), new.as_deref()))?;
                }
                Derived::Row { table, values, .. } => self.take_row(*table, values)?,
                Derived::Entries { key, from, .. } => self.fill_entries(*key, *from)?,
                Derived::Fill { key, values, home } => self.fill_entry(*key, values, *home)?,
                Derived::BeginAgain { .. } => return Err(internal("a report to a coordinator".to_owned())),
                Derived::Build { .. }
                | Derived::Stage { .. }
                | Derived::Settle { .. }
                | Derived::Duplicate { .. } => {
                    return Err(internal("an index that is built beside statements".to_owned()));
                }
                Derived::Parent { child, rule, key, why, .. } => {
                    self.look_for_parent_with((*child, *rule), key, *why)?;
                }
                Derived::Children { parent, reference, old, change, .. } => {
                    let of = &self.fragment.program.rules[parent.0 as usize].referenced_by[*reference];
                    self.wait_for_prepared_children(of, old)?;
                    orphans.push(((*parent, *reference), old, change, self.children(of, old)?));
                }
            }
        }
        // All are found before the first is changed: a key that one parent gives up may be that which another gets.
        orphans
            .into_iter()
            .try_for_each(|(of, old, change, rows)| self.leave_children(of, old, change, &rows))
    }

    /// Applies the action to children of a parent at another shard.
    fn leave_children(
        &mut self,
        (parent, number): Numbered,
        old: &[Value],
        change: &ParentChange,
        rows: &[u32],
    ) -> Result<(), Stop> {
        let reference = &self.fragment.program.rules[parent.0 as usize].referenced_by[number];
        let new = match change {
            ParentChange::Gets(new) => Some(&new[..]),
            ParentChange::Goes | ParentChange::HasGone => None,
        };
        match reference.action(change) {
            ForeignKeyAction::NoAction if self.any_that_stays(reference, rows)? => {
                self.look_for_another_parent((parent, number), old)
            }
            ForeignKeyAction::NoAction => Ok(()),
            action => {
                rows.iter().try_for_each(|&row| {
                    match self.fragment.storage.exists(reference.child, row) {
                        true => self.on_child(parent, reference, row, old, new, action),
                        // It has gone with another parent.
                        false => Ok(()),
                    }
                })?;
                self.delete_cascaded()
            }
        }
    }

    /// Whether some of these children stays: if others are about to take them away, these come first.
    fn any_that_stays(&self, reference: &Reference, rows: &[u32]) -> Result<bool, Stop> {
        rows.iter().try_for_each(|&row| self.wait_for_going(reference, row))?;
        Ok(!rows.is_empty())
    }

    /// Waits for those who are about to delete the child, and for prepared ones that let it refer to another parent: these may have
    /// committed elsewhere.
    pub(super) fn wait_for_going(&self, reference: &Reference, row: u32) -> Result<(), Stop> {
        self.wait_for_key(reference.child, row)?;
        if self.fragment.bugs.misses_prepared_children() {
            return Ok(());
        }
        let takes = |write: &Write| {
            (write.table, write.row) == (reference.child, Some(row))
                && write.operation.takes(&|column| reference.columns.contains(&column))
        };
        let mut holders = Holders::new();
        (self.fragment.prepared)(&mut |txn, writes| {
            if writes.iter().any(takes) {
                holders.push(txn);
            }
        });
        self.wait_for_prepared(holders)
    }

    /// Whether rows of this shard refer to a parent with that key, and stay.
    pub(super) fn children_that_stay(&self, reference: &Reference, key: &[Value]) -> Result<bool, Stop> {
        self.any_that_stays(reference, &self.children(reference, key)?)
    }

    /// Looks for a row that has come by the key which another one has given up while it had children.
    pub(super) fn look_for_another_parent(
        &mut self,
        (parent, number): Numbered,
        key: &[Value],
    ) -> Result<(), Stop> {
        let program = self.fragment.program;
        let reference = &program.rules[parent.0 as usize].referenced_by[number];
        let rule = self.rule_of(reference);
        let in_order = reference.in_index_order(rule, key);
        let value =
            |column| rule.key_columns.iter().position(|own| *own == column).map(|at| in_order[at].clone());
        let at = match &rule.parent_partition {
            Some(columns) if program.shards > 1 && rule.is_distant() => {
                let partition: Vec<Value> = columns.iter().filter_map(|&column| value(column)).collect();
                shard_of(&partition, program.shards)
            }
            _ => self.fragment.here,
        };
        let child = (reference.child, reference.rule);
        match at == self.fragment.here {
            true => self.look_for_parent_with(child, &in_order, WhyParent::HasGone),
            false => {
                self.ask_for_parent(at, child, in_order, WhyParent::HasGone);
                Ok(())
            }
        }
    }

    /// Looks here for the parent with that key, which is in the order of its index.
    pub(super) fn look_for_parent_with(
        &mut self,
        (child, number): Numbered,
        key: &[Value],
        why: WhyParent,
    ) -> Result<(), Stop> {
        let program = self.fragment.program;
        let rule = &program.rules[child.0 as usize].foreign_keys[number];
        let mut bytes = KeyBytes::new();
        let columns = &program.schema.table(rule.parent).indexes[rule.parent_index].columns;
        columns.iter().zip(key).for_each(|(column, value)| push_key(&mut bytes, value, column));
        if self.has_parent(rule, bytes)? {
            return Ok(());
        }
        Err(match why {
            WhyParent::IsReferred => self.parent_missing(child, rule, &|at| key[at].clone()),
            WhyParent::HasGone => self.has_left(child, number, key),
        }
        .into())
    }

    #[cold]
    fn has_left(&self, child: TableId, number: usize, key: &[Value]) -> SqlError {
        let program = self.fragment.program;
        let rule = &program.rules[child.0 as usize].foreign_keys[number];
        let references = &program.rules[rule.parent.0 as usize].referenced_by;
        match references.iter().find(|one| (one.child, one.rule) == (child, number)) {
            Some(reference) => {
                self.is_referenced(rule.parent, reference, &reference.in_declared_order(rule, key))
            }
            None => SqlError::new(SqlState::INTERNAL_ERROR, "a foreign key that its parent does not know"),
        }
    }

    /// Waits for prepared transactions that may have committed elsewhere, and leave rows here that refer to the key. They no longer hold
    /// the parent.
    fn wait_for_prepared_children(&self, reference: &Reference, key: &[Value]) -> Result<(), Stop> {
        if self.fragment.bugs.misses_prepared_children() {
            return Ok(());
        }
        let mut holders = Holders::new();
        (self.fragment.prepared)(&mut |txn, writes| {
            if writes.iter().any(|write| self.may_refer(reference, key, write)) {
                holders.push(txn);
            }
        });
        self.wait_for_prepared(holders)
    }

    fn may_refer(&self, reference: &Reference, key: &[Value], write: &Write) -> bool {
        if write.table != reference.child {
            return false;
        }
        let pairs = || reference.columns.iter().copied().zip(key);
        match &write.operation {
            Operation::Delete => false,
            Operation::Insert(packed) => self.fragment.storage.with_committed(|base| {
                let read = |column| base.read_packed(write.table, packed, column);
                pairs().all(|(column, value)| weir_types::compare::equal(&read(column), value))
            }),
            Operation::Update(columns) => {
                let assigned = |column| columns.iter().find(|one: &&ColumnOperation| one.column == column);
                let may_equal = |one: &ColumnOperation, value: &Value| match &one.change {
                    ColumnChange::Assign(new) => weir_types::compare::equal(new, value),
                    _ => true,
                };
                pairs().any(|(column, _)| assigned(column).is_some())
                    && pairs().all(|(column, value)| assigned(column).is_none_or(|one| may_equal(one, value)))
            }
            Operation::Statement(_) => write.operation.takes(&|column| reference.columns.contains(&column)),
        }
    }
}
