//! currval and lastval: each session has what sequences have given to it, as PostgreSQL's sessions have.

use crate::answers;

use crate::alone::Alone;
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = "
CREATE TABLE item (id bigserial PRIMARY KEY, name text);
CREATE TABLE line (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item bigint, n integer);
CREATE TABLE placed (town text, id serial, root bigint, PRIMARY KEY (town, id));
CREATE SEQUENCE \"Own\";
CREATE PROCEDURE add_item(of text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item (name) VALUES (of); END $$;
";

/// Several shards give no values that follow each other, so they are compared with what rows have.
const SCRIPT: &str = "
a: SELECT currval('item_id_seq')
a: SELECT lastval()
a: SELECT currval('nobodys')
a: SELECT currval('nobodys') + 1
a: INSERT INTO item (name) VALUES ('one')
a: SELECT currval('item_id_seq') = id, lastval() = id FROM item WHERE name = 'one'
a: SELECT currval('line_id_seq')
b: SELECT currval('item_id_seq')
b: INSERT INTO item (name) VALUES ('two')
b: SELECT currval('item_id_seq') = (SELECT id FROM item WHERE name = 'two') AS same
a: SELECT name FROM item WHERE id = currval('item_id_seq')
a: INSERT INTO line (item, n) VALUES (currval('item_id_seq'), 1), (currval('public.item_id_seq'::regclass), 2)
a: SELECT name, n FROM item JOIN line ON item = item.id ORDER BY n
a: SELECT n FROM line WHERE id = lastval()
a: SELECT n FROM line WHERE id = pg_catalog.currval('line_id_seq')
a: SELECT name FROM item WHERE id = CURRVAL('item_id_seq') AND 'currval(' <> name
a: INSERT INTO item (name) VALUES ('x1'),('x2'),('x3'),('x4'),('x5'),('x6'),('x7'),('x8'),('x9'),('x10')
a: SELECT name FROM item WHERE id = lastval()
a: INSERT INTO placed (town) VALUES ('a'),('b'),('c'),('d'),('e'),('f')
a: SELECT town FROM placed WHERE id = currval('placed_id_seq')
a: INSERT INTO placed (town, root) VALUES ('own', currval('placed_id_seq'))
a: SELECT root = id FROM placed WHERE town = 'own'
a: UPDATE placed SET root = currval('item_id_seq') WHERE town = 'own'
a: SELECT name FROM item JOIN placed ON root = item.id WHERE town = 'own'
a: DELETE FROM item WHERE id = currval('item_id_seq')
a: SELECT count(*) FROM item WHERE name = 'x10'
a: BEGIN
a: INSERT INTO item (name) VALUES ('gone')
a: SELECT name FROM item WHERE id = lastval()
a: ROLLBACK
a: SELECT count(*) FROM item WHERE id = currval('item_id_seq')
a: SELECT nextval('\"Own\"') = currval('\"Own\"')
a: SELECT nextval('\"Own\"') IS NOT NULL
a: SELECT currval('\"Own\"') = lastval()
a: SELECT currval('Own')
a: INSERT INTO item (name) VALUES ('one') ON CONFLICT DO NOTHING
a: SELECT count(*) FROM item WHERE id = lastval()
a: INSERT INTO item (name) VALUES ('by call')
b: CALL add_item('called')
b: SELECT name FROM item WHERE id = currval('item_id_seq')
a: PREPARE p AS INSERT INTO line (item, n) VALUES (currval('item_id_seq'), $1)
a: EXECUTE p (7)
a: SELECT name FROM item JOIN line ON item = item.id WHERE n = 7
a: PREPARE q AS DELETE FROM line WHERE id = currval('line_id_seq')
a: EXECUTE q
a: SELECT count(*) FROM line WHERE n = 7
a: DISCARD SEQUENCES
a: EXECUTE q
a: SELECT lastval()
a: SELECT nextval('\"Own\"') > 0
a: SELECT currval('\"Own\"') = lastval(), 1 AS one
a: DISCARD ALL
a: SELECT currval('\"Own\"')
";

#[test]
fn a_session_has_what_sequences_have_given_to_it() {
    for shards in [1, 3] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (SCHEMA, SCRIPT), &what);
    }
}

#[test]
fn values_are_parameters_for_drivers_too() {
    let weir = Alone::start(1);
    let mut driver = weir.driver();
    driver.batch_execute(SCHEMA).unwrap();
    for name in ["a", "b", "c"] {
        driver.execute("INSERT INTO item (name) VALUES ($1)", &[&name]).unwrap();
        let sql = "INSERT INTO line (n, item) VALUES ($1, currval('item_id_seq')) RETURNING item, lastval()";
        let error = driver.query(sql, &[&1]).unwrap_err();
        assert_eq!(error.code().unwrap().code(), "0A000", "it takes a value itself");
        let sql = "INSERT INTO line (n, item) VALUES ($1, currval('item_id_seq')) RETURNING item";
        let item: i64 = driver.query_one(sql, &[&1]).unwrap().get(0);
        let row = driver.query_one("SELECT id, lastval() FROM item WHERE id = $1", &[&item]).unwrap();
        assert_eq!(row.columns()[1].name(), "lastval");
        assert_ne!(row.get::<_, i64>(0), 0);
        let row = driver.query_one("SELECT name FROM item WHERE id = currval('item_id_seq')", &[]).unwrap();
        assert_eq!(row.get::<_, String>(0), name);
    }
    let error = driver.query("SELECT 1 + currval('item_id' || '_seq')", &[]).unwrap_err();
    assert_eq!(error.code().unwrap().code(), "0A000");
}
