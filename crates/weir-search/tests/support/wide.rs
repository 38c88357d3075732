//! Random applications whose assertions and procedures are put together from parts: several facts of one table, tables
//! beside themselves, joins, counts and sums, queries within queries, sequences that begin again; procedures with
//! conditions on other rows, loops, upserts, and rows that go by a link. One number makes one application.

use std::fmt::Write as _;

use super::random::Chance;

/// Three tables: `b` refers to `a`, `c` to `b`.
const TABLES: [&str; 3] = ["a", "b", "c"];

const CONDITIONS: &[&str] = &[
    "R.up",
    "NOT R.up",
    "R.k = 1",
    "R.k > 0",
    "R.n > 1",
    "R.n = 2",
    "R.n <= 0",
    "R.f IS NULL",
    "R.f IS NOT NULL",
    "R.f = 1",
    "R.n >= R.k",
    "R.k <> 0",
    "R.k + R.n > 2",
];

/// Changes of one column; `P` is the one that refers to the parent.
const SETS: &[&str] = &[
    "up = false",
    "up = true",
    "up = (m = 1)",
    "up = NOT up",
    "k = m",
    "k = k + 1",
    "k = 1",
    "n = n + 1",
    "n = n - 1",
    "n = n + m",
    "n = m",
    "n = greatest(n, m)",
    "n = least(n, m)",
    "n = n * 2",
    "f = m",
    "f = NULL",
    "f = coalesce(f, m)",
    "f = nullif(f, m)",
    "n = (SELECT count(*) FROM b WHERE b.k = m)",
    "P = q",
];

struct Maker {
    chance: Chance,
    /// Number of the tables.
    tables: usize,
    aliases: usize,
    /// Table and column that most conditions and changes concern.
    focus: (usize, &'static str),
    /// Assertions that the engine can only analyse.
    with_recursion: bool,
}

/// The SQL of one application; some of it may only be read to be analysed.
pub fn application(seed: u64) -> String {
    let mut chance = Chance::new(seed ^ 0x5E_ED0F_71DE);
    let tables = 2 + chance.below(3) / 2;
    let with_recursion = chance.one_in(40);
    let focus = (1.min(chance.below(4)), *["up", "up", "k", "n", "f"].get(chance.below(5)).unwrap_or(&"up"));
    let mut maker = Maker { chance, tables, aliases: 0, focus, with_recursion };
    let mut text = String::new();
    maker.schema(&mut text);
    for number in 0..1 + maker.chance.below(2) {
        let claim = maker.assertion();
        let _ = writeln!(text, "CREATE ASSERTION claim_{number} CHECK ({claim});");
    }
    for number in 0..1 + maker.chance.below(3) {
        maker.procedure(&mut text, number);
    }
    text
}

impl Maker {
    fn pick<'s>(&mut self, list: &[&'s str]) -> &'s str {
        self.chance.pick(list)
    }

    fn table(&mut self) -> usize {
        if self.chance.one_in(2) {
            return self.focus.0;
        }
        // The middle table most often: it is counted, and counts.
        match self.chance.below(6) {
            0 | 1 => 0,
            5 if self.tables == 3 => 2,
            _ => 1,
        }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("r{}", self.aliases)
    }

    fn schema(&mut self, text: &mut String) {
        let sequence = self.chance.one_in(6);
        if sequence {
            let kind = self.pick(&["", "MAXVALUE 2 CYCLE", "INCREMENT -1", "INCREMENT 2 MAXVALUE 3 CYCLE"]);
            let _ = writeln!(text, "CREATE SEQUENCE numbers {kind};");
        }
        text.push_str("CREATE TABLE a (id integer PRIMARY KEY, k integer NOT NULL DEFAULT 0, f integer, up boolean NOT NULL DEFAULT true,\n    n integer NOT NULL DEFAULT 0");
        self.checks(text);
        text.push_str(");\n");
        for (table, parent) in [("b", "a"), ("c", "b")].into_iter().take(self.tables - 1) {
            let key = match (sequence && table == "b", self.chance.below(4)) {
                (true, _) => "integer DEFAULT nextval('numbers') PRIMARY KEY",
                (false, 0) => "serial PRIMARY KEY",
                _ => "integer PRIMARY KEY",
            };
            let null = self.pick(&[" NOT NULL", " NOT NULL", ""]);
            let _ = write!(text, "CREATE TABLE {table} (id {key}, {parent} integer{null}");
            if !self.chance.one_in(3) {
                let action = self.pick(&["", "", "", " ON DELETE CASCADE", " ON DELETE SET NULL"]);
                let _ = write!(text, " REFERENCES {parent} (id){action}");
            }
            text.push_str(", k integer NOT NULL DEFAULT 0, f integer,\n    up boolean NOT NULL DEFAULT true, n integer NOT NULL DEFAULT 0");
            self.checks(text);
            text.push_str(");\n");
        }
    }

    fn checks(&mut self, text: &mut String) {
        if self.chance.one_in(5) {
            text.push_str(self.pick(&[
                ", CHECK (n >= 0)",
                ", CHECK (n <= 2)",
                ", CHECK (f IS NULL OR up)",
                ", UNIQUE (k)",
                ", CHECK (n <> 2)",
                ", CHECK (k <= n)",
            ]));
        }
    }

    /// A condition on one row.
    fn condition(&mut self, row: &str) -> String {
        let row = if row.is_empty() { String::new() } else { format!("{row}.") };
        let about: &[&str] = match self.focus.1 {
            _ if self.chance.one_in(2) => &[],
            "up" => &["R.up", "R.up", "NOT R.up"],
            "k" => &["R.k = 1", "R.k > 0", "R.k <> 0"],
            "n" => &["R.n > 1", "R.n = 2", "R.n <= 0"],
            _ => &["R.f IS NULL", "R.f IS NOT NULL", "R.f = 1"],
        };
        let form = self.pick(if about.is_empty() { CONDITIONS } else { about });
        form.replace("R.", &row)
    }

    /// Which rows of the table `inner` belong to the row `outer`.
    fn link(&mut self, inner: (usize, &str), outer: (usize, &str)) -> String {
        let ((of, x), (to, y)) = (inner, outer);
        if self.chance.one_in(8) {
            return format!("{x}.k = {y}.k");
        }
        let parent = |table: usize| TABLES[table - 1];
        match (of, to) {
            _ if of == to && of > 0 => {
                let apart = self.pick(&["", " AND X.id <> Y.id"]).replace('X', x).replace('Y', y);
                format!("{x}.{} = {y}.{}{apart}", parent(of), parent(of))
            }
            _ if of == to => format!("{x}.k = {y}.k AND {x}.id <> {y}.id"),
            _ if of == to + 1 => format!("{x}.{} = {y}.id", parent(of)),
            _ if to == of + 1 => format!("{x}.id = {y}.{}", parent(to)),
            _ => format!("{x}.k = {y}.k"),
        }
    }

    /// FROM and WHERE of rows that belong to the row `outer`.
    fn rows_of(&mut self, outer: (usize, &str)) -> (String, String) {
        let (table, row) = (self.table(), self.alias());
        let mut from = format!("{} {row}", TABLES[table]);
        let mut filter = self.link((table, &row), outer);
        if self.chance.one_in(2) {
            let _ = write!(filter, " AND {}", self.condition(&row));
        }
        if self.chance.one_in(6) {
            let (joined, other) = (self.table(), self.alias());
            let on = self.link((joined, &other), (table, &row));
            let _ = write!(from, " JOIN {} {other} ON {on}", TABLES[joined]);
            if self.chance.one_in(2) {
                let _ = write!(filter, " AND {}", self.condition(&other));
            }
        }
        if self.chance.one_in(12) {
            let within = self.exists((table, &row));
            let _ = write!(filter, " AND {within}");
        }
        (row, format!("FROM {from} WHERE {filter}"))
    }

    fn exists(&mut self, outer: (usize, &str)) -> String {
        let (_, rows) = self.rows_of(outer);
        format!("{}EXISTS (SELECT 1 {rows})", self.pick(&["", "NOT "]))
    }

    fn fact(&mut self, outer: (usize, &str)) -> String {
        match self.chance.below(6) {
            0 => format!("{}.f IS {}NULL", outer.1, self.pick(&["", "NOT "])),
            1 => self.condition(outer.1),
            _ => self.exists(outer),
        }
    }

    fn aggregate(&mut self, row: &str) -> String {
        let form = self.pick(&[
            "count(*)",
            "count(*)",
            "count(R.f)",
            "coalesce(sum(R.n), 0)",
            "max(R.n)",
            "min(R.n)",
            "coalesce(max(R.n), 0)",
            "sum(R.n)",
        ]);
        form.replace("R.", &format!("{row}."))
    }

    fn compare(&mut self) -> &'static str {
        self.pick(&[">", "<", "<>", ">=", "<=", "="])
    }

    fn assertion(&mut self) -> String {
        if self.with_recursion {
            return "NOT EXISTS (WITH RECURSIVE up (id, k) AS (SELECT id, k FROM a UNION SELECT up.id, a.k FROM up JOIN a ON a.id = up.k)
        SELECT 1 FROM up WHERE id = k)"
                .to_owned();
        }
        let (table, row) = (self.table(), self.alias());
        let (name, outer) = (TABLES[table], (table, row.as_str()));
        let body = match self.chance.below(11) {
            // One fact of some rows, and another of some of these.
            0 => {
                let (inner, rows) = self.rows_of(outer);
                let more = self.condition(&inner);
                let (first, second) = match self.chance.below(3) {
                    0 => ("", ""),
                    1 => ("NOT ", ""),
                    _ => ("", "NOT "),
                };
                format!(
                    "{name} {row} WHERE {first}EXISTS (SELECT 1 {rows}) AND {second}EXISTS (SELECT 1 {rows} AND {more})"
                )
            }
            1 | 2 => {
                let mut facts = vec![self.fact(outer), self.exists(outer)];
                if self.chance.one_in(4) {
                    facts.push(self.condition(&row));
                }
                format!("{name} {row} WHERE {}", facts.join(" AND "))
            }
            3 => {
                let (_, rows) = self.rows_of(outer);
                let other = match self.chance.one_in(2) {
                    true => format!("({row}.f IS NULL)"),
                    false => self.exists(outer),
                };
                format!("{name} {row} WHERE {other} <> EXISTS (SELECT 1 {rows})")
            }
            4 | 5 => {
                let (inner, rows) = self.rows_of(outer);
                let (aggregate, op) = (self.aggregate(&inner), self.compare());
                let bound = self.pick(&["1", "2", "0", "R.n", "R.k"]).replace('R', &row);
                let also = match self.chance.one_in(3) {
                    true => format!(" AND {}", self.condition(&row)),
                    false => String::new(),
                };
                format!("{name} {row} WHERE (SELECT {aggregate} {rows}) {op} {bound}{also}")
            }
            6 => {
                let (other, second) = (self.table(), self.alias());
                let link = self.link((other, &second), outer);
                let (one, two) = (self.condition(&row), self.condition(&second));
                let also = self.pick(&["", " AND X.n > Y.n"]).replace('X', &row).replace('Y', &second);
                format!("{name} {row}, {} {second} WHERE {link} AND {one} AND {two}{also}", TABLES[other])
            }
            7 => {
                let op = self.compare();
                let aggregate = self.aggregate(&row);
                let key = self.pick(&["k", "up", "f"]);
                format!("{name} {row} GROUP BY {row}.{key} HAVING {aggregate} {op} 1")
            }
            8 => {
                let group = self.exists((0, "g"));
                format!(
                    "(SELECT {row}.k AS id, {row}.k, count(*) AS n FROM {name} {row} GROUP BY {row}.k) g WHERE g.n > 1 AND {group}"
                )
            }
            9 => {
                let (one, two) = (self.condition(&row), self.condition("s"));
                let (first, second) = (self.pick(&["", "NOT "]), self.pick(&["", "NOT "]));
                return format!(
                    "NOT ({first}EXISTS (SELECT 1 FROM {name} {row} WHERE {one}) AND {second}EXISTS (SELECT 1 FROM {name} s WHERE {two}))"
                );
            }
            _ => {
                let (condition, aggregate, op) = (self.condition(&row), self.aggregate(&row), self.compare());
                return match self.chance.below(3) {
                    0 => format!("EXISTS (SELECT 1 FROM {name} {row} WHERE {condition})"),
                    _ => format!(
                        "(SELECT {aggregate} FROM {name} {row} WHERE {condition}) {op} {}",
                        self.chance.below(3)
                    ),
                };
            }
        };
        format!("NOT EXISTS (SELECT 1 FROM {body})")
    }

    fn procedure(&mut self, text: &mut String, number: usize) {
        let _ = writeln!(
            text,
            "CREATE PROCEDURE t{number}(IN p integer, IN q integer, IN m integer) LANGUAGE plpgsql AS $$\n\
             DECLARE x integer;\nBEGIN"
        );
        for _ in 0..1 + self.chance.below(3) / 2 {
            let statement = self.statement();
            let _ = match self.chance.below(12) {
                0 => writeln!(text, "    IF m > 1 THEN {statement} END IF;"),
                1 => {
                    let other = self.statement();
                    writeln!(text, "    IF q = 1 THEN {statement} ELSE {other} END IF;")
                }
                // Its effect depends on other rows.
                2 | 3 => {
                    let (table, condition) = (self.table(), self.condition(""));
                    let links: &[&str] =
                        if table == 0 { &["TRUE", "id <> p"] } else { &["id <> p", "id = q", "L = q"] };
                    let link = self.pick(links).replace('L', TABLES[table.max(1) - 1]);
                    let test = self.pick(&["x > 0", "x > 1", "x = 0", "x >= m"]);
                    writeln!(
                        text,
                        "    SELECT count(*) INTO x FROM {} WHERE {link} AND {condition};\n    IF {test} THEN {statement} END IF;",
                        TABLES[table]
                    )
                }
                4 => writeln!(text, "    FOR x IN 1..2 LOOP {statement} END LOOP;"),
                _ => writeln!(text, "    {statement}"),
            };
        }
        text.push_str("END $$;\n");
    }

    fn statement(&mut self) -> String {
        let table = self.table();
        let name = TABLES[table];
        match self.chance.below(8) {
            0 | 1 => self.insert(table),
            2 => format!("DELETE FROM {name} WHERE {};", self.target(table)),
            // Both halves of what belongs together.
            3 if table > 0 => {
                let (above, own) = (self.insert(table - 1), self.insert(table));
                format!("{above} {own}")
            }
            _ => {
                let mut sets = vec![self.set(table)];
                if self.chance.one_in(4) {
                    let more = self.set(table);
                    if more.split(' ').next() != sets[0].split(' ').next() {
                        sets.push(more);
                    }
                }
                format!("UPDATE {name} SET {} WHERE {};", sets.join(", "), self.target(table))
            }
        }
    }

    fn target(&mut self, table: usize) -> String {
        let parent = TABLES[table.max(1) - 1];
        match self.chance.below(10) {
            0..=4 => "id = p".to_owned(),
            5 => "id = q".to_owned(),
            6 if table > 0 => format!("{parent} = q"),
            7 => format!("id = p AND {}", self.condition("")),
            8 => "k = m".to_owned(),
            _ => "id = p".to_owned(),
        }
    }

    fn set(&mut self, table: usize) -> String {
        let parent = TABLES[table.max(1) - 1];
        let about: Vec<&str> =
            SETS.iter().copied().filter(|set| set.starts_with(&format!("{} ", self.focus.1))).collect();
        let set = if self.chance.one_in(2) { self.pick(&about) } else { self.pick(SETS) };
        match (set, table) {
            ("P = q", 0) => "k = q".to_owned(),
            ("P = q", _) => format!("{parent} = q"),
            (set, _) => set.to_owned(),
        }
    }

    fn insert(&mut self, table: usize) -> String {
        let name = TABLES[table];
        let values =
            self.pick(&["m, NULL, true, 0", "0, m, true, m", "m, NULL, false, m", "1, 1, (m = 1), 1"]);
        let mut columns = "k, f, up, n".to_owned();
        let mut row = values.to_owned();
        if table > 0 {
            let parent = self.pick(&["p", "p", "q"]);
            columns = format!("{}, {columns}", TABLES[table - 1]);
            row = format!("{parent}, {row}");
        }
        if table != 1 || !self.chance.one_in(4) {
            let id = if table == 0 { "p" } else { self.pick(&["q", "q", "p"]) };
            columns = format!("id, {columns}");
            row = format!("{id}, {row}");
        }
        let conflict = match self.chance.below(8) {
            0 => " ON CONFLICT (id) DO NOTHING",
            1 => " ON CONFLICT (id) DO UPDATE SET n = 1",
            _ => "",
        };
        format!("INSERT INTO {name} ({columns}) VALUES ({row}){conflict};")
    }
}
