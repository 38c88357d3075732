//! A script with a difference becomes a smaller one: choices are left away or set to the simplest, as long as there is a difference of the
//! same kind.

use std::fmt::Write;
use std::mem::discriminant;

use super::choices::Choices;
use super::{Both, Difference, Script};
use crate::on_shards::Answer;

/// Attempts for one difference.
const ATTEMPTS_MAX: usize = 1_500;

/// The report: the smallest script that still differs, and both answers to it.
pub fn report(both: &mut Both<'_>, choices: Choices) -> String {
    let mut shrinking = Shrinking { both, attempts: 0 };
    let Some(kind) = shrinking.try_record(&choices.taken, None) else {
        return "it was answered alike when it was sent again".to_owned();
    };
    let mut best = choices.taken;
    let mut size = size_of(&shrinking.script(&best).0);
    while let Some((record, smaller)) = shrinking.smaller(&best, size, &kind) {
        (best, size) = (record, smaller);
    }
    let (script, _) = shrinking.script(&best);
    let Some(difference) = shrinking.both.difference(&script) else {
        return "it was answered alike when it was sent again".to_owned();
    };
    told(&script, &difference)
}

/// The kind of both answers, which a smaller script must keep: their SQLSTATEs, or that they are rows.
type Kind = (Option<String>, Option<String>);

struct Shrinking<'b, 'p> {
    both: &'b mut Both<'p>,
    attempts: usize,
}

impl Shrinking<'_, '_> {
    fn script(&self, record: &[u32]) -> (Script, Choices) {
        let mut choices = Choices::from_record(record.to_vec());
        let script = Script::of(&mut choices, self.both.sizes);
        (script, choices)
    }

    /// The kind of its difference, if it has one of this kind.
    fn try_record(&mut self, record: &[u32], wanted: Option<&Kind>) -> Option<Kind> {
        self.attempts += 1;
        let (script, _) = self.script(record);
        let difference = self.both.difference(&script)?;
        let kind = kind_of(&difference);
        (wanted.is_none_or(|wanted| *wanted == kind)).then_some(kind)
    }

    /// The first smaller one with such a difference.
    fn smaller(&mut self, best: &[u32], size: usize, kind: &Kind) -> Option<(Vec<u32>, usize)> {
        let (_, choices) = self.script(best);
        for record in candidates(best, &choices) {
            if self.attempts >= ATTEMPTS_MAX {
                return None;
            }
            let (script, taken) = self.script(&record);
            let smaller = size_of(&script);
            if smaller < size && self.try_record(&record, Some(kind)).is_some() {
                return Some((taken.taken, smaller));
            }
        }
        None
    }
}

fn size_of(script: &Script) -> usize {
    script.steps.iter().map(|step| step.sql.len() + 10).sum()
}

fn kind_of(difference: &Difference) -> Kind {
    let state = |answer: &Answer| match answer {
        Answer::Rows { .. } => None,
        Answer::Error(state, _) => Some(state.clone()),
    };
    (state(&difference.expected), state(&difference.found))
}

/// Large parts first: a part is left away, becomes the simplest, or becomes one of its parts; then single choices.
fn candidates(best: &[u32], choices: &Choices) -> Vec<Vec<u32>> {
    let mut spans = choices.spans.clone();
    spans.sort_by_key(|span| std::cmp::Reverse(span.len()));
    spans.dedup();
    let mut all = Vec::new();
    let replaced = |from: usize, to: usize, by: &[u32]| [&best[..from], by, &best[to..]].concat();
    for span in spans.iter().filter(|span| !span.is_empty() && span.end <= best.len()) {
        all.push(replaced(span.start, span.end, &[]));
        for zeros in 1..=4 {
            all.push(replaced(span.start, span.end, &vec![0; zeros]));
        }
        let within = spans.iter().filter(|part| {
            span.start <= part.start && part.end <= span.end && part.len() < span.len() && part.len() > 1
        });
        all.extend(within.take(12).map(|part| replaced(span.start, span.end, &best[part.clone()])));
    }
    for (at, choice) in best.iter().enumerate() {
        all.push(replaced(at, at + 1, &[]));
        if *choice > 0 {
            all.push(replaced(at, at + 1, &[0]));
            all.push(replaced(at, at + 1, &[choice - 1]));
        }
    }
    all
}

fn told(script: &Script, difference: &Difference) -> String {
    let mut text = format!("on {} shards\n", difference.shards);
    for step in &script.steps[..=difference.step] {
        let _ = writeln!(text, "  {};", step.sql);
    }
    let (expected, found) = (&difference.expected, &difference.found);
    let _ = writeln!(text, "  PostgreSQL {}", shortened(expected));
    let _ = writeln!(text, "  Weir       {}", shortened(found));
    if discriminant(expected) == discriminant(found) {
        let _ = write!(text, "{}", only_in_one(expected, found));
    }
    text
}

fn shortened(answer: &Answer) -> String {
    let text = format!("{answer:?}");
    if text.chars().count() <= 400 { text } else { text.chars().take(400).chain("…".chars()).collect() }
}

/// Rows that only one of the two has.
fn only_in_one(expected: &Answer, found: &Answer) -> String {
    let (Answer::Rows { rows, .. }, Answer::Rows { rows: others, .. }) = (expected, found) else {
        return String::new();
    };
    let mut text = String::new();
    for (name, own, other) in [("PostgreSQL", rows, others), ("Weir", others, rows)] {
        let mut left = other.clone();
        let only = own.iter().filter(|row| match left.iter().position(|of| of == *row) {
            Some(at) => {
                left.swap_remove(at);
                false
            }
            None => true,
        });
        for row in only.take(5) {
            let _ = writeln!(text, "  only {name}: {row:?}");
        }
    }
    text
}
