//! An application's files, in order: schema first, then procedures, then assertions.
//!
//! Tables, indexes and views must exist when they are mentioned, as in PostgreSQL; procedures and
//! assertions are bound when everything else is known, so that they may stand anywhere.

use crate::Application;
use crate::assertion;
use crate::bound::Procedure;
use crate::catalog::Catalog;
use crate::ddl::{PendingRoutine, Schema};
use crate::parse::{self, Piece};
use crate::plpgsql::bind_procedure;
use crate::routine::{self, Signature};
use crate::source::{Diagnostic, Sources};

use weir_types::SqlState;

/// Reads all files.
///
/// # Errors
/// The first error of the schema, or else every error of the procedures and assertions; together with the
/// sources, so that the caller can show the places.
pub fn load(sources: Sources) -> Result<Application, (Sources, Vec<Diagnostic>)> {
    match load_parts(&sources) {
        Ok((catalog, procedures, assertions)) => Ok(Application { sources, catalog, procedures, assertions }),
        Err(errors) => Err((sources, errors)),
    }
}

type Parts = (Catalog, Vec<Procedure>, Vec<crate::catalog::Assertion>);

fn load_parts(sources: &Sources) -> Result<Parts, Vec<Diagnostic>> {
    let mut schema = Schema::default();
    let mut assertions = Vec::new();
    for (file, source) in sources.files.iter().enumerate() {
        let file = file as u32;
        let (text, found) = assertion::split(file, &source.text).map_err(|error| vec![error])?;
        assertions.extend(found);
        let piece = Piece::new(file, 0, &text);
        for statement in parse::parse_statements(piece).map_err(|error| vec![error])? {
            schema.apply(piece, statement).map_err(|error| vec![error])?;
        }
    }
    assertions.append(&mut schema.assertions);
    let mut errors = Vec::new();
    let procedures = bind_routines(sources, &schema, &mut errors);
    let mut bound: Vec<crate::catalog::Assertion> = Vec::new();
    for pending in assertions {
        if bound.iter().any(|other| other.name == pending.name) {
            errors.push(Diagnostic::new(
                SqlState::DUPLICATE_OBJECT,
                pending.name_span,
                format!("assertion \"{}\" already exists", pending.name),
            ));
            continue;
        }
        match assertion::bind(&schema.catalog, pending) {
            Ok(assertion) => bound.push(assertion),
            Err(error) => errors.push(error),
        }
    }
    match errors.is_empty() {
        true => Ok((schema.catalog, procedures, bound)),
        false => Err(errors),
    }
}

/// Signatures first, then bodies, so that procedures may call each other in any order.
fn bind_routines(sources: &Sources, schema: &Schema, errors: &mut Vec<Diagnostic>) -> Vec<Procedure> {
    let piece_of = |routine: &PendingRoutine| {
        let text = sources.files.get(routine.file as usize).map_or("", |file| file.text.as_str());
        Piece::new(routine.file, 0, text)
    };
    let mut signatures: Vec<Signature> = Vec::new();
    for routine in &schema.routines {
        match routine::signature(&schema.catalog, piece_of(routine), &routine.create, routine.span) {
            Ok(signature) => signatures.push(signature),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Vec::new();
    }
    let mut procedures = Vec::new();
    for (index, routine) in schema.routines.iter().enumerate() {
        let piece = piece_of(routine);
        match bind_procedure(&schema.catalog, &signatures, index, piece, &routine.create, routine.span) {
            Ok(mut procedure) => {
                procedure.serializable |= routine.serializable;
                procedures.push(procedure);
            }
            Err(error) => errors.push(error),
        }
    }
    procedures
}
