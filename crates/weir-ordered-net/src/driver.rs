//! The thread of a party: receives messages, runs its machine, makes records durable, sends messages.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Waker;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::lsn::{Lsn, Outgoing};
use weir_ordered::message::Party;
use weir_server::serve::log::{Log, LogError};

use crate::disk::Disk;
use crate::transport::{Received, Transport};
use crate::wire::OnWire;

/// Interval of the timers of all machines.
pub const TICK_MS: u64 = 5;

/// A machine that a party drives.
pub trait Machine: Send + 'static {
    type Message: OnWire;
    type Record: Serialize + DeserializeOwned + Send + 'static;

    /// A message has come. What it says of addresses may be taken here.
    fn on_received(&mut self, _received: &mut Received<Self::Message>, _transport: &mut Transport) {}
    /// Takes a message. What it sends is added.
    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Self::Message,
        out: &mut Vec<Outgoing<Party, Self::Message>>,
    );
    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, Self::Message>>);
    /// The records up to that position are durable.
    fn on_durable(&mut self, _now_ms: u64, _up_to: Lsn, _out: &mut Vec<Outgoing<Party, Self::Message>>) {}
    /// The records of the steps since the last call.
    fn take_records(&mut self) -> Vec<Self::Record>;
    /// The whole durable state, before which no record is needed. None: it has no durable state.
    fn snapshot(&self) -> Option<Self::Record>;
}

/// Why a party has ended, or did not begin.
#[derive(Debug)]
pub enum PartyError {
    /// The members are those of no cluster.
    Members(String),
    /// A socket or a thread.
    System(io::Error),
    Log(LogError),
    /// An assertion failed on its thread.
    Failed,
}

impl fmt::Display for PartyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartyError::Members(why) => write!(f, "the members of the cluster: {why}"),
            PartyError::System(error) => write!(f, "{error}"),
            PartyError::Log(error) => write!(f, "{error}"),
            PartyError::Failed => {
                write!(f, "an assertion of Weir failed on the thread of the party; see above")
            }
        }
    }
}

impl std::error::Error for PartyError {}

impl From<io::Error> for PartyError {
    fn from(error: io::Error) -> PartyError {
        PartyError::System(error)
    }
}

impl From<LogError> for PartyError {
    fn from(error: LogError) -> PartyError {
        PartyError::Log(error)
    }
}

/// A look at a machine and its transport, on the thread of the party. The last argument says whether everything noted is durable.
type Look<M> = Box<dyn FnOnce(&M, &Transport, bool) + Send>;

/// A party that runs.
pub struct Running<M> {
    /// Dropped: the party ends.
    looks: Sender<Look<M>>,
    waker: Arc<Waker>,
    thread: JoinHandle<Result<M, PartyError>>,
}

impl<M: Machine> Running<M> {
    /// Starts the thread of a party.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        name: &str,
        machine: M,
        transport: Transport,
        log: Option<Log>,
    ) -> Result<Running<M>, PartyError> {
        Running::start_since(Instant::now(), name, machine, transport, log)
    }

    /// Starts the thread of a party that counts time from that instant: parties that have the same one agree on what time it is.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start_since(
        begun: Instant,
        name: &str,
        machine: M,
        transport: Transport,
        log: Option<Log>,
    ) -> Result<Running<M>, PartyError> {
        let (looks, looked) = channel();
        let waker = transport.waker();
        let disk = match log {
            Some(log) => {
                let waker = waker.clone();
                // A waker that fails leaves the wait to the timer.
                let tell = move || drop(waker.wake());
                Some(Disk::start(format!("{name}-log"), log, tell)?)
            }
            None => None,
        };
        let out = Vec::new();
        let durable = Lsn::START;
        let driver = Driver { machine, transport, disk, looked, begun, timer_ms: 0, durable, out };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || driver.run())?;
        Ok(Running { looks, waker, thread })
    }

    /// Looks at the machine. None: the party has ended.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&M, &Transport, bool) -> T + Send + 'static,
    ) -> Option<T> {
        let (seen, see) = channel();
        let look = move |machine: &M, transport: &Transport, is_durable: bool| {
            // Whoever has asked may be gone.
            let _ = seen.send(look(machine, transport, is_durable));
        };
        self.looks.send(Box::new(look)).ok()?;
        self.waker.wake().ok()?;
        see.recv().ok()
    }

    /// Ends the party, once what it has noted is durable.
    ///
    /// # Errors
    /// It had ended before; why.
    pub fn stop(self) -> Result<M, PartyError> {
        drop(self.looks);
        self.waker.wake()?;
        self.thread.join().unwrap_or(Err(PartyError::Failed))
    }

    /// Waits until the party ends by itself, which only an error makes it do.
    pub fn wait(self) -> PartyError {
        match self.thread.join() {
            Ok(Err(error)) => error,
            _ => PartyError::Failed,
        }
    }
}

struct Driver<M: Machine> {
    machine: M,
    transport: Transport,
    disk: Option<Disk<M::Record, M::Message>>,
    looked: Receiver<Look<M>>,
    begun: Instant,
    /// When the timer is due.
    timer_ms: u64,
    /// Up to where the machine knows that its records are durable.
    durable: Lsn,
    /// Messages of a turn.
    out: Vec<Outgoing<Party, M::Message>>,
}

impl<M: Machine> Driver<M> {
    fn run(mut self) -> Result<M, PartyError> {
        let mut received = Vec::new();
        loop {
            let wait_ms = self.timer_ms.saturating_sub(self.now_ms());
            self.transport.receive(Duration::from_millis(wait_ms), &mut received)?;
            let now_ms = self.now_ms();
            for mut each in received.drain(..) {
                self.machine.on_received(&mut each, &mut self.transport);
                self.machine.step(now_ms, each.from, each.message, &mut self.out);
            }
            if now_ms >= self.timer_ms {
                self.timer_ms = now_ms + TICK_MS;
                self.machine.on_timer(now_ms, &mut self.out);
            }
            self.leave(now_ms)?;
            if !self.show() {
                break;
            }
        }
        if let Some(disk) = self.disk {
            disk.finish()?;
        }
        Ok(self.machine)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Notes the records of a turn, and sends what need not wait for the disk, or need not wait any more.
    fn leave(&mut self, now_ms: u64) -> Result<(), PartyError> {
        loop {
            let records = self.machine.take_records();
            let messages = self.out.drain(..);
            let Some(disk) = &mut self.disk else {
                self.transport.send(messages.map(|each| (each.to, each.message)));
                break;
            };
            self.transport.send(disk.take(records, messages));
            let machine = &self.machine;
            let snapshot = || machine.snapshot().expect("a machine with a disk has a durable state");
            self.transport.send(disk.on_written(snapshot)?);
            let durable = disk.durable();
            if durable == self.durable {
                break;
            }
            self.durable = durable;
            self.machine.on_durable(now_ms, durable, &mut self.out);
        }
        self.transport.flush();
        Ok(())
    }

    /// Shows the machine to whoever looks. Returns false once nobody can look any more.
    fn show(&self) -> bool {
        loop {
            match self.looked.try_recv() {
                Ok(look) => {
                    let is_durable = self.disk.as_ref().is_none_or(Disk::is_durable);
                    look(&self.machine, &self.transport, is_durable);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}
