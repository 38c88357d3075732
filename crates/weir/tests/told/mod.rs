//! Scripts of several sessions, and what each statement is answered, in one line each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use postgres::{Client as Driver, Config, NoTls, SimpleQueryMessage};

/// Rows, then how many, or the error.
fn told(driver: &mut Driver, sql: &str) -> String {
    let one = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let fields: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
            Some(fields.join(","))
        }
        SimpleQueryMessage::CommandComplete(count) => Some(format!("#{count}")),
        _ => None,
    };
    match driver.simple_query(sql) {
        Ok(messages) => messages.into_iter().filter_map(one).collect::<Vec<_>>().join(" "),
        Err(error) => {
            let told = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error:?}"));
            format!("{} {} ({})", told.code().code(), told.message(), told.detail().unwrap_or("-"))
        }
    }
}

/// Lines `session: SQL`, each with its answer, notices first.
pub fn run(url: &str, script: &str) -> String {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let connect = || {
        let mut config: Config = url.parse().unwrap();
        let heard = notices.clone();
        config.notice_callback(move |notice| {
            heard.lock().unwrap().push(format!("{} {}! ", notice.severity(), notice.message()));
        });
        config.connect(NoTls).unwrap()
    };
    let mut sessions: BTreeMap<String, Driver> = BTreeMap::new();
    let lines = script.lines().filter(|line| !line.is_empty());
    let one = |line: &str| {
        let (name, sql) = line.split_once(": ").unwrap();
        let session = sessions.entry(name.to_owned()).or_insert_with(connect);
        let told = told(session, sql);
        let heard = std::mem::take(&mut *notices.lock().unwrap()).concat();
        format!("{line} → {heard}{told}")
    };
    lines.map(one).collect::<Vec<_>>().join("\n")
}
