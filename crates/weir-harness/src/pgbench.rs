//! Reads the summary that pgbench prints, and the latencies that it logs.

use std::io;
use std::path::Path;

/// Closing lines of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Transactions a second, without the time to connect.
    pub per_second: f64,
    pub completed: u64,
    /// Transactions that failed; 0 where pgbench does not say.
    pub failed: u64,
}

/// Reads the closing lines. None: they are not there.
pub fn summary(said: &str) -> Option<Summary> {
    let after = |words: &str| {
        let rest = said.lines().find_map(|line| line.strip_prefix(words))?;
        rest.split([' ', '/']).next()
    };
    Some(Summary {
        per_second: after("tps = ")?.parse().ok()?,
        completed: after("number of transactions actually processed: ")?.parse().ok()?,
        failed: after("number of failed transactions: ").and_then(|count| count.parse().ok()).unwrap_or(0),
    })
}

/// Takes the latencies, in microseconds, out of the logs of a run (`-l --log-prefix=PREFIX`) in that folder, and removes the logs.
///
/// # Errors
/// The folder or a log cannot be read.
pub fn take_latencies(folder: &Path, prefix: &str) -> io::Result<Vec<f64>> {
    let mut latencies = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')) {
            let text = std::fs::read_to_string(&path)?;
            latencies.extend(text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()));
            std::fs::remove_file(&path)?;
        }
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read() {
        let said = "transaction type: <builtin: TPC-B (sort of)>\n\
                    number of transactions actually processed: 9000/9001\n\
                    number of failed transactions: 3 (0.033%)\n\
                    latency average = 1.6 ms\n\
                    tps = 4512.250000 (without initial connection time)\n";
        assert_eq!(summary(said), Some(Summary { per_second: 4512.25, completed: 9000, failed: 3 }));
        assert_eq!(summary("pgbench: error"), None);
    }

    #[test]
    fn logs_are_taken() {
        let folder = std::env::temp_dir().join(format!("weir-pgbench-logs-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(
            folder.join("log.17.1"),
            "0 17 241 0 1732831234 123456\n0 18 300 0 1732831234 123500\n",
        )
        .unwrap();
        std::fs::write(folder.join("logbook"), "0 1 2\n").unwrap();
        assert_eq!(take_latencies(&folder, "log").unwrap(), [241.0, 300.0]);
        assert!(take_latencies(&folder, "log").unwrap().is_empty());
        assert!(folder.join("logbook").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
