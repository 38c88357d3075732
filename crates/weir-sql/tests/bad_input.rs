//! Bad input, as a user hands it in: one clear message with its place for each mistake, and never a panic.

use weir_sql::{Sources, load};

const SCHEMA: &str = "\
CREATE TABLE department (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE employee (
    id int PRIMARY KEY,
    department_id int NOT NULL REFERENCES department (id),
    salary numeric(10,2) NOT NULL CHECK (salary >= 0),
    hired date
);
";

/// `file:line:column SQLSTATE message` of every error.
fn errors(files: &[(&str, &str)]) -> Vec<String> {
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(*name, *text);
    }
    match load(sources) {
        Ok(_) => Vec::new(),
        Err((sources, errors)) => {
            let show = |error: &weir_sql::Diagnostic| {
                format!("{} {} {}", sources.place(error.span), error.state, error.message)
            };
            errors.iter().map(show).collect()
        }
    }
}

/// Loads each text as `file` behind the schema and compares the errors.
#[track_caller]
fn check(file: &str, cases: &[(&str, &[&str])]) {
    let mut failed = String::new();
    for (text, expect) in cases {
        let found = match file {
            "schema.sql" => errors(&[(file, text)]),
            _ => errors(&[("schema.sql", SCHEMA), (file, text)]),
        };
        if found != *expect {
            failed += &format!("{text:?}\n  found  {found:?}\n  wanted {expect:?}\n");
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn schemas() {
    check(
        "schema.sql",
        &[
            ("", &[]),
            ("-- nothing but a comment\n", &[]),
            (SCHEMA, &[]),
            (
                "CREATE TABLE t (\n    id int PRIMARY KEY,\n    name txet\n);",
                &["schema.sql:3:10 42704 type \"txet\" does not exist"],
            ),
            (
                "CREATE TABLE t (id int PRIMARY KEY,,);",
                &["schema.sql:1:36 42601 syntax error at or near \",\""],
            ),
            (
                "CREATE TABLE t (id int PRIMARY KEY\nCREATE TABLE u (id int);",
                &["schema.sql:2:1 42601 syntax error at or near \"CREATE\""],
            ),
            (
                "CREATE TABLE t (id int, CHECK (idd > 0));",
                &["schema.sql:1:32 42703 column \"idd\" does not exist"],
            ),
            (
                "CREATE TABLE t (id int CHECK (id || 1));",
                &["schema.sql:1:34 42883 operator does not exist: integer || integer"],
            ),
            (
                "CREATE TABLE t (id int CHECK (id + 1));",
                &["schema.sql:1:31 42804 argument of CHECK must be type boolean, not type integer"],
            ),
            (
                "CREATE TABLE t (id int REFERENCES nowhere (id));",
                &["schema.sql:1:35 42P01 relation \"nowhere\" does not exist"],
            ),
            (
                "CREATE TABLE u (id int);\nCREATE TABLE t (id int REFERENCES u (id));",
                &[
                    "schema.sql:2:35 42830 there is no unique constraint matching given keys for referenced table \"u\"",
                ],
            ),
            (
                "CREATE TABLE u (id int PRIMARY KEY);\nCREATE TABLE t (id text REFERENCES u (id));",
                &["schema.sql:2:25 42804 foreign key constraint \"t_id_fkey\" cannot be implemented"],
            ),
            (
                "CREATE TABLE t (id int, id text);",
                &["schema.sql:1:25 42701 column \"id\" specified more than once"],
            ),
            (
                "CREATE TABLE t (id int);\nCREATE TABLE t (id int);",
                &["schema.sql:2:14 42P07 relation \"t\" already exists"],
            ),
            (
                "CREATE TABLE t (id int PRIMARY KEY, PRIMARY KEY (id));",
                &["schema.sql:1:37 42P16 multiple primary keys for table \"t\" are not allowed"],
            ),
            (
                "CREATE TABLE t (id int, UNIQUE (nope));",
                &["schema.sql:1:25 42703 column \"nope\" named in key does not exist"],
            ),
            (
                "CREATE TABLE t (id int DEFAULT 'x');",
                &["schema.sql:1:32 22P02 invalid input syntax for type integer: \"x\""],
            ),
            ("CREATE TABLE t (at time);", &["schema.sql:1:20 0A000 type time is not supported"]),
            (
                "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();",
                &["schema.sql:1:1 0A000 CREATE TRIGGER is not supported"],
            ),
            (
                "CREATE TABLE t (id int) PARTITION BY LIST (id);",
                &[
                    "schema.sql:1:1 0A000 the partitioned table t without a DEFAULT partition is not supported",
                ],
            ),
            ("CREATE INDEX ON nowhere (id);", &["schema.sql:1:17 42P01 relation \"nowhere\" does not exist"]),
            (
                "CREATE TABLE t (name varchar(0));",
                &["schema.sql:1:22 22023 length for type varchar must be between 1 and 10485760"],
            ),
            (
                "CREATE TABLE t (name text DEFAULT 'open);",
                &["schema.sql:1:35 42601 unterminated quoted string at or near \"'open);\""],
            ),
            (
                "CREATE TABLE t (id int);\0",
                &["schema.sql:1:25 42601 SQL text must not contain a NUL character"],
            ),
        ],
    );
}

#[test]
fn procedures() {
    let wrong =
        |body: &str| format!("CREATE PROCEDURE p(a int, b text)\nLANGUAGE plpgsql AS $$\n{body}\n$$;");
    let bodies: &[(&str, &[&str])] = &[
        ("BEGIN UPDATE employee SET salary = a WHERE id = 1; END", &[]),
        (
            "BEGIN UPDATE employee SET salry = a; END",
            &["procedures.sql:3:27 42703 column \"salry\" of relation \"employee\" does not exist"],
        ),
        (
            "BEGIN UPDATE employes SET salary = a; END",
            &["procedures.sql:3:14 42P01 relation \"employes\" does not exist"],
        ),
        (
            "BEGIN UPDATE employee SET salary = 'much'; END",
            &["procedures.sql:3:36 22P02 invalid input syntax for type numeric: \"much\""],
        ),
        (
            "BEGIN UPDATE employee SET hired = a; END",
            &["procedures.sql:3:35 42804 column \"hired\" is of type date but expression is of type integer"],
        ),
        (
            "BEGIN INSERT INTO employee VALUES (1, 2, 3, NULL, 5); END",
            &["procedures.sql:3:51 42601 INSERT has more expressions than target columns"],
        ),
        (
            "BEGIN\n  UPDATE employee SET salary = a\n  DELETE FROM employee;\nEND",
            &["procedures.sql:5:3 42601 syntax error at or near \"DELETE\""],
        ),
        (
            "BEGIN\n  IF a > 0 THEN\n    a := 1;\nEND",
            &["procedures.sql:7:1 42601 syntax error at end of input"],
        ),
        ("BEGIN a := c; END", &["procedures.sql:3:12 42703 column \"c\" does not exist"]),
        ("BEGIN c := a; END", &["procedures.sql:3:7 42601 \"c\" is not a known variable"]),
        ("BEGIN a := b + 1; END", &["procedures.sql:3:14 42883 operator does not exist: text + integer"]),
        (
            "BEGIN SELECT salary FROM employee; END",
            &["procedures.sql:3:7 42601 query has no destination for result data"],
        ),
        (
            "BEGIN INSERT INTO employee VALUES (1, 2, 3);\nEXCEPTION WHEN OTHERS THEN NULL; END",
            &["procedures.sql:4:1 0A000 EXCEPTION is not supported"],
        ),
        (
            "BEGIN EXECUTE 'DELETE FROM ' || b; END",
            &["procedures.sql:3:7 0A000 EXECUTE (dynamic SQL) is not supported"],
        ),
        (
            "BEGIN DELETE FROM employee; COMMIT; END",
            &["procedures.sql:3:29 0A000 COMMIT inside a procedure is not supported"],
        ),
        ("DECLARE c CURSOR FOR SELECT 1; BEGIN END", &["procedures.sql:3:9 0A000 a cursor is not supported"]),
        (
            "BEGIN PERFORM pg_sleep(1); END",
            &[
                "procedures.sql:3:15 0A000 the function pg_sleep within a statement or a procedure is not supported",
            ],
        ),
        ("BEGIN CALL q(1); END", &["procedures.sql:3:12 42883 procedure q does not exist"]),
        ("BEGIN LOCK TABLE employee; END", &["procedures.sql:3:7 0A000 LOCK TABLE here is not supported"]),
        ("BEGIN a := 'x", &["procedures.sql:3:12 42601 unterminated quoted string at or near \"'x\""]),
        ("", &["procedures.sql:4:1 42601 syntax error at end of input"]),
    ];
    let texts: Vec<(String, &[&str])> = bodies.iter().map(|(body, expect)| (wrong(body), *expect)).collect();
    let cases: Vec<(&str, &[&str])> = texts.iter().map(|(text, expect)| (text.as_str(), *expect)).collect();
    check("procedures.sql", &cases);
    check(
        "procedures.sql",
        &[
            (
                "CREATE PROCEDURE p(a nosuch) LANGUAGE plpgsql AS $$ BEGIN END $$;",
                &["procedures.sql:1:22 42704 type \"nosuch\" does not exist"],
            ),
            (
                "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN END;",
                &["procedures.sql:1:42 42601 unterminated dollar-quoted string at or near \"$$ BEGIN END;\""],
            ),
            (
                "CREATE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC DELETE FROM nowhere; END;",
                &["procedures.sql:1:60 42P01 relation \"nowhere\" does not exist"],
            ),
            (
                "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT name FROM departmen $$;",
                &["procedures.sql:1:69 42P01 relation \"departmen\" does not exist"],
            ),
            (
                "CREATE PROCEDURE p() LANGUAGE c AS 'lib', 'symbol';",
                &["procedures.sql:1:22 0A000 LANGUAGE c is not supported"],
            ),
            (
                "CREATE PROCEDURE p() LANGUAGE sql AS $$ $$;\nCREATE PROCEDURE p() LANGUAGE sql AS $$ $$;",
                &["procedures.sql:2:1 42723 function \"p\" already exists with same argument types"],
            ),
            (
                "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN a := 1; END $$;\n\
          CREATE PROCEDURE q() LANGUAGE plpgsql AS $$ BEGIN b := 1; END $$;",
                &[
                    "procedures.sql:1:51 42601 \"a\" is not a known variable",
                    "procedures.sql:2:51 42601 \"b\" is not a known variable",
                ],
            ),
        ],
    );
}

#[test]
fn invariants() {
    check(
        "invariants.sql",
        &[
            ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT FROM employee WHERE salary < 0));", &[]),
            (
                "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT FROM employe));",
                &["invariants.sql:1:51 42P01 relation \"employe\" does not exist"],
            ),
            (
                "CREATE ASSERTION a CHECK (\n  (SELECT sum(salry) FROM employee) > 0);",
                &["invariants.sql:2:15 42703 column \"salry\" does not exist"],
            ),
            (
                "CREATE ASSERTION a CHECK ((SELECT sum(salary) FROM employee));",
                &["invariants.sql:1:27 42804 argument of CHECK must be type boolean, not type numeric"],
            ),
            (
                "CREATE ASSERTION a CHECK ((SELECT count(*) FROM employee) > 0",
                &["invariants.sql:1:62 42601 the parenthesis of CHECK does not close at end of input"],
            ),
            ("CREATE ASSERTION a CHECK (1 >);", &["invariants.sql:1:30 42601 syntax error at end of input"]),
            ("CREATE ASSERTION a;", &["invariants.sql:1:19 42601 CHECK is missing at or near \";\""]),
            (
                "CREATE ASSERTION a CHECK (true);\nCREATE ASSERTION a CHECK (true);",
                &["invariants.sql:2:18 42710 assertion \"a\" already exists"],
            ),
        ],
    );
}

/// `:é€` is read as `$1`, padded to its five bytes: what is wrong with `a$1` ends within a character.
#[test]
fn places_hold_whole_characters() {
    let mut sources = Sources::default();
    sources.add("queries.sql", "-- name: q\na:é€ CAST");
    let Err((sources, errors)) = load(sources) else { panic!("that is no query") };
    let texts: Vec<&str> = errors.iter().map(|error| sources.text(error.span)).collect();
    assert_eq!(texts, ["a:é"]);
}

/// Files cut anywhere: some answer, with places inside of them.
#[test]
fn truncated_files_never_panic() {
    let procedures = "CREATE FUNCTION f(a int) RETURNS int LANGUAGE plpgsql AS $body$\n\
        DECLARE r employee%ROWTYPE; é text := 'ü''x';\n\
        BEGIN FOR r IN SELECT * FROM employee LOOP a := a + r.id; END LOOP; RETURN a; END $body$;\n\
        CREATE ASSERTION a CHECK (NOT EXISTS (SELECT FROM employee WHERE salary < 0));";
    let whole = format!("{SCHEMA}{procedures}");
    for at in (0..whole.len()).filter(|at| whole.is_char_boundary(*at)) {
        let _ = errors(&[("all.sql", &whole[..at])]);
        let _ = errors(&[("schema.sql", SCHEMA), ("rest.sql", &whole[at..])]);
    }
}
