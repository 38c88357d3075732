//! Answers of a server, as text.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use postgres::error::DbError;
use postgres::{Client as Driver, Config, NoTls, SimpleQueryMessage};

/// A word for each row and each count of a text, or what failed of it: SQLSTATE, message, detail.
#[allow(dead_code, reason = "each test uses its part")]
pub fn answer(driver: &mut Driver, text: &str) -> String {
    answer_or(driver, text, |error| {
        let detail = error.detail().map(|detail| format!(" | {detail}"));
        format!("{} {}{}", error.code().code(), error.message(), detail.unwrap_or_default())
    })
}

/// The same, or what failed in other words.
pub fn answer_or(driver: &mut Driver, text: &str, failed: impl FnOnce(&DbError) -> String) -> String {
    let said = match driver.simple_query(text) {
        Err(error) => return failed(error.as_db_error().unwrap_or_else(|| panic!("{text}: {error}"))),
        Ok(said) => said,
    };
    let word = |one: &SimpleQueryMessage| match one {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(values.collect::<Vec<_>>().join("|"))
        }
        SimpleQueryMessage::CommandComplete(count) => Some(format!("({count})")),
        _ => None,
    };
    said.iter().filter_map(word).collect::<Vec<_>>().join(" ")
}

/// Lines `session: SQL`, each with its answer, notices first.
#[allow(dead_code, reason = "each test uses its part")]
pub fn run(url: &str, script: &str) -> String {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let connect = || {
        let mut config: Config = url.parse().unwrap();
        let heard = notices.clone();
        config.notice_callback(move |notice| {
            let beside = [notice.detail(), notice.hint()].map(|one| one.map(|one| format!(" | {one}")));
            let [detail, hint] = beside.map(Option::unwrap_or_default);
            let (severity, code, message) = (notice.severity(), notice.code().code(), notice.message());
            heard.lock().unwrap().push(format!("{severity} {code} {message}{detail}{hint}! "));
        });
        config.connect(NoTls).unwrap()
    };
    let mut sessions: BTreeMap<String, Driver> = BTreeMap::new();
    let lines = script.lines().filter(|line| !line.is_empty());
    let one = |line: &str| {
        let (name, sql) = line.split_once(": ").unwrap();
        let session = sessions.entry(name.to_owned()).or_insert_with(connect);
        let answered = answer(session, sql);
        let heard = std::mem::take(&mut *notices.lock().unwrap()).concat();
        format!("{line} → {heard}{answered}")
    };
    lines.map(one).collect::<Vec<_>>().join("\n")
}

/// The same script, after the same schema, is answered alike.
#[allow(dead_code, reason = "each test uses its part")]
pub fn check_alike(own: &str, postgres: &str, (schema, script): (&str, &str), what: &str) {
    let [found, expected] = [own, postgres].map(|url| {
        Driver::connect(url, NoTls).unwrap().batch_execute(schema).unwrap();
        run(url, script)
    });
    assert_eq!(found, expected, "{what}, PostgreSQL on the right");
}

/// Each text fails with the same SQLSTATE, at the same place of the text, as on PostgreSQL.
#[allow(dead_code, reason = "each test uses its part")]
pub fn check_errors_alike(own: &str, postgres: &str, schema: &str, texts: &[&str]) {
    let [found, expected] = [own, postgres].map(|url| {
        let mut driver = Driver::connect(url, NoTls).unwrap();
        driver.batch_execute(schema).unwrap();
        let mut failed = |sql: &&str| {
            let error = driver.simple_query(sql).expect_err(sql);
            let error = error.as_db_error().unwrap();
            format!("{sql}: {} {:?}", error.code().code(), error.position())
        };
        texts.iter().map(&mut failed).collect::<Vec<_>>()
    });
    assert_eq!(found, expected, "PostgreSQL on the right");
}
