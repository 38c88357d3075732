//! Records bursts of transactions of eight accesses and evaluates them, for a profiler that counts instructions (docs/internals/cat.md, "Cost"):
//! `valgrind --tool=callgrind target/release/examples/recording 16`. The argument is how many bursts there are for each that is recorded; 0 records
//! nothing.

use weir_cat::live::{Attempt, Live, Sampling};
use weir_cat::workload::{Client, Shape};

/// Transactions: all bursts of a round, once.
const TRANSACTIONS: u64 = 16 * Sampling::DEFAULT.burst;

fn main() {
    let one_of = std::env::args().nth(1).and_then(|argument| argument.parse().ok()).unwrap_or(16);
    let mut plans = Client::new(Shape::PAPER, 1, 0).expect("it is the paper's");
    let planned: Vec<Vec<(u32, u64)>> =
        (0..64).map(|_| plans.plan().keys.into_iter().map(|key| (0, key)).collect()).collect();
    let live = Live::new(Sampling { one_of: u64::max(one_of, 1), ..Sampling::DEFAULT });
    for number in (0..TRANSACTIONS).take_while(|_| one_of > 0) {
        let Some(burst) = live.begin() else { continue };
        let accesses = planned[(number % 64) as usize].clone();
        let (begin_ns, end_ns) = (number * 10, number * 10 + 70);
        live.end(burst, Attempt { kind: 0, begin_ns, end_ns, aborted: false, accesses });
    }
    println!("{:.3}", live.report(10).all.contention.level());
}
