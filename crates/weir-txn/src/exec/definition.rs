//! Schema changes while shards run: the description of an application at any time, and the statement that changes it (design.md §4;
//! docs/internals/server.md, "Definitions").
//!
//! A *schema version* is the schema between two definitions. Compiled code is a function of the files, the texts of all definitions so
//! far and the plan of the last one. So a definition travels as its text and the plan, and every receiver compiles the same code. This
//! module touches no rows: [`super::remake`] does.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use weir_analysis::open_world::{placed_by_default, plan_anew};
use weir_analysis::plan::{Placement, Plan};
use weir_core::ids::ShardId;
use weir_sql::catalog::{Table, TableId};
use weir_sql::{Application, Diagnostic, Matching, Sources, Span, Truncated, truncated};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::{SqlError, SqlState};

use super::program::{CompileError, Program};
use super::remake::Remaking;
pub(crate) use super::remake::duplicated;
use super::sequences::Sequences;
use crate::message::{Change, Definition, PlanOf, schema_has_changed};
use crate::storage::{AddedIndex, Building, MergedRows, Remade};

/// An SQL application, its plan, and its schema version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// Names and texts of the loaded sources, in order. The next schema version shares them.
    files: Vec<(Arc<str>, Arc<str>)>,
    /// Number of initial files; the later ones are definitions.
    began: usize,
    plan: Arc<Plan>,
    schema_version: u64,
}

impl Description {
    /// Description of an unchanged application. The first `files` sources are the loaded SQL.
    pub fn new(application: &Application, files: usize, plan: &Plan) -> Description {
        let files = application.sources.files.iter().take(files);
        let files: Vec<(Arc<str>, Arc<str>)> =
            files.map(|file| (file.name.as_str().into(), file.text.as_str().into())).collect();
        Description { began: files.len(), files, plan: Arc::new(plan.clone()), schema_version: 0 }
    }

    /// Description of a schema without procedures, possibly empty, of which nothing is assumed to stay unchanged. `files` as in `new`.
    pub fn of_schema(application: &Application, files: usize) -> Description {
        // The initial schema has been analysed as it was written.
        let plan = plan_anew(application, Vec::new(), u32::MAX);
        Description { began: 0, ..Description::new(application, files, &plan) }
    }

    pub fn schema_version(&self) -> u64 {
        self.schema_version
    }

    /// The definitions that produced this schema version, in order.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.files[self.began..].iter().map(|(_, text)| &**text)
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Compiles the program for that number of shards, with ad-hoc statements.
    ///
    /// # Errors
    /// This build cannot have produced the description.
    pub fn compile(&self, shards: ShardId) -> Result<Program, SqlError> {
        let mut sources = Sources::default();
        for (name, text) in &self.files {
            sources.add(&**name, &**text);
        }
        let application =
            weir_sql::load_running(sources).map_err(|(sources, wrong)| unread(&sources, &wrong))?;
        self.clone().compile_with(Arc::new(application), shards, None).map_err(|wrong| wrong.error)
    }

    /// `upon`: the program before the last definition; none compiles all of it anew.
    fn compile_with(
        self,
        application: Arc<Application>,
        shards: ShardId,
        upon: Option<&Program>,
    ) -> Result<Program, CompileError> {
        let tables = &application.catalog.tables;
        let is_of = |(table, placement): (usize, &Placement)| match placement {
            Placement::Replicated => true,
            Placement::Partitioned { columns } => {
                !columns.is_empty() && columns.iter().all(|column| *column < tables[table].columns.len())
            }
        };
        if tables.len() != self.plan.placement.len()
            || !self.plan.placement.iter().enumerate().all(is_of)
            || self.plan.transactions.iter().any(|one| one.procedure >= application.procedures.len())
        {
            let error = unfit("its plan is another application's");
            return Err(CompileError { span: Span::default(), error });
        }
        let program = Program::compile_open(&application, &self.plan, shards, self.began, upon)?;
        Ok(program.with_description(application, Arc::new(self)))
    }
}

fn unread(sources: &Sources, wrong: &[Diagnostic]) -> SqlError {
    let first = wrong.first().map(|one| format!("{}: {}", sources.place(one.span), one.message));
    unfit(&first.unwrap_or_default())
}

fn unfit(what: &str) -> SqlError {
    let message = format!("the application that is described cannot be read: {what}");
    SqlError::new(SqlState::INTERNAL_ERROR, message)
}

/// Error of a definition, with its position in the statement's text.
#[derive(Clone, Debug)]
pub struct Undefined {
    pub span: Span,
    pub error: SqlError,
}

impl From<SqlError> for Undefined {
    fn from(error: SqlError) -> Undefined {
        Undefined { span: Span::default(), error }
    }
}

impl From<Diagnostic> for Undefined {
    fn from(wrong: Diagnostic) -> Undefined {
        let error = SqlError::new(wrong.state, wrong.message);
        Undefined { span: wrong.span, error: wrong.hint.into_iter().fold(error, SqlError::with_hint) }
    }
}

/// What becomes of tables that a definition gives a primary or foreign key by which they would live elsewhere, had they been made with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// They stay where they are.
    Stays,
    /// They are placed anew. Shards refuse that of tables that have rows ([`Remaking::refuse_moves`]).
    Anew,
}

/// A definition that has been analysed.
#[derive(Debug)]
pub struct Defined {
    pub definition: Definition,
    /// Tables that [`Placing::Anew`] places anew, as the schema before has them.
    pub may_be_placed_anew: Vec<TableId>,
    /// The program after it; none if the schema stays.
    pub program: Option<Arc<Program>>,
}

/// A change of the schema whose program is not compiled yet.
struct Analysed {
    definition: Definition,
    may_be_placed_anew: Vec<TableId>,
    /// The application after it.
    application: Arc<Application>,
    description: Description,
}

impl Analysed {
    fn of(program: &Program, text: &str, zone: SessionZone, placing: Placing) -> Result<Analysed, Undefined> {
        let (application, description) = program.described().ok_or_else(schema_has_changed)?;
        let (after, text) = weir_sql::define_in(application, &name_of(description), text, zone)?;
        let mut placement = stays(program, application, &after)?;
        let anew = would_live_elsewhere(program, application, &after, &placement);
        if placing == Placing::Anew {
            anew.iter().for_each(|(_, now)| placement[now.0 as usize] = None);
        }
        let plan = plan_anew(&after, placement, description.began as u32);
        let upon = description.schema_version;
        let becomes = next_schema_version(upon, &text);
        let change = Change::Schema { text, plan: PlanOf::new(plan) };
        let definition = Definition { upon, becomes, change };
        let description = description.after(&definition);
        let may_be_placed_anew = anew.into_iter().map(|(was, _)| was).collect();
        Ok(Analysed { definition, may_be_placed_anew, application: Arc::new(after), description })
    }
}

impl Definition {
    /// Parses and analyses a definition in the session's time zone, which the thread has entered.
    ///
    /// # Errors
    /// What is wrong with it, what it would break, or that this program's schema does not change.
    pub fn of(program: &Program, text: &str, placing: Placing) -> Result<Defined, Undefined> {
        let zone = SessionZone::current();
        let _utc = SessionZone::UTC.enter();
        let (application, description) = program.described().ok_or_else(|| Undefined {
            span: Span::default(),
            error: SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "the schema does not change here"),
        })?;
        let upon = description.schema_version;
        if let Some(Truncated { tables, restarts, .. }) = truncated(&application.catalog, text)? {
            let change = Change::Truncate { tables, restarts };
            let definition = Definition { upon, becomes: upon, change };
            return Ok(Defined { definition, may_be_placed_anew: Vec::new(), program: None });
        }
        let analysed = Analysed::of(program, text, zone, placing)?;
        let Analysed { definition, may_be_placed_anew, application, description } = analysed;
        let file = description.files.len() - 1;
        let compiled = description.compile_with(application, program.shards, Some(program));
        let program = compiled.map_err(|wrong| {
            // What stands in another file has no place in this text.
            let span = match wrong.span.file as usize == file {
                true => Span { file: 0, ..wrong.span },
                false => Span::default(),
            };
            Undefined { span, error: wrong.error }
        })?;
        let program = Arc::new(program);
        if let Change::Schema { plan, .. } = &definition.change {
            plan.set_program(&program);
        }
        Ok(Defined { definition, may_be_placed_anew, program: Some(program) })
    }

    /// Program after the definition; none if it does not change.
    ///
    /// # Errors
    /// It changes another schema version, or this build cannot have produced it.
    pub fn compile(&self, program: &Program) -> Result<Option<Program>, SqlError> {
        let (application, description) = program.described().ok_or_else(schema_has_changed)?;
        if description.schema_version != self.upon {
            return Err(schema_has_changed());
        }
        let (text, plan) = match &self.change {
            Change::Schema { text, plan } => (text, plan),
            Change::Truncate { .. } => return Ok(None),
        };
        let compiled = plan.program::<Program>().filter(|one| one.shards == program.shards);
        if let Some(same) = compiled.and_then(|one| one.share()) {
            return Ok(Some(same));
        }
        let after = description.after(self);
        if application.sources.files.len() != description.files.len() {
            return Ok(Some(after.compile(program.shards)?));
        }
        let next = weir_sql::load_next(application, &name_of(description), text);
        let next = Arc::new(next.map_err(|(sources, wrong)| unread(&sources, &wrong))?);
        Ok(Some(after.compile_with(next, program.shards, Some(program)).map_err(|wrong| wrong.error)?))
    }
}

/// Schema version of a shard: program, tables, and state of its sequences.
#[derive(Debug)]
pub struct SchemaVersion {
    pub program: Arc<Program>,
    pub tables: Remade,
    pub sequences: Sequences,
}

/// What a shard has built of a definition beforehand, while others wrote.
#[derive(Debug)]
pub struct Built {
    /// The program after the definition.
    pub program: Arc<Program>,
    /// The index that it adds to a table.
    pub index: Building,
}

/// Schema version of the shard after a definition. Its tables are not in place yet; new constraints must be checked by [`check`] once
/// they are.
///
/// # Errors
/// The definition changes another schema version, rows would have to move, or values do not fit their new types.
pub fn apply(
    definition: &Definition,
    (program, rows, sequences): (&Arc<Program>, MergedRows<'_>, &Sequences),
    here: ShardId,
    transaction_time: TransactionTime,
    built: Option<Built>,
) -> Result<SchemaVersion, SqlError> {
    let (next, built) = match built {
        Some(Built { program, index }) => (program, Some(index)),
        None => (definition.compile(program)?.map_or_else(|| program.clone(), Arc::new), None),
    };
    let (before, after) = (catalog_of(program)?, catalog_of(&next)?);
    let matching = Matching::new(&before.catalog, &after.catalog);
    if let Change::Truncate { tables, restarts } = &definition.change {
        if tables.iter().any(|table| table.0 as usize >= after.catalog.tables.len()) {
            return Err(schema_has_changed());
        }
        let own = after.catalog.sequences.iter();
        let own = own.filter(|one| *restarts && one.owner.is_some_and(|(table, _)| tables.contains(&table)));
        let restarted: Vec<_> = own.map(|sequence| sequence.id).collect();
        let sequences = sequences.renumbered(&matching.sequences, &restarted);
        return Ok(SchemaVersion { program: next, tables: rows.base.emptied(tables), sequences });
    }
    let remaking = Remaking { before, after, program: &next, here, matching: &matching };
    remaking.refuse_moves(rows, program)?;
    remaking.refuse_partitions_with_rows(rows)?;
    let begins_again = |one: &&weir_sql::catalog::Sequence| {
        let was = matching.sequences[one.id.0 as usize];
        was.is_some_and(|was| before.catalog.sequence(was).restarts != one.restarts)
    };
    let restarted: Vec<_> =
        after.catalog.sequences.iter().filter(begins_again).map(|sequence| sequence.id).collect();
    let mut sequences = sequences.renumbered(&matching.sequences, &restarted);
    let mut environment = sequences.environment(&next, here, transaction_time);
    let tables = remaking.remake(rows, &mut environment, transaction_time, built)?;
    Ok(SchemaVersion { program: next, tables, sequences })
}

/// The index that a definition adds to a table whose rows stay as they are, if that is all that it makes of stored rows; it can be built
/// while others write.
///
/// # Errors
/// The schema does not change here.
pub fn added_index(before: &Program, now: &Program) -> Result<Option<AddedIndex>, SqlError> {
    let (was, after) = (catalog_of(before)?, catalog_of(now)?);
    let matching = Matching::new(&was.catalog, &after.catalog);
    Remaking { before: was, after, program: now, here: 0, matching: &matching }.added(&before.schema)
}

/// Checks the rows against constraints that are new in the schema.
///
/// # Errors
/// A constraint does not hold; the error names a violating row.
pub fn check(before: &Program, now: &Program, rows: MergedRows<'_>, here: ShardId) -> Result<(), SqlError> {
    if before.schema_version == now.schema_version {
        return Ok(());
    }
    let (before, after) = (catalog_of(before)?, catalog_of(now)?);
    let matching = Matching::new(&before.catalog, &after.catalog);
    Remaking { before, after, program: now, here, matching: &matching }.check(rows)
}

fn catalog_of(program: &Program) -> Result<&Arc<Application>, SqlError> {
    program.described().map(|(application, _)| application).ok_or_else(schema_has_changed)
}

impl Description {
    fn after(&self, definition: &Definition) -> Description {
        let Change::Schema { text, plan } = &definition.change else { return self.clone() };
        let mut files = self.files.clone();
        files.push((name_of(self).into(), text.as_str().into()));
        Description {
            files,
            began: self.began,
            plan: plan.plan().clone(),
            schema_version: definition.becomes,
        }
    }
}

fn name_of(description: &Description) -> String {
    format!("definition {}", description.files.len() - description.began + 1)
}

/// Two successors of the same schema version differ; none is 0, the unchanged schema.
fn next_schema_version(upon: u64, text: &str) -> u64 {
    let mut hash = FxHasher::default();
    (upon, text).hash(&mut hash);
    hash.finish().max(1)
}

/// Columns by which each table's rows are already placed; none for a new table, or if the schema says another placement. Rows stay when
/// a comment no longer says where they live.
fn stays(
    program: &Program,
    before: &Application,
    after: &Application,
) -> Result<Vec<Option<Placement>>, Undefined> {
    let matching = Matching::new(&before.catalog, &after.catalog);
    let of = |table: &Table| {
        let at = table.id.0 as usize;
        let Some(was) = matching.tables[at] else { return Ok(None) };
        if matching.changed.binary_search(&table.id).is_err() {
            return Ok(Some(program.placement[was.0 as usize].clone()));
        }
        let moved = |columns: &[usize]| -> Option<Vec<usize>> {
            columns.iter().map(|old| matching.new_column(table.id, *old)).collect()
        };
        let said = |table: &Table| (table.partition_by.clone(), table.replicated);
        let old = before.catalog.table(was);
        let is_said_anew = (old.partition_by.as_deref().and_then(moved), old.replicated) != said(table);
        let says = table.partition_by.is_some() || table.replicated != old.replicated;
        match program.partition(was) {
            _ if is_said_anew && says => Ok(None),
            None => Ok(Some(Placement::Replicated)),
            Some(columns) => match moved(columns) {
                Some(columns) => Ok(Some(Placement::Partitioned { columns: columns.into() })),
                None if program.shards == 1 => Ok(None),
                None => {
                    let message = format!(
                        "not supported: dropping a column of {} that says on which shard a row lives",
                        table.name
                    );
                    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                    Err(Undefined { span: Span::default(), error })
                }
            },
        }
    };
    after.catalog.tables.iter().map(of).collect()
}

/// Tables, by their ids before and after, that have got a primary or foreign key by which they would live elsewhere if they were made now.
/// Neither a comment nor a procedure has placed them. `placement`: of the application after.
fn would_live_elsewhere(
    program: &Program,
    before: &Application,
    after: &Application,
    placement: &[Option<Placement>],
) -> Vec<(TableId, TableId)> {
    if program.shards == 1 {
        return Vec::new();
    }
    let matching = Matching::new(&before.catalog, &after.catalog);
    let placed: Vec<Option<Placement>> = program.placement.iter().cloned().map(Some).collect();
    let of = |now: &TableId| {
        let (table, was) = (after.catalog.table(*now), matching.tables[now.0 as usize]?);
        let old = before.catalog.table(was);
        let gains = table.foreign_keys.len() > old.foreign_keys.len()
            || table.primary_key.is_some() && old.primary_key.is_none();
        let is_said = table.replicated || table.partition_by.is_some();
        let is_by_default =
            || placed_by_default(&before.catalog, &placed, was) == program.placement[was.0 as usize];
        let moves = || Some(placed_by_default(&after.catalog, placement, *now)) != placement[now.0 as usize];
        (gains && !is_said && is_by_default() && moves()).then_some((was, *now))
    };
    matching.changed.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::compile::FORGETS_NEIGHBOURS;
    use super::*;

    const SCHEMA: &str = "
        CREATE TABLE a (id bigint PRIMARY KEY, u int UNIQUE, n int CHECK (n >= 0));
        CREATE TABLE b (id bigint PRIMARY KEY, a bigint REFERENCES a ON DELETE CASCADE);
        CREATE TABLE c (id bigint PRIMARY KEY, b bigint REFERENCES b, n int);
        CREATE TABLE far (id bigint PRIMARY KEY);
        CREATE INDEX c_b ON c (b);
    ";

    /// All parts of a program that a run depends on.
    fn shown(program: &Program) -> [String; 5] {
        let Program { schema, shards, placement, rules, procedures, updates, sequences, .. } = program;
        let Program { placed_by_uuids, defers, closed, looked_up, with, .. } = program;
        [
            format!("{schema:?} {looked_up:?}"),
            format!("{rules:?}"),
            format!("{procedures:?} {updates:?}"),
            format!("{placement:?} {sequences:?} {closed:?}"),
            format!("{shards} {placed_by_uuids} {defers} {with:?}"),
        ]
    }

    fn begin(files: &[(String, String)], shards: ShardId) -> Arc<Program> {
        let mut sources = Sources::default();
        files.iter().for_each(|(name, text)| {
            sources.add(name.as_str(), text.as_str());
        });
        let application = weir_sql::load_running(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}"));
        let description = match application.procedures.is_empty() {
            true => Description::of_schema(&application, files.len()),
            false => {
                let plan = weir_analysis::analyze(&application).plan;
                Description::new(&application, files.len(), &plan)
            }
        };
        Arc::new(description.compile(shards).unwrap_or_else(|wrong| panic!("{wrong:?}")))
    }

    /// The program after the definition; none where there is none. An error where the program that shares what is untouched differs from
    /// the one that is compiled in full.
    fn compare(program: &Program, text: &str) -> Result<Option<Arc<Program>>, String> {
        let Ok(Analysed { application, description, .. }) =
            Analysed::of(program, text, SessionZone::UTC, Placing::Stays)
        else {
            return Ok(None);
        };
        let compile = |upon| description.clone().compile_with(application.clone(), program.shards, upon);
        match (compile(Some(program)), compile(None)) {
            (Ok(shared), Ok(full)) => {
                let (left, right) = (shown(&shared), shown(&full));
                match left.iter().zip(&right).find(|(left, right)| left != right) {
                    None => Ok(Some(Arc::new(shared))),
                    Some((left, right)) => Err(format!("{text}\n{left}\n\n{right}")),
                }
            }
            (Err(shared), Err(full)) if format!("{shared:?}") == format!("{full:?}") => Ok(None),
            (shared, full) => Err(format!("{text}\n{:?}\n\n{:?}", shared.err(), full.err())),
        }
    }

    /// Of definitions one after the other: how many are accepted.
    fn check(mut program: Arc<Program>, texts: impl IntoIterator<Item = String>) -> usize {
        let mut accepted = 0;
        for text in texts {
            let next = compare(&program, &text).unwrap_or_else(|difference| panic!("{difference}"));
            accepted += usize::from(next.is_some());
            program = next.unwrap_or(program);
        }
        accepted
    }

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn sharing_equals_compiling_in_full_for_every_form_of_definition() {
        for shards in [1, 3] {
            let mut accepted = 0;
            for entry in std::fs::read_dir(root().join("testdata/sql/definitions")).expect("it is there") {
                let text = std::fs::read_to_string(entry.expect("a file").path()).expect("it can be read");
                let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("--"));
                accepted += check(begin(&[], shards), lines.map(str::to_owned));
            }
            assert!(accepted > 300, "{accepted} on {shards} shards");
        }
    }

    #[test]
    fn sharing_equals_compiling_in_full_upon_examples() {
        for (example, shards) in [("tpcc", 1), ("tpcc", 4), ("smallbank", 2), ("auction", 1), ("payroll", 1)]
        {
            let folder = root().join("examples").join(example);
            let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(folder.join(name)).ok()?));
            let files: Vec<_> =
                ["schema.sql", "procedures.sql", "invariants.sql"].into_iter().filter_map(read).collect();
            let program = begin(&files, shards);
            let tables = program.schema.tables.iter().map(|table| table.name.clone()).collect::<Vec<_>>();
            let of = |table: &String| {
                [
                    format!("ALTER TABLE {table} ADD COLUMN added int DEFAULT 1"),
                    format!("CREATE TABLE x_{table} (id int PRIMARY KEY, v int REFERENCES x_{table})"),
                    format!("CREATE INDEX ON {table} (added)"),
                    format!(
                        "ALTER TABLE {table} ADD FOREIGN KEY (added) REFERENCES x_{table} ON DELETE CASCADE"
                    ),
                    format!("CREATE PROCEDURE p_{table}() LANGUAGE SQL AS 'DELETE FROM x_{table}'"),
                    format!("ALTER TABLE x_{table} RENAME TO y_{table}"),
                    format!("DROP PROCEDURE p_{table}"),
                    format!("DROP TABLE y_{table} CASCADE"),
                ]
            };
            assert!(check(program, tables.iter().flat_map(of)) > tables.len(), "{example}");
        }
    }

    /// Which of the first tables keep their storage schema, and which their rules: `expect` names those that do not.
    fn shares(text: &str, expect: &str) {
        let before = begin(&[("schema.sql".to_owned(), SCHEMA.to_owned())], 1);
        let after = compare(&before, text).unwrap_or_else(|difference| panic!("{difference}"));
        let after = after.unwrap_or_else(|| panic!("{text}"));
        let mut differ = Vec::new();
        for (at, table) in before.schema.tables.iter().enumerate() {
            if !Arc::ptr_eq(table, &after.schema.tables[at]) {
                differ.push(format!("table {}", table.name));
            }
            if !Arc::ptr_eq(&before.rules[at], &after.rules[at]) {
                differ.push(format!("rules {}", table.name));
            }
        }
        assert_eq!(differ.join(", "), expect, "{text}");
    }

    #[test]
    fn a_definition_compiles_what_it_touches_and_its_neighbours() {
        shares("CREATE TABLE d (id int PRIMARY KEY)", "");
        shares("CREATE TABLE d (id int PRIMARY KEY, a bigint REFERENCES a)", "rules a");
        shares("CREATE TABLE d (id int PRIMARY KEY, u int REFERENCES a (u))", "table a, rules a");
        shares("ALTER TABLE far ADD COLUMN w int", "table far, rules far");
        shares("ALTER TABLE c ADD COLUMN w int", "rules b, table c, rules c");
        shares("CREATE VIEW v AS SELECT id FROM a", "");
    }

    /// Negative control.
    #[test]
    fn a_program_that_forgets_neighbours_is_found() {
        let before = begin(&[("schema.sql".to_owned(), SCHEMA.to_owned())], 1);
        FORGETS_NEIGHBOURS.set(true);
        let found = [
            "CREATE TABLE d (id int PRIMARY KEY, u int REFERENCES a (u))",
            "CREATE TABLE d (id int PRIMARY KEY, a bigint REFERENCES a)",
        ]
        .map(|text| compare(&before, text).is_err());
        FORGETS_NEIGHBOURS.set(false);
        assert_eq!(found, [true; 2]);
    }
}
