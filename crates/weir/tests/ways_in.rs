//! Directories as projects have them: `weir analyze` finds the schema and the transactions in each.

use std::process::Command;

use crate::directory::Directory;
use serde_json::Value;

/// Tables, invariants of the last table and transactions, and where something was not understood.
#[track_caller]
fn check(name: &str, files: &[(&str, &str)], expect: &str) {
    let directory = Directory::with(name, files);
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["analyze", "--format", "json"])
        .arg(&directory.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |part: &str, show: &dyn Fn(&Value) -> Option<String>| {
        plan[part].as_array().unwrap().iter().filter_map(show).collect::<Vec<_>>().join(" ")
    };
    let name = |value: &Value| Some(value["name"].as_str().unwrap().to_owned());
    let parameters = |value: &Value| {
        let names: Vec<&str> =
            value["parameters"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        Some(format!("{}({})", value["name"].as_str().unwrap(), names.join(",")))
    };
    let warning = |value: &Value| {
        let file = value["source"]["file"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        (value["id"] == "WEIR-N02").then(|| format!("{file}:{}", value["source"]["line"]))
    };
    let id = |value: &Value| Some(value["id"].as_str().unwrap().to_owned());
    let found = format!(
        "{} | {} | {} | {}",
        list("tables", &name),
        list("invariants", &id),
        list("transactions", &parameters),
        list("diagnostics", &warning)
    );
    assert_eq!(found, expect);
}

#[test]
fn flyway() {
    check(
        "flyway",
        &[
            ("V1__init.sql", "CREATE TABLE person (id serial PRIMARY KEY, mail text UNIQUE, old int);"),
            (
                "V2__more.sql",
                "ALTER TABLE person DROP COLUMN old; ALTER TABLE person RENAME COLUMN mail TO email;",
            ),
            ("V10__rename.sql", "ALTER TABLE person RENAME TO customer; CREATE TABLE gone (id int);"),
            (
                "V11__drop.sql",
                "DROP TABLE gone; ALTER TABLE customer ADD CONSTRAINT has_at CHECK (email LIKE '%@%');",
            ),
            ("R__view.sql", "CREATE OR REPLACE VIEW mails AS SELECT email FROM customer;"),
            ("U2__more.sql", "nonsense"),
        ],
        "customer | customer.id not null has_at person_pkey person_mail_key person_id_seq | insert customer(email) update customer (email)(id,email) delete customer(id) | ",
    );
}

#[test]
fn sqlx() {
    check(
        "sqlx",
        &[
            (
                "migrations/20240101000000_init.up.sql",
                "CREATE TYPE mood AS ENUM ('sad', 'glad');\nCREATE TABLE pet (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mood mood NOT NULL);",
            ),
            ("migrations/20240101000000_init.down.sql", "DROP TABLE pet;"),
            ("migrations/20240202000000_mood.up.sql", "ALTER TYPE mood ADD VALUE 'mad';"),
            (
                ".sqlx/query-aa11.json",
                r#"{"db_name":"PostgreSQL","query":"UPDATE pet SET mood = $2 WHERE id = $1","describe":{"columns":[],"parameters":{"Left":["Int8",{"Custom":{"name":"mood","kind":{"Enum":["sad","glad","mad"]}}}]},"nullable":[]},"hash":"aa11"}"#,
            ),
        ],
        "pet | pet.id not null pet.mood not null pet.mood mood pet_pkey pet_id_seq | query_aa11(p1,p2) | ",
    );
}

#[test]
fn rails() {
    check(
        "rails",
        &[(
            "db/structure.sql",
            "SET statement_timeout = 0;\nCREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;\n\
             CREATE TABLE public.users (id bigint NOT NULL, name character varying, tsv tsvector);\n\
             CREATE TABLE public.schema_migrations (version character varying NOT NULL);\n\
             ALTER TABLE ONLY public.users ADD CONSTRAINT users_pkey PRIMARY KEY (id);\n\
             CREATE UNIQUE INDEX index_users_on_lower_name ON public.users USING btree (lower((name)::text));\n\
             SET search_path TO \"$user\", public;\n\nINSERT INTO \"schema_migrations\" (version) VALUES\n('20240101'),\n('20240102');\n",
        )],
        "users schema_migrations | users.id not null users_pkey index_users_on_lower_name schema_migrations.version not null | insert users(id,name,tsv) update users (name)(id,name) update users (tsv)(id,tsv) delete users(id) insert schema_migrations(version) update schema_migrations (version)(old_version,version) delete schema_migrations(version) | structure.sql:3",
    );
}

#[test]
fn sqlc_and_goose() {
    check(
        "sqlc",
        &[
            (
                "db/migrations/00001_authors.sql",
                "-- +goose Up\nCREATE TABLE authors (id bigserial PRIMARY KEY, name text NOT NULL);\n-- +goose Down\nDROP TABLE authors;\n",
            ),
            (
                "db/queries/authors.sql",
                "-- name: CreateAuthor :one\nINSERT INTO authors (name) VALUES (@name) RETURNING *;\n\n-- name: Search :many\nSELECT * FROM authors WHERE similarity(name, $1) > 0.5;\n",
            ),
            ("sqlc.yaml", "version: \"2\""),
        ],
        "authors | authors.id not null authors.name not null authors_pkey authors_id_seq | CreateAuthor(name) Search(p1) | authors.sql:5",
    );
}

#[test]
fn atlas_with_transactions() {
    check(
        "atlas",
        &[
            (
                "20240101120000_init.sql",
                "-- Create \"account\" table\nCREATE TABLE \"account\" (\"id\" bigint NOT NULL, \"balance\" numeric NOT NULL, PRIMARY KEY (\"id\"));\n",
            ),
            (
                "20240102120000.sql",
                "ALTER TABLE \"account\" ADD CONSTRAINT \"positive\" CHECK (balance >= 0), ALTER COLUMN \"balance\" TYPE numeric(12,2);\n",
            ),
            ("atlas.sum", "h1:xyz="),
            (
                "transactions.sql",
                "-- transaction: transfer(source, target, amount)\nUPDATE account SET balance = balance - :amount WHERE id = :source;\nUPDATE account SET balance = balance + :amount WHERE id = :target;\n",
            ),
        ],
        "account | account.id not null account.balance not null positive account_pkey | transfer(source,target,amount) | ",
    );
}
