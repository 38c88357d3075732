//! Rows that statements name by their primary keys: what contention is measured by (docs/internals/cat.md).

use std::sync::Arc;

use weir_types::value::Array;
use weir_types::{SqlType, Value};

use crate::calls::{application, program};

const SQL: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, owner text, balance bigint NOT NULL);
    CREATE TABLE line (account_id integer, number integer, amount bigint, PRIMARY KEY (account_id, number));
    CREATE PROCEDURE pay(payer integer, payee integer, amount bigint) LANGUAGE sql AS $$
        UPDATE account SET balance = balance - amount WHERE id = payer;
        UPDATE account SET balance = balance + amount WHERE id = payee;
        SELECT balance FROM account WHERE id = payer;
    $$;
    CREATE PROCEDURE correct(account integer, which integer) LANGUAGE plpgsql AS $$
        BEGIN
            IF which > 3 THEN
                DELETE FROM line WHERE account_id = account AND number = which;
            END IF;
        END $$;
    CREATE PROCEDURE rename(old text) LANGUAGE sql AS $$ UPDATE account SET owner = 'x' WHERE owner = old $$;
    CREATE PROCEDURE close(accounts integer[]) LANGUAGE plpgsql AS $$
        DECLARE one integer;
        BEGIN
            FOREACH one IN ARRAY accounts LOOP
                UPDATE account SET balance = 0 WHERE id = one;
            END LOOP;
        END $$;
    CREATE PROCEDURE strike(accounts integer[], numbers integer[]) LANGUAGE plpgsql AS $$
        BEGIN
            FOR i IN 1 .. cardinality(accounts) LOOP
                DELETE FROM line WHERE account_id = accounts[i] AND number = numbers[i];
            END LOOP;
        END $$;
";

/// Table and key of each row, by shards.
#[track_caller]
fn check(procedure: usize, args: &[Value], expected: &[(u32, &[i64])]) {
    let application = application(SQL);
    for shards in [1, 3] {
        let mut found = Vec::new();
        program(&application, shards).procedures[procedure].each_accessed_row(args, &mut |key| {
            found.push((key.table.0, key.values.to_vec()));
        });
        let expected: Vec<(u32, Vec<Value>)> = expected
            .iter()
            .map(|(table, key)| (*table, key.iter().map(|value| Value::Int(*value)).collect()))
            .collect();
        assert_eq!(found, expected, "{shards} shards");
    }
}

#[test]
fn keys_are_found_from_arguments() {
    let [one, two, five] = [1, 2, 5].map(Value::Int);
    check(0, &[one.clone(), two.clone(), five.clone()], &[(0, &[1]), (0, &[2]), (0, &[1])]);
    // A branch counts as if it were taken.
    check(1, &[one.clone(), two.clone()], &[(1, &[1, 2])]);
    // NULL names no row.
    check(0, &[one.clone(), Value::Null, five.clone()], &[(0, &[1]), (0, &[1])]);
    // Another column names no key.
    check(2, &[Value::text("a")], &[]);
}

#[test]
fn each_element_of_an_array_is_a_row() {
    let values = vec![Value::Int(1), Value::Int(2)];
    let array = Value::Array(Arc::new(Array { element: SqlType::Int4, values }));
    check(3, std::slice::from_ref(&array), &[(0, &[1]), (0, &[2])]);
    // Elements of two arrays go together, and are not told apart.
    check(4, &[array.clone(), array], &[]);
}
