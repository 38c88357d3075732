//! The result of an independent transaction: its coordinator runs the procedure once more, with what the statements have given at their shards.

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_types::SqlError;

use super::{Fragment, Role, Scratch, Stop, internal, run};
use crate::claims::Claims;
use crate::exec::program::Program;
use crate::exec::sequences::Sequences;
use crate::exec::worker::ClaimsOf;
use crate::faults::NoFaults;
use crate::message::{Answers, Call, Output};
use crate::storage::{Storage, Workspace};

/// A shard that no statement is of.
const NOWHERE: ShardId = ShardId::MAX;

/// # Errors
/// That of the first statement that has failed, as in a serial execution.
pub(crate) fn combined(
    program: &Program,
    (txn, call): (TxnId, &Call),
    answers: &[(ShardId, Answers)],
) -> Result<Output, SqlError> {
    let procedure = program.callee(&call.callee)?;
    let has_result = procedure.returns_value || !procedure.outputs.is_empty();
    if !has_result {
        let error = answers.iter().find_map(|(_, answers)| answers.error.clone());
        return error.map_or(Ok(Output::default()), Err);
    }
    let _zone = call.transaction_time.zone.enter();
    let (mut storage, claims) = (Storage::new(program.schema.clone()), Claims::default());
    let mut sequences = Sequences::default();
    let claims = ClaimsOf::Step(&claims);
    let fragment = Fragment {
        program,
        procedure: &procedure,
        storage: Workspace::in_place(&mut storage),
        environment: sequences.environment(program, NOWHERE, call.transaction_time).of_transaction(
            program,
            (claims, txn),
            None,
        ),
        claims,
        loading: Vec::new(),
        here: NOWHERE,
        txn,
        role: Role::Last(answers),
        timestamp: Timestamp::default(),
        keep_writes: false,
        open: None,
        has_locks: false,
        reserved: None,
        looks: None,
        derived: None,
        attempt: None,
        prepared: &|_| {},
        bugs: NoFaults,
    };
    match run(fragment, call, &mut Scratch::default()) {
        Ok(ran) => Ok(ran.output),
        Err(Stop::Error(error)) => Err(error),
        Err(_) => match internal("the result of an ordered call waits for something".to_owned()) {
            Stop::Error(error) => Err(error),
            _ => unreachable!("it is an error"),
        },
    }
}
