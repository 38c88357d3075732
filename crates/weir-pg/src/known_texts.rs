//! Texts of the simple protocol that have come before, but for their constants: they need not be parsed again.
//!
//! One for all sessions of a server. It is bound to the schema of the moment, and begins anew with the next.

use std::sync::{Arc, Mutex, PoisonError};

use weir_client::{Parameterised, Prepared, SchemaVersion};
use weir_sql::shape::Shape;
use weir_types::{Recent, Value};

use crate::statement::{Kind, Statement};

/// Number of recently used shapes that are kept at least; at most twice as many are kept.
const KEPT: usize = 2_048;

/// Number of statements kept for each shape; they differ in constants that are not parameters.
const PER_SHAPE: usize = 8;

enum Known {
    /// Most texts come once.
    Once,
    Bound(Vec<Bound>),
    /// It is parsed every time.
    Never,
}

#[derive(Clone)]
enum Bound {
    /// BEGIN and so on: the same whatever the schema is.
    Command(Arc<Statement>),
    Run(Arc<Parameterised>, Arc<Statement>),
}

pub struct KnownTexts(Mutex<Recent<String, Known>>);

impl Default for KnownTexts {
    fn default() -> KnownTexts {
        KnownTexts(Mutex::new(Recent::new(KEPT)))
    }
}

impl KnownTexts {
    /// The statement that the text is, with the values of its parameters, if it is known for that schema version.
    pub fn get(
        &self,
        text: &str,
        shape: &Shape,
        schema_version: &SchemaVersion,
    ) -> Option<(Arc<Statement>, Vec<Value>)> {
        let all = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Known::Bound(all) = known.get(shape.key.as_str())? else { return None };
            all.clone()
        };
        all.into_iter().find_map(|bound| match bound {
            Bound::Command(statement) => Some((statement, Vec::new())),
            Bound::Run(lifted, _) if !lifted.prepared.is_of(schema_version) => None,
            Bound::Run(lifted, statement) => {
                let values = lifted.values(text, shape)?;
                Some((Arc::new(Statement { text: text.into(), ..(*statement).clone() }), values))
            }
        })
    }

    /// The text has been read, and is that statement.
    pub fn put(&self, text: &str, shape: Shape, schema_version: &SchemaVersion, statement: &Statement) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(shape.key.as_str()) {
            None => return known.put(shape.key, Known::Once),
            Some(Known::Never) => return,
            Some(_) => {}
        }
        drop(known);
        // Takes as long as to prepare it; others may do the same meanwhile.
        let bound = match &statement.kind {
            Kind::Command(_) if shape.constants.is_empty() => {
                Some(Bound::Command(Arc::new(statement.clone())))
            }
            Kind::Run(prepared, tag) if is_general(prepared) => {
                schema_version.lift(text, &shape).map(|lifted| {
                    let figures = statement.figures.clone();
                    let run = Statement { figures, ..Statement::run(lifted.prepared.clone(), tag) };
                    Bound::Run(Arc::new(lifted), Arc::new(run))
                })
            }
            _ => None,
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.get(shape.key.as_str()) else { return };
        match (bound, &mut *entry) {
            (None, Known::Bound(_)) => {}
            (None, entry) => *entry = Known::Never,
            (Some(bound), Known::Bound(all)) => {
                all.retain(
                    |one| matches!(one, Bound::Run(lifted, _) if lifted.prepared.is_of(schema_version)),
                );
                if all.len() < PER_SHAPE {
                    all.push(bound);
                }
            }
            (Some(bound), entry) => *entry = Known::Bound(vec![bound]),
        }
    }
}

/// Returns whether the prepared statement is the same for all sessions.
fn is_general(prepared: &Prepared) -> bool {
    !prepared.is_system()
        && !prepared.has_batches()
        && prepared.pieces().is_none()
        && prepared.current_values().is_empty()
}
