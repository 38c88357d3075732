//! Cases for rules that random applications seldom reach.

use super::support::with_procedures;

const SALES: &str = "
    CREATE TABLE sale (id integer PRIMARY KEY, top integer NOT NULL DEFAULT 0);
    CREATE TABLE bid (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale integer NOT NULL,
                      amount integer NOT NULL CHECK (amount > 0));
    CREATE ASSERTION top_is_highest CHECK (NOT EXISTS (SELECT 1 FROM sale
        WHERE top <> coalesce((SELECT max(amount) FROM bid WHERE bid.sale = sale.id), 0)));";

/// Name, schema, and bodies of procedures with parameters `p`, `q` and `m`, and locals `x` and `y`.
const PARTS: &[(&str, &str, &[&str])] = &[
    (
        "a row moves to another table",
        "CREATE TABLE item (id integer PRIMARY KEY); CREATE TABLE old_item (id integer PRIMARY KEY);",
        &["SELECT id INTO STRICT x FROM item WHERE id = p FOR UPDATE; DELETE FROM item WHERE id = x;
           INSERT INTO old_item (id) VALUES (x);"],
    ),
    (
        "a counterpart is taken away",
        "CREATE TABLE team (id integer PRIMARY KEY);
         CREATE TABLE member (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, team integer NOT NULL);
         CREATE ASSERTION in_a_team CHECK (NOT EXISTS (SELECT 1 FROM member WHERE NOT EXISTS (
             SELECT 1 FROM team WHERE team.id = member.team)));",
        &["INSERT INTO member (team) VALUES (p);", "DELETE FROM team WHERE id = p;"],
    ),
    (
        "a row is taken twice",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id));
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM owner
             WHERE n <> (SELECT count(*) FROM item WHERE item.owner = owner.id)));",
        &["DELETE FROM item WHERE id = q; UPDATE owner SET n = n - 1 WHERE id = p;"],
    ),
    (
        "two columns against each other",
        "CREATE TABLE range (id integer PRIMARY KEY, low integer NOT NULL, high integer NOT NULL,
                             CONSTRAINT in_order CHECK (low <= high));",
        &["UPDATE range SET low = m WHERE id = p;", "UPDATE range SET high = m WHERE id = p;"],
    ),
    (
        "a list of a fixed length",
        "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT one CHECK (cardinality(items) = 1));",
        &["UPDATE list SET items = array_append(array_remove(items, q), m) WHERE id = p;"],
    ),
    (
        "a list without an element",
        "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT none CHECK (1 <> ALL (items)));",
        &[
            "UPDATE list SET items = array_append(items, q) WHERE id = p;",
            "UPDATE list SET items = array_remove(items, m) WHERE id = p;",
        ],
    ),
    (
        "a total is overwritten",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL, a integer NOT NULL);
         CREATE ASSERTION total_is_sum CHECK (NOT EXISTS (SELECT 1 FROM owner
             WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));",
        &["SELECT total INTO STRICT x FROM owner WHERE id = p; INSERT INTO item (owner, a) VALUES (p, m);
           UPDATE owner SET total = x + m WHERE id = p;"],
    ),
    (
        "a row and its partner come apart",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
         CREATE TABLE bill (id integer PRIMARY KEY, owner integer NOT NULL);
         CREATE TABLE line (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, bill integer NOT NULL, a integer NOT NULL);
         CREATE ASSERTION total_is_sum CHECK (NOT EXISTS (SELECT 1 FROM owner
             WHERE total <> coalesce((SELECT sum(line.a) FROM bill JOIN line ON line.bill = bill.id
                                       WHERE bill.owner = owner.id), 0)));",
        &["INSERT INTO bill (id, owner) VALUES (q, p);", "INSERT INTO line (bill, a) VALUES (q, m);"],
    ),
    (
        "the highest bid is set",
        SALES,
        &["SELECT top INTO STRICT x FROM sale WHERE id = p; INSERT INTO bid (sale, amount) VALUES (p, m);
           IF m > x THEN UPDATE sale SET top = m WHERE id = p; END IF;"],
    ),
    (
        "a bid is taken back",
        SALES,
        &[
            "DELETE FROM bid WHERE id = q; SELECT coalesce(max(amount), 0) INTO x FROM bid WHERE bid.sale = p;
             UPDATE sale SET top = x WHERE id = p;",
            "INSERT INTO bid (sale, amount) VALUES (p, m); UPDATE sale SET top = greatest(top, m) WHERE id = p;",
        ],
    ),
    (
        "the highest bid is raised",
        SALES,
        &["INSERT INTO bid (sale, amount) VALUES (p, m); UPDATE sale SET top = greatest(top, m) WHERE id = p;"],
    ),
];

/// Name and SQL.
pub fn cases() -> impl Iterator<Item = (String, String)> {
    PARTS.iter().map(|(name, schema, bodies)| ((*name).to_owned(), with_procedures(schema, bodies)))
}
