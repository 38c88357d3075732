//! Effect of multi-master replication of PostgreSQL on the application.
//!
//! The model is that of last-update-wins rows (pgactive, BDR, Spock in their default settings): every node runs
//! whole transactions by itself, with its own constraints checked there; committed rows travel later; where two
//! nodes have changed one row, the whole row of the later commit replaces the other, whichever columns either had
//! changed. Nothing is merged, `x = x + d` is a row like any other, and what arrives is not checked again: no
//! foreign key, no assertion, no trigger; a duplicate of a unique key stops the replication. So conditions on one
//! row hold (every row was checked as a whole somewhere), and most of what Weir's merge keeps does not.

use std::collections::BTreeSet;

use weir_sql::Application;
use weir_sql::Span;
use weir_sql::catalog::{ColumnIndex, TableId};

use crate::Analysis;
use crate::anomaly::AnomalyKind;
use crate::anomaly::conflict::{Item, may_meet};
use crate::anomaly::words::{Scene, Shared, Side};
use crate::effects::{ColumnOperation, Key, ReadId, Term, Write};
use crate::execution::{Executed, Execution};
use crate::finding::Severity;
use crate::invariant::{InvariantKind, column_list};
use crate::registry;
use crate::text::{wrap, write_steps};
use crate::verdict::{DecidedBy, Rule};
use crate::world::World;

/// One way for a transaction to go wrong, and the two executions that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The kind's word in the registry.
    pub kind: &'static str,
    pub severity: Severity,
    pub transaction: usize,
    pub with: usize,
    pub table: Option<TableId>,
    pub invariant: Option<String>,
    pub message: String,
    /// On one node, on another, and on both when the rows have travelled.
    pub left: String,
    pub right: String,
    pub merged: String,
    pub remedy: String,
    /// The two executions with values, if they have been run.
    pub executed: Executed,
    pub span: Span,
}

/// Every conflict of every transaction, the first of each kind and table.
pub fn conflicts(app: &Application, analysis: &Analysis) -> Vec<Conflict> {
    let world = World::new(app, &analysis.effects);
    let mut list = Vec::new();
    for procedure in 0..app.procedures.len() {
        let case = Case { app, analysis, world: &world, procedure };
        let mut of_it = Vec::new();
        for write in &analysis.effects[procedure].writes {
            of_it.extend(case.update(write));
            of_it.extend(case.insert(write));
            of_it.extend(case.delete(write));
        }
        let overwritten = of_it.iter().find(|one: &&Conflict| one.kind == "row-overwritten").cloned();
        of_it.extend(case.assertions(overwritten.as_ref()));
        let mut seen: BTreeSet<(&str, Option<TableId>, Option<String>)> = BTreeSet::new();
        of_it.retain(|one| seen.insert((one.kind, one.table, one.invariant.clone())));
        list.extend(of_it);
    }
    list
}

/// A conflict as a person reads it: with values where its two executions have been run, in words otherwise.
pub fn to_text(conflict: &Conflict, width: u16) -> String {
    let mut text = String::new();
    wrap(&format!("{} [{}]", conflict.message, registry::id_of(conflict.kind)), "    ", width, &mut text);
    let words = || {
        let sides =
            [("one node", &conflict.left), ("another", &conflict.right), ("both then", &conflict.merged)];
        sides.map(|(title, words)| (title, words.clone())).to_vec()
    };
    let steps = conflict.executed.execution().map_or_else(words, Execution::steps);
    write_steps(&steps, "      ", width, &mut text);
    if let Some(why) = conflict.executed.why_not() {
        wrap(&format!("Not shown with values: {why}."), "      ", width, &mut text);
    }
    wrap(&format!("Remedy: {}.", conflict.remedy), "      ", width, &mut text);
    text
}

struct Case<'a> {
    app: &'a Application,
    analysis: &'a Analysis,
    world: &'a World<'a>,
    procedure: usize,
}

impl Case<'_> {
    fn name(&self) -> &str {
        self.world.name(self.procedure)
    }

    fn other(&self, with: usize) -> String {
        self.world.other(self.procedure, with)
    }

    /// Calls of both, on rows that are the same.
    fn calls(&self, write: &Write, with: usize, theirs: &Key) -> (String, String, String) {
        let item = Item { read: ReadId(0), write: 0, column: None };
        let scene = Scene { world: self.world, procedure: self.procedure, item };
        let key = self.analysis.effects[self.procedure].key_of(write);
        let mut shared = Shared { terms: key.iter().map(|(_, term)| *term).collect(), others: Vec::new() };
        if with != self.procedure {
            shared.others = scene.meeting(&key, theirs);
        }
        let row = scene.row(self.procedure, write.table, &key, Side::Left, &shared);
        let left = scene.call(self.procedure, Side::Left, &shared);
        (left, scene.call(with, Side::Right, &shared), row)
    }

    fn meet(&self, write: &Write, with: usize, other: &Write) -> bool {
        let effects = &self.analysis.effects;
        other.table == write.table
            && may_meet(
                &effects[self.procedure],
                &effects[self.procedure].key_of(write),
                &effects[with],
                &effects[with].key_of(other),
            )
    }

    /// Writes of any procedure to rows of the same table that may be the same row; the write itself first.
    fn partners<'w>(&'w self, write: &'w Write) -> Vec<(usize, &'w Write)> {
        let mut list: Vec<(usize, &Write)> =
            self.world.writes().filter(|(with, other)| self.meet(write, *with, other)).collect();
        list.sort_by_key(|(with, _)| *with != self.procedure);
        list
    }

    /// A whole row replaces a whole row.
    fn update(&self, write: &Write) -> Vec<Conflict> {
        if write.updates().is_empty() {
            return Vec::new();
        }
        let mut list = Vec::new();
        let table = self.world.table(write.table);
        let columns =
            |write: &Write| write.updates().iter().map(|(column, _)| *column).collect::<BTreeSet<_>>();
        let own = columns(write);
        let assigns = |write: &Write| {
            let sets = |change: &ColumnOperation| matches!(change, ColumnOperation::Assign(_));
            write.adds_to().is_none() && write.updates().iter().all(|(_, operation)| sets(operation))
        };
        let names: Vec<ColumnIndex> = own.iter().copied().collect();
        let changed = column_list(table, &names);
        for (with, other) in self.partners(write) {
            let (left, right, row) = self.calls(write, with, &self.analysis.effects[with].key_of(other));
            if other.is_delete() {
                list.push(Conflict {
                    kind: "update-meets-delete",
                    severity: Severity::Warning,
                    with,
                    message: format!(
                        "{} changes a row of {} that {} deletes: the change is lost, or the row comes back without what went with it",
                        self.name(), table.name, self.other(with)
                    ),
                    left: format!("{left} changes {changed} of {row}"),
                    right: format!("{right} deletes it"),
                    merged: "Whichever commits later wins: no row, or the row as it was before the delete.".to_string(),
                    remedy: format!("mark rows of {} as gone instead of deleting them, and delete those later", table.name),
                    ..self.blank(write)
                });
                continue;
            }
            if other.updates().is_empty() {
                continue;
            }
            // Both set the same columns to values of their own: the result is that of one order.
            let blind = assigns(write) && assigns(other) && columns(other) == own;
            if blind && !self.reads_back(write) {
                continue;
            }
            let (message, merged) = match write.adds_to() {
                Some(column) => {
                    let name = self.world.column_name(write.table, column);
                    (
                        format!("{} adds to {name}; the row that {} writes elsewhere replaces it, and the amount is gone", self.name(), self.other(with)),
                        format!("{name} has one of the two amounts: of 10 + 1 and 10 + 2 the nodes agree on 11 or on 12, not on 13."),
                    )
                }
                None => (
                    format!(
                        "{} changes {changed} of a row of {}; the whole row that {} writes elsewhere replaces it",
                        self.name(), table.name, self.other(with)
                    ),
                    "The row of the later commit is everywhere; what the other had changed is as it was before.".to_string(),
                ),
            };
            let theirs: Vec<ColumnIndex> = columns(other).into_iter().collect();
            list.push(Conflict {
                kind: "row-overwritten",
                severity: Severity::Error,
                with,
                message,
                left: format!("{left} changes {changed} of {row}"),
                right: format!("{right} changes {} of it", column_list(table, &theirs)),
                merged,
                remedy: match write.adds_to() {
                    Some(_) => format!("INSERT the amounts as rows of their own and sum them, or write each {} row on one node only", table.name),
                    None => format!("write each {} row on one node only, or keep columns that change apart in tables of their own", table.name),
                },
                ..self.blank(write)
            });
        }
        list
    }

    /// It decides by what it overwrites.
    fn reads_back(&self, write: &Write) -> bool {
        self.analysis.anomalies.iter().any(|anomaly| {
            anomaly.transaction == self.procedure
                && anomaly.kind == AnomalyKind::LostUpdate
                && self.analysis.effects[self.procedure]
                    .reads
                    .iter()
                    .any(|read| read.span == anomaly.span && read.table == write.table)
        })
    }

    fn blank(&self, write: &Write) -> Conflict {
        Conflict {
            kind: "row-overwritten",
            severity: Severity::Error,
            transaction: self.procedure,
            with: self.procedure,
            table: Some(write.table),
            invariant: None,
            message: String::new(),
            left: String::new(),
            right: String::new(),
            merged: String::new(),
            remedy: String::new(),
            executed: Executed::NotTried,
            span: write.span,
        }
    }

    /// Keys that both nodes use, and parents that go elsewhere.
    fn insert(&self, write: &Write) -> Vec<Conflict> {
        let crate::effects::Operation::Insert { values, .. } = &write.operation else { return Vec::new() };
        let mut list = Vec::new();
        let table = self.world.table(write.table);
        let effects = &self.analysis.effects[self.procedure];
        let keys = table
            .primary_key
            .iter()
            .map(|key| (key, true))
            .chain(table.unique_keys.iter().map(|key| (key, false)));
        for (key, primary) in keys {
            let shown = column_list(table, &key.columns);
            let mut fresh =
                key.columns.iter().filter_map(|&column| match effects.terms.get(values[column]) {
                    Term::Generated(site) => Some(effects.generated.get(site).copied().flatten()),
                    _ => None,
                });
            let conflict = match fresh.next() {
                Some(None) => continue,
                Some(Some(sequence)) => {
                    let sequence = &self.app.catalog.sequence(sequence).name;
                    Conflict {
                        kind: "sequence-collision",
                        severity: Severity::Warning,
                        message: format!("{} takes {shown} of {} from {sequence}, which every node counts by itself", self.name(), table.name),
                        left: format!("{} inserts the row with the number 7", self.name()),
                        right: format!("{} inserts another row with the number 7", self.name()),
                        merged: "Two rows of one key meet: one replaces the other, or the replication stops.".to_string(),
                        remedy: format!("a uuid, or a range for each node: ALTER SEQUENCE {sequence} INCREMENT BY n, with another start on each"),
                        ..self.blank(write)
                    }
                }
                None if primary => Conflict {
                    kind: "same-key-inserted",
                    message: format!("{} inserts a row of {} whose {shown} is chosen; of two rows of one key one disappears", self.name(), table.name),
                    left: format!("{} inserts a row, and its caller is told that it is there", self.name()),
                    right: format!("{} inserts a row with the same {shown}", self.name()),
                    merged: "The later row is there, the earlier one is gone; what refers to it refers to the other.".to_string(),
                    remedy: "let the key be generated (uuid), or contain the node".to_string(),
                    ..self.blank(write)
                },
                None => Conflict {
                    kind: "unique-collision",
                    message: format!("{} inserts a row of {} whose {shown} another node may give away too", self.name(), table.name),
                    left: format!("{} inserts a row with {shown} = 'a'", self.name()),
                    right: format!("{} inserts another row with {shown} = 'a'", self.name()),
                    merged: format!("Neither node can apply the other's row under {}: the replication stops.", key.name),
                    remedy: format!("give {shown} away on one node only, or make it unique for each node"),
                    ..self.blank(write)
                },
            };
            list.push(Conflict { invariant: Some(key.name.clone()), ..conflict });
        }
        for key in &table.foreign_keys {
            let parent = self.world.table(key.parent);
            if let Some(with) = self.world.deleters(key.parent).next() {
                list.push(Conflict {
                    invariant: Some(key.name.clone()),
                    with,
                    ..self.orphan(write, &table.name, &parent.name, self.world.name(with), self.name())
                });
            }
        }
        list
    }

    /// Children come elsewhere.
    fn delete(&self, write: &Write) -> Vec<Conflict> {
        let mut list = Vec::new();
        if !write.is_delete() {
            return list;
        }
        let parent = self.world.table(write.table);
        for child in &self.app.catalog.tables {
            for key in child.foreign_keys.iter().filter(|key| key.parent == write.table) {
                if let Some(with) = self.world.inserters(child.id).next() {
                    list.push(Conflict {
                        invariant: Some(key.name.clone()),
                        with,
                        ..self.orphan(write, &child.name, &parent.name, self.name(), self.world.name(with))
                    });
                }
            }
        }
        list
    }

    fn orphan(&self, write: &Write, child: &str, parent: &str, deletes: &str, inserts: &str) -> Conflict {
        Conflict {
            kind: "orphaned-child",
            message: format!(
                "{deletes} deletes a row of {parent} while {inserts} inserts a row of {child} that refers to it; rows that arrive are not checked"
            ),
            left: format!("{deletes} deletes the {parent} row, which nothing refers to"),
            right: format!("{inserts} inserts a row of {child} that refers to it"),
            merged: format!(
                "The {child} row is there, and its {parent} row is not; ON DELETE CASCADE does not run again."
            ),
            remedy: format!("mark {parent} rows as gone instead of deleting them"),
            ..self.blank(write)
        }
    }

    /// An assertion over several rows: each row wins or loses by itself.
    fn assertions(&self, overwritten: Option<&Conflict>) -> Vec<Conflict> {
        let mut list = Vec::new();
        for verdict in self.analysis.verdicts.iter().filter(|verdict| verdict.transaction == self.procedure) {
            let invariant = &self.analysis.invariants[verdict.invariant.0 as usize];
            if !matches!(invariant.kind, InvariantKind::Assertion(_) | InvariantKind::Exclude(_)) {
                continue;
            }
            let merges = matches!(
                verdict.decided_by,
                DecidedBy::Rule(Rule::SumOfDeltas | Rule::ExtremeRaised | Rule::MarginWider)
            );
            if let Some(overwritten) = overwritten.filter(|_| verdict.confluent && merges) {
                list.push(Conflict {
                    kind: "rows-apart",
                    invariant: Some(invariant.name.clone()),
                    message: format!(
                        "{} relies on both changes; {} loses one of them",
                        invariant.name,
                        self.name()
                    ),
                    merged: format!("{} And {} no longer holds.", overwritten.merged, invariant.name),
                    table: None,
                    ..overwritten.clone()
                });
            }
            if verdict.confluent {
                continue;
            }
            let with = verdict.with.unwrap_or(self.procedure);
            let Some(write) = self.analysis.effects[self.procedure].writes.first() else { continue };
            list.push(Conflict {
                kind: "rows-apart",
                with,
                table: None,
                invariant: Some(invariant.name.clone()),
                message: format!(
                    "{} beside {} on another node breaks {}",
                    self.name(),
                    self.other(with),
                    invariant.name
                ),
                left: format!("{} {}, and {} holds there", self.name(), verdict.operation, invariant.name),
                right: format!("{} does what it does, and it holds there too", self.other(with)),
                merged: verdict.because.clone(),
                remedy: "let one node write what it speaks of".to_string(),
                ..self.blank(write)
            });
        }
        list
    }
}
