//! Bodies of frames: postcard, and what is allowed of it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, Fault, Kind};

/// This build speaks these versions (docs/network.md: from one to the next, variants are added at the end of an enum and
/// fields at the end of a body).
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;

/// Adds the value to the body.
pub fn write(value: &impl Serialize, out: &mut Vec<u8>) {
    let written = postcard::to_extend(value, std::mem::take(out));
    *out = written.expect("memory takes all that is written");
}

/// Reads a value off the front of a body.
///
/// # Errors
/// It is not there.
pub fn read<T: DeserializeOwned>(kind: Kind, body: &mut &[u8]) -> Result<T, Fault> {
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

/// Writes frames of a kind, at least one: each has the head, then items.
///
/// # Errors
/// An item that does not fit into a frame; those before it have been written.
pub fn push_frames<T: Serialize>(
    out: &mut Vec<u8>,
    kind: Kind,
    head: &impl Serialize,
    items: &[T],
) -> Result<(), Fault> {
    let mut left = items.iter();
    loop {
        frame::push(out, kind, |out| {
            let start = out.len();
            write(head, out);
            while out.len() - start < FRAME_BYTES_ENOUGH {
                let Some(item) = left.next() else { break };
                write(item, out);
            }
        })?;
        if left.len() == 0 {
            return Ok(());
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
        push_frames(&mut out, Kind::Requests, &7_u64, &items).unwrap();
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
        push_frames::<u8>(&mut out, Kind::Requests, &7_u64, &[]).unwrap();
    }
}
