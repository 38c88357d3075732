//! Transactions of some operations on different keys, that all read or all write: the experiment of cat-theorem.txt §4.1, and YCSB's reads and
//! updates by SQL.

use serde_json::{Value as Json, json};
use weir_cat::workload::{Client, Shape};

use super::{Acknowledged, Definition, Planned, Plans, Settings, State, Way, Workload, Wrong, within};
use super::{check_counts, check_values, inserts};
use crate::connection::{Connection, Refused, Value};
use crate::schema::{self, Change, LENGTHS, placeholders};

/// Whose keys they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// A number for each key, which a write increments or modifies.
    Cat,
    /// A text for each key, which a write replaces, and the number of its writes.
    Ycsb,
}

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    flavour: Flavour,
    shape: Shape,
    change: Change,
    /// Length of YCSB's texts.
    value_bytes: usize,
}

const READ: usize = 0;
const WRITE: usize = 1;
const YCSB_TABLE: &str =
    "CREATE TABLE usertable (ycsb_key integer PRIMARY KEY, field0 text NOT NULL, writes bigint NOT NULL)";
const KEYS_MAX: usize = 10_000_000;

impl Keys {
    /// # Errors
    /// The shape is impossible.
    pub fn cat(shape: Shape, change: Change) -> Result<Keys, String> {
        // The generator says what is wrong with a shape.
        Client::new(shape, 0, 0)?;
        Ok(Keys { flavour: Flavour::Cat, shape, change, value_bytes: 0 })
    }

    /// # Errors
    /// A setting is wrong.
    pub fn of(flavour: Flavour, mut settings: Settings<'_>) -> Result<Keys, Wrong> {
        let own = match flavour {
            Flavour::Cat => Shape::PAPER,
            Flavour::Ycsb => Shape { keys: 10_000, exponent: 0.99, length: 1, writers: 0.5 },
        };
        let shape = Shape {
            keys: settings.count("keys", own.keys, KEYS_MAX)?,
            exponent: settings.exponent("zipf", own.exponent)?,
            length: settings.count("length", own.length, LENGTHS[LENGTHS.len() - 1])?,
            writers: settings.share("writers", own.writers)?,
        };
        let (mut change, mut value_bytes) = (Change::Increment, 0);
        match flavour {
            Flavour::Cat => {
                let write =
                    settings.take("write", "increment".to_owned(), "increment or modify", |name| {
                        Change::by_name(name).is_some()
                    })?;
                change = Change::by_name(&write).unwrap_or(change);
            }
            Flavour::Ycsb => value_bytes = settings.count("value_bytes", 100, 100_000)?,
        }
        settings.end()?;
        if !LENGTHS.contains(&shape.length) {
            return Err(Wrong::new(
                format!("`length={}` is wrong", shape.length),
                format!("there are procedures for {LENGTHS:?} operations"),
            ));
        }
        Client::new(shape, 0, 0)
            .map_err(|why| Wrong::new(why, "set keys, zipf, length and writers so that they go together"))?;
        Ok(Keys { flavour, shape, change, value_bytes })
    }

    fn calls(&self, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        connection.run(planned.kind, &planned.values)?;
        Ok(0)
    }

    fn operations(&self, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        within(connection, planned.is_writer, |connection| {
            let (texts, keys) = planned.values.split_at(planned.values.len() - self.shape.length);
            for key in keys {
                let values: Vec<Value> = texts.iter().chain([key]).cloned().collect();
                connection.run(planned.kind, &values)?;
            }
            Ok(0)
        })
    }
}

struct KeysPlans {
    client: Client,
    flavour: Flavour,
    value_bytes: usize,
    planned: u64,
}

impl Plans for KeysPlans {
    fn plan(&mut self) -> Option<Planned> {
        let planned = self.client.plan();
        self.planned += 1;
        let keys = planned.keys.iter().map(|key| Value::Integer(*key as i64));
        let text = (self.flavour == Flavour::Ycsb && planned.is_writer)
            .then(|| Value::Text(format!("{:0>width$}", self.planned, width = self.value_bytes)));
        Some(Planned {
            kind: if planned.is_writer { WRITE } else { READ },
            values: text.into_iter().chain(keys).collect(),
            written: if planned.is_writer { planned.keys.clone() } else { Vec::new() },
            is_writer: planned.is_writer,
            accesses: planned.keys,
            recorded_ns: None,
        })
    }
}

impl Workload for Keys {
    fn name(&self) -> &'static str {
        match self.flavour {
            Flavour::Cat => "cat",
            Flavour::Ycsb => "ycsb",
        }
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        let Shape { keys, exponent, length, writers } = self.shape;
        let own = match self.flavour {
            Flavour::Cat => ("write", json!(self.change.name())),
            Flavour::Ycsb => ("value_bytes", json!(self.value_bytes)),
        };
        vec![
            ("keys", json!(keys)),
            ("zipf", json!(exponent)),
            ("length", json!(length)),
            ("writers", json!(writers)),
            own,
        ]
    }

    fn kinds(&self) -> &[&'static str] {
        &["read", "write"]
    }

    fn procedure(&self, kind: &str) -> Option<String> {
        let length = self.shape.length;
        Some(match (self.flavour, kind) {
            (Flavour::Cat, "write") => schema::writer(self.change, length),
            (Flavour::Cat, _) => schema::reader(length),
            (Flavour::Ycsb, "write") => format!("put_{length}"),
            (Flavour::Ycsb, _) => format!("get_{length}"),
        })
    }

    fn definition(&self) -> Definition {
        let (table, procedures, writer) = match self.flavour {
            Flavour::Cat => {
                let text = schema::procedures(self.change, &LENGTHS);
                (("kv", schema::TABLE.to_owned()), text, self.change.name())
            }
            Flavour::Ycsb => (("usertable", YCSB_TABLE.to_owned()), schema::ycsb_procedures(&LENGTHS), "put"),
        };
        let reader = if self.flavour == Flavour::Cat { "look" } else { "get" };
        let routines = LENGTHS.iter().flat_map(|length| {
            [format!("PROCEDURE {writer}_{length}"), format!("FUNCTION {reader}_{length}")]
        });
        Definition { tables: vec![table], routines: routines.collect(), procedures, ..Definition::default() }
    }

    fn rows(&self) -> Vec<String> {
        match self.flavour {
            Flavour::Cat => inserts("kv", (0..self.shape.keys).map(|key| format!("({key}, 0)"))),
            Flavour::Ycsb => {
                let row = |key| format!("({key}, '{:0>width$}', 0)", key, width = self.value_bytes);
                inserts("usertable", (0..self.shape.keys).map(row))
            }
        }
    }

    fn statements(&self, way: Way) -> Vec<String> {
        let length = self.shape.length;
        let texts: [String; 2] = match (self.flavour, way) {
            (Flavour::Cat, Way::Statements) => [
                "SELECT v FROM kv WHERE k = $1".to_owned(),
                format!("UPDATE kv SET v = {} WHERE k = $1", self.change.sql()),
            ],
            (Flavour::Cat, Way::Calls) => [
                format!("SELECT {}({})", schema::reader(length), placeholders(length)),
                format!("CALL {}({})", schema::writer(self.change, length), placeholders(length)),
            ],
            (Flavour::Ycsb, Way::Statements) => [
                "SELECT field0 FROM usertable WHERE ycsb_key = $1".to_owned(),
                "UPDATE usertable SET field0 = $1, writes = writes + 1 WHERE ycsb_key = $2".to_owned(),
            ],
            (Flavour::Ycsb, Way::Calls) => [
                format!("SELECT get_{length}({})", placeholders(length)),
                format!("CALL put_{length}({})", placeholders(length + 1)),
            ],
        };
        texts.to_vec()
    }

    fn plans(&self, seed: u64, number: u64) -> Box<dyn Plans> {
        let client = Client::new(self.shape, seed, number).expect("the shape was checked");
        Box::new(KeysPlans { client, flavour: self.flavour, value_bytes: self.value_bytes, planned: 0 })
    }

    fn attempt(&self, way: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        match way {
            Way::Calls => self.calls(connection, planned),
            Way::Statements => self.operations(connection, planned),
        }
    }

    fn state(&self) -> Vec<String> {
        let text = match self.flavour {
            Flavour::Cat => "SELECT k, v FROM kv ORDER BY k",
            Flavour::Ycsb => "SELECT ycsb_key, writes FROM usertable ORDER BY ycsb_key",
        };
        vec![text.to_owned()]
    }

    fn check(&self, before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
        match self.flavour {
            Flavour::Cat => check_values((&before[0], &after[0]), acknowledged, self.change),
            Flavour::Ycsb => check_counts((&before[0], &after[0]), acknowledged, 1),
        }
    }

    fn spread(&self) -> Option<Box<dyn Workload>> {
        Some(Box::new(Keys { shape: Shape { exponent: 0.0, ..self.shape }, ..*self }))
    }
}
