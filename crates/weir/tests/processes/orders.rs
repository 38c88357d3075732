//! TPC-C by clients that send single statements at READ COMMITTED, as their users have them: they define and load the tables, run the five
//! transactions on several connections, and ask for the twelve conditions, before and after. None of their statements may fail.
//!
//! `WEIR_ORDERS="1 16 1000"`: the scale (1 is a warehouse of full size), terminals, and transactions of each.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::alone::Alone;
use crate::installed::{is_well, jdbc, run};

fn of_tests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/orders").join(file)
}

fn size() -> Vec<String> {
    let size = std::env::var("WEIR_ORDERS").unwrap_or_else(|_| "100 4 40".to_owned());
    size.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn over_jdbc() {
    let weir = Alone::start(1);
    let mut java = Command::new("java");
    java.arg("-cp").arg(jdbc()).arg(of_tests("Orders.java")).arg(weir.port().to_string()).args(size());
    is_well(&mut java);
}

#[test]
fn over_lib_pq() {
    let weir = Alone::start(1);
    let client = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers/orders");
    // Where Go's own installer puts it, if it is not to be found.
    let is_found = Command::new("go").arg("version").output().is_ok();
    let mut go = Command::new(if is_found { "go" } else { "/usr/local/go/bin/go" });
    go.args(["build", "-o"]).arg(&client).arg(".").current_dir(of_tests(""));
    run(&mut go).unwrap_or_else(|why| panic!("lib/pq cannot be installed, so it cannot be tested: {why}"));
    let mut client = Command::new(client);
    is_well(client.arg(weir.port().to_string()).args(size()));
}
