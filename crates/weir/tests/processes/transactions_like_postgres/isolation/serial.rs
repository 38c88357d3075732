//! Whether some serial order of transactions explains what came of a permutation: played one after the other in PostgreSQL, they say the
//! same and leave the same rows.

use postgres::{Client as Driver, NoTls};

use super::super::said;
use super::performance::{Performance, Told, is_state, rows, set_up, statements, tear_down, without_order};
use super::spec::{Spec, interleavings};

/// Orders that are tried at most.
const ORDERS_MAX: usize = 5_000;

/// Steps of one transaction, or a step by itself.
#[derive(Debug, Default)]
struct Unit<'p> {
    steps: Vec<&'p Told>,
}

/// How a text leaves its session: in a transaction, or not; none: as it was.
fn is_open_after(sql: &str) -> Option<bool> {
    let control = |sql: &String| {
        let words: Vec<String> = sql.split_whitespace().take(2).map(str::to_uppercase).collect();
        match [words.first(), words.get(1)].map(|word| word.map_or("", String::as_str)) {
            ["BEGIN" | "START", _] => Some(true),
            ["ROLLBACK", "TO"] => None,
            ["COMMIT" | "END" | "ROLLBACK" | "ABORT", _] => Some(false),
            _ => None,
        }
    };
    statements(sql).iter().rev().find_map(control)
}

impl Unit<'_> {
    /// It has done nothing.
    fn is_aborted(&self) -> bool {
        let rolls_back = |sql: &str| {
            statements(sql).last().is_some_and(|last| {
                let first = last.split_whitespace().next().unwrap_or_default().to_uppercase();
                matches!(first.as_str(), "ROLLBACK" | "ABORT") && !last.to_uppercase().contains(" TO ")
            })
        };
        let by_itself = self.steps.len() == 1 && is_open_after(&self.steps[0].sql).is_none();
        let is_of_concurrency =
            |told: &Told| matches!(told.answer.as_str(), "40001" | "40P01" | "55P03" | "57014");
        match by_itself {
            true => is_of_concurrency(self.steps[0]),
            false => {
                self.steps.iter().any(|told| is_state(&told.answer))
                    || self.steps.last().is_some_and(|told| rolls_back(&told.sql))
            }
        }
    }
}

fn units<'p>(spec: &Spec, played: &'p Performance) -> Vec<Vec<Unit<'p>>> {
    let of = |session: usize| {
        let setup = spec.sessions[session].setup.as_deref().unwrap_or_default();
        let mut is_open = is_open_after(setup).unwrap_or(false);
        let mut units: Vec<Unit<'p>> = vec![Unit::default()];
        for told in played.told.iter().filter(|told| told.session == session) {
            is_open = is_open_after(&told.sql).unwrap_or(is_open);
            units.last_mut().expect("one at least").steps.push(told);
            if !is_open {
                units.push(Unit::default());
            }
        }
        units.retain(|unit| !unit.steps.is_empty() && !unit.is_aborted());
        units
    };
    (0..spec.sessions.len()).map(of).collect()
}

/// Whether it is so; `url` is PostgreSQL's.
pub fn explains(url: &str, spec: &Spec, played: &Performance) -> bool {
    let units = units(spec, played);
    let counts: Vec<usize> = units.iter().map(Vec::len).collect();
    let orders = interleavings(&counts);
    assert!(orders.len() <= ORDERS_MAX, "{} orders", orders.len());
    orders.iter().any(|order| {
        let mut control = Driver::connect(url, NoTls).unwrap();
        set_up(&mut control, spec).expect("PostgreSQL has run it before");
        let mut drivers: Vec<Option<Driver>> = units.iter().map(|_| None).collect();
        let same = order.iter().all(|&(session, unit)| {
            let driver = drivers[session].get_or_insert_with(|| {
                let mut driver = Driver::connect(url, NoTls).unwrap();
                let setup = spec.sessions[session].setup.as_deref().unwrap_or_default();
                statements(setup).iter().for_each(|sql| drop(said(&mut driver, sql)));
                driver
            });
            let told = &units[session][unit].steps;
            told.iter().all(|told| without_order(&said(driver, &told.sql)) == without_order(&told.answer))
        });
        let same = same && {
            drivers.iter_mut().flatten().for_each(|driver| drop(said(driver, "ROLLBACK")));
            rows(&mut control) == played.rows
        };
        drop(drivers);
        tear_down(&mut control, spec);
        same
    })
}
