//! Requests that nodes of older builds do not know: the node that would send one answers it itself, before anything has happened
//! (docs/internals/network.md, "Versions").

use weir_core::ids::ShardId;
use weir_types::{SqlError, SqlState};

use super::exposed::{ATTEMPTS_FROM, BUILDS_FROM, DERIVED_FROM, keys_of_older_build};
use crate::exec::gather::by_key::as_if_held;
use crate::message::{Callee, Ordered, OrderedMessage, Reply, Request};

/// First protocol version in which a sequence is set by a request of its own.
const SET_SEQUENCE_FROM: u16 = 4;
/// First protocol version in which requests carry the time zone of their session.
const ZONES_FROM: u16 = 5;
/// First protocol version with serializable transactions.
const INTERVALS_FROM: u16 = 7;
/// First protocol version with snapshots.
const SNAPSHOTS_FROM: u16 = 5;
/// Version of the protocol from which statements that run by themselves keep out all other writers.
const BARRIERS_FROM: u16 = 8;
/// First protocol version that knows [`Request::WorkAndBind`].
const WORK_AND_BIND_FROM: u16 = 9;
/// First protocol version in which entries of global keys are read.
const ENTRIES_FROM: u16 = 9;
/// First protocol version that knows [`Attempt::ByKey`].
const BY_KEY_FROM: u16 = 10;

/// First protocol version with ordered calls.
const ORDERED_FROM: u16 = 11;
/// First protocol version with votes on ordered calls.
const VOTES_FROM: u16 = 12;
/// First protocol version with ordered calls that the last participant decides.
const DECIDES_FROM: u16 = 13;

/// The answer to a request that a shard which speaks that version does not know; none: it knows it.
pub(super) fn answer(request: &Request, version: u16, shard: ShardId) -> Option<Reply> {
    if version < ZONES_FROM && !request.zone().is_utc() {
        let message = format!(
            "a time zone at a node of an older build, which speaks version {version} of the protocol"
        );
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
            "Nothing has happened. Start the node with the build of the others, or SET TimeZone = 'UTC'.",
        );
        return Some(match request {
            Request::Execute { txn, .. } => Reply::Executed { txn: *txn, result: Err(error) },
            request => Reply::Refused { txn: request.txn(), shard, error },
        });
    }
    match request {
        // The coordinator begins again without such an attempt.
        Request::Execute { .. } | Request::Prepare { .. } | Request::Decide { .. } | Request::Work { .. }
            if version < BY_KEY_FROM
                && request.call().is_some_and(|call| call.callee.is_as_new_as_by_key()) =>
        {
            Some(Reply::Busy { txn: request.txn(), shard })
        }
        Request::Execute { txn, call, .. }
            if version < SET_SEQUENCE_FROM && matches!(call.callee, Callee::SetSequence { .. }) =>
        {
            let message =
                format!("setval at a node of an older build, which speaks version {version} of the protocol");
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Nothing has happened. Start the node with the build of the others.");
            Some(Reply::Executed { txn: *txn, result: Err(error) })
        }
        // Its session makes the definition without.
        Request::Work { txn, work, .. } if version < BUILDS_FROM && work.call.callee.is_of_build() => {
            let message = format!(
                "an index under traffic at a node of an older build, which speaks version {version} of the protocol"
            );
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Nothing has happened. Start the node with the build of the others.");
            Some(Reply::Refused { txn: *txn, shard, error })
        }
        Request::Work { txn, work, .. }
            if version < DERIVED_FROM && work.call.callee.derived().is_some()
                || version < ATTEMPTS_FROM && work.call.callee.is_as_new_as_attempts() =>
        {
            let error = keys_of_older_build("at a node", version);
            Some(Reply::Refused { txn: *txn, shard, error })
        }
        Request::Work { txn, work, .. }
            if version < INTERVALS_FROM
                && (work.call.callee.is_serializable() || work.call.callee.reads().is_some()) =>
        {
            let message = format!(
                "isolation level serializable at a node of an older build, which speaks version {version} of the protocol"
            );
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Nothing has happened. Start the node with the build of the others.");
            Some(Reply::Refused { txn: *txn, shard, error })
        }
        Request::Work { txn, work, .. }
            if version < BARRIERS_FROM && matches!(work.call.callee, Callee::Barrier) =>
        {
            let message = format!(
                "a statement that runs by itself at a node of an older build, which speaks version {version} of the protocol"
            );
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Nothing has happened. Start the node with the build of the others.");
            Some(Reply::Refused { txn: *txn, shard, error })
        }
        Request::Work { txn, work, .. }
            if version < ORDERED_FROM && matches!(work.call.callee, Callee::Enter) =>
        {
            Some(Reply::Refused { txn: *txn, shard, error: ordered_at_older_build(version) })
        }
        Request::Ordered(message) if version < known_from(message) => {
            let error = ordered_at_older_build(version);
            Some(Reply::Executed { txn: message.txn(), result: Err(error) })
        }
        // All shards are asked instead, as if a transaction held the key.
        Request::Read { read, query, .. } if version < ENTRIES_FROM && query.reads_entries() => {
            Some(Reply::ReadRows {
                read: *read,
                shard,
                round: 1,
                position: 0,
                rows: as_if_held(query),
                examined: 0,
                siblings: Vec::new(),
            })
        }
        // The transaction begins again, and its next attempt asks for nothing of the kind.
        Request::WorkAndBind { txn, .. } if version < WORK_AND_BIND_FROM => {
            Some(Reply::Busy { txn: *txn, shard })
        }
        Request::OpenSnapshot { .. }
        | Request::KeepSnapshot { .. }
        | Request::ReadSnapshot { .. }
        | Request::SnapshotIsRead { .. }
        | Request::EndSnapshot { .. }
            if version < SNAPSHOTS_FROM =>
        {
            let message = format!(
                "a snapshot at a node of an older build, which speaks version {version} of the protocol"
            );
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Start the node with the build of the others.");
            Some(Reply::Refused { txn: request.txn(), shard, error })
        }
        _ => None,
    }
}

/// First protocol version whose shards know the message.
fn known_from(message: &OrderedMessage) -> u16 {
    match message.submitted() {
        Some(Ordered::Decided { .. }) => DECIDES_FROM,
        Some(Ordered::Voted { .. }) => VOTES_FROM,
        _ => ORDERED_FROM,
    }
}

fn ordered_at_older_build(version: u16) -> SqlError {
    let message = format!(
        "an ordered call at a node of an older build, which speaks version {version} of the protocol"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Nothing has happened. Start the node with the build of the others.")
}
