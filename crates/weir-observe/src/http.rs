//! `/metrics` and `/health`, by HTTP/1.1, and at `/` a page that shows them.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use crate::{Check, Page, Source, page, process};

#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Allows listening beyond loopback without authentication.
    pub insecure: bool,
}

/// Why it has not started: what is wrong, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted(pub String, pub String);

/// Largest number of concurrent requests; others wait.
const CONNECTIONS_MAX: usize = 32;

/// Time limit for a client to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listener under way. Dropping it ends it.
pub struct Http {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type Sources = Arc<[Box<dyn Source>]>;

impl Settings {
    /// # Errors
    /// It could be asked by strangers.
    pub fn check(&self) -> Result<(), NotStarted> {
        if self.listen.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        let what =
            format!("{} can be reached from other machines, and --http knows no password", self.listen);
        Err(NotStarted(what, "listen on 127.0.0.1, or say --insecure if the network is safe".to_owned()))
    }
}

impl Http {
    /// # Errors
    /// It could be asked by strangers, or the address cannot be listened on.
    pub fn open(settings: &Settings, sources: Vec<Box<dyn Source>>) -> Result<Http, NotStarted> {
        settings.check()?;
        let failed = |error: std::io::Error| {
            let what = format!("cannot listen on {}: {error}", settings.listen);
            NotStarted(what, "give another address or port".to_owned())
        };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let sources: Sources = sources.into();
        let thread = std::thread::Builder::new().name("weir-http".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, sources) => {}
                    _ = stopped => {}
                }
            });
            // Messages of this moment are not waited for.
            runtime.shutdown_background();
        });
        Ok(Http { address, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, sources: Sources) {
    let listener =
        tokio::net::TcpListener::from_std(listener).expect("it is a listener, and there is a runtime");
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = room.clone().acquire_owned().await.expect("nobody closes it");
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                // Too many files, for instance: those that are open will end.
                tracing::warn!("a connection of HTTP was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let sources = sources.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, sources.clone()));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            if let Err(error) = http.serve_connection(TokioIo::new(socket), answer).await {
                tracing::debug!("a connection of HTTP has ended: {error}");
            }
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, sources: Sources) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer: fn(&Sources) -> Answer = match request.uri().path() {
        "/" => html,
        "/metrics" => metrics,
        "/health" => health,
        _ => return Ok(respond(not_found())),
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = respond((StatusCode::METHOD_NOT_ALLOWED, TEXT, "ask with GET\n".to_owned()));
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    let answered = tokio::task::spawn_blocking(move || answer(&sources)).await;
    Ok(respond(answered.unwrap_or_else(|_| failed())))
}

/// Status, type, body.
type Answer = (StatusCode, &'static str, String);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

/// A page may load nothing beside its own text, and may ask this listener alone.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'",
);

fn html(sources: &Sources) -> Answer {
    match sources.iter().find_map(|source| source.html()) {
        Some(text) => (StatusCode::OK, HTML, text.to_owned()),
        None => not_found(),
    }
}

fn metrics(sources: &Sources) -> Answer {
    let mut page = Page::default();
    process::tell(&mut page);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.gauge("weir_build_info", "The version that runs.", &version, 1.0);
    sources.iter().for_each(|source| source.tell(&mut page));
    (StatusCode::OK, page::CONTENT_TYPE, page.into_text())
}

fn health(sources: &Sources) -> Answer {
    let checks: Vec<Check> = sources.iter().flat_map(|source| source.health()).collect();
    let is_well = checks.iter().all(|check| check.wrong.is_none());
    let part = |check: &Check| match &check.wrong {
        None => json!({"part": check.part, "status": "ok"}),
        Some(why) => json!({"part": check.part, "status": "failed", "reason": why}),
    };
    let parts: Vec<serde_json::Value> = checks.iter().map(part).collect();
    let (code, status) = match is_well {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    (code, JSON, format!("{}\n", json!({"status": status, "parts": parts})))
}

fn not_found() -> Answer {
    (
        StatusCode::NOT_FOUND,
        TEXT,
        "there is /metrics and /health, and of a server that clients speak to a page at /\n".to_owned(),
    )
}

fn failed() -> Answer {
    (StatusCode::INTERNAL_SERVER_ERROR, TEXT, "an assertion of Weir failed; its log says where\n".to_owned())
}

fn respond((status, kind, body): Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}
