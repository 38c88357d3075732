//! The way of a call: which shards take part, and whether it runs in the order of the sequencer, as an interactive transaction, or by a
//! commit of its own.

use weir_core::ids::ShardId;
use weir_types::SqlError;

use super::admission::Admission;
use super::independent::{self, Agreement};
use super::program::{CompiledProcedure, Program};
use crate::message::{Attempt, Call, Callee, schema_has_changed};

/// The way of a call: its participants, and how they agree.
#[derive(Debug)]
pub(crate) struct Route {
    /// In the order in which they are asked; the deciding one is last. Never empty.
    pub participants: Vec<ShardId>,
    /// The participants with the owners of the global keys of the row that it inserts, if it may run so.
    pub with_keys: Option<Vec<ShardId>>,
    /// The owner of the global key that names the row of the statement. It is asked first, and knows where the row is.
    pub owner: Option<ShardId>,
    /// [`CompiledProcedure::guarded`].
    pub guarded: bool,
    /// [`CompiledProcedure::carries`], on several shards.
    pub carries: bool,
    /// It is an independent transaction, in the order of the sequencer.
    pub ordered: bool,
    /// The coordinator runs the statements of the call in one transaction.
    pub interactive: bool,
    /// It takes interval locks of what it reads, though its transaction is not serializable.
    pub locks: bool,
}

impl Route {
    fn of(participants: Vec<ShardId>) -> Route {
        Route {
            participants,
            with_keys: None,
            owner: None,
            guarded: false,
            carries: false,
            ordered: false,
            interactive: false,
            locks: false,
        }
    }
}

impl Program {
    /// Participants of a call, the deciding one last; or the error why it cannot run on several shards.
    pub fn participants(&self, call: &Call) -> Result<Vec<ShardId>, SqlError> {
        self.route(call).map(|route| route.participants)
    }

    /// The participants of a call by itself, with the owners of the keys of the row that it inserts.
    ///
    /// # Errors
    /// As [`Program::participants`].
    pub fn participants_by_itself(&self, call: &Call) -> Result<Vec<ShardId>, SqlError> {
        self.route(call).map(|route| route.with_keys.unwrap_or(route.participants))
    }

    /// The shard that is asked first where the row is that the statement names by a global key. None: its participants are asked.
    pub fn asks_owner(&self, call: &Call) -> Option<ShardId> {
        self.route(call).ok()?.owner
    }

    /// The way of a call by itself.
    ///
    /// # Errors
    /// As [`Program::participants`].
    pub(crate) fn route(&self, call: &Call) -> Result<Route, SqlError> {
        if call.schema_version != self.schema_version {
            return Err(schema_has_changed());
        }
        if let Callee::Definition(_) = call.callee {
            return Ok(Route::of((0..self.shards).collect()));
        }
        if let Callee::SetSequence { shard, .. } = call.callee {
            return Ok(Route::of(vec![shard]));
        }
        let procedure = self.callee(&call.callee)?;
        // A call with many rows goes to the shard of the first row.
        let args = match procedure.inputs.len() {
            width if width > 0 && call.args.len() > width => &call.args[..width],
            _ => &call.args[..],
        };
        let shards = procedure.participants.of(args, self.shards);
        procedure.admission.check(shards.len())?;
        let carries = procedure.carries && self.shards > 1;
        let is_locked = matches!(procedure.admission, Admission::UnderLocks(_));
        let ordered = self.is_ordered
            && procedure.in_order
            && matches!(call.callee, Callee::Procedure(_))
            && !(is_locked || carries)
            && (shards.len() == 1
                || procedure.independent.as_ref().is_ok_and(|one| independent::takes(*one, args)));
        let interactive = match (&procedure.admission, &call.callee) {
            _ if ordered => false,
            // A statement of a transaction that has its locks.
            (_, Callee::Serializable(_)) => false,
            (Admission::UnderLocks(_), _) => true,
            (Admission::Interactive(_), _) if !procedure.in_order => shards.len() > 1,
            _ => procedure.in_order && self.orders_by_locks,
        };
        let asks_owner = shards.len() > 1 && !interactive && call.callee.attempt().is_none();
        let named_row = procedure.named_row.as_ref().filter(|_| asks_owner);
        let owner = named_row.and_then(|row| row.owner(args, self.shards));
        let is_first = !interactive && carries && call.callee.attempt().is_none_or(Attempt::is_with_keys);
        let keys = procedure.inserted_keys.as_ref().filter(|_| is_first && call.args.len() == args.len());
        let with_keys = match (keys, &shards[..]) {
            (Some(keys), [home]) => Some(keys.participants(*home, args, self.shards)),
            _ => None,
        };
        let (participants, guarded) = (shards, procedure.guarded);
        Ok(Route { participants, with_keys, owner, guarded, carries, ordered, interactive, locks: false })
    }

    /// The way of a call in an interactive transaction; one that is serializable orders all that it runs.
    ///
    /// # Errors
    /// As [`Program::participants`].
    pub(crate) fn route_within(&self, call: &Call, is_serializable: bool) -> Result<Route, SqlError> {
        let mut route = self.route(call)?;
        route.interactive |= std::mem::take(&mut route.ordered);
        if let Callee::Procedure(procedure) = &call.callee {
            route.locks = self.procedures[*procedure].in_order && !is_serializable;
        }
        Ok(route)
    }

    /// How the participants of an ordered call over several shards agree.
    pub fn agreement_on(&self, call: &Call) -> Agreement {
        let of = |procedure: &CompiledProcedure| procedure.independent.as_ref().ok().copied();
        self.callee(&call.callee).ok().and_then(|procedure| of(&procedure)).unwrap_or_default()
    }

    /// Returns whether the call is an independent transaction, in the order of the sequencer.
    pub fn orders(&self, call: &Call) -> bool {
        self.route(call).is_ok_and(|route| route.ordered)
    }
}
