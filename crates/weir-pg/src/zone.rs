//! The time zone of a session, in which everything that its connection computes is computed.

use std::future::{Future, poll_fn};
use std::pin::pin;

use weir_types::datetime::session::ZoneCell;

/// Runs work in that time zone. The zone is entered at each poll, since the work may move to another thread, and other work may run in
/// between.
pub(crate) async fn in_zone<F: Future>(zone: &ZoneCell, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _zone = zone.get().enter();
        work.as_mut().poll(context)
    })
    .await
}
