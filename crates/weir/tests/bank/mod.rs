//! A server of PostgreSQL's protocol over three shards with a few accounts, for tests that drive it.

use postgres::{Client as Driver, NoTls};
use weir_client::{Client, ClusterFile};
use weir_pg::{Door, Server, Settings};

use crate::nodes::{LOOKS, Nodes};

pub const SQL: &str = "
CREATE TABLE account (id integer PRIMARY KEY, owner varchar(20) NOT NULL, balance numeric(12,2) NOT NULL DEFAULT 0,
    opened timestamptz, tags text[], CHECK (balance >= -1000));
CREATE PROCEDURE deposit(a integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance + amount WHERE id = a;
    IF NOT FOUND THEN RAISE EXCEPTION 'there is no account %', a USING ERRCODE = 'P0002', HINT = 'open one'; END IF;
END $$;
";

#[allow(dead_code, reason = "each test uses its part")]
pub struct Bank {
    // It ends first.
    pub server: Server,
    _nodes: Nodes,
}

#[allow(dead_code, reason = "each test uses its part")]
impl Bank {
    pub fn open(settings: impl FnOnce(&mut Settings)) -> Bank {
        Bank::of(SQL, settings)
    }

    /// With these tables, among which there is `account`.
    pub fn of(schema: &str, settings: impl FnOnce(&mut Settings)) -> Bank {
        let load = "[load.account]\nfor = [\"a in 1..9\"]\nid = \"a\"\nowner = \"concat('owner ', a)\"\nbalance = \"10\"\n\
                    [mix]\nbalance_of = 1\n[parameters.balance_of]\na = \"uniform(1, 9)\"\n";
        let nodes = Nodes::of(&format!("{schema}{LOOKS}"), load, 1, 3, false);
        let client = Client::connect(&ClusterFile::read(&nodes.file()).unwrap()).unwrap();
        let mut door = Settings::new("127.0.0.1:0".parse().unwrap());
        settings(&mut door);
        let server = Door::new(door).unwrap().open(client).unwrap();
        Bank { server, _nodes: nodes }
    }

    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub fn url(&self, more: &str) -> String {
        format!("host=127.0.0.1 port={} user=ann dbname=weir {more}", self.port())
    }

    pub fn driver(&self) -> Driver {
        Driver::connect(&self.url(""), NoTls).unwrap()
    }
}
