//! GitHub's workflow commands: one annotation for each finding that counts.

use std::fmt::Write as _;

use weir_analysis::Severity;
use weir_sql::Application;

use super::Outcome;

pub fn annotations(app: &Application, outcome: &Outcome) -> String {
    let mut text = String::new();
    for one in outcome.shown.iter().filter(|one| one.counts()) {
        let reported = &one.reported;
        let place = app.sources.place(reported.span);
        let command = match reported.severity {
            Severity::Note => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let title = format!("{} {}", reported.kind.id, reported.kind.name);
        let remedy = reported.remedy.as_ref().map_or(String::new(), |remedy| format!("\nRemedy: {remedy}"));
        let _ = writeln!(
            text,
            "::{command} file={},line={},col={},title={}::{}",
            property(&place.file),
            place.line,
            place.column,
            property(&title),
            data(&format!("{}{remedy}", reported.message))
        );
    }
    text
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
