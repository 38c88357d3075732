//! A server of PostgreSQL's protocol in front of a cluster: any client of PostgreSQL may ask.
//!
//! The wire is `pgwire`'s; here are what a session may say, the formats of values, and who may come in. What is asked of tables goes
//! through a [`weir_client::Client`]. docs/internals/server.md has the design, and what is not built yet.

mod answer;
mod authentication;
mod backend;
mod blocks;
mod by_itself;
mod commands;
mod conversation;
mod copy;
mod copy_messages;
mod ending;
mod evaluation;
mod event_loops;
pub mod frontend;
mod handlers;
mod idle;
mod in_flight;
mod isolation;
mod known_texts;
mod listening;
mod notices;
mod opening;
mod portals;
mod prepare;
mod receiver;
mod run;
mod running;
mod sequence_values;
mod session;
mod session_registry;
mod settings;
mod statement;
mod transaction;
mod watch;
mod watchdog;
pub mod wire;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pgwire::tokio::TlsAcceptor;
use tokio::sync::oneshot;
use weir_client::Client;
use weir_net::tls;

use authentication::Authenticator;
use conversation::{END_MAX, converse};
use event_loops::EventLoops;
use handlers::Connection;
pub use isolation::is_isolated;
use listening::{Arrival, accept};
use watch::FrontEnd;
pub use watch::{Contention, Recording, Watch};
use watchdog::Watchdog;

/// The way in which a server authenticates.
#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// The one database that there is.
    pub database: String,
    /// None: no authentication.
    pub password: Option<String>,
    /// In PEM: a certificate with the chain to its authority, and its private key. None: TLS is not available.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub connections_max: usize,
    /// Statements that take as long are logged, unless their session sets `log_min_duration_statement`.
    pub log_slow: Option<Duration>,
    /// Allows listening beyond loopback without TLS or without authentication.
    pub insecure: bool,
}

impl Settings {
    pub fn new(listen: SocketAddr) -> Settings {
        let database = "weir".to_owned();
        Settings {
            listen,
            database,
            password: None,
            certificate: None,
            connections_max: 10_000,
            log_slow: None,
            insecure: false,
        }
    }
}

/// Why a server has not started: what is wrong, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted(pub String, pub String);

/// Settings of a server, after the check that they expose nothing by mistake.
pub struct Door {
    settings: Settings,
    tls: Option<TlsAcceptor>,
}

impl Door {
    /// # Errors
    /// It would let strangers in, or the certificate cannot be read.
    pub fn new(settings: Settings) -> Result<Door, NotStarted> {
        let Settings { listen, insecure, .. } = settings;
        let lacking = match (&settings.certificate, &settings.password) {
            (None, None) => Some("TLS and a password"),
            (None, _) => Some("TLS"),
            (_, None) => Some("a password"),
            _ => None,
        };
        if let Some(lacking) = lacking.filter(|_| !listen.ip().is_loopback() && !insecure) {
            return Err(NotStarted(
                format!("{listen} can be reached from other machines, and clients come in without {lacking}"),
                "add --tls-certificate FILE --tls-key FILE and --password-file FILE, listen on 127.0.0.1, or say \
                 --insecure if the network is safe"
                    .to_owned(),
            ));
        }
        let tls = settings.certificate.as_ref().map(|(certificate, key)| tls::server(certificate, key));
        let tls = tls.transpose().map_err(|why| {
            NotStarted(
                why,
                "give FILEs in PEM: a certificate with what leads to its authority, and its private key"
                    .to_owned(),
            )
        })?;
        Ok(Door { settings, tls: tls.map(TlsAcceptor::from) })
    }

    /// Starts the server. `client`: of the cluster whose application it serves.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn open(self, client: Client) -> Result<Server, NotStarted> {
        // Durations are limited by the client: statement_timeout, lock_timeout, cancel.
        client.wait_for_busy();
        let listen = self.settings.listen;
        let failed = |error: std::io::Error| {
            NotStarted(
                format!("cannot listen on {listen}: {error}"),
                "give another address or port".to_owned(),
            )
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let event_loops = EventLoops::start().map_err(failed)?;
        // Connections are accepted whatever those that carry them do.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let front = Arc::new(FrontEnd::new(self.settings.connections_max, self.settings.log_slow));
        let (watched, sessions) = (front.clone(), front.clone());
        weir_types::interrupt::set_make_room(event_loops::make_room);
        let watchdog = Watchdog::start(front.clone(), event_loops.pulses()).map_err(failed)?;
        let thread = std::thread::Builder::new().name("weir-pg-accept".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept_clients(listener, self, (Arc::new(client), front), &event_loops) => {}
                    _ = stopped => {}
                }
                end_sessions(&sessions).await;
            });
            // Connections that are not authenticated yet are not waited for.
            event_loops.shut_down();
            drop(watchdog);
        });
        Ok(Server { address, front: watched, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }
}

/// A running server. Dropping it ends its sessions, whose clients receive 57P01, with their statements.
pub struct Server {
    address: SocketAddr,
    front: Arc<FrontEnd>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells what it has done. Contention is recorded from now on.
    pub fn watch(&self) -> Watch {
        self.front.contention.watch();
        Watch(self.front.clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Terminates all sessions and waits until their clients have been notified.
async fn end_sessions(front: &FrontEnd) {
    let until = Instant::now() + END_MAX + Duration::from_secs(1);
    while Instant::now() < until {
        let sessions = front.sessions.all();
        if sessions.is_empty() {
            return;
        }
        sessions.iter().for_each(|(_, session)| session.terminate());
        drop(sessions);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn accept_clients(
    listener: TcpListener,
    Door { settings, tls }: Door,
    (client, front): (Arc<Client>, Arc<FrontEnd>),
    event_loops: &EventLoops,
) {
    let authentication = Arc::new(Authenticator::new(&settings, front));
    accept(listener, (tls, settings.connections_max), event_loops, |Arrival { socket, tls, is_full }| {
        let connection = Connection::new(client.clone(), authentication.clone(), is_full);
        async move { converse(tokio::net::TcpStream::from_std(socket)?, tls, connection).await }
    })
    .await;
}
