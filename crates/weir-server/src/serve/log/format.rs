//! The bytes of a log's files: what each begins with, and its batches.
//!
//! Knows nothing of what is in a record, and opens no file.

use std::path::Path;

use weir_core::ids::ShardId;

use super::error::LogError;

/// Magic number of a file. Followed by the version; a salt; from version 2 on the shard; and the checksum of all of it.
const SEGMENT: [u8; 7] = *b"WEIRLOG";
const SNAPSHOT: [u8; 7] = *b"WEIRSNP";
/// Of the files that are begun. All before it are read: in 1 and 2 a segment that is not the first begins with a snapshot, and none
/// has room reserved at its end; claims of rows in the weaker strengths are in none before 4, zones of sessions in none before 5,
/// interval locks in none before 6, amounts under a bound in none before 7, answers that send a statement to another shard in none before 8,
/// rows ahead of their commit and ordered calls in none before 9, votes on ordered calls in none before 10,
/// ordered calls that the last participant decides in none before 11.
pub(super) const VERSION: u8 = 11;
/// Length of the preamble, by version, from 1 on.
const PREAMBLE_BYTES: [usize; 11] = [20, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22];
/// Higher values of the version byte are treated as damage, not as a newer version.
const VERSION_MAX: u8 = 15;

/// Start of a batch. Followed by the length of its body, the checksum, and the position up to which the segment was durable when it was
/// written.
const MARK: [u8; 4] = *b"wlb\x1e";
pub(super) const HEAD_BYTES: usize = 20;

/// From version 3 on a segment is as long as a multiple of this: one that is not was cut short.
pub(super) const STEP_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Segment,
    Snapshot,
}

/// Beginning of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preamble {
    pub salt: u64,
    /// None in version 1.
    shard: Option<ShardId>,
    pub length: usize,
    pub version: u8,
}

impl Preamble {
    /// Preamble of a new file.
    pub fn new(kind: Kind, shard: ShardId, salt: u64) -> (Preamble, Vec<u8>) {
        let name = if kind == Kind::Segment { SEGMENT } else { SNAPSHOT };
        let mut bytes = [&name[..], &[VERSION], &salt.to_le_bytes(), &shard.to_le_bytes()].concat();
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        (Preamble { salt, shard: Some(shard), length: bytes.len(), version: VERSION }, bytes)
    }

    /// Reads the preamble of a file of that shard.
    pub fn of(kind: Kind, bytes: &[u8], shard: ShardId, file: &Path) -> Result<Preamble, LogError> {
        let name = if kind == Kind::Segment { SEGMENT } else { SNAPSHOT };
        let version = bytes.strip_prefix(&name).and_then(|rest| rest.first().copied());
        if let Some(newer) = version.filter(|version| (VERSION + 1..=VERSION_MAX).contains(version)) {
            return Err(LogError::Newer(file.into(), newer));
        }
        let read = || {
            let version = version?;
            let length = *PREAMBLE_BYTES.get(usize::from(version.checked_sub(1)?))?;
            let (said, sum) = bytes.get(..length)?.split_last_chunk::<4>()?;
            let (salt, rest) = said[8..].split_first_chunk::<8>()?;
            let shard = rest.first_chunk::<2>().map(|shard| ShardId::from_le_bytes(*shard));
            let is_whole = crc32c::crc32c(said).to_le_bytes() == *sum;
            is_whole.then(|| Preamble { salt: u64::from_le_bytes(*salt), shard, length, version })
        };
        let Some(preamble) = read() else {
            let is_snapshot = kind == Kind::Snapshot;
            let why = if is_snapshot {
                "it does not begin as a snapshot does"
            } else {
                "it does not begin as a log does"
            };
            return Err(LogError::Damaged { file: file.into(), offset: 0, why: why.into(), is_snapshot });
        };
        match preamble.shard.filter(|of| *of != shard) {
            Some(of) => Err(LogError::Misplaced(file.into(), of)),
            None => Ok(preamble),
        }
    }

    /// A segment of before snapshots had files of their own: it needs none before it, and ends where its bytes end.
    pub fn stands_alone(&self) -> bool {
        self.version < 3
    }
}

/// Of all of the batch but the sum itself, at that place of that file: what was copied from elsewhere, as a value of a user's
/// may be, is no batch.
fn checksum(batch: &[u8], offset: u64, salt: u64) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&offset.to_le_bytes()), &salt.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &batch[..8]), &batch[12..])
}

/// Completes a batch whose body is in place behind room for its head.
pub(super) fn seal(batch: &mut [u8], (offset, salt): (u64, u64), synced: u64) {
    let body = (batch.len() - HEAD_BYTES) as u32;
    batch[..4].copy_from_slice(&MARK);
    batch[4..8].copy_from_slice(&body.to_le_bytes());
    batch[12..20].copy_from_slice(&synced.to_le_bytes());
    let sum = checksum(batch, offset, salt);
    batch[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// Length of the batch that these bytes begin with, if it is one; it need not be whole.
pub(super) fn batch_length(head: &[u8]) -> Option<usize> {
    let head = head.first_chunk::<HEAD_BYTES>()?;
    let body = u32::from_le_bytes(*head[4..].first_chunk()?);
    (head[..4] == MARK).then_some(HEAD_BYTES + body as usize)
}

/// The batch that these bytes begin with: its body, its length, and how much of the file it knows to be durable.
pub(super) fn batch_at(bytes: &[u8], offset: u64, salt: u64) -> Option<(&[u8], usize, u64)> {
    let batch = bytes.get(..batch_length(bytes)?)?;
    let sum = u32::from_le_bytes(*batch[8..].first_chunk()?);
    let synced = u64::from_le_bytes(*batch[12..].first_chunk()?);
    (checksum(batch, offset, salt) == sum).then_some((&batch[HEAD_BYTES..], batch.len(), synced))
}

/// A later batch, which begins before `until`, and was written when what is at the offset was durable.
pub(super) fn durable_after(bytes: &[u8], offset: u64, until: u64, salt: u64) -> Option<u64> {
    (offset + 1..until).find(|later| {
        let rest = &bytes[*later as usize..];
        rest.starts_with(&MARK) && batch_at(rest, *later, salt).is_some_and(|(_, _, synced)| synced > offset)
    })
}
