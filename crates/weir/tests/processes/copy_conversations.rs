//! COPY in PostgreSQL's protocol: formats, errors and what stays, told to Weir and to PostgreSQL alike.

use crate::wire;

use crate::both::Both;
use crate::wire::{bind, copy_data, copy_done, copy_fail, execute, parse, query, sync};
use postgres::error::SqlState;
use std::io::{Read, Write};

const TABLES: &str = "
CREATE TABLE kind (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE thing (id integer PRIMARY KEY, kind integer REFERENCES kind (id), note text DEFAULT 'none', weight numeric(6,2) CHECK (weight > 0),
    made timestamp, flag boolean, bytes bytea);
";

const WRITERS: &str = "
CREATE PROCEDURE kinds(k integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO kind (id, name) VALUES (k, 'x'); END $$;
CREATE PROCEDURE things(k integer, o integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO thing (id, kind) VALUES (k, o); END $$;
";

fn begin() -> Both {
    Both::with(TABLES, WRITERS)
}

/// A COPY of these pieces, by the simple protocol.
fn copied(text: &str, pieces: &[&str]) -> Vec<Vec<u8>> {
    let data = pieces.iter().map(|piece| copy_data(piece.as_bytes()));
    [query(text)].into_iter().chain(data).chain([copy_done()]).collect()
}

/// Both are told one COPY, and then asked what there is.
fn check(both: &Both, what: &str, copy: Vec<Vec<u8>>) {
    let look = query("SELECT * FROM pair ORDER BY a");
    let clean = query("DELETE FROM pair");
    both.check(what, &[copy, vec![look, clean]].concat());
}

#[test]
fn rows_come_in_as_into_postgresql() {
    let both = begin();
    let copy = "COPY pair FROM STDIN";
    let csv = "COPY pair FROM STDIN (FORMAT csv)";
    for (text, pieces) in [
        (copy, &["1\t2\n3\t\\N\n"][..]),
        (copy, &["1\t", "2\n3", "\t4\n", "5\t6"]),
        (copy, &["1\t2\r\n3\t4\r\n\\.\r\nrubbish"]),
        (copy, &[]),
        ("COPY pair (b, a) FROM STDIN", &["1\t2\n3\t4\n"]),
        ("COPY pair (a) FROM STDIN", &["1\n2\n"]),
        ("COPY pair FROM STDIN DELIMITER '|' NULL 'none'", &["1|2\n3|none\n"]),
        (csv, &["1,2\n3,\n\"5\",\"6\"\n"]),
        ("COPY pair FROM STDIN WITH CSV HEADER", &["a,b\n1,2\n"]),
        ("COPY pair FROM STDIN (FORMAT csv, HEADER match, DELIMITER ';')", &["a;b\n1;2\n"]),
        ("COPY pair FROM STDIN (FORMAT csv, QUOTE '''', ESCAPE '\\', NULL 'x')", &["'1',x\n2,'3'\n"]),
        ("COPY pair FROM STDIN (FORMAT csv, FORCE_NULL (b))", &["1,\"\"\n"]),
        ("COPY pair FROM STDIN (HEADER)", &["a\tb\n1\t2\n"]),
        // Texts that PostgreSQL refuses.
        (copy, &["1\n"]),
        (copy, &["1\t2\n1\t2\t3\n"]),
        (copy, &["1\t2\n3\tx\n"]),
        (copy, &["1\t2\n\tx\n"]),
        (copy, &["1\t99999999999\n"]),
        (copy, &["1\t2\r\n3\t4\n"]),
        (copy, &["1\t2\n3\t4\r\n"]),
        (csv, &["1,\"2\n"]),
        (csv, &["1,2\n3,4\r\n"]),
        ("COPY pair FROM STDIN (FORMAT csv, HEADER match)", &["a,c\n1,2\n"]),
        ("COPY pair FROM STDIN (FORMAT csv, HEADER match)", &["a\n1,2\n"]),
        ("COPY pair FROM STDIN (FORMAT csv, FORCE_NOT_NULL (b))", &["1,\n"]),
    ] {
        check(&both, text, copied(text, pieces));
    }
    check(&both, "given up", vec![query(copy), copy_data(b"1\t2\n"), copy_fail("enough")]);
    for text in [
        "COPY nothing FROM STDIN",
        "COPY pair (c) FROM STDIN",
        "COPY pair (a, a) FROM STDIN",
        "COPY pair FROM STDIN (FORMAT xml)",
        "COPY pair FROM STDIN (DELIMITER 'ab')",
        "COPY pair FROM STDIN (DELIMITER 'a')",
        "COPY pair FROM STDIN (QUOTE 'a')",
        "COPY pair FROM STDIN (FORMAT binary, DELIMITER ',')",
        "COPY pair FROM STDIN (FORMAT csv, QUOTE ',')",
        "COPY pair FROM STDIN (FORMAT csv, FORCE_QUOTE *)",
        "COPY pair FROM STDIN (NULL E'\\n')",
        "COPY pair FROM STDIN (FORMAT csv, FORMAT csv)",
        "COPY pair FROM STDIN (WHATEVER)",
    ] {
        let one = |wire: &mut wire::Wire| {
            wire.send(&[query(text)]);
            let heard = wire.hear(1);
            // Where in the text PostgreSQL points at is not compared.
            heard.into_iter().map(|one| one.split(" at ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (expected, seen) = (one(&mut both.oracle()), one(&mut both.weir()));
        assert_eq!(seen, expected, "{text}: Weir is on the left");
    }
}

#[test]
fn a_copy_is_all_or_nothing_and_belongs_to_its_transaction() {
    let both = begin();
    let copy = "COPY pair FROM STDIN";
    let many: String = (1..=9_000).map(|n| format!("{n}\t{}\n", n % 7)).collect();
    let look = query("SELECT count(*), sum(b) FROM pair");
    both.check("many rows", &[query(copy), copy_data(many.as_bytes()), copy_done(), look.clone()]);
    both.check(
        "many rows and one wrong",
        &[
            query("DELETE FROM pair"),
            query(copy),
            copy_data(many.as_bytes()),
            copy_data(b"x\t1\n"),
            copy_done(),
            look.clone(),
        ],
    );
    both.check(
        "twice in one transaction, seen meanwhile",
        &[
            query("BEGIN"),
            query(copy),
            copy_data(many.as_bytes()),
            copy_done(),
            query("SAVEPOINT s"),
            query(copy),
            copy_data(b"17\t1\n"),
            copy_done(),
            query("ROLLBACK TO s"),
            look.clone(),
            query(copy),
            copy_data(b"9001\t1\n9002\t1\n9003\t1\n"),
            copy_done(),
            look.clone(),
            query("UPDATE pair SET b = 100 WHERE a IN (9, 9002)"),
            query("SAVEPOINT s"),
            query(copy),
            copy_data(b"9002\t1\n"),
            copy_done(),
            query("ROLLBACK TO s"),
            look.clone(),
            query("DELETE FROM pair WHERE a = 9002"),
            query(copy),
            copy_data(b"9002\t2\n9005\t2\n"),
            copy_done(),
            look.clone(),
            query("COMMIT"),
            look.clone(),
            query("DELETE FROM pair"),
        ],
    );
    both.check(
        "rolled back",
        &[
            query("BEGIN"),
            query("INSERT INTO pair VALUES (1, 1)"),
            query(copy),
            copy_data(b"2\t2\n3\t3\n"),
            copy_done(),
            look.clone(),
            query("ROLLBACK"),
            look.clone(),
        ],
    );
    both.check(
        "failed within a transaction",
        &[
            query("BEGIN"),
            query(copy),
            copy_data(b"2\tx\n"),
            copy_done(),
            query("SELECT 1"),
            query("COMMIT"),
            look.clone(),
        ],
    );
    both.check(
        "by the extended protocol",
        &[
            parse("", copy, &[]),
            bind("", "", &[]),
            execute("", 0),
            copy_data(b"5\t5\n"),
            copy_data(b"6\t6\n"),
            copy_done(),
            sync(),
            look.clone(),
        ],
    );
    both.check(
        "by the extended protocol, failed",
        &[
            parse("", copy, &[]),
            bind("", "", &[]),
            execute("", 0),
            copy_data(b"7\n"),
            copy_done(),
            sync(),
            look.clone(),
        ],
    );
    both.check(
        "behind others",
        &[query("DELETE FROM pair; COPY pair FROM STDIN"), copy_data(b"1\t1\n"), copy_done(), look],
    );
}

#[test]
fn constraints_defaults_and_parents_are_as_with_insert() {
    let both = begin();
    let mut driver = both.bank.driver();
    let load = |driver: &mut postgres::Client, text: &str, data: &str| {
        let mut writer = driver.copy_in(text).unwrap();
        writer.write_all(data.as_bytes()).unwrap();
        writer.finish()
    };
    let kinds: String = (1..=50).map(|n| format!("{n}\tkind {n}\n")).collect();
    assert_eq!(load(&mut driver, "COPY kind FROM STDIN", &kinds).unwrap(), 50);
    let things: String = (1..=5_000).map(|n| format!("{n}\t{}\t1.5\n", n % 50 + 1)).collect();
    assert_eq!(load(&mut driver, "COPY thing (id, kind, weight) FROM STDIN", &things).unwrap(), 5_000);
    let row =
        driver.query_one("SELECT sum(id), count(*), min(note), sum(weight)::float8 FROM thing", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2_500 * 5_001, 5_000));
    assert_eq!((row.get::<_, &str>(2), row.get::<_, f64>(3)), ("none", 7_500.0));
    let mut refused = |data: &str, state: SqlState, constraint: Option<&str>| {
        let error = load(&mut driver, "COPY thing (id, kind, weight) FROM STDIN", data).unwrap_err();
        let error = error.as_db_error().unwrap_or_else(|| panic!("{data}: {error:?}")).clone();
        assert_eq!((error.code(), error.constraint()), (&state, constraint), "{data}: {error:?}");
        assert!(error.where_().is_some_and(|context| context.starts_with("COPY thing, line")), "{error:?}");
    };
    refused("6000\t1\t1\n1\t1\t1\n", SqlState::UNIQUE_VIOLATION, Some("thing_pkey"));
    refused("6000\t1\t1\n6000\t1\t1\n", SqlState::UNIQUE_VIOLATION, Some("thing_pkey"));
    refused("6000\t99\t1\n", SqlState::FOREIGN_KEY_VIOLATION, Some("thing_kind_fkey"));
    refused("6000\t1\t-1\n", SqlState::CHECK_VIOLATION, Some("thing_weight_check"));
    refused("6000\t1\t99999\n", SqlState::NUMERIC_VALUE_OUT_OF_RANGE, None);
    let count: i64 = driver.query_one("SELECT count(*) FROM thing", &[]).unwrap().get(0);
    assert_eq!(count, 5_000, "nothing of what was refused is there");
}

#[test]
fn rows_go_out_as_from_postgresql() {
    let both = begin();
    let fill = query(
        "INSERT INTO account (id, owner, balance, opened, tags) VALUES (20, E'a\\tb\\\\c\\nd', -1.5, '2026-11-22 12:00+00', '{x,y}'), (21, 'say \"hi\", you', 2, NULL, NULL), (22, '', 0, NULL, '{}')",
    );
    for mut wire in [both.oracle(), both.weir()] {
        wire.send(std::slice::from_ref(&fill));
        let heard = wire.hear(1);
        assert_eq!(heard[0], "C INSERT 0 3", "{heard:?}");
    }
    let from =
        "(SELECT id, owner, balance, opened, tags, id % 2 = 0 AS even FROM account WHERE id > 8 ORDER BY id)";
    for options in [
        "",
        "(FORMAT csv)",
        "(FORMAT csv, HEADER)",
        "(HEADER, DELIMITER '|', NULL 'none')",
        "(FORMAT csv, FORCE_QUOTE *)",
        "(FORMAT csv, FORCE_QUOTE (owner), QUOTE '''', ESCAPE '\\', DELIMITER ';')",
        "(FORMAT binary)",
    ] {
        both.check(options, &[query(&format!("COPY {from} TO STDOUT {options}"))]);
    }
    both.check(
        "a table",
        &[
            query("COPY pair (b, a) TO STDOUT"),
            query("COPY nothing TO STDOUT"),
            query("COPY pair TO STDOUT (FORCE_NULL (a))"),
        ],
    );
    both.check(
        "by the extended protocol",
        &[parse("", &format!("COPY {from} TO STDOUT"), &[]), bind("", "", &[]), execute("", 0), sync()],
    );
    // Out and in again, in binary.
    let mut driver = both.bank.driver();
    let mut bytes = Vec::new();
    let mut reader = driver.copy_out("COPY account TO STDOUT (FORMAT binary)").unwrap();
    reader.read_to_end(&mut bytes).unwrap();
    drop(reader);
    let text = "SELECT id, owner, balance::text, opened::text, tags::text FROM account ORDER BY id";
    let all = |driver: &mut postgres::Client| -> Vec<String> {
        let said = driver.simple_query(text).unwrap();
        said.iter().map(|one| format!("{one:?}")).collect()
    };
    let before = all(&mut driver);
    driver.execute("DELETE FROM account", &[]).unwrap();
    let mut writer = driver.copy_in("COPY account FROM STDIN (FORMAT binary)").unwrap();
    bytes.chunks(13).for_each(|piece| writer.write_all(piece).unwrap());
    assert_eq!(writer.finish().unwrap(), 12);
    assert_eq!(all(&mut driver), before);
    for (bytes, words) in [
        (&b"nothing of the kind"[..], "signature not recognized"),
        (b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01", "row field count is 1, expected 5"),
        (b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x05\0\0", "unexpected EOF"),
    ] {
        let mut writer = driver.copy_in("COPY account FROM STDIN (FORMAT binary)").unwrap();
        writer.write_all(bytes).unwrap();
        let error = writer.finish().unwrap_err();
        let error = error.as_db_error().unwrap_or_else(|| panic!("{words}: {error:?}"));
        assert_eq!(error.code(), &SqlState::BAD_COPY_FILE_FORMAT);
        assert!(error.message().contains(words), "{error:?}");
    }
}
