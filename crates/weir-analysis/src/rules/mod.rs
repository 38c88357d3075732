//! The rules: one function for each kind of invariant, one [`Rule`] for each argument.
//!
//! A rule that finds nothing to say returns an assumption: it says so, and the transaction is treated as
//! needing coordination.

mod apart;
mod assertion;
pub mod balance;
mod bound;
mod counterpart;
mod dense;
mod derived;
mod extreme;
mod fact;
mod foreign_key;
mod list;
mod margin;
mod net;
mod range;
mod record;
mod relevance;
mod rows;
mod settled;
mod sum;
mod total;
mod unique;

use weir_sql::Span;
use weir_sql::catalog::{ColumnIndex, TableId};

pub use self::relevance::{Relevance, tables_of};
use crate::assertion::{Clause, Shape};
use crate::effects::{Operation, Write};
use crate::invariant::{Invariant, InvariantId, InvariantKind};
use crate::plan::GuardKind;
use crate::proof::Prover;
use crate::verdict::{Alone, DecidedBy, Rule, Verdict};
use crate::world::{ClaimedRow, Counter, World};

/// A verdict with the guards that would keep the invariant where it is not confluent.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub operation: String,
    pub with: Option<usize>,
    pub confluent: bool,
    pub alone: Alone,
    pub assumes: Vec<String>,
    pub because: String,
    pub decided_by: DecidedBy,
    /// Empty and not confluent: nothing cheaper than the ordered family keeps it.
    pub guards: Vec<GuardDraft>,
    /// Guards that a confluent verdict takes for granted. If no other verdict asks for them, this one does.
    pub relies_on: Vec<GuardDraft>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardDraft {
    pub kind: GuardKind,
    pub table: TableId,
    pub columns: Vec<ColumnIndex>,
    pub shared: bool,
    pub statement: Span,
    pub why: String,
}

impl Outcome {
    pub fn yes(rule: Rule, operation: impl Into<String>, because: impl Into<String>) -> Outcome {
        Outcome {
            operation: operation.into(),
            with: None,
            confluent: true,
            alone: Alone::Checked,
            assumes: Vec::new(),
            because: because.into(),
            decided_by: DecidedBy::Rule(rule),
            guards: Vec::new(),
            relies_on: Vec::new(),
        }
    }

    pub fn no(rule: Rule, with: usize, operation: impl Into<String>, because: impl Into<String>) -> Outcome {
        Outcome { with: Some(with), confluent: false, ..Outcome::yes(rule, operation, because) }
    }

    /// Nothing decides it.
    pub fn undecided(operation: impl Into<String>, because: impl Into<String>) -> Outcome {
        Outcome {
            confluent: false,
            alone: Alone::No,
            decided_by: DecidedBy::Assumption,
            ..Outcome::yes(Rule::Untouched, operation, because)
        }
    }

    pub fn proved(mut self) -> Outcome {
        self.alone = Alone::Proved;
        self
    }

    pub fn alone(mut self, alone: Alone) -> Outcome {
        self.alone = alone;
        self
    }

    pub fn assuming(mut self, assumption: impl Into<String>) -> Outcome {
        let assumption = assumption.into();
        if !self.assumes.contains(&assumption) {
            self.assumes.push(assumption);
        }
        self
    }

    pub fn guarded(mut self, guard: GuardDraft) -> Outcome {
        if !self.guards.contains(&guard) {
            self.guards.push(guard);
        }
        self
    }

    pub fn relying_on(mut self, guard: GuardDraft) -> Outcome {
        if !self.relies_on.contains(&guard) {
            self.relies_on.push(guard);
        }
        self
    }

    fn rank(&self) -> u8 {
        match (self.confluent, self.guards.is_empty()) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        }
    }
}

/// The outcomes of one transaction, for the invariants that it touches, in order.
pub type Outcomes = Vec<(InvariantId, Outcome)>;

/// The verdicts on all transactions, and the guards they ask for.
pub fn judge_all<'a>(
    world: &World<'a>,
    shapes: &[Shape<'a>],
    invariants: &[Invariant],
    prover: &mut Prover<'_>,
) -> Vec<Outcomes> {
    let relevance = Relevance::new(world.app, shapes);
    let invariant = &|id: InvariantId| &invariants[id.0 as usize];
    let declared = Declared { shapes, invariant, relevance: &relevance };
    (0..world.effects.len()).map(|procedure| judge_one(world, declared, prover, procedure)).collect()
}

/// The invariants that an application declares, and the tables that each names.
#[derive(Clone, Copy)]
pub struct Declared<'d, 'a> {
    pub shapes: &'d [Shape<'a>],
    /// By its id.
    pub invariant: &'d dyn Fn(InvariantId) -> &'d Invariant,
    pub relevance: &'d Relevance,
}

/// The verdicts on one transaction, which do not depend on those on others.
pub fn judge_one<'a>(
    world: &World<'a>,
    declared: Declared<'_, 'a>,
    prover: &mut Prover<'_>,
    procedure: usize,
) -> Outcomes {
    let Declared { shapes, invariant, relevance } = declared;
    let relevant = relevance.of(world, &world.effects[procedure]).into_iter();
    let judged = relevant.filter_map(|id| {
        let invariant = invariant(id);
        let outcome = judge(world, shapes, invariant, procedure)?;
        let outcome = prover.improve(world, shapes, invariant, procedure, outcome);
        Some((id, world.flaws.turn(as_followed(world, procedure, outcome))))
    });
    let mut outcomes: Outcomes = judged.collect();
    settle_reliance(&mut outcomes, procedure);
    outcomes
}

/// The outcome, if all is known that the transaction does; else a yes is no more than undecided. What is derived from
/// rows holds whatever is done.
fn as_followed(world: &World<'_>, procedure: usize, outcome: Outcome) -> Outcome {
    let derived = [Rule::SecondaryIndex, Rule::MaterializedView, Rule::SequenceShare].map(DecidedBy::Rule);
    match world.effects[procedure].unseen.first() {
        Some((what, _)) if outcome.confluent && !derived.contains(&outcome.decided_by) => {
            let because = format!("Not all that it does is known: the analysis does not follow the {what}.");
            Outcome::undecided(outcome.operation, because)
        }
        _ => outcome,
    }
}

/// The verdict on one transaction and one invariant; `None` where it touches nothing of it.
pub fn judge(
    world: &World<'_>,
    shapes: &[Shape<'_>],
    invariant: &Invariant,
    procedure: usize,
) -> Option<Outcome> {
    match (invariant.kind, invariant.table) {
        (InvariantKind::NotNull, Some(table)) => {
            record::not_null(world, table, invariant.columns[0], procedure)
        }
        (InvariantKind::Enumeration, Some(table)) => {
            record::enumeration(world, table, invariant.columns[0], procedure)
        }
        (InvariantKind::Check(index) | InvariantKind::Domain(index), Some(table)) => {
            record::check(world, table, index, procedure)
        }
        (InvariantKind::Exclude(index), Some(table)) => {
            unique::exclusion(world, table, index, &invariant.columns, procedure)
        }
        (
            InvariantKind::PrimaryKey | InvariantKind::Unique(_) | InvariantKind::UniqueIndex(_),
            Some(table),
        ) => unique::judge(world, table, &invariant.columns, invariant.kind, procedure),
        (InvariantKind::ForeignKey(index), Some(table)) => foreign_key::judge(world, table, index, procedure),
        (InvariantKind::Index(_), Some(table)) => derived::index(world, table, &invariant.columns, procedure),
        (InvariantKind::View(index), _) => derived::view(world, index, procedure),
        (InvariantKind::Sequence(sequence), _) => derived::sequence(world, sequence, procedure),
        (InvariantKind::Assertion(index), _) => {
            assertion::judge(world, &shapes[index], procedure, &mut |_, outcome| outcome)
        }
        (_, None) => None,
    }
}

/// An assertion's verdict, of which the outcome of each clause has passed through `decide`.
pub fn clauses(
    world: &World<'_>,
    shape: &Shape<'_>,
    procedure: usize,
    decide: &mut dyn FnMut(&Clause<'_>, Outcome) -> Outcome,
) -> Option<Outcome> {
    assertion::judge(world, shape, procedure, decide)
}

/// The verdict where a transaction touches nothing of an invariant.
pub fn untouched(read_only: bool) -> Outcome {
    let operation = if read_only { "reads only" } else { "writes nothing that it speaks of" };
    Outcome::yes(Rule::Untouched, operation, "What the invariant speaks of is the same after it as before.")
        .proved()
}

/// The number, taken at the counter's owner at commit.
pub fn sequence_guard(world: &World<'_>, counter: &Counter) -> GuardDraft {
    GuardDraft {
        kind: GuardKind::Sequence,
        table: counter.table,
        columns: vec![counter.column],
        shared: false,
        statement: counter.statement,
        why: format!("takes the number of {} at commit", world.column_name(counter.table, counter.column)),
    }
}

/// The row, tested and set at its owner.
pub fn claim_guard(world: &World<'_>, claim: &ClaimedRow) -> GuardDraft {
    let name = &world.table(claim.table).name;
    let why = if claim.deleted {
        format!("takes the row of {name} once")
    } else {
        format!("holds the row of {name} that it has FOR UPDATE")
    };
    GuardDraft {
        kind: GuardKind::Claim,
        table: claim.table,
        columns: claim.key.iter().map(|(column, _)| *column).collect(),
        shared: false,
        statement: claim.statement,
        why,
    }
}

/// The rows that the statement writes, locked at their owner.
pub fn lock_guard(world: &World<'_>, write: &Write) -> GuardDraft {
    let table = world.table(write.table);
    GuardDraft {
        kind: GuardKind::Lock,
        table: write.table,
        columns: table.primary_key.as_ref().map_or_else(Vec::new, |key| key.columns.clone()),
        shared: false,
        statement: write.span,
        why: format!("holds the row of {} from the check of its values to the commit", table.name),
    }
}

/// A verdict may rely on a guard only if another verdict of the transaction asks for it; else it asks itself.
fn settle_reliance(outcomes: &mut Outcomes, procedure: usize) {
    let asked: Vec<GuardDraft> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.confluent)
        .flat_map(|(_, outcome)| outcome.guards.clone())
        .collect();
    let same_item =
        |a: &GuardDraft, b: &GuardDraft| a.kind == b.kind && a.table == b.table && a.columns == b.columns;
    for (_, outcome) in outcomes.iter_mut().filter(|(_, outcome)| outcome.confluent) {
        let missing: Vec<GuardDraft> = outcome
            .relies_on
            .iter()
            .filter(|guard| !asked.iter().any(|other| same_item(other, guard)))
            .cloned()
            .collect();
        if !missing.is_empty() {
            outcome.confluent = false;
            outcome.with = Some(procedure);
            outcome.because = format!(
                "Without a guard two branches have the same value. {}",
                std::mem::take(&mut outcome.because)
            );
            outcome.guards = missing;
        }
    }
}

/// The worst of several outcomes, with the guards and assumptions of all.
pub fn combine(outcomes: Vec<Outcome>) -> Option<Outcome> {
    let mut outcomes = outcomes.into_iter();
    let mut worst = outcomes.next()?;
    for other in outcomes {
        let (mut high, low) = if other.rank() > worst.rank() { (other, worst) } else { (worst, other) };
        high.alone = weaker(high.alone, low.alone);
        if high.rank() < 2 {
            for guard in low.guards {
                high = high.guarded(guard);
            }
        }
        for guard in low.relies_on {
            high = high.relying_on(guard);
        }
        for assumption in low.assumes {
            high = high.assuming(assumption);
        }
        worst = high;
    }
    Some(worst)
}

fn weaker(a: Alone, b: Alone) -> Alone {
    match (a, b) {
        (Alone::No, _) | (_, Alone::No) => Alone::No,
        (Alone::Checked, _) | (_, Alone::Checked) => Alone::Checked,
        _ => Alone::Proved,
    }
}

/// `inserts into t`, `updates t (a, b)`, `deletes from t`.
pub fn describe(world: &World<'_>, write: &Write) -> String {
    let table = world.table(write.table);
    let words = match &write.operation {
        Operation::Insert { on_conflict: Some(_), .. } => format!("upserts into {}", table.name),
        Operation::Insert { .. } => format!("inserts into {}", table.name),
        Operation::Delete { .. } => format!("deletes from {}", table.name),
        Operation::Update { columns, .. } => {
            let columns: Vec<ColumnIndex> = columns.iter().map(|(column, _)| *column).collect();
            format!("updates {} {}", table.name, crate::invariant::column_list(table, &columns))
        }
    };
    match write.action {
        Some(action) => {
            format!("{words} (by {})", world.table(action.table).foreign_keys[action.key].name)
        }
        None => words,
    }
}

impl Outcome {
    pub fn into_verdict(self, invariant: InvariantId, transaction: usize) -> Verdict {
        Verdict {
            invariant,
            transaction,
            operation: self.operation,
            with: self.with,
            confluent: self.confluent,
            alone: self.alone,
            assumes: self.assumes,
            because: self.because,
            decided_by: self.decided_by,
            refused_by: None,
            assumed: None,
            witness: None,
            alone_witness: None,
        }
    }
}
