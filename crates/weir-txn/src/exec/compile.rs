//! Compiles bound procedures to a [`Program`]: slots, routes, operations, rules.

mod closed;
mod escrow;
mod modify;
pub(super) mod proven;
mod rules;
mod touched;

pub use self::closed::Closed;
use self::modify::same_representation;
use self::proven::Proven;
#[cfg(test)]
pub(super) use self::touched::FORGETS_NEIGHBOURS;
pub use self::touched::TablesWith;
use self::touched::{Parts, Touched};
use super::accessed_rows::AccessedRows;
use super::admission::{Admission, with_checks};
use super::ahead;
use super::by_key::NamedRow;
use super::call::join_effects;
use super::compiler::Compiler;
use super::expr::CompiledExpr;
use super::first_rows::{CompiledFirstRows, FirstRows};
use super::flow::Participation;
use super::foreseen::{foretold, is_of_one_message, owns_drawn};
use super::gathered::{CompiledMerge, PartSource, of_rows};
use super::independent;
use super::inserted_keys::InsertedKeys;
use super::plpgsql::Isolation;
use super::plpgsql::code::{Code, Owner, ProcedureStatement};
use super::program::{
    CompileError, CompiledInto, CompiledPart, CompiledProcedure, CompiledRaise, CompiledRoute, CompiledStep,
    CompiledStepKind, Destination, Effects, Guarded, Homes, Input, Program, Target, VariableRules,
};
use super::query::CompiledQuery;
use super::routing::{Origins, Route, Router, asks_elsewhere};
use super::slice;
use super::slots::{Slot, SlotAllocator};
use super::walk;
use super::write::{CompiledUpdate, Hold, TableRules};
use crate::storage::{IndexId, IndexSchema, Schema};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_analysis::plan::Plan;
use weir_sql::bound::{
    BinaryOp, Expr, ExprKind, IntoTarget, OutputColumn, Parameter, ParameterMode, Procedure, ProcedureKind,
    Query, RelationId, Statement, Step, StepKind, Update, VariableId,
};
use weir_sql::catalog::TableId;
use weir_sql::{Application, Span, Text, anonymous, is_block};
use weir_types::{SqlError, SqlState, SqlType};

/// Indexes that are looked up by full keys.
pub(super) type LookedUp = BTreeSet<(TableId, IndexId)>;

/// `open_from`: see [`Closed::open_from`]. `upon`: the program of the schema version before, of which the program shares what the
/// definition has not touched.
pub fn program(
    application: &Application,
    plan: &Plan,
    shards: u16,
    open_from: usize,
    upon: Option<&Program>,
) -> Result<Program, CompileError> {
    let (catalog, placement) = (&application.catalog, &plan.placement);
    let closed = Arc::new(Closed::open_from(application, open_from));
    let upon = upon.filter(|upon| upon.shards == shards);
    let touched = Touched::new(upon, application, placement, &closed);
    let parts = Parts { catalog, placement, closed: &closed, shards };
    touched.check(parts)?;
    let schema = touched.schema(parts)?;
    let rules = touched.rules(parts, &schema)?;
    let mut procedures = Vec::new();
    let mut looked_up = LookedUp::new();
    let within = Within { application, plan, schema: &schema, rules: &rules, shards, text: None };
    let updates = RefCell::default();
    for (index, procedure) in application.procedures.iter().enumerate() {
        let (compiled, keys) = within.procedure(index, procedure, &closed, &updates)?;
        looked_up.extend(keys);
        procedures.push(compiled);
    }
    let schema = touched.look_up(schema, &rules, &looked_up);
    let with = touched.tables_with(parts);
    let is_locked =
        |one: &CompiledProcedure| one.in_order && matches!(one.admission, Admission::Interactive(_));
    let is_ordered = |one: &CompiledProcedure| one.in_order && one.independent.is_ok() && !one.carries;
    let needs_several = procedures.iter().any(|one| is_locked(one) && is_ordered(one));
    Ok(Program {
        is_ordered: shards > 1 && needs_several,
        orders_by_locks: procedures.iter().any(is_locked),
        schema: Arc::new(schema),
        shards,
        placement: placement.clone(),
        rules: rules.into(),
        procedures: procedures.into(),
        updates: updates.into_inner().into(),
        sequences: touched.sequences(catalog),
        placed_by_uuids: shards > 1 && !with.uuid_placement.is_empty(),
        texts: None,
        schema_version: 0,
        defers: !with.deferrable_keys.is_empty(),
        described: None,
        closed,
        looked_up,
        with,
    })
}

/// Compiles an ad-hoc statement as a procedure, for an unchanged program. `plan` contains its transaction.
pub fn text(
    application: &Application,
    plan: &Plan,
    program: &Program,
    (index, procedure): (usize, &Procedure),
    text: &Text,
) -> Result<(CompiledProcedure, Vec<Arc<CompiledUpdate>>), CompileError> {
    let (schema, rules, shards) = (&*program.schema, &*program.rules, program.shards);
    let text = Arc::new(text.clone());
    let within = Within { application, plan, schema, rules, shards, text: Some(&text) };
    let updates = RefCell::default();
    // Assume deletes in all tables: other ad-hoc statements may do them.
    let (compiled, _) = within.procedure(index, procedure, &Closed::everything(), &updates)?;
    Ok((compiled, updates.into_inner()))
}

type Updates = RefCell<Vec<Arc<CompiledUpdate>>>;

/// Context in which procedures are compiled.
#[derive(Clone, Copy)]
struct Within<'a> {
    application: &'a Application,
    plan: &'a Plan,
    schema: &'a Schema,
    rules: &'a [Arc<TableRules>],
    shards: u16,
    /// Set for an ad-hoc statement.
    text: Option<&'a Arc<Text>>,
}

impl Within<'_> {
    fn procedure(
        &self,
        index: usize,
        procedure: &Procedure,
        closed: &Closed,
        updates: &Updates,
    ) -> Result<(CompiledProcedure, LookedUp), CompileError> {
        let catalog = &self.application.catalog;
        let router = Router { catalog, plan: self.plan, proven: &Proven::of(catalog, procedure, closed) };
        let compile = |procedure: &Procedure, read: Option<&BTreeSet<VariableId>>| {
            ProcedureCompiler::compile(*self, router, (index, procedure), read, updates)
        };
        let (mut compiled, keys) = compile(procedure, None)?;
        if self.shards > 1 {
            let (part, read) = slice::of(&router, procedure, &compiled.participants);
            let (part, _) = compile(&part, Some(&read))?;
            compiled.slots = compiled.slots.max(part.slots);
            compiled.cells = compiled.cells.max(part.cells);
            let is_read = |input: &Input| read.contains(&VariableId(input.slot));
            compiled.part = CompiledPart {
                body: part.body,
                reads: read.iter().map(|variable| variable.0).collect(),
                inputs: (0..part.inputs.len()).filter(|&at| is_read(&part.inputs[at])).collect(),
            };
        }
        Ok((compiled, keys))
    }
}

fn unsupported(span: Span, what: impl std::fmt::Display, instead: &str) -> CompileError {
    let error =
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported")).with_hint(instead);
    CompileError { span, error }
}

/// Calls `visit` with every SQL statement of the steps, at every depth.
pub(super) fn each_statement<'a>(steps: &'a [Step], visit: &mut dyn FnMut(&'a Statement, Span)) {
    for step in steps {
        match &step.kind {
            StepKind::Sql { statement, .. } => visit(statement, step.span),
            StepKind::If { branches, otherwise } => {
                branches.iter().for_each(|(_, body)| each_statement(body, visit));
                each_statement(otherwise, visit);
            }
            StepKind::ForRange { body, .. }
            | StepKind::ForQuery { body, .. }
            | StepKind::ForEach { body, .. }
            | StepKind::While { body, .. }
            | StepKind::Loop { body, .. }
            | StepKind::Block { body, .. } => each_statement(body, visit),
            _ => {}
        }
    }
}

struct ProcedureCompiler<'a> {
    schema: &'a Schema,
    rules: &'a [Arc<TableRules>],
    router: Router<'a>,
    procedure: &'a Procedure,
    application: &'a Application,
    shards: u16,
    /// Set for an ad-hoc statement.
    text: Option<&'a Arc<Text>>,
    slots: SlotAllocator,
    guarded: Guarded,
    in_order: bool,
    origins: Origins,
    /// Variables that a slice reads; `None` for a whole procedure.
    read: Option<&'a BTreeSet<VariableId>>,
    /// UPDATEs of all procedures.
    updates: &'a Updates,
}

/// Why such a call is interactive.
const LOCKS_FIRST_ROWS: &str =
    "FOR UPDATE with LIMIT over the rows of all shards, of which no shard knows the first ones";

/// A query of the procedure that locks its first rows, over all shards. For a statement its parameters are the first variables.
fn first_rows_of_all<'a>(router: &Router<'_>, procedure: &'a Procedure) -> Option<(&'a Query, FirstRows)> {
    let mut found = None;
    each_statement(&procedure.body, &mut |statement, _| {
        if let Statement::Query(query) = statement
            && found.is_none()
            && matches!(router.statement(statement), Route::Everywhere)
        {
            let is_in = |parameter: &&Parameter| parameter.mode == ParameterMode::In;
            let parameters = procedure.parameters.iter().filter(is_in).count();
            found = FirstRows::of(router, query, parameters).map(|first| (query, first));
        }
    });
    found
}

/// The global keys of the row that an INSERT of one row gives.
fn inserted_keys(
    router: &Router<'_>,
    (schema, shards): (&Schema, u16),
    origins: &Origins,
    procedure: &Procedure,
) -> Option<InsertedKeys> {
    let (mut only, mut statements) = (None, 0);
    // An INSERT of several rows has a step for each.
    each_statement(&procedure.body, &mut |statement, _| {
        (only, statements) = (Some(statement), statements + 1)
    });
    let (Some(Statement::Insert(insert)), 1) = (only, statements) else { return None };
    let is_owned = |index: &IndexSchema| owns_drawn(router.catalog, shards, insert, index);
    InsertedKeys::of(router, schema, (origins, insert), &is_owned)
}

/// Why a statement of the procedure cannot run by itself, which an interactive call would need; `None`: all can.
fn refused_statement(
    application: &Application,
    plan: &Plan,
    schema: &Schema,
    procedure: (usize, &Procedure),
) -> Option<String> {
    let catalog = &application.catalog;
    let asks_elsewhere = asks_elsewhere(catalog, plan, 2);
    let (owner, source) = procedure;
    let code = match Code::compile(application, schema, (Owner::Procedure(owner), source), &asks_elsewhere) {
        Ok(code) => code,
        Err(wrong) => return Some(wrong.error.message().to_owned()),
    };
    let why = |one: &ProcedureStatement| {
        let statement = anonymous(catalog, one.statement.clone(), &one.text.types)?;
        let proven = Proven::of(catalog, &statement, &Closed::everything());
        let router = Router { catalog, plan, proven: &proven };
        Participation::of(&router, application, &Guarded::default(), &statement).unsupported
    };
    code.statements.iter().filter(|one| !one.reads_only()).find_map(why)
}

/// A variable as the target of an assignment. `from`: type of the value, unless it is cast already.
pub(super) fn target(procedure: &Procedure, variable: VariableId, from: Option<&SqlType>) -> Target {
    let rules = &procedure.variables[variable.0 as usize];
    let from = from.filter(|from| **from != rules.ty && !same_representation(from, &rules.ty)).cloned();
    Target {
        slot: variable.0,
        name: rules.name.clone(),
        ty: rules.ty.clone(),
        not_null: rules.not_null,
        from,
    }
}

/// Adds the source position to an error.
fn place<T>(result: Result<T, SqlError>, span: Span) -> Result<T, CompileError> {
    result.map_err(|error| CompileError { span, error })
}

impl<'a> ProcedureCompiler<'a> {
    fn compile(
        Within { application, schema, rules, shards, text, .. }: Within<'a>,
        router: Router<'a>,
        (index, procedure): (usize, &'a Procedure),
        read: Option<&'a BTreeSet<VariableId>>,
        updates: &'a Updates,
    ) -> Result<(CompiledProcedure, LookedUp), CompileError> {
        let guarded = Guarded::of(&application.catalog, router.plan, index);
        let mut participants = Participation::of(&router, application, &guarded, procedure);
        let is_one_statement = text.is_some_and(|text| !is_block(&text.sql));
        let (mut carries, mut carries_else, mut meets_actions, mut moves) = (false, false, false, None);
        if shards > 1 && read.is_none() {
            let foretold = foretold(&router, (schema, rules, shards), (procedure, is_one_statement));
            (carries, meets_actions) = (foretold.carries || foretold.inserts_entries, foretold.meets_actions);
            carries_else = foretold.carries;
            participants.met = foretold.refusals;
            if let Some(why) = foretold.by_statements {
                participants.everywhere = true;
                participants.unsupported.get_or_insert_with(|| why.to_owned());
            }
            moves = foretold.moves.filter(|_| !is_one_statement);
            if !is_one_statement && first_rows_of_all(&router, procedure).is_some() {
                participants.everywhere = true;
                participants.unsupported.get_or_insert_with(|| LOCKS_FIRST_ROWS.to_owned());
            }
        }
        let origins = Origins::of(procedure);
        let accessed_rows = AccessedRows::of(router.catalog, &origins, &procedure.body);
        let named_row = match shards > 1 && read.is_none() && is_one_statement {
            true => NamedRow::of(&router, schema, &origins, &procedure.body).map(Box::new),
            false => None,
        };
        // Its only participant is the shard of the row: with parents elsewhere another shard may decide.
        let is_at_home =
            participants.keys.len() == 1 && !participants.everywhere && participants.unsupported.is_none();
        let inserted_keys = match carries && !carries_else && is_one_statement && is_at_home {
            true => inserted_keys(&router, (schema, shards), &origins, procedure).map(Box::new),
            false => None,
        };
        let transaction = router.plan.transactions.iter().find(|transaction| transaction.procedure == index);
        let in_order = transaction.is_some_and(|transaction| transaction.mechanism.is_ordered_family());
        let mut compiler = ProcedureCompiler {
            schema,
            rules,
            router,
            procedure,
            application,
            shards,
            text,
            slots: SlotAllocator::new(procedure.variables.len()),
            guarded,
            in_order,
            origins,
            read,
            updates,
        };
        let body = compiler.steps(&procedure.body)?;
        let first_rows = match shards > 1 && read.is_none() && is_one_statement {
            true => compiler.first_rows()?,
            false => None,
        };
        let parameter = |modes: &'a [ParameterMode]| {
            procedure.parameters.iter().filter(|parameter| modes.contains(&parameter.mode))
        };
        let inputs = parameter(&[ParameterMode::In, ParameterMode::InOut]).map(|parameter| Input {
            name: parameter.name.clone(),
            ty: parameter.ty.clone(),
            slot: parameter.variable.0,
        });
        let outputs: Vec<(String, SqlType, Slot)> = parameter(&[ParameterMode::Out, ParameterMode::InOut])
            .map(|parameter| (parameter.name.clone(), parameter.ty.clone(), parameter.variable.0))
            .collect();
        let returns_value = match &procedure.kind {
            ProcedureKind::Function { returns } => outputs.is_empty() && *returns != SqlType::Void,
            _ => false,
        };
        let isolation = transaction
            .map_or(Isolation::Serializable, |plan| Isolation::of(&application.catalog, procedure, plan));
        let checks = transaction.is_some_and(|transaction| transaction.checks());
        let meets = moves.is_some() || participants.met.iter().any(is_of_one_message);
        let needs_several = participants.unsupported.is_some() || in_order || checks || meets;
        let refused = match !is_one_statement && shards > 1 && read.is_none() && needs_several {
            true => refused_statement(application, router.plan, schema, (index, procedure)),
            false => None,
        };
        if let (Some(why), Some(unsupported)) = (&refused, &mut participants.unsupported) {
            unsupported.clone_from(why);
        }
        let may_be_interactive = !is_one_statement && refused.is_none();
        match may_be_interactive {
            true => participants.met.retain(|error| !is_of_one_message(error)),
            false => participants.met.extend(moves),
        }
        let admission = Admission::of(
            &procedure.name,
            transaction,
            (&participants, carries),
            (shards, may_be_interactive),
        );
        let admission = match (&first_rows, admission) {
            (Some(_), Admission::Runs) => Admission::Interactive(LOCKS_FIRST_ROWS.to_owned()),
            (_, admission) => admission,
        };
        let independent = match transaction.filter(|_| in_order && text.is_none() && read.is_none()) {
            Some(plan) => {
                let takes_part_alone =
                    !(carries || checks || meets || meets_actions) && participants.met.is_empty();
                independent::check(&router, procedure, plan, (&participants, takes_part_alone))
            }
            None => Err(String::new()),
        };
        let admission = match (admission, &independent) {
            (Admission::Interactive(kept), Err(why)) if in_order && !why.is_empty() => {
                Admission::Interactive(format!("{kept}; it is no independent transaction: {why}"))
            }
            (admission, _) => admission,
        };
        let admission = with_checks(admission, transaction);
        let compiled = CompiledProcedure {
            name: procedure.name.clone(),
            inputs: inputs.collect(),
            outputs,
            variables: procedure
                .variables
                .iter()
                .map(|variable| VariableRules {
                    name: variable.name.clone(),
                    ty: variable.ty.clone(),
                    not_null: variable.not_null,
                })
                .collect(),
            slots: compiler.slots.slots_max(),
            cells: compiler.slots.cells_max(),
            found: procedure.found.0,
            body,
            part: CompiledPart::default(),
            returns_set: matches!(procedure.kind, ProcedureKind::SetReturningFunction { .. }),
            returns_value,
            participants,
            read_only: transaction.is_some_and(|transaction| transaction.read_only),
            by_itself: text.is_some(),
            is_statement: is_one_statement,
            guarded: text.is_some()
                || in_order
                || transaction.is_some_and(|transaction| !transaction.guards.is_empty()),
            admission,
            watched: None,
            first_rows,
            named_row,
            accessed_rows,
            inserted_keys,
            isolation,
            in_order,
            independent,
            carries,
            meets_actions,
        };
        Ok((compiled, compiler.slots.looked_up))
    }

    fn steps(&mut self, steps: &'a [Step]) -> Result<Vec<CompiledStep>, CompileError> {
        steps.iter().map(|step| Ok(CompiledStep { kind: self.step(step)?, span: step.span })).collect()
    }

    fn compiler(&mut self) -> Compiler<'_> {
        Compiler::new(self.schema, &mut self.slots)
    }

    fn expr(&mut self, expr: &Expr) -> Result<CompiledExpr, CompileError> {
        self.slots.begin_expr(expr);
        place(CompiledExpr::compile(expr, &mut self.compiler()), expr.span)
    }

    fn maybe(&mut self, expr: Option<&Expr>) -> Result<Option<CompiledExpr>, CompileError> {
        expr.map(|expr| self.expr(expr)).transpose()
    }

    fn exprs(&mut self, list: &[Expr]) -> Result<Vec<CompiledExpr>, CompileError> {
        list.iter().map(|expr| self.expr(expr)).collect()
    }

    fn route(&mut self, route: Route) -> Result<CompiledRoute, CompileError> {
        Ok(match self.origins.settled(route) {
            Route::Anywhere => CompiledRoute::Anywhere,
            Route::Own => CompiledRoute::Own { unknown: Vec::new() },
            Route::Everywhere => CompiledRoute::Everywhere,
            Route::By(keys) => CompiledRoute::By { keys: self.exprs(&keys)?, unknown: Vec::new() },
        })
    }

    fn homes(&mut self, variable: VariableId, body: &[Step]) -> Result<Option<Homes>, CompileError> {
        let homes =
            self.read.and_then(|read| slice::homes(&self.router, variable, body, self.procedure.found, read));
        let Some(homes) = homes else { return Ok(None) };
        let fixed: Result<_, CompileError> = homes.fixed.iter().map(|keys| self.exprs(keys)).collect();
        Ok(Some(Homes { fixed: fixed?, elements: homes.elements.into_iter().map(|array| array.0).collect() }))
    }

    fn target(&self, variable: VariableId, from: Option<&SqlType>) -> Target {
        target(self.procedure, variable, from)
    }

    fn targets(&self, targets: &[IntoTarget], columns: &[OutputColumn]) -> Vec<Target> {
        let types = columns.iter().map(|column| Some(&column.ty)).chain(std::iter::repeat(None));
        targets.iter().zip(types).map(|(target, from)| self.target(target.variable, from)).collect()
    }

    fn step(&mut self, step: &'a Step) -> Result<CompiledStepKind, CompileError> {
        Ok(match &step.kind {
            StepKind::Assign { variable, value } => {
                CompiledStepKind::Assign { target: self.target(*variable, None), value: self.expr(value)? }
            }
            StepKind::AssignElement { variable, index, value } => {
                let element = match &self.procedure.variables[variable.0 as usize].ty {
                    SqlType::Array(element) => (**element).clone(),
                    other => other.clone(),
                };
                CompiledStepKind::AssignElement {
                    slot: variable.0,
                    element,
                    index: self.expr(index)?,
                    value: self.expr(value)?,
                }
            }
            StepKind::Sql { statement, into } => return self.statement(statement, into.as_ref(), step.span),
            StepKind::If { branches, otherwise } => {
                let bodies = branches.iter().map(|(_, body)| effects(body)).chain([effects(otherwise)]);
                let effects = join_effects(bodies);
                let branches: Result<Vec<_>, CompileError> = branches
                    .iter()
                    .map(|(condition, body)| Ok((self.expr(condition)?, self.steps(body)?)))
                    .collect();
                CompiledStepKind::If { branches: branches?, otherwise: self.steps(otherwise)?, effects }
            }
            StepKind::ForRange { variable, from, to, by, reverse, label, body } => {
                let body_steps = self.steps(body)?;
                CompiledStepKind::ForRange {
                    slot: variable.0,
                    from: self.expr(from)?,
                    to: self.expr(to)?,
                    by: self.maybe(by.as_ref())?,
                    reverse: *reverse,
                    homes: self.homes(*variable, body)?,
                    ahead: ahead::of(variable.0, &body_steps),
                    label: *label,
                    effects: effects(body),
                    body: body_steps,
                }
            }
            StepKind::ForQuery { targets, query, label, body } => {
                let route = self.router.query(query);
                CompiledStepKind::ForQuery {
                    route: self.route(route)?,
                    query: Box::new(self.query(query, step.span)?),
                    targets: self.targets(targets, &query.columns),
                    label: *label,
                    effects: effects(body),
                    body: self.steps(body)?,
                }
            }
            StepKind::ForEach { variable, array, label, body } => CompiledStepKind::ForEach {
                slot: variable.0,
                array: self.expr(array)?,
                label: *label,
                effects: effects(body),
                body: self.steps(body)?,
            },
            StepKind::While { condition, label, body } => CompiledStepKind::While {
                condition: self.expr(condition)?,
                label: *label,
                effects: effects(body),
                body: self.steps(body)?,
            },
            StepKind::Loop { label, body } => {
                CompiledStepKind::Loop { label: *label, body: self.steps(body)? }
            }
            StepKind::Block { label, body } => {
                CompiledStepKind::Block { label: *label, body: self.steps(body)? }
            }
            StepKind::Exit { label, when } => {
                CompiledStepKind::Exit { label: *label, when: self.maybe(when.as_ref())? }
            }
            StepKind::Continue { label, when } => {
                CompiledStepKind::Continue { label: *label, when: self.maybe(when.as_ref())? }
            }
            StepKind::Raise(raise) => CompiledStepKind::Raise(Box::new(CompiledRaise {
                level: raise.level,
                format: raise.format.clone(),
                args: self.exprs(&raise.args)?,
                state: raise.state,
                message: self.maybe(raise.message.as_ref())?,
                detail: self.maybe(raise.detail.as_ref())?,
                hint: self.maybe(raise.hint.as_ref())?,
            })),
            StepKind::Return { value } => CompiledStepKind::Return { value: self.maybe(value.as_ref())? },
            StepKind::ReturnNext { values } => CompiledStepKind::ReturnNext { values: self.exprs(values)? },
            StepKind::ReturnQuery { query } => {
                let route = self.router.query(query);
                CompiledStepKind::ReturnQuery {
                    route: self.route(route)?,
                    query: Box::new(self.query(query, step.span)?),
                }
            }
            StepKind::GetRowCount { variable } => {
                CompiledStepKind::GetRowCount { target: self.target(*variable, Some(&SqlType::Int8)) }
            }
            StepKind::Call { procedure, args, targets } => {
                let outputs: Vec<OutputColumn> = self.application.procedures[*procedure]
                    .parameters
                    .iter()
                    .filter(|parameter| parameter.mode != ParameterMode::In)
                    .map(|parameter| OutputColumn::new(parameter.name.clone(), parameter.ty.clone()))
                    .collect();
                let targets = self.targets(targets, &outputs);
                CompiledStepKind::Call { procedure: *procedure, args: self.exprs(args)?, targets }
            }
            StepKind::Assert { condition, message } => CompiledStepKind::Assert {
                condition: self.expr(condition)?,
                message: self.maybe(message.as_ref())?,
            },
            StepKind::Null => CompiledStepKind::Null,
            StepKind::Opaque(_) => {
                return Err(unsupported(step.span, "this statement", "it was read to be analysed only"));
            }
        })
    }

    /// The statement as one that locks its first rows, if these may live on several shards.
    fn first_rows(&mut self) -> Result<Option<Box<CompiledFirstRows>>, CompileError> {
        let Some((query, FirstRows { key, .. })) = first_rows_of_all(&self.router, self.procedure) else {
            return Ok(None);
        };
        let Some(limit) = self.maybe(query.limit.as_ref())? else { return Ok(None) };
        let offset = self.maybe(query.offset.as_ref())?;
        Ok(Some(Box::new(CompiledFirstRows { key, limit, offset })))
    }

    fn query(&mut self, query: &Query, span: Span) -> Result<CompiledQuery, CompileError> {
        self.slots.begin_query(query);
        place(CompiledQuery::compile(query, self.schema, &mut self.slots), span)
    }

    fn statement(
        &mut self,
        statement: &'a Statement,
        into: Option<&weir_sql::bound::Into>,
        span: Span,
    ) -> Result<CompiledStepKind, CompileError> {
        let route = self.router.statement(statement);
        let mut route = self.route(route)?;
        if let (CompiledRoute::By { unknown, .. } | CompiledRoute::Own { unknown }, Some(read)) =
            (&mut route, self.read)
        {
            let assigned = into.iter().flat_map(|into| &into.targets).map(|target| target.variable);
            let needed = assigned.chain([self.procedure.found]).filter(|variable| read.contains(variable));
            unknown.extend(needed.map(|variable| variable.0));
        }
        let (columns, writes) = (statement.columns(), !matches!(statement, Statement::Query(_)));
        let to = match into {
            Some(into) => Destination::Variables(CompiledInto {
                targets: self.targets(&into.targets, &columns),
                strict: into.strict,
                unread: self
                    .read
                    .is_some_and(|read| !into.targets.iter().any(|target| read.contains(&target.variable))),
                writes,
            }),
            None if self.text.is_some() && !columns.is_empty() => {
                Destination::Caller { width: columns.len() }
            }
            None => Destination::Nowhere,
        };
        Ok(match statement {
            Statement::Query(query) => match (&to, &route, of_rows(query, GIVEN, false)) {
                (Destination::Caller { .. }, CompiledRoute::Everywhere, Some((part, whole)))
                    if self.shards > 1 =>
                {
                    let to = Destination::Caller { width: part.columns.len() };
                    self.slots.begin_query(&part);
                    let query = CompiledQuery::compile(&part, self.schema, &mut self.slots);
                    let merged = CompiledMerge::compile(&whole, 1, self.schema, &mut self.slots);
                    let (query, merged) = (place(query, span)?, place(merged, span)?);
                    CompiledStepKind::Query {
                        query: Box::new(query),
                        to,
                        route,
                        merged: Some(Box::new(merged)),
                    }
                }
                _ => {
                    let query = Box::new(self.query(query, span)?);
                    CompiledStepKind::Query { query, to, route, merged: None }
                }
            },
            Statement::Insert(insert) => CompiledStepKind::Insert {
                insert: Box::new(place(
                    self.insert(insert, statement, self.guarded.hold([span, insert.span])),
                    insert.span,
                )?),
                to,
                route,
            },
            Statement::Update(update) => {
                let is_claimed =
                    self.in_order || self.text.is_some() && !is_blind(self.router.catalog, update);
                let hold = match self.guarded.hold([span, update.span]) {
                    Hold::Merges if is_claimed => Hold::Claims,
                    hold => hold,
                };
                let update = Arc::new(place(self.update(update, statement, hold), update.span)?);
                self.updates.borrow_mut().push(update.clone());
                CompiledStepKind::Update { update, to, route }
            }
            Statement::Delete(delete) => {
                let is_guarded = self.guarded.hold([span, delete.span]) != Hold::Merges;
                let guarded = is_guarded || self.in_order || self.text.is_some();
                CompiledStepKind::Delete {
                    delete: Box::new(place(self.delete(delete, statement, guarded), delete.span)?),
                    to,
                    route,
                }
            }
        })
    }
}

/// Placeholder for the rows of a query from all shards.
const GIVEN: PartSource = PartSource { relation: RelationId(0), level: 1, index: 0 };

/// Returns whether an UPDATE's effect on the rows that it finds by key does not depend on concurrent transactions. Any other ad-hoc write
/// locks its rows, so that what it read still holds at the commit, as in PostgreSQL.
fn is_blind(catalog: &weir_sql::Catalog, update: &Update) -> bool {
    let table = catalog.table(update.table);
    let key: &[usize] = table.primary_key.as_ref().map_or(&[], |key| &key.columns);
    let mut of_keys = true;
    update.filter.iter().for_each(|filter| {
        walk::each_expr(filter, &mut |expr| match expr.kind {
            ExprKind::Column { column, .. } => of_keys &= key.contains(&column),
            _ => of_keys &= walk::subquery(expr).is_none(),
        });
    });
    let adds = |(column, expr): &(usize, Expr)| match &walk::uncast(expr).kind {
        ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Subtract, left, right } => {
            let own = |expr: &Expr| matches!(walk::uncast(expr).kind, ExprKind::Column { column: of, .. } if of == *column);
            own(left) && walk::relations_read(right).is_empty()
        }
        _ => walk::relations_read(expr).is_empty(),
    };
    of_keys && update.from.is_empty() && update.returning.is_empty() && update.assignments.iter().all(adds)
}

/// Possible effects of steps of which it is unknown whether they run.
fn effects(steps: &[Step]) -> Effects {
    let mut all = Effects::default();
    for step in steps {
        let mut assign =
            |targets: &[IntoTarget]| all.assigned.extend(targets.iter().map(|target| target.variable.0));
        let inner = match &step.kind {
            StepKind::Assign { variable, .. }
            | StepKind::AssignElement { variable, .. }
            | StepKind::GetRowCount { variable } => {
                all.assigned.push(variable.0);
                continue;
            }
            StepKind::Sql { into, .. } => {
                all.touches_rows = true;
                assign(into.as_ref().map_or(&[], |into| &into.targets));
                continue;
            }
            StepKind::Call { targets, .. } => {
                all.touches_rows = true;
                assign(targets);
                continue;
            }
            StepKind::If { branches, otherwise } => {
                join_effects(branches.iter().map(|(_, body)| effects(body)).chain([effects(otherwise)]))
            }
            StepKind::ForRange { variable, body, .. } | StepKind::ForEach { variable, body, .. } => {
                all.assigned.push(variable.0);
                effects(body)
            }
            StepKind::ForQuery { targets, body, .. } => {
                all.touches_rows = true;
                assign(targets);
                effects(body)
            }
            StepKind::While { body, .. } | StepKind::Loop { body, .. } | StepKind::Block { body, .. } => {
                effects(body)
            }
            StepKind::Exit { .. }
            | StepKind::Continue { .. }
            | StepKind::Return { .. }
            | StepKind::ReturnNext { .. } => {
                all.leaves = true;
                continue;
            }
            StepKind::ReturnQuery { .. } => {
                all.touches_rows = true;
                continue;
            }
            StepKind::Opaque(step) => {
                all.touches_rows = true;
                all.leaves |= step.leaves;
                all.assigned.extend(step.assigns.iter().map(|variable| variable.0));
                continue;
            }
            StepKind::Raise(_) | StepKind::Assert { .. } | StepKind::Null => continue,
        };
        all = join_effects([all, inner]);
    }
    all
}
