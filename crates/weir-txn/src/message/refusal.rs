//! Errors with which shards refuse, where coordinators give the same.

use weir_types::{SqlError, SqlState};

/// Error of a client whose answer exceeds the size of a message.
pub(crate) fn too_large(has_run: bool) -> SqlError {
    let hint = match has_run {
        true => "The call has run, and what it did is done. Ask for less at a time.",
        false => "Nothing has happened. Ask for less at a time.",
    };
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the answer is more than a message carries")
        .with_hint(hint)
}

/// Error of a statement whose writes at other shards exceed the size of a message.
pub(crate) fn too_much_derived() -> SqlError {
    let message = "the statement changes more keys of other shards than a message carries";
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .with_hint("Nothing of it has happened. Change fewer rows at a time.")
}

/// Error of a transaction that the shard no longer knows.
pub fn forgotten() -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "a shard has forgotten this transaction: it has started again, or has not heard of its coordinator",
    )
    .with_hint("Nothing of it has happened. Try it again.")
}

/// Error of a transaction whose snapshot the shard does not know.
pub fn forgotten_snapshot() -> SqlError {
    let message = "a shard has forgotten the snapshot of this transaction: it has started again, or has not heard of its coordinator";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try it again.")
}

/// Error of a statement that is bound to an outdated schema version.
pub fn schema_has_changed() -> SqlError {
    SqlError::new(SqlState::SCHEMA_HAS_CHANGED, "the schema has changed since this statement was prepared")
        .with_hint("Nothing of it has happened. Try it again.")
}
