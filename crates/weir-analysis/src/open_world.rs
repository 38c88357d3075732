//! Statements that are none of the application's procedures (design.md §4, "the world is never assumed closed"; soundness S1).
//!
//! A plan is right for the procedures that it was made of. A statement beside them is judged twice: among the procedures,
//! whether any of them would need another plan because of it, and among all that a ad-hoc statement could do to any table, for
//! what it needs itself. The second answer does not depend on which other statements come, today or later: each of them takes
//! the guards that it needs against every other.

use std::collections::BTreeSet;

use weir_sql::bound::Procedure;
use weir_sql::catalog::{ColumnIndex, Table, TableId};
use weir_sql::{Application, Span};

use crate::assertion::Shape;
use crate::effects;
use crate::invariant::{self, InvariantId, InvariantKind};
use crate::plan::{Mechanism, Placement, Plan, TransactionPlan};
use crate::proof::Prover;
use crate::verdict::Alone;
use crate::world::World;
use crate::{planner, rules};

/// Reason why a statement may not run concurrently with the application's procedures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This procedure has been planned for a world without it.
    Endangers { procedure: String, why: String },
    /// Nothing that runs at once keeps what it may break.
    Unkept { why: String },
    /// The procedure is not proved to keep the assertion when it runs alone, and nothing checks the assertion before the commit.
    Unchecked { procedure: String, assertion: String, operation: String },
}

/// Possible ad-hoc statements on the tables of a placed application.
#[derive(Clone, Debug)]
pub struct OpenWorld {
    /// The application with its own procedures only.
    closed: Application,
    placement: Vec<Placement>,
    /// Plan of each procedure, by its index.
    plans: Vec<TransactionPlan>,
    /// Every kind of write of a row of any table. Refused statements are included: they may also occur as parts of other statements.
    ad_hoc: Vec<Procedure>,
}

impl OpenWorld {
    /// Synthesised procedures of the application are ad-hoc statements.
    pub fn new(application: &Application, placement: &[Placement]) -> OpenWorld {
        let mut closed = application.clone();
        closed.procedures.retain(|procedure| !procedure.synthesised);
        let mut all = Application { procedures: Vec::new(), ..closed.clone() };
        weir_sql::synthesise(&mut all);
        let plans = judge(&closed, placement, 0).plans;
        OpenWorld { closed, placement: placement.to_vec(), plans, ad_hoc: all.procedures }
    }

    /// The plan of a statement, as a procedure behind the application's.
    ///
    /// # Errors
    /// The statement would endanger a procedure, or nothing keeps an invariant that it may violate.
    pub fn admit(&self, statement: Procedure) -> Result<TransactionPlan, Refusal> {
        let after = judge(&self.with(std::slice::from_ref(&statement)), &self.placement, 0).plans;
        let changed =
            |(before, after): &(&TransactionPlan, TransactionPlan)| Obeyed::of(before) != Obeyed::of(after);
        if let Some((_, after)) = self.plans.iter().zip(after).find(changed) {
            let procedure = self.closed.procedures[after.procedure].name.clone();
            return Err(Refusal::Endangers { procedure, why: after.why });
        }
        self.plan(statement)
    }

    /// The same, whomever it would endanger.
    ///
    /// # Errors
    /// Nothing keeps what it may break.
    pub fn plan(&self, statement: Procedure) -> Result<TransactionPlan, Refusal> {
        let all = self.with_strangers_and(statement);
        let Judged { mut plans, open } = judge(&all, &self.placement, self.ad_hoc.len());
        let Some(mut plan) = plans.pop() else { unreachable!("as many plans as procedures") };
        if plan.mechanism.is_ordered_family() {
            return Err(Refusal::Unkept { why: plan.why });
        }
        if let Some(one) = open.iter().find(|one| one.procedure + 1 == all.procedures.len()) {
            return Err(one.refusal(&all));
        }
        plan.procedure = self.closed.procedures.len();
        Ok(plan)
    }

    /// The application's procedures, the ad-hoc statements, and this statement last.
    pub(crate) fn with_strangers_and(&self, statement: Procedure) -> Application {
        let mut others = self.ad_hoc.clone();
        others.push(statement);
        self.with(&others)
    }

    fn with(&self, others: &[Procedure]) -> Application {
        let mut application = self.closed.clone();
        application.procedures.extend_from_slice(others);
        application
    }
}

/// The plan of an application whose schema has changed while it runs. `stays`: by table, where its rows live already; any other
/// is placed as its comment says, or by the first column of its primary key. `since`: the first of its files that is new, whose
/// procedures are to keep every assertion, and whose assertions are to be kept by every procedure.
///
/// `runs_in_order`: of a procedure, by its name, that it runs in order already.
///
/// # Errors
/// A procedure would have to be ordered, which it is not yet; or it may break an assertion by itself.
pub fn plan_anew(
    application: &Application,
    stays: &[Option<Placement>],
    since: u32,
    runs_in_order: &dyn Fn(&str) -> bool,
) -> Result<Plan, Refusal> {
    let new = |table: &Table| {
        let key = || table.primary_key.as_ref().map_or(0, |key| key.columns[0]);
        let columns = table.partition_by.clone().filter(|columns| !columns.is_empty());
        match table.replicated {
            true => Placement::Replicated,
            false => Placement::Partitioned { columns: columns.unwrap_or_else(|| vec![key()]) },
        }
    };
    let placed =
        |table: &Table| stays.get(table.id.0 as usize).cloned().flatten().unwrap_or_else(|| new(table));
    let placement: Vec<Placement> = application.catalog.tables.iter().map(placed).collect();
    let Judged { plans: transactions, open } = judge(application, &placement, 0);
    let has_to = |plan: &&TransactionPlan| {
        plan.mechanism.is_ordered_family() && !runs_in_order(&application.procedures[plan.procedure].name)
    };
    if let Some(plan) = transactions.iter().find(has_to) {
        let procedure = application.procedures[plan.procedure].name.clone();
        return Err(Refusal::Endangers { procedure, why: plan.why.clone() });
    }
    let is_new = |one: &&Open| {
        let assertion = &application.assertions[one.assertion];
        assertion.span.file >= since || application.procedures[one.procedure].span.file >= since
    };
    match open.iter().find(is_new) {
        Some(one) => Err(one.refusal(application)),
        None => Ok(Plan { placement, transactions }),
    }
}

/// Part of a plan that affects execution; the rest is explanation.
#[derive(PartialEq, Eq)]
struct Obeyed {
    mechanism: Mechanism,
    read_only: bool,
    single_partition: bool,
    guards: BTreeSet<(Span, &'static str, TableId, Vec<ColumnIndex>, bool)>,
}

impl Obeyed {
    fn of(plan: &TransactionPlan) -> Obeyed {
        let guards = plan.guards.iter().map(|guard| {
            (guard.statement, guard.kind.name(), guard.table, guard.columns.clone(), guard.shared)
        });
        Obeyed {
            mechanism: plan.mechanism,
            read_only: plan.read_only,
            single_partition: plan.single_partition,
            guards: guards.collect(),
        }
    }
}

struct Judged {
    plans: Vec<TransactionPlan>,
    /// By procedure.
    open: Vec<Open>,
}

/// A procedure that is not proved to keep an assertion when it runs alone; assertions are not checked before a commit.
struct Open {
    procedure: usize,
    /// By its index among the application's.
    assertion: usize,
    operation: String,
}

impl Open {
    fn refusal(&self, application: &Application) -> Refusal {
        Refusal::Unchecked {
            procedure: application.procedures[self.procedure].name.clone(),
            assertion: application.assertions[self.assertion].name.clone(),
            operation: self.operation.clone(),
        }
    }
}

/// Analyses all procedures under the placement. The `ad_hoc` procedures before the last one are ad-hoc statements, whose own plans are
/// irrelevant.
fn judge(application: &Application, placement: &[Placement], ad_hoc: usize) -> Judged {
    let all = effects::of_all(application);
    let invariants = invariant::invariants(application);
    let world = World::new(application, &all);
    let shapes: Vec<Shape<'_>> =
        application.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect();
    let outcomes = rules::judge_all(&world, &shapes, &invariants, &mut Prover::new(None));
    let names: Vec<String> = invariants.iter().map(|invariant| invariant.name.clone()).collect();
    let last = all.len().saturating_sub(1);
    let ad_hoc = last.saturating_sub(ad_hoc)..last;
    let plans = planner::transactions(&world, &names, placement, None, ad_hoc, &outcomes, &mut Vec::new());
    let open_of = |(procedure, outcomes): (usize, &rules::Outcomes)| {
        let of = |(id, outcome): &(InvariantId, rules::Outcome)| match invariants[id.0 as usize].kind {
            InvariantKind::Assertion(assertion) if outcome.alone != Alone::Proved => {
                Some(Open { procedure, assertion, operation: outcome.operation.clone() })
            }
            _ => None,
        };
        outcomes.iter().filter_map(of).collect::<Vec<Open>>()
    };
    let open = outcomes.iter().enumerate().flat_map(open_of).collect();
    Judged { plans, open }
}
