//! Applications written to lead a rule astray: each has a verdict that a careless rule would call confluent.

/// Name, schema, and bodies of procedures with parameters `p`, `q` and `m`, and locals `x` and `y`.
pub const CASES: &[(&str, &str, &[&str])] = &[
    // Keys.
    (
        "a key is changed while a child comes",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id) ON UPDATE CASCADE);",
        &["UPDATE owner SET id = q WHERE id = p;", "INSERT INTO item (id, owner) VALUES (q, p);"],
    ),
    (
        "a key is changed to one that is new elsewhere",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0 CHECK (n < 3));",
        &["UPDATE owner SET id = q WHERE id = p;", "INSERT INTO owner (id) VALUES (p);"],
    ),
    (
        "a taken row's key beside one that is chosen",
        "CREATE TABLE item (id integer PRIMARY KEY); CREATE TABLE old_item (id integer PRIMARY KEY);",
        &[
            "SELECT id INTO STRICT x FROM item WHERE id = p FOR UPDATE; DELETE FROM item WHERE id = x;
             INSERT INTO old_item (id) VALUES (x);",
            "INSERT INTO old_item (id) VALUES (p);",
        ],
    ),
    (
        "rows of two tables are taken for keys of a third",
        "CREATE TABLE item (id integer PRIMARY KEY); CREATE TABLE thing (id integer PRIMARY KEY);
         CREATE TABLE old_item (id integer PRIMARY KEY);",
        &[
            "SELECT id INTO STRICT x FROM item WHERE id = p FOR UPDATE; DELETE FROM item WHERE id = x;
             INSERT INTO old_item (id) VALUES (x);",
            "SELECT id INTO STRICT x FROM thing WHERE id = p FOR UPDATE; DELETE FROM thing WHERE id = x;
             INSERT INTO old_item (id) VALUES (x);",
        ],
    ),
    (
        "a counted number beside one that is chosen",
        "CREATE TABLE owner (id integer PRIMARY KEY, next integer NOT NULL DEFAULT 1);
         CREATE TABLE item (owner integer, no integer, PRIMARY KEY (owner, no));",
        &[
            "UPDATE owner SET next = next + 1 WHERE id = p RETURNING next - 1 INTO STRICT x;
             INSERT INTO item (owner, no) VALUES (p, x);",
            "INSERT INTO item (owner, no) VALUES (p, q);",
        ],
    ),
    (
        "a counter that is set back",
        "CREATE TABLE owner (id integer PRIMARY KEY, next integer NOT NULL DEFAULT 1);
         CREATE TABLE item (owner integer, no integer, PRIMARY KEY (owner, no));",
        &[
            "UPDATE owner SET next = next + 1 WHERE id = p RETURNING next - 1 INTO STRICT x;
             INSERT INTO item (owner, no) VALUES (p, x);",
            "UPDATE owner SET next = m WHERE id = p;",
        ],
    ),
    (
        "a number from a counter that is not of the group",
        "CREATE TABLE owner (id integer PRIMARY KEY, next integer NOT NULL DEFAULT 1);
         CREATE TABLE item (no integer PRIMARY KEY, owner integer);",
        &["UPDATE owner SET next = next + 1 WHERE id = p RETURNING next - 1 INTO STRICT x;
           INSERT INTO item (owner, no) VALUES (p, x);"],
    ),
    (
        "text made of a generated number and a chosen one",
        "CREATE SEQUENCE numbers;
         CREATE TABLE person (name text PRIMARY KEY);",
        &["INSERT INTO person (name) VALUES ('u' || nextval('numbers') || p);"],
    ),
    (
        "text made of a generated number in two ways",
        "CREATE SEQUENCE numbers;
         CREATE TABLE person (name text PRIMARY KEY);",
        &[
            "INSERT INTO person (name) VALUES ('u' || nextval('numbers'));",
            "INSERT INTO person (name) VALUES ('u1' || nextval('numbers'));",
        ],
    ),
    (
        "a generated number, shortened",
        "CREATE SEQUENCE numbers;
         CREATE TABLE person (no integer PRIMARY KEY);",
        &["INSERT INTO person (no) VALUES (nextval('numbers') / 2);"],
    ),
    (
        "a generated number, negated for some",
        "CREATE SEQUENCE numbers;
         CREATE TABLE person (no integer PRIMARY KEY);",
        &[
            "INSERT INTO person (no) VALUES (abs(nextval('numbers') - 3));",
            "INSERT INTO person (no) VALUES (nextval('numbers') * 0 + 7);",
        ],
    ),
    (
        "NULL is left and entered in a unique column",
        "CREATE TABLE owner (id integer PRIMARY KEY, mark integer UNIQUE);",
        &["UPDATE owner SET mark = m WHERE id = p;", "UPDATE owner SET mark = NULL WHERE id = p;"],
    ),
    (
        "two NULLs of which one may be",
        "CREATE TABLE owner (id integer PRIMARY KEY, mark integer, UNIQUE NULLS NOT DISTINCT (mark));",
        &["UPDATE owner SET mark = NULL WHERE id = p;", "INSERT INTO owner (id) VALUES (p);"],
    ),
    (
        "a unique pair, of which each sets one",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, UNIQUE (a, b));",
        &["UPDATE owner SET a = m WHERE id = p;", "UPDATE owner SET b = m WHERE id = p;"],
    ),
    (
        "a unique column that is counted up",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL UNIQUE);",
        &["UPDATE owner SET a = a + m WHERE id = p;"],
    ),
    (
        "an upsert beside an insert",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);",
        &[
            "INSERT INTO owner (id) VALUES (p) ON CONFLICT (id) DO NOTHING;",
            "INSERT INTO owner (id, n) VALUES (p, m);",
        ],
    ),
    (
        "an upsert on one key that meets another key",
        "CREATE TABLE owner (id integer PRIMARY KEY, mark integer NOT NULL UNIQUE);",
        &["INSERT INTO owner (id, mark) VALUES (p, q) ON CONFLICT (id) DO NOTHING;"],
    ),
    (
        "an upsert that does something on every conflict",
        "CREATE TABLE owner (id integer PRIMARY KEY, mark integer NOT NULL UNIQUE);",
        &["INSERT INTO owner (id, mark) VALUES (p, q) ON CONFLICT DO NOTHING;"],
    ),
    (
        "rows are copied with INSERT SELECT",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE TABLE copy (id integer PRIMARY KEY, a integer NOT NULL);",
        &["INSERT INTO copy (id, a) SELECT id, a FROM item WHERE a <= m;", "INSERT INTO item (id, a) VALUES (p, m);"],
    ),
    // Conditions on one row.
    (
        "a NULL beside a counter",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer, CHECK (total IS NULL OR total >= 0));",
        &["UPDATE owner SET total = total - m WHERE id = p;", "UPDATE owner SET total = NULL WHERE id = p;",
          "UPDATE owner SET total = m WHERE id = p;"],
    ),
    (
        "a NULL hides what is added up",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer CHECK (total <> 3));",
        &["UPDATE owner SET total = 2 WHERE id = p;", "UPDATE owner SET total = total + 1 WHERE id = p;",
          "UPDATE owner SET total = NULL WHERE id = p;"],
    ),
    (
        "a NULL makes the sum of two columns unknown",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL, b integer, CHECK (a + b < 4));",
        &["UPDATE owner SET a = m WHERE id = p;", "UPDATE owner SET b = NULL WHERE id = p;",
          "UPDATE owner SET b = m WHERE id = p;"],
    ),
    (
        "not both NULL",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer, b integer, CHECK (a IS NOT NULL OR b IS NOT NULL));",
        &["UPDATE owner SET a = NULL WHERE id = p;", "UPDATE owner SET b = NULL WHERE id = p;"],
    ),
    (
        "NOT NULL of a column that is made of another",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL, b integer);",
        &["UPDATE owner SET a = a + b WHERE id = p;", "UPDATE owner SET b = NULL WHERE id = p;"],
    ),
    (
        "NOT NULL of a column that is computed of itself",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL);",
        &["UPDATE owner SET a = nullif(a, 2) WHERE id = p;", "UPDATE owner SET a = m WHERE id = p;"],
    ),
    (
        "NOT NULL and CASE",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);",
        &["UPDATE owner SET a = CASE WHEN b > 0 THEN a + 1 END WHERE id = p;", "UPDATE owner SET b = m WHERE id = p;"],
    ),
    (
        "CASE within SET keeps a bound",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total >= 0));",
        &["UPDATE owner SET total = CASE WHEN total >= m THEN total - m ELSE total END WHERE id = p;"],
    ),
    (
        "CASE within SET of an amount",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total >= 0));",
        &["UPDATE owner SET total = total + CASE WHEN q = 1 THEN m ELSE -m END WHERE id = p;"],
    ),
    (
        "CASE over another column",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total >= 0), kind integer NOT NULL);",
        &[
            "UPDATE owner SET total = total + CASE kind WHEN 1 THEN 1 ELSE -1 END WHERE id = p;",
            "UPDATE owner SET kind = m WHERE id = p;",
        ],
    ),
    (
        "the absolute value of a counter",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (abs(total) <= 2));",
        &["UPDATE owner SET total = total + 1 WHERE id = p;", "UPDATE owner SET total = total - 1 WHERE id = p;"],
    ),
    (
        "a remainder",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total % 3 <> 2));",
        &["UPDATE owner SET total = total + 1 WHERE id = p;"],
    ),
    (
        "a bound on the negated counter",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (-total >= -3), CHECK (0 - total < 3));",
        &["UPDATE owner SET total = total + 1 WHERE id = p;", "UPDATE owner SET total = total - 1 WHERE id = p;"],
    ),
    (
        "not below a bound",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (NOT (total > 3)));",
        &["UPDATE owner SET total = total + 1 WHERE id = p;"],
    ),
    (
        "a column against itself",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total * total <= 4));",
        &["UPDATE owner SET total = total + 1 WHERE id = p;", "UPDATE owner SET total = total - 1 WHERE id = p;"],
    ),
    (
        "a domain's bound",
        "CREATE DOMAIN amount AS integer CHECK (VALUE >= 0);
         CREATE TABLE owner (id integer PRIMARY KEY, total amount NOT NULL);",
        &["UPDATE owner SET total = total - 1 WHERE id = p;"],
    ),
    (
        "one sets both, the other raises one",
        "CREATE TABLE range (id integer PRIMARY KEY, low integer NOT NULL, high integer NOT NULL, CHECK (low <= high));",
        &["UPDATE range SET low = m, high = q WHERE id = p;", "UPDATE range SET low = greatest(low, m) WHERE id = p;"],
    ),
    (
        "a column is copied to another",
        "CREATE TABLE range (id integer PRIMARY KEY, low integer NOT NULL, high integer NOT NULL, CHECK (low <= high));",
        &["UPDATE range SET low = high WHERE id = p;", "UPDATE range SET high = high + 1 WHERE id = p;",
          "UPDATE range SET high = low WHERE id = p;"],
    ),
    (
        "columns change places",
        "CREATE TABLE range (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CHECK (a <> b));",
        &["UPDATE range SET a = b, b = a WHERE id = p;", "UPDATE range SET a = m WHERE id = p;"],
    ),
    (
        "SET NULL beside a condition on the reference",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer REFERENCES owner (id) ON DELETE SET NULL, kept integer,
                            CHECK (owner IS NOT NULL OR kept IS NOT NULL));",
        &["DELETE FROM owner WHERE id = p;", "UPDATE item SET kept = NULL WHERE id = q;", "UPDATE item SET kept = m WHERE id = q;"],
    ),
    (
        "SET DEFAULT to a row that goes",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL DEFAULT 0 REFERENCES owner (id) ON DELETE SET DEFAULT);",
        &["DELETE FROM owner WHERE id = p;", "INSERT INTO item (id, owner) VALUES (q, p);"],
    ),
    // References.
    (
        "a tree",
        "CREATE TABLE node (id integer PRIMARY KEY, parent integer REFERENCES node (id));",
        &["INSERT INTO node (id, parent) VALUES (q, p);", "DELETE FROM node WHERE id = p;"],
    ),
    (
        "a node changes its parent",
        "CREATE TABLE node (id integer PRIMARY KEY, parent integer REFERENCES node (id));",
        &["UPDATE node SET parent = p WHERE id = q;", "DELETE FROM node WHERE id = p;"],
    ),
    (
        "a tree that goes by CASCADE",
        "CREATE TABLE node (id integer PRIMARY KEY, parent integer REFERENCES node (id) ON DELETE CASCADE);
         CREATE TABLE leaf (id integer PRIMARY KEY, node integer NOT NULL REFERENCES node (id));",
        &["DELETE FROM node WHERE id = p;", "INSERT INTO leaf (id, node) VALUES (p, q);"],
    ),
    (
        "no node is its own grandparent",
        "CREATE TABLE node (id integer PRIMARY KEY, parent integer REFERENCES node (id));
         CREATE ASSERTION no_circle CHECK (NOT EXISTS (SELECT 1 FROM node a JOIN node b ON b.id = a.parent WHERE b.parent = a.id));",
        &["UPDATE node SET parent = q WHERE id = p;"],
    ),
    (
        "a reference of two columns, half of it NULL",
        "CREATE TABLE owner (a integer, b integer, PRIMARY KEY (a, b));
         CREATE TABLE item (id integer PRIMARY KEY, a integer, b integer, FOREIGN KEY (a, b) REFERENCES owner (a, b));",
        &["UPDATE item SET a = p WHERE id = q;", "UPDATE item SET b = p WHERE id = q;", "DELETE FROM owner WHERE a = p AND b = q;"],
    ),
    (
        "two columns of one reference, set apart",
        "CREATE TABLE owner (a integer, b integer, PRIMARY KEY (a, b));
         CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, FOREIGN KEY (a, b) REFERENCES owner (a, b));",
        &["UPDATE item SET a = p WHERE id = q;", "UPDATE item SET b = p WHERE id = q;"],
    ),
    (
        "a reference that is counted up",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id));",
        &["UPDATE item SET owner = owner + 1 WHERE id = q;", "UPDATE item SET owner = owner - 1 WHERE id = q;"],
    ),
    (
        "a reference to a unique column that changes",
        "CREATE TABLE owner (id integer PRIMARY KEY, mark integer NOT NULL UNIQUE);
         CREATE TABLE item (id integer PRIMARY KEY, mark integer NOT NULL REFERENCES owner (mark));",
        &["UPDATE owner SET mark = m WHERE id = p;", "INSERT INTO item (id, mark) VALUES (p, q);"],
    ),
    (
        "a parent that is deleted and inserted anew",
        "CREATE TABLE owner (id integer PRIMARY KEY, a integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id));",
        &["DELETE FROM owner WHERE id = p; INSERT INTO owner (id) VALUES (q);", "INSERT INTO item (id, owner) VALUES (q, p);"],
    ),
    (
        "what belongs to a row goes by CASCADE, and its count is elsewhere",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id) ON DELETE CASCADE);
         CREATE TABLE tally (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM tally WHERE n <> (SELECT count(*) FROM item)));",
        &["DELETE FROM owner WHERE id = p; UPDATE tally SET n = (SELECT count(*) FROM item);",
          "INSERT INTO item (owner) VALUES (p); UPDATE tally SET n = n + 1;"],
    ),
    // Which rows, and how many.
    (
        "a row without order",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE TABLE tally (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM tally WHERE n <> (SELECT count(*) FROM item)));",
        &["SELECT id INTO STRICT x FROM item LIMIT 1; DELETE FROM item WHERE id = x; UPDATE tally SET n = n - 1;",
          "INSERT INTO item (id, a) VALUES (p, m); UPDATE tally SET n = n + 1;"],
    ),
    (
        "a row is taken if it is there",
        "CREATE TABLE item (id integer PRIMARY KEY, done integer);
         CREATE TABLE tally (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM tally WHERE n <> (SELECT count(*) FROM item WHERE done IS NULL)));",
        &["UPDATE item SET done = m WHERE id = p AND done IS NULL; IF FOUND THEN UPDATE tally SET n = n - 1; END IF;",
          "INSERT INTO item (id) VALUES (p); UPDATE tally SET n = n + 1;"],
    ),
    (
        "the count of what an upsert has put in",
        "CREATE TABLE item (id integer PRIMARY KEY);
         CREATE TABLE tally (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM tally WHERE n <> (SELECT count(*) FROM item)));",
        &["INSERT INTO item (id) VALUES (p) ON CONFLICT (id) DO NOTHING; IF FOUND THEN UPDATE tally SET n = n + 1; END IF;"],
    ),
    (
        "UPDATE FROM adds once however many rows match",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL);
         CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL, a integer NOT NULL);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner
             WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));",
        &["UPDATE owner SET total = total + item.a FROM item WHERE item.owner = owner.id AND item.id = q;",
          "INSERT INTO item (owner, a) VALUES (p, m); UPDATE owner SET total = total + m WHERE id = p;"],
    ),
    (
        "a total is computed anew",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL);
         CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL, a integer NOT NULL);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner
             WHERE total <> coalesce((SELECT sum(a) FROM item WHERE item.owner = owner.id), 0)));",
        &["INSERT INTO item (owner, a) VALUES (p, m);
           UPDATE owner SET total = (SELECT coalesce(sum(a), 0) FROM item WHERE owner = p) WHERE id = p;"],
    ),
    (
        "everybody's bonus is counted once",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL);
         CREATE TABLE tally (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE ASSERTION together CHECK (NOT EXISTS (SELECT 1 FROM tally WHERE n <> (SELECT coalesce(sum(total), 0) FROM owner)));",
        &["UPDATE owner SET total = total + 1; SELECT count(*) INTO x FROM owner; UPDATE tally SET n = n + x;",
          "INSERT INTO owner (id, total) VALUES (p, m); UPDATE tally SET n = n + m;"],
    ),
    (
        "an amount that a variable has lost its sign in",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total >= 0));",
        &["IF m <= 0 THEN RAISE EXCEPTION 'not positive'; END IF; m := m - 5; UPDATE owner SET total = total + m WHERE id = p;"],
    ),
    (
        "an amount that a loop turns round",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total >= 0));",
        &["IF m <= 0 THEN RAISE EXCEPTION 'not positive'; END IF;
           FOR i IN 1..2 LOOP UPDATE owner SET total = total + m WHERE id = p; m := m - 2; END LOOP;"],
    ),
    (
        "an amount tested in one branch of two",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL CHECK (total >= 0));",
        &["IF q = 1 THEN IF m <= 0 THEN RAISE EXCEPTION 'not positive'; END IF; END IF;
           UPDATE owner SET total = total + m WHERE id = p;"],
    ),
    (
        "a NULL amount passes the test",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer CHECK (total > 0), n integer NOT NULL DEFAULT 1);",
        &["IF m <= 0 THEN RAISE EXCEPTION 'not positive'; END IF; UPDATE owner SET total = total + m WHERE id = p;",
          "UPDATE owner SET total = m WHERE id = p;"],
    ),
    // Assertions in unusual words.
    (
        "a left join that finds nobody",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL);
         CREATE ASSERTION owned CHECK (NOT EXISTS (SELECT 1 FROM item LEFT JOIN owner ON owner.id = item.owner WHERE owner.id IS NULL));",
        &["INSERT INTO item (id, owner) VALUES (q, p);", "DELETE FROM owner WHERE id = p;"],
    ),
    (
        "a full join of two tables",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY);
         CREATE ASSERTION both_or_none CHECK (NOT EXISTS (SELECT 1 FROM item FULL JOIN owner ON owner.id = item.id
             WHERE owner.id IS NULL OR item.id IS NULL));",
        &["INSERT INTO item (id) VALUES (p); INSERT INTO owner (id) VALUES (p);", "DELETE FROM owner WHERE id = p; DELETE FROM item WHERE id = p;"],
    ),
    (
        "a left join and what it counts",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM owner LEFT JOIN item ON item.owner = owner.id
             GROUP BY owner.id, owner.n HAVING count(item.id) <> owner.n));",
        &["INSERT INTO item (id, owner) VALUES (q, p); UPDATE owner SET n = n + 1 WHERE id = p;",
          "DELETE FROM item WHERE id = q; UPDATE owner SET n = n - 1 WHERE id = p;"],
    ),
    (
        "no third row",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION two CHECK (NOT EXISTS (SELECT 1 FROM item OFFSET 2));",
        &["INSERT INTO item (id, a) VALUES (p, m);"],
    ),
    (
        "the lowest is not too high",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION low CHECK (NOT EXISTS (SELECT 1 FROM (SELECT a FROM item ORDER BY a LIMIT 1) lowest WHERE lowest.a > 1));",
        &["DELETE FROM item WHERE id = p;", "UPDATE item SET a = m WHERE id = p;"],
    ),
    (
        "the first of each group",
        "CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL, a integer NOT NULL);
         CREATE ASSERTION low CHECK (NOT EXISTS (SELECT 1 FROM (SELECT DISTINCT ON (owner) owner, a FROM item ORDER BY owner, a) lowest
             WHERE lowest.a > 1));",
        &["DELETE FROM item WHERE id = p;"],
    ),
    (
        "as many as there are different",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION different CHECK ((SELECT count(DISTINCT a) FROM item) = (SELECT count(*) FROM item));",
        &["INSERT INTO item (id, a) VALUES (p, m);"],
    ),
    (
        "not in",
        "CREATE TABLE owner (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL);
         CREATE ASSERTION owned CHECK (NOT EXISTS (SELECT 1 FROM item WHERE owner NOT IN (SELECT id FROM owner)));",
        &["INSERT INTO item (id, owner) VALUES (q, p);", "DELETE FROM owner WHERE id = p;"],
    ),
    (
        "all of them",
        "CREATE TABLE owner (id integer PRIMARY KEY, cap integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION capped CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE cap < ANY (SELECT a FROM item)));",
        &["INSERT INTO item (id, a) VALUES (q, m);", "INSERT INTO owner (id, cap) VALUES (p, m);", "UPDATE owner SET cap = m WHERE id = p;"],
    ),
    (
        "there is somebody",
        "CREATE TABLE admin (id integer PRIMARY KEY, kind integer NOT NULL);
         CREATE ASSERTION somebody CHECK (EXISTS (SELECT 1 FROM admin WHERE kind = 1));",
        &["DELETE FROM admin WHERE id = p;", "UPDATE admin SET kind = m WHERE id = p;"],
    ),
    (
        "one is at work",
        "CREATE TABLE doctor (id integer PRIMARY KEY, on_call boolean NOT NULL);
         CREATE ASSERTION one_is CHECK ((SELECT count(*) FROM doctor WHERE on_call) >= 1);",
        &["UPDATE doctor SET on_call = false WHERE id = p;"],
    ),
    (
        "none is in both",
        "CREATE TABLE guest (id integer PRIMARY KEY);
         CREATE TABLE host (id integer PRIMARY KEY);
         CREATE ASSERTION apart CHECK (NOT EXISTS (SELECT id FROM guest INTERSECT SELECT id FROM host));",
        &["INSERT INTO guest (id) VALUES (p);", "INSERT INTO host (id) VALUES (p);"],
    ),
    (
        "none is in one only",
        "CREATE TABLE guest (id integer PRIMARY KEY);
         CREATE TABLE host (id integer PRIMARY KEY);
         CREATE ASSERTION apart CHECK (NOT EXISTS (SELECT id FROM guest EXCEPT SELECT id FROM host));",
        &["INSERT INTO guest (id) VALUES (p);", "DELETE FROM host WHERE id = p;"],
    ),
    (
        "numbers of a series are there",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY);
         CREATE ASSERTION series CHECK (NOT EXISTS (SELECT 1 FROM owner, generate_series(1, owner.n) g(no)
             WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.id = g.no)));",
        &["UPDATE owner SET n = n + 1 WHERE id = p;", "DELETE FROM item WHERE id = p;"],
    ),
    (
        "a view's rows",
        "CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL, a integer NOT NULL);
         CREATE VIEW totals AS SELECT owner, sum(a) AS total FROM item GROUP BY owner;
         CREATE ASSERTION small CHECK (NOT EXISTS (SELECT 1 FROM totals WHERE total > 3));",
        &["INSERT INTO item (id, owner, a) VALUES (q, p, m);", "UPDATE item SET a = a + 1 WHERE id = q;"],
    ),
    (
        "two rows of one table",
        "CREATE TABLE booking (id integer PRIMARY KEY, room integer NOT NULL, starts integer NOT NULL, ends integer NOT NULL);
         CREATE ASSERTION no_overlap CHECK (NOT EXISTS (SELECT 1 FROM booking a JOIN booking b ON a.room = b.room AND a.id <> b.id
             WHERE a.starts < b.ends AND b.starts < a.ends));",
        &["INSERT INTO booking (id, room, starts, ends) VALUES (q, 1, p, m);"],
    ),
    (
        "a bill's customer is its order's",
        "CREATE TABLE sale (id integer PRIMARY KEY, customer integer NOT NULL);
         CREATE TABLE bill (id integer PRIMARY KEY, sale integer NOT NULL REFERENCES sale (id), customer integer NOT NULL);
         CREATE ASSERTION same CHECK (NOT EXISTS (SELECT 1 FROM bill JOIN sale ON sale.id = bill.sale WHERE sale.customer <> bill.customer));",
        &["INSERT INTO bill (id, sale, customer) SELECT q, id, customer FROM sale WHERE id = p;",
          "UPDATE sale SET customer = m WHERE id = p; UPDATE bill SET customer = m WHERE sale = p;"],
    ),
    (
        "no open item of a closed owner",
        "CREATE TABLE owner (id integer PRIMARY KEY, closed boolean NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), open boolean NOT NULL);
         CREATE ASSERTION all_closed CHECK (NOT EXISTS (SELECT 1 FROM owner JOIN item ON item.owner = owner.id WHERE owner.closed AND item.open));",
        &["UPDATE owner SET closed = true WHERE id = p;", "INSERT INTO item (id, owner, open) VALUES (q, p, true);",
          "UPDATE item SET open = true WHERE id = q;"],
    ),
    (
        "totals over two levels",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL);
         CREATE TABLE bill (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id));
         CREATE TABLE line (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, bill integer NOT NULL REFERENCES bill (id), a integer NOT NULL);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(line.a)
             FROM bill JOIN line ON line.bill = bill.id WHERE bill.owner = owner.id), 0)));",
        &["INSERT INTO line (bill, a) VALUES (q, m); UPDATE owner SET total = total + m WHERE id = (SELECT owner FROM bill WHERE id = q);",
          "UPDATE bill SET owner = p WHERE id = q;"],
    ),
    (
        "a group without rows is not compared",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id));
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM owner JOIN item ON item.owner = owner.id
             GROUP BY owner.id, owner.n HAVING count(*) <> owner.n));",
        &["INSERT INTO item (owner) VALUES (p); UPDATE owner SET n = n + 1 WHERE id = p;", "UPDATE owner SET n = n + m WHERE id = p;"],
    ),
    (
        "a sum in a derived table",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner JOIN (SELECT item.owner AS of, sum(a) AS s FROM item GROUP BY item.owner) g
             ON g.of = owner.id WHERE g.s <> owner.total));",
        &["INSERT INTO item (owner, a) VALUES (p, m); UPDATE owner SET total = total + m WHERE id = p;",
          "UPDATE owner SET total = total + m WHERE id = p;"],
    ),
    (
        "a sum of values that may all be NULL",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), a integer);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(a)
             FROM item WHERE item.owner = owner.id), 0)));",
        &["UPDATE item SET a = a + m WHERE id = q; UPDATE owner SET total = total + m WHERE id = p;",
          "INSERT INTO item (id, owner, a) VALUES (q, p, m); UPDATE owner SET total = total + m WHERE id = p;"],
    ),
    (
        "a count of what may be NULL",
        "CREATE TABLE owner (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), a integer);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE n <> (SELECT count(a) FROM item WHERE item.owner = owner.id)));",
        &["INSERT INTO item (id, owner, a) VALUES (q, p, m); UPDATE owner SET n = n + 1 WHERE id = p;", "UPDATE item SET a = a + m WHERE id = q;",
          "UPDATE item SET a = m WHERE id = q AND a IS NOT NULL;"],
    ),
    (
        "a sum with FILTER",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), a integer NOT NULL, kind integer NOT NULL);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(a) FILTER (WHERE kind = 1)
             FROM item WHERE item.owner = owner.id), 0)));",
        &["UPDATE item SET a = a + m WHERE id = q AND kind = 1; IF FOUND THEN UPDATE owner SET total = total + m WHERE id = p; END IF;",
          "UPDATE item SET kind = m WHERE id = q;"],
    ),
    (
        "prices times numbers",
        "CREATE TABLE owner (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
         CREATE TABLE item (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner (id), n integer NOT NULL, price integer NOT NULL);
         CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT 1 FROM owner WHERE total <> coalesce((SELECT sum(n * price)
             FROM item WHERE item.owner = owner.id), 0)));",
        &["SELECT price INTO STRICT x FROM item WHERE id = q; UPDATE item SET n = n + m WHERE id = q; UPDATE owner SET total = total + m * x WHERE id = p;",
          "SELECT n INTO STRICT x FROM item WHERE id = q; UPDATE item SET price = price + m WHERE id = q; UPDATE owner SET total = total + m * x WHERE id = p;"],
    ),
    (
        "the largest minus the smallest",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION near CHECK ((SELECT max(a) - min(a) FROM item) <= 2);",
        &["INSERT INTO item (id, a) VALUES (p, m);", "UPDATE item SET a = a + m WHERE id = p;"],
    ),
    (
        "an average",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION middling CHECK ((SELECT avg(a) FROM item) <= 1);",
        &["DELETE FROM item WHERE id = p;", "INSERT INTO item (id, a) VALUES (p, m);"],
    ),
    (
        "two facts of one row, or neither",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer, b integer);
         CREATE ASSERTION together CHECK (NOT EXISTS (SELECT 1 FROM item WHERE (a IS NULL) <> (b IS NULL)));",
        &["UPDATE item SET a = m, b = m WHERE id = p;", "UPDATE item SET a = NULL, b = NULL WHERE id = p;"],
    ),
    (
        "an implication in other words",
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);
         CREATE ASSERTION implied CHECK (NOT EXISTS (SELECT 1 FROM item WHERE NOT (a <= 0 OR b > 0)));",
        &["UPDATE item SET a = m WHERE id = p;", "UPDATE item SET b = m WHERE id = p;"],
    ),
    (
        "a constant that is not",
        "CREATE TABLE setting (id integer PRIMARY KEY, cap integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE ASSERTION capped CHECK (NOT EXISTS (SELECT 1 FROM item WHERE a > (SELECT cap FROM setting WHERE id = 1)));",
        &["UPDATE setting SET cap = m WHERE id = 1;", "INSERT INTO item (id, a) VALUES (p, m);", "UPDATE item SET a = a + 1 WHERE id = p;"],
    ),
    // Facts that rest on several rows, on other tables, or on what only the merge has.
    (
        "someone is on call",
        "CREATE TABLE ward (id integer PRIMARY KEY);
         CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL REFERENCES ward (id), on_call boolean NOT NULL DEFAULT true);
         CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM ward w WHERE EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id)
             AND NOT EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.on_call)));",
        &["SELECT a.id INTO x FROM doctor a JOIN doctor b ON b.ward = a.ward WHERE a.id = p AND b.id = q AND b.on_call AND a.id <> b.id;
           IF x IS NOT NULL THEN UPDATE doctor SET on_call = false WHERE id = p; END IF;"],
    ),
    (
        "whoever has doctors has one on call",
        "CREATE TABLE ward (id integer PRIMARY KEY);
         CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL, on_call boolean NOT NULL DEFAULT true);
         CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM ward w WHERE EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id)
             <> EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.on_call)));",
        &["UPDATE doctor SET on_call = false WHERE id = p;", "INSERT INTO doctor (id, ward, on_call) VALUES (q, p, m = 1);"],
    ),
    (
        "who has no boss is alone",
        "CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL, boss integer);
         CREATE ASSERTION alone CHECK (NOT EXISTS (SELECT 1 FROM doctor d WHERE d.boss IS NULL AND EXISTS (SELECT 1 FROM doctor e
             WHERE e.ward = d.ward AND e.id <> d.id)));",
        &["INSERT INTO doctor (id, ward) VALUES (p, q);"],
    ),
    (
        "a doctor with a shift",
        "CREATE TABLE ward (id integer PRIMARY KEY, flag integer);
         CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL);
         CREATE TABLE shift (id integer PRIMARY KEY, doctor integer NOT NULL);
         CREATE ASSERTION at_work CHECK (NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND NOT EXISTS (SELECT 1 FROM doctor d
             WHERE d.ward = w.id AND EXISTS (SELECT 1 FROM shift s WHERE s.doctor = d.id))));",
        &["DELETE FROM shift WHERE id = p;", "INSERT INTO ward (id, flag) VALUES (p, 1);"],
    ),
    (
        "who has a second shift has a doctor",
        "CREATE TABLE doctor (id integer PRIMARY KEY);
         CREATE TABLE shift (id integer PRIMARY KEY, doctor integer NOT NULL);
         CREATE ASSERTION known CHECK (NOT EXISTS (SELECT 1 FROM (SELECT doctor FROM shift GROUP BY doctor) g WHERE NOT EXISTS (SELECT 1
             FROM doctor d WHERE d.id = g.doctor)));",
        &["DELETE FROM doctor WHERE id = p;", "INSERT INTO shift (id, doctor) VALUES (p, q);"],
    ),
    (
        "one that is counted up to needing a counterpart",
        "CREATE TABLE doctor (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
         CREATE TABLE shift (id integer PRIMARY KEY, doctor integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM doctor d WHERE d.n = 2 AND NOT EXISTS (SELECT 1 FROM shift s
             WHERE s.doctor = d.id)));",
        &["UPDATE doctor SET n = n + 1 WHERE id = p;"],
    ),
    (
        "a row that two changes select",
        "CREATE TABLE ward (id integer PRIMARY KEY, flag integer);
         CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL REFERENCES ward (id), a integer NOT NULL DEFAULT 0,
             b integer NOT NULL DEFAULT 0);
         CREATE ASSERTION both CHECK (NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND EXISTS (SELECT 1 FROM doctor d
             WHERE d.ward = w.id AND d.a = 1 AND d.b = 1)));",
        &["UPDATE doctor SET a = m WHERE id = p;", "UPDATE doctor SET b = m WHERE id = p;"],
    ),
    (
        "the halves of a join go one by one",
        "CREATE TABLE ward (id integer PRIMARY KEY, flag integer);
         CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL);
         CREATE TABLE shift (id integer PRIMARY KEY, doctor integer NOT NULL);
         CREATE ASSERTION at_work CHECK (NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND NOT EXISTS (SELECT 1 FROM doctor d
             JOIN shift s ON s.doctor = d.id WHERE d.ward = w.id)));",
        &["DELETE FROM doctor WHERE id = p;", "DELETE FROM shift WHERE id = p;"],
    ),
];
