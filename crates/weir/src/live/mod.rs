//! `--from postgres://…`: the schema of a running PostgreSQL server as SQL, a source for each object.
//!
//! Reads the catalog in one read-only transaction with a time-out, and nothing of the tables' rows; any user
//! may. What the text means is for `weir-sql`'s tolerant reading to judge, as with pg_dump's output.

mod catalog;

use std::time::Duration;

use postgres::config::Host;
use postgres::error::SqlState;
use postgres::{Client, Config, IsolationLevel, NoTls, Transaction};
use weir_sql::Sources;

use crate::output::Failure;

/// Earlier servers lack columns of the catalog that are read here.
const SERVER_VERSION_MIN: i32 = 130_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Adds every object of the database that `url` names.
pub fn read(url: &str, timeout: Duration, sources: &mut Sources) -> Result<(), Failure> {
    let mut config = config("--from", url)?;
    config.tcp_user_timeout(timeout + CONNECT_TIMEOUT).application_name("weir analyze");
    let place = shown(&config);
    let texts = fetch(&config, timeout).map_err(|problem| problem.told(&place, timeout))?;
    if !texts.iter().any(|(object, _)| object.ends_with("(table)")) {
        return Err(Failure::input(format!(
            "{place}: error: there is no table in this database\n\
             hint: name the database that holds them: psql -l lists all"
        )));
    }
    sources.add(place.clone(), weir_sql::ACCEPTED);
    for (object, text) in texts {
        sources.add(format!("{place}#{object}"), text);
    }
    Ok(())
}

/// Reaches the server; `whose`: the option that the address was given for.
pub fn config(whose: &str, url: &str) -> Result<Config, Failure> {
    let wrong = |what: &str| {
        Failure::input(format!(
            "{whose}: error: {what}\nhint: write postgres://user@host:5432/database, and the password in PGPASSWORD"
        ))
    };
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) && !url.contains('=') {
        return Err(wrong("this is no address of a PostgreSQL server"));
    }
    let mut config: Config = url.parse().map_err(|error| wrong(&causes(&error)))?;
    if config.get_hosts().is_empty() {
        config.host("localhost");
    }
    if config.get_user().is_none() {
        return Err(wrong("the address names no user"));
    }
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    Ok(config)
}

/// The address without its password.
fn shown(config: &Config) -> String {
    let host = config.get_hosts().first().map_or_else(String::new, |host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    let user = config.get_user().unwrap_or("");
    format!("postgres://{user}@{host}{port}/{}", config.get_dbname().unwrap_or(user))
}

enum Problem {
    Server(postgres::Error),
    TooOld(String),
}

impl From<postgres::Error> for Problem {
    fn from(error: postgres::Error) -> Problem {
        Problem::Server(error)
    }
}

/// Name of each object, and the statement that creates it.
fn fetch(config: &Config, timeout: Duration) -> Result<Vec<(String, String)>, Problem> {
    let mut client: Client = config.connect(NoTls)?;
    let snapshot = client.build_transaction().read_only(true).isolation_level(IsolationLevel::RepeatableRead);
    let mut transaction = snapshot.start()?;
    // Zero would mean no time-out at all.
    let milliseconds = timeout.as_millis().max(1);
    // With an empty path every name is printed with its schema, as pg_dump does.
    transaction.batch_execute(&format!(
        "SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}; \
         SET LOCAL search_path = ''"
    ))?;
    let version: i32 =
        transaction.query_one("SELECT current_setting('server_version_num')::int4", &[])?.get(0);
    if version < SERVER_VERSION_MIN {
        let version: String = transaction.query_one("SELECT current_setting('server_version')", &[])?.get(0);
        return Err(Problem::TooOld(version));
    }
    let mut texts = Vec::new();
    for (kind, query) in catalog::QUERIES {
        objects(&mut transaction, kind, query, &mut texts)?;
    }
    transaction.rollback()?;
    Ok(texts)
}

fn objects(
    transaction: &mut Transaction<'_>,
    kind: &str,
    query: &str,
    texts: &mut Vec<(String, String)>,
) -> Result<(), Problem> {
    for row in transaction.query(query, &[])? {
        let (name, text): (Option<String>, Option<String>) = (row.get(0), row.get(1));
        // An object that was dropped meanwhile has no text any more.
        if let (Some(name), Some(text)) = (name, text) {
            texts.push((format!("{name} ({kind})"), format!("{};\n", text.trim_end().trim_end_matches(';'))));
        }
    }
    Ok(())
}

impl Problem {
    fn told(self, place: &str, timeout: Duration) -> Failure {
        let error = match self {
            Problem::Server(error) => error,
            Problem::TooOld(version) => {
                return Failure::input(format!(
                    "{place}: error: the server is PostgreSQL {version}; from 13 on they are read\n\
                     hint: pg_dump --schema-only writes a file that weir analyze reads"
                ));
            }
        };
        let remedy = match error.code() {
            Some(code) if *code == SqlState::QUERY_CANCELED || *code == SqlState::LOCK_NOT_AVAILABLE => {
                let seconds = timeout.as_secs_f64();
                return Failure::input(format!(
                    "{place}: error: the server did not answer within {seconds} s ({})\n\
                     hint: --timeout {} gives it longer",
                    causes(&error),
                    (seconds * 4.0).ceil()
                ));
            }
            Some(code) if *code == SqlState::INVALID_PASSWORD => {
                "put the right password into PGPASSWORD, or into the address: postgres://user:password@host/database"
            }
            Some(code) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                "the server's pg_hba.conf must let this user in from here without TLS: a tunnel (ssh -L) helps, \
                 or a file of pg_dump --schema-only"
            }
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                "name a database that exists: psql -l lists them"
            }
            Some(_) => "pg_dump --schema-only writes a file that weir analyze reads",
            None if causes(&error).contains("password") => "put the password into PGPASSWORD",
            None if causes(&error).contains("TLS") => {
                "weir speaks no TLS: use a tunnel (ssh -L), or a file of pg_dump --schema-only"
            }
            None => "is the server running, and are host and port right?",
        };
        Failure::input(format!("{place}: error: {}\nhint: {remedy}", causes(&error)))
    }
}

/// The error and what lies below it.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        below = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, expected) in [
            ("postgres://me:secret@db.example/bank", "postgres://me@db.example:5432/bank"),
            ("postgresql://me:secret@db.example:6432/bank", "postgres://me@db.example:6432/bank"),
            ("host=/tmp user=me password=secret", "postgres://me@/tmp/me"),
        ] {
            let config = config("--from", url).expect("an address");
            assert_eq!(shown(&config), expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_remedy() {
        for url in ["", "mysql://me@host/db", "postgres://[", "postgres://host/db", "user=", "a=b"] {
            match config("--from", url) {
                Err(Failure::Input(message)) => {
                    assert!(message.contains("error: ") && message.contains("hint: "), "{message}");
                }
                other => panic!("{url}: {other:?}"),
            }
        }
    }
}
