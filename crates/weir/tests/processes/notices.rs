//! Notices of procedures, functions and blocks (RAISE NOTICE and the like) arrive as from PostgreSQL: each once, in the body's order,
//! before the answer, on one shard and on three.

use crate::answers;

use std::sync::{Arc, Mutex};

use crate::alone::Alone;
use postgres::{Client as Driver, Config, NoTls};
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = "
CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
INSERT INTO t SELECT i, i * 10 FROM generate_series(1, 6) i;
CREATE PROCEDURE greet(who text) LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'hello %, 100%%', who; RAISE NOTICE 'bye'; END $$;
CREATE PROCEDURE levels() LANGUAGE plpgsql AS $$ BEGIN
    RAISE DEBUG 'd'; RAISE LOG 'l'; RAISE INFO 'i'; RAISE NOTICE 'n'; RAISE WARNING 'w';
    RAISE WARNING 'with %', 'all' USING ERRCODE = '01P01', DETAIL = 'de', HINT = 'hi';
    RAISE NOTICE division_by_zero; RAISE NOTICE USING MESSAGE = 'm', ERRCODE = 'unique_violation';
    RAISE NOTICE USING HINT = 'only'; END $$;
CREATE FUNCTION double(a integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'doubling %', a; RETURN a * 2; END $$;
CREATE FUNCTION n_of(a integer, OUT had integer) LANGUAGE plpgsql AS $$
BEGIN SELECT n INTO had FROM t WHERE id = a; RAISE NOTICE 'it has %', had; END $$;
CREATE FUNCTION series(a integer) RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN FOR i IN 1..a LOOP RAISE NOTICE 'next is %', i; RETURN NEXT i; END LOOP; END $$;
CREATE PROCEDURE twice(a integer, OUT b integer) LANGUAGE plpgsql AS $$
BEGIN b := a * 2; RAISE NOTICE 'twice % is %', a, b; END $$;
CREATE PROCEDURE outer_one(a integer) LANGUAGE plpgsql AS $$ DECLARE b integer;
BEGIN RAISE NOTICE 'before'; CALL twice(a, b); CALL twice(b, b); CALL greet('inner'); RAISE NOTICE 'after %', b; END $$;
CREATE PROCEDURE move(a integer, b integer, by integer) LANGUAGE plpgsql AS $$ DECLARE had integer; has integer; BEGIN
    RAISE NOTICE 'moving % from % to %', by, a, b;
    UPDATE t SET n = n - by WHERE id = a RETURNING n INTO had;
    RAISE NOTICE '% has % left', a, had;
    UPDATE t SET n = n + by WHERE id = b RETURNING n INTO has;
    IF has > 1000 THEN RAISE WARNING '% has more than it should', b; END IF;
    IF had < 0 THEN RAISE EXCEPTION '% lacks %', a, -had; END IF;
    RAISE NOTICE '% has % now', b, has;
END $$;
CREATE PROCEDURE loops(a integer, b integer) LANGUAGE plpgsql AS $$ DECLARE i integer := 0; got integer; BEGIN
    WHILE i < 3 LOOP
        i := i + 1; UPDATE t SET n = n + i WHERE id = a;
        SELECT n INTO got FROM t WHERE id = b; RAISE NOTICE 'round % of %', i, got;
    END LOOP;
END $$;
CREATE PROCEDURE nothing_given(a text) LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'first %', a; RAISE NOTICE 'x' USING DETAIL = a; END $$;
CREATE PROCEDURE wrong(a integer) LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'so far'; RAISE NOTICE '%', 1 / a; END $$;
";

const SCRIPT: &str = "
a: CALL greet('ann')
a: CALL greet(NULL)
a: CALL levels()
a: SET client_min_messages = log
a: CALL levels()
a: SET client_min_messages = 'DEBUG'
a: SHOW client_min_messages
a: CALL levels()
a: SET client_min_messages = warning
a: CALL levels()
a: DROP TABLE IF EXISTS nobodys
a: COMMIT
a: SET client_min_messages = error
a: CALL levels()
a: COMMIT
a: SET client_min_messages = fatal
a: RESET client_min_messages
a: COMMIT
a: SELECT double(4)
a: SELECT * FROM double(5)
a: SELECT n_of(2)
a: SELECT * FROM n_of(7)
a: SELECT * FROM series(3)
a: CALL move(1, 2, 5)
a: CALL move(3, 4, 7)
a: CALL move(5, 6, 1)
a: CALL move(2, 5, 4000)
a: CALL move(1, 3, 1)
a: CALL move(1, 3, 1); CALL greet('both')
a: CALL greet('first'); CALL move(1, 3, 9999); CALL greet('never')
a: SELECT * FROM t ORDER BY id
a: CALL loops(1, 6)
a: CALL loops(2, 3)
a: CALL nothing_given('y')
a: CALL nothing_given(NULL)
a: CALL wrong(1)
a: CALL wrong(0)
a: BEGIN
a: CALL greet('within')
a: CALL move(1, 2, 1)
a: SELECT double(1)
a: SAVEPOINT s
a: CALL move(1, 2, 9999)
a: SELECT 1
a: ROLLBACK TO s
a: CALL move(2, 3, 1)
a: COMMIT
a: BEGIN
a: CALL greet('to be forgotten')
a: CALL wrong(0)
a: ROLLBACK
a: SELECT 1
a: PREPARE p(integer) AS SELECT double($1)
a: EXECUTE p(3)
a: EXECUTE p(4)
a: DO $$ DECLARE i integer; BEGIN FOR i IN 1..3 LOOP RAISE NOTICE 'in block: %', i; END LOOP; RAISE WARNING 'done' USING HINT = 'h'; END $$
a: DO $$ DECLARE x text; BEGIN RAISE INFO 'x is %', x; END $$
a: DO $$ BEGIN RAISE LOG 'l'; RAISE DEBUG 'd'; RAISE INFO 'i'; RAISE NOTICE 'n'; RAISE WARNING 'w'; RAISE WARNING 'w2'; END $$
a: DO $$ BEGIN RAISE NOTICE 'one'; CALL greet('do'); PERFORM double(8); IF 1 < 2 THEN RAISE NOTICE 'two'; END IF; END $$
a: DO $$ BEGIN RAISE NOTICE 'heard'; CALL wrong(0); END $$
a: DO $$ BEGIN CALL wrong(0); EXCEPTION WHEN division_by_zero THEN RAISE NOTICE 'caught'; END $$
a: SELECT * FROM t ORDER BY id
";

/// Procedures that call others run on one shard.
const ON_ONE: &str = "
a: CALL outer_one(3)
a: BEGIN
a: CALL outer_one(3)
a: COMMIT
";

#[test]
fn what_is_raised_is_heard_as_from_postgresql() {
    let whole = format!("{SCRIPT}{ON_ONE}");
    for (shards, script) in [(1, &*whole), (3, SCRIPT)] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (SCHEMA, script), &what);
    }
}

fn listening(url: &str) -> (Driver, Arc<Mutex<Vec<String>>>) {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let (heard, mut config) = (notices.clone(), url.parse::<Config>().unwrap());
    config.notice_callback(move |notice| heard.lock().unwrap().push(notice.message().to_owned()));
    (config.connect(NoTls).unwrap(), notices)
}

/// Through Parse, Bind and Execute, alone and in a transaction.
#[test]
fn prepared_statements_speak() {
    let (weir, postgres) = (Alone::start(3), Postgres::start().unwrap());
    let [found, expected] = [weir.url(), postgres.connection_string()].map(|url| {
        let (mut driver, notices) = listening(&url);
        driver.batch_execute(SCHEMA).unwrap();
        let take = || std::mem::take(&mut *notices.lock().unwrap());
        let call = driver.prepare("CALL move($1, $2, $3)").unwrap();
        let select = driver.prepare("SELECT double($1)").unwrap();
        let mut heard = vec![take()];
        driver.execute(&call, &[&1, &2, &3]).unwrap();
        heard.push(take());
        assert_eq!(driver.query_one(&select, &[&21]).unwrap().get::<_, i32>(0), 42);
        heard.push(take());
        assert!(driver.execute(&call, &[&1, &2, &9999]).is_err());
        heard.push(take());
        let mut transaction = driver.transaction().unwrap();
        transaction.execute(&call, &[&4, &5, &1]).unwrap();
        heard.push(take());
        transaction.query(&select, &[&1]).unwrap();
        assert!(transaction.execute("CALL wrong($1)", &[&0]).is_err());
        transaction.rollback().unwrap();
        heard.push(take());
        heard
    });
    assert_eq!(found, expected, "PostgreSQL on the right");
    assert_eq!(found[1], ["moving 3 from 1 to 2", "1 has 7 left", "2 has 23 now"]);
}

/// A call that meets others at a guard begins anew; what it has said before is not told.
#[test]
fn calls_that_are_begun_again_speak_once() {
    const ROUNDS: i32 = 40;
    let weir = Alone::start(3);
    weir.driver().batch_execute(SCHEMA).unwrap();
    let speaker = |at: i32| {
        let (mut driver, notices) = listening(&weir.url());
        move || {
            for round in 0..ROUNDS {
                let (a, b) = if (at + round) % 2 == 0 { (1, 2) } else { (2, 1) };
                let moved = driver.simple_query(&format!("CALL move({a}, {b}, 1)"));
                let heard = std::mem::take(&mut *notices.lock().unwrap());
                assert_eq!(heard[0], format!("moving 1 from {a} to {b}"));
                assert!(heard[1].starts_with(&format!("{a} has ")), "{heard:?}");
                assert_eq!(heard.len(), if moved.is_ok() { 3 } else { 2 }, "{moved:?} {heard:?}");
            }
        }
    };
    let speakers: Vec<_> = (0..4).map(|at| std::thread::spawn(speaker(at))).collect();
    speakers.into_iter().for_each(|one| one.join().unwrap());
}

/// After it was killed a server reads its log, and says nothing of what it once said.
#[test]
fn what_was_said_is_not_said_again_after_a_crash() {
    let mut weir = Alone::start(3);
    weir.driver().batch_execute(SCHEMA).unwrap();
    let (mut driver, notices) = listening(&weir.url());
    driver.simple_query("CALL move(1, 2, 3)").unwrap();
    assert_eq!(std::mem::take(&mut *notices.lock().unwrap()).len(), 3);
    weir.kill_and_start_again();
    let (mut driver, notices) = listening(&weir.url());
    let answered = answers::answer(&mut driver, "SELECT id, n FROM t WHERE id <= 2 ORDER BY id");
    assert_eq!((&*answered, notices.lock().unwrap().len()), ("1|7 2|23 (2)", 0));
}

/// The deciding shard has its own rows only, so a query in an argument is evaluated on one shard's rows, or refused.
#[test]
fn a_query_in_an_argument_is_answered() {
    let counting = "CREATE PROCEDURE counting() LANGUAGE plpgsql AS $$
        BEGIN RAISE NOTICE 'there are %', (SELECT count(*) FROM t); END $$";
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let (mut driver, notices) = listening(&weir.url());
        driver.batch_execute(SCHEMA).unwrap();
        driver.batch_execute(counting).unwrap();
        driver.batch_execute("CALL counting()").unwrap();
        assert_eq!(*notices.lock().unwrap(), ["there are 6"], "{shards} shards");
    }
}

#[test]
fn who_says_too_much_is_cut_short_and_says_so() {
    let weir = Alone::start(1);
    let (mut driver, notices) = listening(&weir.url());
    let block = "DO $$ DECLARE i integer; BEGIN FOR i IN 1..100000 LOOP RAISE DEBUG 'd'; RAISE NOTICE '%', repeat('x', 36); END LOOP; RAISE WARNING 'last'; END $$";
    driver.simple_query(block).unwrap();
    let heard = std::mem::take(&mut *notices.lock().unwrap());
    // 256 kB, 100 bytes each.
    assert_eq!(heard.len(), 2_621 + 2, "{:?}", heard.last());
    assert_eq!(&heard[2_621..], ["last", "97379 more messages of severity NOTICE were left out"]);
}
