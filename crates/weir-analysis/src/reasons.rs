//! Reasons for the plan of one transaction: the invariants that it does not keep without coordination, and the conflicting transactions.

use weir_sql::Application;
use weir_sql::bound::Procedure;

use crate::assertion::Shape;
use crate::effects;
use crate::invariant;
use crate::open_world::OpenWorld;
use crate::proof::Prover;
use crate::world::World;
use crate::{InvariantId, registry, rules};

/// A verdict that is not confluent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub invariant: InvariantId,
    pub name: String,
    /// The concurrent transaction with which it breaks the invariant; often another call of the same.
    pub beside: Option<String>,
    /// Its operation on the data of the invariant.
    pub operation: String,
    pub because: String,
    /// Kind of finding, as known to `weir explain`.
    pub finding: &'static str,
}

/// The names of all invariants, in their order.
pub fn invariant_names(app: &Application) -> Vec<String> {
    invariant::invariants(app).into_iter().map(|invariant| invariant.name).collect()
}

/// Reasons for a procedure of the application, considering the others.
pub fn of_procedure(app: &Application, procedure: usize) -> Vec<Reason> {
    let all = effects::of_all(app);
    let invariants = invariant::invariants(app);
    let world = World::new(app, &all);
    let shapes: Vec<Shape<'_>> = app.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect();
    let mut outcomes = rules::judge_all(&world, &shapes, &invariants, &mut Prover::new(None));
    let own = outcomes.swap_remove(procedure);
    let refused = own.into_iter().map(|(invariant, outcome)| outcome.into_verdict(invariant, procedure));
    refused
        .filter(|verdict| !verdict.confluent)
        .map(|verdict| Reason {
            invariant: verdict.invariant,
            name: invariants[verdict.invariant.0 as usize].name.clone(),
            beside: verdict.with.map(|with| crate::world::other(app, procedure, with)),
            because: verdict.argument(),
            finding: registry::of_verdict(&verdict).id,
            operation: verdict.operation,
        })
        .collect()
}

/// Reasons for an ad-hoc statement, considering all possible ad-hoc statements.
pub fn of_statement(world: &OpenWorld, statement: Procedure) -> Vec<Reason> {
    let application = world.with_strangers_and(statement);
    of_procedure(&application, application.procedures.len() - 1)
}
