//! Invariants × effects → verdicts → plan: which transaction must coordinate, for what, and how cheaply.
//!
//! The second stretch of the road. What an application's SQL says ([`weir_sql::Application`]) becomes the
//! invariants that it declares, the effects of each of its procedures, a verdict for every pair of the
//! two (coordination-avoidance.txt §4–5), and the cheapest mechanism that keeps every invariant
//! (design.md §4). Pure: no clock, no IO, no randomness; it never runs a transaction and never looks at
//! data. Structure alone decides; no rule knows the name of a table or a procedure.

pub mod assertion;
pub mod effects;
pub mod finding;
pub mod invariant;
pub mod plan;
pub mod verdict;

pub use effects::ProcedureEffects;
pub use finding::{Finding, Severity};
pub use invariant::{Invariant, InvariantId, InvariantKind};
pub use plan::{
    Class, Guard, GuardKind, Mechanism, Placement, Plan, Requirement, RoundTrips, TransactionPlan,
};
pub use verdict::{Alone, DecidedBy, Rule, Verdict};

/// Everything that the analysis says of one application.
#[derive(Clone, Debug)]
pub struct Analysis {
    pub invariants: Vec<Invariant>,
    /// By procedure index.
    pub effects: Vec<ProcedureEffects>,
    /// For every procedure, in order, every invariant, in order.
    pub verdicts: Vec<Verdict>,
    pub plan: Plan,
    pub diagnostics: Vec<Finding>,
}
