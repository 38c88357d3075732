//! Texts of SQL: bound once against the catalog of the application, run as often as one likes.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_analysis::TransactionPlan;
use weir_sql::bound::{
    Expr, ExprKind, OutputColumn, ParameterMode, Procedure, ProcedureKind, Query, Select, Statement,
};
use weir_sql::system::{Facts, Row, VOLATILE};
use weir_sql::walk::each_statement_expr;
use weir_sql::{
    BoundSystemQuery, BoundText, CurrentValue, Diagnostic, Parameterised, ParsedText, Span, Text,
    WithCurrentValues, bind_system_query, is_block, lift_constants, mentions_current_values,
    with_current_values,
};
use weir_txn::exec::folding::{fold, may_fold};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::stream::RowStream;
use weir_types::text::to_text;
use weir_types::{CatalogType, SqlError, SqlState, SqlType, Value};

use crate::CallResult;
use crate::calls::Callable;
use crate::many::Many;
use crate::remote_read::prepare_apart;
use crate::sub_statements::{SubStatements, prepare_pieces, prepare_queries_apart};

/// A SELECT, INSERT, UPDATE or DELETE over the application's tables, or a call of one of its procedures, with parameters `$1`, `$2` …
#[derive(Clone)]
pub struct Prepared {
    /// The schema version that it is bound to.
    pub(crate) of: Arc<Callable>,
    pub(crate) text: Arc<str>,
    /// Error of PostgreSQL's planner in a constant expression. Reported when the statement is run.
    pub(crate) fails: Option<Arc<SqlError>>,
    /// The client has been told its columns, so they must not change.
    pub(crate) keeps_columns: bool,
    /// Session facts, if it is bound to the system catalog.
    pub(crate) facts: Option<Arc<Facts>>,
    pub(crate) what: What,
    /// Types of the client's parameters, followed by those of the session's sequence values.
    pub(crate) parameters: Arc<[SqlType]>,
    /// Parameter types reported to clients for a query of the system catalog; empty: the real ones.
    told: Arc<[Option<CatalogType>]>,
    current: Arc<[CurrentValue]>,
    columns: Arc<[OutputColumn]>,
    pub(crate) names: Arc<[String]>,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Query {
        gather: Arc<Gather>,
        /// Values of its parameters behind the client's.
        constants: Arc<[Value]>,
    },
    /// `arguments` gives one row.
    Call {
        procedure: usize,
        arguments: Arc<Gather>,
        /// It gives a set of rows; any other call gives one.
        gives_rows: bool,
        /// The columns that are one value, a record.
        record: Option<Arc<[OutputColumn]>>,
        writes: bool,
    },
    /// An INSERT of many rows.
    Many(Arc<Many>),
    /// Its WITH writes, or it is read apart.
    SubStatements(Arc<SubStatements>),
    Write {
        text: Arc<Text>,
        /// Values of its parameters behind the client's.
        constants: Arc<[Value]>,
        verb: Verb,
    },
}

/// Kind of a writing statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Update,
    Delete,
    /// A query that locks rows (FOR UPDATE), or takes sequence values.
    Select,
    /// DO: it counts nothing.
    Do,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("what", &self.what).field("parameters", &self.parameters).finish()
    }
}

impl Prepared {
    pub fn parameters(&self) -> &[SqlType] {
        &self.parameters[..self.parameters.len() - self.current.len()]
    }

    /// Sequence values of the session that it needs, passed after the parameters.
    pub fn current_values(&self) -> &[CurrentValue] {
        &self.current
    }

    /// The sequences that have given values to it, each with its last, the latest at the end.
    pub fn given<'r>(&'r self, result: &'r CallResult) -> impl Iterator<Item = (&'r str, i64)> {
        let sequences = &self.of.application.catalog.sequences;
        result
            .given
            .iter()
            .filter_map(|one| Some((&*sequences.get(one.sequence.0 as usize)?.name, one.value)))
    }

    /// Parameter types, shared.
    pub fn parameters_shared(&self) -> Arc<[SqlType]> {
        match self.current.len() {
            0 => self.parameters.clone(),
            _ => self.parameters().into(),
        }
    }

    /// Catalog types reported for its parameters; may be shorter than the list of parameters.
    pub fn parameters_told(&self) -> Arc<[Option<CatalogType>]> {
        self.told.clone()
    }

    /// Result columns, shared.
    pub fn columns_shared(&self) -> Arc<[OutputColumn]> {
        self.columns.clone()
    }

    /// Result columns; empty for a call without OUT parameters.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// Kind of the statement, if it writes.
    pub fn verb(&self) -> Option<Verb> {
        match &self.what {
            What::Write { verb, .. } => Some(*verb),
            What::Many(_) => Some(Verb::Insert),
            What::SubStatements(pieces) => pieces.main()?.verb(),
            What::Query { .. } | What::Call { .. } => None,
        }
    }

    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Schema version that it is bound to.
    pub fn schema_version(&self) -> u64 {
        self.of.program.schema_version
    }

    /// Name in statistics: the procedure, or the kind of statement.
    pub fn name(&self) -> &str {
        match &self.what {
            What::Query { .. } => "select",
            What::Call { procedure, .. } => &self.of.application.procedures[*procedure].name,
            What::Write { verb: Verb::Insert, .. } => "insert",
            What::Write { verb: Verb::Update, .. } => "update",
            What::Write { verb: Verb::Delete, .. } => "delete",
            What::Write { verb: Verb::Select, .. } => "select for update",
            What::Write { verb: Verb::Do, .. } => "do",
            What::Many(_) => "insert",
            What::SubStatements(pieces) => pieces.main().map_or("with", Prepared::name),
        }
    }

    /// The mechanism by which it commits if it is not one of several statements; a query: "read".
    pub fn mechanism(&self) -> &'static str {
        self.plan().map_or("read", |plan| plan.mechanism.name())
    }

    /// None: it is a query.
    pub fn plan(&self) -> Option<TransactionPlan> {
        let Callable { program, .. } = &*self.of;
        match &self.what {
            What::Query { .. } => None,
            What::Call { procedure, .. } => {
                let (_, description) = program.described()?;
                let plans = &description.plan().transactions;
                plans.iter().find(|plan| plan.procedure == *procedure).cloned()
            }
            What::Many(many) => many.one().plan(),
            What::SubStatements(pieces) => pieces.plan(),
            What::Write { text, .. } => program.text(text).ok().map(|text| text.plan.clone()),
        }
    }

    /// It runs whatever its parameters are.
    pub(crate) fn runs(&self) -> bool {
        match &self.what {
            What::Write { text, .. } => runs(&self.of.program, text),
            _ => true,
        }
    }

    /// Returns whether it is bound to the system catalog, and so to its session.
    /// Which tables it reads whose rows the server that is asked knows alone.
    pub fn volatile(&self) -> Vec<&'static str> {
        let What::Query { gather, .. } = &self.what else { return Vec::new() };
        if !self.is_system() {
            return Vec::new();
        }
        let (system, _) = self.of.system();
        let reads = |name: &&str| system.table(name).is_some_and(|table| gather.reads(table));
        VOLATILE.into_iter().filter(reads).collect()
    }

    /// The statement with these rows of virtual tables.
    pub fn with_rows(&self, given: Vec<(&'static str, Vec<Row>)>) -> Prepared {
        let What::Query { gather, constants } = &self.what else { return self.clone() };
        let (system, _) = self.of.system();
        let given = given.into_iter().filter_map(|(name, rows)| Some((system.table(name)?, rows)));
        let what = What::Query { gather: Arc::new(gather.with_rows(given)), constants: constants.clone() };
        Prepared { what, ..self.clone() }
    }

    /// Returns whether it is a query of one shard, which reads at most one row of each table, by a key.
    pub fn is_look_up(&self) -> bool {
        matches!(&self.what, What::Query { gather, .. } if gather.is_of_one_shard())
    }

    /// Returns whether a long run may put its rows into a stream.
    pub fn may_stream(&self) -> bool {
        matches!(&self.what, What::Query { gather, .. } if gather.may_stream())
    }

    /// The same query; if it runs for long on a shard of this process, its rows come through that stream, and the result has none.
    pub fn streaming(&self, stream: &Arc<RowStream>) -> Prepared {
        let What::Query { gather, constants } = &self.what else { return self.clone() };
        let gather = Arc::new(gather.streaming(stream.clone()));
        Prepared { what: What::Query { gather, constants: constants.clone() }, ..self.clone() }
    }

    /// Returns whether it is a query that needs no shard.
    pub(crate) fn reads_no_table(&self) -> bool {
        matches!(&self.what, What::Query { gather, .. } if gather.reads_no_table())
    }

    pub fn is_system(&self) -> bool {
        self.facts.is_some()
    }

    /// Returns whether it is a query that writes nothing.
    pub fn reads_only(&self) -> bool {
        matches!(self.what, What::Query { .. })
    }

    /// It reads rows of tables, and not only what the schema says of itself.
    pub fn reads_tables(&self) -> bool {
        match &self.what {
            What::Query { gather, .. } => gather.reads_tables(),
            _ => true,
        }
    }

    /// It may write.
    pub fn writes(&self) -> bool {
        match &self.what {
            What::Query { .. } => false,
            What::Call { writes, .. } => *writes,
            What::Write { .. } | What::Many(_) | What::SubStatements(_) => true,
        }
    }

    /// Number of rows that it has written, or given.
    pub fn count(&self, result: &CallResult) -> u64 {
        match (&self.what, &result.values[..]) {
            (What::Write { .. } | What::Many(_), [Value::Int(count), ..]) => *count as u64,
            _ => result.rows.len() as u64,
        }
    }

    /// Result as rows: OUT parameters and a function's value form one row, also for a function without a value.
    pub fn rows(&self, result: CallResult) -> Vec<Vec<Value>> {
        let CallResult { mut values, rows, .. } = result;
        let What::Call { gives_rows, record, .. } = &self.what else { return rows };
        let columns = record.as_ref().unwrap_or(&self.columns);
        let rows = match gives_rows {
            false if !columns.is_empty() => {
                values.resize(columns.len(), Value::Null);
                vec![values]
            }
            _ => rows,
        };
        let whole = |mut row: Vec<Value>| {
            for (value, column) in row.iter_mut().zip(columns.iter()) {
                let of_record = record.is_some() && !value.is_null();
                if of_record {
                    *value = Value::text(to_text(value, &column.ty));
                } else if column.ty == SqlType::Void {
                    *value = Value::text("");
                }
            }
            if record.is_some() { vec![Value::record(row)] } else { row }
        };
        rows.into_iter().map(whole).collect()
    }
}

/// Why a text cannot be run.
#[derive(Clone, Debug)]
pub struct Unprepared {
    pub error: SqlError,
    /// Where it stands, in characters of the text from 1.
    pub position: usize,
}

impl Unprepared {
    pub(crate) fn new(text: &str, span: Span, error: SqlError) -> Unprepared {
        let before = text.get(..span.start as usize).unwrap_or(text);
        Unprepared { error, position: before.chars().count() + 1 }
    }

    /// Converts a diagnostic for the sender of the text: with a character position, and the remedy.
    pub fn of(text: &str, wrong: Diagnostic) -> Unprepared {
        let mut error = SqlError::new(wrong.state, wrong.message);
        if let Some(hint) = wrong.hint {
            error = error.with_hint(hint);
        }
        Unprepared::new(text, wrong.span, error)
    }
}

/// `types`: of `$1`, `$2` …, Unknown for those to infer; there may be more in the text.
///
/// # Errors
/// The text is invalid or not supported.
pub(crate) fn prepare(of: &Arc<Callable>, text: &str, types: &[SqlType]) -> Result<Prepared, Unprepared> {
    if !mentions_current_values(text) || is_block(text) {
        return prepare_plain(of, text, types);
    }
    let wrong = |wrong| Unprepared::of(text, wrong);
    let parsed = ParsedText::of(text).map_err(wrong)?;
    let Some(with) = with_current_values(&parsed, types, &|_| false).map_err(wrong)? else {
        return prepare_parsed(of, &parsed, types);
    };
    let taken = sequences_taken(of, &with).map_err(wrong)?;
    // A statement that takes values of a sequence itself knows the last one.
    let with = match taken.is_empty() {
        true => Some(with),
        false => with_current_values(&parsed, types, &|name| taken.contains(name)).map_err(wrong)?,
    };
    let Some(with) = with else { return prepare_parsed(of, &parsed, types) };
    if !taken.is_empty() && with.values.contains(&CurrentValue::Last) {
        let error = SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "lastval() in a statement that takes values itself is not supported",
        );
        return Err(Unprepared::new(
            text,
            Span::default(),
            error.with_hint("name the sequence: currval('…')"),
        ));
    }
    let prepared = prepare_rewritten(of, &with.statement, &with.types)?;
    Ok(Prepared { text: text.into(), current: with.values.into(), ..prepared })
}

/// A statement that stands within another one, and is prepared by itself.
///
/// # Errors
/// It is invalid or not supported; with its place in the whole, if that is known.
pub(crate) fn prepare_inner(
    of: &Arc<Callable>,
    facts: &Facts,
    statement: &ParsedText<'_>,
    types: &[SqlType],
) -> Result<Prepared, Unprepared> {
    let sql = written(statement)?;
    let wrong = match prepare(of, &sql, types) {
        Ok(prepared) => return Ok(prepared),
        Err(wrong) => wrong,
    };
    prepare_system(of, facts, &sql, types, wrong).map_err(|wrong| {
        let catalog = || statement.clone().bind_system(&of.system().0, facts, types).err();
        let own = match names_catalog(&sql) {
            true => catalog(),
            false => own_error(of, statement, types),
        };
        placed(statement, own, wrong)
    })
}

/// The text of the statement's tree, which the grammar takes again.
fn written(statement: &ParsedText<'_>) -> Result<String, Unprepared> {
    let sql = statement.sql().map_err(|wrong| Unprepared::of(statement.text(), wrong))?;
    if ParsedText::of(&sql).is_ok() {
        return Ok(sql);
    }
    let error = SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "a statement that is run as another one, which cannot be written, is not supported",
    );
    let error = error.with_hint("call its target by another name than a keyword");
    Err(Unprepared::new(statement.text(), Span::default(), error))
}

fn own_error(of: &Callable, statement: &ParsedText<'_>, types: &[SqlType]) -> Option<Diagnostic> {
    let Callable { application, .. } = of;
    statement.bind(&application.catalog, &application.procedures, types).err()
}

/// An error of the statement's text, at the place that its tree has in the client's.
fn placed(statement: &ParsedText<'_>, own: Option<Diagnostic>, wrong: Unprepared) -> Unprepared {
    match own.filter(|own| own.state == wrong.error.state()) {
        Some(own) => Unprepared::of(statement.text(), own),
        None => Unprepared::new(statement.text(), Span::default(), wrong.error),
    }
}

/// A statement that another one has become: shards know it by the text of its tree.
///
/// # Errors
/// It is invalid or not supported. The place is one of the text that it was, if that is known.
pub(crate) fn prepare_rewritten(
    of: &Arc<Callable>,
    statement: &ParsedText<'_>,
    types: &[SqlType],
) -> Result<Prepared, Unprepared> {
    let sql = written(statement)?;
    let parsed = ParsedText::of(&sql).map_err(|wrong| Unprepared::of(statement.text(), wrong))?;
    prepare_parsed(of, &parsed, types)
        .map_err(|wrong| placed(statement, own_error(of, statement, types), wrong))
}

/// By their names.
fn sequences_taken(of: &Callable, with: &WithCurrentValues) -> Result<BTreeSet<String>, Diagnostic> {
    let Callable { application, .. } = of;
    let (bound, _) = with.statement.bind(&application.catalog, &application.procedures, &with.types)?;
    let mut taken = BTreeSet::new();
    if let BoundText::Statement(statement) = &bound {
        each_statement_expr(statement, &mut |expr| {
            if let ExprKind::NextValue(sequence) = expr.kind {
                taken.insert(application.catalog.sequences[sequence.0 as usize].name.clone());
            }
        });
    }
    Ok(taken)
}

/// The first error of working out the statement's constants.
fn failing(statement: &Statement) -> Option<Arc<SqlError>> {
    if !may_fold(statement) {
        return None;
    }
    fold(&mut statement.clone()).err().map(Arc::new)
}

pub(crate) fn prepare_plain(
    of: &Arc<Callable>,
    text: &str,
    types: &[SqlType],
) -> Result<Prepared, Unprepared> {
    let Callable { program, .. } = &**of;
    if is_block(text) {
        let own = Text { sql: text.to_owned(), types: Vec::new() };
        program.text(&own).map_err(|wrong| Unprepared::new(text, wrong.span, wrong.error))?;
        let what = What::Write { text: Arc::new(own), constants: [].into(), verb: Verb::Do };
        return Ok(Prepared::new((of, text), what, Vec::new(), Vec::new()));
    }
    let parsed = ParsedText::of(text).map_err(|wrong| Unprepared::of(text, wrong))?;
    prepare_parsed(of, &parsed, types)
}

fn prepare_parsed(
    of: &Arc<Callable>,
    parsed: &ParsedText<'_>,
    types: &[SqlType],
) -> Result<Prepared, Unprepared> {
    let Callable { application, program, .. } = &**of;
    let text = parsed.text();
    if let Some(pieces) = prepare_pieces(of, parsed, types) {
        return pieces;
    }
    let bound = parsed.bind(&application.catalog, &application.procedures, types);
    let (bound, parameters) = bound.map_err(|wrong| Unprepared::of(text, wrong))?;
    match bound {
        BoundText::Statement(statement) => {
            let fails = failing(&statement);
            let prepared = prepare_statement(of, parsed, *statement, parameters)?;
            Ok(Prepared { fails, ..prepared })
        }
        BoundText::Call { call, name, as_value } => {
            let procedure = &application.procedures[call.procedure];
            let mut columns = columns_of(procedure);
            let mut record = None;
            if as_value && columns.len() > 1 {
                let name = procedure.name.clone();
                let one = vec![OutputColumn::new(name, SqlType::Record)];
                record = Some(std::mem::replace(&mut columns, one).into());
            }
            if let (Some(name), [column]) = (name, &mut columns[..]) {
                column.name = name;
            }
            let gives_rows = matches!(procedure.kind, ProcedureKind::SetReturningFunction { .. });
            let arguments = Arc::new(compile(text, &row_of(call.args), parameters.len(), program)?);
            let writes = !program.procedures[call.procedure].read_only;
            let what = What::Call { procedure: call.procedure, arguments, gives_rows, record, writes };
            Ok(Prepared::new((of, text), what, parameters, columns))
        }
    }
}

fn prepare_statement(
    of: &Arc<Callable>,
    parsed: &ParsedText<'_>,
    statement: Statement,
    parameters: Vec<SqlType>,
) -> Result<Prepared, Unprepared> {
    let Callable { application, program, .. } = &**of;
    let text = parsed.text();
    let columns = statement.columns();
    let verb = match &statement {
        Statement::Query(query) if query.has_effects() => Verb::Select,
        Statement::Query(query) => {
            let what = query_of(of, parsed, query, (&statement, &parameters))?;
            return Ok(Prepared::new((of, text), what, parameters, columns));
        }
        Statement::Insert(insert) => {
            let many = Many::of(of, parsed, insert, parameters.len());
            if let Some(many) = many.or_else(|| Many::of_query(of, parsed, insert, &parameters)) {
                return Ok(Prepared::new((of, text), What::Many(Arc::new(many)), parameters, columns));
            }
            Verb::Insert
        }
        Statement::Update(_) => Verb::Update,
        Statement::Delete(_) => Verb::Delete,
    };
    let parameterised = lift_constants(&application.catalog, parsed, &statement, &parameters);
    if let Some(Parameterised { text: parameterised, values, .. }) = parameterised
        && runs(program, &parameterised)
    {
        let what = What::Write { text: Arc::new(parameterised), constants: values.into(), verb };
        return Ok(Prepared::new((of, text), what, parameters, columns));
    }
    // With its constants it may do less than with any others.
    let own = Text { sql: text.to_owned(), types: parameters.clone() };
    program.text(&own).map_err(|wrong| Unprepared::new(text, wrong.span, wrong.error))?;
    if !runs(program, &own) {
        let apart = prepare_apart(of, parsed, (&statement, &parameters));
        if let Some(apart) = apart.or_else(|| prepare_queries_apart(of, parsed, &parameters)) {
            return Ok(apart);
        }
    }
    let what = What::Write { text: Arc::new(own), constants: [].into(), verb };
    Ok(Prepared::new((of, text), what, parameters, columns))
}

/// A query that the application's own schema does not know enough for (`wrong`): it may be one of the system catalog.
///
/// # Errors
/// The text is invalid as a system catalog query.
pub(crate) fn prepare_system(
    of: &Arc<Callable>,
    facts: &Facts,
    text: &str,
    types: &[SqlType],
    wrong: Unprepared,
) -> Result<Prepared, Unprepared> {
    let (system, rows) = of.system();
    let BoundSystemQuery { query, parameters, told } = match bind_system_query(system, facts, text, types) {
        Ok(bound) => bound,
        // The nearer message: what is refused or missing there need not be so here.
        Err(here) if names_catalog(text) => return Err(Unprepared::of(text, here)),
        Err(_) => return Err(wrong),
    };
    let columns = query.columns.clone();
    let gather = Gather::compile_over(&query, parameters.len(), &of.program, Some(rows.clone()))
        .map_err(|error| Unprepared::new(text, query.span, error))?;
    let what = What::Query { gather: Arc::new(gather), constants: [].into() };
    let prepared = Prepared::new((of, text), what, parameters, columns);
    Ok(Prepared { facts: Some(Arc::new(facts.clone())), told: told.into(), ..prepared })
}

/// It is about the system catalog, whatever else it is about.
fn names_catalog(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["pg_", "information_schema", "regclass", "_setting", "set_config"].iter().any(|word| text.contains(word))
}

impl Prepared {
    pub(crate) fn new(
        (of, text): (&Arc<Callable>, &str),
        what: What,
        parameters: Vec<SqlType>,
        columns: Vec<OutputColumn>,
    ) -> Prepared {
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Prepared {
            of: of.clone(),
            text: text.into(),
            fails: None,
            keeps_columns: false,
            facts: None,
            what,
            parameters: parameters.into(),
            told: [].into(),
            current: [].into(),
            columns: columns.into(),
            names,
        }
    }
}

/// It runs whatever its parameters are. Two constants that are the same may say that all is on one shard; two parameters do not.
fn runs(program: &Program, text: &Text) -> bool {
    let compiled = program.text(text);
    compiled.is_ok_and(|text| program.shards == 1 || text.procedure.participants.unsupported.is_none())
}

/// A query is run by shards, which know it by its text: whole at one shard, or in parts. One that finds its rows by keys that are constants
/// fetches them instead: others will come with other keys.
fn query_of(
    of: &Callable,
    parsed: &ParsedText<'_>,
    query: &Query,
    (statement, parameters): (&Statement, &[SqlType]),
) -> Result<What, Unprepared> {
    let text = parsed.text();
    let gather = compile(text, query, parameters.len(), &of.program)?;
    let is_look_up = gather.is_look_up(&of.program.schema);
    if is_look_up && parameters.is_empty() {
        return Ok(What::Query { gather: Arc::new(gather), constants: [].into() });
    }
    if !is_look_up
        && let Some(parameterised) = lift_constants(&of.application.catalog, parsed, statement, parameters)
        && let Ok(gather) = of.program.query(&parameterised.text)
    {
        return Ok(What::Query { gather, constants: parameterised.values.into() });
    }
    let own = Text { sql: text.to_owned(), types: parameters.to_vec() };
    let gather = of.program.query(&own).map_err(|wrong| Unprepared::new(text, wrong.span, wrong.error))?;
    Ok(What::Query { gather, constants: [].into() })
}

fn compile(text: &str, query: &Query, parameters: usize, program: &Program) -> Result<Gather, Unprepared> {
    Gather::compile(query, parameters, program).map_err(|error| Unprepared::new(text, query.span, error))
}

/// `SELECT a, b, …`, which gives the arguments of a call.
fn row_of(outputs: Vec<Expr>) -> Query {
    let columns = outputs.iter().map(|output| OutputColumn::new(String::new(), output.ty.clone())).collect();
    let span = outputs.first().map_or(Span::default(), |output| output.span);
    Query::of_select(Select::plain(outputs, Vec::new(), None), columns, span)
}

/// Result columns of a call: OUT and INOUT parameters, a function's value, or the columns of its rows.
pub(crate) fn columns_of(procedure: &Procedure) -> Vec<OutputColumn> {
    let column = |name: &String, ty: &SqlType| OutputColumn::new(name.clone(), ty.clone());
    if let ProcedureKind::SetReturningFunction { columns } = &procedure.kind {
        return columns.iter().map(|(name, ty)| column(name, ty)).collect();
    }
    let outs = procedure.parameters.iter().filter(|one| one.mode != ParameterMode::In);
    let outs: Vec<OutputColumn> = outs.map(|one| column(&one.name, &one.ty)).collect();
    match &procedure.kind {
        ProcedureKind::Function { returns } if outs.is_empty() => vec![column(&procedure.name, returns)],
        _ => outs,
    }
}
