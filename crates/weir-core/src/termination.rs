//! Termination: actions of participants when a coordinator is silent (ramp.txt §4.6; design.md §5; soundness S3, S9).
//!
//! No participant waits: it asks the others periodically, and acts on their answers when they arrive. If one has committed, the
//! transaction is committed; one that has not prepared promises, in its log first, that it never will; the protocol defines the outcome
//! if all have prepared. Nothing else decides: a newer version on a participant proves nothing about this transaction. Shared by all
//! protocols that prepare.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::ids::{CoordinatorId, ShardId, TxnId};
use crate::participant::{Committed as _, Participant, Participates, Transactions as _, TxnMap as _};

/// Time-outs for silent coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// After this time the shard asks the other participants about the coordinator's transactions.
    pub terminate_ms: u64,
    /// After this time, if nothing is left, it forgets the coordinator and rejects further writes from it.
    pub retire_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { terminate_ms: 1_000, retire_ms: 60_000 }
    }
}

/// State of a transaction at a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// Prepared, with the clock that was sent to the coordinator.
    Prepared { clock: u64 },
    /// Committed, with the clock of its stamp.
    Committed { clock: u64 },
    /// Aborted, or promised never to prepare here.
    Refused,
}

/// Message between participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Asks for the fate of a transaction, and reports the sender's own.
    Ask { txn: TxnId, fate: Fate },
    /// Reply to `Ask`.
    Tell { txn: TxnId, fate: Fate },
}

/// Messages to other shards. Each depends on every record noted so far: a promise is in the log before it is told.
pub type Words = Vec<(ShardId, Word)>;

/// Conversion between these messages and a protocol's requests.
pub trait Says: Sized {
    fn saying(word: Word) -> Self;
    /// None: the request is another one.
    fn word(&self) -> Option<Word>;
}

/// Implements [`Says`] for requests that have both messages among their variants.
#[macro_export]
macro_rules! says_words {
    ($request:ident) => {
        impl $crate::termination::Says for $request {
            fn saying(word: $crate::termination::Word) -> $request {
                use $crate::termination::Word;
                match word {
                    Word::Ask { txn, fate } => $request::Ask { txn, fate },
                    Word::Tell { txn, fate } => $request::Tell { txn, fate },
                }
            }

            fn word(&self) -> Option<$crate::termination::Word> {
                use $crate::termination::Word;
                match *self {
                    $request::Ask { txn, fate } => Some(Word::Ask { txn, fate }),
                    $request::Tell { txn, fate } => Some(Word::Tell { txn, fate }),
                    _ => None,
                }
            }
        }
    };
}
pub use says_words;

/// Interval of the search for transactions of silent coordinators: it visits all prepared and unsettled ones.
const LOOK_MS: u64 = 100;

/// Time without an answer after which a participant is asked again.
const ASK_MS: u64 = 100;

/// Largest number of transactions asked for at one tick of the timer: a silent coordinator may have left a hundred thousand, and other
/// work of the shard waits meanwhile.
const ASKED_AT_ONCE_MAX: usize = 4_096;

/// Answers of the other participants about transactions of silent coordinators, and times of the next questions.
#[derive(Debug, Default)]
pub struct Inquiries {
    of: FxHashMap<TxnId, Inquiry>,
    /// To be asked as soon as possible.
    ready: VecDeque<(u64, TxnId)>,
    /// To be asked (again) at that age of the shard; in this order, since all wait equally long.
    waiting: VecDeque<(u64, TxnId)>,
    /// Age of the shard at the last search.
    looked_ms: Option<u64>,
    /// Coordinators that were silent at that search, each with the age at its last message: their transactions are asked for.
    silent: FxHashMap<CoordinatorId, u64>,
}

impl Inquiries {
    /// Number of transactions asked for.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn begin(&mut self, txn: TxnId, others: &[ShardId], own: ShardId, age_ms: u64) {
        // All participants notice the silence at about the same time: the lowest shard asks first, and tells the others.
        let is_first = others.iter().all(|other| *other > own);
        let due_ms = if is_first { age_ms } else { age_ms + ASK_MS };
        self.of.insert(
            txn,
            Inquiry {
                told: others.iter().map(|other| (*other, None)).collect(),
                due_ms,
                has_committed: false,
            },
        );
        let queue = if is_first { &mut self.ready } else { &mut self.waiting };
        queue.push_back((due_ms, txn));
    }

    /// Next transaction whose participants must be asked (again).
    fn next_due(&mut self, age_ms: u64) -> Option<TxnId> {
        loop {
            let (due_ms, txn) = match self.ready.pop_front() {
                Some(next) => next,
                None if self.waiting.front().is_some_and(|(due_ms, _)| *due_ms <= age_ms) => {
                    self.waiting.pop_front()?
                }
                None => return None,
            };
            // Skips transactions that have been decided meanwhile.
            if self.of.get(&txn).is_some_and(|inquiry| inquiry.due_ms == due_ms) {
                return Some(txn);
            }
        }
    }

    /// Schedules the next question to participants that do not answer.
    fn wait(&mut self, txn: TxnId, age_ms: u64) {
        let Some(inquiry) = self.of.get_mut(&txn) else { return };
        inquiry.due_ms = age_ms + ASK_MS;
        self.waiting.push_back((inquiry.due_ms, txn));
    }
}

/// Answers of the other participants of a transaction.
#[derive(Debug)]
struct Inquiry {
    told: SmallVec<[(ShardId, Option<Fate>); 4]>,
    /// Age of the shard at which they are asked next.
    due_ms: u64,
    /// Another participant's answer has committed it here.
    has_committed: bool,
}

impl Inquiry {
    /// Returns whether that shard is a participant.
    fn note(&mut self, shard: ShardId, fate: Fate) -> bool {
        let Some((_, known)) = self.told.iter_mut().find(|(one, _)| *one == shard) else { return false };
        // A delayed message must not replace a newer state.
        if !matches!(known, Some(Fate::Committed { .. })) {
            *known = Some(fate);
        }
        true
    }

    /// Shards to ask, for a participant that has prepared, or committed.
    fn to_ask(&self, has_prepared: bool) -> impl Iterator<Item = ShardId> {
        let is_enough = move |fate: &Option<Fate>| match fate {
            Some(Fate::Committed { .. }) => true,
            Some(Fate::Prepared { .. }) => has_prepared,
            Some(Fate::Refused) | None => false,
        };
        self.told.iter().filter(move |(_, fate)| !is_enough(fate)).map(|(shard, _)| *shard)
    }

    /// Clocks of the prepares, if all others have prepared and none is known to have committed.
    fn prepared(&self) -> Option<SmallVec<[u64; 4]>> {
        let clock = |fate: &Option<Fate>| match fate {
            Some(Fate::Prepared { clock }) => Some(*clock),
            _ => None,
        };
        self.told.iter().map(|(_, fate)| clock(fate)).collect()
    }

    fn all_have_committed(&self) -> bool {
        self.told.iter().all(|(_, fate)| matches!(fate, Some(Fate::Committed { .. })))
    }
}

/// Termination of transactions of silent coordinators. Implemented here alone, for every shard that the core carries.
pub trait Terminates: Participates {
    /// Terminates transactions of silent coordinators.
    fn finish_the_silent(&mut self) -> Words {
        let mut words = Words::new();
        self.terminate(&mut words);
        words
    }

    /// Handles a message of another shard.
    fn on_peer(&mut self, peer: ShardId, request: &impl Says) -> Words {
        let mut words = Words::new();
        if let Some(word) = request.word() {
            self.on_word(peer, word, &mut words);
        }
        words
    }

    /// Implementation of [`Terminates::finish_the_silent`].
    fn terminate(&mut self, out: &mut Words) {
        let age_ms = self.participant().readers.age_ms();
        if self.participant_mut().inquiries.looked_ms.is_none_or(|looked_ms| age_ms - looked_ms >= LOOK_MS) {
            self.participant_mut().inquiries.looked_ms = Some(age_ms);
            self.abort_what_is_over();
            self.look(age_ms);
            self.retire_the_silent();
        }
        for _ in 0..ASKED_AT_ONCE_MAX {
            let Some(txn) = self.participant_mut().inquiries.next_due(age_ms) else { break };
            self.ask(txn, age_ms, out);
        }
    }

    /// Aborts prepared transactions that their coordinator has reported as over everywhere: the ABORT was lost.
    fn abort_what_is_over(&mut self) {
        let Participant { readers, .. } = self.participant();
        let prepared = self.participant().prepared().iter().map(|(txn, _)| txn);
        let mut over: Vec<TxnId> =
            prepared.filter(|txn| readers.is_below(txn.coordinator, txn.sequence)).collect();
        over.sort_unstable();
        over.into_iter().for_each(|txn| {
            self.abort(txn);
        });
    }

    /// Begins to ask for all transactions of silent coordinators.
    fn look(&mut self, age_ms: u64) {
        let participant = self.participant();
        let silent: FxHashMap<CoordinatorId, u64> =
            participant.readers.silent_since(participant.timeouts.terminate_ms).collect();
        let before = std::mem::take(&mut self.participant_mut().inquiries.silent);
        let is_new = |(coordinator, heard_ms): (&CoordinatorId, &u64)| {
            self.is_newly_silent(before.get(coordinator).copied(), *heard_ms)
        };
        let new: FxHashSet<CoordinatorId> =
            silent.iter().filter(|one| is_new(*one)).map(|(coordinator, _)| *coordinator).collect();
        self.participant_mut().inquiries.silent = silent;
        if new.is_empty() {
            return;
        }
        let participant = self.participant();
        let prepared = participant.prepared().iter().map(|(txn, _)| txn);
        let committed = participant.committed().iter();
        let unsettled = committed.filter(|(_, one)| !one.is_settled()).map(|(txn, _)| txn);
        let all = prepared.chain(unsettled);
        let mut left: Vec<TxnId> = all.filter(|txn| new.contains(&txn.coordinator)).collect();
        left.sort_unstable();
        for txn in left {
            if self.settles_itself(txn) {
                continue;
            }
            let own = self.own_id();
            let others = self.others(txn);
            if others.is_empty() {
                self.decide_alone(txn);
            } else if !self.participant_mut().inquiries.of.contains_key(&txn) {
                self.participant_mut().inquiries.begin(txn, &others, own, age_ms);
            }
        }
    }

    fn retire_the_silent(&mut self) {
        let participant = self.participant();
        let silent: Vec<CoordinatorId> =
            participant.readers.silent_for(participant.timeouts.retire_ms).collect();
        for coordinator in silent {
            if !self.participant().has_left(coordinator) {
                self.retire(coordinator);
            }
        }
    }

    fn ask(&mut self, txn: TxnId, age_ms: u64, out: &mut Words) {
        // Its coordinator may have returned, and will finish it.
        let fate = self.participant().fate(txn).filter(|_| self.participant().is_unsettled(txn));
        let inquiries = &mut self.participant_mut().inquiries;
        let (Some(fate), true) = (fate, inquiries.silent.contains_key(&txn.coordinator)) else {
            inquiries.of.remove(&txn);
            return;
        };
        let Some(inquiry) = inquiries.of.get(&txn) else { return };
        let to_ask = inquiry.to_ask(matches!(fate, Fate::Prepared { .. }));
        out.extend(to_ask.map(|other| (other, Word::Ask { txn, fate })));
        inquiries.wait(txn, age_ms);
    }

    /// The other participants of a transaction that is prepared or committed here.
    fn others(&self, txn: TxnId) -> SmallVec<[ShardId; 4]> {
        self.participant().others(txn, self.own_id()).collect()
    }

    fn clock_if_prepared(&self, txn: TxnId, others: &[u64]) -> Option<u64> {
        let prepared = self.participant().prepared().get(txn)?;
        self.clock_of_all_prepared(prepared, others)
    }

    fn commit_at(&mut self, txn: TxnId, clock: u64) -> bool {
        let Some(prepared) = self.participant().prepared().get(txn) else { return false };
        let stamp = self.stamp_at(txn, prepared, clock);
        self.commit(txn, stamp)
    }

    /// Decides a transaction without other participants.
    fn decide_alone(&mut self, txn: TxnId) {
        if let Some(clock) = self.clock_if_prepared(txn, &[]) {
            let was = self.commit_at(txn, clock);
            self.participant_mut().terminated.0 += u64::from(was);
        }
        self.participant_mut().settle(txn);
    }

    fn on_word(&mut self, peer: ShardId, word: Word, out: &mut Words) {
        let (Word::Ask { txn, fate } | Word::Tell { txn, fate }) = word;
        // A transaction prepared here may be prepared everywhere, so the message may decide it.
        if !self.participant_mut().inquiries.of.contains_key(&txn)
            && self.participant().is_unsettled(txn)
            && !self.settles_itself(txn)
        {
            let (others, own, age_ms) =
                (self.others(txn), self.own_id(), self.participant().readers.age_ms());
            self.participant_mut().inquiries.begin(txn, &others, own, age_ms);
        }
        let inquiry = self.participant_mut().inquiries.of.get_mut(&txn);
        // A shard that is not a participant cannot know the outcome.
        let takes_part = inquiry.is_none_or(|inquiry| inquiry.note(peer, fate));
        let fate = if takes_part { fate } else { Fate::Refused };
        let has_told_all = takes_part && self.hear(txn, fate, out);
        if matches!(word, Word::Ask { .. }) && !has_told_all {
            let fate = self.answer(txn, fate);
            out.push((peer, Word::Tell { txn, fate }));
        }
    }

    fn answer(&mut self, txn: TxnId, asked: Fate) -> Fate {
        if let Fate::Committed { .. } = asked {
            // Then all had prepared, so this shard has committed it.
            return asked;
        }
        self.fate_for(txn, asked).unwrap_or_else(|| {
            self.promise(txn);
            Fate::Refused
        })
    }

    /// Handles another participant's state, which may decide a prepared transaction. Returns whether all others have been informed of the
    /// decision.
    fn hear(&mut self, txn: TxnId, fate: Fate, out: &mut Words) -> bool {
        let Some(inquiry) = self.participant_mut().inquiries.of.get(&txn) else { return false };
        let decided = match fate {
            Fate::Committed { .. } if inquiry.has_committed => None,
            Fate::Committed { clock } => self.commit_at(txn, clock).then_some(fate),
            Fate::Refused => self.abort(txn).then_some(fate),
            Fate::Prepared { .. } => self.commit_if_all_have_prepared(txn),
        };
        if let Some(fate) = decided {
            self.finish(txn, fate, out);
        }
        if self.participant_mut().inquiries.of.get(&txn).is_some_and(Inquiry::all_have_committed) {
            self.participant_mut().settle(txn);
            self.participant_mut().inquiries.of.remove(&txn);
        }
        decided.is_some()
    }

    fn commit_if_all_have_prepared(&mut self, txn: TxnId) -> Option<Fate> {
        let others = self.participant_mut().inquiries.of.get(&txn)?.prepared()?;
        let clock = self.clock_if_prepared(txn, &others)?;
        self.commit_at(txn, clock).then_some(Fate::Committed { clock })
    }

    /// Ends an inquiry: the decision is sent to the other participants, which need not ask.
    fn finish(&mut self, txn: TxnId, fate: Fate, out: &mut Words) {
        let has_committed = matches!(fate, Fate::Committed { .. });
        let Some(inquiry) = self.participant_mut().inquiries.of.get_mut(&txn) else { return };
        inquiry.has_committed = has_committed;
        out.extend(inquiry.told.iter().map(|(other, _)| (*other, Word::Tell { txn, fate })));
        if has_committed {
            self.participant_mut().terminated.0 += 1;
        } else {
            self.participant_mut().inquiries.of.remove(&txn);
            self.participant_mut().terminated.1 += 1;
        }
    }
}

impl<S: Participates> Terminates for S {}
