//! A query that still runs while its cursor or portal is suspended: its rows come through its stream, as far as they are asked for
//! (docs/internals/steps.md, "Cursors").

use std::collections::VecDeque;
use std::sync::Arc;

use weir_client::{CallResult, Client, Error, Pending, Receiving, Row, RowStream};
use weir_types::{Notice, SqlError, SqlState};

/// Dropping it ends the query.
pub struct RunningQuery {
    client: Arc<Client>,
    stream: Receiving,
    /// None: the query has ended, and all of its rows are in the stream or in `last`.
    pending: Option<Pending<CallResult>>,
    /// Name of the query at the client.
    tag: u64,
    /// Rows that were taken from the stream, and not given.
    taken: VecDeque<Row>,
    /// Rows of the query's result, behind those of the stream.
    last: Vec<Row>,
    notices: Vec<Notice>,
}

/// Outcome of the beginning of a query.
pub enum Opened {
    /// It has ended.
    Ended(CallResult),
    Running(RunningQuery),
}

impl RunningQuery {
    /// Waits until the query has ended, or its rows are of a state that nothing changes any more.
    ///
    /// # Errors
    /// The query's.
    pub async fn open(
        client: &Arc<Client>,
        stream: &Arc<RowStream>,
        mut pending: Pending<CallResult>,
    ) -> Result<Opened, Error> {
        let tag = pending.tag();
        let receiving = Receiving(stream.clone());
        tokio::select! {
            biased;
            result = &mut pending => {
                let mut result = result?;
                let mut rows = Vec::new();
                while let Some(taken) = stream.take() {
                    rows.extend(taken);
                }
                rows.append(&mut result.rows);
                Ok(Opened::Ended(CallResult { rows, ..result }))
            }
            () = stream.settled() => Ok(Opened::Running(RunningQuery {
                client: client.clone(),
                stream: receiving,
                pending: Some(pending),
                tag,
                taken: VecDeque::new(),
                last: Vec::new(),
                notices: Vec::new(),
            })),
        }
    }

    /// Its name at the client, under which it can be cancelled.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The next rows, at most so many; none: there are no more.
    ///
    /// # Errors
    /// The query's: it has ended.
    pub async fn next(&mut self, most: usize) -> Result<Option<Vec<Row>>, Error> {
        while self.taken.is_empty() {
            match self.batch().await? {
                Some(rows) => self.taken = rows.into(),
                None => return Ok(None),
            }
        }
        let rest = self.taken.split_off(most.min(self.taken.len()));
        Ok(Some(std::mem::replace(&mut self.taken, rest).into()))
    }

    async fn batch(&mut self) -> Result<Option<Vec<Row>>, Error> {
        if let Some(pending) = &mut self.pending {
            let result = tokio::select! {
                biased;
                rows = self.stream.0.next() => return Ok(Some(rows)),
                result = pending => result,
            };
            self.pending = None;
            let CallResult { rows, notices, .. } = result?;
            (self.last, self.notices) = (rows, notices);
        }
        let last = |last: Vec<Row>| (!last.is_empty()).then_some(last);
        Ok(self.stream.0.take().or_else(|| last(std::mem::take(&mut self.last))))
    }

    /// Notices of the query, once it has ended.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        if self.pending.is_some() {
            let message = "canceling statement because its cursor is closed";
            self.client.cancel(self.tag, SqlError::new(SqlState::QUERY_CANCELED, message));
        }
    }
}
