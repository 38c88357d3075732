//! Bodies of frames: postcard, and what is allowed of it.

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

use crate::frame::{self, FRAME_BYTES_MAX, Fault, Kind};

/// This build speaks these versions (docs/internals/network.md says what each has brought; from one to the next, variants are added at the end
/// of an enum and fields at the end of a body).
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=13;

/// From this version on each request of a coordinator is followed by what it takes along (`weir_core::machine::Exposed::attachment`).
pub const ATTACHES_FROM: u16 = 6;

/// Adds the value to the body.
pub fn write(value: &impl Serialize, out: &mut Vec<u8>) {
    let written = postcard::to_extend(value, std::mem::take(out));
    *out = written.expect("memory takes all that is written");
}

/// As `write`, but ends soon after so many bytes: what is too large is not written out to its end to find that out.
fn write_upto(value: &impl Serialize, out: &mut Vec<u8>, bytes_max: usize) {
    // A body that is written then is too large as well.
    let _ = postcard::serialize_with_flavor(value, Bounded { out, bytes_max });
}

struct Bounded<'a> {
    out: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl Flavor for Bounded<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if self.out.len() > self.bytes_max {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Reads a value off the front of a body.
///
/// # Errors
/// It is not there.
pub fn read<'a, T: Deserialize<'a>>(kind: Kind, body: &mut &'a [u8]) -> Result<T, Fault> {
    let (value, rest) =
        postcard::take_from_bytes(body).map_err(|error| Fault::Body(kind, error.to_string()))?;
    *body = rest;
    Ok(value)
}

/// Nothing follows what has been read: the version has no more.
///
/// # Errors
/// Something does.
pub fn is_over(kind: Kind, body: &[u8]) -> Result<(), Fault> {
    match body.len() {
        0 => Ok(()),
        left => Err(Fault::Body(kind, format!("{left} bytes too many"))),
    }
}

/// So much goes into one frame, unless one item alone is more.
const FRAME_BYTES_ENOUGH: usize = 1 << 20;

/// Writes items into frames of a kind, at least one: each has the head, then items. Stops once `out` has so many bytes; gives how
/// many items have gone.
///
/// # Errors
/// An item that does not fit into a frame: its place. Those before it have gone.
pub fn push_frames<T: Serialize>(
    out: &mut Vec<u8>,
    kind: Kind,
    head: &impl Serialize,
    items: &[T],
    bytes_enough: usize,
) -> Result<usize, (usize, Fault)> {
    let mut gone = 0;
    loop {
        let mut upto = gone;
        frame::push(out, kind, |out| {
            let start = out.len();
            write(head, out);
            while let Some(item) = items.get(upto)
                && out.len() - start < FRAME_BYTES_ENOUGH
            {
                let before = out.len();
                write_upto(item, out, start + FRAME_BYTES_MAX);
                // A large one goes alone: with others it might not fit.
                if upto > gone && out.len() - before > FRAME_BYTES_ENOUGH {
                    return out.truncate(before);
                }
                upto += 1;
            }
        })
        .map_err(|fault| (gone, fault))?;
        gone = upto;
        if gone == items.len() || out.len() >= bytes_enough {
            return Ok(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_items_go_into_several_frames_and_come_back_in_order() {
        let items: Vec<(u32, Vec<u8>)> = (0..40).map(|n| (n, vec![n as u8; 100_000])).collect();
        let mut out = Vec::new();
        assert_eq!(push_frames(&mut out, Kind::Requests, &7_u64, &items, usize::MAX), Ok(40));
        let (mut rest, mut frames, mut back) = (&out[..], 0, Vec::new());
        while let Some(((kind, mut body), taken)) = frame::first(rest).unwrap() {
            assert_eq!(read::<u64>(kind, &mut body), Ok(7));
            while !body.is_empty() {
                back.push(read::<(u32, Vec<u8>)>(kind, &mut body).unwrap());
            }
            (rest, frames) = (&rest[taken..], frames + 1);
        }
        assert_eq!((frames, rest.len()), (4, 0));
        assert_eq!(back, items);
        assert_eq!(push_frames::<u8>(&mut out, Kind::Requests, &7_u64, &[], usize::MAX), Ok(0));
    }

    #[test]
    fn what_is_too_large_for_a_frame_is_named_and_what_is_large_goes_alone() {
        let large = vec![7_u8; FRAME_BYTES_MAX - 100];
        let items = [vec![1; 900_000], large, vec![2; FRAME_BYTES_MAX], vec![3]];
        let mut out = Vec::new();
        let (at, fault) = push_frames(&mut out, Kind::Replies, &7_u64, &items, usize::MAX).unwrap_err();
        assert!(at == 2 && matches!(fault, Fault::Length(_)), "{at}: {fault}");
        let (_, taken) = frame::first(&out).unwrap().unwrap();
        let (_, second) = frame::first(&out[taken..]).unwrap().unwrap();
        assert_eq!(taken + second, out.len());
        // No more than is enough, and then the rest.
        let mut out = Vec::new();
        assert_eq!(push_frames(&mut out, Kind::Replies, &7_u64, &items[..2], 1), Ok(1));
        assert_eq!(push_frames(&mut out, Kind::Replies, &7_u64, &items[1..2], 1), Ok(1));
    }
}
