//! Verdicts to plan: for each transaction the cheapest mechanism that is enough (design.md §4).

use std::collections::BTreeSet;
use std::ops::Range;

use weir_sql::Application;

use crate::family;
use crate::finding::{Finding, Severity};
use crate::invariant::{self, InvariantId};
use crate::locks;
use crate::partitioning::{Partitioning, Routing};
use crate::placement::{self, Reach};
use crate::plan::{Class, Guard, GuardKind, Mechanism, Placement, Plan, Requirement, TransactionPlan};
use crate::rules::{GuardDraft, Outcomes};
use crate::world::World;

/// The name of each invariant.
pub type Names<'n> = &'n dyn Fn(InvariantId) -> &'n str;

/// A finding names no more transactions than this.
const BLAMED_NAMES_MAX: usize = 8;

/// Facts about one transaction before the families are closed.
pub struct Candidate {
    pub reach: Reach,
    pub guards: Vec<Guard>,
    /// Invariants that it may affect.
    pub touches: BTreeSet<InvariantId>,
    /// Invariants whose verdict is not confluent.
    pub broken: Vec<InvariantId>,
    /// Invariants that nothing cheaper than order keeps, each with the partner it conflicts with.
    pub unguarded: Vec<(InvariantId, Option<usize>)>,
}

/// `outcomes` by procedure, then by invariant.
pub fn plan(
    app: &Application,
    world: &World<'_>,
    names: Names<'_>,
    partitioning: &Partitioning,
    outcomes: &[Outcomes],
    findings: &mut Vec<Finding>,
) -> Plan {
    let placement = placement::placement(world, partitioning, findings);
    findings.extend(gap(app, partitioning));
    let transactions = transactions(world, names, &placement, Some(partitioning), 0..0, outcomes, findings);
    Plan { placement: placement.into(), transactions }
}

/// Plans the transactions under the placement. Without a partitioning the routing of calls is unknown. `ad_hoc`: statements that would be
/// refused, so that no other transaction is ordered because of them.
pub fn transactions(
    world: &World<'_>,
    names: Names<'_>,
    placement: &[Placement],
    partitioning: Option<&Partitioning>,
    ad_hoc: Range<usize>,
    outcomes: &[Outcomes],
    findings: &mut Vec<Finding>,
) -> Vec<TransactionPlan> {
    let mut candidates: Vec<Candidate> = outcomes
        .iter()
        .enumerate()
        .map(|(procedure, list)| {
            // Which shards an ad-hoc statement reaches matters to others only where it locks what it reads.
            let locks = || world.effects[procedure].reads.iter().any(|read| read.locked);
            let reach = match ad_hoc.contains(&procedure) && !locks() {
                true => Reach { single: true, scattered: false, dependent: false },
                false => placement::reach(world, placement, procedure),
            };
            candidate(reach, list)
        })
        .collect();
    locks::honour(world, &mut candidates, findings);
    candidates[ad_hoc].iter_mut().for_each(|ad_hoc| ad_hoc.unguarded.clear());
    let families = family::close(world, placement, &candidates);
    if partitioning.is_some() {
        let blamed = family::to_blame(world, placement, &mut candidates, &families);
        findings.extend(blamed.into_iter().map(|(invariant, freed)| blame(world, invariant, &freed)));
    }
    let transaction = |procedure: usize| {
        let confluent = outcomes[procedure].iter().all(|(_, outcome)| outcome.confluent);
        let routing = partitioning.map(|partitioning| &partitioning.transactions[procedure]);
        transaction(world, names, &candidates[procedure], routing, &families, procedure, confluent)
    };
    (0..outcomes.len()).map(transaction).collect()
}

/// An invariant that alone forces transactions into order: the first one to reconsider for lower costs.
fn blame(world: &World<'_>, invariant: InvariantId, freed: &[usize]) -> Finding {
    let invariant = invariant::invariants(world.app).swap_remove(invariant.0 as usize);
    let mut names: Vec<&str> = freed.iter().map(|&procedure| world.name(procedure)).collect();
    let more = names.len().saturating_sub(BLAMED_NAMES_MAX);
    names.truncate(BLAMED_NAMES_MAX);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (run, without) = if freed.len() == 1 { ("runs", "it would not") } else { ("run", "they would not") };
    Finding {
        id: "ordered-by-one",
        severity: Severity::Note,
        message: format!(
            "{}{and_more} {run} in order because of {} alone: nothing cheaper keeps it, and without it {without}",
            names.join(", "),
            invariant.name
        ),
        span: invariant.span,
    }
}

/// The search for the partitioning array has run out of steps.
fn gap(app: &Application, partitioning: &Partitioning) -> Option<Finding> {
    let gap = partitioning.gap();
    (gap > 0.0).then(|| Finding {
        id: "partitioning-gap",
        severity: Severity::Note,
        message: format!(
            "the partitioning array costs {}, and it is only proved that none costs less than {} ({:.1}% less)",
            partitioning.cost,
            partitioning.bound,
            gap * 100.0
        ),
        span: app.procedures.first().map(|procedure| procedure.span).unwrap_or_default(),
    })
}

fn candidate(reach: Reach, outcomes: &Outcomes) -> Candidate {
    let mut guards: Vec<Guard> = Vec::new();
    let mut unguarded = Vec::new();
    let mut broken = Vec::new();
    for (invariant, outcome) in outcomes {
        let invariant = *invariant;
        let drafts = if outcome.confluent { &outcome.relies_on } else { &outcome.guards };
        drafts.iter().for_each(|draft| add_guard(&mut guards, draft, invariant));
        if !outcome.confluent {
            broken.push(invariant);
        }
        if !outcome.confluent && outcome.guards.is_empty() {
            unguarded.push((invariant, outcome.with));
        }
    }
    let touches = outcomes.iter().map(|(invariant, _)| *invariant).collect();
    Candidate { reach, guards, touches, broken, unguarded }
}

fn add_guard(guards: &mut Vec<Guard>, draft: &GuardDraft, invariant: InvariantId) {
    let same = |guard: &&mut Guard| {
        guard.kind == draft.kind
            && guard.table == draft.table
            && guard.columns == draft.columns
            && guard.shared == draft.shared
            && guard.statement == draft.statement
    };
    match guards.iter_mut().find(same) {
        Some(guard) => {
            if !guard.keeps.contains(&invariant) {
                guard.keeps.push(invariant);
            }
        }
        None => guards.push(Guard {
            kind: draft.kind,
            table: draft.table,
            columns: draft.columns.clone(),
            shared: draft.shared,
            statement: draft.statement,
            keeps: vec![invariant],
            why: draft.why.clone(),
        }),
    }
}

fn transaction(
    world: &World<'_>,
    names: Names<'_>,
    candidate: &Candidate,
    routing: Option<&Routing>,
    members: &[family::Member],
    procedure: usize,
    confluent: bool,
) -> TransactionPlan {
    let member = &members[procedure];
    let serializable = world.app.procedures[procedure].serializable;
    let mechanism = match member {
        family::Member::Merge if candidate.reach.single && candidate.guards.is_empty() => Mechanism::Merge,
        family::Member::Merge => Mechanism::Ramp,
        family::Member::Ordered { one_shot: true, .. } => Mechanism::Ordered,
        family::Member::Ordered { one_shot: false, .. } => Mechanism::General,
    };
    let promoted_by = match member {
        family::Member::Ordered { because: family::Because::PromotedBy { by, .. }, .. } => Some(*by),
        _ => None,
    };
    let guards = if mechanism.is_ordered_family() { Vec::new() } else { candidate.guards.clone() };
    TransactionPlan {
        procedure,
        read_only: world.effects[procedure].is_read_only(),
        confluent,
        mechanism,
        round_trips: round_trips(world, procedure, mechanism, &candidate.reach),
        requirement: if serializable { Requirement::Serializable } else { Requirement::Invariants },
        why: why(world, names, procedure, candidate, members, mechanism),
        promoted_by,
        single_partition: candidate.reach.single,
        partitioning_parameters: routing.map(Routing::parameters).unwrap_or_default(),
        class: routing.map_or(Class::Global, |routing| routing.class),
        guards,
    }
}

fn round_trips(world: &World<'_>, procedure: usize, mechanism: Mechanism, reach: &Reach) -> u32 {
    let read_first = u32::from(reach.dependent);
    match mechanism {
        Mechanism::Merge => 1,
        // One message prepares and commits, guards included, where one shard is all there is.
        Mechanism::Ramp if reach.single => 1,
        Mechanism::Ramp if world.effects[procedure].is_read_only() => 1 + read_first,
        Mechanism::Ramp => 2 + read_first,
        Mechanism::Ordered => 1,
        Mechanism::General => 2 + read_first,
    }
}

/// Why the procedure runs in order.
fn in_order(
    world: &World<'_>,
    names: Names<'_>,
    members: &[family::Member],
    (procedure, because): (usize, &family::Because),
) -> String {
    let name = |invariant: &InvariantId| names(*invariant);
    let (by, over) = match because {
        family::Because::Declared => return "it is declared serializable".to_string(),
        family::Because::NotFollowed => {
            let what = world.effects[procedure].unseen.first().map_or("", |(what, _)| what.as_str());
            return format!("not all that it does is known (the {what})");
        }
        family::Because::Unguarded(invariant) => return format!("nothing cheaper keeps {}", name(invariant)),
        family::Because::PromotedBy { by, over } => (*by, over),
    };
    let other = world.name(by);
    let shares = match over {
        family::Shared::Written(table, Some(column)) => {
            format!("it writes {}, which {other} uses", world.column_name(*table, *column))
        }
        family::Shared::Written(table, None) => {
            format!("it adds or removes rows of {}, which {other} uses", world.table(*table).name)
        }
        family::Shared::Invariant(invariant) => format!("it touches {}, as {other} does", name(invariant)),
    };
    let root = family::root(members, by);
    let family::Member::Ordered { because, .. } = &members[root] else { return shares };
    let reason = in_order(world, names, members, (root, because));
    match root == by {
        true => format!("{shares}, and {other} runs in order ({reason})"),
        false => format!("{shares}, and {other} runs in order because of {} ({reason})", world.name(root)),
    }
}

fn why(
    world: &World<'_>,
    names: Names<'_>,
    procedure: usize,
    candidate: &Candidate,
    members: &[family::Member],
    mechanism: Mechanism,
) -> String {
    if let family::Member::Ordered { because, one_shot } = &members[procedure] {
        let reason = in_order(world, names, members, (procedure, because));
        let shape = match one_shot {
            true => "one message is enough and every shard decides alike",
            false => "shards must hear of each other before they can decide",
        };
        return format!("{reason}; {shape}");
    }
    let read_only = world.effects[procedure].is_read_only();
    if candidate.guards.is_empty() {
        return match (mechanism, read_only) {
            (Mechanism::Merge, true) => "reads one shard".to_string(),
            (_, true) => "reads several shards; a second round only where it meets a commit".to_string(),
            (Mechanism::Merge, false) => "keeps every invariant by itself, on one shard".to_string(),
            (_, false) => {
                "keeps every invariant by itself; several shards are made visible at once".to_string()
            }
        };
    }
    let mut guards: Vec<String> = Vec::new();
    for guard in &candidate.guards {
        let words = guard_words(world, names, &candidate.broken, guard);
        if !guards.contains(&words) {
            guards.push(words);
        }
    }
    guards.join("; ")
}

fn guard_words(world: &World<'_>, names: Names<'_>, broken: &[InvariantId], guard: &Guard) -> String {
    const SHOWN_MAX: usize = 3;
    // Invariants that break without it come first; a key that only relies on it is not mentioned before them.
    let mut keeps = guard.keeps.clone();
    keeps.sort_by_key(|id| !broken.contains(id));
    let kept: Vec<&str> = keeps.iter().map(|id| names(*id)).collect();
    let more = match kept.len() {
        n if n > SHOWN_MAX => format!(" and {} more", n - SHOWN_MAX),
        _ => String::new(),
    };
    let kept = kept[..kept.len().min(SHOWN_MAX)].join(", ");
    let on = crate::json::guard_on(world.app, guard);
    let kind = match (guard.kind, guard.shared) {
        (GuardKind::Sequence, _) => "commit-time number",
        (GuardKind::Escrow, _) => "escrow",
        (GuardKind::Claim, true) => "shared claim",
        (GuardKind::Claim, false) => "claim",
        (GuardKind::Lock, _) => "row lock",
        (GuardKind::Check(_), _) => "check",
    };
    match keeps.is_empty() {
        true => format!("{kind} on {on}, {}", guard.why),
        false => format!("{kind} on {on}, to keep {kept}{more}"),
    }
}
