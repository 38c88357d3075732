//! Operations of updates: what other transactions fold later, independent of this one.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_sql::catalog::ColumnIndex;
use weir_types::datetime::TransactionTime;
use weir_types::{SqlError, SqlState, Value};

use super::{AssignmentKind, CompiledUpdate};
use crate::exec::call::Run;
use crate::exec::context::{Cx, Environment, Frame};
use crate::exec::expr::CompiledExpr;
use crate::exec::program::Program;
use crate::exec::slots::Slot;
use crate::faults::Faults;
use crate::storage::{
    ColumnChange, ColumnOperation, Functions, Operation, RowFunction, RowName, RowStatement, UpdateName,
};

/// An `Apply` with its captured values.
#[derive(Debug)]
struct RowApply {
    update: UpdateName,
    assignment: u32,
    value: Arc<CompiledExpr>,
    columns: Arc<[(ColumnIndex, Slot)]>,
    captured: Vec<(Slot, Value)>,
    slots: usize,
    cells: usize,
    transaction_time: TransactionTime,
}

/// An UPDATE of one row whose operations are computed only if they have to be folded.
#[derive(Debug)]
struct CapturedUpdate {
    update: Arc<CompiledUpdate>,
    /// Values of `update.captures`.
    values: SmallVec<[Value; 4]>,
    transaction_time: TransactionTime,
}

impl RowStatement for CapturedUpdate {
    fn name(&self) -> RowName {
        let (captured, transaction_time) = (self.values.to_vec(), self.transaction_time);
        RowName { update: self.update.name.clone(), captured, transaction_time }
    }

    fn assigns(&self, is_meant: &dyn Fn(ColumnIndex) -> bool) -> bool {
        self.update.assignments.iter().any(|assignment| is_meant(assignment.column))
    }

    fn columns(&self) -> Result<Vec<ColumnOperation>, SqlError> {
        let mut frame = Frame::default();
        frame.grow(self.update.slots, self.update.cells);
        for (slot, value) in self.update.captures.iter().flatten().zip(&self.values) {
            frame.set(*slot, value.clone());
        }
        let columns = (0..self.update.assignments.len()).map(|at| {
            let eval = |expr: &CompiledExpr| eval_alone(expr, &mut frame, self.transaction_time);
            let change = self.update.change(at, self.transaction_time, eval)?;
            Ok(ColumnOperation { column: self.update.assignments[at].column, change })
        });
        columns.collect()
    }
}

impl CompiledUpdate {
    /// Operation of the `at`-th assignment. `eval` evaluates either when the row is found, or later without the statement.
    fn change(
        &self,
        at: usize,
        transaction_time: TransactionTime,
        mut eval: impl FnMut(&CompiledExpr) -> Result<Value, SqlError>,
    ) -> Result<ColumnChange, SqlError> {
        let assignment = &self.assignments[at];
        Ok(match &assignment.kind {
            AssignmentKind::Assign => ColumnChange::Assign(eval(&assignment.value)?),
            AssignmentKind::Add(delta) => ColumnChange::Add(eval(delta)?),
            AssignmentKind::Max(value) => ColumnChange::Max(eval(value)?),
            AssignmentKind::Min(value) => ColumnChange::Min(eval(value)?),
            AssignmentKind::Apply { columns, variables } => {
                let captured: Result<Vec<(Slot, Value)>, SqlError> =
                    variables.iter().map(|&slot| Ok((slot, eval(&CompiledExpr::Slot(slot))?))).collect();
                let captured = captured?;
                ColumnChange::Apply(Arc::new(self.apply(at, columns, captured, transaction_time)))
            }
        })
    }
}

impl CompiledUpdate {
    fn apply(
        &self,
        at: usize,
        columns: &Arc<[(ColumnIndex, Slot)]>,
        captured: Vec<(Slot, Value)>,
        transaction_time: TransactionTime,
    ) -> RowApply {
        RowApply {
            update: self.name.clone(),
            assignment: at as u32,
            value: self.assignments[at].value.clone(),
            columns: columns.clone(),
            captured,
            slots: self.slots,
            cells: self.cells,
            transaction_time,
        }
    }
}

impl Program {
    fn update(&self, name: &UpdateName) -> Arc<CompiledUpdate> {
        match name {
            UpdateName::Program(number) => self.updates[*number as usize].clone(),
            UpdateName::Text(text, number) => {
                let text = self.text_again(text).expect("what has been run can be run again");
                text.updates[*number as usize].clone()
            }
        }
    }
}

impl Functions for Program {
    fn statement(&self, name: &RowName) -> Arc<dyn RowStatement> {
        let update = self.update(&name.update);
        let values = name.captured.iter().cloned().collect();
        Arc::new(CapturedUpdate { update, values, transaction_time: name.transaction_time })
    }

    fn function(&self, assignment: u32, name: &RowName) -> Arc<dyn RowFunction> {
        let update = self.update(&name.update);
        let at = assignment as usize;
        let AssignmentKind::Apply { columns, variables } = &update.assignments[at].kind else {
            unreachable!("only an Apply is a function")
        };
        let captured = variables.iter().copied().zip(name.captured.iter().cloned()).collect();
        Arc::new(update.apply(at, columns, captured, name.transaction_time))
    }
}

/// Environment of expressions over one row, which use no sequence and no randomness.
pub(in crate::exec) struct NoEnvironment;

impl Environment for NoEnvironment {
    fn next_value(&mut self, _: weir_sql::catalog::SequenceId) -> Result<Value, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "nextval is not supported here"))
    }

    fn current_value(&mut self, _: weir_sql::catalog::SequenceId) -> Result<Value, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "currval is not supported here"))
    }

    fn volatile(&mut self, _: weir_sql::bound::VolatileFunction) -> Result<Value, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "a volatile function is not supported here"))
    }
}

/// Evaluates an expression that reads only the frame.
pub(in crate::exec) fn eval_alone(
    expr: &CompiledExpr,
    frame: &mut Frame,
    transaction_time: TransactionTime,
) -> Result<Value, SqlError> {
    let _zone = transaction_time.zone.enter();
    expr.eval(&mut Cx {
        frame,
        rows: &crate::storage::NoRows,
        transaction_time,
        environment: &mut NoEnvironment,
    })
}

impl RowFunction for RowApply {
    fn name(&self) -> (u32, RowName) {
        let captured = self.captured.iter().map(|(_, value)| value.clone()).collect();
        let (update, transaction_time) = (self.update.clone(), self.transaction_time);
        (self.assignment, RowName { update, captured, transaction_time })
    }

    fn evaluate(&self, read: &dyn Fn(ColumnIndex) -> Value) -> Result<Value, SqlError> {
        let mut frame = Frame::default();
        frame.grow(self.slots, self.cells);
        for (slot, value) in &self.captured {
            frame.set(*slot, value.clone());
        }
        for &(column, slot) in self.columns.iter() {
            frame.set(slot, read(column));
        }
        eval_alone(&self.value, &mut frame, self.transaction_time)
    }
}

impl<F: Faults> Run<'_, F> {
    /// `changes`: results of the assignments.
    pub(super) fn operation(
        &mut self,
        update: &Arc<CompiledUpdate>,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<Operation, SqlError> {
        let overwrite = self.fragment.bugs.overwrite();
        let transaction_time = self.transaction_time;
        if let (Some(captures), false) = (&update.captures, overwrite) {
            let mut values = SmallVec::new();
            captures.iter().for_each(|&slot| values.push(self.frame.get(slot).clone()));
            let update = update.clone();
            return Ok(Operation::Statement(Arc::new(CapturedUpdate { update, values, transaction_time })));
        }
        let mut columns = Vec::with_capacity(changes.len());
        for (at, (assignment, (column, value))) in update.assignments.iter().zip(changes).enumerate() {
            let change = match &assignment.kind {
                _ if overwrite => ColumnChange::Assign(value.clone()),
                AssignmentKind::Assign => ColumnChange::Assign(value.clone()),
                _ => update.change(at, transaction_time, |expr| self.eval(expr))?,
            };
            columns.push(ColumnOperation { column: *column, change });
        }
        Ok(Operation::Update(columns.into()))
    }
}
