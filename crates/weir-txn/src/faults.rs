//! Bugs that tests plant on purpose, and the type of a shard that has none (docs/decisions/0014-faults-are-a-type.md).
//!
//! A shard is generic over its faults. Every product builds it with [`NoFaults`], whose answers are constants, so that the compiler
//! drops the code of a bug. Only the simulated worlds of tests build it with [`PlantedBugs`].

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of a shard of SQL, one for each claim.
    Faults, PlantedBugs:
    /// A guarded statement reads in one step and writes in a later one, without holding its claim in between.
    no_guards,
    /// Commits become visible shard by shard: replies to readers name no siblings.
    no_siblings,
    /// A row-local update is written back as the value that it had when it was prepared.
    overwrite,
    /// A repeated request takes effect again.
    takes_effect_twice,
    /// Refusals, withdrawals and promises are answered before they are logged (S3).
    refusal_is_not_recorded,
    /// A shard that is asked for the outcome of a transaction unknown to it answers "committed".
    unknown_means_committed,
    /// A restarted shard has forgotten its prepared transactions.
    recovery_forgets_prepared,
    /// A restarted shard holds no claims for its prepared transactions.
    recovery_forgets_claims,
    /// A bound is checked on the committed value alone, without what prepared transactions will add (S15).
    escrow_counts_committed,
    /// A restarted shard has forgotten what its prepared transactions will add to columns with a bound.
    recovery_forgets_amounts,
    /// Younger calls do not give way to one that has stopped often.
    starves,
    /// Calls that wait for a starved call sleep on when an older one takes its reservation over.
    leaves_waiters,
    /// A request that is woken does not get the claim for which it has waited before others run.
    hands_nothing_over,
    /// A claim that is handed over to a request is nobody's to release.
    keeps_handed_over,
    /// Statements of a restarted shard do not wait for transactions whose outcome it does not know.
    writes_in_doubt,
    /// A restarted shard hands out sequence values again that it has handed out before.
    recovery_forgets_sequences,
    /// A restarted shard has forgotten which answers it gave.
    recovery_forgets_answers,
    /// A request whose clock is far ahead moves the shard's clock (S9).
    accepts_any_clock,
    /// A request that has waited is given a timestamp of whatever the shard's clock shows when it runs (S9).
    ticks_unbounded,
    /// Ad-hoc statements are not checked against the procedures (S1): the program is compiled `with_trusted_texts`.
    trusts_statements,
    /// Calls write rows that open transactions hold (S14).
    ignores_open,
    /// A statement that locks rows claims them: it passes writers that take no claim, and they pass it (S14).
    locks_by_claims,
    /// A part of a call does not hold what it has found of a row's existence until the outcome.
    forgets_existence,
    /// No entry of a global key follows from a row.
    forgets_entries,
    /// The owner of a global key adds and removes entries without claiming the key.
    adds_unclaimed,
    /// The owner of a global key looks for it among the entries, not among its own rows.
    looks_in_entries_alone,
    /// An entry that is to be removed need not be there.
    ignores_missing_entry,
    /// An INSERT … ON CONFLICT that is sent to the shard of a row with its key need not find that row there.
    trusts_conflict,
    /// A statement runs where the owner of a key has said that its row is, although the row is not there any more.
    trusts_named_home,
    /// A write of a copy of a row does not wait for earlier ones that are prepared there.
    misses_prepared_copies,
    /// The shard of a parent that another one asks for looks it up, and does not hold it.
    holds_no_parent,
    /// An entry that stands for a parent is not held by those who refer to it.
    shares_no_entry,
    /// A shard that looks for children does not see those of prepared transactions.
    misses_prepared_children,
    /// A shard that looks for a parent does not wait for prepared transactions that insert it.
    misses_prepared_parents,
    /// A row that does not find its parent at the owner of the key is refused at once, before the call has run.
    asks_no_parent_again,
    /// The work of an open transaction need not exist any more after a restart of its shard.
    opens_again,
    /// A serializable transaction takes no interval lock of a range that it has read, nor of a table.
    forgets_intervals,
    /// Assertions are not checked for the old values of rows that a statement changes or deletes.
    checks_new_values_alone,
    /// Interval locks are released when their transaction is prepared, with its row locks.
    releases_at_prepare,
    /// Calls, and statements by themselves, write in intervals that serializable transactions have read.
    calls_pass_intervals,
    /// Interval locks are taken where prepared transactions have written.
    intervals_pass_prepared,
    /// FOR UPDATE without a write takes no lock.
    forgets_for_update,
    /// FOR NO KEY UPDATE holds rows as FOR KEY SHARE does.
    shares_rows,
    /// A shard acknowledges ROLLBACK TO SAVEPOINT without rolling back.
    keeps_what_is_rolled_back,
    /// A late statement takes effect after the rollback to the savepoint before it.
    rolled_back_comes_again,
    /// Other transactions write while one transaction changes the schema.
    ignores_definitions,
    /// No bug: an index is built two rows at a time, so that small worlds take many steps for it.
    small_batches,
    /// Writers do not keep an index that is being built.
    builds_unkept,
    /// The owners of a key that is being built are not told of changes of rows that they have been told of.
    stages_no_changes,
    /// No bug: a write set is large from its second write on, and is committed a row at a time.
    small_commits,
    /// Rows of a commit in progress are seen.
    shows_ahead,
    /// A transaction gives its claims up when its commit in slices begins.
    releases_ahead,
    /// A restarted shard counts rows whose commit is not in its log.
    recovery_counts_unfinished,
    /// A restarted shard forgets the rows that were logged ahead of a commit.
    recovery_forgets_rows,
    /// Readers see uncommitted writes of an open transaction.
    shows_uncommitted,
    /// Deferred foreign keys are not checked at the end of their transaction.
    forgets_deferred,
    /// Transactions end here whose derived writes nobody has carried to their shards.
    ends_without_carrying,
    /// A transaction that may be prepared at other shards waits for open and for older ones in its last round.
    waits_while_prepared,
    /// The owner of a key says where its row is, or that there is none, while a transaction holds the key.
    trusts_held_keys,
    /// Statements wait for older open transactions where no timer runs.
    waits_in_circles,
    /// A reply that depends on rows which are not yet durable is sent without waiting for them (S16).
    ignores_read_dependencies,
    /// Reads at a snapshot see the current state.
    snapshot_advances,
    /// A worker reads rows as they are now, not as they were at its moment.
    moment_advances,
    /// A long statement writes on top of what it read, although others have changed it since (S16).
    trusts_moment,
    /// A long call takes effect although its transaction was refused while it ran.
    commits_refused,
    /// The writes of a long statement that ends without a result stay in its transaction.
    keeps_unfinished,
    /// A shard whose rows come through a queue says that it has begun, and names no siblings.
    begins_without_siblings,
    /// A restarted shard runs a request that was for an earlier incarnation.
    runs_late_requests,
    /// Messages are sent between the cuts of a snapshot.
    holds_nothing_back,
    /// An ordered call is executed when it arrives, although one before it is missing.
    delivers_out_of_order,
    /// Packets of an earlier epoch are delivered in the places of those of this one.
    delivers_across_epochs,
    /// Ordered calls do not wait for locks and for transactions that have entered before them.
    passes_locks_in_order,
    /// The answer to an ordered call leaves before its records are durable.
    answers_order_early,
    /// A participant commits a call that it has voted for although others may have refused their parts.
    commits_on_own_vote,
    /// A vote is told before it is in the log.
    votes_before_record,
    /// A transaction under locks does not take its place in the order.
    enters_at_once,
    /// Readers of an ordered call that is not executed here yet do not wait for it.
    reads_past_order,
    /// A shard that still keeps a snapshot reports that one's position for the next cut, not its own.
    cut_is_stale,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Node;

    #[test]
    fn a_product_carries_no_faults() {
        assert_eq!(size_of::<NoFaults>(), 0);
        assert!(size_of::<Node>() < size_of::<Node<PlantedBugs>>());
    }

    #[test]
    fn a_planted_fault_is_asked_for_by_its_name() {
        let planted = PlantedBugs { no_guards: true, ..PlantedBugs::default() };
        assert!(planted.no_guards() && !planted.no_siblings());
        assert!(!NoFaults.no_guards());
    }
}
