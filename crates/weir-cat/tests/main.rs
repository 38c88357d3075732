//! The live Contention Level beside the offline one, over generated histories.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_cat::chance::Chance;
use weir_cat::contention::of_history;
use weir_cat::history::Transaction;
use weir_cat::live::{Live, Sampling};
use weir_cat::workload::{Client, Shape};

/// Closed-loop clients in virtual time; a transaction takes 0.5 to 1.5 milliseconds, and the pause between two up to a half.
fn run(shape: Shape, clients: u64, transactions: usize, seed: u64) -> Vec<Transaction> {
    let mut chance = Chance::from_seed(seed);
    let plan = |number| Client::new(shape, seed, number).expect("it is possible");
    let mut plans: Vec<Client> = (0..clients).map(plan).collect();
    let mut free: BinaryHeap<Reverse<(u64, usize)>> =
        (0..clients as usize).map(|one| Reverse((0, one))).collect();
    let mut history = Vec::new();
    while history.len() < transactions {
        let Reverse((at, client)) = free.pop().expect("there are clients");
        let begin_ns = at + chance.below(500_000);
        let end_ns = begin_ns + 500_000 + chance.below(1_000_000);
        let accesses = plans[client].plan().keys;
        history.push(Transaction { begin_ns, end_ns, accesses, aborted: false });
        free.push(Reverse((end_ns, client)));
    }
    history
}

#[track_caller]
fn check(history: &[Transaction], sampling: Sampling, what: &str) {
    let offline = of_history(history).level();
    let live = Live::replay(history, sampling).report(1).all.contention.level();
    assert!((live / offline - 1.0).abs() < 0.05, "{what}: live {live:.4}, offline {offline:.4}");
}

#[test]
fn the_live_level_is_within_five_percent_of_the_offline_one() {
    for (clients, exponent, length) in [(4, 0.9, 8), (7, 0.9, 8), (7, 1.2, 8), (7, 0.0, 16), (32, 0.6, 8)] {
        let shape = Shape { exponent, length, ..Shape::PAPER };
        for seed in 1..3 {
            let history = run(shape, clients, 140_000, seed);
            check(&history, Sampling::DEFAULT, &format!("{clients} clients, zipf {exponent}, seed {seed}"));
        }
    }
}

#[test]
fn recording_everything_misses_no_more_than_edges() {
    let history = run(Shape::PAPER, 7, 20_000, 9);
    let offline = of_history(&history);
    let live = Live::replay(&history, Sampling { burst: 20_000, one_of: 1 }).report(1).all.contention;
    assert!((live.level() / offline.level() - 1.0).abs() < 0.01, "{live:?} {offline:?}");
}

#[test]
fn the_hottest_keys_are_the_most_popular() {
    let history = run(Shape { exponent: 1.2, ..Shape::PAPER }, 7, 20_000, 9);
    let hottest = Live::replay(&history, Sampling { burst: 1_024, one_of: 4 }).report(3).hottest;
    let keys: Vec<u64> = hottest.iter().map(|((_, key), ..)| *key).collect();
    assert_eq!(keys, [0, 1, 2]);
}
