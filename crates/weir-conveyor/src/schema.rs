//! The protocol's own schema in each PostgreSQL database, and the SQL of its steps ([`crate::plan`]).
//!
//! Nothing of the application's schema changes beyond triggers on the tables that global operations write. A session that executes a global
//! operation sets `weir_conveyor.visit`; the triggers capture nothing where it is not set. Values travel as their text, as in logical
//! replication, under settings that the functions fix.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::epochs::VisitNumber;

/// Tables of the protocol. `IF NOT EXISTS`: each start of an agent runs it.
pub const INSTALL: &str = "\
CREATE SCHEMA IF NOT EXISTS weir_conveyor;
CREATE TABLE IF NOT EXISTS weir_conveyor.epoch (
    is_row boolean PRIMARY KEY DEFAULT true CHECK (is_row),
    epoch bigint NOT NULL,
    closed bigint NOT NULL,
    closed_in bigint NOT NULL);
CREATE TABLE IF NOT EXISTS weir_conveyor.position (
    is_row boolean PRIMARY KEY DEFAULT true CHECK (is_row),
    applied bigint NOT NULL);
CREATE TABLE IF NOT EXISTS weir_conveyor.agent (
    is_row boolean PRIMARY KEY DEFAULT true CHECK (is_row),
    start bigint NOT NULL);
CREATE TABLE IF NOT EXISTS weir_conveyor.outbox (
    number bigint GENERATED ALWAYS AS IDENTITY,
    visit bigint NOT NULL,
    txn xid8 NOT NULL DEFAULT pg_current_xact_id(),
    relation text NOT NULL,
    change \"char\" NOT NULL,
    key text[] NOT NULL,
    columns text[] NOT NULL,
    \"values\" text[] NOT NULL,
    PRIMARY KEY (visit, number));
CREATE TABLE IF NOT EXISTS weir_conveyor.map (
    is_row boolean PRIMARY KEY DEFAULT true CHECK (is_row),
    version bigint NOT NULL,
    owners smallint[] NOT NULL,
    absent smallint[] NOT NULL,
    joining smallint[] NOT NULL);
INSERT INTO weir_conveyor.map (version, owners, absent, joining) VALUES (0, '{}', '{}', '{}') ON CONFLICT DO NOTHING;
INSERT INTO weir_conveyor.epoch (epoch, closed, closed_in) VALUES (0, 0, 0) ON CONFLICT DO NOTHING;
INSERT INTO weir_conveyor.position (applied) VALUES (0) ON CONFLICT DO NOTHING;
INSERT INTO weir_conveyor.agent (start) VALUES (0) ON CONFLICT DO NOTHING;
CREATE OR REPLACE FUNCTION weir_conveyor.wrong_map(bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the map of slots is that of version %', $1 USING ERRCODE = 'WC002';
END $$;
CREATE OR REPLACE FUNCTION weir_conveyor.close(bigint, bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE weir_conveyor.epoch SET closed = $2, closed_in = $1 WHERE epoch = $1 AND closed < $2;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'visit % is closed, or epoch % has passed', $2, $1 USING ERRCODE = 'WC003';
    END IF;
END $$;
CREATE OR REPLACE FUNCTION weir_conveyor.move_position(bigint, bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE weir_conveyor.position SET applied = $2 WHERE applied = $1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the position is not %', $1 USING ERRCODE = 'WC003';
    END IF;
END $$;
CREATE OR REPLACE FUNCTION weir_conveyor.enter(bigint, bigint, bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    visit text;
BEGIN
    PERFORM FROM weir_conveyor.epoch WHERE epoch = $1 AND closed < $2 FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'visit % of epoch % is closed', $2, $1 USING ERRCODE = 'WC001';
    END IF;
    PERFORM weir_conveyor.wrong_map(version) FROM weir_conveyor.map WHERE version <> $3 FOR SHARE;
    visit := set_config('weir_conveyor.visit', $2::text, true);
END $$;
CREATE OR REPLACE FUNCTION weir_conveyor.slot_of(bigint) RETURNS smallint LANGUAGE sql IMMUTABLE AS
    'SELECT coalesce(($1 % 240 + 240) % 240, 0)::smallint';
CREATE OR REPLACE FUNCTION weir_conveyor.slot_of(text) RETURNS smallint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bytes bytea := convert_to($1, getdatabaseencoding());
    high bigint := x'cbf29ce4'::bigint;
    low bigint := x'84222325'::bigint;
    product bigint;
BEGIN
    IF $1 IS NULL THEN RETURN 0; END IF;
    FOR place IN 0 .. length(bytes) - 1 LOOP
        low := low # get_byte(bytes, place);
        product := low * 435;
        high := (high * 435 + (product >> 32) + (low << 8)) & 4294967295;
        low := product & 4294967295;
    END LOOP;
    RETURN (high % 240 * 16 + low % 240) % 240;
END $$;
";

/// Fails with [`WRONG_MAP`] if the map of slots is another one. Else it locks no row, but the table in ROW SHARE mode, for which [`LOCK_MAP`] waits. $1:
/// the version, as a bigint.
pub const CHECK_MAP: &str =
    "SELECT weir_conveyor.wrong_map(version) FROM weir_conveyor.map WHERE version <> $1 FOR SHARE";

/// SQLSTATE of [`CHECK_MAP`] and [`ENTER`]. Whatever comes behind it in the transaction does nothing.
pub const WRONG_MAP: &str = "WC002";

/// `version`, `owners`, `absent`, `joining`. Before the first change, nothing but the version may be there.
pub const READ_MAP: &str = "SELECT version, owners, absent, joining FROM weir_conveyor.map";

/// Waits for all operations that are under way, and lets none begin until the transaction ends: each checks the map first. It comes before the
/// snapshot, so that nothing changes behind it that the transaction reads.
///
/// EXCLUSIVE is the strongest mode that gives the transaction no number. PostgreSQL does not see the conflicts of a SERIALIZABLE transaction that
/// has its number before its snapshot (docs/internals/conveyor.md, "Moving slots"), and an operation that has waited here with an older snapshot would
/// commit beside the move.
pub const LOCK_MAP: &str = "SET LOCAL lock_timeout = '2s'; LOCK TABLE weir_conveyor.map IN EXCLUSIVE MODE";

/// The name in the outbox of the table with the map.
pub const MAP: &str = "weir_conveyor.map";

/// Locks the epoch row, fails with [`WRONG_MAP`] if the map of slots is another one, and says in which visit the session executes an operation. $1 to
/// $3: epoch, visit and the version of the map, as bigints; without a version nothing is checked.
pub const ENTER: &str = "SELECT weir_conveyor.enter($1, $2, $3)";

/// SQLSTATE of [`ENTER`] if there is no license. Whatever comes behind it in the transaction does nothing, its COMMIT too.
pub const NOT_LICENSED: &str = "WC001";

/// The next start of the agent: no other start has it.
pub const NEXT_START: &str = "UPDATE weir_conveyor.agent SET start = start + 1 RETURNING start";

/// `epoch`, `closed`, `closed_in`, `applied`, the version of the map, `absent`. Each table is read by itself: of a table that was never analyzed
/// PostgreSQL expects many rows, and of a product of three so many that it compiles the statement, for 50 ms and more.
pub const READ_STATE: &str = "\
SELECT epoch, closed, closed_in, (SELECT applied FROM weir_conveyor.position), (SELECT version FROM weir_conveyor.map),
    (SELECT absent FROM weir_conveyor.map)
FROM weir_conveyor.epoch";

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// As `format_type` prints it.
    pub type_name: String,
    /// GENERATED ALWAYS AS (…) STORED: it follows from other columns, and is not written.
    pub is_generated: bool,
    /// GENERATED ALWAYS AS IDENTITY.
    pub is_identity: bool,
}

impl Column {
    /// Its values route as numbers.
    pub fn is_integer(&self) -> bool {
        matches!(self.type_name.as_str(), "smallint" | "integer" | "bigint")
    }

    /// The type without its modifiers, and without a time zone.
    fn base_type(&self) -> &str {
        let base = self.type_name.split_once('(').map_or(self.type_name.as_str(), |(base, _)| base);
        base.split_once(" with").map_or(base, |(base, _)| base)
    }

    /// The settings that decide how its values are printed, as SET clauses of a function.
    fn printed_by(&self) -> &'static [&'static str] {
        match self.base_type() {
            "smallint" | "integer" | "bigint" | "numeric" | "boolean" | "text" | "character varying"
            | "character" | "uuid" | "json" | "jsonb" => &[],
            "date" | "timestamp" => &PRINTED_BY[..1],
            "interval" => &PRINTED_BY[1..2],
            "real" | "double precision" => &PRINTED_BY[2..3],
            "bytea" => &PRINTED_BY[3..],
            _ => &PRINTED_BY,
        }
    }

    /// Whether a change of it is seen. Values of most types may be equal and have other texts, as 1.0 and 1.00 have; texts may be equal by their
    /// collation.
    fn is_changed(&self) -> String {
        let [new, old] = ["NEW", "OLD"].map(|row| format!("{row}.{}", quoted(&self.name)));
        match self.base_type() {
            "smallint"
            | "integer"
            | "bigint"
            | "boolean"
            | "uuid"
            | "date"
            | "timestamp"
            | "timestamp with time zone"
            | "timestamp without time zone" => {
                format!("{new} IS DISTINCT FROM {old}")
            }
            _ => format!("{new}::text COLLATE \"C\" IS DISTINCT FROM {old}::text"),
        }
    }
}

/// Settings by which values have the same text at every server, as SET clauses of a function: of dates, intervals, floats and bytea.
const PRINTED_BY: [&str; 4] = [
    "SET datestyle = 'ISO'",
    "SET intervalstyle = 'postgres'",
    "SET extra_float_digits = 3",
    "SET bytea_output = 'hex'",
];

/// How values are printed in the outbox, in a transaction that writes rows of tables into it.
pub fn print_settings() -> String {
    PRINTED_BY.map(|clause| clause.replacen("SET", "SET LOCAL", 1)).join("; ")
}

/// A row of the outbox of a visit that no table has: $1 to $5 are relation, change, and the texts of the arrays of key, columns and values.
pub fn send_row(visit: VisitNumber) -> String {
    format!(
        "INSERT INTO weir_conveyor.outbox (visit, relation, change, key, columns, \"values\") \
         SELECT {visit}, $1, $2::text::\"char\", $3::text::text[], $4::text::text[], $5::text::text[]"
    )
}

/// Takes a map, unless the one that is there is newer. $1 to $4: its columns, as text.
pub const SET_MAP: &str = "\
UPDATE weir_conveyor.map SET version = $1::text::bigint, owners = $2::text::smallint[], absent = $3::text::smallint[],
    joining = $4::text::smallint[] WHERE version <= $1::text::bigint";

/// A table that global operations write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    /// Columns of the primary key, in its order. Not empty: a row without a key cannot be found elsewhere.
    pub key: Vec<usize>,
}

/// How a row was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowChange {
    Insert,
    Update,
    Delete,
    /// The map of slots is that one now: its columns are those of [`READ_MAP`].
    Map,
    /// The sequence has given no id above the only value: no server gives one up to it from here on, and none of a slot that is not its own.
    Sequence,
    /// Rows of the table go to the server that is the only value. The key has the slots whose rows it has so far: they are deleted. Without slots,
    /// its rows stay.
    Clear,
    /// A row for the server of the `Clear` before.
    Take,
    /// The same, if that server has no row with its key.
    Keep,
}

impl RowChange {
    /// The letter in the outbox.
    pub fn letter(self) -> char {
        match self {
            RowChange::Insert => 'I',
            RowChange::Update => 'U',
            RowChange::Delete => 'D',
            RowChange::Map => 'M',
            RowChange::Sequence => 'S',
            RowChange::Clear => 'C',
            RowChange::Take => 'T',
            RowChange::Keep => 'K',
        }
    }

    pub fn of_letter(letter: char) -> Option<RowChange> {
        use RowChange::{Clear, Delete, Insert, Keep, Map, Sequence, Take, Update};
        [Insert, Update, Delete, Map, Sequence, Clear, Take, Keep]
            .into_iter()
            .find(|change| change.letter() == letter)
    }
}

/// A row of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxRow {
    pub change: RowChange,
    /// Values of the primary key before the change; after it, for an insert.
    pub key: Vec<Option<String>>,
    /// Columns that have changed, or all of an insert, and their values after the change.
    pub columns: Vec<String>,
    pub values: Vec<Option<String>>,
}

/// A statement with its parameters, all of type text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sql {
    pub text: String,
    pub parameters: Vec<Option<String>>,
}

/// Raises the epoch. $1: the epoch.
pub const ADOPT: &str = "UPDATE weir_conveyor.epoch SET epoch = $1 WHERE epoch < $1";

/// Closes a visit, or fails with [`UNCHANGED`] if there is no license. $1 and $2: epoch and visit, as bigints.
pub const CLOSE: &str = "SELECT weir_conveyor.close($1, $2)";

/// SQLSTATE of [`CLOSE`] and [`MOVE_POSITION`]: the database is in another state, and stays as it is.
pub const UNCHANGED: &str = "WC003";

/// Ends the licenses of earlier epochs, and of visits up to one. $1 and $2: epoch and visit.
pub const FENCE: &str = "\
UPDATE weir_conveyor.epoch SET epoch = $1, closed = greatest(closed, $2),
    closed_in = CASE WHEN closed < $2 THEN $1 ELSE closed_in END
WHERE epoch < $1 OR epoch = $1 AND closed < $2";

/// Moves the position, or fails with [`UNCHANGED`] if it is another one. $1 and $2: the position before and after, as bigints.
pub const MOVE_POSITION: &str = "SELECT weir_conveyor.move_position($1, $2)";

/// State updates of a visit, in the order of their numbers. $1: the visit.
pub const READ_OUTBOX: &str = "\
SELECT txn::text, relation, change, key, columns, \"values\" FROM weir_conveyor.outbox WHERE visit = $1 ORDER BY number";

/// $1: the last visit whose rows are deleted.
pub const DELETE_OUTBOX: &str = "DELETE FROM weir_conveyor.outbox WHERE visit <= $1";

/// Settings of a session that applies visits: neither the application's triggers fire, nor foreign keys, nor ours. They are the session's and not
/// the transaction's, since PostgreSQL forgets the plans of all prepared statements whenever they change.
pub const APPLY_SETTINGS: &str = "SET session_replication_role = replica";

/// Settings of a session that runs operations.
pub const RUN_SETTINGS: &str = "SET session_replication_role = DEFAULT";

/// Tables with a primary key that are the application's: schema, name, columns of the key in its order.
pub const READ_TABLES: &str = "\
SELECT n.nspname::text, c.relname::text, array(
    SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum ORDER BY k.place)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'weir_conveyor') AND c.relpersistence = 'p'
ORDER BY 1, 2";

/// The columns of a table, in order: name, type, whether it is generated from others, whether it is GENERATED ALWAYS AS IDENTITY. $1 and $2: schema and name.
pub const READ_COLUMNS: &str = "\
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attgenerated <> '', a.attidentity = 'a'
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

impl Table {
    /// The name as it stands in a statement, and in the outbox.
    pub fn relation(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    fn function(&self) -> String {
        format!("weir_conveyor.{}", quoted(&format!("capture {}.{}", self.schema, self.name)))
    }

    fn written(&self) -> impl Iterator<Item = &Column> + Clone {
        self.columns.iter().filter(|column| !column.is_generated)
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.written().find(|column| column.name == name)
    }

    /// The function and the triggers that capture what global operations change.
    pub fn capture(&self) -> String {
        let (relation, function) = (self.relation(), self.function());
        let key = |row: &str| {
            let values = self.key.iter().map(|index| text_of(row, &self.columns[*index].name));
            format!("ARRAY[{}]", values.collect::<Vec<_>>().join(", "))
        };
        let mut compared = String::new();
        for column in self.written() {
            let (new, is_changed) = (text_of("NEW", &column.name), column.is_changed());
            let name = literal(&column.name);
            // The other servers could not set it.
            let noted = match column.is_identity {
                true => format!(
                    "RAISE feature_not_supported USING MESSAGE = 'a global operation cannot set ' || {name} || \
                     ', which is GENERATED ALWAYS AS IDENTITY', HINT = 'Leave the column as it is, or make it \
                     GENERATED BY DEFAULT.';"
                ),
                false => format!("names := names || {name}::text; texts := texts || {new};"),
            };
            let _ = write!(compared, "      IF {is_changed} THEN\n        {noted}\n      END IF;\n");
        }
        let names: Vec<_> = self.written().map(|column| literal(&column.name)).collect();
        let texts: Vec<_> = self.written().map(|column| text_of("NEW", &column.name)).collect();
        let (names, texts) = (names.join(", "), texts.join(", "));
        let (new_key, old_key, relation_text) = (key("NEW"), key("OLD"), literal(&relation));
        // Each clause costs each row its time.
        let settings: BTreeSet<_> = self.written().flat_map(Column::printed_by).copied().collect();
        let settings = settings.into_iter().collect::<Vec<_>>().join(" ");
        let is_global = "current_setting('weir_conveyor.visit', true) <> ''";
        format!(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n\
             SET search_path = pg_catalog, pg_temp {settings} AS $capture$\n\
             DECLARE\n  names text[] := '{{}}';\n  texts text[] := '{{}}';\n  key text[];\nBEGIN\n\
             \x20 IF TG_OP = 'DELETE' THEN\n    key := {old_key};\n\
             \x20 ELSIF TG_OP = 'INSERT' THEN\n    key := {new_key};\n    names := ARRAY[{names}];\n\
             \x20   texts := ARRAY[{texts}];\n\
             \x20 ELSE\n    key := {old_key};\n{compared}    IF names = '{{}}' THEN RETURN NULL; END IF;\n  END IF;\n\
             \x20 INSERT INTO weir_conveyor.outbox (visit, relation, change, key, columns, \"values\")\n\
             \x20 VALUES (current_setting('weir_conveyor.visit')::bigint, {relation_text}, left(TG_OP, 1)::\"char\",\n\
             \x20   key, names, texts);\n  RETURN NULL;\nEND $capture$;\n\
             CREATE OR REPLACE TRIGGER weir_conveyor_capture AFTER INSERT OR UPDATE OR DELETE ON {relation}\n\
             FOR EACH ROW WHEN ({is_global}) EXECUTE FUNCTION {function}();\n\
             CREATE OR REPLACE FUNCTION weir_conveyor.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $refuse$\n\
             BEGIN RAISE feature_not_supported USING MESSAGE = 'a global operation cannot TRUNCATE', \
             HINT = 'DELETE the rows instead.'; END $refuse$;\n\
             CREATE OR REPLACE TRIGGER weir_conveyor_truncate BEFORE TRUNCATE ON {relation}\n\
             FOR EACH STATEMENT WHEN ({is_global}) EXECUTE FUNCTION weir_conveyor.refuse_truncate();\n"
        )
    }

    /// The statements that make the same change here. A row that is missing is passed over; one that is there already is overwritten. None: the
    /// table has no such column, or another key.
    pub fn apply(&self, row: &OutboxRow) -> Option<Vec<Sql>> {
        if row.key.len() != self.key.len() || row.columns.len() != row.values.len() {
            return None;
        }
        let columns: Option<Vec<&Column>> = row.columns.iter().map(|name| self.column(name)).collect();
        let columns = columns?;
        Some(match row.change {
            // A column GENERATED ALWAYS AS IDENTITY is given by an INSERT only, so a row that is there makes room.
            RowChange::Insert | RowChange::Take if self.has_identity_beside_key() => {
                vec![self.delete(row), self.insert(row, &columns, "")]
            }
            RowChange::Insert | RowChange::Take => {
                vec![self.insert(row, &columns, &self.on_conflict(&columns))]
            }
            RowChange::Keep => vec![self.insert(row, &columns, " ON CONFLICT DO NOTHING")],
            RowChange::Map | RowChange::Sequence | RowChange::Clear => return None,
            RowChange::Update => vec![self.update(row, &columns)],
            RowChange::Delete => vec![self.delete(row)],
        })
    }

    /// The slot of a row, whose column of that name routes operations. None: there is no such column.
    pub fn slot_of(&self, column: &str) -> Option<String> {
        let column = self.columns.iter().find(|each| each.name == column)?;
        let ty = if column.is_integer() { "bigint" } else { "text" };
        Some(format!("weir_conveyor.slot_of({}::{ty})", quoted(&column.name)))
    }

    /// Deletes the rows of some slots: $1 has them, as the text of an array.
    pub fn clear(&self, column: &str) -> Option<String> {
        let slot = self.slot_of(column)?;
        Some(format!("DELETE FROM {} WHERE {slot} = ANY ($1::text::smallint[])", self.relation()))
    }

    /// Writes rows of the table into the outbox of a visit, as they are: those of some slots, or all. The settings that say how values are
    /// printed have to be [`print_settings`]. $1: the slots, as the text of an array.
    pub fn send(&self, visit: VisitNumber, column: Option<&str>) -> Option<String> {
        let texts = |columns: &mut dyn Iterator<Item = &Column>| {
            columns.map(|column| format!("{}::text", quoted(&column.name))).collect::<Vec<_>>().join(", ")
        };
        let key = texts(&mut self.key.iter().map(|index| &self.columns[*index]));
        let values = texts(&mut self.written());
        let names: Vec<_> = self.written().map(|column| literal(&column.name)).collect();
        let (names, relation) = (names.join(", "), self.relation());
        let (change, condition) = match column {
            Some(column) => {
                (RowChange::Take, format!("{} = ANY ($1::text::smallint[])", self.slot_of(column)?))
            }
            None => (RowChange::Keep, "$1::text IS NOT NULL".to_owned()),
        };
        Some(format!(
            "INSERT INTO weir_conveyor.outbox (visit, relation, change, key, columns, \"values\") \
             SELECT {visit}, {}, '{}', ARRAY[{key}], ARRAY[{names}], ARRAY[{values}] FROM {relation} WHERE {condition}",
            literal(&relation),
            change.letter(),
        ))
    }

    fn has_identity_beside_key(&self) -> bool {
        let beside = self.columns.iter().enumerate().filter(|(index, _)| !self.key.contains(index));
        beside.into_iter().any(|(_, column)| column.is_identity)
    }

    /// The condition that finds a row by its key, whose parameters begin with that number.
    fn by_key(&self, first: usize) -> String {
        let each = |(turn, index): (usize, &usize)| {
            let column = &self.columns[*index];
            format!("{} = {}", quoted(&column.name), cast(first + turn, column))
        };
        self.key.iter().enumerate().map(each).collect::<Vec<_>>().join(" AND ")
    }

    fn insert(&self, row: &OutboxRow, columns: &[&Column], on_conflict: &str) -> Sql {
        let names: Vec<_> = columns.iter().map(|column| quoted(&column.name)).collect();
        let casts: Vec<_> =
            columns.iter().enumerate().map(|(index, column)| cast(index + 1, column)).collect();
        let (relation, names, casts) = (self.relation(), names.join(", "), casts.join(", "));
        let text =
            format!("INSERT INTO {relation} ({names}) OVERRIDING SYSTEM VALUE VALUES ({casts}){on_conflict}");
        Sql { text, parameters: row.values.clone() }
    }

    fn on_conflict(&self, columns: &[&Column]) -> String {
        let key: Vec<_> = self.key.iter().map(|index| quoted(&self.columns[*index].name)).collect();
        let names = columns.iter().map(|column| quoted(&column.name)).filter(|name| !key.contains(name));
        let set: Vec<_> = names.map(|name| format!("{name} = EXCLUDED.{name}")).collect();
        let key = key.join(", ");
        match set.is_empty() {
            true => format!(" ON CONFLICT ({key}) DO NOTHING"),
            false => format!(" ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", ")),
        }
    }

    fn update(&self, row: &OutboxRow, columns: &[&Column]) -> Sql {
        let each = |(index, column): (usize, &&Column)| {
            format!("{} = {}", quoted(&column.name), cast(index + 1, column))
        };
        let set: Vec<_> = columns.iter().enumerate().map(each).collect();
        let (relation, set, found) = (self.relation(), set.join(", "), self.by_key(columns.len() + 1));
        let parameters = row.values.iter().chain(&row.key).cloned().collect();
        Sql { text: format!("UPDATE {relation} SET {set} WHERE {found}"), parameters }
    }

    fn delete(&self, row: &OutboxRow) -> Sql {
        let text = format!("DELETE FROM {} WHERE {}", self.relation(), self.by_key(1));
        Sql { text, parameters: row.key.clone() }
    }
}

/// An identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A literal, whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn text_of(row: &str, column: &str) -> String {
    format!("{row}.{}::text", quoted(column))
}

fn cast(parameter: usize, column: &Column) -> String {
    format!("${parameter}::text::{}", column.type_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Table {
        let column = |name: &str, type_name: &str, is_generated| Column {
            name: name.into(),
            type_name: type_name.into(),
            is_generated,
            is_identity: false,
        };
        Table {
            schema: "public".into(),
            name: "it\"em".into(),
            columns: vec![
                column("id", "integer", false),
                column("it's", "numeric(12,2)", false),
                column("total", "numeric", true),
            ],
            key: vec![0],
        }
    }

    fn row(change: RowChange, key: &str, columns: &[(&str, Option<&str>)]) -> OutboxRow {
        OutboxRow {
            change,
            key: vec![Some(key.into())],
            columns: columns.iter().map(|(name, _)| String::from(*name)).collect(),
            values: columns.iter().map(|(_, value)| value.map(String::from)).collect(),
        }
    }

    #[test]
    fn changes_are_applied_by_key() {
        let text = |row: OutboxRow| Some(item().apply(&row)?.remove(0).text);
        let insert = row(RowChange::Insert, "7", &[("id", Some("7")), ("it's", None)]);
        assert_eq!(
            text(insert).unwrap(),
            "INSERT INTO \"public\".\"it\"\"em\" (\"id\", \"it's\") OVERRIDING SYSTEM VALUE VALUES \
             ($1::text::integer, $2::text::numeric(12,2)) ON CONFLICT (\"id\") DO UPDATE SET \"it's\" = EXCLUDED.\"it's\""
        );
        let update = item().apply(&row(RowChange::Update, "7", &[("it's", Some("1.50"))])).unwrap().remove(0);
        assert_eq!(
            update.text,
            "UPDATE \"public\".\"it\"\"em\" SET \"it's\" = $1::text::numeric(12,2) WHERE \"id\" = $2::text::integer"
        );
        assert_eq!(update.parameters, [Some("1.50".into()), Some("7".into())]);
        let delete = row(RowChange::Delete, "7", &[]);
        assert_eq!(
            text(delete).unwrap(),
            "DELETE FROM \"public\".\"it\"\"em\" WHERE \"id\" = $1::text::integer"
        );
    }

    #[test]
    fn a_row_of_another_table_is_refused() {
        assert_eq!(item().apply(&row(RowChange::Update, "7", &[("price", None)])), None);
        assert_eq!(item().apply(&row(RowChange::Update, "7", &[("total", None)])), None);
        let without_key = OutboxRow { key: Vec::new(), ..row(RowChange::Delete, "7", &[]) };
        assert_eq!(item().apply(&without_key), None);
    }
}
