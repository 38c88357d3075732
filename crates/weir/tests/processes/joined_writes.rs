//! UPDATE … FROM and DELETE … USING, of rows that live together and of rows that do not: they say and do what they do on PostgreSQL,
//! on one shard and on three.

use crate::alone::Alone;
use crate::answers;
use crate::eventually::until_locked;
use postgres::{Client as Driver, NoTls, SimpleQueryMessage};
use weir_bench::postgres::Server as Postgres;

/// Tasks live by their tenants, as tenants do; people live elsewhere.
const SCHEMA: &str = "
CREATE TABLE tenant (id integer PRIMARY KEY, name varchar(10), plan text NOT NULL DEFAULT 'free', seats integer CHECK (seats >= 0));
CREATE TABLE task (tenant integer, id integer, person integer, hours numeric(6,2), state text, tags text[], PRIMARY KEY (tenant, id));
COMMENT ON TABLE task IS 'weir: partition by (tenant)';
CREATE TABLE person (id integer PRIMARY KEY, name varchar(12) NOT NULL, rate numeric(6,2), tags text[], since date, extra jsonb);
CREATE TABLE log (id serial PRIMARY KEY, what text);
CREATE VIEW busy AS SELECT person AS id, count(*) AS tasks FROM task GROUP BY person;
INSERT INTO tenant SELECT i, 'tenant ' || i, CASE i % 2 WHEN 0 THEN 'team' ELSE 'free' END, i FROM generate_series(1, 7) i;
INSERT INTO person SELECT i, 'p' || i, i * 10, ARRAY['a', i::text], DATE '2026-01-01' + i, '{\"k\": 1}' FROM generate_series(1, 9) i;
INSERT INTO task SELECT t, i, (t * i) % 11, t + i, 'open', NULL FROM generate_series(1, 7) t, generate_series(1, 3) i;
";

const SCRIPT: &str = "
a: UPDATE task SET state = tenant.plan FROM tenant WHERE tenant.id = task.tenant AND tenant.plan = 'team'
a: WITH u AS (UPDATE task k SET hours = k.hours + t.seats FROM tenant t WHERE t.id = k.tenant RETURNING k.tenant, k.id, k.hours, t.name) SELECT * FROM u ORDER BY 1, 2
a: UPDATE task k SET state = p.name FROM person p WHERE p.id = k.person AND p.rate > 50
a: SELECT tenant, id, state FROM task ORDER BY 1, 2
a: WITH u AS (UPDATE task k SET tags = p.tags FROM person AS p WHERE p.id = k.person AND k.tenant < 4 RETURNING k.*, p.*) SELECT * FROM u ORDER BY 1, 2
a: BEGIN
a: UPDATE person SET rate = 7 WHERE id = 2
a: UPDATE task SET hours = rate FROM person WHERE person.id = task.person AND rate < 10
a: SELECT tenant, id, hours FROM task WHERE hours = 7 ORDER BY 1, 2
a: DELETE FROM task USING person p WHERE p.id = task.person
a: SELECT count(*) FROM task
a: ROLLBACK
a: SELECT count(*), sum(hours) FROM task
a: BEGIN
a: SAVEPOINT s
a: UPDATE tenant SET seats = seats - p.rate FROM person p WHERE p.id = tenant.id AND p.id = 3
a: ROLLBACK TO s
a: UPDATE tenant SET seats = seats + p.id FROM person p WHERE p.id = tenant.id
a: COMMIT
a: SELECT id, seats FROM tenant ORDER BY id
a: PREPARE u (numeric, text) AS UPDATE task k SET state = $2 || p.name FROM person p WHERE p.id = k.person AND p.rate = $1 AND k.tenant <> 3
a: EXECUTE u (30, 'x')
a: EXECUTE u (40, 'y')
a: EXECUTE u (41, 'y')
a: SELECT tenant, id, state FROM task WHERE state LIKE 'x%' OR state LIKE 'y%' ORDER BY 1, 2
a: PREPARE d (int) AS DELETE FROM task WHERE person NOT IN (SELECT id FROM person WHERE id <> $1)
a: EXECUTE d (5)
a: SELECT count(*) FROM task
a: UPDATE person p SET rate = p.rate + x.n FROM (SELECT person, count(*) AS n FROM task GROUP BY person) x WHERE x.person = p.id
a: SELECT id, rate FROM person ORDER BY id
a: UPDATE person SET extra = NULL FROM task k, tenant t WHERE t.id = k.tenant AND k.person = person.id AND t.plan = 'free'
a: SELECT id FROM person WHERE extra IS NULL ORDER BY id
a: UPDATE person SET rate = 0 WHERE id IN (SELECT person FROM task WHERE hours > 15)
a: UPDATE tenant SET seats = 0 - p.id FROM person p WHERE p.id = tenant.id AND p.name = 'p2'
a: SELECT count(*) FROM tenant WHERE seats < 0
a: WITH gone AS (DELETE FROM task USING person p WHERE p.id = task.person AND p.id IN (1, 2) RETURNING p.name) INSERT INTO log (what) SELECT name FROM gone
a: SELECT what, count(*) FROM log GROUP BY 1 ORDER BY 1
a: WITH p AS (SELECT id FROM person WHERE rate = 0), u AS (UPDATE task SET state = 'p' FROM p WHERE p.id = task.person RETURNING task.tenant) SELECT count(*) > 0 AS some FROM u
a: DELETE FROM tenant WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.tenant = tenant.id)
a: DELETE FROM person p WHERE NOT EXISTS (SELECT 1 FROM task k WHERE k.person = p.id)
a: SELECT id FROM person ORDER BY id
a: UPDATE task SET nothing = 1 FROM person
a: DELETE FROM task USING nowhere WHERE true
";

#[test]
fn they_do_what_they_do_on_postgresql() {
    for shards in [1, 3] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (SCHEMA, SCRIPT), &what);
    }
}

fn filled(url: &str) -> Driver {
    let mut driver = Driver::connect(url, NoTls).unwrap();
    driver.batch_execute(SCHEMA).unwrap();
    driver
}

#[test]
fn drivers_prepare_them() {
    let (weir, postgres) = (Alone::start(3), Postgres::start().unwrap());
    let [own, expected] = [weir.url(), postgres.connection_string()].map(|url| {
        let mut driver = filled(&url);
        let sql = "UPDATE task AS k SET hours = $1::int4 + p.rate FROM person p WHERE p.id = k.person AND p.name = $2 \
                   RETURNING k.tenant, k.id, k.state, p.since, $3::text AS said";
        let statement = driver.prepare(sql).unwrap();
        let mut told: Vec<String> = statement
            .columns()
            .iter()
            .map(|column| format!("{} {}", column.name(), column.type_()))
            .collect();
        for (more, name) in [(1, "p2"), (2, "p3"), (3, "nobody")] {
            let mut rows: Vec<String> = driver
                .query(&statement, &[&more, &name, &"so"])
                .unwrap()
                .iter()
                .map(|row| format!("{:?}", (row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, String>(4))))
                .collect();
            rows.sort();
            told.extend(rows);
        }
        let mut transaction = driver.transaction().unwrap();
        let sql = "DELETE FROM task USING person WHERE person.id = task.person AND person.id = ANY ($1)";
        told.push(transaction.execute(sql, &[&vec![4, 5]]).unwrap().to_string());
        transaction.rollback().unwrap();
        told.push(driver.execute(sql, &[&vec![4, 5, 6]]).unwrap().to_string());
        told
    });
    assert_eq!(own, expected, "PostgreSQL on the right");
}

/// After waiting for a row, a statement tests its conditions again, with the rows of the other tables that it has read.
#[test]
fn conditions_are_asked_of_the_row_as_it_is_then() {
    let (weir, postgres) = (Alone::start(3), Postgres::start().unwrap());
    for sql in [
        "UPDATE task k SET state = 'seen ' || p.name, hours = k.hours + 1 FROM person p WHERE p.id = k.person AND k.state = 'open' AND k.tenant = 1",
        "UPDATE task k SET state = 'seen', hours = k.hours + t.seats FROM tenant t WHERE t.id = k.tenant AND k.hours < 10",
    ] {
        let [own, expected] = [weir.url(), postgres.connection_string()].map(|url| {
            let mut holder = Driver::connect(&url, NoTls).unwrap();
            let drop = "DROP VIEW IF EXISTS busy; DROP TABLE IF EXISTS tenant, task, person, log";
            holder.batch_execute(drop).unwrap();
            holder.batch_execute(SCHEMA).unwrap();
            holder.batch_execute("BEGIN").unwrap();
            holder
                .batch_execute("UPDATE task SET state = 'mine', hours = 50 WHERE tenant = 1 AND id = 1")
                .unwrap();
            holder.batch_execute("UPDATE task SET hours = 5 WHERE tenant = 1 AND id = 2").unwrap();
            let other = std::thread::spawn({
                let url = url.clone();
                move || Driver::connect(&url, NoTls).unwrap().execute(sql, &[]).unwrap()
            });
            until_locked(&mut Driver::connect(&url, NoTls).unwrap(), 1);
            holder.batch_execute("COMMIT").unwrap();
            let count = other.join().unwrap();
            let rows =
                holder.query("SELECT tenant, id, state, hours::text FROM task ORDER BY 1, 2", &[]).unwrap();
            let row = |row: &postgres::Row| {
                let hours = row.get::<_, String>(3);
                format!("{:?} {hours}", (row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, &str>(2)))
            };
            (count, rows.iter().map(row).collect::<Vec<_>>())
        });
        assert_eq!(own, expected, "{sql}: PostgreSQL on the right");
    }
}

#[test]
fn what_they_take_is_explained() {
    let weir = Alone::start(3);
    let mut driver = filled(&weir.url());
    let mut lines = |sql: &str| -> Vec<String> {
        let said = driver.simple_query(&format!("EXPLAIN (COORDINATION) {sql}")).unwrap();
        let line = |one: &SimpleQueryMessage| match one {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        said.iter().filter_map(line).collect()
    };
    let together = lines("UPDATE task SET state = 'x' FROM tenant WHERE tenant.id = task.tenant");
    assert!(together.iter().any(|line| line.contains("Shards: 0, 1, 2 of 3")), "{together:#?}");
    assert!(!together.iter().any(|line| line.contains("First:")), "{together:#?}");
    let apart =
        lines("UPDATE task SET state = 'x' FROM person WHERE person.id = task.person AND task.tenant = 2");
    let first = apart.iter().position(|line| line.contains("First: a query")).expect("it reads first");
    assert_eq!(apart[first + 1], "    Shards: 0, 1, 2 of 3", "{apart:#?}");
    assert!(apart[1..first].iter().any(|line| line == "  Shards: 2 of 3"), "{apart:#?}");
    let error =
        driver.batch_execute("EXPLAIN ANALYZE DELETE FROM task USING person WHERE person.id = task.person");
    assert_eq!(error.unwrap_err().code().map(|code| code.code()), Some("0A000"));
}

#[test]
fn what_cannot_be_read_apart_is_refused_with_what_to_write_instead() {
    let weir = Alone::start(3);
    let mut driver = filled(&weir.url());
    for sql in [
        "UPDATE person SET rate = busy.tasks FROM busy WHERE busy.id = person.id",
        "DELETE FROM task USING person p WHERE p.id = task.person AND random() < 2",
    ] {
        let error = driver.batch_execute(sql).unwrap_err();
        let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
        assert_eq!(error.code().code(), "0A000", "{sql}: {error}");
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("FOR UPDATE"), "{sql}: {hint}");
    }
    assert_eq!(driver.query_one("SELECT count(*) FROM task", &[]).unwrap().get::<_, i64>(0), 21);
}
