//! An application's files, in order: schema first, then procedures, then assertions.
//!
//! Tables, indexes and views must exist when they are mentioned, as in PostgreSQL; procedures and
//! assertions are bound when everything else is known, so that they may stand anywhere.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use pg_query::protobuf::node;

use crate::Application;
use crate::assertion::{self, AssertionStatement};
use crate::binder;
use crate::bound::Procedure;
use crate::catalog::{Assertion, Catalog, TableId};
use crate::ddl::{self, PendingAssertion, PendingRoutine, Schema, Unread};
use crate::mentions::Mentions;
use crate::notes::{Notes, Reading};
use crate::parse::{self, ParsedStatement, Piece};
use crate::plpgsql::{Surroundings, bind_procedure, bind_trigger};
use crate::remedy;
use crate::routine::{self, Signature};
use crate::source::{Diagnostic, Severity, SourceFile, Sources};

use crate::synthesise;
use crate::ways::queries::{self, Block};
use crate::ways::{sections, sqlx};

use weir_types::SqlState;
use weir_types::datetime::SessionZone;

/// Reads all files of an application that is to run.
///
/// # Errors
/// The first error of the schema, or else every error of the procedures and assertions; together with the
/// sources, so that the caller can show the places.
pub fn load(sources: Sources) -> Result<Application, (Sources, Vec<Diagnostic>)> {
    load_with(sources, Reading::Strict)
}

/// As [`load`], of what a server runs by itself.
///
/// # Errors
/// As `load`.
pub fn load_running(sources: Sources) -> Result<Application, (Sources, Vec<Diagnostic>)> {
    load_with(sources, Reading::Running)
}

/// Reads all files. A tolerant reading lists in [`Application::notes`] what it passed over, and where there are
/// no transactions it makes them ([`crate::synthesise`]).
///
/// # Errors
/// As [`load`]; of a tolerant reading, every mistake of the input, and nothing that Weir merely lacks.
pub fn load_with(sources: Sources, reading: Reading) -> Result<Application, (Sources, Vec<Diagnostic>)> {
    // Definitions made in another time zone have explicit offsets.
    let _zone = SessionZone::UTC.enter();
    completed(read(sources, reading))
}

/// Messages with their whole places.
fn completed(read: Read) -> Read {
    // Parameters are read as `$1` in the place of their names, so that a place may end within a character.
    let whole = |sources: &Sources, messages: &mut [Diagnostic]| {
        for message in messages {
            message.span = sources.whole(message.span);
            remedy::complete(sources, message);
        }
    };
    match read {
        Ok(mut app) => {
            whole(&app.sources, &mut app.notes);
            Ok(app)
        }
        Err((sources, mut errors)) => {
            whole(&sources, &mut errors);
            Err((sources, errors))
        }
    }
}

/// A schema after all statements of its files, before anything is bound that waits for the whole: one more file goes on from here.
#[derive(Debug)]
pub struct ReadSchema {
    /// Locked while it is copied, for it notes down what it meets.
    schema: Mutex<Schema>,
    /// Assertions that the files declare or drop, in order.
    said: Vec<AssertionStatement>,
    /// Number of files that have been read.
    files: usize,
}

/// As [`load_running`] of the application's sources and one more, of which the others are not read again where that gives the same.
///
/// # Errors
/// As `load_running`.
pub fn load_next(
    application: &Application,
    name: &str,
    text: &str,
) -> Result<Application, (Sources, Vec<Diagnostic>)> {
    let mut sources = application.sources.clone();
    sources.add(name, text);
    let file = sources.files.len() - 1;
    let before = application.reading.as_deref();
    let Some(before) = before.filter(|before| before.files == file && !is_cache(name)) else {
        return load_running(sources);
    };
    let _zone = SessionZone::UTC.enter();
    match read_next(sources, before, file) {
        Ok(Some(read)) => completed(read),
        Ok(None) => {
            let mut sources = application.sources.clone();
            sources.add(name, text);
            load_running(sources)
        }
        Err(failed) => completed(Err(failed)),
    }
}

/// The sources, and what is wrong with them.
type Failed = (Sources, Vec<Diagnostic>);

type Read = Result<Application, Failed>;

/// None: the file changes what others say, so that all of them are to be read again.
fn read_next(mut sources: Sources, before: &ReadSchema, file: usize) -> Result<Option<Read>, Failed> {
    dollar_quote(&mut sources.files[file]);
    let mut schema = before.schema.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut said = before.said.clone();
    let mut blocks = Vec::new();
    let mut all = Vec::new();
    let parsed = read_statements(&sources, file, &schema, &mut blocks).map(|(text, statements, found)| {
        said.extend(found);
        schema.texts.push(text.as_str().into());
        let piece = |statement| (file, statement);
        all.extend(statements.into_iter().map(piece));
        text
    });
    let text = match parsed {
        Ok(text) => text,
        Err(error) => return Err((sources, vec![error])),
    };
    let folds = |(_, one): &(usize, ParsedStatement)| matches!(one.node, node::Node::AlterEnumStmt(_));
    if !blocks.is_empty() || all.iter().any(folds) {
        return Ok(None);
    }
    if let Err(error) = apply(&mut schema, all, &|_| &text) {
        return Err((sources, vec![error]));
    }
    Ok(Some(bind(sources, schema, said, &[], Reading::Running)))
}

fn dollar_quote(file: &mut Arc<SourceFile>) {
    if let Cow::Owned(text) = crate::bodies::dollar_quoted(&file.text) {
        *file = Arc::new(SourceFile::new(file.name.clone(), text));
    }
}

fn read(mut sources: Sources, reading: Reading) -> Read {
    sources.files.iter_mut().for_each(dollar_quote);
    let mut schema = Schema::default();
    match reading {
        Reading::Strict => {}
        Reading::Running => schema.is_running = true,
        Reading::Tolerant => schema.notes = Some(Notes::default()),
    }
    let read = read_caches(&mut sources, &schema).and_then(|mut blocks| {
        let said = read_schema(&sources, &mut schema, &mut blocks)?;
        Ok((blocks, said))
    });
    match read {
        Ok((blocks, said)) => bind(sources, schema, said, &blocks, reading),
        Err(error) => Err((sources, vec![error])),
    }
}

/// Statements that are bound once the whole schema is known.
fn bind(
    sources: Sources,
    mut schema: Schema,
    said: Vec<AssertionStatement>,
    blocks: &[Block],
    reading: Reading,
) -> Result<Application, (Sources, Vec<Diagnostic>)> {
    let goes_on = reading == Reading::Running && blocks.is_empty();
    let here = goes_on.then(|| ReadSchema {
        schema: Mutex::new(schema.clone()),
        said: said.clone(),
        files: sources.files.len(),
    });
    let assertions = match finish_schema(&mut schema, said) {
        Ok(assertions) => assertions,
        Err(error) => return Err((sources, vec![error])),
    };
    let mut errors = Vec::new();
    let procedures = bind_routines(&sources, &mut schema, blocks, &mut errors);
    let mentions = schema.notes.is_some().then(|| mentions(&sources, &schema, &[]));
    let mut assertions = bind_assertions(&schema, assertions, mentions.as_ref(), &mut errors);
    let unread = std::mem::take(&mut *schema.unread.borrow_mut());
    unread.into_iter().for_each(|one| add_unread(&schema, mentions.as_ref(), &sources, one, &mut assertions));
    let notes = schema.notes.map_or_else(|| schema.passed_over.take(), Notes::into_list);
    let (wrong, notes): (Vec<Diagnostic>, Vec<Diagnostic>) =
        notes.into_iter().partition(|note| note.severity == Severity::Error);
    errors.extend(wrong);
    if !errors.is_empty() {
        return Err((sources, errors));
    }
    let catalog = Catalog { schemas: schema.schemas, ..schema.catalog };
    let reading_on = here.map(Arc::new);
    let synthesised = false;
    let mut app =
        Application { sources, catalog, procedures, assertions, notes, synthesised, reading: reading_on };
    if reading == Reading::Tolerant && !synthesise::has_transactions(&app.procedures) {
        synthesise::synthesise(&mut app);
    }
    Ok(app)
}

/// The queries of sqlx' cache; each becomes one more source.
fn read_caches(sources: &mut Sources, schema: &Schema) -> Result<Vec<Block>, Diagnostic> {
    let mut blocks = Vec::new();
    for file in 0..sources.files.len() {
        if is_cache(&sources.files[file].name) {
            let block = sqlx::block(sources, file as u32);
            blocks.extend(schema.tolerate(block)?);
        }
    }
    Ok(blocks)
}

/// The first line of a text that PostgreSQL has already accepted, so that nothing in it is a mistake.
pub const ACCEPTED: &str = "-- weir: accepted by PostgreSQL\n";

/// By the comment or the settings that pg_dump begins with, or by ours.
fn is_dump(text: &str) -> bool {
    let head: String = text.chars().take(2000).collect();
    head.starts_with(ACCEPTED)
        || head.contains("-- PostgreSQL database dump")
        || head.contains("SET statement_timeout = 0;")
}

fn is_cache(name: &str) -> bool {
    name.ends_with(".json")
}

fn read_schema(
    sources: &Sources,
    schema: &mut Schema,
    blocks: &mut Vec<Block>,
) -> Result<Vec<AssertionStatement>, Diagnostic> {
    let cached: BTreeSet<u32> = blocks.iter().map(|block| block.span.file).collect();
    let mut texts = Vec::new();
    let mut statements: Vec<(usize, ParsedStatement)> = Vec::new();
    let mut said_of_assertions = Vec::new();
    for (index, source) in sources.files.iter().enumerate() {
        if is_cache(&source.name) || cached.contains(&(index as u32)) {
            texts.push(String::new());
            continue;
        }
        let (text, parsed, found) = read_statements(sources, index, schema, blocks)?;
        said_of_assertions.extend(found);
        statements.extend(parsed.into_iter().map(|statement| (index, statement)));
        texts.push(text);
    }
    fold_labels(schema, &mut statements)?;
    schema.texts = texts.iter().map(|text| text.as_str().into()).collect();
    apply(schema, statements, &|index| &texts[index])?;
    Ok(said_of_assertions)
}

/// The text of a file that the grammar takes, its statements, and what it says of assertions.
type FileStatements = (String, Vec<ParsedStatement>, Vec<AssertionStatement>);

fn read_statements(
    sources: &Sources,
    index: usize,
    schema: &Schema,
    blocks: &mut Vec<Block>,
) -> Result<FileStatements, Diagnostic> {
    let (file, source) = (index as u32, &sources.files[index]);
    if let Some(notes) = schema.notes.as_ref().filter(|_| is_dump(&source.text)) {
        notes.trust();
    }
    let mut text = sections::without_down(&source.text);
    if let Some((before, found)) = queries::split(file, &text)? {
        text = before;
        blocks.extend(found);
    }
    let (mut text, found) = assertion::split(file, &text, schema.notes.as_ref())?;
    let parsed = match (parse::parse_statements(Piece::new(file, 0, &text)), &schema.notes) {
        (Err(_), Some(notes)) => {
            text = without_broken(file, &text, notes);
            parse::parse_statements(Piece::new(file, 0, &text))?
        }
        (parsed, _) => parsed?,
    };
    Ok((text, parsed, found))
}

/// `text`: of the file of that number.
fn apply<'t>(
    schema: &mut Schema,
    statements: Vec<(usize, ParsedStatement)>,
    text: &dyn Fn(usize) -> &'t String,
) -> Result<(), Diagnostic> {
    for (index, statement) in statements {
        let piece = Piece::new(index as u32, 0, text(index));
        let (span, binds) = (statement.span, ddl::binds_rows(&statement.node));
        let of_views = schema.view_triggers.len();
        let result = schema.apply(piece, statement);
        let left_out = schema.tolerate(result)?.is_none();
        // A view's trigger counts where the view is written to.
        if let Some(name) = binds.filter(|_| left_out && schema.view_triggers.len() == of_views) {
            schema.unread.borrow_mut().push(Unread { name, table: None, span });
        }
    }
    Ok(())
}

/// Diagnostics about the schema as a whole.
fn finish_schema(
    schema: &mut Schema,
    said_of_assertions: Vec<AssertionStatement>,
) -> Result<Vec<PendingAssertion>, Diagnostic> {
    // Only now: a later statement may have changed what lies below a view.
    let targets: Vec<_> = schema
        .catalog
        .views
        .iter()
        .map(|view| {
            let by_trigger = schema.view_triggers.iter().any(|(name, _)| *name == view.name);
            match view.materialized || by_trigger {
                true => None,
                false => binder::view_target(&schema.catalog, view),
            }
        })
        .collect();
    for (view, target) in schema.catalog.views.iter_mut().zip(targets) {
        view.target = target;
    }
    let partial = schema.refuse_partial_partitions().and_then(|()| schema.refuse_bare_tables());
    schema.tolerate(partial)?;
    let mut assertions = std::mem::take(&mut schema.assertions);
    for said in said_of_assertions {
        let result = said.apply(&mut assertions);
        let passed = schema.tolerate(result)?.unwrap_or_default();
        if schema.is_running {
            let passed = passed.into_iter().map(|note| Diagnostic { severity: Severity::Info, ..note });
            schema.passed_over.borrow_mut().extend(passed);
        }
    }
    Ok(assertions)
}

/// Every statement that the grammar does not take by itself becomes blanks, with a note.
fn without_broken(file: u32, text: &str, notes: &Notes) -> String {
    let mut rest = text.to_owned();
    for (start, end) in parse::split(text) {
        let piece = Piece::new(file, start as u32, &text[start..end]);
        if let Err(error) = parse::parse_statements(piece) {
            notes.leave_out(error);
            assertion::blank(&mut rest, start, end);
        }
    }
    rest
}

/// ALTER TYPE … ADD VALUE goes into the CREATE TYPE before it.
fn fold_labels(schema: &Schema, statements: &mut Vec<(usize, ParsedStatement)>) -> Result<(), Diagnostic> {
    let mut at = 0;
    while at < statements.len() {
        let (before, rest) = statements.split_at_mut(at);
        if let node::Node::AlterEnumStmt(alter) = &rest[0].1.node {
            let mut name = ddl::altered_type(alter);
            let created = before.iter_mut().rev().find(|(_, one)| ddl::creates_type(&one.node, &mut name));
            if let Some((_, ParsedStatement { node: node::Node::CreateEnumStmt(create), .. })) = created {
                // In an analysis keep the existing labels.
                if let (Err((state, message)), None) = (ddl::fold_labels(create, alter), &schema.notes) {
                    let place = rest[0].1.span;
                    if state != SqlState::DUPLICATE_OBJECT || !alter.skip_if_new_val_exists {
                        return Err(Diagnostic::new(state, place, message));
                    }
                    schema.pass(state, place, &message);
                }
                statements.remove(at);
                continue;
            }
        }
        at += 1;
    }
    Ok(())
}

fn bind_assertions(
    schema: &Schema,
    assertions: Vec<PendingAssertion>,
    mentions: Option<&Mentions>,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Assertion> {
    let mut bound: Vec<Assertion> = Vec::new();
    for pending in assertions {
        if bound.iter().any(|other| other.name == pending.name) {
            errors.push(Diagnostic::new(
                SqlState::DUPLICATE_OBJECT,
                pending.name_span,
                format!("assertion \"{}\" already exists", pending.name),
            ));
            continue;
        }
        let (name, span, text) = (pending.name.clone(), pending.name_span, pending.text.trim().to_owned());
        let result = assertion::bind(&schema.context(), pending);
        match schema.tolerate(result) {
            Ok(Some(assertion)) => bound.push(assertion),
            // It may say anything of the tables that it names.
            Ok(None) => {
                let tables = mentions.map(|mentions| mentions.tables_of(&text)).unwrap_or_default();
                let expr = assertion::of_any_kind(&schema.catalog, tables, span);
                bound.push(Assertion { name, expr, text, span, comment_on: Default::default() });
            }
            Err(error) => errors.push(error),
        }
    }
    bound
}

/// Adds an unread part of the schema as an undecidable assertion: it may restrict or change the rows of its tables in any way.
fn add_unread(
    schema: &Schema,
    mentions: Option<&Mentions>,
    sources: &Sources,
    unread: Unread,
    assertions: &mut Vec<Assertion>,
) {
    let text = sources.text(unread.span).trim().to_owned();
    let mut tables: BTreeSet<TableId> =
        unread.table.into_iter().filter(|table| (table.0 as usize) < schema.catalog.tables.len()).collect();
    tables.extend(mentions.iter().flat_map(|mentions| mentions.tables_of(&text)));
    if tables.is_empty() {
        return;
    }
    let mut name = if unread.name.is_empty() { "left_out".to_owned() } else { unread.name };
    while assertions.iter().any(|other| other.name == name) {
        name.push('_');
    }
    let expr = assertion::of_any_kind(&schema.catalog, tables, unread.span);
    assertions.push(Assertion { name, expr, text, span: unread.span, comment_on: Default::default() });
}

fn piece_of<'s>(sources: &'s Sources, file: u32) -> Piece<'s> {
    let text = sources.files.get(file as usize).map_or("", |file| file.text.as_str());
    Piece::new(file, 0, text)
}

/// Signatures first, then bodies, so that procedures may call each other in any order.
fn bind_routines(
    sources: &Sources,
    schema: &mut Schema,
    blocks: &[Block],
    errors: &mut Vec<Diagnostic>,
) -> Vec<Procedure> {
    let all = std::mem::take(&mut schema.routines);
    let mentions = schema.notes.is_some().then(|| mentions(sources, schema, &all));
    let (for_triggers, routines): (Vec<PendingRoutine>, Vec<PendingRoutine>) = all
        .into_iter()
        .partition(|routine| schema.notes.is_some() && routine::returns_trigger(&routine.create));
    let mut signatures: Vec<Signature> = Vec::new();
    let mut known = Vec::new();
    for routine in &routines {
        let piece = piece_of(sources, routine.file);
        let result = routine::signature(&schema.context(), piece, &routine.create, routine.span);
        match schema.tolerate(result) {
            Ok(Some(signature)) => {
                signatures.push(signature);
                known.push(routine);
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Vec::new();
    }
    let surroundings = Surroundings {
        catalog: &schema.catalog,
        signatures: &signatures,
        notes: schema.notes.as_ref(),
        mentions: mentions.as_ref(),
        late_of: schema.is_running.then_some(sources.files.len() as u32),
    };
    let mut procedures = Vec::new();
    for (index, routine) in known.into_iter().enumerate() {
        let piece = piece_of(sources, routine.file);
        match bind_procedure(surroundings, index, piece, &routine.create, routine.span) {
            Ok(mut procedure) => {
                procedure.serializable |= routine.serializable;
                procedures.push(procedure);
            }
            Err(error) => errors.push(error),
        }
    }
    for block in blocks {
        let bound = match procedures.iter().any(|other| other.name == block.name) {
            true => Err(Diagnostic::new(
                SqlState::DUPLICATE_FUNCTION,
                block.span,
                format!("there is another transaction named {}", block.name),
            )),
            false => queries::bind(surroundings, piece_of(sources, block.body.file), block),
        };
        match schema.tolerate(bound) {
            Ok(procedure) => procedures.extend(procedure),
            Err(error) => errors.push(error),
        }
    }
    let mut triggers = Vec::new();
    for pending in &schema.triggers {
        let function = for_triggers.iter().find(|routine| routine::creates(&routine.create, &pending.create));
        let function = function.map(|routine| (piece_of(sources, routine.file), routine));
        let trigger = bind_trigger(surroundings, piece_of(sources, pending.file), pending, function);
        match schema.tolerate(trigger) {
            Ok(Some(trigger)) => triggers.push(trigger),
            Ok(None) => {
                let (name, table) = (pending.create.trigname.clone(), Some(pending.table));
                schema.unread.borrow_mut().push(Unread { name, table, span: pending.span });
            }
            Err(error) => errors.push(error),
        }
    }
    schema.catalog.triggers = triggers;
    procedures
}

fn mentions(sources: &Sources, schema: &Schema, routines: &[PendingRoutine]) -> Mentions {
    let named = routines.iter().map(|routine| {
        let name = routine::simple_name(&routine.create.funcname, routine.span).unwrap_or_default();
        (name, sources.text(routine.span))
    });
    let triggers = schema.view_triggers.iter().map(|(view, function)| (view.clone(), function.as_str()));
    let views = schema.unbound_views.iter().map(|(name, span)| (name.clone(), sources.text(*span)));
    Mentions::new(&schema.catalog, named.chain(triggers), views)
}
