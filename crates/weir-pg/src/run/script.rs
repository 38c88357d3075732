//! A DO block that is a session's: its statements, one after the other, in one transaction.

use weir_sql::bound::RaiseLevel;
use weir_sql::plpgsql::ScriptStep;
use weir_sql::session::Command;
use weir_types::text::to_text;
use weir_types::{Severity, SqlError, SqlState, SqlType, Value};

use crate::receiver::Receiver;
use crate::session::Session;
use crate::statement::{Done, Failure};

/// The end of a list of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Return,
}

/// In the open transaction, or one that ends with the message.
///
/// # Errors
/// Of the first statement that fails and is not caught.
pub(crate) async fn run_script(session: &mut Session, steps: &[ScriptStep]) -> Result<Done, Failure> {
    let transaction = session.begin_together();
    let mut done = Done::tag("DO");
    run_steps(session, transaction, steps, &mut done).await.map_err(|failure| Failure {
        // Places in its statements are none of the text.
        position: None,
        ..failure
    })?;
    Ok(done)
}

async fn run_steps(
    session: &mut Session,
    transaction: u64,
    steps: &[ScriptStep],
    done: &mut Done,
) -> Result<Flow, Failure> {
    for step in steps {
        if Box::pin(run_step(session, transaction, step, done)).await? == Flow::Return {
            return Ok(Flow::Return);
        }
    }
    Ok(Flow::Next)
}

async fn run_step(
    session: &mut Session,
    transaction: u64,
    step: &ScriptStep,
    done: &mut Done,
) -> Result<Flow, Failure> {
    match step {
        ScriptStep::Return => return Ok(Flow::Return),
        ScriptStep::Run(text) => {
            if run_within(session, text, done).await? {
                let message = "query has no destination for result data";
                let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_hint(hint).into());
            }
        }
        ScriptStep::Perform(text) => {
            run_within(session, text, done).await?;
        }
        ScriptStep::Execute(query) => {
            let Some(text) = text_of(session, query).await? else {
                let message = "query string argument of EXECUTE is null";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message).into());
            };
            run_within(session, &text, done).await?;
        }
        ScriptStep::If { branches, otherwise } => {
            for (condition, steps) in branches {
                if value_of(session, condition).await?.0 == Value::Bool(true) {
                    return run_steps(session, transaction, steps, done).await;
                }
            }
            return run_steps(session, transaction, otherwise, done).await;
        }
        ScriptStep::Raise { level, message, arguments } => {
            let message = formatted(session, message, arguments).await?;
            raise(session, *level, message)?;
        }
        ScriptStep::Guarded { steps, handlers } => {
            let at = session.set_savepoint(transaction, "").await?;
            let failure = match run_steps(session, transaction, steps, done).await {
                Ok(flow) => {
                    session.release_at(transaction, at).await?;
                    return Ok(flow);
                }
                Err(failure) => failure,
            };
            let state = failure.error.state();
            let catches = |caught: &[weir_sql::plpgsql::Caught]| caught.iter().any(|one| one.catches(state));
            let Some((_, steps)) = handlers.iter().find(|(caught, _)| catches(caught)) else {
                return Err(failure);
            };
            done.changed.extend(session.take_back_to(transaction, at).await?);
            session.release_at(transaction, at).await?;
            return run_steps(session, transaction, steps, done).await;
        }
    }
    Ok(Flow::Next)
}

/// Says whether the last of the statements has given rows.
async fn run_within(session: &mut Session, text: &str, done: &mut Done) -> Result<bool, Failure> {
    let mut gives = false;
    let text = &*weir_sql::dollar_quoted(text);
    for said in session.read(text)? {
        if let Some(word) = refused_in_script(&said.what) {
            let message = format!("{word} in a DO block is not supported");
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.with_hint("send it as a statement of its own").into());
        }
        let statement = session.prepare(text, &said, &[])?;
        let given = Box::pin(session.run_now(&statement, &[], &mut Receiver::Result)).await?;
        gives = !given.columns.is_empty() && given.tag == "SELECT";
        done.changed.extend(given.changed);
    }
    Ok(gives)
}

/// Evaluates a query of one value.
async fn value_of(session: &mut Session, query: &str) -> Result<(Value, SqlType), Failure> {
    let query = session.bind_text(query, &[]).map_err(|wrong| Failure::from(wrong.error))?;
    let ty = query.columns().first().map_or(SqlType::Text, |column| column.ty.clone());
    let mut rows = session.run_prepared(&query, "SELECT", &[]).await?.rows;
    let value = rows.pop().and_then(|row| row.into_iter().next());
    Ok((value.unwrap_or_default(), ty))
}

async fn text_of(session: &mut Session, query: &str) -> Result<Option<String>, Failure> {
    let (value, ty) = value_of(session, query).await?;
    Ok((value != Value::Null).then(|| to_text(&value, &ty)))
}

/// `%` stands for an argument, `%%` for itself.
async fn formatted(session: &mut Session, format: &str, arguments: &[String]) -> Result<String, Failure> {
    let mut message = String::new();
    let mut arguments = arguments.iter();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        message.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            message.push('%');
            rest = after;
            continue;
        }
        rest = after;
        match arguments.next() {
            Some(query) => {
                message.push_str(&text_of(session, query).await?.unwrap_or_else(|| "<NULL>".to_owned()))
            }
            None => {
                let message = "too few parameters specified for RAISE";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
            }
        }
    }
    if arguments.next().is_some() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many parameters specified for RAISE").into());
    }
    message.push_str(rest);
    Ok(message)
}

fn raise(session: &mut Session, level: RaiseLevel, message: String) -> Result<(), Failure> {
    let Some(severity) = level.severity() else {
        return Err(SqlError::new(SqlState::RAISE_EXCEPTION, message).into());
    };
    let state = match severity {
        Severity::Warning => SqlState::WARNING,
        _ => SqlState::SUCCESSFUL_COMPLETION,
    };
    session.mention(severity, SqlError::new(state, message));
    Ok(())
}

/// The name of a statement that acts on the transaction which the script is in, or that talks to the client.
fn refused_in_script(what: &Command) -> Option<&'static str> {
    Some(match what {
        Command::Begin(_, tag) => tag,
        Command::Commit => "COMMIT",
        Command::RollBack => "ROLLBACK",
        Command::Savepoint(_) => "SAVEPOINT",
        Command::Release(_) => "RELEASE",
        Command::RollBackTo(_) => "ROLLBACK TO SAVEPOINT",
        Command::Copy(_) => "COPY",
        _ => return None,
    })
}
