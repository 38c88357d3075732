//! Bugs that tests plant in members (docs/decisions/0014-faults-are-a-type.md).

use weir_core::faults::faults;

faults! {
    /// The faults of a member.
    MemberFaults, MemberBugs:
    /// Votes and acknowledgements leave before the disk has what they promise.
    acknowledges_before_disk,
    /// A leader takes what its own disk has for what another member has, too.
    counts_itself_twice,
    /// A leader serves for as long as it takes itself for one.
    serves_after_lease,
    /// A member that starts has forgotten what it knew to be committed at the end of its log.
    truncates_committed,
    /// A member that starts has forgotten its vote.
    forgets_vote,
    /// A member that has just started votes at once, whatever it had promised.
    votes_after_start,
    /// A member with an empty disk goes on under the id that it had.
    keeps_identity,
    /// A leader starts its machine before an entry of its term is committed.
    starts_before_first_entry,
}
