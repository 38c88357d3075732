//! Random small applications: a schema of two tables, some of what can be declared of them, and two or three
//! procedures. One number makes one application, the same on every machine.

use std::fmt::Write as _;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        let mut chance = Chance(seed);
        // Neighbouring seeds must not walk through one and the same sequence.
        Chance(chance.next() ^ seed.rotate_left(32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    /// One in `n`.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const CHECKS: &[&str] = &[
    "CHECK (total >= 0)",
    "CHECK (total > -2)",
    "CHECK (total <= 3)",
    "CHECK (total <> 2)",
    "CHECK (total = 0)",
    "CHECK (n >= 0)",
    "CHECK (total <= top)",
    "CHECK (total + n <= 4)",
    "CHECK (top >= 0 AND top <= 5)",
    "UNIQUE (top)",
];

const ITEM_CHECKS: &[&str] =
    &["CHECK (a >= 0)", "CHECK (a > 0)", "UNIQUE (owner, no)", "UNIQUE (no)", "CHECK (a <= 3)"];

const ASSERTIONS: &[&str] = &[
    // Sums, counts, bounds of sums.
    "NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE n <> (SELECT count(*) FROM item WHERE item.owner = owner.id))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0) > 3)",
    "NOT EXISTS (SELECT 1 FROM owner WHERE coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0) < 0)",
    "NOT EXISTS (SELECT 1 FROM owner WHERE total > coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE (SELECT count(*) FROM item WHERE item.owner = owner.id) > 2)",
    // Dense numbers.
    "NOT EXISTS (SELECT 1 FROM owner WHERE next - 1 <> coalesce((SELECT max(no) FROM item WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE (SELECT max(no) - min(no) + 1 FROM item WHERE item.owner = owner.id)
        <> (SELECT count(*) FROM item WHERE item.owner = owner.id))",
    // The highest, counterparts, facts.
    "NOT EXISTS (SELECT 1 FROM owner WHERE top <> coalesce((SELECT max(a) FROM item WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM item WHERE NOT EXISTS (SELECT 1 FROM owner WHERE owner.id = item.owner))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.owner = owner.id))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE (flag IS NULL) <> EXISTS (SELECT 1 FROM item WHERE item.owner = owner.id))",
    "NOT EXISTS (SELECT 1 FROM item WHERE EXISTS (SELECT 1 FROM owner WHERE owner.id = item.owner
        AND (item.done IS NULL) <> (owner.flag IS NULL)))",
];

/// Statements of parameters `p`, `q` and `m`, and the local `x`. What belongs together is one piece, and its halves
/// are pieces too.
const PIECES: &[&str] = &[
    "INSERT INTO owner (id) VALUES (p);",
    "INSERT INTO owner (id) VALUES (p) ON CONFLICT (id) DO NOTHING;",
    "INSERT INTO owner (id, top) VALUES (p, m);",
    "DELETE FROM owner WHERE id = p;",
    "DELETE FROM item WHERE owner = p; DELETE FROM owner WHERE id = p;",
    "UPDATE owner SET total = total + m WHERE id = p;",
    "UPDATE owner SET total = total - m WHERE id = p;",
    "UPDATE owner SET total = total + m, n = n - m WHERE id = p;",
    "UPDATE owner SET total = total + 1 WHERE id = p;",
    "UPDATE owner SET total = m WHERE id = p;",
    "UPDATE owner SET total = greatest(total, m) WHERE id = p;",
    "UPDATE owner SET total = 0 WHERE id = p;",
    "UPDATE owner SET total = total * 2 WHERE id = p;",
    "UPDATE owner SET top = greatest(top, m) WHERE id = p;",
    "UPDATE owner SET top = top + m WHERE id = p;",
    "UPDATE owner SET top = m WHERE id = p;",
    "UPDATE owner SET n = n + 1 WHERE id = p;",
    "UPDATE owner SET flag = m WHERE id = p;",
    "UPDATE owner SET flag = NULL WHERE id = p;",
    "INSERT INTO item (id, owner, no, a) VALUES (q, p, q, m);",
    "INSERT INTO item (id, owner, no, a) VALUES (q, p, q, m) ON CONFLICT (id) DO NOTHING;",
    "INSERT INTO item (owner, no, a) VALUES (p, q, m);",
    "INSERT INTO item (owner, no, a) VALUES (p, q, m); UPDATE owner SET total = total + m WHERE id = p;",
    "INSERT INTO item (owner, no, a) VALUES (p, q, m); UPDATE owner SET n = n + 1 WHERE id = p;",
    "INSERT INTO item (owner, no, a) VALUES (p, q, m); UPDATE owner SET total = total + m, n = n + 1 WHERE id = p;",
    "INSERT INTO item (owner, no, a) VALUES (p, q, m); UPDATE owner SET top = greatest(top, m) WHERE id = p;",
    "UPDATE owner SET next = next + 1 WHERE id = p RETURNING next - 1 INTO STRICT x;
     INSERT INTO item (owner, no, a) VALUES (p, x, m);",
    "UPDATE owner SET next = next + 1 WHERE id = p RETURNING next - 1 INTO STRICT x;
     INSERT INTO item (id, owner, no, a) VALUES (x, p, x, m);",
    "DELETE FROM item WHERE id = q;",
    "DELETE FROM item WHERE id = q; UPDATE owner SET n = n - 1 WHERE id = p;",
    "DELETE FROM item WHERE id = q RETURNING a INTO STRICT x; UPDATE owner SET total = total - x WHERE id = p;",
    "SELECT no INTO x FROM item WHERE owner = p ORDER BY no LIMIT 1 FOR UPDATE;
     DELETE FROM item WHERE owner = p AND no = x;",
    "SELECT a INTO STRICT x FROM item WHERE id = q FOR UPDATE; DELETE FROM item WHERE id = q;
     UPDATE owner SET total = total - x, n = n - 1 WHERE id = p;",
    "UPDATE item SET a = a + m WHERE id = q;",
    "UPDATE item SET a = a + m WHERE id = q; UPDATE owner SET total = total + m WHERE id = p;",
    "UPDATE item SET a = m WHERE id = q;",
    "UPDATE item SET owner = p WHERE id = q;",
    "UPDATE item SET done = m WHERE id = q;",
    "UPDATE item SET done = m WHERE owner = p; UPDATE owner SET flag = m WHERE id = p;",
    "INSERT INTO owner (id, next) VALUES (p, 2); INSERT INTO item (owner, no, a) VALUES (p, 1, m);",
    "SELECT total INTO STRICT x FROM owner WHERE id = p; UPDATE owner SET total = x + m WHERE id = p;",
    "SELECT total INTO STRICT x FROM owner WHERE id = p; IF x < m THEN RAISE EXCEPTION 'too little'; END IF;
     UPDATE owner SET total = total - m WHERE id = p;",
];

/// The SQL of one application.
pub fn application(seed: u64) -> String {
    let mut chance = Chance::new(seed);
    let mut text = String::from(
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0, n integer NOT NULL DEFAULT 0,\n    \
         next integer NOT NULL DEFAULT 1, top integer NOT NULL DEFAULT 0, flag integer",
    );
    for number in 0..chance.below(3) {
        let _ = write!(text, ",\n    CONSTRAINT owner_{number} {}", chance.pick(CHECKS));
    }
    text.push_str(");\n");
    text.push_str(
        "CREATE TABLE item (id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, owner integer",
    );
    text.push_str(chance.pick(&[" NOT NULL", ""]));
    if !chance.one_in(3) {
        text.push_str(" REFERENCES owner (id)");
        text.push_str(chance.pick(&["", "", " ON DELETE CASCADE", " ON DELETE SET NULL"]));
    }
    text.push_str(",\n    no integer NOT NULL, a integer NOT NULL, done integer");
    if chance.one_in(2) {
        let _ = write!(text, ",\n    CONSTRAINT item_0 {}", chance.pick(ITEM_CHECKS));
    }
    text.push_str(");\n");
    for number in 0..chance.below(3) {
        let _ = writeln!(text, "CREATE ASSERTION claim_{number} CHECK ({});", chance.pick(ASSERTIONS));
    }
    for number in 0..2 + chance.below(2) {
        let _ = writeln!(
            text,
            "CREATE PROCEDURE t{number}(IN p integer, IN q integer, IN m integer) LANGUAGE plpgsql AS $$\n\
             DECLARE x integer;\nBEGIN"
        );
        if chance.one_in(2) {
            text.push_str("    IF m <= 0 THEN RAISE EXCEPTION 'not positive'; END IF;\n");
        }
        for _ in 0..1 + chance.below(2) * chance.below(2) {
            let _ = writeln!(text, "    {}", chance.pick(PIECES));
        }
        text.push_str("END $$;\n");
    }
    text
}
