//! The messages of a COPY.

use futures::SinkExt;
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage as Answer;
use pgwire::messages::copy::{CopyData, CopyDone as AllSent, CopyFail, CopyInResponse};
use weir_types::{SqlError, SqlState};

use crate::answer;
use crate::handlers::{Talk, say};
use crate::opening::Socket;
use crate::receiver::copy_out_response;
use crate::statement::{CopyDone, Done, Failure};

impl Talk {
    /// Tells what a COPY does next. Says whether it waits for the client.
    pub(crate) async fn say_copy(&mut self, client: &mut Socket, done: &Done) -> PgWireResult<bool> {
        match &done.copy {
            None => Ok(false),
            Some(CopyDone::In { columns, is_binary }) => {
                let formats = vec![i16::from(*is_binary); *columns];
                let begun = CopyInResponse::new(i8::from(*is_binary), *columns as i16, formats);
                say(client, Answer::CopyInResponse(begun)).await?;
                client.flush().await?;
                Ok(true)
            }
            Some(CopyDone::Out { columns, is_binary, has_begun, messages }) => {
                if !has_begun {
                    say(client, Answer::CopyOutResponse(copy_out_response(*columns, *is_binary))).await?;
                }
                for message in messages {
                    say(client, Answer::CopyData(CopyData::new(message.clone().into()))).await?;
                }
                say(client, Answer::CopyDone(AllSent::new())).await?;
                say(client, Answer::CommandComplete(answer::complete(&done.tag, done.count))).await?;
                Ok(false)
            }
        }
    }

    /// A COPY whose client says something else has failed.
    pub(crate) async fn abandon_copy(&mut self) {
        if self.session.copying.is_none() {
            return;
        }
        // Boxed, for it is large and seldom there: every message asks for it.
        Box::pin(async {
            if let Some(mut copying) = self.session.copying.take() {
                let _ = copying.settle().await;
            }
            self.session.transaction.fail();
            // It is rolled back; an error cannot be reported to the client any more.
            let _ = self.session.end_together(true).await;
        })
        .await;
    }

    /// Ends the COPY under way with an error that is none of its rows'.
    pub(crate) async fn give_up_copy(&mut self, client: &mut Socket, error: SqlError) -> PgWireError {
        let copying = self.session.copying.take();
        let mut context = None;
        if let Some(mut copying) = copying {
            let _ = copying.settle().await;
            context = Some(copying.context());
        }
        self.copy_failed(client, Failure { context, ..error.into() }).await
    }

    async fn copy_failed(&mut self, client: &mut Socket, failure: Failure) -> PgWireError {
        let error = self.failed(failure);
        if let PgWireConnectionState::CopyInProgress(false) = client.state() {
            let _ = self.session.end_together(true).await;
            self.forget_failure();
        }
        client.set_transaction_status(self.status());
        error
    }
}

impl Talk {
    pub(crate) async fn on_copy_data(&mut self, client: &mut Socket, data: CopyData) -> PgWireResult<()> {
        let Some(mut copying) = self.session.copying.take() else { return Ok(()) };
        match copying.take(&data.data).await {
            Ok(()) => {
                self.session.copying = Some(copying);
                Ok(())
            }
            Err(failure) => Err(self.copy_failed(client, failure).await),
        }
    }

    pub(crate) async fn on_copy_done(&mut self, client: &mut Socket) -> PgWireResult<()> {
        let Some(mut copying) = self.session.copying.take() else { return Ok(()) };
        let is_simple = matches!(client.state(), PgWireConnectionState::CopyInProgress(false));
        let ended = match copying.finish().await {
            Ok(count) if is_simple => self.session.end_together(false).await.1.map(|()| count),
            ended => ended,
        };
        match ended {
            Ok(count) => {
                client.set_transaction_status(self.status());
                say(client, Answer::CommandComplete(answer::complete("COPY", Some(count)))).await
            }
            Err(failure) => Err(self.copy_failed(client, failure).await),
        }
    }

    pub(crate) async fn on_copy_fail(&mut self, client: &mut Socket, fail: CopyFail) -> PgWireError {
        let message = format!("COPY from stdin failed: {}", fail.message);
        self.give_up_copy(client, SqlError::new(SqlState::QUERY_CANCELED, message)).await
    }
}
