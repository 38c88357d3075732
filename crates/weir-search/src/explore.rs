//! Which states, which branches, in which order, and where it ends: bounded exhaustive exploration of
//! Definition 7 (coordination-avoidance.txt §4.1), small things first.

use std::collections::BTreeSet;

use weir_analysis::witness::Side;
use weir_analysis::{InvariantId, InvariantKind};
use weir_sql::catalog::TableId;

use crate::domain::calls;
use crate::guards;
use crate::lab::{Lab, Validity};
use crate::literals::{self, Constant};
use crate::merge::merge;
use crate::replica::{Branch, Invocation, Replica, Who, state_of};
use crate::seed::{Filled, Level, needed, plans, seed, tables_of};
use crate::state::{State, View};

/// Where the search ends. Everything is counted in steps; nothing depends on a clock.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// 1 or 2.
    pub calls_per_branch: usize,
    /// Calls from a seed to the state in which the branches begin, up to 2.
    pub calls_before: usize,
    pub calls_per_state: usize,
    /// NULL is among the arguments. Where something else will do, a witness is plainer without.
    pub nulls: bool,
    /// Pairs of branches of one state.
    pub pairs_per_state: usize,
    /// A step is one branch that is run, or one merge.
    pub steps_per_verdict: u64,
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            calls_per_branch: 2,
            calls_before: 2,
            calls_per_state: 48,
            nulls: true,
            pairs_per_state: 400,
            steps_per_verdict: 20_000,
            steps: 120_000,
        }
    }
}

/// Calls of the first of two that a longer branch begins with.
const FIRST_CALLS_MAX: usize = 8;

/// Calls and pairs of a state in the first round.
const SHALLOW_CALLS: usize = 8;
const SHALLOW_PAIRS: usize = 40;

/// States that are reached from one seed.
const REACHED_MAX: usize = 16;

/// Transactions that lead from a seed to another state.
const LEADING_MAX: usize = 6;

/// After a merge that also breaks a key, so many more pairs are tried for one that does not.
const CLEANER_PAIRS_MAX: usize = 200;

/// A merge that breaks the invariant.
#[derive(Clone, Debug)]
pub struct Found {
    pub invariant: InvariantId,
    pub initial: State,
    pub left: Vec<Invocation>,
    pub right: Vec<Invocation>,
    pub later: Side,
    pub validity: Validity,
    pub merged: State,
    /// Column and value of the row; empty for a condition.
    pub violation: Vec<(String, String)>,
    /// No key is broken besides.
    pub clean: bool,
}

/// Which verdict is questioned.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub invariant: InvariantId,
    pub left: usize,
    pub right: usize,
}

pub struct Explorer<'l> {
    pub lab: &'l Lab<'l>,
    limits: Limits,
    most_per_verdict: u64,
    /// Steps left for this verdict, and for all.
    pub(crate) steps_left: u64,
    pub steps_left_in_all: u64,
    /// Merges that have been looked at.
    pub merges: u64,
}

struct Task<'q> {
    question: &'q Question,
    validity: Validity,
    constants: BTreeSet<Constant>,
    /// Tables that the invariant reads: a branch that writes none of them breaks nothing.
    tables: BTreeSet<TableId>,
    leading: Vec<usize>,
}

impl<'l> Explorer<'l> {
    pub fn new(lab: &'l Lab<'l>, limits: Limits) -> Explorer<'l> {
        let most_per_verdict = limits.steps_per_verdict;
        Explorer { lab, limits, most_per_verdict, steps_left: 0, steps_left_in_all: limits.steps, merges: 0 }
    }

    /// Sets the steps that the next of `verdicts_left` verdicts may take: three times its share of the rest, because most need few.
    pub fn ration(&mut self, verdicts_left: u64) {
        const LEAST: u64 = 100;
        let share = self.steps_left_in_all / verdicts_left.max(1);
        self.limits.steps_per_verdict = share.saturating_mul(3).clamp(LEAST, self.most_per_verdict);
    }

    /// The first counterexample within the bounds.
    pub fn explore(&mut self, question: &Question) -> Option<Found> {
        self.steps_left = self.limits.steps_per_verdict.min(self.steps_left_in_all);
        let given = self.steps_left;
        // A shallow look at everything first: most witnesses lie among the first arguments.
        let whole = self.limits;
        let shallow = Limits {
            calls_per_branch: 1,
            calls_before: whole.calls_before.min(1),
            calls_per_state: whole.calls_per_state.min(SHALLOW_CALLS),
            nulls: false,
            pairs_per_state: whole.pairs_per_state.min(SHALLOW_PAIRS),
            ..whole
        };
        let rounds = [
            (shallow, Validity::Everything),
            (shallow, Validity::Only(question.invariant)),
            (whole, Validity::Everything),
            (whole, Validity::Only(question.invariant)),
        ];
        let found = rounds.into_iter().find_map(|(limits, validity)| {
            self.limits = limits;
            self.explore_within(question, validity)
        });
        self.limits = whole;
        self.steps_left_in_all -= given - self.steps_left;
        found
    }

    /// Every call of the question's left transaction from every seed, until `look` has found something.
    pub fn seeds_and_calls(
        &mut self,
        question: &Question,
        steps: u64,
        look: &mut dyn FnMut(&mut Replica<'_>, &State, &Invocation) -> Option<Found>,
    ) -> Option<Found> {
        self.steps_left = steps;
        let task = self.task(question, Validity::Everything);
        let tables = needed(self.lab, &[question.left], &task.tables);
        let mut seeds: Vec<State> = Vec::new();
        for plan in plans() {
            let Some(seed) = self.seed(question, &tables, plan, Validity::Everything) else { continue };
            if seeds.contains(&seed) {
                continue;
            }
            let Ok(mut replica) = Replica::new(self.lab, &seed) else { continue };
            for call in self.calls(&task, question.left, &seed) {
                if !self.step() {
                    return None;
                }
                if let Some(found) = look(&mut replica, &seed, &call) {
                    return Some(found);
                }
            }
            seeds.push(seed);
        }
        None
    }

    fn explore_within(&mut self, question: &Question, validity: Validity) -> Option<Found> {
        let task = self.task(question, validity);
        let tables = needed(self.lab, &[question.left, question.right], &task.tables);
        let mut seeds: Vec<State> = Vec::new();
        for plan in plans() {
            if let Some(seed) = self.seed(question, &tables, plan, validity)
                && !seeds.contains(&seed)
            {
                if let Some(found) = self.state(&task, &seed, 1) {
                    return Some(found);
                }
                seeds.push(seed);
            }
        }
        let mut reached: Vec<State> = Vec::new();
        let mut layer = seeds.clone();
        for _ in 0..self.limits.calls_before {
            let mut next = Vec::new();
            for state in &layer {
                for after in self.reach(&task, state) {
                    if seeds.contains(&after) || reached.contains(&after) {
                        continue;
                    }
                    if let Some(found) = self.state(&task, &after, 1) {
                        return Some(found);
                    }
                    reached.push(after.clone());
                    next.push(after);
                }
            }
            layer = next;
        }
        if self.limits.calls_per_branch < 2 {
            return None;
        }
        seeds.iter().chain(&reached).find_map(|state| self.state(&task, state, 2))
    }

    fn task<'q>(&self, question: &'q Question, validity: Validity) -> Task<'q> {
        let mention = self.lab.mention(question.invariant);
        let mut constants = mention.constants.clone();
        for procedure in [question.left, question.right] {
            constants.extend(literals::of_procedure(&self.lab.application, procedure));
        }
        let leading = leading(self.lab, [question.left, question.right], &mention.tables);
        Task { question, validity, constants, tables: mention.tables.clone(), leading }
    }

    fn step(&mut self) -> bool {
        let left = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(1);
        left
    }

    fn seed(
        &mut self,
        question: &Question,
        tables: &[TableId],
        plan: (Filled, Level),
        validity: Validity,
    ) -> Option<State> {
        let transactions = [question.left, question.right];
        self.step().then(|| seed(self.lab, tables, &transactions, plan, validity)).flatten()
    }

    fn calls(&self, task: &Task<'_>, procedure: usize, state: &State) -> Vec<Invocation> {
        let limits = (self.limits.calls_per_state, self.limits.nulls);
        calls(self.lab, procedure, state, &task.constants, limits)
    }

    /// States after one call.
    fn reach(&mut self, task: &Task<'_>, state: &State) -> Vec<State> {
        let (lab, limits) = (self.lab, (self.limits.calls_per_state, self.limits.nulls));
        let calls = |procedure: usize| calls(lab, procedure, state, &task.constants, limits);
        reach(lab, state, &task.leading, task.validity, &calls, &mut || self.step())
    }

    /// All pairs of branches from one state, of up to `length` calls, at least one of so many.
    fn state(&mut self, task: &Task<'_>, state: &State, length: usize) -> Option<Found> {
        let mut replica = Replica::new(self.lab, state).ok()?;
        let lefts = self.branches(task, &mut replica, state, task.question.left, Who::Left, length);
        if lefts.is_empty() {
            return None;
        }
        let rights = self.branches(task, &mut replica, state, task.question.right, Who::Right, length);
        if rights.is_empty() {
            return None;
        }
        let mut fallback: Option<Found> = None;
        let mut pairs = 0;
        for sum in 0..lefts.len() + rights.len() - 1 {
            for left in sum.saturating_sub(rights.len() - 1)..=sum.min(lefts.len() - 1) {
                let (left, right) = (&lefts[left], &rights[sum - left]);
                if left.calls.len().max(right.calls.len()) < length || guards::meet(left, right) {
                    continue;
                }
                pairs += 1;
                let pairs_max = match fallback {
                    Some(_) => self.limits.pairs_per_state.min(CLEANER_PAIRS_MAX),
                    None => self.limits.pairs_per_state,
                };
                if pairs > pairs_max {
                    return fallback;
                }
                for later in [Side::Right, Side::Left] {
                    if !self.step() {
                        return fallback;
                    }
                    self.merges += 1;
                    match self.violated(task, state, left, right, later) {
                        Some(_) if !self.takes_part(task, state, left, right, later) => {}
                        Some(found) if found.clean => return Some(found),
                        Some(found) => fallback = fallback.or(Some(found)),
                        None => {}
                    }
                }
            }
        }
        fallback
    }

    /// The last call of the left branch, which the verdict is about, is needed: without it the merge is valid.
    fn takes_part(&self, task: &Task<'_>, state: &State, left: &Branch, right: &Branch, later: Side) -> bool {
        if left.calls.len() < 2 {
            return true;
        }
        let mut before = left.clone();
        before.operations.last_mut().into_iter().for_each(Vec::clear);
        self.violated(task, state, &before, right, later).is_none()
    }

    /// A merge that breaks the invariant.
    fn violated(
        &self,
        task: &Task<'_>,
        state: &State,
        left: &Branch,
        right: &Branch,
        later: Side,
    ) -> Option<Found> {
        let merged = merge(self.lab, state, left, right, later)?;
        let view = View { schema: &self.lab.program.schema, state: &merged };
        let violation = self.lab.violation(task.question.invariant, &view)?;
        let is_key = |id: &InvariantId| {
            let kind = self.lab.analysis.invariants[id.0 as usize].kind;
            *id != task.question.invariant
                && matches!(
                    kind,
                    InvariantKind::PrimaryKey | InvariantKind::Unique(_) | InvariantKind::UniqueIndex(_)
                )
        };
        let clean = !self.lab.violated(Validity::Only(task.question.invariant), &merged).iter().any(is_key);
        let found = Found {
            invariant: task.question.invariant,
            initial: state.clone(),
            left: left.calls.clone(),
            right: right.calls.clone(),
            later,
            validity: task.validity,
            merged,
            violation,
            clean,
        };
        Some(found)
    }

    /// Valid branches of one transaction that write something that the invariant reads.
    fn branches(
        &mut self,
        task: &Task<'_>,
        replica: &mut Replica<'_>,
        state: &State,
        procedure: usize,
        who: Who,
        length: usize,
    ) -> Vec<Branch> {
        let mut branches = Vec::new();
        let calls = self.calls(task, procedure, state);
        for call in &calls {
            self.run(task, replica, std::slice::from_ref(call), who, &mut branches, &mut |_| {});
        }
        if length < 2 {
            return branches;
        }
        let mut leading = task.leading.clone();
        leading.retain(|&first| first != procedure);
        leading.insert(0, procedure);
        for first in leading {
            let mut firsts = 0;
            for call in self.calls(task, first, state) {
                let mut between = None;
                if firsts >= FIRST_CALLS_MAX || !self.step() {
                    break;
                }
                let mut look = |storage: &weir_txn::storage::Storage| between = Some(state_of(storage));
                replica.branch(std::slice::from_ref(&call), who, task.validity, &mut look);
                let Some(between) = between else { continue };
                firsts += 1;
                for second in self.calls(task, procedure, &between).into_iter().take(FIRST_CALLS_MAX) {
                    self.run(task, replica, &[call.clone(), second], who, &mut branches, &mut |_| {});
                }
            }
        }
        branches
    }

    fn run(
        &mut self,
        task: &Task<'_>,
        replica: &mut Replica<'_>,
        calls: &[Invocation],
        who: Who,
        branches: &mut Vec<Branch>,
        after: &mut dyn FnMut(&weir_txn::storage::Storage),
    ) {
        if !self.step() {
            return;
        }
        if let Some(branch) = replica.branch(calls, who, task.validity, after)
            && !branch.tables().is_disjoint(&task.tables)
        {
            branches.push(branch);
        }
    }
}

/// Transactions that lead from a seed to another state: the two themselves, then the writers of the data that they touch.
pub fn leading(lab: &Lab<'_>, pair: [usize; 2], tables: &BTreeSet<TableId>) -> Vec<usize> {
    let mut wanted = tables.clone();
    pair.iter().for_each(|&procedure| wanted.extend(tables_of(lab.effects(procedure))));
    let writers: BTreeSet<usize> = wanted.iter().flat_map(|&table| lab.writers(table)).collect();
    let [left, right] = pair;
    // The question's own first: they are the likeliest to matter.
    let mut leading = vec![left];
    leading.extend((left != right).then_some(right));
    leading.extend(writers.into_iter().filter(|at| !pair.contains(at)));
    leading.retain(|&procedure| lab.refusal(procedure).is_none());
    leading.truncate(LEADING_MAX);
    leading
}

/// States after one call; `step` says whether another one may be run.
pub fn reach(
    lab: &Lab<'_>,
    state: &State,
    leading: &[usize],
    validity: Validity,
    calls: &dyn Fn(usize) -> Vec<Invocation>,
    step: &mut dyn FnMut() -> bool,
) -> Vec<State> {
    let mut reached: Vec<State> = Vec::new();
    let Ok(mut replica) = Replica::new(lab, state) else { return reached };
    for &procedure in leading {
        let mut of_procedure = 0;
        for call in calls(procedure) {
            if of_procedure * leading.len() >= REACHED_MAX || !step() {
                break;
            }
            let mut after = None;
            let mut look = |storage: &weir_txn::storage::Storage| after = Some(state_of(storage));
            replica.branch(&[call], Who::Before, validity, &mut look);
            if let Some(after) = after
                && after != *state
                && !reached.contains(&after)
            {
                reached.push(after);
                of_procedure += 1;
            }
        }
    }
    reached
}
