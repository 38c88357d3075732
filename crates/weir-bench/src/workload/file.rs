//! The sections of a `workload.toml`, each value as the text of an expression with its place.
//!
//! Knows the file's shape and nothing of the names in it.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_sql::{Diagnostic, Span};
use weir_types::SqlState;

/// One `name = value` line. Strings hold expressions; numbers and booleans are expressions already.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub name_span: Span,
    pub text: String,
    /// Where `text` begins in the file.
    pub offset: u32,
}

/// `[load.<table>]` or `[parameters.<procedure>]`.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub name: String,
    pub name_span: Span,
    /// In the order of the file: a value may use the names above it.
    pub entries: Vec<Entry>,
    /// The elements of `for = […]`.
    pub loops: Vec<Entry>,
}

#[derive(Debug, Default)]
pub(crate) struct WorkloadFile {
    pub set: Vec<Entry>,
    pub load: Vec<Section>,
    pub mix: Vec<Entry>,
    pub parameters: Vec<Section>,
}

const SECTIONS: &str = "the sections are [set], [load.<table>], [mix] and [parameters.<procedure>]";

/// A file of frequencies: `name = weight` line by line, or a workload, of which [set] and [mix] count.
pub(crate) fn read_mix(file: u32, text: &str) -> Result<WorkloadFile, Vec<Diagnostic>> {
    let flat = DeTable::parse(text)
        .is_ok_and(|root| root.get_ref().iter().all(|(_, value)| value.get_ref().as_table().is_none()));
    if !flat {
        return read(file, text);
    }
    let root = parse(file, text)?;
    let mut reader = Reader { file, text, diagnostics: Vec::new() };
    let mix = reader.entries_of(root.get_ref());
    let result = WorkloadFile { mix, ..WorkloadFile::default() };
    if reader.diagnostics.is_empty() { Ok(result) } else { Err(reader.diagnostics) }
}

fn parse(file: u32, text: &str) -> Result<Spanned<DeTable<'_>>, Vec<Diagnostic>> {
    DeTable::parse(text).map_err(|error| {
        let range = error.span().unwrap_or(0..0);
        let span = Span { file, start: range.start as u32, end: range.end as u32 };
        vec![Diagnostic::new(SqlState::SYNTAX_ERROR, span, error.message().to_string())]
    })
}

struct Reader<'a> {
    file: u32,
    text: &'a str,
    diagnostics: Vec<Diagnostic>,
}

type Table<'a> = DeTable<'a>;
type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;

/// Reads the whole file; reports everything that is wrong with its shape at once.
pub(crate) fn read(file: u32, text: &str) -> Result<WorkloadFile, Vec<Diagnostic>> {
    let root = parse(file, text)?;
    let mut reader = Reader { file, text, diagnostics: Vec::new() };
    let mut result = WorkloadFile::default();
    for (key, value) in in_order(root.get_ref()) {
        match key.get_ref().as_ref() {
            "set" => result.set = reader.entries(key, value),
            "mix" => result.mix = reader.entries(key, value),
            "load" => result.load = reader.sections(key, value, true),
            "parameters" => result.parameters = reader.sections(key, value, false),
            other => reader.error(key.span(), format!("there is no section [{other}]"), SECTIONS),
        }
    }
    if reader.diagnostics.is_empty() { Ok(result) } else { Err(reader.diagnostics) }
}

/// The crate keeps its tables sorted by name; the file's order is that of the spans.
fn in_order<'a, 'i>(table: &'a Table<'i>) -> Vec<(&'a Key<'i>, &'a Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

impl Reader<'_> {
    fn span(&self, range: std::ops::Range<usize>) -> Span {
        Span { file: self.file, start: range.start as u32, end: range.end as u32 }
    }

    fn error(&mut self, range: std::ops::Range<usize>, message: String, hint: &str) {
        let span = self.span(range);
        self.diagnostics.push(Diagnostic::new(SqlState::SYNTAX_ERROR, span, message).with_hint(hint));
    }

    fn table<'a, 'i>(&mut self, key: &Key<'i>, value: &'a Spanned<DeValue<'i>>) -> Option<&'a Table<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.error(key.span(), format!("{} is a section, not a value", key.get_ref()), SECTIONS);
        }
        table
    }

    fn entries(&mut self, key: &Key<'_>, value: &Spanned<DeValue<'_>>) -> Vec<Entry> {
        self.table(key, value).map(|table| self.entries_of(table)).unwrap_or_default()
    }

    fn entries_of(&mut self, table: &Table<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (key, value) in in_order(table) {
            entries.extend(self.entry(key.get_ref(), self.span(key.span()), value));
        }
        entries
    }

    fn sections(&mut self, key: &Key<'_>, value: &Spanned<DeValue<'_>>, loops: bool) -> Vec<Section> {
        let Some(table) = self.table(key, value) else { return Vec::new() };
        let mut sections = Vec::new();
        for (key, value) in in_order(table) {
            let Some(table) = self.table(key, value) else { continue };
            let mut section = Section {
                name: key.get_ref().to_string(),
                name_span: self.span(key.span()),
                entries: Vec::new(),
                loops: Vec::new(),
            };
            for (key, value) in in_order(table) {
                if loops && key.get_ref() == "for" {
                    section.loops = self.loops(value);
                } else {
                    let entry = self.entry(key.get_ref(), self.span(key.span()), value);
                    section.entries.extend(entry);
                }
            }
            sections.push(section);
        }
        sections
    }

    fn loops(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Entry> {
        let Some(array) = value.get_ref().as_array() else {
            let hint = "as in for = [\"warehouse\", \"d in 1..10\"]";
            self.error(value.span(), "for takes a list of loops".to_string(), hint);
            return Vec::new();
        };
        array.iter().filter_map(|item| self.entry("for", self.span(item.span()), item)).collect()
    }

    fn entry(&mut self, name: &str, name_span: Span, value: &Spanned<DeValue<'_>>) -> Option<Entry> {
        let range = value.span();
        let raw = self.text.get(range.clone()).unwrap_or("");
        let (text, offset) = match value.get_ref() {
            // A string without escapes stands in the file as it is, so places in it are exact.
            DeValue::String(text) => {
                let start = raw.find(text.as_ref()).unwrap_or(0);
                (text.to_string(), range.start + start)
            }
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => (raw.to_string(), range.start),
            _ => {
                let hint = "a value is a number, true, false or an expression in quotes, as in \
                            \"uniform(1, 10)\"";
                self.error(range, format!("{name} cannot be a list, a table or a date"), hint);
                return None;
            }
        };
        Some(Entry { name: name.to_string(), name_span, text, offset: offset as u32 })
    }
}
