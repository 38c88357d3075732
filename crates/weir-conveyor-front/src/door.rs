//! Connections of clients: startup, authentication, cancel, and the loop that reads messages.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use pgwire::api::auth::sasl::SASLAuthStartupHandler;
use pgwire::api::auth::{
    ServerParameterProvider, StartupHandler, finish_authentication, protocol_negotiation,
    save_startup_parameters_to_metadata,
};
use pgwire::api::{ClientInfo, METADATA_DATABASE, METADATA_USER, PgWireConnectionState};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::messages::startup::{SecretKey, Startup};
use tokio::net::TcpStream;
use weir_observe::{Check, Page, Source};
use weir_pg::wire::{
    Arrival, Expected, Frame, Incoming, Listening, Opened, Socket, Unreadable, fatal, not_let_in, open, scram,
};
use weir_pg::{Contention, Door, NotStarted};

use crate::admin::{self, DATABASE};
use crate::figures::{count, read};
use crate::messages::{self, FrontError};
use crate::session::{Out, Session};
use crate::shared::{FrontSettings, Shared};

/// Time limit of the startup phase of a connection.
const STARTUP_MAX: Duration = Duration::from_secs(60);
/// A front that ends waits so long for transactions that are under way.
const END_MAX: Duration = Duration::from_secs(5);

/// A running front. Dropping it ends its sessions, whose clients receive 57P01.
pub struct Front {
    listening: Listening,
    shared: Arc<Shared>,
}

/// Shared by all connections.
struct Entrance {
    shared: Arc<Shared>,
    scram: Option<SASLAuthStartupHandler<Parameters>>,
}

struct Parameters(Arc<Shared>);

impl ServerParameterProvider for Parameters {
    fn server_parameters<C: ClientInfo>(&self, client: &C) -> Option<HashMap<String, String>> {
        let mut told: HashMap<String, String> =
            self.0.parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        for name in ["application_name"] {
            if let Some(value) = client.metadata().get(name) {
                told.insert(name.to_owned(), value.clone());
            }
        }
        Some(told)
    }
}

impl Front {
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(door: Door, settings: FrontSettings) -> Result<Front, NotStarted> {
        let password = settings.password.clone();
        let shared = Arc::new(Shared::new(settings));
        let scram = password.map(|password| scram(&password, Parameters(shared.clone())));
        let entrance = Arc::new(Entrance { shared: shared.clone(), scram });
        let carry = move |arrival: Arrival| {
            let entrance = entrance.clone();
            async move { converse(arrival, &entrance).await }
        };
        let ending = shared.clone();
        let end = move || async move {
            ending.ends.send_replace(true);
            let until = tokio::time::Instant::now() + END_MAX;
            while ending.registry.len() > 0 && tokio::time::Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let listening = Listening::start(door, carry, end)?;
        Ok(Front { listening, shared })
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.listening.address()
    }

    /// The report of what was observed, or counted, for people.
    pub fn report(&self) -> String {
        admin::report(&self.shared)
    }

    /// Tells the metrics.
    pub fn watch(&self) -> FrontWatch {
        self.shared.figures.contention.watch();
        FrontWatch(self.shared.clone())
    }
}

/// Tells what a front has counted.
pub struct FrontWatch(Arc<Shared>);

impl Source for FrontWatch {
    fn tell(&self, page: &mut Page) {
        let Shared { figures, executor, .. } = &*self.0;
        figures.contention.tell(page);
        page.gauge(
            "weir_conveyor_clients",
            "Clients that are connected.",
            &[],
            read(&figures.clients) as f64,
        );
        for (class, value) in
            [("commutative", &figures.commutative), ("local", &figures.local), ("global", &figures.global)]
        {
            let help = "Transactions that were begun, by class.";
            page.counter("weir_conveyor_transactions_total", help, &[("class", class)], read(value) as f64);
        }
        for (name, help, value) in [
            ("weir_conveyor_relayed_total", "Transactions that ran at another server.", &figures.relayed),
            (
                "weir_conveyor_restarts_total",
                "Transactions that were begun again elsewhere.",
                &figures.restarts,
            ),
            (
                "weir_conveyor_contradictions_total",
                "Transactions that were refused since their answers could not be taken back.",
                &figures.contradictions,
            ),
            ("weir_conveyor_refused_total", "Statements that were refused.", &figures.refused),
        ] {
            page.counter(name, help, &[], read(value) as f64);
        }
        let Some(view) = executor.view() else { return };
        let round = view.round.map_or(0.0, |round| round.as_secs_f64());
        for (name, help, value) in [
            ("weir_conveyor_epoch", "The epoch that the agent knows.", view.epoch as f64),
            (
                "weir_conveyor_has_token",
                "Whether the token is here.",
                f64::from(u8::from(view.visit.is_some())),
            ),
            ("weir_conveyor_visit", "The last visit of the token here.", view.last_visit as f64),
            ("weir_conveyor_round_seconds", "Time between the last two arrivals of the token.", round),
            ("weir_conveyor_queue", "Global operations that wait for the token.", view.queue as f64),
            ("weir_conveyor_waiting", "Other operations that wait for a connection.", view.waiting as f64),
            ("weir_conveyor_running", "Operations that run.", view.running as f64),
            (
                "weir_conveyor_applied_visit",
                "The last visit that is applied here.",
                view.applied.unwrap_or(0) as f64,
            ),
        ] {
            page.gauge(name, help, &[], value);
        }
    }

    fn health(&self) -> Vec<Check> {
        let Some(view) = self.0.executor.view() else { return Vec::new() };
        let wrong = view.applied.is_none().then(|| "the database does not answer".to_owned());
        vec![Check { part: "database".to_owned(), wrong }]
    }

    fn html(&self) -> Option<&'static str> {
        Some(Contention::PAGE)
    }
}

/// Carries a connection from its first byte to its last.
async fn converse(Arrival { socket, tls, is_full }: Arrival, entrance: &Entrance) -> io::Result<()> {
    let tcp = TcpStream::from_std(socket)?;
    let mut startup_max = pin!(tokio::time::sleep(STARTUP_MAX));
    let opened = tokio::select! {
        () = &mut startup_max => return Ok(()),
        opened = open(tcp, tls) => opened?,
    };
    let Some(Opened { mut socket, mut incoming, first }) = opened else { return Ok(()) };
    let startup = match first {
        Ok(Message::CancelRequest(request)) => {
            let secret = request.secret_key.to_bytes();
            if let Ok(secret) = <[u8; 4]>::try_from(secret.as_ref()) {
                entrance.shared.registry.cancel(request.pid, i32::from_be_bytes(secret));
            }
            return Ok(());
        }
        Ok(Message::Startup(startup)) => startup,
        Ok(_) => return Ok(()),
        Err(error) => {
            let error = FrontError::new(error.state().as_str(), error.message());
            return say_last(&mut Out { socket, buffer: BytesMut::new() }, &error).await;
        }
    };
    let mut guest = Guest::new(entrance, &startup);
    let let_in = tokio::select! {
        () = &mut startup_max => return Ok(()),
        let_in = guest.enter((&mut socket, &mut incoming), startup, is_full) => let_in,
    };
    let mut out = Out { socket, buffer: BytesMut::new() };
    match let_in {
        Ok(()) => guest.talk(&mut out, &mut incoming).await,
        Err(PgWireError::IoError(error)) => Err(error),
        Err(error) => {
            let error = not_let_in(&guest.user, error);
            tracing::warn!(user = guest.user, "connection refused: {error}");
            let info: ErrorInfo = error.into();
            let error = FrontError { sqlstate: info.code, message: info.message, hint: info.hint };
            say_last(&mut out, &error).await
        }
    }
}

/// Waits until sessions are to end.
async fn ended(ends: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the front is gone.
    let _ = ends.wait_for(|ends| *ends).await;
}

async fn say_last(out: &mut Out, error: &FrontError) -> io::Result<()> {
    messages::error(&mut out.buffer, "FATAL", error);
    tokio::time::timeout(END_MAX, out.flush()).await.unwrap_or(Ok(()))
}

/// A client with its session.
struct Guest<'a> {
    entrance: &'a Entrance,
    user: String,
    is_admin: bool,
    number: Option<i32>,
    session: Session,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.entrance.shared.registry.leave(number);
            self.entrance.shared.figures.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Guest<'_> {
    fn new<'a>(entrance: &'a Entrance, startup: &Startup) -> Guest<'a> {
        let shared = entrance.shared.clone();
        let settings =
            startup.parameters.iter().filter_map(|(name, value)| setting_of(name, value)).collect();
        Guest {
            entrance,
            user: String::new(),
            is_admin: false,
            number: None,
            session: Session::new(shared, settings),
        }
    }

    /// Lets the client in or not.
    async fn enter(
        &mut self,
        (socket, incoming): (&mut Socket, &mut Incoming),
        startup: Startup,
        is_full: bool,
    ) -> PgWireResult<()> {
        let shared = &self.entrance.shared;
        if is_full {
            return Err(fatal("53300", "sorry, too many clients already", None));
        }
        let parameter = |name: &str| startup.parameters.get(name).filter(|value| !value.is_empty());
        let Some(user) = parameter(METADATA_USER) else {
            return Err(fatal("28000", "no PostgreSQL user name specified in startup packet", None));
        };
        let database = parameter(METADATA_DATABASE).unwrap_or(user);
        self.user.clone_from(user);
        self.is_admin = database == DATABASE;
        if !self.is_admin && *database != shared.database {
            let hint =
                format!("the database here is \"{}\"; \"{DATABASE}\" is the admin database", shared.database);
            return Err(fatal("3D000", &format!("database \"{database}\" does not exist"), Some(hint)));
        }
        let (number, secret) = shared.registry.enter(&self.session.cancellable);
        self.number = Some(number);
        count(&shared.figures.clients);
        count(&shared.figures.connections);
        socket.set_pid_and_secret_key(number, SecretKey::I32(secret));
        let Some(scram) = &self.entrance.scram else {
            protocol_negotiation(socket, &startup).await?;
            save_startup_parameters_to_metadata(socket, &startup);
            socket.set_state(PgWireConnectionState::AuthenticationInProgress);
            return finish_authentication(socket, &Parameters(shared.clone())).await;
        };
        scram.on_startup(socket, Message::Startup(startup)).await?;
        let mut expected = Expected::SaslInitialResponse;
        while matches!(socket.state(), PgWireConnectionState::AuthenticationInProgress) {
            let frame = match incoming.next(socket.get_mut(), expected).await {
                Ok(Some(frame)) => frame,
                Ok(None) => return Err(PgWireError::IoError(io::ErrorKind::UnexpectedEof.into())),
                Err(Unreadable::Socket(error)) => return Err(PgWireError::IoError(error)),
                Err(Unreadable::OutOfStep(error)) => {
                    return Err(fatal(error.state().as_str(), error.message(), None));
                }
            };
            let message = frame.message(expected);
            let message = message.map_err(|error| fatal(error.state().as_str(), error.message(), None))?;
            scram.on_startup(socket, message).await?;
            expected = Expected::SaslResponse;
        }
        Ok(())
    }

    async fn talk(&mut self, out: &mut Out, incoming: &mut Incoming) -> io::Result<()> {
        let shared = self.entrance.shared.clone();
        let mut ends = shared.ends.subscribe();
        loop {
            let frame = tokio::select! {
                biased;
                () = ended(&mut ends) => {
                    let message = "terminating connection due to administrator command";
                    return say_last(out, &FrontError::new("57P01", message)).await;
                }
                frame = incoming.next(out.socket.get_mut(), Expected::Command) => frame,
            };
            let frame = match frame {
                Ok(Some(frame)) if frame.kind != b'X' => frame,
                Ok(_) => return Ok(()),
                Err(Unreadable::Socket(error)) => return Err(error),
                Err(Unreadable::OutOfStep(error)) => {
                    return say_last(out, &FrontError::new(error.state().as_str(), error.message())).await;
                }
            };
            self.take(frame, out).await?;
        }
    }

    async fn take(&mut self, frame: Frame, out: &mut Out) -> io::Result<()> {
        if !self.is_admin {
            return self.session.take(frame, out).await;
        }
        match frame.message(Expected::Command) {
            Ok(Message::Query(query)) => {
                admin::answer(&self.entrance.shared, &query.query, &mut out.buffer).await;
            }
            Ok(Message::Sync(_)) => {}
            Ok(_) => {
                let error = FrontError::new("0A000", "the admin database speaks the simple protocol only");
                messages::error(&mut out.buffer, "ERROR", &error);
                return out.flush().await;
            }
            Err(error) => {
                let error = FrontError::new(error.state().as_str(), error.message());
                messages::error(&mut out.buffer, "ERROR", &error);
            }
        }
        messages::ready(&mut out.buffer, b'I');
        out.flush().await
    }
}

/// The SET statement of a parameter of the startup packet.
fn setting_of(name: &str, value: &str) -> Option<String> {
    let is_own = matches!(name, METADATA_USER | METADATA_DATABASE | "replication" | "options");
    let is_fixed =
        matches!(name, "default_transaction_isolation" | "synchronous_commit" | "session_replication_role");
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
    if is_own || is_fixed || !is_name || name.starts_with("_pq_") || name.is_empty() {
        return None;
    }
    Some(format!("SET {name} TO '{}'", value.replace('\'', "''").replace('\\', "\\\\")))
}
