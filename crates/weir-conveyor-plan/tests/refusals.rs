//! Applications that the protocol cannot carry.

use weir_analysis::Weights;
use weir_conveyor_plan::Plan;
use weir_sql::{Reading, Sources};

/// The message about an application.
fn said(schema: &str, transactions: &str) -> String {
    let mut sources = Sources::default();
    sources.add("schema.sql", schema);
    sources.add("transactions.sql", transactions);
    let application = weir_sql::load_with(sources, Reading::Tolerant).unwrap();
    match Plan::of_application(&application, &Weights::default()) {
        Ok(_) => "carried".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_cannot_be_carried_is_refused_with_place_and_remedy() {
    let stock = "CREATE TABLE stock (item int PRIMARY KEY, quantity int NOT NULL);";
    let cases = [
        (stock, "", "there are no transactions"),
        (
            "CREATE TABLE stock (item int, quantity int NOT NULL);",
            "-- transaction: take(item, n)\nUPDATE stock SET quantity = quantity - :n WHERE item = :item;\n\
             -- transaction: total()\nSELECT sum(quantity) FROM stock;\n",
            "schema.sql:1:1: error: global operations write stock, which has no primary key",
        ),
        (
            "CREATE TABLE cart (id int PRIMARY KEY, code int, note int UNIQUE);",
            "-- transaction: renote(id, note)\nUPDATE cart SET note = :note WHERE id = :id;\n\
             -- transaction: recode(code)\nUPDATE cart SET code = code + 1 WHERE code = :code;\n",
            "carried",
        ),
        (
            "CREATE TABLE cart (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL);",
            "-- transaction: create_cart(n)\nINSERT INTO cart (n) VALUES (:n) RETURNING id;\n\
             -- transaction: show(id)\nSELECT n FROM cart WHERE id = :id;\n\
             -- transaction: change(id, n)\nUPDATE cart SET n = :n WHERE id = :id;\n",
            "create_cart makes a random uuid by which others are routed",
        ),
        (
            "CREATE TABLE cart (id bigint PRIMARY KEY, n int NOT NULL); CREATE SEQUENCE ids INCREMENT BY 2;",
            "-- transaction: create_cart(n)\nINSERT INTO cart VALUES (nextval('ids'), :n) RETURNING id;\n\
             -- transaction: show(id)\nSELECT n FROM cart WHERE id = :id;\n",
            "the sequence ids has CYCLE or an increment other than 1",
        ),
    ];
    for (schema, transactions, expected) in cases {
        let said = said(schema, transactions);
        assert!(said.contains(expected), "{said}\n{transactions}");
        assert!(said == "carried" || said.contains("\nhint: "), "{said}");
    }
}

#[test]
fn a_unique_key_that_local_operations_write_beside_global_ones_is_refused() {
    let schema = "CREATE TABLE seat (hall int, seat int, code int NOT NULL, free boolean NOT NULL, PRIMARY KEY (hall, seat), \
                  CONSTRAINT codes_differ UNIQUE (hall, code));";
    let transactions = "-- transaction: recode(hall, seat, code)\nUPDATE seat SET code = :code WHERE hall = :hall AND seat = :seat;\n\
                        -- transaction: take(hall, seat)\nUPDATE seat SET free = false WHERE hall = :hall AND seat = :seat;\n\
                        -- transaction: free_seats()\nSELECT count(*) FROM seat WHERE free;\n";
    let said = said(schema, transactions);
    assert!(
        said.contains("codes_differ on seat is unique beside the primary key, and recode writes"),
        "{said}"
    );
}

#[test]
fn a_folder_without_a_schema_is_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let error = Plan::of_folder(&folder).unwrap_err().to_string();
    assert!(error.contains("no schema.sql in this folder") && error.contains("hint: "), "{error}");
}
