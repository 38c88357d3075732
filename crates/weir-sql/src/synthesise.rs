//! Transactions for an application that has none: insert, update and delete of every table.
//!
//! A schema alone says nothing of what is done with it, so everything is answered for that any application
//! does: one row comes, some columns of one row are set, one row goes. They are bound procedures like any
//! others; nothing behind this module knows that nobody wrote them. It never makes a statement about several
//! rows, and never changes a key that names the row.
//!
//! A number that a CHECK bounds on one side, such as a stock, is also raised and lowered by an amount: an UPDATE that sets
//! it and one that adds to it are answered differently. Columns are set in groups: those that one constraint speaks of are set together (whoever sets a part of them
//! knows the rest), and all columns of which no constraint says anything together are one group more.

use std::collections::BTreeSet;

use weir_types::text::parse_text;
use weir_types::{SqlState, SqlType, Value};

use crate::Application;
use crate::binder::{default_of, generated_along};
use crate::bound::{
    BinaryOp, Delete, Expr, ExprKind, Insert, InsertSource, Parameter, ParameterMode, Procedure,
    ProcedureKind, Raise, RaiseLevel, RelationId, Statement, Step, StepKind, Update, Variable, VariableId,
};
use crate::catalog::{ColumnIndex, Index, Table};
use crate::source::Span;
use crate::type_name::unmodified;
use crate::walk;

/// More columns than this are not named.
const NAMED_MAX: usize = 3;

/// Adds insert, update and delete of every table to the application's procedures.
pub fn synthesise(app: &mut Application) {
    let made: Vec<Procedure> = app.catalog.tables.iter().flat_map(synthesised_of).collect();
    app.procedures.extend(made);
    app.synthesised = true;
}

/// Insert, update and delete of the table.
pub fn synthesised_of(table: &Table) -> Vec<Procedure> {
    let mut made = vec![insert(table)];
    for group in groups(table) {
        made.push(update(table, &group));
        if let [column] = group[..]
            && is_bounded(table, column)
        {
            made.extend([BinaryOp::Add, BinaryOp::Subtract].map(|op| change(table, column, op)));
        }
    }
    made.push(delete(table));
    made
}

/// Does the application say itself what is done with its tables? Functions that only compute do not.
pub(crate) fn has_transactions(procedures: &[Procedure]) -> bool {
    procedures.iter().any(|procedure| procedure.kind == ProcedureKind::Procedure || writes(&procedure.body))
}

fn writes(steps: &[Step]) -> bool {
    let mut found = false;
    walk::each_step(steps, &mut |step| {
        found |= match &step.kind {
            StepKind::Sql { statement, .. } => !matches!(**statement, Statement::Query(_)),
            StepKind::Opaque(opaque) => !opaque.writes.is_empty(),
            _ => false,
        }
    });
    found
}

/// A procedure that is one statement of its parameters.
struct Body<'t> {
    table: &'t Table,
    span: Span,
    parameters: Vec<Parameter>,
}

const ROW: RelationId = RelationId(0);

impl<'t> Body<'t> {
    fn new(table: &'t Table, span: Span) -> Body<'t> {
        Body { table, span, parameters: Vec::new() }
    }

    fn expr(&self, kind: ExprKind, ty: SqlType) -> Expr {
        Expr { kind, ty, span: self.span }
    }

    /// A parameter with the column's name; its value as the column's type.
    fn parameter(&mut self, column: ColumnIndex, prefix: &str) -> Expr {
        let column = &self.table.columns[column];
        let ty = unmodified(column.ty.clone());
        let variable = VariableId(self.parameters.len() as u32);
        self.parameters.push(Parameter {
            name: format!("{prefix}{}", column.name),
            ty: ty.clone(),
            mode: ParameterMode::In,
            default: None,
            variable,
        });
        let value = self.expr(ExprKind::Variable(variable), ty.clone());
        match ty == column.ty {
            true => value,
            false => {
                self.expr(ExprKind::Cast { operand: Box::new(value), explicit: false }, column.ty.clone())
            }
        }
    }

    /// The row by its key; in a table without one, by all that it was.
    fn filter(&mut self, set: &[ColumnIndex]) -> Option<Expr> {
        let all = || (0..self.table.columns.len()).filter(|&at| self.table.columns[at].generated.is_none());
        let columns = row_key(self.table).unwrap_or_else(|| all().collect());
        let mut equations: Vec<Expr> = Vec::new();
        for column in columns {
            let prefix = if set.contains(&column) { "old_" } else { "" };
            let right = Box::new(self.parameter(column, prefix));
            let ty = self.table.columns[column].ty.clone();
            let left = Box::new(self.expr(ExprKind::Column { relation: ROW, column }, ty));
            equations.push(self.expr(ExprKind::Binary { op: BinaryOp::Equal, left, right }, SqlType::Bool));
        }
        match equations.len() {
            0 | 1 => equations.pop(),
            _ => Some(self.expr(ExprKind::And(equations), SqlType::Bool)),
        }
    }

    fn procedure(self, name: String, statement: Statement) -> Procedure {
        let variable = |name: &str, ty: &SqlType| Variable {
            name: name.to_owned(),
            ty: ty.clone(),
            not_null: false,
            constant: false,
        };
        let mut variables: Vec<Variable> =
            self.parameters.iter().map(|parameter| variable(&parameter.name, &parameter.ty)).collect();
        let found = VariableId(variables.len() as u32);
        variables.push(variable("found", &SqlType::Bool));
        let step =
            Step { kind: StepKind::Sql { statement: Box::new(statement), into: None }, span: self.span };
        Procedure {
            name,
            kind: ProcedureKind::Procedure,
            parameters: self.parameters,
            variables,
            found,
            body: vec![step],
            serializable: false,
            synthesised: true,
            span: self.span,
        }
    }
}

/// Every column has the caller's value but those that the database makes.
fn insert(table: &Table) -> Procedure {
    let mut body = Body::new(table, table.span);
    let (made, given): (Vec<ColumnIndex>, Vec<ColumnIndex>) =
        (0..table.columns.len()).partition(|&column| is_made(table, column));
    let values = given.iter().map(|&column| body.parameter(column, "")).collect();
    let insert = Insert {
        table: table.id,
        relation: ROW,
        excluded: RelationId(1),
        columns: given,
        source: InsertSource::Values(vec![values]),
        defaults: made.iter().map(|&column| (column, default_of(table, column, table.span))).collect(),
        on_conflict: None,
        returning: Vec::new(),
        continues: false,
        span: table.span,
    };
    body.procedure(format!("insert {}", table.name), Statement::Insert(insert))
}

fn update(table: &Table, group: &[ColumnIndex]) -> Procedure {
    let span = table.columns[group[0]].span;
    let mut body = Body::new(table, span);
    let filter = body.filter(group);
    let assignments: Vec<(ColumnIndex, Expr)> =
        group.iter().map(|&column| (column, body.parameter(column, ""))).collect();
    let update = assigning(table, assignments, filter, span);
    let mut names: Vec<&str> = group.iter().map(|&column| table.columns[column].name.as_str()).collect();
    if names.len() > NAMED_MAX {
        names.truncate(NAMED_MAX - 1);
        names.push("…");
    }
    body.procedure(format!("update {} ({})", table.name, names.join(", ")), Statement::Update(update))
}

/// `x = x + amount`, or minus, for an amount above zero.
fn change(table: &Table, column: ColumnIndex, op: BinaryOp) -> Procedure {
    let (definition, span) = (&table.columns[column], table.columns[column].span);
    let mut body = Body::new(table, span);
    let filter = body.filter(&[]);
    let ty = unmodified(definition.ty.clone());
    let variable = VariableId(body.parameters.len() as u32);
    body.parameters.push(Parameter {
        name: "amount".to_owned(),
        ty: ty.clone(),
        mode: ParameterMode::In,
        default: None,
        variable,
    });
    let amount = || Box::new(Expr { kind: ExprKind::Variable(variable), ty: ty.clone(), span });
    let zero = parse_text("0", &ty).unwrap_or(Value::Null);
    let zero = Box::new(body.expr(ExprKind::Literal(zero), ty.clone()));
    let condition = ExprKind::Binary { op: BinaryOp::LessOrEqual, left: amount(), right: zero };
    let refusal = Step { kind: StepKind::Raise(above_zero()), span };
    let refused = StepKind::If {
        branches: vec![(body.expr(condition, SqlType::Bool), vec![refusal])],
        otherwise: Vec::new(),
    };
    let was = body.expr(ExprKind::Column { relation: ROW, column }, definition.ty.clone());
    let value = ExprKind::Binary { op, left: Box::new(was), right: amount() };
    let mut value = body.expr(value, ty.clone());
    if ty != definition.ty {
        let cast = ExprKind::Cast { operand: Box::new(value), explicit: false };
        value = body.expr(cast, definition.ty.clone());
    }
    let update = assigning(table, vec![(column, value)], filter, span);
    let word = if op == BinaryOp::Add { "increment" } else { "decrement" };
    let name = format!("{word} {} ({})", table.name, definition.name);
    let mut procedure = body.procedure(name, Statement::Update(update));
    procedure.body.insert(0, Step { kind: refused, span });
    procedure
}

/// An update of these columns, and of those that are generated from them.
fn assigning(
    table: &Table,
    mut assignments: Vec<(ColumnIndex, Expr)>,
    filter: Option<Expr>,
    span: Span,
) -> Update {
    assignments.extend(generated_along(table, &assignments));
    Update {
        table: table.id,
        relation: ROW,
        assignments,
        from: Vec::new(),
        filter,
        returning: Vec::new(),
        span,
    }
}

fn above_zero() -> Raise {
    Raise {
        level: RaiseLevel::Exception,
        format: "the amount must be above zero".to_owned(),
        args: Vec::new(),
        state: SqlState::RAISE_EXCEPTION,
        message: None,
        detail: None,
        hint: None,
    }
}

/// A number that a CHECK compares with a constant: not less, or not more than it.
fn is_bounded(table: &Table, column: ColumnIndex) -> bool {
    let is_column =
        |expr: &Expr| matches!(walk::uncast(expr).kind, ExprKind::Column { column: of, .. } if of == column);
    let is_constant = |expr: &Expr| matches!(walk::uncast(expr).kind, ExprKind::Literal(_));
    let bounds = |expr: &Expr| match &expr.kind {
        ExprKind::Binary { op, left, right } => {
            use BinaryOp::{Greater, GreaterOrEqual, Less, LessOrEqual};
            matches!(op, Greater | GreaterOrEqual | Less | LessOrEqual)
                && (is_column(left) && is_constant(right) || is_constant(left) && is_column(right))
        }
        _ => false,
    };
    table.columns[column].ty.is_number() && table.checks.iter().any(|check| bounds(&check.expr))
}

fn delete(table: &Table) -> Procedure {
    let mut body = Body::new(table, table.span);
    let filter = body.filter(&[]);
    let delete = Delete {
        table: table.id,
        relation: ROW,
        using: Vec::new(),
        filter,
        returning: Vec::new(),
        span: table.span,
    };
    body.procedure(format!("delete {}", table.name), Statement::Delete(delete))
}

/// The columns that name one row: the primary key, else a unique key without NULLs.
fn row_key(table: &Table) -> Option<Vec<ColumnIndex>> {
    let whole = |columns: &Vec<ColumnIndex>| columns.iter().all(|&column| table.columns[column].not_null);
    let keys = table.primary_key.iter().chain(&table.unique_keys);
    keys.map(|key| &key.columns).find(|columns| whole(columns)).cloned()
}

/// Identity, serial, a fresh UUID, a generated column.
fn is_made(table: &Table, column: ColumnIndex) -> bool {
    let column = &table.columns[column];
    let mut made = column.generated_always || column.generated.is_some();
    if let Some(default) = &column.default {
        walk::each_expr(default, &mut |part| {
            made |= matches!(part.kind, ExprKind::NextValue(_) | ExprKind::Volatile(_));
        });
    }
    made
}

/// Which columns are set together.
fn groups(table: &Table) -> Vec<Vec<ColumnIndex>> {
    let key: BTreeSet<ColumnIndex> = row_key(table).into_iter().flatten().collect();
    let settable = |column: &ColumnIndex| {
        let definition = &table.columns[*column];
        !key.contains(column) && definition.generated.is_none() && !definition.generated_always
    };
    let mut groups: Vec<BTreeSet<ColumnIndex>> = Vec::new();
    for spoken_of in constrained(table) {
        let mut group: BTreeSet<ColumnIndex> = spoken_of.into_iter().filter(settable).collect();
        groups.retain(|other| {
            let apart = other.is_disjoint(&group);
            if !apart {
                group.extend(other);
            }
            apart
        });
        groups.push(group);
    }
    let rest = |column: &ColumnIndex| !groups.iter().any(|group| group.contains(column));
    let rest: BTreeSet<ColumnIndex> = (0..table.columns.len()).filter(settable).filter(rest).collect();
    groups.push(rest);
    groups.retain(|group| !group.is_empty());
    groups.sort();
    groups.into_iter().map(|group| group.into_iter().collect()).collect()
}

/// The columns of each constraint but NOT NULL, which is about every value by itself.
fn constrained(table: &Table) -> Vec<Vec<ColumnIndex>> {
    fn of<'e>(exprs: impl Iterator<Item = &'e Expr>) -> Vec<ColumnIndex> {
        let mut columns = Vec::new();
        exprs.for_each(|expr| walk::columns(expr, &mut |_, column| columns.push(column)));
        columns
    }
    let mut sets: Vec<Vec<ColumnIndex>> = Vec::new();
    sets.extend(table.checks.iter().map(|check| of([&check.expr].into_iter())));
    sets.extend(table.unique_keys.iter().map(|key| key.columns.clone()));
    sets.extend(table.foreign_keys.iter().map(|key| key.columns.clone()));
    sets.extend(
        table
            .exclusions
            .iter()
            .map(|exclusion| of(exclusion.elements.iter().map(|(expr, _)| expr).chain(&exclusion.predicate))),
    );
    let unique = table.indexes.iter().filter(|index| index.unique);
    let spoken =
        |index: &Index| of(index.written_keys().iter().map(|key| &key.expr).chain(index.written_predicate()));
    sets.extend(unique.map(spoken));
    sets
}
