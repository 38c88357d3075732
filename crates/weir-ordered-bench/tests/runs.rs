//! Short runs of all protocols and workloads.

use std::collections::BTreeMap;

use weir_baselines::eris::operation::{Action, Key, Value};
use weir_baselines::eris::tpcc::Scale;
use weir_baselines::eris::workload::{self, Kind};
use weir_core::ids::TxnId;
use weir_ordered::cluster::Timeouts;
use weir_ordered_bench::answers::value_before;
use weir_ordered_bench::load::Answered;
use weir_ordered_bench::run::{Outcome, PROTOCOLS, run};
use weir_ordered_bench::settings::{Settings, Until, Workload};

use crate::world::strict::{Told, check_edges};

const TRANSACTIONS: u64 = 150;

fn settings(kind: Kind, replicas: u16) -> Settings {
    Settings {
        workload: Workload::Registers(workload::Workload {
            kind,
            keys: 40,
            shards: 2,
            distributed: 0.5,
            zipf: 0.9,
        }),
        replicas,
        clients: 12,
        front_ends: 2,
        loss: 0.0,
        is_unpacked: false,
        seed: 7,
        until: Until::Transactions(TRANSACTIONS),
        timeouts: Timeouts::DEFAULT,
        truncate_entries: 100,
        kills_sequencer: false,
        keeps_answers: true,
    }
}

/// Runs a protocol, whose answers and values are checked.
fn ran(protocol: &str, settings: &Settings) -> Outcome {
    let outcome = run(protocol, settings).unwrap_or_else(|error| panic!("{protocol}: {error}"));
    assert_eq!(outcome.report.transactions, 2 * TRANSACTIONS, "{protocol}");
    assert_eq!(outcome.answers.len() as u64, 2 * TRANSACTIONS, "{protocol}");
    outcome
}

/// For each transaction, those that come after it at some key: the next modification, and whoever reads what that replaces.
fn orders(answers: &[Answered]) -> BTreeMap<TxnId, Vec<TxnId>> {
    let (mut writers, mut replaced): (BTreeMap<(Key, Value), TxnId>, BTreeMap<_, _>) = Default::default();
    let mut reads = Vec::new();
    for each in answers {
        for (key, value) in each.values() {
            let actions = each.operation.actions().iter();
            let mut by = actions.filter_map(|action| match action {
                Action::Modify(of, by) if *of == key => Some(*by),
                _ => None,
            });
            match by.next_back() {
                Some(by) => {
                    writers.insert((key, value), each.txn);
                    replaced.insert((key, value_before(value, by)), each.txn);
                }
                None => reads.push(((key, value), each.txn)),
            }
        }
    }
    let mut edges: BTreeMap<TxnId, Vec<TxnId>> = BTreeMap::new();
    let mut add = |before: Option<&TxnId>, after: Option<&TxnId>| {
        if let (Some(before), Some(after)) = (before, after) {
            edges.entry(*before).or_default().push(*after);
        }
    };
    for (version, writer) in &replaced {
        add(writers.get(version), Some(writer));
    }
    for (version, reader) in &reads {
        add(writers.get(version), Some(reader));
        add(Some(reader), replaced.get(version));
    }
    edges
}

fn check_strict(protocol: &str, answers: &[Answered]) {
    let mut told = Told::default();
    for each in answers {
        told.begun.insert(each.txn, each.begun_ns);
        told.completed.insert(each.txn, (each.answered_ns, BTreeMap::new()));
    }
    check_edges(orders(answers), &told).unwrap_or_else(|violation| panic!("{protocol}: {violation:?}"));
}

#[test]
fn every_protocol_executes_every_workload() {
    for protocol in PROTOCOLS {
        for kind in Kind::ALL {
            let outcome = ran(protocol, &settings(kind, 1));
            assert_eq!(outcome.report.distributed_transactions > 0, kind != Kind::Srw, "{protocol} {kind:?}");
        }
    }
}

#[test]
fn groups_of_three_replicas_are_alike_and_strictly_serializable() {
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != "nt-ur") {
        let outcome = ran(protocol, &settings(Kind::Mrmw, 3));
        check_strict(protocol, &outcome.answers);
        ran(protocol, &settings(Kind::Crmw, 3));
    }
}

#[test]
fn datagrams_that_are_lost_cost_nothing_but_time() {
    for protocol in ["ordered", "lock-store"] {
        let settings = Settings { loss: 0.02, ..settings(Kind::Mrmw, 3) };
        let outcome = ran(protocol, &settings);
        check_strict(protocol, &outcome.answers);
    }
}

/// Consistency conditions, answers and replicas are checked within the run.
#[test]
fn every_protocol_executes_tpcc() {
    for protocol in PROTOCOLS {
        let scale = Scale { warehouses: 4, customers: 40, items: 100 };
        let workload = Workload::Tpcc { scale, shards: 2 };
        for replicas in [1, 3] {
            let settings = Settings { workload, ..settings(Kind::Srw, replicas) };
            let report =
                run(protocol, &settings).unwrap_or_else(|error| panic!("{protocol}: {error}")).report;
            assert_eq!(report.transactions, 2 * TRANSACTIONS, "{protocol}");
            assert!(report.distributed_transactions > 0, "{protocol}");
            let promises = protocol != "nt-ur";
            assert_eq!(report.check.contains("conditions hold"), promises, "{protocol}: {}", report.check);
        }
    }
}

#[test]
fn tpcc_survives_lost_datagrams() {
    for protocol in ["ordered", "lock-store", "granola", "tapir"] {
        let scale = Scale { warehouses: 2, customers: 40, items: 100 };
        let workload = Workload::Tpcc { scale, shards: 2 };
        let settings = Settings { workload, loss: 0.02, ..settings(Kind::Srw, 3) };
        let report = run(protocol, &settings).unwrap_or_else(|error| panic!("{protocol}: {error}")).report;
        assert_eq!(report.transactions, 2 * TRANSACTIONS, "{protocol}");
    }
}

#[test]
fn an_unknown_protocol_is_refused() {
    let refused = run("paxos", &settings(Kind::Srw, 1)).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|why| why.contains("no protocol paxos")));
}
