//! Tables that every shard has a copy of are written by everybody, as tables on PostgreSQL are: on one shard and on several, after a kill, and
//! by several clients at once.

use std::thread;

use crate::alone::Alone;
use crate::conversation::{answer, compare};

const CONVERSATION: &str = r#"
CREATE TABLE country (id serial PRIMARY KEY, code text NOT NULL UNIQUE, name text, since timestamptz DEFAULT now(), token uuid DEFAULT gen_random_uuid(), size int CHECK (size > 0))
COMMENT ON TABLE country IS 'weir: replicated'
INSERT INTO country (code, name, size) VALUES ('fr', 'France', 3)
INSERT INTO country (code, name, size) VALUES ('de', 'Germany', 4), ('it', 'Italy', 5), ('es', 'Spain', 6) RETURNING code, name
INSERT INTO country (code, name, size) VALUES ('it', 'Italia', 5)
INSERT INTO country (code, name, size) VALUES ('it', 'Italia', 5) ON CONFLICT (code) DO UPDATE SET name = excluded.name RETURNING name
INSERT INTO country (code, name, size) VALUES ('it', 'Italia', 5) ON CONFLICT DO NOTHING
SELECT count(DISTINCT token), count(DISTINCT since) > 1 FROM country
UPDATE country SET size = size + 1 WHERE code <> 'fr'
UPDATE country SET token = gen_random_uuid(), name = upper(name) WHERE code = 'es' RETURNING name
UPDATE country SET code = 'de' WHERE code = 'es'
DELETE FROM country WHERE code = 'es' RETURNING code, size
SELECT code, name, size FROM country ORDER BY code
CREATE TABLE town (id int PRIMARY KEY, country text REFERENCES country (code) ON UPDATE CASCADE ON DELETE RESTRICT, name text)
INSERT INTO town SELECT n, (ARRAY['fr', 'de', 'it'])[1 + n % 3], 't' || n FROM generate_series(1, 12) n
INSERT INTO town VALUES (20, 'yy', 'nowhere')
UPDATE country SET code = 'dd' WHERE code = 'de'
DELETE FROM country WHERE code = 'it'
DELETE FROM town WHERE country = 'it'
DELETE FROM country WHERE code = 'it'
SELECT t.name, c.name FROM town t JOIN country c ON c.code = t.country ORDER BY t.id
UPDATE town SET name = country.name FROM country WHERE country.code = town.country AND town.id < 4
SELECT name FROM town ORDER BY id
INSERT INTO country (code, name, size) SELECT 'c' || n, 'n' || n, n FROM generate_series(1, 20) n
INSERT INTO country (code, name, size) SELECT 't' || id, name, id FROM town WHERE id < 6
INSERT INTO country (code, name, size) SELECT upper(code), name, size FROM country WHERE size = 1
SELECT code, name, size FROM country ORDER BY code
DELETE FROM country WHERE code LIKE 'c%' OR size > 100
BEGIN
INSERT INTO country (code, name, size) VALUES ('pt', 'Portugal', 7)
UPDATE country SET size = 70 WHERE code = 'pt'
SELECT size FROM country WHERE code = 'pt'
SAVEPOINT s
DELETE FROM country WHERE code = 'pt'
SELECT count(*) FROM country WHERE code = 'pt'
ROLLBACK TO s
INSERT INTO town VALUES (30, 'pt', 'Porto')
COMMIT
BEGIN
DELETE FROM country WHERE size < 70 AND code NOT IN (SELECT country FROM town)
ROLLBACK
SELECT c.code, count(t.id) FROM country c LEFT JOIN town t ON t.country = c.code GROUP BY 1 ORDER BY 1
CREATE TABLE plain (a int CHECK (a < 90), b text)
COMMENT ON TABLE plain IS 'weir: replicated'
INSERT INTO plain VALUES (1, 'x'), (1, 'x'), (2, NULL), (2, NULL)
UPDATE plain SET b = 'y' WHERE a = 2
DELETE FROM plain WHERE a = 1
INSERT INTO plain SELECT a + 1, b FROM plain
SELECT * FROM plain ORDER BY a, b
CREATE PROCEDURE rename_country(c text, n text) LANGUAGE plpgsql AS $$ BEGIN UPDATE country SET name = n WHERE code = c; IF NOT FOUND THEN INSERT INTO country (code, name, size) VALUES (c, n, 1); END IF; UPDATE town SET name = n WHERE country = c; END $$
CALL rename_country('fr', 'La France')
CALL rename_country('nl', 'Nederland')
SELECT code, name FROM country WHERE code IN ('fr', 'nl') ORDER BY code
SELECT count(*) FROM town WHERE name = 'La France'
INSERT INTO plain VALUES (91, 'no')
TRUNCATE plain
SELECT count(*) FROM plain
"#;

#[test]
fn they_are_written_as_on_postgresql() {
    compare(CONVERSATION);
}

/// Rows that join copies of each shard show what each shard has.
#[test]
fn all_shards_have_the_same_rows() {
    const CLIENTS: i32 = 5;
    const ROUNDS: i32 = 20;
    let mut weir = Alone::start(4);
    let mut own = weir.driver();
    own.batch_execute(
        "CREATE TABLE rate (code int PRIMARY KEY, value int NOT NULL, stamp uuid);
         COMMENT ON TABLE rate IS 'weir: replicated';
         CREATE TABLE each_shard (id int PRIMARY KEY, code int);
         INSERT INTO rate SELECT n, 0, gen_random_uuid() FROM generate_series(1, 4) n;
         INSERT INTO each_shard SELECT n, 1 + n % 4 FROM generate_series(1, 64) n",
    )
    .unwrap();
    let drivers: Vec<postgres::Client> = (0..CLIENTS).map(|_| weir.driver()).collect();
    thread::scope(|scope| {
        for (at, mut driver) in (0..).zip(drivers) {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let code = 1 + (at + round) % 4;
                    driver
                        .batch_execute(&format!(
                            "UPDATE rate SET value = value + 1, stamp = gen_random_uuid() WHERE code = {code}"
                        ))
                        .unwrap();
                }
            });
        }
    });
    let check = |own: &mut postgres::Client| {
        assert_eq!(answer(own, "SELECT sum(value) FROM rate"), format!("{} (1)", CLIENTS * ROUNDS));
        let differ = "SELECT code FROM (SELECT e.code, count(DISTINCT r.stamp) AS n, count(DISTINCT r.value) AS m FROM each_shard e \
                      JOIN rate r ON r.code = e.code GROUP BY e.code) AS seen WHERE n <> 1 OR m <> 1";
        assert!(own.query(differ, &[]).unwrap().is_empty());
    };
    check(&mut own);
    weir.kill_and_start_again();
    check(&mut weir.driver());
}
