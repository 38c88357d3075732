//! Statements that compute for ever, and what ends them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::alone::Alone;
use crate::eventually::until;
use crate::wire::Wire;
use postgres::error::SqlState;
use postgres::{Client as Driver, NoTls};

pub const TABLES: &str = "CREATE TABLE big (id int PRIMARY KEY, same int NOT NULL, v int NOT NULL);
    CREATE TABLE kept (id bigint PRIMARY KEY);
    INSERT INTO big SELECT g, 1, 0 FROM generate_series(1, 3000) g;
    CREATE PROCEDURE spin() LANGUAGE plpgsql AS $$ DECLARE i int := 0; BEGIN
        WHILE true LOOP i := (i + 1) % 1000; END LOOP; END $$";

/// Cancels the statements of [`run`].
pub const CANCEL: &str =
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'computes'";

/// A session that runs the statement; it ends with this state.
pub fn run(server: &Alone, text: &'static str) -> JoinHandle<Option<SqlState>> {
    let url = format!("{} application_name=computes", server.url());
    std::thread::spawn(move || {
        let mut driver = Driver::connect(&url, NoTls).unwrap();
        driver.batch_execute("SET statement_timeout = '100s'").unwrap();
        driver.batch_execute(text).unwrap_err().code().cloned()
    })
}

/// SQLSTATE of the messages until the server is ready, or gone.
pub fn state(wire: &mut Wire) -> String {
    let said = wire.hear(1);
    let error = said.iter().find_map(|one| one.strip_prefix("E "));
    error.map_or_else(|| said.join(", "), |error| error[..5].to_owned())
}

/// Does it again and again until the other end has heard how its statement ended: it may not have begun.
pub fn until_heard(spins: &mut Wire, again: impl Fn()) -> String {
    let heard = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hears = scope.spawn(|| {
            let said = state(spins);
            heard.store(true, Ordering::Release);
            said
        });
        until("its statement ends", || {
            let is_heard = heard.load(Ordering::Acquire);
            if !is_heard {
                again();
            }
            is_heard
        });
        hears.join().unwrap()
    })
}

/// Asks the server to cancel the statement of the session with that key.
pub fn cancel(server: SocketAddr, key: &[u8]) {
    let mut socket = TcpStream::connect(server).unwrap();
    let head = [16_i32.to_be_bytes(), 80_877_102_i32.to_be_bytes()].concat();
    socket.write_all(&[&head, key].concat()).unwrap();
    // The server ends it once it has done so.
    let _ = socket.read(&mut [0]);
}

/// Nothing stays of the statement, and others come to run.
pub fn check_unharmed(driver: &mut Driver, text: &str) {
    let found = driver.query_one("SELECT (SELECT count(*) FROM kept), sum(v), count(*) FROM big", &[]);
    let found = found.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!((found.get(0), found.get(1), found.get(2)), (0_i64, 0_i64, 3000_i64), "{text}");
}

/// Until a session runs the statement.
pub fn until_active(watch: &mut Driver, text: &str) {
    let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = $1::text";
    until(text, || watch.query_one(active, &[&text]).unwrap().get::<_, i64>(0) > 0);
}
