//! Every protocol over items runs YCSB on real threads to its end, in the rounds that Table 1 of ramp.txt says.

use weir_bench::pace::Limit;
use weir_bench::ycsb::{Keys, Outcome, Protocol, Ycsb};

fn small() -> Ycsb {
    Ycsb { items: 2_000, clients: 32, limit: Limit::Transactions(3_000), read_share: 0.5, ..Ycsb::default() }
}

fn run(workload: &Ycsb, protocol: &str) -> Outcome {
    workload.run(Protocol::by_name(protocol).expect("it is a protocol")).expect("the settings go together")
}

#[test]
fn every_protocol_runs_to_its_end() {
    let names = [
        "ramp-fast",
        "ramp-small",
        "ramp-hybrid",
        "ramp-hybrid:64:1",
        "none",
        "lwnr",
        "lwsr",
        "lwlr",
        "e-pci",
    ];
    for name in names {
        for workload in [
            small(),
            Ycsb { shards: 1, keys: Keys::Uniform, ..small() },
            Ycsb { length: 1, ..small() },
            Ycsb { one_phase: true, ..small() },
            Ycsb { items: 4, ..small() },
        ] {
            let outcome = run(&workload, name);
            assert_eq!((outcome.reads + outcome.writes, outcome.aborted), (3_000, 0), "{name} {workload:?}");
        }
    }
}

#[test]
fn rounds_are_those_of_table_1() {
    let check = |name: &str, reads: std::ops::RangeInclusive<f64>, writes: std::ops::RangeInclusive<f64>| {
        // Many shards, so that nearly every transaction has several participants.
        let workload = Ycsb { shards: 16, ..small() };
        let outcome = run(&workload, name);
        assert!(reads.contains(&outcome.read_rounds), "{name}: {} rounds of reads", outcome.read_rounds);
        assert!(writes.contains(&outcome.write_rounds), "{name}: {} rounds of writes", outcome.write_rounds);
    };
    // Readers that are new to a shard begin anew, hence a little more.
    check("ramp-fast", 1.0..=2.1, 1.9..=2.0);
    check("ramp-small", 2.0..=2.1, 1.9..=2.0);
    check("ramp-hybrid", 1.0..=2.1, 1.9..=2.0);
    check("none", 1.0..=1.0, 1.0..=1.0);
    check("e-pci", 1.0..=2.1, 1.9..=2.0);
}

#[test]
fn a_wrong_setting_says_what_would_be_right() {
    let check = |name: &str, value: &str, expect: &str| {
        let error = Ycsb::default().set(name, value).expect_err(value);
        assert!(format!("{}: {}", error.0, error.1).contains(expect), "{error:?}");
    };
    check("items", "none", "`items=none` is wrong: items is a number from 1 to 100000000");
    check("read_share", "95", "a share from 0 to 1");
    check("keys", "latest", "`zipf` or `uniform`");
    check("one_phase", "1", "`true` or `false`");
    check("theta", "1", "an exponent above 0 and below 1");
    check(
        "size",
        "1",
        "no setting `size`: the settings are: items, keys, theta, read_share, length, value_bytes, one_phase",
    );
    let more = Ycsb { items: 3, ..Ycsb::default() };
    let error = more.run(Protocol::by_name("none").expect("it is a protocol")).expect_err("4 of 3 items");
    assert_eq!(error.0, "length=4 asks for more different items than there are: items=3");
    assert!(Protocol::by_name("2pc").is_err_and(|error| error.1.contains("ramp-hybrid")));
}
