//! Runs a procedure's body over symbolic values: both branches of every IF, one pass of every loop.
//!
//! A variable that a loop changes is a [`Term::Carried`] inside it, whose leaves are those of its value
//! before the loop and after one pass; so one pass is enough for provenance.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{
    Expr, ExprKind, IntoTarget, OpaqueStep, Procedure, Query, RaiseLevel, RelationId, Step, StepKind,
    VariableId,
};
use weir_sql::{Application, Span};

use super::join::{Body, Joins};
use super::{
    Action, ColumnOperation, Condition, Context, Frame, Moment, Operation, ProcedureEffects, Read, ReadId,
    Term, TermId, Terms, Tested,
};
use crate::dependents::Dependents;

/// The effects of all procedures, by index.
pub fn of_all(app: &Application) -> Vec<ProcedureEffects> {
    let dependents = Dependents::new(&app.catalog);
    (0..app.procedures.len()).map(|procedure| effects(app, &dependents, procedure)).collect()
}

/// The effects of the procedure with that index.
pub fn effects(app: &Application, dependents: &Dependents, procedure: usize) -> ProcedureEffects {
    let definition = &app.procedures[procedure];
    let mut interpreter = Interpreter::new(app, dependents);
    interpreter.effects.procedure = procedure;
    let variables = (0..definition.variables.len() as u32).map(VariableId);
    let env =
        variables.map(|variable| interpreter.terms().intern(Term::Parameter(variable)).into()).collect();
    interpreter.frame = CallFrame { env, writes_before_iteration: 0 };
    interpreter.nullify_locals(definition);
    interpreter.calls.push(definition);
    interpreter.steps(&definition.body);
    interpreter.run_joined();
    interpreter.effects
}

/// Meaning of a relation of the running statement.
#[derive(Clone)]
pub(super) enum Binding {
    Row(ReadId),
    /// A derived table, a function, VALUES, or a row that was just inserted.
    Outputs(Vec<TermId>),
    /// An updated row in RETURNING: new values over the old row.
    Updated(ReadId, Vec<(usize, TermId)>),
}

/// The value of a variable. Most columns of OLD and NEW are never looked at, so a value becomes a term when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Known(TermId),
    /// A column of a row as the statement has found it.
    Column {
        row: ReadId,
        column: usize,
    },
    /// [`Term::Unknown`] of this site.
    Unknown(u32),
}

impl From<TermId> for Slot {
    fn from(term: TermId) -> Slot {
        Slot::Known(term)
    }
}

pub(super) struct CallFrame {
    env: Vec<Slot>,
    /// Writes recorded when the innermost loop's pass (or the body) began.
    writes_before_iteration: usize,
}

/// Whether control goes on behind a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    /// RAISE EXCEPTION: nothing of the transaction remains.
    Aborted,
    /// RETURN, EXIT or CONTINUE.
    Left,
}

pub(super) struct Interpreter<'a> {
    pub app: &'a Application,
    pub dependents: &'a Dependents,
    pub effects: ProcedureEffects,
    pub relations: BTreeMap<RelationId, Binding>,
    /// Outputs of the CTEs in scope, innermost query last.
    pub ctes: Vec<Vec<Vec<TermId>>>,
    pub context: Context,
    /// Derived tables whose rows are rows of these reads, one each: conditions on them reach through.
    pub transparent: BTreeMap<RelationId, Vec<ReadId>>,
    /// Rows of the FROM clause that was interpreted last, if each of them makes one row of the result.
    pub result_rows: Vec<ReadId>,
    /// Within a condition, where a column's value is compared and goes nowhere else.
    pub comparing: bool,
    /// Places so far that may leave a loop, a block or a body.
    departures: u32,
    frame: CallFrame,
    calls: Vec<&'a Procedure>,
    /// The rows that a running trigger function has returned.
    returned: Vec<Vec<Slot>>,
    /// The foreign keys whose actions run, outermost first.
    pub actions: Vec<Action>,
    /// The one that makes the write which is being recorded.
    pub action: Option<Action>,
    pub joins: Joins,
}

impl CallFrame {
    pub fn new(env: Vec<Slot>, writes_before_iteration: usize) -> CallFrame {
        CallFrame { env, writes_before_iteration }
    }
}

impl<'a> Interpreter<'a> {
    fn new(app: &'a Application, dependents: &'a Dependents) -> Self {
        Interpreter {
            app,
            dependents,
            effects: ProcedureEffects::default(),
            relations: BTreeMap::new(),
            ctes: Vec::new(),
            context: Context::new(),
            transparent: BTreeMap::new(),
            result_rows: Vec::new(),
            comparing: false,
            departures: 0,
            frame: CallFrame { env: Vec::new(), writes_before_iteration: 0 },
            calls: Vec::new(),
            returned: Vec::new(),
            actions: Vec::new(),
            action: None,
            joins: Joins::default(),
        }
    }

    pub fn terms(&mut self) -> &mut Terms {
        &mut self.effects.terms
    }

    pub fn variable(&mut self, variable: VariableId) -> TermId {
        match self.slot(variable) {
            Some(slot) => self.term_of(slot),
            None => self.terms().unknown(),
        }
    }

    fn slot(&self, variable: VariableId) -> Option<Slot> {
        self.frame.env.get(variable.0 as usize).copied()
    }

    /// The term of a slot, the same at each call.
    pub(super) fn term_of(&mut self, slot: Slot) -> TermId {
        match slot {
            Slot::Known(term) => term,
            Slot::Column { row, column } => self.old_field(row, column),
            Slot::Unknown(site) => self.terms().intern(Term::Unknown(site)),
        }
    }

    /// A fresh value without known properties.
    pub(super) fn unknown_slot(&mut self) -> Slot {
        Slot::Unknown(self.terms().site())
    }

    /// One of these.
    pub(super) fn choice(&mut self, options: &[Slot]) -> Slot {
        if let Some((first, others)) = options.split_first()
            && others.iter().all(|other| other == first)
        {
            return *first;
        }
        let terms: Vec<TermId> = options.iter().map(|&slot| self.term_of(slot)).collect();
        self.terms().choice(&terms).into()
    }

    pub fn add_read(&mut self, table: weir_sql::catalog::TableId, span: Span) -> ReadId {
        let id = ReadId(self.effects.reads.len() as u32);
        let moment = self.moment();
        self.effects.reads.push(Read {
            table,
            columns: BTreeSet::new(),
            returned: BTreeSet::new(),
            key: Vec::new(),
            conditions: Vec::new(),
            lowest: None,
            locked: false,
            by_key_alone: false,
            certain: false,
            action: None,
            context: self.context.clone(),
            moment,
            span,
        });
        id
    }

    pub fn read_mut(&mut self, id: ReadId) -> &mut Read {
        &mut self.effects.reads[id.0 as usize]
    }

    pub(super) fn set(&mut self, variable: VariableId, value: impl Into<Slot>) {
        if let Some(slot) = self.frame.env.get_mut(variable.0 as usize) {
            *slot = value.into();
        }
    }

    /// Variables that are not parameters start as NULL.
    fn nullify_locals(&mut self, procedure: &Procedure) {
        let null = self.terms().intern(Term::Null).into();
        let parameters: BTreeSet<usize> =
            procedure.parameters.iter().map(|parameter| parameter.variable.0 as usize).collect();
        for (index, slot) in self.frame.env.iter_mut().enumerate() {
            if !parameters.contains(&index) {
                *slot = null;
            }
        }
    }

    fn assign_targets(&mut self, targets: &[IntoTarget], outputs: &[TermId]) {
        for (index, target) in targets.iter().enumerate() {
            let term = match outputs.get(index) {
                Some(&term) => term,
                None => self.terms().intern(Term::Null),
            };
            self.set(target.variable, term);
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            let flow = self.step(step);
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    fn step(&mut self, step: &Step) -> Flow {
        match &step.kind {
            StepKind::Assign { variable, value } => {
                let term = self.value(value);
                self.set(*variable, term);
            }
            StepKind::AssignElement { variable, index, value } => {
                let (index, value) = (self.value(index), self.value(value));
                let array = self.variable(*variable);
                let term = self.terms().call("set_element", vec![array, index, value]);
                self.set(*variable, term);
            }
            StepKind::Sql { statement, into } => {
                let before = self.effects.reads.len();
                let outputs = self.statement(statement);
                if let Some(into) = into {
                    if into.strict
                        && let [read] = &mut self.effects.reads[before..]
                    {
                        read.certain = true;
                    }
                    self.assign_targets(&into.targets, &outputs);
                }
                let found = self.terms().unknown();
                let variable = self.procedure().found;
                self.set(variable, found);
            }
            StepKind::If { branches, otherwise } => return self.branches(branches, otherwise),
            StepKind::Block { body, .. } => {
                let flow = self.steps(body);
                // EXIT of a block goes on behind it; nothing tells the two apart here, so both go on.
                return if flow == Flow::Aborted { Flow::Aborted } else { Flow::On };
            }
            StepKind::Exit { when, .. } | StepKind::Continue { when, .. } => {
                when.iter().for_each(|condition| {
                    self.value(condition);
                });
                self.leave();
                return if when.is_none() { Flow::Left } else { Flow::On };
            }
            StepKind::Return { value: Some(Expr { kind: ExprKind::Row(fields), .. }) } => {
                let value = |field: &Expr| match field.kind {
                    ExprKind::Variable(variable) => {
                        self.slot(variable).unwrap_or_else(|| self.unknown_slot())
                    }
                    _ => self.value(field).into(),
                };
                let row = fields.iter().map(value).collect();
                self.returned.push(row);
                self.leave();
                return Flow::Left;
            }
            StepKind::Return { value } => {
                value.iter().for_each(|value| {
                    self.value(value);
                });
                self.leave();
                return Flow::Left;
            }
            StepKind::Raise(raise) => {
                raise.args.iter().for_each(|arg| {
                    self.value(arg);
                });
                if raise.level == RaiseLevel::Exception {
                    self.effects.raises.push(step.span);
                    return Flow::Aborted;
                }
            }
            StepKind::Assert { condition, .. } => {
                self.value(condition);
                self.effects.raises.push(step.span);
            }
            StepKind::ReturnNext { values } => values.iter().for_each(|value| {
                self.value(value);
            }),
            StepKind::ReturnQuery { query } => drop(self.query_statement(query)),
            StepKind::GetRowCount { variable } => {
                let term = self.terms().unknown();
                self.set(*variable, term);
            }
            StepKind::Call { procedure, args, targets } => self.call(*procedure, args, targets, step.span),
            StepKind::Null => {}
            StepKind::Opaque(opaque) => self.opaque_step(opaque, step.span),
            _ => self.loop_step(&step.kind),
        }
        Flow::On
    }

    /// A statement that is not understood: it may read and write everything in the tables that it names.
    fn opaque_step(&mut self, step: &OpaqueStep, span: Span) {
        for name in &step.unseen {
            self.effects.unseen.push((format!("writes to {name}, which the schema does not have"), span));
        }
        self.effects.resets.extend(&step.resets);
        let site = self.terms().site();
        self.context.push(Frame::Loop { site, count: None });
        for &table in step.reads.iter().chain(&step.writes) {
            let row = self.add_read(table, span);
            let all = 0..self.app.catalog.table(table).columns.len();
            self.read_mut(row).columns = all.collect();
        }
        for &table in &step.writes {
            let width = self.app.catalog.table(table).columns.len();
            let values: Vec<TermId> = (0..width).map(|_| self.terms().unknown()).collect();
            let row = self.add_read(table, span);
            let columns =
                values.iter().enumerate().map(|(column, &term)| (column, ColumnOperation::Assign(term)));
            let update = Operation::Update { row, columns: columns.collect() };
            for operation in
                [Operation::Insert { values, on_conflict: None }, update, Operation::Delete { row }]
            {
                self.record(table, operation, span);
            }
        }
        self.context.pop();
        for &variable in &step.assigns {
            let term = self.terms().unknown();
            self.set(variable, term);
        }
        if step.leaves {
            self.leave();
        }
    }

    /// A value outside any statement.
    pub(super) fn value(&mut self, expr: &Expr) -> TermId {
        self.relations.clear();
        self.expr(expr)
    }

    fn query_statement(&mut self, query: &Query) -> Vec<TermId> {
        self.relations.clear();
        self.query(query)
    }

    fn procedure(&self) -> &'a Procedure {
        self.calls.last().expect("a body runs within its call")
    }

    pub(super) fn moment(&self) -> Moment {
        let order = self.effects.reads.len() + self.effects.writes.len();
        Moment { order, departures: self.departures }
    }

    fn leave(&mut self) {
        self.departures += 1;
        if self.effects.writes.len() > self.frame.writes_before_iteration {
            self.effects.irregular = true;
        }
    }

    fn branches(&mut self, branches: &[(Expr, Vec<Step>)], otherwise: &[Step]) -> Flow {
        let site = self.terms().site();
        let nothing_before = self.has_done_nothing();
        let count = branches.len() as u32 + 1;
        let mut ends: Vec<Vec<Slot>> = Vec::new();
        let mut flows = Vec::new();
        let mut passed: Vec<Condition> = Vec::new();
        let mut run =
            |this: &mut Self, branch: u32, body: &[Step], passed: &[Condition], held: Option<Condition>| {
                if held.as_ref().is_some_and(|held| this.effects.is_never_true(held)) {
                    return flows.push(Flow::Aborted);
                }
                let before = this.frame.env.clone();
                this.context.push(Frame::Branch { site, branch, branches: count });
                passed.iter().for_each(|condition| this.tested(condition.clone().negated(), true));
                held.into_iter().for_each(|condition| this.tested(condition, false));
                let flow = this.steps(body);
                this.context.pop();
                let after = std::mem::replace(&mut this.frame.env, before);
                if flow == Flow::On {
                    ends.push(after);
                }
                flows.push(flow);
            };
        for (branch, (condition, body)) in branches.iter().enumerate() {
            self.value(condition);
            let held = self.testable(condition);
            run(self, branch as u32, body, &passed, held.clone());
            passed.push(held.unwrap_or(Condition::Unknown));
        }
        run(self, count - 1, otherwise, &passed, None);
        let ends_all = |(flow, (_, body)): (&Flow, &(Expr, Vec<Step>))| match flow {
            Flow::Aborted => true,
            Flow::Left => nothing_before && returns_at_once(body),
            Flow::On => false,
        };
        let ending = flows.iter().zip(branches).take_while(|&branch| ends_all(branch)).count();
        for (condition, _) in branches.iter().take(ending) {
            self.learn_negation(condition);
        }
        for condition in passed.into_iter().take(ending) {
            self.tested(condition.negated(), true);
        }
        if ends.is_empty() {
            return if flows.contains(&Flow::Left) { Flow::Left } else { Flow::Aborted };
        }
        for variable in 0..self.frame.env.len() {
            let options: Vec<Slot> = ends.iter().map(|env| env[variable]).collect();
            self.frame.env[variable] = self.choice(&options);
        }
        Flow::On
    }

    /// All that the transaction does is still to come: a RETURN ends it as RAISE does, and leaves nothing behind.
    fn has_done_nothing(&self) -> bool {
        let nothing = self.effects.writes.is_empty() && self.effects.reads.is_empty();
        nothing && self.context.is_empty() && self.calls.len() == 1
    }

    /// The condition over terms, if looking at it once more does nothing.
    pub(super) fn testable(&mut self, expr: &Expr) -> Option<Condition> {
        let mut plain = weir_sql::walk::first_subquery(expr).is_none();
        weir_sql::walk::each_expr(expr, &mut |part| {
            plain &= !matches!(part.kind, ExprKind::NextValue(_) | ExprKind::Volatile(_));
        });
        plain.then(|| self.condition(expr))
    }

    fn tested(&mut self, condition: Condition, unless_null: bool) {
        if condition != Condition::Unknown {
            let (context, order) = (self.context.clone(), self.moment().order);
            self.effects.tested.push(Tested { condition, unless_null, context, order });
        }
    }

    fn loop_step(&mut self, kind: &StepKind) {
        match kind {
            StepKind::ForRange { variable, from, to, by, body, reverse, .. } => {
                let (from, to) = (self.value(from), self.value(to));
                by.iter().for_each(|by| {
                    self.value(by);
                });
                let one = self.terms().intern(Term::Integer(1));
                let count = (from == one && by.is_none() && !reverse).then_some(to);
                let site = self.terms().site();
                let index = self.terms().intern(Term::Index(site));
                let (low, high) = if *reverse { (to, from) } else { (from, to) };
                let between = self.terms().sign(low).and_above().and(self.terms().sign(high).and_below());
                self.terms().learn(index, between);
                self.repeat(site, count, body, |this| this.set(*variable, index));
            }
            StepKind::ForEach { variable, array, body, .. } => {
                let array = self.value(array);
                let count = self.terms().call("cardinality", vec![array]);
                let site = self.terms().site();
                let index = self.terms().intern(Term::Index(site));
                let element = self.terms().intern(Term::Element { array, index });
                self.repeat(site, Some(count), body, |this| this.set(*variable, element));
            }
            StepKind::ForQuery { targets, query, body, .. } => {
                let site = self.terms().site();
                self.context.push(Frame::Loop { site, count: None });
                let outputs = self.query_statement(query);
                self.context.pop();
                self.repeat(site, None, body, |this| this.assign_targets(targets, &outputs));
            }
            StepKind::While { condition, body, .. } => {
                let site = self.terms().site();
                self.repeat(site, None, body, |this| {
                    this.value(condition);
                });
            }
            StepKind::Loop { body, .. } => {
                let site = self.terms().site();
                self.repeat(site, None, body, |_| {});
            }
            _ => {}
        }
    }

    /// One pass over a loop's body, with what it changes unknown at its start but for its leaves.
    fn repeat(&mut self, site: u32, count: Option<TermId>, body: &[Step], start: impl FnOnce(&mut Self)) {
        let mut assigned = BTreeSet::new();
        assigned_in(body, &mut assigned);
        let mut carried = Vec::new();
        for &variable in &assigned {
            let index = variable.0 as usize;
            let Some(before) = self.slot(variable) else { continue };
            let before = self.term_of(before);
            let number = self.terms().site();
            let term = self.terms().intern(Term::Carried(number));
            self.frame.env[index] = term.into();
            carried.push((index, number, before, term));
        }
        let outer = std::mem::replace(&mut self.frame.writes_before_iteration, self.effects.writes.len());
        self.context.push(Frame::Loop { site, count });
        start(self);
        self.steps(body);
        self.context.pop();
        self.frame.writes_before_iteration = outer;
        for (index, number, before, term) in carried {
            let after = self.term_of(self.frame.env[index]);
            self.terms().set_carried(number, before, after);
            self.frame.env[index] = term.into();
        }
    }

    fn call(&mut self, callee: usize, args: &[Expr], targets: &[IntoTarget], span: Span) {
        let Some(definition) = self.app.procedures.get(callee) else { return };
        let args: Vec<TermId> = args.iter().map(|arg| self.value(arg)).collect();
        let body = Body::Procedure(callee);
        let recursive = self.is_running(definition);
        if recursive {
            self.join_again(body, format!("recursive call of {}", definition.name), span);
        }
        if recursive || !self.enters(body, span) {
            for target in targets {
                let unknown = self.terms().unknown();
                self.set(target.variable, unknown);
            }
            return;
        }
        let caller = self.enter(definition);
        let inputs = definition
            .parameters
            .iter()
            .filter(|parameter| parameter.mode != weir_sql::bound::ParameterMode::Out);
        for (parameter, &arg) in inputs.zip(&args) {
            self.set(parameter.variable, arg);
        }
        self.steps(&definition.body);
        let outputs: Vec<TermId> = definition
            .parameters
            .iter()
            .filter(|parameter| parameter.mode != weir_sql::bound::ParameterMode::In)
            .map(|parameter| self.variable(parameter.variable))
            .collect();
        self.exit(caller);
        self.assign_targets(targets, &outputs);
    }

    pub(super) fn is_running(&self, procedure: &Procedure) -> bool {
        self.calls.iter().any(|running| std::ptr::eq(*running, procedure))
    }

    /// Number of bodies around the statement.
    pub(super) fn depth(&self) -> usize {
        self.calls.len()
    }

    /// A body begins, with all of its variables NULL; the frame around it.
    pub(super) fn enter(&mut self, procedure: &'a Procedure) -> CallFrame {
        self.calls.push(procedure);
        let null = self.terms().intern(Term::Null).into();
        let env = vec![null; procedure.variables.len()];
        let frame = CallFrame::new(env, self.effects.writes.len());
        self.set_frame(frame)
    }

    /// The values of the running body's variables; the ones before.
    pub(super) fn set_frame(&mut self, frame: CallFrame) -> CallFrame {
        std::mem::replace(&mut self.frame, frame)
    }

    pub(super) fn exit(&mut self, caller: CallFrame) {
        self.calls.pop();
        self.frame = caller;
    }

    /// Runs a trigger function; the rows that it may return.
    pub(super) fn body_of_trigger(&mut self, body: &'a Procedure) -> Vec<Vec<Slot>> {
        let outer = std::mem::take(&mut self.returned);
        self.steps(&body.body);
        std::mem::replace(&mut self.returned, outer)
    }
}

/// RETURN, and nothing else that matters.
fn returns_at_once(body: &[Step]) -> bool {
    let Some((last, before)) = body.split_last() else { return false };
    let says = |step: &Step| matches!(step.kind, StepKind::Raise(_) | StepKind::Null);
    matches!(last.kind, StepKind::Return { .. }) && before.iter().all(says)
}

/// Variables that some step below assigns to.
pub(super) fn assigned_in(steps: &[Step], assigned: &mut BTreeSet<VariableId>) {
    for step in steps {
        match &step.kind {
            StepKind::Assign { variable, .. }
            | StepKind::AssignElement { variable, .. }
            | StepKind::GetRowCount { variable } => {
                assigned.insert(*variable);
            }
            StepKind::Sql { into: Some(into), .. } => add_targets(&into.targets, assigned),
            StepKind::Call { targets, .. } => add_targets(targets, assigned),
            StepKind::Opaque(step) => assigned.extend(&step.assigns),
            StepKind::ForQuery { targets, body, .. } => {
                add_targets(targets, assigned);
                assigned_in(body, assigned);
            }
            StepKind::ForRange { variable, body, .. } | StepKind::ForEach { variable, body, .. } => {
                assigned.insert(*variable);
                assigned_in(body, assigned);
            }
            StepKind::While { body, .. } | StepKind::Loop { body, .. } | StepKind::Block { body, .. } => {
                assigned_in(body, assigned);
            }
            StepKind::If { branches, otherwise } => {
                branches.iter().for_each(|(_, body)| assigned_in(body, assigned));
                assigned_in(otherwise, assigned);
            }
            _ => {}
        }
    }
}

fn add_targets(targets: &[IntoTarget], assigned: &mut BTreeSet<VariableId>) {
    assigned.extend(targets.iter().map(|target| target.variable));
}
