//! Threads that do the work of an agent, each with connections of its own: a bounded pool for each kind of work.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use postgres::{CancelToken, NoTls};
use tokio::runtime::{Builder, Runtime};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::{License, Work, WorkId};

use crate::connection::{Connection, Tables};
use crate::connections::Connections;
use crate::locals::Locals;
use crate::operation::{Job, SessionNumber, SqlDone, SqlError, SqlWork};
use crate::session_worker;
use crate::sessions::{Control, Ending, SessionReply, Sessions};

/// Threads for work of the protocol: it does not wait for operations.
const PROTOCOL_THREADS: usize = 4;

/// Where the servers are, and what they hold.
#[derive(Clone, Debug)]
pub struct Databases {
    /// Connection strings.
    pub configs: BTreeMap<ServerId, String>,
    pub tables: Arc<Tables>,
}

impl Databases {
    /// The connection string of a server; empty for one that is not known, to which nobody connects.
    pub(crate) fn config(&self, server: ServerId) -> String {
        self.configs.get(&server).cloned().unwrap_or_default()
    }
}

type Task = (WorkId, SqlWork);
/// Handles that cancel the statements of work that runs.
type Cancels = Arc<Mutex<BTreeMap<WorkId, Cancel>>>;

#[derive(Clone)]
enum Cancel {
    Statement(CancelToken),
    Session(Arc<Control>),
}

/// The pools of an agent.
pub struct Workers {
    local: Sender<Task>,
    global: Sender<Task>,
    protocol: Sender<Task>,
    cancels: Cancels,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// `done` is called with the end of each piece of work, from its thread.
    pub(crate) fn start(
        server: ServerId,
        databases: &Databases,
        settings: &Settings,
        (sessions, locals): (Sessions, Locals),
        done: impl Fn(WorkId, SqlDone) + Clone + Send + 'static,
    ) -> Workers {
        let cancels = Cancels::default();
        let mut threads = Vec::new();
        let globals = Connections::new(databases.config(server), false, settings.global_max);
        let mut pool = |size: usize| {
            let (sender, jobs) = channel();
            let jobs = Arc::new(Mutex::new(jobs));
            for _ in 0..size {
                let worker = Worker {
                    server,
                    databases: databases.clone(),
                    connections: BTreeMap::new(),
                    runtime: None,
                    locals: locals.clone(),
                    globals: globals.clone(),
                    sessions: sessions.clone(),
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
        let cancel = self.cancels.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        match cancel {
            Some(Cancel::Statement(token)) => drop(std::thread::spawn(move || token.cancel_query(NoTls))),
            Some(Cancel::Session(control)) => drop(std::thread::spawn(move || control.abort())),
            None => {}
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
    /// Looks after the connections that sessions use here.
    runtime: Option<Runtime>,
    locals: Locals,
    globals: Arc<Connections>,
    sessions: Sessions,
    cancels: Cancels,
}

impl Worker {
    fn run(mut self, jobs: &Mutex<Receiver<Task>>, done: &impl Fn(WorkId, SqlDone)) {
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((id, work)) = next else { return };
            done(id, self.work(id, &work));
        }
    }

    fn work(&mut self, id: WorkId, work: &SqlWork) -> SqlDone {
        if let Work::Execute { operation: Job::Session(number), license, .. } = work {
            return self.run_session(id, *number, *license);
        }
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
            self.connections.insert(server, connection.of_server(server));
        }
        let Some(connection) = self.connections.get_mut(&server) else { return SqlDone::Lost };
        let cancels = self.cancels.clone();
        cancels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, Cancel::Statement(connection.cancel_token()));
        let done = match work {
            Work::Copy { from } => connection.copy(&self.databases.config(*from)),
            work => connection.run(work),
        };
        cancels.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if done == SqlDone::Lost {
            self.connections.remove(&server);
        }
        done
    }

    fn run_session(&mut self, id: WorkId, number: SessionNumber, license: Option<License>) -> SqlDone {
        // The session has gone if it has no port: it had nothing to lose yet.
        let Some(mut port) = self.sessions.take(number) else { return SqlDone::Executed(Ok(Vec::new())) };
        let runtime = match self
            .runtime
            .take()
            .map_or_else(|| Builder::new_current_thread().enable_all().build(), Ok)
        {
            Ok(runtime) => runtime,
            Err(error) => {
                let message = format!("the system has no more files: {error}");
                let error = SqlError { sqlstate: "53000".to_owned(), message };
                port.replies.say_now(SessionReply::Over(Ending::Failed(error)));
                return SqlDone::Cancelled;
            }
        };
        let lock = |cancels: &Cancels, each: Option<Cancel>| {
            let mut cancels = cancels.lock().unwrap_or_else(PoisonError::into_inner);
            match each {
                Some(cancel) => drop(cancels.insert(id, cancel)),
                None => drop(cancels.remove(&id)),
            }
        };
        lock(&self.cancels, Some(Cancel::Session(port.control.clone())));
        let done = match license {
            None => runtime.block_on(self.locals.attempt(&mut port)),
            license => runtime.block_on(session_worker::run(&self.globals, &mut port, license)),
        };
        lock(&self.cancels, None);
        self.runtime = Some(runtime);
        if matches!(done, SqlDone::SerializationFailure | SqlDone::NotLicensed) {
            self.sessions.put_back(number, port);
        }
        done
    }
}
