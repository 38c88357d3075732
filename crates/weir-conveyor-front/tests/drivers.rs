//! Clients as their users have them, from their registries, through an agent: each does what an application does with the shop of
//! `deployment.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::deployment::{Deployment, SCHEMA, TRANSACTIONS};
use crate::installed::{installed, is_well, jdbc};

/// Statements that these clients send beside those of the shop.
const MORE: &str = r#"
[[transaction]]
name = "fill_cart"
class = "local"
home = 1
statements = ["SELECT item, n FROM cart WHERE key = $1 ORDER BY item", "INSERT INTO cart VALUES ($1, $0, $0)"]

[[transaction]]
name = "import"
class = "global"
statements = ["COPY log (id, what) FROM STDIN", "INSERT INTO log VALUES ($1, $2)", "SELECT id, what FROM log WHERE id = $1"]
"#;

/// What SQLAlchemy sends for the web application, as `weir conveyor --observe` lists it.
const WEB: &str = r#"
[[transaction]]
name = "add_to_cart"
class = "local"
home = 1
statements = [
    "SELECT cart.key AS cart_key, cart.item AS cart_item, cart.n AS cart_n FROM cart WHERE cart.key = $1::INTEGER AND cart.item = $0::INTEGER",
    "SELECT cart.key, cart.item, cart.n FROM cart WHERE cart.key = $1::INTEGER ORDER BY cart.item",
    "INSERT INTO cart (key, item, n) VALUES ($1::INTEGER, $0::INTEGER, $0::INTEGER)",
    "UPDATE cart SET n=$0::INTEGER WHERE cart.key = $1::INTEGER AND cart.item = $0::INTEGER",
]

[[transaction]]
name = "check_out"
class = "global"
home = 1
statements = [
    "SELECT cart.key, cart.item, cart.n FROM cart WHERE cart.key = $1::INTEGER ORDER BY cart.item",
    "SELECT stock.id AS stock_id, stock.n AS stock_n FROM stock WHERE stock.id = $0::INTEGER",
    "UPDATE stock SET n=$0::INTEGER WHERE stock.id = $0::INTEGER",
    "INSERT INTO log (id, what) VALUES ($0::BIGINT, $0::VARCHAR)",
]
"#;

fn of_tests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers").join(file)
}

fn deployment() -> Deployment {
    let transactions = [TRANSACTIONS, MORE, WEB].concat();
    Deployment::start_of(3, (SCHEMA, &transactions), ("placed", 20_000))
}

fn pip(name: &str, packages: &[&str]) -> PathBuf {
    installed(name, |place| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(place).args(packages);
        pip
    })
}

/// A program in Python, with the port of each agent as its arguments.
fn python(deployment: &Deployment, file: &str, packages: &Path) -> Command {
    let mut python = Command::new("python3");
    python.arg(of_tests(file)).env("PYTHONPATH", packages);
    python.args(deployment.agents.iter().map(|agent| agent.address.port().to_string()));
    python
}

#[test]
fn psycopg_3() {
    let place = pip("psycopg-3", &["psycopg[binary]>=3.2,<4"]);
    let deployment = deployment();
    is_well(&mut python(&deployment, "session.py", &place));
}

/// A web application: its pages read and write through the ORM.
#[test]
fn a_web_application_over_sqlalchemy() {
    let place = pip("sqlalchemy-2", &["sqlalchemy>=2.0,<2.1", "psycopg[binary]>=3.2,<4"]);
    let deployment = deployment();
    is_well(&mut python(&deployment, "web.py", &place));
}

#[test]
fn jdbc_of_postgresql() {
    let deployment = deployment();
    let mut java = Command::new("java");
    java.arg("-cp").arg(jdbc()).arg(of_tests("Session.java"));
    java.args(deployment.agents.iter().map(|agent| agent.address.port().to_string()));
    is_well(&mut java);
}
