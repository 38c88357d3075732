//! INSERT, UPDATE and DELETE. Rows of one statement have no order, so none may depend on it: many rows get no new keys, and a row meets one
//! row of another table at most.

use super::expressions::{Column, Generator, Scope};
use super::tables::{TABLES, Table, Ty};

/// A statement, and the table that it writes.
pub struct Write {
    pub sql: String,
    pub table: &'static str,
}

impl Generator<'_> {
    pub fn write(&mut self) -> Write {
        self.choices.begin();
        let writable: Vec<&'static Table> = TABLES.iter().filter(|table| table.is_writable).collect();
        let table = *self.choices.pick(&writable);
        let sql = match self.choices.below(8) {
            0..3 => self.update(table),
            // Others refer to items, so Weir removes none.
            3 | 4 if table.name != "item" || self.choices.once_in(20) => self.delete(table),
            5 => self.insert_query(table),
            _ => self.insert_rows(table),
        };
        self.choices.end();
        Write { sql, table: table.name }
    }

    fn returning(&mut self, columns: &[Column]) -> String {
        if self.choices.below(3) == 0 {
            return String::new();
        }
        if self.choices.once_in(3) {
            return " RETURNING *".to_owned();
        }
        let scope = Scope { columns, outer: &[], grouped: None };
        let many = 1 + self.choices.below(3);
        let items: Vec<String> = (0..many)
            .map(|_| {
                let ty = self.any_type();
                self.expression(ty, &scope, 2)
            })
            .collect();
        format!(" RETURNING {}", items.join(", "))
    }

    fn update(&mut self, table: &Table) -> String {
        let alias = self.name("t");
        let own = columns_of(table, &alias);
        let (from, join, columns) = self.other(table, &alias, &own);
        let word = if from.is_empty() { "" } else { " FROM " };
        let scope = Scope { columns: &columns, outer: &[], grouped: None };
        let mut targets: Vec<(&str, Ty)> = table.columns[table.key..].to_vec();
        let of_one = self.choices.once_in(4).then(|| self.one_row(table, &alias));
        if of_one.is_none() {
            targets.retain(|(name, _)| *name != "code");
        }
        // Parents may live on other shards.
        if !self.choices.once_in(8) {
            targets.retain(|(name, _)| *name != "item");
        }
        let many = 1 + self.choices.below(2);
        let mut sets: Vec<String> = Vec::new();
        for _ in 0..many {
            let (name, ty) = targets.remove(self.choices.below(targets.len()));
            let value =
                if self.choices.once_in(12) { "DEFAULT".to_owned() } else { self.expression(ty, &scope, 2) };
            sets.push(format!("{name} = {value}"));
        }
        let conditions: Vec<String> =
            [join, of_one, Some(self.condition(&scope, 2))].into_iter().flatten().collect();
        let returning = self.returning(&columns);
        format!(
            "UPDATE {} AS {alias} SET {}{word}{from} WHERE {}{returning}",
            table.name,
            sets.join(", "),
            conditions.join(" AND ")
        )
    }

    fn one_row(&mut self, table: &Table, alias: &str) -> String {
        let keys = table.columns[..table.key].iter();
        let all: Vec<String> =
            keys.map(|(name, ty)| format!("{alias}.{name} = {}", self.literal(*ty))).collect();
        all.join(" AND ")
    }

    /// Another table of which a row of this one meets one row at most: FROM, the condition, and all columns.
    fn other(&mut self, table: &Table, alias: &str, own: &[Column]) -> (String, Option<String>, Vec<Column>) {
        if !self.choices.once_in(4) {
            return (String::new(), None, own.to_vec());
        }
        let other = self.name("t");
        let (from, join, more) = match table.name {
            "item" if self.choices.once_in(2) => (
                format!("rate AS {other}"),
                format!("{other}.kind = {alias}.kind AND {other}.grade = 'a'"),
                columns_of(&TABLES[3], &other),
            ),
            "item" => (
                format!("(SELECT item, count(*), max(note) FROM part GROUP BY item) AS {other} (item, n, x)"),
                format!("{other}.item = {alias}.id"),
                [("item", Ty::Int), ("n", Ty::Big), ("x", Ty::Text)]
                    .map(|(name, ty)| Column::plain(format!("{other}.{name}"), ty))
                    .to_vec(),
            ),
            _ => (
                format!("item AS {other}"),
                format!("{other}.id = {alias}.item"),
                columns_of(&TABLES[0], &other),
            ),
        };
        (from, Some(join), [own, &more].concat())
    }

    fn delete(&mut self, table: &Table) -> String {
        let alias = self.name("t");
        let own = columns_of(table, &alias);
        let (using, join, columns) = self.other(table, &alias, &own);
        let word = if using.is_empty() { "" } else { " USING " };
        let scope = Scope { columns: &columns, outer: &[], grouped: None };
        let of_one = self.choices.once_in(4).then(|| self.one_row(table, &alias));
        let conditions: Vec<String> =
            [join, of_one, Some(self.condition(&scope, 2))].into_iter().flatten().collect();
        let returning = self.returning(&columns);
        format!(
            "DELETE FROM {} AS {alias}{word}{using} WHERE {}{returning}",
            table.name,
            conditions.join(" AND ")
        )
    }

    fn insert_rows(&mut self, table: &Table) -> String {
        let many = 1 + self.choices.below(3);
        let scope = Scope { columns: &[], outer: &[], grouped: None };
        let rows: Vec<String> = (0..many)
            .map(|row| {
                let values: Vec<String> = table
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(at, (name, ty))| self.new_value(at < table.key, name, *ty, row, &scope))
                    .collect();
                format!("({})", values.join(", "))
            })
            .collect();
        let conflict = self.on_conflict(table);
        let returning = self.returning(&columns_of(table, table.name));
        format!("INSERT INTO {} VALUES {}{conflict}{returning}", table.name, rows.join(", "))
    }

    /// A value of a new row. Keys are often there already.
    fn new_value(&mut self, is_key: bool, name: &str, ty: Ty, row: usize, scope: &Scope<'_>) -> String {
        if is_key {
            return (self.choices.below(30) * 3 + row).to_string();
        }
        match (name, self.choices.below(12)) {
            ("code", _) => (100 + row).to_string(),
            (_, 10) => "DEFAULT".to_owned(),
            (_, 11) => self.expression(ty, scope, 2),
            _ => self.literal(ty),
        }
    }

    fn on_conflict(&mut self, table: &Table) -> String {
        let key: Vec<&str> = table.columns[..table.key].iter().map(|(name, _)| *name).collect();
        let key = key.join(", ");
        match self.choices.below(4) {
            2 => format!(" ON CONFLICT ({key}) DO NOTHING"),
            3 => {
                let mut columns = columns_of(table, "excluded");
                columns.extend(columns_of(table, table.name));
                let targets: Vec<(&str, Ty)> =
                    table.columns[table.key..].iter().filter(|(name, _)| *name != "code").copied().collect();
                let (name, ty) = *self.choices.pick(&targets);
                let scope = Scope { columns: &columns, outer: &[], grouped: None };
                let value = self.expression(ty, &scope, 2);
                let filter = if self.choices.once_in(3) {
                    format!(" WHERE {}", self.condition(&scope, 1))
                } else {
                    String::new()
                };
                format!(" ON CONFLICT ({key}) DO UPDATE SET {name} = {value}{filter}")
            }
            _ => String::new(),
        }
    }

    /// From the rows of a table whose key gives the new one.
    fn insert_query(&mut self, table: &Table) -> String {
        let from = if table.name == "part" { &TABLES[1] } else { &TABLES[0] };
        let alias = self.name("t");
        let columns = columns_of(from, &alias);
        let scope = Scope { columns: &columns, outer: &[], grouped: None };
        let shift = self.choices.below(2) * 1000;
        let values: Vec<String> = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, ty))| match (at, *name) {
                (0, _) if table.name == "part" => format!("{alias}.item"),
                (0, _) => format!("{alias}.id + {shift}"),
                (1, _) if table.name == "part" => format!("{alias}.no + {shift}"),
                (_, "code") => "NULL".to_owned(),
                _ => self.expression(*ty, &scope, 1),
            })
            .collect();
        let filter = self.condition(&scope, 2);
        let conflict = self.on_conflict(table);
        let returning = self.returning(&columns_of(table, table.name));
        format!(
            "INSERT INTO {} SELECT {} FROM {} AS {alias} WHERE {filter}{conflict}{returning}",
            table.name,
            values.join(", "),
            from.name
        )
    }
}

fn columns_of(table: &Table, alias: &str) -> Vec<Column> {
    table.columns.iter().map(|(name, ty)| Column::plain(format!("{alias}.{name}"), *ty)).collect()
}
