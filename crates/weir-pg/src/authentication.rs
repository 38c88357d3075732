//! Authentication of connections, and the messages of their startup.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use pgwire::api::auth::sasl::SASLAuthStartupHandler;
use pgwire::api::auth::sasl::scram::{ScramAuth, gen_salted_password};
use pgwire::api::auth::{
    AuthSource, LoginInfo, Password, ServerParameterProvider, StartupHandler, finish_authentication,
    protocol_negotiation, save_startup_parameters_to_metadata,
};
use pgwire::api::{ClientInfo, METADATA_DATABASE, METADATA_USER, PgWireConnectionState};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::PgWireFrontendMessage;
use pgwire::messages::cancel::CancelRequest;

use weir_sql::system::Facts;

use crate::Settings;
use crate::answer;
use crate::backend::{Backend, Origin};
use crate::opening::Socket;
use crate::session::Session;
use crate::settings::{PARAMETER_STATUS, Values};
use crate::watch::FrontEnd;

/// As often as PostgreSQL hashes.
const ITERATIONS: usize = 4_096;

/// Authentication settings shared by all connections.
pub struct Authenticator {
    database: String,
    scram: Option<SASLAuthStartupHandler<Parameters>>,
    /// Connections from other machines must use TLS.
    wants_tls: bool,
    pub front: Arc<FrontEnd>,
}

impl Authenticator {
    pub fn new(settings: &Settings, front: Arc<FrontEnd>) -> Authenticator {
        let scram = settings.password.as_deref().map(|password| scram(password, Parameters));
        let wants_tls = settings.certificate.is_some() && !settings.insecure;
        Authenticator { database: settings.database.clone(), scram, wants_tls, front }
    }
}

/// Asks for that password by SCRAM, whoever the user is. `parameters`: what the client is told once it is in.
pub fn scram<P: ServerParameterProvider>(password: &str, parameters: P) -> SASLAuthStartupHandler<P> {
    let mut salt = vec![0; 16];
    getrandom::fill(&mut salt).expect("the system has randomness");
    let hashed = gen_salted_password(password, &salt, ITERATIONS);
    let mut scram = ScramAuth::new(Arc::new(Secret { salt, hashed }));
    scram.set_iterations(ITERATIONS);
    SASLAuthStartupHandler::new(Arc::new(parameters)).with_scram(scram)
}

/// The words for a client that is not let in by [`scram`].
pub fn not_let_in(user: &str, error: PgWireError) -> PgWireError {
    match error {
        // The name in the message of SCRAM is not what counts, and clients leave it out.
        PgWireError::InvalidPassword(_) => {
            fatal("28P01", &format!("password authentication failed for user \"{user}\""), None)
        }
        // The client's words are not repeated: there may be anything in them, a zero too.
        PgWireError::InvalidScramMessage(_) => fatal("08P01", "malformed SCRAM message", None),
        PgWireError::UnsupportedSASLAuthMethod(_) => {
            fatal("08P01", "client selected an invalid SASL authentication mechanism", None)
        }
        error => error,
    }
}

/// One password for all users.
struct Secret {
    salt: Vec<u8>,
    hashed: Vec<u8>,
}

impl Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[async_trait]
impl AuthSource for Secret {
    async fn get_password(&self, _login: &LoginInfo) -> PgWireResult<Password> {
        Ok(Password::new(Some(self.salt.clone()), self.hashed.clone()))
    }
}

#[derive(Debug)]
struct Parameters;

impl ServerParameterProvider for Parameters {
    fn server_parameters<C: ClientInfo>(&self, client: &C) -> Option<HashMap<String, String>> {
        let values = Values::of(client.metadata()).ok()?;
        let told = PARAMETER_STATUS.iter().filter_map(|name| {
            let value = values.get(&name.to_ascii_lowercase())?;
            Some(((*name).to_owned(), value))
        });
        Some(told.collect())
    }
}

pub fn fatal(code: &str, message: &str, hint: Option<String>) -> PgWireError {
    let mut info = ErrorInfo::new("FATAL".to_owned(), code.to_owned(), message.to_owned());
    info.hint = hint;
    PgWireError::UserError(Box::new(info))
}

/// One connection at the door. The session has the settings of the startup packet once that is read.
pub struct AtTheDoor {
    pub authentication: Arc<Authenticator>,
    /// There are as many connections as there may be.
    pub is_full: bool,
    /// Its number, once it has one.
    number: Option<i32>,
}

impl AtTheDoor {
    pub fn new(authentication: Arc<Authenticator>, is_full: bool) -> AtTheDoor {
        AtTheDoor { authentication, is_full, number: None }
    }
}

impl AtTheDoor {
    /// Why the client stays outside. Who guesses passwords is seen in the log.
    fn not_let_in(backend: &Backend, error: PgWireError) -> PgWireError {
        let (Some(facts), Some(origin)) = (backend.facts.get(), backend.origin.get()) else {
            return error;
        };
        let (user, address) = (&facts.user, origin.address);
        let error = not_let_in(user, error);
        if !matches!(error, PgWireError::IoError(_)) {
            tracing::warn!(%address, user, state = error.code(), "connection refused: {error}");
        }
        error
    }
}

impl Drop for AtTheDoor {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.authentication.front.sessions.leave(number);
        }
    }
}

impl AtTheDoor {
    /// The reply does not reveal whether the session exists.
    pub(crate) fn on_cancel_request(&self, request: CancelRequest) {
        let secret = request.secret_key.to_bytes();
        if let Some(session) = self.authentication.front.sessions.with_secret(request.pid, &secret) {
            session.cancel();
        }
    }

    /// Gives the session the settings of the startup packet, and lets the client in or not.
    pub(crate) async fn on_startup(
        &mut self,
        session: &mut Session,
        client: &mut Socket,
        message: PgWireFrontendMessage,
    ) -> PgWireResult<()> {
        if let PgWireFrontendMessage::Startup(startup) = &message {
            if self.is_full {
                return Err(fatal("53300", "sorry, too many clients already", None));
            }
            if self.authentication.wants_tls
                && !client.is_secure()
                && !client.socket_addr().ip().is_loopback()
            {
                let hint = "connect with sslmode=require".to_owned();
                return Err(fatal("28000", "connections from other machines must be encrypted", Some(hint)));
            }
            let parameter = |name: &str| startup.parameters.get(name).filter(|value| !value.is_empty());
            let Some(user) = parameter(METADATA_USER) else {
                return Err(fatal("28000", "no PostgreSQL user name specified in startup packet", None));
            };
            // As PostgreSQL has it, the database is by default the user's.
            let database = parameter(METADATA_DATABASE).unwrap_or(user);
            if *database != self.authentication.database {
                let message = format!("database \"{database}\" does not exist");
                let hint = format!("the database here is \"{}\"", self.authentication.database);
                return Err(fatal("3D000", &message, Some(hint)));
            }
            let values = Values::of(&startup.parameters).map_err(|error| {
                tracing::warn!(address = %client.socket_addr(), user, "connection refused: {}", error.message());
                PgWireError::UserError(Box::new(answer::fatal(&error)))
            })?;
            session.settings.start(values);
            let (user, database) = (user.clone(), database.clone());
            let (number, secret) = self.authentication.front.sessions.enter(&session.backend);
            tracing::debug!(process = number, address = %client.socket_addr(), user, "connection");
            self.number = Some(number);
            // A connection begins once.
            let origin = Origin { address: client.socket_addr(), since: SystemTime::now() };
            let _ = session.backend.origin.set(origin);
            let _ = session.backend.facts.set(Facts { user, database, process: number, ..Facts::default() });
            client.set_pid_and_secret_key(number, secret);
        }
        match (&self.authentication.scram, &message) {
            (Some(scram), _) => {
                let ended = scram.on_startup(client, message).await;
                ended.map_err(|error| AtTheDoor::not_let_in(&session.backend, error))
            }
            (None, PgWireFrontendMessage::Startup(startup)) => {
                protocol_negotiation(client, startup).await?;
                save_startup_parameters_to_metadata(client, startup);
                client.set_state(PgWireConnectionState::AuthenticationInProgress);
                finish_authentication(client, &Parameters).await
            }
            _ => Ok(()),
        }
    }
}
