//! Every kind of finding, with the id that never changes.
//!
//! Ids are a promise to baselines, comments in code and scripts: a kind keeps its id for ever, an id that is
//! retired is not given to anything else. Words (`lost-update`) are accepted wherever an id is.

use crate::verdict::{DecidedBy, Rule, Verdict};

/// A kind of finding, or a rule that decides a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// `WEIR-U01`.
    pub id: &'static str,
    /// In words: `unique-chosen`. Of a rule, [`Rule::name`].
    pub name: &'static str,
}

const fn kind(id: &'static str, name: &'static str) -> Kind {
    Kind { id, name }
}

pub const KINDS: &[Kind] = &[
    // Verdicts in general.
    kind("WEIR-V01", "undecided"),
    kind("WEIR-V02", "not-confluent"),
    kind("WEIR-V03", "untouched"),
    kind("WEIR-V04", "breaks-alone"),
    kind("WEIR-V05", "contradicted"),
    // Keys.
    kind("WEIR-U01", "unique-chosen"),
    kind("WEIR-U02", "unique-generated"),
    kind("WEIR-U03", "unique-counted"),
    kind("WEIR-U04", "unique-upsert"),
    kind("WEIR-U05", "unique-taken"),
    kind("WEIR-U06", "unique-delete"),
    // Numbers without gaps, and sequences.
    kind("WEIR-D01", "dense-insert"),
    kind("WEIR-D02", "dense-prefix"),
    kind("WEIR-D03", "sequence-share"),
    // Foreign keys.
    kind("WEIR-F01", "foreign-key-delete"),
    kind("WEIR-F02", "foreign-key-insert"),
    kind("WEIR-F03", "foreign-key-cascade"),
    kind("WEIR-F04", "foreign-key-child-only"),
    // Conditions on one record.
    kind("WEIR-R01", "record-skew"),
    kind("WEIR-R02", "per-record"),
    kind("WEIR-R03", "list-mutated"),
    kind("WEIR-R04", "list-member"),
    // Bounds of counters.
    kind("WEIR-B01", "bound-toward"),
    kind("WEIR-B02", "bound-avoid"),
    kind("WEIR-B03", "bound-away"),
    kind("WEIR-B04", "bound-equal"),
    // Sums.
    kind("WEIR-S01", "taken-twice"),
    kind("WEIR-S02", "sum-overwritten"),
    kind("WEIR-S03", "sum-join-apart"),
    kind("WEIR-S04", "margin-used"),
    kind("WEIR-S05", "sum-of-deltas"),
    kind("WEIR-S06", "margin-wider"),
    // Assertions of other shapes.
    kind("WEIR-E01", "extreme-lost"),
    kind("WEIR-E02", "extreme-raised"),
    kind("WEIR-C01", "counterpart-taken"),
    kind("WEIR-C02", "counterpart"),
    kind("WEIR-T01", "facts-both-ways"),
    kind("WEIR-T02", "one-way-facts"),
    // Values that are derived from rows.
    kind("WEIR-X01", "secondary-index"),
    kind("WEIR-X02", "materialized-view"),
    // Anomalies that no invariant forbids.
    kind("WEIR-A01", "lost-update"),
    kind("WEIR-A02", "write-skew"),
    kind("WEIR-A03", "fractured-read"),
    kind("WEIR-A04", "long-fork"),
    // Locks, placement and partitioning.
    kind("WEIR-L01", "lock-not-held"),
    kind("WEIR-P01", "default-placement"),
    kind("WEIR-P02", "partitioning-gap"),
    kind("WEIR-P03", "ordered-by-one"),
    // Reading.
    kind("WEIR-N01", "not-followed"),
    kind("WEIR-N02", "not-understood"),
    kind("WEIR-N03", "passed-over"),
    kind("WEIR-N04", "no-solver"),
    kind("WEIR-N05", "no-invariants"),
    // Comments that let findings through.
    kind("WEIR-W01", "allow-unused"),
    kind("WEIR-W02", "allow-without-reason"),
    kind("WEIR-W03", "allow-unknown"),
    // Multi-master replication with last-update-wins rows.
    kind("WEIR-M01", "row-overwritten"),
    kind("WEIR-M02", "same-key-inserted"),
    kind("WEIR-M03", "unique-collision"),
    kind("WEIR-M04", "update-meets-delete"),
    kind("WEIR-M05", "orphaned-child"),
    kind("WEIR-M06", "sequence-collision"),
    kind("WEIR-M07", "rows-apart"),
];

/// By id or by word, in any case; `_` and blanks count as `-`.
pub fn find(word: &str) -> Option<&'static Kind> {
    let word = word.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    KINDS.iter().find(|kind| kind.name == word || kind.id.to_ascii_lowercase() == word)
}

/// The id of a kind by its word; the word itself if it has none.
pub fn id_of(name: &'static str) -> &'static str {
    find(name).map_or(name, |kind| kind.id)
}

pub fn of_rule(rule: Rule) -> &'static Kind {
    find(&rule.name()).unwrap_or(&KINDS[0])
}

/// By the rule that decides or refuses it.
pub fn of_verdict(verdict: &Verdict) -> &'static Kind {
    match (verdict.rule(), verdict.decided_by) {
        (Some(rule), _) => of_rule(rule),
        (None, DecidedBy::Proof | DecidedBy::Search) if verdict.confluent => &KINDS[2],
        (None, DecidedBy::Proof | DecidedBy::Search) => &KINDS[1],
        (None, _) => &KINDS[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_well_formed() {
        for (at, kind) in KINDS.iter().enumerate() {
            let rest = kind.id.strip_prefix("WEIR-").expect("the prefix");
            assert!(rest.len() == 3 && rest.as_bytes()[0].is_ascii_uppercase(), "{}", kind.id);
            assert!(rest[1..].bytes().all(|byte| byte.is_ascii_digit()), "{}", kind.id);
            assert!(
                KINDS[..at].iter().all(|other| other.id != kind.id && other.name != kind.name),
                "{}",
                kind.id
            );
            assert_eq!(find(&kind.id.to_lowercase()), Some(kind));
            assert_eq!(find(&kind.name.replace('-', "_")), Some(kind));
        }
    }

    /// Every rule must have an id.
    #[test]
    fn every_rule_has_an_id() {
        for rule in Rule::ALL {
            assert!(find(&rule.name()).is_some(), "{} has no id: see KINDS", rule.name());
        }
    }
}
