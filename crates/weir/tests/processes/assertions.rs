//! CREATE ASSERTION and DROP ASSERTION while a server runs, of which PostgreSQL has none: the rows are looked at, the procedures analysed
//! anew, and statements by themselves checked with it from then on.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::alone::Alone;
use crate::answers::answer;
use postgres::Client as Driver;

fn check(driver: &mut Driver, conversation: &[(&str, &str)]) {
    for (text, expected) in conversation {
        assert_eq!(answer(driver, text), *expected, "{text}");
    }
}

const SCHEMA: &str = "
CREATE TABLE room (id int PRIMARY KEY, members int NOT NULL DEFAULT 0);
CREATE TABLE member (id int PRIMARY KEY, room int NOT NULL, age int NOT NULL);
INSERT INTO room VALUES (1, 2), (2, 1), (3, 0), (4, 0);
INSERT INTO member VALUES (1, 1, 30), (2, 1, 7), (3, 2, 12), (4, 4, 9), (5, 4, 40), (6, 4, 50);
";

#[test]
fn rows_that_break_it_are_named() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(SCHEMA).unwrap();
        check(
            &mut own,
            &[
                (
                    "CREATE ASSERTION adults CHECK (NOT EXISTS (SELECT 1 FROM member m WHERE m.age < 8))",
                    "23514 assertion \"adults\" is violated by some row | Failing rows contain (id, room, age) = (2, 1, 7).",
                ),
                // Of rows that live on several shards.
                (
                    "CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT r.id FROM room r
                     WHERE r.members <> (SELECT count(*) FROM member m WHERE m.room = r.id)))",
                    "23514 assertion \"counted\" is violated by some row | Failing rows contain (id, members) = (4, 0).",
                ),
                (
                    "CREATE ASSERTION small CHECK (NOT EXISTS (SELECT room, count(*) AS n FROM member GROUP BY room HAVING count(*) > 2))",
                    "23514 assertion \"small\" is violated by some row | Failing rows contain (room, n) = (4, 3).",
                ),
                (
                    "CREATE ASSERTION all_together CHECK ((SELECT sum(members) FROM room) = (SELECT count(*) FROM member) -- all\n)",
                    "23514 assertion \"all_together\" is false of the rows that there are | Its sides are 3 and 6.",
                ),
                (
                    "CREATE ASSERTION somebody CHECK (EXISTS (SELECT 1 FROM member WHERE age > 90))",
                    "23514 assertion \"somebody\" is false of the rows that there are",
                ),
                (
                    "CREATE ASSERTION nobody CHECK (NOT EXISTS (SELECT 1 FROM member WHERE nothing > 90))",
                    "42703 column \"nothing\" does not exist",
                ),
                (
                    "CREATE ASSERTION x CHECK (1 < 2",
                    "42601 the parenthesis of CHECK does not close at end of input",
                ),
                ("UPDATE room SET members = 3 WHERE id = 4", "(1)"),
                (
                    "CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT r.id FROM room r
                     WHERE r.members <> (SELECT count(*) FROM member m WHERE m.room = r.id)))",
                    "(0)",
                ),
                ("CREATE ASSERTION counted CHECK (1 < 2)", "42710 assertion \"counted\" already exists"),
                ("DROP ASSERTION nothing", "42704 assertion \"nothing\" does not exist"),
                ("DROP ASSERTION IF EXISTS nothing, counted", "(0)"),
                ("DROP ASSERTION counted", "42704 assertion \"counted\" does not exist"),
            ],
        );
    }
}

#[test]
fn statements_by_themselves_are_checked_with_it() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(SCHEMA).unwrap();
        check(
            &mut own,
            &[
                ("INSERT INTO member VALUES (7, 3, -1)", "(1)"),
                ("DELETE FROM member WHERE id = 7", "(1)"),
                ("CREATE ASSERTION born CHECK (NOT EXISTS (SELECT 1 FROM member WHERE age < 0))", "(0)"),
                (
                    "INSERT INTO member VALUES (7, 3, -1)",
                    "23514 assertion \"born\" is violated by some row | Failing rows contain (id, room, age) = (7, 3, -1).",
                ),
                // A condition on constants needs no check.
                ("INSERT INTO member VALUES (7, 3, 0), (9, 3, 4)", "(2)"),
                ("INSERT INTO member VALUES (7, 3, 5) ON CONFLICT DO NOTHING", "(0)"),
                ("UPDATE member SET age = 6 WHERE id = 7", "(1)"),
                ("UPDATE member SET age = age - 6 WHERE id = 7", "(1)"),
                (
                    "UPDATE member SET age = age - 6 WHERE id = 7",
                    "23514 assertion \"born\" is violated by some row | Failing rows contain (id, room, age) = (7, 3, -6).",
                ),
                ("DELETE FROM member WHERE id IN (7, 9)", "(2)"),
                ("UPDATE room SET members = 2 WHERE id = 1", "(1)"),
                ("BEGIN", "(0)"),
                ("DROP ASSERTION born", "(0)"),
                ("INSERT INTO member VALUES (8, 3, -1)", "(1)"),
                (
                    "CREATE ASSERTION born CHECK (NOT EXISTS (SELECT 1 FROM member WHERE age < 0))",
                    "23514 assertion \"born\" is violated by some row | Failing rows contain (id, room, age) = (8, 3, -1).",
                ),
                ("ROLLBACK", "(0)"),
                (
                    "UPDATE member SET age = -1 WHERE id = 3",
                    "23514 assertion \"born\" is violated by some row | Failing rows contain (id, room, age) = (3, 2, -1).",
                ),
                ("BEGIN", "(0)"),
                ("SAVEPOINT s", "(0)"),
                (
                    "CREATE ASSERTION old CHECK (NOT EXISTS (SELECT 1 FROM member WHERE age < 9 AND room = 1))",
                    "23514 assertion \"old\" is violated by some row | Failing rows contain (id, room, age) = (2, 1, 7).",
                ),
                ("ROLLBACK TO s", "(0)"),
                ("DELETE FROM member WHERE id = 2", "(1)"),
                (
                    "CREATE ASSERTION old CHECK (NOT EXISTS (SELECT 1 FROM member WHERE age < 9 AND room = 1))",
                    "(0)",
                ),
                ("COMMIT", "(0)"),
                ("DROP ASSERTION old; DROP ASSERTION born", "(0) (0)"),
                ("UPDATE member SET age = -1 WHERE id = 3", "(1)"),
            ],
        );
    }
}

/// Statements that change or delete rows of an assertion are checked too.
#[test]
fn what_changes_what_it_speaks_of_is_looked_at() {
    let weir = Alone::start(3);
    let mut own = weir.driver();
    own.batch_execute(SCHEMA).unwrap();
    check(
        &mut own,
        &[
            ("CREATE VIEW young AS SELECT id FROM member WHERE age < 5", "(0)"),
            ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 FROM young))", "(0)"),
            ("CREATE ASSERTION b CHECK (EXISTS (SELECT 1 FROM room))", "(0)"),
            ("CREATE TABLE other (id int PRIMARY KEY)", "(0)"),
            (
                "CREATE OR REPLACE VIEW young AS SELECT id FROM member WHERE age < 8",
                "23514 assertion \"a\" is violated by some row | Failing rows contain (id) = (2).",
            ),
            ("TRUNCATE room", "23514 assertion \"b\" is false of the rows that there are"),
            ("TRUNCATE member", "(0)"),
            (
                "ALTER TABLE member ALTER COLUMN age TYPE bigint",
                "0A000 cannot alter type of a column used by a view or rule",
            ),
            (
                "ALTER TABLE member DROP COLUMN age",
                "2BP01 something else needs what this changes: relation \"young\" does not exist",
            ),
        ],
    );
}

const MESSAGES: &str = "
CREATE TABLE channel (id int PRIMARY KEY, last_no int NOT NULL DEFAULT 0);
CREATE TABLE message (channel int NOT NULL, no int NOT NULL);
CREATE INDEX message_of ON message (channel, no);
INSERT INTO channel VALUES (1), (2), (3), (4);
CREATE PROCEDURE post(c int) LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
    UPDATE channel SET last_no = last_no + 1 WHERE id = c RETURNING last_no INTO n;
    INSERT INTO message VALUES (c, n);
END $$;
";

const NUMBERED: &str = "CREATE ASSERTION numbered CHECK (NOT EXISTS (SELECT 1 FROM channel c
    WHERE c.last_no <> (SELECT coalesce(max(m.no), 0) FROM message m WHERE m.channel = c.id)))";

/// The plan of a procedure that runs is another one, or it checks what it is not shown to keep.
#[test]
fn procedures_are_analysed_anew() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(MESSAGES).unwrap();
        let plan = |own: &mut Driver| answer(own, "EXPLAIN (COORDINATION) CALL post(1)");
        assert!(!plan(&mut own).contains("numbered"));
        assert_eq!(answer(&mut own, NUMBERED), "(0)");
        let guarded = plan(&mut own);
        assert!(
            guarded.contains("Guard: sequence on channel") && guarded.contains("Keeps: numbered"),
            "{guarded}"
        );
        check(
            &mut own,
            &[
                ("CALL post(1)", "(0)"),
                ("CALL post(1)", "(0)"),
                ("DROP ASSERTION numbered", "(0)"),
                ("CREATE TABLE acct (id int PRIMARY KEY, balance int NOT NULL)", "(0)"),
                ("INSERT INTO acct VALUES (1, 10), (2, 20), (3, 30)", "(3)"),
            ],
        );
        let solvent = "CREATE ASSERTION solvent CHECK (NOT EXISTS (SELECT 1 FROM acct WHERE balance < 0))";
        let put = "CREATE PROCEDURE put(a int, b int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO acct VALUES (a, b); END $$";
        let take = "CREATE PROCEDURE take(a int) LANGUAGE plpgsql AS $$
            DECLARE b int; BEGIN
                SELECT balance INTO b FROM acct WHERE id = a;
                IF b < 1 THEN RAISE EXCEPTION 'empty'; END IF;
                UPDATE acct SET balance = balance - 1 WHERE id = a;
            END $$";
        // Whichever comes second.
        for pair in [[put, solvent], [solvent, put], [take, solvent], [solvent, take]] {
            check(&mut own, &pair.map(|text| (text, "(0)")));
            let calls: &[(&str, &str)] = match pair.contains(&put) {
                true => &[
                    (
                        "CALL put(4, -5)",
                        "23514 assertion \"solvent\" is violated by some row | Failing rows contain (id, balance) = (4, -5).",
                    ),
                    ("CALL put(4, 5)", "(0)"),
                    ("DELETE FROM acct WHERE id = 4", "(1)"),
                    ("DROP PROCEDURE put", "(0)"),
                ],
                false => &[
                    ("CALL take(1)", "(0)"),
                    ("INSERT INTO acct VALUES (5, 0)", "(1)"),
                    ("CALL take(5)", "P0001 empty"),
                    ("DELETE FROM acct WHERE id = 5", "(1)"),
                    ("DROP PROCEDURE take", "(0)"),
                ],
            };
            check(&mut own, calls);
            assert_eq!(answer(&mut own, "DROP ASSERTION solvent"), "(0)");
        }
    }
}

#[test]
fn it_is_there_after_a_kill() {
    let mut weir = Alone::start(3);
    let mut own = weir.driver();
    own.batch_execute(SCHEMA).unwrap();
    own.batch_execute(
        "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 FROM member WHERE age < 0));
         CREATE ASSERTION b CHECK (EXISTS (SELECT 1 FROM room)); DROP ASSERTION b;",
    )
    .unwrap();
    weir.kill_and_start_again();
    let mut own = weir.driver();
    check(
        &mut own,
        &[
            (
                "INSERT INTO member VALUES (7, 3, -1)",
                "23514 assertion \"a\" is violated by some row | Failing rows contain (id, room, age) = (7, 3, -1).",
            ),
            ("UPDATE room SET members = 2 WHERE id = 1", "(1)"),
            ("TRUNCATE room", "(0)"),
            ("DROP ASSERTION a", "(0)"),
            ("INSERT INTO member VALUES (8, 3, -1)", "(1)"),
        ],
    );
}

/// Calls go on while it comes and goes; none is refused for it, and it holds whenever somebody looks.
#[test]
fn others_work_on_while_it_comes_and_goes() {
    let weir = Alone::start(3);
    let mut own = weir.driver();
    own.batch_execute(MESSAGES).unwrap();
    let is_over = AtomicBool::new(false);
    let posted: i64 = std::thread::scope(|scope| {
        let worker = |which: i64| {
            let (mut own, is_over) = (weir.driver(), &is_over);
            scope.spawn(move || {
                let mut posted = 0;
                while !is_over.load(Ordering::Relaxed) {
                    own.batch_execute(&format!("CALL post({})", 1 + (which + posted) % 4)).unwrap();
                    posted += 1;
                }
                posted
            })
        };
        let workers: Vec<_> = (0..3).map(worker).collect();
        let done: Result<(), postgres::Error> = (0..4).try_for_each(|_| {
            own.batch_execute(NUMBERED)?;
            own.batch_execute("DROP ASSERTION numbered")
        });
        is_over.store(true, Ordering::Relaxed);
        let posted = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        done.unwrap();
        posted
    });
    assert!(posted > 0);
    assert_eq!(answer(&mut own, NUMBERED), "(0)");
    assert_eq!(answer(&mut own, "SELECT sum(last_no) FROM channel"), format!("{posted} (1)"));
    assert_eq!(answer(&mut own, "SELECT count(*) FROM message"), format!("{posted} (1)"));
}

/// Every assertion is DEFERRABLE INITIALLY DEFERRED: SET CONSTRAINTS may say so.
#[test]
fn it_waits_for_the_end_of_its_transaction() {
    let weir = Alone::start(1);
    let mut own = weir.driver();
    own.batch_execute(SCHEMA).unwrap();
    check(
        &mut own,
        &[
            (
                "CREATE ASSERTION young CHECK (NOT EXISTS (SELECT 1 FROM member WHERE age > 90)) DEFERRABLE INITIALLY DEFERRED",
                "(0)",
            ),
            ("BEGIN", "(0)"),
            ("SET CONSTRAINTS young DEFERRED", "(0)"),
            ("INSERT INTO member VALUES (7, 3, 91)", "(1)"),
            ("UPDATE member SET age = 90 WHERE id = 7", "(1)"),
            ("COMMIT", "(0)"),
            ("BEGIN", "(0)"),
            (
                "SET CONSTRAINTS young IMMEDIATE",
                "0A000 assertion \"young\" is checked when its transaction commits",
            ),
            ("ROLLBACK", "(0)"),
            ("SET CONSTRAINTS old DEFERRED", "42704 constraint \"old\" does not exist"),
        ],
    );
}
