//! Compiles a procedure to flat code: control flow becomes jumps, so an interpreter can stop at every SQL statement.
//!
//! The SQL statements stay bound trees. An expression that holds a query, or takes values of a sequence, becomes a statement of its own.

use std::sync::Arc;

use weir_sql::bound::{
    BinaryOp, Delete, Expr, ExprKind, InsertSource, Into, IntoTarget, LoopLabel, OutputColumn, ParameterMode,
    Procedure, Query, Select, Statement, Step, StepKind, Update, VariableId,
};
use weir_sql::{Application, Text, walk};
use weir_types::{SqlError, SqlState, SqlType};

use super::row_by_row::{RowByRow, row_by_row, variables_max};
use crate::exec::compile::target;
use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::names::Name;
use crate::exec::program::{CompileError, CompiledInto, CompiledRaise, Target};
use crate::exec::slots::{Slot, SlotAllocator};
use crate::storage::Schema;

/// Position in the code.
pub type Position = usize;

/// Whose statements the code has.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// The procedure with that index.
    Procedure(usize),
    /// The DO block with that text.
    Block(&'a str),
}

/// One procedure, or one block.
#[derive(Debug)]
pub struct Code {
    pub instructions: Vec<Instruction>,
    pub statements: Vec<ProcedureStatement>,
    pub slots: usize,
    pub cells: usize,
}

/// An SQL statement of a procedure. Its parameters are all variables of the procedure.
#[derive(Debug)]
pub struct ProcedureStatement {
    pub statement: Statement,
    /// Its name, with the types of the variables.
    pub text: Arc<Text>,
    /// By variable: whether the statement reads it. The others are sent as NULL.
    pub reads: Vec<bool>,
}

impl ProcedureStatement {
    /// Returns whether it is a query without effects.
    pub fn reads_only(&self) -> bool {
        matches!(&self.statement, Statement::Query(query) if !query.has_effects())
    }
}

#[derive(Debug)]
pub enum Instruction {
    Assign {
        target: Target,
        value: CompiledExpr,
    },
    AssignElement {
        slot: Slot,
        element: SqlType,
        index: CompiledExpr,
        value: CompiledExpr,
    },
    /// Runs the statement of that number.
    Execute {
        statement: usize,
        to: Rows,
    },
    Jump(Position),
    /// Jumps if the condition is false or NULL.
    JumpUnless {
        condition: CompiledExpr,
        to: Position,
    },
    /// Begins a loop over integers: lower bound, upper bound, step.
    BeginRange {
        bounds: Box<[Option<CompiledExpr>; 3]>,
        reverse: bool,
    },
    /// Begins a loop over the elements of an array.
    BeginElements(CompiledExpr),
    /// Begins the next round of the innermost loop, or jumps to its end.
    Next {
        targets: Round,
        end: Position,
    },
    /// Ends the innermost loop; FOUND says whether it had rounds.
    EndLoop,
    /// Leaves that many loops, without their ends.
    Leave(usize),
    Raise(Box<CompiledRaise>),
    Assert {
        condition: CompiledExpr,
        message: Option<CompiledExpr>,
    },
    GetRowCount(Target),
    /// Begins to count the rows of statements that are one for the procedure.
    BeginCount,
    /// Counts those of the statement before.
    Count,
    /// FOUND and the row count are of all that were counted.
    EndCount,
    Call {
        procedure: usize,
        args: Vec<CompiledExpr>,
        targets: Vec<Target>,
    },
    ReturnNext(Vec<CompiledExpr>),
    Return(Option<CompiledExpr>),
}

/// Destination of the rows of a statement.
#[derive(Debug)]
pub enum Rows {
    Nowhere,
    /// The first row goes into variables.
    Variables(CompiledInto),
    /// The value of an expression.
    Value(Slot),
    /// A loop over the rows begins.
    Loop,
    /// RETURN QUERY.
    Caller,
}

/// Variables that a round of a loop assigns.
#[derive(Debug)]
pub enum Round {
    /// The integer or the element.
    Value(Slot),
    Row(Vec<Target>),
}

impl Code {
    /// `asks_elsewhere`: whether a write needs rows that may live on other shards than those that it writes.
    pub fn compile(
        application: &Application,
        schema: &Schema,
        (owner, procedure): (Owner<'_>, &Procedure),
        asks_elsewhere: &dyn Fn(&Statement) -> bool,
    ) -> Result<Code, CompileError> {
        let mut temporaries = 0;
        walk::each_step(&procedure.body, &mut |step| {
            temporaries += exprs(step).into_iter().filter(|expr| needs_statement(expr)).count();
            if let StepKind::Sql { statement, .. } = &step.kind {
                // A value that needs a statement takes one temporary for its result, and one as a parameter.
                each_computed(&mut statement.clone(), &mut |_| temporaries += 2);
                temporaries += variables_max(&application.catalog, statement);
            }
        });
        let mut lowering = Lowering {
            application,
            schema,
            owner,
            procedure,
            types: procedure.variables.iter().map(|variable| variable.ty.clone()).collect(),
            slots: SlotAllocator::new(procedure.variables.len() + temporaries),
            asks_elsewhere,
            instructions: Vec::new(),
            statements: Vec::new(),
            scopes: Vec::new(),
            loops: 0,
        };
        lowering.steps(&procedure.body)?;
        let (slots, cells) = (lowering.slots.slots_max(), lowering.slots.cells_max());
        Ok(Code { instructions: lowering.instructions, statements: lowering.statements, slots, cells })
    }

    /// Returns whether no statement has effects. Procedures that it calls are not looked at.
    pub fn reads_only(&self) -> bool {
        self.statements.iter().all(ProcedureStatement::reads_only)
    }

    /// Returns whether at most one statement is executed.
    pub fn executes_once(&self) -> bool {
        self.statements.len() <= 1 && !self.instructions.iter().enumerate().any(repeats)
    }
}

/// Returns whether the instruction may make another one run twice, or runs others that are not seen here.
fn repeats((at, instruction): (Position, &Instruction)) -> bool {
    match instruction {
        Instruction::Jump(to) => *to <= at,
        Instruction::Call { .. } => true,
        _ => false,
    }
}

/// Returns whether an expression has to be evaluated by a shard.
fn needs_statement(expr: &Expr) -> bool {
    let mut needs = false;
    walk::each_expr(expr, &mut |part| {
        needs |= walk::has_subquery(part) || matches!(part.kind, ExprKind::NextValue(_));
    });
    needs
}

/// Expressions that the step itself evaluates; those of its SQL statement and of the steps in it are left out.
pub(super) fn exprs(step: &Step) -> Vec<&Expr> {
    match &step.kind {
        StepKind::Assign { value, .. } => vec![value],
        StepKind::AssignElement { index, value, .. } => vec![index, value],
        StepKind::If { branches, .. } => branches.iter().map(|(condition, _)| condition).collect(),
        StepKind::ForRange { from, to, by, .. } => [from, to].into_iter().chain(by).collect(),
        StepKind::ForEach { array, .. } => vec![array],
        StepKind::While { condition, .. } => vec![condition],
        StepKind::Exit { when, .. } | StepKind::Continue { when, .. } => when.iter().collect(),
        StepKind::Raise(raise) => raise.exprs().collect(),
        StepKind::Return { value } => value.iter().collect(),
        StepKind::ReturnNext { values } => values.iter().collect(),
        StepKind::Call { args, .. } => args.iter().collect(),
        StepKind::Assert { condition, message } => [condition].into_iter().chain(message).collect(),
        StepKind::Sql { .. }
        | StepKind::ForQuery { .. }
        | StepKind::Loop { .. }
        | StepKind::Block { .. }
        | StepKind::ReturnQuery { .. }
        | StepKind::GetRowCount { .. }
        | StepKind::Null
        | StepKind::Opaque(_) => Vec::new(),
    }
}

/// Calls `visit` with the values of a statement that may say where it runs, and are computed: those of an INSERT, and those that a column must
/// equal in an UPDATE or DELETE.
fn each_computed(statement: &mut Statement, visit: &mut dyn FnMut(&mut Expr)) {
    match statement {
        Statement::Insert(insert) => {
            if let InsertSource::Values(rows) = &mut insert.source {
                rows.iter_mut().flatten().filter(|value| is_computed(value)).for_each(visit);
            }
        }
        Statement::Update(Update { filter: Some(filter), .. })
        | Statement::Delete(Delete { filter: Some(filter), .. }) => each_equal(filter, visit),
        Statement::Update(_) | Statement::Delete(_) | Statement::Query(_) => {}
    }
}

fn each_equal(condition: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match &mut condition.kind {
        ExprKind::And(parts) => parts.iter_mut().for_each(|part| each_equal(part, visit)),
        ExprKind::Binary { op: BinaryOp::Equal, left, right } => {
            if is_column(left) && may_be_before(right) {
                visit(right);
            } else if is_column(right) && may_be_before(left) {
                visit(left);
            }
        }
        _ => {}
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(walk::uncast(expr).kind, ExprKind::Column { .. })
}

/// Returns whether a computed value is the same before the statement as for each of its rows.
fn may_be_before(value: &Expr) -> bool {
    is_computed(value) && !walk::is_volatile(value) && !walk::has_subquery(value)
}

/// Returns whether a value is neither a constant nor a variable nor generated, and asks for no column of its statement.
fn is_computed(value: &Expr) -> bool {
    let is_plain = matches!(
        walk::uncast(value).kind,
        ExprKind::Literal(_) | ExprKind::Variable(_) | ExprKind::NextValue(_) | ExprKind::Volatile(_)
    );
    let mut has_column = false;
    walk::columns(value, &mut |_, _| has_column = true);
    !is_plain && (!has_column || walk::has_subquery(value))
}

/// A loop or block around the steps that are being compiled.
struct Scope {
    label: LoopLabel,
    /// Number of loops with a state, this one included.
    loops: usize,
    /// Where CONTINUE goes.
    start: Position,
    /// Jumps to the end, which is not known yet.
    exits: Vec<Position>,
}

struct Lowering<'a> {
    application: &'a Application,
    schema: &'a Schema,
    owner: Owner<'a>,
    procedure: &'a Procedure,
    /// Of the variables, and of the temporaries behind them.
    types: Vec<SqlType>,
    slots: SlotAllocator,
    asks_elsewhere: &'a dyn Fn(&Statement) -> bool,
    instructions: Vec<Instruction>,
    statements: Vec<ProcedureStatement>,
    scopes: Vec<Scope>,
    /// Number of loops around that have a state.
    loops: usize,
}

impl<'a> Lowering<'a> {
    fn steps(&mut self, steps: &'a [Step]) -> Result<(), CompileError> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &'a Step) -> Result<(), CompileError> {
        match &step.kind {
            StepKind::Assign { variable, value } => {
                let instruction =
                    Instruction::Assign { target: self.target(*variable, None), value: self.expr(value)? };
                self.emit(instruction);
            }
            StepKind::AssignElement { variable, index, value } => {
                let element = match &self.types[variable.0 as usize] {
                    SqlType::Array(element) => (**element).clone(),
                    other => other.clone(),
                };
                let (index, value) = (self.expr(index)?, self.expr(value)?);
                self.emit(Instruction::AssignElement { slot: variable.0, element, index, value });
            }
            StepKind::Sql { statement, into } => self.sql(statement, into.as_ref())?,
            StepKind::If { branches, otherwise } => self.branches(branches, otherwise)?,
            StepKind::ForRange { variable, from, to, by, reverse, label, body } => {
                let bounds = Box::new([
                    Some(self.expr(from)?),
                    Some(self.expr(to)?),
                    by.as_ref().map(|by| self.expr(by)).transpose()?,
                ]);
                self.emit(Instruction::BeginRange { bounds, reverse: *reverse });
                self.rounds(*label, Round::Value(variable.0), body)?;
            }
            StepKind::ForEach { variable, array, label, body } => {
                let array = self.expr(array)?;
                self.emit(Instruction::BeginElements(array));
                self.rounds(*label, Round::Value(variable.0), body)?;
            }
            StepKind::ForQuery { targets, query, label, body } => {
                self.execute(Statement::Query((**query).clone()), Rows::Loop);
                let targets = self.targets(targets, &query.columns);
                self.rounds(*label, Round::Row(targets), body)?;
            }
            StepKind::While { condition, label, body } => {
                self.enter(*label);
                let condition = self.expr(condition)?;
                let exit = self.emit(Instruction::JumpUnless { condition, to: 0 });
                self.again_and_again(body)?;
                self.leave(&[exit]);
            }
            StepKind::Loop { label, body } => {
                self.enter(*label);
                self.again_and_again(body)?;
                self.leave(&[]);
            }
            StepKind::Block { label, body } => {
                self.enter(*label);
                self.steps(body)?;
                self.leave(&[]);
            }
            StepKind::Exit { label, when } => self.jump_out(*label, when.as_ref(), true)?,
            StepKind::Continue { label, when } => self.jump_out(*label, when.as_ref(), false)?,
            StepKind::Raise(raise) => {
                let raise = CompiledRaise {
                    level: raise.level,
                    format: raise.format.clone(),
                    args: self.exprs(&raise.args)?,
                    state: raise.state,
                    message: self.maybe(raise.message.as_ref())?,
                    detail: self.maybe(raise.detail.as_ref())?,
                    hint: self.maybe(raise.hint.as_ref())?,
                };
                self.emit(Instruction::Raise(Box::new(raise)));
            }
            StepKind::Return { value } => {
                let value = self.maybe(value.as_ref())?;
                self.emit(Instruction::Return(value));
            }
            StepKind::ReturnNext { values } => {
                let values = self.exprs(values)?;
                self.emit(Instruction::ReturnNext(values));
            }
            StepKind::ReturnQuery { query } => {
                self.execute(Statement::Query((**query).clone()), Rows::Caller);
            }
            StepKind::GetRowCount { variable } => {
                let target = self.target(*variable, Some(&SqlType::Int8));
                self.emit(Instruction::GetRowCount(target));
            }
            StepKind::Call { procedure, args, targets } => {
                let parameters = &self.application.procedures[*procedure].parameters;
                let outputs: Vec<OutputColumn> = parameters
                    .iter()
                    .filter(|parameter| parameter.mode != ParameterMode::In)
                    .map(|parameter| OutputColumn::new(parameter.name.clone(), parameter.ty.clone()))
                    .collect();
                let (args, targets) = (self.exprs(args)?, self.targets(targets, &outputs));
                self.emit(Instruction::Call { procedure: *procedure, args, targets });
            }
            StepKind::Assert { condition, message } => {
                let (condition, message) = (self.expr(condition)?, self.maybe(message.as_ref())?);
                self.emit(Instruction::Assert { condition, message });
            }
            StepKind::Null => {}
            StepKind::Opaque(_) => {
                let message = "this statement is not supported: it was read to be analysed only";
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                return Err(CompileError { span: step.span, error });
            }
        }
        Ok(())
    }

    fn sql(&mut self, statement: &Statement, into: Option<&Into>) -> Result<(), CompileError> {
        if into.is_none() && (self.asks_elsewhere)(statement) {
            let catalog = &self.application.catalog;
            let apart = row_by_row(catalog, statement, &mut |ty| self.temporary(ty));
            if let Some(apart) = apart {
                self.row_by_row(apart);
                return Ok(());
            }
        }
        let to = match into {
            None => Rows::Nowhere,
            Some(into) => Rows::Variables(CompiledInto {
                targets: self.targets(&into.targets, &statement.columns()),
                strict: into.strict,
                writes: !matches!(statement, Statement::Query(_)),
                unread: false,
            }),
        };
        let mut statement = statement.clone();
        let mut failed = Ok(());
        each_computed(&mut statement, &mut |value| {
            if failed.is_ok() {
                failed = self.compute_before(value);
            }
        });
        failed?;
        self.execute(statement, to);
        Ok(())
    }

    /// A loop over the rows of the query. Its rows are counted together.
    fn row_by_row(&mut self, RowByRow { query, variables, write }: RowByRow) {
        let targets = variables
            .iter()
            .zip(&query.columns)
            .map(|(variable, column)| {
                let (name, ty) = (column.name.clone(), column.ty.clone());
                Target { slot: variable.0, name, ty, not_null: false, from: None }
            })
            .collect();
        self.emit(Instruction::BeginCount);
        self.execute(Statement::Query(query), Rows::Loop);
        let next = self.emit(Instruction::Next { targets: Round::Row(targets), end: 0 });
        self.execute(write, Rows::Nowhere);
        self.emit(Instruction::Count);
        self.emit(Instruction::Jump(next));
        self.lead_here(next);
        self.emit(Instruction::EndLoop);
        self.emit(Instruction::EndCount);
    }

    /// Computes a value before its statement, which then reads it as a parameter: so it says where the statement runs.
    fn compute_before(&mut self, value: &mut Expr) -> Result<(), CompileError> {
        let computed = self.expr(value)?;
        let variable = self.temporary(&value.ty);
        let (name, ty) = ("computed".to_owned(), value.ty.clone());
        let target = Target { slot: variable.0, name, ty, not_null: false, from: None };
        self.emit(Instruction::Assign { target, value: computed });
        value.kind = ExprKind::Variable(variable);
        Ok(())
    }

    /// A variable that only the code uses.
    fn temporary(&mut self, ty: &SqlType) -> VariableId {
        self.types.push(ty.clone());
        VariableId(self.types.len() as u32 - 1)
    }

    fn execute(&mut self, statement: Statement, to: Rows) {
        let mut reads = vec![false; self.types.len()];
        walk::each_statement_expr(&statement, &mut |expr| {
            if let ExprKind::Variable(variable) = expr.kind {
                reads[variable.0 as usize] = true;
            }
        });
        let number = self.statements.len();
        let name = match self.owner {
            Owner::Procedure(procedure) => Name::Statement { procedure, statement: number },
            Owner::Block(block) => Name::BlockStatement { block, statement: number },
        };
        let text = Arc::new(Text { sql: name.to_string(), types: self.types.clone() });
        self.statements.push(ProcedureStatement { statement, text, reads });
        self.emit(Instruction::Execute { statement: number, to });
    }

    fn branches(
        &mut self,
        branches: &'a [(Expr, Vec<Step>)],
        otherwise: &'a [Step],
    ) -> Result<(), CompileError> {
        let mut ends = Vec::new();
        for (condition, body) in branches {
            let condition = self.expr(condition)?;
            let next = self.emit(Instruction::JumpUnless { condition, to: 0 });
            self.steps(body)?;
            ends.push(self.emit(Instruction::Jump(0)));
            self.lead_here(next);
        }
        self.steps(otherwise)?;
        ends.into_iter().for_each(|end| self.lead_here(end));
        Ok(())
    }

    /// The rounds of a loop whose state has just been made.
    fn rounds(&mut self, label: LoopLabel, targets: Round, body: &'a [Step]) -> Result<(), CompileError> {
        self.loops += 1;
        self.enter(label);
        let next = self.emit(Instruction::Next { targets, end: 0 });
        self.again_and_again(body)?;
        self.leave(&[next]);
        self.emit(Instruction::EndLoop);
        self.loops -= 1;
        Ok(())
    }

    fn enter(&mut self, label: LoopLabel) {
        let start = self.instructions.len();
        self.scopes.push(Scope { label, loops: self.loops, start, exits: Vec::new() });
    }

    /// The body, and the jump back to where its scope begins.
    fn again_and_again(&mut self, body: &'a [Step]) -> Result<(), CompileError> {
        self.steps(body)?;
        let start = self.scopes.last().map_or(0, |scope| scope.start);
        self.emit(Instruction::Jump(start));
        Ok(())
    }

    /// Ends the scope here; `exits` lead here as well.
    fn leave(&mut self, exits: &[Position]) {
        let own = self.scopes.pop().map(|scope| scope.exits).unwrap_or_default();
        own.iter().chain(exits).for_each(|&exit| self.lead_here(exit));
    }

    /// EXIT or CONTINUE.
    fn jump_out(
        &mut self,
        label: LoopLabel,
        when: Option<&'a Expr>,
        exits: bool,
    ) -> Result<(), CompileError> {
        let skip = match when {
            Some(when) => {
                let condition = self.expr(when)?;
                Some(self.emit(Instruction::JumpUnless { condition, to: 0 }))
            }
            None => None,
        };
        let scope = self.scopes.iter().rposition(|scope| scope.label == label).unwrap_or_default();
        let (loops, start) = self.scopes.get(scope).map_or((0, 0), |scope| (scope.loops, scope.start));
        if self.loops > loops {
            self.emit(Instruction::Leave(self.loops - loops));
        }
        let jump = self.emit(Instruction::Jump(start));
        if exits && let Some(scope) = self.scopes.get_mut(scope) {
            scope.exits.push(jump);
        }
        skip.into_iter().for_each(|skip| self.lead_here(skip));
        Ok(())
    }

    fn emit(&mut self, instruction: Instruction) -> Position {
        self.instructions.push(instruction);
        self.instructions.len() - 1
    }

    /// Lets the jump at that position lead to the next instruction.
    fn lead_here(&mut self, jump: Position) {
        let here = self.instructions.len();
        match &mut self.instructions[jump] {
            Instruction::Jump(to)
            | Instruction::JumpUnless { to, .. }
            | Instruction::Next { end: to, .. } => *to = here,
            other => unreachable!("{other:?} is no jump"),
        }
    }

    /// Compiles an expression. If a shard has to evaluate it, a statement before does so, and its value is read.
    fn expr(&mut self, expr: &Expr) -> Result<CompiledExpr, CompileError> {
        if !needs_statement(expr) {
            return self.compiled(expr);
        }
        let variable = self.temporary(&expr.ty);
        self.execute(Statement::Query(query_of(expr)), Rows::Value(variable.0));
        self.compiled(&Expr { kind: ExprKind::Variable(variable), ty: expr.ty.clone(), span: expr.span })
    }

    fn compiled(&mut self, expr: &Expr) -> Result<CompiledExpr, CompileError> {
        self.slots.begin_expr(expr);
        let compiled = CompiledExpr::compile(expr, &mut Compiler::new(self.schema, &mut self.slots));
        compiled.map_err(|error| CompileError { span: expr.span, error })
    }

    fn exprs(&mut self, list: &[Expr]) -> Result<Vec<CompiledExpr>, CompileError> {
        list.iter().map(|expr| self.expr(expr)).collect()
    }

    fn maybe(&mut self, expr: Option<&Expr>) -> Result<Option<CompiledExpr>, CompileError> {
        expr.map(|expr| self.expr(expr)).transpose()
    }

    fn target(&self, variable: VariableId, from: Option<&SqlType>) -> Target {
        target(self.procedure, variable, from)
    }

    fn targets(&self, targets: &[IntoTarget], columns: &[OutputColumn]) -> Vec<Target> {
        let types = columns.iter().map(|column| Some(&column.ty)).chain(std::iter::repeat(None));
        targets.iter().zip(types).map(|(into, from)| self.target(into.variable, from)).collect()
    }
}

/// `SELECT expr`.
fn query_of(expr: &Expr) -> Query {
    let columns = vec![OutputColumn::new("value".to_owned(), expr.ty.clone())];
    Query::of_select(Select::plain(vec![expr.clone()], Vec::new(), None), columns, expr.span)
}
