//! UPDATE, DELETE and SELECT … FOR UPDATE of a row that a unique key names, wherever it lives: as on PostgreSQL, on one shard and on several;
//! and what they cost is counted.

use std::collections::BTreeSet;

use crate::alone::Alone;
use crate::conversation::compare;
use postgres::SimpleQueryMessage;

const CONVERSATION: &str = r#"
CREATE TABLE place (id int PRIMARY KEY)
INSERT INTO place SELECT generate_series(1, 9)
CREATE TABLE item (id int PRIMARY KEY, place int NOT NULL REFERENCES place, code text NOT NULL UNIQUE, tag uuid UNIQUE, short varchar(8), serial_number bigint, n int NOT NULL DEFAULT 0, UNIQUE (short, serial_number))
INSERT INTO item SELECT i, 1 + i % 9, 'c' || i, ('00000000-0000-0000-0000-0000000000' || (10 + i))::uuid, 's' || i % 5, i, 0 FROM generate_series(1, 40) i
UPDATE item SET n = n + 1 WHERE id = 7
UPDATE item SET n = n + 1 WHERE id = 7 RETURNING id, place, n
UPDATE item SET n = n + 1 WHERE id = 7 AND n > 5
UPDATE item SET n = n + 1 WHERE id = 7 AND id = 8
UPDATE item SET n = n + 1 WHERE id = 777
UPDATE item SET n = n + 1 WHERE id = NULL
UPDATE item SET n = n + 1 WHERE id = 99999999999
UPDATE item SET n = n + 1 WHERE id = 3 + 4 RETURNING n
UPDATE item SET n = n + 1 WHERE id = '7' RETURNING n
UPDATE item SET n = n + 1 WHERE id = 7.0 RETURNING n
UPDATE item SET n = n + 1 WHERE id = 7.5
UPDATE item SET n = n + 1 WHERE id IN (7, 8, 9)
UPDATE item SET n = n + 1 WHERE id = 7 OR id = 8
UPDATE item SET n = n + 1 WHERE id = (SELECT 7)
UPDATE item SET n = (SELECT count(*) FROM item) WHERE id = 7 RETURNING n
UPDATE item SET n = p.id FROM place p WHERE item.id = 7 AND p.id = 3 RETURNING n
UPDATE item AS i SET n = i.n + 1 WHERE i.code = 'c7' RETURNING i.n
UPDATE item SET n = n + 1 WHERE code = 'nothing'
UPDATE item SET n = n + 1 WHERE code = 'c7'::varchar RETURNING n
UPDATE item SET n = n + 1 WHERE code = lower('C7') RETURNING n
UPDATE item SET n = n + 1 WHERE tag = '00000000-0000-0000-0000-000000000017' RETURNING id
UPDATE item SET n = n + 1 WHERE short = 's2' AND serial_number = 7 RETURNING id
UPDATE item SET n = n + 1 WHERE short = 's2' AND serial_number = 8
UPDATE item SET n = n + 1 WHERE short = 's2'
UPDATE item SET n = 1 / (n - n) WHERE id = 7
UPDATE item SET n = 1 / (n - n) WHERE id = 777
UPDATE item SET n = NULL WHERE id = 7
UPDATE item SET place = 99 WHERE id = 7
UPDATE item SET place = 5 WHERE id = 7 RETURNING place
UPDATE item SET n = n + 1 WHERE id = 7 RETURNING place, n
UPDATE item SET code = 'c8' WHERE id = 7
UPDATE item SET id = 8 WHERE code = 'c7'
UPDATE item SET code = 'd7', id = 1007 WHERE id = 7 RETURNING *
UPDATE item SET n = n + 1 WHERE id = 7
UPDATE item SET n = n + 1 WHERE code = 'c7'
UPDATE item SET n = n + 1 WHERE id = 1007 RETURNING n
UPDATE item SET n = n + 1 WHERE code = 'd7' RETURNING n
DELETE FROM item WHERE id = 1 RETURNING code
DELETE FROM item WHERE id = 1
DELETE FROM item WHERE code = 'c2' AND n = 5
DELETE FROM item WHERE code = 'c2'
INSERT INTO item (id, place, code) VALUES (2, 4, 'c2'), (1, 4, 'c1')
UPDATE item SET n = 50 WHERE code = 'c1'
DELETE FROM item WHERE code = 'c2' RETURNING id, place
DELETE FROM item USING place p WHERE item.id = 1 AND item.place = p.id RETURNING code
SELECT id, n FROM item WHERE id = 8 FOR UPDATE
SELECT id, n FROM item WHERE id = 8 AND n > 100 FOR UPDATE
SELECT id, n FROM item WHERE id = 777 FOR UPDATE
SELECT id, n FROM item WHERE code = 'c8' FOR NO KEY UPDATE
SELECT id, n FROM item WHERE code = 'c8' LIMIT 1 FOR UPDATE
SELECT count(*) FROM item WHERE code = 'c8'
BEGIN
UPDATE item SET n = n + 1 WHERE id = 9
INSERT INTO item (id, place, code) VALUES (500, 3, 'c500')
UPDATE item SET n = n + 1 WHERE id = 500 RETURNING n
UPDATE item SET code = 'd500' WHERE code = 'c500' RETURNING id
UPDATE item SET n = n + 1 WHERE code = 'c500'
SAVEPOINT s
UPDATE item SET place = 8, code = 'e500' WHERE id = 500 RETURNING place
UPDATE item SET n = n + 1 WHERE code = 'e500' RETURNING id, n
DELETE FROM item WHERE code = 'e500'
UPDATE item SET n = n + 1 WHERE id = 500
SELECT id FROM item WHERE id = 500 FOR UPDATE
UPDATE item SET n = 1 / (n - n) WHERE id = 10
ROLLBACK TO s
SELECT id, place FROM item WHERE id = 500 FOR UPDATE
UPDATE item SET n = n + 1 WHERE code = 'd500' RETURNING id, place, n
DELETE FROM item WHERE id = 9 RETURNING n
UPDATE item SET n = n + 1 WHERE id = 9
COMMIT
SELECT id, place, code, n FROM item WHERE id IN (9, 500) ORDER BY id
BEGIN ISOLATION LEVEL SERIALIZABLE
UPDATE item SET n = n + 1 WHERE id = 10 RETURNING n
UPDATE item SET n = n + 1 WHERE id = 777
SELECT id, n FROM item WHERE code = 'c11' FOR UPDATE
DELETE FROM item WHERE code = 'c12'
COMMIT
BEGIN ISOLATION LEVEL REPEATABLE READ
UPDATE item SET n = n + 1 WHERE id = 10 RETURNING n
DELETE FROM item WHERE code = 'c13' RETURNING id
COMMIT
PREPARE up (int) AS UPDATE item SET n = n + 1 WHERE id = $1 RETURNING n
EXECUTE up (14)
EXECUTE up (777)
EXECUTE up (NULL)
PREPARE upper_n (bigint, text) AS UPDATE item SET n = n + 1 WHERE serial_number = $1 AND short = $2 RETURNING id
EXECUTE upper_n (14, 's4')
EXECUTE upper_n (14, 's3')
CREATE TABLE child (id int PRIMARY KEY, item int NOT NULL REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE)
INSERT INTO child SELECT i, 15 + i % 3 FROM generate_series(1, 9) i
DELETE FROM item WHERE id = 15
UPDATE item SET id = 1016 WHERE code = 'c16'
SELECT item, count(*) FROM child GROUP BY item ORDER BY item
DELETE FROM item WHERE id = 17
SELECT count(*) FROM child
CREATE PROCEDURE bump(i int) LANGUAGE plpgsql AS $$ BEGIN UPDATE item SET n = n + 1 WHERE id = i; DELETE FROM item WHERE code = 'c' || (i + 1); END $$
CALL bump(20)
CALL bump(777)
SELECT id, n FROM item ORDER BY id
"#;

#[test]
fn a_row_is_named_by_a_key_as_on_postgresql() {
    compare(CONVERSATION);
}

/// Round trips and messages of a statement, which is run; none: requests were sent again, since the disk was slow.
fn cost(driver: &mut postgres::Client, text: &str) -> Option<(u32, u32)> {
    let said = driver.simple_query(&format!("EXPLAIN (ANALYZE, COORDINATION) {text}"));
    let line = |one: SimpleQueryMessage| match one {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().trim().to_owned()),
        _ => None,
    };
    let lines = said.unwrap_or_else(|why| panic!("{text}: {why:?}")).into_iter().filter_map(line);
    let mut measured = lines.filter(|line| line.starts_with("Measured"));
    let measured = measured.next().unwrap_or_else(|| panic!("{text} is measured"));
    let number = |name: &str| {
        let mut words = measured.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)).and_then(|number| number.parse().ok())
    };
    if number("repeats=") != Some(0) {
        return None;
    }
    Some(number("trips=").zip(number("messages=")).unwrap_or_else(|| panic!("{measured}")))
}

const INSERTED: &str = r#"
CREATE TABLE users (id bigserial PRIMARY KEY, email text NOT NULL UNIQUE, phone varchar(6) UNIQUE, age int CHECK (age > 0))
INSERT INTO users (email) VALUES ('a@x')
INSERT INTO users (email) VALUES ('a@x')
INSERT INTO users (email, phone) VALUES ('b@x', '1'), ('c@x', '2')
INSERT INTO users (email, phone) VALUES ('d@x', '1')
INSERT INTO users (email, phone) VALUES ('d@x', '12345678')
INSERT INTO users (email, phone) VALUES ('d@x', '123456  ')
INSERT INTO users (email, phone) VALUES ('e@x', '123456')
INSERT INTO users (email, phone) VALUES ('e@x', '12345678'::varchar(6))
INSERT INTO users (id, email, age) VALUES (900, 'e@x', 0)
INSERT INTO users (id, email, age) VALUES (900, 'a@x', 0)
INSERT INTO users (id, email) VALUES (900, NULL)
INSERT INTO users (id, phone) VALUES (900, '7')
INSERT INTO users (id, email) VALUES (900, 'y@x')
INSERT INTO users (id, email) VALUES (900, 'z@x')
INSERT INTO users (id, email) VALUES (901, 'y@x')
INSERT INTO users (email, phone) VALUES ('e@x', NULL) RETURNING email, phone
INSERT INTO users (email, phone) VALUES (lower('F@X'), '8') RETURNING email
INSERT INTO users (email, phone) VALUES ('f@x', '9')
SELECT email, phone FROM users ORDER BY email
UPDATE users SET phone = 'new' WHERE email = 'a@x'
DELETE FROM users WHERE email = 'b@x' RETURNING phone
INSERT INTO users (email, phone) VALUES ('b@x', '1')
BEGIN
INSERT INTO users (email, phone) VALUES ('g@x', '10')
INSERT INTO users (email, phone) VALUES ('h@x', '11')
SAVEPOINT s
INSERT INTO users (email, phone) VALUES ('g@x', '12')
ROLLBACK TO s
INSERT INTO users (email, phone) VALUES ('i@x', '12')
COMMIT
PREPARE add_user (text, text) AS INSERT INTO users (email, phone) VALUES ($1, $2) RETURNING email
EXECUTE add_user ('j@x', '13')
EXECUTE add_user ('j@x', '14')
EXECUTE add_user ('k@x', '13')
EXECUTE add_user ('k@x', NULL)
CREATE TABLE place (id int PRIMARY KEY)
INSERT INTO place VALUES (1), (2), (3)
CREATE TABLE item (id int PRIMARY KEY, place int NOT NULL REFERENCES place, code uuid UNIQUE, a int, b bigint, UNIQUE NULLS NOT DISTINCT (a, b))
INSERT INTO item VALUES (1, 1, '00000000-0000-0000-0000-000000000001', 1, NULL)
INSERT INTO item VALUES (2, 2, '00000000-0000-0000-0000-000000000001', 2, 2)
INSERT INTO item VALUES (2, 2, '00000000-0000-0000-0000-000000000002', 1, NULL)
INSERT INTO item VALUES (2, 9, '00000000-0000-0000-0000-000000000002', 2, 2)
INSERT INTO item VALUES (2, 9, '00000000-0000-0000-0000-000000000001', 2, 2)
INSERT INTO item VALUES (2, 2, '00000000-0000-0000-0000-000000000002', 2, 2)
INSERT INTO item VALUES (1, 3, NULL, NULL, NULL)
INSERT INTO item VALUES (3, 3, NULL, NULL, NULL)
INSERT INTO item VALUES (4, 3, NULL, NULL, NULL)
INSERT INTO item (id, place, a) VALUES (4 + 1, 1, 5)
INSERT INTO item (id, place, a) VALUES (6, 1, 5)
INSERT INTO item (id, place, a) VALUES (99999999999, 1, 6)
SELECT * FROM item ORDER BY id
SELECT email, phone FROM users ORDER BY email
CREATE TABLE tag (id bigserial PRIMARY KEY, place int NOT NULL REFERENCES place, word text UNIQUE, item int UNIQUE REFERENCES item)
COMMENT ON TABLE tag IS 'weir: partition by (id)'
INSERT INTO tag (place, word) VALUES (1, 'a') RETURNING place, word
INSERT INTO tag (place, word) VALUES (2, 'b') RETURNING place, word
INSERT INTO tag (place, word) VALUES (3, 'c') RETURNING place, word
INSERT INTO tag (place, word, item) VALUES (3, 'd', 1) RETURNING place, word
INSERT INTO tag (place, word, item) VALUES (3, 'e', 1) RETURNING place, word
INSERT INTO tag (place, word, item) VALUES (3, 'e', 2) RETURNING place, word
INSERT INTO tag (place, word, item) VALUES (9, 'f', 3) RETURNING place, word
INSERT INTO tag (place, word) VALUES (1, 'a')
UPDATE tag SET place = 3 WHERE word = 'a' RETURNING place
UPDATE tag SET place = 2 WHERE word = 'c' RETURNING place
UPDATE tag SET place = 1 WHERE item = 2 RETURNING word
DELETE FROM tag WHERE word = 'b' RETURNING place
DELETE FROM tag WHERE word = 'd' RETURNING place
INSERT INTO tag (place, word) VALUES (1, 'b') RETURNING place
SELECT place, word, item FROM tag ORDER BY word
CREATE TABLE review (id int PRIMARY KEY, tag int UNIQUE, place int NOT NULL REFERENCES place DEFERRABLE INITIALLY DEFERRED)
COMMENT ON TABLE review IS 'weir: partition by (id)'
INSERT INTO review VALUES (1, 1, 1) RETURNING id, tag
INSERT INTO review VALUES (2, 2, 1) RETURNING id, tag
INSERT INTO review VALUES (3, 3, 9) RETURNING id, tag
UPDATE review SET place = 2 WHERE tag = 1 RETURNING id, place
UPDATE review SET tag = 4 WHERE tag = 2 RETURNING id, tag
DELETE FROM review WHERE tag = 4 RETURNING id, place
"#;

#[test]
fn rows_with_keys_are_inserted_as_on_postgresql() {
    compare(INSERTED);
}

#[test]
fn one_shard_runs_it() {
    let weir = Alone::start(4);
    let mut driver = weir.driver();
    driver
        .batch_execute(
            "CREATE TABLE place (id int PRIMARY KEY);
             CREATE TABLE item (id serial PRIMARY KEY, place int NOT NULL REFERENCES place, n int NOT NULL);
             INSERT INTO place SELECT generate_series(1, 9);",
        )
        .unwrap();
    for place in 1..9 {
        driver.batch_execute(&format!("INSERT INTO item (place, n) VALUES ({place}, 0)")).unwrap();
    }
    driver.batch_execute("INSERT INTO item SELECT 1000 + 7 * i, i, 0 FROM generate_series(1, 9) i").unwrap();
    let mut costs = |text: &str, ids: &[i32]| -> BTreeSet<(u32, u32)> {
        ids.iter().filter_map(|id| cost(&mut driver, &format!("{text} {id}"))).collect()
    };
    let (update, delete) = ("UPDATE item SET n = n + 1 WHERE id =", "DELETE FROM item WHERE id =");
    let drawn: Vec<i32> = weir
        .driver()
        .query("SELECT id FROM item WHERE id < 1000", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let given: Vec<i32> = (1..10).map(|i| 1000 + 7 * i).collect();
    // Ids are drawn where the rows live, which therefore own them.
    assert_eq!(costs(update, &drawn), BTreeSet::from([(1, 2)]));
    assert_eq!(costs(delete, &drawn), BTreeSet::from([(2, 4)]));
    // A given id is owned by the shard of its hash, which is the row's by chance.
    assert_eq!(costs(update, &given), BTreeSet::from([(1, 2), (2, 4)]));
    assert_eq!(costs(delete, &given), BTreeSet::from([(2, 4), (4, 9)]));
    assert_eq!(costs(delete, &given), BTreeSet::from([(2, 4)]), "no row has the key");
    driver
        .batch_execute("CREATE TABLE member (id bigserial PRIMARY KEY, email text UNIQUE, badge int UNIQUE)")
        .unwrap();
    let one = |at: i32| format!("INSERT INTO member (email) VALUES ('m{at}')");
    let two = |at: i32| format!("INSERT INTO member (email, badge) VALUES ('n{at}', {at})");
    let by_one: BTreeSet<_> = (0..9).filter_map(|at| cost(&mut driver, &one(at))).collect();
    assert_eq!(by_one, BTreeSet::from([(1, 2)]), "the row is where its key is known");
    let by_two: BTreeSet<_> = (0..40).filter_map(|at| cost(&mut driver, &two(at))).collect();
    assert_eq!(by_two, BTreeSet::from([(1, 2), (2, 5)]));
}
