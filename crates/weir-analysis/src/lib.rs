//! Invariants × effects → verdicts → plan: which transaction must coordinate, for what, and how cheaply.
//!
//! The second stretch of the road. What an application's SQL says ([`weir_sql::Application`]) becomes the
//! invariants that it declares, the effects of each of its procedures, a verdict for every pair of the
//! two (coordination-avoidance.txt §4–5), and the cheapest mechanism that keeps every invariant
//! (design.md §4). Pure: no clock, no IO, no randomness; it never runs a transaction and never looks at
//! data. Structure alone decides; no rule knows the name of a table or a procedure.

pub mod active_active;
mod advice_text;
mod anomaly;
mod assertion;
mod default_placement;
mod dependents;
pub mod effects;
#[cfg(test)]
mod examples;
pub mod execution;
mod family;
pub mod finding;
pub mod invariant;
mod json;
mod locks;
pub mod open_world;
pub mod partitioning;
mod placement;
pub mod plan;
mod planner;
pub mod planted;
pub mod proof;
pub mod reasons;
pub mod registry;
pub mod reported;
mod rules;
pub mod suggest;
mod text;
pub mod verdict;
pub mod witness;
mod world;

use std::borrow::Cow;

use weir_sql::Application;

pub use anomaly::{Anomaly, AnomalyKind, Example, Prevented};
pub use effects::ProcedureEffects;
pub use execution::{Executed, Execution};
pub use finding::{Finding, Severity};
pub use invariant::{Invariant, InvariantId, InvariantKind};
pub use json::{Document, List, guard_on, to_json};
pub use partitioning::{Partitioning, Weights};
pub use placement::{lives, said as said_placement};
pub use plan::{
    Class, Guard, GuardKind, Mechanism, Placement, Plan, Refused, Requirement, RoundTrips, Runs,
    TransactionPlan,
};
pub use planted::PlantedFlaws;
pub use reported::{Reported, reported};
pub use suggest::{Suggestion, Suggestions, suggestions};
pub use text::{TextStyle, to_text};
pub use verdict::{Alone, DecidedBy, Rule, Verdict};
pub use witness::Witness;

/// Everything that the analysis says of one application.
#[derive(Clone, Debug)]
pub struct Analysis {
    pub invariants: Vec<Invariant>,
    /// By procedure index.
    pub effects: Vec<ProcedureEffects>,
    /// By procedure, then by invariant: where the procedure writes what the invariant speaks of. All other
    /// pairs are [`Rule::Untouched`]; [`Analysis::verdict`] has them too.
    pub verdicts: Vec<Verdict>,
    pub partitioning: Partitioning,
    pub plan: Plan,
    /// By procedure index: what the engine does with it; empty until who executes plans is asked.
    pub runs: Vec<Runs>,
    /// Surprising behaviour that violates no invariant; by transaction.
    pub anomalies: Vec<Anomaly>,
    /// Anomalies that the mechanism of a transaction prevents.
    pub prevented: Vec<Prevented>,
    /// Results of [`suggest`]; empty before it is called.
    pub suggestions: Suggestions,
    pub diagnostics: Vec<Finding>,
}

impl Analysis {
    /// The verdict on any pair, the untouched ones included.
    pub fn verdict(&self, transaction: usize, invariant: InvariantId) -> Cow<'_, Verdict> {
        let key = |verdict: &Verdict| (verdict.transaction, verdict.invariant);
        match self.verdicts.binary_search_by_key(&(transaction, invariant), key) {
            Ok(at) => Cow::Borrowed(&self.verdicts[at]),
            Err(_) => {
                let read_only = self.effects[transaction].is_read_only();
                Cow::Owned(rules::untouched(read_only).into_verdict(invariant, transaction))
            }
        }
    }

    /// Number of pairs of a transaction and an invariant.
    pub fn pairs(&self) -> usize {
        self.effects.len() * self.invariants.len()
    }
}

/// Analyses an application. Never fails: what it cannot decide it says.
pub fn analyze(app: &Application) -> Analysis {
    analyze_weighted(app, &Weights::default())
}

/// Analyses an application whose transactions are called with these relative frequencies.
pub fn analyze_weighted(app: &Application, weights: &Weights) -> Analysis {
    analyze_with(app, weights, Proofs::NotAsked)
}

/// Prover for invariants that no rule decides.
pub enum Proofs<'s> {
    /// None: such invariants remain undecided.
    NotAsked,
    Solver(&'s mut dyn proof::Solver),
    /// None, for this reason: a diagnostic reports it if there was anything to prove.
    Missing(&'s str),
}

/// Analyses an application with the help of a solver.
pub fn analyze_with(app: &Application, weights: &Weights, proofs: Proofs<'_>) -> Analysis {
    analyze_planted(app, weights, proofs, PlantedFlaws::default())
}

/// Analyses with rules that contain these planted flaws.
pub fn analyze_planted(
    app: &Application,
    weights: &Weights,
    proofs: Proofs<'_>,
    flaws: PlantedFlaws,
) -> Analysis {
    let (solver, missing) = match proofs {
        Proofs::NotAsked => (None, None),
        Proofs::Solver(solver) => (Some(solver), None),
        Proofs::Missing(why) => (None, Some(why)),
    };
    let mut prover = proof::Prover::new(solver);
    let effects = effects::of_all(app);
    let invariants = invariant::invariants(app);
    let world = world::World::flawed(app, &effects, flaws);
    let assertions = app.assertions.iter();
    let shapes: Vec<assertion::Shape<'_>> =
        assertions.map(|assertion| assertion::Shape::flawed(&assertion.expr, flaws)).collect();
    let outcomes = rules::judge_all(&world, &shapes, &invariants, &mut prover);
    let mut diagnostics: Vec<Finding> = app.notes.iter().map(Finding::of_note).collect();
    diagnostics.extend(missing.and_then(|why| finding::no_solver(app, why, prover.unasked)));
    diagnostics.extend(invariants.is_empty().then(|| finding::no_invariants(app)));
    let names = &|id: InvariantId| invariants[id.0 as usize].name.as_str();
    let partitioning = partitioning::partition(app, &effects, weights);
    let plan = planner::plan(app, &world, names, &partitioning, &outcomes, &mut diagnostics);
    let (anomalies, prevented) = anomaly::anomalies(&world, &plan);
    anomaly::findings(&world, &anomalies, &mut diagnostics);
    let mut verdicts = Vec::new();
    for (procedure, list) in outcomes.into_iter().enumerate() {
        for (invariant, outcome) in list {
            verdicts.push(outcome.into_verdict(invariant, procedure));
        }
    }
    let suggestions = Suggestions::default();
    Analysis {
        invariants,
        effects,
        verdicts,
        partitioning,
        plan,
        runs: Vec::new(),
        anomalies,
        prevented,
        suggestions,
        diagnostics,
    }
}
