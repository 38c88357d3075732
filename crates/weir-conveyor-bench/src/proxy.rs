//! A proxy that copies bytes: what any process between a client and its server costs.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};

/// Serves on a port of the loopback interface, in a thread of its own, until the process ends. `server`: the server's socket.
///
/// # Errors
/// The system has no port or no thread.
pub fn start(server: PathBuf) -> std::io::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
        runtime.block_on(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    client.set_nodelay(true)?;
                    let mut server = UnixStream::connect(server).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
    })?;
    Ok(address)
}
