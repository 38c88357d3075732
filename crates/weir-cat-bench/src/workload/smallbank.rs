//! SmallBank: customers with a savings and a checking account each, most calls to a few of them; amounts are cents.
//!
//! As in `examples/smallbank`; a transaction returns what it has added to all accounts together, so that their sum is known.

use serde_json::{Value as Json, json};
use weir_cat::chance::Chance;

use super::{
    Acknowledged, Definition, Planned, Plans, Settings, State, Way, Workload, Wrong, chance_of, draw_kind,
    inserts, within,
};
use crate::connection::{Connection, Refused, Value};

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct SmallBank {
    customers: usize,
    /// These customers, the first ones, get the share `hot` of the calls.
    hot_customers: usize,
    hot: f64,
}

const KINDS: [&str; 6] =
    ["balance", "deposit_checking", "transact_savings", "amalgamate", "write_check", "send_payment"];
const DEPOSIT_CHECKING: usize = 1;
const TRANSACT_SAVINGS: usize = 2;
const AMALGAMATE: usize = 3;
const WRITE_CHECK: usize = 4;
const SEND_PAYMENT: usize = 5;

/// Calls of each kind among a hundred.
const MIX: [u64; 6] = [15, 15, 15, 15, 15, 25];

/// The begin of each account.
const BEGIN: i64 = 2_000_000;

/// Cost of a check that is not covered.
const PENALTY: i64 = 100;

/// Statements by their places, where a transaction is statement by statement.
const SAVED: usize = 0;
const HELD: usize = 1;
const ADD_SAVINGS: usize = 2;
const ADD_CHECKING: usize = 3;
const SAVED_FOR_UPDATE: usize = 4;
const HELD_FOR_UPDATE: usize = 5;
const EMPTY_SAVINGS: usize = 6;
const EMPTY_CHECKING: usize = 7;

const STATEMENTS: [&str; 8] = [
    "SELECT balance FROM savings WHERE customer_id = $1",
    "SELECT balance FROM checking WHERE customer_id = $1",
    "UPDATE savings SET balance = balance + $1 WHERE customer_id = $2",
    "UPDATE checking SET balance = balance + $1 WHERE customer_id = $2",
    "SELECT balance FROM savings WHERE customer_id = $1 FOR UPDATE",
    "SELECT balance FROM checking WHERE customer_id = $1 FOR UPDATE",
    "UPDATE savings SET balance = 0 WHERE customer_id = $1",
    "UPDATE checking SET balance = 0 WHERE customer_id = $1",
];

const CALLS: [&str; 6] = [
    "CALL balance($1, NULL)",
    "CALL deposit_checking($1, $2)",
    "CALL transact_savings($1, $2)",
    "CALL amalgamate($1, $2)",
    "CALL write_check($1, $2, NULL)",
    "CALL send_payment($1, $2, $3)",
];

const PROCEDURES: &str = "
CREATE PROCEDURE balance(IN customer bigint, OUT total bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT savings.balance + checking.balance INTO STRICT total
      FROM savings JOIN checking ON checking.customer_id = savings.customer_id
     WHERE savings.customer_id = customer;
END $$;
CREATE PROCEDURE deposit_checking(IN customer bigint, IN amount bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE checking SET balance = checking.balance + amount WHERE customer_id = customer;
END $$;
CREATE PROCEDURE transact_savings(IN customer bigint, IN amount bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE savings SET balance = savings.balance + amount WHERE customer_id = customer;
END $$;
CREATE PROCEDURE amalgamate(IN from_customer bigint, IN to_customer bigint) LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
    held  bigint;
BEGIN
    SELECT savings.balance INTO STRICT saved FROM savings WHERE customer_id = from_customer FOR UPDATE;
    SELECT checking.balance INTO STRICT held FROM checking WHERE customer_id = from_customer FOR UPDATE;
    UPDATE savings SET balance = 0 WHERE customer_id = from_customer;
    UPDATE checking SET balance = 0 WHERE customer_id = from_customer;
    UPDATE checking SET balance = checking.balance + saved + held WHERE customer_id = to_customer;
END $$;
CREATE PROCEDURE write_check(IN customer bigint, IN amount bigint, OUT charged bigint) LANGUAGE plpgsql AS $$
DECLARE
    total bigint;
BEGIN
    SELECT savings.balance + checking.balance INTO STRICT total
      FROM savings JOIN checking ON checking.customer_id = savings.customer_id
     WHERE savings.customer_id = customer;
    charged := amount;
    IF total < amount THEN
        charged := amount + 100;
    END IF;
    UPDATE checking SET balance = checking.balance - charged WHERE customer_id = customer;
END $$;
CREATE PROCEDURE send_payment(IN from_customer bigint, IN to_customer bigint, IN amount bigint) LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    SELECT checking.balance INTO STRICT held FROM checking WHERE customer_id = from_customer;
    IF held < amount THEN
        RAISE EXCEPTION 'the customer has too little to send' USING ERRCODE = 'SB001';
    END IF;
    UPDATE checking SET balance = checking.balance - amount WHERE customer_id = from_customer;
    UPDATE checking SET balance = checking.balance + amount WHERE customer_id = to_customer;
END $$;
COMMENT ON TABLE savings IS 'weir: partition by (customer_id)';
COMMENT ON TABLE checking IS 'weir: partition by (customer_id)';
";

impl SmallBank {
    /// # Errors
    /// A setting is wrong.
    pub fn of(mut settings: Settings<'_>) -> Result<SmallBank, Wrong> {
        let customers = settings.take("customers", 10_000, "a whole number from 2 to 10000000", |count| {
            (2..=10_000_000).contains(count)
        })?;
        let workload = SmallBank {
            customers,
            hot_customers: settings.count("hot_customers", 100.min(customers), customers)?,
            hot: settings.share("hot", 0.25)?,
        };
        settings.end()?;
        Ok(workload)
    }
}

struct SmallBankPlans {
    workload: SmallBank,
    chance: Chance,
}

impl SmallBankPlans {
    fn customer(&mut self) -> i64 {
        let SmallBank { customers, hot_customers, hot } = self.workload;
        let among = if self.chance.share() < hot { hot_customers } else { customers };
        self.chance.below(among as u64) as i64
    }

    fn other_than(&mut self, customer: i64) -> i64 {
        let other = self.chance.below(self.workload.customers as u64 - 1) as i64;
        if other < customer { other } else { other + 1 }
    }
}

impl Plans for SmallBankPlans {
    fn plan(&mut self) -> Option<Planned> {
        let kind = draw_kind(&mut self.chance, &MIX);
        let customer = self.customer();
        let savings = |customer: i64| 2 * customer as u64;
        let checking = |customer: i64| 2 * customer as u64 + 1;
        let amount = 100 + self.chance.below(9_901) as i64;
        let mut values = vec![customer];
        let accesses = match kind {
            DEPOSIT_CHECKING => {
                values.push(amount);
                vec![checking(customer)]
            }
            TRANSACT_SAVINGS => {
                values.push(self.chance.below(40_001) as i64 - 20_000);
                vec![savings(customer)]
            }
            WRITE_CHECK => {
                values.push(amount);
                vec![savings(customer), checking(customer), checking(customer)]
            }
            AMALGAMATE | SEND_PAYMENT => {
                let other = self.other_than(customer);
                values.push(other);
                match kind {
                    AMALGAMATE => {
                        let emptied = [savings(customer), checking(customer)];
                        [&emptied[..], &emptied[..], &[checking(other)]].concat()
                    }
                    _ => {
                        values.push(amount);
                        vec![checking(customer), checking(customer), checking(other)]
                    }
                }
            }
            _ => vec![savings(customer), checking(customer)],
        };
        let values = values.into_iter().map(Value::Integer).collect();
        Some(Planned { kind, values, accesses, written: Vec::new(), is_writer: kind != 0, recorded_ns: None })
    }
}

/// The operations of a transaction; returns what it has added to all accounts together.
fn operations(connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
    let values: Vec<i64> = planned.values.iter().map(Value::number).collect();
    let customer = values[0];
    let mut look = |statement: usize, customer: i64| {
        let found = connection.run(statement, &[Value::Integer(customer)])?;
        found.ok_or_else(|| Refused::Failed(format!("customer {customer} is missing")))
    };
    match planned.kind {
        DEPOSIT_CHECKING => add(connection, ADD_CHECKING, values[1], customer),
        TRANSACT_SAVINGS => add(connection, ADD_SAVINGS, values[1], customer),
        AMALGAMATE => {
            let moved = look(SAVED_FOR_UPDATE, customer)? + look(HELD_FOR_UPDATE, customer)?;
            for statement in [EMPTY_SAVINGS, EMPTY_CHECKING] {
                connection.run(statement, &[Value::Integer(customer)])?;
            }
            add(connection, ADD_CHECKING, moved, values[1])?;
            Ok(0)
        }
        WRITE_CHECK => {
            let total = look(SAVED, customer)? + look(HELD, customer)?;
            let charged = if total < values[1] { values[1] + PENALTY } else { values[1] };
            add(connection, ADD_CHECKING, -charged, customer)
        }
        SEND_PAYMENT => {
            let (other, amount) = (values[1], values[2]);
            if look(HELD, customer)? < amount {
                return Err(Refused::ByRule("the customer has too little to send".to_owned()));
            }
            Ok(add(connection, ADD_CHECKING, -amount, customer)?
                + add(connection, ADD_CHECKING, amount, other)?)
        }
        _ => {
            look(SAVED, customer)?;
            look(HELD, customer)?;
            Ok(0)
        }
    }
}

fn add(
    connection: &mut dyn Connection,
    statement: usize,
    amount: i64,
    customer: i64,
) -> Result<i64, Refused> {
    connection.run(statement, &[Value::Integer(amount), Value::Integer(customer)])?;
    Ok(amount)
}

impl Workload for SmallBank {
    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        vec![
            ("customers", json!(self.customers)),
            ("hot_customers", json!(self.hot_customers)),
            ("hot", json!(self.hot)),
        ]
    }

    fn kinds(&self) -> &[&'static str] {
        &KINDS
    }

    fn procedure(&self, kind: &str) -> Option<String> {
        Some(kind.to_owned())
    }

    fn definition(&self) -> Definition {
        let table = |name: &str, rule: &str| {
            format!("CREATE TABLE {name} (customer_id bigint PRIMARY KEY, balance bigint NOT NULL{rule})")
        };
        let routines = KINDS.iter().map(|kind| format!("PROCEDURE {kind}"));
        Definition {
            tables: vec![
                ("savings", table("savings", ", CHECK (balance >= 0)")),
                ("checking", table("checking", "")),
            ],
            routines: routines.collect(),
            procedures: PROCEDURES.to_owned(),
            ..Definition::default()
        }
    }

    fn rows(&self) -> Vec<String> {
        let rows = |table: &str| {
            inserts(table, (0..self.customers).map(|customer| format!("({customer}, {BEGIN})")))
        };
        [rows("savings"), rows("checking")].concat()
    }

    fn statements(&self, way: Way) -> Vec<String> {
        let texts = if way == Way::Calls { &CALLS[..] } else { &STATEMENTS[..] };
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn plans(&self, seed: u64, number: u64) -> Box<dyn Plans> {
        let chance = chance_of(seed, number);
        Box::new(SmallBankPlans { workload: *self, chance })
    }

    fn attempt(&self, way: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        if way == Way::Statements {
            return within(connection, planned.is_writer, |connection| operations(connection, planned));
        }
        let returned = connection.run(planned.kind, &planned.values)?;
        Ok(match planned.kind {
            DEPOSIT_CHECKING | TRANSACT_SAVINGS => planned.values[1].number(),
            WRITE_CHECK => -returned
                .ok_or_else(|| Refused::Failed("write_check has not said what it charged".to_owned()))?,
            _ => 0,
        })
    }

    fn state(&self) -> Vec<String> {
        ["savings", "checking"]
            .map(|table| format!("SELECT customer_id, balance FROM {table} ORDER BY customer_id"))
            .to_vec()
    }

    fn check(&self, before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
        let sum = |state: &State| state.iter().flatten().map(|row| row[1]).sum::<i64>();
        let (found, expected) = (sum(after), sum(before) + acknowledged.sum);
        if let Some(row) = after[0].iter().find(|row| row[1] < 0) {
            return Err(format!("the savings of customer {} are overdrawn: {}", row[0], row[1]));
        }
        match found == expected {
            true => Ok(()),
            false => Err(format!(
                "all accounts together have {found}, and {expected} by what was acknowledged: {} too much",
                found - expected
            )),
        }
    }

    fn spread(&self) -> Option<Box<dyn Workload>> {
        Some(Box::new(SmallBank { hot: 0.0, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_money_and_overdrawn_savings_are_found() {
        let bank = SmallBank { customers: 2, hot_customers: 1, hot: 0.0 };
        let state = |savings: i64, checking: i64| vec![vec![vec![0, savings]], vec![vec![0, checking]]];
        let acknowledged = Acknowledged { sum: -5, ..Acknowledged::default() };
        let check = |after| bank.check(&state(10, 10), &after, &acknowledged);
        assert_eq!(check(state(10, 5)), Ok(()));
        assert!(check(state(10, 10)).is_err_and(|why| why.contains("5 too much")));
        assert!(check(state(-1, 16)).is_err_and(|why| why.contains("overdrawn")));
    }

    #[test]
    fn the_hot_customers_get_their_share() {
        let bank = SmallBank { customers: 1_000, hot_customers: 10, hot: 0.5 };
        let mut plans = bank.plans(1, 1);
        let planned: Vec<Planned> = (0..4_000).filter_map(|_| plans.plan()).collect();
        let hot = planned.iter().filter(|planned| planned.values[0].number() < 10).count() as f64 / 4_000.0;
        assert!((hot - 0.505).abs() < 0.03, "{hot}");
        for one in &planned {
            assert_eq!(CALLS[one.kind].matches('$').count(), one.values.len());
            let is_pair = [AMALGAMATE, SEND_PAYMENT].contains(&one.kind);
            assert!(!is_pair || one.values[0] != one.values[1]);
        }
    }
}
