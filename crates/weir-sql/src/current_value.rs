//! `currval('s')` and `lastval()` in a client's statement: sequence values of its session, which shards do not know. The client's side
//! passes the values as additional parameters after the client's: each call of the tree gets a parameter as its argument.

use pg_query::protobuf::{FuncCall, Node, ParamRef, TypeCast, a_const, node};
use weir_types::SqlType;

use crate::binder::relation_named;
use crate::parse::nodes::{each_node, each_node_mut};
use crate::parse::too_deep;
use crate::source::Diagnostic;
use crate::statement::ParsedText;

/// A sequence value of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentValue {
    /// currval of the sequence of that name, in the form of the catalog.
    Of(String),
    /// lastval(): of the sequence used last.
    Last,
}

/// A statement in which each call has such a value as its argument.
#[derive(Clone, Debug)]
pub struct WithCurrentValues<'t> {
    pub statement: ParsedText<'t>,
    /// Types of the client's parameters, Unknown where it has given none, followed by those of the values.
    pub types: Vec<SqlType>,
    pub values: Vec<CurrentValue>,
}

/// The statement may call them: only then it is worth a look at its tree.
pub fn mentions_current_values(sql: &str) -> bool {
    const WORDS: [&[u8]; 2] = [b"currval", b"lastval"];
    sql.as_bytes().windows(7).any(|at| WORDS.iter().any(|word| at.eq_ignore_ascii_case(word)))
}

/// `None`: the statement has none. `takes`: the statement itself takes a value of that sequence, and knows which.
///
/// # Errors
/// A sequence whose name is computed.
pub fn with_current_values<'t>(
    parsed: &ParsedText<'t>,
    types: &[SqlType],
    takes: &dyn Fn(&str) -> bool,
) -> Result<Option<WithCurrentValues<'t>>, Diagnostic> {
    if !parsed.can_be_rewritten() {
        return Err(too_deep(parsed.piece().token(0)));
    }
    let mut types = types.to_vec();
    types.resize(types.len().max(highest_parameter(parsed.node())), SqlType::Unknown);
    let mut values = Vec::new();
    let mut refusal = None;
    let mut node = parsed.node().clone();
    each_node_mut(&mut node, &mut |node| {
        let node::Node::FuncCall(call) = node else { return true };
        match asked(call) {
            Some(Asked::Computed) => {
                refusal.get_or_insert(call.location);
            }
            Some(Asked::Value(CurrentValue::Of(name))) if takes(&name) => {}
            Some(Asked::Value(value)) => {
                values.push(value);
                types.push(SqlType::Int8);
                let number = i32::try_from(types.len()).unwrap_or(i32::MAX);
                let parameter = node::Node::ParamRef(ParamRef { number, location: call.location });
                call.args = vec![Node { node: Some(parameter) }];
            }
            None => {}
        }
        true
    });
    if let Some(location) = refusal {
        return Err(Diagnostic::unsupported(
            parsed.piece().bracketed(location),
            "currval of a sequence whose name is computed, beside anything else",
            "write the name as a literal: currval('orders_id_seq'), or ask by itself: SELECT currval(…)",
        ));
    }
    let statement = || parsed.rewritten(node);
    Ok((!values.is_empty()).then(|| WithCurrentValues { statement: statement(), types, values }))
}

/// The highest number of a parameter, as PostgreSQL allows them.
pub(crate) fn highest_parameter(node: &node::Node) -> usize {
    let mut highest = 0;
    each_node(node, &mut |node| {
        if let node::Node::ParamRef(parameter) = node {
            highest = highest.max(parameter.number);
        }
        true
    });
    usize::try_from(highest).unwrap_or(0).min(PARAMETERS_MAX)
}

const PARAMETERS_MAX: usize = u16::MAX as usize;

enum Asked {
    Value(CurrentValue),
    Computed,
}

/// Returns the effect of the call. `None`: it is another function, or one that PostgreSQL does not have.
fn asked(call: &FuncCall) -> Option<Asked> {
    let names: Vec<&str> = call.funcname.iter().map(string).collect::<Option<_>>()?;
    let name = match names[..] {
        [name] | ["pg_catalog", name] => name,
        _ => return None,
    };
    match (name, &call.args[..]) {
        ("lastval", []) => Some(Asked::Value(CurrentValue::Last)),
        ("currval", [name]) => Some(match literal(name) {
            Some(name) => Asked::Value(CurrentValue::Of(relation_named(name))),
            None => Asked::Computed,
        }),
        _ => None,
    }
}

/// A string, also cast to a text or a relation.
fn literal(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        node::Node::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Sval(text) => Some(&text.sval),
            _ => None,
        },
        node::Node::TypeCast(cast) if is_name(cast) => literal(cast.arg.as_deref()?),
        _ => None,
    }
}

fn is_name(cast: &TypeCast) -> bool {
    let ty = cast.type_name.as_ref().and_then(|ty| ty.names.last()).and_then(string);
    matches!(ty, Some("regclass" | "text"))
}

fn string(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        node::Node::String(text) => Some(&text.sval),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expect: &str) {
        let takes = |name: &str| name == "own";
        let parsed = ParsedText::of(sql).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"));
        let found = match with_current_values(&parsed, &[SqlType::Text], &takes) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(with)) => {
                format!("{} {:?} {:?}", with.statement.sql().unwrap(), with.types, with.values)
            }
            Err(wrong) => format!("{} at {}", wrong.state, wrong.span.start),
        };
        assert_eq!(found, expect, "{sql}");
    }

    #[test]
    fn current_values_are_parameters_behind_those_of_the_client() {
        check("INSERT INTO t VALUES (1)", "nothing");
        check(
            "INSERT INTO t VALUES (CurrVal('\"Orders\"'), $2)",
            "INSERT INTO t VALUES (currval($3), $2) [Text, Unknown, Int8] [Of(\"Orders\")]",
        );
        check(
            "SELECT lastval(), pg_catalog.currval('public.s'::regclass) + currval('own')",
            "SELECT lastval($2), pg_catalog.currval($3) + currval('own') [Text, Int8, Int8] [Last, Of(\"s\")]",
        );
        check("SELECT my.currval('s'), 'currval(', currval", "nothing");
        check("SELECT 1 + currval('own')", "nothing");
        check("SELECT 1 + currval(name) FROM s", "0A000 at 11");
        check("SELECT 1 + currval($1)", "0A000 at 11");
    }

    #[test]
    fn calls_are_found_however_they_are_written() {
        for sql in [
            "SELECT 1 + currval( /* ) */ 's' -- )\n)",
            "SELECT 1 + currval($$s$$)",
            "SELECT 1 + currval($a$s$a$)",
            "SELECT 1 + currval(E'\\x73')",
            "SELECT 1 + currval(U&'\\0073')",
            "SELECT 1 + currval((('s')))",
            "SELECT 1 + currval('s'::text::pg_catalog.regclass)",
            "SELECT 1 + currval(CAST('s' AS regclass))",
            "SELECT 1 + currval('pub'\n'lic.s')",
            "SELECT 1 + \"currval\"('s')",
        ] {
            check(sql, "SELECT 1 + currval($2) [Text, Int8] [Of(\"s\")]");
        }
        check("SELECT 1 AS \"currval(\", '$9', $$currval('s')$$ -- currval('s')", "nothing");
        check(
            "SELECT \"pg_catalog\" . \"currval\"('s') AS \"$7\", '$8' WHERE (SELECT currval('s') > 1)",
            "SELECT pg_catalog.currval($2) AS \"$7\", '$8' WHERE (SELECT currval($3) > 1) [Text, Int8, Int8] [Of(\"s\"), Of(\"s\")]",
        );
    }
}
