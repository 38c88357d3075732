//! Writes that a statement has derived for other shards (docs/internals/global-keys.md): these carry them out in rounds, each a step of its
//! own, before the statement is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, Value};

use super::{Action, Interactive, Phase};
use crate::message::{Call, Callee, Derived, too_much_derived};

/// Limit on the writes for one shard: they travel in one message.
const DERIVED_BYTES_MAX: usize = 8 << 20;

/// Limit on the writes of a shard that prepares with them: a shard that would need long for them withdraws, and the statement has run for
/// nothing.
const BOUND_MAX: usize = 64;

impl Interactive {
    /// Sends the writes of the lowest stage to their shards, all at the same time, and keeps the others; without any the statement has
    /// succeeded. `statement`: what has derived them.
    pub(super) fn carry(&mut self, statement: &Call, out: &mut Vec<Action>) {
        if let Some(attempt) = self.next_attempt() {
            return self.begin_again_after(statement, attempt, out);
        }
        let Some(stage) = self.derived.iter().map(Derived::stage).min() else {
            return self.end_statement(out);
        };
        let derived = self.derived.extract_if(.., |one| one.stage() == stage).collect();
        let targets = Derived::by_target(derived, self.links.shards);
        if targets.values().any(|list| list.iter().map(Derived::bytes).sum::<usize>() > DERIVED_BYTES_MAX) {
            return self.fail(too_much_derived(), out);
        }
        let calls: BTreeMap<ShardId, Arc<Call>> =
            targets.into_iter().map(|(target, list)| (target, Arc::new(call_of(list, statement)))).collect();
        self.number += 1;
        if self.may_bind_with(&calls) {
            return self.bind_with(calls, out);
        }
        let waiting = calls.keys().copied().collect();
        self.phase = Phase::Deriving { waiting, calls, error: None };
        self.send(out);
    }

    /// Returns whether the transaction ends with this round, so that its shards can prepare with it. Assertions and deferred checks come
    /// between the last round and the end.
    fn may_bind_with(&self, calls: &BTreeMap<ShardId, Arc<Call>>) -> bool {
        let ends =
            self.alone.as_ref().is_some_and(|alone| alone.binds_with_last_round && alone.look.is_none());
        let mut lists = calls.values().filter_map(|call| call.callee.derived());
        ends && self.derived.is_empty()
            && self.changed.is_empty()
            && lists.all(|list| list.len() <= BOUND_MAX && list.iter().all(Derived::is_last))
            && self.decides_beside(calls).is_some()
    }

    /// Position of a shard that can decide, because it has nothing to do in this round.
    fn decides_beside(&self, calls: &BTreeMap<ShardId, Arc<Call>>) -> Option<usize> {
        self.open.iter().position(|(shard, opened)| opened.is_some() && !calls.contains_key(shard))
    }

    /// Sends the writes of the last round, with which all participants prepare.
    fn bind_with(&mut self, calls: BTreeMap<ShardId, Arc<Call>>, out: &mut Vec<Action>) {
        let decides = self.decides_beside(&calls).expect("one has nothing to do");
        self.open[..=decides].rotate_right(1);
        for &shard in calls.keys() {
            if !self.open.iter().any(|(of, _)| *of == shard) {
                self.open.push((shard, None));
            }
        }
        self.bind(calls, out);
    }
}

/// The call that carries these writes out, at the time of the statement, and under the schema version that it leaves.
fn call_of(derived: Vec<Derived>, statement: &Call) -> Call {
    let schema_version = match &statement.callee {
        Callee::Definition(definition) => definition.becomes,
        _ => statement.schema_version,
    };
    Call {
        callee: Callee::Derived(derived.into()),
        args: Vec::new(),
        transaction_time: statement.transaction_time,
        schema_version,
        memory: statement.memory,
    }
}

/// An error of a round, and the constraint and key by which it comes before others.
pub(super) type Ranked = ((TableId, usize), Vec<Value>, SqlError);

/// Keeps the error of the call with the lowest constraint, and of one constraint that with the lowest key, whichever comes first.
pub(super) fn keep_lowest(kept: &mut Option<Ranked>, call: &Call, error: SqlError) {
    let rank = |one: &Derived| (one.constraint(), one.values().to_vec());
    let all = call.callee.derived().into_iter().flat_map(|derived| derived.iter().map(rank));
    let (constraint, key) = all.min().expect("a target has writes");
    if kept.as_ref().is_none_or(|(lowest, least, _)| (&constraint, &key) < (lowest, least)) {
        *kept = Some((constraint, key, error));
    }
}
