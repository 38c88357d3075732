//! `[mix]` and `[parameters.<procedure>]`: the endless stream of one client's calls.

use std::sync::Arc;

use weir_sql::{Application, Diagnostic};
use weir_types::{SqlError, SqlState, Value};

use super::code::{Context, Kind, Scalar, ScalarOp, mix};
use super::compile::{Assignment, Compiler, Purity, Scope, Slot, Typed, error};
use super::convert::Conversion;
use super::file::Section;
use super::{Output, Workload, expression, inputs, procedure_named};

/// One call of a procedure.
#[derive(Clone, Debug)]
pub struct Call {
    /// Position in [`Application::procedures`].
    pub procedure: usize,
    /// One value for each IN and INOUT parameter, in the order of the declaration.
    pub args: Vec<Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct ProcedureCalls {
    procedure: usize,
    name: String,
    assignments: Vec<Assignment>,
    arguments: Vec<Output>,
}

/// Slots that every call may read, before all others.
const CLIENT: usize = 0;
const CALL: usize = 1;

/// `sequence(start)` gives each of this many clients separate numbers.
const SEQUENCE_CLIENTS: i64 = 4096;

pub(crate) fn compile(
    file: u32,
    sections: &[Section],
    application: &Application,
    weights: &[u64],
    scope: &Scope,
    compiler: &mut Compiler,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<ProcedureCalls> {
    let mut scope = scope.clone();
    for (name, slot) in [("client", CLIENT), ("call", CALL)] {
        let taken = compiler.scalar_slot();
        assert_eq!(taken, slot, "the first slots are the client's and the call's");
        scope.define(name, Typed::in_slot(&Slot::Scalar(slot), Kind::Int));
    }
    scope.define("unique", unique());
    let mut compiled: Vec<Option<ProcedureCalls>> = vec![None; application.procedures.len()];
    for section in sections {
        if let Some(procedure) = procedure_named(application, &section.name, section.name_span, diagnostics) {
            let calls = procedure_calls(file, section, procedure, application, &scope, compiler, diagnostics);
            compiled[procedure] = Some(calls);
        }
    }
    for (position, procedure) in application.procedures.iter().enumerate() {
        let has_inputs = inputs(procedure).next().is_some();
        match &compiled[position] {
            None if weights[position] > 0 && has_inputs => {
                let message = format!("the workload calls {0} but has no [parameters.{0}]", procedure.name);
                let names: Vec<&str> = inputs(procedure).map(|(name, _)| name).collect();
                let hint = format!("its parameters are {}; or give it the weight 0", names.join(", "));
                let state = SqlState::UNDEFINED_PARAMETER;
                diagnostics.push(error(state, procedure.span, message).with_hint(hint));
            }
            None => {
                let name = procedure.name.clone();
                let (assignments, arguments) = (Vec::new(), Vec::new());
                compiled[position] =
                    Some(ProcedureCalls { procedure: position, name, assignments, arguments });
            }
            Some(_) => {}
        }
    }
    compiled.into_iter().flatten().collect()
}

/// `call * 4096 + client`: a number that no other call of any client has.
fn unique() -> Typed {
    let slot = |slot| Box::new(Scalar::Slot(slot));
    let factor = Box::new(Scalar::Constant(SEQUENCE_CLIENTS));
    let base = Box::new(Scalar::Binary(ScalarOp::Multiply, slot(CALL), factor));
    Typed::scalar(Kind::Int, Scalar::Binary(ScalarOp::Add, base, slot(CLIENT)), Purity::Row)
}

fn procedure_calls(
    file: u32,
    section: &Section,
    position: usize,
    application: &Application,
    scope: &Scope,
    compiler: &mut Compiler,
    diagnostics: &mut Vec<Diagnostic>,
) -> ProcedureCalls {
    let procedure = &application.procedures[position];
    let mut scope = scope.clone();
    let mut assignments = Vec::new();
    let mut values: Vec<(String, Slot, Kind)> = Vec::new();
    let mut failed = false;
    for entry in &section.entries {
        if !entry.name.starts_with('_') && !inputs(procedure).any(|(name, _)| name == entry.name) {
            let names: Vec<&str> = inputs(procedure).map(|(name, _)| name).collect();
            let message = format!("procedure {} has no IN parameter {}", procedure.name, entry.name);
            let hint = format!("it has {}; a name that begins with _ is a local", names.join(", "));
            diagnostics.push(error(SqlState::UNDEFINED_PARAMETER, entry.name_span, message).with_hint(hint));
        }
        match expression(file, entry, &scope, compiler) {
            Ok((typed, _)) => {
                let kind = typed.kind.clone();
                let (assignment, name) = compiler.assign(typed);
                values.push((entry.name.clone(), assignment.slot.clone(), kind));
                assignments.push(assignment);
                scope.define(&entry.name, name);
            }
            Err(diagnostic) => {
                failed = true;
                diagnostics.push(diagnostic);
            }
        }
    }
    let mut arguments = Vec::new();
    for (name, ty) in inputs(procedure) {
        let Some((_, slot, kind)) = values.iter().find(|(known, ..)| known == name) else {
            if !failed {
                let message = format!("[parameters.{}] has no generator for {name}", section.name);
                let hint = format!("its type is {ty}");
                let state = SqlState::UNDEFINED_PARAMETER;
                diagnostics.push(error(state, section.name_span, message).with_hint(hint));
            }
            continue;
        };
        let span = super::section_entry(section, name).map_or(section.name_span, |entry| entry.name_span);
        match Conversion::new(kind, ty, span) {
            Ok(conversion) => arguments.push(Output {
                name: name.to_string(),
                kind: kind.clone(),
                slot: slot.clone(),
                conversion,
            }),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    ProcedureCalls { procedure: position, name: procedure.name.clone(), assignments, arguments }
}

/// The calls of one client: the same for the same workload, seed and client.
#[derive(Clone, Debug)]
pub struct CallGenerator {
    workload: Arc<Workload>,
    context: Context,
    call: i64,
    /// Rest of the shuffled deck; positions in the workload's calls.
    deck: Vec<u32>,
}

impl CallGenerator {
    /// `client` counts from 0.
    pub fn new(workload: &Arc<Workload>, seed: u64, client: u64) -> CallGenerator {
        let constants = super::nurand_constants(&workload.call_nurand, seed, true);
        // The stream must be another one than the rows' of the same seed.
        let stream = mix(mix(seed, u64::MAX), client);
        let mut context = Context::new(stream, workload.call_slots, constants);
        context.scalars[CLIENT] = client as i64;
        CallGenerator { workload: Arc::clone(workload), context, call: 0, deck: Vec::new() }
    }

    /// The next call, or what is wrong with the workload (a range that turned out empty, a number that its
    /// parameter's type cannot hold).
    pub fn next_call(&mut self) -> Result<Call, SqlError> {
        let position = self.next_procedure();
        let Some(calls) = self.workload.calls.get(position) else {
            let message = "workload: the application has no procedure to call";
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        self.context.scalars[CALL] = self.call;
        self.call += 1;
        for assignment in &calls.assignments {
            assignment.run(&mut self.context);
        }
        let mut args = Vec::with_capacity(calls.arguments.len());
        for argument in &calls.arguments {
            args.push(argument.take(&mut self.context));
        }
        match self.context.error.take() {
            None => Ok(Call { procedure: calls.procedure, args }),
            Some(message) => {
                let message = format!("workload: [parameters.{}]: {message}", calls.name);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        }
    }

    fn next_procedure(&mut self) -> usize {
        let weights = &self.workload.weights;
        if !self.workload.deck {
            let total: u64 = weights.iter().sum();
            let mut drawn = self.context.below(total.max(1));
            for (procedure, weight) in weights.iter().enumerate() {
                if drawn < *weight {
                    return procedure;
                }
                drawn -= weight;
            }
        }
        if self.deck.is_empty() {
            for (procedure, weight) in weights.iter().enumerate() {
                self.deck.extend(std::iter::repeat_n(procedure as u32, *weight as usize));
            }
            for last in (1..self.deck.len()).rev() {
                let other = self.context.below(last as u64 + 1) as usize;
                self.deck.swap(last, other);
            }
        }
        self.deck.pop().unwrap_or(0) as usize
    }
}
