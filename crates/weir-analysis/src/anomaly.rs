//! Anomalies that no declared invariant forbids, but that would surprise: lost updates.
//!
//! A value that was read and is written back is an assignment like any other (design.md §3): of two at once the
//! merge keeps one. Where nothing serialises the two, the analysis says so.

use crate::effects::{ColumnOperation, Operation, ProcedureEffects, Term};
use crate::finding::{Finding, Severity};
use crate::world::World;

pub fn findings(world: &World<'_>, findings: &mut Vec<Finding>) {
    for (procedure, effects) in world.effects.iter().enumerate() {
        for (what, span) in &effects.unknown {
            findings.push(Finding {
                id: "not-followed",
                severity: Severity::Warning,
                message: format!("{}: the analysis does not follow the {what}", world.name(procedure)),
                span: *span,
            });
        }
        lost_updates(world, procedure, effects, findings);
    }
}

fn lost_updates(
    world: &World<'_>,
    procedure: usize,
    effects: &ProcedureEffects,
    findings: &mut Vec<Finding>,
) {
    for write in &effects.writes {
        let Operation::Update { row, columns } = &write.operation else { continue };
        for &(column, operation) in columns {
            let ColumnOperation::Assign(term) = operation else { continue };
            let from_itself = effects.terms.leaves(term).into_iter().find_map(|leaf| {
                let Term::Field { row: source, column: of } = *effects.terms.get(leaf) else { return None };
                let read = effects.read(source);
                let same_row = source == *row || read.key == effects.read(*row).key;
                (read.table == write.table && of == column && same_row).then_some(read)
            });
            let Some(read) = from_itself else { continue };
            if read.locked || world.covering_claim(procedure, &effects.read(*row).key).is_some() {
                continue;
            }
            let name = world.column_name(write.table, column);
            let message = format!(
                "{} reads {name} and writes back a value computed from it; of two calls at once one is lost. \
                 {name} = {name} + … in the UPDATE, or FOR UPDATE in the SELECT, keeps both",
                world.name(procedure)
            );
            findings.push(Finding {
                id: "lost-update",
                severity: Severity::Warning,
                message,
                span: write.span,
            });
        }
    }
}
