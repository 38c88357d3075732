//! Buffered writes of a transaction, and their effect on its own reads.

use std::collections::BTreeMap;

use super::bytes::{Bytes, Key};
use super::message::KeyRange;
use super::reader::ReadSet;
use super::write::{Content, Write};
use crate::ItemRead;

/// Buffered writes, at most one for each item.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    writes: BTreeMap<Key, Write>,
}

/// Error: two writes of one item that cannot be combined into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOneWrite {
    pub key: Key,
}

impl std::fmt::Display for NotOneWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} is merged twice in this transaction, and the two are not one merge; put its value instead, or commit between them",
            self.key
        )
    }
}

impl Buffer {
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Adds a write after the buffered ones.
    ///
    /// # Errors
    /// Two merges that cannot be combined; nothing has changed then.
    pub fn write(&mut self, key: Key, write: Write) -> Result<(), NotOneWrite> {
        let both = match self.writes.get(&key) {
            Some(first) => both(first, &write).ok_or_else(|| NotOneWrite { key: key.clone() })?,
            None => write,
        };
        self.writes.insert(key, both);
        Ok(())
    }

    pub fn into_writes(self) -> Vec<(Key, Write)> {
        self.writes.into_iter().collect()
    }

    /// Applies the buffered writes to what was read; the stamps remain those of the read values.
    pub fn show_in(&self, keys: &[Key], ranges: &[KeyRange], read: &mut ReadSet) {
        if self.is_empty() {
            return;
        }
        for (key, item) in keys.iter().zip(&mut read.items) {
            if let Some(write) = self.writes.get(key) {
                item.value = with(item.value.take(), write);
            }
        }
        for (range, entries) in ranges.iter().zip(&mut read.ranges) {
            let written = self.writes.iter().filter(|(key, _)| range.contains(key));
            for (key, write) in written {
                match entries.binary_search_by(|(one, _)| one.cmp(key)) {
                    Ok(at) => entries[at].1.value = with(entries[at].1.value.take(), write),
                    Err(at) => {
                        let item = ItemRead { value: with(None, write), ..ItemRead::ABSENT };
                        entries.insert(at, (key.clone(), item));
                    }
                }
            }
            entries.retain(|(_, item)| item.value.is_some());
        }
    }
}

fn with(value: Option<Bytes>, write: &Write) -> Option<Bytes> {
    let mut content = value.map_or(Content::Absent, Content::Value);
    content.apply(write);
    content.value()
}

/// Combines two writes into one with the same effect.
fn both(first: &Write, second: &Write) -> Option<Write> {
    if second.overwrites() {
        return Some(second.clone());
    }
    match (first, second) {
        (Write::Put(value), merge) => with(Some(value.clone()), merge).map(Write::Put),
        (Write::Delete, merge) => with(None, merge).map(Write::Put),
        (Write::Add(one), Write::Add(other)) => Some(Write::Add(one.wrapping_add(*other))),
        (Write::Max(one), Write::Max(other)) => Some(Write::Max(one.max(other).clone())),
        (Write::Insert(one), Write::Insert(other)) if one == other => Some(first.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: i64) -> Bytes {
        Bytes::new(&number.to_be_bytes())
    }

    /// A transaction sees the effect that its writes will have on the item.
    #[test]
    fn two_writes_as_one() {
        let check = |before: Option<&str>, first: Write, second: Write| {
            let mut buffer = Buffer::default();
            buffer.write("x".into(), first.clone()).expect("it is the first");
            let written = buffer.write("x".into(), second.clone());
            let mut content = Content::Absent;
            before.iter().for_each(|value| content.apply(&Write::Put((*value).into())));
            content.apply(&first);
            if written.is_ok() {
                content.apply(&second);
            }
            let keys = ["x".into()];
            let item = ItemRead { value: before.map(Bytes::from), ..ItemRead::ABSENT };
            let mut read = ReadSet { items: vec![item], ranges: Vec::new() };
            buffer.show_in(&keys, &[], &mut read);
            assert_eq!(read.items[0].value, content.value(), "{before:?} {first:?} {second:?}");
            written.is_ok()
        };
        let put = |text: &str| Write::Put(text.into());
        for before in [None, Some("a"), Some("z")] {
            assert!(check(before, put("b"), put("c")));
            assert!(check(before, put("b"), Write::Delete));
            assert!(check(before, Write::Delete, Write::Add(2)));
            assert!(check(before, Write::Put(number(3)), Write::Add(2)));
            assert!(check(before, Write::Add(1), Write::Add(i64::MAX)));
            assert!(check(before, Write::Max("b".into()), Write::Max("a".into())));
            assert!(check(before, Write::Add(1), Write::Delete));
            assert!(check(before, Write::Insert("b".into()), Write::Insert("b".into())));
            assert!(!check(before, Write::Insert("b".into()), Write::Insert("c".into())));
            assert!(!check(before, Write::Add(1), Write::Max("c".into())));
        }
    }

    /// Members are inserted into a set that was read in its serialised form.
    #[test]
    fn members_go_into_a_set_that_was_read() {
        let mut set = Content::Absent;
        ["a", "c"].iter().for_each(|member| set.apply(&Write::Insert((*member).into())));
        let mut buffer = Buffer::default();
        buffer.write("x".into(), Write::Insert("b".into())).expect("it is the first");
        let mut read =
            ReadSet { items: vec![ItemRead { value: set.value(), ..ItemRead::ABSENT }], ranges: Vec::new() };
        buffer.show_in(&["x".into()], &[], &mut read);
        set.apply(&Write::Insert("b".into()));
        assert_eq!(read.items[0].value, set.value());
    }

    #[test]
    fn ranges_have_what_was_written_and_not_what_was_deleted() {
        let item = |key: &str| (Key::from(key), ItemRead { value: Some("old".into()), ..ItemRead::ABSENT });
        let mut buffer = Buffer::default();
        for (key, write) in [
            ("b", Write::Put("new".into())),
            ("c", Write::Delete),
            ("e", Write::Delete),
            ("z", Write::Add(1)),
        ] {
            buffer.write(key.into(), write).expect("each item once");
        }
        let ranges = [KeyRange { from: "a".into(), to: "y".into() }];
        let mut read = ReadSet { items: Vec::new(), ranges: vec![["a", "c", "d"].map(item).into()] };
        buffer.show_in(&[], &ranges, &mut read);
        let shown: Vec<String> =
            read.ranges[0].iter().map(|(key, item)| format!("{key:?} {:?}", item.value)).collect();
        assert_eq!(shown, ["a Some(old)", "b Some(new)", "d Some(old)"]);
    }
}
