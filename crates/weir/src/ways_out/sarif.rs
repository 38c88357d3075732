//! SARIF 2.1.0, as code scanning services take it.

use serde_json::{Value, json};
use weir_analysis::{Severity, registry};
use weir_sql::{Application, Span};

use super::baseline::FINGERPRINT;
use super::{Outcome, Shown};
use crate::explanation::EXPLANATIONS;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

pub fn document(app: &Application, outcome: &Outcome) -> Value {
    let used: Vec<&registry::Kind> = registry::KINDS
        .iter()
        .filter(|kind| outcome.shown.iter().any(|one| one.reported.kind == *kind))
        .collect();
    let results = outcome.shown.iter().map(|one| result(app, outcome, &used, one));
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "weir",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": used.iter().map(|kind| rule(kind)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn rule(kind: &registry::Kind) -> Value {
    let explanation = EXPLANATIONS.iter().find(|explanation| explanation.name == kind.name);
    let text = |of: fn(&crate::explanation::Explanation) -> &'static str| explanation.map_or(kind.name, of);
    let help = format!("{}\n\nFor example: {}", text(|one| one.mend), text(|one| one.example));
    json!({
        "id": kind.id,
        "name": kind.name,
        "shortDescription": {"text": text(|one| one.title)},
        "fullDescription": {"text": text(|one| one.meaning)},
        "help": {"text": help},
    })
}

fn result(app: &Application, outcome: &Outcome, used: &[&registry::Kind], one: &Shown) -> Value {
    let reported = &one.reported;
    let remedy = reported.remedy.as_ref().map_or(String::new(), |remedy| format!(" Remedy: {remedy}."));
    let mut result = json!({
        "ruleId": reported.kind.id,
        "ruleIndex": used.iter().position(|kind| *kind == reported.kind),
        "level": match reported.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        },
        "message": {"text": format!("{}{remedy}", reported.message)},
        "locations": [location(app, reported.span)],
        "partialFingerprints": {FINGERPRINT: reported.fingerprint},
    });
    if let Some(reason) = &one.allowed {
        result["suppressions"] = json!([{"kind": "inSource", "justification": reason}]);
    }
    if outcome.has_baseline {
        result["baselineState"] = json!(if one.known { "unchanged" } else { "new" });
    }
    result
}

fn location(app: &Application, span: Span) -> Value {
    let start = app.sources.place(span);
    let end = app.sources.place(Span { start: span.end.max(span.start), ..span });
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(&start.file)},
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column.max(1),
        },
    }})
}

/// A path as a reference: what must not stand in one is escaped.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(byte as char)
            }
            b'\\' => uri.push('/'),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    if path.starts_with('/') { format!("file://{uri}") } else { uri }
}
