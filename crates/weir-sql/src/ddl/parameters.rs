//! `WITH (…)`, `SET (…)` and `RESET (…)`: the parameters by which PostgreSQL stores a relation. Weir stores it as it does, so that none has
//! an effect; one that PostgreSQL does not have, or a value that it refuses, is refused.

use pg_query::protobuf::{DefElem, Node, node};
use weir_types::SqlState;

use super::settings::constant;
use crate::source::{Diagnostic, Span};

/// Kind of a relation, as far as its storage parameters depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Table,
    Index,
    View,
    /// A column of a table.
    Column,
}

/// Values that a parameter accepts.
#[derive(Clone, Copy)]
enum Allowed {
    Switch,
    Whole(i64, i64),
    Number(f64, f64),
    OneOf(&'static [&'static str]),
}

const LARGE: i64 = i32::MAX as i64;

const OF_TABLES: &[(&str, Allowed)] = &[
    ("fillfactor", Allowed::Whole(10, 100)),
    ("toast_tuple_target", Allowed::Whole(128, 8160)),
    ("parallel_workers", Allowed::Whole(0, 1024)),
    ("user_catalog_table", Allowed::Switch),
];

/// Parameters of tables, and of their TOAST tables.
const OF_VACUUM: &[(&str, Allowed)] = &[
    ("autovacuum_enabled", Allowed::Switch),
    ("autovacuum_analyze_scale_factor", Allowed::Number(0.0, 100.0)),
    ("autovacuum_analyze_threshold", Allowed::Whole(0, LARGE)),
    ("autovacuum_freeze_max_age", Allowed::Whole(100_000, 2_000_000_000)),
    ("autovacuum_freeze_min_age", Allowed::Whole(0, 1_000_000_000)),
    ("autovacuum_freeze_table_age", Allowed::Whole(0, 2_000_000_000)),
    ("autovacuum_multixact_freeze_max_age", Allowed::Whole(10_000, 2_000_000_000)),
    ("autovacuum_multixact_freeze_min_age", Allowed::Whole(0, 1_000_000_000)),
    ("autovacuum_multixact_freeze_table_age", Allowed::Whole(0, 2_000_000_000)),
    ("autovacuum_vacuum_cost_delay", Allowed::Number(-1.0, 100.0)),
    ("autovacuum_vacuum_cost_limit", Allowed::Whole(1, 10_000)),
    ("autovacuum_vacuum_insert_scale_factor", Allowed::Number(0.0, 100.0)),
    ("autovacuum_vacuum_insert_threshold", Allowed::Whole(-1, LARGE)),
    ("autovacuum_vacuum_scale_factor", Allowed::Number(0.0, 100.0)),
    ("autovacuum_vacuum_threshold", Allowed::Whole(0, LARGE)),
    ("log_autovacuum_min_duration", Allowed::Whole(-1, LARGE)),
    ("vacuum_index_cleanup", Allowed::OneOf(&["auto", "on", "off", "true", "false", "yes", "no", "1", "0"])),
    ("vacuum_truncate", Allowed::Switch),
];

const OF_INDEXES: &[(&str, Allowed)] =
    &[("fillfactor", Allowed::Whole(10, 100)), ("deduplicate_items", Allowed::Switch)];

const OF_VIEWS: &[(&str, Allowed)] =
    &[("security_barrier", Allowed::Switch), ("security_invoker", Allowed::Switch)];

const OF_COLUMNS: &[(&str, Allowed)] = &[
    ("n_distinct", Allowed::Number(-1.0, f64::MAX)),
    ("n_distinct_inherited", Allowed::Number(-1.0, f64::MAX)),
];

/// Refuses what PostgreSQL refuses (22023). `sets`: it is no RESET, which takes names only.
pub(super) fn check(options: &[Node], of: Of, sets: bool, place: Span) -> Result<(), Diagnostic> {
    let options = options.iter().filter_map(|node| match &node.node {
        Some(node::Node::DefElem(option)) => Some(&**option),
        _ => None,
    });
    options.into_iter().try_for_each(|option| check_one(option, of, sets, place))
}

fn check_one(option: &DefElem, of: Of, sets: bool, place: Span) -> Result<(), Diagnostic> {
    let invalid = |message: String| Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, place, message));
    let name = option.defname.as_str();
    let value = match option.arg.as_deref() {
        Some(value) => word(value),
        None => "true".to_owned(),
    };
    let known: Vec<&[(&str, Allowed)]> = match (of, option.defnamespace.as_str()) {
        (Of::Table, "toast") => vec![OF_VACUUM],
        (_, namespace) if !namespace.is_empty() => {
            return invalid(format!("unrecognized parameter namespace \"{namespace}\""));
        }
        (Of::Table, _) if name == "oids" && sets => {
            return match switched(&value) {
                Some(false) => Ok(()),
                _ => Err(Diagnostic::unsupported(place, "a table WITH OIDS", "leave it away")),
            };
        }
        (Of::View, _) if name == "check_option" => {
            return Err(Diagnostic::unsupported(
                place,
                "the check_option of a view",
                "test the condition in the procedures that write to the view",
            ));
        }
        (Of::Table, _) => vec![OF_TABLES, OF_VACUUM],
        (Of::Index, _) => vec![OF_INDEXES],
        (Of::View, _) => vec![OF_VIEWS],
        (Of::Column, _) => vec![OF_COLUMNS],
    };
    if !sets && option.arg.is_none() {
        // A parameter that is not set is reset, whatever it is called.
        return Ok(());
    }
    let Some((_, may)) = known.iter().copied().flatten().find(|(one, _)| *one == name) else {
        return invalid(format!("unrecognized parameter \"{name}\""));
    };
    if !sets {
        let message = "RESET must not include values for parameters";
        return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, place, message));
    }
    let is_number = |least: f64, most: f64| {
        value.parse::<f64>().map(|number| number >= least && number <= most).map_err(|_| ())
    };
    let fits = match *may {
        Allowed::Switch => switched(&value).map(|_| true).ok_or(()),
        Allowed::Whole(least, most) => {
            value.parse::<i64>().map(|number| (least..=most).contains(&number)).map_err(|_| ())
        }
        Allowed::Number(least, most) => is_number(least, most),
        Allowed::OneOf(words) => Ok(words.contains(&value.to_ascii_lowercase().as_str())),
    };
    match fits {
        Ok(true) => Ok(()),
        Ok(false) => invalid(format!("value {value} out of bounds for option \"{name}\"")),
        Err(()) => invalid(format!("invalid value for option \"{name}\": {value}")),
    }
}

fn switched(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" | "of" => Some(false),
        _ => None,
    }
}

fn word(value: &Node) -> String {
    match &value.node {
        Some(node::Node::Integer(number)) => number.ival.to_string(),
        Some(node::Node::Float(number)) => number.fval.clone(),
        Some(node::Node::String(text)) => text.sval.clone(),
        Some(node::Node::Boolean(switch)) => switch.boolval.to_string(),
        Some(node::Node::TypeName(name)) => {
            crate::binder::expr_strings(&name.names).last().copied().unwrap_or_default().to_owned()
        }
        _ => constant(value),
    }
}
