//! Statements in log messages: text, parameters, and whether the statement has finished.

/// Transactional event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A text of the simple protocol: perhaps several statements, with their constants in them.
    Text {
        sql: String,
        finished: bool,
    },
    /// One execution of the extended protocol, and the values of `$1`, `$2`, … as far as they are logged.
    Execution {
        sql: String,
        values: Vec<Option<String>>,
        finished: bool,
    },
    Error,
    Disconnected,
    Other,
}

/// `finished`: by `log_min_duration_statement` a statement is logged when it has succeeded, by `log_statement`
/// before it runs.
pub(super) fn event(severity: &str, message: &str, detail: &str) -> Event {
    match severity {
        "LOG" | "" => {}
        "ERROR" | "FATAL" | "PANIC" => return Event::Error,
        _ => return Event::Other,
    }
    if message.starts_with("disconnection:") {
        return Event::Disconnected;
    }
    let (message, finished) = match message.strip_prefix("duration: ") {
        Some(rest) => match rest.split_once("ms") {
            Some((_, rest)) => (rest.trim_start(), true),
            None => return Event::Other,
        },
        None => (message, false),
    };
    if let Some(sql) = message.strip_prefix("statement: ") {
        return Event::Text { sql: sql.to_owned(), finished };
    }
    // «execute fetch from» goes on with a portal whose first rows have been counted.
    let named = message.strip_prefix("execute ").filter(|rest| !rest.starts_with("fetch from "));
    match named.and_then(|rest| rest.split_once(": ")) {
        Some((_, sql)) => Event::Execution { sql: sql.to_owned(), values: values(detail), finished },
        None => Event::Other,
    }
}

/// `parameters: $1 = '5', $2 = NULL`; PostgreSQL 16 writes the first word in upper case.
fn values(detail: &str) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let label = "parameters: ";
    let Some(mut rest) = detail
        .get(..label.len())
        .filter(|start| start.eq_ignore_ascii_case(label))
        .and_then(|_| detail.get(label.len()..))
    else {
        return values;
    };
    while let Some((_, value)) = rest.split_once(" = ") {
        let Some(quoted) = value.strip_prefix('\'') else {
            values.push(None);
            let Some((_, next)) = value.split_once(", ") else { break };
            rest = next;
            continue;
        };
        let mut end = 0;
        while let Some(quote) = quoted[end..].find('\'') {
            end += quote;
            if !quoted[end + 1..].starts_with('\'') {
                break;
            }
            end += 2;
        }
        let end = if quoted[end..].starts_with('\'') { end } else { quoted.len() };
        values.push(Some(quoted[..end].replace("''", "'")));
        rest = quoted.get(end + 1..).unwrap_or("");
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let text = |sql: &str, finished| Event::Text { sql: sql.to_owned(), finished };
        let execution = |sql: &str, values: &[Option<&str>], finished| Event::Execution {
            sql: sql.to_owned(),
            values: values.iter().map(|value| value.map(str::to_owned)).collect(),
            finished,
        };
        for (message, detail, expected) in [
            ("statement: SELECT 1", "", text("SELECT 1", false)),
            ("duration: 0.5 ms  statement: SELECT 1", "", text("SELECT 1", true)),
            ("duration: 0.5 ms", "", Event::Other),
            ("duration: 0.5 ms  bind s1: SELECT $1", "parameters: $1 = '1'", Event::Other),
            (
                "execute s1/p2: SELECT $1, $2, $3",
                "parameters: $1 = 'it''s, $2 = ', $2 = NULL, $3 = ''",
                execution("SELECT $1, $2, $3", &[Some("it's, $2 = "), None, Some("")], false),
            ),
            ("execute <unnamed>: SELECT 1", "", execution("SELECT 1", &[], false)),
            (
                "duration: 1.0 ms  execute <unnamed>: SELECT $1",
                "Parameters: $1 = 'unclosed",
                execution("SELECT $1", &[Some("unclosed")], true),
            ),
            ("execute fetch from s1: SELECT 1", "", Event::Other),
            ("disconnection: session time: 0:00", "", Event::Disconnected),
            ("checkpoint starting: time", "", Event::Other),
        ] {
            assert_eq!(event("LOG", message, detail), expected, "{message}");
        }
        assert_eq!(event("ERROR", "statement: SELECT 1", ""), Event::Error);
        assert_eq!(event("WARNING", "there is already a transaction in progress", ""), Event::Other);
    }
}
