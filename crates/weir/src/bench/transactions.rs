//! Three transactions of many statements through psql: single-row INSERTs, UPDATEs by key, DELETEs by key.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::bench::servers::{Server, failed};
use crate::bench::side_by_side::Measured;
use crate::output::Failure;

/// A tenth of the statements must be worth measuring.
pub const STATEMENTS_MIN: u32 = 100;

const CREATE: &str =
    "DROP TABLE IF EXISTS written; CREATE TABLE written (id integer PRIMARY KEY, v integer, t text)";

/// Prints the server's clock, in seconds.
const MARK: &str = "SELECT extract(epoch FROM clock_timestamp());\n";

pub struct Transactions {
    /// Folder of psql.
    pub programs: PathBuf,
    /// Statements of each transaction.
    pub statements: u32,
    /// A SAVEPOINT comes before each statement.
    pub savepoints: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Insert,
    Update,
    Delete,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Insert, Kind::Update, Kind::Delete];

    fn statement(self, id: u32) -> String {
        match self {
            Kind::Insert => format!("INSERT INTO written VALUES ({id}, {id}, 'row {id}');\n"),
            Kind::Update => format!("UPDATE written SET v = v + 1 WHERE id = {id};\n"),
            Kind::Delete => format!("DELETE FROM written WHERE id = {id};\n"),
        }
    }
}

impl Transactions {
    pub fn measure(&self, server: &Server) -> Result<Measured, Failure> {
        let created = server.address.connect()?.batch_execute(CREATE);
        created.map_err(|error| failed("CREATE TABLE", &error))?;
        let (mut seconds, mut late) = (0.0, Vec::new());
        for kind in Kind::ALL {
            let said = server.address.psql(&self.programs, &self.script(kind))?;
            let marks = Marks::of(&said).ok_or_else(|| failed("psql did not print the marks", &said))?;
            seconds += marks.seconds();
            late.push(marks.late());
        }
        let completed = u64::from(self.statements) * Kind::ALL.len() as u64;
        let throughput = completed as f64 / seconds;
        Ok(Measured { throughput, completed, aborted: 0, times_us: Vec::new(), late })
    }

    /// One transaction, with marks around its first and its last tenth, and after its COMMIT.
    fn script(&self, kind: Kind) -> String {
        let tenth = self.statements / 10;
        let mut script = format!("BEGIN;\n{MARK}");
        for id in 0..self.statements {
            if [tenth, self.statements - tenth].contains(&id) {
                script.push_str(MARK);
            }
            if self.savepoints {
                let _ = writeln!(script, "SAVEPOINT s{id};");
            }
            script.push_str(&kind.statement(id));
        }
        script + MARK + "COMMIT;\n" + MARK
    }
}

/// Times of a transaction on the server's clock, in seconds.
struct Marks {
    begin: f64,
    /// End of the first tenth, and begin of the last one.
    first: f64,
    last: f64,
    end: f64,
    committed: f64,
}

impl Marks {
    fn of(said: &str) -> Option<Marks> {
        let marks: Vec<f64> = said.lines().filter_map(|line| line.trim().parse().ok()).collect();
        let [begin, first, last, end, committed] = marks[..] else { return None };
        Some(Marks { begin, first, last, end, committed })
    }

    /// Duration of the transaction with its COMMIT.
    fn seconds(&self) -> f64 {
        self.committed - self.begin
    }

    /// Duration of the last tenth over that of the first one.
    fn late(&self) -> f64 {
        (self.end - self.last) / (self.first - self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_its_statements_and_marks() {
        let transactions = Transactions { programs: PathBuf::new(), statements: 100, savepoints: true };
        let script = transactions.script(Kind::Update);
        let count = |words: &str| script.lines().filter(|line| line.starts_with(words)).count();
        assert_eq!((count("UPDATE"), count("SAVEPOINT"), count("SELECT")), (100, 100, 5));
        assert!(script.starts_with("BEGIN;\nSELECT"));
        assert!(script.ends_with(&format!("COMMIT;\n{MARK}")));
    }

    #[test]
    fn the_end_is_compared_with_the_beginning() {
        let marks = Marks::of("10.0\n12.0\n20.0\n23.0\n24.0\n").unwrap();
        assert_eq!((marks.late(), marks.seconds()), (1.5, 14.0));
        assert!(Marks::of("10.0\n12.0\n").is_none());
    }
}
