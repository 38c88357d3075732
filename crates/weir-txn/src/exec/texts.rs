//! Ad-hoc statements: each is checked against the procedures and compiled at its first use (design.md §4, "the world is never assumed
//! closed"; soundness S1).
//!
//! The result is a function of the text, the application and its plan, so every process gets the same one, and this module only caches
//! it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_analysis::open_world::{Judgement, OpenWorld, Refusal};
use weir_analysis::plan::{GuardKind, Mechanism, Placement, Plan, TransactionPlan};
use weir_analysis::reasons::{self, Reason};
use weir_sql::bound::{Procedure, Statement, Step, StepKind};
use weir_sql::catalog::{Assertion, TableId};
use weir_sql::{Application, Diagnostic, Span, Text, anonymous, bind_block, bind_statement, is_block};
use weir_types::{Recent, SqlError, SqlState, SqlType, Value};

use super::assertion::incremental::Links;
use super::assertion::{violated, violating};
use super::compile::proven::Proven;
use super::compile::{self, Closed};
use super::first_rows::FirstRows;
use super::gather::Gather;
use super::names::Name;
use super::plpgsql::code::{Code, Owner};
use super::program::{CompileError, CompiledProcedure, Program};
use super::routing::{Router, asks_elsewhere};
use super::write::CompiledUpdate;
use super::write::changed::{Watched, WatchedKey};
use super::{admission, folding};
use crate::exec::counts::RowCounts;

/// An ad-hoc statement that shards run.
#[derive(Debug)]
pub struct CompiledText {
    pub procedure: CompiledProcedure,
    pub plan: TransactionPlan,
    /// Every UPDATE of the statement and of its slice, by number.
    pub updates: Vec<Arc<CompiledUpdate>>,
}

/// Code that a call runs.
#[derive(Debug)]
pub enum Runs<'p> {
    Procedure(&'p CompiledProcedure),
    Text(Arc<CompiledText>),
    Nothing(Box<CompiledProcedure>),
}

impl Deref for Runs<'_> {
    type Target = CompiledProcedure;

    fn deref(&self) -> &CompiledProcedure {
        match self {
            Runs::Procedure(procedure) => procedure,
            Runs::Text(text) => &text.procedure,
            Runs::Nothing(nothing) => nothing,
        }
    }
}

/// Locks that an ad-hoc statement needs.
#[derive(Default)]
struct Locks {
    /// Reasons. Without any it needs none.
    whys: Vec<String>,
    excludes: bool,
    /// Assertions, by their index.
    checks: Vec<usize>,
}

/// Longest accepted text: it is compiled on a shard's thread while other requests wait.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Number of recently used texts that are kept at least; at most twice as many are kept.
const KEPT: usize = 1_024;

#[derive(Debug)]
pub struct Texts {
    application: Arc<Application>,
    plan: Arc<Plan>,
    /// Closed-world assumptions of the compiled program.
    closed: Arc<Closed>,
    world: Arc<OnceLock<OpenWorld>>,
    /// Of texts that come for the first time.
    judging: Judging,
    known: Mutex<Recent<Text, Judged>>,
    /// Texts judged by any user of the same program in this process. None is judged again.
    judged: Arc<Mutex<Recent<Text, Judged>>>,
    /// Texts that have been run before, and are compiled without being judged: a log names the same text again and again.
    trusted: Mutex<Recent<Text, Judged>>,
    queries: Mutex<Recent<Text, Compiled>>,
    /// By procedure: its code for the coordinator, once it is asked for.
    codes: Arc<[OnceLock<CompiledCode>]>,
    /// Of DO blocks, in the same way.
    blocks: Mutex<Recent<Text, CompiledCode>>,
    /// By assertion: how it is checked for changed rows, once that is asked for.
    links: Arc<[OnceLock<Links>]>,
    counts: RowCounts,
}

/// When a statement is judged: whether the procedures run correctly beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judging {
    Now,
    /// Before it was first run: a log names only statements that have been run.
    Before,
}

type Compiled = Result<Arc<Gather>, CompileError>;
type CompiledCode = Result<Arc<Code>, CompileError>;
type Judged = Result<Arc<CompiledText>, CompileError>;

impl Texts {
    /// `closed`: assumptions of the program.
    pub(super) fn new(
        application: Arc<Application>,
        plan: Arc<Plan>,
        closed: Arc<Closed>,
        judging: Judging,
    ) -> Texts {
        Texts {
            counts: RowCounts::new(application.catalog.tables.len()),
            codes: application.procedures.iter().map(|_| OnceLock::new()).collect(),
            links: application.assertions.iter().map(|_| OnceLock::new()).collect(),
            application,
            plan,
            closed,
            world: Arc::default(),
            judged: Arc::new(Mutex::new(Recent::new(KEPT))),
            judging,
            known: Mutex::new(Recent::new(KEPT)),
            trusted: Mutex::new(Recent::new(KEPT)),
            queries: Mutex::new(Recent::new(KEPT)),
            blocks: Mutex::new(Recent::new(KEPT)),
        }
    }

    /// For somebody else who runs the same program.
    pub(super) fn share(&self) -> Texts {
        Texts {
            application: self.application.clone(),
            plan: self.plan.clone(),
            closed: self.closed.clone(),
            world: self.world.clone(),
            judging: self.judging,
            known: Mutex::new(Recent::new(KEPT)),
            judged: self.judged.clone(),
            trusted: Mutex::new(Recent::new(KEPT)),
            queries: Mutex::new(Recent::new(KEPT)),
            blocks: Mutex::new(Recent::new(KEPT)),
            codes: self.codes.clone(),
            links: self.links.clone(),
            counts: RowCounts::new(self.application.catalog.tables.len()),
        }
    }

    /// A query, which writes nothing and is not judged.
    ///
    /// # Errors
    /// The text is invalid or not supported.
    pub(super) fn query(&self, program: &Program, text: &Text) -> Compiled {
        let known = || self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known().get(text) {
            return compiled.clone();
        }
        let compiled = self.compile_query(program, text).map(Arc::new);
        known().put(text.clone(), compiled.clone());
        compiled
    }

    /// Reports current row counts; queries are compiled again if their plans may change.
    pub(super) fn count(&self, rows: impl Iterator<Item = usize>) {
        if self.counts.tell(rows) {
            *self.queries.lock().unwrap_or_else(PoisonError::into_inner) = Recent::new(KEPT);
        }
    }

    fn compile_query(&self, program: &Program, text: &Text) -> Result<Gather, CompileError> {
        let (statement, types) = self.bind(program, text)?;
        let (Statement::Query(query), true) = (&statement, types == text.types) else {
            return Err(refused(statement.span(), "a statement that writes as a query", ""));
        };
        let catalog = &self.application.catalog;
        let router = Router { catalog, plan: &self.plan, proven: &Proven::default() };
        Gather::compile_text(query, text, router, program, &self.counts)
            .map_err(|error| CompileError { span: query.span, error })
    }

    /// Code of a procedure for the coordinator.
    pub(super) fn code(&self, program: &Program, procedure: usize) -> CompiledCode {
        let (Some(known), Some(source)) =
            (self.codes.get(procedure), self.application.procedures.get(procedure))
        else {
            return Err(internal("there is no procedure of that number"));
        };
        let asks_elsewhere = asks_elsewhere(&self.application.catalog, &self.plan, program.shards);
        let compile = || {
            let procedure = (Owner::Procedure(procedure), source);
            Code::compile(&self.application, &program.schema, procedure, &asks_elsewhere).map(Arc::new)
        };
        known.get_or_init(compile).clone()
    }

    /// Code of a DO block for the coordinator.
    pub(super) fn block_code(&self, program: &Program, block: &str) -> CompiledCode {
        let text = Text { sql: block.to_owned(), types: Vec::new() };
        let known = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known().get(&text) {
            return compiled.clone();
        }
        let compiled = self.compile_block(program, block).map(Arc::new);
        known().put(text, compiled.clone());
        compiled
    }

    fn compile_block(&self, program: &Program, block: &str) -> Result<Code, CompileError> {
        let catalog = &self.application.catalog;
        let procedure = bind_block(catalog, block).map_err(unbound)?;
        let asks_elsewhere = asks_elsewhere(catalog, &self.plan, program.shards);
        let owned = (Owner::Block(block), &procedure);
        Code::compile(&self.application, &program.schema, owned, &asks_elsewhere)
    }

    /// The query for rows that violate an assertion, and the types of its parameters.
    fn violating(
        &self,
        assertion: usize,
        link: Option<u32>,
    ) -> Result<(Statement, Vec<SqlType>), CompileError> {
        let (of, catalog) = (self.assertion(assertion)?, &self.application.catalog);
        let (query, types) = match link {
            None => (violating(of, catalog), Vec::new()),
            Some(link) => {
                let links = self.links(assertion)?;
                let narrowed = links.link(link).and_then(|link| link.narrowed(of, catalog));
                narrowed.ok_or_else(|| internal("the assertion has no link of that number"))?
            }
        };
        Ok((Statement::Query(query), types))
    }

    pub(super) fn check_of(&self, assertion: usize, link: Option<u32>) -> Result<Arc<Text>, CompileError> {
        let (_, types) = self.violating(assertion, link)?;
        Ok(Arc::new(Text { sql: Name::Check { assertion, link }.to_string(), types }))
    }

    fn links(&self, assertion: usize) -> Result<&Links, CompileError> {
        let of = self.assertion(assertion)?;
        let known = &self.links[assertion];
        Ok(known.get_or_init(|| Links::of(of, &self.application.catalog)))
    }

    /// The tables whose changes a statement notes that checks these assertions.
    fn watched(&self, checks: &[usize]) -> Result<Option<Arc<Watched>>, CompileError> {
        if checks.is_empty() {
            return Ok(None);
        }
        let mut watched = Watched::default();
        for &assertion in checks {
            let links = self.links(assertion)?;
            let assertion = assertion as u32;
            watched.assertions.push(assertion);
            for table in &self.application.catalog.tables {
                let keys = links.of_table(table.id).map(|number| WatchedKey {
                    assertion,
                    link: number.and_then(|number| Some((number, links.link(number)?.columns.clone()))),
                });
                watched.tables.entry(table.id).or_default().extend(keys);
            }
        }
        watched.tables.retain(|_, keys| !keys.is_empty());
        Ok(Some(Arc::new(watched)))
    }

    fn assertion(&self, assertion: usize) -> Result<&Assertion, CompileError> {
        self.application
            .assertions
            .get(assertion)
            .ok_or_else(|| internal("there is no assertion of that number"))
    }

    /// Error of a transaction after which an assertion does not hold. `row`: of its check.
    pub(super) fn violated(&self, assertion: usize, row: &[Value]) -> SqlError {
        match self.assertion(assertion) {
            Ok(assertion) => violated(assertion, &self.application.catalog, row),
            Err(wrong) => wrong.error,
        }
    }

    fn bind(&self, program: &Program, text: &Text) -> Result<(Statement, Vec<SqlType>), CompileError> {
        refuse_long(text)?;
        let (mut statement, types) = match Name::of(&text.sql) {
            Some(Name::Statement { procedure, statement }) => {
                statement_of(&*self.code(program, procedure)?, statement)?
            }
            Some(Name::BlockStatement { block, statement }) => {
                statement_of(&*self.block_code(program, block)?, statement)?
            }
            Some(Name::Check { assertion, link }) => self.violating(assertion, link)?,
            Some(Name::Candidates { own, of }) => {
                let (first, mut types) = self.first_rows(program, text, (own, of))?;
                types.push(SqlType::Int8);
                (Statement::Query(first.candidates), types)
            }
            Some(Name::Candidate { own, of }) => {
                let (first, mut types) = self.first_rows(program, text, (own, of))?;
                types.extend(first.key);
                (Statement::Query(first.candidate), types)
            }
            None => {
                bind_statement(&self.application.catalog, &text.sql, Some(&text.types)).map_err(unbound)?
            }
        };
        if folding::may_fold(&statement) {
            // An error in a constant is reported by the client's side, where the query is planned.
            let _ = folding::fold(&mut statement);
        }
        Ok((statement, types))
    }

    /// The queries of a statement that locks its first rows, and the types of its `own` parameters.
    fn first_rows(
        &self,
        program: &Program,
        text: &Text,
        (own, of): (usize, &str),
    ) -> Result<(FirstRows, Vec<SqlType>), CompileError> {
        let types = text.types.get(..own).ok_or_else(|| internal("it has fewer parameters"))?.to_vec();
        let (statement, types) = self.bind(program, &Text { sql: of.to_owned(), types })?;
        let (catalog, proven) = (&self.application.catalog, &Proven::default());
        let router = Router { catalog, plan: &self.plan, proven };
        let first = match &statement {
            Statement::Query(query) => FirstRows::of(&router, query, own),
            _ => None,
        };
        Ok((first.ok_or_else(|| internal("the statement locks no first rows"))?, types))
    }

    /// # Errors
    /// The text is invalid or not supported, or the procedures could not run correctly beside it.
    pub(super) fn get(&self, program: &Program, text: &Text) -> Judged {
        if let Some(judged) = self.known().get(text) {
            return judged.clone();
        }
        let found = self.judged().get(text).cloned();
        let judged = found.unwrap_or_else(|| {
            // Others may do the same meanwhile, and find the same.
            let judged = self.judge(program, text, self.judging).map(Arc::new);
            self.judged().put(text.clone(), judged.clone());
            judged
        });
        self.known().put(text.clone(), judged.clone());
        judged
    }

    fn known(&self) -> MutexGuard<'_, Recent<Text, Judged>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judged(&self) -> MutexGuard<'_, Recent<Text, Judged>> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a statement that has been admitted before, without checking it: its operations need no guard.
    pub(super) fn again(&self, program: &Program, text: &Text) -> Judged {
        if let Some(Ok(judged)) = self.known().get(text) {
            return Ok(judged.clone());
        }
        if let Some(Ok(judged)) = self.judged().get(text) {
            return Ok(judged.clone());
        }
        let trusted = || self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = trusted().get(text) {
            return compiled.clone();
        }
        let compiled = self.judge(program, text, Judging::Before).map(Arc::new);
        trusted().put(text.clone(), compiled.clone());
        compiled
    }

    /// Binds the statement as a procedure of its own.
    fn bind_write(
        &self,
        program: &Program,
        text: &Text,
        judging: Judging,
    ) -> Result<Procedure, CompileError> {
        let catalog = &self.application.catalog;
        if is_block(&text.sql) {
            refuse_long(text)?;
            let procedure = bind_block(catalog, &text.sql).map_err(unbound)?;
            let mut refused = Ok(());
            compile::each_statement(&procedure.body, &mut |statement, _| {
                if refused.is_ok() && judging == Judging::Now {
                    refused = self.refuse_what_was_excluded(statement);
                }
            });
            return refused.map(|()| procedure);
        }
        let (statement, types) = self.bind(program, text)?;
        if types != text.types {
            return Err(refused(Span::default(), "parameters of other types than the text has", ""));
        }
        if judging == Judging::Now {
            self.refuse_what_was_excluded(&statement)?;
        }
        anonymous(catalog, statement, &types)
            .ok_or_else(|| refused(Span::default(), "a query as a statement that writes", ""))
    }

    fn judge(&self, program: &Program, text: &Text, judging: Judging) -> Result<CompiledText, CompileError> {
        match Name::of(&text.sql) {
            Some(Name::Statement { procedure, .. }) => {
                let of = |plan: &&TransactionPlan| plan.procedure == procedure;
                let plan = self.plan.transactions.iter().find(of);
                let plan = plan.ok_or_else(|| internal("the procedure has no plan"))?;
                let checks: Vec<usize> = admission::checks(plan).map(|(assertion, _)| assertion).collect();
                return self.compile_statement_of(program, text, plan, self.watched(&checks)?);
            }
            Some(Name::BlockStatement { block, .. }) => {
                let block = self.get(program, &Text { sql: block.to_owned(), types: Vec::new() })?;
                let watched = block.procedure.watched.clone();
                return self.compile_statement_of(program, text, &block.plan, watched);
            }
            Some(Name::Check { .. } | Name::Candidates { .. } | Name::Candidate { .. }) | None => {}
        }
        let procedure = self.bind_write(program, text, judging)?;
        self.compile(program, text, procedure, judging)
    }

    /// Compiles a statement of a procedure or block, which has been judged with it: under the guards of that plan.
    fn compile_statement_of(
        &self,
        program: &Program,
        text: &Text,
        plan: &TransactionPlan,
        watched: Option<Arc<Watched>>,
    ) -> Result<CompiledText, CompileError> {
        let statement = self.bind_write(program, text, Judging::Before)?;
        // Its order is that of the locks of the transaction, which checks the assertions behind all its statements.
        let mut plan = TransactionPlan { mechanism: Mechanism::Ramp, ..plan.clone() };
        plan.guards.retain(|guard| !matches!(guard.kind, GuardKind::Check(_)));
        let alone = Plan { placement: self.plan.placement.clone(), transactions: vec![plan.clone()] };
        let (mut procedure, updates) =
            compile::text(&self.application, &alone, program, (plan.procedure, &statement), text)?;
        procedure.watched = watched;
        Ok(CompiledText { procedure, plan, updates })
    }

    /// Reasons of the statement's plan.
    pub(super) fn reasons(&self, program: &Program, text: &Text) -> Result<Vec<Reason>, CompileError> {
        Ok(reasons::of_statement(self.world(), self.bind_write(program, text, self.judging)?))
    }

    fn world(&self) -> &OpenWorld {
        self.world.get_or_init(|| OpenWorld::new(&self.application, &self.plan.placement))
    }

    fn compile(
        &self,
        program: &Program,
        text: &Text,
        procedure: Procedure,
        judging: Judging,
    ) -> Result<CompiledText, CompileError> {
        let world = self.world();
        let mut locks = Locks::default();
        let Judgement { mut plan, refusals, endangered } = match judging {
            Judging::Before => world.plan(procedure.clone()),
            Judging::Now => world.admit(procedure.clone()),
        };
        if !refusals.is_empty() {
            // Its order is that of its locks.
            plan.mechanism = Mechanism::Ramp;
        }
        if judging == Judging::Now {
            locks.whys.extend(refusals.iter().map(|one| admission::of_statement(&procedure.name, one)));
            locks.checks = refusals.iter().filter_map(|one| self.unchecked(one)).collect();
            locks.excludes =
                endangered.iter().any(|&one| !program.procedures[one].is_ordered_by_locks(program));
            self.lock_for_children(program, &procedure, &mut locks);
        }
        let takes = |step: &Step| matches!(&step.kind, StepKind::Sql { statement, .. } if matches!(&**statement, Statement::Query(query) if query.takes_values()));
        // Handing out a sequence value must be logged.
        plan.read_only &= !procedure.body.iter().any(takes);
        let alone = Plan { placement: self.plan.placement.clone(), transactions: vec![plan.clone()] };
        let (mut procedure, updates) =
            compile::text(&self.application, &alone, program, (plan.procedure, &procedure), text)?;
        if !locks.whys.is_empty() {
            let Locks { whys, excludes, checks } = locks;
            procedure.watched = self.watched(&checks)?;
            procedure.admission = procedure.admission.under_locks((whys.join("; "), excludes), checks);
            plan.mechanism = Mechanism::General;
        }
        Ok(CompiledText { procedure, plan, updates })
    }

    /// The assertion that a transaction is not shown to keep by itself, by its index.
    fn unchecked(&self, refusal: &Refusal) -> Option<usize> {
        let Refusal::Unchecked { assertion, .. } = refusal else { return None };
        self.application.assertions.iter().position(|one| one.name == *assertion)
    }

    /// A statement that removes parents, or gives them other keys, beside procedures that were compiled for a world in which nobody does so:
    /// their INSERTs of children hold no parent. They are ordered by the children that the statement looks for.
    fn lock_for_children(&self, program: &Program, procedure: &Procedure, locks: &mut Locks) {
        if self.closed.is_everything() {
            return;
        }
        let catalog = &self.application.catalog;
        compile::each_statement(&procedure.body, &mut |statement, _| {
            let now = Closed::of_statement(catalog, statement);
            let is_parent = |table: &&TableId| {
                catalog.tables.iter().flat_map(|child| &child.foreign_keys).any(|key| key.parent == **table)
            };
            let excluded =
                |table: &&TableId| !self.closed.may_lose_rows(catalog.table(**table)) && is_parent(table);
            if let Some(&parent) = now.deleted().iter().find(excluded) {
                let parent = &catalog.table(parent).name;
                locks.whys.push(format!(
                    "no procedure removes a row of {parent} or changes its key, so their INSERTs of children hold no parent"
                ));
                locks.excludes |= program.procedures.iter().any(|one| !one.is_ordered_by_locks(program));
            }
        });
    }

    /// Rejects a statement that breaks an assumption of the compiled procedures.
    fn refuse_what_was_excluded(&self, statement: &Statement) -> Result<(), CompileError> {
        let catalog = &self.application.catalog;
        let (table, span) = match statement {
            Statement::Query(query) => {
                let is_everywhere = |table: &&TableId| *self.plan.placement(**table) == Placement::Replicated;
                return match query.held_tables().iter().find(is_everywhere) {
                    None => Ok(()),
                    Some(&table) => Err(refused(
                        query.span,
                        format!(
                            "FOR UPDATE of rows of {}, of which every shard has a copy",
                            catalog.table(table).name
                        ),
                        "lock the rows of the other tables: FOR UPDATE OF …",
                    )),
                };
            }
            Statement::Insert(insert) => (insert.table, statement.span()),
            Statement::Update(update) => (update.table, statement.span()),
            Statement::Delete(delete) => (delete.table, statement.span()),
        };
        let name = &catalog.table(table).name;
        if *self.plan.placement(table) == Placement::Replicated && !catalog.table(table).replicated {
            return Err(refused(
                span,
                format!("a write to {name}, of which every shard has a copy because no procedure writes it"),
                "write a procedure that does it, so that the table is placed on one shard or another; or say that it is copied: COMMENT ON TABLE … IS 'weir: replicated'",
            ));
        }
        if self.closed.is_everything() {
            return Ok(());
        }
        let now = Closed::of_statement(catalog, statement);
        let excluded =
            |(table, column): &&(TableId, usize)| !self.closed.may_be_chosen(catalog.table(*table), *column);
        if let Some(&(table, column)) = now.chosen().iter().find(excluded) {
            let table = catalog.table(table);
            if table.columns[column].default.as_ref().is_some_and(super::sequences::generates_id) {
                return Err(refused(
                    span,
                    format!(
                        "a chosen value of {}.{}, which is always generated",
                        table.name, table.columns[column].name
                    ),
                    "leave the column out: the database generates its values, of which no two are the same",
                ));
            }
        }
        Ok(())
    }
}

/// The statement with that number, and the types of its parameters.
fn statement_of(code: &Code, statement: usize) -> Result<(Statement, Vec<SqlType>), CompileError> {
    let known = code.statements.get(statement).map(|one| (one.statement.clone(), one.text.types.clone()));
    known.ok_or_else(|| internal("there is no statement of that number"))
}

fn refuse_long(text: &Text) -> Result<(), CompileError> {
    if text.sql.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a statement of {} bytes, and {TEXT_BYTES_MAX} is the most", text.sql.len());
    let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    Err(CompileError { span: Span::default(), error: error.with_hint("send its rows in several statements") })
}

/// The name of a procedure's statement names none: a mistake of Weir, not of a client.
fn internal(what: &str) -> CompileError {
    CompileError { span: Span::default(), error: SqlError::new(SqlState::INTERNAL_ERROR, what) }
}

fn unbound(wrong: Diagnostic) -> CompileError {
    let error = SqlError::new(wrong.state, wrong.message);
    let error = wrong.hint.into_iter().fold(error, SqlError::with_hint);
    CompileError { span: wrong.span, error }
}

fn refused(span: Span, what: impl Into<String>, hint: &str) -> CompileError {
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported: {}", what.into()));
    let error = if hint.is_empty() { error } else { error.with_hint(hint) };
    CompileError { span, error }
}
