//! Frames: a length, a kind, a body.
//!
//! Cuts a stream of bytes into frames and refuses what cannot be one. Looks into no body.

use std::fmt;

/// Largest size of a frame, kind and body. The client rejects a transaction that does not fit.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
const LENGTH_BYTES: usize = 4;

/// Type of a frame's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Proof = 3,
    Requests = 4,
    Replies = 5,
    /// Requests of a shard to another.
    Peer = 6,
    Goodbye = 7,
    /// A coordinator asks for all that the shard has.
    Export = 8,
    /// A part of that, or of a description; the last one is empty.
    Exported = 9,
    /// The other side ends, and may come back: no reason to give anything up. From version [`FAREWELL_FROM`] on.
    Farewell = 10,
    /// Statements are to end that the node may be at; empty: they will. From [`COMPARES_FROM`](crate::handshake::COMPARES_FROM) on.
    Interrupt = 11,
}

/// First version that knows the farewell frame; for older peers the connection just ends.
pub const FAREWELL_FROM: u16 = 2;

/// Size of a part of a long message.
const PART_BYTES: usize = 1 << 20;

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{
            Export, Exported, Farewell, Goodbye, Hello, Interrupt, Peer, Proof, Replies, Requests, Welcome,
        };
        let all =
            [Hello, Welcome, Proof, Requests, Replies, Peer, Goodbye, Export, Exported, Farewell, Interrupt];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A kind and a body.
pub type Frame<'a> = (Kind, &'a [u8]);

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Length(usize),
    Kind(u8),
    /// The body of a frame of that kind does not say anything; why.
    Body(Kind, String),
    /// The frame makes sense, but not now, or not from this party; why.
    Sense(String),
    /// The other side has said why it ends.
    Goodbye(String),
    /// The other side ends for a while; why.
    Farewell(String),
    /// The connection broke, or the other side closed it.
    Io(String),
    /// This side's data is older than what the other side has seen of it; with the reason.
    Outdated(String),
}

impl Fault {
    pub fn sense(why: impl fmt::Display) -> Fault {
        Fault::Sense(why.to_string())
    }

    /// The two do not speak, and trying again will not help.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Fault::Goodbye(_) | Fault::Sense(_) | Fault::Outdated(_))
    }

    /// Returns whether the other side should be notified.
    pub fn is_ours(&self) -> bool {
        !matches!(self, Fault::Goodbye(_) | Fault::Farewell(_) | Fault::Io(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Length(0) => write!(f, "a frame of no bytes"),
            Fault::Length(length) => {
                write!(
                    f,
                    "a frame of {length} bytes, and {FRAME_BYTES_MAX} is the most (is it Weir that speaks?)"
                )
            }
            Fault::Kind(byte) => write!(f, "a frame of kind {byte}, which there is not"),
            Fault::Body(kind, why) => write!(f, "a {kind:?} frame that cannot be read: {why}"),
            Fault::Sense(why) | Fault::Outdated(why) => write!(f, "{why}"),
            Fault::Goodbye(why) => write!(f, "the other side ends the connection: {why}"),
            Fault::Farewell(why) | Fault::Io(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault::Io(error.to_string())
    }
}

/// The first frame of these bytes, if it is whole: its kind, its body, and how many bytes it takes.
///
/// # Errors
/// The first bytes are not a valid frame.
pub fn first(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Fault> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > FRAME_BYTES_MAX {
        return Err(Fault::Length(length));
    }
    // An invalid kind is detected before the rest has arrived.
    let Some(kind) = rest.first() else { return Ok(None) };
    let kind = Kind::of(*kind).ok_or(Fault::Kind(*kind))?;
    Ok(rest.get(1..length).map(|body| ((kind, body), LENGTH_BYTES + length)))
}

/// Everything but a frame of the kind that is due ends the connection.
///
/// # Errors
/// It is another frame.
pub fn expect(awaited: Kind, kind: Kind, body: &[u8]) -> Result<(), Fault> {
    match kind {
        Kind::Goodbye => Err(Fault::Goodbye(String::from_utf8_lossy(body).into_owned())),
        Kind::Farewell => Err(Fault::Farewell(String::from_utf8_lossy(body).into_owned())),
        kind if kind == awaited => Ok(()),
        kind => Err(Fault::sense(format_args!("a {kind:?} frame where {awaited:?} was due"))),
    }
}

/// Adds a frame whose body the closure writes.
///
/// # Errors
/// The body does not fit into a frame; then nothing has been added.
pub fn push(bytes: &mut Vec<u8>, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Fault> {
    let start = bytes.len();
    bytes.extend([0; LENGTH_BYTES]);
    bytes.push(kind as u8);
    write(bytes);
    let length = bytes.len() - start - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        bytes.truncate(start);
        return Err(Fault::Length(length));
    }
    bytes[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Adds something long, in parts and then an empty one.
///
/// # Errors
/// None that could come of parts of that size.
pub fn push_parts(bytes: &mut Vec<u8>, all: &[u8]) -> Result<(), Fault> {
    for part in all.chunks(PART_BYTES).chain([&[][..]]) {
        push(bytes, Kind::Exported, |out| out.extend(part))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_wherever_the_stream_is_cut() {
        let mut bytes = Vec::new();
        push(&mut bytes, Kind::Requests, |out| out.extend(b"four")).unwrap();
        push(&mut bytes, Kind::Goodbye, |_| ()).unwrap();
        for cut in 0..9 {
            assert_eq!(first(&bytes[..cut]), Ok(None), "{cut} bytes");
        }
        let (frame, taken) = first(&bytes).unwrap().unwrap();
        assert_eq!((frame, taken), ((Kind::Requests, &b"four"[..]), 9));
        assert_eq!(first(&bytes[taken..]), Ok(Some(((Kind::Goodbye, &b""[..]), 5))));
    }

    #[test]
    fn what_cannot_be_a_frame_is_refused_as_soon_as_it_shows() {
        let cases: [(&[u8], Fault); 4] = [
            (&[0, 0, 0, 0], Fault::Length(0)),
            (b"GET / HTTP/1.1", Fault::Length(u32::from_le_bytes(*b"GET ") as usize)),
            (&[2, 0, 0, 0, 0], Fault::Kind(0)),
            (&[2, 0, 0, 0, 99], Fault::Kind(99)),
        ];
        for (bytes, fault) in cases {
            assert_eq!(first(bytes), Err(fault));
        }
        let mut bytes = vec![7];
        let too_long = push(&mut bytes, Kind::Replies, |out| out.resize(FRAME_BYTES_MAX + 6, 0));
        assert!(matches!(too_long, Err(Fault::Length(_))));
        assert_eq!(bytes, [7]);
    }
}
