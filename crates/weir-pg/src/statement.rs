//! One statement of a client: bound, and what it gives when it is run. Runs nothing.

use std::sync::Arc;

use weir_client::{Prepared, Unprepared};
use weir_sql::bound::OutputColumn;
use weir_sql::effects::EffectCall;
use weir_sql::explain::Explain;
use weir_sql::plpgsql::ScriptStep;
use weir_sql::session::{Command, Copy, CreateAs, Signal};
use weir_types::{CatalogType, SqlError, SqlType, Value};

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
    /// CREATE TABLE AS, and its query.
    CreateAs(CreateAs, Box<Prepared>),
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

    /// Returns whether it is a query, which gives rows even if they have no columns.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self.kind, Kind::Run(_, "SELECT"))
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
    /// Number of rows that the client has got while the statement ran; none: they are in `rows`.
    pub sent: Option<u64>,
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
    /// COPY TO sends these messages. `has_begun`: others have been sent before them.
    Out { columns: usize, is_binary: bool, has_begun: bool, messages: Vec<Vec<u8>> },
}

impl Done {
    /// A SELECT gives rows even if they have no columns. CREATE TABLE AS, which has its tag, gives their number alone.
    pub(crate) fn gives_rows(&self) -> bool {
        !self.columns.is_empty() || self.tag == "SELECT" && self.count.is_none()
    }

    pub fn tag(tag: impl Into<String>) -> Done {
        Done {
            tag: tag.into(),
            count: None,
            columns: [].into(),
            rows: Vec::new(),
            sent: None,
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

/// Command tag of a call, without a count.
pub const CALL: &str = "CALL";
