//! A worker's run shares the tables, as of its moment, the claims and the sequences with the steps of its shard
//! (docs/internals/steps.md, "Calls and statements that write").
//!
//! Others' requests are handled while it runs. So it claims what it uses as it goes, and each claim is checked against what others have
//! changed since the moment. If something has changed that it would have to see, it is *stale*: it runs again, at a later moment.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::RwLock;
use smallvec::smallvec;
use weir_core::ids::TxnId;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::call::Stop;
use super::sequences::Sequences;
use crate::claims::{Claim, Claims, Holders};
use crate::storage::moment::Moment;

/// Number of single claims that a run takes of one table; then it claims the table.
const CLAIMS_OF_TABLE_MAX: usize = 1_024;

/// The state that a worker's run shares with its shard. Invariant: the locks of claims and sequences are taken only while the moment holds the storage's lock, and for one look-up or change at
/// a time. So they are free whenever the shard takes a turn.
pub struct Worker {
    moment: Rc<Moment>,
    claims: Arc<RwLock<Claims>>,
    sequences: Arc<RwLock<Sequences>>,
    txn: TxnId,
    /// Claims that it has taken, its tables included, each once.
    taken: RefCell<Vec<Claim>>,
    /// The claim for which the request had waited, until the run asks for one of the same table.
    handed: RefCell<Option<Claim>>,
    /// Tables that it has claimed.
    tables: RefCell<Vec<TableId>>,
    /// By table: number of single claims that it has taken.
    counts: RefCell<Vec<(TableId, usize)>>,
    /// The last claim that others' were in conflict with.
    met: RefCell<Option<Claim>>,
    /// A table that others have changed since the moment and that the run uses.
    stale: Cell<Option<TableId>>,
    /// Deliberate bug: it takes what has changed for unchanged.
    trusts_moment: bool,
}

/// The claims of a shard: held by the step that runs the call, or shared with the worker that runs it.
#[derive(Clone, Copy, Debug)]
pub enum ClaimsOf<'a> {
    Step(&'a Claims),
    Worker(&'a Worker),
}

impl<'a> ClaimsOf<'a> {
    pub fn worker(self) -> Option<&'a Worker> {
        match self {
            ClaimsOf::Step(_) => None,
            ClaimsOf::Worker(worker) => Some(worker),
        }
    }

    /// Returns whether nobody holds anything; never known of a worker, beside which others take claims.
    pub fn is_empty(self) -> bool {
        matches!(self, ClaimsOf::Step(claims) if claims.is_empty())
    }

    /// Returns whether another transaction may hold a key.
    pub fn others_hold_keys(self, txn: TxnId) -> bool {
        match self {
            ClaimsOf::Step(claims) => claims.others_hold_keys(txn),
            ClaimsOf::Worker(_) => true,
        }
    }

    /// Other transactions whose claims conflict with `claim`.
    pub fn against(self, claim: &Claim, txn: TxnId) -> Holders {
        match self {
            ClaimsOf::Step(claims) => claims.against(claim, txn),
            ClaimsOf::Worker(worker) => worker.against(claim),
        }
    }
}

/// State at the start of a run.
pub struct Start {
    pub claims: Arc<RwLock<Claims>>,
    pub sequences: Arc<RwLock<Sequences>>,
    pub txn: TxnId,
    /// Tables that its transaction has claimed already.
    pub tables: Vec<TableId>,
    /// The claims of those that were taken for this run.
    pub taken: Vec<Claim>,
    /// The claim for which the request had waited.
    pub handed: Option<Claim>,
    pub trusts_moment: bool,
}

impl Worker {
    pub fn new(moment: Rc<Moment>, start: Start) -> Worker {
        let Start { claims, sequences, txn, tables, taken, handed, trusts_moment } = start;
        Worker {
            moment,
            claims,
            sequences,
            txn,
            taken: RefCell::new(taken),
            handed: RefCell::new(handed),
            tables: RefCell::new(tables),
            counts: RefCell::default(),
            met: RefCell::default(),
            stale: Cell::new(None),
            trusts_moment,
        }
    }

    pub fn moment(&self) -> &Moment {
        &self.moment
    }

    /// The claims that it has taken.
    pub fn take_claims(&self) -> Vec<Claim> {
        self.taken.take()
    }

    /// The claim for which the request had waited, if the run has not needed it: it has claimed nothing of the table.
    pub fn take_unused(&self) -> Option<Claim> {
        self.handed.take()
    }

    fn uses(&self, table: TableId) {
        let is_of_table = |claim: &mut Claim| claim.table() == Some(table);
        let used = self.handed.borrow_mut().take_if(is_of_table);
        self.taken.borrow_mut().extend(used);
    }

    /// The table because of which it is stale; its result is void.
    pub fn stale(&self) -> Option<TableId> {
        self.stale.get()
    }

    /// Other transactions whose claims conflict with `claim`.
    pub fn against(&self, claim: &Claim) -> Holders {
        self.holders(&self.claims.read(), claim)
    }

    fn holders(&self, claims: &Claims, claim: &Claim) -> Holders {
        let holders = claims.against(claim, self.txn);
        if !holders.is_empty() {
            *self.met.borrow_mut() = Some(claim.clone());
        }
        holders
    }

    /// The last claim that others' were in conflict with: if the run has stopped for holders, because of this one.
    pub fn take_met(&self) -> Option<Claim> {
        self.met.take()
    }

    /// Claims a table that it is about to write.
    ///
    /// # Errors
    /// The holder of the table; or the run is stale: others have changed the table since the moment.
    pub fn claim_table(&self, table: TableId) -> Result<(), Stop> {
        self.settle(table)?;
        self.uses(table);
        if self.tables.borrow().contains(&table) {
            return Ok(());
        }
        let mut claims = self.claims.write();
        let holders = self.holders(&claims, &Claim::Table(table));
        if !holders.is_empty() {
            return Err(Stop::Held(holders));
        }
        claims.take(&Claim::Table(table), self.txn);
        self.taken.borrow_mut().push(Claim::Table(table));
        self.tables.borrow_mut().push(table);
        Ok(())
    }

    /// Checks that no other transaction has claimed a table of which rows are to be held, and then written.
    ///
    /// # Errors
    /// The holder: the run waits for the table, not for one row of it after the other.
    pub fn wait_for_table(&self, table: TableId) -> Result<(), Stop> {
        let Some(holder) = self.claims.read().holder_of_table(table, self.txn) else { return Ok(()) };
        *self.met.borrow_mut() = Some(Claim::Table(table));
        Err(Stop::Held(smallvec![holder]))
    }

    /// Takes a claim that no other transaction's is in conflict with.
    ///
    /// # Errors
    /// See [`Worker::claim_table`]; for a row: others have changed it since the moment.
    pub fn claim(&self, claim: Claim) -> Result<(), Stop> {
        let Some(table) = claim.table() else { return Ok(()) };
        let has_changed = match claim {
            Claim::Row(_, row) | Claim::WeakRow(_, row, _) | Claim::Amount(_, row, ..) => {
                self.moment.has_changed_row(table, row)
            }
            Claim::Key(..) | Claim::Table(_) | Claim::Advisory(_) | Claim::Interval(..) => {
                self.moment.has_changed(table)
            }
        };
        if has_changed && !self.trusts_moment {
            return Err(self.becomes_stale(table));
        }
        self.uses(table);
        if self.tables.borrow().contains(&table) {
            return Ok(());
        }
        if self.count(table) > CLAIMS_OF_TABLE_MAX {
            return self.claim_table(table);
        }
        if self.claims.write().take(&claim, self.txn) {
            self.taken.borrow_mut().push(claim);
        }
        Ok(())
    }

    fn count(&self, table: TableId) -> usize {
        let mut counts = self.counts.borrow_mut();
        match counts.iter_mut().find(|(of, _)| *of == table) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                counts.push((table, 1));
                1
            }
        }
    }

    /// Checks that nobody has changed the table since the moment.
    ///
    /// # Errors
    /// The run is stale.
    pub fn settle(&self, table: TableId) -> Result<(), Stop> {
        match self.moment.has_changed(table) && !self.trusts_moment {
            true => Err(self.becomes_stale(table)),
            false => Ok(()),
        }
    }

    #[cold]
    fn becomes_stale(&self, table: TableId) -> Stop {
        let message = "others have changed what a long statement has read";
        let error = SqlError::new(SqlState::SERIALIZATION_FAILURE, message);
        self.stale.set(Some(table));
        // No handler of an exception goes on with it.
        self.moment.end(error.clone());
        Stop::Error(error)
    }

    /// Calls `f` with the sequences of the shard.
    pub fn with_sequences<R>(&self, f: impl FnOnce(&mut Sequences) -> R) -> R {
        f(&mut self.sequences.write())
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("txn", &self.txn).field("taken", &self.taken).finish_non_exhaustive()
    }
}
