//! Forms of expressions by type. `{i}` stands for an expression of integers, `{i'}` for a literal; [`letter`] has the other types.

use super::tables::Ty;

const INTEGERS: &[&str] = &[
    "({i} + {i})",
    "({i} - {i})",
    "({i} * {i'})",
    "({i} / {nonzero})",
    "({i} % {nonzero})",
    "abs({i})",
    "(- {i})",
    "length({t})",
    "extract(year FROM {d})::integer",
    "({d} - {d})",
    "{c}::integer",
    "cardinality({a})",
    "position({t} IN {t})",
    "({a})[{i'}]",
    "ascii({t})",
    "array_position({a}, {i})",
    "date_part('day', {s})::integer",
    "({i} & {i})",
    "({i} | {i'})",
    "round({n})::integer",
    "({b} % 100)::integer",
    "strpos({t}, {t'})",
    "array_length({a}, 1)",
    "width_bucket({n}, 0, 10, 4)",
    "extract(month FROM {s})::integer",
    "({j} ->> 'n')::integer",
    "octet_length({t})",
    "({i} / nullif({i}, 0))",
    "extract(hour FROM {p})::integer",
    "extract(day FROM {z})::integer",
];

const BIGS: &[&str] = &[
    "({b} + {i})",
    "({b} - {b})",
    "({b} * {i'})",
    "({b} / {nonzero})",
    "{i}::bigint",
    "abs({b})",
    "({i} + {b})",
    "({b} % {nonzero})",
    "(- {b})",
    "({b} & {b})",
];

const NUMERICS: &[&str] = &[
    "({n} + {n})",
    "({n} - {n})",
    "({n} * {n})",
    "({n} / {nonzero})",
    "round({n}, {i'})",
    "trunc({n}, 1)",
    "ceil({n})",
    "floor({n})",
    "abs({n})",
    "{i}::numeric",
    "{b}::numeric",
    "({n} % {nonzero})",
    "({i} * {n})",
    "mod({n}, 7)",
    "sign({n})",
    "{n}::numeric(14,3)",
    "({n} - {i})",
    "extract(epoch FROM {s})",
    "extract(doy FROM {d})",
    "sqrt(abs({n}))",
    "(- {n})",
    "extract(epoch FROM {p})",
];

const TEXTS: &[&str] = &[
    "({t} || {t})",
    "upper({t})",
    "lower({t})",
    "substr({t}, {i'}, {i'})",
    "left({t}, {i})",
    "right({t}, {i'})",
    "replace({t}, {t}, {t'})",
    "trim({t})",
    "{i}::text",
    "{n}::text",
    "{d}::text",
    "{c}::text",
    "{b}::text",
    "{f}::text",
    "{s}::text",
    "{a}::text",
    "{j}::text",
    "concat({t}, {i}, {c})",
    "reverse({t})",
    "initcap({t})",
    "lpad({t}, {i'}, 'xy')",
    "rpad({t}, {i'})",
    "repeat({t}, 2)",
    "split_part({t}, ' ', 1)",
    "({j} ->> 'k')",
    "to_char({d}, 'YYYY-MM')",
    "to_char({n}, 'FM9990.00')",
    "md5({t})",
    "concat_ws('-', {t}, {t}, {i})",
    "array_to_string({a}, ',', '*')",
    "translate({t}, 'ab', 'x')",
    "({t} || {i})",
    "regexp_replace({t}, '[ab]', '-')",
    "substring({t} FROM 2 FOR 2)",
    "btrim({t}, 'ab')",
    "quote_literal({t})",
    "jsonb_typeof({j})",
    "to_char({s}, 'DD Mon HH24:MI')",
    "{p}::text",
    "{z}::text",
];

pub const BOOLEANS: &[&str] = &[
    "({i} {cmp} {i'})",
    "({i} {cmp} {i})",
    "({c} AND {c})",
    "({c} OR {c})",
    "({c} AND {c} AND {c})",
    "({c} OR {c} OR {c})",
    "(NOT {c})",
    "({i} IS NULL)",
    "({t} IS NOT NULL)",
    "({i} BETWEEN {i'} AND {i'})",
    "({n} BETWEEN SYMMETRIC {n} AND {n})",
    "({d} NOT BETWEEN {d'} AND {d})",
    "({i} IN ({i'}, {i'}, {i'}))",
    "({i} NOT IN ({i'}, {i}))",
    "({t} IN ({t'}, {t'}, {t}))",
    "({t} NOT IN ({t'}, {t'}))",
    "({t} LIKE {pattern})",
    "({t} NOT LIKE {pattern})",
    "({t} ILIKE {pattern})",
    "({c} IS TRUE)",
    "({c} IS NOT FALSE)",
    "({c} IS UNKNOWN)",
    "({i} IS DISTINCT FROM {i})",
    "({t} IS NOT DISTINCT FROM {t})",
    "(({i}, {t}) = ({i}, {t}))",
    "(({i}, {d}) < ({i'}, {d'}))",
    "(({n}, {i}) >= ({n'}, {i}))",
    "(({i}, {t}) IN (({i'}, {t'}), ({i'}, {t'})))",
    "(({i}, {i}) NOT IN (({i'}, {i'}), ({i}, {i'})))",
    "({i} = ANY ({a}))",
    "({i} <> ALL ({a}))",
    "({i} = ANY (ARRAY[{i'}, {i}, {i'}]))",
    "({a} @> {a'})",
    "({a} && {a})",
    "({a} {cmp} {a'})",
    "({j} @> {j'})",
    "({j} ? 'k')",
    "({j} {cmp} {j'})",
    "({t} ~ {regex})",
    "({t} !~* {regex})",
    "starts_with({t}, {t'})",
    "({n} {cmp} {n'})",
    "({n} {cmp} {i})",
    "({b} {cmp} {i})",
    "({b} {cmp} {b'})",
    "({t} {cmp} {t'})",
    "({t} {cmp} {t})",
    "({d} {cmp} {d'})",
    "({s} {cmp} {s'})",
    "({s} {cmp} {d})",
    "({f} {cmp} {f'})",
    "({f} {cmp} {i})",
    "({c} = {c})",
    "({t} || {t'} = {t'})",
    "({i} IS NOT NULL AND {c})",
    "(({i}, {t}) IS NULL)",
    "(({i}, {d}) IS DISTINCT FROM ({i'}, {d'}))",
    "({p} {cmp} {p'})",
    "({z} {cmp} {z'})",
    "({s} {cmp} {z})",
    "({p} {cmp} {p})",
];

pub const SUBQUERIES: &[&str] = &[
    "EXISTS {any}",
    "(NOT EXISTS {any})",
    "({i} IN {q:i})",
    "({i} NOT IN {q:i})",
    "({t} IN {q:t})",
    "({t} NOT IN {q:t})",
    "({n} IN {q:n})",
    "(({i}, {t}) IN {q:it})",
    "(({i}, {i}) NOT IN {q:ii})",
    "({i} {cmp} ANY {q:i})",
    "({d} {cmp} ALL {q:d})",
    "({t} {cmp} ANY {q:t})",
    "({b} = {s:b})",
    "({n} {cmp} {s:n})",
];

const FLOATS: &[&str] = &[
    "({f} + {f})",
    "({f} * {f'})",
    "({f} / 2)",
    "abs({f})",
    "floor({f})",
    "{i}::double precision",
    "({f} - {i})",
    "{n}::double precision",
    "round({f})",
    "({i} * {f})",
    "sqrt(abs({f}))",
    "(- {f})",
];

const DATES: &[&str] =
    &["({d} + {i'})", "({d} - {i})", "{s}::date", "date_trunc('month', {d}::timestamp)::date", "{z}::date"];

const STAMPS: &[&str] = &[
    "({s} + interval '1 day 02:30')",
    "{d}::timestamp",
    "date_trunc('hour', {s})",
    "({d} + interval '1 month')",
    "({s} - interval '1 month')",
    "date_trunc('week', {s})",
    "({s} + {p})",
    "({d} + {p})",
    "({z} AT TIME ZONE 'UTC')",
    "{z}::timestamp",
];

const ZONED: &[&str] = &[
    "({z} + interval '1 day')",
    "({z} - {p})",
    "{s}::timestamptz",
    "({s} AT TIME ZONE 'UTC')",
    "date_trunc('day', {z})",
    "({z} + {p})",
];

const SPANS: &[&str] = &[
    "({s} - {s})",
    "({p} + {p})",
    "({p} * {i'})",
    "(- {p})",
    "justify_hours({p})",
    "age({s}, {s})",
    "({p} / 2)",
    "({z} - {z'})",
    "justify_interval({p})",
];

const ARRAYS: &[&str] = &[
    "({a} || {i})",
    "array_append({a}, {i})",
    "array_remove({a}, {i})",
    "({a} || {a})",
    "ARRAY[{i}, {i}]",
    "({a})[1:2]",
    "array_prepend({i}, {a})",
    "array_replace({a}, {i'}, {i})",
];

const JSONS: &[&str] = &[
    "({j} -> 'k')",
    "({j} -> 'list')",
    "to_jsonb({i})",
    "to_jsonb({t}::text)",
    "jsonb_build_object('n', {i}, 'k', {t})",
    "jsonb_build_array({i}, {t}, {c})",
    "({j} #> '{{k,k}}')",
    "jsonb_strip_nulls({j})",
    "({j} -> 1)",
    "to_jsonb({a})",
];

/// Of every type.
pub const GENERAL: &[&str] = &[
    "CASE WHEN {c} THEN {x} ELSE {x} END",
    "CASE WHEN {c} THEN {x} WHEN {c} THEN {x} END",
    "CASE {i} WHEN {i'} THEN {x} WHEN {i'} THEN {x'} ELSE {x} END",
    "coalesce({x}, {x'})",
    "coalesce({x}, {x}, {x'})",
    "nullif({x}, {x'})",
];

/// Some values let these fail.
pub const FAILING: &[&str] = &[
    "CASE WHEN {i} / {i} > 0 THEN {x} END",
    "CASE WHEN {n} / {n} > 1 THEN {x} ELSE {x} END",
    "CASE WHEN {i} + 2147483640 > 0 THEN {x} END",
    "CASE WHEN {t}::integer > 1 THEN {x} END",
];

/// Of types with an order.
pub const ORDERED: &[&str] = &["greatest({x}, {x})", "least({x}, {x'}, {x})"];

pub fn templates(ty: Ty) -> &'static [&'static str] {
    match ty {
        Ty::Int => INTEGERS,
        Ty::Big => BIGS,
        Ty::Num => NUMERICS,
        Ty::Text => TEXTS,
        Ty::Bool => BOOLEANS,
        Ty::Date => DATES,
        Ty::Stamp => STAMPS,
        Ty::Zoned => ZONED,
        Ty::Span => SPANS,
        Ty::Float => FLOATS,
        Ty::Ints => ARRAYS,
        Ty::Json => JSONS,
    }
}

/// Arguments whose order or scale would decide have been made equal: `{n2}` has two digits, `{p2}` one form, `{same}` repeats what stands before it.
pub fn aggregates(ty: Ty) -> &'static [&'static str] {
    match ty {
        Ty::Int => {
            &["min({i})", "max({i})", "percentile_disc(0.5) WITHIN GROUP (ORDER BY {i})", "bit_or({i})"]
        }
        Ty::Big => &[
            "count(*)",
            "count({i})",
            "sum({i})",
            "count(DISTINCT {t})",
            "sum(DISTINCT {i})",
            "max({b})",
            "min({b})",
            "count(DISTINCT {n})",
            "count({a})",
        ],
        Ty::Num => &[
            "sum({n2})",
            "avg({i})",
            "avg({n2})",
            "min({n2})",
            "max({n2})",
            "sum({b})",
            "avg(DISTINCT {i})",
            "var_pop({i})",
            "stddev({i})",
            "sum(DISTINCT {n2})",
        ],
        Ty::Text => &[
            "min({t})",
            "max({t})",
            "string_agg({t}, ',' ORDER BY {same})",
            "string_agg(DISTINCT {t}, '')",
            "mode() WITHIN GROUP (ORDER BY {t}::text)",
            "string_agg({t}, '+' ORDER BY {same} DESC NULLS LAST)",
        ],
        Ty::Bool => &["bool_and({c})", "bool_or({c})", "every({c})"],
        Ty::Date => &["min({d})", "max({d})"],
        Ty::Stamp => &["max({s})", "min({s})"],
        Ty::Zoned => &["max({z})", "min({z})"],
        Ty::Span => &["sum({p})", "max({p2})", "min({p2})", "avg({p})"],
        Ty::Float => &["sum({f'})", "max({f0})", "min({f0})", "avg({f''})", "sum({f''})"],
        Ty::Ints => &["array_agg({i} ORDER BY {same})", "array_agg(DISTINCT {i})", "max({a})"],
        Ty::Json => &["jsonb_agg({i} ORDER BY {same})", "jsonb_agg({t} || '' ORDER BY {same} DESC)"],
    }
}

pub fn letter(of: u8) -> Option<Ty> {
    Some(match of {
        b'i' => Ty::Int,
        b'b' => Ty::Big,
        b'n' => Ty::Num,
        b't' => Ty::Text,
        b'c' => Ty::Bool,
        b'd' => Ty::Date,
        b's' => Ty::Stamp,
        b'z' => Ty::Zoned,
        b'p' => Ty::Span,
        b'f' => Ty::Float,
        b'a' => Ty::Ints,
        b'j' => Ty::Json,
        _ => return None,
    })
}
