//! The schema versions of an open transaction that changes the schema: one on top of the other, each with the write set of the rows that were
//! written on the one below (docs/internals/write-sets.md, "Definitions").
//!
//! Between its statements the shard has the schema version that others see. No other transaction writes meanwhile: this one holds the
//! barrier.

use std::sync::Arc;

use weir_core::ids::Timestamp;
use weir_sql::catalog::TableId;
use weir_types::SqlError;
use weir_types::datetime::TransactionTime;

use super::{Done, Open, pending_checks, targets_of};
use crate::claims::Claim;
use crate::faults::Faults;
use crate::message::{Definition, Derived, GlobalKey};
use crate::shard::definitions::{Defined, Definitions, Step};
use crate::shard::node::Node;
use crate::storage::{IndexId, WriteSet};

/// A definition that has been made.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) defined: Defined,
    /// The write set that it was made on. What it says of tables that are made anew is in these.
    pub(crate) below: WriteSet,
}

/// All versions of a transaction, from the lowest on, with the write set on top.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    pub(crate) all: Vec<Version>,
    pub(crate) own: WriteSet,
}

impl Open {
    /// As it is prepared or committed: what it has done, one after the other.
    pub(super) fn into_definitions(self, timestamp: Timestamp) -> Definitions {
        let all: Vec<Version> =
            self.done.into_iter().filter_map(|done| done.version.map(|version| *version)).collect();
        let mut steps = Vec::with_capacity(2 * all.len() + 1);
        let note = |own: &WriteSet| {
            let rows = own.logged(timestamp);
            (!rows.is_empty()).then_some(Step::Rows(rows))
        };
        for version in &all {
            steps.extend(note(&version.below));
            steps.push(version.defined.step());
        }
        steps.extend(note(&self.own));
        Definitions { versions: Versions { all, own: self.own }, steps }
    }
}

impl<F: Faults> Node<F> {
    /// Puts the transaction's last version in place, for a statement of its own.
    pub(crate) fn put_versions(&mut self, open: &mut Open) {
        if !open.defines() {
            return;
        }
        open.done
            .iter_mut()
            .filter_map(|done| done.version.as_mut())
            .for_each(|version| self.exchange(&mut version.defined));
    }

    /// Puts the version in place again that others see.
    pub(crate) fn take_versions(&mut self, open: &mut Open) {
        if !open.defines() {
            return;
        }
        open.done
            .iter_mut()
            .rev()
            .filter_map(|done| done.version.as_mut())
            .for_each(|version| self.exchange(&mut version.defined));
    }

    pub(super) fn define_within(
        &mut self,
        open: &mut Open,
        number: u32,
        definition: &Arc<Definition>,
        transaction_time: TransactionTime,
    ) -> Result<Vec<Derived>, SqlError> {
        if open.has_pending(&self.program) {
            return Err(pending_checks());
        }
        let mark = open.own.mark();
        self.put_versions(open);
        let defined = self.define(definition, transaction_time, &open.own).map(|(mut defined, carried)| {
            self.exchange(&mut defined);
            let below = std::mem::replace(&mut open.own, carried);
            Some(Box::new(Version { defined, below }))
        });
        self.take_versions(open);
        let version = defined?;
        let derived =
            version.as_ref().map_or_else(Vec::new, |version| self.entries_to_fill(&version.defined));
        let targets = targets_of(&derived, self.program.shards);
        open.versions += 1;
        open.done.push(Done { number, mark, version, targets, ..Done::default() });
        Ok(derived)
    }

    /// Requests for the entries of rows that were here before their keys.
    fn entries_to_fill(&self, defined: &Defined) -> Vec<Derived> {
        let at = self.shard;
        let of = |&(table, index): &(TableId, IndexId)| Derived::Entries {
            at,
            key: GlobalKey { table, index },
            from: 0,
        };
        defined.unfilled().iter().map(of).collect()
    }

    /// Takes back all but the first so many statements; gives the claims of the others.
    pub(super) fn roll_back_done(&mut self, open: &mut Open, stays: usize) -> Vec<Claim> {
        self.put_versions(open);
        let mut claims = Vec::new();
        while open.done.len() > stays {
            let done = open.done.pop().expect("there are more than stay");
            open.settings -= usize::from(done.setting.is_some());
            claims.extend(done.claims);
            match done.version {
                None => open.own.roll_back(&mut self.storage, done.mark),
                Some(version) => {
                    open.versions -= 1;
                    self.drop_version(&mut open.own, *version);
                }
            }
        }
        self.take_versions(open);
        claims
    }

    /// Takes back the uppermost version, which is in place, and what has been written on it.
    fn drop_version(&mut self, own: &mut WriteSet, Version { mut defined, below }: Version) {
        own.roll_back(&mut self.storage, 0);
        self.exchange(&mut defined);
        *own = below;
    }

    /// Takes back all of a prepared transaction that has changed the schema.
    pub(crate) fn discard_versions(&mut self, Versions { mut all, mut own }: Versions) {
        all.iter_mut().for_each(|version| self.exchange(&mut version.defined));
        while let Some(version) = all.pop() {
            self.drop_version(&mut own, version);
        }
        own.roll_back(&mut self.storage, 0);
    }
}
