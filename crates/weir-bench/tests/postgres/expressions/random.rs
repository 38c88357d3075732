//! Queries by seed over the small tables `r`, `s` and `u`: joins of every kind, conditions, subqueries,
//! grouping and set operations. All columns in use are integers, so any two of them may meet.

/// A small generator with a period that is long enough for a query.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len() as u64) as usize]
    }
}

const TABLES: [&str; 3] = ["r", "s", "u"];
const COLUMNS: [&str; 3] = ["a", "b", "c"];

pub fn query(seed: u64) -> String {
    let mut dice = Dice(seed);
    match dice.roll(12) {
        0 => {
            let op = dice.pick(&["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]);
            format!("{} {op} {}", select(&mut dice, &mut 0, &[]), select(&mut dice, &mut 10, &[]))
        }
        1 => {
            let inner = select(&mut dice, &mut 0, &[]);
            let alias = "cte.x";
            let condition = condition(&mut dice, &mut 20, &[alias.to_string(), "cte.y".into()], 1);
            format!("WITH cte (x, y) AS ({inner}) SELECT x, y FROM cte WHERE {condition}")
        }
        2 => grouped(&mut dice),
        3 | 4 => {
            let mut next = 0;
            let (from, columns) = from(&mut dice, &mut next, &[]);
            let condition = condition(&mut dice, &mut next, &columns, 2);
            let limit = 1 + dice.roll(5);
            let direction = dice.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
            let (x, y) = (column(&mut dice, &columns), column(&mut dice, &columns));
            format!(
                "SELECT {x} AS x, {y} AS y FROM {from} WHERE {condition} ORDER BY x{direction}, y LIMIT {limit}"
            )
        }
        5 | 6 => {
            let mut next = 0;
            let (from, columns) = from(&mut dice, &mut next, &[]);
            let aggregate = aggregate(&mut dice, &columns);
            let other = self::aggregate(&mut dice, &columns);
            let condition = condition(&mut dice, &mut next, &columns, 2);
            format!("SELECT {aggregate}, {other} FROM {from} WHERE {condition}")
        }
        _ => select(&mut dice, &mut 0, &[]),
    }
}

/// A query of two integer columns; `outer` are columns that it may refer to.
fn select(dice: &mut Dice, next: &mut u32, outer: &[String]) -> String {
    let (from, columns) = from(dice, next, outer);
    let mut visible = columns.clone();
    visible.extend_from_slice(outer);
    let condition = condition(dice, next, &visible, 2);
    let distinct = dice.pick(&["", "", "", "DISTINCT "]);
    let (x, y) = (column(dice, &columns), scalar(dice, next, &columns));
    format!("SELECT {distinct}{x}::bigint, {y} FROM {from} WHERE {condition}")
}

fn grouped(dice: &mut Dice) -> String {
    let mut next = 0;
    let (from, columns) = from(dice, &mut next, &[]);
    let condition = condition(dice, &mut next, &columns, 1);
    let key = column(dice, &columns);
    let (first, second) = (aggregate(dice, &columns), aggregate(dice, &columns));
    let having = match dice.roll(3) {
        0 => format!(" HAVING {} > {}", aggregate(dice, &columns), dice.roll(4)),
        _ => String::new(),
    };
    format!("SELECT {key}, {first}, {second} FROM {from} WHERE {condition} GROUP BY {key}{having}")
}

fn aggregate(dice: &mut Dice, columns: &[String]) -> String {
    let column = column(dice, columns);
    let distinct = dice.pick(&["", "", "DISTINCT "]);
    match dice.roll(6) {
        0 => "count(*)".into(),
        1 => format!("count({distinct}{column})"),
        2 => format!("sum({distinct}{column})"),
        3 => format!("min({column})"),
        4 => format!("max({column})"),
        _ => format!("avg({distinct}{column})"),
    }
}

/// A FROM clause of one to three relations, and the columns that it offers.
fn from(dice: &mut Dice, next: &mut u32, outer: &[String]) -> (String, Vec<String>) {
    let (mut text, mut columns) = item(dice, next);
    for _ in 0..dice.roll(3) {
        let (other, offered) = item(dice, next);
        let left = columns.clone();
        columns.extend(offered.iter().cloned());
        let equality = format!("{} = {}", column(dice, &left), column(dice, &offered));
        match dice.roll(7) {
            0 => text = format!("{text}, {other}"),
            1 => text = format!("{text} CROSS JOIN {other}"),
            kind @ 2..=5 => {
                let join = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "JOIN"][kind as usize - 2];
                // A condition inside of JOIN sees its two sides, but no comma-separated item before it.
                let mut visible = if text.contains(", ") { last_item(&left) } else { left };
                visible.extend(offered.iter().cloned());
                let more = match dice.roll(2) {
                    0 => format!(" AND {}", comparison(dice, &visible)),
                    _ => String::new(),
                };
                let equality = match text.contains(", ") {
                    true => format!("{} = {}", visible[0], column(dice, &offered)),
                    false => equality,
                };
                text = format!("{text} {join} {other} ON {equality}{more}");
            }
            _ => {
                let equality = match text.contains(", ") {
                    true => format!("{} = {}", last_item(&left)[0], column(dice, &offered)),
                    false => equality,
                };
                text = format!("{text} FULL JOIN {other} ON {equality}");
            }
        }
    }
    let _ = outer;
    (text, columns)
}

/// The columns of the last item: all that a JOIN behind a comma sees for sure.
fn last_item(columns: &[String]) -> Vec<String> {
    let alias = columns.last().and_then(|column| column.split('.').next()).unwrap_or("").to_string();
    columns.iter().filter(|column| column.starts_with(&format!("{alias}."))).cloned().collect()
}

fn item(dice: &mut Dice, next: &mut u32) -> (String, Vec<String>) {
    let alias = format!("t{next}");
    *next += 1;
    let table = dice.pick(&TABLES);
    match dice.roll(8) {
        0 => (
            format!("(SELECT b AS a, count(*) AS b, max(c) AS c FROM {table} GROUP BY b) {alias}"),
            COLUMNS.iter().map(|column| format!("{alias}.{column}")).collect(),
        ),
        _ => (format!("{table} {alias}"), COLUMNS.iter().map(|column| format!("{alias}.{column}")).collect()),
    }
}

fn column(dice: &mut Dice, columns: &[String]) -> String {
    columns[dice.roll(columns.len() as u64) as usize].clone()
}

/// A bigint.
fn scalar(dice: &mut Dice, next: &mut u32, columns: &[String]) -> String {
    match dice.roll(6) {
        0 => format!("({} + {})::bigint", column(dice, columns), dice.roll(5)),
        1 => format!("coalesce({}, -1)::bigint", column(dice, columns)),
        2 => {
            let table = dice.pick(&TABLES);
            let alias = format!("q{next}");
            *next += 1;
            let aggregate = dice.pick(&["count(*)", "sum(b)::bigint", "max(c)::bigint", "min(a)::bigint"]);
            let (inner, outer) = (dice.pick(&COLUMNS), column(dice, columns));
            let extra = match dice.roll(2) {
                0 => format!(" AND {alias}.b > {}", dice.roll(4)),
                _ => String::new(),
            };
            format!("(SELECT {aggregate} FROM {table} {alias} WHERE {alias}.{inner} = {outer}{extra})")
        }
        _ => format!("{}::bigint", column(dice, columns)),
    }
}

fn comparison(dice: &mut Dice, columns: &[String]) -> String {
    let op = dice.pick(&["=", "=", "=", "<>", "<", "<=", ">", ">="]);
    let left = column(dice, columns);
    match dice.roll(2) {
        0 => format!("{left} {op} {}", column(dice, columns)),
        _ => format!("{left} {op} {}", dice.roll(9)),
    }
}

fn condition(dice: &mut Dice, next: &mut u32, columns: &[String], depth: u32) -> String {
    let leaf = depth == 0;
    match dice.roll(if leaf { 6 } else { 14 }) {
        0..=2 => comparison(dice, columns),
        3 => format!("{} IS {}NULL", column(dice, columns), dice.pick(&["", "NOT "])),
        4 => format!(
            "{} {}IN ({}, {}, {})",
            column(dice, columns),
            dice.pick(&["", "NOT "]),
            dice.roll(9),
            dice.roll(9),
            dice.pick(&["NULL", "1", "5"])
        ),
        5 => format!("{} BETWEEN {} AND {}", column(dice, columns), dice.roll(5), dice.roll(9)),
        6..=8 => {
            let (left, right) =
                (condition(dice, next, columns, depth - 1), condition(dice, next, columns, depth - 1));
            format!("{left} AND {right}")
        }
        9 => {
            let (left, right) =
                (condition(dice, next, columns, depth - 1), condition(dice, next, columns, depth - 1));
            format!("({left} OR {right})")
        }
        10 => format!("NOT ({})", condition(dice, next, columns, depth - 1)),
        kind => {
            let alias = format!("e{next}");
            *next += 1;
            let table = dice.pick(&TABLES);
            let inner: Vec<String> = COLUMNS.iter().map(|column| format!("{alias}.{column}")).collect();
            let outer = column(dice, columns);
            let link = format!("{} = {}", column(dice, &inner), column(dice, columns));
            let more = condition(dice, next, &inner, 0);
            let not = dice.pick(&["", "NOT "]);
            let item = column(dice, &inner);
            match kind {
                11 => format!("{not}EXISTS (SELECT 1 FROM {table} {alias} WHERE {link} AND {more})"),
                12 => format!("{outer} {not}IN (SELECT {item} FROM {table} {alias} WHERE {more})"),
                _ => {
                    let op = dice.pick(&["=", "<", ">="]);
                    let quantifier = dice.pick(&["ANY", "ALL"]);
                    format!("{outer} {op} {quantifier} (SELECT {item} FROM {table} {alias} WHERE {link})")
                }
            }
        }
    }
}
