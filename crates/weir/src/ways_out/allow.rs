//! `-- weir:allow ID reason`: a comment beside the code lets a finding through.
//!
//! The comment stands at the end of a line, or on a line of its own above it. It speaks of findings of that kind
//! whose statement, transaction or invariant is on that line. Comments that let nothing through are findings.

use weir_analysis::{Reported, registry, reported};
use weir_sql::{Application, Span};

use super::Shown;

const MARK: &str = "weir:allow";

struct Allow {
    /// Word in the comment.
    word: String,
    reason: String,
    span: Span,
    /// Line that it refers to.
    line: u32,
    used: bool,
}

/// Marks what is let through, and adds findings for comments that do nothing.
pub fn apply(app: &Application, list: Vec<Reported>) -> Vec<Shown> {
    let mut comments = comments(app);
    let mut shown: Vec<Shown> =
        list.into_iter().map(|reported| Shown { reported, allowed: None, known: false }).collect();
    if comments.is_empty() {
        return shown;
    }
    for one in &mut shown {
        let reported = &one.reported;
        let spans = [reported.span].into_iter().chain(reported.about.iter().copied());
        let lines: Vec<(u32, u32)> = spans.map(|span| (span.file, app.sources.place(span).line)).collect();
        let fits = |comment: &&mut Allow| {
            registry::find(&comment.word) == Some(reported.kind)
                && !comment.reason.is_empty()
                && lines.contains(&(comment.span.file, comment.line))
        };
        if let Some(comment) = comments.iter_mut().find(fits) {
            comment.used = true;
            one.allowed = Some(comment.reason.clone());
        }
    }
    let idle = comments.into_iter().filter(|comment| !comment.used).map(|comment| {
        let (name, message) = match (registry::find(&comment.word), comment.reason.is_empty()) {
            (None, _) => ("allow-unknown", format!("there is no kind of finding named {}", comment.word)),
            (Some(kind), true) => (
                "allow-without-reason",
                format!("{} is let through only for a reason: write it behind the id", kind.id),
            ),
            (Some(kind), false) => {
                ("allow-unused", format!("there is no {} ({}) here to let through", kind.id, kind.name))
            }
        };
        (name, message, comment.span)
    });
    let idle = reported::of_others(app, idle);
    shown.extend(idle.into_iter().map(|reported| Shown { reported, allowed: None, known: false }));
    shown
}

fn comments(app: &Application) -> Vec<Allow> {
    let mut found = Vec::new();
    for (file, source) in app.sources.files.iter().enumerate() {
        if !source.text.contains(MARK) {
            continue;
        }
        let lines: Vec<&str> = source.text.lines().collect();
        let mut offset = 0;
        for (at, line) in source.text.split_inclusive('\n').enumerate() {
            if let Some((start, word, reason)) = comment(line) {
                let alone = line[..start].trim().is_empty();
                let target = match alone {
                    true => (at + 1..lines.len()).find(|&next| !is_blank(lines[next])).unwrap_or(at),
                    false => at,
                };
                let end = offset + line.trim_end().len();
                found.push(Allow {
                    word: word.to_owned(),
                    reason: reason.to_owned(),
                    span: Span { file: file as u32, start: (offset + start) as u32, end: end as u32 },
                    line: target as u32 + 1,
                    used: false,
                });
            }
            offset += line.len();
        }
    }
    found
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("--")
}

/// Where it begins, what it names, and why.
fn comment(line: &str) -> Option<(usize, &str, &str)> {
    let (start, _) =
        line.match_indices("--").find(|(at, _)| line[at + 2..].trim_start().starts_with(MARK))?;
    let rest = line[start + 2..].trim_start()[MARK.len()..].trim();
    let (word, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let word = word.trim_end_matches(':');
    Some((start, word, reason.trim().trim_start_matches(['—', ':', '-']).trim()))
}
