//! What a shard of SQL calls believes of parties in other processes (see `items::exposed`).
//!
//! A call must be one of the program's, with values of its parameters' types, and its participants those that the program
//! gives. What the other participants have answered to a call is their coordinator's word, and is taken.

use weir_types::{SqlType, Value};

use super::message::{Call, Progress, Request, ShardId, TxnId};
use crate::machine::{CoordinatorId, Exposed, Sender, Shard as _};
use crate::node::Node;

/// So far may the transactions of a coordinator be apart that are not over.
const SPREAD_MAX: u64 = 1 << 22;
/// Sequences that a coordinator can use up in no time.
const SEQUENCE_MAX: u64 = u64::MAX / 2;
/// Sixteen bits below are the counter's: the year 10,889.
const CLOCK_MAX: u64 = u64::MAX / 4 * 3;

impl Exposed for Node {
    fn refuses(&self, progress: &Progress) -> Option<&'static str> {
        (progress.settled_below > SEQUENCE_MAX).then_some("a sequence number beyond all")
    }

    fn refuses_request(&self, from: Sender, request: &Request, shards: ShardId) -> Option<&'static str> {
        let txn = request.txn();
        match (from, request) {
            (Sender::Shard(_), Request::Ask { .. } | Request::Tell { .. }) => {
                return (txn.sequence > SEQUENCE_MAX).then_some("a sequence number beyond all");
            }
            (Sender::Shard(_), _) => return Some("a request that shards do not make"),
            (Sender::Coordinator(_), Request::Ask { .. } | Request::Tell { .. }) => {
                return Some("a request that coordinators do not make");
            }
            (Sender::Coordinator(coordinator), _) => {
                if let Some(why) = self.refuses_txn(coordinator, txn) {
                    return Some(why);
                }
            }
        }
        match request {
            Request::Execute { call, .. } => self.refuses_call(call, &[self.id()]),
            Request::Prepare { call, participants, .. } => self.refuses_call(call, participants),
            Request::Decide { decision, .. } if decision.above.clock > CLOCK_MAX => {
                Some("a clock beyond all years")
            }
            Request::Decide { decision, .. } => self.refuses_call(&decision.call, &decision.participants),
            Request::Apply { .. } => Some("the comparator `none`, which is for benches within a process"),
            Request::Commit { timestamp, .. } => {
                (timestamp.clock > CLOCK_MAX).then_some("a clock beyond all years")
            }
            Request::Read { query, .. } | Request::ReadAt { query, .. } => {
                let tables = self.program.partitions.len();
                let is_one = |at: usize| {
                    let read = &query.tables[at];
                    let columns = || self.program.schema.table(read.table).column_names.len();
                    let joined = read.joined.iter().all(|(earlier, pairs)| {
                        let others = |earlier: usize| {
                            self.program.schema.table(query.tables[earlier].table).column_names.len()
                        };
                        *earlier < at
                            && pairs.iter().all(|(own, other)| *own < columns() && *other < others(*earlier))
                    });
                    (read.table.0 as usize) < tables
                        && read.equals.iter().all(|(column, _)| *column < columns())
                        && joined
                };
                let siblings: &[_] =
                    if let Request::ReadAt { including, .. } = request { including } else { &[] };
                let beyond = siblings.iter().any(|one| {
                    one.timestamp.clock > CLOCK_MAX || one.participants.iter().any(|shard| *shard >= shards)
                });
                if beyond {
                    return Some("siblings that cannot be");
                }
                (!(0..query.tables.len()).all(is_one)).then_some("a read of what there is not")
            }
            Request::Abort { .. } | Request::EndRead { .. } | Request::Ask { .. } | Request::Tell { .. } => {
                None
            }
        }
    }

    fn undecided_of(&self, coordinator: CoordinatorId) -> usize {
        self.participant.prepared.keys().filter(|txn| txn.coordinator == coordinator).count()
    }
}

impl Node {
    fn refuses_txn(&self, coordinator: CoordinatorId, txn: TxnId) -> Option<&'static str> {
        if txn.coordinator != coordinator {
            return Some("a transaction of another coordinator");
        }
        let far = txn.sequence.saturating_sub(self.participant.readers.below(coordinator)) > SPREAD_MAX;
        far.then_some("a sequence number far ahead of all that it has under way")
    }

    fn refuses_call(&self, call: &Call, participants: &[ShardId]) -> Option<&'static str> {
        let Some(procedure) = self.program.procedures.get(call.procedure) else {
            return Some("a call of a procedure that there is not");
        };
        let fit = |(value, input): (&Value, &crate::exec::program::Input)| is_of(value, &input.ty);
        if call.args.len() != procedure.inputs.len() || !call.args.iter().zip(&procedure.inputs).all(fit) {
            return Some("arguments that are not the procedure's");
        }
        let Ok(expected) = self.program.participants(call) else {
            return Some("a call that cannot run on several shards");
        };
        let is_same = expected.len() == participants.len()
            && participants.contains(&self.id())
            && expected.iter().all(|shard| participants.contains(shard));
        (!is_same).then_some("participants that are not the call's")
    }
}

/// What the executor was compiled for is what it gets.
fn is_of(value: &Value, ty: &SqlType) -> bool {
    match (ty, value) {
        (_, Value::Null) => true,
        (SqlType::Bool, Value::Bool(_))
        | (SqlType::Int8, Value::Int(_))
        | (SqlType::Float4, Value::Float4(_))
        | (SqlType::Float8, Value::Float8(_))
        | (SqlType::Numeric(_), Value::Numeric(_))
        | (SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Enum(_), Value::Text(_))
        | (SqlType::Date, Value::Date(_))
        | (SqlType::Timestamp | SqlType::Timestamptz, Value::Timestamp(_))
        | (SqlType::Interval, Value::Interval(_))
        | (SqlType::Uuid, Value::Uuid(_))
        | (SqlType::Bytea, Value::Bytea(_))
        | (SqlType::Jsonb, Value::Jsonb(_)) => true,
        (SqlType::Int2, Value::Int(number)) => i16::try_from(*number).is_ok(),
        (SqlType::Int4, Value::Int(number)) => i32::try_from(*number).is_ok(),
        (SqlType::Array(element), Value::Array(array)) => array.values.iter().all(|one| is_of(one, element)),
        _ => false,
    }
}
