//! A diagnostic as people read it: the place, the message, the line with a caret under it, the remedy.

use weir_sql::{Diagnostic, Sources, Span};

/// The most diagnostics that are shown at once; the rest are mostly consequences of the first.
const SHOWN_MAX: usize = 20;

pub fn render_all(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let mut shown: Vec<String> =
        diagnostics.iter().take(SHOWN_MAX).map(|diagnostic| render(sources, diagnostic)).collect();
    if diagnostics.len() > SHOWN_MAX {
        shown.push(format!("… and {} more", diagnostics.len() - SHOWN_MAX));
    }
    shown.join("\n\n")
}

/// `file:line:column: error: message`, the excerpt, and `hint:` if there is one.
pub fn render(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let place = sources.place(diagnostic.span);
    let mut text = format!("{place}: error: {} (SQLSTATE {})", diagnostic.message, diagnostic.state);
    if let Some(excerpt) = excerpt(sources, diagnostic.span) {
        text.push('\n');
        text.push_str(&excerpt);
    }
    if let Some(hint) = &diagnostic.hint {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    text
}

/// The line that the span begins in, and carets under as much of the span as is on it.
pub fn excerpt(sources: &Sources, span: Span) -> Option<String> {
    let file = sources.files.get(span.file as usize)?;
    let place = sources.place(span);
    let line = file.text.lines().nth(place.line as usize - 1)?;
    let before = place.column as usize - 1;
    let length = sources.text(span).lines().next().unwrap_or("").trim_end().chars().count().max(1);

    let mut shown = String::new();
    let mut carets = String::new();
    for (index, c) in line.chars().enumerate() {
        let piece = printable(c);
        let mark = if index < before {
            ' '
        } else if index < before + length {
            '^'
        } else {
            '\0'
        };
        if mark != '\0' {
            carets.extend(std::iter::repeat_n(mark, piece.chars().count()));
        }
        shown.push_str(&piece);
    }
    if before >= line.chars().count() {
        carets.push('^');
    }
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let shown = shown.trim_end();
    Some(format!(" {margin} |\n {number} | {shown}\n {margin} | {}", carets.trim_end()))
}

/// Tabs become spaces so that carets line up; control characters must not reach the terminal.
fn printable(c: char) -> String {
    match c {
        '\t' => "    ".to_owned(),
        c if c.is_control() => "\u{fffd}".to_owned(),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_types::SqlState;

    #[track_caller]
    fn check(text: &str, marked: &str, expect: &str) {
        let mut sources = Sources::default();
        let file = sources.add("a.sql", text);
        let start = text.find(marked).expect("the marked text is in the file") as u32;
        let span = Span { file, start, end: start + marked.len() as u32 };
        let diagnostic =
            Diagnostic::new(SqlState::UNDEFINED_COLUMN, span, "no such column").with_hint("use b");
        assert_eq!(render(&sources, &diagnostic), expect);
    }

    #[test]
    fn the_caret_stands_under_the_word() {
        check(
            "SELECT 1;\nSELECT aa FROM t;\n",
            "aa",
            "a.sql:2:8: error: no such column (SQLSTATE 42703)\n   |\n 2 | SELECT aa FROM t;\n   |        ^^\nhint: use b",
        );
    }

    #[test]
    fn tabs_and_other_scripts_keep_the_caret_in_place() {
        check(
            "\tö aa",
            "aa",
            "a.sql:1:4: error: no such column (SQLSTATE 42703)\n   |\n 1 |     ö aa\n   |       ^^\nhint: use b",
        );
    }

    #[test]
    fn a_span_over_lines_marks_the_first() {
        check(
            "CHECK (a\n > b)",
            "(a\n > b)",
            "a.sql:1:7: error: no such column (SQLSTATE 42703)\n   |\n 1 | CHECK (a\n   |       ^^\nhint: use b",
        );
    }

    #[test]
    fn the_end_of_the_file_is_a_place_too() {
        let mut sources = Sources::default();
        let file = sources.add("a.sql", "SELECT");
        let excerpt = excerpt(&sources, Span { file, start: 6, end: 6 }).unwrap();
        assert_eq!(excerpt, "   |\n 1 | SELECT\n   |       ^");
    }
}
