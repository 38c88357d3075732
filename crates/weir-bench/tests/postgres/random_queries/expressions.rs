//! Expressions of a type over the columns of a scope, made of templates ([`super::templates`]).

use super::choices::Choices;
use super::relations::Relation;
use super::tables::{self, TYPES, Ty};
use super::templates::{BOOLEANS, FAILING, GENERAL, ORDERED, SUBQUERIES, aggregates, letter, templates};

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

/// The columns and queries that an expression may refer to.
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
