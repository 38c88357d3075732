//! Programs and calls for tests of single shards.

use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_sql::{Application, Sources};
use weir_txn::exec::program::Program;
use weir_txn::message::{Call, Callee};
use weir_types::Value;
use weir_types::memory::WorkingMemory;

/// The application of that SQL.
pub fn application(sql: &str) -> Application {
    let mut sources = Sources::default();
    sources.add("accounts.sql", sql);
    weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"))
}

pub fn program(application: &Application, shards: ShardId) -> Arc<Program> {
    let plan = weir_analysis::analyze(application).plan;
    Arc::new(Program::compile(application, &plan, shards).unwrap())
}

/// A call of the procedure, counted in the order of the text, bound to the first schema version.
pub fn call(procedure: usize, args: &[i64]) -> Call {
    Call {
        callee: Callee::Procedure(procedure),
        args: args.iter().map(|arg| Value::Int(*arg)).collect(),
        transaction_time: 0.into(),
        schema_version: 0,
        memory: WorkingMemory::default(),
    }
}
