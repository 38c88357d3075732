//! COPY as a session runs it.

use weir_client::Prepared;
use weir_sql::session::{Copied, Copy};
use weir_types::{SqlError, SqlState};

use crate::copy::{CopyIn, CopyOut, Named, Options};
use crate::receiver::Receiver;
use crate::session::Session;
use crate::statement::{CopyDone, Done, Failure};

/// # Errors
/// An error of PostgreSQL, or an unsupported feature.
pub(crate) async fn copy(
    session: &mut Session,
    copy: &Copy,
    query: Option<&Prepared>,
    receiver: &mut Receiver<'_>,
) -> Result<Done, Failure> {
    let options = Options::of(&copy.options, copy.is_from)?;
    match (&copy.what, query) {
        (Copied::Table { name, columns }, _) if copy.is_from => {
            let load = session.current_schema_version().await?.load(name, columns)?;
            session.settings.refuse_write("COPY FROM")?;
            let names: Vec<&str> = load.table.columns.iter().map(|(name, _)| name.as_str()).collect();
            refuse_unknown(&options, &names)?;
            let transaction = session.begin_together();
            let copy = CopyIn::new(
                (session.client.clone(), session.backend.in_flight.clone()),
                transaction,
                options,
                load,
            );
            let done = CopyDone::In { columns: copy.columns(), is_binary: copy.is_binary() };
            session.copying = Some(copy);
            Ok(Done { copy: Some(done), ..Done::tag("COPY") })
        }
        (Copied::Table { name, columns }, _) => {
            let prepared = session.current_schema_version().await?.unload(name, columns)?;
            copy_out(session, &prepared, options, receiver).await
        }
        (Copied::Query(_), Some(query)) if !query.columns().is_empty() => {
            copy_out(session, query, options, receiver).await
        }
        (Copied::Query(_), _) => {
            let message = "COPY query must have a RETURNING clause";
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into())
        }
    }
}

async fn copy_out(
    session: &mut Session,
    prepared: &Prepared,
    options: Options,
    receiver: &mut Receiver<'_>,
) -> Result<Done, Failure> {
    let columns = prepared.columns();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    refuse_unknown(&options, &names)?;
    let kept = receiver.begin_copy(CopyOut::new(options));
    let done = session.run_prepared_into(prepared, "COPY", &[], receiver).await?;
    let style = session.settings.in_effect().interval_style;
    let mut out = receiver.end_copy().or(kept).expect("the receiver has taken it or given it back");
    let (is_binary, has_begun) = (out.is_binary(), done.sent.is_some());
    let mut messages = Vec::with_capacity(done.rows.len() + 2);
    if !has_begun {
        messages.extend(out.head(columns));
    }
    for row in &done.rows {
        let mut message = Vec::with_capacity(16 * row.len());
        out.push_row(row, columns, style, &mut message)?;
        messages.push(message);
    }
    messages.extend(out.end());
    let count = Some(done.sent.unwrap_or(done.rows.len() as u64));
    let copy = Some(CopyDone::Out { columns: columns.len(), is_binary, has_begun, messages });
    Ok(Done { copy, count, ..Done::tag("COPY") })
}

fn refuse_unknown(options: &Options, columns: &[&str]) -> Result<(), SqlError> {
    let forced = [
        ("QUOTE", &options.force_quote),
        ("NOT NULL", &options.force_not_null),
        ("NULL", &options.force_null),
    ];
    for (what, named) in forced {
        let Named::These(names) = named else { continue };
        if let Some(name) = names.iter().find(|name| !columns.contains(&name.as_str())) {
            let message =
                format!("FORCE_{} column \"{name}\" not referenced by COPY", what.replace(' ', "_"));
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
    }
    Ok(())
}
