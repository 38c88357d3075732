//! Unique keys, primary keys and foreign keys that tables get when they have rows, and whose columns do not say on which shard a row lives: as
//! on PostgreSQL, on one shard and on several.

use crate::alone::Alone;
use crate::conversation::{answer, compare};

const CONVERSATION: &str = r#"
CREATE TABLE t (id int PRIMARY KEY, a text, b int, c int)
INSERT INTO t VALUES (1, 'a', 1, 1), (2, 'b', 1, NULL), (3, 'c', 2, 3), (4, 'd', 2, 4), (5, 'e', 3, 5), (6, NULL, 3, 6), (7, NULL, 4, 7), (8, 'h', 4, 8)
CREATE UNIQUE INDEX t_b ON t (b)
INSERT INTO t VALUES (9, 'i', 1, 9)
DELETE FROM t WHERE id = 9
CREATE UNIQUE INDEX t_a ON t (a)
INSERT INTO t VALUES (9, 'c', 1, 9)
INSERT INTO t VALUES (9, NULL, 1, 9)
UPDATE t SET a = 'b' WHERE id = 9
UPDATE t SET a = 'z' WHERE id = 1
INSERT INTO t VALUES (10, 'a', 1, 9)
INSERT INTO t VALUES (11, 'a', 1, 9) ON CONFLICT (a) DO UPDATE SET c = 11 RETURNING id, a, c
DELETE FROM t WHERE a IN ('z', 'h')
INSERT INTO t VALUES (11, 'h', 5, 11), (12, 'z', 5, 12)
ALTER TABLE t ADD CONSTRAINT t_b_c UNIQUE (b, c)
ALTER TABLE t DROP CONSTRAINT t_b_c
UPDATE t SET c = 90 WHERE id = 9
ALTER TABLE t ADD CONSTRAINT t_b_c UNIQUE NULLS NOT DISTINCT (b, c)
INSERT INTO t VALUES (13, 'm', 1, NULL)
INSERT INTO t VALUES (13, 'm', 3, 5)
DROP INDEX t_a
INSERT INTO t VALUES (13, 'a', 13, 13)
CREATE UNIQUE INDEX t_a ON t (a)
DELETE FROM t WHERE id = 13
CREATE UNIQUE INDEX t_a ON t (a)
ALTER TABLE t ALTER b TYPE bigint, ALTER c TYPE bigint
INSERT INTO t VALUES (14, 'n', 3, 5)
INSERT INTO t VALUES (14, 'n', 3, 15)
ALTER TABLE t ALTER a TYPE text USING upper(left(a, 0) || 'same')
ALTER TABLE t ALTER a TYPE text USING upper(a)
INSERT INTO t VALUES (15, 'N', 3, 16)
INSERT INTO t VALUES (15, 'n', 3, 16)
CREATE UNIQUE INDEX t_lower ON t (lower(a))
CREATE UNIQUE INDEX t_lower ON t (lower(a)) WHERE b <> 3
INSERT INTO t VALUES (16, 'z', 30, 17)
INSERT INTO t VALUES (16, 'zz', 30, 17)
BEGIN
INSERT INTO t VALUES (17, 'p', 40, 40), (18, 'q', 40, 41)
CREATE UNIQUE INDEX t_c ON t (c)
INSERT INTO t VALUES (19, 'r', 40, 41)
ROLLBACK
BEGIN
DELETE FROM t WHERE c IN (SELECT c FROM t GROUP BY c HAVING count(*) > 1)
INSERT INTO t VALUES (17, 'p', 40, 40), (18, 'q', 40, 42)
CREATE UNIQUE INDEX t_c ON t (c)
ALTER TABLE t ADD COLUMN d int DEFAULT 4
INSERT INTO t VALUES (19, 'r', 40, 43)
COMMIT
INSERT INTO t VALUES (20, 'r', 3, 143)
INSERT INTO t VALUES (20, 's', 41, 40)
SELECT * FROM t ORDER BY id
TRUNCATE t
INSERT INTO t VALUES (1, 'a', 1, 1), (2, 'b', 2, 2)
INSERT INTO t VALUES (3, 'a', 3, 3)
CREATE TABLE bare (n int, m int, o int)
INSERT INTO bare VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3), (4, 2, 4)
ALTER TABLE bare ADD PRIMARY KEY (m)
ALTER TABLE bare ADD PRIMARY KEY (o)
INSERT INTO bare VALUES (1, 1, 4)
INSERT INTO bare VALUES (5, 3, 5)
ALTER TABLE bare ADD UNIQUE (n)
INSERT INTO bare VALUES (5, 3, 6)
CREATE TABLE line (id int PRIMARY KEY, n int, m int)
INSERT INTO line VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, NULL, 9)
ALTER TABLE line ADD FOREIGN KEY (m) REFERENCES bare (n)
ALTER TABLE line ADD CONSTRAINT line_n FOREIGN KEY (n) REFERENCES bare (n) ON DELETE CASCADE
INSERT INTO line VALUES (5, 9, 1)
INSERT INTO line VALUES (5, 4, 1)
DELETE FROM bare WHERE n = 2
SELECT * FROM line ORDER BY id
"#;

#[test]
fn they_are_as_on_postgresql() {
    compare(CONVERSATION);
}

/// More rows than a step looks at, and more than a message carries; then a kill.
#[test]
fn a_large_table_gets_a_key_and_keeps_it() {
    const ROWS: i64 = 30_000;
    let mut weir = Alone::start(3);
    let mut own = weir.driver();
    own.batch_execute("CREATE TABLE big (id int PRIMARY KEY, mail text, n int)").unwrap();
    let insert =
        format!("INSERT INTO big SELECT n, repeat('m', 40) || n, n / 2 FROM generate_series(1, {ROWS}) n");
    own.batch_execute(&insert).unwrap();
    let refused = answer(&mut own, "CREATE UNIQUE INDEX big_n ON big (n)");
    assert!(refused.starts_with("23505 could not create unique index \"big_n\""), "{refused}");
    assert_eq!(answer(&mut own, "INSERT INTO big VALUES (-1, 'x', 5)"), "(1)");
    own.batch_execute("CREATE UNIQUE INDEX big_mail ON big (mail)").unwrap();
    let again = format!("INSERT INTO big VALUES (-2, repeat('m', 40) || {}, 1)", ROWS - 7);
    let check = |own: &mut postgres::Client| {
        let told = answer(own, &again);
        assert!(
            told.starts_with("23505 duplicate key value violates unique constraint \"big_mail\""),
            "{told}"
        );
        assert_eq!(answer(own, "SELECT count(*) FROM big"), format!("{} (1)", ROWS + 1));
    };
    check(&mut own);
    weir.kill_and_start_again();
    let mut own = weir.driver();
    check(&mut own);
    own.batch_execute(
        "DELETE FROM big WHERE id > 10; DROP INDEX big_mail; CREATE UNIQUE INDEX big_mail ON big (mail)",
    )
    .unwrap();
    let told = answer(&mut own, "INSERT INTO big VALUES (-2, repeat('m', 40) || '7', 1)");
    assert!(told.starts_with("23505"), "{told}");
}

/// More rows than keys are claimed one by one, in the transaction that has made their table.
#[test]
fn a_new_table_takes_many_rows_in_the_transaction_that_makes_it() {
    const ROWS: i64 = 20_000;
    let mut weir = Alone::start(3);
    let mut own = weir.driver();
    own.batch_execute(&format!(
        "CREATE TABLE made (id bigint PRIMARY KEY, mail bigint UNIQUE); \
         INSERT INTO made SELECT n, -n FROM generate_series(1, {ROWS}) n"
    ))
    .unwrap();
    let check = |own: &mut postgres::Client| {
        assert_eq!(answer(own, "SELECT count(*) FROM made"), format!("{ROWS} (1)"));
        assert_eq!(answer(own, "SELECT id FROM made WHERE mail = -77"), "77 (1)");
        let told = answer(own, "INSERT INTO made VALUES (0, -77)");
        assert!(told.starts_with("23505"), "{told}");
    };
    check(&mut own);
    weir.kill_and_start_again();
    check(&mut weir.driver());
}
