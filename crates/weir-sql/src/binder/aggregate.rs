//! Aggregate functions: their types, and where they may stand.

use pg_query::protobuf::{FuncCall, node};
use weir_types::{CastContext, SqlState, SqlType};

use super::Binder;
use super::scope::Aggregates;
use crate::bound::{Aggregate, AggregateFunction, Expr, ExprKind, Regression, SortOrder};
use crate::source::{Diagnostic, Span};
use crate::type_name::unmodified;
use crate::walk;

pub(super) const KNOWN: &str = "count, sum, avg, min, max, bool_and, bool_or, every, array_agg, string_agg, jsonb_agg, \
                                jsonb_object_agg, bit_and, bit_or, bit_xor, mode, percentile_cont, percentile_disc and \
                                those of statistics are";

/// `Err` carries the name of an aggregate that Weir does not have.
pub(super) fn aggregate_function(name: &str) -> Option<Result<AggregateFunction, ()>> {
    Some(match name {
        "count" => Ok(AggregateFunction::Count),
        "sum" => Ok(AggregateFunction::Sum),
        "avg" => Ok(AggregateFunction::Average),
        "min" => Ok(AggregateFunction::Minimum),
        "max" => Ok(AggregateFunction::Maximum),
        "bool_and" | "every" => Ok(AggregateFunction::BoolAnd),
        "bool_or" => Ok(AggregateFunction::BoolOr),
        "array_agg" => Ok(AggregateFunction::ArrayAgg),
        "string_agg" => Ok(AggregateFunction::StringAgg),
        "jsonb_agg" => Ok(AggregateFunction::JsonbAgg),
        "jsonb_object_agg" => Ok(AggregateFunction::JsonbObjectAgg),
        "bit_and" => Ok(AggregateFunction::BitAnd),
        "bit_or" => Ok(AggregateFunction::BitOr),
        "bit_xor" => Ok(AggregateFunction::BitXor),
        "stddev" | "stddev_samp" => Ok(AggregateFunction::DeviationSample),
        "stddev_pop" => Ok(AggregateFunction::DeviationPopulation),
        "variance" | "var_samp" => Ok(AggregateFunction::VarianceSample),
        "var_pop" => Ok(AggregateFunction::VariancePopulation),
        "mode" => Ok(AggregateFunction::Mode),
        "percentile_cont" => Ok(AggregateFunction::PercentileContinuous),
        "percentile_disc" => Ok(AggregateFunction::PercentileDiscrete),
        "regr_count" => Ok(AggregateFunction::Regression(Regression::Count)),
        "regr_avgx" => Ok(AggregateFunction::Regression(Regression::AverageX)),
        "regr_avgy" => Ok(AggregateFunction::Regression(Regression::AverageY)),
        "regr_sxx" => Ok(AggregateFunction::Regression(Regression::SumOfSquaresX)),
        "regr_syy" => Ok(AggregateFunction::Regression(Regression::SumOfSquaresY)),
        "regr_sxy" => Ok(AggregateFunction::Regression(Regression::SumOfProducts)),
        "regr_slope" => Ok(AggregateFunction::Regression(Regression::Slope)),
        "regr_intercept" => Ok(AggregateFunction::Regression(Regression::Intercept)),
        "regr_r2" => Ok(AggregateFunction::Regression(Regression::Determination)),
        "corr" => Ok(AggregateFunction::Regression(Regression::Correlation)),
        "covar_pop" => Ok(AggregateFunction::Regression(Regression::CovariancePopulation)),
        "covar_samp" => Ok(AggregateFunction::Regression(Regression::CovarianceSample)),
        "json_agg" | "json_object_agg" | "xmlagg" | "range_agg" => Err(()),
        _ => return None,
    })
}

impl<'a> Binder<'a> {
    pub(super) fn bind_aggregate(
        &mut self,
        function: Result<AggregateFunction, ()>,
        name: &str,
        call: &'a FuncCall,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let Ok(function) = function else {
            return Err(Diagnostic::unsupported(span, format!("the aggregate function {name}"), KNOWN));
        };
        if call.func_variadic || call.agg_within_group && !function.is_ordered_set() {
            return Err(Diagnostic::unsupported(
                span,
                "WITHIN GROUP or VARIADIC of this aggregate",
                "order the rows in a subquery",
            ));
        }
        if function.is_ordered_set() && !call.agg_within_group {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(self.error(SqlState::WRONG_OBJECT_TYPE, span, message));
        }
        let allowed = self.scopes.last().map_or(Aggregates::NoQuery, |scope| scope.aggregates);
        let refusal = match allowed {
            Aggregates::Allowed => None,
            Aggregates::Forbidden(clause) => Some(format!("aggregate functions are not allowed in {clause}")),
            Aggregates::Nested => Some("aggregate function calls cannot be nested".to_owned()),
            Aggregates::NoQuery => Some("aggregate functions are not allowed here".to_owned()),
        };
        if let Some(message) = refusal {
            return Err(self.error(SqlState::GROUPING_ERROR, span, message));
        }
        let windows = self.scopes.last().and_then(|scope| scope.windows_forbidden);
        self.set_aggregates(Aggregates::Nested);
        self.forbid_windows(Some("in an aggregate function"));
        let parts = self.bind_aggregate_parts(function, name, call, span);
        self.set_aggregates(Aggregates::Allowed);
        self.forbid_windows(windows);
        let (aggregate, ty) = parts?;
        self.refuse_outer_aggregate(&aggregate, span)?;
        Ok(Expr { kind: ExprKind::Aggregate(Box::new(aggregate)), ty, span })
    }

    pub(super) fn set_aggregates(&mut self, aggregates: Aggregates) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.aggregates = aggregates;
        }
    }

    fn bind_aggregate_parts(
        &mut self,
        function: AggregateFunction,
        name: &str,
        call: &'a FuncCall,
        span: Span,
    ) -> Result<(Aggregate, SqlType), Diagnostic> {
        let args = self.bind_list(&call.args)?;
        if call.agg_within_group {
            return self.bind_ordered_set(function, name, call, args, span);
        }
        if call.agg_distinct && args.is_empty() {
            return Err(self.error(
                SqlState::SYNTAX_ERROR,
                span,
                "DISTINCT specified, but there are no arguments",
            ));
        }
        let (args, ty) = self.aggregate_type(function, name, args, call.agg_star, span)?;
        let filter = match &call.agg_filter {
            Some(node) => Some(self.bind_condition(node, "FILTER")?),
            None => None,
        };
        let mut order_by = Vec::new();
        for item in &call.agg_order {
            let Some(node::Node::SortBy(sort)) = &item.node else { continue };
            let expr = self.required(&sort.node)?;
            let expr = self.bind_expr(expr)?;
            let order: SortOrder = self.sort_order(sort)?;
            let expr = self.settle(expr)?;
            let expr = match expr.ty.clone() {
                SqlType::Enum(of) => self.rank(expr, &of)?,
                _ => expr,
            };
            order_by.push((expr, order));
        }
        let ordered_elsewhere =
            |(expr, _): &(Expr, SortOrder)| !args.iter().any(|arg| crate::print::same(arg, expr));
        if call.agg_distinct && order_by.iter().any(ordered_elsewhere) {
            return Err(self.error(
                SqlState::INVALID_COLUMN_REFERENCE,
                span,
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
            ));
        }
        Ok((Aggregate { function, args, distinct: call.agg_distinct, filter, order_by }, ty))
    }

    /// `f(fraction) WITHIN GROUP (ORDER BY x)`: the arguments are the fraction, if there is one, and x.
    fn bind_ordered_set(
        &mut self,
        function: AggregateFunction,
        name: &str,
        call: &'a FuncCall,
        args: Vec<Expr>,
        span: Span,
    ) -> Result<(Aggregate, SqlType), Diagnostic> {
        let filter = match &call.agg_filter {
            Some(node) => Some(self.bind_condition(node, "FILTER")?),
            None => None,
        };
        let missing = || {
            let message = format!("function {name} does not exist with these arguments");
            Diagnostic::new(SqlState::UNDEFINED_FUNCTION, span, message)
        };
        let [item] = &call.agg_order[..] else { return Err(missing()) };
        let Some(node::Node::SortBy(sort)) = &item.node else { return Err(missing()) };
        let order = self.sort_order(sort)?;
        let value = self.bind_expr(self.required(&sort.node)?)?;
        let mut value = self.settle(value)?;
        let fractions = if function == AggregateFunction::Mode { 0 } else { 1 };
        if args.len() != fractions {
            return Err(missing());
        }
        let mut all = Vec::new();
        for fraction in args {
            if matches!(fraction.ty, SqlType::Array(_)) {
                let what = format!("{name} of several fractions");
                return Err(Diagnostic::unsupported(span, what, "call it once for each"));
            }
            all.push(self.coerce(fraction, &SqlType::Float8, CastContext::Implicit).map_err(|_| missing())?);
        }
        if matches!(value.ty, SqlType::Enum(_)) {
            return Err(Diagnostic::unsupported(
                span,
                format!("{name} of an enumeration"),
                "cast it to text",
            ));
        }
        if function == AggregateFunction::PercentileContinuous && value.ty != SqlType::Interval {
            value = self.coerce(value, &SqlType::Float8, CastContext::Implicit).map_err(|_| missing())?;
        }
        let ty = unmodified(value.ty.clone());
        all.push(value.clone());
        let order_by = vec![(value, order)];
        Ok((Aggregate { function, args: all, distinct: false, filter, order_by }, ty))
    }

    pub(super) fn aggregate_type(
        &mut self,
        function: AggregateFunction,
        name: &str,
        mut args: Vec<Expr>,
        star: bool,
        span: Span,
    ) -> Result<(Vec<Expr>, SqlType), Diagnostic> {
        use AggregateFunction::*;
        let types: Vec<String> = args.iter().map(|arg| arg.ty.base().to_string()).collect();
        let missing = || {
            let types = if star { "*".to_owned() } else { types.join(", ") };
            Diagnostic::new(
                SqlState::UNDEFINED_FUNCTION,
                span,
                format!("function {name}({types}) does not exist"),
            )
        };
        let wanted = match function {
            Count if star => 0,
            StringAgg | JsonbObjectAgg | Regression(_) => 2,
            _ => 1,
        };
        if args.len() != wanted || star && function != Count {
            return Err(missing());
        }
        if matches!(function, Count | ArrayAgg | JsonbAgg | JsonbObjectAgg | Minimum | Maximum) {
            args = args.into_iter().map(|arg| self.settle(arg)).collect::<Result<_, _>>()?;
        }
        let first = args.first().map(|arg| arg.ty.clone());
        let result = match (function, first) {
            (Count, _) => SqlType::Int8,
            (Sum, Some(SqlType::Int2 | SqlType::Int4)) => SqlType::Int8,
            (Sum, Some(SqlType::Int8 | SqlType::Numeric(_))) => SqlType::Numeric(None),
            (Sum, Some(ty @ (SqlType::Float4 | SqlType::Float8 | SqlType::Interval))) => ty,
            (Average, Some(ty)) if ty.is_integer() => SqlType::Numeric(None),
            (Average, Some(SqlType::Numeric(_))) => SqlType::Numeric(None),
            (Average, Some(SqlType::Float4 | SqlType::Float8)) => SqlType::Float8,
            (Average, Some(SqlType::Interval)) => SqlType::Interval,
            (Minimum | Maximum, Some(ty)) => match ty {
                SqlType::Varchar(_) => SqlType::Text,
                // The length is what gives the values their padding.
                SqlType::Char(_) => ty,
                SqlType::Enum(_) => {
                    return Err(Diagnostic::unsupported(
                        span,
                        format!("{name} of an enumeration"),
                        "order by the column and take the first row",
                    ));
                }
                SqlType::Bool | SqlType::Uuid | SqlType::Bytea | SqlType::Jsonb | SqlType::Record => {
                    return Err(missing().with_hint("bool_and and bool_or aggregate booleans"));
                }
                other => unmodified(other),
            },
            (BoolAnd | BoolOr, Some(SqlType::Bool | SqlType::Unknown)) => {
                args = vec![self.coerce(args.swap_remove(0), &SqlType::Bool, CastContext::Implicit)?];
                SqlType::Bool
            }
            (ArrayAgg, Some(SqlType::Array(_))) => {
                return Err(Diagnostic::unsupported(
                    span,
                    "array_agg of arrays",
                    "unnest them in FROM first",
                ));
            }
            (ArrayAgg, Some(ty)) => SqlType::Array(Box::new(unmodified(ty))),
            (StringAgg, _) if args.iter().all(|arg| arg.ty.is_string()) => {
                let text = |arg| self.coerce(arg, &SqlType::Text, CastContext::Implicit);
                args = args.into_iter().map(text).collect::<Result<_, _>>()?;
                SqlType::Text
            }
            (JsonbAgg | JsonbObjectAgg, _) => SqlType::Jsonb,
            (BitAnd | BitOr | BitXor, Some(ty)) if ty.is_integer() => ty,
            (VariancePopulation | VarianceSample | DeviationPopulation | DeviationSample, Some(ty))
                if ty.is_number() =>
            {
                match ty {
                    SqlType::Float4 | SqlType::Float8 => SqlType::Float8,
                    _ => SqlType::Numeric(None),
                }
            }
            (Regression(of), _)
                if args.iter().all(|arg| arg.ty.is_number() || arg.ty == SqlType::Unknown) =>
            {
                let float = |arg| self.coerce(arg, &SqlType::Float8, CastContext::Implicit);
                args = args.into_iter().map(float).collect::<Result<_, _>>()?;
                match of {
                    crate::bound::Regression::Count => SqlType::Int8,
                    _ => SqlType::Float8,
                }
            }
            _ => return Err(missing().with_hint("cast the argument to a type that it takes")),
        };
        Ok((args, result))
    }

    /// An aggregate over columns of an outer query only would belong to that query.
    fn refuse_outer_aggregate(&self, aggregate: &Aggregate, span: Span) -> Result<(), Diagnostic> {
        let Some(scope) = self.scopes.last() else { return Ok(()) };
        let mut relations = Vec::new();
        for arg in aggregate.args.iter().chain(&aggregate.filter) {
            walk::columns(arg, &mut |relation, _| relations.push(relation));
        }
        if relations.is_empty() || relations.iter().any(|relation| scope.own.contains(relation)) {
            return Ok(());
        }
        Err(Diagnostic::unsupported(
            span,
            "an aggregate of an outer query's columns inside of a subquery",
            "compute it in the outer query",
        ))
    }
}
