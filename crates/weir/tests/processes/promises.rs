//! An application is run as the analysis has promised: by `weir run`, which reports refused calls, and by a server of its directory.

use std::process::{Command, Output};

use crate::alone::Alone;
use crate::answers::answer;
use crate::directory::Directory;
use postgres::Client as Driver;
use serde_json::Value;

fn check(driver: &mut Driver, conversation: &[(&str, &str)]) {
    for (text, expected) in conversation {
        assert_eq!(answer(driver, text), *expected, "{text}");
    }
}

/// Two doctors of a ward, each of whom goes off after seeing the other on call: on several shards that needs order, which locks keep.
const WARDS: [(&str, &str); 4] = [
    (
        "schema.sql",
        "CREATE TABLE ward (id int PRIMARY KEY, wanted boolean NOT NULL);
         CREATE TABLE doctor (id int PRIMARY KEY, ward int NOT NULL, on_call boolean NOT NULL);",
    ),
    (
        "procedures.sql",
        "CREATE PROCEDURE go_off(p_d int, p_other int) LANGUAGE plpgsql AS $$
         DECLARE other boolean;
         BEGIN
           SELECT on_call INTO other FROM doctor WHERE id = p_other;
           IF NOT other THEN RAISE EXCEPTION 'nobody else'; END IF;
           UPDATE doctor SET on_call = false WHERE id = p_d;
         END $$;
         CREATE PROCEDURE want(p_w int) LANGUAGE plpgsql AS $$
         BEGIN UPDATE ward SET wanted = false WHERE id = p_w; END $$;",
    ),
    (
        "invariants.sql",
        "CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM ward w
         WHERE NOT EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.on_call)));",
    ),
    (
        "workload.toml",
        "[load.ward]
         for = [\"n in 1..50\"]
         id = \"n\"
         wanted = \"true\"
         [load.doctor]
         for = [\"n in 1..100\"]
         id = \"n\"
         ward = \"(n + 1) / 2\"
         on_call = \"true\"
         [mix]
         go_off = 1
         [parameters.go_off]
         _n = \"uniform(1, 50)\"
         _x = \"uniform(0, 1)\"
         p_d = \"2 * _n - _x\"
         p_other = \"2 * _n - 1 + _x\"",
    ),
];

fn run(directory: &Directory, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["run", "--transactions", "5000"]).args(arguments).arg(&directory.0).output().unwrap()
}

#[test]
fn a_run_that_needs_order_keeps_it_on_several_shards() {
    let directory = Directory::with("wards-run", &WARDS);
    // On one shard each call runs to completion before the next one begins; on several it locks what it reads.
    for (shards, seed) in [("1", "1"), ("1", "2"), ("4", "1"), ("4", "2")] {
        let one = run(&directory, &["--shards", shards, "--seed", seed]);
        assert_eq!(one.status.code(), Some(0), "{shards} shards: {}", String::from_utf8_lossy(&one.stdout));
    }
    // A procedure that needs no order runs beside.
    let (_, workload) = WARDS[3];
    let wants = workload.replace("go_off = 1", "want = 1").replace("parameters.go_off", "parameters.want");
    let wants = wants.split("_n = ").next().unwrap().to_owned() + "p_w = \"uniform(1, 50)\"";
    std::fs::write(directory.0.join("workload.toml"), wants).unwrap();
    let several = run(&directory, &["--shards", "4"]);
    assert_eq!(several.status.code(), Some(0), "{}", String::from_utf8_lossy(&several.stderr));
}

#[test]
fn a_call_that_needs_order_runs_by_itself() {
    for shards in ["1", "3"] {
        let directory = Directory::with(&format!("wards-served-{shards}"), &WARDS);
        let weir = Alone::with(&["--shards", shards, &directory.0.display().to_string()]);
        let mut own = weir.driver();
        check(
            &mut own,
            &[
                ("CALL go_off(1, 2)", "(0)"),
                ("CALL go_off(2, 1)", "P0001 nobody else"),
                ("BEGIN", "(0)"),
                // In a transaction it locks what it has read.
                ("CALL go_off(3, 4)", "(0)"),
                ("ROLLBACK", "(0)"),
                // Beside procedures that run in order already, the schema changes as ever.
                ("CREATE TABLE beside (id int PRIMARY KEY)", "(0)"),
                ("INSERT INTO beside VALUES (1)", "(1)"),
                ("CALL go_off(3, 4)", "(0)"),
            ],
        );
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one document")
}

const SHOP: [(&str, &str); 3] = [
    (
        "schema.sql",
        "CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL);
         CREATE TABLE returned (id int PRIMARY KEY, item int NOT NULL CHECK (item > 0));",
    ),
    (
        "procedures.sql",
        "CREATE PROCEDURE add(p_id int, p_n int) LANGUAGE plpgsql AS $$
         BEGIN UPDATE item SET stock = stock + p_n WHERE id = p_id; END $$;
         CREATE PROCEDURE give_up(p_id int) LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'no item % for \"you\"', p_id; END $$;",
    ),
    (
        "workload.toml",
        "[set]
         items = 10
         most = 3
         [load.item]
         for = [\"n in 1..items\"]
         id = \"n\"
         stock = \"0\"
         [mix]
         add = 1
         give_up = 1
         [parameters.add]
         p_id = \"uniform(1, items)\"
         p_n = \"uniform(1, most)\"
         [parameters.give_up]
         p_id = \"uniform(1, items)\"",
    ),
];

/// Values are no reasons: ten items are one line.
#[test]
fn a_run_in_which_a_transaction_never_commits_has_failed() {
    let directory = Directory::with("gives-up", &SHOP);
    let page = directory.0.join("report.html").display().to_string();
    let run_text = run(&directory, &["--set", "items=20,most=5", "--report", &page]);
    let said = String::from_utf8_lossy(&run_text.stdout);
    assert_eq!(run_text.status.code(), Some(1), "{said}");
    for piece in [
        "failed: give_up: 2,",
        "calls, and none has committed",
        "P0001 no item … for \"you\"",
        "holds of no rows",
    ] {
        assert!(said.contains(piece), "{piece}\n{said}");
    }
    assert_eq!(said.matches("no item").count(), 2, "a line of aborts, and one of the failure\n{said}");
    let page = std::fs::read_to_string(page).unwrap();
    for piece in ["never committed: give_up", "of no rows: there were none to check"] {
        assert!(page.contains(piece), "{piece}");
    }
    let document = json(&run(&directory, &["--set", "items=20", "--set", "most=5", "--format", "json"]));
    assert_eq!(document["never_committed"], serde_json::json!(["give_up"]), "{document}");
    assert_eq!(document["setup"]["parameters"]["items"], 20, "{document}");
    assert_eq!(document["plan"]["transactions"][0]["runs"]["on_several"], true, "{document}");
    // Without it all is well.
    std::fs::write(directory.0.join("workload.toml"), SHOP[2].1.replace("give_up = 1", "give_up = 0"))
        .unwrap();
    assert_eq!(run(&directory, &[]).status.code(), Some(0));
}

#[test]
fn rows_are_invented_only_for_those_who_ask() {
    let directory = Directory::with("invented", &SHOP[..2]);
    let path = directory.0.display().to_string();
    let count = |arguments: &[&str]| {
        let weir = Alone::with(&[arguments, &[&path]].concat());
        let counted = answer(&mut weir.driver(), "SELECT count(*) FROM item");
        (counted, weir.said().contains("invented rows (--demo-data)"))
    };
    assert_eq!(count(&["--shards", "3"]), ("0 (1)".to_owned(), false));
    assert_eq!(count(&["--shards", "3", "--demo-data"]), ("100 (1)".to_owned(), true));
}

/// The next version of a directory's files becomes definitions; what cannot is refused, and nothing has changed.
#[test]
fn the_next_version_of_the_files_is_a_migration() {
    let directory = Directory::with("migrated", &SHOP[..2]);
    let write = |file: &str, text: &str| std::fs::write(directory.0.join(file), text).unwrap();
    let path = directory.0.display().to_string();
    let mut weir = Alone::with(&["--shards", "3", &path]);
    check(&mut weir.driver(), &[("INSERT INTO item VALUES (1, 5)", "(1)"), ("CALL add(1, 2)", "(0)")]);
    // A column, a table, a procedure that is new and one that is another.
    let schema = SHOP[0].1.replace("stock int NOT NULL", "stock int NOT NULL, weight int NOT NULL DEFAULT 7")
        + "CREATE TABLE extra (id int PRIMARY KEY);";
    let procedures = SHOP[1].1.replace("stock + p_n", "stock + 10 * p_n")
        + "CREATE FUNCTION seven() RETURNS int LANGUAGE sql AS $$ SELECT 7 $$;";
    write("schema.sql", &schema);
    write("procedures.sql", &procedures);
    weir.kill_and_start_again();
    for piece in [
        "migration adds column item.weight",
        "migration adds table extra",
        "migration changes procedure add",
        "migration adds function seven",
        "migrated, 4 differences",
    ] {
        assert!(weir.said().contains(piece), "{piece}\n{}", weir.said());
    }
    let now: &[(&str, &str)] = &[
        ("CALL add(1, 1)", "(0)"),
        ("SELECT id, stock, weight FROM item", "1|17|7 (1)"),
        ("SELECT count(*) FROM extra", "0 (1)"),
    ];
    check(&mut weir.driver(), now);
    // The same files are no migration.
    weir.kill_and_start_again();
    assert!(!weir.said().contains("migra"), "{}", weir.said());
    for (changed, expected) in [
        (
            schema.replace("stock int", "stock bigint"),
            "column item.stock is declared otherwise than before; nothing has changed",
        ),
        (
            schema.replace("CREATE TABLE extra (id int PRIMARY KEY);", ""),
            "it drops table extra, and what is in it would be lost",
        ),
        (
            format!("{schema} DROP TABLE extra;"),
            "it runs statement DROP TABLE extra, and what is in it would be lost",
        ),
        (
            format!("{schema} ALTER TABLE item DROP COLUMN weight;"),
            "migration runs statement ALTER TABLE item DROP COLUMN weight, which drops rows or columns with what is in them",
        ),
        (
            schema.replace("DEFAULT 7", "DEFAULT 7, more int NOT NULL"),
            "in: ALTER TABLE item ADD COLUMN more int NOT NULL",
        ),
    ] {
        weir.kill();
        write("schema.sql", &changed);
        weir.start_again();
        assert_eq!(weir.ends().code(), Some(2), "{}", weir.said());
        assert!(weir.said().contains(expected), "{expected}\n{}", weir.said());
    }
    write("schema.sql", &schema);
    weir.start_again();
    weir.wait();
    check(&mut weir.driver(), &[("SELECT id, stock, weight FROM item", "1|17|7 (1)")]);
}

/// Unique indexes on an expression and over some rows, each with the column by which rows have their places.
const PEOPLE: [(&str, &str); 2] = [
    (
        "schema.sql",
        "CREATE TABLE person (tenant int, id int, email text NOT NULL, left_at timestamptz, rank int NOT NULL, PRIMARY KEY (tenant, id));
         CREATE UNIQUE INDEX person_email ON person (tenant, lower(email));
         CREATE UNIQUE INDEX person_rank ON person (tenant, rank) WHERE left_at IS NULL;
         CREATE PROCEDURE enter(t int, i int, e text) LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO person VALUES (t, i, e, NULL, i) ON CONFLICT DO NOTHING; END $$;
         CREATE PROCEDURE add(t int, i int, e text, r int) LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO person VALUES (t, i, e, NULL, r); END $$;
         CREATE PROCEDURE leave(t int, i int) LANGUAGE plpgsql AS $$
         BEGIN UPDATE person SET left_at = now() WHERE tenant = t AND id = i; END $$;",
    ),
    (
        "workload.toml",
        "[load.person]
         for = [\"t in 1..10\", \"n in 1..20\"]
         tenant = \"t\"
         id = \"n\"
         email = \"concat('M', n)\"
         rank = \"n\"
         [mix]
         enter = 1
         leave = 1
         [parameters.enter]
         t = \"uniform(1, 10)\"
         i = \"uniform(1, 100)\"
         e = \"concat('m', i)\"
         [parameters.leave]
         t = \"uniform(1, 10)\"
         i = \"uniform(1, 100)\"
        ",
    ),
];

/// One function decides what may run: whatever `weir serve` takes of a directory `weir run` takes.
#[test]
fn a_run_takes_the_unique_indexes_that_a_server_takes() {
    let directory = Directory::with("people", &PEOPLE);
    for shards in ["1", "4"] {
        let done = run(&directory, &["--shards", shards]);
        let [said, wrong] =
            [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(done.status.code(), Some(0), "{said}{wrong}");
        let server = Alone::with(&[&directory.0.display().to_string(), "--shards", shards]);
        let twice = "23505 duplicate key value violates unique constraint \"person_email\" | Key (tenant, lower(email))=(1, m1) already exists.";
        let rank = "23505 duplicate key value violates unique constraint \"person_rank\" | Key (tenant, rank)=(1, 2) already exists.";
        check(
            &mut server.driver(),
            &[
                ("SELECT count(*) FROM person", "200 (1)"),
                ("CALL add(1, 1000, 'm1', 1000)", twice),
                ("CALL add(1, 1000, 'x', 2)", rank),
                ("CALL leave(1, 2)", "(0)"),
                ("CALL add(1, 1000, 'x', 2)", "(0)"),
                ("SELECT count(*) FROM person WHERE rank = 2 AND tenant = 1", "2 (1)"),
            ],
        );
    }
}
