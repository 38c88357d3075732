//! One read of many items: GET_ALL of the three algorithms, and of ranges.
//!
//! Round one asks every shard for its newest state. What of the answers may not be everywhere is looked for
//! in the others; round two asks the shards that lack something for exactly what they answered, plus the
//! named transactions (S5). There is no third round.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::bytes::{Bytes, Key};
use super::message::{Answer, KeyRange, Position, Reply, Request, Stamp, Wanted};
use super::metadata::{Metadata, Variant};
use super::place::{Slots, shard_of, slots_by_shard};
use crate::ramp::ShardId;

/// An item as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRead {
    pub value: Option<Bytes>,
    /// Of the newest write in it.
    pub stamp: Stamp,
}

impl ItemRead {
    /// Nobody has written it.
    pub const ABSENT: ItemRead = ItemRead { value: None, stamp: Stamp::NONE };
}

/// What a read gave, in the order in which it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    pub items: Vec<ItemRead>,
    pub ranges: Vec<Vec<(Key, ItemRead)>>,
}

impl ReadSet {
    /// So many items and ranges, of which nothing has been read.
    pub fn absent(items: usize, ranges: usize) -> ReadSet {
        ReadSet { items: vec![ItemRead::ABSENT; items], ranges: vec![Vec::new(); ranges] }
    }

    /// Adds what one shard has of each range.
    pub fn add_ranges(&mut self, answered: Vec<Vec<(Key, ItemRead)>>) {
        for (entries, answered) in self.ranges.iter_mut().zip(answered) {
            entries.extend(answered);
        }
    }

    /// Puts the entries of each range in order of keys, once all shards have answered.
    pub fn sort_ranges(&mut self) {
        for entries in &mut self.ranges {
            entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        }
    }

    /// Of all stamps in it.
    pub fn newest_clock(&self) -> u64 {
        let ranges = self.ranges.iter().flatten().map(|(_, item)| item);
        self.items.iter().chain(ranges).map(|item| item.stamp.clock).max().unwrap_or(0)
    }
}

#[derive(Debug)]
pub struct Read {
    variant: Variant,
    shards: ShardId,
    pub keys: Vec<Key>,
    pub ranges: Vec<KeyRange>,
    parts: Vec<Part>,
    answers: Vec<Option<Answer>>,
    entries: Vec<BTreeMap<Key, Answer>>,
    pub rounds: u32,
    /// Deliberate bug: there is no second round.
    pub looks_once: bool,
}

/// What is asked of one shard.
#[derive(Debug)]
struct Part {
    shard: ShardId,
    session: u64,
    /// Which of the read's keys are on the shard.
    slots: Slots,
    position: Position,
    /// What has been asked and not answered, to be asked again if need be.
    asked: Option<Asked>,
}

#[derive(Debug)]
enum Asked {
    /// All its keys, and all ranges.
    All { naming: Vec<Stamp> },
    /// What it lacked; a key of a range has no slot for its answer.
    Lacking { keys: Vec<Key>, slots: Vec<Option<u32>>, ranges: bool, naming: Vec<Stamp> },
}

/// What the coordinator is to do.
#[derive(Debug)]
pub enum Step {
    Wait,
    Done(ReadSet),
    /// A shard did not know the reader, or has let it go.
    Again,
}

impl Read {
    /// Groups the keys by shard and asks for round one. `session` says how the coordinator is registered at a shard;
    /// `naming` which transactions of its own it must see there.
    pub fn begin(
        variant: Variant,
        shards: ShardId,
        keys: Vec<Key>,
        ranges: Vec<KeyRange>,
        session: impl Fn(ShardId) -> u64,
    ) -> Read {
        let part = |(shard, slots)| Part { shard, session: session(shard), slots, position: 0, asked: None };
        let parts = slots_by_shard(&keys, !ranges.is_empty(), shards).into_iter().map(part).collect();
        Read {
            variant,
            shards,
            answers: keys.iter().map(|_| None).collect(),
            entries: ranges.iter().map(|_| BTreeMap::new()).collect(),
            rounds: 0,
            looks_once: false,
            keys,
            ranges,
            parts,
        }
    }

    /// Sends round one.
    pub fn ask(
        &mut self,
        read: u64,
        naming: impl Fn(ShardId) -> Vec<Stamp>,
        out: &mut Vec<(ShardId, Request)>,
    ) {
        for part in &mut self.parts {
            part.asked = Some(Asked::All { naming: naming(part.shard) });
        }
        self.rounds = 1;
        self.send_pending(read, out);
    }

    /// Sends (again) what is not answered.
    pub fn send_pending(&self, read: u64, out: &mut Vec<(ShardId, Request)>) {
        for part in &self.parts {
            let Some(asked) = &part.asked else { continue };
            let (wanted, naming) = match asked {
                Asked::All { naming } => {
                    let keys = part.slots.iter().map(|slot| self.keys[*slot as usize].clone());
                    (Wanted { keys: keys.collect(), ranges: self.ranges.clone() }, naming.clone())
                }
                Asked::Lacking { keys, ranges, naming, .. } => {
                    let ranges = if *ranges { self.ranges.clone() } else { Vec::new() };
                    (Wanted { keys: keys.clone(), ranges }, naming.clone())
                }
            };
            let session = part.session;
            let request = if self.rounds == 1 {
                let stamps_only = self.variant == Variant::Small && !self.looks_once;
                Request::Get { read, session, wanted, stamps_only, naming }
            } else {
                Request::GetAt { read, session, wanted, position: part.position, naming }
            };
            out.push((part.shard, request));
        }
    }

    /// Takes an answer; one that has come before changes nothing.
    pub fn on_reply(&mut self, read: u64, reply: Reply, out: &mut Vec<(ShardId, Request)>) -> Step {
        let Reply::Got { shard, round, position, answers, ranges, .. } = reply else { return Step::Again };
        if round != self.rounds {
            return Step::Wait;
        }
        let Some(part) = self.parts.iter_mut().find(|part| part.shard == shard) else { return Step::Wait };
        let Some(asked) = part.asked.take() else { return Step::Wait };
        part.position = position;
        match asked {
            Asked::All { .. } => {
                for (slot, answer) in part.slots.iter().zip(answers) {
                    self.answers[*slot as usize] = Some(answer);
                }
            }
            Asked::Lacking { keys, slots, .. } => {
                for ((key, slot), answer) in keys.iter().zip(slots).zip(answers) {
                    match slot {
                        Some(slot) => self.answers[slot as usize] = Some(answer),
                        None => self.enter(key, answer),
                    }
                }
            }
        }
        for (entries, answered) in self.entries.iter_mut().zip(ranges) {
            entries.extend(answered);
        }
        if self.is_waiting() {
            return Step::Wait;
        }
        if self.rounds == 1 && !self.looks_once {
            self.repair();
            if self.is_waiting() {
                self.rounds = 2;
                self.send_pending(read, out);
                return Step::Wait;
            }
        }
        Step::Done(self.finish())
    }

    /// An answer is awaited.
    fn is_waiting(&self) -> bool {
        self.parts.iter().any(|part| part.asked.is_some())
    }

    /// A key of a range, fetched on its own.
    fn enter(&mut self, key: &Key, answer: Answer) {
        for (range, entries) in self.ranges.iter().zip(&mut self.entries) {
            if range.contains(key) {
                entries.insert(key.clone(), answer.clone());
            }
        }
    }

    /// Decides what round two has to ask for.
    fn repair(&mut self) {
        match self.variant {
            Variant::Small => self.ask_everything_again(),
            Variant::Fast | Variant::Hybrid { .. } => self.ask_for_what_is_named(),
        }
    }

    fn all_answers(&self) -> impl Iterator<Item = (&Key, &Answer)> {
        let items = self.keys.iter().zip(self.answers.iter().flatten());
        items.chain(self.entries.iter().flatten())
    }

    /// RAMP-Small: every item again, with all stamps that round one gave.
    fn ask_everything_again(&mut self) {
        let mut stamps: BTreeSet<Stamp> = BTreeSet::new();
        for (_, answer) in self.all_answers() {
            stamps.insert(answer.stamp);
            stamps.extend(answer.unsettled.iter().map(|unsettled| unsettled.stamp));
        }
        stamps.remove(&Stamp::NONE);
        let naming: Vec<Stamp> = stamps.into_iter().collect();
        for part in &mut self.parts {
            part.asked = Some(Asked::All { naming: naming.clone() });
        }
        self.entries.iter_mut().for_each(BTreeMap::clear);
    }

    fn ask_for_what_is_named(&mut self) {
        if self.all_answers().all(|(_, answer)| answer.unsettled.is_empty()) {
            return;
        }
        // Each transaction once, with its metadata.
        let mut named: BTreeMap<Stamp, Metadata> = BTreeMap::new();
        for (_, answer) in self.all_answers() {
            for unsettled in &answer.unsettled {
                named.entry(unsettled.stamp).or_insert_with(|| unsettled.metadata.clone());
            }
        }
        let mut lacking: FxHashMap<ShardId, Lack> = FxHashMap::default();
        for (stamp, metadata) in &named {
            match metadata {
                Metadata::Items(items) => self.look_for_items(*stamp, items, &mut lacking),
                Metadata::Filter(_) | Metadata::Stamp => self.look_for_filter(*stamp, metadata, &mut lacking),
            }
        }
        for part in &mut self.parts {
            let Some(lack) = lacking.remove(&part.shard) else { continue };
            let mut keys = Vec::with_capacity(lack.slots.len() + lack.keys.len());
            let mut slots = Vec::with_capacity(keys.capacity());
            for slot in lack.slots {
                keys.push(self.keys[slot as usize].clone());
                slots.push(Some(slot));
            }
            for key in lack.keys {
                keys.push(key);
                slots.push(None);
            }
            let naming = lack.stamps.into_iter().collect();
            part.asked = Some(Asked::Lacking { keys, slots, ranges: lack.ranges, naming });
        }
    }

    /// RAMP-Fast knows the items by name, those of a range included that are missing from its answer.
    fn look_for_items(&self, stamp: Stamp, items: &[Key], lacking: &mut FxHashMap<ShardId, Lack>) {
        for item in items {
            for (slot, key) in self.keys.iter().enumerate() {
                if key == item && lacks(self.answers[slot].as_ref(), stamp) {
                    let lack = lacking.entry(shard_of(item, self.shards)).or_default();
                    lack.stamps.insert(stamp);
                    lack.slots.insert(slot as u32);
                }
            }
            for (range, entries) in self.ranges.iter().zip(&self.entries) {
                if range.contains(item) && lacks(entries.get(item), stamp) {
                    let lack = lacking.entry(shard_of(item, self.shards)).or_default();
                    lack.stamps.insert(stamp);
                    lack.keys.insert(item.clone());
                }
            }
        }
    }

    /// RAMP-Hybrid asks the filter about every item, and cannot ask it about items of a range that it does not
    /// know: the name goes to all shards of the range (S5).
    fn look_for_filter(&self, stamp: Stamp, metadata: &Metadata, lacking: &mut FxHashMap<ShardId, Lack>) {
        for (slot, key) in self.keys.iter().enumerate() {
            if lacks(self.answers[slot].as_ref(), stamp) && metadata.may_contain(key) {
                let lack = lacking.entry(shard_of(key, self.shards)).or_default();
                lack.stamps.insert(stamp);
                lack.slots.insert(slot as u32);
            }
        }
        if !self.ranges.is_empty() {
            for part in &self.parts {
                let lack = lacking.entry(part.shard).or_default();
                lack.stamps.insert(stamp);
                lack.ranges = true;
            }
        }
    }

    fn finish(&mut self) -> ReadSet {
        let item = |answer: Answer| ItemRead { value: answer.value, stamp: answer.stamp };
        let answers = std::mem::take(&mut self.answers);
        let ranges = std::mem::take(&mut self.entries);
        ReadSet {
            items: answers
                .into_iter()
                .map(|answer| item(answer.expect("every shard has answered")))
                .collect(),
            ranges: ranges
                .into_iter()
                .map(|entries| {
                    let present = entries.into_iter().filter(|(_, answer)| answer.value.is_some());
                    present.map(|(key, answer)| (key, item(answer))).collect()
                })
                .collect(),
        }
    }
}

/// What round two asks of one shard.
#[derive(Default)]
struct Lack {
    stamps: BTreeSet<Stamp>,
    slots: BTreeSet<u32>,
    keys: BTreeSet<Key>,
    ranges: bool,
}

/// The item was read without the write of that transaction, or may have been.
fn lacks(answer: Option<&Answer>, stamp: Stamp) -> bool {
    let Some(answer) = answer else { return true };
    let contained = answer.unsettled.iter().any(|unsettled| unsettled.stamp == stamp);
    !contained && (answer.merged || answer.stamp < stamp)
}
