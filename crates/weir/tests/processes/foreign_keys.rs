//! Foreign keys whose parents and children live on different shards: they are what they are on PostgreSQL, on one shard and on several.

use crate::alone::Alone;
use crate::conversation::{answer, compare};

/// Columns of a foreign key are set by everything that sets columns.
const PARENTS: &str = r#"
CREATE TABLE dept (id int PRIMARY KEY, name text)
CREATE TABLE emp (id int PRIMARY KEY, dept int DEFAULT 3 REFERENCES dept, boss int REFERENCES emp, pay int NOT NULL DEFAULT 0)
INSERT INTO dept SELECT n, 'd' || n FROM generate_series(1, 9) n
INSERT INTO emp (id, dept) SELECT n, n FROM generate_series(1, 9) n
INSERT INTO emp (id, dept) SELECT n, n FROM generate_series(9, 10) n WHERE n > 9
INSERT INTO emp (id, dept) SELECT 11, 11
INSERT INTO emp (id) VALUES (30)
INSERT INTO emp (id) SELECT 31
ALTER TABLE emp ALTER dept SET DEFAULT 33
INSERT INTO emp (id) VALUES (32)
INSERT INTO emp (id) SELECT 32
ALTER TABLE emp ALTER dept SET DEFAULT 3
UPDATE emp SET dept = 7 WHERE id = 1
UPDATE emp SET dept = 77 WHERE id = 1
UPDATE emp SET dept = 77 WHERE id = 1 AND pay > 5
? UPDATE emp SET dept = 10 - dept WHERE id BETWEEN 1 AND 9
? UPDATE emp SET dept = dept + 1 WHERE id = 30
UPDATE emp SET dept = NULL WHERE id = 2
? UPDATE emp SET dept = dept
UPDATE emp SET boss = 1 WHERE id > 1
UPDATE emp SET boss = 100 WHERE id = 3
? UPDATE emp SET boss = id, pay = pay + 1
INSERT INTO emp (id, dept) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET dept = excluded.dept
INSERT INTO emp (id, dept) VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET dept = 88
INSERT INTO emp (id, dept) VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET dept = excluded.dept + 1 RETURNING dept
INSERT INTO emp (id, boss) SELECT 40, 41
INSERT INTO emp (id, boss) SELECT 41, 41
INSERT INTO emp (id, boss) SELECT n, CASE n WHEN 50 THEN 51 ELSE 50 END FROM generate_series(50, 51) n
INSERT INTO emp (id, boss) VALUES (60, 61), (61, 62), (62, 60)
INSERT INTO emp (id, boss) VALUES (63, 64), (64, 65)
SELECT id, dept, boss, pay FROM emp ORDER BY id
BEGIN
INSERT INTO dept VALUES (20, 'new')
UPDATE emp SET dept = 20 WHERE id = 5
SAVEPOINT s
UPDATE emp SET dept = 21 WHERE id = 6
ROLLBACK TO s
INSERT INTO emp (id, dept) SELECT 70, 20
COMMIT
SELECT id FROM emp WHERE dept = 20 ORDER BY id
CREATE PROCEDURE move_to(e int, d int) LANGUAGE plpgsql AS $$ BEGIN UPDATE emp SET dept = d WHERE id = e; UPDATE emp SET pay = pay + 1 WHERE id = e; END $$
CALL move_to(5, 6)
CALL move_to(5, 66)
CALL move_to(55, 66)
SELECT id, dept, pay FROM emp WHERE id = 5
CREATE PROCEDURE hire(e int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO emp (id, dept) SELECT e, d.id FROM dept d WHERE d.id = 2; DELETE FROM emp WHERE id = e; END $$
? CALL hire(80)
SELECT count(*) FROM emp
WITH moved AS (UPDATE emp SET dept = 2 WHERE id = 7 RETURNING id) INSERT INTO emp (id, dept) SELECT id + 100, 9 FROM moved
WITH moved AS (UPDATE emp SET dept = 2 WHERE id = 7 RETURNING id) INSERT INTO emp (id, dept) SELECT id + 200, 99 FROM moved
SELECT id, dept FROM emp WHERE id IN (7, 107, 207) ORDER BY id
"#;

#[test]
fn parents_are_looked_for_as_by_postgresql() {
    compare(PARENTS);
}

/// Parents are referred to by a key that does not say where they live.
const KEYS: &str = r#"
CREATE TABLE usr (id int PRIMARY KEY, mail text NOT NULL UNIQUE, a int, b int, UNIQUE (a, b))
CREATE TABLE note (id int PRIMARY KEY, mail text REFERENCES usr (mail), b int, a int, FOREIGN KEY (b, a) REFERENCES usr (b, a))
INSERT INTO usr SELECT n, 'm' || n, n % 3, n FROM generate_series(1, 12) n
INSERT INTO note (id, mail) VALUES (1, 'm1'), (2, 'm2'), (3, 'm3'), (4, 'm4'), (5, NULL)
INSERT INTO note (id, mail) VALUES (6, 'm13')
INSERT INTO note (id, mail) SELECT 10 + n, 'm' || n FROM generate_series(5, 12) n
INSERT INTO note (id, mail) SELECT 30, 'm0'
INSERT INTO note (id, a, b) VALUES (40, 1, 4), (41, 2, 5), (42, 0, 6), (43, NULL, 5)
INSERT INTO note (id, a, b) VALUES (44, 1, 5)
UPDATE note SET mail = 'm7' WHERE id = 1
UPDATE note SET mail = 'm77' WHERE id = 1
UPDATE note SET a = 1, b = 10 WHERE id = 40
? UPDATE note SET a = 2 WHERE id = 40
INSERT INTO note (id, mail) VALUES (1, 'm9') ON CONFLICT (id) DO UPDATE SET mail = 'm8'
INSERT INTO note (id, mail) VALUES (1, 'm9') ON CONFLICT (id) DO UPDATE SET mail = 'm88'
DELETE FROM usr WHERE mail = 'm1'
DELETE FROM usr WHERE id = 2
UPDATE usr SET mail = 'n2' WHERE id = 2
UPDATE usr SET a = 7 WHERE id = 10
UPDATE usr SET a = a, b = b, mail = mail
INSERT INTO usr VALUES (1, 'm1', NULL, 1)
INSERT INTO note (id, mail) VALUES (60, 'm1')
SELECT * FROM note ORDER BY id
SELECT * FROM usr ORDER BY id
BEGIN
INSERT INTO usr VALUES (100, 'x', 100, 100)
INSERT INTO note (id, mail) VALUES (100, 'x')
SAVEPOINT s
DELETE FROM usr WHERE id = 100
ROLLBACK TO s
UPDATE note SET mail = NULL WHERE id = 100
DELETE FROM usr WHERE id = 100
INSERT INTO usr VALUES (101, 'x', 100, 100)
UPDATE note SET mail = 'x' WHERE id = 100
COMMIT
SELECT u.id, n.id FROM usr u JOIN note n ON n.mail = u.mail WHERE u.mail = 'x'
CREATE TABLE tag (id int PRIMARY KEY, mail text REFERENCES usr (mail) ON DELETE CASCADE ON UPDATE CASCADE)
CREATE TABLE tagged (id int PRIMARY KEY, tag int NOT NULL REFERENCES tag ON DELETE CASCADE)
DELETE FROM note
INSERT INTO tag SELECT n, 'm' || (n % 12 + 1) FROM generate_series(1, 30) n
INSERT INTO tag SELECT n, 'm' || (n % 12 + 1) FROM generate_series(31, 40) n WHERE n % 12 > 1
SELECT count(*) FROM tag
INSERT INTO tagged SELECT 1000 + id, id FROM tag
UPDATE usr SET mail = 'big' WHERE mail = 'm3'
SELECT id, mail FROM tag WHERE mail IN ('m3', 'big') ORDER BY id
UPDATE usr SET mail = CASE mail WHEN 'm4' THEN 'm5x' ELSE 'm4x' END WHERE mail IN ('m4', 'm5')
SELECT mail, count(*) FROM tag GROUP BY mail ORDER BY mail
DELETE FROM usr WHERE mail = 'big'
SELECT mail, count(*) FROM tag GROUP BY mail ORDER BY mail
SELECT count(*) FROM tagged
DELETE FROM usr WHERE a = 0
SELECT count(*) FROM tagged
SELECT count(*) FROM tag
TRUNCATE tagged, tag, note
DROP TABLE tagged
DROP TABLE tag
DELETE FROM usr
SELECT count(*) FROM usr
"#;

#[test]
fn keys_that_say_no_home_are_referred_to_as_by_postgresql() {
    compare(KEYS);
}

/// What becomes of children when their parents go or get other keys.
const CHILDREN: &str = r#"
CREATE TABLE p (id int PRIMARY KEY, k int)
CREATE TABLE plain (id int PRIMARY KEY, p int REFERENCES p)
CREATE TABLE kept (id int PRIMARY KEY, p int REFERENCES p ON DELETE RESTRICT ON UPDATE RESTRICT)
CREATE TABLE gone (id int PRIMARY KEY, p int NOT NULL REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE)
CREATE TABLE deeper (id int PRIMARY KEY, g int NOT NULL REFERENCES gone ON DELETE CASCADE)
CREATE TABLE blank (id int PRIMARY KEY, p int REFERENCES p ON DELETE SET NULL, q int UNIQUE)
INSERT INTO p SELECT n, n FROM generate_series(1, 20) n
INSERT INTO plain VALUES (1, 1), (2, 2), (3, NULL)
INSERT INTO kept VALUES (1, 3), (2, 4)
INSERT INTO gone SELECT 10 * n + m, n FROM generate_series(5, 12) n, generate_series(1, 3) m
INSERT INTO deeper SELECT 1000 + id, id FROM gone
INSERT INTO blank SELECT n, 5 + n % 8, n FROM generate_series(1, 16) n
DELETE FROM p WHERE id = 1
DELETE FROM p WHERE id = 2
DELETE FROM p WHERE id = 3
DELETE FROM p WHERE id = 20
DELETE FROM p WHERE id = 5
SELECT count(*), sum(p) FROM gone
SELECT count(*) FROM deeper
SELECT id, p FROM blank WHERE p IS NULL ORDER BY id
DELETE FROM p WHERE id IN (6, 7) AND k > 6
SELECT p, count(*) FROM gone GROUP BY p ORDER BY p
SELECT count(*) FROM blank WHERE p IS NULL
DELETE FROM plain WHERE p = 2
DELETE FROM p WHERE id = 2
UPDATE p SET k = k + 1
BEGIN
DELETE FROM p WHERE id = 8
SELECT count(*) FROM gone WHERE p = 8
SELECT count(*) FROM deeper WHERE g BETWEEN 80 AND 89
INSERT INTO gone VALUES (500, 8)
ROLLBACK
SELECT count(*) FROM gone WHERE p = 8
BEGIN
SAVEPOINT s
DELETE FROM p WHERE id = 8
ROLLBACK TO s
SELECT count(*) FROM gone WHERE p = 8
DELETE FROM p WHERE id = 9
INSERT INTO p VALUES (9, 99)
INSERT INTO gone VALUES (901, 9)
COMMIT
SELECT id, p FROM gone ORDER BY id
SELECT count(*) FROM deeper
BEGIN
DELETE FROM plain WHERE p = 1
DELETE FROM p WHERE id = 1
INSERT INTO plain VALUES (9, 1)
ROLLBACK
BEGIN
INSERT INTO p VALUES (50, 50)
INSERT INTO plain VALUES (50, 50)
DELETE FROM p WHERE id = 50
ROLLBACK
WITH c AS (DELETE FROM plain WHERE p = 1) DELETE FROM p WHERE id = 1
SELECT id, p FROM plain ORDER BY id
WITH c AS (DELETE FROM p WHERE id = 4 RETURNING *) INSERT INTO p SELECT id, k FROM c
CREATE PROCEDURE drop_p(n int) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM p WHERE id = n; END $$
CALL drop_p(10)
CALL drop_p(3)
SELECT p, count(*) FROM gone GROUP BY p ORDER BY p
CREATE PROCEDURE drop_two(n int) LANGUAGE plpgsql AS $$ BEGIN CALL drop_p(n); CALL drop_p(n + 1); END $$
? CALL drop_two(14)
SELECT count(*) FROM p WHERE id IN (14, 15)
CREATE PROCEDURE move_plain(c int, n int) LANGUAGE plpgsql AS $$ BEGIN UPDATE plain SET p = n WHERE id = c; END $$
CREATE PROCEDURE move_both(n int) LANGUAGE plpgsql AS $$ BEGIN CALL move_plain(9, n); CALL move_plain(3, n); END $$
? CALL move_both(16)
? CALL move_both(77)
SELECT id, p FROM plain ORDER BY id
CREATE PROCEDURE drop_counted(n int, OUT c bigint) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM p WHERE id = n; SELECT count(*) INTO c FROM gone WHERE p = n; END $$
? CALL drop_counted(11, NULL)
CREATE TABLE node (id int PRIMARY KEY, up int REFERENCES node ON DELETE CASCADE)
INSERT INTO node SELECT n, CASE WHEN n > 1 THEN n / 2 END FROM generate_series(1, 31) n
DELETE FROM node WHERE id = 3
SELECT id FROM node ORDER BY id
DELETE FROM node WHERE id = 1
SELECT count(*) FROM node
CREATE TABLE a (id int PRIMARY KEY, x int UNIQUE)
CREATE TABLE b (id int PRIMARY KEY, x int UNIQUE REFERENCES a (x) ON UPDATE CASCADE ON DELETE CASCADE)
CREATE TABLE c (id int PRIMARY KEY, x int REFERENCES b (x) ON UPDATE CASCADE ON DELETE SET NULL)
INSERT INTO a SELECT n, 10 * n FROM generate_series(1, 6) n
INSERT INTO b SELECT 10 + n, 10 * n FROM generate_series(1, 6) n
INSERT INTO c SELECT 20 + n, 10 * (n % 6 + 1) FROM generate_series(1, 12) n
UPDATE a SET x = 11 WHERE x = 10
SELECT b.id, c.id, c.x FROM b JOIN c ON c.x = b.x WHERE b.x = 11 ORDER BY 1, 2
DELETE FROM a WHERE x = 11
SELECT id, x FROM c WHERE x IS NULL ORDER BY id
SELECT count(*) FROM b
UPDATE a SET x = NULL WHERE x = 20
SELECT id, x FROM b ORDER BY id
"#;

#[test]
fn children_follow_their_parents_as_on_postgresql() {
    compare(CHILDREN);
}

/// Rows that refer to each other in a circle, to themselves, or in a long chain.
const CIRCLES: &str = r#"
CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE)
INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (7, 7), (8, 7)
UPDATE t SET up = 3 WHERE id = 1
UPDATE t SET id = 10 WHERE id = 1
UPDATE t SET id = 9 WHERE id = 7
SELECT * FROM t ORDER BY id
DELETE FROM t WHERE id = 9
DELETE FROM t WHERE id = 2
SELECT * FROM t ORDER BY id
INSERT INTO t VALUES (0, NULL)
INSERT INTO t SELECT g, g - 1 FROM generate_series(1, 3000) g
DELETE FROM t WHERE id = 1
SELECT * FROM t
CREATE TABLE a (id int PRIMARY KEY, b int)
CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a ON DELETE CASCADE)
ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b ON DELETE CASCADE
INSERT INTO a SELECT g FROM generate_series(1, 9) g
INSERT INTO b SELECT g, g FROM generate_series(1, 9) g
UPDATE a SET b = id % 9 + 1
DELETE FROM b WHERE id = 4
SELECT count(*) FROM a
SELECT count(*) FROM b
CREATE TABLE self (k int PRIMARY KEY REFERENCES self ON UPDATE CASCADE ON DELETE CASCADE)
INSERT INTO self VALUES (1), (2)
UPDATE self SET k = 3 WHERE k = 1
DELETE FROM self WHERE k = 2
SELECT * FROM self ORDER BY k
"#;

#[test]
fn circles_and_chains_go_as_on_postgresql() {
    compare(CIRCLES);
}

const LATE: &str = r#"
CREATE TABLE p (id int PRIMARY KEY, code text UNIQUE)
CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED, code text REFERENCES p (code) DEFERRABLE)
INSERT INTO c VALUES (1, 1, NULL)
INSERT INTO c VALUES (1, NULL, 'a')
BEGIN
INSERT INTO c VALUES (1, 1, NULL), (2, 2, NULL), (3, 3, NULL)
INSERT INTO p SELECT n, 'c' || n FROM generate_series(1, 9) n
COMMIT
BEGIN
INSERT INTO c VALUES (4, 40, NULL)
COMMIT
BEGIN
INSERT INTO c VALUES (4, 40, NULL)
SET CONSTRAINTS ALL IMMEDIATE
ROLLBACK
BEGIN
SET CONSTRAINTS c_code_fkey DEFERRED
INSERT INTO c VALUES (4, NULL, 'x')
UPDATE c SET code = 'c4' WHERE id = 4
SET CONSTRAINTS ALL IMMEDIATE
COMMIT
BEGIN
DELETE FROM p WHERE id = 1
INSERT INTO p VALUES (1, 'again')
COMMIT
BEGIN
DELETE FROM p WHERE id = 2
COMMIT
BEGIN
DELETE FROM p WHERE id = 2
DELETE FROM c WHERE p = 2
COMMIT
DELETE FROM p WHERE id = 3
BEGIN
SET CONSTRAINTS ALL DEFERRED
UPDATE p SET code = 'd4' WHERE code = 'c4'
UPDATE p SET code = 'c4' WHERE id = 7
COMMIT
UPDATE p SET code = 'd7' WHERE id = 7
SELECT * FROM c ORDER BY id
SELECT * FROM p ORDER BY id
"#;

#[test]
fn late_checks_reach_other_shards_as_on_postgresql() {
    compare(LATE);
}

/// Who refers to a parent holds it, and who removes it waits; on several shards as on one.
#[test]
fn parents_are_held_between_sessions() {
    for shards in [1, 4] {
        let weir = Alone::start(shards);
        let (mut one, mut other) = (weir.driver(), weir.driver());
        one.batch_execute(
            "CREATE TABLE p (id int PRIMARY KEY, code text UNIQUE);
             CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, code text REFERENCES p (code))",
        )
        .unwrap();
        other.batch_execute("SET lock_timeout = 200").unwrap();
        for n in 0..8 {
            one.batch_execute(&format!("INSERT INTO p VALUES ({n}, 'k{n}'); INSERT INTO c VALUES ({n})"))
                .unwrap();
            for set in [format!("p = {n}"), format!("code = 'k{n}'")] {
                one.batch_execute(&format!("BEGIN; UPDATE c SET {set} WHERE id = {n}")).unwrap();
                let waits = answer(&mut other, &format!("DELETE FROM p WHERE id = {n}"));
                assert!(waits.starts_with("55P03"), "{shards} shards: {waits}");
                one.batch_execute("COMMIT").unwrap();
                let told = answer(&mut other, &format!("DELETE FROM p WHERE id = {n}"));
                assert!(told.starts_with("23503"), "{shards} shards: {told}");
                one.batch_execute(&format!("UPDATE c SET p = NULL, code = NULL WHERE id = {n}")).unwrap();
                // The other way round.
                one.batch_execute(&format!("BEGIN; DELETE FROM p WHERE id = {n}")).unwrap();
                let waits = answer(&mut other, &format!("UPDATE c SET {set} WHERE id = {n}"));
                assert!(waits.starts_with("55P03"), "{shards} shards: {waits}");
                one.batch_execute("ROLLBACK").unwrap();
            }
        }
    }
}

/// A cascade does not pass over what an open transaction has done to a child.
#[test]
fn cascades_wait_for_who_holds_a_child() {
    for shards in [1, 4] {
        let weir = Alone::start(shards);
        let (mut one, mut other) = (weir.driver(), weir.driver());
        one.batch_execute(
            "CREATE TABLE p (id int PRIMARY KEY);
             CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE, note text)",
        )
        .unwrap();
        other.batch_execute("SET lock_timeout = 200").unwrap();
        for n in 0..6 {
            one.batch_execute(&format!("INSERT INTO p VALUES ({n}); INSERT INTO c VALUES ({n}, {n})"))
                .unwrap();
            one.batch_execute(&format!("BEGIN; UPDATE c SET note = 'x' WHERE id = {n}")).unwrap();
            let waits = answer(&mut other, &format!("DELETE FROM p WHERE id = {n}"));
            assert!(waits.starts_with("55P03"), "{shards} shards: {waits}");
            one.batch_execute("COMMIT").unwrap();
            assert_eq!(answer(&mut other, &format!("DELETE FROM p WHERE id = {n}")), "(1)");
        }
        assert_eq!(answer(&mut one, "SELECT count(*) FROM c"), "0 (1)");
    }
}

/// Checks and actions come when the statement has changed all of its rows; a row that is not inserted needs no parent.
const WHOLE_STATEMENTS: &str = r#"
CREATE TABLE node (id int PRIMARY KEY, up int REFERENCES node ON DELETE RESTRICT ON UPDATE RESTRICT)
INSERT INTO node VALUES (1, 1), (2, 1), (3, 2)
DELETE FROM node WHERE id = 2
UPDATE node SET id = 12 WHERE id = 2
UPDATE node SET id = id + 10, up = up + 10
DELETE FROM node WHERE id > 11
DELETE FROM node
CREATE TABLE place (id int PRIMARY KEY)
CREATE TABLE item (id int PRIMARY KEY, place int DEFAULT 2 REFERENCES place ON DELETE SET DEFAULT ON UPDATE SET DEFAULT, n int)
CREATE TABLE cell (a int, b int DEFAULT 9, item int REFERENCES item ON DELETE SET DEFAULT, place int REFERENCES place, PRIMARY KEY (a, b))
INSERT INTO place SELECT n FROM generate_series(1, 9) n
INSERT INTO item SELECT n, n FROM generate_series(1, 9) n
INSERT INTO cell SELECT n, n, n, n FROM generate_series(1, 4) n
DELETE FROM place WHERE id = 5
UPDATE place SET id = 60 WHERE id = 6
DELETE FROM place WHERE id > 6
SELECT id, place FROM item ORDER BY id
DELETE FROM item WHERE id < 3
SELECT a, b, item FROM cell ORDER BY a
UPDATE item SET place = NULL
DELETE FROM cell WHERE place = 3
DELETE FROM place WHERE id = 3
INSERT INTO cell VALUES (4, 4, 99, 99) ON CONFLICT (a, b) DO NOTHING
INSERT INTO cell VALUES (4, 4, 99, 99) ON CONFLICT (a, b) DO UPDATE SET place = 1 RETURNING place
INSERT INTO cell VALUES (4, 4, 99, 99) ON CONFLICT (a, b) DO UPDATE SET place = excluded.place
INSERT INTO cell VALUES (5, 5, 99, 99) ON CONFLICT (a, b) DO NOTHING
INSERT INTO cell VALUES (6, 6, 4, 1), (6, 6, 4, 99) ON CONFLICT (a, b) DO NOTHING
INSERT INTO item VALUES (20, 1), (20, 99) ON CONFLICT (id) DO NOTHING
BEGIN
INSERT INTO cell VALUES (6, 6, 4, 99) ON CONFLICT DO NOTHING
COMMIT
SELECT a, b, item, place FROM cell ORDER BY a
"#;

#[test]
fn foreign_keys_are_those_of_the_whole_statement() {
    compare(WHOLE_STATEMENTS);
}
