//! An application and its workload for the simulator: its rows as snapshots, its calls from a seed, its invariants.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_analysis::Analysis;
use weir_analysis::plan::Plan;
use weir_sim::Audit;
use weir_sim::calls::{Counted, Job, Report, Script, Setup, Violated, run, run_script};
use weir_sql::Application;
use weir_sql::bound::{InsertSource, Procedure, Statement, Step, StepKind};
use weir_sql::catalog::{ForeignKey, TableId};
use weir_sql::walk::each_step;
use weir_txn::exec::definition::Description;
use weir_txn::exec::program::Program;
use weir_txn::faults::Faults;
use weir_txn::message::{Call, Callee};
use weir_txn::storage::Rows;
use weir_types::Value;
use weir_types::memory::WorkingMemory;

use crate::check::Invariants;
use crate::run::{RunError, RunOptions, load};
use crate::workload::{CallGenerator, Workload};

/// Rows for audits to choose from.
const AUDIT_KEYS_MAX: usize = 256;

/// Check of an application's rows besides its invariants: returns a description of a violation.
pub type Check = Arc<dyn Fn(&dyn Rows) -> Option<String> + Send + Sync>;

/// An application that is simulated seed by seed, on as many shards as each seed says.
pub struct Simulated<'a> {
    application: &'a Application,
    analysis: &'a Analysis,
    workload: &'a Arc<Workload>,
    check: Option<Check>,
    /// Number of SQL sources, if its schema may be changed; they are the first ones.
    defines: Option<usize>,
    /// Changes the program before it runs.
    with_texts: fn(Program, &Application, &Plan) -> Program,
    /// By the number of shards, by whether statements are trusted, and by whether calls are the workload's.
    jobs: BTreeMap<(u16, bool, bool), Arc<Job>>,
}

impl<'a> Simulated<'a> {
    pub fn new(
        application: &'a Application,
        analysis: &'a Analysis,
        workload: &'a Arc<Workload>,
    ) -> Simulated<'a> {
        Simulated {
            application,
            analysis,
            workload,
            check: None,
            defines: None,
            with_texts: Program::with_texts,
            jobs: BTreeMap::new(),
        }
    }

    /// Changes the program before it runs; see [`RunOptions::with_texts`].
    pub fn with_texts(self, with_texts: fn(Program, &Application, &Plan) -> Program) -> Simulated<'a> {
        Simulated { with_texts, ..self }
    }

    /// Adds a check of the final state besides the declared invariants.
    pub fn with_check(self, check: Check) -> Simulated<'a> {
        Simulated { check: Some(check), ..self }
    }

    /// Allows schema changes; the first `files` sources are SQL.
    pub fn with_definitions(self, files: usize) -> Simulated<'a> {
        Simulated { defines: Some(files), ..self }
    }

    /// One run. The error is one of the application or its workload.
    pub fn run<F: Faults>(&mut self, setup: &Setup<F>) -> Result<Report, RunError> {
        let workload = self.workload;
        let mut generators: BTreeMap<usize, CallGenerator> = BTreeMap::new();
        let mut wrong = None;
        let mut next_call = |session: usize| {
            let generator = generators
                .entry(session)
                .or_insert_with(|| CallGenerator::new(workload, setup.seed, session as u64));
            let call = generator.next_call().unwrap_or_else(|error| {
                let call = crate::workload::Call { procedure: 0, args: Vec::new() };
                wrong.get_or_insert(error);
                call
            });
            Call {
                callee: Callee::Procedure(call.procedure),
                args: call.args,
                transaction_time: 0.into(),
                schema_version: 0,
                memory: WorkingMemory::default(),
            }
        };
        let report = self.run_counted(setup, true, &mut next_call)?;
        match wrong {
            None => Ok(report),
            Some(error) => Err(RunError::Sql("making a call".to_string(), error)),
        }
    }

    /// One run of other calls than the workload's: the next one of a session, which is told its number.
    pub fn run_calls<F: Faults>(
        &mut self,
        setup: &Setup<F>,
        next_call: &mut dyn FnMut(usize) -> Call,
    ) -> Result<Report, RunError> {
        self.run_counted(setup, false, next_call)
    }

    /// `counts`: nothing else than the workload's calls adds rows.
    fn run_counted<F: Faults>(
        &mut self,
        setup: &Setup<F>,
        counts: bool,
        next_call: &mut dyn FnMut(usize) -> Call,
    ) -> Result<Report, RunError> {
        let shards = setup.shards.unwrap_or(1 + (setup.seed % 4) as u16);
        let which = (shards, setup.bugs.trusts_statements(), counts);
        if !self.jobs.contains_key(&which) {
            let mut job = self.job(shards, &setup.bugs)?;
            if !counts {
                job.counted.clear();
            }
            self.jobs.insert(which, Arc::new(job));
        }
        Ok(run(&self.jobs[&which], setup, next_call))
    }

    /// One run of sessions that do what a script says.
    pub fn run_script<F: Faults>(
        &mut self,
        setup: &Setup<F>,
        script: impl Script,
    ) -> Result<Report, RunError> {
        let shards = setup.shards.unwrap_or(1 + (setup.seed % 4) as u16);
        let mut job = self.job(shards, &setup.bugs)?;
        job.counted.clear();
        Ok(run_script(&Arc::new(job), setup, script))
    }

    fn job(&self, shards: u16, faults: &impl Faults) -> Result<Job, RunError> {
        let mut options = RunOptions::new(shards);
        options.with_texts = match faults.trusts_statements() {
            true => Program::with_trusted_texts,
            false => self.with_texts,
        };
        let loaded = load(self.application, self.analysis, self.workload, &options, true, &mut |_| ())?;
        let (mut program, population, keys) = loaded.into_snapshots();
        if let Some(files) = self.defines {
            let described = Description::new(self.application, files, &self.analysis.plan).compile(shards);
            let failed = |error| RunError::Sql("compiling a description".into(), error);
            program = Arc::new(described.map_err(failed)?);
        }
        let mut invariants = Invariants::compile(self.application, self.analysis, &program)?;
        let audit = |(name, table, gather)| {
            let mut keys: Vec<Vec<Value>> = keys.get(&table)?.clone();
            keys.truncate(AUDIT_KEYS_MAX);
            Some(Audit { name, gather, keys }).filter(|audit| !audit.keys.is_empty())
        };
        let audits = invariants.take_audits().into_iter().filter_map(audit).collect();
        Ok(Job {
            population,
            audits,
            counted: counted(self.application),
            violated: violated(invariants, program.clone(), self.check.clone()),
            program,
        })
    }
}

fn violated(invariants: Invariants, program: Arc<Program>, check: Option<Check>) -> Violated {
    Box::new(move |rows| {
        let own = check.as_ref().and_then(|check| check(rows)).map(|seen| ("check".to_string(), seen));
        match invariants.check(rows, &program, &mut |_| ()) {
            Ok(reports) => {
                let broken = reports.into_iter().filter(|report| !report.holds);
                broken.map(|report| (report.id, format!("{:?}", report.violation))).chain(own).collect()
            }
            Err(error) => vec![("checking".to_string(), format!("{error:?}"))],
        }
    })
}

/// Tables without deletes into which each call of some procedures inserts exactly one row, and no other procedure any.
fn counted(application: &Application) -> Vec<Counted> {
    let tables = application.catalog.tables.iter().map(|table| table.id);
    tables.filter_map(|table| count_by(application, table)).collect()
}

fn count_by(application: &Application, table: TableId) -> Option<Counted> {
    let mut callees = Vec::new();
    for (at, procedure) in application.procedures.iter().enumerate() {
        let (mut writes, mut deletes, mut calls) = (0, false, false);
        each_step(&procedure.body, &mut |step| match &step.kind {
            StepKind::Sql { statement, .. } => match &**statement {
                Statement::Insert(insert) => writes += u32::from(insert.table == table),
                Statement::Delete(delete) => {
                    // A cascade might delete from it, so its rows are not counted.
                    let refers = |key: &ForeignKey| key.parent == delete.table;
                    deletes |= delete.table == table
                        || application.catalog.table(table).foreign_keys.iter().any(refers);
                }
                Statement::Query(_) | Statement::Update(_) => {}
            },
            StepKind::Call { .. } => calls = true,
            _ => {}
        });
        if deletes || (calls && writes > 0) {
            return None;
        }
        match writes {
            0 => {}
            1 if inserts_once(procedure, table) => callees.push(Callee::Procedure(at)),
            _ => return None,
        }
    }
    (!callees.is_empty()).then_some(Counted { table, callees })
}

/// At the top level, one row, unconditionally, and not behind a RETURN.
fn inserts_once(procedure: &Procedure, table: TableId) -> bool {
    let is_it = |step: &Step| {
        let StepKind::Sql { statement, .. } = &step.kind else { return false };
        let Statement::Insert(insert) = &**statement else { return false };
        let is_one = matches!(&insert.source, InsertSource::Values(rows) if rows.len() == 1);
        insert.table == table && insert.on_conflict.is_none() && is_one
    };
    let mut returns = false;
    each_step(&procedure.body, &mut |step| returns |= matches!(step.kind, StepKind::Return { .. }));
    !returns && top_level(&procedure.body).iter().any(|step| is_it(step))
}

fn top_level(steps: &[Step]) -> Vec<&Step> {
    let inner = |step| match step {
        &Step { kind: StepKind::Block { ref body, .. }, .. } => top_level(body),
        step => vec![step],
    };
    steps.iter().flat_map(inner).collect()
}
