//! INSERT … ON CONFLICT at unique keys whose columns do not say on which shard a row lives: as on PostgreSQL, on one shard and on several; and
//! many clients at once that put the same keys.

use std::thread;

use crate::alone::Alone;
use crate::conversation::{answer, compare};

const CONVERSATION: &str = r#"
CREATE TABLE users (id bigserial PRIMARY KEY, email text NOT NULL UNIQUE, name text, visits int NOT NULL DEFAULT 1 CHECK (visits < 100))
INSERT INTO users (email, name) VALUES ('a@x', 'Ann') ON CONFLICT (email) DO UPDATE SET name = excluded.name, visits = users.visits + 1
INSERT INTO users (email, name) VALUES ('a@x', 'Anna') ON CONFLICT (email) DO UPDATE SET name = excluded.name, visits = users.visits + 1
INSERT INTO users (email, name) VALUES ('a@x', 'Ann') ON CONFLICT (email) DO UPDATE SET name = excluded.name, visits = users.visits + 1 RETURNING email, name, visits
INSERT INTO users (email, name) VALUES ('b@x', 'Bob') ON CONFLICT (email) DO NOTHING
INSERT INTO users (email, name) VALUES ('b@x', 'Bobby') ON CONFLICT (email) DO NOTHING
INSERT INTO users (email, name) VALUES ('b@x', 'Bobby') ON CONFLICT (email) DO NOTHING RETURNING name
INSERT INTO users (email, name) VALUES ('c@x', 'Cid') ON CONFLICT DO NOTHING
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT DO NOTHING
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT (email) DO UPDATE SET name = excluded.name WHERE users.visits > 1
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT (email) DO UPDATE SET name = excluded.name WHERE users.visits = 1 RETURNING name, visits
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT (email) DO UPDATE SET email = 'a@x'
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT (email) DO UPDATE SET email = 'd@x' RETURNING email
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT (email) DO UPDATE SET email = 'd@x'
INSERT INTO users (email, name) VALUES ('c@x', 'Cyd') ON CONFLICT (email) DO UPDATE SET email = 'd@x'
INSERT INTO users (email, name) VALUES ('a@x', 'no') ON CONFLICT (email) DO UPDATE SET visits = 100
INSERT INTO users (email, name) VALUES (lower('A@X'), 'lower') ON CONFLICT (email) DO UPDATE SET name = excluded.name || users.name
INSERT INTO users (email, name) VALUES ('f@x', 'F'), ('a@x', 'again'), ('g@x', 'G'), ('f@x', 'twice') ON CONFLICT (email) DO NOTHING RETURNING email, name
INSERT INTO users (email, name) VALUES ('h@x', 'H'), ('a@x', 'again'), ('h@x', 'twice') ON CONFLICT (email) DO UPDATE SET name = excluded.name
INSERT INTO users (email, name) VALUES ('h@x', 'H'), ('a@x', 'again'), ('i@x', 'I') ON CONFLICT (email) DO UPDATE SET name = excluded.name RETURNING email, name
INSERT INTO users (email, name) VALUES ('a@x', '1'), ('b@x', '2'), ('a@x', '3') ON CONFLICT (email) DO UPDATE SET name = excluded.name
INSERT INTO users (email, name) SELECT email, name || '!' FROM users ORDER BY email ON CONFLICT (email) DO UPDATE SET name = excluded.name
INSERT INTO users (email, name) SELECT 's' || n || '@x', n::text FROM generate_series(1, 4) n ON CONFLICT (email) DO NOTHING
INSERT INTO users (email, name) SELECT 's' || n || '@x', n::text FROM generate_series(3, 6) n ON CONFLICT (email) DO UPDATE SET visits = users.visits + 10
INSERT INTO users (email, name) SELECT 's1@x', n::text FROM generate_series(1, 2) n ON CONFLICT (email) DO UPDATE SET name = 'x'
SELECT email, name, visits FROM users ORDER BY email
BEGIN
INSERT INTO users (email, name) VALUES ('t@x', 'T') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING visits
INSERT INTO users (email, name) VALUES ('t@x', 'T') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING visits
SAVEPOINT s
DELETE FROM users WHERE email = 't@x'
INSERT INTO users (email, name) VALUES ('t@x', 'TT') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING name, visits
INSERT INTO users (email, name) VALUES ('a@x', 'TT'), ('u@x', 'U') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING email, visits
ROLLBACK TO s
INSERT INTO users (email, name) VALUES ('t@x', 'TT') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING name, visits
INSERT INTO users (email, name) VALUES ('b@x', 'TT') ON CONFLICT (email) DO UPDATE SET email = 'a@x'
ROLLBACK TO s
INSERT INTO users (email, name) VALUES ('b@x', 'BB') ON CONFLICT (email) DO NOTHING
COMMIT
BEGIN ISOLATION LEVEL SERIALIZABLE
INSERT INTO users (email, name) VALUES ('t@x', 'T') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING visits
INSERT INTO users (email, name) VALUES ('v@x', 'V') ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1 RETURNING visits
COMMIT
SELECT email, name, visits FROM users ORDER BY email
CREATE PROCEDURE seen(e text, n text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO users (email, name) VALUES (e, n) ON CONFLICT (email) DO UPDATE SET visits = users.visits + 1, name = excluded.name; END $$
CALL seen('a@x', 'by a call')
CALL seen('w@x', 'by a call')
CALL seen('w@x', 'by another')
CREATE PROCEDURE once(e text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO users (email, name) VALUES (e, 'once') ON CONFLICT DO NOTHING; IF NOT FOUND THEN UPDATE users SET name = 'twice' WHERE email = e; END IF; END $$
CALL once('x@x')
CALL once('x@x')
SELECT email, name, visits FROM users ORDER BY email
CREATE TABLE part (id int PRIMARY KEY, code text NOT NULL UNIQUE, n int CHECK (n < 10))
INSERT INTO part VALUES (1, 'a', 1)
INSERT INTO part VALUES (2, 'a', 10) ON CONFLICT (code) DO NOTHING
INSERT INTO part VALUES (3, 'b', 10) ON CONFLICT (code) DO NOTHING
INSERT INTO part VALUES (3, NULL, 1) ON CONFLICT (code) DO UPDATE SET n = 2
INSERT INTO part VALUES (3, 'a', 1) ON CONFLICT (code) DO UPDATE SET n = part.n + excluded.n + 8
CREATE TABLE badge (number int PRIMARY KEY, holder int UNIQUE, door int, UNIQUE NULLS NOT DISTINCT (door, holder))
INSERT INTO badge VALUES (1, 10, 1), (2, 20, 2), (3, NULL, 3)
INSERT INTO badge VALUES (1, 20, 5) ON CONFLICT (holder) DO UPDATE SET door = 6 RETURNING number, holder, door
INSERT INTO badge VALUES (2, 99, 5) ON CONFLICT (holder) DO UPDATE SET door = 7
INSERT INTO badge VALUES (4, 10, 5) ON CONFLICT (number) DO UPDATE SET door = 7
INSERT INTO badge VALUES (1, 20, 5) ON CONFLICT DO NOTHING
INSERT INTO badge VALUES (5, 20, 5) ON CONFLICT DO NOTHING
INSERT INTO badge VALUES (5, 50, 1), (6, 10, 9), (7, 70, 7) ON CONFLICT DO NOTHING RETURNING number
INSERT INTO badge VALUES (8, NULL, 3) ON CONFLICT (holder) DO NOTHING
INSERT INTO badge VALUES (8, NULL, 3) ON CONFLICT (door, holder) DO UPDATE SET door = 33 RETURNING number, door
INSERT INTO badge VALUES (8, NULL, 3) ON CONFLICT (holder) DO NOTHING RETURNING number
INSERT INTO badge VALUES (9, 20, 10) ON CONFLICT (holder) DO UPDATE SET holder = excluded.number
SELECT * FROM badge ORDER BY number
CREATE UNIQUE INDEX ON badge (door)
CREATE TABLE owner (id int PRIMARY KEY)
CREATE TABLE thing (id int PRIMARY KEY, tag text UNIQUE, owner int REFERENCES owner, n int GENERATED ALWAYS AS (id * 2) STORED)
INSERT INTO owner VALUES (1), (2), (3)
INSERT INTO thing VALUES (1, 'a', 1), (2, 'b', 2)
INSERT INTO thing VALUES (3, 'a', 9) ON CONFLICT (tag) DO NOTHING
INSERT INTO thing VALUES (3, 'a', 9) ON CONFLICT (tag) DO UPDATE SET tag = 'a2' RETURNING id, tag, owner, n
INSERT INTO thing VALUES (3, 'c', 9) ON CONFLICT (tag) DO NOTHING
INSERT INTO thing VALUES (3, 'c', 3) ON CONFLICT (tag) DO NOTHING
INSERT INTO thing VALUES (4, 'c', 3) ON CONFLICT (tag) DO UPDATE SET owner = 9
INSERT INTO thing VALUES (4, 'c', 3) ON CONFLICT (tag) DO UPDATE SET owner = 2 RETURNING id, owner
INSERT INTO thing VALUES (1, 'z', 1) ON CONFLICT (tag) DO UPDATE SET owner = 2
INSERT INTO thing VALUES (5, upper('e'), 3) ON CONFLICT (tag) DO UPDATE SET tag = excluded.tag || 'x'
INSERT INTO thing VALUES (6, 'E', 3) ON CONFLICT (tag) DO UPDATE SET tag = excluded.tag || 'x'
SELECT * FROM thing ORDER BY id
WITH new AS (INSERT INTO thing VALUES (7, 'b', 1) ON CONFLICT (tag) DO UPDATE SET owner = 1 RETURNING id, owner) SELECT * FROM new
"#;

#[test]
fn they_meet_their_rows_as_on_postgresql() {
    compare(CONVERSATION);
}

/// Each key is put many times at once, by statements, transactions and calls: one row each, and nothing that was counted is lost.
#[test]
fn many_clients_put_the_same_keys() {
    const ROUNDS: usize = 25;
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(
            "CREATE TABLE hit (id bigserial PRIMARY KEY, page text NOT NULL UNIQUE, n int NOT NULL DEFAULT 1)",
        )
        .unwrap();
        own.batch_execute(
            "CREATE PROCEDURE hits(p text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO hit (page) VALUES (p) \
             ON CONFLICT (page) DO UPDATE SET n = hit.n + 1; END $$",
        )
        .unwrap();
        let put = |at: usize, round: usize, driver: &mut postgres::Client| {
            let page = format!("p{}", round % 5);
            let insert = format!(
                "INSERT INTO hit (page) VALUES ('{page}') ON CONFLICT (page) DO UPDATE SET n = hit.n + 1"
            );
            let text = match at % 3 {
                0 => insert,
                1 => format!("BEGIN; {insert}; COMMIT"),
                _ => format!("CALL hits('{page}')"),
            };
            loop {
                match driver.batch_execute(&text) {
                    Ok(()) => return,
                    // Clients try these again.
                    Err(error)
                        if error.code().is_some_and(|code| ["40001", "40P01"].contains(&code.code())) =>
                    {
                        driver.batch_execute("ROLLBACK").unwrap();
                    }
                    Err(error) => panic!("{text}: {error:?}"),
                }
            }
        };
        let drivers: Vec<postgres::Client> = (0..6).map(|_| weir.driver()).collect();
        thread::scope(|scope| {
            for (at, mut driver) in drivers.into_iter().enumerate() {
                scope.spawn(move || (0..ROUNDS).for_each(|round| put(at, round, &mut driver)));
            }
        });
        let told = answer(&mut own, "SELECT count(*), sum(n) FROM hit");
        let row = own.query_one("SELECT count(*), sum(n) FROM hit", &[]).unwrap();
        assert_eq!(
            (row.get::<_, i64>(0), row.get::<_, i64>(1)),
            (5, 6 * ROUNDS as i64),
            "{shards} shards: {told}"
        );
    }
}
