//! Reads at a shard: round one, round two at a position (S5), and the reads of open transactions and snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_core::ids::{Position, TxnId};
use weir_core::lsn::Lsn;
use weir_core::participant::Transactions as _;
use weir_types::SqlError;
use weir_types::interrupt::{StatementId, Watch};

use super::open::Open;
use super::snapshot::{Missing, too_old};
use super::workers::Answer;
use crate::claims::Claim;
use crate::exec::fetch::{Found, fetch};
use crate::exec::gather::TakeRow;
use crate::exec::gather::by_key::{as_if_held, mark_held};
use crate::exec::program::Program;
use crate::faults::Faults;
use crate::message::{PartsRead, ReadQuery, Reply, Sibling, forgotten, schema_has_changed};
use crate::shard::node::{Effects, Node};
use crate::storage::layout::Packed;
use crate::storage::moment::Changed;
use crate::storage::{MergedRows, Rows, Undone};
use crate::stream::Row;

/// Look-ups have no name, and cannot be interrupted.
const LOOK_UP: StatementId = (0, 0, 0);

impl<F: Faults> Node<F> {
    /// Runs a query of committed rows at once, without a message, if this shard is the only one of its cluster and nothing stands in the
    /// way. So the answer is that of one moment, and no other shard is to be asked. Returns the rows, and the last record that they depend
    /// on. None: the query must be sent as a request, which waits, is long, or fails, as the case may be.
    pub fn look_up(
        &mut self,
        schema_version: u64,
        query: impl FnOnce(&Program, &dyn Rows) -> Result<Vec<Row>, SqlError>,
    ) -> Option<(Vec<Row>, Lsn)> {
        let is_free = self.barrier.is_none() && self.in_doubt.is_empty() && !self.is_cutting();
        if self.program.shards != 1 || !is_free || self.check_schema_version(schema_version).is_err() {
            return None;
        }
        self.storage.begin_step();
        let watch = self.interrupts.watch_within(LOOK_UP, self.workers.budget());
        let rows = query(&self.program, &*self.storage);
        match watch.has_spent_its_budget() {
            true => None,
            false => Some((rows.ok()?, self.read_dependency())),
        }
    }

    /// Returns whether the reader is registered under that session; if not, replies with the session to begin again with.
    pub(crate) fn knows_reader(&mut self, read: TxnId, session: u64, out: &mut Effects) -> bool {
        let is_known = self.participant.readers.begin_read(read.coordinator, session);
        if !is_known {
            self.read_again(read, out);
        }
        is_known
    }

    /// Returns whether the open transaction's writes are here; if not, replies that the transaction is over.
    fn knows_open(&mut self, within: Option<(TxnId, u64)>, out: &mut Effects) -> bool {
        let Some((txn, _)) = within.filter(|(txn, opened)| !self.has_open(*txn, *opened)) else {
            return true;
        };
        let of = &self.participant;
        let has_committed = of.outcomes.get(txn).is_some_and(|outcome| outcome.clock.is_some());
        if of.prepared().contains_key(&txn) || has_committed {
            // A late read, which the end of the transaction does not wait for.
            return false;
        }
        self.reply(txn, Reply::Refused { txn, shard: self.shard, error: forgotten() }, out);
        false
    }

    pub(crate) fn read_again(&mut self, read: TxnId, out: &mut Effects) {
        let session = self.participant.readers.register(read.coordinator);
        // A restarted shard knows no readers, so this reply depends on no log record.
        let reply = Reply::ReadAgain { read, shard: self.shard, session };
        out.reply(read.coordinator, reply, Lsn::START);
    }

    pub(crate) fn on_read(
        &mut self,
        (read, within): (TxnId, Option<(TxnId, u64)>),
        session: u64,
        query: &Arc<ReadQuery>,
        out: &mut Effects,
    ) {
        if !self.knows_reader(read, session, out) || !self.knows_open(within, out) {
            return;
        }
        if self.is_late_read((read, 1), query, out) {
            return;
        }
        let position = self.storage.position();
        let undecided = self.participant.oldest_prepare().unwrap_or(position);
        let fetched = match self.fetch_within(within, query, false) {
            Ok(fetched) => fetched,
            Err(error) => return self.refuse_read(read, error, out),
        };
        // A repeated read may be answered at a later position, but the reader may use the position of the first answer.
        self.readers.entry(read).or_insert(position.min(undecided));
        let siblings = if self.bugs.no_siblings() { Vec::new() } else { self.siblings() };
        let (rows, examined) = match fetched {
            Fetched::Rows(found) => self.with_held_keys(read, query, found),
            // The step was short of time: all shards are asked instead.
            Fetched::Long(_) if query.reads_entries() => (as_if_held(query), 0),
            Fetched::Long(changed) => {
                let answer =
                    Answer { read, round: 1, position, siblings, after: self.noted(), is_streamed: false };
                return self.read_beside(answer, changed, within, query, out);
            }
        };
        // Other shards may be asked for the siblings, so their records must be durable before the reply.
        let defines = self.open_of(within).is_some_and(Open::defines);
        let is_from_rows = siblings.is_empty() && !defines;
        let reply = Reply::ReadRows { read, shard: self.shard, round: 1, position, rows, examined, siblings };
        match is_from_rows {
            true => self.reply_from_rows(read, reply, out),
            false => self.reply(read, reply, out),
        }
    }

    /// The answer to a read, in which entries are marked whose keys a transaction holds. It may be prepared here, and committed and
    /// acknowledged at another shard: then neither an entry nor its absence says where the row is.
    fn with_held_keys(&self, read: TxnId, query: &ReadQuery, mut found: Found) -> Found {
        if query.reads_entries() && !self.bugs.trusts_held_keys() {
            let is_held = |claim: &Claim| !self.claims.against(claim, read).is_empty();
            mark_held(query, &self.program.schema, &is_held, &mut found.0);
        }
        found
    }

    /// S5: replies with exactly the state at `position` plus the named transactions; those that are not committed here yet are committed
    /// first.
    pub(crate) fn on_read_at(
        &mut self,
        (read, within): (TxnId, Option<(TxnId, u64)>),
        session: u64,
        query: &Arc<ReadQuery>,
        position: Position,
        including: Vec<Sibling>,
        out: &mut Effects,
    ) {
        if !self.knows_reader(read, session, out) || !self.knows_open(within, out) {
            return;
        }
        let reachable = self.storage.history_begins()..=self.storage.position();
        if !self.readers.contains_key(&read) || !reachable.contains(&position) {
            return self.read_again(read, out);
        }
        if self.is_late_read((read, 2), query, out) {
            return;
        }
        if self.workers.has_outgrown(read) {
            return self.refuse_read(read, too_old(), out);
        }
        let missing = self.commit_missing(position, including);
        if !self.readers.contains_key(&read) {
            // One of the named transactions has changed the schema.
            return self.refuse_read(read, schema_has_changed(), out);
        }
        let Some(missing) = missing else { return self.read_again(read, out) };
        let (rows, examined) = match self.fetch_at(position, &missing, within, query) {
            Ok(Fetched::Rows(found)) => found,
            Ok(Fetched::Long(changed)) => {
                let answer = Answer {
                    read,
                    round: 2,
                    position,
                    siblings: Vec::new(),
                    after: self.noted(),
                    is_streamed: false,
                };
                return self.read_beside(answer, changed, within, query, out);
            }
            Err(error) => return self.refuse_read(read, error, out),
        };
        let (shard, siblings) = (self.shard, Vec::new());
        let reply = Reply::ReadRows { read, shard, round: 2, position, rows, examined, siblings };
        self.reply(read, reply, out);
    }

    /// Rows of the state at `position` plus the missing transactions. The cost is proportional to the changes since `position`, which are
    /// undone and redone.
    pub(crate) fn fetch_at(
        &mut self,
        position: Position,
        missing: &[Missing],
        within: Option<(TxnId, u64)>,
        query: &ReadQuery,
    ) -> Result<Fetched, SqlError> {
        let undone = self.storage.rewind(position);
        for Missing { writes, timestamp, prepared_at } in missing {
            self.replay_writes(writes, *timestamp, (*prepared_at).min(position));
        }
        let mut fetched = self.fetch_within(within, query, true);
        if let Ok(Fetched::Long(changed)) = &mut fetched {
            let added = self.storage.changed_since(position);
            let rows: BTreeSet<_> = undone.iter().map(Undone::row).chain(added).collect();
            let own = self.open_of(within).map(|open| &open.own);
            let is_own = |table, row| own.is_some_and(|own| own.has(table, row));
            for (table, row) in rows.into_iter().filter(|(table, row)| !is_own(*table, *row)) {
                let was = self.storage.packed(table, row).map(Packed::from);
                changed.remember(&self.storage, table, row, was);
            }
        }
        self.storage.rollback(position);
        self.storage.replay(undone);
        fetched
    }

    /// The open transaction to which a read belongs.
    pub(crate) fn open_of(&self, within: Option<(TxnId, u64)>) -> Option<&Open> {
        within.and_then(|(txn, _)| self.open.get(&txn))
    }

    /// Runs a query, with the uncommitted writes of the open transaction that it belongs to, if any. `is_earlier`: the tables have been
    /// set back to an earlier position.
    pub(crate) fn fetch_within(
        &mut self,
        within: Option<(TxnId, u64)>,
        query: &ReadQuery,
        is_earlier: bool,
    ) -> Result<Fetched, SqlError> {
        let of = match within {
            None if self.bugs.shows_uncommitted() => self.open.keys().next().copied(),
            of => of.map(|(txn, _)| txn),
        };
        let Some(mut open) = of.and_then(|txn| self.open.remove(&txn)) else {
            let watch = self.interrupts.watch_within(self.statement, self.workers.budget());
            self.check_schema_version(query.schema_version)?;
            return Fetched::of(read_rows(&self.program, &*self.storage, query), &watch);
        };
        // A worker knows only the schema that all see.
        let budget = self.workers.budget().filter(|_| !open.defines());
        let reindexed = is_earlier.then(|| open.own.reindexed());
        self.put_versions(&mut open);
        let fetched = {
            let watch = self.interrupts.watch_within(self.statement, budget);
            let rows = MergedRows { base: &self.storage, own: reindexed.as_ref().unwrap_or(&open.own) };
            let checked = self.check_schema_version(query.schema_version);
            let found = checked.and_then(|()| read_rows(&self.program, &rows, query));
            Fetched::of(found, &watch)
        };
        self.take_versions(&mut open);
        self.open.extend(of.map(|txn| (txn, open)));
        fetched
    }

    pub(crate) fn refuse_read(&mut self, read: TxnId, error: SqlError, out: &mut Effects) {
        self.reply(read, Reply::Refused { txn: read, shard: self.shard, error }, out);
    }
}

/// Outcome of a read within a step.
pub(crate) enum Fetched {
    Rows(Found),
    /// It has spent its budget, and is to be run by a worker. Rows that differ between now and the position that is read, as they were then.
    Long(Changed),
}

impl Fetched {
    fn of(found: Result<Found, SqlError>, watch: &Watch) -> Result<Fetched, SqlError> {
        match watch.has_spent_its_budget() {
            true => Ok(Fetched::Long(Changed::default())),
            false => found.map(Fetched::Rows),
        }
    }
}

/// Runs a read on the rows that it sees.
///
/// # Errors
/// The query's, or the interruption's.
pub(crate) fn read_rows(program: &Program, rows: &dyn Rows, query: &ReadQuery) -> Result<Found, SqlError> {
    let Some(PartsRead { text, parts, values, transaction_time, .. }) = query.parts.as_deref() else {
        return fetch(rows, query);
    };
    let gather = program.query(text).map_err(|wrong| wrong.error)?;
    let run = |&part: &u16| gather.run_part(part, values, rows, (program, *transaction_time)).transpose();
    let parts: Vec<_> = parts.iter().filter_map(|part| run(part).transpose()).collect::<Result<_, _>>()?;
    let count = parts.iter().map(Vec::len).sum();
    Ok((parts, count))
}

/// Runs the only part of a read, and gives its rows to `take`. Returns no rows, and their number.
///
/// # Errors
/// Those of [`read_rows`], and those of `take`.
pub(crate) fn read_rows_into(
    program: &Program,
    rows: &dyn Rows,
    of: &PartsRead,
    take: &mut TakeRow<'_>,
) -> Result<Found, SqlError> {
    let gather = program.query(&of.text).map_err(|wrong| wrong.error)?;
    let mut count = 0;
    for &part in &of.parts {
        let run = gather.run_part_into(part, &of.values, rows, (program, of.transaction_time), &mut |row| {
            count += 1;
            take(row)
        });
        run.transpose()?;
    }
    Ok((vec![Vec::new(); of.parts.len()], count))
}
