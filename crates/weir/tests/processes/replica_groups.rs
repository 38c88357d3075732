//! Shards as replica groups of three nodes (docs/internals/replica-groups.md): leaders are killed, a disk is emptied, all nodes are killed,
//! while clients of PostgreSQL's protocol work. Every acknowledged transaction is there afterwards, none is there by half, no money is lost.
//!
//! `WEIR_KILLS=N` kills so many leaders (4 without).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use postgres::{Client as Driver, Error, NoTls};

use crate::eventually::{eventually, until};
use crate::nodes::Nodes;

const ACCOUNTS: i32 = 40;
const BALANCE: i32 = 100;
const SESSIONS: usize = 4;
const MEMBERS: usize = 3;

const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE transfer (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);
";

/// The same accounts with a procedure that runs in the order of a sequencer.
const ORDERED: &str = "
CREATE TABLE moved (id integer NOT NULL);
COMMENT ON TABLE moved IS 'weir: partition by (id)';
CREATE PROCEDURE move(a integer, b integer, t integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - 1 WHERE id = a;
    UPDATE account SET balance = balance + 1 WHERE id = b;
    INSERT INTO moved VALUES (t);
END $$;
ALTER PROCEDURE move SET default_transaction_isolation = 'serializable';
";

/// Work of the clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Transfers,
    /// Every other session calls the ordered procedure.
    TransfersAndOrderedCalls,
}

/// What clients have been told.
#[derive(Default)]
struct Told {
    acknowledged: Mutex<BTreeSet<i32>>,
    refused: Mutex<BTreeSet<i32>>,
    wrong: Mutex<Option<String>>,
    next: AtomicI32,
    /// Ordered calls that were acknowledged.
    ordered: AtomicUsize,
    is_over: AtomicBool,
}

/// The leader of the shard, as the nodes say: who has led the latest term.
fn leader(nodes: &Nodes, shard: u16) -> usize {
    let of_shard = format!("shard={shard} ");
    let term = |line: &str| line.split("term=").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    let leads = |node: usize| {
        let said = nodes.said_by(node);
        let lines = said.lines().filter(|line| line.contains("this member leads its group"));
        lines.filter(|line| line.contains(&of_shard)).filter_map(term).max()
    };
    eventually("a leader", || {
        (0..MEMBERS).filter_map(|node| Some((leads(node)?, node))).max().map(|(_, node)| node)
    })
}

fn connect(nodes: &Mutex<Nodes>, node: usize) -> Option<Driver> {
    let door = nodes.lock().unwrap().door_of(node);
    let target = format!("host=127.0.0.1 port={} user=ann dbname=weir connect_timeout=5", door.port());
    Driver::connect(&target, NoTls).ok()
}

/// A transfer between two accounts, and its row. The error, if there is one.
fn transfer(driver: &mut Driver, id: i32) -> Result<(), Error> {
    let (a, b) = (id * 7 % ACCOUNTS, (id * 7 + 1 + id % 5) % ACCOUNTS);
    let mut transaction = driver.transaction()?;
    transaction.execute("UPDATE account SET balance = balance - 1 WHERE id = $1", &[&a])?;
    transaction.execute("UPDATE account SET balance = balance + 1 WHERE id = $1", &[&b])?;
    transaction.execute("INSERT INTO transfer VALUES ($1, $2, $3)", &[&id, &a, &b])?;
    transaction.commit()
}

/// The same by a call of the ordered procedure.
fn call(driver: &mut Driver, id: i32) -> Result<(), Error> {
    let (a, b) = (id * 7 % ACCOUNTS, (id * 7 + 1 + id % 5) % ACCOUNTS);
    driver.execute("CALL move($1, $2, $3)", &[&a, &b, &id]).map(drop)
}

/// Works until it is over; a session that breaks is begun at another node.
fn work(nodes: &Mutex<Nodes>, told: &Told, (first, what): (usize, Work)) {
    let is_ordered = what == Work::TransfersAndOrderedCalls && first.is_multiple_of(2);
    let mut node = first % MEMBERS;
    while !told.is_over.load(Ordering::Acquire) {
        let Some(mut driver) = connect(nodes, node) else {
            node = (node + 1) % MEMBERS;
            std::thread::yield_now();
            continue;
        };
        while !driver.is_closed() && !told.is_over.load(Ordering::Acquire) {
            let id = told.next.fetch_add(1, Ordering::Relaxed);
            let done = if is_ordered { call(&mut driver, id) } else { transfer(&mut driver, id) };
            match done {
                Ok(()) => {
                    told.acknowledged.lock().unwrap().insert(id);
                    told.ordered.fetch_add(usize::from(is_ordered), Ordering::Relaxed);
                }
                Err(error) => match error.code().map(|code| code.code()) {
                    None | Some("08007" | "57P01") => {}
                    Some("40001" | "40P01" | "08006") => drop(told.refused.lock().unwrap().insert(id)),
                    Some(_) => *told.wrong.lock().unwrap() = Some(format!("{error:?}")),
                },
            }
        }
        node = (node + 1) % MEMBERS;
    }
}

/// Until so many more transactions are acknowledged; and an ordered call, if there are any.
fn progress(told: &Told, more: usize, what: Work) {
    let count = || (told.acknowledged.lock().unwrap().len(), told.ordered.load(Ordering::Relaxed));
    let (before, ordered) = count();
    let ordered = ordered + usize::from(what == Work::TransfersAndOrderedCalls);
    until(format!("{more} more transactions"), || {
        assert_eq!(*told.wrong.lock().unwrap(), None);
        count().0 >= before + more && count().1 >= ordered
    });
}

fn restart(nodes: &Mutex<Nodes>, node: usize) {
    let mut nodes = nodes.lock().unwrap();
    nodes.start_again(node);
}

fn wait_for_door(nodes: &Mutex<Nodes>, node: usize, starts: usize) {
    until(format!("n{node} is there again"), || {
        nodes.lock().unwrap().said_by(node).matches("protocol on").count() >= starts
    });
}

/// All that was acknowledged is there, what was refused is not, and no money has come or gone.
fn check(nodes: &Mutex<Nodes>, told: &Told, what: Work) {
    let mut driver = eventually("a session", || connect(nodes, 0));
    let query = match what {
        Work::Transfers => "SELECT id FROM transfer",
        Work::TransfersAndOrderedCalls => "SELECT id FROM transfer UNION ALL SELECT id FROM moved",
    };
    let rows = eventually("an answer", || driver.query(query, &[]).ok());
    let there: BTreeSet<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(there.len(), rows.len(), "one has been executed twice");
    let acknowledged = told.acknowledged.lock().unwrap();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
    let refused = told.refused.lock().unwrap();
    let half: Vec<_> = refused.intersection(&there).collect();
    assert!(half.is_empty(), "refused and there: {half:?}");
    let sum = driver.query_one("SELECT sum(balance) FROM account", &[]).unwrap();
    assert_eq!(sum.get::<_, i64>(0), i64::from(ACCOUNTS * BALANCE));
    println!("{} acknowledged, {} refused, {} there", acknowledged.len(), refused.len(), there.len());
}

fn prepare(nodes: &Nodes, what: Work) {
    let mut driver = nodes.driver();
    driver.batch_execute(SCHEMA).unwrap();
    if what == Work::TransfersAndOrderedCalls {
        driver.batch_execute(ORDERED).unwrap();
        let lines = driver.query("EXPLAIN (COORDINATION) CALL move(1, 2, 3)", &[]).unwrap();
        let said: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
        assert!(said.join("\n").contains("Mechanism: ordered"), "{said:?}");
    }
    let fill = format!("INSERT INTO account SELECT n, {BALANCE} FROM generate_series(0, {}) n", ACCOUNTS - 1);
    driver.batch_execute(&fill).unwrap();
}

fn kills() -> usize {
    std::env::var("WEIR_KILLS").map_or(4, |text| text.parse().unwrap())
}

fn survives(shards: u16, arguments: &[&str], what: Work) -> Nodes {
    let nodes = Nodes::of_groups(MEMBERS, shards, arguments);
    prepare(&nodes, what);
    let (nodes, told) = (Mutex::new(nodes), Told::default());
    let mut starts = [1; MEMBERS];
    std::thread::scope(|threads| {
        for session in 0..SESSIONS {
            let (nodes, told) = (&nodes, &told);
            threads.spawn(move || work(nodes, told, (session, what)));
        }
        let over = Over(&told);
        progress(&told, 50, what);
        for kill in 0..kills() {
            let shard = kill as u16 % shards;
            let node = leader(&nodes.lock().unwrap(), shard);
            nodes.lock().unwrap().kill(node);
            progress(&told, 30, what);
            restart(&nodes, node);
            starts[node] += 1;
            wait_for_door(&nodes, node, starts[node]);
            progress(&told, 30, what);
        }
        // A disk is lost, and the member that has it is filled while the others work.
        let lost = (leader(&nodes.lock().unwrap(), 0) + 1) % MEMBERS;
        nodes.lock().unwrap().kill(lost);
        let data = nodes.lock().unwrap().data_of(lost);
        std::fs::remove_dir_all(&data).unwrap();
        restart(&nodes, lost);
        starts[lost] += 1;
        wait_for_door(&nodes, lost, starts[lost]);
        progress(&told, 200, what);
        // It is one again: the group goes on without another one, which is the leader.
        until("the new disk votes", || {
            nodes.lock().unwrap().said_by(lost).matches("new disk votes in its group").count()
                >= usize::from(shards)
        });
        let node = leader(&nodes.lock().unwrap(), 0);
        nodes.lock().unwrap().kill(node);
        progress(&told, 50, what);
        restart(&nodes, node);
        starts[node] += 1;
        wait_for_door(&nodes, node, starts[node]);
        drop(over);
    });
    assert_eq!(*told.wrong.lock().unwrap(), None);
    check(&nodes, &told, what);
    // All at once, and from their disks.
    (0..MEMBERS).for_each(|node| nodes.lock().unwrap().kill(node));
    for (node, starts) in starts.iter_mut().enumerate() {
        restart(&nodes, node);
        *starts += 1;
    }
    (0..MEMBERS).for_each(|node| wait_for_door(&nodes, node, starts[node]));
    check(&nodes, &told, what);
    nodes.into_inner().unwrap()
}

/// Sessions end when the test does, however it ends.
struct Over<'t>(&'t Told);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

#[test]
fn one_group_survives_its_members() {
    survives(1, &[], Work::Transfers);
}

#[test]
fn two_groups_survive_their_members_and_take_checkpoints() {
    let nodes = survives(2, &["--snapshot-after", "32KiB"], Work::Transfers);
    for word in ["a snapshot is durable", "fetches a checkpoint", "a checkpoint of the group is durable"] {
        println!("{word}: {}", nodes.said().matches(word).count());
        assert!(nodes.said().contains(word), "{word}");
    }
}

/// The sequencer and the failure coordinator are parties of the first group, and go on where its next leader has its log.
#[test]
fn ordered_calls_survive_the_members_of_their_groups() {
    survives(2, &[], Work::TransfersAndOrderedCalls);
}

#[test]
fn a_group_needs_a_directory_and_an_odd_number() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("cluster.toml");
    let node = |name: &str| format!("[nodes.{name}]\naddress = \"127.0.0.1:1\"\nshards = [0]\n");
    let refused = |text: String| {
        std::fs::write(&file, format!("[application]\n{text}")).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        let said = command.args(["serve", "--cluster"]).arg(&file).args(["--node", "a"]).output().unwrap();
        assert!(!said.status.success());
        String::from_utf8(said.stderr).unwrap()
    };
    let said = refused(node("a") + &node("b"));
    assert!(said.contains("shard 0 is on 2 nodes, `a` and `b`") && said.contains("3, 5 or 7"), "{said}");
    let said = refused(node("a") + &node("b") + &node("c"));
    assert!(said.contains("shard 0 is a replica group, and this node keeps nothing"), "{said}");
}
