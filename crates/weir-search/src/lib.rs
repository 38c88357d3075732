//! Search: bounded exhaustive exploration with the real executor and the real merge, and the witnesses that it
//! finds against verdicts (coordination-avoidance.txt §3–4, Definition 7 and Theorem 1).
//!
//! Pure: no clock, no IO, no chance of its own; bounds count steps. It never judges: that a pair of transactions
//! has no witness within the bounds proves nothing, and is said so. The design is docs/search.md.

pub mod alone;
pub mod contradiction;
pub mod domain;
pub mod explore;
pub mod guards;
pub mod lab;
pub mod last_update;
pub mod literals;
pub mod merge;
pub mod minimise;
pub mod partial;
pub mod replay;
pub mod replica;
pub mod seed;
pub mod show;
pub mod state;

use std::collections::BTreeSet;

use weir_analysis::witness::{Cell, TableRows};
use weir_analysis::{Alone, Analysis, DecidedBy, InvariantId, Verdict, Witness};
use weir_sql::Application;
use weir_types::SqlType;

pub use explore::{Explorer, Found, Limits, Question};
pub use lab::{Lab, NotRunnable, Validity};
pub use replay::{ReplayError, Replayed, replay};
pub use show::{ShowLimits, ShowSummary};

/// Statistics of the search for one analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of verdicts that are not confluent.
    pub asked: usize,
    pub witnessed: usize,
    pub steps: u64,
}

/// Result for one verdict.
#[derive(Clone, Debug)]
enum Answer {
    Witness { witness: Box<Witness>, with: usize },
    Nothing,
    NotSearched(String),
}

/// Searches a witness for every verdict that is not confluent, and records the result in the verdict.
pub fn attach(application: &Application, analysis: &mut Analysis, limits: Limits) -> Summary {
    let asked: Vec<usize> =
        (0..analysis.verdicts.len()).filter(|&at| !analysis.verdicts[at].confluent).collect();
    let mut summary = Summary { asked: asked.len(), ..Summary::default() };
    let open = analysis.verdicts.iter().any(|verdict| verdict.alone == Alone::No);
    if asked.is_empty() && !open {
        return summary;
    }
    let mut verdicts = analysis.verdicts.clone();
    let answers: Vec<Answer> = match Lab::new(application, analysis) {
        Err(NotRunnable(why)) => asked.iter().map(|_| Answer::NotSearched(why.clone())).collect(),
        Ok(lab) => {
            let mut explorer = Explorer::new(&lab, limits);
            let answers = asked.iter().enumerate().map(|(done, &at)| {
                explorer.ration((asked.len() - done) as u64);
                answer(&mut explorer, &analysis.verdicts[at])
            });
            let answers = answers.collect();
            summary.steps = limits.steps - explorer.steps_left_in_all;
            alone::attach(&lab, &mut verdicts, limits);
            answers
        }
    };
    analysis.verdicts = verdicts;
    for (at, answer) in asked.into_iter().zip(answers) {
        summary.witnessed += usize::from(matches!(answer, Answer::Witness { .. }));
        settle(&mut analysis.verdicts[at], answer);
    }
    summary
}

fn answer(explorer: &mut Explorer<'_>, verdict: &Verdict) -> Answer {
    let lab = explorer.lab;
    if !lab.can_check(verdict.invariant) {
        return Answer::NotSearched("the engine does not check this invariant".to_owned());
    }
    if let Some(why) = lab.refusal(verdict.transaction) {
        return Answer::NotSearched(format!("the engine does not run it: {why}"));
    }
    let partners = partners(lab, verdict);
    for &right in &partners {
        if lab.refusal(right).is_some() {
            continue;
        }
        let question = Question { invariant: verdict.invariant, left: verdict.transaction, right };
        if let Some(found) = explorer.explore(&question) {
            let witness = Box::new(witness(lab, &minimise::minimised(lab, found)));
            return Answer::Witness { witness, with: right };
        }
    }
    if explorer.steps_left_in_all == 0 {
        return Answer::NotSearched("the search has used up its steps".to_owned());
    }
    Answer::Nothing
}

/// Candidates for the concurrent transaction: the one that the verdict names, or, if it names none, the transaction itself and all
/// writers of the data that the invariant reads.
fn partners(lab: &Lab<'_>, verdict: &Verdict) -> Vec<usize> {
    const PARTNERS_MAX: usize = 4;
    if let Some(with) = verdict.with {
        return vec![with];
    }
    let tables = &lab.mention(verdict.invariant).tables;
    let writers: BTreeSet<usize> = tables.iter().flat_map(|&table| lab.writers(table)).collect();
    let others = writers.into_iter().filter(|&procedure| procedure != verdict.transaction);
    std::iter::once(verdict.transaction).chain(others.take(PARTNERS_MAX - 1)).collect()
}

fn settle(verdict: &mut Verdict, answer: Answer) {
    match answer {
        Answer::Witness { witness, with } => {
            verdict.witness = Some(witness);
            if verdict.decided_by == DecidedBy::Assumption {
                verdict.decided_by = DecidedBy::Search;
                verdict.with = Some(with);
            }
        }
        Answer::Nothing => assume(verdict, "no witness was found within the bounds of the search"),
        Answer::NotSearched(why) => assume(verdict, &format!("no witness was looked for ({why})")),
    }
}

/// Without a witness a verdict is what the rule says, and no more.
fn assume(verdict: &mut Verdict, why: &str) {
    verdict.refused_by = verdict.rule();
    verdict.decided_by = DecidedBy::Assumption;
    let who = match verdict.refused_by {
        Some(rule) => format!("the rule {} refuses it", rule.name()),
        None => "no rule decides it".to_owned(),
    };
    verdict.assumed = Some(format!("Not proved; assumed: {who}, and {why}."));
}

/// A counterexample as text.
pub fn witness(lab: &Lab<'_>, found: &Found) -> Witness {
    let schema = &lab.program.schema;
    let call = |invocation: &replica::Invocation| show::call(lab, invocation);
    let states = |state: &state::State| -> Vec<TableRows> { state.text(schema) };
    Witness {
        invariant: lab.analysis.invariants[found.invariant.0 as usize].name.clone(),
        initial: states(&found.initial),
        left: found.left.iter().map(call).collect(),
        right: found.right.iter().map(call).collect(),
        later: found.later,
        merged: states(&found.merged),
        violates: cells(lab, found.invariant, &found.violation),
        shown: shown(lab, found.invariant),
    }
}

/// A row as the check of the invariants shows it, but for booleans, which are words in every state too.
fn cells(lab: &Lab<'_>, invariant: InvariantId, row: &[(String, String)]) -> Vec<Cell> {
    let tables = || lab.mention(invariant).tables.iter().map(|&id| lab.application.catalog.table(id));
    let is_boolean = |name: &str| {
        let mut columns = tables().flat_map(|table| &table.columns).filter(|column| column.name == name);
        columns.next().is_some_and(|column| column.ty == SqlType::Bool)
    };
    let value = |name: &str, text: &str| match text {
        "NULL" => None,
        "t" if is_boolean(name) => Some("true".to_owned()),
        "f" if is_boolean(name) => Some("false".to_owned()),
        text => Some(text.trim_end().to_owned()),
    };
    row.iter().map(|(name, text)| (name.clone(), value(name, text))).collect()
}

/// Keys of the tables that the invariant reads, and the columns that it reads.
fn shown(lab: &Lab<'_>, invariant: InvariantId) -> Vec<String> {
    let mention = lab.mention(invariant);
    let mut names = BTreeSet::new();
    for &table in &mention.tables {
        let table = lab.application.catalog.table(table);
        let keys = table.primary_key.iter().flat_map(|key| key.columns.iter());
        names.extend(keys.map(|&column| table.columns[column].name.clone()));
    }
    for &(table, column) in &mention.columns {
        names.insert(lab.application.catalog.table(table).columns[column].name.clone());
    }
    names.into_iter().collect()
}
