//! Many rows by one connection: into a table with a primary key, by COPY and by INSERT … SELECT; and out of it, by COPY and by SELECT.

use std::io::{Read, Write};
use std::time::Instant;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;

use crate::bench::servers::{Server, failed};
use crate::bench::side_by_side::Measured;
use crate::output::Failure;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    CopyIn,
    InsertSelect,
    CopyOut,
    Select,
}

impl Way {
    /// By the name of the workload.
    pub fn named(workload: &str) -> Option<Way> {
        Some(match workload {
            "copy" => Way::CopyIn,
            "insert-select" => Way::InsertSelect,
            "copy-out" => Way::CopyOut,
            "select-rows" => Way::Select,
            _ => return None,
        })
    }
}

pub struct ManyRows {
    way: Way,
    pub count: u32,
    /// In COPY's text format.
    text: Vec<u8>,
}

/// The table that is read, or written from.
const SOURCE: &str = "source";

impl ManyRows {
    pub fn new(way: Way, count: u32) -> ManyRows {
        let mut text = Vec::new();
        for row in 0..count {
            let (a, b) = (row.wrapping_mul(2_654_435_761), row % 1_000);
            writeln!(text, "{row}\t{a}\tthe text of row {row}\t{b}.25\t2026-11-22 10:00:00")
                .expect("memory takes all");
        }
        ManyRows { way, count, text }
    }

    /// Makes the tables.
    pub fn prepare(&self, server: &Server) -> Result<(), Failure> {
        let mut client = server.address.connect()?;
        create(&mut client, "copied")?;
        if self.way != Way::CopyIn {
            create(&mut client, SOURCE)?;
            self.copy_in(&mut client, SOURCE)?;
        }
        Ok(())
    }

    /// Moves all of the rows once.
    pub fn measure(&self, server: &Server) -> Result<Measured, Failure> {
        let mut client = server.address.connect()?;
        let wrong = |error: postgres::Error| failed("the rows", &error);
        client.batch_execute("TRUNCATE copied").map_err(wrong)?;
        let begun = Instant::now();
        let completed = match self.way {
            Way::CopyIn => self.copy_in(&mut client, "copied")?,
            Way::InsertSelect => {
                client.execute("INSERT INTO copied SELECT * FROM source", &[]).map_err(wrong)?
            }
            Way::CopyOut => copy_out(&mut client)?,
            Way::Select => select(&mut client).map_err(wrong)?,
        };
        if completed != u64::from(self.count) {
            return Err(failed("the rows", &format!("{completed} of {}", self.count)));
        }
        let throughput = completed as f64 / begun.elapsed().as_secs_f64();
        Ok(Measured { throughput, completed, aborted: 0, times_us: Vec::new(), late: Vec::new() })
    }

    /// Returns the number of rows that were copied.
    fn copy_in(&self, client: &mut Client, table: &str) -> Result<u64, Failure> {
        let wrong = |error: postgres::Error| failed("COPY", &error);
        let mut writer = client.copy_in(&format!("COPY {table} FROM STDIN")).map_err(wrong)?;
        writer.write_all(&self.text).map_err(|error| failed("COPY", &error))?;
        writer.finish().map_err(wrong)
    }
}

fn create(client: &mut Client, table: &str) -> Result<(), Failure> {
    let columns = "id integer PRIMARY KEY, a bigint NOT NULL, b text, c numeric(10,2), d timestamp";
    let made = client.batch_execute(&format!("CREATE TABLE {table} ({columns})"));
    made.map_err(|error| failed("CREATE TABLE", &error))
}

/// Returns the number of rows, which are the lines.
fn copy_out(client: &mut Client) -> Result<u64, Failure> {
    let copied = client.copy_out(&format!("COPY {SOURCE} TO STDOUT"));
    let mut reader = copied.map_err(|error| failed("COPY", &error))?;
    let (mut lines, mut chunk) = (0, vec![0; 64 << 10]);
    loop {
        let length = reader.read(&mut chunk).map_err(|error| failed("COPY", &error))?;
        if length == 0 {
            return Ok(lines);
        }
        lines += chunk[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

/// Returns the number of rows.
fn select(client: &mut Client) -> Result<u64, postgres::Error> {
    let nothing: [&str; 0] = [];
    let rows = client.query_raw(&format!("SELECT * FROM {SOURCE}"), nothing)?;
    rows.count().map(|count| count as u64)
}
