//! A change of an application's schema while it runs: one more statement behind its files.
//!
//! A schema is the result of its texts in order: the initial files, then every statement that has changed it. This module is independent
//! of rows; [`Matching`] maps each table, column and sequence of the new schema to the old schema, so that the owner of the rows can
//! convert them.

use std::collections::BTreeMap;

use pg_query::protobuf::{DropBehavior, ObjectType, TruncateStmt, node};
use weir_types::SqlState;
use weir_types::datetime::SessionZone;

use crate::Application;
use crate::assertion;
use crate::catalog::{Catalog, ColumnIndex, ForeignKey, SequenceId, Table, TableId};
use crate::ddl;
use crate::load::load_next;
use crate::local_times;
use crate::parse::{self, Piece};
use crate::source::{Diagnostic, Sources, Span};

/// The application with one more statement, named for messages; places are in the statement's text.
///
/// # Errors
/// The statement is invalid, or something in the schema would become invalid.
pub fn define(application: &Application, name: &str, text: &str) -> Result<Application, Diagnostic> {
    let file = application.sources.files.len() as u32;
    let local = |span: Span| Span { file: 0, ..span };
    let mut after = load_next(application, name, text).map_err(|(sources, wrong)| {
        let first = wrong.into_iter().next().unwrap_or_else(|| {
            Diagnostic::new(SqlState::INTERNAL_ERROR, Span::default(), "the schema cannot be read again")
        });
        match first.span.file == file {
            true => Diagnostic { span: local(first.span), ..first },
            false => breaks_another(&sources, first),
        }
    })?;
    after.notes.retain(|note| note.span.file == file);
    let orphans = orphans(application, &after, text)?;
    if !orphans.is_empty() {
        after.notes.push(cascades(&orphans, file));
    }
    Ok(after)
}

/// Like [`define`], for a session in that time zone; also returns a text that is independent of the zone: its times have offsets.
///
/// # Errors
/// As [`define`].
pub fn define_in(
    application: &Application,
    name: &str,
    text: &str,
    zone: SessionZone,
) -> Result<(Application, String), Diagnostic> {
    if zone.is_utc() {
        return Ok((define(application, name, text)?, text.to_owned()));
    }
    let (after, noted) = local_times::noting(|| define(application, name, text));
    let after = after?;
    let file = application.sources.files.len();
    let read = after.sources.files.get(file).map_or(text, |file| &file.text);
    let whole = local_times::with_offsets(read, file as u32, &noted, zone)
        .map_err(|error| Diagnostic::new(error.state(), Span::default(), error.message()))?;
    match whole {
        None => Ok((after, text.to_owned())),
        Some(whole) => Ok((define(application, name, &whole)?, whole)),
    }
}

/// Something that was right before this statement.
fn breaks_another(sources: &Sources, wrong: Diagnostic) -> Diagnostic {
    let message = format!("something else needs what this changes: {}", wrong.message);
    let state = match wrong.state {
        SqlState::FEATURE_NOT_SUPPORTED => wrong.state,
        _ => SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
    };
    Diagnostic::new(state, Span::default(), message)
        .with_hint(format!("change or drop what stands at {} first", sources.place(wrong.span)))
}

/// PostgreSQL's NOTICE of what CASCADE has dropped along.
fn cascades(orphans: &[String], file: u32) -> Diagnostic {
    let lines: Vec<String> = orphans.iter().map(|what| format!("drop cascades to {what}")).collect();
    let note = |message: &str| {
        Diagnostic::new(SqlState::SUCCESSFUL_COMPLETION, Span { file, ..Span::default() }, message)
    };
    match &lines[..] {
        [line] => note(line),
        lines => note(&format!("drop cascades to {} other objects", lines.len())).with_hint(lines.join("\n")),
    }
}

/// PostgreSQL drops what depends on the dropped only where CASCADE is written: gives what goes along.
fn orphans(before: &Application, after: &Application, text: &str) -> Result<Vec<String>, Diagnostic> {
    let (text, _) = assertion::cut_out(text)?;
    let statements = parse::parse_statements(Piece::new(0, 0, &text))?;
    let cascades = statements.iter().any(|one| match &one.node {
        node::Node::DropStmt(drop) => drop.behavior() == DropBehavior::DropCascade,
        node::Node::AlterTableStmt(alter) => alter.cmds.iter().any(|command| match &command.node {
            Some(node::Node::AlterTableCmd(command)) => command.behavior() == DropBehavior::DropCascade,
            _ => false,
        }),
        _ => false,
    });
    let dropped: Vec<String> = statements.iter().flat_map(|one| dropped_views(&one.node)).collect();
    let mut orphans: Vec<(Span, String)> = Vec::new();
    let matching = Matching::new(&before.catalog, &after.catalog);
    let has_view = |span: Span| after.catalog.views.iter().any(|view| view.span == span);
    let replaces =
        statements.iter().any(|one| matches!(&one.node, node::Node::ViewStmt(create) if create.replace));
    let is_replaced = |name: &str| replaces && after.catalog.views.iter().any(|view| view.name == name);
    let gone = |view: &&crate::catalog::View| {
        !has_view(view.span) && !is_replaced(&view.name) && !dropped.contains(&view.name)
    };
    for view in before.catalog.views.iter().filter(gone) {
        let kind = if view.materialized { "materialized view" } else { "view" };
        orphans.push((view.span, format!("{kind} {}", view.name)));
    }
    for &at in &matching.changed {
        let Some(old) = matching.tables[at.0 as usize] else { continue };
        let (now, was) = (after.catalog.table(at), before.catalog.table(old));
        let gone = was.foreign_keys.iter().filter(|key| {
            let has = now.foreign_keys.iter().any(|other| other.span == key.span);
            !has && !matching.has_key(&after.catalog, key)
        });
        for key in gone {
            orphans.push((key.span, format!("constraint {} on table {}", key.name, now.name)));
        }
    }
    match orphans.first() {
        Some((_, what)) if !cascades => return Err(depended_on(&text, what)),
        _ => {}
    }
    // The oldest first, as PostgreSQL tells them.
    orphans.sort_by_key(|(place, _)| *place);
    Ok(orphans.into_iter().map(|(_, what)| what).collect())
}

/// Error: an object depends on what the text drops.
fn depended_on(text: &str, what: &str) -> Diagnostic {
    let dropped = text.split_whitespace().take(3).map(str::to_lowercase).collect::<Vec<_>>();
    let message = match &dropped[..] {
        [drop, kind, name] if drop == "drop" => format!("cannot drop {kind} {}", name.trim_end_matches(';')),
        _ => "cannot drop it".to_owned(),
    };
    Diagnostic::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        Span::default(),
        format!("{message} because other objects depend on it: {what}"),
    )
    .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// The views that a DROP names.
fn dropped_views(statement: &node::Node) -> Vec<String> {
    match statement {
        node::Node::DropStmt(drop)
            if matches!(drop.remove_type(), ObjectType::ObjectView | ObjectType::ObjectMatview) =>
        {
            ddl::named_relations(&drop.objects)
        }
        _ => Vec::new(),
    }
}

/// Which tables TRUNCATE empties, with those that refer to them where it cascades.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    pub tables: Vec<TableId>,
    /// Number of tables that are named; the others follow by CASCADE.
    pub named: usize,
    /// TRUNCATE … RESTART IDENTITY.
    pub restarts: bool,
}

/// Command of a statement that makes or drops an index CONCURRENTLY, which no transaction block may contain; none: it is another one.
pub fn concurrent_command(text: &str) -> Option<&'static str> {
    // Only texts with the word are parsed once more.
    if !text.to_ascii_lowercase().contains("concurrently") {
        return None;
    }
    let statements = parse::parse_statements(Piece::new(0, 0, text)).ok()?;
    match &statements.first()?.node {
        node::Node::IndexStmt(index) if index.concurrent => Some("CREATE INDEX CONCURRENTLY"),
        node::Node::DropStmt(drop) if drop.concurrent => Some("DROP INDEX CONCURRENTLY"),
        _ => None,
    }
}

/// Tables emptied by a TRUNCATE; none: it is another statement.
///
/// # Errors
/// There is no such table (42P01), or one refers to another that is not emptied (0A000).
pub fn truncated(catalog: &Catalog, text: &str) -> Result<Option<Truncated>, Diagnostic> {
    let (text, _) = assertion::cut_out(text)?;
    let piece = Piece::new(0, 0, &text);
    let statements = parse::parse_statements(piece)?;
    let Some(node::Node::TruncateStmt(truncate)) = statements.first().map(|one| &one.node) else {
        return Ok(None);
    };
    let mut tables = named_tables(catalog, piece, truncate)?;
    let named = tables.len();
    let cascades = truncate.behavior() == DropBehavior::DropCascade;
    let mut at = 0;
    while at < tables.len() {
        let parent = tables[at];
        for child in &catalog.tables {
            if tables.contains(&child.id) || !child.foreign_keys.iter().any(|key| key.parent == parent) {
                continue;
            }
            if !cascades {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                let what = format!("{message}: {} references {}", child.name, catalog.table(parent).name);
                let error = Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, Span::default(), what);
                return Err(error.with_hint("Truncate both at the same time, or use TRUNCATE ... CASCADE."));
            }
            tables.push(child.id);
        }
        at += 1;
    }
    Ok(Some(Truncated { tables, named, restarts: truncate.restart_seqs }))
}

fn named_tables(
    catalog: &Catalog,
    piece: Piece<'_>,
    truncate: &TruncateStmt,
) -> Result<Vec<TableId>, Diagnostic> {
    let mut tables = Vec::new();
    for relation in &truncate.relations {
        let Some(node::Node::RangeVar(range)) = &relation.node else { continue };
        let (name, place) = (ddl::relation_name(range), piece.token(range.location));
        if catalog.partitions.contains_key(&name) {
            return Err(ddl::partition_alone(&name, place));
        }
        let schema = range.schemaname.as_str();
        if !matches!(schema, "" | "public") && !catalog.schemas.contains(schema) {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(Diagnostic::new(SqlState::INVALID_SCHEMA_NAME, place, message));
        }
        let is_other = catalog.views.iter().any(|view| view.name == name)
            || catalog.sequences.iter().any(|sequence| sequence.name == name);
        if is_other {
            let message = format!("\"{}\" is not a table", range.relname);
            return Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, place, message));
        }
        let table = catalog.table_named(&name, place)?;
        if !tables.contains(&table.id) {
            tables.push(table.id);
        }
    }
    Ok(tables)
}

/// Which of a schema's parts is which of the schema before. A part is what it was as long as it stands where it was declared; a name
/// is nothing to go by, for it may be given to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matching {
    /// By the new id: the old one.
    pub tables: Vec<Option<TableId>>,
    /// By the new id: the old one.
    pub sequences: Vec<Option<SequenceId>>,
    /// The tables, by their new id, that the two catalogs do not share, in order. Any other has the id and the columns that it had.
    pub changed: Vec<TableId>,
    /// Of changed tables whose columns are not the old ones in the same order: by column, the old column.
    columns: BTreeMap<TableId, Vec<Option<ColumnIndex>>>,
}

/// Numbers the parts at the same position (columns by LIKE) consecutively.
fn numbered<T: Copy>(parts: impl Iterator<Item = (Span, T)>) -> BTreeMap<(Span, usize), T> {
    let mut count: BTreeMap<Span, usize> = BTreeMap::new();
    let mut number = |span| {
        let at = count.entry(span).or_default();
        *at += 1;
        *at
    };
    parts.map(|(span, part)| ((span, number(span)), part)).collect()
}

/// For each part of the new list, the old part at the same position.
fn matched<T: Copy>(old: impl Iterator<Item = (Span, T)>, new: &[Span]) -> Vec<Option<T>> {
    let old = numbered(old);
    let mut matched = vec![None; new.len()];
    for (place, at) in numbered(new.iter().copied().zip(0..)) {
        matched[at] = old.get(&place).copied();
    }
    matched
}

/// All `old` parts keep their numbers, and the new ones come behind them.
fn first_are_the_same<T>(old: usize, new: usize, id: impl Fn(u32) -> T) -> Vec<Option<T>> {
    (0..new).map(|at| (at < old).then(|| id(at as u32))).collect()
}

/// By its place, which table of the one catalog is which of the other: by the new id, the old one.
fn matched_tables(before: &Catalog, after: &Catalog) -> Vec<Option<TableId>> {
    let is_place = |at: usize| {
        before.tables.shares(at, &after.tables, at) || before.tables[at].span == after.tables[at].span
    };
    // Nearly every definition leaves the tables before it as they are.
    if before.tables.len() <= after.tables.len() && (0..before.tables.len()).all(is_place) {
        return first_are_the_same(before.tables.len(), after.tables.len(), TableId);
    }
    let new: Vec<Span> = after.tables.iter().map(|one| one.span).collect();
    matched(before.tables.iter().map(|one| (one.span, one.id)), &new)
}

/// As [`matched_tables`].
fn matched_sequences(before: &Catalog, after: &Catalog) -> Vec<Option<SequenceId>> {
    let places = |catalog: &Catalog| catalog.sequences.iter().map(|one| one.span).collect::<Vec<_>>();
    let (old, new) = (places(before), places(after));
    if new.starts_with(&old) {
        return first_are_the_same(old.len(), new.len(), SequenceId);
    }
    matched(old.into_iter().zip((0..).map(SequenceId)), &new)
}

/// By column of the table after: the column before; none if they are the same columns in the same order.
fn moved_columns(was: &Table, now: &Table) -> Option<Vec<Option<ColumnIndex>>> {
    let places = |table: &Table| table.columns.iter().map(|column| column.span).collect::<Vec<_>>();
    let (was, now) = (places(was), places(now));
    (was != now).then(|| matched(was.into_iter().zip(0..), &now))
}

impl Matching {
    pub fn new(before: &Catalog, after: &Catalog) -> Matching {
        let tables = matched_tables(before, after);
        let is_shared =
            |at: usize| tables[at].is_some_and(|was| before.tables.shares(was.0 as usize, &after.tables, at));
        let changed: Vec<TableId> =
            (0..tables.len()).filter(|&at| !is_shared(at)).map(|at| TableId(at as u32)).collect();
        let mut columns = BTreeMap::new();
        for &id in &changed {
            let now = after.table(id);
            let moved = match tables[id.0 as usize] {
                Some(was) => moved_columns(before.table(was), now),
                None => Some(vec![None; now.columns.len()]),
            };
            columns.extend(moved.map(|moved| (id, moved)));
        }
        Matching { sequences: matched_sequences(before, after), tables, changed, columns }
    }

    /// The old column that the column of the new table is; none if it is new.
    pub fn old_column(&self, table: TableId, column: ColumnIndex) -> Option<ColumnIndex> {
        match self.columns.get(&table) {
            Some(columns) => columns[column],
            None => Some(column),
        }
    }

    /// The column of the new table that the old column has become; none if it has gone.
    pub fn new_column(&self, table: TableId, old: ColumnIndex) -> Option<ColumnIndex> {
        match self.columns.get(&table) {
            Some(columns) => columns.iter().position(|was| *was == Some(old)),
            None => Some(old),
        }
    }

    /// Returns whether an old foreign key still references a key.
    fn has_key(&self, after: &Catalog, key: &ForeignKey) -> bool {
        let Some(at) = self.tables.iter().position(|was| *was == Some(key.parent)) else { return false };
        let now = |old: &ColumnIndex| self.new_column(TableId(at as u32), *old);
        let columns: Option<Vec<ColumnIndex>> = key.parent_columns.iter().map(now).collect();
        columns.is_some_and(|columns| after.tables[at].has_key(&columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_running;

    fn application(text: &str) -> Application {
        let mut sources = Sources::default();
        sources.add("schema.sql", text);
        load_running(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}"))
    }

    const SCHEMA: &str = "
        CREATE TABLE a (id serial PRIMARY KEY, x int, y text);
        CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a);
        CREATE VIEW v AS SELECT y FROM a;
    ";

    /// `expect`: for each table of the schema after, its name, the number it had, and the columns that they were.
    fn check(texts: &[&str], expect: &str) {
        let before = application(SCHEMA);
        let mut after = before.clone();
        for text in texts {
            after = define(&after, "definition", text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        }
        let matching = Matching::new(&before.catalog, &after.catalog);
        let number = |id: &Option<usize>| id.map_or("-".to_string(), |id| id.to_string());
        let lines = after.catalog.tables.iter().enumerate().map(|(at, table)| {
            let old = |column| number(&matching.old_column(table.id, column));
            let columns: Vec<String> = (0..table.columns.len()).map(old).collect();
            let was = matching.tables[at].map(|id| id.0 as usize);
            format!("{} {} [{}]", table.name, number(&was), columns.join(" "))
        });
        assert_eq!(lines.collect::<Vec<_>>().join(", "), expect, "{texts:?}");
    }

    fn check_refused(text: &str, expect: &str) {
        let wrong = define(&application(SCHEMA), "definition", text).unwrap_err();
        assert_eq!(format!("{} {}", wrong.state, wrong.message), expect, "{text}");
    }

    #[test]
    fn parts_are_what_they_were_by_their_places() {
        check(&["CREATE TABLE c (k int)"], "a 0 [0 1 2], b 1 [0 1], c - [-]");
        check(&["DROP TABLE b", "CREATE TABLE b (k int)"], "a 0 [0 1 2], b - [-]");
        check(&["DROP TABLE a CASCADE"], "b 1 [0 1]");
        check(&["ALTER TABLE a ADD COLUMN z int", "ALTER TABLE a DROP COLUMN x"], "a 0 [0 2 -], b 1 [0 1]");
        check(&["ALTER TABLE b RENAME TO c", "ALTER TABLE c RENAME a TO parent"], "a 0 [0 1 2], c 1 [0 1]");
        check(&["ALTER TABLE a ALTER x TYPE bigint"], "a 0 [0 1 2], b 1 [0 1]");
        check(&["CREATE TABLE c (LIKE a, z int)"], "a 0 [0 1 2], b 1 [0 1], c - [- - - -]");
    }

    #[test]
    fn sequences_stay_with_their_columns() {
        let before = application(SCHEMA);
        let after = define(&before, "definition", "CREATE TABLE c (id serial)").unwrap();
        assert_eq!(Matching::new(&before.catalog, &after.catalog).sequences, [Some(SequenceId(0)), None]);
    }

    #[test]
    fn what_others_need_is_not_dropped() {
        check_refused("DROP TABLE a", "2BP01 cannot drop table a because other objects depend on it: view v");
        check_refused(
            "ALTER TABLE a DROP COLUMN y",
            "2BP01 cannot drop it because other objects depend on it: view v",
        );
        check_refused("DROP TABLE nothing", "42P01 table \"nothing\" does not exist");
        check_refused("CREATE TABLE a (x int)", "42P07 relation \"a\" already exists");
        check_refused("CREATE TABLE c (x nonsense)", "42704 type \"nonsense\" does not exist");
        check(&["DROP VIEW v", "DROP TABLE b", "DROP TABLE a"], "");
        check(&["DROP TABLE b, a CASCADE"], "");
    }

    #[test]
    fn truncate_empties_what_refers_to_it_only_if_it_cascades() {
        let catalog = application(SCHEMA).catalog;
        let of = |text| truncated(&catalog, text);
        let empties = |tables: &[u32], named, restarts| {
            let tables = tables.iter().map(|table| TableId(*table)).collect();
            Ok(Some(Truncated { tables, named, restarts }))
        };
        assert_eq!(of("TRUNCATE b"), empties(&[1], 1, false));
        assert_eq!(of("TRUNCATE a CASCADE"), empties(&[0, 1], 1, false));
        assert_eq!(of("TRUNCATE b, a RESTART IDENTITY"), empties(&[1, 0], 2, true));
        assert_eq!(of("TRUNCATE a").unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(of("TRUNCATE c").unwrap_err().state, SqlState::UNDEFINED_TABLE);
        assert_eq!(of("DROP TABLE b"), Ok(None));
    }
}
