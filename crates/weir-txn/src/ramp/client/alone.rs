//! Calls that may derive writes for other shards: each is a transaction of one statement, which carries them (docs/internals/global-keys.md).

use weir_core::ids::{ShardId, TxnId};
use weir_core::machine::{Orders, Sent};

use super::{Coordinator, Event, Flight, RETRIES_AT_ONCE, RETRIES_MAX};
use crate::message::{Age, Begun, Call, Request, Setting};
use crate::ramp::interactive::{Alone, Interactive};

/// Number of times that such a call begins again after a deadlock, or because a shard has forgotten it.
const AGAIN_MAX: u32 = 8;

impl Coordinator {
    /// `age`: also tells how often the call has begun again.
    pub(super) fn begin_alone(
        &mut self,
        now_ms: u64,
        tag: u64,
        (call, participants, owner): (Call, Vec<ShardId>, Option<ShardId>),
        (age, retries): (Age, u32),
        out: &mut Orders<Request, Event>,
    ) {
        let sequence = self.flights.next();
        let txn = TxnId { coordinator: self.id, sequence };
        let look = self.program.defers.then(|| self.constraints(now_ms, Setting::end()));
        // Where nothing is sent again, shards withdraw from statements instead of telling whom these wait for.
        let retries_max = if self.resends { AGAIN_MAX + RETRIES_AT_ONCE } else { RETRIES_MAX };
        let machine = Interactive::begin_alone(
            (txn, Begun { age, at_ms: now_ms }, self.links()),
            (call.clone(), participants, owner),
            // Who has met a holder in its last round waits there at its next attempt.
            Alone { look, may_begin_again: retries < retries_max, binds_with_last_round: retries == 0 },
            &mut self.actions,
        );
        let (call, sent) = (Some(call), Sent::at(now_ms));
        self.flights.begin(Flight::Alone { tag, machine, age, call, retries, sent });
        self.perform_open(now_ms, sequence, out);
    }

    /// The call of an attempt that is over, for the next one: its tag, its age, and how often it has begun again then.
    pub(super) fn take_alone(&mut self, sequence: u64) -> Option<(u64, Call, (Age, u32))> {
        let Some(Flight::Alone { tag, age, call, retries, .. }) = self.flights.get_mut(sequence) else {
            unreachable!("statements of open transactions wait")
        };
        self.traces.retries(*tag);
        Some((*tag, call.take()?, (*age, *retries + 1)))
    }
}
