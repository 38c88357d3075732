//! Strict serializability from answers alone, whatever replicas say.
//!
//! A register's new value says its old value, since what each transaction adds is known and multiplication by an odd number can be undone.
//! So the answers give the order of the transactions at each register.

use std::collections::BTreeMap;

use weir_core::ids::TxnId;

use crate::world::registers::{Change, Register};
use crate::world::strict::{Told, Violation, check_edges, violation};

/// The factor that multiplies a register before a number is added, and its inverse modulo 2^64.
const FACTOR: u64 = 31;
const INVERSE: u64 = 17_256_631_552_825_064_415;

/// Checks the answers to these changes. `unknown`: transactions that were begun and not answered.
pub fn check_answers(
    changes: &BTreeMap<TxnId, Change>,
    told: &Told,
    unknown: usize,
) -> Result<(), Violation> {
    assert_eq!(FACTOR.wrapping_mul(INVERSE), 1);
    let mut writers: BTreeMap<(Register, u64), TxnId> = BTreeMap::new();
    for (txn, register, value) in values(told) {
        if let Some(other) = writers.insert((register, value), txn) {
            return violation("5", format!("{txn:?} and {other:?} have left the same value in {register:?}"));
        }
    }
    let (mut edges, mut followed, mut strange) = (BTreeMap::<TxnId, Vec<TxnId>>::new(), BTreeMap::new(), 0);
    for (txn, register, value) in values(told) {
        let by = changes[&txn].0.iter().find(|(of, _)| *of == register).map_or(0, |(_, by)| *by);
        let before = value.wrapping_sub(by).wrapping_mul(INVERSE);
        if let Some(other) = followed.insert((register, before), txn) {
            return violation(
                "5",
                format!("{txn:?} and {other:?} have changed the same value of {register:?}"),
            );
        }
        match writers.get(&(register, before)) {
            Some(writer) => edges.entry(*writer).or_default().push(txn),
            None => strange += usize::from(before != 0),
        }
    }
    if strange > 2 * unknown {
        return violation("5", format!("{strange} values follow on others that nobody was told of"));
    }
    check_edges(edges, told)
}

fn values(told: &Told) -> impl Iterator<Item = (TxnId, Register, u64)> + '_ {
    told.completed.iter().flat_map(|(txn, (_, answers))| {
        answers.values().flatten().map(|(register, value)| (*txn, *register, *value))
    })
}

/// Transactions of one register: what each adds, the value that it has left, and its time.
fn check_values(steps: &[(u64, u64, u64)], unknown: usize) -> Result<(), &'static str> {
    let (mut changes, mut told) = (BTreeMap::new(), Told::default());
    for (sequence, (by, value, at)) in (1..).zip(steps) {
        let txn = TxnId { coordinator: 1, sequence };
        changes.insert(txn, Change(vec![((0, 0), *by)]));
        told.begun.insert(txn, *at);
        told.completed.insert(txn, (at + 1, [(0, vec![((0, 0), *value)])].into()));
    }
    check_answers(&changes, &told, unknown).map_err(|violation| violation.invariant)
}

#[test]
fn answers_that_contradict_each_other_are_found() {
    let (first, second, third) = (5, 5 * 31 + 7, (5 * 31 + 7) * 31 + 9);
    assert_eq!(check_values(&[(5, first, 0), (7, second, 10), (9, third, 20)], 0), Ok(()));
    assert_eq!(check_values(&[(5, first, 0), (7, 7, 10)], 0), Err("5"), "a lost update");
    assert_eq!(check_values(&[(5, first, 0), (5, first, 10)], 0), Err("5"), "the same change twice");
    assert_eq!(check_values(&[(5, first, 0), (9, third, 20)], 0), Err("5"), "a value from nowhere");
    assert_eq!(check_values(&[(5, first, 0), (9, third, 20)], 1), Ok(()), "the one between was not answered");
    assert_eq!(check_values(&[(5, first, 10), (7, second, 0)], 0), Err("4"), "an order against that of time");
}
