//! A row as it is stored: the births that foreign keys go by, then its value.

use weir_core::ids::TxnId;

use crate::Bytes;

/// Bytes in front of the value.
const HEADER: usize = 32;

/// Stands for the transaction that is being made, which has no id yet.
pub(super) const OWN: TxnId = TxnId { coordinator: u64::MAX, sequence: u64::MAX };

/// Parent transaction of a row without a parent.
pub(super) const NOBODY: TxnId = TxnId { coordinator: 0, sequence: 0 };

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The transaction that inserted it.
    pub born: TxnId,
    /// The birth of the parent that its writer has seen.
    pub parent: TxnId,
    pub value: Bytes,
}

impl Row {
    /// None for what no transaction of relations has written.
    pub fn decode(bytes: &[u8]) -> Option<Row> {
        let (header, value) = bytes.split_at_checked(HEADER)?;
        let number = |at: usize| header[8 * at..8 * at + 8].try_into().map(u64::from_be_bytes);
        let txn = |at| Some(TxnId { coordinator: number(at).ok()?, sequence: number(at + 1).ok()? });
        Some(Row { born: txn(0)?, parent: txn(2)?, value: Bytes::new(value) })
    }

    /// As the transaction `own` writes it.
    pub fn encode(&self, own: TxnId) -> Bytes {
        let mut bytes = Vec::with_capacity(HEADER + self.value.len());
        for txn in [self.born, self.parent] {
            bytes.extend(txn_bytes(if txn == OWN { own } else { txn }));
        }
        bytes.extend_from_slice(&self.value);
        Bytes::new(&bytes)
    }
}

pub(super) fn txn_bytes(txn: TxnId) -> impl Iterator<Item = u8> {
    txn.coordinator.to_be_bytes().into_iter().chain(txn.sequence.to_be_bytes())
}
