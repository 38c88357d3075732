//! The system catalog of a small schema: everything in it binds, and no two things have one number.

use std::collections::BTreeSet;

use weir_types::Value;

use super::{Facts, System, templates};
use crate::source::Sources;

const SCHEMA: &str = "
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TABLE dept (id serial PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, budget numeric(10,2) DEFAULT 100, note text DEFAULT 'none',
    CHECK (budget >= 0 AND name <> ''), CHECK (note IN ('a', 'b') OR note IS NULL));
CREATE TABLE emp (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, dept int REFERENCES dept ON DELETE CASCADE, pay positive, m mood,
    born timestamp DEFAULT now(), tags text[]);
CREATE INDEX emp_pay ON emp (pay DESC, dept);
CREATE VIEW rich AS SELECT id, pay FROM emp WHERE pay >= 10;
CREATE SEQUENCE free START 5;
CREATE FUNCTION raise(who int, BY int DEFAULT 3) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN who + BY; END $$;
";

fn system() -> System {
    let mut sources = Sources::default();
    sources.add("schema.sql", SCHEMA);
    System::of(&crate::load(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}")))
}

fn check(system: &System, text: &str) {
    let facts = Facts { user: "ann".into(), database: "weir".into(), process: 7, ..Facts::default() };
    if let Err(wrong) = crate::bind_system_query(system, &facts, text, &[]) {
        panic!("{text}: {} {}", wrong.state, wrong.message);
    }
}

#[test]
fn every_table_view_and_function_binds() {
    let system = system();
    for table in &system.catalog.tables {
        check(&system, &format!("SELECT * FROM {}", table.name));
    }
    for view in templates::views().keys() {
        check(&system, &format!("SELECT * FROM {view}"));
    }
    for (name, count) in templates::all_functions().filter(|(name, _)| !name.contains(' ')) {
        check(&system, &format!("SELECT {name}({})", vec!["NULL"; count].join(", ")));
    }
    for text in [
        "SELECT current_user, session_user, current_schema, current_catalog",
        "SELECT 'emp'::regclass::oid, 1::oid::regclass::text",
    ] {
        check(&system, text);
    }
}

#[test]
fn rows_fit_their_tables_and_numbers_are_given_once() {
    let system = system();
    for (table, rows) in system.catalog.tables.iter().skip(system.first.0 as usize).zip(&system.rows) {
        let mut keys = BTreeSet::new();
        for row in rows {
            for (column, value) in table.columns.iter().zip(row) {
                assert!(!column.not_null || *value != Value::Null, "{}.{} is NULL", table.name, column.name);
            }
            if let Some(key) = &table.primary_key {
                let key: Vec<String> =
                    key.columns.iter().map(|column| format!("{:?}", row[*column])).collect();
                assert!(keys.insert(key.clone()), "{} has {key:?} twice", table.name);
            }
        }
    }
}
