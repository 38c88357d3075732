//! Measures how long short operations take while four sessions loop, sort, join and aggregate on one shard.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, NoTls};

use crate::bench::servers::{Server, failed};
use crate::bench::side_by_side::{Load, Measured};
use crate::cli::BenchArguments;
use crate::output::Failure;

/// Name of the workload on the command line.
pub const BESIDE: &str = "beside";

/// The short operations, by their names on the command line.
const OTHERS: [(&str, Other); 4] = [
    ("select", Other::Select),
    ("update", Other::Update),
    ("connect", Other::Connect),
    ("cancel", Other::Cancel),
];

#[derive(Clone, Copy)]
enum Other {
    /// `SELECT 1`.
    Select,
    /// An UPDATE of one row.
    Update,
    /// A new connection.
    Connect,
    /// A cancel request for a loop of another session, until that has ended.
    Cancel,
}

const TABLES: &str = "DROP TABLE IF EXISTS big, small;
CREATE TABLE big (id integer PRIMARY KEY, part integer NOT NULL, note text NOT NULL);
CREATE TABLE small (id integer PRIMARY KEY, v integer NOT NULL);
INSERT INTO small SELECT g, 0 FROM generate_series(1, 1000) g;";

/// Rows of the table that the long statements read.
const ROWS: u32 = 200_000;

/// Rows of one INSERT.
const ROWS_AT_ONCE: u32 = 100_000;

/// Statements of the sessions that take long. The first one is ended by its timeout.
const LONG: [&str; 4] = [
    "DO $$ DECLARE n bigint := 0; BEGIN LOOP n := n + 1; EXIT WHEN n < 0; END LOOP; END $$",
    "SELECT id FROM big ORDER BY note, id OFFSET (SELECT count(*) - 1 FROM big)",
    "SELECT count(*) FROM big a JOIN big b ON a.part = b.part WHERE a.id < b.id",
    "SELECT note, count(*), sum(id), max(part) FROM big GROUP BY note ORDER BY 2, 1 OFFSET 90000",
];

const TIMEOUT: &str = "SET statement_timeout = '5s'";

/// Short operations while four sessions loop, sort, join and aggregate.
pub struct Beside {
    /// The short operation that is measured, and its name.
    other: (&'static str, Other),
    /// The `--memory` of a server of Weir.
    pub memory: Option<String>,
    /// Rows of the table that the long statements read.
    pub rows: u32,
}

impl Beside {
    /// As the settings say: `other=NAME`, `memory=SIZE`, `rows=N`.
    pub fn of(arguments: &BenchArguments, wrong: &dyn Fn(&str, &str) -> Failure) -> Result<Beside, Failure> {
        let mut beside = Beside { other: OTHERS[0], memory: None, rows: ROWS };
        for (name, text) in &arguments.cluster.settings {
            let known = match name.as_str() {
                "other" => {
                    OTHERS.into_iter().find(|(known, _)| known == text).map(|given| beside.other = given)
                }
                "rows" => text.parse().ok().filter(|rows| *rows > 0).map(|given| beside.rows = given),
                "memory" => {
                    beside.memory = Some(text.clone());
                    Some(())
                }
                _ => None,
            };
            known.ok_or_else(|| {
                let names = OTHERS.map(|(name, _)| name).join(", ");
                let hint =
                    format!("its settings are memory, as of weir serve, rows, from 1 on, and other: {names}");
                wrong(&format!("`{name}={text}` is wrong"), &hint)
            })?;
        }
        Ok(beside)
    }

    /// Name of the short operation.
    pub fn name(&self) -> &'static str {
        self.other.0
    }

    pub fn prepare(&self, server: &Server) -> Result<(), Failure> {
        let mut client = server.address.connect()?;
        let mut run = |text: &str| client.batch_execute(text).map_err(|error| failed("the tables", &error));
        run(TABLES)?;
        for first in (1..=self.rows).step_by(ROWS_AT_ONCE as usize) {
            let last = first.saturating_add(ROWS_AT_ONCE - 1).min(self.rows);
            run(&format!(
                "INSERT INTO big SELECT g, g % 1000, 'note ' || (g * 7919::bigint % 100003) FROM generate_series({first}, {last}) g"
            ))?;
        }
        Ok(())
    }

    /// Durations of what the others do, one after the other, while the long statements run.
    pub fn measure(&self, server: &Server, load: &Load) -> Result<Measured, Failure> {
        let until = Instant::now() + Duration::from_secs_f64(load.seconds);
        let url = server.address.url();
        let long: Vec<_> = LONG.into_iter().map(|statement| repeat(&url, statement, until)).collect();
        let measured = others(self.other.1, &url, until).map_err(|error| failed(&url, &error));
        for session in long {
            let ended = session.join().expect("a session does not panic");
            ended.map_err(|error| failed("a long statement", &error))?;
        }
        let times_us = measured?;
        let completed = times_us.len() as u64;
        Ok(Measured {
            throughput: completed as f64 / load.seconds,
            completed,
            aborted: 0,
            times_us,
            late: Vec::new(),
        })
    }
}

/// A session that runs the statement again and again.
fn repeat(url: &str, statement: &'static str, until: Instant) -> JoinHandle<Result<(), postgres::Error>> {
    let url = url.to_owned();
    std::thread::spawn(move || {
        let mut client = Client::connect(&url, NoTls)?;
        client.batch_execute(TIMEOUT)?;
        while Instant::now() < until {
            match client.batch_execute(statement) {
                Err(error) if error.code() != Some(&SqlState::QUERY_CANCELED) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    })
}

fn others(other: Other, url: &str, until: Instant) -> Result<Vec<f64>, postgres::Error> {
    let mut client = Client::connect(url, NoTls)?;
    let mut times_us = Vec::new();
    while Instant::now() < until {
        let begun = Instant::now();
        match other {
            Other::Select => client.batch_execute("SELECT 1")?,
            Other::Update => {
                let id = times_us.len() % 1000 + 1;
                client.batch_execute(&format!("UPDATE small SET v = v + 1 WHERE id = {id}"))?;
            }
            Other::Connect => drop(Client::connect(url, NoTls)?),
            Other::Cancel => {
                times_us.push(cancel(&mut client)?);
                continue;
            }
        }
        times_us.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times_us)
}

/// A loop runs for some time before it is cancelled.
const BEFORE_CANCEL: Duration = Duration::from_millis(20);

/// Microseconds from the request to the end of the loop.
fn cancel(client: &mut Client) -> Result<f64, postgres::Error> {
    let token = client.cancel_token();
    let request = std::thread::spawn(move || {
        std::thread::sleep(BEFORE_CANCEL);
        let sent = Instant::now();
        token.cancel_query(NoTls).map(|()| sent)
    });
    let ended = client.batch_execute(LONG[0]);
    let time = Instant::now();
    match ended {
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {}
        ended => ended?,
    }
    let sent = request.join().expect("it does not panic")?;
    Ok(time.duration_since(sent).as_secs_f64() * 1e6)
}
