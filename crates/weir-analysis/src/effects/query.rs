//! Queries: which rows of which tables, found by which key, and what comes out as terms.

use weir_sql::bound::{Expr, Query, QueryBody, Select};

use super::expression::integer;
use super::interpret::Interpreter;
use super::{ReadId, Term, TermId};

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
        let mut rows = Vec::new();
        let outputs = match &query.body {
            QueryBody::Select(select) => {
                let (outputs, each) = self.select(select);
                rows = each;
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
        if !query.locks.is_empty() {
            self.effects.reads[first_read..].iter_mut().for_each(|read| read.locked = true);
        }
        self.ctes.pop();
        self.result_rows = rows;
        outputs
    }

    /// `ORDER BY c LIMIT 1` reads the row with the lowest c.
    fn note_lowest(&mut self, query: &Query, outputs: &[TermId]) {
        let Some(order) = query.order_by.first() else { return };
        if order.order.descending || query.with_ties || query.limit.as_ref().and_then(integer) != Some(1) {
            return;
        }
        if let Some(&term) = outputs.get(order.output)
            && let Term::Field { row, column } = *self.terms().get(term)
        {
            self.read_mut(row).lowest = Some(column);
        }
    }

    pub(super) fn rows(&mut self, rows: &[Vec<Expr>]) -> Vec<TermId> {
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

    /// The outputs, and the rows of which each row of the result has one.
    fn select(&mut self, select: &Select) -> (Vec<TermId>, Vec<ReadId>) {
        let rows = self.scope(None, &select.from, select.filter.as_ref());
        let outputs = select.outputs.iter().map(|expr| self.expr(expr)).collect();
        select.group_by.iter().chain(&select.having).for_each(|expr| {
            self.expr(expr);
        });
        (outputs, if select.aggregates { Vec::new() } else { rows })
    }
}
