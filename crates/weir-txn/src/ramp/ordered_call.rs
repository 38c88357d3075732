//! The coordinator's side of an ordered call (docs/internals/ordered-calls.md; eris.txt §6.2): one message to the sequencer, one answer of each
//! participant. It decides nothing: participants of which one alone may refuse its part vote among
//! themselves, or the last one decides.

use std::sync::Arc;

use weir_core::ids::{ShardId, TxnId};
use weir_core::round::Waiting;
use weir_ordered::message::{Message, Party};
use weir_ordered::packet::{Part, Transaction};
use weir_types::SqlError;

use super::coordinator::Action;
use crate::exec::call::{combined, is_refused_elsewhere, needs_interactive_call};
use crate::exec::independent::Agreement;
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
    /// Result of a call that its last participant has decided. The client hears of it once all participants have done it.
    decided: Option<Result<Output, SqlError>>,
    /// Nobody waits for its answer any more. It is executed all the same.
    is_unheard: bool,
}

impl OrderedCall {
    /// `participants`: in the order of the program; how they agree if they are several. `floor`: all transactions of the coordinator before it are over.
    pub fn begin(
        (txn, begun, floor): (TxnId, Begun, u64),
        call: Call,
        (participants, agreement): (Vec<ShardId>, Agreement),
        out: &mut Vec<Action>,
    ) -> OrderedCall {
        let (call, participants): (Arc<Call>, Arc<[ShardId]>) = (Arc::new(call), participants.into());
        let mut destinations = participants.to_vec();
        destinations.sort_unstable();
        let waiting = Waiting::from(&participants[..]);
        let of = call.clone();
        let what = match agreement {
            Agreement::Votes if participants.len() > 1 => Ordered::Voted { call: of, participants },
            Agreement::Last if participants.len() > 1 => Ordered::Decided { call: of, participants },
            _ => Ordered::Call { call: of, participants },
        };
        let transaction = Arc::new(Transaction {
            id: txn,
            floor,
            registration: REGISTRATION,
            destinations: destinations.into(),
            part: Part::Independent,
            operation: Operation { txn, begun, what },
        });
        let (answers, decided) = (Vec::new(), None);
        let ordered = OrderedCall { txn, transaction, call, waiting, answers, decided, is_unheard: false };
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
                self.finish_if_over(program, out);
            }
            Reply::DecidedInOrder { shard, result, .. } if self.waiting.answer(shard) => {
                self.decided = Some(result);
                self.finish_if_over(program, out);
            }
            _ => {}
        }
    }

    fn finish_if_over(&mut self, program: &Program, out: &mut Vec<Action>) {
        if !self.waiting.is_over() {
            return;
        }
        let refused = refused(&self.answers).cloned();
        let result = match (self.decided.take(), refused) {
            (Some(result), refused) => result.map_err(|error| match refused {
                Some(refused) if is_refused_elsewhere(&error) => refused,
                _ => error,
            }),
            (None, Some(error)) => Err(error),
            (None, None) => combined(program, (self.txn, &self.call), &self.answers),
        };
        self.finish(result, out);
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
