//! Limits of a write with respect to other shards and transactions: rows stay on their shard, and guarded rows and new keys are claimed
//! by one transaction at a time (S7).

use smallvec::{SmallVec, smallvec};
use weir_core::ids::TxnId;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use crate::claims::{Claim, Claims, Holders, Interval, KEYS_CLAIMED_MAX};
use crate::exec::access::TableAccess;
use crate::exec::call::{Fragment, Role, Run, Stop};
use crate::exec::foreseen::{inserts_elsewhere, moves};
use crate::exec::worker::ClaimsOf;
use crate::exec::write::Hold;
use crate::faults::Faults;
use crate::storage::{IndexId, IndexSchema, KeyBytes, RowRef, Rows, WriteSet, key::push_key};

impl<F: Faults> Run<'_, F> {
    /// Checks that an inserted row lives on this shard: the route was chosen before its values were known.
    pub(super) fn check_home(&self, table: TableId, values: &[Value]) -> Result<(), Stop> {
        if self.fragment.program.shards == 1 {
            return Ok(());
        }
        match self.fragment.program.home(table, &|column| values[column].clone()) {
            Some(home) if home != self.fragment.here => {
                Err(inserts_elsewhere(&self.fragment.program.schema.table(table).name).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that an update may move a row to another shard: nothing but one statement could meet it on its way.
    pub(super) fn check_may_move(&self, table: TableId) -> Result<(), Stop> {
        let is_statement = self.procedure.is_statement && self.depth == 0;
        match is_statement && self.fragment.open.is_some() {
            true => Ok(()),
            false => Err(moves(&self.fragment.program.schema.table(table).name).into()),
        }
    }

    /// Returns whether every written row must be claimed: in an open transaction, or while there are any.
    pub(super) fn holds_rows(&self) -> bool {
        self.stays_open() || self.fragment.has_locks
    }

    /// Returns whether requests of others are handled before the run commits, although it is not prepared.
    pub(super) fn stays_open(&self) -> bool {
        self.fragment.open.is_some() || self.fragment.claims.worker().is_some()
    }

    /// Claims a table that is about to be written: of a worker's run, since it does not keep single claims of all that it writes. Other runs
    /// stop if a worker has claimed it.
    #[inline]
    pub(super) fn claim_table(&mut self, table: TableId) -> Result<(), Stop> {
        match self.fragment.claims {
            ClaimsOf::Worker(worker) => {
                self.leave_reserved(Some(table))?;
                worker.claim_table(table)
            }
            ClaimsOf::Step(claims) if claims.has_tables() => self.wait_for_table(claims, table),
            ClaimsOf::Step(_) => Ok(()),
        }
    }

    /// Stops a worker's run that is about to hold rows of a table, and then to write them, if another transaction has claimed the table.
    pub(super) fn wait_to_write(&self, table: TableId) -> Result<(), Stop> {
        self.fragment.claims.worker().map_or(Ok(()), |worker| worker.wait_for_table(table))
    }

    #[cold]
    fn wait_for_table(&self, claims: &Claims, table: TableId) -> Result<(), Stop> {
        match claims.holder_of_table(table, self.fragment.txn) {
            Some(holder) if !self.fragment.bugs.no_guards() => Err(Stop::Held(smallvec![holder])),
            _ => Ok(()),
        }
    }

    /// Checks that a worker's run sees all rows of the table that others have committed; at other times every run does.
    pub(in crate::exec) fn settle(&self, table: TableId) -> Result<(), Stop> {
        self.fragment.claims.worker().map_or(Ok(()), |worker| worker.settle(table))
    }

    /// Other transactions whose claims conflict with `claim`.
    fn claims_against(&self, claim: &Claim) -> Holders {
        self.fragment.claims.against(claim, self.fragment.txn)
    }

    /// Locks a row, or stops with its holders (docs/internals/row-locks.md).
    pub(super) fn claim_row(&mut self, table: TableId, row: u32, strength: LockStrength) -> Result<(), Stop> {
        self.claim(|| Claim::row(table, row, strength))?;
        match self.stays_open() {
            true => self.check_pins(table, row, strength),
            false => Ok(()),
        }
    }

    /// Stops if a prepared transaction will change the row without holding a claim on it (S14).
    fn check_pins(&self, table: TableId, row: u32, strength: LockStrength) -> Result<(), Stop> {
        match self.fragment.storage.pin_conflicts(table, row, strength) {
            true => Err(Stop::Pinned { table, row }),
            false => Ok(()),
        }
    }

    /// Holds a row that is about to be updated.
    pub(super) fn hold_row(&mut self, table: TableId, row: u32, hold: Hold) -> Result<(), Stop> {
        self.wait_to_write(table)?;
        match hold {
            Hold::Locks => self.lock_row(table, row),
            Hold::Merges if !self.holds_rows() => Ok(()),
            // An amount can be added up with others' only if it is known: else the row is claimed.
            Hold::Claims | Hold::Escrow | Hold::Merges => {
                self.claim_row(table, row, LockStrength::NoKeyUpdate)
            }
        }
    }

    /// Locks a row against every writer, until the commit of a prepared run. It waits for transactions that have prepared a write of the
    /// row without a claim, and others respect its claim while it is prepared ([`Ran::locks_rows`](crate::exec::call::Ran)).
    fn lock_row(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        self.claim_row(table, row, LockStrength::NoKeyUpdate)?;
        if self.fragment.bugs.locks_by_claims() {
            return Ok(());
        }
        self.ran.locks_rows |= self.fragment.role.is_prepared();
        self.check_pins(table, row, LockStrength::NoKeyUpdate)
    }

    /// Returns whether other shards run other parts of the call.
    fn has_other_parts(&self) -> bool {
        matches!(self.fragment.role, Role::Part | Role::Vote | Role::Last(_))
    }

    /// Holds what one part of a call has found of a row's existence, until the outcome. Without it two calls that write the same rows on two
    /// shards could run in one order here and in the other there: one that inserts two rows and one that deletes them would leave one row.
    fn hold_existence(&mut self, claim: impl FnOnce() -> Claim) -> Result<(), Stop> {
        if !self.has_other_parts() || self.fragment.bugs.forgets_existence() {
            return Ok(());
        }
        // Others claim the rows that they write as long as this part is prepared.
        self.ran.locks_rows |= self.fragment.role.is_prepared();
        self.claim(claim)
    }

    /// Holds a row that is about to go.
    pub(super) fn hold_going(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        self.hold_existence(|| Claim::row(table, row, LockStrength::Update))
    }

    /// Holds a row that is there, so that nothing is inserted.
    pub(super) fn hold_existing(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        self.hold_existence(|| Claim::row(table, row, LockStrength::KeyShare))
    }

    /// Waits for prepared transactions that have inserted rows which were looked for by unique keys, or have changed them so that they fit: they
    /// may have committed elsewhere, and their clients may ask for the rows. `found`: the rows that fit now.
    pub(super) fn wait_for_absent(&mut self, access: &TableAccess, found: &[u32]) -> Result<(), Stop> {
        if self.fragment.claims.is_empty() {
            return Ok(());
        }
        for (index, key) in self.with_cx(|cx| access.unique_keys(cx))? {
            let row = self.fragment.storage.get(access.table, index, &key).map(|row| row.row);
            if row.is_some_and(|row| found.contains(&row)) {
                continue;
            }
            self.wait_for_prepared_key(access.table, index, &key)?;
            if let Some(row) = row {
                let row = Claim::row(access.table, row, LockStrength::Update);
                self.wait_for_those_prepared(self.claims_against(&row))?;
            }
        }
        Ok(())
    }

    /// The same of an access that may find several rows.
    pub(super) fn wait_for_absent_of_list(
        &mut self,
        access: &TableAccess,
        found: impl Iterator<Item = u32>,
    ) -> Result<(), Stop> {
        match self.fragment.claims.is_empty() {
            true => Ok(()),
            false => self.wait_for_absent(access, &found.collect::<Vec<u32>>()),
        }
    }

    /// Waits for a prepared transaction that deletes the row or changes its key: it may have committed elsewhere.
    pub(in crate::exec) fn wait_for_prepared_removal(&self, table: TableId, row: u32) -> Result<(), Stop> {
        match self.fragment.claims.is_empty() {
            true => Ok(()),
            false => {
                let claim = Claim::row(table, row, LockStrength::KeyShare);
                self.wait_for_those_prepared(self.claims_against(&claim))
            }
        }
    }

    /// Waits for those of the transactions that are prepared; no run waits here for one that is open.
    fn wait_for_those_prepared(&self, mut holders: Holders) -> Result<(), Stop> {
        if !holders.is_empty() {
            let mut prepared = Holders::new();
            (self.fragment.prepared)(&mut |txn, _| prepared.push(txn));
            holders.retain(|holder| prepared.contains(holder));
        }
        self.wait_for_prepared(holders)
    }

    /// Holds the unique key under which a row was looked for and is not there.
    pub(super) fn hold_absent(&mut self, access: &TableAccess) -> Result<(), Stop> {
        if !self.has_other_parts() {
            return Ok(());
        }
        match self.with_cx(|cx| access.unique_key(cx))? {
            Some((index, key)) => self.hold_existence(|| Claim::Key(access.table, index, key)),
            None => Ok(()),
        }
    }

    /// Claims the current keys of a row that is about to change them. As in PostgreSQL, an assigned but unchanged key is not a change.
    pub(super) fn claim_keys_of_row(
        &mut self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<(), Stop> {
        if !self.holds_rows() {
            return Ok(());
        }
        let (schema, storage) = (self.fragment.program.schema.table(table), &self.fragment.storage);
        let old = |column| storage.value(table, RowRef { shard: 0, row }, column);
        let is_new = |(column, value): &(ColumnIndex, Value)| {
            schema.in_keys[*column] && !weir_types::compare::equal(&old(*column), value)
        };
        match changes.iter().any(is_new) {
            true => self.claim_row(table, row, LockStrength::Update),
            false => Ok(()),
        }
    }

    /// Locks the rows that queries have requested. In procedures outside of interactive transactions the plan decides about locks.
    pub(in crate::exec) fn claim_wanted(&mut self) -> Result<(), Stop> {
        match self.fragment.environment.take_wanted() {
            Some(wanted) => self.claim_all(wanted),
            None => Ok(()),
        }
    }

    pub(in crate::exec) fn claim_all(
        &mut self,
        wanted: Vec<(TableId, u32, LockStrength)>,
    ) -> Result<(), Stop> {
        let is_held = self.procedure.by_itself || self.holds_rows();
        if !is_held || self.fragment.bugs.forgets_for_update() {
            return Ok(());
        }
        wanted.into_iter().try_for_each(|(table, row, strength)| {
            let shares = self.fragment.bugs.shares_rows() && strength < LockStrength::Update;
            self.claim_row(table, row, if shares { LockStrength::KeyShare } else { strength })
        })
    }

    /// Claims the unique keys of a row that is about to be inserted.
    pub(super) fn claim_keys(&mut self, table: TableId, values: &[Value]) -> Result<(), Stop> {
        if self.keys_claimed >= KEYS_CLAIMED_MAX && !self.others_hold_keys() {
            return Ok(());
        }
        let claims = self.keys_where(table, &|_| true, &|column| values[column].clone());
        claims.into_iter().try_for_each(|claim| self.claim(|| claim))
    }

    /// Claims the new unique keys of a row that is about to change them.
    pub(super) fn claim_changed_keys(
        &mut self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<(), Stop> {
        let is_changed = |schema: &IndexSchema| {
            let changed = |column| changes.iter().any(|(changed, _)| *changed == column);
            schema.columns.iter().any(|column| column.column.is_some_and(changed))
        };
        let storage = &self.fragment.storage;
        let new = |column| match changes.iter().find(|(changed, _)| *changed == column) {
            Some((_, value)) => value.clone(),
            None => storage.value(table, RowRef { shard: 0, row }, column),
        };
        let claims = self.keys_where(table, &is_changed, &new);
        claims.into_iter().try_for_each(|claim| self.claim(|| claim))
    }

    /// Waits for transactions that are about to delete the row or to change its key: the key is undetermined until they end.
    pub(super) fn wait_for_key(&self, table: TableId, row: u32) -> Result<(), Stop> {
        if self.fragment.claims.is_empty() || self.fragment.bugs.no_guards() {
            return Ok(());
        }
        let holders = self.claims_against(&Claim::row(table, row, LockStrength::KeyShare));
        if holders.is_empty() { Ok(()) } else { Err(Stop::Held(holders)) }
    }

    /// Waits for a prepared transaction that is about to insert the key: it may have committed elsewhere. Nobody waits for one that is open.
    pub(in crate::exec) fn wait_for_prepared_key(
        &self,
        table: TableId,
        index: IndexId,
        key: &KeyBytes,
    ) -> Result<(), Stop> {
        let bugs = &self.fragment.bugs;
        if self.fragment.claims.is_empty() || bugs.no_guards() || bugs.misses_prepared_parents() {
            return Ok(());
        }
        // A worker has looked at an earlier state: who has committed since then holds no claim any more.
        self.settle(table)?;
        self.wait_for_those_prepared(self.claims_against(&Claim::Key(table, index, key.clone())))
    }

    /// Waits for these prepared transactions, not because of a claim of its own.
    pub(super) fn wait_for_prepared(&self, holders: Holders) -> Result<(), Stop> {
        if holders.is_empty() {
            return Ok(());
        }
        if let Some(worker) = self.fragment.claims.worker() {
            worker.take_met();
        }
        Err(Stop::Held(holders))
    }

    /// Waits likewise for any row with a unique key that a row with these values would have.
    pub(super) fn wait_for_keys(
        &self,
        table: TableId,
        value: &dyn Fn(ColumnIndex) -> Value,
    ) -> Result<(), Stop> {
        let indexes = self.fragment.program.schema.table(table).indexes.iter().enumerate();
        for (index, schema) in indexes.filter(|(_, schema)| schema.unique) {
            let storage = &self.fragment.storage;
            let Some(key) = key_of(schema, value) else { continue };
            let found = storage.with_committed(|base| base.get(table, index, &key));
            self.note_read(table, || Interval::Key(index, key));
            if let Some(found) = found {
                self.wait_for_key(table, found.row)?;
            }
        }
        Ok(())
    }

    /// Returns whether another transaction holds any key. Nobody takes one during a run, so that it is looked up once.
    fn others_hold_keys(&mut self) -> bool {
        let Fragment { claims, loading, txn, .. } = &self.fragment;
        *self.others_hold_keys.get_or_insert_with(|| !loading.is_empty() || claims.others_hold_keys(*txn))
    }

    fn nobody_holds(&self) -> bool {
        self.fragment.claims.is_empty() && self.fragment.loading.is_empty()
    }

    fn keys_where(
        &self,
        table: TableId,
        is_meant: &dyn Fn(&IndexSchema) -> bool,
        value: &dyn Fn(ColumnIndex) -> Value,
    ) -> SmallVec<[Claim; 2]> {
        let holds = self.stays_open()
            || self.fragment.keep_writes && !matches!(self.fragment.role, Role::Last(_) | Role::InOrder);
        if !holds && self.nobody_holds() {
            return SmallVec::new();
        }
        let indexes = self.fragment.program.schema.table(table).indexes.iter().enumerate();
        let meant = indexes.filter(|(_, schema)| schema.unique && is_meant(schema));
        meant.filter_map(|(index, schema)| Some(Claim::Key(table, index, key_of(schema, value)?))).collect()
    }

    /// Stops if the table is reserved for another call.
    fn leave_reserved(&self, table: Option<TableId>) -> Result<(), Stop> {
        match self.fragment.reserved {
            Some(reserved) if table == Some(reserved.table) => Err(Stop::Held(smallvec![reserved.txn])),
            _ => Ok(()),
        }
    }

    pub(super) fn claim(&mut self, claim: impl FnOnce() -> Claim) -> Result<(), Stop> {
        if self.fragment.bugs.no_guards() {
            return Ok(());
        }
        // Only a part that waits for its COMMIT keeps claims; other runs end before the next request.
        let holds = self.fragment.role.is_prepared() || self.fragment.open.is_some();
        if !holds && self.nobody_holds() {
            return Ok(());
        }
        let claim = claim();
        let against = self.claims_against(&claim);
        if !against.is_empty() {
            self.stopped_at = claim.table();
            self.met = Some(claim);
            return Err(Stop::Held(against));
        }
        let worker = self.fragment.claims.worker();
        if holds || worker.is_some() {
            self.leave_reserved(claim.table())?;
        }
        if let Some(worker) = worker {
            return worker.claim(claim);
        }
        if let Claim::Key(table, index, key) = &claim {
            if !self.fragment.loading.is_empty() {
                self.wait_for_loading(*table, *index, key)?;
            }
            if self.fragment.open.is_some() {
                self.keys_claimed += 1;
                if self.keys_claimed > KEYS_CLAIMED_MAX {
                    // Other inserters find the key in the write set.
                    return Ok(());
                }
            }
        }
        // Other duplicates are harmless, and a run of many rows must not search all claims for each row.
        let recent = &self.ran.claims[self.ran.claims.len().saturating_sub(CLAIMS_LOOKED_THROUGH)..];
        if holds && (matches!(claim, Claim::Amount(..)) || !recent.contains(&claim)) {
            self.ran.claims.push(claim);
        }
        Ok(())
    }
}

impl<F: Faults> Run<'_, F> {
    /// Waits for a transaction that has inserted the key without claiming it.
    #[cold]
    fn wait_for_loading(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Result<(), Stop> {
        self.fragment.storage.with_committed(|base| {
            let has = |(_, own): &&(TxnId, &WriteSet)| own.takes_key(base, table, index, key);
            match self.fragment.loading.iter().find(has) {
                Some((holder, _)) => Err(Stop::Held(smallvec![*holder])),
                None => Ok(()),
            }
        })
    }
}

const CLAIMS_LOOKED_THROUGH: usize = 64;

/// Key of the row in an index; `None` if a NULL exempts it from uniqueness.
pub(in crate::exec) fn key_of(
    schema: &IndexSchema,
    value: &dyn Fn(ColumnIndex) -> Value,
) -> Option<KeyBytes> {
    let mut key = KeyBytes::new();
    for column in &schema.columns {
        let value = value(column.column?);
        if value.is_null() && !schema.nulls_not_distinct {
            return None;
        }
        push_key(&mut key, &value, column);
    }
    Some(key)
}
