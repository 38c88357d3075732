//! FOR UPDATE over several shards: rows that a transaction reads under lock, and writes, are claimed by everybody
//! who writes what it read (design.md §4).
//!
//! On one shard a transaction runs to completion and the lock is idle. Over several, what was read travels to
//! other shards before the commit; a write in between would be lost without any invariant noticing.

use std::collections::BTreeSet;

use weir_sql::catalog::{ColumnIndex, TableId};

use crate::effects::Write;
use crate::finding::{Finding, Severity};
use crate::plan::{Guard, GuardKind};
use crate::planner::Candidate;
use crate::world::World;

/// Adds the claims to the candidates' guards.
pub fn honour(world: &World<'_>, candidates: &mut [Candidate], findings: &mut Vec<Finding>) {
    for procedure in 0..candidates.len() {
        if candidates[procedure].reach.single {
            continue;
        }
        let effects = &world.effects[procedure];
        for read in effects.reads.iter().filter(|read| read.locked) {
            let name = world.name(procedure);
            let table = world.table(read.table);
            if !effects.writes.iter().any(|write| overwrites(write, read.table, &read.columns)) {
                findings.push(Finding {
                    id: "lock-not-held",
                    severity: Severity::Warning,
                    message: format!(
                        "{name} reads {} FOR UPDATE and writes nothing of what it read; over several shards only \
                         rows that are written are held until the commit",
                        table.name
                    ),
                    span: read.span,
                });
                continue;
            }
            for (other, candidate) in candidates.iter_mut().enumerate() {
                for write in &world.effects[other].writes {
                    if overwrites(write, read.table, &read.columns) {
                        claim(world, name, candidate, write);
                    }
                }
            }
        }
    }
}

/// It changes or takes away what was read there.
fn overwrites(write: &Write, table: TableId, columns: &BTreeSet<ColumnIndex>) -> bool {
    write.table == table
        && (write.is_delete() || columns.iter().any(|&column| write.update_of(column).is_some()))
}

/// A guard of any kind at the statement holds the rows that it writes.
fn claim(world: &World<'_>, locker: &str, candidate: &mut Candidate, write: &Write) {
    if candidate.guards.iter().any(|guard| guard.statement == write.span) {
        return;
    }
    let table = world.table(write.table);
    candidate.guards.push(Guard {
        kind: GuardKind::Claim,
        table: write.table,
        columns: table.primary_key.as_ref().map_or_else(Vec::new, |key| key.columns.clone()),
        shared: false,
        statement: write.span,
        keeps: Vec::new(),
        why: format!("for the FOR UPDATE of {locker}"),
    });
}
