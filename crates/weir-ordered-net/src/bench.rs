//! How many packets a sequencer stamps in a second on one core, over loopback, and the kernel's share of that core.
//!
//! Unless more are asked for, clients send a transaction in each datagram, so nothing is saved on the way in that clients of different machines
//! would not save. Sockets in the place of replicas take and count the packets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_kv::Bytes;
use weir_net::loopback::free_ports;
use weir_ordered::cluster::{Cluster, Timeouts};
use weir_ordered::message::Party;
use weir_ordered::packet::{Part, Transaction};
use weir_ordered::sequencer::Sequencer;

use crate::driver::{PartyError, Running};
use crate::members::{Members, Network};
use crate::sequencer;
use crate::transport::{Counts, Transport};
use crate::udp::Datagrams;
use crate::wire::{self, Datagram, Message, Operation};

/// Datagrams that clients send in one call.
const BATCH: usize = 64;
/// Different datagrams that clients send.
const DATAGRAMS: u64 = 4_096;
/// A quarter of a second for a first epoch, and to warm up.
const WARM_UP: Duration = Duration::from_millis(250);

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub shards: ShardId,
    pub replicas: u16,
    /// Every so many transactions, one is of two shards.
    pub distributed_every: u64,
    /// Transactions that clients send in one datagram.
    pub per_datagram: u64,
    /// Size of an operation.
    pub bytes: usize,
    pub duration: Duration,
}

/// Figures of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub seconds: f64,
    /// Transactions stamped.
    pub stamped: u64,
    /// Packets sent: one for each replica of each participant.
    pub sent: u64,
    /// Packets that have arrived.
    pub arrived: u64,
    /// Processor time of the sequencer's thread, and the kernel's part of it.
    pub cpu_seconds: f64,
    pub kernel_seconds: f64,
    pub counts: Counts,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stamped, calls) = (self.stamped as f64, self.counts.calls);
        let share = |part: f64, whole: f64| 100.0 * part / whole.max(f64::MIN_POSITIVE);
        writeln!(f, "packets a second on one core      {:>12.0}", self.per_core_second())?;
        writeln!(f, "  of them in wall time            {:>12.0}", stamped / self.seconds)?;
        writeln!(f, "the thread's share of the core    {:>11.1}%", share(self.cpu_seconds, self.seconds))?;
        writeln!(
            f,
            "the kernel's share of that        {:>11.1}%",
            share(self.kernel_seconds, self.cpu_seconds)
        )?;
        writeln!(f, "packets sent for each             {:>12.2}", self.sent as f64 / stamped)?;
        writeln!(
            f,
            "  of them arrived                 {:>11.1}%",
            share(self.arrived as f64, self.sent as f64)
        )?;
        writeln!(
            f,
            "datagrams received, for a call    {:>12.1}",
            calls.received as f64 / calls.receive_calls.max(1) as f64
        )?;
        writeln!(
            f,
            "packets in a datagram sent        {:>12.1}",
            self.sent as f64 / calls.sent.max(1) as f64
        )?;
        write!(
            f,
            "packets sent in a call            {:>12.1}",
            self.sent as f64 / calls.send_calls.max(1) as f64
        )
    }
}

impl Figures {
    /// Transactions stamped in a second of the thread's processor time.
    pub fn per_core_second(&self) -> f64 {
        self.stamped as f64 / self.cpu_seconds.max(f64::MIN_POSITIVE)
    }
}

/// Measures a sequencer in this process.
///
/// # Errors
/// The system's.
pub fn run(load: &Load) -> Result<Figures, PartyError> {
    let members = Arc::new(members(load));
    let (ends, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    // Threads begin on the processor of the thread that makes them.
    stay_on(0);
    let running = sequencer::start(members.clone(), 0, None)?;
    stay_on(1);
    let sinks = sinks(&members)?;
    let measured = std::thread::scope(|threads| {
        threads.spawn(|| take(sinks, &members, (&ends, &arrived)));
        let measured = begin_epoch(&members).and_then(|()| {
            threads.spawn(|| submit(load, &members, &ends));
            measure(&running, &arrived, load.duration)
        });
        ends.store(true, Ordering::Relaxed);
        measured
    });
    running.stop()?;
    measured
}

fn members(load: &Load) -> Members {
    let replicas = usize::from(load.shards) * usize::from(load.replicas);
    let mut addresses =
        free_ports(replicas + 2).into_iter().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut take = |count| addresses.by_ref().take(count).collect::<Vec<_>>();
    let (coordinators, sequencers, replicas) = (take(1), take(1), take(replicas));
    let timeouts = Timeouts::DEFAULT;
    let Load { shards, replicas: of_shard, .. } = *load;
    let cluster = Cluster { shards, replicas: of_shard, timeouts, truncate_entries: 1, aside_max: 2 };
    Members { cluster, tag: 0xbe7c, network: Network::Udp, coordinators, sequencers, replicas }
}

/// Gives the sequencer an epoch, as the failure coordinator would.
fn begin_epoch(members: &Arc<Members>) -> Result<(), PartyError> {
    let mut transport = Transport::bind(members.clone(), Party::CoordinatorNode(0), None)?;
    let mut received = Vec::new();
    loop {
        transport.receive(Duration::from_secs(1), &mut received)?;
        for each in received.drain(..) {
            match (each.from, each.message) {
                (_, Message::SequencerAlive { epoch: 1.., .. }) => return Ok(()),
                (Party::Sequencer(sequencer), Message::SequencerAlive { .. }) => {
                    let begin = Message::NewSequencer { epoch: 1, sequencer, client_floor: 1 };
                    transport.send([(each.from, begin)].into_iter());
                }
                _ => {}
            }
        }
        transport.flush();
    }
}

fn sinks(members: &Members) -> io::Result<Vec<Datagrams>> {
    members.replicas.iter().map(|address| Datagrams::bind(*address)).collect()
}

/// Takes and counts what replicas would get.
fn take(mut sinks: Vec<Datagrams>, members: &Members, (ends, arrived): (&AtomicBool, &AtomicU64)) {
    let Ok(mut poll) = Poll::new() else { return };
    for (place, sink) in sinks.iter_mut().enumerate() {
        if sink.register(poll.registry(), Token(place)).is_err() {
            return;
        }
    }
    let mut events = Events::with_capacity(sinks.len());
    while !ends.load(Ordering::Relaxed) {
        // An interrupted wait is one that has ended.
        let _ = poll.poll(&mut events, Some(Duration::from_millis(10)));
        events.iter().for_each(|event| sinks[event.token().0].on_readable());
        for sink in &mut sinks {
            while sink.is_readable() && !ends.load(Ordering::Relaxed) {
                sink.receive(|_, datagram| {
                    // Heartbeats are few.
                    let opened = wire::open(members.tag, datagram, &members.cluster);
                    let count = opened.map_or(0, |opened| opened.filter(Result::is_ok).count());
                    arrived.fetch_add(count as u64, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Sends transactions, each in a datagram, as fast as the system takes them.
fn submit(load: &Load, members: &Members, ends: &AtomicBool) {
    let Ok(mut socket) = Datagrams::bind(SocketAddr::from(([127, 0, 0, 1], 0))) else { return };
    let datagrams: Vec<Vec<u8>> = (0..DATAGRAMS).map(|number| datagram(load, members, number)).collect();
    let to = members.sequencers[0];
    let addressed: Vec<_> = datagrams.iter().map(|datagram| (to, &datagram[..])).collect();
    for batch in addressed.chunks(BATCH).cycle().take_while(|_| !ends.load(Ordering::Relaxed)) {
        socket.send_single(batch);
    }
}

/// A datagram of a client.
fn datagram(load: &Load, members: &Members, number: u64) -> Vec<u8> {
    let client: CoordinatorId = number % 64;
    let (datagram, mut bytes) = (Datagram::new(members.tag, Party::Client(client)), Vec::new());
    datagram.begin(&mut bytes);
    let first = number * load.per_datagram;
    for number in first..first + load.per_datagram {
        let mut message = Vec::new();
        wire::encode(&Message::Submit(Arc::new(transaction(load, client, number))), &mut message);
        Datagram::push(&message, &mut bytes);
    }
    datagram.seal(&mut bytes);
    bytes
}

/// A transaction of one shard, or of two.
fn transaction(load: &Load, coordinator: CoordinatorId, number: u64) -> Transaction<Operation> {
    let shards = u64::from(load.shards);
    let mut destinations = vec![(number % shards) as ShardId];
    if number.is_multiple_of(load.distributed_every.max(1)) && shards > 1 {
        destinations.push(((number + 1) % shards) as ShardId);
        destinations.sort_unstable();
    }
    let operation = Operation { reply_to: None, body: Bytes::new(&vec![7; load.bytes]) };
    let id = TxnId { coordinator, sequence: number + 1 };
    Transaction {
        id,
        floor: 1,
        registration: 1,
        destinations: destinations.into(),
        part: Part::Independent,
        operation,
    }
}

/// Packets of the sequencer so far, and the time that they have taken.
struct Moment {
    at: Instant,
    counts: Counts,
    cpu: Option<Cpu>,
}

fn moment(running: &Running<Sequencer>) -> Result<Moment, PartyError> {
    let look = |_: &Sequencer, transport: &Transport, _: bool| Moment {
        at: Instant::now(),
        counts: transport.counts(),
        cpu: Cpu::of_thread(),
    };
    running.look(look).ok_or(PartyError::Failed)
}

fn measure(
    running: &Running<Sequencer>,
    arrived: &AtomicU64,
    duration: Duration,
) -> Result<Figures, PartyError> {
    std::thread::sleep(WARM_UP);
    let (begun, arrived_before) = (moment(running)?, arrived.load(Ordering::Relaxed));
    std::thread::sleep(duration);
    let (ended, arrived_after) = (moment(running)?, arrived.load(Ordering::Relaxed));
    let no_clock = || PartyError::System(io::Error::other("/proc says nothing of the time of threads"));
    let cpu = ended.cpu.zip(begun.cpu).map(|(ended, begun)| ended.since(begun)).ok_or_else(no_clock)?;
    let counts = ended.counts.since(&begun.counts);
    Ok(Figures {
        seconds: (ended.at - begun.at).as_secs_f64(),
        stamped: counts.received,
        sent: counts.packets_sent,
        arrived: arrived_after - arrived_before,
        cpu_seconds: cpu.user_seconds + cpu.kernel_seconds,
        kernel_seconds: cpu.kernel_seconds,
        counts,
    })
}

/// Processor time of a thread.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    user_seconds: f64,
    kernel_seconds: f64,
}

impl Cpu {
    /// Ticks of /proc in a second, on every machine with Linux.
    const TICKS: f64 = 100.0;

    /// Time of this thread so far. None: the system does not say.
    fn of_thread() -> Option<Cpu> {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
        // The name is in parentheses, and may have anything in it. Times of user and kernel are the 12th and 13th fields behind it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / Cpu::TICKS);
        Some(Cpu { user_seconds: seconds()?, kernel_seconds: seconds()? })
    }

    fn since(self, before: Cpu) -> Cpu {
        Cpu {
            user_seconds: self.user_seconds - before.user_seconds,
            kernel_seconds: self.kernel_seconds - before.kernel_seconds,
        }
    }
}

/// Keeps this thread, and those that it makes, on one processor, so that the others do not disturb it.
#[cfg(target_os = "linux")]
fn stay_on(processor: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};

    let mut set = CpuSet::new();
    set.set(processor);
    // On a machine of one processor all share it.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn stay_on(_: usize) {}
