//! Cases: two calls of one state, and what they come to together, that show a finding.
//!
//! Looks for them and runs them again; what counts is the [`Judge`]'s to say.

use std::ops::ControlFlow;

use weir_analysis::execution::Execution;
use weir_analysis::witness::Side;

use super::pairs::{Pair, Pairs, Setting};
use super::record::Found;
use crate::guards;
use crate::lab::{Lab, Validity};
use crate::replica::{Branch, InOrder, Invocation, NamedRows, Replica, Who};
use crate::state::State;

/// Where a finding shows, as far as it has to be run again.
pub struct Case {
    pub initial: State,
    pub left: Invocation,
    pub right: Invocation,
    pub later: Side,
    pub validity: Validity,
    pub counted_alike: bool,
}

impl Case {
    pub fn of(pair: &Pair<'_>, setting: &Setting, later: Side) -> Case {
        Case {
            initial: pair.initial.clone(),
            left: pair.left.calls[0].clone(),
            right: pair.right.calls[0].clone(),
            later,
            validity: setting.validity,
            counted_alike: setting.counted_alike,
        }
    }

    /// Both calls once more, from this state; nothing where it is not a valid one or a call is refused.
    pub fn again<'l, T>(
        &self,
        lab: &'l Lab<'l>,
        initial: &State,
        look: impl FnOnce(&mut Replica<'l>, &Pair<'_>) -> Option<T>,
    ) -> Option<(Branch, Branch, T)> {
        if !lab.violated(self.validity, initial).is_empty() {
            return None;
        }
        let mut replica = Replica::new(lab, initial).ok()?;
        replica.counted_alike = self.counted_alike;
        let mut branch = |call: &Invocation, who: Who| {
            replica.branch(std::slice::from_ref(call), who, self.validity, &mut |_| {})
        };
        let (left, right) = (branch(&self.left, Who::Left)?, branch(&self.right, Who::Right)?);
        let meets = guards::meet(&left, &right);
        let seen = look(&mut replica, &Pair { initial, left: &left, right: &right, meets })?;
        Some((left, right, seen))
    }
}

/// A pair of calls under the eye, with what they come to together; both orders are run at most once.
pub struct Sight<'a, 'l, T> {
    pub replica: &'a mut Replica<'l>,
    pub pair: &'a Pair<'a>,
    pub together: &'a T,
    pub orders: &'a mut Option<[InOrder; 2]>,
}

impl<T> Sight<'_, '_, T> {
    /// Both calls one after the other, in each order.
    pub fn orders(&mut self) -> &[InOrder; 2] {
        let (left, right) = (&self.pair.left.calls[0], &self.pair.right.calls[0]);
        self.orders.get_or_insert_with(|| {
            [
                self.replica.in_order(&[(Who::Left, left), (Who::Right, right)]),
                self.replica.in_order(&[(Who::Right, right), (Who::Left, left)]),
            ]
        })
    }

    /// In either order a call fails, or what it leads to differs.
    pub fn no_order(&mut self, differs: impl Fn(&NamedRows) -> bool) -> bool {
        self.orders().iter().all(|order| failed(order) || differs(&order.rows))
    }

    /// A call has failed in an order that has been run.
    pub fn fails(&self) -> bool {
        self.orders.iter().flatten().any(failed)
    }
}

fn failed(order: &InOrder) -> bool {
    order.answers.iter().any(Result::is_err)
}

/// Significance of a pair for a finding.
pub enum Judged {
    /// Not relevant.
    Passed,
    DoesNotShow,
    /// Shows the finding; a clean case is more convincing.
    Shows {
        clean: bool,
    },
}

/// Whether two calls at once show a finding.
pub trait Judge<'l> {
    /// Result of two concurrent calls.
    type Together;

    /// Where to look for those findings that are still open.
    fn setting(&self, validity: Validity, open: &[usize]) -> Setting;
    fn together(&self, pair: &Pair<'_>, later: Side) -> Option<Self::Together>;
    fn judge(
        &mut self,
        finding: usize,
        setting: &Setting,
        sight: &mut Sight<'_, 'l, Self::Together>,
    ) -> Judged;
    /// The case from a state as small as can be.
    fn minimised(&self, finding: usize, case: Case) -> Option<Execution>;
}

/// Minimised execution of one pair of transactions, and the findings that it does not show.
pub fn search<'l, J: Judge<'l>>(
    pairs: &mut Pairs<'l>,
    mut open: Vec<usize>,
    share: u64,
    judge: &mut J,
) -> (Found<Execution>, Vec<usize>) {
    let mut found = Found::new();
    for validity in [Validity::Everything, Validity::Constraints] {
        let setting = judge.setting(validity, &open);
        let best = best(pairs, &setting, &open, share, judge);
        let mut still_open = Vec::new();
        for (finding, best) in open.into_iter().zip(best) {
            match best.and_then(|best| judge.minimised(finding, best.case)) {
                Some(execution) => drop(found.insert(finding, execution)),
                None => still_open.push(finding),
            }
        }
        open = still_open;
        if open.is_empty() || pairs.steps_left == 0 {
            break;
        }
    }
    (found, open)
}

/// For each of the findings the best case within the bounds.
fn best<'l, J: Judge<'l>>(
    pairs: &mut Pairs<'l>,
    setting: &Setting,
    findings: &[usize],
    share: u64,
    judge: &mut J,
) -> Vec<Option<Best>> {
    let mut best: Vec<Option<Best>> = findings.iter().map(|_| None).collect();
    let mut looking = vec![true; findings.len()];
    pairs.each(setting, share, &mut |replica, pair| {
        let mut orders = None;
        for later in [Side::Right, Side::Left] {
            let Some(together) = judge.together(pair, later) else { continue };
            let mut sight = Sight { replica, pair, together: &together, orders: &mut orders };
            for (at, finding) in findings.iter().enumerate() {
                if !looking[at] {
                    continue;
                }
                let found = match judge.judge(*finding, setting, &mut sight) {
                    Judged::Passed => continue,
                    Judged::DoesNotShow => None,
                    Judged::Shows { clean } => Some((Case::of(pair, setting, later), clean)),
                };
                looking[at] = keep(&mut best[at], found);
            }
        }
        let steps = if orders.is_some() { 4 } else { 2 };
        let done = !looking.contains(&true);
        (steps, if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    best
}

/// Number of further pairs tried to find one whose serial orders do not fail, which is more convincing.
const CLEANER_PAIRS_MAX: usize = 100;

/// Best case for a finding so far.
struct Best {
    case: Case,
    pairs_left: usize,
}

/// Keeps the first case, and exchanges it once for a clean one; whether to go on looking.
fn keep(best: &mut Option<Best>, found: Option<(Case, bool)>) -> bool {
    match (best.as_mut(), found) {
        (None, Some((case, clean))) => {
            *best = Some(Best { case, pairs_left: if clean { 0 } else { CLEANER_PAIRS_MAX } });
            !clean
        }
        (Some(best), Some((case, true))) => {
            *best = Best { case, pairs_left: 0 };
            false
        }
        (Some(best), _) => {
            best.pairs_left = best.pairs_left.saturating_sub(1);
            best.pairs_left > 0
        }
        (None, None) => true,
    }
}
