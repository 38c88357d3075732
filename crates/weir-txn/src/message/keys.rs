//! Keys of an index that is built while others write (docs/internals/global-keys.md, 3.17).

use serde::{Deserialize, Serialize};
use weir_types::Value;

/// A row has got a key (`is_there`), or has it no longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyChange {
    pub values: Vec<Value>,
    pub is_there: bool,
}

impl KeyChange {
    /// Approximate size in a message, in bytes.
    pub fn bytes(&self) -> usize {
        16 + self.values.iter().map(|value| 16 + value.content_bytes()).sum::<usize>()
    }
}

/// A key that two rows have: the lowest one, in the order of the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DuplicateKey {
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: Vec<u8>,
    pub values: Vec<Value>,
}
