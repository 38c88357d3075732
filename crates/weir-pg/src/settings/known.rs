//! The settings that there are: their names, what they are at first, and what they may be.

use std::borrow::Cow;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use weir_types::{Severity, SqlError, SqlState};

/// Values that a setting accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum May {
    /// Any value; it has no effect in Weir.
    BeAnything,
    /// A boolean.
    BeSwitched,
    /// A duration, in milliseconds if no unit is given; 0 is none.
    BeTime,
    /// The same; -1 is none.
    BeTimeOrNever,
    BeInteger(i32, i32),
    BeNumber(f64, f64),
    /// Memory or disk, in kB where no unit is given; at least so much. -1: as much as there is.
    BeSize(i32),
    BeOneOf(&'static [&'static str]),
    /// In which schemas a name without one is looked for: the one that there is without being made, or none.
    BePath,
    /// Digits of floats: as many as it takes.
    BeDigits,
    BeZone,
    BeDateStyle,
    BeIntervalStyle,
    /// Nothing else: what clients are sent does not follow it.
    Only(&'static [&'static str]),
    /// It cannot be set.
    NotBeSet,
    /// A level of isolation; one that is for reading alone, where transactions read only.
    BeLevel,
    /// Only the session's own user: there is one role.
    BeWhoAsks,
    /// Lowest severity of notices sent to the client.
    BeSeverity,
}

/// Name as SHOW ALL has it, what it is at first, what it may be.
pub(super) const KNOWN: &[(&str, &str, May)] = &[
    ("application_name", "", May::BeAnything),
    ("array_nulls", "on", May::Only(&["on", "true", "1", "yes"])),
    ("backslash_quote", "safe_encoding", May::BeOneOf(&["safe_encoding", "on", "off"])),
    ("bytea_output", "hex", May::Only(&["hex"])),
    ("check_function_bodies", "on", May::BeSwitched),
    ("client_encoding", "UTF8", May::Only(&["utf8", "utf-8", "unicode"])),
    (LEAST_SEVERITY, "notice", May::BeSeverity),
    ("commit_delay", "0", May::NotBeSet),
    ("constraint_exclusion", "partition", May::BeOneOf(&["partition", "on", "off"])),
    ("cpu_index_tuple_cost", "0.005", May::BeNumber(0.0, f64::MAX)),
    ("cpu_operator_cost", "0.0025", May::BeNumber(0.0, f64::MAX)),
    ("cpu_tuple_cost", "0.01", May::BeNumber(0.0, f64::MAX)),
    ("cursor_tuple_fraction", "0.1", May::BeNumber(0.0, 1.0)),
    ("DateStyle", "ISO, MDY", May::BeDateStyle),
    ("deadlock_timeout", "1s", May::BeTime),
    ("default_statistics_target", "100", May::BeInteger(1, 10_000)),
    ("default_table_access_method", "heap", May::Only(&["heap"])),
    ("default_tablespace", "", May::Only(&[""])),
    ("default_transaction_deferrable", "off", May::BeSwitched),
    ("default_transaction_isolation", "read committed", May::BeLevel),
    ("default_transaction_read_only", "off", May::BeSwitched),
    ("default_with_oids", "off", May::Only(&["off", "false", "0", "no"])),
    ("effective_io_concurrency", "1", May::BeInteger(0, 1000)),
    ("enable_async_append", "on", May::BeSwitched),
    ("enable_bitmapscan", "on", May::BeSwitched),
    ("enable_gathermerge", "on", May::BeSwitched),
    ("enable_hashagg", "on", May::BeSwitched),
    ("enable_hashjoin", "on", May::BeSwitched),
    ("enable_incremental_sort", "on", May::BeSwitched),
    ("enable_indexonlyscan", "on", May::BeSwitched),
    ("enable_indexscan", "on", May::BeSwitched),
    ("enable_material", "on", May::BeSwitched),
    ("enable_memoize", "on", May::BeSwitched),
    ("enable_mergejoin", "on", May::BeSwitched),
    ("enable_nestloop", "on", May::BeSwitched),
    ("enable_parallel_append", "on", May::BeSwitched),
    ("enable_parallel_hash", "on", May::BeSwitched),
    ("enable_partition_pruning", "on", May::BeSwitched),
    ("enable_partitionwise_aggregate", "off", May::BeSwitched),
    ("enable_partitionwise_join", "off", May::BeSwitched),
    ("enable_seqscan", "on", May::BeSwitched),
    ("enable_sort", "on", May::BeSwitched),
    ("enable_tidscan", "on", May::BeSwitched),
    ("escape_string_warning", "on", May::BeSwitched),
    ("extra_float_digits", "1", May::BeDigits),
    ("from_collapse_limit", "8", May::BeInteger(1, i32::MAX)),
    ("geqo", "on", May::BeSwitched),
    ("geqo_threshold", "12", May::BeInteger(2, i32::MAX)),
    ("hash_mem_multiplier", "2", May::BeNumber(1.0, 1000.0)),
    ("idle_in_transaction_session_timeout", "1min", May::BeTime),
    ("idle_session_timeout", "0", May::Only(&["0"])),
    ("in_hot_standby", "off", May::NotBeSet),
    ("integer_datetimes", "on", May::NotBeSet),
    ("IntervalStyle", "postgres", May::BeIntervalStyle),
    ("is_superuser", "on", May::NotBeSet),
    ("jit", "off", May::BeSwitched),
    ("jit_above_cost", "100000", May::BeNumber(-1.0, f64::MAX)),
    ("join_collapse_limit", "8", May::BeInteger(1, i32::MAX)),
    ("lc_collate", "C", May::NotBeSet),
    ("lc_ctype", "C", May::NotBeSet),
    ("lc_messages", "C", May::BeAnything),
    ("lc_monetary", "C", May::BeAnything),
    ("lc_numeric", "C", May::BeAnything),
    ("lc_time", "C", May::BeAnything),
    ("lock_timeout", "0", May::BeTime),
    (LOG_SLOW, "-1", May::BeTimeOrNever),
    ("log_min_messages", "warning", May::BeAnything),
    ("log_statement", "none", May::BeOneOf(&["none", "ddl", "mod", "all"])),
    ("maintenance_work_mem", "64MB", May::BeSize(1024)),
    ("max_function_args", "100", May::NotBeSet),
    ("max_identifier_length", "63", May::NotBeSet),
    ("max_index_keys", "32", May::NotBeSet),
    ("max_parallel_workers_per_gather", "2", May::BeInteger(0, 1024)),
    ("parallel_setup_cost", "1000", May::BeNumber(0.0, f64::MAX)),
    ("parallel_tuple_cost", "0.1", May::BeNumber(0.0, f64::MAX)),
    ("plan_cache_mode", "auto", May::BeOneOf(&["auto", "force_generic_plan", "force_custom_plan"])),
    ("quote_all_identifiers", "off", May::Only(&["off", "false", "0", "no"])),
    ("random_page_cost", "4", May::BeNumber(0.0, f64::MAX)),
    ("role", "none", May::BeWhoAsks),
    ("row_security", "on", May::BeSwitched),
    ("search_path", "\"$user\", public", May::BePath),
    ("seq_page_cost", "1", May::BeNumber(0.0, f64::MAX)),
    ("server_encoding", "UTF8", May::NotBeSet),
    ("server_version", "15.0 (Weir)", May::NotBeSet),
    ("server_version_num", "150000", May::NotBeSet),
    ("session_authorization", "", May::BeWhoAsks),
    ("session_replication_role", "origin", May::Only(&["origin"])),
    ("standard_conforming_strings", "on", May::Only(&["on", "true", "1", "yes"])),
    ("statement_timeout", "0", May::BeTime),
    ("synchronize_seqscans", "on", May::BeSwitched),
    ("synchronous_commit", "on", May::BeOneOf(&["local", "remote_write", "remote_apply", "on", "off"])),
    ("temp_file_limit", "-1", May::BeSize(-1)),
    ("temp_tablespaces", "", May::Only(&[""])),
    ("TimeZone", "UTC", May::BeZone),
    ("transaction_deferrable", "off", May::BeSwitched),
    ("transaction_isolation", "read committed", May::Only(&["read committed", "read uncommitted"])),
    ("transaction_read_only", "off", May::BeSwitched),
    ("transform_null_equals", "off", May::Only(&["off", "false", "0", "no"])),
    ("vacuum_cost_delay", "0", May::BeNumber(0.0, 100.0)),
    ("wal_level", "replica", May::NotBeSet),
    ("work_mem", "4MB", May::BeSize(64)),
    ("xmloption", "content", May::Only(&["content"])),
];

pub(super) const LOG_SLOW: &str = "log_min_duration_statement";
pub(super) const LEAST_SEVERITY: &str = "client_min_messages";

/// From the least on: a word, which severity that one lets through first (none: nothing but errors), and whether clients are told that
/// there is this word.
pub(super) const SEVERITIES: [(&str, Option<Severity>, bool); 11] = [
    ("debug5", Some(Severity::Debug), true),
    ("debug4", Some(Severity::Debug), true),
    ("debug3", Some(Severity::Debug), true),
    ("debug2", Some(Severity::Debug), true),
    ("debug", Some(Severity::Debug), false),
    ("debug1", Some(Severity::Debug), true),
    ("log", Some(Severity::Log), true),
    ("info", Some(Severity::Info), false),
    ("notice", Some(Severity::Notice), true),
    ("warning", Some(Severity::Warning), true),
    ("error", None, true),
];

/// # Errors
/// There is no such word.
pub(super) fn severity(name: &str, value: &str) -> Result<&'static str, SqlError> {
    let value = value.trim_matches('\'');
    let Some((word, ..)) = SEVERITIES.iter().find(|(word, ..)| word.eq_ignore_ascii_case(value)) else {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        let told: Vec<&str> = SEVERITIES.iter().filter(|(.., told)| *told).map(|(word, ..)| *word).collect();
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint(format!("Available values: {}.", told.join(", "))));
    };
    // It is shown by its other name.
    Ok(if *word == "debug" { "debug2" } else { word })
}

/// Settings reported to clients at startup.
pub const PARAMETER_STATUS: [&str; 14] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "search_path",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

pub(super) type Setting = (&'static str, &'static str, May);

/// By name in lower case: every statement asks for some of them.
static BY_KEY: LazyLock<FxHashMap<String, &'static Setting>> =
    LazyLock::new(|| KNOWN.iter().map(|one| (one.0.to_ascii_lowercase(), one)).collect());

pub(super) fn known(name: &str) -> Option<&'static Setting> {
    BY_KEY.get(key(name).as_ref()).copied()
}

/// A name in lower case.
pub(super) fn key(name: &str) -> Cow<'_, str> {
    match name.bytes().fold(false, |is_mixed, byte| is_mixed | byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}
