//! Queries: WITH, set operations, SELECT with joins, groups and windows, and their order.

use std::ops::Range;

use super::expressions::{Column, Generator, Scope, canonical};
use super::relations::{Relation, aliased, columns_of};
use super::tables::Ty;

/// Items of FROM that have been joined.
pub struct Joined {
    pub text: String,
    pub columns: Vec<Column>,
    /// Columns that name a row; none: there are none.
    key: Option<Vec<String>>,
    rows: usize,
}

/// How the rows of an answer have to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Any,
    /// These columns of the answer are the sort key.
    By(Vec<usize>),
    Total,
}

pub struct Query {
    pub sql: String,
    pub order: Order,
    pub rows: usize,
}

/// A SELECT without its ORDER BY.
struct Select {
    text: String,
    /// Orders its rows totally; none: nothing does but all of its columns.
    key: Option<Vec<String>>,
    /// An expression over its items of FROM, to sort by.
    sort: Option<String>,
    distinct_on: DistinctOn,
    rows: usize,
}

#[derive(Default)]
enum DistinctOn {
    #[default]
    No,
    /// DISTINCT ON holds this number of its first columns.
    Columns(usize),
    /// Expressions over its items of FROM. With the key their order is total.
    Expressions { on: Vec<String>, key: Vec<String> },
}

const COMBINATIONS_MAX: usize = 8_000;

const DIRECTIONS: [&str; 6] =
    ["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC NULLS LAST", " DESC NULLS FIRST"];

impl Generator<'_> {
    pub fn name(&mut self, letter: &str) -> String {
        self.named += 1;
        format!("{letter}{}", self.named)
    }

    /// A query by itself.
    pub fn statement(&mut self) -> Query {
        let with = self.with_clause();
        let many = 1 + self.choices.below(4);
        let types: Vec<Ty> = (0..many).map(|_| self.any_type()).collect();
        let is_raw = self.choices.once_in(2);
        let mut query = self.query(&types, &[], 3, is_raw);
        query.sql = with + &query.sql;
        query
    }

    pub fn subquery(&mut self, types: &[Ty], scope: &Scope<'_>, depth: usize) -> String {
        let outer: Vec<Column> =
            scope.columns.iter().chain(scope.outer).filter(|column| column.is_plain).cloned().collect();
        self.nesting += 1;
        let query = self.query(types, &outer, depth.min(2), false);
        self.nesting -= 1;
        format!("({})", query.sql)
    }

    /// Of one row at most.
    pub fn scalar_subquery(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        let outer: Vec<Column> =
            scope.columns.iter().chain(scope.outer).filter(|column| column.is_plain).cloned().collect();
        self.nesting += 1;
        let around = self.combinations;
        let text = if self.choices.once_in(3) {
            let query = self.simple_select(&[ty], &outer, depth.min(2));
            let direction = *self.choices.pick(&DIRECTIONS);
            let text = match query.distinct_on {
                DistinctOn::No => query.text,
                // It has an ORDER BY of its own.
                _ => format!("SELECT v FROM {} x(v)", query.text),
            };
            format!("({text} ORDER BY 1{direction} LIMIT 1)")
        } else {
            let joined = self.from(&outer, depth.min(2));
            let value = self.aggregate(ty, &joined.columns, 1);
            let filter = self.where_clause(&joined, &outer, depth.min(2));
            format!("(SELECT {value} FROM {}{filter})", joined.text)
        };
        self.combinations = around;
        self.nesting -= 1;
        text
    }

    /// `is_raw`: values that are equal may look different, so which rows it has must not depend on which of them comes first.
    pub fn query(&mut self, types: &[Ty], outer: &[Column], depth: usize, is_raw: bool) -> Query {
        self.choices.begin();
        let query = match self.choices.below(10) {
            8 => self.set_operation(types, outer, depth),
            9 if self.choices.once_in(3) => self.values(types, outer),
            _ => self.ordered_select(types, outer, depth, is_raw),
        };
        self.choices.end();
        query
    }

    fn values(&mut self, types: &[Ty], outer: &[Column]) -> Query {
        let many = 1 + self.choices.below(3);
        let scope = Scope { columns: &[], outer, grouped: None };
        let rows: Vec<String> = (0..many)
            .map(|_| {
                let values: Vec<String> = types
                    .iter()
                    .map(|ty| {
                        let value = self.expression(*ty, &scope, 1);
                        canonical(*ty, value)
                    })
                    .collect();
                format!("({})", values.join(", "))
            })
            .collect();
        let (order, clause) = self.order_by((types.len(), true), None, None);
        Query { sql: format!("VALUES {}{clause}", rows.join(", ")), order, rows: many }
    }

    fn set_operation(&mut self, types: &[Ty], outer: &[Column], depth: usize) -> Query {
        const OPERATIONS: [&str; 6] =
            ["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"];
        let first = self.simple_select(types, outer, depth.min(2));
        let (mut text, mut rows) = (first.text, first.rows);
        for _ in 0..=usize::from(self.choices.once_in(4)) {
            let operation = *self.choices.pick(&OPERATIONS);
            let next = self.simple_select(types, outer, depth.min(2));
            rows += next.rows;
            text = match self.choices.below(4) {
                3 => format!("({text}) {operation} ({})", next.text),
                _ => format!("{text} {operation} {}", next.text),
            };
        }
        let (order, clause) = self.order_by((types.len(), true), None, None);
        Query { sql: text + &clause, order, rows }
    }

    fn ordered_select(&mut self, types: &[Ty], outer: &[Column], depth: usize, is_raw: bool) -> Query {
        let select = self.select(types, outer, depth, !is_raw);
        let (order, clause) = match &select.distinct_on {
            DistinctOn::No => self.order_by((types.len(), !is_raw), select.key.as_deref(), select.sort),
            on => self.order_of_distinct(on, types.len()),
        };
        Query { sql: select.text + &clause, order, rows: select.rows }
    }

    /// ORDER BY and LIMIT, or nothing.
    fn order_by(
        &mut self,
        (columns, may_limit): (usize, bool),
        key: Option<&[String]>,
        sort: Option<String>,
    ) -> (Order, String) {
        match (self.choices.below(8), key) {
            (0..3, _) => (Order::Any, String::new()),
            (3, Some(key)) if !key.is_empty() => {
                let columns = sort.iter().chain(key);
                let items: Vec<String> =
                    columns.map(|column| format!("{column}{}", self.choices.pick(&DIRECTIONS))).collect();
                let limit = self.limit();
                (Order::Total, format!(" ORDER BY {}{limit}", items.join(", ")))
            }
            _ => {
                let mut positions = self.shuffled(0..columns);
                if self.choices.once_in(3) {
                    let keep = 1 + self.choices.below(columns);
                    positions.truncate(keep);
                }
                let items = self.sort_items(positions.iter().copied());
                let limit = match (may_limit, positions.len() == columns) {
                    (true, true) => self.limit(),
                    (true, false) if self.choices.once_in(4) => {
                        format!(" FETCH FIRST {} ROWS WITH TIES", 1 + self.choices.below(6))
                    }
                    _ => String::new(),
                };
                (Order::By(positions), items + &limit)
            }
        }
    }

    /// ORDER BY of DISTINCT ON: which row of each group is shown follows from it.
    fn order_of_distinct(&mut self, on: &DistinctOn, columns: usize) -> (Order, String) {
        match on {
            DistinctOn::No => (Order::Any, String::new()),
            DistinctOn::Columns(on) => {
                let mut positions = self.shuffled(0..*on);
                // Rows that have all columns in common look equal, so that fewer may order them.
                let is_partial = *on == columns && self.choices.once_in(2);
                match is_partial {
                    true => positions.truncate(self.choices.below(columns)),
                    false => positions.extend(self.shuffled(*on..columns)),
                }
                if positions.is_empty() {
                    return (Order::Any, String::new());
                }
                let items = self.sort_items(positions.iter().copied());
                let limit = if is_partial { String::new() } else { self.limit() };
                (Order::By(positions), items + &limit)
            }
            DistinctOn::Expressions { on, key } => {
                let shuffled = self.shuffled(0..on.len());
                let texts = shuffled.into_iter().map(|at| &on[at]).chain(key);
                let items: Vec<String> =
                    texts.map(|text| format!("{text}{}", self.choices.pick(&DIRECTIONS))).collect();
                (Order::Total, format!(" ORDER BY {}{}", items.join(", "), self.limit()))
            }
        }
    }

    fn shuffled(&mut self, positions: Range<usize>) -> Vec<usize> {
        let mut positions: Vec<usize> = positions.collect();
        for at in 0..positions.len() {
            let other = at + self.choices.below(positions.len() - at);
            positions.swap(at, other);
        }
        positions
    }

    /// By these columns of the answer.
    fn sort_items(&mut self, positions: impl Iterator<Item = usize>) -> String {
        let items: Vec<String> =
            positions.map(|at| format!("{}{}", at + 1, self.choices.pick(&DIRECTIONS))).collect();
        format!(" ORDER BY {}", items.join(", "))
    }

    fn limit(&mut self) -> String {
        match self.choices.below(6) {
            3 => format!(" LIMIT {}", self.choices.below(8)),
            4 => format!(" LIMIT {} OFFSET {}", 1 + self.choices.below(8), self.choices.below(5)),
            5 => format!(" OFFSET {}", self.choices.below(5)),
            _ => String::new(),
        }
    }

    /// Whose equal rows look equal, without an order.
    fn simple_select(&mut self, types: &[Ty], outer: &[Column], depth: usize) -> Select {
        let mut select = self.select(types, outer, depth, true);
        if !matches!(select.distinct_on, DistinctOn::No) {
            let (_, clause) = self.order_of_distinct(&select.distinct_on, types.len());
            select.text = format!("({}{clause})", select.text);
        }
        select
    }

    fn select(&mut self, types: &[Ty], outer: &[Column], depth: usize, canonical: bool) -> Select {
        self.choices.begin();
        let around = self.combinations;
        let joined = self.from(outer, depth);
        let mut select = match self.choices.below(6) {
            4 | 5 => self.grouped(&joined, types, outer, (depth, canonical)),
            _ => self.plain(&joined, types, outer, (depth, canonical)),
        };
        select.rows = joined.rows;
        self.combinations = around;
        self.choices.end();
        select
    }

    fn plain(
        &mut self,
        joined: &Joined,
        types: &[Ty],
        outer: &[Column],
        (depth, canonical): (usize, bool),
    ) -> Select {
        let scope = Scope { columns: &joined.columns, outer, grouped: None };
        let distinct = self.choices.below(11);
        let distinct_on = match distinct {
            8 => DistinctOn::Columns(1 + self.choices.below(types.len())),
            9 => DistinctOn::Columns(types.len()),
            10 => self.distinct_expressions(joined),
            _ => DistinctOn::No,
        };
        // Without an order of the rows it matters which of equal values is shown; with a limit, too.
        let items: Vec<String> = types
            .iter()
            .map(|ty| {
                let is_window = self.choices.once_in(7);
                let item = if is_window {
                    self.window(*ty, &scope, joined.key.as_deref())
                } else {
                    self.expression(*ty, &scope, depth)
                };
                item_of(*ty, item, canonical || distinct >= 7)
            })
            .collect();
        let filter = self.where_clause(joined, outer, depth);
        let on: Vec<String> = match &distinct_on {
            DistinctOn::No => Vec::new(),
            DistinctOn::Columns(on) => (1..=*on).map(|at| at.to_string()).collect(),
            DistinctOn::Expressions { on, .. } => on.clone(),
        };
        let distinct = match on.is_empty() {
            true if distinct == 7 => "DISTINCT ".to_owned(),
            true => String::new(),
            false => format!("DISTINCT ON ({}) ", on.join(", ")),
        };
        let text = format!("SELECT {distinct}{} FROM {}{filter}", items.join(", "), joined.text);
        let key = if distinct.is_empty() { joined.key.clone() } else { None };
        let sort = key.is_some() && self.choices.once_in(4);
        let sort = sort.then(|| {
            let ty = *self.choices.pick(&[Ty::Int, Ty::Text, Ty::Num]);
            self.expression(ty, &Scope { outer, ..scope }, 2)
        });
        // A literal would be the position of a column.
        let sort = sort.filter(|text| text.starts_with('(') || text.starts_with('t'));
        Select { text, key, sort, distinct_on, rows: 0 }
    }

    /// Up to three columns of its items of FROM, if these have a key.
    fn distinct_expressions(&mut self, joined: &Joined) -> DistinctOn {
        let columns: Vec<&Column> = joined.columns.iter().filter(|column| column.ty != Ty::Json).collect();
        match &joined.key {
            Some(key) if !key.is_empty() && !columns.is_empty() => {
                let many = 1 + self.choices.below(3);
                let on = (0..many).map(|_| self.choices.pick(&columns).text.clone()).collect();
                DistinctOn::Expressions { on, key: key.clone() }
            }
            _ => DistinctOn::No,
        }
    }

    fn where_clause(&mut self, joined: &Joined, outer: &[Column], depth: usize) -> String {
        if self.choices.below(3) == 0 {
            return String::new();
        }
        let scope = Scope { columns: &joined.columns, outer, grouped: None };
        let mut condition = self.condition(&scope, depth);
        // A subquery that refers to nothing around it is of little interest.
        if !outer.is_empty()
            && self.choices.below(3) > 0
            && let Some(equal) = self.equality(outer, &joined.columns)
        {
            condition = format!("{equal} AND {condition}");
        }
        format!(" WHERE {condition}")
    }

    /// A column of the one equals a column of the other.
    fn equality(&mut self, left: &[Column], right: &[Column]) -> Option<String> {
        let pairs: Vec<(&Column, &Column)> = left
            .iter()
            .flat_map(|one| right.iter().map(move |other| (one, other)))
            .filter(|(one, other)| one.ty == other.ty && !matches!(one.ty, Ty::Json | Ty::Ints | Ty::Bool))
            .collect();
        let integers: Vec<&(&Column, &Column)> =
            pairs.iter().filter(|(one, _)| matches!(one.ty, Ty::Int | Ty::Big)).collect();
        let named = |column: &Column| column.text.ends_with(".id") || column.text.ends_with(".item");
        let keys: Vec<&(&Column, &Column)> =
            integers.iter().filter(|(one, other)| named(one) && named(other)).copied().collect();
        let (one, other) = match (integers.is_empty(), pairs.is_empty()) {
            (_, true) => return None,
            _ if !keys.is_empty() && self.choices.once_in(2) => *keys[self.choices.below(keys.len())],
            (false, _) if !self.choices.once_in(4) => *integers[self.choices.below(integers.len())],
            _ => pairs[self.choices.below(pairs.len())],
        };
        Some(format!("{} = {}", one.text, other.text))
    }

    fn grouped(
        &mut self,
        joined: &Joined,
        types: &[Ty],
        outer: &[Column],
        (depth, canonical): (usize, bool),
    ) -> Select {
        let inner = &joined.columns;
        let many = self.choices.below(3);
        let keys: Vec<Column> = (0..many).filter_map(|_| self.group_key(inner)).collect();
        let (clause, is_set) = self.group_by(&keys);
        let scope = Scope { columns: &keys, outer, grouped: Some(inner) };
        let mut items: Vec<String> = types
            .iter()
            .map(|ty| {
                let is_window = !is_set && self.choices.once_in(10);
                let item = if is_window {
                    self.window(*ty, &scope, None)
                } else if self.choices.once_in(3) {
                    self.expression(*ty, &scope, depth.min(2))
                } else {
                    self.aggregate(*ty, inner, 1)
                };
                item_of(*ty, item, canonical)
            })
            .collect();
        if is_set && types[0] == Ty::Int && self.choices.once_in(2) {
            let all: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
            items[0] = format!("grouping({})", all.join(", "));
        }
        let filter = self.where_clause(joined, outer, depth);
        let having = if self.choices.once_in(3) {
            format!(" HAVING {}", self.condition(&scope, depth.min(2)))
        } else {
            String::new()
        };
        let text = format!("SELECT {} FROM {}{filter}{clause}{having}", items.join(", "), joined.text);
        Select { text, key: None, sort: None, distinct_on: DistinctOn::No, rows: 0 }
    }

    /// A column, or what is made of one.
    fn group_key(&mut self, columns: &[Column]) -> Option<Column> {
        if columns.is_empty() {
            return None;
        }
        let column = self.choices.pick(columns).clone();
        let text = column.text.as_str();
        let made = match (self.choices.below(4), column.ty) {
            (3, Ty::Int) => format!("({text} % 3)"),
            (3, Ty::Text) => format!("upper({text})"),
            (3, Ty::Num) => format!("round({text})"),
            (3, Ty::Date) => format!("date_trunc('month', {text}::timestamp)::date"),
            (_, Ty::Float) => format!("({text} + 0)"),
            (_, Ty::Span) => format!("justify_interval({text})"),
            _ => return Some(column),
        };
        Some(Column { text: made, ty: column.ty, is_plain: false })
    }

    /// And whether it is several groupings.
    fn group_by(&mut self, keys: &[Column]) -> (String, bool) {
        if keys.is_empty() {
            return (if self.choices.once_in(5) { " GROUP BY ()" } else { "" }.to_owned(), false);
        }
        let texts: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
        let all = texts.join(", ");
        match self.choices.below(10) {
            7 => (format!(" GROUP BY ROLLUP ({all})"), true),
            8 => (format!(" GROUP BY CUBE ({all})"), true),
            9 => (format!(" GROUP BY GROUPING SETS (({all}), ({}), ())", texts[0]), true),
            _ => (format!(" GROUP BY {all}"), false),
        }
    }

    fn from(&mut self, outer: &[Column], depth: usize) -> Joined {
        self.choices.begin();
        let mut joined = self.first(outer, depth);
        while self.choices.once_in(3) && joined.columns.len() < 26 {
            let Some(more) = self.join(&joined, outer, depth) else { break };
            joined = more;
        }
        self.combinations *= joined.rows.max(1);
        self.choices.end();
        joined
    }

    pub fn first(&mut self, outer: &[Column], depth: usize) -> Joined {
        let relation = self.relation(outer, depth, &[]);
        self.alone(relation)
    }

    pub fn alone(&mut self, relation: Relation) -> Joined {
        let alias = self.name("t");
        let columns = columns_of(&relation, &alias);
        let text = aliased(&relation, &alias);
        let key = relation.key.map(|key| key.iter().map(|column| format!("{alias}.{column}")).collect());
        Joined { text, columns, key, rows: relation.rows }
    }

    /// Two items joined within brackets.
    fn nested(&mut self, outer: &[Column], depth: usize) -> Option<Joined> {
        let first = self.first(outer, depth);
        let joined = self.join(&first, outer, depth)?;
        Some(Joined { text: format!("({})", joined.text), ..joined })
    }

    /// Joined with one more item; none where the rows would be too many.
    fn join(&mut self, left: &Joined, outer: &[Column], depth: usize) -> Option<Joined> {
        self.choices.begin();
        let joined = self.join_any(left, outer, depth);
        self.choices.end();
        joined
    }

    fn join_any(&mut self, left: &Joined, outer: &[Column], depth: usize) -> Option<Joined> {
        let is_lateral = self.choices.once_in(10);
        let right = if depth > 0 && self.choices.once_in(8) {
            self.nested(outer, 0)?
        } else {
            let relation = self.relation(outer, depth, if is_lateral { &left.columns } else { &[] });
            self.alone(relation)
        };
        let rows = left.rows.max(1) * right.rows.max(1);
        let equality = self.equality(&left.columns, &right.columns);
        let kind = self.choices.below(11);
        if self.combinations * rows > COMBINATIONS_MAX {
            return None;
        }
        let (text, columns) = self.joined_text(left, &right, (kind, equality), outer);
        let key = left.key.clone().zip(right.key).map(|(mut key, more)| {
            key.extend(more);
            key
        });
        Some(Joined { text, columns, key, rows })
    }

    fn joined_text(
        &mut self,
        left: &Joined,
        right: &Joined,
        (kind, equality): (usize, Option<String>),
        outer: &[Column],
    ) -> (String, Vec<Column>) {
        let mut columns = left.columns.clone();
        columns.extend_from_slice(&right.columns);
        let (one, other) = (&left.text, &right.text);
        let is_lateral = other.starts_with("LATERAL");
        let scope = Scope { columns: &columns, outer, grouped: None };
        let on = match equality {
            Some(equality) if !self.choices.once_in(4) => equality,
            Some(equality) => format!("{equality} AND {}", self.expression(Ty::Bool, &scope, 1)),
            None => self.expression(Ty::Bool, &scope, 1),
        };
        let is_plain = on.starts_with('t') && !on.contains(" AND ") && on.contains(" = ");
        let text = match kind {
            0..4 => format!("{one} JOIN {other} ON {on}"),
            4..7 => format!("{one} LEFT JOIN {other} ON {on}"),
            7 if !is_lateral => format!("{one} RIGHT JOIN {other} ON {on}"),
            8 if !is_lateral && is_plain => format!("{one} FULL JOIN {other} ON {on}"),
            9 => format!("{one} CROSS JOIN {other}"),
            10 if !is_lateral => {
                let how = *self.choices.pick(&["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"]);
                match shared(&left.columns, &right.columns) {
                    Some((name, ty)) => {
                        // The column that both have goes without a table.
                        columns.push(Column::plain(name.clone(), ty));
                        format!("{one} {how} {other} USING ({name})")
                    }
                    None => format!("{one} JOIN {other} ON {on}"),
                }
            }
            _ => format!("{one} JOIN {other} ON {on}"),
        };
        (text, columns)
    }
}

/// The name and type of a column that both have once.
fn shared(left: &[Column], right: &[Column]) -> Option<(String, Ty)> {
    let name = |column: &Column| column.text.split_once('.').map(|(_, name)| name.to_owned());
    let once = |columns: &[Column], wanted: &str| {
        let mut all =
            columns.iter().filter(|column| column.text == wanted || name(column).as_deref() == Some(wanted));
        all.next().filter(|_| all.next().is_none()).map(|column| column.ty)
    };
    right.iter().find_map(|column| {
        let name = name(column)?;
        let types = (once(left, &name)?, once(right, &name)?);
        (types.0 == types.1).then_some((name, types.0))
    })
}

fn item_of(ty: Ty, text: String, is_canonical: bool) -> String {
    // Intervals that are equal, as a month and thirty days, would differ in the sort key, too.
    if is_canonical || ty == Ty::Span { canonical(ty, text) } else { text }
}
