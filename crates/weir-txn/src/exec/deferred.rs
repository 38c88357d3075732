//! Foreign keys that are looked at when their transaction ends, or when SET CONSTRAINTS says so: what is to be looked at, and whether
//! it is to wait. PostgreSQL's DEFERRABLE.

use serde::{Deserialize, Serialize};
use weir_sql::catalog::{Deferral, TableId};
use weir_types::Value;

use super::program::Program;

/// SET CONSTRAINTS, until the end of its transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// None: all that are deferrable.
    pub names: Option<Vec<String>>,
    /// They wait for the end from here on; else what has waited is looked at, and they wait no more.
    pub deferred: bool,
}

impl Setting {
    /// What COMMIT says before it does anything.
    pub fn end() -> Setting {
        Setting { names: None, deferred: false }
    }

    fn is_of(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|one| one == name))
    }
}

/// What is to be looked at.
#[derive(Clone, Debug)]
pub enum Later {
    /// A row was written whose parent may not be there: with which of the table's foreign keys.
    Child { table: TableId, row: u32, rule: usize },
    /// A row was taken away, or has another key now, that others may refer to: with which of those that refer to the table.
    Parent { table: TableId, reference: usize, key: Vec<Value> },
    /// A row was written elsewhere whose parent belongs here: the key that it names.
    Distant { table: TableId, rule: usize, key: Vec<Value> },
}

impl Later {
    fn name<'p>(&self, program: &'p Program) -> &'p str {
        match *self {
            Later::Child { table, rule, .. } | Later::Distant { table, rule, .. } => {
                &program.rules[table.0 as usize].foreign_keys[rule].name
            }
            Later::Parent { table, reference, .. } => {
                &program.rules[table.0 as usize].referenced_by[reference].name
            }
        }
    }
}

/// Whether a constraint waits, after what has been said in the transaction.
pub fn waits<'s>(deferral: Deferral, name: &str, said: impl DoubleEndedIterator<Item = &'s Setting>) -> bool {
    match deferral {
        Deferral::Never => false,
        initially => said
            .rev()
            .find(|setting| setting.is_of(name))
            .map_or(initially == Deferral::Deferred, |setting| setting.deferred),
    }
}

/// What is left to be looked at of what a transaction's statements have left and said, one after the other; with `last`, only what that
/// is about.
pub fn pending<'s>(
    done: impl Iterator<Item = (Option<&'s Setting>, &'s [Later])>,
    last: Option<&Setting>,
    program: &Program,
) -> Vec<Later> {
    let mut left: Vec<Later> = Vec::new();
    for (setting, later) in done {
        if let Some(setting) = setting.filter(|setting| !setting.deferred) {
            left.retain(|one| !setting.is_of(one.name(program)));
        }
        left.extend_from_slice(later);
    }
    if let Some(last) = last {
        left.retain(|one| !last.deferred && last.is_of(one.name(program)));
    }
    left
}
