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

    pub fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    /// One in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
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
    "CHECK (total BETWEEN -1 AND 3)",
    "CHECK (total IN (0, 1, 3))",
    "CHECK (total <= 2 OR top > 0)",
    "CHECK (n <= top AND top <= 4)",
    "CHECK (flag IS NULL OR total > 0)",
    "CHECK (total <> n)",
];

const ITEM_CHECKS: &[&str] =
    &["CHECK (a >= 0)", "CHECK (a > 0)", "UNIQUE (owner, no)", "UNIQUE (no)", "CHECK (a <= 3)"];

/// Indexes, of which some are unique, partial or both.
const INDEXES: &[&str] = &[
    "CREATE UNIQUE INDEX item_open ON item (owner) WHERE done IS NULL;",
    "CREATE UNIQUE INDEX item_taken ON item (no) WHERE a > 1;",
    "CREATE UNIQUE INDEX owner_flag ON owner (flag);",
    "CREATE UNIQUE INDEX owner_top ON owner (top) WHERE total > 0;",
    "CREATE UNIQUE INDEX item_sum ON item ((no + a));",
    "CREATE INDEX item_of ON item (owner);",
];

/// A third table, and what can be said of the three.
const PART: &str = "CREATE TABLE part (id integer PRIMARY KEY, item integer NOT NULL";
const PART_ASSERTIONS: &[&str] = &[
    "NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(part.b) FROM item JOIN part ON part.item = item.id
        WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(item.a) FROM item JOIN part ON part.item = item.id
        WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE n <> (SELECT count(*) FROM item JOIN part ON part.item = item.id
        WHERE item.owner = owner.id))",
    "NOT EXISTS (SELECT 1 FROM item WHERE a <> coalesce((SELECT sum(b) FROM part WHERE part.item = item.id), 0))",
    "NOT EXISTS (SELECT 1 FROM item JOIN part ON part.item = item.id WHERE part.b > item.a)",
    "NOT EXISTS (SELECT 1 FROM item JOIN part ON part.item = item.id WHERE (part.done IS NULL) <> (item.done IS NULL))",
    "NOT EXISTS (SELECT 1 FROM part WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.id = part.item AND item.done IS NULL))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE flag IS NULL AND EXISTS (SELECT 1 FROM item JOIN part ON part.item = item.id
        WHERE item.owner = owner.id))",
];
const PART_PIECES: &[&str] = &[
    "INSERT INTO part (id, item, b) VALUES (q, p, m);",
    "INSERT INTO part (id, item, b) VALUES (q, q, m); UPDATE owner SET total = total + m, n = n + 1 WHERE id = p;",
    "INSERT INTO part (id, item, b) VALUES (p, q, m); UPDATE item SET a = a + m WHERE id = q;",
    "INSERT INTO item (id, owner, no, a) VALUES (q, p, q, m); INSERT INTO part (id, item, b) VALUES (q, q, m);
     UPDATE owner SET total = total + m, n = n + 1 WHERE id = p;",
    "UPDATE part SET b = b + m WHERE id = p;",
    "UPDATE part SET b = b + m WHERE id = q; UPDATE owner SET total = total + m WHERE id = p;",
    "UPDATE part SET item = q WHERE id = p;",
    "UPDATE part SET done = m WHERE id = p;",
    "UPDATE part SET done = m WHERE item = q; UPDATE item SET done = m WHERE id = q;",
    "DELETE FROM part WHERE id = p;",
    "DELETE FROM part WHERE item = q; DELETE FROM item WHERE id = q;",
];

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
    // Of some owners and some items only; joined; grouped; without coalesce.
    "NOT EXISTS (SELECT 1 FROM owner WHERE flag = 1 AND total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE n <> (SELECT count(*) FROM item WHERE item.owner = owner.id AND item.done IS NULL))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE n <> (SELECT count(done) FROM item WHERE item.owner = owner.id))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE total <> (SELECT sum(a) FROM item WHERE item.owner = owner.id))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE flag = 1 AND (SELECT count(*) FROM item WHERE item.owner = owner.id) > 1)",
    "NOT EXISTS (SELECT 1 FROM owner JOIN item ON item.owner = owner.id GROUP BY owner.id, owner.n HAVING count(*) > owner.n)",
    "NOT EXISTS (SELECT 1 FROM item GROUP BY owner HAVING count(*) > 1)",
    "NOT EXISTS (SELECT 1 FROM item GROUP BY owner HAVING sum(a) > 3)",
    "NOT EXISTS (SELECT 1 FROM owner JOIN item ON item.owner = owner.id WHERE item.a > owner.top)",
    "NOT EXISTS (SELECT 1 FROM owner JOIN item ON item.owner = owner.id WHERE item.no <> owner.next)",
    "NOT EXISTS (SELECT 1 FROM owner WHERE top <> coalesce((SELECT min(a) FROM item WHERE item.owner = owner.id), 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE flag IS NOT NULL AND NOT EXISTS (SELECT 1 FROM item WHERE item.owner = owner.id AND item.a > 0))",
    "NOT EXISTS (SELECT 1 FROM owner WHERE total < 0 AND flag IS NULL)",
    "NOT EXISTS (SELECT 1 FROM owner WHERE total + n < 0)",
    "(SELECT count(*) FROM item) <= 2",
    "(SELECT coalesce(sum(total), 0) FROM owner) = (SELECT coalesce(sum(a), 0) FROM item)",
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
    // Guarded in other ways.
    "SELECT total INTO STRICT x FROM owner WHERE id = p FOR UPDATE; IF x < m THEN RAISE EXCEPTION 'too little'; END IF;
     UPDATE owner SET total = total - m WHERE id = p;",
    "UPDATE owner SET total = total - m WHERE id = p AND total >= m;",
    "UPDATE owner SET total = total - m WHERE id = p AND total >= m RETURNING total INTO STRICT x;",
    "UPDATE owner SET n = n - 1, total = total - m WHERE id = p;",
    "SELECT n INTO STRICT x FROM owner WHERE id = p FOR UPDATE; UPDATE owner SET n = x + 1 WHERE id = p;",
    // Both, neither, or others of the columns that belong together.
    "UPDATE owner SET total = m, n = m WHERE id = p;",
    "UPDATE owner SET total = m, top = m WHERE id = p;",
    "UPDATE owner SET total = least(total, m) WHERE id = p;",
    "UPDATE owner SET total = NULL WHERE id = p;",
    "UPDATE owner SET total = greatest(total, m), top = greatest(top, m) WHERE id = p;",
    "UPDATE owner SET flag = m, total = total + 1 WHERE id = p;",
    "UPDATE owner SET next = m WHERE id = p;",
    "UPDATE item SET no = m WHERE id = q;",
    "UPDATE item SET a = greatest(a, m) WHERE id = q;",
    "UPDATE item SET done = NULL WHERE id = q;",
    "UPDATE item SET owner = p, done = m WHERE id = q;",
    "UPDATE item SET a = a + m WHERE owner = p; UPDATE owner SET total = total + m WHERE id = p;",
    "INSERT INTO item (owner, no, a, done) VALUES (p, q, m, m);",
    "INSERT INTO item (owner, no, a, done) VALUES (p, q, m, m); UPDATE owner SET flag = m WHERE id = p;",
    "INSERT INTO owner (id, flag) VALUES (p, m);",
    "INSERT INTO owner (id, total, n) VALUES (p, m, 1); INSERT INTO item (owner, no, a) VALUES (p, q, m);",
    "INSERT INTO owner (id, total) VALUES (p, m) ON CONFLICT (id) DO UPDATE SET total = owner.total + m;",
    "DELETE FROM item WHERE owner = p; UPDATE owner SET total = 0, n = 0 WHERE id = p;",
    "DELETE FROM item WHERE owner = p AND done IS NULL;",
    "UPDATE owner SET total = total - m WHERE id = p; UPDATE owner SET total = total + m WHERE id = q;",
];

/// The SQL of one application.
pub fn application(seed: u64) -> String {
    let mut chance = Chance::new(seed);
    let null = |chance: &mut Chance| if chance.one_in(5) { "" } else { " NOT NULL" };
    let mut text = format!(
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer{} DEFAULT 0, n integer NOT NULL DEFAULT 0,\n    \
         next integer NOT NULL DEFAULT 1, top integer{} DEFAULT 0, flag integer",
        null(&mut chance),
        null(&mut chance)
    );
    for number in 0..chance.below(3) {
        let _ = write!(text, ",\n    CONSTRAINT owner_{number} {}", chance.pick(CHECKS));
    }
    text.push_str(");\n");
    text.push_str(chance.pick(&[
        "CREATE TABLE item (id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, owner integer",
        "CREATE TABLE item (id serial PRIMARY KEY, owner integer",
    ]));
    text.push_str(chance.pick(&[" NOT NULL", ""]));
    if !chance.one_in(3) {
        text.push_str(" REFERENCES owner (id)");
        text.push_str(chance.pick(&["", "", "", " ON DELETE CASCADE", " ON DELETE SET NULL"]));
    }
    let _ = write!(text, ",\n    no integer NOT NULL, a integer{}, done integer", null(&mut chance));
    if chance.one_in(2) {
        let _ = write!(text, ",\n    CONSTRAINT item_0 {}", chance.pick(ITEM_CHECKS));
    }
    text.push_str(");\n");
    if chance.one_in(5) {
        let _ = writeln!(text, "{}", chance.pick(INDEXES));
    }
    let parts = chance.one_in(4);
    if parts {
        text.push_str(PART);
        text.push_str(chance.pick(&[" REFERENCES item (id)", " REFERENCES item (id) ON DELETE CASCADE", ""]));
        text.push_str(",\n    b integer NOT NULL, done integer);\n");
    }
    for number in 0..chance.below(3) {
        let of_parts = parts && chance.one_in(2);
        let claim = chance.pick(if of_parts { PART_ASSERTIONS } else { ASSERTIONS });
        let _ = writeln!(text, "CREATE ASSERTION claim_{number} CHECK ({claim});");
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
            let of_parts = parts && chance.one_in(2);
            let piece = chance.pick(if of_parts { PART_PIECES } else { PIECES });
            let _ = match chance.below(12) {
                0 => writeln!(text, "    IF m > 1 THEN {piece} END IF;"),
                1 => writeln!(text, "    IF q = 1 THEN {piece} ELSE {} END IF;", chance.pick(PIECES)),
                _ => writeln!(text, "    {piece}"),
            };
        }
        text.push_str("END $$;\n");
    }
    text
}
