//! The machine that something was measured on, in words.

use serde::Serialize;

/// A machine at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub system: String,
    /// Processes that ran or waited for a core over the last minute, before the measurement; above 0.5 the figures are those of a busy
    /// machine.
    pub load: f64,
}

impl Machine {
    /// Reads the system's own description; a field that it does not have is called unknown.
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let named = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = read("/proc/loadavg").split_whitespace().next().and_then(|load| load.parse().ok());
        let system = read("/proc/sys/kernel/osrelease");
        Machine {
            processor: named.map_or("unknown", |(_, name)| name).trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, system.trim()),
            load: load.unwrap_or(0.0),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.load > 0.5
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} cores of {}, {}", self.cores, self.processor, self.system)?;
        if self.is_busy() {
            write!(out, "; busy: {:.1} processes ran or waited before the measurement", self.load)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_says_so() {
        let quiet = Machine { processor: "X".into(), cores: 2, system: "linux 6".into(), load: 0.1 };
        assert_eq!(quiet.to_string(), "2 cores of X, linux 6");
        let busy = Machine { load: 1.5, ..quiet };
        assert!(busy.to_string().ends_with("busy: 1.5 processes ran or waited before the measurement"));
        assert!(Machine::here().cores >= 1);
    }
}
