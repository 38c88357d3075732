//! Registry of the sessions, by the process number reported to each client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use bytes::Bytes;
use pgwire::messages::startup::SecretKey;
use weir_observe::Counter;

use crate::backend::Backend;
use crate::watch::Phase;

#[derive(Default)]
pub(crate) struct SessionRegistry {
    last: AtomicI32,
    sessions: Mutex<BTreeMap<i32, Entered>>,
    pub(crate) entered: Counter,
}

struct Entered {
    /// With it and the number a statement may be cancelled from another connection.
    secret: Bytes,
    session: Weak<Backend>,
}

impl SessionRegistry {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<i32, Entered>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, session: &Arc<Backend>) -> (i32, SecretKey) {
        let mut secret = [0; 4];
        getrandom::fill(&mut secret).expect("the system has randomness");
        let secret = SecretKey::I32(i32::from_be_bytes(secret));
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let entered = Entered { secret: secret.to_bytes(), session: Arc::downgrade(session) };
        self.sessions().insert(number, entered);
        self.entered.add(1);
        (number, secret)
    }

    pub fn leave(&self, number: i32) {
        self.sessions().remove(&number);
    }

    /// Session with that secret, which authorises cancellation.
    pub fn with_secret(&self, number: i32, secret: &Bytes) -> Option<Arc<Backend>> {
        let sessions = self.sessions();
        sessions.get(&number).filter(|entered| entered.secret == *secret)?.session.upgrade()
    }

    pub fn get(&self, number: i32) -> Option<Arc<Backend>> {
        self.sessions().get(&number)?.session.upgrade()
    }

    pub fn all(&self) -> Vec<(i32, Arc<Backend>)> {
        let of = |(number, entered): (&i32, &Entered)| Some((*number, entered.session.upgrade()?));
        self.sessions().iter().filter_map(of).collect()
    }

    /// Sessions whose statement has been running for a while.
    pub fn busy(&self, now: Instant) -> Vec<Arc<Backend>> {
        let busy = |(_, session): (i32, Arc<Backend>)| session.is_busy(now).then_some(session);
        self.all().into_iter().filter_map(busy).collect()
    }

    pub fn by_phase(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let phases: Vec<Phase> = self.all().iter().map(|(_, session)| session.activity.now().phase).collect();
        Phase::ALL.map(|phase| (phase.name(), phases.iter().filter(|one| **one == phase).count())).into_iter()
    }
}
