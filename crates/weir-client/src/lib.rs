//! The client library: read-atomic transactions over the items of a cluster.
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
//! A client contains the coordinator of its transactions (docs/network.md): a read takes one round trip to the
//! shards of its items and rarely two, a write two. All methods may be called from any thread; what waits for the network is a
//! [`Pending`], a future that can also be waited for without any runtime.

pub mod carrier;
pub mod export;
mod pending;
mod requests;
mod statements;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

pub use pending::Pending;
pub use statements::Statements;
pub use weir_net::ClusterFile;
pub use weir_net::cluster_file::{Application, Complaint};
pub use weir_net::handshake::Terms;
use weir_txn::items::Partition;
pub use weir_txn::items::{Bytes, Isolation, ItemRead, Key, KeyRange, ReadSet, Stamp, Transaction, Write};

use carrier::Carrier;
use requests::{Requests, Shared, Wish};

/// Of all keys and values that a transaction writes, and of the keys that it reads, with 16 bytes for each.
pub const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a transaction may take, from `begin` on.
    pub deadline: Duration,
    /// So many transactions at once; `begin` waits while there are as many.
    pub under_way_max: usize,
    /// A write is answered when all have prepared, one round trip earlier (docs/items.md says what that gives up).
    pub one_phase: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { deadline: Duration::from_secs(10), under_way_max: 4_096, one_phase: false }
    }
}

/// What a transaction has done.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// In the order in which it was asked for.
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
    /// It has more bytes than `TRANSACTION_BYTES_MAX`, or names an item twice.
    Unfit(String),
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
            Error::Refused(why) => write!(f, "refused: {why}"),
            Error::Closed(why) => write!(f, "the client is closed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// A client of a cluster. Dropping it ends what is under way with `Closed`; what has been answered stands.
pub struct Client {
    shared: Arc<Shared>,
    alarm: carrier::Alarm,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Comes back at once; a shard that cannot be reached shows in the transactions that need it.
    ///
    /// # Errors
    /// A certificate that cannot be used, or the system's.
    pub fn connect(cluster: &ClusterFile) -> Result<Client, Error> {
        Client::connect_with(cluster, Settings::default())
    }

    /// # Errors
    /// As `connect`.
    pub fn connect_with(cluster: &ClusterFile, settings: Settings) -> Result<Client, Error> {
        let closed = |error: std::io::Error| Error::Closed(error.to_string());
        let shared = Arc::new(Shared::new(settings.under_way_max));
        let requests = Requests::new(cluster, settings, shared.clone()).map_err(closed)?;
        let mut carrier = Carrier::<Partition, Requests>::new(cluster.clone(), requests).map_err(closed)?;
        let (alarm, trouble) = (carrier.alarm(), carrier.trouble());
        carrier.clients_mut().set_trouble(trouble);
        let run = {
            let shared = shared.clone();
            move || {
                // However it ends: nobody may wait for ever.
                let _last = requests::Last(shared);
                carrier.run();
            }
        };
        let thread = std::thread::Builder::new().name("weir-client".into()).spawn(run).map_err(closed)?;
        Ok(Client { shared, alarm, thread: Some(thread) })
    }

    /// Begins a transaction: it reads, then writes, and all of its writes become visible together. Waits while as many as
    /// the settings allow are under way.
    pub fn begin(&self, transaction: Transaction) -> Pending {
        match unfit(&transaction) {
            Some(why) => Pending::ended(Err(Error::Unfit(why))),
            None => self.submit(self.shared.new_tag(), Wish::Transaction(transaction)),
        }
    }

    fn submit(&self, tag: u64, wish: Wish) -> Pending {
        let pending = self.shared.submit(tag, wish);
        // A loop that cannot be woken looks at the next tick.
        let _ = self.alarm.wake();
        pending
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

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        let _ = self.alarm.wake();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
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
