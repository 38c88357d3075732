//! Pairs of calls from small valid states, small things first: where executions that show something are looked for.
//!
//! Like [`crate::explore`], with one call on either side; what counts is the visitor's to say. Steps are counted,
//! never time.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_sql::catalog::TableId;

use crate::domain::calls;
use crate::explore::{leading, reach};
use crate::guards;
use crate::lab::{Lab, Validity};
use crate::literals::{self, Constant};
use crate::replica::{Branch, Invocation, Replica, Who};
use crate::seed::{Filled, Level, needed, plans, seed};
use crate::state::State;

/// Where looking for executions ends.
#[derive(Clone, Copy, Debug)]
pub struct ShowLimits {
    pub calls_per_state: usize,
    /// Pairs of calls of one state.
    pub pairs_per_state: usize,
    /// A step is one call that is run, one merge, or one attempt at a state. Of two transactions, and in all.
    pub steps_per_pair: u64,
    pub steps: u64,
}

impl Default for ShowLimits {
    fn default() -> ShowLimits {
        ShowLimits { calls_per_state: 24, pairs_per_state: 120, steps_per_pair: 3_000, steps: 60_000 }
    }
}

/// Calls and pairs of a state in the first round.
const SHALLOW_CALLS: usize = 8;
const SHALLOW_PAIRS: usize = 16;

/// Two transactions, and in which states they are run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub left: usize,
    pub right: usize,
    /// Tables that matter besides those that the two touch.
    pub tables: BTreeSet<TableId>,
    pub constants: BTreeSet<Constant>,
    pub validity: Validity,
    /// Every node counts its sequences by itself.
    pub counted_alike: bool,
    /// The left one may write nothing.
    pub reader: bool,
    /// Report also pairs that conflict at a guard of the plan.
    pub meeting: bool,
}

/// Two calls that are both valid by themselves.
pub struct Pair<'p> {
    pub initial: &'p State,
    pub left: &'p Branch,
    pub right: &'p Branch,
    /// At a guard of the plan: the second of them waits for the first.
    pub meets: bool,
}

/// Result of a visitor: number of steps taken, and whether to continue.
pub type Visited = (u64, ControlFlow<()>);

pub struct Pairs<'l> {
    pub lab: &'l Lab<'l>,
    limits: ShowLimits,
    /// In all; of these two.
    pub steps_left: u64,
    steps_of_pair: u64,
}

impl<'l> Pairs<'l> {
    pub fn new(lab: &'l Lab<'l>, limits: ShowLimits, steps_left: u64) -> Pairs<'l> {
        Pairs { lab, limits, steps_left, steps_of_pair: 0 }
    }

    fn step(&mut self, steps: u64) -> bool {
        let left = self.steps_of_pair > 0;
        self.steps_of_pair = self.steps_of_pair.saturating_sub(steps);
        self.steps_left = self.steps_left.saturating_sub(steps);
        left
    }

    /// Every pair within the bounds, until the visitor has seen enough. `share` is how many settings are still to come,
    /// this one included: each may take three times its share.
    pub fn each(
        &mut self,
        setting: &Setting,
        share: u64,
        visit: &mut dyn FnMut(&mut Replica<'l>, &Pair<'_>) -> Visited,
    ) {
        const LEAST: u64 = 60;
        let most = (self.steps_left / share.max(1)).saturating_mul(3).max(LEAST);
        self.steps_of_pair = most.min(self.limits.steps_per_pair).min(self.steps_left);
        let _ = self.search(setting, visit);
    }

    fn search(
        &mut self,
        setting: &Setting,
        visit: &mut dyn FnMut(&mut Replica<'l>, &Pair<'_>) -> Visited,
    ) -> ControlFlow<()> {
        let pair = [setting.left, setting.right];
        let tables = needed(self.lab, &pair, &setting.tables);
        let mut seeds: Vec<State> = Vec::new();
        let more = [Level::Number(0), Level::Number(1)].map(|level| (Filled::GivenSiblings(2), level));
        for plan in plans().chain(more) {
            if !self.step(1) {
                return ControlFlow::Break(());
            }
            let Some(seed) = seed(self.lab, &tables, &pair, plan, setting.validity) else { continue };
            if !seeds.contains(&seed) {
                self.state(setting, &seed, SHALLOW_CALLS, SHALLOW_PAIRS, visit)?;
                seeds.push(seed);
            }
        }
        let leading = leading(self.lab, pair, &setting.tables);
        let mut reached: Vec<State> = Vec::new();
        for state in &seeds {
            let calls = |procedure: usize| self.calls(setting, procedure, state, SHALLOW_CALLS);
            let (mut steps, left) = (0, self.steps_of_pair);
            let mut step = || {
                steps += 1;
                steps < left
            };
            let after = reach(self.lab, state, &leading, setting.validity, &calls, &mut step);
            self.step(steps);
            for after in after {
                if !seeds.contains(&after) && !reached.contains(&after) {
                    self.state(setting, &after, SHALLOW_CALLS, SHALLOW_PAIRS, visit)?;
                    reached.push(after);
                }
            }
        }
        for state in seeds.iter().chain(&reached) {
            self.state(setting, state, self.limits.calls_per_state, self.limits.pairs_per_state, visit)?;
        }
        ControlFlow::Continue(())
    }

    fn calls(&self, setting: &Setting, procedure: usize, state: &State, calls_max: usize) -> Vec<Invocation> {
        let mut constants = setting.constants.clone();
        constants.extend(literals::of_procedure(&self.lab.application, setting.left));
        constants.extend(literals::of_procedure(&self.lab.application, setting.right));
        calls(self.lab, procedure, state, &constants, (calls_max, false))
    }

    /// All pairs of one call each from one state, early arguments first.
    fn state(
        &mut self,
        setting: &Setting,
        state: &State,
        calls_max: usize,
        pairs_max: usize,
        visit: &mut dyn FnMut(&mut Replica<'l>, &Pair<'_>) -> Visited,
    ) -> ControlFlow<()> {
        let Ok(mut replica) = Replica::new(self.lab, state) else { return ControlFlow::Continue(()) };
        replica.counted_alike = setting.counted_alike;
        let lefts = self.branches(setting, &mut replica, state, (setting.left, Who::Left), calls_max);
        if lefts.is_empty() {
            return ControlFlow::Continue(());
        }
        let rights = self.branches(setting, &mut replica, state, (setting.right, Who::Right), calls_max);
        if rights.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut pairs = 0;
        for sum in 0..lefts.len() + rights.len() - 1 {
            for left in sum.saturating_sub(rights.len() - 1)..=sum.min(lefts.len() - 1) {
                let (left, right) = (&lefts[left], &rights[sum - left]);
                let meets = guards::meet(left, right);
                if meets && !setting.meeting {
                    continue;
                }
                pairs += 1;
                if pairs > pairs_max {
                    return ControlFlow::Continue(());
                }
                let (steps, flow) = visit(&mut replica, &Pair { initial: state, left, right, meets });
                flow?;
                if !self.step(steps) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn branches(
        &mut self,
        setting: &Setting,
        replica: &mut Replica<'l>,
        state: &State,
        (procedure, who): (usize, Who),
        calls_max: usize,
    ) -> Vec<Branch> {
        let calls = self.calls(setting, procedure, state, calls_max);
        let idle_ok = setting.reader && who == Who::Left;
        let mut branches: Vec<Branch> = Vec::new();
        let mut run = |branches: &mut Vec<Branch>, call: &Invocation| {
            let branch = replica.branch(std::slice::from_ref(call), who, setting.validity, &mut |_| {});
            branches.extend(branch.filter(|branch| idle_ok || !branch.is_idle()));
        };
        for call in &calls {
            if !self.step(1) {
                return branches;
            }
            run(&mut branches, call);
        }
        // Where the likeliest arguments are refused, those that are not are varied one by one.
        let first = branches.first().map(|branch| branch.calls[0].clone());
        if let Some(first) = first.filter(|first| calls.first() != Some(first)) {
            for call in beside(&first, &calls).into_iter().take(calls_max) {
                if !self.step(1) {
                    break;
                }
                run(&mut branches, &call);
            }
        }
        branches
    }
}

/// The call with one argument as in another call, each value once.
fn beside(call: &Invocation, calls: &[Invocation]) -> Vec<Invocation> {
    let mut varied: Vec<Invocation> = Vec::new();
    for at in 0..call.arguments.len() {
        for other in calls {
            let mut one = call.clone();
            one.arguments[at] = other.arguments[at].clone();
            if !calls.contains(&one) && !varied.contains(&one) {
                varied.push(one);
            }
        }
    }
    varied
}

/// Reason why two transactions cannot be run, known in advance.
pub fn refusal(lab: &Lab<'_>, procedures: &[usize]) -> Option<String> {
    procedures.iter().find_map(|&procedure| {
        let why = lab.refusal(procedure)?;
        Some(format!("the engine does not run {}: {why}", lab.application.procedures[procedure].name))
    })
}
