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
use crate::invariant::{self, Invariant, InvariantId, InvariantKind, Numbering};
use crate::world::World;

#[derive(Debug)]
pub struct Relevance {
    numbering: Numbering,
    /// Those that are no table's, by the tables that they speak of.
    by_table: BTreeMap<TableId, Vec<InvariantId>>,
    by_sequence: BTreeMap<SequenceId, Vec<InvariantId>>,
}

impl Relevance {
    pub fn new(app: &Application, shapes: &[Shape<'_>]) -> Relevance {
        let numbering = Numbering::new(&app.catalog);
        let (mut by_table, mut by_sequence): (BTreeMap<_, Vec<_>>, BTreeMap<_, Vec<_>>) = Default::default();
        for (place, invariant) in invariant::others(app).iter().enumerate() {
            let id = numbering.of_other(place);
            if let InvariantKind::Sequence(sequence) = invariant.kind {
                by_sequence.entry(sequence).or_default().push(id);
                continue;
            }
            for table in tables_of(app, shapes, invariant) {
                by_table.entry(table).or_default().push(id);
            }
        }
        Relevance { numbering, by_table, by_sequence }
    }

    pub fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    /// In order. What is missing the transaction cannot touch.
    pub fn of(&self, world: &World<'_>, effects: &ProcedureEffects) -> BTreeSet<InvariantId> {
        let tables: BTreeSet<TableId> = effects.writes.iter().map(|write| write.table).collect();
        let (numbering, catalog) = (&self.numbering, &world.app.catalog);
        let children = |table: &TableId| {
            let keys = world.dependents.children(catalog, *table);
            keys.map(|(child, index, _)| numbering.of_foreign_key(child, index))
        };
        let own = tables.iter().flat_map(|table| numbering.of_table(*table).chain(children(table)));
        let by_table = tables.iter().filter_map(|table| self.by_table.get(table));
        let by_sequence = effects.sequences.iter().filter_map(|sequence| self.by_sequence.get(sequence));
        by_table.chain(by_sequence).flatten().copied().chain(own).collect()
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
            let relevance = Relevance::new(&app, &shapes);
            for (procedure, effects) in effects.iter().enumerate() {
                let relevant = relevance.of(&world, effects);
                for (index, invariant) in invariants.iter().enumerate() {
                    let speaks_of = tables_of(&app, &shapes, invariant);
                    let is_touched = effects.writes.iter().any(|write| speaks_of.contains(&write.table));
                    let is_sequence = matches!(invariant.kind, InvariantKind::Sequence(_));
                    assert!(
                        is_sequence || is_touched == relevant.contains(&InvariantId(index as u32)),
                        "{example}: {} {}",
                        world.name(procedure),
                        invariant.name
                    );
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

    /// A number says which invariant it is.
    #[test]
    fn numbers_are_those_of_the_list() {
        for example in ["auction", "payroll", "tpcc", "tpcw"] {
            let app = crate::examples::load(example);
            let (all, numbering) = (invariant::invariants(&app), Numbering::new(&app.catalog));
            for (index, listed) in all.iter().enumerate() {
                let id = InvariantId(index as u32);
                let found = match numbering.place(id) {
                    (Some(table), place) => {
                        assert!(numbering.of_table(table).any(|of| of == id), "{example}: {}", listed.name);
                        invariant::of_table(&app, app.catalog.table(table)).swap_remove(place)
                    }
                    (None, place) => {
                        assert_eq!(numbering.of_other(place), id, "{example}: {}", listed.name);
                        invariant::others(&app).swap_remove(place)
                    }
                };
                assert_eq!(format!("{found:?}"), format!("{listed:?}"), "{example}");
                if let (InvariantKind::ForeignKey(key), Some(table)) = (listed.kind, listed.table) {
                    assert_eq!(numbering.of_foreign_key(app.catalog.table(table), key), id, "{example}");
                }
            }
        }
    }
}
