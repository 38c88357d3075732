//! Functions in FROM, and set-returning functions of a select list, which become items of FROM.

use pg_query::protobuf::{FuncCall, RangeFunction, node};
use weir_types::{CastContext, SqlState, SqlType, Value};

use super::Binder;
use super::expr::strings;
use super::query::rename;
use super::scope::ScopeRelation;
use super::system::OPTIONS;
use crate::bound::{Expr, ExprKind, FromItem, OutputColumn, TableCall, TableFunction};
use crate::routine::simple_name;
use crate::source::{Diagnostic, Span};

/// A function that gives a set of rows.
pub(super) fn returns_sets(name: &str) -> bool {
    matches!(name, "unnest" | "generate_series") || known(name).is_some() || super::system::is_set(name)
}

/// The function, what it takes and the columns that it gives.
type Known = (TableFunction, &'static [SqlType], usize, &'static [(&'static str, SqlType)]);

const TEXT: SqlType = SqlType::Text;
const JSONB: SqlType = SqlType::Jsonb;

/// The third is the number of arguments that must be there.
fn known(name: &str) -> Option<Known> {
    use TableFunction::*;
    Some(match name {
        "jsonb_array_elements" => (JsonbArrayElements, &[JSONB], 1, &[("value", JSONB)]),
        "jsonb_array_elements_text" => (JsonbArrayElementsText, &[JSONB], 1, &[("value", TEXT)]),
        "jsonb_each" => (JsonbEach, &[JSONB], 1, &[("key", TEXT), ("value", JSONB)]),
        "jsonb_each_text" => (JsonbEachText, &[JSONB], 1, &[("key", TEXT), ("value", TEXT)]),
        "jsonb_object_keys" => (JsonbObjectKeys, &[JSONB], 1, &[("jsonb_object_keys", TEXT)]),
        "regexp_split_to_table" => {
            (RegexpSplitToTable, &[TEXT, TEXT, TEXT], 2, &[("regexp_split_to_table", TEXT)])
        }
        "string_to_table" => (StringToTable, &[TEXT, TEXT, TEXT], 2, &[("string_to_table", TEXT)]),
        // Their types are settled where they are bound.
        "regexp_matches" => (RegexpMatches, &[TEXT, TEXT, TEXT], 2, &[]),
        "generate_subscripts" => (GenerateSubscripts, &[], 2, &[("generate_subscripts", SqlType::Int4)]),
        _ => return None,
    })
}

fn column(name: &str, ty: SqlType) -> OutputColumn {
    OutputColumn::new(name.to_owned(), ty)
}

impl<'a> Binder<'a> {
    /// `f(…)` and `ROWS FROM (f(…), g(…))`, implicitly LATERAL.
    pub(super) fn bind_table_function(
        &mut self,
        range: &'a RangeFunction,
    ) -> Result<(FromItem, Vec<ScopeRelation>), Diagnostic> {
        if let Some(bound) = self.bind_system_rows(range)? {
            return Ok(bound);
        }
        let mut span = self.piece.span();
        let (mut calls, mut columns) = (Vec::new(), Vec::new());
        let mut first_name = None;
        for function in &range.functions {
            let parts = match &function.node {
                Some(node::Node::List(list)) => &list.items[..],
                _ => &[],
            };
            let listed = parts.get(1).is_some_and(
                |list| matches!(&list.node, Some(node::Node::List(list)) if !list.items.is_empty()),
            );
            if listed || !range.coldeflist.is_empty() {
                return Err(Diagnostic::unsupported(
                    span,
                    "a column definition list",
                    "name the columns only",
                ));
            }
            let Some(value) = parts.first() else { continue };
            let (name, call) = match &value.node {
                Some(node::Node::FuncCall(call)) => {
                    span = self.piece.bracketed(call.location);
                    (simple_name(&call.funcname, span)?, Some(&**call))
                }
                _ => (super::output::name_of(value), None),
            };
            let own = match call {
                Some(call) if returns_sets(&name) => self.bind_table_call(&name, call, span, &mut calls)?,
                _ => {
                    let expr = self.bind_expr(value)?;
                    let expr = self.settle(expr)?;
                    span = expr.span;
                    let own = vec![column(&name, expr.ty.clone())];
                    calls.push(TableCall { function: TableFunction::Scalar, args: vec![expr], width: 1 });
                    own
                }
            };
            first_name.get_or_insert(name);
            columns.extend(own);
        }
        let name = first_name.unwrap_or_default();
        let alias = range.alias.as_ref();
        let shown = alias.map_or(name.as_str(), |alias| alias.aliasname.as_str());
        // A lone column of a function that does not name it takes the alias' name.
        if let ([only], 1, Some(_)) = (&mut columns[..], calls.len(), alias)
            && only.name == name
        {
            only.name = shown.to_owned();
        }
        if range.ordinality {
            columns.push(column("ordinality", SqlType::Int8));
        }
        let names = alias.map_or_else(Vec::new, |alias| strings(&alias.colnames));
        rename(&mut columns, &names, shown, span)?;
        let relation = self.own_relation();
        let is_scalar = columns.len() == 1;
        let seen =
            ScopeRelation { is_scalar, ..ScopeRelation::of_columns(columns.clone(), shown, relation, span) };
        let item = FromItem::Function { relation, calls, with_ordinality: range.ordinality, columns };
        Ok((item, vec![seen]))
    }

    /// Adds what is called; gives its columns.
    fn bind_table_call(
        &mut self,
        name: &str,
        call: &'a FuncCall,
        span: Span,
        calls: &mut Vec<TableCall>,
    ) -> Result<Vec<OutputColumn>, Diagnostic> {
        let args = self.bind_list(&call.args)?;
        if name == OPTIONS && self.is_of_system() {
            let none = || Expr {
                kind: ExprKind::Literal(Value::array(SqlType::Text, Vec::new())),
                ty: SqlType::array_of(SqlType::Text),
                span,
            };
            let unnest = || TableCall { function: TableFunction::Unnest, args: vec![none()], width: 1 };
            calls.extend([unnest(), unnest()]);
            return Ok(["option_name", "option_value"].map(|name| column(name, SqlType::Text)).into());
        }
        if let Some((call, ty)) = self.system_rows(name, &args, span) {
            calls.push(call);
            return Ok(vec![column(name, ty)]);
        }
        let (function, args, columns) = match name {
            "unnest" if !args.is_empty() => {
                let mut columns = Vec::new();
                for arg in args {
                    let SqlType::Array(element) = arg.ty.clone() else {
                        let message = format!("function unnest({}) does not exist", arg.ty);
                        return Err(self.error(SqlState::UNDEFINED_FUNCTION, arg.span, message));
                    };
                    columns.push(column(name, *element));
                    calls.push(TableCall { function: TableFunction::Unnest, args: vec![arg], width: 1 });
                }
                return Ok(columns);
            }
            "generate_series" if (2..=3).contains(&args.len()) => self.bind_series(args, span)?,
            _ => self.bind_known(name, args, span)?,
        };
        calls.push(TableCall { function, args, width: columns.len() });
        Ok(columns)
    }

    fn bind_known(
        &mut self,
        name: &str,
        args: Vec<Expr>,
        span: Span,
    ) -> Result<(TableFunction, Vec<Expr>, Vec<OutputColumn>), Diagnostic> {
        let types: Vec<String> = args.iter().map(|arg| arg.ty.name()).collect();
        let missing = || {
            let message = format!("function {name}({}) does not exist", types.join(", "));
            Diagnostic::new(SqlState::UNDEFINED_FUNCTION, span, message)
        };
        let Some((function, wanted, fewest, columns)) = known(name) else { return Err(missing()) };
        let columns = columns.iter().map(|(name, ty)| column(name, ty.clone())).collect();
        if function == TableFunction::GenerateSubscripts {
            let mut args = args;
            let array = args.first().is_some_and(|arg| matches!(arg.ty, SqlType::Array(_)));
            if args.len() != 2 || !array {
                return Err(missing());
            }
            if self.is_vector(&args[0])? {
                return Ok((TableFunction::GenerateSeries, self.places_of_vector(args.remove(0))?, columns));
            }
            let dimension = args.remove(1);
            args.push(self.coerce(dimension, &SqlType::Int4, CastContext::Implicit).map_err(|_| missing())?);
            return Ok((function, args, columns));
        }
        if !(fewest..=wanted.len()).contains(&args.len()) {
            return Err(missing());
        }
        let mut cast = Vec::new();
        for (arg, ty) in args.into_iter().zip(wanted) {
            cast.push(self.coerce(arg, ty, CastContext::Implicit).map_err(|_| missing())?);
        }
        let columns = match function {
            TableFunction::RegexpMatches => vec![column(name, SqlType::array_of(SqlType::Text))],
            _ => columns,
        };
        Ok((function, cast, columns))
    }

    /// `SELECT unnest(…)`: an item of FROM beside the others, of which this is the column. Those of one list go side by side.
    pub(super) fn bind_set_in_list(
        &mut self,
        name: &str,
        call: &'a FuncCall,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let remedy = format!("write FROM {name}(…)");
        let Some(taken) = self.scopes.last_mut().and_then(|scope| scope.sets.take()) else {
            let what = format!("the set-returning function {name} outside of FROM and a plain select list");
            return Err(Diagnostic::unsupported(span, what, remedy));
        };
        let mut calls = Vec::new();
        let bound = self.bind_table_call(name, call, span, &mut calls);
        let mut sets = taken;
        let columns = bound?;
        let [only] = &columns[..] else {
            let what = format!("{name} with several columns in a select list");
            return Err(Diagnostic::unsupported(span, what, remedy));
        };
        let ty = only.ty.clone();
        if sets.is_empty() {
            let relation = self.own_relation();
            let (calls, columns) = (Vec::new(), Vec::new());
            sets.push(FromItem::Function { relation, calls, with_ordinality: false, columns });
        }
        let Some(FromItem::Function { relation, calls: all, columns: outputs, .. }) = sets.first_mut() else {
            return Err(Diagnostic::unsupported(span, name, remedy));
        };
        let kind = ExprKind::Column { relation: *relation, column: outputs.len() };
        all.extend(calls);
        outputs.extend(columns);
        if let Some(scope) = self.scopes.last_mut() {
            scope.sets = Some(sets);
        }
        Ok(Expr { kind, ty, span })
    }

    fn bind_series(
        &mut self,
        args: Vec<Expr>,
        span: Span,
    ) -> Result<(TableFunction, Vec<Expr>, Vec<OutputColumn>), Diagnostic> {
        let bounds: Vec<&Expr> = args.iter().take(2).collect();
        let missing = |binder: &Self| {
            let types: Vec<String> = args.iter().map(|arg| arg.ty.to_string()).collect();
            binder.error(
                SqlState::UNDEFINED_FUNCTION,
                span,
                format!("function generate_series({}) does not exist", types.join(", ")),
            )
        };
        let known = bounds.iter().any(|bound| bound.ty != SqlType::Unknown);
        let common = self.common_type(&bounds, "generate_series").map_err(|_| missing(self))?;
        let numeric_step = args.get(2).filter(|_| common.is_number());
        let (bound, step) = match common {
            SqlType::Date => (SqlType::Timestamptz, SqlType::Interval),
            SqlType::Timestamp | SqlType::Timestamptz => (common, SqlType::Interval),
            ref ty if ty.is_number() && known => {
                let mut all = bounds.clone();
                all.extend(numeric_step);
                let ty = match self.common_type(&all, "generate_series").map_err(|_| missing(self))? {
                    SqlType::Int2 => SqlType::Int4,
                    SqlType::Float4 | SqlType::Float8 => return Err(missing(self)),
                    other => other.base(),
                };
                (ty.clone(), ty)
            }
            _ => return Err(missing(self)),
        };
        if args.len() == 2 && step == SqlType::Interval {
            return Err(missing(self)
                .with_hint("a series of times needs a step: generate_series(a, b, interval '1 day')"));
        }
        let mut cast = Vec::new();
        for (i, arg) in args.into_iter().enumerate() {
            let ty = if i < 2 { &bound } else { &step };
            cast.push(self.coerce(arg, ty, CastContext::Implicit)?);
        }
        Ok((TableFunction::GenerateSeries, cast, vec![column("generate_series", bound)]))
    }
}
