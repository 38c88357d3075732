//! Termination: what participants do when a coordinator is silent (ramp.txt §4.6; design.md §5; soundness S3, S9).
//!
//! Nobody waits: a participant asks the others now and then, and what they say is acted upon when it comes. One that has
//! committed means committed; one that has not prepared promises, in its log first, that it never will; what it means
//! that all have prepared is the protocol's to say. Nothing else decides: that a participant holds a newer version says
//! nothing of this one. The same for every protocol that prepares.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::machine::CoordinatorId;
use crate::ramp::{ShardId, TxnId};
use crate::readers::Readers;

/// How long a shard bears a coordinator's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Then it asks the other participants of what that coordinator has left.
    pub terminate_ms: u64,
    /// Then, if nothing is left, it forgets the coordinator and takes no more writes from it.
    pub retire_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { terminate_ms: 1_000, retire_ms: 60_000 }
    }
}

/// What a participant knows of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// With the clock that the coordinator was answered, or would have been.
    Prepared { clock: u64 },
    /// With the clock of its stamp.
    Committed { clock: u64 },
    /// It has not prepared here, and never will; or it has aborted.
    Refused,
}

/// What one participant says to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// What has become of it, and what the asker knows itself.
    Ask { txn: TxnId, fate: Fate },
    /// The answer.
    Tell { txn: TxnId, fate: Fate },
}

/// Words to other shards.
pub type Words = Vec<(ShardId, Word)>;

/// How a protocol puts a word into a request of its own.
pub trait Says: Sized {
    fn saying(word: Word) -> Self;
    /// None: it says something else.
    fn word(&self) -> Option<Word>;
}

/// For requests that have both words among their variants.
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
pub(crate) use says_words;

/// A shard looks no more often for what silent coordinators have left: when one has fallen silent, it goes through all that is
/// prepared or unsettled.
const LOOK_MS: u64 = 100;

/// Without an answer for so long, a participant is asked again.
const ASK_MS: u64 = 100;

/// Of so many transactions a shard asks at one tick of its timer: a coordinator that falls silent may have left a hundred
/// thousand, and whatever else the shard has to do waits for their words.
const ASKED_AT_ONCE_MAX: usize = 4_096;

/// What the other participants have said of transactions whose coordinators are silent, and when they are asked next.
#[derive(Debug, Default)]
pub struct Inquiries {
    of: FxHashMap<TxnId, Inquiry>,
    /// To be asked as soon as there is time.
    ready: VecDeque<(u64, TxnId)>,
    /// To be asked again, or at last, at that age of the shard; in this order, for all wait equally long.
    waiting: VecDeque<(u64, TxnId)>,
    /// The shard's age when it looked last for what the silent have left.
    looked_ms: Option<u64>,
    /// Coordinators that were silent then, and the shard's age when each was heard last: what they have left is asked for.
    silent: FxHashMap<CoordinatorId, u64>,
}

impl Inquiries {
    /// How many transactions are asked for.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn begin(&mut self, txn: TxnId, others: &[ShardId], own: ShardId, age_ms: u64) {
        // All participants miss the coordinator at about the same time: the first asks, the others will be told.
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

    /// The next transaction whose participants are to be asked (again).
    fn next_due(&mut self, age_ms: u64) -> Option<TxnId> {
        loop {
            let (due_ms, txn) = match self.ready.pop_front() {
                Some(next) => next,
                None if self.waiting.front().is_some_and(|(due_ms, _)| *due_ms <= age_ms) => {
                    self.waiting.pop_front()?
                }
                None => return None,
            };
            // Most have been decided meanwhile.
            if self.of.get(&txn).is_some_and(|inquiry| inquiry.due_ms == due_ms) {
                return Some(txn);
            }
        }
    }

    /// Its participants have been asked: who does not answer is asked again.
    fn wait(&mut self, txn: TxnId, age_ms: u64) {
        let Some(inquiry) = self.of.get_mut(&txn) else { return };
        inquiry.due_ms = age_ms + ASK_MS;
        self.waiting.push_back((inquiry.due_ms, txn));
    }
}

/// Drops from a map in order of transactions what lies below its coordinator's watermark, without a look at what stays.
pub(crate) fn forget_below<V>(of: &mut BTreeMap<TxnId, V>, readers: &Readers) {
    let mut next = of.keys().next().map(|txn| txn.coordinator);
    while let Some(coordinator) = next {
        forget_of(of, coordinator, readers.below(coordinator));
        let last = TxnId { coordinator, sequence: u64::MAX };
        next = of.range((Bound::Excluded(last), Bound::Unbounded)).next().map(|(txn, _)| txn.coordinator);
    }
}

/// The same for one coordinator.
pub(crate) fn forget_of<V>(of: &mut BTreeMap<TxnId, V>, coordinator: CoordinatorId, below: u64) {
    let of_it = TxnId { coordinator, sequence: 0 }..TxnId { coordinator, sequence: below };
    while let Some((&txn, _)) = of.range(of_it.clone()).next() {
        of.remove(&txn);
    }
}

/// What is known of the other participants of a transaction.
#[derive(Debug)]
struct Inquiry {
    told: SmallVec<[(ShardId, Option<Fate>); 4]>,
    /// The shard's age when they are asked next.
    due_ms: u64,
    /// The word of another has committed it here.
    has_committed: bool,
}

impl Inquiry {
    /// Says whether that shard takes part.
    fn note(&mut self, shard: ShardId, fate: Fate) -> bool {
        let Some((_, known)) = self.told.iter_mut().find(|(one, _)| *one == shard) else { return false };
        // A word that was held up must not undo a newer one.
        if !matches!(known, Some(Fate::Committed { .. })) {
            *known = Some(fate);
        }
        true
    }

    /// Whom there is something to ask, for a participant that has prepared, or committed.
    fn to_ask(&self, has_prepared: bool) -> impl Iterator<Item = ShardId> {
        let is_enough = move |fate: &Option<Fate>| match fate {
            Some(Fate::Committed { .. }) => true,
            Some(Fate::Prepared { .. }) => has_prepared,
            Some(Fate::Refused) | None => false,
        };
        self.told.iter().filter(move |(_, fate)| !is_enough(fate)).map(|(shard, _)| *shard)
    }

    /// The clocks of the prepares, if all others have prepared and none is known to have committed.
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

/// A shard that finishes what silent coordinators have left. Provided methods are the protocol.
pub trait Terminates {
    fn own_id(&self) -> ShardId;
    fn readers(&self) -> &Readers;
    fn timeouts(&self) -> Timeouts;
    fn inquiries(&mut self) -> &mut Inquiries;
    /// Transactions that are prepared here.
    fn prepared(&self) -> impl Iterator<Item = TxnId>;
    /// Transactions that have committed here, and perhaps not everywhere.
    fn unsettled(&self) -> impl Iterator<Item = TxnId>;
    /// Prepared or committed here, and perhaps not committed everywhere.
    fn is_unsettled(&self, txn: TxnId) -> bool;
    /// The other participants of what is prepared or committed here.
    fn others(&self, txn: TxnId) -> SmallVec<[ShardId; 4]>;
    /// None: nothing has been heard of it.
    fn fate(&self, txn: TxnId) -> Option<Fate>;
    /// The clock at which a transaction commits that is prepared here and, with these clocks, everywhere else. None: that
    /// does not decide it.
    fn clock_of_all_prepared(&self, txn: TxnId, others: &[u64]) -> Option<u64>;
    /// Commits what is prepared here; says whether something was.
    fn commit_at(&mut self, txn: TxnId, clock: u64) -> bool;
    /// Forgets what is prepared here, for good; says whether something was.
    fn abort(&mut self, txn: TxnId) -> bool;
    /// A transaction that has not prepared here never will.
    fn promise(&mut self, txn: TxnId);
    /// All participants have committed it, which its coordinator may not know.
    fn settle(&mut self, txn: TxnId);
    /// What was kept for coordinators that know it by now.
    fn forget_what_is_below(&mut self);
    /// Something of its transactions is prepared here, or may be asked for by readers.
    fn has_left(&self, coordinator: CoordinatorId) -> bool;
    /// Takes nothing of it any more.
    fn retire(&mut self, coordinator: CoordinatorId);
    /// How many transactions have been committed and aborted by what other participants said.
    fn terminated(&mut self) -> &mut (u64, u64);

    /// What the other participants are told of a transaction that they ask for; none: nothing has been heard of it, so it
    /// is promised away. Overridden by planted bugs alone.
    fn fate_for(&self, txn: TxnId, _asked: Fate) -> Option<Fate> {
        self.fate(txn)
    }

    /// A coordinator is silent that was heard last at that age, and was so before or not. Who has said nothing since the last
    /// look has left nothing since. Overridden by planted bugs alone.
    fn is_newly_silent(&self, heard_before_ms: Option<u64>, heard_ms: u64) -> bool {
        heard_before_ms != Some(heard_ms)
    }

    /// What is left of silent coordinators.
    fn finish_the_silent<R: Says>(&mut self, out: &mut Vec<(ShardId, R)>) {
        let mut words = Words::new();
        self.terminate(&mut words);
        out.extend(words.into_iter().map(|(shard, word)| (shard, R::saying(word))));
    }

    /// Shards say nothing but words to each other.
    fn on_peer<R: Says>(&mut self, peer: ShardId, request: &R, out: &mut Vec<(ShardId, R)>) {
        let Some(word) = request.word() else { return };
        let mut words = Words::new();
        self.on_word(peer, word, &mut words);
        out.extend(words.into_iter().map(|(shard, word)| (shard, R::saying(word))));
    }

    /// The same, as words.
    fn terminate(&mut self, out: &mut Words) {
        let age_ms = self.readers().age_ms();
        if self.inquiries().looked_ms.is_none_or(|looked_ms| age_ms - looked_ms >= LOOK_MS) {
            self.inquiries().looked_ms = Some(age_ms);
            self.abort_what_is_over();
            self.look(age_ms);
            self.retire_the_silent();
            self.forget_what_is_below();
        }
        for _ in 0..ASKED_AT_ONCE_MAX {
            let Some(txn) = self.inquiries().next_due(age_ms) else { break };
            self.ask(txn, age_ms, out);
        }
    }

    /// A coordinator says of a transaction that it is over everywhere, and it has not committed here: it has
    /// aborted, and the word of that was lost.
    fn abort_what_is_over(&mut self) {
        let readers = self.readers();
        let over = self.prepared().filter(|txn| readers.is_below(txn.coordinator, txn.sequence));
        let mut over: Vec<TxnId> = over.collect();
        over.sort_unstable();
        over.into_iter().for_each(|txn| {
            self.abort(txn);
        });
    }

    /// Begins to ask for all that silent coordinators have left.
    fn look(&mut self, age_ms: u64) {
        let silent: FxHashMap<CoordinatorId, u64> =
            self.readers().silent_since(self.timeouts().terminate_ms).collect();
        let before = std::mem::take(&mut self.inquiries().silent);
        let is_new = |(coordinator, heard_ms): (&CoordinatorId, &u64)| {
            self.is_newly_silent(before.get(coordinator).copied(), *heard_ms)
        };
        let new: FxHashSet<CoordinatorId> =
            silent.iter().filter(|one| is_new(*one)).map(|(coordinator, _)| *coordinator).collect();
        self.inquiries().silent = silent;
        if new.is_empty() {
            return;
        }
        let all = self.prepared().chain(self.unsettled());
        let mut left: Vec<TxnId> = all.filter(|txn| new.contains(&txn.coordinator)).collect();
        left.sort_unstable();
        for txn in left {
            let (others, own) = (self.others(txn), self.own_id());
            if others.is_empty() {
                self.decide_alone(txn);
            } else if !self.inquiries().of.contains_key(&txn) {
                self.inquiries().begin(txn, &others, own, age_ms);
            }
        }
    }

    fn retire_the_silent(&mut self) {
        let silent: Vec<CoordinatorId> = self.readers().silent_for(self.timeouts().retire_ms).collect();
        for coordinator in silent {
            if !self.has_left(coordinator) {
                self.retire(coordinator);
            }
        }
    }

    fn ask(&mut self, txn: TxnId, age_ms: u64, out: &mut Words) {
        // Its coordinator may have come back, and will finish it.
        let fate = self.fate(txn).filter(|_| self.is_unsettled(txn));
        let inquiries = self.inquiries();
        let (Some(fate), true) = (fate, inquiries.silent.contains_key(&txn.coordinator)) else {
            inquiries.of.remove(&txn);
            return;
        };
        let Some(inquiry) = inquiries.of.get(&txn) else { return };
        let to_ask = inquiry.to_ask(matches!(fate, Fate::Prepared { .. }));
        out.extend(to_ask.map(|other| (other, Word::Ask { txn, fate })));
        inquiries.wait(txn, age_ms);
    }

    /// Nobody else has a part in it.
    fn decide_alone(&mut self, txn: TxnId) {
        if let Some(clock) = self.clock_of_all_prepared(txn, &[]) {
            let was = self.commit_at(txn, clock);
            self.terminated().0 += u64::from(was);
        }
        self.settle(txn);
    }

    fn on_word(&mut self, peer: ShardId, word: Word, out: &mut Words) {
        let (Word::Ask { txn, fate } | Word::Tell { txn, fate }) = word;
        // What has prepared here may have prepared everywhere, and the word may decide it.
        if !self.inquiries().of.contains_key(&txn) && self.is_unsettled(txn) {
            let (others, own, age_ms) = (self.others(txn), self.own_id(), self.readers().age_ms());
            self.inquiries().begin(txn, &others, own, age_ms);
        }
        let inquiry = self.inquiries().of.get_mut(&txn);
        // Whoever has no part in it cannot know what becomes of it.
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

    /// Another participant has said what it knows, which may decide what is prepared here. Says whether all others have
    /// been told so.
    fn hear(&mut self, txn: TxnId, fate: Fate, out: &mut Words) -> bool {
        let Some(inquiry) = self.inquiries().of.get(&txn) else { return false };
        let decided = match fate {
            Fate::Committed { .. } if inquiry.has_committed => None,
            Fate::Committed { clock } => self.commit_at(txn, clock).then_some(fate),
            Fate::Refused => self.abort(txn).then_some(fate),
            Fate::Prepared { .. } => self.commit_if_all_have_prepared(txn),
        };
        if let Some(fate) = decided {
            self.finish(txn, fate, out);
        }
        if self.inquiries().of.get(&txn).is_some_and(Inquiry::all_have_committed) {
            self.settle(txn);
            self.inquiries().of.remove(&txn);
        }
        decided.is_some()
    }

    fn commit_if_all_have_prepared(&mut self, txn: TxnId) -> Option<Fate> {
        let others = self.inquiries().of.get(&txn)?.prepared()?;
        let clock = self.clock_of_all_prepared(txn, &others)?;
        self.commit_at(txn, clock).then_some(Fate::Committed { clock })
    }

    /// It has been decided here: nobody else has to ask.
    fn finish(&mut self, txn: TxnId, fate: Fate, out: &mut Words) {
        let has_committed = matches!(fate, Fate::Committed { .. });
        let Some(inquiry) = self.inquiries().of.get_mut(&txn) else { return };
        inquiry.has_committed = has_committed;
        out.extend(inquiry.told.iter().map(|(other, _)| (*other, Word::Tell { txn, fate })));
        if has_committed {
            self.terminated().0 += 1;
        } else {
            self.inquiries().of.remove(&txn);
            self.terminated().1 += 1;
        }
    }
}
