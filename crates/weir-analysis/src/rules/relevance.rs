//! Which invariants a transaction can touch at all, by the tables that it writes: the rest need no look.
//!
//! A large application has millions of pairs of a transaction and an invariant, and hardly any of them meet.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::bound::FromItem;
use weir_sql::catalog::{SequenceId, TableId};
use weir_sql::walk::{Part, each_part};

use crate::assertion::Shape;
use crate::effects::ProcedureEffects;
use crate::invariant::{Invariant, InvariantId, InvariantKind};

#[derive(Debug, Default)]
pub struct Relevance {
    by_table: BTreeMap<TableId, Vec<InvariantId>>,
    by_sequence: BTreeMap<SequenceId, Vec<InvariantId>>,
}

impl Relevance {
    pub fn new(app: &Application, shapes: &[Shape<'_>], invariants: &[Invariant]) -> Relevance {
        let mut relevance = Relevance::default();
        for (index, invariant) in invariants.iter().enumerate() {
            let id = InvariantId(index as u32);
            if let InvariantKind::Sequence(sequence) = invariant.kind {
                relevance.by_sequence.entry(sequence).or_default().push(id);
                continue;
            }
            for table in tables_of(app, shapes, invariant) {
                relevance.by_table.entry(table).or_default().push(id);
            }
        }
        relevance
    }

    /// In order. What is missing the transaction cannot touch.
    pub fn of(&self, effects: &ProcedureEffects) -> BTreeSet<InvariantId> {
        let tables: BTreeSet<TableId> = effects.writes.iter().map(|write| write.table).collect();
        let by_table = tables.iter().filter_map(|table| self.by_table.get(table));
        let by_sequence = effects.sequences.iter().filter_map(|sequence| self.by_sequence.get(sequence));
        by_table.chain(by_sequence).flatten().copied().collect()
    }
}

/// The tables that an invariant speaks of.
pub fn tables_of(app: &Application, shapes: &[Shape<'_>], invariant: &Invariant) -> BTreeSet<TableId> {
    let own = invariant.table.into_iter();
    match (invariant.kind, invariant.table) {
        (InvariantKind::Assertion(index), _) => shapes[index].tables.values().copied().collect(),
        (InvariantKind::ForeignKey(index), Some(table)) => {
            own.chain([app.catalog.table(table).foreign_keys[index].parent]).collect()
        }
        (InvariantKind::View(view), _) => {
            let mut tables = BTreeSet::new();
            each_part(Part::Query(&app.catalog.views[view].query), &mut |part| {
                if let Part::From(FromItem::Table { table, .. }) = part {
                    tables.insert(*table);
                }
            });
            tables
        }
        _ => own.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::judge;
    use crate::world::World;

    /// Every pair for which a rule has a verdict is relevant.
    #[test]
    fn no_verdict_is_passed_over() {
        for example in
            ["auction", "escrow-tickets", "payroll", "rubis", "smallbank", "social", "tpcc", "tpcw"]
        {
            let app = crate::examples::load(example);
            let effects = crate::effects::of_all(&app);
            let world = World::new(&app, &effects);
            let shapes: Vec<Shape<'_>> =
                app.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect();
            let invariants = crate::invariant::invariants(&app);
            let relevance = Relevance::new(&app, &shapes, &invariants);
            for (procedure, effects) in effects.iter().enumerate() {
                let relevant = relevance.of(effects);
                for (index, invariant) in invariants.iter().enumerate() {
                    let judged = judge(&world, &shapes, invariant, procedure);
                    let known = relevant.contains(&InvariantId(index as u32));
                    assert!(
                        known || judged.is_none(),
                        "{example}: {} {}",
                        world.name(procedure),
                        invariant.name
                    );
                }
            }
        }
    }
}
