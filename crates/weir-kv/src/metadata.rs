//! Metadata of a write, from which readers determine the other items of its transaction (ramp.txt, Table 1).

use std::fmt;
use std::sync::{Arc, OnceLock};

use fastbloom::BloomFilter;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use triomphe::ThinArc;

use super::bytes::Key;
use super::place::hash_of;

/// One of the paper's three algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The keys of the write set: reads need a second round only after a race.
    Fast,
    /// Only the stamp: reads always take two rounds.
    Small,
    /// A Bloom filter of the keys: a second round after a race, or a false positive.
    Hybrid { bits: u32, hashes: u32 },
}

impl Variant {
    /// 256 bits and four hashes, as in ramp.txt §5.1.
    pub const HYBRID: Variant = Variant::Hybrid { bits: 256, hashes: 4 };

    /// `ramp-hybrid:BITS:HASHES` is RAMP-Hybrid with a filter of another size than the paper's.
    pub fn by_name(name: &str) -> Option<Variant> {
        match name {
            "ramp-fast" => Some(Variant::Fast),
            "ramp-small" => Some(Variant::Small),
            "ramp-hybrid" => Some(Variant::HYBRID),
            _ => {
                let (bits, hashes) = name.strip_prefix("ramp-hybrid:")?.split_once(':')?;
                let bits = bits.parse().ok().filter(|bits| (1..=FILTER_BITS_MAX).contains(bits))?;
                let hashes = hashes.parse().ok().filter(|hashes| (1..=HASHES_MAX).contains(hashes))?;
                Some(Variant::Hybrid { bits, hashes })
            }
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Variant::Fast => "ramp-fast",
            Variant::Small => "ramp-small",
            Variant::Hybrid { .. } => "ramp-hybrid",
        }
    }

    /// Metadata of the writes of a transaction with this write set.
    pub fn metadata<'a>(self, keys: impl ExactSizeIterator<Item = &'a Key>) -> Metadata {
        match self {
            Variant::Small => Metadata::Stamp,
            Variant::Fast => match keys.len() {
                ..=LISTED_MAX => Metadata::Items(Names::new(keys.cloned())),
                many => filter_of(keys, (many * BITS_OF_A_KEY) as u32, HASHES_OF_A_KEY),
            },
            Variant::Hybrid { bits, hashes } => filter_of(keys, bits, hashes),
        }
    }
}

/// Inverse of [`Variant::by_name`].
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Variant::Hybrid { bits, hashes } if *self != Variant::HYBRID => write!(f, ":{bits}:{hashes}"),
            _ => Ok(()),
        }
    }
}

/// Limit on the size of a filter, eight kilobytes: it travels with each write.
const FILTER_BITS_MAX: u32 = 65_536;
const HASHES_MAX: u32 = 64;

/// Number of keys up to which RAMP-Fast lists a write set; larger ones use a filter with a false-positive rate of one in two thousand.
pub const LISTED_MAX: usize = 1_024;
const BITS_OF_A_KEY: usize = 16;
const HASHES_OF_A_KEY: u32 = 11;

fn filter_of<'a>(keys: impl Iterator<Item = &'a Key>, bits: u32, hashes: u32) -> Metadata {
    let mut filter = empty_filter(bits, hashes);
    keys.for_each(|key| {
        filter.insert_hash(hash_of(key));
    });
    Metadata::Filter(Arc::new(filter))
}

/// The same on all nodes, which must hash alike.
const SEED: u128 = 0x5765_6972;

fn empty_filter(bits: u32, hashes: u32) -> BloomFilter {
    BloomFilter::with_num_bits(bits.max(1) as usize).seed(&SEED).hashes(hashes.max(1))
}

/// A set of keys in 64 bits, one bit a key: sets that have a key in common share a bit.
///
/// A read of RAMP-Fast and -Hybrid carries a sketch of its keys on other shards, and a write a sketch of its keys. If the two are
/// disjoint, the reader does not need the write's metadata and does not get it. An optimisation only: superfluous metadata leads to no
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch(u64);

impl Sketch {
    pub const NONE: Sketch = Sketch(0);
    /// Sketch of an unknown set of keys.
    pub const ALL: Sketch = Sketch(u64::MAX);

    #[cfg(test)]
    pub fn of<'a>(keys: impl Iterator<Item = &'a Key>) -> Sketch {
        keys.fold(Sketch::NONE, |sketch, key| sketch.and(Sketch::of_hash(hash_of(key))))
    }

    /// Sketch of one key, by the low bits of its hash: the high ones are alike for the keys of a shard.
    pub(super) fn of_hash(hash: u64) -> Sketch {
        Sketch(1 << (hash % 64))
    }

    /// Union of both.
    pub fn and(self, other: Sketch) -> Sketch {
        Sketch(self.0 | other.0)
    }

    /// Returns whether the sets may have a key in common.
    pub fn meets(self, other: Sketch) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Metadata {
    /// The stamp alone, which every version has.
    Stamp,
    Items(Names),
    #[serde(with = "filter")]
    Filter(Arc<BloomFilter>),
}

impl Metadata {
    /// Returns whether the transaction may have written the item. Only filters have false positives; there are no false negatives.
    pub fn may_contain(&self, key: &Key) -> bool {
        match self {
            Metadata::Stamp => true,
            Metadata::Items(names) => names.keys().contains(key),
            Metadata::Filter(filter) => filter.contains_hash(hash_of(key)),
        }
    }

    /// Bytes that it adds to a version, excluding the stamp.
    pub fn bytes(&self) -> usize {
        match self {
            Metadata::Stamp => 0,
            Metadata::Items(names) => names.keys().iter().map(|key| key.len()).sum(),
            Metadata::Filter(filter) => filter.num_bits() / 8,
        }
    }
}

/// Keys of a write set, shared by reference.
#[derive(Clone)]
pub struct Names(ThinArc<OnceLock<Box<[u64]>>, Key>);

impl Names {
    fn new(keys: impl ExactSizeIterator<Item = Key>) -> Names {
        Names(ThinArc::from_header_and_iter(OnceLock::new(), keys))
    }

    pub fn keys(&self) -> &[Key] {
        &self.0.slice
    }

    /// Hashes of the keys, computed once: with many long reads and writes this dominates the work.
    pub fn hashes(&self) -> &[u64] {
        self.0.header.header.get_or_init(|| self.keys().iter().map(hash_of).collect())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys().fmt(f)
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.keys().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        Ok(Names::new(Vec::<Key>::deserialize(deserializer)?.into_iter()))
    }
}

/// Serialised form of a filter: number of hashes, and bits. Filters that `metadata` cannot have produced are rejected.
mod filter {
    use serde::de::Error;

    use super::*;

    pub fn serialize<S: Serializer>(filter: &Arc<BloomFilter>, serializer: S) -> Result<S::Ok, S::Error> {
        (filter.num_hashes(), filter.as_slice()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<BloomFilter>, D::Error> {
        let (hashes, words) = <(u32, Vec<u64>)>::deserialize(deserializer)?;
        if words.is_empty() || !(1..=HASHES_MAX).contains(&hashes) {
            return Err(D::Error::custom("a filter without bits, or with too many hashes"));
        }
        Ok(Arc::new(BloomFilter::from_vec(words).seed(&SEED).hashes(hashes)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::shard_of;
    use super::*;

    #[test]
    fn no_variant_forgets_a_key() {
        let keys: Vec<Key> = (0..64).map(|n| Key::from(format!("user{n}").as_str())).collect();
        for variant in
            [Variant::Fast, Variant::Small, Variant::HYBRID, Variant::Hybrid { bits: 1, hashes: 1 }]
        {
            let metadata = variant.metadata(keys.iter());
            assert!(keys.iter().all(|key| metadata.may_contain(key)), "{variant:?}");
        }
    }

    #[test]
    fn a_filter_is_as_large_as_it_was_asked_for() {
        let keys: Vec<Key> = (0..64).map(|n| Key::from(format!("user{n}").as_str())).collect();
        for (name, bytes) in [("ramp-hybrid", 32), ("ramp-hybrid:512:6", 64), ("ramp-hybrid:65536:64", 8_192)]
        {
            let variant = Variant::by_name(name).expect(name);
            assert_eq!((variant.to_string().as_str(), variant.name()), (name, "ramp-hybrid"));
            let Metadata::Filter(filter) = variant.metadata(keys.iter()) else { panic!("{name}") };
            let Variant::Hybrid { hashes, .. } = variant else { panic!("{name}") };
            assert_eq!((filter.num_bits() / 8, filter.num_hashes()), (bytes, hashes), "{name}");
        }
        for name in ["ramp-fast", "ramp-small"] {
            assert_eq!(Variant::by_name(name).map(|variant| variant.to_string()).as_deref(), Some(name));
        }
        for wrong in [
            "ramp-hybrid:",
            "ramp-hybrid:512",
            "ramp-hybrid:0:4",
            "ramp-hybrid:64:65",
            "ramp-hybrid:65537:4",
            "ramp-small:64:4",
        ] {
            assert_eq!(Variant::by_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_long_list_of_keys_becomes_a_filter() {
        let keys: Vec<Key> = (0..100_000).map(|n| Key::from(format!("user{n}").as_str())).collect();
        let few = Variant::Fast.metadata(keys[..LISTED_MAX].iter());
        assert!(matches!(few, Metadata::Items(_)));
        let many = Variant::Fast.metadata(keys.iter());
        assert!(keys.iter().all(|key| many.may_contain(key)));
        let wrong = (100_000..120_000).filter(|n| many.may_contain(&Key::from(format!("user{n}").as_str())));
        assert!(wrong.count() <= 40);
        assert_eq!(many.bytes(), 200_000);
    }

    #[test]
    fn sketches_meet_where_a_key_is_in_both() {
        let keys: Vec<Key> = (0..400).map(|n| Key::from(format!("user{n}").as_str())).collect();
        let sketches: Vec<Sketch> = keys.chunks(4).map(|keys| Sketch::of(keys.iter())).collect();
        let mut met = 0;
        for (at, sketch) in sketches.iter().enumerate() {
            let own = &keys[4 * at..4 * at + 4];
            assert!(own.iter().all(|key| Sketch::of([key].into_iter()).meets(*sketch)));
            assert!(!sketch.meets(Sketch::NONE) && sketch.meets(Sketch::ALL));
            met += sketches[at + 1..].iter().filter(|other| other.meets(*sketch)).count();
        }
        // Four bits of 64 and four: one pair in four and a half meets by chance.
        assert!((4_950 / 6..4_950 / 3).contains(&met), "{met}");
    }

    #[test]
    fn a_filter_for_four_keys_is_rarely_wrong() {
        // The shard is determined by the hash too: keys of one shard of a hundred share its high bits.
        for shards in [1, 100] {
            let keys = (0..).map(|n| Key::from(format!("user{n}").as_str()));
            let mut keys = keys.filter(|key| shard_of(key, shards) == 0);
            let written: Vec<Key> = keys.by_ref().take(4).collect();
            let metadata = Variant::HYBRID.metadata(written.iter());
            let wrong = keys.take(10_000).filter(|key| metadata.may_contain(key));
            // Four keys set at most 16 of 256 bits: (16/256)^4 is one in 65,536.
            assert!(wrong.count() <= 3, "{shards} shards");
            assert_eq!(metadata.bytes(), 32);
        }
    }
}
