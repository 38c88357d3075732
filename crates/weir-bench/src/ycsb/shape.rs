//! Kinds and sizes of messages over items, for counting, charging and timing; the protocols themselves are unaware of them.
//!
//! Sizes are those of the fields in a plain binary form: shards two bytes, coordinators, clocks, sequences and positions eight. Messages
//! of rare events (termination, refusals) are only counted.

use weir_baselines::{e_pci, locking, none};
use weir_core::ids::CoordinatorId;
use weir_kv::message::{Note, Wanted};
use weir_kv::{Answer, ItemRead, Key, KeyRange, Reply, Request, Write};

/// A stamp: clock, coordinator, sequence.
const STAMP: usize = 24;
/// The id of a transaction, or of a read and its shard.
const ID: usize = 16;
const WORD: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub kind: &'static str,
    /// Items that it reads, writes or carries.
    pub operations: usize,
    pub bytes: usize,
    /// Part of these that the protocol adds for consistency with other items: not keys, values and one stamp of each item.
    pub metadata: usize,
}

/// A message that can be counted.
pub trait Shaped {
    fn shape(&self) -> Shape;
    /// For messages between shards: the coordinator on whose behalf they go.
    fn on_behalf_of(&self) -> Option<CoordinatorId> {
        None
    }
}

fn shape(kind: &'static str, operations: usize, payload: usize, metadata: usize) -> Shape {
    Shape { kind, operations, bytes: 1 + payload + metadata, metadata }
}

fn keys_bytes(keys: &[Key]) -> usize {
    keys.iter().map(|key| 1 + key.len()).sum()
}

fn ranges_bytes(ranges: &[KeyRange]) -> usize {
    ranges.iter().map(|range| 2 + range.from.len() + range.to.len()).sum()
}

fn write_bytes(write: &Write) -> usize {
    1 + match write {
        Write::Put(value) | Write::Insert(value) | Write::Max(value) => 4 + value.len(),
        Write::Add(_) => WORD,
        _ => 0,
    }
}

fn writes_bytes(writes: &[(Key, Write)]) -> usize {
    writes.iter().map(|(key, write)| 1 + key.len() + write_bytes(write)).sum()
}

fn item_bytes(item: &ItemRead) -> usize {
    1 + STAMP + item.value.as_ref().map_or(0, |value| 4 + value.len())
}

fn items_bytes(items: &[ItemRead]) -> usize {
    items.iter().map(item_bytes).sum()
}

fn entries_bytes(ranges: &[Vec<(Key, ItemRead)>]) -> usize {
    ranges.iter().flatten().map(|(key, item)| 1 + key.len() + item_bytes(item)).sum()
}

fn entries(ranges: &[Vec<(Key, ItemRead)>]) -> usize {
    ranges.iter().map(Vec::len).sum()
}

fn note_bytes(note: &Note) -> usize {
    1 + note.unsettled.iter().map(|one| STAMP + one.metadata.bytes()).sum::<usize>()
}

fn answers_bytes(ranges: &[Vec<(Key, Answer)>]) -> usize {
    let of =
        |(key, answer): &(Key, Answer)| 1 + key.len() + item_bytes(&answer.item) + note_bytes(&answer.note);
    ranges.iter().flatten().map(of).sum()
}

impl Shaped for Request {
    fn shape(&self) -> Shape {
        let wanted = |wanted: &Wanted| {
            let operations = wanted.keys.len() + wanted.ranges.len();
            (operations, ID + keys_bytes(&wanted.keys) + ranges_bytes(&wanted.ranges))
        };
        match self {
            Request::Write { writes, .. } => {
                shape("write", writes.len(), ID + WORD + writes_bytes(writes), 0)
            }
            Request::Prepare { writes, siblings, .. } => {
                // The sketch is a word; who the others are is for termination.
                let metadata = siblings.metadata.bytes() + WORD + 2 * siblings.participants.len();
                shape("prepare", writes.len(), ID + WORD + writes_bytes(writes), metadata)
            }
            Request::Commit { .. } => shape("commit", 0, STAMP, 0),
            Request::Get { wanted: what, naming, .. } => {
                let (operations, bytes) = wanted(what);
                shape("get", operations, bytes + WORD, WORD + STAMP * naming.len())
            }
            Request::GetAt { wanted: what, naming, .. } => {
                let (operations, bytes) = wanted(what);
                shape("get at", operations, bytes + WORD, WORD + STAMP * naming.len())
            }
            _ => shape("other", 0, ID, 0),
        }
    }
}

impl Shaped for Reply {
    fn shape(&self) -> Shape {
        match self {
            Reply::Written { .. } => shape("written", 0, STAMP, 0),
            Reply::Prepared { .. } => shape("prepared", 0, STAMP, 0),
            Reply::Committed { .. } => shape("committed", 0, ID, 0),
            Reply::Told { stamps, .. } => shape("told", 0, ID + WORD, STAMP * stamps.len()),
            Reply::Got { round, items, notes, ranges, .. } => {
                let kind = if *round == 1 { "got" } else { "got at" };
                let metadata = WORD + notes.iter().map(|(_, note)| 4 + note_bytes(note)).sum::<usize>();
                let operations = items.len() + ranges.iter().map(Vec::len).sum::<usize>();
                shape(kind, operations, ID + items_bytes(items) + answers_bytes(ranges), metadata)
            }
            _ => shape("other", 0, ID, 0),
        }
    }
}

impl Shaped for none::Request {
    fn shape(&self) -> Shape {
        let none::Request { keys, ranges, writes, .. } = self;
        let kind = if writes.is_empty() { "get" } else { "write" };
        let bytes = STAMP + keys_bytes(keys) + ranges_bytes(ranges) + writes_bytes(writes);
        shape(kind, keys.len() + ranges.len() + writes.len(), bytes, 0)
    }
}

impl Shaped for none::Reply {
    fn shape(&self) -> Shape {
        let operations = self.items.len() + entries(&self.ranges);
        let kind = if operations > 0 { "got" } else { "written" };
        shape(kind, operations, ID + items_bytes(&self.items) + entries_bytes(&self.ranges), 0)
    }
}

impl Shaped for locking::Request {
    fn shape(&self) -> Shape {
        match self {
            locking::Request::Lock { items, .. } => {
                let of =
                    |item: &locking::Item| 2 + item.key.len() + item.write.as_ref().map_or(0, write_bytes);
                shape("lock", items.len(), ID + 5 + WORD + items.iter().map(of).sum::<usize>(), 0)
            }
            locking::Request::Release { .. } => shape("release", 0, STAMP, 0),
            locking::Request::Get { keys, ranges, .. } => {
                shape("get", keys.len() + ranges.len(), ID + keys_bytes(keys) + ranges_bytes(ranges), 0)
            }
        }
    }
}

impl Shaped for locking::Reply {
    fn shape(&self) -> Shape {
        match self {
            locking::Reply::Granted { items, .. } => {
                shape("granted", items.len(), ID + 4 + WORD + items_bytes(items), 0)
            }
            locking::Reply::Released { .. } => shape("released", 0, ID, 0),
            locking::Reply::Got { items, ranges, .. } => {
                let operations = items.len() + entries(ranges);
                shape("got", operations, ID + items_bytes(items) + entries_bytes(ranges), 0)
            }
        }
    }
}

impl Shaped for e_pci::Request {
    fn shape(&self) -> Shape {
        match self {
            e_pci::Request::Prepare { writes, participants, .. } => {
                shape("prepare", writes.len(), ID + writes_bytes(writes), 2 + 2 * participants.len())
            }
            e_pci::Request::Vote { .. } => shape("vote", 0, ID + WORD, 0),
            e_pci::Request::Commit { .. } => shape("commit", 0, STAMP, 0),
            e_pci::Request::Get { keys, ranges, .. } => {
                let bytes = ID + WORD + keys_bytes(keys) + ranges_bytes(ranges);
                shape("get", keys.len() + ranges.len(), bytes, 0)
            }
            e_pci::Request::Check { txns, .. } => shape("check", 0, ID + WORD, ID * txns.len()),
            e_pci::Request::Checked { txns, .. } => shape("checked", 0, ID + WORD, (ID + 9) * txns.len()),
        }
    }

    fn on_behalf_of(&self) -> Option<CoordinatorId> {
        Some(match self {
            e_pci::Request::Prepare { txn, .. } | e_pci::Request::Vote { txn, .. } => txn.coordinator,
            e_pci::Request::Commit { stamp } => stamp.txn.coordinator,
            e_pci::Request::Check { reader, .. } | e_pci::Request::Checked { reader, .. } => {
                reader.coordinator
            }
            e_pci::Request::Get { .. } => return None,
        })
    }
}

impl Shaped for e_pci::Reply {
    fn shape(&self) -> Shape {
        match self {
            e_pci::Reply::Decided { .. } => shape("decided", 0, STAMP, 0),
            e_pci::Reply::Committed { .. } => shape("committed", 0, ID, 0),
            e_pci::Reply::Got { items, ranges, .. } => {
                let operations = items.len() + entries(ranges);
                shape("got", operations, ID + items_bytes(items) + entries_bytes(ranges), 0)
            }
            e_pci::Reply::TooOld { .. } => shape("too old", 0, ID + WORD, 0),
        }
    }
}
