//! Cost of blocked writes (ramp.txt §5.3): some clients stop after all participants have prepared, and the shards terminate their
//! transactions.
//!
//! A share of the writes goes through *doomed* coordinators: their clients are answered when all have prepared, their COMMITs are
//! never sent, and after a while nothing more is heard of them. As in the paper that is worse than a death, for their clients go
//! on. Twice: on processes with a network in between, as the paper has it, and on one thread.

mod network;
mod one_thread;

use weir_core::ids::ShardId;

use super::{Effort, Point, Setting};
use crate::Spread;
use crate::ycsb::{Keys, Ycsb};

const SHARDS: ShardId = 5;
pub const PANEL: &str = "blocked writes";

/// The paper's shares, and what the throughput was over that without any.
const BLOCKED: [(f64, f64); 4] = [(0.0001, 1.0), (0.001, 0.9986), (0.25, 0.7753), (0.5, 0.6792)];

/// Each share in pairs with nothing blocked, one right after the other: from minute to minute the machine changes by more
/// than a tenth.
pub fn table(setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    let (pairs, seconds, items) = match setting.effort {
        Effort::Quick => (1, 1.0, 20_000),
        Effort::Full => (10, 2.0, 1_000_000),
    };
    let (keys, seed) = (Keys::Zipf(0.99), setting.seed);
    let workload = Ycsb { items, read_share: 0.0, keys, seed, shards: SHARDS, ..Ycsb::default() };
    let stage = network::Stage::start(setting.weir, &workload)?;
    let mut points =
        in_pairs(setting, pairs, "ramp-fast", &mut |share, blocks| stage.throughput(share, blocks, seconds))?;
    let one_thread =
        &mut |share, blocks| Ok(one_thread::throughput(&workload, if blocks { share } else { 0.0 }, seconds));
    points.extend(in_pairs(setting, pairs, "ramp-fast, one thread", one_thread)?);
    Ok(points)
}

/// `measure`: the throughput where such a share of the transactions goes through other coordinators, which are doomed or not.
fn in_pairs(
    setting: &mut Setting<'_>,
    pairs: usize,
    series: &str,
    measure: &mut dyn FnMut(f64, bool) -> Result<f64, (String, String)>,
) -> Result<Vec<Point>, (String, String)> {
    let mut seen: Vec<Vec<[f64; 2]>> = vec![Vec::new(); BLOCKED.len()];
    for pair in 0..pairs {
        for (seen, (share, _)) in seen.iter_mut().zip(BLOCKED) {
            setting.tell(&format!("{series}: {}% blocked ({} of {pairs})", share * 100.0, pair + 1));
            let first_blocks = pair % 2 == 0;
            let (first, second) = (measure(share, first_blocks)?, measure(share, !first_blocks)?);
            seen.push(if first_blocks { [first, second] } else { [second, first] });
        }
    }
    Ok(BLOCKED.into_iter().zip(&seen).map(|(blocked, pairs)| of_pairs(series, blocked, pairs)).collect())
}

fn of_pairs(series: &str, (share, published): (f64, f64), pairs: &[[f64; 2]]) -> Point {
    let ratio = Spread::of(pairs.iter().map(|[with, without]| with / without).collect());
    Point {
        panel: PANEL.to_owned(),
        x: share,
        series: series.to_owned(),
        throughput: pairs.iter().map(|[with, _]| with).sum::<f64>() / pairs.len() as f64,
        latency_p50_us: 0.0,
        of_base: ratio.map(|ratio| ratio.median),
        of_base_range: ratio.map(|ratio| [ratio.least, ratio.most]),
        published: Some(published),
        simulated: false,
    }
}
