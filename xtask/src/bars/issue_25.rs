//! The bars of issue 25: the cost of a statement and of a definition follows what it touches.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::issue_02::tests;
use super::side_by_side::{self, Compared};
use super::weir::{Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

/// All tests of the simulated worlds: their usual seeds, and every planted bug.
const SIMULATED: [Chosen; 2] =
    [Chosen::fast("sim", &["simulated::"]), Chosen::fast("bench", &["simulated::"])];

/// The tests that run a world from many seeds, as many as `WEIR_SEEDS` says.
const WORLDS: [Chosen; 2] = [
    Chosen::fast("sim", &["simulated::items::seeds_of", "simulated::relations::seeds"]),
    Chosen::fast(
        "bench",
        &[
            "assertions_under_faults::seeds_hold",
            "built_indexes_under_faults::indexes_are_built_while_others_write",
            "calls_under_faults::rows_of_several_shards_come_and_go",
            "calls_under_faults::seeds_hold",
            "carried::seeds_of_both_applications",
            "copies_under_faults::copies_agree",
            "deferred_under_faults::no_child_is_left",
            "definitions_under_faults::definitions_are_there",
            "escrow_under_faults::bounds_hold",
            "foreign_keys_under_faults::no_child_of_another_shard",
            "global_keys_under_faults::keys_are_unique",
            "interactive_calls::seeds_hold",
            "interactive_under_faults::commits_in_slices_keep",
            "interactive_under_faults::no_money_is_lost",
            "interactive_under_faults::shards_that_compute_for_long",
            "interactive_under_faults::what_has_been_told",
            "loads_under_faults::loads_are_there",
            "loads_under_faults::loads_that_commit_in_slices",
            "ordered_under_faults::all_is_strictly_serializable",
            "random_assertions::checks_of_changes",
            "serializable_under_faults::all_is_strictly_serializable",
            "snapshots_under_faults::a_snapshot_is_one_state",
            "statements_under_faults::conditions_on_a_row_hold",
            "statements_under_faults::invariants_hold",
            "statements_under_faults::locks_of_statements_keep",
            "streams_under_faults::rows_that_are_taken_early",
        ],
    ),
];

pub const BARS: &[Bar] = &[
    Bar {
        id: "planted-bugs-of-worlds",
        issue: 25,
        claim: "every planted bug of the simulated worlds is caught, and no world without one fails",
        bar: "all",
        kind: Kind::Simulated,
        measure: |weir, _| tests(weir, &SIMULATED, &[]),
    },
    Bar {
        id: "seeds-of-worlds",
        issue: 25,
        claim: "seeds of every simulated world, of the database's and of the item store's",
        bar: "1,000 seeds of each, no failure",
        kind: Kind::Simulated,
        measure: seeds_of_worlds,
    },
    Bar {
        id: "long-transactions",
        issue: 25,
        claim: "transactions of 50,000 single-row INSERTs, UPDATEs by key and DELETEs through psql, over PostgreSQL 15",
        bar: "≥ 1.0; the last tenth takes at most 1.2 of the first",
        kind: Kind::Real,
        measure: |weir, effort| long_transactions(weir, effort, "statements"),
    },
    Bar {
        id: "long-transactions-savepoints",
        issue: 25,
        claim: "the same with a SAVEPOINT before each statement, over PostgreSQL 15",
        bar: "≥ 1.0; the last tenth takes at most 1.2 of the first",
        kind: Kind::Real,
        measure: |weir, effort| long_transactions(weir, effort, "savepoints"),
    },
    Bar {
        id: "five-million-rows-copy",
        issue: 25,
        claim: "five million rows by COPY in one transaction, over the baseline",
        bar: "≥ 0.97 of the baseline's",
        kind: Kind::Real,
        measure: |weir, effort| five_million_rows(weir, effort, "copy"),
    },
    Bar {
        id: "five-million-rows-select",
        issue: 25,
        claim: "five million rows by INSERT … SELECT in one transaction, over the baseline",
        bar: "≥ 0.97 of the baseline's",
        kind: Kind::Real,
        measure: |weir, effort| five_million_rows(weir, effort, "insert-select"),
    },
    Bar {
        id: "cost-follows-the-change",
        issue: 25,
        claim: "in a schema of 1,000 tables and 1,500 foreign keys: the first use of a statement's shape, CREATE TABLE and ADD COLUMN, beside a schema of three tables",
        bar: "a shape under 5 ms, a definition under 20 ms, neither more than twice the small schema's",
        kind: Kind::Real,
        measure: cost_follows_the_change,
    },
];

fn seeds_of_worlds(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let seeds = if effort == Effort::Quick { "0..20" } else { "0..1000" };
    let seen = tests(weir, &WORLDS, &[("WEIR_SEEDS", seeds)])?;
    Ok(Seen { interval: format!("seeds {seeds}, {}", seen.interval), ..seen })
}

/// Transactions through psql, on this build and on PostgreSQL in turns.
fn long_transactions(weir: &Weir, effort: Effort, workload: &str) -> Result<Seen, String> {
    let (pairs, statements) =
        if effort == Effort::Quick { ("3", "statements=10000") } else { ("10", "statements=50000") };
    let report = weir.json(&[
        "bench",
        workload,
        "--set",
        statements,
        "--target",
        "weir:,postgres",
        "--repeat",
        pairs,
        "--format",
        "json",
    ])?;
    let Compared { value, min, max, pairs, own, other, .. } = side_by_side::read(&report)?;
    let own_runs = side_by_side::runs_of(&report, "weir");
    let of_kind =
        |kind: usize| median(own_runs.clone().filter_map(|run| run["late"][kind].as_f64()).collect());
    // INSERTs, UPDATEs, DELETEs: the worst median, since the worst of three noisy readings says more of the noise.
    let late = (0..3).map(of_kind).fold(f64::NAN, f64::max);
    Ok(Seen {
        met: value >= 1.0 && late <= 1.2,
        figure: format!("{value:.2}; the last tenth {late:.2} of the first"),
        interval: format!("{min:.2} to {max:.2}, {pairs} pairs; {own:.0} and {other:.0} a second"),
    })
}

/// This build and the baseline in turns.
fn five_million_rows(weir: &Weir, effort: Effort, workload: &str) -> Result<Seen, String> {
    let (pairs, rows) = if effort == Effort::Quick { ("3", "rows=500000") } else { ("10", "rows=5000000") };
    let targets = format!("weir:,baseline:{}", weir.baseline()?.display());
    let report = weir.json(&[
        "bench", workload, "--set", rows, "--target", &targets, "--repeat", pairs, "--format", "json",
    ])?;
    let Compared { value, min, max, pairs, own, other, .. } = side_by_side::read(&report)?;
    Ok(Seen {
        met: value >= 0.97,
        figure: format!("{value:.3}"),
        interval: format!("{min:.3} to {max:.3}, {pairs} pairs; {own:.0} and {other:.0} a second"),
    })
}

const TABLES: usize = 1_000;
const KEYS: usize = 1_500;
/// No cost below this is told apart from the noise of a round trip, so that a ratio means nothing.
const NOISE_MS: f64 = 0.5;

/// The tables that the measured statements name.
const MEASURED: &str = "
CREATE TABLE m0 (id bigint PRIMARY KEY, name text NOT NULL, n int NOT NULL CHECK (n >= 0));
CREATE TABLE m1 (id bigint PRIMARY KEY, m bigint REFERENCES m0, n int NOT NULL);
CREATE TABLE m2 (id bigint PRIMARY KEY, m bigint REFERENCES m1 ON DELETE CASCADE, n int NOT NULL, v text);
";

/// Tables in groups of 20 that refer to each other, with a few keys into other groups.
fn schema(tables: usize, keys: usize) -> String {
    let mut chance = 7_u64;
    let mut below = |n: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((chance >> 33) as usize) % n
    };
    let mut text = MEASURED.to_owned();
    let mut made = 0;
    for table in 0..tables {
        let _ = write!(
            text,
            "CREATE TABLE t{table} (id bigint PRIMARY KEY, name text NOT NULL, n int NOT NULL CHECK (n >= 0), note text"
        );
        let wanted = keys * (table + 1) / tables - made;
        for key in 0..wanted.min(table * 3) {
            let group = table / 20 * 20;
            let parent = if key == 0 && table > group { group + below(table - group) } else { below(table) };
            let action = if below(4) == 0 { " ON DELETE CASCADE" } else { "" };
            let _ = write!(text, ", p{key} bigint REFERENCES t{parent}{action}");
            made += 1;
        }
        text.push_str(");\n");
        if table % 3 == 0 {
            let _ = writeln!(text, "CREATE INDEX t{table}_name ON t{table} (name);");
        }
    }
    text
}

/// Statements of shapes that nobody has used.
fn shapes() -> Vec<String> {
    let of = |at: usize| {
        let sum = "1 + ".repeat(at);
        let same = " AND n = n".repeat(at);
        [
            format!("SELECT name, {sum}1 FROM m0 WHERE id = {at}"),
            format!("INSERT INTO m0 (id, name, n) VALUES ({at}, 'a', {sum}1)"),
            format!("INSERT INTO m1 (id, m, n) VALUES ({at}, {at}, {sum}1)"),
            format!("UPDATE m1 SET n = n + {sum}1 WHERE id = {at}"),
            format!("DELETE FROM m2 WHERE id = {at}{same}"),
            format!("DELETE FROM m1 WHERE id = {at}{same}"),
        ]
    };
    (0..4).flat_map(of).collect()
}

fn definitions() -> Vec<String> {
    let of = |at: usize| {
        [
            format!("CREATE TABLE x{at} (id int PRIMARY KEY, v int, m bigint REFERENCES m0)"),
            format!("ALTER TABLE x{at} ADD COLUMN w int"),
        ]
    };
    (0..5).flat_map(of).collect()
}

struct Server {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    fn start(binary: &Path, tables: usize, keys: usize) -> Result<Server, String> {
        let folder = std::env::temp_dir().join(format!("weir-cost-{}-{tables}", std::process::id()));
        let application = folder.join("application");
        let said = |error: std::io::Error| error.to_string();
        std::fs::create_dir_all(&application).map_err(said)?;
        std::fs::write(application.join("schema.sql"), schema(tables, keys)).map_err(said)?;
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).map_err(said)?;
        let port = port.port();
        let child = Command::new(binary)
            .arg("serve")
            .arg(&application)
            .arg("--data")
            .arg(folder.join("data"))
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said)?;
        let server = Server { child, folder, port };
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if server.psql("SELECT 1").is_ok_and(|text| text.trim() == "1") {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("the server does not answer".to_owned())
    }

    fn psql(&self, script: &str) -> Result<String, String> {
        let mut child = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "weir", "-p"])
            .args([&self.port.to_string(), "-f", "-", "weir"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("psql: {error}"))?;
        let mut stdin = child.stdin.take().ok_or("psql has no input")?;
        stdin.write_all(script.as_bytes()).map_err(|error| error.to_string())?;
        drop(stdin);
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Duration of each statement, in milliseconds.
    fn times(&self, statements: &[String]) -> Result<Vec<f64>, String> {
        let said = self.psql(&format!("\\timing on\n{};\n", statements.join(";\n")))?;
        let time = |line: &str| line.strip_prefix("Time: ")?.split(' ').next()?.parse().ok();
        let times: Vec<f64> = said.lines().filter_map(time).collect();
        match times.len() == statements.len() {
            true => Ok(times),
            false => Err(format!("{} times of {} statements", times.len(), statements.len())),
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The medians of the first use of a shape, of CREATE TABLE and of ADD COLUMN.
fn costs(binary: &Path, tables: usize, keys: usize) -> Result<[f64; 3], String> {
    let server = Server::start(binary, tables, keys)?;
    let shapes = median(server.times(&shapes())?);
    let times = server.times(&definitions())?;
    let every_other = |from: usize| times.iter().skip(from).step_by(2).copied().collect();
    Ok([shapes, median(every_other(0)), median(every_other(1))])
}

fn cost_follows_the_change(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let pairs = if effort == Effort::Quick { 1 } else { 5 };
    let (mut large, mut small) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    for _ in 0..pairs {
        for (into, tables, keys) in [(&mut large, TABLES, KEYS), (&mut small, 0, 0)] {
            for (list, cost) in into.iter_mut().zip(costs(&weir.binary, tables, keys)?) {
                list.push(cost);
            }
        }
    }
    let median_of = |all: Vec<Vec<f64>>| all.into_iter().map(median).collect::<Vec<f64>>();
    let (large, small) = (median_of(large), median_of(small));
    let most = [5.0, 20.0, 20.0];
    let met = (0..3).all(|at| large[at] < most[at] && large[at] <= 2.0 * small[at].max(NOISE_MS));
    let shown = |at: usize| format!("{:.1} ms ({:.1} ms)", large[at], small[at]);
    Ok(Seen {
        met,
        figure: format!("shape {}, CREATE TABLE {}, ADD COLUMN {}", shown(0), shown(1), shown(2)),
        interval: format!("{pairs} pairs; in brackets the schema of three tables"),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::WORLDS;
    use crate::verify::workspace_root;

    /// Every world that is run from the seeds of `WEIR_SEEDS` is run from a thousand.
    #[test]
    fn no_world_is_left_out() {
        let folder = workspace_root().join("crates/weir-bench/tests/simulated");
        let mut tests = Vec::new();
        for entry in std::fs::read_dir(&folder).unwrap() {
            tests.extend(tests_of_seeds(&entry.unwrap().path()));
        }
        assert!(tests.len() > 15, "{tests:?}");
        let [_, of_bench] = &WORLDS;
        let is_run = |test: &String| of_bench.names.iter().any(|name| test.contains(name));
        let left_out: Vec<&String> = tests.iter().filter(|test| !is_run(test)).collect();
        assert!(left_out.is_empty(), "WORLDS lacks {left_out:?}");
    }

    /// Tests of a file that ask for seeds, as `module::function`.
    fn tests_of_seeds(path: &Path) -> Vec<String> {
        let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        let functions = text.split("\nfn ").skip(1).filter(|function| {
            let body = function.split_once('{').map_or("", |(_, body)| body);
            body.contains("world::seeds(") || body.contains(" in seeds()")
        });
        let name = |function: &str| function.split('(').next().unwrap_or_default().to_owned();
        let names = functions.map(name).filter(|name| name != "seeds");
        let of_tests: Vec<String> = names.collect();
        for name in &of_tests {
            assert!(text.contains(&format!("#[test]\nfn {name}(")), "{module}::{name} is no test itself");
        }
        of_tests.into_iter().map(|name| format!("{module}::{name}")).collect()
    }
}
