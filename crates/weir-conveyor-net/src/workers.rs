//! Threads that do the work of an agent, each with connections of its own: a bounded pool for each kind of work.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use postgres::{CancelToken, NoTls};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::{Work, WorkId};

use crate::connection::{Connection, Tables};
use crate::operation::{SqlDone, SqlWork};

/// Threads for work of the protocol: it does not wait for operations.
const PROTOCOL_THREADS: usize = 4;

/// Where the servers are, and what they hold.
#[derive(Clone, Debug)]
pub struct Databases {
    /// Connection strings.
    pub configs: BTreeMap<ServerId, String>,
    pub tables: Arc<Tables>,
}

type Job = (WorkId, SqlWork);
/// Handles that cancel the statements of work that runs.
type Cancels = Arc<Mutex<BTreeMap<WorkId, CancelToken>>>;

/// The pools of an agent.
pub struct Workers {
    local: Sender<Job>,
    global: Sender<Job>,
    protocol: Sender<Job>,
    cancels: Cancels,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// `done` is called with the end of each piece of work, from its thread.
    pub fn start(
        server: ServerId,
        databases: &Databases,
        settings: &Settings,
        done: impl Fn(WorkId, SqlDone) + Clone + Send + 'static,
    ) -> Workers {
        let cancels = Cancels::default();
        let mut threads = Vec::new();
        let mut pool = |size: usize| {
            let (sender, jobs) = channel();
            let jobs = Arc::new(Mutex::new(jobs));
            for _ in 0..size {
                let worker = Worker {
                    server,
                    databases: databases.clone(),
                    connections: BTreeMap::new(),
                    cancels: cancels.clone(),
                };
                let (jobs, done) = (jobs.clone(), done.clone());
                threads.push(std::thread::spawn(move || worker.run(&jobs, &done)));
            }
            sender
        };
        let (local, global) = (pool(settings.local_max), pool(settings.global_max));
        let protocol = pool(PROTOCOL_THREADS);
        Workers { local, global, protocol, cancels, threads }
    }

    pub fn submit(&self, id: WorkId, work: SqlWork) {
        let pool = match &work {
            Work::Execute { license: None, .. } => &self.local,
            Work::Execute { license: Some(_), .. } => &self.global,
            _ => &self.protocol,
        };
        // A pool whose threads have ended has an agent that ends.
        let _ = pool.send((id, work));
    }

    /// Cancels the statement of a piece of work, if it runs.
    pub fn cancel(&self, id: WorkId) {
        let token = self.cancels.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(token) = token {
            std::thread::spawn(move || token.cancel_query(NoTls));
        }
    }

    /// Ends the threads once they have done what they do.
    pub fn stop(self) {
        drop((self.local, self.global, self.protocol));
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// A thread with its connections.
struct Worker {
    server: ServerId,
    databases: Databases,
    connections: BTreeMap<ServerId, Connection>,
    cancels: Cancels,
}

impl Worker {
    fn run(mut self, jobs: &Mutex<Receiver<Job>>, done: &impl Fn(WorkId, SqlDone)) {
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((id, work)) = next else { return };
            done(id, self.work(id, &work));
        }
    }

    fn work(&mut self, id: WorkId, work: &SqlWork) -> SqlDone {
        let server = match work {
            Work::Read { server, .. } | Work::Fence { server, .. } => *server,
            _ => self.server,
        };
        self.connections.retain(|_, connection| connection.is_open());
        if !self.connections.contains_key(&server) {
            let Some(config) = self.databases.configs.get(&server) else { return SqlDone::Lost };
            let Ok(connection) = Connection::open(config, self.databases.tables.clone()) else {
                return SqlDone::Lost;
            };
            self.connections.insert(server, connection);
        }
        let Some(connection) = self.connections.get_mut(&server) else { return SqlDone::Lost };
        let cancels = self.cancels.clone();
        cancels.lock().unwrap_or_else(PoisonError::into_inner).insert(id, connection.cancel_token());
        let done = connection.run(work);
        cancels.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if done == SqlDone::Lost {
            self.connections.remove(&server);
        }
        done
    }
}
