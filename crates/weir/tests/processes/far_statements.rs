//! Statements that compute for ever at a shard of another process, and every way to end them: nothing stays of them, and the shard
//! goes on.

use std::process::Command;

use crate::endless::{TABLES, cancel, check_unharmed, state, until_active, until_heard};
use crate::eventually::until;
use crate::nodes::Nodes;
use crate::wire::{Wire, query};

/// The node that computes.
const FAR: usize = 1;

const SPINNING: [&str; 9] = [
    "DO $$ DECLARE i int := 0; BEGIN WHILE true LOOP i := (i + 1) % 7; END LOOP; END $$",
    "DO $$ BEGIN FOR i IN 1..2000000000 LOOP END LOOP; END $$",
    "CALL spin()",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT count(*) FROM big a, big b, big c",
    "DO $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM generate_series(1, 1000000000000); END $$",
    "DO $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM big a, big b, big c; END $$",
    "INSERT INTO kept SELECT a.id FROM big a, big b, big c WHERE a.id + b.id + c.id < 0",
    "UPDATE big SET v = (SELECT count(*) FROM generate_series(1, 1000000000000) g WHERE g < big.id)",
];

/// The first node has no shard, so whatever shards compute the other one does.
fn start() -> Nodes {
    let nodes = Nodes::of_tables(&[&[], &[0]], &[]);
    nodes.driver().batch_execute(TABLES).unwrap();
    nodes
}

fn session(nodes: &Nodes) -> Wire {
    Wire::tcp(nodes.door(), "ann", "weir")
}

/// Time that the other node has computed so far, in ticks of 10 ms.
fn computed(nodes: &Nodes) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", nodes.pid(FAR))).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(11).unwrap().parse().unwrap()
}

#[test]
fn what_spins_at_another_node_is_ended() {
    let nodes = start();
    let mut far = 0;
    for text in SPINNING {
        let mut spins = session(&nodes);
        let before = computed(&nodes);
        spins.send(&[query("SET statement_timeout = '300ms'")]);
        spins.hear(1);
        spins.send(&[query(text)]);
        assert_eq!(state(&mut spins), "57014", "statement_timeout: {text}");
        let ticks = computed(&nodes) - before;
        far += usize::from(ticks >= 5);
        spins.send(&[query("SET statement_timeout = 0")]);
        spins.hear(1);
        check_unharmed(&mut nodes.driver(), text);

        spins.send(&[query("BEGIN"), query("INSERT INTO kept VALUES (1)")]);
        spins.hear(2);
        spins.send(&[query(text)]);
        let key = spins.key.clone();
        assert_eq!(
            until_heard(&mut spins, || cancel(nodes.door(), &key)),
            "57014",
            "a cancel request: {text}"
        );
        spins.send(&[query("ROLLBACK"), query("SELECT 1")]);
        spins.hear(2);
        check_unharmed(&mut nodes.driver(), text);

        let pid = i32::from_be_bytes(spins.key[..4].try_into().unwrap());
        spins.send(&[query(text)]);
        let said = until_heard(&mut spins, || {
            let mut other = session(&nodes);
            other.send(&[query(&format!("SELECT pg_terminate_backend({pid})"))]);
            other.hear(1);
        });
        assert_eq!(said, "57P01", "pg_terminate_backend: {text}");
        check_unharmed(&mut nodes.driver(), text);

        // A session that goes leaves nothing behind: the next one comes to run.
        let mut goes = session(&nodes);
        goes.send(&[query(text)]);
        until_active(&mut nodes.driver(), text);
        drop(goes);
        check_unharmed(&mut nodes.driver(), text);
    }
    assert!(far >= 5, "the other node computes: {far}");
}

fn terminate(nodes: &Nodes, node: usize) {
    assert!(Command::new("kill").arg(nodes.pid(node).to_string()).status().unwrap().success());
}

/// A session whose statement the other node computes.
fn spins_far(nodes: &Nodes, text: &str) -> Wire {
    let mut spins = session(nodes);
    let before = computed(nodes);
    spins.send(&[query(text)]);
    until("the other node computes", || computed(nodes) > before + 5);
    spins
}

#[test]
fn what_spins_ends_with_either_node() {
    let mut nodes = start();
    for (round, text) in [SPINNING[2], SPINNING[8]].into_iter().enumerate() {
        let mut spins = spins_far(&nodes, text);
        terminate(&nodes, FAR);
        assert!(nodes.ends(FAR).success());
        assert_eq!(state(&mut spins), "57014", "the node that computes ends: {text}");
        nodes.start_again(FAR);
        nodes.wait_for(FAR, 2 + round);
        check_unharmed(&mut nodes.driver(), text);

        let mut spins = spins_far(&nodes, text);
        terminate(&nodes, 0);
        assert_eq!(state(&mut spins), "57P01", "the node of the session ends: {text}");
        assert!(nodes.ends(0).success());
        nodes.start_again(0);
        nodes.wait_for_door(2 + round);
        check_unharmed(&mut nodes.driver(), text);
    }
}

/// A statement whose outcome nobody can tell fails with 08007 when its time is over, not when the cluster gives up waiting.
#[test]
fn statements_at_a_node_that_is_down_end_in_their_time() {
    let mut nodes = start();
    let mut own = session(&nodes);
    own.send(&[query("CREATE PROCEDURE keep(k bigint) LANGUAGE sql AS $$ INSERT INTO kept VALUES (k) $$")]);
    own.hear(1);
    nodes.kill(FAR);
    own.send(&[query("SET statement_timeout = '300ms'")]);
    own.hear(1);
    for text in
        ["CALL keep(1)", "INSERT INTO kept VALUES (2)", "SELECT count(*) FROM kept", "UPDATE big SET v = 0"]
    {
        own.send(&[query(text)]);
        let said = own.hear(1).join("\n");
        assert!(said.contains("canceling statement due to statement timeout"), "{text}: {said}");
        assert!(said.contains("E 57014") || said.contains("E 08007"), "{text}: {said}");
    }
    own.send(&[query("SET statement_timeout = 0")]);
    own.hear(1);
    nodes.start_again(FAR);
    nodes.wait_for(FAR, 2);
    own.send(&[query("DELETE FROM kept"), query("INSERT INTO kept VALUES (2)")]);
    let said = own.hear(2).join("\n");
    assert!(said.contains("INSERT 0 1"), "{said}");
}
