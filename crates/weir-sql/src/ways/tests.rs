//! Layouts, sections and queries, as cases.

use super::layout::{self, LayoutError};
use super::sections;
use crate::source::Sources;
use crate::{Reading, load_with, print};

#[track_caller]
fn check_layout(paths: &[&str], expect: &[&str]) {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    assert_eq!(layout::choose(&paths).unwrap_or_else(|error| panic!("{error:?}")), expect, "{paths:?}");
}

#[test]
fn layouts() {
    check_layout(
        &["invariants.sql", "schema.sql", "readme.md", "procedures.sql"],
        &["schema.sql", "procedures.sql", "invariants.sql"],
    );
    check_layout(
        &["schema.sql", "migrations/1_x.sql", "transactions.sql"],
        &["schema.sql", "transactions.sql"],
    );
    // Rails
    check_layout(&["db/structure.sql", "db/migrate/2024_x.rb", "app/x.sql"], &["db/structure.sql"]);
    // sqlx, with its cache
    check_layout(
        &[
            "migrations/20240101000000_b.up.sql",
            "migrations/20240101000000_b.down.sql",
            "migrations/20230101000000_a.up.sql",
            ".sqlx/query-ab.json",
            "src/main.rs",
        ],
        &["migrations/20230101000000_a.up.sql", "migrations/20240101000000_b.up.sql", ".sqlx/query-ab.json"],
    );
    // Flyway: versions are numbers, repeatable ones last, undoing never
    check_layout(
        &[
            "src/main/resources/db/migration/R__views.sql",
            "src/main/resources/db/migration/V10__c.sql",
            "src/main/resources/db/migration/V2__b.sql",
            "src/main/resources/db/migration/V1_1__a.sql",
            "src/main/resources/db/migration/U2__b.sql",
        ],
        &[
            "src/main/resources/db/migration/V1_1__a.sql",
            "src/main/resources/db/migration/V2__b.sql",
            "src/main/resources/db/migration/V10__c.sql",
            "src/main/resources/db/migration/R__views.sql",
        ],
    );
    // Atlas; plain numbers, 10 behind 9
    check_layout(&["20240101_a.sql", "20240102_b.sql", "atlas.sum"], &["20240101_a.sql", "20240102_b.sql"]);
    check_layout(&["10-z.sql", "9-y.sql", "001.sql"], &["001.sql", "9-y.sql", "10-z.sql"]);
    // Prisma, Diesel
    check_layout(
        &[
            "prisma/migrations/20240102_b/migration.sql",
            "prisma/migrations/20240101_a/migration.sql",
            "prisma/schema.prisma",
        ],
        &["prisma/migrations/20240101_a/migration.sql", "prisma/migrations/20240102_b/migration.sql"],
    );
    check_layout(
        &[
            "migrations/2024-01-02-000000_b/up.sql",
            "migrations/2024-01-02-000000_b/down.sql",
            "migrations/2023-11-02-000000_a/up.sql",
        ],
        &["migrations/2023-11-02-000000_a/up.sql", "migrations/2024-01-02-000000_b/up.sql"],
    );
    // sqlc
    check_layout(
        &["db/migrations/001_a.sql", "db/queries/authors.sql", "sqlc.yaml"],
        &["db/migrations/001_a.sql", "db/queries/authors.sql"],
    );
    check_layout(&["schema.sql", "query.sql"], &["schema.sql", "query.sql"]);
    // Of two folders the one that is called so
    check_layout(&["migrations/1_a.sql", "seeds/1_rows.sql"], &["migrations/1_a.sql"]);
}

#[test]
fn directories_without_an_application() {
    let none: Vec<String> = vec!["readme.md".to_owned(), "x/y.sql".to_owned()];
    assert_eq!(layout::choose(&none), Err(LayoutError::Nothing));
    let two: Vec<String> = vec!["a/migrations/1.sql".to_owned(), "b/migrations/1.sql".to_owned()];
    let both = vec!["a/migrations".to_owned(), "b/migrations".to_owned()];
    assert_eq!(layout::choose(&two), Err(LayoutError::Ambiguous(both)));
}

#[test]
fn what_undoes_is_blank() {
    for (text, expect) in [
        ("-- +goose Up\na;\n-- +goose Down\nb;\n", "-- +goose Up\na;\n-- +goose Down\n  \n"),
        (
            "-- migrate:up\na;\n-- migrate:down\né;\n-- migrate:up\nc;",
            "-- migrate:up\na;\n-- migrate:down\n   \n-- migrate:up\nc;",
        ),
        ("a;\n-- down the road\nb;", "a;\n-- down the road\nb;"),
    ] {
        let found = sections::without_down(text);
        assert_eq!(found.len(), text.len());
        assert_eq!(found, expect);
    }
}

const SCHEMA: &str =
    "create table account (id bigint primary key, owner text, balance numeric(12,2), at timestamptz);
create table move (id bigserial primary key, source bigint, target bigint, amount numeric(12,2));
create function twice(x bigint) returns bigint language sql as $$ select x * 2 $$;
create procedure note(what text, out n int) language plpgsql as $$ begin n := 1; end $$;";

/// `name(parameter type, …): steps`, or the error with its place.
#[track_caller]
fn check(file: &str, text: &str, expect: &str) {
    let mut sources = Sources::default();
    sources.add("schema.sql", SCHEMA);
    sources.add(file, text);
    let show = |sources: &Sources, note: &crate::Diagnostic| {
        format!("{} {} {}", sources.place(note.span), note.state, note.message)
    };
    let found = match load_with(sources, Reading::Tolerant) {
        Ok(application) => {
            let procedures = application.procedures.iter().skip(2).map(|procedure| {
                let parameters: Vec<String> = procedure
                    .parameters
                    .iter()
                    .map(|parameter| format!("{} {}", parameter.name, parameter.ty))
                    .collect();
                let steps: Vec<String> = procedure.body.iter().map(step).collect();
                let serializable = if procedure.serializable { " serializable" } else { "" };
                let place = application
                    .sources
                    .place(procedure.body.first().map_or(procedure.span, |step| step.span));
                format!(
                    "{}({}){serializable} at {place}: {}",
                    procedure.name,
                    parameters.join(", "),
                    steps.join("; ")
                )
            });
            let mut lines: Vec<String> = procedures.collect();
            lines.extend(application.notes.iter().map(|note| show(&application.sources, note)));
            lines
        }
        Err((sources, errors)) => errors.iter().map(|error| show(&sources, error)).collect(),
    };
    assert_eq!(found.join("\n"), expect, "{text}");
}

fn step(step: &crate::bound::Step) -> String {
    use crate::bound::StepKind;
    match &step.kind {
        StepKind::Sql { statement, .. } => print::statement(statement),
        StepKind::Call { procedure, args, targets } => {
            let args: Vec<String> = args.iter().map(print::expr).collect();
            let target = targets.first().map_or("nothing".to_owned(), |target| target.variable.0.to_string());
            format!("call {procedure}({}) to {target}", args.join(", "))
        }
        StepKind::Opaque(step) => format!("opaque {:?} {:?}", step.reads, step.writes),
        other => format!("{other:?}"),
    }
}

#[test]
fn sqlc() {
    check(
        "query.sql",
        "-- name: GetAccount :one\nSELECT id FROM account WHERE id = $1;\n\n/* name: ListAccounts :many */\nselect sqlc.embed(account) from account where owner = sqlc.arg('who') and balance > @least::numeric;\n",
        "GetAccount(p1 bigint) at query.sql:2:1: select #0.0 from account#0 where (#0.0 Equal $1)\n\
         ListAccounts(who text, least numeric) at query.sql:5:1: select #0.0, #0.1, #0.2, #0.3 from account#0 where \
         and((#0.1 Equal $1), (#0.2 Greater $2))",
    );
    check(
        "query.sql",
        "-- name: a :exec\nupdate account set balance = balance + $2 where idd = $1;",
        "query.sql:2:49 42703 column \"idd\" does not exist",
    );
    check(
        "query.sql",
        "-- name: a :exec\ndelete from move;\n-- name: a :exec\ndelete from move;",
        "query.sql:3:1 42723 there is another transaction named a",
    );
}

#[test]
fn transactions() {
    check(
        "t.sql",
        "create table more (id int primary key);\n-- transaction: transfer(source, target bigint, amount) serializable\nbegin;\n\
         update account set balance = balance - :amount where id = :source;\nupdate account set balance = balance + :amount where id=:target;\n\
         insert into move (source, target, amount) values (:source, :target, :amount);\ninsert into more values (1);\ncommit;\n",
        "transfer(source bigint, target bigint, amount numeric) serializable at t.sql:4:1: \
         update 0#0 set 2 = ((#0.2 Subtract $3))::numeric(12,2) where (#0.0 Equal $1); \
         update 0#0 set 2 = ((#0.2 Add $3))::numeric(12,2) where (#0.0 Equal $2); \
         insert 1#0 [1, 2, 3] values ($1, $2, ($3)::numeric(12,2)) defaults 0 = nextval(0); \
         insert 2#0 [0] values (1)",
    );
    check(
        "t.sql",
        "-- transaction: t(a)\nselect 'x:y', owner[1:2] from account where id = :b",
        "t.sql:2:50 42P02 t has no parameter b",
    );
    check(
        "t.sql",
        "-- transaction: t(w)\ncall note(:w, null);\nlisten account;\nmerge into account using move on true when matched then delete;",
        "t(w text) at t.sql:2:1: call 1($1) to 1; opaque [TableId(0)] []; opaque [TableId(0), TableId(1)] [TableId(0), TableId(1)]\n\
         t.sql:3:1 0A000 LISTEN here is not supported\n\
         t.sql:4:1 0A000 MERGE is not supported",
    );
    check(
        "t.sql",
        "-- transaction: t(w)\nselect * from twice(:w)",
        "t(w bigint) at t.sql:2:1: call 0($1) to nothing",
    );
    check("t.sql", "-- transaction:\nselect 1", "t.sql:1:1 42601 the name of the transaction is missing");
    check(
        "t.sql",
        "-- transaction: t(k unknown_type)\nselect 1",
        "t.sql:1:21 42704 type \"unknown_type\" does not exist",
    );
}

#[test]
fn sqlx() {
    check(
        ".sqlx/query-0123456789abcdef.json",
        "{\"db_name\": \"PostgreSQL\", \"query\": \"UPDATE account\\n  SET at = $2\\n WHERE id = $1\", \"describe\": {\"columns\": [], \"parameters\": {\"Left\": [\"Int8\", \"Timestamptz\"]}}, \"hash\": \"0123456789abcdef\"}",
        "query_0123456789ab(p1 bigint, p2 timestamp with time zone) at .sqlx/query-0123456789abcdef.json (query):1:1: \
         update 0#0 set 3 = $2 where (#0.0 Equal $1)",
    );
    check(
        "q.json",
        "{\"db_name\": \"MySQL\", \"query\": \"x\"}",
        "q.json:1:1 0A000 a query for MySQL is not supported",
    );
    check("q.json", "{", "q.json:1:1 42601 EOF while parsing an object at line 1 column 1");
    check("q.json", "{}", "q.json:1:1 42601 there is no \"query\" in it");
}
