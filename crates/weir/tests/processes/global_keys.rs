//! Unique keys whose columns do not say on which shard a row lives: they are what they are on PostgreSQL, on one shard and on several, after a
//! kill, and with two sessions at once.

use crate::alone::Alone;
use crate::conversation::{answer, compare};

const CONVERSATION: &str = r#"
CREATE TABLE account (id bigserial PRIMARY KEY, email text NOT NULL UNIQUE, nick text, rank int, UNIQUE NULLS NOT DISTINCT (nick, rank))
INSERT INTO account (email, nick, rank) VALUES ('a@x', 'a', 1) RETURNING email
INSERT INTO account (email, nick, rank) VALUES ('b@x', 'b', 1), ('c@x', 'b', 2), ('d@x', NULL, NULL)
INSERT INTO account (email, nick, rank) VALUES ('a@x', 'z', 9)
INSERT INTO account (email, nick, rank) VALUES ('e@x', 'b', 2)
INSERT INTO account (email) VALUES ('e@x')
INSERT INTO account (email, nick) VALUES ('e@x', 'e'), ('e@x', 'f')
SELECT email, nick, rank FROM account ORDER BY email
SELECT nick FROM account WHERE email = 'c@x'
UPDATE account SET email = 'c@y' WHERE email = 'c@x'
UPDATE account SET email = 'b@x' WHERE email = 'c@y'
UPDATE account SET email = 'b@x' WHERE email = 'b@x'
UPDATE account SET nick = upper(nick), rank = rank + 1
UPDATE account SET nick = NULL, rank = NULL WHERE email = 'a@x'
INSERT INTO account (email, nick) VALUES ('c@x', 'c')
DELETE FROM account WHERE email = 'c@x'
INSERT INTO account (email, nick) VALUES ('c@x', 'c')
DELETE FROM account WHERE email = 'nobody'
BEGIN
UPDATE account SET email = 'swap' WHERE email = 'a@x'
UPDATE account SET email = 'a@x' WHERE email = 'b@x'
UPDATE account SET email = 'b@x' WHERE email = 'swap'
SELECT email, nick FROM account ORDER BY email
SAVEPOINT s
INSERT INTO account (email, nick) VALUES ('f@x', 'f')
DELETE FROM account WHERE email = 'a@x'
INSERT INTO account (email, nick) VALUES ('a@x', 'aa')
ROLLBACK TO s
INSERT INTO account (email, nick) VALUES ('a@x', 'aa')
ROLLBACK TO s
INSERT INTO account (email, nick) VALUES ('f@x', 'ff')
COMMIT
SELECT email, nick, rank FROM account ORDER BY email
BEGIN
DELETE FROM account
INSERT INTO account (email, nick) VALUES ('a@x', 'only')
ROLLBACK
INSERT INTO account (email, nick) SELECT 'g' || n, 'n' || n FROM generate_series(1, 5) n
INSERT INTO account (email, nick) VALUES (lower('G3'), 'twice')
SELECT count(*) FROM account WHERE email LIKE 'g%'
TRUNCATE account
CREATE UNIQUE INDEX account_lower ON account (lower(nick)) WHERE rank IS NULL
INSERT INTO account (email, nick, rank) VALUES ('a', 'Ann', NULL), ('b', 'ann', 1)
INSERT INTO account (email, nick) VALUES ('c', 'ANN')
? UPDATE account SET rank = NULL WHERE email = 'b'
? UPDATE account SET nick = 'Bob' WHERE email = 'a'
? UPDATE account SET rank = NULL WHERE email = 'b'
SELECT email, nick, rank FROM account ORDER BY 1
DROP INDEX account_lower
INSERT INTO account (email, nick, rank) VALUES ('c', 'BOB', 4)
ALTER TABLE account ADD COLUMN more int DEFAULT 3
INSERT INTO account (email, nick, rank) VALUES ('c', 'c', 5)
INSERT INTO account (email, nick, rank) VALUES ('d', 'd', 5)
CREATE TABLE other (id int PRIMARY KEY)
ALTER TABLE account RENAME COLUMN email TO mail
INSERT INTO account (mail, nick, rank) VALUES ('d', 'd', 6)
INSERT INTO account (mail, nick, rank) VALUES ('e', 'BOB', 4)
INSERT INTO account (id, mail, nick) VALUES (1001, 'x', 'x') ON CONFLICT (id) DO UPDATE SET mail = 'y'
INSERT INTO account (id, mail, nick) VALUES (1001, 'x', 'x') ON CONFLICT (id) DO UPDATE SET mail = 'a'
INSERT INTO account (id, mail, nick) VALUES (1001, 'x', 'x') ON CONFLICT (id) DO UPDATE SET mail = 'y2' RETURNING mail
INSERT INTO account (id, mail, nick) VALUES (1002, 'y2', 'y') ON CONFLICT (id) DO NOTHING
INSERT INTO account (id, mail, nick) VALUES (1002, 'y', 'y') ON CONFLICT (id) DO NOTHING
DROP TABLE other
SELECT mail, nick, rank, more FROM account ORDER BY 1
ALTER TABLE account DROP COLUMN mail
INSERT INTO account (nick, rank) VALUES ('BOB', 4)
INSERT INTO account (nick, rank) VALUES ('BOB', 6), ('BOB', 7)
SELECT nick, rank FROM account ORDER BY 1, 2
CREATE TABLE coupon (code text PRIMARY KEY, shop int NOT NULL, used_by int UNIQUE)
COMMENT ON TABLE coupon IS 'weir: partition by (shop)'
INSERT INTO coupon VALUES ('A', 1, NULL), ('B', 2, NULL), ('C', 3, 7)
INSERT INTO coupon VALUES ('A', 2, NULL)
UPDATE coupon SET used_by = 7 WHERE code = 'A'
UPDATE coupon SET used_by = 8 WHERE code = 'A' AND used_by IS NULL
UPDATE coupon SET used_by = 8 WHERE code = 'B' AND used_by IS NULL
CREATE PROCEDURE redeem(c text, u int) LANGUAGE plpgsql AS $$ BEGIN UPDATE coupon SET used_by = u WHERE code = c AND used_by IS NULL; END $$
CALL redeem('B', 8)
CALL redeem('B', 9)
CALL redeem('B', 10)
SELECT * FROM coupon ORDER BY code
"#;

#[test]
fn they_are_kept_as_by_postgresql() {
    compare(CONVERSATION);
}

#[test]
fn they_are_there_after_a_kill_and_between_sessions() {
    for shards in [1, 4] {
        let mut weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute("CREATE TABLE p (id int PRIMARY KEY, mail text UNIQUE)").unwrap();
        for id in 0..20 {
            own.execute("INSERT INTO p VALUES ($1, $2)", &[&id, &format!("m{id}")]).unwrap();
        }
        weir.kill_and_start_again();
        let (mut one, mut other) = (weir.driver(), weir.driver());
        for id in 0..20 {
            let told = answer(&mut one, &format!("INSERT INTO p VALUES ({}, 'm{id}')", 100 + id));
            assert!(
                told.starts_with("23505 duplicate key value violates unique constraint \"p_mail_key\""),
                "{told}"
            );
        }
        // The second session waits, and is told.
        for (end, expected) in [("COMMIT", "23505"), ("ROLLBACK", "(1)")] {
            one.batch_execute(&format!("BEGIN; INSERT INTO p VALUES (200, 'new {end}')")).unwrap();
            other.batch_execute("SET lock_timeout = 200").unwrap();
            let text = format!("INSERT INTO p VALUES (201, 'new {end}')");
            let waits = answer(&mut other, &text);
            assert!(waits.starts_with("55P03"), "{waits}");
            one.batch_execute(end).unwrap();
            let told = answer(&mut other, &text);
            assert!(told.starts_with(expected), "{told}");
            answer(&mut one, "DELETE FROM p WHERE id IN (200, 201)");
        }
    }
}
