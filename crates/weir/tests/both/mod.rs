//! A server of Weir and a PostgreSQL server with the same rows, which are told the same and must answer the same.

use std::path::PathBuf;

use weir_bench::postgres::Server;

use crate::bank::Bank;
use crate::wire::{Wire, query};

const TABLES: &str = "
CREATE TABLE account (id integer PRIMARY KEY, owner varchar(20) NOT NULL, balance numeric(12,2) NOT NULL DEFAULT 0,
    opened timestamptz, tags text[], CHECK (balance >= -1000));
CREATE TABLE pair (a integer PRIMARY KEY, b integer);
";

/// A table that no procedure writes is the same everywhere, and nobody may write it.
const WRITERS: &str = "
CREATE PROCEDURE put(k integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO pair (a) VALUES (k); END $$;
CREATE PROCEDURE pay(k integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE account SET balance = balance + 1 WHERE id = k; END $$;
";

/// The two, with the same rows.
#[allow(dead_code, reason = "each test uses its part")]
pub struct Both {
    pub bank: Bank,
    server: Server,
}

#[allow(dead_code, reason = "each test uses its part")]
impl Both {
    pub fn start() -> Both {
        Both::with("", "")
    }

    /// With more tables; `writers` are procedures that write them, for Weir alone.
    pub fn with(tables: &str, writers: &str) -> Both {
        let bank = Bank::of(&format!("{TABLES}{tables}{WRITERS}{writers}"), |_| ());
        let server = Server::start().unwrap();
        let both = Both { bank, server };
        let mut oracle = both.oracle();
        oracle.send(&[query(&format!(
            "{TABLES}{tables}; INSERT INTO account (id, owner, balance) SELECT a, concat('owner ', a), 10 FROM generate_series(1, 9) a"
        ))]);
        let heard = oracle.hear(1);
        assert_eq!(heard.last().unwrap(), "Z I", "{heard:?}");
        both
    }

    pub fn oracle(&self) -> Wire {
        let text = self.server.connection_string();
        let folder = text.split_whitespace().find_map(|word| word.strip_prefix("host=")).unwrap();
        Wire::unix(&PathBuf::from(folder), "postgres", "postgres")
    }

    /// The two, which are told these parameters beside who it is and to which database. Those that do not let it in say why.
    pub fn come_in(&self, parameters: &[(&str, &str)]) -> [Result<Wire, String>; 2] {
        let text = self.server.connection_string();
        let folder = text.split_whitespace().find_map(|word| word.strip_prefix("host=")).unwrap();
        let oracle =
            (Wire::outside_unix(&PathBuf::from(folder)), [("user", "postgres"), ("database", "postgres")]);
        let weir = (Wire::outside(self.bank.server.address()), [("user", "ann"), ("database", "weir")]);
        [weir, oracle].map(|(mut wire, who)| {
            wire.come_in(&[&who, parameters].concat())?;
            Ok(wire)
        })
    }

    pub fn weir(&self) -> Wire {
        Wire::tcp(self.bank.server.address(), "ann", "weir")
    }

    /// On connections of their own; as many times "ready" are waited for as there are queries and Syncs.
    pub fn check(&self, what: &str, messages: &[Vec<u8>]) {
        let readies = messages.iter().filter(|one| matches!(one[0], b'Q' | b'S')).count();
        let [expected, seen] = [self.oracle(), self.weir()].map(|mut wire| {
            wire.send(messages);
            wire.hear(readies)
        });
        let same = seen.iter().zip(&expected).take_while(|(seen, expected)| seen == expected).count();
        assert_eq!(seen[same..], expected[same..], "{what}: Weir is on the left, after {:?}", &seen[..same]);
    }
}
