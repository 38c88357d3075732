//! SELECT, VALUES, set operations and WITH.

use pg_query::protobuf::{CommonTableExpr, LimitOption, Node, SelectStmt, SetOperation, WithClause, node};
use weir_types::{CastContext, SqlState, SqlType};

use super::Binder;
use super::catalog_type::unite;
use super::coerce::null;
use super::output::Target;
use super::recursive::Recursive;
use super::scope::{Aggregates, CteFrame, CteKind, CteName, Scope};
use crate::bound::{
    Cte, Distinct, Expr, FromItem, OrderBy, OutputColumn, Query, QueryBody, Select, SetOperator,
};
use crate::parse;
use crate::source::{Diagnostic, Span};
use crate::walk;

/// Limit on nested subqueries: evaluation takes a hundred kilobytes of stack for each.
const SUBQUERIES_MAX: usize = 40;

impl<'a> Binder<'a> {
    /// A query whose literals have found a type.
    pub(super) fn bind_query(&mut self, select: &'a SelectStmt) -> Result<Query, Diagnostic> {
        self.bind_query_with(select, true)
    }

    /// With `settle` false, literals in the outputs stay of unknown type, for the caller to decide.
    pub(super) fn bind_query_with(
        &mut self,
        select: &'a SelectStmt,
        settle: bool,
    ) -> Result<Query, Diagnostic> {
        if self.subqueries >= SUBQUERIES_MAX {
            return Err(parse::too_deep(self.piece.span()));
        }
        self.subqueries += 1;
        let result = self.bind_arm(select, settle);
        self.subqueries -= 1;
        result
    }

    /// A query, or one of those that a set operation combines, of which there may be many.
    fn bind_arm(&mut self, select: &'a SelectStmt, settle: bool) -> Result<Query, Diagnostic> {
        self.ctes.push(CteFrame { names: Vec::new(), is_query: true });
        let (scopes, ctes, windows) = (self.scopes.len(), self.ctes.len(), self.window_clauses.len());
        let result = self.deeper(|binder| binder.bind_level(select, settle));
        debug_assert!(result.is_err() || self.scopes.len() == scopes);
        self.scopes.truncate(scopes);
        self.ctes.truncate(ctes - 1);
        self.window_clauses.truncate(windows);
        result
    }

    fn bind_level(&mut self, select: &'a SelectStmt, settle: bool) -> Result<Query, Diagnostic> {
        self.refuse_into(select)?;
        let recursive = self.recursive.take();
        let ctes = match &select.with_clause {
            Some(with) => self.bind_with(with)?,
            None => Vec::new(),
        };
        let operation = SetOperation::try_from(select.op).unwrap_or(SetOperation::SetopNone);
        let (body, order_by, columns) = match operation {
            SetOperation::SetopNone | SetOperation::Undefined if !select.values_lists.is_empty() => {
                self.bind_values_body(select, settle)?
            }
            SetOperation::SetopNone | SetOperation::Undefined => self.bind_select(select, settle)?,
            operation => self.bind_set_operation(select, operation, recursive)?,
        };
        let mut body = body;
        let locks = self.bind_locks(select, &mut body)?;
        let limit = self.bind_limit(select.limit_count.as_deref(), "LIMIT")?;
        let offset = self.bind_limit(select.limit_offset.as_deref(), "OFFSET")?;
        let with_ties = LimitOption::try_from(select.limit_option) == Ok(LimitOption::WithTies);
        if with_ties && order_by.is_empty() {
            let span = limit.as_ref().map_or(self.piece.span(), |limit| limit.span);
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(self.error(SqlState::SYNTAX_ERROR, span, message));
        }
        let span = self.query_span(&body, &columns);
        Ok(Query { ctes, body, order_by, limit, offset, with_ties, locks, columns, span })
    }

    /// The parse tree has no place for a SELECT: the span of its outputs stands for it.
    fn query_span(&self, body: &QueryBody, _columns: &[OutputColumn]) -> Span {
        let first = match body {
            QueryBody::Select(select) => select.outputs.first().map(|output| output.span),
            QueryBody::Values(rows) => rows.first().and_then(|row| row.first()).map(|value| value.span),
            QueryBody::SetOperation { left, .. } => Some(left.span),
        };
        first.unwrap_or_else(|| self.piece.span())
    }

    fn bind_with(&mut self, with: &'a WithClause) -> Result<Vec<Cte>, Diagnostic> {
        let mut ctes: Vec<Cte> = Vec::new();
        for node in &with.ctes {
            let Some(node::Node::CommonTableExpr(cte)) = &node.node else { continue };
            let span = self.piece.token(cte.location);
            self.refuse_cte(cte, span)?;
            if ctes.iter().any(|other| other.name == cte.ctename) {
                return Err(self.duplicate_cte(cte, span));
            }
            let (query, recursive) = match with.recursive {
                true => self.bind_recursive_cte(cte, ctes.len())?,
                false => (self.bind_cte(cte)?, false),
            };
            let columns = query.columns.clone();
            let kind = CteKind::Bound { index: ctes.len(), columns };
            self.add_cte(CteName { name: cte.ctename.clone(), kind, references: 0 });
            ctes.push(Cte { name: cte.ctename.clone(), query, recursive });
        }
        Ok(ctes)
    }

    /// The WITH of an INSERT, UPDATE or DELETE, which the bound form has no place for: each reference
    /// becomes a subquery.
    pub(super) fn bind_inline_with(&mut self, with: &'a Option<WithClause>) -> Result<(), Diagnostic> {
        self.ctes.push(CteFrame { names: Vec::new(), is_query: false });
        let Some(with) = with else { return Ok(()) };
        if with.recursive {
            let span = self.piece.token(with.location);
            let remedy =
                "write the WITH RECURSIVE within the query that the statement reads: FROM (WITH RECURSIVE …)";
            return Err(Diagnostic::unsupported(
                span,
                "WITH RECURSIVE before INSERT, UPDATE or DELETE",
                remedy,
            ));
        }
        for node in &with.ctes {
            let Some(node::Node::CommonTableExpr(cte)) = &node.node else { continue };
            let span = self.piece.token(cte.location);
            self.refuse_cte(cte, span)?;
            let known = self.ctes.last().map_or(&[][..], |frame| &frame.names);
            if known.iter().any(|other| other.name == cte.ctename) {
                return Err(self.duplicate_cte(cte, span));
            }
            // An error in it is an error even if nothing refers to it.
            let next_relation = self.next_relation;
            self.bind_cte(cte)?;
            self.next_relation = next_relation;
            self.add_cte(CteName { name: cte.ctename.clone(), kind: CteKind::Inline(cte), references: 0 });
        }
        Ok(())
    }

    fn add_cte(&mut self, name: CteName<'a>) {
        if let Some(frame) = self.ctes.last_mut() {
            frame.names.push(name);
        }
    }

    fn duplicate_cte(&self, cte: &CommonTableExpr, span: Span) -> Diagnostic {
        self.error(
            SqlState::DUPLICATE_ALIAS,
            span,
            format!("WITH query name \"{}\" specified more than once", cte.ctename),
        )
    }

    fn refuse_cte(&self, cte: &CommonTableExpr, span: Span) -> Result<(), Diagnostic> {
        if cte.search_clause.is_some() || cte.cycle_clause.is_some() {
            let remedy = "carry the path of each row as an array";
            return Err(Diagnostic::unsupported(span, "SEARCH or CYCLE of a recursive query", remedy));
        }
        match cte.ctequery.as_deref().and_then(|node| node.node.as_ref()) {
            Some(node::Node::SelectStmt(_)) => Ok(()),
            _ => Err(Diagnostic::unsupported(
                span,
                "a data-modifying statement in WITH",
                "write it as a statement of its own, with RETURNING … INTO, in a procedure",
            )),
        }
    }

    pub(super) fn bind_cte(&mut self, cte: &'a CommonTableExpr) -> Result<Query, Diagnostic> {
        let span = self.piece.token(cte.location);
        let Some(node::Node::SelectStmt(select)) = cte.ctequery.as_deref().and_then(|n| n.node.as_ref())
        else {
            return Err(self.error(SqlState::SYNTAX_ERROR, span, "WITH wants a query"));
        };
        // A CTE sees no neighbours, only outer queries.
        let mut query = self.bind_query(select)?;
        let names = super::expr::strings(&cte.aliascolnames);
        rename(&mut query.columns, &names, &cte.ctename, span)?;
        Ok(query)
    }

    fn bind_values_body(
        &mut self,
        select: &'a SelectStmt,
        settle: bool,
    ) -> Result<(QueryBody, Vec<OrderBy>, Vec<OutputColumn>), Diagnostic> {
        let (rows, columns) = self.bind_values(&select.values_lists, settle)?;
        let mut targets = column_targets(&columns, self.piece.span());
        let visible = targets.len();
        let hide = Err("ORDER BY of VALUES may only name its columns: column1, column2 …");
        let order_by = self.bind_order(&select.sort_clause, &mut targets, visible, hide)?;
        Ok((QueryBody::Values(rows), order_by, columns))
    }

    /// The rows of VALUES, each column of one type.
    pub(super) fn bind_values(
        &mut self,
        lists: &'a [Node],
        settle: bool,
    ) -> Result<(Vec<Vec<Expr>>, Vec<OutputColumn>), Diagnostic> {
        let mut rows: Vec<Vec<Expr>> = Vec::new();
        for list in lists {
            let Some(node::Node::List(list)) = &list.node else { continue };
            let row = self.bind_list(&list.items)?;
            if rows.first().is_some_and(|first| first.len() != row.len()) {
                let span = row.first().map_or(self.piece.span(), |value| value.span);
                return Err(self.error(
                    SqlState::SYNTAX_ERROR,
                    span,
                    "VALUES lists must all be the same length",
                ));
            }
            rows.push(row);
        }
        let width = rows.first().map_or(0, Vec::len);
        let mut columns = Vec::new();
        for i in 0..width {
            let column: Vec<&Expr> = rows.iter().map(|row| &row[i]).collect();
            let unknown = column.iter().all(|value| value.ty == SqlType::Unknown);
            let ty = match unknown && !settle {
                true => SqlType::Unknown,
                false => self.common_type(&column, "VALUES")?,
            };
            for row in &mut rows {
                let value = std::mem::replace(&mut row[i], null(SqlType::Unknown, self.piece.span()));
                row[i] = self.coerce(value, &ty, CastContext::Implicit)?;
            }
            columns.push(OutputColumn::new(format!("column{}", i + 1), ty));
        }
        Ok((rows, columns))
    }

    fn bind_set_operation(
        &mut self,
        select: &'a SelectStmt,
        operation: SetOperation,
        recursive: Option<Recursive>,
    ) -> Result<(QueryBody, Vec<OrderBy>, Vec<OutputColumn>), Diagnostic> {
        let (op, word) = match operation {
            SetOperation::SetopIntersect => (SetOperator::Intersect, "INTERSECT"),
            SetOperation::SetopExcept => (SetOperator::Except, "EXCEPT"),
            _ => (SetOperator::Union, "UNION"),
        };
        let (Some(left), Some(right)) = (select.larg.as_deref(), select.rarg.as_deref()) else {
            return Err(self.error(SqlState::SYNTAX_ERROR, self.piece.span(), format!("{word} of nothing")));
        };
        let mut left = self.bind_arm(left, false)?;
        if let Some(recursive) = &recursive {
            self.begin_recursion(recursive, &mut left)?;
        }
        let mut right = self.bind_arm(right, false)?;
        if let Some(recursive) = &recursive {
            self.check_recursion(recursive, (op, word), &left, &right)?;
        }
        if left.columns.len() != right.columns.len() {
            return Err(self.error(
                SqlState::SYNTAX_ERROR,
                right.span,
                format!("each {word} query must have the same number of columns"),
            ));
        }
        let mut types = Vec::new();
        for (i, (a, b)) in left.columns.iter().zip(&right.columns).enumerate() {
            let a = null(a.ty.clone(), output_span(&left, i));
            let b = null(b.ty.clone(), output_span(&right, i));
            types.push(self.common_type(&[&a, &b], word)?);
        }
        self.coerce_outputs(&mut left, &types)?;
        self.coerce_outputs(&mut right, &types)?;
        let mut columns = left.columns.clone();
        unite(&mut columns, &right.columns);
        let mut targets = column_targets(&columns, left.span);
        let visible = targets.len();
        let hide = Err("ORDER BY of a UNION, INTERSECT or EXCEPT may only name its columns, no expressions");
        let order_by = self.bind_order(&select.sort_clause, &mut targets, visible, hide)?;
        let body =
            QueryBody::SetOperation { op, all: select.all, left: Box::new(left), right: Box::new(right) };
        Ok((body, order_by, columns))
    }

    fn bind_select(
        &mut self,
        select: &'a SelectStmt,
        settle: bool,
    ) -> Result<(QueryBody, Vec<OrderBy>, Vec<OutputColumn>), Diagnostic> {
        self.window_clauses.push(super::window::window_clause(select));
        self.scopes.push(Scope { windows_forbidden: Some("in FROM"), ..Scope::default() });
        let mut from = self.bind_from(&select.from_clause)?;
        self.set_aggregates(Aggregates::Forbidden("WHERE"));
        self.forbid_windows(Some("in WHERE"));
        let filter = match &select.where_clause {
            Some(node) => Some(self.bind_filter(node, "WHERE")?),
            None => None,
        };
        self.set_aggregates(Aggregates::Allowed);
        self.allow_in_list(true);
        let mut targets = self.bind_targets(&select.target_list, settle)?;
        self.allow_in_list(false);
        let visible = targets.len();
        self.set_aggregates(Aggregates::Forbidden("GROUP BY"));
        self.forbid_windows(Some("in GROUP BY"));
        let (group_by, sets) = self.bind_grouping(select, &targets)?;
        self.set_aggregates(Aggregates::Allowed);
        self.forbid_windows(Some("in HAVING"));
        let having = match &select.having_clause {
            Some(node) => Some(self.bind_filter(node, "HAVING")?),
            None => None,
        };
        let plain_distinct = matches!(select.distinct_clause.as_slice(), [Node { node: None }]);
        let hide = match plain_distinct {
            true => Err("for SELECT DISTINCT, ORDER BY expressions must appear in select list"),
            false => Ok(()),
        };
        self.allow_in_list(true);
        let order_by = self.bind_order(&select.sort_clause, &mut targets, visible, hide)?;
        let distinct = match select.distinct_clause.as_slice() {
            [] => Distinct::All,
            _ if plain_distinct => Distinct::Rows,
            list => self.bind_distinct_on(list, &mut targets, visible, &order_by)?,
        };
        let columns = targets[..visible]
            .iter()
            .map(|target| {
                OutputColumn::new(target.name.clone(), target.expr.ty.clone()).told_as(target.catalog)
            })
            .collect();
        let outputs: Vec<Expr> = targets.into_iter().map(|target| target.expr).collect();
        let aggregates = !group_by.is_empty() || having.is_some() || outputs.iter().any(walk::has_aggregate);
        let of_list = self.scopes.last_mut().and_then(|scope| scope.sets.take()).unwrap_or_default();
        if let (Some(place), true) =
            (self.set_in_list(&outputs, &of_list), aggregates || asks_for_groups(&outputs, &of_list))
        {
            let what = "a set-returning function beside aggregates or window functions";
            return Err(Diagnostic::unsupported(
                place,
                what,
                "aggregate in a subquery, and call it around that",
            ));
        }
        from.extend(of_list);
        let bound = Select { distinct, outputs, from, filter, group_by, having, aggregates };
        if aggregates {
            self.check_grouping(&bound, sets.is_some())?;
        }
        self.scopes.pop();
        self.window_clauses.pop();
        let body = self.grouped_by_sets(bound, sets)?;
        Ok((body, order_by, columns))
    }

    /// Window functions and set-returning ones.
    fn allow_in_list(&mut self, allowed: bool) {
        self.forbid_windows((!allowed).then_some("here"));
        if let Some(scope) = self.scopes.last_mut()
            && scope.sets.is_none()
        {
            scope.sets = Some(Vec::new());
        }
    }

    /// The first output that is of a set-returning function of the list.
    fn set_in_list(&self, outputs: &[Expr], of_list: &[FromItem]) -> Option<Span> {
        let FromItem::Function { relation, .. } = of_list.first()? else { return None };
        let mut place = None;
        outputs.iter().for_each(|output| {
            walk::columns(output, &mut |of, _| {
                if of == *relation {
                    place.get_or_insert(output.span);
                }
            });
        });
        place.or_else(|| outputs.first().map(|output| output.span))
    }

    fn bind_distinct_on(
        &mut self,
        list: &'a [Node],
        targets: &mut Vec<Target>,
        visible: usize,
        order_by: &[OrderBy],
    ) -> Result<Distinct, Diagnostic> {
        let mut outputs = Vec::new();
        for node in list {
            let output = match self.named_output(node, &targets[..visible], "DISTINCT ON")? {
                Some(output) => output,
                None => self.expression_output(node, targets, Ok(()))?,
            };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        let leading = &order_by[..order_by.len().min(outputs.len())];
        if let Some(stray) = leading.iter().find(|item| !outputs.contains(&item.output)) {
            return Err(self.error(
                SqlState::INVALID_COLUMN_REFERENCE,
                targets[stray.output].expr.span,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            ));
        }
        Ok(Distinct::On(outputs))
    }

    fn bind_limit(&mut self, node: Option<&'a Node>, clause: &str) -> Result<Option<Expr>, Diagnostic> {
        let Some(node) = node else { return Ok(None) };
        // LIMIT ALL is LIMIT NULL.
        if matches!(&node.node, Some(node::Node::AConst(constant)) if constant.isnull) {
            return Ok(None);
        }
        let expr = self.bind_expr(node)?;
        if expr.ty != SqlType::Unknown && !expr.ty.is_number() {
            return Err(self.error(
                SqlState::DATATYPE_MISMATCH,
                expr.span,
                format!("argument of {clause} must be type bigint, not type {}", expr.ty),
            ));
        }
        self.coerce(expr, &SqlType::Int8, CastContext::Assignment).map(Some)
    }
}

/// Window functions, or aggregates within set-returning functions.
fn asks_for_groups(outputs: &[Expr], of_list: &[FromItem]) -> bool {
    let mut asks = outputs.iter().any(walk::has_window);
    for item in of_list {
        let FromItem::Function { calls, .. } = item else { continue };
        let mut args = calls.iter().flat_map(|call| &call.args);
        asks |= args.any(|arg| walk::has_aggregate(arg) || walk::has_window(arg));
    }
    asks
}

fn column_targets(columns: &[OutputColumn], span: Span) -> Vec<Target> {
    let target = |column: &OutputColumn| Target::new(column.name.clone(), null(column.ty.clone(), span));
    columns.iter().map(target).collect()
}

/// The place of the i-th output of a query.
pub(super) fn output_span(query: &Query, i: usize) -> Span {
    let found = match &query.body {
        QueryBody::Select(select) => select.outputs.get(i).map(|output| output.span),
        QueryBody::Values(rows) => rows.first().and_then(|row| row.get(i)).map(|value| value.span),
        QueryBody::SetOperation { left, .. } => Some(output_span(left, i)),
    };
    found.unwrap_or(query.span)
}

/// `AS name (a, b)`: there may be fewer names than columns.
pub(super) fn rename(
    columns: &mut [OutputColumn],
    names: &[&str],
    relation: &str,
    span: Span,
) -> Result<(), Diagnostic> {
    if names.len() > columns.len() {
        return Err(Diagnostic::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            span,
            format!(
                "table \"{relation}\" has {} columns available but {} columns specified",
                columns.len(),
                names.len()
            ),
        ));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = (*name).to_owned();
    }
    Ok(())
}
