//! Watches the process that runs the cases, and makes small what has ended it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::Options;
use crate::case::Case;
use crate::corpus::Corpus;

/// A case that takes that much of a processor does not end.
const STANDSTILL_SECONDS: u64 = 30;
/// Number of findings after which the search ends: they probably have the same cause.
const FINDINGS_MAX: usize = 3;
/// Behind the cases that every seed begins with.
const PLANTED_FROM: u64 = 1000;
/// How often a finding is run again to make one of its files smaller.
const SHRINK_RUNS_MAX: usize = 60;

/// A search, as it was asked for.
pub struct Watch(Options);

impl Watch {
    pub fn new(options: Options) -> Watch {
        Watch(options)
    }

    pub fn search(&self) -> ExitCode {
        let Options { seed, seconds, findings: folder, .. } = &self.0;
        let corpus = Corpus::read();
        let until = Instant::now() + Duration::from_secs(*seconds);
        let mut findings = 0;
        // One planted bug is found once, among the cases that chance has made.
        let (first, most) = match self.0.plant {
            Some(_) => (PLANTED_FROM, 1),
            None => (0, FINDINGS_MAX),
        };
        let mut next = first;
        while Instant::now() < until && findings < most {
            let (reached, ended) = self.watch(next, until);
            next = reached + 1;
            let Some(how) = ended else { break };
            findings += 1;
            eprintln!("weir-fuzz: seed {seed}, case {reached}: {how}");
            let case = self.smaller(Case::make(*seed, reached, &corpus), &how);
            let folder = folder.join(format!("{seed}-{reached}"));
            let _ = std::fs::remove_dir_all(&folder);
            match case.save(&folder) {
                Ok(()) => eprintln!("weir-fuzz: cargo xtask fuzz --replay {}", folder.display()),
                Err(error) => eprintln!("weir-fuzz: {}: {error}", folder.display()),
            }
        }
        eprintln!("weir-fuzz: {} cases of seed {seed}, {findings} without an answer", next - first);
        if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn start(&self, arguments: &[&str], stderr: Stdio) -> std::io::Result<Child> {
        let plant = self.0.plant.map(|plant| ["--plant", plant.name()]);
        Command::new(std::env::current_exe()?)
            .args(arguments)
            .args(plant.iter().flatten())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
    }

    /// The last case that was begun, and how the process ended; `None` when the time was up.
    fn watch(&self, from: u64, until: Instant) -> (u64, Option<String>) {
        let (seed, first) = (self.0.seed.to_string(), from.to_string());
        let mut child = match self.start(&["--seed", &seed, "--work", &first], Stdio::inherit()) {
            Ok(child) => child,
            Err(error) => return (from, Some(format!("the process does not start: {error}"))),
        };
        let numbers = lines(&mut child);
        let mut reached = from;
        let mut used = processor_seconds(child.id());
        let ended = loop {
            match numbers.recv_timeout(Duration::from_secs(1)) {
                Ok(number) => {
                    reached = number;
                    used = processor_seconds(child.id());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if processor_seconds(child.id()) - used > STANDSTILL_SECONDS {
                        break Some("does not end".to_owned());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = child.wait();
                    break Some(status.map_or_else(|error| error.to_string(), |status| status.to_string()));
                }
            }
            if Instant::now() >= until {
                break None;
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        (reached, ended)
    }

    /// Leaves away what it can without losing the way in which it ends: all but a piece of a file, or a piece.
    fn smaller(&self, mut case: Case, how: &str) -> Case {
        for file in 0..case.files.len() {
            let (mut runs, mut pieces) = (0, 1);
            while runs < SHRINK_RUNS_MAX {
                let text: Vec<char> = case.files[file].1.chars().collect();
                if text.is_empty() || pieces > text.len() {
                    break;
                }
                let parts: Vec<&[char]> = text.chunks(text.len().div_ceil(pieces)).collect();
                let alone = parts.iter().filter(|_| pieces > 1).map(|part| part.to_vec());
                let without = (0..parts.len()).map(|gone| {
                    let kept = parts.iter().enumerate().filter(|(at, _)| *at != gone);
                    kept.flat_map(|(_, part)| part.iter().copied()).collect()
                });
                let mut candidates = alone.chain(without).map(|left: Vec<char>| {
                    let mut smaller = case.clone();
                    smaller.files[file].1 = left.into_iter().collect();
                    smaller
                });
                let found = candidates.find(|smaller| {
                    runs += 1;
                    runs <= SHRINK_RUNS_MAX && self.ends(smaller).as_deref() == Some(how)
                });
                match found {
                    Some(found) => (case, pieces) = (found, pieces.min(2)),
                    None => pieces *= 2,
                }
            }
        }
        case
    }

    /// How a process with this case alone ends, if not well.
    fn ends(&self, case: &Case) -> Option<String> {
        let folder = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        case.save(&folder).ok()?;
        let mut child = self.start(&["--replay", &folder.display().to_string()], Stdio::null()).ok()?;
        let ended = loop {
            if let Some(status) = child.try_wait().ok()? {
                break (!status.success()).then(|| status.to_string());
            }
            if processor_seconds(child.id()) > STANDSTILL_SECONDS {
                let _ = child.kill();
                let _ = child.wait();
                break Some("does not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let _ = std::fs::remove_dir_all(&folder);
        ended
    }
}

fn lines(child: &mut Child) -> Receiver<u64> {
    let (sender, receiver) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(number) = line.parse() else { continue };
                if sender.send(number).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// Processor seconds used by the process, independent of other load; zero if unknown, and then a hang is not detected.
fn processor_seconds(process: u32) -> u64 {
    const TICKS_A_SECOND: u64 = 100;
    let Ok(text) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return 0 };
    // The 12th and 13th words after the program's name in parentheses.
    let behind = text.rsplit(')').next().unwrap_or("");
    let words = behind.split_whitespace().skip(11).take(2);
    words.filter_map(|word| word.parse::<u64>().ok()).sum::<u64>() / TICKS_A_SECOND
}
