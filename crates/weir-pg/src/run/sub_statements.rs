//! A statement that is several, as a session runs it: its pieces, in one transaction if more than the last of them write.

use weir_client::{Kept, Prepared, SubStatement};
use weir_types::{SqlError, SqlState, Value};

use crate::session::Session;
use crate::statement::{Done, Failure};

/// In the open transaction, or one that ends with the message; in none where one of them alone writes.
///
/// # Errors
/// The errors of PostgreSQL.
pub(crate) async fn run_pieces(
    session: &mut Session,
    prepared: &Prepared,
    tag: &'static str,
    values: &[Value],
) -> Result<Done, Failure> {
    let bound = session.bound(prepared)?;
    if bound.pieces().is_some_and(|pieces| !pieces.write_at_once()) {
        session.begin_together();
    }
    let pieces = bound.pieces().into_iter().flat_map(|pieces| &pieces.all);
    let mut kept = Kept::new();
    let mut last = None::<(&SubStatement, Done)>;
    for piece in pieces {
        if let Some((before, done)) = last.take() {
            kept.push(before.kept(done.rows));
        }
        let own = piece.values(values, &kept);
        last = Some((piece, Box::pin(session.run_prepared(&piece.prepared, tag, &own)).await?));
    }
    last.map(|(_, done)| done)
        .ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a statement without pieces").into())
}
