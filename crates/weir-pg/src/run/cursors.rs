//! Cursors, and portals that are run for a number of rows: DECLARE, FETCH and MOVE; what COMMIT keeps of them. A long query keeps running
//! between two of these (docs/internals/steps.md, "Cursors").

use std::sync::Arc;

use weir_client::{Begun, Error, Prepared};
use weir_sql::bound::OutputColumn;
use weir_sql::session::Way;
use weir_types::Value;

use crate::portals::Cursor;
use crate::receiver::{Forward, Given, Receiver};
use crate::session::{Session, sql_error};
use crate::statement::{Done, Failure, Kind, Statement};
use crate::transaction::only_in_transactions;

/// DECLARE CURSOR, but for its query.
pub(crate) struct Declared<'a> {
    pub name: &'a str,
    pub scroll: Option<bool>,
    pub hold: bool,
    pub binary: bool,
}

/// # Errors
/// The query's, or there is such a cursor, or no transaction.
pub(crate) async fn declare(
    session: &mut Session,
    Declared { name, scroll, hold, binary }: Declared<'_>,
    query: &Prepared,
    values: &[Value],
) -> Result<Done, Failure> {
    let transaction = session.transaction.open_name();
    if !hold && transaction.is_none() {
        return Err(only_in_transactions("DECLARE CURSOR").into());
    }
    session.names.refuse_double(name)?;
    // What goes backwards, or outlives its statement's transaction at once, is stored.
    let is_stored = scroll == Some(true) || transaction.is_none();
    let mut receiver = if is_stored { Receiver::Result } else { Receiver::suspended() };
    let Done { columns, rows, .. } = session.run_prepared_into(query, "", values, &mut receiver).await?;
    let cursor = Cursor::of(columns, "FETCH".to_owned(), (receiver.take_running(), rows), scroll);
    let born = (transaction, session.transaction.depth());
    session.names.declare(name, cursor, (hold, binary), born);
    Ok(Done::tag("DECLARE CURSOR"))
}

/// FETCH, and MOVE. As in PostgreSQL, the cursor is over after an error.
///
/// # Errors
/// There is no such cursor, or it would have to go backwards and cannot; or the query's.
pub(crate) async fn fetch(
    session: &mut Session,
    (name, way, moves): (&str, Way, bool),
    columns: Arc<[OutputColumn]>,
    receiver: &mut Receiver<'_>,
) -> Result<Done, Failure> {
    let mut cursor = session.names.take_cursor(name)?;
    let tag = if moves { "MOVE" } else { "FETCH" };
    let fetched = match cursor.is_running() {
        false => cursor.fetch(way).map(|rows| (rows.len(), rows)),
        true => match cursor.forward(way) {
            Ok(forward) => {
                let given = take_rows(session, &mut cursor, (forward, !moves), receiver).await?;
                Ok((given.count, given.rows))
            }
            Err(error) => Err(error),
        },
    };
    let (count, rows) = fetched?;
    session.names.put_cursor(name, cursor);
    Ok(match moves {
        true => Done { count: Some(count as u64), columns, ..Done::tag(tag) },
        false => Done { rows, columns, sent: receiver.sent(), ..Done::tag(tag) },
    })
}

/// Takes rows of the cursor's query, which runs. While it waits for them it can be cancelled.
async fn take_rows(
    session: &mut Session,
    cursor: &mut Cursor,
    asked: (Forward, bool),
    receiver: &mut Receiver<'_>,
) -> Result<Given, Failure> {
    let columns = cursor.columns.clone();
    let Some(query) = cursor.running() else { return Ok(Given::default()) };
    let style = session.settings.in_effect().interval_style;
    let in_flight = session.backend.in_flight.clone();
    in_flight.begun(query.tag())?;
    in_flight.set_sends_rows(receiver.sends_rows());
    let mut result = receiver.take_from(query, asked, (&columns, style)).await;
    in_flight.set_sends_rows(false);
    in_flight.ended(result.is_err());
    let notices = match &mut result {
        Ok(_) => query.take_notices(),
        Err(Error::Sql(error)) => std::mem::take(error.notices_mut()),
        Err(_) => Vec::new(),
    };
    session.notices.mention_all(session.settings.values(), notices);
    let given = result.map_err(sql_error)?;
    cursor.pass(&given);
    Ok(given)
}

impl Session {
    /// Returns whether the query of the statement may keep running while its portal waits to be run again.
    pub fn may_be_suspended(&self, statement: &Statement) -> bool {
        matches!(statement.kind, Kind::Run(..) | Kind::Execute(..)) && !self.columns_of(statement).is_empty()
    }

    /// Runs a portal again whose query still runs, for at most so many rows; 0: for all of them. After an error the portal cannot be run
    /// any more.
    ///
    /// # Errors
    /// The query's, or the client cannot be reached.
    pub async fn run_again(
        &mut self,
        text: &Arc<str>,
        cursor: &mut Cursor,
        rows_max: usize,
        receiver: &mut Receiver<'_>,
    ) -> Result<Given, Failure> {
        let armed = self.begin_statement(text)?;
        let most = if rows_max == 0 { usize::MAX } else { rows_max };
        let given = take_rows(self, cursor, (Forward { skip: 0, most }, true), receiver).await;
        drop(armed);
        self.end_statement();
        self.note_activity_ended(std::time::Instant::now());
        self.watch_idle();
        given
    }

    /// The transaction is about to commit: stores the rest of what its cursors WITH HOLD give.
    ///
    /// # Errors
    /// A query's: the transaction cannot commit.
    pub(crate) async fn store_held_cursors(&mut self) -> Result<(), Failure> {
        for name in self.names.held_and_running() {
            let mut cursor = self.names.take_cursor(&name)?;
            let all = Forward { skip: 0, most: usize::MAX };
            let at = cursor.position();
            let given = Box::pin(take_rows(self, &mut cursor, (all, true), &mut Receiver::Result)).await?;
            cursor.store(at, given.rows);
            self.names.put_cursor(&name, cursor);
        }
        Ok(())
    }
}
