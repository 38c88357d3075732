//! Writes of an item, and the content that a sequence of them produces.
//!
//! Overwriting is the paper's default; the others are merges that a user may choose instead (ramp.txt §4.5, "Overwrites"). All are total:
//! none fails on any content (S8).

use std::collections::BTreeSet;

use super::bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One write. All but `Put` and `Delete` merge with concurrent writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    Put(Bytes),
    Delete,
    /// Adds to a number, wrapping around; an absent item counts as 0. The value reads as eight bytes, big-endian.
    Add(i64),
    /// Inserts a member into a set; an absent item is the empty set, and a value in the form of a set is that set.
    Insert(Bytes),
    /// The greater of two byte strings; an absent item is less than any.
    Max(Bytes),
}

impl Write {
    /// Returns whether its result is independent of the earlier content.
    pub fn overwrites(&self) -> bool {
        matches!(self, Write::Put(_) | Write::Delete)
    }
}

/// Content of an item after some writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    #[default]
    Absent,
    Value(Bytes),
    Number(i64),
    /// Boxed, so that the other variants need no more space than a byte string.
    Set(Box<BTreeSet<Bytes>>),
}

impl Content {
    /// Applies the next write in stamp order. Content of a type that the write cannot use (a set under an `Add`) counts as absent.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::Put(value) => *self = Content::Value(value.clone()),
            Write::Delete => *self = Content::Absent,
            Write::Add(amount) => *self = Content::Number(self.number().wrapping_add(*amount)),
            Write::Insert(member) => {
                if !matches!(self, Content::Set(_)) {
                    *self = Content::Set(Box::new(self.members()));
                }
                if let Content::Set(members) = self {
                    members.insert(member.clone());
                }
            }
            Write::Max(value) => {
                if self.value().is_none_or(|present| present < *value) {
                    *self = Content::Value(value.clone());
                }
            }
        }
    }

    fn number(&self) -> i64 {
        match self {
            Content::Number(number) => *number,
            Content::Value(bytes) => {
                <[u8; 8]>::try_from(&**bytes).map(i64::from_be_bytes).unwrap_or_default()
            }
            Content::Absent | Content::Set(_) => 0,
        }
    }

    /// Members of a value in the form of a set; empty for any other value.
    fn members(&self) -> BTreeSet<Bytes> {
        let Content::Value(bytes) = self else { return BTreeSet::new() };
        let (mut members, mut rest) = (BTreeSet::new(), &**bytes);
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let Some((member, after)) = after.split_at_checked(u32::from_be_bytes(*length) as usize) else {
                return BTreeSet::new();
            };
            members.insert(Bytes::new(member));
            rest = after;
        }
        if rest.is_empty() { members } else { BTreeSet::new() }
    }

    /// Value for readers; none for an absent item. A set reads as its members in order, each after its length (four bytes, big-endian).
    pub fn value(&self) -> Option<Bytes> {
        match self {
            Content::Absent => None,
            Content::Value(bytes) => Some(bytes.clone()),
            Content::Number(number) => Some(Bytes::new(&number.to_be_bytes())),
            Content::Set(members) => {
                let mut bytes = Vec::new();
                for member in members.iter() {
                    bytes.extend((member.len() as u32).to_be_bytes());
                    bytes.extend_from_slice(member);
                }
                Some(Bytes::new(&bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_small() {
        assert_eq!(std::mem::size_of::<Content>(), std::mem::size_of::<Bytes>());
    }

    #[test]
    fn writes_in_order() {
        let check = |writes: &[Write], expected: Option<Bytes>| {
            let mut content = Content::default();
            writes.iter().for_each(|write| content.apply(write));
            assert_eq!(content.value(), expected, "{writes:?}");
        };
        let number = |number: i64| Some(Bytes::new(&number.to_be_bytes()));
        let put = |text: &str| Write::Put(text.into());
        check(&[], None);
        check(&[put("a"), put("b")], Some("b".into()));
        check(&[put("a"), Write::Delete], None);
        check(&[Write::Add(3), Write::Add(-5)], number(-2));
        check(&[Write::Add(i64::MAX), Write::Add(1)], number(i64::MIN));
        check(&[Write::Put(Bytes::new(&7_i64.to_be_bytes())), Write::Add(1)], number(8));
        check(&[put("no number"), Write::Add(1)], number(1));
        check(&[Write::Max("b".into()), Write::Max("a".into())], Some("b".into()));
        let set = Some(Bytes::new(b"\0\0\0\x01a\0\0\0\x02bb"));
        check(
            &[Write::Insert("bb".into()), Write::Insert("a".into()), Write::Insert("a".into())],
            set.clone(),
        );
        check(&[Write::Insert("x".into()), Write::Delete], None);
        check(&[Write::Put(Bytes::new(b"\0\0\0\x01a")), Write::Insert("bb".into())], set);
        let alone = Some(Bytes::new(b"\0\0\0\x02bb"));
        check(&[Write::Put(Bytes::new(b"\0\0\0\x02a")), Write::Insert("bb".into())], alone.clone());
        check(&[Write::Put(Bytes::new(b"\0\0\0\x01aa")), Write::Insert("bb".into())], alone);
    }
}
