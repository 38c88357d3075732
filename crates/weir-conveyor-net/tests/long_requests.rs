//! Requests that are longer than what sockets keep.

use weir_conveyor_net::raw::RawConnection;

use weir_harness::postgres::Server;

/// A Query message.
fn query(text: &str) -> Vec<u8> {
    let length = (text.len() + 5) as u32;
    [b"Q".as_slice(), &length.to_be_bytes(), text.as_bytes(), b"\0"].concat()
}

/// The server does not read on until somebody takes its answers.
#[test]
fn a_long_request_is_written_while_its_answers_are_read() {
    const QUERIES: usize = 400;
    let server = Server::start().unwrap();
    let config = server.connection_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = RawConnection::open(&config, true).await.unwrap();
        // Each answer is as long as its query.
        let text = format!("SELECT '{}'", "x".repeat(20_000));
        connection.write(&query(&text).repeat(QUERIES)).await.unwrap();
        for _ in 0..QUERIES {
            assert!(connection.ran().await.unwrap().error.is_none());
        }
    });
}
