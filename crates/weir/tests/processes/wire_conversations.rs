//! Conversations in PostgreSQL's protocol, message by message: a server of Weir and a PostgreSQL server are told the same, and answer
//! the same.

use crate::both::Both;
use crate::wire::{bind, bind_as, close, describe, execute, flush, message, parse, query, sync};

const SELECT: &str = "SELECT id, owner FROM account WHERE id < $1 ORDER BY id";

#[test]
fn portals_and_pipelines_are_answered_as_by_postgresql() {
    let both = Both::start();
    let check = |what: &str, messages: &[Vec<u8>]| both.check(what, messages);
    check(
        "all in one",
        &[parse("", SELECT, &[]), bind("", "", &["3"]), describe(b'P', ""), execute("", 0), sync()],
    );
    check("described", &[parse("s", SELECT, &[]), describe(b'S', "s"), sync(), describe(b'S', "s"), sync()]);
    check(
        "some rows at a time",
        &[
            query("BEGIN"),
            parse("s", SELECT, &[23]),
            bind("p", "s", &["6"]),
            execute("p", 2),
            flush(),
            execute("p", 2),
            sync(),
            execute("p", 2),
            execute("p", 2),
            sync(),
            close(b'P', "p"),
            execute("p", 2),
            sync(),
            query("COMMIT"),
        ],
    );
    check(
        "as many rows as there are",
        &[
            parse("", SELECT, &[]),
            bind("", "", &["3"]),
            execute("", 2),
            execute("", 2),
            sync(),
            execute("", 1),
            sync(),
        ],
    );
    check(
        "a portal ends with its transaction",
        &[parse("s", SELECT, &[]), bind("p", "s", &["6"]), execute("p", 1), sync(), execute("p", 1), sync()],
    );
    check(
        "two portals in turn",
        &[
            query("BEGIN"),
            parse("s", SELECT, &[]),
            bind("p", "s", &["9"]),
            bind("q", "s", &["4"]),
            execute("p", 1),
            execute("q", 2),
            execute("p", 1),
            execute("q", 0),
            execute("p", 1),
            sync(),
            query("ROLLBACK"),
            execute("p", 1),
            sync(),
        ],
    );
    check(
        "nothing at all",
        &[parse("", "", &[]), bind("", "", &[]), describe(b'P', ""), execute("", 0), sync()],
    );
    check(
        "a comment",
        &[
            query("-- nothing"),
            parse("e", " /* */ ;", &[]),
            describe(b'S', "e"),
            bind("", "e", &[]),
            execute("", 0),
            sync(),
        ],
    );
    check("empty queries", &[query(""), query(";"), query(" ; ; ")]);
}

#[test]
fn after_an_error_everything_up_to_sync_is_passed_over() {
    let both = Both::start();
    let check = |what: &str, messages: &[Vec<u8>]| both.check(what, messages);
    let insert = "INSERT INTO pair VALUES ($1, 0)";
    check(
        "what follows an error",
        &[
            parse("", "SELECT nothing", &[]),
            bind("", "", &[]),
            execute("", 0),
            query("SELECT 1"),
            sync(),
            parse("", "SELECT 1", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ][..3],
    );
    check(
        "what follows an error, with a Sync",
        &[parse("", "SELECT nothing", &[]), bind("", "", &[]), execute("", 0), sync(), query("SELECT 1")],
    );
    check(
        "dozens of Executes are one transaction",
        &[
            vec![parse("i", insert, &[23])],
            (1..=30).flat_map(|n: i32| [bind("", "i", &[&n.to_string()]), execute("", 0)]).collect(),
            vec![sync(), query("SELECT count(*) FROM pair")],
        ]
        .concat(),
    );
    check(
        "of which one fails",
        &[
            vec![parse("i", insert, &[23])],
            (25..=50).rev().flat_map(|n: i32| [bind("", "i", &[&n.to_string()]), execute("", 0)]).collect(),
            vec![sync(), query("SELECT count(*), max(a) FROM pair")],
        ]
        .concat(),
    );
    check(
        "the first is seen by the second, and flushed",
        &[
            parse("i", insert, &[]),
            bind("", "i", &["101"]),
            execute("", 0),
            flush(),
            parse("", "SELECT b FROM pair WHERE a = 101", &[]),
            bind("", "", &[]),
            execute("", 0),
            parse("", "SELECT 1 / (a - a) FROM pair", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
            query("SELECT count(*) FROM pair WHERE a = 101"),
        ],
    );
    check(
        "one by itself, closed at once",
        &[
            parse("i", insert, &[]),
            bind("p", "i", &["102"]),
            execute("p", 0),
            close(b'P', "p"),
            close(b'S', "i"),
            sync(),
            bind("", "i", &["103"]),
            sync(),
        ],
    );
    check(
        "one by itself fails",
        &[
            parse("i", insert, &[]),
            bind("", "i", &["102"]),
            execute("", 0),
            close(b'P', ""),
            sync(),
            query("SELECT 1"),
        ],
    );
    check(
        "BEGIN in the middle",
        &[
            parse("i", insert, &[]),
            parse("b", "BEGIN", &[]),
            bind("", "i", &["110"]),
            execute("", 0),
            bind("", "b", &[]),
            execute("", 0),
            sync(),
            bind("", "i", &["111"]),
            execute("", 0),
            sync(),
            query("ROLLBACK"),
            query("SELECT count(*) FROM pair WHERE a IN (110, 111)"),
        ],
    );
    check(
        "in a transaction that has failed",
        &[
            parse("i", insert, &[]),
            parse("r", "ROLLBACK", &[]),
            sync(),
            query("BEGIN; SELECT 1 / 0"),
            bind("", "i", &["120"]),
            sync(),
            parse("", "SELECT 1", &[]),
            sync(),
            query("SELECT 1"),
            bind("", "r", &[]),
            execute("", 0),
            sync(),
            query("SELECT 1"),
        ],
    );
}

#[test]
fn names_that_are_there_or_not_and_formats_are_judged_as_by_postgresql() {
    let both = Both::start();
    let check = |what: &str, messages: &[Vec<u8>]| both.check(what, messages);
    check(
        "no such things",
        &[
            bind("", "x", &[]),
            sync(),
            execute("x", 0),
            sync(),
            describe(b'S', "x"),
            sync(),
            describe(b'P', "x"),
            sync(),
            close(b'S', "x"),
            close(b'P', "x"),
            sync(),
            bind("", "", &[]),
            sync(),
        ],
    );
    check(
        "named twice",
        &[
            query("BEGIN"),
            parse("s", "SELECT 1", &[]),
            parse("s", "SELECT 2", &[]),
            sync(),
            query("ROLLBACK"),
            query("BEGIN"),
            bind("p", "s", &[]),
            bind("p", "s", &[]),
            sync(),
            query("ROLLBACK"),
        ],
    );
    check(
        "too few values",
        &[parse("s", SELECT, &[]), bind("", "s", &[]), sync(), bind("", "s", &["1", "2"]), sync()],
    );
    check("several statements", &[parse("s", "SELECT 1; SELECT 2", &[]), sync()]);
    let both_ways = "SELECT $1::integer AS a, $2::text AS b, $3::numeric AS c, $4::bigint AS d";
    let seven = 7_i32.to_be_bytes();
    let values: [Option<&[u8]>; 4] = [Some(&seven), Some(b"it"), Some(b"1.50"), None];
    for (given, wanted) in [
        (&[1_i16, 0, 0, 1][..], &[0_i16, 1, 1, 0][..]),
        (&[1, 1, 0, 0], &[1]),
        (&[1, 0, 0, 0], &[0, 0, 1, 1]),
        (&[1, 0, 0, 0], &[]),
    ] {
        check(
            "mixed formats",
            &[
                parse("", both_ways, &[]),
                describe(b'S', ""),
                bind_as("", "", given, &values, wanted),
                describe(b'P', ""),
                execute("", 0),
                sync(),
            ],
        );
    }
    check(
        "formats that do not fit",
        &[parse("", both_ways, &[]), bind_as("", "", &[1, 0], &values, &[]), sync()],
    );
    check(
        "all with one format",
        &[
            parse("", "SELECT $1::int4 + $2::int4", &[]),
            bind_as("", "", &[1], &[Some(&seven), Some(&seven)], &[1]),
            execute("", 0),
            sync(),
        ],
    );
    // Over 1,400 parameters.
    let numbers: Vec<String> = (1..=1_500).map(|n| n.to_string()).collect();
    let text = format!(
        "SELECT count(*) FROM account WHERE id IN ({})",
        numbers.iter().map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
    );
    let values: Vec<&str> = numbers.iter().map(String::as_str).collect();
    check("many parameters", &[parse("", &text, &[]), bind("", "", &values), execute("", 0), sync()]);
}

#[test]
fn prepare_and_cursors_of_sql_are_answered_as_by_postgresql() {
    let both = Both::start();
    let check = |what: &str, messages: &[Vec<u8>]| both.check(what, messages);
    check(
        "PREPARE",
        &[
            query("PREPARE p (integer) AS SELECT id, owner FROM account WHERE id = $1"),
            query("EXECUTE p (3)"),
            query("EXECUTE p ('4')"),
            query("EXECUTE p (1 + 1)"),
            query("EXECUTE p"),
            query("EXECUTE q"),
            query("PREPARE p AS SELECT 1"),
            query("EXECUTE p (NULL)"),
            describe(b'S', "p"),
            bind("", "p", &["5"]),
            execute("", 0),
            sync(),
            query("DEALLOCATE p"),
            query("EXECUTE p (1)"),
            query("DEALLOCATE p"),
            query("PREPARE a AS INSERT INTO pair VALUES ($1, $2)"),
            query("EXECUTE a (900, 1)"),
            query("EXECUTE a (900, 1)"),
            query("DEALLOCATE ALL"),
            query("EXECUTE a (901, 1)"),
            query("SELECT * FROM pair WHERE a >= 900"),
        ],
    );
    check(
        "cursors behind savepoints",
        &[
            query("BEGIN; SAVEPOINT s"),
            query("DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id"),
            query("FETCH c"),
            query("ROLLBACK TO s"),
            query("FETCH c"),
            query("ROLLBACK TO s"),
            query("DECLARE c NO SCROLL CURSOR FOR SELECT id FROM account ORDER BY id"),
            query("SAVEPOINT r; RELEASE s; SAVEPOINT t"),
            query("DECLARE d CURSOR WITH HOLD FOR SELECT id FROM account ORDER BY id"),
            query("ROLLBACK TO t"),
            query("FETCH c"),
            query("FETCH d"),
            query("ROLLBACK TO t"),
            query("FETCH 2 FROM c"),
            query("FETCH PRIOR FROM c"),
            query("ROLLBACK TO t"),
            query("FETCH c"),
            query("ROLLBACK"),
        ],
    );
    check(
        "DECLARE and FETCH",
        &[
            query("DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id"),
            query("BEGIN"),
            query("DECLARE c SCROLL CURSOR FOR SELECT id, balance FROM account ORDER BY id"),
            query("FETCH c"),
            query("FETCH 2 FROM c"),
            query("FETCH BACKWARD 1 FROM c"),
            query("MOVE 3 IN c"),
            query("FETCH NEXT FROM c"),
            query("FETCH ABSOLUTE -2 FROM c"),
            query("FETCH FORWARD ALL FROM c"),
            query("FETCH c"),
            query("FETCH BACKWARD ALL FROM c"),
            query("MOVE ALL IN c"),
            query("FETCH LAST FROM c"),
            query("FETCH RELATIVE -1 FROM c"),
            query("CLOSE c"),
            query("FETCH c"),
            query("ROLLBACK"),
        ],
    );
    check(
        "WITH HOLD",
        &[
            query("BEGIN"),
            query("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM account ORDER BY id"),
            query("DECLARE g CURSOR FOR SELECT 1"),
            query("FETCH 2 FROM h"),
            query("COMMIT"),
            query("FETCH 2 FROM h"),
            query("FETCH g"),
            query("CLOSE ALL"),
            query("FETCH h"),
            query("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT 1"),
            query("ROLLBACK"),
            query("FETCH h"),
        ],
    );
    check(
        "NO SCROLL, BINARY, twice",
        &[
            query("BEGIN"),
            query("DECLARE n NO SCROLL CURSOR FOR SELECT id FROM account ORDER BY id"),
            query("FETCH 3 FROM n"),
            query("FETCH BACKWARD 1 FROM n"),
            query("ROLLBACK"),
            query("BEGIN"),
            query("DECLARE b BINARY CURSOR FOR SELECT 1 AS one"),
            query("FETCH b"),
            query("DECLARE b CURSOR FOR SELECT 1"),
            query("ROLLBACK"),
        ],
    );
    check(
        "cursors by the extended protocol",
        &[
            query("BEGIN"),
            parse("", "DECLARE c CURSOR FOR SELECT id FROM account WHERE id > $1 ORDER BY id", &[23]),
            bind("", "", &["4"]),
            execute("", 0),
            sync(),
            parse("", "FETCH FORWARD 2 FROM c", &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
            query("COMMIT"),
        ],
    );
    check(
        "several statements in one text",
        &[
            query("INSERT INTO pair VALUES (701, 1); INSERT INTO pair VALUES (701, 2)"),
            query("SELECT count(*) FROM pair WHERE a = 701"),
            query("BEGIN; INSERT INTO pair VALUES (702, 1); COMMIT; SELECT b FROM pair WHERE a = 702"),
            query("INSERT INTO pair VALUES (703, 1); SELECT b FROM pair WHERE a = 703"),
        ],
    );
    check(
        "settings",
        &[
            query("SET application_name = 'x'"),
            query("SHOW application_name"),
            query("DISCARD ALL"),
            query("SHOW application_name"),
            query("BEGIN; DISCARD ALL"),
        ],
    );
}

/// A text whose shape has come before is not parsed: it must do what it would have done.
#[test]
fn texts_that_differ_in_constants_are_told_apart() {
    let both = Both::start();
    let families: &[(&str, &[&str])] = &[
        (
            "SELECT owner FROM account WHERE id = ?",
            &["1", "2", "3", "3000000000", "2.0", "2.5", "'4'", "'x'", "NULL", "-1", "9"],
        ),
        (
            "SELECT ? AS a, id FROM account WHERE balance = ? ORDER BY 2 LIMIT 3",
            &["10", "10.00", "'10'", "1e1", "11"],
        ),
        ("SELECT id, id + ? FROM account ORDER BY ? LIMIT ?", &["1", "2", "1", "3"]),
        (
            "SELECT id, owner FROM account WHERE owner LIKE ? OR owner = ? ORDER BY 1",
            &["'o%1'", "'%2'", "'it''s'", "''", "E'\\n'"],
        ),
        ("SELECT count(*), ? FROM account WHERE id > ? GROUP BY id % ? ORDER BY 1, 2", &["1", "2", "3"]),
        ("INSERT INTO pair VALUES (?, ? + 5)", &["1", "2", "3", "'4'", "2", "5.4", "3000000000", "'z'"]),
        ("UPDATE pair SET b = b + ? WHERE a = ?", &["1", "-2", "3", "2", "2147483647", "'5'"]),
        (
            "UPDATE account SET balance = balance - ?, tags = ? WHERE id = 2 RETURNING id, balance, tags",
            &["'{a,b}'", "1", "'{'", "0.015", "'{c}'"],
        ),
        (
            "SELECT DATE ? - DATE '2026-01-01', INTERVAL ?",
            &["'2026-02-01'", "'2 days'", "'2026-03-01'", "'1 hour'"],
        ),
        ("SELECT CAST(? AS numeric(6,2)), ?::text || 'x', ?::int", &["1", "2.345", "'7'", "'8.5'", "-3"]),
        ("DELETE FROM pair WHERE a = ? OR b = ?", &["1", "2", "3", "4"]),
        ("SET statement_timeout = ?; SHOW statement_timeout", &["1000", "2000"]),
        ("SELECT a, b FROM pair WHERE a IN (?, ?, 7) ORDER BY a", &["1", "5", "2", "'3'"]),
        ("/* ? */ SELECT ? -- ?", &["1", "2", "3"]),
    ];
    for (family, constants) in families {
        let mut messages = Vec::new();
        for at in 0..constants.len() * 2 {
            let mut text = String::new();
            for (place, piece) in family.split('?').enumerate() {
                if place > 0 {
                    text.push_str(constants[(at + (place - 1) * (at / 3)) % constants.len()]);
                }
                text.push_str(piece);
            }
            messages.push(query(&text));
        }
        both.check(family, &messages);
    }
}

#[test]
fn malformed_messages_are_answered_as_by_postgresql() {
    let both = Both::start();
    let begin = || vec![query("BEGIN"), query("INSERT INTO pair VALUES (1, 1)")];
    for malformed in [
        message(b'Q', &[]),
        message(b'Q', &[b"SELECT 1"]),
        message(b'Q', &[b"SELECT 1\0 \0"]),
        message(b'Q', &[b"SELECT '\xc3('\0"]),
        message(b'S', &[b"x"]),
    ] {
        let what = malformed.escape_ascii().to_string();
        both.check(&what, &[malformed.clone(), query("SELECT 1")]);
        let rest = [malformed, query("SELECT 2"), query("ROLLBACK"), query("SELECT 3")];
        both.check(&what, &[begin(), rest.to_vec()].concat());
    }
    for malformed in [
        message(b'P', &[]),
        message(b'P', &[b"a"]),
        message(b'P', &[b"\0SELECT 1\0"]),
        message(b'P', &[b"\0SELECT 1\0\0\x01\0\0"]),
        message(b'P', &[b"\0SELECT 1\0\0\0x"]),
        message(b'P', &[b"\0SELECT '\xff'\0\0\0"]),
        message(b'B', &[]),
        message(b'B', &[b"\0s\0\0"]),
        message(b'B', &[b"\0s\0\0\0\0\x01"]),
        message(b'B', &[b"\0s\0\0\0\0\x01\0\0\0\x05ab"]),
        message(b'B', &[b"\0s\0\0\0\0\x01\xff\xff\xff\xfe"]),
        message(b'D', &[]),
        message(b'D', &[b"S"]),
        message(b'D', &[b"Xs\0"]),
        message(b'C', &[]),
        message(b'C', &[b"Xs\0"]),
        message(b'C', &[b"Ss\0\0"]),
        message(b'E', &[]),
        message(b'E', &[b"\0\0\0"]),
        message(b'H', &[b"x"]),
    ] {
        let what = malformed.escape_ascii().to_string();
        let parsed = [parse("s", "SELECT $1::integer", &[]), sync()];
        let rest = [malformed, message(b'E', &[b"passed over"]), sync(), query("SELECT 3")];
        for messages in [
            [&parsed[..], &rest].concat(),
            [&parsed[..], &begin(), &rest, &[query("COMMIT"), query("SELECT 4")]].concat(),
        ] {
            let readies = messages.iter().filter(|one| matches!(one[0], b'Q' | b'S')).count();
            let [expected, seen] = [both.oracle(), both.weir()].map(|mut wire| {
                wire.send(&messages);
                // PostgreSQL says of a value to which portal it belongs.
                let heard = wire.hear(readies).into_iter();
                heard.map(|one| one.replace(" (unnamed portal parameter $1)", "")).collect::<Vec<_>>()
            });
            assert_eq!(seen, expected, "{what}: Weir is on the left");
        }
    }
    // Of a COPY that is over nothing is left but its messages.
    for stray in [message(b'd', &[b"1\t2\n"]), message(b'c', &[]), message(b'f', &[b"x\0"])] {
        both.check("outside of a COPY", &[stray, query("SELECT 1")]);
    }
    let copy = || query("COPY pair FROM STDIN");
    both.check("given up without a zero", &[copy(), message(b'f', &[b"x"]), query("SELECT 1")]);
    // Where the next message begins is not known: the connection ends.
    for kind in [b'\x01', b'p', b'Z', 0xff] {
        both.check("no type of message", &[query("SELECT 1"), message(kind, &[]), query("SELECT 2")]);
    }
}

/// Settings with values that both take, or both refuse.
const SETTINGS: [(&str, &[&str]); 35] = [
    ("application_name", &["x", "", "a b"]),
    ("backslash_quote", &["on", "safe_encoding", "never"]),
    ("check_function_bodies", &["off", "TRUE", "maybe"]),
    ("client_encoding", &["UTF8", "utf-8", "Unicode"]),
    ("client_min_messages", &["warning", "debug1", "loud"]),
    ("cursor_tuple_fraction", &["0.5", "1", "2", "-1", "x"]),
    ("DateStyle", &["ISO", "ISO, MDY", "iso,us", "rubbish"]),
    ("default_transaction_isolation", &["read committed", "serializable", "repeatable read", "chaos"]),
    ("default_transaction_read_only", &["off", "f", "o", "1"]),
    ("default_statistics_target", &["10", "10001", "x"]),
    ("effective_io_concurrency", &["0", "1000"]),
    ("enable_seqscan", &["off", "no", "of", "n", "on"]),
    ("enable_partitionwise_join", &["on"]),
    ("extra_float_digits", &["1", "2", "3", "4", "-16", "x", "2.4"]),
    ("from_collapse_limit", &["1", "0", "12"]),
    ("geqo_threshold", &["2", "1"]),
    ("hash_mem_multiplier", &["1.5", "0.5"]),
    ("idle_in_transaction_session_timeout", &["10s", "1500ms", "-1"]),
    ("IntervalStyle", &["postgres", "ISO_8601", "postgres_verbose", "rubbish"]),
    ("jit", &["off", "on", "x"]),
    ("lock_timeout", &["1min", "90s", "1 parsec", "x"]),
    ("log_statement", &["all", "some"]),
    ("maintenance_work_mem", &["64MB", "1GB", "1kB"]),
    ("nothing_of_the_kind", &["1"]),
    ("own.setting", &["1", ""]),
    ("plan_cache_mode", &["force_generic_plan", "never"]),
    ("random_page_cost", &["1.1", "4", "-1"]),
    ("row_security", &["off"]),
    ("search_path", &["public", "pg_catalog"]),
    ("server_encoding", &["LATIN1"]),
    ("statement_timeout", &["0", "250", "2.5s", "1d"]),
    ("synchronous_commit", &["off", "local", "perhaps"]),
    (
        "TimeZone",
        &[
            "UTC",
            "utc",
            "Etc/UTC",
            "gmt",
            "america/new_york",
            "+3",
            "-3.5",
            "EST5EDT",
            "Mars",
            "PST",
            "INTERVAL ''+02:00''",
        ],
    ),
    ("temp_file_limit", &["-1", "0", "1MB", "100", "-2", "1 apple"]),
    ("work_mem", &["64", "4096", "1500kB", "1.5GB", "63", "1 apple"]),
];

/// Settings whose defaults differ between the servers.
const OWN_DEFAULTS: [&str; 2] = ["jit", "idle_in_transaction_session_timeout"];

#[test]
fn settings_are_set_shown_and_reset_as_by_postgresql() {
    let both = Both::start();
    let mut differences = Vec::new();
    for (name, values) in SETTINGS {
        let mut messages = Vec::new();
        for value in values {
            messages.extend([
                query(&format!("SET {name} TO '{value}'")),
                query(&format!("SHOW {name}")),
                query(&format!("SELECT set_config('{name}', '{value}', false) AS new")),
                query(&format!("SELECT current_setting('{name}')")),
                query("BEGIN"),
                query(&format!("SET LOCAL {name} TO '{value}'")),
                query("ROLLBACK"),
            ]);
            if !OWN_DEFAULTS.contains(&name) {
                messages.extend([query(&format!("RESET {name}")), query(&format!("SHOW {name}"))]);
            }
        }
        let [expected, seen] = [both.oracle(), both.weir()].map(|mut wire| {
            wire.send(&messages);
            // PostgreSQL says of a query what it gives before it runs it.
            let heard = wire.hear(messages.len()).into_iter();
            let heard = heard.filter(|one| !one.starts_with("T "));
            // Nor where in its text.
            heard.map(|one| one.split(" at ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        });
        let same = seen.iter().zip(&expected).take_while(|(seen, expected)| seen == expected).count();
        if seen != expected {
            let of = |all: &[String]| all[same..].iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            differences.push(format!("{name}: Weir says {}; PostgreSQL {}", of(&seen), of(&expected)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    both.check(
        "what asyncpg says",
        &[
            query("SET jit = on"),
            parse("", "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new", &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
            query("SHOW jit"),
        ],
    );
}

#[test]
fn times_come_and_go_in_the_zone_of_the_session() {
    let both = Both::start();
    let asked = || [bind("", "t", &["2024-11-03 01:30"]), describe(b'P', ""), execute("", 0)].concat();
    for zone in ["America/New_York", "Asia/Kolkata", "UTC"] {
        both.check(
            zone,
            &[
                parse("t", "SELECT $1::timestamptz, now()::date = current_date", &[]),
                asked(),
                sync(),
                query(&format!("SET TimeZone = '{zone}'")),
                bind("", "t", &["2024-11-03 01:30"]),
                execute("", 0),
                sync(),
                query("INSERT INTO account (id, owner, opened) VALUES (100, 'x', '2024-03-10 02:30')"),
                query("SELECT opened FROM account WHERE id = 100; SET TimeZone = 'Asia/Tokyo'; SELECT opened FROM account WHERE id = 100"),
                parse("s", "SELECT opened, opened::text FROM account WHERE opened = $1", &[]),
                bind("", "s", &["2024-03-10 16:30"]),
                execute("", 0),
                bind("", "s", &["2024-03-10 02:30 America/New_York"]),
                execute("", 0),
                sync(),
                query("BEGIN"),
                query("SET LOCAL TimeZone = 'Europe/Berlin'"),
                query("SELECT opened FROM account WHERE id = 100"),
                query("COMMIT"),
                query("SELECT opened FROM account WHERE id = 100"),
                query("DELETE FROM account WHERE id = 100"),
                query("RESET ALL"),
                query("SET TimeZone = 'Mars/Olympus'"),
            ],
        );
    }
}

#[test]
fn intervals_come_in_the_style_that_was_asked_for() {
    let both = Both::start();
    for style in ["postgres", "postgres_verbose", "iso_8601"] {
        both.check(
            style,
            &[
                query(&format!("SET IntervalStyle = {style}")),
                query("SELECT interval '-1 year 2 mons -3 days 04:05:06.7', '{1 day,-1 sec}'::interval[]"),
                query("SELECT 'P1Y2M3DT4H5M6.7S'::interval, 'PT0S'::interval, 'P-1DT0.5S'::interval"),
                query("COPY (SELECT interval '1 mon -1 day') TO STDOUT"),
                parse("", "SELECT $1::interval", &[]),
                bind("", "", &["P2W"]),
                describe(b'P', ""),
                execute("", 0),
                sync(),
                query("RESET IntervalStyle"),
                query("SELECT interval '1 mon -1 day'"),
            ],
        );
    }
}

#[test]
fn what_a_client_comes_in_with_is_set_or_refused_as_by_postgresql() {
    let both = Both::start();
    for parameters in [
        &[("TimeZone", "UTC"), ("DateStyle", "ISO"), ("extra_float_digits", "3")][..],
        &[("timezone", "Etc/UTC"), ("application_name", "x"), ("client_encoding", "'utf-8'")],
        &[("options", "-c statement_timeout=5s --lock-timeout=1500 -cwork_mem=1MB")],
        &[("options", "-c application_name=a\\ b\\\\c")],
        &[("options", "-c own.name=1"), ("other.name", "2")],
        &[("replication", "off"), ("IntervalStyle", "iso_8601")],
        &[("nothing", "1")],
        &[("options", "-c nothing=1")],
        &[("options", "-c work_mem")],
        &[("options", "--work-mem")],
        &[("work_mem", "much")],
        &[("work_mem", "1")],
        &[("enable_seqscan", "perhaps")],
        &[("server_version", "1")],
        &[("DateStyle", "rubbish")],
        &[("TimeZone", "Europe/Berlin")],
        &[("TimeZone", "America/New_York"), ("options", "-c TimeZone=Asia/Tokyo")],
        &[("options", "-c TimeZone=asia/kolkata")],
        &[("TimeZone", "GMT+03:00")],
        &[("TimeZone", "Mars/Olympus")],
        &[("options", "-c timezone=PST")],
    ] {
        let [weir, oracle] = both.come_in(parameters).map(|come_in| {
            let mut wire = come_in?;
            const NAMES: [&str; 8] = [
                "TimeZone",
                "DateStyle",
                "extra_float_digits",
                "application_name",
                "statement_timeout",
                "lock_timeout",
                "work_mem",
                "client_encoding",
            ];
            let show = NAMES.map(|name| query(&format!("SHOW {name}")));
            let again =
                [query("SET work_mem = '2MB'"), query("SET application_name = 'y'"), query("RESET ALL")];
            let own = [query("SHOW own.name"), query("SHOW other.name")];
            wire.send(&[&show[..], &again, &show, &own].concat());
            Ok(wire.hear(2 * NAMES.len() + 5))
        });
        let weir: Result<_, String> = weir;
        assert_eq!(weir, oracle, "{parameters:?}: Weir is on the left");
    }
    // Settings that would change what clients are told or which tables a name means, and are not followed, are refused by name.
    for (name, value) in [
        ("DateStyle", "SQL, DMY"),
        ("IntervalStyle", "sql_standard"),
        ("search_path", "tenant, public"),
        ("options", "-c search_path=tenant"),
        ("extra_float_digits", "0"),
        ("replication", "database"),
    ] {
        let [weir, _] = both.come_in(&[(name, value)]);
        let said = weir.map(drop).unwrap_err();
        assert!(said.starts_with("E 0A000 "), "{name} = {value}: {said}");
    }
    let mut weir = both.weir();
    for text in ["SET search_path = tenant", "SELECT set_config('search_path', 'tenant, public', false)"] {
        weir.send(&[query(text), query("SHOW search_path")]);
        let heard = weir.hear(2);
        assert!(heard[0].starts_with("E 0A000 search_path "), "{heard:?}");
        assert!(heard.contains(&r#"D \"$user\", public"#.to_owned()), "{heard:?}");
    }
}

/// One statement of each kind, by both protocols: which messages its answer has, and its tag.
#[test]
fn every_kind_of_statement_is_answered_as_by_postgresql() {
    let both = Both::start();
    let all = "
        CREATE TABLE kind (id int PRIMARY KEY, v text)
        INSERT INTO kind VALUES (1, 'a'), (2, 'b'), (3, NULL)
        INSERT INTO kind VALUES (4, 'd') RETURNING id
        INSERT INTO kind VALUES (4, 'e') ON CONFLICT DO NOTHING
        UPDATE kind SET v = 'c' WHERE id = 3
        UPDATE kind SET v = 'c' WHERE id = 3 RETURNING v
        DELETE FROM kind WHERE id = 4
        WITH gone AS (DELETE FROM kind WHERE id = 9 RETURNING id) SELECT id FROM gone
        SELECT id FROM kind WHERE id = 2
        SELECT FROM kind
        SELECT
        SELECT id FROM kind WHERE false
        VALUES (1, 'x'), (2, 'y')
        TABLE kind ORDER BY id
        CREATE TABLE made AS SELECT id FROM kind ORDER BY id
        CREATE TABLE made_empty AS SELECT id FROM kind WITH NO DATA
        SELECT id INTO made_into FROM kind
        CREATE TABLE made_none AS SELECT id FROM kind WHERE false
        CREATE MATERIALIZED VIEW many AS SELECT id FROM kind
        REFRESH MATERIALIZED VIEW many
        CREATE VIEW seen AS SELECT id FROM kind
        CREATE INDEX kind_v ON kind (v)
        CREATE SEQUENCE counts
        ALTER SEQUENCE counts RESTART WITH 5
        SELECT nextval('counts') > 0
        CREATE TYPE mood AS ENUM ('sad', 'ok')
        CREATE DOMAIN positive AS int CHECK (VALUE > 0)
        CREATE SCHEMA IF NOT EXISTS public
        ALTER TABLE kind ADD COLUMN w int DEFAULT 1
        ALTER TABLE kind RENAME COLUMN w TO x
        COMMENT ON TABLE kind IS 'of a kind'
        TRUNCATE made
        DO $$ BEGIN PERFORM 1; END $$
        CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'
        SELECT one()
        CREATE PROCEDURE gives(a int, OUT b int) LANGUAGE plpgsql AS $$ BEGIN b := a + 1; END $$
        CREATE PROCEDURE does() LANGUAGE plpgsql AS $$ BEGIN UPDATE kind SET v = 'z' WHERE id = 1; END $$
        CALL gives(1, NULL)
        CALL does()
        PREPARE known AS SELECT id FROM kind WHERE id = 1
        EXECUTE known
        DEALLOCATE known
        SET work_mem = '8MB'
        SHOW work_mem
        RESET work_mem
        BEGIN
        SAVEPOINT here
        LOCK TABLE kind IN SHARE MODE
        DECLARE reads SCROLL CURSOR FOR SELECT id FROM kind ORDER BY id
        FETCH 2 FROM reads
        MOVE 1 FROM reads
        FETCH BACKWARD 1 FROM reads
        CLOSE reads
        ROLLBACK TO here
        RELEASE here
        SET CONSTRAINTS ALL DEFERRED
        COMMIT
        START TRANSACTION READ ONLY
        ROLLBACK
        ANALYZE kind
        VACUUM kind
        DISCARD PLANS
        DROP VIEW seen
        DROP MATERIALIZED VIEW many
        DROP INDEX kind_v
        DROP SEQUENCE counts
        DROP TYPE mood
        DROP DOMAIN positive
        DROP FUNCTION one()
        DROP PROCEDURE does()
        DROP TABLE made, made_empty, made_into, made_none";
    let all: Vec<&str> = all.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for one in &all {
        both.check(one, &[query(one)]);
    }
    both.check("all is gone", &[query("DROP TABLE kind"), query("DROP PROCEDURE gives(int)")]);
    for one in &all {
        let extended = [parse("", one, &[]), bind("", "", &[]), describe(b'P', ""), execute("", 0), sync()];
        both.check(one, &extended);
    }
}
