//! `--observe`: everything passes through as it is, and is classified.

use postgres::error::SqlState;

use crate::deployment::Deployment;

/// BEGIN goes with the first statement: if it fails, the statement must not run by itself.
#[test]
fn a_transaction_that_cannot_begin_runs_nothing() {
    let deployment = Deployment::start_with(1, "observes", 2_000);
    let mut client = deployment.client(0);
    let wrong = "BEGIN ISOLATION LEVEL SNAPSHOT";
    let failed = client.batch_execute(&format!("{wrong}; INSERT INTO log VALUES (1, 'text')")).unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::SYNTAX_ERROR), "{failed}");
    client.batch_execute("ROLLBACK").unwrap();
    let insert = client.prepare("INSERT INTO log VALUES ($1, $2)").unwrap();
    client.batch_execute(wrong).unwrap();
    let failed = client.execute(&insert, &[&2_i64, &"prepared"]).unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::SYNTAX_ERROR), "{failed}");
    client.batch_execute("ROLLBACK").unwrap();
    client.execute(&insert, &[&3_i64, &"by itself"]).unwrap();
    let ids: i64 = deployment.direct(0).query_one("SELECT sum(id)::bigint FROM log", &[]).unwrap().get(0);
    assert_eq!(ids, 3);
}

#[test]
fn an_observer_refuses_nothing_and_says_how_traffic_classifies() {
    let deployment = Deployment::start_with(1, "observes", 2_000);
    let buying = [
        "BEGIN",
        "SELECT item, n FROM cart WHERE key = 4 ORDER BY item",
        "UPDATE stock SET n = n - 2 WHERE id = 1",
        "COMMIT",
    ];
    deployment.psql(0, "shop", &buying).unwrap();
    deployment.psql(0, "shop", &["SELECT add_item(4, 1, 1)"]).unwrap();
    deployment.psql(0, "shop", &["ALTER TABLE stock ADD c int", "DELETE FROM log"]).unwrap();
    let level = deployment.psql(0, "shop", &["SHOW transaction_isolation"]).unwrap();
    assert_eq!(level, "read committed", "the level is the server's");
    let observed = deployment.psql(0, "conveyor", &["SHOW OBSERVED"]).unwrap();
    for expected in ["global|buy|1", "local||1", "uncovered|DELETE FROM log|1"] {
        assert!(observed.contains(expected), "{expected} in {observed}");
    }
    // Nothing of the protocol is in the database.
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'weir_conveyor'";
    let count: i64 = deployment.direct(0).query_one(schemas, &[]).unwrap().get(0);
    assert_eq!(count, 0);
}
