//! `weir explain ID`: what a kind of finding or a rule means and how to mend what it reports.

use serde_json::json;

use weir_analysis::registry::{self, Kind};

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
    let of = |kind: &Kind| EXPLANATIONS.iter().find(|explanation| explanation.name == kind.name);
    let Some(found) = registry::find(wanted).and_then(of) else {
        return Err(Failure::input(unknown(wanted)));
    };
    match arguments.format {
        Format::Json => print_json(&document(found)),
        Format::Text => print(&text(found)),
    }
    Ok(())
}

fn document(explanation: &Explanation) -> serde_json::Value {
    json!({
        "id": registry::id_of(explanation.name),
        "name": explanation.name,
        "title": explanation.title,
        "meaning": explanation.meaning,
        "example": explanation.example,
        "mend": explanation.mend,
    })
}

fn list() -> String {
    let width = EXPLANATIONS.iter().map(|explanation| explanation.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for kind in registry::KINDS {
        for explanation in EXPLANATIONS.iter().filter(|explanation| explanation.name == kind.name) {
            let name = format!("{:width$}", kind.name);
            text.push_str(&format!("{}  {name}  {}\n", styled(STRONG, kind.id), explanation.title));
        }
    }
    text
}

fn text(explanation: &Explanation) -> String {
    format!(
        "{} ({}): {}\n\n{}\n\n{}\n{}\n\n{}\n{}\n",
        styled(STRONG, registry::id_of(explanation.name)),
        explanation.name,
        explanation.title,
        wrap(explanation.meaning),
        styled(FAINT, "For example"),
        wrap(explanation.example),
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
        .flat_map(|explanation| [registry::id_of(explanation.name), explanation.name])
        .map(|name| (strsim::levenshtein(&wanted.to_lowercase(), &name.to_lowercase()), name))
        .min()
        .filter(|(distance, name)| *distance * 3 <= name.len().min(12))
        .map(|(_, id)| format!("did you mean `weir explain {id}`? "))
        .unwrap_or_default();
    format!(
        "weir explain: error: there is no kind of finding named `{wanted}`\n\
         hint: {near}`weir explain` without a name lists them all"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_explained_once() {
        for kind in registry::KINDS {
            let of_it = EXPLANATIONS.iter().filter(|explanation| explanation.name == kind.name);
            assert_eq!(of_it.count(), 1, "{} {}", kind.id, kind.name);
        }
        for explanation in EXPLANATIONS {
            assert!(registry::find(explanation.name).is_some(), "{}", explanation.name);
            let parts = [explanation.title, explanation.meaning, explanation.example, explanation.mend];
            assert!(parts.iter().all(|part| part.len() > 8), "{}", explanation.name);
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        assert!(unknown("dense-insrt").contains("weir explain dense-insert"));
        assert!(!unknown("something-else-entirely").contains("did you mean"));
    }
}
