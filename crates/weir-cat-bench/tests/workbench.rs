//! Every workload on every kind of target but Weir, at a tiny scale: real servers of PostgreSQL and MariaDB, started and running, and SQLite.

use std::time::Duration;

use weir_cat_bench::connection::{Address, connect};
use weir_cat_bench::load::Times;
use weir_cat_bench::place::Place;
use weir_cat_bench::target::Level;
use weir_cat_bench::workbench::{Report, Wanted, points, run};
use weir_cat_bench::workload::Way;
use weir_harness::{mariadb, postgres};

fn wanted(workload: &str, settings: &[(&str, &str)], places: &[&str], way: Way) -> Wanted {
    let place = |text: &&str| Place::parse(text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Wanted {
        settings,
        way,
        times: Times { warm_up: Duration::from_millis(10), measured: Duration::from_millis(150) },
        ..Wanted::of(workload, places.iter().map(place).collect(), 4)
    }
}

fn measured(wanted: &Wanted) -> Report {
    let points = points(wanted).unwrap_or_else(|wrong| panic!("{wrong}"));
    let report = run(wanted, &points, &mut |_| {}).expect("it is measured");
    for run in &report.runs {
        assert_eq!(run.violation, None, "{}", run.label);
        let all = &run.outcome.all;
        assert!(all.attempts >= all.committed + all.aborted, "{}: {all:?}", run.label);
        assert_eq!(all.aborted, run.outcome.aborts_by_state.values().sum::<u64>());
    }
    report
}

const HOT: [&[(&str, &str)]; 6] = [
    &[("keys", "20"), ("zipf", "1.2")],
    &[("keys", "20"), ("length", "4")],
    &[("kind", "srw"), ("keys", "5")],
    &[("kind", "mrmw"), ("keys", "5"), ("distributed", "1.0")],
    &[("kind", "crmw"), ("keys", "5"), ("distributed", "1.0")],
    &[("customers", "20"), ("hot_customers", "2"), ("hot", "0.9")],
];
const WORKLOADS: [&str; 6] = ["cat", "ycsb", "ycsb-t", "ycsb-t", "ycsb-t", "smallbank"];

#[test]
fn nothing_is_lost_on_real_servers_by_statements() {
    // SmallBank's sum is kept below SERIALIZABLE, too: each account is changed by what is added.
    let levels = [Level::Serializable, Level::ReadCommitted].into_iter().cycle();
    for ((workload, settings), level) in WORKLOADS.iter().zip(HOT).zip(levels) {
        let mut wanted = wanted(workload, settings, &["postgres", "mariadb", "sqlite:"], Way::Statements);
        wanted.level = Some(level);
        let report = measured(&wanted);
        assert_eq!(report.runs.len(), 3);
        let sqlite = &report.runs[2];
        assert_eq!(
            (sqlite.outcome.all.aborted, &sqlite.parameters["isolation"]),
            (0, &serde_json::Value::Null)
        );
    }
}

#[test]
fn tpcc_stays_consistent_on_real_servers() {
    let settings = [("warehouses", "2"), ("items", "100"), ("customers", "20"), ("remote", "0.2")];
    let mut wanted = wanted("tpcc", &settings, &["postgres", "mariadb", "sqlite:"], Way::Statements);
    wanted.level = Some(Level::Serializable);
    assert_eq!(measured(&wanted).runs.len(), 3);
}

/// The settings of a small size, at which every kind of transaction meets others.
const SMALL_SHOP: [(&str, &str); 3] = [("items", "40"), ("customers", "30"), ("carts", "8")];
const SMALL_SITE: [(&str, &str); 3] = [("users", "30"), ("items", "15"), ("old_items", "10")];

/// Each mix on all three, and each level once.
fn applications_are_consistent(workload: &str, small: &[(&str, &str)], mixes: &[&str]) {
    let levels = [Level::Serializable, Level::ReadCommitted, Level::RepeatableRead].into_iter().cycle();
    for (mix, level) in mixes.iter().zip(levels) {
        let settings = [small, &[("mix", *mix)]].concat();
        let mut wanted = wanted(workload, &settings, &["postgres", "mariadb", "sqlite:"], Way::Statements);
        wanted.level = Some(level);
        // The tables are filled once: a second round begins with what the first one has left.
        wanted.repeat = 2;
        let report = measured(&wanted);
        assert_eq!(report.runs.len(), 6);
        assert!(report.runs.iter().all(|run| run.outcome.all.committed > 0));
    }
}

#[test]
fn tpcw_stays_consistent_on_real_servers() {
    applications_are_consistent("tpcw", &SMALL_SHOP, &["ordering", "shopping", "browsing"]);
}

#[test]
fn rubis_stays_consistent_on_real_servers() {
    applications_are_consistent("rubis", &SMALL_SITE, &["bidding", "browsing", "bidding"]);
}

#[test]
fn nothing_is_lost_by_calls() {
    for (workload, settings) in WORKLOADS.iter().zip(HOT) {
        let mut wanted = wanted(workload, settings, &["postgres"], Way::Calls);
        wanted.level = Some(Level::Serializable);
        measured(&wanted);
    }
}

#[test]
fn servers_that_run_are_left_as_they_were() {
    let server = postgres::Server::start().expect("PostgreSQL starts");
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let maria_port = free.expect("there is a free port").port();
    let maria = mariadb::Server::start_with(&[&format!("port={maria_port}")]).expect("MariaDB starts");
    let bare = Address::MySqlSocket { socket: maria.socket(), database: String::new() };
    let mut own = connect(&bare, None, &[]).expect("it runs");
    own.execute("CREATE DATABASE measured").expect("there is none");
    // Servers that begin at the same time give their temporary tables the same names.
    let in_its_folder = own.rows("SELECT @@tmpdir LIKE '%weir-mariadb-%'").expect("it is read");
    assert_eq!(in_its_folder, [[1]]);
    let (host, port) = {
        let text = server.connection_string();
        let part = |name: &str| text.split(' ').find_map(|part| part.strip_prefix(name)).map(str::to_owned);
        (part("host=").expect("a folder"), part("port=").expect("a port"))
    };
    let url = format!("postgres://postgres@{}:{port}/postgres", host.replace('/', "%2F"));
    let file = std::env::temp_dir().join(format!("weir-cat-bench-{}.db", std::process::id()));
    let sqlite = format!("sqlite:{}", file.display());
    let maria_url = format!("mysql://root@127.0.0.1:{maria_port}/measured");
    let mut both = wanted("smallbank", HOT[5], &[&url, &sqlite, &maria_url], Way::Calls);
    both.sweep = Some(("customers".to_owned(), vec!["20".to_owned(), "30".to_owned()]));
    let report = measured(&both);
    assert_eq!((report.summary.len(), report.ratios.len()), (6, 4));
    let left = own.rows("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'measured'");
    assert_eq!(left.expect("it is read"), [[0]]);
    let address = Address::Postgres(url.clone());
    let mut connection = connect(&address, None, &[]).expect("it runs");
    let count = |query: &str, connection: &mut dyn weir_cat_bench::connection::Connection| {
        connection.rows(query).expect("it is read")[0][0]
    };
    for query in [
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'",
        "SELECT count(*) FROM information_schema.routines WHERE routine_schema = 'public'",
    ] {
        assert_eq!(count(query, &mut *connection), 0, "{query}");
    }
    connection.execute("CREATE TABLE savings (mine integer)").expect("there is none");
    let points = points(&both).unwrap_or_else(|wrong| panic!("{wrong}"));
    let Err(refused) = run(&both, &points, &mut |_| {}) else { panic!("the table is somebody's") };
    assert!(refused.contains("CREATE TABLE savings") && refused.contains("name an empty one"), "{refused}");
    assert_eq!(count("SELECT count(*) FROM savings", &mut *connection), 0);
    let _ = std::fs::remove_file(&file);
}

#[test]
fn the_open_loop_and_a_sweep_of_clients_are_measured() {
    let mut open = wanted("ycsb", HOT[1], &["sqlite:"], Way::Calls);
    open.sweep = Some(("rate".to_owned(), vec!["100".to_owned(), "200".to_owned()]));
    for run in measured(&open).runs {
        assert_eq!(run.parameters["loop"], "open");
        assert!(run.outcome.all.latency_us.max >= run.outcome.all.service_us.p50);
    }
    let mut clients = wanted("cat", HOT[0], &["postgres", "sqlite:"], Way::Statements);
    clients.sweep = Some(("clients".to_owned(), vec!["1".to_owned(), "4".to_owned()]));
    clients.repeat = 2;
    let report = measured(&clients);
    assert_eq!((report.runs.len(), report.summary.len(), report.ratios.len()), (8, 4, 2));
    assert_eq!(report.summary[0].contention_level.value, 0.0, "one client has nobody beside it");
    let machine = weir_harness::machine::Machine::here();
    let page = weir_cat_bench::page::html(
        &report,
        Some("clients"),
        &["A <word>.".to_owned()],
        &machine,
        "weir bench cat",
    );
    let page = page.expect("it is drawn");
    for text in ["<svg", "Contention Level", "A &lt;word&gt;.", "postgres clients=4 / sqlite clients=4"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_recorded_load_is_replayed_elsewhere() {
    let mut recorded = wanted("smallbank", HOT[5], &["sqlite:"], Way::Statements);
    recorded.is_recorded = true;
    let report = measured(&recorded);
    let text = weir_cat_bench::trace::text(&report.recorded);
    let committed = report.recorded.iter().filter(|line| line.setup.is_none()).count() as u64;
    assert!(committed >= report.runs[0].outcome.all.committed && text.contains("\"objects\":["));
    let mut replay = wanted("trace", &[], &["postgres", "mariadb", "sqlite:"], Way::Calls);
    replay.clients = 0;
    replay.trace = Some(("load.jsonl".to_owned(), text));
    replay.times = Times { warm_up: Duration::ZERO, measured: Duration::from_secs(600) };
    for speed in [None, Some(20.0)] {
        replay.speed = speed;
        for run in measured(&replay).runs {
            let all = &run.outcome.all;
            // Transactions that a rule refused when they were recorded are not in the trace.
            assert_eq!(
                (all.committed + all.refused, run.outcome.unfinished),
                (committed, 0),
                "{}",
                run.label
            );
            assert_eq!(run.parameters["clients"], 4);
        }
    }
}
