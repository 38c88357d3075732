//! Parsed forms of client texts.

use super::*;
use crate::statement::ParsedText;

fn check(text: &str, expected: &[Command]) {
    let seen: Vec<Command> = statements(text).unwrap().into_iter().map(|one| one.what).collect();
    assert_eq!(seen, expected, "{text}");
}

fn set(name: &str, value: Option<&str>, local: bool) -> Command {
    Command::Set { name: name.to_owned(), value: value.map(str::to_owned), local }
}

#[test]
fn transactions() {
    let plain = Characteristics::default();
    check("BEGIN", &[Command::Begin(plain, "BEGIN")]);
    check(
        "begin work; COMMIT; END; rollback; ABORT",
        &[
            Command::Begin(plain, "BEGIN"),
            Command::Commit,
            Command::Commit,
            Command::RollBack,
            Command::RollBack,
        ],
    );
    let serializable = Characteristics {
        isolation: Some(Isolation::Serializable),
        read_only: Some(true),
        deferrable: Some(true),
    };
    check(
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
        &[Command::Begin(serializable, "START TRANSACTION")],
    );
    let writes = Characteristics { read_only: Some(false), ..plain };
    check("BEGIN READ WRITE", &[Command::Begin(writes, "BEGIN")]);
    let repeatable = Characteristics { isolation: Some(Isolation::RepeatableRead), ..plain };
    check("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", &[Command::SetTransaction(repeatable)]);
    check("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", &[Command::SetSession(writes)]);
    check(
        "SAVEPOINT a; RELEASE a; ROLLBACK TO SAVEPOINT \"B\"",
        &[Command::Savepoint("a".into()), Command::Release("a".into()), Command::RollBackTo("B".into())],
    );
    check("COMMIT AND CHAIN", &[Command::Unsupported("COMMIT AND".into())]);
    check("PREPARE TRANSACTION 'x'", &[Command::Unsupported("PREPARE TRANSACTION".into())]);
}

#[test]
fn signals_are_told_apart_from_their_query() {
    let told = |text: &str, expected: &[Signal], expected_query: &str| {
        let Some(Command::Signal { signals, query }) = statements(text).unwrap().pop().map(|one| one.what)
        else {
            panic!("{text}: no signal")
        };
        let query = query.in_text(text).sql().unwrap();
        assert_eq!((&signals[..], query.as_str()), (expected, expected_query), "{text}");
    };
    let signal = |column, kind, is_unnamed| Signal { column, kind, is_unnamed };
    told("SELECT pg_cancel_backend(7)", &[signal(0, SignalKind::Cancel, true)], "SELECT 7");
    told(
        "SELECT 1; SELECT pid, pg_catalog.pg_terminate_backend (pid) AS ended FROM pg_stat_activity",
        &[signal(1, SignalKind::Terminate, false)],
        "SELECT pid, pid AS ended FROM pg_stat_activity",
    );
    check("SELECT *, pg_cancel_backend(pid) FROM pg_stat_activity", &[Command::Run]);
}

#[test]
fn settings() {
    check("SET extra_float_digits = 3", &[set("extra_float_digits", Some("3"), false)]);
    check("set local TimeZone to 'UTC'", &[set("timezone", Some("UTC"), true)]);
    check("SET search_path TO a, public", &[set("search_path", Some("a, public"), false)]);
    check("SET standard_conforming_strings = on", &[set("standard_conforming_strings", Some("on"), false)]);
    check(
        "SET a.b TO DEFAULT; RESET c; RESET ALL",
        &[set("a.b", None, false), set("c", None, false), Command::ResetAll],
    );
    check(
        "SHOW Transaction_Isolation; SHOW ALL",
        &[Command::Show(Some("transaction_isolation".into())), Command::Show(None)],
    );
    check("SHOW TRANSACTION ISOLATION LEVEL", &[Command::Show(Some("transaction_isolation".into()))]);
    check(
        "DISCARD ALL; DISCARD SEQUENCES; DISCARD PLANS; DEALLOCATE p; DEALLOCATE ALL",
        &[
            Command::Discard { all: true, sequences: true, temporary: true },
            Command::Discard { all: false, sequences: true, temporary: false },
            Command::Discard { all: false, sequences: false, temporary: false },
            Command::Deallocate(Some("p".into())),
            Command::Deallocate(None),
        ],
    );
}

#[test]
fn prepared_statements_and_cursors() {
    let one = |text: &str| {
        let said = statements(text).unwrap().remove(0);
        let of = |inner: &InnerStatement| inner.in_text(text).sql().unwrap();
        match said.what {
            Command::Prepare { name, types, body } => format!("{name} {types:?} {}", of(&body)),
            Command::Execute { name, arguments } => {
                format!("{name} {}", arguments.map(|row| of(&row)).unwrap_or_default())
            }
            Command::Declare { name, scroll, hold, binary, query } => {
                format!("{name} {scroll:?} {hold} {binary} {}", of(&query))
            }
            other => format!("{other:?}"),
        }
    };
    let check = |text: &str, expected: &str| assert_eq!(one(text), expected, "{text}");
    check("PREPARE p AS SELECT $1 as a", "p [] SELECT $1 AS a");
    check(
        "prepare \"P\" (int, unknown, numeric(5,2)) as /* the */ VALUES (1)",
        "P [Int4, Unknown, Numeric(Some((5, 2)))] VALUES (1)",
    );
    check("EXECUTE p", "p ");
    check("EXECUTE p (1, f(2), ')')", "p SELECT 1, f(2), ')'");
    check("DECLARE c CURSOR FOR SELECT 1 FOR UPDATE", "c None false false SELECT 1 FOR UPDATE");
    check("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1", "c Some(false) true false SELECT 1");
    check("DECLARE c BINARY SCROLL CURSOR FOR SELECT 1", "c Some(true) false true SELECT 1");
    let fetch = |way: Way, moves: bool| Command::Fetch { name: "c".to_owned(), way, moves };
    check_fetch("FETCH c", fetch(Way::By(1), false));
    check_fetch("FETCH 5 FROM c", fetch(Way::By(5), false));
    check_fetch("FETCH ALL IN c", fetch(Way::By(i64::MAX), false));
    check_fetch("FETCH BACKWARD 2 FROM c", fetch(Way::By(-2), false));
    check_fetch("FETCH PRIOR FROM c", fetch(Way::By(-1), false));
    check_fetch("FETCH FIRST FROM c", fetch(Way::To(1), false));
    check_fetch("FETCH LAST FROM c", fetch(Way::To(-1), false));
    check_fetch("MOVE RELATIVE -3 FROM c", fetch(Way::Over(-3), true));
    check("CLOSE c", "CloseCursor(Some(\"c\"))");
    check("CLOSE ALL", "CloseCursor(None)");
}

fn check_fetch(text: &str, expected: Command) {
    check(text, &[expected]);
}

#[test]
fn the_others() {
    check("", &[]);
    check(" ;; -- nothing\n ; /* at all */", &[]);
    check(
        "select 1; insert into t values (1); call p(); with x as (select 1) delete from t",
        &[Command::Run, Command::Run, Command::Run, Command::Run],
    );
    check(
        "CREATE TABLE t (a int); DROP VIEW v; TRUNCATE t; COMMENT ON TABLE t IS 'x'",
        &["CREATE TABLE", "DROP VIEW", "TRUNCATE TABLE", "COMMENT"].map(Command::Define),
    );
    check(
        "COPY t (a, \"B\") FROM STDIN (FORMAT csv, FORCE_NULL (a), HEADER, DELIMITER ';'); CHECKPOINT",
        &[
            Command::Copy(Copy {
                what: Copied::Table { name: "t".into(), columns: vec!["a".into(), "B".into()] },
                is_from: true,
                options: vec![
                    ("format".into(), CopyOption::Text("csv".into())),
                    ("force_null".into(), CopyOption::Names(vec!["a".into()])),
                    ("header".into(), CopyOption::Bare),
                    ("delimiter".into(), CopyOption::Text(";".into())),
                ],
            }),
            Command::Nothing("CHECKPOINT"),
        ],
    );
    check(
        "LISTEN x; LOCK TABLE t; LOCK a, s.b IN SHARE ROW EXCLUSIVE MODE NOWAIT",
        &[
            Command::Unsupported("LISTEN x".into()),
            Command::Lock(Lock { tables: vec!["t".into()], mode: LockMode::AccessExclusive, nowait: false }),
            Command::Lock(Lock {
                tables: vec!["a".into(), "s.b".into()],
                mode: LockMode::Exclusive,
                nowait: true,
            }),
        ],
    );
    for (text, expected) in [
        ("listen News", "LISTEN news"),
        ("LISTEN \"News\"", "LISTEN \"News\""),
        ("Notify Jobs, 'a b'", "NOTIFY jobs"),
    ] {
        check(text, &[Command::Unsupported(expected.into())]);
    }
    let Command::CreateAs(create) = statements("select a into table s.t from x").unwrap().remove(0).what
    else {
        panic!("it makes a table")
    };
    assert_eq!(create.query.in_text("").sql().unwrap(), "SELECT a FROM x");
    check("SELECT 1 INTO TEMP t", &[Command::Run]);
    check(
        "create assertion a check (1 < 2); select 1; DROP ASSERTION a",
        &[Command::Define("CREATE ASSERTION"), Command::Run, Command::Define("DROP ASSERTION")],
    );
    let said = statements("/* before */ select 'é' ; commit ").unwrap();
    let places: Vec<(u32, u32)> = said.iter().map(|one| (one.span.start, one.span.end)).collect();
    assert_eq!(places, [(13, 24), (27, 33)]);
    assert_eq!(statements("selec 1").unwrap_err().state, SqlState::SYNTAX_ERROR);
}

/// Names, strings and comments that look like the words around a statement are none of them.
#[test]
fn inner_statements_are_those_of_the_grammar() {
    let inner = |text: &str| {
        let Some(one) = statements(text).unwrap().pop() else { panic!("{text}: nothing") };
        let inner = match one.what {
            Command::Prepare { body, .. } => body,
            Command::Declare { query, .. } => query,
            Command::Copy(Copy { what: Copied::Query(query), .. }) => query,
            Command::CreateAs(create) => create.query,
            Command::Execute { arguments, .. } => arguments.unwrap(),
            Command::Explain(_, of) => match *of {
                Command::RunInner(inner) => inner,
                Command::Declare { query, .. } => query,
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        };
        inner.in_text(text).sql().unwrap()
    };
    for query in [
        "SELECT 'AS ' || $$ FOR ; $$ AS \"as\"",
        "SELECT ((1)) AS a, ')' AS \"for\" FROM t AS \"with\" FOR UPDATE",
        "WITH d AS (SELECT 1) SELECT * FROM d AS data",
        "VALUES (1, 'WITH NO DATA'), (2, E'\\\\')",
        "SELECT 1 AS no UNION ALL (SELECT 2 LIMIT 1) ORDER BY 1",
    ] {
        let written = ParsedText::of(query).unwrap().sql().unwrap();
        for around in [
            "PREPARE \"as\" (int, numeric(3, 1)) /* AS SELECT 0 */ AS {}",
            "prepare p As{}",
            "DECLARE \"for\" CURSOR -- FOR SELECT 0\n FOR {}",
            "declare c no scroll cursor without hold for{}",
            "COPY /* (SELECT 0) */ ({}) TO STDOUT (FORMAT csv, NULL ')')",
            "CREATE TABLE \"as\" (\"AS\", b) WITH (fillfactor = 70) AS {} WITH NO DATA",
            "create unlogged table if not exists t as ({}) with data",
            "CREATE TABLE t AS /* WITH NO DATA */ {}",
            "EXPLAIN {}",
            "explain /* (analyze) */ ( ANALYZE /* ) */ , FORMAT 'json' ) {}",
            "EXPLAIN ANALYZE VERBOSE DECLARE c CURSOR FOR {}",
        ] {
            let text = around.replace("{}", &format!(" {query} "));
            assert_eq!(inner(&text), written, "{text}");
        }
    }
    let arguments = inner("EXECUTE \"(\" /* ( */ (1, ')', $$,$$, (SELECT ',' || f(2, 3)))");
    assert_eq!(arguments, "SELECT 1, ')', ',', (SELECT ',' || f(2, 3))");
    assert_eq!(
        inner("SELECT ' INTO ' AS \"into\" INTO TABLE \"into\" FROM x"),
        "SELECT ' INTO ' AS \"into\" FROM x"
    );
}
