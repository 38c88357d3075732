//! YCSB's reads over JDBC: a program in Java, the language of YCSB, is the client.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bench::servers::{Server, failed};
use crate::bench::side_by_side::{Load, Measured};
use crate::cli::BenchArguments;
use crate::output::Failure;

/// Name of the workload on the command line.
pub const YCSB_JDBC: &str = "ycsb-jdbc";

/// The client.
const PROGRAM: &str = include_str!("YcsbReads.java");
const PROGRAM_FILE: &str = "YcsbReads.java";

const ROWS: u32 = 100_000;

/// Reads of rows by their key.
pub struct YcsbReads {
    /// The driver's jar.
    driver: PathBuf,
    pub rows: u32,
}

impl YcsbReads {
    /// As the settings say: `driver=FILE`, `rows=N`.
    pub fn of(
        arguments: &BenchArguments,
        wrong: &dyn Fn(&str, &str) -> Failure,
    ) -> Result<YcsbReads, Failure> {
        let (mut driver, mut rows) = (None, ROWS);
        for (name, text) in &arguments.cluster.settings {
            let known = match name.as_str() {
                // The client runs in a folder of its own.
                "driver" => std::path::absolute(text)
                    .ok()
                    .filter(|path| path.is_file())
                    .map(|path| driver = Some(path)),
                "rows" => text.parse().ok().filter(|rows| *rows > 2).map(|given| rows = given),
                _ => None,
            };
            let hint = "its settings are driver, the file of PostgreSQL's JDBC driver, and rows, from 3 on";
            known.ok_or_else(|| wrong(&format!("`{name}={text}` is wrong"), hint))?;
        }
        let hint = "--set driver=postgresql-42.7.4.jar, from https://jdbc.postgresql.org";
        let driver = driver.ok_or_else(|| wrong("PostgreSQL's JDBC driver is not named", hint))?;
        Ok(YcsbReads { driver, rows })
    }

    /// Makes YCSB's table: ten fields of 100 characters.
    pub fn prepare(&self, server: &Server) -> Result<(), Failure> {
        let fields: String = (0..10).map(|field| format!(", field{field} text")).collect();
        let values: String = (0..10).map(|field| format!(", rpad('{field} of ' || g, 100, 'x')")).collect();
        let last = self.rows - 1;
        let mut client = server.address.connect()?;
        let table = format!("CREATE TABLE usertable (ycsb_key varchar(255) PRIMARY KEY{fields})");
        let rows =
            format!("INSERT INTO usertable SELECT 'user' || g{values} FROM generate_series(0, {last}) g");
        let made = client.batch_execute(&table).and_then(|()| client.batch_execute(&rows));
        made.map_err(|error| failed("CREATE TABLE usertable", &error))
    }

    pub fn measure(
        &self,
        server: &Server,
        folder: &Path,
        (load, seed): (&Load, u64),
    ) -> Result<Measured, Failure> {
        let path = folder.join(PROGRAM_FILE);
        std::fs::write(&path, PROGRAM).map_err(|error| failed(&path.display().to_string(), &error))?;
        let output = Command::new("java")
            .arg("-cp")
            .arg(&self.driver)
            .arg(PROGRAM_FILE)
            .args([server.address.jdbc_url(), load.clients.to_string(), load.seconds.to_string()])
            .args([self.rows.to_string(), seed.to_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed("java (apt-get install default-jdk-headless)", &error))?;
        if !output.status.success() {
            return Err(failed("the client in Java", &String::from_utf8_lossy(&output.stderr)));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let times_us: Result<Vec<f64>, _> = said.lines().map(str::parse).collect();
        let times_us = times_us.map_err(|error| failed("the client in Java", &error))?;
        let completed = times_us.len() as u64;
        let throughput = completed as f64 / load.seconds;
        Ok(Measured { throughput, completed, aborted: 0, times_us, late: Vec::new() })
    }
}
