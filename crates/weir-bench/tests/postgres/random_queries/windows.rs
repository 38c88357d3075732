//! Window functions. Those whose result depends on the order of equal rows get a total order, or are left away.

use super::expressions::{Column, Generator, Scope, canonical};
use super::tables::Ty;

/// Of rows that are equal under the order all get the same.
fn of_peers(ty: Ty) -> &'static [&'static str] {
    match ty {
        Ty::Big => &["rank()", "dense_rank()", "count(*)", "sum(#i)", "count(#t)"],
        Ty::Int => &["max(#i)", "min(#i)"],
        Ty::Num => &["avg(#i)", "sum(#b)", "max(#n)"],
        Ty::Float => &["percent_rank()", "cume_dist()", "max(#f)"],
        Ty::Text => &["max(#t)", "min(#t)"],
        Ty::Date => &["min(#d)"],
        Ty::Stamp => &["max(#s)"],
        Ty::Zoned => &["max(#z)"],
        Ty::Span => &["sum(#p)", "min(#p)"],
        Ty::Bool => &["bool_or(#c)", "bool_and(#c)"],
        Ty::Ints => &["max(#a)"],
        Ty::Json => &[],
    }
}

/// Of rows in a total order.
const OF_ROWS: [&str; 7] = [
    "lag(#)",
    "lead(#)",
    "first_value(#)",
    "last_value(#)",
    "nth_value(#, 2)",
    "lag(#, 2, #')",
    "lead(#, 1, #')",
];

const NUMBERS: [&str; 2] = ["row_number()", "ntile(3)"];

const FRAMES: [&str; 9] = [
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
];

/// Those that treat equal rows alike.
const FRAMES_OF_PEERS: [&str; 5] = [
    "",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
];

/// Those that a distance from the sort key bounds.
fn ranges(of: Ty) -> &'static [&'static str] {
    match of {
        Ty::Int | Ty::Big => &[
            " RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
            " RANGE BETWEEN 2 FOLLOWING AND 5 FOLLOWING",
            " RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING EXCLUDE GROUP",
        ],
        Ty::Num => {
            &[" RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW", " RANGE 0.5 PRECEDING EXCLUDE CURRENT ROW"]
        }
        Ty::Date => &[
            " RANGE BETWEEN '1 month' PRECEDING AND '10 days' FOLLOWING",
            " RANGE BETWEEN '1 day' FOLLOWING AND UNBOUNDED FOLLOWING",
        ],
        _ => &[],
    }
}

const DIRECTIONS: [&str; 4] = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];

impl Generator<'_> {
    /// `key`: columns that name a row.
    pub fn window(&mut self, ty: Ty, scope: &Scope<'_>, key: Option<&[String]>) -> String {
        let nesting = std::mem::replace(&mut self.nesting, 9);
        let text = self.window_function(ty, scope, key);
        self.nesting = nesting;
        text
    }

    fn window_function(&mut self, ty: Ty, scope: &Scope<'_>, key: Option<&[String]>) -> String {
        let scope = &Scope { outer: &[], ..*scope };
        let partition = if self.choices.once_in(2) { self.partition(scope) } else { String::new() };
        match key {
            Some(key) if !key.is_empty() && self.choices.below(3) > 0 => {
                let function = match ty {
                    Ty::Big if self.choices.once_in(2) => (*self.choices.pick(&NUMBERS)).to_owned(),
                    _ => {
                        let template = *self.choices.pick(&OF_ROWS);
                        self.argument(template, ty, scope)
                    }
                };
                let first =
                    if self.choices.once_in(2) { self.sort_item(scope).1 + ", " } else { String::new() };
                let direction = *self.choices.pick(&DIRECTIONS);
                let order = format!("ORDER BY {first}{}", key.join(", ")) + direction;
                let frame = if function.starts_with("ntile") || function.starts_with("row") {
                    ""
                } else {
                    *self.choices.pick(&FRAMES)
                };
                format!("{function} OVER ({partition}{order}{frame})")
            }
            _ => {
                let all = of_peers(ty);
                if all.is_empty() {
                    return self.expression(ty, scope, 1);
                }
                let template = *self.choices.pick(all);
                let function = self.argument(template, ty, scope);
                if self.choices.once_in(4) {
                    return format!("{function} OVER ({partition})");
                }
                let (ty, item) = self.sort_item(scope);
                let ranges = ranges(ty);
                let frame = match ranges.is_empty() || self.choices.below(3) > 0 {
                    true => *self.choices.pick(&FRAMES_OF_PEERS),
                    false => *self.choices.pick(ranges),
                };
                format!("{function} OVER ({partition}ORDER BY {item}{frame})")
            }
        }
    }

    fn partition(&mut self, scope: &Scope<'_>) -> String {
        let ty = *self.choices.pick(&[Ty::Int, Ty::Text, Ty::Bool]);
        format!("PARTITION BY {} ", self.key_of(scope, ty))
    }

    fn sort_item(&mut self, scope: &Scope<'_>) -> (Ty, String) {
        let ty = *self.choices.pick(&[Ty::Int, Ty::Text, Ty::Date, Ty::Num, Ty::Big]);
        let item = self.key_of(scope, ty);
        (ty, format!("{item}{}", self.choices.pick(&DIRECTIONS)))
    }

    /// A column if there is one. A literal would be a position in other places; here it is just a value.
    fn key_of(&mut self, scope: &Scope<'_>, ty: Ty) -> String {
        let fitting: Vec<&Column> = scope.columns.iter().filter(|column| column.ty == ty).collect();
        if fitting.is_empty() || self.choices.once_in(4) {
            return self.expression(ty, scope, 1);
        }
        self.choices.pick(&fitting).text.clone()
    }

    /// An expression in place of `#`, of another type where a letter follows.
    fn argument(&mut self, template: &str, ty: Ty, scope: &Scope<'_>) -> String {
        let Some((before, behind)) = template.split_once('#') else { return template.to_owned() };
        if let Some(rest) = behind.strip_prefix('\'') {
            return format!("{before}{}{rest}", self.literal(ty));
        }
        let of = match behind.chars().next() {
            Some('i') => Ty::Int,
            Some('b') => Ty::Big,
            Some('n') => Ty::Num,
            Some('t') => Ty::Text,
            Some('d') => Ty::Date,
            Some('s') => Ty::Stamp,
            Some('z') => Ty::Zoned,
            Some('p') => Ty::Span,
            Some('c') => Ty::Bool,
            Some('f') => Ty::Float,
            Some('a') => Ty::Ints,
            _ => {
                let value = canonical(ty, self.expression(ty, scope, 1));
                // Functions of any type do not take a literal for text.
                let value = if ty == Ty::Text { format!("{value}::text") } else { value };
                let rest = self.argument(behind, ty, scope);
                return format!("{before}{value}{rest}");
            }
        };
        format!("{before}{}{}", canonical(of, self.expression(of, scope, 1)), &behind[1..])
    }
}
