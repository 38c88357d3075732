//! Bound trees as compact text: for golden tests, and to tell whether two expressions are the same.
//!
//! Columns are `#relation.column`, variables `$n`, casts `(x)::type` (`:::` where explicit).

use std::fmt::Write;

use weir_types::{SqlType, Value, text};

use crate::bound::{
    Aggregate, Distinct, Expr, ExprKind, Frame, FrameBound, FromItem, Insert, InsertSource, OnConflict,
    OutputColumn, Query, QueryBody, Select, SortOrder, Statement, TableCall, WindowCall,
};
use crate::catalog::ColumnIndex;

/// The same expression, wherever it stands in the text.
pub fn same(left: &Expr, right: &Expr) -> bool {
    left.ty == right.ty && expr(left) == expr(right)
}

fn list(exprs: &[Expr]) -> String {
    exprs.iter().map(expr).collect::<Vec<_>>().join(", ")
}

fn literal(value: &Value, ty: &SqlType) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(_) | Value::Bool(_) => text::to_text(value, ty),
        _ => format!("'{}'", text::to_text(value, ty)),
    }
}

fn negation(negated: bool) -> &'static str {
    if negated { "not " } else { "" }
}

fn direction(order: &SortOrder) -> &'static str {
    match (order.descending, order.nulls_first) {
        (false, false) => "",
        (false, true) => " nulls first",
        (true, true) => " desc",
        (true, false) => " desc nulls last",
    }
}

/// One expression.
pub fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Literal(value) => literal(value, &e.ty),
        ExprKind::Column { relation, column } => format!("#{}.{column}", relation.0),
        ExprKind::Variable(id) => format!("${}", id.0 + 1),
        ExprKind::Binary { op, left, right } => format!("({} {op:?} {})", expr(left), expr(right)),
        ExprKind::Negate(operand) => format!("-{}", expr(operand)),
        ExprKind::And(parts) => format!("and({})", list(parts)),
        ExprKind::Or(parts) => format!("or({})", list(parts)),
        ExprKind::Not(operand) => format!("not({})", expr(operand)),
        ExprKind::IsNull { operand, negated } => {
            format!("({} is {}null)", expr(operand), negation(*negated))
        }
        ExprKind::IsBool { operand, value, negated } => {
            format!("({} is {}{value})", expr(operand), negation(*negated))
        }
        ExprKind::IsDistinct { left, right, negated } => {
            format!("({} is {}distinct {})", expr(left), negation(*negated), expr(right))
        }
        ExprKind::Function { function, args } => format!("{}({})", function.name, list(args)),
        ExprKind::Cast { operand, explicit } => {
            format!("({}){}{}", expr(operand), if *explicit { ":::" } else { "::" }, e.ty)
        }
        ExprKind::Case { whens, otherwise } => {
            let mut out = "case".to_owned();
            for (condition, result) in whens {
                let _ = write!(out, " when {} then {}", expr(condition), expr(result));
            }
            if let Some(otherwise) = otherwise {
                let _ = write!(out, " else {}", expr(otherwise));
            }
            out + " end"
        }
        ExprKind::Coalesce(args) => format!("coalesce({})", list(args)),
        ExprKind::NullIf(left, right) => format!("nullif({}, {})", expr(left), expr(right)),
        ExprKind::Greatest(args) => format!("greatest({})", list(args)),
        ExprKind::Least(args) => format!("least({})", list(args)),
        ExprKind::Array(args) => format!("array[{}]", list(args)),
        ExprKind::Subscript { array, index } => format!("{}[{}]", expr(array), expr(index)),
        ExprKind::Row(args) => format!("row({})", list(args)),
        ExprKind::Opaque(args) => format!("opaque({})", list(args)),
        ExprKind::NextValue(sequence) => format!("nextval({})", sequence.0),
        ExprKind::CurrentValue(sequence) => format!("currval({})", sequence.0),
        ExprKind::TransactionTime => format!("now()::{}", e.ty),
        ExprKind::Volatile(function) => format!("{function:?}()"),
        ExprKind::Aggregate(call) => aggregate(call),
        ExprKind::Window(call) => window(call),
        _ => compound(e),
    }
}

/// Slices, LIKE, IN and everything with a subquery.
fn compound(e: &Expr) -> String {
    let optional = |part: &Option<Box<Expr>>| part.as_ref().map_or(String::new(), |part| expr(part));
    match &e.kind {
        ExprKind::Slice { array, lower, upper } => {
            format!("{}[{}:{}]", expr(array), optional(lower), optional(upper))
        }
        ExprKind::Like { operand, pattern, escape, insensitive, negated } => {
            let word = if *insensitive { "ilike" } else { "like" };
            let escape = escape.as_ref().map_or(String::new(), |escape| format!(" escape {}", expr(escape)));
            format!("({} {}{word} {}{escape})", expr(operand), negation(*negated), expr(pattern))
        }
        ExprKind::InList { operand, list: values, negated } => {
            format!("({} {}in [{}])", expr(operand), negation(*negated), list(values))
        }
        ExprKind::ArrayCompare { op, left, array, all } => {
            format!("({} {op:?} {}({}))", expr(left), if *all { "all" } else { "any" }, expr(array))
        }
        ExprKind::ScalarSubquery(inner) => format!("({})", query(inner)),
        ExprKind::Exists { query: inner, negated } => {
            format!("{}exists({})", negation(*negated), query(inner))
        }
        ExprKind::QuantifiedSubquery { op, left, query: inner, all } => {
            format!("([{}] {op:?} {}({}))", list(left), if *all { "all" } else { "any" }, query(inner))
        }
        ExprKind::ArraySubquery(inner) => format!("array({})", query(inner)),
        other => format!("{other:?}"),
    }
}

fn aggregate(call: &Aggregate) -> String {
    let mut out = format!("{:?}(", call.function);
    if call.distinct {
        out += "distinct ";
    }
    out += &list(&call.args);
    for (i, (key, order)) in call.order_by.iter().enumerate() {
        let separator = if i == 0 { " order by " } else { ", " };
        let _ = write!(out, "{separator}{}{}", expr(key), direction(order));
    }
    out.push(')');
    if let Some(filter) = &call.filter {
        let _ = write!(out, " filter {}", expr(filter));
    }
    out
}

fn window(call: &WindowCall) -> String {
    let mut out = format!("{:?}({})", call.function, list(&call.args));
    if let Some(filter) = &call.filter {
        let _ = write!(out, " filter {}", expr(filter));
    }
    let _ = write!(out, " over (partition by {} order by", list(&call.partition_by));
    for (key, order) in &call.order_by {
        let _ = write!(out, " {}{}", expr(key), direction(order));
    }
    let bound = |bound: &FrameBound| match bound {
        FrameBound::Preceding(offset) => format!("{} preceding", expr(offset)),
        FrameBound::Following(offset) => format!("{} following", expr(offset)),
        other => format!("{other:?}"),
    };
    let Frame { unit, start, end, exclusion } = &call.frame;
    let _ = write!(out, " {unit:?} {} to {} exclude {exclusion:?})", bound(start), bound(end));
    out
}

/// One query, with the names and types of its columns where they matter elsewhere: see [`columns`].
pub fn query(q: &Query) -> String {
    let mut out = String::new();
    for (i, cte) in q.ctes.iter().enumerate() {
        let recursive = if cte.recursive { "recursive " } else { "" };
        let with = if i == 0 { "with " } else { ", " };
        let _ = write!(out, "{with}{recursive}{} as ({})", cte.name, query(&cte.query));
    }
    if !q.ctes.is_empty() {
        out.push(' ');
    }
    match &q.body {
        QueryBody::Select(body) => out += &select(body),
        QueryBody::SetOperation { op, all, left, right } => {
            let all = if *all { " all" } else { "" };
            let _ = write!(out, "({}) {op:?}{all} ({})", query(left), query(right));
        }
        QueryBody::Values(rows) => out += &values(rows),
    }
    for (i, item) in q.order_by.iter().enumerate() {
        let separator = if i == 0 { " order by" } else { "," };
        let _ = write!(out, "{separator} {}{}", item.output, direction(&item.order));
    }
    if let Some(limit) = &q.limit {
        let _ = write!(out, " limit {}{}", expr(limit), if q.with_ties { " with ties" } else { "" });
    }
    if let Some(offset) = &q.offset {
        let _ = write!(out, " offset {}", expr(offset));
    }
    if !q.locks.is_empty() {
        out += " for update";
    }
    out
}

/// `name type, …`.
pub fn columns(columns: &[OutputColumn]) -> String {
    columns.iter().map(|column| format!("{} {}", column.name, column.ty)).collect::<Vec<_>>().join(", ")
}

fn values(rows: &[Vec<Expr>]) -> String {
    format!("values {}", rows.iter().map(|row| format!("({})", list(row))).collect::<Vec<_>>().join(", "))
}

fn select(s: &Select) -> String {
    let mut out = "select ".to_owned();
    match &s.distinct {
        Distinct::All => {}
        Distinct::Rows => out += "distinct ",
        Distinct::On(outputs) => {
            let _ = write!(out, "distinct on {outputs:?} ");
        }
    }
    out += &list(&s.outputs);
    if !s.from.is_empty() {
        let _ = write!(out, " from {}", from_list(&s.from));
    }
    if let Some(filter) = &s.filter {
        let _ = write!(out, " where {}", expr(filter));
    }
    if s.aggregates {
        let _ = write!(out, " group by [{}]", list(&s.group_by));
    }
    if let Some(having) = &s.having {
        let _ = write!(out, " having {}", expr(having));
    }
    out
}

fn from_list(items: &[FromItem]) -> String {
    items.iter().map(from).collect::<Vec<_>>().join(", ")
}

fn from(item: &FromItem) -> String {
    match item {
        FromItem::Table { relation, alias, .. } => format!("{alias}#{}", relation.0),
        FromItem::Subquery { relation, query: inner, lateral } => {
            format!("{}({})#{}", if *lateral { "lateral " } else { "" }, query(inner), relation.0)
        }
        FromItem::Cte { relation, level, index } => format!("cte {level}.{index}#{}", relation.0),
        FromItem::Function { relation, calls, with_ordinality, columns: outputs } => format!(
            "{}{}[{}]#{}",
            calls.iter().map(table_call).collect::<Vec<_>>().join(", "),
            if *with_ordinality { " with ordinality" } else { "" },
            columns(outputs),
            relation.0
        ),
        FromItem::Values { relation, rows, columns: outputs } => {
            format!("({})[{}]#{}", values(rows), columns(outputs), relation.0)
        }
        FromItem::Join { kind, left, right, on } => {
            let on = on.as_ref().map_or(String::new(), |on| format!(" on {}", expr(on)));
            format!("({} {kind:?} {}{on})", from(left), from(right))
        }
    }
}

fn table_call(call: &TableCall) -> String {
    format!("{:?}({})", call.function, list(&call.args))
}

fn assignments(list: &[(ColumnIndex, Expr)]) -> String {
    list.iter().map(|(column, value)| format!("{column} = {}", expr(value))).collect::<Vec<_>>().join(", ")
}

fn returning(list: &[(OutputColumn, Expr)]) -> String {
    match list {
        [] => String::new(),
        _ => {
            let items = list.iter().map(|(column, value)| format!("{} as {}", expr(value), column.name));
            format!(" returning {}", items.collect::<Vec<_>>().join(", "))
        }
    }
}

fn where_clause(filter: &Option<Expr>) -> String {
    filter.as_ref().map_or(String::new(), |filter| format!(" where {}", expr(filter)))
}

/// One statement.
pub fn statement(statement: &Statement) -> String {
    match statement {
        Statement::Query(inner) => query(inner),
        Statement::Insert(inner) => insert(inner),
        Statement::Update(update) => {
            let from = match update.from.as_slice() {
                [] => String::new(),
                items => format!(" from {}", from_list(items)),
            };
            format!(
                "update {}#{} set {}{from}{}{}",
                update.table.0,
                update.relation.0,
                assignments(&update.assignments),
                where_clause(&update.filter),
                returning(&update.returning)
            )
        }
        Statement::Delete(delete) => {
            let using = match delete.using.as_slice() {
                [] => String::new(),
                items => format!(" using {}", from_list(items)),
            };
            format!(
                "delete {}#{}{using}{}{}",
                delete.table.0,
                delete.relation.0,
                where_clause(&delete.filter),
                returning(&delete.returning)
            )
        }
    }
}

fn insert(insert: &Insert) -> String {
    let source = match &insert.source {
        InsertSource::Values(rows) => values(rows),
        InsertSource::Query(inner) => query(inner),
    };
    let mut out = format!("insert {}#{} {:?} {source}", insert.table.0, insert.relation.0, insert.columns);
    if !insert.defaults.is_empty() {
        let _ = write!(out, " defaults {}", assignments(&insert.defaults));
    }
    if let Some(OnConflict { columns, update }) = &insert.on_conflict {
        let _ = write!(out, " on conflict {columns:?}");
        if let Some((list, filter)) = update {
            let _ = write!(
                out,
                " excluded#{} set {}{}",
                insert.excluded.0,
                assignments(list),
                where_clause(filter)
            );
        }
    }
    out + &returning(&insert.returning)
}
