//! The texts of `weir explain`, one for each rule that decides a verdict and each kind of finding.
//!
//! Data only. Rules are named after `weir_analysis::Rule`, in kebab case.

pub struct Explanation {
    pub id: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
    /// What a user can do about it, or why there is nothing to do.
    pub mend: &'static str,
}

const fn explain(
    id: &'static str,
    title: &'static str,
    meaning: &'static str,
    mend: &'static str,
) -> Explanation {
    Explanation { id, title, meaning, mend }
}

const NOTHING: &str = "Nothing: this is good news, and costs nothing.";

pub const EXPLANATIONS: &[Explanation] = &[
    explain(
        "not-confluent",
        "two branches that are valid each merge into a state that is not",
        "The transaction can run on two copies of a valid state side by side, each time leaving the invariant \
         intact, so that the union of both sides' operations violates it (coordination-avoidance.txt, \
         Definition 7). No amount of engineering removes that; only coordination on the item in question does.",
        "Often the plan has done it already: see the transaction's guards. Otherwise weaken the invariant, \
         or let the transaction choose differently (a generated value instead of a chosen one, an addition \
         instead of an overwrite).",
    ),
    explain(
        "untouched",
        "the transaction writes nothing that the invariant reads",
        "Both branches hold of the invariant's data exactly what was there before.",
        NOTHING,
    ),
    explain(
        "per-record",
        "a condition on one record holds in every record of the merge",
        "A check that reads one row is kept by union: every row of the merge comes from one of the branches, \
         where it was checked (Table 2, equality and inequality).",
        NOTHING,
    ),
    explain(
        "record-skew",
        "two transactions each change half of what a check compares",
        "One writes one column of the condition, the other writes another. Each has checked its own row; the \
         merged row has one's half and the other's, which nobody has checked.",
        "Let both write all columns that the check compares, so that the last writer's row stands as a whole.",
    ),
    explain(
        "unique-chosen",
        "both branches may choose the same value for a unique column",
        "The caller picks the value, so two branches can pick the same (Table 2, uniqueness, specific value). \
         A claim on that value at its owner is the cheapest cure: one check carried by the prepare.",
        "If the value has no meaning of its own, generate it (identity, serial, uuid): then nothing is needed.",
    ),
    explain(
        "unique-generated",
        "generated values come from disjoint shares",
        "Every shard draws from its own share of the name space, so no two branches draw the same value (Table 2, uniqueness, some value).",
        NOTHING,
    ),
    explain(
        "unique-counted",
        "the key holds a number that its own counter hands out once",
        "Given that the counter hands out every number once, two branches cannot choose the same key.",
        "Nothing beyond the counter's own guard.",
    ),
    explain(
        "unique-upsert",
        "inserts with ON CONFLICT are operations on one and the same row",
        "Both branches write the same row; the merge folds both operations into it.",
        NOTHING,
    ),
    explain(
        "unique-taken",
        "the key is that of a row which the transaction takes",
        "Given the claim on that row nobody else can insert the same key.",
        "Nothing beyond the claim.",
    ),
    explain(
        "unique-delete",
        "deleting or reading cannot introduce a duplicate",
        "A subset of unique values is unique.",
        NOTHING,
    ),
    explain(
        "dense-insert",
        "numbers without gaps: both branches would hand out the same next one",
        "A dense sequence wants exactly the next number. Two branches hand out the same; given different ones, \
         one of them leaves a gap while the other side has not come (Table 2, AUTO_INCREMENT). The plan takes \
         the number at its owner when the transaction commits: one increment, no lock held while it runs.",
        "If gaps do no harm, use a sequence or an identity column, and drop the assertion that forbids them.",
    ),
    explain(
        "dense-prefix",
        "deleting always the lowest number keeps the rest dense",
        "What each branch deletes is a prefix of the sequence; the union of two prefixes is the longer one.",
        NOTHING,
    ),
    explain(
        "sequence-share",
        "a sequence's numbers are unique and need not be dense",
        "Each shard hands out its own share.",
        NOTHING,
    ),
    explain(
        "foreign-key-insert",
        "inserting a child is confluent",
        "Union makes no parent disappear (Table 2, foreign key under insert).",
        NOTHING,
    ),
    explain(
        "foreign-key-delete",
        "one branch deletes the parent, the other inserts a child",
        "Each branch is valid; their union has a child without its parent (Table 2, foreign key under delete).",
        "ON DELETE CASCADE is confluent; or mark the parent as closed instead of deleting it.",
    ),
    explain(
        "foreign-key-cascade",
        "on merge the dangling children go too",
        "A cascading delete deletes the other branch's children when they meet (Table 2).",
        NOTHING,
    ),
    explain(
        "foreign-key-child-only",
        "nobody deletes a parent",
        "No transaction deletes a parent row that a child might still refer to.",
        "Nothing; a statement by hand that deletes one is refused or runs under the plan's barrier.",
    ),
    explain(
        "secondary-index",
        "an index is a function of the rows",
        "It is updated in the same transaction as the row, so that it is visible together with it.",
        NOTHING,
    ),
    explain(
        "materialized-view",
        "a view is a function of its base rows",
        "It is updated in the same transaction as they are (Table 2, materialized views).",
        NOTHING,
    ),
    explain(
        "bound-away",
        "merged deltas move away from the bound",
        "Every branch adds in the direction that the bound allows; so does the merge (Table 2, `>` under increment).",
        NOTHING,
    ),
    explain(
        "bound-toward",
        "both branches use up what is left",
        "Each stays above the bound by itself; together they pass it (Table 2, `>` under decrement). Escrow \
         keeps it: every shard holds a share of what may still be used up.",
        "If a short overdraft is fine, drop the check and look at it later.",
    ),
    explain(
        "bound-avoid",
        "deltas may together meet the one value that is forbidden",
        "Each branch misses it; their sum may hit it.",
        "State a bound (`>` or `<`) instead of `<>` if that is what is meant.",
    ),
    explain(
        "bound-equal",
        "deltas that sum to zero alone do so together",
        "A counter that must equal a value moves by zero in each branch, so by zero in the merge.",
        NOTHING,
    ),
    explain(
        "sum-of-deltas",
        "both sides of an equality between sums move by the same amount",
        "The merge is the union of operations: each side moves by the sum of both branches' contributions, which were equal in each branch.",
        NOTHING,
    ),
    explain(
        "taken-twice",
        "two branches take the same row and each add its amount elsewhere",
        "The row counts once in the merge, what was added for it counts twice. A claim on the row at its owner \
         keeps it: one of the two finds it taken.",
        "Nothing, where the plan has the claim. Otherwise let the transaction name the row that it takes.",
    ),
    explain(
        "sum-overwritten",
        "one side of an equality between sums is overwritten",
        "The merge keeps one of two overwrites, and both of what balanced them.",
        "Write `x = x + delta` instead of reading x and writing a value back.",
    ),
    explain(
        "sum-join-apart",
        "a row and its partner in a join appear in different branches",
        "The sum over the join counts a pair that neither branch has seen.",
        "Insert both in one transaction.",
    ),
    explain(
        "margin-wider",
        "the transaction can only widen the margin of an inequality",
        "So can both branches together.",
        NOTHING,
    ),
    explain(
        "margin-used",
        "both branches use up the margin of an inequality between sums",
        "Each leaves enough; together they do not.",
        "Keep the margin in a counter with a bound, which escrow can keep.",
    ),
    explain(
        "counterpart",
        "every row keeps its counterpart",
        "Nobody takes counterparts away, or a row and its counterpart always come together and go together.",
        NOTHING,
    ),
    explain(
        "counterpart-taken",
        "a row comes in one branch while its counterpart goes in the other",
        "Neither branch sees the other, and the merge has a row without its counterpart. Or each branch takes \
         another one of several counterparts.",
        "Write and delete row and counterpart in one transaction, each by its key; or declare a foreign key, \
         which a claim on the counterpart keeps.",
    ),
    explain(
        "extreme-raised",
        "a column is the highest (or lowest) of some rows' values, and every row raises it",
        "The highest value of the merge is the higher of the branches' two, which is what `greatest` makes of it.",
        NOTHING,
    ),
    explain(
        "extreme-lost",
        "a column that is the highest (or lowest) of some rows' values is set, or rows go",
        "The merge has the rows of both branches, but the column of one of them.",
        "`x = greatest(x, value)` beside every INSERT, in the same transaction and by the key; and do not delete rows.",
    ),
    explain(
        "one-way-facts",
        "two facts move together, in one direction only",
        "A fact has changed in the merge exactly if it has in one of the branches, where the other fact changed too.",
        NOTHING,
    ),
    explain(
        "facts-both-ways",
        "a fact is moved forth by one transaction and back by another",
        "The merge keeps the later one for each fact by itself, and they may come from different branches.",
        "Let one transaction write both facts at once, or never move one back.",
    ),
    explain(
        "lost-update",
        "a value that was read is written back",
        "Between the read and the write another transaction may write the same row; the later write buries it, \
         though no declared invariant forbids that.",
        "Write an expression over the row itself (`x = x + 1`), or declare the invariant that must hold.",
    ),
    explain(
        "lock-not-held",
        "rows are read FOR UPDATE over several shards by a transaction that does not write them",
        "A transaction over several shards holds the rows that it writes until its commit, and no others.",
        "Write what is locked (a version column will do), or declare the transaction serializable.",
    ),
    explain(
        "default-placement",
        "nothing says where a table's rows live, so a default was taken",
        "No transaction finds its rows by a value that routes it (Operation Partitioning), so they are placed by \
         the first column of the primary key. Transactions that meet on other columns then span shards that they \
         need not span.",
        "COMMENT ON TABLE t IS 'weir: partition by (column)', or 'weir: replicated' for what hardly changes.",
    ),
    explain(
        "partitioning-gap",
        "the search for the partitioning parameters stopped before it had proved its result the best",
        "The classes and partition columns are right for the parameters found; others might leave fewer conflicts \
         between servers. The gap bounds how many.",
        "Nothing need be done. COMMENT ON TABLE t IS 'weir: partition by (column)' fixes what you know better.",
    ),
    explain(
        "not-followed",
        "the analysis could not follow a statement to its end, and assumes the worst of it",
        "What it reads and writes is taken to be more than it may be, so the plan is safe but may coordinate \
         more than is needed.",
        "Name rows by their key columns, and columns by their names.",
    ),
    explain(
        "not-understood",
        "something in the files is nothing that Weir knows; the rest was analysed",
        "Something more general stands in its place: an unknown type or function is some value, a statement that \
         could not be read may read and write everything in the tables that it names. So verdicts may be \
         stricter than they would have to be. `weir run` refuses such files.",
        "See the message: it names what would work instead.",
    ),
    explain(
        "passed-over",
        "a statement that no verdict depends on was passed over",
        "Privileges, owners, settings, extensions and rows say nothing about what a transaction does.",
        NOTHING,
    ),
];
