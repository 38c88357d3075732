//! Objects of a database, besides rows, as the statements that recreate them.

use std::collections::{BTreeMap, BTreeSet};

use postgres::Transaction;
use weir_types::function::{double_quoted, quote_literal};

/// Statements by the order in which they can be loaded.
pub struct Objects {
    pub schemas: Vec<String>,
    pub types: Vec<String>,
    pub sequences: Vec<String>,
    pub tables: Vec<Table>,
    /// Which columns sequences belong to.
    pub owners: Vec<String>,
    /// Comments that Weir needs before the rows.
    pub early_comments: Vec<String>,
    pub indexes: Vec<String>,
    pub views: Vec<String>,
    pub routines: Vec<String>,
    pub comments: Vec<String>,
    /// Sequences as literals, and the next value of each.
    pub places: Vec<(String, i64)>,
    pub remarks: Vec<String>,
    /// Remarks on the positions of sequences.
    pub sequence_remarks: Vec<String>,
}

pub struct Table {
    oid: i64,
    /// As it is written.
    pub name: String,
    pub columns: Vec<Column>,
    pub constraints: Vec<Constraint>,
}

pub struct Column {
    pub name: String,
    /// Definition after the name.
    pub definition: String,
    /// Generated: it accepts no values.
    pub is_generated: bool,
}

pub struct Constraint {
    pub name: String,
    pub definition: String,
    /// The table that a foreign key refers to.
    pub parent: Option<i64>,
}

/// Name without quotes if it needs none: some functions of Weir accept no quoted names.
fn unquoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.\"".contains(c);
    if name.chars().all(is_plain) { name.replace('"', "") } else { name.to_owned() }
}

fn qualified(schema: &str, name: &str) -> String {
    match schema {
        "public" => double_quoted(name),
        schema => format!("{}.{}", double_quoted(schema), double_quoted(name)),
    }
}

const USERS: &str = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'";

impl Objects {
    /// All but what belongs to that schema.
    pub fn read(transaction: &mut Transaction<'_>, without: &str) -> Result<Objects, postgres::Error> {
        let users = format!("{USERS} AND n.nspname <> '{without}'");
        let mut reader = Reader {
            transaction,
            users,
            remarks: Vec::new(),
            sequence_remarks: Vec::new(),
            places: Vec::new(),
        };
        let schemas = reader.schemas()?;
        let types = [reader.enums()?, reader.domains()?].concat();
        let (tables, used) = reader.tables()?;
        let (sequences, owners) = reader.sequences(&used)?;
        let indexes = reader.indexes()?;
        let views = reader.views()?;
        let routines = reader.routines()?;
        let (early_comments, comments) = reader.comments()?;
        let Reader { remarks, sequence_remarks, places, .. } = reader;
        Ok(Objects {
            schemas,
            types,
            sequences,
            tables,
            owners,
            early_comments,
            indexes,
            views,
            routines,
            comments,
            places,
            remarks,
            sequence_remarks,
        })
    }

    /// A table after those that it refers to, as far as that can be.
    pub fn tables_in_order(&self) -> Vec<&Table> {
        let mut placed: BTreeSet<i64> = BTreeSet::new();
        let mut order: Vec<&Table> = Vec::new();
        let mut left: Vec<&Table> = self.tables.iter().collect();
        while !left.is_empty() {
            let waits = |table: &&Table| {
                let mut parents = table.constraints.iter().filter_map(|one| one.parent);
                parents.any(|parent| parent != table.oid && !placed.contains(&parent))
            };
            // Breaks a cycle at the first table.
            let next = left.iter().position(|table| !waits(table)).unwrap_or(0);
            let table = left.remove(next);
            placed.insert(table.oid);
            order.push(table);
        }
        order
    }

    /// Foreign keys that can be created before the rows, which come in that order; or the others.
    pub fn foreign_keys(&self, are_early: bool) -> Vec<(&Table, &Constraint)> {
        let mut placed: BTreeSet<i64> = BTreeSet::new();
        let mut keys = Vec::new();
        for table in self.tables_in_order() {
            for constraint in &table.constraints {
                if constraint.parent.is_some_and(|parent| placed.contains(&parent) == are_early) {
                    keys.push((table, constraint));
                }
            }
            placed.insert(table.oid);
        }
        keys
    }
}

/// Columns of `pg_sequence s` that `Sequence::of` reads.
const SEQUENCE: &str = "s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle";

#[derive(Clone, Copy)]
struct Sequence {
    start: i64,
    increment: i64,
    least: i64,
    most: i64,
    cycles: bool,
}

impl Sequence {
    fn of(row: &postgres::Row) -> Sequence {
        let [start, increment, least, most] = [0, 1, 2, 3].map(|at| row.get(at));
        Sequence { start, increment, least, most, cycles: row.get(4) }
    }

    fn options(self) -> String {
        let Sequence { start, increment, least, most, cycles } = self;
        let cycle = if cycles { " CYCLE" } else { "" };
        format!("START WITH {start} INCREMENT BY {increment} MINVALUE {least} MAXVALUE {most}{cycle}")
    }
}

/// By sequence: the columns that take their numbers from it.
type Used = BTreeMap<String, Vec<(String, String)>>;

struct Reader<'r, 't> {
    transaction: &'r mut Transaction<'t>,
    /// Which schemas, of which `n` is one.
    users: String,
    remarks: Vec<String>,
    sequence_remarks: Vec<String>,
    places: Vec<(String, i64)>,
}

impl Reader<'_, '_> {
    fn rows(&mut self, query: &str) -> Result<Vec<postgres::Row>, postgres::Error> {
        let query = query.replace("{users}", &self.users);
        self.transaction.query(&query, &[])
    }

    fn schemas(&mut self) -> Result<Vec<String>, postgres::Error> {
        let query =
            "SELECT n.nspname::text FROM pg_namespace n WHERE {users} AND n.nspname <> 'public' ORDER BY 1";
        let rows = self.rows(query)?;
        Ok(rows.iter().map(|row| format!("CREATE SCHEMA {}", double_quoted(row.get(0)))).collect())
    }

    fn enums(&mut self) -> Result<Vec<String>, postgres::Error> {
        let rows = self.rows(
            "SELECT n.nspname::text, t.typname::text, e.enumlabel::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
             JOIN pg_enum e ON e.enumtypid = t.oid WHERE {users} ORDER BY 1, 2, e.enumsortorder",
        )?;
        let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in &rows {
            labels.entry(qualified(row.get(0), row.get(1))).or_default().push(quote_literal(row.get(2)));
        }
        Ok(labels
            .into_iter()
            .map(|(name, labels)| format!("CREATE TYPE {name} AS ENUM ({})", labels.join(", ")))
            .collect())
    }

    fn domains(&mut self) -> Result<Vec<String>, postgres::Error> {
        let checks = self.rows(
            "SELECT k.contypid::bigint, k.conname::text, pg_get_constraintdef(k.oid) FROM pg_constraint k
             WHERE k.contypid <> 0 ORDER BY 2",
        )?;
        let rows = self.rows(
            "SELECT n.nspname::text, t.typname::text, format_type(t.typbasetype, t.typtypmod), t.typdefault, t.typnotnull, t.oid::bigint
             FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE {users} AND t.typtype = 'd' ORDER BY 1, 2",
        )?;
        let text = |row: &postgres::Row| {
            let base: String = row.get(2);
            let mut text = format!("CREATE DOMAIN {} AS {base}", qualified(row.get(0), row.get(1)));
            if let Some(default) = row.get::<_, Option<String>>(3) {
                text.push_str(&format!(" DEFAULT {default}"));
            }
            if row.get(4) {
                text.push_str(" NOT NULL");
            }
            let oid: i64 = row.get(5);
            for check in checks.iter().filter(|check| check.get::<_, i64>(0) == oid) {
                text.push_str(&format!(
                    " CONSTRAINT {} {}",
                    double_quoted(check.get(1)),
                    check.get::<_, String>(2)
                ));
            }
            text
        };
        // A domain after the one that it is over.
        let mut left: Vec<&postgres::Row> = rows.iter().collect();
        let mut domains = Vec::new();
        while !left.is_empty() {
            let is_over = |row: &&postgres::Row, other: &&postgres::Row| {
                row.get::<_, String>(2) == unquoted(&qualified(other.get(0), other.get(1)))
            };
            let first = left.iter().position(|row| !left.iter().any(|other| is_over(row, other)));
            domains.push(text(left.remove(first.unwrap_or(0))));
        }
        Ok(domains)
    }

    fn tables(&mut self) -> Result<(Vec<Table>, Used), postgres::Error> {
        let rows = self.rows(
            "SELECT c.oid::bigint, n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE {users} AND c.relkind = 'r' ORDER BY 2, 3",
        )?;
        let (mut tables, mut used) = (Vec::new(), Used::new());
        for row in &rows {
            let (oid, name) = (row.get(0), qualified(row.get(1), row.get(2)));
            let columns = self.columns(oid, &name, &mut used)?;
            let constraints = self.constraints(oid)?;
            tables.push(Table { oid, name, columns, constraints });
        }
        Ok((tables, used))
    }

    fn columns(&mut self, table: i64, name: &str, used: &mut Used) -> Result<Vec<Column>, postgres::Error> {
        let rows = self.rows(&format!(
            "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
                    a.attidentity::text, a.attgenerated::text, a.attnum::smallint
             FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        ))?;
        let mut columns = Vec::new();
        for row in &rows {
            let (column, mut definition): (String, String) = (row.get(0), row.get(1));
            let (default, identity): (Option<String>, String) = (row.get(3), row.get(4));
            let is_generated = row.get::<_, &str>(5) == "s";
            match (identity.as_str(), default) {
                ("a" | "d", _) => {
                    let how = if identity == "a" { "ALWAYS" } else { "BY DEFAULT" };
                    let of: i16 = row.get(6);
                    let sequence = self.sequence_of_column(table, of)?;
                    let (start, increment) =
                        sequence.as_ref().map_or((1, 1), |one| (one.start, one.increment));
                    let next = self.next_of(&[(name.to_owned(), column.clone())], start, increment)?;
                    let options = sequence.map(|one| format!(" ({})", one.options())).unwrap_or_default();
                    definition.push_str(&format!(" GENERATED {how} AS IDENTITY{options}"));
                    if next != start {
                        let of = format!(
                            "pg_get_serial_sequence({}, {})",
                            quote_literal(&unquoted(name)),
                            quote_literal(&column)
                        );
                        self.places.push((of, next));
                    }
                }
                (_, Some(expression)) if is_generated => {
                    definition.push_str(&format!(" GENERATED ALWAYS AS ({expression}) STORED"));
                }
                (_, Some(expression)) => {
                    if let Some(sequence) = sequence_of(&expression) {
                        used.entry(sequence).or_default().push((name.to_owned(), column.clone()));
                    }
                    definition.push_str(&format!(" DEFAULT {expression}"));
                }
                (_, None) => {}
            }
            if row.get(2) {
                definition.push_str(" NOT NULL");
            }
            columns.push(Column { name: column, definition, is_generated });
        }
        Ok(columns)
    }

    /// The sequence of an identity column.
    fn sequence_of_column(&mut self, table: i64, column: i16) -> Result<Option<Sequence>, postgres::Error> {
        let rows = self.rows(&format!(
            "SELECT {SEQUENCE} FROM pg_sequence s JOIN pg_depend d ON d.objid = s.seqrelid
             WHERE d.refobjid = {table} AND d.refobjsubid = {column} AND d.deptype = 'i'"
        ))?;
        Ok(rows.first().map(Sequence::of))
    }

    fn constraints(&mut self, table: i64) -> Result<Vec<Constraint>, postgres::Error> {
        let rows = self.rows(&format!(
            "SELECT k.conname::text, pg_get_constraintdef(k.oid), k.contype::text, k.confrelid::bigint FROM pg_constraint k
             WHERE k.conrelid = {table} AND k.contype IN ('p', 'u', 'c', 'x', 'f') ORDER BY k.contype <> 'p', k.contype, 1"
        ))?;
        let one = |row: &postgres::Row| Constraint {
            name: row.get(0),
            definition: row.get(1),
            parent: (row.get::<_, &str>(2) == "f").then(|| row.get(3)),
        };
        Ok(rows.iter().map(one).collect())
    }

    /// The number that follows on all that these columns have.
    fn next_of(
        &mut self,
        columns: &[(String, String)],
        start: i64,
        increment: i64,
    ) -> Result<i64, postgres::Error> {
        let furthest = if increment > 0 { "max" } else { "min" };
        let mut next = start;
        for (table, column) in columns {
            let query = format!("SELECT {furthest}({})::bigint FROM {table}", double_quoted(column));
            let last: Option<i64> = self.transaction.query_one(&query, &[])?.get(0);
            if let Some(last) = last {
                let after = last.saturating_add(increment);
                next = if increment > 0 { next.max(after) } else { next.min(after) };
            }
        }
        Ok(next)
    }

    /// Sequences that are not owned by identity columns, whose positions are set with their columns; and the columns that own them.
    fn sequences(&mut self, used: &Used) -> Result<(Vec<String>, Vec<String>), postgres::Error> {
        let rows = self.rows(
            &format!("SELECT {SEQUENCE}, n.nspname::text, c.relname::text, format_type(s.seqtypid, NULL)
             FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE {{users}} AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i' AND d.refobjsubid > 0)
             ORDER BY 6, 7"),
        )?;
        let (mut sequences, mut owners) = (Vec::new(), Vec::new());
        for row in &rows {
            let name = qualified(row.get(5), row.get(6));
            let (ty, sequence): (String, Sequence) = (row.get(7), Sequence::of(row));
            let Sequence { start, increment, least, most, .. } = sequence;
            let columns = used.get(&name);
            if columns.is_none() {
                self.sequence_remarks.push(format!(
                    "no column takes its numbers from sequence {name}: it will begin at {start} again"
                ));
            }
            let next = self.next_of(columns.map_or(&[], Vec::as_slice), start, increment)?.clamp(least, most);
            if next != start {
                self.places.push((quote_literal(&name), next));
            }
            sequences.push(format!("CREATE SEQUENCE {name} AS {ty} {}", sequence.options()));
            // PostgreSQL has a sequence in the schema of its table.
            let schema = name.strip_suffix(&double_quoted(row.get(6))).unwrap_or_default();
            let is_beside = |table: &str| match schema {
                "" => !table.contains("\".\""),
                schema => table.starts_with(schema),
            };
            if let Some([(table, column)]) = columns.map(Vec::as_slice)
                && is_beside(table)
            {
                owners.push(format!("ALTER SEQUENCE {name} OWNED BY {table}.{}", double_quoted(column)));
            }
        }
        Ok((sequences, owners))
    }

    fn indexes(&mut self) -> Result<Vec<String>, postgres::Error> {
        let rows = self.rows(
            "SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
             JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE {users} AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
             ORDER BY 1",
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// A view after those that it names.
    fn views(&mut self) -> Result<Vec<String>, postgres::Error> {
        let rows = self.rows(
            "SELECT n.nspname::text, c.relname::text, pg_get_viewdef(c.oid), c.relkind::text,
                    array_to_string(ARRAY(SELECT quote_ident(a.attname) FROM pg_attribute a
                                          WHERE a.attrelid = c.oid AND a.attnum > 0 ORDER BY a.attnum), ', ') FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {users} AND c.relkind IN ('v', 'm') ORDER BY 1, 2",
        )?;
        let mut left: Vec<(String, String, String)> = Vec::new();
        for row in &rows {
            let (name, text): (String, String) = (row.get(1), row.get(2));
            let kind = if row.get::<_, &str>(3) == "m" { "MATERIALIZED VIEW" } else { "VIEW" };
            let text = text.trim().trim_end_matches(';').to_owned();
            let (own, columns): (String, String) = (qualified(row.get(0), &name), row.get(4));
            let statement = format!("CREATE {kind} {own} ({columns}) AS {text}");
            left.push((name, text, statement));
        }
        let mut views = Vec::new();
        while !left.is_empty() {
            let waits = |at: usize| {
                let others = left.iter().enumerate().filter(|(other, _)| *other != at);
                others.into_iter().any(|(_, (name, ..))| left[at].1.contains(name.as_str()))
            };
            let next = (0..left.len()).find(|at| !waits(*at)).unwrap_or(0);
            views.push(left.remove(next).2);
        }
        Ok(views)
    }

    /// Weir keeps them as they were written.
    fn routines(&mut self) -> Result<Vec<String>, postgres::Error> {
        let rows = self.rows(
            "SELECT coalesce(pg_get_functiondef(p.oid), p.prosrc) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE {users} AND p.prokind IN ('f', 'p') ORDER BY p.prokind, 1",
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Comments about placement, which come before the rows; and all others, with the assertions, after them.
    fn comments(&mut self) -> Result<(Vec<String>, Vec<String>), postgres::Error> {
        let rows = self.rows(
            "SELECT n.nspname::text, c.relname::text, c.relkind::text, a.attname::text, d.description FROM pg_description d
             JOIN pg_class c ON c.oid = d.objoid JOIN pg_namespace n ON n.oid = c.relnamespace
             LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
             WHERE {users} ORDER BY 1, 2, d.objsubid",
        )?;
        let (mut of_tables, mut others) = (BTreeMap::new(), Vec::new());
        for row in &rows {
            let (name, text): (String, String) = (qualified(row.get(0), row.get(1)), row.get(4));
            let what = match (row.get::<_, Option<&str>>(3), row.get::<_, &str>(2)) {
                (Some(column), _) => format!("COLUMN {name}.{}", double_quoted(column)),
                (None, "v") => format!("VIEW {name}"),
                (None, "m") => format!("MATERIALIZED VIEW {name}"),
                (None, "S") => format!("SEQUENCE {name}"),
                (None, "i") => format!("INDEX {name}"),
                (None, _) => {
                    of_tables.insert(name, text);
                    continue;
                }
            };
            others.push(format!("COMMENT ON {what} IS {}", quote_literal(&text)));
        }
        let places = of_tables.iter().filter_map(|(name, text)| Some((name, placement(text)?)));
        let on_table =
            |name: &String, text: &str| format!("COMMENT ON TABLE {name} IS {}", quote_literal(text));
        let early = places.map(|(name, text)| on_table(name, &text)).collect();
        self.say_assertions(&mut of_tables)?;
        let all = of_tables.iter().filter(|(_, text)| placement(text).as_ref() != Some(text));
        Ok((early, all.map(|(name, text)| on_table(name, text)).chain(others).collect()))
    }

    /// Assertions are said in comments, which PostgreSQL carries along: each of CREATE ASSERTION in that of a table without another.
    fn say_assertions(&mut self, comments: &mut BTreeMap<String, String>) -> Result<(), postgres::Error> {
        let assertions = self.rows(
            "SELECT k.conname::text, pg_get_constraintdef(k.oid) FROM pg_constraint k
             WHERE k.contype = 'a' AND k.conrelid = 0 ORDER BY 1",
        )?;
        let tables = self.rows(
            "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE {users} AND c.relkind = 'r' ORDER BY 1, 2",
        )?;
        for assertion in &assertions {
            let (name, check): (String, String) = (assertion.get(0), assertion.get(1));
            let is_free = |table: &&postgres::Row| {
                comments.get(&qualified(table.get(0), table.get(1))).is_none_or(|text| is_directive(text))
            };
            // One that it speaks of, if there is one.
            let free = || tables.iter().filter(is_free);
            let mentioned = |table: &&postgres::Row| check.contains(table.get::<_, &str>(1));
            let Some(table) = free().find(mentioned).or_else(|| free().next()) else {
                self.remarks.push(format!(
                    "assertion {name} is not dumped: every table has a comment, and it would stand in one of them"
                ));
                continue;
            };
            let said = format!("assert {} {check}", double_quoted(&name));
            let text = comments.entry(qualified(table.get(0), table.get(1)));
            text.and_modify(|text| text.push_str(&format!("; {said}"))).or_insert(format!("weir: {said}"));
        }
        Ok(())
    }
}

fn is_directive(comment: &str) -> bool {
    comment.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("weir:"))
}

/// Placement directive in a comment: it comes first in dumps of Weir, and alone in others.
fn placement(comment: &str) -> Option<String> {
    let says = comment.trim_start().get(5..).filter(|_| is_directive(comment))?;
    let parts = says.split(';').map(str::trim);
    let is_placement = |part: &&str| {
        let part = part.to_ascii_lowercase();
        part == "replicated" || part.starts_with("partition by")
    };
    let first: Vec<&str> = parts.take_while(is_placement).collect();
    match first.is_empty() {
        true => None,
        false if first.join("; ") == says.trim() => Some(comment.to_owned()),
        false => Some(format!("weir: {}", first.join("; "))),
    }
}

/// The sequence of a default `nextval('name'::regclass)`.
fn sequence_of(expression: &str) -> Option<String> {
    let rest = expression.strip_prefix("nextval('")?;
    let name = rest.split_once('\'')?.0;
    let parts: Vec<String> = name.split('.').map(|part| part.trim_matches('"').to_owned()).collect();
    match &parts[..] {
        [name] => Some(double_quoted(name)),
        [schema, name] => Some(qualified(schema, name)),
        _ => None,
    }
}
