//! Random applications about one thing each: a list in a column, the highest and the lowest of some rows, a total that is
//! written anew, a fact of rows that have rows of their own. One number makes one application.

use std::fmt::Write as _;

use super::random::Chance;

/// Topic of an application. Each has one schema and some of the claims and statements.
struct Topic {
    schema: &'static str,
    claims: &'static [&'static str],
    statements: &'static [&'static str],
}

const TOPICS: [Topic; 4] = [
    Topic {
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL DEFAULT '{}', n integer NOT NULL DEFAULT 0",
        claims: &[
            "1 <> ALL (items)",
            "1 = ANY (items)",
            "cardinality(items) = 1",
            "cardinality(items) <= 1",
            "cardinality(items) > 0",
            "items[1] = 1",
            "items @> ARRAY[1]",
            "NOT items @> ARRAY[2]",
            "array_position(items, NULL) IS NULL",
            "n >= 0",
        ],
        statements: &[
            "INSERT INTO list (id, items) VALUES (p, ARRAY[m]);",
            "INSERT INTO list (id) VALUES (p);",
            "DELETE FROM list WHERE id = p;",
            "UPDATE list SET items = array_append(items, q) WHERE id = p;",
            "UPDATE list SET items = array_prepend(m, items) WHERE id = p;",
            "UPDATE list SET items = array_remove(items, m) WHERE id = p;",
            "UPDATE list SET items = array_append(array_remove(items, q), m) WHERE id = p;",
            "UPDATE list SET items = ARRAY[m] WHERE id = p;",
            "UPDATE list SET items = '{}', n = n + 1 WHERE id = p;",
            "IF m <> 1 THEN UPDATE list SET items = array_append(items, m) WHERE id = p; END IF;",
        ],
    },
    Topic {
        schema: "CREATE TABLE sale (id integer PRIMARY KEY, top integer NOT NULL DEFAULT 0, low integer);
CREATE TABLE bid (id serial PRIMARY KEY, sale integer NOT NULL REFERENCES sale (id), amount integer NOT NULL);",
        claims: &[
            "NOT EXISTS (SELECT 1 FROM sale WHERE top <> coalesce((SELECT max(amount) FROM bid WHERE bid.sale = sale.id), 0))",
            "NOT EXISTS (SELECT 1 FROM sale WHERE low <> (SELECT min(amount) FROM bid WHERE bid.sale = sale.id))",
            "NOT EXISTS (SELECT 1 FROM sale WHERE top > 0 AND top <> (SELECT max(amount) FROM bid WHERE bid.sale = sale.id))",
            "NOT EXISTS (SELECT 1 FROM sale JOIN bid ON bid.sale = sale.id WHERE bid.amount > sale.top)",
        ],
        statements: &[
            "INSERT INTO bid (sale, amount) VALUES (p, m); UPDATE sale SET top = greatest(top, m) WHERE id = p;",
            "INSERT INTO bid (sale, amount) VALUES (p, m); UPDATE sale SET top = greatest(top, m), low = least(low, m) WHERE id = p;",
            "SELECT top INTO STRICT x FROM sale WHERE id = p; INSERT INTO bid (sale, amount) VALUES (p, m);
             IF m > x THEN UPDATE sale SET top = m WHERE id = p; END IF;",
            "DELETE FROM bid WHERE id = q; SELECT coalesce(max(amount), 0) INTO x FROM bid WHERE bid.sale = p;
             UPDATE sale SET top = x WHERE id = p;",
            "DELETE FROM bid WHERE sale = p; UPDATE sale SET top = 0, low = NULL WHERE id = p;",
            "UPDATE bid SET amount = amount + m WHERE id = q; UPDATE sale SET top = greatest(top, m) WHERE id = p;",
            "INSERT INTO sale (id) VALUES (p);",
            "UPDATE sale SET top = m WHERE id = p;",
        ],
    },
    Topic {
        schema: "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0, n integer NOT NULL DEFAULT 0);
CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL);",
        claims: &[
            "NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0))",
            "NOT EXISTS (SELECT 1 FROM owner WHERE n <> (SELECT count(*) FROM item WHERE item.owner = owner.id))",
            "NOT EXISTS (SELECT 1 FROM owner WHERE total > coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0))",
        ],
        statements: &[
            "SELECT total INTO STRICT x FROM owner WHERE id = p; INSERT INTO item (id, owner, a) VALUES (q, p, m);
             UPDATE owner SET total = x + m WHERE id = p;",
            "SELECT n INTO STRICT x FROM owner WHERE id = p; INSERT INTO item (id, owner, a) VALUES (q, p, m);
             UPDATE owner SET n = x + 1 WHERE id = p;",
            "DELETE FROM item WHERE owner = p; INSERT INTO item (id, owner, a) VALUES (q, p, m); UPDATE owner SET total = m, n = 1 WHERE id = p;",
            "DELETE FROM item WHERE owner = p; UPDATE owner SET total = 0, n = 0 WHERE id = p;",
            "UPDATE item SET a = m WHERE owner = p; SELECT coalesce(sum(a), 0) INTO x FROM item WHERE owner = p;
             UPDATE owner SET total = x WHERE id = p;",
            "INSERT INTO item (id, owner, a) VALUES (q, p, m); UPDATE owner SET total = total + m, n = n + 1 WHERE id = p;",
            "DELETE FROM item WHERE id = q; SELECT coalesce(sum(a), 0) INTO x FROM item WHERE owner = p;
             UPDATE owner SET total = x WHERE id = p;",
            "INSERT INTO owner (id) VALUES (p);",
        ],
    },
    Topic {
        schema: "CREATE TABLE ward (id integer PRIMARY KEY, flag integer);
CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL, n integer NOT NULL DEFAULT 0);
CREATE TABLE shift (id integer PRIMARY KEY, doctor integer NOT NULL);",
        claims: &[
            "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND NOT EXISTS (SELECT 1 FROM doctor d
    WHERE d.ward = w.id AND EXISTS (SELECT 1 FROM shift s WHERE s.doctor = d.id)))",
            "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag = 1 AND EXISTS (SELECT 1 FROM doctor d
    WHERE d.ward = w.id AND NOT EXISTS (SELECT 1 FROM shift s WHERE s.doctor = d.id)))",
            "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag = 1 AND EXISTS (SELECT 1 FROM doctor d
    WHERE d.ward = w.id AND (SELECT count(*) FROM shift s WHERE s.doctor = d.id) > 1))",
            "NOT EXISTS (SELECT 1 FROM ward w WHERE EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.n = 2))",
            "NOT EXISTS (SELECT 1 FROM doctor d WHERE d.n = 1 AND NOT EXISTS (SELECT 1 FROM shift s WHERE s.doctor = d.id
    AND EXISTS (SELECT 1 FROM ward w WHERE w.id = d.ward)))",
        ],
        statements: &[
            "INSERT INTO ward (id, flag) VALUES (p, m);",
            "UPDATE ward SET flag = m WHERE id = p;",
            "UPDATE ward SET flag = NULL WHERE id = p;",
            "DELETE FROM ward WHERE id = p;",
            "INSERT INTO doctor (id, ward) VALUES (p, q);",
            "INSERT INTO doctor (id, ward) VALUES (p, q); INSERT INTO shift (id, doctor) VALUES (m, p);",
            "UPDATE doctor SET ward = q WHERE id = p;",
            "UPDATE doctor SET n = n + 1 WHERE id = p;",
            "UPDATE doctor SET n = m WHERE id = p;",
            "DELETE FROM doctor WHERE id = p;",
            "INSERT INTO shift (id, doctor) VALUES (p, q);",
            "UPDATE shift SET doctor = q WHERE id = p;",
            "DELETE FROM shift WHERE id = p;",
            "SELECT count(*) INTO x FROM shift WHERE doctor = q AND id <> p; IF x > 0 THEN DELETE FROM shift WHERE id = p; END IF;",
        ],
    },
];

/// The SQL of one application.
pub fn application(seed: u64) -> String {
    let mut chance = Chance::new(seed ^ 0x0070_91C5);
    let of_list = 0;
    let at = chance.below(TOPICS.len());
    let topic = &TOPICS[at];
    let mut text = topic.schema.to_owned();
    if at == of_list {
        for number in 0..1 + chance.below(2) {
            let _ = write!(text, ",\n    CONSTRAINT claim_{number} CHECK ({})", chance.pick(topic.claims));
        }
        text.push_str(");\n");
    } else {
        for number in 0..1 + chance.below(3) / 2 {
            let _ = write!(text, "\nCREATE ASSERTION claim_{number} CHECK ({});", chance.pick(topic.claims));
        }
        text.push('\n');
    }
    for number in 0..1 + chance.below(3) {
        let _ = writeln!(
            text,
            "CREATE PROCEDURE t{number}(IN p integer, IN q integer, IN m integer) LANGUAGE plpgsql AS $$\n\
             DECLARE x integer;\nBEGIN"
        );
        for _ in 0..1 + chance.below(4) / 3 {
            let _ = writeln!(text, "    {}", chance.pick(topic.statements));
        }
        text.push_str("END $$;\n");
    }
    text
}
