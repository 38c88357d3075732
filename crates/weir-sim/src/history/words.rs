//! Wording of violations: items and their values, stamps, transactions. Decides nothing.
//!
//! Transactions are counted from 1, as the lines of a history that has been written down.

use std::collections::BTreeSet;

use weir_kv::{Bytes, Key, Stamp};

use super::{History, Seen};

/// Largest number of list elements shown.
const NAMED_MAX: usize = 8;

pub(super) fn key(key: &Key) -> String {
    format!("item {key:?}")
}

pub(super) fn value(value: Option<&Bytes>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| format!("\"{value:?}\""))
}

pub(super) fn stamp(stamp: Stamp) -> String {
    match stamp {
        Stamp::NONE => "before any write".to_owned(),
        Stamp { clock, txn } => {
            format!("clock {clock} of coordinator {}, number {}", txn.coordinator, txn.sequence)
        }
    }
}

pub(super) fn transaction(number: usize) -> String {
    format!("transaction {}", number + 1)
}

pub(super) fn transactions<'a>(numbers: impl IntoIterator<Item = &'a usize>) -> String {
    let numbers: BTreeSet<&usize> = numbers.into_iter().collect();
    match numbers.len() {
        0 => "no transaction".to_owned(),
        1 => numbers.into_iter().map(|number| transaction(*number)).collect(),
        _ => format!("transactions {}", listed(numbers.into_iter().map(|number| (number + 1).to_string()))),
    }
}

/// Items that were read, with values and stamps.
pub(super) fn seen(seen: &[Seen<'_>]) -> String {
    listed(seen.iter().map(|(of, was, at)| format!("{} {} ({})", key(of), value(*was), stamp(*at))))
}

pub(super) fn listed(mut words: impl Iterator<Item = String>) -> String {
    let mut listed: Vec<String> = words.by_ref().take(NAMED_MAX).collect();
    match words.count() {
        0 => {}
        more => listed.push(format!("{more} more")),
    }
    let last = listed.pop().unwrap_or_default();
    if listed.is_empty() { last } else { format!("{} and {last}", listed.join(", ")) }
}

impl History {
    /// Prefixes a violation with the transaction that has observed it.
    pub(super) fn told_by(&self, number: usize, what: &str) -> String {
        format!("{} (of session {}) {what}", transaction(number), self.records[number].session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sentences_and_end() {
        let of = |count: usize| transactions(&(0..count).collect::<Vec<_>>());
        for (count, expected) in [
            (0, "no transaction"),
            (1, "transaction 1"),
            (2, "transactions 1 and 2"),
            (3, "transactions 1, 2 and 3"),
            (10, "transactions 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"),
        ] {
            assert_eq!(of(count), expected);
        }
        assert_eq!((value(None), value(Some(&Bytes::from("a\n")))), ("absent".into(), "\"a\\n\"".into()));
    }
}
