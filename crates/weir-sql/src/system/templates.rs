//! Functions and views of pg_catalog and information_schema, as SQL over its tables.
//!
//! They are parsed once, and bound where they are used; `$n` is an argument. Nothing here is known to the executor.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use pg_query::protobuf::{Node, SelectStmt, node};

use crate::parse::{self, Piece};

/// The file of places in a template.
const NO_FILE: u32 = u32::MAX;

const VIEWS: &str = concat!(include_str!("views.sql"), include_str!("views_of_servers.sql"));

/// One expression.
pub(crate) struct Template {
    pub(crate) piece: Piece<'static>,
    pub(crate) node: Node,
}

/// Name, number of arguments, and the expression.
const FUNCTIONS: &[(&str, usize, &str)] = &[
    ("version", 0, "'PostgreSQL 15.0 (Weir)'::text"),
    ("current_schema", 0, "'public'::text"),
    ("current_schemas", 1, "CASE WHEN $1 THEN '{pg_catalog,public}'::text[] ELSE '{public}'::text[] END"),
    ("pg_is_in_recovery", 0, "false"),
    ("pg_get_userbyid", 1, "(SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.oid = $1)"),
    ("pg_table_is_visible", 1, "(SELECT c.relnamespace IN (11, 2200) FROM pg_catalog.pg_class c WHERE c.oid = $1)"),
    ("pg_type_is_visible", 1, "(SELECT t.typnamespace IN (11, 2200) FROM pg_catalog.pg_type t WHERE t.oid = $1)"),
    ("pg_function_is_visible", 1, "(SELECT p.pronamespace IN (11, 2200) FROM pg_catalog.pg_proc p WHERE p.oid = $1)"),
    ("pg_get_expr", 2, "$1"),
    ("pg_get_expr", 3, "$1"),
    ("pg_get_constraintdef", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    (
        "pg_get_constraintdef",
        2,
        "(SELECT CASE WHEN $2 THEN d.pretty ELSE d.plain END FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)",
    ),
    ("pg_get_indexdef", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    (
        "pg_get_indexdef",
        3,
        "(SELECT CASE WHEN $3 THEN d.pretty ELSE d.plain END FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = $2)",
    ),
    ("pg_get_viewdef", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    ("pg_get_viewdef", 2, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    ("pg_get_triggerdef", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    ("pg_get_triggerdef", 2, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    ("pg_get_functiondef", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 0)"),
    ("pg_get_function_arguments", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 1)"),
    (
        "pg_get_function_identity_arguments",
        1,
        "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 2)",
    ),
    ("pg_get_function_result", 1, "(SELECT d.plain FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 3)"),
    (
        "pg_get_serial_sequence",
        2,
        "(SELECT quote_ident(n.nspname) || '.' || quote_ident(s.relname) FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class s ON s.oid = d.objid AND s.relkind = 'S'
          JOIN pg_catalog.pg_namespace n ON n.oid = s.relnamespace
          JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
          WHERE d.refobjid = to_regclass($1) AND a.attname = $2)",
    ),
    ("pg_get_ruledef", 1, "(SELECT d.pretty FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 4)"),
    ("pg_get_ruledef", 2, "(SELECT d.pretty FROM pg_catalog.weir_definitions d WHERE d.oid = $1 AND d.part = 4)"),
    // Nothing but tables and views of one table can be written to: INSERT, UPDATE and DELETE are the bits 8, 4 and 16.
    (
        "pg_relation_is_updatable",
        2,
        "(SELECT CASE WHEN c.relkind IN ('r', 'p') OR d.oid IS NOT NULL THEN 28 ELSE 0 END FROM pg_catalog.pg_class c
          LEFT JOIN pg_catalog.weir_definitions d ON d.oid = c.oid AND d.part = 5 WHERE c.oid = $1 AND $2 IS NOT NULL)",
    ),
    (
        "pg_column_is_updatable",
        3,
        "(SELECT c.relkind IN ('r', 'p') OR d.oid IS NOT NULL FROM pg_catalog.pg_class c
          LEFT JOIN pg_catalog.weir_definitions d ON d.oid = c.oid AND d.part = 5 WHERE c.oid = $1 AND $2 > 0 AND $3 IS NOT NULL)",
    ),
    (
        "pg_blocking_pids",
        1,
        "(SELECT coalesce(array_agg(DISTINCT h.pid), '{}'::integer[]) FROM pg_catalog.pg_locks w JOIN pg_catalog.pg_locks h
          ON h.transactionid = w.transactionid AND h.granted WHERE w.pid = $1 AND NOT w.granted)",
    ),
    // The server's own address is not recorded.
    ("inet_server_addr", 0, "NULL::text"),
    ("inet_server_port", 0, "NULL::integer"),
    ("inet_client_addr", 0, "(SELECT a.client_addr FROM pg_catalog.pg_stat_activity a WHERE a.pid = pg_backend_pid())"),
    ("inet_client_port", 0, "(SELECT a.client_port FROM pg_catalog.pg_stat_activity a WHERE a.pid = pg_backend_pid())"),
    ("pg_safe_snapshot_blocking_pids", 1, "(SELECT '{}'::integer[] WHERE $1 IS NOT NULL)"),
    // Functions of tables: no row-level policy applies to the only role.
    ("row_security_active", 1, "(SELECT false WHERE $1 IS NOT NULL)"),
    ("pg_sequence_last_value", 1, "(SELECT v.last_value FROM pg_catalog.weir_sequence_values v WHERE v.seqrelid = $1 AND v.is_called)"),
    ("pg_stat_get_numscans", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    ("pg_relation_filenode", 1, "(SELECT c.relfilenode FROM pg_catalog.pg_class c WHERE c.oid = $1)"),
    ("pg_get_statisticsobjdef_columns", 1, "(SELECT NULL::text WHERE $1 IS NULL)"),
    ("pg_relation_is_publishable", 1, "(SELECT false FROM pg_catalog.pg_class c WHERE c.oid = $1)"),
    (
        "format_type",
        2,
        "(SELECT CASE WHEN f.element = 1042 AND m.v = -1 THEN 'bpchar'
               WHEN f.element IN (1114, 1184) AND m.v >= 0 THEN 'timestamp(' || m.v::text || ')' || substr(f.name, 10)
               WHEN f.element = 1186 AND m.v >= 0 THEN 'interval' || \"interval fields\"(m.v) ELSE f.name END
            || CASE WHEN m.v IS NULL OR m.v < 4 THEN '' WHEN f.element IN (1042, 1043) THEN '(' || (m.v - 4)::text || ')'
               WHEN f.element = 1700 THEN '(' || ((m.v - 4) / 65536)::text || ',' || ((m.v - 4) % 65536)::text || ')' ELSE '' END || f.suffix
          FROM pg_catalog.weir_type_names f CROSS JOIN (SELECT $2::integer AS v) m WHERE f.oid = $1)",
    ),
    (
        "obj_description",
        2,
        "(SELECT d.description FROM pg_catalog.pg_description d WHERE d.objoid = $1 AND d.objsubid = 0
          AND d.classoid = (SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname = $2 AND c.relnamespace = 11))",
    ),
    ("obj_description", 1, "(SELECT min(d.description) FROM pg_catalog.pg_description d WHERE d.objoid = $1 AND d.objsubid = 0)"),
    (
        "col_description",
        2,
        "(SELECT d.description FROM pg_catalog.pg_description d WHERE d.objoid = $1 AND d.classoid = 1259 AND d.objsubid = $2)",
    ),
    (
        "shobj_description",
        2,
        "(SELECT d.description FROM pg_catalog.pg_shdescription d WHERE d.objoid = $1
          AND d.classoid = (SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname = $2 AND c.relnamespace = 11))",
    ),
    (
        "to_regclass",
        1,
        "(SELECT min(c.oid) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          CROSS JOIN (SELECT \"parts of name\"($1::text) AS parts) w WHERE c.relname = w.parts[cardinality(w.parts)]
            AND CASE WHEN cardinality(w.parts) = 1 THEN n.oid IN (11, 2200) ELSE n.nspname = w.parts[cardinality(w.parts) - 1] END)",
    ),
    (
        "to_regtype",
        1,
        "(SELECT min(t.oid) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
          WHERE $1::text IN (t.typname, n.nspname || '.' || t.typname, format_type(t.oid, NULL),
            '\"' || n.nspname || '\".\"' || t.typname || '\"'))",
    ),
    ("to_regnamespace", 1, "(SELECT n.oid FROM pg_catalog.pg_namespace n WHERE ARRAY[n.nspname] = \"parts of name\"($1::text))"),
    ("to_regrole", 1, "(SELECT r.oid FROM pg_catalog.pg_roles r WHERE ARRAY[r.rolname] = \"parts of name\"($1::text))"),
    ("to_regproc", 1, "(SELECT p.oid FROM pg_catalog.pg_proc p WHERE $1::text = p.proname)"),
    // Of numbers: what PostgreSQL shows of them.
    (
        "regclass as text",
        1,
        "coalesce((SELECT CASE WHEN n.oid IN (11, 2200) THEN '' ELSE quote_ident(n.nspname) || '.' END || quote_ident(c.relname)
          FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1),
          CASE WHEN $1 = 0 THEN '-' ELSE $1::text END)",
    ),
    ("regtype as text", 1, "(CASE WHEN $1 = 0 THEN '-' ELSE coalesce(format_type($1, NULL), $1::text) END)"),
    (
        "regnamespace as text",
        1,
        "coalesce((SELECT quote_ident(n.nspname) FROM pg_catalog.pg_namespace n WHERE n.oid = $1), CASE WHEN $1 = 0 THEN '-' ELSE $1::text END)",
    ),
    (
        "regrole as text",
        1,
        "coalesce((SELECT quote_ident(r.rolname) FROM pg_catalog.pg_roles r WHERE r.oid = $1), CASE WHEN $1 = 0 THEN '-' ELSE $1::text END)",
    ),
    // The number of a function that stands in a table by its name.
    ("regproc as number", 1, "(CASE WHEN $1 = '-' THEN 0 ELSE (SELECT min(p.oid) FROM pg_catalog.pg_proc p WHERE p.proname = $1) END)"),
    (
        "regproc as text",
        1,
        "coalesce((SELECT quote_ident(p.proname) FROM pg_catalog.pg_proc p WHERE p.oid = $1), CASE WHEN $1 = 0 THEN '-' ELSE $1::text END)",
    ),
    // Everybody who is let in may do everything.
    ("has_table_privilege", 2, "($1 IS NOT NULL)"),
    ("has_table_privilege", 3, "($2 IS NOT NULL)"),
    ("has_schema_privilege", 2, "($1 IS NOT NULL)"),
    ("has_schema_privilege", 3, "($2 IS NOT NULL)"),
    ("has_column_privilege", 3, "($1 IS NOT NULL)"),
    ("has_any_column_privilege", 2, "($1 IS NOT NULL)"),
    ("has_any_column_privilege", 3, "($2 IS NOT NULL)"),
    ("has_column_privilege", 4, "($2 IS NOT NULL)"),
    ("has_sequence_privilege", 3, "($2 IS NOT NULL)"),
    ("has_function_privilege", 3, "($2 IS NOT NULL)"),
    ("has_type_privilege", 3, "($2 IS NOT NULL)"),
    ("has_language_privilege", 2, "($1 IS NOT NULL)"),
    ("has_language_privilege", 3, "($2 IS NOT NULL)"),
    ("has_tablespace_privilege", 2, "($1 IS NOT NULL)"),
    ("has_tablespace_privilege", 3, "($2 IS NOT NULL)"),
    ("has_sequence_privilege", 2, "($1 IS NOT NULL)"),
    ("has_function_privilege", 2, "($1 IS NOT NULL)"),
    ("has_type_privilege", 2, "($1 IS NOT NULL)"),
    ("has_database_privilege", 2, "($1 IS NOT NULL)"),
    ("has_database_privilege", 3, "($2 IS NOT NULL)"),
    ("pg_has_role", 2, "($1 IS NOT NULL)"),
    ("pg_has_role", 3, "($2 IS NOT NULL)"),
    // The name, the names of all, and what they are.
    (
        "current_setting as text",
        3,
        "(SELECT v.setting FROM unnest($2) WITH ORDINALITY n(name, at) JOIN unnest($3) WITH ORDINALITY v(setting, at) ON n.at = v.at
          WHERE lower(n.name) = lower($1))",
    ),
    // Unknown without asking every shard.
    ("pg_relation_size", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    ("pg_table_size", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    ("pg_indexes_size", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    ("pg_total_relation_size", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    ("pg_database_size", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    ("pg_tablespace_size", 1, "(SELECT NULL::bigint WHERE $1 IS NULL)"),
    (
        "pg_size_pretty",
        1,
        "(SELECT CASE WHEN abs(s.v) < 10240 THEN s.v::text || ' bytes' WHEN abs(s.v) / 512 < 20479 THEN ((s.v / 512 + 1) / 2)::text || ' kB'
         WHEN abs(s.v) / 524288 < 20479 THEN ((s.v / 524288 + 1) / 2)::text || ' MB'
         WHEN abs(s.v) / 536870912 < 20479 THEN ((s.v / 536870912 + 1) / 2)::text || ' GB'
         ELSE ((s.v / 549755813888 + 1) / 2)::text || ' TB' END FROM (SELECT $1::bigint AS v) s)",
    ),
    // No privileges have been granted or revoked.
    ("acldefault", 2, "NULL::text[]"),
    ("pg_collation_is_visible", 1, "(SELECT c.collnamespace IN (11, 2200) FROM pg_catalog.pg_collation c WHERE c.oid = $1)"),
    ("pg_opclass_is_visible", 1, "(SELECT c.opcnamespace IN (11, 2200) FROM pg_catalog.pg_opclass c WHERE c.oid = $1)"),
    ("pg_operator_is_visible", 1, "(SELECT o.oprnamespace IN (11, 2200) FROM pg_catalog.pg_operator o WHERE o.oid = $1)"),
    ("pg_conversion_is_visible", 1, "(SELECT c.connamespace IN (11, 2200) FROM pg_catalog.pg_conversion c WHERE c.oid = $1)"),
    ("pg_ts_config_is_visible", 1, "(SELECT c.cfgnamespace IN (11, 2200) FROM pg_catalog.pg_ts_config c WHERE c.oid = $1)"),
    ("pg_ts_dict_is_visible", 1, "(SELECT d.dictnamespace IN (11, 2200) FROM pg_catalog.pg_ts_dict d WHERE d.oid = $1)"),
    ("pg_get_function_sqlbody", 1, "(SELECT NULL::text WHERE $1 IS NULL)"),
    ("pg_encoding_to_char", 1, "CASE WHEN $1 = 6 THEN 'UTF8' ELSE '' END"),
    ("pg_my_temp_schema", 0, "0::bigint"),
    ("pg_is_other_temp_schema", 1, "false"),
];

fn functions() -> &'static BTreeMap<&'static str, Vec<(usize, Template)>> {
    static FUNCTIONS_READ: OnceLock<BTreeMap<&'static str, Vec<(usize, Template)>>> = OnceLock::new();
    FUNCTIONS_READ.get_or_init(|| {
        let mut read: BTreeMap<&str, Vec<(usize, Template)>> = BTreeMap::new();
        for &(name, count, text) in FUNCTIONS {
            let piece = Piece::new(NO_FILE, 0, text);
            let node =
                parse::parse_expression(piece).unwrap_or_else(|wrong| panic!("{name}: {}", wrong.message));
            read.entry(name).or_default().push((count, Template { piece, node }));
        }
        read
    })
}

/// The function of so many arguments.
pub(crate) fn function(name: &str, count: usize) -> Option<&'static Template> {
    functions().get(name)?.iter().find(|(of, _)| *of == count).map(|(_, template)| template)
}

/// Names and numbers of arguments.
#[cfg(test)]
pub(super) fn all_functions() -> impl Iterator<Item = (&'static str, usize)> {
    FUNCTIONS.iter().map(|(name, count, _)| (*name, *count))
}

/// Functions that give rows of several columns: name, number of arguments, and the query.
const ROW_FUNCTIONS: &[(&str, usize, &str)] = &[
    ("pg_get_keywords", 0, include_str!("keywords.sql")),
    (
        "pg_get_sequence_data",
        1,
        "SELECT v.last_value, v.is_called FROM pg_catalog.weir_sequence_values v WHERE v.seqrelid = $1",
    ),
    (
        "pg_sequence_parameters",
        1,
        "SELECT s.seqstart AS start_value, s.seqmin AS minimum_value, s.seqmax AS maximum_value, s.seqincrement AS increment,
          s.seqcycle AS cycle_option, s.seqcache AS cache_size, s.seqtypid AS data_type FROM pg_catalog.pg_sequence s WHERE s.seqrelid = $1",
    ),
    (
        "pg_timezone_abbrevs",
        0,
        "SELECT 'UTC'::text AS abbrev, interval '0' AS utc_offset, false AS is_dst",
    ),
    // The columns of a sequence in FROM.
    (
        "state of a sequence",
        1,
        "SELECT v.last_value, 0::bigint AS log_cnt, v.is_called FROM pg_catalog.weir_sequence_values v WHERE v.seqrelid = $1",
    ),
];

/// A query whose `$n` are arguments.
pub(crate) struct RowTemplate {
    pub(crate) piece: Piece<'static>,
    pub(crate) select: SelectStmt,
}

/// The function of so many arguments that gives rows.
pub(crate) fn row_function(name: &str, count: usize) -> Option<&'static RowTemplate> {
    static READ: OnceLock<BTreeMap<(&'static str, usize), RowTemplate>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let read = |&(name, count, text): &(&'static str, usize, &'static str)| {
            let piece = Piece::new(NO_FILE, 0, text);
            let parsed =
                parse::parse_statement(piece).unwrap_or_else(|wrong| panic!("{name}: {}", wrong.message));
            let node::Node::SelectStmt(select) = parsed.node else { panic!("{name} is no query") };
            ((name, count), RowTemplate { piece, select: *select })
        };
        ROW_FUNCTIONS.iter().map(read).collect()
    });
    read.iter().find(|((one, of), _)| *one == name && *of == count).map(|(_, template)| template)
}

/// The views, by schema and name: all are in one text.
pub(crate) fn views() -> &'static BTreeMap<String, SelectStmt> {
    static VIEWS_READ: OnceLock<BTreeMap<String, SelectStmt>> = OnceLock::new();
    VIEWS_READ.get_or_init(|| {
        let statements =
            parse::parse_statements(views_piece()).unwrap_or_else(|wrong| panic!("{}", wrong.message));
        let read = |one: parse::ParsedStatement| {
            let node::Node::ViewStmt(view) = one.node else { return None };
            let (range, query) = (view.view?, view.query?);
            let Some(node::Node::SelectStmt(select)) = query.node else { return None };
            Some((format!("{}.{}", range.schemaname, range.relname), *select))
        };
        statements.into_iter().filter_map(read).collect()
    })
}

/// The text that the places of [`views`] are in.
pub(crate) fn views_piece() -> Piece<'static> {
    Piece::new(NO_FILE, 0, VIEWS)
}
