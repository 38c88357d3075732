//! Interprets the code of a procedure. It stops at each SQL statement, and goes on with the result.
//!
//! Invariant: while a statement is awaited, the innermost activation is behind its [`Instruction::Execute`], which says where the rows go.

use std::sync::Arc;

use weir_types::datetime::TransactionTime;
use weir_types::memory::WorkingMemory;
use weir_types::{Notices, SqlError, SqlState, Value};

use super::Isolation;
use super::code::{Code, Instruction, Position, Round, Rows};
use crate::exec::call::{
    CALL_DEPTH_MAX, assert_failure, assign_element, assigned, nested_too_deep, no_return, raised,
    range_bounds, rows_for,
};
use crate::exec::context::{Cx, Frame};
use crate::exec::expr::CompiledExpr;
use crate::exec::program::{CompiledProcedure, CompiledRaise, Program, Target};
use crate::exec::sequences::Sequences;
use crate::exec::texts::CompiledText;
use crate::message::{Call, Callee, Output, SequenceValue};
use crate::storage::rows::NoRows;
use weir_sql::Text;

/// Number of instructions after which it pauses, so that its coordinator can serve others.
const INSTRUCTIONS_MAX: usize = 4_096;

/// A call that is being interpreted.
#[derive(Debug)]
pub struct Interpreter {
    program: Arc<Program>,
    /// The DO block, if it runs one.
    block: Option<Arc<CompiledText>>,
    /// The called procedure or block, and those that it is calling. Never empty.
    activations: Vec<Activation>,
    transaction_time: TransactionTime,
    pub memory: WorkingMemory,
    /// Source of random numbers; it hands out no value of a sequence.
    sequences: Sequences,
    /// Values that the statements have taken from sequences, the latest last.
    given: Vec<SequenceValue>,
    notices: Notices,
    /// Rows of RETURN NEXT and RETURN QUERY.
    rows: Vec<Vec<Value>>,
}

#[derive(Debug)]
struct Activation {
    /// None: the block.
    procedure: Option<usize>,
    code: Arc<Code>,
    /// The next instruction.
    at: Position,
    frame: Frame,
    loops: Vec<Loop>,
    row_count: u64,
    /// Rows of the statements that are one for the procedure.
    counted: u64,
}

/// State of a loop, from its beginning to its end.
#[derive(Debug)]
struct Loop {
    rounds: Rounds,
    had_rounds: bool,
}

/// The rounds that are left.
#[derive(Debug)]
enum Rounds {
    Integers { next: i64, last: i64, by: i64, reverse: bool },
    Values(std::vec::IntoIter<Value>),
    Rows(std::vec::IntoIter<Vec<Value>>),
}

/// Why it has stopped.
#[derive(Debug)]
pub enum Stopped {
    /// It needs the result of this statement.
    Executes(Execution),
    /// It has run for long, and goes on when it is asked to.
    Pauses,
    Ends(Output),
}

/// A statement with its parameters. `locks`: it takes interval locks of what it reads, whatever the isolation of its transaction is.
#[derive(Debug)]
pub enum Execution {
    /// It has effects.
    Statement {
        text: Arc<Text>,
        args: Vec<Value>,
        locks: bool,
    },
    Query {
        text: Arc<Text>,
        args: Vec<Value>,
        locks: bool,
    },
    /// Keeps out all other writers.
    Barrier,
}

impl Interpreter {
    /// `seed`: of its random numbers.
    ///
    /// # Errors
    /// The callee is neither a procedure nor a block, or its code cannot be compiled.
    pub fn new(program: Arc<Program>, call: &Call, seed: u64) -> Result<Interpreter, SqlError> {
        let mut interpreter = Interpreter {
            program,
            block: None,
            activations: Vec::new(),
            transaction_time: call.transaction_time,
            memory: call.memory,
            sequences: Sequences::seeded(seed),
            given: Vec::new(),
            notices: Notices::default(),
            rows: Vec::new(),
        };
        match &call.callee {
            Callee::Procedure(procedure) => interpreter.enter(*procedure, call.args.clone())?,
            Callee::Text(text) => {
                interpreter.block = Some(interpreter.program.text(text).map_err(|wrong| wrong.error)?);
                let code = interpreter.program.block_code(&text.sql)?;
                interpreter.activate(None, code, Vec::new());
            }
            _ => {
                let message = "only procedures and blocks are interpreted";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        Ok(interpreter)
    }

    /// Isolation that the called procedure needs.
    pub fn isolation(&self) -> Isolation {
        self.procedure().isolation
    }

    /// Returns whether neither the procedure nor those that it calls have a statement with effects.
    pub fn reads_only(&self) -> bool {
        self.procedure().read_only && self.activations.iter().all(|one| one.code.reads_only())
    }

    /// Returns whether the call executes one query, and no other statement.
    pub fn is_one_query(&self) -> bool {
        self.reads_only() && self.activations.iter().all(|one| one.code.executes_once())
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
        let zone = self.transaction_time.zone;
        let _zone = zone.enter();
        for _ in 0..INSTRUCTIONS_MAX {
            if let Some(stopped) = self.step()? {
                return Ok(stopped);
            }
        }
        Ok(Stopped::Pauses)
    }

    /// Takes the result of a query.
    ///
    /// # Errors
    /// The rows do not fit their destination.
    pub fn take_rows(&mut self, rows: Vec<Vec<Value>>) -> Result<(), SqlError> {
        let count = rows.len() as u64;
        self.take(rows, count)
    }

    /// Takes the result of a statement that writes.
    ///
    /// # Errors
    /// As [`Interpreter::take_rows`].
    pub fn take_output(&mut self, output: Output) -> Result<(), SqlError> {
        let Output { values, rows, given, notices } = output;
        for notice in notices {
            self.notices.add(notice.severity, notice.said);
        }
        for one in given {
            self.given.retain(|earlier| earlier.sequence != one.sequence);
            self.given.push(one);
        }
        let count = match values[..] {
            [Value::Int(count), ..] => count as u64,
            _ => rows.len() as u64,
        };
        self.take(rows, count)
    }

    fn take(&mut self, rows: Vec<Vec<Value>>, count: u64) -> Result<(), SqlError> {
        let zone = self.transaction_time.zone;
        let _zone = zone.enter();
        let code = self.innermost().code.clone();
        let at = self.innermost().at;
        let Some(Instruction::Execute { to, .. }) = at.checked_sub(1).map(|at| &code.instructions[at]) else {
            unreachable!("a statement is awaited")
        };
        match to {
            Rows::Nowhere => self.found(count),
            Rows::Variables(into) => {
                let counted = rows_for(into, rows.len())?;
                self.found(counted);
                let mut first = rows.into_iter().next().unwrap_or_default().into_iter();
                for target in &into.targets {
                    self.assign(target, first.next().unwrap_or_default())?;
                }
            }
            Rows::Value(slot) => {
                let value = rows.into_iter().next().and_then(|row| row.into_iter().next());
                self.frame().set(*slot, value.unwrap_or_default());
            }
            Rows::Loop => {
                let rounds = Rounds::Rows(rows.into_iter());
                self.innermost().loops.push(Loop { rounds, had_rounds: false });
            }
            Rows::Caller => self.rows.extend(rows),
        }
        Ok(())
    }

    fn innermost(&mut self) -> &mut Activation {
        self.activations.last_mut().expect("it has not ended")
    }

    fn frame(&mut self) -> &mut Frame {
        &mut self.innermost().frame
    }

    /// Begins an activation of the procedure.
    fn enter(&mut self, procedure: usize, args: Vec<Value>) -> Result<(), SqlError> {
        if self.activations.len() > CALL_DEPTH_MAX as usize {
            return Err(nested_too_deep());
        }
        let code = self.program.code(procedure)?;
        if procedure >= self.program.procedures.len() {
            let message = "there is no procedure of that number";
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        self.activate(Some(procedure), code, args);
        Ok(())
    }

    fn activate(&mut self, procedure: Option<usize>, code: Arc<Code>, args: Vec<Value>) {
        let mut frame = Frame::default();
        frame.grow(code.slots, code.cells);
        let compiled = self.compiled(procedure);
        for (input, value) in compiled.inputs.iter().zip(args) {
            frame.set(input.slot, value);
        }
        frame.set(compiled.found, Value::Bool(false));
        let (loops, row_count, counted) = (Vec::new(), 0, 0);
        let activation = Activation { procedure, code, at: 0, frame, loops, row_count, counted };
        self.activations.push(activation);
    }

    fn compiled(&self, procedure: Option<usize>) -> &CompiledProcedure {
        match (procedure, &self.block) {
            (Some(procedure), _) => &self.program.procedures[procedure],
            (None, Some(block)) => &block.procedure,
            (None, None) => unreachable!("what is no procedure is the block"),
        }
    }

    fn procedure(&self) -> &CompiledProcedure {
        self.compiled(self.activations.last().expect("it has not ended").procedure)
    }

    fn found(&mut self, count: u64) {
        let slot = self.procedure().found;
        let innermost = self.innermost();
        innermost.row_count = count;
        innermost.frame.set(slot, Value::Bool(count > 0));
    }

    fn step(&mut self) -> Result<Option<Stopped>, SqlError> {
        let innermost = self.innermost();
        let (code, at) = (innermost.code.clone(), innermost.at);
        innermost.at += 1;
        innermost.frame.begin_statement();
        let Some(instruction) = code.instructions.get(at) else { return self.leave(None) };
        match instruction {
            Instruction::Assign { target, value } => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            Instruction::AssignElement { slot, element, index, value } => {
                let (index, value) = (self.eval(index)?, self.eval(value)?);
                assign_element(&mut self.frame().values[*slot as usize], element, index, value)?;
            }
            Instruction::Execute { statement, .. } => {
                let statement = &code.statements[*statement];
                let frame = self.frame();
                let value = |(slot, reads): (usize, &bool)| match reads {
                    true => frame.values[slot].clone(),
                    false => Value::Null,
                };
                let args = statement.reads.iter().enumerate().map(value).collect();
                let (text, locks) = (statement.text.clone(), false);
                return Ok(Some(Stopped::Executes(match statement.reads_only() {
                    true => Execution::Query { text, args, locks },
                    false => Execution::Statement { text, args, locks },
                })));
            }
            Instruction::Jump(to) => self.innermost().at = *to,
            Instruction::JumpUnless { condition, to } => {
                if !self.holds(condition)? {
                    self.innermost().at = *to;
                }
            }
            Instruction::BeginRange { bounds, reverse } => {
                let mut values = [Value::Int(1), Value::Int(1), Value::Int(1)];
                for (value, bound) in values.iter_mut().zip(bounds.iter()) {
                    if let Some(bound) = bound {
                        *value = self.eval(bound)?;
                    }
                }
                let [next, last, by] = range_bounds(values)?;
                self.begin_loop(Rounds::Integers { next, last, by, reverse: *reverse });
            }
            Instruction::BeginElements(array) => match self.eval(array)? {
                Value::Array(array) => self.begin_loop(Rounds::Values(array.values.clone().into_iter())),
                _ => {
                    let message = "FOREACH expression must not be null";
                    return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
                }
            },
            Instruction::Next { targets, end } => self.next_round(targets, *end)?,
            Instruction::EndLoop => {
                let had_rounds = self.innermost().loops.pop().is_some_and(|ended| ended.had_rounds);
                let slot = self.procedure().found;
                self.frame().set(slot, Value::Bool(had_rounds));
            }
            Instruction::Leave(loops) => {
                let of = &mut self.innermost().loops;
                of.truncate(of.len().saturating_sub(*loops));
            }
            Instruction::Raise(raise) => self.raise(raise)?,
            Instruction::Assert { condition, message } => {
                if !self.holds(condition)? {
                    let mut eval = |expr: &CompiledExpr| self.eval(expr);
                    return Err(assert_failure(message.as_ref(), &mut eval)?);
                }
            }
            Instruction::GetRowCount(target) => {
                let count = self.innermost().row_count;
                self.assign(target, Value::Int(count as i64))?;
            }
            Instruction::BeginCount => self.innermost().counted = 0,
            Instruction::Count => {
                let innermost = self.innermost();
                innermost.counted += innermost.row_count;
            }
            Instruction::EndCount => {
                let counted = self.innermost().counted;
                self.found(counted);
            }
            Instruction::Call { procedure, args, .. } => {
                let args = self.eval_all(args)?;
                self.enter(*procedure, args)?;
            }
            Instruction::ReturnNext(values) => {
                let row = self.eval_all(values)?;
                self.rows.push(row);
            }
            Instruction::Return(value) => {
                let value = value.as_ref().map(|value| self.eval(value)).transpose()?;
                return self.leave(Some(value));
            }
        }
        Ok(None)
    }

    /// Ends the innermost activation: at a RETURN, which may have a value, or behind its last step.
    fn leave(&mut self, returned: Option<Option<Value>>) -> Result<Option<Stopped>, SqlError> {
        let procedure = self.procedure();
        let values = match (procedure.returns_value, returned) {
            (true, None) => return Err(no_return()),
            (true, Some(value)) => value.into_iter().collect(),
            (false, _) => {
                let frame = &self.activations.last().expect("it has not ended").frame;
                procedure.outputs.iter().map(|(_, _, slot)| frame.get(*slot).clone()).collect()
            }
        };
        self.activations.pop();
        let Some(caller) = self.activations.last() else {
            let (rows, notices) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.notices).told());
            return Ok(Some(Stopped::Ends(Output { values, rows, given: self.given.clone(), notices })));
        };
        let code = caller.code.clone();
        let Some(Instruction::Call { targets, .. }) =
            caller.at.checked_sub(1).map(|at| &code.instructions[at])
        else {
            unreachable!("the caller is behind its CALL")
        };
        for (target, value) in targets.iter().zip(values) {
            self.assign(target, value)?;
        }
        Ok(None)
    }

    fn begin_loop(&mut self, rounds: Rounds) {
        self.innermost().loops.push(Loop { rounds, had_rounds: false });
    }

    fn next_round(&mut self, targets: &Round, end: Position) -> Result<(), SqlError> {
        let innermost = self.innermost();
        let Some(of) = innermost.loops.last_mut() else { unreachable!("a loop has been begun") };
        let next: Option<Vec<Value>> = match &mut of.rounds {
            Rounds::Integers { next, last, by, reverse } => {
                let value = *next;
                let is_left = if *reverse { value >= *last } else { value <= *last };
                // A loop variable is an integer: past its end the loop is over, as in PostgreSQL.
                let is_integer = i32::try_from(value).is_ok() || !of.had_rounds;
                *next = if *reverse { value - *by } else { value + *by };
                (is_left && is_integer).then(|| vec![Value::Int(value)])
            }
            Rounds::Values(values) => values.next().map(|value| vec![value]),
            Rounds::Rows(rows) => rows.next(),
        };
        let Some(values) = next else {
            innermost.at = end;
            return Ok(());
        };
        of.had_rounds = true;
        match targets {
            Round::Value(slot) => {
                let value = values.into_iter().next().unwrap_or_default();
                self.frame().set(*slot, value);
            }
            Round::Row(targets) => {
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
        }
        Ok(())
    }

    fn raise(&mut self, raise: &CompiledRaise) -> Result<(), SqlError> {
        let said = raised(raise, &mut |expr| self.eval(expr))?;
        match raise.level.severity() {
            Some(severity) => {
                self.notices.add(severity, said);
                Ok(())
            }
            None => Err(said),
        }
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<(), SqlError> {
        let value = assigned(target, value)?;
        self.frame().set(target.slot, value);
        Ok(())
    }

    fn holds(&mut self, condition: &CompiledExpr) -> Result<bool, SqlError> {
        Ok(matches!(self.eval(condition)?, Value::Bool(true)))
    }

    fn eval_all(&mut self, list: &[CompiledExpr]) -> Result<Vec<Value>, SqlError> {
        list.iter().map(|expr| self.eval(expr)).collect()
    }

    fn eval(&mut self, expr: &CompiledExpr) -> Result<Value, SqlError> {
        let Some(Activation { frame, .. }) = self.activations.last_mut() else {
            unreachable!("it has not ended")
        };
        // Of no shard: the ids that it generates need not live anywhere.
        let nowhere = self.program.shards;
        let environment = self.sequences.environment(&self.program, nowhere, self.transaction_time);
        let mut environment = environment.with_given(&self.given);
        expr.eval(&mut Cx {
            frame,
            rows: &NoRows,
            transaction_time: self.transaction_time,
            environment: &mut environment,
        })
    }
}
