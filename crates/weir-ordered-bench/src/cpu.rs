//! Processor time of threads.

use rustix::time::{ClockId, clock_gettime};

/// Processor time that the calling thread has had so far, in seconds.
pub fn of_this_thread() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
