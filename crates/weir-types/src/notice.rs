//! Notices of a statement, sent in addition to its answer: NOTICE, WARNING and the other levels of RAISE.

use serde::{Deserialize, Serialize};

use crate::{SqlError, SqlState};

/// PostgreSQL's names of messages that are no errors, in the order of `client_min_messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
}

const SEVERITIES: [Severity; 5] =
    [Severity::Debug, Severity::Log, Severity::Info, Severity::Notice, Severity::Warning];

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub severity: Severity,
    /// Its SQLSTATE, its message, and what goes with them.
    pub said: SqlError,
}

/// Notices of one statement, in order. For each severity only the first ones up to a number of bytes are kept, so that an endless loop
/// uses limited memory, and unread severities take no room from the others.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    kept: Vec<Notice>,
    bytes: [usize; SEVERITIES.len()],
    left_out: [u64; SEVERITIES.len()],
}

const KIB_MAX: usize = 256;

/// Bytes counted for an empty notice.
const NOTICE_BYTES: usize = 64;

impl Notices {
    pub fn add(&mut self, severity: Severity, said: SqlError) {
        let at = severity as usize;
        let fields = said.fields();
        let texts = [Some(&fields.message), fields.detail.as_ref(), fields.hint.as_ref()];
        let bytes = NOTICE_BYTES + texts.into_iter().flatten().map(String::len).sum::<usize>();
        // The kept notices are the first ones, without gaps.
        if self.left_out[at] > 0 || self.bytes[at] + bytes > KIB_MAX << 10 {
            self.left_out[at] += 1;
            return;
        }
        self.bytes[at] += bytes;
        self.kept.push(Notice { severity, said });
    }

    /// With a word about those that are not kept.
    pub fn told(self) -> Vec<Notice> {
        let Notices { mut kept, left_out, .. } = self;
        for (severity, left_out) in SEVERITIES.into_iter().zip(left_out).filter(|(_, count)| *count > 0) {
            let name = severity.name();
            let message = format!("{left_out} more messages of severity {name} were left out");
            let detail = format!("Of one statement the first {KIB_MAX} kB of each severity are told.");
            let said = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).with_detail(detail);
            kept.push(Notice { severity, said });
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_severity_are_kept_and_the_rest_is_counted() {
        let mut notices = Notices::default();
        let mut add = |severity, length: usize| {
            notices.add(severity, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, "x".repeat(length)));
        };
        add(Severity::Notice, 100 << 10);
        (0..1_000_000).for_each(|_| add(Severity::Debug, 1));
        add(Severity::Notice, 155 << 10);
        add(Severity::Notice, 1 << 10);
        add(Severity::Notice, 0);
        add(Severity::Warning, 1);
        let told = notices.told();
        let of = |severity| told.iter().filter(move |one| one.severity == severity);
        let last = |severity| of(severity).next_back().map(|one| one.said.message());
        assert_eq!(of(Severity::Notice).count(), 3);
        assert_eq!(last(Severity::Notice), Some("2 more messages of severity NOTICE were left out"));
        let kept = (256 << 10) / (NOTICE_BYTES + 1);
        assert_eq!(of(Severity::Debug).count(), kept + 1);
        let left_out = format!("{} more messages of severity DEBUG were left out", 1_000_000 - kept);
        assert_eq!(last(Severity::Debug), Some(&*left_out));
        assert_eq!(last(Severity::Warning), Some("x"));
    }
}
