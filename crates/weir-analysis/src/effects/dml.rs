//! INSERT, UPDATE and DELETE: which rows, and what happens to each column.

use weir_sql::bound::{
    BinaryOp, Delete, Expr, ExprKind, FromItem, Insert, InsertSource, OutputColumn, Query, QueryBody,
    RelationId, Statement, Update,
};
use weir_sql::catalog::ColumnIndex;
use weir_sql::walk::{self, conjuncts, uncast};

use super::interpret::{Binding, Interpreter};
use super::{ColumnOperation, Conflict, Frame, Operation, ReadId, Term, TermId};

impl Interpreter<'_> {
    /// Runs one statement; its outputs.
    pub(super) fn statement(&mut self, statement: &Statement) -> Vec<TermId> {
        self.relations.clear();
        match statement {
            Statement::Query(query) => self.query(query),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
        }
    }

    fn returning(&mut self, list: &[(OutputColumn, Expr)]) -> Vec<TermId> {
        list.iter().map(|(_, expr)| self.expr(expr)).collect()
    }

    fn insert(&mut self, insert: &Insert) -> Vec<TermId> {
        match &insert.source {
            InsertSource::Values(rows) => {
                let mut outputs = Vec::new();
                for row in rows {
                    let given: Vec<TermId> = row.iter().map(|expr| self.expr(expr)).collect();
                    outputs = self.insert_row(insert, &given);
                }
                outputs
            }
            InsertSource::Query(query) => {
                let given = self.query(query);
                let frame = self.frame_of_query(query);
                let depth = self.context.len();
                self.context.extend(frame);
                let outputs = self.insert_row(insert, &given);
                self.context.truncate(depth);
                outputs
            }
        }
    }

    fn frame_of_query(&mut self, query: &Query) -> Option<Frame> {
        match &query.body {
            QueryBody::Select(select) if select.from.is_empty() => None,
            QueryBody::Select(select) if select.filter.is_none() => self.frame_of_from(&select.from),
            _ => {
                let site = self.terms().site();
                Some(Frame::Loop { site, count: None })
            }
        }
    }

    fn insert_row(&mut self, insert: &Insert, given: &[TermId]) -> Vec<TermId> {
        let null = self.terms().intern(Term::Null);
        let table = self.app.catalog.table(insert.table);
        let mut values = vec![null; table.columns.len()];
        for (&column, &term) in insert.columns.iter().zip(given) {
            values[column] = term;
        }
        for (column, default) in &insert.defaults {
            values[*column] = self.expr(default);
        }
        let on_conflict = insert.on_conflict.as_ref().map(|conflict| {
            self.relations.insert(insert.excluded, Binding::Outputs(values.clone()));
            let (mut update, mut adds) = (Vec::new(), Vec::new());
            if let Some((assignments, filter)) = &conflict.update {
                let row = self.add_read(insert.table, insert.span);
                self.relations.insert(insert.relation, Binding::Row(row));
                for &column in conflict.columns.iter().flatten() {
                    self.read_mut(row).key.push((column, values[column]));
                }
                filter.iter().for_each(|filter| {
                    self.expr(filter);
                });
                // DO UPDATE writes a value: whether it was the row's or the new one's is known only there.
                let assigned = self.assignments(insert.relation, row, assignments);
                let is_add = |change: &ColumnOperation| matches!(change, ColumnOperation::Add(_));
                adds =
                    assigned.iter().filter(|(_, change)| is_add(change)).map(|(column, _)| *column).collect();
                update = assigned
                    .into_iter()
                    .map(|(column, operation)| (column, ColumnOperation::Assign(operation.term())))
                    .collect();
            }
            Conflict { columns: conflict.columns.clone(), update, adds }
        });
        let operation = Operation::Insert { values: values.clone(), on_conflict };
        if let Operation::Insert { values: written, .. } = self.record(insert.table, operation, insert.span) {
            values = written;
        }
        self.relations.insert(insert.relation, Binding::Outputs(values));
        self.returning(&insert.returning)
    }

    /// The target row of an UPDATE or DELETE with what its conditions bind; a loop frame if others join in.
    fn target(
        &mut self,
        table: weir_sql::catalog::TableId,
        relation: RelationId,
        from: &[FromItem],
        filter: Option<&Expr>,
        span: weir_sql::Span,
    ) -> (ReadId, Option<Frame>) {
        let row = self.add_read(table, span);
        self.relations.insert(relation, Binding::Row(row));
        self.scope(Some(relation), from, filter);
        let conditions: Vec<&Expr> = filter.iter().flat_map(|filter| conjuncts(filter)).collect();
        let equalities = conditions
            .iter()
            .all(|condition| matches!(condition.kind, ExprKind::Binary { op: BinaryOp::Equal, .. }));
        let read = self.read_mut(row);
        read.by_key_alone = from.is_empty() && equalities && read.key.len() == conditions.len();
        let frame = if from.is_empty() { None } else { self.frame_of_from(from) };
        (row, frame)
    }

    fn update(&mut self, update: &Update) -> Vec<TermId> {
        let (row, frame) =
            self.target(update.table, update.relation, &update.from, update.filter.as_ref(), update.span);
        let columns = self.assignments(update.relation, row, &update.assignments);
        let depth = self.context.len();
        self.context.extend(frame);
        let written = self.record(update.table, Operation::Update { row, columns }, update.span);
        self.context.truncate(depth);
        let Operation::Update { columns, .. } = written else { return Vec::new() };
        let mut new = Vec::new();
        for &(column, operation) in &columns {
            let value = match operation {
                ColumnOperation::Assign(term) | ColumnOperation::Apply(term) => term,
                ColumnOperation::Add(delta) => {
                    let old = self.field(row, column);
                    self.terms().add(old, delta)
                }
                ColumnOperation::Max(_) | ColumnOperation::Min(_) => self.terms().unknown(),
            };
            new.push((column, value));
        }
        self.relations.insert(update.relation, Binding::Updated(row, new));
        self.returning(&update.returning)
    }

    fn delete(&mut self, delete: &Delete) -> Vec<TermId> {
        let (row, frame) =
            self.target(delete.table, delete.relation, &delete.using, delete.filter.as_ref(), delete.span);
        let depth = self.context.len();
        self.context.extend(frame);
        self.record(delete.table, Operation::Delete { row }, delete.span);
        self.context.truncate(depth);
        self.returning(&delete.returning)
    }

    fn assignments(
        &mut self,
        relation: RelationId,
        row: ReadId,
        assignments: &[(ColumnIndex, Expr)],
    ) -> Vec<(ColumnIndex, ColumnOperation)> {
        let table = self.app.catalog.table(self.read_mut(row).table);
        let mut operations = Vec::new();
        for (column, value) in assignments {
            let mut mentions_row = false;
            walk::columns(value, &mut |mentioned, _| mentions_row |= mentioned == relation);
            let operation = match table.columns[*column].generated {
                // All that it is made of is set with it: the last writer's are there as a whole.
                Some(_) if table.columns[*column].is_hidden && !mentions_row => {
                    ColumnOperation::Assign(self.expr(value))
                }
                // In the merge it is computed anew, of columns that two branches may have changed.
                Some(_) => ColumnOperation::Apply(self.expr(value)),
                None => self.operation(relation, row, *column, value),
            };
            operations.push((*column, operation));
        }
        operations
    }

    fn operation(
        &mut self,
        relation: RelationId,
        row: ReadId,
        column: ColumnIndex,
        value: &Expr,
    ) -> ColumnOperation {
        let is_self = |expr: &Expr| matches!(uncast(expr).kind, ExprKind::Column { relation: r, column: c } if r == relation && c == column);
        let mentions_row = |expr: &Expr| {
            let mut found = false;
            walk::columns(expr, &mut |mentioned, _| found |= mentioned == relation);
            found
        };
        let value = uncast(value);
        if !mentions_row(value) {
            return ColumnOperation::Assign(self.expr(value));
        }
        let mut summands = Vec::new();
        summands_of(value, false, &mut summands);
        let own = summands.iter().filter(|(expr, negative)| is_self(expr) && !negative).count();
        let others: Vec<_> = summands.iter().filter(|(expr, _)| !is_self(expr)).collect();
        if own == 1 && others.len() + 1 == summands.len() && !others.iter().any(|(e, _)| mentions_row(e)) {
            let mut delta = self.terms().intern(Term::Integer(0));
            for (expr, negative) in others {
                let mut term = self.expr(expr);
                if *negative {
                    term = self.terms().negate(term);
                }
                delta = self.terms().add(delta, term);
            }
            self.read_mut(row).columns.insert(column);
            return ColumnOperation::Add(delta);
        }
        if let ExprKind::Greatest(list) | ExprKind::Least(list) = &value.kind
            && list.len() == 2
            && let Some(at) = list.iter().position(is_self)
            && !mentions_row(&list[1 - at])
        {
            let other = self.expr(&list[1 - at]);
            return match value.kind {
                ExprKind::Greatest(_) => ColumnOperation::Max(other),
                _ => ColumnOperation::Min(other),
            };
        }
        ColumnOperation::Apply(self.expr(value))
    }
}

/// The terms of a sum with their signs.
fn summands_of<'e>(expr: &'e Expr, negative: bool, list: &mut Vec<(&'e Expr, bool)>) {
    let expr = uncast(expr);
    match &expr.kind {
        ExprKind::Binary { op: BinaryOp::Add, left, right } => {
            summands_of(left, negative, list);
            summands_of(right, negative, list);
        }
        ExprKind::Binary { op: BinaryOp::Subtract, left, right } => {
            summands_of(left, negative, list);
            summands_of(right, !negative, list);
        }
        _ => list.push((expr, negative)),
    }
}
