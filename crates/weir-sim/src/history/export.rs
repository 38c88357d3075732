//! Histories for other checkers: Elle's format (Kingsbury and Alvaro, 2020), model `rw-register`.
//!
//! Elle knows registers that are written with distinct values. A value is told by a number of its writer; items
//! that merge cannot be said in that model and are left out.

use std::fmt::Write as _;

use weir_txn::items::write::Write;
use weir_txn::items::{Bytes, Key, Stamp};

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
        for (key, value, stamp) in history.seen_by(number) {
            if history.is_register(key) {
                let read = if invoked { "nil".into() } else { history.number_of(key, value, stamp) };
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

impl History {
    fn is_register(&self, key: &Key) -> bool {
        let writes = self.writers.get(key).into_iter().flatten();
        writes.into_iter().all(|(_, write)| matches!(write, Write::Put(_) | Write::Delete))
    }

    /// A value is told by the number of the transaction that wrote it.
    fn number_of(&self, key: &Key, value: Option<&Bytes>, stamp: Stamp) -> String {
        let writer = match value {
            Some(value) => self.marks.get(&(key.clone(), Mark::Value(value.clone()))).copied(),
            None => {
                self.records.iter().position(|record| stamp != Stamp::NONE && record.stamp == Some(stamp))
            }
        };
        writer.map_or("nil".into(), |writer| writer.to_string())
    }
}
