//! Termination: what participants do when a coordinator is silent (ramp.txt §4.6; design.md §5; soundness S3, S9).
//!
//! Nobody waits: a participant asks the others now and then, and what they say is acted upon when it comes. One that has
//! committed means committed; one that has not prepared promises, in its log first, that it never will; what it means
//! that all have prepared is the protocol's to say. Nothing else decides: that a participant holds a newer version says
//! nothing of this one. The same for every protocol that prepares.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::machine::{CoordinatorId, RESEND_MS};
use crate::ramp::{ShardId, TxnId};
use crate::readers::Readers;

/// How long a shard bears a coordinator's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Then it asks the other participants of what that coordinator has left.
    pub terminate_ms: u64,
    /// Then, if nothing is left, it forgets the coordinator and takes no more writes from it.
    pub retire_ms: u64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { terminate_ms: 1_000, retire_ms: 60_000 }
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

/// What the other participants have said of transactions whose coordinators are silent.
#[derive(Debug, Default)]
pub struct Inquiries(BTreeMap<TxnId, Inquiry>);

impl Inquiries {
    /// How many transactions are asked for.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Drops from a map in order of transactions what lies below its coordinator's watermark, without a look at what stays.
pub(crate) fn forget_below<V>(of: &mut BTreeMap<TxnId, V>, readers: &Readers) {
    let mut next = of.keys().next().map(|txn| txn.coordinator);
    while let Some(coordinator) = next {
        let first = TxnId { coordinator, sequence: 0 };
        let below = TxnId { coordinator, sequence: readers.below(coordinator) };
        while let Some((&txn, _)) = of.range(first..below).next() {
            of.remove(&txn);
        }
        let last = TxnId { coordinator, sequence: u64::MAX };
        next = of.range((Bound::Excluded(last), Bound::Unbounded)).next().map(|(txn, _)| txn.coordinator);
    }
}

/// What is known of the other participants of a transaction.
#[derive(Debug, Default)]
struct Inquiry {
    told: SmallVec<[(ShardId, Fate); 4]>,
    /// The shard's age when it asked last.
    asked_ms: Option<u64>,
}

impl Inquiry {
    fn of(&self, shard: ShardId) -> Option<Fate> {
        self.told.iter().find(|(one, _)| *one == shard).map(|(_, fate)| *fate)
    }

    fn note(&mut self, shard: ShardId, fate: Fate) {
        match self.told.iter_mut().find(|(one, _)| *one == shard) {
            // A word that was held up must not undo a newer one.
            Some((_, Fate::Committed { .. })) => {}
            Some((_, known)) => *known = fate,
            None => self.told.push((shard, fate)),
        }
    }
}

/// A shard that finishes what silent coordinators have left. Provided methods are the protocol.
pub trait Terminates {
    fn readers(&self) -> &Readers;
    fn patience(&self) -> Patience;
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
        self.abort_what_is_over();
        let patience = self.patience();
        let silent: Vec<CoordinatorId> = self.readers().silent_for(patience.terminate_ms).collect();
        if !silent.is_empty() {
            let all = self.prepared().chain(self.unsettled());
            let mut left: Vec<TxnId> = all.filter(|txn| silent.contains(&txn.coordinator)).collect();
            left.sort_unstable();
            left.into_iter().for_each(|txn| self.inquire(txn, out));
            let silent: Vec<CoordinatorId> = self.readers().silent_for(patience.retire_ms).collect();
            for coordinator in
                silent.into_iter().filter(|coordinator| !self.has_left(*coordinator)).collect::<Vec<_>>()
            {
                self.retire(coordinator);
            }
        }
        let mut inquiries = std::mem::take(self.inquiries());
        inquiries.0.retain(|txn, _| self.is_unsettled(*txn));
        *self.inquiries() = inquiries;
        self.forget_what_is_below();
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

    fn inquire(&mut self, txn: TxnId, out: &mut Words) {
        self.decide(txn);
        if !self.is_unsettled(txn) {
            return;
        }
        let (others, age_ms) = (self.others(txn), self.readers().age_ms());
        let fate = self.fate(txn).expect("it is prepared or committed here");
        let inquiry = self.inquiries().0.entry(txn).or_default();
        if inquiry.asked_ms.is_some_and(|asked_ms| age_ms - asked_ms < RESEND_MS) {
            return;
        }
        inquiry.asked_ms = Some(age_ms);
        let is_prepared = matches!(fate, Fate::Prepared { .. });
        for other in others {
            let is_enough = match inquiry.of(other) {
                Some(Fate::Committed { .. }) => true,
                Some(Fate::Prepared { .. }) => is_prepared,
                Some(Fate::Refused) | None => false,
            };
            if !is_enough {
                out.push((other, Word::Ask { txn, fate }));
            }
        }
    }

    /// Commits what all participants have prepared, if that decides it, and settles what all have committed.
    fn decide(&mut self, txn: TxnId) {
        let others = self.others(txn);
        let fates: SmallVec<[Option<Fate>; 4]> = {
            let inquiry = self.inquiries().0.get(&txn);
            others.iter().map(|shard| inquiry.and_then(|inquiry| inquiry.of(*shard))).collect()
        };
        if let Some(Fate::Prepared { .. }) = self.fate(txn) {
            let clock = |fate: &Option<Fate>| match fate {
                Some(Fate::Prepared { clock }) => Some(*clock),
                _ => None,
            };
            let clocks: Option<SmallVec<[u64; 4]>> = fates.iter().map(clock).collect();
            if let Some(clock) = clocks.and_then(|clocks| self.clock_of_all_prepared(txn, &clocks)) {
                self.finish(txn, clock);
            }
        } else if fates.iter().all(|fate| matches!(fate, Some(Fate::Committed { .. }))) {
            self.settle(txn);
        }
    }

    fn finish(&mut self, txn: TxnId, clock: u64) {
        if self.commit_at(txn, clock) {
            self.terminated().0 += 1;
            // The others are told at once.
            if let Some(inquiry) = self.inquiries().0.get_mut(&txn) {
                inquiry.asked_ms = None;
            }
        }
    }

    fn on_word(&mut self, peer: ShardId, word: Word, out: &mut Words) {
        let (Word::Ask { txn, fate } | Word::Tell { txn, fate }) = word;
        // Whoever has no part in it cannot know what becomes of it.
        let takes_part = !self.is_unsettled(txn) || self.others(txn).contains(&peer);
        if let Word::Ask { .. } = word {
            let asked = if takes_part { fate } else { Fate::Refused };
            let own = self.answer(txn, asked);
            out.push((peer, Word::Tell { txn, fate: own }));
        }
        if takes_part {
            self.hear(peer, txn, fate);
        }
    }

    fn answer(&mut self, txn: TxnId, asked: Fate) -> Fate {
        if let Fate::Committed { clock } = asked {
            // Then all had prepared, so this shard has committed it or does so now.
            self.finish(txn, clock);
            return asked;
        }
        self.fate_for(txn, asked).unwrap_or_else(|| {
            self.promise(txn);
            Fate::Refused
        })
    }

    /// Another participant has said what it knows.
    fn hear(&mut self, peer: ShardId, txn: TxnId, fate: Fate) {
        match fate {
            Fate::Committed { clock } => self.finish(txn, clock),
            Fate::Refused => {
                let was = self.abort(txn);
                self.terminated().1 += u64::from(was);
            }
            Fate::Prepared { .. } => {}
        }
        if let Some(inquiry) = self.inquiries().0.get_mut(&txn) {
            inquiry.note(peer, fate);
            if self.is_unsettled(txn) {
                self.decide(txn);
            }
        }
    }
}
