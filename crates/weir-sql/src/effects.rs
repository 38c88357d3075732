//! SELECT of functions that act on the session, or ask it: `SELECT pg_advisory_lock(1)`, `SELECT set_config(…)`, `SELECT setval(…)`,
//! `SELECT currval(…)`.
//!
//! The arguments of such a statement are computed by a query without the calls, but with the original FROM and WHERE; the session then
//! executes the calls for each of its rows. Only calls that are whole items of the select list count. Other items may precede one; they
//! are computed before any call is executed.

use pg_query::protobuf::{FuncCall, Node, SelectStmt, SetOperation, TypeCast, node};
use weir_types::SqlType;

use crate::binder::expr_strings;
use crate::parse::deparse::query_template;
use crate::session::InnerStatement;

/// Effect of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Takes an advisory lock, until the end of the transaction or until it is released.
    AdvisoryLock {
        waits: bool,
        of_transaction: bool,
    },
    AdvisoryUnlock,
    AdvisoryUnlockAll,
    /// SET.
    SetConfig,
    /// ALTER SEQUENCE … RESTART.
    SetValue,
    /// currval of a sequence.
    CurrentValue,
    /// lastval.
    LastValue,
    /// No effect: the value of an expression.
    Value,
    /// Sleeps for that many seconds.
    Sleep,
    /// Names what the transaction reads, for others that are to read the same.
    ExportSnapshot,
}

/// One item of the select list.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectCall {
    pub effect: Effect,
    /// As the function is named.
    pub function: String,
    /// Number of columns of the query that are its arguments.
    pub arguments: usize,
    /// The name of its column; that of a value is the query's.
    pub column: String,
}

impl EffectCall {
    /// Type of its result, unless the query determines it.
    pub fn ty(&self) -> SqlType {
        match self.effect {
            Effect::Value => SqlType::Unknown,
            Effect::AdvisoryLock { waits: true, .. } | Effect::AdvisoryUnlockAll | Effect::Sleep => {
                SqlType::Void
            }
            Effect::AdvisoryLock { .. } | Effect::AdvisoryUnlock => SqlType::Bool,
            Effect::SetConfig | Effect::ExportSnapshot => SqlType::Text,
            Effect::SetValue | Effect::CurrentValue | Effect::LastValue => SqlType::Int8,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    pub calls: Vec<EffectCall>,
    /// Gives the arguments of the calls, one behind the other.
    pub query: InnerStatement,
}

/// The function of that name and number of arguments, and what these are cast to. Shared locks are held alone, too.
fn known(name: &str, arguments: usize) -> Option<(Effect, &'static [&'static str])> {
    let lock = |waits, of_transaction| Effect::AdvisoryLock { waits, of_transaction };
    let effect = match name {
        "pg_advisory_lock" | "pg_advisory_lock_shared" => lock(true, false),
        "pg_advisory_xact_lock" | "pg_advisory_xact_lock_shared" => lock(true, true),
        "pg_try_advisory_lock" | "pg_try_advisory_lock_shared" => lock(false, false),
        "pg_try_advisory_xact_lock" | "pg_try_advisory_xact_lock_shared" => lock(false, true),
        "pg_advisory_unlock" | "pg_advisory_unlock_shared" => Effect::AdvisoryUnlock,
        "pg_advisory_unlock_all" => Effect::AdvisoryUnlockAll,
        "set_config" => Effect::SetConfig,
        "setval" => Effect::SetValue,
        "currval" => Effect::CurrentValue,
        "lastval" => Effect::LastValue,
        "pg_sleep" | "pg_sleep_for" => Effect::Sleep,
        "pg_export_snapshot" => Effect::ExportSnapshot,
        _ => return None,
    };
    let types: &[&str] = match (effect, arguments) {
        (Effect::AdvisoryLock { .. } | Effect::AdvisoryUnlock, 1) => &["bigint"],
        (Effect::AdvisoryLock { .. } | Effect::AdvisoryUnlock, 2) => &["integer", "integer"],
        (Effect::AdvisoryUnlockAll | Effect::LastValue | Effect::ExportSnapshot, 0) => &[],
        (Effect::CurrentValue, 1) => &["text"],
        (Effect::Sleep, 1) if name == "pg_sleep_for" => &["interval"],
        (Effect::Sleep, 1) => &["double precision"],
        (Effect::SetConfig, 3) => &["text", "text", "boolean"],
        (Effect::SetValue, 2) => &["text", "bigint"],
        (Effect::SetValue, 3) => &["text", "bigint", "boolean"],
        _ => return None,
    };
    Some((effect, types))
}

impl Effects {
    /// None: the statement is a query like any other.
    pub(crate) fn of(select: &SelectStmt) -> Option<Effects> {
        let is_plain = select.op() == SetOperation::SetopNone
            && select.with_clause.is_none()
            && select.into_clause.is_none()
            && select.distinct_clause.is_empty();
        let last = match &select.target_list.last()?.node {
            Some(node::Node::ResTarget(target)) => target.val.as_ref()?.node.as_ref()?,
            _ => return None,
        };
        // Nothing may follow the last call.
        if !is_plain || effect_of(last).is_none() {
            return None;
        }
        let (mut calls, mut columns) = (Vec::new(), Vec::new());
        for item in &select.target_list {
            let Some(node::Node::ResTarget(target)) = &item.node else { return None };
            let value = target.val.as_ref()?.node.as_ref()?;
            match effect_of(value) {
                Some((call, function, effect, types)) => {
                    let arguments = call.args.iter().zip(types);
                    columns.extend(
                        arguments.map(|(argument, ty)| cast(argument, ty)).collect::<Option<Vec<_>>>()?,
                    );
                    let column = if target.name.is_empty() { function } else { &target.name };
                    calls.push(EffectCall {
                        effect,
                        function: function.to_owned(),
                        arguments: types.len(),
                        column: column.to_owned(),
                    });
                }
                None if is_star(value) => return None,
                None => {
                    columns.push(item.clone());
                    let (effect, function, column) = (Effect::Value, String::new(), String::new());
                    calls.push(EffectCall { effect, function, arguments: 1, column });
                }
            }
        }
        if columns.is_empty() {
            columns = query_template("SELECT 1").ok()?.target_list;
        }
        let query = SelectStmt { target_list: columns, ..select.clone() };
        Some(Effects { calls, query: InnerStatement::query(query) })
    }
}

fn effect_of(value: &node::Node) -> Option<(&FuncCall, &str, Effect, &'static [&'static str])> {
    let node::Node::FuncCall(call) = value else { return None };
    let function = function_name(call)?;
    let (effect, types) = known(function, call.args.len())?;
    Some((call, function, effect, types))
}

/// Columns, of a number that is unknown here.
fn is_star(value: &node::Node) -> bool {
    matches!(value, node::Node::ColumnRef(column)
        if column.fields.iter().any(|field| matches!(field.node, Some(node::Node::AStar(_)))))
}

/// An item of the select list: the argument as a value of the type.
fn cast(argument: &Node, ty: &str) -> Option<Node> {
    let mut item = query_template(&format!("SELECT CAST(NULL AS {ty})")).ok()?.target_list.pop()?;
    let Some(node::Node::ResTarget(target)) = &mut item.node else { return None };
    let Some(node::Node::TypeCast(cast)) = target.val.as_deref_mut().and_then(|value| value.node.as_mut())
    else {
        return None;
    };
    **cast = TypeCast {
        arg: Some(Box::new(argument.clone())),
        type_name: cast.type_name.take(),
        // It stands nowhere in the client's text.
        location: -1,
    };
    Some(item)
}

/// Name of the function in a plain call.
fn function_name(call: &FuncCall) -> Option<&str> {
    let is_plain = !call.agg_star
        && !call.agg_distinct
        && !call.func_variadic
        && call.agg_filter.is_none()
        && call.agg_order.is_empty()
        && call.over.is_none()
        && call.args.iter().all(|arg| !matches!(arg.node, Some(node::Node::NamedArgExpr(_))));
    match expr_strings(&call.funcname)[..] {
        [name] | ["pg_catalog", name] if is_plain => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::session::{Command, statements};

    fn check(text: &str, expect: &str) {
        let found = match statements(text).unwrap().remove(0).what {
            Command::Effects(effects) => {
                let names: Vec<String> =
                    effects.calls.iter().map(|one| format!("{}/{}", one.column, one.arguments)).collect();
                format!("{}: {}", names.join(" "), effects.query.in_text(text).sql().unwrap())
            }
            Command::Run => "a query".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn what_acts_on_the_session_is_split_from_what_it_asks() {
        check("SELECT pg_advisory_lock($1)", "pg_advisory_lock/1: SELECT $1::bigint");
        check(
            "select pg_catalog.pg_try_advisory_lock(1, f(2, 3)) AS \"it\"",
            "it/2: SELECT 1::int, f(2, 3)::int",
        );
        check(
            "SELECT set_config('a', 'b,)', false) x, set_config(name, $1, true) FROM s WHERE y LIMIT 1",
            "x/3 set_config/3: SELECT 'a'::text, 'b,)'::text, false::boolean, name::text, $1::text, true::boolean FROM s WHERE y LIMIT 1",
        );
        check(
            "SELECT setval('t_id_seq', max(id)) FROM t",
            "setval/2: SELECT 't_id_seq'::text, max(id)::bigint FROM t",
        );
        check(
            "SELECT currval(pg_get_serial_sequence('t', 'id')), lastval() AS last",
            "currval/1 last/0: SELECT pg_get_serial_sequence('t', 'id')::text",
        );
        check(
            "SELECT current_setting('jit') AS cur, f(1, 2)::text, set_config('jit', 'off', false) AS new",
            "/1 /1 new/3: SELECT current_setting('jit') AS cur, f(1, 2)::text, 'jit'::text, 'off'::text, false::boolean",
        );
        check("SELECT pg_advisory_unlock_all()", "pg_advisory_unlock_all/0: SELECT 1");
        for query in [
            "SELECT 1 + pg_advisory_lock(1)",
            "SELECT setval('s', 1), 2",
            "SELECT 1, 2",
            "SELECT t.*, pg_advisory_lock(1) FROM t",
            "SELECT pg_advisory_lock()",
            "SELECT DISTINCT pg_advisory_lock(1)",
            "SELECT my.pg_advisory_lock(1)",
            "SELECT pg_try_advisory_lock(1) UNION SELECT true",
        ] {
            check(query, "a query");
        }
    }
}
