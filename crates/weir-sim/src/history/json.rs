//! Histories as text: one transaction a line, in JSON.
//!
//! A byte is written as the character with its number (Latin-1), so any string of bytes survives. `guards` and `numbers` are left out where
//! there are none.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_core::ids::TxnId;
use weir_kv::write::Write;
use weir_kv::{Bytes, Guard, ItemRead, Key, KeyRange, Stamp};

use super::{History, Record};

/// One line for each transaction.
pub fn to_json_lines(history: &History) -> String {
    let mut text = String::new();
    for record in &history.records {
        text.push_str(&record_to_json(record).to_string());
        text.push('\n');
    }
    text
}

fn record_to_json(record: &Record) -> Value {
    let item = |(key, item): &(Key, ItemRead)| {
        json!([bytes_to_json(key), item.value.as_ref().map(bytes_to_json), stamp_to_json(item.stamp)])
    };
    let range = |(range, items): &(KeyRange, Vec<(Key, ItemRead)>)| {
        let items: Vec<Value> = items.iter().map(item).collect();
        json!({"from": bytes_to_json(&range.from), "to": bytes_to_json(&range.to), "items": items})
    };
    let mut line = json!({
        "session": record.session,
        "begun_us": record.begun_us,
        "ended_us": record.ended_us,
        "aborted": record.aborted,
        "stamp": record.stamp.map(stamp_to_json),
        "reads": record.reads.iter().map(item).collect::<Vec<Value>>(),
        "ranges": record.ranges.iter().map(range).collect::<Vec<Value>>(),
        "writes": record.writes.iter().map(write_to_json).collect::<Vec<Value>>(),
    });
    if !record.guards.is_empty() {
        let guard = |guard: &Guard| json!([text_of(&guard.key), stamp_to_json(guard.seen), guard.absent]);
        line["guards"] = record.guards.iter().map(guard).collect();
    }
    if !record.numbers.is_empty() {
        line["numbers"] = record.numbers.iter().map(|(key, number)| (text_of(key), *number)).collect();
    }
    line
}

fn text_of(bytes: &Bytes) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes_to_json(bytes: &Bytes) -> Value {
    Value::String(text_of(bytes))
}

fn stamp_to_json(stamp: Stamp) -> Value {
    json!([stamp.clock, stamp.txn.coordinator, stamp.txn.sequence])
}

fn write_to_json((key, write): &(Key, Write)) -> Value {
    let key = bytes_to_json(key);
    match write {
        Write::Put(value) => json!([key, "put", bytes_to_json(value)]),
        Write::Delete => json!([key, "delete"]),
        Write::Add(amount) => json!([key, "add", amount]),
        Write::Insert(member) => json!([key, "insert", bytes_to_json(member)]),
        Write::Max(value) => json!([key, "max", bytes_to_json(value)]),
    }
}

/// Reads what [`to_json_lines`] writes. The error says which line is wrong, and in what.
pub fn from_json_lines(text: &str) -> Result<Vec<Record>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let value: Value = serde_json::from_str(line).map_err(|error| wrong_json(at + 1, &error))?;
            record_from_json(&value).map_err(|what| format!("line {}: {what} is missing or wrong", at + 1))
        })
        .collect()
}

/// Each line is a text of its own to the reader, which calls it the first.
fn wrong_json(line: usize, error: &serde_json::Error) -> String {
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or_default();
    format!("line {line}, column {}: no JSON: {what}", error.column())
}

fn record_from_json(value: &Value) -> Result<Record, &'static str> {
    let list = |name: &'static str| value[name].as_array().ok_or(name);
    Ok(Record {
        session: value["session"].as_u64().ok_or("session")? as usize,
        begun_us: value["begun_us"].as_u64().ok_or("begun_us")?,
        ended_us: match &value["ended_us"] {
            Value::Null => None,
            ended => Some(ended.as_u64().ok_or("ended_us")?),
        },
        aborted: value["aborted"].as_bool().ok_or("aborted")?,
        lost: None,
        stamp: match &value["stamp"] {
            Value::Null => None,
            stamp => Some(stamp_from_json(stamp).ok_or("stamp")?),
        },
        reads: items_from_json(list("reads")?).ok_or("reads")?,
        ranges: list("ranges")?.iter().map(range_from_json).collect::<Option<_>>().ok_or("ranges")?,
        writes: list("writes")?.iter().map(write_from_json).collect::<Option<_>>().ok_or("writes")?,
        guards: match &value["guards"] {
            Value::Null => Vec::new(),
            guards => guards_from_json(guards).ok_or("guards")?,
        },
        numbers: match &value["numbers"] {
            Value::Null => BTreeMap::new(),
            numbers => numbers_from_json(numbers).ok_or("numbers")?,
        },
    })
}

fn guards_from_json(guards: &Value) -> Option<Vec<Guard>> {
    let guard = |guard: &Value| {
        let (key, seen) = (bytes_from_json(&guard[0])?, stamp_from_json(&guard[1])?);
        Some(Guard { key, seen, absent: guard[2].as_bool()? })
    };
    guards.as_array()?.iter().map(guard).collect()
}

fn numbers_from_json(numbers: &Value) -> Option<BTreeMap<Key, u64>> {
    numbers.as_object()?.iter().map(|(key, number)| Some((bytes_of(key)?, number.as_u64()?))).collect()
}

fn bytes_of(text: &str) -> Option<Bytes> {
    let bytes = text.chars().map(|char| u8::try_from(char).ok()).collect::<Option<Vec<u8>>>()?;
    Some(Bytes::new(&bytes))
}

fn bytes_from_json(value: &Value) -> Option<Bytes> {
    bytes_of(value.as_str()?)
}

fn stamp_from_json(value: &Value) -> Option<Stamp> {
    let txn = TxnId { coordinator: value[1].as_u64()?, sequence: value[2].as_u64()? };
    Some(Stamp { clock: value[0].as_u64()?, txn })
}

fn items_from_json(items: &[Value]) -> Option<Vec<(Key, ItemRead)>> {
    let item = |item: &Value| {
        let value = match &item[1] {
            Value::Null => None,
            value => Some(bytes_from_json(value)?),
        };
        Some((bytes_from_json(&item[0])?, ItemRead { value, stamp: stamp_from_json(&item[2])? }))
    };
    items.iter().map(item).collect()
}

fn range_from_json(value: &Value) -> Option<(KeyRange, Vec<(Key, ItemRead)>)> {
    let range = KeyRange { from: bytes_from_json(&value["from"])?, to: bytes_from_json(&value["to"])? };
    Some((range, items_from_json(value["items"].as_array()?)?))
}

fn write_from_json(value: &Value) -> Option<(Key, Write)> {
    let key = bytes_from_json(&value[0])?;
    let write = match value[1].as_str()? {
        "put" => Write::Put(bytes_from_json(&value[2])?),
        "delete" => Write::Delete,
        "add" => Write::Add(value[2].as_i64()?),
        "insert" => Write::Insert(bytes_from_json(&value[2])?),
        "max" => Write::Max(bytes_from_json(&value[2])?),
        _ => return None,
    };
    Some((key, write))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::{Setup, run};

    #[test]
    fn what_is_written_is_read() {
        let report = run(&<Setup>::new(weir_kv::Variant::Fast, 5));
        let text = to_json_lines(&report.history);
        let read = History::new(from_json_lines(&text).expect("it was written so"));
        assert_eq!(format!("{:?}", read.records), format!("{:?}", report.history.records));
        assert_eq!(read.check(), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, expected: &str| {
            let error = from_json_lines(text).expect_err("it is wrong");
            assert!(error.contains(expected), "{error}");
        };
        check("{", "line 1, column 1: no JSON: EOF while parsing an object");
        check("\n\n{\"session\":x}", "line 3, column 12: no JSON: expected value");
        assert!(!from_json_lines("\n{").expect_err("it is wrong").contains("line 1"));
        check("\n{}", "line 2: session");
        let line = r#"{"session":0,"begun_us":1,"ended_us":2,"aborted":false,"stamp":null,"reads":[],"ranges":[],"writes":[["x","pat"]]}"#;
        check(line, "line 1: writes");
        check(&line.replace("null", "[1]"), "line 1: stamp");
        let with = |more: &str| line.replace("\"pat\"]]", &format!("\"delete\"]],{more}"));
        check(&with(r#""guards":[["x",[1,1,1]]]"#), "line 1: guards");
        check(&with(r#""numbers":[1]"#), "line 1: numbers");
        check(&with(r#""numbers":{"x":-1}"#), "line 1: numbers");
    }
}
