//! The statements that a coordinator runs for one call, in one transaction: those of a procedure or a DO block, or an ad-hoc statement that
//! runs under locks; of a statement that locks its first rows, its parts ([`first_rows`](super::first_rows)); then the checks of assertions that the call is not shown to keep by itself (docs/internals/admission.md).
//!
//! Invariant: a call whose assertions are checked holds interval locks of all that it has read, the checks included. So what the checks have
//! found is so when it commits.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_sql::{Text, is_block};
use weir_types::datetime::TransactionTime;
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState, Value};

use super::first_rows::LocksFirstRows;
use super::plpgsql::Isolation;
use super::plpgsql::interpreter::{Execution, Interpreter, Stopped};
use super::program::Program;
use crate::message::{Call, Callee, Changed, Check, Output};

/// The steps of a call, of which one is run after the other.
#[derive(Debug)]
pub struct CallSteps {
    program: Arc<Program>,
    transaction_time: TransactionTime,
    pub memory: WorkingMemory,
    body: Body,
    /// The statement of the body that locks its first rows, while it runs.
    first_rows: Option<LocksFirstRows>,
    /// It runs under locks.
    has_locks: bool,
    /// The barrier has not been raised yet.
    excludes: bool,
    /// Rows that its statements have changed.
    changed: Changed,
    /// Checks behind the body.
    checks: VecDeque<Check>,
    /// The assertion whose check is awaited.
    checked: Option<usize>,
    /// Output of the body, once it has ended.
    output: Option<Output>,
}

#[derive(Debug)]
enum Body {
    Procedure(Box<Interpreter>),
    /// An ad-hoc statement.
    Statement(Statement),
    /// Only checks.
    Nothing,
}

#[derive(Debug)]
struct Statement {
    text: Arc<Text>,
    args: Vec<Value>,
    /// Its result.
    output: Option<Output>,
}

impl CallSteps {
    /// `seed`: of its random numbers.
    ///
    /// # Errors
    /// The callee is neither a procedure nor a statement, or cannot be compiled.
    pub fn new(program: Arc<Program>, call: &Call, seed: u64) -> Result<CallSteps, SqlError> {
        let callee = program.callee(&call.callee)?;
        let locking = callee.admission.locking();
        let has_locks = locking.is_some();
        let excludes = locking.is_some_and(|locking| locking.excludes);
        let body = match &call.callee {
            Callee::Text(text) if !is_block(&text.sql) => {
                Body::Statement(Statement { text: text.clone(), args: call.args.clone(), output: None })
            }
            _ => Body::Procedure(Box::new(Interpreter::new(program.clone(), call, seed)?)),
        };
        drop(callee);
        let (transaction_time, memory) = (call.transaction_time, call.memory);
        let (changed, checks) = (Changed::default(), VecDeque::new());
        Ok(CallSteps {
            program,
            transaction_time,
            memory,
            body,
            first_rows: None,
            has_locks,
            excludes,
            changed,
            checks,
            checked: None,
            output: None,
        })
    }

    /// The checks of an open transaction that has changed these rows, before it commits.
    pub fn of_checks(program: Arc<Program>, call: &Call, changed: Changed) -> CallSteps {
        CallSteps {
            program,
            transaction_time: call.transaction_time,
            memory: call.memory,
            body: Body::Nothing,
            first_rows: None,
            has_locks: true,
            excludes: false,
            changed,
            checks: VecDeque::new(),
            checked: None,
            output: None,
        }
    }

    /// Notes rows that a statement has changed.
    pub fn note(&mut self, changed: Changed) {
        self.changed.extend(changed);
    }

    /// Isolation that it needs.
    pub fn isolation(&self) -> Isolation {
        match &self.body {
            Body::Procedure(interpreter) if !self.has_locks => interpreter.isolation(),
            Body::Statement(_) if !self.has_locks => Isolation::ReadCommitted,
            Body::Procedure(_) | Body::Statement(_) | Body::Nothing => Isolation::Serializable,
        }
    }

    /// Returns whether no statement has effects.
    pub fn reads_only(&self) -> bool {
        match &self.body {
            Body::Procedure(interpreter) => interpreter.reads_only(),
            Body::Statement(_) => false,
            Body::Nothing => true,
        }
    }

    /// Returns whether it executes one query, and no other statement.
    pub fn is_one_query(&self) -> bool {
        matches!(&self.body, Body::Procedure(interpreter) if interpreter.is_one_query())
    }

    /// The program that the call began with.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    pub fn transaction_time(&self) -> TransactionTime {
        self.transaction_time
    }

    /// Runs to the next statement, or to the end.
    ///
    /// # Errors
    /// One that the procedure raises.
    pub fn run(&mut self) -> Result<Stopped, SqlError> {
        if self.excludes {
            return Ok(Stopped::Executes(Execution::Barrier));
        }
        if self.output.is_none() {
            match self.run_body()? {
                Stopped::Ends(output) => self.output = Some(output),
                stopped => return Ok(stopped),
            }
        }
        self.checks.extend(std::mem::take(&mut self.changed).into_checks());
        let Some(Check { assertion, key }) = self.checks.pop_front() else {
            return Ok(Stopped::Ends(self.output.take().unwrap_or_default()));
        };
        self.checked = Some(assertion);
        let (link, args) = match key {
            Some((link, key)) => (Some(link), key),
            None => (None, Vec::new()),
        };
        let text = self.program.check_of(assertion, link)?;
        Ok(Stopped::Executes(Execution::Query { text, args, locks: true }))
    }

    fn run_body(&mut self) -> Result<Stopped, SqlError> {
        loop {
            if let Some(first_rows) = &mut self.first_rows {
                let output = match first_rows.run() {
                    Stopped::Ends(output) => output,
                    stopped => return Ok(stopped),
                };
                self.first_rows = None;
                self.body.take_output(output)?;
            }
            let stopped = self.body.run(self.has_locks)?;
            if let Stopped::Executes(Execution::Statement { text, args, locks }) = &stopped {
                let statement = (&**text, &args[..], *locks);
                self.first_rows = LocksFirstRows::of(&self.program, statement, self.transaction_time)?;
            }
            if self.first_rows.is_none() {
                return Ok(stopped);
            }
        }
    }

    /// Takes the result of a query.
    ///
    /// # Errors
    /// The rows do not fit their destination, or an assertion is violated.
    pub fn take_rows(&mut self, rows: Vec<Vec<Value>>) -> Result<(), SqlError> {
        if let Some(assertion) = self.checked.take() {
            return match rows.into_iter().next() {
                Some(row) => Err(self.program.violated(assertion, &row)),
                None => Ok(()),
            };
        }
        match (&mut self.first_rows, &mut self.body) {
            (Some(first_rows), _) => {
                first_rows.take_rows(rows);
                Ok(())
            }
            (None, Body::Procedure(interpreter)) => interpreter.take_rows(rows),
            (None, Body::Statement(_) | Body::Nothing) => Err(not_asked()),
        }
    }

    /// Takes the result of a statement that writes, or of the barrier.
    ///
    /// # Errors
    /// As [`CallSteps::take_rows`].
    pub fn take_output(&mut self, output: Output) -> Result<(), SqlError> {
        if std::mem::take(&mut self.excludes) {
            return Ok(());
        }
        match &mut self.first_rows {
            Some(first_rows) => first_rows.take_output(output),
            None => self.body.take_output(output),
        }
    }
}

impl Body {
    /// `locks`: an ad-hoc statement takes interval locks of what it reads.
    fn run(&mut self, locks: bool) -> Result<Stopped, SqlError> {
        match self {
            Body::Procedure(interpreter) => interpreter.run(),
            Body::Statement(Statement { output: Some(output), .. }) => {
                Ok(Stopped::Ends(std::mem::take(output)))
            }
            Body::Statement(Statement { text, args, output: None }) => {
                let (text, args) = (text.clone(), std::mem::take(args));
                Ok(Stopped::Executes(Execution::Statement { text, args, locks }))
            }
            Body::Nothing => Ok(Stopped::Ends(Output::default())),
        }
    }

    fn take_output(&mut self, output: Output) -> Result<(), SqlError> {
        match self {
            Body::Procedure(interpreter) => interpreter.take_output(output),
            Body::Statement(statement) => {
                statement.output = Some(output);
                Ok(())
            }
            Body::Nothing => Err(not_asked()),
        }
    }
}

pub(super) fn not_asked() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a result that no statement of the call has asked for")
}
