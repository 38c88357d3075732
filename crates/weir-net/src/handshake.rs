//! Handshake: identity of the peers, protocol version, and proof that both know the cluster's secret.
//!
//! Two state machines without a socket: frames go in, frames come out. Nonces are arguments. A proof covers both nonces
//! and the whole Hello, so that none can be used again, elsewhere or in another's name.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use weir_core::history::{Mark, Outdated, Seen};
use weir_core::ids::{Sender, ShardId};

use crate::body;
use crate::frame::{self, Fault, Kind, expect};

const MAGIC: [u8; 4] = *b"WEIR";

/// The protocol in which a client asks what the cluster carries, before it can know where that places things. The node tells it and
/// ends the connection.
pub const DESCRIPTION: &str = "description";

/// From this version on there is that protocol, and both sides name their builds.
const DESCRIBES_FROM: u16 = 2;

/// From this version on both sides say what they have seen of the other's data, and to which run of it they speak
/// (docs/internals/old-data.md); and a client may end a statement that a node computes.
pub const COMPARES_FROM: u16 = 5;

/// Protocol of connections that interrupt statements: the node handles such a request at once, even while its shards are busy, and closes
/// the connection.
pub const INTERRUPTS: &str = "interrupts";

/// Protocol of connections between the members of a replica group (docs/internals/replica-groups.md). What they agree on otherwise is as for
/// the shard.
pub const REPLICATION: &str = "replication";

/// From this version on there is that protocol.
pub const REPLICATES_FROM: u16 = 12;

/// Version of this build.
const BUILD: &str = env!("CARGO_PKG_VERSION");
/// Longest accepted build name of the peer, which is used in messages only.
const BUILD_BYTES_MAX: usize = 100;

pub type Nonce = [u8; 16];
type Proof = [u8; 32];

/// Parameters on which both parties must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub versions: RangeInclusive<u16>,
    /// Protocol: `items`, `sql`, or [`DESCRIPTION`].
    pub protocol: String,
    pub shards: ShardId,
    /// Fingerprint of the placement of data.
    pub placement: u64,
    /// Empty if the cluster has none.
    pub secret: Vec<u8>,
}

/// The first word of the one who dials. Its beginning is the same in all versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hello {
    magic: [u8; 4],
    from_version: u16,
    to_version: u16,
    protocol: String,
    shards: ShardId,
    placement: u64,
    from: Party,
    to: ShardId,
    nonce: Nonce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Party {
    Coordinator(u64),
    Shard(ShardId),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Welcome {
    version: u16,
    nonce: Nonce,
    proof: Proof,
}

/// A shard's statement about histories in a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Compared {
    /// Run of the sending shard's data; none: the sender is not a shard.
    run: Option<u64>,
    /// Mark last reported of that run.
    told: Option<Mark>,
    /// Marks seen of the other side's data.
    seen: Vec<Mark>,
}

impl Compared {
    /// Statement of `from` for `to`.
    fn new(seen: &Seen, from: Sender, to: Sender) -> Compared {
        let of_other = match to {
            Sender::Shard(to) => seen.marks(to),
            Sender::Coordinator(_) => Vec::new(),
        };
        match from {
            Sender::Shard(from) => Compared { run: seen.run(from), told: seen.told(from), seen: of_other },
            Sender::Coordinator(_) => Compared { run: None, told: None, seen: of_other },
        }
    }

    /// Applies the answer of `from` to this statement.
    fn confirm(&self, seen: &Seen, from: Sender, answer: &Compared) {
        if let (Sender::Shard(from), Some(run)) = (from, answer.run) {
            seen.confirm(from, run, &self.seen);
            seen.hear(from, answer.told.as_slice());
        }
    }
}

fn outdated(outdated: Outdated) -> Fault {
    Fault::Outdated(outdated.to_string())
}

/// Result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub version: u16,
    pub from: Sender,
    pub to: ShardId,
    /// The peer only requests the description of the cluster's application.
    pub wants_description: bool,
    /// Nothing but to have statements ended.
    pub interrupts: bool,
    /// The peer is another member of the shard's group.
    pub replicates: bool,
}

fn proof(secret: &[u8], by: &str, hello: &[u8], nonce: &Nonce) -> Hmac<Sha256> {
    let mut proof = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    for part in [by.as_bytes(), hello, nonce] {
        proof.update(&(part.len() as u64).to_le_bytes());
        proof.update(part);
    }
    proof
}

/// The side that dials.
#[derive(Debug)]
pub struct Dialer {
    terms: Terms,
    agreed: Agreed,
    hello: Vec<u8>,
    seen: Arc<Seen>,
    compared: Compared,
}

impl Dialer {
    /// Writes the first frame. `seen`: what this side knows of histories.
    pub fn begin(
        (terms, seen): (Terms, Arc<Seen>),
        from: Sender,
        to: ShardId,
        nonce: Nonce,
        out: &mut Vec<u8>,
    ) -> Dialer {
        let hello = Hello {
            magic: MAGIC,
            from_version: *terms.versions.start(),
            to_version: *terms.versions.end(),
            protocol: terms.protocol.clone(),
            shards: terms.shards,
            placement: terms.placement,
            from: match from {
                Sender::Coordinator(id) => Party::Coordinator(id),
                Sender::Shard(id) => Party::Shard(id),
            },
            to,
            nonce,
        };
        let mut written = Vec::new();
        body::write(&hello, &mut written);
        // Version 1 reads no further.
        body::write(&BUILD, &mut written);
        // Nor do those before version 5 read this.
        let compared = Compared::new(&seen, from, Sender::Shard(to));
        body::write(&compared, &mut written);
        frame::push(out, Kind::Hello, |out| out.extend(&written)).expect("it is short");
        let wants_description = terms.protocol == DESCRIPTION;
        let interrupts = terms.protocol == INTERRUPTS;
        let replicates = terms.protocol == REPLICATION;
        let agreed = Agreed { version: 0, from, to, wants_description, interrupts, replicates };
        Dialer { terms, agreed, hello: written, seen, compared }
    }

    /// Takes the answer, and writes the last frame.
    ///
    /// # Errors
    /// Why the two do not speak.
    pub fn on_frame(&self, kind: Kind, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<Agreed, Fault> {
        expect(Kind::Welcome, kind, bytes)?;
        let welcome: Welcome = body::read(kind, &mut bytes)?;
        let compares = welcome.version >= COMPARES_FROM;
        let said: Compared = if compares { body::read(kind, &mut bytes)? } else { Compared::default() };
        body::is_over(kind, bytes)?;
        if !self.terms.versions.contains(&welcome.version) {
            return Err(Fault::sense(format_args!(
                "it chose version {}, which was not offered",
                welcome.version
            )));
        }
        proof(&self.terms.secret, "accepts", &self.hello, &welcome.nonce)
            .verify_slice(&welcome.proof)
            .map_err(|_| Fault::sense("the node does not know the cluster's secret"))?;
        if let Sender::Shard(from) = self.agreed.from {
            self.seen.check(from, &said.seen).map_err(outdated)?;
        }
        if compares {
            self.compared.confirm(&self.seen, Sender::Shard(self.agreed.to), &said);
        }
        let own: Proof =
            proof(&self.terms.secret, "dials", &self.hello, &welcome.nonce).finalize().into_bytes().into();
        frame::push(out, Kind::Proof, |out| body::write(&own, out)).expect("it is short");
        Ok(Agreed { version: welcome.version, ..self.agreed })
    }
}

/// The side that accepts.
#[derive(Debug)]
pub struct Listener {
    terms: Terms,
    nonce: Nonce,
    seen: Arc<Seen>,
    /// After the Hello.
    heard: Option<Heard>,
}

/// Contents of an unproven Hello, and the answer to it.
#[derive(Debug)]
struct Heard {
    agreed: Agreed,
    hello: Vec<u8>,
    said: Compared,
    answered: Compared,
}

impl Listener {
    pub fn new((terms, seen): (Terms, Arc<Seen>), nonce: Nonce) -> Listener {
        Listener { terms, nonce, seen, heard: None }
    }

    /// Identity claimed by the peer's Hello, if it has arrived.
    pub fn guest(&self) -> Option<(Sender, ShardId)> {
        self.heard.as_ref().map(|heard| (heard.agreed.from, heard.agreed.to))
    }

    /// Takes a frame; gives what is agreed once the other side has proved itself.
    ///
    /// # Errors
    /// Why the two do not speak.
    pub fn on_frame(&mut self, kind: Kind, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Agreed>, Fault> {
        if kind == Kind::Hello && self.heard.is_none() {
            let (agreed, said) = self.on_hello(bytes)?;
            let proof = proof(&self.terms.secret, "accepts", bytes, &self.nonce);
            let proof = proof.finalize().into_bytes().into();
            let welcome = Welcome { version: agreed.version, nonce: self.nonce, proof };
            let mut answered = Compared::new(&self.seen, Sender::Shard(agreed.to), agreed.from);
            if !self.seen.may_contain(agreed.to, &said.seen) {
                // This side has older data, and ends once the other one has proved itself. It must not make that one take its run for the newest.
                (answered.run, answered.told) = (None, None);
            }
            let written = frame::push(out, Kind::Welcome, |out| {
                body::write(&welcome, out);
                // Older versions ignore the rest of the message, so it is only sent to newer ones.
                if agreed.version >= COMPARES_FROM {
                    body::write(&answered, out);
                }
            });
            written.expect("it is short");
            self.heard = Some(Heard { agreed, hello: bytes.to_vec(), said, answered });
            return Ok(None);
        }
        expect(if self.heard.is_some() { Kind::Proof } else { Kind::Hello }, kind, bytes)?;
        let Some(Heard { agreed, hello, said, answered }) = &self.heard else { return Ok(None) };
        proof(&self.terms.secret, "dials", hello, &self.nonce)
            .verify_slice(bytes)
            .map_err(|_| Fault::sense("it does not know the cluster's secret"))?;
        if agreed.version >= COMPARES_FROM {
            // A party that has not proved itself must not end anything by saying so.
            self.seen.check(agreed.to, &said.seen).map_err(outdated)?;
            answered.confirm(&self.seen, agreed.from, said);
        }
        let agreed = *agreed;
        self.heard = None;
        Ok(Some(agreed))
    }

    fn on_hello(&self, mut bytes: &[u8]) -> Result<(Agreed, Compared), Fault> {
        // Fields that later versions add to it are not read.
        let hello: Hello = body::read(Kind::Hello, &mut bytes)?;
        // Version 1 says no more.
        let build: String =
            if bytes.is_empty() { String::new() } else { body::read(Kind::Hello, &mut bytes)? };
        let terms = &self.terms;
        if hello.magic != MAGIC {
            return Err(Fault::sense("a Hello that is not Weir's"));
        }
        let (from, to) = (*terms.versions.start(), *terms.versions.end());
        if hello.to_version < from || hello.from_version > to || hello.from_version > hello.to_version {
            return Err(Fault::sense(format_args!(
                "this node speaks versions {from} to {to}, the other side {} to {}",
                hello.from_version, hello.to_version
            )));
        }
        let version = hello.to_version.min(to);
        let compared: Compared = match version >= COMPARES_FROM {
            true => body::read(Kind::Hello, &mut bytes)?,
            false => Compared::default(),
        };
        let interrupts = hello.protocol == INTERRUPTS && version >= COMPARES_FROM;
        let wants_description = hello.protocol == DESCRIPTION && version >= DESCRIBES_FROM;
        let is_aside = interrupts || wants_description;
        let replicates = hello.protocol == REPLICATION && version >= REPLICATES_FROM;
        if hello.protocol == DESCRIPTION && !wants_description {
            return Err(Fault::sense(format_args!(
                "a node describes what it carries from version {DESCRIBES_FROM} on, and the two speak version {version}: \
                 update the older one"
            )));
        }
        if hello.protocol != terms.protocol && !is_aside && !replicates {
            return Err(Fault::sense(format_args!(
                "this node carries `{}`, the other side asks for `{}`",
                terms.protocol, hello.protocol
            )));
        }
        if hello.shards != terms.shards || hello.to >= terms.shards {
            return Err(Fault::sense(format_args!(
                "this cluster has {} shards, the other side's file says {} (and it asks for shard {})",
                terms.shards, hello.shards, hello.to
            )));
        }
        if hello.placement != terms.placement && !is_aside {
            let build: String =
                build.chars().take(BUILD_BYTES_MAX).filter(|char| !char.is_control()).collect();
            let builds = if build.is_empty() || build == BUILD {
                String::new()
            } else {
                format!(" (this node is Weir {BUILD}, the other side {build})")
            };
            return Err(Fault::sense(format_args!(
                "the other side would place things elsewhere: it hashes keys in another way, or has another application, or another plan for it (is z3 installed here \
                 and not there?){builds}"
            )));
        }
        let from = match hello.from {
            Party::Coordinator(id) => Sender::Coordinator(id),
            Party::Shard(id) if id < terms.shards => Sender::Shard(id),
            Party::Shard(id) => return Err(Fault::sense(format_args!("there is no shard {id}"))),
        };
        let to = hello.to;
        Ok((Agreed { version, from, to, wants_description, interrupts, replicates }, compared))
    }
}

#[cfg(test)]
mod tests {
    use weir_core::history::Past;

    use super::*;

    fn terms() -> Terms {
        Terms { versions: 1..=2, protocol: "items".into(), shards: 3, placement: 7, secret: b"s3cret".into() }
    }

    /// Both sides, to the end: what was agreed, or why not.
    fn shake(dialer: Terms, listener: Terms, from: Sender, to: ShardId) -> Result<Agreed, Fault> {
        let (own, other) = (Arc::default(), Arc::default());
        shake_with((dialer, own), (listener, other), from, to)
    }

    fn shake_with(
        dialer: (Terms, Arc<Seen>),
        listener: (Terms, Arc<Seen>),
        from: Sender,
        to: ShardId,
    ) -> Result<Agreed, Fault> {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let dialer = Dialer::begin(dialer, from, to, [1; 16], &mut there);
        let mut listener = Listener::new(listener, [2; 16]);
        let ((kind, hello), _) = frame::first(&there)?.unwrap();
        assert_eq!(listener.on_frame(kind, hello, &mut back)?, None);
        let ((kind, welcome), _) = frame::first(&back)?.unwrap();
        there.clear();
        let of_dialer = dialer.on_frame(kind, welcome, &mut there)?;
        let ((kind, proof), _) = frame::first(&there)?.unwrap();
        let agreed = listener.on_frame(kind, proof, &mut back)?.expect("the proof is the last frame");
        assert_eq!(agreed, of_dialer);
        Ok(agreed)
    }

    #[test]
    fn the_highest_version_that_both_speak_is_used() {
        let with = |versions| Terms { versions, ..terms() };
        let from = Sender::Coordinator(9);
        for (dials, accepts, agreed) in [
            (1..=2, 1..=2, Some(2)),
            (1..=1, 1..=2, Some(1)),
            (1..=2, 1..=1, Some(1)),
            (2..=3, 1..=2, Some(2)),
            (3..=4, 1..=2, None),
            (1..=2, 3..=4, None),
        ] {
            let shaken = shake(with(dials.clone()), with(accepts.clone()), from, 2);
            assert_eq!(shaken.as_ref().ok().map(|agreed| agreed.version), agreed, "{dials:?} {accepts:?}");
            if let Err(fault) = shaken {
                let said = fault.to_string();
                assert!(said.contains(&format!("{} to {}", accepts.start(), accepts.end())), "{said}");
            }
        }
    }

    #[test]
    fn who_does_not_fit_is_told_why() {
        let cases = [
            (Terms { secret: b"guess".into(), ..terms() }, 0, "does not know the cluster's secret"),
            (Terms { protocol: "sql".into(), ..terms() }, 0, "carries `items`"),
            (Terms { shards: 4, ..terms() }, 0, "has 3 shards"),
            (terms(), 3, "asks for shard 3"),
            (Terms { placement: 8, ..terms() }, 0, "hashes keys"),
        ];
        for (dialer, to, why) in cases {
            let fault = shake(dialer, terms(), Sender::Coordinator(1), to).unwrap_err();
            assert!(fault.to_string().contains(why), "{fault}");
        }
        let asks = Terms { protocol: DESCRIPTION.into(), placement: 0, ..terms() };
        assert!(shake(asks.clone(), terms(), Sender::Coordinator(1), 0).unwrap().wants_description);
        for (dialer, listener) in [(1..=1, 1..=2), (1..=2, 1..=1)] {
            let (asks, older) =
                (Terms { versions: dialer, ..asks.clone() }, Terms { versions: listener, ..terms() });
            let fault = shake(asks, older, Sender::Coordinator(1), 0).unwrap_err();
            assert!(fault.to_string().contains("from version 2 on"), "{fault}");
        }
        assert!(shake(terms(), terms(), Sender::Shard(3), 0).is_err());
        assert_eq!(shake(terms(), terms(), Sender::Shard(2), 0).unwrap().from, Sender::Shard(2));
    }

    /// The side with older data answers before it refuses. What the other side knows of the newer run stays.
    #[test]
    fn older_data_does_not_make_others_forget_the_newer() {
        let newer = Mark { run: 1, position: 50 };
        let mut past = Past::default();
        past.history.begin(1, 0);
        past.history.end_at(20);
        let restored = Arc::new(Seen::default());
        restored.start(2, past, 7);
        restored.tell(2, 30);
        let other = Arc::new(Seen::default());
        other.start(0, Past::default(), 3);
        other.hear(2, &[newer]);
        let terms = || Terms { versions: COMPARES_FROM..=COMPARES_FROM, ..terms() };
        let shaken = shake_with((terms(), other.clone()), (terms(), restored), Sender::Shard(0), 2);
        assert!(shaken.unwrap_err().to_string().contains("is older than what has been seen"));
        assert_eq!(other.marks(2), [newer]);
    }

    #[test]
    fn a_proof_of_another_handshake_proves_nothing() {
        let mut out = Vec::new();
        let hello = |nonce: u8| {
            let mut out = Vec::new();
            Dialer::begin((terms(), Arc::default()), Sender::Coordinator(1), 0, [nonce; 16], &mut out);
            out
        };
        let mut first = Listener::new((terms(), Arc::default()), [3; 16]);
        let bytes = hello(1);
        let ((kind, body), _) = frame::first(&bytes).unwrap().unwrap();
        first.on_frame(kind, body, &mut out).unwrap();
        let replayed: Proof = proof(b"s3cret", "dials", body, &[4; 16]).finalize().into_bytes().into();
        let mut said = Vec::new();
        body::write(&replayed, &mut said);
        assert!(first.on_frame(Kind::Proof, &said, &mut out).is_err());
        // Nor does anything come before the Hello, or after the end.
        assert!(
            Listener::new((terms(), Arc::default()), [3; 16]).on_frame(Kind::Proof, &said, &mut out).is_err()
        );
        assert!(first.on_frame(Kind::Requests, &[], &mut out).is_err());
    }

    #[test]
    fn damaged_frames_never_panic() {
        let bytes = {
            let mut out = Vec::new();
            Dialer::begin((terms(), Arc::default()), Sender::Coordinator(1), 0, [1; 16], &mut out);
            out
        };
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                if let Ok(Some(((kind, body), _))) = frame::first(&damaged) {
                    let mut listener = Listener::new((terms(), Arc::default()), [2; 16]);
                    let _ = listener.on_frame(kind, body, &mut Vec::new());
                }
            }
        }
    }
}
