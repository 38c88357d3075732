//! A log of PostgreSQL's statements, as transactions with their frequencies.
//!
//! csvlog, jsonlog and stderr, written with `log_statement` or `log_min_duration_statement`: entries become
//! statements ([`message`]), statements become the transactions of their sessions ([`session`]), and these become
//! templates ([`template`]) by `pg_query`'s fingerprints. Whatever rolled back counts for nothing. A transaction
//! that only calls a routine of the schema is a call of that routine. The outcome is a text like the files of
//! transactions that people write, so the one reader of those ([`super::queries`]) binds it.

mod format;
mod message;
mod session;
mod statement;
mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use weir_types::SqlState;

use crate::load::ACCEPTED;
use crate::source::{Diagnostic, Severity, Span};
use session::{Remark, STATEMENTS_MAX, Sessions, Sink, Transaction};
use template::Templates;

/// More templates than that are not analysed: the rarest are left out, with a note.
const TEMPLATES_MAX: usize = 100;
/// Remarks of different kinds that are kept.
const REMARKS_MAX: usize = 50;

/// Workload extracted from a log.
#[derive(Debug, Default)]
pub struct Log {
    /// The transactions, as a source to be loaded after the schema.
    pub text: String,
    /// Number of calls of each, by name: transactions of `text`, and routines of the schema.
    pub calls: BTreeMap<String, u64>,
    pub committed: u64,
    /// Rolled back, failed, or not finished when the connection ended.
    pub aborted: u64,
    /// Skipped or unparsed entries; the `file` of a span counts the logs.
    notes: Vec<Diagnostic>,
    /// End of each transaction in `text`, and position of its first occurrence.
    origins: Vec<(u32, Span)>,
}

/// Reads logs that follow one another. `routines`: names of the schema's procedures and functions.
pub fn read(logs: &[&str], routines: &BTreeSet<String>) -> Log {
    let mut reading = Reading::default();
    let mut sessions = Sessions::default();
    for (file, text) in logs.iter().enumerate() {
        let file = file as u32;
        format::entries(text, &mut |entry| match entry {
            Ok(entry) => {
                let length = text[entry.at..].find('\n').unwrap_or(text.len() - entry.at);
                let place = Span { file, start: entry.at as u32, end: (entry.at + length) as u32 };
                let mut sink = Committed { reading: &mut reading, done: Vec::new() };
                sessions.entry(&entry, place, routines, &mut sink);
                let done = sink.done;
                if entry.session.is_empty() && !done.is_empty() {
                    reading.remark(without_session(), place);
                }
                done.into_iter().for_each(|done| reading.take(done, &sessions));
            }
            Err((start, end)) => {
                let message = "a line is no entry of a log".to_owned();
                let hint = "csvlog, jsonlog and stderr are read, with their severities in English";
                let place = Span { file, start: start as u32, end: end as u32 };
                reading.remark(Remark { message, hint, missing: false }, place);
            }
        });
    }
    let mut sink = Committed { reading: &mut reading, done: Vec::new() };
    sessions.finish(&mut sink);
    let done = sink.done;
    done.into_iter().for_each(|done| reading.take(done, &sessions));
    reading.finish()
}

fn without_session() -> Remark {
    Remark {
        message: "the log does not say which connection wrote an entry: BEGIN and COMMIT of several may mix"
            .to_owned(),
        hint: "put %p or %c into log_line_prefix",
        missing: true,
    }
}

#[derive(Default)]
struct Reading {
    templates: Templates,
    log: Log,
    /// With the first place, and how often.
    remarks: BTreeMap<String, (Remark, Span, u64)>,
}

/// Keeps what commits until the sessions are free again.
struct Committed<'r> {
    reading: &'r mut Reading,
    done: Vec<Transaction>,
}

impl Sink for Committed<'_> {
    fn committed(&mut self, transaction: Transaction) {
        self.done.push(transaction);
    }

    fn aborted(&mut self) {
        self.reading.log.aborted += 1;
    }

    fn remark(&mut self, remark: Remark, place: Span) {
        self.reading.remark(remark, place);
    }
}

impl Reading {
    fn take(&mut self, transaction: Transaction, sessions: &Sessions) {
        if transaction.statements.is_empty() {
            return;
        }
        self.log.committed += 1;
        if transaction.cut {
            let message = format!("a transaction of more than {STATEMENTS_MAX} statements is left out");
            let hint = "a batch job of that kind is best written down as a procedure";
            return self.remark(Remark { message, hint, missing: true }, transaction.place);
        }
        match template::only_call(&transaction, &sessions.shapes) {
            Some(routine) => *self.log.calls.entry(routine.to_owned()).or_default() += 1,
            None => self.templates.add(transaction, &sessions.shapes),
        }
    }

    fn remark(&mut self, remark: Remark, place: Span) {
        let full = self.remarks.len() >= REMARKS_MAX;
        match self.remarks.get_mut(&remark.message) {
            Some((_, _, count)) => *count += 1,
            None if full => {}
            None => {
                self.remarks.insert(remark.message.clone(), (remark, place, 1));
            }
        }
    }

    fn finish(mut self) -> Log {
        self.log.text.push_str(ACCEPTED);
        let mut written = std::mem::take(&mut self.templates).write();
        if written.len() > TEMPLATES_MAX {
            let rest = written.split_off(TEMPLATES_MAX);
            let calls: u64 = rest.iter().map(|one| one.count).sum();
            let message = format!("{} rare kinds of transactions, {calls} in all, are left out", rest.len());
            let hint = "analyse a log of less time, or of one application";
            self.remark(Remark { message, hint, missing: true }, rest[0].place);
        }
        for one in written {
            self.log.text.push_str(&one.text);
            self.log.origins.push((self.log.text.len() as u32, one.place));
            *self.log.calls.entry(one.name).or_default() += one.count;
        }
        for (message, (remark, place, count)) in self.remarks {
            let message = match count {
                1 => message,
                count => format!("{message} ({count} times)"),
            };
            let severity = if remark.missing { Severity::Warning } else { Severity::Info };
            let note =
                Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, place, message).with_hint(remark.hint);
            self.log.notes.push(Diagnostic { severity, ..note });
        }
        self.log
    }
}

impl Log {
    /// Adds the log's notes to the application's notes, and moves notes on the `generated` source to the positions in the logs. `files`:
    /// the logs, as sources of the application.
    pub fn settle(&self, notes: &mut Vec<Diagnostic>, generated: u32, files: &[u32]) {
        let in_log =
            |place: Span| Span { file: files.get(place.file as usize).copied().unwrap_or(0), ..place };
        for note in notes.iter_mut().filter(|note| note.span.file == generated) {
            let origin = self.origins.iter().find(|(end, _)| note.span.start < *end);
            if let Some((_, place)) = origin.or(self.origins.last()) {
                note.span = in_log(*place);
            }
        }
        notes.extend(self.notes.iter().map(|note| Diagnostic { span: in_log(note.span), ..note.clone() }));
        notes.sort_by(|a, b| (a.span, a.severity, &a.message).cmp(&(b.span, b.severity, &b.message)));
        notes.dedup();
    }
}
