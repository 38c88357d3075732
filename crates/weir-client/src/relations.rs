//! Rows over the items of a cluster: with indexes, foreign keys and views that are always as the rows say (docs/internals/items.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_core::ids::CoordinatorId;
use weir_core::machine::{Coordinator as _, Orders};
use weir_kv::faults::NoFaults;
use weir_kv::relations::{Order, Relation, Relations as Coordinator, Schema, Told};
use weir_kv::{GivenUp, Options, Partition, Request};
use weir_net::ClusterFile;
use weir_types::{SqlError, SqlState};

use crate::carrier::{new_id, now_ms};
use crate::pending::Outcome;
use crate::requests::{Dialect, Session};
use crate::{Bytes, Error, Key, Settings, Stamp, too_large};

/// After a conflict a single change waits so long: its row is free once readers have gone on.
const CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// Operation of an application on rows.
pub(crate) enum Wish {
    Order(Order),
    RollBack,
}

pub(crate) struct Rows {
    coordinator: Coordinator,
    schema: Arc<Schema>,
    options: Options,
}

impl Rows {
    fn new(id: CoordinatorId, schema: Arc<Schema>, options: Options) -> Rows {
        let items = weir_kv::Coordinator::new(id, 0, options);
        let coordinator = Coordinator::new(items, schema.clone(), NoFaults);
        Rows { coordinator, schema, options }
    }
}

impl Dialect for Rows {
    type Shard = Partition;
    type Coordinator = Coordinator;
    type Wish = Wish;
    type Outcome = Told;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    fn begin_anew(&mut self, id: CoordinatorId) {
        *self = Rows::new(id, self.schema.clone(), self.options);
    }

    fn grant(
        &mut self,
        tag: u64,
        wish: Wish,
        orders: &mut Orders<Request, Told>,
    ) -> Option<Result<Told, Error>> {
        match wish {
            Wish::Order(order) => {
                self.coordinator.begin(now_ms(), tag, order, orders);
                None
            }
            Wish::RollBack => {
                self.coordinator.roll_back(tag);
                Some(Ok(Told::Committed(None)))
            }
        }
    }

    fn outcome(&mut self, _tag: u64, told: Told) -> Outcome<Told> {
        let refused = |state, message: &str, hint: &str| {
            Err(Error::Sql(SqlError::new(state, message).with_hint(hint.to_owned())))
        };
        Outcome::Known(match told {
            Told::Conflict | Told::Aborted => Err(Error::Aborted),
            Told::Restart => Err(Error::Restart),
            Told::NoParent => refused(
                SqlState::FOREIGN_KEY_VIOLATION,
                "the row's parent is not there",
                "put the parent first, in this transaction or an earlier one",
            ),
            Told::Unknown => refused(
                SqlState::UNDEFINED_TABLE,
                "there is no relation, index or view of that name",
                "the schema that the client was given has the names",
            ),
            told => Ok(told),
        })
    }

    fn give_up(&mut self, tag: u64, _: &mut Orders<Request, Told>) -> GivenUp {
        self.coordinator.give_up(tag)
    }
}

/// Rows of a cluster that carries items. All clients that write rows must have been given the same schema: it says which
/// entries and sums belong to a row.
pub struct Relations {
    session: Session<Rows>,
    schema: Arc<Schema>,
    deadline: Duration,
}

impl Relations {
    pub(crate) fn open(
        cluster: &ClusterFile,
        schema: Schema,
        settings: &Settings,
    ) -> Result<Relations, Error> {
        if cluster.application.is_some() {
            return Err(Error::Unfit(
                "the cluster carries an application, not items: its tables are declared in SQL".into(),
            ));
        }
        let id = new_id().map_err(|error| Error::Closed(error.to_string()))?;
        let schema = Arc::new(schema);
        let rows = Rows::new(id, schema.clone(), crate::items::options(cluster, false));
        let session = Session::begin(cluster, cluster.terms(), rows, settings, Vec::new())?;
        Ok(Relations { session, schema, deadline: settings.deadline })
    }

    /// Begins a transaction: all that it reads is of one state, its own changes included, and these become visible
    /// together at the commit.
    pub fn begin(&self) -> RowTransaction<'_> {
        let tag = self.session.new_tag();
        RowTransaction { relations: self, tag, bytes: 0, is_open: true }
    }

    /// Inserts or updates one row, with its entries in indexes and its share of views.
    ///
    /// # Errors
    /// See [`Error`]; 23503 where its parent is not there.
    pub fn put_row(
        &self,
        relation: &'static str,
        id: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.change(|transaction| transaction.put_row(relation, &id, &value))
    }

    /// Deletes one row, and its children. Gives whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete_row(&self, relation: &'static str, id: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.change(|transaction| transaction.delete_row(relation, &id))
    }

    /// Makes one change and commits; retries after a conflict.
    fn change<T>(&self, change: impl Fn(&mut RowTransaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let until = Instant::now() + self.deadline;
        loop {
            let mut transaction = self.begin();
            let changed = change(&mut transaction)?;
            match transaction.commit() {
                Err(Error::Aborted) if Instant::now() < until => std::thread::sleep(CONFLICT_PAUSE),
                committed => return committed.map(|_| changed),
            }
        }
    }

    /// The rows that an index has under a key, all in one state; children of a row are in the index `parent`, by its key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn by_index(
        &self,
        relation: &'static str,
        index: &'static str,
        of: impl AsRef<[u8]>,
    ) -> Result<Vec<(Key, Bytes)>, Error> {
        self.begin().by_index(relation, index, of)
    }

    /// Sum of a view for a group; for a view that adds ones, a count.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn sum(
        &self,
        relation: &'static str,
        view: &'static str,
        group: impl AsRef<[u8]>,
    ) -> Result<i64, Error> {
        self.begin().sum(relation, view, group)
    }

    fn relation(&self, name: &str) -> Result<&Relation, Error> {
        self.schema.relation(name).ok_or_else(|| {
            let message = format!("there is no relation `{name}`");
            Error::Sql(SqlError::new(SqlState::UNDEFINED_TABLE, message))
        })
    }
}

/// A transaction over rows, one statement after the other. Dropping it rolls it back. The deadline of the settings is each
/// statement's. After an error other than `Sql` and `Unfit` it has ended.
pub struct RowTransaction<'r> {
    relations: &'r Relations,
    tag: u64,
    /// Total bytes of the rows that it writes.
    bytes: usize,
    is_open: bool,
}

impl RowTransaction<'_> {
    fn order(&mut self, order: Order) -> Result<Told, Error> {
        if !self.is_open {
            return Err(Error::Restart);
        }
        let told = self.relations.session.submit(self.tag, Wish::Order(order)).wait();
        if let Err(error) = &told {
            self.is_open = matches!(error, Error::Sql(_) | Error::Unfit(_));
        }
        told
    }

    fn rows(&mut self, order: Order) -> Result<Vec<(Key, Bytes)>, Error> {
        match self.order(order)? {
            Told::Rows(rows) => Ok(rows),
            told => Err(Error::Closed(format!("rows were asked for, and the answer is {told:?}"))),
        }
    }

    /// Inserts or updates a row.
    ///
    /// # Errors
    /// See [`Error`]; 23503 where its parent is not to be seen. Then the transaction goes on without it.
    pub fn put_row(
        &mut self,
        relation: &'static str,
        id: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let key = self.relations.relation(relation)?.key(id.as_ref());
        let value = Bytes::new(value.as_ref());
        let bytes = self.bytes + key.len() + value.len();
        if let Some(why) = too_large(bytes) {
            return Err(Error::Unfit(why));
        }
        self.order(Order::Put { key, value })?;
        self.bytes = bytes;
        Ok(())
    }

    /// Deletes a row, and the children that are seen. Gives whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete_row(&mut self, relation: &'static str, id: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = self.relations.relation(relation)?.key(id.as_ref());
        Ok(self.order(Order::Delete { key })? != Told::Absent)
    }

    /// One row's value, if it is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn row(&mut self, relation: &'static str, id: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        let keys = vec![self.relations.relation(relation)?.key(id.as_ref())];
        Ok(self.rows(Order::Rows { keys })?.pop().map(|(_, value)| value))
    }

    /// All rows of a relation, in order of keys.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn scan(&mut self, relation: &'static str) -> Result<Vec<(Key, Bytes)>, Error> {
        self.rows(Order::Scan { relation })
    }

    /// As [`Relations::by_index`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn by_index(
        &mut self,
        relation: &'static str,
        index: &'static str,
        of: impl AsRef<[u8]>,
    ) -> Result<Vec<(Key, Bytes)>, Error> {
        self.rows(Order::LookUp { relation, index, of: Bytes::new(of.as_ref()) })
    }

    /// As [`Relations::sum`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn sum(
        &mut self,
        relation: &'static str,
        view: &'static str,
        group: impl AsRef<[u8]>,
    ) -> Result<i64, Error> {
        match self.order(Order::Sum { relation, view, group: Bytes::new(group.as_ref()) })? {
            Told::Sum(sum) => Ok(sum),
            told => Err(Error::Closed(format!("a sum was asked for, and the answer is {told:?}"))),
        }
    }

    /// Rows of a view, in order of the rows' keys.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn selected(
        &mut self,
        relation: &'static str,
        view: &'static str,
    ) -> Result<Vec<(Key, Bytes)>, Error> {
        self.rows(Order::Selected { relation, view })
    }

    /// Writes what has been changed. Gives its place in the order of writes, if there was anything.
    ///
    /// # Errors
    /// See [`Error`]. `Aborted` if a concurrent transaction has changed a row that views are computed from: nothing happened.
    pub fn commit(mut self) -> Result<Option<Stamp>, Error> {
        let told = self.order(Order::Commit);
        self.is_open = false;
        match told? {
            Told::Committed(stamp) => Ok(stamp),
            told => Err(Error::Closed(format!("a commit was asked for, and the answer is {told:?}"))),
        }
    }
}

impl Drop for RowTransaction<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // The result is not needed.
            drop(self.relations.session.submit(self.tag, Wish::RollBack));
        }
    }
}
