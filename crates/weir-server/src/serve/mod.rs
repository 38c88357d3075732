//! A node of a cluster: its shards, each with a thread and a log, and the thread that accepts connections.
//!
//! The design is docs/internals/network.md.

mod acceptor;
mod asking;
mod counter;
mod group;
pub mod log;
mod outbox;
mod permits;
mod recovery;
mod shard_log;
mod shard_loop;
mod take;
mod watch;
pub mod writer;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use mio::Waker;
use mio::net::TcpListener;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::{info, warn};
use weir_core::clock::{CLOCK_AHEAD_MS_MAX, clock_at, ms_of};
use weir_core::history::{Outdated, Past, Seen};
use weir_core::ids::{self, ShardId};
use weir_core::machine::{self, Exposed};
use weir_core::nearby::{Nearby, Neighbours};
use weir_kv::faults::NoFaults;
use weir_kv::{Partition, Record, Timeouts};
use weir_net::body::{self, VERSIONS};
use weir_net::cluster_file::Node;
use weir_net::handshake::{REPLICATES_FROM, REPLICATION, Terms};
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Link};
use weir_types::interrupt::{Budget, Interrupts};
use weir_types::{SqlError, SqlState};

use self::permits::Permits;
use crate::embedded::now_ms;
use acceptor::{Acceptor, House, Place};
use group::{GroupPlace, Lead, MemberArrival, MemberInbox, MemberLoop, MemberSettings, StartMachine};
pub use log::Durability;
use log::{Log, LogError};
use recovery::{Known, Recover, STACK_BYTES, ToMake, find_log, recover_all};
use shard_loop::{Arrival, Inbox, Records, ShardLoop};
pub use watch::Watch;

/// Budget of a statement within a step of its shard: about 16,000 rows, or a millisecond or two. A longer one gets a worker.
const STEP_BUDGET: Budget = Budget(64);

/// Start parameters of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    pub cluster: ClusterFile,
    /// Its name in the cluster file.
    pub node: String,
    /// Directory and durability of its shards' logs; none: all data is lost when the process ends.
    pub data: Option<(PathBuf, Durability)>,
    /// Log bytes of a shard after which a snapshot is written; at least twice the size of the previous snapshot.
    pub snapshot_after: u64,
    /// Memory limit of its shards in bytes; beyond it they reject growing writes, if they can.
    pub memory: Option<usize>,
    /// Memory limit of one statement.
    pub statement_memory: u64,
    /// Clock that the operator vouches for: clocks up to it are accepted.
    pub clock_reached_ms: Option<u64>,
    /// The operator accepts the loss of data that others have seen and this node does not have.
    pub accepts_older_data: bool,
    /// Allows operation beyond loopback without TLS and a secret.
    pub insecure: bool,
    /// Description of the application, if the cluster does not store items; sent to clients on request.
    pub description: Option<Arc<[u8]>>,
    /// Protocol versions that it speaks; restricted while an older node is in the cluster.
    pub versions: RangeInclusive<u16>,
}

impl Settings {
    /// For a node of items without a log.
    pub fn new(cluster: ClusterFile, node: impl Into<String>) -> Settings {
        let (node, versions) = (node.into(), VERSIONS);
        let snapshot_after = log::SNAPSHOT_AFTER;
        let (data, memory, insecure, description) = (None, None, false, None);
        let statement_memory = u64::MAX;
        Settings {
            cluster,
            node,
            data,
            snapshot_after,
            memory,
            statement_memory,
            clock_reached_ms: None,
            accepts_older_data: false,
            insecure,
            description,
            versions,
        }
    }
}

/// Why a node cannot start, or had to end.
#[derive(Debug)]
pub enum ServeError {
    /// The settings do not make a node: what is wrong, what would be right.
    Settings(String, String),
    Listen(String, std::io::Error),
    Data(PathBuf, String),
    Log(LogError),
    System(std::io::Error),
    /// An assertion failed; the thread has said where.
    Failed(String),
}

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServeError::Settings(message, remedy) => write!(f, "{message} ({remedy})"),
            ServeError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            ServeError::Data(path, why) => write!(f, "{}: {why}", path.display()),
            ServeError::Log(error) => error.fmt(f),
            ServeError::System(error) => error.fmt(f),
            ServeError::Failed(thread) => {
                write!(f, "an assertion of Weir failed on thread {thread}; see above")
            }
        }
    }
}

impl std::error::Error for ServeError {}

impl From<LogError> for ServeError {
    fn from(error: LogError) -> ServeError {
        ServeError::Log(error)
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> ServeError {
        ServeError::System(error)
    }
}

/// Description sent to clients on request; the shards update it.
///
/// Invariant: it is the newest that a shard of the node has had. A shard that has been restarted may not know yet that a definition was
/// decided.
#[derive(Debug, Default)]
struct Outgoing(Mutex<Latest>);

/// The newest description so far.
#[derive(Debug, Default)]
struct Latest {
    /// Number of definitions in the description.
    definitions: usize,
    bytes: Option<Arc<[u8]>>,
}

impl Outgoing {
    fn get(&self) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes.clone()
    }

    /// The schema of a shard has been changed, and that is durable.
    fn tell<S: Exposed>(&self, description: Option<Arc<S::Description>>, terms: &Terms) {
        let Some(description) = description else { return };
        let definitions = S::definitions_in(&description);
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if definitions < latest.definitions {
            return;
        }
        let mut bytes = Vec::new();
        body::write(&(&*description, terms.placement), &mut bytes);
        *latest = Latest { definitions, bytes: Some(bytes.into()) };
    }
}

type Ended = (String, Result<(), ServeError>);

/// A node that runs.
pub struct Server {
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
    inboxes: Vec<Arc<Inbox>>,
    /// Its members of groups.
    members: Vec<Arc<GroupPlace>>,
    watch: Watch,
    /// Shards of the node; their type is known to the caller that started it.
    nearby: Box<dyn Any + Send + Sync>,
    waker: Arc<Waker>,
    ended: Receiver<Ended>,
    /// Interrupts for running statements of its shards.
    interrupts: Vec<Arc<Interrupts>>,
    /// Lock file, held while the node runs.
    _identity: Option<File>,
}

/// Stops a node from another thread, or from a handler of signals.
#[derive(Clone)]
pub struct Stop(Sender<Ended>);

impl Stop {
    pub fn stop(&self) {
        // A node that has ended needs no more telling.
        let _ = self.0.send((String::new(), Ok(())));
    }
}

impl Server {
    /// Recovers the node's shards of items and begins to serve them.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn start(settings: Settings) -> Result<(Server, Stop), ServeError> {
        let terms = settings.cluster.terms();
        let begin = |_, has_log: bool| {
            let started = Record::Started { incarnation: now_ms() };
            Ok(if has_log { Vec::new() } else { vec![started] })
        };
        let recover = |shard, records: &mut dyn Iterator<Item = Record>, has_log| {
            let partition = Partition::recover(shard, NoFaults, Timeouts::default(), records);
            Ok(if has_log { partition } else { partition.without_log() })
        };
        Server::start_with(settings, terms, begin, recover)
    }

    /// The same of shards of any kind. `begin` says what one begins with that has no log yet, or will never have one; `recover`
    /// makes one of that, or of the records of its log.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn start_with<S>(
        settings: Settings,
        terms: Terms,
        mut begin: impl FnMut(ShardId, bool) -> Result<Vec<S::Record>, ServeError>,
        recover: impl Fn(ShardId, &mut dyn Iterator<Item = S::Record>, bool) -> Result<S, ServeError>
        + Send
        + Sync
        + 'static,
    ) -> Result<(Server, Stop), ServeError>
    where
        S: Exposed,
        S::Request: Serialize + DeserializeOwned,
        S::Reply: Serialize,
        S::Progress: DeserializeOwned,
        S::Record: Serialize + DeserializeOwned,
    {
        let Settings { statement_memory, clock_reached_ms, accepts_older_data, .. } = settings;
        let Settings {
            cluster,
            node: name,
            data,
            snapshot_after,
            memory,
            insecure,
            description,
            versions,
            ..
        } = settings;
        let terms = Terms { versions, ..terms };
        let node = named(&cluster, &name, insecure)?;
        let is_group = |shard: &ShardId| cluster.is_group(*shard);
        let (groups, shards): (Vec<ShardId>, Vec<ShardId>) = node.shards.iter().copied().partition(is_group);
        check_kinds(&groups, &shards, data.as_ref())?;
        let tls = cluster
            .load_tls()
            .map_err(|why| ServeError::Settings(why, "see [tls] of the cluster file".into()))?;
        let listen = |error| ServeError::Listen(node.address.clone(), error);
        let resolved = node.resolve().map_err(|why| listen(std::io::Error::other(why)))?;
        let identity = match &data {
            Some((directory, _)) => Some(claim(directory, &cluster, &name, &terms)?),
            None => None,
        };
        let told = Arc::new(Outgoing(Mutex::new(Latest { definitions: 0, bytes: description })));
        let recover: Arc<Recover<S>> = Arc::new(recover);
        let mut known = Known::read(data.as_ref())?;
        let mut to_make = Vec::new();
        for shard in shards {
            let find =
                |data: &(PathBuf, Durability)| Ok::<_, ServeError>((find_log(data, shard, &known)?, data.1));
            let log = data.as_ref().map(find).transpose()?;
            let is_new = log.as_ref().is_none_or(|(reading, _)| reading.is_new());
            let begins_with = if is_new { begin(shard, log.is_some())? } else { Vec::new() };
            to_make.push(ToMake { shard, log, begins_with });
        }
        let mut loops = Vec::new();
        let share = memory.map(|bytes| bytes / (to_make.len() + groups.len()).max(1));
        let mut recovered = recover_all(to_make, snapshot_after, &recover)?;
        let directory_of_files =
            data.as_ref().map_or_else(std::env::temp_dir, |(directory, _)| directory.clone());
        let place = data.as_ref().map(|(directory, _)| directory.clone()).unwrap_or_default();
        let logs = recovered.iter_mut().map(|(shard, _, log)| (*shard, log.as_mut()));
        let seen = compare_logs(logs, &place, accepts_older_data)?;
        // Its shards have one physical clock: what one of them has reached is no news to the others.
        let reached = recovered.iter().map(|(_, machine, _)| machine.last_clock()).max().unwrap_or(0);
        let reached = reached.max(clock_at(clock_reached_ms.unwrap_or(0)));
        warn_of_clock(ms_of(reached));
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let permits = Arc::new(Permits::new(processors, directory_of_files));
        let common = Common {
            cluster: cluster.clone(),
            name: name.clone(),
            terms: terms.clone(),
            told: told.clone(),
            seen: seen.clone(),
            permits,
            tls: tls.clone(),
            limits: Limits { reached, memory: share, statement_memory },
        };
        for (shard, machine, log) in recovered {
            known.add(shard);
            let records = log.map_or(Records::Nowhere, |log| Records::Log(Box::new(log)));
            loops.push((shard, open_shard((shard, machine), records, &common)?));
        }
        known.write()?;
        let mut members = Vec::new();
        for shard in groups {
            let data = data.as_ref().expect("members of groups have a directory");
            let (mut member, has_machine) = open_member(shard, (data, snapshot_after), &common)?;
            let begins_with = if has_machine { Vec::new() } else { begin(shard, true)? };
            let directory = group_directory(&data.0, shard);
            let inbox = member.place().member.clone();
            member.set_machine(machine_of((shard, directory), &common, &recover, begins_with, inbox));
            members.push((shard, member));
        }
        // Listens only now, so that clients find the recovered state.
        let listener = TcpListener::bind(resolved).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let inboxes = loops.iter().map(|(_, one)| one.inbox()).collect();
        let alone = loops.iter().map(|(shard, one)| (*shard, Place::Alone(one.inbox())));
        let in_groups = members.iter().map(|(shard, member)| (*shard, Place::Group(member.place())));
        let places: BTreeMap<ShardId, Place> = alone.chain(in_groups).collect();
        let watch = Watch::new(
            loops.iter().map(|(shard, one)| (*shard, one.inbox(), one.log_figures())),
            members.iter().map(|(shard, member)| (*shard, member.place())),
        );
        let nearby: Neighbours<S> =
            loops.iter().map(|(shard, one)| (*shard, one.counter() as Arc<dyn Nearby<S>>)).collect();
        let interrupts: Vec<Arc<Interrupts>> =
            loops.iter().filter_map(|(_, one)| one.counter().interrupts()).collect();
        let is_open = Arc::new(AtomicBool::new(false));
        let house = House { seen: seen.clone(), interrupts: interrupts.clone(), is_open: is_open.clone() };
        let asking = asking::Asking::new(&cluster, &name, (&terms, &seen), tls.as_ref());
        let (acceptor, waker) = Acceptor::new(cluster, terms, listener, tls, places, told, house)?;
        let (says, ended) = channel();
        let mut server = Server {
            address,
            threads: Vec::new(),
            inboxes,
            members: members.iter().map(|(_, member)| member.place()).collect(),
            watch,
            nearby: Box::new(nearby),
            waker: Arc::new(waker),
            ended,
            interrupts,
            _identity: identity,
        };
        server.spawn("acceptor".into(), &says, move || {
            acceptor.run();
            Ok(())
        })?;
        // Connections wait meanwhile: no client is served from data that another node knows to be outdated.
        if let Err(why) = asking.ask()? {
            server.waker.wake()?;
            return Err(ServeError::Data(place, why));
        }
        is_open.store(true, Ordering::Release);
        for (shard, one) in loops {
            server.spawn(format!("shard-{shard}"), &says, move || one.run().map_err(ServeError::Log))?;
        }
        for (shard, member) in members {
            server.spawn(format!("member-{shard}"), &says, move || member.run())?;
        }
        info!(node = name, %address, "serving");
        Ok((server, Stop(says)))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its shards, for coordinators of this process; none, if they are of another kind.
    pub fn nearby<S: machine::Shard>(&self) -> Neighbours<S> {
        self.nearby.downcast_ref::<Neighbours<S>>().cloned().unwrap_or_default()
    }

    /// Tells how its shards are, for as long as the node runs.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    fn spawn(
        &mut self,
        name: String,
        says: &Sender<Ended>,
        run: impl FnOnce() -> Result<(), ServeError> + Send + 'static,
    ) -> Result<(), ServeError> {
        let says = says.clone();
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let ended =
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(ServeError::Failed(name.clone())));
            // After the node has ended there is no receiver.
            let _ = says.send((name, ended));
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Serves until it is stopped or one of its threads fails; then all end.
    ///
    /// # Errors
    /// The error of the failed thread.
    pub fn wait(self) -> Result<(), ServeError> {
        let (_, ended) = self.ended.recv().expect("the node itself can always be heard");
        // A shard that runs a statement handles no other message before the statement has ended.
        let over = || {
            SqlError::new(
                SqlState::QUERY_CANCELED,
                "canceling statement because the node that computes it ends",
            )
        };
        self.interrupts.iter().for_each(|one| one.interrupt_all(over()));
        let led = self.members.iter().filter_map(|place| place.interrupts());
        led.for_each(|one| one.interrupt_all(over()));
        self.inboxes.iter().for_each(|inbox| inbox.send(Arrival::Stop));
        self.members.iter().for_each(|place| place.member.send(MemberArrival::Stop));
        self.waker.wake()?;
        for thread in self.threads {
            thread.join().expect("a thread catches what happens on it");
        }
        // Reports also an error that occurred meanwhile.
        ended?;
        self.ended.try_iter().try_for_each(|(_, ended)| ended)
    }
}

/// The node of that name, if it may listen where it says.
fn named<'c>(cluster: &'c ClusterFile, name: &str, insecure: bool) -> Result<&'c Node, ServeError> {
    let Some(node) = cluster.nodes.get(name) else {
        let names: Vec<&str> = cluster.nodes.keys().map(String::as_str).collect();
        let remedy = format!("its nodes are: {}", names.join(", "));
        return Err(ServeError::Settings(format!("the cluster file has no node `{name}`"), remedy));
    };
    if !(node.is_loopback() || cluster.has_tls() && cluster.has_secret()) {
        let message = format!(
            "`{}` can be reached from other machines, and the cluster file has no TLS or no secret",
            node.address
        );
        if !insecure {
            let remedy = "give both, or --insecure on a network where nobody else is".to_string();
            return Err(ServeError::Settings(message, remedy));
        }
        warn!("{message}");
    }
    Ok(node)
}

/// What the shards of a node have in common.
#[derive(Clone)]
struct Common {
    cluster: ClusterFile,
    /// Name of the node.
    name: String,
    terms: Terms,
    told: Arc<Outgoing>,
    seen: Arc<Seen>,
    permits: Arc<Permits>,
    tls: Option<Tls>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Clock that another shard of the node, or the operator, vouches for.
    reached: u64,
    /// Memory limit of each shard.
    memory: Option<usize>,
    /// Memory limit of one statement.
    statement_memory: u64,
}

/// Begins a run of each shard, once their logs agree on what there was.
fn compare_logs<'l>(
    logs: impl Iterator<Item = (ShardId, Option<&'l mut Log>)>,
    data: &Path,
    accepts_older: bool,
) -> Result<Arc<Seen>, ServeError> {
    let seen = Arc::new(Seen::default());
    if accepts_older {
        seen.give_up();
    }
    for (shard, log) in logs {
        let mut run = [0; 8];
        getrandom::fill(&mut run).map_err(std::io::Error::other)?;
        let past = log.as_ref().map_or_else(Past::default, |log| log.past().clone());
        seen.start(shard, past, u64::from_le_bytes(run));
        if let Some(log) = log {
            log.compare(seen.clone());
        }
    }
    let outdated =
        |older: Outdated| ServeError::Data(data.join(format!("shard-{}", older.shard)), older.to_string());
    seen.check_each_other().map_err(outdated)?;
    Ok(seen)
}

fn open_shard<S>(
    (shard, mut machine): (ShardId, S),
    records: Records<S::Record>,
    common: &Common,
) -> Result<ShardLoop<S>, ServeError>
where
    S: Exposed,
    S::Request: Serialize + DeserializeOwned,
    S::Reply: Serialize,
    S::Progress: DeserializeOwned,
    S::Record: Serialize + DeserializeOwned,
{
    let Common { cluster, name, terms, told, seen, permits, tls, limits } = common;
    machine.restore_clock(limits.reached);
    machine.set_memory_max(limits.memory);
    machine.set_step_budget(STEP_BUDGET);
    if let Some(interrupts) = machine.interrupts() {
        interrupts.set_memory_max(limits.statement_memory);
    }
    // Requests before its first turn are answered with the recovered schema.
    told.tell::<S>(machine.take_description(), terms);
    let link = |other, token| {
        let ends = (ids::Sender::Shard(shard), other);
        let terms = (terms.clone(), seen.clone());
        Link::new(cluster.holders(other), ends, terms, tls.clone(), token, Instant::now())
    };
    let others = cluster.nodes.iter().filter(|(other, _)| *other != name);
    let neighbours = others.filter_map(|(_, other)| other.shards.first().copied()).collect();
    Ok(ShardLoop::new(
        machine,
        (cluster.shards, neighbours),
        records,
        (told.clone(), terms.clone()),
        (seen.clone(), permits.clone()),
        link,
    )?)
}

/// Directory of a member's log.
fn group_directory(data: &Path, shard: ShardId) -> PathBuf {
    data.join(format!("group-{shard}"))
}

/// A shard stays what it is: the log of one is none of the other.
fn check_kinds(
    groups: &[ShardId],
    alone: &[ShardId],
    data: Option<&(PathBuf, Durability)>,
) -> Result<(), ServeError> {
    let Some((data, _)) = data else {
        return match groups.first() {
            None => Ok(()),
            Some(shard) => Err(ServeError::Settings(
                format!("shard {shard} is a replica group, and this node keeps nothing"),
                "give --data a directory: members promise what they have written".into(),
            )),
        };
    };
    let taken = |shard: &ShardId, directory: PathBuf, what: &str| match directory.exists() {
        false => Ok(()),
        true => Err(ServeError::Data(
            directory,
            format!(
                "shard {shard} was {what} when that was written. Dump the database, and load it into a new cluster"
            ),
        )),
    };
    groups.iter().try_for_each(|shard| taken(shard, data.join(format!("shard-{shard}")), "on one node"))?;
    alone.iter().try_for_each(|shard| taken(shard, group_directory(data, *shard), "a replica group"))
}

/// This node's member of the shard's group.
fn open_member(
    shard: ShardId,
    ((data, durability), snapshot_after): (&(PathBuf, Durability), u64),
    common: &Common,
) -> Result<(MemberLoop, bool), ServeError> {
    let Common { cluster, name, terms, tls, .. } = common;
    let nodes = cluster.holders(shard);
    let place = cluster.members(shard).position(|(of, _)| of == name).expect("the shard is on this node");
    let settings = MemberSettings {
        shard,
        place: place as u8,
        addresses: nodes.iter().map(|node| node.address.clone()).collect(),
        directory: group_directory(data, shard),
        durability: *durability,
        snapshot_after,
    };
    let versions = REPLICATES_FROM.max(*terms.versions.start())..=*terms.versions.end();
    let terms = Terms { versions, protocol: REPLICATION.into(), ..terms.clone() };
    let link = |place: u8, token| {
        let node = nodes[usize::from(place)].clone();
        let ends = (ids::Sender::Shard(shard), shard);
        Link::new(vec![node], ends, (terms.clone(), Arc::default()), tls.clone(), token, Instant::now())
    };
    MemberLoop::new(settings, link)
}

/// How the machine of a group is started whenever this node begins to lead. `begins_with`: records of a shard that has no log yet.
fn machine_of<S>(
    (shard, directory): (ShardId, PathBuf),
    common: &Common,
    recover: &Arc<Recover<S>>,
    begins_with: Vec<S::Record>,
    member: Arc<MemberInbox>,
) -> StartMachine
where
    S: Exposed,
    S::Request: Serialize + DeserializeOwned,
    S::Reply: Serialize,
    S::Progress: DeserializeOwned,
    S::Record: Serialize + DeserializeOwned,
{
    let (common, recover) = (common.clone(), recover.clone());
    let begins_with = Arc::new(Mutex::new(begins_with));
    Box::new(move |lead| {
        let (common, recover, begins_with) = (common.clone(), recover.clone(), begins_with.clone());
        let (member, directory) = (member.clone(), directory.clone());
        let name = format!("shard-{shard}");
        let thread = std::thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let term = lead.term();
            let run = || lead_group::<S>((shard, &directory), lead, &common, &*recover, &begins_with);
            let how = catch_unwind(AssertUnwindSafe(run));
            member.send(MemberArrival::Ended { term, how: how.unwrap_or(Err(ServeError::Failed(name))) });
        })
    })
}

/// Recovers the machine from the log of the group, and serves while this node leads.
fn lead_group<S>(
    (shard, directory): (ShardId, &Path),
    lead: Lead,
    common: &Common,
    recover: &Recover<S>,
    begins_with: &Mutex<Vec<S::Record>>,
) -> Result<(), ServeError>
where
    S: Exposed,
    S::Request: Serialize + DeserializeOwned,
    S::Reply: Serialize,
    S::Progress: DeserializeOwned,
    S::Record: Serialize + DeserializeOwned,
{
    let since = Instant::now();
    let mut records = lead.records::<S::Record>(directory, shard)?;
    let first = records.next();
    let is_new = first.is_none();
    let begins = {
        let mut begins = begins_with.lock().unwrap_or_else(PoisonError::into_inner);
        if is_new { begins.clone() } else { std::mem::take(&mut *begins) }
    };
    let begins = if is_new { begins } else { Vec::new() };
    let mut count = 0_u64;
    let mut all = begins.into_iter().chain(first).chain(records.by_ref()).inspect(|_| count += 1);
    let made = recover(shard, &mut all, true);
    drop(all);
    if let Some(why) = records.failed(made.is_ok()) {
        return Err(ServeError::Data(directory.into(), why));
    }
    let mut machine = made?;
    if lead.is_over() {
        return Ok(());
    }
    info!(shard, records = count, seconds = since.elapsed().as_secs_f64(), "recovered from the group's log");
    let log = lead.log();
    if is_new {
        // Its first state is nowhere else.
        log.begin_with(machine.snapshot());
    }
    let one = open_shard((shard, machine), Records::Group(log), common)?;
    if !lead.open(one.inbox(), one.counter().interrupts()) {
        return Ok(());
    }
    one.run().map_err(ServeError::Log)
}

/// Claims a data directory; rejects one of another node, another application, or a running node.
fn claim(directory: &Path, cluster: &ClusterFile, node: &str, terms: &Terms) -> Result<File, ServeError> {
    let path = directory.join("identity");
    let failed = |error: std::io::Error| ServeError::Data(path.clone(), error.to_string());
    log::make_directory(directory).map_err(|error| ServeError::Data(directory.into(), error.to_string()))?;
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    if file.try_lock().is_err() {
        return Err(ServeError::Data(path, "another process is running on this data".into()));
    }
    let whose = format!("weir data, format 1\nnode {node}\nshards {}\n", cluster.shards);
    let carries = format!("carries {} {:016x}\n", terms.protocol, terms.placement);
    let own = format!("{whose}{carries}");
    let mut found = String::new();
    file.read_to_string(&mut found).map_err(failed)?;
    // The build before did not say what it carries; where that is items, there is one thing only that it can be.
    if found.is_empty() || found == whose && terms.protocol == "items" {
        file.rewind().map_err(failed)?;
        file.write_all(own.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        log::sync_directory(directory).map_err(failed)?;
    } else if let Some(written_by) = found.strip_prefix(&whose).filter(|carried| *carried != carries) {
        let why = format!(
            "the logs here were written by another application: {:?}, and this is {:?}. What is in them has the numbers of its \
             tables and procedures. Start the node with the application that wrote them (its texts, settings, seed, and the same \
             version of weir), or give --data an empty directory",
            written_by.trim_end(),
            carries.trim_end()
        );
        return Err(ServeError::Data(path, why));
    } else if found != own {
        let why = format!(
            "the data belongs to another node or cluster: {:?}, not {:?}",
            found.trim_end(),
            own.trim_end()
        );
        return Err(ServeError::Data(path, why));
    }
    Ok(file)
}

/// The history is ahead of the clock: the clock was wrong once, or is now.
fn warn_of_clock(reached_ms: u64) {
    let ahead_ms = reached_ms.saturating_sub(now_ms());
    if ahead_ms > CLOCK_AHEAD_MS_MAX {
        warn!(
            ahead_seconds = ahead_ms / 1_000,
            "what is in the log was written at a clock that was ahead of this one: set this clock if it is behind; else nothing need be \
             done, but nodes that have none of that log take it for wrong until they are started with --clock-reached {reached_ms}"
        );
    }
}
