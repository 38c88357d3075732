//! Verdicts: may this transaction run without coordination and keep this invariant?
//!
//! Each has the two halves of Theorem 1 (coordination-avoidance.txt §4.2): *alone*, a valid state stays
//! valid when the transaction runs by itself; *merged*, two valid branches merge into a valid state
//! (Definition 7). The rules are the rows of the paper's Table 2 as its body says them, and their
//! extension to assertions.

use crate::invariant::InvariantId;
use crate::witness::Witness;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub invariant: InvariantId,
    /// Procedure index.
    pub transaction: usize,
    /// Operation of the transaction on the data of the invariant.
    pub operation: String,
    /// The concurrent transaction with which it breaks the invariant (often itself). `None` if confluent.
    pub with: Option<usize>,
    /// Definition 7 holds without any guard.
    pub confluent: bool,
    pub alone: Alone,
    /// Assumptions of the verdict: keys, guards, arguments.
    pub assumes: Vec<String>,
    /// The argument in words.
    pub because: String,
    pub decided_by: DecidedBy,
    /// Rule that refuses the transaction, if the verdict is only assumed.
    pub refused_by: Option<Rule>,
    /// `Not proved; assumed: …`, in words.
    pub assumed: Option<String>,
    /// Two branches that show it; the analysis itself never runs anything, so this is filled in by the search.
    pub witness: Option<Box<Witness>>,
    /// One call that breaks it all by itself: only a left branch.
    pub alone_witness: Option<Box<Witness>>,
}

impl Verdict {
    /// The rule that decides it, or refuses it without a witness.
    pub fn rule(&self) -> Option<Rule> {
        match self.decided_by {
            DecidedBy::Rule(rule) => Some(rule),
            _ => self.refused_by,
        }
    }

    /// The argument, and what is missing for a proof.
    pub fn argument(&self) -> String {
        let parts = [Some(self.because.as_str()), self.assumed.as_deref()];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// No rule, proof or witness says anything: the shape is not known.
    pub fn is_undecided(&self) -> bool {
        self.decided_by == DecidedBy::Assumption && self.refused_by.is_none()
    }
}

/// Does a valid state stay valid when the transaction runs by itself?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// From its text.
    Proved,
    /// The engine checks what it writes before it commits.
    Checked,
    /// Nothing proves it and nothing checks it before the commit; a check of the whole state would see it.
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    Rule(Rule),
    Proof,
    Search,
    /// Nothing shows it (and perhaps no rule decides it either): treated as needing coordination.
    Assumption,
}

/// The enumeration, and a list of all its items, so that none can be left out of a test.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One item for each argument that decides a merge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            pub const ALL: &'static [Rule] = &[$(Rule::$name,)*];
        }
    };
}

rules! {
    /// The transaction writes nothing that the invariant reads: both branches hold the same as before.
    Untouched,
    /// Table 2, equality and inequality under anything. A condition on one record holds in every record of
    /// both branches; union changes no record, so it holds in every record of the merge (§5.1). With columns
    /// that merge one by one this needs the condition to read one written column, or every writer to write
    /// all of them: then the last writer's record stands as a whole.
    PerRecord,
    /// The counterpart of [`Rule::PerRecord`]: two transactions each write some of the columns that the
    /// condition compares; the merged record has one's half and the other's, which neither has checked.
    RecordSkew,
    /// Table 2, `[NOT] CONTAINS` under anything. Appending, prepending and removing a value each make an element
    /// present, absent, or leave it, whatever else is in the list. None that a valid branch has run makes the
    /// element what it must not be from a list in which it is right, so neither does any order of them.
    ListMember,
    /// Table 2, HEAD=, TAIL= and length= under mutation: what is at an end, and how much there is, depends on
    /// what the other branch has put in or taken out.
    ListMutated,
    /// Table 2, uniqueness, choose a specific value: both branches choose the same one (§5.1).
    UniqueChosen,
    /// Table 2, uniqueness, choose some value: values come from disjoint shares of the name space (§5.1).
    UniqueGenerated,
    /// The key holds a number that its own counter hands out; given that every number is handed out once it
    /// is [`Rule::UniqueGenerated`].
    UniqueCounted,
    /// Two inserts of one primary key under ON CONFLICT are operations on one and the same row.
    UniqueUpsert,
    /// The key is that of a row claimed by this transaction; given the claim no other can take it.
    UniqueTaken,
    /// Deleting or reading cannot introduce a duplicate (§5.1).
    UniqueDelete,
    /// Table 2, AUTO_INCREMENT: a dense sequence. Both branches hand out the same next number, or, if they
    /// are given different ones, one of the two leaves a gap when the other side has not come (§5.1).
    DenseInsert,
    /// Every delete takes the lowest number of its group. What each branch deletes is a prefix of the
    /// sequence; the union of two prefixes is the longer one, so the rest has no gap and the same maximum.
    DensePrefix,
    /// A sequence's numbers are unique and need not be dense: each shard hands out its own share.
    SequenceShare,
    /// Table 2, foreign key under insert: union makes no parent disappear (§5.1).
    ForeignKeyInsert,
    /// Table 2, foreign key under delete: one branch deletes the parent, the other inserts a child.
    ForeignKeyDelete,
    /// Table 2, foreign key under cascading delete: on merge the dangling children go too (§5.1).
    ForeignKeyCascade,
    /// No transaction deletes a parent that it might be the last to hold, so no child can be orphaned.
    ForeignKeyChildOnly,
    /// Table 2, secondary indexing: an index is a function of the rows, updated with them.
    SecondaryIndex,
    /// Table 2, materialized views: a view is a function of the primary data, updated with it (§5.1).
    MaterializedView,
    /// Table 2, `>` under increment (and `<` under decrement): merged deltas move away from the bound (§5.2).
    BoundAway,
    /// Table 2 as the body says it, `>` under decrement (and `<` under increment): each branch uses up what is
    /// left, and together they use more (§5.2).
    BoundToward,
    /// A counter must not meet one value: deltas that miss it one by one may meet it together (§5.2).
    BoundAvoid,
    /// A counter that must equal a value: alone every branch's deltas sum to zero, so they do together (§5.2).
    BoundEqual,
    /// An equality between sums and counters. Merge is the union of operations, so each side of the equality
    /// moves by the sum of both branches' contributions, and these were equal in each branch alone. It needs
    /// every delta to come from parameters, immutable columns, or rows that the transaction inserts or has
    /// claimed, and every contribution to be there once.
    SumOfDeltas,
    /// The counterpart: two branches take the same row (or set the same column of the same row), which counts
    /// once in the merge, and each adds its amount elsewhere, which counts twice.
    TakenTwice,
    /// One side of an equality between sums is overwritten instead of added to: the merge keeps one of two
    /// overwrites, and both of what balanced them.
    SumOverwritten,
    /// Counted rows and the rows that they are counted for are separated by a merge (`rules/apart.rs`): a row enters the condition in one
    /// branch, and the rows that belong to it change in the other, which does not see it. Likewise for the two sides of a join, and for a
    /// value that counts once for each row that it is joined with.
    SumJoinApart,
    /// An inequality between sums whose margin this transaction can only widen.
    MarginWider,
    /// An inequality between sums whose margin both branches use up.
    MarginUsed,
    /// "The highest of the rows' values", raised by `greatest` with every row that comes: the highest of the
    /// merge's rows is the higher of the branches' two.
    ExtremeRaised,
    /// The opposite: rows go, or the highest value is set instead of raised.
    ExtremeLost,
    /// "Every row has its counterpart", and counterparts are never removed, or both are always added and removed together.
    Counterpart,
    /// The opposite: a row comes in one branch while its counterpart goes in the other, or each branch takes
    /// another one of several counterparts.
    CounterpartTaken,
    /// "Null (or absent) exactly when": every transaction moves both facts in the same direction and none
    /// moves them back, so a fact has changed in the merge exactly if it has in one of the branches, and in
    /// each branch both change together.
    OneWayFacts,
    /// The counterpart: one transaction moves a fact forth and another back, or adds a row to a group whose
    /// facts the other branch has changed.
    FactsBothWays,
}

impl Rule {
    /// The rule's name in messages and tests.
    pub fn name(self) -> String {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }
}

impl Alone {
    pub fn name(self) -> &'static str {
        match self {
            Alone::Proved => "proved",
            Alone::Checked => "checked",
            Alone::No => "no",
        }
    }
}

impl DecidedBy {
    pub fn name(self) -> &'static str {
        match self {
            DecidedBy::Rule(_) => "rule",
            DecidedBy::Proof => "proof",
            DecidedBy::Search => "search",
            DecidedBy::Assumption => "assumption",
        }
    }
}
