//! Source files, places in them, and messages that point at a place.

use std::fmt;

use weir_types::SqlState;

/// The texts of one application, in the order in which they are loaded.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub files: Vec<SourceFile>,
}

#[derive(Clone, Debug)]
pub struct SourceFile {
    /// As the user typed it, for messages: `examples/tpcc/schema.sql`.
    pub name: String,
    pub text: String,
}

/// A byte range of one source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
        self.files.push(SourceFile { name: name.into(), text: text.into() });
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
        let before = &file.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            file: file.name.clone(),
            line: before.bytes().filter(|&byte| byte == b'\n').count() as u32 + 1,
            column: before[line_start..].chars().count() as u32 + 1,
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

/// What is wrong with the input, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub state: SqlState,
    pub message: String,
    pub hint: Option<String>,
    pub span: Span,
    pub severity: Severity,
}

/// What a diagnostic means for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Passed over, and nothing that can be said of the application depends on it.
    Info,
    /// Not understood: it was left out, or something more general stands in its place.
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
