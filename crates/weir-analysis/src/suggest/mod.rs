//! Suggestions: changes of the application that make a costly verdict cheaper, each verified by analysing the
//! changed application.
//!
//! A suggestion is an edit of the bound application ([`edit`]), proposed by the rule that has decided a costly
//! verdict. It is told only if the analysis of the edited application finds the transaction cheaper and no other
//! one dearer, and if its call still returns what it returned and does what it did elsewhere ([`kept`]); what else it changes (gaps,
//! who chooses an id) is in its words, for a person to weigh.
//! The number of analyses is bounded, and a large application is analysed without the transactions that have
//! no table in common with the edit.

mod edit;
mod kept;
mod sign;

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::bound::{Procedure, StepKind};
use weir_sql::catalog::TableId;
use weir_sql::walk;

use crate::Analysis;
use crate::partitioning::Weights;
use crate::plan::{GuardKind, Mechanism, TransactionPlan};
use edit::Candidate;

/// Number of pairs up to which an application is analysed as a whole each time.
const WHOLE_PAIRS_MAX: usize = 20_000;
/// Limit on the pairs of a transaction and an invariant in all analyses together.
const PAIRS_MAX: usize = 2_000_000;
/// Limit on the reads and writes of these transactions.
const ACCESSES_MAX: usize = 150_000;
const ANALYSES_MAX: usize = 48;

/// A change that makes a transaction cheaper, verified by analysing the changed application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    pub transaction: usize,
    /// The invariant whose verdict costs; `None` where it is the placement.
    pub invariant: Option<String>,
    /// Change, and its drawbacks.
    pub text: String,
    /// The change as SQL.
    pub edit: String,
    pub before: Cost,
    pub after: Cost,
    /// Other transactions that become cheaper.
    pub also: Vec<usize>,
}

/// Cost of a transaction until its client has the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    pub mechanism: Mechanism,
    pub round_trips: u32,
    /// `claim on users (name)`.
    pub guards: Vec<String>,
    /// Guards among them that are row locks: the dearest kind, since every writer respects them.
    locks: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Suggestions {
    pub list: Vec<Suggestion>,
    /// Number of edits not tried, because there were too many.
    pub not_tried: usize,
    /// Edits were only analysed with the transactions that share tables with them.
    pub in_part: bool,
}

impl Cost {
    fn of(app: &Application, plan: &TransactionPlan) -> Cost {
        let guard = |guard: &crate::Guard| {
            let shared = if guard.shared { "shared " } else { "" };
            format!("{shared}{} on {}", guard.kind.name(), crate::json::guard_on(app, guard))
        };
        Cost {
            mechanism: plan.mechanism,
            round_trips: plan.round_trips,
            guards: plan.guards.iter().map(guard).collect(),
            locks: plan.guards.iter().filter(|guard| guard.kind == GuardKind::Lock).count(),
        }
    }

    /// Ordered is dearer than anything with guards, and a row lock than another guard.
    fn rank(&self) -> (Mechanism, u32, usize) {
        let family = if self.mechanism.is_ordered_family() { self.mechanism } else { Mechanism::Merge };
        (family, self.round_trips, self.guards.len() + self.locks)
    }

    fn is_dearer_than(&self, other: &Cost) -> bool {
        let ((family, trips, guards), (was, trips_before, guards_before)) = (self.rank(), other.rank());
        // A procedure that leaves the ordered family may need a guard instead, and a message more.
        let left = family < was;
        family > was || !left && (trips > trips_before || guards > guards_before)
    }

    fn is_cheaper_than(&self, other: &Cost) -> bool {
        !self.is_dearer_than(other) && self.rank() != other.rank()
    }

    /// "2 → 1 round trips, no claim on users (name)".
    pub fn change_to(&self, after: &Cost) -> String {
        let mut parts = Vec::new();
        if self.mechanism.is_ordered_family() && self.mechanism != after.mechanism {
            parts.push(format!("{} → {}", self.mechanism.name(), after.mechanism.name()));
        }
        if self.round_trips != after.round_trips {
            parts.push(format!("{} → {} round trips", self.round_trips, after.round_trips));
        }
        let gone = |from: &Cost, to: &Cost| {
            let mut list: Vec<String> =
                from.guards.iter().filter(|guard| !to.guards.contains(guard)).cloned().collect();
            list.dedup();
            list
        };
        parts.extend(gone(self, after).into_iter().map(|guard| format!("no {guard}")));
        parts.extend(gone(after, self).into_iter().map(|guard| format!("{guard} instead")));
        parts.join(", ")
    }
}

/// Looks for suggestions; analyses the edited application, with the same weights, for each that it tries.
pub fn suggestions(app: &Application, analysis: &Analysis, weights: &Weights) -> Suggestions {
    let mut candidates = edit::candidates(app, analysis);
    // The dearest transactions first.
    candidates.sort_by_key(|candidate| {
        let plan = &analysis.plan.transactions[candidate.transaction];
        std::cmp::Reverse(Cost::of(app, plan).rank())
    });
    let whole = analysis.pairs() <= WHOLE_PAIRS_MAX;
    let mut found = Suggestions { in_part: !whole, ..Suggestions::default() };
    let mut befores: BTreeMap<BTreeSet<usize>, Analysis> = BTreeMap::new();
    let (mut tried, mut pairs, mut accesses): (BTreeSet<String>, usize, usize) = (BTreeSet::new(), 0, 0);
    for candidate in candidates {
        if !tried.insert(candidate.edit.clone()) {
            continue;
        }
        if tried.len() > ANALYSES_MAX || pairs > PAIRS_MAX {
            found.not_tried += 1;
            continue;
        }
        let kept = if whole { (0..app.procedures.len()).collect() } else { near(app, analysis, &candidate) };
        let more = accesses_of(analysis, &kept);
        if accesses + more > ACCESSES_MAX {
            found.not_tried += 1;
            continue;
        }
        accesses += more;
        pairs += kept.len() * analysis.invariants.len().min(1000);
        let before = match whole {
            true => analysis,
            false => befores
                .entry(kept.clone())
                .or_insert_with(|| crate::analyze_weighted(&only(app, &kept), weights)),
        };
        let mut edited = only(app, &kept);
        if !(candidate.apply)(&mut edited) {
            continue;
        }
        let after = crate::analyze_weighted(&edited, weights);
        found.list.extend(judge(app, &edited, before, &after, candidate));
    }
    found
}

/// The suggestion, if the edit makes its transaction cheaper and nothing else dearer.
fn judge(
    app: &Application,
    edited: &Application,
    before: &Analysis,
    after: &Analysis,
    candidate: Candidate,
) -> Option<Suggestion> {
    let costs = |procedure: usize| {
        let was = Cost::of(app, &before.plan.transactions[procedure]);
        (was, Cost::of(edited, &after.plan.transactions[procedure]))
    };
    let mut also = Vec::new();
    for procedure in 0..app.procedures.len() {
        let (was, is) = costs(procedure);
        if is.is_dearer_than(&was) {
            return None;
        }
        if is.is_cheaper_than(&was) {
            also.push(procedure);
        }
    }
    let refused = |analysis: &Analysis| {
        let not = analysis.verdicts.iter().filter(|verdict| !verdict.confluent);
        not.map(|verdict| {
            (verdict.transaction, analysis.invariants[verdict.invariant.0 as usize].name.clone())
        })
        .collect::<BTreeSet<_>>()
    };
    let (refused_before, refused_after) = (refused(before), refused(after));
    if !refused_after.is_subset(&refused_before) {
        return None;
    }
    if let Some(invariant) = candidate.invariant.as_ref().filter(|_| !candidate.guarded)
        && refused_after.contains(&(candidate.transaction, invariant.clone()))
    {
        return None;
    }
    // The procedure that gains most by it bears it.
    let transaction = match also.contains(&candidate.transaction) {
        true => candidate.transaction,
        false => *also.first()?,
    };
    let (was, is) = costs(transaction);
    also.retain(|&other| other != transaction);
    let Candidate { invariant, text, edit, .. } = candidate;
    Some(Suggestion { transaction, invariant, text, edit, before: was, after: is, also })
}

fn accesses_of(analysis: &Analysis, kept: &BTreeSet<usize>) -> usize {
    let of = |procedure: &usize| {
        let effects = &analysis.effects[*procedure];
        effects.reads.len() + effects.writes.len()
    };
    kept.iter().map(of).sum()
}

/// The transactions that have a table in common with the edit.
fn near(app: &Application, analysis: &Analysis, candidate: &Candidate) -> BTreeSet<usize> {
    let touches = |procedure: &usize| {
        let effects = &analysis.effects[*procedure];
        let mut tables =
            effects.reads.iter().map(|read| read.table).chain(effects.writes.iter().map(|write| write.table));
        *procedure == candidate.transaction || tables.any(|table: TableId| candidate.tables.contains(&table))
    };
    let mut kept: BTreeSet<usize> = (0..app.procedures.len()).filter(touches).collect();
    let mut todo: Vec<usize> = kept.iter().copied().collect();
    while let Some(caller) = todo.pop() {
        walk::each_step(&app.procedures[caller].body, &mut |step| {
            if let StepKind::Call { procedure, .. } = step.kind
                && kept.insert(procedure)
            {
                todo.push(procedure);
            }
        });
    }
    kept
}

/// The application with only these doing anything.
fn only(app: &Application, kept: &BTreeSet<usize>) -> Application {
    // Bodies are most of a large application: those that do nothing here are not copied first.
    let procedure = |(index, procedure): (usize, &Procedure)| match kept.contains(&index) {
        true => procedure.clone(),
        false => Procedure {
            name: procedure.name.clone(),
            kind: procedure.kind.clone(),
            parameters: procedure.parameters.clone(),
            variables: procedure.variables.clone(),
            found: procedure.found,
            body: Vec::new(),
            serializable: procedure.serializable,
            synthesised: procedure.synthesised,
            span: procedure.span,
        },
    };
    Application {
        sources: app.sources.clone(),
        catalog: app.catalog.clone(),
        procedures: app.procedures.iter().enumerate().map(procedure).collect(),
        assertions: app.assertions.clone(),
        notes: app.notes.clone(),
        synthesised: app.synthesised,
        reading: None,
    }
}
