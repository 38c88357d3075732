//! A pool of connections to one server, without an agent: transactions run as they are, at the isolation level that their client or the server says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use weir_conveyor::message::OperationId;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::Work;

use crate::operation::Job;
use crate::process::OpenTransaction;
use crate::relay::Here;
use crate::sessions::{Control, Replies, SessionPort, SessionStart, Sessions};
use crate::workers::{Databases, Workers};

/// The pool.
pub struct PassThrough {
    workers: Workers,
    sessions: Sessions,
    next: AtomicU64,
}

impl PassThrough {
    /// `config`: of the server. `connections`: at most so many.
    pub fn start(config: String, connections: usize) -> PassThrough {
        let databases = Databases { configs: BTreeMap::from([(0, config)]), tables: Arc::default() };
        let settings = Settings { local_max: connections, global_max: 0, ..Settings::default() };
        let sessions = Sessions::of_pass_through();
        // Nothing is run again, so nobody asks how it has ended.
        let workers = Workers::start(0, &databases, &settings, sessions.clone(), |_, _| ());
        PassThrough { workers, sessions, next: AtomicU64::new(0) }
    }

    pub fn open(&self, start: SessionStart, replies: Replies) -> OpenTransaction {
        let (sender, commands) = channel();
        let control = Arc::new(Control::new(sender));
        let port = SessionPort {
            start,
            commands,
            replies,
            control: control.clone(),
            pending: None,
            is_partial: true,
        };
        let number = self.sessions.add(port);
        let work = self.next.fetch_add(1, Ordering::Relaxed);
        let id = OperationId { agent: 0, start: 0, number: work };
        self.workers.submit(work, Work::Execute { id, operation: Job::Session(number), license: None });
        OpenTransaction::here(Here::new(control, number, self.sessions.clone()))
    }
}
