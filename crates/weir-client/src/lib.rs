//! The client library: read-atomic transactions over the items of a cluster, and calls of the SQL application that it carries.
//!
//! ```no_run
//! use weir_client::{Client, ClusterFile};
//!
//! let cluster = ClusterFile::read("cluster.toml".as_ref()).unwrap();
//! let client = Client::connect(&cluster).unwrap();
//! // Both become visible together, to everyone, wherever they live.
//! client.put_all([("alice", "friend of bob"), ("bob", "friend of alice")]).unwrap();
//! let both = client.get_all(["alice", "bob"]).unwrap();
//! ```
//!
//! With `[application]` in the cluster file there are no items, but procedures ([`Client::call`]).
//!
//! A client contains the coordinator of its transactions (docs/internals/network.md): a read takes one round trip to the
//! shards of its items and rarely two, a write two. All methods may be called from any thread; what waits for the network is a
//! [`Pending`], a future that can also be waited for without any runtime.

mod accessed_rows;
mod begun;
mod calls;
pub mod carrier;
mod description;
mod explain;
pub mod export;
mod interrupts;
mod items;
mod load;
mod many;
mod parameterised;
mod pending;
mod prepared;
mod relations;
mod remote_read;
mod requests;
mod schema_versions;
mod statements;
mod sub_statements;

use std::ops::RangeInclusive;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

pub use calls::CallResult;
pub use description::{Description, SQL};
pub use explain::{Access, Explained, ExplainedGuard, Trace};
pub use load::{Batch, Load, LoadedTable};
pub use parameterised::Parameterised;
pub use pending::Pending;
pub use prepared::{Prepared, Unprepared, Verb};
pub use relations::{Relations, RowTransaction};
pub use schema_versions::{NextSchemaVersion, Placed, SchemaVersion};
pub use statements::Statements;
pub use sub_statements::{Kept, SubStatement, SubStatements};
use weir_core::nearby::Neighbours;
#[doc(no_inline)]
pub use weir_core::nearby::set_patient;
pub use weir_kv::{
    Bytes, Isolation, ItemRead, Key, KeyRange, ReadSet, Stamp, Transaction, Write, relations as schema,
};
pub use weir_net::ClusterFile;
use weir_net::body::VERSIONS;
use weir_net::clock::time_of_day;
pub use weir_net::cluster_file::{Application, Complaint};
pub use weir_net::handshake::Terms;
#[doc(hidden)]
pub use weir_net::loopback;
pub use weir_sql::CurrentValue;
pub use weir_txn::exec::accessed_rows::AccessedRow;
pub use weir_txn::message::AdvisoryKey;
use weir_txn::ramp::{OfSnapshot, own_statement};
use weir_txn::shard::Node;
pub use weir_txn::stream::{Receiving, Row, RowStream};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::interrupt::Interrupts;

pub use begun::{Begun, noting};

pub use weir_types::{SqlError, SqlState, SqlType, Value};

use calls::{Callable, Calls};
use carrier::new_id;
use items::{Items, Wish};
use requests::Session;

/// Limit on the keys and values that a transaction writes, plus the keys that it reads, with 16 bytes for each.
pub const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time limit of a transaction, from `begin` on. After it the transaction is cancelled; its outcome is unknown if shards cannot be
    /// reached.
    pub deadline: Duration,
    /// The deadline is for shards that cannot be reached: while all can be, what takes longer is waited for.
    pub waits_for_busy: bool,
    /// Largest number of concurrent transactions; beyond it `begin` waits.
    pub under_way_max: usize,
    /// A write is answered when all have prepared, one round trip earlier (docs/internals/items.md says what that gives up).
    pub one_phase: bool,
    /// Protocol versions that it speaks; restricted while nodes are older than the client.
    pub versions: RangeInclusive<u16>,
    /// Memory limit of a query in this process; beyond it the query ends with 53200.
    pub statement_memory_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            deadline: Duration::from_secs(10),
            waits_for_busy: false,
            under_way_max: 4_096,
            one_phase: false,
            versions: VERSIONS,
            statement_memory_bytes_max: u64::MAX,
        }
    }
}

/// Result of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Items and ranges in the order of the request.
    pub read: ReadSet,
    /// Its place in the order of writes; none if it wrote nothing.
    pub stamp: Option<Stamp>,
    /// Rounds of messages of its read and of its write.
    pub rounds: (u32, u32),
}

/// Why a transaction has not committed, or may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing happened: a shard had promised that it never would. It may be tried again.
    Aborted,
    /// A transaction of several statements has ended without any effect: what it was reading is not kept any more. It may be
    /// begun again.
    Restart,
    /// Nothing happened before the deadline, and nothing will; what is in the way.
    Deadline(String),
    /// It was on its way at the deadline, or its coordinator was lost: it may have happened, or may yet; what is in the way.
    Unknown(String),
    /// No shard would take it: it has more bytes than `TRANSACTION_BYTES_MAX`, names an item twice, or is of another kind than what
    /// the cluster carries.
    Unfit(String),
    /// A call has ended without effect, or was none that could begin: with its SQLSTATE, as PostgreSQL has it, and where there is one
    /// a remedy. Only where its answer is too large to be sent (54000) it may have run; then the message says so.
    Sql(SqlError),
    /// A node does not speak with this client; why.
    Refused(String),
    /// The client has been closed, or could not be opened.
    Closed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Aborted => write!(f, "aborted: nothing happened; try again"),
            Error::Restart => {
                write!(f, "what the transaction was reading is not kept any more; begin it again")
            }
            Error::Deadline(why) => write!(f, "nothing happened before the deadline: {why}"),
            Error::Unknown(why) => write!(f, "it may have happened or not: {why}"),
            Error::Unfit(why) => write!(f, "{why}"),
            Error::Sql(error) => match &error.fields().hint {
                Some(hint) => write!(f, "{error}; {hint}"),
                None => write!(f, "{error}"),
            },
            Error::Refused(why) => write!(f, "refused: {why}"),
            Error::Closed(why) => write!(f, "the client is closed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// A client of a cluster. Dropping it ends what is under way with `Closed`; what has been answered stands.
pub struct Client {
    carried: Carried,
    cluster: ClusterFile,
    settings: Settings,
    told: explain::Told,
    /// Interrupts for statements that the coordinator, or a thread of the client, is evaluating.
    interrupts: Arc<Interrupts>,
}

enum Carried {
    Items(Session<Items>),
    Calls(Session<Calls>, RwLock<Arc<Callable>>),
}

impl Client {
    /// Comes back at once where the cluster carries items; a shard that cannot be reached shows in the transactions that need it.
    /// Where it carries an application, a node is asked what that is.
    ///
    /// # Errors
    /// A certificate that cannot be used, or the system's. Of an application: no node describes it within the deadline.
    pub fn connect(cluster: &ClusterFile) -> Result<Client, Error> {
        Client::connect_with(cluster, Settings::default())
    }

    /// # Errors
    /// As `connect`.
    pub fn connect_with(cluster: &ClusterFile, settings: Settings) -> Result<Client, Error> {
        Client::connect_beside(cluster, settings, Vec::new())
    }

    /// For a process that contains some of the shards, which are called without a socket.
    ///
    /// # Errors
    /// As `connect`.
    pub fn connect_beside(
        cluster: &ClusterFile,
        settings: Settings,
        neighbours: Neighbours<Node>,
    ) -> Result<Client, Error> {
        let id = new_id().map_err(|error| Error::Closed(error.to_string()))?;
        let told = explain::Told::default();
        let interrupts = Arc::new(Interrupts::default());
        interrupts.set_memory_max(settings.statement_memory_bytes_max);
        let carried = if cluster.application.is_none() {
            let items = Items::new(id, items::options(cluster, settings.one_phase));
            Carried::Items(Session::begin(cluster, cluster.terms(), items, &settings, Vec::new())?)
        } else {
            let description = Description::fetch(cluster, &settings.versions, settings.deadline)?;
            let terms = description.terms(cluster);
            let callable = Arc::new(description.compile(cluster.shards)?);
            let calls = Calls::new(id, callable.clone(), told.clone(), interrupts.clone());
            let session = Session::begin(cluster, terms, calls, &settings, neighbours)?;
            Carried::Calls(session, RwLock::new(callable))
        };
        Ok(Client { carried, cluster: cluster.clone(), settings, told, interrupts })
    }

    /// Rows with indexes, foreign keys and views over the cluster's items, on connections of their own.
    ///
    /// ```no_run
    /// use weir_client::schema::{Index, Relation, Schema, View, ViewKind};
    /// use weir_client::{Bytes, Client, ClusterFile, Key};
    ///
    /// fn town(_: &Key, value: &Bytes) -> Vec<Bytes> {
    ///     vec![value.clone()]
    /// }
    /// fn one(key: &Key, value: &Bytes) -> Vec<(Bytes, i64)> {
    ///     town(key, value).into_iter().map(|town| (town, 1)).collect()
    /// }
    ///
    /// let people = Relation {
    ///     indexes: vec![Index { name: "town", keys: town }],
    ///     views: vec![View { name: "count", kind: ViewKind::Sum(one) }],
    ///     ..Relation::plain("people")
    /// };
    /// let client = Client::connect(&ClusterFile::read("cluster.toml".as_ref()).unwrap()).unwrap();
    /// let rows = client.relations(Schema::new(vec![people]).unwrap()).unwrap();
    /// rows.put_row("people", "ann", "Ulm").unwrap();
    /// let mut both = rows.begin();
    /// assert_eq!(both.by_index("people", "town", "Ulm").unwrap().len() as i64, both.sum("people", "count", "Ulm").unwrap());
    /// ```
    ///
    /// # Errors
    /// The cluster carries an application; a certificate that cannot be used, or the system's.
    pub fn relations(&self, schema: schema::Schema) -> Result<Relations, Error> {
        Relations::open(&self.cluster, schema, &self.settings)
    }

    /// Begins a transaction: it reads, then writes, and all of its writes become visible together. Waits while as many as
    /// the settings allow are under way.
    pub fn begin(&self, transaction: Transaction) -> Pending {
        match unfit(&transaction) {
            Some(why) => Pending::ended(Err(Error::Unfit(why))),
            None => self.submit(self.new_tag(), Wish::Transaction(transaction)),
        }
    }

    /// The deadline is for shards that cannot be reached from here on, as [`Settings::waits_for_busy`] says.
    pub fn wait_for_busy(&self) {
        match &self.carried {
            Carried::Items(session) => session.wait_for_busy(),
            Carried::Calls(session, _) => session.wait_for_busy(),
        }
    }

    /// Number of shards of the cluster.
    pub fn shards(&self) -> u16 {
        self.cluster.shards
    }

    /// A name that no other transaction of the client has.
    fn new_tag(&self) -> u64 {
        match &self.carried {
            Carried::Items(session) => session.new_tag(),
            Carried::Calls(session, _) => session.new_tag(),
        }
    }

    fn submit(&self, tag: u64, wish: Wish) -> Pending {
        match &self.carried {
            Carried::Items(session) => session.submit(tag, wish),
            Carried::Calls(..) => Pending::ended(Err(Error::Unfit(
                "the cluster carries an application, not items: call its procedures, with `Client::call`"
                    .into(),
            ))),
        }
    }

    /// Calls a procedure or function of the application that the cluster carries, and waits for what it gives. It happens once or
    /// not at all, whatever becomes of connections and nodes meanwhile. Arguments are its IN and INOUT parameters, in order; a
    /// text is taken for a literal of the parameter's type.
    ///
    /// ```no_run
    /// use weir_client::{Client, ClusterFile, Error};
    ///
    /// // With [application] path = "examples/smallbank".
    /// let cluster = ClusterFile::read("cluster.toml".as_ref()).unwrap();
    /// let client = Client::connect(&cluster).unwrap();
    /// match client.call("send_payment", [7.into(), 8.into(), "12.50".into()]) {
    ///     Ok(result) => println!("committed: {:?}", result.values),
    ///     Err(Error::Sql(error)) => println!("nothing happened: {} {}", error.state(), error.message()),
    ///     Err(Error::Unknown(why)) => println!("it may have happened: {why}"),
    ///     Err(error) => println!("nothing happened: {error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`Error`]. An `Unknown` call may yet happen, once; all others have not, and will not.
    pub fn call(&self, name: &str, arguments: impl IntoIterator<Item = Value>) -> Result<CallResult, Error> {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let until = Instant::now() + self.settings.deadline;
        loop {
            match self.begin_call(name, arguments.clone()).wait() {
                Err(Error::Sql(error))
                    if error.state() == SqlState::SCHEMA_HAS_CHANGED && Instant::now() < until =>
                {
                    self.refresh()?;
                }
                done => return done,
            }
        }
    }

    /// As `call`, without waiting for what it gives. Waits while as many as the settings allow are under way.
    pub fn begin_call(&self, name: &str, arguments: impl IntoIterator<Item = Value>) -> Pending<CallResult> {
        let schema_version = self.schema_version().map_err(|wrong| wrong.error);
        self.submit_call(
            schema_version
                .and_then(|schema_version| schema_version.0.prepare(name, arguments.into_iter().collect())),
        )
    }

    /// A wish that cannot be made ends at once.
    fn submit_call(&self, wish: Result<calls::Wish, SqlError>) -> Pending<CallResult> {
        self.submit_computed(|| wish)
    }

    /// Submits an operation that takes some computation first, which can be cancelled too.
    fn submit_computed(&self, wish: impl FnOnce() -> Result<calls::Wish, SqlError>) -> Pending<CallResult> {
        match &self.carried {
            Carried::Calls(session, _) => {
                let tag = session.new_tag();
                if let Err(error) = begun::note(tag) {
                    return Pending::ended(Err(Error::Sql(error)));
                }
                let wish = {
                    let _watch = self.interrupts.watch(own_statement(tag));
                    wish()
                };
                match wish {
                    Ok(wish) => session.submit(tag, wish),
                    Err(error) => Pending::ended(Err(Error::Sql(error))),
                }
            }
            Carried::Items(_) => Pending::ended(Err(Error::Unfit(
                "the cluster carries items, not an application: name one in [application] of the cluster file, and start \
                 its nodes anew"
                    .into(),
            ))),
        }
    }

    /// Binds a SELECT, INSERT, UPDATE or DELETE over the tables of the application, or a CALL, with parameters `$1`, `$2` … `types`:
    /// theirs, `Unknown` for those that the text says; there may be more in the text. What writes is judged as a procedure
    /// of its own (docs/internals/server.md); the first of a text takes as long as that.
    ///
    /// # Errors
    /// The text is invalid or not supported, or would endanger a procedure; with the position.
    pub fn prepare(&self, text: &str, types: &[SqlType]) -> Result<Prepared, Unprepared> {
        self.schema_version()?.prepare(text, types)
    }

    /// Begins what was prepared on this client. A SELECT sees of each transaction all or nothing, over all shards.
    pub fn begin_prepared(&self, prepared: &Prepared, values: &[Value]) -> Pending<CallResult> {
        // A query without tables needs no shard and does not wait, for example one that cancels another session's statement.
        if prepared.reads_no_table() {
            return self.work_out(prepared, values);
        }
        self.submit_computed(|| prepared.of.wish(prepared, values, calls::begins_now()))
    }

    /// The result of a look-up ([`Prepared::is_look_up`]) of committed rows, if the only shard of the cluster is in this process and can answer
    /// at once: then no message is needed, and nothing is to be waited for. None: it must be begun, as any other statement. `begun`: when
    /// its transaction began, in microseconds since 2000.
    pub fn look_up(&self, begun: i64, prepared: &Prepared, values: &[Value]) -> Option<CallResult> {
        let Carried::Calls(session, _) = &self.carried else { return None };
        prepared.of.look_up(prepared, values, (begun, session.only_shard()?))
    }

    fn work_out(&self, prepared: &Prepared, values: &[Value]) -> Pending<CallResult> {
        let tag = self.new_tag();
        let result = begun::note(tag).and_then(|()| {
            let _watch = self.interrupts.watch(own_statement(tag));
            prepared.of.rows_of(prepared, values)
        });
        Pending::ended(result.map_err(Error::Sql))
    }

    /// Names a transaction of several statements over tables, READ COMMITTED as PostgreSQL's: nothing happens until its first statement.
    /// Rows that it writes are held until its end; of transactions that wait for each other one ends with 40P01. After an error
    /// nothing of it will happen, and it must be rolled back.
    pub fn new_transaction(&self) -> u64 {
        self.new_tag()
    }

    /// Begins what was prepared on this client, as a statement of the transaction of that name, whose statements before have ended.
    pub fn begin_within(
        &self,
        transaction: u64,
        prepared: &Prepared,
        values: &[Value],
    ) -> Pending<CallResult> {
        self.begin_within_at((transaction, time_of_day()), prepared, values)
    }

    /// Begins a statement of a transaction with the given begin time, in microseconds since 2000.
    pub fn begin_within_at(
        &self,
        (transaction, begun): (u64, i64),
        prepared: &Prepared,
        values: &[Value],
    ) -> Pending<CallResult> {
        self.submit_computed(|| {
            let begun = TransactionTime::new(begun, SessionZone::current());
            prepared.of.wish(prepared, values, begun).map(|wish| wish.within(transaction))
        })
    }

    /// Begins the insertion of a batch of rows, as a statement of the named transaction, whose earlier statements have ended. The first
    /// value of the result is the row count. The next batch may be built before this one has ended.
    pub fn begin_batch(&self, transaction: u64, batch: Batch) -> Pending<CallResult> {
        match &self.carried {
            Carried::Calls(session, _) => {
                let tag = session.new_tag();
                match begun::note(tag) {
                    Ok(()) => session.submit_aside(tag, batch.into_wish().within(transaction)),
                    Err(error) => Pending::ended(Err(Error::Sql(error))),
                }
            }
            Carried::Items(_) => self.submit_call(Ok(batch.into_wish())),
        }
    }

    /// Begins to insert a batch of rows by itself.
    pub fn begin_batch_alone(&self, batch: Batch) -> Pending<CallResult> {
        self.submit_call(Ok(batch.into_wish()))
    }

    /// Begins to hold the key until the end of the transaction of that name, whose statements before have ended. The first value of what
    /// it gives is whether it does: one that does not wait may not.
    pub fn begin_advisory_lock(
        &self,
        transaction: u64,
        key: AdvisoryKey,
        waits: bool,
    ) -> Pending<CallResult> {
        self.order(transaction, calls::Order::AdvisoryLock { key, waits })
    }

    /// Begins to ask where the sequences of the shard stand: of each that has given a value, its number, the last one, and how many.
    pub fn begin_sequences(&self, transaction: u64, shard: u16) -> Pending<CallResult> {
        self.order(transaction, calls::Order::Sequences(shard))
    }

    /// Begins to say when deferrable constraints are looked at, until the transaction ends; none as names is all of them. What has waited
    /// is looked at if it is not to wait any more.
    pub fn begin_constraints(
        &self,
        transaction: u64,
        names: Option<Vec<String>>,
        deferred: bool,
    ) -> Pending<CallResult> {
        let setting = weir_txn::message::Setting { names, deferred };
        self.order(transaction, calls::Order::Constraints(setting))
    }

    /// Begins to say that the batches from here on are one statement, or that it has ended: then what has to hold of its rows together is
    /// looked at.
    pub fn begin_statement_of_batches(&self, transaction: u64, begins: bool) -> Pending<CallResult> {
        let setting = weir_txn::message::Setting::statement(begins);
        self.order(transaction, calls::Order::Constraints(setting))
    }

    /// Begins to commit it, or to roll it back. What it has done becomes visible together, or not at all.
    pub fn end_transaction(&self, transaction: u64, commit: bool) -> Pending<CallResult> {
        self.order(transaction, if commit { calls::Order::Commit } else { calls::Order::RollBack })
    }

    /// Statements of the transaction wait so long for others from here on, then they fail with 55P03. None: as long as it takes.
    pub fn begin_lock_timeout(&self, transaction: u64, most: Option<Duration>) -> Pending<CallResult> {
        let most = most.map(|most| u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        self.order(transaction, calls::Order::LockTimeout(most))
    }

    /// Makes the transaction serializable, before its first statement: its statements lock what they read against writes of others, and of
    /// transactions that wait for each other one ends with 40001.
    pub fn begin_serializable(&self, transaction: u64) -> Pending<CallResult> {
        self.order(transaction, calls::Order::Serializable(true))
    }

    /// Begins a savepoint. Savepoints are numbered from 0, the innermost last. After an error a transaction with a savepoint may be
    /// rolled back to it, unless the error says otherwise.
    pub fn begin_savepoint(&self, transaction: u64) -> Pending<CallResult> {
        self.order(transaction, calls::Order::Savepoint)
    }

    /// Forgets all savepoints but the first `keep`; what was done since stays.
    pub fn begin_release(&self, transaction: u64, keep: usize) -> Pending<CallResult> {
        self.order(transaction, calls::Order::Release(keep))
    }

    /// Takes back what was done after the savepoint of that number, with its locks. That savepoint stays, those behind it are forgotten.
    pub fn begin_roll_back_to(&self, transaction: u64, savepoint: usize) -> Pending<CallResult> {
        self.order(transaction, calls::Order::RollBackTo(savepoint))
    }

    /// Begins a snapshot of all shards in that schema version, under a name of [`Client::new_transaction`]: from then on its reads see
    /// one state. The caller must end it, whatever the result.
    pub fn begin_snapshot(&self, name: u64, schema_version: &SchemaVersion) -> Pending<CallResult> {
        let take = OfSnapshot::Take(schema_version.0.program.clone());
        self.submit_call(Ok(calls::Wish::Snapshot(name, take, [].into())))
    }

    /// Begins what was prepared, a query, at that snapshot; and when its transaction began, in microseconds since 2000.
    pub fn begin_at_snapshot(
        &self,
        (name, begun): (u64, i64),
        prepared: &Prepared,
        values: &[Value],
    ) -> Pending<CallResult> {
        let begun = TransactionTime::new(begun, SessionZone::current());
        self.submit_computed(|| match prepared.of.wish(prepared, values, begun)? {
            calls::Wish::Read(gather, values, names) => {
                Ok(calls::Wish::Snapshot(name, OfSnapshot::Read(gather, values), names))
            }
            _ => {
                let message = "a call of a procedure at a snapshot is not supported";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        })
    }

    /// Ends the snapshot.
    pub fn end_snapshot(&self, name: u64) {
        drop(self.submit_call(Ok(calls::Wish::Snapshot(name, OfSnapshot::End, [].into()))));
    }

    fn order(&self, transaction: u64, order: calls::Order) -> Pending<CallResult> {
        self.submit_call(Ok(calls::Wish::Within(transaction, order, [].into())))
    }

    /// Wishes that what is under way under that tag ([`Pending::tag`]) does not happen: if it can still be kept from happening, it
    /// ends with this error. What waits for others can, the deferred checks of a
    /// commit included; a commit that has them behind it cannot.
    pub fn cancel(&self, tag: u64, error: SqlError) {
        if let Carried::Calls(session, _) = &self.carried {
            self.interrupts.interrupt(own_statement(tag), error.clone());
            session.cancel(tag, error);
        }
    }

    /// Runs one statement or CALL without parameters, and waits for what it gives.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn query(&self, text: &str) -> Result<CallResult, Error> {
        let prepared = self.prepare(text, &[]).map_err(|wrong| Error::Sql(wrong.error))?;
        self.begin_prepared(&prepared, &[]).wait()
    }

    /// Begins a transaction of several statements, whose reads need not be known in advance.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(&self, isolation: Isolation) -> Result<Statements<'_>, Error> {
        Statements::open(self, isolation)
    }

    /// Reads items, all in one state: of every transaction all that it wrote, or nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn get_all<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>, Error> {
        let reads = keys.into_iter().map(|key| Key::new(key.as_ref())).collect();
        let done = self.begin(Transaction { reads, ..Transaction::default() }).wait()?;
        Ok(done.read.items.into_iter().map(|item| item.value).collect())
    }

    /// Writes items; they become visible together.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn put_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        items: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Option<Stamp>, Error> {
        let put = |(key, value): (K, V)| (Key::new(key.as_ref()), Write::Put(Bytes::new(value.as_ref())));
        self.write_all(items.into_iter().map(put).collect())
    }

    /// As `put_all`, with any writes: merges and deletions too.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn write_all(&self, writes: Vec<(Key, Write)>) -> Result<Option<Stamp>, Error> {
        let done = self.begin(Transaction { writes, ..Transaction::default() }).wait()?;
        Ok(done.stamp)
    }

    /// Reads all items with keys from `from` on and before `to`, in order, all in one state.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn scan(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<Vec<(Key, Bytes)>, Error> {
        let range = KeyRange { from: Key::new(from.as_ref()), to: Key::new(to.as_ref()) };
        let done = self.begin(Transaction { ranges: vec![range], ..Transaction::default() }).wait()?;
        Ok(done.read.into_entries())
    }
}

/// Beside its bytes, of each item: its length, what is done to it, its place.
const ITEM_BYTES: usize = 16;

pub(crate) fn bytes_of_write(key: &Key, write: &Write) -> usize {
    let value = match write {
        Write::Put(value) | Write::Insert(value) | Write::Max(value) => value.len(),
        Write::Add(_) | Write::Delete => 0,
    };
    ITEM_BYTES + key.len() + value
}

pub(crate) fn bytes_of_reads(keys: &[Key], ranges: &[KeyRange]) -> usize {
    let bounds = ranges.iter().flat_map(|range| [&range.from, &range.to]);
    keys.iter().chain(bounds).map(|key| ITEM_BYTES + key.len()).sum()
}

pub(crate) fn too_large(bytes: usize) -> Option<String> {
    let is_large = bytes > TRANSACTION_BYTES_MAX;
    is_large.then(|| format!("a transaction of {bytes} bytes, and {TRANSACTION_BYTES_MAX} is the most"))
}

/// Why no shard would take it.
fn unfit(transaction: &Transaction) -> Option<String> {
    let written = transaction.writes.iter().map(|(key, write)| bytes_of_write(key, write));
    let bytes = written.sum::<usize>() + bytes_of_reads(&transaction.reads, &transaction.ranges);
    let mut keys: Vec<&Key> = transaction.writes.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
    let twice = twice.map(|pair| format!("a transaction that writes the item `{:?}` twice", pair[0]));
    too_large(bytes).or(twice)
}
