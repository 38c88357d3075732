//! Figures of a run, as one line of JSON.

use serde::Serialize;

use crate::load::{BUCKET_NS, Figures};

/// Figures of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub protocol: String,
    pub workload: String,
    pub shards: u16,
    /// Replicas of a shard that the protocol has.
    pub replicas: u16,
    pub clients: usize,
    /// Share of the transactions that are to be of several shards; of TPC-C, that have been.
    pub distributed: f64,
    pub zipf: f64,
    pub loss: f64,
    pub is_unpacked: bool,
    /// Wall time that was measured.
    pub seconds: f64,
    pub transactions: u64,
    pub distributed_transactions: u64,
    pub aborts: u64,
    pub transactions_per_second: f64,
    /// Of TPC-C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouses: Option<u16>,
    /// New-Orders that were entered, a second: those rolled back do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_orders_per_second: Option<f64>,
    /// Transactions in a second of processor time of all shards: for each shard, of its busiest replica.
    pub per_shard_cpu_second: f64,
    /// Transactions in a second of processor time of all replicas together.
    pub per_replica_cpu_second: f64,
    /// Processor time of a transaction in microseconds: of all learners (or leaders), of one follower in each shard, and of others.
    pub learner_us: f64,
    pub follower_us: f64,
    pub sequencer_us: f64,
    pub coordinator_us: f64,
    pub client_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Datagrams that the transport has lost on purpose.
    pub datagrams_lost: u64,
    /// Messages in a datagram that replicas have sent.
    pub messages_per_datagram: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// Result of the check of answers and values.
    pub check: String,
}

/// A sequencer was ended in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Failover {
    /// From the end of the sequencer until it is suspected, at most.
    pub detection_ms: u64,
    /// From the end of the sequencer until transactions are answered again.
    pub answered_after_ms: u64,
    /// From the end of the sequencer until as many are answered as before, less a tenth. None: not while it was measured.
    pub restored_after_ms: Option<u64>,
}

/// The parts of a rate over which it is taken as restored, in buckets.
const WINDOW: usize = 5;

/// Reads a failover from the answers in each bucket of all front ends. None: transactions are never answered again.
pub fn failover(answered_in: &[u64], ended_ns: u64, detection_ms: u64) -> Option<Failover> {
    let ended = (ended_ns / BUCKET_NS) as usize;
    let before = answered_in.get(ended.saturating_sub(20)..ended)?;
    let rate = before.iter().sum::<u64>() as f64 / before.len().max(1) as f64;
    let after = answered_in.get(ended..)?;
    let begins = longest_silence(after, rate / 10.0)?;
    let is_restored = |window: &[u64]| window.iter().sum::<u64>() as f64 >= 0.9 * rate * WINDOW as f64;
    let restored = after[begins..].windows(WINDOW).position(is_restored).map(|bucket| begins + bucket);
    let ms = |bucket: usize| (bucket as u64 + 1) * BUCKET_NS / 1_000_000;
    Some(Failover { detection_ms, answered_after_ms: ms(begins), restored_after_ms: restored.map(ms) })
}

/// Where the longest run of buckets below that rate ends: a moment without answers may be before the cluster has run out of work.
fn longest_silence(buckets: &[u64], rate: f64) -> Option<usize> {
    let (mut longest, mut length) = (None, 0);
    for (place, answered) in buckets.iter().enumerate() {
        if (*answered as f64) < rate {
            length += 1;
        } else {
            longest = longest.max((length > 0).then_some((length, place)));
            length = 0;
        }
    }
    longest.map(|(_, place)| place)
}

/// The sum of what front ends have counted.
pub fn total<'a>(figures: impl Iterator<Item = &'a Figures>) -> (Figures, Vec<u64>) {
    let (mut total, mut answered_in) = (Figures::default(), Vec::new());
    for each in figures {
        total.answered += each.answered;
        total.distributed += each.distributed;
        total.aborts += each.aborts;
        total.new_orders += each.new_orders;
        total.latency.add(&each.latency).expect("all histograms have the same bounds");
        if answered_in.len() < each.answered_in.len() {
            answered_in.resize(each.answered_in.len(), 0);
        }
        answered_in.iter_mut().zip(&each.answered_in).for_each(|(sum, count)| *sum += u64::from(*count));
    }
    (total, answered_in)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_failover_is_seen_in_the_buckets() {
        let mut buckets = vec![100; 50];
        buckets.extend([3, 0, 0, 0, 20, 60, 100]);
        buckets.extend([100; 19]);
        let seen = failover(&buckets, 50 * BUCKET_NS, 150);
        assert_eq!(
            seen,
            Some(Failover { detection_ms: 150, answered_after_ms: 50, restored_after_ms: Some(60) })
        );
        assert_eq!(failover(&buckets[..54], 50 * BUCKET_NS, 150), None);
    }
}
