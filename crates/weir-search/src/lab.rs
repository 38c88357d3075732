//! Immutable data shared by all experiments: the procedures compiled without guards, and the invariants as checks.
//!
//! An application that is only to be analysed may hold what the executor cannot run. Such procedures, and those
//! that touch tables which the engine would not keep as PostgreSQL does, are set aside by name, never guessed at.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use weir_analysis::effects::Operation;
use weir_analysis::{Analysis, Invariant, InvariantId, InvariantKind, ProcedureEffects};
use weir_sql::bound::{
    Expr, ExprKind, FromItem, Insert, Raise, RaiseLevel, RelationId, Statement, Step, StepKind,
};
use weir_sql::catalog::{Catalog, Column, ColumnIndex, Index, IndexKey, TableId};
use weir_sql::walk::{Part, each_part, each_step};
use weir_sql::{Application, Span};
use weir_txn::exec::program::Program;
use weir_txn::invariant::InvariantCheck;
use weir_txn::storage::layout::Layout;
use weir_txn::storage::{Rows, Storage};
use weir_types::{SqlState, SqlType, Value};

use crate::domain::Uses;
use crate::guards::Guards;
use crate::literals::{self, Constant};
use crate::partial::{self, is_understood};
use crate::seed::Plan;
use crate::state::{State, View};

/// Largest number of refused procedures that are excluded one by one; beyond it nothing is searched.
const REFUSED_MAX: usize = 40;

pub struct Lab<'a> {
    pub application: Application,
    pub analysis: &'a Analysis,
    pub program: Program,
    /// Program in which INSERT … ON CONFLICT is an error, so that a successful call has executed none. Present only if a procedure
    /// inserts into one table both with and without it.
    pub without_upserts: Option<Program>,
    /// By table.
    pub layouts: Vec<Layout>,
    /// By procedure: why it is not run.
    refused: Vec<Option<String>>,
    /// By table: reason why no rows of it are made.
    excluded: Vec<Option<String>>,
    /// By invariant; `None` if the executor cannot evaluate it.
    checks: Vec<Option<InvariantCheck>>,
    pub guards: Guards,
    mentions: Vec<Mention>,
    upserts: BTreeMap<(usize, TableId), Upsert>,
    /// By procedure, what its parameters have to do with columns; worked out when it is first called.
    pub(crate) uses: Vec<OnceCell<Vec<Uses>>>,
    /// Storage without a row, which every replica uses in turn: making one takes long in a large schema.
    pub(crate) storage: RefCell<Option<Storage>>,
    /// Seeds that have been made, or could not be: most questions begin from the same ones.
    pub(crate) seeds: RefCell<BTreeMap<Plan, Option<State>>>,
    /// By table, its constraints, and the assertions that read it.
    constraints: BTreeMap<TableId, Vec<InvariantId>>,
    assertions: BTreeMap<TableId, Vec<InvariantId>>,
    false_when_empty: Vec<InvariantId>,
    readers: BTreeMap<(TableId, ColumnIndex), Vec<InvariantId>>,
    writers: BTreeMap<TableId, BTreeSet<usize>>,
}

/// Data that an invariant reads.
#[derive(Clone, Debug, Default)]
pub struct Mention {
    pub columns: BTreeSet<(TableId, ColumnIndex)>,
    pub tables: BTreeSet<TableId>,
    pub constants: BTreeSet<Constant>,
}

/// Inserts of a procedure into one table are ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Upsert {
    /// The key that arbitrates; `None` is any.
    pub columns: Option<Vec<ColumnIndex>>,
    /// Their operations say what they would have done on a row that is there: all of them DO NOTHING, and on the same
    /// key.
    pub telling: bool,
}

/// Invariants that must hold in a state that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Validity {
    /// All declared invariants.
    Everything,
    /// The constraints, and this assertion.
    Only(InvariantId),
    /// The constraints only.
    Constraints,
}

/// Why nothing of an application is searched.
#[derive(Clone, Debug)]
pub struct NotRunnable(pub String);

impl<'a> Lab<'a> {
    /// Without a single guard: what happens where nothing coordinates.
    pub fn new(application: &Application, analysis: &'a Analysis) -> Result<Lab<'a>, NotRunnable> {
        Lab::under(application, analysis, Guards::default())
    }

    /// With the plan's guards: pairs of branches that would have met at one of them are left out. This is what a
    /// confluent verdict that relies on a guard speaks of.
    pub fn guarded(application: &Application, analysis: &'a Analysis) -> Result<Lab<'a>, NotRunnable> {
        Lab::under(application, analysis, Guards::of(analysis))
    }

    fn under(
        application: &Application,
        analysis: &'a Analysis,
        guards: Guards,
    ) -> Result<Lab<'a>, NotRunnable> {
        let mut stripped = Application {
            sources: Default::default(),
            catalog: application.catalog.clone(),
            procedures: application.procedures.clone(),
            assertions: application.assertions.clone(),
            notes: Vec::new(),
            synthesised: application.synthesised,
            reading: None,
        };
        let excluded = exclude(&mut stripped.catalog);
        let mut refused = refuse(&stripped, analysis, &excluded);
        let place = |span: Span| application.sources.place(span).to_string();
        let program = compile(&mut stripped, analysis, &mut refused, !guards.is_empty(), &place)?;
        let without_upserts = match analysis.effects.iter().any(is_mixed) {
            true => {
                let mut plain = stripped.procedures.clone();
                std::mem::swap(&mut plain, &mut stripped.procedures);
                let bodies = stripped.procedures.iter_mut().map(|procedure| &mut procedure.body);
                bodies.for_each(|body| refuse_upserts(body));
                let program = compile(&mut stripped, analysis, &mut refused.clone(), false, &place).ok();
                stripped.procedures = plain;
                program
            }
            false => None,
        };
        spread(&stripped, &mut refused);
        let invariants = as_asked(application, &mut stripped, &analysis.invariants);
        let checks = invariants.iter();
        let checks = checks.map(|each| InvariantCheck::compile(&stripped, each, &program).ok()).collect();
        let mentions = invariants.iter();
        let mentions = mentions.map(|each| mention(&stripped, each.kind, each.table, &each.columns));
        let mut lab = Lab {
            layouts: program.schema.tables.iter().map(|table| Layout::new(&table.types)).collect(),
            mentions: mentions.collect(),
            upserts: analysis.effects.iter().flat_map(upserts).collect(),
            uses: analysis.effects.iter().map(|_| OnceCell::new()).collect(),
            storage: RefCell::new(None),
            seeds: RefCell::new(BTreeMap::new()),
            constraints: BTreeMap::new(),
            assertions: BTreeMap::new(),
            false_when_empty: Vec::new(),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            application: stripped,
            analysis,
            program,
            without_upserts,
            refused,
            excluded,
            checks,
            guards,
        };
        lab.list();
        Ok(lab)
    }

    /// Builds the indexes by table and column.
    fn list(&mut self) {
        for (at, invariant) in self.analysis.invariants.iter().enumerate() {
            let id = InvariantId(at as u32);
            match (&self.checks[at], invariant.table) {
                (Some(InvariantCheck::Constraint(_)), Some(table)) => {
                    self.constraints.entry(table).or_default().push(id);
                }
                (Some(InvariantCheck::Assertion(_)), _) => {
                    for &table in &self.mentions[at].tables {
                        self.assertions.entry(table).or_default().push(id);
                    }
                    let empty = State::empty();
                    if self.violation(id, &View { schema: &self.program.schema, state: &empty }).is_some() {
                        self.false_when_empty.push(id);
                    }
                }
                _ => {}
            }
            use InvariantKind::{Assertion, Check, Domain};
            if matches!(invariant.kind, Check(_) | Domain(_) | Assertion(_)) {
                for &column in &self.mentions[at].columns {
                    self.readers.entry(column).or_default().push(id);
                }
            }
        }
        for effects in &self.analysis.effects {
            for write in &effects.writes {
                self.writers.entry(write.table).or_default().insert(effects.procedure);
            }
        }
    }

    pub fn effects(&self, procedure: usize) -> &'a ProcedureEffects {
        &self.analysis.effects[procedure]
    }

    /// Why the procedure is not run, if it is not.
    pub fn refusal(&self, procedure: usize) -> Option<&str> {
        self.refused[procedure].as_deref()
    }

    pub fn is_excluded(&self, table: TableId) -> bool {
        self.excluded[table.0 as usize].is_some()
    }

    pub fn mention(&self, invariant: InvariantId) -> &Mention {
        &self.mentions[invariant.0 as usize]
    }

    /// Can the executor tell whether it holds?
    pub fn can_check(&self, invariant: InvariantId) -> bool {
        !matches!(self.checks[invariant.0 as usize], None | Some(InvariantCheck::Always))
    }

    pub fn upsert(&self, procedure: usize, table: TableId) -> Option<&Upsert> {
        self.upserts.get(&(procedure, table))
    }

    /// The row that breaks an invariant: `None` if it holds (or cannot be evaluated here).
    pub fn violation(&self, invariant: InvariantId, rows: &dyn Rows) -> Option<Vec<(String, String)>> {
        let verdict = self.checks[invariant.0 as usize].as_ref()?.check(rows, &self.program).ok()?;
        (!verdict.holds).then(|| verdict.violation.unwrap_or_default())
    }

    /// CHECKs and assertions that read the column.
    pub fn readers(&self, table: TableId, column: ColumnIndex) -> impl Iterator<Item = &Mention> {
        let ids = self.readers.get(&(table, column)).map_or(&[][..], Vec::as_slice);
        ids.iter().map(|&id| self.mention(id))
    }

    /// Procedures that write the table.
    pub fn writers(&self, table: TableId) -> impl Iterator<Item = usize> + '_ {
        self.writers.get(&table).into_iter().flatten().copied()
    }

    /// Some procedure inserts into it.
    pub fn is_inserted(&self, table: TableId) -> bool {
        self.writers(table).any(|procedure| {
            let mut writes = self.effects(procedure).writes.iter();
            writes.any(|write| write.table == table && write.is_insert())
        })
    }

    /// The assertions that `validity` asks for and that read one of these tables.
    fn assertions(&self, validity: Validity, tables: impl Iterator<Item = TableId>) -> BTreeSet<InvariantId> {
        let about = tables.flat_map(|table| self.assertions.get(&table).into_iter().flatten().copied());
        let wanted = |id: &InvariantId| match validity {
            Validity::Everything => true,
            Validity::Only(only) if only == *id => true,
            // A key is a constraint, whichever invariant is searched.
            _ => matches!(self.analysis.invariants[id.0 as usize].kind, InvariantKind::UniqueIndex(_)),
        };
        about.filter(wanted).collect()
    }

    /// After a write that the executor has let pass: the assertions that look at what was written.
    pub fn holds_after(&self, validity: Validity, rows: &dyn Rows, written: &BTreeSet<TableId>) -> bool {
        let assertions = self.assertions(validity, written.iter().copied());
        assertions.into_iter().all(|id| self.violation(id, rows).is_none())
    }

    /// Normal form: a constraint is checked in any case.
    pub fn plain(&self, validity: Validity) -> Validity {
        match validity {
            Validity::Only(id) => match self.checks[id.0 as usize] {
                Some(InvariantCheck::Assertion(_)) => validity,
                _ => Validity::Constraints,
            },
            _ => validity,
        }
    }

    /// Invariants to check for rows that have not been checked yet.
    pub fn asked(&self, validity: Validity, state: &State) -> Vec<InvariantId> {
        let constraints = state.filled().flat_map(|table| self.constraints.get(&table).into_iter().flatten());
        let mut ids: Vec<InvariantId> = constraints.copied().collect();
        // An assertion about empty tables has the same value as in an empty database.
        let mut assertions = self.assertions(validity, state.filled());
        let empty = self.false_when_empty.iter().copied();
        assertions
            .extend(empty.filter(|&id| validity == Validity::Everything || validity == Validity::Only(id)));
        ids.extend(assertions);
        ids
    }

    /// Rows as an invariant is asked of them.
    pub fn view<'s>(&'s self, state: &'s State) -> View<'s> {
        View { schema: &self.program.schema, state }
    }

    /// Does it not hold of these rows?
    pub fn is_violated(&self, invariant: InvariantId, state: &State) -> bool {
        self.violation(invariant, &self.view(state)).is_some()
    }

    /// Invariants violated by rows that have not been checked yet.
    pub fn violated(&self, validity: Validity, state: &State) -> Vec<InvariantId> {
        let mut ids = self.asked(validity, state);
        ids.retain(|&id| self.is_violated(id, state));
        ids
    }
}

/// Takes from the catalog what the engine does not keep, and says which tables that makes unfit.
fn exclude(catalog: &mut Catalog) -> Vec<Option<String>> {
    let mut excluded: Vec<Option<String>> = vec![None; catalog.tables.len()];
    for trigger in &catalog.triggers {
        excluded[trigger.table.0 as usize] = Some(format!("trigger {}", trigger.name));
    }
    for table in &mut catalog.tables {
        let reason = &mut excluded[table.id.0 as usize];
        if let Some(exclusion) = table.exclusions.first() {
            *reason = Some(format!("exclusion constraint {}", exclusion.name));
        }
        if let Some(column) = table.columns.iter().find(|column| column.generated.is_some()) {
            *reason = Some(format!("generated column {}", column.name));
        }
        if let Some(column) = table.columns.iter().find(|column| matches!(column.ty, SqlType::Opaque(_))) {
            *reason = Some(format!("type {} of {}", column.ty, column.name));
        }
        for column in &mut table.columns {
            if column.default.as_ref().is_some_and(|default| !is_understood(default)) {
                *reason = Some(format!("default of {}", column.name));
                column.default = None;
            }
        }
        for check in &mut table.checks {
            if !is_understood(&check.expr) {
                *reason = Some(format!("constraint {}", check.name));
                check.expr.kind = ExprKind::Literal(Value::Bool(true));
            }
        }
        let scalar = table.columns.iter().position(|column| is_scalar(&column.ty));
        for index in &mut table.indexes {
            if is_kept(&table.columns, index) {
                continue;
            }
            let exprs = index.keys.iter().map(|key| &key.expr).chain(&index.predicate);
            if index.unique && !exprs.into_iter().all(is_understood) {
                *reason = Some(format!("unique index {}", index.name));
            }
            // An index changes no answer, so another one in its place does as well.
            index.predicate = None;
            index.unique = false;
            index.keys.truncate(1);
            if let (Some(key), Some(column)) = (index.keys.first_mut(), scalar) {
                key.expr.kind = ExprKind::Column { relation: RelationId(0), column };
                key.expr.ty = table.columns[column].ty.clone();
            }
        }
    }
    excluded
}

/// The engine keeps indexes over all rows by plain columns.
fn is_kept(columns: &[Column], index: &Index) -> bool {
    let plain = |key: &IndexKey| match key.expr.kind {
        ExprKind::Column { column, .. } => is_scalar(&columns[column].ty),
        _ => false,
    };
    index.predicate.is_none() && index.keys.iter().all(plain)
}

/// The invariants as they are asked here: unique indexes that the engine does not keep become assertions.
fn as_asked(
    application: &Application,
    stripped: &mut Application,
    invariants: &[Invariant],
) -> Vec<Invariant> {
    let mut asked = invariants.to_vec();
    for invariant in &mut asked {
        let (InvariantKind::UniqueIndex(at), Some(table)) = (invariant.kind, invariant.table) else {
            continue;
        };
        let table = application.catalog.table(table);
        let index = &table.indexes[at];
        if !is_kept(&table.columns, index) {
            invariant.kind = InvariantKind::Assertion(stripped.assertions.len());
            stripped.assertions.push(partial::assertion(table, index));
        }
    }
    asked
}

fn is_scalar(ty: &SqlType) -> bool {
    !matches!(ty, SqlType::Jsonb | SqlType::Array(_) | SqlType::Opaque(_))
}

/// Reasons for refusal known without compiling: unbounded loops, opaque statements, unsupported tables.
fn refuse(app: &Application, analysis: &Analysis, excluded: &[Option<String>]) -> Vec<Option<String>> {
    let reason = |(procedure, effects): (&weir_sql::bound::Procedure, &ProcedureEffects)| {
        let mut reason = None;
        each_step(&procedure.body, &mut |step| match &step.kind {
            StepKind::While { .. } | StepKind::Loop { .. } => {
                reason = Some("a loop that may run for ever".to_owned())
            }
            StepKind::Opaque(_) => reason = Some("a statement that is not understood".to_owned()),
            _ => {}
        });
        let tables = effects.writes.iter().map(|write| write.table);
        let unfit = tables.chain(effects.reads.iter().map(|read| read.table));
        reason.or_else(|| unfit.into_iter().find_map(|table| excluded[table.0 as usize].clone()))
    };
    app.procedures.iter().zip(&analysis.effects).map(reason).collect()
}

/// Callers of refused procedures are refused too.
fn spread(app: &Application, refused: &mut [Option<String>]) {
    loop {
        let mut changed = false;
        for (at, procedure) in app.procedures.iter().enumerate() {
            if refused[at].is_some() {
                continue;
            }
            let mut reason = None;
            each_step(&procedure.body, &mut |step| {
                if let StepKind::Call { procedure: called, .. } = step.kind
                    && refused[called].is_some()
                {
                    reason = Some(format!("a call of {}", app.procedures[called].name));
                }
            });
            changed |= reason.is_some();
            refused[at] = reason;
        }
        if !changed {
            return;
        }
    }
}

fn compile(
    app: &mut Application,
    analysis: &Analysis,
    refused: &mut [Option<String>],
    guarded: bool,
    place: &dyn Fn(Span) -> String,
) -> Result<Program, NotRunnable> {
    let mut plan = analysis.plan.clone();
    if !guarded {
        plan.transactions.iter_mut().for_each(|transaction| transaction.guards.clear());
    }
    for (at, reason) in refused.iter().enumerate() {
        if reason.is_some() {
            app.procedures[at].body.clear();
        }
    }
    for _ in 0..=REFUSED_MAX {
        let error = match Program::compile(app, &plan, 1) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        let Some(at) = procedure_at(app, error.span) else {
            return Err(NotRunnable(format!("{}, at {}", error.error.message(), place(error.span))));
        };
        refused[at] = Some(error.error.message().to_owned());
        app.procedures[at].body.clear();
    }
    Err(NotRunnable("the executor cannot run most of its procedures".to_owned()))
}

/// The procedure that has a statement around this place.
fn procedure_at(app: &Application, span: Span) -> Option<usize> {
    let around =
        |outer: Span| outer.file == span.file && outer.start <= span.start && span.start <= outer.end;
    app.procedures.iter().position(|procedure| {
        let mut found = false;
        each_step(&procedure.body, &mut |step| found |= around(step.span));
        found
    })
}

/// It inserts into a table both with and without ON CONFLICT.
fn is_mixed(effects: &ProcedureEffects) -> bool {
    let inserts = |upserts: bool| -> BTreeSet<TableId> {
        let writes = effects.writes.iter().filter(|write| match &write.operation {
            Operation::Insert { on_conflict, .. } => on_conflict.is_some() == upserts,
            _ => false,
        });
        writes.map(|write| write.table).collect()
    };
    !inserts(true).is_disjoint(&inserts(false))
}

/// Every INSERT … ON CONFLICT becomes an error.
fn refuse_upserts(steps: &mut [Step]) {
    for step in steps {
        match &mut step.kind {
            StepKind::Sql { statement, .. } => {
                if let Statement::Insert(Insert { on_conflict: Some(_), .. }) = statement.as_ref() {
                    step.kind = StepKind::Raise(Raise {
                        level: RaiseLevel::Exception,
                        format: "an upsert".to_owned(),
                        args: Vec::new(),
                        state: SqlState::RAISE_EXCEPTION,
                        message: None,
                        detail: None,
                        hint: None,
                    });
                }
            }
            StepKind::If { branches, otherwise } => {
                branches.iter_mut().for_each(|(_, body)| refuse_upserts(body));
                refuse_upserts(otherwise);
            }
            StepKind::ForRange { body, .. }
            | StepKind::ForQuery { body, .. }
            | StepKind::ForEach { body, .. }
            | StepKind::While { body, .. }
            | StepKind::Loop { body, .. }
            | StepKind::Block { body, .. } => refuse_upserts(body),
            _ => {}
        }
    }
}

fn upserts(effects: &ProcedureEffects) -> Vec<((usize, TableId), Upsert)> {
    let mut found: BTreeMap<TableId, Vec<Option<Upsert>>> = BTreeMap::new();
    for write in &effects.writes {
        let Operation::Insert { on_conflict, .. } = &write.operation else { continue };
        found.entry(write.table).or_default().push(on_conflict.as_ref().map(|conflict| Upsert {
            columns: conflict.columns.clone(),
            telling: conflict.update.is_empty(),
        }));
    }
    let one = |list: Vec<Option<Upsert>>| {
        let same = list
            .iter()
            .all(|other| other.as_ref().map(|of| &of.columns) == list[0].as_ref().map(|of| &of.columns));
        let upserts: Vec<Upsert> = list.into_iter().flatten().collect();
        let telling = same && upserts.iter().all(|upsert| upsert.telling);
        upserts.into_iter().next().map(|first| Upsert { telling, ..first })
    };
    let procedure = effects.procedure;
    found.into_iter().filter_map(|(table, list)| Some(((procedure, table), one(list)?))).collect()
}

fn mention(
    app: &Application,
    kind: InvariantKind,
    table: Option<TableId>,
    columns: &[ColumnIndex],
) -> Mention {
    let mut mention = Mention::default();
    if let Some(table) = table {
        mention.tables.insert(table);
        mention.columns.extend(columns.iter().map(|&column| (table, column)));
        match kind {
            InvariantKind::Check(at) | InvariantKind::Domain(at) => {
                mention_expr(&app.catalog.table(table).checks[at].expr, Some(table), &mut mention);
            }
            InvariantKind::ForeignKey(at) => {
                let key = &app.catalog.table(table).foreign_keys[at];
                mention.tables.insert(key.parent);
                mention.columns.extend(key.parent_columns.iter().map(|&column| (key.parent, column)));
            }
            _ => {}
        }
    }
    if let InvariantKind::Assertion(at) = kind {
        mention_expr(&app.assertions[at].expr, None, &mut mention);
    }
    mention
}

fn mention_expr(expr: &Expr, of: Option<TableId>, mention: &mut Mention) {
    let mut relations: BTreeMap<RelationId, TableId> =
        of.iter().map(|&table| (RelationId(0), table)).collect();
    let mut read = BTreeSet::new();
    each_part(Part::Expr(expr), &mut |part| match part {
        Part::From(FromItem::Table { relation, table, .. }) => {
            relations.insert(*relation, *table);
        }
        Part::Expr(Expr { kind: ExprKind::Column { relation, column }, .. }) => {
            read.insert((*relation, *column));
        }
        Part::Expr(expr) => mention.constants.extend(literals::of_expr(expr)),
        _ => {}
    });
    mention.tables.extend(relations.values());
    let tables = read.into_iter().filter_map(|(relation, column)| Some((*relations.get(&relation)?, column)));
    mention.columns.extend(tables);
}
