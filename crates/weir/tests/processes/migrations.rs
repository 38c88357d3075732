//! Migrations of applications by tools as their users have them.
//!
//! On one shard: a key that has nothing to do with where rows live is refused on several.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::alone::Alone;
use crate::installed::{installed, is_well, run};

fn of_tests(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migrations").join(file)
}

/// Flyway writes its history on one connection while another defines, and a definition keeps everybody else out until its transaction
/// ends: migrations run outside of transactions, and the lock is the session's.
#[test]
fn flyway() {
    let place = installed("flyway", |place| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-f"]).arg(of_tests("pom.xml"));
        maven.arg(format!("-DoutputDirectory={}", place.display())).current_dir(place);
        maven
    });
    let weir = Alone::start(1);
    let mut java = Command::new("java");
    java.arg("-cp").arg(place.join("*")).arg(of_tests("Migrate.java"));
    is_well(java.arg(weir.port().to_string()).arg(of_tests("flyway")));
}

#[test]
fn sqlalchemy_and_alembic() {
    let place = installed("alembic", |place| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(place);
        pip.args(["psycopg[binary]>=3.2,<4", "sqlalchemy>=2,<3", "alembic>=1.13,<2"]);
        pip
    });
    let weir = Alone::start(1);
    let folder = tempfile::tempdir().unwrap();
    let mut python = Command::new("python3");
    python.arg(of_tests("migrate.py")).env("PYTHONPATH", &place);
    python.arg(format!("postgresql+psycopg://ann@127.0.0.1:{}/weir", weir.port())).arg(folder.path());
    is_well(&mut python);
}

fn mappers(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mappers").join(file)
}

#[test]
fn hibernate() {
    let place = installed("hibernate", |place| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-f"]).arg(mappers("pom.xml"));
        maven.arg(format!("-DoutputDirectory={}", place.display())).current_dir(place);
        maven
    });
    let classes = tempfile::tempdir().unwrap();
    let mut compiler = Command::new("javac");
    compiler.arg("-cp").arg(place.join("*")).arg("-d").arg(classes.path()).arg(mappers("Mapped.java"));
    run(&mut compiler).unwrap_or_else(|why| panic!("{why}"));
    let weir = Alone::start(1);
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{}:{}/*", classes.path().display(), place.display()));
    is_well(java.arg("Mapped").arg(weir.port().to_string()));
}

#[test]
fn django() {
    let place = installed("django", |place| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(place);
        pip.args(["psycopg[binary]>=3.2,<4", "django>=5,<6"]);
        pip
    });
    let weir = Alone::start(1);
    let folder = tempfile::tempdir().unwrap();
    let mut python = Command::new("python3");
    python.arg(of_tests("manage.py")).env("PYTHONPATH", &place);
    python.arg(weir.port().to_string()).arg(folder.path()).args(["weir", "ann", "127.0.0.1"]);
    is_well(&mut python);
}

#[test]
fn typeorm() {
    let place = installed("typeorm", |place| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(place);
        npm.args(["pg@8.13.1", "typeorm@0.3.20", "reflect-metadata@0.2.2"]);
        npm
    });
    let weir = Alone::start(1);
    let mut node = Command::new("node");
    node.arg(mappers("typeorm.js")).arg(weir.port().to_string()).arg(place);
    is_well(&mut node);
}

#[test]
fn sequelize() {
    let place = installed("sequelize", |place| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(place);
        npm.args(["pg@8.13.1", "sequelize@6.37.8"]);
        npm
    });
    let weir = Alone::start(1);
    let mut node = Command::new("node");
    node.arg(mappers("sequelize.js")).arg(weir.port().to_string()).arg(place);
    is_well(&mut node);
}

/// The second push reads the schema of the first, and finds no difference.
#[test]
fn drizzle_kit() {
    let place = installed("drizzle", |place| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(place);
        npm.args(["pg@8.13.1", "drizzle-orm@0.45.4", "drizzle-kit@0.31.11"]);
        npm
    });
    let weir = Alone::start(1);
    // It finds its packages from where its files are.
    std::fs::copy(mappers("drizzle/schema.ts"), place.join("schema.ts")).unwrap();
    let push = || {
        let mut push = Command::new(place.join("node_modules/.bin/drizzle-kit"));
        push.args(["push", "--force", "--dialect=postgresql", "--schema=schema.ts"]).current_dir(&place);
        push.arg(format!("--url=postgres://ann@127.0.0.1:{}/weir", weir.port()));
        run(&mut push).unwrap_or_else(|why| panic!("{why}"))
    };
    assert!(push().contains("Changes applied"));
    let second = push();
    assert!(second.contains("No changes detected"), "{second}");
}

#[test]
fn active_record() {
    let weir = Alone::start(1);
    is_well(Command::new("ruby").arg(mappers("active_record.rb")).arg(weir.port().to_string()));
}
