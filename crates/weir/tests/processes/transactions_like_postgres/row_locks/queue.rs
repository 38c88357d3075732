//! A queue: workers take jobs by FOR UPDATE SKIP LOCKED LIMIT, on four shards and on PostgreSQL. Each job is done once, and nobody comes back
//! without one while there are more of them than others hold.

use std::sync::atomic::{AtomicUsize, Ordering};

use postgres::{Client as Driver, NoTls};

use super::{postgres, weir};

const JOBS: usize = 160;
const WORKERS: usize = 8;

/// How a worker takes a job, within a transaction.
const TAKES: [&str; 3] = [
    "SELECT id FROM test ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
    "SELECT id FROM test LIMIT 1 FOR UPDATE SKIP LOCKED",
    "SELECT id FROM test WHERE value >= 0 ORDER BY value DESC LIMIT 2 FOR NO KEY UPDATE SKIP LOCKED",
];

/// How it takes a job and does it by one statement.
const DOES: [&str; 2] = [
    "DELETE FROM test WHERE id = (SELECT id FROM test ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
    "WITH next AS (SELECT id FROM test LIMIT 1 FOR UPDATE SKIP LOCKED) DELETE FROM test t USING next WHERE t.id = next.id RETURNING t.id",
];

/// Jobs that no worker has taken, at most: one is taken out after it is locked, and put in before it is freed.
struct Queue {
    free: AtomicUsize,
}

impl Queue {
    /// All that are left may have been taken by others just now.
    fn check_empty(&self, take: &str) {
        let others_hold = 2 * (WORKERS - 1);
        let free = self.free.load(Ordering::SeqCst);
        assert!(free <= others_hold, "{take}: it gives no row, and {free} are free or taken just now");
    }
}

/// Does jobs, each by one statement, until there are none; gives those that it has done.
fn work_at_once(url: &str, statement: &str, queue: &Queue) -> Vec<i32> {
    let mut driver = Driver::connect(url, NoTls).unwrap();
    let mut done = Vec::new();
    loop {
        let rows = driver.query(statement, &[]).unwrap();
        let Some(row) = rows.first() else {
            queue.check_empty(statement);
            return done;
        };
        queue.free.fetch_sub(1, Ordering::SeqCst);
        done.push(row.get(0));
    }
}

/// Takes jobs until there are none; gives those that it has done. Every seventh time it gives up what it has taken.
fn work(url: &str, take: &str, queue: &Queue) -> Vec<i32> {
    let mut driver = Driver::connect(url, NoTls).unwrap();
    let mut done = Vec::new();
    for round in 1.. {
        let mut transaction = driver.transaction().unwrap();
        let jobs: Vec<i32> = transaction.query(take, &[]).unwrap().iter().map(|row| row.get(0)).collect();
        if jobs.is_empty() {
            queue.check_empty(take);
            return done;
        }
        queue.free.fetch_sub(jobs.len(), Ordering::SeqCst);
        if round % 7 == 0 {
            queue.free.fetch_add(jobs.len(), Ordering::SeqCst);
            transaction.rollback().unwrap();
            continue;
        }
        for job in &jobs {
            assert_eq!(transaction.execute("DELETE FROM test WHERE id = $1", &[job]).unwrap(), 1, "{take}");
        }
        transaction.commit().unwrap();
        done.extend(jobs);
    }
    unreachable!("it ends when there are no jobs")
}

type Works = fn(&str, &str, &Queue) -> Vec<i32>;

fn check_queue(url: &str) {
    let ways = TAKES.map(|take| (take, work as Works)).into_iter();
    for (statement, works) in ways.chain(DOES.map(|does| (does, work_at_once as Works))) {
        let mut setup = Driver::connect(url, NoTls).unwrap();
        setup.batch_execute("DELETE FROM test WHERE id >= 0").unwrap();
        let jobs = format!("INSERT INTO test SELECT i, i % 10 FROM generate_series(1, {JOBS}) i");
        setup.batch_execute(&jobs).unwrap();
        let queue = Queue { free: AtomicUsize::new(JOBS) };
        let mut done: Vec<i32> = std::thread::scope(|scope| {
            let workers = [(); WORKERS].map(|()| scope.spawn(|| works(url, statement, &queue)));
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        done.sort_unstable();
        assert_eq!(done, (1..=JOBS as i32).collect::<Vec<_>>(), "{statement}");
    }
}

#[test]
fn each_job_is_done_once() {
    check_queue(&weir(4).url());
}

#[test]
fn each_job_is_done_once_on_postgres() {
    check_queue(&postgres().connection_string());
}
