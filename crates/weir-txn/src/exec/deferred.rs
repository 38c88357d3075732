//! Foreign keys that are checked at the end of the transaction or at SET CONSTRAINTS (PostgreSQL's DEFERRABLE): which checks are
//! outstanding, and which are deferred.

use weir_sql::catalog::{Deferral, TableId};
use weir_types::Value;

use super::program::Program;
use crate::message::Setting;

/// An outstanding check.
#[derive(Clone, Debug)]
pub enum Later {
    /// A written row whose parent may be missing; `rule` is one of its table's foreign keys.
    Child { table: TableId, row: u32, rule: usize },
    /// A deleted or re-keyed row that others may reference; `reference` is one of the foreign keys that reference the table. `is_asked`: other
    /// shards are asked for such rows already.
    Parent { table: TableId, reference: usize, key: Vec<Value>, is_asked: bool },
    /// A row written on another shard whose parent belongs here; `key` is the parent's.
    Distant { table: TableId, rule: usize, key: Vec<Value> },
}

impl Later {
    /// Returns whether a setting runs this check, given the earlier settings.
    fn is_run_by(&self, setting: &Setting, program: &Program, said: &[&Setting]) -> bool {
        let (name, deferral) = self.constraint(program);
        match (setting.deferred, setting.is_statement()) {
            (true, _) => false,
            (false, true) => !waits(deferral, name, said.iter().copied()),
            (false, false) => setting.is_of(name),
        }
    }

    fn constraint<'p>(&self, program: &'p Program) -> (&'p str, Deferral) {
        match *self {
            Later::Child { table, rule, .. } | Later::Distant { table, rule, .. } => {
                let rule = &program.rules[table.0 as usize].foreign_keys[rule];
                (&rule.name, rule.deferral)
            }
            Later::Parent { table, reference, .. } => {
                let reference = &program.rules[table.0 as usize].referenced_by[reference];
                (&reference.name, reference.deferral)
            }
        }
    }
}

/// Returns whether the transaction's calls are currently batches of one statement.
pub fn is_batch<'s>(mut said: impl DoubleEndedIterator<Item = &'s Setting>) -> bool {
    said.rfind(|setting| setting.is_statement()).is_some_and(|setting| setting.deferred)
}

/// Returns whether a constraint is deferred, given the settings of the transaction.
pub fn waits<'s>(deferral: Deferral, name: &str, said: impl DoubleEndedIterator<Item = &'s Setting>) -> bool {
    match deferral {
        Deferral::Never => false,
        initially => said
            .rev()
            .find(|setting| setting.is_of(name))
            .map_or(initially == Deferral::Deferred, |setting| setting.deferred),
    }
}

/// Outstanding checks after a transaction's statements and settings, in order; with `last`, only those that it concerns.
pub fn pending<'s>(
    done: impl Iterator<Item = (Option<&'s Setting>, &'s [Later])>,
    last: Option<&Setting>,
    program: &Program,
) -> Vec<Later> {
    let mut left: Vec<Later> = Vec::new();
    let mut said: Vec<&Setting> = Vec::new();
    for (setting, later) in done {
        if let Some(setting) = setting {
            left.retain(|one| !one.is_run_by(setting, program, &said));
            said.push(setting);
        }
        left.extend_from_slice(later);
    }
    if let Some(last) = last {
        left.retain(|one| one.is_run_by(last, program, &said));
    }
    left
}
