//! Checks of a run: the answers of all its transactions and the values at its end agree.
//!
//! All of them are answered, and each key has begun with a value of its own ([`first_value`]). So modifications of a key form one chain, a read
//! returns what was written, and swaps permute the values.

use std::collections::BTreeMap;

use weir_baselines::eris::operation::{Action, Key, Operation, Value};
use weir_baselines::eris::workload::Kind;

use crate::load::Answered;

/// The factor of a modification, and its inverse modulo 2^64.
const FACTOR: u64 = 31;
const INVERSE: u64 = 17_256_631_552_825_064_415;

/// Keys that one transaction fills.
const FILLED_TOGETHER: u64 = 16;

/// The value with which a key begins.
pub fn first_value(key: Key) -> Value {
    key + 1
}

/// Transactions that write the first values of keys below that number.
pub fn first_writes(keys: u64) -> impl Iterator<Item = Operation> {
    (0..keys).step_by(FILLED_TOGETHER as usize).map(move |from| {
        let keys = from..keys.min(from + FILLED_TOGETHER);
        let writes: Vec<_> = keys.map(|key| Action::Write(key, first_value(key))).collect();
        Operation::new(writes)
    })
}

/// The value that a modification has found.
pub fn value_before(after: Value, by: Value) -> Value {
    const { assert!(FACTOR.wrapping_mul(INVERSE) == 1) };
    after.wrapping_sub(by).wrapping_mul(INVERSE)
}

/// Checks the answers of a run, and the values at its end.
///
/// # Errors
/// They contradict each other; how.
pub fn check(kind: Kind, keys: u64, answers: &[Answered], last: &BTreeMap<Key, Value>) -> Result<(), String> {
    let last_of = |key: Key| last.get(&key).copied().unwrap_or(0);
    match kind {
        Kind::Srw => check_writes(keys, answers, last_of),
        Kind::Mrmw => check_chains(keys, answers, last_of),
        Kind::Crmw => check_permutation(keys, answers, last),
    }
}

/// Actions of all transactions, with the key and its value after it.
fn accesses(answers: &[Answered]) -> impl Iterator<Item = (Action, Key, Value)> + '_ {
    answers.iter().flat_map(|each| {
        each.values().filter_map(|(key, value)| {
            let has_key = |action: &&Action| match **action {
                Action::Read(of) | Action::Write(of, _) | Action::Modify(of, _) => of == key,
                Action::Swap(a, b) => a == key || b == key,
            };
            each.operation.actions().iter().find(has_key).map(|action| (*action, key, value))
        })
    })
}

/// Reads, and the values at the end, are of what was written.
fn check_writes(keys: u64, answers: &[Answered], last_of: impl Fn(Key) -> Value) -> Result<(), String> {
    let is_write = |action| matches!(action, Action::Write(..));
    let written = accesses(answers).filter(|(action, ..)| is_write(*action));
    let mut written: Vec<_> = written.map(|(_, key, value)| (key, value)).collect();
    written.sort_unstable();
    let is_known = |key, value| value == first_value(key) || written.binary_search(&(key, value)).is_ok();
    let strange = accesses(answers).find(|(_, key, value)| !is_known(*key, *value));
    if let Some((action, key, value)) = strange {
        return Err(format!("{action:?} was told {value} of key {key}, which was never written"));
    }
    match (0..keys).find(|key| !is_known(*key, last_of(*key))) {
        Some(key) => Err(format!("key {key} ends with {}, which was never written", last_of(key))),
        None => Ok(()),
    }
}

/// Modifications of a key follow each other from its first value to its last one.
fn check_chains(keys: u64, answers: &[Answered], last_of: impl Fn(Key) -> Value) -> Result<(), String> {
    let mut steps: Vec<(Key, Value, Value)> = Vec::new();
    for (action, key, value) in accesses(answers) {
        if let Action::Modify(_, by) = action {
            steps.push((key, value_before(value, by), value));
        }
    }
    steps.sort_unstable();
    let step_from = |key, before| {
        let place = steps.partition_point(|(of, value, _)| (*of, *value) < (key, before));
        steps.get(place).filter(|(of, value, _)| (*of, *value) == (key, before)).map(|(.., after)| *after)
    };
    let mut followed = 0;
    for key in 0..keys {
        let mut value = first_value(key);
        while let Some(after) = step_from(key, value).filter(|_| followed <= steps.len()) {
            (value, followed) = (after, followed + 1);
        }
        if value != last_of(key) {
            return Err(format!(
                "the modifications of key {key} end with {value}, and it has {}",
                last_of(key)
            ));
        }
    }
    if followed != steps.len() {
        return Err(format!("{} modifications, of which {followed} follow each other", steps.len()));
    }
    let is_read_right = |action, key, value| {
        !matches!(action, Action::Read(_)) || value == last_of(key) || step_from(key, value).is_some()
    };
    match accesses(answers).find(|(action, key, value)| !is_read_right(*action, *key, *value)) {
        Some((_, key, value)) => {
            Err(format!("a read was told {value} of key {key}, which was never written"))
        }
        None => Ok(()),
    }
}

/// Values at the end are those of the beginning, each once.
fn check_permutation(keys: u64, answers: &[Answered], last: &BTreeMap<Key, Value>) -> Result<(), String> {
    let mut values: Vec<_> = last.values().copied().collect();
    values.sort_unstable();
    if !values.iter().copied().eq((0..keys).map(first_value)) {
        return Err("swaps have lost a value, or doubled one".to_owned());
    }
    match accesses(answers).find(|(.., value)| *value == 0 || *value > keys) {
        Some((action, key, value)) => {
            Err(format!("{action:?} was told {value} of key {key}, which no key had"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod unit_tests {
    use weir_core::ids::TxnId;

    use super::*;

    fn answered(action: Action, values: &[(Key, Value)]) -> Answered {
        let txn = TxnId { coordinator: 1, sequence: 1 };
        let operation = Operation::new([action]);
        Answered { txn, operation, begun_ns: 0, answered_ns: 1, answers: vec![values.to_vec()] }
    }

    fn modified(by: Value, after: Value) -> Answered {
        answered(Action::Modify(0, by), &[(0, after)])
    }

    #[test]
    fn modifications_are_one_chain() {
        let (first, second) = (31 + 5, (31 + 5) * 31 + 7);
        let check = |answers: &[Answered], last| check(Kind::Mrmw, 1, answers, &[(0, last)].into());
        let read = |value| answered(Action::Read(0), &[(0, value)]);
        assert_eq!(check(&[modified(7, second), read(first), modified(5, first), read(1)], second), Ok(()));
        assert!(check(&[modified(5, first), modified(7, 31 + 7)], first).is_err(), "a lost update");
        assert!(check(&[modified(5, first), modified(7, second)], first).is_err(), "a lost write");
        assert!(check(&[modified(5, first), read(9)], first).is_err(), "a value from nowhere");
        assert!(check(&[modified(7, second)], second).is_err(), "a value before which nobody was told of");
    }

    #[test]
    fn reads_are_of_what_was_written() {
        let check = |answers: &[Answered], last| check(Kind::Srw, 1, answers, &[(0, last)].into());
        let written = answered(Action::Write(0, 7), &[(0, 7)]);
        let read = |value| answered(Action::Read(0), &[(0, value)]);
        assert_eq!(check(&[written.clone(), read(1), read(7)], 7), Ok(()));
        assert!(check(&[written.clone(), read(8)], 7).is_err());
        assert!(check(&[written], 9).is_err());
    }

    #[test]
    fn swaps_permute_the_values() {
        let check = |answers: &[Answered], last: [Value; 2]| {
            check(Kind::Crmw, 2, answers, &(0..).zip(last).collect())
        };
        let swapped = answered(Action::Swap(0, 1), &[(0, 2), (1, 1)]);
        assert_eq!(check(&[swapped], [2, 1]), Ok(()));
        assert!(check(&[], [2, 2]).is_err(), "half of a swap");
        assert!(check(&[answered(Action::Read(0), &[(0, 3)])], [1, 2]).is_err());
    }

    #[test]
    fn every_key_is_filled_once() {
        let written: Vec<_> = first_writes(33).flat_map(|each| each.actions().to_vec()).collect();
        let expected: Vec<_> = (0..33).map(|key| Action::Write(key, key + 1)).collect();
        assert_eq!(written, expected);
    }
}
