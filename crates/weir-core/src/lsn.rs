//! Positions in the log of a shard, and the messages that wait until the log is durable up to them (soundness S16).

use std::collections::BTreeMap;

/// Log sequence number: how many records a shard has noted since its start, up to a position in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first record. A message that waits for it depends on no record.
    pub const START: Lsn = Lsn(0);

    /// Position after that many further records.
    pub fn plus(self, records: usize) -> Lsn {
        Lsn(self.0 + records as u64)
    }
}

/// A message of a shard, with the log position that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<To, Message> {
    pub to: To,
    pub message: Message,
    /// The message leaves once the log is durable up to this position. The position covers every record that the message depends on. It
    /// covers no record that the shard has not noted when the step ends, because such a record may never come.
    pub after: Lsn,
}

/// The log of a shard as its driver sees it: how far it has come, and the messages that wait for it.
#[derive(Debug)]
pub struct HeldMessages<M> {
    /// Position after the last record that the shard has noted.
    noted: Lsn,
    /// Position up to which the log is durable; never behind `noted`.
    durable: Lsn,
    /// All wait for positions behind `durable`, up to `noted`.
    held: BTreeMap<Lsn, Vec<M>>,
}

impl<M> Default for HeldMessages<M> {
    fn default() -> Self {
        HeldMessages { noted: Lsn::START, durable: Lsn::START, held: BTreeMap::new() }
    }
}

impl<M> HeldMessages<M> {
    pub fn noted(&self) -> Lsn {
        self.noted
    }

    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// Returns whether every record is durable. Then no message is held.
    pub fn is_durable(&self) -> bool {
        self.durable == self.noted
    }

    /// The shard has noted that many further records.
    pub fn note(&mut self, records: usize) {
        self.noted = self.noted.plus(records);
    }

    /// Position that a message waits for. Every message waits for the first record at least: with it the shard notes its incarnation, which
    /// no later start may have again once a coordinator knows of it.
    fn position_of(&self, after: Lsn) -> Lsn {
        after.max(Lsn(1).min(self.noted))
    }

    /// Returns whether a message that depends on the records up to there may leave.
    pub fn may_leave(&self, after: Lsn) -> bool {
        self.position_of(after) <= self.durable
    }

    /// Returns the message if it may leave, or holds it.
    ///
    /// # Panics
    /// The message waits for a record that the shard has not noted.
    pub fn hold(&mut self, after: Lsn, message: M) -> Option<M> {
        let after = self.position_of(after);
        if after <= self.durable {
            return Some(message);
        }
        assert!(after <= self.noted, "a message waits for {after:?}, and the log ends at {:?}", self.noted);
        self.held.entry(after).or_default().push(message);
        None
    }

    /// The log is durable up to this position. Returns the messages that may leave now, in the order of their positions.
    pub fn on_durable(&mut self, up_to: Lsn) -> impl Iterator<Item = M> + use<M> {
        self.durable = up_to;
        let held = self.held.split_off(&up_to.plus(1));
        std::mem::replace(&mut self.held, held).into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_waits_for_its_own_position() {
        let mut log = HeldMessages::default();
        assert_eq!(log.hold(Lsn::START, "without a log"), Some("without a log"));
        log.note(3);
        assert_eq!([log.hold(Lsn(3), "of 3"), log.hold(Lsn(2), "of 2"), log.hold(Lsn(3), "too")], [None; 3]);
        assert_eq!(log.hold(Lsn::START, "of none"), None, "the start itself is not durable");
        assert_eq!(log.on_durable(Lsn(1)).collect::<Vec<_>>(), ["of none"]);
        assert_eq!(log.hold(Lsn::START, "of none"), Some("of none"));
        assert_eq!(log.on_durable(Lsn(2)).collect::<Vec<_>>(), ["of 2"]);
        assert_eq!(log.hold(Lsn(2), "of 2"), Some("of 2"));
        assert!(!log.is_durable());
        assert_eq!(log.on_durable(Lsn(3)).collect::<Vec<_>>(), ["of 3", "too"]);
        assert!(log.is_durable());
    }

    #[test]
    #[should_panic(expected = "the log ends at Lsn(1)")]
    fn no_message_waits_for_what_may_never_come() {
        let mut log = HeldMessages::default();
        log.note(1);
        log.hold(Lsn(2), "for ever");
    }
}
