//! One statement of a client: bound, and what it gives when it is run. Runs nothing.

use std::sync::Arc;

use weir_client::{Prepared, Unprepared, Verb};
use weir_sql::Span;
use weir_sql::bound::OutputColumn;
use weir_sql::effects::EffectCall;
use weir_sql::explain::Explain;
use weir_sql::plpgsql::ScriptStep;
use weir_sql::session::CreateAs;
use weir_sql::session::Signal;
use weir_sql::session::{Command, Copied, Copy, Said, statements};
use weir_types::{CatalogType, SqlError, SqlState, SqlType, Value};

use crate::effects::columns as effect_columns;
use crate::session::Session;
use crate::watch::StatementFigures;

/// One statement, bound.
#[derive(Clone)]
pub struct Statement {
    pub kind: Kind,
    pub parameters: Arc<[SqlType]>,
    /// Parameter types reported to the client where they are catalog types; may be shorter than the list of parameters.
    pub told: Arc<[Option<CatalogType>]>,
    pub columns: Arc<[OutputColumn]>,
    pub text: Arc<str>,
    /// Statistics of the statement; none for statements that take no time.
    pub figures: Option<Arc<StatementFigures>>,
}

#[derive(Clone)]
pub enum Kind {
    /// There is nothing but blanks and comments in the text.
    Empty,
    Run(Prepared, &'static str),
    /// A definition: its text and its command tag.
    Define(Arc<str>, &'static str),
    Command(Command),
    /// PREPARE: name and statement.
    Prepare(String, Arc<Statement>),
    /// EXECUTE: name, and the query for the row of arguments.
    Execute(String, Option<Prepared>),
    /// DO, with steps that the session executes.
    Script(Arc<[ScriptStep]>),
    /// SELECT of functions that act on the session, and what gives their arguments.
    Effects(Arc<[EffectCall]>, Prepared),
    /// With what gives its rows, if that is a query.
    Copy(Copy, Option<Prepared>),
    /// A query for process numbers to signal, and the columns that contain them.
    Signal(Vec<Signal>, Prepared),
    /// EXPLAIN: options and statement.
    Explain(Explain, Box<Statement>),
    Declare {
        name: String,
        scroll: Option<bool>,
        hold: bool,
        binary: bool,
        query: Prepared,
    },
    /// CREATE TABLE AS: of the query, and its text.
    CreateAs(CreateAs, Box<(Prepared, String)>),
    /// CREATE MATERIALIZED VIEW: its text, its name, and that quoted.
    CreateMaterialized(Arc<str>, String, String),
}

impl Statement {
    pub fn run(prepared: Prepared, tag: &'static str) -> Statement {
        let (parameters, columns) = (prepared.parameters_shared(), prepared.columns_shared());
        let text = prepared.text().clone();
        let told = prepared.parameters_told();
        Statement { parameters, told, columns, text, kind: Kind::Run(prepared, tag), figures: None }
    }

    pub fn empty() -> Statement {
        let (parameters, columns, text) = ([].into(), [].into(), "".into());
        Statement { kind: Kind::Empty, parameters, told: [].into(), columns, text, figures: None }
    }

    /// Records that it outlives its message, so that its columns must not change.
    pub fn keep_columns(&mut self) {
        if let Kind::Run(prepared, _) = &mut self.kind {
            prepared.keep_columns();
        }
    }

    /// Type of a parameter as reported to the client.
    pub fn told_at(&self, parameter: usize) -> Option<CatalogType> {
        self.told.get(parameter).copied().flatten()
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.kind, Kind::Empty)
    }

    /// Session command of the statement, if it is one.
    pub fn command(&self) -> Option<&Command> {
        match &self.kind {
            Kind::Command(command) => Some(command),
            _ => None,
        }
    }
}

/// Result of a statement.
#[derive(Clone, Debug)]
pub struct Done {
    /// Command tag without the count.
    pub tag: String,
    /// Number of rows written; none: not reported, unless it returns rows.
    pub count: Option<u64>,
    /// Columns of its rows; none: it returns no rows.
    pub columns: Arc<[OutputColumn]>,
    pub rows: Vec<Vec<Value>>,
    /// Reported settings that have changed.
    pub changed: Vec<(&'static str, String)>,
    /// It is a COPY.
    pub copy: Option<CopyDone>,
}

/// Next phase of a COPY.
#[derive(Clone, Debug)]
pub enum CopyDone {
    /// COPY FROM has begun, with that number of columns.
    In { columns: usize, is_binary: bool },
    /// COPY TO sends these messages.
    Out { columns: usize, is_binary: bool, messages: Vec<Vec<u8>> },
}

impl Done {
    /// A SELECT gives rows even if they have no columns.
    pub(crate) fn gives_rows(&self) -> bool {
        !self.columns.is_empty() || self.tag == "SELECT"
    }

    pub fn tag(tag: impl Into<String>) -> Done {
        Done {
            tag: tag.into(),
            count: None,
            columns: [].into(),
            rows: Vec::new(),
            changed: Vec::new(),
            copy: None,
        }
    }
}

/// Why there is no such statement, or it has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub error: SqlError,
    /// Where in the text, in characters from 1.
    pub position: Option<usize>,
    /// CONTEXT: of which line of a COPY it is.
    pub context: Option<String>,
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure { error, position: None, context: None }
    }
}

impl Failure {
    /// `before`: what stands before its text in the client's.
    pub fn of(Unprepared { error, position }: Unprepared, before: &str) -> Failure {
        Failure { error, position: Some(before.chars().count() + position), context: None }
    }
}

impl Session {
    /// The statements of a text.
    ///
    /// # Errors
    /// It is no SQL.
    pub fn read(&self, text: &str) -> Result<Vec<Said>, Failure> {
        statements(text).map_err(|wrong| Failure::of(Unprepared::of(text, wrong), ""))
    }

    /// Binds one of them.
    ///
    /// # Errors
    /// The text is invalid or not supported.
    pub fn prepare(&self, text: &str, said: &Said, types: &[SqlType]) -> Result<Statement, Failure> {
        let statement = self.prepare_unwatched(text, said, types)?;
        let text = match &statement.kind {
            Kind::Run(prepared, _) => prepared.text().clone(),
            _ => of_span(text, said.span).into(),
        };
        let figures = self.figures_of(&statement.kind, &text);
        Ok(Statement { text, figures, ..statement })
    }

    fn figures_of(&self, kind: &Kind, text: &str) -> Option<Arc<StatementFigures>> {
        let (schema_version, mechanism, name): (_, &dyn Fn() -> &'static str, _) = match kind {
            Kind::Run(prepared, _) => (prepared.schema_version(), &|| prepared.mechanism(), prepared.name()),
            Kind::Define(_, tag) => (0, &|| "definition", *tag),
            Kind::Copy(copy, _) if !copy.is_from => (0, &|| "read", "copy to"),
            Kind::Command(Command::Commit) => (0, &|| "open", "commit"),
            Kind::Command(Command::RollBack) => (0, &|| "open", "rollback"),
            _ => return None,
        };
        let front = &self.front;
        let kind = || front.kinds.of(mechanism(), &name.to_ascii_lowercase());
        Some(front.statements.of(text, schema_version, kind))
    }

    fn prepare_unwatched(&self, text: &str, said: &Said, types: &[SqlType]) -> Result<Statement, Failure> {
        let column = |name: &str| OutputColumn::new(name.to_owned(), SqlType::Text);
        let columns = match &said.what {
            Command::Run => return self.prepare_run(text, said.span, types),
            Command::Define(tag) => {
                let kind = Kind::Define(of_span(text, said.span).into(), tag);
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::Prepare { name, types, body } => {
                let said = Said { what: Command::Run, span: *body };
                let mut statement = self.prepare(text, &said, types)?;
                statement.keep_columns();
                let statement = Arc::new(statement);
                return Ok(Statement { kind: Kind::Prepare(name.clone(), statement), ..Statement::empty() });
            }
            Command::Execute { name, arguments } => {
                let arguments = (!of_span(text, *arguments).trim().is_empty())
                    .then(|| self.prepare_arguments(text, *arguments))
                    .transpose()?;
                return Ok(Statement { kind: Kind::Execute(name.clone(), arguments), ..Statement::empty() });
            }
            Command::Declare { name, scroll, hold, binary, query } => {
                let (name, scroll, hold, binary) = (name.clone(), *scroll, *hold, *binary);
                let query = self.bind(text, *query, types)?;
                if !query.reads_only() {
                    let message = "DECLARE CURSOR must not contain data-modifying statements";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
                }
                let parameters = query.parameters().into();
                let kind = Kind::Declare { name, scroll, hold, binary, query };
                return Ok(Statement { kind, parameters, ..Statement::empty() });
            }
            Command::Effects(effects) => {
                // Places in its text are none of the client's.
                let query = self.bind_text(&effects.query, types);
                let query = query.map_err(|Unprepared { error, .. }| Failure::from(error))?;
                let columns = effect_columns(&effects.calls, &query).into();
                let parameters = query.parameters().into();
                let kind = Kind::Effects(effects.calls.clone().into(), query);
                return Ok(Statement { kind, parameters, columns, ..Statement::empty() });
            }
            Command::Script(steps) => {
                let kind = Kind::Script(steps.clone().into());
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::Copy(copy) => {
                let query = match &copy.what {
                    Copied::Query(span) => Some(self.bind(text, *span, types)?),
                    Copied::Table { .. } => None,
                };
                return Ok(Statement { kind: Kind::Copy(copy.clone(), query), ..Statement::empty() });
            }
            Command::Signal { signals, query } => {
                let before = text.get(..said.span.start as usize).unwrap_or_default();
                let query = self.bind_text(query, types).map_err(|wrong| Failure::of(wrong, before))?;
                let mut columns = query.columns().to_vec();
                for signal in signals {
                    let Some(column) = columns.get_mut(signal.column) else { continue };
                    column.ty = SqlType::Bool;
                    if signal.is_unnamed {
                        column.name = signal.kind.name().to_owned();
                    }
                }
                let parameters = query.parameters().into();
                let kind = Kind::Signal(signals.clone(), query);
                return Ok(Statement { kind, parameters, columns: columns.into(), ..Statement::empty() });
            }
            Command::Explain(explain, of) => {
                let of =
                    self.prepare_unwatched(text, &Said { what: (**of).clone(), span: said.span }, types)?;
                let (parameters, columns) = (of.parameters.clone(), [column("QUERY PLAN")].into());
                let kind = Kind::Explain(*explain, Box::new(of));
                return Ok(Statement { kind, parameters, columns, ..Statement::empty() });
            }
            Command::CreateAs(create) => {
                let own = create.instead.clone().unwrap_or_else(|| of_span(text, create.query).to_owned());
                let before = text.get(..create.query.start as usize).unwrap_or_default();
                let query = self.bind_text(&own, &[]).map_err(|wrong| Failure::of(wrong, before))?;
                let kind = Kind::CreateAs(create.clone(), Box::new((query, own)));
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::CreateMaterialized(name, quoted) => {
                let text = of_span(text, said.span).into();
                let kind = Kind::CreateMaterialized(text, name.clone(), quoted.clone());
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::Show(Some(name)) => {
                let shown =
                    self.values().all().map(|(name, _)| name).find(|one| one.eq_ignore_ascii_case(name));
                vec![column(shown.unwrap_or(name))]
            }
            Command::Temporary(temporary) => self.temporary_columns(temporary)?,
            Command::Show(None) => vec![column("name"), column("setting"), column("description")],
            _ => Vec::new(),
        };
        let kind = Kind::Command(said.what.clone());
        Ok(Statement { kind, columns: columns.into(), ..Statement::empty() })
    }

    fn bind(&self, text: &str, span: Span, types: &[SqlType]) -> Result<Prepared, Failure> {
        let before = text.get(..span.start as usize).unwrap_or_default();
        self.bind_text(of_span(text, span), types).map_err(|wrong| Failure::of(wrong, before))
    }

    fn prepare_run(&self, text: &str, span: Span, types: &[SqlType]) -> Result<Statement, Failure> {
        let own = of_span(text, span);
        let prepared = self.bind(text, span, types)?;
        let is_call = own.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("call"));
        let tag = match prepared.verb() {
            // The number 0 stands for the OID that PostgreSQL used to report.
            Some(Verb::Insert) => "INSERT 0",
            Some(Verb::Update) => "UPDATE",
            Some(Verb::Delete) => "DELETE",
            Some(Verb::Select) => "SELECT",
            Some(Verb::Do) => "DO",
            None if is_call => CALL,
            None => "SELECT",
        };
        Ok(Statement::run(prepared, tag))
    }

    /// Prepares the arguments of an EXECUTE as a query for one row.
    fn prepare_arguments(&self, text: &str, span: Span) -> Result<Prepared, Failure> {
        const SELECT: &str = "SELECT ";
        let own = format!("{SELECT}{}", of_span(text, span));
        let before = text.get(..span.start as usize).unwrap_or_default().chars().count();
        self.bind_text(&own, &[]).map_err(|Unprepared { error, position }| Failure {
            error,
            position: Some((before + position).saturating_sub(SELECT.len()).max(1)),
            context: None,
        })
    }

    /// Result columns of the statement if it runs now.
    pub fn columns_of(&self, statement: &Statement) -> Arc<[OutputColumn]> {
        match &statement.kind {
            Kind::Execute(name, _) => {
                self.names().statement(name).map_or([].into(), |statement| statement.columns.clone())
            }
            Kind::Command(Command::Fetch { name, moves: false, .. }) => {
                self.names().cursor(name).map_or([].into(), |cursor| cursor.columns.clone())
            }
            _ => statement.columns.clone(),
        }
    }
}

/// Command tag of a call, without a count.
pub const CALL: &str = "CALL";

fn of_span(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize).unwrap_or_default()
}
