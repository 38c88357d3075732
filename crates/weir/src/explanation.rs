//! The texts of `weir explain`, one for each rule that decides a verdict and each kind of finding.
//!
//! Data only. Kinds are those of `weir_analysis::registry`.

pub struct Explanation {
    /// As in the registry of `weir-analysis`, which has the id.
    pub name: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
    pub example: &'static str,
    /// Remedy, or the reason why there is none.
    pub mend: &'static str,
}

const fn explain(
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    example: &'static str,
    mend: &'static str,
) -> Explanation {
    Explanation { name, title, meaning, example, mend }
}

const NOTHING: &str = "Nothing: this is good news, and costs nothing.";

pub const EXPLANATIONS: &[Explanation] = &[
    explain(
        "not-confluent",
        "two branches that are valid each merge into a state that is not",
        "The transaction can run on two copies of a valid state side by side, each time leaving the invariant \
         intact, so that the union of both sides' operations violates it (coordination-avoidance.txt, \
         Definition 7). No amount of engineering removes that; only coordination on the item in question does.",
        "Both branches sell the last seat of a flight: each has one seat less than before, the merge has minus one.",
        "Often the plan has done it already: see the transaction's guards. Otherwise weaken the invariant, \
         or let the transaction choose differently (a generated value instead of a chosen one, an addition \
         instead of an overwrite).",
    ),
    explain(
        "untouched",
        "the transaction writes nothing that the invariant reads",
        "Both branches hold of the invariant's data exactly what was there before.",
        "A procedure that writes only `log`, and a UNIQUE key of `users`.",
        NOTHING,
    ),
    explain(
        "per-record",
        "a condition on one record holds in every record of the merge",
        "A check that reads one row is kept by union: every row of the merge comes from one of the branches, \
         where it was checked (Table 2, equality and inequality).",
        "`UPDATE product SET price = $2 WHERE id = $1`, under CHECK (price > 0).",
        NOTHING,
    ),
    explain(
        "record-skew",
        "two transactions each change half of what a check compares",
        "One writes one column of the condition, the other writes another. Each has checked its own row; the \
         merged row has one's half and the other's, which nobody has checked.",
        "CHECK (starts <= ends): one call moves `starts` back to Friday, the other moves `ends` forward to Thursday.",
        "Let both write all columns that the check compares, so that the last writer's row stands as a whole.",
    ),
    explain(
        "unique-chosen",
        "both branches may choose the same value for a unique column",
        "The caller picks the value, so two branches can pick the same (Table 2, uniqueness, specific value). \
         A claim on that value at its owner is the cheapest cure: one check carried by the prepare.",
        "`INSERT INTO users (name) VALUES ('ann')` on both sides, under UNIQUE (name). EXCLUDE is the same under other operators \
         than equality; what they say of two values is not known here, so that order, and no claim, keeps it.",
        "If the value has no meaning of its own, generate it (identity, serial, uuid): then nothing is needed.",
    ),
    explain(
        "unique-generated",
        "generated values come from disjoint shares",
        "Every shard draws from its own share of the name space, so no two branches draw the same value (Table 2, uniqueness, some value).",
        "`id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY`, left away in the INSERT.",
        NOTHING,
    ),
    explain(
        "unique-counted",
        "the key holds a number that its own counter hands out once",
        "Given that the counter hands out every number once, two branches cannot choose the same key.",
        "`o_id = d_next_o_id`, and `UPDATE district SET d_next_o_id = d_next_o_id + 1` in the same transaction.",
        "Nothing beyond the counter's own guard.",
    ),
    explain(
        "unique-upsert",
        "inserts with ON CONFLICT are operations on one and the same row",
        "Both branches write the same row; the merge folds both operations into it.",
        "`INSERT INTO cart … ON CONFLICT (cart, book) DO UPDATE SET quantity = cart.quantity + 1`.",
        NOTHING,
    ),
    explain(
        "unique-taken",
        "the key is that of a row which the transaction takes",
        "Given the claim on that row nobody else can insert the same key.",
        "`DELETE FROM queue WHERE id = n`, then `INSERT INTO done (id) VALUES (n)`.",
        "Nothing beyond the claim.",
    ),
    explain(
        "unique-delete",
        "deleting or reading cannot introduce a duplicate",
        "A subset of unique values is unique.",
        "`DELETE FROM users WHERE id = $1`, under UNIQUE (name).",
        NOTHING,
    ),
    explain(
        "dense-insert",
        "numbers without gaps: both branches would hand out the same next one",
        "A dense sequence wants exactly the next number. Two branches hand out the same; given different ones, \
         one of them leaves a gap while the other side has not come (Table 2, AUTO_INCREMENT). The plan takes \
         the number at its owner when the transaction commits: one increment, no lock held while it runs.",
        "Invoice 17 is the last; both branches write invoice 18.",
        "If gaps do no harm, use a sequence or an identity column, and drop the assertion that forbids them.",
    ),
    explain(
        "dense-prefix",
        "deleting always the lowest number keeps the rest dense",
        "What each branch deletes is a prefix of the sequence; the union of two prefixes is the longer one.",
        "`DELETE FROM new_order WHERE no_o_id = (SELECT min(no_o_id) …)`.",
        NOTHING,
    ),
    explain(
        "sequence-share",
        "a sequence's numbers are unique and need not be dense",
        "Each shard hands out its own share.",
        "Shard 1 hands out 1 to 1000, shard 2 hands out 1001 to 2000.",
        NOTHING,
    ),
    explain(
        "foreign-key-insert",
        "inserting a child is confluent",
        "Union makes no parent disappear (Table 2, foreign key under insert).",
        "`INSERT INTO employee (department) VALUES (4)`, while nobody deletes departments.",
        NOTHING,
    ),
    explain(
        "foreign-key-delete",
        "one branch deletes the parent, the other inserts a child",
        "Each branch is valid; their union has a child without its parent (Table 2, foreign key under delete).",
        "Left deletes department 4, which is empty; right hires somebody into department 4.",
        "ON DELETE CASCADE is confluent; or mark the parent as closed instead of deleting it.",
    ),
    explain(
        "foreign-key-cascade",
        "on merge the dangling children go too",
        "A cascading delete deletes the other branch's children when they meet (Table 2).",
        "ON DELETE CASCADE: left deletes the order, right adds a line to it; in the merge both are gone.",
        NOTHING,
    ),
    explain(
        "foreign-key-child-only",
        "nobody deletes a parent",
        "No transaction deletes a parent row that a child might still refer to.",
        "No procedure has `DELETE FROM department`.",
        "Nothing; a statement by hand that deletes one is refused or runs under the plan's barrier.",
    ),
    explain(
        "secondary-index",
        "an index is a function of the rows",
        "It is updated in the same transaction as the row, so that it is visible together with it.",
        "CREATE INDEX by_name ON users (name).",
        NOTHING,
    ),
    explain(
        "materialized-view",
        "a view is a function of its base rows",
        "It is updated in the same transaction as they are (Table 2, materialized views).",
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) FROM orders GROUP BY customer.",
        NOTHING,
    ),
    explain(
        "bound-away",
        "merged deltas move away from the bound",
        "Every branch adds in the direction that the bound allows; so does the merge (Table 2, `>` under increment).",
        "`UPDATE account SET balance = balance + $2`, where $2 is positive, under CHECK (balance >= 0).",
        NOTHING,
    ),
    explain(
        "bound-toward",
        "both branches use up what is left",
        "Each stays above the bound by itself; together they pass it (Table 2, `>` under decrement). Escrow \
         keeps it: every shard holds a share of what may still be used up.",
        "The balance is 10; left takes 8, right takes 8: each leaves 2, the merge leaves −6.",
        "If a short overdraft is fine, drop the check and look at it later.",
    ),
    explain(
        "list-mutated",
        "what is first, last or how much depends on what both branches do to a list",
        "HEAD=, TAIL= and length= of a list that is appended to or taken from: each branch keeps the condition, both together do not.",
        "CHECK (cardinality(tags) = 3): each branch takes one tag out and puts another one in; if it is the same that goes, four are left.",
        "Keep the elements as rows of a table, or ask only whether an element is in it.",
    ),
    explain(
        "list-member",
        "whether an element is in a list, whatever is done to the list",
        "Appending, prepending and removing a value leave the other elements as they are, so an element that each branch has kept is kept by both.",
        "CHECK ('all' = ANY (tags)) under array_append and array_remove.",
        NOTHING,
    ),
    explain(
        "bound-avoid",
        "deltas may together meet the one value that is forbidden",
        "Each branch misses it; their sum may hit it.",
        "CHECK (level <> 0): the level is 2, and both branches take one away.",
        "State a bound (`>` or `<`) instead of `<>` if that is what is meant.",
    ),
    explain(
        "bound-equal",
        "deltas that sum to zero alone do so together",
        "A counter that must equal a value moves by zero in each branch, so by zero in the merge.",
        "`debits − credits = 0`, and each branch adds the same amount to both.",
        NOTHING,
    ),
    explain(
        "sum-of-deltas",
        "both sides of an equality between sums move by the same amount",
        "The merge is the union of operations: each side moves by the sum of both branches' contributions, which were equal in each branch.",
        "A transfer takes 5 from one account and adds 5 to the other; the sum stays what the bank's total says.",
        NOTHING,
    ),
    explain(
        "taken-twice",
        "two branches take the same row and each add its amount elsewhere",
        "The row counts once in the merge, what was added for it counts twice. A claim on the row at its owner \
         keeps it: one of the two finds it taken.",
        "Both branches deliver order 17: its row is deleted once, its amount is added to the customer twice.",
        "Nothing, where the plan has the claim. Otherwise let the transaction name the row that it takes.",
    ),
    explain(
        "sum-overwritten",
        "one side of an equality between sums is overwritten",
        "The merge keeps one of two overwrites, and both of what balanced them.",
        "Left sets the total to 15 for a line of 5, right sets it to 17 for a line of 7; both lines are there, the total is 17.",
        "Write `x = x + delta` instead of reading x and writing a value back.",
    ),
    explain(
        "sum-join-apart",
        "a row and its partner in a join appear in different branches",
        "The sum over the join counts a pair that neither branch has seen.",
        "Left adds the item's price, right the line that refers to it.",
        "Insert both in one transaction.",
    ),
    explain(
        "margin-wider",
        "the transaction can only widen the margin of an inequality",
        "So can both branches together.",
        "A project's budget is raised.",
        NOTHING,
    ),
    explain(
        "margin-used",
        "both branches use up the margin of an inequality between sums",
        "Each leaves enough; together they do not.",
        "Budget 100, spent 90: both branches book 8.",
        "Keep the margin in a counter with a bound, which escrow can keep.",
    ),
    explain(
        "counterpart",
        "every row keeps its counterpart",
        "Nobody takes counterparts away, or a row and its counterpart always come together and go together.",
        "Both rows of a friendship, (a, b) and (b, a), come in one transaction.",
        NOTHING,
    ),
    explain(
        "counterpart-taken",
        "a row comes in one branch while its counterpart goes in the other",
        "Neither branch sees the other, and the merge has a row without its counterpart. Or each branch takes \
         another one of several counterparts.",
        "Left adds a member to team 3, right deletes team 3.",
        "Write and delete row and counterpart in one transaction, each by its key; or declare a foreign key, \
         which a claim on the counterpart keeps.",
    ),
    explain(
        "extreme-raised",
        "a column is the highest (or lowest) of some rows' values, and every row raises it",
        "The highest value of the merge is the higher of the branches' two, which is what `greatest` makes of it.",
        "`INSERT INTO bid …; UPDATE auction SET top = greatest(top, $2) …`.",
        NOTHING,
    ),
    explain(
        "extreme-lost",
        "a column that is the highest (or lowest) of some rows' values is set, or rows go",
        "The merge has the rows of both branches, but the column of one of them.",
        "`UPDATE auction SET top = $2`: left sets 50 and right sets 40 later, and both bids are there.",
        "`x = greatest(x, value)` beside every INSERT, in the same transaction and by the key; and do not delete rows.",
    ),
    explain(
        "one-way-facts",
        "two facts move together, in one direction only",
        "A fact has changed in the merge exactly if it has in one of the branches, where the other fact changed too.",
        "`delivered_at` is set and the line in `open_orders` goes, in one transaction, and never comes back.",
        NOTHING,
    ),
    explain(
        "facts-both-ways",
        "a fact is moved forth by one transaction and back by another",
        "The merge keeps the later one for each fact by itself, and they may come from different branches.",
        "One procedure closes an order, another opens it again.",
        "Let one transaction write both facts at once, or never move one back.",
    ),
    explain(
        "lost-update",
        "a value that was read is written back",
        "Between the read and the write another transaction may write the same row; the later write buries it, \
         though no declared invariant forbids that.",
        "Two calls read balance = 10; one writes 10 + 1, the other 10 + 2: the balance is 11 or 12, not 13.",
        "Write an expression over the row itself (`x = x + 1`), or declare the invariant that must hold.",
    ),
    explain(
        "lock-not-held",
        "rows are read FOR UPDATE over several shards by a transaction that does not write them",
        "A transaction over several shards holds the rows that it writes until its commit, and no others.",
        "`SELECT … FROM stock … FOR UPDATE` on one shard, and an INSERT into `orders` on another.",
        "Write what is locked (a version column will do), or declare the transaction serializable.",
    ),
    explain(
        "default-placement",
        "nothing says where a table's rows live, so a default was taken",
        "No transaction finds its rows by a value that routes it (Operation Partitioning), so they are placed beside \
         their parents, where one foreign key decides, else by the hash of the primary key. Transactions that meet on \
         other columns then span shards that they need not span.",
        "`audit_log (id, at, line)` with a primary key of its own that no call names.",
        "COMMENT ON TABLE t IS 'weir: partition by (column)', or 'weir: replicated' for what hardly changes.",
    ),
    explain(
        "partitioning-gap",
        "the search for the partitioning parameters stopped before it had proved its result the best",
        "The classes and partition columns are right for the parameters found; others might leave fewer conflicts \
         between servers. The gap bounds how many.",
        "Sixty procedures with six parameters each, all in conflict with each other.",
        "Nothing need be done. COMMENT ON TABLE t IS 'weir: partition by (column)' fixes what you know better.",
    ),
    explain(
        "ordered-by-one",
        "one invariant alone has these transactions run in order",
        "Nothing cheaper than order keeps the invariant, and whoever shares data with a transaction in order runs in order, \
         too. Without this invariant they would not; where several ask for order together, none of them is named.",
        "`NOT EXISTS (SELECT 1 FROM ward w WHERE …)` over the doctors on call puts everyone who writes `doctor` in order.",
        "Look whether the invariant is meant as it is written: often a key, a CHECK of one row, or a bound on a counter \
         says the same and is cheaper to keep. It is no advice to give it up.",
    ),
    explain(
        "not-followed",
        "the analysis could not follow a statement to its end, and assumes the worst of it",
        "What it reads and writes is taken to be more than it may be, so the plan is safe but may coordinate \
         more than is needed.",
        "A procedure that calls itself.",
        "Name rows by their key columns, and columns by their names.",
    ),
    explain(
        "not-understood",
        "something in the files is nothing that Weir knows; the rest was analysed",
        "Something more general stands in its place: an unknown type or function is some value, a statement that \
         could not be read may read and write everything in the tables that it names. So verdicts may be \
         stricter than they would have to be. `weir run` refuses such files.",
        "`EXECUTE 'DELETE FROM ' || t`.",
        "See the message: it names what would work instead.",
    ),
    explain(
        "contradicted",
        "the search has found two branches against a verdict that a rule calls confluent",
        "Every merge that the search makes is put to every invariant. One that is broken although both verdicts say yes is a \
         fault of a rule: the verdicts are taken back, with the witness, and whoever touches the invariant runs in order.",
        "Of two doctors on call each goes off after seeing the other, and a rule has called that confluent.",
        "Report it with the schema and the two procedures; the plan is safe meanwhile.",
    ),
    explain(
        "passed-over",
        "a statement that no verdict depends on was passed over",
        "Privileges, owners, settings, extensions and rows say nothing about what a transaction does.",
        "`ALTER TABLE orders OWNER TO shop;`",
        NOTHING,
    ),
    explain(
        "no-solver",
        "there is no z3, so that nothing could be proved by arithmetic",
        "Where no rule decides, a solver is asked whether two valid branches can merge into a row that breaks a CHECK. \
         Without one the transaction counts as needing coordination.",
        "`CHECK (a + b <= 100)`, and a procedure that adds to `a` at most what it takes from `b`.",
        "Install z3 (Debian's package z3), or name it in the environment variable WEIR_Z3.",
    ),
    explain(
        "no-invariants",
        "nothing is declared that could be broken",
        "The schema has no NOT NULL, CHECK, key, foreign key, index or view, and no assertion. So every transaction keeps \
         everything, and there is nothing to say of merges but the anomalies that nobody has forbidden.",
        "`CREATE TABLE t (a integer, b integer);` and procedures over it.",
        "Declare what must hold: constraints in the schema, `CREATE ASSERTION` in invariants.sql for the rest.",
    ),
    explain(
        "undecided",
        "no rule decides it",
        "The invariant has a shape that no rule knows. The transaction is treated as if two branches broke it, and runs in order. \
         Where a rule refuses it and only the example is missing, the finding bears that rule's id instead.",
        "An assertion over a self-join (\"no two bookings of a room overlap\").",
        "Write the invariant in a shape that is decided (a key, a bound, a sum, EXCLUDE), or live with the order.",
    ),
    explain(
        "breaks-alone",
        "one call, all by itself, leads from a valid state to one in which an assertion does not hold",
        "No mechanism helps against that: the transaction forgets something, or the assertion demands too much. PostgreSQL \
         has no assertions and would not notice; Weir checks them at rest, after a run.",
        "`DELETE FROM members WHERE …` without lowering `rooms.member_count`, under an assertion that the two agree.",
        "Let the transaction change both sides, or refuse the case (IF … THEN RAISE), or weaken the assertion.",
    ),
    explain(
        "write-skew",
        "two transactions each read what the other writes",
        "Both decide by what was there before both. Each is right by itself; the two together do what neither would have done after the other. No declared invariant forbids the result, or the plan would have kept it.",
        "Two doctors are on call; both ask whether another one is, and both leave.",
        "State what must hold as a CHECK or an assertion; or lock what is read (SELECT … FOR UPDATE) and write it too; or declare the transaction serializable.",
    ),
    explain(
        "fractured-read",
        "a transaction sees a part of what another one did",
        "It reads in several rounds, the rows of the second found by what the first has read. Between the rounds another transaction writes rows of both.",
        "It reads the order's customer, then the customer's balance; between the two the order is paid.",
        "Name all rows by parameters, so that they are read at once; or declare it serializable.",
    ),
    explain(
        "long-fork",
        "two readers see independent changes in opposite orders",
        "Each reader sees whole transactions, and none that contradicts what it has seen; but two transactions that know nothing of each other become visible on their shards in an order that is not the same for everybody.",
        "One reader sees Ann's post and not yet Bob's, another Bob's and not yet Ann's.",
        "Mostly nothing. Where readers compare notes: put what they read on one shard, or declare them serializable.",
    ),
    explain(
        "allow-unused",
        "a comment lets something through that is not there",
        "The `-- weir:allow` comment stands where no such finding is any more.",
        "`-- weir:allow WEIR-A01 …` above a procedure that has been mended since.",
        "Take the comment away.",
    ),
    explain(
        "allow-without-reason",
        "a comment lets something through and does not say why",
        "A finding is let through only for a reason that the next reader can judge; without one the comment does nothing.",
        "`-- weir:allow WEIR-A01`, and nothing behind it.",
        "Say why: `-- weir:allow WEIR-A01 one caller at a time`.",
    ),
    explain(
        "allow-unknown",
        "a comment names no kind of finding",
        "The `-- weir:allow` comment names an id that does not exist, so it lets nothing through.",
        "`-- weir:allow WEIR-Z99 …`",
        "`weir explain` lists the ids.",
    ),
    explain(
        "row-overwritten",
        "active-active: a whole row replaces a whole row",
        "Under last-update-wins replication the row of the later commit replaces the other node's, whichever columns either has changed. Increments do not add up, and columns that only one of them has changed go back.",
        "Stock is 10; one node sells 1, another 2. All agree on 9 or on 8, never on 7.",
        "Insert amounts as rows and sum them; keep columns that change apart in tables of their own; or write each row on one node.",
    ),
    explain(
        "same-key-inserted",
        "active-active: two nodes insert rows of one key",
        "Each node checks its own rows. When they meet, one row replaces the other, though both callers were told that theirs is there.",
        "Two nodes register the user name 'ann' as primary key.",
        "Generate keys that no other node can (uuid), or make the node a part of the key.",
    ),
    explain(
        "unique-collision",
        "active-active: two nodes give away one unique value",
        "The rows have different primary keys, so neither replaces the other; applying the second fails, and the replication stops until somebody mends it by hand.",
        "UNIQUE (email), and the same address on two nodes.",
        "Give such values away on one node only, or make them unique for each node.",
    ),
    explain(
        "update-meets-delete",
        "active-active: one node changes a row that another deletes",
        "Whichever commits later wins: the change is lost, or the row comes back, without what was deleted with it.",
        "An order is cancelled on one node and paid on another.",
        "Mark rows as gone, and delete them when nobody changes them any more.",
    ),
    explain(
        "orphaned-child",
        "active-active: a child arrives after its parent has gone",
        "Foreign keys are checked where a row is written, not where it arrives. ON DELETE CASCADE has run where the parent was deleted, and does not run again.",
        "One node deletes a customer, another takes that customer's order.",
        "Mark parents as gone instead of deleting them.",
    ),
    explain(
        "sequence-collision",
        "active-active: every node counts a sequence by itself",
        "Two nodes draw the same number for different rows.",
        "`serial` and identity columns with their defaults.",
        "uuid keys, or a range for each node (INCREMENT BY the number of nodes, another START on each).",
    ),
    explain(
        "rows-apart",
        "active-active: an assertion over several rows",
        "Each row wins or loses by itself, and nothing checks the outcome: what held on both nodes need not hold of the rows that are left.",
        "The last two on-call doctors sign off on two nodes.",
        "Let one node write what the assertion speaks of.",
    ),
];
