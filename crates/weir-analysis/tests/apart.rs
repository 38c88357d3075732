//! Halves that belong together and come apart between two branches: a new owner here, his items there; a value set
//! here, raised there. Each case was a counterexample that the search has found, or stands beside one.

use crate::support;

use weir_analysis::{InvariantId, analyze};

/// Title, schema, bodies of procedures with parameters `p`, `q` and `n`, and whether the first one's verdict on `claim` is confluent.
type Case = (&'static str, &'static str, &'static [&'static str], bool);

const NOBODYS: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0, active integer);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL, a integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));";

const OWNED: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0, active integer);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));";

/// The item refers to its owner over a second table.
const OVER_ANOTHER: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
    CREATE TABLE box (owner integer REFERENCES owner (id), no integer, PRIMARY KEY (owner, no));
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL, box integer NOT NULL,
                       a integer NOT NULL, FOREIGN KEY (owner, box) REFERENCES box (owner, no));
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));";

/// Owners by their region, of which there may be several.
const REGION: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, region integer NOT NULL, n integer NOT NULL DEFAULT 0);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       owner integer NOT NULL REFERENCES owner (id), region integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE n <> (SELECT count(*) FROM item WHERE item.region = owner.region)));";

const ACTIVE: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0, active integer);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE active = 1 AND total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));";

const FLAGS: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, flag integer);
    CREATE TABLE item (id integer PRIMARY KEY, owner integer REFERENCES owner (id), done integer);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM item WHERE EXISTS (SELECT 1 FROM owner
        WHERE owner.id = item.owner AND (item.done IS NULL) <> (owner.flag IS NULL))));";

const AT_MOST: &str = "
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL, a integer);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM item GROUP BY owner HAVING count(*) > 2));";

const BARE_SUM: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner
        WHERE total <> (SELECT sum(a) FROM item WHERE item.owner = owner.id)));";

const MULTIPLIED: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
    CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL);
    CREATE TABLE part (id integer PRIMARY KEY, item integer NOT NULL REFERENCES item (id));
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(item.a)
        FROM item JOIN part ON part.item = item.id WHERE item.owner = owner.id), 0)));";

const NOT_TWO: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, x integer NOT NULL, CONSTRAINT claim CHECK (x <> 2));";
const NOT_LOW: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, x integer NOT NULL, CONSTRAINT claim CHECK (x >= 2));";
const NULL_OR: &str = "CREATE TABLE t (id integer PRIMARY KEY, x integer, CONSTRAINT claim CHECK (x >= 2));";
const IN_ORDER: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, x integer NOT NULL, y integer NOT NULL, CONSTRAINT claim CHECK (x <= y));";

const NEW_OWNER: &str = "INSERT INTO owner (id) VALUES (p);";
const NEW_ITEM: &str =
    "INSERT INTO item (owner, a) VALUES (p, n); UPDATE owner SET total = total + n WHERE id = p;";
const BOTH: &str = "INSERT INTO owner (id, total) VALUES (p, n); INSERT INTO item (owner, a) VALUES (p, n);";
const BOXED: &str =
    "INSERT INTO item (owner, box, a) VALUES (p, q, n); UPDATE owner SET total = total + n WHERE id = p;";
const IN_REGION: &str = "
    INSERT INTO item (owner, region) VALUES (p, q); UPDATE owner SET n = owner.n + 1 WHERE region = q;";
const SET: &str = "UPDATE t SET x = n WHERE id = p;";
const RAISE: &str = "UPDATE t SET x = greatest(x, n) WHERE id = p;";
const LOWER: &str = "UPDATE t SET x = least(x, n) WHERE id = p;";
const PART: &str = "INSERT INTO part (id, item) VALUES (p, q);";

const CASES: &[Case] = &[
    ("a new owner, whose items need not wait for him", NOBODYS, &[NEW_OWNER, NEW_ITEM], false),
    ("an item that needs no owner, beside a new one", NOBODYS, &[NEW_ITEM, NEW_OWNER], false),
    (
        "an owner who may be there already",
        NOBODYS,
        &["INSERT INTO owner (id) VALUES (p) ON CONFLICT (id) DO NOTHING;", NEW_ITEM],
        false,
    ),
    (
        "a change of an item without an owner",
        NOBODYS,
        &["UPDATE item SET a = a + n WHERE id = q;", NEW_OWNER],
        false,
    ),
    ("nobody brings owners", NOBODYS, &[NEW_ITEM], true),
    ("nobody moves items", NOBODYS, &[NEW_OWNER], true),
    ("items come with their owner only", NOBODYS, &[BOTH], true),
    (
        "the owner comes under a condition",
        NOBODYS,
        &[
            "IF n > 0 THEN INSERT INTO owner (id, total) VALUES (p, n); END IF; INSERT INTO item (owner, a) VALUES (p, n);",
        ],
        false,
    ),
    ("items refer to their owner", OWNED, &[NEW_OWNER, NEW_ITEM], true),
    ("beside a new owner", OWNED, &[NEW_ITEM, NEW_OWNER], true),
    ("items refer to their owner over a box", OVER_ANOTHER, &[NEW_OWNER, BOXED], true),
    ("an item in a box", OVER_ANOTHER, &[BOXED, NEW_OWNER], true),
    (
        "what items refer to is another owner of the region",
        REGION,
        &["INSERT INTO owner (id, region) VALUES (p, q);", IN_REGION],
        false,
    ),
    (
        "an owner becomes one of those that the claim speaks of",
        ACTIVE,
        &["UPDATE owner SET active = 1 WHERE id = p;", NEW_ITEM],
        false,
    ),
    ("an item beside that", ACTIVE, &[NEW_ITEM, "UPDATE owner SET active = 1 WHERE id = p;"], false),
    ("the active ones stay so", ACTIVE, &[NEW_ITEM, "INSERT INTO owner (id, active) VALUES (p, 1);"], true),
    (
        "an item changes owners while the owner's fact changes",
        FLAGS,
        &["UPDATE item SET owner = p WHERE id = q;", "UPDATE owner SET flag = NULL WHERE id = p;"],
        false,
    ),
    (
        "the owner's fact changes",
        FLAGS,
        &["UPDATE owner SET flag = NULL WHERE id = p;", "UPDATE item SET owner = p WHERE id = q;"],
        false,
    ),
    (
        "an item changes owners, and no fact does",
        FLAGS,
        &["UPDATE item SET owner = p WHERE id = q;", "INSERT INTO owner (id, flag) VALUES (p, n);"],
        true,
    ),
    (
        "an owner becomes another one",
        FLAGS,
        &["UPDATE item SET owner = p WHERE id = q;", "UPDATE owner SET id = p WHERE id = q;"],
        false,
    ),
    ("rows of a group that HAVING counts", AT_MOST, &["INSERT INTO item (owner, a) VALUES (p, n);"], false),
    ("and that change groups", AT_MOST, &["UPDATE item SET owner = p WHERE id = q;"], false),
    ("fewer of them", AT_MOST, &["DELETE FROM item WHERE id = q;"], true),
    ("without rows a sum is NULL, and anything equals it", BARE_SUM, &[NEW_ITEM], false),
    (
        "a value that counts for each part",
        MULTIPLIED,
        &["UPDATE item SET a = a + n WHERE id = q;", PART],
        false,
    ),
    ("one more part", MULTIPLIED, &[PART, "UPDATE item SET a = a + n WHERE id = q;"], false),
    ("one more part of what never changes", MULTIPLIED, &[PART], true),
    ("a value is set here and raised there", NOT_TWO, &[SET, RAISE], false),
    ("raised", NOT_TWO, &[RAISE, SET], false),
    ("raised here and lowered there", NOT_TWO, &[RAISE, LOWER], false),
    ("only raised", NOT_TWO, &[RAISE], true),
    ("only set", NOT_TWO, &[SET], true),
    ("set and raised above a bound", NOT_LOW, &[SET, RAISE, LOWER], true),
    ("set and raised, and NULL passes", NULL_OR, &[RAISE, SET], false),
    (
        "a whole record, raised and set",
        IN_ORDER,
        &[
            "UPDATE t SET x = greatest(x, n), y = greatest(y, q) WHERE id = p;",
            "UPDATE t SET x = n, y = q WHERE id = p;",
        ],
        false,
    ),
];

#[test]
fn halves() {
    let mut errors = Vec::new();
    for (what, schema, bodies, confluent) in CASES {
        let mut text = (*schema).to_owned();
        for (index, body) in bodies.iter().enumerate() {
            text.push_str(&format!(
                "CREATE PROCEDURE t{index}(p integer, q integer, n integer) LANGUAGE plpgsql AS $$
                 BEGIN {body} END; $$;"
            ));
        }
        let app = support::application(&[("apart.sql", &text)]);
        let analysis = analyze(&app);
        let at = analysis.invariants.iter().position(|invariant| invariant.name == "claim");
        let verdict = analysis.verdict(0, InvariantId(at.expect("the invariant") as u32));
        if verdict.confluent != *confluent {
            errors.push(format!("{what}: {}", verdict.because));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
