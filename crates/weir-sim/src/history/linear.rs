//! Linearizability of one item: the algorithm of Wing and Gong, with the memory of Lowe ("Testing for
//! linearizability", 2017): a set of operations that are done and a state are tried once.

use std::collections::BTreeSet;

use weir_kv::Bytes;
use weir_kv::write::{Content, Write};

/// A read or a write of one item.
#[derive(Clone, Debug)]
pub struct Operation {
    pub begun_us: u64,
    /// `u64::MAX`: it may take effect at any time later, or never.
    pub ended_us: u64,
    /// Result of a read.
    pub read: Option<Option<Bytes>>,
    pub write: Option<Write>,
}

/// Some order of the operations that keeps to real time gives every read its value.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    let mut operations: Vec<&Operation> = operations.iter().collect();
    operations.sort_by_key(|operation| operation.begun_us);
    let done = vec![0_u64; operations.len().div_ceil(64)];
    search(&operations, done, Content::default(), &mut BTreeSet::new())
}

/// An explicit stack, so that a long history cannot exhaust the real one.
fn search(
    operations: &[&Operation],
    done: Vec<u64>,
    content: Content,
    tried: &mut BTreeSet<(Vec<u64>, Option<Bytes>)>,
) -> bool {
    let mut stack = vec![(done, content)];
    while let Some((done, content)) = stack.pop() {
        let is_done = |at: usize| done[at / 64] >> (at % 64) & 1 == 1;
        let open = |at: &usize| !is_done(*at);
        let answered = |at: &usize| operations[*at].ended_us != u64::MAX;
        if (0..operations.len()).filter(open).all(|at| !answered(&at)) {
            return true;
        }
        if !tried.insert((done.clone(), content.value())) {
            continue;
        }
        // The next operation must have begun before any other that is open has ended.
        let first_end = (0..operations.len()).filter(open).map(|at| operations[at].ended_us).min();
        let first_end = first_end.expect("an operation is open");
        for at in (0..operations.len()).filter(open) {
            let operation = operations[at];
            if operation.begun_us > first_end {
                break;
            }
            if operation.read.as_ref().is_some_and(|read| *read != content.value()) {
                continue;
            }
            let (mut done, mut content) = (done.clone(), content.clone());
            done[at / 64] |= 1 << (at % 64);
            if let Some(write) = &operation.write {
                content.apply(write);
            }
            stack.push((done, content));
        }
    }
    false
}
