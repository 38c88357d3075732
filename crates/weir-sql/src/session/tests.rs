//! Parsed forms of client texts.

use super::*;

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
    check("BEGIN", &[Command::Begin(plain)]);
    check(
        "begin work; COMMIT; END; rollback; ABORT",
        &[Command::Begin(plain), Command::Commit, Command::Commit, Command::RollBack, Command::RollBack],
    );
    let serializable = Characteristics {
        isolation: Some(Isolation::Serializable),
        read_only: Some(true),
        deferrable: Some(true),
    };
    check(
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
        &[Command::Begin(serializable)],
    );
    let writes = Characteristics { read_only: Some(false), ..plain };
    check("BEGIN READ WRITE", &[Command::Begin(writes)]);
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
    let signal = |column, kind, is_unnamed| Signal { column, kind, is_unnamed };
    check(
        "SELECT pg_cancel_backend(7)",
        &[Command::Signal {
            signals: vec![signal(0, SignalKind::Cancel, true)],
            query: "SELECT                  (7)".into(),
        }],
    );
    check(
        "SELECT 1; SELECT pid, pg_catalog.pg_terminate_backend (pid) AS ended FROM pg_stat_activity",
        &[
            Command::Run,
            Command::Signal {
                signals: vec![signal(1, SignalKind::Terminate, false)],
                query: "SELECT pid,                                 (pid) AS ended FROM pg_stat_activity"
                    .into(),
            },
        ],
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
        let of = |span: Span| text[span.start as usize..span.end as usize].to_owned();
        match said.what {
            Command::Prepare { name, types, body } => format!("{name} {types:?} {}", of(body)),
            Command::Execute { name, arguments } => format!("{name} {}", of(arguments)),
            Command::Declare { name, scroll, hold, binary, query } => {
                format!("{name} {scroll:?} {hold} {binary} {}", of(query))
            }
            other => format!("{other:?}"),
        }
    };
    let check = |text: &str, expected: &str| assert_eq!(one(text), expected, "{text}");
    check("PREPARE p AS SELECT $1 as a", "p [] SELECT $1 as a");
    check(
        "prepare \"P\" (int, unknown, numeric(5,2)) as /* the */ VALUES (1)",
        "P [Int4, Unknown, Numeric(Some((5, 2)))] VALUES (1)",
    );
    check("EXECUTE p", "p ");
    check("EXECUTE p (1, f(2), ')')", "p 1, f(2), ')'");
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
    assert_eq!(create.instead.as_deref(), Some("select a                from x"));
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
