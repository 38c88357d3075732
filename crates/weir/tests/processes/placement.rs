//! Tables that no procedure places: children live beside their parents, everything is as on PostgreSQL, and what that costs is counted.

use crate::alone::Alone;
use crate::conversation::{answer, compare};
use postgres::SimpleQueryMessage;

/// A shop as an application defines it that says nothing of shards.
const TABLES: &str = "
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE purchase (id serial PRIMARY KEY, customer int NOT NULL REFERENCES customer, total int NOT NULL DEFAULT 0);
CREATE TABLE address (customer int REFERENCES customer, kind text, line text, PRIMARY KEY (customer, kind));
CREATE TABLE visit (id int PRIMARY KEY, customer int NOT NULL, kind text NOT NULL, FOREIGN KEY (customer, kind) REFERENCES address);
CREATE TABLE product (id int PRIMARY KEY);
CREATE TABLE line (purchase int REFERENCES purchase, number int, product int NOT NULL REFERENCES product, PRIMARY KEY (purchase, number));
CREATE TABLE wish (customer int REFERENCES customer, product int REFERENCES product, PRIMARY KEY (customer, product));
";

/// The lines of a plan.
fn explained(driver: &mut postgres::Client, text: &str) -> Vec<String> {
    let said = driver.simple_query(&format!("EXPLAIN (COORDINATION) {text}"));
    let said = said.unwrap_or_else(|why| panic!("{text}: {why:?}"));
    let line = |one: SimpleQueryMessage| match one {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().trim().to_owned()),
        _ => None,
    };
    said.into_iter().filter_map(line).collect()
}

#[test]
fn children_live_beside_their_parents() {
    let weir = Alone::start(4);
    let mut driver = weir.driver();
    driver.batch_execute(TABLES).unwrap();
    let placed =
        answer(&mut driver, "SELECT relid::regclass::text, columns, placed FROM weir_placement ORDER BY 1");
    for expected in [
        "customer|{id}|by (id), the primary key",
        "purchase|{customer}|by (customer), beside customer by foreign key purchase_customer_fkey",
        "address|{customer}|by (customer), beside customer by foreign key address_customer_fkey",
        "visit|{customer}|by (customer), beside address by foreign key visit_customer_kind_fkey",
        "line|{purchase}|by (purchase), beside the key of purchase by foreign key line_purchase_fkey",
        "wish|{customer,product}|by (customer, product), the primary key",
    ] {
        assert!(placed.contains(expected), "{expected} in {placed}");
    }
    // One message and its answer: the foreign key costs none.
    let one_message = ["Round Trips: 1", "Messages: 2"];
    let mut check = |text: &str, expected: &[&str]| {
        let lines = explained(&mut driver, text);
        for expected in expected {
            assert!(lines.iter().any(|line| line == expected), "{text}: {expected} in {lines:#?}");
        }
    };
    check("INSERT INTO purchase (customer) VALUES (7)", &one_message);
    check("INSERT INTO address VALUES (7, 'home', 'x')", &one_message);
    check(
        "INSERT INTO visit VALUES (7, 7, 'home')",
        &["Rows of visit: by (customer), beside address by foreign key visit_customer_kind_fkey"],
    );
    check("UPDATE address SET line = 'y' WHERE customer = 7", &one_message);
    check(
        "SELECT * FROM customer c JOIN purchase p ON p.customer = c.id WHERE c.id = 7",
        &[
            "Shards: 3 of 4",
            "Round Trips: 1",
            "Rows of purchase: by (customer), beside customer by foreign key purchase_customer_fkey",
        ],
    );
    check(
        "SELECT * FROM customer c JOIN address a ON a.customer = c.id JOIN visit v ON v.customer = c.id WHERE c.id = 7",
        &["Shards: 3 of 4"],
    );
    check("INSERT INTO line VALUES (7, 1, 7)", &["Shards: 3 of 4", "Round Trips: 1"]);
    check("DELETE FROM address WHERE customer = 7 AND kind = 'home'", &["Shards: 3 of 4"]);
    // What the primary key does not say costs all shards.
    check("SELECT * FROM purchase WHERE id = 7", &["Shards: 3 of 4", "Round Trips: 2"]);
    check("UPDATE purchase SET total = 1 WHERE id = 7", &["Shards: 0, 1, 2, 3 of 4; shard 0 decides"]);
}

#[test]
fn rows_stay_where_they_are() {
    let weir = Alone::start(4);
    let mut driver = weir.driver();
    driver.batch_execute(TABLES).unwrap();
    driver
        .batch_execute(
            "CREATE TABLE note (id int PRIMARY KEY, customer int NOT NULL);
             INSERT INTO customer SELECT n, 'c' || n FROM generate_series(1, 20) n;
             INSERT INTO note SELECT n, n FROM generate_series(1, 20) n;
             ALTER TABLE note ADD FOREIGN KEY (customer) REFERENCES customer;
             COMMENT ON TABLE address IS 'weir: partition by (kind)';
             INSERT INTO address SELECT n, 'k' || n, '' FROM generate_series(1, 20) n;
             COMMENT ON TABLE address IS 'addresses';",
        )
        .unwrap();
    let mut placed = |table: &str| {
        let text = format!("SELECT columns FROM weir_placement WHERE relid = '{table}'::regclass");
        answer(&mut driver, &text)
    };
    assert!(placed("note").contains("{id}"), "{}", placed("note"));
    assert!(placed("address").contains("{kind}"), "{}", placed("address"));
    let count =
        "SELECT (SELECT count(*) FROM note WHERE id = 7), (SELECT count(*) FROM address WHERE kind = 'k7')";
    assert!(answer(&mut driver, count).contains("1|1"), "{}", answer(&mut driver, count));
}

/// As pg_dump and migrations write them: keys behind the tables, in one transaction or each by itself. A table that has no rows is placed anew.
#[test]
fn keys_that_come_before_rows_place_a_table() {
    const TABLES: &str = "
        CREATE TABLE customer (id int NOT NULL);
        CREATE TABLE purchase (code text UNIQUE, id int NOT NULL, customer int NOT NULL);
        CREATE TABLE line (purchase int NOT NULL, number int NOT NULL, customer int NOT NULL);
        CREATE TABLE said (id int PRIMARY KEY, customer int NOT NULL);
        COMMENT ON TABLE said IS 'weir: partition by (id)';
        CREATE TABLE full_one (id int PRIMARY KEY, customer int NOT NULL);
    ";
    const KEYS: &str = "
        ALTER TABLE ONLY customer ADD CONSTRAINT customer_pkey PRIMARY KEY (id);
        ALTER TABLE ONLY purchase ADD CONSTRAINT purchase_pkey PRIMARY KEY (id);
        ALTER TABLE ONLY line ADD CONSTRAINT line_pkey PRIMARY KEY (purchase, number);
        INSERT INTO customer SELECT n FROM generate_series(1, 20) n;
        INSERT INTO full_one SELECT n, n FROM generate_series(1, 20) n;
        ALTER TABLE ONLY purchase ADD CONSTRAINT purchase_customer_fkey FOREIGN KEY (customer) REFERENCES customer(id);
        ALTER TABLE ONLY line ADD CONSTRAINT line_purchase_fkey FOREIGN KEY (purchase) REFERENCES purchase(id);
        ALTER TABLE ONLY said ADD CONSTRAINT said_customer_fkey FOREIGN KEY (customer) REFERENCES customer(id);
        ALTER TABLE ONLY full_one ADD CONSTRAINT full_customer_fkey FOREIGN KEY (customer) REFERENCES customer(id);
    ";
    for is_one_transaction in [false, true] {
        let weir = Alone::start(4);
        let mut driver = weir.driver();
        match is_one_transaction {
            true => driver.batch_execute(&format!("{TABLES}{KEYS}")).unwrap(),
            false => {
                TABLES.split(';').chain(KEYS.split(';')).for_each(|one| driver.batch_execute(one).unwrap());
            }
        }
        let placed = answer(
            &mut driver,
            "SELECT relid::regclass::text, columns, placed FROM weir_placement ORDER BY 1",
        );
        for expected in [
            "purchase|{customer}|by (customer), beside customer by foreign key purchase_customer_fkey",
            "line|{purchase}|by (purchase), beside the key of purchase by foreign key line_purchase_fkey",
            "said|{id}|by (id), as its comment says",
            "full_one|{id}|by (id), the primary key",
        ] {
            assert!(placed.contains(expected), "{is_one_transaction}: {expected} in {placed}");
        }
        driver
            .batch_execute(
                "INSERT INTO purchase SELECT 'p' || n, n, 1 + n % 20 FROM generate_series(1, 40) n;
                 INSERT INTO line SELECT n, 1, 1 FROM generate_series(1, 40) n",
            )
            .unwrap();
        let wrong = driver.batch_execute("INSERT INTO line VALUES (99, 1, 1)").unwrap_err();
        assert_eq!(wrong.code().map(|code| code.code()), Some("23503"));
        let wrong = driver.batch_execute("INSERT INTO purchase VALUES ('p7', 41, 1)").unwrap_err();
        assert_eq!(wrong.code().map(|code| code.code()), Some("23505"));
        let joined = "SELECT count(*) FROM customer c JOIN purchase p ON p.customer = c.id JOIN line l ON l.purchase = p.id";
        assert!(answer(&mut driver, joined).contains("40"));
    }
}

const CONVERSATION: &str = r#"
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL)
CREATE TABLE purchase (id serial PRIMARY KEY, customer int NOT NULL REFERENCES customer ON UPDATE CASCADE ON DELETE CASCADE, code text UNIQUE, total int NOT NULL DEFAULT 0)
CREATE TABLE line (id int PRIMARY KEY, purchase int NOT NULL REFERENCES purchase ON DELETE CASCADE, n int NOT NULL)
CREATE TABLE address (customer int REFERENCES customer ON UPDATE CASCADE, kind text, PRIMARY KEY (customer, kind))
CREATE TABLE visit (id uuid PRIMARY KEY, customer int NOT NULL, kind text NOT NULL, FOREIGN KEY (customer, kind) REFERENCES address ON UPDATE CASCADE)
CREATE TABLE tenant_row (tenant int, id serial, v int, PRIMARY KEY (tenant, id))
INSERT INTO customer SELECT n, 'c' || n FROM generate_series(1, 12) n
INSERT INTO purchase (id, customer, code) SELECT n, 1 + n % 12, 'p' || n FROM generate_series(1, 30) n
INSERT INTO purchase (id, customer, code) VALUES (31, 3, 'p31'), (32, 4, 'p32'), (33, 4, NULL)
INSERT INTO purchase (id, customer) VALUES (31, 5)
INSERT INTO purchase (id, customer, code) VALUES (34, 5, 'p1')
INSERT INTO purchase (id, customer) VALUES (35, 99)
INSERT INTO purchase (id, customer) VALUES (35, NULL)
INSERT INTO line SELECT n, 1 + n % 33, n FROM generate_series(1, 60) n
INSERT INTO line VALUES (61, 99, 1)
INSERT INTO address VALUES (1, 'home'), (1, 'work'), (2, 'home')
INSERT INTO visit VALUES ('00000000-0000-0000-0000-000000000001', 1, 'home'), ('00000000-0000-0000-0000-000000000002', 2, 'home')
INSERT INTO visit VALUES ('00000000-0000-0000-0000-000000000001', 2, 'home')
INSERT INTO visit VALUES ('00000000-0000-0000-0000-000000000003', 2, 'work')
INSERT INTO tenant_row (tenant, v) VALUES (1, 1), (2, 2), (1, 3)
SELECT tenant, v FROM tenant_row ORDER BY 1, 2
INSERT INTO purchase (id, customer, code) VALUES (1, 3, 'x') ON CONFLICT (id) DO UPDATE SET total = purchase.total + 1 RETURNING id, customer, total
INSERT INTO purchase (id, customer, code) VALUES (1, 3, 'x') ON CONFLICT DO NOTHING
UPDATE purchase SET total = total + 1 WHERE id = 7
UPDATE purchase SET customer = 9 WHERE id = 7 RETURNING id, customer
UPDATE purchase SET customer = 99 WHERE id = 7
UPDATE purchase SET customer = customer % 12 + 1
UPDATE purchase SET id = id + 100 WHERE id > 40
SELECT id, customer, code, total FROM purchase ORDER BY id
SELECT c.id, count(*), sum(p.total) FROM customer c JOIN purchase p ON p.customer = c.id GROUP BY c.id ORDER BY c.id
SELECT c.id, p.id, l.n FROM customer c JOIN purchase p ON p.customer = c.id JOIN line l ON l.purchase = p.id WHERE c.id = 7 ORDER BY 1, 2, 3
DELETE FROM purchase WHERE id = 9
SELECT count(*) FROM line
DELETE FROM address WHERE customer = 1 AND kind = 'home'
UPDATE customer SET id = 100 WHERE id = 1
SELECT * FROM visit ORDER BY id
SELECT id, customer FROM purchase WHERE customer = 100 ORDER BY id
UPDATE address SET kind = 'new' WHERE customer = 2
SELECT * FROM visit ORDER BY id
DELETE FROM customer WHERE id = 5
SELECT count(*) FROM purchase
SELECT count(*) FROM line
BEGIN
INSERT INTO customer VALUES (50, 'new')
INSERT INTO purchase (id, customer, code) VALUES (500, 50, 'p500')
SAVEPOINT s
INSERT INTO line VALUES (500, 500, 1)
UPDATE purchase SET customer = 6 WHERE id = 500
ROLLBACK TO s
INSERT INTO line VALUES (501, 500, 1)
COMMIT
SELECT c.name, p.code, l.id FROM customer c JOIN purchase p ON p.customer = c.id JOIN line l ON l.purchase = p.id WHERE c.id = 50
CREATE PROCEDURE buy(c int, p int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO purchase (id, customer) VALUES (p, c); INSERT INTO line VALUES (p, p, 1); UPDATE purchase SET total = total + 1 WHERE id = p; END $$
CALL buy(50, 600)
CALL buy(51, 601)
SELECT id, customer, total FROM purchase WHERE id >= 500 ORDER BY id
"#;

#[test]
fn everything_is_as_on_postgresql() {
    compare(CONVERSATION);
}
