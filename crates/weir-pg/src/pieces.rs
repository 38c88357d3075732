//! A statement whose WITH writes, as a session runs it: its pieces, in one transaction.

use weir_client::{Kept, Piece, Prepared};
use weir_types::{SqlError, SqlState, Value};

use crate::session::Session;
use crate::statement::{Done, Failure};

impl Session {
    /// In the open transaction, or one that ends with the message.
    ///
    /// # Errors
    /// What PostgreSQL would say.
    pub(crate) async fn run_pieces(
        &self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
    ) -> Result<Done, Failure> {
        self.begin_together();
        let bound = self.bound(prepared)?;
        let pieces = bound.pieces().into_iter().flat_map(|pieces| &pieces.all);
        let mut kept = Kept::new();
        let mut last = None::<(&Piece, Done)>;
        for piece in pieces {
            if let Some((before, done)) = last.take() {
                kept.push(before.kept(done.rows));
            }
            let own = piece.values(values, &kept);
            last = Some((piece, Box::pin(self.run_prepared(&piece.prepared, tag, &own)).await?));
        }
        last.map(|(_, done)| done)
            .ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a statement without pieces").into())
    }
}
