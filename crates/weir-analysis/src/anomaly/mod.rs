//! Anomalies that no declared invariant forbids, but that would surprise: lost updates, write skew, fractured
//! reads and long forks.
//!
//! Invariants say what must hold; a transaction may keep all of them and still act on what is no longer so. A
//! value that was read and is written back is an assignment like any other (design.md §3): of two at once the
//! merge keeps one. For every transaction this module asks which of the classic anomalies its mechanism leaves
//! possible on its own reads and writes, beside any other or itself, and shows two calls. It over-approximates:
//! rows that may be the same are taken to be. Ordered and general transactions are serializable among all that
//! share data with them (soundness S13), so they have none.

pub(crate) mod conflict;
pub(crate) mod words;

use std::collections::BTreeSet;

use weir_sql::Span;
use weir_sql::catalog::{ColumnIndex, TableId};

use crate::effects::{ColumnOperation, Operation, Term};
use crate::execution::Executed;
use crate::finding::{Finding, Severity};
use crate::plan::{GuardKind, Mechanism, Plan};
use crate::world::World;
use conflict::{Dependencies, Item};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnomalyKind {
    /// Two writes of one column, each computed from the value before both: one is lost (Berenson et al., P4).
    LostUpdate,
    /// Each reads what the other writes, and neither sees it (Berenson et al., A5B).
    WriteSkew,
    /// It sees one write of another transaction and not another one (RAMP, Definition 1).
    FracturedRead,
    /// Two readers see two writers in opposite orders (Sovran et al., parallel snapshot isolation).
    LongFork,
}

impl AnomalyKind {
    pub const ALL: [AnomalyKind; 4] =
        [AnomalyKind::LostUpdate, AnomalyKind::WriteSkew, AnomalyKind::FracturedRead, AnomalyKind::LongFork];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            AnomalyKind::LostUpdate => "lost_update",
            AnomalyKind::WriteSkew => "write_skew",
            AnomalyKind::FracturedRead => "fractured_read",
            AnomalyKind::LongFork => "long_fork",
        }
    }

    /// The kind of finding that it is.
    pub fn finding(self) -> &'static str {
        match self {
            AnomalyKind::LostUpdate => "lost-update",
            AnomalyKind::WriteSkew => "write-skew",
            AnomalyKind::FracturedRead => "fractured-read",
            AnomalyKind::LongFork => "long-fork",
        }
    }
}

/// One anomaly that a transaction's mechanism allows, and two calls that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    pub transaction: usize,
    /// The concurrent transaction of the anomaly, often the same one; further ones where there are.
    pub with: usize,
    pub others: Vec<usize>,
    /// Calls on one shard are serial: the anomaly needs replicas of the shard that take calls at once.
    pub between_copies: bool,
    /// The statement that reads what the other changes.
    pub span: Span,
    pub message: String,
    pub example: Example,
    /// Items that it reads and another transaction writes: one or two.
    pub items: Vec<(TableId, Option<ColumnIndex>)>,
    /// The example with values, if it has been run.
    pub executed: Executed,
    /// Remedies, the cheapest first.
    pub remedies: Vec<String>,
}

/// Two calls, step by step; each side's steps in order, the reads of both before the writes of either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    pub initial: String,
    pub left: Vec<String>,
    pub right: Vec<String>,
    pub outcome: String,
}

/// Why a transaction does not have an anomaly that its reads and writes would be open to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prevented {
    pub kind: AnomalyKind,
    pub transaction: usize,
    pub by: String,
}

/// Anomalies that the mechanisms of the plan allow, by transaction, and those that they prevent.
pub fn anomalies(world: &World<'_>, plan: &Plan) -> (Vec<Anomaly>, Vec<Prevented>) {
    let dependencies = (0..world.effects.len()).map(|procedure| Dependencies::of(world, procedure)).collect();
    let search = Search { world, plan, dependencies };
    let (mut found, mut prevented) = (Vec::new(), Vec::new());
    for procedure in 0..world.effects.len() {
        let mut of_it = Vec::new();
        of_it.extend(search.lost_update(procedure));
        of_it.extend(search.write_skew(procedure));
        of_it.extend(search.fractured_read(procedure));
        of_it.extend(search.long_fork(procedure));
        match search.protection(procedure) {
            Some(by) => prevented.extend(of_it.into_iter().map(|anomaly| Prevented {
                kind: anomaly.kind,
                transaction: procedure,
                by: by.clone(),
            })),
            None => {
                for anomaly in of_it {
                    match search.one_shard(&anomaly) {
                        Some(by) => {
                            prevented.push(Prevented { kind: anomaly.kind, transaction: procedure, by })
                        }
                        None => found.push(anomaly),
                    }
                }
            }
        }
    }
    (found, prevented)
}

/// Places that could not be followed, and what surprises.
pub fn findings(world: &World<'_>, anomalies: &[Anomaly], findings: &mut Vec<Finding>) {
    for (procedure, effects) in world.effects.iter().enumerate() {
        for (what, span) in effects.unknown.iter().chain(&effects.unseen) {
            findings.push(Finding {
                id: "not-followed",
                severity: Severity::Warning,
                message: format!("{}: the analysis does not follow the {what}", world.name(procedure)),
                span: *span,
            });
        }
    }
    findings.extend(anomalies.iter().map(|anomaly| Finding {
        id: anomaly.kind.finding(),
        severity: match anomaly.kind {
            AnomalyKind::LongFork => Severity::Note,
            _ => Severity::Warning,
        },
        message: format!("{}; {}", anomaly.message, anomaly.remedies.first().map_or("", String::as_str)),
        span: anomaly.span,
    }));
}

struct Search<'a> {
    world: &'a World<'a>,
    plan: &'a Plan,
    /// By procedure: items that it reads and another procedure, or another call of it, writes.
    dependencies: Vec<Dependencies>,
}

impl Search<'_> {
    /// Reason why the whole transaction is free of anomalies.
    fn protection(&self, procedure: usize) -> Option<String> {
        match self.plan.transactions[procedure].mechanism {
            Mechanism::Ordered => Some("it runs in order".to_string()),
            Mechanism::General => Some("it runs in order, with locks between its halves".to_string()),
            Mechanism::Merge | Mechanism::Ramp => None,
        }
    }

    /// Reads of one shard are of one moment, and what a RAMP write makes visible it makes visible at once.
    fn one_shard(&self, anomaly: &Anomaly) -> Option<String> {
        let plan = &self.plan.transactions[anomaly.transaction];
        match anomaly.kind {
            AnomalyKind::FracturedRead | AnomalyKind::LongFork if plan.single_partition => {
                Some("what it reads is on one shard, which runs one call at a time".to_string())
            }
            AnomalyKind::FracturedRead if !self.reads_first(anomaly.transaction) => {
                Some("RAMP shows all of another transaction's writes, or none".to_string())
            }
            _ => None,
        }
    }

    /// Some partition is known only once data has been read, so that its reads are of several moments.
    fn reads_first(&self, procedure: usize) -> bool {
        let plan = &self.plan.transactions[procedure];
        plan.mechanism == Mechanism::Ramp && plan.round_trips > if plan.read_only { 1 } else { 2 }
    }

    fn between_copies(&self, left: usize, right: usize) -> bool {
        [left, right].iter().all(|&procedure| self.plan.transactions[procedure].single_partition)
    }

    fn lost_update(&self, procedure: usize) -> Option<Anomaly> {
        let world = self.world;
        let effects = &world.effects[procedure];
        let mut found: Option<(Item, bool, Vec<usize>)> = None;
        for (index, write) in effects.writes.iter().enumerate() {
            let Operation::Update { row, columns } = &write.operation else { continue };
            for &(column, operation) in columns {
                let ColumnOperation::Assign(term) = operation else { continue };
                let Some((read, derived)) =
                    conflict::read_before(world, procedure, index, *row, column, term)
                else {
                    continue;
                };
                let alone = effects.writes.len() == 1;
                let constant =
                    matches!(effects.terms.get(term), Term::Integer(_) | Term::Literal(..) | Term::Null);
                let with: Vec<usize> = world
                    .updaters(write.table, column)
                    .filter(|&other| other != procedure || derived || !constant || !alone)
                    .collect();
                let better = found.as_ref().is_none_or(|(_, before, _)| derived && !before);
                if better && !with.is_empty() {
                    found = Some((Item { read, write: index, column: Some(column) }, derived, with));
                }
            }
        }
        let (item, derived, with) = found?;
        Some(self.told(AnomalyKind::LostUpdate, procedure, with, (item, None), |scene, with| {
            scene.lost_update(with, derived)
        }))
    }

    fn write_skew(&self, procedure: usize) -> Option<Anomaly> {
        let (mut with, mut known) = (Vec::new(), BTreeSet::new());
        let mut first: Option<(Item, Item)> = None;
        for out in &self.dependencies[procedure].list {
            if known.contains(&out.with) || self.is_ordered(out.with) || self.escrowed(out.with, out.item) {
                continue;
            }
            let back = self.dependencies[out.with].on(procedure, 0).find(|back| {
                !self.escrowed(procedure, back.item)
                    && !conflict::same_write(self.world, procedure, out, back)
            });
            let Some(back) = back else { continue };
            known.insert(out.with);
            // Beside itself is the shortest story to tell.
            if first.is_none() || out.with == procedure {
                first = Some((out.item, back.item));
                with.insert(0, out.with);
            } else {
                with.push(out.with);
            }
        }
        let (out, back) = first?;
        // The other one reads the rows that it writes itself.
        let changed = (self.world.effects[procedure].writes[back.write].table, back.column);
        Some(self.told(AnomalyKind::WriteSkew, procedure, with, (out, Some(changed)), |scene, with| {
            scene.write_skew(with, back)
        }))
    }

    fn is_ordered(&self, procedure: usize) -> bool {
        self.plan.transactions[procedure].mechanism.is_ordered_family()
    }

    /// Its bound is kept at the owner, whatever was read before.
    fn escrowed(&self, writer: usize, item: Item) -> bool {
        let write = &self.world.effects[writer].writes[item.write];
        item.column.is_some_and(|column| {
            self.plan.transactions[writer].guards.iter().any(|guard| {
                guard.kind == GuardKind::Escrow
                    && guard.table == write.table
                    && guard.columns.contains(&column)
            })
        })
    }

    /// Two items that one other transaction writes together.
    fn fractured_read(&self, procedure: usize) -> Option<Anomaly> {
        let seen = &self.dependencies[procedure];
        let (mut with, mut known) = (Vec::new(), BTreeSet::new());
        let mut first = None;
        for (at, one) in seen.list.iter().enumerate() {
            if known.contains(&one.with) {
                continue;
            }
            let mut of_same = seen.on(one.with, at);
            let many = std::cell::LazyCell::new(|| conflict::many_rows(self.world, one));
            let another = of_same.find(|other| match other.item.write == one.item.write {
                true => *many,
                false => other.item.read != one.item.read,
            });
            if let Some(another) = another {
                first.get_or_insert((one.item, another.item));
                known.insert(one.with);
                with.push(one.with);
            }
        }
        let (one, another) = first?;
        let second = Some(self.place(procedure, another));
        Some(self.told(AnomalyKind::FracturedRead, procedure, with, (one, second), |scene, with| {
            scene.fractured_read(with, another)
        }))
    }

    /// Two items that two calls write independently of each other.
    fn long_fork(&self, procedure: usize) -> Option<Anomaly> {
        let seen = &self.dependencies[procedure].list;
        let one = seen.first()?;
        let many = conflict::reads_many_rows(self.world, procedure, one.item.read);
        let another = match many {
            true => one,
            false => seen.iter().find(|other| conflict::other_row(self.world, procedure, one, other))?,
        };
        let with = if one.with == another.with { vec![one.with] } else { vec![one.with, another.with] };
        let second = Some(self.place(procedure, another.item));
        Some(self.told(AnomalyKind::LongFork, procedure, with, (one.item, second), |scene, _| {
            scene.long_fork(one.with, another.with, another.item)
        }))
    }

    fn place(&self, procedure: usize, item: Item) -> (TableId, Option<ColumnIndex>) {
        (self.world.effects[procedure].read(item.read).table, item.column)
    }

    fn told(
        &self,
        kind: AnomalyKind,
        procedure: usize,
        with: Vec<usize>,
        (item, second): (Item, Option<(TableId, Option<ColumnIndex>)>),
        tell: impl Fn(&words::Scene<'_>, usize) -> words::Story,
    ) -> Anomaly {
        // Beside itself first.
        let partner = if with.contains(&procedure) { procedure } else { with[0] };
        let others: Vec<usize> = with.into_iter().filter(|&other| other != partner).collect();
        let scene = words::Scene { world: self.world, procedure, item };
        let story = tell(&scene, partner);
        let mut message = story.message;
        let names: Vec<&str> = others.iter().map(|&other| self.world.name(other)).collect();
        if kind != AnomalyKind::LongFork && !names.is_empty() {
            message = format!("{message} (so may {})", words::listed(&names));
        }
        Anomaly {
            kind,
            transaction: procedure,
            with: partner,
            others,
            between_copies: self.between_copies(procedure, partner),
            span: self.world.effects[procedure].read(item.read).span,
            message,
            example: story.example,
            items: std::iter::once(self.place(procedure, item)).chain(second).collect(),
            executed: Executed::NotTried,
            remedies: story.remedies,
        }
    }
}
