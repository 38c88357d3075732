//! The coordinator's side of an ordered call (docs/internals/ordered-calls.md; eris.txt §6.2): one message to the sequencer, one answer of each
//! participant. It decides nothing: participants of which one alone may refuse its part vote among themselves.

use std::sync::Arc;

use weir_core::ids::{ShardId, TxnId};
use weir_core::round::Waiting;
use weir_ordered::message::{Message, Party};
use weir_ordered::packet::{Part, Transaction};
use weir_types::SqlError;

use super::coordinator::Action;
use crate::exec::call::{combined, is_refused_elsewhere, needs_interactive_call};
use crate::exec::program::Program;
use crate::message::{
    Answers, Begun, Call, HOME, Operation, Ordered, OrderedMessage, Output, Reply, Request,
};

/// Registration of all coordinators: shards forget them by themselves.
const REGISTRATION: u64 = 1;

#[derive(Debug)]
pub struct OrderedCall {
    txn: TxnId,
    transaction: Arc<Transaction<Operation>>,
    call: Arc<Call>,
    waiting: Waiting,
    answers: Vec<(ShardId, Answers)>,
    /// Nobody waits for its answer any more. It is executed all the same.
    is_unheard: bool,
}

impl OrderedCall {
    /// `participants`: in the order of the program; whether they vote. `floor`: all transactions of the coordinator before it are over.
    pub fn begin(
        (txn, begun, floor): (TxnId, Begun, u64),
        call: Call,
        (participants, votes): (Vec<ShardId>, bool),
        out: &mut Vec<Action>,
    ) -> OrderedCall {
        let (call, participants): (Arc<Call>, Arc<[ShardId]>) = (Arc::new(call), participants.into());
        let mut destinations = participants.to_vec();
        destinations.sort_unstable();
        let of = (call.clone(), participants.clone());
        let what = match votes && participants.len() > 1 {
            true => Ordered::Voted { call: of.0, participants: of.1 },
            false => Ordered::Call { call: of.0, participants: of.1 },
        };
        let transaction = Arc::new(Transaction {
            id: txn,
            floor,
            registration: REGISTRATION,
            destinations: destinations.into(),
            part: Part::Independent,
            operation: Operation { txn, begun, what },
        });
        let waiting = Waiting::from(&participants[..]);
        let ordered = OrderedCall { txn, transaction, call, waiting, answers: Vec::new(), is_unheard: false };
        ordered.submit(out);
        ordered
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    pub fn is_unanswered(&self) -> bool {
        !self.is_unheard
    }

    /// Shards whose answers it waits for.
    pub fn awaited(&self) -> Vec<ShardId> {
        self.waiting.iter().collect()
    }

    fn submit(&self, out: &mut Vec<Action>) {
        let message = Message::Submit(self.transaction.clone());
        let (from, to) = (Party::Client(self.txn.coordinator), Party::Sequencer(0));
        let message = OrderedMessage::Protocol { from, to, message };
        out.push(Action::Send(HOME, Request::Ordered(Box::new(message))));
    }

    /// Submits it again, under the same id, and asks those who may have executed it.
    pub fn send(&self, out: &mut Vec<Action>) {
        self.submit(out);
        let txn = self.txn;
        let repeat = || Request::Ordered(Box::new(OrderedMessage::Repeat { txn }));
        out.extend(self.waiting.iter().map(|shard| Action::Send(shard, repeat())));
    }

    /// Handles a reply. Repetitions are ignored.
    pub fn on_reply(&mut self, program: &Program, reply: Reply, out: &mut Vec<Action>) {
        match reply {
            Reply::Executed { result, .. } if !self.waiting.is_over() => {
                self.waiting = Waiting::default();
                self.finish(result, out);
            }
            Reply::InOrder { shard, answers, .. } if self.waiting.answer(shard) => {
                self.answers.push((shard, answers));
                if self.waiting.is_over() {
                    let refused = refused(&self.answers);
                    let result = refused.map_or_else(
                        || combined(program, (self.txn, &self.call), &self.answers),
                        |error| Err(error.clone()),
                    );
                    self.finish(result, out);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, result: Result<Output, SqlError>, out: &mut Vec<Action>) {
        if !self.is_unheard {
            out.push(Action::Answer(result));
        }
        out.push(Action::Settled);
    }

    /// Nobody waits for it any longer. Once it has a place in the order nothing undoes it.
    pub fn give_up(&mut self) {
        self.is_unheard = true;
    }
}

/// The error with which participants have refused a call on which they have voted: that of one that could not do its part, and if several
/// could not, of the one that needs locks first.
fn refused(answers: &[(ShardId, Answers)]) -> Option<&SqlError> {
    let errors = || answers.iter().filter_map(|(_, answers)| answers.error.as_ref());
    if !errors().any(is_refused_elsewhere) {
        return None;
    }
    errors()
        .find(|error| needs_interactive_call(error))
        .or_else(|| errors().find(|error| !is_refused_elsewhere(error)))
        .or_else(|| errors().next())
}
