//! Select lists: stars, names of columns, and the outputs that ORDER BY, GROUP BY and DISTINCT mean.

use pg_query::protobuf::{
    ColumnRef, Node, ResTarget, SelectStmt, SortBy, SortByDir, SortByNulls, a_const, node,
};
use weir_types::{CatalogType, SqlState, SqlType};

use super::Binder;
use super::expr::strings;
use super::scope::ScopeColumn;
use crate::bound::{Expr, ExprKind, OrderBy, SortOrder};
use crate::print;
use crate::source::{Diagnostic, Span};

/// A named output.
pub(super) struct Target {
    pub name: String,
    pub expr: Expr,
    pub catalog: Option<CatalogType>,
}

impl Target {
    pub fn new(name: String, expr: Expr) -> Target {
        Target { name, expr, catalog: None }
    }
}

impl<'a> Binder<'a> {
    pub(super) fn bind_targets(&mut self, list: &'a [Node], settle: bool) -> Result<Vec<Target>, Diagnostic> {
        let mut targets = Vec::new();
        for node in list {
            let Some(node::Node::ResTarget(target)) = &node.node else { continue };
            let value = self.required(&target.val)?;
            match star(value) {
                Some(column) => self.expand_star(column, &mut targets)?,
                None => {
                    let expr = self.bind_expr(value)?;
                    let expr = if settle { self.settle(expr)? } else { expr };
                    let catalog = self.catalog_type(value);
                    targets.push(Target { name: target_name(target, value), expr, catalog });
                }
            }
        }
        Ok(targets)
    }

    fn expand_star(&mut self, column: &'a ColumnRef, targets: &mut Vec<Target>) -> Result<(), Diagnostic> {
        let span = self.column_span(column);
        let place = |column: &ScopeColumn| Target {
            name: column.name.clone(),
            expr: Expr { span, ..column.expr.clone() },
            catalog: column.catalog,
        };
        let names = strings(&column.fields);
        let Some(relation) = names.last() else {
            let Some(scope) = self.scopes.last().filter(|scope| !scope.relations.is_empty()) else {
                return Err(self
                    .error(SqlState::SYNTAX_ERROR, span, "SELECT * with no tables specified is not valid")
                    .with_hint("add FROM"));
            };
            let visible = scope.relations.iter().filter(|relation| relation.unqualified);
            targets.extend(visible.flat_map(|relation| &relation.columns).map(place));
            return Ok(());
        };
        if let Some(found) = self.relation_in_sight(relation) {
            targets.extend(found.columns.iter().map(place));
            return Ok(());
        }
        if let Some(fields) = self.context.variables.and_then(|variables| variables.fields(relation)) {
            targets.extend(
                fields
                    .into_iter()
                    .map(|(name, id, ty)| Target::new(name, Expr { kind: ExprKind::Variable(id), ty, span })),
            );
            return Ok(());
        }
        Err(self.error(
            SqlState::UNDEFINED_TABLE,
            span,
            format!("missing FROM-clause entry for table \"{relation}\""),
        ))
    }

    pub(super) fn sort_order(&self, sort: &SortBy) -> Result<SortOrder, Diagnostic> {
        let descending = match SortByDir::try_from(sort.sortby_dir) {
            Ok(SortByDir::SortbyDesc) => true,
            Ok(SortByDir::SortbyUsing) => {
                let span = self.piece.token(sort.location);
                return Err(Diagnostic::unsupported(span, "ORDER BY … USING", "use ASC or DESC"));
            }
            _ => false,
        };
        let nulls_first = match SortByNulls::try_from(sort.sortby_nulls) {
            Ok(SortByNulls::SortbyNullsFirst) => true,
            Ok(SortByNulls::SortbyNullsLast) => false,
            _ => descending,
        };
        Ok(SortOrder { descending, nulls_first })
    }

    /// ORDER BY: the name of an output, its position, or an expression over the input, which becomes a
    /// hidden output if it is none yet.
    pub(super) fn bind_order(
        &mut self,
        list: &'a [Node],
        targets: &mut Vec<Target>,
        visible: usize,
        hide: Result<(), &str>,
    ) -> Result<Vec<OrderBy>, Diagnostic> {
        let mut order_by = Vec::new();
        for node in list {
            let Some(node::Node::SortBy(sort)) = &node.node else { continue };
            let order = self.sort_order(sort)?;
            let value = self.required(&sort.node)?;
            let output = match self.named_output(value, &targets[..visible], "ORDER BY")? {
                Some(output) => output,
                None => self.expression_output(value, targets, hide)?,
            };
            let output = self.ranked_output(output, targets, hide)?;
            if !order_by.iter().any(|earlier: &OrderBy| earlier.output == output) {
                order_by.push(OrderBy { output, order });
            }
        }
        Ok(order_by)
    }

    /// Output that an enumeration's values are sorted by.
    fn ranked_output(
        &mut self,
        output: usize,
        targets: &mut Vec<Target>,
        hide: Result<(), &str>,
    ) -> Result<usize, Diagnostic> {
        let value = targets[output].expr.clone();
        let SqlType::Enum(of) = value.ty.clone() else { return Ok(output) };
        if let Err(message) = hide {
            let what = format!("ORDER BY an enumeration here: {message}");
            return Err(Diagnostic::unsupported(value.span, what, "sort in a query around this one"));
        }
        let rank = self.rank(value, &of)?;
        targets.push(Target::new(String::new(), rank));
        Ok(targets.len() - 1)
    }

    /// An output that is this expression, added if need be.
    pub(super) fn expression_output(
        &mut self,
        value: &'a Node,
        targets: &mut Vec<Target>,
        hide: Result<(), &str>,
    ) -> Result<usize, Diagnostic> {
        // Without a FROM of its own there is nothing but outputs to name.
        if let (Err(message), false) = (hide, matches!(value.node, Some(node::Node::ColumnRef(_))))
            && message.contains("may only name")
        {
            let message = "invalid UNION, INTERSECT, EXCEPT or VALUES ORDER BY clause";
            return Err(self
                .error(SqlState::FEATURE_NOT_SUPPORTED, self.piece.span(), message)
                .with_hint("only result column names can be used, not expressions or functions"));
        }
        let expr = self.bind_expr(value)?;
        let expr = self.settle(expr)?;
        if let Some(found) = targets.iter().position(|target| print::same(&target.expr, &expr)) {
            return Ok(found);
        }
        if let Err(message) = hide {
            return Err(self.error(SqlState::INVALID_COLUMN_REFERENCE, expr.span, message));
        }
        targets.push(Target::new(String::new(), expr));
        Ok(targets.len() - 1)
    }

    /// The output that a bare name or an integer means.
    pub(super) fn named_output(
        &mut self,
        node: &'a Node,
        targets: &[Target],
        clause: &str,
    ) -> Result<Option<usize>, Diagnostic> {
        match &node.node {
            Some(node::Node::ColumnRef(column)) => {
                let &[name] = strings(&column.fields).as_slice() else { return Ok(None) };
                let matching: Vec<usize> = (0..targets.len()).filter(|&i| targets[i].name == name).collect();
                let Some(&first) = matching.first() else { return Ok(None) };
                let same = |&i: &usize| print::same(&targets[i].expr, &targets[first].expr);
                if column.fields.len() > 1 || !matching.iter().all(same) {
                    return Err(self.error(
                        SqlState::AMBIGUOUS_COLUMN,
                        self.piece.token(column.location),
                        format!("{clause} \"{name}\" is ambiguous"),
                    ));
                }
                Ok(Some(first))
            }
            Some(node::Node::AConst(constant)) => {
                let span = self.piece.token(constant.location);
                match &constant.val {
                    Some(a_const::Val::Ival(number)) => {
                        self.position(number.ival, targets.len(), clause, span).map(Some)
                    }
                    None if !constant.isnull => self.position(0, targets.len(), clause, span).map(Some),
                    _ => Err(self.error(
                        SqlState::SYNTAX_ERROR,
                        span,
                        format!("non-integer constant in {clause}"),
                    )),
                }
            }
            _ => Ok(None),
        }
    }

    fn position(&self, number: i32, count: usize, clause: &str, span: Span) -> Result<usize, Diagnostic> {
        match usize::try_from(number) {
            Ok(position) if (1..=count).contains(&position) => Ok(position - 1),
            _ => Err(self.error(
                SqlState::INVALID_COLUMN_REFERENCE,
                span,
                format!("{clause} position {number} is not in select list"),
            )),
        }
    }

    /// GROUP BY: a column of the input before an output's name.
    pub(super) fn bind_group_by(
        &mut self,
        list: &'a [Node],
        targets: &[Target],
    ) -> Result<Vec<Expr>, Diagnostic> {
        let mut keys: Vec<Expr> = Vec::new();
        for node in list {
            self.add_group_key(node, targets, &mut keys)?;
        }
        Ok(keys)
    }

    /// Its position among the keys, where it is put if it is new.
    pub(super) fn add_group_key(
        &mut self,
        node: &'a Node,
        targets: &[Target],
        keys: &mut Vec<Expr>,
    ) -> Result<usize, Diagnostic> {
        let key = match self.group_key(node, targets)? {
            Some(output) => targets[output].expr.clone(),
            None => {
                let expr = self.bind_expr(node)?;
                self.settle(expr)?
            }
        };
        match keys.iter().position(|other| print::same(other, &key)) {
            Some(at) => Ok(at),
            None => {
                keys.push(key);
                Ok(keys.len() - 1)
            }
        }
    }

    fn group_key(&mut self, node: &'a Node, targets: &[Target]) -> Result<Option<usize>, Diagnostic> {
        if let Some(node::Node::ColumnRef(column)) = &node.node {
            let input = match strings(&column.fields).as_slice() {
                [name] => self.scopes.last().is_some_and(|scope| {
                    let visible = scope.relations.iter().filter(|relation| relation.unqualified);
                    visible.flat_map(|relation| &relation.columns).any(|column| column.name == *name)
                }),
                _ => true,
            };
            if input {
                return Ok(None);
            }
        }
        self.named_output(node, targets, "GROUP BY")
    }
}

/// `*` or `t.*`.
fn star(node: &Node) -> Option<&ColumnRef> {
    match &node.node {
        Some(node::Node::ColumnRef(column)) => match column.fields.last()?.node {
            Some(node::Node::AStar(_)) => Some(column),
            _ => None,
        },
        _ => None,
    }
}

/// The name that PostgreSQL gives the column of an expression.
pub(super) fn name_of(value: &Node) -> String {
    figure_name(value).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

fn target_name(target: &ResTarget, value: &Node) -> String {
    match target.name.as_str() {
        "" => name_of(value),
        name => name.to_owned(),
    }
}

/// PostgreSQL's name for an expression, and whether it is better than that of an outer cast.
fn figure_name(node: &Node) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match node.node.as_ref()? {
        node::Node::ColumnRef(column) => strong(strings(&column.fields).last()?),
        node::Node::FuncCall(call) => strong(strings(&call.funcname).last()?),
        node::Node::AIndirection(indirection) => match strings(&indirection.indirection).last() {
            Some(field) => strong(field),
            None => figure_name(indirection.arg.as_deref()?),
        },
        node::Node::TypeCast(cast) => match figure_name(cast.arg.as_deref()?) {
            Some((name, true)) => Some((name, true)),
            _ => Some((strings(&cast.type_name.as_ref()?.names).last()?.to_string(), false)),
        },
        node::Node::CollateClause(collate) => figure_name(collate.arg.as_deref()?),
        node::Node::CaseExpr(case) => match case.defresult.as_deref().and_then(figure_name) {
            Some((name, true)) => Some((name, true)),
            _ => Some(("case".to_owned(), false)),
        },
        node::Node::AArrayExpr(_) => strong("array"),
        node::Node::RowExpr(_) => strong("row"),
        node::Node::CoalesceExpr(_) => strong("coalesce"),
        node::Node::MinMaxExpr(expr) => strong(if expr.op == 1 { "greatest" } else { "least" }),
        node::Node::AExpr(expr) if expr.kind == pg_query::protobuf::AExprKind::AexprNullif as i32 => {
            strong("nullif")
        }
        node::Node::SqlvalueFunction(function) => {
            use pg_query::protobuf::SqlValueFunctionOp::*;
            match pg_query::protobuf::SqlValueFunctionOp::try_from(function.op) {
                Ok(SvfopCurrentDate) => strong("current_date"),
                Ok(SvfopCurrentTime | SvfopCurrentTimeN) => strong("current_time"),
                Ok(SvfopLocaltime | SvfopLocaltimeN) => strong("localtime"),
                Ok(SvfopLocaltimestamp | SvfopLocaltimestampN) => strong("localtimestamp"),
                Ok(SvfopCurrentRole) => strong("current_role"),
                Ok(SvfopCurrentUser) => strong("current_user"),
                Ok(SvfopUser) => strong("user"),
                Ok(SvfopSessionUser) => strong("session_user"),
                Ok(SvfopCurrentCatalog) => strong("current_catalog"),
                Ok(SvfopCurrentSchema) => strong("current_schema"),
                _ => strong("current_timestamp"),
            }
        }
        node::Node::SubLink(link) => sublink_name(link),
        node::Node::GroupingFunc(_) => strong("grouping"),
        _ => None,
    }
}

fn sublink_name(link: &pg_query::protobuf::SubLink) -> Option<(String, bool)> {
    use pg_query::protobuf::SubLinkType::*;
    match pg_query::protobuf::SubLinkType::try_from(link.sub_link_type) {
        Ok(ExistsSublink) => Some(("exists".to_owned(), true)),
        Ok(ArraySublink) => Some(("array".to_owned(), true)),
        Ok(ExprSublink) => match link.subselect.as_deref()?.node.as_ref()? {
            node::Node::SelectStmt(select) => Some((first_column_name(select)?, true)),
            _ => None,
        },
        _ => None,
    }
}

/// The name of the first column of a subquery, if its text says it.
fn first_column_name(select: &SelectStmt) -> Option<String> {
    if let Some(left) = &select.larg {
        return first_column_name(left);
    }
    if !select.values_lists.is_empty() {
        return Some("column1".to_owned());
    }
    match select.target_list.first()?.node.as_ref()? {
        node::Node::ResTarget(target) => {
            let value = target.val.as_deref()?;
            star(value).is_none().then(|| target_name(target, value))
        }
        _ => None,
    }
}
