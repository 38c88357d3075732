//! A recorded history: when transactions ran and which objects they accessed.

/// An object: a key of the workload, or the hash of a table and a primary key.
pub type Object = u64;

/// An attempt at a transaction, committed or aborted: each retry is an attempt of its own, as in cat-theorem.txt §2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// On any clock that all transactions of the history share.
    pub begin_ns: u64,
    /// Later than `begin_ns`: what has taken no time on a coarse clock counts as a nanosecond.
    pub end_ns: u64,
    /// One entry for each access; an object that is read and written has two.
    pub accesses: Vec<Object>,
    pub aborted: bool,
}

impl Transaction {
    /// Whether two transactions run at the same time. Two that touch at one instant do not.
    pub fn is_concurrent(&self, other: &Transaction) -> bool {
        self.begin_ns < other.end() && other.begin_ns < self.end()
    }

    pub(crate) fn end(&self) -> u64 {
        self.end_ns.max(self.begin_ns.saturating_add(1))
    }
}
