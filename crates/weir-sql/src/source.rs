//! Source files, places in them, and messages that point at a place.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use weir_types::SqlState;

/// The texts of one application, in the order in which they are loaded. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub files: Vec<Arc<SourceFile>>,
}

/// Its text never changes: places are looked up in a table of lines that is made once.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// As the user typed it, for messages: `examples/tpcc/schema.sql`.
    pub name: String,
    pub text: String,
    /// Beginning of each line, computed at the first use.
    lines: OnceLock<Vec<u32>>,
}

impl SourceFile {
    pub fn new(name: String, text: String) -> SourceFile {
        SourceFile { name, text, lines: OnceLock::new() }
    }

    /// The number of the line (from 0) that a byte is on, and where the line begins.
    fn line_of(&self, byte: usize) -> (usize, usize) {
        let newlines = || self.text.bytes().zip(1..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next);
        let lines = self.lines.get_or_init(|| std::iter::once(0).chain(newlines()).collect());
        let line = lines.partition_point(|&start| start as usize <= byte).saturating_sub(1);
        (line, lines[line] as usize)
    }
}

/// A byte range of one source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    pub file: u32,
    pub start: u32,
    pub end: u32,
}

/// A place as people and editors count it, from 1; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl Sources {
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        self.files.push(Arc::new(SourceFile::new(name.into(), text.into())));
        (self.files.len() - 1) as u32
    }

    pub fn place(&self, span: Span) -> Place {
        let Some(file) = self.files.get(span.file as usize) else {
            return Place { file: String::new(), line: 1, column: 1 };
        };
        let mut start = (span.start as usize).min(file.text.len());
        while !file.text.is_char_boundary(start) {
            start -= 1;
        }
        let (line, line_start) = file.line_of(start);
        Place {
            file: file.name.clone(),
            line: line as u32 + 1,
            column: file.text[line_start..start].chars().count() as u32 + 1,
        }
    }

    /// The place with the rest of the characters that it cuts.
    pub(crate) fn whole(&self, span: Span) -> Span {
        let Some(file) = self.files.get(span.file as usize) else { return span };
        let length = file.text.len();
        let (mut start, mut end) = ((span.start as usize).min(length), (span.end as usize).min(length));
        while !file.text.is_char_boundary(start) {
            start -= 1;
        }
        while !file.text.is_char_boundary(end) {
            end += 1;
        }
        Span { start: start as u32, end: end.max(start) as u32, ..span }
    }

    pub fn text(&self, span: Span) -> &str {
        self.files
            .get(span.file as usize)
            .and_then(|file| file.text.get(span.start as usize..span.end as usize))
            .unwrap_or("")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A problem in the input, its position, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub state: SqlState,
    pub message: String,
    pub hint: Option<String>,
    pub span: Span,
    pub severity: Severity,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Skipped without any influence on the results.
    Info,
    /// Not understood: left out, or replaced by something more general.
    Warning,
    /// The input is wrong.
    Error,
}

impl Diagnostic {
    pub fn new(state: SqlState, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { state, message: message.into(), hint: None, span, severity: Severity::Error }
    }

    /// A feature that Weir does not have: its name, and what works instead.
    pub fn unsupported(span: Span, what: impl fmt::Display, instead: impl Into<String>) -> Diagnostic {
        Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, span, format!("{what} is not supported"))
            .with_hint(instead)
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let mut sources = Sources::default();
        let file = sources.add("a.sql", "é\nsecond line\n\nlast");
        for (start, line, column) in [
            (0, 1, 1),
            (2, 1, 2),
            (3, 2, 1),
            (10, 2, 8),
            (14, 2, 12),
            (15, 3, 1),
            (16, 4, 1),
            (20, 4, 5),
            (99, 4, 5),
        ] {
            let place = sources.place(Span { file, start, end: start });
            assert_eq!((place.line, place.column), (line, column), "byte {start}");
        }
        // Within a character: its beginning.
        assert_eq!(sources.place(Span { file, start: 1, end: 1 }).column, 1);
    }
}
