//! Conversations with Weir, on one shard and on several, that PostgreSQL has as well: they are told the same.

use crate::alone::Alone;
use crate::answers::answer_or;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server;

/// Rows, counts, and what fails of it: SQLSTATE, message, detail, constraint.
pub fn answer(driver: &mut Driver, text: &str) -> String {
    answer_or(driver, text, |error| {
        let (detail, constraint) = (error.detail().unwrap_or("-"), error.constraint().unwrap_or("-"));
        format!("{} {} | {detail} | {constraint}", error.code().code(), error.message())
    })
}

/// One statement a line. `?`: Weir may refuse it (0A000); then PostgreSQL is not told.
pub fn compare(conversation: &str) {
    let mut different = Vec::new();
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let postgres = Server::start().unwrap();
        let mut oracle = Driver::connect(&postgres.connection_string(), NoTls).unwrap();
        let mut own = weir.driver();
        for text in conversation.lines().filter(|line| !line.is_empty()) {
            let (may_be_refused, text) = match text.strip_prefix("? ") {
                Some(text) => (true, text),
                None => (false, text),
            };
            let seen = answer(&mut own, text);
            if may_be_refused && seen.starts_with("0A000") {
                continue;
            }
            let expected = answer(&mut oracle, text);
            if expected != seen {
                different
                    .push(format!("{shards} shards: {text}\nPostgreSQL: {expected}\nWeir:       {seen}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
