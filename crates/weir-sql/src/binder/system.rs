//! System catalog in queries: views, functions, `regclass` and similar types, and session facts.
//!
//! All of it is replaced by subqueries and constants. Object numbers are bigint, so that `'orders'::regclass` is a number, and a number
//! `::regclass` is the name.

use std::collections::BTreeMap;

use pg_query::protobuf::{
    AIndirection, FuncCall, Node, RangeFunction, SelectStmt, SqlValueFunctionOp, TypeCast, TypeName, node,
};
use weir_types::operator::BinaryOp;
use weir_types::{CastContext, SqlState, SqlType, Value};

use super::Binder;
use super::expr::strings;
use super::from::Bound;
use crate::bound::{Expr, ExprKind, Query, TableCall, TableFunction};
use crate::parse::Piece;
use crate::routine::simple_name;
use crate::source::{Diagnostic, Span};
use crate::system::templates::{self, Template};
use crate::system::{Facts, class_number, column_types};

/// The type that stands for one of PostgreSQL's that only catalogs have.
pub(crate) fn stand_in(name: &str) -> Option<SqlType> {
    Some(match name {
        "oid" | "xid" => SqlType::Int8,
        "name" | "char" | "cstring" | "pg_node_tree" | "sql_identifier" | "character_data" | "yes_or_no" => {
            SqlType::Text
        }
        "cardinal_number" => SqlType::Int4,
        "int2vector" | "oidvector" => SqlType::array_of(SqlType::Int8),
        _ => return None,
    })
}

/// The function that shows a number as the type, and the one that looks a name up.
fn registered(name: &str) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match name {
        "regclass" => ("regclass as text", "to_regclass", "relation"),
        "regtype" => ("regtype as text", "to_regtype", "type"),
        "regnamespace" => ("regnamespace as text", "to_regnamespace", "schema"),
        "regrole" => ("regrole as text", "to_regrole", "role"),
        "regproc" | "regprocedure" => ("regproc as text", "to_regproc", "function"),
        _ => return None,
    })
}

pub(super) fn is_registered(name: &str) -> bool {
    registered(name).is_some()
}

fn registered_cast(cast: &TypeCast) -> Option<(&'static str, &'static str, &'static str)> {
    let ty = cast.type_name.as_ref().filter(|ty| ty.array_bounds.is_empty())?;
    registered(strings(&ty.names).last()?)
}

/// `SELECT 'orders'::regclass` shows the name: what stands so in the select list is made text.
pub(crate) fn show_names(statement: &mut node::Node) {
    let node::Node::SelectStmt(select) = statement else { return };
    for target in &mut select.target_list {
        let Some(node::Node::ResTarget(target)) = &mut target.node else { continue };
        let Some(node::Node::TypeCast(cast)) = target.val.as_ref().and_then(|value| value.node.as_ref())
        else {
            continue;
        };
        if registered_cast(cast).is_none() {
            continue;
        }
        if let (true, Some(ty)) = (target.name.is_empty(), &cast.type_name)
            && matches!(cast.arg.as_ref().and_then(|arg| arg.node.as_ref()), Some(node::Node::AConst(_)))
        {
            target.name = strings(&ty.names).last().copied().unwrap_or_default().to_owned();
        }
        let word = node::Node::String(pg_query::protobuf::String { sval: "text".to_owned() });
        let ty = TypeName {
            names: vec![Node { node: Some(word) }],
            typemod: -1,
            location: cast.location,
            ..TypeName::default()
        };
        let shown = TypeCast { arg: target.val.take(), type_name: Some(ty), location: -1 };
        target.val = Some(Box::new(Node { node: Some(node::Node::TypeCast(Box::new(shown))) }));
    }
}

/// Functions with effects, or whose result only a shard knows.
const REFUSED: &[(&str, &str)] = &[
    ("pg_sleep", "make it an item of the select list by itself"),
    ("pg_sleep_for", "make it an item of the select list by itself"),
    ("set_config", "make it an item of the select list by itself, or use SET"),
    ("setval", "make it an item of the select list by itself"),
    ("txid_current", "no number is given to a transaction"),
    (
        "pg_terminate_backend",
        "let it be a column of the outermost select list, beside columns that are named",
    ),
    ("pg_cancel_backend", "let it be a column of the outermost select list, beside columns that are named"),
];

/// The number of the type that a text names in SQL.
fn type_number_of(text: &str) -> Option<i64> {
    let cast = format!("NULL::{text}");
    let piece = Piece::new(0, 0, &cast);
    let parsed = crate::parse::parse_expression(piece).ok()?;
    let name = crate::plpgsql::cast_type(&parsed)?;
    let ty = crate::type_name::resolve(piece, name).ok()?;
    Some(i64::from(weir_types::binary::type_number(&ty))).filter(|number| *number != 0)
}

/// `'{int,int8}'::regtype[]`. None: it names a type that is not known here.
fn type_numbers(operand: &Expr) -> Option<Expr> {
    let ExprKind::Literal(Value::Text(text)) = &operand.kind else { return None };
    let names = text.strip_prefix('{')?.strip_suffix('}')?.split(',').map(str::trim);
    let numbers = names.map(|name| type_number_of(name).map(Value::Int)).collect::<Option<Vec<_>>>()?;
    Some(constant(Value::array(SqlType::Int8, numbers), SqlType::array_of(SqlType::Int8), operand.span))
}

fn constant(value: Value, ty: SqlType, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(value), ty, span }
}

impl<'a> Binder<'a> {
    /// A function of the system catalog; none: it is something else.
    pub(super) fn bind_system_call(
        &mut self,
        name: &str,
        call: &'a FuncCall,
        span: Span,
    ) -> Result<Option<Expr>, Diagnostic> {
        let Some(facts) = self.context.system else { return Ok(None) };
        let told = match (name, call.args.len()) {
            ("current_database", 0) => Some(facts.database.as_str()),
            ("current_user" | "session_user", 0) => Some(facts.user.as_str()),
            ("pg_backend_pid", 0) => {
                return Ok(Some(constant(Value::Int(facts.process.into()), SqlType::Int4, span)));
            }
            _ => None,
        };
        if let Some(told) = told {
            return Ok(Some(constant(Value::text(told), SqlType::Text, span)));
        }
        if name == "current_setting" && matches!(call.args.len(), 1 | 2) {
            return self.bind_setting(call, &facts.settings, span).map(Some);
        }
        // `json` is not a type here; clients treat the result alike.
        if name == "json_build_object" {
            let args = self.bind_list(&call.args)?;
            return self.function_of("jsonb_build_object", args, span).map(Some);
        }
        if name == "pg_typeof" && call.args.len() == 1 {
            let of = self.bind_expr(&call.args[0])?;
            return Ok(Some(constant(Value::text(of.ty.name()), SqlType::Text, span)));
        }
        if let Some((_, remedy)) = REFUSED.iter().find(|(one, _)| *one == name) {
            return Err(Diagnostic::unsupported(span, format!("the function {name}"), *remedy));
        }
        if name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_") {
            let remedy = "make it an item of the select list by itself";
            return Err(Diagnostic::unsupported(span, format!("the function {name}"), remedy));
        }
        let Some(template) = templates::function(name, call.args.len()) else { return Ok(None) };
        let args = self.bind_list(&call.args)?;
        self.bind_template(template, args).map(|expr| Some(Expr { span, ..expr }))
    }

    /// `current_setting(name)`; with `true` behind it, one that there is not is NULL.
    fn bind_setting(
        &mut self,
        call: &'a FuncCall,
        settings: &BTreeMap<String, String>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let args = self.bind_list(&call.args)?;
        let literal = |expr: &Expr| match &expr.kind {
            ExprKind::Literal(value) => Some(value.clone()),
            ExprKind::Cast { operand, .. } => match &operand.kind {
                ExprKind::Literal(value) => Some(value.clone()),
                _ => None,
            },
            _ => None,
        };
        let Some(Value::Text(name)) = args.first().and_then(literal) else {
            // A missing object yields NULL, which is known only at run time.
            let Some(name) = args.into_iter().next() else {
                return Ok(constant(Value::Null, SqlType::Text, span));
            };
            let name = self.coerce(name, &SqlType::Text, CastContext::Implicit)?;
            let args = std::iter::once(name).chain(settings_of(settings)).collect();
            return self.of_template("current_setting as text", args);
        };
        match settings.iter().find(|(one, _)| one.eq_ignore_ascii_case(&name)) {
            Some((_, value)) => Ok(constant(Value::text(value.as_str()), SqlType::Text, span)),
            None if args.get(1).and_then(literal) == Some(Value::Bool(true)) => {
                Ok(constant(Value::Null, SqlType::Text, span))
            }
            None => {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                Err(self.error(SqlState::UNDEFINED_OBJECT, span, message))
            }
        }
    }

    /// `tableoid` of a table of the system catalog: its number; NULL where an outer join has no row of the table.
    pub(super) fn system_class(&self, parts: &[&str], span: Span) -> Option<Expr> {
        self.context.system?;
        let of_name = |name: &str| self.relation_in_sight(name).filter(|relation| relation.class.is_some());
        let relation = match parts {
            ["tableoid"] => {
                let scopes = self.scopes.iter().rev().filter(|scope| !scope.hidden);
                scopes.flat_map(|scope| &scope.relations).find(|relation| relation.class.is_some())?
            }
            [relation, "tableoid"] => of_name(relation)?,
            _ => return None,
        };
        let first = relation.columns.first()?.expr.clone();
        let is_there = ExprKind::IsNull { operand: Box::new(first), negated: true };
        let is_there = Expr { kind: is_there, ty: SqlType::Bool, span };
        let number = constant(Value::Int(relation.class?), SqlType::Int8, span);
        let kind = ExprKind::Case { whens: vec![(is_there, number)], otherwise: None };
        Some(Expr { kind, ty: SqlType::Int8, span })
    }

    fn bind_template(&mut self, template: &'static Template, args: Vec<Expr>) -> Result<Expr, Diagnostic> {
        let piece = std::mem::replace(&mut self.piece, template.piece);
        self.template_args.push(args);
        let bound = self.bind_plpgsql_expr(&template.node, None);
        self.template_args.pop();
        self.piece = piece;
        bound
    }

    /// `$n` of the template that is being bound.
    pub(super) fn template_argument(&mut self, number: i32) -> Option<Expr> {
        let args = self.template_args.last()?;
        args.get(usize::try_from(number).ok()?.checked_sub(1)?).cloned()
    }

    /// The query of a system view, which sees nothing of what is around it.
    pub(super) fn bind_system_view(&mut self, name: &str) -> Result<Option<Query>, Diagnostic> {
        if self.context.system.is_none() {
            return Ok(None);
        }
        let views = templates::views();
        let found = views.get(name).or_else(|| match name.contains('.') {
            true => None,
            false => views.get(&format!("pg_catalog.{name}")),
        });
        let Some(select) = found else { return Ok(None) };
        let arguments =
            self.context.system.filter(|_| name.ends_with("pg_settings")).map_or_else(Vec::new, settings);
        let mut query = self.bind_alone(templates::views_piece(), select, arguments)?;
        column_types::tell(name, &mut query.columns);
        Ok(Some(query))
    }

    /// A query of a template, which sees its arguments and nothing of what is around it.
    fn bind_alone(
        &mut self,
        piece: Piece<'static>,
        select: &'static SelectStmt,
        arguments: Vec<Expr>,
    ) -> Result<Query, Diagnostic> {
        let piece = std::mem::replace(&mut self.piece, piece);
        let (scopes, ctes) = (std::mem::take(&mut self.scopes), std::mem::take(&mut self.ctes));
        self.template_args.push(arguments);
        let query = self.bind_query(select);
        self.template_args.pop();
        (self.scopes, self.ctes, self.piece) = (scopes, ctes, piece);
        query
    }

    /// `FROM pg_get_keywords()`: a function of the system catalog that gives rows of several columns.
    pub(super) fn bind_system_rows(&mut self, range: &'a RangeFunction) -> Result<Option<Bound>, Diagnostic> {
        let [Node { node: Some(node::Node::List(list)) }] = &range.functions[..] else { return Ok(None) };
        let Some(Node { node: Some(node::Node::FuncCall(call)) }) = list.items.first() else {
            return Ok(None);
        };
        let span = self.piece.bracketed(call.location);
        let name = simple_name(&call.funcname, span)?;
        let template = templates::row_function(&name, call.args.len());
        let Some(template) = template.filter(|_| self.context.system.is_some() && !range.ordinality) else {
            return Ok(None);
        };
        let args = self.bind_list(&call.args)?;
        let query = self.bind_alone(template.piece, &template.select, args)?;
        let alias = range.alias.as_ref();
        let shown = alias.map_or(name.as_str(), |alias| alias.aliasname.as_str()).to_owned();
        self.derived(query, true, &shown, alias, span).map(Some)
    }

    /// A sequence in FROM is one row: where it stands.
    pub(super) fn bind_sequence_state(
        &mut self,
        name: &str,
        span: Span,
    ) -> Result<Option<Query>, Diagnostic> {
        let is_one = self.context.catalog.sequences.iter().any(|sequence| sequence.name == name);
        let Some(template) =
            templates::row_function("state of a sequence", 1).filter(|_| is_one && self.is_of_system())
        else {
            return Ok(None);
        };
        let number = constant(Value::Int(class_number(name)), SqlType::Int8, span);
        self.bind_alone(template.piece, &template.select, vec![number]).map(Some)
    }

    /// `current_user` and its like.
    pub(super) fn system_value(&self, op: SqlValueFunctionOp, span: Span) -> Option<Expr> {
        use SqlValueFunctionOp::*;
        let facts = self.context.system?;
        let told = match op {
            SvfopCurrentUser | SvfopUser | SvfopSessionUser | SvfopCurrentRole => facts.user.as_str(),
            SvfopCurrentCatalog => facts.database.as_str(),
            SvfopCurrentSchema => "public",
            _ => return None,
        };
        Some(constant(Value::text(told), SqlType::Text, span))
    }

    /// A cast to a type that only catalogs have; none: it is another cast.
    pub(super) fn bind_system_cast(&mut self, cast: &'a TypeCast) -> Result<Option<Expr>, Diagnostic> {
        let Some(ty) = cast.type_name.as_ref().filter(|_| self.context.system.is_some()) else {
            return Ok(None);
        };
        let names = strings(&ty.names);
        let Some(&name) = names.last() else { return Ok(None) };
        let arg = self.required(&cast.arg)?;
        if let Some(stand_in) = stand_in(name) {
            let ty = match ty.array_bounds.is_empty() {
                true => stand_in,
                false => SqlType::array_of(stand_in),
            };
            // 'f'::regproc::oid, and what stands in a table by its name.
            let is_routine = matches!(&arg.node, Some(node::Node::TypeCast(inner))
                if registered_cast(inner).is_some_and(|(.., kind)| kind == "function"));
            let operand = self.bind_expr(arg)?;
            let is_named = operand.ty == SqlType::Text && matches!(operand.kind, ExprKind::Column { .. });
            if ty == SqlType::Int8 && (is_routine && operand.ty == SqlType::Text || is_named) {
                return self.of_template("regproc as number", vec![operand]).map(Some);
            }
            return self.coerce(operand, &ty, CastContext::Explicit).map(Some);
        }
        if let (true, Some(node::Node::TypeCast(inner))) = (matches!(name, "text" | "varchar"), &arg.node)
            && let Some(of) = registered_cast(inner)
            && let Some(bound) = self.bind_system_cast(inner)?
        {
            return match bound.ty.is_integer() {
                true => self.of_template(of.0, vec![bound]).map(Some),
                false => Ok(Some(bound)),
            };
        }
        if let ("regtype", [_], Some(node::Node::AConst(_))) = (name, &ty.array_bounds[..], &arg.node) {
            let operand = self.bind_expr(arg)?;
            return Ok(type_numbers(&operand));
        }
        let Some((shows, looks_up, kind)) = registered(name).filter(|_| ty.array_bounds.is_empty()) else {
            return Ok(None);
        };
        let operand = self.bind_expr(arg)?;
        let span = operand.span;
        if operand.ty.is_integer() {
            return self.of_template(shows, vec![operand]).map(Some);
        }
        if let (ExprKind::Literal(Value::Text(text)), SqlType::Unknown) = (&operand.kind, &operand.ty) {
            // Functions stand in the tables by their names.
            if kind == "function" {
                let name = text.strip_prefix("pg_catalog.").unwrap_or(text);
                return Ok(Some(constant(Value::text(name), SqlType::Text, span)));
            }
            if let Ok(number) = text.trim().parse::<i64>() {
                return Ok(Some(constant(Value::Int(number), SqlType::Int8, span)));
            }
            // By any of its names: int, int4, integer.
            if let Some(number) = Some(text).filter(|_| kind == "type").and_then(|text| type_number_of(text))
            {
                return Ok(Some(constant(Value::Int(number), SqlType::Int8, span)));
            }
            let plain = without_quotes(text);
            if kind == "relation" && !self.has_relation(&plain) {
                let schema = plain.split_once('.').map(|(schema, _)| schema).filter(|_| is_qualified(text));
                if let Some(schema) = schema.filter(|schema| !self.has_schema(schema)) {
                    let message = format!("schema \"{schema}\" does not exist");
                    return Err(self.error(SqlState::INVALID_SCHEMA_NAME, span, message));
                }
                let message = format!("relation \"{plain}\" does not exist");
                return Err(self.error(SqlState::UNDEFINED_TABLE, span, message));
            }
            if kind == "type" && plain != *text {
                let named = constant(Value::text(plain), SqlType::Unknown, span);
                return self.of_template(looks_up, vec![named]).map(Some);
            }
        }
        self.of_template(looks_up, vec![operand]).map(Some)
    }

    fn of_template(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr, Diagnostic> {
        match templates::function(name, args.len()) {
            Some(template) => {
                // Places in a template are none of the text's.
                let span = args.first().map_or_else(|| self.piece.span(), |arg| arg.span);
                self.bind_template(template, args).map(|expr| Expr { span, ..expr })
            }
            None => Err(Diagnostic::unsupported(self.piece.span(), name, "rewrite the expression")),
        }
    }

    fn has_schema(&self, name: &str) -> bool {
        ["public", "pg_catalog", "information_schema", "pg_toast"].contains(&name)
            || self.context.catalog.schemas.contains(name)
    }

    fn has_relation(&self, name: &str) -> bool {
        let catalog = self.context.catalog;
        let plain = name.replace('"', "");
        let name = plain.strip_prefix("public.").unwrap_or(&plain);
        let in_system = format!("pg_catalog.{name}");
        let is = |one: &str| one == name || one == in_system;
        let own = |one: &str| name.rsplit('.').next() == Some(one);
        catalog.tables.iter().any(|table| {
            let keys = table.primary_key.iter().chain(&table.unique_keys).map(|key| &key.name);
            is(&table.name) || keys.chain(table.indexes.iter().map(|index| &index.name)).any(|one| own(one))
        }) || catalog.views.iter().any(|view| is(&view.name))
            || catalog.sequences.iter().any(|sequence| is(&sequence.name))
            || templates::views().keys().any(|view| is(view))
    }

    pub(super) fn is_of_system(&self) -> bool {
        self.context.system.is_some()
    }

    /// A function of catalogs that gives rows, and the type of its one column.
    pub(super) fn system_rows(&self, name: &str, args: &[Expr], span: Span) -> Option<(TableCall, SqlType)> {
        self.context.system?;
        let call = |function, args| TableCall { function, args, width: 1 };
        match (name, args) {
            // There are no partitions by themselves, so nothing has ancestors.
            ("pg_partition_ancestors", [_]) => {
                let none = Value::array(SqlType::Int8, Vec::new());
                let none = constant(none, SqlType::array_of(SqlType::Int8), span);
                Some((call(TableFunction::Unnest, vec![none]), SqlType::Int8))
            }
            (EXPAND, [Expr { ty: SqlType::Array(element), .. }]) => {
                Some((call(TableFunction::Unnest, args.to_vec()), (**element).clone()))
            }
            (EXPANDED_AT, [array @ Expr { ty: SqlType::Array(_), .. }]) => {
                let first = constant(Value::Int(1), SqlType::Int4, span);
                Some((call(TableFunction::GenerateSubscripts, vec![array.clone(), first]), SqlType::Int4))
            }
            _ => None,
        }
    }

    /// `(information_schema._pg_expandarray(a)).n`, whose rows are (x, n): each field is a set of its own beside the other. Of a
    /// whole row only x is kept, so that is what `(row).x` is.
    pub(super) fn bind_expanded(
        &mut self,
        indirection: &'a AIndirection,
    ) -> Result<Option<Expr>, Diagnostic> {
        let [Node { node: Some(node::Node::String(field)) }] = &indirection.indirection[..] else {
            return Ok(None);
        };
        let arg = self.required(&indirection.arg)?;
        if self.context.system.is_none() || !matches!(field.sval.as_str(), "x" | "n") {
            return Ok(None);
        }
        match &arg.node {
            Some(node::Node::FuncCall(call))
                if strings(&call.funcname).last() == Some(&"_pg_expandarray") =>
            {
                let name = if field.sval == "n" { EXPANDED_AT } else { EXPAND };
                let span = self.piece.bracketed(call.location);
                self.bind_set_in_list(name, call, span).map(Some)
            }
            Some(node::Node::ColumnRef(_)) if field.sval == "x" => {
                let value = self.bind_expr(arg)?;
                Ok(Some(value).filter(|value| value.ty.is_integer()))
            }
            _ => Ok(None),
        }
    }

    /// PostgreSQL counts what is in its vectors from 0, and these are arrays: whether the subscript is one of a vector.
    pub(super) fn is_vector(&self, array: &Expr) -> Result<bool, Diagnostic> {
        let is_column = matches!(array.kind, ExprKind::Column { .. });
        let is_vector =
            array.ty == SqlType::array_of(SqlType::Int8) && is_column && self.context.system.is_some();
        if is_vector && self.reads_arrays {
            let what =
                "a subscript of bigint[] in a query of the system catalog and of a table with such a column";
            return Err(Diagnostic::unsupported(array.span, what, "use unnest(…) WITH ORDINALITY"));
        }
        Ok(is_vector)
    }

    /// The first and the last subscript of a vector, counted from 0; as arguments of generate_series.
    pub(super) fn places_of_vector(&mut self, vector: Expr) -> Result<Vec<Expr>, Diagnostic> {
        let span = vector.span;
        let int = |value: i64| constant(Value::Int(value), SqlType::Int4, span);
        let count = self.function_of("array_length", vec![vector, int(1)], span)?;
        Ok(vec![int(0), self.binary(BinaryOp::Subtract, count, int(1), span)?])
    }

    /// An operand of `||`, where a number `::regclass` is its name.
    pub(super) fn bind_shown(&mut self, operand: &'a Node) -> Result<Expr, Diagnostic> {
        let bound = self.bind_expr(operand)?;
        let Some(node::Node::TypeCast(cast)) = &operand.node else { return Ok(bound) };
        match registered_cast(cast) {
            Some((shows, ..)) if self.is_of_system() && bound.ty.is_integer() => {
                self.of_template(shows, vec![bound])
            }
            _ => Ok(bound),
        }
    }

    /// An index of a vector, as arrays are counted.
    pub(super) fn counted_from_one(&mut self, is_vector: bool, index: Expr) -> Result<Expr, Diagnostic> {
        if !is_vector {
            return Ok(index);
        }
        let span = index.span;
        self.binary(BinaryOp::Add, index, constant(Value::Int(1), SqlType::Int4, span), span)
    }

    /// A letter of a name, which PostgreSQL counts from 0, too.
    pub(super) fn letter(&mut self, name: Expr, index: Expr, span: Span) -> Result<Expr, Diagnostic> {
        let one = constant(Value::Int(1), SqlType::Int4, span);
        let at = self.binary(BinaryOp::Add, index, one.clone(), span)?;
        self.function_of("substr", vec![name, at, one], span)
    }
}

/// A point stands in the name outside of quotes.
fn is_qualified(name: &str) -> bool {
    let mut quoted = false;
    name.chars().any(|c| {
        quoted ^= c == '"';
        c == '.' && !quoted
    })
}

/// A name as catalogs have it: what is not in quotes in small letters, and no quotes.
fn without_quotes(name: &str) -> String {
    let (mut plain, mut quoted) = (String::with_capacity(name.len()), false);
    let mut chars = name.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => plain.push('"'),
            '"' => quoted = !quoted,
            c if quoted => plain.push(c),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

/// Values of `$1` and `$2` of the view of settings: names and values.
fn settings(facts: &Facts) -> Vec<Expr> {
    settings_of(&facts.settings)
}

fn settings_of(settings: &BTreeMap<String, String>) -> Vec<Expr> {
    let list = |values: Vec<Value>| {
        let ty = SqlType::array_of(SqlType::Text);
        constant(Value::array(SqlType::Text, values), ty, Span::default())
    };
    let names = settings.keys().map(|name| Value::text(name.as_str())).collect();
    vec![list(names), list(settings.values().map(|value| Value::text(value.as_str())).collect())]
}

/// Options of foreign data; always empty.
pub(super) const OPTIONS: &str = "pg_options_to_table";
const EXPAND: &str = "information_schema._pg_expandarray";
/// Its places.
const EXPANDED_AT: &str = "information_schema._pg_expandarray.n";

/// A function of catalogs that gives rows.
pub(super) fn is_set(name: &str) -> bool {
    matches!(name, "pg_partition_ancestors" | OPTIONS | EXPAND | EXPANDED_AT)
}
