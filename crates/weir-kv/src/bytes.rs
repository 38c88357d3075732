//! Keys and values: strings of bytes, kept in place when they are short.
//!
//! A short key never touches the allocator and never shares a reference count with another thread; a long
//! value is shared, so that handing it to a reader copies nothing.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

const INLINE_MAX: usize = 22;

/// An immutable string of bytes. Orders as its bytes do.
#[derive(Clone)]
pub struct Bytes(Repr);

/// Names an item.
pub type Key = Bytes;

#[derive(Clone)]
enum Repr {
    Inline { length: u8, data: [u8; INLINE_MAX] },
    Shared(Arc<[u8]>),
}

impl Bytes {
    pub fn new(bytes: &[u8]) -> Bytes {
        if bytes.len() > INLINE_MAX {
            return Bytes(Repr::Shared(bytes.into()));
        }
        let mut data = [0; INLINE_MAX];
        data[..bytes.len()].copy_from_slice(bytes);
        Bytes(Repr::Inline { length: bytes.len() as u8, data })
    }
}

/// The empty string.
impl Default for Bytes {
    fn default() -> Bytes {
        Bytes(Repr::Inline { length: 0, data: [0; INLINE_MAX] })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { length, data } => &data[..usize::from(*length)],
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Bytes {
        Bytes::new(text.as_bytes())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Bytes) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Bytes) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.escape_ascii())
    }
}

/// As a string of bytes, not as a sequence of numbers.
impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct OfBytes;
        impl Visitor<'_> for OfBytes {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::new(bytes))
            }
        }
        deserializer.deserialize_bytes(OfBytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_strings_order_as_their_bytes() {
        let long = "user4052466453699787802".repeat(3);
        let mut all: Vec<Bytes> = ["b", "", "a", &long, "user4", "userz"].map(Bytes::from).into();
        all.sort();
        let sorted: Vec<&[u8]> = all.iter().map(|bytes| &**bytes).collect();
        assert_eq!(sorted, ["".as_bytes(), b"a", b"b", b"user4", long.as_bytes(), b"userz"]);
        assert_eq!(std::mem::size_of::<Bytes>(), 24);
    }
}
