//! INSERT, UPDATE and DELETE.

use crate::exec::access::TableAccess;
use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::expr::compile::compile_list;
use crate::exec::foreseen::{arbiter, may_begin_again};
use crate::exec::query::CompiledQuery;
use crate::exec::routing::inserted;
use crate::exec::slots::ROW_IDENTITY;
use crate::exec::slots::Slot;
use crate::exec::walk;
use crate::exec::write::{
    Assignment, AssignmentKind, CompiledConflict, CompiledDelete, CompiledInsert, CompiledSource,
    CompiledUpdate, ConflictUpdate, DistantParent, Hold, Matches, Reference,
};
use crate::storage::UpdateName;
use std::sync::Arc;
use weir_sql::bound::{
    Delete, Expr, ExprKind, FromItem, Insert, InsertSource, OutputColumn, Query, RelationId, Select,
    Statement, Update,
};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::has_subquery;
use weir_sql::{Span, is_block};
use weir_types::{SqlError, SqlType, Value};

use super::ProcedureCompiler;

impl<'a> ProcedureCompiler<'a> {
    pub(super) fn insert(
        &mut self,
        insert: &Insert,
        statement: &Statement,
        hold: Hold,
    ) -> Result<CompiledInsert, SqlError> {
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
                CompiledSource::Query(Box::new(CompiledQuery::compile_in(query, &mut compiler)?))
            }
        };
        let mut defaults = Vec::new();
        for (column, expr) in &insert.defaults {
            defaults.push((*column, CompiledExpr::compile(expr, &mut compiler)?));
        }
        let on_conflict = match &insert.on_conflict {
            None => None,
            Some(conflict) => {
                let index = arbiter(self.schema.table(insert.table), conflict.columns.as_deref());
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
                        // The new values depend on the current ones.
                        let hold = if hold == Hold::Locks { hold } else { Hold::Claims };
                        Some(ConflictUpdate { assignments: compiled, filter, hold })
                    }
                };
                Some(CompiledConflict { index, update })
            }
        };
        let returning: Result<Vec<_>, SqlError> =
            insert.returning.iter().map(|(_, expr)| CompiledExpr::compile(expr, &mut compiler)).collect();
        let returning = returning?;
        let is_statement = self.text.is_some_and(|text| !is_block(&text.sql));
        let may_begin_again =
            is_statement && may_begin_again(&self.router, self.schema, self.procedure, insert);
        let mut distant_parents = Vec::new();
        for (rule, (compiled, key)) in self.rules[insert.table.0 as usize]
            .foreign_keys
            .iter()
            .zip(&self.router.catalog.table(insert.table).foreign_keys)
            .enumerate()
        {
            if !compiled.is_distant()
                || !compiled.is_looked_up_with_values()
                // A row that is not inserted needs no parent.
                || insert.on_conflict.is_some()
                || !self.router.is_partitioned(insert.table)
                || self.router.proven.holds(insert, rule)
            {
                continue;
            }
            let InsertSource::Values(rows) = &insert.source else { continue };
            let mut compiled_rows = Vec::new();
            for row in rows {
                let partition = self.router.parent(insert, row, key);
                let Some(partition) = partition.filter(|keys| !self.origins.is_own(keys)) else { continue };
                let mut values = Vec::new();
                for column in &compiled.key_columns {
                    match inserted(insert, row, *column) {
                        Some(value) => values.push(CompiledExpr::compile(value, &mut compiler)?),
                        None => values.push(CompiledExpr::Constant(Value::Null)),
                    }
                }
                compiled_rows.push((compile_list(&partition, &mut compiler)?, values));
            }
            distant_parents.push(DistantParent { rule, rows: compiled_rows });
        }
        let asks = match &insert.source {
            InsertSource::Values(rows) => rows.len() > 1 && rows.iter().flatten().any(has_subquery),
            InsertSource::Query(_) => false,
        };
        let foreign_keys = 0..self.rules[insert.table.0 as usize].foreign_keys.len();
        let (parents_seen, _) = foreign_keys.partition(|&rule| self.router.proven.holds(insert, rule));
        Ok(CompiledInsert {
            table: insert.table,
            parents_seen,
            columns: insert.columns.clone(),
            source,
            defaults,
            on_conflict,
            may_begin_again,
            returning,
            continues: insert.continues,
            row_slots: self.slots.columns_of(insert.relation),
            excluded_slots: self.slots.columns_of(insert.excluded),
            distant_parents,
            asks,
            spread: self.spread(insert)?,
        })
    }

    fn spread(&mut self, insert: &Insert) -> Result<Vec<Vec<CompiledExpr>>, SqlError> {
        if self.shards == 1 {
            return Ok(Vec::new());
        }
        let keys = self.router.spread(insert).unwrap_or_default();
        keys.iter().map(|key| compile_list(key, &mut self.compiler())).collect()
    }

    pub(super) fn update(
        &mut self,
        update: &Update,
        statement: &Statement,
        hold: Hold,
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
        let escrow = match hold {
            Hold::Escrow => self.escrow(update, &rows, &assignments),
            _ => None,
        };
        let hold = if escrow.is_none() { hold.without_escrow() } else { hold };
        let captures = captures(update, &assignments);
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
        let acts = |key: &Reference| !key.on_update.refuses() && key.parent_columns.iter().any(assigned);
        let asks = update.assignments.iter().any(|(_, value)| walk::has_subquery(value));
        Ok(CompiledUpdate {
            sees_writes: asks || rules.referenced_by.iter().any(acts),
            name: self.update_name(),
            table: update.table,
            rows,
            assignments,
            returning,
            row_slots,
            hold,
            escrow,
            captures,
            checked,
            slots: self.slots.slots_max(),
            cells: self.slots.cells_max(),
        })
    }

    fn update_name(&self) -> UpdateName {
        let number = self.updates.borrow().len() as u32;
        match self.text {
            None => UpdateName::Program(number),
            Some(text) => UpdateName::Text(text.clone(), number),
        }
    }

    pub(super) fn delete(
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

    pub(super) fn matches(
        &mut self,
        table: TableId,
        relation: RelationId,
        others: &[FromItem],
        filter: Option<&Expr>,
    ) -> Result<Matches, SqlError> {
        if others.is_empty() {
            let conditions: Vec<&Expr> = filter.into_iter().flat_map(walk::conjuncts).collect();
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
        let select = Select::plain(vec![identity], from, filter.cloned());
        let columns = vec![OutputColumn::new("row".to_string(), SqlType::Int8)];
        let query = Query::of_select(select, columns, span);
        Ok(Matches::Join(CompiledQuery::compile_in(&query, &mut self.compiler())?))
    }

    /// Design §3: `x = x + d` adds, `x = greatest(x, v)` is a maximum, `x = v` assigns, and any other
    /// expression over the same row is applied to the row that it meets.
    pub(super) fn assignment_kind(
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
        // A value of other rows is read now and written back: an assignment.
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
pub(super) fn uncast(expr: &Expr) -> &Expr {
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
pub(super) fn same_representation(from: &SqlType, to: &SqlType) -> bool {
    match (from, to) {
        (SqlType::Text | SqlType::Varchar(_), SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Char(_), SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Numeric(_), SqlType::Numeric(None)) => true,
        (SqlType::Int2, SqlType::Int4 | SqlType::Int8) | (SqlType::Int4, SqlType::Int8) => true,
        (SqlType::Array(from), SqlType::Array(to)) => same_representation(from, to),
        (from, to) => from == to,
    }
}

/// See [`CompiledUpdate::captures`]: an overwriting assignment keeps the value that it had, and a delta that
/// can overflow although its sum does not (`x - q` adds `-q`) is worked out while its error still counts.
fn captures(update: &Update, assignments: &[Assignment]) -> Option<Vec<Slot>> {
    let by_row = |assignment: &Assignment| match &assignment.kind {
        AssignmentKind::Assign => false,
        AssignmentKind::Add(CompiledExpr::Negate(_, ty)) => !ty.is_integer(),
        _ => true,
    };
    let alone = |expr: &Expr| !walk::has_subquery(expr) && !walk::is_volatile(expr);
    let lazy = update.from.is_empty()
        && assignments.iter().all(by_row)
        && update.assignments.iter().all(|(_, expr)| alone(expr));
    if !lazy {
        return None;
    }
    let mut variables = Vec::new();
    for (_, expr) in &update.assignments {
        walk::each_expr(expr, &mut |expr| match expr.kind {
            ExprKind::Variable(variable) if !variables.contains(&variable.0) => variables.push(variable.0),
            _ => {}
        });
    }
    Some(variables)
}
