//! Expressions of a type over the columns of a scope. Each form is a template: `{i}` is an expression of integers, `{i'}` a literal;
//! letters of the other types are in [`placeholder`].

use super::choices::Choices;
use super::queries::Relation;
use super::tables::{self, TYPES, Ty};

#[derive(Clone)]
pub struct Column {
    /// As it is referred to. Of a grouped query it may be an expression.
    pub text: String,
    pub ty: Ty,
    /// It is a column, which subqueries may refer to.
    pub is_plain: bool,
}

impl Column {
    pub fn plain(text: String, ty: Ty) -> Column {
        Column { text, ty, is_plain: true }
    }
}

/// What expressions may refer to.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub columns: &'a [Column],
    /// Columns of the queries around.
    pub outer: &'a [Column],
    /// Columns under the aggregates of a grouped query.
    pub grouped: Option<&'a [Column]>,
}

pub struct Generator<'c> {
    pub choices: &'c mut Choices,
    /// Number of rows of the tables.
    pub sizes: [usize; 4],
    /// Those of the WITH clauses around.
    pub with: Vec<Relation>,
    /// Number of names that were given.
    pub named: usize,
    /// Subqueries around what is being written.
    pub nesting: usize,
    /// Number of combinations of rows for which what is being written may be worked out.
    pub combinations: usize,
}

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

const BOOLEANS: &[&str] = &[
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

const SUBQUERIES: &[&str] = &[
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
const GENERAL: &[&str] = &[
    "CASE WHEN {c} THEN {x} ELSE {x} END",
    "CASE WHEN {c} THEN {x} WHEN {c} THEN {x} END",
    "CASE {i} WHEN {i'} THEN {x} WHEN {i'} THEN {x'} ELSE {x} END",
    "coalesce({x}, {x'})",
    "coalesce({x}, {x}, {x'})",
    "nullif({x}, {x'})",
];

/// Some values let these fail.
const FAILING: &[&str] = &[
    "CASE WHEN {i} / {i} > 0 THEN {x} END",
    "CASE WHEN {n} / {n} > 1 THEN {x} ELSE {x} END",
    "CASE WHEN {i} + 2147483640 > 0 THEN {x} END",
    "CASE WHEN {t}::integer > 1 THEN {x} END",
];

/// Of types with an order.
const ORDERED: &[&str] = &["greatest({x}, {x})", "least({x}, {x'}, {x})"];

fn templates(ty: Ty) -> &'static [&'static str] {
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
fn aggregates(ty: Ty) -> &'static [&'static str] {
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

fn letter(of: u8) -> Option<Ty> {
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

const COMPARISONS: [&str; 6] = ["=", "<", ">=", "<>", ">", "<="];
const PATTERNS: [&str; 8] = ["'a%'", "'%b'", "'_'", "'%b%'", "''", "'a\\%b'", "'A_%'", "'%'"];
const REGEXES: [&str; 5] = ["'^a'", "'b$'", "'[0-9]+'", "'a|x'", "'(.)\\1'"];

/// Numerics with one number of digits and floats without -0: equal values look equal, so it does not matter which one a group shows.
pub fn canonical(ty: Ty, text: String) -> String {
    match ty {
        Ty::Num => format!("round({text}, 2)"),
        Ty::Float => format!("({text} + 0)"),
        Ty::Span => format!("justify_interval({text})"),
        _ => text,
    }
}

impl Generator<'_> {
    pub fn any_type(&mut self) -> Ty {
        // The first ones are the most frequent.
        let most = if self.choices.once_in(3) { TYPES.len() } else { 5 };
        *self.choices.pick(&TYPES[..most])
    }

    pub fn expression(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        self.choices.begin();
        let text = if depth == 0 || self.choices.below(5) < 2 {
            self.leaf(ty, scope, depth)
        } else {
            self.composed(ty, scope, depth)
        };
        self.choices.end();
        text
    }

    fn leaf(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        if let Some(columns) = scope.grouped
            && self.choices.once_in(2)
        {
            return self.aggregate(ty, columns, depth);
        }
        let from = self.choices.below(8);
        let columns = if from == 6 { scope.outer } else { scope.columns };
        let fitting: Vec<&Column> = columns.iter().filter(|column| column.ty == ty).collect();
        if from < 7 && !fitting.is_empty() {
            return self.choices.pick(&fitting).text.clone();
        }
        if ty == Ty::Bool && depth > 0 {
            return self.fill(BOOLEANS[0], ty, scope, 0);
        }
        self.literal(ty)
    }

    pub fn literal(&mut self, ty: Ty) -> String {
        if self.choices.once_in(30) {
            return format!("NULL::{}", ty.name());
        }
        tables::literal(self.choices, ty)
    }

    fn composed(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        let kind = self.choices.below(20);
        let template = match kind {
            0..14 => *self.choices.pick(templates(ty)),
            16 if self.may_nest(depth) && ty != Ty::Bool => {
                return self.scalar_subquery(ty, scope, depth - 1);
            }
            15 if self.may_nest(depth) && ty == Ty::Ints => {
                let query = self.subquery(&[Ty::Int], scope, depth - 1);
                let alias = self.name("t");
                return format!("ARRAY(SELECT {alias}.c1 FROM {query} AS {alias} (c1) ORDER BY 1)");
            }
            18 if self.choices.once_in(40) => *self.choices.pick(FAILING),
            14..17 if self.may_nest(depth) && ty == Ty::Bool => *self.choices.pick(SUBQUERIES),
            17 if !matches!(ty, Ty::Bool | Ty::Json) => *self.choices.pick(ORDERED),
            _ => *self.choices.pick(GENERAL),
        };
        self.fill(template, ty, scope, depth - 1)
    }

    pub fn may_nest(&self, depth: usize) -> bool {
        depth > 1 && self.nesting < 2 && self.combinations <= 1_000
    }

    /// Expressions of that type in place of `{x}`.
    fn fill(&mut self, template: &str, own: Ty, scope: &Scope<'_>, depth: usize) -> String {
        let (mut text, mut rest, mut last) = (String::new(), template, String::new());
        while let Some((before, behind)) = rest.split_once('{') {
            text += before;
            if let Some(escaped) = behind.strip_prefix('{') {
                let (inner, after) = escaped.split_once("}}").expect("a closed brace");
                text += &format!("{{{inner}}}");
                rest = after;
                continue;
            }
            let (name, after) = behind.split_once('}').expect("a closed brace");
            if name != "same" {
                last = self.placeholder(name, own, scope, depth);
            }
            text += &last;
            rest = after;
        }
        text + rest
    }

    fn placeholder(&mut self, name: &str, own: Ty, scope: &Scope<'_>, depth: usize) -> String {
        match name {
            "cmp" => (*self.choices.pick(&COMPARISONS)).to_owned(),
            "pattern" => (*self.choices.pick(&PATTERNS)).to_owned(),
            "regex" => (*self.choices.pick(&REGEXES)).to_owned(),
            "nonzero" => (2 + self.choices.below(9)).to_string(),
            "x" => self.expression(own, scope, depth),
            "x'" => self.literal(own),
            "n2" => canonical(Ty::Num, self.expression(Ty::Num, scope, depth)),
            "p2" => canonical(Ty::Span, self.expression(Ty::Span, scope, depth)),
            "f0" => canonical(Ty::Float, self.expression(Ty::Float, scope, depth)),
            // A column: sums of what was computed would depend on the order.
            "f''" => self.leaf(Ty::Float, &Scope { grouped: None, outer: &[], ..*scope }, 0),
            "any" => {
                let ty = self.any_type();
                self.subquery(&[ty], scope, depth)
            }
            _ => match name.split_once(':') {
                Some(("q", letters)) => {
                    let types: Vec<Ty> = letters.bytes().filter_map(letter).collect();
                    self.subquery(&types, scope, depth)
                }
                Some(("s", of)) => {
                    let ty = letter(of.as_bytes()[0]).expect("a letter");
                    self.scalar_subquery(ty, scope, depth)
                }
                _ => {
                    let ty = letter(name.as_bytes()[0]).unwrap_or_else(|| panic!("{name} is no placeholder"));
                    if name.ends_with('\'') { self.literal(ty) } else { self.expression(ty, scope, depth) }
                }
            },
        }
    }

    /// Over these columns.
    pub fn aggregate(&mut self, ty: Ty, columns: &[Column], depth: usize) -> String {
        let template = *self.choices.pick(aggregates(ty));
        let scope = Scope { columns, outer: &[], grouped: None };
        // No subqueries: they would make most queries too large.
        let nesting = std::mem::replace(&mut self.nesting, 9);
        let mut text = self.fill(template, ty, &scope, depth.min(1));
        if self.choices.once_in(5) {
            let condition = self.expression(Ty::Bool, &scope, 1);
            text = format!("{text} FILTER (WHERE {condition})");
        }
        self.nesting = nesting;
        text
    }

    /// Several conditions, of which each may be left away.
    pub fn condition(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let mut all = vec![self.conjunct(scope, depth)];
        while all.len() < 3 && self.choices.once_in(3) {
            all.push(self.conjunct(scope, depth));
        }
        all.join(" AND ")
    }

    fn conjunct(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        match self.choices.below(5) {
            3 => self.simple_condition(scope),
            4 => {
                let one = self.simple_condition(scope);
                format!("({one} OR {})", self.simple_condition(scope))
            }
            _ => self.expression(Ty::Bool, scope, depth),
        }
    }

    /// A column and constants, as indexes and shards are found by.
    fn simple_condition(&mut self, scope: &Scope<'_>) -> String {
        if scope.columns.is_empty() {
            return self.expression(Ty::Bool, scope, 1);
        }
        let Column { text, ty, .. } = self.choices.pick(scope.columns).clone();
        match self.choices.below(8) {
            0..3 => format!("{text} = {}", self.literal(ty)),
            3 => format!("{text} IN ({}, {})", self.literal(ty), self.literal(ty)),
            4 => format!("{text} {} {}", self.choices.pick(&COMPARISONS), self.literal(ty)),
            5 => format!("{text} BETWEEN {} AND {}", self.literal(ty), self.literal(ty)),
            6 => format!("{text} IS NULL"),
            _ if ty == Ty::Text => format!("{text} LIKE {}", self.choices.pick(&PATTERNS)),
            _ if ty == Ty::Ints => format!("{text} IS NOT NULL"),
            _ => format!("{text} = ANY (ARRAY[{}, {}])", self.literal(ty), self.literal(ty)),
        }
    }
}
