//! Merged states that contradict the analysis: two calls that the plan lets run beside each other, each valid by itself, whose merge
//! breaks an invariant of which both verdicts say yes.
//!
//! Such a merge reveals a wrong rule. Until the rule is fixed, the verdicts are withdrawn, with the witness, and every transaction that
//! touches the invariant runs in order. Only merges that are made anyway are checked, so finding none proves nothing.

use std::collections::BTreeSet;

use weir_analysis::witness::Side;
use weir_analysis::{Analysis, DecidedBy, Finding, InvariantId, InvariantKind, Mechanism, Severity, Witness};
use weir_sql::Application;
use weir_sql::catalog::TableId;

use crate::explore::Found;
use crate::lab::{Lab, Validity};
use crate::merge::merge;
use crate::minimise;
use crate::replica::Branch;
use crate::state::State;

#[derive(Clone, Debug)]
pub struct Contradiction {
    pub invariant: InvariantId,
    pub transactions: [usize; 2],
    pub witness: Witness,
}

/// Asks the merge of two valid branches for everything that is declared. `lab` is under the plan's guards, and the branches have met
/// at none of them.
pub fn ask(
    lab: &Lab<'_>,
    initial: &State,
    [left, right]: [&Branch; 2],
    merged: &State,
    found: &mut Vec<Contradiction>,
) {
    let transactions = [left.calls[0].procedure, right.calls[0].procedure];
    let in_order = |&at: &usize| lab.analysis.plan.transactions[at].mechanism.is_ordered_family();
    if transactions.iter().all(in_order) {
        return;
    }
    let broken = lab.violated(Validity::Everything, merged);
    // Keys have verdicts of their own; a row that is there twice breaks more than itself.
    let is_key = |id: &InvariantId| {
        use InvariantKind::{PrimaryKey, Unique, UniqueIndex};
        matches!(lab.analysis.invariants[id.0 as usize].kind, PrimaryKey | Unique(_) | UniqueIndex(_))
    };
    let keys = broken.iter().any(is_key);
    for invariant in broken.into_iter().filter(|id| !keys || is_key(id)) {
        let says_yes = |&at: &usize| lab.analysis.verdict(at, invariant).confluent;
        let is_known = found.iter().any(|one| one.invariant == invariant && one.transactions == transactions);
        if is_known || !transactions.iter().all(says_yes) {
            continue;
        }
        let sides = [Side::Left, Side::Right].into_iter();
        let later = sides
            .into_iter()
            .find(|&later| merge(lab, initial, left, right, later).is_some_and(|again| again == *merged));
        let Some(later) = later else { continue };
        let one = Found {
            invariant,
            initial: initial.clone(),
            left: left.calls.clone(),
            right: right.calls.clone(),
            later,
            validity: Validity::Everything,
            merged: merged.clone(),
            violation: lab.violation(invariant, &lab.view(merged)).unwrap_or_default(),
            clean: true,
        };
        let witness = crate::witness(lab, &minimise::minimised(lab, one));
        found.push(Contradiction { invariant, transactions, witness });
    }
}

/// Takes back what is contradicted.
pub fn take_back(application: &Application, analysis: &mut Analysis, found: Vec<Contradiction>) {
    for one in found {
        let names = one.transactions.map(|at| application.procedures[at].name.clone());
        let invariant = analysis.invariants[one.invariant.0 as usize].name.clone();
        let message = format!(
            "a rule says that {} and {} keep {invariant} without coordination, and a merge of both breaks it: the verdict is \
             taken back, and both run in order. This is a fault of weir; please report it.",
            names[0], names[1]
        );
        analysis.diagnostics.push(Finding {
            id: "contradicted",
            severity: Severity::Warning,
            message,
            span: application.procedures[one.transactions[0]].span,
        });
        for (at, own) in one.transactions.into_iter().enumerate() {
            let verdicts = analysis.verdicts.iter_mut();
            for verdict in verdicts.filter(|it| it.transaction == own && it.invariant == one.invariant) {
                verdict.because = match verdict.rule() {
                    Some(rule) => {
                        format!("The rule {} says yes, and the witness contradicts it.", rule.name())
                    }
                    None => "The witness contradicts what was proved.".to_owned(),
                };
                verdict.confluent = false;
                verdict.decided_by = DecidedBy::Search;
                verdict.refused_by = None;
                verdict.with = Some(one.transactions[1 - at]);
                verdict.witness = Some(Box::new(one.witness.clone()));
            }
        }
        order(analysis, one.invariant, &one.transactions, &invariant);
    }
}

/// Puts every transaction that touches the invariant in order, and every one that writes a table read by one of these.
fn order(analysis: &mut Analysis, invariant: InvariantId, both: &[usize], name: &str) {
    let touching = analysis.verdicts.iter().filter(|verdict| verdict.invariant == invariant);
    let mut members: BTreeSet<usize> =
        touching.map(|verdict| verdict.transaction).chain(both.iter().copied()).collect();
    loop {
        let looks: BTreeSet<TableId> = members
            .iter()
            .flat_map(|&at| {
                let effects = &analysis.effects[at];
                let reads = effects.reads.iter().map(|read| read.table);
                reads.chain(effects.writes.iter().map(|write| write.table)).collect::<Vec<_>>()
            })
            .collect();
        let before = members.len();
        members.extend(
            (0..analysis.effects.len())
                .filter(|&at| analysis.effects[at].writes.iter().any(|write| looks.contains(&write.table))),
        );
        if members.len() == before {
            break;
        }
    }
    for at in members {
        let plan = &mut analysis.plan.transactions[at];
        plan.confluent &= !both.contains(&at);
        if !plan.mechanism.is_ordered_family() {
            plan.mechanism = Mechanism::General;
            plan.round_trips = plan.round_trips.max(2);
            plan.guards.clear();
            plan.why = format!("the verdict on {name} is contradicted by a witness");
        }
    }
}
