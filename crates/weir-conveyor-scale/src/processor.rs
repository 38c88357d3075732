//! The cores of a server: everything that runs has an equal share, as sessions of PostgreSQL have.
//!
//! Virtual time is the service that each job has had since the beginning. A job ends when virtual time reaches its own end.

use std::collections::BTreeSet;

/// Processor sharing over some cores; no job runs on more than one.
#[derive(Clone, Debug)]
pub struct Processor {
    cores: f64,
    /// In nanoseconds of service.
    virtual_ns: f64,
    at_ns: u64,
    /// Jobs by the virtual time of their end, in thousandths of nanoseconds.
    jobs: BTreeSet<(u64, u64)>,
    /// Service that was given.
    busy_ns: f64,
}

impl Processor {
    pub fn new(cores: u32) -> Processor {
        Processor { cores: f64::from(cores), virtual_ns: 0.0, at_ns: 0, jobs: BTreeSet::new(), busy_ns: 0.0 }
    }

    fn rate(&self) -> f64 {
        (self.cores / self.jobs.len() as f64).min(1.0)
    }

    fn advance(&mut self, now_ns: u64) {
        let passed = (now_ns - self.at_ns) as f64;
        self.at_ns = now_ns;
        if !self.jobs.is_empty() {
            self.virtual_ns += passed * self.rate();
            self.busy_ns += passed * (self.jobs.len() as f64).min(self.cores);
        }
    }

    pub fn start(&mut self, now_ns: u64, job: u64, service_us: f64) {
        self.advance(now_ns);
        let end = self.virtual_ns + service_us.max(0.001) * 1_000.0;
        self.jobs.insert(((end * 1_000.0) as u64, job));
    }

    /// When the next job ends, if none comes before.
    pub fn next_end_ns(&self) -> Option<u64> {
        let (end, _) = self.jobs.first()?;
        let missing = (*end as f64 / 1_000.0 - self.virtual_ns).max(0.0);
        Some(self.at_ns + (missing / self.rate()).ceil() as u64)
    }

    /// The job that has ended by now.
    pub fn take_ended(&mut self, now_ns: u64) -> Option<u64> {
        self.advance(now_ns);
        let (end, job) = *self.jobs.first()?;
        let is_over = end as f64 / 1_000.0 <= self.virtual_ns + 1.0;
        is_over.then(|| {
            self.jobs.remove(&(end, job));
            job
        })
    }

    pub fn busy_ns(&self) -> f64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(processor: &mut Processor) -> Vec<(u64, u64)> {
        let mut ends = Vec::new();
        while let Some(at) = processor.next_end_ns() {
            while let Some(job) = processor.take_ended(at) {
                ends.push((at / 1_000, job));
            }
        }
        ends
    }

    #[test]
    fn two_cores_serve_two_jobs_at_full_speed_and_four_at_half() {
        let mut two = Processor::new(2);
        (0..2).for_each(|job| two.start(0, job, 100.0));
        assert_eq!(run(&mut two), [(100, 0), (100, 1)]);
        let mut four = Processor::new(2);
        (0..4).for_each(|job| four.start(0, job, 100.0));
        assert!(run(&mut four).iter().all(|(at, _)| *at == 200));
        assert!((four.busy_ns() - 400_000.0).abs() < 10.0);
    }

    #[test]
    fn a_short_job_does_not_wait_for_a_long_one() {
        let mut one = Processor::new(1);
        one.start(0, 1, 1_000.0);
        one.start(0, 2, 10.0);
        assert_eq!(run(&mut one), [(20, 2), (1_010, 1)]);
    }
}
