//! A session makes a statement of a text: it reads the text, and binds it to the schema of the moment.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_client::{Prepared, SchemaVersion, Unprepared, Verb};
use weir_sql::Span;
use weir_sql::bound::OutputColumn;
use weir_sql::session::{Command, Copied, InnerStatement, Said, statements};
use weir_sql::shape::Shape;
use weir_sql::system::Facts;
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::portals::PortalState;
use crate::run::{effect_columns, temporary_columns};
use crate::session::Session;
use crate::statement::{CALL, Failure, Kind, Statement};
use crate::watch::StatementFigures;

impl Session {
    /// The statements of a text.
    ///
    /// # Errors
    /// It is no SQL.
    pub fn read(&self, text: &str) -> Result<Vec<Said>, Failure> {
        statements(text).map_err(|wrong| Failure::of(Unprepared::of(text, wrong), ""))
    }

    /// The one statement of the text, with the values of its parameters, if one of its shape has come before.
    pub(crate) fn known(&self, text: &str, shape: Option<&Shape>) -> Option<(Arc<Statement>, Vec<Value>)> {
        let schema_version = self.shared_schema_version()?;
        self.front.known_texts.get(text, shape?, &schema_version)
    }

    /// The text is that statement.
    pub(crate) fn remember(&self, text: &str, shape: Option<Shape>, statement: &Statement) {
        if let (Some(shape), Some(schema_version)) = (shape, self.shared_schema_version()) {
            self.front.known_texts.put(text, shape, &schema_version, statement);
        }
    }

    /// The schema that all sessions see, unless this one has changed it for itself.
    fn shared_schema_version(&self) -> Option<SchemaVersion> {
        if self.transaction.own_schema_version.is_some() {
            return None;
        }
        self.client.schema_version().ok()
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
            Command::RunInner(inner) => return Ok(run(self.bind_inner(text, inner, types)?, false)),
            Command::Define(tag) => {
                let kind = Kind::Define(of_span(text, said.span).into(), tag);
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::Prepare { name, types, body } => {
                let said = Said { what: Command::RunInner(body.clone()), span: said.span };
                let mut statement = self.prepare(text, &said, types)?;
                statement.keep_columns();
                let statement = Arc::new(statement);
                return Ok(Statement { kind: Kind::Prepare(name.clone(), statement), ..Statement::empty() });
            }
            Command::Execute { name, arguments } => {
                let arguments = arguments.as_ref().map(|row| self.bind_inner(text, row, &[]));
                let arguments = arguments.transpose()?;
                return Ok(Statement { kind: Kind::Execute(name.clone(), arguments), ..Statement::empty() });
            }
            Command::Declare { name, scroll, hold, binary, query } => {
                let (name, scroll, hold, binary) = (name.clone(), *scroll, *hold, *binary);
                let query = self.bind_inner(text, query, types)?;
                if !query.reads_only() {
                    let message = "DECLARE CURSOR must not contain data-modifying statements";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
                }
                let parameters = query.parameters().into();
                let kind = Kind::Declare { name, scroll, hold, binary, query };
                return Ok(Statement { kind, parameters, ..Statement::empty() });
            }
            Command::Effects(effects) => {
                let query = self.bind_inner(text, &effects.query, types)?;
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
                    Copied::Query(query) => Some(self.bind_inner(text, query, types)?),
                    Copied::Table { .. } => None,
                };
                return Ok(Statement { kind: Kind::Copy(copy.clone(), query), ..Statement::empty() });
            }
            Command::Signal { signals, query } => {
                let query = self.bind_inner(text, query, types)?;
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
                let query = self.bind_inner(text, &create.query, &[])?;
                let kind = Kind::CreateAs(create.clone(), Box::new(query));
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::CreateMaterialized(name, quoted) => {
                let text = of_span(text, said.span).into();
                let kind = Kind::CreateMaterialized(text, name.clone(), quoted.clone());
                return Ok(Statement { kind, ..Statement::empty() });
            }
            Command::Show(Some(name)) => {
                let shown = self
                    .settings
                    .values()
                    .all()
                    .map(|(name, _)| name)
                    .find(|one| one.eq_ignore_ascii_case(name));
                vec![column(shown.unwrap_or(name))]
            }
            Command::Temporary(temporary) => temporary_columns(self, temporary)?,
            Command::Show(None) => vec![column("name"), column("setting"), column("description")],
            _ => Vec::new(),
        };
        let kind = Kind::Command(said.what.clone());
        Ok(Statement { kind, columns: columns.into(), ..Statement::empty() })
    }

    fn prepare_run(&self, text: &str, span: Span, types: &[SqlType]) -> Result<Statement, Failure> {
        let (before, own) = (text.get(..span.start as usize).unwrap_or_default(), of_span(text, span));
        let prepared = self.bind_text(own, types).map_err(|wrong| Failure::of(wrong, before))?;
        Ok(run(prepared, own.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("call"))))
    }

    /// Binds a part of the text.
    fn bind_inner(&self, text: &str, inner: &InnerStatement, types: &[SqlType]) -> Result<Prepared, Failure> {
        let inner = inner.in_text(text);
        self.bind_with(text, |schema_version, facts| schema_version.prepare_inner(facts, &inner, types))
            .map_err(|wrong| Failure::of(wrong, ""))
    }

    /// Result columns of the statement if it runs now.
    pub fn columns_of(&self, statement: &Statement) -> Arc<[OutputColumn]> {
        match &statement.kind {
            Kind::Execute(name, _) => {
                self.names.statement(name).map_or([].into(), |statement| statement.columns.clone())
            }
            Kind::Command(Command::Fetch { name, moves: false, .. }) => {
                match self.names.known_portal(name).map(|portal| &portal.state) {
                    Some(PortalState::Open(cursor)) => cursor.columns.clone(),
                    _ => [].into(),
                }
            }
            _ => statement.columns.clone(),
        }
    }

    /// Binds a text.
    pub(crate) fn bind_text(&self, text: &str, types: &[SqlType]) -> Result<Prepared, Unprepared> {
        self.bind_with(text, |schema_version, facts| schema_version.prepare_for(facts, text, types))
    }

    /// Binds what is in the text. An error may be due to a schema change by another session, so it is checked against the newest schema.
    fn bind_with(
        &self,
        text: &str,
        prepare: impl Fn(&SchemaVersion, &Facts) -> Result<Prepared, Unprepared>,
    ) -> Result<Prepared, Unprepared> {
        let schema_version = |failure: Failure| Unprepared { error: failure.error, position: 1 };
        let before = self.schema_version().map_err(schema_version)?;
        let facts = &self.facts_for(text);
        prepare(&before, facts).or_else(|wrong| {
            if self.transaction.own_schema_version.is_some() {
                // No other session changes the schema of this transaction.
                return Err(wrong);
            }
            // Blocks the thread, since binding is synchronous; only invalid texts take this path.
            let asked = tokio::task::block_in_place(|| self.client.refresh());
            let now = self.schema_version().map_err(schema_version)?;
            match asked.is_ok() && now != before {
                true => prepare(&now, facts),
                false => Err(wrong),
            }
        })
    }

    /// Facts about the session; with its settings, if the text refers to them.
    fn facts_for(&self, text: &str) -> Facts {
        let facts = self.backend.facts.get_or_init(Facts::default).clone();
        let text = text.to_ascii_lowercase();
        match ["current_setting", "pg_settings"].iter().any(|word| text.contains(word)) {
            true => Facts { settings: self.settings_by_name(), ..facts },
            false => facts,
        }
    }

    fn settings_by_name(&self) -> BTreeMap<String, String> {
        self.settings.values().by_name()
    }

    /// The statement as it is bound to the schema and the settings of the moment.
    pub(crate) fn bound<'p>(&self, prepared: &'p Prepared) -> Result<Cow<'p, Prepared>, Failure> {
        let schema_version = self.schema_version()?;
        let settings = prepared.settings().map(|_| self.settings_by_name());
        if prepared.is_of(&schema_version) && prepared.settings() == settings.as_ref() {
            return Ok(Cow::Borrowed(prepared));
        }
        prepared.again(&schema_version, settings).map(Cow::Owned).map_err(|wrong| Failure::of(wrong, ""))
    }
}

fn run(prepared: Prepared, is_call: bool) -> Statement {
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
    Statement::run(prepared, tag)
}

fn of_span(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize).unwrap_or_default()
}
