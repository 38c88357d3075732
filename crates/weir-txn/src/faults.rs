//! Bugs that tests plant on purpose.

/// Deliberate bugs, one for each claim: the checks must catch every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedBugs {
    /// A guarded statement reads in one step and writes in a later one, without holding its claim in between.
    pub no_guards: bool,
    /// Commits become visible shard by shard: replies to readers name no siblings.
    pub no_siblings: bool,
    /// A row-local update is written back as the value that it had when it was prepared.
    pub overwrite: bool,
    /// A repeated request takes effect again.
    pub takes_effect_twice: bool,
    /// Refusals, withdrawals and promises are answered before they are logged (S3).
    pub refusal_is_not_recorded: bool,
    /// A shard that is asked for the outcome of a transaction unknown to it answers "committed".
    pub unknown_means_committed: bool,
    /// A restarted shard has forgotten its prepared transactions.
    pub recovery_forgets_prepared: bool,
    /// A restarted shard holds no claims for its prepared transactions.
    pub recovery_forgets_claims: bool,
    /// A restarted shard hands out sequence values again that it has handed out before.
    pub recovery_forgets_sequences: bool,
    /// A restarted shard has forgotten which answers it gave.
    pub recovery_forgets_answers: bool,
    /// A request whose clock is far ahead moves the shard's clock (S9).
    pub accepts_any_clock: bool,
    /// Ad-hoc statements are not checked against the procedures (S1).
    pub trusts_statements: bool,
    /// Calls write rows that open transactions hold (S14).
    pub ignores_open: bool,
    /// The work of an open transaction need not exist any more after a restart of its shard.
    pub opens_again: bool,
    /// FOR UPDATE without a write takes no lock.
    pub forgets_for_update: bool,
    /// FOR NO KEY UPDATE holds rows as FOR KEY SHARE does.
    pub shares_rows: bool,
    /// A shard acknowledges ROLLBACK TO SAVEPOINT without rolling back.
    pub keeps_what_is_rolled_back: bool,
    /// A late statement takes effect after the rollback to the savepoint before it.
    pub rolled_back_comes_again: bool,
    /// Other transactions write while one transaction changes the schema.
    pub ignores_definitions: bool,
    /// Readers see uncommitted writes of an open transaction.
    pub shows_uncommitted: bool,
    /// Deferred foreign keys are not checked at the end of their transaction.
    pub forgets_deferred: bool,
    /// A reply that depends on rows which are not yet durable is sent without waiting for them (S16).
    pub ignores_read_dependencies: bool,
    /// Reads at a snapshot see the current state.
    pub snapshot_advances: bool,
    /// Messages are sent between the cuts of a snapshot.
    pub holds_nothing_back: bool,
}
