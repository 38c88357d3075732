//! A write that asks for rows of other shards, as a query for all that it asks for, and a write of one row. No shard has what such a write
//! asks for, but each has what the write of a row needs.
//!
//! Both run in a serializable transaction: what the query has found is so when the rows are written.

use weir_sql::Span;
use weir_sql::bound::{
    BinaryOp, Delete, Distinct, Expr, ExprKind, FromItem, Insert, InsertSource, OutputColumn, Query,
    RelationId, Select, Statement, Update, VariableId,
};
use weir_sql::catalog::{Catalog, Table, TableId};
use weir_sql::walk;
use weir_types::SqlType;

/// The rows of `query` are assigned to `variables` one after the other; `write` is run for each.
pub(super) struct RowByRow {
    pub query: Query,
    pub variables: Vec<VariableId>,
    pub write: Statement,
}

/// Number of variables that [`row_by_row`] may take for the statement.
pub(super) fn variables_max(catalog: &Catalog, statement: &Statement) -> usize {
    let key = |table: TableId| {
        catalog.table(table).primary_key.as_ref().map_or(0, |primary_key| primary_key.columns.len())
    };
    match statement {
        Statement::Query(_) => 0,
        Statement::Insert(insert) => insert.columns.len(),
        Statement::Update(update) => key(update.table) + update.assignments.len(),
        Statement::Delete(delete) => key(delete.table),
    }
}

/// `None`: the statement cannot be taken apart, because it returns values of other rows, or may write a row twice.
pub(super) fn row_by_row(
    catalog: &Catalog,
    statement: &Statement,
    variable: &mut dyn FnMut(&SqlType) -> VariableId,
) -> Option<RowByRow> {
    match statement {
        Statement::Query(_) => None,
        Statement::Insert(insert) => of_insert(insert, variable),
        Statement::Update(update) => of_update(catalog.table(update.table), update, variable),
        Statement::Delete(delete) => of_delete(catalog.table(delete.table), delete, variable),
    }
}

fn of_insert(insert: &Insert, variable: &mut dyn FnMut(&SqlType) -> VariableId) -> Option<RowByRow> {
    let InsertSource::Query(query) = &insert.source else { return None };
    let updates = insert.on_conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
    if updates || !insert.returning.is_empty() || query.has_effects() {
        return None;
    }
    let variables: Vec<VariableId> = query.columns.iter().map(|column| variable(&column.ty)).collect();
    let row = variables
        .iter()
        .zip(&query.columns)
        .map(|(variable, column)| read(*variable, &column.ty, insert.span))
        .collect();
    let write = Insert { source: InsertSource::Values(vec![row]), ..insert.clone() };
    Some(RowByRow { query: (**query).clone(), variables, write: Statement::Insert(write) })
}

fn of_update(
    table: &Table,
    update: &Update,
    variable: &mut dyn FnMut(&SqlType) -> VariableId,
) -> Option<RowByRow> {
    let Update { relation, span, .. } = *update;
    if !update.returning.is_empty() || update.filter.as_ref().is_some_and(walk::is_volatile) {
        return None;
    }
    let mut rows = Rows::of_keys((table, relation, span), !update.from.is_empty(), variable)?;
    let mut assignments = Vec::new();
    for (column, value) in &update.assignments {
        let value = match is_of_row(value, relation) {
            true => value.clone(),
            false if walk::is_volatile(value) => return None,
            false => rows.read(value, variable),
        };
        assignments.push((*column, value));
    }
    let filter = Some(rows.is_row.clone());
    let query = rows.query((table, relation, span), &update.from, update.filter.as_ref());
    let write = Update { assignments, from: Vec::new(), filter, ..update.clone() };
    Some(RowByRow { query, variables: rows.variables, write: Statement::Update(write) })
}

fn of_delete(
    table: &Table,
    delete: &Delete,
    variable: &mut dyn FnMut(&SqlType) -> VariableId,
) -> Option<RowByRow> {
    let Delete { relation, span, .. } = *delete;
    if !delete.returning.is_empty() || delete.filter.as_ref().is_some_and(walk::is_volatile) {
        return None;
    }
    let mut rows = Rows::of_keys((table, relation, span), !delete.using.is_empty(), variable)?;
    let filter = Some(rows.is_row.clone());
    let query = rows.query((table, relation, span), &delete.using, delete.filter.as_ref());
    let write = Delete { using: Vec::new(), filter, ..delete.clone() };
    Some(RowByRow { query, variables: rows.variables, write: Statement::Delete(write) })
}

/// The rows of a table that are written: their keys, and values that are computed for them.
struct Rows {
    outputs: Vec<Expr>,
    variables: Vec<VariableId>,
    /// The key columns equal the variables.
    is_row: Expr,
    distinct: Distinct,
}

impl Rows {
    /// `may_repeat`: a row is found once for each row that it is joined with; the first one counts.
    fn of_keys(
        (table, relation, span): (&Table, RelationId, Span),
        may_repeat: bool,
        variable: &mut dyn FnMut(&SqlType) -> VariableId,
    ) -> Option<Rows> {
        let key = table.primary_key.as_ref()?;
        let (mut outputs, mut variables, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for &column in &key.columns {
            let ty = &table.columns[column].ty;
            let own = Expr { kind: ExprKind::Column { relation, column }, ty: ty.clone(), span };
            variables.push(variable(ty));
            let value = read(variables[variables.len() - 1], ty, span);
            let kind =
                ExprKind::Binary { op: BinaryOp::Equal, left: Box::new(own.clone()), right: Box::new(value) };
            conditions.push(Expr { kind, ty: SqlType::Bool, span });
            outputs.push(own);
        }
        let distinct = match may_repeat {
            true => Distinct::On((0..outputs.len()).collect()),
            false => Distinct::All,
        };
        let is_row = Expr { kind: ExprKind::And(conditions), ty: SqlType::Bool, span };
        Some(Rows { outputs, variables, is_row, distinct })
    }

    /// The value as one that the query gives.
    fn read(&mut self, value: &Expr, variable: &mut dyn FnMut(&SqlType) -> VariableId) -> Expr {
        let of = variable(&value.ty);
        self.outputs.push(value.clone());
        self.variables.push(of);
        read(of, &value.ty, value.span)
    }

    fn query(
        &mut self,
        (table, relation, span): (&Table, RelationId, Span),
        others: &[FromItem],
        filter: Option<&Expr>,
    ) -> Query {
        let own = FromItem::Table { relation, table: table.id, alias: table.name.clone(), span };
        let from = [own].into_iter().chain(others.iter().cloned()).collect();
        let outputs = std::mem::take(&mut self.outputs);
        let named = |(at, output): (usize, &Expr)| OutputColumn::new(format!("c{at}"), output.ty.clone());
        let columns = outputs.iter().enumerate().map(named).collect();
        let distinct = std::mem::replace(&mut self.distinct, Distinct::All);
        let select = Select { distinct, ..Select::plain(outputs, from, filter.cloned()) };
        Query::of_select(select, columns, span)
    }
}

/// Returns whether a value is computed of the row itself, without a query.
fn is_of_row(value: &Expr, relation: RelationId) -> bool {
    let mut is_of_row = !walk::has_subquery(value);
    walk::columns(value, &mut |of, _| is_of_row &= of == relation);
    is_of_row
}

fn read(variable: VariableId, ty: &SqlType, span: Span) -> Expr {
    Expr { kind: ExprKind::Variable(variable), ty: ty.clone(), span }
}
