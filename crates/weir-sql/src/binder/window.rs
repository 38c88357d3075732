//! Window functions: `f(…) OVER (…)`, their types, named windows and frames (SQL:2003 7.11).

use pg_query::protobuf::{FuncCall, Node, SelectStmt, WindowDef, node};
use weir_types::{CastContext, SqlState, SqlType, Value};

use super::Binder;
use super::aggregate::aggregate_function;
use crate::bound::{
    Expr, ExprKind, Frame, FrameBound, FrameExclusion, FrameUnit, SortOrder, WindowCall, WindowFunction,
};
use crate::print;
use crate::source::{Diagnostic, Span};
use crate::type_name::unmodified;

/// PostgreSQL's bits of a frame (`nodes/parsenodes.h`).
mod option {
    pub const RANGE: i32 = 0x2;
    pub const ROWS: i32 = 0x4;
    pub const GROUPS: i32 = 0x8;
    pub const START_UNBOUNDED_PRECEDING: i32 = 0x20;
    pub const START_CURRENT_ROW: i32 = 0x200;
    pub const END_UNBOUNDED_FOLLOWING: i32 = 0x100;
    pub const END_CURRENT_ROW: i32 = 0x400;
    pub const START_PRECEDING: i32 = 0x800;
    pub const END_PRECEDING: i32 = 0x1000;
    pub const START_FOLLOWING: i32 = 0x2000;
    pub const END_FOLLOWING: i32 = 0x4000;
    pub const EXCLUDE_CURRENT_ROW: i32 = 0x8000;
    pub const EXCLUDE_GROUP: i32 = 0x10000;
    pub const EXCLUDE_TIES: i32 = 0x20000;
}

/// PARTITION BY and ORDER BY of one window, and the definition that has its frame.
struct Window<'a> {
    partition_by: Vec<Expr>,
    order_by: Vec<(Expr, SortOrder)>,
    frame: &'a WindowDef,
}

/// Functions that exist for windows alone.
pub(super) fn window_function(name: &str) -> Option<WindowFunction> {
    Some(match name {
        "row_number" => WindowFunction::RowNumber,
        "rank" => WindowFunction::Rank,
        "dense_rank" => WindowFunction::DenseRank,
        "percent_rank" => WindowFunction::PercentRank,
        "cume_dist" => WindowFunction::CumeDist,
        "ntile" => WindowFunction::Ntile,
        "lag" => WindowFunction::Lag,
        "lead" => WindowFunction::Lead,
        "first_value" => WindowFunction::FirstValue,
        "last_value" => WindowFunction::LastValue,
        "nth_value" => WindowFunction::NthValue,
        _ => return None,
    })
}

impl<'a> Binder<'a> {
    pub(super) fn bind_window(
        &mut self,
        name: &str,
        call: &'a FuncCall,
        over: &'a WindowDef,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        if let Some(message) = self.scopes.last().map_or(Some("here"), |scope| scope.windows_forbidden) {
            let state = match message {
                "in an aggregate function" => SqlState::GROUPING_ERROR,
                _ => SqlState::WINDOWING_ERROR,
            };
            let message = format!("window functions are not allowed {message}");
            return Err(self.error(state, span, message));
        }
        self.forbid_windows(Some("in a window function"));
        let bound = self.bind_window_parts(name, call, over, span);
        self.forbid_windows(None);
        bound
    }

    /// `None` where they may stand.
    pub(super) fn forbid_windows(&mut self, place: Option<&'static str>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.windows_forbidden = place;
        }
    }

    fn bind_window_parts(
        &mut self,
        name: &str,
        call: &'a FuncCall,
        over: &'a WindowDef,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        if call.agg_distinct || !call.agg_order.is_empty() || call.agg_within_group || call.func_variadic {
            return Err(Diagnostic::unsupported(
                span,
                "DISTINCT, ORDER BY, WITHIN GROUP or VARIADIC in the arguments of a window function",
                "aggregate in a subquery and join it",
            ));
        }
        let args = self.bind_list(&call.args)?;
        let filter = match &call.agg_filter {
            Some(node) => Some(self.bind_condition(node, "FILTER")?),
            None => None,
        };
        let window = self.bind_over(over, span)?;
        let (function, args, ty) = match window_function(name) {
            Some(_) if filter.is_some() => {
                return Err(self.error(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    span,
                    "FILTER is not implemented for non-aggregate window functions",
                ));
            }
            Some(function) => {
                let (args, ty) = self.window_type(function, name, args, call.agg_star, span)?;
                (function, args, ty)
            }
            None => match aggregate_function(name) {
                Some(Ok(aggregate)) if aggregate.is_ordered_set() => {
                    return Err(self.error(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        span,
                        format!("OVER is not supported for ordered-set aggregate {name}"),
                    ));
                }
                Some(Ok(aggregate)) => {
                    let (args, ty) = self.aggregate_type(aggregate, name, args, call.agg_star, span)?;
                    (WindowFunction::Aggregate(aggregate), args, ty)
                }
                Some(Err(())) => {
                    let what = format!("the aggregate function {name}");
                    return Err(Diagnostic::unsupported(span, what, super::aggregate::KNOWN));
                }
                None => {
                    let message = format!(
                        "OVER specified, but {name} is not a window function nor an aggregate function"
                    );
                    return Err(self.error(SqlState::WRONG_OBJECT_TYPE, span, message));
                }
            },
        };
        let frame = self.bind_frame(&window, span)?;
        let Window { partition_by, order_by, .. } = window;
        let call = WindowCall { function, args, filter, partition_by, order_by, frame };
        Ok(Expr { kind: ExprKind::Window(Box::new(call)), ty, span })
    }

    fn window_type(
        &mut self,
        function: WindowFunction,
        name: &str,
        mut args: Vec<Expr>,
        star: bool,
        span: Span,
    ) -> Result<(Vec<Expr>, SqlType), Diagnostic> {
        use WindowFunction::*;
        let types: Vec<String> = args.iter().map(|arg| arg.ty.name()).collect();
        let missing = || {
            let message = format!("function {name}({}) does not exist", types.join(", "));
            Diagnostic::new(SqlState::UNDEFINED_FUNCTION, span, message)
        };
        let count = match function {
            RowNumber | Rank | DenseRank | PercentRank | CumeDist => 0..=0,
            Ntile | FirstValue | LastValue => 1..=1,
            NthValue => 2..=2,
            _ => 1..=3,
        };
        if star || !count.contains(&args.len()) {
            return Err(missing());
        }
        let integer = |binder: &mut Self, arg: Expr| match arg.ty {
            SqlType::Int8 | SqlType::Numeric(_) | SqlType::Float4 | SqlType::Float8 => Err(missing()),
            _ => binder.coerce(arg, &SqlType::Int4, CastContext::Implicit).map_err(|_| missing()),
        };
        let ty = match function {
            RowNumber | Rank | DenseRank => SqlType::Int8,
            PercentRank | CumeDist => SqlType::Float8,
            Ntile => {
                args = vec![integer(self, args.swap_remove(0))?];
                SqlType::Int4
            }
            _ => {
                let mut rest = args.split_off(1).into_iter();
                let mut value = self.settle(args.swap_remove(0))?;
                let offset = rest.next().map(|offset| integer(self, offset)).transpose()?;
                args = Vec::new();
                let mut otherwise = None;
                if let Some(default) = rest.next() {
                    let (mut both, _) = self.unify(vec![value, default], name).map_err(|_| missing())?;
                    otherwise = both.pop();
                    value = both.swap_remove(0);
                }
                let ty = unmodified(value.ty.clone());
                let one = Expr { kind: ExprKind::Literal(Value::Int(1)), ty: SqlType::Int4, span };
                args.push(value);
                match function {
                    Lag | Lead => {
                        args.push(offset.unwrap_or(one));
                        args.push(otherwise.unwrap_or_else(|| super::coerce::null(ty.clone(), span)));
                    }
                    _ => args.extend(offset),
                }
                ty
            }
        };
        Ok((args, ty))
    }

    /// The window that OVER names or defines.
    fn bind_over(&mut self, over: &'a WindowDef, span: Span) -> Result<Window<'a>, Diagnostic> {
        // OVER w is w with its frame; OVER (w …) adds to it.
        if !over.name.is_empty() {
            let named = self.named_window(&over.name, span)?;
            return self.bind_definition(named, span, 0);
        }
        self.bind_definition(over, span, 0)
    }

    fn named_window(&self, name: &str, span: Span) -> Result<&'a WindowDef, Diagnostic> {
        let clause: &'a [Node] = self.window_clauses.last().copied().unwrap_or_default();
        let named = clause.iter().find_map(|node| match &node.node {
            Some(node::Node::WindowDef(window)) if window.name == name => Some(&**window),
            _ => None,
        });
        let message = || format!("window \"{name}\" does not exist");
        named.ok_or_else(|| self.error(SqlState::UNDEFINED_OBJECT, span, message()))
    }

    fn bind_definition(
        &mut self,
        window: &'a WindowDef,
        span: Span,
        depth: usize,
    ) -> Result<Window<'a>, Diagnostic> {
        let mut bound = Window { partition_by: Vec::new(), order_by: Vec::new(), frame: window };
        if !window.refname.is_empty() {
            let named = self.named_window(&window.refname, span)?;
            if depth > 20 {
                return Err(self.error(SqlState::WINDOWING_ERROR, span, "a window is defined by itself"));
            }
            let base = self.bind_definition(named, span, depth + 1)?;
            let wrong = match () {
                () if !window.partition_clause.is_empty() => Some("PARTITION BY clause"),
                () if !window.order_clause.is_empty() && !base.order_by.is_empty() => Some("ORDER BY clause"),
                () if base.frame.frame_options & 1 != 0 => Some("frame clause"),
                () => None,
            };
            if let Some(clause) = wrong {
                let message = format!("cannot override {clause} of window \"{}\"", window.refname);
                return Err(self.error(SqlState::WINDOWING_ERROR, span, message));
            }
            (bound.partition_by, bound.order_by) = (base.partition_by, base.order_by);
        }
        for node in &window.partition_clause {
            let expr = self.bind_expr(node)?;
            let expr = self.settle(expr)?;
            bound.partition_by.push(expr);
        }
        for node in &window.order_clause {
            let Some(node::Node::SortBy(sort)) = &node.node else { continue };
            let order = self.sort_order(sort)?;
            let expr = self.bind_expr(self.required(&sort.node)?)?;
            let expr = self.settle(expr)?;
            let expr = match expr.ty.clone() {
                SqlType::Enum(of) => self.rank(expr, &of)?,
                _ => expr,
            };
            if !bound.order_by.iter().any(|(other, _)| print::same(other, &expr)) {
                bound.order_by.push((expr, order));
            }
        }
        Ok(bound)
    }

    fn bind_frame(&mut self, window: &Window<'a>, span: Span) -> Result<Frame, Diagnostic> {
        let has = |bit: i32| window.frame.frame_options & bit != 0;
        let unit = match () {
            () if has(option::ROWS) => FrameUnit::Rows,
            () if has(option::GROUPS) => FrameUnit::Groups,
            () => {
                debug_assert!(has(option::RANGE) || window.frame.frame_options == 0);
                FrameUnit::Range
            }
        };
        if unit == FrameUnit::Groups && window.order_by.is_empty() {
            let message = "GROUPS mode requires an ORDER BY clause";
            return Err(self.error(SqlState::WINDOWING_ERROR, span, message));
        }
        let start = match () {
            () if has(option::START_UNBOUNDED_PRECEDING) => FrameBound::UnboundedPreceding,
            () if has(option::START_CURRENT_ROW) => FrameBound::CurrentRow,
            () if has(option::START_PRECEDING) => FrameBound::Preceding(Box::new(self.frame_offset(
                window,
                unit,
                &window.frame.start_offset,
                span,
            )?)),
            () if has(option::START_FOLLOWING) => FrameBound::Following(Box::new(self.frame_offset(
                window,
                unit,
                &window.frame.start_offset,
                span,
            )?)),
            () => FrameBound::UnboundedPreceding,
        };
        let end = match () {
            () if has(option::END_UNBOUNDED_FOLLOWING) => FrameBound::UnboundedFollowing,
            () if has(option::END_CURRENT_ROW) => FrameBound::CurrentRow,
            () if has(option::END_PRECEDING) => FrameBound::Preceding(Box::new(self.frame_offset(
                window,
                unit,
                &window.frame.end_offset,
                span,
            )?)),
            () if has(option::END_FOLLOWING) => FrameBound::Following(Box::new(self.frame_offset(
                window,
                unit,
                &window.frame.end_offset,
                span,
            )?)),
            () => FrameBound::CurrentRow,
        };
        let exclusion = match () {
            () if has(option::EXCLUDE_CURRENT_ROW) => FrameExclusion::CurrentRow,
            () if has(option::EXCLUDE_GROUP) => FrameExclusion::Group,
            () if has(option::EXCLUDE_TIES) => FrameExclusion::Ties,
            () => FrameExclusion::Nothing,
        };
        Ok(Frame { unit, start, end, exclusion })
    }

    /// `n PRECEDING`: a number of rows or groups, or what is added to the sort key.
    fn frame_offset(
        &mut self,
        window: &Window<'a>,
        unit: FrameUnit,
        node: &'a Option<Box<Node>>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let offset = self.bind_expr(self.required(node)?)?;
        let mut varies = false;
        crate::walk::columns(&offset, &mut |_, _| varies = true);
        if varies {
            let message = "argument of a frame must not contain variables";
            return Err(self.error(SqlState::INVALID_COLUMN_REFERENCE, offset.span, message));
        }
        if unit != FrameUnit::Range {
            return self.coerce(offset, &SqlType::Int8, CastContext::Assignment);
        }
        let [(key, _)] = &window.order_by[..] else {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(self.error(SqlState::WINDOWING_ERROR, span, message));
        };
        let wanted = match &key.ty {
            ty if ty.is_integer() && (offset.ty.is_integer() || offset.ty == SqlType::Unknown) => {
                SqlType::Int8
            }
            SqlType::Numeric(_) => SqlType::Numeric(None),
            SqlType::Float4 | SqlType::Float8 => SqlType::Float8,
            SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => SqlType::Interval,
            ty => {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {ty} and offset type {}",
                    offset.ty
                );
                return Err(self.error(SqlState::FEATURE_NOT_SUPPORTED, offset.span, message));
            }
        };
        self.coerce(offset, &wanted, CastContext::Implicit)
    }
}

/// The windows that a SELECT names are at hand while it is bound.
pub(super) fn window_clause(select: &SelectStmt) -> &[Node] {
    &select.window_clause
}
