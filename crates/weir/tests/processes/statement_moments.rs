//! A statement reads the rows as they were when it began, not what it has done to some of them: as on PostgreSQL, on one shard and on several.

use crate::conversation::compare;

const UPDATES: &str = "
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, up int REFERENCES t ON UPDATE CASCADE)
INSERT INTO t SELECT n, n, n % 5 + 1 FROM generate_series(1, 5) n
UPDATE t SET a = (SELECT sum(o.a) FROM t o WHERE o.id <> t.id)
SELECT id, a FROM t ORDER BY id
UPDATE t SET a = a + (SELECT count(*) FROM t o WHERE o.a < t.a) WHERE id > 1
SELECT id, a FROM t ORDER BY id
UPDATE t SET a = (SELECT max(o.a) FROM t o WHERE o.id < t.id) FROM (VALUES (2), (3), (4)) v (id) WHERE v.id = t.id
SELECT id, a FROM t ORDER BY id
CREATE TABLE p (id int PRIMARY KEY, n int)
CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON UPDATE CASCADE)
INSERT INTO p SELECT n, 0 FROM generate_series(1, 4) n
INSERT INTO c SELECT n, n % 4 + 1 FROM generate_series(1, 9) n
UPDATE p SET id = id + 10, n = (SELECT count(*) FROM c WHERE c.p <= p.id)
SELECT * FROM p ORDER BY id
SELECT * FROM c ORDER BY id
";

#[test]
fn new_values_are_worked_out_before_rows_are_written() {
    compare(UPDATES);
}
