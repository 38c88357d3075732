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

/// No constraint has that name. A node of the version before takes it for one that it does not have.
const STATEMENT: &str = "\0statement";

impl Setting {
    /// What COMMIT says before it does anything.
    pub fn end() -> Setting {
        Setting { names: None, deferred: false }
    }

    /// The calls between `statement(true)` and `statement(false)` are batches of one statement. What its end has to look at is looked at by
    /// the second.
    pub fn statement(begins: bool) -> Setting {
        Setting { names: Some(vec![STATEMENT.to_owned()]), deferred: begins }
    }

    fn is_statement(&self) -> bool {
        matches!(self.names.as_deref(), Some([name]) if name == STATEMENT)
    }

    /// It has something looked at that has waited, after what has been said before it.
    fn looks_at(&self, one: &Later, program: &Program, said: &[&Setting]) -> bool {
        let (name, deferral) = one.constraint(program);
        match (self.deferred, self.is_statement()) {
            (true, _) => false,
            (false, true) => !waits(deferral, name, said.iter().copied()),
            (false, false) => self.is_of(name),
        }
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

/// The calls of the transaction are batches of one statement, after what has been said in it.
pub fn is_batch<'s>(mut said: impl DoubleEndedIterator<Item = &'s Setting>) -> bool {
    said.rfind(|setting| setting.is_statement()).is_some_and(|setting| setting.deferred)
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
    let mut said: Vec<&Setting> = Vec::new();
    for (setting, later) in done {
        if let Some(setting) = setting {
            left.retain(|one| !setting.looks_at(one, program, &said));
            said.push(setting);
        }
        left.extend_from_slice(later);
    }
    if let Some(last) = last {
        left.retain(|one| last.looks_at(one, program, &said));
    }
    left
}
