//! COPY FROM STDIN: rows are kept until all have come, so that the statement is one request, which can be run again.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use weir_conveyor_net::sessions::{Request, Until};

use crate::messages::{self, FrontError};
use crate::session::{Out, Session, has_error};
use crate::statement::Statement;
use crate::transaction::Failed;

/// Bytes that a COPY may have. A frame between two agents has less than 16 MB.
const COPY_BYTES_MAX: usize = 15 << 20;

/// A COPY whose rows are coming.
pub(crate) struct CopyIn {
    statement: Arc<Statement>,
    /// The statement, and the rows so far.
    messages: Vec<u8>,
    /// It was begun by an Execute: a Sync ends it, and not its last row.
    is_extended: bool,
}

impl CopyIn {
    pub fn begin(statement: Arc<Statement>, is_extended: bool) -> CopyIn {
        let messages = messages::of_client(b'Q', |out| messages::text(out, &statement.text));
        CopyIn { statement, messages, is_extended }
    }
}

impl Session {
    /// Takes a message while rows are coming.
    pub(crate) async fn copy(&mut self, (kind, body): (u8, &Bytes), out: &mut Out) -> io::Result<()> {
        let Some(copy) = &mut self.copy else { return Ok(()) };
        let failed = match kind {
            b'd' if copy.messages.len() + body.len() <= COPY_BYTES_MAX => {
                copy.messages.extend(messages::of_client(b'd', |out| out.extend_from_slice(body)));
                return Ok(());
            }
            b'd' => FrontError::new("54000", "a COPY of more than 15 MB does not go through weir conveyor")
                .with_hint("copy the rows in parts"),
            // They mean nothing here, as PostgreSQL has it.
            b'H' | b'S' => return Ok(()),
            b'c' => return self.end_copy(out).await,
            b'f' => {
                let why = String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body)).into_owned();
                FrontError::new("57014", format!("COPY from stdin failed: {why}"))
            }
            _ => FrontError::new("08P01", "a message that is no part of COPY while rows are coming"),
        };
        let is_extended = copy.is_extended;
        self.copy = None;
        self.report(&failed, out);
        if is_extended {
            self.skips = true;
            return Ok(());
        }
        messages::ready(&mut out.buffer, self.status());
        out.flush().await
    }

    async fn end_copy(&mut self, out: &mut Out) -> io::Result<()> {
        let Some(CopyIn { statement, mut messages, is_extended }) = self.copy.take() else { return Ok(()) };
        messages.extend(messages::of_client(b'c', |_| ()));
        let request = Request {
            messages,
            prepared: Vec::new(),
            until: Until::Ready,
            then_commit: false,
            may_commit: false,
            sets: false,
            copies: true,
        };
        let asked = self.ask((request, &[(statement, Vec::new())]), out).await;
        let ran = asked.map(|answered| {
            out.buffer.extend_from_slice(&answered.messages);
            !has_error(&answered.messages)
        });
        if is_extended {
            self.skips = match ran {
                Ok(has_succeeded) => !has_succeeded,
                Err(Failed::Socket(error)) => return Err(error),
                Err(Failed::Error(error)) => {
                    self.report(&error, out);
                    true
                }
            };
            return Ok(());
        }
        self.end_text(ran, out)?;
        self.end_request();
        messages::ready(&mut out.buffer, self.status());
        out.flush().await
    }
}
