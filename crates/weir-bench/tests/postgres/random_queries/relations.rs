//! Items of FROM: tables, subqueries, functions, VALUES, and the queries of WITH.

use super::expressions::{Column, Generator, Scope, canonical};
use super::tables::{TABLES, Ty};

/// An item of FROM, or a query of WITH.
#[derive(Clone)]
pub struct Relation {
    pub text: String,
    /// Without the alias.
    pub columns: Vec<(String, Ty)>,
    /// Columns that name a row.
    pub key: Option<Vec<String>>,
    pub rows: usize,
}

impl Generator<'_> {
    pub fn relation(&mut self, outer: &[Column], depth: usize, lateral: &[Column]) -> Relation {
        self.choices.begin();
        let kind = self.choices.below(16);
        let relation = match kind {
            7..13 if !self.with.is_empty() => self.choices.pick(&self.with.clone()).clone(),
            13 if depth > 0 && self.nesting < 2 => self.derived(outer, depth, lateral),
            14 => self.series(lateral),
            15 if depth > 0 => self.values_relation(),
            _ if !lateral.is_empty() && depth > 0 && self.nesting < 2 => self.derived(outer, depth, lateral),
            _ => self.table(),
        };
        self.choices.end();
        relation
    }

    fn table(&mut self) -> Relation {
        let at = self.choices.below(TABLES.len());
        let table = &TABLES[at];
        Relation {
            text: table.name.to_owned(),
            columns: table.columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect(),
            key: Some(table.columns[..table.key].iter().map(|(name, _)| (*name).to_owned()).collect()),
            rows: self.sizes[at],
        }
    }

    fn derived(&mut self, outer: &[Column], depth: usize, lateral: &[Column]) -> Relation {
        let many = 1 + self.choices.below(3);
        let types: Vec<Ty> = (0..many).map(|_| self.any_type()).collect();
        let visible: Vec<Column> =
            if lateral.is_empty() { outer.to_vec() } else { [lateral, outer].concat() };
        self.nesting += 1;
        let query = self.query(&types, &visible, depth.min(2), false);
        self.nesting -= 1;
        let word = if lateral.is_empty() { "" } else { "LATERAL " };
        Relation {
            text: format!("{word}({})", query.sql),
            columns: numbered(&types),
            key: None,
            rows: query.rows,
        }
    }

    fn series(&mut self, lateral: &[Column]) -> Relation {
        let scope = Scope { columns: lateral, outer: &[], grouped: None };
        let columns = vec![("c1".to_owned(), Ty::Int)];
        if self.choices.once_in(2) {
            let array = self.expression(Ty::Ints, &scope, 1);
            let columns = vec![("c1".to_owned(), Ty::Int), ("c2".to_owned(), Ty::Big)];
            return Relation {
                text: format!("LATERAL unnest({array}) WITH ORDINALITY"),
                columns,
                key: Some(vec!["c2".to_owned()]),
                rows: 4,
            };
        }
        let (from, to) = (self.choices.below(3), self.choices.below(7));
        Relation {
            text: format!("LATERAL generate_series({from}, {to})"),
            columns,
            key: Some(vec!["c1".to_owned()]),
            rows: 7,
        }
    }

    fn values_relation(&mut self) -> Relation {
        let many = 1 + self.choices.below(3);
        let types: Vec<Ty> = (0..many).map(|_| self.any_type()).collect();
        let rows = 1 + self.choices.below(4);
        let all: Vec<String> = (0..rows)
            .map(|_| {
                let row: Vec<String> = types.iter().map(|ty| self.literal(*ty)).collect();
                format!("({})", row.join(", "))
            })
            .collect();
        let text = format!("(VALUES {})", all.join(", "));
        Relation { text, columns: numbered(&types), key: None, rows }
    }

    pub fn with_clause(&mut self) -> String {
        self.choices.begin();
        let text = self.with_queries();
        self.choices.end();
        text
    }

    fn with_queries(&mut self) -> String {
        if !self.choices.once_in(4) {
            return String::new();
        }
        if self.choices.once_in(3) {
            return self.recursive();
        }
        let mut all = Vec::new();
        for _ in 0..=self.choices.below(2) {
            let many = 1 + self.choices.below(3);
            let types: Vec<Ty> = (0..many).map(|_| self.any_type()).collect();
            let query = self.query(&types, &[], 2, false);
            let name = self.name("w");
            let columns = numbered(&types);
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let how = *self.choices.pick(&["", "MATERIALIZED ", "NOT MATERIALIZED "]);
            all.push(format!("{name} ({}) AS {how}({})", names.join(", "), query.sql));
            self.with.push(Relation { text: name, columns, key: None, rows: query.rows });
        }
        format!("WITH {} ", all.join(", "))
    }

    /// Its first column counts up to a bound.
    fn recursive(&mut self) -> String {
        let ty = self.any_type();
        let name = self.name("w");
        let columns = vec![("n".to_owned(), Ty::Int), ("x".to_owned(), ty)];
        let own: Vec<Column> =
            columns.iter().map(|(of, ty)| Column::plain(format!("{name}.{of}"), *ty)).collect();
        let begin = if self.choices.once_in(2) {
            let first = self.first(&[], 0);
            let scope = Scope { columns: &first.columns, outer: &[], grouped: None };
            let value = self.expression(ty, &scope, 1);
            format!("SELECT 0, {}::{} FROM {}", canonical(ty, value), ty.name(), first.text)
        } else {
            let value = self.literal(ty);
            format!("SELECT 0, {}::{}", canonical(ty, value), ty.name())
        };
        let union = *self.choices.pick(&["UNION ALL", "UNION"]);
        let bound = 1 + self.choices.below(4);
        let (mut from, mut visible) = (name.clone(), own.clone());
        if self.choices.once_in(3) {
            let item = self.name("t");
            let how = *self.choices.pick(&["JOIN", "LEFT JOIN"]);
            from = format!("{name} {how} item AS {item} ON {item}.id = {name}.n");
            let of_item = TABLES[0].columns.iter();
            visible.extend(of_item.map(|(of, ty)| Column::plain(format!("{item}.{of}"), *ty)));
        }
        let scope = Scope { columns: &visible, outer: &[], grouped: None };
        let value = self.expression(ty, &scope, 2);
        let value = canonical(ty, value);
        let more = if self.choices.once_in(3) {
            format!(" AND {}", self.expression(Ty::Bool, &scope, 1))
        } else {
            String::new()
        };
        let text = format!(
            "WITH RECURSIVE {name} (n, x) AS ({begin} {union} SELECT {name}.n + 1, {value}::{} FROM {from} WHERE {name}.n < {bound}{more}) ",
            ty.name()
        );
        self.with.push(Relation { text: name, columns, key: None, rows: 60 });
        text
    }
}

fn numbered(types: &[Ty]) -> Vec<(String, Ty)> {
    types.iter().enumerate().map(|(at, ty)| (format!("c{}", at + 1), *ty)).collect()
}

pub fn columns_of(relation: &Relation, alias: &str) -> Vec<Column> {
    let all = relation.columns.iter();
    all.map(|(name, ty)| Column::plain(format!("{alias}.{name}"), *ty)).collect()
}

pub fn aliased(relation: &Relation, alias: &str) -> String {
    let is_named = relation.text.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_named {
        return format!("{} AS {alias}", relation.text);
    }
    let names: Vec<&str> = relation.columns.iter().map(|(name, _)| name.as_str()).collect();
    format!("{} AS {alias} ({})", relation.text, names.join(", "))
}
