//! `weir serve` without a cluster file, for tests that define its schema.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub struct Alone {
    _place: TempDir,
    process: Child,
    port: u16,
}

impl Alone {
    pub fn start(shards: u16) -> Alone {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("said.txt");
        let process = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--listen", "127.0.0.1:0", "--shards", &shards.to_string(), "--data"])
            .arg(place.path().join("data"))
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut alone = Alone { _place: place, process, port: 0 };
        let patience = Instant::now();
        loop {
            let said = std::fs::read_to_string(&log).unwrap();
            let port = said.split("protocol on 127.0.0.1:").nth(1).and_then(|rest| rest.split(',').next());
            if let Some(port) = port {
                alone.port = port.parse().unwrap();
                return alone;
            }
            assert!(patience.elapsed() < Duration::from_secs(120), "it does not start:\n{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn url(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=weir", self.port)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
