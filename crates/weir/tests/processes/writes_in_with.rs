//! Statements that write in WITH: they say and do what they do on PostgreSQL, on one shard and on three.

use crate::answers;

use crate::alone::Alone;
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = "
CREATE TABLE task (id integer PRIMARY KEY, owner text, hours numeric(6,2), tags text[], made date, extra jsonb);
CREATE TABLE archive (id integer PRIMARY KEY, owner text, hours numeric(6,2));
CREATE TABLE person (id serial PRIMARY KEY, name text UNIQUE);
CREATE TABLE phone (person integer NOT NULL, number text NOT NULL, PRIMARY KEY (person, number));
CREATE TABLE total (owner text PRIMARY KEY, hours numeric NOT NULL);
INSERT INTO task SELECT i, CASE i % 3 WHEN 0 THEN 'ann' WHEN 1 THEN 'bob' END, i * 1.5, ARRAY['a', i::text], DATE '2026-01-01' + i, '{\"k\": 1}' FROM generate_series(1, 12) i;
INSERT INTO total VALUES ('ann', 0), ('bob', 0);
";

const SCRIPT: &str = "
a: WITH moved AS (DELETE FROM task WHERE id IN (1, 2) RETURNING *) INSERT INTO archive SELECT id, owner, hours FROM moved
a: SELECT * FROM archive ORDER BY id
a: WITH moved AS (DELETE FROM task WHERE id > 9 RETURNING id, owner, hours) INSERT INTO archive SELECT * FROM moved WHERE owner IS NOT NULL RETURNING id
a: SELECT count(*) FROM task
a: WITH moved AS (DELETE FROM task WHERE id = 99 RETURNING id, owner, hours) INSERT INTO archive SELECT * FROM moved
a: WITH gone AS (DELETE FROM task WHERE id = 3 RETURNING *) SELECT * FROM gone
a: WITH gone (a, b) AS (DELETE FROM task WHERE id IN (4, 5) RETURNING id, hours) SELECT sum(a), max(b), count(*) FROM gone
a: WITH u AS (UPDATE task SET hours = hours + 1 WHERE owner = 'ann' RETURNING id, hours, made, extra) SELECT * FROM u ORDER BY id
a: WITH p AS (INSERT INTO person (name) VALUES ('carl') RETURNING id, name) INSERT INTO phone SELECT id, '123' FROM p
a: SELECT name, number FROM person JOIN phone ON person = id
a: WITH p AS (INSERT INTO person (name) VALUES ('dora') RETURNING id), q AS (INSERT INTO phone SELECT id, '7' FROM p RETURNING person, number) SELECT number, p.id = q.person AS same FROM p, q
a: WITH p AS (INSERT INTO person (name) VALUES ('carl') ON CONFLICT (name) DO NOTHING RETURNING id) SELECT count(*) FROM p
a: WITH p AS (INSERT INTO person (name) VALUES ('gil') ON CONFLICT (name) DO NOTHING RETURNING id, name) SELECT name, 'new' FROM p UNION ALL SELECT name, 'old' FROM person WHERE name = 'gil'
a: WITH p AS (INSERT INTO person (name) VALUES ('gil') ON CONFLICT (name) DO NOTHING RETURNING id, name) SELECT name, 'new' FROM p UNION ALL SELECT name, 'old' FROM person WHERE name = 'gil' LIMIT 1
a: WITH n AS (SELECT 'hal' AS name), p AS (INSERT INTO person (name) SELECT name FROM n RETURNING id, name) SELECT count(*) FROM p UNION ALL (SELECT count(*) FROM n) UNION ALL SELECT count(*) FROM person, n WHERE person.name = n.name
a: WITH done AS (UPDATE task SET owner = 'eve' WHERE id = 6 RETURNING hours) UPDATE total SET hours = total.hours + 1 WHERE owner = 'ann'
a: SELECT id, owner FROM task ORDER BY id
a: SELECT owner, hours FROM total ORDER BY 1
a: WITH big AS (SELECT id FROM task WHERE hours > 10), gone AS (DELETE FROM task USING big WHERE task.id = big.id RETURNING task.id) SELECT * FROM gone ORDER BY 1
a: WITH a AS (DELETE FROM archive RETURNING *), b AS (SELECT owner, sum(hours) AS hours FROM a WHERE owner IS NOT NULL GROUP BY owner) INSERT INTO total SELECT owner || '!', hours FROM b
a: SELECT * FROM total ORDER BY owner
a: WITH up AS (UPDATE total SET hours = 5 WHERE owner = 'new' RETURNING *) INSERT INTO total SELECT 'new', 5 WHERE NOT EXISTS (SELECT 1 FROM up)
a: WITH up AS (UPDATE total SET hours = 6 WHERE owner = 'new' RETURNING *) INSERT INTO total SELECT 'new', 6 WHERE NOT EXISTS (SELECT 1 FROM up)
a: SELECT hours FROM total WHERE owner = 'new'
a: WITH a AS (DELETE FROM phone) SELECT 1 AS one
a: SELECT count(*) FROM phone
a: WITH a AS (DELETE FROM phone) SELECT * FROM a
a: WITH a AS (INSERT INTO phone VALUES (1, 'x') RETURNING number) INSERT INTO person (name) SELECT NULL FROM a WHERE 1 / 0 = 1
a: SELECT count(*) FROM phone
a: WITH a (x, y, z) AS (DELETE FROM phone RETURNING number) SELECT * FROM a
a: BEGIN
a: WITH a AS (INSERT INTO phone VALUES (1, 'x'), (2, 'y') RETURNING number) SELECT * FROM a ORDER BY 1
a: SAVEPOINT s
a: WITH a AS (INSERT INTO phone VALUES (3, 'z') RETURNING person) INSERT INTO phone SELECT person - 2, 'x' FROM a
a: ROLLBACK TO s
a: SELECT count(*) FROM phone
a: COMMIT
a: SELECT count(*) FROM phone
a: PREPARE p AS WITH a AS (DELETE FROM phone WHERE person = $2 RETURNING number) SELECT number || $1 AS told FROM a
a: EXECUTE p ('!', 1)
a: EXECUTE p ('!', 1)
";

#[test]
fn what_writes_in_with_does_what_it_does_on_postgresql() {
    // On several shards a key has the columns by which rows have their places.
    let of_several = |line: &&str| !line.contains("ON CONFLICT");
    let script: String = SCRIPT.lines().filter(of_several).flat_map(|line| [line, "\n"]).collect();
    for (shards, schema, script) in [(1, SCHEMA, SCRIPT), (3, &SCHEMA.replace(" UNIQUE", ""), &script)] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (schema, script), &what);
    }
}

#[test]
fn drivers_prepare_them() {
    let weir = Alone::start(3);
    let mut driver = weir.driver();
    driver.batch_execute(&SCHEMA.replace(" UNIQUE", "")).unwrap();
    let sql = "WITH p AS (INSERT INTO person (name) VALUES ($2) RETURNING id), q AS (INSERT INTO phone SELECT id, $1 FROM p RETURNING number) \
               SELECT p.id, q.number, $3::date AS day FROM p, q";
    let statement = driver.prepare(sql).unwrap();
    let names: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["id", "number", "day"]);
    for name in ["one", "two"] {
        let row = driver.query_one(&statement, &[&"12", &name, &None::<std::time::SystemTime>]);
        assert!(row.is_err(), "a date is no moment");
        let rows = driver.query(
            "WITH p AS (INSERT INTO person (name) VALUES ($1) RETURNING id, name) SELECT name FROM p",
            &[&name],
        );
        assert_eq!(rows.unwrap()[0].get::<_, String>(0), name);
    }
    let count = "WITH gone AS (DELETE FROM person RETURNING id) INSERT INTO archive (id) SELECT id FROM gone";
    assert_eq!(driver.execute(count, &[]).unwrap(), 2);
}

#[test]
fn what_would_see_what_another_writes_is_refused() {
    let weir = Alone::start(1);
    let mut driver = weir.driver();
    driver.batch_execute(SCHEMA).unwrap();
    for sql in [
        "WITH p AS (INSERT INTO person (name) VALUES ('x') ON CONFLICT DO NOTHING RETURNING id) SELECT id FROM person WHERE id IN (SELECT id FROM p)",
        "WITH a AS (UPDATE task SET hours = 1 WHERE id = 1) UPDATE task SET hours = 2 WHERE id = 1",
        "EXPLAIN WITH a AS (DELETE FROM task RETURNING id) SELECT * FROM a",
    ] {
        let error = driver.batch_execute(sql).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("0A000"), "{sql}: {error}");
    }
    assert_eq!(driver.query_one("SELECT count(*) FROM task", &[]).unwrap().get::<_, i64>(0), 12);
}
