//! Conditions that a test leaves out, to see that a cross-check or a comparison finds what follows from it. Never set outside of
//! tests.

use crate::rules::Outcome;
use crate::verdict::{DecidedBy, Rule};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedFlaws {
    /// A fact rests on one row: an update takes none that another could stand for.
    pub one_row: bool,
    /// A row comes with its owner if rows of all tables of the clause come with it, whatever links them.
    pub whole_by_tables: bool,
    /// No row is selected by what two branches do together.
    pub nothing_composed: bool,
    /// A query within a condition is not looked at.
    pub inner_queries: bool,
    /// A sequence gives every number once.
    pub no_cycles: bool,
    /// Of the tables of which a rule asks who writes them nothing is written down: a statement is judged beside its first neighbours alone.
    pub forgets_asked: bool,
    /// Those neighbours are left out, too.
    pub forgets_neighbours: bool,
    /// Where this rule says no, it says yes.
    pub always: Option<Rule>,
}

impl PlantedFlaws {
    /// The outcome under [`PlantedFlaws::always`].
    pub(crate) fn turn(&self, outcome: Outcome) -> Outcome {
        match (self.always, outcome.decided_by) {
            (Some(rule), DecidedBy::Rule(by)) if rule == by => {
                Outcome { confluent: true, with: None, guards: Vec::new(), relies_on: Vec::new(), ..outcome }
            }
            _ => outcome,
        }
    }
}
