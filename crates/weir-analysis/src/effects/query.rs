//! Queries: which rows of which tables, found by which key, and what comes out as terms.

use weir_sql::bound::{
    BinaryOp, Distinct, Expr, ExprKind, FromItem, JoinKind, Query, QueryBody, Select, TableFunction,
};
use weir_sql::walk::{conjuncts, uncast};

use super::expression::integer;
use super::interpret::{Binding, Interpreter};
use super::{Frame, ReadId, Term, TermId};

impl Interpreter<'_> {
    /// The outputs of a query in the running statement.
    pub(super) fn query(&mut self, query: &Query) -> Vec<TermId> {
        let mut ctes = Vec::new();
        self.ctes.push(Vec::new());
        for cte in &query.ctes {
            let outputs = self.query(&cte.query);
            ctes.push(outputs);
            *self.ctes.last_mut().expect("pushed above") = ctes.clone();
        }
        let first_read = self.effects.reads.len();
        let outputs = match &query.body {
            QueryBody::Select(select) => {
                let outputs = self.select(select);
                self.note_lowest(query, &outputs);
                outputs
            }
            QueryBody::SetOperation { left, right, .. } => {
                let (left, right) = (self.query(left), self.query(right));
                left.iter().zip(&right).map(|(&a, &b)| self.terms().choice(&[a, b])).collect()
            }
            QueryBody::Values(rows) => self.rows(rows),
        };
        query.limit.iter().chain(&query.offset).for_each(|expr| {
            self.expr(expr);
        });
        if query.lock_rows {
            self.effects.reads[first_read..].iter_mut().for_each(|read| read.locked = true);
        }
        self.ctes.pop();
        outputs
    }

    /// `ORDER BY c LIMIT 1` reads the row with the lowest c.
    fn note_lowest(&mut self, query: &Query, outputs: &[TermId]) {
        let Some(order) = query.order_by.first() else { return };
        if order.order.descending || query.limit.as_ref().and_then(integer) != Some(1) {
            return;
        }
        if let Some(&term) = outputs.get(order.output)
            && let Term::Field { row, column } = *self.terms().get(term)
        {
            self.read_mut(row).lowest = Some(column);
        }
    }

    fn rows(&mut self, rows: &[Vec<Expr>]) -> Vec<TermId> {
        let mut outputs: Vec<TermId> = Vec::new();
        for row in rows {
            let terms: Vec<TermId> = row.iter().map(|expr| self.expr(expr)).collect();
            outputs = if outputs.is_empty() {
                terms
            } else {
                outputs.iter().zip(&terms).map(|(&a, &b)| self.terms().choice(&[a, b])).collect()
            };
        }
        outputs
    }

    fn select(&mut self, select: &Select) -> Vec<TermId> {
        let mut conditions: Vec<&Expr> = Vec::new();
        for item in &select.from {
            self.bind_from(item, &mut conditions);
        }
        conditions.extend(select.filter.iter().flat_map(conjuncts));
        self.bind_keys(&conditions);
        let outputs = select.outputs.iter().map(|expr| self.expr(expr)).collect();
        select.group_by.iter().chain(&select.having).for_each(|expr| {
            self.expr(expr);
        });
        let _ = matches!(select.distinct, Distinct::All);
        outputs
    }

    /// Gives each relation its meaning and collects the conditions of inner joins.
    pub(super) fn bind_from<'e>(&mut self, item: &'e FromItem, conditions: &mut Vec<&'e Expr>) {
        match item {
            FromItem::Table { relation, table, span, .. } => {
                let read = self.add_read(*table, *span);
                self.relations.insert(*relation, Binding::Row(read));
            }
            FromItem::Subquery { relation, query, .. } => {
                let outputs = self.query(query);
                self.relations.insert(*relation, Binding::Outputs(outputs));
            }
            FromItem::Cte { relation, level, index } => {
                let scope = self.ctes.len().checked_sub(level + 1).and_then(|at| self.ctes.get(at));
                let outputs = scope.and_then(|ctes| ctes.get(*index)).cloned().unwrap_or_default();
                self.relations.insert(*relation, Binding::Outputs(outputs));
            }
            FromItem::Function { relation, function, args, with_ordinality, .. } => {
                let args: Vec<TermId> = args.iter().map(|arg| self.expr(arg)).collect();
                let site = self.terms().site();
                let index = self.terms().intern(Term::Index(site));
                let mut outputs = match function {
                    TableFunction::GenerateSeries => vec![index],
                    TableFunction::Unnest => args
                        .iter()
                        .map(|&array| self.terms().intern(Term::Element { array, index }))
                        .collect(),
                };
                if *with_ordinality {
                    outputs.push(index);
                }
                self.relations.insert(*relation, Binding::Outputs(outputs));
            }
            FromItem::Values { relation, rows, .. } => {
                let outputs = self.rows(rows);
                self.relations.insert(*relation, Binding::Outputs(outputs));
            }
            FromItem::Join { kind, left, right, on } => {
                self.bind_from(left, conditions);
                self.bind_from(right, conditions);
                match kind {
                    JoinKind::Inner | JoinKind::Cross | JoinKind::Left => {
                        conditions.extend(on.iter().flat_map(conjuncts))
                    }
                    JoinKind::Right | JoinKind::Full => on.iter().for_each(|on| {
                        self.expr(on);
                    }),
                }
            }
        }
    }

    /// Binds columns by the equalities among the conditions, and reads what the others mention.
    pub(super) fn bind_keys(&mut self, conditions: &[&Expr]) {
        let mut equalities: Vec<(&Expr, &Expr)> = Vec::new();
        let mut memberships = Vec::new();
        for condition in conditions {
            match &condition.kind {
                ExprKind::Binary { op: BinaryOp::Equal, left, right } => {
                    equalities.push((uncast(left), uncast(right)));
                }
                ExprKind::QuantifiedSubquery { op: BinaryOp::Equal, left, query, all: false } => {
                    memberships.push((left, query));
                }
                ExprKind::ArrayCompare { op: BinaryOp::Equal, left, array, all: false } => {
                    self.bind_to_element(uncast(left), array);
                }
                _ => {}
            }
        }
        for (left, query) in memberships {
            let outputs = self.query(query);
            for (column, term) in left.iter().zip(outputs) {
                self.bind(uncast(column), term);
            }
        }
        // Values from outside first, so that `a.x = b.y AND b.y = $1` binds both to $1.
        for weak in [false, true] {
            let mut progress = true;
            while progress {
                progress = false;
                for &(left, right) in &equalities {
                    let (a, b) = (self.expr(left), self.expr(right));
                    if a != b {
                        progress |= self.bind_unless_local(left, b, weak);
                        progress |= self.bind_unless_local(right, a, weak);
                    }
                }
            }
        }
        for condition in conditions {
            if !matches!(condition.kind, ExprKind::QuantifiedSubquery { .. }) {
                self.expr(condition);
            }
        }
    }

    fn bind_to_element(&mut self, column: &Expr, array: &Expr) {
        let array = self.expr(array);
        let site = self.terms().site();
        let index = self.terms().intern(Term::Index(site));
        let element = self.terms().intern(Term::Element { array, index });
        self.bind(column, element);
    }

    /// `weak` also takes columns of other rows of the same query.
    fn bind_unless_local(&mut self, column: &Expr, term: TermId, weak: bool) -> bool {
        let own_row = match *self.terms().get(term) {
            Term::Field { row, .. } => self.is_in_scope(row),
            _ => false,
        };
        if own_row && !weak {
            return false;
        }
        self.bind(column, term)
    }

    fn is_in_scope(&self, row: ReadId) -> bool {
        self.relations.values().any(|binding| matches!(binding, Binding::Row(bound) if *bound == row))
    }

    fn bind(&mut self, expr: &Expr, term: TermId) -> bool {
        let ExprKind::Column { relation, column } = uncast(expr).kind else { return false };
        let Some(Binding::Row(row)) = self.relations.get(&relation) else { return false };
        let row = *row;
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
        if let (FromItem::Function { relation, function: TableFunction::Unnest, .. }, 1) = (item, from.len())
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
