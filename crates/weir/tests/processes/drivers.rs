//! Drivers and tools as their users have them, from their registries, against a server of PostgreSQL's protocol: each does what an
//! application does.

use crate::installed;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::alone::Alone;
use crate::bank::Bank;
use crate::installed::{installed, is_well, run};

fn of_tests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers").join(file)
}

#[test]
fn psycopg_3() {
    let place = installed("psycopg-3", |place| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(place).arg("psycopg[binary]>=3.2,<4");
        pip
    });
    let bank = Bank::open(|_| ());
    let mut python = Command::new("python3");
    python.arg(of_tests("session.py")).arg(bank.url("")).env("PYTHONPATH", place);
    is_well(&mut python);
}

/// It asks the catalogs about the types of what it sends and is sent, and has what it asks in the binary format.
#[test]
fn asyncpg() {
    let place = installed("asyncpg", |place| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(place).arg("asyncpg>=0.30,<1");
        pip
    });
    let weir = Alone::start(1);
    let mut python = Command::new("python3");
    python.arg(of_tests("asyncpg_session.py")).arg(weir.port().to_string()).env("PYTHONPATH", place);
    is_well(&mut python);
}

#[test]
fn node_postgres() {
    let place = installed("node-postgres", |place| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(place);
        npm.args(["pg@8", "pg-cursor@2", "pg-copy-streams@6"]);
        npm
    });
    let bank = Bank::open(|_| ());
    let mut node = Command::new("node");
    node.arg(of_tests("session.js")).arg(bank.port().to_string()).arg(place);
    is_well(&mut node);
}

#[test]
fn jdbc() {
    for zone in ["UTC", "America/New_York", "Asia/Kolkata"] {
        let bank = Bank::open(|_| ());
        let mut java = Command::new("java");
        java.arg(format!("-Duser.timezone={zone}")).arg("-cp").arg(installed::jdbc());
        java.arg(of_tests("Session.java")).arg(bank.port().to_string());
        is_well(&mut java);
    }
}

#[test]
fn pgbench_runs_a_script_by_each_protocol() {
    let bank = Bank::open(|_| ());
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script.sql");
    let text = "\\set a random(1, 9)\nBEGIN;\nUPDATE account SET balance = balance + 1 WHERE id = :a;\n\
                SELECT balance FROM account WHERE id = :a;\nEND;\n";
    std::fs::write(&script, text).unwrap();
    let mut driver = bank.driver();
    for (round, protocol) in ["simple", "extended", "prepared"].into_iter().enumerate() {
        let mut pgbench = Command::new("pgbench");
        pgbench.args(["-n", "-h", "127.0.0.1", "-U", "ann", "-c", "4", "-t", "25", "-M", protocol, "-p"]);
        pgbench.arg(bank.port().to_string()).arg("-f").arg(&script).arg("weir");
        let said = run(&mut pgbench).unwrap_or_else(|why| panic!("pgbench: {why}"));
        assert!(said.contains("number of transactions actually processed: 100/100"), "{said}");
        let row = driver.query_one("SELECT sum(balance)::float8 FROM account", &[]).unwrap();
        assert_eq!(row.get::<_, f64>(0), 90.0 + 100.0 * (round as f64 + 1.0));
    }
}

/// Foreign keys before the rows, and after them.
#[test]
fn pgbench_fills_tables_with_foreign_keys_on_three_shards() {
    let weir = Alone::start(3);
    for steps in ["dtpfg", "dtgpf"] {
        let mut pgbench = Command::new("pgbench");
        pgbench.args(["-i", "-I", steps, "-s", "1", "-h", "127.0.0.1", "-U", "ann", "-p"]);
        pgbench.arg(weir.port().to_string()).arg("weir");
        run(&mut pgbench).unwrap_or_else(|why| panic!("pgbench -I {steps}: {why}"));
        let counted = "SELECT (SELECT count(*) FROM pgbench_accounts), \
                       (SELECT count(*) FROM pg_constraint WHERE contype = 'f')";
        let row = weir.driver().query_one(counted, &[]).unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100_000, 5), "{steps}");
    }
    let mut pgbench = Command::new("pgbench");
    pgbench.args(["-n", "-h", "127.0.0.1", "-U", "ann", "-c", "2", "-t", "10", "-p"]);
    let said = run(pgbench.arg(weir.port().to_string()).arg("weir")).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.contains("number of transactions actually processed: 20/20"), "{said}");
}
