//! The three formats in which PostgreSQL writes its log, as entries: csvlog, jsonlog and stderr.
//!
//! Told apart by the first line. What is no entry is told to the caller, and reading goes on behind it.

use serde_json::Value;

/// One entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Byte at which it begins.
    pub at: usize,
    /// Which connection wrote it; empty where the log does not say.
    pub session: String,
    pub severity: String,
    pub message: String,
    pub detail: String,
}

/// Calls `take` with every entry, or with the bytes of what is none.
pub(super) fn entries(text: &str, take: &mut dyn FnMut(Result<Entry, (usize, usize)>)) {
    let first = text.trim_start();
    if first.starts_with('{') {
        json(text, take);
    } else if is_csv(first) {
        csv(text, take);
    } else {
        stderr(text, take);
    }
}

/// `2026-01-31 12:00:00.123 UTC,"user","database",…`
fn is_csv(text: &str) -> bool {
    let line = text.lines().next().unwrap_or("");
    let time = line.split(',').next().unwrap_or("");
    let starts_with_time = time.starts_with(|c: char| c.is_ascii_digit()) && time.contains(':');
    starts_with_time && !time.contains("  ") && line.split(',').count() >= CSV_COLUMNS_MIN / 2
}

/// Up to `application_name`, as PostgreSQL 9.0 had them; later versions add columns behind it.
const CSV_COLUMNS_MIN: usize = 23;
const CSV_SESSION: usize = 5;
const CSV_SEVERITY: usize = 11;
const CSV_MESSAGE: usize = 13;
const CSV_DETAIL: usize = 14;

fn csv(text: &str, take: &mut dyn FnMut(Result<Entry, (usize, usize)>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let mut fields: Vec<String> = Vec::new();
        loop {
            let (field, end) = csv_field(text, at);
            fields.push(field);
            at = end + 1;
            if bytes.get(end) != Some(&b',') {
                break;
            }
        }
        let end = at.min(bytes.len());
        if fields.len() < CSV_COLUMNS_MIN {
            if !text[start..end].trim().is_empty() {
                // An unclosed quote swallows the rest: go on at the next line instead.
                at = text[start..].find('\n').map_or(bytes.len(), |newline| start + newline + 1);
                take(Err((start, at)));
            }
            continue;
        }
        let mut field = |index: usize| std::mem::take(&mut fields[index]);
        take(Ok(Entry {
            at: start,
            session: field(CSV_SESSION),
            severity: field(CSV_SEVERITY),
            message: field(CSV_MESSAGE),
            detail: field(CSV_DETAIL),
        }));
    }
}

/// The field that begins there, and the byte behind it: a comma, a newline or the end.
fn csv_field(text: &str, start: usize) -> (String, usize) {
    let bytes = text.as_bytes();
    let plain_end = |from: usize| {
        bytes[from..].iter().position(|byte| matches!(byte, b',' | b'\n')).map_or(bytes.len(), |at| from + at)
    };
    if bytes.get(start) != Some(&b'"') {
        let end = plain_end(start.min(bytes.len()));
        return (text.get(start..end).unwrap_or("").trim_end_matches('\r').to_owned(), end);
    }
    let mut field = String::new();
    let mut at = start + 1;
    loop {
        let Some(quote) = text[at..].find('"').map(|found| at + found) else {
            field.push_str(&text[at..]);
            return (field, bytes.len());
        };
        field.push_str(&text[at..quote]);
        at = quote + 1;
        if bytes.get(at) != Some(&b'"') {
            return (field, plain_end(at));
        }
        field.push('"');
        at += 1;
    }
}

fn json(text: &str, take: &mut dyn FnMut(Result<Entry, (usize, usize)>)) {
    for (at, line) in lines(text) {
        if line.trim().is_empty() {
            continue;
        }
        let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(line) else {
            take(Err((at, at + line.len())));
            continue;
        };
        let field = |name: &str| match fields.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let session = match field("session_id") {
            id if id.is_empty() => field("pid"),
            id => id,
        };
        let (severity, message) = (field("error_severity"), field("message"));
        take(Ok(Entry { at, session, severity, message, detail: field("detail") }));
    }
}

/// Where each line begins, and the line with its end.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        at += line.len();
        (at - line.len(), line)
    })
}

/// Labels after the prefix of an entry, or of a continuation of one.
const LABELS: [&str; 19] = [
    "LOG",
    "ERROR",
    "FATAL",
    "PANIC",
    "WARNING",
    "NOTICE",
    "INFO",
    "DEBUG",
    "DEBUG1",
    "DEBUG2",
    "DEBUG3",
    "DEBUG4",
    "DEBUG5",
    "DETAIL",
    "HINT",
    "CONTEXT",
    "STATEMENT",
    "QUERY",
    "LOCATION",
];

fn stderr(text: &str, take: &mut dyn FnMut(Result<Entry, (usize, usize)>)) {
    let mut entry: Option<Entry> = None;
    // Which part of the entry the lines that begin with a tab go on with.
    let mut label = "";
    for (at, line) in lines(text) {
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(more) = line.strip_prefix('\t') {
            let Some(entry) = &mut entry else { continue };
            let part = match label {
                "DETAIL" => &mut entry.detail,
                _ if is_severity(label) => &mut entry.message,
                _ => continue,
            };
            part.push('\n');
            part.push_str(more);
            continue;
        }
        let Some((prefix, found, rest)) = labelled(line) else {
            if !line.trim().is_empty() {
                take(Err((at, at + line.len())));
            }
            label = "";
            continue;
        };
        label = found;
        match (found, &mut entry) {
            ("DETAIL", Some(entry)) if entry.session == session_of(prefix) => {
                rest.clone_into(&mut entry.detail)
            }
            _ if is_severity(found) => {
                let (severity, message) = (found.to_owned(), rest.to_owned());
                let session = session_of(prefix);
                let next = Entry { at, session, severity, message, detail: String::new() };
                if let Some(done) = entry.replace(next) {
                    take(Ok(done));
                }
            }
            _ => {}
        }
    }
    if let Some(done) = entry {
        take(Ok(done));
    }
}

fn is_severity(label: &str) -> bool {
    !matches!(label, "" | "DETAIL" | "HINT" | "CONTEXT" | "STATEMENT" | "QUERY" | "LOCATION")
}

/// Prefix, label and text of a line, as in `… [123] LOG:  statement: …`: at the first label that there is.
fn labelled(line: &str) -> Option<(&str, &'static str, &str)> {
    let found = line.match_indices(":  ").find_map(|(colon, _)| {
        let before = &line[..colon];
        let label = LABELS.iter().find(|label| {
            before
                .strip_suffix(**label)
                .is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
        })?;
        Some((colon, *label))
    });
    let (colon, label) = found?;
    Some((&line[..colon - label.len()], label, &line[colon + 3..]))
}

/// Connection identity in a prefix: `%c`, or the process number, in brackets or alone.
fn session_of(prefix: &str) -> String {
    let words =
        || prefix.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '[' | ']' | '-' | ':')));
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let session_id = words().map(|word| word.trim_matches(['[', ']', ':'])).find(|word| {
        let parts = word.split_once('.');
        parts.is_some_and(|(start, pid)| start.len() == 8 && is_hex(start) && is_hex(pid))
    });
    if let Some(id) = session_id {
        return id.to_owned();
    }
    let bracketed = prefix.match_indices('[').find_map(|(at, _)| {
        let inner = prefix[at + 1..].split([']', '-']).next()?;
        (!inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit())).then_some(inner)
    });
    let alone = || words().rfind(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_digit()));
    bracketed.or_else(alone).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let mut found = Vec::new();
        entries(text, &mut |entry| {
            found.push(match entry {
                Ok(entry) => {
                    format!("{} {} {:?} {:?}", entry.session, entry.severity, entry.message, entry.detail)
                }
                Err((start, end)) => format!("no entry: {:?}", &text[start..end]),
            });
        });
        assert_eq!(found, expect);
    }

    #[test]
    fn stderr_with_prefixes() {
        check(
            "2026-01-31 12:00:00.123 UTC [123] LOG:  statement: SELECT 1,\n\t\t2\n\
             2026-01-31 12:00:00.124 UTC [124] bob@shop LOG:  execute <unnamed>: SELECT $1\n\
             2026-01-31 12:00:00.124 UTC [124] bob@shop DETAIL:  parameters: $1 = 'a:  b'\n\
             who wrote this?\n\
             2026-01-31 12:00:00 UTC:10.0.0.1(5432):bob@shop:[125]:ERROR:  no\n\
             2026-01-31 12:00:00 UTC:10.0.0.1(5432):bob@shop:[125]:STATEMENT:  SELECT\n\
             \t1\n\
             65b9c0de.1a2b 7 LOG:  disconnection: LOG:  x\n",
            &[
                r#"123 LOG "statement: SELECT 1,\n\t2" """#,
                "no entry: \"who wrote this?\"",
                r#"124 LOG "execute <unnamed>: SELECT $1" "parameters: $1 = 'a:  b'""#,
                r#"125 ERROR "no" """#,
                r#"65b9c0de.1a2b LOG "disconnection: LOG:  x" """#,
            ],
        );
    }

    #[test]
    fn csvlog() {
        let line = |message: &str, detail: &str| {
            format!(
                "2026-01-31 12:00:00.123 UTC,\"bob\",\"shop\",123,\"[local]\",65b9c0de.7b,1,\"SELECT\",2026-01-31 \
                 12:00:00 UTC,3/1,0,LOG,00000,{message},{detail},,,,,,,,\"psql\",\"client backend\",,0\n"
            )
        };
        check(
            &format!(
                "{}broken,line\n{}",
                line("\"statement: SELECT \"\"a\"\",\n2\"", ""),
                line("plain", "\"parameters: $1 = '1'\"")
            ),
            &[
                r#"65b9c0de.7b LOG "statement: SELECT \"a\",\n2" """#,
                r#"no entry: "broken,line\n""#,
                r#"65b9c0de.7b LOG "plain" "parameters: $1 = '1'""#,
            ],
        );
        check(
            &format!("{}2026,\"open", line("x", "")),
            &["65b9c0de.7b LOG \"x\" \"\"", "no entry: \"2026,\\\"open\""],
        );
    }

    #[test]
    fn jsonlog() {
        check(
            "{\"pid\":7,\"session_id\":\"65b9.7\",\"error_severity\":\"LOG\",\"message\":\"statement: é\",\"detail\":\"d\"}\n\
             {\"pid\":7\n\n[1]\n{\"pid\":7,\"message\":\"m\"}",
            &[
                r#"65b9.7 LOG "statement: é" "d""#,
                "no entry: \"{\\\"pid\\\":7\\n\"",
                "no entry: \"[1]\\n\"",
                r#"7  "m" """#,
            ],
        );
    }
}
