//! FROM and WHERE: what each relation of a query stands for, and which conditions its rows must meet.
//!
//! A condition restricts only rows that do not matter where it is false. ON of an outer join restricts the rows
//! that it may leave out, not those that it keeps; WHERE restricts the latter, unless it speaks of the former,
//! which may be NULL there.

use weir_sql::bound::{
    BinaryOp, Distinct, Expr, ExprKind, FromItem, JoinKind, Query, QueryBody, RelationId, TableCall,
    TableFunction,
};
use weir_sql::walk::{self, conjuncts};

use super::expression::same_value;
use super::interpret::{Binding, Interpreter};
use super::{Condition, Frame, ReadId, Term, TermId};

/// The relations of a FROM clause.
#[derive(Default)]
pub(super) struct Scope<'e> {
    /// Each has a row in every row of the join.
    inner: Vec<RelationId>,
    /// May be NULL.
    outer: Vec<RelationId>,
    demands: Vec<Demand<'e>>,
    /// Inner relations of the null-extended sides, each with relations whose rows theirs stand beside.
    sides: Vec<(Vec<RelationId>, Vec<RelationId>)>,
}

/// A condition, and the relations whose rows matter only where it is true.
struct Demand<'e> {
    expr: &'e Expr,
    on: Vec<RelationId>,
}

impl<'e> Scope<'e> {
    fn and(mut self, other: Scope<'e>) -> Scope<'e> {
        self.inner.extend(other.inner);
        self.outer.extend(other.outer);
        self.demands.extend(other.demands);
        self.sides.extend(other.sides);
        self
    }

    /// Everything here may be NULL beside `kept`; its rows matter where `on` is true.
    fn null_extended(mut self, kept: &Scope<'e>, on: Option<&'e Expr>) -> Scope<'e> {
        let known: Vec<RelationId> = self.outer.iter().chain(&kept.outer).copied().collect();
        let inner = std::mem::take(&mut self.inner);
        self.demand(on, &inner, &known);
        self.outer.extend(&inner);
        self.sides.push((inner, kept.inner.clone()));
        self
    }

    fn demand(&mut self, expr: Option<&'e Expr>, on: &[RelationId], may_be_null: &[RelationId]) {
        for expr in expr.into_iter().flat_map(conjuncts) {
            let mut speaks_of_null = false;
            walk::columns(expr, &mut |relation, _| speaks_of_null |= may_be_null.contains(&relation));
            let on = if speaks_of_null { Vec::new() } else { on.to_vec() };
            self.demands.push(Demand { expr, on });
        }
    }
}

impl Interpreter<'_> {
    /// Interprets FROM and WHERE: binds keys, records conditions. The rows of which each row of the join has one.
    pub(super) fn scope<'e>(
        &mut self,
        target: Option<RelationId>,
        from: &'e [FromItem],
        filter: Option<&'e Expr>,
    ) -> Vec<ReadId> {
        let start = Scope { inner: target.into_iter().collect(), ..Scope::default() };
        let mut scope = from.iter().fold(start, |scope, item| scope.and(self.bind_from(item)));
        let (inner, outer) = (scope.inner.clone(), scope.outer.clone());
        scope.demand(filter, &inner, &outer);
        let comparing = std::mem::replace(&mut self.comparing, true);
        self.bind_keys(&scope.demands);
        self.record_conditions(&scope);
        self.comparing = comparing;
        self.rows_of(&scope.inner)
    }

    fn rows_of(&self, relations: &[RelationId]) -> Vec<ReadId> {
        let rows = |relation: &RelationId| match self.relations.get(relation) {
            Some(Binding::Row(row)) => vec![*row],
            _ => self.transparent.get(relation).cloned().unwrap_or_default(),
        };
        relations.iter().flat_map(rows).collect()
    }

    /// The conditions go to the first row of those that they restrict; the others refer to it.
    fn record_conditions(&mut self, scope: &Scope<'_>) {
        for Demand { expr, on } in &scope.demands {
            if matches!(expr.kind, ExprKind::QuantifiedSubquery { op: BinaryOp::Equal, all: false, .. }) {
                continue;
            }
            let condition = self.condition(expr);
            if let Some(&row) = self.rows_of(on).first()
                && condition != Condition::Unknown
            {
                self.read_mut(row).conditions.push(condition);
            }
        }
        let main = (scope.inner.clone(), Vec::new());
        for (relations, beside) in scope.sides.iter().chain([&main]) {
            let rows = self.rows_of(relations);
            let Some((&first, rest)) = rows.split_first() else { continue };
            let beside = self.rows_of(beside);
            let others = rest.iter().chain(beside.first()).map(|&row| Condition::Row(row));
            self.read_mut(first).conditions.extend(others);
            rest.iter().for_each(|&row| self.read_mut(row).conditions.push(Condition::Row(first)));
        }
    }

    /// Gives each relation its meaning.
    fn bind_from<'e>(&mut self, item: &'e FromItem) -> Scope<'e> {
        let relation = match item {
            FromItem::Table { relation, table, span, .. } => {
                let read = self.add_read(*table, *span);
                self.relations.insert(*relation, Binding::Row(read));
                relation
            }
            FromItem::Subquery { relation, query, .. } => {
                let outputs = self.query(query);
                let rows = std::mem::take(&mut self.result_rows);
                self.relations.insert(*relation, Binding::Outputs(outputs));
                if is_transparent(query) {
                    self.transparent.insert(*relation, rows);
                }
                relation
            }
            FromItem::Cte { relation, level, index } => {
                let scope = self.ctes.len().checked_sub(level + 1).and_then(|at| self.ctes.get(at));
                let outputs = scope.and_then(|ctes| ctes.get(*index)).cloned().unwrap_or_default();
                self.relations.insert(*relation, Binding::Outputs(outputs));
                relation
            }
            FromItem::Function { relation, calls, with_ordinality, .. } => {
                let outputs = self.table_functions(calls, *with_ordinality);
                self.relations.insert(*relation, Binding::Outputs(outputs));
                relation
            }
            FromItem::Values { relation, rows, .. } => {
                let outputs = self.rows(rows);
                self.relations.insert(*relation, Binding::Outputs(outputs));
                relation
            }
            FromItem::Join { kind, left, right, on } => {
                let (left, right) = (self.bind_from(left), self.bind_from(right));
                return join(*kind, left, right, on.as_ref());
            }
        };
        Scope { inner: vec![*relation], ..Scope::default() }
    }

    fn table_functions(&mut self, calls: &[TableCall], numbered: bool) -> Vec<TermId> {
        let site = self.terms().site();
        let index = self.terms().intern(Term::Index(site));
        let mut outputs = Vec::new();
        for call in calls {
            let args: Vec<TermId> = call.args.iter().map(|arg| self.expr(arg)).collect();
            match (call.function, &args[..]) {
                (TableFunction::GenerateSeries, _) => outputs.push(index),
                (TableFunction::Unnest, &[array]) => {
                    outputs.push(self.terms().intern(Term::Element { array, index }));
                }
                (TableFunction::Scalar, &[value]) => outputs.push(value),
                // The outputs of other functions are unknown values that depend on the arguments.
                (function, _) => outputs.extend((0..call.width).map(|column| {
                    let name = format!("{function:?} {column} {site:?}");
                    let args = args.iter().copied().chain([index]).collect();
                    self.terms().call(name, args)
                })),
            }
        }
        if numbered {
            outputs.push(index);
        }
        outputs
    }

    /// Binds columns by the equalities among the conditions.
    fn bind_keys(&mut self, demands: &[Demand<'_>]) {
        let mut equalities: Vec<(&Expr, &Expr, &[RelationId])> = Vec::new();
        let mut memberships = Vec::new();
        for Demand { expr, on } in demands {
            match &expr.kind {
                ExprKind::Binary { op: BinaryOp::Equal, left, right } => {
                    equalities.push((same_value(left), same_value(right), on));
                }
                ExprKind::QuantifiedSubquery { op: BinaryOp::Equal, left, query, all: false } => {
                    memberships.push((left, query, on));
                }
                ExprKind::ArrayCompare { op: BinaryOp::Equal, left, array, all: false } => {
                    self.bind_to_element(same_value(left), array, on);
                }
                _ => {}
            }
        }
        for (left, query, on) in memberships {
            let outputs = self.query(query);
            for (column, term) in left.iter().zip(outputs) {
                self.expr(column);
                self.bind(same_value(column), term, on);
            }
        }
        // Values from outside first, so that `a.x = b.y AND b.y = $1` binds both to $1.
        for weak in [false, true] {
            let mut progress = true;
            while progress {
                progress = false;
                for &(left, right, on) in &equalities {
                    let (a, b) = (self.expr(left), self.expr(right));
                    if a != b {
                        progress |= self.bind_unless_local(left, b, on, weak);
                        progress |= self.bind_unless_local(right, a, on, weak);
                    }
                }
            }
        }
    }

    fn bind_to_element(&mut self, column: &Expr, array: &Expr, on: &[RelationId]) {
        let array = self.expr(array);
        let site = self.terms().site();
        let index = self.terms().intern(Term::Index(site));
        let element = self.terms().intern(Term::Element { array, index });
        self.bind(column, element, on);
    }

    /// `weak` also takes columns of other rows of the same query.
    fn bind_unless_local(&mut self, column: &Expr, term: TermId, on: &[RelationId], weak: bool) -> bool {
        let own_row = match *self.terms().get(term) {
            Term::Field { row, .. } => self.is_in_scope(row),
            _ => false,
        };
        if own_row && !weak {
            return false;
        }
        self.bind(column, term, on)
    }

    fn is_in_scope(&self, row: ReadId) -> bool {
        self.relations.values().any(|binding| matches!(binding, Binding::Row(bound) if *bound == row))
    }

    fn bind(&mut self, expr: &Expr, term: TermId, on: &[RelationId]) -> bool {
        let ExprKind::Column { relation, column } = expr.kind else { return false };
        if !on.contains(&relation) {
            return false;
        }
        let (row, column) = match self.relations.get(&relation) {
            Some(Binding::Row(row)) => (*row, column),
            Some(Binding::Outputs(outputs)) => {
                let Some(&output) = outputs.get(column) else { return false };
                let Term::Field { row, column } = *self.effects.terms.get(output) else { return false };
                if !self.transparent.get(&relation).is_some_and(|rows| rows.contains(&row)) {
                    return false;
                }
                (row, column)
            }
            _ => return false,
        };
        let from_itself = self.terms().leaves(term).into_iter().any(
            |leaf| matches!(self.effects.terms.get(leaf), Term::Field { row: other, .. } if *other == row),
        );
        let read = self.read_mut(row);
        read.columns.insert(column);
        if from_itself || read.key.iter().any(|(bound, _)| *bound == column) {
            return false;
        }
        read.key.push((column, term));
        true
    }

    /// A loop frame for a statement that makes one row out of each of another's.
    pub(super) fn frame_of_from(&mut self, from: &[FromItem]) -> Option<Frame> {
        let item = from.first()?;
        if let (FromItem::Function { relation, calls, .. }, 1) = (item, from.len())
            && matches!(&calls[..], [TableCall { function: TableFunction::Unnest, .. }])
            && let Some(Binding::Outputs(outputs)) = self.relations.get(relation).cloned()
            && let Some(Term::Element { array, index }) =
                outputs.first().map(|&id| self.terms().get(id).clone())
            && let Term::Index(site) = *self.terms().get(index)
        {
            let count = self.terms().call("cardinality", vec![array]);
            return Some(Frame::Loop { site, count: Some(count) });
        }
        let site = self.terms().site();
        Some(Frame::Loop { site, count: None })
    }
}

fn join<'e>(kind: JoinKind, left: Scope<'e>, right: Scope<'e>, on: Option<&'e Expr>) -> Scope<'e> {
    match kind {
        JoinKind::Inner | JoinKind::Cross => {
            let mut both = left.and(right);
            let (inner, outer) = (both.inner.clone(), both.outer.clone());
            both.demand(on, &inner, &outer);
            both
        }
        JoinKind::Left => {
            let right = right.null_extended(&left, on);
            left.and(right)
        }
        JoinKind::Right => {
            let left = left.null_extended(&right, on);
            right.and(left)
        }
        JoinKind::Full => {
            // A row is in the result whether ON is true of it or not: nothing restricts it.
            let nobody = Scope::default();
            let mut both = left.null_extended(&nobody, None).and(right.null_extended(&nobody, None));
            both.demand(on, &[], &[]);
            both
        }
    }
}

/// Each row of the result is one row of each inner relation, and every such row is in the result.
fn is_transparent(query: &Query) -> bool {
    let QueryBody::Select(select) = &query.body else { return false };
    let plain = !select.aggregates
        && !matches!(select.distinct, Distinct::On(_))
        && !select.outputs.iter().any(walk::has_window);
    plain && query.limit.is_none() && query.offset.is_none()
}
