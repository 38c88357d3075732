//! Standard output and standard error, and the two kinds of failure of a command.
//!
//! Escape codes reach a terminal only. A reader that closes the pipe early is no error.

use std::io::Write;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();

/// Why a command does not end with exit code 0.
#[derive(Debug)]
pub enum Failure {
    /// Exit code 1: something was checked and found wrong. Without a message the output has said what.
    Check(Option<String>),
    /// Exit code 2: the message says what is wrong with the input, where, and what would be right.
    Input(String),
    /// Invalid SQL, with each error for scripts: `message`, `state`, `hint`, `source`.
    Refused { message: String, errors: Vec<Value> },
}

impl Failure {
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::Input(message.into())
    }

    /// The message, if there is one.
    pub fn message(&self) -> &str {
        match self {
            Failure::Check(message) => message.as_deref().unwrap_or_default(),
            Failure::Input(message) | Failure::Refused { message, .. } => message,
        }
    }

    /// JSON document of the errors for scripts, in place of the result.
    pub fn document(&self) -> Option<Value> {
        let errors = match self {
            Failure::Check(_) => return None,
            Failure::Refused { errors, .. } => errors.clone(),
            Failure::Input(message) => {
                let (message, hint) = match message.split_once("\nhint: ") {
                    Some((message, hint)) => (message, Some(hint)),
                    None => (message.as_str(), None),
                };
                vec![json!({ "message": message, "hint": hint })]
            }
        };
        Some(json!({ "version": 1, "errors": errors }))
    }
}

/// `text` in this style; the codes are dropped again on the way to anything but a terminal.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

pub fn print(text: &str) {
    let mut out = anstream::stdout();
    // A closed pipe (`weir … | head`) is the reader's good right.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Progress and other remarks that are not the result.
pub fn print_remark(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Paints the words that a message of ours begins its lines with.
pub fn print_error(message: &str) {
    let mut text = String::new();
    for (index, line) in message.lines().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let painted = if let Some((place, rest)) = line.split_once(": error: ") {
            format!("{}: {} {rest}", styled(STRONG, place), styled(ERROR, "error:"))
        } else if let Some(rest) = line.trim_start().strip_prefix("hint: ") {
            format!("{} {rest}", styled(GOOD, "hint:"))
        } else {
            line.to_owned()
        };
        text.push_str(&painted);
    }
    print_remark(&text);
}

/// Columns of the terminal, within what a table reads well in.
pub fn width() -> u16 {
    const WITHOUT_TERMINAL: u16 = 110;
    // Below that no table can be read.
    let (narrowest, widest) = (40, 140);
    terminal_size::terminal_size().map_or(WITHOUT_TERMINAL, |(width, _)| width.0).clamp(narrowest, widest)
}

/// Writes a file that the user named.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        Failure::input(format!(
            "{}: error: cannot write: {error}\nhint: name a file in a directory that exists and is yours",
            path.display()
        ))
    })
}

/// One JSON document and a newline.
pub fn print_json(document: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(document).expect("every key of our documents is a string");
    print(&format!("{text}\n"));
}
