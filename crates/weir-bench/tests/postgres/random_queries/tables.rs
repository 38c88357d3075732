//! The tables of random queries, and their rows by seed: small domains, so that rows meet and repeat, NULLs, and some extreme values.

use std::fmt::Write;

use super::choices::Choices;

/// Types of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Int,
    Big,
    Num,
    Text,
    Bool,
    Date,
    Stamp,
    Zoned,
    Span,
    Float,
    Ints,
    Json,
}

pub const TYPES: [Ty; 12] = [
    Ty::Int,
    Ty::Text,
    Ty::Num,
    Ty::Big,
    Ty::Bool,
    Ty::Date,
    Ty::Stamp,
    Ty::Float,
    Ty::Ints,
    Ty::Json,
    Ty::Zoned,
    Ty::Span,
];

impl Ty {
    pub fn name(self) -> &'static str {
        match self {
            Ty::Int => "integer",
            Ty::Big => "bigint",
            Ty::Num => "numeric",
            Ty::Text => "text",
            Ty::Bool => "boolean",
            Ty::Date => "date",
            Ty::Stamp => "timestamp",
            Ty::Zoned => "timestamptz",
            Ty::Span => "interval",
            Ty::Float => "double precision",
            Ty::Ints => "integer[]",
            Ty::Json => "jsonb",
        }
    }
}

pub struct Table {
    pub name: &'static str,
    /// Those of the primary key first.
    pub columns: &'static [(&'static str, Ty)],
    /// Number of columns of the primary key.
    pub key: usize,
    /// It may be written to.
    pub is_writable: bool,
}

/// `item` and `part` live together by item, `event` lives by its own key, and every shard has a copy of `rate`.
pub const SCHEMA: &str = "
CREATE TABLE item (
    id integer PRIMARY KEY, kind integer, name text, price numeric(8,2), stock bigint NOT NULL DEFAULT 0, made date, live boolean,
    ratio double precision, CHECK (kind < 1000)
);
CREATE INDEX item_kind ON item (kind);
CREATE INDEX item_name_kind ON item (name, kind);
CREATE TABLE part (
    item integer NOT NULL REFERENCES item (id), no integer NOT NULL, code integer, note text, weight numeric(6,2), seen timestamp,
    PRIMARY KEY (item, no), UNIQUE (item, code)
);
CREATE TABLE event (
    id bigint PRIMARY KEY, item integer REFERENCES item (id), label text, amount bigint, at timestamp, day date, tags integer[], doc jsonb,
    moment timestamptz, span interval
);
CREATE INDEX event_item ON event (item);
CREATE INDEX event_label_day ON event (label, day);
CREATE TABLE rate (kind integer, grade text, percent numeric(7,2), cap double precision, PRIMARY KEY (kind, grade));
COMMENT ON TABLE item IS 'weir: partition by (id)';
COMMENT ON TABLE part IS 'weir: partition by (item)';
COMMENT ON TABLE event IS 'weir: partition by (id)';
COMMENT ON TABLE rate IS 'weir: replicated';
";

pub const TABLES: [Table; 4] = [
    Table {
        name: "item",
        columns: &[
            ("id", Ty::Int),
            ("kind", Ty::Int),
            ("name", Ty::Text),
            ("price", Ty::Num),
            ("stock", Ty::Big),
            ("made", Ty::Date),
            ("live", Ty::Bool),
            ("ratio", Ty::Float),
        ],
        key: 1,
        is_writable: true,
    },
    Table {
        name: "part",
        columns: &[
            ("item", Ty::Int),
            ("no", Ty::Int),
            ("code", Ty::Int),
            ("note", Ty::Text),
            ("weight", Ty::Num),
            ("seen", Ty::Stamp),
        ],
        key: 2,
        is_writable: true,
    },
    Table {
        name: "event",
        columns: &[
            ("id", Ty::Big),
            ("item", Ty::Int),
            ("label", Ty::Text),
            ("amount", Ty::Big),
            ("at", Ty::Stamp),
            ("day", Ty::Date),
            ("tags", Ty::Ints),
            ("doc", Ty::Json),
            ("moment", Ty::Zoned),
            ("span", Ty::Span),
        ],
        key: 1,
        is_writable: true,
    },
    Table {
        name: "rate",
        columns: &[("kind", Ty::Int), ("grade", Ty::Text), ("percent", Ty::Num), ("cap", Ty::Float)],
        key: 2,
        is_writable: false,
    },
];

pub const WORDS: [&str; 12] = ["a", "b", "ab", "", "abc", "B", "ba", "x y", "10", "a%b", "Ännä", "c_d"];

/// A literal, as tables and conditions have it. Values of double precision are sums of powers of two, so their sums are the same in
/// every order.
pub fn literal(choices: &mut Choices, ty: Ty) -> String {
    match ty {
        Ty::Int => choices.below(12).to_string(),
        Ty::Big => match choices.below(12) {
            11 => "4000000000".to_owned(),
            small => format!("{small}::bigint"),
        },
        Ty::Num => {
            let whole = choices.below(12);
            format!("{whole}.{}", choices.pick(&["00", "50", "25", "10", "99"]))
        }
        Ty::Text => format!("'{}'", choices.pick(&WORDS)),
        Ty::Bool => (*choices.pick(&["true", "false"])).to_owned(),
        Ty::Date => format!("date '2024-0{}-{}'", 1 + choices.below(3), choices.pick(&["01", "15", "28"])),
        Ty::Stamp => {
            let day = 1 + choices.below(3);
            format!("timestamp '2024-0{day}-15 {}'", choices.pick(&["00:00", "10:30", "23:59:59.5"]))
        }
        Ty::Zoned => {
            let month = 1 + choices.below(3);
            format!("timestamptz '2024-0{month}-15 {}+00'", choices.pick(&["00:00", "10:30", "23:59:59.5"]))
        }
        Ty::Span => {
            const SPANS: [&str; 6] =
                ["1 day", "02:30", "1 mon", "30 days", "-3 days 04:00", "1 year 00:00:01.5"];
            format!("interval '{}'", choices.pick(&SPANS))
        }
        Ty::Float => {
            let whole = choices.below(10);
            format!("'{whole}.{}'::double precision", choices.pick(&["0", "5", "25", "75"]))
        }
        Ty::Ints => {
            let many = choices.below(4);
            let all: Vec<String> = (0..many).map(|_| choices.below(6).to_string()).collect();
            format!("'{{{}}}'::integer[]", all.join(","))
        }
        Ty::Json => {
            let (n, k) = (choices.below(5), choices.below(3));
            let text = match choices.below(6) {
                0 => format!("{{\"n\": {n}, \"k\": \"{}\"}}", WORDS[k]),
                1 => format!("{{\"n\": {n}, \"list\": [{k}, {n}]}}"),
                2 => format!("[{n}, \"{}\", null]", WORDS[k]),
                3 => format!("\"{}\"", WORDS[k]),
                4 => n.to_string(),
                _ => format!("{{\"k\": {{\"k\": {n}}}, \"n\": null}}"),
            };
            format!("'{text}'::jsonb")
        }
    }
}

/// A value of a row: now and then NULL, a negative or an extreme one.
pub fn value(choices: &mut Choices, ty: Ty) -> String {
    let rare = choices.below(60);
    match (rare, ty) {
        (52.., _) => "NULL".to_owned(),
        (48..=51, Ty::Int | Ty::Big | Ty::Num) => format!("-{}", choices.below(9)),
        (47, Ty::Num) => "1234.56".to_owned(),
        (47, Ty::Big) => "9000000000".to_owned(),
        (46, Ty::Big) => "9223372036854775807".to_owned(),
        (47, Ty::Float) => "'-1e10'::double precision".to_owned(),
        (45..=47, Ty::Date) => "date '1999-12-31'".to_owned(),
        (45..=47, Ty::Ints) => "'{1,NULL,2}'::integer[]".to_owned(),
        _ => literal(choices, ty),
    }
}

/// Rows of the tables by seed, as INSERTs; and how many each has.
pub fn rows(seed: u64) -> (String, [usize; 4]) {
    let choices = &mut Choices::from_seed(seed);
    let is_large = choices.once_in(6);
    let size = |choices: &mut Choices, most: usize| match choices.below(12) {
        11 => 0,
        10 if is_large => most * 8,
        _ => 3 + choices.below(most),
    };
    let items = size(choices, 25);
    let mut sizes = [items, 0, 0, 0];
    let mut text = String::new();
    let ids: Vec<usize> = (0..items).map(|at| at + at / 7).collect();
    sizes[0] = insert(&mut text, choices, &TABLES[0], ids.iter().map(|id| vec![id.to_string()]));
    let mut parts = Vec::new();
    for id in &ids {
        let many = if choices.once_in(3) { choices.below(6) } else { choices.below(2) };
        parts.extend((0..many).map(|no| vec![id.to_string(), no.to_string(), unique_code(choices, no)]));
    }
    sizes[1] = insert(&mut text, choices, &TABLES[1], parts.into_iter());
    let events = size(choices, 30);
    let of_item = |choices: &mut Choices| match choices.below(5) {
        0 => "NULL".to_owned(),
        _ if ids.is_empty() => "NULL".to_owned(),
        _ => choices.pick(&ids).to_string(),
    };
    let events: Vec<Vec<String>> =
        (0..events).map(|id| vec![(id * 2).to_string(), of_item(choices)]).collect();
    sizes[2] = insert(&mut text, choices, &TABLES[2], events.into_iter());
    let kinds = choices.below(8);
    let rates = (0..kinds).flat_map(|kind| {
        (0..=kind % 3).map(move |word| vec![kind.to_string(), format!("'{}'", WORDS[word])])
    });
    sizes[3] = insert(&mut text, choices, &TABLES[3], rates);
    (text, sizes)
}

/// Different for each part of an item, or NULL.
fn unique_code(choices: &mut Choices, no: usize) -> String {
    if choices.once_in(5) { "NULL".to_owned() } else { (no * 2 + choices.below(2)).to_string() }
}

/// Rows that begin with these values. Returns their number.
fn insert(
    text: &mut String,
    choices: &mut Choices,
    table: &Table,
    begun: impl Iterator<Item = Vec<String>>,
) -> usize {
    let rows: Vec<String> = begun
        .map(|mut row| {
            for (name, ty) in &table.columns[row.len()..] {
                let value = value(choices, *ty);
                let is_needed = *name == "stock" && value == "NULL";
                row.push(if is_needed { "0".to_owned() } else { value });
            }
            format!("({})", row.join(", "))
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(text, "INSERT INTO {} VALUES {};", table.name, rows.join(",\n    "));
    }
    rows.len()
}
