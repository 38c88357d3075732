//! YCSB+T by SQL: as eris.txt §8.1 uses it, single-key reads and writes, read-modify-writes of several keys, swaps of two keys; and its closed economy,
//! whose transfers keep the total.
//!
//! A transaction that is distributed over two shards there is one of two keys here: servers do not say where a key is.

use serde_json::{Value as Json, json};
use weir_cat::chance::Chance;
use weir_cat::zipf::Zipf;

use super::{
    Acknowledged, Definition, Planned, Plans, Settings, State, Way, Workload, Wrong, chance_of, within,
};
use super::{check_counts, check_values, inserts};
use crate::connection::{Connection, Refused, Value};
use crate::schema::Change;

/// Kind of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// One key, read or written, half and half.
    Srw,
    /// The distributed ones modify two keys; the others read or modify one, half and half.
    Mrmw,
    /// The distributed ones swap two keys; the others read one.
    Crmw,
    /// The distributed ones move an amount from one key to another; the others read one.
    ClosedEconomy,
}

impl Family {
    const ALL: [(&'static str, Family); 4] = [
        ("srw", Family::Srw),
        ("mrmw", Family::Mrmw),
        ("crmw", Family::Crmw),
        ("closed-economy", Family::ClosedEconomy),
    ];

    fn by_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, family)| family)
    }

    fn name(self) -> &'static str {
        Family::ALL[self as usize].0
    }
}

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct YcsbT {
    family: Family,
    keys: usize,
    distributed: f64,
    exponent: f64,
}

const KINDS: [&str; 6] = ["read", "write", "modify", "modify_two", "swap", "transfer"];
const READ: usize = 0;
const WRITE: usize = 1;
const MODIFY: usize = 2;
const MODIFY_TWO: usize = 3;
const SWAP: usize = 4;
const TRANSFER: usize = 5;

/// Value of each key of the closed economy at the beginning, and the most that is moved at once.
const BALANCE: usize = 1_000;
const AMOUNT_MAX: u64 = 5;

/// Statements by their places, where a transaction is statement by statement.
const READ_FOR_UPDATE: usize = 3;
const SET: usize = 1;
const ADD: usize = 4;

impl YcsbT {
    /// # Errors
    /// A setting is wrong.
    pub fn of(mut settings: Settings<'_>) -> Result<YcsbT, Wrong> {
        let kind = settings.take("kind", "mrmw".to_owned(), "srw, mrmw, crmw or closed-economy", |name| {
            Family::by_name(name).is_some()
        })?;
        let workload = YcsbT {
            family: Family::by_name(&kind).unwrap_or(Family::Mrmw),
            keys: settings.count("keys", 1_000, 10_000_000)?,
            distributed: settings.share("distributed", 0.2)?,
            exponent: settings.exponent("zipf", 0.5)?,
        };
        settings.end()?;
        match workload.keys {
            1 => Err(Wrong::new(
                "`keys=1` is wrong",
                "a transaction has up to two different keys: take 2 or more",
            )),
            _ => Ok(workload),
        }
    }

    fn procedures(&self) -> (Vec<String>, String) {
        let new = Change::Modify.sql();
        let modify = |key: &str| format!("UPDATE items SET v = {new}, n = n + 1 WHERE k = {key};");
        let all = [
            (
                "put",
                "(value bigint, k1 integer) LANGUAGE sql AS $$ UPDATE items SET v = value, n = n + 1 WHERE k = k1; $$"
                    .to_owned(),
                false,
            ),
            ("modify", format!("(k1 integer) LANGUAGE sql AS $$ {} $$", modify("k1")), true),
            (
                "modify_two",
                format!("(k1 integer, k2 integer) LANGUAGE sql AS $$ {} {} $$", modify("k1"), modify("k2")),
                true,
            ),
            (
                "swap",
                "(k1 integer, k2 integer) LANGUAGE plpgsql AS $$ DECLARE one bigint; other bigint; BEGIN \
                 SELECT v INTO STRICT one FROM items WHERE k = k1 FOR UPDATE; \
                 SELECT v INTO STRICT other FROM items WHERE k = k2 FOR UPDATE; \
                 UPDATE items SET v = other, n = n + 1 WHERE k = k1; \
                 UPDATE items SET v = one, n = n + 1 WHERE k = k2; END $$"
                    .to_owned(),
                true,
            ),
            // Additions alone: they commute, and need no order.
            (
                "transfer",
                "(amount bigint, k1 integer, k2 integer) LANGUAGE sql AS $$ UPDATE items SET v = v - amount, n = n + 1 WHERE k = k1; \
                 UPDATE items SET v = v + amount, n = n + 1 WHERE k = k2; $$"
                    .to_owned(),
                false,
            ),
        ];
        let wanted: &[&str] = match self.family {
            Family::Srw => &["put"],
            Family::Mrmw => &["modify", "modify_two"],
            Family::Crmw => &["swap"],
            Family::ClosedEconomy => &["transfer"],
        };
        let (mut names, mut text) = (Vec::new(), String::new());
        for (name, rest, is_serializable) in all.into_iter().filter(|(name, ..)| wanted.contains(name)) {
            names.push(format!("PROCEDURE {name}"));
            text.push_str(&format!("CREATE PROCEDURE {name}{rest};\n"));
            if is_serializable {
                text.push_str(&format!(
                    "ALTER PROCEDURE {name} SET default_transaction_isolation = 'serializable';\n"
                ));
            }
        }
        (names, text)
    }
}

struct YcsbTPlans {
    workload: YcsbT,
    zipf: Zipf,
    chance: Chance,
}

impl Plans for YcsbTPlans {
    fn plan(&mut self) -> Option<Planned> {
        let YcsbT { family, distributed, .. } = self.workload;
        let is_distributed = family != Family::Srw && self.chance.share() < distributed;
        let reads = self.chance.below(2) == 0;
        let kind = match family {
            Family::Crmw if is_distributed => SWAP,
            Family::ClosedEconomy if is_distributed => TRANSFER,
            _ if is_distributed => MODIFY_TWO,
            Family::Crmw | Family::ClosedEconomy => READ,
            _ if reads => READ,
            Family::Srw => WRITE,
            Family::Mrmw => MODIFY,
        };
        let count = if is_distributed { 2 } else { 1 };
        let mut keys = self.zipf.pick_different(count, &mut self.chance);
        // In one order, as an application that has met deadlocks would.
        keys.sort_unstable();
        let value = match kind {
            WRITE => Some(Value::Integer(self.chance.below(1 << 40) as i64)),
            // From either of them to the other.
            TRANSFER => {
                let amount = 1 + self.chance.below(AMOUNT_MAX) as i64;
                Some(Value::Integer(if self.chance.below(2) == 0 { amount } else { -amount }))
            }
            _ => None,
        };
        let values = value.into_iter().chain(keys.iter().map(|key| Value::Integer(*key as i64))).collect();
        let accesses = if kind == SWAP { [&keys[..], &keys[..]].concat() } else { keys.clone() };
        let is_writer = kind != READ;
        let written = if is_writer { keys } else { Vec::new() };
        Some(Planned { kind, values, accesses, written, is_writer, recorded_ns: None })
    }
}

impl Workload for YcsbT {
    fn name(&self) -> &'static str {
        "ycsb-t"
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        vec![
            ("kind", json!(self.family.name())),
            ("keys", json!(self.keys)),
            ("distributed", json!(self.distributed)),
            ("zipf", json!(self.exponent)),
        ]
    }

    fn kinds(&self) -> &[&'static str] {
        &KINDS
    }

    fn procedure(&self, kind: &str) -> Option<String> {
        match kind {
            "read" => None,
            "write" => Some("put".to_owned()),
            kind => Some(kind.to_owned()),
        }
    }

    fn definition(&self) -> Definition {
        let table = "CREATE TABLE items (k integer PRIMARY KEY, v bigint NOT NULL, n bigint NOT NULL)";
        let (routines, procedures) = self.procedures();
        Definition {
            tables: vec![("items", table.to_owned())],
            routines,
            procedures,
            ..Definition::default()
        }
    }

    fn rows(&self) -> Vec<String> {
        let value = |key: usize| if self.family == Family::ClosedEconomy { BALANCE } else { key + 1 };
        inserts("items", (0..self.keys).map(|key| format!("({key}, {}, 0)", value(key))))
    }

    fn statements(&self, way: Way) -> Vec<String> {
        let read = "SELECT v FROM items WHERE k = $1";
        let texts: &[&str] = match (way, self.family) {
            (Way::Statements, _) => {
                let modify = format!("UPDATE items SET v = {}, n = n + 1 WHERE k = $1", Change::Modify.sql());
                return vec![
                    read.to_owned(),
                    "UPDATE items SET v = $1, n = n + 1 WHERE k = $2".to_owned(),
                    modify,
                    format!("{read} FOR UPDATE"),
                    "UPDATE items SET v = v + $1, n = n + 1 WHERE k = $2".to_owned(),
                ];
            }
            (Way::Calls, Family::Srw) => &[read, "CALL put($1, $2)"],
            (Way::Calls, Family::Mrmw) => &[read, "", "CALL modify($1)", "CALL modify_two($1, $2)"],
            (Way::Calls, Family::Crmw) => &[read, "", "", "", "CALL swap($1, $2)"],
            (Way::Calls, Family::ClosedEconomy) => &[read, "", "", "", "", "CALL transfer($1, $2, $3)"],
        };
        // A kind that the family does not have keeps its place.
        texts.iter().map(|text| if text.is_empty() { read } else { *text }.to_owned()).collect()
    }

    fn plans(&self, seed: u64, number: u64) -> Box<dyn Plans> {
        let zipf = Zipf::new(self.keys, self.exponent).expect("the settings were checked");
        let chance = chance_of(seed, number);
        Box::new(YcsbTPlans { workload: *self, zipf, chance })
    }

    fn attempt(&self, way: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        if way == Way::Calls {
            connection.run(planned.kind, &planned.values)?;
            return Ok(0);
        }
        let values = &planned.values;
        within(connection, planned.is_writer, |connection| {
            match planned.kind {
                MODIFY_TWO => {
                    for key in values {
                        connection.run(MODIFY, std::slice::from_ref(key))?;
                    }
                }
                SWAP => {
                    let mut found = Vec::new();
                    for key in values {
                        let value = connection.run(READ_FOR_UPDATE, std::slice::from_ref(key))?;
                        found.push(value.map_or(Value::Null, Value::Integer));
                    }
                    for (key, value) in values.iter().zip(found.into_iter().rev()) {
                        connection.run(SET, &[value, key.clone()])?;
                    }
                }
                TRANSFER => {
                    let (amount, keys) = values.split_first().expect("a transfer has an amount");
                    let Value::Integer(amount) = *amount else { unreachable!("amounts are numbers") };
                    for (key, added) in keys.iter().zip([-amount, amount]) {
                        connection.run(ADD, &[Value::Integer(added), key.clone()])?;
                    }
                }
                kind => {
                    connection.run(kind, values)?;
                }
            }
            Ok(0)
        })
    }

    fn state(&self) -> Vec<String> {
        vec!["SELECT k, v, n FROM items ORDER BY k".to_owned()]
    }

    fn check(&self, before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
        let rows = (&before[0][..], &after[0][..]);
        check_counts(rows, acknowledged, 2)?;
        let sorted = |rows: &[Vec<i64>]| {
            let mut values: Vec<i64> = rows.iter().map(|row| row[1]).collect();
            values.sort_unstable();
            values
        };
        match self.family {
            Family::Srw => Ok(()),
            Family::Mrmw => check_values(rows, acknowledged, Change::Modify),
            Family::Crmw if sorted(rows.0) == sorted(rows.1) => Ok(()),
            Family::Crmw => Err("swaps have lost or doubled values".to_owned()),
            Family::ClosedEconomy => {
                let total = |rows: &[Vec<i64>]| rows.iter().map(|row| row[1]).sum::<i64>();
                match (total(rows.0), total(rows.1)) {
                    (before, after) if before == after => Ok(()),
                    (before, after) => {
                        Err(format!("the total was {before} and is {after}: transfers keep it"))
                    }
                }
            }
        }
    }

    fn spread(&self) -> Option<Box<dyn Workload>> {
        Some(Box::new(YcsbT { exponent: 0.0, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(settings: &[(&str, &str)]) -> YcsbT {
        let given: Vec<(String, String)> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        YcsbT::of(Settings::new("ycsb-t", &given)).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn the_share_of_distributed_transactions_is_kept() {
        for (kind, expected) in [("srw", 0.0), ("mrmw", 0.3), ("crmw", 0.3), ("closed-economy", 0.3)] {
            let workload =
                workload(&[("kind", kind), ("distributed", "0.3"), ("keys", "50"), ("zipf", "1.2")]);
            let mut plans = workload.plans(1, 1);
            let planned: Vec<Planned> = (0..4_000).filter_map(|_| plans.plan()).collect();
            let of_two = planned.iter().filter(|planned| planned.written.len() == 2).count() as f64 / 4_000.0;
            assert!((of_two - expected).abs() < 0.03, "{kind}: {of_two}");
            let calls = workload.statements(Way::Calls);
            assert!(
                planned
                    .iter()
                    .all(|planned| calls[planned.kind].matches('$').count() == planned.values.len())
            );
        }
    }

    #[test]
    fn a_lost_swap_is_found() {
        let rows = |one, other, n| vec![vec![vec![0, one, n], vec![1, other, n]]];
        let acknowledged = Acknowledged { writes: [(0, 1), (1, 1)].into(), sum: 0 };
        let check = |after| workload(&[("kind", "crmw")]).check(&rows(5, 6, 0), &after, &acknowledged);
        assert_eq!(check(rows(6, 5, 1)), Ok(()));
        assert!(check(rows(5, 5, 1)).is_err_and(|why| why.contains("doubled")));
        assert!(check(rows(6, 5, 0)).is_err());
    }

    #[test]
    fn a_transfer_that_was_half_done_is_found() {
        let rows = |one, other, n| vec![vec![vec![0, one, n], vec![1, other, n]]];
        let acknowledged = Acknowledged { writes: [(0, 1), (1, 1)].into(), sum: 0 };
        let economy = workload(&[("kind", "closed-economy"), ("keys", "2")]);
        let check = |after| economy.check(&rows(1_000, 1_000, 0), &after, &acknowledged);
        assert_eq!(check(rows(1_003, 997, 1)), Ok(()));
        assert!(check(rows(1_003, 1_000, 1)).is_err_and(|why| why.contains("2000 and is 2003")));
        assert_eq!(economy.rows(), ["INSERT INTO items VALUES (0, 1000, 0), (1, 1000, 0)"]);
    }
}
