//! What a database says of itself, beside PostgreSQL: the same schema there and here, and the same answers to what psql, drivers and
//! people ask of pg_catalog and information_schema.

mod alone;

use std::process::Command;

use alone::Alone;
use postgres::{Client as Driver, NoTls, SimpleQueryMessage};
use weir_bench::postgres::Server;

const SCHEMA: &[&str] = &[
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE dept (id serial PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, budget numeric(10,2) DEFAULT 100,
        note text DEFAULT 'none', CHECK (budget >= 0), CHECK (note IN ('none', 'some') OR note IS NULL))",
    "CREATE TABLE emp (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, dept int NOT NULL REFERENCES dept ON DELETE CASCADE,
        pay bigint CHECK (pay > 0 AND pay < 100000), born timestamp DEFAULT now(), m mood, code char(3), flag boolean DEFAULT true)",
    "CREATE INDEX emp_pay ON emp (pay DESC, dept)",
    "CREATE UNIQUE INDEX emp_code ON emp (code)",
    "CREATE VIEW rich AS SELECT id, pay FROM emp WHERE pay >= 10",
    "CREATE TABLE \"Two words\" (a int, \"B\" text, PRIMARY KEY (a, \"B\"))",
    "CREATE TABLE child (x int, y text, z int DEFAULT -1, FOREIGN KEY (x, y) REFERENCES \"Two words\" ON UPDATE CASCADE)",
    "CREATE SEQUENCE free START 5 INCREMENT 2",
    "CREATE TABLE gone (a int)",
    "DROP TABLE gone",
    "ALTER TABLE child ADD COLUMN w uuid NOT NULL",
];

/// What psql is told is the same, byte for byte.
const COMMANDS: &[&str] = &[
    r"\d",
    r"\dt",
    r"\di",
    r"\dv",
    r"\ds",
    r"\df",
    r"\dT",
    r"\dD",
    r"\dp",
    r"\d emp",
    r"\d dept",
    r"\d child",
    r"\d rich",
    r#"\d "Two words""#,
    r"\d emp_pay",
    r"\d emp_code",
    r"\d dept_pkey",
    r"\d dept_id_seq",
    r"\d emp_id_seq",
    r"\d free",
    r"\d+ emp",
    r"\d nothing",
    r"\dt e*",
    r"\dt public.*",
];

/// Each is answered the same.
const QUERIES: &[&str] = &[
    "SELECT current_schema(), current_database(), current_user, session_user, current_schemas(true)",
    "SELECT 'emp'::regclass, 'emp'::regclass::text, to_regclass('nothing'), to_regtype('int4') = 23",
    "SELECT relname FROM pg_class WHERE oid = 'emp'::regclass",
    "SELECT 'nothing'::regclass::oid FROM pg_class",
    "SELECT nosuch FROM pg_class",
    "SELECT * FROM pg_nosuch",
    "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'emp'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT conname, contype, conkey, confkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid IN ('emp'::regclass, 'dept'::regclass, 'child'::regclass) ORDER BY 1",
    "SELECT enumlabel FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid WHERE typname = 'mood' ORDER BY enumsortorder",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "SELECT tablename, tableowner, hasindexes FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
    "SELECT table_name, table_type, is_insertable_into FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'rich' ORDER BY 1",
    "SELECT table_name, column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, numeric_precision,
        numeric_precision_radix, numeric_scale, datetime_precision, udt_schema, udt_name, is_identity, identity_generation
        FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3",
    "SELECT constraint_name, table_name, column_name, ordinal_position FROM information_schema.key_column_usage WHERE table_schema = 'public' ORDER BY 1, 4",
    "SELECT constraint_name, unique_constraint_name, update_rule, delete_rule FROM information_schema.referential_constraints ORDER BY 1",
    "SELECT constraint_name, constraint_type FROM information_schema.table_constraints WHERE table_schema = 'public' AND constraint_name !~ 'not_null' ORDER BY 1",
    "SELECT constraint_name, table_name, column_name FROM information_schema.constraint_column_usage WHERE table_schema = 'public' ORDER BY 1, 2, 3",
    "SELECT sequence_name, data_type, start_value, increment FROM information_schema.sequences WHERE sequence_schema = 'public' ORDER BY 1",
    "SELECT pg_get_serial_sequence('dept', 'id'), has_table_privilege('emp', 'SELECT'), pg_is_in_recovery()",
    "SELECT typname FROM pg_type WHERE typinput = 'pg_catalog.array_in'::regproc AND typname IN ('_int4', 'int4', '_mood') ORDER BY 1",
    "SELECT result.name, result.at FROM (SELECT a.attname AS name, (information_schema._pg_expandarray(i.indkey)).n AS at,
        information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS attnum FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid
        WHERE i.indisprimary AND a.attrelid = '\"Two words\"'::regclass) result WHERE result.attnum = (result.keys).x ORDER BY 2",
    "SELECT count(*) FROM emp e, pg_class c WHERE c.relname = 'emp'",
    "BEGIN; CREATE TABLE fresh (a int); SELECT relname FROM pg_class WHERE relname = 'fresh'; ROLLBACK; SELECT relname FROM pg_class WHERE relname = 'fresh'",
];

fn driver(url: &str) -> Driver {
    Driver::connect(url, NoTls).unwrap_or_else(|why| panic!("{url}: {why}"))
}

/// Rows, or the SQLSTATE.
fn answer(driver: &mut Driver, text: &str) -> String {
    let said = match driver.simple_query(text) {
        Err(error) => return error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
        Ok(said) => said,
    };
    let rows = said.iter().filter_map(|one| match one {
        SimpleQueryMessage::Row(row) => {
            let values: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
            Some(values.join("|") + "\n")
        }
        _ => None,
    });
    rows.collect()
}

fn psql(url: &str, command: &str) -> String {
    let said = Command::new("psql").args([url, "-X", "-c", command]).output().expect("psql is installed");
    format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr))
}

#[test]
fn a_schema_is_described_as_postgresql_describes_it() {
    let server = Server::start().unwrap();
    let theirs = server.connection_string();
    driver(&theirs).batch_execute("CREATE DATABASE weir").unwrap();
    let theirs = theirs.replace("dbname=postgres", "dbname=weir");
    let ours = Alone::start(1);
    let mut both = [driver(&theirs), driver(&ours.url())];
    for text in SCHEMA {
        for one in &mut both {
            one.batch_execute(text).unwrap_or_else(|why| panic!("{text}: {why:?}"));
        }
    }
    let mut wrong = Vec::new();
    for text in QUERIES {
        let [expected, found] = both.each_mut().map(|one| answer(one, text));
        if expected != found {
            wrong.push(format!("{text}\nPostgreSQL:\n{expected}Weir:\n{found}"));
        }
    }
    for command in COMMANDS {
        let (expected, found) = (psql(&theirs, command), psql(&ours.url(), command));
        if expected != found {
            wrong.push(format!("{command}\nPostgreSQL:\n{expected}Weir:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let ours = Alone::start(1);
    let mut driver = driver(&ours.url());
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").unwrap();
    let mut check = |text: &str, expect: &str| {
        let error = driver.simple_query(text).expect_err(text);
        let error = error.as_db_error().unwrap();
        let found = format!("{} {}", error.code().code(), error.message());
        assert!(found.starts_with(expect), "{text}: {found}, not {expect}");
    };
    check("SELECT pg_advisory_lock(1)", "0A000 the function pg_advisory_lock");
    check("SELECT pg_try_advisory_xact_lock(1, 2)", "0A000 the function pg_try_advisory_xact_lock");
    check("SELECT set_config('work_mem', '1MB', false)", "0A000 the function set_config");
    check("SELECT pg_table_size('t')", "0A000 the function pg_table_size");
    check("INSERT INTO t SELECT 1, relname FROM pg_class", "0A000 a statement that writes");
    check("DELETE FROM pg_class", "0A000");
    check("SELECT indkey[0] FROM pg_index", "0A000 a subscript of bigint[]");
    check("SELECT * FROM pg_nothing", "42P01");
}
