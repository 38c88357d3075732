//! Assertions and CHECKs beyond Table 2: every row has its counterpart, the highest of the rows' values, two
//! columns of one row against each other. Each rule with the cases around it in which it must not hold.

use crate::support;

use weir_analysis::{GuardKind, InvariantId, analyze};

/// A verdict on one invariant for the first procedure.
struct Case {
    what: &'static str,
    schema: &'static str,
    /// Bodies of procedures with parameters `p`, `q` and `n`, all integers, and a local `x`.
    bodies: &'static [&'static str],
    confluent: bool,
    alone: &'static str,
    /// The plan has an escrow guard for the procedure.
    escrow: bool,
}

const FRIENDS: &str = "
    CREATE TABLE friend (a integer, b integer, PRIMARY KEY (a, b));
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM friend AS one WHERE NOT EXISTS (
        SELECT 1 FROM friend AS other WHERE other.a = one.b AND other.b = one.a)));";

const BEFRIEND: &str = "
    INSERT INTO friend (a, b) VALUES (p, q) ON CONFLICT (a, b) DO NOTHING;
    INSERT INTO friend (a, b) VALUES (q, p) ON CONFLICT (a, b) DO NOTHING;";

const UNFRIEND: &str = "DELETE FROM friend WHERE a = p AND b = q; DELETE FROM friend WHERE a = q AND b = p;";

const LINES: &str = "
    CREATE TABLE bill (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text integer);
    CREATE TABLE line (bill integer, no integer, text integer, PRIMARY KEY (bill, no));
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM bill WHERE NOT EXISTS (
        SELECT 1 FROM line WHERE line.bill = bill.id)));";

const PLACES: &str = "
    CREATE TABLE bid (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item integer NOT NULL);
    CREATE TABLE item (id integer PRIMARY KEY);
    CREATE TABLE old_item (id integer PRIMARY KEY);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM bid
        WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.id = bid.item)
          AND NOT EXISTS (SELECT 1 FROM old_item WHERE old_item.id = bid.item)));";

const TEAMS: &str = "
    CREATE TABLE member (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, team integer NOT NULL);
    CREATE TABLE team (id integer PRIMARY KEY);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM member WHERE NOT EXISTS (
        SELECT 1 FROM team WHERE team.id = member.team)));";

const TOP: &str = "
    CREATE TABLE sale (id integer PRIMARY KEY, top integer NOT NULL DEFAULT 0, bids integer NOT NULL DEFAULT 0);
    CREATE TABLE bid (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale integer NOT NULL REFERENCES sale,
                      amount integer NOT NULL CHECK (amount > 0));
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM sale
        WHERE top <> coalesce((SELECT max(amount) FROM bid WHERE bid.sale = sale.id), 0)));";

const TOP_WITHOUT_KEY: &str = "
    CREATE TABLE sale (id integer PRIMARY KEY, top integer NOT NULL DEFAULT 0, bids integer NOT NULL DEFAULT 0);
    CREATE TABLE bid (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale integer NOT NULL,
                      amount integer NOT NULL CHECK (amount > 0));
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM sale
        WHERE top <> coalesce((SELECT max(amount) FROM bid WHERE bid.sale = sale.id), 0)));";

const RAISE_TOP: &str = "
    INSERT INTO bid (sale, amount) VALUES (p, n);
    UPDATE sale SET top = greatest(top, n), bids = bids + 1 WHERE id = p;";

const SEATS: &str = "
    CREATE TABLE event (id integer PRIMARY KEY, sold integer NOT NULL, seats integer NOT NULL,
                        CONSTRAINT claim CHECK (sold <= seats));
    CREATE TABLE ticket (id integer PRIMARY KEY, seats integer NOT NULL CHECK (seats > 0));
    COMMENT ON TABLE event IS 'weir: partition by (id)';";

const SELL: &str = "IF n <= 0 THEN RAISE EXCEPTION 'none'; END IF;
                    UPDATE event SET sold = sold + n WHERE id = p;";
const ADD_SEATS: &str = "IF n <= 0 THEN RAISE EXCEPTION 'none'; END IF;
                         UPDATE event SET seats = seats + n WHERE id = p;";

const CASES: &[Case] = &[
    Case {
        what: "both rows of a friendship come together and go together",
        schema: FRIENDS,
        bodies: &[BEFRIEND, UNFRIEND],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "and go together",
        schema: FRIENDS,
        bodies: &[UNFRIEND, BEFRIEND],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "one row of a friendship",
        schema: FRIENDS,
        bodies: &["INSERT INTO friend (a, b) VALUES (p, q) ON CONFLICT (a, b) DO NOTHING;"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "one row of a friendship, beside somebody who takes them away",
        schema: FRIENDS,
        bodies: &["INSERT INTO friend (a, b) VALUES (p, q);", UNFRIEND],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "half of a friendship goes",
        schema: FRIENDS,
        bodies: &["DELETE FROM friend WHERE a = p AND b = q;", BEFRIEND],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "the second row only sometimes",
        schema: FRIENDS,
        bodies: &["INSERT INTO friend (a, b) VALUES (p, q);
                   IF n > 0 THEN INSERT INTO friend (a, b) VALUES (q, p); END IF;"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "the second row is deleted under a further condition",
        schema: "CREATE TABLE friend (a integer, b integer, since integer, PRIMARY KEY (a, b));
                 CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM friend AS one WHERE NOT EXISTS (
                     SELECT 1 FROM friend AS other WHERE other.a = one.b AND other.b = one.a)));",
        bodies: &["DELETE FROM friend WHERE a = p AND b = q; DELETE FROM friend WHERE a = q AND b = p AND since > 0;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bill with its first line",
        schema: LINES,
        bodies: &["INSERT INTO bill (text) VALUES (n) RETURNING id INTO x;
                   INSERT INTO line (bill, no) VALUES (x, 1);"],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a bill whose lines come in a loop, perhaps none",
        schema: LINES,
        bodies: &["INSERT INTO bill (text) VALUES (n) RETURNING id INTO x;
                   FOR i IN 1 .. n LOOP INSERT INTO line (bill, no) VALUES (x, i); END LOOP;"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "of two lines each branch takes another one",
        schema: LINES,
        bodies: &["DELETE FROM line WHERE bill = p AND no = q;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a line is changed, not moved",
        schema: LINES,
        bodies: &["UPDATE line SET text = q WHERE bill = p AND no = 1;", "DELETE FROM line WHERE bill = p;"],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a line is moved to another bill",
        schema: LINES,
        bodies: &["UPDATE line SET bill = q WHERE bill = p AND no = 1;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bid on what may be in one table or another, from which nothing goes",
        schema: PLACES,
        bodies: &["INSERT INTO bid (item) VALUES (p);", "INSERT INTO item (id) VALUES (p);"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "an item harms no bid",
        schema: PLACES,
        bodies: &["INSERT INTO item (id) VALUES (p);", "INSERT INTO bid (item) VALUES (p);"],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a bid beside somebody who takes items away",
        schema: PLACES,
        bodies: &["INSERT INTO bid (item) VALUES (p);", "DELETE FROM item WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "an item goes beside a bid",
        schema: PLACES,
        bodies: &["DELETE FROM item WHERE id = p;", "INSERT INTO bid (item) VALUES (p);"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a member makes the team, which other members share, and nobody takes it away",
        schema: TEAMS,
        bodies: &["INSERT INTO team (id) VALUES (p) ON CONFLICT (id) DO NOTHING;
                   INSERT INTO member (team) VALUES (p);"],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a shared team, which somebody takes away with the members that there are",
        schema: TEAMS,
        bodies: &[
            "INSERT INTO team (id) VALUES (p) ON CONFLICT (id) DO NOTHING; INSERT INTO member (team) VALUES (p);",
            "DELETE FROM member WHERE team = p; DELETE FROM team WHERE id = p;",
        ],
        confluent: false,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a team goes with its members, beside a new one",
        schema: TEAMS,
        bodies: &[
            "DELETE FROM member WHERE team = p; DELETE FROM team WHERE id = p;",
            "INSERT INTO team (id) VALUES (p) ON CONFLICT (id) DO NOTHING; INSERT INTO member (team) VALUES (p);",
        ],
        confluent: false,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a member changes teams",
        schema: TEAMS,
        bodies: &["UPDATE member SET team = q WHERE id = p;", "DELETE FROM team WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "done exactly when there is no line: each branch takes another one of two lines",
        schema: "CREATE TABLE bill (id integer PRIMARY KEY, done integer);
                 CREATE TABLE line (bill integer, no integer, PRIMARY KEY (bill, no));
                 CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM bill
                     WHERE (done IS NULL) <> EXISTS (SELECT 1 FROM line WHERE line.bill = bill.id)));",
        bodies: &["DELETE FROM line WHERE bill = p AND no = q;
                   IF NOT EXISTS (SELECT 1 FROM line WHERE bill = p) THEN
                       UPDATE bill SET done = 1 WHERE id = p;
                   END IF;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "done exactly when the one line is gone",
        schema: "CREATE TABLE bill (id integer PRIMARY KEY, done integer);
                 CREATE TABLE line (bill integer PRIMARY KEY);
                 CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM bill
                     WHERE (done IS NULL) <> EXISTS (SELECT 1 FROM line WHERE line.bill = bill.id)));",
        bodies: &["DELETE FROM line WHERE bill = p; UPDATE bill SET done = 1 WHERE id = p;"],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "every bid raises the highest",
        schema: TOP,
        bodies: &[RAISE_TOP],
        confluent: true,
        alone: "checked",
        escrow: false,
    },
    Case {
        what: "bids may be negative, and no bid counts as 0",
        schema: "CREATE TABLE sale (id integer PRIMARY KEY, top integer NOT NULL, bids integer);
                 CREATE TABLE bid (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale integer, amount integer);
                 CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM sale
                     WHERE top <> coalesce((SELECT max(amount) FROM bid WHERE bid.sale = sale.id), 0)));",
        bodies: &[RAISE_TOP],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a new sale starts at 0",
        schema: TOP,
        bodies: &["INSERT INTO sale (id) VALUES (p);", RAISE_TOP],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a new sale, where bids need none",
        schema: TOP_WITHOUT_KEY,
        bodies: &["INSERT INTO sale (id) VALUES (p);", RAISE_TOP],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bid for a sale that may come in the other branch",
        schema: TOP_WITHOUT_KEY,
        bodies: &[RAISE_TOP, "INSERT INTO sale (id) VALUES (p);"],
        confluent: false,
        alone: "checked",
        escrow: false,
    },
    Case {
        what: "a new sale starts higher",
        schema: TOP,
        bodies: &["INSERT INTO sale (id, top) VALUES (p, 7);", RAISE_TOP],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bid that raises nothing",
        schema: TOP,
        bodies: &["INSERT INTO bid (sale, amount) VALUES (p, n);", RAISE_TOP],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bid that raises another sale",
        schema: TOP,
        bodies: &["INSERT INTO bid (sale, amount) VALUES (p, n);
                   UPDATE sale SET top = greatest(top, n) WHERE id = q;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bid that raises the sale under a condition",
        schema: TOP,
        bodies: &["INSERT INTO bid (sale, amount) VALUES (p, n);
                   UPDATE sale SET top = greatest(top, n) WHERE id = p AND bids < 9;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a raise without a bid",
        schema: TOP,
        bodies: &["UPDATE sale SET top = greatest(top, n) WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a bid beside somebody who takes bids back",
        schema: TOP,
        bodies: &[RAISE_TOP, "DELETE FROM bid WHERE id = p;"],
        confluent: false,
        alone: "checked",
        escrow: false,
    },
    Case {
        what: "a sale uses up the margin",
        schema: SEATS,
        bodies: &[SELL, ADD_SEATS],
        confluent: false,
        alone: "checked",
        escrow: true,
    },
    Case {
        what: "more seats widen it",
        schema: SEATS,
        bodies: &[ADD_SEATS, SELL],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a refund widens it, by an amount that a CHECK says is positive",
        schema: SEATS,
        bodies: &["SELECT seats INTO x FROM ticket WHERE id = q;
                   UPDATE event SET sold = sold - x WHERE id = p;", ADD_SEATS],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "an amount of unknown sign",
        schema: SEATS,
        bodies: &["UPDATE event SET seats = seats + n WHERE id = p;", SELL],
        confluent: false,
        alone: "checked",
        escrow: true,
    },
    Case {
        what: "a column that somebody sets is no counter",
        schema: SEATS,
        bodies: &[SELL, "UPDATE event SET seats = n WHERE id = p;"],
        confluent: false,
        alone: "checked",
        escrow: false,
    },
    Case {
        what: "an element of a list, beside a change that is none of a list's",
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL,
                                    CONSTRAINT claim CHECK (5 = ANY (items)));",
        bodies: &[
            "UPDATE list SET items = array_append(items, q) WHERE id = p;",
            "UPDATE list SET items = items[2:] WHERE id = p;",
        ],
        confluent: false,
        alone: "checked",
        escrow: false,
    },
    Case {
        what: "an element of a list that may be NULL",
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[],
                                    CONSTRAINT claim CHECK (5 = ANY (items)));",
        bodies: &["UPDATE list SET items = array_append(items, q) WHERE id = p;"],
        confluent: false,
        alone: "checked",
        escrow: false,
    },
    Case {
        what: "a value that no row may have",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer NOT NULL);
                 CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM item WHERE n = 13));",
        bodies: &["INSERT INTO item (id, n) VALUES (p, q);", "UPDATE item SET n = q WHERE id = p;"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "two conditions on one row, set apart",
        schema: FRAGILE,
        bodies: &["UPDATE item SET fragile = true WHERE id = p;", "UPDATE item SET n = q WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "two conditions on one row, set apart: the other half",
        schema: FRAGILE,
        bodies: &["UPDATE item SET n = q WHERE id = p;", "UPDATE item SET fragile = true WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "two conditions on one row, of which one never changes",
        schema: FRAGILE,
        bodies: &["UPDATE item SET n = q WHERE id = p;", "INSERT INTO item (id, n) VALUES (p, q);"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a row against its parent, which does not change",
        schema: CAPPED,
        bodies: &[ADD, "INSERT INTO owner (id, cap) VALUES (p, q);"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "the parent itself comes before its rows",
        schema: CAPPED,
        bodies: &["INSERT INTO owner (id, cap) VALUES (p, q);", ADD],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a row against its parent, which changes",
        schema: CAPPED,
        bodies: &[ADD, "UPDATE owner SET cap = q WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a row against what may become its parent",
        schema: CAPPED_WITHOUT_KEY,
        bodies: &[ADD, "INSERT INTO owner (id, cap) VALUES (p, q);"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "two rows of one table against each other",
        schema: "CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer NOT NULL);
                 CREATE ASSERTION claim CHECK (NOT EXISTS (
                     SELECT 1 FROM item AS a JOIN item AS b ON a.id <> b.id WHERE a.n = b.n));",
        bodies: &["INSERT INTO item (n) VALUES (p);"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "the highest of all rows below a bound: each of them is",
        schema: HIGHEST,
        bodies: &["INSERT INTO item (owner, amount) VALUES (p, q);", "UPDATE item SET amount = q WHERE id = p;"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "the highest of all rows below a bound, beside an increment",
        schema: HIGHEST,
        bodies: &["UPDATE item SET amount = q WHERE id = p;", "UPDATE item SET amount = amount + 1 WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a sum of all rows below a bound",
        schema: SUM,
        bodies: &["INSERT INTO item (owner, amount) VALUES (p, q);"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a sum of all rows below a bound, taken from",
        schema: SUM,
        bodies: &["IF q > 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE item SET amount = amount + q WHERE id = p;"],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "twice the count of a group, with HAVING",
        schema: "CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL);
                 CREATE ASSERTION claim CHECK (NOT EXISTS (
                     SELECT owner FROM item GROUP BY owner HAVING 2 * count(*) > 6));",
        bodies: &["INSERT INTO item (owner) VALUES (p);"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a row moves to another group",
        schema: "CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL,
                                    kind integer NOT NULL);
                 CREATE ASSERTION claim CHECK (NOT EXISTS (
                     SELECT owner FROM item WHERE kind = 1 GROUP BY owner HAVING count(*) > 3));",
        bodies: &["UPDATE item SET kind = q WHERE id = p;"],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "an owner becomes active beside rows that come",
        schema: ACTIVE,
        bodies: &["UPDATE owner SET active = true WHERE id = p;", ADD],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "rows go, active or not",
        schema: ACTIVE,
        bodies: &[
            "IF q > 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE item SET amount = amount + q WHERE id = p;",
            "UPDATE owner SET active = true WHERE id = p;",
        ],
        confluent: true,
        alone: "proved",
        escrow: false,
    },
    Case {
        what: "a sum at least a bound: NULL without rows",
        schema: AT_LEAST,
        bodies: &[
            "IF q < 0 THEN RAISE EXCEPTION 'no'; END IF; INSERT INTO item (owner, amount) VALUES (p, q);",
            "DELETE FROM item WHERE id = p;",
        ],
        confluent: false,
        alone: "no",
        escrow: false,
    },
    Case {
        what: "a sum at least a bound, and no row goes",
        schema: AT_LEAST,
        bodies: &["IF q < 0 THEN RAISE EXCEPTION 'no'; END IF; INSERT INTO item (owner, amount) VALUES (p, q);"],
        confluent: true,
        alone: "no",
        escrow: false,
    },
];

const FRAGILE: &str = "
    CREATE TABLE item (id integer PRIMARY KEY, n integer NOT NULL, fragile boolean NOT NULL DEFAULT false);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM item WHERE fragile AND abs(n) > 5));";

const CAPPED: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, cap integer NOT NULL);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       owner integer NOT NULL REFERENCES owner, amount integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (
        SELECT 1 FROM item JOIN owner ON owner.id = item.owner WHERE item.amount > owner.cap));";

const CAPPED_WITHOUT_KEY: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, cap integer NOT NULL);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                       owner integer NOT NULL, amount integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (
        SELECT 1 FROM item JOIN owner ON owner.id = item.owner WHERE item.amount > owner.cap));";

const ADD: &str = "INSERT INTO item (owner, amount) VALUES (p, q);";

const HIGHEST: &str = "
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL,
                       amount integer NOT NULL);
    CREATE ASSERTION claim CHECK ((SELECT max(amount) FROM item) <= 100);";

const SUM: &str = "
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL,
                       amount integer NOT NULL);
    CREATE ASSERTION claim CHECK ((SELECT sum(amount) FROM item) <= 100);";

const AT_LEAST: &str = "
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL,
                       amount integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (
        SELECT owner FROM item GROUP BY owner HAVING sum(amount) < 10));";

const ACTIVE: &str = "
    CREATE TABLE owner (id integer PRIMARY KEY, active boolean NOT NULL);
    CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL,
                       amount integer NOT NULL);
    CREATE ASSERTION claim CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE active AND
        (SELECT coalesce(sum(amount), 0) FROM item WHERE item.owner = owner.id) > 10));";

fn source(case: &Case) -> String {
    let mut text = case.schema.to_string();
    for (index, body) in case.bodies.iter().enumerate() {
        text.push_str(&format!(
            "CREATE PROCEDURE t{index}(p integer, q integer, n integer) LANGUAGE plpgsql AS $$
             DECLARE x integer; BEGIN {body} END; $$;"
        ));
    }
    text
}

#[test]
fn claims() {
    let mut errors = Vec::new();
    for case in CASES {
        let app = support::application(&[("claims.sql", &source(case))]);
        let analysis = analyze(&app);
        let at = analysis.invariants.iter().position(|invariant| invariant.name == "claim");
        let verdict = analysis.verdict(0, InvariantId(at.expect("the assertion") as u32));
        let guards = &analysis.plan.transactions[0].guards;
        let escrow = guards.iter().any(|guard| guard.kind == GuardKind::Escrow);
        let is = (verdict.confluent, verdict.alone.name(), escrow);
        let expected = (case.confluent, case.alone, case.escrow);
        if is != expected {
            errors.push(format!("{}: is {is:?}, not {expected:?}: {}", case.what, verdict.because));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
