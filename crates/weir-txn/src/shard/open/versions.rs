//! The schema versions of an open transaction that changes the schema: one on top of the other, each with the write set of the rows that were
//! written on the one below (docs/internals/write-sets.md, "Definitions").
//!
//! Between its statements the shard has the schema version that others see. No other transaction writes meanwhile: this one holds the
//! barrier.

use std::sync::Arc;

use weir_core::ids::{Timestamp, TxnId};
use weir_types::SqlError;
use weir_types::datetime::TransactionTime;

use super::{Done, Open, pending_checks, targets_of};
use crate::claims::Claim;
use crate::faults::Faults;
use crate::message::{Definition, Derived, GlobalKey};
use crate::shard::definitions::{Defined, Definitions, Step};
use crate::shard::node::Node;
use crate::storage::WriteSet;

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
            let entries = version.defined.staged_entries();
            steps.extend((!entries.is_empty()).then_some(Step::Rows(entries)));
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
        (txn, open): (TxnId, &mut Open),
        number: u32,
        definition: &Arc<Definition>,
        transaction_time: TransactionTime,
    ) -> Result<Vec<Derived>, SqlError> {
        if open.has_pending(&self.program) {
            return Err(pending_checks());
        }
        let built = self.take_built(txn, open, definition)?;
        let mark = open.own.mark();
        self.put_versions(open);
        let defined = self.define(definition, transaction_time, &open.own, built);
        let version = defined.map(|(mut defined, carried)| {
            self.exchange(&mut defined);
            let below = std::mem::replace(&mut open.own, carried);
            Box::new(Version { defined, below })
        });
        self.take_versions(open);
        let version = version?;
        let mut derived = self.entries_to_fill(&version.defined, open);
        open.versions += 1;
        open.done.push(Done { number, mark, version: Some(version), ..Done::default() });
        derived.extend(self.rest_of_build(txn, open)?);
        if let Some(done) = open.done.last_mut() {
            done.targets = targets_of(&derived, self.program.shards);
        }
        Ok(derived)
    }

    /// Requests for the entries of rows that were here before their keys, unless they have been staged.
    fn entries_to_fill(&self, defined: &Defined, open: &Open) -> Vec<Derived> {
        let at = self.shard;
        let keys = defined.unfilled().iter().map(|&(table, index)| GlobalKey { table, index });
        let unstaged = keys.filter(|key| !open.build().is_some_and(|build| build.is_of(*key)));
        unstaged.map(|key| Derived::Entries { at, key, from: 0 }).collect()
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
