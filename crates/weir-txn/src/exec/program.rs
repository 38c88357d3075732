//! A compiled application: immutable, shared by all shards and coordinators.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_analysis::invariant::Numbering;
use weir_analysis::plan::{Guard, GuardKind, Placement, Plan};
use weir_analysis::reasons::Reason;
use weir_core::ids::ShardId;
use weir_sql::bound::{Insert, LoopLabel, RaiseLevel};
use weir_sql::catalog::{Catalog, ColumnIndex, TableId};
use weir_sql::{Application, Span, Text, is_block};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::accessed_rows::AccessedRows;
use super::admission::Admission;
use super::ahead::Ahead;
use super::by_key::NamedRow;
use super::compile::{Closed, LookedUp, TablesWith};
use super::definition::Description;
use super::expr::CompiledExpr;
use super::first_rows::CompiledFirstRows;
use super::foreseen::arbitrates_globally;
use super::gather::Gather;
use super::gathered::CompiledMerge;
use super::independent::Agreement;
use super::inserted_keys::InsertedKeys;
use super::plpgsql::Isolation;
use super::plpgsql::code::Code;
use super::query::CompiledQuery;
use super::routing::Source;
use super::slots::Slot;
pub use super::texts::CompiledText;
use super::texts::{Judging, Runs, Texts};
use super::write::changed::Watched;
use super::write::{CompiledDelete, CompiledInsert, CompiledUpdate, Hold, TableRules};
use crate::message::Callee;
use crate::placement::{is_placed_anew, shard_of, shard_of_arguments};
use crate::storage::Schema;

#[derive(Debug)]
pub struct Program {
    pub schema: Arc<Schema>,
    pub shards: u16,
    /// By table: where its rows live.
    pub placement: Arc<[Placement]>,
    /// By table: CHECKs, foreign keys, and who refers to it. The next schema version shares those that its definition does not touch.
    pub rules: Arc<[Arc<TableRules>]>,
    pub procedures: Arc<[CompiledProcedure]>,
    /// Every UPDATE of the procedures and of their parts, by number.
    pub updates: Arc<[Arc<CompiledUpdate>]>,
    pub sequences: Arc<[weir_sql::catalog::Sequence]>,
    /// Some table's rows are placed by UUIDs.
    pub placed_by_uuids: bool,
    /// Compiler and cache of ad-hoc statements; none: they are rejected.
    pub(super) texts: Option<Box<Texts>>,
    /// Schema version; 0 until the first definition.
    pub schema_version: u64,
    /// Some procedure whose plan is `ordered` or `general` needs several shards. So all of them run under locks: one that runs in order on its shard
    /// reads past what others have prepared there.
    pub orders_by_locks: bool,
    /// Some of these are independent transactions over several shards. So calls of such procedures run in the order of a sequencer, and what runs
    /// under locks takes a place in it (docs/internals/ordered-calls.md).
    pub is_ordered: bool,
    /// Some foreign key is deferrable.
    pub defers: bool,
    /// Application and description that it was compiled from; none: its schema cannot change.
    pub(super) described: Option<(Arc<Application>, Arc<Description>)>,
    /// Closed-world assumptions under which it is compiled.
    pub(super) closed: Arc<Closed>,
    /// Indexes that procedures look up by full keys.
    pub(super) looked_up: LookedUp,
    pub(super) with: TablesWith,
}

#[derive(Debug)]
pub struct CompiledProcedure {
    pub name: String,
    pub inputs: Vec<Input>,
    /// Slots of the OUT and INOUT parameters, in order.
    pub outputs: Vec<(String, SqlType, Slot)>,
    pub variables: Vec<VariableRules>,
    pub slots: usize,
    pub cells: usize,
    pub found: Slot,
    pub body: Vec<CompiledStep>,
    /// Slice for participants that do not decide; empty with one shard.
    pub part: CompiledPart,
    pub returns_set: bool,
    /// A function with a RETURN value (not one that returns OUT parameters).
    pub returns_value: bool,
    pub participants: Participants,
    pub read_only: bool,
    /// The plan requires a guard in it.
    pub guarded: bool,
    /// It is an ad-hoc statement.
    pub by_itself: bool,
    /// It is one statement, not a DO block: no other statement meets what it does before all shards have done it.
    pub is_statement: bool,
    pub admission: Admission,
    /// Tables whose changes are noted, for the checks of assertions.
    pub watched: Option<Arc<Watched>>,
    /// It is a statement that locks its first rows one after the other.
    pub first_rows: Option<Box<CompiledFirstRows>>,
    /// The row that an ad-hoc statement names by a global key; it runs where that row is.
    pub named_row: Option<Box<NamedRow>>,
    /// Rows that its statements name by primary keys; only contention is measured by them.
    pub(super) accessed_rows: AccessedRows,
    /// The global keys of the row that an ad-hoc INSERT gives; none: they do not follow from its arguments alone.
    pub inserted_keys: Option<Box<InsertedKeys>>,
    /// Of its interactive calls.
    pub isolation: Isolation,
    /// Its plan is `ordered` or `general`. It runs to completion on one shard, which orders it; so it is not allowed in an interactive
    /// transaction.
    pub in_order: bool,
    /// Its calls over several shards are independent transactions; else why not.
    pub independent: Result<Agreement, String>,
    /// It may derive writes for other shards: it runs as a transaction of one statement, whose coordinator carries them.
    pub carries: bool,
    /// Its statements could meet children of other shards which a foreign-key action of it is about to change: actions there are refused.
    pub meets_actions: bool,
}

impl Program {
    /// Returns whether a foreign key of the table references the table itself.
    fn refers_to_itself(&self, table: TableId) -> bool {
        self.rules[table.0 as usize].foreign_keys.iter().any(|key| key.parent == table)
    }

    /// Reports the current row counts of a shard, by table.
    pub(crate) fn count(&self, rows: impl Iterator<Item = usize>) {
        if let Some(texts) = &self.texts {
            texts.count(rows);
        }
    }
}

impl CompiledProcedure {
    /// A procedure without statements.
    pub(super) fn nothing(name: &str) -> Box<CompiledProcedure> {
        let (keys, met) = (Vec::new(), Vec::new());
        let participants =
            Participants { keys, everywhere: true, unsupported: None, is_independent: false, met };
        Box::new(CompiledProcedure {
            name: name.to_owned(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            variables: Vec::new(),
            slots: 1,
            cells: 0,
            found: 0,
            body: Vec::new(),
            part: CompiledPart::default(),
            returns_set: false,
            returns_value: false,
            participants,
            read_only: false,
            guarded: true,
            by_itself: true,
            is_statement: true,
            admission: Admission::Runs,
            watched: None,
            first_rows: None,
            named_row: None,
            accessed_rows: AccessedRows::default(),
            inserted_keys: None,
            isolation: Isolation::Snapshot,
            in_order: false,
            independent: Err(String::new()),
            carries: false,
            meets_actions: false,
        })
    }

    /// Returns whether each of its calls is ordered with a serializable transaction that writes what it reads: it holds locks itself, or runs
    /// in one step at one shard, whatever its arguments.
    pub(super) fn is_ordered_by_locks(&self, program: &Program) -> bool {
        self.admission.locking().is_some()
            || self.in_order && program.orders_by_locks
            || self.participants.is_one_shard(program.shards) && !self.carries
    }

    /// Returns whether it is an ad-hoc INSERT of one row, which may run for many rows of arguments at once.
    pub fn takes_rows(&self) -> bool {
        let is_insert = |step: &CompiledStep| matches!(step.kind, CompiledStepKind::Insert { .. });
        let is_count = |step: &CompiledStep| matches!(step.kind, CompiledStepKind::GetRowCount { .. });
        matches!(&self.body[..], [insert, count] if is_insert(insert) && is_count(count))
    }

    /// Returns whether one of its own statements updates rows under escrow (docs/internals/escrow.md).
    pub fn draws(&self) -> bool {
        let draws = |step: &CompiledStep| matches!(&step.kind, CompiledStepKind::Update { update, .. } if update.hold == Hold::Escrow);
        self.body.iter().any(draws)
    }

    /// Returns whether it inserts rows, and the validity of one row depends on the other rows of the statement.
    pub fn has_statement_checks(&self, program: &Program) -> bool {
        let depends = |step: &CompiledStep| match &step.kind {
            CompiledStepKind::Insert { insert, .. } => {
                let updates = insert.on_conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
                updates || program.refers_to_itself(insert.table)
            }
            _ => false,
        };
        self.body.iter().any(depends)
    }
}

/// The [`super::slice`] of a procedure.
#[derive(Debug, Default)]
pub struct CompiledPart {
    pub body: Vec<CompiledStep>,
    /// Variables that it reads; others are not initialised.
    pub reads: Vec<Slot>,
    /// Variables among these that are inputs, as indexes into the procedure's inputs.
    pub inputs: Vec<usize>,
}

/// An IN or INOUT parameter.
#[derive(Debug)]
pub struct Input {
    pub name: String,
    pub ty: SqlType,
    pub slot: Slot,
}

#[derive(Debug)]
pub struct VariableRules {
    pub name: String,
    pub ty: SqlType,
    pub not_null: bool,
}

/// Computes the shards of a call from its arguments alone.
#[derive(Debug)]
pub struct Participants {
    /// Partition keys: for each one source list per partition column. The first key decides.
    pub keys: Vec<Vec<Vec<Source>>>,
    /// A statement without a known partition key runs on every shard.
    pub everywhere: bool,
    /// Reason why calls over several shards cannot be run by merging or RAMP.
    pub unsupported: Option<String>,
    /// No statement uses what a statement with another key has found.
    pub is_independent: bool,
    /// Errors with which calls over several shards are refused if they meet certain rows ([`super::foreseen`]).
    pub met: Vec<SqlError>,
}

impl Participants {
    /// Returns whether every call is on one shard, whatever its arguments.
    pub fn is_one_shard(&self, shards: u16) -> bool {
        let is_one = |sources: &Vec<Source>| matches!(&sources[..], [one] if !one.is_elements());
        let keys = || match &self.keys[..] {
            [] => true,
            [key] => key.iter().all(is_one),
            _ => false,
        };
        shards == 1 || !self.everywhere && self.unsupported.is_none() && keys()
    }

    /// Participants in the order in which they are asked; the deciding one is last. Never empty.
    pub fn of(&self, args: &[Value], shards: u16) -> Vec<ShardId> {
        if shards == 1 {
            return vec![0];
        }
        let mut found: Vec<ShardId> = Vec::with_capacity(4);
        for key in &self.keys {
            each_key(key, args, &mut Vec::with_capacity(key.len()), &mut |values| {
                let shard = shard_of(values, shards);
                if !found.contains(&shard) {
                    found.push(shard);
                }
            });
        }
        if self.everywhere {
            (0..shards).for_each(|shard| {
                if !found.contains(&shard) {
                    found.push(shard);
                }
            });
        }
        if found.is_empty() {
            // The deciding shard generates the ids by which its rows are placed, so any shard will do.
            let own = self.keys.iter().flatten().flatten().any(|source| *source == Source::Own);
            found.push(if own { shard_of_arguments(args, shards) } else { 0 });
        }
        // The shard of the first key decides; the others are asked in ascending order, the same for all calls.
        let decides = found.remove(0);
        found.sort_unstable();
        found.push(decides);
        found
    }
}

/// Calls `visit` with each combination of the sources' values.
pub(super) fn each_key(
    sources: &[Vec<Source>],
    args: &[Value],
    values: &mut Vec<Value>,
    visit: &mut dyn FnMut(&[Value]),
) {
    let Some((column, rest)) = sources.split_first() else { return visit(values) };
    let mut with = |value: &Value, values: &mut Vec<Value>| {
        values.push(value.clone());
        each_key(rest, args, values, visit);
        values.pop();
    };
    for source in column {
        each_value(source, args, &mut |value| with(value, values));
    }
}

/// The value of a source that has one.
pub(super) fn value_of(source: &Source, args: &[Value]) -> Value {
    let mut found = Value::Null;
    each_value(source, args, &mut |value| found = value.clone());
    found
}

fn each_value(source: &Source, args: &[Value], visit: &mut dyn FnMut(&Value)) {
    match source {
        Source::Constant(value) => visit(value),
        Source::Own => {}
        Source::Parameter(index) => args.get(*index).into_iter().for_each(visit),
        Source::Elements(index) => {
            if let Some(Value::Array(array)) = args.get(*index) {
                array.values.iter().for_each(visit);
            }
        }
        Source::Cast(source, coercion) => {
            each_value(source, args, &mut |value| visit(&coercion.of_value(value)));
        }
        Source::Arithmetic(left, op, right) => each_value(left, args, &mut |left| {
            each_value(right, args, &mut |right| visit(&op.of_values(left, right)));
        }),
    }
}

/// Where a statement runs, at run time.
#[derive(Debug)]
pub enum CompiledRoute {
    Anywhere,
    By {
        keys: Vec<CompiledExpr>,
        /// Variables that become unknown on a shard that skips the statement.
        unknown: Vec<Slot>,
    },
    /// On the deciding shard, which generates the id by which the rows are placed.
    Own {
        unknown: Vec<Slot>,
    },
    Everywhere,
}

#[derive(Debug)]
pub struct CompiledStep {
    pub kind: CompiledStepKind,
    pub span: Span,
}

#[derive(Debug)]
pub enum CompiledStepKind {
    Assign {
        target: Target,
        value: CompiledExpr,
    },
    AssignElement {
        slot: Slot,
        element: SqlType,
        index: CompiledExpr,
        value: CompiledExpr,
    },
    Query {
        query: Box<CompiledQuery>,
        to: Destination,
        route: CompiledRoute,
        /// Merge of the rows of all shards.
        merged: Option<Box<CompiledMerge>>,
    },
    Insert {
        insert: Box<CompiledInsert>,
        to: Destination,
        route: CompiledRoute,
    },
    Update {
        update: Arc<CompiledUpdate>,
        to: Destination,
        route: CompiledRoute,
    },
    Delete {
        delete: Box<CompiledDelete>,
        to: Destination,
        route: CompiledRoute,
    },
    /// `effects` of each arm apply where the condition is unknown on this shard.
    If {
        branches: Vec<(CompiledExpr, Vec<CompiledStep>)>,
        otherwise: Vec<CompiledStep>,
        effects: Effects,
    },
    ForRange {
        slot: Slot,
        from: CompiledExpr,
        to: CompiledExpr,
        by: Option<CompiledExpr>,
        reverse: bool,
        homes: Option<Homes>,
        ahead: Vec<Ahead>,
        label: LoopLabel,
        body: Vec<CompiledStep>,
        effects: Effects,
    },
    ForQuery {
        query: Box<CompiledQuery>,
        targets: Vec<Target>,
        route: CompiledRoute,
        label: LoopLabel,
        body: Vec<CompiledStep>,
        effects: Effects,
    },
    ForEach {
        slot: Slot,
        array: CompiledExpr,
        label: LoopLabel,
        body: Vec<CompiledStep>,
        effects: Effects,
    },
    While {
        condition: CompiledExpr,
        label: LoopLabel,
        body: Vec<CompiledStep>,
        effects: Effects,
    },
    Loop {
        label: LoopLabel,
        body: Vec<CompiledStep>,
    },
    Block {
        label: LoopLabel,
        body: Vec<CompiledStep>,
    },
    Exit {
        label: LoopLabel,
        when: Option<CompiledExpr>,
    },
    Continue {
        label: LoopLabel,
        when: Option<CompiledExpr>,
    },
    Raise(Box<CompiledRaise>),
    Return {
        value: Option<CompiledExpr>,
    },
    ReturnNext {
        values: Vec<CompiledExpr>,
    },
    ReturnQuery {
        query: Box<CompiledQuery>,
        route: CompiledRoute,
    },
    GetRowCount {
        target: Target,
    },
    Call {
        procedure: usize,
        args: Vec<CompiledExpr>,
        targets: Vec<Target>,
    },
    Assert {
        condition: CompiledExpr,
        message: Option<CompiledExpr>,
    },
    Null,
}

/// In a slice: the shards on which the rounds of a loop have work. A round none of whose keys belongs to this shard is skipped.
#[derive(Debug)]
pub struct Homes {
    /// Partition keys that are the same in every round.
    pub fixed: Vec<Vec<CompiledExpr>>,
    /// Arrays whose element at the loop variable is a partition key.
    pub elements: Vec<Slot>,
}

/// A variable that a value is assigned to.
#[derive(Clone, Debug)]
pub struct Target {
    pub slot: Slot,
    pub name: String,
    pub ty: SqlType,
    pub not_null: bool,
    /// Type of the assigned value, if a cast is needed.
    pub from: Option<SqlType>,
}

/// Destination of the rows of a statement.
#[derive(Debug)]
pub enum Destination {
    /// Discarded; only their number matters.
    Nowhere,
    /// The first row goes into variables.
    Variables(CompiledInto),
    /// All rows go to the caller, with `width` columns: RETURNING without INTO.
    Caller { width: usize },
}

#[derive(Debug)]
pub struct CompiledInto {
    pub targets: Vec<Target>,
    pub strict: bool,
    /// The statement writes: more than one row is an error even without STRICT.
    pub writes: bool,
    /// The slice does not read the targets; they only serve as answers for the deciding shard.
    pub unread: bool,
}

/// Effects of steps that may or may not run.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Variables that they assign.
    pub assigned: Vec<Slot>,
    /// They contain a statement on rows of some shard.
    pub touches_rows: bool,
    /// They may leave the block, the loop or the procedure other than by an error.
    pub leaves: bool,
}

#[derive(Debug)]
pub struct CompiledRaise {
    pub level: RaiseLevel,
    pub format: String,
    pub args: Vec<CompiledExpr>,
    pub state: SqlState,
    pub message: Option<CompiledExpr>,
    pub detail: Option<CompiledExpr>,
    pub hint: Option<CompiledExpr>,
}

impl Program {
    /// Compiles an application under its plan for that number of shards.
    pub fn compile(application: &Application, plan: &Plan, shards: u16) -> Result<Program, CompileError> {
        super::compile::program(application, plan, shards, usize::MAX, None)
    }

    /// Compiles an application whose schema may change: tables declared in this file or later may lose rows whatever the procedures do.
    /// `upon`: the program before the last definition, which shares with the new one what the definition has not touched.
    pub(super) fn compile_open(
        application: &Application,
        plan: &Plan,
        shards: u16,
        open_from: usize,
        upon: Option<&Program>,
    ) -> Result<Program, CompileError> {
        super::compile::program(application, plan, shards, open_from, upon)
    }

    /// Enables ad-hoc statements and definitions, compiled against this application and description.
    pub(super) fn with_description(
        mut self,
        application: Arc<Application>,
        description: Arc<Description>,
    ) -> Program {
        let plan = description.plan().clone();
        let texts = Texts::new(application.clone(), plan, self.closed.clone(), Judging::Now);
        self.texts = Some(Box::new(texts));
        self.schema_version = description.schema_version();
        self.described = Some((application, description));
        self
    }

    /// The same for somebody else in this process, who keeps texts and counts of rows of its own; none: its schema does not change.
    pub(super) fn share(&self) -> Option<Program> {
        Some(Program {
            schema: self.schema.clone(),
            shards: self.shards,
            placement: self.placement.clone(),
            rules: self.rules.clone(),
            procedures: self.procedures.clone(),
            updates: self.updates.clone(),
            sequences: self.sequences.clone(),
            placed_by_uuids: self.placed_by_uuids,
            texts: Some(Box::new(self.texts.as_ref()?.share())),
            schema_version: self.schema_version,
            orders_by_locks: self.orders_by_locks,
            is_ordered: self.is_ordered,
            defers: self.defers,
            described: Some(self.described.clone()?),
            closed: self.closed.clone(),
            looked_up: self.looked_up.clone(),
            with: self.with.clone(),
        })
    }

    /// The source that it was compiled from.
    pub fn described(&self) -> Option<(&Arc<Application>, &Arc<Description>)> {
        self.described.as_ref().map(|(application, description)| (application, description))
    }

    /// Returns whether a row that the INSERT … ON CONFLICT meets may live on any shard: it runs row by row.
    pub fn arbitrates_globally(&self, insert: &Insert) -> bool {
        arbitrates_globally(&self.schema, insert)
    }

    pub fn partition(&self, table: TableId) -> Option<&[ColumnIndex]> {
        self.placement[table.0 as usize].columns()
    }

    /// Returns whether parents of this foreign key may live on other shards than the child rows.
    pub fn asks_other_shards(&self, table: TableId, key: usize) -> bool {
        let rule = &self.rules[table.0 as usize].foreign_keys[key];
        self.shards > 1 && rule.is_distant()
    }

    /// Enables ad-hoc statements, compiled against this application and plan.
    pub fn with_texts(self, application: &Application, plan: &Plan) -> Program {
        self.with_texts_judged(application, plan, Judging::Now)
    }

    /// Like [`Program::with_texts`], with the planted bug of that name.
    pub fn with_trusted_texts(self, application: &Application, plan: &Plan) -> Program {
        self.with_texts_judged(application, plan, Judging::Before)
    }

    fn with_texts_judged(mut self, application: &Application, plan: &Plan, judging: Judging) -> Program {
        let (plan, closed) = (Arc::new(plan.clone()), self.closed.clone());
        self.texts = Some(Box::new(Texts::new(Arc::new(application.clone()), plan, closed, judging)));
        self
    }

    /// Compiles an ad-hoc statement.
    ///
    /// # Errors
    /// It is invalid or not supported, or the procedures could not run correctly beside it.
    pub fn text(&self, text: &Text) -> Result<Arc<CompiledText>, CompileError> {
        match &self.texts {
            Some(texts) => texts.get(self, text),
            None => {
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "only procedures are run here");
                Err(CompileError { span: Span::default(), error })
            }
        }
    }

    /// Explains the plan of an ad-hoc statement.
    ///
    /// # Errors
    /// As `text`.
    pub fn reasons(&self, text: &Text) -> Result<Vec<Reason>, CompileError> {
        match &self.texts {
            Some(texts) => texts.reasons(self, text),
            None => self.text(text).map(|_| Vec::new()),
        }
    }

    /// Compiles an ad-hoc query.
    ///
    /// # Errors
    /// It is invalid or not supported.
    pub fn query(&self, text: &Text) -> Result<Arc<Gather>, CompileError> {
        match &self.texts {
            Some(texts) => texts.query(self, text),
            None => {
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "only procedures are run here");
                Err(CompileError { span: Span::default(), error })
            }
        }
    }

    /// Code of the DO block, for the coordinator.
    ///
    /// # Errors
    /// It cannot be compiled.
    pub(crate) fn block_code(&self, block: &str) -> Result<Arc<Code>, SqlError> {
        match &self.texts {
            Some(texts) => texts.block_code(self, block).map_err(|wrong| wrong.error),
            None => Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "only procedures are run here")),
        }
    }

    /// Number of SQL statements of an interactive call, those in its expressions included.
    ///
    /// # Errors
    /// As of the call.
    pub fn statements_of(&self, callee: &Callee) -> Result<usize, SqlError> {
        match callee {
            Callee::Procedure(procedure) => Ok(self.code(*procedure)?.statements.len()),
            Callee::Text(text) if is_block(&text.sql) => Ok(self.block_code(&text.sql)?.statements.len()),
            _ => Ok(1),
        }
    }

    /// The check of the assertion with that index, for the rows that equal a key of that link or for all: a query for a row that violates
    /// it.
    ///
    /// # Errors
    /// There is no such assertion or link.
    pub(super) fn check_of(&self, assertion: usize, link: Option<u32>) -> Result<Arc<Text>, SqlError> {
        match &self.texts {
            Some(texts) => texts.check_of(assertion, link).map_err(|wrong| wrong.error),
            None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "only procedures are run here")),
        }
    }

    /// Error of a transaction that violates the assertion with that index. `row`: what its check has given.
    pub(super) fn violated(&self, assertion: usize, row: &[Value]) -> SqlError {
        match &self.texts {
            Some(texts) => texts.violated(assertion, row),
            None => SqlError::new(SqlState::CHECK_VIOLATION, "the transaction violates an assertion"),
        }
    }

    /// Code of the procedure, for the coordinator.
    ///
    /// # Errors
    /// There is no such procedure, or its code cannot be compiled.
    pub(crate) fn code(&self, procedure: usize) -> Result<Arc<Code>, SqlError> {
        match &self.texts {
            Some(texts) => texts.code(self, procedure).map_err(|wrong| wrong.error),
            None => {
                let message = "procedures are not run by the coordinator here";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// Compiles a statement that has been admitted before.
    pub(super) fn text_again(&self, text: &Text) -> Result<Arc<CompiledText>, CompileError> {
        match &self.texts {
            Some(texts) => texts.again(self, text),
            None => self.text(text),
        }
    }

    /// Code that a call runs.
    ///
    /// # Errors
    /// As [`Program::text`], and that there is no such procedure.
    pub fn callee(&self, callee: &Callee) -> Result<Runs<'_>, SqlError> {
        match callee {
            Callee::Procedure(procedure) => {
                let procedure = self.procedures.get(*procedure);
                procedure.map(Runs::Procedure).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_FUNCTION, "there is no procedure of that number")
                })
            }
            Callee::Text(text) => self.text(text).map(Runs::Text).map_err(|wrong| wrong.error),
            Callee::Constraints(_) => Ok(Runs::Nothing(CompiledProcedure::nothing("SET CONSTRAINTS"))),
            Callee::Derived(_) => Ok(Runs::Nothing(CompiledProcedure::nothing("entries of unique keys"))),
            Callee::Serializable(callee) | Callee::Attempt(callee, _) => self.callee(callee),
            Callee::Definition(_)
            | Callee::AdvisoryLock { .. }
            | Callee::Sequences
            | Callee::SetSequence { .. }
            | Callee::Reads(_)
            | Callee::Build(_)
            | Callee::Enter
            | Callee::Barrier => {
                let message = "it runs in a transaction of several statements";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// By table: every shard has a copy.
    pub fn replicated(&self) -> Vec<bool> {
        self.placement.iter().map(|placement| placement.columns().is_none()).collect()
    }

    /// Tables whose rows another build may have placed on other shards.
    pub fn placed_anew(&self) -> impl Iterator<Item = TableId> {
        let is_anew = |table: &TableId| {
            let types = &self.schema.table(*table).types;
            self.partition(*table)
                .is_some_and(|columns| columns.iter().any(|&column| is_placed_anew(&types[column])))
        };
        (0..self.placement.len() as u32).map(TableId).filter(is_anew)
    }

    /// Shard of a row; `None` if it is replicated.
    pub fn home(&self, table: TableId, value: &dyn Fn(ColumnIndex) -> Value) -> Option<ShardId> {
        let columns = self.partition(table)?;
        if let [column] = columns {
            return Some(shard_of(&[value(*column)], self.shards));
        }
        let values: Vec<Value> = columns.iter().map(|&column| value(column)).collect();
        Some(shard_of(&values, self.shards))
    }

    /// Procedures that are refused whatever their arguments, with the error.
    pub fn refused(&self) -> impl Iterator<Item = (usize, &SqlError)> {
        let all = self.procedures.iter().enumerate();
        all.filter_map(|(at, procedure)| Some((at, procedure.admission.refused()?)))
    }

    pub fn procedure_by_name(&self, name: &str) -> Option<usize> {
        self.procedures.iter().position(|procedure| procedure.name == name)
    }
}

/// Error of the compiler, with its position.
#[derive(Clone, Debug)]
pub struct CompileError {
    pub span: Span,
    pub error: SqlError,
}

/// Statements of a procedure that take guards, by their position.
#[derive(Debug, Default)]
pub struct Guarded {
    statements: BTreeMap<Span, Asked>,
}

/// Hold that the guards of a statement ask for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    hold: Hold,
    /// All of its claims are shared.
    shared: bool,
}

impl Guarded {
    pub fn of(catalog: &Catalog, plan: &Plan, procedure: usize) -> Guarded {
        let transaction = plan.transactions.iter().find(|transaction| transaction.procedure == procedure);
        let mut guarded = Guarded::default();
        for guard in transaction.into_iter().flat_map(|transaction| &transaction.guards) {
            let hold = match guard.kind {
                GuardKind::Lock => Hold::Locks,
                GuardKind::Escrow if keeps_checks(catalog, guard) => Hold::Escrow,
                // What the transaction checks before it commits depends on the row as it is then.
                GuardKind::Escrow | GuardKind::Sequence | GuardKind::Claim | GuardKind::Check(_) => {
                    Hold::Claims
                }
            };
            let asked = Asked { hold, shared: guard.shared };
            let all = guarded.statements.entry(guard.statement).or_insert(asked);
            *all = Asked { hold: all.hold.max(hold), shared: all.shared && guard.shared };
        }
        guarded
    }

    fn at(&self, positions: [Span; 2]) -> Option<Asked> {
        let asked = positions.iter().filter_map(|span| self.statements.get(span));
        asked
            .copied()
            .reduce(|one, other| Asked { hold: one.hold.max(other.hold), shared: one.shared && other.shared })
    }

    /// How an UPDATE at one of these positions holds its rows, as far as the plan asks for it.
    pub fn hold(&self, positions: [Span; 2]) -> Hold {
        self.at(positions).map_or(Hold::Merges, |asked| asked.hold)
    }

    /// How much others have to wait while the statement's shard has prepared it: the greater, the sooner that shard is to decide.
    pub fn weight(&self, positions: [Span; 2]) -> u8 {
        match self.at(positions) {
            None => 0,
            Some(Asked { shared: true, .. }) => 1,
            Some(Asked { hold: Hold::Escrow, .. }) => 2,
            Some(_) => 3,
        }
    }
}

/// Whether all that the guard keeps is checked on its row.
fn keeps_checks(catalog: &Catalog, guard: &Guard) -> bool {
    let (numbering, table) = (Numbering::new(catalog), catalog.table(guard.table));
    !guard.keeps.is_empty() && guard.keeps.iter().all(|invariant| numbering.is_check(table, *invariant))
}
