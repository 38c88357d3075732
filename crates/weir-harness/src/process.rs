//! A program that is started for a measurement, and ends with its value.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts the program and waits until it says, in a line on its standard error, that it is ready.
    ///
    /// # Errors
    /// It cannot be started, it ends before it is ready, or `patience` is over; the message has what it said.
    pub fn start(
        command: &mut Command,
        patience: Duration,
        mut is_ready: impl FnMut(&str) -> bool,
    ) -> Result<Process, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let stderr = child.stderr.take().expect("it is piped");
        // From here on dropping it cleans up.
        let process = Process(child);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // It goes on reading when the receiver is gone, so that the program can go on writing.
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let until = Instant::now() + patience;
        let mut said = String::new();
        while let Ok(line) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if is_ready(&line) {
                return Ok(process);
            }
            said.push_str(&line);
            said.push('\n');
        }
        Err(format!("{program} does not start:\n{said}"))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as ^C does, and waits until it has ended.
    ///
    /// # Errors
    /// It had ended before, or it ends with a failure.
    pub fn interrupt(mut self) -> Result<(), String> {
        let told = Command::new("kill").args(["-INT", &self.id().to_string()]).status();
        let told = told.map_err(|error| format!("kill: {error}"))?;
        let ended = self.0.wait().map_err(|error| error.to_string())?;
        match told.success() && ended.success() {
            true => Ok(()),
            false => Err(format!("a process that was interrupted ended with {ended}")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then its clients have said so.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<Process, String> {
        Process::start(Command::new("sh").args(["-c", script]), patience, |line| line == "ready")
    }

    #[test]
    fn a_program_is_ready_when_it_says_so() {
        let long = Duration::from_secs(60);
        let process = shell("trap 'exit 0' INT; echo ready >&2; while :; do read -t 1 x; done", long);
        assert!(process.is_ok());
        assert_eq!(shell("echo sorry >&2", long).unwrap_err(), "sh does not start:\nsorry\n");
        assert_eq!(
            shell("exec sleep 1000", Duration::ZERO).unwrap_err(),
            "sh does not start:\n",
            "it is killed, or this test would not end"
        );
        let absent = Process::start(&mut Command::new("/no/such/program"), long, |_| true).unwrap_err();
        assert!(absent.starts_with("/no/such/program: "));
    }

    #[test]
    fn an_interrupted_program_says_how_it_ended() {
        let long = Duration::from_secs(60);
        let ends = |code: u32| {
            let script = format!("trap 'exit {code}' INT; echo ready >&2; while :; do sleep 0.01; done");
            shell(&script, long).unwrap().interrupt()
        };
        assert_eq!(ends(0), Ok(()));
        assert!(ends(3).unwrap_err().ends_with("exit status: 3"));
    }
}
