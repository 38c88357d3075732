//! Accepts connections, and hands each to an event loop. What a connection says and hears is its carrier's affair.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use pgwire::tokio::TlsAcceptor;
use tokio::sync::oneshot;

use crate::event_loops::EventLoops;
use crate::isolation::Isolated;
use crate::{Door, NotStarted};

/// A connection that has come.
pub struct Arrival {
    pub socket: TcpStream,
    /// None: TLS is not available.
    pub tls: Option<TlsAcceptor>,
    /// There are as many connections as there may be.
    pub is_full: bool,
}

/// Accepts connections for ever. A panic of one ends no other.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    (tls, connections_max): (Option<TlsAcceptor>, usize),
    event_loops: &EventLoops,
    carry: impl Fn(Arrival) -> F,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener =
        tokio::net::TcpListener::from_std(listener).expect("it is a listener, and there is a runtime");
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        // Its event loop is to hear of it, not this thread.
        let socket = match listener.accept().await.and_then(|(socket, _)| socket.into_std()) {
            Ok(socket) => socket,
            Err(error) => {
                // Too many files, for instance: those that are open will end.
                tracing::warn!("a connection of PostgreSQL's protocol was not accepted: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let is_full = open.fetch_add(1, Ordering::Relaxed) >= connections_max;
        let carried = carry(Arrival { socket, tls: tls.clone(), is_full });
        let open = open.clone();
        event_loops.carry(async move {
            match Isolated(Box::pin(carried)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!("a connection of PostgreSQL's protocol has ended: {error}"),
                // It is too late to tell the client.
                Err(panicked) => drop(panicked.error()),
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// A door whose connections are carried by another crate. Dropping it ends them.
pub struct Listening {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Accepts connections until it is dropped; then `end` is awaited, and connections that are left end at once.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start<F, E>(
        door: Door,
        carry: impl Fn(Arrival) -> F + Send + 'static,
        end: impl FnOnce() -> E + Send + 'static,
    ) -> Result<Listening, NotStarted>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
        E: Future<Output = ()>,
    {
        let Door { settings, tls } = door;
        let listen = settings.listen;
        let failed = |error: io::Error| {
            NotStarted(
                format!("cannot listen on {listen}: {error}"),
                "give another address or port".to_owned(),
            )
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let event_loops = EventLoops::start().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("accept".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, (tls, settings.connections_max), &event_loops, carry) => {}
                    _ = stopped => {}
                }
                end().await;
            });
            event_loops.shut_down();
        });
        Ok(Listening { address, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
