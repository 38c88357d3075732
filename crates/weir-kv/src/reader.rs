//! One read of many items: GET_ALL of the three algorithms, and of ranges.
//!
//! Round one asks every shard for its newest state. Transactions in the answers that may not be on all shards are searched for in the
//! other answers; round two asks the shards that lack one for exactly their first state plus the named transactions (S5). There is no
//! third round.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use thin_vec::ThinVec;
use weir_core::ids::ShardId;

use super::bytes::{Bytes, Key};
use super::cut::Cut;
use super::faults::{ClientFaults, NoFaults};
use super::message::{Answer, ItemRead, KeyRange, Note, Position, Reply, Request, Stamp, Unsettled, Wanted};
use super::metadata::{Metadata, Names, Sketch, Variant};
use super::place::{ByShard, Slots, hash_of, part_at, shard_of, shard_of_hash};

/// Result of a read, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    pub items: Vec<ItemRead>,
    pub ranges: Vec<Vec<(Key, ItemRead)>>,
}

impl ReadSet {
    /// A result for that many items and ranges, all absent.
    pub fn absent(items: usize, ranges: usize) -> ReadSet {
        ReadSet { items: vec![ItemRead::ABSENT; items], ranges: vec![Vec::new(); ranges] }
    }

    /// Adds a shard's entries to each range.
    pub fn add_ranges(&mut self, answered: Vec<Vec<(Key, ItemRead)>>) {
        for (entries, answered) in self.ranges.iter_mut().zip(answered) {
            entries.extend(answered);
        }
    }

    /// Existing entries of all ranges, one range after another.
    pub fn into_entries(self) -> Vec<(Key, Bytes)> {
        let entries = self.ranges.into_iter().flatten();
        entries.filter_map(|(key, item)| Some((key, item.value?))).collect()
    }

    /// Sorts the entries of each range by key, once all shards have answered.
    pub fn sort_ranges(&mut self) {
        for entries in &mut self.ranges {
            entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        }
    }

    /// Highest clock of all stamps.
    pub fn newest_clock(&self) -> u64 {
        let ranges = self.ranges.iter().flatten().map(|(_, item)| item);
        self.items.iter().chain(ranges).map(|item| item.stamp.clock).max().unwrap_or(0)
    }
}

/// Up to this number of keys a linear search is used.
const FEW: usize = 4;

#[derive(Debug)]
pub struct Read<F = NoFaults> {
    variant: Variant,
    shards: ShardId,
    pub keys: Vec<Key>,
    pub ranges: Vec<KeyRange>,
    parts: SmallVec<[Part; 4]>,
    /// Allocated at the first answer.
    items: Vec<ItemRead>,
    /// Notes of round one by slot; there are few.
    notes: ThinVec<(u32, Note)>,
    /// Rarely used fields, boxed so that the hundreds of reads in flight stay in the cache.
    rare: Option<Box<Rare>>,
    pub rounds: u32,
    bugs: F,
}

/// State that only some reads need.
#[derive(Debug, Default)]
struct Rare {
    /// Entries of each range.
    entries: Vec<BTreeMap<Key, Answer>>,
    /// Own transactions that the read must see, by shard.
    own: BTreeMap<ShardId, Vec<Stamp>>,
    /// Transactions that a read of a cut names, by shard.
    of_cut: BTreeMap<ShardId, Vec<Stamp>>,
    /// Stamps of round one of RAMP-Small.
    told: Vec<Stamp>,
    /// Transactions missing in the answers of round one.
    lacking: ByShard<Lack>,
}

/// Request state of one shard.
#[derive(Debug)]
struct Part {
    shard: ShardId,
    /// The request has been sent and not answered.
    asked: bool,
    session: u64,
    position: Position,
    /// Positions of the read's keys on this shard.
    slots: Slots,
    keys: Sketch,
}

/// Lookup tables for reads of many keys, each built at its first use: a read of a hundred items may meet a hundred transactions that have
/// written a hundred items each.
#[derive(Debug, Default)]
struct Ways {
    /// By slot: position of its note plus one.
    noted: Vec<u32>,
    /// Open-addressing hash table: some bits of the hash, and the slot plus one.
    places: Vec<(u32, u32)>,
    /// By slot: hash for filters.
    hashes: Vec<u64>,
}

impl Ways {
    fn note(&mut self, keys: usize, notes: &[(u32, Note)]) {
        self.noted.resize(keys, 0);
        for (at, (slot, _)) in notes.iter().enumerate() {
            self.noted[*slot as usize] = at as u32 + 1;
        }
    }

    /// Slots of keys with that hash, and a few false positives.
    fn slots_of(&mut self, hash: u64, keys: &[Key]) -> impl Iterator<Item = u32> {
        if self.places.is_empty() {
            // Large enough that an absent key is nearly always recognised at its first position.
            self.places.resize((4 * keys.len()).next_power_of_two(), (0, 0));
            for (slot, key) in keys.iter().enumerate() {
                let (at, mark) = self.place_of(hash_of(key));
                let free = self.from(at).find(|at| self.places[*at].1 == 0).expect("three of four are free");
                self.places[free] = (mark, slot as u32 + 1);
            }
        }
        let (at, mark) = self.place_of(hash);
        let taken = self.from(at).map(|at| self.places[at]).take_while(|(_, slot)| *slot != 0);
        taken.filter(move |(one, _)| *one == mark).map(|(_, slot)| slot - 1)
    }

    /// First position of a hash, and its tag there.
    fn place_of(&self, hash: u64) -> (usize, u32) {
        (hash as usize & (self.places.len() - 1), (hash >> 32) as u32)
    }

    fn from(&self, at: usize) -> impl Iterator<Item = usize> {
        (at..self.places.len()).chain(0..at)
    }

    fn may_contain(&mut self, metadata: &Metadata, slot: usize, keys: &[Key]) -> bool {
        steps::count();
        let Metadata::Filter(filter) = metadata else { return metadata.may_contain(&keys[slot]) };
        if self.hashes.is_empty() {
            self.hashes = keys.iter().map(hash_of).collect();
        }
        filter.contains_hash(self.hashes[slot])
    }
}

/// Request of round two to one shard.
#[derive(Debug, Default)]
struct Lack {
    stamps: BTreeSet<Stamp>,
    slots: BTreeSet<u32>,
    /// Keys that belong to ranges.
    keys: BTreeSet<Key>,
    ranges: bool,
}

/// Next step of the coordinator.
#[derive(Debug)]
pub enum Step {
    Wait,
    Done(ReadSet),
    /// A shard did not know the reader, or has dropped it.
    Again,
}

impl<F: ClientFaults> Read<F> {
    /// Groups the keys by shard. `session`: registration of the coordinator at a shard.
    pub fn begin(
        bugs: F,
        variant: Variant,
        shards: ShardId,
        keys: Vec<Key>,
        ranges: Vec<KeyRange>,
        session: impl Fn(ShardId) -> u64,
    ) -> Read<F> {
        let part = |shard| {
            let session = session(shard);
            Part { shard, asked: false, session, position: 0, slots: Slots::new(), keys: Sketch::NONE }
        };
        let mut parts: SmallVec<[Part; 4]> = SmallVec::new();
        if !ranges.is_empty() {
            parts.extend((0..shards).map(part));
        }
        for (slot, key) in keys.iter().enumerate() {
            let hash = hash_of(key);
            let shard = shard_of_hash(hash, shards);
            let at = parts.iter().position(|part| part.shard == shard).unwrap_or_else(|| {
                parts.push(part(shard));
                parts.len() - 1
            });
            parts[at].slots.push(slot as u32);
            parts[at].keys = parts[at].keys.and(Sketch::of_hash(hash));
        }
        let rare = (!ranges.is_empty()).then(|| {
            let entries = ranges.iter().map(|_| BTreeMap::new()).collect();
            Box::new(Rare { entries, ..Rare::default() })
        });
        Read {
            variant,
            shards,
            items: Vec::new(),
            notes: ThinVec::new(),
            rare,
            rounds: 0,
            bugs,
            keys,
            ranges,
            parts,
        }
    }

    /// Sets the own transactions that the read must see, by shard.
    pub fn name_own(&mut self, own: BTreeMap<ShardId, Vec<Stamp>>) {
        if !own.is_empty() {
            self.rare.get_or_insert_default().own = own;
        }
    }

    /// A read of a known cut: consists of round two only.
    pub fn at_cut(
        variant: Variant,
        shards: ShardId,
        keys: Vec<Key>,
        ranges: Vec<KeyRange>,
        cut: &Cut,
    ) -> Read<F> {
        let mut read =
            Read::begin(F::default(), variant, shards, keys, ranges, |shard| cut.of(shard).session);
        let rare = read.rare.get_or_insert_default();
        for part in &mut read.parts {
            let of_shard = cut.of(part.shard);
            part.position = of_shard.position;
            part.asked = true;
            rare.of_cut.insert(part.shard, of_shard.naming.clone());
        }
        read.rounds = 2;
        read
    }

    /// Sends round one.
    pub fn ask(&mut self, read: u64, out: &mut Vec<(ShardId, Request)>) {
        self.parts.iter_mut().for_each(|part| part.asked = true);
        self.rounds = 1;
        self.send_pending(read, out);
    }

    /// Sends all unanswered requests (again).
    pub fn send_pending(&self, read: u64, out: &mut Vec<(ShardId, Request)>) {
        let pending = self.parts.iter().filter(|part| part.asked);
        out.extend(pending.map(|part| (part.shard, self.request(read, part))));
    }

    fn request(&self, read: u64, part: &Part) -> Request {
        let session = part.session;
        if self.rounds == 1 {
            let stamps_only = self.variant == Variant::Small && !self.bugs.reads_once();
            let own = self.rare.as_ref().and_then(|rare| rare.own.get(&part.shard));
            let naming = own.into_iter().flatten().copied().collect();
            let (wanted, elsewhere) = (self.wanted(&part.slots, true), self.elsewhere(part.shard));
            return Request::Get { read, session, wanted, elsewhere, stamps_only, naming };
        }
        let position = part.position;
        let Some(lack) = self.lack_of(part.shard) else {
            let wanted = self.wanted(&part.slots, true);
            let named = self.rare.as_ref().map(|rare| rare.of_cut.get(&part.shard).unwrap_or(&rare.told));
            let naming = named.into_iter().flatten().copied().collect();
            return Request::GetAt { read, session, wanted, position, naming };
        };
        let mut wanted = self.wanted(&lack.slots, lack.ranges);
        wanted.keys.extend(lack.keys.iter().cloned());
        let naming = lack.stamps.iter().copied().collect();
        Request::GetAt { read, session, wanted, position, naming }
    }

    /// Transactions missing in the shard's answer of round one.
    fn lack_of(&self, shard: ShardId) -> Option<&Lack> {
        let lacking = &self.rare.as_ref()?.lacking;
        lacking.iter().find(|(lacking, _)| *lacking == shard).map(|(_, lack)| lack)
    }

    fn wanted<'a>(&self, slots: impl IntoIterator<Item = &'a u32>, ranges: bool) -> Wanted {
        let keys = slots.into_iter().map(|slot| self.keys[*slot as usize].clone()).collect();
        let ranges = if ranges { self.ranges.iter().cloned().collect() } else { ThinVec::new() };
        Wanted { keys, ranges }
    }

    /// Sketch of the keys read on other shards; everything if the read has ranges.
    fn elsewhere(&self, shard: ShardId) -> Sketch {
        if self.variant == Variant::Small || (!self.ranges.is_empty() && !self.bugs.sketch_forgets_ranges()) {
            return Sketch::ALL;
        }
        let others = self.parts.iter().filter(|part| part.shard != shard);
        others.fold(Sketch::NONE, |sketch, part| sketch.and(part.keys))
    }

    /// Handles an answer; repetitions are ignored.
    pub fn on_reply(&mut self, read: u64, reply: Reply, out: &mut Vec<(ShardId, Request)>) -> Step {
        let (shard, round) = match &reply {
            Reply::Got { shard, round, .. } => (*shard, *round),
            Reply::Told { shard, .. } => (*shard, 1),
            _ => return Step::Again,
        };
        if round != self.rounds {
            return Step::Wait;
        }
        let Some(part) = self.parts.iter_mut().find(|part| part.shard == shard && part.asked) else {
            return Step::Wait;
        };
        part.asked = false;
        match reply {
            Reply::Told { position, stamps, .. } => {
                part.position = position;
                self.rare.get_or_insert_default().told.extend(stamps);
            }
            Reply::Got { position, items, notes, ranges, .. } => {
                part.position = position;
                if self.items.is_empty() {
                    self.items.resize(self.keys.len(), ItemRead::ABSENT);
                }
                if round == 1 {
                    self.notes.extend(notes.into_iter().map(|(at, note)| (part.slots[at as usize], note)));
                    put(&mut self.items, &part.slots, items);
                } else {
                    self.take_second(shard, items);
                }
                if let Some(rare) = &mut self.rare {
                    for (entries, answered) in rare.entries.iter_mut().zip(ranges) {
                        entries.extend(answered);
                    }
                }
            }
            _ => {}
        }
        if self.is_waiting() {
            return Step::Wait;
        }
        if self.rounds == 1 && !self.bugs.reads_once() {
            self.repair();
            if self.is_waiting() {
                self.rounds = 2;
                self.send_pending(read, out);
                return Step::Wait;
            }
        }
        Step::Done(self.finish())
    }

    /// Returns whether an answer is awaited.
    pub fn is_waiting(&self) -> bool {
        self.parts.iter().any(|part| part.asked)
    }

    /// Takes the items of round two, in the order of the request.
    fn take_second(&mut self, shard: ShardId, answered: ThinVec<ItemRead>) {
        let rare = self.rare.get_or_insert_default();
        let Some((_, lack)) = rare.lacking.iter().find(|(lacking, _)| *lacking == shard) else {
            let part = self.parts.iter().find(|part| part.shard == shard);
            return put(&mut self.items, &part.expect("it was asked").slots, answered);
        };
        let mut answered = answered.into_iter();
        for (slot, item) in lack.slots.iter().zip(answered.by_ref()) {
            self.items[*slot as usize] = item;
        }
        // Keys of ranges that were requested individually.
        for (key, item) in lack.keys.iter().zip(answered) {
            for (_, entries) in
                self.ranges.iter().zip(&mut rare.entries).filter(|(range, _)| range.contains(key))
            {
                entries.insert(key.clone(), Answer { item: item.clone(), note: Note::default() });
            }
        }
    }

    /// Determines the requests of round two.
    fn repair(&mut self) {
        match self.variant {
            // Requests every item again, with all transactions named in round one.
            Variant::Small => {
                let told = &mut self.rare.get_or_insert_default().told;
                told.sort_unstable();
                told.dedup();
                self.parts.iter_mut().for_each(|part| part.asked = true);
            }
            Variant::Fast | Variant::Hybrid { .. } => self.ask_for_what_is_named(),
        }
    }

    fn ask_for_what_is_named(&mut self) {
        if self.notes.is_empty() && self.ranges.is_empty() {
            return;
        }
        self.notes.sort_unstable_by_key(|(slot, _)| *slot);
        let of_items = self.notes.iter().map(|(_, note)| note);
        let of_ranges = self.entries().iter().flat_map(BTreeMap::values).map(|answer| &answer.note);
        // Each transaction once, with its metadata: an answer contains that once, and otherwise only the stamp.
        let all = || of_items.clone().chain(of_ranges.clone()).flat_map(|note| &note.unsettled);
        let is_bare = |unsettled: &&Unsettled| matches!(unsettled.metadata, Metadata::Stamp);
        let mut named: SmallVec<[&Unsettled; 4]> = all().filter(|unsettled| !is_bare(unsettled)).collect();
        named.sort_unstable_by_key(|unsettled| unsettled.stamp);
        named.dedup_by_key(|unsettled| unsettled.stamp);
        let known = |stamp: Stamp| named.binary_search_by_key(&stamp, |unsettled| unsettled.stamp).is_ok();
        // Undrained transactions written while the cluster ran RAMP-Small have no metadata: they may have written anything.
        let mut bare: SmallVec<[&Unsettled; 4]> =
            all().filter(is_bare).filter(|unsettled| !known(unsettled.stamp)).collect();
        bare.sort_unstable_by_key(|unsettled| unsettled.stamp);
        bare.dedup_by_key(|unsettled| unsettled.stamp);
        named.extend(bare);
        let mut lacking = ByShard::new();
        let mut ways = Ways::default();
        if self.keys.len() > FEW && !named.is_empty() {
            ways.note(self.keys.len(), &self.notes);
        }
        for Unsettled { stamp, metadata } in named {
            match metadata {
                Metadata::Items(names) => self.look_for_items(*stamp, names, &mut ways, &mut lacking),
                Metadata::Filter(_) | Metadata::Stamp => {
                    self.look_for_filter(*stamp, metadata, &mut ways, &mut lacking)
                }
            }
        }
        lacking.retain(|(_, lack)| !lack.stamps.is_empty());
        for part in &mut self.parts {
            part.asked = lacking.iter().any(|(shard, _)| *shard == part.shard);
        }
        if !lacking.is_empty() {
            self.rare.get_or_insert_default().lacking = lacking;
        }
    }

    /// Entries of each range.
    fn entries(&self) -> &[BTreeMap<Key, Answer>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.entries)
    }

    /// Returns whether the item was possibly read without the write of that transaction.
    fn lacks(&self, slot: usize, stamp: Stamp, ways: &Ways) -> bool {
        let item = &self.items[slot];
        if self.notes.is_empty() {
            return item.stamp < stamp;
        }
        let noted = match ways.noted.get(slot) {
            Some(at) => at.checked_sub(1).map(|at| at as usize),
            None => self.notes.binary_search_by_key(&slot, |(noted, _)| *noted as usize).ok(),
        };
        lacks(item, noted.map(|at| &self.notes[at].1), stamp)
    }

    fn key(&self, slot: u32) -> &Key {
        steps::count();
        &self.keys[slot as usize]
    }

    /// Slots of the read for that item; a few keys are compared directly.
    fn slots_of(&self, names: &Names, at: usize, ways: &mut Ways) -> Slots {
        let item = &names.keys()[at];
        if self.keys.len() <= FEW {
            return (0..self.keys.len() as u32).filter(|slot| self.key(*slot) == item).collect();
        }
        ways.slots_of(names.hashes()[at], &self.keys).filter(|slot| self.key(*slot) == item).collect()
    }

    /// RAMP-Fast: searches the listed items, including those missing from a range's answer.
    fn look_for_items(&self, stamp: Stamp, names: &Names, ways: &mut Ways, lacking: &mut ByShard<Lack>) {
        for (at, item) in names.keys().iter().enumerate() {
            for slot in self.slots_of(names, at, ways) {
                if self.lacks(slot as usize, stamp, ways) {
                    let lack = part_at(lacking, shard_of(item, self.shards), Lack::default);
                    lack.stamps.insert(stamp);
                    lack.slots.insert(slot);
                }
            }
            for (range, entries) in self.ranges.iter().zip(self.entries()) {
                let entered = entries.get(item);
                let lacked = entered.is_none_or(|answer| lacks(&answer.item, Some(&answer.note), stamp));
                if range.contains(item) && lacked {
                    let lack = part_at(lacking, shard_of(item, self.shards), Lack::default);
                    lack.stamps.insert(stamp);
                    lack.keys.insert(item.clone());
                }
            }
        }
    }

    /// RAMP-Hybrid: tests every item with the filter. Unknown items of a range cannot be tested, so the transaction is named to all
    /// shards of the range (S5).
    fn look_for_filter(
        &self,
        stamp: Stamp,
        metadata: &Metadata,
        ways: &mut Ways,
        lacking: &mut ByShard<Lack>,
    ) {
        for part in &self.parts {
            let lack = part_at(lacking, part.shard, Lack::default);
            lack.ranges = !self.ranges.is_empty();
            let mut is_named = lack.ranges;
            for slot in &part.slots {
                if is_named && lack.slots.len() == part.slots.len() {
                    // Full filters of long writes match everything, so further tests are useless.
                    break;
                }
                let at = *slot as usize;
                let is_new = !is_named || !lack.slots.contains(slot);
                if is_new && self.lacks(at, stamp, ways) && ways.may_contain(metadata, at, &self.keys) {
                    is_named = true;
                    lack.slots.insert(*slot);
                }
            }
            if is_named {
                lack.stamps.insert(stamp);
            }
        }
    }

    fn finish(&mut self) -> ReadSet {
        let items = std::mem::take(&mut self.items);
        let Some(rare) = &mut self.rare else { return ReadSet { items, ranges: Vec::new() } };
        let present = |entries: BTreeMap<Key, Answer>| {
            let present = entries.into_iter().filter(|(_, answer)| answer.item.value.is_some());
            present.map(|(key, answer)| (key, answer.item)).collect()
        };
        ReadSet { items, ranges: std::mem::take(&mut rare.entries).into_iter().map(present).collect() }
    }
}

fn put(items: &mut [ItemRead], slots: &[u32], answered: ThinVec<ItemRead>) {
    for (slot, item) in slots.iter().zip(answered) {
        items[*slot as usize] = item;
    }
}

fn lacks(item: &ItemRead, note: Option<&Note>, stamp: Stamp) -> bool {
    let noted = |unsettled: &Unsettled| unsettled.stamp == stamp;
    let contained = note.is_some_and(|note| note.unsettled.iter().any(noted));
    !contained && (item.stamp < stamp || note.is_some_and(|note| note.merged))
}

/// Counts key comparisons, for the test that the work is not quadratic in the number of keys.
mod steps {
    #[cfg(test)]
    thread_local! {
        static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    #[inline]
    pub fn count() {
        #[cfg(test)]
        STEPS.with(|steps| steps.set(steps.get() + 1));
    }

    #[cfg(test)]
    pub fn taken() -> u64 {
        STEPS.with(|steps| steps.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::ids::TxnId;

    const SHARDS: ShardId = 2;

    fn keys(count: usize) -> Vec<Key> {
        (0..count).map(|n| Key::from(format!("user{n}").as_str())).collect()
    }

    /// A race: one shard has `writers` writes of all `count` keys, and the other shard none. Returns the number of key comparisons, and
    /// the number of items requested again.
    fn race(variant: Variant, count: usize, writers: u64) -> (u64, usize) {
        let keys = keys(count);
        let stamp_of = |sequence| Stamp { clock: 9, txn: TxnId { coordinator: 1, sequence } };
        let metadata = variant.metadata(keys.iter());
        let mut read = Read::begin(NoFaults, variant, SHARDS, keys, Vec::new(), |_| 1);
        let mut sends = Vec::new();
        read.ask(0, &mut sends);
        steps::taken();
        for (shard, request) in std::mem::take(&mut sends) {
            let Request::Get { wanted, .. } = request else { panic!("{request:?}") };
            let newest = ItemRead { value: None, stamp: stamp_of(writers) };
            let item = if shard == 0 { newest } else { ItemRead::ABSENT };
            // An answer contains the metadata once.
            let note = |at: u32| {
                let metadata = if at == 0 { metadata.clone() } else { Metadata::Stamp };
                let of = |sequence| Unsettled { stamp: stamp_of(sequence), metadata: metadata.clone() };
                Note { merged: false, unsettled: (1..=writers).map(of).collect() }
            };
            let noted = if shard == 0 { wanted.keys.len() as u32 } else { 0 };
            let reply = Reply::Got {
                read: 0,
                shard,
                round: 1,
                position: 1,
                items: vec![item; wanted.keys.len()].into(),
                notes: (0..noted).map(|at| (at, note(at))).collect(),
                ranges: ThinVec::new(),
            };
            read.on_reply(0, reply, &mut sends);
        }
        let asked = sends.iter().map(|(shard, request)| match request {
            Request::GetAt { wanted, .. } if *shard == 1 => wanted.keys.len(),
            other => panic!("{other:?}"),
        });
        (steps::taken(), asked.sum())
    }

    /// Looking each of the writer's keys up takes a few.
    #[test]
    fn many_keys_take_a_few_steps_each() {
        for variant in [Variant::Fast, Variant::HYBRID] {
            for count in [4, 16, 17, 1_000, 1_024, 1_025, 20_000] {
                let (steps, asked) = race(variant, count, 1);
                let other = keys(count).iter().filter(|key| shard_of(key, SHARDS) == 1).count();
                assert_eq!(asked, other, "{} {count}", variant.name());
                let log = u64::from(usize::BITS - count.leading_zeros());
                assert!(steps <= 6 * count as u64 * log.max(4), "{} {count}: {steps} steps", variant.name());
            }
        }
    }

    /// A filter of 256 bits that has 128 keys says yes to nearly all.
    #[test]
    fn once_all_is_asked_for_a_writer_takes_a_few_steps() {
        let (one, asked) = race(Variant::HYBRID, 128, 1);
        let (hundred, asked_of_hundred) = race(Variant::HYBRID, 128, 100);
        assert_eq!(asked, asked_of_hundred);
        assert!(hundred - one <= 4 * 99, "{one} steps for one writer, {hundred} for a hundred");
    }
}
