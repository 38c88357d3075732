//! Histories for other checkers: Elle's format (Kingsbury and Alvaro, 2020), model `rw-register`, and the text that PolySI and
//! Plume read.
//!
//! They know registers that are written with distinct values. A value is told by the number of its writer; items
//! that merge or are deleted cannot be said in that model and are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weir_kv::write::Write;
use weir_kv::{Bytes, Key};

use super::{History, Mark};

/// One operation a line, in EDN: invocation and completion of every transaction, by time.
pub fn elle_edn(history: &History) -> String {
    let mut lines: Vec<(u64, bool, usize)> = Vec::new();
    for (number, record) in history.records.iter().enumerate() {
        lines.push((record.begun_us, true, number));
        lines.extend(record.ended_us.map(|ended_us| (ended_us, false, number)));
    }
    lines.sort();
    let mut text = String::new();
    for (index, (time_us, invoked, number)) in lines.into_iter().enumerate() {
        let record = &history.records[number];
        let kind = match (invoked, record.aborted) {
            (true, _) => ":invoke",
            (false, true) => ":fail",
            (false, false) => ":ok",
        };
        let mut operations = Vec::new();
        for (key, value, _) in history.seen_by(number) {
            if history.is_register(key) {
                let read = if invoked { "nil".into() } else { history.number_of(key, value) };
                operations.push(format!("[:r \"{key:?}\" {read}]"));
            }
        }
        for (key, _) in record.writes.iter().filter(|(key, _)| history.is_register(key)) {
            operations.push(format!("[:w \"{key:?}\" {number}]"));
        }
        let (process, time_ns) = (record.session, time_us * 1_000);
        let operations = operations.join(" ");
        let _ = writeln!(
            text,
            "{{:index {index}, :type {kind}, :process {process}, :time {time_ns}, :f :txn, :value [{operations}]}}"
        );
    }
    text
}

/// `r(KEY,VALUE,SESSION,TRANSACTION)` or `w(…)`, a line for each operation of committed transactions; all are numbers, and 0 is the
/// initial value.
pub fn operations_text(history: &History) -> String {
    let keys: BTreeSet<&Key> =
        history.records.iter().enumerate().flat_map(|(number, _)| keys_of(history, number)).collect();
    let keys: BTreeMap<&Key, usize> = keys.into_iter().zip(1..).collect();
    let mut text = String::new();
    for (number, record) in history.records.iter().enumerate() {
        let (session, transaction) = (record.session, number + 1);
        let is_answered = record.ended_us.is_some();
        if record.aborted || !(is_answered || record.stamp.is_some()) {
            continue;
        }
        for (key, value, _) in
            history.seen_by(number).into_iter().filter(|(key, ..)| history.is_register(key))
        {
            let writer = history.writer_of(key, value).map_or(0, |writer| writer + 1);
            let _ = writeln!(text, "r({},{writer},{session},{transaction})", keys[key]);
        }
        for (key, _) in record.writes.iter().filter(|(key, _)| history.is_register(key)) {
            let _ = writeln!(text, "w({},{transaction},{session},{transaction})", keys[key]);
        }
    }
    text
}

fn keys_of(history: &History, number: usize) -> impl Iterator<Item = &Key> {
    let seen = history.seen_by(number).into_iter().map(|(key, ..)| key);
    seen.chain(history.records[number].writes.iter().map(|(key, _)| key))
}

impl History {
    fn is_register(&self, key: &Key) -> bool {
        let writes = self.writers.get(key).into_iter().flatten();
        writes.into_iter().all(|(_, write)| matches!(write, Write::Put(_)))
    }

    /// A value is told by the number of the transaction that wrote it.
    fn number_of(&self, key: &Key, value: Option<&Bytes>) -> String {
        self.writer_of(key, value).map_or("nil".into(), |writer| writer.to_string())
    }

    fn writer_of(&self, key: &Key, value: Option<&Bytes>) -> Option<usize> {
        value.and_then(|value| self.marks.get(&(key.clone(), Mark::Value(value.clone())))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Record;
    use weir_kv::{ItemRead, Stamp};

    #[test]
    fn registers_only_with_their_writers_numbers() {
        let item = |value: Option<&str>| ItemRead { value: value.map(Bytes::from), stamp: Stamp::NONE };
        let writes = vec![("x".into(), Write::Put("a".into())), ("y".into(), Write::Add(1))];
        let reads = vec![("x".into(), item(Some("a"))), ("z".into(), item(None)), ("y".into(), item(None))];
        let history = History::new(vec![
            Record { begun_us: 1, ended_us: Some(3), writes, ..Record::default() },
            Record { session: 1, begun_us: 2, ended_us: None, reads: reads.clone(), ..Record::default() },
        ]);
        let expected = r#"
{:index 0, :type :invoke, :process 0, :time 1000, :f :txn, :value [[:w "x" 0]]}
{:index 1, :type :invoke, :process 1, :time 2000, :f :txn, :value [[:r "x" nil] [:r "z" nil]]}
{:index 2, :type :ok, :process 0, :time 3000, :f :txn, :value [[:w "x" 0]]}
"#;
        assert_eq!(elle_edn(&history), expected.trim_start());
        let mut records = history.records;
        let aborted = Record { aborted: true, ended_us: Some(4), reads: reads.clone(), ..Record::default() };
        records.extend([
            aborted,
            Record { session: 2, begun_us: 5, ended_us: Some(6), reads, ..Record::default() },
        ]);
        assert_eq!(operations_text(&History::new(records)), "w(1,1,0,1)\nr(1,1,2,4)\nr(3,0,2,4)\n");
    }
}
