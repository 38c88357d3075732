//! GENERATED ALWAYS AS (…) STORED: a write of a row also assigns such columns, computed from the others.

use weir_types::SqlState;

use super::Binder;
use super::insert::{around, default_of};
use crate::bound::{Distinct, Expr, ExprKind, Insert, InsertSource, OutputColumn, QueryBody, RelationId};
use crate::catalog::{ColumnIndex, Table};
use crate::source::{Diagnostic, Span};
use crate::walk;

/// Where the value of each column of the new row comes from.
type ValueOf<'v> = &'v dyn Fn(ColumnIndex) -> Expr;

impl Binder<'_> {
    /// Those that depend on what is assigned, over the row as it was.
    pub(super) fn generated_along(
        &self,
        table: &Table,
        relation: RelationId,
        assignments: &[(ColumnIndex, Expr)],
    ) -> Result<Vec<(ColumnIndex, Expr)>, Diagnostic> {
        let mut along = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            let Some(generated) = &column.generated else { continue };
            let mut depends = false;
            walk::columns(generated, &mut |_, source| {
                depends |= assignments.iter().any(|(assigned, _)| *assigned == source);
            });
            if !depends {
                continue;
            }
            let value = |column: ColumnIndex| match assignments.iter().find(|(one, _)| *one == column) {
                Some((_, value)) => value.clone(),
                None => Expr {
                    kind: ExprKind::Column { relation, column },
                    ty: table.columns[column].ty.clone(),
                    span: generated.span,
                },
            };
            along.push((index, self.generated_from(table, index, &value)?));
        }
        Ok(along)
    }

    fn generated_from(
        &self,
        table: &Table,
        column: ColumnIndex,
        value: ValueOf<'_>,
    ) -> Result<Expr, Diagnostic> {
        let Some(generated) = &table.columns[column].generated else {
            return Ok(default_of(table, column, Span::default()));
        };
        let mut once = None;
        walk::columns(generated, &mut |_, source| {
            let value = value(source);
            // It is worked out for its own column, and again for this one.
            if once.is_none() && (walk::is_volatile(&value) || walk::has_subquery(&value)) {
                once = Some(value.span);
            }
        });
        match once {
            Some(span) => Err(Diagnostic::unsupported(
                span,
                match table.columns[column].is_hidden {
                    true => {
                        "a value that is worked out once, and of which a unique index is made,".to_owned()
                    }
                    false => format!(
                        "a value that is worked out once, and of which the generated column \"{}\" is made,",
                        table.columns[column].name
                    ),
                },
                "write the value itself, or pass it as a parameter",
            )),
            None => Ok(substituted(generated, value)),
        }
    }

    /// Those of an INSERT become columns that it writes.
    pub(super) fn insert_generated(&mut self, table: &Table, insert: &mut Insert) -> Result<(), Diagnostic> {
        let generated: Vec<ColumnIndex> =
            (0..table.columns.len()).filter(|&column| table.columns[column].generated.is_some()).collect();
        if generated.is_empty() {
            return Ok(());
        }
        insert.defaults.retain(|(column, _)| !generated.contains(column));
        let span = insert.span;
        let given = insert.columns.clone();
        let own = |column: &ColumnIndex| generated.contains(column);
        let value_of = |row: &[Expr], column: ColumnIndex| {
            let at = given.iter().position(|one| *one == column);
            at.and_then(|at| row.get(at)).cloned().unwrap_or_else(|| default_of(table, column, span))
        };
        match &mut insert.source {
            InsertSource::Values(rows) => {
                for row in rows {
                    let mut values = Vec::with_capacity(generated.len());
                    for &column in &generated {
                        values.push(self.generated_from(table, column, &|column| value_of(row, column))?);
                    }
                    // DEFAULT is what they are anyway.
                    let mut at = 0;
                    row.retain(|_| {
                        at += 1;
                        !given.get(at - 1).is_some_and(own)
                    });
                    row.extend(values);
                }
            }
            InsertSource::Query(query) => {
                if given.iter().any(own) {
                    return Err(refused(table, generated[0], span));
                }
                let is_plain = matches!(&query.body, QueryBody::Select(select)
                    if matches!(select.distinct, Distinct::All)
                        && !select.aggregates
                        && select.outputs.len() == query.columns.len()
                        && select.outputs.iter().all(|output| !walk::is_volatile(output)
                            && !walk::has_subquery(output)
                            && !walk::has_window(output)));
                if !is_plain {
                    let relation = self.new_relation();
                    let column = |(column, output): (usize, &OutputColumn)| Expr {
                        kind: ExprKind::Column { relation, column },
                        ty: output.ty.clone(),
                        span,
                    };
                    let outputs = query.columns.iter().enumerate().map(column).collect();
                    **query = around((**query).clone(), relation, outputs);
                }
                if let QueryBody::Select(select) = &mut query.body {
                    for &column in &generated {
                        let row = &select.outputs;
                        let value = self.generated_from(table, column, &|column| value_of(row, column))?;
                        let (name, ty) = (table.columns[column].name.clone(), value.ty.clone());
                        query.columns.push(OutputColumn::new(name, ty));
                        select.outputs.push(value);
                    }
                }
            }
        }
        insert.columns.retain(|column| !own(column));
        insert.columns.extend(generated);
        Ok(())
    }
}

pub(super) fn refused(table: &Table, column: ColumnIndex, span: Span) -> Diagnostic {
    let name = &table.columns[column].name;
    let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
    Diagnostic::new(SqlState::GENERATED_ALWAYS, span, message)
        .with_hint(format!("column \"{name}\" is a generated column: leave it away"))
}

/// The expression over a row of these values. It has no subqueries.
fn substituted(expr: &Expr, value: ValueOf<'_>) -> Expr {
    if let ExprKind::Column { column, .. } = expr.kind {
        return value(column);
    }
    let mut own = expr.clone();
    for part in walk::parts_mut(&mut own) {
        *part = substituted(part, value);
    }
    own
}
