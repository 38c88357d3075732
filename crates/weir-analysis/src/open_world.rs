//! Statements that are none of the application's procedures (design.md §4, "the world is never assumed closed"; soundness S1).
//!
//! A plan is right for the procedures that it was made of. A statement beside them is judged twice: among the procedures,
//! whether any of them would need another plan because of it, and among all that a ad-hoc statement could do to any table, for
//! what it needs itself. The second answer does not depend on which other statements come, today or later: each of them takes
//! the guards that it needs against every other.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_sql::bound::Procedure;
use weir_sql::catalog::{Catalog, ColumnIndex, ForeignKey, ForeignKeyAction, TableId};
use weir_sql::{Application, Span};

use crate::assertion::Shape;
use crate::default_placement;
use crate::dependents::Dependents;
use crate::effects::{self, ProcedureEffects};
use crate::invariant::{self, Invariant, InvariantId, InvariantKind};
use crate::placement;
use crate::plan::{Guard, GuardKind, Mechanism, Placement, Plan, TransactionPlan};
use crate::planted::PlantedFlaws;
use crate::proof::Prover;
use crate::rules::{Declared, Outcomes, Relevance};
use crate::verdict::Alone;
use crate::world::World;
use crate::{planner, rules};

/// Reason why a plan does not hold beside what others do, or for what the transaction may do by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This procedure has been planned for a world without it.
    Endangers { procedure: String, why: String },
    /// Nothing that runs at once keeps what it may break.
    Unkept { why: String },
    /// The procedure is not proved to keep the assertion when it runs alone, and nothing checks the assertion before the commit.
    Unchecked { procedure: String, assertion: String, operation: String },
}

/// Plan of an ad-hoc statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub plan: TransactionPlan,
    /// Reasons why the plan is not enough. With any the statement has to be serializable, and to check what it is not shown to keep.
    pub refusals: Vec<Refusal>,
    /// Procedures that were planned for a world without the statement, by their index.
    pub endangered: Vec<usize>,
}

/// Judges ad-hoc statements on the tables of an application that has been placed.
///
/// A statement is judged among the ad-hoc statements that can write a table of which a rule asks who writes it; what no rule
/// asks about does not change the answer ([`World::asked`]).
#[derive(Debug)]
pub struct OpenWorld {
    application: Arc<Application>,
    placement: Arc<[Placement]>,
    dependents: Arc<Dependents>,
    /// By table, and last those that are no table's: its invariants, listed when a statement meets the first of them.
    invariants: Vec<OnceLock<Vec<Invariant>>>,
    relevance: Relevance,
    /// Tables whose ad-hoc statements may write any table, for a trigger runs with them.
    firing: BTreeSet<TableId>,
    /// Of each of the application's own procedures, by its index, where nobody is beside them.
    plans: Vec<TransactionPlan>,
    /// The application with its own procedures alone: a judgement takes a copy, adds to it, and puts it back.
    copies: Mutex<Vec<Application>>,
    flaws: PlantedFlaws,
}

impl OpenWorld {
    /// Those procedures of the application that nobody wrote are ad-hoc statements.
    pub fn new(application: &Arc<Application>, placement: &Arc<[Placement]>) -> OpenWorld {
        let with_triggers: BTreeSet<TableId> =
            application.catalog.triggers.iter().map(|trigger| trigger.table).collect();
        let mut world = OpenWorld {
            placement: placement.clone(),
            dependents: Arc::new(Dependents::new(&application.catalog)),
            invariants: (0..=application.catalog.tables.len()).map(|_| OnceLock::new()).collect(),
            relevance: Relevance::new(application, &shapes(application)),
            firing: with_parents(&application.catalog, with_triggers),
            application: application.clone(),
            plans: Vec::new(),
            copies: Mutex::default(),
            flaws: PlantedFlaws::default(),
        };
        if application.procedures.iter().any(|procedure| !procedure.synthesised) {
            world.plans = world.judge_in_full(&[]).plans;
        }
        world
    }

    /// The plan of a statement, as a procedure behind the application's.
    pub fn admit(&self, statement: Procedure) -> Judgement {
        let endangered = self.endangers(&statement);
        endangered.add_to(self.plan(statement))
    }

    /// As `admit`, among all ad-hoc statements that there may be.
    pub fn admit_in_full(&self, statement: Procedure) -> Judgement {
        let endangered = self.endangers(&statement);
        endangered.add_to(self.plan_in_full(statement))
    }

    /// Judges every ad-hoc statement of the application, and each of its procedures, near and in full; returns how many. For tests.
    ///
    /// # Errors
    /// Names the first statement that is judged differently.
    pub fn compare(app: Application) -> Result<usize, String> {
        OpenWorld::compare_flawed(app, PlantedFlaws::default())
    }

    /// As `compare`, with these flaws in either judgement.
    ///
    /// # Errors
    /// As `compare`.
    pub fn compare_flawed(app: Application, flaws: PlantedFlaws) -> Result<usize, String> {
        let placement = crate::analyze(&app).plan.placement;
        let ad_hoc = app.catalog.tables.iter().flat_map(weir_sql::synthesised_of);
        let own = app.procedures.iter().filter(|procedure| !procedure.synthesised).cloned();
        let statements: Vec<Procedure> = ad_hoc.chain(own).collect();
        let world = OpenWorld { flaws, ..OpenWorld::new(&Arc::new(app), &placement) };
        for statement in &statements {
            let near = format!("{:?}", world.admit(statement.clone()));
            let full = format!("{:?}", world.admit_in_full(statement.clone()));
            if near != full {
                return Err(format!("{}: near {near}, in full {full}", statement.name));
            }
        }
        Ok(statements.len())
    }

    /// Procedures whose plans do not hold beside the statement.
    fn endangers(&self, statement: &Procedure) -> Endangered {
        let mut endangered = Endangered::default();
        if self.plans.is_empty() {
            return endangered;
        }
        for (before, after) in
            self.plans.iter().zip(self.judge_in_full(std::slice::from_ref(statement)).plans)
        {
            let (known, now) = (Obeyed::of(before), Obeyed::of(&after));
            if known == now {
                continue;
            }
            let one = (after.procedure, self.endangered(&after));
            if known != now.without_locks_besides(&known) {
                endangered.procedures.push(one);
                continue;
            }
            let locks = after.guards.iter().filter(|guard| guard.kind == GuardKind::Lock);
            endangered.keeps.extend(locks.flat_map(|lock| lock.keeps.iter().copied()));
            endangered.gain_locks.push(one);
        }
        endangered
    }

    fn endangered(&self, plan: &TransactionPlan) -> Refusal {
        let mut own = self.application.procedures.iter().filter(|procedure| !procedure.synthesised);
        let procedure = own.nth(plan.procedure).map(|procedure| procedure.name.clone());
        Refusal::Endangers { procedure: procedure.unwrap_or_default(), why: plan.why.clone() }
    }

    /// The plan of a statement, whomever it would endanger.
    pub fn plan(&self, statement: Procedure) -> Judgement {
        match self.judge_near(&statement) {
            Some(judged) => self.plan_of(judged),
            None => self.plan_in_full(statement),
        }
    }

    fn plan_in_full(&self, statement: Procedure) -> Judgement {
        let mut others = self.all_ad_hoc();
        let ad_hoc = others.len();
        others.push(statement);
        let mut application = self.copy();
        let own = application.procedures.len();
        application.procedures.extend(others);
        let judged = self.judge_last(&application, own..own + ad_hoc);
        self.put_back(application, own);
        self.plan_of(judged)
    }

    fn plan_of(&self, Last { mut plan, own, open, .. }: Last) -> Judgement {
        let mut refusals = open;
        if plan.mechanism.is_ordered_family() {
            refusals.insert(0, Refusal::Unkept { why: plan.why.clone() });
        }
        plan.procedure = own;
        Judgement { plan, refusals, endangered: Vec::new() }
    }

    /// The ad-hoc statements on one row of each table; also what is refused: a statement that meets nothing else of its kind is no
    /// ad-hoc statement to one that does half of it.
    fn all_ad_hoc(&self) -> Vec<Procedure> {
        self.application.catalog.tables.iter().flat_map(weir_sql::synthesised_of).collect()
    }

    /// The statement among those that write what matters to it; none: that is not enough to tell.
    fn judge_near(&self, statement: &Procedure) -> Option<Last> {
        let catalog = &self.application.catalog;
        let mut application = self.copy();
        let own = application.procedures.len();
        let mut near = self.first_near(&mut application, statement);
        let judged = loop {
            application.procedures.truncate(own);
            let mut writers = with_parents(catalog, near.clone());
            writers.extend(&self.firing);
            application
                .procedures
                .extend(writers.iter().flat_map(|table| weir_sql::synthesised_of(catalog.table(*table))));
            let ad_hoc = own..application.procedures.len();
            application.procedures.push(statement.clone());
            let judged = self.judge_last(&application, ad_hoc);
            if judged.asked.is_subset(&near) {
                break judged;
            }
            near.extend(&judged.asked);
        };
        self.put_back(application, own);
        // A procedure that is ordered promotes others, and they further ones.
        (!judged.orders).then_some(judged)
    }

    /// Where rules usually look: the tables that the statement touches, and the parents of those that it writes.
    fn first_near(&self, application: &mut Application, statement: &Procedure) -> BTreeSet<TableId> {
        if self.flaws.forgets_neighbours {
            return BTreeSet::new();
        }
        application.procedures.push(statement.clone());
        let last = application.procedures.len() - 1;
        let own = effects::of_one(application, &self.dependents, last);
        application.procedures.truncate(last);
        let mut near: BTreeSet<TableId> = own.reads.iter().map(|read| read.table).collect();
        for write in &own.writes {
            let table = application.catalog.table(write.table);
            near.insert(write.table);
            near.extend(table.foreign_keys.iter().map(|key| key.parent));
        }
        near
    }

    /// All procedures of the application where rows live as they do, for the sake of the last one. Ad-hoc statements are there
    /// for what they do; what they need themselves does not matter.
    fn judge_last(&self, application: &Application, ad_hoc: Range<usize>) -> Last {
        let all = self.effects_of(application);
        let shapes = shapes(application);
        let world = World::with_dependents(application, &all, self.flaws, self.dependents.clone());
        let invariant = &|id| self.invariant(id);
        let declared = Declared { shapes: &shapes, invariant, relevance: &self.relevance };
        let prover = &mut Prover::new(None);
        let of = |procedure: usize| match ad_hoc.contains(&procedure) {
            true => Outcomes::new(),
            false => rules::judge_one(&world, declared, prover, procedure),
        };
        let outcomes: Vec<Outcomes> = (0..all.len()).map(of).collect();
        let own = ad_hoc.start;
        let findings = &mut Vec::new();
        let names = &|id| self.invariant(id).name.as_str();
        let mut plans =
            planner::transactions(&world, names, &self.placement, None, ad_hoc, &outcomes, findings);
        let orders = plans.iter().any(|plan| plan.mechanism.is_ordered_family());
        let (Some(plan), Some(last)) = (plans.pop(), outcomes.last()) else {
            unreachable!("as many plans as procedures")
        };
        let open = opens(invariant, (plan.procedure, last)).map(|one| one.refusal(application)).collect();
        Last { plan, own, open, asked: world.asked(), orders }
    }

    fn invariant(&self, id: InvariantId) -> &Invariant {
        let (table, place) = self.relevance.numbering().place(id);
        let (application, last) = (&self.application, self.invariants.len() - 1);
        let listed = match table {
            Some(table) => {
                let of_table = || invariant::of_table(application, application.catalog.table(table));
                self.invariants[table.0 as usize].get_or_init(of_table)
            }
            None => self.invariants[last].get_or_init(|| invariant::others(application)),
        };
        &listed[place]
    }

    fn effects_of(&self, application: &Application) -> Vec<ProcedureEffects> {
        let of = |procedure| effects::of_one(application, &self.dependents, procedure);
        (0..application.procedures.len()).map(of).collect()
    }

    /// The application's own procedures and these, among nobody else.
    fn judge_in_full(&self, others: &[Procedure]) -> Judged {
        let mut application = self.copy();
        let own = application.procedures.len();
        application.procedures.extend_from_slice(others);
        let judged = judge(&application, &self.placement);
        self.put_back(application, own);
        judged
    }

    /// Everybody beside whom the statement is judged, and itself last.
    pub(crate) fn with_strangers_and(&self, statement: Procedure) -> Application {
        let mut application = self.copy();
        application.procedures.extend(self.all_ad_hoc());
        application.procedures.push(statement);
        application
    }

    fn copy(&self) -> Application {
        let kept = self.copies.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| {
            let mut application = Application::clone(&self.application);
            application.procedures.retain(|procedure| !procedure.synthesised);
            application
        })
    }

    fn put_back(&self, mut application: Application, own: usize) {
        application.procedures.truncate(own);
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(application);
    }
}

/// Procedures whose plans do not hold beside a statement. Each is given by its index, with the reason.
#[derive(Default)]
struct Endangered {
    /// They would need another plan.
    procedures: Vec<(usize, Refusal)>,
    /// They would need row locks, and nothing else.
    gain_locks: Vec<(usize, Refusal)>,
    /// Invariants that these row locks keep.
    keeps: BTreeSet<InvariantId>,
}

impl Endangered {
    /// Adds the procedures that are endangered to the judgement of the statement.
    ///
    /// Row locks that a procedure would gain are not needed if the statement locks rows itself for the same invariants. Every writer
    /// respects a row lock, and a statement that takes one waits for those who have written the row. So one lock orders the
    /// statement and a procedure on the row. The procedure needs its own lock only against a writer that takes none, and among procedures
    /// nothing changes.
    fn add_to(self, mut judgement: Judgement) -> Judgement {
        let Endangered { mut procedures, gain_locks, keeps } = self;
        let locks = |invariant: &InvariantId| {
            let mut guards = judgement.plan.guards.iter();
            guards.any(|guard| guard.kind == GuardKind::Lock && guard.keeps.contains(invariant))
        };
        if !keeps.iter().all(locks) {
            procedures.extend(gain_locks);
        }
        for (at, (procedure, refusal)) in procedures.into_iter().enumerate() {
            judgement.endangered.push(procedure);
            judgement.refusals.insert(at, refusal);
        }
        judgement
    }
}

/// Result of judging an application's last procedure.
struct Last {
    plan: TransactionPlan,
    /// Number of procedures that are the application's own.
    own: usize,
    /// Assertions that it is not shown to keep by itself.
    open: Vec<Refusal>,
    /// The tables of which a rule has asked who writes them.
    asked: BTreeSet<TableId>,
    /// Some transaction runs in order.
    orders: bool,
}

/// With every table whose ad-hoc statements may write one of these: a row that goes or gets another key acts on its children.
fn with_parents(catalog: &Catalog, tables: BTreeSet<TableId>) -> BTreeSet<TableId> {
    let mut todo: Vec<TableId> = tables.iter().copied().collect();
    let mut all = tables;
    while let Some(table) = todo.pop() {
        for key in catalog.table(table).foreign_keys.iter().filter(|key| acts(key)) {
            if all.insert(key.parent) {
                todo.push(key.parent);
            }
        }
    }
    all
}

/// It writes the child when the parent's row goes or gets another key.
fn acts(key: &ForeignKey) -> bool {
    let writes = |action| !matches!(action, ForeignKeyAction::NoAction | ForeignKeyAction::Restrict);
    writes(key.on_delete) || writes(key.on_update)
}

fn shapes(application: &Application) -> Vec<Shape<'_>> {
    application.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect()
}

/// The plan of an application whose schema has changed while it runs. `stays`: by table, where its rows live already; any other
/// is placed as its comment says, or by default ([`default_placement`]). `since`: the first of its files that is no file that it began
/// with. A procedure of such a file checks the assertions that it is not shown to keep by itself, and so does every procedure with the
/// assertions of such a file.
pub fn plan_anew(application: &Application, stays: Vec<Option<Placement>>, since: u32) -> Plan {
    let stays = stays.into_iter().chain(std::iter::repeat(None));
    let tables = application.catalog.tables.iter().zip(stays);
    let known = tables.map(|(table, stays)| stays.or_else(|| placement::said(table))).collect();
    let placement: Arc<[Placement]> = default_placement::complete(&application.catalog, known).into();
    if application.procedures.is_empty() {
        return Plan { placement, transactions: Vec::new() };
    }
    let Judged { plans: mut transactions, open } = judge(application, &placement);
    for one in open {
        let assertion = &application.assertions[one.assertion];
        let is_new = assertion.span.file >= since || application.procedures[one.procedure].span.file >= since;
        let plan = transactions.iter_mut().find(|plan| plan.procedure == one.procedure);
        if let (true, Some(plan)) = (is_new, plan) {
            plan.mechanism = Mechanism::General;
            plan.guards.push(one.check(application));
        }
    }
    Plan { placement, transactions }
}

/// Where the rows of a table would live if its foreign keys placed it now, the others being placed like this.
pub fn placed_by_default(catalog: &Catalog, others: &[Option<Placement>], table: TableId) -> Placement {
    let at = table.0 as usize;
    let mut known = others.to_vec();
    known[at] = None;
    default_placement::complete(catalog, known).swap_remove(at)
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
    /// The same plan without its row locks, but for those of `known`.
    fn without_locks_besides(mut self, known: &Obeyed) -> Obeyed {
        self.guards.retain(|guard| guard.1 != GuardKind::Lock.name() || known.guards.contains(guard));
        // As the planner has it: the guards alone have made it more than a merge.
        if self.mechanism == Mechanism::Ramp && self.single_partition && self.guards.is_empty() {
            self.mechanism = Mechanism::Merge;
        }
        self
    }

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

/// A procedure that is not proved to keep an assertion when it runs alone.
struct Open {
    procedure: usize,
    invariant: InvariantId,
    /// By its index among the application's.
    assertion: usize,
    operation: String,
}

impl Open {
    fn check(&self, application: &Application) -> Guard {
        Guard {
            kind: GuardKind::Check(self.assertion as u32),
            table: TableId(0),
            columns: Vec::new(),
            shared: false,
            statement: application.procedures[self.procedure].span,
            keeps: vec![self.invariant],
            why: format!("{} may break it", self.operation),
        }
    }

    fn refusal(&self, application: &Application) -> Refusal {
        Refusal::Unchecked {
            procedure: application.procedures[self.procedure].name.clone(),
            assertion: application.assertions[self.assertion].name.clone(),
            operation: self.operation.clone(),
        }
    }
}

/// The assertions that a procedure with these outcomes is not shown to keep by itself.
fn opens<'j>(
    invariant: &'j dyn Fn(InvariantId) -> &'j Invariant,
    (procedure, outcomes): (usize, &'j Outcomes),
) -> impl Iterator<Item = Open> + 'j {
    outcomes.iter().filter_map(move |(id, outcome)| match invariant(*id).kind {
        InvariantKind::Assertion(assertion) if outcome.alone != Alone::Proved => {
            Some(Open { procedure, invariant: *id, assertion, operation: outcome.operation.clone() })
        }
        _ => None,
    })
}

/// All procedures where rows live as they do.
fn judge(application: &Application, placement: &[Placement]) -> Judged {
    let all = effects::of_all(application);
    let invariants = invariant::invariants(application);
    let world = World::new(application, &all);
    let outcomes = rules::judge_all(&world, &shapes(application), &invariants, &mut Prover::new(None));
    let invariant = &|id: InvariantId| &invariants[id.0 as usize];
    let names = &|id| invariant(id).name.as_str();
    let plans = planner::transactions(&world, names, placement, None, 0..0, &outcomes, &mut Vec::new());
    let open = outcomes.iter().enumerate().flat_map(|of| opens(invariant, of)).collect();
    Judged { plans, open }
}
