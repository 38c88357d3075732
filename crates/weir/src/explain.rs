//! `weir explain ID`: what a kind of finding or a rule means and how to mend what it reports.

use serde_json::json;

use crate::cli::{ExplainArguments, Format};
use crate::explanation::{EXPLANATIONS, Explanation};
use crate::output::{FAINT, Failure, STRONG, print, print_json, styled};

pub fn execute(arguments: &ExplainArguments) -> Result<(), Failure> {
    let Some(wanted) = &arguments.id else {
        match arguments.format {
            Format::Json => print_json(&json!({
                "version": 1,
                "explanations": EXPLANATIONS.iter().map(document).collect::<Vec<_>>(),
            })),
            Format::Text => print(&list()),
        }
        return Ok(());
    };
    let wanted = wanted.trim().to_lowercase().replace(['_', ' '], "-");
    let Some(found) = EXPLANATIONS.iter().find(|explanation| explanation.id == wanted) else {
        return Err(Failure::input(unknown(&wanted)));
    };
    match arguments.format {
        Format::Json => print_json(&document(found)),
        Format::Text => print(&text(found)),
    }
    Ok(())
}

fn document(explanation: &Explanation) -> serde_json::Value {
    json!({
        "id": explanation.id,
        "title": explanation.title,
        "meaning": explanation.meaning,
        "mend": explanation.mend,
    })
}

fn list() -> String {
    let width = EXPLANATIONS.iter().map(|explanation| explanation.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for explanation in EXPLANATIONS {
        let id = format!("{:width$}", explanation.id);
        text.push_str(&format!("{}  {}\n", styled(STRONG, &id), explanation.title));
    }
    text
}

fn text(explanation: &Explanation) -> String {
    format!(
        "{}: {}\n\n{}\n\n{}\n{}\n",
        styled(STRONG, explanation.id),
        explanation.title,
        wrap(explanation.meaning),
        styled(FAINT, "What to do"),
        wrap(explanation.mend)
    )
}

/// Breaks prose into lines of at most 90 characters.
fn wrap(prose: &str) -> String {
    let mut wrapped = String::new();
    let mut length = 0;
    for word in prose.split_whitespace() {
        let wide = word.chars().count();
        if length > 0 && length + 1 + wide > 90 {
            wrapped.push('\n');
            length = 0;
        } else if length > 0 {
            wrapped.push(' ');
            length += 1;
        }
        wrapped.push_str(word);
        length += wide;
    }
    wrapped
}

fn unknown(wanted: &str) -> String {
    let near = EXPLANATIONS
        .iter()
        .map(|explanation| (distance(wanted, explanation.id), explanation.id))
        .min()
        .filter(|(distance, _)| *distance <= 4)
        .map(|(_, id)| format!("did you mean `weir explain {id}`? "))
        .unwrap_or_default();
    format!(
        "weir explain: error: there is no kind of finding named `{wanted}`\n\
         hint: {near}`weir explain` without a name lists them all"
    )
}

/// Levenshtein's distance, for words of a few dozen letters.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substitution = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_there_once_and_in_kebab_case() {
        for (index, explanation) in EXPLANATIONS.iter().enumerate() {
            assert!(explanation.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", explanation.id);
            assert!(
                EXPLANATIONS[..index].iter().all(|earlier| earlier.id != explanation.id),
                "{}",
                explanation.id
            );
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        assert!(unknown("dense-insrt").contains("weir explain dense-insert"));
        assert!(!unknown("something-else-entirely").contains("did you mean"));
    }
}
