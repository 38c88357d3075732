//! Which shard an INSERT belongs to, and the parents of its rows.

use weir_sql::bound::{Expr, ExprKind, Insert, InsertSource, QueryBody, RelationId, Statement};
use weir_sql::catalog::{ColumnIndex, ForeignKey};

use super::equalities::Equalities;
use super::{Route, Router, first_of_copies, same, same_expr, without_integer_cast};
use crate::exec::sequences::generates_id;
use crate::exec::walk;

impl Router<'_> {
    pub(super) fn insert(&self, insert: &Insert) -> Route {
        let route = self.inserted(insert);
        let conflict = insert.on_conflict.iter().filter_map(|conflict| conflict.update.as_ref());
        let updated =
            conflict.flat_map(|(assignments, filter)| assignments.iter().map(|(_, expr)| expr).chain(filter));
        let mut asked = Equalities::default();
        insert.returning.iter().map(|(_, expr)| expr).chain(updated).for_each(|expr| asked.subqueries(expr));
        if let InsertSource::Values(rows) = &insert.source {
            rows.iter().flatten().for_each(|expr| asked.subqueries(expr));
        }
        match (route, self.resolve(&asked)) {
            (route, Route::Anywhere) => route,
            (Route::By(keys), Route::By(others)) if same(&keys, &others) => Route::By(keys),
            _ => Route::Everywhere,
        }
    }

    /// Partition key of each row of an INSERT whose rows live on several shards, if each shard can recognise its own rows.
    pub fn spread(&self, insert: &Insert) -> Option<Vec<Vec<Expr>>> {
        let columns = self.partition(insert.table)?;
        let InsertSource::Values(rows) = &insert.source else { return None };
        // RETURNING preserves the order of VALUES.
        if !insert.returning.is_empty() || !matches!(self.inserted(insert), Route::Everywhere) {
            return None;
        }
        let is_told = |value: &&Expr| !walk::is_volatile(value) && !walk::has_subquery(value);
        let key = |row: &Vec<Expr>| -> Option<Vec<Expr>> {
            columns.iter().map(|&column| inserted(insert, row, column).filter(is_told).cloned()).collect()
        };
        rows.iter().map(key).collect()
    }

    /// Returns whether all inserted rows live where the statement runs, whatever the data.
    pub fn keeps_home(&self, insert: &Insert) -> bool {
        let Some(columns) = self.partition(insert.table) else { return true };
        let query = match &insert.source {
            InsertSource::Values(_) => {
                return self.spread(insert).is_some() || !matches!(self.inserted(insert), Route::Everywhere);
            }
            InsertSource::Query(query) => query,
        };
        let QueryBody::Select(select) = &query.body else { return false };
        let outputs: Option<Vec<&Expr>> =
            columns.iter().map(|&column| inserted(insert, &select.outputs, column)).collect();
        let Some(outputs) = outputs else { return false };
        let mut equalities = Equalities::default();
        equalities.query(query);
        let class = |output: &Expr| match without_integer_cast(output).kind {
            ExprKind::Column { relation, column } => {
                equalities.classes.get(&(relation, column)).map(|class| equalities.find(*class))
            }
            _ => None,
        };
        match self.inserted(insert) {
            Route::By(keys) => keys.iter().zip(&outputs).all(|(key, output)| {
                let known = class(output).and_then(|class| equalities.known[class]);
                same_expr(key, output) || known.is_some_and(|known| same_expr(key, known))
            }),
            Route::Own => true,
            Route::Anywhere => false,
            Route::Everywhere => equalities.tables.iter().any(|&(relation, table)| {
                self.partition(table).is_some_and(|theirs| {
                    theirs.len() == outputs.len()
                        && theirs.iter().zip(&outputs).all(|(&column, output)| {
                            let (own, is_own) = (class(output), is_column(output, relation, column));
                            let same = equalities.classes.get(&(relation, column));
                            is_own || same.is_some_and(|class| own == Some(equalities.find(*class)))
                        })
                })
            }),
        }
    }

    /// Route of the inserted rows.
    fn inserted(&self, insert: &Insert) -> Route {
        let Some(columns) = self.partition(insert.table) else {
            let source = match &insert.source {
                InsertSource::Values(_) => Route::Anywhere,
                InsertSource::Query(query) => self.query(query),
            };
            return match source {
                Route::Anywhere => Route::By(vec![first_of_copies()]),
                _ => Route::Everywhere,
            };
        };
        let key = |row: &[Expr]| -> Option<Vec<Expr>> {
            columns.iter().map(|&column| inserted(insert, row, column).cloned()).collect()
        };
        match &insert.source {
            InsertSource::Values(rows) => {
                let mut keys = rows.iter().map(|row| key(row));
                if rows.iter().all(|row| self.is_own(insert, row)) {
                    return Route::Own;
                }
                match keys.next().flatten() {
                    Some(first) if keys.all(|other| other.is_some_and(|other| same(&first, &other))) => {
                        Route::By(first)
                    }
                    _ => Route::Everywhere,
                }
            }
            InsertSource::Query(query) => {
                let mut equalities = Equalities::default();
                equalities.query(query);
                let of_one_row = match &query.body {
                    QueryBody::Select(select) if select.from.is_empty() => key(&select.outputs),
                    _ => None,
                };
                match (of_one_row, self.resolve(&equalities)) {
                    (Some(keys), Route::Anywhere) => Route::By(keys),
                    (Some(keys), Route::By(others)) if !same(&keys, &others) => Route::Everywhere,
                    (_, route) => route,
                }
            }
        }
    }

    /// Returns whether the row's shard is named by an id generated with the row.
    pub(in crate::exec) fn is_own(&self, insert: &Insert, row: &[Expr]) -> bool {
        let Some([column]) = self.partition(insert.table) else { return false };
        inserted(insert, row, *column).is_some_and(generates_id)
    }

    /// Parents of inserted rows that are placed by a partition key and not read by the call itself: foreign key, row, key of the parent.
    pub fn parents<'i>(&self, insert: &'i Insert) -> Vec<(&ForeignKey, &'i [Expr], Vec<Expr>)> {
        let InsertSource::Values(rows) = &insert.source else { return Vec::new() };
        // A row that is not inserted needs no parent: those of the others are asked for when they are known.
        if insert.on_conflict.is_some() {
            return Vec::new();
        }
        let keys = self.catalog.table(insert.table).foreign_keys.iter().enumerate();
        let looked_up = keys.filter(|&(at, _)| !self.proven.holds(insert, at));
        let pairs = looked_up.flat_map(|(_, key)| rows.iter().map(move |row| (key, row.as_slice())));
        pairs.filter_map(|(key, row)| Some((key, row, self.parent(insert, row, key)?))).collect()
    }

    /// Partition key of a foreign key's parent row, as far as the inserted values determine it; `None` if the parent table is replicated,
    /// so that every shard can check.
    pub fn parent(&self, insert: &Insert, row: &[Expr], key: &ForeignKey) -> Option<Vec<Expr>> {
        let columns = self.partition(key.parent)?;
        columns
            .iter()
            .map(|column| {
                let at = key.parent_columns.iter().position(|parent| parent == column)?;
                inserted(insert, row, key.columns[at]).cloned()
            })
            .collect()
    }
}

fn is_column(expr: &Expr, relation: RelationId, column: ColumnIndex) -> bool {
    match without_integer_cast(expr).kind {
        ExprKind::Column { relation: of, column: at } => (of, at) == (relation, column),
        _ => false,
    }
}

/// Expression that an INSERT assigns to a column.
pub(in crate::exec) fn inserted<'a>(
    insert: &'a Insert,
    row: &'a [Expr],
    column: ColumnIndex,
) -> Option<&'a Expr> {
    match insert.columns.iter().position(|&given| given == column) {
        Some(at) => row.get(at).map(without_integer_cast),
        None => {
            let default = insert.defaults.iter().find(|(default, _)| *default == column);
            default.map(|(_, expr)| without_integer_cast(expr))
        }
    }
}

/// Returns whether the statement is `INSERT … RETURNING id` of a newly generated id.
pub(super) fn returns_own_id(statement: &Statement, at: usize) -> bool {
    let Statement::Insert(insert) = statement else { return false };
    let Some((_, returned)) = insert.returning.get(at) else { return false };
    let (InsertSource::Values(rows), None) = (&insert.source, &insert.on_conflict) else { return false };
    match without_integer_cast(returned).kind {
        ExprKind::Column { relation, column } if relation == insert.relation => {
            rows.iter().all(|row| inserted(insert, row, column).is_some_and(generates_id))
        }
        _ => false,
    }
}
