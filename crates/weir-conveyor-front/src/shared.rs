//! The state that all sessions of a process share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::sync::watch;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::routing::{MapVersion, Routing};
use weir_conveyor_net::config::Server;
use weir_conveyor_net::process::OpenTransaction;

use crate::application::Application;
use crate::executor::{Names, SharedExecutor};
use crate::figures::Figures;
use crate::rows::Keys;

/// The way in which transactions are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are placed.
    Placed,
    /// All go to the server beside the agent as they are. How they would be placed is counted.
    Observes,
}

/// The settings of a front.
pub struct FrontSettings {
    pub server: ServerId,
    pub start: u64,
    pub servers: Vec<Server>,
    pub mode: Mode,
    pub application: Arc<dyn Application>,
    pub executor: SharedExecutor,
    /// Settings of the server that clients are told.
    pub parameters: BTreeMap<String, String>,
    /// Names of the functions and relations of the database that are not the server's own, sorted.
    pub own_names: Vec<String>,
    /// Columns of primary keys.
    pub keys: Keys,
    /// The one database that clients name.
    pub database: String,
    pub password: Option<String>,
}

/// Shared by all sessions.
pub(crate) struct Shared {
    pub server: ServerId,
    pub servers: Vec<Server>,
    pub mode: Mode,
    application: RwLock<Arc<dyn Application>>,
    pub executor: SharedExecutor,
    pub parameters: BTreeMap<String, String>,
    own_names: Vec<String>,
    pub keys: Keys,
    /// The one database that clients name.
    pub database: String,
    pub names: Names,
    pub figures: Figures,
    pub registry: Registry,
    /// Changes of the map that this agent was told to make, the newest last: the statement, and what has become of it.
    pub moves: Mutex<Vec<(String, String)>>,
    /// Everything goes to the server beside the agent.
    pub bypasses: AtomicBool,
    /// Definitions are allowed.
    pub is_maintained: AtomicBool,
    /// True once sessions are to end.
    pub ends: watch::Sender<bool>,
}

impl Shared {
    pub fn new(settings: FrontSettings) -> Shared {
        let FrontSettings { server, start, servers, mode, application, executor, .. } = settings;
        Shared {
            server,
            servers,
            mode,
            application: RwLock::new(application),
            executor,
            parameters: settings.parameters,
            own_names: settings.own_names,
            keys: settings.keys,
            database: settings.database,
            names: Names::new(server, start),
            figures: Figures::default(),
            registry: Registry::default(),
            moves: Mutex::default(),
            bypasses: AtomicBool::new(false),
            is_maintained: AtomicBool::new(false),
            ends: watch::Sender::new(false),
        }
    }

    /// The application, with the map of slots as it is now.
    pub fn application(&self) -> Arc<dyn Application> {
        let application = self.application.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(routing) = self.executor.routing() else { return application };
        if routing.version <= application.templates().routing().version {
            return application;
        }
        let application = application.routed(Routing::clone(&routing));
        *self.application.write().unwrap_or_else(PoisonError::into_inner) = application.clone();
        application
    }

    /// Returns whether the server beside the agent is no member.
    pub fn has_left(&self) -> bool {
        self.executor.routing().is_some_and(|routing| routing.absent.contains(self.server))
    }

    /// The server of operations that any server may run: the one beside the agent, unless they draw ids and none would route back to it.
    pub fn server_for_any(&self, application: &dyn Application) -> ServerId {
        let map = application.templates().routing();
        let is_right = self.passes_through() || map.slots_of(self.server).next().is_some();
        if is_right || application.drawn().is_empty() { self.server } else { map.owner(0) }
    }

    /// The map by which transactions are placed. None: they run whatever the map is. A deployment of one server has nobody to whom something could
    /// move, so its statements pay for no check.
    pub fn map(&self, application: &dyn Application) -> Option<MapVersion> {
        let can_move = self.servers.len() > 1;
        let is_placed = !self.passes_through() && !self.is_maintained.load(Ordering::SeqCst);
        (can_move && is_placed).then(|| application.templates().routing().version)
    }

    /// Transactions go to the server beside the agent as they are.
    pub fn passes_through(&self) -> bool {
        self.mode == Mode::Observes || self.bypasses.load(Ordering::SeqCst)
    }

    /// Returns whether the database has a function or a relation of that name that is not the server's own.
    pub fn is_own(&self, name: &str) -> bool {
        self.own_names.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
    }
}

/// The transaction that a session has open, for who cancels it.
pub(crate) type Cancellable = Arc<Mutex<Weak<OpenTransaction>>>;

/// Sessions by the process number that each client is told.
#[derive(Default)]
pub(crate) struct Registry {
    last: AtomicI32,
    sessions: Mutex<BTreeMap<i32, (i32, Cancellable)>>,
}

impl Registry {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<i32, (i32, Cancellable)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number and the secret of a new session.
    pub fn enter(&self, session: &Cancellable) -> (i32, i32) {
        let mut secret = [0; 4];
        getrandom::fill(&mut secret).expect("the system has randomness");
        let secret = i32::from_be_bytes(secret);
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.sessions().insert(number, (secret, session.clone()));
        (number, secret)
    }

    pub fn leave(&self, number: i32) {
        self.sessions().remove(&number);
    }

    pub fn len(&self) -> usize {
        self.sessions().len()
    }

    /// Cancels the statement of the session with that number and secret.
    pub fn cancel(&self, number: i32, secret: i32) {
        let session = self
            .sessions()
            .get(&number)
            .filter(|entered| entered.0 == secret)
            .map(|entered| entered.1.clone());
        let open =
            session.and_then(|session| session.lock().unwrap_or_else(PoisonError::into_inner).upgrade());
        if let Some(open) = open {
            // It dials the server.
            std::thread::spawn(move || open.cancel());
        }
    }
}
