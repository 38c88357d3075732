//! Values that neither branch has seen: keys and references of which each branch changes a part, columns that are
//! computed of the merged row. The search cannot run all of these; `weir-search/tests/tricky.rs` has those that it can.

use crate::support;

use weir_analysis::analyze;

/// Title, schema, bodies of procedures with parameters `p`, `q` and `n`, the invariant, and whether the first one's verdict on it is
/// confluent.
type Case = (&'static str, &'static str, &'static [&'static str], &'static str, bool);

const PAIR: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, UNIQUE (a, b));";
const OPEN: &str = "CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL, done integer);
    CREATE UNIQUE INDEX one_open ON item (owner) WHERE done IS NULL;";
const SUMS: &str = "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);
    CREATE UNIQUE INDEX sums ON item ((a + b));";
const TWICE: &str = "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL,
    twice integer GENERATED ALWAYS AS (total * 2) STORED, CONSTRAINT small CHECK (twice <= 6));";
const BOTH: &str = "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL,
    both_of integer GENERATED ALWAYS AS (a + b) STORED, CONSTRAINT small CHECK (both_of <= 6));";
const REFERENCE: &str = "CREATE TABLE owner (a integer, b integer, PRIMARY KEY (a, b));
    CREATE TABLE item (id integer PRIMARY KEY, a integer, b integer,
                       CONSTRAINT owned FOREIGN KEY (a, b) REFERENCES owner (a, b));";
const NULLABLE: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer, c integer NOT NULL);";
const COUNTED: &str = "CREATE TABLE owner (id integer PRIMARY KEY, count integer NOT NULL DEFAULT 0);
    CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL);
    CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN UPDATE owner SET count = count + 1 WHERE id = NEW.owner; RETURN NEW; END $$;
    CREATE TRIGGER count_it AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION counts();
    CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE owner.count <> (SELECT count(*) FROM item WHERE item.owner = owner.id)));";
const TAKES: &str = "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL, CONSTRAINT there CHECK (total >= 0));
    CREATE FUNCTION takes(who integer, amount integer) RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE l integer;
    BEGIN UPDATE owner SET total = total - amount WHERE id = who RETURNING total INTO STRICT l; RETURN l; END $$;
    CREATE FUNCTION takes_twice(who integer, amount integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN PERFORM takes(who, amount); RETURN takes(who, amount); END $$;
    CREATE FUNCTION less(amount integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN 0 - amount; END $$;";

const A_IS_N: &str = "UPDATE t SET a = n WHERE id = p;";
const C_IS_N: &str = "UPDATE t SET c = n WHERE id = p;";
const B_IS_NULL: &str = "UPDATE t SET b = NULL WHERE id = p;";
const ARMS: &str = "UPDATE t SET a = CASE WHEN c > 0 THEN a + n ELSE a + q END WHERE id = p;";
const OWNER_A: &str = "UPDATE owner SET a = n WHERE id = p;";
const OWNER_B: &str = "UPDATE owner SET b = n WHERE id = p;";

const CASES: &[Case] = &[
    ("half of a key", PAIR, &[A_IS_N, "UPDATE t SET b = n WHERE id = p;"], "t_a_b_key", false),
    (
        "an open row's owner",
        OPEN,
        &["UPDATE item SET owner = q WHERE id = p;", "UPDATE item SET done = NULL WHERE id = p;"],
        "one_open",
        false,
    ),
    (
        "a part of what the index computes",
        SUMS,
        &["UPDATE item SET a = n WHERE id = p;", "UPDATE item SET b = n WHERE id = p;"],
        "sums",
        false,
    ),
    (
        "what a column is generated from",
        TWICE,
        &["UPDATE owner SET total = total + 1 WHERE id = p;"],
        "small",
        false,
    ),
    ("one of the two that it is generated from", BOTH, &[OWNER_A, OWNER_B], "small", false),
    (
        "half of a reference",
        REFERENCE,
        &["UPDATE item SET a = p WHERE id = q;", "UPDATE item SET b = p WHERE id = q;"],
        "owned",
        false,
    ),
    ("both halves", REFERENCE, &["UPDATE item SET a = p, b = n WHERE id = q;"], "owned", true),
    (
        "a sum with what may be NULL",
        NULLABLE,
        &["UPDATE t SET a = a + b WHERE id = p;", B_IS_NULL],
        "t.a not null",
        false,
    ),
    (
        "a sum with what is never NULL",
        NULLABLE,
        &["UPDATE t SET a = a * c + n WHERE id = p;"],
        "t.a not null",
        true,
    ),
    (
        "coalesce with itself",
        NULLABLE,
        &["UPDATE t SET a = coalesce(n, a) WHERE id = p;"],
        "t.a not null",
        true,
    ),
    ("nullif", NULLABLE, &["UPDATE t SET a = nullif(a, 2) WHERE id = p;", A_IS_N], "t.a not null", false),
    (
        "an arm that is not there",
        NULLABLE,
        &["UPDATE t SET a = CASE WHEN c > 0 THEN a + 1 END WHERE id = p;", C_IS_N],
        "t.a not null",
        false,
    ),
    ("an arm with another argument, by what changes", NULLABLE, &[ARMS, C_IS_N], "t.a not null", false),
    ("an arm with another argument, by what does not", NULLABLE, &[ARMS], "t.a not null", true),
    (
        "a trigger counts, and a row goes",
        COUNTED,
        &[
            "DELETE FROM item WHERE id = q; UPDATE owner SET count = count - 1 WHERE id = p;",
            "INSERT INTO item (id, owner) VALUES (q, p);",
        ],
        "counted",
        false,
    ),
    ("functions that call functions that take", TAKES, &["PERFORM takes_twice(p, n);"], "there", false),
    (
        "a function turns the sign round",
        TAKES,
        &["IF n <= 0 THEN RAISE EXCEPTION 'not positive'; END IF;
           UPDATE owner SET total = total + less(n) WHERE id = p;"],
        "there",
        false,
    ),
];

#[test]
fn composed() {
    let mut errors = Vec::new();
    for (what, schema, bodies, invariant, confluent) in CASES {
        let mut text = (*schema).to_owned();
        for (index, body) in bodies.iter().enumerate() {
            text.push_str(&format!(
                "CREATE PROCEDURE t{index}(p integer, q integer, n integer) LANGUAGE plpgsql AS $$
                 BEGIN {body} END; $$;"
            ));
        }
        let app = support::read_to_analyze(&text);
        let analysis = analyze(&app);
        let first = app.procedures.iter().position(|procedure| procedure.name == "t0");
        let name = |verdict: &weir_analysis::Verdict| &analysis.invariants[verdict.invariant.0 as usize].name;
        let mut of_first = analysis.verdicts.iter().filter(|verdict| Some(verdict.transaction) == first);
        match of_first.find(|verdict| name(verdict) == invariant) {
            Some(verdict) if verdict.confluent != *confluent => {
                errors.push(format!("{what}: {}", verdict.because))
            }
            Some(_) => {}
            None => errors.push(format!("{what}: no verdict on {invariant}")),
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
