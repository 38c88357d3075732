//! Service times that were measured on a real server (testdata/conveyor-costs.jsonl): one line for each operation, and one for each step of
//! the protocols.

use serde::{Deserialize, Serialize};

/// The file that was committed before the simulator ran; its first lines say how it was measured.
pub const MEASURED: &str = include_str!("../../../testdata/conveyor-costs.jsonl");

/// Class of an operation, as the analysis gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    Commutative,
    Local,
    Global,
    LocalGlobal,
}

/// A key that routes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Any server will do.
    Any,
    /// An id of the client itself: its cart, its number. Over sites it routes to the site of the client, which has given it (§6, "server-specific
    /// unique ids").
    Own,
    /// Another id, which routes to any server.
    Other,
}

/// An operation with what was measured of it, alone on a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub application: String,
    pub operation: String,
    pub class: Class,
    pub home: Home,
    pub reads_only: bool,
    /// Relative frequency, by mix: the mix of the paper first.
    pub weights: Vec<u64>,
    /// Processor time of the server in one SERIALIZABLE transaction, its COMMIT included.
    pub cpu_us: f64,
    /// The same as a global operation, with the locked epoch row and the triggers. 0 unless it is global.
    pub global_us: f64,
    /// Time that it waits without using the processor.
    #[serde(default)]
    pub wait_us: f64,
    /// Rows in the outbox, on average.
    pub rows: f64,
    /// Servers beside its own whose rows it reads or writes one by one, if tables are partitioned as the analysis says.
    pub others: u32,
    /// Of these, and of its own one, the servers that it writes at.
    pub writes_at: u32,
    /// It looks for rows that may be at any server.
    pub all: bool,
    /// Each server does all of its work: the first rows of an order are to be found at each.
    #[serde(default)]
    pub repeats: bool,
}

/// Steps of the protocols, in microseconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// A transaction that reads one row: the least that a participant of a distributed one costs.
    pub read_participant_us: f64,
    /// The same of a transaction that writes one row.
    pub write_participant_us: f64,
    /// Sending a statement to another server and reading its answer, at the server that coordinates.
    pub exchange_us: f64,
    /// PREPARE TRANSACTION and COMMIT PREPARED instead of COMMIT.
    pub prepare_us: f64,
    pub commit_prepared_us: f64,
    /// The end of a visit; reading its outbox: once, and for each row.
    pub end_us: f64,
    pub read_us: f64,
    pub read_row_us: f64,
    /// Applying a visit: once, and for each row.
    pub apply_us: f64,
    pub apply_row_us: f64,
    /// Deleting outboxes.
    pub truncate_us: f64,
    /// A transaction that is not global checks the map of slots: the processor time of that check.
    #[serde(default)]
    pub check_us: f64,
    /// Time in which a commit waits for the disk.
    pub flush_us: f64,
}

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Operation(Box<Operation>),
    Steps { steps: Steps },
    Note { note: String },
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    pub operations: Vec<Operation>,
    pub steps: Steps,
    pub notes: Vec<String>,
}

impl Costs {
    /// # Errors
    /// A line is wrong, or the steps are missing.
    pub fn read(text: &str) -> Result<Costs, String> {
        let mut costs = Costs::default();
        let mut has_steps = false;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line = serde_json::from_str(line).map_err(|error| {
                format!("line {}: {error}; a line is an operation, the steps or a note", number + 1)
            })?;
            match line {
                Line::Operation(operation) => costs.operations.push(*operation),
                Line::Steps { steps } => (costs.steps, has_steps) = (steps, true),
                Line::Note { note } => costs.notes.push(note),
            }
        }
        match has_steps {
            true => Ok(costs),
            false => Err("there is no line with the steps of the protocols".into()),
        }
    }

    /// The operations of an application.
    pub fn of(&self, application: &str) -> Vec<Operation> {
        self.operations.iter().filter(|operation| operation.application == application).cloned().collect()
    }
}

impl Steps {
    /// All processor times and the disk's multiplied.
    pub fn scaled(self, by: f64) -> Steps {
        Steps {
            read_participant_us: self.read_participant_us * by,
            write_participant_us: self.write_participant_us * by,
            exchange_us: self.exchange_us * by,
            prepare_us: self.prepare_us * by,
            commit_prepared_us: self.commit_prepared_us * by,
            end_us: self.end_us * by,
            read_us: self.read_us * by,
            read_row_us: self.read_row_us * by,
            apply_us: self.apply_us * by,
            apply_row_us: self.apply_row_us * by,
            truncate_us: self.truncate_us * by,
            check_us: self.check_us * by,
            flush_us: self.flush_us * by,
        }
    }
}
