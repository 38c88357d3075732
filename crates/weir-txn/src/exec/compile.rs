//! From bound procedures to a [`Program`]: slots, routes, operations, rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_analysis::plan::{GuardKind, Plan};
use weir_sql::bound::{
    Delete, Expr, ExprKind, FromItem, Insert, InsertSource, IntoTarget, OutputColumn, ParameterMode,
    Procedure, ProcedureKind, Query, QueryBody, RelationId, Select, Statement, Step, StepKind, Update,
    VariableId,
};
use weir_sql::catalog::{Catalog, ColumnIndex, ForeignKey, TableId};
use weir_sql::{Application, Span};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::access::TableAccess;
use super::call::join_effects;
use super::compiler::Compiler;
use super::expr::CompiledExpr;
use super::expr::compile::compile_list;
use super::flow::Participation;
use super::program::{
    CompileError, CompiledInto, CompiledProcedure, CompiledRaise, CompiledRoute, CompiledStep,
    CompiledStepKind, Effects, Input, Program, Target, VariableRules, guarded_statements, partitions,
};
use super::query::CompiledQuery;
use super::routing::{Route, Router};
use super::slice;
use super::slots::{ROW_IDENTITY, Slot, SlotAllocator};
use super::walk;
use super::write::{
    Assignment, AssignmentKind, CheckRule, CompiledConflict, CompiledDelete, CompiledInsert, CompiledSource,
    CompiledUpdate, ConflictUpdate, DistantParent, ForeignKeyRule, Matches, Reference, TableRules,
};
use crate::storage::{IndexId, Schema};

/// Indexes whose whole keys are looked up one at a time.
type LookedUp = BTreeSet<(TableId, IndexId)>;

pub fn program(application: &Application, plan: &Plan, shards: u16) -> Result<Program, CompileError> {
    let catalog = &application.catalog;
    let mut schema = Schema::new(catalog);
    let partitions = partitions(plan);
    if shards > 1 {
        check_unique_keys(catalog, &partitions)?;
    }
    check_indexes(catalog)?;
    let deleted = tables_deleted_from(application);
    let mut rules = Vec::new();
    for table in &catalog.tables {
        rules.push(table_rules(catalog, &schema, &partitions, &deleted, table.id)?);
    }
    let parents = rules.iter().flat_map(|rules| &rules.foreign_keys);
    let mut looked_up: LookedUp = parents.map(|key| (key.parent, key.parent_index)).collect();
    let mut procedures = Vec::new();
    for (index, procedure) in application.procedures.iter().enumerate() {
        let compile = |procedure: &Procedure| {
            ProcedureCompiler::compile(application, plan, &schema, &rules, index, procedure)
        };
        let (mut compiled, keys) = compile(procedure)?;
        looked_up.extend(keys);
        if shards > 1 {
            let router = Router { catalog, plan };
            let (part, _) = compile(&slice::of(&router, procedure, &compiled.participants))?;
            compiled.slots = compiled.slots.max(part.slots);
            compiled.cells = compiled.cells.max(part.cells);
            compiled.part = part.body;
        }
        procedures.push(compiled);
    }
    schema.look_up(looked_up);
    let schema = Arc::new(schema);
    Ok(Program { schema, shards, partitions, rules, procedures, sequences: catalog.sequences.clone() })
}

/// A key is unique in the whole database only if rows with the same key meet on one shard.
fn check_unique_keys(catalog: &Catalog, partitions: &[Option<Vec<ColumnIndex>>]) -> Result<(), CompileError> {
    for table in &catalog.tables {
        let Some(partition) = &partitions[table.id.0 as usize] else { continue };
        let keys = table
            .primary_key
            .iter()
            .chain(&table.unique_keys)
            .map(|key| (&key.name, key.columns.clone(), key.span));
        let indexes = table.indexes.iter().filter(|index| index.unique).map(|index| {
            let columns = index.keys.iter().filter_map(|key| match key.expr.kind {
                ExprKind::Column { column, .. } => Some(column),
                _ => None,
            });
            (&index.name, columns.collect(), index.span)
        });
        for (name, columns, span) in keys.chain(indexes) {
            if !partition.iter().all(|column| columns.contains(column)) {
                let names: Vec<&str> =
                    partition.iter().map(|&column| table.columns[column].name.as_str()).collect();
                return Err(unsupported(
                    span,
                    format!(
                        "key \"{name}\" over several shards, without the partition column {},",
                        names.join(", ")
                    ),
                    "Partition the table by columns of the key, make it replicated, or run on one shard.",
                ));
            }
        }
    }
    Ok(())
}

fn check_indexes(catalog: &Catalog) -> Result<(), CompileError> {
    for table in &catalog.tables {
        for index in &table.indexes {
            let plain = index.predicate.is_none()
                && index.keys.iter().all(|key| matches!(key.expr.kind, ExprKind::Column { .. }));
            if !plain {
                return Err(unsupported(
                    index.span,
                    "a partial index or an index on an expression",
                    "An index on plain columns works.",
                ));
            }
        }
        let keyed = table
            .primary_key
            .iter()
            .chain(&table.unique_keys)
            .flat_map(|key| key.columns.iter().map(|column| (*column, key.span)));
        let indexed = table.indexes.iter().flat_map(|index| {
            index.keys.iter().filter_map(|key| match key.expr.kind {
                ExprKind::Column { column, .. } => Some((column, index.span)),
                _ => None,
            })
        });
        for (column, span) in keyed.chain(indexed) {
            let ty = &table.columns[column].ty;
            if matches!(ty, SqlType::Jsonb | SqlType::Array(_)) {
                return Err(unsupported(
                    span,
                    format!("an index on a column of type {ty}"),
                    "Index a column of a scalar type.",
                ));
            }
        }
    }
    Ok(())
}

fn unsupported(span: Span, what: impl std::fmt::Display, instead: &str) -> CompileError {
    let error =
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported")).with_hint(instead);
    CompileError { span, error }
}

/// Tables that some procedure deletes from, or changes the keys of.
fn tables_deleted_from(application: &Application) -> Vec<TableId> {
    let mut tables = Vec::new();
    for procedure in &application.procedures {
        each_statement(&procedure.body, &mut |statement, _| match statement {
            Statement::Delete(delete) => tables.push(delete.table),
            Statement::Update(update) => {
                let keys = application.catalog.tables.iter().flat_map(|table| &table.foreign_keys);
                let referenced = |column: &ColumnIndex| {
                    keys.clone().any(|key| key.parent == update.table && key.parent_columns.contains(column))
                };
                if update.assignments.iter().any(|(column, _)| referenced(column)) {
                    tables.push(update.table);
                }
            }
            _ => {}
        });
    }
    tables
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

fn table_rules(
    catalog: &Catalog,
    schema: &Schema,
    partitions: &[Option<Vec<ColumnIndex>>],
    deleted: &[TableId],
    table: TableId,
) -> Result<TableRules, CompileError> {
    let mut rules = TableRules::default();
    for check in &catalog.table(table).checks {
        let mut slots = SlotAllocator::new(0);
        slots.begin_expr(&check.expr);
        let expr = CompiledExpr::compile(&check.expr, &mut Compiler::new(schema, &mut slots));
        let expr = expr.map_err(|error| CompileError { span: check.span, error })?;
        rules.checks.push(CheckRule {
            name: check.name.clone(),
            expr,
            columns: slots.columns_of(RelationId(0)),
            slots: slots.slots_max(),
            cells: slots.cells_max(),
        });
    }
    for key in &catalog.table(table).foreign_keys {
        rules.foreign_keys.push(foreign_key(schema, partitions, deleted, table, key));
    }
    for child in &catalog.tables {
        for key in child.foreign_keys.iter().filter(|key| key.parent == table) {
            let starts = |index: &crate::storage::IndexSchema| {
                index.columns.len() >= key.columns.len()
                    && index.columns.iter().zip(&key.columns).all(|(have, want)| have.column == Some(*want))
            };
            rules.referenced_by.push(Reference {
                child: child.id,
                name: key.name.clone(),
                columns: key.columns.clone(),
                parent_columns: key.parent_columns.clone(),
                on_delete: key.on_delete,
                on_update: key.on_update,
                child_index: schema.table(child.id).indexes.iter().position(starts),
                together: lives_together(partitions, child.id, key),
            });
        }
    }
    Ok(rules)
}

fn foreign_key(
    schema: &Schema,
    partitions: &[Option<Vec<ColumnIndex>>],
    deleted: &[TableId],
    table: TableId,
    key: &ForeignKey,
) -> ForeignKeyRule {
    let child_of = |parent: ColumnIndex| {
        key.parent_columns.iter().position(|&column| column == parent).map(|at| key.columns[at])
    };
    let parent = schema.table(key.parent);
    let fits = |index: &crate::storage::IndexSchema| {
        index.unique
            && index.columns.len() == key.parent_columns.len()
            && index.columns.iter().all(|column| column.column.and_then(child_of).is_some())
    };
    let parent_index =
        parent.indexes.iter().position(fits).expect("the binder demands a unique key behind a foreign key");
    let key_columns = parent.indexes[parent_index]
        .columns
        .iter()
        .filter_map(|column| column.column.and_then(child_of))
        .collect();
    let parent_partition = partitions[key.parent.0 as usize]
        .as_ref()
        .map(|columns| columns.iter().filter_map(|&column| child_of(column)).collect());
    ForeignKeyRule {
        name: key.name.clone(),
        parent: key.parent,
        parent_index,
        key_columns,
        parent_partition,
        together: lives_together(partitions, table, key),
        parent_may_go: deleted.contains(&key.parent),
    }
}

/// A child's shard is its parent's, whatever the values.
fn lives_together(partitions: &[Option<Vec<ColumnIndex>>], child: TableId, key: &ForeignKey) -> bool {
    let (Some(parent), Some(child)) = (&partitions[key.parent.0 as usize], &partitions[child.0 as usize])
    else {
        return partitions[key.parent.0 as usize].is_none();
    };
    let mapped: Option<Vec<ColumnIndex>> = parent
        .iter()
        .map(|column| key.parent_columns.iter().position(|parent| parent == column).map(|at| key.columns[at]))
        .collect();
    mapped.as_ref() == Some(child)
}

struct ProcedureCompiler<'a> {
    schema: &'a Schema,
    rules: &'a [TableRules],
    router: Router<'a>,
    procedure: &'a Procedure,
    application: &'a Application,
    slots: SlotAllocator,
    guards: BTreeMap<Span, GuardKind>,
}

/// A relation that no statement has: a join's target query is put together here.
fn place<T>(result: Result<T, SqlError>, span: Span) -> Result<T, CompileError> {
    result.map_err(|error| CompileError { span, error })
}

impl<'a> ProcedureCompiler<'a> {
    fn compile(
        application: &'a Application,
        plan: &'a Plan,
        schema: &'a Schema,
        rules: &'a [TableRules],
        index: usize,
        procedure: &'a Procedure,
    ) -> Result<(CompiledProcedure, LookedUp), CompileError> {
        let guards = guarded_statements(plan, index);
        let router = Router { catalog: &application.catalog, plan };
        let participants = Participation::of(&router, application, procedure);
        let mut compiler = ProcedureCompiler {
            schema,
            rules,
            router,
            procedure,
            application,
            slots: SlotAllocator::new(procedure.variables.len()),
            guards,
        };
        let body = compiler.steps(&procedure.body)?;
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
        let transaction = plan.transactions.iter().find(|transaction| transaction.procedure == index);
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
            part: Vec::new(),
            returns_set: matches!(procedure.kind, ProcedureKind::SetReturningFunction { .. }),
            returns_value,
            participants,
            read_only: transaction.is_some_and(|transaction| transaction.read_only),
            guarded: transaction.is_some_and(|transaction| !transaction.guards.is_empty()),
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
        Ok(match route {
            Route::Anywhere => CompiledRoute::Anywhere,
            Route::Everywhere => CompiledRoute::Everywhere,
            Route::By(keys) => CompiledRoute::By(self.exprs(&keys)?),
        })
    }

    fn target(&self, variable: VariableId, from: Option<&SqlType>) -> Target {
        let rules = &self.procedure.variables[variable.0 as usize];
        let from = from.filter(|from| **from != rules.ty && !same_representation(from, &rules.ty)).cloned();
        Target {
            slot: variable.0,
            name: rules.name.clone(),
            ty: rules.ty.clone(),
            not_null: rules.not_null,
            from,
        }
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
                CompiledStepKind::ForRange {
                    slot: variable.0,
                    from: self.expr(from)?,
                    to: self.expr(to)?,
                    by: self.maybe(by.as_ref())?,
                    reverse: *reverse,
                    label: *label,
                    effects: effects(body),
                    body: self.steps(body)?,
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
                    .map(|parameter| OutputColumn { name: parameter.name.clone(), ty: parameter.ty.clone() })
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
        let route = self.route(route)?;
        let into = into.map(|into| CompiledInto {
            targets: self.targets(&into.targets, &statement.columns()),
            strict: into.strict,
            writes: !matches!(statement, Statement::Query(_)),
        });
        Ok(match statement {
            Statement::Query(query) => {
                CompiledStepKind::Query { query: Box::new(self.query(query, span)?), into, route }
            }
            Statement::Insert(insert) => CompiledStepKind::Insert {
                insert: Box::new(place(self.insert(insert, statement), insert.span)?),
                into,
                route,
            },
            Statement::Update(update) => {
                let guarded = self.guards.contains_key(&span) || self.guards.contains_key(&update.span);
                CompiledStepKind::Update {
                    update: Box::new(place(self.update(update, statement, guarded), update.span)?),
                    into,
                    route,
                }
            }
            Statement::Delete(delete) => {
                let guarded = self.guards.contains_key(&span) || self.guards.contains_key(&delete.span);
                CompiledStepKind::Delete {
                    delete: Box::new(place(self.delete(delete, statement, guarded), delete.span)?),
                    into,
                    route,
                }
            }
        })
    }

    fn insert(&mut self, insert: &Insert, statement: &Statement) -> Result<CompiledInsert, SqlError> {
        self.slots.begin_statement(statement);
        // DO UPDATE and RETURNING may read any column of the row.
        let mut compiler = Compiler::new(self.schema, &mut self.slots);
        let source = match &insert.source {
            InsertSource::Values(rows) => {
                let rows: Result<Vec<_>, SqlError> =
                    rows.iter().map(|row| compile_list(row, &mut compiler)).collect();
                CompiledSource::Values(rows?)
            }
            InsertSource::Query(query) => {
                CompiledSource::Query(CompiledQuery::compile_in(query, &mut compiler)?)
            }
        };
        let mut defaults = Vec::new();
        for (column, expr) in &insert.defaults {
            defaults.push((*column, CompiledExpr::compile(expr, &mut compiler)?));
        }
        let on_conflict = match &insert.on_conflict {
            None => None,
            Some(conflict) => {
                let indexes = &self.schema.table(insert.table).indexes;
                let index = conflict.columns.as_ref().and_then(|columns| {
                    indexes.iter().position(|index| {
                        index.unique
                            && index.columns.len() == columns.len()
                            && index
                                .columns
                                .iter()
                                .all(|have| have.column.is_some_and(|have| columns.contains(&have)))
                    })
                });
                let update = match &conflict.update {
                    None => None,
                    Some((assignments, filter)) => {
                        let mut compiled = Vec::new();
                        for (column, expr) in assignments {
                            compiled.push((*column, CompiledExpr::compile(expr, &mut compiler)?));
                        }
                        let filter = filter
                            .as_ref()
                            .map(|filter| CompiledExpr::compile(filter, &mut compiler))
                            .transpose()?;
                        Some(ConflictUpdate { assignments: compiled, filter })
                    }
                };
                Some(CompiledConflict { index, update })
            }
        };
        let returning: Result<Vec<_>, SqlError> =
            insert.returning.iter().map(|(_, expr)| CompiledExpr::compile(expr, &mut compiler)).collect();
        let returning = returning?;
        let mut distant_parents = Vec::new();
        for (rule, (compiled, key)) in self.rules[insert.table.0 as usize]
            .foreign_keys
            .iter()
            .zip(&self.router.catalog.table(insert.table).foreign_keys)
            .enumerate()
        {
            if compiled.together || compiled.parent_partition.is_none() {
                continue;
            }
            let InsertSource::Values(rows) = &insert.source else { continue };
            let mut compiled_rows = Vec::new();
            for row in rows {
                let Some(partition) = self.router.parent(insert, row, key) else { continue };
                let mut values = Vec::new();
                for column in &compiled.key_columns {
                    let at = insert.columns.iter().position(|given| given == column);
                    match at {
                        Some(at) => values.push(CompiledExpr::compile(&row[at], &mut compiler)?),
                        None => values.push(CompiledExpr::Constant(Value::Null)),
                    }
                }
                compiled_rows.push((compile_list(&partition, &mut compiler)?, values));
            }
            distant_parents.push(DistantParent { rule, rows: compiled_rows });
        }
        Ok(CompiledInsert {
            table: insert.table,
            columns: insert.columns.clone(),
            source,
            defaults,
            on_conflict,
            returning,
            row_slots: self.slots.columns_of(insert.relation),
            excluded_slots: self.slots.columns_of(insert.excluded),
            distant_parents,
        })
    }

    fn update(
        &mut self,
        update: &Update,
        statement: &Statement,
        guarded: bool,
    ) -> Result<CompiledUpdate, SqlError> {
        self.slots.begin_statement(statement);
        let mut rows = self.matches(update.table, update.relation, &update.from, update.filter.as_ref())?;
        let mut assignments = Vec::new();
        for (column, expr) in &update.assignments {
            let ty = &self.router.catalog.table(update.table).columns[*column].ty;
            let kind = self.assignment_kind(update.relation, *column, ty, expr)?;
            let value = Arc::new(CompiledExpr::compile(expr, &mut self.compiler())?);
            assignments.push(Assignment { column: *column, value, kind });
        }
        let mut compiler = Compiler::new(self.schema, &mut self.slots);
        let returning = update.returning.iter().map(|(_, expr)| expr);
        let from_frame = !update.from.is_empty() || returning.clone().any(walk::has_subquery);
        let returning = match &mut rows {
            // The row as it is after the update, read in place.
            Matches::Access(access) => access.compile_in_place(returning, &mut compiler)?,
            Matches::Join(_) => {
                returning.map(|expr| CompiledExpr::compile(expr, &mut compiler)).collect::<Result<_, _>>()?
            }
        };
        rows.prune(&self.slots);
        let row_slots = if from_frame { self.slots.columns_of(update.relation) } else { Vec::new() };
        let assigned =
            |column: &ColumnIndex| update.assignments.iter().any(|(assigned, _)| assigned == column);
        let rules = &self.rules[update.table.0 as usize];
        let partition = match self.router.plan.placement(update.table) {
            weir_analysis::plan::Placement::Partitioned { columns } => columns.iter().any(assigned),
            weir_analysis::plan::Placement::Replicated => false,
        };
        let checked = partition
            || rules.checks.iter().any(|check| check.columns.iter().any(|(column, _)| assigned(column)))
            || rules.foreign_keys.iter().any(|key| key.key_columns.iter().any(assigned))
            || rules.referenced_by.iter().any(|key| key.parent_columns.iter().any(assigned));
        Ok(CompiledUpdate {
            table: update.table,
            rows,
            assignments,
            returning,
            row_slots,
            guarded,
            checked,
            slots: self.slots.slots_max(),
            cells: self.slots.cells_max(),
        })
    }

    fn delete(
        &mut self,
        delete: &Delete,
        statement: &Statement,
        guarded: bool,
    ) -> Result<CompiledDelete, SqlError> {
        self.slots.begin_statement(statement);
        let mut rows = self.matches(delete.table, delete.relation, &delete.using, delete.filter.as_ref())?;
        let mut compiler = Compiler::new(self.schema, &mut self.slots);
        let returning: Result<Vec<_>, SqlError> =
            delete.returning.iter().map(|(_, expr)| CompiledExpr::compile(expr, &mut compiler)).collect();
        let (returning, row_slots) = (returning?, self.slots.columns_of(delete.relation));
        rows.prune(&self.slots);
        Ok(CompiledDelete { table: delete.table, rows, returning, row_slots, guarded })
    }

    fn matches(
        &mut self,
        table: TableId,
        relation: RelationId,
        others: &[FromItem],
        filter: Option<&Expr>,
    ) -> Result<Matches, SqlError> {
        if others.is_empty() {
            let mut conditions = Vec::new();
            if let Some(filter) = filter {
                walk::conjuncts(filter, &mut conditions);
            }
            return Ok(Matches::Access(TableAccess::compile(
                table,
                relation,
                &conditions,
                &mut self.compiler(),
            )?));
        }
        let span = Span::default();
        let identity =
            Expr { kind: ExprKind::Column { relation, column: ROW_IDENTITY }, ty: SqlType::Int8, span };
        self.slots.column(relation, ROW_IDENTITY);
        let alias = self.router.catalog.table(table).name.clone();
        let mut from = vec![FromItem::Table { relation, table, alias, span }];
        from.extend_from_slice(others);
        let select = Select {
            distinct: weir_sql::bound::Distinct::All,
            outputs: vec![identity],
            from,
            filter: filter.cloned(),
            group_by: Vec::new(),
            having: None,
            aggregates: false,
        };
        let query = Query {
            ctes: Vec::new(),
            body: QueryBody::Select(Box::new(select)),
            order_by: Vec::new(),
            limit: None,
            offset: None,
            lock_rows: false,
            columns: vec![OutputColumn { name: "row".to_string(), ty: SqlType::Int8 }],
            span,
        };
        Ok(Matches::Join(CompiledQuery::compile_in(&query, &mut self.compiler())?))
    }

    /// Design §3: `x = x + d` adds, `x = greatest(x, v)` is a maximum, `x = v` assigns, and any other
    /// expression over the same row is applied to the row that it meets.
    fn assignment_kind(
        &mut self,
        relation: RelationId,
        column: ColumnIndex,
        ty: &SqlType,
        expr: &Expr,
    ) -> Result<AssignmentKind, SqlError> {
        let reads = |expr: &Expr| walk::relations_read(expr).contains(&relation);
        if !reads(expr) {
            return Ok(AssignmentKind::Assign);
        }
        let is_self = |expr: &Expr| matches!(uncast(expr).kind, ExprKind::Column { relation: r, column: c } if r == relation && c == column);
        let comparable =
            |expr: &Expr| expr.ty.base() == ty.base() || (expr.ty.is_integer() && ty.is_integer());
        match &uncast(expr).kind {
            ExprKind::Binary { op: weir_sql::bound::BinaryOp::Add, left, right }
                if comparable(right) && is_self(left) && !reads(right) =>
            {
                return Ok(AssignmentKind::Add(CompiledExpr::compile(right, &mut self.compiler())?));
            }
            ExprKind::Binary { op: weir_sql::bound::BinaryOp::Add, left, right }
                if comparable(left) && is_self(right) && !reads(left) =>
            {
                return Ok(AssignmentKind::Add(CompiledExpr::compile(left, &mut self.compiler())?));
            }
            ExprKind::Binary { op: weir_sql::bound::BinaryOp::Subtract, left, right }
                if comparable(right) && is_self(left) && !reads(right) =>
            {
                let negated =
                    Expr { kind: ExprKind::Negate(right.clone()), ty: right.ty.clone(), span: right.span };
                return Ok(AssignmentKind::Add(CompiledExpr::compile(&negated, &mut self.compiler())?));
            }
            ExprKind::Greatest(list) | ExprKind::Least(list) => {
                let pair = match list.as_slice() {
                    [own, other] if is_self(own) => Some(other),
                    [other, own] if is_self(own) => Some(other),
                    _ => None,
                };
                if let Some(other) = pair
                    && !reads(other)
                    && comparable(other)
                {
                    let value = CompiledExpr::compile(other, &mut self.compiler())?;
                    let greatest = matches!(uncast(expr).kind, ExprKind::Greatest(_));
                    return Ok(if greatest {
                        AssignmentKind::Max(value)
                    } else {
                        AssignmentKind::Min(value)
                    });
                }
            }
            _ => {}
        }
        let mut variables = Vec::new();
        let mut subquery = false;
        let mut foreign = false;
        walk::each_expr(expr, &mut |expr| match &expr.kind {
            ExprKind::Variable(variable) if !variables.contains(&variable.0) => variables.push(variable.0),
            ExprKind::Column { relation: other, .. } => foreign |= *other != relation,
            ExprKind::ScalarSubquery(_)
            | ExprKind::Exists { .. }
            | ExprKind::QuantifiedSubquery { .. }
            | ExprKind::ArraySubquery(_) => {
                subquery = true;
            }
            _ => {}
        });
        // What other rows say is read now and written back: an assignment.
        if subquery || foreign || walk::is_volatile(expr) {
            return Ok(AssignmentKind::Assign);
        }
        let mut used = walk::UsedColumns::new();
        walk::each_expr(expr, &mut |expr| walk::note_column(&mut used, expr));
        let columns = used
            .remove(&relation)
            .unwrap_or_default()
            .into_iter()
            .map(|column| (column, self.slots.column(relation, column)));
        Ok(AssignmentKind::Apply { columns: columns.collect(), variables })
    }
}

/// Without the casts that the binder put around an assigned value.
fn uncast(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { operand, .. }
            if expr.ty.base() == operand.ty.base() || (expr.ty.is_integer() && operand.ty.is_integer()) =>
        {
            uncast(operand)
        }
        _ => expr,
    }
}

/// No cast is needed to hold such a value in a variable of the other type.
fn same_representation(from: &SqlType, to: &SqlType) -> bool {
    match (from, to) {
        (SqlType::Text | SqlType::Varchar(_), SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Char(_), SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Numeric(_), SqlType::Numeric(None)) => true,
        (SqlType::Int2, SqlType::Int4 | SqlType::Int8) | (SqlType::Int4, SqlType::Int8) => true,
        (SqlType::Array(from), SqlType::Array(to)) => same_representation(from, to),
        (from, to) => from == to,
    }
}

/// What the steps may change, if nobody knows whether they run.
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
