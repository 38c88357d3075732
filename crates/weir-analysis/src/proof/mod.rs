//! Proofs: can two valid branches merge into a row that breaks a condition? Put to an SMT solver where no rule decides.
//!
//! Definition 7 of coordination-avoidance.txt, one step at a time. Let every change of a row be a step of one
//! statement. If, whatever valid state both branches have come to, a step of the one and a step of the other that each
//! lead to a valid state lead to one together, in either order, then by induction over both branches so do all of
//! them. What a step does may depend on anything its transaction has read; only columns that no transaction
//! updates are tied to the state. `docs/analysis.md` has the encoding and the conditions of its soundness.
//!
//! Pure: the solver is the caller's, behind [`Solver`].

mod condition;
pub mod formula;
mod step;
mod total;

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::bound::Expr;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk;

use self::condition::{Fixed, Row, Translation, sort_of};
use self::formula::{Formula, Quantity, Question, Sort, Value};
use self::step::{Kind, Step};
use self::total::Unwanted;
use crate::assertion::{Claim, Shape};
use crate::effects::Write;
use crate::invariant::{Invariant, InvariantKind};
use crate::rules::Outcome;
use crate::verdict::{Alone, DecidedBy, Rule};
use crate::world::World;

/// Answers questions of linear arithmetic.
pub trait Solver {
    /// Can all that the question holds be true at once? `None` if it does not know.
    fn is_possible(&mut self, question: &Question) -> Option<bool>;
}

/// Questions beyond that many are not asked: a large application must not wait for its proofs.
const QUESTIONS_MAX: usize = 2_000;

/// Asks each question once.
pub struct Prover<'s> {
    solver: Option<&'s mut dyn Solver>,
    known: BTreeMap<Question, Option<bool>>,
    /// Verdicts that a solver might have decided, and there was none.
    pub unasked: usize,
}

impl<'s> Prover<'s> {
    pub fn new(solver: Option<&'s mut dyn Solver>) -> Prover<'s> {
        Prover { solver, known: BTreeMap::new(), unasked: 0 }
    }

    /// Decides what the rules have left open, where it can: [`DecidedBy::Proof`].
    pub fn improve(
        &mut self,
        world: &World<'_>,
        shapes: &[Shape<'_>],
        invariant: &Invariant,
        procedure: usize,
        outcome: Outcome,
    ) -> Outcome {
        let outcome = match invariant.kind {
            InvariantKind::Assertion(index) if outcome.alone == Alone::No => {
                self.prove_alone(world, &shapes[index], procedure, outcome)
            }
            _ => outcome,
        };
        if outcome.confluent {
            return outcome;
        }
        let outcome = match invariant.kind {
            InvariantKind::Assertion(index) => self.improve_sums(world, &shapes[index], procedure, outcome),
            _ => outcome,
        };
        if outcome.confluent || !is_open(&outcome) {
            return outcome;
        }
        let Some(claim) = RowClaim::of(world, shapes, invariant) else { return outcome };
        match self.is_confluent(world, &claim, procedure) {
            Some(true) => {
                let because = "A solver finds no row, arguments and order in which two valid branches merge into a \
                               row that breaks the condition.";
                let mut proved =
                    Outcome::yes(Rule::PerRecord, outcome.operation, because).alone(outcome.alone);
                if proved.alone == Alone::No {
                    proved.alone = Alone::Checked;
                }
                proved.decided_by = DecidedBy::Proof;
                match world.deleters(claim.table).next() {
                    Some(_) => proved.assuming("no key is used again once its row is deleted"),
                    None => proved,
                }
            }
            _ => outcome,
        }
    }

    /// An equality between sums stays one if all that the transaction adds on a path comes to nothing: the other half of
    /// Theorem 1, where terms that do not cancel one by one cancel together.
    fn prove_alone(
        &mut self,
        world: &World<'_>,
        shape: &Shape<'_>,
        procedure: usize,
        outcome: Outcome,
    ) -> Outcome {
        let proved = crate::rules::clauses(world, shape, procedure, &mut |clause, outcome| {
            let Claim::Equality(atoms) = &clause.claim else { return outcome };
            let open = outcome.alone == Alone::No;
            match open
                && total::never(Unwanted::Another, self, world, shape, clause, atoms, procedure) == Some(true)
            {
                true => outcome.proved(),
                false => outcome,
            }
        });
        match proved {
            Some(proved) if proved.alone != Alone::No => outcome.alone(proved.alone),
            _ => outcome,
        }
    }

    /// Improves verdicts on clauses of an assertion that compare sums.
    fn improve_sums(
        &mut self,
        world: &World<'_>,
        shape: &Shape<'_>,
        procedure: usize,
        outcome: Outcome,
    ) -> Outcome {
        let mut proved = false;
        let improved = crate::rules::clauses(world, shape, procedure, &mut |clause, outcome| {
            let Claim::AtLeast(atoms) = &clause.claim else { return outcome };
            if outcome.confluent
                || !is_open(&outcome)
                || total::never(Unwanted::Narrower, self, world, shape, clause, atoms, procedure)
                    != Some(true)
            {
                return outcome;
            }
            proved = true;
            let because = "A solver finds no run in which all that it adds narrows the margin; what it adds is the same \
                           wherever in a merge it stands.";
            let mut yes = Outcome::yes(Rule::MarginWider, outcome.operation, because).proved();
            yes.decided_by = DecidedBy::Proof;
            for relation in &clause.scope {
                if shape.table(*relation).is_some_and(|table| world.deleters(table).next().is_some()) {
                    yes = yes.assuming("no key is used again once its row is deleted");
                }
            }
            yes
        });
        improved.filter(|_| proved).unwrap_or(outcome)
    }

    /// `None` if the question cannot be expressed, or the solver gives no answer.
    fn is_confluent(&mut self, world: &World<'_>, claim: &RowClaim<'_>, procedure: usize) -> Option<bool> {
        let columns = claim.changing(world)?;
        let changes = |write: &Write| columns.keys().any(|column| write.update_of(*column).is_some());
        let own: Vec<&Write> =
            world.effects[procedure].writes.iter().filter(|w| w.table == claim.table && changes(w)).collect();
        let others: Vec<(usize, &Write)> =
            world.writes_of(claim.table).filter(|(_, write)| changes(write)).collect();
        let assigned: Vec<ColumnIndex> = columns
            .iter()
            .filter(|(_, (kind, _))| *kind == Kind::Assign)
            .map(|(column, _)| *column)
            .collect();
        // Where everybody sets all of these at once, the last one's stand together.
        let whole = |write: &Write| {
            let count = assigned.iter().filter(|column| write.update_of(**column).is_some()).count();
            count == 0 || count == assigned.len()
        };
        let partial = !others.iter().all(|(_, write)| whole(write));
        for left in own {
            for &(other, right) in &others {
                let question = claim.question(world, &columns, (procedure, left), (other, right), partial)?;
                match self.ask(question) {
                    Some(false) => {}
                    answer => return answer.map(|possible| !possible),
                }
            }
        }
        Some(true)
    }

    fn ask(&mut self, question: Question) -> Option<bool> {
        if let Some(&known) = self.known.get(&question) {
            return known;
        }
        let Some(solver) = &mut self.solver else {
            self.unasked += 1;
            return None;
        };
        if self.known.len() >= QUESTIONS_MAX {
            return None;
        }
        let answer = solver.is_possible(&question);
        self.known.insert(question, answer);
        answer
    }
}

/// Verdicts of rules that a solver contradicts: the rule says that branches merge, the solver knows two that do not.
/// There are none; tests ask.
pub fn contradictions(app: &Application, solver: &mut dyn Solver) -> Vec<String> {
    let effects = crate::effects::of_all(app);
    let world = World::new(app, &effects);
    let shapes: Vec<Shape<'_>> = app.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect();
    let mut prover = Prover::new(Some(solver));
    let mut found = Vec::new();
    for invariant in crate::invariant::invariants(app) {
        let Some(claim) = RowClaim::of(&world, &shapes, &invariant) else { continue };
        for procedure in 0..effects.len() {
            let Some(outcome) = crate::rules::judge(&world, &shapes, &invariant, procedure) else { continue };
            if outcome.confluent && prover.is_confluent(&world, &claim, procedure) == Some(false) {
                found.push(format!("{} and {}", world.name(procedure), invariant.name));
            }
        }
    }
    found
}

/// A rule's *no* that is an argument from form, which numbers may refute; or no rule at all.
fn is_open(outcome: &Outcome) -> bool {
    match outcome.decided_by {
        DecidedBy::Assumption => true,
        DecidedBy::Rule(rule) => {
            matches!(rule, Rule::RecordSkew | Rule::MarginUsed | Rule::BoundToward | Rule::BoundAvoid)
        }
        DecidedBy::Proof | DecidedBy::Search => false,
    }
}

/// "Every row of the table meets this."
struct RowClaim<'a> {
    table: TableId,
    /// All of these hold, and none of those do.
    holds: Vec<&'a Expr>,
    /// Each a conjunction.
    never: Vec<Vec<&'a Expr>>,
}

impl<'a> RowClaim<'a> {
    fn of(world: &World<'a>, shapes: &[Shape<'a>], invariant: &Invariant) -> Option<RowClaim<'a>> {
        match (invariant.kind, invariant.table) {
            (InvariantKind::Check(index) | InvariantKind::Domain(index), Some(table)) => {
                let expr = &world.table(table).checks[index].expr;
                Some(RowClaim { table, holds: vec![expr], never: Vec::new() })
            }
            (InvariantKind::Assertion(index), _) => RowClaim::of_assertion(&shapes[index]),
            _ => None,
        }
    }

    fn of_assertion(shape: &Shape<'a>) -> Option<RowClaim<'a>> {
        let mut never = Vec::new();
        let mut tables = BTreeSet::new();
        for clause in &shape.clauses {
            let Claim::Row(relation, violation) = clause.claim else { return None };
            if clause.scope != [relation] || shape.tables.len() != 1 {
                return None;
            }
            tables.insert(shape.table(relation)?);
            never.push(clause.conditions.iter().copied().chain([violation]).collect());
        }
        let table = tables.first().copied()?;
        (tables.len() == 1).then_some(RowClaim { table, holds: Vec::new(), never })
    }

    fn expressions(&self) -> impl Iterator<Item = &'a Expr> + '_ {
        self.holds.iter().chain(self.never.iter().flatten()).copied()
    }

    fn columns(&self) -> BTreeSet<ColumnIndex> {
        let mut columns = BTreeSet::new();
        for expr in self.expressions() {
            walk::columns(expr, &mut |_, column| {
                columns.insert(column);
            });
        }
        columns
    }

    /// The columns that transactions update, each in one way; `None` where one of them cannot be followed.
    fn changing(&self, world: &World<'_>) -> Option<BTreeMap<ColumnIndex, (Kind, Sort)>> {
        let mut changing = BTreeMap::new();
        for column in self.columns() {
            if world.is_immutable(self.table, column) {
                continue;
            }
            let definition = &world.table(self.table).columns[column];
            let sort = sort_of(&definition.ty).filter(|_| definition.not_null)?;
            let mut kinds = BTreeSet::new();
            for (_, write) in world.writes_of(self.table) {
                if let Some(operation) = write.update_of(column) {
                    // The effect of an upsert depends on whether the row is there.
                    kinds.insert(Kind::of(operation).filter(|_| !write.is_insert())?);
                }
            }
            let kind = kinds.pop_first().filter(|_| kinds.is_empty())?;
            changing.insert(column, (kind, sort));
        }
        (!changing.is_empty()).then_some(changing)
    }

    fn question(
        &self,
        world: &World<'_>,
        columns: &BTreeMap<ColumnIndex, (Kind, Sort)>,
        left: (usize, &Write),
        right: (usize, &Write),
        partial: bool,
    ) -> Option<Question> {
        let mut question = Question::default();
        let table = world.table(self.table);
        let mut fixed = Row::new();
        let mut state = Row::new();
        for (column, definition) in table.columns.iter().enumerate() {
            let Some(sort) = sort_of(&definition.ty).filter(|_| definition.not_null) else { continue };
            let changes = columns.contains_key(&column);
            if !changes && !world.is_immutable(self.table, column) {
                continue;
            }
            let value = any(sort, &mut question);
            if !changes {
                fixed.insert(column, value.clone());
            }
            state.insert(column, value);
        }
        let step = |(procedure, write): (usize, &'_ Write), question: &mut Question| {
            // The write is the world's own; only its lifetime here is shorter.
            Step::new(world, procedure, write, columns, &fixed, partial, question)
        };
        let (left, right) = (step(left, &mut question), step(right, &mut question));
        let mut truths = Fixed::default();
        let is_mutable = |column| !world.is_immutable(self.table, column);
        let translation = Translation { table, is_mutable: &is_mutable };
        let of_left = left.after(&state, &mut question);
        let of_right = right.after(&state, &mut question);
        let both = [right.after(&of_left, &mut question), left.after(&of_right, &mut question)];
        for valid in [&state, &of_left, &of_right] {
            let holds = self.formula(&translation, valid, &mut truths, &mut question)?;
            question.holds.push(holds);
        }
        let mut broken = Vec::new();
        for merged in &both {
            broken.push(Formula::negated(self.formula(&translation, merged, &mut truths, &mut question)?));
        }
        question.holds.push(Formula::any(broken));
        question.holds.retain(|formula| *formula != Formula::Constant(true));
        Some(question)
    }

    fn formula(
        &self,
        translation: &Translation<'_>,
        row: &Row,
        truths: &mut Fixed,
        question: &mut Question,
    ) -> Option<Formula> {
        let mut parts = Vec::new();
        for expr in &self.holds {
            parts.push(translation.formula(expr, row, truths, question)?);
        }
        for conjunction in &self.never {
            let each = conjunction.iter().map(|expr| translation.formula(expr, row, truths, question));
            parts.push(Formula::negated(Formula::all(each.collect::<Option<Vec<_>>>()?)));
        }
        Some(Formula::all(parts))
    }
}

/// A column's value, of which nothing is known.
fn any(sort: Sort, question: &mut Question) -> Value {
    let number = Quantity::Variable(question.variable(sort));
    let nan = match sort {
        Sort::Real => Formula::Variable(question.variable(Sort::Truth)),
        _ => Formula::Constant(false),
    };
    Value { nan, number }
}
