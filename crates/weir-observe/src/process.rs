//! Figures of the process from the operating system, with the names used by Prometheus' own clients. Empty if unavailable.

use crate::Page;

/// Size of a memory page and ticks per second of processor time, on Linux for every architecture that Weir is built for.
const PAGE_BYTES: f64 = 4096.0;
const TICKS_PER_SECOND: f64 = 100.0;

pub fn tell(page: &mut Page) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
    let number = |text: &str, at: usize| -> Option<f64> { text.split_whitespace().nth(at)?.parse().ok() };
    if let Some(pages) = read("statm").and_then(|statm| number(&statm, 1)) {
        let help = "Memory of the process that is in use.";
        page.gauge("process_resident_memory_bytes", help, &[], pages * PAGE_BYTES);
    }
    // Behind the name, which may have blanks: the state is 0, utime and stime are 11 and 12.
    let stat = read("stat");
    let times = stat.as_deref().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        Some(number(rest, 11)? + number(rest, 12)?)
    });
    if let Some(ticks) = times {
        let help = "Processor time of the process.";
        page.counter("process_cpu_seconds_total", help, &[], ticks / TICKS_PER_SECOND);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.gauge("process_open_fds", "Files and sockets that are open.", &[], files.count() as f64);
    }
}
