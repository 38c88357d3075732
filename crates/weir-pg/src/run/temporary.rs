//! Functions in pg_temp, which are a session's and go with it (`weir_sql::session::Temporary` says which).

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sql::bound::OutputColumn;
use weir_sql::session::{Caught, Command, Output, OutputType, Said, Temporary, TemporaryFunction};
use weir_types::{Severity, SqlError, SqlState, Value};

use crate::receiver::Receiver;
use crate::session::Session;
use crate::statement::{Done, Failure};

/// By their names.
#[derive(Default)]
pub(crate) struct TemporaryFunctions(BTreeMap<String, Arc<TemporaryFunction>>);

impl TemporaryFunctions {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn get(&self, name: &str) -> Result<Arc<TemporaryFunction>, SqlError> {
        self.0.get(name).cloned().ok_or_else(|| is_missing(name))
    }

    /// # Errors
    /// There is one, which may not be replaced, or not by this one.
    fn create(&mut self, function: &TemporaryFunction, replaces: bool) -> Result<(), SqlError> {
        let before = self.0.get(&function.name);
        if !replaces && before.is_some() {
            let message = format!("function \"{}\" already exists with same argument types", function.name);
            return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
        }
        if before.is_some_and(|before| before.outputs != function.outputs) {
            let message = "cannot change return type of existing function";
            return Err(SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
                .with_detail("Row type defined by OUT parameters is different."));
        }
        self.0.insert(function.name.clone(), Arc::new(function.clone()));
        Ok(())
    }

    /// Says whether there was one.
    fn drop(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

fn is_missing(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function pg_temp.{name}() does not exist"))
}

fn no_column(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}

/// The columns of the call of one; none: it is no call.
pub(crate) fn temporary_columns(
    session: &Session,
    temporary: &Temporary,
) -> Result<Vec<OutputColumn>, Failure> {
    let Temporary::Call { name, outputs } = temporary else { return Ok(Vec::new()) };
    let function = session.temporary.get(name)?;
    let mut columns = Vec::new();
    for output in outputs {
        match output {
            Output::Scalar(parameter) => {
                let given = columns_given(session, &type_of(&function, parameter)?.value)?;
                let first = given.into_iter().next();
                columns.extend(first.map(|column| OutputColumn { name: parameter.clone(), ..column }));
            }
            Output::Field(parameter, None) => columns.extend(fields(session, &function, parameter)?),
            Output::Field(parameter, Some(field)) => {
                let fields = fields(session, &function, parameter)?;
                let found = fields.into_iter().find(|one| one.name == *field);
                columns.push(found.ok_or_else(|| no_field(field, &function, parameter))?);
            }
        }
    }
    Ok(columns)
}

fn columns_given(session: &Session, query: &str) -> Result<Vec<OutputColumn>, Failure> {
    let query = session.bind_text(query, &[]).map_err(|wrong| Failure::from(wrong.error))?;
    Ok(query.columns().to_vec())
}

/// Columns of the table whose row type the parameter has.
fn fields(
    session: &Session,
    function: &TemporaryFunction,
    parameter: &str,
) -> Result<Vec<OutputColumn>, Failure> {
    columns_given(session, &type_of(function, parameter)?.rows)
}

/// # Errors
/// The errors of PostgreSQL.
pub(crate) async fn run_temporary(
    session: &mut Session,
    temporary: &Temporary,
    columns: Arc<[OutputColumn]>,
) -> Result<Done, Failure> {
    match temporary {
        Temporary::Create { function, replaces } => {
            session.temporary.create(function, *replaces)?;
            Ok(Done::tag("CREATE FUNCTION"))
        }
        Temporary::Drop { name, if_exists } => {
            let was_there = session.temporary.drop(name);
            if !was_there && !if_exists {
                return Err(is_missing(name).into());
            }
            if !was_there {
                let message = format!("function pg_temp.{name}() does not exist, skipping");
                session.mention(Severity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
            }
            Ok(Done::tag("DROP FUNCTION"))
        }
        Temporary::Call { name, outputs } => {
            let function = session.temporary.get(name)?;
            let row = call_temporary(session, &function, outputs).await?;
            Ok(Done { columns, rows: vec![row], ..Done::tag("SELECT") })
        }
    }
}

/// In the open transaction, or in one that ends with the message.
async fn call_temporary(
    session: &mut Session,
    function: &TemporaryFunction,
    outputs: &[Output],
) -> Result<Vec<Value>, Failure> {
    let transaction = session.begin_together();
    let fields = fields(session, function, &function.into)?;
    let Some(caught) = &function.caught else {
        let row = run_body(session, function, &fields).await?;
        return values_of(function, outputs, (&fields, &row), &BTreeMap::new());
    };
    let at = session.set_savepoint(transaction, "").await?;
    match run_body(session, function, &fields).await {
        Ok(row) => {
            session.release_at(transaction, at).await?;
            values_of(function, outputs, (&fields, &row), &BTreeMap::new())
        }
        Err(failure) if failure.error.state() == SqlState::UNIQUE_VIOLATION => {
            session.take_back_to(transaction, at).await?;
            session.release_at(transaction, at).await?;
            let mut said = BTreeMap::new();
            for (parameter, item) in caught {
                said.insert(parameter.as_str(), Value::text(said_of(&failure.error, *item)));
            }
            values_of(function, outputs, (&fields, &vec![Value::Null; fields.len()]), &said)
        }
        Err(failure) => Err(failure),
    }
}

/// The row that the parameter of INTO is given: NULLs, if there is none.
async fn run_body(
    session: &mut Session,
    function: &TemporaryFunction,
    fields: &[OutputColumn],
) -> Result<Vec<Value>, Failure> {
    let whole = |failure: Failure| Failure { position: None, ..failure };
    let text = function.statement.as_str();
    let span = weir_sql::Span { file: 0, start: 0, end: text.len() as u32 };
    let statement = session.prepare(text, &Said { what: Command::Run, span }, &[]).map_err(whole)?;
    let types = statement.columns.iter().map(|column| &column.ty);
    if statement.columns.len() > fields.len()
        || !types.eq(fields.iter().map(|field| &field.ty).take(statement.columns.len()))
    {
        let message = "a row of other types than those of the parameter that it goes into is not supported";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_hint("RETURNING * gives all columns")
            .into());
    }
    let done = Box::pin(session.run_now(&statement, &[], &mut Receiver::Result)).await.map_err(whole)?;
    let mut row = done.rows.into_iter().next().unwrap_or_default();
    row.resize(fields.len(), Value::Null);
    Ok(row)
}

fn type_of<'f>(function: &'f TemporaryFunction, parameter: &str) -> Result<&'f OutputType, SqlError> {
    let found = function.outputs.iter().find(|(name, _)| name == parameter);
    found.map(|(_, ty)| ty).ok_or_else(|| no_column(parameter))
}

fn no_field(field: &str, function: &TemporaryFunction, parameter: &str) -> SqlError {
    let ty = match type_of(function, parameter) {
        Ok(ty) => &ty.name,
        Err(missing) => return missing,
    };
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{field}\" not found in data type {ty}"))
}

fn said_of(error: &SqlError, item: Caught) -> String {
    match item {
        Caught::State => error.state().to_string(),
        Caught::Message => error.message().to_owned(),
        Caught::Detail => error.fields().detail.clone().unwrap_or_default(),
        Caught::Constraint => error.fields().constraint.clone().unwrap_or_default(),
    }
}

/// Result values of a call, from the row and the handler's diagnostics.
fn values_of(
    function: &TemporaryFunction,
    outputs: &[Output],
    (fields, row): (&[OutputColumn], &[Value]),
    said: &BTreeMap<&str, Value>,
) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    for output in outputs {
        match output {
            Output::Scalar(parameter) => {
                values.push(said.get(parameter.as_str()).cloned().unwrap_or_default())
            }
            Output::Field(parameter, _) if *parameter != function.into => {
                return Err(no_column(parameter).into());
            }
            Output::Field(_, None) => values.extend_from_slice(row),
            Output::Field(_, Some(field)) => {
                let at = fields.iter().position(|one| one.name == *field);
                let value = at.and_then(|at| row.get(at));
                values.push(value.ok_or_else(|| no_column(field))?.clone());
            }
        }
    }
    Ok(values)
}
