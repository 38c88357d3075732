//! One call that breaks an invariant all by itself: the other half of Theorem 1 (coordination-avoidance.txt §4.2).
//!
//! Only where the analysis has proved nothing and the engine checks nothing before the commit. No mechanism helps such a
//! transaction; it is the transaction that is wrong, or the invariant. That none is found proves nothing.

use weir_analysis::witness::Side;
use weir_analysis::{Alone, Verdict};

use crate::explore::{Explorer, Found, Limits, Question};
use crate::lab::{Lab, Validity};
use crate::minimise::fewer_rows;
use crate::replica::{Invocation, Replica, Who, state_of};
use crate::state::State;

/// Looks for such a call for every verdict that leaves it open.
pub fn attach(lab: &Lab<'_>, verdicts: &mut [Verdict], limits: Limits) {
    const STEPS_EACH: u64 = 400;
    let mut left = 20_000;
    let open = |verdict: &&mut Verdict| {
        verdict.alone == Alone::No
            && lab.can_check(verdict.invariant)
            && lab.refusal(verdict.transaction).is_none()
    };
    let mut explorer = Explorer::new(lab, Limits { calls_per_state: 24, ..limits });
    for verdict in verdicts.iter_mut().filter(open) {
        let question =
            Question { invariant: verdict.invariant, left: verdict.transaction, right: verdict.transaction };
        let given = STEPS_EACH.min(left);
        let found = explorer.seeds_and_calls(&question, given, &mut |replica, state, call| {
            broken(lab, &question, replica, state, call)
        });
        left -= given - explorer.steps_left;
        verdict.alone_witness =
            found.map(|found| Box::new(crate::witness(lab, &minimised(lab, &question, found))));
    }
}

/// State after the call, if the invariant does not hold there; all invariants held before.
fn broken(
    lab: &Lab<'_>,
    question: &Question,
    replica: &mut Replica<'_>,
    state: &State,
    call: &Invocation,
) -> Option<Found> {
    let mut seen = None;
    replica.branch(std::slice::from_ref(call), Who::Left, Validity::Constraints, &mut |storage| {
        seen = lab.violation(question.invariant, storage).map(|violation| (state_of(storage), violation));
    });
    let (merged, violation) = seen?;
    Some(Found {
        invariant: question.invariant,
        initial: state.clone(),
        left: vec![call.clone()],
        right: Vec::new(),
        later: Side::Left,
        validity: Validity::Everything,
        merged,
        violation,
        clean: true,
    })
}

fn minimised(lab: &Lab<'_>, question: &Question, found: Found) -> Found {
    let mut best = found;
    loop {
        let valid = |state: &State| lab.violated(Validity::Everything, state).is_empty();
        let smaller = fewer_rows(&best.initial).filter(valid).find_map(|initial| {
            let mut replica = Replica::new(lab, &initial).ok()?;
            broken(lab, question, &mut replica, &initial, &best.left[0])
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}
